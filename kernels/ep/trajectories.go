package ep

import (
	"context"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/stop"
)

// Trajectories visits the smoothed beliefs: by feature, in the order of time, one for each row that
// touches it, at the time of that row. A zero value touches; known weights stay what they are, with
// variance 0. Without process noise all entries of a weight are its posterior. Times are those of
// the rows, without times 1, 2, ...
//
// Cost: diagonal O(nnz); full with process noise O(p²) time per non-zero and √n p² numbers of
// memory.
//
// Errors: those of the smoothed posterior, as for Fit.
func (r *Result) Trajectories(ctx context.Context, visit func(feature string, time, mean, variance float64)) (err error) {
	s := stop.Watch(ctx, 0)
	defer s.End(&err)
	r.p.Stop = s
	return r.trajectories(visit)
}

func (r *Result) trajectories(visit func(feature string, time, mean, variance float64)) error {
	mean, variance, err := r.e.touches()
	if err != nil {
		return err
	}
	p := r.p
	// Rows by column: a counting sort of the non-zeros.
	next := make([]int, p.P+1)
	for _, j := range p.Col {
		next[j+1]++
	}
	for j := range p.P {
		next[j+1] += next[j]
	}
	entry, row := make([]int, len(p.Col)), make([]int32, len(p.Col))
	for i := range p.N {
		for e := p.Row[i]; e < p.Row[i+1]; e++ {
			k := next[p.Col[e]]
			next[p.Col[e]]++
			entry[k], row[k] = e, int32(i)
		}
	}
	from := 0
	p.Features(func(name string, j int, known kernels.Weight, times []float64) {
		if j < 0 {
			for _, t := range times {
				visit(name, t, known.Mean, known.Variance)
			}
			return
		}
		for k := from; k < next[j]; k++ {
			m, v := r.mean[j], r.variance[j]
			if e := entry[k]; mean != nil {
				m, v = mean[e], variance[e]
			}
			visit(name, p.Time[row[k]], m, v)
		}
		from = next[j]
	})
	return nil
}

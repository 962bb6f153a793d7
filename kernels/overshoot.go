package kernels

import (
	"math"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// Overshoot is the note on rows that f, a fit of p, expects to respond far more than they did; "" if
// it does not (lik.Overshoot).
//
// Cost: O(non-zeros).
func (p *Problem) Overshoot(f *Fit) string {
	if p.Lik == nil || p.N == 0 || p.Drifts() || p.Offset != nil && p.Count != nil { // exposures of pooled rows are not known
		return ""
	}
	l, err := f.Likelihood()
	if err != nil {
		return ""
	}
	add := lik.OvershootOf(l)
	if add == nil {
		return ""
	}
	eta := p.predictorsAt(f)
	b := p.Batch()
	var sum lik.Overshoot
	top := 0 // the row of the largest expectation
	for i := range p.N {
		p.Stop.Row(i)
		o := b.Obs(i)
		add(&sum, o, eta[i])
		if o.Weight > 0 && (eta[i] > eta[top] || !(b.Obs(top).Weight > 0)) {
			top = i
		}
	}
	if !sum.Clear() {
		return ""
	}
	return sum.Note(p.foremost(top, p.meansOf(f)))
}

// foremost is the feature that sets row i furthest apart from the mean row under the weights w; ""
// if there is none but the intercept.
func (p *Problem) foremost(i int, w []float64) (name string) {
	mean, n := memory.Floats(p.P), 0.0
	for r := range p.N {
		p.Stop.Row(r)
		rows := p.RowWeight(r)
		n += rows
		col, val := p.Entries(r)
		for k, j := range col {
			mean[j] += rows * val[k]
		}
	}
	most := 0.0
	col, val := p.Entries(i)
	for k, j := range col {
		if by := math.Abs(w[j] * (val[k] - mean[j]/n)); by > most && p.Name(int(j)) != Intercept {
			name, most = p.Name(int(j)), by
		}
	}
	return name
}

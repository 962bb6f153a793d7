package engine

import (
	"slices"

	"github.com/bglm/bglm/kernels"
)

// weightless is p with nothing to learn, and a note, if all of its rows have weight 0, or it
// continues a fit without any; else p and "".
func weightless(p *kernels.Problem) (*kernels.Problem, string) {
	note := kernels.WeightlessNote
	if p.N == 0 {
		note = ""
	}
	if p.N == 0 && p.Start == nil || p.N > 0 && (p.Weight == nil || slices.ContainsFunc(p.Weight, func(w float64) bool { return w != 0 })) {
		return p, ""
	}
	q, m := *p, *p.Model
	q.Model = &m
	o := &m.Options
	o.AutoPrior, o.AutoDispersion, o.AutoShape, o.Integrate = false, false, false, false
	m.PriorBy = slices.DeleteFunc(slices.Clone(m.PriorBy), func(c kernels.ColumnPrior) bool { return c.Auto })
	return &q, note
}

// keepLearnt records in f, a fit without rows of its own, what start, nil for none, has learnt of a
// parameter that is still the same.
func keepLearnt(f, start *kernels.Fit) {
	if start == nil {
		return
	}
	for _, l := range kernels.Parameters(start.Learnt) {
		if l.Name == kernels.LearntDeviation && f.Dispersion == start.Dispersion || l.Name == kernels.LearntShape && f.Shape == start.Shape {
			f.Learnt = append(f.Learnt, l)
		}
	}
}

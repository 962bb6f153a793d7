package engine

import (
	"slices"

	"github.com/bglm/bglm/kernels"
)

// weightless is p with nothing to learn, and a note, if all of its rows have weight 0; else p and
// "".
func weightless(p *kernels.Problem) (*kernels.Problem, string) {
	if p.N == 0 || p.Weight == nil || slices.ContainsFunc(p.Weight, func(w float64) bool { return w != 0 }) {
		return p, ""
	}
	q, m := *p, *p.Model
	q.Model = &m
	o := &m.Options
	o.AutoPrior, o.AutoDispersion, o.AutoShape, o.Integrate = false, false, false, false
	m.PriorBy = slices.DeleteFunc(slices.Clone(m.PriorBy), func(c kernels.ColumnPrior) bool { return c.Auto })
	return &q, kernels.WeightlessNote
}

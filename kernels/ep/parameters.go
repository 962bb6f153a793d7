package ep

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// parameters records in f what was learnt of dispersion and shape, by the curvature of the log
// evidence in their logarithms, with all else fixed.
func (l *learner) parameters(f *kernels.Fit) {
	o, params := &l.p.Options, l.p.Params
	params.Shape, params.Dispersion = shapeOf(l.p.Lik), dispersionOf(l.p.Lik)
	if _, ok := l.p.Lik.(lik.Dispersed); ok && o.AutoDispersion {
		f.LearnDeviation(params.Dispersion, 2*l.information(&params, &params.Dispersion))
	}
	if _, ok := l.p.Lik.(lik.Shaped); ok && o.AutoShape {
		f.LearnShapeBy(params.Shape, l.information(&params, &params.Shape))
	}
}

// information returns the curvature of the log evidence in the logarithm of a parameter, by a second
// difference; NaN if not known. The fit's own engine does not change.
func (l *learner) information(params *lik.Params, at *float64) float64 {
	const step = 0.1
	nan, now, notes := math.NaN(), *at, len(l.notes)
	defer func() { *at, l.notes = now, l.notes[:notes] }()
	if l.late() {
		return nan
	}
	e, err := newEngine(l.p, l.kernel)
	if err != nil { // no memory for another one
		return nan
	}
	copy(e.sites(), l.e.sites())
	fall := 0.0
	o := l.p.Options
	for _, x := range []float64{-step, step} {
		*at = now * math.Exp(x)
		lk, err := lik.Remake(l.p.Lik, *params)
		if err != nil { // the end of its range
			return nan
		}
		q := with(l.p, func(m *kernels.Model) { m.Lik, m.Params = lk, *params })
		if err := e.reset(q); err != nil {
			return nan
		}
		out, err := l.iterate(e, &o, l.earlier.Log(q.Lik), false)
		if err != nil || !out.converged {
			return nan
		}
		fall += l.out.logZ - out.logZ
	}
	return max(fall, 0) / (step * step)
}

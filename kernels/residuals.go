package kernels

import (
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// Residuals is the note on rows of p that depart from what f, its fit, expects of them together with
// those that they follow, in the order of time or of the rows (lik.Dependence), on responses that
// vary otherwise than gaussian with a learnt dispersion says (lik.Middle), and on columns that they
// follow otherwise than f does (curves); "" if there is none. lines is false if another note says why
// numbers have no line: codes among them (CodeNote), or some far from the others (Overshoot).
//
// Cost: O(non-zeros).
func (p *Problem) Residuals(f *Fit, lines bool) string {
	if p.Lik == nil || p.N == 0 || p.Count != nil || p.Drifts() {
		return ""
	}
	l, err := f.Likelihood()
	if err != nil {
		return ""
	}
	eta := memory.Floats(p.N)
	p.Predictor(eta, p.meansOf(f))
	b := p.Batch()
	var neighbours lik.Dependence
	var middle lik.Middle
	var follows *curves
	if lines {
		follows = curvesOf(p)
	}
	normal := p.Lik.Traits().Gaussian && p.Options.AutoDispersion
	for i := range p.N {
		p.Stop.Row(i)
		o := b.Obs(i)
		_, slope, bend := l.LogLik(o, eta[i])
		r := lik.Residual(slope, -bend)
		if neighbours.Add(o, r); normal {
			middle.Add(o, r)
		}
		if follows != nil {
			follows.add(i, o.Weight, r)
		}
	}
	note := neighbours.Note()
	if normal {
		note = Join(note, middle.Note())
	}
	if follows != nil { // first, because rows in the order of such a column depend on each other
		note = Join(follows.note(neighbours.Independent()), note)
	}
	return note
}

package kernels

import (
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// Residuals is the note on rows of p that depart from what f, its fit, expects of them together with
// those that they follow, in the order of time or of the rows (lik.Dependence), and on responses
// that vary otherwise than gaussian with a learnt dispersion says (lik.Middle); "" if there is none.
//
// Cost: O(non-zeros).
func (p *Problem) Residuals(f *Fit) string {
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
	normal := p.Lik.Traits().Gaussian && p.Options.AutoDispersion
	for i := range p.N {
		p.Stop.Row(i)
		o := b.Obs(i)
		_, slope, bend := l.LogLik(o, eta[i])
		r := lik.Residual(slope, -bend)
		if neighbours.Add(o, r); normal {
			middle.Add(o, r)
		}
	}
	note := neighbours.Note()
	if normal {
		note = Join(note, middle.Note())
	}
	return note
}

package kernels

import (
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// Dependence is the note on rows of p that depart from what f, its fit, expects of them together with
// those that they follow, in the order of time or of the rows; "" if they do not (lik.Dependence).
//
// Cost: O(non-zeros).
func (p *Problem) Dependence(f *Fit) string {
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
	var sum lik.Dependence
	for i := range p.N {
		p.Stop.Row(i)
		o := b.Obs(i)
		_, slope, bend := l.LogLik(o, eta[i])
		sum.Add(o, slope, -bend)
	}
	return sum.Note()
}

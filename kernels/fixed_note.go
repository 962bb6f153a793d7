package kernels

import (
	"github.com/bglm/bglm/kernels/lik"
)

// FixedNote is the note on a dispersion or shape of f, a fit of p, that is not learnt and does not
// agree with the rows (lik.Fixed): a given one, or that of a fit that f continues; "" if it agrees or
// rows are few for each weight.
//
// Cost: O(non-zeros).
func (p *Problem) FixedNote(f *Fit) string {
	if p.Lik == nil || p.Count != nil || p.within != nil || p.learnsNoise() || p.N < fewPerWeight*p.P || p.Drifts() {
		return ""
	}
	t := p.Lik.Traits()
	if t.Trials || t.Counts && p.Options.AutoShape {
		return ""
	}
	l, err := f.Likelihood() // with the degrees of freedom of studentt, which may be learnt
	if err != nil {
		return ""
	}
	fixed := lik.NewFixed(l)
	if fixed == nil {
		return ""
	}
	b := p.Batch()
	for i, eta := range p.predictorsAt(f) {
		p.Stop.Row(i)
		fixed.Observe(l, b.Obs(i), eta, 0)
	}
	other := "'auto', which learns it"
	if p.Start != nil {
		other = "fit all rows at once, which learns it"
	}
	return fixed.NoteWithin(l, float64(p.N-p.P)/float64(p.N), other)
}

package kernels

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// BaseNote is the note on rows of p that f, a fit of these, predicts worse than their mean alone;
// "" if it does not. A fit with a free intercept cannot; one without an intercept does not have
// that mean among its models, and is checked only if there is an offset.
//
// Cost: O(non-zeros), for fits that can.
func (p *Problem) BaseNote(f *Fit) string {
	if p.N == 0 || p.free() {
		return ""
	}
	l, err := f.Likelihood()
	if err != nil {
		return ""
	}
	eta := p.predictorsAt(f)
	b := p.Batch()
	row := func(i int) (lik.Obs, float64) {
		p.Stop.Row(i)
		return b.Obs(i), eta[i]
	}
	if p.unshifted != nil {
		return lik.BesideMeanOf(l, p.N, p.constant, row, p.unshifted)
	}
	return lik.BesideMean(l, p.N, p.constant, row)
}

// BaseNote is that of a problem whose rows, of m, are not kept: fit is their log likelihood under the
// fit. Only of 0/1 responses do the totals say what the mean alone predicts, "" for others; and
// without an intercept they do not say whether there was an offset.
func (t *Totals) BaseNote(m *Model, fit float64) string {
	if !m.Lik.Traits().Binary || m.NoIntercept {
		return ""
	}
	return lik.BesideShare(fit, t.Y.Center, t.Y.Weight)
}

// ConstantNote is the note on responses that are all equal if their spread is to be learnt; "" for
// others.
//
// Cost: O(rows), for equal ones.
func (p *Problem) ConstantNote(*Fit) string {
	if p.N < 2 || p.Offset != nil || !p.Options.AutoDispersion && !(p.Options.AutoShape && p.Lik.Traits().Relative) {
		return ""
	}
	for _, y := range p.Y[1:p.N] {
		if y != p.Y[0] {
			return ""
		}
	}
	return ConstantNote(p.Y[0])
}

// ConstantNote says that all responses are y, though their spread is to be learnt.
func ConstantNote(y float64) string {
	return fmt.Sprintf("all responses are %.6g: nothing says how far others would lie, and intervals have no width", y)
}

// free reports whether no offset, prior or given weights keep the fit from the mean of the rows.
func (p *Problem) free() bool {
	return p.Offset == nil && p.unshifted == nil && (p.NoIntercept || p.Start == nil && len(p.Priors) == 0 && len(p.At) == 0 && p.Prior.Complete() == DefaultPrior)
}

// ClassBaseNote is BaseNote for a fit with classes: without x the rows are predicted by the
// classes' shares.
func (p *Problem) ClassBaseNote(f *Fit) string {
	w := p.classMeans(f)
	if w == nil || p.free() {
		return ""
	}
	eta := memory.Floats(p.N)
	fit, weight := 0.0, 0.0
	for i, total := range p.classTotals(f, w, eta) {
		fit -= p.RowWeight(i) * total
	}
	k, of := len(w), make([]float64, len(w))
	for a := range w {
		p.classPredictor(f, a, w[a], eta)
		for i, y := range p.Y {
			p.Stop.Row(i)
			if int(y) == a {
				n := p.RowWeight(i)
				fit, weight, of[a] = fit+n*eta[i], weight+n, of[a]+n
			}
		}
	}
	mean := -0.5 * float64(k-1) * math.Log(weight)
	for _, n := range of {
		if n > 0 {
			mean += n * math.Log(n/weight)
		}
	}
	return lik.Beside(fit, mean, weight)
}

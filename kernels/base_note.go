package kernels

import (
	"math"

	"github.com/bglm/bglm/kernels/lik"
)

// BaseNote is the sentence about rows of p that f, a fit of these, says less well than their mean
// alone does; "" where it does not. A fit whose intercept is free cannot; one without an intercept
// has not that mean among its models, and is asked beside an offset alone.
//
// Cost: O(non-zeros), for fits that can.
func (p *Problem) BaseNote(f *Fit) string {
	if p.N == 0 || p.free() || p.Offset != nil && p.Count != nil { // exposures of rows that were pooled are not known
		return ""
	}
	l, err := f.Likelihood()
	if err != nil {
		return ""
	}
	eta := make([]float64, p.N)
	p.Predictor(eta, p.meansOf(f))
	b := p.Batch()
	return lik.BesideMean(l, p.N, p.constant, func(i int) (lik.Obs, float64) {
		p.Stop.Row(i)
		return b.Obs(i), eta[i]
	})
}

// free says whether no offset, prior or given weights keep the fit from the mean of the rows.
func (p *Problem) free() bool {
	return p.Offset == nil && (p.NoIntercept || p.Start == nil && len(p.Priors) == 0 && len(p.At) == 0 && p.Prior.Complete() == DefaultPrior)
}

// ClassBaseNote is BaseNote of a fit of classes: what is said of the rows without x are the
// classes' shares.
func (p *Problem) ClassBaseNote(f *Fit) string {
	k := len(f.Classes)
	if p.N == 0 || k < 2 || p.free() || len(f.Beliefs) != k*len(p.at) {
		return ""
	}
	eta, w := make([][]float64, k), make([]float64, p.P)
	for a := range eta {
		for b, j := range p.at {
			if j >= 0 {
				w[j] = f.Beliefs[a*len(p.at)+b].Mean
			}
		}
		offset := p.Offset
		if f.Classes[a] == p.Options.Reference {
			offset = nil
		}
		eta[a] = make([]float64, p.N)
		p.Affine(eta[a], w, offset)
	}
	fit, weight, of := 0.0, 0.0, make([]float64, k)
	for i, y := range p.Y {
		p.Stop.Row(i)
		top, sum, n := math.Inf(-1), 0.0, p.Weighs(i)
		for a := range eta {
			top = max(top, eta[a][i])
		}
		for a := range eta {
			sum += math.Exp(eta[a][i] - top)
		}
		fit += n * (eta[int(y)][i] - top - math.Log(sum))
		weight, of[int(y)] = weight+n, of[int(y)]+n
	}
	mean := -0.5 * float64(k-1) * math.Log(weight)
	for _, n := range of {
		if n > 0 {
			mean += n * math.Log(n/weight)
		}
	}
	return lik.Beside(fit, mean, weight)
}

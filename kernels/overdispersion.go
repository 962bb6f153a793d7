package kernels

import (
	"math"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// fewWeights is the number of weights relative to the rows below which their degrees of freedom in
// Pearson's ratio need not be counted exactly.
const fewWeights = 0.01

// Overdispersion is the note on counts, and successes among trials, that vary more than their
// distribution allows at the mean weights of f, a fit of p; "" if they do not. Weights are then
// less certain than f says.
//
// Pearson's ratio uses the residual degrees of freedom, rows less Σ W v, instead of the rows:
// curvature of the likelihood times variance of the predictor.
//
// Cost: O(non-zeros); that of Predictors if weights are not few relative to the rows and the answer
// depends on how many of them the rows determine.
func (p *Problem) Overdispersion(f *Fit) string {
	if p.Lik == nil || p.N == 0 || p.Drifts() || p.Options.AutoNoise {
		return ""
	}
	add := lik.PearsonOf(p.Lik)
	if add == nil {
		return ""
	}
	eta := p.predictorsAt(f)
	b := p.Batch()
	var sum lik.Pearson
	for i := range p.N {
		within := 0.0
		if p.within != nil {
			within = p.within[i]
		}
		add(&sum, b.Obs(i), eta[i], p.Rows(i), within)
	}
	most := float64(p.P)
	note := sum.Note(p.Lik, math.Min(most, sum.Weight-1))
	if note == "" || most <= fewWeights*sum.Weight {
		return note
	}
	eta, v := memory.Floats(p.N), memory.Floats(p.N)
	if err := p.Predictors(f, eta, v); err != nil {
		return sum.Note(p.Lik, 0)
	}
	taken := 0.0
	for i := range v {
		if _, _, d2 := p.Lik.LogLik(b.Obs(i), eta[i]); d2 < 0 {
			taken -= d2 * v[i]
		}
	}
	return sum.Note(p.Lik, math.Min(taken, most))
}

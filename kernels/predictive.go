package kernels

import (
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/gauss"
)

// PredictiveScale are factors of the mean and the variance of a linear predictor without its offset, under which responses
// are predicted.
//
// A posterior that was averaged over prior variances is a mixture, of which a fit keeps mean and covariance. Where rows
// tell only that weights are large, as those of separated responses do, the Gaussian N(μ, Σ) that has them reaches to
// weights of the wrong sign, which the rows exclude: it draws predictions to the base rate. N(κ μ, ρ Σ) predicts what
// the mixture does then, κ and ρ being those of least divergence over the rows. The beliefs remain the posterior's.
type PredictiveScale struct{ Mean, Variance float64 }

// Unscaled are the factors of a fit whose own Gaussian predicts.
var Unscaled = PredictiveScale{1, 1}

// Of is the Gaussian under which the response of a predictor N(m, v) is predicted, offset being a part of m.
func (k PredictiveScale) Of(m, v, offset float64) (mean, variance float64) {
	if k == Unscaled {
		return m, v
	}
	return offset + k.Mean*(m-offset), k.Variance * v
}

// Scale is Of in place for several predictors without offsets, of that mean and covariance.
func (k PredictiveScale) Scale(mean, cov []float64) {
	if k == Unscaled {
		return
	}
	for i := range mean {
		mean[i] *= k.Mean
	}
	for i := range cov {
		cov[i] *= k.Variance
	}
}

// Plain says whether the posterior itself predicts.
func (k PredictiveScale) Plain() bool { return k == Unscaled }

// PredictiveScale are the factors of f; those of a fit that keeps none change nothing.
func (f *Fit) PredictiveScale() PredictiveScale {
	if mean, variance, ok := f.Kept(KeptPredictive); ok {
		return PredictiveScale{mean, variance}
	}
	return Unscaled
}

// unscaled is what f has learnt, without the factors.
func (f *Fit) unscaled() []Learnt {
	return slices.DeleteFunc(slices.Clone(f.Learnt), func(l Learnt) bool { return l.Name == KeptPredictive })
}

// ForPrediction is f with the beliefs under which responses are predicted, in place of the posterior: f itself where they
// are the same. Its prior, which unseen features have, has the same factors.
//
// Cost: O(p²) of a full covariance.
func (f *Fit) ForPrediction() *Fit {
	k := f.PredictiveScale()
	if k.Plain() {
		return f
	}
	own := *f
	own.Learnt = f.unscaled()
	own.Beliefs = slices.Clone(f.Beliefs)
	for j := range own.Beliefs {
		b := &own.Beliefs[j]
		b.Mean, b.Variance = k.Mean*b.Mean, k.Variance*b.Variance
	}
	own.Covariance.Values = slices.Clone(f.Covariance.Values)
	for j := range own.Covariance.Values {
		own.Covariance.Values[j] *= math.Sqrt(k.Variance)
	}
	own.Prior.Mean *= k.Mean
	own.Prior.Variance *= k.Variance
	own.Prior.InterceptVariance *= k.Variance
	own.Columns = slices.Clone(f.Columns)
	for j := range own.Columns {
		c := &own.Columns[j]
		c.Variance *= k.Variance
		if c.Kind == LevelsColumn { // of a deviation of weights
			c.Center *= math.Sqrt(k.Variance)
			c.Scale *= math.Sqrt(k.Variance)
		}
	}
	own.Correlations = slices.Clone(f.Correlations)
	for j := range own.Correlations {
		own.Correlations[j].Covariance *= k.Variance
	}
	return &own
}

// validatePredictive reports factors that f keeps beside a covariance for which they are not.
func (f *Fit) validatePredictive() error {
	if c := f.Covariance.Form; !f.PredictiveScale().Plain() && c != gauss.Full && c != gauss.Diagonal {
		return fmt.Errorf("learnt: %q beside a covariance of the kind %s; allowed: beside 'full' or 'diagonal'", KeptPredictive, c)
	}
	return nil
}

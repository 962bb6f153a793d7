package kernels

import (
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/gauss"
)

// PredictiveScale are factors of the mean and the variance of a linear predictor without its
// offset, with which responses are predicted.
//
// A posterior averaged over prior variances is a mixture, of which a fit keeps mean and covariance.
// If rows only say that weights are large, as separated responses do, the Gaussian N(μ, Σ) with
// these moments extends to weights of the wrong sign, which the rows exclude, and pulls predictions
// to the base rate. N(κ μ, ρ Σ) then predicts as the mixture does, κ and ρ having the least
// divergence over the rows. Beliefs remain those of the posterior.
type PredictiveScale struct{ Mean, Variance float64 }

// Unscaled are the factors of a fit that predicts with its own Gaussian.
var Unscaled = PredictiveScale{1, 1}

// Of returns the Gaussian with which the response to a predictor N(m, v) is predicted; offset is
// part of m.
func (k PredictiveScale) Of(m, v, offset float64) (mean, variance float64) {
	if k == Unscaled {
		return m, v
	}
	return offset + k.Mean*(m-offset), k.Variance * v
}

// Scale is Of in place for several predictors without offsets, with this mean and covariance.
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

// Plain reports whether the posterior itself predicts.
func (k PredictiveScale) Plain() bool { return k == Unscaled }

// PredictiveScale returns the factors of f, Unscaled if it keeps none.
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

// ForPrediction returns f with the beliefs that predict responses in place of the posterior: f
// itself if they are the same. Its prior, which unseen features have, gets the same factors.
//
// Cost: O(p²) for a full covariance.
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
		if c.Kind == LevelsColumn { // of the standard deviation of weights
			c.Center *= math.Sqrt(k.Variance)
			c.Scale *= math.Sqrt(k.Variance)
		}
	}
	own.scaleLevels(math.Sqrt(k.Variance))
	own.Correlations = slices.Clone(f.Correlations)
	for j := range own.Correlations {
		own.Correlations[j].Covariance *= k.Variance
	}
	return &own
}

// validatePredictive returns an error if f keeps factors with a covariance for which there are none.
func (f *Fit) validatePredictive() error {
	if c := f.Covariance.Form; !f.PredictiveScale().Plain() && c != gauss.Full && c != gauss.Diagonal {
		return fmt.Errorf("learnt: %q beside a covariance of the kind %s; allowed: beside 'full' or 'diagonal'", KeptPredictive, c)
	}
	return nil
}

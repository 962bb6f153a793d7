package predict

import (
	"math"

	"github.com/bglm/bglm/kernels/lik"
)

// Factor is the kind of Gaussian in its predictor that represents a row in the posterior, and that
// is divided out to leave the row out.
type Factor int

const (
	// AtMode is Laplace's: residual and curvature at the posterior's mean (InfluenceOf).
	AtMode Factor = iota
	// OfMoments is expectation propagation's: the posterior with it has the same moments as with
	// the row's exact likelihood.
	OfMoments
)

// LeftOut is the prediction of a row by the other rows of a fit.
type LeftOut struct {
	Mean, Variance float64 // of the row's linear predictor, given the other rows
	LogDensity     float64 // of the response there, in nats
	// Reach indicates how far the three can be trusted, like the Pareto k of package loo: the
	// smaller of two numbers that are both large if the contributions of other rows would change
	// without this one. One is the row's share of its predictor's precision, which is the tail
	// index of the ratios 1/p(y | s) while p is Gaussian in s; the other is how far the predictor
	// moves when the row is taken out, in units over which the curvature of log p changes. It is 0
	// if they are exact. If a dispersion or variances were learnt with the row, it is at least what
	// LeaveOut states for them.
	Reach float64
	// Share is the row's share of its predictor's precision (the leverage), for a row of weight w
	// that of one of the w rows. Over all rows of a posterior the shares add up to less than the
	// number of its weights.
	Share float64
	// Dispersion is the estimate without the row, 0 if it is the fit's.
	Dispersion float64
	// Shape is the estimate without the row for gamma and negbinomial, 0 if it is the fit's.
	Shape float64
}

// MaxReach is the largest Reach that needs no warning.
const MaxReach = 0.5

// LeaveOut takes a row out of the posterior N(m, v) of its linear predictor: it divides the row's
// factor out, and keeps the factors of the other rows as they are. Mean, Variance and LogDensity
// are NaN if no proper posterior remains. A weight above 1 counts as so many equal rows, of which
// one is left out, as from a table with all of them.
//
// A learnt dispersion of gaussian responses (identity link) is then that of the other rows, and
// LogDensity is Student's; Reach is the row's share of the sum of squares, or of its predictor's
// precision. A learnt shape of gamma and negbinomial is that of the other rows too (reshaped); for
// other families Reach says if a dispersion or shape would move. For families with a dispersion, if
// variances of levels were learnt, v is limited to what is possible under one value of them, and
// Reach is at least the share without that limit. anew returns the predictor if the levels of such
// columns were new; it is called if that share is large, and may be nil. With OfMoments its result,
// with a Reach of 1, replaces levels about which the other rows say next to nothing.
//
// Cost: one evaluation of the likelihood's moments AtMode; OfMoments up to some hundreds, some ten
// if the row has little weight.
// Errors: those of InfluenceOf and of anew.
//
// Source: [vehtari2016], which calls them LA-LOO and EP-LOO.
func LeaveOut(l lik.Likelihood, o lik.Obs, m, v float64, by Factor, beside LearntParameters, anew func() (m, v float64, err error)) (LeftOut, error) {
	all, err := InfluenceOf(l, o, m, v)
	if err != nil {
		return LeftOut{}, err
	}
	wide := min(math.Abs(onlyOne(o, all).Leverage), 1)
	if v, err = beside.conditional(l, all, v, anew); err != nil {
		return LeftOut{}, err
	}
	o.Weight = min(o.Weight, 1)
	var out LeftOut
	if d, ok := beside.studentised(l); ok && o.Weight*v < (1-1e-14)*d.Dispersion() {
		out, out.Reach = beside.without(d, o, m, v)
		out.Reach = max(out.Reach, wide)
		return out, nil
	}
	if out, err = leaveOut(l, o, m, v, by); err != nil {
		return LeftOut{}, err
	}
	if by == OfMoments {
		if out, err = beside.withNewLevels(l, o, out, anew); err != nil {
			return LeftOut{}, err
		}
	}
	if d, ok := l.(lik.Dispersed); ok && beside.Varied {
		slope := 1.0 // of the response, in whose unit the dispersion is
		if by := l.Traits().Slope; by != nil {
			slope = by(l.Response(m))
		}
		out.Reach = max(out.Reach, wide, min(o.Weight*v*slope*slope/d.Dispersion(), 1))
	}
	out.Reach = max(out.Reach, beside.parameterShift(l, o, m))
	return beside.reshaped(l, o, out), nil
}

// Averaged adjusts out for a fit that predicts responses from a Gaussian other than the posterior
// N(m, v) of the predictor (kernels.PredictiveScale): one for weights of a common scale, which the
// row has informed too. Reach is at least the row's share of the posterior's precision. Errors:
// those of InfluenceOf.
func (out LeftOut) Averaged(l lik.Likelihood, o lik.Obs, m, v float64) (LeftOut, error) {
	f, err := InfluenceOf(l, o, m, v)
	if err != nil {
		return LeftOut{}, err
	}
	out.Reach = max(out.Reach, min(onlyOne(o, f).Leverage, 1))
	return out, nil
}

// leaveOut is LeaveOut of at most one row, with all else fixed.
func leaveOut(l lik.Likelihood, o lik.Obs, m, v float64, by Factor) (LeftOut, error) {
	f, err := InfluenceOf(l, o, m, v)
	if err != nil {
		return LeftOut{}, err
	}
	t := l.Traits()
	nan := math.NaN()
	out := LeftOut{Mean: nan, Variance: nan, LogDensity: nan}
	share := f.Leverage
	if by == OfMoments && !t.Gaussian && v > 0 {
		if mc, vc, _, ok := lik.Cavity(l, o, m, v); ok {
			o.Weight = 1
			out = LeftOut{Mean: mc, Variance: vc, LogDensity: l.Moments(o, mc, vc).LogZ}
			share = 1 - v/vc
		}
	}
	if math.IsNaN(out.LogDensity) && !math.IsNaN(f.LOO) {
		vc := v / (1 - f.Leverage)
		out = LeftOut{Mean: m - vc*f.Residual, Variance: vc, LogDensity: f.LOO}
		share = f.Leverage
	}
	out.Share = share
	if !t.Gaussian {
		out.Reach = max(share, 0)
		if moved := math.Abs(m-out.Mean) / t.Scale; !math.IsNaN(moved) {
			out.Reach = min(out.Reach, moved)
		}
	}
	return out, nil
}

// Site represents a row in the posterior N(m, v) of its predictor: a Gaussian factor of this
// precision whose slope at m is Residual. LeaveOut divides it out.
type Site struct{ Residual, Precision float64 }

// Site is the site of the row that LeaveOut has taken out of N(m, v).
func (o LeftOut) Site(m, v float64) Site {
	if !(v > 0) {
		return Site{}
	}
	return Site{(m - o.Mean) / o.Variance, o.Share / v}
}

// LeavePairOut takes two rows out of the joint posterior of their predictors, with means m,
// variances v and covariance cov: it divides their sites s out,
//
//	V' = (V⁻¹ - C)⁻¹ = (I - V C)⁻¹ V,  m' = m - V' r,
//
// C and r being the sites' precisions and residuals. ok is false if no proper posterior remains.
func LeavePairOut(m, v [2]float64, cov float64, s [2]Site) (mean, variance [2]float64, ok bool) {
	ra, rb := 1-v[0]*s[0].Precision, 1-v[1]*s[1].Precision
	det := ra*rb - cov*cov*s[0].Precision*s[1].Precision
	if !(ra > 0 && rb > 0 && det > 0) {
		return mean, variance, false
	}
	// the three entries of V'
	va := (rb*v[0] + cov*cov*s[1].Precision) / det
	vb := (ra*v[1] + cov*cov*s[0].Precision) / det
	vab := cov / det // (I - V C)⁻¹ V is symmetric
	mean = [2]float64{m[0] - va*s[0].Residual - vab*s[1].Residual, m[1] - vab*s[0].Residual - vb*s[1].Residual}
	return mean, [2]float64{va, vb}, va >= 0 && vb >= 0
}

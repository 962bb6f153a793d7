package predict

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// Influence is what one row contributed to a fit, computed from the posterior N(m, v) of its linear
// predictor.
type Influence struct {
	// Residual is d log p(y | s)/ds at s = m. For a Laplace fit Σ⁻¹(μ - μ0) = Xᵀ r: rows whose
	// residual is near 0 could be dropped, the others support the fit.
	Residual float64
	// Curvature is -d² log p(y | s)/ds² at s = m.
	Curvature float64
	// Leverage is Curvature times v: the diagonal of the hat matrix for the gaussian
	// family. It is at most 1 for a Laplace fit, and adds up to about the number of
	// weights that the data determine.
	Leverage float64
	// LOO is the log predictive density of the response given all other rows; NaN if the cavity is
	// improper (see InfluenceOf).
	LOO float64
}

// InfluenceOf is the influence of a row with s ~ N(m, v) under the posterior that includes the row.
// LOO takes the row's own factor, a Gaussian of the residual r and curvature c at m, out of N(m,
// v),
//
//	1/v' = 1/v - c,   m' = m - v' r,   LOO = log ∫ p(y | s) N(s; m', v') ds,
//
// which is exact for the gaussian family with identity link and given variances (LeaveOut also
// takes the row out of a learnt dispersion). For others it is the leave-one-out density of
// Laplace's approximation with the other rows' factors kept as they are: good if no single row
// dominates, as with EP's own sites. Under beliefs of another engine v may be so large that c v >=
// 1: then there is no cavity, and LOO is NaN. A weight counts as so many equal rows: Residual,
// Curvature and Leverage are those of all of them, LOO is the density of one given the others
// (onlyOne).
//
// Errors: a response outside the support, a predictor so large that derivatives overflow.
//
// Sources: Hennig (2020), lecture 14 (the residual at the mode); [minka2001],
// section 3.2, for the cavity.
func InfluenceOf(l lik.Likelihood, o lik.Obs, m, v float64) (Influence, error) {
	if err := l.Check(o); err != nil {
		return Influence{}, err
	}
	_, r, d2 := l.LogLik(o, m)
	n := Influence{Residual: r, Curvature: -d2, Leverage: -d2 * v, LOO: math.NaN()}
	if sum := n.Residual + n.Curvature + n.Leverage; math.IsNaN(sum) {
		return Influence{}, fmt.Errorf("the likelihood's derivatives at the linear predictor %v (variance %v) are beyond the largest number; scale the features down", m, v)
	}
	if mc, vc, ok := onlyOne(o, n).without(m, v); ok {
		o.Weight = 1
		n.LOO = l.Moments(o, mc, vc).LogZ
	}
	return n, nil
}

// onlyOne is the influence of one of the equal rows that the weight of o stands for, n being that
// of all: a row of weight w is w rows of an expanded table, of which the others stay. For a weight
// below 1 it is that of the whole row.
func onlyOne(o lik.Obs, n Influence) Influence {
	if o.Weight > 1 {
		n.Residual, n.Curvature, n.Leverage = n.Residual/o.Weight, n.Curvature/o.Weight, n.Leverage/o.Weight
	}
	return n
}

// without is N(m, v) with the Gaussian factor of n taken out; ok is false if no proper posterior
// remains.
func (n Influence) without(m, v float64) (mc, vc float64, ok bool) {
	rest := 1 - n.Leverage
	if !(rest > 1e-14) { // a few units in the last place: only rounding is left
		return 0, 0, false
	}
	vc = v / rest
	mc = m - vc*n.Residual
	return mc, vc, special.Finite(mc) && special.Finite(vc)
}

// InformationGain is the expected information about the weights from observing a row's response, in
// nats: ½ log(1 + I v), I being the Fisher information of y on s at s = m. The row to label next is
// the one with the largest gain.
//
// I is (dE[y|s]/ds)²/Var[y|s], exact for the exponential families, or given by a lik.Informed
// likelihood. One trial, weight 1.
//
// Source: MacKay, "Information-based objective functions for active data selection"
// (1992), eq. 8, for one datum of a Gaussian posterior.
func InformationGain(l lik.Likelihood, m, v float64) float64 {
	return 0.5 * math.Log1p(fisher(l, m)*v)
}

func fisher(l lik.Likelihood, m float64) float64 {
	if l, ok := l.(lik.Informed); ok {
		return l.Information()
	}
	mean, variance := l.Predict(m, 0)
	if variance == 0 || !special.Finite(variance) {
		// A binary response that is certain: as the probability p -> 0 or 1 the information goes to
		// 0. An unbounded count: the weight is known.
		if mean == 0 || mean == 1 {
			return 0
		}
		return math.MaxFloat64
	}
	// dE/ds by central differences: relative error about h² and ε/h, 1e-10 in all.
	const h = 1e-5
	d := (l.Response(m+h) - l.Response(m-h)) / (2 * h)
	return d * d / variance
}

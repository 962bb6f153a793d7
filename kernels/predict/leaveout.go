package predict

import (
	"math"

	"github.com/bglm/bglm/kernels/lik"
)

// Factor says which Gaussian in its predictor stands for a row in the posterior that it is
// part of, and is taken out to leave the row out.
type Factor int

const (
	// AtMode is Laplace's: residual and curvature at the posterior's mean (InfluenceOf).
	AtMode Factor = iota
	// OfMoments is expectation propagation's: with it the posterior has the moments that it
	// has with the row's likelihood itself.
	OfMoments
)

// FactorOf is the factor that rows have in the fits of a method: OfMoments where these are
// moments of the posterior (ep, hmc), AtMode elsewhere.
func FactorOf(method string) Factor {
	if method == "ep" || method == "hmc" {
		return OfMoments
	}
	return AtMode
}

// LeftOut is what the other rows of a fit say of one.
type LeftOut struct {
	Mean, Variance float64 // of the row's linear predictor, given the other rows
	LogDensity     float64 // of the response there, in nats
	// Reach says how far the three can be trusted, as the Pareto k of package loo does: the
	// lesser of two numbers that both are large where other rows would change with this one.
	// One is the row's share of its predictor's precision, which is the tail index of the
	// ratios 1/p(y | s) while p is Gaussian in s; the other is how far the predictor moves
	// when the row is taken out, in units over which the curvature of log p changes. It is 0
	// where they are exact.
	Reach float64
}

// MaxReach is the largest Reach of what need not be warned of.
const MaxReach = 0.5

// LeaveOut takes a row out of the posterior N(m, v) of its linear predictor: divides its
// factor out, with the factors of the other rows kept as they are. Mean, Variance and
// LogDensity are NaN where that leaves no proper posterior. A weight counts as so many equal
// rows, of which all are left out; LogDensity is that of one.
//
// Cost: one evaluation of the likelihood's moments AtMode; OfMoments up to some hundreds,
// some ten where the row has little weight.
// Errors: those of InfluenceOf.
//
// Source: [vehtari2016], which calls them LA-LOO and EP-LOO.
func LeaveOut(l lik.Likelihood, o lik.Obs, m, v float64, by Factor) (LeftOut, error) {
	f, err := InfluenceOf(l, o, m, v)
	if err != nil {
		return LeftOut{}, err
	}
	t := l.Traits()
	nan := math.NaN()
	out := LeftOut{nan, nan, nan, 0}
	share := f.Leverage
	if by == OfMoments && !t.Gaussian && v > 0 {
		if mc, vc, ok := cavity(l, o, m, v); ok {
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
	if !t.Gaussian {
		out.Reach = max(share, 0)
		if moved := math.Abs(m-out.Mean) / t.Scale; !math.IsNaN(moved) {
			out.Reach = min(out.Reach, moved)
		}
	}
	return out, nil
}

// left is the least share of the posterior's precision that is left without a row: below, the
// difference has few digits.
const left = 1e-6

// none says whether no Gaussian of that precision or more becomes N(m, v) by the row. Of those
// that become Gaussians with the mean m the widest has the largest variance then: with natural
// parameters (shift, -precision/2) of s and s² the slope of that variance in the second, the mean
// held, is what of the variance of s² a line in s does not explain. shift is near the answer.
func none(l lik.Likelihood, o lik.Obs, m, v, shift float64) bool {
	vc := v / left
	low, high := math.Inf(-1), math.Inf(1)
	for range 40 {
		t := l.Moments(o, shift*vc, vc)
		mean, variance := vc*(shift+t.Alpha), vc*t.Ratio
		off := m - mean
		if !(variance > 0) || math.IsNaN(off) || math.IsInf(variance, 1) {
			return false
		}
		if math.Abs(off) < 1e-4*math.Sqrt(min(variance, v)) {
			return variance < v
		}
		if off > 0 {
			low = shift
		} else {
			high = shift
		}
		next := shift + off/variance
		if !(next > low && next < high) {
			if next = 0.5 * (low + high); math.IsInf(next, 0) {
				return false
			}
		}
		shift = next
	}
	return false
}

// cavity is the Gaussian that becomes N(m, v) by the row's likelihood and the projection on
// moments, by EP's update of the row's site under a posterior that is kept; false where none
// is found, as where v is larger than any such Gaussian leaves.
func cavity(l lik.Likelihood, o lik.Obs, m, v float64) (mc, vc float64, ok bool) {
	const (
		most = 500
		soon = 12    // steps after which it is asked whether there is one
		tol  = 1e-11 // of the moments, in deviations: far below what EP's own convergence leaves
	)
	_, r, d2 := l.LogLik(o, m)
	// From Laplace's factor, which may claim more precision than there is.
	precision := math.Max(1/v+math.Min(d2, 0), 0.1/v)
	shift := precision*m - r
	step, last, asked := 1.0, math.Inf(1), false
	for k := range most {
		if few := precision*v < left; few || k == soon {
			if few && asked || !asked && none(l, o, m, v, shift) {
				return 0, 0, false
			}
			precision, asked = math.Max(precision, left/v), true
		}
		mc, vc = shift/precision, 1/precision
		t := l.Moments(o, mc, vc)
		dm, dv := mc+vc*t.Alpha-m, vc*t.Ratio-v
		far := math.Abs(dm)/math.Sqrt(v) + math.Abs(dv)/v
		if !(t.Ratio > 0) || math.IsNaN(far) {
			return 0, 0, false
		}
		if far < tol {
			return mc, vc, true
		}
		if far > last { // too long a step
			step = math.Max(step/2, 0.05)
		}
		last = far
		site := t.Beta / t.Ratio
		to, toShift := 1/v-site, m/v-(t.Alpha+mc*t.Beta)/t.Ratio
		if to < precision/4 { // no Gaussian yet, or by a leap
			k := 0.75 * precision / (precision - to)
			to, toShift = precision+k*(to-precision), shift+k*(toShift-shift)
		}
		precision += step * (to - precision)
		shift += step * (toShift - shift)
	}
	return 0, 0, false
}

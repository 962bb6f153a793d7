package lik

import "math"

// minPrecisionShare is the least share of the posterior's precision that must be left without a
// row: below it the difference has few digits.
const minPrecisionShare = 1e-6

// Cavity returns the Gaussian of a predictor, N(mc, vc), that a row's likelihood and moment matching
// turn into N(m, v), with the moments there: the cavity of the row in a posterior of expectation
// propagation, whose site has precision Beta/Ratio and, at m, slope Alpha. ok is false if none is
// found, for example if v is larger than any such Gaussian yields. The search is EP's update of the
// row's site under a fixed posterior.
//
// Cost: about four evaluations of the moments for a row with little weight in the posterior, up to
// some hundreds for one with nearly all.
func Cavity(l Likelihood, o Obs, m, v float64) (mc, vc float64, t Tilted, ok bool) {
	const (
		most = 500
		soon = 12    // steps after which existence is checked
		tol  = 1e-11 // of the moments, in standard deviations: far below what EP's own convergence leaves
	)
	_, r, d2 := l.LogLik(o, m)
	// Start from Laplace's factor, which may claim more precision than there is. Means are relative
	// to m, which may be many standard deviations from 0.
	precision, shift := math.Max(1/v+math.Min(d2, 0), 0.1/v), -r
	step, last, asked := 1.0, math.Inf(1), false
	for k := range most {
		if few := precision*v < minPrecisionShare; few || k == soon {
			if few && asked || !asked && noCavity(l, o, m, v, shift) {
				return 0, 0, t, false
			}
			precision, asked = math.Max(precision, minPrecisionShare/v), true
		}
		d := shift / precision
		mc, vc = m+d, 1/precision
		t = l.Moments(o, mc, vc)
		dm, dv := d+vc*t.Alpha, vc*t.Ratio-v
		far := math.Abs(dm)/math.Sqrt(v) + math.Abs(dv)/v
		if !(t.Ratio > 0) || math.IsNaN(far) {
			return 0, 0, t, false
		}
		if far < tol {
			return mc, vc, t, true
		}
		if far > last { // too long a step
			step = math.Max(step/2, 0.05)
		}
		last = far
		to, toShift := 1/v-t.Beta/t.Ratio, -(t.Alpha+d*t.Beta)/t.Ratio
		if to < precision/4 { // not yet a Gaussian, or only by a leap
			k := 0.75 * precision / (precision - to)
			to, toShift = precision+k*(to-precision), shift+k*(toShift-shift)
		}
		precision += step * (to - precision)
		shift += step * (toShift - shift)
	}
	return 0, 0, t, false
}

// noCavity reports that no Gaussian of at least the least precision is turned into N(m, v) by the
// row. Of those that become Gaussians with mean m, the widest gets the largest variance: with
// natural parameters (shift, -precision/2) of s - m and its square, the slope of that variance in
// the second, for a fixed mean, is the part of the variance of the square that a line in s does not
// explain. shift is near the answer.
func noCavity(l Likelihood, o Obs, m, v, shift float64) bool {
	vc := v / minPrecisionShare
	low, high := math.Inf(-1), math.Inf(1)
	for range 40 {
		t := l.Moments(o, m+shift*vc, vc)
		off, variance := -vc*(shift+t.Alpha), vc*t.Ratio
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

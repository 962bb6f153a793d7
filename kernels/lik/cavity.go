package lik

import "math"

// left is the least share of the posterior's precision that is left without a row: below, the
// difference has few digits.
const left = 1e-6

// Cavity is the Gaussian of a predictor, N(mc, vc), that becomes N(m, v) by a row's likelihood
// and the projection on moments, with the moments there: what is left of a posterior of
// expectation propagation without the row, whose site has the precision Beta/Ratio and, at m,
// the slope Alpha. False where none is found, as where v is larger than any such Gaussian leaves.
// The search is EP's update of the row's site under a posterior that is kept.
//
// Cost: some four evaluations of the moments where the row has little weight in the posterior, up to
// some hundreds where it has nearly all.
func Cavity(l Likelihood, o Obs, m, v float64) (mc, vc float64, t Tilted, ok bool) {
	const (
		most = 500
		soon = 12    // steps after which it is asked whether there is one
		tol  = 1e-11 // of the moments, in deviations: far below what EP's own convergence leaves
	)
	_, r, d2 := l.LogLik(o, m)
	// From Laplace's factor, which may claim more precision than there is. Means are taken less
	// m, which may be many deviations from 0.
	precision, shift := math.Max(1/v+math.Min(d2, 0), 0.1/v), -r
	step, last, asked := 1.0, math.Inf(1), false
	for k := range most {
		if few := precision*v < left; few || k == soon {
			if few && asked || !asked && none(l, o, m, v, shift) {
				return 0, 0, t, false
			}
			precision, asked = math.Max(precision, left/v), true
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
		if to < precision/4 { // no Gaussian yet, or by a leap
			k := 0.75 * precision / (precision - to)
			to, toShift = precision+k*(to-precision), shift+k*(toShift-shift)
		}
		precision += step * (to - precision)
		shift += step * (toShift - shift)
	}
	return 0, 0, t, false
}

// none says whether no Gaussian of the least precision or more becomes N(m, v) by the row. Of those
// that become Gaussians with the mean m the widest has the largest variance then: with natural
// parameters (shift, -precision/2) of s - m and its square the slope of that variance in the second,
// the mean held, is what of the variance of the square a line in s does not explain. shift is near
// the answer.
func none(l Likelihood, o Obs, m, v, shift float64) bool {
	vc := v / left
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

package lik

import (
	"math"

	"github.com/bglm/bglm/kernels/special"
)

// A bumpy shape need not be concave. wide is the width of a panel from d to the right over which
// 16 nodes resolve its exponential. strip bounds the growth of the exponential off the real line if
// the tilted distribution ends at right: at d + ib it is at most e^(bend b²/2), for every b up to
// most.
type bumpy interface {
	shape
	wide(d float64) float64
	strip(right float64) (bend, most float64)
}

// modes are the local maxima, as offsets t from m, of l(m+t) - t²/2v, whose slope
// F(t) = l'(m+t) - t/v falls, rises between at most two turning points, and falls again.
type modes struct {
	n      int
	t, tau [2]float64
}

// findModes needs l' and l” at m+t, and the turning points of F, NaN if it has none.
func findModes(v, low, high float64, slope func(t float64) (d1, d2 float64)) (found modes) {
	if !(low < high) {
		lo, hi := 0.0, math.Inf(1)
		if d1, _ := slope(0); !(d1 > 0) {
			lo, hi = math.Inf(-1), 0
		}
		found.n = 1
		found.t[0], found.tau[0] = fallingRoot(v, lo, hi, slope)
		return found
	}
	d1, _ := slope(low)
	first := d1 <= low/v
	d1, _ = slope(high)
	if first {
		found.t[0], found.tau[0] = fallingRoot(v, math.Inf(-1), low, slope)
		found.n = 1
	}
	if d1 >= high/v || !first {
		found.t[found.n], found.tau[found.n] = fallingRoot(v, high, math.Inf(1), slope)
		found.n++
	}
	return found
}

// fallingRoot finds the root of F between lo and hi, one of which may be infinite, to modeTol of
// the local standard deviation tau.
func fallingRoot(v, lo, hi float64, slope func(t float64) (d1, d2 float64)) (t, tau float64) {
	for step := math.Sqrt(v); math.IsInf(lo, -1) && !math.IsInf(step, 1); step *= 2 {
		t = hi - step
		if d1, _ := slope(t); d1 >= t/v {
			lo = t
		} else {
			hi = t
		}
	}
	for step := math.Sqrt(v); math.IsInf(hi, 1) && !math.IsInf(step, 1); step *= 2 {
		t = lo + step
		if d1, _ := slope(t); !(d1 > t/v) {
			hi = t
		} else {
			lo = t
		}
	}
	t = 0.5 * (lo + hi)
	if lo < 0 && hi > 0 || lo == 0 || hi == 0 {
		t = 0
	}
	for i := 1; ; i++ {
		d1, d2 := slope(t)
		f, fall := d1-t/v, 1/v-d2
		step := f / fall
		tau = 1 / math.Sqrt(math.Max(fall, 1e-3/v))                          // a flat maximum is no wider than the prior allows
		if math.Abs(step) <= modeTol*tau && tau > 0 && fall > 0 || i > 300 { // tau is 0 if l” overflows
			return t, tau
		}
		if f > 0 {
			lo = t
		} else {
			hi = t
		}
		t += step
		if i%3 == 0 || !(t > lo && t < hi) {
			t = 0.5 * (lo + hi)
			if t == lo || t == hi {
				return t, tau
			}
		}
	}
}

// tiltModes integrates the tilted distribution about its higher mode a, and about the other one, at
// distance other, if the density there is relevant; 0 means that there is none. valley returns the
// point that separates the two.
func tiltModes[S bumpy](sh S, a anchor, v, drop, other float64, valley func() float64) (s sums) {
	half := -0.5 / v
	f := func(d float64) float64 {
		gap, _, _ := sh.at(d)
		return gap + d*(a.resid+half*d)
	}
	if other == 0 || !(f(other) > -drop) {
		if t, ok := hermite(sh, a, v, hermiteScale(sh, a)); ok {
			return t
		}
		if even(sh, a, v, drop, &s) {
			return s
		}
		bumps(sh, a, v, -reach(f, 0, -a.tau, math.Inf(-1), drop), reach(f, 0, a.tau, math.Inf(1), drop), &s)
		return s
	}
	cut := valley() - a.t
	if other > 0 {
		bumps(sh, a, v, -reach(f, 0, -a.tau, math.Inf(-1), drop), reach(f, 0, a.tau, cut, drop), &s)
		bumps(sh, a, v, other-reach(f, other, -a.tau, cut, drop), other+reach(f, other, a.tau, math.Inf(1), drop), &s)
	} else {
		bumps(sh, a, v, other-reach(f, other, -a.tau, math.Inf(-1), drop), other+reach(f, other, a.tau, cut, drop), &s)
		bumps(sh, a, v, -reach(f, 0, -a.tau, cut, drop), reach(f, 0, a.tau, math.Inf(1), drop), &s)
	}
	return s
}

// reach returns the distance from d0, in the direction of step, at which f is below -drop but by no
// more than 20 (a wall beyond would cost panels), or to limit if that comes first.
func reach(f func(float64) float64, d0, step, limit, drop float64) float64 {
	if !math.IsInf(limit, 0) && f(limit) > -drop {
		return math.Abs(limit - d0)
	}
	hi := step
	for hi != 0 && f(d0+hi) > -drop && !math.IsInf(hi, 0) { // 0: the curvature overflows
		hi *= 2
	}
	if math.Abs(hi) > math.Abs(limit-d0) {
		hi = limit - d0
	}
	lo := 0.0
	for i := 0; i < 100 && !(f(d0+hi) > -drop-20) && math.Abs(hi-lo) > 1e-9*math.Abs(hi); i++ {
		mid := 0.5 * (lo + hi)
		if f(d0+mid) > -drop {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Abs(hi)
}

// hermiteScale is the scale that hermite asks for: half of how far singularities are from the real
// line.
func hermiteScale[S bumpy](sh S, a anchor) float64 {
	_, most := sh.strip(hermiteRule[1][0] * a.tau)
	return math.Sqrt(0.5) * most
}

const (
	evenDigits = 36 // the error of the trapezoid rule is e^-36 of the mass
	evenNodes  = 45 // on one side; panels have some 70
)

// even is the trapezoid rule for a distribution with one mode; it returns false if its step would be
// too small. Its relative error is e^(b²/2v + bend b²/2 - 2 pi b/h), for any b inside the strip.
func even[S bumpy](sh S, a anchor, v, drop float64, s *sums) bool {
	half := -0.5 / v
	right := math.Sqrt(2*drop) * a.tau
	for range 10 {
		if gap, _, _ := sh.at(right); !(gap+right*(a.resid+half*right) > -drop) {
			break
		}
		right *= 1.5
	}
	bend, b := sh.strip(right)
	bend += 1 / v
	b = math.Min(b, math.Sqrt(2*evenDigits/bend))
	h := 2 * math.Pi * b / (evenDigits + 0.5*bend*b*b)
	if !(right < evenNodes*h) {
		return false
	}
	_, _, c0 := sh.at(0)
	t := sums{mass: 1, curv: c0}
	for _, step := range [2]float64{h, -h} {
		for k := 1; ; k++ {
			d := step * float64(k)
			gap, slope, curv := sh.at(d)
			e := gap + d*(a.resid+half*d)
			if !(e > -drop) {
				break
			}
			if k > evenNodes {
				return false
			}
			t.add(special.ExpDown(e), d, slope, curv)
		}
	}
	t.times(h)
	*s = t
	return true
}

// maxPanels is far above the few hundred panels of any distribution that double precision resolves;
// for others rounding noise may extend without end.
const maxPanels = 10000

// bumps adds the Gauss-Legendre panels from left to right.
func bumps[S bumpy](sh S, a anchor, v, left, right float64, s *sums) {
	half := -0.5 / v
	widest := 2 * math.Sqrt(v)
	x := left
	for n := 0; x < right && n < maxPanels; n++ {
		wide := math.Min(widest, sh.wide(x))
		if !(x+wide < right) {
			wide = right - x
		}
		c := 0.5 * wide
		mid := x + c
		for i, u := range legendre[0] {
			d := mid + c*u
			gap, slope, curv := sh.at(d)
			e := gap + d*(a.resid+half*d)
			if e > -500 {
				s.add(c*legendre[1][i]*special.ExpDown(e), d, slope, curv)
			}
		}
		if x+wide == x {
			break
		}
		x += wide
	}
}

// tiltedFree is tilted for a distribution that is not log-concave: the variance may exceed the
// prior's and beta may be negative. The derivative identities are for rows whose l' and l” are
// small on the prior's scale everywhere; for others they would cancel.
func (s sums) tiltedFree(a anchor, v float64) Tilted {
	inv := 1 / s.mass
	delta := s.d * inv
	logZ := a.logp - 0.5*a.t*(a.t/v) + math.Log(s.mass/math.Sqrt(2*math.Pi*v))
	if v*(s.slopeSq+math.Abs(s.curv))*inv < 0.5 {
		ds := s.slope * inv
		beta := s.curv*inv - (s.slopeSq*inv - ds*ds)
		return Tilted{LogZ: logZ, Alpha: a.d1 + ds, Beta: beta, Ratio: math.Max(tinyRatio, 1-v*beta)}
	}
	ratio := math.Max(tinyRatio, (s.dd*inv-delta*delta)/v)
	return Tilted{LogZ: logZ, Alpha: (a.t + delta) / v, Beta: (1 - ratio) / v, Ratio: ratio}
}

// valleyOf returns the lowest point between the modes, where F rises through 0, to 2^-30 of the
// interval.
func valleyOf(v, low, high float64, slope func(t float64) (d1, d2 float64)) float64 {
	for i := 0; i < 30; i++ {
		mid := 0.5 * (low + high)
		if d1, _ := slope(mid); d1 < mid/v {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// dropModes is how far below the higher mode the integral extends: it covers what an interval as
// wide as the prior could add to the variance of a mode as narrow as tau.
func dropModes(v, tau float64) float64 {
	return dropPanels + 3*math.Max(0, math.Log(math.Sqrt(v)/tau))
}

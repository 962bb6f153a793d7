package lik

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/special"
)

// Shaped is implemented by likelihoods with a shape: the size of negbinomial, the
// shape of gamma, the degrees of freedom of studentt.
type Shaped interface{ Shape() float64 }

// Dispersed is implemented by likelihoods with a dispersion: the noise variance of
// gaussian, the squared scale of studentt.
type Dispersed interface{ Dispersion() float64 }

// WithDispersion returns l, made with p, with another dispersion > 0.
func WithDispersion(l Likelihood, p Params, dispersion float64) Likelihood {
	p.Dispersion = dispersion
	if s, ok := l.(Shaped); ok {
		p.Shape = s.Shape()
	}
	w, err := Remake(l, p)
	if err != nil { // out of the range of numbers
		return l
	}
	return w
}

// shapeOr returns a family's shape, or its default if p has none (0 or NaN).
//
// The work of a predictive interval grows as 1/shape, the width of the distribution's tail: without
// a lower bound it would not end.
func shapeOr(p Params, def float64, family, what string) (float64, error) {
	if p.Shape == 0 || math.IsNaN(p.Shape) {
		return def, nil
	}
	if !(p.Shape > 0) || math.IsInf(p.Shape, 1) {
		return 0, fmt.Errorf("shape = %v: %s takes %s > 0, finite (default %v)", p.Shape, family, what, def)
	}
	if p.Shape < MinShape {
		return 0, fmt.Errorf("shape = %v: %s takes %s from %v on (default %v)", p.Shape, family, what, MinShape, def)
	}
	return p.Shape, nil
}

// findRoot solves t = v l'(m+t) for a log-concave l, from either side. peak is the t at which
// l' = 0 (±Inf if l has no maximum): the root lies between 0 and peak, and also between 0 and
// v l'(m). The accuracy is findMode's.
func findRoot(m, v, peak float64, l func(s float64) (logp, d1, d2 float64)) anchor {
	logp, d1, d2 := l(m)
	lo, hi := 0.0, v*d1
	if math.Abs(peak) < math.Abs(hi) {
		hi = peak
	}
	if hi < 0 {
		lo, hi = hi, 0
	}
	t := 0.0
	for i := 1; ; i++ {
		g := t - v*d1
		tau := 1 / math.Sqrt(1/v-d2)
		step := -g / (1 - v*d2)
		if math.Abs(step) <= modeTol*tau && tau > 0 || i > 300 {
			return anchor{t: t, logp: logp, d1: d1, resid: d1 - t/v, tau: tau}
		}
		if g < 0 {
			lo = t
		} else {
			hi = t
		}
		t += step
		if i%3 == 0 || !(t > lo && t < hi) {
			t = middle(lo, hi)
			if t == lo || t == hi {
				logp, d1, d2 = l(m + t)
				return anchor{t: t, logp: logp, d1: d1, resid: d1 - t/v, tau: 1 / math.Sqrt(1/v-d2)}
			}
		}
		logp, d1, d2 = l(m + t)
	}
}

// middle halves a bracket on one side of 0: by magnitude if it spans several, because the far end
// is v l'(m), up to 1e300, and the root is near the logarithm of that.
func middle(lo, hi float64) float64 {
	near, far := math.Abs(hi), math.Abs(lo)
	if near > far {
		near, far = far, near
	}
	if near = max(near, 1); far > 1e3*near && (lo >= 0 || hi <= 0) {
		return math.Copysign(math.Sqrt(near)*math.Sqrt(far), lo+hi)
	}
	return 0.5 * (lo + hi)
}

// logOdds is log[C(a+b, a) p^a (1-p)^b], p = logistic(u): the binomial distribution with a successes
// and b failures, and up to a constant the negative binomial of count a and size b. It is written
// as peak + gap(u - log(a/b)), its maximum and the fall from there, because the sum of its terms
// cancels down from n log n.
//
// Source: C. Loader, "Fast and accurate computation of binomial probabilities" (2000),
// for the peak.
type logOdds struct {
	a, b, n, u0 float64
	peak        float64 // log of the binomial probability of a in a+b at p = a/(a+b)
}

func newLogOdds(a, b float64) logOdds {
	l := logOdds{a: a, b: b, n: a + b}
	if a > 0 && b > 0 {
		l.u0 = math.Log(a / b)
		l.peak = special.StirlingError(l.n) - special.StirlingError(a) - special.StirlingError(b) +
			0.5*(math.Log(l.n/a)-math.Log(2*math.Pi*b))
	}
	return l
}

// at returns the log probability at log odds u.
func (l logOdds) at(u float64) float64 {
	switch {
	case l.a == 0:
		return -l.b * special.Log1pExp(u)
	case l.b == 0:
		return -l.a * special.Log1pExp(-u)
	case math.IsInf(u, 0):
		return math.Inf(-1)
	}
	gap, _, _ := newLogitShape(l.u0, l.n).at(u - l.u0)
	return l.peak + gap
}

// slopes returns the derivatives of a log p + b log(1-p) in u.
func (l logOdds) slopes(u float64) (d1, d2 float64) {
	e := math.Exp(-math.Abs(u))
	big := 1 / (1 + e)
	small := e * big
	if u >= 0 {
		return l.a*small - l.b*big, -l.n * small * big
	}
	return l.a*big - l.b*small, -l.n * small * big
}

// logOddsMoments returns the moments for exp(w l.at(u)) under N(m, v). The curved part is that of a
// logit row of weight w(a+b), for any split, so one shape serves all.
func logOddsMoments(l logOdds, w, m, v float64) Tilted {
	if w*l.n == 1 && w == 1 && (l.a == 0 || l.b == 0) {
		if l.a == 0 {
			t := logitMoments(-m, v)
			t.Alpha = -t.Alpha
			return t
		}
		return logitMoments(m, v)
	}
	peak := l.u0 - m
	if l.a == 0 {
		peak = math.Inf(-1)
	} else if l.b == 0 {
		peak = math.Inf(1)
	}
	a := findRoot(m, v, peak, func(u float64) (logp, d1, d2 float64) {
		d1, d2 = l.slopes(u)
		return 0, w * d1, w * d2
	})
	u0 := m + a.t
	a.logp = w * l.at(u0)
	// the Fourier transform is that of a log-beta density, |Gamma(a + ix) Gamma(b + ix)|
	h := math.Min(0.65*a.tau/(1+0.5*a.tau), 0.38)
	turn := math.Log1p(w*l.a) - math.Log1p(w*l.b)
	return tilt(newLogitShape(u0, w*l.n), a, v, h, bend{math.Min(0, turn) - u0, math.Max(0, turn) - u0, 1, 0}).tilted(a, v)
}

// lognormal returns the mean and variance of e^s, s ~ N(m, v), and E e^2s. Each is +Inf only if it
// exceeds the largest number.
func lognormal(m, v float64) (mean, variance, square float64) {
	mean = math.Exp(m + 0.5*v)
	if v > 0 {
		logGrowth := v
		if v < 40 {
			logGrowth = math.Log(math.Expm1(v))
		}
		variance = math.Exp(2*(m+0.5*v) + logGrowth)
	}
	return mean, variance, math.Exp(2 * (m + v))
}

// countQuantile returns the smallest whole number whose cdf reaches p; guess is a start, up to
// hugeRate. It is +Inf if the quantile is beyond twice that.
func countQuantile(p, guess float64, cdf func(k float64) float64) float64 {
	guess = math.Floor(guess)
	step := math.Max(1, math.Floor(0.5*math.Sqrt(guess)))
	lo, hi := guess, guess // want cdf(lo) < p <= cdf(hi)
	for cdf(hi) < p {
		if hi > 2*hugeRate {
			return math.Inf(1)
		}
		lo = hi
		hi += step
		step *= 2
	}
	if hi == guess {
		for lo >= 0 && cdf(lo) >= p {
			hi = lo
			lo -= step
			step *= 2
		}
		lo = math.Max(lo, -1)
	}
	for hi-lo > 1 {
		mid := math.Floor(0.5 * (lo + hi))
		if mid <= lo || mid >= hi {
			break
		}
		if cdf(mid) < p {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// quantile returns the root of an increasing f, to 1e-12 of step: bracketed by doubling steps from
// guess, then by inverse quadratic interpolation where that is safe, and bisection.
//
// Source: T. Chandrupatla, "A new hybrid quadratic/bisection algorithm" (1997).
func quantile(guess, step float64, f func(x float64) float64) float64 {
	lo, hi := guess, guess
	flo := f(lo)
	fhi := flo
	for wide := step; flo > 0 && wide < 1e300; wide *= 2 {
		hi, fhi = lo, flo
		lo -= wide
		flo = f(lo)
	}
	for wide := step; fhi < 0 && wide < 1e300; wide *= 2 {
		lo, flo = hi, fhi
		hi += wide
		fhi = f(hi)
	}
	// a is the last point, b on the other side of the root, c the one before.
	a, fa, b, fb, c, fc := hi, fhi, lo, flo, lo, flo
	if math.Abs(flo) < math.Abs(fhi) {
		a, fa, b, fb = lo, flo, hi, fhi
		c, fc = b, fb
	}
	share := fa / (fa - fb) // of the way from a to b: initially the secant
	for range 200 {
		if fa == 0 {
			return a
		}
		if fb == 0 {
			return b
		}
		least := 0.5e-12 * step / math.Abs(b-a)
		if !(least < 0.5) {
			break
		}
		if share = math.Min(math.Max(share, least), 1-least); math.IsNaN(share) {
			share = 0.5
		}
		x := a + share*(b-a)
		if x == a || x == b {
			break
		}
		fx := f(x)
		if !(fx <= 0) == !(fa <= 0) { // an overflow counts as above
			c, fc = a, fa
		} else {
			c, fc, b, fb = b, fb, a, fa
		}
		a, fa = x, fx
		share = 0.5
		xi, phi := (a-b)/(c-b), (fa-fb)/(fc-fb)
		if phi*phi < xi && (1-phi)*(1-phi) < 1-xi {
			share = fa/(fb-fa)*fc/(fb-fc) + (c-a)/(b-a)*fa/(fc-fa)*fb/(fc-fb)
		}
	}
	if math.Abs(fb) < math.Abs(fa) {
		return b
	}
	return a
}

// MinShape is the least shape of a family that has one. A predictive interval takes 0.1 s
// there.
const MinShape = 1e-3

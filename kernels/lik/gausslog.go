package lik

import (
	"math"
	"math/rand/v2"

	"github.com/bglm/bglm/kernels/special"
)

// gaussianLog is p(y|s) = N(y; e^s, dispersion). With c = w/D and x = e^s the log likelihood
// -c(y-x)²/2 has slope c x (y-x) and curvature c x (y-2x): for y > 0 it is flat far below log y,
// bends up until x = y/2, and peaks at x = y. The tilted distribution can have two modes, one near
// m and one near log y, and more variance than the prior.
//
// Accuracy: logZ 1e-10, mean and variance 1e-8; all modes count.
type gaussianLog struct{ normal }

func newGaussianLog(p Params) (Likelihood, error) {
	l, err := newGaussian(p)
	if err != nil {
		return nil, err
	}
	n := l.(gaussian).normal
	n.rule = n.rule.unclamped()
	return gaussianLog{n}, nil
}

func (gaussianLog) Link() string { return "log" }

func (gaussianLog) Traits() Traits {
	return Traits{Homoscedastic: true, LogMean: true, Growth: 1, Scale: 1, Inverse: logInverse}
}

// Draw returns e^s plus noise.
func (g gaussianLog) Draw(s, _ float64, src rand.Source) float64 { return g.draw(g.Response(s), src) }

// CDF has no steps.
func (g gaussianLog) CDF(o Obs, s float64) (below, upTo float64) {
	return g.normal.cdf(o.Y, g.Response(s))
}

// pooling requires a common offset, because the mean of the response is not additive in it.
func (gaussianLog) pooling() Pooling {
	return Pooling{ByOffset: true, Add: func(p *Pool, o Obs, _ float64) { p.mean(o) }, Make: twoNormals}
}

func (g gaussianLog) LogLik(o Obs, s float64) (logp, d1, d2 float64) {
	if o.Weight == 0 {
		return 0, 0, 0
	}
	c, x := o.Weight/g.dispersion, math.Exp(s)
	return g.logp(o, x), c * x * (o.Y - x), c * x * (o.Y - 2*x)
}

func (g gaussianLog) logp(o Obs, x float64) float64 {
	r := o.Y - x
	return -0.5 * o.Weight * (math.Log(2*math.Pi*g.dispersion) + r*(r/g.dispersion))
}

// Moments finds the modes from the turning points of the slope of the tilted distribution:
// c x (y-2x) = 1/v at x = (y ± sqrt(y² - 8/(cv)))/4.
func (g gaussianLog) Moments(o Obs, m, v float64) Tilted {
	if !proper(o, m, v) {
		logp, d1, d2 := g.LogLik(o, m)
		return degenerate(o.Weight, m, v, logp, d1, d2)
	}
	if g.rule != nil {
		return g.rule.moments(g, o, m, v)
	}
	y, c := o.Y, o.Weight/g.dispersion
	slope := func(t float64) (d1, d2 float64) {
		x := math.Exp(m + t)
		return c * x * (y - x), c * x * (y - 2*x)
	}
	low, high := math.NaN(), math.NaN()
	if q := y*y - 8/(c*v); y > 0 && q > 0 {
		top := 0.25 * (y + math.Sqrt(q))
		low, high = math.Log(0.5/(c*v*top))-m, math.Log(top)-m
		if math.IsInf(low, 0) || math.IsInf(high, 0) { // y² or c v y overflows
			low, high = math.NaN(), math.NaN()
		}
	}
	found := findModes(v, low, high, slope)
	a, sh := g.anchorAt(o, c, m, v, found.t[0], found.tau[0])
	other := 0.0
	drop := dropModes(v, found.tau[0])
	if found.n == 2 {
		drop = math.Max(drop, dropModes(v, found.tau[1]))
		other = found.t[1] - found.t[0]
		if gap, _, _ := sh.at(other); gap+other*(a.resid-0.5*other/v) > 0 {
			a, sh = g.anchorAt(o, c, m, v, found.t[1], found.tau[1])
			other = -other
		}
	}
	return tiltModes(sh, a, v, drop, other, func() float64 { return valleyOf(v, low, high, slope) }).tiltedFree(a, v)
}

func (g gaussianLog) anchorAt(o Obs, c, m, v, t, tau float64) (anchor, gaussianLogShape) {
	s0 := m + t
	x := math.Exp(s0)
	d1 := c * x * (o.Y - x)
	near := -0.5 * math.Log(c)
	if o.Y != 0 {
		near = math.Min(near, -math.Log(c*math.Abs(o.Y)))
	}
	return anchor{t: t, logp: g.logp(o, x), d1: d1, resid: d1 - t/v, tau: tau},
		gaussianLogShape{s0: s0, x0: x, y: o.Y, c: c, d1: d1, near: near}
}

// gaussianLogShape is -c(y - e^s)²/2 about s0; below near it is nearly constant.
type gaussianLogShape struct{ s0, x0, y, c, d1, near float64 }

func (g gaussianLogShape) at(d float64) (gap, slope, curv float64) {
	if math.Abs(d) > 30 || g.x0 < 1e-200 {
		x := math.Exp(g.s0 + d)
		rise := x - g.x0
		return g.c*rise*(g.y-0.5*(x+g.x0)) - g.d1*d, g.c * rise * (g.y - x - g.x0), g.c * x * (2*x - g.y)
	}
	one := special.Expm1Gap(d)
	rise := one + d // e^d - 1
	// e^2d - 1 - 2d = rise² + 2 (e^d - 1 - d)
	x := g.x0 * (1 + rise)
	gap = g.c * g.x0 * (g.y*one - g.x0*(0.5*rise*rise+one))
	rise *= g.x0
	return gap, g.c * rise * (g.y - x - g.x0), g.c * x * (2*x - g.y)
}

func (g gaussianLogShape) wide(d float64) float64 {
	s := g.s0 + d
	w := math.Max(1, 0.6*(g.near-s))
	x := math.Exp(s + w)
	return math.Min(w, 2.5/math.Sqrt(g.c*x*(math.Abs(g.y)+2*x)))
}

// strip: with x = e^s the exponential grows by c (x² sin²b - x y (1 - cos b)), most at the right
// end, beyond which the density falls faster than that.
func (g gaussianLogShape) strip(right float64) (bend, most float64) {
	x := math.Exp(g.s0 + right)
	return g.c * x * (2*x + math.Max(-g.y, 0)), 0.5
}

func (gaussianLog) Response(s float64) float64 { return math.Exp(s) }

// Predict uses that the mean of y is lognormal, and adds the variance of the noise.
func (g gaussianLog) Predict(m, v float64) (mean, variance float64) {
	mean, spread, _ := lognormal(m, v)
	return mean, spread + g.dispersion
}

func (g gaussianLog) Moderated(m, v float64) float64 {
	mean, _ := g.Predict(m, v)
	return mean
}

// Interval returns quantiles of the predictive distribution by its distribution function and a
// bracketing root finder: probabilities to 1e-10.
func (g gaussianLog) Interval(m, v, level float64) (lower, upper float64) {
	if !(level > 0 && level < 1) || math.IsNaN(m) || math.IsInf(m, 0) || !(v >= 0) {
		return math.NaN(), math.NaN()
	}
	z := centralZ(level)
	sd := math.Sqrt(v)
	noise := math.Sqrt(g.dispersion)
	find := func(p, z float64) float64 {
		mid := math.Exp(m + z*sd)
		if mid*1e-9 > noise { // the noise moves the quantile by less than a part in 1e9
			return mid
		}
		return quantile(mid+z*noise, noise, func(y float64) float64 { return g.predictive(y, m, v) - p })
	}
	return find(0.5*(1-level), -z), find(0.5*(1+level), z)
}

// predictive returns P(Y <= y) = E Phi((y - e^s)/sqrt(D)): panels over m ± 8.5 standard deviations
// that shrink towards the point where Phi turns.
func (g gaussianLog) predictive(y, m, v float64) float64 {
	noise := math.Sqrt(g.dispersion)
	if v == 0 {
		return special.Phi((y - math.Exp(m)) / noise)
	}
	turn := math.Log(math.Max(y, noise))
	scale := math.Min(1, noise/math.Exp(turn))
	sd := math.Sqrt(v)
	var mass, sum float64
	for x, end := m-8.5*sd, m+8.5*sd; x < end; {
		wide := math.Min(1.5*sd, math.Max(0.7*scale, 0.5*math.Abs(x-turn)))
		if x+wide > end {
			wide = end - x
		}
		c := 0.5 * wide
		for i, u := range legendre[0] {
			s := x + c + c*u
			z := (s - m) / sd
			p := c * legendre[1][i] * math.Exp(-0.5*z*z)
			mass += p
			sum += p * special.Phi((y-math.Exp(s))/noise)
		}
		if x+wide == x {
			break
		}
		x += wide
	}
	return sum / mass
}

package lik

import (
	"math"

	"github.com/bglm/bglm/kernels/special"
)

// cloglog is p(y=1|s) = 1 - exp(-e^s): the probability of at least one event of a Poisson
// distribution of rate e^s. y = 0 is y = 0 of that distribution; y = 1 uses the shared quadrature.
// Accuracy: logZ 1e-9, mean and variance 1e-8.
type cloglog struct{ rule *rule }

func newCloglog(p Params) (Likelihood, error) {
	r, err := newRule(p.Quadrature)
	return cloglog{r}, err
}

func (cloglog) Family() string    { return "bernoulli" }
func (cloglog) Link() string      { return "cloglog" }
func (cloglog) Check(o Obs) error { return checkBinary(o) }

func (cloglog) Traits() Traits {
	return Traits{Concave: true, Binary: true, LogRate: true, Growth: 1, Scale: 1, Inverse: cloglogInverse}
}

var cloglogInverse = Inverse{
	Bend: func(s float64) float64 { return 1 - math.Exp(s) },
	Slopes: func(s float64) (d1, d2, d3 float64) {
		u := math.Exp(s)
		if d1 = u * math.Exp(-u); d1 == 0 || math.IsNaN(d1) {
			return 0, 0, 0
		}
		return d1, d1 * (1 - u), d1 * (1 - 3*u + u*u)
	},
	Predictor: chance(func(p float64) float64 { return math.Log(-math.Log1p(-p)) }),
}

func (cloglog) LogLik(o Obs, s float64) (logp, d1, d2 float64) {
	if o.Y == 0 {
		return poissonLog(o.Weight, 0, s)
	}
	return cloglogLog(o.Weight, s)
}

// cloglogLog returns w log(1 - e^-x), x = e^s, with derivatives w x/(e^x - 1) =: w D and
// -w D (x/(1-e^-x) - 1).
func cloglogLog(w, s float64) (logp, d1, d2 float64) {
	x := math.Exp(s)
	switch {
	case w == 0 || x > 745: // e^-x has underflowed
		return 0, 0, 0
	case x < 1e-20: // log x + O(x)
		return w * (s - 0.5*x), w * (1 - 0.5*x), -w * 0.5 * x
	}
	t := -math.Expm1(-x)
	d1 = x * math.Exp(-x) / t
	return w * special.Log1mExpNeg(x), w * d1, -w * d1 * special.Expm1Gap(-x) / t
}

func (l cloglog) Moments(o Obs, m, v float64) Tilted {
	if !proper(o, m, v) {
		logp, d1, d2 := l.LogLik(o, m)
		return degenerate(o.Weight, m, v, logp, d1, d2)
	}
	if l.rule != nil {
		return l.rule.moments(l, o, m, v)
	}
	if o.Y == 0 {
		return poissonMoments(o.Weight, 0, m, v)
	}
	return cloglogMoments(o.Weight, m, v)
}

// cloglogMoments returns the moments for (1 - exp(-e^s))^w: at weight 1 from the complement of
// y = 0, Z = 1 - Z0, if Z0 is below 0.8, so that the difference keeps its digits.
func cloglogMoments(w, m, v float64) Tilted {
	if w == 1 && m > -1.2 {
		no := poissonMoments(1, 0, m, v)
		if no.LogZ < -0.22 {
			z0 := math.Exp(no.LogZ)
			odds := z0 / (1 - z0)
			alpha := -no.Alpha * odds
			beta := alpha*alpha + odds*(no.Alpha*no.Alpha-no.Beta)
			return finish(Tilted{LogZ: math.Log1p(-z0), Alpha: alpha, Beta: beta, Ratio: 1 - v*beta})
		}
	}
	a := findMode(m, v, func(s float64) (logp, d1, d2 float64) { return cloglogLog(w, s) })
	s0 := m + a.t
	// (1 - e^-x)^w rises at x = log w, over 1/log w in s
	k := 1 + math.Log(math.Max(1, w))
	h := math.Min(0.75*a.tau, 0.33/k)
	return tilt(newCloglogShape(s0, w), a, v, h, bend{-s0 - 1, math.Log(k) - s0, 1 / k, 0}).tilted(a, v)
}

// cloglogSmall bounds the series of cloglogRest.
const cloglogSmall = 0.5

// cloglogShape is w log(1 - e^-x) about s0. For small x it is written s + rest(x),
// rest = log((1-e^-x)/x), so that the linear part cancels exactly.
type cloglogShape struct {
	s0, w         float64
	x0, logp0, d1 float64 // at s0 and weight 1
	rest0, bend0  float64 // small x0: rest(x0) and 1 - d1
}

func newCloglogShape(s0, w float64) cloglogShape {
	c := cloglogShape{s0: s0, w: w, x0: math.Exp(s0)}
	c.logp0, c.d1, _ = cloglogLog(1, s0)
	if c.x0 <= cloglogSmall {
		c.rest0, c.bend0, _ = cloglogRest(c.x0)
	}
	return c
}

// cloglogRest returns log((1-e^-x)/x), 1 - D with D = x/(e^x-1), and -dD/ds, by the
// series D = 1 - x/2 + sum of b_k x^2k, b_k = B_2k/(2k)!, which drops 5e-18 at x = 1/2.
func cloglogRest(x float64) (rest, bend, curv float64) {
	const (
		b1 = 1. / 12
		b2 = -1. / 720
		b3 = 1. / 30240
		b4 = -1. / 1209600
		b5 = 1. / 47900160
		b6 = -691. / 1307674368000
		b7 = 1. / 74724249600
	)
	q := x * x
	rest = -0.5*x + q*(b1/2+q*(b2/4+q*(b3/6+q*(b4/8+q*(b5/10+q*(b6/12+q*(b7/14)))))))
	bend = 0.5*x - q*(b1+q*(b2+q*(b3+q*(b4+q*(b5+q*(b6+q*b7))))))
	curv = 0.5*x - q*(2*b1+q*(4*b2+q*(6*b3+q*(8*b4+q*(10*b5+q*(12*b6+q*(14*b7)))))))
	return rest, bend, curv
}

func (c cloglogShape) at(d float64) (gap, slope, curv float64) {
	s := c.s0 + d
	x := c.x0 * math.Exp(d) // s0 + d would round a tiny d away
	if math.Abs(d) > 300 {
		x = math.Exp(s)
	}
	if c.x0 <= cloglogSmall && x <= cloglogSmall {
		rest, bend, curv := cloglogRest(x)
		return c.w * (rest - c.rest0 + c.bend0*d), c.w * (c.bend0 - bend), c.w * curv
	}
	logp, d1, d2 := cloglogLog(1, s)
	return c.w * (logp - c.logp0 - c.d1*d), c.w * (d1 - c.d1), -c.w * d2
}

func (cloglog) Response(s float64) float64 { return -math.Expm1(-math.Exp(s)) }

// gumbelMean is the mean of -log E for an exponential E: 1 - exp(-e^s) = P(s > log E).
const gumbelMean = 0.57721566490153286061

// Predict integrates both probabilities, each to 1e-9 relative in its own tail. For a variance
// above 1e24 log E is constant compared with s.
func (l cloglog) Predict(m, v float64) (mean, variance float64) {
	if v > 1e24 {
		z := (m + gumbelMean) / math.Sqrt(v)
		mean = special.Phi(z)
		return mean, mean * special.Phi(-z)
	}
	yes := math.Exp(l.auto(1, m, v))
	no := math.Exp(l.auto(0, m, v))
	if yes > no {
		return 1 - no, no * (1 - no)
	}
	return yes, yes * (1 - yes)
}

func (cloglog) auto(y, m, v float64) float64 {
	return cloglog{}.Moments(Obs{Y: y, Weight: 1}, m, v).LogZ
}

func (l cloglog) Moderated(m, v float64) float64 {
	mean, _ := l.Predict(m, v)
	return mean
}

func (l cloglog) Interval(m, v, level float64) (lower, upper float64) {
	lower, upper = normalQuantiles(m, v, level)
	return l.Response(lower), l.Response(upper)
}

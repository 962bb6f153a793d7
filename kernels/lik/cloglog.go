package lik

import (
	"math"

	"github.com/bglm/bglm/kernels/special"
)

// cloglog is p(y=1|s) = 1 - exp(-e^s): the chance of at least one event of a Poisson
// law of rate e^s. y = 0 is that law's y = 0; y = 1 uses the shared quadrature.
// Accuracy: logZ 1e-9, mean and variance 1e-8.
type cloglog struct{ rule *rule }

func newCloglog(p Params) (Likelihood, error) {
	r, err := newRule(p.Quadrature)
	return cloglog{r}, err
}

func (cloglog) Family() string    { return "bernoulli" }
func (cloglog) Link() string      { return "cloglog" }
func (cloglog) Check(o Obs) error { return checkBinary(o) }

func (cloglog) LogLik(o Obs, s float64) (logp, d1, d2 float64) {
	if o.Y == 0 {
		return poissonLog(o.Weight, 0, s)
	}
	return cloglogLog(o.Weight, s)
}

// cloglogLog is w log(1 - e^-x), x = e^s, with derivatives w x/(e^x - 1) =: w D and
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

func cloglogMoments(w, m, v float64) Tilted {
	a := findMode(m, v, func(s float64) (logp, d1, d2 float64) { return cloglogLog(w, s) })
	s0 := m + a.t
	// (1 - e^-x)^w rises where x = log w, over 1/log w in s
	k := 1 + math.Log(math.Max(1, w))
	h := math.Min(0.75*a.tau, 0.33/k)
	return tilt(newCloglogShape(s0, w), a, v, h, bend{-s0 - 1, math.Log(k) - s0, 1 / k}).tilted(a, v)
}

// cloglogShape is w log(1 - e^-x) about s0. For x <= 1 it is written s + rest(x),
// rest = log((1-e^-x)/x), so that the straight line cancels by hand.
type cloglogShape struct {
	s0, w         float64
	x0, logp0, d1 float64 // at s0 and weight 1
	rest0, bend0  float64 // x0 <= 1: rest(x0) and 1 - d1
}

func newCloglogShape(s0, w float64) cloglogShape {
	c := cloglogShape{s0: s0, w: w, x0: math.Exp(s0)}
	c.logp0, c.d1, _ = cloglogLog(1, s0)
	if c.x0 <= 1 {
		c.rest0, c.bend0 = cloglogRest(c.x0)
	}
	return c
}

// cloglogRest returns log((1-e^-x)/x) and 1 - x/(e^x-1) for 0 <= x <= 1.
func cloglogRest(x float64) (rest, bend float64) {
	if x < 1e-20 {
		return -0.5 * x, 0.5 * x
	}
	return math.Log1p(-special.Expm1Gap(-x) / x), special.Expm1Gap(x) / math.Expm1(x)
}

func (c cloglogShape) at(d float64) (gap, slope, curv float64) {
	s := c.s0 + d
	logp, d1, d2 := cloglogLog(1, s)
	x := c.x0 * math.Exp(d)
	if d > 300 || d < -300 {
		x = math.Exp(s)
	}
	switch {
	case c.x0 <= 1 && x <= 1:
		rest, bend := cloglogRest(x)
		gap, slope = rest-c.rest0+c.bend0*d, c.bend0-bend
	default:
		gap, slope = logp-c.logp0-c.d1*d, d1-c.d1
	}
	return c.w * gap, c.w * slope, -c.w * d2
}

func (cloglog) Response(s float64) float64 { return -math.Expm1(-math.Exp(s)) }

// Predict integrates both probabilities, each to 1e-9 relative in its own tail.
func (l cloglog) Predict(m, v float64) (mean, variance float64) {
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

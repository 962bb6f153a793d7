package lik

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bglm/bglm/kernels/special"
)

var gammaFamily = family{Info{
	Family:      "gamma",
	Links:       []string{"log"},
	Description: "a positive response with mean exp(s) and variance mean²/shape",
	Parameters:  []string{"shape"},
	Response:    "finite numbers > 0",
}, links{"log": newGamma}}

// gamma is a positive response of mean e^s and variance e^2s/k, k = Shape:
//
//	p(y|s) = (k/mu)^k y^(k-1) e^(-k y/mu)/Gamma(k),  mu = e^s
//
// In u = log y - s the part that depends on s is exp(k(u - e^u)): a Poisson count of 1
// with weight w k. The moments are the Poisson's, with u ~ N(log y - m, v).
// Accuracy: logZ 1e-9, mean and variance 1e-8.
type gamma struct {
	shape float64
	peak  float64 // log p + log y at u = 0
	rule  *rule
}

func newGamma(p Params) (Likelihood, error) {
	k, err := shapeOr(p, 1, "gamma", "a shape")
	if err != nil {
		return nil, err
	}
	r, err := newRule(p.Quadrature)
	return gamma{k, gammaPeak(k), r}, err
}

// gammaPeak is k log k - k - log Gamma(k), by Gamma(k) = Gamma(k+1)/k.
func gammaPeak(k float64) float64 {
	return 0.5*math.Log(k/(2*math.Pi)) - special.StirlingError(k)
}

func (gamma) Family() string   { return "gamma" }
func (gamma) Link() string     { return "log" }
func (l gamma) Shape() float64 { return l.shape }

func (gamma) Traits() Traits {
	return Traits{Concave: true, Relative: true, LogMean: true, Growth: -1, Scale: 1, Inverse: logInverse}
}

func (gamma) Check(o Obs) error {
	if !(o.Y > 0) || math.IsInf(o.Y, 1) {
		return fmt.Errorf("y = %v: gamma takes finite numbers > 0", o.Y)
	}
	return checkWeight(o)
}

func (l gamma) LogLik(o Obs, s float64) (logp, d1, d2 float64) {
	if o.Weight == 0 {
		return 0, 0, 0
	}
	logY := math.Log(o.Y)
	u := logY - s
	wk := o.Weight * l.shape
	e := math.Exp(u)
	return o.Weight*(l.peak-logY) - wk*special.Expm1Gap(u), wk * math.Expm1(u), -wk * e
}

func (l gamma) Moments(o Obs, m, v float64) Tilted {
	if !proper(o, m, v) {
		logp, d1, d2 := l.LogLik(o, m)
		return degenerate(o.Weight, m, v, logp, d1, d2)
	}
	if l.rule != nil {
		return l.rule.moments(l, o, m, v)
	}
	logY := math.Log(o.Y)
	wk := o.Weight * l.shape
	p := poissonFind(wk, 1, logY-m, v)
	gap := p.lambda/wk - 1 - p.s
	if math.Abs(p.s) < 0.6 {
		gap = special.Expm1Gap(p.s)
	}
	p.logp = o.Weight*(l.peak-logY) - wk*gap
	t := p.tilted(v)
	t.Alpha = -t.Alpha
	return t
}

func (gamma) Response(s float64) float64 { return math.Exp(s) }

// Predict has the variance E e^2s/k + Var e^s.
func (l gamma) Predict(m, v float64) (mean, variance float64) {
	mean, spread, square := lognormal(m, v)
	return mean, square/l.shape + spread
}

func (l gamma) Moderated(m, v float64) float64 {
	mean, _ := l.Predict(m, v)
	return mean
}

// Draw returns a positive number of mean e^s.
func (l gamma) Draw(s, _ float64, src rand.Source) float64 {
	return drawGamma(l.shape, l.Response(s), src)
}

// drawGamma draws a positive number of the given mean; for extreme means it is 0 or infinite.
func drawGamma(shape, mean float64, src rand.Source) float64 {
	switch rate := shape / mean; {
	case !(rate > 0):
		return math.Inf(1)
	case math.IsInf(rate, 1):
		return 0
	default:
		return distuv.Gamma{Alpha: shape, Beta: rate, Src: src}.Rand()
	}
}

// CDF has no steps.
func (l gamma) CDF(o Obs, s float64) (below, upTo float64) {
	below = gammaBelow(l.shape, o.Y/l.Response(s))
	return below, below
}

// limitShape is the shape from which the incomplete gamma function has no more digits than its
// limit.
const limitShape = 1e13

// gammaBelow returns the probability that a gamma variable is below r times its mean. For a large
// shape its cube root is normal (Wilson and Hilferty), up to about 0.01/shape.
func gammaBelow(shape, r float64) float64 {
	switch {
	case !(shape > 0) || math.IsInf(shape*r, 1) && shape <= limitShape:
		return 1
	case shape > limitShape:
		return special.Phi(3 * math.Sqrt(shape) * (math.Cbrt(r) - 1 + 1/(9*shape)))
	}
	return mathext.GammaIncReg(shape, shape*r)
}

// Known is log y.
func (gamma) Known(o Obs) float64 { return math.Log(o.Y) }

// Best is the log likelihood at the mean.
func (l gamma) Best(s Sums, _ float64) (logp float64, ok bool) {
	g, _ := math.Lgamma(l.shape)
	return s.Weight*(l.shape*math.Log(l.shape/(s.Y/s.Weight))-l.shape-g) + (l.shape-1)*s.Known, true
}

func (gamma) pooling() Pooling { return Pooling{ratio: true, Add: (*Pool).ratio, Make: twoRatios} }

// Interval returns quantiles of the predictive distribution, by the distribution function of
// log y and a bracketing root finder: probabilities to 1e-10.
//
// P(Y <= y) = 1 - P(G > k y/mu), G ~ Gamma(k): the Poisson-lognormal integral.
func (l gamma) Interval(m, v, level float64) (lower, upper float64) {
	if !(level > 0 && level < 1) || math.IsNaN(m) || math.IsInf(m, 0) || !(v >= 0) {
		return math.NaN(), math.NaN()
	}
	z := centralZ(level)
	return math.Exp(l.logQuantile(m, v, 0.5*(1+level), -z)), math.Exp(l.logQuantile(m, v, 0.5*(1-level), z))
}

// logQuantile returns the log of the quantile that the predictive distribution exceeds with
// probability above; z has its sign.
func (l gamma) logQuantile(m, v, above, z float64) float64 {
	logK := math.Log(l.shape)
	sd := math.Sqrt(v + 1/l.shape)
	// x = log y: P(Y > y) is the count's distribution function
	return quantile(m+math.Copysign(sd, z), sd, func(x float64) float64 { return above - poissonLognormalCDF(l.shape-1, x+logK-m, v) })
}

// mostLogs is the largest shape of LogSpread: beyond it the logarithms are those of numbers that
// hardly vary.
const mostLogs = 1e4

// LogSpread returns the variance of the logarithm of a response of gamma with the given shape, and
// n times the variance of the logarithm of the ratio of the variance of n logarithms to that under
// the shape that is most likely for the same responses; ok is false for other distributions, and
// for shapes under which this ratio says nothing.
//
// That shape depends on the mean of the logarithms of responses over their mean, whose variance is
// trigamma(k) - 1/k and whose covariance with the squares is the slope of trigamma.
func LogSpread(l Likelihood, shape float64) (variance, ratio float64, ok bool) {
	if !l.Traits().Relative || !(shape > MinShape && shape < mostLogs) {
		return 0, 0, false
	}
	v, third, fourth := mathext.Zeta(2, shape), -2*mathext.Zeta(3, shape), 6*mathext.Zeta(4, shape)
	return v, fourth/(v*v) + 2 - third*third/(v*v*(v-1/shape)), true
}

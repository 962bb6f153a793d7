package lik

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mathext"

	"github.com/bglm/bglm/kernels/special"
)

var negbinomialFamily = family{Info{
	Family:      "negbinomial",
	Links:       []string{"log"},
	Description: "an overdispersed count with mean exp(s) and variance mean + mean²/shape",
	Parameters:  []string{"shape"},
	Response:    "whole numbers >= 0",
}, links{"log": newNegBinomial}}

// negbinomial is a count of mean mu = e^s and variance mu + mu²/r, r = Shape (the size):
//
//	p(y|s) = Gamma(y+r)/(Gamma(r) y!) p^y (1-p)^r,  p = mu/(mu+r) = logistic(s - log r)
//
// In u = s - log r that is r/(r+y) times the binomial distribution of y successes and r failures,
// and the moments are the binomial's (logOddsMoments), for real r. Accuracy: logZ 1e-9, mean and
// variance 1e-8.
type negbinomial struct {
	size, logSize float64
	rule          *rule
	terms         *countTerms // shared by many, nil for none
}

func newNegBinomial(p Params) (Likelihood, error) {
	size, err := shapeOr(p, 1, "negbinomial", "a size")
	if err != nil {
		return nil, err
	}
	r, err := newRule(p.Quadrature)
	return negbinomial{size, math.Log(size), r, new(countTerms)}, err
}

func (negbinomial) Family() string   { return "negbinomial" }
func (negbinomial) Link() string     { return "log" }
func (l negbinomial) Shape() float64 { return l.size }

func (negbinomial) Traits() Traits {
	return Traits{Concave: true, Counts: true, LogMean: true, LogRate: true, Growth: 1, Scale: 1, Inverse: logInverse}
}

func (negbinomial) Check(o Obs) error {
	if !(o.Y >= 0) || math.IsInf(o.Y, 1) || o.Y != math.Floor(o.Y) {
		return fmt.Errorf("y = %v: negbinomial takes whole numbers >= 0%s", o.Y, aRate(o.Y))
	}
	return checkWeight(o)
}

// odds returns the distribution in u, with its constant.
func (l negbinomial) odds(y float64) logOdds {
	odds := newLogOdds(y, l.size)
	if y > 0 {
		odds.peak -= math.Log1p(y / l.size)
	}
	return odds
}

func (l negbinomial) LogLik(o Obs, s float64) (logp, d1, d2 float64) {
	if o.Weight == 0 {
		return 0, 0, 0
	}
	odds := l.odds(o.Y)
	d1, d2 = odds.slopes(s - l.logSize)
	return o.Weight * odds.at(s-l.logSize), o.Weight * d1, o.Weight * d2
}

func (l negbinomial) Moments(o Obs, m, v float64) Tilted {
	if !proper(o, m, v) {
		logp, d1, d2 := l.LogLik(o, m)
		return degenerate(o.Weight, m, v, logp, d1, d2)
	}
	if l.rule != nil {
		return l.rule.moments(l, o, m, v)
	}
	return logOddsMoments(l.odds(o.Y), o.Weight, m-l.logSize, v)
}

func (negbinomial) Response(s float64) float64 { return math.Exp(s) }

// Predict has the mean mu = E e^s = exp(m + v/2) and the variance mu + E e^2s/r + Var e^s.
func (l negbinomial) Predict(m, v float64) (mean, variance float64) {
	mean, spread, square := lognormal(m, v)
	return mean, mean + square/l.size + spread
}

func (l negbinomial) Moderated(m, v float64) float64 {
	mean, _ := l.Predict(m, v)
	return mean
}

// Known is the logarithm of Gamma(y+r)/(Gamma(r) y!), from log p at p = y/(y+r).
func (l negbinomial) Known(o Obs) float64 {
	n := o.Y + l.size
	return l.odds(o.Y).peak - part(o.Y, n) - part(l.size, n)
}

// Best is the log likelihood at the mean.
func (l negbinomial) Best(s Sums, _ float64) (logp float64, ok bool) {
	n := l.size * s.Weight
	return part(s.Y, s.Y+n) + part(n, s.Y+n) + s.Known, true
}

// Draw returns a count with a gamma distributed rate.
func (l negbinomial) Draw(s, _ float64, src rand.Source) float64 {
	return drawPoisson(drawGamma(l.size, l.Response(s), src), src)
}

// CDF uses negBinomialUpTo.
func (l negbinomial) CDF(o Obs, s float64) (below, upTo float64) {
	g := l.Response(s)
	if math.IsInf(g, 1) {
		return 0, 0
	}
	return steps(o.Y, func(k float64) float64 { return negBinomialUpTo(k, l.size, g) })
}

// negBinomialUpTo returns P(Y <= k) of a negative binomial of mean g. The incomplete beta function
// loses digits as its arguments grow, 1e-7 of one at 1e8, so three limits replace it: a Poisson
// distribution whose mean has variance g²/shape, to second order (1e-10); the normal with skewness
// (1e-4 and less); and for large counts of a small shape the gamma of the same mean and variance
// (1e-4 and less).
func negBinomialUpTo(k, shape, g float64) float64 {
	switch spread := g / shape; {
	case shape > 1e5*max(g, 1):
		p := mathext.GammaIncRegComp(k+1, g)
		if g > 0 && k < 1e8 {
			log, _ := math.Lgamma(k + 1)
			p -= 0.5 * spread * math.Exp(k*math.Log(g)-g-log) * (k - g)
		}
		return min(max(p, 0), 1)
	case shape > 1e7 && g > 1e3:
		sd := math.Sqrt(g * (1 + spread))
		x := (k + 0.5 - g) / sd
		if math.Abs(x) > 30 {
			return special.Phi(x)
		}
		p := special.Phi(x) - (1+2*spread)/sd/6*(x*x-1)*math.Exp(-0.5*x*x)/math.Sqrt(2*math.Pi)
		return min(max(p, 0), 1)
	case k > 1e7:
		return gammaBelow(g/(1+spread), (k+0.5)/g)
	default:
		q := g / (shape + g) // small if the shape is large: its complement would lose it
		return 1 - mathext.RegIncBeta(k+1, shape, q)
	}
}

// Interval returns quantiles of the predictive distribution of a count, the smallest whose
// distribution function reaches (1-level)/2 and (1+level)/2. Above 1e15, where the Poisson noise is
// below 3e-8 of the rate, they are the rounded quantiles of the rate, which is gamma: Infinity if
// that exceeds the largest number.
//
// Cost: some 30 to 60 evaluations of the distribution function per bound.
func (l negbinomial) Interval(m, v, level float64) (lower, upper float64) {
	if !(level > 0 && level < 1) || math.IsNaN(m) || !(v >= 0) {
		return math.NaN(), math.NaN()
	}
	z := centralZ(level)
	p, q := 0.5*(1-level), 0.5*(1+level)
	return l.quantile(m, v, p, q, -z), l.quantile(m, v, q, p, z)
}

// quantile returns that of probability p; q is the probability above it, z has its sign.
func (l negbinomial) quantile(m, v, p, q, z float64) float64 {
	rate := func() float64 { return math.Exp(gamma{shape: l.size}.logQuantile(m, v, q, z)) }
	guess := math.Exp(m + z*math.Sqrt(v+1/l.size))
	if guess > hugeRate {
		if guess = rate(); guess > hugeRate {
			return math.Round(guess)
		}
	}
	k := countQuantile(p, guess, func(k float64) float64 { return l.cdf(k, m-l.logSize, v) })
	if math.IsInf(k, 1) {
		return math.Round(rate())
	}
	return k
}

// cdf returns P(Y <= k), u ~ N(m, v), to about 1e-10. P(Y <= k | u) = P(logit B > u) with
// B ~ Beta(k+1, r), so the same number is E[Phi((logit B - m)/sqrt(v))]: the integral runs over
// the narrower of u and logit B.
func (l negbinomial) cdf(k, m, v float64) float64 {
	a, b := k+1, l.size
	if k < 0 {
		return 0
	}
	sd, tau := math.Sqrt(v), math.Sqrt(1/a+1/b)
	if sd < tau {
		given := func(u float64) float64 {
			if u < 0 {
				return 1 - mathext.RegIncBeta(a, b, special.Logistic(u))
			}
			return mathext.RegIncBeta(b, a, special.Logistic(-u))
		}
		if v == 0 {
			return given(m)
		}
		return normalMean(m, sd, given)
	}
	centre, h := math.Log(a/b), 0.5*tau/(1+0.5*tau)
	sh := newLogitShape(centre, a+b)
	density := func(d float64) float64 {
		f, _, _ := sh.at(d)
		return f
	}
	return meanAboutMode(h, density, func(d float64) float64 { return special.Phi((centre + d - m) / sd) })
}

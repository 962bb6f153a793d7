package lik

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bglm/bglm/kernels/special"
)

var poissonFamily = family{Info{
	Family:      "poisson",
	Links:       []string{"log"},
	Description: "a count with rate exp(s)",
	Response:    "whole numbers >= 0",
}, links{"log": newPoisson}}

// poisson is p(y|s) = exp(y s - e^s)/y!, a count with rate e^s. Moments integrate
// around the mode, which is a Wright omega function (poissonMoments).
// Accuracy: logZ 1e-9, mean and variance 1e-8.
type poisson struct{ rule *rule }

func newPoisson(p Params) (Likelihood, error) {
	r, err := newRule(p.Quadrature)
	return poisson{r}, err
}

func (poisson) Family() string { return "poisson" }
func (poisson) Link() string   { return "log" }

func (poisson) Traits() Traits {
	return Traits{Concave: true, Canonical: true, Counts: true, Equidispersed: true, LogMean: true, LogRate: true, Growth: 1, Scale: 1, Work: 6000, Inverse: logInverse}
}

func (poisson) Check(o Obs) error {
	if !(o.Y >= 0) || math.IsInf(o.Y, 1) || o.Y != math.Floor(o.Y) {
		return fmt.Errorf("y = %v: poisson takes whole numbers >= 0%s", o.Y, aRate(o.Y))
	}
	return checkWeight(o)
}

// aRate returns advice about a response that may be a count over its exposure.
func aRate(y float64) string {
	if !(y > 0) || math.IsInf(y, 1) {
		return ""
	}
	return "; a rate is given as its count, with the offset ln(exposure)"
}

func (poisson) LogLik(o Obs, s float64) (logp, d1, d2 float64) {
	return poissonLog(o.Weight, o.Y, s)
}

func poissonLog(w, y, s float64) (logp, d1, d2 float64) {
	if w == 0 {
		return 0, 0, 0
	}
	e := math.Exp(s)
	return w * poissonLogp(y, s, e), w * (y - e), -w * e
}

// bigCount is where y s - e^s - log y!, three numbers near y log y, is replaced by
// -y (e^x - 1 - x) - log sqrt(2 pi y) - stirling(y), x = s - log y.
const bigCount = 256

func poissonLogp(y, s, rate float64) float64 {
	if y < bigCount {
		if y == 0 {
			return -rate
		}
		return y*s - rate - special.LogFactorial(y)
	}
	return -y*special.Expm1Gap(s-math.Log(y)) - 0.5*math.Log(2*math.Pi*y) - special.StirlingError(y)
}

func (l poisson) Moments(o Obs, m, v float64) Tilted {
	if !proper(o, m, v) {
		logp, d1, d2 := l.LogLik(o, m)
		return degenerate(o.Weight, m, v, logp, d1, d2)
	}
	if l.rule != nil {
		return l.rule.moments(l, o, m, v)
	}
	return poissonMoments(o.Weight, o.Y, m, v)
}

// poissonMoments returns the moments for exp(w(y s - e^s)) under N(m, v).
//
// The mode solves s = m + v(w y - w e^s). With omega = v w e^s this is
// omega + log omega = m + v w y + log(w v). About the mode, with lambda = w e^s,
//
//	f(s+d) = -lambda (e^d - 1 - d) - d²/(2v)
//
// has no linear term and no cancellation, and the trapezoid rule for it needs 20 to 60 nodes of one
// exponential each. Its Fourier transform falls like that of a log-gamma density,
// |Gamma(lambda + i 2 pi/h)|, which determines the step. If the prior is so wide that the left tail
// or the plateau is too long, panels take over.
func poissonMoments(w, y, m, v float64) Tilted {
	p := poissonFind(w, y, m, v)
	p.logp = w * poissonLogp(y, p.s, p.lambda/w)
	return p.tilted(v)
}

// poissonMode is the mode s of the tilted distribution and lambda = w e^s there; the caller sets
// logp.
type poissonMode struct {
	anchor
	s, lambda, omega, logLambda float64
}

func poissonFind(w, y, m, v float64) (p poissonMode) {
	wy := w * y
	z := m + v*wy + math.Log(w*v)
	omega := special.WrightOmega(z)
	lambda := omega / v
	shift := wy*v - omega
	s := m + shift
	if omega > 1e-3 {
		if direct := math.Log(omega / (w * v)); wy*v > math.Abs(direct)+math.Abs(m) || omega > math.Abs(direct)+math.Abs(m) {
			s, shift = direct, direct-m
		}
	}
	p.anchor = anchor{t: shift, d1: wy - lambda, tau: 1 / math.Sqrt(lambda+1/v)}
	p.s, p.lambda, p.omega = s, lambda, omega
	if omega <= 1e-200 { // log lambda is needed if lambda underflows but lambda e^d does not
		p.logLambda = z - math.Log(v)
	}
	return p
}

func (p *poissonMode) tilted(v float64) Tilted {
	h := math.Min(0.4, 0.7*p.tau/(1+0.55*p.tau))
	if p.omega > 1e-200 {
		if sm, ok := poissonTrapezoid(p.lambda, v, h); ok {
			return sm.tilted(p.anchor, v)
		}
		p.logLambda = math.Log(p.lambda)
	}
	if sm, ok := poissonWide(p.lambda, p.logLambda, v, p.tau); ok {
		return sm.tilted(p.anchor, v)
	}
	wall := math.Max(0, -p.logLambda)
	return tilt(poissonShape{p.lambda, p.logLambda}, p.anchor, v, h, bend{wall, wall, 1, 0}).tilted(p.anchor, v)
}

// dropPoisson: e^-30 of the peak is dropped at each end.
const dropPoisson = 30

func poissonTrapezoid(lambda, v, h float64) (s sums, ok bool) {
	half := -0.5 / v
	var x1, x2 float64 // sums of e^d - 1 and its square
	mass, sd, sdd := 1.0, 0.0, 0.0
	series := h < 0.02 // the plain difference would lose digits of a large lambda
	for _, step := range [2]float64{h, -h} {
		q := math.Exp(step)
		e := 1.0
		for k := 1; ; k++ {
			if k > maxSide {
				return s, false
			}
			d := step * float64(k)
			e *= q
			x := e - 1
			gap := x - d
			if series {
				gap = special.Expm1Gap(d)
				x = gap + d
			}
			f := half*d*d - lambda*gap
			if !(f > -dropPoisson) {
				break
			}
			p := special.ExpDown(f)
			mass += p
			pd := p * d
			sd += pd
			sdd += pd * d
			px := p * x
			x1 += px
			x2 += px * x
		}
	}
	return sums{
		mass: h * mass, d: h * sd, dd: h * sdd,
		slope: -h * lambda * x1, slopeSq: h * lambda * lambda * x2, curv: h * lambda * (mass + x1),
	}, true
}

// poissonWide is the trapezoid rule for y = 0 under a prior far wider than the wall at w e^s = 1:
// in u, with x = β sinh(u/β) the distance from there, whose nodes are evenly spaced at the wall and
// ever farther apart in the prior's tail, 40 or more of them. It returns false if the mode is so
// far from the wall that they would not resolve the prior there.
func poissonWide(lambda, logLambda, v, tau float64) (s sums, ok bool) {
	const beta, h = 8, 0.28 // curvatures at the wall are of order 1/v
	u0 := math.Asinh(logLambda / beta)
	if !(h*math.Cosh(u0) < 0.6*tau) || v > 1e9 {
		return s, false
	}
	half := -0.5 / v
	start := math.Exp(u0)
	for _, step := range [2]float64{h, -h} {
		q, e := math.Exp(step/beta), start
		for k := 0; k <= 4*maxSide; k++ {
			if k > 0 {
				e *= q
			} else if step < 0 {
				continue
			}
			x := 0.5 * beta * (e - 1/e)
			d, rate := x-logLambda, 0.
			if k == 0 {
				d, rate = 0, lambda
			} else if x > -45 { // 3e-20, of which a variance may contain v
				rate = math.Exp(x)
			}
			f := half*d*d - (rate - lambda) + lambda*d
			if !(f > -dropTrapezoid) {
				ok = step < 0
				break
			}
			s.add(special.ExpDown(f)*0.5*(e+1/e), d, lambda-rate, rate)
		}
	}
	s.times(h)
	return s, ok
}

// poissonShape is -w e^s about a point with w e^s = lambda.
type poissonShape struct{ lambda, logLambda float64 }

func (p poissonShape) at(d float64) (gap, slope, curv float64) {
	if math.Abs(d) > 30 || p.lambda < 1e-200 {
		curv = math.Exp(p.logLambda + d)
		return -(curv - p.lambda - p.lambda*d), p.lambda - curv, curv
	}
	g := special.Expm1Gap(d)
	return -p.lambda * g, -p.lambda * (g + d), p.lambda * (1 + g + d)
}

func (poisson) Response(s float64) float64 { return math.Exp(s) }

// Predict has the mean mu = exp(m + v/2), because the rate is lognormal, and the variance
// mu + exp(2m + v)(e^v - 1). Either is +Inf only if it exceeds the largest number.
func (poisson) Predict(m, v float64) (mean, variance float64) {
	mean, spread, _ := lognormal(m, v)
	return mean, mean + spread
}

func (l poisson) Moderated(m, v float64) float64 {
	mean, _ := l.Predict(m, v)
	return mean
}

// Draw limits the rate to where counts are still whole numbers.
func (l poisson) Draw(s, _ float64, src rand.Source) float64 { return drawPoisson(l.Response(s), src) }

func drawPoisson(rate float64, src rand.Source) float64 {
	if !(rate > 0) {
		return 0
	}
	return distuv.Poisson{Lambda: math.Min(rate, hugeRate), Src: src}.Rand()
}

// CDF uses the incomplete gamma function: P(Y <= k) = P(G > e^s), G ~ Gamma(k+1).
func (l poisson) CDF(o Obs, s float64) (below, upTo float64) {
	g := l.Response(s)
	if math.IsInf(g, 1) {
		return 0, 0
	}
	return steps(o.Y, func(k float64) float64 { return mathext.GammaIncRegComp(k+1, g) })
}

// Known is -log y!.
func (poisson) Known(o Obs) float64 { return -special.LogFactorial(o.Y) }

// Best is the log likelihood at the rate of the mean.
func (poisson) Best(s Sums, _ float64) (logp float64, ok bool) {
	return part(s.Y, s.Weight) - s.Y + s.Known, true
}

func (poisson) third() func(o Obs, s float64) float64 { return poissonThird }

func (l poisson) pooling() Pooling {
	return Pooling{Within: func(p *Pool) float64 { return p.Spread * (p.Extra / p.Weight) }, Add: func(p *Pool, o Obs, offset float64) {
		p.sum(o, 0)
		e := 1.0
		if offset != 0 {
			e = math.Exp(offset)
		}
		p.rate(o, e)
		if o.Weight != 0 {
			p.Log += o.Weight * poissonLogp(o.Y, offset, e)
		}
	}, Make: func(p *Pool) ([]Obs, float64, float64) {
		if p.Weight == 0 {
			return []Obs{{}}, 0, 0
		}
		row := Obs{Y: p.Sum / p.Weight, Weight: p.Weight}
		offset := math.Log(p.Extra / p.Weight)
		return []Obs{row}, offset, p.constant(l, row, offset)
	}}
}

// hugeRate is the rate above which counts are not whole numbers in a double and the Poisson noise is
// below 3e-8 of the rate: Interval returns the rounded lognormal quantile there.
const hugeRate = 1e15

// Interval returns quantiles of the Poisson-lognormal predictive distribution: the smallest counts
// whose distribution function (poissonLognormalCDF) reaches (1-level)/2 and (1+level)/2, above
// rates of 1e15 the rounded lognormal quantile.
//
// Cost: some 30 evaluations of the distribution function per bound, 20 to 100 µs.
func (poisson) Interval(m, v, level float64) (lower, upper float64) {
	if !(level > 0 && level < 1) || math.IsNaN(m) || !(v >= 0) {
		return math.NaN(), math.NaN()
	}
	z := centralZ(level)
	return poissonQuantile(m, v, 0.5*(1-level), -z), poissonQuantile(m, v, 0.5*(1+level), z)
}

func poissonQuantile(m, v, p, z float64) float64 {
	guess := math.Exp(m + z*math.Sqrt(v))
	if guess > hugeRate {
		return math.Round(guess)
	}
	return countQuantile(p, guess, func(k float64) float64 { return poissonLognormalCDF(k, m, v) })
}

// poissonLognormalCDF returns P(Y <= k) for Y of rate e^s, s ~ N(m, v), to about 1e-10. Any k > -1
// is allowed, as the shape of the Gamma(k+1) variable below.
//
// P(Y <= k | s) = P(G > e^s), G ~ Gamma(k+1), so the same number is E[Phi((log G - m)/sqrt(v))]:
// the integral runs over the narrower of log G (standard deviation about 1/sqrt(k+1)) and s, on
// whose scale the wider one is smooth.
func poissonLognormalCDF(k, m, v float64) float64 {
	shape := k + 1
	sd, tau := math.Sqrt(v), 1/math.Sqrt(shape)
	if v == 0 {
		return mathext.GammaIncRegComp(shape, math.Exp(m))
	}
	if sd < tau {
		return normalMean(m, sd, func(s float64) float64 { return mathext.GammaIncRegComp(shape, math.Exp(s)) })
	}
	centre, h := math.Log(shape), 0.5*tau/(1+0.5*tau)
	return meanAboutMode(h, logGamma(shape), func(d float64) float64 { return special.Phi((centre + d - m) / sd) })
}

// logGamma returns the log density of log G, G a Gamma variable of a shape, by its distance from the
// mode and relative to the density there.
func logGamma(shape float64) func(d float64) float64 {
	return func(d float64) float64 { return -shape * special.Expm1Gap(d) }
}

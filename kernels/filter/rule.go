package filter

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/stream"
)

// Rule determines how one row updates the belief of its linear predictor: ADF, Laplace, Variational
// or EKF.
type Rule = stream.Rule

// ADF is assumed density filtering, on the full covariance.
type ADF = stream.ADF

func stepLimit(l lik.Likelihood) float64 {
	if l.Traits().Growth != 0 {
		return stream.MaxStep
	}
	return math.Inf(1)
}

// linearised is the update by a score and an information h >= 0, both at one point: the belief
// times exp(score (s-m) - h (s-m)²/2).
func linearised(score, h, v, limit float64) (t lik.Tilted, held stream.StepLimit) {
	t.Ratio = 1 / (1 + h*v)
	t.Alpha = score * t.Ratio
	t.Beta = h * t.Ratio
	if step := math.Abs(v * t.Alpha); step > limit {
		t.Alpha *= limit / step
		held = stream.Shortened
	}
	return t, held
}

// Laplace is the rule of Spiegelhalter and Lauritzen: one Newton step from the prior mean. With
// l(s) the log-likelihood, g = l'(m) and h = -l″(m),
//
//	α = g / (1 + hv),  β = h / (1 + hv)
//
// for logit Σ' = Σ - p(1-p) Σx(Σx)ᵀ / (1 + p(1-p) v), μ' = μ + Σ'x (y - p). Where a log-likelihood
// is convex (studentt, gaussian with link log) h is 0. Under the links log and cloglog a step is
// cut at ±5. The status reports such steps, and steps that end far from the mode of their row: the
// curvature of gamma and negbinomial at m grows with y/e^m. The log evidence is the sum of the
// exact log predictive densities under the beliefs.
//
// Source: Niranjan (1999), after Spiegelhalter and Lauritzen (1990).
type Laplace struct{}

func (Laplace) Name() string { return "sequential_laplace" }

func (Laplace) Bind(m *kernels.Model) (stream.Update, error) {
	return newton{m.Lik, stepLimit(m.Lik)}, nil
}

type newton struct {
	lik.Likelihood
	limit float64
}

func (r newton) Tilt(o lik.Obs, m, v float64) (lik.Tilted, stream.StepLimit) {
	_, d1, d2 := r.LogLik(o, m)
	t, held := linearised(d1, math.Max(-d2, 0), v, r.limit)
	t.LogZ = r.Moments(o, m, v).LogZ
	if sd := math.Sqrt(v * t.Ratio); v*math.Abs(t.Alpha) > sd && held == stream.Unlimited {
		if _, left, _ := r.LogLik(o, m+v*t.Alpha); math.Abs(left-t.Alpha)*sd > stream.MaxLeft {
			held = stream.TooCertain
		}
	}
	return t, held
}

// Variational is the bound of Jaakkola and Jordan for the logit link (bernoulli, binomial). For N
// trials of weight 1 with y successes, κ = y - N/2,
//
//	1/v' = 1/v + 2Nλ(ξ),  m'/v' = m/v + κ,  ξ² = v' + m'²,  λ(ξ) = tanh(ξ/2) / (4ξ)
//
// iterated (EM) at most MaxIter (50) times or until ξ changes by less than Tol (1e-8) of itself.
// Its log evidence is the sum of lower bounds of each row's log Z under the belief that the row
// meets.
//
// Source: Niranjan (1999), after Jaakkola and Jordan (1997), with the sign of λ that makes the
// precision grow.
type Variational struct{}

func (Variational) Name() string { return "variational" }

func (Variational) Bind(m *kernels.Model) (stream.Update, error) {
	l := m.Lik
	if !l.Traits().LogOdds {
		return nil, fmt.Errorf("family = %q, link = %q: allowed for variational: %s", l.Family(), l.Link(), lik.Those(func(t lik.Traits) bool { return t.LogOdds }))
	}
	return jaakkola{l, kernels.Or(m.Options.MaxIter, 50), kernels.Or(m.Options.Tol, 1e-8)}, nil
}

type jaakkola struct {
	lik.Likelihood
	maxIter int
	tol     float64
}

// lambda is tanh(ξ/2)/(4ξ), in (0, 1/8] for ξ >= 0.
func lambda(xi float64) float64 {
	if xi < 1e-4 {
		return 0.125 - xi*xi/96 // next term ξ⁴/960
	}
	return math.Min(math.Tanh(0.5*xi)/(4*xi), 0.125)
}

func (r jaakkola) Tilt(o lik.Obs, m, v float64) (t lik.Tilted, held stream.StepLimit) {
	n := kernels.Or(o.Trials, 1)
	base, _, _ := r.LogLik(o, 0) // w log C(N, y) - N w log 2
	kappa := o.Weight * (o.Y - 0.5*n)
	n *= o.Weight
	xi := math.Hypot(math.Sqrt(v), m)
	for range r.maxIter {
		ratio := 1 / (1 + 2*n*lambda(xi)*v)
		next := math.Hypot(math.Sqrt(v*ratio), (m+v*kappa)*ratio)
		moved := math.Abs(next - xi)
		xi = next
		if moved <= r.tol*xi {
			break
		}
	}
	h := 2 * n * lambda(xi) // the bound below is that of this update
	t.Ratio = 1 / (1 + h*v)
	t.Alpha = (kappa - h*m) * t.Ratio
	t.Beta = h * t.Ratio
	// log σ(ξ) - ξ/2 + λξ² + log 2, how far the bound at 0 exceeds that of σ
	top := math.Ln2 - math.Log1p(math.Exp(-xi)) - 0.5*xi + 0.5*h*xi*xi/n
	t.LogZ = base + n*top + 0.5*(math.Log(t.Ratio)+((2*m+v*kappa)*kappa-h*m*m)*t.Ratio)
	return t, stream.Unlimited
}

// EKF is the extended Kalman filter on the response: f = g'(m) x, e = y - g(m),
//
//	K = Σf / (R + fᵀΣf),  μ' = μ + Ke,  Σ' = Σ - K fᵀΣ
//
// for binomial y is the share of successes. R is the model's MeasurementNoise: 0 stands for the
// likelihood's own variance of y at m, for bernoulli g(1-g), which makes the filter that of Laplace
// if the link is canonical; or a number > 0; or, with AutoMeasurementNoise, inferred from the row:
// R = max(NoiseFloor, e² - fᵀΣf), NoiseFloor by default 1e-3 of the scale of y: 1 for shares and
// counts, the dispersion of gaussian and studentt, the variance of gamma. The row's weight divides
// R. Nothing is ever divided by R: own variances go through the score and the information of the
// row.
//
// MaxIter > 1 iterates from the prior, with R computed anew at each iterate, until the predictor
// moves by less than Tol (1e-8) of its standard deviation; with R the likelihood's own, the fixed
// point is the exact mode of the row. SecondOrder adds the terms g″v/2 to the prediction and
// (g″v)²/2 to its variance. Under the links log and cloglog a step that is not iterated is cut at
// ±5.
//
// The log evidence is the innovation density Σ log N(e; 0, R + fᵀΣf), a density also for counts. A
// row of weight w is one innovation with noise R/w there, like a measurement of that precision, and
// not w rows, whose density has the additional factor (2πR)^((1-w)/2) / √w: the posterior is the
// same, but with weighted rows the evidences of several R are not comparable with those of Laplace.
//
// Source: Niranjan (1999), section on the extended Kalman filter; Jazwinski (1970)
// for R and the second order.
type EKF struct{ SecondOrder bool }

func (EKF) Name() string { return "ekf" }

// Innovates implements stream.Innovating.
func (EKF) Innovates() {}

func (r EKF) Bind(m *kernels.Model) (stream.Update, error) {
	o := m.Options
	k := &ekf{Likelihood: m.Lik, second: r.SecondOrder, r: o.MeasurementNoise, infer: o.AutoMeasurementNoise, floor: o.NoiseFloor,
		maxIter: kernels.Or(o.MaxIter, 1), tol: kernels.Or(o.Tol, 1e-8), limit: stepLimit(m.Lik), traits: m.Lik.Traits()}
	switch {
	case k.second && k.maxIter > 1:
		return nil, fmt.Errorf("max_iter = %d: allowed for the second-order EKF: 1", k.maxIter)
	}
	if k.r == 0 && !k.infer && k.traits.Located {
		if _, v := m.Lik.Predict(0, 0); !(v <= math.MaxFloat64) {
			return nil, fmt.Errorf("measurement_noise = 'bernoulli': a %s of this shape has no variance; allowed here: a number > 0 or 'auto'", m.Lik.Family())
		}
	}
	return k, nil
}

type ekf struct {
	lik.Likelihood
	traits     lik.Traits
	second     bool
	infer      bool // R, from each row
	r, floor   float64
	maxIter    int
	tol, limit float64
}

// tangent is the response linearised at a point.
type tangent struct {
	score, h float64 // g'(y-g)/R and g'²/R
	logR     float64
	bend     float64 // g''/g'
	sq       float64 // e²/R
}

// leastNoise is the least inferred R, at the mean response g.
func (k *ekf) leastNoise(g float64) float64 {
	if k.floor > 0 {
		return k.floor
	}
	const share = 1e-3
	if d, ok := k.Likelihood.(lik.Dispersed); ok {
		return share * d.Dispersion()
	}
	if s, ok := k.Likelihood.(lik.Shaped); ok && k.traits.Relative {
		return share * g * g / s.Shape()
	}
	return share
}

// tiny bounds R from below in densities: a response variance may underflow.
const tiny = 1e-300

// at linearises at s, for a belief of variance v.
func (k *ekf) at(o lik.Obs, s, v float64) tangent {
	w := o.Weight
	g := k.Response(s)
	var slope float64
	up := o // the same row with only successes
	if k.traits.Slope != nil {
		slope = k.traits.Slope(g)
	} else {
		up.Weight, up.Y = 1, math.Max(o.Trials, 1)
		_, d, _ := k.LogLik(up, s)
		slope = g * d / up.Y
	}
	t := tangent{bend: k.traits.Bend(s)}
	if k.r != 0 || k.infer {
		y := o.Y
		if o.Trials > 0 {
			y /= o.Trials
		}
		e := y - g
		r := k.r / w
		if k.infer {
			r = math.Max(k.leastNoise(g)/w, e*e-slope*slope*v)
		}
		t.score, t.h, t.logR, t.sq = slope*e/r, slope*slope/r, math.Log(r), e*e/r
		return t
	}
	// The score is l' itself, and the information is l″ at the expected response, or the product of
	// the slopes of both outcomes; for a location family it is 1 over the variance of y.
	_, t.score, t.h = k.LogLik(o, s)
	t.h = -t.h
	switch {
	case k.traits.Binary || k.traits.Trials:
		_, a, _ := k.LogLik(up, s)
		dn := up
		dn.Y = 0
		_, b, _ := k.LogLik(dn, s)
		t.h = -w * a * b / up.Y
	case k.traits.Heavy():
		_, variance := k.Predict(0, 0)
		t.h = w / variance
		t.score = (o.Y - s) * t.h
	case !k.traits.Canonical:
		o.Y = g
		_, _, t.h = k.LogLik(o, s)
		t.h = -t.h
	}
	t.logR = math.Max(2*math.Log(slope)-math.Log(t.h), math.Log(tiny))
	if !(t.logR <= math.MaxFloat64) { // both underflow
		t.logR = math.Log(tiny)
	}
	if t.score != 0 {
		t.sq = math.Min(t.score*(t.score/t.h), 1/tiny)
	}
	return t
}

func (k *ekf) Tilt(o lik.Obs, m, v float64) (t lik.Tilted, held stream.StepLimit) {
	l := k.at(o, m, v)
	den := 1 + l.h*v
	if k.second {
		// Divided by R: innovation e - g''v/2, variance R + g'²v + (g''v)²/2.
		extra := 0.5 * l.h * l.bend * l.bend * v * v
		den += extra
		t.Ratio = (1 + extra) / den
		t.Beta = l.h / den
		t.Alpha = (l.score - 0.5*l.bend*l.h*v) / den
		sq := l.sq - l.bend*v*l.score + 0.5*extra // (e - g''v/2)²/R
		t.LogZ = -0.5 * (math.Log(2*math.Pi) + l.logR + math.Log(den) + math.Max(sq, 0)/den)
		if step := math.Abs(v * t.Alpha); step > k.limit {
			t.Alpha *= k.limit / step
			held = stream.Shortened
		}
		return t, held
	}
	logZ := -0.5 * (math.Log(2*math.Pi) + l.logR + math.Log1p(l.h*v) + l.sq/den)
	if k.maxIter == 1 {
		t, held = linearised(l.score, l.h, v, k.limit)
		t.LogZ = logZ
		return t, held
	}
	// a = score(m + va), by scoring steps, or by secant steps if those gain little, halved until
	// the residual decreases; in terms of a and not the step va, which a variance of 0 hides.
	a, f := 0.0, -l.score
	slope := 1 + l.h*v
	for range k.maxIter {
		step, better := -f/slope, false
		for range 60 {
			n := k.at(o, m+v*(a+step), v)
			if g := a + step - n.score; math.Abs(g) < math.Abs(f) {
				slope = 1 + n.h*v
				if secant := (g - f) / step; math.Abs(g) > 0.1*math.Abs(f) && secant > 0 {
					slope = secant
				}
				a, f, l, better = a+step, g, n, true
				break
			}
			step *= 0.5
		}
		if !better || math.Abs(v*step) <= k.tol*math.Sqrt(v/(1+l.h*v)) {
			break
		}
	}
	t.Ratio = 1 / (1 + l.h*v)
	t.Alpha, t.Beta, t.LogZ = a, l.h*t.Ratio, logZ
	return t, stream.Unlimited
}

package lik

import (
	"math"

	"github.com/bglm/bglm/kernels/special"
)

// probit is p(y=1|s) = Phi(s). With x = s for y = 1 and -s for y = 0, and weight 1, all
// moments are closed forms without clipping, z = ±m/sqrt(1+v), r = phi(z)/Phi(z):
//
//	logZ = log Phi(z),  alpha = ±r/sqrt(1+v),  beta = r(z+r)/(1+v)
//	ratio = (1 + v rho)/(1+v),  rho = 1 - r(z+r)
//
// special.PhiMoments gives rho without the cancellation of its formula. Other weights
// use the shared quadrature. Accuracy: rounding for weight 1, 1e-8 otherwise.
//
// Source: C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning" (2006),
// section 3.9; rho is the variance of a truncated normal.
type probit struct{ rule *rule }

func newProbit(p Params) (Likelihood, error) {
	r, err := newRule(p.Quadrature)
	return probit{r}, err
}

func (probit) Family() string    { return "bernoulli" }
func (probit) Link() string      { return "probit" }
func (probit) Check(o Obs) error { return checkBinary(o) }

func (probit) Traits() Traits {
	return Traits{Concave: true, Binary: true, Scale: 1, Work: 250, Inverse: probitInverse}
}

// probitInverse uses that Phi(s) averaged over N(m, v) is Phi(m/sqrt(1+v)), whose derivatives in
// m are the expectations.
var probitInverse = Inverse{
	Bend: func(s float64) float64 { return -s },
	Slopes: func(s float64) (d1, d2, d3 float64) {
		d1 = math.Exp(-0.5*s*s) / math.Sqrt(2*math.Pi)
		return d1, -s * d1, (s*s - 1) * d1
	},
	Averaged: func(m, v float64) (d1, d2, d3 float64) {
		r := 1 / math.Sqrt(1+v)
		z := m * r
		f := math.Exp(-0.5*z*z) / math.Sqrt(2*math.Pi)
		return r * f, -r * r * z * f, r * r * r * (z*z - 1) * f
	},
	Predictor: chance(special.PhiInv),
}

func (probit) LogLik(o Obs, s float64) (logp, d1, d2 float64) {
	if o.Y == 0 {
		logp, d1, d2 = probitLog(o.Weight, -s)
		return logp, -d1, d2
	}
	return probitLog(o.Weight, s)
}

// probitLog returns w log Phi(x) and its derivatives; weight 0 gives 0 even at x = -Inf.
func probitLog(w, x float64) (logp, d1, d2 float64) {
	if w == 0 {
		return 0, 0, 0
	}
	logp, r, residual := special.PhiMoments(x)
	if x > 0 {
		return w * logp, w * r, -w * r * (x + r) // residual - 1 keeps no digits in the upper tail
	}
	return w * logp, w * r, w * (residual - 1)
}

func (l probit) Moments(o Obs, m, v float64) Tilted {
	if !proper(o, m, v) {
		logp, d1, d2 := l.LogLik(o, m)
		return degenerate(o.Weight, m, v, logp, d1, d2)
	}
	if l.rule != nil {
		return l.rule.moments(l, o, m, v)
	}
	if o.Y == 0 {
		t := probitMoments(o.Weight, -m, v)
		t.Alpha = -t.Alpha
		return t
	}
	return probitMoments(o.Weight, m, v)
}

func probitMoments(w, m, v float64) Tilted {
	if w == 1 {
		inv := 1 / (1 + v)
		root := math.Sqrt(inv)
		logZ, r, residual := special.PhiMoments(m * root)
		beta := (1 - residual) * inv
		if m > 0 {
			beta = r * (m*root + r) * inv // 1 - residual keeps no digits in the upper tail
		}
		return Tilted{LogZ: logZ, Alpha: r * root, Beta: beta, Ratio: (1 + v*residual) * inv}
	}
	a := findMode(m, v, func(s float64) (logp, d1, d2 float64) { return probitLog(w, s) })
	s0 := m + a.t
	bendAt := math.Sqrt(2 * math.Log1p(w)) // Phi^w rises from 0 to 1 about here
	scale := math.Min(1, 1/math.Sqrt(w))
	h := math.Min(0.8*a.tau, 0.75*scale)
	// Where panels are needed it is a wall of the form exp(-e^-u), u = bendAt (s - bendAt).
	return tilt(newProbitShape(s0, w), a, v, h, bend{-s0 - 1, bendAt - s0, scale, 1 / (1 + bendAt)}).tilted(a, v)
}

// probitShape is w log Phi about s0. Below 0 the parabola of log Phi is factored out:
// log Phi(x) = -x²/2 + log Mills(-x) + const.
type probitShape struct {
	s0, w          float64
	logPhi, r, exc float64
	logMills, res  float64
}

func newProbitShape(s0, w float64) probitShape {
	logPhi, r, res := special.PhiMoments(s0)
	p := probitShape{s0: s0, w: w, logPhi: logPhi, r: r, res: res}
	if s0 < 0 {
		p.exc = special.InverseMillsExcess(s0)
		p.logMills = -math.Log(r)
	}
	return p
}

func (p probitShape) at(d float64) (gap, slope, curv float64) {
	x := p.s0 + d
	logPhi, r, res := special.PhiMoments(x)
	if p.s0 < 0 && x < 0 {
		// r - r0 = -d + (excess - excess0)
		e := special.InverseMillsExcess(x)
		gap = -0.5*d*d + (-math.Log(r) - p.logMills) - p.exc*d
		slope = -d + (e - p.exc)
	} else {
		gap = logPhi - p.logPhi - p.r*d
		slope = r - p.r
	}
	curv = 1 - res
	if x > 0 {
		curv = r * (x + r)
	}
	return p.w * gap, p.w * slope, p.w * curv
}

func (probit) Response(s float64) float64 { return special.Phi(s) }

func (probit) Predict(m, v float64) (mean, variance float64) {
	z := m / math.Sqrt(1+v)
	mean = special.Phi(z)
	return mean, mean * special.Phi(-z)
}

func (l probit) Moderated(m, v float64) float64 {
	mean, _ := l.Predict(m, v)
	return mean
}

func (l probit) Interval(m, v, level float64) (lower, upper float64) {
	lower, upper = normalQuantiles(m, v, level)
	return l.Response(lower), l.Response(upper)
}

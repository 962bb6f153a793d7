package stream

import (
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// Rule determines how one row updates the belief N(m, v) of its linear predictor: the mean becomes
// m + vα, the variance v(1 - vβ).
type Rule interface {
	// Name is the method's name in the fit.
	Name() string
	// Bind returns the rule for the model's likelihood and options.
	Bind(m *kernels.Model) (Update, error)
}

// Innovating is a Rule whose log densities are those of innovations instead of responses, and whose
// noise is the model's measurement noise if that is set.
type Innovating interface{ Innovates() }

func innovates(r Rule) bool {
	_, ok := r.(Innovating)
	return ok
}

// Update is a bound rule. The weight of o is above 0.
type Update interface {
	Tilt(o lik.Obs, m, v float64) (t lik.Tilted, held StepLimit)
}

// StepLimit describes what limits a step.
type StepLimit uint8

const (
	Unlimited  StepLimit = iota // nothing
	Shortened                   // its length was limited to MaxStep
	TooCertain                  // it ended more than MaxLeft from the mode of its row
)

// MaxLeft is how many standard deviations a step may end from the mode of its row, judged by slope
// and curvature there: beyond, the belief is too certain.
const MaxLeft = 10

// ADF is assumed density filtering with the exact moments of every family: the
// one-step unscented Kalman filter of Zoeter (2007), section 2. Its log evidence is the
// sum of the log predictive densities.
type ADF struct{}

func (ADF) Name() string { return "adf" }

func (ADF) Bind(m *kernels.Model) (Update, error) { return exact{m.Lik}, nil }

type exact struct{ lik.Likelihood }

func (e exact) Tilt(o lik.Obs, m, v float64) (lik.Tilted, StepLimit) {
	return e.Moments(o, m, v), Unlimited
}

// MaxStep is the largest move of a linear predictor in one linearised step under the links log and
// cloglog: the tangent of an exponential is meaningless a factor e^5 away, and an unlimited step
// would overflow.
const MaxStep = 5

package lik

import (
	"math"
)

// Traits are the properties of a likelihood that engines may need besides its functions, so that
// none has to know families and links by name. TestTraits compares them with the functions.
type Traits struct {
	Gaussian      bool    // in s: beliefs stay exact, and the dispersion can be learnt row by row (NewLearning)
	Concave       bool    // log p is concave in s for every y; otherwise the likelihood is Bumpy
	Canonical     bool    // the curvature of log p in s is the same for every y
	Located       bool    // y lies around s and has its unit, that of the dispersion: the link is the identity
	Homoscedastic bool    // the variance of y is the dispersion, whatever its mean
	Binary        bool    // y is 0 or 1
	Trials        bool    // y is a number of successes among trials
	Counts        bool    // y is a whole number >= 0
	Equidispersed bool    // and its variance is its mean, as in a Poisson distribution
	Relative      bool    // y > 0 varies in proportion to its mean, with variance mean²/shape
	LogOdds       bool    // s is the log odds of a success: the bound of Jaakkola and Jordan holds
	LogMean       bool    // s is the logarithm of Response
	LogRate       bool    // s is the logarithm of the rate of events, which y counts, or whose occurrence y reports
	Growth        float64 // 1 or -1: log p, or its response, grows as exp(Growth s), so that a free step would overflow; 0: it does not
	Scale         float64 // the change of s over which the curvature of log p changes
	Work          float64 // approximate operations of Moments for a row without a weight; 0 if by quadrature

	Inverse
}

// Heavy reports whether responses lie around s with heavier tails than gaussian ones.
func (t Traits) Heavy() bool { return t.Located && !t.Gaussian }

// quadratureWork is the approximate number of operations of Moments by quadrature: 5 µs.
const quadratureWork = 2e4

// MomentsWork returns the approximate number of operations of Moments for a row, about 4 per
// nanosecond.
func MomentsWork(l Likelihood, weighted bool) float64 {
	t := l.Traits()
	if t.Work == 0 || weighted && !t.Gaussian && !t.Equidispersed {
		return quadratureWork
	}
	return t.Work
}

// Inverse holds what is known of an inverse link besides its values, which are Response's.
type Inverse struct {
	// Slope is the first derivative of Response at the response g. It is nil if y is Binary or of
	// Trials: g times the score of a success.
	Slope func(g float64) float64
	// Bend is the second derivative of Response over the first, at s.
	Bend func(s float64) float64
	// Slopes are the first three derivatives of Response at s.
	Slopes func(s float64) (d1, d2, d3 float64)
	// Averaged are their expectations over s ~ N(m, v), nil if these have no closed form.
	Averaged func(m, v float64) (d1, d2, d3 float64)
	// Predictor is the link: the s whose Response is g, infinite at and beyond the ends of the
	// range of responses.
	Predictor func(g float64) float64
}

// identityInverse is g = s, whose slope is 1 everywhere.
var identityInverse = Inverse{
	Slope:     func(float64) float64 { return 1 },
	Bend:      func(float64) float64 { return 0 },
	Slopes:    func(float64) (d1, d2, d3 float64) { return 1, 0, 0 },
	Averaged:  func(m, v float64) (d1, d2, d3 float64) { return 1, 0, 0 },
	Predictor: func(g float64) float64 { return g },
}

// logInverse is g = e^s, which is its own derivative.
var logInverse = Inverse{
	Slope:  func(g float64) float64 { return g },
	Bend:   func(float64) float64 { return 1 },
	Slopes: func(s float64) (d1, d2, d3 float64) { g := math.Exp(s); return g, g, g },
	Averaged: func(m, v float64) (d1, d2, d3 float64) {
		g := math.Exp(m + 0.5*v)
		return g, g, g
	},
	Predictor: func(g float64) float64 {
		if g <= 0 {
			return math.Inf(-1)
		}
		return math.Log(g)
	},
}

// chance returns the link of a probability, given its formula inside (0, 1).
func chance(link func(p float64) float64) func(p float64) float64 {
	return func(p float64) float64 {
		switch {
		case p <= 0:
			return math.Inf(-1)
		case p >= 1:
			return math.Inf(1)
		}
		return link(p)
	}
}

// Informed is a likelihood whose Fisher information about s, for a row of weight 1, is not the
// squared slope of Response over the variance of y.
type Informed interface {
	Likelihood
	Information() float64
}

package lik

import "math"

// Traits are what an engine may ask of a likelihood besides its functions, so that none
// needs to know families and links by name. TestTraits compares them with the functions.
type Traits struct {
	Gaussian  bool    // in s: beliefs stay exact, and the dispersion can be learnt row by row (NewLearning)
	Concave   bool    // log p is, in s, for every y; else the likelihood is Bumpy
	Canonical bool    // the curvature of log p in s is the same for every y
	Located   bool    // y lies around s and in its unit, that of the dispersion: the link is the identity
	Binary    bool    // y is 0 or 1
	Trials    bool    // y is a number of successes among trials
	LogOdds   bool    // s is the log odds of a success: the bound of Jaakkola and Jordan holds
	Relative  bool    // y > 0 varies in proportion to its mean, with variance mean²/shape
	Growth    float64 // 1 or -1: log p, or the response in it, goes as exp(Growth s), of which a free step would overflow; 0: neither does
	Scale     float64 // the change of s over which the curvature of log p changes

	// Slope is the first derivative of Response at the response g. It is nil where y is Binary
	// or of Trials: g times the score of a success.
	Slope func(g float64) float64
	// Bend is the second derivative of Response over the first, at s.
	Bend func(s float64) float64
}

func unitSlope(float64) float64  { return 1 }
func noBend(float64) float64     { return 0 }
func logSlope(g float64) float64 { return g }
func logBend(float64) float64    { return 1 }

func logitBend(s float64) float64   { return -math.Tanh(0.5 * s) }
func probitBend(s float64) float64  { return -s }
func cloglogBend(s float64) float64 { return 1 - math.Exp(s) }

// Informed is a likelihood whose Fisher information about s, of a row of weight 1, is not
// the squared slope of Response over the variance of y.
type Informed interface {
	Likelihood
	Information() float64
}

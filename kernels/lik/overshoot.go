package lik

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Overshoot sums, at known predictors, how much more rows are expected to respond than they do.
//
// Where a response may lie far below its mean at little cost, as those of gamma and negbinomial may,
// a mean that grows exponentially with a column of values far from the others, such as an exposure
// that should be an offset, can exceed the largest responses by any factor, and that of further rows
// by any other. The sum of all means, which should be that of the responses, shows it. Under the
// model chance does that, too, if few rows make up the sum; the score of a further weight for the
// square of the predictor tells the two apart.
type Overshoot struct {
	Expected, Came float64    // responses by weight
	Variance       float64    // of what comes, under the model
	Score          [3]float64 // sums of scores in the predictor s, times 1, s and s²
	Information    [5]float64 // sums of Fisher's information about s, times 1 to s⁴
}

// OvershootOf returns how rows of l are added to an Overshoot; nil for distributions without a
// shape, whose means follow the largest responses.
func OvershootOf(l Likelihood) func(sum *Overshoot, o Obs, s float64) {
	shaped, ok := l.(Shaped)
	t := l.Traits()
	if !ok || !t.LogMean || !t.Relative && !t.Counts {
		return nil
	}
	relative := 1 / shaped.Shape() // the variance of a response over its mean, squared
	return func(sum *Overshoot, o Obs, s float64) {
		if !(o.Weight > 0) {
			return
		}
		mean, variance := math.Exp(s), relative
		if t.Counts {
			variance += math.Exp(-s)
		}
		sum.Expected += o.Weight * mean
		sum.Came += o.Weight * o.Y
		sum.Variance += o.Weight * mean * mean * variance
		score, information := o.Weight*(o.Y*math.Exp(-s)-1)/variance, o.Weight/variance
		for k := range sum.Information {
			if k < len(sum.Score) {
				sum.Score[k] += score
			}
			sum.Information[k] += information
			score, information = score*s, information*s
		}
	}
}

// A note is made if rows are expected to respond that many times what they did, and that is unlikely
// under the model.
const (
	overshooting = 1.25
	unlikely     = 0.02
	bent         = 2.5 // standard errors
)

// Clear reports whether the rows are expected to respond too much by more than chance: what came
// is unlikely, or grows clearly less than exponentially.
func (p *Overshoot) Clear() bool {
	if !(p.Expected > overshooting*p.Came) {
		return false
	}
	// Sums of gamma responses, most of them due to a few rows, are nearly gamma distributed.
	shape := p.Expected * p.Expected / p.Variance
	return mathext.GammaIncReg(shape, shape*p.Came/p.Expected) < unlikely || p.bend() < -bent
}

// bend is the score of a weight for s², in standard deviations of its own.
//
// Prior and rows bring the scores to 0 along the columns, and so along 1 and s. What is left of s²
// after regressing it on these has at most its own information: less if s² is close to a
// combination of the columns.
func (p *Overshoot) bend() float64 {
	i := &p.Information
	mean := i[1] / i[0]
	slope := (i[3] - mean*i[2]) / (i[2] - mean*i[1])
	origin := i[2]/i[0] - slope*mean
	score := p.Score[2] - slope*p.Score[1] - origin*p.Score[0]
	return score / math.Sqrt(i[4]-slope*i[3]-origin*i[2])
}

// Note returns the sentence about rows that are clearly expected to respond too much, "" if they are
// not. column, which may be "", is what the largest expectation is due to.
func (p *Overshoot) Note(column string) string {
	if !p.Clear() {
		return ""
	}
	if column != "" {
		column = ", the most through " + column
	}
	return fmt.Sprintf("the fit's own rows are expected to respond %.3g together%s, and they did %.3g: %s", p.Expected, column, p.Came, OvershootMeaning(""))
}

// OvershootMeaning is why rows are expected to respond far more than they do, and what helps; or is
// a further reason, which may be "".
func OvershootMeaning(or string) string {
	return "expected responses grow exponentially with the predictor, and columns with values far from the others " +
		"(take their logarithms, or an exposure as offset)" + or + " make them far too large"
}

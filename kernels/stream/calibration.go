package stream

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// calibration sums what binary responses and counts were above what the filter expected of them before they
// came. With mean M and variance V of a response as predicted,
//
//	score = Σ a (y - M),  information = Σ a² V,  a = 1 (binary), M/V (counts)
//
// is the score of a common shift δ of all predictors, δ = score/information at first order and in units of what
// was expected: events of which half as many came as were expected have δ = -1/2. Under the model score is a
// martingale, whatever comes and in whatever order, of which information is the variance.
//
// One pass over rare events ends with too many of them: it takes rows without events, which say little each, for
// Gaussian ones, and is too sure too early. What it expected on the way shows it, where final beliefs and rows that
// are gone cannot be set side by side.
type calibration struct{ score, information, square float64 }

func (c *calibration) add(o calibration) {
	c.score, c.information, c.square = c.score+o.score, c.information+o.information, c.square+o.square
}

// calibrates says whether responses of l have a calibration.
func calibrates(l lik.Likelihood) bool { t := l.Traits(); return t.Binary || t.Counts && t.LogMean }

// meet notes a row whose predictor was N(m, v) before it came, under its likelihood l. A weight is that of a row
// that stands for others, which may be alike: the variance is that of one response so many times over.
func (c *calibration) meet(l lik.Likelihood, o lik.Obs, m, v float64) {
	mean, variance := l.Predict(m, v)
	if !(variance > 0) || math.IsInf(variance, 1) || math.IsInf(mean, 1) {
		return
	}
	a := o.Weight
	if !l.Traits().Binary {
		a *= mean / variance
	}
	c.count(a, a*(o.Y-mean), variance)
}

// meetBinary is meet of a binary response of weight 1, whose log probability was logZ.
func (c *calibration) meetBinary(y, logZ float64) {
	p := special.ExpDown(logZ)
	d := 1 - p // as much above what was expected
	if y == 0 {
		d = -d
	}
	c.count(1, d, p*(1-p))
}

func (c *calibration) count(a, d, variance float64) {
	c.score += d
	c.information += a * a * variance
	c.square += d * d
}

// A sentence is said where the shift is a quarter and more of what was expected, and three of its own deviations
// from none: those that the model predicts or those that the responses show, whichever are more, so that counts
// that vary more than their law allows are none. Of fewer than five expected events chance is skewed. Of 8,000
// ordinary streams of 600 and 1,000 rows eight had it, all with some ten events or fewer.
const (
	miscalibrated  = 0.25
	surelyMissed   = 3
	fewInformation = 5
)

// note is "" or a sentence.
func (c *calibration) note(l lik.Likelihood) string {
	sd := math.Sqrt(max(c.information, c.square))
	if !(c.information > fewInformation) || !(math.Abs(c.score) > surelyMissed*sd) || !(math.Abs(c.score) > miscalibrated*c.information) {
		return ""
	}
	what := "events"
	if !l.Traits().Binary {
		what = "counts"
	}
	way := "fewer"
	if c.score > 0 {
		way = "more"
	}
	return fmt.Sprintf("%s %s came than the rows before them predicted, by %.2g standard deviations: one pass has not found their rate, and its intervals may miss it; a method that keeps all rows, such as laplace, finds it", way, what, math.Abs(c.score)/sd)
}

package stream

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// calibration accumulates by how much binary responses and counts exceeded their one-step
// predictions. With mean M and variance V of the predictive distribution of a response,
//
//	score = Σ a (y - M),  information = Σ a² V,  a = 1 (binary), M/V (counts)
//
// is the score of a common shift δ of all predictors; δ = score/information to first order, in
// units of the expected number: if half as many events came as expected, δ = -1/2. Under the model
// score is a martingale with variance information, whatever the rows and their order.
//
// One pass over rare events ends up predicting too many of them: it treats rows without events,
// which say little each, as Gaussian, and becomes certain too early. The one-step predictions show
// this, whereas final beliefs cannot be compared with rows that are no longer there.
type calibration struct{ score, information, square float64 }

func (c *calibration) merge(o calibration) {
	c.score, c.information, c.square = c.score+o.score, c.information+o.information, c.square+o.square
}

// calibrates reports whether responses of l have a calibration.
func calibrates(l lik.Likelihood) bool { t := l.Traits(); return t.Binary || t.Counts && t.LogMean }

// addRow adds a row with likelihood l whose predictor was N(m, v) before it came. The rows that a
// weight stands for may be alike: the variance is that of one response times the weight squared.
func (c *calibration) addRow(l lik.Likelihood, o lik.Obs, m, v float64) {
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

// addBinaryRow is meet for a binary response of weight 1 with log predictive probability logZ.
func (c *calibration) addBinaryRow(y, logZ float64) {
	p := special.ExpDown(logZ)
	d := 1 - p // the excess over the expected response
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

// A note is given if the shift exceeds a quarter of the expected number and three standard
// deviations: those that the model predicts or those of the observed responses, whichever is larger,
// so that overdispersion alone is no reason. Below five expected events chance is skewed. Of 8,000
// ordinary streams of 600 and 1,000 rows, eight had the note, all with some ten events or fewer.
const (
	miscalibrated  = 0.25
	surelyMissed   = 3
	fewInformation = 5
)

// note returns the status sentence, or "".
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

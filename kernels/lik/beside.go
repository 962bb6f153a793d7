package lik

import (
	"fmt"
	"math"
)

// besideMean is the log evidence by which the mean alone must be ahead of the fit. Under the model
// itself that happens in fewer than one data set in a thousand (Markov's inequality), because its
// density over the model's has expectation 1.
const besideMean = 7

// BesideMean returns the sentence about n rows of l that a fit predicts worse than their mean alone
// does, "" if it does not: row returns a row and its linear predictor at the fit. known is the part
// of the log likelihood of all rows that is not in row.
//
// The mean has the fit's dispersion and shape, and pays half the logarithm of the rows for being
// learnt. Responses all at an end of their range, whose mean has no predictor, are left out.
func BesideMean(l Likelihood, n int, known float64, row func(i int) (o Obs, s float64)) string {
	weight, alone, ok := meanAlone(l, n, row)
	if !ok {
		return ""
	}
	mean := known + sumLogLik(l, n, func(i int) (Obs, float64) { o, _ := row(i); return o, alone })
	return Beside(known+sumLogLik(l, n, row), mean-0.5*math.Log(weight), weight)
}

// BesideShare is BesideMean of responses that are 0 or 1: of rows of total weight weight, whose mean
// is share and whose log density under the fit is fit.
func BesideShare(fit, share, weight float64) string {
	if !(weight > 1 && share > 0 && share < 1) {
		return ""
	}
	mean := weight * (share*math.Log(share) + (1-share)*math.Log1p(-share))
	return Beside(fit, mean-0.5*math.Log(weight), weight)
}

// BesideMeanOf is BesideMean for n rows made from pools of rows with different offsets: those that
// the mean alone predicts are all of them without offsets, one pool.
func BesideMeanOf(l Likelihood, n int, known float64, row func(i int) (o Obs, s float64), all *Pool) string {
	made, _, constant := Pooled(l).Make(all)
	under := func(s float64) func(i int) (Obs, float64) {
		return func(i int) (Obs, float64) { return made[i], s }
	}
	weight, alone, ok := meanAlone(l, len(made), under(0))
	if !ok {
		return ""
	}
	mean := constant + sumLogLik(l, len(made), under(alone))
	return Beside(known+sumLogLik(l, n, row), mean-0.5*math.Log(weight), weight)
}

// meanAlone returns the weight of all rows and the predictor of their mean; false if there is none,
// or no more than one row.
func meanAlone(l Likelihood, n int, row func(i int) (Obs, float64)) (weight, alone float64, ok bool) {
	t := l.Traits()
	if t.Predictor == nil {
		return 0, 0, false
	}
	var count, y float64
	for i := range n {
		o, _ := row(i)
		trials := 1.0
		if t.Trials {
			trials = o.Trials
		}
		weight, count, y = weight+o.Weight, count+o.Weight*trials, y+o.Weight*o.Y
	}
	alone = t.Predictor(y / count)
	return weight, alone, weight > 1 && !math.IsNaN(alone) && !math.IsInf(alone, 0)
}

// sumLogLik is the log likelihood of rows at their predictors.
func sumLogLik(l Likelihood, n int, row func(i int) (Obs, float64)) (sum float64) {
	for i := range n {
		if o, s := row(i); o.Weight > 0 {
			p, _, _ := l.LogLik(o, s)
			sum += p
		}
	}
	return sum
}

// Beside returns the sentence about rows of total weight weight whose log density is fit under the
// fit, and mean under their mean alone.
func Beside(fit, mean, weight float64) string {
	if !FarBelow(fit, mean) {
		return ""
	}
	return fmt.Sprintf("the fit's own rows have a log loss of %.4g under it, worse than the %.4g of their mean alone: a given offset, prior or weights keep the fit away from them", -fit/weight, -mean/weight)
}

// FarBelow reports whether the log density of rows under a fit is so much lower than that under
// their mean alone, which has paid for being learnt, that it is reported.
func FarBelow(fit, mean float64) bool { return fit < mean-besideMean }

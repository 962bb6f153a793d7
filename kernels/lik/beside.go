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
	t := l.Traits()
	if t.Predictor == nil {
		return ""
	}
	var weight, count, y float64
	for i := range n {
		o, _ := row(i)
		trials := 1.0
		if t.Trials {
			trials = o.Trials
		}
		weight, count, y = weight+o.Weight, count+o.Weight*trials, y+o.Weight*o.Y
	}
	alone := t.Predictor(y / count)
	if !(weight > 1) || math.IsNaN(alone) || math.IsInf(alone, 0) {
		return ""
	}
	fit, mean := known, known-0.5*math.Log(weight)
	for i := range n {
		o, s := row(i)
		if !(o.Weight > 0) {
			continue
		}
		p, _, _ := l.LogLik(o, s)
		q, _, _ := l.LogLik(o, alone)
		fit, mean = fit+p, mean+q
	}
	return Beside(fit, mean, weight)
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

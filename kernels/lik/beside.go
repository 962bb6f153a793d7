package lik

import (
	"fmt"
	"math"
)

// besideMean is the log evidence that the mean of the rows alone must be ahead by: under the
// model itself it is so in less than one set of rows of a thousand (Markov's inequality), as its density
// over the model's has the expectation 1.
const besideMean = 7

// BesideMean is the sentence about n rows of l that a fit says less well than their mean alone
// does, "" where it does not: row is a row and its linear predictor at the fit. known is what the log
// likelihood of all rows has besides.
//
// The mean has the fit's dispersion and shape, and pays half the logarithm of the rows for being
// learnt. Responses that are all at an end of their range, whose mean has no predictor, are not asked.
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

// Beside is the sentence about rows of a weight that have the log density fit by what is said of
// them, and mean by their mean alone.
func Beside(fit, mean, weight float64) string {
	if !(fit < mean-besideMean) {
		return ""
	}
	return fmt.Sprintf("the fit's own rows have a log loss of %.4g under it, worse than the %.4g of their mean alone: a given offset, prior or weights keep the fit away from them", -fit/weight, -mean/weight)
}

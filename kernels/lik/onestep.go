package lik

import (
	"fmt"
	"math"
)

// OneStep sums how far responses were from a filter's predictions, in units of variances that the
// mean determines, and tests whether they vary more than that. A row with mean M, variance S of
// what the filter did not know of it, and variance c about that, has
//
//	d = (y - M)²/(c + S),  1 on average, of variance 2 + κ, κ the excess kurtosis of the law
//
// and weight min(c, 1)/(1 + S/c)²: rare counts, and rows of which little was known, are not
// informative. A weighted d counts up to mostFar: a filter that has not learnt its weights yet is
// far off for a few rows, which must neither hide what all others show nor decide alone.
type OneStep struct {
	sum, weight, variance, third float64 // of d - 1, and its moments under the model
	bounded                      bool    // a row was beyond mostFar
}

const mostFar = 16

// add adds a row whose distribution has the standardised cumulants k3, squared, k4 and k6.
func (f *OneStep) add(o Obs, mean, c, spread, k3, k4, k6 float64) {
	if !(o.Weight > 0) || !(c > 0) || !(spread < maxDispersion) || !(c < maxDispersion) {
		return
	}
	a := 1 / (1 + spread/c)
	a *= a * min(c, 1)
	d := a * (o.Y - mean) * ((o.Y - mean) / (c + spread))
	if d > mostFar {
		d, f.bounded = mostFar, true
	}
	f.sum += o.Weight * (d - a)
	f.weight += o.Weight * a
	f.variance += o.Weight * a * a * (2 + k4)
	f.third += o.Weight * a * a * a * (8 + 10*k3 + 12*k4 + k6)
}

// meetTrials is meet for successes among several trials whose predictor was N(m, v), by three nodes.
func (f *OneStep) meetTrials(l binomial, o Obs, m, v float64) {
	if !(o.Trials > 1) {
		return
	}
	step := math.Sqrt(3 * v)
	low, mid, high := l.Response(m-step), l.Response(m), l.Response(m+step)
	p := (low + 4*mid + high) / 6
	s := ((low-p)*(low-p) + 4*(mid-p)*(mid-p) + (high-p)*(high-p)) / 6
	q := p*(1-p) - s
	c := o.Trials * q
	f.add(o, o.Trials*p, c, o.Trials*o.Trials*s, (1-4*q)/c, (1-6*q)/c, (1-30*q+120*q*q)/(c*c))
}

// merge adds the rows of o.
func (f *OneStep) merge(o *OneStep) {
	f.sum += o.sum
	f.weight += o.weight
	f.variance += o.variance
	f.third += o.third
	f.bounded = f.bounded || o.bounded
}

// Note returns OverdispersionNote for the rows of l.
func (f *OneStep) Note(l Likelihood) string {
	if f == nil || !(f.variance > 0) {
		return ""
	}
	of := ofPredictions
	if f.bounded {
		of += fmt.Sprintf(", each %d at most", mostFar)
	}
	return OverdispersionNote(l, of, 1+f.sum/f.weight, f.sum/math.Sqrt(f.variance), f.third/math.Pow(f.variance, 1.5))
}

const ofPredictions = " of the one-step predictions"

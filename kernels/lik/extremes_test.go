package lik

import (
	"math"
	"testing"
)

// Every family's predictive law at the ends of what a linear predictor can be: no NaN, an
// interval in order, and mean and interval that rise with the mean of the predictor;
// what exceeds the largest number is Infinity, for all families alike.
func TestExtremePredictions(t *testing.T) {
	means := []float64{-1e308, -1e100, -1e4, -745, -100, -1, 0, 1, 100, 300, 690, 709.5, 800, 1e4, 1e100, 1e308}
	variances := []float64{0, 5e-324, 1e-100, 1e-3, 2, 100, 1e4, 1e10, 1e100, 1e300, math.MaxFloat64}
	// rises says whether b is no less than a, to the quantiles' accuracy.
	rises := func(a, b float64) bool { return b >= a || b >= a-1e-9*math.Abs(a)-1e-12 }
	every(t, func(t *testing.T, l Likelihood) {
		for _, v := range variances {
			var last [3]float64
			for i, m := range means {
				mean, variance := l.Predict(m, v)
				lo, hi := l.Interval(m, v, 0.95)
				now := [3]float64{mean, lo, hi}
				if !(lo <= hi) || math.IsNaN(mean) || !(variance >= 0) || math.IsInf(mean, -1) {
					t.Errorf("s ~ N(%v, %v): mean %v, variance %v, interval [%v, %v]", m, v, mean, variance, lo, hi)
				}
				for k := range now {
					if i > 0 && !rises(last[k], now[k]) {
						t.Errorf("s ~ N(%v, %v): number %v of mean, lower, upper is %v; at the mean %v it is %v", m, v, k, now[k], means[i-1], last[k])
					}
				}
				// A count or a size whose mean is beyond every number, surely.
				if v == 0 && m >= 1e4 && l.Response(m) > math.MaxFloat64 && (lo <= math.MaxFloat64 || hi <= math.MaxFloat64) {
					t.Errorf("s = %v: interval [%v, %v] of an infinite mean", m, lo, hi)
				}
				last = now
			}
		}
	})
}

package lik

import (
	"fmt"
	"math"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/special"
)

// Every family's predictive law at the ends of what a linear predictor can be: no NaN, an
// interval in order, and mean and interval that rise with the mean of the predictor;
// what exceeds the largest number is Infinity, for all families alike.
func TestExtremePredictions(t *testing.T) {
	means := []float64{-1e308, -1e200, -1e150, -1e100, -1e4, -745, -100, -1, 0, 1, 100, 300, 690, 709.5, 800, 1e4, 1e100, 1e150, 1e200, 1e308}
	variances := []float64{0, 5e-324, 1e-100, 1e-3, 2, 100, 1e4, 1e10, 1e100, 1e200, 1e250, 1e300, math.MaxFloat64}
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

// Far out on a wide law the logistic function is a step, whose chance is the normal tail's.
func TestLogitFarAndWide(t *testing.T) {
	for _, c := range [][2]float64{{-1e150, 1e200}, {-1e150, 1e250}, {-1e200, 1e300}, {-3e4, 1e5}, {-5e4, 1.2e5}, {-1e10, 1e12}} {
		m, v := c[0], c[1]
		got := logit{}.Moments(Obs{Y: 1, Weight: 1}, m, v)
		want := probit{}.Moments(Obs{Y: 1, Weight: 1}, m, v)
		// E[σ(s)] / Φ(m/√v) is x / sin x to 1/v, with x = π|m|/v.
		a := math.Pi * -m / v
		logZ := want.LogZ
		if m > -1e100 {
			logZ = special.LogPhi(m/math.Sqrt(v)) + math.Log(a/math.Sin(a))
		}
		if !(math.Abs(got.LogZ-logZ) <= 10/v+1e-13*math.Abs(logZ)) || math.IsNaN(got.Alpha+got.Beta+got.Ratio) || !(got.Ratio >= 0 && got.Ratio <= 1) {
			t.Errorf("s ~ N(%v, %v): %+v, want log Z %v", m, v, got, logZ)
		}
	}
}

// TestProbitHeavy: rows of any weight have the moments of a Simpson's rule of many points, in a time that
// does not grow with the weight (of 1e14, a piece of panels for each 1e-7 of the predictor took hours).
func TestProbitHeavy(t *testing.T) {
	l, err := New("bernoulli", "probit", Params{})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []float64{100, 1e6, 1e14, 1e18} {
		for _, c := range [][2]float64{{0, 11}, {-3, 1}, {5, 4}, {8, 100}} {
			m, v := c[0], c[1]
			density := func(x float64) float64 {
				logp, _, _ := probitLog(w, x)
				return logp - 0.5*(x-m)*(x-m)/v
			}
			top := math.Sqrt(2*math.Log1p(w)) + 1
			lo, hi := -2.0, max(top, m+v/top)+14*math.Sqrt(v)
			const n = 400000
			peak := math.Inf(-1)
			for k := range n + 1 {
				peak = max(peak, density(lo+(hi-lo)*float64(k)/n))
			}
			var mass, first, second float64
			for k := range n + 1 {
				x := lo + (hi-lo)*float64(k)/n
				p := math.Exp(density(x)-peak) * map[bool]float64{true: 4, false: 2}[k%2 == 1]
				mass, first, second = mass+p, first+p*(x-m), second+p*(x-m)*(x-m)
			}
			mean := first / mass
			got := l.Moments(Obs{Y: 1, Weight: w}, m, v)
			what := fmt.Sprintf("weight %g, mean %g, variance %g: ", w, m, v)
			kerneltest.Close(t, what+"log Z", got.LogZ, peak+math.Log(mass*(hi-lo)/(3*n)/math.Sqrt(2*math.Pi*v)), kerneltest.Tol{Abs: 1e-9})
			kerneltest.Close(t, what+"mean", m+v*got.Alpha, m+mean, kerneltest.Tol{Abs: 1e-8})
			kerneltest.Close(t, what+"variance", v*got.Ratio, second/mass-mean*mean, kerneltest.Tol{Rel: 1e-7})
		}
	}
}

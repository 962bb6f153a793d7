package lik

import (
	"math"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

func TestGammaInterval(t *testing.T) {
	for _, shape := range []float64{0.2, 1, 9, 1e5} {
		l := mustNew(t, "gamma", "", Params{Shape: shape})
		for _, c := range [][2]float64{{0, 1e-9}, {-2, 0.3}, {5, 1}, {1, 12}} {
			m, v := c[0], c[1]
			lo, hi := l.Interval(m, v, 0.8)
			// in log y the density is e^x Z(e^x)
			inner := integral(math.Log(lo), math.Log(hi), 40, func(x float64) float64 {
				return math.Exp(x + l.Moments(Obs{Y: math.Exp(x), Weight: 1}, m, v).LogZ)
			})
			kerneltest.Close(t, "inner", inner, 0.8, kerneltest.Tol{Rel: 1e-8})
			far := math.Log(hi) + 9*math.Sqrt(v) + 4
			upper := integral(math.Log(hi), far, 200, func(x float64) float64 {
				return math.Exp(x + l.Moments(Obs{Y: math.Exp(x), Weight: 1}, m, v).LogZ)
			})
			kerneltest.Close(t, "upper", upper, 0.1, kerneltest.Tol{Rel: 1e-7})
		}
	}
	lo, hi := mustNew(t, "gamma", "", Params{}).Interval(0.3, 0, 0.9) // an exponential of mean e^0.3
	kerneltest.Close(t, "lower", lo, -math.Exp(0.3)*math.Log(0.95), kerneltest.Tol{Rel: 1e-9})
	kerneltest.Close(t, "upper", hi, -math.Exp(0.3)*math.Log(0.05), kerneltest.Tol{Rel: 1e-9})
}

// integral is the sum of n Gauss-Legendre panels.
func integral(a, b float64, n int, f func(x float64) float64) (sum float64) {
	h := (b - a) / float64(2*n)
	for i := 0; i < n; i++ {
		mid := a + h*float64(2*i+1)
		for j, u := range legendre[0] {
			sum += h * legendre[1][j] * f(mid+h*u)
		}
	}
	return sum
}

func TestGammaPredict(t *testing.T) {
	mean, variance := mustNew(t, "gamma", "", Params{Shape: 2.5}).Predict(0.2, 0.5)
	mu := math.Exp(0.45)
	kerneltest.Close(t, "mean", mean, mu, kerneltest.Tol{Rel: 1e-14})
	kerneltest.Close(t, "variance", variance, mu*mu*math.Exp(0.5)/2.5+mu*mu*math.Expm1(0.5), kerneltest.Tol{Rel: 1e-13})
}

func TestGammaShape(t *testing.T) {
	testShape(t, "gamma", 1, "shape = -1: gamma takes a shape > 0, finite (default 1)")
	err := mustNew(t, "gamma", "", Params{}).Check(Obs{Y: 0, Weight: 1})
	if err == nil || err.Error() != "y = 0: gamma takes finite numbers > 0" {
		t.Error(err)
	}
}

func BenchmarkGamma(b *testing.B) {
	benchmark(b, mustNew(b, "gamma", "", Params{Shape: 2}), Obs{Y: 1.5, Weight: 1})
}

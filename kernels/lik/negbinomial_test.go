package lik

import (
	"math"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

func TestNegBinomialInterval(t *testing.T) {
	for _, size := range []float64{0.3, 1, 25, 1e4} {
		countInterval(t, mustNew(t, "negbinomial", "", Params{Shape: size}))
	}
}

func TestNegBinomialPredict(t *testing.T) {
	mean, variance := mustNew(t, "negbinomial", "", Params{Shape: 2.5}).Predict(0.2, 0.5)
	mu := math.Exp(0.45)
	kerneltest.Close(t, "mean", mean, mu, kerneltest.Tol{Rel: 1e-14})
	kerneltest.Close(t, "variance", variance, mu+mu*mu*math.Exp(0.5)/2.5+mu*mu*math.Expm1(0.5), kerneltest.Tol{Rel: 1e-13})
}

// A large size is the Poisson law: its variance mu + mu²/r differs by a part in r/mu.
func TestNegBinomialLimit(t *testing.T) {
	nb, po := mustNew(t, "negbinomial", "", Params{Shape: 1e12}), mustNew(t, "poisson", "", Params{})
	for _, y := range []float64{0, 1, 7, 300} {
		for _, m := range []float64{-9, 0, 2, 6} {
			for _, v := range []float64{1e-6, 0.3, 40} {
				a, b := nb.Moments(Obs{Y: y, Weight: 1}, m, v), po.Moments(Obs{Y: y, Weight: 1}, m, v)
				kerneltest.Close(t, "logZ", a.LogZ, b.LogZ, kerneltest.Tol{Rel: 1e-6, Abs: 1e-7})
				kerneltest.Close(t, "ratio", a.Ratio, b.Ratio, kerneltest.Tol{Rel: 1e-6})
			}
		}
	}
}

func TestNegBinomialShape(t *testing.T) {
	testShape(t, "negbinomial", 1, "shape = -1: negbinomial takes a size > 0, finite (default 1)")
	err := mustNew(t, "negbinomial", "", Params{}).Check(Obs{Y: 0.5, Weight: 1})
	if err == nil || err.Error() != "y = 0.5: negbinomial takes whole numbers >= 0; a rate is given as its count, with the offset ln(exposure)" {
		t.Error(err)
	}
}

// testShape checks the default of a family's shape and what it refuses.
func testShape(t *testing.T, family string, def float64, want string) {
	t.Helper()
	for _, c := range [][2]float64{{0, def}, {math.NaN(), def}, {7, 7}} {
		s, ok := mustNew(t, family, "", Params{Dispersion: 1, Shape: c[0]}).(Shaped)
		if !ok || s.Shape() != c[1] {
			t.Errorf("%s: shape %v is not %v", family, c[0], c[1])
		}
	}
	if _, err := New(family, "", Params{Dispersion: 1, Shape: -1}); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := New(family, "", Params{Dispersion: 1, Shape: math.Inf(1)}); err == nil {
		t.Error("an infinite shape is accepted")
	}
}

func BenchmarkNegBinomial(b *testing.B) {
	benchmark(b, mustNew(b, "negbinomial", "", Params{Shape: 2}), Obs{Y: 3, Weight: 1})
}

// Quantiles of means beyond 1e15 are those of the rate, which is gamma, and Infinity
// beyond the largest number, as of the other counts.
func TestNegBinomialHugeInterval(t *testing.T) {
	for _, size := range []float64{0.5, 3} {
		l, g := mustNew(t, "negbinomial", "", Params{Shape: size}), mustNew(t, "gamma", "", Params{Shape: size})
		for _, c := range [][2]float64{{60, 0}, {100, 4}, {600, 2}, {690, 9}} {
			lo, hi := l.Interval(c[0], c[1], 0.95)
			glo, ghi := g.Interval(c[0], c[1], 0.95)
			kerneltest.Close(t, "lower", lo, glo, kerneltest.Tol{Rel: 1e-7})
			kerneltest.Close(t, "upper", hi, ghi, kerneltest.Tol{Rel: 1e-7})
		}
		if lo, hi := l.Interval(800, 2, 0.95); !math.IsInf(lo, 1) || !math.IsInf(hi, 1) {
			t.Errorf("size %v at mean 800: [%v, %v], want Infinity", size, lo, hi)
		}
	}
}

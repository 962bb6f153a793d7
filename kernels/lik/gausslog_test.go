package lik

import (
	"math"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// The interval against the evidence, which is the predictive density.
func TestGaussianLogInterval(t *testing.T) {
	for _, c := range []struct{ d, m, v float64 }{
		{1, 0, 1e-6}, {1, 0, 0.5}, {0.01, 2, 0.3}, {25, 1, 0.2}, {1e-4, -1, 0.1}, {3, 3, 0.05},
	} {
		l := mustNew(t, "gaussian", "log", Params{Dispersion: c.d})
		lo, hi := l.Interval(c.m, c.v, 0.8)
		density := func(y float64) float64 { return math.Exp(l.Moments(Obs{Y: y, Weight: 1}, c.m, c.v).LogZ) }
		kerneltest.Close(t, "inner", integral(lo, hi, 60, density), 0.8, kerneltest.Tol{Rel: 1e-8})
		far := math.Min(lo, 0) - 12*math.Sqrt(c.d)
		kerneltest.Close(t, "lower", integral(far, lo, 300, density), 0.1, kerneltest.Tol{Rel: 1e-8})
	}
	l := mustNew(t, "gaussian", "log", Params{Dispersion: 4})
	lo, hi := l.Interval(1, 0, 0.95)
	kerneltest.Close(t, "lower", lo, math.E-2*1.9599639845400543, kerneltest.Tol{Rel: 1e-9})
	kerneltest.Close(t, "upper", hi, math.E+2*1.9599639845400543, kerneltest.Tol{Rel: 1e-9})
}

func TestGaussianLogPredict(t *testing.T) {
	mean, variance := mustNew(t, "gaussian", "log", Params{Dispersion: 0.7}).Predict(0.2, 0.5)
	mu := math.Exp(0.45)
	kerneltest.Close(t, "mean", mean, mu, kerneltest.Tol{Rel: 1e-14})
	kerneltest.Close(t, "variance", variance, 0.7+mu*mu*math.Expm1(0.5), kerneltest.Tol{Rel: 1e-13})
}

// A prior far below log y sees a flat likelihood and, for a weight that makes up for the
// distance, a second mode: the law is wider than the prior.
func TestGaussianLogTwoModes(t *testing.T) {
	l := mustNew(t, "gaussian", "log", Params{Dispersion: 1})
	wider := false
	for y := 3.0; y < 8; y += 0.05 {
		got := l.Moments(Obs{Y: y, Weight: 1}, -4, 1)
		want := denseModes(l, Obs{Y: y, Weight: 1}, -4, 1)
		kerneltest.Close(t, "ratio", got.Ratio, want.Ratio, kerneltest.Tol{Rel: 1e-9})
		kerneltest.Close(t, "alpha", got.Alpha, want.Alpha, kerneltest.Tol{Rel: 1e-9})
		wider = wider || got.Ratio > 4
	}
	if !wider {
		t.Error("no law with two modes among them")
	}
}

// A prior so wide that the search for the mode near log y starts where e^2s overflows;
// and one that a wall of log p cuts off far from the prior's own scale.
func TestGaussianLogWide(t *testing.T) {
	for _, c := range []struct{ d, y, w, m, v float64 }{
		{8.283122634750612e+06, 2.3846525566232685e+07, 0.1, -12.951247854851784, 483566.35513776814},
		{1e-7, 3e7, 2.5, -25, 5457},
		{1, -300, 1, -1e4, 1e5},
	} {
		l := mustNew(t, "gaussian", "log", Params{Dispersion: c.d})
		got := l.Moments(Obs{Y: c.y, Weight: c.w}, c.m, c.v)
		if math.IsNaN(got.LogZ + got.Alpha + got.Beta) {
			t.Errorf("%+v: %+v", c, got)
		}
		if c.y > 0 { // the datum fixes s
			kerneltest.Close(t, "mean", c.m+c.v*got.Alpha, math.Log(c.y), kerneltest.Tol{Abs: 1e-6})
		}
	}
}

func BenchmarkGaussianLog(b *testing.B) {
	benchmark(b, mustNew(b, "gaussian", "log", Params{Dispersion: 1}), Obs{Y: 1.5, Weight: 1})
}

// A response whose square is beyond all numbers: found by fuzzing, the search for its
// modes never ended.
func TestGaussianLogLargest(t *testing.T) {
	l := mustNew(t, "gaussian", "log", Params{Dispersion: 0.5})
	for _, y := range []float64{1e80, 1e155, 1e200, 1e308, -1e308} {
		for _, v := range []float64{1e-12, 1, 1e6, 1e300} {
			l.Moments(Obs{Y: y, Weight: 1}, 0, v)
		}
	}
}

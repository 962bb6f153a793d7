package lik

import (
	"math"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// Roots of rising functions, flat, steep and with a jump, from guesses near and far; and in few
// steps.
func TestQuantile(t *testing.T) {
	for _, f := range []struct {
		name string
		root float64
		at   func(x float64) float64
	}{
		{"line", 3.25, func(x float64) float64 { return x - 3.25 }},
		{"cube", 2, func(x float64) float64 { return (x - 2) * (x - 2) * (x - 2) }},
		{"tail", -7, func(x float64) float64 { return 0.5*math.Erfc(-x/math.Sqrt2) - 0.5*math.Erfc(7/math.Sqrt2) }},
		{"steep", 0.1, func(x float64) float64 { return math.Tanh(1e6 * (x - 0.1)) }},
		{"jump", -0.7, func(x float64) float64 { return math.Copysign(1, x+0.7) }},
		{"slow", 5, func(x float64) float64 { return 1/(1+math.Exp(5)) - 1/(1+math.Exp(x)) }},
	} {
		for _, guess := range []float64{f.root, f.root + 1e-9, f.root - 0.3, f.root + 40} {
			for _, step := range []float64{1, 100} {
				tol := 1e-12 * step
				if f.name == "cube" {
					tol = 1e-5 // flat where its numbers are below the smallest
				}
				n := 0
				x := quantile(guess, step, func(x float64) float64 { n++; return f.at(x) })
				if f.at(x) != 0 {
					kerneltest.Close(t, f.name, x, f.root, kerneltest.Tol{Abs: tol, Rel: 1e-13})
				}
				if n > 110 {
					t.Errorf("%s from %v by %v: %d evaluations", f.name, guess, step, n)
				}
			}
		}
	}
	n := 0
	quantile(1.5, 1, func(x float64) float64 { n++; return 0.5*math.Erfc(-x/math.Sqrt2) - 0.975 })
	if n > 12 {
		t.Errorf("a normal quantile took %d evaluations", n)
	}
}

// Laws as wide as numbers go have an interval, if an infinite one.
func TestQuantileWidest(t *testing.T) {
	l := mustNew(t, "studentt", "", Params{Dispersion: math.MaxFloat64, Shape: 4})
	for _, v := range []float64{1e-3, 1, 1e300} {
		if lo, hi := l.Interval(0.04, v, 0.95); !(lo < -1e150 && hi > 1e150) {
			t.Errorf("v = %v: %v to %v", v, lo, hi)
		}
	}
}

package lik

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/mathext"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// widest notes the widest Gaussian that a search integrates over, and how often it does.
type widest struct {
	Likelihood
	variance float64
	calls    int
}

func (c *widest) Moments(o Obs, m, v float64) Tilted {
	c.variance = max(c.variance, v)
	c.calls++
	return c.Likelihood.Moments(o, m, v)
}

// Where no Gaussian becomes N(m, v) by the row, its precision runs to 0; the search ends
// there instead of integrating over ever wider ones.
func TestCavityEnds(t *testing.T) {
	l, err := New("", "cloglog", Params{})
	if err != nil {
		t.Fatal(err)
	}
	for _, y := range []float64{0, 1} {
		for _, at := range [][2]float64{{-0.9033, 12.82}, {0.867, 12.75}, {-0.857, 11.64}, {3, 40}, {-5, 200}} {
			c := &widest{Likelihood: l}
			if Cavity(c, Obs{Y: y, Weight: 1, Trials: 1}, at[0], at[1]); c.variance > 1.01e6*at[1] {
				t.Errorf("y %g, N(%g, %g): integrals over a variance of %g", y, at[0], at[1], c.variance)
			}
		}
	}
}

// Before a row of w successes under logit, flat beliefs s ~ e^-λs become logit of a beta of
// w - λ and λ: mean ψ(w-λ) - ψ(λ), variance ψ'(w-λ) + ψ'(λ). No Gaussian becomes one of that
// mean and more variance; of less one does,
// which the search finds but for the last few per cent. It is soon known that there is none.
func TestCavityExists(t *testing.T) {
	l, err := New("", "logit", Params{})
	if err != nil {
		t.Fatal(err)
	}
	trigamma := func(x float64) float64 { return mathext.Zeta(2, x) }
	for _, w := range []float64{0.5, 1, 2, 3, 5, 40} {
		for _, m := range []float64{-6, -3, -0.5, 0, 2, 5} {
			low, high := 0.0, w // of λ: the mean falls
			for range 200 {
				if mid := 0.5 * (low + high); mathext.Digamma(w-mid)-mathext.Digamma(mid) > m {
					low = mid
				} else {
					high = mid
				}
			}
			most := trigamma(w-low) + trigamma(low)
			for _, by := range []float64{0.01, 0.3, 0.7, 0.9, 0.95, 1.02, 1.1, 2, 10, 1e4} {
				c, v := &widest{Likelihood: l}, by*most
				mc, vc, _, ok := Cavity(c, Obs{Y: 1, Weight: w}, m, v)
				if ok != (by < 1) {
					t.Errorf("weight %v, N(%v, %v), the largest variance is %v: found %v after %d integrals", w, m, v, most, ok, c.calls)
				}
				if !ok && c.calls > 40 {
					t.Errorf("weight %v, N(%v, %v): %d integrals until it is known that there is none", w, m, v, c.calls)
				}
				if ok {
					q := l.Moments(Obs{Y: 1, Weight: w}, mc, vc)
					kerneltest.Close(t, "mean", mc+vc*q.Alpha, m, kerneltest.Tol{Abs: 1e-10 * math.Sqrt(v)})
					kerneltest.Close(t, "variance", vc*q.Ratio, v, kerneltest.Tol{Rel: 1e-10})
				}
			}
		}
	}
}

// In a posterior that knows much more than the row the cavity is found in a few steps, however far
// from 0 and however narrow it is, and the site has the slope and the curvature of the likelihood.
func TestCavityNarrow(t *testing.T) {
	for _, c := range []struct {
		family, link string
		o            Obs
		m            float64
	}{
		{"bernoulli", "logit", Obs{Y: 1, Weight: 1, Trials: 1}, 2.5}, {"bernoulli", "probit", Obs{Y: 0, Weight: 1, Trials: 1}, -1.5},
		{"bernoulli", "cloglog", Obs{Y: 1, Weight: 2.5, Trials: 1}, 0.3}, {"binomial", "logit", Obs{Y: 3, Weight: 1, Trials: 9}, -4},
		{"poisson", "log", Obs{Y: 7, Weight: 1}, 1.7}, {"poisson", "log", Obs{Y: 0, Weight: 1}, -5}, {"gamma", "log", Obs{Y: 40, Weight: 1}, 3.3},
	} {
		l, err := New(c.family, c.link, Params{Shape: 2})
		if err != nil {
			t.Fatal(err)
		}
		_, d1, d2 := l.LogLik(c.o, c.m)
		for _, v := range []float64{1e-4, 1e-6, 1e-9, 1e-12} {
			what := fmt.Sprintf("%s %s, variance %g", c.family, c.link, v)
			w := &widest{Likelihood: l}
			_, _, q, ok := Cavity(w, c.o, c.m, v)
			if !ok || w.calls > 8 {
				t.Errorf("%s: found %v, %d integrals", what, ok, w.calls)
			}
			// Slope and curvature differ from those of the likelihood by some v, and by what
			// quadrature leaves of them where v is tiny.
			kerneltest.Close(t, what+": slope", q.Alpha, d1, kerneltest.Tol{Rel: 10*v + 1e-9, Abs: 10*v + 1e-9})
			kerneltest.Close(t, what+": precision", q.Beta/q.Ratio, -d2, kerneltest.Tol{Rel: 30*v + 1e-6})
		}
	}
}

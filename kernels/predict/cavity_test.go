package predict

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mathext"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// widest notes the widest Gaussian that a search integrates over, and how often it does.
type widest struct {
	lik.Likelihood
	variance float64
	calls    int
}

func (c *widest) Moments(o lik.Obs, m, v float64) lik.Tilted {
	c.variance = max(c.variance, v)
	c.calls++
	return c.Likelihood.Moments(o, m, v)
}

// Where no Gaussian becomes N(m, v) by the row, its precision runs to 0; the search ends
// there instead of integrating over ever wider ones.
func TestCavityEnds(t *testing.T) {
	l, err := lik.New("", "cloglog", lik.Params{})
	if err != nil {
		t.Fatal(err)
	}
	for _, y := range []float64{0, 1} {
		for _, at := range [][2]float64{{-0.9033, 12.82}, {0.867, 12.75}, {-0.857, 11.64}, {3, 40}, {-5, 200}} {
			c := &widest{Likelihood: l}
			if cavity(c, lik.Obs{Y: y, Weight: 1, Trials: 1}, at[0], at[1]); c.variance > 1.01e6*at[1] {
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
	l, err := lik.New("", "logit", lik.Params{})
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
				mc, vc, ok := cavity(c, lik.Obs{Y: 1, Weight: w}, m, v)
				if ok != (by < 1) {
					t.Errorf("weight %v, N(%v, %v), the largest variance is %v: found %v after %d integrals", w, m, v, most, ok, c.calls)
				}
				if !ok && c.calls > 40 {
					t.Errorf("weight %v, N(%v, %v): %d integrals until it is known that there is none", w, m, v, c.calls)
				}
				if ok {
					q := l.Moments(lik.Obs{Y: 1, Weight: w}, mc, vc)
					kerneltest.Close(t, "mean", mc+vc*q.Alpha, m, kerneltest.Tol{Abs: 1e-10 * math.Sqrt(v)})
					kerneltest.Close(t, "variance", vc*q.Ratio, v, kerneltest.Tol{Rel: 1e-10})
				}
			}
		}
	}
}

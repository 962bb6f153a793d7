package predict

import (
	"testing"

	"github.com/bglm/bglm/kernels/lik"
)

// widest notes the widest Gaussian that a search integrates over.
type widest struct {
	lik.Likelihood
	variance float64
}

func (c *widest) Moments(o lik.Obs, m, v float64) lik.Tilted {
	c.variance = max(c.variance, v)
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
			if cavity(c, lik.Obs{Y: y, Weight: 1, Trials: 1}, at[0], at[1]); c.variance > 1.01e13*at[1] {
				t.Errorf("y %g, N(%g, %g): integrals over a variance of %g", y, at[0], at[1], c.variance)
			}
		}
	}
}

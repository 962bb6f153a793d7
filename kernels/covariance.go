package kernels

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/gauss"
)

// Covariance is what a Fit keeps of its posterior covariance besides the
// variances of its beliefs, in belief order. The zero value is diagonal.
//
//   - full: Values is the lower Cholesky factor L of Σ = L Lᵀ, packed row by row:
//     L(i, j) at i(i+1)/2 + j, p(p+1)/2 numbers.
//   - lowrank: Σ = diag(d) - F Fᵀ with F p x Rank. Values has Rank+1 numbers a
//     belief, d first, then its row of F.
type Covariance struct {
	Form   gauss.Form
	Rank   int
	Values []float64
}

// Check reports a covariance whose size or values do not fit p beliefs.
func (c *Covariance) Check(p int) error {
	want := 0
	switch c.Form {
	case gauss.Full:
		want = p * (p + 1) / 2
	case gauss.LowRank:
		if c.Rank < 0 {
			return fmt.Errorf("covariance: rank = %d; allowed: 0 and more", c.Rank)
		}
		want = p * (c.Rank + 1)
	}
	if len(c.Values) != want {
		return fmt.Errorf("covariance: %d values for kind '%s' and %d beliefs; allowed: %d", len(c.Values), c.Form, p, want)
	}
	for _, v := range c.Values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("covariance: found a value %v; allowed: finite numbers", v)
		}
	}
	return nil
}

// Row is belief j's part of Values: row j of the packed factor, or d_j and row j of F.
func (c *Covariance) Row(j int) []float64 {
	if c.Form == gauss.Full {
		at := j * (j + 1) / 2
		return c.Values[at : at+j+1]
	}
	return c.Values[j*(c.Rank+1) : (j+1)*(c.Rank+1)]
}

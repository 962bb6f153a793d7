package lik

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The log evidence alone has the bits it has beside its derivatives.
func TestLogitLogZ(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	one := Obs{Y: 1, Weight: 1}
	for range 100_000 {
		m, v := 20*rng.NormFloat64(), math.Exp(6*rng.NormFloat64()-2)
		if rng.IntN(2) == 0 {
			m /= 10
		}
		if got, want := logitLogZ(m, v), (logit{}).Moments(one, m, v).LogZ; got != want {
			t.Fatalf("N(%v, %v): %v, want %v", m, v, got, want)
		}
	}
	for _, c := range [][2]float64{{0, 0}, {-3, 0}, {1000, 1}, {-1000, 1}, {1e300, 1e300}, {-0.5, 1}, {-0.25, 0.5}, {5, math.MaxFloat64}, {math.Inf(-1), 1}, {math.NaN(), 1}} {
		got, want := logitLogZ(c[0], c[1]), (logit{}).Moments(one, c[0], c[1]).LogZ
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("N(%v, %v): %v, want %v", c[0], c[1], got, want)
		}
	}
}

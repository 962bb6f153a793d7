package lik

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Sums of rows in parts, in any order, give the likelihood of their mean alone.
func TestSumming(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	for _, family := range []string{"gaussian", "poisson", "binomial", "bernoulli"} {
		l := mustNew(t, family, "", Params{Dispersion: 1})
		all, parts := []Obs(nil), []*Summing{NewSumming(l), NewSumming(l), NewSumming(l)}
		for i := range 90 {
			o := Obs{Y: float64(rng.IntN(2)), Weight: 1 + float64(i%3), Trials: 4}
			if family == "gaussian" {
				o.Y = 1e4 + rng.NormFloat64() + float64(i)
			}
			all = append(all, o)
			parts[i*2/90].Add(o) // none in the last
		}
		parts[2].Merge(parts[1])
		parts[2].Merge(parts[0])
		parts[2].Merge(nil)
		want, _ := NullLogLik(l, all)
		if got, ok := parts[2].Best(0); !ok || math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%s: %v, %v; want %v", family, got, ok, want)
		}
	}
	var none *Summing
	if _, ok := none.Best(0); ok || NewSumming(mustNew(t, "studentt", "", Params{Dispersion: 1, Shape: 4})) != nil {
		t.Error("a likelihood of no rows, or of one that is no Constant")
	}
}

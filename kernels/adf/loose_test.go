package adf

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
)

// The noise that factorised beliefs learn is that of the rows, whose sample of the noise, the one
// reference, is known here: from thirty rows of an intercept, two numbers and a column of three
// levels on within a factor of five, which is what weights with the deviation of the prior add to
// it in few rows, and from three hundred on within 1.4. Log evidence is that of forecasts: on
// average it is not above that of the law itself.
func TestLooseNoise(t *testing.T) {
	for _, n := range []int{30, 300} {
		for _, weigh := range []bool{false, true} {
			above, sets := 0.0, 0
			for seed := range uint64(8) {
				rnd := rand.New(rand.NewPCG(seed, 31))
				rows, sum, total, truth := make([]row, n), 0.0, 0.0, 0.0
				for i := range rows {
					a, b, e := rnd.NormFloat64(), rnd.NormFloat64(), 0.7*rnd.NormFloat64()
					w := 1.0
					if weigh {
						w = float64(1 + i%3)
					}
					rows[i] = row{x: map[string]float64{"a": a, "b": b, "g=" + string(rune('u'+i%3)): 1}, y: 0.5 + 0.8*a - 0.4*b + e, w: w}
					sum, total = sum+w*e*e, total+w
					truth -= 0.5 * w * (math.Log(2*math.Pi*0.49) + e*e/0.49)
				}
				m := kernels.Model{Lik: like(t, "gaussian", "", 1), Prior: kernels.DefaultPrior, Options: kernels.Options{AutoDispersion: true}}
				s := state(t, &m)
				feed(t, s, rows)
				f := fit(t, s)
				limit := 5.0
				if n >= 300 {
					limit = 1.4
				}
				if r := f.Dispersion / (sum / total); !(r < limit && r > 1/limit) {
					t.Errorf("%d rows, weights %v, seed %d: dispersion %g, the noise has %g", n, weigh, seed, f.Dispersion, sum/total)
				}
				above += f.LogEvidence - truth
				sets++
			}
			if above/float64(sets) > 0 {
				t.Errorf("%d rows, weights %v: log evidence is %.3g above that of the law", n, weigh, above/float64(sets))
			}
		}
	}
}

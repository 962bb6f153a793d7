package arrowhead

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/lik"
)

// A row of a tenth of the block and no leaves, predicted and absorbed.
func BenchmarkBlock(b *testing.B) {
	for _, d := range []int{9, 20, 45, 65} {
		b.Run(fmt.Sprint(d), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, uint64(d)))
			one := make([]float64, d)
			for j := range one {
				one[j] = 1
			}
			a := New(make([]float64, d), one)
			x := make([]float64, d)
			for b.Loop() {
				clear(x)
				for range 1 + d/10 {
					x[rng.IntN(d)] = rng.NormFloat64()
				}
				m, v := a.Predict(x, nil, nil)
				ratio := 1 / (1 + v)
				a.Absorb(nil, nil, lik.Tilted{Alpha: (rng.NormFloat64() - m) * ratio, Beta: ratio, Ratio: ratio})
			}
		})
	}
}

package arrowhead_test

import (
	"fmt"

	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/lik"
)

// An intercept in the block, two leaves that hang on it.
func Example() {
	b := arrowhead.New([]float64{0}, []float64{10})
	first, second := b.Add(0, 1), b.Add(0, 1)

	// y = 2 of intercept and first leaf, with noise of variance 1.
	m, v := b.Predict([]float64{1}, []uint32{uint32(first)}, []float64{1})
	b.Absorb([]uint32{uint32(first)}, []float64{1}, lik.Tilted{Alpha: (2 - m) / (v + 1), Beta: 1 / (v + 1), Ratio: 1 / (v + 1)})

	for _, leaf := range []int{first, second} {
		mean, variance := b.Marginal(leaf)
		fmt.Printf("%.3f ± %.3f\n", mean, variance)
	}
	fmt.Printf("intercept %.3f\n", b.Mean[0])
	// Output:
	// 0.167 ± 0.917
	// 0.000 ± 1.000
	// intercept 1.667
}

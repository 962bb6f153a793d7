package gauss_test

import (
	"fmt"

	"github.com/bglm/bglm/kernels/gauss"
)

// Two posteriors under one prior, which counts once.
func ExampleProduct() {
	prior := gauss.NewDiagonal([]float64{0}, []float64{1})
	a := gauss.NewDiagonal([]float64{1}, []float64{0.5})
	b := gauss.NewDiagonal([]float64{2}, []float64{0.25})
	post, _, err := gauss.Product(prior, []*gauss.Normal{a, b})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("N(%.2f, %.2f)\n", post.Mean[0], post.Diag()[0])
	// Output:
	// N(2.00, 0.20)
}

package design_test

import (
	"fmt"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
)

// The columns of a problem, times weights.
func ExampleColumns() {
	x := dense.New(2, 3)
	copy(x.Data, []float64{1, 0, 2, 0, 3, 0})
	c := design.Dense(x)
	eta := make([]float64, 2)
	c.Mul(eta, []float64{1, 1, 1})
	fmt.Println(eta)
	// Output:
	// [3 3]
}

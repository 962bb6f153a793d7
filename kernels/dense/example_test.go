package dense_test

import (
	"fmt"

	"github.com/bglm/bglm/kernels/dense"
)

// Normal equations by Cholesky's factor.
func Example() {
	x := dense.New(3, 2)
	copy(x.Data, []float64{1, 0, 1, 1, 1, 2})
	g := dense.New(2, 2)
	dense.Gram(g, x, nil) // xᵀx
	b := make([]float64, 2)
	dense.GemvT(b, x, []float64{1, 3, 5})
	if err := dense.Cholesky(g); err != nil {
		fmt.Println(err)
		return
	}
	dense.SolveLowerVec(g, b)
	dense.SolveLowerTVec(g, b)
	fmt.Printf("%.3f\n", b)
	// Output:
	// [1.000 2.000]
}

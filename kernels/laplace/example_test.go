package laplace_test

import (
	"context"
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/laplace"
)

// The most probable weights and the curvature there.
func Example() {
	r, err := kernels.NewRows(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var b kernels.Batch
	for i, x := range []float64{-2, -1, 0, 1, 2, 3} {
		id, _ := r.Dict.Add("x")
		b.Add(0, 1) // the intercept
		b.Add(id, x)
		b.EndRow()
		b.Y = append(b.Y, []float64{0, 0, 1, 0, 1, 1}[i])
	}
	if err := r.Update(&b, false); err != nil {
		fmt.Println(err)
		return
	}
	p, err := r.Problem()
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := laplace.Fit(context.Background(), p)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, b := range f.Beliefs {
		fmt.Printf("%-11s  %6.3f ± %.3f\n", b.Feature, b.Mean, math.Sqrt(b.Variance))
	}
	fmt.Println(f.Status)
	// Output:
	// (Intercept)  -0.349 ± 0.953
	// x             0.762 ± 0.544
	// ok
}

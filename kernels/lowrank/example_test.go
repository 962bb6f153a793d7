package lowrank_test

import (
	"context"
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lowrank"
)

// The posterior of a model whose data are projected on their leading directions.
func Example() {
	r, err := kernels.NewRows(&kernels.Model{Options: kernels.Options{Rank: 2}})
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
	result, err := lowrank.Fit(context.Background(), p)
	if err != nil {
		fmt.Println(err)
		return
	}
	f := result.Fit
	for _, b := range f.Beliefs {
		fmt.Printf("%-11s  %6.3f ± %.3f\n", b.Feature, b.Mean, math.Sqrt(b.Variance))
	}
	// Output:
	// (Intercept)  -0.349 ± 0.953
	// x             0.762 ± 0.544
}

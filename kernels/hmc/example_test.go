package hmc_test

import (
	"context"
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/hmc"
)

// The posterior by Hamiltonian Monte Carlo; Status tells how well the chains mix.
func Example() {
	r, err := kernels.NewRows(&kernels.Model{Options: kernels.Options{Seed: 1, Samples: 4000, Warmup: 500, Chains: 2}})
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
	f, err := hmc.Fit(context.Background(), p)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, b := range f.Beliefs {
		fmt.Printf("%-11s  %.1f ± %.1f\n", b.Feature, b.Mean, math.Sqrt(b.Variance))
	}
	// Output:
	// (Intercept)  -0.4 ± 1.1
	// x            1.0 ± 0.6
}

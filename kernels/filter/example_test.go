package filter_test

import (
	"context"
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/filter"
)

// An extended Kalman filter keeps the covariance of all weights.
func Example() {
	ctx := context.Background()
	s, err := filter.New(nil, filter.EKF{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var b kernels.Batch
	for i, x := range []float64{-1, 0, 1, 2} {
		id, _ := s.Features().Add("x")
		b.Add(0, 1) // the intercept
		b.Add(id, x)
		b.EndRow()
		b.Y = append(b.Y, float64(i/2))
	}
	if err := s.Update(ctx, &b, false); err != nil {
		fmt.Println(err)
		return
	}
	f, err := s.Fit(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, b := range f.Beliefs {
		fmt.Printf("%-11s  N(%.3f, %.3f)\n", b.Feature, b.Mean, b.Variance)
	}
	fmt.Println(f.Covariance.Form, "covariance")
	// Output:
	// (Intercept)  N(-0.096, 1.266)
	// x            N(0.981, 0.499)
	// full covariance
}

package kernels_test

import (
	"context"
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
)

// The zero Model is logistic regression under the default prior, and a zero Batch takes
// rows.
func Example() {
	s, err := adf.New(&kernels.Model{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var b kernels.Batch
	for i, site := range []string{"a", "b", "a", "b"} {
		id, _ := s.Features().Add("site=" + site)
		b.Add(0, 1) // the intercept
		b.Add(id, 1)
		b.EndRow()
		b.Y = append(b.Y, float64(i%2))
	}
	if err := s.Update(context.Background(), &b, false); err != nil {
		fmt.Println(err)
		return
	}
	f, err := s.Fit(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, b := range f.Beliefs {
		fmt.Printf("%-11s  N(%.3f, %.3f)\n", b.Feature, b.Mean, b.Variance)
	}
	// Output:
	// (Intercept)  N(0.035, 1.715)
	// site=a       N(-0.493, 0.873)
	// site=b       N(0.749, 0.831)
}

// A zero variance stands for the default; one that is meant is said to be known.
func ExamplePrior() {
	fmt.Println(kernels.Prior{}.Of([]byte("x")), kernels.Prior{Variance: 4}.Of([]byte("x")), kernels.Prior{Known: true}.Of([]byte("x")))
	// Output:
	// {0 1} {0 4} {0 0}
}

// Posteriors of parts of the rows come together, their common prior counted once.
func ExampleMergeFits() {
	part := func(mean, variance float64) *kernels.Fit {
		f, err := kernels.FromBeliefs([]kernels.Belief{{Feature: "x", Weight: kernels.Weight{Mean: mean, Variance: variance}}}, &kernels.Model{NoIntercept: true})
		if err != nil {
			panic(err)
		}
		return f
	}
	f, err := kernels.MergeFits(context.Background(), []*kernels.Fit{part(1, 0.5), part(2, 0.25)}, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%+v\n", f.Beliefs)
	// Output:
	// [{Feature:x Weight:{Mean:2 Variance:0.2}}]
}

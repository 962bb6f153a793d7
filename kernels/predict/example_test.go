package predict_test

import (
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/predict"
)

// A belief table predicts named features; one that it does not have has its prior.
func Example() {
	f, err := kernels.FromBeliefs([]kernels.Belief{
		{Feature: kernels.Intercept, Weight: kernels.Weight{Mean: -1, Variance: 0.1}},
		{Feature: "site=a", Weight: kernels.Weight{Mean: 2, Variance: 0.3}}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := predict.New(f)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, site := range []string{"site=a", "site=new"} {
		row, _ := s.Row([]string{site}, []float64{1}, 0)
		d, err := s.Dist(row, 0, 0.9)
		fmt.Printf("%-8s  %.3f, 90 %% in %.3f to %.3f %v\n", site, d.Mean, d.Lower, d.Upper, err)
	}
	// Output:
	// site=a    0.715, 90 % in 0.490 to 0.885 <nil>
	// site=new  0.306, 90 % in 0.062 to 0.674 <nil>
}

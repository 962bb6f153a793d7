package lik_test

import (
	"fmt"

	"github.com/bglm/bglm/kernels/lik"
)

// A yes under a linear predictor N(0, 4): its evidence, and the moments of what is known
// of the predictor then.
func Example() {
	l, err := lik.New("bernoulli", "probit", lik.Params{})
	if err != nil {
		fmt.Println(err)
		return
	}
	m, v := 0.0, 4.0
	t := l.Moments(lik.Obs{Y: 1, Weight: 1}, m, v)
	fmt.Printf("log Z %.4f, mean %.4f, variance %.4f\n", t.LogZ, m+v*t.Alpha, v*t.Ratio)
	// Output:
	// log Z -0.6931, mean 1.4273, variance 1.9628
}

func ExampleFamilies() {
	f := lik.Families()[0]
	fmt.Printf("%s: y is %s, the default link %s\n", f.Family, f.Response, f.Links[0])
	// Output:
	// bernoulli: y is 0 or 1, the default link logit
}

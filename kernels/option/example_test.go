package option_test

import (
	"fmt"
	"maps"

	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
)

// Options by name, as in SQL, become the model of a method.
func ExampleSpecs_Decode() {
	s, err := option.For("laplace").Decode(maps.All(map[string]option.Source{
		"link": option.Go("probit"), "prior_variance": option.Go("auto"), "max_iter": option.Go(20)}))
	if err != nil {
		fmt.Println(err)
		return
	}
	method, _ := engine.Find("laplace")
	m, err := method.Model(s, false, false)
	fmt.Println(m.Lik.Family(), m.Lik.Link(), m.Options.AutoPrior, m.Options.MaxIter, err)
	// Output: bernoulli probit true 20 <nil>
}

// The same structs can be filled in directly; Model validates them.
func ExampleDefaults() {
	s := option.Defaults()
	s.Link = "probit"
	s.Options.Rank = 20_000
	method, _ := engine.Find("lowrank")
	_, err := method.Model(s, false, false)
	fmt.Println(err)
	// Output: rank: found 20000; allowed: a whole number from 1 to 10000
}

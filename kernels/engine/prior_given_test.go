package engine_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
)

// A prior set in Go is taken as it is, even if it is the default one, as numbers among options are.
func TestDefaultPriorGiven(t *testing.T) {
	starts := []*kernels.Fit{nil, {Family: "bernoulli", Link: "logit", Method: "laplace", Dispersion: 1, Intercept: true, N: 1,
		Prior: kernels.Prior{Variance: 2, InterceptVariance: 3}, Beliefs: []kernels.Belief{{Feature: kernels.Intercept, Weight: kernels.Weight{Variance: 3}}}}}
	for _, m := range engine.Methods() {
		specs := option.For(m.Name)
		if _, err := specs.Find("prior_variance"); err != nil {
			continue
		}
		for _, c := range []struct {
			prior   kernels.Prior
			options string
		}{
			{kernels.Prior{}, `{}`},
			{kernels.Prior{Variance: 1}, `{"prior_variance": 1}`},
			{kernels.Prior{InterceptVariance: 10}, `{"intercept_variance": 10}`},
			{kernels.DefaultPrior, `{"prior_variance": 1, "intercept_variance": 10}`},
			{kernels.Prior{Mean: 2}, `{"prior_mean": 2}`},
			{kernels.Prior{InterceptVariance: 5}.Literal(), `{"prior_variance": 0, "intercept_variance": 5}`},
		} {
			for _, start := range starts {
				var given map[string]json.RawMessage
				if err := json.Unmarshal([]byte(c.options), &given); err != nil {
					t.Fatal(err)
				}
				read, err := specs.Decode(func(yield func(string, option.Source) bool) {
					for key, v := range given {
						if !yield(key, option.JSON(v, "JSON")) {
							return
						}
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				show := func(s *option.Settings) string {
					s.Start = start
					p, err := m.Model(s, false, false)
					if err != nil {
						return err.Error()
					}
					return fmt.Sprintf("%+v %+v", p.Prior, p.Options)
				}
				want := show(read)
				zero, defaults := &option.Settings{}, option.Defaults()
				zero.Prior, defaults.Prior = c.prior, c.prior
				for name, s := range map[string]*option.Settings{"Settings{}": zero, "Defaults()": defaults} {
					if got := show(s); got != want {
						t.Errorf("%s: %s with %+v, continued %v:\n%s\nthe options %s give\n%s", m.Name, name, c.prior, start != nil, got, c.options, want)
					}
				}
			}
		}
	}
}

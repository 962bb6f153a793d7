package engine_test

import (
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/filter"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/score"
)

// A model whose likelihood, intercept or hashing is not that of the fit it goes on from is an error:
// its features and weights would be others.
func TestOtherStart(t *testing.T) {
	start, err := kernels.FromBeliefs([]kernels.Belief{{Feature: "a", Weight: kernels.Weight{Mean: 1, Variance: 1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	poisson, err := lik.New("poisson", "", lik.Params{})
	if err != nil {
		t.Fatal(err)
	}
	for want, m := range map[string]*kernels.Model{
		`family and link = "poisson log", but the fit in Start has "bernoulli logit"`: {Start: start, Lik: poisson},
		"intercept = false, but the fit in Start has true":                            {Start: start, NoIntercept: true},
		"hash bits = 4, but the fit in Start has 0":                                   {Start: start, HashBits: 4},
		"": {Start: start},
	} {
		for method, begin := range map[string]func() error{
			"rows":    func() error { _, err := kernels.NewRows(m); return err },
			"stream":  func() error { _, err := filter.New(m, filter.ADF{}); return err },
			"updater": func() error { _, err := score.NewUpdater(m, score.Publishing{}); return err },
		} {
			if err := begin(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", method, err, want)
			}
		}
	}
}

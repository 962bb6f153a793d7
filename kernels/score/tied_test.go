package score_test

import (
	"math"
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/score"
)

// Levels never seen of columns that are correlated have their joint prior, as in package predict,
// under a diagonal and a joint covariance.
func TestCorrelated(t *testing.T) {
	nan := math.NaN()
	column := func(name string, variance float64) kernels.FitColumn {
		return kernels.FitColumn{Name: name, Kind: kernels.LevelsColumn, Center: nan, Scale: nan, Variance: variance}
	}
	f := kernels.Fit{
		Family: "gaussian", Link: "identity", Dispersion: 1, Shape: nan, Intercept: true, Prior: kernels.DefaultPrior,
		Beliefs:      []kernels.Belief{{Feature: kernels.Intercept, Weight: kernels.Weight{Mean: 1, Variance: 0.25}}},
		Columns:      []kernels.FitColumn{column("g", 4), column("h", 1)},
		Correlations: []kernels.Correlation{{A: "g", B: "h", Covariance: -1.2}},
	}
	full := f
	full.Covariance = kernels.Covariance{Form: gauss.Full, Values: []float64{0.5}}
	for _, f := range []*kernels.Fit{&f, &full} {
		s, err := score.New(f)
		if err != nil {
			t.Fatal(err)
		}
		p, err := predict.New(f)
		if err != nil {
			t.Fatal(err)
		}
		names := []string{"g=n", "h=n"}
		b, err := p.Row(names, []float64{1, 1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		m, v, err := p.Linear(b, 0)
		if err != nil || math.Abs(v-(0.25+4+1-2*1.2)) > 1e-14 {
			t.Fatal(m, v, err)
		}
		for range 2 { // what it keeps of a row is not the next one's
			if mean, variance, err := s.Linear(score.Row{Names: slices.Clone(names)}); err != nil || mean != m || variance != v {
				t.Errorf("%v: N(%v, %v) %v, package predict has N(%v, %v)", f.Covariance.Form, mean, variance, err, m, v)
			}
		}
	}
}

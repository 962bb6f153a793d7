package softmax

import (
	"math"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/predict"
)

// An offset is no part of the weights: factors of predictions leave it as it is.
func TestPredictiveOffset(t *testing.T) {
	nan := math.NaN()
	f := &kernels.Fit{Family: "categorical", Link: "softmax", Dispersion: 1, Shape: nan, Time: nan, Prior: kernels.DefaultPrior, Classes: []string{"a", "b", "c"}}
	for _, w := range []kernels.Weight{{Mean: 2, Variance: 1}, {Mean: -1, Variance: 3}, {}} { // c is the reference
		f.Beliefs = append(f.Beliefs, kernels.Belief{Feature: "x", Weight: w})
	}
	f.Keep(kernels.KeptPredictive, 0.5, 0.2)
	var p [2][3]float64
	var contrasts [2][]Contrast
	for k, of := range []*kernels.Fit{f, f.ForPrediction()} {
		s, err := NewScorer(of)
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Row([]string{"x"}, []float64{1}, 0.7)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Predict(p[k][:], b, 0, predict.Exact); err != nil {
			t.Fatal(err)
		}
		pair := &kernels.Batch{}
		pair.Reset()
		x := b.Feature[0]
		for _, r := range [][2]float64{{1, 0.7}, {0.4, -0.2}} {
			pair.Add(x, r[0])
			pair.EndRow()
			pair.Offset, pair.Y = append(pair.Offset, r[1]), append(pair.Y, 0)
		}
		if contrasts[k], err = s.Contrasts(pair, 0, 1, 0.9); err != nil {
			t.Fatal(err)
		}
	}
	for c := range p[0] {
		if math.Abs(p[0][c]-p[1][c]) > 1e-12 {
			t.Errorf("class %s: %v, by the beliefs that predict %v", f.Classes[c], p[0][c], p[1][c])
		}
		if a, b := contrasts[0][c].Response, contrasts[1][c].Response; math.Abs(a.Mean-b.Mean) > 1e-12 || math.Abs(a.SD-b.SD) > 1e-12 {
			t.Errorf("contrast of class %s: %v, by the beliefs that predict %v", f.Classes[c], a, b)
		}
	}
}

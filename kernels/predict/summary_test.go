package predict_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/predict"
)

// Whatever mean and deviation a stored fit gives what it learnt, the summary ends with an interval
// around numbers.
func TestSummaryOfExtremes(t *testing.T) {
	numbers := []float64{5e-324, 1e-320, 1e-300, 1e-160, 1e-100, 1e-30, 1e-9, 1e-7, 1e-6, 1e-3, 0.3, 1, 40, 1e6, 1e7, 1e12, 1e100, 1e160, 1e200, 1e300, 1e307}
	for _, mean := range numbers {
		for _, sd := range numbers {
			f, err := kernels.FromBeliefs(nil, &kernels.Model{})
			if err != nil {
				t.Fatal(err)
			}
			nan := math.NaN()
			f.Columns = []kernels.FitColumn{{Name: "a", Kind: kernels.LevelsColumn, Center: mean, Scale: sd, Variance: 1}, {Name: "b", Kind: kernels.LevelsColumn, Center: nan, Scale: nan, Variance: 1}}
			f.Correlations = []kernels.Correlation{{A: "a", B: "b", Mean: math.Min(mean, 1), SD: sd}, {A: "b", B: "a", Mean: -math.Min(mean, 1), SD: sd}}
			f.Learnt = []kernels.Learnt{{Name: kernels.LearntDeviation, Mean: mean, SD: sd}, {Name: kernels.LearntShape, Mean: mean, SD: sd}}
			terms, err := predict.Summary(f, 0.95, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range terms {
				if of := fmt.Sprintf("%s of mean %v, sd %v", s.Term, mean, sd); s.Term != "(Intercept)" && !(s.Lower <= s.Upper && s.Positive >= 0 && s.Positive <= 1) {
					t.Errorf("%s: %v to %v, positive %v", of, s.Lower, s.Upper, s.Positive)
				} else if sd < 1e-3*mean && s.SD > 0 && s.Term != "(Intercept)" && !(math.Abs(s.Lower-(s.Mean-1.96*sd)) <= 0.01*sd+1e-15*mean && math.Abs(s.Upper-(s.Mean+1.96*sd)) <= 0.01*sd+1e-15*mean) {
					t.Errorf("%s: %v to %v", of, s.Lower, s.Upper)
				}
			}
		}
	}
}

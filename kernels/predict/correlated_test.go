package predict

import (
	"fmt"
	"math"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// Levels never seen of columns that are correlated: the predictor has the variance of their
// joint prior, and draws its moments, however interactions write the level.
func TestCorrelated(t *testing.T) {
	nan := math.NaN()
	column := func(name string, variance float64) kernels.FitColumn {
		return kernels.FitColumn{Name: name, Kind: kernels.LevelsColumn, Center: nan, Scale: nan, Variance: variance}
	}
	f := &kernels.Fit{
		Family: "gaussian", Link: "identity", Dispersion: 1, Shape: nan, Intercept: true, Prior: kernels.DefaultPrior,
		Beliefs:      []kernels.Belief{{Feature: kernels.Intercept, Weight: kernels.Weight{Mean: 1, Variance: 0.25}}},
		Columns:      []kernels.FitColumn{column("g", 4), column("x:g", 1), column("z:g", 0.25)},
		Correlations: []kernels.Correlation{{A: "g", B: "x:g", Covariance: -1.2}, {A: "g", B: "z:g", Covariance: 0.3}, {A: "x:g", B: "z:g", Covariance: -0.2}},
	}
	if err := f.Validate(); err != nil {
		t.Fatal(err)
	}
	s, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	row := func(names []string, xs []float64) *kernels.Batch {
		var b kernels.Batch
		b.Reset()
		for k, name := range names {
			id, err := s.Features().AddRaw(name)
			if err != nil {
				t.Fatal(err)
			}
			b.Add(id, xs[k])
		}
		b.EndRow()
		return &b
	}
	for _, c := range []struct {
		names []string
		want  float64 // with entries 1, 2, -3 after the intercept
	}{
		{[]string{"g=n", "x:g=n", "z:g=n"}, 4 + 4 + 9*0.25 + 2*(2*-1.2-3*0.3-6*-0.2)},
		{[]string{"g=a:b", `x:g=a\:b`, `z:g=a\:b`}, 4 + 4 + 9*0.25 + 2*(2*-1.2-3*0.3-6*-0.2)},
		{[]string{"g=n", "x:g=m", "z:g=m"}, 4 + 4 + 9*0.25 + 2*-6*-0.2},
		{[]string{"g IS NULL", "x:g=m", "z:g IS NULL"}, 4 + 4 + 9*0.25 + 2*-3*0.3},
	} {
		b := row(append([]string{kernels.Intercept}, c.names...), []float64{1, 1, 2, -3})
		m, v, err := s.Linear(b, 0)
		if err != nil || m != 1 {
			t.Fatal(m, err)
		}
		kerneltest.Close(t, fmt.Sprint(c.names), v, 0.25+c.want, kerneltest.Tol{Rel: 1e-14})
		d, err := s.NewDraw()
		if err != nil {
			t.Fatal(err)
		}
		const n = 20000
		sum, square := 0.0, 0.0
		for k := range uint64(n) {
			d.Set(7, k)
			x, err := d.Linear(b, 0)
			if err != nil {
				t.Fatal(err)
			}
			sum, square = sum+x-1, square+(x-1)*(x-1)
		}
		kerneltest.Close(t, fmt.Sprint("mean of draws of ", c.names), sum/n, 0, kerneltest.Tol{Abs: 4 * math.Sqrt(v/n)})
		kerneltest.Close(t, fmt.Sprint("variance of draws of ", c.names), square/n/v, 1, kerneltest.Tol{Abs: 4 * math.Sqrt(2.0/n)})
	}
}

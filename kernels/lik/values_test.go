package lik

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// valuesOf sums n rows of codes whose residuals have effects of that standard deviation.
func valuesOf(rnd *rand.Rand, n, codes int, sd float64) *Values {
	own := make([]float64, codes)
	for k := range own {
		own[k] = sd * rnd.NormFloat64()
	}
	v := &Values{}
	for range n {
		k := rnd.IntN(codes)
		v.Add(1e4+431*float64(k), own[k]+rnd.NormFloat64())
	}
	return v
}

// TestValuesShare: the share is that of a one-way analysis of variance, by definition, less its
// expectation.
func TestValuesShare(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 9))
	var v Values
	by := map[int][]float64{}
	var all []float64
	for range 300 {
		k := rnd.IntN(17)
		r := float64(k%3) + rnd.NormFloat64()
		v.Add(float64(k), r)
		by[k], all = append(by[k], r), append(all, r)
	}
	between, mean := 0.0, stat.Mean(all, nil)
	for _, r := range by {
		d := stat.Mean(r, nil) - mean
		between += float64(len(r)) * d * d
	}
	want := between / (stat.PopVariance(all, nil) * float64(len(all)))
	share, part, freedom := v.Share()
	kerneltest.Close(t, "part", part, want, kerneltest.Tol{Abs: 1e-12})
	kerneltest.Close(t, "share", share, want-16./300, kerneltest.Tol{Abs: 1e-12})
	kerneltest.Close(t, "freedom", freedom, 16, kerneltest.Tol{})
}

// TestValuesClear: codes with effects of half a standard deviation are found, of 0.2 of the variance, and
// those without any are not, nor are numbers that hardly repeat.
func TestValuesClear(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 9))
	for range 200 {
		test := ShareTest{Freedom: 2000, Tests: 10}
		if share := valuesOf(rnd, 2000, 200, 0.5).Clear(test); share < 0.1 || share > 0.3 {
			t.Errorf("codes: share %.3g", share)
		}
		if share := valuesOf(rnd, 2000, 200, 0).Clear(test); share > 0 {
			t.Errorf("no codes: share %.3g", share)
		}
		if share := valuesOf(rnd, 2000, 1000, 2).Clear(test); share > 0 {
			t.Errorf("two rows a value: share %.3g", share)
		}
	}
}

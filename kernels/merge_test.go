package kernels_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/stop"
)

func fitOf(t *testing.T, names string, mean []float64, cov [][]float64) *kernels.Fit {
	t.Helper()
	f := &kernels.Fit{Family: "bernoulli", Link: "logit", Dispersion: 1, Shape: math.NaN(), Prior: kernels.Prior{Mean: 0.5, Variance: 2, InterceptVariance: 2},
		Time: math.NaN(), N: 10, LogEvidence: -3}
	for k, n := range strings.Split(names, "") {
		f.Beliefs = append(f.Beliefs, kernels.Belief{Feature: n, Weight: kernels.Weight{Mean: mean[k], Variance: cov[k][k]}})
	}
	if err := f.SetCovariance(f.Beliefs, cov); err != nil {
		t.Fatal(err)
	}
	return f
}

// Precisions add up over the union of the features, the prior counted once.
func TestMergeFits(t *testing.T) {
	a := fitOf(t, "ab", []float64{1, -1}, [][]float64{{1, 0.3}, {0.3, 0.5}})
	b := fitOf(t, "bc", []float64{0, 2}, [][]float64{{0.8, -0.2}, {-0.2, 1.5}})
	got, err := kernels.MergeFits(t.Context(), []*kernels.Fit{a, b}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	// By hand, over a, b, c with prior N(0.5, 2).
	lam := dense.New(3, 3)
	nu := make([]float64, 3)
	for i := range 3 {
		lam.Set(i, i, 0.5)
	}
	for at, f := range map[int]struct {
		mean [2]float64
		cov  [3]float64 // 11, 12, 22
	}{0: {[2]float64{1, -1}, [3]float64{1, 0.3, 0.5}}, 1: {[2]float64{0, 2}, [3]float64{0.8, -0.2, 1.5}}} {
		det := f.cov[0]*f.cov[2] - f.cov[1]*f.cov[1]
		p := [2][2]float64{{f.cov[2] / det, -f.cov[1] / det}, {-f.cov[1] / det, f.cov[0] / det}}
		for i := range 2 {
			for j := range 2 {
				lam.Set(at+i, at+j, lam.At(at+i, at+j)+p[i][j])
				nu[at+i] += p[i][j] * (f.mean[j] - 0.5)
			}
			lam.Set(at+i, at+i, lam.At(at+i, at+i)-0.5)
		}
	}
	if err := dense.Cholesky(lam); err != nil {
		t.Fatal(err)
	}
	cov := dense.New(3, 3)
	dense.InverseFromCholesky(cov, lam)
	tol := kerneltest.Tol{Rel: 1e-13, Abs: 1e-14}
	for i, name := range []string{"a", "b", "c"} {
		if got.Beliefs[i].Feature != name {
			t.Fatalf("belief %d is %q", i, got.Beliefs[i].Feature)
		}
		kerneltest.Close(t, name+" mean", got.Beliefs[i].Mean, 0.5+dense.Dot(cov.Row(i), nu), tol)
		kerneltest.Close(t, name+" variance", got.Beliefs[i].Variance, cov.At(i, i), tol)
		for j := range 3 { // xᵀΣx of pairs gives every entry
			v := got.Covariance.Variance([]int{i, j}, []float64{1, 1}, nil)
			kerneltest.Close(t, "covariance", v, cov.At(i, i)+cov.At(j, j)+2*cov.At(i, j), tol)
		}
	}
	if got.N != 20 || got.Method != "merge" {
		t.Errorf("n = %d, method %s", got.N, got.Method)
	}
	b.Prior.Variance = 3
	if _, err := kernels.MergeFits(t.Context(), []*kernels.Fit{a, b}, nil, nil); err == nil || !strings.Contains(err.Error(), "prior.variance") {
		t.Errorf("fits of two priors: %v", err)
	}
}

// One part gives the part back; a start that both share counts once.
func TestMergeOne(t *testing.T) {
	a := fitOf(t, "ab", []float64{1, -1}, [][]float64{{1, 0.3}, {0.3, 0.5}})
	tol := kerneltest.Tol{Rel: 1e-12}
	for _, from := range []*kernels.Fit{nil, a} {
		parts := []*kernels.Fit{a}
		if from != nil {
			parts = []*kernels.Fit{a, a, a}
		}
		got, err := kernels.MergeFits(t.Context(), parts, from, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range a.Beliefs {
			kerneltest.Close(t, "mean", got.Beliefs[i].Mean, b.Mean, tol)
			kerneltest.Close(t, "variance", got.Beliefs[i].Variance, b.Variance, tol)
		}
		kerneltest.Close(t, "covariance", got.Covariance.Variance([]int{0, 1}, []float64{1, -1}, nil), 0.9, tol)
		kerneltest.Close(t, "evidence", got.LogEvidence, -3, tol)
		if got.N != 10 {
			t.Errorf("n = %d", got.N)
		}
	}
}

// A product of full covariances ends when ctx does.
func TestMergeInterrupted(t *testing.T) {
	const p = 900
	names := make([]rune, p)
	cov := make([][]float64, p)
	for i := range cov {
		names[i] = rune(0x4e00 + i)
		cov[i] = make([]float64, p)
		cov[i][i] = 0.5
	}
	a := fitOf(t, string(names), make([]float64, p), cov)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	parts := []*kernels.Fit{a, a, a, a, a, a, a, a}
	if _, err := kernels.MergeFits(ctx, parts, nil, nil); !errors.Is(err, stop.ErrInterrupted) {
		t.Errorf("went on: %v", err)
	}
}

// Priors that are one to rounding are one; a product that has no digits, for a part knows the sum
// of two weights to 1e-10 of what the prior says of each, says why.
func TestMergePerfect(t *testing.T) {
	a := &kernels.Fit{Family: "gaussian", Link: "identity", Dispersion: 1e-6, Shape: math.NaN(), N: 10, Time: math.NaN(),
		Prior:      kernels.Prior{Variance: 1e14, InterceptVariance: 1e14},
		Beliefs:    []kernels.Belief{{Feature: "a", Weight: kernels.Weight{Variance: 1e14}}, {Feature: "b", Weight: kernels.Weight{Variance: 1e14}}},
		Covariance: kernels.Covariance{Form: gauss.Full, Values: []float64{1e7, -1e7, 1e-3}}}
	b := *a
	b.Prior.Variance, b.Prior.InterceptVariance = math.Nextafter(1e14, 1), math.Nextafter(1e14, 1e15)
	_, err := kernels.MergeFits(t.Context(), []*kernels.Fit{a, &b}, nil, nil)
	if !errors.Is(err, kernels.ErrPerfect) || errors.Is(err, kernels.ErrImproper) || !strings.Contains(err.Error(), "option dispersion") {
		t.Errorf("error %v", err)
	}
	a.Dispersion = 1e13 // no perfect fit: the parts are to blame
	b.Dispersion = 1e13
	if _, err := kernels.MergeFits(t.Context(), []*kernels.Fit{a, &b}, nil, nil); !errors.Is(err, kernels.ErrImproper) {
		t.Errorf("error %v", err)
	}
	b.Prior.Variance *= 1 + 1e-9
	if _, err := kernels.MergeFits(t.Context(), []*kernels.Fit{a, &b}, nil, nil); err == nil || !strings.Contains(err.Error(), "differ in prior.variance") {
		t.Errorf("error %v", err)
	}
	// Parts whose responses' spreads differ by a rounding have one prior.
	c := fitOf(t, "ab", []float64{1, -1}, [][]float64{{1, 0.3}, {0.3, 0.5}})
	d := *c
	d.Prior.Variance = math.Nextafter(c.Prior.Variance, 3)
	if _, err := kernels.MergeFits(t.Context(), []*kernels.Fit{c, &d}, nil, nil); err != nil {
		t.Error(err)
	}
}

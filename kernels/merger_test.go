package kernels_test

import (
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
)

func beliefsOf(f *kernels.Fit) iter.Seq2[kernels.Belief, error] {
	return func(yield func(kernels.Belief, error) bool) {
		for _, b := range f.Beliefs {
			if !yield(b, nil) {
				return
			}
		}
	}
}

func diagonalFit(names string, mean, variance float64) *kernels.Fit {
	f := &kernels.Fit{Family: "bernoulli", Link: "logit", Dispersion: 1, Shape: math.NaN(), Prior: kernels.Prior{Mean: 0.5, Variance: 2, InterceptVariance: 2},
		Time: math.NaN(), N: 10, LogEvidence: -3, Status: "ok"}
	for k, n := range strings.Split(names, "") {
		f.Beliefs = append(f.Beliefs, kernels.Belief{Feature: n, Weight: kernels.Weight{Mean: mean + float64(k)/4, Variance: variance}})
	}
	return f
}

// A merger gives what MergeFits gives, whatever the order and the cut of the parts.
func TestMerger(t *testing.T) {
	parts := []*kernels.Fit{diagonalFit("ab", 0.1, 0.5), diagonalFit("bcd", -0.2, 1), diagonalFit("ad", 0.3, 0.7), diagonalFit("e", 1, 0.2)}
	joint := fitOf(t, "bc", []float64{0, 2}, [][]float64{{0.8, -0.2}, {-0.2, 1.5}})
	from := diagonalFit("ac", 0.4, 1.5)
	from.N, from.LogEvidence = 2, -1
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		parts []*kernels.Fit
		from  *kernels.Fit
	}{{parts, nil}, {parts, from}, {append(parts[:2:2], joint), nil}, {[]*kernels.Fit{joint, joint}, nil}} {
		want, err := kernels.MergeFits(t.Context(), c.parts, c.from, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			ms := make([]*kernels.Merger, 2)
			for _, k := range rnd.Perm(len(c.parts)) {
				f, i := c.parts[k], rnd.IntN(2)
				if ms[i] == nil {
					if ms[i], err = kernels.NewMerger(f, c.from); err != nil {
						t.Fatal(err)
					}
				}
				if ms[i].Joint(f) {
					err = ms[i].AddJoint(f)
				} else {
					err = ms[i].Add(f, beliefsOf(f))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			m := ms[0]
			if m == nil {
				m, ms[1] = ms[1], nil
			}
			m = m.Clone()
			if o := ms[1]; o != nil && m.Size() > 0 {
				if err := m.Merge(o); err != nil {
					t.Fatal(err)
				}
			}
			got, each, err := m.Fit(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			k := 0
			each(func(name []byte, w kernels.Weight) {
				b := want.Beliefs[k]
				if k++; string(name) != b.Feature {
					t.Fatalf("%s at the place of %s", name, b.Feature)
				}
				kerneltest.Close(t, b.Feature+" mean", w.Mean, b.Mean, kerneltest.Tol{Rel: 1e-12, Abs: 1e-13})
				kerneltest.Close(t, b.Feature+" variance", w.Variance, b.Variance, kerneltest.Tol{Rel: 1e-12})
			})
			if k != len(want.Beliefs) || got.N != want.N || got.Method != "merge" || got.Status != "ok" {
				t.Errorf("%+v, want %+v", got, want)
			}
			kerneltest.Close(t, "log evidence", got.LogEvidence, want.LogEvidence, kerneltest.Tol{Rel: 1e-12})
		}
	}
}

func TestMergerErrors(t *testing.T) {
	a, far, wide := diagonalFit("a", 0, 1e-3), diagonalFit("a", 1.5, 1e-3), diagonalFit("a", 0, 9)
	start := func(f, from *kernels.Fit) *kernels.Merger {
		m, err := kernels.NewMerger(f, from)
		if err == nil {
			err = m.Add(f, beliefsOf(f))
		}
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := start(a, nil)
	if err := m.Add(far, beliefsOf(far)); err != nil {
		t.Fatal(err)
	}
	if f, _, err := m.Fit(t.Context(), nil); err != nil || !strings.Contains(f.Status, "disagree about a weight by 34 standard deviations") {
		t.Error(f, err)
	}
	m = start(wide, nil)
	if err := m.Add(wide, beliefsOf(wide)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Fit(t.Context(), nil); !errors.Is(err, kernels.ErrImproper) || !strings.Contains(err.Error(), `feature "a": the product of 2 posteriors`) {
		t.Error(err)
	}
	if _, err := kernels.MergeFits(t.Context(), []*kernels.Fit{wide, wide}, nil, nil); !errors.Is(err, kernels.ErrImproper) {
		t.Error(err)
	}
	from := diagonalFit("a", 1, 1)
	from.N = 0
	if err := start(a, from).Merge(start(a, nil)); !errors.Is(err, kernels.ErrPriors) {
		t.Error(err)
	}
	other := diagonalFit("a", 0, 1)
	other.Link = "probit"
	if err := start(a, nil).Add(other, beliefsOf(other)); err == nil || !strings.Contains(err.Error(), "family or link") {
		t.Error(err)
	}
	for _, known := range []float64{0, 1} {
		k := diagonalFit("a", known, 0)
		if err := start(diagonalFit("a", 0, 0), nil).Add(k, beliefsOf(k)); (err == nil) != (known == 0) {
			t.Error(known, err)
		}
	}
	bad := errors.New("bad")
	if err := m.Add(a, func(yield func(kernels.Belief, error) bool) { yield(kernels.Belief{}, bad) }); !errors.Is(err, bad) {
		t.Error(err)
	}
}

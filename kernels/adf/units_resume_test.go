package adf_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/stream"
)

// continuing is m for rows after those of f.
func continuing(t *testing.T, m *kernels.Model, f *kernels.Fit) *kernels.Model {
	t.Helper()
	next := *m
	next.Start, next.Prior = f, f.Prior.Literal()
	next.Params.Dispersion = f.Dispersion
	var err error
	if next.Lik, err = f.Likelihood(); err != nil {
		t.Fatal(err)
	}
	return &next
}

// sameFit compares beliefs, dispersion, evidence and columns; a tolerance of nothing asks for the
// bits.
func sameFit(t *testing.T, what string, got, want *kernels.Fit, tol kerneltest.Tol) {
	t.Helper()
	sameBeliefs(t, what, got, want, tol)
	kerneltest.Close(t, what+": dispersion", got.Dispersion/want.Dispersion, 1, tol)
	kerneltest.Close(t, what+": log evidence", got.LogEvidence/float64(want.N), want.LogEvidence/float64(want.N), tol)
	if !slices.EqualFunc(got.Columns, want.Columns, func(a, b kernels.FitColumn) bool {
		return fmt.Sprint(a) == fmt.Sprint(b) // NaNs too
	}) {
		t.Errorf("%s: columns %v, want %v", what, got.Columns, want.Columns)
	}
}

func sameBeliefs(t *testing.T, what string, got, want *kernels.Fit, tol kerneltest.Tol) {
	t.Helper()
	for k, w := range want.Beliefs {
		g, sd := got.Beliefs[k], math.Sqrt(w.Variance)
		if tol == (kerneltest.Tol{}) && g != w {
			t.Errorf("%s: %v, want the bits of %v", what, g, w)
		}
		kerneltest.Close(t, what+": mean of "+w.Feature, g.Mean/sd, w.Mean/sd, tol)
		kerneltest.Close(t, what+": variance of "+w.Feature, g.Variance/w.Variance, 1, tol)
	}
}

// wide is rows of p numbers far from unit scale, some of them missing, and gaussian responses.
func wide(t *testing.T, st *stream.State, p, lo, hi int) {
	t.Helper()
	names := []string{}
	for j := range p {
		names = append(names, fmt.Sprintf("x%03d", j))
	}
	d := st.Features()
	d.Use(kernels.NewColumns(nil, names))
	var b kernels.Batch
	b.Reset()
	b.Schema = &kernels.Schema{Names: names, Levels: make([]bool, p)}
	b.Missing = make([]int64, p)
	for i := lo; i < hi; i++ {
		rng := rand.New(rand.NewPCG(uint64(i), 8))
		b.Add(0, 1)
		eta := 0.0
		for j, name := range names {
			id, err := d.AddRaw(name)
			if err != nil {
				t.Fatal(err)
			}
			x := rng.NormFloat64()
			if eta += x * math.Sin(float64(j)); rng.Float64() < 0.03 {
				x = math.NaN()
				b.Missing[j]++
			}
			b.Add(id, float64(j)+3*x)
		}
		b.EndRow()
		if st.Model().Lik.Family() == "gaussian" {
			b.Y = append(b.Y, 700+40*(eta+rng.NormFloat64()))
		} else {
			b.Y = append(b.Y, float64(rng.IntN(2)))
		}
	}
	if err := st.Update(context.Background(), &b, false); err != nil {
		t.Fatal(err)
	}
}

// A run that is stopped and continued is the run that was not, where numbers are missing, are
// more than the block of an arrowhead has room for, or came so long ago that units no longer
// follow them.
func TestUnitsResume(t *testing.T) {
	kerneltest.Slow(t)
	for _, c := range []struct {
		family, covariance string
		p, n               int
		cuts               []int
		tol                kerneltest.Tol
	}{
		{"bernoulli", "diagonal", 3, 300, []int{1, 3, 50, 129}, kerneltest.Tol{}},
		{"bernoulli", "arrowhead", 3, 300, []int{1, 3, 50, 129}, kerneltest.Tol{}},
		{"gaussian", "arrowhead", 3, 300, []int{1, 3, 50, 129}, kerneltest.Tol{}},
		{"gaussian", "diagonal", 3, 300, []int{1, 3, 50, 129}, kerneltest.Tol{Rel: 1e-12, Abs: 1e-12}},
		{"gaussian", "full", 3, 300, []int{1, 3, 50, 129}, kerneltest.Tol{Rel: 1e-12, Abs: 1e-12}},
		{"bernoulli", "arrowhead", 70, 100, []int{1, 3, 50}, kerneltest.Tol{Rel: 1e-12, Abs: 1e-12}}, // leaves are per number as it is
		{"gaussian", "arrowhead", 70, 100, []int{1, 3, 50}, kerneltest.Tol{Rel: 1e-11, Abs: 1e-11}},
		{"bernoulli", "diagonal", 2, 67_000, []int{65_900}, kerneltest.Tol{}},
		{"gaussian", "diagonal", 2, 67_000, []int{65_900}, kerneltest.Tol{Rel: 1e-12, Abs: 1e-12}},
		{"gaussian", "arrowhead", 2, 67_000, []int{65_900}, kerneltest.Tol{Rel: 1e-15}}, // the evidence to rounding: the squares' sum is had from it
		{"gaussian", "full", 2, 67_000, []int{65_900}, kerneltest.Tol{Rel: 1e-10, Abs: 1e-10}},
	} {
		m := unitModel(t, c.family, c.covariance)
		whole := newUnits(t, m)
		wide(t, whole, c.p, 0, c.n)
		want := unitFit(t, whole)
		for _, cut := range c.cuts {
			part := newUnits(t, m)
			wide(t, part, c.p, 0, cut)
			rest := newUnits(t, continuing(t, m, unitFit(t, part)))
			wide(t, rest, c.p, cut, c.n)
			what := fmt.Sprintf("%s, %s, %d numbers, cut at %d", c.family, c.covariance, c.p, cut)
			sameFit(t, what, unitFit(t, rest), want, c.tol)
		}
	}
}

// A weight that is known has no unit, before and after, and a given noise stays as it is given.
func TestUnitsResumeKnown(t *testing.T) {
	for _, covariance := range []string{"arrowhead", "diagonal", "full"} {
		for _, known := range []string{kernels.Intercept, "u", ""} {
			m := unitModel(t, "gaussian", covariance)
			m.Options.AutoDispersion = false
			m.Params.Dispersion = 2
			m.Lik = lik.WithDispersion(m.Lik, m.Params, 2)
			if known != "" {
				m.Priors = []kernels.Belief{{Feature: known, Weight: kernels.Weight{Mean: 0.4}}}
			}
			s := newSample(200, "gaussian", 6)
			a := affine{40, 3, 0, 0.01, 900, 60}
			whole := newUnits(t, m)
			s.feed(t, whole, a, 0, 200)
			want := unitFit(t, whole)
			for _, cut := range []int{1, 3, 50, 64, 129} {
				part := newUnits(t, m)
				s.feed(t, part, a, 0, cut)
				next := continuing(t, m, unitFit(t, part))
				next.Priors = nil
				rest := newUnits(t, next)
				s.feed(t, rest, a, cut, 200)
				got := unitFit(t, rest)
				for k, w := range want.Beliefs {
					if w.Variance == 0 && got.Beliefs[k] != w {
						t.Errorf("%s: %v, want %v", covariance, got.Beliefs[k], w)
						got.Beliefs[k], want.Beliefs[k].Variance = w, 1
					} else if w.Variance == 0 {
						got.Beliefs[k].Variance, want.Beliefs[k].Variance = 1, 1
					}
				}
				sameFit(t, fmt.Sprintf("%s, %q known, cut at %d", covariance, known, cut), got, want, kerneltest.Tol{Rel: 1e-11, Abs: 1e-11})
				for k := range want.Beliefs {
					if want.Beliefs[k].Feature == known {
						want.Beliefs[k].Variance = 0
					}
				}
			}
		}
	}
}

// Parts that go on from one fit come to common units with it: with a Gaussian likelihood of
// given noise their product is the filter of all rows.
func TestUnitsResumeMerge(t *testing.T) {
	for _, covariance := range []string{"arrowhead", "full"} {
		for _, family := range []string{"gaussian", "bernoulli"} {
			m := unitModel(t, family, covariance)
			m.Options.AutoDispersion = false
			s := newSample(256, family, 7)
			for i := range s.g {
				s.g[i] = 0
			}
			a := affine{40, 3, 0, 0.01, 0, 1}
			if family == "gaussian" {
				a.y0, a.y1 = 30, 5
			}
			whole := newUnits(t, m)
			s.feed(t, whole, a, 0, 256)
			want := unitFit(t, whole)
			for _, cut := range []int{1, 5, 13, 50} {
				part := newUnits(t, m)
				s.feed(t, part, a, 0, cut)
				next := continuing(t, m, unitFit(t, part))
				one, two := newUnits(t, next), newUnits(t, next)
				s.feed(t, one, a, cut, 150)
				s.feed(t, two, a, 150, 256)
				if err := one.Merge(context.Background(), two); err != nil {
					t.Fatal(err)
				}
				got := unitFit(t, one)
				tol := kerneltest.Tol{Rel: 1e-8, Abs: 1e-8}
				if family == "bernoulli" {
					tol = kerneltest.Tol{Rel: 0.15, Abs: 0.15}
				}
				for k, w := range want.Beliefs {
					what := fmt.Sprintf("%s, %s, cut at %d: ", family, covariance, cut)
					sd := math.Sqrt(w.Variance)
					kerneltest.Close(t, what+"mean of "+w.Feature, got.Beliefs[k].Mean/sd, w.Mean/sd, tol)
					kerneltest.Close(t, what+"variance of "+w.Feature, got.Beliefs[k].Variance/w.Variance, 1, tol)
				}
			}
		}
	}
}

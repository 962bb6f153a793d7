package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// few is a table of n rows that differ in few ways: a text, a whole number, a
// weight and an offset.
func few(n int, family string, weighted, shifted bool) *rows.Table {
	rnd := rand.New(rand.NewPCG(3, uint64(n)))
	g, u := make([]string, n), make([]float64, n)
	y, w, o, trials := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		g[i], u[i] = fmt.Sprint("g", rnd.IntN(5)), 40+float64(rnd.IntN(4))
		w[i], o[i], trials[i] = 0.5+float64(rnd.IntN(3)), 0.1*float64(rnd.IntN(4)), float64(1+rnd.IntN(4))
		s := -0.3 + 0.4*(u[i]-41.5) + 0.3*float64(len(g[i])*(int(g[i][1])-50))
		if shifted {
			s += o[i]
		}
		p := 1 / (1 + math.Exp(-s))
		switch family {
		case "bernoulli":
			if rnd.Float64() < p {
				y[i] = 1
			}
		case "binomial":
			for range int(trials[i]) {
				if rnd.Float64() < p {
					y[i]++
				}
			}
		case "poisson", "negbinomial":
			for l := math.Exp(-math.Exp(0.5 * s)); rnd.Float64() > l; y[i]++ {
			}
		case "gamma":
			y[i] = math.Exp(s + 0.5*rnd.NormFloat64())
		default:
			y[i] = 100 + s + rnd.NormFloat64()
		}
	}
	t := &rows.Table{X: rows.Fields(rows.Texts("g", g), rows.Numbers("u", u)), Y: rows.Numbers("y", y)}
	if weighted {
		t.Weight = rows.Numbers("w", w)
	}
	if shifted {
		t.Offset = rows.Numbers("o", o)
	}
	if family == "binomial" {
		t.Trials = rows.Numbers("trials", trials)
	}
	return t
}

// A fit from compressed rows is that from all rows, evidence, counts and columns included.
func TestCompress(t *testing.T) {
	for _, c := range []struct {
		family, link string
		set          func(*option.Settings)
	}{
		{"bernoulli", "logit", nil}, {"bernoulli", "probit", nil}, {"bernoulli", "logit", func(s *option.Settings) { s.Options.AutoPrior = true }},
		{"binomial", "logit", nil}, {"binomial", "cloglog", nil}, {"poisson", "log", nil},
		{"poisson", "log", func(s *option.Settings) { s.Options.AutoPrior = true }},
		{"negbinomial", "log", nil}, {"gamma", "log", nil}, {"gaussian", "identity", nil},
		{"gaussian", "identity", func(s *option.Settings) { s.Standardize = kernels.Given(false) }},
		{"studentt", "identity", func(s *option.Settings) { s.Params.Dispersion = 0.65 }},
	} {
		for k := range 4 {
			what := fmt.Sprintf("%s %s, weights %v, offsets %v", c.family, c.link, k&1 > 0, k&2 > 0)
			fit := func(compress bool) *kernels.Fit {
				s := option.Defaults()
				s.Family, s.Link = c.family, c.link
				// Given, about as rows have it, which those kept once do not say: what is learnt ends where a search does.
				s.Params.Shape = map[string]float64{"negbinomial": 1, "gamma": 4, "studentt": 3}[c.family]
				if c.family == "gaussian" {
					s.Params.Dispersion = 1.2
				}
				if c.set != nil {
					c.set(s)
				}
				s.Options.Compress, s.Options.Tol = compress, 1e-11
				f, err := Fit(context.Background(), "laplace", s, few(600, c.family, k&1 > 0, k&2 > 0))
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				return f.Fit
			}
			want, got := fit(false), fit(true)
			tol := 1e-10
			if c.set != nil {
				tol = 1e-7 // of a search for variances, which ends a little elsewhere
			}
			kerneltest.Close(t, what+": log evidence", got.LogEvidence, want.LogEvidence, kerneltest.Tol{Rel: 1e-10})
			if got.N != want.N || len(got.Beliefs) != len(want.Beliefs) || got.Status != want.Status || got.Columns[0].N != want.Columns[0].N {
				t.Errorf("%s: %d rows, status %q, %v; want %d, %q, %v", what, got.N, got.Status, got.Columns[0], want.N, want.Status, want.Columns[0])
			}
			kerneltest.Close(t, what+": center", got.Columns[1].Center, want.Columns[1].Center, kerneltest.Tol{Rel: 1e-12})
			kerneltest.Close(t, what+": scale", got.Columns[1].Scale, want.Columns[1].Scale, kerneltest.Tol{Rel: 1e-11})
			for i, b := range want.Beliefs {
				kerneltest.Close(t, what+": mean of "+b.Feature, got.Beliefs[i].Mean, b.Mean, kerneltest.Tol{Rel: tol, Abs: tol * math.Sqrt(b.Variance)})
				kerneltest.Close(t, what+": variance of "+b.Feature, got.Beliefs[i].Variance, b.Variance, kerneltest.Tol{Rel: tol})
			}
		}
	}
}

// Learnt dispersion and shape come out the same, to where their search ends.
func TestCompressLearns(t *testing.T) {
	for _, family := range []string{"gaussian", "gamma", "negbinomial"} {
		var fits [2]*kernels.Fit
		for k := range fits {
			s := plain(t)
			s.Family, s.Options.Compress = family, k == 1
			f, err := Fit(context.Background(), "laplace", s, few(600, family, false, true))
			if err != nil {
				t.Fatal(err)
			}
			fits[k] = f.Fit
		}
		kerneltest.Close(t, family+": log evidence", fits[1].LogEvidence, fits[0].LogEvidence, kerneltest.Tol{Rel: 1e-5})
		kerneltest.Close(t, family+": dispersion", fits[1].Dispersion, fits[0].Dispersion, kerneltest.Tol{Rel: 1e-2})
	}
}

// Parts that are compressed merge to the whole, with features in another order; a merge does
// not change its source.
func TestCompressMerge(t *testing.T) {
	set := func(s *option.Settings) { s.Options.Compress = true }
	whole, all := door(t, "laplace", set), door(t, "laplace", nil)
	feed(t, whole, 0, 900, 100)
	feed(t, all, 0, 900, 100)
	a, b := door(t, "laplace", set), door(t, "laplace", set)
	feed(t, b, 0, 350, 100)
	feed(t, a, 350, 900, 64)
	before := fitted(t, b.Clone())
	if err := a.Merge(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	want := fitted(t, all)
	for _, f := range []Fitter{whole, a, a.Clone()} {
		if got := fitted(t, f); !same(got, want, 1e-7) || math.Abs(got.LogEvidence-want.LogEvidence) > 1e-8*math.Abs(want.LogEvidence) {
			t.Errorf("%d rows, log evidence %v; want %d, %v", got.N, got.LogEvidence, want.N, want.LogEvidence)
		}
	}
	if !same(fitted(t, b), before, 0) {
		t.Error("the merge changed its source")
	}
}

// What compressing costs is the rows that differ.
func TestCompressSize(t *testing.T) {
	s := option.Defaults()
	s.Options.Compress = true
	m, err := Find("laplace")
	if err != nil {
		t.Fatal(err)
	}
	model, err := m.Model(s, false, false)
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.New(context.Background(), model)
	if err != nil {
		t.Fatal(err)
	}
	tab := few(5000, "bernoulli", false, false)
	src, err := tab.Source()
	if err != nil {
		t.Fatal(err)
	}
	sizes := make([]int64, 2)
	for k := range sizes {
		if _, err := src.Feed(context.Background(), f, model, option.Fail, k*2500, (k+1)*2500, &kernels.Batch{}); err != nil {
			t.Fatal(err)
		}
		sizes[k] = f.Size()
	}
	if sizes[1] > sizes[0] || f.(batch).Rows.Len() != 20 {
		t.Errorf("%d rows kept in %v bytes; want those that differ, 20", f.(batch).Rows.Len(), sizes)
	}
}

// Where rows of equal features are not one, compress is an error that says why.
func TestCompressErrors(t *testing.T) {
	for want, c := range map[string]struct {
		method string
		set    func(*option.Settings)
	}{
		"rows that differ in time": {Auto, func(s *option.Settings) { s.Forgetting = 0.9 }},
		"rank takes":               {"hmc", func(s *option.Settings) { s.Options.Rank = 3 }},
	} {
		s := option.Defaults()
		s.Options.Compress = true
		c.set(s)
		if _, err := Fit(context.Background(), c.method, s, few(40, "bernoulli", false, false)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", c.method, err, want)
		}
	}
}

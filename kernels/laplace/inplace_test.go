package laplace

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// wholeRows is n rows of d numbers in batches of the same features, some of the last column missing.
func wholeRows(t testing.TB, m *kernels.Model, n, d int, missing bool) *kernels.Rows {
	t.Helper()
	r, err := kernels.NewRows(m)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for j := range d {
		names = append(names, fmt.Sprintf("x%02d", j))
	}
	r.Dict.Use(kernels.NewColumns(nil, names))
	schema := &kernels.Schema{Names: names, Levels: make([]bool, d)}
	shared := make([]uint32, d+1) // behind the intercept in an order of their own
	for j, name := range names {
		id, err := r.Dict.Add(name)
		if err != nil {
			t.Fatal(err)
		}
		shared[1+(7*j+2)%d] = id
	}
	rng := rand.New(rand.NewPCG(6, 1))
	for done := 0; done < n; {
		b := &kernels.Batch{Shared: shared, Schema: schema}
		for range min(1777, n-done) {
			b.Value = append(b.Value, 1)
			eta := 0.2
			for j := range d {
				z := rng.NormFloat64()
				eta += z * 0.2 * math.Sin(float64(j))
				if missing && j == d-1 && done%1000 == 0 {
					z = math.NaN()
				}
				b.Value = append(b.Value, 3+z*math.Exp(float64(j%5)))
			}
			y := 0.0
			switch m.Lik.Family() {
			case "bernoulli":
				if rng.NormFloat64() < eta {
					y = 1
				}
			case "poisson", "gamma":
				y = math.Floor(math.Exp(eta)*rng.ExpFloat64()) + 1
			default:
				y = 5 + 2*eta + rng.NormFloat64()
			}
			b.Y = append(b.Y, y)
			b.Weight = append(b.Weight, 0.5+float64(done%3))
			b.Offset = append(b.Offset, 0.1*float64(done%2))
			done++
		}
		if err := r.Update(b, false); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// A fit of rows that are read where they lie is that of rows that are laid out: for all that asks
// for more than their products, too.
func TestInPlace(t *testing.T) {
	const n, d = 17_000, 12
	for _, c := range []struct {
		family, link string
		params       lik.Params
		options      kernels.Options
	}{
		{"bernoulli", "logit", lik.Params{}, kernels.Options{}},
		{"bernoulli", "logit", lik.Params{}, kernels.Options{Standardize: true}},
		{"bernoulli", "probit", lik.Params{}, kernels.Options{Standardize: true, ThirdOrder: true}},
		{"bernoulli", "logit", lik.Params{}, kernels.Options{Standardize: true, AutoPrior: true, Integrate: true}},
		{"bernoulli", "logit", lik.Params{}, kernels.Options{Standardize: true, Hessian: "diagonal"}},
		{"bernoulli", "logit", lik.Params{}, kernels.Options{Standardize: true, Hessian: "lowrank", Rank: 13}},
		{"poisson", "log", lik.Params{}, kernels.Options{Standardize: true}},
		{"gamma", "log", lik.Params{}, kernels.Options{Standardize: true, AutoShape: true}},
		{"gaussian", "identity", lik.Params{}, kernels.Options{Standardize: true, AutoDispersion: true, AutoPrior: true}},
		{"studentt", "identity", lik.Params{Shape: 4}, kernels.Options{Standardize: true}},
	} {
		m := model(t, c.family, c.link, c.params)
		m.NoIntercept, m.Options = false, c.options
		r := wholeRows(t, m, n, d, false)
		in, err := r.ProblemInPlace(context.Background())
		if err != nil || in == nil || !in.InPieces() {
			t.Fatalf("%s: the rows are not read in place (%v)", c.family, err)
		}
		out, err := r.Problem()
		if err != nil {
			t.Fatal(err)
		}
		f, known, err := Learn(context.Background(), in)
		if err != nil {
			t.Fatalf("%s, %+v: %v", c.family, c.options, err)
		}
		g, err := Fit(context.Background(), out)
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("%s, %s, %+v", c.family, c.link, c.options)
		if f.Status != g.Status || known.N != n {
			t.Errorf("%s: status %q, want %q", what, f.Status, g.Status)
		}
		// Sums in another order; what is learnt ends where its search does, to its tolerance.
		tol := 1e-7
		if c.options.AutoPrior || c.options.AutoShape {
			tol = 1e-4
		}
		if math.Abs(f.LogEvidence-g.LogEvidence) > 1e-10*math.Abs(g.LogEvidence) {
			t.Errorf("%s: log evidence %v, want %v", what, f.LogEvidence, g.LogEvidence)
		}
		for k, w := range g.Beliefs {
			if v := f.Beliefs[k]; v.Feature != w.Feature || math.Abs(v.Mean-w.Mean) > tol*math.Sqrt(w.Variance) || math.Abs(v.Variance/w.Variance-1) > tol {
				t.Errorf("%s: %s = %v, want %s = %v", what, v.Feature, v.Weight, w.Feature, w.Weight)
			}
		}
		if a, b := in.Separation(f), out.Separation(g); a != b {
			t.Errorf("%s: %q, want %q", what, a, b)
		}
		if a, b := in.Overdispersion(f), out.Overdispersion(g); a != b {
			t.Errorf("%s: %q, want %q", what, a, b)
		}
	}
}

// Rows are laid out where their values are not X as they lie: a number is missing, a weight is
// known, there is an order in time, they are few; and a value that is none is reported.
func TestLaidOut(t *testing.T) {
	logit := func(change func(m *kernels.Model)) *kernels.Model {
		m := model(t, "bernoulli", "logit", lik.Params{})
		m.NoIntercept = false
		change(m)
		return m
	}
	for _, c := range []struct {
		name    string
		m       *kernels.Model
		n, d    int
		missing bool
		in      bool
	}{
		{"many", logit(func(*kernels.Model) {}), 17_000, 5, false, true},
		{"few", logit(func(*kernels.Model) {}), 3000, 5, false, false},
		{"wide", logit(func(*kernels.Model) {}), 17_000, 300, false, false},
		{"missing", logit(func(*kernels.Model) {}), 17_000, 5, true, false},
		{"known", logit(func(m *kernels.Model) {
			m.Priors = []kernels.Belief{{Feature: "x01", Weight: kernels.Weight{Mean: 0.3}}}
		}), 17_000, 5, false, false},
		{"time", logit(func(m *kernels.Model) { m.HasTime = true }), 17_000, 5, false, false},
	} {
		r := wholeRows(t, c.m, c.n, c.d, c.missing)
		p, err := r.ProblemInPlace(context.Background())
		if err != nil || (p != nil) != c.in {
			t.Errorf("%s: read in place %v, want %v (%v)", c.name, p != nil, c.in, err)
		}
	}
	none, err := kernels.NewRows(logit(func(m *kernels.Model) { m.NoIntercept = true }))
	if err != nil {
		t.Fatal(err)
	}
	if err := none.Update(&kernels.Batch{Row: make([]int, 17_001), Y: make([]float64, 17_000)}, false); err != nil {
		t.Fatal(err)
	}
	if p, err := none.ProblemInPlace(context.Background()); p != nil || err != nil {
		t.Errorf("rows of no feature are read in place (%v)", err)
	}
	r := wholeRows(t, logit(func(*kernels.Model) {}), 17_000, 2, false)
	b := &kernels.Batch{Shared: []uint32{0, 1, 2}, Value: []float64{1, math.Inf(1), 2}, Y: []float64{1}, Weight: []float64{1}, Offset: []float64{0}}
	if err := r.Update(b, false); err != nil {
		t.Fatal(err)
	}
	if p, err := r.ProblemInPlace(context.Background()); p != nil || err != nil {
		t.Errorf("an infinite number is read in place (%v)", err)
	}
	if _, err := r.Problem(); err == nil {
		t.Error("an infinite number is no error")
	}
}

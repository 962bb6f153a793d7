package kernels_test

import (
	"errors"
	"math"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
)

func add(t *testing.T, r *kernels.Rows, y, offset, at float64, x map[string]float64, names ...string) {
	t.Helper()
	var b kernels.Batch
	b.Reset()
	if !r.Model.NoIntercept {
		b.Add(0, 1)
	}
	for _, n := range names {
		id, err := r.Dict.Add(n)
		if err != nil {
			t.Fatal(err)
		}
		b.Add(id, x[n])
	}
	b.EndRow()
	b.Y, b.Offset, b.Time = append(b.Y, y), append(b.Offset, offset), append(b.Time, at)
	if err := r.Update(&b, false); err != nil {
		t.Fatal(err)
	}
}

// Columns come in belief order, rows in time order, known weights as offset.
func TestProblemLayout(t *testing.T) {
	l, _ := lik.New("gaussian", "", lik.Params{Dispersion: 1})
	m := &kernels.Model{Lik: l, Prior: kernels.DefaultPrior, HasTime: true,
		Priors: []kernels.Belief{{Feature: "known", Weight: kernels.Weight{Mean: 2}}, {Feature: "b=1", Weight: kernels.Weight{Mean: 1, Variance: 3}}}}
	r, err := kernels.NewRows(m)
	if err != nil {
		t.Fatal(err)
	}
	add(t, r, 1, 0.5, 7, map[string]float64{"z": 3, "known": 4, "10": 5}, "z", "known", "10")
	add(t, r, 2, 0, 3, map[string]float64{"2": 1, "b=1": 6}, "b=1", "2")
	p, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for j := range p.P {
		names = append(names, p.Name(j))
	}
	want := []string{"(Intercept)", "2", "10", "b=1", "z"}
	for j := range want {
		if names[j] != want[j] {
			t.Fatalf("columns %q, want %q", names, want)
		}
	}
	if p.Time[0] != 3 || p.Y[0] != 2 || p.Offset[1] != 8.5 || p.Begin != 3 {
		t.Errorf("time %v, y %v, offset %v, begin %v", p.Time, p.Y, p.Offset, p.Begin)
	}
	if !p.Born[0] || p.Born[1] || !p.Born[3] || p.PriorVar[0] != 10 || p.PriorVar[3] != 3 || p.PriorMean[3] != 1 {
		t.Errorf("born %v, prior %v %v", p.Born, p.PriorMean, p.PriorVar)
	}
	g, groups := p.Groups()
	if g[0] != -1 || groups[g[3]] != "b" {
		t.Errorf("groups %v %v", g, groups)
	}
	f := p.Fit("x", p.Normal, -3)
	if len(f.Beliefs) != 6 || f.Beliefs[4].Feature != "known" || f.Beliefs[4].Weight != (kernels.Weight{Mean: 2}) || f.Time != 7 || f.N != 2 {
		t.Errorf("fit %+v", f)
	}
	w := []float64{1, 2, 3, 4, 5}
	sparse, full := make([]float64, 2), make([]float64, 2)
	p.Predictor(sparse, w)
	p.Dense()
	p.Predictor(full, w)
	for i := range sparse {
		if sparse[i] != full[i] {
			t.Errorf("predictor %v sparse, %v dense", sparse, full)
		}
	}
	// Merge: the same rows in two parts.
	a, b := mustRows(t, m), mustRows(t, m)
	add(t, b, 1, 0.5, 7, map[string]float64{"z": 3, "known": 4, "10": 5}, "z", "known", "10")
	add(t, a, 2, 0, 3, map[string]float64{"2": 1, "b=1": 6}, "b=1", "2")
	if err := a.Merge(b); err != nil {
		t.Fatal(err)
	}
	q, err := a.Problem()
	if err != nil {
		t.Fatal(err)
	}
	for k := range p.Col {
		if p.Col[k] != q.Col[k] || p.Val[k] != q.Val[k] {
			t.Fatalf("merged columns %v %v, want %v %v", q.Col, q.Val, p.Col, p.Val)
		}
	}
	var bad kernels.Batch
	bad.Reset()
	bad.EndRow()
	bad.Y = []float64{math.NaN()}
	if err := a.Update(&bad, false); !errors.Is(err, kernels.ErrRow) {
		t.Errorf("y = NaN: %v", err)
	}
}

func mustRows(t *testing.T, m *kernels.Model) *kernels.Rows {
	r, err := kernels.NewRows(m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A fit's covariance comes back as the prior of the next one, with new features
// in between and known weights on the way.
func TestCovarianceRoundTrip(t *testing.T) {
	l, _ := lik.New("gaussian", "", lik.Params{Dispersion: 1})
	m := &kernels.Model{Lik: l, Prior: kernels.Prior{Variance: 2, InterceptVariance: 5},
		Priors: []kernels.Belief{{Feature: "k", Weight: kernels.Weight{Mean: 1}}}}
	r := mustRows(t, m)
	add(t, r, 1, 0, 0, map[string]float64{"b": 1, "d": 2}, "d", "b")
	p, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	chol := dense.New(3, 3)
	copy(chol.Data, []float64{2, 0, 0, 0.5, 1, 0, -0.25, 0.75, 1.5})
	f := dense.New(3, 2)
	copy(f.Data, []float64{1, 0.5, -0.5, 0.25, 0.125, 1})
	low, err := gauss.NewLowRank([]float64{1, 2, 3}, []float64{4, 5, 6}, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []*gauss.Normal{gauss.NewFull([]float64{1, 2, 3}, chol), low} {
		fit := p.Fit("x", g, 0)
		if err := fit.Covariance.Check(4); err != nil {
			t.Fatal(err)
		}
		next := *m
		next.Priors, next.Start = nil, fit
		s := mustRows(t, &next)
		add(t, s, 1, 0, 0, map[string]float64{"a": 1, "c": 1}, "c", "a")
		q, err := s.Problem()
		if err != nil {
			t.Fatal(err)
		}
		if q.P != 5 || q.Name(1) != "a" || q.Begin != 0 {
			t.Fatalf("%d columns, begin %v", q.P, q.Begin)
		}
		got, want := dense.New(5, 5), dense.New(3, 3)
		q.Normal.Cov(got)
		g.Cov(want)
		old := []int{0, 2, 4} // columns of (Intercept), b, d among a, c
		for i, a := range old {
			for j, b := range old {
				if got.At(a, b) != want.At(i, j) {
					t.Errorf("%v: covariance (%d,%d) = %v, want %v", g.Form, i, j, got.At(a, b), want.At(i, j))
				}
			}
		}
		if got.At(1, 1) != 2 && math.Abs(got.At(1, 1)-2) > 1e-15 || got.At(1, 0) != 0 || got.At(3, 2) != 0 {
			t.Errorf("%v: new features are not independent: %v", g.Form, got.Data)
		}
	}
}

package adf

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/filter"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/stream"
)

var tiedColumns = kernels.NewColumns([]string{"a", "b"}, []string{"u", "v"})

// table is rows of the numbers u and v and levels of two columns.
type table struct {
	u, v []float64
	a, b []int
	y    []float64
	t    []float64
}

func newTable(n, la, lb int, seed uint64, binary bool) *table {
	r := rand.New(rand.NewPCG(seed, 77))
	t := &table{}
	wa, wb := make([]float64, la), make([]float64, lb)
	for i := range wa {
		wa[i] = r.NormFloat64()
	}
	for i := range wb {
		wb[i] = 0.5 * r.NormFloat64()
	}
	for i := range n {
		u, v := r.NormFloat64(), r.NormFloat64()
		a, b := r.IntN(la), r.IntN(lb)
		s := 0.3 + 0.7*u - 0.4*v + wa[a] + wb[b]
		y := s + r.NormFloat64()
		if binary {
			y = 0
			if s+r.NormFloat64() > 0 {
				y = 1
			}
		}
		t.u, t.v, t.a, t.b, t.y, t.t = append(t.u, u), append(t.v, v), append(t.a, a), append(t.b, b), append(t.y, y), append(t.t, float64(i)/3)
	}
	return t
}

// feed gives rows [lo, hi) to s.
func (tb *table) feed(t *testing.T, s *stream.State, lo, hi int) {
	t.Helper()
	d := s.Features()
	d.Use(tiedColumns)
	var b kernels.Batch
	for i := lo; i < hi; i++ {
		if (i-lo)%50 == 0 && i > lo {
			update(t, s, &b)
			b.Reset()
		} else if i == lo {
			b.Reset()
		}
		add := func(name string, x float64) { add(t, d, &b, name, x) }
		b.Add(0, 1)
		add("u", tb.u[i])
		add("v", tb.v[i])
		add(fmt.Sprintf("a=%d", tb.a[i]), 1)
		add(fmt.Sprintf("b=%d", tb.b[i]), 1)
		b.EndRow()
		b.Y = append(b.Y, tb.y[i])
		if s.Model().HasTime {
			b.Time = append(b.Time, tb.t[i])
		}
	}
	if b.Len() > 0 {
		update(t, s, &b)
	}
}

func update(t *testing.T, s *stream.State, b *kernels.Batch) {
	t.Helper()
	if err := s.Update(context.Background(), b, false); err != nil {
		t.Fatal(err)
	}
}

func fitOf(t *testing.T, s *stream.State) *kernels.Fit {
	t.Helper()
	f, err := s.Fit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Validate(); err != nil {
		t.Fatal(err)
	}
	return f
}

func tiedModel(t *testing.T, family string, o kernels.Options) *kernels.Model {
	t.Helper()
	l, err := lik.New(family, "", lik.Params{Dispersion: 1, Shape: 4})
	if err != nil {
		t.Fatal(err)
	}
	o.Covariance = "arrowhead"
	return &kernels.Model{Lik: l, Params: lik.Params{Dispersion: 1, Shape: 4}, Prior: kernels.DefaultPrior, Options: o}
}

func newTiedState(t *testing.T, m *kernels.Model) *stream.State {
	t.Helper()
	s, err := NewTied(m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Deviations are those of the full filter, to what level means and their priors leave;
// the factorised filter's are far off.
func TestTiedAgainstFull(t *testing.T) {
	for _, family := range []string{"gaussian", "bernoulli", "poisson"} {
		tb := newTable(3000, 20, 7, 5, family != "gaussian")
		m := tiedModel(t, family, kernels.Options{})
		s := newTiedState(t, m)
		tb.feed(t, s, 0, 3000)
		f := fitOf(t, s)
		full := *m
		full.Options.Covariance = "full"
		g, err := filter.New(&full, filter.ADF{})
		if err != nil {
			t.Fatal(err)
		}
		tb.feed(t, g, 0, 3000)
		want := fitOf(t, g)
		if len(f.Beliefs) != len(want.Beliefs) {
			t.Fatalf("%d beliefs, want %d", len(f.Beliefs), len(want.Beliefs))
		}
		inside := 0
		for k, w := range want.Beliefs {
			got := f.Beliefs[k]
			ratio := math.Sqrt(got.Variance / w.Variance)
			most := 1.25
			if k == 0 { // a column's mean has v/L of the level mean and v/levels of the leaves
				most = 1.45
			}
			if got.Feature != w.Feature || ratio < 0.8 || ratio > most {
				t.Errorf("%s: deviation of %s is %.3f of the full filter's", family, got.Feature, ratio)
			}
			if math.Abs(got.Mean-w.Mean) < 1*math.Sqrt(w.Variance) {
				inside++
			}
		}
		if inside < len(want.Beliefs)*9/10 {
			t.Errorf("%s: %d of %d means within a deviation of the full filter's", family, inside, len(want.Beliefs))
		}
		if math.Abs(f.LogEvidence-want.LogEvidence) > 0.01*math.Abs(want.LogEvidence) {
			t.Errorf("%s: log evidence %v, the full filter's %v", family, f.LogEvidence, want.LogEvidence)
		}
	}
}

// A run continued from its fit is the uninterrupted one: bit for bit without drift.
func TestTiedContinued(t *testing.T) {
	tb := newTable(900, 30, 3, 9, true)
	for name, m := range map[string]*kernels.Model{
		"plain":      tiedModel(t, "bernoulli", kernels.Options{}),
		"forgetting": {}, "noise": {}, "time": {},
	} {
		if name != "plain" {
			*m = *tiedModel(t, "bernoulli", kernels.Options{})
		}
		switch name {
		case "forgetting":
			m.Forgetting = 0.999
		case "noise":
			m.Noise = 1e-3
		case "time":
			m.Noise, m.HasTime = 1e-3, true
		}
		whole := newTiedState(t, m)
		tb.feed(t, whole, 0, 900)
		want := fitOf(t, whole)
		first := newTiedState(t, m)
		tb.feed(t, first, 0, 350)
		next := *m
		next.Start = fitOf(t, first)
		second := newTiedState(t, &next)
		tb.feed(t, second, 350, 900)
		got := fitOf(t, second)
		tol := kerneltest.Tol{Rel: 1e-10, Abs: 1e-11}
		if name == "plain" {
			tol = kerneltest.Tol{}
		}
		for k, w := range want.Beliefs {
			kerneltest.Close(t, name+": mean of "+w.Feature, got.Beliefs[k].Mean, w.Mean, tol)
			kerneltest.Close(t, name+": variance of "+w.Feature, got.Beliefs[k].Variance, w.Variance, tol)
		}
		kerneltest.Close(t, name+": log evidence", got.LogEvidence, want.LogEvidence, kerneltest.Tol{Rel: 1e-12})
		if len(got.Covariance.Values) != len(want.Covariance.Values) {
			t.Fatalf("%s: %d covariance values, want %d", name, len(got.Covariance.Values), len(want.Covariance.Values))
		}
		for i, v := range want.Covariance.Values {
			kerneltest.Close(t, name+": covariance", got.Covariance.Values[i], v, tol)
		}
		if t.Failed() {
			return
		}
	}
}

// Parts merged are near the run over all rows.
func TestTiedMerge(t *testing.T) {
	tb := newTable(1200, 12, 5, 3, false)
	for _, from := range []bool{false, true} {
		m := tiedModel(t, "gaussian", kernels.Options{})
		lo := 0
		if from {
			s := newTiedState(t, m)
			tb.feed(t, s, 0, 200)
			next := *m
			next.Start, m, lo = fitOf(t, s), &next, 200
		}
		whole := newTiedState(t, m)
		tb.feed(t, whole, lo, 1200)
		want := fitOf(t, whole)
		a, b, c := newTiedState(t, m), newTiedState(t, m), newTiedState(t, m)
		tb.feed(t, a, lo, 230)
		tb.feed(t, b, 230, 800)
		tb.feed(t, c, 800, 1200)
		for _, o := range []*stream.State{c, newTiedState(t, m), b} {
			if err := a.Merge(context.Background(), o); err != nil {
				t.Fatal(err)
			}
		}
		got := fitOf(t, a)
		// The fits of the parts, merged, are the same.
		var parts []*kernels.Fit
		for _, cut := range [][2]int{{lo, 230}, {800, 1200}, {230, 800}} {
			s := newTiedState(t, m)
			tb.feed(t, s, cut[0], cut[1])
			parts = append(parts, fitOf(t, s))
		}
		merged, err := kernels.MergeFits(context.Background(), parts, m.Start, MergeArrowheads)
		if err != nil {
			t.Fatal(err)
		}
		if err := merged.Validate(); err != nil || merged.N != want.N {
			t.Errorf("%d rows, %v", merged.N, err)
		}
		for k, w := range got.Beliefs {
			kerneltest.Close(t, "merged mean of "+w.Feature, merged.Beliefs[k].Mean, w.Mean, kerneltest.Tol{Rel: 1e-7, Abs: 1e-8})
			kerneltest.Close(t, "merged variance of "+w.Feature, merged.Beliefs[k].Variance, w.Variance, kerneltest.Tol{Rel: 1e-7})
		}
		kerneltest.Close(t, "merged log evidence", merged.LogEvidence, got.LogEvidence, kerneltest.Tol{Rel: 1e-9})
		if got.N != want.N {
			t.Errorf("%d rows, want %d", got.N, want.N)
		}
		for k, w := range want.Beliefs {
			sd := math.Sqrt(w.Variance)
			// Two leaves meet in a row, and what each part leaves out of their covariance
			// counts for each part: along the columns, where the data say little.
			kerneltest.Close(t, "mean of "+w.Feature, got.Beliefs[k].Mean, w.Mean, kerneltest.Tol{Abs: 0.85 * sd})
			kerneltest.Close(t, "deviation of "+w.Feature, math.Sqrt(got.Beliefs[k].Variance), sd, kerneltest.Tol{Rel: 0.1})
		}
	}
}

// Every option of the filter runs and gives a valid fit; learning, banks and drift too.
func TestTiedOptions(t *testing.T) {
	tb := newTable(400, 9, 4, 13, true)
	for _, c := range []struct {
		family string
		set    func(*kernels.Model)
	}{
		{"bernoulli", func(m *kernels.Model) { m.Options.AutoNoise = true }},
		{"gaussian", func(m *kernels.Model) { m.Options.AutoDispersion = true }},
		{"gaussian", func(m *kernels.Model) { m.Options.AutoDispersion = true; m.Options.AutoNoise = true }},
		{"gaussian", func(m *kernels.Model) { m.Options.AutoDispersion = true; m.Forgetting = 0.99 }},
		{"studentt", func(m *kernels.Model) {}},
		{"poisson", func(m *kernels.Model) { m.NoIntercept = true }},
		{"bernoulli", func(m *kernels.Model) { m.NoiseBy = map[string]float64{"u": 0.01, "a=3": 0.1} }},
		{"bernoulli", func(m *kernels.Model) { m.Prior.Variance = 0 }},
		{"bernoulli", func(m *kernels.Model) {
			m.Priors = []kernels.Belief{{Feature: "a=1", Weight: kernels.Weight{Mean: 2}}, {Feature: "u", Weight: kernels.Weight{Mean: 1, Variance: 0.1}}, {Feature: "never", Weight: kernels.Weight{Variance: 1}}}
		}},
		{"bernoulli", func(m *kernels.Model) { m.HashBits = 4 }},
	} {
		m := tiedModel(t, c.family, kernels.Options{})
		c.set(m)
		s := newTiedState(t, m)
		tb.feed(t, s, 0, 250)
		o := newTiedState(t, m)
		tb.feed(t, o, 250, 400)
		if err := s.Merge(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		f := fitOf(t, s)
		if f.N != 400 || f.Covariance.Form.String() != "arrowhead" {
			t.Errorf("%d rows, covariance %s", f.N, f.Covariance.Form)
		}
		mean, variance := make([]float64, 1), make([]float64, 1)
		var b kernels.Batch
		b.Reset()
		b.Add(0, 1)
		b.EndRow()
		b.Y, b.Time = []float64{0}, nil
		if err := s.Clone().Linear(&b, mean, variance); err != nil || !(variance[0] >= 0) {
			t.Errorf("predictor %v, %v, %v", mean, variance, err)
		}
	}
}

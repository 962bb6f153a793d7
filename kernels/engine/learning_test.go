package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

func gaussianRows(n int, seed uint64) kernels.Batch {
	r := rand.New(rand.NewPCG(seed, 7))
	var b kernels.Batch
	b.Reset()
	for range n {
		x, z := r.NormFloat64(), r.NormFloat64()
		b.Add(0, 1)
		b.Add(1, x)
		b.Add(2, z)
		b.EndRow()
		b.Y = append(b.Y, 1+2*x-z+0.3*r.NormFloat64())
	}
	return b
}

func fit(t *testing.T, method string, m kernels.Model, bs ...kernels.Batch) (Fitter, *kernels.Fit) {
	t.Helper()
	e, err := Find(method)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.New(&m)
	if err != nil {
		t.Fatal(err)
	}
	if m.Start == nil {
		for _, name := range []string{"x", "z"} {
			if _, err := s.Features().Add(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, b := range bs {
		if err := s.Update(context.Background(), &b, false); err != nil {
			t.Fatal(err)
		}
	}
	f, err := s.Fit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s, f
}

// Every filter learns the noise variance (0.09 here): the same to rounding when the
// run is interrupted, near it when parts are merged, and Laplace's by evidence is
// close.
func TestDispersionByRow(t *testing.T) {
	l, err := lik.New("gaussian", "", lik.Params{Dispersion: 1})
	if err != nil {
		t.Fatal(err)
	}
	model := kernels.Model{Lik: l, Params: lik.Params{Dispersion: 1}, Prior: kernels.DefaultPrior, Intercept: true,
		Options: kernels.Options{AutoDispersion: true}}
	a, b := gaussianRows(800, 1), gaussianRows(800, 2)
	_, batch := fit(t, "laplace", model, a, b)
	for _, form := range []string{"diagonal", "full", "lowrank"} {
		m := model
		m.Options.Covariance = form
		_, whole := fit(t, "adf", m, a, b)
		// 1,600 rows tell a variance to 3.5 % (one sd); a filter's first rows, under the
		// wrong variance and factorised beliefs, add some.
		if d := whole.Dispersion / batch.Dispersion; !(d > 0.9 && d < 1.15) {
			t.Errorf("%s: noise variance %v, by evidence %v", form, whole.Dispersion, batch.Dispersion)
		}
		_, first := fit(t, "adf", m, a)
		next := m
		next.Start = first
		nl, err := lik.New("gaussian", "", lik.Params{Dispersion: first.Dispersion})
		if err != nil {
			t.Fatal(err)
		}
		next.Lik = nl
		_, cont := fit(t, "adf", next, b)
		tol := kerneltest.Tol{Rel: 1e-9}
		if form == "lowrank" {
			tol.Rel = 1e-3 // its two representations are cut at different rows
		}
		kerneltest.Close(t, form+": continued", cont.Dispersion, whole.Dispersion, tol)
		s, _ := fit(t, "adf", m, a)
		o, _ := fit(t, "adf", m, b)
		if err := s.Merge(context.Background(), o.Clone()); err != nil {
			t.Fatal(err)
		}
		merged, err := s.Fit(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(merged.Dispersion/whole.Dispersion-1) > 0.05 {
			t.Errorf("%s: noise variance of merged parts %v, of one run %v", form, merged.Dispersion, whole.Dispersion)
		}
	}
}

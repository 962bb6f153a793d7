package engine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/stop"
)

// What is predicted of the rows before they are learnt multiplies to the evidence of the
// filter, in the rows' order, also where the dispersion is learnt or the weights drift; and
// the filter is the one that predicts nothing.
func TestProgressive(t *testing.T) {
	for _, c := range []struct {
		method, family string
		set            func(*kernels.Model)
		bound          bool // its evidence is no sum of predictive densities
	}{
		{method: "adf"}, {method: "sequential_laplace"}, {method: "variational", bound: true}, {method: "ekf", bound: true},
		{method: "adf", set: func(m *kernels.Model) { m.Options.Covariance = "arrowhead" }},
		{method: "adf", set: func(m *kernels.Model) { m.Options.Covariance = "full"; m.Noise = 0.01 }},
		{method: "adf", set: func(m *kernels.Model) { m.Options.Covariance = "arrowhead"; m.Noise = 0.01 }},
		{method: "adf", set: func(m *kernels.Model) { m.Noise = 0.01; m.HasTime = true }},
		{method: "adf", family: "gaussian", set: func(m *kernels.Model) { m.Forgetting = 0.98 }},
		{method: "adf", family: "gaussian", set: func(m *kernels.Model) { m.Options.AutoDispersion = true }, bound: true},
	} {
		rnd := rand.New(rand.NewPCG(3, 8))
		m := &kernels.Model{Params: lik.Params{Dispersion: 1}}
		var err error
		if m.Lik, err = lik.New(c.family, "", m.Params); err != nil {
			t.Fatal(err)
		}
		if c.set != nil {
			c.set(m)
		}
		e, err := Find(c.method)
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.Progressive()
		if err != nil {
			t.Fatal(err)
		}
		plain, err := e.New(context.Background(), m)
		if err != nil {
			t.Fatal(err)
		}
		fits, err := p.New(context.Background(), m)
		if err != nil {
			t.Fatal(err)
		}
		const n = 120
		var b kernels.Batch
		b.Reset()
		for i := range n {
			b.Add(0, 1)
			b.Add(1, rnd.NormFloat64())
			b.Add(uint32(2+i%3), 1)
			b.EndRow()
			b.Y = append(b.Y, float64(rnd.IntN(2)))
			if i == 50 {
				b.Y[i] = math.NaN() // is skipped
			}
			b.Offset = append(b.Offset, 0.1*rnd.NormFloat64())
			b.Time = append(b.Time, float64(i/4))
		}
		for _, f := range []Fitter{plain, fits} {
			for _, name := range []string{"u", "g=0", "g=1", "g=2"} {
				if _, err := f.Features().Add(name); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Update(context.Background(), &b, true); err != nil {
				t.Fatal(err)
			}
		}
		want, err := plain.Fit(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		got, err := fits.Clone().Fit(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Rows) != n-1 || got.N != n-1 || got.Skipped != 1 {
			t.Fatalf("%s: %d predictions of %d rows, %d skipped", c.method, len(got.Rows), got.N, got.Skipped)
		}
		sum := 0.0
		for i, r := range got.Rows {
			sum += r.LogDensity
			if y := b.Y[i+map[bool]int{true: 1}[i >= 50]]; r.Y != y || !(r.Lower <= r.Upper) {
				t.Fatalf("%s: row %d: %+v, response %v", c.method, i, r, y)
			}
		}
		if !c.bound {
			kerneltest.Close(t, c.method+": sum of log densities", sum, want.LogEvidence, kerneltest.Tol{Rel: 1e-10})
		}
		for k, w := range want.Beliefs {
			kerneltest.Close(t, c.method+": mean of "+w.Feature, got.Beliefs[k].Mean, w.Mean, kerneltest.Tol{Rel: 1e-12, Abs: 1e-13})
		}
		// A part of its own behind it.
		more, err := p.New(context.Background(), m)
		if err != nil {
			t.Fatal(err)
		}
		if err := fits.Merge(context.Background(), more); err != nil {
			t.Fatal(err)
		}
		if err := more.Merge(context.Background(), fits); err != nil {
			t.Fatal(err)
		}
		if r, err := more.Fit(context.Background()); err != nil || len(r.Rows) != n-1 {
			t.Errorf("merged: %v", err)
		}
	}
	keeper, err := Find("laplace")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keeper.Progressive(); err == nil || !strings.Contains(err.Error(), "ekf") {
		t.Errorf("a method that keeps its rows: %v", err)
	}
}

// What is expected of a row is the same whatever its response, and its density is under that: a
// shape and a dispersion are those that the rows before it have taught.
func TestProgressiveBeforeTheRow(t *testing.T) {
	const n = 40
	for _, family := range []string{"negbinomial", "gaussian", "studentt", "poisson"} {
		e, err := Find("adf")
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.Progressive()
		if err != nil {
			t.Fatal(err)
		}
		m := &kernels.Model{Params: lik.Params{Dispersion: 1, Shape: 2}}
		if m.Lik, err = lik.New(family, "", m.Params); err != nil {
			t.Fatal(err)
		}
		m.Options.AutoShape, m.Options.AutoDispersion = family == "negbinomial", family == "gaussian"
		predicted := func(changed int) []Prediction {
			t.Helper()
			rnd := rand.New(rand.NewPCG(5, 8))
			f, err := p.New(context.Background(), m)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Features().Add("u"); err != nil {
				t.Fatal(err)
			}
			var b kernels.Batch
			b.Reset()
			for i := range n {
				b.Add(0, 1)
				b.Add(1, rnd.NormFloat64())
				b.EndRow()
				y := float64(rnd.IntN(4))
				if i == changed {
					y += 30
				}
				b.Y = append(b.Y, y)
			}
			if err := f.Update(context.Background(), &b, false); err != nil {
				t.Fatal(err)
			}
			r, err := f.Fit(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			return r.Rows
		}
		plain := predicted(-1)
		for _, k := range []int{0, 1, 7, n - 1} {
			a, b := plain[k], predicted(k)[k]
			if a.Y == b.Y || a.Mean != b.Mean || a.Lower != b.Lower || a.Upper != b.Upper {
				t.Errorf("%s: row %d is expected to be %+v, with another response %+v", family, k, a, b)
			}
		}
	}
}

// Rows of which nothing more is wanted are not predicted.
func TestProgressiveInterrupted(t *testing.T) {
	adf, err := Find("adf")
	if err != nil {
		t.Fatal(err)
	}
	p, err := adf.Progressive()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f, err := p.New(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b kernels.Batch
	b.Reset()
	for i := range 100 {
		b.EndRow()
		b.Y = append(b.Y, float64(i&1))
	}
	cancel()
	if err := f.Update(ctx, &b, false); !errors.Is(err, stop.ErrInterrupted) || len(f.(*progressive).rows) > 16 {
		t.Errorf("%v after %d rows", err, len(f.(*progressive).rows))
	}
}

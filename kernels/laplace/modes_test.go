package laplace

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// level is the problem of an intercept alone.
func level(t *testing.T, family, link string, p lik.Params, variance float64, y ...float64) *kernels.Problem {
	t.Helper()
	l, err := lik.New(family, link, p)
	if err != nil {
		t.Fatal(err)
	}
	r, err := kernels.NewRows(&kernels.Model{Lik: l, Params: p, Prior: kernels.Prior{Variance: 1, InterceptVariance: variance}})
	if err != nil {
		t.Fatal(err)
	}
	var b kernels.Batch
	b.Reset()
	for _, v := range y {
		b.Add(0, 1)
		b.EndRow()
		b.Y = append(b.Y, v)
	}
	if err := r.Update(&b, false); err != nil {
		t.Fatal(err)
	}
	q, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// The highest mode wins, wherever the prior mean is, and the status names the others.
func TestSeveralModes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	near := func(at, sd float64, n int) (y []float64) {
		for range n {
			y = append(y, at+sd*rnd.NormFloat64())
		}
		return y
	}
	cases := []struct {
		family, link string
		dispersion   float64
		y            []float64
		note         bool
	}{
		{"studentt", "", 0.01, append(near(10, 0.1, 20), 0), true},
		{"studentt", "", 0.01, append(near(10, 0.1, 20), near(0, 0.1, 8)...), true},
		{"studentt", "", 0.01, append(near(-7, 0.1, 20), near(0, 0.1, 8)...), true},
		{"studentt", "", 0.01, append(append(near(4, 0.1, 9), near(0, 0.1, 3)...), near(-9, 0.1, 5)...), true},
		{"studentt", "", 1, near(3, 1, 40), false},
		{"gaussian", "log", 0.01, near(9, 0.1, 10), false},
	}
	for _, c := range cases {
		p := level(t, c.family, c.link, lik.Params{Dispersion: c.dispersion, Shape: 4}, 100, c.y...)
		f, err := Fit(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		b := p.Batch()
		at, log := kerneltest.HighestMode(func(s float64) (sum float64) {
			for i := range p.N {
				logp, _, _ := p.Lik.LogLik(b.Obs(i), s)
				sum += logp
			}
			return sum
		}, 100, -20, 20)
		kerneltest.Close(t, c.family+" mean", f.Beliefs[0].Mean, at, kerneltest.Tol{Abs: 2e-4})
		kerneltest.Close(t, c.family+" log evidence", f.LogEvidence, log, kerneltest.Tol{Abs: 1e-3, Rel: 1e-4})
		if strings.Contains(f.Status, "modes found") != c.note || !f.Converged {
			t.Errorf("%s: status %q", c.family, f.Status)
		}
	}
}

// Regressions with a third of the rows off: the mode is the one that a start at the
// truth finds, in every space of the search.
func TestSeveralModesRegression(t *testing.T) {
	for _, c := range []struct{ n, p int }{{60, 4}, {40, 60}, {500, 30}} {
		rnd := rand.New(rand.NewPCG(9, uint64(c.p)))
		par := lik.Params{Dispersion: 0.04, Shape: 3}
		l, err := lik.New("studentt", "", par)
		if err != nil {
			t.Fatal(err)
		}
		r, err := kernels.NewRows(&kernels.Model{NoIntercept: true, Lik: l, Params: par, Prior: kernels.Prior{Variance: 9}})
		if err != nil {
			t.Fatal(err)
		}
		truth := make([]float64, c.p)
		ids := make([]uint32, c.p)
		for j := range truth {
			truth[j] = 3 * rnd.NormFloat64()
			if ids[j], err = r.Dict.Add(string(rune('a'+j/26)) + string(rune('a'+j%26))); err != nil {
				t.Fatal(err)
			}
		}
		var b kernels.Batch
		b.Reset()
		for i := range c.n {
			eta := 0.0
			for j := range truth {
				x := rnd.NormFloat64()
				b.Add(ids[j], x)
				eta += x * truth[j]
			}
			b.EndRow()
			y := eta + 0.2*rnd.NormFloat64()
			if i%3 == 0 {
				y = 20 * rnd.NormFloat64()
			}
			b.Y = append(b.Y, y)
		}
		if err := r.Update(&b, false); err != nil {
			t.Fatal(err)
		}
		p, err := r.Problem()
		if err != nil {
			t.Fatal(err)
		}
		want, err := FitFrom(context.Background(), p, truth)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Fit(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if !(got.LogEvidence > want.LogEvidence-1e-4) {
			t.Errorf("%d rows of %d weights: log evidence %v, from the truth %v; %s", c.n, c.p, got.LogEvidence, want.LogEvidence, got.Status)
		}
	}
}

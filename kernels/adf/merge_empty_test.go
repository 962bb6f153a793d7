package adf

import (
	"context"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/filter"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/stream"
)

// A state merged into one without rows, or the other way about, is what it was: evidence,
// beliefs, what the status says, and rows that follow.
func TestMergeWithNothing(t *testing.T) {
	kerneltest.Slow(t)
	tb := newTable(500, 80, 3, 9, true)
	forms := map[string]func(*kernels.Model) (*stream.State, error){
		"arrowhead": NewTied,
		"diagonal":  New,
		"full":      func(m *kernels.Model) (*stream.State, error) { return filter.New(m, filter.ADF{}) },
	}
	drifts := map[string]func(*kernels.Model){
		"none":       func(*kernels.Model) {},
		"noise":      func(m *kernels.Model) { m.Noise = 1e-3 },
		"time":       func(m *kernels.Model) { m.Noise, m.HasTime = 1e-3, true },
		"some":       func(m *kernels.Model) { m.NoiseBy = map[string]float64{"u": 0.01, "a=3": 0.1} },
		"forgetting": func(m *kernels.Model) { m.Forgetting, m.HasTime = 0.99, true },
		"auto":       func(m *kernels.Model) { m.Options.AutoNoise = true },
	}
	for form, open := range forms {
		for drift, set := range drifts {
			for _, continued := range []bool{false, true} {
				name := form + ", " + drift
				m := tiedModel(t, "bernoulli", kernels.Options{})
				m.Options.Covariance = form
				set(m)
				state := func() *stream.State {
					s, err := open(m)
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
				from := 0
				if continued {
					if drift == "auto" {
						continue // a fit has one rate
					}
					name, from = name+", continued", 150
					s := state()
					tb.feed(t, s, 0, from)
					m.Start = fitOf(t, s)
				}
				whole, part := state(), state()
				tb.feed(t, whole, from, 350)
				tb.feed(t, part, from, 350)
				into := state()
				if err := into.Merge(context.Background(), part); err != nil {
					t.Fatal(name, err)
				}
				if err := part.Merge(context.Background(), state()); err != nil {
					t.Fatal(name, err)
				}
				for rows := 0; rows < 2; rows++ {
					if rows > 0 {
						for _, s := range []*stream.State{whole, into, part} {
							tb.feed(t, s, 350, 500)
						}
					}
					want := fitOf(t, whole)
					for what, s := range map[string]*stream.State{"into": into, "with": part} {
						got := fitOf(t, s)
						tol := kerneltest.Tol{Rel: 1e-9, Abs: 1e-10}
						what = name + ", merged " + what + " nothing: "
						kerneltest.Close(t, what+"log evidence", got.LogEvidence, want.LogEvidence, tol)
						for k, w := range want.Beliefs {
							kerneltest.Close(t, what+"mean of "+w.Feature, got.Beliefs[k].Mean, w.Mean, tol)
							kerneltest.Close(t, what+"variance of "+w.Feature, got.Beliefs[k].Variance, w.Variance, tol)
						}
						if got.N != want.N || got.Status != want.Status {
							t.Errorf("%s%d rows, %q; want %d, %q", what, got.N, got.Status, want.N, want.Status)
						}
					}
					if t.Failed() {
						return
					}
				}
			}
		}
	}
}

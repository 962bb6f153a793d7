package adf

import (
	"context"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/filter"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/stream"
)

// The prior variance of a column is that of each of its weights, named one by one, in every
// form of the covariance; parts merge over it, and it holds where the levels have left the
// block.
func TestPriorByColumn(t *testing.T) {
	for _, levels := range []int{12, 300} {
		tb := newTable(900, levels, 3, 8, true)
		by := kernels.ColumnPriors{{Column: "A", Variance: 0.05}, {Column: "v", Variance: 4}}
		for _, form := range []string{"arrowhead", "diagonal", "full"} {
			m := tiedModel(t, "bernoulli", kernels.Options{Covariance: form})
			m.Options.Covariance = form
			m.PriorBy = by
			fresh := func(m *kernels.Model) *stream.State {
				make := NewTied
				switch form {
				case "diagonal":
					make = New
				case "full":
					make = func(m *kernels.Model) (*stream.State, error) { return filter.New(m, filter.ADF{}) }
				}
				s, err := make(m)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := fresh(m)
			tb.feed(t, s, 0, 900)
			got := fitOf(t, s)
			for _, b := range got.Beliefs {
				if b.Feature[0] == 'a' && b.Variance > 0.0501 {
					t.Errorf("%s: variance %v of %s", form, b.Variance, b.Feature)
				}
			}
			// The same by name. An arrowhead ties levels of a column only where they have its
			// prior.
			if form != "arrowhead" || levels < maxJoined {
				one := *m
				one.PriorBy = nil
				for _, b := range got.Beliefs {
					if w := by.OfFeature(b.Feature); w != nil {
						one.Priors = append(one.Priors, kernels.Belief{Feature: b.Feature, Weight: kernels.Weight{Variance: w.Variance}})
					}
				}
				s = fresh(&one)
				tb.feed(t, s, 0, 900)
				for k, w := range fitOf(t, s).Beliefs {
					kerneltest.Close(t, form+": mean of "+w.Feature, got.Beliefs[k].Mean, w.Mean, kerneltest.Tol{Rel: 1e-9, Abs: 1e-10})
					kerneltest.Close(t, form+": variance of "+w.Feature, got.Beliefs[k].Variance, w.Variance, kerneltest.Tol{Rel: 1e-9})
				}
			}
			a, b := fresh(m), fresh(m)
			tb.feed(t, a, 0, 450)
			tb.feed(t, b, 450, 900)
			if err := a.Merge(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			for _, b := range fitOf(t, a).Beliefs {
				if b.Feature[0] == 'a' && b.Variance > 0.0501 {
					t.Errorf("%s, merged: variance %v of %s", form, b.Variance, b.Feature)
				}
			}
		}
	}
}

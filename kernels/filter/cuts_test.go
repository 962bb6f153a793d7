package filter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// A chunk of rows brings all its names before the first of them is learnt: how the rows
// were cut changes no bit of a root, and no more than rounding of the other forms.
func TestNamesKnownEarly(t *testing.T) {
	for name, set := range map[string]func(*kernels.Model){
		"full":                       func(m *kernels.Model) {},
		"full, forgetting":           func(m *kernels.Model) { m.Forgetting = 0.97 },
		"full, noise":                func(m *kernels.Model) { m.Noise = 0.01 },
		"low rank":                   func(m *kernels.Model) { m.Options.Covariance = "lowrank"; m.Options.Rank = 4 },
		"full, forgetting and times": func(m *kernels.Model) { m.Forgetting = 0.97; m.HasTime = true },
	} {
		fit := func(early bool) *kernels.Fit {
			l, err := lik.New("", "", lik.Params{})
			if err != nil {
				t.Fatal(err)
			}
			m := &kernels.Model{Lik: l, Prior: kernels.DefaultPrior}
			set(m)
			s, err := New(m, ADF{})
			if err != nil {
				t.Fatal(err)
			}
			rnd := rand.New(rand.NewPCG(1, 6))
			const n = 120
			names := func(i int) []string { return []string{"u", fmt.Sprintf("g=%02d", (i*i)%(1+i/4))} }
			if early {
				for i := range n {
					for _, name := range names(i) {
						if _, err := s.Features().Add(name); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			for i := range n {
				var b kernels.Batch
				b.Reset()
				b.Add(0, 1)
				for _, name := range names(i) {
					id, err := s.Features().Add(name)
					if err != nil {
						t.Fatal(err)
					}
					b.Add(id, rnd.NormFloat64())
				}
				b.EndRow()
				b.Y, b.Time = append(b.Y, float64(rnd.IntN(2))), append(b.Time, float64(i/3))
				if err := s.Update(context.Background(), &b, false); err != nil {
					t.Fatal(err)
				}
			}
			f, err := s.Fit(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		var tol kerneltest.Tol
		if name == "full, noise" || name == "low rank" {
			tol = kerneltest.Tol{Rel: 1e-11, Abs: 1e-12} // 120 rows
		}
		a, b := fit(false), fit(true)
		kerneltest.Close(t, name+": log evidence", a.LogEvidence, b.LogEvidence, tol)
		if len(a.Beliefs) != len(b.Beliefs) {
			t.Fatalf("%s: %d and %d beliefs", name, len(a.Beliefs), len(b.Beliefs))
		}
		for k, w := range a.Beliefs {
			kerneltest.Close(t, name+": mean of "+w.Feature, b.Beliefs[k].Mean, w.Mean, tol)
			kerneltest.Close(t, name+": variance of "+w.Feature, b.Beliefs[k].Variance, w.Variance, tol)
		}
	}
}

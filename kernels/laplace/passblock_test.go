package laplace

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// Rows of numbers say the same by column, by row and entry by entry, with and without weights,
// offsets, a likelihood that looks at many rows at once, and variances that are learnt.
func TestPassByColumn(t *testing.T) {
	const k, n, batches = 7, 301, 3
	for _, learns := range []string{"nothing", "variances", "sites"} {
		for _, link := range []string{"logit", "probit"} {
			for _, scalars := range []bool{false, true} {
				var around *kernels.Fit
				for round := range 2 {
					what := fmt.Sprintf("%s, %s, weights and offsets %v, round %d", learns, link, scalars, round)
					set := func(m *kernels.Model) {
						m.Lik = newLik(t, "bernoulli", link, m.Params)
						m.Options.Standardize, m.Options.AutoPrior = true, learns == "variances"
						if learns == "sites" {
							m.Options.Sites = "ep"
						}
					}
					pass := func(form int) *Pass {
						s, err := NewPass(context.Background(), passModel(t, around, set))
						if err != nil {
							t.Fatal(err)
						}
						for _, b := range numberRows(t, &s.dict, k, n, batches, form == 1) {
							for i := range n {
								if scalars {
									b.Weight, b.Offset = append(b.Weight, 0.5*float64(i%4)), append(b.Offset, 0.1*float64(i%3))
								}
							}
							if form == 2 {
								b.Unshare()
							}
							if err := s.Update(t.Context(), b, false); err != nil {
								t.Fatal(err)
							}
						}
						return s
					}
					want := pass(2)
					if (want.shifted > 0) != (round > 0) {
						t.Fatalf("%s: %d columns are moved", what, want.shifted)
					}
					for form, name := range []string{"by row", "by column"} {
						got := pass(form)
						same := func(part string, a, b []float64) {
							for i := range b {
								kerneltest.Close(t, fmt.Sprintf("%s: %s, %s %d", what, name, part, i), a[i], b[i], kerneltest.Tol{Rel: 1e-11, Abs: 1e-9})
							}
						}
						same("log p", []float64{got.logLik, got.totals.Weight}, []float64{want.logLik, want.totals.Weight})
						same("slope", got.slope, want.slope)
						same("curvature", got.curv, want.curv)
						same("bend", got.bend, want.bend)
						same("what sites say", []float64{got.known}, []float64{want.known})
						if want.bare > 0 || (want.known > 0) != (learns == "sites" && round > 0) {
							t.Fatalf("%s: sites say %v, %d rows have none", what, want.known, want.bare)
						}
						same("squares", got.totals.Squares, want.totals.Squares)
						for j, x := range want.totals.Numbers {
							y := got.totals.Numbers[j]
							same("totals", []float64{y.Rows, y.Weight, y.Mean, y.Center, y.Squares, y.Missing}, []float64{x.Rows, x.Weight, x.Mean, x.Center, x.Squares, x.Missing})
						}
						if got.entries != want.entries {
							t.Errorf("%s: %s, %d entries, not %d", what, name, got.entries, want.entries)
						}
					}
					step, err := want.Solve(context.Background(), passModel(t, nil, set))
					if err != nil {
						t.Fatal(err)
					}
					around = step.Fit
				}
			}
		}
	}
}

// numberRows are batches of n rows of k numbers and the intercept, the same ones by row and by
// column.
func numberRows(t testing.TB, d *kernels.Dict, k, n, batches int, byColumn bool) (out []*kernels.Batch) {
	t.Helper()
	var names []string
	shared := []uint32{0}
	for c := range k {
		names = append(names, fmt.Sprintf("x%d", c))
	}
	d.Use(kernels.NewColumns(nil, names))
	for _, name := range names {
		f, err := d.Add(name)
		if err != nil {
			t.Fatal(err)
		}
		shared = append(shared, f)
	}
	schema := &kernels.Schema{Names: names, Levels: make([]bool, k)}
	rng := rand.New(rand.NewPCG(1, 2))
	for range batches {
		b := &kernels.Batch{Shared: shared, Schema: schema}
		for range n {
			b.Value = append(b.Value, 1)
			for j := range k {
				b.Value = append(b.Value, rng.NormFloat64()+100*float64(j%3))
			}
			b.Y = append(b.Y, float64(rng.IntN(2)))
		}
		if byColumn {
			for j := range shared {
				column := make([]float64, n)
				for i := range column {
					column[i] = b.Value[i*len(shared)+j]
				}
				b.Columns = append(b.Columns, column)
			}
			b.Value = nil
		}
		out = append(out, b)
	}
	return out
}

package engine_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// A column may have one number in all rows of a part: a stream centres it there, so that the part's
// prior correlates its weight with the intercept. The product of the parts is nearly the fit of all
// rows, from which it differs by the units in which each part stated the given prior, as do densities
// of first rows, by one or two nats.
func TestMergeConstantColumn(t *testing.T) {
	const n = 120
	for _, weighted := range []bool{true, false} {
		for _, bare := range []bool{true, false} {
			for _, covariance := range []string{"full", "arrowhead"} {
				for _, cut := range []int{4, 5, 9, 17} {
					r := newResumeRows("gaussian", n, 5)
					for i := range r.late {
						r.late[i] += 2 // equal until row 20
					}
					from := func(start *kernels.Fit, lo, hi int) *kernels.Fit {
						s := option.Defaults()
						s.Family, s.NoIntercept, s.Standardize, s.Params.Dispersion = "gaussian", bare, kernels.Given(true), 4e4
						s.Options.Covariance, s.Options.AutoDispersion = covariance, false
						if start != nil {
							s = option.Defaults()
							if err := s.Continue(start); err != nil {
								t.Fatal(err)
							}
						}
						in := &rows.Table{X: rows.Fields(rows.Numbers("u", r.u[lo:hi]), rows.Numbers("late", r.late[lo:hi])), Y: rows.Numbers("y", r.y[lo:hi])}
						if weighted {
							in.Weight = rows.Numbers("weight", r.weight[lo:hi])
						}
						f, err := engine.Fit(context.Background(), "adf", s, in)
						if err != nil {
							t.Fatal(err)
						}
						return f.Fit
					}
					want := from(nil, 0, n)
					for _, first := range []int{0, 2, 3} { // rows of a fit that both parts continue
						what := fmt.Sprintf("weighted %v, bare %v, %s, cut at %d and %d", weighted, bare, covariance, first, cut)
						var start *kernels.Fit
						if first > 0 {
							start = from(nil, 0, first)
						}
						got, err := kernels.MergeFits(context.Background(), []*kernels.Fit{from(start, first, cut), from(start, cut, n)}, start)
						if err != nil {
							t.Errorf("%s: %v", what, err)
							continue
						}
						for j, b := range got.Beliefs {
							w := want.Beliefs[j]
							if far := math.Abs(b.Mean-w.Mean) / math.Sqrt(w.Variance); b.Feature != w.Feature || !(far < 0.1) {
								t.Errorf("%s: %s has the mean %.4g, %.2g deviations from that of all rows", what, b.Feature, b.Mean, far)
							}
							kerneltest.Close(t, what+": variance of "+b.Feature, b.Variance, w.Variance, kerneltest.Tol{Rel: 0.05})
						}
						kerneltest.Close(t, what+": log evidence", got.LogEvidence, want.LogEvidence, kerneltest.Tol{Abs: 3})
					}
				}
			}
		}
	}
}

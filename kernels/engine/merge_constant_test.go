package engine_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// A column may have one number in all rows of a part: it is centred there, so that the part's prior
// correlates its weight with the intercept. The product of the parts is nearly the fit of all rows,
// from which it differs by the units in which each part stated the given prior, as do densities of
// first rows, by one or two nats.
func TestMergeConstantColumn(t *testing.T) {
	const n = 120
	for _, weighted := range []bool{true, false} {
		for _, bare := range []bool{true, false} {
			for _, method := range []string{"adf full", "adf arrowhead", "laplace"} {
				name, covariance, _ := strings.Cut(method, " ")
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
						f, err := engine.Fit(context.Background(), name, s, in)
						if err != nil {
							t.Fatal(err)
						}
						return f.Fit
					}
					want := from(nil, 0, n)
					for _, first := range []int{0, 2, 3} { // rows of a fit that both parts continue
						if first > 0 && name == "laplace" {
							continue // which has the units of its first rows
						}
						what := fmt.Sprintf("weighted %v, bare %v, %s, cut at %d and %d", weighted, bare, method, first, cut)
						var start *kernels.Fit
						if first > 0 {
							start = from(nil, 0, first)
						}
						got, err := kernels.MergeFits(context.Background(), []*kernels.Fit{from(start, first, cut), from(start, cut, n)}, start, adf.MergeArrowheads)
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

// Two parts of the same rows have the units of these rows, and so has the fit of all of them: for
// gaussian rows of given noise it is their product exactly. Columns say the standard deviation of
// their numbers, also if these are not centred because there is no intercept.
func TestMergeOfEqualParts(t *testing.T) {
	const n = 32 // where streams update the unit of their responses
	for _, method := range []string{"laplace", "ep", "lowrank", "adf full", "adf arrowhead", "sequential_laplace"} {
		for _, bare := range []bool{true, false} {
			for _, constant := range []bool{true, false} {
				r := newResumeRows("gaussian", n, 6)
				if constant {
					for i := range r.late {
						r.late[i] = 2
					}
				}
				fit := func(parts int) *kernels.Fit {
					s := option.Defaults()
					s.Family, s.NoIntercept, s.Standardize, s.Params.Dispersion = "gaussian", bare, kernels.Given(true), 4e4
					s.Prior.Variance, s.Options.AutoDispersion, s.Options.AutoPrior = 0.01, false, false // so that the prior matters
					name, covariance, _ := strings.Cut(method, " ")
					s.Options.Covariance = covariance
					again := func(x []float64) []float64 { return slices.Concat([][]float64{x, x}[:parts]...) }
					in := &rows.Table{X: rows.Fields(rows.Numbers("u", again(r.u)), rows.Numbers("late", again(r.late))), Y: rows.Numbers("y", again(r.y))}
					f, err := engine.Fit(context.Background(), name, s, in)
					if err != nil {
						t.Fatal(err)
					}
					return f.Fit
				}
				what := fmt.Sprintf("%s, bare %v, constant %v", method, bare, constant)
				part, want := fit(1), fit(2)
				got, err := kernels.MergeFits(context.Background(), []*kernels.Fit{part, part}, nil, adf.MergeArrowheads)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				for j, b := range got.Beliefs {
					w := want.Beliefs[j]
					kerneltest.Close(t, what+": mean of "+b.Feature, b.Mean, w.Mean, kerneltest.Tol{Rel: 1e-7, Abs: 1e-7 * math.Sqrt(w.Variance)})
					kerneltest.Close(t, what+": variance of "+b.Feature, b.Variance, w.Variance, kerneltest.Tol{Rel: 1e-7})
				}
				mean, spread := stat.PopMeanStdDev(r.u, nil)
				for _, f := range []*kernels.Fit{part, want, got} {
					c := f.Number("u")
					kerneltest.Close(t, what+": center of u", c.Center, mean, kerneltest.Tol{Rel: 1e-12})
					kerneltest.Close(t, what+": scale of u", c.Scale, spread, kerneltest.Tol{Rel: 1e-12})
				}
			}
		}
	}
}

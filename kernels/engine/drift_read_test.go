package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
)

// TestReadingChangesNothing: a stream whose weights drift goes on alike, whether or not its fit is read
// while rows come: to the bit, or to rounding where leaves catch up with their block.
func TestReadingChangesNothing(t *testing.T) {
	ctx := context.Background()
	for _, covariance := range []string{"arrowhead", "diagonal", "full", "lowrank"} {
		for _, numbers := range []bool{false, true} {
			m, err := Find("adf")
			if err != nil {
				t.Fatal(err)
			}
			s := option.Defaults()
			s.Family, s.Noise = "gaussian", 0.02
			s.Options.Covariance = covariance
			model, err := m.Model(s, false, false)
			if err != nil {
				t.Fatal(err)
			}
			run := func(read int) *kernels.Fit {
				rnd := rand.New(rand.NewPCG(1, 84))
				q, err := m.New(ctx, model)
				if err != nil {
					t.Fatal(err)
				}
				var b kernels.Batch
				for i := range 300 {
					b.Add(0, 1)
					b.AddNamed(q.Features(), fmt.Sprint("f", rnd.IntN(30)), 1)
					if numbers {
						b.AddNamed(q.Features(), "u", 5+rnd.NormFloat64())
					}
					b.EndRow()
					b.Y = append(b.Y, 3+math.Sin(float64(i)/40)+rnd.NormFloat64())
					if err := q.Update(ctx, &b, false); err != nil {
						t.Fatal(err)
					}
					b.Reset()
					if (i+1)%read == 0 {
						if _, err := q.Fit(ctx); err != nil {
							t.Fatal(err)
						}
					}
				}
				r, err := q.Fit(ctx)
				if err != nil {
					t.Fatal(err)
				}
				return r.Fit
			}
			want, got := run(1000), run(70)
			what := fmt.Sprintf("%s, numbers %v: ", covariance, numbers)
			tol := kerneltest.Tol{}
			if covariance == "arrowhead" {
				tol = kerneltest.Tol{Rel: 1e-10, Abs: 1e-10}
			}
			kerneltest.Close(t, what+"log evidence", got.LogEvidence, want.LogEvidence, tol)
			kerneltest.Close(t, what+"dispersion", got.Dispersion, want.Dispersion, tol)
			for k, b := range want.Beliefs {
				kerneltest.Close(t, what+"mean of "+b.Feature, got.Beliefs[k].Mean, b.Mean, tol)
				kerneltest.Close(t, what+"variance of "+b.Feature, got.Beliefs[k].Variance, b.Variance, tol)
			}
		}
	}
}

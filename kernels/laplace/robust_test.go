package laplace

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// Learnt and integrated variances are a default: whatever the rows are, there is a posterior,
// and its evidence is not below that of the variances it began with.
func TestLearningIsRobust(t *testing.T) {
	kerneltest.Slow(t)
	for _, family := range []string{"bernoulli", "gaussian", "poisson"} {
		for _, n := range []int{0, 1, 2, 3, 10, 60} {
			for _, shape := range []string{"levels", "one level", "a level each", "constant", "wide", "separated", "one class", "huge", "two columns alike"} {
				rng := rand.New(rand.NewPCG(9, uint64(n)))
				m := model(t, family, "", lik.Params{})
				m.NoIntercept = false
				m.Options = kernels.Options{AutoPrior: true, Integrate: true, AutoDispersion: family == "gaussian"}
				r, err := kernels.NewRows(m)
				if err != nil {
					t.Fatal(err)
				}
				r.Dict.Use(kernels.NewColumns([]string{"g", "h"}, []string{"u", "v"}))
				var b kernels.Batch
				b.Reset()
				for i := range n {
					b.Add(0, 1)
					add := func(name string, x float64) {
						id, err := r.Dict.Add(name)
						if err != nil {
							t.Fatal(err)
						}
						b.Add(id, x)
					}
					y := float64(i % 2)
					switch shape {
					case "levels":
						add(fmt.Sprintf("g=%d", rng.IntN(5)), 1)
						add("u", rng.NormFloat64())
					case "one level":
						add("g=a", 1)
					case "a level each":
						add(fmt.Sprintf("g=%d", i), 1)
						add(fmt.Sprintf("h=%d", i%2), 1)
					case "constant":
						add("u", 3)
						add("v", 0)
					case "wide":
						for j := range 80 {
							add(fmt.Sprintf("x%d", j), rng.NormFloat64())
						}
					case "separated":
						add("u", y+0.1*rng.Float64())
						add(fmt.Sprintf("g=%v", y), 1)
					case "one class":
						y = 1
						add(fmt.Sprintf("g=%d", rng.IntN(4)), 1)
						add("u", rng.NormFloat64())
					case "huge":
						add("u", 1e9*rng.NormFloat64())
						add("v", 1e-9*rng.NormFloat64())
					case "two columns alike":
						k := rng.IntN(3)
						add(fmt.Sprintf("g=%d", k), 1)
						add(fmt.Sprintf("h=%d", k), 1)
					}
					b.EndRow()
					if family == "poisson" {
						y *= 3
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
				what := fmt.Sprintf("%s, %d rows, %s", family, n, shape)
				f, err := Fit(context.Background(), p)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				given := *p
				own := *p.Model
				own.Options.AutoPrior, own.Options.Integrate = false, false
				given.Model = &own
				g, err := Fit(context.Background(), &given)
				if err != nil {
					t.Fatal(what, err)
				}
				if f.LogEvidence < g.LogEvidence-1e-6*(1+math.Abs(g.LogEvidence)) {
					t.Errorf("%s: evidence %v, with variances of 1 %v", what, f.LogEvidence, g.LogEvidence)
				}
				for _, b := range f.Beliefs {
					if !(b.Variance > 0) || math.Abs(b.Mean) > 1e12 {
						t.Errorf("%s: %+v", what, b)
					}
				}
				if n < 20 && testing.Verbose() {
					fmt.Println(what, f.Prior.Variance, f.Dispersion, f.Status)
				}
			}
		}
	}
}

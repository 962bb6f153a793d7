package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// A low-rank stream goes on at its own rank, unless another is given.
func TestRankGoesOn(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(2, 7))
	table := func(n int) *rows.Table {
		y, g, h := make([]bool, n), make([]string, n), make([]string, n)
		for i := range n {
			y[i], g[i], h[i] = rng.IntN(2) == 0, fmt.Sprint("k", rng.IntN(40)), fmt.Sprint("k", rng.IntN(40))
		}
		return &rows.Table{X: rows.Fields(rows.Texts("g", g), rows.Texts("h", h)), Y: rows.Bools("y", y)}
	}
	few, more := table(10), table(150)
	for _, method := range []string{"adf", "ekf"} {
		fit := func(start *kernels.Fit, rank int, rs *rows.Table) *kernels.Fit {
			s := option.Defaults()
			if s.Start, s.Options.Rank = start, rank; start == nil {
				s.Options.Covariance = "lowrank"
			}
			r, err := engine.Fit(ctx, method, s, rs)
			if err != nil {
				t.Fatal(err)
			}
			return r.Fit
		}
		for _, c := range []struct{ first, then, is int }{{5, 0, 5}, {5, 7, 7}, {70, 0, 70}, {0, 0, 50}, {0, 5, 5}} {
			first := fit(nil, c.first, few)
			a, b := fit(first, c.then, more), fit(first, c.is, more)
			if posteriorText(a) != posteriorText(b) {
				t.Errorf("%s of rank %d, continued with %d, is not of rank %d", method, c.first, c.then, c.is)
			}
			if posteriorText(fit(a, 0, more)) != posteriorText(fit(a, c.is, more)) {
				t.Errorf("%s of rank %d, continued with %d and again, is not of rank %d", method, c.first, c.then, c.is)
			}
			if other := fit(first, c.is+3, more); posteriorText(a) == posteriorText(other) {
				t.Error("these rows are the same under any rank")
			}
		}
	}
}

// posteriorText is the posterior of f to the last bit.
func posteriorText(f *kernels.Fit) string { return fmt.Sprint(f.Beliefs, f.Covariance, f.LogEvidence) }

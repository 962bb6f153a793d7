package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// drawGamma draws n rows of gamma with a whole shape, by a number, some levels and weights; one of
// them has the response one, unless that is 0.
func drawGamma(seed uint64, n, shape, levels int, one float64) *rows.Table {
	rnd := rand.New(rand.NewPCG(seed, 31))
	var u, y, w []float64
	var g []string
	for range n {
		x, level, v := rnd.NormFloat64(), rnd.IntN(levels), 0.0
		for range shape {
			v += rnd.ExpFloat64()
		}
		u, g = append(u, x), append(g, fmt.Sprint("g", level))
		v *= math.Exp(2+0.5*x+0.3*float64(level)) / float64(shape)
		y, w = append(y, v), append(w, 1+float64(rnd.IntN(2)))
	}
	if one > 0 {
		y[n/2] = one
	}
	x := rows.Fields(rows.Numbers("u", u), rows.Texts("g", g))
	return &rows.Table{X: x, Y: rows.Numbers("y", y), Weight: rows.Numbers("w", w)}
}

// TestOutlying: a single response of a million among some ten is not fitted with the status ok, and
// ordinary responses and very small ones are not blamed. Where the mean of a few rows can follow
// it, few rows may not show it.
func TestOutlying(t *testing.T) {
	kerneltest.Slow(t)
	const sentence = "some responses lie further above the others than gamma allows"
	for _, c := range []struct{ n, shape, levels, least int }{
		{12, 4, 4, 0}, {12, 50, 2, 0}, {60, 4, 20, 0}, {60, 1, 1, 10}, {60, 4, 1, 10}, {60, 50, 1, 10}, {400, 1, 4, 12}, {400, 4, 4, 12},
	} {
		said := map[float64]int{}
		for seed := range uint64(12) {
			for _, one := range []float64{0, 1e-9, 1e6} {
				s := option.Defaults()
				s.Family = "gamma"
				r, err := Fit(context.Background(), "auto", s, drawGamma(seed, c.n, c.shape, c.levels, one))
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(r.Fit.Status, sentence) {
					said[one]++
				}
			}
		}
		t.Logf("%+v: %v", c, said)
		if said[0]+said[1e-9] > 0 || said[1e6] < c.least {
			t.Errorf("%+v: said of %v of 12 sets each", c, said)
		}
	}
}

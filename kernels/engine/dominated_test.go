package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// TestDominated: a single response of a million among some ten is not fitted with the status ok by
// a family whose means follow it, and responses of the model itself are not blamed, however far
// their tail reaches.
func TestDominated(t *testing.T) {
	kerneltest.Slow(t)
	for _, c := range []struct {
		family     string
		shape      float64
		n, levels  int
		least, all int // sets of those with such a response of which it is said
	}{
		{"gaussian", 0, 12, 4, 0, 20}, {"gaussian", 0, 60, 4, 20, 20}, {"gaussian", 0, 400, 20, 20, 20},
		{"negbinomial", 0.05, 30, 1, 0, 20}, {"negbinomial", 0.05, 300, 4, 10, 20}, {"negbinomial", 0.3, 30, 1, 10, 20}, {"negbinomial", 0.3, 300, 4, 20, 20},
		{"negbinomial", 2, 12, 1, 10, 20}, {"negbinomial", 2, 300, 4, 20, 20}, {"negbinomial", 100, 60, 4, 10, 20},
	} {
		p := lik.Params{Dispersion: 1, Shape: c.shape}
		l, err := lik.New(c.family, "", p)
		if err != nil {
			t.Fatal(err)
		}
		said := map[float64]int{}
		for seed := range uint64(c.all) {
			for _, one := range []float64{0, 1e6} {
				rnd := rand.New(rand.NewPCG(seed, 41))
				var u, y, w []float64
				var g []string
				for range c.n {
					x, level := rnd.NormFloat64(), rnd.IntN(c.levels)
					u, g, w = append(u, x), append(g, fmt.Sprint("g", level)), append(w, 1+float64(rnd.IntN(2)))
					s := 2 + 0.5*x + 0.3*float64(level%4)
					if c.shape == 0 {
						y = append(y, s+rnd.NormFloat64())
					} else {
						y = append(y, l.(lik.Distribution).Draw(s, 0, rnd))
					}
				}
				if one > 0 {
					y[c.n/2] = one
				}
				s := option.Defaults()
				s.Family = c.family
				x := rows.Fields(rows.Numbers("u", u), rows.Texts("g", g))
				r, err := Fit(context.Background(), "auto", s, &rows.Table{X: x, Y: rows.Numbers("y", y), Weight: rows.Numbers("w", w)})
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(r.Fit.Status, "one response, ") {
					said[one]++
				}
			}
		}
		t.Logf("%+v: %v", c, said)
		if said[0] > 0 || said[1e6] < c.least {
			t.Errorf("%+v: said of %v of %d sets each", c, said, c.all)
		}
	}
}

package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// numberAt is number i of a column.
func numberAt(c rows.Column, i int) float64 {
	v := make([]float64, 1)
	c.Floats(v, i)
	return v[0]
}

const overshoots = "the fit's own rows are expected to respond "

// drawExposed draws n gamma responses of this shape, or counts with this size, in proportion to a
// lognormal exposure of deviation sd, and the exposure as it is, or its logarithm, among x.
func drawExposed(seed uint64, n int, family string, shape, sd float64, raw bool) *rows.Table {
	src := rand.NewPCG(seed, 77)
	rnd := rand.New(src)
	var y, u, e []float64
	for range n {
		a, b := rnd.NormFloat64(), sd*rnd.NormFloat64()
		v := math.Exp(1+0.4*a+b) * distuv.Gamma{Alpha: shape, Beta: shape, Src: src}.Rand()
		if family == "negbinomial" {
			v = distuv.Poisson{Lambda: v, Src: src}.Rand()
		}
		if raw {
			b = math.Exp(b)
		}
		y, u, e = append(y, max(v, math.SmallestNonzeroFloat64)), append(u, a), append(e, b)
	}
	if family == "negbinomial" {
		for i := range y {
			y[i] = math.Floor(y[i])
		}
	}
	return &rows.Table{X: rows.Fields(rows.Numbers("u", u), rows.Numbers("e", e)), Y: rows.Numbers("y", y)}
}

// TestOvershoot: every batch engine says that an exposure given as a number, not as an offset, makes
// it expect many times what came, and through which column; passes, which keep no rows, say the same
// sum. Nothing is said of the exposure's logarithm, and nothing of responses that vary a great deal.
func TestOvershoot(t *testing.T) {
	kerneltest.Slow(t)
	set := func(family string) func(*option.Settings) {
		return func(s *option.Settings) { s.Family = family }
	}
	fit := func(method string, set func(*option.Settings), tab *rows.Table) string {
		t.Helper()
		s := option.Defaults()
		set(s)
		r, err := Fit(context.Background(), method, s, tab)
		if err != nil {
			t.Fatal(err)
		}
		return r.Fit.Status
	}
	for _, family := range []string{"gamma", "negbinomial"} {
		for seed := range uint64(4) {
			raw, logs := drawExposed(seed, 1000, family, 2, 1.5, true), drawExposed(seed, 1000, family, 2, 1.5, false)
			for _, method := range []string{"auto", "laplace", "ep", "lowrank"} {
				if s := fit(method, set(family), raw); !strings.Contains(s, overshoots) || !strings.Contains(s, " together, the most through e, and they did ") {
					t.Errorf("%s, %s, seed %d: %s", family, method, seed, s)
				}
				if s := fit(method, set(family), logs); strings.Contains(s, overshoots) {
					t.Errorf("%s, %s, seed %d, log: %s", family, method, seed, s)
				}
			}
		}
		given := func(s *option.Settings) {
			s.Family, s.Params.Shape, s.Prior.Variance, s.Standardize = family, 2, 1, kernels.Given(false)
		}
		tab := drawExposed(5, 1000, family, 2, 1.2, true)
		sum := func(status string) string {
			t.Helper()
			_, rest, ok := strings.Cut(status, overshoots)
			if !ok {
				t.Fatalf("%s: %s", family, status)
			}
			sum, _, _ := strings.Cut(rest, " ")
			return sum
		}
		f, _ := passes(t, given, tab, 3, nil)
		low, _ := lowRankPasses(t, []any{"family", family, "shape", 2.0, "prior_variance", 1.0, "standardize", false}, tab, 3)
		want := sum(fit("laplace", given, tab))
		if a, b := sum(f.Status), sum(low.Status); a != want || b != want {
			t.Errorf("%s: passes expect %s, those of low rank %s; laplace %s", family, a, b, want)
		}
		// Passes on scales of their own say it in the responses' unit.
		low, _ = lowRankPasses(t, []any{"family", family, "shape", 2.0}, tab, 3)
		came := 0.0
		for i := range tab.Len() {
			came += numberAt(tab.Y, i)
		}
		if want := fmt.Sprintf("and they did %.3g:", came); !strings.Contains(low.Status, overshoots) || !strings.Contains(low.Status, want) {
			t.Errorf("%s: standardised passes of low rank: %s; %s", family, low.Status, want)
		}
	}
	for seed := range uint64(40) {
		for _, n := range []int{12, 30, 200} {
			for _, shape := range []float64{0.3, 1, 5} {
				for _, family := range []string{"gamma", "negbinomial"} {
					if s := fit("laplace", set(family), drawExposed(seed, n, family, shape, 1.5, false)); strings.Contains(s, overshoots) {
						t.Errorf("%s, %d rows of shape %v, seed %d: %s", family, n, shape, seed, s)
					}
				}
			}
		}
	}
}

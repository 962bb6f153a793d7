package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// Settings serve any number of fits, also at the same time, and stay as they were.
func TestSettingsServeMany(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 1))
	const n = 60
	x, y, g := make([]float64, n), make([]float64, n), make([]string, n)
	for i := range x {
		x[i], g[i] = 3*rng.NormFloat64(), fmt.Sprint("k", i%5)
		y[i] = 1 + x[i] + rng.NormFloat64()
	}
	sets := []func(*option.Settings){
		func(*option.Settings) {},
		func(s *option.Settings) { s.Family = "gaussian" },
		func(s *option.Settings) { s.Columns = "any" },
	}
	starts := []func() *option.Settings{option.Defaults, func() *option.Settings { return &option.Settings{} }}
	if testing.Short() { // the others write to settings in the same places
		sets, starts = sets[:1], starts[:1]
	}
	for _, m := range engine.Methods() {
		for _, set := range sets {
			for _, start := range starts {
				rs := &rows.Table{X: rows.Fields(rows.Numbers("x", x), rows.Texts("g", g)), Y: rows.Numbers("y", y)}
				s := start()
				if set(s); m.Name == "hmc" {
					s.Options.Samples, s.Options.Warmup, s.Options.Chains = 50, 50, 1
				}
				switch {
				case m.Kind == engine.Classes:
					rs.Y = rows.Texts("y", g)
				case m.Kind == engine.Process:
					rs.X = rows.Fields(rows.Numbers("x", x))
				case s.Family == "":
					b := make([]bool, n)
					for i := range b {
						b[i] = y[i] > 1
					}
					rs.Y = rows.Bools("y", b)
				}
				fit := func() string {
					r, err := engine.Fit(ctx, m.Name, s, rs)
					if err != nil {
						return err.Error()
					}
					return fmt.Sprintf("%+v", *r.Fit)
				}
				before := fmt.Sprintf("%+v", *s)
				first := fit()
				var others [2]string
				var wait sync.WaitGroup
				for k := range others {
					wait.Go(func() { others[k] = fit() })
				}
				wait.Wait()
				if after := fmt.Sprintf("%+v", *s); after != before {
					t.Errorf("%s: settings\n%s\nbecame\n%s", m.Name, before, after)
				}
				for _, other := range others {
					if other != first {
						t.Errorf("%s %s%s: the first fit is\n%.600s\nanother one\n%.600s", m.Name, s.Family, s.Columns, first, other)
					}
				}
			}
		}
	}
}

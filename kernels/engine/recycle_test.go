package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// A fit in the memory of another one is the fit in memory of its own, to the last bit, whatever
// that other one has been and whatever becomes of it; what was read of it before stays.
func TestRecycle(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	table := func(n, levels int, family string) *rows.Table {
		var u, v, y, w []float64
		var g []string
		for range n {
			u, v = append(u, 100+r.NormFloat64()), append(v, float64(r.IntN(3)))
			g, w = append(g, fmt.Sprint("l", r.IntN(levels))), append(w, float64(r.IntN(3)))
			switch family {
			case "bernoulli":
				y = append(y, float64(r.IntN(2)))
			case "poisson", "negbinomial":
				y = append(y, float64(r.IntN(9)))
			default:
				y = append(y, 3+r.NormFloat64())
			}
		}
		x := rows.Fields(rows.Numbers("u", u), rows.Numbers("v", v), rows.Texts("g", g))
		return &rows.Table{X: x, Y: rows.Numbers("y", y), Weight: rows.Numbers("w", w)}
	}
	for _, family := range []string{"bernoulli", "gaussian", "studentt", "poisson", "negbinomial"} {
		for name, with := range map[string]func(s *option.Settings){
			"plain":     func(*option.Settings) {},
			"diagonal":  func(s *option.Settings) { s.Options.Covariance = "diagonal" },
			"full":      func(s *option.Settings) { s.Options.Covariance = "full" },
			"drift":     func(s *option.Settings) { s.Noise = 0.01 },
			"any noise": func(s *option.Settings) { s.Options.AutoNoise = true },
			"forgets":   func(s *option.Settings) { s.Options.Covariance, s.Forgetting = "diagonal", 0.99 },
		} {
			what := family + ", " + name
			s := option.Defaults()
			s.Family = family
			with(s)
			m, err := engine.Find("adf")
			if err != nil {
				t.Fatal(err)
			}
			model, err := m.Model(s, false, false)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			empty, err := m.New(context.Background(), model)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			feed := func(f engine.Fitter, tab *rows.Table) engine.Fitter {
				src, err := tab.Source()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := src.Feed(context.Background(), f, model, option.Fail, 0, tab.Len(), &kernels.Batch{}); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				return f
			}
			read := func(f engine.Fitter) (*kernels.Fit, string) {
				res, err := f.Fit(context.Background())
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				return res.Fit, fmt.Sprintf("%+v", *res.Fit)
			}
			recycler := empty.(engine.Recycler)
			var old engine.Fitter
			var kept []*kernels.Fit
			var said []string
			for range 20 {
				tab := table(1+r.IntN(30), 1+r.IntN(12), family)
				f := feed(recycler.CloneTo(old), tab)
				got, text := read(f)
				if _, want := read(feed(empty.Clone(), tab)); text != want {
					t.Fatalf("%s:\ngot  %s\nwant %s", what, text, want)
				}
				kept, said, old = append(kept, got), append(said, text), f
			}
			if !slices.EqualFunc(kept, said, func(f *kernels.Fit, s string) bool { return fmt.Sprintf("%+v", *f) == s }) {
				t.Errorf("%s: a fit changed when its memory was used again", what)
			}
			if _, text := read(empty.Clone()); text != func() string { e, _ := m.New(context.Background(), model); _, s := read(e); return s }() {
				t.Errorf("%s: the empty fit has changed", what)
			}
		}
	}
}

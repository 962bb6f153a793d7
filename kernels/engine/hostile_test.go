package engine_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
)

// hostile are columns as they come in tables of a newcomer, beside one that matters.
func hostile(n int) map[string]*rows.Slice {
	rng := rand.New(rand.NewPCG(9, uint64(n)))
	num := func(f func(i int) float64) *rows.Slice {
		x := make([]float64, n)
		for i := range x {
			x[i] = f(i)
		}
		return rows.Numbers("h", x)
	}
	text := func(f func(i int) string) *rows.Slice {
		x := make([]string, n)
		for i := range x {
			x[i] = f(i)
		}
		return rows.Texts("h", x)
	}
	return map[string]*rows.Slice{
		"id":          num(func(i int) float64 { return float64(700_000 + i) }),
		"constant":    num(func(int) float64 { return 7 }),
		"zeros":       num(func(int) float64 { return 0 }),
		"constant1e9": num(func(int) float64 { return 1e9 }),
		"1e12":        num(func(int) float64 { return 1e12 * rng.NormFloat64() }),
		"1e-12":       num(func(int) float64 { return 1e-12 * rng.NormFloat64() }),
		"1e100":       num(func(int) float64 { return 1e100 * rng.NormFloat64() }),
		"1e-100":      num(func(int) float64 { return 1e-100 * rng.NormFloat64() }),
		"seconds":     num(func(int) float64 { return 1.7e9 + 1e7*rng.NormFloat64() }),
		"nanoseconds": num(func(int) float64 { return 1.7e18 + 1e7*rng.NormFloat64() }),
		"far":         num(func(int) float64 { return 1e12 + rng.NormFloat64() }),
		"heavy":       num(func(int) float64 { return math.Exp(8 * rng.NormFloat64()) }),
		"one odd":     num(func(i int) float64 { return map[bool]float64{true: 1e9}[i == 3] }),
		"levels":      text(func(i int) string { return fmt.Sprint("k", i*7919%(n/2)) }),
		"names":       text(func(i int) string { return fmt.Sprint("id", i) }),
	}
}

// A column that says nothing does no harm, in any unit and any form of the posterior:
// predictions stay near those without it.
func TestHostileColumns(t *testing.T) {
	kerneltest.Slow(t)
	n := 400
	rng := rand.New(rand.NewPCG(4, 4))
	u, y, r := make([]float64, n), make([]bool, n), make([]float64, n)
	for i := range u {
		u[i] = rng.NormFloat64()
		y[i] = rng.Float64() < 1/(1+math.Exp(-1.5*u[i]))
		r[i] = 3e4 + 200*u[i] + 100*rng.NormFloat64()
	}
	for name, h := range hostile(n) {
		for _, c := range []struct {
			method string
			set    func(*option.Settings)
		}{
			{"laplace", func(s *option.Settings) {}},
			{"laplace", func(s *option.Settings) { s.Family = "gaussian" }},
			{"laplace", func(s *option.Settings) { s.Options.Hessian = "diagonal" }},
			{"laplace", func(s *option.Settings) { s.Options.AutoPrior = true }},
			{"lowrank", func(s *option.Settings) {}},
			{"ep", func(s *option.Settings) { s.Options.MaxIter = 20 }},
			{"ep", func(s *option.Settings) { s.Options.Covariance = "full" }},
			{"ep", func(s *option.Settings) { s.Family, s.Options.Covariance = "gaussian", "full" }},
		} {
			s := option.Defaults()
			c.set(s)
			what := fmt.Sprintf("%s %s %s%s auto %v beside %s", c.method, s.Family, s.Options.Hessian, s.Options.Covariance, s.Options.AutoPrior, name)
			tab := &rows.Table{X: rows.Fields(rows.Numbers("u", u), h), Y: rows.Bools("y", y)}
			if s.Family == "gaussian" {
				tab.Y = rows.Numbers("y", r)
			}
			f, err := engine.Fit(context.Background(), c.method, s, tab)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			sc, err := predict.New(f.Fit)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			loss, base := 0.0, 0.0
			for i := range u {
				names, xs := []string{"u", "h"}, []float64{u[i], 0}
				if h.Kind() == rows.Text {
					names[1], xs[1] = "h=nobody", 1
				} else {
					h.Floats(xs[1:], i)
				}
				row, err := sc.Row(names, xs, 0)
				if err != nil {
					t.Fatal(err)
				}
				p, err := sc.Predict(row, 0, predict.Exact)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					break
				}
				if s.Family == "gaussian" {
					loss += (r[i] - p) * (r[i] - p) / float64(n)
					base = 1.15 * 1e4
					continue
				}
				if y[i] {
					loss -= math.Log(p) / float64(n)
				} else {
					loss -= math.Log1p(-p) / float64(n)
				}
				base = 0.56 // alone 0.52
			}
			if !(loss < base) && f.Status == "ok" {
				t.Errorf("%s: loss %v, status %q", what, loss, f.Status)
			}
		}
	}
}

// Numbers that cannot be squared are an error that names them.
func TestBeyond(t *testing.T) {
	for _, x := range []float64{1e200, 1e-200} {
		tab := &rows.Table{X: rows.Fields(rows.Numbers("far", []float64{x, 2 * x, -x})), Y: rows.Bools("y", []bool{true, false, true})}
		_, err := engine.Fit(context.Background(), "laplace", nil, tab)
		if err == nil || !strings.Contains(err.Error(), `feature "far": the spread of its numbers`) {
			t.Errorf("%g: %v", x, err)
		}
	}
}

// Ten thousand levels beside numbers: the posteriors that are not full restore what
// centring ties to the intercept, so that units do not matter there either.
func TestManyLevelsInUnits(t *testing.T) {
	kerneltest.Slow(t)
	n := 3000
	s := draw(n, "bernoulli")
	for i := range s.g {
		s.g[i] = fmt.Sprint("g", i*7919%1200)
	}
	one, far := affine{0, 1}, affine{1.7e9, 1e7}
	for _, c := range []kernels.Options{{}, {Hessian: "diagonal"}, {Hessian: "lowrank", Rank: 5}} {
		for _, family := range []string{"bernoulli", "gaussian"} {
			set := func(o *option.Settings) { o.Family, o.Options = family, c }
			want := s.fit(t, "laplace", set, one, one, one)
			got := s.fit(t, "laplace", set, far, one, one)
			what := fmt.Sprintf("%s hessian %q, %v", family, c.Hessian, got.Covariance.Form)
			if len(got.Beliefs) < 1000 || got.Covariance.Form == gauss.Full && c.Hessian != "" {
				t.Errorf("%s: %d weights", what, len(got.Beliefs))
			}
			for _, g := range []string{"g7", "never"} {
				m, v := eta(t, want, one, one, g)
				x, w := eta(t, got, far, one, g)
				kerneltest.Close(t, what+" mean", x, m, kerneltest.Tol{Rel: 1e-6, Abs: 1e-6})
				kerneltest.Close(t, what+" variance", w, v, kerneltest.Tol{Rel: 1e-5})
			}
		}
	}
}

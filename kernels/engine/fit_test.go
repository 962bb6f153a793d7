package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// table is rows of a text, a number and a response that goes with both.
func table(n int) *rows.Table {
	ad, x, y := make([]string, n), make([]float64, n), make([]bool, n)
	for i := range n {
		ad[i], x[i] = string(rune('a'+i%3)), float64(i%7)/7
		y[i] = (i*i+i%3)%5 > 1
	}
	return &rows.Table{X: rows.Fields(rows.Texts("ad", ad), rows.Numbers("x", x)), Y: rows.Bools("y", y)}
}

// Every method fits a table through the one door, and its kind says what comes of it.
func TestFit(t *testing.T) {
	for _, m := range engine.Methods() {
		tab, s := table(40), option.Defaults()
		if m.Name == "hmc" {
			s.Options.Samples, s.Options.Warmup, s.Options.Chains = 50, 50, 1
		}
		switch m.Kind {
		case engine.Classes:
			tab.Y = rows.Texts("y", strings.Split(strings.Repeat("red,green,blue,green,", 10), ",")[:40])
		case engine.Process:
			x := make([][]float64, 40)
			for i := range x {
				x[i] = []float64{float64(i) / 40, float64(i % 4)}
			}
			tab.X = rows.Lists(x)
		case engine.Paths:
			s.Noise = 0.1
		}
		f, err := engine.Fit(context.Background(), m.Name, s, tab)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		if f.Method == "" || f.N != 40 || math.IsNaN(f.LogEvidence) || f.Status == "" {
			t.Errorf("%s: %+v", m.Name, f.Fit)
		}
		if (f.Pass != nil) != (m.Kind == engine.Parts) {
			t.Errorf("%s: pass %v", m.Name, f.Pass)
		}
		weights := map[engine.Kind]int{engine.Weights: 5, engine.Paths: 5, engine.Classes: 15}[m.Kind]
		if len(f.Beliefs) != weights || (len(f.Path) > 0) != (m.Kind == engine.Paths) || (f.Process != nil) != (m.Kind == engine.Process) {
			t.Errorf("%s: %d beliefs, %d moments, process %v", m.Name, len(f.Beliefs), len(f.Path), f.Process != nil)
		}
	}
}

func TestFitErrors(t *testing.T) {
	x := rows.Numbers("x", []float64{1, 2})
	for _, c := range []struct {
		method string
		t      rows.Table
		family string
		want   string
	}{
		{"laplas", rows.Table{X: rows.Fields(x), Y: x}, "", "the nearest is laplace"},
		{"laplace", rows.Table{Y: x}, "", "no X"},
		{"laplace", rows.Table{X: rows.Fields(x), Y: rows.Numbers("y", []float64{1})}, "", "has 2 rows; allowed: those of y, 1"},
		{"laplace", rows.Table{X: rows.Fields(x), Y: rows.Numbers("y", []float64{1, 7})}, "", "row 2: y = 7"},
		{"laplace", rows.Table{X: x, Y: x}, "gaussian", "x is Numbers; allowed: Fields"},
		{"laplace", rows.Table{X: rows.Fields(x), Y: rows.Numbers("y", []float64{1, 0}), Weight: rows.Texts("w", []string{"a", "b"})}, "", "weight is Texts; allowed: Numbers"},
		{"laplace", rows.Table{X: rows.Fields(x), Y: rows.Texts("y", []string{"no", "yes"})}, "", "y is Texts; allowed: numbers or truth values; labels are for softmax"},
		{"adf", rows.Table{X: rows.Fields(x), Y: rows.Lists([][]float64{{1}, {0}})}, "gaussian", "y is Lists; allowed: numbers"},
		{"gp", rows.Table{X: rows.Lists([][]float64{{1}, {2}}), Y: rows.Fields(x)}, "", "y is Fields; allowed: numbers"},
		{"laplace", rows.Table{X: rows.Fields(x, rows.Numbers("x", []float64{3, 1})), Y: rows.Numbers("y", []float64{1, 0})}, "", `two columns are called "x"`},
		{"adf", rows.Table{X: rows.Fields(x, rows.Texts("x", []string{"a", "b"})), Y: rows.Numbers("y", []float64{1, 0})}, "", `two columns are called "x"`},
		{"gp", rows.Table{X: rows.Fields(x), Y: rows.Numbers("y", []float64{1, 0})}, "", "takes a list of numbers"},
		{"gp", rows.Table{X: rows.Lists([][]float64{{1}, {1, 2}}), Y: rows.Numbers("y", []float64{1, 0})}, "", "row 2: x has 2 values, the rows before have 1"},
	} {
		s := option.Defaults()
		s.Family = c.family
		if _, err := engine.Fit(context.Background(), c.method, s, &c.t); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.method, err, c.want)
		}
	}
	s := option.Defaults()
	s.Method = "ep"
	if f, err := engine.Fit(context.Background(), engine.Auto, s, table(30)); err != nil || f.Method != "ep" {
		t.Error("the method of the settings:", err)
	}
	s = option.Defaults()
	s.Method = "ep"
	if _, err := engine.Fit(context.Background(), "laplace", s, table(30)); err == nil || !strings.Contains(err.Error(), "method: found 'ep'") {
		t.Error(err)
	}
	s = option.Defaults()
	s.Options.Samples = 500
	if _, err := engine.Fit(context.Background(), "adf", s, table(30)); err == nil || !strings.Contains(err.Error(), "samples: found 500; is not used here; it belongs to: hmc; allowed: family, link") {
		t.Error(err)
	}
	s = option.Defaults()
	s.OnError = option.Skip
	f, err := engine.Fit(context.Background(), "adf", s, &rows.Table{X: rows.Fields(x), Y: rows.Numbers("y", []float64{1, 7})})
	if err != nil || f.N != 1 || f.Skipped != 1 {
		t.Error(f, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := engine.Fit(ctx, "hmc", nil, table(30)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A fit from slices of Go, without a database.
func ExampleFit() {
	late := []bool{true, false, true, false, true, false, true, true}
	origin := []string{"ATL", "BOS", "ATL", "BOS", "ATL", "ATL", "BOS", "ATL"}
	s := option.Defaults()
	s.Link = "probit"
	f, err := engine.Fit(context.Background(), "laplace", s, &rows.Table{X: rows.Fields(rows.Texts("origin", origin)), Y: rows.Bools("late", late)})
	if err != nil {
		panic(err)
	}
	for _, b := range f.Beliefs {
		fmt.Printf("%-12s %6.3f ± %.3f\n", b.Feature, b.Mean, math.Sqrt(b.Variance))
	}
	// Output:
	// (Intercept)   0.223 ± 0.823
	// origin=ATL    0.444 ± 0.795
	// origin=BOS   -0.422 ± 0.798
}

// Settings whose Start is set go on as those of Continue do: what stands at its default is that of
// the fit, and what does not must agree with it.
func TestFitOnFromStart(t *testing.T) {
	counts := func() *rows.Table {
		return &rows.Table{X: rows.Lists([][]string{{"a"}, {"b"}, {"a", "b"}, {"c"}}), Y: rows.Numbers("y", []float64{3, 0, 2, 5})}
	}
	first := func() *option.Settings {
		s := option.Defaults()
		s.Family, s.NoIntercept, s.HashBits, s.Prior.Variance = "poisson", true, 4, 2
		return s
	}
	for _, method := range []string{"adf", "laplace", "ep"} {
		start, err := engine.Fit(t.Context(), method, first(), counts())
		if err != nil {
			t.Fatal(err)
		}
		want := option.Defaults()
		if err := want.Continue(start.Fit); err != nil {
			t.Fatal(err)
		}
		a, err := engine.Fit(t.Context(), method, want, counts())
		if err != nil {
			t.Fatal(err)
		}
		s := option.Defaults()
		s.Start = start.Fit
		b, err := engine.Fit(t.Context(), method, s, counts())
		if err != nil || b.Family != "poisson" || b.Intercept || b.HashBits != 4 || b.N != 8 || !slices.Equal(a.Beliefs, b.Beliefs) {
			t.Errorf("%s: %v; %+v, want %+v", method, err, b, a)
		}
		for key, set := range map[string]func(s *option.Settings){
			"family":    func(s *option.Settings) { s.Family = "gaussian" },
			"hash_bits": func(s *option.Settings) { s.HashBits = 5 },
		} {
			s := option.Defaults()
			s.Start = start.Fit
			set(s)
			if _, err := engine.Fit(t.Context(), method, s, counts()); err == nil || !strings.Contains(err.Error(), key+": found ") || !strings.Contains(err.Error(), "the prior fit has") {
				t.Errorf("%s, %s: %v", method, key, err)
			}
		}
	}
}

// A table without rows gives the prior.
func TestFitOfNoRows(t *testing.T) {
	for _, method := range []string{"adf", "laplace", engine.Auto} {
		f, err := engine.Fit(context.Background(), method, nil, &rows.Table{X: rows.Fields(rows.Numbers("u", nil)), Y: rows.Bools("y", nil)})
		if err != nil {
			t.Errorf("%s: %v", method, err)
			continue
		}
		for _, b := range f.Fit.Beliefs {
			if b.Mean != 0 || math.Abs(b.Variance/f.Fit.Prior.Of([]byte(b.Feature)).Variance-1) > 1e-12 {
				t.Errorf("%s: %v", method, b)
			}
		}
		if f.Fit.N != 0 {
			t.Errorf("%s: n = %d", method, f.Fit.N)
		}
	}
}

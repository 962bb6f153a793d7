package engine_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/kernels/score"
)

// A column of levels whose name holds '=' is one like any other: it has a variance of its own,
// learnt or given, and a mean of its levels, also beside a column whose name its own begins with,
// where a fit goes on from another one, and for levels that a fit has not seen.
func TestColumnsNamedWithEquals(t *testing.T) {
	kerneltest.Slow(t)
	const n = 120
	var x, y []float64
	var g, h []string
	for i := range n {
		g, h = append(g, fmt.Sprint("l", i%7)), append(h, fmt.Sprint("m", i*i%5))
		x = append(x, math.Sin(2.9*float64(i)))
		y = append(y, math.Sin(1.7*float64(i))+0.3*float64(i%7))
	}
	type names struct{ g, h string }
	plain := names{"g", "h"}
	fit := func(method string, nm names, lo, hi int, set func(s *option.Settings, nm names)) *kernels.Fit {
		t.Helper()
		s := option.Defaults()
		s.Family = "gaussian"
		set(s, nm)
		r, err := engine.Fit(t.Context(), method, s, &rows.Table{X: rows.Fields(rows.Numbers("x", x[lo:hi]), rows.Texts(nm.g, g[lo:hi]), rows.Texts(nm.h, h[lo:hi])), Y: rows.Numbers("y", y[lo:hi])})
		if err != nil {
			t.Fatal(method, nm, err)
		}
		return r.Fit
	}
	given := func(s *option.Settings, nm names) { s.PriorBy = kernels.ColumnPriors{{Column: nm.g, Variance: 4}} }
	learnt := func(s *option.Settings, _ names) { s.Options.AutoPrior = true }
	none := func(*option.Settings, names) {}
	compare := func(what string, a, b *kernels.Fit, nm names) {
		t.Helper()
		same := func(part string, u, v float64) {
			t.Helper()
			if u != v && !(math.Abs(u-v) <= 1e-7*(1+math.Abs(u))) && !(math.IsNaN(u) && math.IsNaN(v)) {
				t.Errorf("%s, %q: %s is %v, want %v", what, nm, part, v, u)
			}
		}
		for k := range a.Columns {
			same("variance of "+a.Columns[k].Name, a.Columns[k].Variance, b.Columns[k].Variance)
		}
		for _, level := range []string{"l1", "never"} {
			var m, v [2]float64
			for k, c := range []struct {
				f  *kernels.Fit
				nm names
			}{{a, plain}, {b, nm}} {
				s, err := score.New(c.f)
				if err != nil {
					t.Fatal(err)
				}
				if m[k], v[k], err = s.Linear(score.Row{Names: []string{"x", c.nm.g + "=" + level, c.nm.h + "=m1"}, Values: []float64{1, 1, 1}}); err != nil {
					t.Fatal(what, err)
				}
			}
			same("mean at "+level, m[0], m[1])
			same("variance at "+level, v[0], v[1])
		}
	}
	for _, nm := range []names{{"g=z", "h"}, {"h=z", "h"}, {"=", "h"}} {
		for _, method := range []string{"laplace", "ep", "adf", "lowrank"} {
			compare(method, fit(method, plain, 0, n, none), fit(method, nm, 0, n, none), nm)
			compare(method+", given", fit(method, plain, 0, n, given), fit(method, nm, 0, n, given), nm)
			if method != "adf" {
				compare(method+", learnt", fit(method, plain, 0, n, learnt), fit(method, nm, 0, n, learnt), nm)
			}
		}
		half := func(nm names) *kernels.Fit {
			start := fit("adf", nm, 0, n/2, none)
			return fit("adf", nm, n/2, n, func(s *option.Settings, _ names) { s.Start = start })
		}
		compare("continued", half(plain), half(nm), nm)
	}
}

// Two columns that would make one feature are an error.
func TestColumnsOfOneName(t *testing.T) {
	num, text := rows.Numbers("g=a", []float64{1, 2}), rows.Texts("g", []string{"a", "b"})
	for want, x := range map[string]*rows.Slice{
		`the number "g=a" has the name of a level of column "g"`: rows.Fields(num, text),
		"": rows.Fields(num, rows.Texts("h", []string{"a", "b"})),
	} {
		_, err := engine.Fit(t.Context(), "laplace", nil, &rows.Table{X: x, Y: rows.Numbers("y", []float64{1, 0})})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

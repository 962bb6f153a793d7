package metric

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

var tol = kerneltest.Tol{Rel: 1e-14}

func TestNumbers(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		name string
		m    Number
		rows [][]float64
		want float64
	}{
		{"auc", AUC(), [][]float64{{1, 0.8}, {0, 0.3}, {1, 0.6}, {0, 0.7}}, 0.75},
		{"auc of ties", AUC(), [][]float64{{1, 0.5}, {0, 0.5}, {1, inf}, {0, -inf}}, 0.875},
		{"auc of one class", AUC(), [][]float64{{1, 0.5}}, nan},
		{"log loss", LogLoss(), [][]float64{{1, 0.5}, {0, 0.75}}, 1.5 * math.Ln2},
		{"log loss, certain and wrong", LogLoss(), [][]float64{{1, 0}, {0, 0.75}}, inf},
		{"brier", Brier(), [][]float64{{1, 0.5}, {0, 0}}, 0.125},
		{"rmse", RMSE(), [][]float64{{1, 1.5}, {2, 1}}, math.Sqrt(0.625)},
		{"coverage", Coverage(), [][]float64{{1, 1, 2}, {3, 0, 1}, {2, 1, 2}, {0, -inf, inf}}, 0.75},
	} {
		for _, r := range c.rows {
			c.m.Add(r, 1)
		}
		if got := c.m.Value(); math.IsNaN(c.want) != math.IsNaN(got) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		} else if !math.IsNaN(c.want) {
			kerneltest.Close(t, c.name, got, c.want, tol)
		}
	}
}

// valuesOf are all numbers of a metric.
func valuesOf(m Metric) (out []float64) {
	if n, ok := m.(Number); ok {
		return []float64{n.Value()}
	}
	for _, b := range m.(*Calibration).Bins() {
		out = append(out, float64(b.Number), b.Lower, b.Upper, b.N, b.Predicted, b.Observed)
	}
	return out
}

// Parts that are merged are the whole, in any cut and order, though the sums cancel.
func TestMerge(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	fresh := []func() Metric{func() Metric { return AUC() }, func() Metric { return LogLoss() }, func() Metric { return Brier() }, func() Metric { return NewCalibration(7) }}
	for k, f := range fresh {
		whole, parts := f(), []Metric{f(), f(), f()}
		for range 1000 {
			row := []float64{float64(rnd.IntN(2)), rnd.Float64()}
			whole.Add(row, 1)
			parts[rnd.IntN(3)].Add(row, 1)
		}
		all := parts[2].Clone()
		for _, p := range parts[:2] {
			if err := all.Merge(p); err != nil {
				t.Fatal(err)
			}
		}
		want := valuesOf(whole)
		for i, got := range valuesOf(all) {
			kerneltest.Close(t, "merged", got, want[i], tol)
		}
		if before := valuesOf(parts[2]); len(before) > 0 && k < 3 && before[0] == valuesOf(all)[0] {
			t.Error("a clone is changed with its origin")
		}
		if whole.Size() <= 0 {
			t.Error("no size")
		}
	}
	if err := NewCalibration(3).Merge(NewCalibration(4)); err == nil {
		t.Error("calibrations of other bins are merged")
	}
}

// A row of weight w is w rows, in parts that are merged too, of which some have no weights; one
// of weight 0 is none, whatever its loss.
func TestWeights(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	fresh := map[string]func() Metric{"auc": func() Metric { return AUC() }, "log loss": func() Metric { return LogLoss() }, "brier": func() Metric { return Brier() },
		"rmse": func() Metric { return RMSE() }, "coverage": func() Metric { return Coverage() }, "calibration": func() Metric { return NewCalibration(7) }}
	for name, f := range fresh {
		expanded, parts := f(), []Metric{f(), f(), f()}
		for i := range 600 {
			row := []float64{float64(rnd.IntN(2)), float64(rnd.IntN(50)) / 50, 1}
			if row[1] == 0 {
				row[1] = 0.01 // no loss is infinite
			}
			w := 1
			if i%3 > 0 {
				w = rnd.IntN(5)
			}
			for range w {
				expanded.Add(row, 1)
			}
			parts[i%3].Add(row, float64(w))
		}
		parts[1].Add([]float64{1, 0, 0}, 0)
		for _, p := range parts[1:] {
			if err := parts[0].Merge(p); err != nil {
				t.Fatal(err)
			}
		}
		want := valuesOf(expanded)
		for i, got := range valuesOf(parts[0]) {
			kerneltest.Close(t, name, got, want[i], tol)
		}
	}
	none := LogLoss()
	if none.Add([]float64{1, 0}, 0); !math.IsNaN(none.Value()) {
		t.Errorf("the log loss of no rows is %v", none.Value())
	}
}

func TestArgs(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		a       Arg
		ok, bad []float64
	}{
		{Outcome, []float64{0, 1}, []float64{0.5, 2, nan}}, {Response, []float64{-1e300}, []float64{inf, nan}},
		{Probability, []float64{0, 1}, []float64{-1e-9, 1.1, nan}}, {Prediction, []float64{0}, []float64{-inf}},
		{Score, []float64{inf}, []float64{nan}}, {Lower, []float64{-inf}, []float64{nan}}, {Upper, []float64{inf}, []float64{nan}}, {Weight, []float64{0, 2.5}, []float64{-1, inf, nan}},
	} {
		for _, x := range c.ok {
			if !c.a.OK(x) {
				t.Errorf("%s: %v; allowed: %s", c.a.Name, x, c.a.Allowed)
			}
		}
		for _, x := range c.bad {
			if c.a.OK(x) {
				t.Errorf("%s = %v is not among %s", c.a.Name, x, c.a.Allowed)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	args := []Arg{Response, Lower, Upper}
	inf := math.Inf(1)
	for _, row := range [][]float64{{1, 0, 2}, {1, 2, 2}, {3, -inf, inf}, {3, inf, inf}} {
		if err := Check(args, row); err != nil {
			t.Errorf("%v: %v", row, err)
		}
	}
	for _, row := range [][]float64{{1, 2, 0}, {1, inf, -inf}, {1, 0, -1e-300}} {
		if err := Check(args, row); err == nil {
			t.Errorf("%v is an interval", row)
		}
	}
}

// Squares and products with weights may be beyond what a number holds: the mean is not.
func TestExtremes(t *testing.T) {
	for _, c := range []struct {
		name string
		m    Number
		rows [][]float64 // the last one of a row is its weight
		want float64
	}{
		{"a large residual", RMSE(), [][]float64{{1e200, 0, 1}}, 1e200},
		{"a small residual", RMSE(), [][]float64{{3e-200, 0, 1}, {0, 4e-200, 1}}, math.Sqrt(12.5) * 1e-200},
		{"small and large", RMSE(), [][]float64{{1e-200, 0, 1}, {1e200, 0, 1}, {1, 0, 2}}, 5e199},
		{"a difference above the largest number", RMSE(), [][]float64{{1e308, -1e308, 1}, {1, 1, 3}}, 1e308},
		{"the smallest number", RMSE(), [][]float64{{5e-324, 0, 1}}, 5e-324},
		{"large weights", RMSE(), [][]float64{{3, 1, 1e308}, {1, 3, 1e308}, {7, 7, 1}}, 2},
		{"small weights", Brier(), [][]float64{{1, 0.5, 5e-324}, {0, 0, 5e-324}}, 0.125},
		{"the loss under large weights", LogLoss(), [][]float64{{1, 0.5, 1e308}, {0, 0.5, 1e308}}, math.Ln2},
		{"coverage under large weights", Coverage(), [][]float64{{1, 0, 2, 1e308}, {3, 0, 2, 1e308}}, 0.5},
	} {
		other := c.m.Clone()
		for i, r := range c.rows {
			of := []Metric{c.m, other}[i%2]
			of.Add(r, r[len(r)-1])
		}
		if err := c.m.Merge(other); err != nil {
			t.Fatal(err)
		}
		kerneltest.Close(t, c.name, c.m.Value(), c.want, tol)
	}
}

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
			c.m.Add(r)
		}
		if got := c.m.Value(); math.IsNaN(c.want) != math.IsNaN(got) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		} else if !math.IsNaN(c.want) {
			kerneltest.Close(t, c.name, got, c.want, tol)
		}
	}
}

// Parts that are merged are the whole, in any cut and order, though the sums cancel.
func TestMerge(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	fresh := []func() Metric{func() Metric { return AUC() }, func() Metric { return LogLoss() }, func() Metric { return Brier() }, func() Metric { return NewCalibration(7) }}
	value := func(m Metric) []float64 {
		if n, ok := m.(Number); ok {
			return []float64{n.Value()}
		}
		var out []float64
		for _, b := range m.(*Calibration).Bins() {
			out = append(out, float64(b.Number), b.Lower, b.Upper, float64(b.N), b.Predicted, b.Observed)
		}
		return out
	}
	for k, f := range fresh {
		whole, parts := f(), []Metric{f(), f(), f()}
		for range 1000 {
			row := []float64{float64(rnd.IntN(2)), rnd.Float64()}
			whole.Add(row)
			parts[rnd.IntN(3)].Add(row)
		}
		all := parts[2].Clone()
		for _, p := range parts[:2] {
			if err := all.Merge(p); err != nil {
				t.Fatal(err)
			}
		}
		want := value(whole)
		for i, got := range value(all) {
			kerneltest.Close(t, "merged", got, want[i], tol)
		}
		if before := value(parts[2]); len(before) > 0 && k < 3 && before[0] == value(all)[0] {
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

func TestArgs(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		a       Arg
		ok, bad []float64
	}{
		{Outcome, []float64{0, 1}, []float64{0.5, 2, nan}}, {Response, []float64{-1e300}, []float64{inf, nan}},
		{Probability, []float64{0, 1}, []float64{-1e-9, 1.1, nan}}, {Prediction, []float64{0}, []float64{-inf}},
		{Score, []float64{inf}, []float64{nan}}, {Lower, []float64{-inf}, []float64{nan}}, {Upper, []float64{inf}, []float64{nan}},
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

package kernels_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// precise are mean and standard deviation in 300 bits, two passes.
func precise(xs []float64) (mean, sd float64) {
	num := func(x float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(x) }
	sum := num(0)
	for _, x := range xs {
		sum.Add(sum, num(x))
	}
	n := num(float64(len(xs)))
	m := num(0).Quo(sum, n)
	squares := num(0)
	for _, x := range xs {
		d := num(0).Sub(num(x), m)
		squares.Add(squares, d.Mul(d, d))
	}
	squares.Quo(squares, n)
	squares.Sqrt(squares)
	mean, _ = m.Float64()
	sd, _ = squares.Float64()
	return mean, sd
}

// Seconds since 1970, values of 1e-9, of 1e200 and constants; in one go, cut anywhere, and
// continued from the three numbers that a fit stores.
func TestColumnStats(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, unit := range []struct{ center, scale float64 }{{1.7e9, 1}, {1.7e9, 1e-3}, {0, 1e-9}, {0, 1e200}, {-5, 0}, {3, 1}} {
		xs := make([]float64, 3000)
		var all, part, rest kernels.ColumnStats
		cut := rng.IntN(len(xs) + 1)
		for i := range xs {
			xs[i] = unit.center + unit.scale*rng.NormFloat64()
			all.Add(xs[i])
			if i < cut {
				part.Add(xs[i])
			} else {
				rest.Add(xs[i])
			}
		}
		mean, sd := precise(xs)
		// A mean of n terms has their rounding, far below a deviation.
		tol := 4e-16*math.Abs(unit.center) + 1e-13*unit.scale
		for what, c := range map[string]kernels.ColumnStats{"one pass": all, "merged": func() kernels.ColumnStats { part.Merge(rest); return part }()} {
			kerneltest.Close(t, what+" mean", c.Center, mean, kerneltest.Tol{Abs: 4 * tol})
			kerneltest.Close(t, what+" deviation", c.Scale, sd, kerneltest.Tol{Rel: 1e-9, Abs: tol})
			if c.N != 3000 || c.Missing != 0 {
				t.Errorf("%s: n = %d, missing = %d", what, c.N, c.Missing)
			}
		}
		again := kernels.ColumnStats{}
		for i, x := range xs {
			if i == cut {
				again = kernels.ColumnStats{N: again.N, Center: again.Center, Scale: again.Scale}
			}
			again.Add(x)
		}
		if again != all {
			t.Errorf("continued: %+v, uninterrupted %+v", again, all)
		}
	}
}

// What is missing counts and changes nothing else.
func TestColumnStatsMissing(t *testing.T) {
	var with, without kernels.ColumnStats
	for i := range 100 {
		x := float64(i*i%17) / 3
		with.Add(x)
		without.Add(x)
		with.Add(math.NaN())
	}
	if with.N != 200 || with.Missing != 100 || with.Center != without.Center || with.Scale != without.Scale {
		t.Errorf("%+v, without what is missing %+v", with, without)
	}
	none := kernels.ColumnStats{}
	none.Add(math.NaN())
	none.Merge(without)
	if none.N != 101 || none.Missing != 1 || none.Center != without.Center {
		t.Errorf("%+v", none)
	}
}

func FuzzColumnStats(f *testing.F) {
	f.Add(1.7e9, 1.7e9+1, 1e-9, 2)
	f.Add(1e300, -1e300, 0.0, 1)
	f.Fuzz(func(t *testing.T, a, b, c float64, cut int) {
		xs := []float64{a, b, c, a, c}
		for _, x := range xs {
			if !(math.Abs(x) < 1e300) {
				t.Skip()
			}
		}
		cut = int(uint(cut) % 6)
		var all, lo, hi kernels.ColumnStats
		for i, x := range xs {
			all.Add(x)
			if i < cut {
				lo.Add(x)
			} else {
				hi.Add(x)
			}
		}
		lo.Merge(hi)
		size := max(math.Abs(a), math.Abs(b), math.Abs(c))
		if math.Abs(lo.Center-all.Center) > 1e-14*size || math.Abs(lo.Scale-all.Scale) > 1e-14*size || all.Scale < 0 || lo.N != 5 {
			t.Errorf("%v cut at %d: %+v and %+v", xs, cut, lo, all)
		}
	})
}

// A batch whose numbers are missing in some rows: the means stand for them, and the fit says
// how many there were.
func TestRowsFillMeans(t *testing.T) {
	r, err := kernels.NewRows(nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Dict.Use(kernels.NewColumns([]string{"g"}, []string{"u"}))
	schema := &kernels.Schema{Names: []string{"u", "g"}, Levels: []bool{false, true}}
	u, _ := r.Dict.AddRaw("u")
	g, _ := r.Dict.AddRaw("g=a")
	var b kernels.Batch
	b.Reset()
	b.Schema, b.Missing = schema, []int64{1}
	for _, x := range []float64{2, 6, math.NaN(), 4} {
		b.Add(0, 1)
		b.Add(u, x)
		b.Add(g, 1)
		b.EndRow()
		b.Y = append(b.Y, 1)
	}
	if err := r.Update(&b, false); err != nil {
		t.Fatal(err)
	}
	half := r.Clone()
	if err := r.Merge(half); err != nil {
		t.Fatal(err)
	}
	p, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{2, 6, 4, 4, 2, 6, 4, 4} {
		cols, vals := p.Entries(i)
		for k, j := range cols {
			if p.Name(int(j)) == "u" && vals[k] != want {
				t.Errorf("row %d: u = %v, want %v", i+1, vals[k], want)
			}
		}
	}
	f := p.Fit("laplace", p.Normal, 0)
	want := []kernels.FitColumn{{Name: "u", Kind: kernels.NumberColumn, N: 8, Missing: 2, Center: 4}, {Name: "g", Kind: kernels.LevelsColumn, N: 8}}
	for k, c := range f.Columns {
		if c.Name != want[k].Name || c.Kind != want[k].Kind || c.N != want[k].N || c.Missing != want[k].Missing || k == 0 && c.Center != 4 {
			t.Errorf("column %d: %+v, want %+v", k, c, want[k])
		}
	}
	if len(f.Columns) != 2 {
		t.Errorf("columns %+v", f.Columns)
	}
}

package lik

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// TestMovesShare: the share is, by definition, that of the squared differences of the slopes in blocks of
// successive rows from that in all of them, less what is expected of slopes that are the same, also of
// parts that are merged. A block of fewer rows than moveLeast does not count.
func TestMovesShare(t *testing.T) {
	type row struct{ x, cell, r float64 }
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		n := MoveRows*(2+rnd.IntN(4)) + rnd.IntN(MoveRows)
		at := MoveRows * (1 + rnd.IntN(2)) // where the second part begins
		var number, level [3]Moves         // whole, parts
		var blocks [][]row
		for i := range n {
			x, cell := 1e-3*rnd.NormFloat64(), rnd.IntN(3)
			r := 300*x + rnd.NormFloat64()*(1+float64(cell))
			if cell == 2 {
				r += float64(i % 50)
			}
			if i%MoveRows == 0 {
				blocks = append(blocks, nil)
			}
			k := len(blocks)
			blocks[k-1] = append(blocks[k-1], row{x, float64(cell), r})
			part := 1
			if i >= at {
				part = 2
			}
			for _, p := range []int{0, part} {
				number[p].AddNumber(int64(k), x+1e6, r)
				level[p].AddCell(int64(k), uint8(cell), r)
			}
		}
		if len(blocks[len(blocks)-1]) < moveLeast {
			blocks = blocks[:len(blocks)-1]
		}
		var all []float64
		for _, b := range blocks {
			for _, v := range b {
				all = append(all, v.r)
			}
		}
		total := stat.Variance(all, nil) * float64(len(all)-1)
		// share is that of a number of each row, where blocks count by weight.
		share := func(x func(row) float64, weight func(mean float64) float64) (share float64) {
			var slope, square, chance, of []float64
			var by, squares, noise float64
			for _, b := range blocks {
				rows := float64(len(b))
				mx, mr := 0.0, 0.0
				for _, v := range b {
					mx, mr = mx+x(v)/rows, mr+v.r/rows
				}
				xr, xx, scale := 0.0, 0.0, 0.0
				for _, v := range b {
					dx, dr := x(v)-mx, v.r-mr
					xr, xx, scale = xr+dx*dr, xx+dx*dx, scale+dx*dr*dx*dr
				}
				w := weight(mx)
				slope, square, chance, of = append(slope, xr/xx), append(square, xx), append(chance, scale), append(of, w)
				by, squares, noise = by+w*xr, squares+w*xx, noise+w*w*scale
			}
			for k, b := range slope {
				d := b - by/squares
				share += of[k] * (square[k]*d*d - chance[k]/square[k])
			}
			return (share + noise/squares) / total
		}
		wants := [2]float64{0: share(func(v row) float64 { return v.x }, func(float64) float64 { return 1 })}
		for cell := range 3 {
			wants[1] += share(func(v row) float64 { return map[bool]float64{true: 1}[v.cell == float64(cell)] }, func(mean float64) float64 { return 1 - mean })
		}
		for k, want := range wants {
			of := [][3]Moves{number, level}[k]
			of[1].Merge(&of[2])
			for _, m := range of[:2] {
				kerneltest.Close(t, "share", m.Share(), want, kerneltest.Tol{Abs: 1e-8}) // x at 1e6 is rounded to 1e-7 of its deviation
				whole := m.whole()
				_, _, freedom := whole.share()
				kerneltest.Close(t, "freedom", freedom, float64((1+k)*(len(blocks)-1)), kerneltest.Tol{Abs: 1e-9})
			}
		}
	}
}

// movesOf sums n rows whose residual is drawn for a number x of the given distribution: by the number, in
// cells by its sign, and the residuals themselves.
func movesOf(n int, x func() float64, residual func(i int, x float64) float64) (number, cells, level Moves) {
	for i := range n {
		at := x()
		r := Residual(residual(i, at), 1)
		cell := uint8(0)
		if at > 0 {
			cell = 1
		}
		number.AddNumber(int64(i/MoveRows)+1, at, r)
		cells.AddCell(int64(i/MoveRows)+1, cell, r)
		level.AddLevel(int64(i/MoveRows)+1, r)
	}
	return number, cells, level
}

// TestMovesChance: effects that stay are not said to change, whatever the variances of the residuals and
// the tails of the numbers, and the shares are 0 on average, within four standard errors.
func TestMovesChance(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	normal := func() float64 { return rnd.NormFloat64() }
	draws := map[string]struct {
		x        func() float64
		residual func(i int, x float64) float64
	}{
		"normal":                  {normal, func(int, float64) float64 { return rnd.NormFloat64() }},
		"variances that follow x": {normal, func(_ int, x float64) float64 { return (0.2 + x*x) * rnd.NormFloat64() }},
		"of a long-tailed column": {func() float64 { return math.Exp(2 * rnd.NormFloat64()) }, func(_ int, x float64) float64 { return math.Sqrt(x) * rnd.NormFloat64() }},
		"rare events":             {normal, func(int, float64) float64 { return (map[bool]float64{true: 1}[rnd.Float64() < 0.01] - 0.01) / 0.1 }},
		"variances that change":   {normal, func(i int, _ float64) float64 { return (0.3 + float64(i%500)/200) * rnd.NormFloat64() }},
		"neighbours that correlate": {normal, func() func(int, float64) float64 {
			last := 0.0
			return func(int, float64) float64 {
				last = 0.5*last + rnd.NormFloat64()
				return last
			}
		}()},
	}
	for _, name := range slices.Sorted(maps.Keys(draws)) {
		draw := draws[name]
		const sets, n = 200, 3000
		var shares [3][]float64
		for range sets {
			number, cells, level := movesOf(n, draw.x, draw.residual)
			for k, m := range []*Moves{&number, &cells, &level} {
				shares[k] = append(shares[k], m.Share())
				if share := m.Clear(ShareTest{Freedom: n, Tests: 1}); share > 0 {
					t.Errorf("%s: share %.3g", name, share)
				}
			}
		}
		for k, s := range shares {
			mean, sd := stat.MeanStdDev(s, nil)
			want := 0.0
			if k == 2 && name == "neighbours that correlate" { // the mean of a block varies (1 + c)/(1 - c) = 3 times as much
				want = 2.0 / MoveRows
			}
			if sd /= math.Sqrt(sets); math.Abs(mean-want) > 4*sd {
				t.Errorf("%s, column %d: mean share %.3g ± %.3g", name, k, mean, sd)
			}
		}
	}
}

// TestMovesFound: an effect that changes slowly, at once, or in cycles, by half a standard deviation of
// the residuals, is found in 3,000 rows, and its share, a fifth, is about that on average: a third less
// where the effect changes within a block.
func TestMovesFound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 6))
	const n = 3000
	w := 0.0
	effects := map[string]func(i int) float64{
		"a walk that returns": func(int) float64 { w = 0.99*w + math.Sqrt(1-0.99*0.99)*rnd.NormFloat64(); return w },
		"a trend":             func(i int) float64 { return math.Sqrt(12) * (float64(i)/n - 0.5) },
		"a change":            func(i int) float64 { return math.Copysign(1, float64(i)-n/2) },
		"cycles":              func(i int) float64 { return math.Sqrt2 * math.Sin(float64(i)/200) },
	}
	for _, name := range slices.Sorted(maps.Keys(effects)) {
		effect, mean := effects[name], 0.0
		const sets = 20
		for range sets {
			number, cells, level := movesOf(n, rnd.NormFloat64, func(i int, x float64) float64 { return 0.5*effect(i)*x + rnd.NormFloat64() })
			if share := number.Clear(ShareTest{Freedom: n, Tests: 10}); share == 0 {
				t.Errorf("%s: not found, share %.3g", name, number.Share())
			}
			if cells.Share() > number.Share() { // cells say less of a line
				t.Errorf("%s: share by cells %.3g, by the number %.3g", name, cells.Share(), number.Share())
			}
			if share := level.Clear(ShareTest{Freedom: n, Tests: 10}); share > 0 {
				t.Errorf("%s: the level is said to change, share %.3g", name, share)
			}
			_, _, level = movesOf(n, rnd.NormFloat64, func(i int, _ float64) float64 { return 0.7*effect(i) + rnd.NormFloat64() })
			if share := level.Clear(ShareTest{Freedom: n, Tests: 10}); share < 0.1 || share > 0.45 {
				t.Errorf("%s, as a level: share %.3g", name, level.Share())
			}
			mean += number.Share() / sets
		}
		if mean < 0.13 || mean > 0.25 {
			t.Errorf("%s: mean share %.3g", name, mean)
		}
	}
}

package lik

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// TestMovesShare: the share is, by definition, the sum over blocks of successive rows of the squared
// covariance with the column less the variance that it has by chance, over that of the column, also of
// parts that are merged. A block of fewer rows than moveLeast does not count.
func TestMovesShare(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		n := MoveRows*(2+rnd.IntN(4)) + rnd.IntN(MoveRows)
		at := MoveRows * (1 + rnd.IntN(2)) // where the second part begins
		var number, level [3]Moves         // whole, parts
		var blocks [][][3]float64          // x, cell, residual
		for i := range n {
			x, cell, r := 1e6+1e-3*rnd.NormFloat64(), uint8(rnd.IntN(3)), rnd.NormFloat64()
			if r *= 1 + float64(cell); cell == 2 {
				r += float64(i % 50)
			}
			if i%MoveRows == 0 {
				blocks = append(blocks, nil)
			}
			k := len(blocks)
			blocks[k-1] = append(blocks[k-1], [3]float64{x, float64(cell), r})
			part := 1
			if i >= at {
				part = 2
			}
			for _, p := range []int{0, part} {
				number[p].AddNumber(int64(k), x, r)
				level[p].AddCell(int64(k), cell, r)
			}
		}
		if len(blocks[len(blocks)-1]) < moveLeast {
			blocks = blocks[:len(blocks)-1]
		}
		var all []float64
		byNumber, byLevel, freedom := 0.0, 0.0, 0.0
		for _, b := range blocks {
			rows := float64(len(b))
			mx, mr, total := 0.0, 0.0, 0.0
			for _, v := range b {
				mx, mr, all = mx+(v[0]-1e6)/rows, mr+v[2]/rows, append(all, v[2])
			}
			for _, v := range b {
				total += (v[2] - mr) * (v[2] - mr)
			}
			count := map[float64]float64{}
			xr, scale, xx := 0.0, 0.0, 0.0
			for _, v := range b {
				x, r := v[0]-1e6-mx, v[2]-mr
				xr, scale, xx = xr+x*r, scale+x*r*x*r, xx+x*x
				count[v[1]]++
			}
			byNumber += (xr*xr - scale) / xx
			for cell, rows := range count {
				sum, squares := 0.0, 0.0
				for _, v := range b {
					if v[1] == cell {
						sum, squares = sum+v[2]-mr, squares+(v[2]-mr)*(v[2]-mr)
					}
				}
				in := rows / float64(len(b))
				byLevel += (sum*sum - (1-in)*(1-in)*squares - in*in*(total-squares)) / rows
			}
			freedom += float64(len(count) - 1)
		}
		total := stat.Variance(all, nil) * float64(len(all)-1)
		for k, m := range []*Moves{&number[0], &level[0], &number[1], &level[1]} {
			want := byNumber
			if k%2 == 1 {
				want = byLevel
			}
			switch k {
			case 2:
				m.Merge(&number[2])
			case 3:
				m.Merge(&level[2])
			}
			kerneltest.Close(t, "share", m.Share(), want/total, kerneltest.Tol{Abs: 1e-9})
			if k%2 == 1 {
				whole := m.whole()
				kerneltest.Close(t, "freedom", whole.freedom, freedom, kerneltest.Tol{Abs: 1e-9})
			}
		}
	}
}

// movesOf sums n rows whose residual is drawn for a number x of the given distribution, in cells by sign.
func movesOf(rnd *rand.Rand, n int, x func() float64, residual func(i int, x float64) float64) (number, level Moves) {
	for i := range n {
		at := x()
		r := Residual(residual(i, at), 1)
		cell := uint8(0)
		if at > 0 {
			cell = 1
		}
		number.AddNumber(int64(i/MoveRows)+1, at, r)
		level.AddCell(int64(i/MoveRows)+1, cell, r)
	}
	return number, level
}

// TestMovesChance: effects that stay are not said to change, whatever the variances of the residuals and
// the tails of the numbers, and the shares are 0 on average, within four standard errors.
func TestMovesChance(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	normal := func() float64 { return rnd.NormFloat64() }
	for name, draw := range map[string]struct {
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
	} {
		const sets, n = 200, 3000
		var shares [2][]float64
		for range sets {
			number, level := movesOf(rnd, n, draw.x, draw.residual)
			for k, m := range []*Moves{&number, &level} {
				shares[k] = append(shares[k], m.Share())
				if share := m.Clear(ShareTest{Freedom: n, Tests: 1}); share > 0 {
					t.Errorf("%s: share %.3g", name, share)
				}
			}
		}
		for k, s := range shares {
			mean, sd := stat.MeanStdDev(s, nil)
			if sd /= math.Sqrt(sets); math.Abs(mean) > 4*sd {
				t.Errorf("%s, column %d: mean share %.3g ± %.3g", name, k, mean, sd)
			}
		}
	}
}

// TestMovesFound: an effect that changes slowly, at once, or in cycles, by half a standard deviation of
// the residuals, is found in 3,000 rows, and its share is about that of a fifth: within a quarter of it,
// on average.
func TestMovesFound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 6))
	const n = 3000
	w := 0.0
	for name, effect := range map[string]func(i int) float64{
		"a walk that returns": func(int) float64 { w = 0.998*w + math.Sqrt(1-0.998*0.998)*rnd.NormFloat64(); return w },
		"a trend":             func(i int) float64 { return math.Sqrt(12) * (float64(i)/n - 0.5) },
		"a change":            func(i int) float64 { return math.Copysign(1, float64(i)-n/2) },
		"cycles":              func(i int) float64 { return math.Sqrt2 * math.Sin(float64(i)/200) },
	} {
		mean := 0.0
		const sets = 20
		for range sets {
			number, level := movesOf(rnd, n, rnd.NormFloat64, func(i int, x float64) float64 { return 0.5*effect(i)*x + rnd.NormFloat64() })
			if share := number.Clear(ShareTest{Freedom: n, Tests: 10}); share == 0 {
				t.Errorf("%s: not found, share %.3g", name, number.Share())
			}
			if level.Share() > number.Share() { // cells say less of a line
				t.Errorf("%s: share by cells %.3g, by the number %.3g", name, level.Share(), number.Share())
			}
			mean += number.Share() / sets
		}
		if mean < 0.15 || mean > 0.25 {
			t.Errorf("%s: mean share %.3g", name, mean)
		}
	}
}

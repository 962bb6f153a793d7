package lik

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/mathext"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// cellOf cuts a standard normal number into cells of unequal probability.
func cellOf(x float64) int { return int(min(max(math.Floor(2*x)+4, 0), CurveCells-1)) }

// TestCurveShare: the share is that of the least squares residuals about the line between cells, by
// definition, also of parts that are merged.
func TestCurveShare(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		n := 20 + rnd.IntN(200)
		x, r := make([]float64, n), make([]float64, n)
		var whole, a, b Curve
		for i := range x {
			x[i] = rnd.NormFloat64()
			r[i] = 0.3 + 0.5*x[i] + x[i]*x[i]*rnd.Float64() + rnd.NormFloat64()
			whole.Add(cellOf(x[i]), x[i], r[i])
			if i%3 == 0 {
				a.Add(cellOf(x[i]), x[i], r[i])
			} else {
				b.Add(cellOf(x[i]), x[i], r[i])
			}
		}
		var mx, mr, xx, xr float64
		for i := range x {
			mx, mr = mx+x[i]/float64(n), mr+r[i]/float64(n)
		}
		for i := range x {
			xx, xr = xx+(x[i]-mx)*(x[i]-mx), xr+(x[i]-mx)*(r[i]-mr)
		}
		sum, rows, left := map[int]float64{}, map[int]float64{}, 0.0
		for i := range x {
			e := r[i] - mr - xr/xx*(x[i]-mx)
			sum[cellOf(x[i])] += e
			rows[cellOf(x[i])]++
			left += e * e
		}
		want := 0.0
		for k := range sum {
			want += sum[k] * sum[k] / rows[k] / left
		}
		a.Merge(&b)
		for _, c := range []*Curve{&whole, &a} {
			got, freedom := c.Share()
			kerneltest.Close(t, "share", got, want, kerneltest.Tol{Abs: 1e-12})
			kerneltest.Close(t, "freedom", freedom, float64(len(sum)-2), kerneltest.Tol{Abs: 0})
		}
	}
}

// TestCurveChance: the share of residuals that are independent of a number has the beta distribution
// by which notes are made. The bound is four standard errors.
func TestCurveChance(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	const sets, n = 4000, 60
	below := map[float64]float64{0.05: 0, 0.5: 0, 0.99: 0}
	for range sets {
		var c Curve
		for range n {
			x := rnd.NormFloat64()
			c.Add(cellOf(x), x, rnd.NormFloat64())
		}
		share, d := c.Share()
		// The residuals about mean and line have n - 2 degrees of freedom, those between cells d.
		p := mathext.RegIncBeta(d/2, (n-2-d)/2, share)
		for q := range below {
			if p < q {
				below[q]++
			}
		}
	}
	for q, k := range below {
		kerneltest.Close(t, "chance", k/sets, q, kerneltest.Tol{Abs: 4 * math.Sqrt(q*(1-q)/sets)})
	}
}

// TestCrossShare: the share of two columns is what their cells explain of the variance, and the
// interaction that less what least squares of a mean for every cell of either explains, in tables with
// empty cells, too.
func TestCrossShare(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		n := 100 + rnd.IntN(200)
		var c Cross
		var s Spread
		additive, saturated := mat.NewDense(n, 2*CrossCells, nil), mat.NewDense(n, CrossCells*CrossCells, nil)
		r := mat.NewVecDense(n, nil)
		mean := 0.0
		for i := range n {
			a := rnd.IntN(CrossCells)
			b := min(a+rnd.IntN(1+int(seed%4)), CrossCells-1) // of one that determines the other to nearly none
			v := 2*math.Cos(math.Pi*float64(a+b)) + float64(a)/2 - float64(b) + 0.3*rnd.NormFloat64() + 1
			r.SetVec(i, v)
			c.Add(uint8(a), uint8(b), v)
			s.Add(v)
			mean += v / float64(n)
			additive.Set(i, a, 1)
			additive.Set(i, CrossCells+b, 1)
			saturated.Set(i, a*CrossCells+b, 1)
		}
		total := 0.0
		for i := range n {
			total += (r.AtVec(i) - mean) * (r.AtVec(i) - mean)
		}
		explained := func(x *mat.Dense) (square float64, rank int) {
			var svd mat.SVD
			if !svd.Factorize(x, mat.SVDThin) {
				t.Fatal("no singular values")
			}
			var u mat.Dense
			svd.UTo(&u)
			for k, d := range svd.Values(nil) {
				if d > 1e-9*float64(n) {
					along := mat.Dot(u.ColView(k), r)
					square, rank = square+along*along, rank+1
				}
			}
			return square, rank
		}
		both, cells := explained(saturated)
		each, effects := explained(additive)
		share, interaction, freedom := c.Share(&s)
		kerneltest.Close(t, "share", share, (both-float64(n)*mean*mean)/total, kerneltest.Tol{Abs: 1e-12})
		kerneltest.Close(t, "interaction", interaction, (both-each)/total, kerneltest.Tol{Abs: 1e-4}) // to which effects are computed
		if freedom > float64(cells-effects) || seed%4 > 1 && freedom != float64(cells-effects) {
			t.Errorf("seed %d: %v degrees of freedom; want %d", seed, freedom, cells-effects)
		}
	}
}

// TestCrossMerge: parts whose cells are numbered otherwise are as one, and so are columns in the other
// order.
func TestCrossMerge(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 5))
	var all, part, other Cross
	as, bs := [CrossCells]uint8{2, 0, 1, 3}, [CrossCells]uint8{0, 3, 2, 1}
	for k := range 200 {
		a, b, r := rnd.IntN(CrossCells), rnd.IntN(CrossCells), rnd.NormFloat64()
		if k%2 == 0 {
			all.Add(uint8(a), uint8(b), r)
			part.Add(uint8(a), uint8(b), r)
		} else {
			all.Add(as[a], bs[b], r)
			other.Add(uint8(b), uint8(a), r)
		}
	}
	part.Merge(other.Transposed(), &as, &bs)
	for a := range all.rows {
		for b := range all.rows[a] {
			kerneltest.Close(t, "rows", part.rows[a][b], all.rows[a][b], kerneltest.Tol{})
			kerneltest.Close(t, "residuals", part.residual[a][b], all.residual[a][b], kerneltest.Tol{Abs: 1e-12})
		}
	}
}

// TestCurveClear: few large residuals, few rows, weights that took most of the freedom, and residuals
// all within a standard deviation show no curve, however much of their variance follows the number.
func TestCurveClear(t *testing.T) {
	draw := func(n int, scale float64, rare bool) *Curve {
		rnd := rand.New(rand.NewPCG(6, 6))
		var c Curve
		for k := range n {
			x := rnd.NormFloat64()
			r := scale * (x*x - 1 + 0.3*rnd.NormFloat64())
			if rare {
				if r, x = -0.1, x/10; k%40 == 0 {
					r, x = 3, 2+x/10
				}
			}
			c.Add(cellOf(x), x, min(max(r, -3), 3))
		}
		return &c
	}
	for _, c := range []struct {
		name    string
		curve   *Curve
		freedom float64
		want    bool
	}{
		{"a curve", draw(200, 0.8, false), 200, true},
		{"of half the freedom", draw(200, 0.8, false), 100, true},
		{"of no freedom", draw(200, 0.8, false), 20, false},
		{"few rows", draw(20, 0.8, false), 200, false},
		{"within a deviation", draw(200, 0.2, false), 200, false},
		{"rare events", draw(200, 1, true), 200, false},
	} {
		if share := c.curve.Clear(ShareTest{Freedom: c.freedom, Tests: 1}); share > 0 != c.want {
			all, d := c.curve.Share()
			t.Errorf("%s: %v of %v with %v degrees of freedom", c.name, share, all, d)
		}
	}
}

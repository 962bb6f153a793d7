package lik

import (
	"math"
	"math/rand/v2"
	"testing"

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

// TestCrossShare: the share of two columns is what their cells explain of the variance, by definition.
func TestCrossShare(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		n := 100 + rnd.IntN(200)
		r, cells := make([]float64, n), make([]int, n)
		var c Cross
		var s Spread
		mean := 0.0
		for i := range r {
			a, b := rnd.IntN(CrossCells), rnd.IntN(CrossCells-1)
			r[i], cells[i] = 2*math.Cos(math.Pi*float64(a+b))+0.3*rnd.NormFloat64()+1, a*CrossCells+b
			c.Add(uint8(a), uint8(b), r[i])
			s.Add(r[i])
			mean += r[i] / float64(n)
		}
		total, between, sum, rows := 0.0, 0.0, map[int]float64{}, map[int]float64{}
		for i := range r {
			total += (r[i] - mean) * (r[i] - mean)
			sum[cells[i]] += r[i] - mean
			rows[cells[i]]++
		}
		for k := range sum {
			between += sum[k] * sum[k] / rows[k]
		}
		share, freedom := c.Share(&s, 2)
		kerneltest.Close(t, "share", share, between/total, kerneltest.Tol{Abs: 1e-12})
		kerneltest.Close(t, "freedom", freedom, float64(len(sum)-3), kerneltest.Tol{})
		if !s.Clear(share, freedom, float64(n), 1) {
			t.Errorf("a share of %v is not clear", share)
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
		if share := c.curve.Clear(c.freedom, 1); share > 0 != c.want {
			all, d := c.curve.Share()
			t.Errorf("%s: %v of %v with %v degrees of freedom", c.name, share, all, d)
		}
	}
}

package arrowhead

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// Variances of many predictors are those of each by itself, for blocks small and wide, with units
// and level means, and rows of no, one and several leaves, some weights named twice.
func TestSpread(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	for _, d := range []int{1, 3, 63, 64, 90} {
		const leaves = 40
		p := leaves + d // the block's last weight is a level mean where there are several
		if d > 2 {
			p--
		}
		l := Layout{D: d, Values: make([]float64, Want(d, p))}
		for k := range l.Values[2*d : Want(d, 0)] {
			l.Values[2*d+k] = rng.NormFloat64()
		}
		for j := range d {
			r := l.Root(j)
			r[j] = math.Abs(r[j])
		}
		for k := range p {
			r := l.Row(k)
			if k < p-leaves {
				r[0] = float64(-2 - k)
				continue
			}
			if r[0] = -1; d > 2 && k%2 == 0 {
				r[0] = float64(d - 1)
			}
			r[1], r[2] = rng.NormFloat64(), rng.ExpFloat64()
			for j := range d {
				r[3+j] = rng.NormFloat64()
			}
		}
		if d > 2 {
			l.Values[2*d-1] = 12 // levels
			l.SetUnit(1, 3, 2)
			if d > 3 {
				l.SetUnit(2, -1, 0)
			}
			l.SetResponse(5, 4, 5, 4)
		}
		if err := l.Check(p); err != nil {
			t.Fatal(err)
		}
		g := make([]float64, d)
		few, many := l.NewSpread(p, 1, dense.New), l.NewSpread(p, 1000, dense.New)
		var room SpreadScratch
		for range 200 {
			at, x := []int{0}, []float64{1}
			for range rng.IntN(6) {
				at, x = append(at, rng.IntN(p)), append(x, rng.NormFloat64())
			}
			if d > 2 && rng.IntN(3) == 0 {
				at, x = append(at, ^(d-1), at[len(at)-1]), append(x, 0.3, -x[len(x)-1])
			}
			want := l.Variance(at, x, g)
			kerneltest.Close(t, "one", few.Variance(at, x, &room), want, kerneltest.Tol{})
			// of terms of a few hundred times the variance
			kerneltest.Close(t, "many", many.Variance(at, x, &room), want, kerneltest.Tol{Rel: 1e-10, Abs: 1e-10})
		}
	}
}

package kernels

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// Of parts of one dispersion the statistic has the law that it is taken for, whatever their degrees
// of freedom: the chances are uniform.
func TestBartlett(t *testing.T) {
	src := rand.NewPCG(3, 1)
	for _, c := range []struct {
		nu    []float64
		parts int
	}{
		{[]float64{1.5}, 2}, {[]float64{3}, 2}, {[]float64{2, 40}, 2}, {[]float64{400}, 2}, {[]float64{2e4, 50}, 2},
		{[]float64{1, 2, 3}, 60}, {[]float64{8, 5, 100}, 12}, {[]float64{1e6}, 5},
	} {
		const sets = 4000
		var below [3]float64
		levels := [3]float64{0.2, 0.05, 0.01}
		for range sets {
			var a, b unequal
			for k := range c.parts {
				nu := c.nu[k%len(c.nu)]
				u := &a
				if k%3 == 1 {
					u = &b
				}
				u.noise(7*distuv.ChiSquared{K: nu, Src: src}.Rand()/nu, nu)
			}
			a.merge(&b)
			_, p := a.bartlett()
			for k, at := range levels {
				if p < at {
					below[k]++
				}
			}
		}
		for k, at := range levels {
			if sd := math.Sqrt(at * (1 - at) / sets); math.Abs(below[k]/sets-at) > 4.5*sd+0.1*at {
				t.Errorf("%v, %d parts: chances below %v are %v", c.nu, c.parts, at, below[k]/sets)
			}
		}
	}
}

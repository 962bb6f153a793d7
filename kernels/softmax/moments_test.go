package softmax

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/predict"
)

// gaussianOf is a mean and a covariance whose root has entries of this size.
func gaussianOf(rng *rand.Rand, c int, scale float64) (mean, cov []float64) {
	mean, cov = make([]float64, c), make([]float64, c*c)
	root := make([]float64, c*c)
	for k := range root {
		root[k] = rng.NormFloat64() * scale / math.Sqrt(float64(c))
	}
	for k := range c {
		mean[k] = rng.NormFloat64()
		for l := range c {
			for m := range c {
				cov[k*c+l] += root[k*c+m] * root[l*c+m]
			}
		}
	}
	return mean, cov
}

// Expected probabilities are those of Probabilities within what each of the two promises, and
// all derivatives are differences of the values, whose nodes do not move.
func TestChanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 9))
	const h = 1e-5
	for _, of := range []struct {
		c     int
		scale float64
		tol   float64
	}{{1, 1, 1e-15}, {2, 0.5, 1e-7}, {2, 3, 1e-7}, {3, 0.4, 1e-7}, {3, 2, 1e-7}, {5, 0.1, 1e-6}, {5, 1, 1e-4}, {12, 0.8, 2e-4}} {
		for _, kind := range []predict.Kind{predict.Exact, predict.Plugin} {
			c := of.c
			mean, cov := gaussianOf(rng, c, of.scale)
			// f moves as (1 + z B) f + z δ: its covariance by A = B V + V Bᵀ at first.
			b, a, delta := make([]float64, c*c), make([]float64, c*c), make([]float64, c)
			for k := range b {
				b[k] = 0.5 * rng.NormFloat64()
			}
			for k := range c {
				delta[k] = rng.NormFloat64()
				for l := range c {
					for j := range c {
						a[k*c+l] += b[k*c+j]*cov[j*c+l] + cov[k*c+j]*b[l*c+j]
					}
				}
			}
			var g Changer
			keep := func(o *Change) Change {
				return Change{slices.Clone(o.Value), slices.Clone(o.At), slices.Clone(o.Slope)}
			}
			e, s := keep(g.Expected(mean, cov, kind)), keep(g.Sloped(mean, cov, delta, a, kind))
			want := make([]float64, c)
			Probabilities(want, mean, cov, kind)
			for k := range c {
				kerneltest.Close(t, "probability", e.Value[k], want[k], kerneltest.Tol{Abs: of.tol})
				moved := func(of []float64, by float64, what func() *Change) []float64 {
					was := of[k]
					of[k] += by
					v := slices.Clone(what().Value)
					of[k] = was
					return v
				}
				for name, d := range map[string]struct {
					of   []float64
					what func() *Change
					got  []float64
				}{
					"expected by mean": {mean, func() *Change { return g.Expected(mean, cov, kind) }, e.At},
					"sloped by mean":   {mean, func() *Change { return g.Sloped(mean, cov, delta, a, kind) }, s.At},
					"sloped by slope":  {delta, func() *Change { return g.Sloped(mean, cov, delta, a, kind) }, s.Slope},
				} {
					up, down := moved(d.of, h, d.what), moved(d.of, -h, d.what)
					for b := range c {
						kerneltest.Close(t, name, d.got[b*c+k], (up[b]-down[b])/(2*h), kerneltest.Tol{Abs: 1e-9, Rel: 1e-6})
					}
				}
			}
			// The slope is that of the expected probability as mean and covariance move.
			step := func(z float64) []float64 {
				m, v := slices.Clone(mean), make([]float64, c*c)
				for k := range c {
					m[k] += z * delta[k]
					for l := range c {
						v[k*c+l] = cov[k*c+l] + z*a[k*c+l]
						for i := range c {
							for j := range c {
								v[k*c+l] += z * z * b[k*c+i] * cov[i*c+j] * b[l*c+j]
							}
						}
					}
				}
				p := make([]float64, c)
				Probabilities(p, m, v, kind)
				return p
			}
			const z = 0.02
			up, down, up2, down2 := step(z), step(-z), step(2*z), step(-2*z)
			for b := range c {
				want := (8*(up[b]-down[b]) - (up2[b] - down2[b])) / (12 * z)
				kerneltest.Close(t, "slope", s.Value[b], want, kerneltest.Tol{Abs: 1e-5 + 30*of.tol})
			}
		}
	}
}

package arrowhead

import (
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// A step of drift adds to the variances of the block alone: what a leaf has in common
// with the block stays, and so does its own mean and variance.
func TestDrift(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	for n := range 100 {
		b := random(r, 1+n%5, 1+n%6)
		d := b.Dim()
		mean, cov := joint(b)
		for range 1 + n%4 {
			add := make([]float64, d)
			for j := range add {
				if r.IntN(4) > 0 {
					add[j] = r.ExpFloat64()
					cov.Row(j)[j] += add[j]
				}
			}
			b.Drift(add)
		}
		b.UpdateLeaves()
		gotMean, got := joint(b)
		for i := range mean {
			kerneltest.Close(t, "mean", gotMean[i], mean[i], tol)
			for j := range mean {
				if i == j || i < d || j < d {
					kerneltest.Close(t, "covariance", got.At(i, j), cov.At(i, j), tol)
				}
			}
		}
		if t.Failed() {
			return
		}
	}
}

// A leaf that is brought forward when it is next touched is the leaf that was brought
// forward at every step.
func TestForward(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	for _, d := range []int{1, 3} {
		lazy := random(r, d, 12)
		eager := lazy.Clone()
		for n := range 5000 {
			if n == 2500 {
				lazy.Add(0.1, 1)
				eager.Add(0.1, 1)
			}
			x, ks, xs := sparse(r, lazy, 2)
			for _, b := range []*Belief{lazy, eager} {
				add := make([]float64, d)
				add[n%d] = 0.01 * float64(n%3)
				b.Drift(add)
				if b == eager {
					b.UpdateLeaves()
				}
				for _, k := range ks {
					b.UpdateLeaf(int(k))
				}
				m, v := b.Predict(x, ks, xs)
				b.Absorb(ks, xs, lik.Tilted{Alpha: (0.3 - m) / (v + 1), Beta: 1 / (v + 1), Ratio: 1 / (v + 1)})
			}
		}
		lazy.UpdateLeaves()
		m0, c0 := joint(eager)
		m1, c1 := joint(lazy)
		for i := range m0 {
			kerneltest.Close(t, "mean", m1[i], m0[i], kerneltest.Tol{Rel: 1e-9, Abs: 1e-9})
			for j := range m0 {
				kerneltest.Close(t, "covariance", c1.At(i, j), c0.At(i, j), kerneltest.Tol{Rel: 1e-9, Abs: 1e-9})
			}
		}
	}
}

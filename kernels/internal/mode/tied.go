package mode

import (
	"math/rand/v2"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/stop"
)

const (
	// probes is how many vectors look for curvature that a Hessian leaves out. What random ones
	// say of a weight is within half of it (χ² of 16 degrees of freedom), and exact of that many weights.
	probes = 16
	// tiedFrom is by which share a variance is too small, to second order, that a status says so:
	// deviations by 2.5 %. The chance correlations of p independent columns in n rows make p/n.
	tiedFrom = 0.05
)

// Tied says whether a Gaussian N(w, L Lᵀ), the inverse of the blocks of the precision Λ0 + H,
// has variances that are too small because of what is between the blocks: with
//
//	E = Lᵀ (Λ0 + H) L - I
//
// a variance is too small by Σ_k E_jk² of itself and terms of higher order. These sums are those of
// (E z)_j² for z of random signs, or for all unit vectors where weights are few. hessian sets dst = H m for p x k
// matrices.
//
// Cost: that of 16 products with H at most.
func Tied(prior, post *gauss.Normal, seed uint64, halt *stop.Stop, hessian func(dst, m *dense.Matrix)) (bool, error) {
	p := post.Dim()
	k := min(probes, p)
	z := dense.NewUnder(halt, p, k)
	if k == p {
		for j := range p {
			z.Row(j)[j] = 1
		}
	} else {
		rng := rand.New(rand.NewPCG(seed, 0x74696564))
		for i := range z.Data {
			z.Data[i] = float64(2*rng.IntN(2) - 1)
		}
	}
	t, err := post.Root()
	if err != nil {
		return false, err
	}
	y, hy := dense.NewUnder(halt, p, k), dense.NewUnder(halt, p, k)
	t.MulMat(y, z)
	hessian(hy, y)
	e, err := precise(prior, y)
	if err != nil {
		return false, err
	}
	dense.Axpy(1, hy.Data, e.Data)
	t.MulTMat(e, e)
	for j := range p {
		sum := 0.0
		for a, v := range e.Row(j) {
			v -= z.Row(j)[a]
			sum += v * v
		}
		if k < p {
			sum /= float64(k)
		}
		if sum > tiedFrom {
			return true, nil
		}
	}
	return false, nil
}

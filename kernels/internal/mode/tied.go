package mode

import (
	"math/rand/v2"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/stop"
)

const (
	// probes is the number of vectors that probe for curvature that a Hessian leaves out. With
	// random ones the result for a weight is within half of it (χ² of 16 degrees of freedom); up to
	// that many weights it is exact.
	probes = 16
	// tiedFrom is the share by which a variance is too small, to second order, from which a status
	// reports it: standard deviations by 2.5 %. Chance correlations of p independent columns in n
	// rows amount to p/n.
	tiedFrom = 0.05
)

// Tied reports whether a Gaussian N(w, L Lᵀ), the inverse of the blocks of the precision Λ0 + H,
// has variances that are too small because of what is between the blocks: with
//
//	E = Lᵀ (Λ0 + H) L - I
//
// a variance is too small by the share Σ_k E_jk², and terms of higher order. These sums are
// estimated by (E z)_j² for z of random signs, or for all unit vectors if there are few weights.
// hessian sets dst = H m for p x k matrices.
//
// Cost: at most that of 16 products with H.
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

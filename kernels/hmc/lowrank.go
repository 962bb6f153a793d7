package hmc

import (
	"fmt"
	"math/rand/v2"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lowrank"
)

// reduce makes s sample the low-rank likelihood, which depends on a row x only through U Uᵀx: in k
// coordinates u = Hᵀb of the weights μ0 + C b, b ~ N(0, I) under the prior.
//
//	s = offset + Z Tᵀu,   u ~ N(0, I),   b | u = H u + (I - H Hᵀ) ε
//
// so that moments of the weights follow from those of u exactly, and a draw of them from one of u
// and one of ε. A step costs O(n k) instead of O(nnz).
//
// Source: [trippe2019], LR-MCMC.
func (s *sampling) reduce(p *kernels.Problem) error {
	r, err := lowrank.Reduce(p)
	if err != nil {
		return err
	}
	k := r.K()
	x := p.Matrix(p.N, k)
	dense.MulTB(x, r.Z, r.T)
	columns := design.Whole(x)
	one := make([]float64, k)
	for i := range one {
		one[i] = 1
	}
	if s.model, err = newModel(&columns, p, r.Offset, gauss.NewDiagonal(make([]float64, k), one)); err != nil {
		return err
	}
	s.nnz = p.N * k
	s.note += fmt.Sprintf("; likelihood of rank %d", len(r.S))
	if r.Clamped > 0 {
		s.note += fmt.Sprintf(", lowered from %d", r.Clamped)
	}
	if r.Next > 0 {
		s.note += fmt.Sprintf(", next singular value %.3g", r.Next)
	}
	root, err := p.Normal.Root()
	if err != nil {
		return fmt.Errorf("prior: %w", err)
	}
	s.lift = func(dst, u []float64, rng *rand.Rand) {
		b, t := make([]float64, len(dst)), make([]float64, k)
		for j := range b {
			b[j] = rng.NormFloat64()
		}
		dense.GemvT(t, r.H, b)
		for i := range t {
			t[i] = u[i] - t[i]
		}
		for j := range b {
			b[j] += dense.Dot(r.H.Row(j), t)
		}
		root.Mul(dst, b)
		for j, m := range r.Prior.Mean {
			dst[j] += m
		}
	}
	s.lifted = func(g *gauss.Normal) (*gauss.Normal, error) {
		w, held, err := r.Lift(g)
		if held > 0 {
			s.note += fmt.Sprintf(", %d directions held at the prior's variance", held)
		}
		return w, err
	}
	return nil
}

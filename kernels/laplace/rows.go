package laplace

import (
	"fmt"
	"sync"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
)

// rowsAt returns the Gaussian with the exact Hessian by the n x n form: with B = I + W½KW½ and
// M = W½B⁻¹W½,
//
//	Σ = Σ0 - Σ0 XᵀMX Σ0,  |I + Σ0H| = |B|
//
// Variances take the inverse of B, computed once. They and the covariance must be requested before
// the search moves on, which overwrites B.
func (e *engine) rowsAt(w, curv []float64) (*belief, error) {
	s, x := e.search, e.x
	if s.space != rowSpace {
		s.setKernel()
	}
	if s.space != rowSpace || !e.assembled {
		s.floored = false
		if err := s.assembleRows(curv); err != nil {
			return nil, err
		}
	}
	bl := &belief{mean: w, floored: s.floored, logDet: dense.LogDet(s.b)}
	inverse := sync.OnceValue(func() *dense.Matrix {
		inv := x.Matrix(x.N, x.N)
		dense.InverseFromCholesky(inv, s.b)
		return inv
	})
	bl.vars = func() []float64 {
		m := inverse().Clone()
		for i, a := range s.sw {
			x.Stop.Check()
			row := m.Row(i)
			for k, b := range s.sw {
				row[k] *= a * b
			}
		}
		variance := memory.Floats(x.P)
		x.ColumnForms(variance, m)
		for j, f := range variance {
			// the least that rounding leaves of a variance that the data make tiny
			v := e.root.Of.Var[j]
			variance[j] = v * max(1-v*f, 1e-14)
		}
		return variance
	}
	bl.rows = func(dst []float64) { s.rowVariances(dst, inverse()) }
	bl.mulCov = func(dst, g []float64) { // by Woodbury's formula
		v := e.root.Of.Var
		z := memory.Floats(x.P)
		for j, c := range g {
			z[j] = v[j] * c
		}
		y := memory.Floats(x.N)
		x.Mul(y, z)
		s.halfSolve(y)
		copy(dst, z)
		x.MulT(z, y)
		for j := range dst {
			dst[j] -= v[j] * z[j]
		}
	}
	bl.build = func() (*gauss.Normal, error) { return e.rowsNormal(bl, curv) }
	return bl, nil
}

// certain is the least 1 - B⁻¹_ii of a row at which its variance is computed from that difference:
// rounding error is far below it.
const certain = 1e-6

// rowVariances sets dst to the variances of the predictors, (1 - B⁻¹_ii)/W_i, or, if that is only
// rounding error, to the diagonal of K - KMK.
func (s *search) rowVariances(dst []float64, inv *dense.Matrix) {
	const some = 128
	var hard []int
	for i, w := range s.sw {
		if share := 1 - inv.Row(i)[i]; share > certain {
			dst[i] = share / (w * w)
		} else {
			hard = append(hard, i)
		}
	}
	for len(hard) > 0 {
		part := hard[:min(some, len(hard))]
		hard = hard[len(part):]
		a, b := s.Matrix(len(part), s.N), s.Matrix(len(part), s.N)
		for r, i := range part {
			for k, w := range s.sw {
				a.Row(r)[k] = s.k.Row(i)[k] * w
			}
		}
		dense.Mul(b, a, inv)
		for r, i := range part {
			dst[i] = max(s.k.Row(i)[i]-dense.Dot(a.Row(r), b.Row(r)), 0)
		}
	}
}

// rowsNormal returns the posterior Σ0 - F Fᵀ, F = Σ0 Xᵀ W½ C⁻ᵀ for B = C Cᵀ, or a low-rank
// approximation if that is too large.
func (e *engine) rowsNormal(bl *belief, curv []float64) (*gauss.Normal, error) {
	s, x, v := e.search, e.x, e.root.Of.Var
	if float64(x.P)*float64(x.N+1) <= maxKept {
		f := x.Matrix(x.N, x.P)
		for i, a := range s.sw {
			x.Stop.Check()
			col, val := x.Entries(i)
			for k, j := range col {
				f.Row(i)[j] = a * val[k] * v[j]
			}
		}
		dense.SolveLower(s.b, f)
		if post, err := gauss.NewLowRank(bl.mean, v, f.T()); err == nil {
			return post, nil
		}
	}
	kept := *e
	kept.hessian = "rest"
	low, err := kept.lowRankAt(bl.mean, curv)
	if err != nil {
		return nil, err
	}
	bl.note = fmt.Sprintf("covariances are kept in %d directions and the diagonal of the others; mean and evidence are exact", low.rank)
	return low.build()
}

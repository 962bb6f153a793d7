package laplace

import (
	"fmt"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
)

// rowsAt is the Gaussian with the exact Hessian by the n x n form: with B = I + W½KW½ and
// M = W½B⁻¹W½,
//
//	Σ = Σ0 - Σ0 XᵀMX Σ0,  |I + Σ0H| = |B|
func (e *engine) rowsAt(w, curv []float64) (*belief, error) {
	s, x := e.search, e.x
	bl := &belief{mean: w}
	if !e.assembled {
		if err := s.assemble(); err != nil {
			return nil, err
		}
	}
	bl.floored = s.floored
	bl.logDet = dense.LogDet(s.b)
	inv := x.Matrix(x.N, x.N)
	dense.InverseFromCholesky(inv, s.b)
	own := make([]float64, x.N) // (B⁻¹)_ii
	for i := range own {
		own[i] = inv.Row(i)[i]
	}
	m := inv
	for i, a := range s.sw {
		x.Stop.Check()
		row := m.Row(i)
		for k, b := range s.sw {
			row[k] *= a * b
		}
	}
	v := e.root.Of.Var
	bl.variance = make([]float64, x.P)
	e.x.ColumnForms(bl.variance, m)
	for j, f := range bl.variance {
		// what rounding leaves of a variance that the data make tiny
		bl.variance[j] = v[j] * max(1-v[j]*f, 1e-14)
	}
	bl.rows = func(dst []float64) {
		u := make([]float64, x.N)
		for i := range dst {
			x.Stop.Check()
			if own[i] < 0.5 { // else the difference would be nothing but rounding
				dst[i] = (1 - own[i]) / (s.sw[i] * s.sw[i])
				continue
			}
			dense.Gemv(u, m, s.k.Row(i))
			dst[i] = max(s.k.Row(i)[i]-dense.Dot(u, s.k.Row(i)), 0)
		}
	}
	bl.mulCov = func(dst, g []float64) {
		y, u := make([]float64, x.N), make([]float64, x.N)
		for j, c := range g {
			dst[j] = v[j] * c
		}
		x.Mul(y, dst)
		dense.Gemv(u, m, y)
		z := make([]float64, x.P)
		x.MulT(z, u)
		for j := range dst {
			dst[j] -= v[j] * z[j]
		}
	}
	bl.build = func() (*gauss.Normal, error) { return e.rowsNormal(bl, curv) }
	return bl, nil
}

// rowsNormal is the posterior Σ0 - F Fᵀ, F = Σ0 Xᵀ W½ C⁻ᵀ for B = C Cᵀ, or what is kept of
// it where that is too much.
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

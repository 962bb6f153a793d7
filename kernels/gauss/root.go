package gauss

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/dense"
)

// Root is a square root A of a covariance, Σ = A Aᵀ: it turns independent standard normals z into a
// draw A z, and whitened coordinates z into weights.
//
//   - diagonal: A = diag(sd)
//   - full: A = L
//   - lowrank: A = D^½ (I - H Hᵀ) with D^-½F = G, GᵀG = R S² Rᵀ and
//     H = G R (I + (I - S²)^½)^-½, since (I - H Hᵀ)² = I - G Gᵀ.
type Root struct {
	Of    *Normal       // the Normal with that covariance; nil for Scaled
	Scale []float64     // sd or √D; nil for full
	L     *dense.Matrix // full
	H     *dense.Matrix // lowrank, p x r
	q     []float64     // lowrank: (1 - S²)^½ by column of H
}

// Scaled is the root diag(scale); nil is the identity.
func Scaled(scale []float64) *Root { return &Root{Scale: scale} }

// Root returns the square root of g's covariance. L is shared with g.
// Cost: O(p), and O(p r²) for LowRank. Errors: a LowRank covariance that is not
// positive definite.
func (g *Normal) Root() (*Root, error) {
	if g.Form == Full {
		return &Root{Of: g, L: g.L}, nil
	}
	d := g.Diag()
	r := &Root{Of: g, Scale: make([]float64, len(d))}
	for i, v := range d {
		r.Scale[i] = math.Sqrt(v)
	}
	if g.Form == Diagonal || g.F.Cols == 0 {
		return r, nil
	}
	k := g.F.Cols
	b := g.F.Clone()
	for i, s := range r.Scale {
		for j := range b.Row(i) {
			b.Row(i)[j] /= s
		}
	}
	c := dense.New(k, k)
	dense.Gram(c, b, nil)
	e, w, err := dense.Eigen(c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrNotPD)
	}
	r.q = make([]float64, k)
	for j, s2 := range e {
		if s2 >= 1 {
			return nil, fmt.Errorf("the low-rank part takes %v of a unit variance: %w", s2, ErrNotPD)
		}
		r.q[j] = math.Sqrt(1 - s2)
		// S² is 0 in directions that F lacks: nothing is divided by it.
		f := 1 / math.Sqrt(1+r.q[j])
		for i := range k {
			w.Row(i)[j] *= f
		}
	}
	r.H = dense.NewUnder(g.F.Stop, b.Rows, k)
	dense.Mul(r.H, b, w)
	return r, nil
}

// Mul sets dst = A z; dst may be z. Cost: O(p), O(p²) or O(p r).
func (r *Root) Mul(dst, z []float64) {
	if r.L != nil {
		for i := len(z) - 1; i >= 0; i-- {
			r.L.Stop.Row(i)
			dst[i] = dense.Dot(r.L.Row(i)[:i+1], z[:i+1])
		}
		return
	}
	copy(dst, z)
	r.fix(dst)
	for i, s := range r.Scale {
		dst[i] *= s
	}
}

// MulT sets dst = Aᵀ x; dst may be x.
func (r *Root) MulT(dst, x []float64) {
	if r.L != nil {
		for i := range x {
			r.L.Stop.Row(i)
			v := x[i]
			dst[i] = 0
			dense.Axpy(v, r.L.Row(i)[:i+1], dst[:i+1])
		}
		return
	}
	copy(dst, x)
	for i, s := range r.Scale {
		dst[i] *= s
	}
	r.fix(dst)
}

// fix sets x = (I - H Hᵀ) x.
func (r *Root) fix(x []float64) {
	if r.H == nil {
		return
	}
	u := make([]float64, r.H.Cols)
	dense.GemvT(u, r.H, x)
	for i := range x {
		x[i] -= dense.Dot(r.H.Row(i), u)
	}
}

// Solve sets dst = A⁻¹ w; dst may be w.
func (r *Root) Solve(dst, w []float64) {
	copy(dst, w)
	if r.L != nil {
		dense.SolveLowerVec(r.L, dst)
		return
	}
	for i, s := range r.Scale {
		dst[i] /= s
	}
	if r.H == nil {
		return
	}
	// (I - G Gᵀ)^-½ = I + H (I - S²)^-½ Hᵀ
	u := make([]float64, r.H.Cols)
	dense.GemvT(u, r.H, dst)
	for k := range u {
		u[k] /= r.q[k]
	}
	for i := range dst {
		dst[i] += dense.Dot(r.H.Row(i), u)
	}
}

// MulMat sets dst = A m; dst may be m.
func (r *Root) MulMat(dst, m *dense.Matrix) {
	r.mat(dst, m, dense.Mul, func() {
		r.fixMat(dst)
		dense.ScaleRows(dst, r.Scale)
	})
}

// MulTMat sets dst = Aᵀ m; dst may be m.
func (r *Root) MulTMat(dst, m *dense.Matrix) {
	r.mat(dst, m, dense.MulTA, func() {
		dense.ScaleRows(dst, r.Scale)
		r.fixMat(dst)
	})
}

func (r *Root) mat(dst, m *dense.Matrix, full func(dst, l, m *dense.Matrix), other func()) {
	if r.L != nil {
		if dst == m {
			m = m.Clone()
		}
		full(dst, r.L, m)
		return
	}
	if dst != m {
		dense.Copy(dst, m)
	}
	other()
}

func (r *Root) fixMat(m *dense.Matrix) {
	if r.H == nil {
		return
	}
	u := dense.New(r.H.Cols, m.Cols)
	dense.MulTA(u, r.H, m)
	dense.Gemm(m, -1, r.H, false, u, false, 1)
}

// Precisions is the diagonal of Σ⁻¹.
func (r *Root) Precisions() []float64 {
	g := r.Of
	lambda := make([]float64, g.Dim())
	if g.Form == Full {
		inv := dense.NewUnder(g.L.Stop, g.Dim(), g.Dim())
		dense.InverseFromCholesky(inv, g.L)
		for j := range lambda {
			lambda[j] = inv.Row(j)[j]
		}
		return lambda
	}
	for j, d := range g.Diag() {
		s := 1.0
		if r.H != nil { // D^-½ (I - G Gᵀ)⁻¹ D^-½
			for k, h := range r.H.Row(j) {
				s += h * h * (1 + r.q[k]) / (r.q[k] * r.q[k])
			}
		}
		lambda[j] = s / d
	}
	return lambda
}

// Variances returns the variances of A z: the diagonal of Σ.
func (r *Root) Variances() []float64 {
	if r.L != nil {
		v := make([]float64, r.L.Rows)
		for i := range v {
			row := r.L.Row(i)[:i+1]
			v[i] = dense.Dot(row, row)
		}
		return v
	}
	v := make([]float64, len(r.Scale))
	for i, s := range r.Scale {
		v[i] = s * s
	}
	if r.H == nil {
		return v
	}
	k := r.H.Cols // (I - H Hᵀ)² = I - H (2 I - HᵀH) Hᵀ
	c, m := dense.New(k, k), dense.New(len(v), k)
	dense.MulTA(c, r.H, r.H)
	for i := range c.Data {
		c.Data[i] = -c.Data[i]
	}
	for i := range k {
		c.Row(i)[i] += 2
	}
	dense.Mul(m, r.H, c)
	for i := range v {
		v[i] *= 1 - dense.Dot(m.Row(i), r.H.Row(i))
	}
	return v
}

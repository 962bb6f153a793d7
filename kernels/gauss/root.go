package gauss

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/bglm/bglm/kernels/dense"
)

// Root is a square root A of a covariance, Σ = A Aᵀ: it turns independent standard
// normals z into a draw A z, and coordinates z into weights.
//
//   - diagonal: A = diag(sd)
//   - full: A = L
//   - lowrank: A = D^½ (I - H Hᵀ) with D^-½F = G, GᵀG = R S² Rᵀ and
//     H = G R (I + (I - S²)^½)^-½, since (I - H Hᵀ)² = I - G Gᵀ.
type Root struct {
	Scale []float64     // sd or √D; nil for full
	L     *dense.Matrix // full
	H     *dense.Matrix // lowrank, p x r
}

// Root returns the square root of g's covariance. L is shared with g.
// Cost: O(p), and O(p r²) for LowRank. Errors: a LowRank covariance that is not
// positive definite.
func (g *Normal) Root() (*Root, error) {
	if g.Form == Full {
		return &Root{L: g.L}, nil
	}
	d := g.Var
	if g.Form == LowRank {
		d = g.D
	}
	r := &Root{Scale: make([]float64, len(d))}
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
	var e mat.EigenSym
	if !e.Factorize(mat.NewSymDense(k, c.Data), true) {
		return nil, fmt.Errorf("eigenvalues of the low-rank part: %w", ErrNotPD)
	}
	var q mat.Dense
	e.VectorsTo(&q)
	w := dense.New(k, k)
	for j, s2 := range e.Values(nil) {
		if s2 >= 1 {
			return nil, fmt.Errorf("the low-rank part takes %v of a unit variance: %w", s2, ErrNotPD)
		}
		// S² is 0 in directions that F does not have: nothing is divided by it.
		f := 1 / math.Sqrt(1+math.Sqrt(1-s2))
		for i := range k {
			w.Row(i)[j] = q.At(i, j) * f
		}
	}
	r.H = dense.New(b.Rows, k)
	dense.Mul(r.H, b, w)
	return r, nil
}

// Mul sets dst = A z; they do not overlap. scratch is grown as needed and may be nil.
// Cost: O(p), O(p²) or O(p r).
func (r *Root) Mul(dst, z []float64, scratch *[]float64) {
	if r.L != nil {
		for i := range dst {
			dst[i] = dense.Dot(r.L.Row(i)[:i+1], z[:i+1])
		}
		return
	}
	if r.H == nil {
		for i, s := range r.Scale {
			dst[i] = s * z[i]
		}
		return
	}
	u := room(scratch, r.H.Cols)
	dense.GemvT(u, r.H, z)
	for i, s := range r.Scale {
		dst[i] = s * (z[i] - dense.Dot(r.H.Row(i), u))
	}
}

// MulT sets dst = Aᵀ x; they do not overlap.
func (r *Root) MulT(dst, x []float64, scratch *[]float64) {
	if r.L != nil {
		clear(dst)
		for i, v := range x {
			dense.Axpy(v, r.L.Row(i)[:i+1], dst[:i+1])
		}
		return
	}
	for i, s := range r.Scale {
		dst[i] = s * x[i]
	}
	if r.H == nil {
		return
	}
	u := room(scratch, r.H.Cols)
	dense.GemvT(u, r.H, dst)
	for i := range dst {
		dst[i] -= dense.Dot(r.H.Row(i), u)
	}
}

// Variances are those of A z: the diagonal of Σ.
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

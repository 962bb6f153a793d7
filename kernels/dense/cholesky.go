package dense

import (
	"errors"
	"fmt"
	"math"
)

// ErrNotPD says that a matrix is not positive definite to working precision.
var ErrNotPD = errors.New("matrix not positive definite")

// Cholesky factors A = L Lᵀ in place: only the lower triangle of A is read, L is left there
// and the upper triangle is set to zero. If a pivot is not a positive number the error wraps
// ErrNotPD and names it, and A is left half done.
func Cholesky(a *Matrix) error {
	a.shape("a", a.Rows, a.Rows)
	for i := range a.Rows {
		ri := a.Row(i)
		for j := range i {
			rj := a.Row(j)
			ri[j] = (ri[j] - Dot(ri[:j], rj[:j])) / rj[j]
		}
		d := ri[i] - Dot(ri[:i], ri[:i])
		if !(d > 0) || math.IsInf(d, 1) {
			return fmt.Errorf("dense: pivot %d is %g: %w", i, d, ErrNotPD)
		}
		ri[i] = math.Sqrt(d)
		clear(ri[i+1:])
	}
	return nil
}

// LogDet is log |L Lᵀ| = 2 Σ log L_ii.
func LogDet(l *Matrix) float64 {
	s := 0.0
	for i := range l.Rows {
		s += math.Log(l.At(i, i))
	}
	return 2 * s
}

// InverseFromCholesky sets dst = (L Lᵀ)⁻¹, both triangles.
func InverseFromCholesky(dst, l *Matrix) {
	dst.shape("dst", l.Rows, l.Rows)
	for i := range dst.Rows {
		row := dst.Row(i)
		clear(row)
		row[i] = 1
	}
	SolveLower(l, dst)
	SolveLowerT(l, dst)
	p := product{dst: *dst}
	p.mirror(tile{0, dst.Rows, 0, dst.Rows})
}

package mode

import (
	"errors"
	"math"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// ErrOverflow reports a curvature that is not a finite number.
var ErrOverflow = errors.New("the curvature of the log posterior overflows; scale the features or give smaller prior variances")

// Reverse sets dst to src with rows and columns in reverse order.
func Reverse(dst, src *dense.Matrix) {
	n := src.Rows
	dst.Stop = src.Stop
	for i := range n {
		src.Stop.Check()
		row, from := dst.Row(i), src.Row(n-1-i)
		for j := range row {
			row[j] = from[n-1-j]
		}
	}
}

// ReverseVec sets dst to src in reverse order; dst may be src.
func ReverseVec(dst, src []float64) {
	n := len(src)
	for i := range (n + 1) / 2 {
		dst[i], dst[n-1-i] = src[n-1-i], src[i]
	}
}

// Whiten sets b to I + TᵀhT with rows and columns in reverse order. The inverse of its
// Cholesky factor then gives a lower triangular root of the posterior covariance:
// B = U Uᵀ with U upper triangular, B⁻¹ = U⁻ᵀ U⁻¹.
func Whiten(b, h *dense.Matrix, t *gauss.Root) {
	m, p := h, h.Rows
	if t.L != nil {
		hl := dense.NewUnder(h.Stop, p, p)
		m = dense.NewUnder(h.Stop, p, p)
		dense.Mul(hl, h, t.L)
		dense.MulTA(m, t.L, hl)
	}
	Reverse(b, m)
	for i := range b.Rows {
		b.Stop.Check()
		row := b.Row(i)
		if t.L == nil {
			n := len(row) - 1
			si := t.Scale[n-i]
			for j := range row {
				row[j] *= si * t.Scale[n-j]
			}
		}
		row[i]++
	}
}

// Factor replaces b by its Cholesky factor. The eigenvalues of b are at least 1; if rounding, of
// relative size eps times the largest, made some negative, those below 1 are reset to 1.
func Factor(b *dense.Matrix) error {
	keep := b.Clone()
	if dense.Cholesky(b) == nil {
		return nil
	}
	for _, v := range keep.Data {
		if !special.Finite(v) {
			return ErrOverflow
		}
	}
	dense.Mirror(keep)
	e, v, err := dense.Eigen(keep)
	if err != nil {
		return err
	}
	// b = V E Vᵀ = RᵀR with E½Vᵀ = Q R
	n := b.Rows
	half := dense.NewUnder(b.Stop, n, n)
	for i := range n {
		b.Stop.Check()
		for k := range n {
			half.Row(k)[i] = math.Sqrt(max(e[k], 1)) * v.Row(i)[k]
		}
	}
	dense.LowerOf(b, half)
	return nil
}

// Diagonal returns N(w, diag(Λ0 + diag(h))⁻¹), which keeps only the diagonal h of a Hessian, and
// log |I + Σ0 diag(h)|. An entry of h that makes a precision negative counts as 0.
func Diagonal(t *gauss.Root, w, h []float64) (post *gauss.Normal, logDet float64, floored bool, err error) {
	independent := t.Of.Form == gauss.Diagonal
	if !independent {
		if logDet, err = t.Of.LogDet(); err != nil {
			return nil, 0, false, err
		}
	}
	variance := memory.Floats(len(w))
	for j, l := range t.Precisions() {
		if !(l+h[j] > 0) {
			h[j], floored = 0, true
		}
		q := l + h[j]
		if !(q > 0) || math.IsInf(q, 1) {
			return nil, 0, false, ErrOverflow
		}
		variance[j] = 1 / q
		if independent {
			logDet += math.Log1p(h[j] / l) // accurate if the data say little
		} else {
			logDet += math.Log(q)
		}
	}
	return gauss.NewDiagonal(w, variance), logDet, floored, nil
}

// PosteriorRoot returns the lower triangular root of T B⁻¹ Tᵀ, where b is the Cholesky factor of B
// in reverse order, as from Whiten.
func PosteriorRoot(t *gauss.Root, b *dense.Matrix) *dense.Matrix {
	p := b.Rows
	inv := dense.NewUnder(b.Stop, p, p)
	for i := range p {
		b.Stop.Row(i)
		inv.Row(i)[i] = 1
	}
	dense.SolveLower(b, inv)
	l := dense.NewUnder(b.Stop, p, p)
	for i := range p {
		inv.Stop.Check()
		row := l.Row(i)
		for j := range i + 1 {
			row[j] = inv.Row(p - 1 - j)[p-1-i]
		}
	}
	if t.L != nil {
		dense.Mul(inv, t.L, l)
		for i := range p {
			b.Stop.Row(i)
			clear(inv.Row(i)[i+1:])
		}
		return inv
	}
	for i, s := range t.Scale {
		b.Stop.Row(i)
		for j := range l.Row(i)[:i+1] {
			l.Row(i)[j] *= s
		}
	}
	return l
}

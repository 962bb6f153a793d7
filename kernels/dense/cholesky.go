package dense

import (
	"errors"
	"fmt"
	"math"
)

// ErrNotPD says that a matrix is not positive definite to working precision.
var ErrNotPD = errors.New("matrix not positive definite")

// choleskyBase is the order up to which a factor is computed in one packed panel.
const choleskyBase = 64

// Cholesky factors A = L Lᵀ in place: only the lower triangle of A is read, L replaces it and the
// upper triangle is set to zero. If a pivot is not a positive number the error wraps ErrNotPD and
// names it, and A is left half factored.
//
// The matrix is halved,
//
//	L11 L11ᵀ = A11,  L21 = A21 L11⁻ᵀ,  L22 L22ᵀ = A22 - L21 L21ᵀ,
//
// so that nearly all work is in large products. Cost: n³/3 operations. Source: Gustavson,
// Recursion leads to automatic variable blocking for dense linear-algebra algorithms, IBM
// Journal of Research and Development 41 (1997).
func Cholesky(a *Matrix) error {
	a.shape("a", a.Rows, a.Rows)
	if err := cholesky(*a, 0); err != nil {
		return err
	}
	for i := 0; i < a.Rows; {
		for end := a.upTo(i, a.Rows); i < end; i++ {
			clear(a.Row(i)[i+1:])
		}
	}
	return nil
}

// cholesky factors the block of a larger matrix that begins at the given pivot.
func cholesky(a Matrix, pivot int) error {
	n := a.Rows
	a.Stop.Check()
	if n <= choleskyBase {
		return choleskyPanel(a, pivot)
	}
	h := half(n, choleskyBase)
	a11, a21, a22 := a.view(0, h, 0, h), a.view(h, n, 0, h), a.view(h, n, h, n)
	if err := cholesky(a11, pivot); err != nil {
		return err
	}
	solveRight(a11, a21)
	Syrk(&a22, -1, &a21, 1)
	return cholesky(a22, pivot+h)
}

// choleskyPanel factors a small matrix by rows of U = Lᵀ in packed form, so that all sums run over
// the vectors of a row: the rows above are subtracted from blockRows rows at a time, which are then
// factored one by one. Left of the diagonal, the contents of U are unspecified.
func choleskyPanel(a Matrix, pivot int) error {
	n := a.Rows
	s := scratch.Get().(*space)
	defer scratch.Put(s)
	width := roundUp(n, lanes)
	s.c, s.a = grow(s.c, n*width), grow(s.a, n*width)
	x, minus := s.c, s.a // U and -U
	for r := 0; r < n; r += lanes {
		packTrans(x[r:], width, a.Data[r*a.Stride:], a.Stride, min(lanes, n-r), n)
	}
	for i := 0; i < n; i += blockRows {
		m := min(blockRows, n-i)
		for j := i; j < width && i > 0; j += panelCols {
			block(m, min(panelCols, width-j), x[i*width+j:], width, minus[i:], 1, width, x[j:], width, i, nil, 0)
		}
		for r := i; r < i+m; r++ {
			for j := i; j < width && r > i; j += panelCols {
				block(1, min(panelCols, width-j), x[r*width+j:], width, minus[i*width+r:], 1, width, x[i*width+j:], width, r-i, nil, 0)
			}
			d := x[r*width+r]
			if !(d > 0) || math.IsInf(d, 1) {
				return fmt.Errorf("dense: pivot %d is %g: %w", pivot+r, d, ErrNotPD)
			}
			f := [1]float64{1 / math.Sqrt(d)}
			row, neg := x[r*width+i:(r+1)*width], minus[r*width+i:(r+1)*width]
			packRows(row, width, panelCols, row, width, 1, len(row), f[:])
			x[r*width+r] = math.Sqrt(d)
			f[0] = -1
			packRows(neg, width, panelCols, row, width, 1, len(row), f[:])
		}
	}
	for i := range n {
		row := a.Row(i)[:i+1]
		for j := range row {
			row[j] = x[j*width+i]
		}
	}
	return nil
}

// half is about n/2 and a multiple of base, for n > base.
func half(n, base int) int { return roundUp(n/2, base) }

// LowerRoot returns the lower triangular C with N = CᵀC, for symmetric positive definite N, which
// is unchanged.
//
// Cost: that of Cholesky and a copy. Errors: ErrNotPD, with the pivot counted from the last.
func LowerRoot(n *Matrix) (*Matrix, error) {
	p := n.Rows
	rev := NewUnder(n.Stop, p, p)
	for i := range p {
		n.Stop.Row(i)
		for j := range p {
			rev.Row(i)[j] = n.Row(p - 1 - i)[p-1-j]
		}
	}
	if err := Cholesky(rev); err != nil {
		return nil, err
	}
	// N reversed is G Gᵀ, so N is U Uᵀ with U = G reversed, and C = Uᵀ.
	c := NewUnder(n.Stop, p, p)
	for i := range p {
		n.Stop.Row(i)
		for j := range i + 1 {
			c.Row(i)[j] = rev.Row(p - 1 - j)[p-1-i]
		}
	}
	return c, nil
}

// LogDet is log |L Lᵀ| = 2 Σ log L_ii.
func LogDet(l *Matrix) float64 {
	l.shape("l", l.Rows, l.Rows)
	s := 0.0
	for i := range l.Rows {
		s += math.Log(l.At(i, i))
	}
	return 2 * s
}

// InverseFromCholesky sets dst = (L Lᵀ)⁻¹, both triangles. L is not read above its diagonal; dst
// must not overlap L.
//
// Cost: about n³ operations and n² numbers of scratch, for W = L⁻¹ in dst = WᵀW.
func InverseFromCholesky(dst, l *Matrix) {
	n := l.Rows
	l.shape("l", n, n)
	dst.shape("dst", n, n)
	dst.adopt(l)
	w := NewUnder(dst.Stop, n, n)
	invertLower(*w, *l)
	p := product{m: n, n: n, k: n, a: *w, b: *w, ta: true, alpha: 1, dst: *dst, lower: true, both: true, upperA: true}
	p.run()
}

// invertLower sets the lower triangle of w, all zeros, to L⁻¹:
//
//	W11 = L11⁻¹,  W21 = -L22⁻¹ L21 W11,  W22 = L22⁻¹.
func invertLower(w, l Matrix) {
	n := l.Rows
	if n <= solveBase {
		for i := range n {
			w.Row(i)[i] = 1
		}
		solveBlock(l, w, left)
		return
	}
	h := half(n, solveBase)
	w11, l21, l22, w21 := w.view(0, h, 0, h), l.view(h, n, 0, h), l.view(h, n, h, n), w.view(h, n, 0, h)
	invertLower(w11, l.view(0, h, 0, h))
	p := product{m: n - h, n: h, k: h, a: l21, b: w11, alpha: -1, dst: w21, lowerB: true}
	p.run()
	solve(l22, w21, left)
	invertLower(w.view(h, n, h, n), l22)
}

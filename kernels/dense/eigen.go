package dense

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"
)

// Eigen is A = V diag(e) Vᵀ for a symmetric matrix, of which the upper triangle is read:
// eigenvalues in ascending order, eigenvectors in columns.
func Eigen(a *Matrix) ([]float64, *Matrix, error) {
	n := a.Rows
	if n == 0 {
		return nil, New(0, 0), nil
	}
	var es mat.EigenSym
	var v mat.Dense
	found := false
	a.Stop.Beside(func() {
		if found = Finite(a) && es.Factorize(mat.NewSymDense(n, a.Clone().Data), true); found {
			es.VectorsTo(&v)
		}
	})
	if !found {
		return nil, nil, fmt.Errorf("the eigenvalues of a %d x %d matrix were not found", n, n)
	}
	return es.Values(nil), wrap(&v, a), nil
}

// SVD returns the singular values of a square matrix, in descending order, and its right singular
// vectors in columns.
func SVD(a *Matrix) ([]float64, *Matrix, error) {
	n := a.Rows
	var svd mat.SVD
	var v mat.Dense
	found := false
	a.Stop.Beside(func() {
		if found = svd.Factorize(mat.NewDense(n, n, a.Clone().Data), mat.SVDThin); found {
			svd.VTo(&v)
		}
	})
	if !found {
		return nil, nil, fmt.Errorf("the singular values of a %d x %d matrix were not found", n, n)
	}
	return svd.Values(nil), wrap(&v, a), nil
}

func wrap(m *mat.Dense, like *Matrix) *Matrix {
	raw := m.RawMatrix()
	return &Matrix{Rows: raw.Rows, Cols: raw.Cols, Stride: raw.Stride, Data: raw.Data, Stop: like.Stop}
}

// LowerOf sets dst to the lower triangular L with L Lᵀ = aᵀa, by QR of a.
func LowerOf(dst, a *Matrix) {
	var r mat.Dense
	a.Stop.Beside(func() {
		var qr mat.QR
		qr.Factorize(mat.NewDense(a.Rows, a.Cols, a.Clone().Data))
		qr.RTo(&r)
	})
	for i := range dst.Rows {
		a.Stop.Row(i)
		clear(dst.Row(i))
	}
	for k := range dst.Rows {
		a.Stop.Row(k)
		sign := math.Copysign(1, r.At(k, k))
		for i := k; i < dst.Rows; i++ {
			dst.Row(i)[k] = sign * r.At(k, i)
		}
	}
}

// Finite reports whether all entries are finite.
func Finite(a *Matrix) bool { return !math.IsInf(largest(a), 1) }

// largest is the largest magnitude of an entry, +Inf if any is NaN.
func largest(a *Matrix) float64 {
	top := 0.0
	for i := range a.Rows {
		for _, v := range a.Row(i) {
			if v = math.Abs(v); !(v <= top) {
				if !(v <= math.MaxFloat64) {
					return math.Inf(1)
				}
				top = v
			}
		}
	}
	return top
}

// Orthonormal replaces the columns of y, n x l with n >= l, by an orthonormal basis of a space that
// contains theirs: by rounds of Cholesky-QR, which consist of matrix products, or by Householder
// reflections if the columns are too close to dependent. It returns false if an entry is not
// finite.
//
// Source: [yamamoto2015], CholeskyQR2.
func Orthonormal(y *Matrix, rounds int) bool {
	if y.Cols == 0 {
		return true
	}
	top := largest(y)
	switch {
	case math.IsInf(top, 1):
		return false
	case top > 0:
		_, e := math.Frexp(top)
		f := math.Ldexp(1, min(-e, 1000)) // entries below 1: no sum of products overflows
		for i := range y.Rows {
			scale(y.Row(i), f)
		}
		if choleskyQR(y, rounds) {
			return true
		}
	}
	y.Stop.Beside(func() { householder(y.Rows, y.Cols, y.Stride, y.Data) })
	return true
}

// choleskyQR sets y = y L⁻ᵀ, L Lᵀ = yᵀy, in one or two rounds: the first leaves an error of eps κ²,
// κ being the condition number of y, which the second reduces to eps. It returns false, with y
// unchanged, if the factor's diagonal spans more than 10⁵.
func choleskyQR(y *Matrix, rounds int) bool {
	l := y.Cols
	g, inv, out := NewUnder(y.Stop, l, l), NewUnder(y.Stop, l, l), NewUnder(y.Stop, y.Rows, l)
	for range rounds {
		Gram(g, y, nil)
		if Cholesky(g) != nil {
			return false
		}
		lo, hi := math.Inf(1), 0.0
		for i := range l {
			lo, hi = min(lo, g.At(i, i)), max(hi, g.At(i, i))
			clear(inv.Row(i))
			inv.Row(i)[i] = 1
		}
		if hi > 1e5*lo {
			return false
		}
		SolveLower(g, inv)
		MulTB(out, y, inv)
		*y, *out = *out, *y
	}
	return true
}

func householder(rows, cols, stride int, data []float64) {
	a := blas64.General{Rows: rows, Cols: cols, Stride: stride, Data: data}
	tau := make([]float64, cols)
	work := make([]float64, 1)
	lapack64.Geqrf(a, tau, work, -1)
	size := int(work[0])
	lapack64.Orgqr(a, tau, work, -1)
	work = make([]float64, max(size, int(work[0]), 1))
	lapack64.Geqrf(a, tau, work, len(work))
	lapack64.Orgqr(a, tau, work, len(work))
}

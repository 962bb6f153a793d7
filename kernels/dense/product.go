package dense

// Mul sets dst = A B.
func Mul(dst, a, b *Matrix) { Gemm(dst, 1, a, false, b, false, 0) }

// MulTA sets dst = Aᵀ B.
func MulTA(dst, a, b *Matrix) { Gemm(dst, 1, a, true, b, false, 0) }

// MulTB sets dst = A Bᵀ.
func MulTB(dst, a, b *Matrix) { Gemm(dst, 1, a, false, b, true, 0) }

// Gemm sets dst = alpha op(A) op(B) + beta dst, where op transposes if ta or tb says so.
// dst overlaps neither A nor B. As in BLAS, beta = 0 overwrites dst whatever it holds and
// alpha = 0 reads neither A nor B.
func Gemm(dst *Matrix, alpha float64, a *Matrix, ta bool, b *Matrix, tb bool, beta float64) {
	m, k, n := a.Rows, a.Cols, b.Cols
	if ta {
		m, k = k, m
	}
	if tb {
		n = b.Rows
	}
	a.check("a")
	if tb {
		b.shape("b", n, k)
	} else {
		b.shape("b", k, n)
	}
	dst.shape("dst", m, n)
	if n == 0 {
		return
	}
	at := func(i, t int) float64 {
		if ta {
			return a.Data[t*a.Stride+i]
		}
		return a.Data[i*a.Stride+t]
	}
	if tb {
		b = b.T()
	}
	for i := range m {
		row := dst.Row(i)
		scale(row, beta)
		for t := 0; t < k && alpha != 0; t++ {
			Axpy(alpha*at(i, t), b.Row(t), row)
		}
	}
}

// Gram sets dst = Xᵀ diag(w) X, both triangles. X is n x p, dst p x p; w has length n, or
// is nil for ones, and may hold any numbers.
func Gram(dst, x *Matrix, w []float64) {
	if w == nil {
		Gemm(dst, 1, x, true, x, false, 0)
		return
	}
	length("w", w, x.Rows)
	wx := x.Clone()
	for i, v := range w {
		scale(wx.Row(i), v)
	}
	Gemm(dst, 1, x, true, wx, false, 0)
	mirror(dst)
}

// GramT sets dst = X diag(w) Xᵀ, both triangles. X is n x p, dst n x n; w has length p, or
// is nil for ones.
func GramT(dst, x *Matrix, w []float64) { Gram(dst, x.T(), w) }

// Syrk sets the lower triangle of dst = alpha A Aᵀ + beta dst; what is above the diagonal
// is left alone.
func Syrk(dst *Matrix, alpha float64, a *Matrix, beta float64) {
	dst.shape("dst", a.Rows, a.Rows)
	for i := range a.Rows {
		row := dst.Row(i)[:i+1]
		scale(row, beta)
		for j := range row {
			row[j] += alpha * Dot(a.Row(i), a.Row(j))
		}
	}
}

// mirror copies the lower triangle onto the upper one.
func mirror(m *Matrix) {
	for i := range m.Rows {
		for j, v := range m.Row(i)[:i] {
			m.Data[j*m.Stride+i] = v
		}
	}
}

func scale(x []float64, a float64) {
	switch a {
	case 0:
		clear(x)
	case 1:
	default:
		for i := range x {
			x[i] *= a
		}
	}
}

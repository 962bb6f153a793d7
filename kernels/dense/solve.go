package dense

// SolveLower sets B = L⁻¹ B for lower triangular L, n x n, and B, n x k. What L holds above
// its diagonal is not read.
func SolveLower(l, b *Matrix) {
	l.shape("l", b.Rows, b.Rows)
	for i := range b.Rows {
		li, bi := l.Row(i), b.Row(i)
		for t, v := range li[:i] {
			Axpy(-v, b.Row(t), bi)
		}
		for j := range bi {
			bi[j] /= li[i]
		}
	}
}

// SolveLowerT sets B = L⁻ᵀ B.
func SolveLowerT(l, b *Matrix) {
	l.shape("l", b.Rows, b.Rows)
	for i := b.Rows - 1; i >= 0; i-- {
		li, bi := l.Row(i), b.Row(i)
		for j := range bi {
			bi[j] /= li[i]
		}
		for t, v := range li[:i] {
			Axpy(-v, bi, b.Row(t))
		}
	}
}

// SolveLowerVec sets b = L⁻¹ b.
func SolveLowerVec(l *Matrix, b []float64) {
	l.shape("l", len(b), len(b))
	for i := range b {
		li := l.Row(i)
		b[i] = (b[i] - Dot(li[:i], b[:i])) / li[i]
	}
}

// SolveLowerTVec sets b = L⁻ᵀ b.
func SolveLowerTVec(l *Matrix, b []float64) {
	l.shape("l", len(b), len(b))
	for i := len(b) - 1; i >= 0; i-- {
		li := l.Row(i)
		b[i] /= li[i]
		Axpy(-b[i], li[:i], b[:i])
	}
}

package dense

// Dot is Σ x_i y_i.
func Dot(x, y []float64) float64 {
	length("y", y, len(x))
	s := 0.0
	for i, v := range x {
		s += v * y[i]
	}
	return s
}

// Axpy sets y += a x.
func Axpy(a float64, x, y []float64) {
	length("y", y, len(x))
	for i, v := range x {
		y[i] += a * v
	}
}

// Gemv sets y = A x.
func Gemv(y []float64, a *Matrix, x []float64) {
	length("y", y, a.Rows)
	for i := range y {
		y[i] = Dot(a.Row(i), x)
	}
}

// GemvT sets y = Aᵀ x.
func GemvT(y []float64, a *Matrix, x []float64) {
	length("x", x, a.Rows)
	clear(y)
	for i, v := range x {
		Axpy(v, a.Row(i), y)
	}
}

package dense

// A lower triangular matrix packed by columns has L(i, j) of i >= j at i-j of column j, which
// begins where column j-1 ends.

// short is from how few numbers on a loop is faster than a call.
const short = 8

// PackedTMul sets f = Lᵀ g, L packed by columns.
func PackedTMul(f, l, g []float64) {
	length("f", f, len(g))
	length("l", l, len(g)*(len(g)+1)/2)
	for len(g) >= short {
		col := l[:len(g)]
		f[0] = dot(col, g)
		l, f, g = l[len(g):], f[1:], g[1:]
	}
	for j := range f {
		col := l[:len(g)]
		s := 0.0
		for i, v := range col {
			s += v * g[i]
		}
		f[j] = s
		l, g = l[len(g):], g[1:]
	}
}

// PackedRotate is Rotate of each column of L, packed by columns, and what u has from its
// diagonal down, from the last column to the first: with a, b and c of that column.
func PackedRotate(l, u, a, b, c []float64) {
	d := len(u)
	length("l", l, d*(d+1)/2)
	at := len(l)
	for j := d - 1; j >= 0; j-- {
		at -= d - j
		x, y := l[at:at+d-j], u[j:]
		if len(x) >= short {
			rotate(x, y, a[j], b[j], c[j])
			continue
		}
		y = y[:len(x)]
		for i, v := range x {
			w := y[i]
			x[i] = a[j]*v - b[j]*w
			y[i] = w + c[j]*v
		}
	}
}

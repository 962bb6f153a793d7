package dense

// A lower triangular matrix packed by columns has L(i, j) of i >= j at i-j of column j, which
// begins where column j-1 ends.

// short is from how few numbers on a loop is faster than a call.
const short = 8

// PackedTMul sets f = Lᵀ g, L packed by columns.
func PackedTMul(f, l, g []float64) {
	length("f", f, len(g))
	length("l", l, len(g)*(len(g)+1)/2)
	if n := len(g) + 1 - short; n > 0 {
		timesColumns(f, l, g, n)
		l, f, g = l[n*len(g)-n*(n-1)/2:], f[n:], g[n:]
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
	length("a", a, d)
	length("b", b, d)
	length("c", c, d)
	at := len(l)
	for j := d - 1; j >= max(0, d+1-short); j-- {
		at -= d - j
		x := l[at : at+d-j]
		y := u[j:][:len(x)]
		for i, v := range x {
			w := y[i]
			x[i] = a[j]*v - b[j]*w
			y[i] = w + c[j]*v
		}
	}
	if n := d + 1 - short; n > 0 {
		rotateColumns(l, u, a, b, c, n)
	}
}

// Shrinks sets a_j = √(r_j+1 / r_j) and b_j = β f_j / r_j+1 · a_j: by what Carlson's update by β
// shrinks column j of a root and how much of what was gained to the right of it is taken
// off, f = Lᵀg and r_j the ratio 1 - β gᵀPg that is left from column j on, one more than f.
func Shrinks(a, b, f, r []float64, beta float64) {
	length("a", a, len(f))
	length("b", b, len(f))
	length("r", r, len(f)+1)
	if len(f) > 0 {
		shrinks(a, b, f, r, beta)
	}
}

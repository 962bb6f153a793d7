package dense

// A packed lower triangle of d rows has its first d mod 8 rows by columns, column j from L(j, j)
// down; after them, aligned to eight numbers, come strips of eight rows, each column of a strip as
// eight numbers, up to the column of its last row. Above the diagonal they contain 0.

// Least is the smallest diagonal entry that PackedRotate leaves: its square does not underflow.
const Least = 1e-150

// short is the number of numbers below which a loop is faster than a call.
const short = 8

// PackedLen is the length of a packed triangle of d rows.
func PackedLen(d int) int {
	if d < 8 {
		return d * (d + 1) / 2
	}
	n := d / 8
	return behind(d) + 8*n*(d&7) + 32*n*(n+1)
}

// behind is the index where the strips begin.
func behind(d int) int { return roundUp((d&7)*(d&7+1)/2, 8) }

// PackedAt is the index of L(i, j), i >= j, in a packed triangle of d rows.
func PackedAt(d, i, j int) int {
	first := d & 7
	if i < first {
		return j*first - j*(j-1)/2 + i - j
	}
	n := (i - first) / 8
	return behind(d) + 8*n*first + 32*n*(n+1) + 8*j + (i-first)&7
}

// PackRow sets row i of a packed triangle of d rows.
func PackRow(l []float64, d, i int, row []float64) {
	if i < d&7 {
		for j, v := range row {
			l[PackedAt(d, i, j)] = v
		}
		return
	}
	to := l[PackedAt(d, i, 0):]
	for j, v := range row[:i+1] {
		to[8*j] = v
	}
}

// PackedTMul sets f = Lᵀ g.
func PackedTMul(f, l, g []float64) {
	d := len(g)
	length("f", f, d)
	length("l", l, PackedLen(d))
	first := d & 7
	if d >= 8 {
		timesStrips(f, l[behind(d):], g[first:], first)
	} else {
		clear(f)
	}
	for g := g[:first]; len(g) > 0; l, f, g = l[len(g):], f[1:], g[1:] {
		s := 0.0
		for i, v := range l[:len(g)] {
			s += v * g[i]
		}
		f[0] += s
	}
}

// PackedRotate carries u, initially 0, through the columns of L, from the last to the first: a
// column x and the part of u from its diagonal down become a x - b u and u + c x, with a, b and c
// of that column. Diagonal entries stay at Least or more.
func PackedRotate(l, u, a, b, c []float64) {
	d := len(u)
	length("l", l, PackedLen(d))
	length("a", a, d)
	length("b", b, d)
	length("c", c, d)
	first := d & 7
	if d >= 8 {
		rotateStrips(l[behind(d):], u[first:], a, b, c, first)
	}
	at := first * (first + 1) / 2
	clear(u[:first])
	for j := first - 1; j >= 0; j-- {
		at -= first - j
		x := l[at : at+first-j]
		y := u[j:][:len(x)]
		for i, v := range x {
			w := y[i]
			x[i] = a[j]*v - b[j]*w
			y[i] = w + c[j]*v
		}
		x[0] = max(x[0], Least)
	}
}

// Shrinks sets a_j = √(r_j+1 / r_j) and b_j = β f_j / r_j+1 · a_j: the factor by which Carlson's
// update by β shrinks column j of a root, and the multiple of the sum accumulated to its right that
// it subtracts, with f = Lᵀg and r_j the ratio 1 - β gᵀPg that remains from column j on, one more
// than f.
func Shrinks(a, b, f, r []float64, beta float64) {
	length("a", a, len(f))
	length("b", b, len(f))
	length("r", r, len(f)+1)
	if len(f) > 0 {
		shrinks(a, b, f, r, beta)
	}
}

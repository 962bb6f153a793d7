package dense

import "math"

// Relower turns the columns of l, which is lower triangular except for row to up to column last,
// into a lower triangular root of the same matrix with a diagonal >= 0, by Givens rotations: one
// sweep from the right clears the row and leaves entries just above the diagonal, which one sweep
// back clears.
func Relower(l *Matrix, to, last int) {
	turn := func(row, j int) { // rotates entry (row, j) into column j-1
		x, y := l.Row(row)[j-1], l.Row(row)[j]
		if y == 0 {
			return
		}
		r := math.Hypot(x, y)
		c, s := x/r, y/r
		for i := row; i < l.Rows; i++ {
			v := l.Row(i)
			v[j-1], v[j] = c*v[j-1]+s*v[j], c*v[j]-s*v[j-1]
		}
		l.Row(row)[j] = 0
	}
	for j := last; j > to; j-- {
		turn(to, j)
	}
	for j := to + 2; j <= last; j++ {
		turn(j-1, j)
	}
	for j := range l.Rows {
		if l.Row(j)[j] < 0 {
			for i := j; i < l.Rows; i++ {
				l.Row(i)[j] = -l.Row(i)[j]
			}
		}
	}
}

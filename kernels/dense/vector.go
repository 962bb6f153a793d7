package dense

import (
	"fmt"
	"unsafe"
)

// Dot is Σ x_i y_i.
func Dot(x, y []float64) float64 {
	length("y", y, len(x))
	return dot(x, y)
}

// AllFinite reports whether all numbers of x are finite: 0 times any other value is NaN.
func AllFinite(x []float64) bool {
	if len(x) < 16 { // cheaper than the call of a kernel
		sum := 0.0 // stays 0, or becomes NaN
		for _, v := range x {
			sum += v - v
		}
		return sum == 0
	}
	for ; len(x) > len(zeros); x = x[len(zeros):] {
		if dot(x[:len(zeros)], zeros[:]) != 0 {
			return false
		}
	}
	return dot(x, zeros[:len(x)]) == 0
}

var zeros [1024]float64 // read-only

// Axpy sets y += a x.
func Axpy(a float64, x, y []float64) {
	length("y", y, len(x))
	axpy(a, x, y)
}

// Exp sets up to e^x and down to e^-x, with a relative error below 5e-16, using vectors if the
// processor has them: some ten times as fast as calling math.Exp twice. x may be one of them.
// Values beyond ±700 are taken as ±700.
func Exp(up, down, x []float64) {
	length("up", up, len(x))
	length("down", down, len(x))
	exp(up, down, x)
}

// AddRows adds a_i times row k_i of m to y, one row after another: the row's first len(y) numbers,
// at k_i times stride.
func AddRows(y, m []float64, stride int, k []uint32, a []float64) {
	length("a", a, len(k))
	reach(m, stride, k, len(y))
	addRows(y, m, stride, k, a)
}

// AddToRows adds a_i x to row k_i of m, one row after another: to the row's first len(x) numbers,
// at k_i times stride.
func AddToRows(m []float64, stride int, k []uint32, a, x []float64) {
	length("a", a, len(k))
	reach(m, stride, k, len(x))
	addToRows(m, stride, k, a, x)
}

// Fetch prefetches elements k_i of m, so that their cache misses overlap with other work. It has no
// other effect.
func Fetch[T any](m []T, k []uint32) {
	if len(m) > 0 && len(k) > 0 {
		fetch((*byte)(unsafe.Pointer(&m[0])), int(unsafe.Sizeof(m[0])), k)
	}
}

// reach panics if m ends before the n numbers of a row.
func reach(m []float64, stride int, k []uint32, n int) {
	for _, k := range k {
		if int(k)*stride+n > len(m) {
			panic(fmt.Sprintf("dense: row %d of %d numbers at a stride of %d in %d numbers", k, n, stride, len(m)))
		}
	}
}

// Toward adds a (x - y) to y.
func Toward(a float64, x, y []float64) {
	length("y", y, len(x))
	toward(a, x, y)
}

// TowardSquares adds a (x² - y) to y.
func TowardSquares(a float64, x, y []float64) {
	length("y", y, len(x))
	towardSquares(a, x, y)
}

// InUnits sets dst = (x - origin) by.
func InUnits(dst, x, origin, by []float64) {
	length("dst", dst, len(x))
	length("origin", origin, len(x))
	length("by", by, len(x))
	inUnits(dst, x, origin, by)
}

// Gemv sets y = A x.
func Gemv(y []float64, a *Matrix, x []float64) {
	a.shape("a", len(y), len(x))
	rows := func(lo, hi int) {
		for i := lo; i < hi; {
			for end := a.upTo(i, hi); i < end; i++ {
				y[i] = dot(a.Row(i), x)
			}
		}
	}
	if workersFor(2*float64(a.Rows)*float64(a.Cols)) == 1 {
		rows(0, a.Rows)
		return
	}
	Parallel(a.Rows, rows)
}

// GemvT sets y = Aᵀ x. Rows are added in order within segments of fixed length, and the
// segments in order.
func GemvT(y []float64, a *Matrix, x []float64) {
	a.shape("a", len(x), len(y))
	a.sumRows(y, func(i int) float64 { return x[i] })
}

// GramVec sets y = Aᵀ diag(w) A x, reading the rows from memory once. It equals Gemv, a product
// with w and GemvT to the last bit. y must not overlap x.
func GramVec(y []float64, a *Matrix, x, w []float64) {
	a.shape("a", len(w), len(x))
	length("y", y, len(x))
	a.sumRows(y, func(i int) float64 { return w[i] * dot(a.Row(i), x) })
}

// sumRows sets y to the sum of all rows of A, row i times f(i).
func (a *Matrix) sumRows(y []float64, f func(i int) float64) {
	add := func(y []float64, lo, hi int) {
		for i := lo; i < hi; {
			for end := a.upTo(i, hi); i < end; i++ {
				axpy(f(i), a.Row(i), y)
			}
		}
	}
	clear(y)
	segments := 1
	if len(y) > 0 {
		segments = min(a.Rows/segment, maxSegments, maxPartial/len(y))
	}
	if segments <= 1 {
		add(y, 0, a.Rows)
		return
	}
	parts := New(segments, roundUp(len(y), lanes))
	part := func(i int) { add(parts.Row(i)[:len(y)], i*a.Rows/segments, (i+1)*a.Rows/segments) }
	tasks(segments, workersFor(2*float64(a.Rows)*float64(len(y))), part)
	for i := range segments {
		axpy(1, parts.Row(i)[:len(y)], y)
	}
}

package dense

import (
	"fmt"

	"github.com/bglm/bglm/kernels/stop"
)

// Matrix is a row-major matrix; row i is Data[i*Stride : i*Stride+Cols]. A view made by
// Slice shares the data of its parent.
//
// Stop, if an operand of a product, a factorisation or a solve has one, ends the operation with the
// panic of Stop.Check and leaves the result half done. The result inherits that Stop, so that a
// computation on an operand that can be stopped can be stopped until its end.
type Matrix struct {
	Rows, Cols, Stride int
	Data               []float64
	Stop               *stop.Stop
}

// New returns a matrix of zeros.
func New(rows, cols int) *Matrix {
	return NewUnder(nil, rows, cols)
}

// NewUnder returns a matrix of zeros with the given Stop, which can also end the wait for its
// memory.
func NewUnder(s *stop.Stop, rows, cols int) *Matrix {
	if rows < 0 || cols < 0 {
		panic(fmt.Sprintf("dense: New(%d, %d)", rows, cols))
	}
	return &Matrix{Rows: rows, Cols: cols, Stride: cols, Data: stop.Make[float64](s, rows*cols), Stop: s}
}

// Row is row i, sharing memory. Its capacity ends with the row.
func (m *Matrix) Row(i int) []float64 {
	lo := i * m.Stride
	return m.Data[lo : lo+m.Cols : lo+m.Cols]
}

// At is the entry of row i and column j.
func (m *Matrix) At(i, j int) float64 {
	if uint(j) >= uint(m.Cols) {
		panic(fmt.Sprintf("dense: column %d of %d", j, m.Cols))
	}
	return m.Data[i*m.Stride+j]
}

// Set sets the entry of row i and column j.
func (m *Matrix) Set(i, j int, v float64) {
	if uint(j) >= uint(m.Cols) {
		panic(fmt.Sprintf("dense: column %d of %d", j, m.Cols))
	}
	m.Data[i*m.Stride+j] = v
}

// Slice returns the view of rows [r0, r1) and columns [c0, c1).
func (m *Matrix) Slice(r0, r1, c0, c1 int) *Matrix {
	v := m.view(r0, r1, c0, c1)
	return &v
}

func (m *Matrix) view(r0, r1, c0, c1 int) Matrix {
	if r0 < 0 || r1 < r0 || m.Rows < r1 || c0 < 0 || c1 < c0 || m.Cols < c1 {
		panic(fmt.Sprintf("dense: slice [%d:%d, %d:%d] of %d x %d", r0, r1, c0, c1, m.Rows, m.Cols))
	}
	v := Matrix{Rows: r1 - r0, Cols: c1 - c0, Stride: m.Stride, Stop: m.Stop}
	if v.Rows > 0 && v.Cols > 0 {
		v.Data = m.Data[r0*m.Stride+c0 : (r1-1)*m.Stride+c1]
	}
	return v
}

// Clone returns a copy with Stride = Cols.
func (m *Matrix) Clone() *Matrix {
	c := NewUnder(m.Stop, m.Rows, m.Cols)
	if m.Cols == 0 {
		return c
	}
	for i := 0; i < m.Rows; {
		for end := m.upTo(i, m.Rows); i < end; i++ {
			copy(c.Row(i), m.Row(i))
		}
	}
	return c
}

// T returns the transpose, a copy.
func (m *Matrix) T() *Matrix {
	t := NewUnder(m.Stop, m.Cols, m.Rows)
	const b = 16 // square blocks keep both sides in cache
	for i0 := 0; i0 < m.Rows && m.Cols > 0; i0 += b {
		m.Stop.Check()
		i1 := min(i0+b, m.Rows)
		for j0 := 0; j0 < m.Cols; j0 += b {
			j1 := min(j0+b, m.Cols)
			for i := i0; i < i1; i++ {
				for j, v := range m.Data[i*m.Stride+j0 : i*m.Stride+j1] {
					t.Data[(j0+j)*t.Stride+i] = v
				}
			}
		}
	}
	return t
}

// Transpose sets dst to the transpose of src; they must not overlap.
func Transpose(dst, src *Matrix) {
	src.check("src")
	dst.shape("dst", src.Cols, src.Rows)
	dst.adopt(src)
	i := 0
	for ; i+lanes <= src.Rows && src.Cols > 0; i += lanes {
		packTrans(dst.Data[i:], dst.Stride, src.Data[i*src.Stride:], src.Stride, lanes, src.Cols)
	}
	for ; i < src.Rows; i++ {
		for j, v := range src.Row(i) {
			dst.Data[j*dst.Stride+i] = v
		}
	}
}

// adopt gives m the Stop of an operand, if it has none.
func (m *Matrix) adopt(operands ...*Matrix) {
	for _, o := range operands {
		if m.Stop != nil {
			return
		}
		if o.Stop != nil {
			m.Stop = o.Stop
		}
	}
}

// checkEach is how many numbers plain loops process between two checks of a Stop.
const checkEach = 1 << 20

// upTo checks the Stop and returns the row, at most hi, up to which a loop over rows runs from row
// lo before its next check.
func (m *Matrix) upTo(lo, hi int) int {
	m.Stop.Check()
	return min(hi, lo+max(1, checkEach/max(1, m.Cols)))
}

// shape panics unless m is rows x cols and its data reach the last row: a wrong shape is a bug in
// the caller, and the assembly checks no bounds.
func (m *Matrix) shape(what string, rows, cols int) {
	if m.Rows != rows || m.Cols != cols {
		panic(fmt.Sprintf("dense: %s is %d x %d, want %d x %d", what, m.Rows, m.Cols, rows, cols))
	}
	m.check(what)
}

func (m *Matrix) check(what string) {
	if m.Rows < 0 || m.Cols < 0 || m.Stride < m.Cols {
		panic(fmt.Sprintf("dense: %s is %d x %d with stride %d", what, m.Rows, m.Cols, m.Stride))
	}
	if m.Rows > 0 && m.Cols > 0 && len(m.Data) < (m.Rows-1)*m.Stride+m.Cols {
		panic(fmt.Sprintf("dense: %s is %d x %d with stride %d and %d numbers", what, m.Rows, m.Cols, m.Stride, len(m.Data)))
	}
}

func length(what string, x []float64, n int) {
	if len(x) != n {
		panic(fmt.Sprintf("dense: %s has length %d, want %d", what, len(x), n))
	}
}

// Copy copies src to dst, of the same shape.
func Copy(dst, src *Matrix) {
	for i := range src.Rows {
		src.Stop.Row(i)
		copy(dst.Row(i), src.Row(i))
	}
}

// Mirror copies the lower triangle onto the upper one.
func Mirror(m *Matrix) {
	for i := range m.Rows {
		m.Stop.Check()
		for j, v := range m.Row(i)[:i] {
			m.Data[j*m.Stride+i] = v
		}
	}
}

// ScaleRows multiplies row i of m by s_i.
func ScaleRows(m *Matrix, s []float64) {
	for i, v := range s {
		m.Stop.Row(i)
		row := m.Row(i)
		for k := range row {
			row[k] *= v
		}
	}
}

// Package design holds the columns of a problem: X, its products with weights, with rows and with
// itself, and its standardisation. Every batch engine multiplies by it.
package design

import (
	"math"
	"runtime"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
)

const (
	// A weighted Gram matrix costs nnz² scattered additions for a sparse row, and p² in vector
	// registers, about thirty times as fast, for a dense one: they break even when a sixth of the
	// entries is present.
	denseShare = 1.0 / 6
	// Work on fewer entries is not worth a second goroutine.
	parallelFrom = 1 << 15
)

// Columns are X, n rows of p columns, in row-compressed form and, if it has enough entries, as a
// dense block as well. Products are functions of X alone: each result is computed by one goroutine,
// in row order.
type Columns struct {
	N, P int

	Row []int    // n+1 offsets; nil, like Col, if every row has all columns: see All, Index
	Col []uint32 // columns, ascending in each row
	Val []float64
	all []uint32 // 0, 1, ..., p-1 if Row and Col are nil

	// Stop ends long products with the panic of Stop.Check; nil = never.
	Stop *stop.Stop

	block  *dense.Matrix // X, nil if it stays sparse
	pieces *pieces       // instead of Val; nil for none
}

// Dense returns the columns of a dense matrix, for products only: it has no entries.
func Dense(x *dense.Matrix) *Columns {
	return &Columns{N: x.Rows, P: x.Cols, Stop: x.Stop, block: x}
}

// Whole returns the columns of a dense matrix, which is not copied and has no gaps between its rows.
func Whole(x *dense.Matrix) Columns {
	c := every(x.Rows, x.Cols)
	c.Val, c.Stop, c.block = x.Data, x.Stop, x
	return c
}

// Every returns columns for rows that all have all of them, with values yet to be written.
func Every(n, p int, s *stop.Stop) Columns {
	c := every(n, p)
	c.Val, c.Stop = stop.Make[float64](s, n*p), s
	return c
}

func every(n, p int) Columns {
	c := Columns{N: n, P: p, all: make([]uint32, p)}
	for j := range c.all {
		c.all[j] = uint32(j)
	}
	return c
}

// All returns the columns of every row if Row and Col are nil, because every row has all.
func (c *Columns) All() []uint32 { return c.all }

// Index creates Row and Col if they are nil.
func (c *Columns) Index() {
	if c.all == nil {
		return
	}
	*c = c.Gathered()
	c.Row, c.Col = make([]int, c.N+1), stop.Make[uint32](c.Stop, len(c.Val))
	for i := range c.N {
		c.Row[i+1] = (i + 1) * c.P
		copy(c.Col[i*c.P:], c.all)
	}
	c.all = nil
}

// Tail returns X without its first skip columns. Sparse ones are copied.
func (c *Columns) Tail(skip int) *Columns {
	if skip == 0 {
		return c
	}
	if c.block != nil || c.pieces != nil {
		return Dense(c.Dense().Slice(0, c.N, skip, c.P))
	}
	t := &Columns{N: c.N, P: c.P - skip, Stop: c.Stop, Row: make([]int, 1, c.N+1)}
	for i := range c.N {
		c.Stop.Row(i)
		col, val := c.Entries(i)
		for k, j := range col {
			if int(j) >= skip {
				t.Col, t.Val = append(t.Col, j-uint32(skip)), append(t.Val, val[k])
			}
		}
		t.Row = append(t.Row, len(t.Col))
	}
	return t
}

// Under returns X, sharing its entries, with products that s can end.
func (c Columns) Under(s *stop.Stop) Columns {
	c.Stop = s
	if c.block != nil {
		x := *c.block
		x.Stop = s
		c.block = &x
	}
	return c
}

// Entries returns the columns and values of row i.
func (c *Columns) Entries(i int) ([]uint32, []float64) {
	if c.pieces != nil {
		return c.all, c.pieces.row(i)
	}
	if c.all != nil {
		return c.all, c.Val[i*c.P : (i+1)*c.P : (i+1)*c.P]
	}
	lo, hi := c.Row[i], c.Row[i+1]
	return c.Col[lo:hi], c.Val[lo:hi:hi]
}

// Matrix returns a matrix of zeros whose operations the Stop can end.
func (c *Columns) Matrix(rows, cols int) *dense.Matrix {
	return dense.NewUnder(c.Stop, rows, cols)
}

// Density is the share of X's entries that are stored.
func (c *Columns) Density() float64 {
	if c.N == 0 || c.P == 0 {
		return 0
	}
	return float64(c.Values()) / (float64(c.N) * float64(c.P))
}

// Values is the number of entries stored.
func (c *Columns) Values() int {
	if c.pieces != nil {
		return c.N * c.P
	}
	return len(c.Val)
}

// whole reports whether every row has all columns: they ascend, and so the values are X.
func (c *Columns) whole() bool { return c.Values() == c.N*c.P }

// Dense returns X as a dense n x p matrix, made once; later products use it. For pieces it is a
// copy, which they do not keep.
func (c *Columns) Dense() *dense.Matrix {
	switch {
	case c.block != nil:
	case c.pieces != nil:
		g := c.Gathered()
		return g.Dense()
	case c.whole():
		c.block = &dense.Matrix{Rows: c.N, Cols: c.P, Stride: c.P, Data: c.Val, Stop: c.Stop}
	default:
		c.block = c.Matrix(c.N, c.P)
		for i := range c.N {
			c.Stop.Row(i)
			row := c.block.Row(i)
			col, val := c.Entries(i)
			for k, j := range col {
				row[j] = val[k]
			}
		}
	}
	return c.block
}

// Fill is Dense if that makes products faster, otherwise nil, as for pieces.
func (c *Columns) Fill() *dense.Matrix {
	if c.block == nil && c.pieces == nil && c.Density() >= denseShare {
		c.Dense()
	}
	return c.block
}

// Refill updates the dense block after the values of entries have changed.
func (c *Columns) Refill() {
	if c.block == nil || c.whole() && len(c.Val) > 0 && &c.block.Data[0] == &c.Val[0] {
		return
	}
	for i := range c.N {
		c.Stop.Row(i)
		row := c.block.Row(i)
		clear(row)
		col, val := c.Entries(i)
		for k, j := range col {
			row[j] = val[k]
		}
	}
}

// Need is the number of values that Fill adds to the entries.
func (c *Columns) Need() float64 {
	if c.whole() || c.Density() < denseShare {
		return 0
	}
	return float64(c.N) * float64(c.P)
}

// Parallel splits [0, n) into parts if the entries are worth it.
func (c *Columns) Parallel(n, entries int, f func(lo, hi int)) {
	if entries < parallelFrom {
		f(0, n)
		return
	}
	dense.Parallel(n, f)
}

// Mul sets dst = X w.
func (c *Columns) Mul(dst, w []float64) { c.Affine(dst, w, nil) }

// Affine sets dst = offset + X w; a nil offset is 0.
func (c *Columns) Affine(dst, w, offset []float64) {
	if c.block != nil {
		dense.Gemv(dst, c.block, w)
		for i, v := range offset {
			dst[i] += v
		}
		return
	}
	if c.pieces != nil {
		c.Parallel(c.N, c.N*c.P, func(lo, hi int) {
			c.each(lo, hi, func(x *dense.Matrix, lo, hi int) { dense.Gemv(dst[lo:hi], x, w) })
		})
		for i, v := range offset {
			dst[i] += v
		}
		return
	}
	c.Parallel(c.N, len(c.Val), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			c.Stop.Row(i)
			s := 0.0
			if offset != nil {
				s = offset[i]
			}
			col, val := c.Entries(i)
			for k, j := range col {
				s += val[k] * w[j]
			}
			dst[i] = s
		}
	})
}

// MulT sets dst = Xᵀ r.
func (c *Columns) MulT(dst, r []float64) {
	if c.block != nil {
		dense.GemvT(dst, c.block, r)
		return
	}
	if c.pieces != nil {
		c.piecesMulT(dst, r)
		return
	}
	clear(dst)
	for i, v := range r {
		c.Stop.Row(i)
		if v == 0 {
			continue
		}
		col, val := c.Entries(i)
		for k, j := range col {
			dst[j] += val[k] * v
		}
	}
}

// GramVec sets dst = Xᵀ diag(w) X v; scratch is n numbers.
func (c *Columns) GramVec(dst, v, w, scratch []float64) {
	if c.block != nil {
		dense.GramVec(dst, c.block, v, w)
		return
	}
	if c.pieces != nil {
		c.piecesGramVec(dst, v, w)
		return
	}
	c.Mul(scratch, v)
	for i, x := range w {
		scratch[i] *= x
	}
	c.MulT(dst, scratch)
}

// MulMat sets dst (n x k) = X m, m p x k.
func (c *Columns) MulMat(dst, m *dense.Matrix) {
	dst.Stop = c.Stop
	if c.block != nil {
		dense.Mul(dst, c.block, m)
		return
	}
	if c.pieces != nil {
		c.each(0, c.N, func(x *dense.Matrix, lo, hi int) { dense.Mul(dst.Slice(lo, hi, 0, dst.Cols), x, m) })
		return
	}
	c.Parallel(c.N, len(c.Val)*m.Cols, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			c.Stop.Check()
			row := dst.Row(i)
			clear(row)
			col, val := c.Entries(i)
			dense.AddRows(row, m.Data, m.Stride, col, val)
		}
	})
}

// MulTMat sets dst (p x k) = Xᵀ m, m n x k.
func (c *Columns) MulTMat(dst, m *dense.Matrix) {
	dst.Stop = c.Stop
	if c.block != nil {
		dense.MulTA(dst, c.block, m)
		return
	}
	if c.pieces != nil {
		for j := range dst.Rows {
			clear(dst.Row(j))
		}
		var buf []float64
		for lo := 0; lo < c.N; lo += gramRows {
			hi := min(lo+gramRows, c.N)
			dense.Gemm(dst, 1, c.some(lo, hi, &buf), true, m.Slice(lo, hi, 0, m.Cols), false, 1)
		}
		return
	}
	// Each part has its own columns of the result, at least a vector of them.
	part := func(lo, hi int) {
		for j := range dst.Rows {
			clear(dst.Row(j)[lo:hi])
		}
		if lo == hi {
			return
		}
		for i := range c.N {
			c.Stop.Check()
			col, val := c.Entries(i)
			dense.AddToRows(dst.Data[lo:], dst.Stride, col, val, m.Row(i)[lo:hi])
		}
	}
	if len(c.Val)*m.Cols < parallelFrom || dst.Rows == 0 {
		part(0, m.Cols)
		return
	}
	parts := min(runtime.GOMAXPROCS(0), (m.Cols+3)/4)
	dense.Each(parts, func(i int) { part(i*m.Cols/parts, (i+1)*m.Cols/parts) })
}

// gramRows is the number of rows of a dense X that GramMat multiplies at once.
const gramRows = 2048

// GramMat sets dst (p x k) = Xᵀ diag(w) X m without forming a matrix of n rows.
func (c *Columns) GramMat(dst, m *dense.Matrix, w []float64) {
	dst.Stop = c.Stop
	if c.block != nil || c.pieces != nil {
		var buf []float64
		xm := dense.New(min(gramRows, c.N), m.Cols)
		for i := range dst.Rows {
			clear(dst.Row(i))
		}
		for lo := 0; lo < c.N; lo += gramRows {
			c.Stop.Check()
			hi := min(lo+gramRows, c.N)
			x, part := c.some(lo, hi, &buf), xm.Slice(0, hi-lo, 0, m.Cols)
			dense.Mul(part, x, m)
			dense.ScaleRows(part, w[lo:hi])
			dense.Gemm(dst, 1, x, true, part, false, 1)
		}
		return
	}
	// Each part has its own columns.
	c.Parallel(m.Cols, len(c.Val)*m.Cols, func(lo, hi int) {
		for j := range dst.Rows {
			clear(dst.Row(j)[lo:hi])
		}
		s := make([]float64, hi-lo)
		for i, wi := range w {
			c.Stop.Check()
			if wi == 0 {
				continue
			}
			clear(s)
			col, val := c.Entries(i)
			for k, j := range col {
				dense.Axpy(val[k], m.Row(int(j))[lo:hi], s)
			}
			for k, j := range col {
				dense.Axpy(wi*val[k], s, dst.Row(int(j))[lo:hi])
			}
		}
	})
}

// Gram sets dst = Xᵀ diag(w) X, both triangles.
func (c *Columns) Gram(dst *dense.Matrix, w []float64) {
	dst.Stop = c.Stop
	if c.block != nil {
		dense.Gram(dst, c.block, w)
		return
	}
	if c.pieces != nil {
		c.gramRows(dst, w, nil)
		return
	}
	work := 0
	for i := range c.N {
		c.Stop.Check()
		col, _ := c.Entries(i)
		work += len(col) * len(col)
	}
	// Each part has its own rows of the result and reads all rows of X.
	c.Parallel(c.P, work, func(lo, hi int) {
		for j := lo; j < hi; j++ {
			clear(dst.Row(j))
		}
		for i, wi := range w {
			c.Stop.Check()
			if wi == 0 {
				continue
			}
			col, val := c.Entries(i)
			for a, j := range col {
				if int(j) < lo {
					continue
				}
				if int(j) >= hi {
					break
				}
				row, v := dst.Row(int(j)), wi*val[a]
				for b, k := range col[:a+1] {
					row[k] += v * val[b]
				}
			}
		}
	})
	dense.Mirror(dst)
}

// GramParts is the number of parts into which GramBy divides the rows; 0 if GramBy does not apply.
func (c *Columns) GramParts() int {
	if c.block == nil && c.pieces == nil {
		return 0
	}
	return dense.GramParts(c.N, c.P)
}

// GramBy is Gram with before(x, part, lo, hi) called for each block x of rows [lo, hi), which may
// use them while they are in the cache: see dense.GramRows.
func (c *Columns) GramBy(dst *dense.Matrix, w []float64, before func(x *dense.Matrix, part, lo, hi int)) {
	dst.Stop = c.Stop
	if c.pieces != nil {
		c.gramRows(dst, w, before)
		return
	}
	xs := make([]dense.Matrix, c.GramParts())
	dense.GramBy(dst, c.block, w, func(part, lo, hi int) {
		x := &xs[part]
		*x = dense.Matrix{Rows: hi - lo, Cols: c.P, Stride: c.block.Stride, Data: c.block.Data[lo*c.block.Stride:]}
		before(x, part, lo, hi)
	})
}

// Visit calls rows for each block x of rows [lo, hi), in GramParts parts like GramBy, without a
// product.
func (c *Columns) Visit(rows func(x *dense.Matrix, part, lo, hi int)) {
	xs := make([]dense.Matrix, c.GramParts())
	dense.Visit(c.N, c.P, func(part, lo, hi int, buf []float64) {
		c.Stop.Check()
		x := &xs[part]
		if c.block != nil {
			*x = dense.Matrix{Rows: hi - lo, Cols: c.P, Stride: c.block.Stride, Data: c.block.Data[lo*c.block.Stride:]}
		} else {
			b := c.pieces.block(lo, hi, buf)
			*x = dense.Matrix{Rows: hi - lo, Cols: c.P, Stride: b.Stride, Data: b.X}
		}
		rows(x, part, lo, hi)
	})
}

// Squares sets dst_j = Σ_i w_i x_ij².
func (c *Columns) Squares(dst, w []float64) {
	clear(dst)
	for i, wi := range w {
		c.Stop.Row(i)
		col, val := c.Entries(i)
		for k, j := range col {
			dst[j] += wi * val[k] * val[k]
		}
	}
}

// Kernel scatters up to 64 rows of X at once, fewer if p is large: the panel stays below 32 MB.
const (
	widePanel   = 64
	panelMemory = 1 << 22
)

// Kernel sets dst (n x n) = X diag(v) Xᵀ, both triangles.
func (c *Columns) Kernel(dst *dense.Matrix, v []float64) {
	dst.Stop = c.Stop
	if c.block != nil || c.pieces != nil {
		dense.GramT(dst, c.Dense(), v)
		return
	}
	wide := min(max(panelMemory/max(c.P, 1), 4), widePanel)
	panel := dense.New(c.P, wide)
	for lo := 0; lo < c.N; lo += wide {
		c.Stop.Check()
		hi := min(lo+wide, c.N)
		for i := lo; i < hi; i++ {
			c.Stop.Check()
			col, val := c.Entries(i)
			for k, j := range col {
				panel.Row(int(j))[i-lo] = val[k] * v[j]
			}
		}
		c.Parallel(c.N-lo, len(c.Val)/max(c.N, 1)*(c.N-lo)*wide, func(a, b int) {
			for i := lo + a; i < lo+b; i++ {
				row := dst.Row(i)[lo:hi]
				clear(row)
				col, val := c.Entries(i)
				for k, j := range col {
					dense.Axpy(val[k], panel.Row(int(j))[:hi-lo], row)
				}
			}
		})
		for i := lo; i < hi; i++ {
			c.Stop.Check()
			col, _ := c.Entries(i)
			for _, j := range col {
				panel.Row(int(j))[i-lo] = 0
			}
		}
	}
	dense.Mirror(dst)
}

// BlockGram sets dst to XᵀWX for the columns that have a place in dst, -1 for none; places ascend
// with the columns.
func (c *Columns) BlockGram(dst *dense.Matrix, place []int, w []float64) {
	dst.Stop = c.Stop
	for a := range dst.Rows {
		clear(dst.Row(a))
	}
	var at []int
	var x []float64
	for i, wi := range w {
		c.Stop.Check()
		col, val := c.Entries(i)
		at, x = at[:0], x[:0]
		for k, j := range col {
			if place[j] >= 0 {
				at, x = append(at, place[j]), append(x, val[k])
			}
		}
		for a, r := range at {
			row, v := dst.Row(r), wi*x[a]
			for b, k := range at[:a+1] {
				row[k] += v * x[b]
			}
		}
	}
	dense.Mirror(dst)
}

// Spread sets dst to the variances of the predictors under g.
func (c *Columns) Spread(dst []float64, g *gauss.Normal) {
	if (c.block != nil || c.pieces != nil) && g.Form == gauss.Full {
		parts := max(min(c.N/someRows, 16), 1)
		dense.Each(parts, func(k int) {
			xl := dense.New(min(someRows, c.N), c.P)
			c.each(k*c.N/parts, (k+1)*c.N/parts, func(x *dense.Matrix, lo, hi int) {
				part := xl.Slice(0, hi-lo, 0, c.P)
				dense.MulAlone(part, x, g.L)
				for i := range hi - lo {
					r := part.Row(i)
					dst[lo+i] = dense.Dot(r, r)
				}
			})
		})
		return
	}
	var cov *dense.Matrix
	values, weights := float64(c.Values()), float64(c.P)
	// Operations of both ways. Those of the blocked product for Σ count as a quarter: they run from
	// registers.
	if byRoot, byCov := values*weights/2, weights*weights*weights/24+values*values/float64(c.N); g.Form == gauss.Full && byCov < byRoot {
		cov = c.Matrix(c.P, c.P)
		g.Cov(cov)
	}
	c.Parallel(c.N, c.Values()*(1+c.P/8), func(lo, hi int) {
		var scratch []float64
		one := func(i int) {
			c.Stop.Check()
			col, val := c.Entries(i)
			if cov != nil {
				if v, ok := form(cov, col, val); ok {
					dst[i] = v
					return
				}
			}
			_, dst[i] = g.Linear(col, val, &scratch)
		}
		var several *forms
		if cov != nil {
			several = &forms{}
		}
		for ; lo < hi; lo += formRows {
			to := min(lo+formRows, hi)
			if several == nil || !several.read(c, lo, to) {
				for i := lo; i < to; i++ {
					one(i)
				}
				continue
			}
			for i, v := range several.of(cov) {
				if dst[lo+i] = v; !(v > cancels*several.size[i] && several.size[i] <= math.MaxFloat64) {
					one(lo + i)
				}
			}
		}
	})
}

const (
	formRows    = 1024 // rows in a forms
	formEntries = 512  // entries of a row at most: they take 6 MiB then
)

// forms computes form for many rows with the same number of entries, such as those of columns of
// levels. It takes one pair of entries at a time over all rows, so that the part of Σ that belongs
// to two columns of levels stays in the first-level cache. The sums are those of form, to the bit.
type forms struct {
	n           int
	col         []uint32  // formRows for each entry
	x           []float64 // likewise
	value, size [formRows]float64
	t, u        [formRows]float64
}

// read loads rows lo to hi; false if they differ in their number of entries, which is to be at least
// 8 and at most formEntries, or are too few.
func (f *forms) read(c *Columns, lo, hi int) bool {
	first, _ := c.Entries(lo)
	k := len(first)
	if k < 8 || k > formEntries || hi-lo < formRows/4 {
		return false
	}
	f.n = hi - lo
	f.col, f.x = slices.Grow(f.col[:0], k*formRows)[:k*formRows], slices.Grow(f.x[:0], k*formRows)[:k*formRows]
	for i := range f.n {
		col, x := c.Entries(lo + i)
		if len(col) != k {
			return false
		}
		for a, j := range col {
			f.col[a*formRows+i], f.x[a*formRows+i] = j, x[a]
		}
	}
	return true
}

// of computes the forms of the rows, and sets size to the sums of the sizes of their terms.
func (f *forms) of(cov *dense.Matrix) []float64 {
	n := f.n
	value, size, t, u := f.value[:n], f.size[:n], f.t[:n], f.u[:n]
	clear(value)
	clear(size)
	for a := 0; a < len(f.col); a += formRows {
		cov.Stop.Check()
		row, x := f.col[a:a+n], f.x[a:a+n]
		clear(t)
		clear(u)
		for b := 0; b < a; b += formRows {
			col, y := f.col[b:b+n], f.x[b:b+n]
			for i, k := range col {
				w := y[i] * cov.Data[int(row[i])*cov.Stride+int(k)]
				t[i] += w
				u[i] += math.Abs(w)
			}
		}
		for i, j := range row {
			d := x[i] * x[i] * cov.Data[int(j)*cov.Stride+int(j)]
			value[i] += d + 2*x[i]*t[i]
			size[i] += d + 2*math.Abs(x[i])*u[i]
		}
	}
	return value
}

// cancels is the ratio of a sum of covariances to the size of its terms below which it is not
// accepted as a variance: it has four digits fewer than the terms.
const cancels = 1e-4

// form computes xᵀΣx for a row of a few entries from Σ; false if its terms cancel, so that only the
// square of a product with a root of Σ is sure to have the digits of a variance.
//
// Cost: O(k²) for k entries; with a root it is O(k p).
func form(cov *dense.Matrix, col []uint32, x []float64) (v float64, ok bool) {
	size := 0.0
	for a, j := range col {
		row := cov.Row(int(j))
		t, u := 0.0, 0.0
		for b, k := range col[:a] {
			w := x[b] * row[k]
			t += w
			u += math.Abs(w)
		}
		d := x[a] * x[a] * row[j]
		v += d + 2*x[a]*t
		size += d + 2*math.Abs(x[a])*u
	}
	return v, v > cancels*size && size <= math.MaxFloat64
}

// ColumnForms sets dst_j = x_jᵀ M x_j, x_j the columns of X and M n x n and symmetric.
// Cost: Σ (entries of a column)², n²p dense.
func (c *Columns) ColumnForms(dst []float64, m *dense.Matrix) {
	clear(dst)
	if c.block != nil || c.pieces != nil {
		const some = 256
		whole := c.Dense()
		mx := c.Matrix(c.N, min(some, c.P))
		for lo := 0; lo < c.P; lo += some {
			hi := min(lo+some, c.P)
			x, part := whole.Slice(0, c.N, lo, hi), mx.Slice(0, c.N, 0, hi-lo)
			dense.Mul(part, m, x)
			for i := range c.N {
				c.Stop.Check()
				from := part.Row(i)
				for k, v := range x.Row(i) {
					dst[lo+k] += v * from[k]
				}
			}
		}
		return
	}
	first := make([]int, c.P+1)
	for i := range c.N {
		col, _ := c.Entries(i)
		for _, j := range col {
			first[j+1]++
		}
	}
	for j := range c.P {
		first[j+1] += first[j]
	}
	row, val := make([]int32, first[c.P]), memory.Floats(first[c.P])
	next := append([]int(nil), first...)
	for i := range c.N {
		c.Stop.Row(i)
		col, v := c.Entries(i)
		for k, j := range col {
			row[next[j]], val[next[j]] = int32(i), v[k]
			next[j]++
		}
	}
	c.Parallel(c.P, len(row)*32, func(lo, hi int) {
		for j := lo; j < hi; j++ {
			c.Stop.Check()
			rows, x := row[first[j]:first[j+1]], val[first[j]:first[j+1]]
			for a, i := range rows {
				from, s := m.Row(int(i)), 0.0
				for b, k := range rows[:a] {
					s += from[k] * x[b]
				}
				dst[j] += x[a] * (2*s + from[i]*x[a])
			}
		}
	})
}

package dense

import (
	"fmt"
	"sync"
)

// Mul sets dst = A B.
func Mul(dst, a, b *Matrix) { Gemm(dst, 1, a, false, b, false, 0) }

// MulAlone is Mul on the calling goroutine, with the same bits: for callers that already use all
// processors.
func MulAlone(dst, a, b *Matrix) {
	a.check("a")
	b.shape("b", a.Cols, b.Cols)
	dst.shape("dst", a.Rows, b.Cols)
	p := product{m: a.Rows, n: b.Cols, k: a.Cols, a: *a, b: *b, alpha: 1, dst: *dst, alone: true}
	p.run()
}

// MulTA sets dst = Aᵀ B.
func MulTA(dst, a, b *Matrix) { Gemm(dst, 1, a, true, b, false, 0) }

// MulTB sets dst = A Bᵀ.
func MulTB(dst, a, b *Matrix) { Gemm(dst, 1, a, false, b, true, 0) }

// Gemm sets dst = alpha op(A) op(B) + beta dst, where op transposes if ta or tb is set. dst must
// not overlap A or B. As in BLAS, beta = 0 overwrites dst whatever it holds and alpha = 0 reads
// neither A nor B.
//
// Cost: 2 m n k operations for m x k times k x n, and scratch of a few megabytes for each
// processor.
func Gemm(dst *Matrix, alpha float64, a *Matrix, ta bool, b *Matrix, tb bool, beta float64) {
	m, k := a.Rows, a.Cols
	if ta {
		m, k = k, m
	}
	n := b.Cols
	if tb {
		n = b.Rows
		b.shape("b", n, k)
	} else {
		b.shape("b", k, n)
	}
	a.check("a")
	dst.shape("dst", m, n)
	dst.adopt(a, b)
	p := product{m: m, n: n, k: k, a: *a, b: *b, ta: ta, tb: tb, alpha: alpha, beta: beta, dst: *dst}
	p.run()
}

// Gram sets dst = Xᵀ diag(w) X, both triangles. X is n x p, dst p x p; w has length n, or is nil
// for ones, and may hold any numbers. dst must not overlap X.
//
// Cost: n p (p + 1) operations, half of those of a general product.
func Gram(dst, x *Matrix, w []float64) {
	x.check("x")
	dst.shape("dst", x.Cols, x.Cols)
	dst.adopt(x)
	if w != nil {
		length("w", w, x.Rows)
	}
	p := product{m: x.Cols, n: x.Cols, k: x.Rows, a: *x, b: *x, ta: true, w: w, alpha: 1, dst: *dst, lower: true, both: true}
	p.run()
}

// GramParts is the number of parts into which GramBy splits n rows of p columns; 0: unsupported.
func GramParts(n, p int) int {
	q := product{m: p, n: p, k: n}
	if p == 0 || p > tileRows || q.segments() < minParts {
		return 0
	}
	return ceil(n, q.long(q.segments()))
}

// minParts is the number of parts from which GramBy has work for several processors.
const minParts = 8

// Block is some rows of a matrix, the first at X[0]. Next is what will probably be read for the
// rows after them, nil for nothing; row strides are those of X.
type Block struct {
	X      []float64
	Stride int
	Next   []float64
}

// BlockRows is the largest number of rows that GramRows requests at once.
const BlockRows = depth

// GramRows is Gram for a matrix of n rows in GramParts parts that need not exist in memory:
// rows(part, lo, hi, buf) returns a block of rows [lo, hi) of a part, in place or written to buf,
// which has room for them. It may write w there. Blocks of a part follow one another on one
// goroutine; parts do not wait for each other.
//
// The bits are those of Gram of such a matrix.
func GramRows(dst *Matrix, n int, w []float64, rows func(part, lo, hi int, buf []float64) Block) {
	dst.shape("dst", dst.Cols, dst.Cols)
	length("w", w, n)
	if GramParts(n, dst.Cols) == 0 {
		panic(fmt.Sprintf("dense: GramRows of %d x %d", n, dst.Cols))
	}
	p := product{m: dst.Cols, n: dst.Cols, k: n, ta: true, w: w, alpha: 1, dst: *dst, lower: true, both: true, rows: rows}
	p.workers = workersFor(2 * float64(p.m) * float64(p.n) * float64(p.k))
	p.segmented(p.segments())
}

// GramBy is GramRows for the rows of X, calling before(part, lo, hi) for a block of rows before it
// is added: they are read from memory once for all computations on them.
func GramBy(dst, x *Matrix, w []float64, before func(part, lo, hi int)) {
	x.check("x")
	dst.shape("dst", x.Cols, x.Cols)
	dst.adopt(x)
	GramRows(dst, x.Rows, w, func(part, lo, hi int, _ []float64) Block {
		before(part, lo, hi)
		return Block{x.Data[lo*x.Stride:], x.Stride, x.Data[min(hi*x.Stride, len(x.Data)):]}
	})
}

// Visit calls rows as GramRows does, for n rows of p columns, without computing a product; buf has
// room for a block.
func Visit(n, p int, rows func(part, lo, hi int, buf []float64)) {
	q := product{m: p, n: p, k: n}
	segments := q.segments()
	long := q.long(segments)
	tasks(ceil(n, long), workersFor(4*float64(n)*float64(p)), func(i int) {
		s := scratch.Get().(*space)
		s.rows = grow(s.rows, depth*p)
		for lo, end := i*long, min((i+1)*long, n); lo < end; lo += depth {
			rows(i, lo, min(lo+depth, end), s.rows)
		}
		scratch.Put(s)
	})
}

// GramT sets dst = X diag(w) Xᵀ, both triangles. X is n x p, dst n x n; w has length p, or is nil
// for ones. dst must not overlap X.
func GramT(dst, x *Matrix, w []float64) {
	p := gramT(dst, x, w)
	p.both = true
	p.run()
}

// GramTAlone is GramT for the lower triangle of dst only, on the calling goroutine, with the same
// bits: for callers that already use all processors.
func GramTAlone(dst, x *Matrix, w []float64) {
	p := gramT(dst, x, w)
	p.alone = true
	p.run()
}

// gramT is the lower triangle of dst = X diag(w) Xᵀ, to be computed.
func gramT(dst, x *Matrix, w []float64) product {
	x.check("x")
	dst.shape("dst", x.Rows, x.Rows)
	dst.adopt(x)
	if w != nil {
		length("w", w, x.Cols)
	}
	return product{m: x.Rows, n: x.Rows, k: x.Cols, a: *x, b: *x, tb: true, w: w, alpha: 1, dst: *dst, lower: true}
}

// Syrk sets the lower triangle of dst = alpha A Aᵀ + beta dst; the part above the diagonal is
// unchanged. dst must not overlap A.
func Syrk(dst *Matrix, alpha float64, a *Matrix, beta float64) {
	a.check("a")
	dst.shape("dst", a.Rows, a.Rows)
	dst.adopt(a)
	p := product{m: a.Rows, n: a.Rows, k: a.Cols, a: *a, b: *a, tb: true, alpha: alpha, beta: beta, dst: *dst, lower: true}
	p.run()
}

// product is dst = alpha op(A) diag(w) op(B) + beta dst, with op(A) m x k and op(B) k x n.
type product struct {
	m, n, k     int
	a, b        Matrix
	ta, tb      bool
	w           []float64
	alpha, beta float64
	dst         Matrix
	lower       bool // only j <= i
	both        bool // with lower: also copied above the diagonal
	upperA      bool // op(A)_ik = 0 for k < i: most of these terms are left out
	lowerB      bool // op(B)_kj = 0 for k < j: likewise

	rows    func(part, lo, hi int, buf []float64) Block // of GramRows
	workers int
	alone   bool // by one worker, whatever the work
}

const (
	// depth is how many terms of a sum are added in registers before they are added to
	// C. A block of A (blockRows) and one of B (panelCols) of this depth fit in a first
	// level cache of 48 KiB. It fixes the order of summation.
	depth = 144

	// Sums longer than two segments, if C has at most maxSplit numbers, are split into equal
	// segments with a C each, so that all processors work on a tall narrow X. The number of
	// segments depends on the shapes alone and is limited to maxSegments and by their memory,
	// maxPartial numbers.
	segment     = 2048
	maxSplit    = 512 * 512
	maxSegments = 64
	maxPartial  = 4 << 20

	// The largest tile of C: its packed A and B take 1.2 MB, in a second level cache of 2 MB.
	// minTile keeps packing below a tenth of the time.
	tileRows = 264
	tileCols = 528
	minTile  = 96

	// nearStride is the row stride up to which columns of A are read in place.
	nearStride = 264

	// tinyWork is the number of multiplications up to which plain loops are as fast.
	tinyWork = 80
)

func (p *product) run() {
	if p.m == 0 || p.n == 0 {
		return
	}
	if p.k == 0 || p.alpha == 0 {
		for i := range p.m {
			end := p.n
			if p.lower && !p.both {
				end = i + 1
			}
			scale(p.dst.Row(i)[:end], p.beta)
		}
		return
	}
	work := float64(p.m) * float64(p.n) * float64(p.k)
	if work <= tinyWork {
		p.tiny()
		return
	}
	segments := p.segments()
	workers := 1
	if !p.alone {
		workers = workersFor(2 * work)
	}
	if workers == 1 && segments == 1 && p.m <= tileRows && p.n <= tileCols {
		t := tile{0, p.m, 0, p.n}
		s := scratch.Get().(*space)
		p.sum(s, t, 0, 0, p.k)
		p.store(s.c, t)
		scratch.Put(s)
		return
	}
	q := *p // a copy, so that the small product above stays off the heap
	q.workers = workers
	if segments == 1 {
		q.whole()
	} else {
		q.segmented(segments)
	}
}

// segments is the number of segments of the sum.
func (p *product) segments() int {
	if p.k >= 2*segment && p.m*p.n <= maxSplit {
		return min(ceil(p.k, segment), maxSegments, max(1, maxPartial/(p.m*p.n)))
	}
	return 1
}

// long is the length of each of so many segments.
func (p *product) long(segments int) int { return roundUp(ceil(p.k, segments), depth) }

// whole computes each tile of C in one go.
func (p *product) whole() {
	work := p.cut(1)
	tasks(len(work), p.workers, func(i int) {
		s := scratch.Get().(*space)
		p.sum(s, work[i], 0, 0, p.k)
		p.store(s.c, work[i])
		scratch.Put(s)
	})
}

// segmented computes C for each segment of the sum and adds them in order.
func (p *product) segmented(segments int) {
	work := []tile{{0, p.m, 0, p.n}}
	if p.rows == nil {
		work = p.cut(segments)
	}
	long := p.long(segments)
	segments = ceil(p.k, long)
	parts := make([]*space, segments*len(work))
	tasks(len(parts), p.workers, func(i int) {
		s := scratch.Get().(*space)
		k0 := i / len(work) * long
		p.sum(s, work[i%len(work)], i/len(work), k0, min(k0+long, p.k))
		parts[i] = s
	})
	tasks(len(work), p.workers, func(i int) {
		total := parts[i].c
		for j := i + len(work); j < len(parts); j += len(work) {
			axpy(1, parts[j].c, total)
		}
		p.store(total, work[i])
	})
	for _, s := range parts {
		scratch.Put(s)
	}
}

// A tile is rows [i0, i1) and columns [j0, j1) of C.
type tile struct{ i0, i1, j0, j1 int }

// cut divides C into tiles, the largest that give every worker three tasks. They may depend on the
// machine, since no sum depends on the tiles.
func (p *product) cut(segments int) []tile {
	rows, cols := tileRows, tileCols
	for p.workers > 1 && (rows > minTile || cols > minTile) {
		count := ceil(p.m, rows) * ceil(p.n, cols)
		if p.lower {
			count = ceil(count, 2)
		}
		if count*segments >= 3*p.workers {
			break
		}
		if cols > rows {
			cols -= panelCols
		} else {
			rows -= panelCols
		}
	}
	rows = roundUp(ceil(p.m, ceil(p.m, rows)), blockRows)
	cols = roundUp(ceil(p.n, ceil(p.n, cols)), panelCols)
	work := make([]tile, 0, ceil(p.m, rows)*ceil(p.n, cols))
	// from below, where with lower set the tiles are whole, so that the small ones come last
	for i := (p.m - 1) / rows * rows; i >= 0; i -= rows {
		for j := 0; j < p.n; j += cols {
			t := tile{i, min(i+rows, p.m), j, min(j+cols, p.n)}
			if !p.lower || t.j0 < t.i1 {
				work = append(work, t)
			}
		}
	}
	return work
}

// space is the scratch of one task: packed blocks of A and B, a tile of C, and the factors
// of the rows of B.
type space struct {
	a, b, c []float64
	rows    []float64 // of GramRows
	scale   [depth]float64
}

var scratch = sync.Pool{New: func() any { return new(space) }}

// grow returns x with n numbers, whose values are unspecified.
func grow(x []float64, n int) []float64 {
	if cap(x) < n {
		return make([]float64, n)
	}
	return x[:n]
}

// sum sets s.c, with rows of roundUp(j1-j0, lanes) numbers, to the sum of the terms [k0, k1), which
// form that part, for tile t. Columns beyond the edge are unspecified.
func (p *product) sum(s *space, t tile, part, k0, k1 int) {
	rows, cols := t.i1-t.i0, t.j1-t.j0
	cs := roundUp(cols, lanes)
	s.c = grow(s.c, rows*cs)
	clear(s.c)
	s.b = grow(s.b, roundUp(cols, panelCols)*min(depth, k1-k0))
	// Only whole blocks are left out, so that the others are the same as in any other tile.
	if p.upperA {
		k0 = max(k0, t.i0/depth*depth)
	}
	if p.lowerB {
		k0 = max(k0, t.j0/depth*depth)
	}
	if p.rows != nil {
		s.rows = grow(s.rows, min(depth, k1-k0)*p.n)
	}
	for ; k0 < k1; k0 += depth {
		p.dst.Stop.Check()
		k := min(depth, k1-k0)
		var a []float64
		var ars, acs int
		var next ahead
		if p.rows != nil {
			x := p.rows(part, k0, k0+k, s.rows)
			_ = x.X[(k-1)*x.Stride+p.n-1]
			p.packRows(s, x.X, x.Stride, t.j0, t.j1, k0, k)
			a, ars, acs = columnsOf(s, x.X, x.Stride, t.i0, t.i1, cols, k)
			if k0+k < k1 {
				next = ahead{data: x.Next, cols: p.n + lanes, stride: x.Stride}
			}
		} else {
			p.packB(s, t.j0, t.j1, k0, k)
			a, ars, acs = p.packA(s, t.i0, t.i1, cols, k0, k)
			next = p.ahead(t, k0+k, min(depth, k1-k0-k))
		}
		for i := 0; i < rows; i += blockRows {
			m := min(blockRows, rows-i)
			end := cs
			if p.lower {
				end = min(cs, roundUp(max(0, t.i0+i+m-t.j0), lanes))
			}
			for j := 0; j < end; j += panelCols {
				block(m, min(panelCols, end-j), s.c[i*cs+j:], cs, a[i*ars:], ars, acs, s.b[j*k:], panelCols, k, next.line(), next.stride)
			}
		}
	}
}

// ahead iterates over the cache lines of B, rows of numbers, one column of lines at a time.
type ahead struct {
	data             []float64
	at, cols, stride int
}

// ahead is the part of B that packB and packA read next: rows [k0, k0+k).
func (p *product) ahead(t tile, k0, k int) ahead {
	if p.tb || k <= 0 {
		return ahead{}
	}
	return ahead{data: p.b.Data[k0*p.b.Stride+t.j0:], cols: t.j1 - t.j0 + lanes, stride: p.b.Stride}
}

// line is the next column of lines, empty at the end.
func (a *ahead) line() []float64 {
	if a.at >= a.cols || a.at >= len(a.data) {
		return nil
	}
	a.at += lanes
	return a.data[a.at-lanes:]
}

// packA returns rows [i0, i1) of op(A) for k terms, with strides. Rows of A are read in
// place, eight at a time.
func (p *product) packA(s *space, i0, i1, cols, k0, k int) (a []float64, ars, acs int) {
	st := p.a.Stride
	if !p.ta {
		return p.a.Data[i0*st+k0:], st, 1
	}
	return columnsOf(s, p.a.Data[k0*st:], st, i0, i1, cols, k)
}

// columnsOf is packA for columns of k rows, which are copied if they lie far apart and are used
// often enough.
func columnsOf(s *space, x []float64, st, i0, i1, cols, k int) (a []float64, ars, acs int) {
	a = x[i0:]
	if st <= nearStride || cols <= 2*panelCols {
		return a, 1, st
	}
	rows := i1 - i0
	s.a = grow(s.a, rows*k)
	for t := range k {
		copy(s.a[t*rows:(t+1)*rows], a[t*st:])
	}
	return s.a, 1, rows
}

// packB fills s.b with panels of columns [j0, j1) of alpha diag(w) op(B) for k terms, k
// rows of panelCols numbers each.
func (p *product) packB(s *space, j0, j1, k0, k int) {
	st := p.b.Stride
	if !p.tb {
		p.packRows(s, p.b.Data[k0*st:], st, j0, j1, k0, k)
		return
	}
	f := p.factors(s, k0, k)
	for j := j0; j < j1; j += panelCols {
		panel := s.b[(j-j0)*k:][:panelCols*k]
		cols := min(panelCols, j1-j)
		for r := 0; r < cols; r += lanes {
			packTrans(panel[r:], panelCols, p.b.Data[(j+r)*st+k0:], st, min(lanes, cols-r), k)
		}
		if p.w != nil || p.alpha != 1 {
			packRows(panel, panelCols, 0, panel, panelCols, k, roundUp(cols, lanes), f)
		}
	}
}

// packRows is packB for k rows x of B.
func (p *product) packRows(s *space, x []float64, st, j0, j1, k0, k int) {
	packRows(s.b, panelCols, k*panelCols, x[j0:], st, k, j1-j0, p.factors(s, k0, k))
}

// factors are alpha w of k terms.
func (p *product) factors(s *space, k0, k int) []float64 {
	f := s.scale[:k]
	for t := range f {
		f[t] = p.alpha
		if p.w != nil {
			f[t] *= p.w[k0+t]
		}
	}
	return f
}

// store writes tile t to dst.
func (p *product) store(c []float64, t tile) {
	cs := roundUp(t.j1-t.j0, lanes)
	for i := t.i0; i < t.i1; i++ {
		end := t.j1
		if p.lower {
			end = max(t.j0, min(end, i+1))
		}
		d := p.dst.Data[i*p.dst.Stride+t.j0 : i*p.dst.Stride+end]
		row := c[(i-t.i0)*cs:][:len(d)]
		if p.beta == 0 {
			copy(d, row)
			continue
		}
		scale(d, p.beta)
		axpy(1, row, d)
	}
	if p.both {
		p.mirror(t)
	}
}

// mirror copies tile t to its place above the diagonal, in square blocks that keep both
// sides in cache.
func (p *product) mirror(t tile) {
	const b = 16
	st, x := p.dst.Stride, p.dst.Data
	for i0 := t.i0; i0 < t.i1; i0 += b {
		for j0 := t.j0; j0 < min(t.j1, i0+b); j0 += b {
			for i := i0; i < min(i0+b, t.i1); i++ {
				for j := j0; j < min(j0+b, t.j1, i); j++ {
					x[j*st+i] = x[i*st+j]
				}
			}
		}
	}
}

// tiny computes the product by plain loops.
func (p *product) tiny() {
	ai, ak, bk, bj := p.a.Stride, 1, p.b.Stride, 1
	if p.ta {
		ai, ak = ak, ai
	}
	if p.tb {
		bk, bj = bj, bk
	}
	for i := range p.m {
		end := p.n
		if p.lower {
			end = i + 1
		}
		d := p.dst.Row(i)[:end]
		scale(d, p.beta)
		for t := range p.k {
			v := p.alpha * p.a.Data[i*ai+t*ak]
			if p.w != nil {
				v *= p.w[t]
			}
			for j := range d {
				d[j] += v * p.b.Data[t*bk+j*bj]
			}
		}
	}
	if p.both {
		p.mirror(tile{0, p.m, 0, p.n})
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

func ceil(a, b int) int { return (a + b - 1) / b }

func roundUp(a, b int) int { return ceil(a, b) * b }

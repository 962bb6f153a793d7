package design

import (
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
)

// pieces are rows that all have all columns, read in place. A standardised X is
// computed a block at a time, while that is in the cache: a copy would need as much memory again,
// and as much time as some products.
type pieces struct {
	p      int
	first  []int       // row of each piece, and n
	values [][]float64 // p for each row, one row after the other
	entry  []int       // by column: index of its value in a row; nil for their order
	// x is (value - origin) by; nil: the value
	origin, by []float64
}

// someRows is the number of rows of pieces computed at once, except in products that have blocks of
// their own.
const someRows = dense.BlockRows

// Pieces returns columns for rows that all have all of them. The values, p per row, are not copied
// and must not change. Column j is value entry[j] of each row, or value j if entry is nil.
// ok is false for shapes that are better copied: those that dense.GramRows does not support.
func Pieces(p int, values [][]float64, entry []int, s *stop.Stop) (c Columns, ok bool) {
	q := &pieces{p: p, first: []int{0}}
	if !slices.IsSorted(entry) {
		q.entry = entry
	}
	n := 0
	for _, v := range values {
		if len(v) == 0 {
			continue
		}
		n += len(v) / p
		q.values, q.first = append(q.values, v), append(q.first, n)
	}
	if dense.GramParts(n, p) == 0 {
		return Columns{}, false
	}
	c = every(n, p)
	c.Stop, c.pieces = s, q
	return c, true
}

// InPieces reports whether the rows are read in place: Val, Row and Col are nil then. See Pieces,
// Gathered.
func (c *Columns) InPieces() bool { return c.pieces != nil }

// Gathered returns X with its values in one slice, X itself if they are.
func (c Columns) Gathered() Columns {
	s := c.pieces
	if s == nil {
		return c
	}
	q := Every(c.N, c.P, c.Stop)
	c.Parallel(c.N, c.N*c.P, func(lo, hi int) {
		for ; lo < hi; lo += someRows {
			c.Stop.Check()
			end := min(lo+someRows, hi)
			s.copy(q.Val[lo*c.P:end*c.P], lo, end)
		}
	})
	return q
}

// piece is the piece that has row i.
func (s *pieces) piece(i int) int { return sort.SearchInts(s.first, i+1) - 1 }

// row returns row i, sharing memory if possible.
func (s *pieces) row(i int) []float64 {
	k := s.piece(i)
	from := (i - s.first[k]) * s.p
	v := s.values[k][from : from+s.p : from+s.p]
	if s.isRaw() {
		return v
	}
	x := memory.Floats(s.p)
	s.write(x, v)
	return x
}

// value returns the value of row i and column j.
func (s *pieces) value(i, j int) float64 {
	k, e := s.piece(i), j
	if s.entry != nil {
		e = s.entry[j]
	}
	v := s.values[k][(i-s.first[k])*s.p+e]
	if s.by != nil {
		v = (v - s.origin[j]) * s.by[j]
	}
	return v
}

// isRaw reports whether the values are X.
func (s *pieces) isRaw() bool { return s.by == nil && s.entry == nil }

// write sets x to the rows of X whose values are v.
func (s *pieces) write(x, v []float64) {
	if s.isRaw() {
		copy(x, v)
		return
	}
	for len(v) > 0 {
		to, from := x[:s.p], v[:s.p]
		for j, e := range s.entry {
			to[j] = from[e]
		}
		if s.entry != nil {
			from = to
		}
		if s.by != nil {
			dense.InUnits(to, from, s.origin, s.by)
		}
		x, v = x[s.p:], v[s.p:]
	}
}

// copy copies rows [lo, hi) of X to dst.
func (s *pieces) copy(dst []float64, lo, hi int) {
	for k := s.piece(lo); lo < hi; k++ {
		end := min(hi, s.first[k+1])
		v := s.values[k][(lo-s.first[k])*s.p : (end-s.first[k])*s.p]
		s.write(dst, v)
		dst, lo = dst[len(v):], end
	}
}

// block returns rows [lo, hi), in buf unless they are contiguous and unscaled.
func (s *pieces) block(lo, hi int, buf []float64) dense.Block {
	k := s.piece(lo)
	from, to := (lo-s.first[k])*s.p, (hi-s.first[k])*s.p
	whole := hi <= s.first[k+1]
	var next []float64
	if whole {
		next = s.values[k][to:]
	}
	if whole && s.isRaw() {
		return dense.Block{X: s.values[k][from:to], Stride: s.p, Next: next}
	}
	x := buf[:(hi-lo)*s.p]
	s.copy(x, lo, hi)
	return dense.Block{X: x, Stride: s.p, Next: next}
}

// some returns rows [lo, hi) of a dense X; buf is memory for them.
func (c *Columns) some(lo, hi int, buf *[]float64) *dense.Matrix {
	if c.block != nil {
		return c.block.Slice(lo, hi, 0, c.P)
	}
	if n := (hi - lo) * c.P; cap(*buf) < n {
		*buf = memory.Floats(n)
	}
	b := c.pieces.block(lo, hi, (*buf)[:cap(*buf)])
	return &dense.Matrix{Rows: hi - lo, Cols: c.P, Stride: b.Stride, Data: b.X, Stop: c.Stop}
}

// each calls f for blocks of rows [lo, hi) of pieces.
func (c *Columns) each(lo, hi int, f func(x *dense.Matrix, lo, hi int)) {
	buf := blocks.Get().(*[]float64)
	defer blocks.Put(buf)
	for ; lo < hi; lo += someRows {
		c.Stop.Check()
		end := min(lo+someRows, hi)
		f(c.some(lo, end, buf), lo, end)
	}
}

// blocks is memory for each.
var blocks = sync.Pool{New: func() any { return new([]float64) }}

// Sums over rows have a part for every partRows rows, at most maxParts parts.
const partRows, maxParts = 2048, 64

// gather sums what f adds for blocks of pieces: in parts that do not depend on the number of
// processors, added in order.
func (c *Columns) gather(sum []float64, f func(sum []float64, x *dense.Matrix, lo, hi int)) {
	parts := dense.New(max(1, min(c.N/partRows, maxParts)), len(sum))
	dense.Each(parts.Rows, func(k int) {
		own := parts.Row(k)
		c.each(k*c.N/parts.Rows, (k+1)*c.N/parts.Rows, func(x *dense.Matrix, lo, hi int) { f(own, x, lo, hi) })
	})
	clear(sum)
	for k := range parts.Rows {
		dense.Axpy(1, parts.Row(k), sum)
	}
}

func (c *Columns) piecesMulT(dst, r []float64) {
	c.gather(dst, func(sum []float64, x *dense.Matrix, lo, hi int) {
		for i, v := range r[lo:hi] {
			dense.Axpy(v, x.Row(i), sum)
		}
	})
}

func (c *Columns) piecesGramVec(dst, v, w []float64) {
	c.gather(dst, func(sum []float64, x *dense.Matrix, lo, hi int) {
		for i, w := range w[lo:hi] {
			row := x.Row(i)
			dense.Axpy(w*dense.Dot(row, v), row, sum)
		}
	})
}

// gramRows is dense.GramRows, with before called unless it is nil.
func (c *Columns) gramRows(dst *dense.Matrix, w []float64, before func(x *dense.Matrix, part, lo, hi int)) {
	xs := make([]dense.Matrix, c.GramParts())
	dense.GramRows(dst, c.N, w, func(part, lo, hi int, buf []float64) dense.Block {
		b := c.pieces.block(lo, hi, buf)
		if before != nil {
			x := &xs[part]
			*x = dense.Matrix{Rows: hi - lo, Cols: c.P, Stride: b.Stride, Data: b.X}
			before(x, part, lo, hi)
		}
		return b
	})
}

// nearRows is the number of rows whose mean is the origin of sums over pieces: it is within a few
// standard deviations, which costs the squares a digit at most.
const nearRows = 256

// piecesMoments is moments for pieces, in one pass.
func (c *Columns) piecesMoments(weight []float64, at []int32, numbers int) []moments {
	s, all := c.pieces, make([]moments, numbers)
	near, one := memory.Floats(c.P), slices.Repeat([]float64{1}, c.P)
	n, total := 0.0, 0.0
	for i := range nearRows {
		if at := i * c.N / nearRows; weightOf(weight, at) > 0 {
			n++
			dense.Toward(1/n, s.row(at), near)
		}
	}
	for i := range c.N {
		total += weightOf(weight, i)
	}
	sums := memory.Floats(2 * c.P) // Σ w (x - near), Σ w (x - near)²
	c.gather(sums, func(sums []float64, x *dense.Matrix, lo, hi int) {
		d, squares, n := memory.Floats(c.P), memory.Floats(c.P), 0.0
		for i := range hi - lo {
			w := weightOf(weight, lo+i)
			if w == 0 {
				continue
			}
			n += w
			dense.InUnits(d, x.Row(i), near, one)
			dense.Axpy(w, d, sums[:c.P])
			dense.TowardSquares(w/n, d, squares)
		}
		dense.Axpy(n, squares, sums[c.P:])
	})
	for j, k := range at {
		if k < 0 {
			continue
		}
		m := &all[k]
		*m = moments{total: total, n: c.N}
		if total == 0 {
			continue
		}
		off := sums[j] / total
		m.mean, m.squares = near[j]+off, max(sums[c.P+j]-total*off*off, 0)
		if m.squares > 0 {
			continue
		}
		for i := range c.N { // equal, or as nearly as squares can tell
			if weightOf(weight, i) > 0 {
				m.farthest = max(m.farthest, math.Abs(s.value(i, j)-m.mean))
			}
		}
	}
	return all
}

// inUnits returns X with (x - shift)/scale for x.
func (s *pieces) inUnits(shift, scale []float64) *pieces {
	q := *s
	q.origin, q.by = memory.Floats(s.p), memory.Floats(s.p)
	for j := range scale {
		o, by := 0.0, 1.0
		if s.by != nil {
			o, by = s.origin[j], s.by[j]
		}
		q.origin[j], q.by[j] = o+shift[j]/by, by/scale[j]
	}
	return &q
}

package design

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/stop"
)

// Scaling is how Standardize changed the columns: x' = (x - Shift) / Scale.
// The weights of x' are w'_j = Scale_j w_j and b' = b + Σ Shift_j w_j.
type Scaling struct {
	Scale, Shift []float64 // by column; 1 and 0 where nothing changed
	centred      bool
	// Note says what could not be done, "" if nothing.
	Note string
}

// maxFill bounds the entries that centring makes of absent ones, zeros of a sparse X.
const maxFill = 1 << 26

// Standardize returns X with its numeric columns divided by their standard deviation and,
// with center, less their mean, which column 0 takes up. A column is numeric when it
// holds a value other than 0 and 1. Rows count by their weight (nil = 1), absent entries
// are zeros. Columns without spread and those of which fixed says so are left as they
// are, and those whose zeros would become more than 2^26 entries are not centred, which
// Note says. c is not changed.
//
// Cost: O(nnz) and a copy of the values, n entries for each centred column.
func (c *Columns) Standardize(weight []float64, fixed func(j int) bool, center bool) (Columns, *Scaling) {
	s := &Scaling{Scale: make([]float64, c.P), Shift: make([]float64, c.P)}
	// visit calls f with the entries of every row in order; of whole rows each processor
	// has its own columns.
	visit := func(f func(w float64, col []uint32, val []float64)) {
		part := func(lo, hi int) {
			w := 1.0
			for i := range c.N {
				c.Stop.Row(i)
				if weight != nil {
					w = weight[i]
				}
				col, val := c.Entries(i)
				if c.whole() {
					col, val = col[lo:hi], val[lo:hi]
				}
				f(w, col, val)
			}
		}
		if c.whole() {
			c.Parallel(c.P, len(c.Val), part)
		} else {
			part(0, c.P)
		}
	}
	numeric := make([]bool, c.P)
	sum, seen, squares := make([]float64, c.P), make([]float64, c.P), make([]float64, c.P)
	count := make([]int, c.P)
	visit(func(w float64, col []uint32, val []float64) {
		for k, j := range col {
			x := val[k]
			numeric[j] = numeric[j] || x != 0 && x != 1
			sum[j] += w * x
			seen[j] += w
			count[j]++
		}
	})
	total := float64(c.N)
	if weight != nil {
		total = 0
		for _, w := range weight {
			total += w
		}
	}
	mean := sum
	for j := range mean {
		if total > 0 {
			mean[j] /= total
		}
		squares[j] = (total - seen[j]) * mean[j] * mean[j]
	}
	visit(func(w float64, col []uint32, val []float64) {
		for k, j := range col {
			d := val[k] - mean[j]
			squares[j] += w * d * d
		}
	})
	fill, unfilled := 0, 0
	for j := range c.P {
		s.Scale[j] = 1
		if !numeric[j] || fixed(j) {
			continue
		}
		sd := math.Sqrt(squares[j] / total)
		// the rounding of a constant column is no spread
		if !(sd > 1e-14*math.Abs(mean[j])) || math.IsInf(sd, 0) || math.IsInf(1/sd, 0) {
			continue
		}
		s.Scale[j] = sd
		if !center {
			continue
		}
		if missing := c.N - count[j]; fill+missing > maxFill {
			unfilled++
			continue
		} else {
			fill += missing
		}
		s.Shift[j] = mean[j]
		s.centred = true
	}
	if unfilled > 0 {
		s.Note = "standardize scales the sparse features but does not centre them, for that would fill in their zeros"
	}
	return c.scaled(s, fill), s
}

// scaled is X on the new scale, which has so many entries more.
func (c *Columns) scaled(s *Scaling, fill int) Columns {
	q := *c
	q.block = nil
	if fill == 0 {
		q.Val = stop.Make[float64](c.Stop, len(c.Val))
		c.Parallel(c.N, len(c.Val), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				c.Stop.Row(i)
				col, val := c.Entries(i)
				_, to := q.Entries(i)
				for k, j := range col {
					to[k] = (val[k] - s.Shift[j]) / s.Scale[j]
				}
			}
		})
		return q
	}
	q.Val = make([]float64, 0, len(c.Val)+fill)
	q.Row, q.Col = make([]int, 1, c.N+1), make([]uint32, 0, len(c.Val)+fill)
	var centred []uint32
	for j, x := range s.Shift {
		if x != 0 {
			centred = append(centred, uint32(j))
		}
	}
	for i := range c.N {
		c.Stop.Row(i)
		col, val := c.Entries(i)
		next := 0
		absent := func(before uint32) {
			for ; next < len(centred) && centred[next] < before; next++ {
				j := centred[next]
				q.Col, q.Val = append(q.Col, j), append(q.Val, -s.Shift[j]/s.Scale[j])
			}
		}
		for k, j := range col {
			absent(j)
			if next < len(centred) && centred[next] == j {
				next++
			}
			q.Col, q.Val = append(q.Col, j), append(q.Val, (val[k]-s.Shift[j])/s.Scale[j])
		}
		absent(uint32(c.P))
		q.Row = append(q.Row, len(q.Col))
	}
	return q
}

// To sets dst to the weights of the standardised columns whose predictor is that of w.
// As for From and Restore, there may be several blocks of weights, one for each class.
func (s *Scaling) To(dst, w []float64) {
	p := len(s.Scale)
	for at := 0; at < len(w); at += p {
		b := 0.0
		for j, v := range w[at : at+p] {
			b += s.Shift[j] * v
			dst[at+j] = v * s.Scale[j]
		}
		if s.centred {
			dst[at] += b
		}
	}
}

// From sets dst to the weights of the original columns whose predictor is that of w.
func (s *Scaling) From(dst, w []float64) {
	p := len(s.Scale)
	for at := 0; at < len(w); at += p {
		b := 0.0
		for j, v := range w[at : at+p] {
			dst[at+j] = v / s.Scale[j]
			b += s.Shift[j] * dst[at+j]
		}
		if s.centred {
			dst[at] -= b
		}
	}
}

// Restore is the belief g about the standardised columns on the original scale. A
// scaling with shifts makes it Full, any other keeps its form.
//
// Cost: O(p²) for Full: the factor's first row changes, and two sweeps of rotations
// make it triangular again.
func (s *Scaling) Restore(g *gauss.Normal) (*gauss.Normal, error) {
	n, p := g.Dim(), len(s.Scale)
	mean := make([]float64, n)
	s.From(mean, g.Mean)
	if g.Form == gauss.Arrowhead && n == p {
		return s.restoreArrow(g, mean)
	}
	if s.centred && g.Form != gauss.Full {
		var err error
		if g, err = g.ToFull(); err != nil {
			return nil, err
		}
	}
	square := make([]float64, n)
	rows := func(m *dense.Matrix) *dense.Matrix {
		m = m.Clone()
		for j := range m.Rows {
			for k := range m.Row(j) {
				m.Row(j)[k] /= s.Scale[j%p]
			}
		}
		return m
	}
	switch g.Form {
	case gauss.Full:
		l := rows(g.L)
		for at := 0; s.centred && at < n; at += p {
			for j := 1; j < p; j++ {
				k := at + j
				dense.Axpy(-s.Shift[j], l.Row(k)[:k+1], l.Row(at)[:k+1])
			}
			triangle(l, at, at+p)
		}
		return gauss.NewFull(mean, l), nil
	case gauss.LowRank:
		for j, d := range g.D {
			square[j] = d / (s.Scale[j%p] * s.Scale[j%p])
		}
		return gauss.NewLowRank(mean, square, rows(g.F))
	}
	for j, v := range g.Var {
		square[j] = v / (s.Scale[j%p] * s.Scale[j%p])
	}
	return gauss.NewDiagonal(mean, square), nil
}

// restoreArrow is Restore for an Arrowhead whose centred columns are all in the block, with
// column 0: the block changes as a full one does, and w_k = h_kᵀb + ... is put in the new b.
func (s *Scaling) restoreArrow(g *gauss.Normal, mean []float64) (*gauss.Normal, error) {
	a := g.Arrow
	d := len(a.Block)
	part := Scaling{Scale: make([]float64, d), Shift: make([]float64, d), centred: s.centred}
	for i, j := range a.Block {
		part.Scale[i], part.Shift[i] = s.Scale[j], s.Shift[j]
	}
	block, err := part.Restore(gauss.NewFull(make([]float64, d), a.L))
	if err != nil {
		return nil, err
	}
	out := &gauss.Arrow{Block: a.Block, Leaf: a.Leaf, L: block.L, H: a.H.Clone(), Q: slices.Clone(a.Q)}
	for k, j := range a.Leaf {
		h := out.H.Row(k)
		first := 0.0
		if s.centred {
			first = h[0] * part.Scale[0]
		}
		for i := range h {
			h[i] = (h[i]*part.Scale[i] + first*part.Shift[i]) / s.Scale[j]
		}
		out.Q[k] /= s.Scale[j] * s.Scale[j]
	}
	return gauss.NewArrowhead(mean, out), nil
}

// triangle makes m, lower triangular but for row lo, which has numbers up to column
// hi, lower triangular without changing m mᵀ, by rotations of neighbouring columns.
func triangle(m *dense.Matrix, lo, hi int) {
	n := m.Rows
	rotate := func(row, k, from int) {
		a, b := m.Row(row)[k-1], m.Row(row)[k]
		if b == 0 {
			return
		}
		r := math.Hypot(a, b)
		c, s := a/r, b/r
		turn := func(i int) {
			x, y := m.Row(i)[k-1], m.Row(i)[k]
			m.Row(i)[k-1], m.Row(i)[k] = c*x+s*y, c*y-s*x
		}
		turn(row)
		m.Row(row)[k] = 0
		for i := max(from, row+1); i < n; i++ {
			turn(i)
		}
	}
	for k := hi - 1; k > lo; k-- { // the row, from its end
		rotate(lo, k, k-1)
	}
	for k := lo + 2; k < hi; k++ { // what that left above the diagonal
		rotate(k-1, k, k)
	}
	for k := lo; k < hi; k++ {
		if m.Row(k)[k] < 0 {
			for i := k; i < n; i++ {
				m.Row(i)[k] = -m.Row(i)[k]
			}
		}
	}
}

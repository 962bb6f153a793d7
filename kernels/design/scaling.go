package design

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
)

// Scaling is how Standardize changed the columns, x' = (x - Shift) / Scale, and how the predictor
// was measured in other units: η = Unit η' + Origin. The weights of x' are
// w'_j = Scale_j w_j / Unit and b' = (b + Σ Shift_j w_j - Origin) / Unit.
type Scaling struct {
	Scale, Shift []float64 // by column; 1 and 0 if unchanged
	Spread       []float64 // by column: the standard deviation of numbers that were not centred, else NaN; nil for none
	Unit, Origin float64   // 1 and 0 if unchanged; Origin needs an intercept, column 0
	Crossed      []Crossed // how the columns were crossed before (Columns.Cross), nil for none
	centred      bool
	// Note says what could not be done, "" if nothing.
	Note string
	// Beyond is a column whose numbers are too large or too small to be squared, -1 for none.
	Beyond int
}

// NewScaling returns x' = (x - shift) / scale; a shift needs an intercept, column 0.
func NewScaling(scale, shift []float64) *Scaling {
	s := &Scaling{Scale: scale, Shift: shift, Unit: 1, Beyond: -1}
	for _, c := range shift {
		s.centred = s.centred || c != 0
	}
	return s
}

// NotCentred records the standard deviation of column j, whose numbers were not centred.
func (s *Scaling) NotCentred(j int, spread float64) {
	if s.Spread == nil {
		s.Spread = memory.Floats(len(s.Scale))
		for i := range s.Spread {
			s.Spread[i] = math.NaN()
		}
	}
	s.Spread[j] = spread
}

// Inverse returns the inverse scaling.
func (s *Scaling) Inverse() *Scaling {
	i := &Scaling{Scale: make([]float64, len(s.Scale)), Shift: make([]float64, len(s.Scale)), Unit: 1 / s.Unit, Origin: -s.Origin / s.Unit, centred: s.centred, Beyond: -1}
	for j, x := range s.Scale {
		i.Scale[j], i.Shift[j] = 1/x, -s.Shift[j]/x
	}
	return i
}

const (
	// maxFill limits the entries that centring creates from absent ones, the zeros of a sparse X.
	maxFill = 1 << 26
	// least and most bound the standard deviations that are divided by: squares beyond them
	// underflow or overflow.
	least, most = 1e-140, 1e140
	// Beyond this many standard deviations between mean and 0 the variances of a centred low-rank
	// form cancel; those of a full one do not.
	farthest = 1e5
	// maxTies and maxRank limit the numbers and columns that centring adds to a low-rank form.
	maxTies, maxRank = 1 << 25, 500
	// fullRestore is the number of weights up to which Restore makes a centred form full.
	fullRestore = 500
)

// Squares reports whether numbers of this mean and standard deviation, 0 if they are all equal, can
// be squared without overflow or underflow.
func Squares(mean, spread float64) bool {
	return !(spread < least && spread > 0) && math.Hypot(mean, spread) < most
}

// Moments returns the mean and standard deviation of numbers x, each times its weight (nil = 1),
// without overflow: 0, 0 for none. spread is 0 if all are equal.
func Moments(x, weight []float64) (mean, spread float64) {
	var m moments
	for i, v := range x {
		m.first(v, weightOf(weight, i))
	}
	m.setMean()
	for i, v := range x {
		m.second(v, weightOf(weight, i))
	}
	return m.mean, m.spread()
}

func weightOf(weight []float64, i int) float64 {
	if weight == nil {
		return 1
	}
	return weight[i]
}

// moments are computed in two passes over the numbers; those of weight 0 do not count.
type moments struct {
	origin, sum, total, mean, squares float64
	farthest                          float64 // largest distance from the mean
	n                                 int
}

func (m *moments) first(x, w float64) {
	m.n++
	if w == 0 {
		return
	}
	if m.total == 0 {
		m.origin = x // the terms of the sum are small if the numbers are similar
	}
	m.sum += w * (x - m.origin)
	m.total += w
}

// absent counts n entries that are 0, with this total weight.
func (m *moments) absent(n int, weight float64) {
	m.n += n
	if n > 0 && weight > 0 {
		m.sum -= weight * m.origin
		m.total += weight
	}
}

func (m *moments) setMean() {
	if m.total > 0 {
		m.mean = m.origin + m.sum/m.total
	}
}

func (m *moments) second(x, w float64) {
	d := x - m.mean
	m.squares += w * d * d
	if w > 0 {
		m.farthest = max(m.farthest, math.Abs(d))
	}
}

func (m *moments) spread() float64 {
	if m.squares > 0 {
		return math.Sqrt(m.squares / m.total)
	}
	return m.farthest // its square underflows
}

// Unit is the divisor of numbers with this mean and spread: the spread, about 0 if they are not
// centred; the absolute value of numbers that are all equal. It is 1 for zeros and for numbers that
// cannot be squared.
func Unit(mean, spread float64, centred bool) float64 {
	if s := math.Hypot(mean, spread); !centred || spread <= 1e-15*s {
		spread = s
	}
	if !(spread > least && spread < most) {
		return 1
	}
	return spread
}

// Scale is Unit; false for numbers that cannot be squared.
func Scale(mean, spread float64, centred bool) (unit float64, ok bool) {
	if !Squares(mean, spread) {
		return 1, false
	}
	return Unit(mean, spread, centred), true
}

// Standardize returns X with the columns for which number is true divided by their standard
// deviation and, if center says that column 0 can absorb it, less their mean; otherwise divided by
// their root mean square. Rows count by their weight (nil = 1), absent entries are zeros. A column
// of equal numbers is divided by their absolute value.
//
// loose is the number of blocks of these columns, as for the classes of a softmax, of a posterior
// that does not keep all covariances; 0 stands for a full one. With a loose posterior columns whose
// mean is 1e5 standard deviations from 0 are not centred, nor is any column if centring would need
// a rank above 500 or 2^25 numbers; Note says so, also if the zeros of absent entries would become
// more than 2^26. c is not changed.
//
// Cost: O(nnz) and a copy of the values, n entries for each centred column.
func (c *Columns) Standardize(weight []float64, number func(j int) bool, center bool, loose int) (Columns, *Scaling) {
	s := &Scaling{Scale: memory.Floats(c.P), Shift: memory.Floats(c.P), Unit: 1, Beyond: -1}
	numbers := 0
	at := make([]int32, c.P) // index among the numbers, or -1
	for j := range at {
		s.Scale[j], at[j] = 1, -1
		if number(j) {
			at[j] = int32(numbers)
			numbers++
		}
	}
	if numbers == 0 {
		return *c, s
	}
	m := c.moments(weight, at, numbers)
	centring := NewCentring(center, loose, c.P, numbers)
	for j, k := range at {
		if k < 0 {
			continue
		}
		mean, spread := m[k].mean, m[k].spread()
		if _, ok := Scale(mean, spread, true); !ok {
			s.Beyond = j
			continue
		}
		here := centring.Of(mean, spread, c.N-m[k].n)
		s.Scale[j] = Unit(mean, spread, here)
		if here {
			s.Shift[j] = mean
			s.centred = true
			continue
		}
		s.NotCentred(j, spread)
	}
	s.Note = centring.Note
	return c.scaled(s, centring.fill), s
}

// Centring decides which numeric columns Standardize centres; it is asked for each in order.
type Centring struct {
	on    bool
	loose bool
	fill  int
	// Note says what could not be done, "" if nothing.
	Note string
}

// NewCentring returns the Centring for this many numeric columns (numbers) among this many weights;
// center says that column 0 can absorb means, and loose is that of Columns.Standardize.
func NewCentring(center bool, loose, weights, numbers int) *Centring {
	if loose > 0 && loose*weights <= fullRestore {
		loose = 0
	}
	c := &Centring{on: center, loose: loose > 0}
	if n := loose * numbers; center && (n*loose*weights > maxTies || n > maxRank) {
		c.on = false
		c.Note = "standardize scales the numbers but does not centre them: there are too many for a posterior that keeps no covariance with the intercept"
	}
	return c
}

// Of reports whether a column of this mean and standard deviation, with absent rows without an
// entry, is centred.
func (c *Centring) Of(mean, spread float64, absent int) bool {
	switch {
	case !c.on:
		return false
	case c.loose && spread > 0 && math.Abs(mean) > farthest*spread:
		c.Note = "standardize leaves numbers whose mean is more than 100,000 standard deviations from 0 where they are, for this posterior keeps no covariances; subtract a constant from them"
		return false
	case c.fill+absent > maxFill:
		c.Note = "standardize scales the numbers that are mostly absent but does not centre them, for that would fill in their zeros"
		return false
	}
	c.fill += absent
	return true
}

// vectorFrom is the number of entries from which whole rows are summed by vector operations.
const vectorFrom = 1 << 16

// moments returns the moments of the columns that have a place in at.
func (c *Columns) moments(weight []float64, at []int32, numbers int) []moments {
	x := *c
	if c.pieces == nil && c.all != nil && len(c.Val) >= vectorFrom {
		x.pieces = &pieces{p: c.P, first: []int{0, c.N}, values: [][]float64{c.Val}}
	}
	if x.pieces != nil {
		return x.piecesMoments(weight, at, numbers)
	}
	all, count := make([]moments, numbers), make([]int, numbers)
	// visit calls f for the entries of each row, in the order of rows; for whole rows each
	// processor has its own columns.
	visit := func(f func(at []int32, col []uint32, val []float64, w float64)) {
		part := func(lo, hi int) {
			for i := range c.N {
				c.Stop.Row(i)
				w := weightOf(weight, i)
				col, val := c.Entries(i)
				if c.whole() {
					col, val = col[lo:hi], val[lo:hi]
				}
				f(at, col, val, w)
			}
		}
		if c.whole() {
			c.Parallel(c.P, len(c.Val), part)
		} else {
			part(0, c.P)
		}
	}
	visit(func(at []int32, col []uint32, val []float64, w float64) {
		for k, j := range col {
			if a := at[j]; a >= 0 {
				all[a].first(val[k], w)
			}
		}
	})
	total := float64(c.N)
	if weight != nil {
		total = 0
		for _, w := range weight {
			total += w
		}
	}
	missing := make([]float64, numbers) // weight of absent entries
	for k := range all {
		m := &all[k]
		count[k] = m.n
		if m.n < c.N {
			missing[k] = max(total-m.total, 0)
			m.absent(c.N-m.n, missing[k])
		}
		m.setMean()
	}
	visit(func(at []int32, col []uint32, val []float64, w float64) {
		for k, j := range col {
			if a := at[j]; a >= 0 {
				all[a].second(val[k], w)
			}
		}
	})
	for k := range all {
		all[k].second(0, missing[k])
		all[k].n = count[k]
	}
	return all
}

// scaled returns X on the new scale, with fill additional entries.
func (c *Columns) scaled(s *Scaling, fill int) Columns {
	q := *c
	if c.pieces != nil {
		q.pieces = c.pieces.inUnits(s.Shift, s.Scale)
		return q
	}
	q.block = nil
	by := memory.Floats(c.P)
	for j, v := range s.Scale {
		by[j] = 1 / v
	}
	if fill == 0 {
		q.Val = stop.Make[float64](c.Stop, len(c.Val))
		c.Parallel(c.N, len(c.Val), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				c.Stop.Row(i)
				col, val := c.Entries(i)
				_, to := q.Entries(i)
				if c.all != nil {
					dense.InUnits(to, val, s.Shift, by)
					continue
				}
				for k, j := range col {
					to[k] = (val[k] - s.Shift[j]) * by[j]
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
				q.Col, q.Val = append(q.Col, j), append(q.Val, -s.Shift[j]*by[j])
			}
		}
		for k, j := range col {
			absent(j)
			if next < len(centred) && centred[next] == j {
				next++
			}
			q.Col, q.Val = append(q.Col, j), append(q.Val, (val[k]-s.Shift[j])*by[j])
		}
		absent(uint32(c.P))
		q.Row = append(q.Row, len(q.Col))
	}
	return q
}

// To sets dst to the weights of the standardised columns with the same predictor as w. As for From
// and Restore, there may be several blocks of weights, one for each class.
func (s *Scaling) To(dst, w []float64) {
	p := len(s.Scale)
	for at := 0; at < len(w); at += p {
		b, from := 0.0, w[at:at+p]
		if len(s.Crossed) > 0 {
			from = slices.Clone(from)
			s.cross(from)
		}
		for j, v := range from {
			b += s.Shift[j] * v
			dst[at+j] = v * s.Scale[j] / s.Unit
		}
		if b -= s.Origin; b != 0 {
			dst[at] += b / s.Unit
		}
	}
}

// From sets dst to the weights of the original columns with the same predictor as w.
func (s *Scaling) From(dst, w []float64) {
	p := len(s.Scale)
	for at := 0; at < len(w); at += p {
		b := 0.0
		for j, v := range w[at : at+p] {
			dst[at+j] = v * s.Unit / s.Scale[j]
			b += s.Shift[j] * dst[at+j]
		}
		if b -= s.Origin; b != 0 {
			dst[at] -= b
		}
		s.uncross(dst[at : at+p])
	}
}

// Restore returns the belief g over the standardised columns on the original scale. If columns were
// centred, Diagonal and LowRank become Full up to 500 weights, and beyond that LowRank with one
// more column for each that was centred; otherwise forms stay. An Arrowhead becomes Full, and so do
// all forms if columns were crossed.
//
// Cost: O(p²) for Full: the factor's first row changes, and two sweeps of rotations make it
// triangular again.
func (s *Scaling) Restore(g *gauss.Normal) (*gauss.Normal, error) {
	n := g.Dim()
	mean := memory.Floats(n)
	s.From(mean, g.Mean)
	if g.Form == gauss.Arrowhead || len(s.Crossed) > 0 || s.centred && (n <= fullRestore || rankOf(g)+s.ties(n) >= n) {
		var err error
		if g, err = g.ToFull(); err != nil {
			return nil, err
		}
	}
	if g.Form == gauss.Full {
		return gauss.NewFull(mean, s.factor(g.L)), nil
	}
	d := memory.Floats(n)
	for j, v := range g.Diag() {
		by := s.Unit / s.Scale[j%len(s.Scale)]
		d[j] = v * by * by
	}
	if g.Form == gauss.Diagonal && !s.centred {
		return gauss.NewDiagonal(mean, d), nil
	}
	return gauss.NewLowRank(mean, d, s.tied(g, d))
}

func rankOf(g *gauss.Normal) int {
	if g.F == nil {
		return 0
	}
	return g.F.Cols
}

// ties is the number of the n weights that were centred.
func (s *Scaling) ties(n int) (k int) {
	for at := 0; at < n; at += len(s.Scale) {
		for _, c := range s.Shift {
			if c != 0 {
				k++
			}
		}
	}
	return k
}

// factor returns a Cholesky factor on the original scale.
func (s *Scaling) factor(l *dense.Matrix) *dense.Matrix {
	l = l.Clone()
	p := len(s.Scale)
	for j := range l.Rows {
		by := s.Unit / s.Scale[j%p]
		for k := range l.Row(j) {
			l.Row(j)[k] *= by
		}
	}
	for at := 0; s.centred && at < l.Rows; at += p {
		for j, c := range s.Shift {
			if k := at + j; c != 0 {
				dense.Axpy(-c, l.Row(k)[:k+1], l.Row(at)[:k+1])
			}
		}
		triangle(l, at, at+p)
	}
	if len(s.Crossed) > 0 {
		s.uncrossRows(l)
	}
	return l
}

// tied returns F of diag(d) - F Fᵀ on the original scale, where d is the diagonal of g there, to
// which it adds. A number of variance v that was centred at c is tied to the intercept,
//
//	v (c²  -c; -c  1) = 2 v diag(c², 1) - v (c; 1) (c  1),
//
// with one column of F for each.
func (s *Scaling) tied(g *gauss.Normal, d []float64) *dense.Matrix {
	p, rank := len(s.Scale), rankOf(g)
	f := dense.New(len(d), rank+s.ties(len(d)))
	for j := range len(d) {
		if rank > 0 {
			dense.Axpy(s.Unit/s.Scale[j%p], g.F.Row(j), f.Row(j)[:rank])
		}
	}
	k := rank
	for at := 0; at < len(d); at += p {
		for j, c := range s.Shift {
			if c == 0 {
				continue
			}
			v := d[at+j]
			dense.Axpy(-c, f.Row(at + j)[:rank], f.Row(at)[:rank])
			sd := math.Sqrt(v)
			f.Row(at)[k], f.Row(at + j)[k] = c*sd, sd
			d[at] += 2 * c * c * v
			d[at+j] = 2 * v
			k++
		}
	}
	return f
}

// triangle makes m, lower triangular except for row lo, which has numbers up to column hi, lower
// triangular without changing m mᵀ, by rotations of neighbouring columns.
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

package kernels

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
)

const (
	codeRange  = 10      // times the range of the other values that a code is apart from them
	loneRange  = 100     // that a single value is
	codeValues = 3       // different codes on either side
	codeOthers = 10      // different other values; fewer may be levels, unless the code is one by its digits
	codeRows   = 1 << 10 // rows that tell columns that have no codes
	codeWithin = 1. / 12 // variance of others spread evenly, relative to the square of their range
)

// CodeNote is the note on a numeric column of f, a fit of r, or on its responses, with values so far
// from all others that these differ by next to nothing beside them, as -9999 for a missing value
// does; "" if there is none. A code is one of at most three values on either side, ten times the
// range of the others away and more of the variance than these; if it occurs once, a hundred
// times. Values with a long tail are none, nor are few different values, but for nines beside them.
//
// Cost: a pass over 1,024 rows, and one over all rows for each column whose values in these are so.
func (r *Rows) CodeNote(s *stop.Stop, f *Fit) string {
	if r.Dict.HashBits > 0 {
		return ""
	}
	at := memory.Make[int32](r.Dict.Len(), r.Dict.Len())
	for id := range at {
		at[id] = -1
	}
	var column, of []int // by place: index in f.Columns, feature
	for k, c := range f.Columns {
		if id, ok := r.Dict.Find(c.Name); ok && c.Kind == NumberColumn && at[id] < 0 {
			at[id] = int32(len(of))
			column, of = append(column, k), append(of, int(id))
		}
	}
	if len(of) > 0 {
		ends := r.sampled(s, at, len(of))
		for id := range at {
			at[id] = -1
		}
		for k, e := range ends {
			c := &f.Columns[column[k]]
			if !e.apart() && !(c.Scale > e.extent()) {
				continue
			}
			at[of[k]] = 0
			code, ok := findCode(func(visit func(x, rows float64)) {
				r.eachRow(s, func(c *chunk, i int) {
					c.visitRow(i, at, func(_ int32, x float64) { visit(x, c.rows(i)) })
				})
			})
			at[of[k]] = -1
			if ok {
				return fmt.Sprintf("column %s: %v", c.Name, code)
			}
		}
	}
	if l := r.Model.Lik; l == nil || l.Traits().Binary || l.Traits().Trials || r.pooled() {
		return ""
	}
	code, ok := findCode(func(visit func(x, rows float64)) {
		r.eachRow(s, func(c *chunk, i int) {
			visit(c.Y[i], 1)
		})
	})
	if ok && code.rows > 1 {
		return fmt.Sprintf("responses: %v", code)
	}
	return ""
}

func (r *Rows) pooled() bool {
	return slices.ContainsFunc(r.chunks, func(c chunk) bool { return c.count != nil })
}

// eachRow calls f for the rows that count.
func (r *Rows) eachRow(s *stop.Stop, f func(c *chunk, i int)) {
	for k := range r.chunks {
		c := &r.chunks[k]
		for i := range c.Len() {
			s.Row(i)
			if c.weight(i) > 0 {
				f(c, i)
			}
		}
	}
}

// sampled returns the ends of the features with a place in at, over up to codeRows rows that are
// spread over all.
func (r *Rows) sampled(s *stop.Stop, at []int32, places int) []twoEnds {
	all := make([]twoEnds, places)
	step := max(1, r.n/codeRows)
	next, before := 0, 0
	for k := range r.chunks {
		c := &r.chunks[k]
		for ; next-before < c.Len(); next += step {
			s.Check()
			if i := next - before; c.weight(i) > 0 {
				c.visitRow(i, at, func(k int32, x float64) { all[k].add(x, 1) })
			}
		}
		before += c.Len()
	}
	return all
}

// oneEnd is the least of numbers that are not equal, ascending, and how many rows have them.
type oneEnd struct {
	n           int
	value, rows [codeValues + 1]float64
}

func (e *oneEnd) add(x, rows float64) {
	k := e.n
	for k > 0 && x < e.value[k-1] {
		k--
	}
	if k > 0 && x == e.value[k-1] {
		e.rows[k-1] += rows
		return
	}
	if k == len(e.value) {
		return
	}
	e.n = min(e.n+1, len(e.value))
	copy(e.value[k+1:e.n], e.value[k:])
	copy(e.rows[k+1:e.n], e.rows[k:])
	e.value[k], e.rows[k] = x, rows
}

func (e *oneEnd) merge(o *oneEnd) {
	for k, x := range o.value[:o.n] {
		e.add(x, o.rows[k])
	}
}

// weight is the number of rows with the first k values.
func (e *oneEnd) weight(k int) (rows float64) {
	for _, n := range e.rows[:k] {
		rows += n
	}
	return rows
}

// near reports whether the first k values are near each other beside their gap to the others.
func (e *oneEnd) near(k int, gap float64) bool {
	return k < 2 || (e.value[k-1]-e.value[0])*codeRange < gap
}

// twoEnds are both ends of numbers; high has their negatives.
type twoEnds struct {
	low, high oneEnd
	rows      float64
	values    []float64 // different ones, as many as tell whether there are codeOthers beside codes
}

func (e *twoEnds) add(x, rows float64) {
	e.low.add(x, rows)
	e.high.add(-x, rows)
	e.rows += rows
	e.meet(x)
}

func (e *twoEnds) meet(x float64) {
	if len(e.values) < codeOthers+2*codeValues && !slices.Contains(e.values, x) {
		e.values = append(e.values, x)
	}
}

func (e *twoEnds) extent() float64 { return -e.high.value[0] - e.low.value[0] }

// each calls try for the lowest i and the highest j values, few before many, that are far from the
// others in units of their range, and on either side near each other, until it returns true.
func (e *twoEnds) each(least float64, try func(i, j int, below, above float64) bool) bool {
	for n := 1; n <= 2*codeValues && n+2 <= len(e.values); n++ {
		for i := max(0, n-codeValues); i <= min(n, codeValues); i++ {
			j := n - i
			low, high := e.low.value[i], -e.high.value[j]
			extent := high - low
			below, above := math.Inf(1), math.Inf(1)
			if i > 0 {
				below = (low - e.low.value[i-1]) / extent
			}
			if j > 0 {
				above = (-e.high.value[j-1] - high) / extent
			}
			if extent > 0 && below > least && above > least && e.low.near(i, below*extent) && e.high.near(j, above*extent) && try(i, j, below, above) {
				return true
			}
		}
	}
	return false
}

// apart reports whether a sample may be of numbers with a code, of which it need not have all.
func (e *twoEnds) apart() bool {
	return len(e.values) <= 2 || e.each(codeRange-1, func(_, _ int, _, _ float64) bool { return true })
}

// farCode is a value far from all others.
type farCode struct {
	value, rows, of, ranges float64
	more                    int // values on the same side
}

func (c farCode) String() string {
	value, lie, it, mean := fmt.Sprintf("the value %.10g", c.value), "lies", "it", "it means"
	if c.more > 0 {
		value, lie, it, mean = fmt.Sprintf("%d values such as %.10g", c.more+1, c.value), "lie", "them", "they mean"
	}
	return fmt.Sprintf("%s, in %.0f of %.0f rows, %s %.3g times the range of all others away from them, so that these hardly differ beside %s; "+
		"if %s that there is no value, mark %s as missing", value, c.rows, c.of, lie, c.ranges, it, mean, it)
}

// nines reports whether x is 99, 999 and so on, or minus that.
func nines(x float64) bool {
	x = math.Abs(x) + 1
	for x >= 1000 && math.Mod(x, 10) == 0 {
		x /= 10
	}
	return x == 100
}

// findCode looks for the codes among the numbers that each visits.
func findCode(each func(visit func(x, rows float64))) (code farCode, ok bool) {
	var e twoEnds
	each(e.add)
	return e.code()
}

// code is the code among numbers with these ends.
func (e *twoEnds) code() (code farCode, ok bool) {
	if len(e.values) < 3 || math.IsInf(e.extent(), 1) {
		return code, false
	}
	ok = e.each(codeRange, func(i, j int, below, above float64) bool {
		if len(e.values)-i-j < codeOthers {
			for k := range max(i, j) {
				if k < i && !nines(e.low.value[k]) || k < j && !nines(e.high.value[k]) {
					return false
				}
			}
		}
		l, h := farCode{rows: e.low.weight(i), of: e.rows, ranges: below, more: i - 1}, farCode{rows: e.high.weight(j), of: e.rows, ranges: above, more: j - 1}
		if i > 0 && !l.matters() || j > 0 && !h.matters() {
			return false
		}
		code = farCode{value: e.low.value[0], rows: l.rows + h.rows, of: e.rows, ranges: min(below, above), more: i + j - 1}
		if i == 0 {
			code.value = -e.high.value[j-1]
		}
		return true
	})
	return code, ok
}

// matters reports whether c is far enough from the others, and makes up more of the variance.
func (c farCode) matters() bool {
	least, part := float64(codeRange), c.rows/c.of
	if c.rows <= float64(c.more+1) {
		least = loneRange
	}
	return c.ranges > least && part*(1-part)*c.ranges*c.ranges > codeWithin
}

// Extremes are what a stream keeps of a column's numbers to tell whether there is a code among them as
// CodeNote defines it. The zero value is empty.
type Extremes struct{ ends twoEnds }

// Add adds a number.
func (e *Extremes) Add(x float64) { e.ends.add(x, 1) }

// Size is the memory in bytes.
func (e *Extremes) Size() int64 {
	if e == nil {
		return 0
	}
	return int64(unsafe.Sizeof(*e)) + 8*int64(cap(e.ends.values))
}

// Clone returns a copy; nil of nil.
func (e *Extremes) Clone() *Extremes {
	if e == nil {
		return nil
	}
	c := *e
	c.ends.values = slices.Clone(e.ends.values)
	return &c
}

// MergedExtremes are the extremes of both a, which it may change, and b; nil stands for none.
func MergedExtremes(a, b *Extremes) *Extremes {
	if a == nil || b == nil {
		if a == nil {
			a = b.Clone()
		}
		return a
	}
	to, from := &a.ends, &b.ends
	to.low.merge(&from.low)
	to.high.merge(&from.high)
	to.rows += from.rows
	for _, x := range from.values {
		to.meet(x)
	}
	return a
}

// Note is the sentence about a code, as of CodeNote, "" if there is none. of is what has it.
func (e *Extremes) Note(of string) string {
	if e == nil {
		return ""
	}
	code, ok := e.ends.code()
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s: %v", of, code)
}

package kernels

import (
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
)

const (
	codeRange  = 10      // times the range of the other values that a code is apart from them
	loneRange  = 100     // that a single value is
	codeValues = 3       // different codes on one side
	codeOthers = 10      // different other values; fewer may be levels, unless the code is one by its digits
	codeRows   = 1 << 10 // rows that tell columns that have no codes
	codeWithin = 1. / 12 // variance of others spread evenly, relative to the square of their range
)

// CodeNote is the note on a numeric column of f, a fit of r, or on its responses, with values so far
// from all others that these differ by next to nothing beside them, as -9999 for a missing value
// does; "" if there is none. A code is one of at most three values, ten times the range of the
// others away and more of the variance than these; one that occurs once, a hundred times. Values
// with a long tail are none, nor are few different values, but for nines beside them.
//
// Cost: two passes over 1,024 rows, and two over all rows for each column whose values in these lie
// near two points.
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
			if e.middle && !(c.Scale > e.high-e.low) {
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

// ends are the lowest and the highest number of a sample; middle says that one is near neither.
type ends struct {
	low, high float64
	middle    bool
}

// sampled returns the ends of the features with a place in at, over up to codeRows rows that are
// spread over all.
func (r *Rows) sampled(s *stop.Stop, at []int32, places int) []ends {
	all := make([]ends, places)
	for k := range all {
		all[k] = ends{low: math.Inf(1), high: math.Inf(-1)}
	}
	step := max(1, r.n/codeRows)
	visit := func(f func(e *ends, x float64)) {
		next, before := 0, 0
		for k := range r.chunks {
			c := &r.chunks[k]
			for ; next-before < c.Len(); next += step {
				s.Check()
				if i := next - before; c.weight(i) > 0 {
					c.visitRow(i, at, func(k int32, x float64) { f(&all[k], x) })
				}
			}
			before += c.Len()
		}
	}
	visit(func(e *ends, x float64) { e.low, e.high = min(e.low, x), max(e.high, x) })
	visit(func(e *ends, x float64) { e.middle = e.middle || e.between(x) })
	return all
}

// between reports whether x is so far from both ends that none is a code.
func (e *ends) between(x float64) bool {
	near := (e.high - e.low) / (codeRange + 1)
	return x-e.low > near && e.high-x > near
}

// farSide is what lies at one end of the numbers.
type farSide struct {
	low, high, rows float64
	values          []float64 // the different ones, up to codeOthers
}

func (s *farSide) add(x, rows float64) {
	if s.rows == 0 {
		s.low, s.high = x, x
	}
	s.low, s.high = min(s.low, x), max(s.high, x)
	s.rows += rows
	if len(s.values) < codeOthers && !slices.Contains(s.values, x) {
		s.values = append(s.values, x)
	}
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

// findCode looks for the codes among the numbers that each visits, the same ones at each call.
func findCode(each func(visit func(x, rows float64))) (code farCode, ok bool) {
	e := ends{low: math.Inf(1), high: math.Inf(-1)}
	each(func(x, _ float64) { e.low, e.high = min(e.low, x), max(e.high, x) })
	if !(e.high > e.low) || math.IsInf(e.high-e.low, 1) {
		return code, false
	}
	var below, above farSide
	middle := e.low + (e.high-e.low)/2
	each(func(x, rows float64) {
		switch {
		case e.middle:
		case e.between(x):
			e.middle = true
		case x < middle:
			below.add(x, rows)
		default:
			above.add(x, rows)
		}
	})
	if e.middle {
		return code, false
	}
	far, others := &below, &above
	if len(below.values) > len(above.values) {
		far, others = &above, &below
	}
	if len(far.values) > codeValues || len(others.values) < 2 || len(others.values) < codeOthers && slices.ContainsFunc(far.values, func(x float64) bool { return !nines(x) }) {
		return code, false
	}
	c := farCode{value: far.values[0], rows: far.rows, of: below.rows + above.rows, more: len(far.values) - 1, ranges: (above.low - below.high) / (others.high - others.low)}
	return c, c.matters()
}

// matters reports whether c is far enough from the others, and makes up more of the variance.
func (c farCode) matters() bool {
	least, part := float64(codeRange), c.rows/c.of
	if c.rows == 1 {
		least = loneRange
	}
	return c.ranges > least && part*(1-part)*c.ranges*c.ranges > codeWithin
}

// Extremes are what a stream keeps of a column's numbers to tell whether the least or the greatest
// of them is a code as CodeNote defines it, if there is only one. The zero value is empty.
type Extremes struct {
	n         int64
	low, high extreme
	values    []float64 // the first different ones, up to codeOthers + 1
}

// extreme is the least of numbers, how often it came, and the next one.
type extreme struct {
	value, next float64
	n           int64
}

func (e *extreme) add(x float64, n int64) {
	switch {
	case x == e.value:
		e.n += n
	case x < e.value:
		e.value, e.next, e.n = x, e.value, n
	case x < e.next:
		e.next = x
	}
}

// Add adds a number.
func (e *Extremes) Add(x float64) {
	if e.n++; e.n == 1 {
		inf := math.Inf(1)
		e.low, e.high = extreme{x, inf, 0}, extreme{-x, inf, 0}
	}
	e.low.add(x, 1)
	e.high.add(-x, 1)
	if len(e.values) <= codeOthers && !slices.Contains(e.values, x) {
		e.values = append(e.values, x)
	}
}

// Size is the memory in bytes.
func (e *Extremes) Size() int64 {
	if e == nil {
		return 0
	}
	return 80 + 8*int64(cap(e.values))
}

// Clone returns a copy; nil of nil.
func (e *Extremes) Clone() *Extremes {
	if e == nil {
		return nil
	}
	c := *e
	c.values = slices.Clone(e.values)
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
	for _, x := range b.values {
		if len(a.values) <= codeOthers && !slices.Contains(a.values, x) {
			a.values = append(a.values, x)
		}
	}
	a.n += b.n
	a.low.add(b.low.next, 0)
	a.low.add(b.low.value, b.low.n)
	a.high.add(b.high.next, 0)
	a.high.add(b.high.value, b.high.n)
	return a
}

// Note is the sentence about a code, as of CodeNote, "" if there is none. of is what has it.
func (e *Extremes) Note(of string) string {
	if e == nil || len(e.values) < 3 {
		return ""
	}
	least, greatest := e.low, extreme{-e.high.value, -e.high.next, e.high.n}
	for _, c := range []farCode{
		{value: least.value, rows: float64(least.n), ranges: (least.next - least.value) / (greatest.value - least.next)},
		{value: greatest.value, rows: float64(greatest.n), ranges: (greatest.value - greatest.next) / (greatest.next - least.value)},
	} {
		c.of = float64(e.n)
		if (len(e.values) > codeOthers || nines(c.value)) && c.matters() {
			return fmt.Sprintf("%s: %v", of, c)
		}
	}
	return ""
}

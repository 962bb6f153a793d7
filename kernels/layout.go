package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// errElsewhere reports that rows cannot be read in place.
var errElsewhere = errors.New("rows that are laid out")

// layoutInput is what the layout of rows depends on: the column of each feature and the known
// weights of features without one, by number; the replacements of missing numbers, nil if none is
// missing; which features every row has; and whether large chunks of whole rows become views of the
// laid-out values, one part of them after the other.
type layoutInput struct {
	col    []int32
	prior  []Weight
	center []float64
	gaps   Gaps
	dict   *Dict
	full   func(id uint32) bool
	move   bool
}

// scalars collects the numbers per row from the chunks, and returns the first row of each chunk,
// and the destination of its rows, nil if they stay.
func (p *Problem) scalars(r *Rows) (first, place []int, err error) {
	all := Batch{Y: memory.Make[float64](0, p.N)}
	first = make([]int, len(r.chunks)+1)
	for k := range r.chunks {
		c := &r.chunks[k]
		for _, x := range r.scalars(&all, c) {
			*x.to = x.extended(first[k], c.Len(), p.N)
		}
		all.Y = append(all.Y, c.Y...)
		p.Count, p.within = append(p.Count, c.count...), append(p.within, c.within...)
		first[k+1] = first[k] + c.Len()
	}
	place, err = p.byTime(&all)
	p.Y, p.Weight, p.Offset, p.Trials = all.Y, all.Weight, all.Offset, all.Trials
	return first, place, err
}

// keepInPlace leaves the values of the rows in place; errElsewhere if they are not X.
func (p *Problem) keepInPlace(r *Rows, by *layoutInput) error {
	if r.Model.HasTime {
		return errElsewhere
	}
	var values [][]float64
	var entry []int
	for k := range r.chunks {
		c := &r.chunks[k]
		l := newLayout(c, by, false, nil)
		if l.known || len(l.entry) != p.P || len(c.Shared) != p.P || k > 0 && !slices.Equal(l.entry, entry) {
			return errElsewhere
		}
		for j, at := range l.cols {
			if int(at) != j {
				return errElsewhere
			}
		}
		entry = l.entry
		values = append(values, c.Value[:c.Len()*p.P])
	}
	var bad atomic.Bool
	dense.Each(len(r.chunks), func(k int) {
		p.Stop.Check()
		if !r.chunks[k].finite(by.full) {
			bad.Store(true)
		}
	})
	x, ok := design.Pieces(p.P, values, entry, p.Stop)
	if !ok || bad.Load() {
		return errElsewhere
	}
	p.Columns = x
	if _, _, err := p.scalars(r); err != nil {
		return err
	}
	return finiteOr("offset", p.Offset)
}

// finite reports whether all entries of c, whose rows have the same features, are finite; features
// for which known is true are not checked.
func (c *chunk) finite(known func(id uint32) bool) bool {
	var open []int
	for e, id := range c.Shared {
		if c.ids != nil {
			id = c.ids[id]
		}
		if !known(id) {
			open = append(open, e)
		}
	}
	if len(open) > 2 {
		return dense.AllFinite(c.Value)
	}
	for _, e := range open {
		for at := e; at < len(c.Value); at += len(c.Shared) {
			if !special.Finite(c.Value[at]) {
				return false
			}
		}
	}
	return true
}

// layOut copies the rows in the order of their times, columns ascending. The rows are divided among
// processors; each is written by one.
func (p *Problem) layOut(r *Rows, by *layoutInput) error {
	first, place, err := p.scalars(r)
	if err != nil {
		return err
	}
	at := func(row int) int { // the destination of a row
		if place == nil {
			return row
		}
		return place[row]
	}
	lays := make([]layout, len(r.chunks))
	shifted, whole := false, true
	for k := range r.chunks {
		var last *layout
		if k > 0 {
			last = &lays[k-1]
		}
		lays[k] = newLayout(&r.chunks[k], by, true, last)
		shifted = shifted || lays[k].known
		whole = whole && lays[k].whole && len(lays[k].cols) == p.P
	}
	if whole && p.N > 0 && p.P > 0 {
		p.Columns = design.Every(p.N, p.P, p.Stop)
	} else {
		p.Row = memory.Make[int](p.N+1, p.N+1)
		for k := range lays {
			lays[k].count(func(i, n int) { p.Row[at(first[k]+i)+1] = n })
		}
		for i := range p.N {
			p.Row[i+1] += p.Row[i]
		}
		p.Col, p.Val = stop.Make[uint32](p.Stop, p.Row[p.N]), stop.Make[float64](p.Stop, p.Row[p.N])
	}
	if shifted && p.Offset == nil {
		p.Offset = memory.Floats(p.N)
	}
	f := &filler{p: p, lays: lays, first: first, at: at, bad: p.N}
	f.all(r, by.move && place == nil)
	if f.failure != nil {
		var e badEntry
		errors.As(f.failure, &e)
		return RowError(fmt.Errorf("row %d: feature %q = %v; allowed: finite numbers", f.bad+1, p.dict.Name(e.feature), e.value))
	}
	return finiteOr("offset", p.Offset)
}

// filler writes the rows of chunks to their destinations.
type filler struct {
	p     *Problem
	lays  []layout          // by chunk
	first []int             // first row of each chunk
	at    func(row int) int // the destination of a row

	mu      sync.Mutex
	bad     int // the first row that is not valid
	failure error
}

// rows writes rows lo to hi.
func (f *filler) rows(lo, hi int) {
	p, k := f.p, sort.SearchInts(f.first, lo+1)-1
	for row := lo; row < hi; row++ {
		for row >= f.first[k+1] {
			k++
		}
		p.Stop.Row(row)
		to := f.at(row)
		var cols []uint32
		var vals []float64
		if p.Row == nil {
			vals = p.Val[to*p.P:][:p.P:p.P]
		} else {
			a, z := p.Row[to], p.Row[to+1]
			cols, vals = p.Col[a:z], p.Val[a:z]
		}
		shift, err := f.lays[k].row(row-f.first[k], cols, vals)
		if err != nil {
			f.mu.Lock()
			if row < f.bad {
				f.bad, f.failure = row, err
			}
			f.mu.Unlock()
			return
		}
		if shift != 0 {
			p.Offset[to] += shift
		}
	}
}

// all writes all rows; with move, chunks of large problems become views of them.
func (f *filler) all(r *Rows, move bool) {
	p, rounds := f.p, 1
	if move = move && p.Row == nil && r.nnz >= movesFrom; move {
		rounds = moveRounds
	}
	done := 0 // chunks
	for round := 1; round <= rounds && f.failure == nil; round++ {
		from, k := f.first[done], done
		for k < len(r.chunks) && f.first[k] < round*p.N/rounds {
			k++
		}
		if n := f.first[k] - from; r.nnz < 1<<15 {
			f.rows(from, from+n)
		} else {
			dense.Parallel(n, func(lo, hi int) { f.rows(from+lo, from+hi) })
		}
		if !move || f.failure != nil {
			continue
		}
		for ; done < k; done++ {
			c := &r.chunks[done]
			if atomic.LoadInt32(&f.lays[done].filled) > 0 {
				continue // the mean that replaces missing numbers may change later
			}
			lo, hi := f.first[done]*p.P, f.first[done+1]*p.P
			c.Value, c.sealed = p.Val[lo:hi:hi], true
		}
		debug.FreeOSMemory() // otherwise the memory of the chunks stays until the heap is twice as large
	}
}

// movesFrom is the number of values from which rows are moved, and moveRounds the number of parts:
// each part is held twice for a while. A part costs a garbage collection and fresh pages, for small
// fits a third of their time.
var movesFrom = 1 << 25 // a variable for its test

const moveRounds = 5

// byTime sorts the scalars of the rows by time and returns the destination of each row; nil if they
// stay. Without times rows have the times 1, 2, ...
func (p *Problem) byTime(b *Batch) (place []int, err error) {
	if !p.HasTime {
		p.Time = memory.Floats(p.N)
		for k := range p.Time {
			p.Time[k] = float64(k + 1)
		}
		return nil, nil
	}
	if err := finiteOr("time", b.Time); err != nil {
		return nil, err
	}
	if slices.IsSorted(b.Time) {
		p.Time = b.Time
		return nil, nil
	}
	rows := make([]int, p.N)
	for i := range rows {
		rows[i] = i
	}
	slices.SortStableFunc(rows, func(i, j int) int {
		p.Stop.Check()
		return cmp.Compare(b.Time[i], b.Time[j])
	})
	place = make([]int, p.N)
	for k, i := range rows {
		place[i] = k
	}
	for _, s := range [...]*[]float64{&b.Y, &b.Weight, &b.Offset, &b.Trials, &b.Time} {
		if len(*s) == 0 {
			continue
		}
		sorted := memory.Floats(p.N)
		for k, i := range rows {
			sorted[k] = (*s)[i]
		}
		*s = sorted
	}
	p.Time = b.Time
	return place, nil
}

// layout maps the entries of a chunk's rows to columns.
type layout struct {
	c     *chunk
	col   []int32  // by number in the chunk: the column, -1 for a known weight
	prior []Weight // by number in the chunk, for known weights
	known bool     // some are known
	by    *layoutInput
	fills bool // means replace missing numbers

	// For shared features: the columns in order and the entry of each.
	cols  []uint32
	entry []int
	whole bool // the entries are the columns in order

	filled int32 // 1: means have replaced missing numbers
}

// badEntry is a value that is not finite.
type badEntry struct {
	feature uint32
	value   float64
}

func (e badEntry) Error() string { return "not finite" }

// newLayout returns the layout of the rows of c; fills says that means replace missing numbers. last
// is that of the chunk before, nil for the first.
func newLayout(c *chunk, by *layoutInput, fills bool, last *layout) layout {
	col, prior := by.col, by.prior
	l := layout{c: c, by: by, col: col, prior: prior, fills: fills && by.center != nil}
	if last != nil && unsafe.SliceData(last.c.ids) == unsafe.SliceData(c.ids) { // chunks of one state
		l.col, l.prior, l.known = last.col, last.prior, last.known
	} else {
		if c.ids != nil {
			l.col, l.prior = make([]int32, len(c.ids)), make([]Weight, len(c.ids))
			for k, id := range c.ids {
				l.col[k], l.prior[k] = col[id], prior[id]
			}
		}
		l.known = slices.Contains(l.col, -1)
	}
	for k, f := range c.Shared {
		if l.col[f] >= 0 {
			l.entry = append(l.entry, k)
		}
	}
	slices.SortFunc(l.entry, func(a, b int) int { return int(l.col[c.Shared[a]]) - int(l.col[c.Shared[b]]) })
	for _, k := range l.entry {
		l.cols = append(l.cols, uint32(l.col[c.Shared[k]]))
	}
	l.whole = c.Shared != nil && len(l.entry) == len(c.Shared) && slices.IsSorted(l.entry)
	return l
}

// count calls f with the number of entries of each row.
func (l *layout) count(f func(i, n int)) {
	for i := range l.c.Len() {
		switch {
		case l.c.Shared != nil:
			f(i, len(l.cols))
		case !l.known:
			f(i, l.c.Row[i+1]-l.c.Row[i])
		default:
			n := 0
			for _, id := range l.c.Feature[l.c.Row[i]:l.c.Row[i+1]] {
				if l.col[id] >= 0 {
					n++
				}
			}
			f(i, n)
		}
	}
}

// row writes row i of the chunk and returns the contribution of its known weights to the predictor.
// Without cols all rows have all columns.
func (l *layout) row(i int, cols []uint32, vals []float64) (shift float64, err error) {
	fs, xs := l.c.Entries(i)
	if cols == nil && !l.known && dense.AllFinite(xs) {
		copy(vals, xs)
		return 0, nil
	}
	if l.fills {
		atomic.StoreInt32(&l.filled, 1)
		xs = l.fill(fs, xs)
	}
	for k, x := range xs {
		if !(math.Abs(x) <= math.MaxFloat64) {
			id := fs[k]
			if l.c.ids != nil {
				id = l.c.ids[id]
			}
			return 0, badEntry{id, x}
		}
	}
	if l.known {
		for k, f := range fs {
			if l.col[f] < 0 {
				shift += xs[k] * l.prior[f].Mean
			}
		}
	}
	switch {
	case l.whole:
		copy(cols, l.cols)
		copy(vals, xs)
		return shift, nil
	case l.c.Shared != nil:
		copy(cols, l.cols)
		for k, e := range l.entry {
			vals[k] = xs[e]
		}
		return shift, nil
	}
	n, sorted := 0, true
	for k, f := range fs {
		if c := l.col[f]; c >= 0 {
			cols[n], vals[n] = uint32(c), xs[k]
			sorted = sorted && (n == 0 || cols[n-1] < cols[n])
			n++
		}
	}
	if !sorted {
		design.SortEntries(cols, vals)
	}
	return shift, nil
}

// fill returns xs with means in place of missing numbers; xs is not changed.
func (l *layout) fill(fs []uint32, xs []float64) []float64 {
	if !slices.ContainsFunc(xs, math.IsNaN) {
		return xs
	}
	out := slices.Clone(xs)
	mean := func(id uint32) float64 { return l.by.center[id] }
	for k, x := range xs {
		if x == x {
			continue
		}
		id := fs[k]
		if l.c.ids != nil {
			id = l.c.ids[id]
		}
		if of := l.by.gaps.Of(l.by.dict, id); len(of) > 0 {
			out[k] = l.by.gaps.Value(of, fs, xs, l.c.ids, mean)
		} else {
			out[k] = mean(id)
		}
	}
	return out
}

package kernels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// Problem is what the batch engines solve: n rows in row-compressed form over p columns in belief
// order, and a proper Gaussian prior over the columns. Known weights (prior variance 0) are not
// among the columns: their contribution is in Offset, and Fit restores them.
//
// With times the rows are sorted by time, rows of equal times in their original order.
type Problem struct {
	*Model
	design.Columns

	Y      []float64
	Weight []float64 // nil = 1
	Offset []float64 // nil = 0
	Trials []float64 // nil = none
	Time   []float64 // length n; without times 1, 2, ...
	Count  []float64 // number of rows of the table that each one stands for, nil = 1: see Options.Compress

	// PriorMean is the mean of the prior, PriorVar the diagonal of its covariance; Normal is the
	// whole prior, with the covariance of the fit that it starts from.
	PriorMean, PriorVar []float64
	Normal              *gauss.Normal

	// Begin is the time of the prior: that of the fit continued, otherwise that of the first row.
	// Born reports for each column whether it exists from then on (named by the model); others
	// begin with their first row.
	Begin float64
	Born  []bool

	// Balanced asks a fit at the mode for means that expect about as many events as came.
	Balanced bool

	dict    *Dict
	order   []uint32 // dictionary numbers in belief order, including known ones
	at      []int32  // column of each entry of order, -1 for known weights
	cols    []uint32 // dictionary number of each column
	known   []Weight // by index in order, only if at is -1
	rows    []chunk  // the rows in their chunks, if weights are known: see Features
	skipped int64
	columns []FitColumn // of the rows, as a fit records them
	asIs    bool        // see Apart
	crossed bool        // numbers of interactions are centred: see CrossAs

	within   []float64 // of pooled rows: see lik.Pooling
	stood    int64     // rows of the table, unless Count is nil
	constant float64   // of the log likelihood of pooled rows

	// Of rows that are not kept.
	unseen  *Totals
	squares []float64 // mean square of each column
	spread  float64   // mean square of the responses about their mean, less their offsets
}

// Problem lays the rows out for a batch engine; r is not changed and may grow afterwards. Cost:
// O(nnz + p log p) time and 12 bytes per non-zero.
// Errors: a prior that is not a proper Gaussian, a predictor that overflows.
func (r *Rows) Problem() (*Problem, error) { return r.problem(nil, copied) }

// HasMultipleWeights reports whether a row of p has two weights.
func (p *Problem) HasMultipleWeights() bool {
	for i := range p.N {
		p.Stop.Row(i)
		_, xs := p.Entries(i)
		n := 0
		for _, x := range xs {
			if x != 0 {
				n++
			}
		}
		if n > 1 {
			return true
		}
	}
	return false
}

// ErrNoProblem is the error for a problem that is nil or zero.
var ErrNoProblem = errors.New("the problem is of no rows and no model; make one with Rows.Problem")

// Check returns ErrNoProblem for such a problem.
func (p *Problem) Check() error {
	if p == nil || p.Model == nil || p.Normal == nil {
		return ErrNoProblem
	}
	return nil
}

// ProblemUnder is Problem with cancellation by ctx. Many rows with the same features are moved:
// from then on r and the problem share them, and neither may change them, so that they are not held
// twice.
func (r *Rows) ProblemUnder(ctx context.Context) (p *Problem, err error) {
	s := stop.Watch(ctx, 0)
	defer s.End(&err)
	return r.problem(s, moved)
}

// ProblemInPlace is ProblemUnder for a method that only needs products of X: if all of many rows
// have the same features and no value is missing, it reads them where r holds them (design.Pieces).
// It returns nil for other rows.
func (r *Rows) ProblemInPlace(ctx context.Context) (p *Problem, err error) {
	if dense.GramParts(r.Len(), r.Dict.Len()) == 0 || r.nnz != r.Len()*r.Dict.Len() {
		return nil, nil
	}
	s := stop.Watch(ctx, 0)
	defer s.End(&err)
	if p, err = r.problem(s, inPlace); err == errElsewhere {
		return nil, nil
	}
	return p, err
}

// errElsewhere reports that rows cannot be read in place.
var errElsewhere = errors.New("rows that are laid out")

// placement is the place of a problem's values.
type placement int

const (
	copied  placement = iota
	moved             // copied, and many rows read from the copy from then on
	inPlace           // where the rows hold them, or errElsewhere
)

func (r *Rows) problem(s *stop.Stop, to placement) (*Problem, error) {
	m := r.Model
	if m == nil {
		return nil, errNoModel
	}
	r, err := r.Pooled().tied()
	if err != nil {
		return nil, err
	}
	p := &Problem{Columns: design.Columns{N: r.Len(), Stop: s}, Model: m, dict: &r.Dict, order: r.Dict.Order(), skipped: r.skipped, stood: r.stood, constant: r.constant}
	if err := m.CheckPriorBy(&r.Dict, int64(r.Len())); err != nil {
		return nil, err
	}
	prior, begun := m.startOf(&r.Dict)

	n := len(p.order)
	col := memory.Make[int32](n, n) // by dictionary number
	p.at, p.known = memory.Make[int32](n, n), memory.Make[Weight](n, n)
	p.cols, p.Born = memory.Make[uint32](0, n), memory.Make[bool](0, n)
	p.PriorMean, p.PriorVar = memory.Make[float64](0, n), memory.Make[float64](0, n)
	for k, id := range p.order {
		w := prior[id]
		if err := CheckWeight(w); err != nil {
			return nil, fmt.Errorf("prior of feature %q: %w", r.Dict.Name(id), err)
		}
		if w.Variance == 0 {
			p.at[k], p.known[k], col[id] = -1, w, -1
			continue
		}
		p.at[k], col[id] = int32(p.P), int32(p.P)
		p.P++
		p.cols = append(p.cols, id)
		p.PriorMean = append(p.PriorMean, w.Mean)
		p.PriorVar = append(p.PriorVar, w.Variance)
		p.Born = append(p.Born, int(id) < begun)
	}
	var center []float64
	var full func(id uint32) bool
	p.columns, center, full = r.columns()
	lies := p.layOut
	if to == inPlace {
		lies = p.keepInPlace
	}
	if err := lies(r, &layoutInput{col, prior, center, GapsOf(p.columns, &r.Dict), &r.Dict, full, to == moved}); err != nil {
		return nil, err
	}
	if p.HasKnown() {
		p.rows = slices.Clone(r.chunks) // their present place
	}
	return p, p.start()
}

// startOf returns the prior of every feature of d, by number, and how many of them the model names
// (they come first in d).
func (m *Model) startOf(d *Dict) (prior []Weight, named int) {
	prior = make([]Weight, d.Len())
	for id := range prior {
		prior[id] = Weight{m.Prior.Mean, m.Prior.Variance}
	}
	if !m.NoIntercept {
		prior[0] = Weight{m.Prior.Mean, m.Prior.InterceptVariance}
		named = 1
	}
	// A new level of a column that the fit continued knows has the prior variance of that column.
	known := m.Start != nil && len(m.Start.Classes) == 0 && (len(m.Start.Columns) > 0 || m.Start.KeepsLevels())
	for id := named; id < d.Len() && (known || len(m.PriorBy) > 0); id++ {
		if by := m.PriorBy.of(d, uint32(id)); by != nil && !by.Auto {
			prior[id].Variance = by.Variance
		} else if known && d.LevelColumn(uint32(id)) != "" {
			prior[id].Variance = m.Start.PriorOf(d.Name(uint32(id))).Variance
		} else if v, ok := m.Start.keptVariance(d.Name(uint32(id))); ok && known && d.NumberColumn(uint32(id)) == "" {
			prior[id].Variance = v
		}
	}
	put := func(bs []Belief) {
		for _, b := range bs {
			if id, ok := d.Find(b.Feature); ok {
				prior[id] = b.Weight
				named = max(named, int(id)+1)
			}
		}
	}
	put(m.Priors)
	if m.Start != nil && len(m.Start.Classes) == 0 { // for classes see Classes.Prior
		put(m.Start.Beliefs)
	}
	return prior, named
}

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
		sortEntries(cols, vals)
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

// sortEntries sorts a row's columns; no column occurs twice.
func sortEntries(cols []uint32, vals []float64) {
	if len(cols) <= 32 {
		for k := 1; k < len(cols); k++ {
			c, v := cols[k], vals[k]
			j := k
			for ; j > 0 && cols[j-1] > c; j-- {
				cols[j], vals[j] = cols[j-1], vals[j-1]
			}
			cols[j], vals[j] = c, v
		}
		return
	}
	sort.Sort(byColumn{cols, vals})
}

type byColumn struct {
	cols []uint32
	vals []float64
}

func (s byColumn) Len() int           { return len(s.cols) }
func (s byColumn) Less(i, j int) bool { return s.cols[i] < s.cols[j] }
func (s byColumn) Swap(i, j int) {
	s.cols[i], s.cols[j] = s.cols[j], s.cols[i]
	s.vals[i], s.vals[j] = s.vals[j], s.vals[i]
}

// start sets Begin and the prior's Normal.
func (p *Problem) start() error {
	s := p.Start
	p.Begin = math.NaN()
	switch {
	case p.HasTime && s != nil && !math.IsNaN(s.Time):
		p.Begin = s.Time
	case !p.HasTime && s != nil && s.N > 0:
		p.Begin = 0 // the first row is one step later
	case p.N > 0:
		p.Begin = p.Time[0]
	}
	p.Normal = gauss.NewDiagonal(p.PriorMean, p.PriorVar)
	if s == nil || s.Covariance.Form == gauss.Diagonal || len(s.Classes) > 0 {
		return nil
	}
	at := make(map[uint32]int, p.P)
	for j, id := range p.cols {
		at[id] = j
	}
	place := make([]int, len(s.Beliefs))
	for k, b := range s.Beliefs {
		place[k] = -1
		if b.Variance > 0 {
			id, _ := p.dict.Find(b.Feature)
			place[k] = at[id]
		}
	}
	g, err := s.over(place, p.PriorMean, p.PriorVar, p.Stop)
	if err != nil {
		return fmt.Errorf("prior: %w", err)
	}
	p.Normal, p.PriorVar = g, g.Var
	return nil
}

// Under returns p, sharing its rows, with products that s can end.
func (p *Problem) Under(s *stop.Stop) *Problem {
	q := *p
	q.Columns = p.Columns.Under(s)
	return &q
}

// Known returns p with a prior and, unless f is nil, the dispersion and shape of f as if they had
// been given: a problem for a method that learns none itself. normal is the prior of the columns.
// Both problems share all else.
func (p *Problem) Known(prior Prior, normal *gauss.Normal, f *Fit) (*Problem, error) {
	known, m := *p, *p.Model
	known.Model = &m
	o := &m.Options
	o.AutoPrior, o.PriorGroups, o.AutoDispersion, o.AutoShape, o.Integrate, o.ThirdOrder = false, false, false, false, false, false
	m.Prior, m.PriorBy = prior, nil
	known.Normal, known.PriorVar = normal, normal.Var
	if f == nil {
		return &known, nil
	}
	m.Params.Dispersion = f.Dispersion
	if _, ok := p.Lik.(lik.Shaped); ok {
		m.Params.Shape = f.Shape
	}
	var err error
	m.Lik, err = lik.New(f.Family, f.Link, m.Params)
	return &known, err
}

// Name is the feature of column j.
func (p *Problem) Name(j int) string { return string(p.dict.Name(p.cols[j])) }

// Features visits the features in belief order: the column of each or, for known weights, -1, the
// weight and the times of the rows that have it, ascending; a row with the value 0 has it.
func (p *Problem) Features(visit func(name string, column int, w Weight, times []float64)) {
	times := p.knownTimes()
	for k, id := range p.order {
		visit(string(p.dict.Name(id)), int(p.at[k]), p.known[k], times[id])
	}
}

// knownTimes returns the times of the rows that have a known weight, by its number.
func (p *Problem) knownTimes() map[uint32][]float64 {
	if !p.HasKnown() {
		return nil
	}
	times := make(map[uint32][]float64, len(p.order)-p.P)
	for k, id := range p.order {
		if p.at[k] < 0 {
			times[id] = nil
		}
	}
	row := 0
	for k := range p.rows {
		c := &p.rows[k]
		for i := range c.Len() {
			p.Stop.Row(row)
			t := float64(row + 1)
			if p.HasTime {
				t = 0
				if len(c.Time) > 0 {
					t = c.Time[i]
				}
			}
			row++
			fs, _ := c.Entries(i)
			for _, id := range fs {
				if c.ids != nil {
					id = c.ids[id]
				}
				if had, ok := times[id]; ok {
					times[id] = append(had, t)
				}
			}
		}
	}
	if p.HasTime {
		for _, t := range times {
			slices.Sort(t)
		}
	}
	return times
}

// HasKnown reports whether some weights are known, with their part of the predictors in the offsets.
func (p *Problem) HasKnown() bool { return len(p.order) > p.P }

// IsNumber reports whether column j is numeric, so that Standardize scales it.
func (p *Problem) IsNumber(j int) bool { return p.dict.NumberPlace(p.cols[j]) < math.MaxInt }

// Place sets w, by column, to the means of at for the features it names. A known weight may be
// named with its own value.
// Errors: a feature that the fit does not have, a mean that is not finite.
func (p *Problem) Place(w []float64, at []Belief) error {
	place := make(map[uint32]int, len(p.order))
	for k, id := range p.order {
		place[id] = k
	}
	for _, b := range at {
		id, ok := p.dict.Find(b.Feature)
		if !ok {
			return fmt.Errorf("feature %q is not in the fit; allowed: features of the rows, of priors and of prior", b.Feature)
		}
		if !special.Finite(b.Mean) {
			return fmt.Errorf("feature %q = %v; allowed: finite numbers", b.Feature, b.Mean)
		}
		k := place[id]
		if j := p.at[k]; j >= 0 {
			w[j] = b.Mean
		} else if b.Mean != p.known[k].Mean {
			return fmt.Errorf("feature %q = %v, but its prior says that it is known to be %v", b.Feature, b.Mean, p.known[k].Mean)
		}
	}
	return nil
}

// Groups numbers the groups of the columns: features named `group=value` share the group before
// '=', others form their own; the intercept has group -1. names are in the order of the first
// column.
func (p *Problem) Groups() (group []int, names []string) {
	group = make([]int, p.P)
	seen := map[string]int{}
	for j := range group {
		name := p.Name(j)
		if name == Intercept {
			group[j] = -1
			continue
		}
		if k := strings.IndexByte(name, '='); k >= 0 {
			if name = name[:k]; p.dict.LevelColumn(p.cols[j]) != "" {
				name = p.dict.LevelColumn(p.cols[j])
			}
		}
		g, ok := seen[name]
		if !ok {
			g = len(names)
			seen[name] = g
			names = append(names, name)
		}
		group[j] = g
	}
	return group, names
}

// Batch returns the rows as a batch that shares p's memory; features are columns.
func (p *Problem) Batch() *Batch {
	return &Batch{Row: p.Row, Feature: p.Col, Shared: p.All(), Value: p.Val, Y: p.Y, Weight: p.Weight, Offset: p.Offset, Trials: p.Trials, Time: p.Time}
}

// Rows is the number of rows of the table that row i stands for.
func (p *Problem) Rows(i int) float64 {
	if p.Count == nil {
		return 1
	}
	return p.Count[i]
}

// RowWeight is the number of rows that row i counts as: its weight, which may be 0.
func (p *Problem) RowWeight(i int) float64 {
	if p.Weight == nil {
		return p.Rows(i)
	}
	return p.Weight[i]
}

// Table is the number of rows of the table from which p was made.
func (p *Problem) Table() float64 {
	switch {
	case p.unseen != nil:
		return float64(p.unseen.Rows)
	case p.Count == nil:
		return float64(p.N)
	}
	return float64(p.stood)
}

// Predictor sets dst = X w + offset.
func (p *Problem) Predictor(dst, w []float64) { p.Affine(dst, w, p.Offset) }

// Fit returns the fit with posterior post over the columns, known weights restored. logZ is the log
// evidence of the rows, to which that of the fit continued is added. Iterations, Converged and
// Status are set to 1, true and "ok".
func (p *Problem) Fit(method string, post *gauss.Normal, logZ float64) *Fit {
	f := p.Model.NewFit(method)
	f.Columns = slices.Clone(p.columns)
	f.N += int64(p.Table())
	f.Skipped += p.skipped
	f.LogEvidence += logZ + p.constant
	if p.HasTime && p.N > 0 {
		f.Time = Later(p.Begin, p.Time[p.N-1])
	}
	p.setPosterior(f, post)
	p.SetVariances(f, p.PriorVar)
	return f
}

// CheckEvidence returns an error if the log evidence of f is not finite and that of the fit
// continued is.
func (p *Problem) CheckEvidence(f *Fit) error {
	if s := p.Model.Start; special.Finite(f.LogEvidence) || s != nil && math.IsNaN(s.LogEvidence) && math.IsNaN(f.LogEvidence) {
		return nil
	}
	return fmt.Errorf("the log evidence is %v; scale the features down", f.LogEvidence)
}

// SetVariances records in the columns of f the prior variances of their weights, by column of p:
// that of the first weight of each without a prior of its own; weights that are named or that the
// fit continued knows have priors of their own. If all have, it is the variance of a new weight.
func (p *Problem) SetVariances(f *Fit, variance []float64) {
	p.eachColumn(f, func(c *FitColumn, j int) {
		switch before := p.Model.Start.column(c.Name, c.Kind); {
		case !p.Born[j]:
			c.Variance = variance[j]
		case before != nil && before.Variance >= 0:
			c.Variance = before.Variance
		default:
			c.Variance = p.Model.Prior.Variance
			if by := p.Model.PriorBy.Of(c.Name); by != nil && !by.Auto {
				c.Variance = by.Variance
			}
		}
	})
	for k := range f.Columns { // a column without a weight yet has that of levels to come
		c := &f.Columns[k]
		if c.Kind != LevelsColumn || c.Variance >= 0 {
			continue
		}
		if before := p.Model.Start.column(c.Name, c.Kind); before != nil {
			c.Variance = before.Variance
		} else if by := p.Model.PriorBy.Of(c.Name); by != nil && !by.Auto {
			c.Variance = by.Variance
		}
	}
	p.setNamed(f, func(j int) float64 { return math.Sqrt(variance[j]) }, func(int) float64 { return 0 })
}

// setNamed records the variances of weights of maps and lists by the text before '=' in their
// names, which is no column of f: mean and standard deviation of their roots, by column of p.
func (p *Problem) setNamed(f *Fit, root, deviation func(j int) float64) {
	other := math.Sqrt(f.Prior.Variance)
	seen := map[string]bool{}
	for j := range p.P {
		m, sd := root(j), deviation(j)
		if p.Born[j] || !(m > 0) || m == other && sd == 0 || p.dict.HashBits > 0 {
			continue
		}
		if id := p.cols[j]; p.dict.ColumnOf(id) > 0 || p.dict.NumberColumn(id) != "" {
			continue
		}
		name, _, ok := strings.Cut(p.Name(j), "=")
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		name = KeptLevelsOf(name)
		f.Learnt = slices.DeleteFunc(slices.Clone(f.Learnt), func(l Learnt) bool { return l.Name == name })
		f.Keep(name, m, sd)
	}
}

// SetSpread records in the columns of levels of f the posterior mean and standard deviation of the
// roots of learnt prior variances, by column of p; those of 0 are not learnt.
func (p *Problem) SetSpread(f *Fit, sd, deviation []float64) {
	p.eachColumn(f, func(c *FitColumn, j int) {
		if sd[j] > 0 && c.Kind == LevelsColumn {
			c.Center, c.Scale = sd[j], deviation[j]
		}
	})
	p.setNamed(f, func(j int) float64 { return sd[j] }, func(j int) float64 { return deviation[j] })
}

// eachColumn visits the columns that f records with the column of the first weight of each,
// preferably one without a prior of its own.
func (p *Problem) eachColumn(f *Fit, visit func(c *FitColumn, j int)) {
	if len(f.Columns) == 0 {
		return
	}
	of := map[string]int{}
	for j := p.P - 1; j >= 0; j-- {
		name := p.dict.LevelColumn(p.cols[j])
		if name == "" {
			name = p.dict.NumberColumn(p.cols[j])
		}
		if k, ok := of[name]; name != "" && (!ok || p.Born[k] || !p.Born[j]) {
			of[name] = j
		}
	}
	f.Columns = slices.Clone(f.Columns)
	for k := range f.Columns {
		if j, ok := of[f.Columns[k].Name]; ok {
			visit(&f.Columns[k], j)
		}
	}
}

// Posterior returns the posterior of f, a fit of p, over the columns.
func (p *Problem) Posterior(f *Fit) (*gauss.Normal, error) {
	place := make([]int, len(p.at))
	for k, j := range p.at {
		place[k] = int(j)
	}
	return f.over(place, memory.Floats(p.P), memory.Floats(p.P), p.Stop)
}

// Predictors sets mean and variance to those of the predictors of p's rows, including offsets,
// under f, a fit of p.
//
// Cost: that of Columns.Spread, or of arrowhead.Spread.
func (p *Problem) Predictors(f *Fit, mean, variance []float64) error {
	if f.Covariance.Form != gauss.Arrowhead {
		post, err := p.Posterior(f)
		if err == nil {
			p.Predictor(mean, post.Mean)
			p.Spread(variance, post)
		}
		return err
	}
	w, belief := memory.Floats(p.P), make([]int, p.P)
	for k, j := range p.at {
		if j >= 0 {
			w[j], belief[j] = f.Beliefs[k].Mean, k
		}
	}
	p.Predictor(mean, w)
	l := f.Covariance.Arrow()
	s := l.NewSpread(len(f.Beliefs), p.N, p.Matrix)
	p.Parallel(p.N, p.Values()*(1+l.D), func(lo, hi int) {
		var room arrowhead.SpreadScratch
		at := []int(nil)
		for i := lo; i < hi; i++ {
			p.Stop.Row(i)
			col, val := p.Entries(i)
			at = at[:0]
			for _, j := range col {
				at = append(at, belief[j])
			}
			variance[i] = s.Variance(at, val, &room)
		}
	})
	return nil
}

// meansOf returns the mean weights of f, a fit of p, by column.
func (p *Problem) meansOf(f *Fit) []float64 {
	w := memory.Floats(p.P)
	for k, j := range p.at {
		if j >= 0 {
			w[j] = f.Beliefs[k].Mean
		}
	}
	return w
}

// setPosterior sets the beliefs and the covariance of f to a posterior over the columns.
func (p *Problem) setPosterior(f *Fit, post *gauss.Normal) {
	f.Beliefs = make([]Belief, len(p.order))
	for k, id := range p.order {
		w := p.known[k]
		if j := p.at[k]; j >= 0 {
			w = Weight{post.Mean[j], post.Var[j]}
		}
		f.Beliefs[k] = Belief{string(p.dict.Name(id)), w}
	}
	f.Covariance = pack(p.at, post)
	if post.Form == gauss.Arrowhead { // its numbers include the known weights' means
		for k, j := range p.at {
			if j < 0 {
				f.Covariance.Arrow().Row(k)[1] = p.known[k].Mean
			}
		}
	}
}

// NewFit returns a fit with the specification of m and the counts and columns of Start.
func (m *Model) NewFit(method string) *Fit {
	f := &Fit{
		Method: method, Intercept: !m.NoIntercept, HashBits: m.HashBits, Prior: m.Prior, Time: math.NaN(),
		Shape: math.NaN(), Dispersion: 1, Iterations: 1, Converged: true, Status: "ok",
	}
	if m.Lik != nil {
		f.SetLikelihood(m.Lik)
	}
	if s := m.Start; s != nil {
		f.N, f.Skipped, f.LogEvidence, f.Time = s.N, s.Skipped, s.LogEvidence, s.Time
		f.Columns = s.Columns
	}
	return f
}

// packArrow is pack for an arrowhead, in the layout of package arrowhead; known weights are leaves
// of variance 0.
func packArrow(c *Covariance, at []int32, g *gauss.Normal) {
	a := g.Arrow
	d := len(a.Block)
	c.Rank = d
	c.Values = stop.Make[float64](g.Arrow.L.Stop, arrowhead.Want(d, len(at)))[:0]
	for _, j := range a.Block {
		c.Values = append(c.Values, g.Mean[j])
	}
	c.Values = append(c.Values, make([]float64, d)...)
	for i := range d {
		c.Values = append(c.Values, a.L.Row(i)[:i+1]...)
	}
	none := make([]float64, d)
	for k, j := range at {
		a.L.Stop.Row(k)
		if j < 0 {
			c.Values = append(append(c.Values, -1, 0, 0), none...)
			continue
		}
		place := a.At(int(j))
		if place >= 0 {
			c.Values = append(append(c.Values, float64(-2-place), 0, 0), none...)
			continue
		}
		h := a.H.Row(^place)
		alpha := g.Mean[j]
		for i, b := range a.Block {
			alpha -= h[i] * g.Mean[b]
		}
		c.Values = append(append(c.Values, -1, alpha, a.Q[^place]), h...)
	}
}

// pack converts a posterior to belief order; at is the column of each belief, -1 for known weights.
func pack(at []int32, g *gauss.Normal) Covariance {
	c := Covariance{Form: g.Form}
	switch g.Form {
	case gauss.Full:
		n := len(at)
		c.Values = stop.Make[float64](g.L.Stop, n*(n+1)/2)[:0]
		for k, j := range at {
			g.L.Stop.Check()
			for i := range k + 1 {
				v := 0.0
				if a := at[i]; j >= 0 && a >= 0 {
					v = g.L.Row(int(j))[a]
				}
				c.Values = append(c.Values, v)
			}
		}
	case gauss.LowRank:
		c.Rank = g.F.Cols
		c.Values = stop.Make[float64](g.F.Stop, len(at)*(c.Rank+1))[:0]
		none := make([]float64, c.Rank+1)
		for k, j := range at {
			g.F.Stop.Row(k)
			if j < 0 {
				c.Values = append(c.Values, none...)
				continue
			}
			c.Values = append(append(c.Values, g.D[j]), g.F.Row(int(j))...)
		}
	case gauss.Arrowhead:
		packArrow(&c, at, g)
	}
	return c
}

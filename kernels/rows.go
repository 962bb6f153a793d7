package kernels

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// ErrRow marks an error that concerns only one row, so that the row can be skipped.
var ErrRow = errors.New("bad row")

// RowError marks err as ErrRow without changing its text.
func RowError(err error) error { return fmt.Errorf("%w%w", errQuiet, err) }

// BatchError is an error at a row of a batch; the rows before it are learnt. Its text is that of
// the error.
type BatchError struct {
	Row int // from 0
	Err error
}

func (e *BatchError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the row.
func (e *BatchError) Unwrap() error { return e.Err }

// errQuiet wraps ErrRow without showing in the text.
var errQuiet error = quietError{}

type quietError struct{}

func (quietError) Error() string        { return "" }
func (quietError) Is(target error) bool { return target == ErrRow }

// Obs returns the observation of row i.
func (b *Batch) Obs(i int) lik.Obs {
	o := lik.Obs{Y: b.Y[i], Weight: 1}
	if len(b.Weight) > 0 {
		o.Weight = b.Weight[i]
	}
	if len(b.Trials) > 0 {
		o.Trials = b.Trials[i]
	}
	return o
}

// Shift is the offset of row i.
func (b *Batch) Shift(i int) float64 {
	if len(b.Offset) > 0 {
		return b.Offset[i]
	}
	return 0
}

// Rows keeps the rows of one fit for the engines that read them more than once. The intercept, if
// the model has one, is feature 0.
//
// With Options.Compress rows of equal features are kept once, with lik.Pooled's sums of their
// responses: the memory is that of the distinct rows.
//
// Rows lie in chunks that are never moved or changed once they are written, so that clones and
// merged parts share them.
type Rows struct {
	Model   *Model
	Dict    Dict
	chunks  []chunk
	n, nnz  int
	skipped int64
	counted ColumnCounts

	pools *pools // of Options.Compress, instead of chunks
	// Of rows made from pools: the number of rows they stand for, and the constant by which the log
	// likelihood of the latter is higher.
	stood     int64
	constant  float64
	unshifted *lik.Pool // of pools
}

// chunk is a block of rows.
type chunk struct {
	Batch
	ids    []uint32  // number in Rows.Dict of each feature of the batch, nil for the same numbers
	sealed bool      // it is shared: nothing is appended
	count  []float64 // number of rows that each one stands for, nil = 1
	within []float64 // lik.Pooling's Within of those; nil = 0
}

// NewRows returns Rows without rows, with the features that the model names; nil is the default
// model.
// Errors: more of them than MaxFeatures, a Start that the model cannot continue.
func NewRows(m *Model) (*Rows, error) {
	r := &Rows{Model: m.Complete()}
	if err := r.Model.CheckStart(); err != nil {
		return nil, err
	}
	if f := r.Model.Start; f != nil {
		r.counted = CountFrom(f.Columns)
	}
	if r.Model.Options.Compress {
		r.pools = newPools(r.Model.Lik)
	}
	return r, r.Model.Name(&r.Dict)
}

var errNoModel = errors.New("the zero Rows is of no model; make one with NewRows")

// NewLabelledRows is NewRows for responses that are class numbers, not of a likelihood: none is
// outside its support.
func NewLabelledRows(m *Model) (*Rows, error) {
	own := *m.Complete()
	own.Lik = nil
	r := &Rows{Model: &own}
	if err := own.CheckStart(); err != nil {
		return nil, err
	}
	if own.Start != nil {
		r.counted = CountFrom(own.Start.Columns)
	}
	return r, own.Name(&r.Dict)
}

// Name adds the features that the model names to an empty dictionary: the intercept first, then
// those of Priors and Start.
func (m *Model) Name(d *Dict) error {
	d.HashBits, d.Max = m.HashBits, m.MaxFeatures
	if !m.NoIntercept {
		if _, err := d.AddRaw(Intercept); err != nil {
			return err
		}
	}
	for _, b := range m.Priors {
		if _, err := d.AddRaw(b.Feature); err != nil {
			return err
		}
	}
	if m.Start != nil {
		for _, b := range m.Start.Beliefs {
			if _, err := d.AddRaw(b.Feature); err != nil {
				return err
			}
		}
	}
	return nil
}

// CountIn adds the columns of r, including those of skipped rows, to c, which began with the same
// fit.
func (r *Rows) CountIn(c *ColumnCounts) error { return c.Merge(&r.counted, r.Model.Start) }

// Skipped is the number of rows that were left out.
func (r *Rows) Skipped() int64 { return r.skipped }

// Skip counts rows that were left out.
func (r *Rows) Skip(n int64) { r.skipped += n }

// Update keeps the rows of b, whose feature numbers are those of r.Dict. With skip, rows outside
// the support of the likelihood, or with features that are infinite in total, are counted and left
// out; otherwise the first one ends the update with an error that Is ErrRow, and the rows before it
// are kept.
func (r *Rows) Update(b *Batch, skip bool) error {
	if r.Model == nil {
		return errNoModel
	}
	if err := b.Check(); err != nil {
		return err
	}
	b.Transpose()
	n := b.Len()
	r.counted.Add(b)
	l := r.Model.Lik
	if l == nil {
		r.keep(b, 0, n)
		return nil
	}
	from := 0
	for i := range n {
		err := l.Check(b.Obs(i))
		if err == nil {
			err = r.checkSums(b, i)
		}
		if err == nil {
			continue
		}
		r.keep(b, from, i)
		if !skip {
			return RowError(err)
		}
		r.skipped++
		from = i + 1
	}
	r.keep(b, from, n)
	return nil
}

// checkSums returns an error if a feature that row i has more than once is infinite in total.
func (r *Rows) checkSums(b *Batch, i int) error {
	if b.Shared != nil { // each once
		return nil
	}
	fs, xs := b.Entries(i)
	largest := 0.0
	for _, x := range xs {
		largest = max(largest, math.Abs(x))
	}
	if largest < math.MaxFloat64/float64(len(xs)+1) {
		return nil
	}
	sums := make(map[uint32]float64, len(xs))
	for k, x := range xs {
		if sums[fs[k]] += x; math.IsInf(sums[fs[k]], 0) {
			return fmt.Errorf("feature %q = %v; allowed: finite numbers", r.Dict.Name(fs[k]), sums[fs[k]])
		}
	}
	return nil
}

// Sizes of a chunk in values: below the first one it grows as a slice does, later chunks are
// allocated at once, a quarter of the present size. The last size is a few large pages.
const (
	firstChunk = 1 << 12
	chunkLimit = 1 << 20
)

// keep copies rows [lo, hi) of b.
func (r *Rows) keep(b *Batch, lo, hi int) {
	if lo >= hi {
		return
	}
	if r.pools != nil {
		r.pools.add(b, lo, hi)
		r.n, r.nnz = len(r.pools.sums), len(r.pools.value)
		return
	}
	var fs []uint32
	var xs []float64
	if w := len(b.Shared); b.Shared != nil {
		xs = b.Value[lo*w : hi*w]
	} else {
		fs, xs = b.Feature[b.Row[lo]:b.Row[hi]], b.Value[b.Row[lo]:b.Row[hi]]
	}
	c := r.room(b, hi-lo, len(xs))
	r.n += hi - lo
	r.nnz += len(xs)
	c.Value = append(c.Value, xs...)
	if b.Shared == nil {
		shift := len(c.Feature) - b.Row[lo]
		c.Feature = append(c.Feature, fs...)
		for _, end := range b.Row[lo+1 : hi+1] {
			c.Row = append(c.Row, end+shift)
		}
	}
	c.Y = append(c.Y, b.Y[lo:hi]...)
	for _, x := range [...]struct {
		to   *[]float64
		from []float64
	}{{&c.Weight, b.Weight}, {&c.Offset, b.Offset}, {&c.Trials, b.Trials}, {&c.Time, b.Time}} {
		if len(x.from) > 0 {
			*x.to = append(*x.to, x.from[lo:hi]...)
		}
	}
}

// room returns the chunk for rows of the form of b, with this many values.
func (r *Rows) room(b *Batch, rows, values int) *chunk {
	if k := len(r.chunks) - 1; k >= 0 {
		c := &r.chunks[k]
		if !c.sealed && c.ids == nil && c.alike(b) &&
			(len(c.Value)+values <= firstChunk || len(c.Value)+values <= cap(c.Value) && c.Len()+rows <= cap(c.Y)) {
			return c
		}
	}
	c := chunk{}
	if b.Shared != nil {
		c.Shared = slices.Clone(b.Shared)
	} else {
		c.Row = append(c.Row, 0)
	}
	if r.nnz+values > firstChunk {
		room := max(values, min(chunkLimit, max(firstChunk, r.nnz/4)))
		n := max(rows, int(float64(rows)*float64(room)/float64(max(values, 1))))
		c.Value, c.Y = memory.Make[float64](0, room), memory.Make[float64](0, n)
		if b.Shared == nil {
			c.Feature = memory.Make[uint32](0, room)
			c.Row = append(memory.Make[int](0, n+1), 0)
		}
		for _, x := range [...]struct {
			to   *[]float64
			from []float64
		}{{&c.Weight, b.Weight}, {&c.Offset, b.Offset}, {&c.Trials, b.Trials}, {&c.Time, b.Time}} {
			if len(x.from) > 0 {
				*x.to = memory.Make[float64](0, n)
			}
		}
	}
	r.chunks = append(r.chunks, c)
	return &r.chunks[len(r.chunks)-1]
}

// alike reports whether two batches have the same columns.
func (b *Batch) alike(o *Batch) bool {
	some := func(s []float64) bool { return len(s) > 0 }
	return (b.Shared == nil) == (o.Shared == nil) && slices.Equal(b.Shared, o.Shared) && some(b.Weight) == some(o.Weight) &&
		some(b.Offset) == some(o.Offset) && some(b.Trials) == some(o.Trials) && some(b.Time) == some(o.Time)
}

// Merge appends the rows of src, a state of the same model, and shares their memory. src is not
// changed. Cost: O(features + chunks).
// Errors: src's features exceed the dictionary's limit; its columns are of other kinds.
func (r *Rows) Merge(src *Rows) error {
	if err := r.counted.Merge(&src.counted, r.Model.Start); err != nil {
		return err
	}
	ids, err := r.Dict.Merge(&src.Dict)
	if err != nil {
		return err
	}
	if r.pools != nil {
		r.pools.merge(src.pools, ids)
		r.n, r.nnz = len(r.pools.sums), len(r.pools.value)
		r.skipped += src.skipped
		return nil
	}
	same := true
	for j, id := range ids {
		same = same && int(id) == j
	}
	var of, through []uint32 // numbers that src has merged, and what ids makes of them
	for _, c := range src.chunks {
		c.sealed = true
		switch {
		case same:
		case c.ids == nil:
			c.ids = ids
		default:
			if unsafe.SliceData(c.ids) != unsafe.SliceData(of) { // else of the chunk before
				of, through = c.ids, make([]uint32, len(c.ids))
				for k, j := range of {
					through[k] = ids[j]
				}
			}
			c.ids = through
		}
		r.chunks = append(r.chunks, c)
	}
	r.n += src.n
	r.nnz += src.nnz
	r.skipped += src.skipped
	return nil
}

// Clone returns an independent copy, which shares the present rows.
func (r *Rows) Clone() *Rows {
	c := *r
	c.Dict, c.counted = r.Dict.Clone(), r.counted.Clone()
	c.chunks = slices.Clone(r.chunks)
	for k := range c.chunks {
		c.chunks[k].sealed = true
	}
	if r.pools != nil {
		c.pools = r.pools.clone()
	}
	return &c
}

// Size is the memory held in bytes, including shared chunks.
func (r *Rows) Size() int64 {
	n := r.Dict.Size() + 200
	if r.pools != nil {
		n += r.pools.memory()
	}
	for k := range r.chunks {
		n += r.chunks[k].Memory() + 32 + 4*int64(cap(r.chunks[k].ids))
	}
	return n
}

// Values is the number of entries stored.
func (r *Rows) Values() int { return r.nnz }

// Len is the number of rows stored, with Options.Compress of distinct rows.
func (r *Rows) Len() int { return r.n }

// columns returns the columns that a fit of the rows records, and by feature the mean of its
// values, NaN for features that are no numbers and 0 if there is no value; nil without numbers.
// full reports for a feature whether every row has a finite number of it.
func (r *Rows) columns() (cols []FitColumn, means []float64, full func(id uint32) bool) {
	cols = r.counted.Columns()
	full = func(uint32) bool { return false }
	var stats []center
	at := []int32(nil) // by feature: index in cols, or -1
	for k := range cols {
		if cols[k].Kind != NumberColumn {
			continue
		}
		id, ok := r.Dict.Find(cols[k].Name)
		if !ok {
			continue
		}
		if at == nil {
			at, stats = make([]int32, r.Dict.Len()), make([]center, len(cols))
			for j := range at {
				at[j] = -1
			}
		}
		at[id] = int32(k)
		before := r.Model.Start.Number(cols[k].Name).Mean()
		stats[k] = center{float64(before.N), before.Center}
	}
	if at == nil {
		return cols, nil, full
	}
	before, byWeight := make([]float64, len(stats)), slices.Clone(stats)
	for k, c := range stats {
		before[k] = c.n
	}
	r.running(at, stats, false)
	rows := 0.0
	for k := range r.chunks {
		for i := range r.chunks[k].Len() {
			rows += r.chunks[k].rows(i)
		}
	}
	full = func(id uint32) bool {
		k := at[id]
		return k >= 0 && stats[k].n == before[k]+rows && special.Finite(stats[k].mean)
	}
	centers := stats
	if r.weighted(at, byWeight, false) {
		centers = byWeight
	}
	means = make([]float64, len(at))
	for j, k := range at {
		switch {
		case k < 0:
			means[j] = math.NaN()
		case centers[k].n > 0:
			cols[k].Center = centers[k].mean
			means[j] = centers[k].mean
		}
	}
	return cols, means, full
}

// weighted continues the means, of squares if square is set, by the weights of the rows; false if
// they have none.
func (r *Rows) weighted(at []int32, stats []center, square bool) bool {
	if !slices.ContainsFunc(r.chunks, func(c chunk) bool { return len(c.Weight) > 0 }) {
		return false
	}
	for k := range r.chunks {
		c := &r.chunks[k]
		for i := range c.Len() {
			w := c.weight(i)
			if !(w > 0) {
				continue
			}
			c.visitRow(i, at, func(k int32, x float64) {
				if square {
					x *= x
				}
				stats[k].add(x, w)
			})
		}
	}
	return true
}

// visit calls f with the place and the value of each entry whose feature has a place in at, and the
// number of rows that have it, except for missing values.
func (c *chunk) visit(at []int32, f func(place int32, x, rows float64)) {
	for i := range c.Len() {
		rows := c.rows(i)
		c.visitRow(i, at, func(k int32, x float64) { f(k, x, rows) })
	}
}

func (c *chunk) visitRow(i int, at []int32, f func(place int32, x float64)) {
	fs, xs := c.Entries(i)
	for e, id := range fs {
		if c.ids != nil {
			id = c.ids[id]
		}
		if k := at[id]; k >= 0 && xs[e] == xs[e] {
			f(k, xs[e])
		}
	}
}

// rows is the number of rows that row i stands for.
func (c *chunk) rows(i int) float64 {
	if c.count == nil {
		return 1
	}
	return c.count[i]
}

// weight is the number of rows that row i counts as.
func (c *chunk) weight(i int) float64 {
	if len(c.Weight) == 0 {
		return c.rows(i)
	}
	return c.Weight[i]
}

// Responses calls f with the responses of each chunk of rows in turn.
func (r *Rows) Responses(f func(y []float64)) {
	for k := range r.chunks {
		f(r.chunks[k].Y)
	}
}

// Relabel returns r with every response y replaced by to[y]; the rest is shared.
func (r *Rows) Relabel(to []float64) *Rows {
	c := *r
	c.chunks = slices.Clone(r.chunks)
	for k := range c.chunks {
		b := &c.chunks[k]
		b.sealed = true
		b.Y = slices.Clone(b.Y)
		for i, y := range b.Y {
			b.Y[i] = to[int(y)]
		}
	}
	return &c
}

// Each calls f with the rows in order, chunk by chunk, until it fails. Features have the numbers of
// r.Dict, or those that ids maps them to. f must not change the batch.
func (r *Rows) Each(ids []uint32, f func(b *Batch) error) error {
	for k := range r.chunks {
		c := &r.chunks[k]
		of := c.ids
		if ids != nil {
			of = make([]uint32, r.Dict.Len())
			for j := range of {
				if of[j] = ids[j]; c.ids != nil && j < len(c.ids) {
					of[j] = ids[c.ids[j]]
				}
			}
		}
		b := &c.Batch
		if of != nil {
			b = c.renumbered(of)
		}
		if err := f(b); err != nil {
			return err
		}
	}
	return nil
}

// renumbered is b with its features renumbered by ids.
func (b *Batch) renumbered(ids []uint32) *Batch {
	n := *b
	to := func(fs []uint32) []uint32 {
		if fs == nil {
			return nil
		}
		out := make([]uint32, len(fs))
		for k, f := range fs {
			out[k] = ids[f]
		}
		return out
	}
	n.Feature, n.Shared, n.Keep = to(b.Feature), to(b.Shared), nil
	return &n
}

// All returns the rows of all chunks as one batch, a copy, numbered as in r.Dict.
func (r *Rows) All() *Batch {
	b := &Batch{Row: make([]int, 1, r.n+1), Feature: make([]uint32, 0, r.nnz), Value: make([]float64, 0, r.nnz)}
	for k := range r.chunks {
		c := &r.chunks[k]
		n := b.Len()
		for i := range c.Len() {
			fs, xs := c.Entries(i)
			for _, f := range fs {
				if c.ids != nil {
					f = c.ids[f]
				}
				b.Feature = append(b.Feature, f)
			}
			b.Value = append(b.Value, xs...)
			b.EndRow()
		}
		b.Y = append(b.Y, c.Y...)
		for _, x := range r.scalars(b, c) {
			*x.to = x.extended(n, c.Len(), r.n)
		}
	}
	return b
}

// scalar is a column of numbers that some chunks may lack.
type scalar struct {
	to     *[]float64
	from   []float64
	absent float64
}

func (r *Rows) scalars(b *Batch, c *chunk) [4]scalar {
	return [4]scalar{{&b.Weight, c.Weight, 1}, {&b.Offset, c.Offset, 0}, {&b.Trials, c.Trials, 0}, {&b.Time, c.Time, 0}}
}

// extended is the column, of length n, followed by the chunk's entries; all rows will be as many as
// all.
func (x scalar) extended(n, rows, all int) []float64 {
	s := *x.to
	if len(x.from) == 0 && len(s) == 0 {
		return s
	}
	if s == nil {
		s = memory.Make[float64](0, all)
	}
	for len(s) < n {
		s = append(s, x.absent)
	}
	if len(x.from) > 0 {
		return append(s, x.from...)
	}
	for range rows {
		s = append(s, x.absent)
	}
	return s
}

// finiteOr returns an error for the first value that is not finite.
func finiteOr(what string, vs []float64) error {
	for i, v := range vs {
		if !special.Finite(v) {
			return RowError(fmt.Errorf("row %d: %s = %v; allowed: finite numbers", i+1, what, v))
		}
	}
	return nil
}

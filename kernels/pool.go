package kernels

import (
	"math"
	"math/bits"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// pools are rows of which those with equal features are kept once, with sums of their responses
// that determine the likelihood: see lik.Pooled. Values are compared bit by bit, with 0 and -0
// equal.
type pools struct {
	lik lik.Likelihood
	by  lik.Pooling

	row     []int // as in a Batch
	feature []uint32
	value   []float64
	offset  []float64 // of each pool, by.ByOffset
	sums    []lik.Pool
	rows    int64 // number pooled
	// unshifted are all rows without their offsets, once one has an offset that is not compared:
	// what the mean alone predicts.
	unshifted *lik.Pool

	hash  []uint64
	table []uint32 // open addressing by hash: 1 + pool, 0 if free; at most half full

	tuples tuples // a shortcut to existing pools
}

func newPools(l lik.Likelihood) *pools {
	return &pools{lik: l, by: lik.Pooled(l), row: []int{0}, table: make([]uint32, 1<<10)}
}

// hashOf hashes a row's features, values and offset, and its response if that is compared.
func (p *pools) hashOf(fs []uint32, xs []float64, offset float64, o *lik.Obs) uint64 {
	h := uint64(len(fs)) ^ 0x9e3779b97f4a7c15
	mix := func(v uint64) {
		hi, lo := bits.Mul64(h^v, 0xd6e8feb86659fd93)
		h = hi ^ lo ^ 0xa0761d6478bd642f
	}
	for k, f := range fs {
		mix(math.Float64bits(xs[k]+0) ^ uint64(f)<<17)
	}
	if p.by.ByOffset {
		mix(math.Float64bits(offset + 0))
	}
	if p.by.ByResponse {
		mix(math.Float64bits(o.Y + 0))
		mix(math.Float64bits(o.Trials))
	}
	return h
}

// same reports whether a row belongs to pool k.
func (p *pools) same(k int, fs []uint32, xs []float64, offset float64, o *lik.Obs) bool {
	lo, hi := p.row[k], p.row[k+1]
	if hi-lo != len(fs) || !slices.Equal(p.feature[lo:hi], fs) {
		return false
	}
	for j, x := range p.value[lo:hi] {
		if x != xs[j] && (x == x || xs[j] == xs[j]) { // a missing number is NaN
			return false
		}
	}
	return (!p.by.ByOffset || p.offset[k] == offset) && (!p.by.ByResponse || p.sums[k].Mean == o.Y && p.sums[k].Extra == o.Trials)
}

// find returns the pool of a row, creating it if necessary.
func (p *pools) find(fs []uint32, xs []float64, offset float64, o *lik.Obs) uint32 {
	h := p.hashOf(fs, xs, offset, o)
	mask := uint64(len(p.table) - 1)
	at := h & mask
	for ; p.table[at] != 0; at = (at + 1) & mask {
		if k := int(p.table[at]) - 1; p.hash[k] == h && p.same(k, fs, xs, offset, o) {
			return uint32(k)
		}
	}
	p.feature, p.value = append(memory.Grow(p.feature, len(fs)), fs...), append(memory.Grow(p.value, len(xs)), xs...)
	p.row = append(memory.Grow(p.row, 1), len(p.feature))
	if p.by.ByOffset {
		p.offset = append(memory.Grow(p.offset, 1), offset)
	}
	s := lik.Pool{}
	if p.by.ByResponse { // rows are compared with these before this one is added
		s.Mean, s.Extra = o.Y, o.Trials
	}
	p.sums, p.hash = append(memory.Grow(p.sums, 1), s), append(memory.Grow(p.hash, 1), h)
	p.table[at] = uint32(len(p.sums))
	if 2*len(p.sums) > len(p.table) {
		p.table = memory.Make[uint32](2*len(p.table), 2*len(p.table))
		for k, h := range p.hash {
			p.insert(h, uint32(k+1))
		}
	}
	return uint32(len(p.sums) - 1)
}

func (p *pools) insert(h uint64, k uint32) {
	mask := uint64(len(p.table) - 1)
	at := h & mask
	for p.table[at] != 0 {
		at = (at + 1) & mask
	}
	p.table[at] = k
}

// add pools rows [lo, hi) of b.
func (p *pools) add(b *Batch, lo, hi int) {
	var at [tupleRows]uint32
	if b.Offset != nil && !p.by.ByOffset {
		p.unshifted = p.withoutOffsets()
	}
	for ; lo < hi; lo += tupleRows {
		n := min(tupleRows, hi-lo)
		p.rows += int64(n)
		p.findAll(b, lo, at[:n])
		dense.Fetch(p.sums, at[:n])
		for i, k := range at[:n] {
			p.by.Add(&p.sums[k], b.Obs(lo+i), b.Shift(lo+i))
		}
		if p.unshifted != nil {
			for i := range n {
				p.by.Add(p.unshifted, b.Obs(lo+i), 0)
			}
		}
	}
}

// withoutOffsets is unshifted, made if no row has had an offset.
func (p *pools) withoutOffsets() *lik.Pool {
	if p.unshifted != nil {
		return p.unshifted
	}
	all := &lik.Pool{}
	for k := range p.sums {
		all.Merge(&p.sums[k], p.lik)
	}
	return all
}

// findAll is find for the rows of b from lo on, up to tupleRows of them, in order.
func (p *pools) findAll(b *Batch, lo int, at []uint32) {
	var some [tupleRows]uint64
	keys := some[:len(at)]
	known := p.rows > tupleFrom && p.tuples.keys(keys, b, lo, p.apart(b))
	if known {
		p.tuples.find(keys, at)
	}
	for i := range at {
		if known && at[i] == 0 { // an earlier row may have created it
			p.tuples.find(keys[i:i+1], at[i:i+1])
		}
		if known && at[i] > 0 {
			at[i]--
			continue
		}
		fs, xs := b.Entries(lo + i)
		o := b.Obs(lo + i)
		at[i] = p.find(fs, xs, b.Shift(lo+i), &o)
		if known {
			p.tuples.insert(keys[i], at[i])
		}
	}
}

// apart returns what distinguishes rows of b besides features.
func (p *pools) apart(b *Batch) [][]float64 {
	var s [3][]float64
	n := 0
	if p.by.ByOffset {
		s[0], n = b.Offset, 1
	}
	if p.by.ByResponse {
		s[n], s[n+1] = b.Y, b.Trials
		n += 2
	}
	return s[:n]
}

// merge adds the rows of src, whose features have the numbers ids here.
func (p *pools) merge(src *pools, ids []uint32) {
	var at [tupleRows]uint32
	var b Batch
	p.rows += src.rows
	if p.unshifted != nil || src.unshifted != nil {
		p.unshifted = p.withoutOffsets()
		p.unshifted.Merge(src.withoutOffsets(), p.lik)
	}
	for from := 0; from < len(src.sums); from += tupleRows {
		n := min(tupleRows, len(src.sums)-from)
		b.Reset()
		for k := from; k < from+n; k++ {
			lo, hi := src.row[k], src.row[k+1]
			for _, f := range src.feature[lo:hi] {
				b.Feature = append(b.Feature, ids[f])
			}
			b.Value = append(b.Value, src.value[lo:hi]...)
			b.EndRow()
			b.Y, b.Trials = append(b.Y, src.sums[k].Mean), append(b.Trials, src.sums[k].Extra)
		}
		if p.by.ByOffset {
			b.Offset = append(b.Offset, src.offset[from:from+n]...)
		}
		p.findAll(&b, 0, at[:n])
		dense.Fetch(p.sums, at[:n])
		for i, k := range at[:n] {
			p.sums[k].Merge(&src.sums[from+i], p.lik)
		}
	}
}

func (p *pools) clone() *pools {
	c := *p
	c.row, c.feature, c.value = slices.Clone(p.row), slices.Clone(p.feature), slices.Clone(p.value)
	c.offset, c.sums, c.hash, c.table = slices.Clone(p.offset), slices.Clone(p.sums), slices.Clone(p.hash), slices.Clone(p.table)
	c.tuples = tuples{}
	if p.unshifted != nil {
		all := *p.unshifted
		c.unshifted = &all
	}
	return &c
}

// memory is their size in bytes.
func (p *pools) memory() int64 {
	return 8*int64(cap(p.row)+cap(p.value)+cap(p.offset)+cap(p.hash)+8*cap(p.sums)) + 4*int64(cap(p.feature)+cap(p.table)) + p.tuples.memory()
}

// chunk returns rows equivalent to those pooled, each with the number of rows it stands for, and
// the constant by which the log likelihood of the latter is higher.
func (p *pools) chunk() (c chunk, constant float64) {
	offset, trials := false, p.lik.Traits().Trials
	p.reserve(&c, trials)
	for k := range p.sums {
		rows, shift, add := p.by.Make(&p.sums[k])
		constant += add
		if p.by.ByOffset {
			shift = p.offset[k]
		}
		offset = offset || shift != 0
		lo, hi := p.row[k], p.row[k+1]
		for _, o := range rows {
			c.Feature, c.Value = append(c.Feature, p.feature[lo:hi]...), append(c.Value, p.value[lo:hi]...)
			c.EndRow()
			c.Y, c.Weight, c.Offset = append(c.Y, o.Y), append(c.Weight, o.Weight), append(c.Offset, shift)
			if trials {
				c.Trials = append(c.Trials, o.Trials)
			}
			c.count = append(c.count, p.share(&p.sums[k], o, len(rows)))
			if p.by.Within != nil {
				c.within = append(c.within, p.by.Within(&p.sums[k]))
			}
		}
	}
	if !offset {
		c.Offset = nil
	}
	return c, constant
}

// reserve allocates c's memory for the rows made from the pools.
func (p *pools) reserve(c *chunk, trials bool) {
	n, values := 0, 0
	for k := range p.sums {
		rows, _, _ := p.by.Make(&p.sums[k])
		n += len(rows)
		values += len(rows) * (p.row[k+1] - p.row[k])
	}
	numbers := func(n int) []float64 { return memory.Make[float64](0, n) }
	c.Feature, c.Value = memory.Make[uint32](0, values), numbers(values)
	c.Row = append(memory.Make[int](0, n+1), 0)
	c.Y, c.Weight, c.Offset, c.count = numbers(n), numbers(n), numbers(n), numbers(n)
	if trials {
		c.Trials = numbers(n)
	}
	if p.by.Within != nil {
		c.within = numbers(n)
	}
}

// share is the number of a pool's rows that one made from it stands for.
func (p *pools) share(s *lik.Pool, o lik.Obs, made int) float64 {
	if made == 1 || s.Weight == 0 {
		return s.Rows / float64(made)
	}
	return s.Rows * (o.Weight / s.Weight)
}

// Pooled is r with the rows made from the pools of Options.Compress, if any.
func (r *Rows) Pooled() *Rows {
	if r.pools == nil {
		return r
	}
	q := *r
	c, constant := r.pools.chunk()
	q.pools, q.chunks = nil, []chunk{c}
	q.n, q.nnz = c.Len(), len(c.Value)
	q.stood, q.constant, q.unshifted = r.pools.rows, constant, r.pools.unshifted
	return &q
}

// Repeated is p with rows of equal features and offsets kept once, as by Options.Compress: the
// likelihood is the same. It is p itself if more than a quarter of the rows would remain. Times are
// left out.
//
// Cost: O(nnz), up to the row that exceeds the limit.
func (p *Problem) Repeated() *Problem {
	if p.Count != nil {
		return p
	}
	pool, b := newPools(p.Lik), p.Batch()
	for i := range p.N {
		p.Stop.Row(i)
		fs, xs := p.Entries(i)
		o, offset := b.Obs(i), b.Shift(i)
		k := pool.find(fs, xs, offset, &o)
		if 4*len(pool.sums) > p.N {
			return p
		}
		pool.by.Add(&pool.sums[k], o, offset)
		pool.rows++
	}
	c, constant := pool.chunk()
	q := *p
	q.Columns = design.Columns{N: c.Len(), P: p.P, Row: c.Row, Col: c.Feature, Val: c.Value, Stop: p.Stop}
	q.Y, q.Weight, q.Offset, q.Trials, q.Time = c.Y, c.Weight, c.Offset, c.Trials, p.Time[:c.Len()]
	q.Count, q.within, q.stood, q.constant = c.count, c.within, pool.rows, p.constant+constant
	return &q
}

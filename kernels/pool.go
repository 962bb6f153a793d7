package kernels

import (
	"math"
	"math/bits"
	"slices"

	"github.com/bglm/bglm/kernels/lik"
)

// pools are rows of which those with equal features are kept once, with sums that say of
// their responses all that the likelihood asks: see lik.Pooled. Values are compared bit by
// bit, 0 and -0 being equal.
type pools struct {
	lik lik.Likelihood
	by  lik.Pooling

	row     []int // as in a Batch
	feature []uint32
	value   []float64
	offset  []float64 // of each pool, by.ByOffset
	sums    []lik.Pool
	rows    int64 // pooled

	hash  []uint64
	table []uint32 // open addressing by hash: 1 + pool, 0 = free; at most half full
}

func newPools(l lik.Likelihood) *pools {
	return &pools{lik: l, by: lik.Pooled(l), row: []int{0}, table: make([]uint32, 1<<10)}
}

// hashOf is of a row's features, values and offset, and of the response where it is compared.
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

// same says whether a row is of pool k.
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

// find is the pool of a row, made where there is none yet.
func (p *pools) find(fs []uint32, xs []float64, offset float64, o *lik.Obs) *lik.Pool {
	h := p.hashOf(fs, xs, offset, o)
	mask := uint64(len(p.table) - 1)
	at := h & mask
	for ; p.table[at] != 0; at = (at + 1) & mask {
		if k := int(p.table[at]) - 1; p.hash[k] == h && p.same(k, fs, xs, offset, o) {
			return &p.sums[k]
		}
	}
	p.feature, p.value = append(p.feature, fs...), append(p.value, xs...)
	p.row = append(p.row, len(p.feature))
	if p.by.ByOffset {
		p.offset = append(p.offset, offset)
	}
	p.sums, p.hash = append(p.sums, lik.Pool{}), append(p.hash, h)
	p.table[at] = uint32(len(p.sums))
	if 2*len(p.sums) > len(p.table) {
		p.table = make([]uint32, 2*len(p.table))
		for k, h := range p.hash {
			p.put(h, uint32(k+1))
		}
	}
	return &p.sums[len(p.sums)-1]
}

func (p *pools) put(h uint64, k uint32) {
	mask := uint64(len(p.table) - 1)
	at := h & mask
	for p.table[at] != 0 {
		at = (at + 1) & mask
	}
	p.table[at] = k
}

// add pools rows [lo, hi) of b.
func (p *pools) add(b *Batch, lo, hi int) {
	for i := lo; i < hi; i++ {
		fs, xs := b.Entries(i)
		o, shift := b.Obs(i), b.Shift(i)
		p.by.Add(p.find(fs, xs, shift, &o), o, shift)
	}
	p.rows += int64(hi - lo)
}

// merge adds the rows of src, whose features have the numbers ids here.
func (p *pools) merge(src *pools, ids []uint32) {
	var fs []uint32
	for k := range src.sums {
		lo, hi := src.row[k], src.row[k+1]
		fs = fs[:0]
		for _, f := range src.feature[lo:hi] {
			fs = append(fs, ids[f])
		}
		from, offset := &src.sums[k], 0.0
		if p.by.ByOffset {
			offset = src.offset[k]
		}
		p.find(fs, src.value[lo:hi], offset, &lik.Obs{Y: from.Mean, Trials: from.Extra}).Merge(from, p.lik)
	}
	p.rows += src.rows
}

func (p *pools) clone() *pools {
	c := *p
	c.row, c.feature, c.value = slices.Clone(p.row), slices.Clone(p.feature), slices.Clone(p.value)
	c.offset, c.sums, c.hash, c.table = slices.Clone(p.offset), slices.Clone(p.sums), slices.Clone(p.hash), slices.Clone(p.table)
	return &c
}

// memory is what they hold, in bytes.
func (p *pools) memory() int64 {
	return 8*int64(cap(p.row)+cap(p.value)+cap(p.offset)+cap(p.hash)+8*cap(p.sums)) + 4*int64(cap(p.feature)+cap(p.table))
}

// chunk is the rows that say the same as those pooled, each with how many of these it is,
// and the constant by which the log likelihood of these is higher.
func (p *pools) chunk() (c chunk, constant float64) {
	c.Row = []int{0}
	offset, trials := false, p.lik.Traits().Trials
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
		}
	}
	if !offset {
		c.Offset = nil
	}
	return c, constant
}

// share is how many of a pool's rows one of those made of it stands for.
func (p *pools) share(s *lik.Pool, o lik.Obs, made int) float64 {
	if made == 1 || s.Weight == 0 {
		return s.Rows / float64(made)
	}
	return s.Rows * (o.Weight / s.Weight)
}

// Pooled is r, of Options.Compress with the rows made of what was pooled.
func (r *Rows) Pooled() *Rows {
	if r.pools == nil {
		return r
	}
	q := *r
	c, constant := r.pools.chunk()
	q.pools, q.chunks = nil, []chunk{c}
	q.n, q.nnz = c.Len(), len(c.Value)
	q.stood, q.constant = r.pools.rows, constant
	return &q
}

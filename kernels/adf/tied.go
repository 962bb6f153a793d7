package adf

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
	"github.com/bglm/bglm/kernels/stream"
)

// MaxNumbers is the most numeric columns in the block of an arrowhead.
const MaxNumbers = 64

// Other weights join the block while it has fewer than maxJoined, in the order in which they first
// occur in rows. They leave it for good when there are more than crowd leaves: a large model would
// pay for a dense block in each row and gain little from having part of its weights in it. With
// drift a block costs the cube of its size in each row and is kept small (maxDrifter).
const (
	maxJoined  = 64
	crowd      = 192
	maxDrifter = 16
)

// exactLevels is up to which number a column's levels are counted exactly; beyond, the count is
// rounded up to a power of two.
const exactLevels = 8

// maxBlock is the size of the block from which a column of levels gets no level mean.
const maxBlock = 1024

// NewTied returns the filter with an arrowhead covariance (package arrowhead) before the first row.
// Its block holds the intercept, up to MaxNumbers numeric columns and, while there is room, all
// other weights: with no more than 64 it is the full-covariance filter. Further weights are leaves,
// and from 193 leaves on the block holds only the intercept, the numbers, the indicators of missing
// columns and a level mean for each column of levels.
//
// A level mean ℓ of a column with L levels has prior variance 0.7 v/L, and the levels' own parts
// have v(1 - 0.7/L), which gives every weight the prior N(0, v). It moves the directions in which
// whole columns trade off against each other and the intercept into the block. The mean of a
// column's weights would have all of its prior variance, v/L, in ℓ if the own parts summed to zero;
// here they are independent and add v/L to the mean once more. With all of it in ℓ the intercept
// came out 1.3 times too wide, with none of it weights 0.65 times too narrow; 0.7 of it keeps both
// within 0.8 to 1.2, also for columns of two to five levels. L is exact up to 8, then a power of
// two; when a column outgrows it, or a level leaves the block, the priors are changed, exactly, by
// adding precision. A weight is ℓ plus its leaf; a level never seen is ℓ.
//
// A random walk moves the intercept, the numbers and each level's own part, not the level means.
// Forgetting discounts the belief of the block, and of each leaf given the block.
//
// Cost: O(d² + d non-zeros) a row for a block of d, O(d³) more if the block drifts; d + 2 numbers
// per weight.
// Errors: a fit to continue with full or low-rank covariance; those of New.
func NewTied(m *kernels.Model) (*stream.State, error) {
	m = m.Complete()
	if m.Options.AutoNoise && m.Forgets() {
		return nil, errors.New("process_noise = 'auto' and forgetting are two models of drift; give one of them")
	}
	if f := m.Start; f != nil && f.Covariance.Form != gauss.Diagonal && f.Covariance.Form != gauss.Arrowhead {
		return nil, fmt.Errorf("covariance = 'arrowhead': the fit to continue has covariance '%s'; allowed here: 'arrowhead', 'diagonal'", f.Covariance.Form)
	}
	return stream.New(stream.Config{Model: m, Rule: stream.ADF{}, Form: newTied, Costly: true})
}

// tied is a bank of arrowhead beliefs over the same features.
type tied struct {
	plan  *stream.Plan
	named []kernels.Weight // priors of the named features; immutable
	vars  *variances       // learnt prior variances, which override named; immutable; nil for none
	dict  *kernels.Dict

	place  []int32            // by feature: j >= 0 is weight j of the block; absent if no row has had it; else leaf ^place
	owner  []uint32           // by leaf: feature
	of     []int32            // by leaf: index of its column in cols, -1 for none
	fixed  int                // leaves that are known: they do not count towards crowd
	is     []int32            // by weight of the block: feature, or ^c for the level mean of column c
	unit   []stream.Unit      // by weight of the block: unit of its numbers, Scale 1 and Center 0 if there is none; nil for no numbers
	scale  map[uint32]float64 // by feature, for leaves of numeric columns: their scale
	cols   []levelColumn
	column []int32 // by the dictionary's number of a column: its index in cols, plus 1

	hint hint    // of the prior variance of weights without a column of levels
	size hint    // of the log of the factor that multiplies all weights but the intercept
	base float64 // the variance, before any row, that learnt ones are compared with

	bank []*arrowhead.Belief

	now     float64   // with drift: when the block was last brought forward
	moves   []bool    // by weight of the block, with drift: whether its walk has begun
	touched []float64 // by leaf, with drift: when it was last brought forward, NaN if not yet
	known   []int64   // by belief, if the dispersion is learnt: leaves that the data determine

	*rowBuffer // nil at rest
}

// rowBuffer is memory for a row, which forms at rest release: the row's values in the block, its
// leaves and their values, and for a change of units the factors of the block's weights and what
// they add to the intercept.
type rowBuffer struct {
	x  []float64
	ks []uint32
	xs []float64

	m, v float64 // of the row's predictor, without its shift

	ratio, shift []float64
	restorer     restorer
}

var rowBuffers = sync.Pool{New: func() any { return new(rowBuffer) }}

// Rest implements stream.Form.
func (t *tied) Rest() {
	if t.rowBuffer != nil {
		rowBuffers.Put(t.rowBuffer)
		t.rowBuffer = nil
	}
	for _, b := range t.bank {
		b.Rest()
	}
}

// Extend implements stream.Form.
func (t *tied) Extend(p *stream.Plan, at, from int) error {
	t.plan = p
	t.bank = slices.Insert(t.bank, at, t.bank[from].Clone())
	if len(t.known) > 0 {
		t.known = slices.Insert(t.known, at, t.known[from])
	}
	return nil
}

// levelColumn is a column of levels.
type levelColumn struct {
	text   string // "column="
	mean   int32  // index of the block's weight, -1 for none
	seen   int32  // number of levels that are leaves
	levels int32  // the number of levels assumed in the prior: exact up to exactLevels, then a power of two

	variance float64 // prior variance of its weights
	hint     hint    // of variance
}

// absent is the place of a feature that no row has had: its prior depends on the number of levels
// at its first row.
const absent = math.MinInt32

// smallTied is a state of few weights in one allocation.
type smallTied struct {
	state stream.State
	tied
	belief arrowhead.Belief
	bank   [1]*arrowhead.Belief
	place  [few]int32
	is     [few]int32
	spare  [few + few*(few+1)/2]float64
}

func newTied(p *stream.Plan, d *kernels.Dict) (stream.Form, *stream.State, error) {
	t := &tied{plan: p, dict: d, now: math.NaN(), base: kernels.DefaultPrior.Variance}
	for id := range d.Len() {
		t.named = append(t.named, p.Fresh(d, id))
	}
	for _, b := range p.Model.Priors {
		if id, ok := d.Find(b.Feature); ok {
			t.named[id] = b.Weight
		}
	}
	for range p.Rates {
		t.bank = append(t.bank, arrowhead.New(nil, nil))
	}
	if p.Learns {
		t.known = make([]int64, len(p.Rates))
	}
	if f := p.Model.Start; f != nil {
		if p.Model.Options.AutoPrior { // otherwise other priors may be given, and those of f's columns are in Fresh
			t.vars = variancesOf(f)
		}
		if err := t.resume(f); err != nil {
			return nil, nil, err
		}
		t.readHints(f)
		t.recount()
	}
	return t, &stream.State{}, nil
}

// prior is the marginal prior of feature id.
func (t *tied) prior(id int) kernels.Weight {
	if id < len(t.named) && t.vars == nil {
		return t.named[id]
	}
	return t.fresh(id)
}

// blockPrior is the prior of weight j of the block.
func (t *tied) blockPrior(j int) kernels.Weight {
	if id := t.is[j]; id >= 0 {
		return t.prior(int(id))
	}
	return t.meanPrior(^t.is[j])
}

// meanPrior is the prior of the level mean of column c, levelPrior that of its levels given the
// mean.
func (t *tied) meanPrior(c int32) kernels.Weight {
	l := &t.cols[c]
	return kernels.Weight{Mean: t.plan.Model.Prior.Mean, Variance: l.variance * arrowhead.MeanShare(float64(l.levels))}
}

func (t *tied) levelPrior(c int32) kernels.Weight {
	l := &t.cols[c]
	return kernels.Weight{Variance: l.variance * arrowhead.LevelShare(float64(l.levels))}
}

// leafPrior is the prior of leaf k given the block.
func (t *tied) leafPrior(k int) kernels.Weight {
	if c := t.of[k]; c >= 0 {
		return t.levelPrior(c)
	}
	return t.prior(int(t.owner[k]))
}

// gather reads a row, adding its new features: values in the block into x, leaves into ks and xs.
func (t *tied) gather(fs []uint32, xs []float64) {
	for _, id := range fs {
		if t.place[id] == absent {
			t.placeSeen(id)
		}
	}
	t.scatter(fs, xs)
}

// scatter is gather without features that no row has had.
func (t *tied) scatter(fs []uint32, xs []float64) {
	h := t.buffer()
	h.x = resize(h.x, len(t.is))
	clear(h.x)
	h.ks, h.xs = h.ks[:0], h.xs[:0]
	for e, id := range fs {
		p := t.place[id]
		if p >= 0 {
			h.x[p] += xs[e]
			continue
		}
		if p == absent {
			continue
		}
		k := uint32(^p)
		if c := t.of[k]; c >= 0 {
			h.x[t.cols[c].mean] += xs[e]
		}
		h.ks, h.xs = append(h.ks, k), append(h.xs, xs[e])
	}
}

// buffer returns the buffer of the row, from the pool if there is none.
func (t *tied) buffer() *rowBuffer {
	if t.rowBuffer == nil {
		t.rowBuffer = rowBuffers.Get().(*rowBuffer)
	}
	return t.rowBuffer
}

func resize(s []float64, n int) []float64 {
	if cap(s) < n {
		return make([]float64, n, n+4)
	}
	return s[:n]
}

// Predict implements stream.Form.
func (t *tied) Predict(k int, fs []uint32, xs []float64, shift float64) (m, v float64) {
	if k == 0 {
		t.gather(fs, xs)
	}
	m, v = t.bank[k].Predict(t.x, t.ks, t.xs)
	t.m, t.v = m, v
	return shift + m, v
}

// Absorb implements stream.Form.
func (t *tied) Absorb(k int, _ []uint32, _ []float64, _ float64, tilt lik.Tilted) {
	if t.plan.Model.Options.AutoPrior && !t.plan.Located {
		t.note(tilt)
		t.noteSize(tilt)
	}
	if len(t.known) == 0 {
		t.bank[k].Absorb(t.ks, t.xs, tilt)
		return
	}
	for _, l := range t.ks {
		t.count(k, int(l), -1)
	}
	t.bank[k].Absorb(t.ks, t.xs, tilt)
	for _, l := range t.ks {
		t.count(k, int(l), 1)
	}
}

// Linear implements stream.Form.
func (t *tied) Linear(k int, b *kernels.Batch, now float64, at func(int) float64, mean, variance []float64) error {
	f := t
	defer t.Rest()
	for i := range b.Len() {
		fs, xs := b.Entries(i)
		if f.plan.Drifts {
			c, _ := t.Clone(t.dict, nil)
			f = c.(*tied)
			if err := f.Drift(now, max(at(i), now), fs); err != nil {
				return err
			}
		}
		mean[i], variance[i] = f.predict(k, fs, xs, b.Shift(i))
	}
	return nil
}

// predict is Predict for a row that is not learnt: features that no row has had have their prior.
func (t *tied) predict(k int, fs []uint32, xs []float64, shift float64) (m, v float64) {
	t.scatter(fs, xs)
	for e, id := range fs {
		if t.place[id] != absent {
			continue
		}
		p, x := t.prior(int(id)), xs[e]
		if c := t.columnOf(id); c >= 0 && t.cols[c].mean >= 0 {
			t.x[t.cols[c].mean] += x
			p = t.levelPrior(c)
		}
		m += x * p.Mean
		v += x * x * p.Variance
	}
	m0, v0 := t.bank[k].Predict(t.x, t.ks, t.xs)
	return shift + m + m0, v + v0
}

// Clone implements stream.Form.
func (t *tied) Clone(d *kernels.Dict, old stream.Form) (stream.Form, *stream.State) {
	if c, ok := old.(*tied); ok && len(t.bank) == 1 && len(c.bank) == 1 {
		t.cloneTo(c, d)
		return c, nil
	}
	s := &smallTied{tied: *t}
	c := &s.tied
	c.dict, c.rowBuffer = d, nil
	c.place, c.is = append(s.place[:0], t.place...), append(s.is[:0], t.is...)
	c.owner, c.of = slices.Clone(t.owner), slices.Clone(t.of)
	c.cols, c.column = slices.Clone(t.cols), slices.Clone(t.column)
	c.unit, c.scale = slices.Clone(t.unit), maps.Clone(t.scale)
	c.moves, c.touched, c.known = slices.Clone(t.moves), slices.Clone(t.touched), slices.Clone(t.known)
	c.bank = append(s.bank[:0], t.bank...)
	t.bank[0].CloneTo(&s.belief, s.spare[:])
	c.bank[0] = &s.belief
	for k, b := range t.bank[1:] {
		c.bank[k+1] = b.Clone()
	}
	return c, &s.state
}

// cloneTo makes c a copy of t in its own memory; both have one belief.
func (t *tied) cloneTo(c *tied, d *kernels.Dict) {
	o := *c
	*c = *t
	c.dict, c.rowBuffer = d, nil
	c.place, c.is = append(o.place[:0], t.place...), append(o.is[:0], t.is...)
	c.owner, c.of = append(o.owner[:0], t.owner...), append(o.of[:0], t.of...)
	c.cols, c.column = append(o.cols[:0], t.cols...), append(o.column[:0], t.column...)
	c.unit, c.scale = append(o.unit[:0], t.unit...), maps.Clone(t.scale)
	c.moves, c.touched, c.known = append(o.moves[:0], t.moves...), append(o.touched[:0], t.touched...), append(o.known[:0], t.known...)
	c.bank = o.bank
	t.bank[0].CopyTo(c.bank[0])
}

// Size implements stream.Form.
func (t *tied) Size() int64 {
	n := int64(unsafe.Sizeof(smallTied{}))
	if cap(t.place) > few {
		n += 4 * int64(cap(t.place))
	}
	if cap(t.is) > few {
		n += 4 * int64(cap(t.is))
	}
	n += 4*int64(cap(t.owner)+cap(t.of)+cap(t.column)) + 16*int64(cap(t.unit)) + int64(unsafe.Sizeof(levelColumn{}))*int64(cap(t.cols)) + 8*int64(cap(t.touched)+cap(t.known))
	for _, b := range t.bank {
		n += b.Size()
	}
	return n
}

// Reserve implements stream.Form.
func (t *tied) Reserve(copies int64, what string) (*memory.Grant, error) {
	if n := t.Size() * copies; n > 16<<20 {
		return memory.Reserve(n, fmt.Sprintf("%s with covariance = 'arrowhead' of %d weights", what, len(t.place)))
	}
	return nil, nil
}

// Under implements stream.Form: no step is long.
func (t *tied) Under(*stop.Stop) {}

// Status implements stream.Form.
func (t *tied) Status(int) string { return "" }

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
	"github.com/bglm/bglm/kernels/dense"
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

// resume restores the beliefs of a fit.
func (t *tied) resume(f *kernels.Fit) error {
	ids := make([]uint32, len(f.Beliefs))
	t.place = make([]int32, t.dict.Len())
	for id := range t.place {
		t.place[id] = absent
	}
	given := make([]bool, t.dict.Len())
	for k, b := range f.Beliefs {
		id, ok := t.dict.Find(b.Feature)
		if !ok {
			return fmt.Errorf("feature %q of the fit to continue is not numbered", b.Feature)
		}
		if b.Feature == kernels.Intercept && t.plan.Model.NoIntercept {
			return errors.New("the fit to continue says that it has no intercept, but has a belief about it")
		}
		ids[k], given[id] = id, true
	}
	if f.Covariance.Form != gauss.Arrowhead {
		start := slices.Clone(t.named)
		for k, b := range f.Beliefs {
			start[ids[k]] = b.Weight
		}
		for id, w := range start {
			if id == 0 && !t.plan.Model.NoIntercept && w.Variance > 0 && t.prior(0).Variance > 0 {
				t.addBlock(0, w)
			} else {
				t.addLeaf(uint32(id), -1, w)
			}
		}
		return nil
	}
	a := f.Covariance.Arrow()
	if err := a.Check(len(f.Beliefs)); err != nil {
		return fmt.Errorf("covariance: %w", err)
	}
	t.resumeBlock(a)
	at := make(map[int]int32, len(t.cols))
	for c := range t.cols {
		at[int(t.cols[c].mean)] = int32(c)
	}
	number := make(map[string]bool)
	for _, c := range f.Columns {
		number[c.Name] = c.Kind == kernels.NumberColumn
	}
	for k, id := range ids {
		r := a.Row(k)
		if c := int(r[0]); c <= -2 {
			j := -2 - c
			t.place[id], t.is[j] = int32(j), int32(id)
			continue
		}
		col, p := int32(-1), t.prior(int(id))
		if c := a.LevelMean(k); c >= 0 {
			col = at[c]
			name := f.LevelColumn(f.Beliefs[k].Feature)
			t.cols[col].text = name + "="
			t.cols[col].variance = t.fresh(int(id)).Variance
			if t.vars != nil { // the dictionary does not know the column before its first row
				t.cols[col].variance = t.vars.of(name)
			}
			p = t.levelPrior(col)
		}
		if r[2] > 0 && r[1] == p.Mean && r[2] == p.Variance && zero(r[3:]) && t.mayJoin(id) && !number[f.Beliefs[k].Feature] {
			continue // no row has had it
		}
		if col >= 0 {
			t.cols[col].seen++
		}
		l := t.addLeaf(id, col, kernels.Weight{Mean: r[1], Variance: r[2]})
		for _, b := range t.bank {
			b.SetLeaf(l, r[1], r[2], r[3:])
		}
	}
	for id := range t.place {
		if !given[id] {
			t.placeNew(uint32(id))
		}
	}
	return nil
}

// resumeBlock restores the block of a, whose weights get their features later.
func (t *tied) resumeBlock(a arrowhead.Layout) {
	t.is, t.unit = make([]int32, a.D), make([]stream.Unit, a.D)
	one := make([]float64, a.D)
	for j := range a.D {
		one[j] = 1
		t.unit[j].Center, t.unit[j].Scale = a.Unit(j)
		if n := a.Levels(j); n > 0 {
			t.is[j] = ^int32(len(t.cols))
			t.cols = append(t.cols, levelColumn{mean: int32(j), levels: int32(n)})
		}
		if t.plan.Drifts {
			t.moves = append(t.moves, true)
		}
	}
	root := dense.New(a.D, a.D)
	for i := range a.D {
		copy(root.Row(i), a.Root(i))
	}
	for k := range t.bank {
		t.bank[k] = arrowhead.New(a.Values[:a.D], one)
		t.bank[k].SetRoot(root)
	}
}

func zero(xs []float64) bool {
	for _, x := range xs {
		if x != 0 {
			return false
		}
	}
	return true
}

// addBlock adds a weight with starting belief start to the block: that of feature id, or for ^c the
// level mean of column c.
func (t *tied) addBlock(id int32, start kernels.Weight) int32 {
	j := int32(len(t.is))
	t.is = append(t.is, id)
	if t.plan.Drifts {
		t.moves = append(t.moves, false)
	}
	if len(t.unit) > 0 {
		t.unit = append(t.unit, stream.Unit{Scale: 1})
	}
	for _, b := range t.bank {
		b.Extend([]float64{start.Mean}, []float64{start.Variance})
	}
	if id >= 0 {
		t.place[id] = j
	}
	return j
}

// addLeaf adds a leaf of column col, which has a level mean, or of none (-1).
func (t *tied) addLeaf(id uint32, col int32, start kernels.Weight) int {
	k := len(t.owner)
	t.owner, t.of = append(t.owner, id), append(t.of, col)
	if start.Variance == 0 { // including those of a fit to continue, whose priors need not be given again
		t.fixed++
	}
	for _, b := range t.bank {
		b.Add(start.Mean, start.Variance)
	}
	if t.plan.Drifts {
		t.touched = append(t.touched, math.NaN())
	}
	t.place[id] = int32(^k)
	return k
}

// mayJoin reports whether feature id may join the block when a row has it: it is neither a number
// nor the intercept, and not known.
func (t *tied) mayJoin(id uint32) bool {
	return t.prior(int(id)).Variance > 0 && !(id == 0 && !t.plan.Model.NoIntercept) && t.dict.NumberPlace(id) == math.MaxInt
}

// alwaysStays reports whether feature id, which joins, stays in the block however many leaves there
// are: it indicates that one of the first MaxNumbers columns of its kind has no value. Columns are
// often missing in the same rows, and leaves would lose the correlations of such weights.
func (t *tied) alwaysStays(id uint32) bool {
	return !t.plan.Drifts && t.dict.IndicatorPlace(id) < MaxNumbers
}

// hasRoom reports whether one more weight may join the block.
func (t *tied) hasRoom() bool {
	if len(t.is) < t.mostJoined() {
		return true
	}
	_, size := t.removable()
	return size < t.mostJoined()
}

// removable returns the weights that joined the block and may have to leave it, and the size of the
// block without those that stay.
func (t *tied) removable() (js []int, size int) {
	size = len(t.is)
	for j, id := range t.is {
		switch {
		case id < 0 || !t.mayJoin(uint32(id)):
		case t.alwaysStays(uint32(id)):
			size--
		default:
			js = append(js, j)
		}
	}
	return js, size
}

// parted reports whether weights that had joined have left the block.
func (t *tied) parted() bool { return len(t.owner)-t.fixed > t.mostLeaves() }

// mostJoined is the size of the block up to which other weights may join.
func (t *tied) mostJoined() int {
	if t.plan.Drifts {
		return maxDrifter
	}
	return maxJoined
}

// mostLeaves is the most leaves that allow other weights in the block.
func (t *tied) mostLeaves() int {
	if t.plan.Drifts {
		return 0
	}
	return crowd
}

// placeNew places a new feature if its place does not depend on rows.
func (t *tied) placeNew(id uint32) {
	prior := t.prior(int(id))
	switch {
	case t.mayJoin(id):
		if t.place[id] = absent; int(id) < len(t.named) {
			t.placeSeen(id)
		}
	case prior.Variance > 0 && (id == 0 && !t.plan.Model.NoIntercept || t.dict.NumberPlace(id) < MaxNumbers):
		t.addBlock(int32(id), prior)
	default:
		t.addLeaf(id, -1, prior)
		t.part()
	}
}

// placeSeen places feature id, which a row has.
func (t *tied) placeSeen(id uint32) {
	if !t.parted() && t.hasRoom() || t.alwaysStays(id) {
		t.addBlock(int32(id), t.prior(int(id)))
		return
	}
	start := t.prior(int(id))
	c := t.columnOf(id)
	if c >= 0 {
		t.meanOf(c)
		t.cols[c].seen++
		t.widen(c, t.cols[c].seen)
		start = t.levelPrior(c)
	}
	t.addLeaf(id, c, start)
	t.part()
}

// columnOf returns the index in cols of the column of level id, -1 if id is no level or there is no
// room for a level mean.
func (t *tied) columnOf(id uint32) int32 {
	c := t.dict.ColumnOf(id)
	if c == 0 || t.prior(int(id)) != t.fresh(int(id)) {
		return -1
	}
	if int(c) >= len(t.column) || t.column[c] == 0 {
		for len(t.column) <= int(c) {
			t.column = append(t.column, 0)
		}
		at := t.columnNamed(t.dict.ColumnText(c), t.prior(int(id)).Variance)
		t.column[c] = int32(at + 1)
	}
	at := t.column[c] - 1
	if t.cols[at].mean < 0 && len(t.is) >= maxBlock {
		return -1
	}
	return at
}

// meanOf adds the level mean of column c if it is not there.
func (t *tied) meanOf(c int32) {
	if t.cols[c].mean < 0 {
		t.cols[c].mean = t.addBlock(^c, t.meanPrior(c))
	}
}

// Grow implements stream.Form.
func (t *tied) Grow(d *kernels.Dict) error {
	if t.dict != d {
		t.dict, t.column = d, t.column[:0]
	}
	if len(t.place) == d.Len() {
		return nil
	}
	if n, m := d.Len(), len(t.bank[0].Mean)+4; n > 1<<20 {
		if err := memory.Room(int64(8*m*n/4), fmt.Sprintf("covariance = 'arrowhead' with %d weights ('diagonal' takes less)", n)); err != nil {
			return err
		}
	}
	for id := len(t.place); id < d.Len(); id++ {
		t.place = append(t.place, absent)
		t.placeNew(uint32(id))
	}
	return nil
}

// widen changes the priors of column c to those for at least n levels.
func (t *tied) widen(c, n int32) {
	l := &t.cols[c]
	if n <= l.levels || l.mean < 0 {
		return
	}
	was := float64(l.levels)
	for n > l.levels {
		if l.levels < exactLevels {
			l.levels++
		} else {
			l.levels *= 2
		}
	}
	now := float64(l.levels)
	p := t.plan.Model.Prior
	less := (1/arrowhead.LevelShare(now) - 1/arrowhead.LevelShare(was)) / l.variance
	add := (1/arrowhead.MeanShare(now) - 1/arrowhead.MeanShare(was)) / l.variance
	var leaves []int
	for _, id := range t.dict.Order() { // in an order that a continued run shares, so that sums are equal
		if int(id) >= len(t.place) || t.place[id] >= 0 || t.place[id] == absent {
			continue
		}
		if k := int(^t.place[id]); t.of[k] == c {
			leaves = append(leaves, k)
		}
	}
	// A leaf that drifted far past its prior has no precision to give.
	for _, b := range t.bank {
		d := b.Dim()
		if d >= wideBlock && len(leaves) < d/4 {
			one := make([]float64, d)
			one[l.mean] = 1
			_ = b.PreciseAlong(one, add, p.Mean)
			for _, k := range leaves {
				_ = b.LeafPreciseNow(k, less, 0)
			}
			continue
		}
		delta, nu := dense.New(d, d), make([]float64, d)
		delta.Row(int(l.mean))[l.mean] = add
		nu[l.mean] = add * p.Mean
		b.UpdateLeaves()
		for _, k := range leaves {
			_ = b.LeafPrecise(k, less, 0, delta, nu)
		}
		_ = b.Precise(delta, nu)
	}
	t.recount()
}

// wideBlock is the block size from which changes of a few precisions are applied one by one.
const wideBlock = 64

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

// Begin implements stream.Form.
func (t *tied) Begin(now float64) {
	t.now = now
	for id := range min(t.plan.Named, len(t.place)) {
		t.begin(t.place[id], now)
	}
}

// begin starts the drift of a weight.
func (t *tied) begin(place int32, now float64) {
	switch {
	case place == absent:
	case place >= 0:
		t.moves[place] = true
	case math.IsNaN(t.touched[^place]):
		t.touched[^place] = now
	}
}

// rate is the random-walk variance per unit of time of feature id in belief k.
func (t *tied) rate(k int, id uint32) float64 {
	if by := t.plan.Model.NoiseBy; by != nil {
		return by[string(t.dict.Name(id))]
	}
	return t.plan.Rates[k]
}

// Drift implements stream.Form.
func (t *tied) Drift(from, to float64, fs []uint32) error {
	if err := t.driftBlock(to - from); err != nil {
		return err
	}
	t.now = to
	for _, id := range fs {
		if t.place[id] == absent {
			t.placeSeen(id)
		}
	}
	for _, id := range fs {
		if p := t.place[id]; p >= 0 {
			t.begin(p, to)
		} else {
			t.driftLeaf(int(^p), to)
		}
	}
	return nil
}

// driftBlock advances the block by dt.
func (t *tied) driftBlock(dt float64) error {
	if !(dt > 0) || len(t.is) == 0 {
		return nil
	}
	m := t.plan.Model
	rates := make([]float64, len(t.is))
	for k, b := range t.bank {
		if m.Forgets() {
			if err := t.forget(b, math.Pow(m.Forgetting, dt)); err != nil {
				return err
			}
			continue
		}
		for j, id := range t.is {
			if id >= 0 && t.moves[j] {
				rates[j] = t.rate(k, uint32(id)) * dt
			}
		}
		b.Drift(rates)
	}
	return nil
}

// forget discounts the block of b towards its prior: Λ = λΛ + (1-λ)Λ0.
func (t *tied) forget(b *arrowhead.Belief, lambda float64) error {
	if lambda == 1 {
		return nil
	}
	d := b.Dim()
	delta, nu := dense.New(d, d), make([]float64, d)
	for j := range d {
		w := t.blockPrior(j)
		delta.Row(j)[j] = (1 - lambda) / w.Variance
		nu[j] = delta.Row(j)[j] * w.Mean
	}
	b.ScaleBlock(lambda)
	return b.Precise(delta, nu)
}

// driftLeaf brings leaf k to time to.
func (t *tied) driftLeaf(k int, to float64) {
	dt := to - t.touched[k]
	if !(t.touched[k] >= to) { // also NaN
		t.touched[k] = to
	}
	m := t.plan.Model
	p := t.leafPrior(k)
	for i, b := range t.bank {
		b.UpdateLeaf(k)
		_, q, _ := b.Leaf(k)
		if !(dt > 0) || q <= 0 {
			continue
		}
		t.count(i, k, -1)
		if m.Forgets() {
			b.DiscountLeaf(k, math.Pow(m.Forgetting, dt), p.Mean, p.Variance)
		} else {
			b.Widen(k, t.rate(i, t.owner[k])*dt)
		}
		t.count(i, k, 1)
	}
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

// count adds to the count of belief k, or subtracts, what the data determine of leaf l.
func (t *tied) count(k, l int, sign int64) {
	if len(t.known) == 0 {
		return
	}
	if _, q, _ := t.bank[k].Leaf(l); q > 0 {
		t.known[k] += sign * lik.Determined(q, t.leafPrior(l).Variance)
	}
}

// recount counts the leaves that the data determine anew.
func (t *tied) recount() {
	for k := range t.known {
		t.known[k] = 0
		for l := range t.owner {
			t.count(k, l, 1)
		}
	}
}

// Count implements stream.Counter.
func (t *tied) Count(k int) int64 {
	own := t.known
	defer func() { t.known = own }()
	t.known = slices.Clone(own)
	t.recount()
	return t.Known(k)
}

// SetKnown implements stream.Counter.
func (t *tied) SetKnown(k int, n int64) { t.known[k] += n - t.Known(k) }

// Approximates implements stream.Approximate: a row correlates its leaves, which stay independent
// given the block here.
func (t *tied) Approximates() float64 {
	if len(t.ks) > 1 {
		return lik.LeastNoise
	}
	return 0
}

// Known implements stream.Form: a leaf counts by its variance given the block.
func (t *tied) Known(k int) int64 {
	n := t.known[k]
	v := make([]float64, len(t.is))
	t.bank[k].Variances(v)
	for j, v := range v {
		n += lik.Determined(v, t.blockPrior(j).Variance)
	}
	return n
}

// Gain implements stream.Whole.
func (t *tied) Gain(k int) float64 {
	b := t.bank[k]
	b.UpdateLeaves()
	sum := -b.LogDet()
	for j := range b.Mean {
		sum += math.Log(t.blockPrior(j).Variance)
	}
	for l := range t.owner {
		if _, q, _ := b.Leaf(l); q > 0 { // otherwise it is known
			sum += math.Log(t.leafPrior(l).Variance / q)
		}
	}
	return sum
}

// Nearly implements stream.Whole.
func (t *tied) Nearly() bool { return false }

// Apart implements stream.Whole.
func (t *tied) Apart(k int, dst []float64) []float64 {
	b := t.bank[k]
	b.UpdateLeaves()
	add := func(mean float64, prior kernels.Weight) {
		dst = append(dst, (mean-prior.Mean)/math.Sqrt(prior.Variance))
	}
	for j, m := range b.Mean {
		add(m, t.blockPrior(j))
	}
	for l := range t.owner {
		mean, q, h := b.Leaf(l)
		if q == 0 {
			continue
		}
		mean += dense.Dot(h, b.Mean)
		if c := t.of[l]; c >= 0 {
			mean -= b.Mean[t.cols[c].mean]
		}
		add(mean, t.leafPrior(l))
	}
	return dst
}

// Determined implements stream.Form: the count is updated with every change.
func (t *tied) Determined(k int) int64 { return t.Known(k) }

// Rescale implements stream.Form.
func (t *tied) Rescale(k int, lambda float64) {
	if lambda == 1 {
		return
	}
	b := t.bank[k]
	b.UpdateLeaves()
	before := b.Clone()
	d := b.Dim()
	delta, nu := dense.New(d, d), make([]float64, d)
	for j := range d {
		w := t.blockPrior(j)
		delta.Row(j)[j] = (1 - lambda) / w.Variance
		nu[j] = delta.Row(j)[j] * w.Mean
	}
	var known []int
	for l := range t.owner {
		if _, q, _ := b.Leaf(l); q == 0 {
			known = append(known, l)
		}
	}
	b.Scale(lambda)
	for _, l := range known {
		a, q, h := before.Leaf(l)
		b.SetLeaf(l, a, q, h)
	}
	err := error(nil)
	for l := range t.owner {
		if _, q, _ := b.Leaf(l); q > 0 && err == nil {
			p := t.leafPrior(l)
			err = b.LeafPrecise(l, (1-lambda)/p.Variance, p.Mean, delta, nu)
		}
	}
	if err == nil {
		err = b.Precise(delta, nu)
	}
	if err != nil { // weights that drifted past their priors have nothing to multiply
		t.bank[k] = before
	}
	t.recount()
}

// Numbers implements stream.Form: numbers outside the block are not centred, because a leaf
// contributes nothing to the intercept.
func (t *tied) Numbers(id uint32) stream.Numbers {
	if t.place[id] >= 0 {
		return stream.Centred
	}
	return stream.Scaled
}

// Unit implements stream.Form.
func (t *tied) Unit(id uint32) (stream.Unit, bool) {
	if p := t.place[id]; p >= 0 {
		return t.unitOf(p), true
	}
	return stream.Unit{}, false
}

// unitOf is the unit of weight p of the block, 1 if it has none.
func (t *tied) unitOf(p int32) stream.Unit {
	if len(t.unit) == 0 {
		return stream.Unit{Scale: 1}
	}
	return t.unit[p]
}

// units allocates the units of the block's weights.
func (t *tied) units() {
	t.unit = slices.Grow(t.unit, len(t.is)-len(t.unit))
	for len(t.unit) < len(t.is) {
		t.unit = append(t.unit, stream.Unit{Scale: 1})
	}
}

// Recast implements stream.Form.
func (t *tied) Recast(k int, r *stream.Recast) (logZ float64) {
	b := t.bank[k]
	to := -1
	if !t.plan.Model.NoIntercept && t.place[0] >= 0 {
		to = int(t.place[0])
	}
	t.units()
	h := t.buffer()
	h.ratio, h.shift = resize(h.ratio, b.Dim()), resize(h.shift, b.Dim())
	for j := range h.ratio {
		h.ratio[j], h.shift[j] = 1, 0
	}
	for i, id := range r.IDs {
		p := t.place[id]
		if p == absent {
			continue
		}
		if p < 0 {
			b.StretchLeaf(int(^p), r.Ratio(i))
			if t.scale == nil {
				t.scale = map[uint32]float64{}
			}
			t.scale[id] = r.New[i].Scale
			continue
		}
		h.ratio[p], h.shift[p], t.unit[p] = r.Ratio(i), r.Shift(i), r.New[i]
	}
	b.Rescale(h.ratio, h.shift, to)
	if r.Enters {
		t.recount()
	}
	if r.Bare {
		return 0
	}
	h.restorer = restorer{t, b, r, to}
	logZ = r.Restore(&h.restorer)
	h.restorer = restorer{}
	return logZ
}

// restorer is belief b of t for Recast.Restore.
type restorer struct {
	t  *tied
	b  *arrowhead.Belief
	r  *stream.Recast
	to int // index of the intercept
}

// Prior implements stream.Restorer.
func (p *restorer) Prior(i int) kernels.Weight {
	if i < 0 {
		return p.t.prior(0)
	}
	return p.t.prior(int(p.r.IDs[i]))
}

// Pin implements stream.Restorer.
func (p *restorer) Pin(js []int, xs []float64, delta, about float64) float64 {
	h := p.t.rowBuffer
	h.x = resize(h.x, p.b.Dim())
	clear(h.x)
	h.ks, h.xs = h.ks[:0], h.xs[:0]
	for e, i := range js {
		if i < 0 {
			h.x[p.to] = xs[e]
		} else if at := p.t.place[p.r.IDs[i]]; at >= 0 {
			h.x[at] = xs[e]
		} else {
			h.ks, h.xs = append(h.ks, uint32(^at)), append(h.xs, 1)
		}
	}
	m, v := p.b.Predict(h.x, h.ks, h.xs)
	tilt, ok := stream.Pin(m, v, delta, about)
	if ok {
		p.b.Absorb(h.ks, h.xs, tilt)
	}
	return tilt.LogZ
}

// Stretch implements stream.Form.
func (t *tied) Stretch(k int, ratio float64) {
	b, h := t.bank[k], t.buffer()
	b.StretchMeans(ratio)
	h.x = resize(h.x, b.Dim())
	clear(h.x)
	h.ks, h.xs = h.ks[:0], h.xs[:0]
	back := func(p kernels.Weight) {
		if _, v := b.Predict(h.x, h.ks, h.xs); v > 0 {
			b.Absorb(h.ks, h.xs, stream.Back(p, v, ratio))
		}
	}
	for j := range h.x {
		if p := t.blockPrior(j); p.Mean != 0 {
			h.x[j] = 1
			back(p)
			h.x[j] = 0
		}
	}
	h.xs = append(h.xs, 1)
	for leaf := range b.Leaves() {
		if p := t.leafPrior(leaf); p.Mean != 0 {
			h.ks = append(h.ks[:0], uint32(leaf))
			back(p)
		}
	}
}

// Lift implements stream.Form.
func (t *tied) Lift(k int, shift float64) { t.bank[k].Shift(int(t.place[0]), shift) }

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

// applyAllDrift brings all weights of all beliefs to time now.
func (t *tied) applyAllDrift(now float64) {
	for _, b := range t.bank {
		b.UpdateLeaves()
	}
	for k := range t.touched {
		if !math.IsNaN(t.touched[k]) {
			t.driftLeaf(k, now)
		}
	}
}

// Beliefs implements stream.Form.
func (t *tied) Beliefs(k int, now float64, dst []kernels.Weight) []kernels.Weight {
	if t.plan.Drifts {
		t.applyAllDrift(now)
	}
	b := t.bank[k]
	d := b.Dim()
	var room [16]float64
	memory := room[:]
	if 2*d > len(room) {
		memory = make([]float64, 2*d)
	}
	h, v := memory[:d], memory[d:2*d]
	b.Variances(v)
	for id, p := range t.place {
		if p >= 0 && len(t.unit) == 0 {
			dst = append(dst, kernels.Weight{Mean: b.Mean[p], Variance: v[p]})
			continue
		}
		clear(h)
		if p >= 0 {
			t.plain(h, p)
			m, v := b.Projection(h)
			dst = append(dst, kernels.Weight{Mean: m, Variance: v})
			continue
		}
		c, w := t.leafAt(b, uint32(id), h)
		if c >= 0 {
			h[t.cols[c].mean]++
		}
		m, v := b.Projection(h)
		s := t.scaleOf(uint32(id))
		dst = append(dst, kernels.Weight{Mean: (w.Mean + m) / s, Variance: (w.Variance + v) / (s * s)})
	}
	return dst
}

// leafAt returns feature id, which is not in the block, given the block of b: its column, -1 for
// none, α and q, and its h, which must be zeros on entry.
func (t *tied) leafAt(b *arrowhead.Belief, id uint32, h []float64) (col int32, w kernels.Weight) {
	if p := t.place[id]; p != absent {
		alpha, q, own := b.Leaf(int(^p))
		copy(h, own)
		return t.of[^p], kernels.Weight{Mean: alpha, Variance: q}
	}
	if c := t.columnOf(id); c >= 0 && t.cols[c].mean >= 0 {
		return c, t.levelPrior(c)
	}
	return -1, t.prior(int(id))
}

// scaleOf is the scale of feature id's numbers if it is a leaf, 1 if there is none.
func (t *tied) scaleOf(id uint32) float64 {
	if t.scale == nil {
		return 1
	}
	return kernels.Or(t.scale[id], 1)
}

// plain sets h to the row of weight p of the block, per original unit of its numbers.
func (t *tied) plain(h []float64, p int32) {
	h[p] = 1 / kernels.Or(t.unitOf(p).Scale, 1)
	if id := t.is[p]; id == 0 && !t.plan.Model.NoIntercept {
		for j, u := range t.unit {
			if u.Center != 0 {
				h[j] = -u.Center / kernels.Or(u.Scale, 1)
			}
		}
	}
}

// Covariance implements stream.Form.
func (t *tied) Covariance(k int, order []uint32) (c kernels.Covariance, err error) {
	b := t.bank[k]
	b.UpdateLeaves()
	d := b.Dim()
	c = kernels.Covariance{Form: gauss.Arrowhead, Rank: d}
	c.Values = make([]float64, 0, arrowhead.Want(d, len(order)))
	c.Values = append(c.Values, b.Mean...)
	c.Values = append(c.Values, make([]float64, d)...)
	levels := c.Values[d:]
	for _, l := range t.cols {
		if l.mean >= 0 {
			levels[l.mean] = float64(l.levels)
		}
	}
	for i, id := range order { // units are stored with their beliefs
		if p := t.place[id]; p >= 0 && t.unitOf(p) != (stream.Unit{Scale: 1}) {
			levels[p] = float64(-1 - i)
		}
	}
	c.Values = b.AppendRoot(c.Values)
	defer func() {
		if t.plan.Model.Options.AutoPrior {
			c.Arrow().SetLearnsPrior()
		}
	}()
	var h []float64
	for _, id := range order {
		p := t.place[id]
		if p >= 0 {
			c.Values = append(c.Values, float64(-2-p), 0, 0)
			if u := t.unitOf(p); u != (stream.Unit{Scale: 1}) {
				c.Values[len(c.Values)-2], c.Values[len(c.Values)-1] = u.Center, u.Scale
			}
			c.Values = append(c.Values, make([]float64, d)...)
			continue
		}
		h = resize(h, d)
		clear(h)
		col, w := t.leafAt(b, id, h)
		what := -1.0
		if col >= 0 {
			what = float64(t.cols[col].mean)
		}
		s := t.scaleOf(id)
		c.Values = append(c.Values, what, w.Mean/s, w.Variance/(s*s))
		for _, x := range h {
			c.Values = append(c.Values, x/s)
		}
	}
	return c, nil
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

package adf

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
	"github.com/bglm/bglm/kernels/stream"
)

// MaxNumbers is how many columns of numbers are in the block of an arrowhead.
const MaxNumbers = 64

// maxBlock is the size of the block from which a column of levels gets no mean.
const maxBlock = 1024

// NewTied returns the filter with an arrowhead covariance before the first row
// (package arrowhead). Its block holds the intercept, up to MaxNumbers columns of numbers
// and a level mean for each column of levels; other weights are leaves.
//
// A level mean ℓ of a column with L levels has the prior variance v/2L and its levels' own
// parts v(1 - 1/2L): the prior N(0, v) of every weight. It takes the directions in which
// whole columns trade off against each other and the intercept into the block. The mean of
// a column's weights would have all of its prior variance, v/L, in ℓ, and the own parts sum
// to zero; the own parts are independent here and bring v/L to the mean once more. With all
// of it in ℓ the intercept came out 1.3 times too wide, with none of it weights 0.65 times
// too narrow; half keeps both within 0.8 to 1.2. L is a power of two; when a column grows
// beyond it, the priors are changed, exactly, by adding precision. A weight is ℓ and its leaf;
// a level never seen has ℓ.
//
// A random walk moves the intercept, the numbers and each level's own part, level means
// stay. Forgetting discounts what is known of the block, and of each leaf given the block.
//
// Cost: O(d² + d non-zeros) a row for a block of d, O(d³) more where the block drifts;
// d + 2 numbers a weight.
// Errors: a fit to continue whose covariance is full or low-rank; those of New.
func NewTied(m *kernels.Model) (*stream.State, error) {
	m = m.Complete()
	if m.Options.AutoNoise && m.Forgets() {
		return nil, errors.New("process_noise = 'auto' and forgetting are two models of drift; give one of them")
	}
	if f := m.Start; f != nil && f.Covariance.Form != gauss.Diagonal && f.Covariance.Form != gauss.Arrowhead {
		return nil, fmt.Errorf("covariance = 'arrowhead': the fit to continue has covariance '%s'; allowed here: 'arrowhead', 'diagonal'", f.Covariance.Form)
	}
	return stream.New(stream.Config{Model: m, Rule: stream.ADF{}, Form: newTied})
}

// tied is a bank of arrowhead beliefs over the same features.
type tied struct {
	plan  *stream.Plan
	named []kernels.Weight // priors of the named features; nobody changes it
	dict  *kernels.Dict

	place  []int32          // by feature: j >= 0 is weight j of the block, else leaf ^place
	owner  []uint32         // by leaf: its feature
	of     []int32          // by leaf: its column in cols, -1 for none
	block  []kernels.Weight // priors of the block's weights
	is     []int32          // by weight of the block: its feature, -1 for a level mean
	unit   []stream.Unit    // by weight of the block: of its numbers; Scale 1 and no Center where there is none
	scale  map[int]float64  // by leaf of a column of numbers: their scale
	cols   []levelColumn
	column []int32 // by the dictionary's number of a column: its place in cols, plus 1

	bank []*arrowhead.Belief

	moves   []bool    // by weight of the block, with drift: does it run yet
	touched []float64 // by leaf, with drift: when it was last brought forward, NaN = not yet
	known   []int64   // by belief, where the dispersion is learnt: leaves that the data determine

	x, rates []float64 // scratch: block inputs of the row at hand, its leaves and their values
	ks       []uint32
	xs       []float64
}

// levelColumn is a column of levels.
type levelColumn struct {
	text   string // "column="
	mean   int32  // the block's weight
	seen   int32  // levels that a row has had
	levels int32  // the power of two that is taken for their number
}

// unborn is q of a leaf that no row has had: its prior depends on how many levels there
// are when one comes.
const unborn = -1

func newTied(p *stream.Plan, d *kernels.Dict) (stream.Form, *stream.State, error) {
	t := &tied{plan: p, dict: d}
	for id := range d.Len() {
		t.named = append(t.named, p.Fresh(id))
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
		if err := t.resume(f); err != nil {
			return nil, nil, err
		}
		t.recount()
	}
	return t, &stream.State{}, nil
}

// prior is that of feature id by itself.
func (t *tied) prior(id int) kernels.Weight {
	if id < len(t.named) {
		return t.named[id]
	}
	return t.plan.Fresh(id)
}

// leafPrior is that of leaf k given the block.
func (t *tied) leafPrior(k int) kernels.Weight {
	if c := t.of[k]; c >= 0 {
		return kernels.Weight{Variance: t.plan.Model.Prior.Variance * arrowhead.OwnShare(float64(t.cols[c].levels))}
	}
	return t.prior(int(t.owner[k]))
}

// resume takes the beliefs of a fit.
func (t *tied) resume(f *kernels.Fit) error {
	ids := make([]uint32, len(f.Beliefs))
	for k, b := range f.Beliefs {
		id, ok := t.dict.Find(b.Feature)
		if !ok {
			return fmt.Errorf("feature %q of the fit to continue is not numbered", b.Feature)
		}
		ids[k] = id
	}
	t.place = make([]int32, t.dict.Len())
	given := make([]bool, t.dict.Len())
	for _, id := range ids {
		given[id] = true
	}
	if f.Covariance.Form != gauss.Arrowhead {
		for id := range t.place {
			w := t.prior(id)
			if given[id] {
				for k := range ids {
					if int(ids[k]) == id {
						w = f.Beliefs[k].Weight
					}
				}
			}
			if id == 0 && !t.plan.Model.NoIntercept && w.Variance > 0 && t.prior(0).Variance > 0 {
				t.addBlock(0, t.prior(0), w)
				continue
			}
			k := t.addLeaf(uint32(id), -1)
			for _, b := range t.bank {
				b.Set(k, w.Mean, w.Variance)
			}
		}
		return nil
	}
	a := f.Covariance.Arrow()
	if err := a.Check(len(f.Beliefs)); err != nil {
		return fmt.Errorf("covariance: %w", err)
	}
	v := t.plan.Model.Prior.Variance
	t.is, t.unit = make([]int32, a.D), make([]stream.Unit, a.D)
	t.block = make([]kernels.Weight, a.D)
	one := make([]float64, a.D)
	for j := range a.D {
		one[j] = 1
		t.is[j] = -1
		t.unit[j].Center, t.unit[j].Scale = a.Unit(j)
		if n := a.Levels(j); n > 0 {
			t.block[j] = kernels.Weight{Mean: t.plan.Model.Prior.Mean, Variance: v * arrowhead.MeanShare(n)}
			t.cols = append(t.cols, levelColumn{mean: int32(j), levels: int32(n)})
		}
		t.moves = append(t.moves, true)
	}
	at := make(map[int]int, len(t.cols))
	for c := range t.cols {
		at[int(t.cols[c].mean)] = c
	}
	root := dense.New(a.D, a.D)
	for i := range a.D {
		copy(root.Row(i), a.Root(i))
	}
	for k := range t.bank {
		t.bank[k] = arrowhead.New(a.Values[:a.D], one)
		t.bank[k].SetRoot(root)
	}
	for k, id := range ids {
		r := a.Row(k)
		if c := int(r[0]); c <= -2 {
			j := -2 - c
			t.place[id], t.is[j], t.block[j] = int32(j), int32(id), t.prior(int(id))
			continue
		}
		col := int32(-1)
		if c := a.LevelMean(k); c >= 0 {
			col = int32(at[c])
			text := f.Beliefs[k].Feature
			for i := range text {
				if text[i] == '=' {
					text = text[:i+1]
					break
				}
			}
			t.cols[col].text = text
		}
		l := t.addLeaf(id, col)
		if col >= 0 {
			if p := t.leafPrior(l); r[1] == 0 && r[2] == p.Variance && zero(r[3:]) {
				for _, b := range t.bank {
					b.Set(l, 0, unborn)
				}
				continue
			}
			t.cols[col].seen++
		}
		for _, b := range t.bank {
			b.Put(l, r[1], r[2], r[3:])
		}
	}
	for id := range t.place {
		if !given[id] {
			t.put(uint32(id))
		}
	}
	return nil
}

func zero(xs []float64) bool {
	for _, x := range xs {
		if x != 0 {
			return false
		}
	}
	return true
}

// addBlock adds a weight to the block, with its prior and where it starts; feature -1
// for a level mean.
func (t *tied) addBlock(id int32, prior, start kernels.Weight) int32 {
	j := int32(len(t.is))
	t.is, t.block, t.moves = append(t.is, id), append(t.block, prior), append(t.moves, false)
	t.unit = append(t.unit, stream.Unit{Scale: 1})
	for _, b := range t.bank {
		b.Extend(start.Mean, start.Variance)
	}
	if id >= 0 {
		t.place[id] = j
	}
	return j
}

// addLeaf adds a leaf, unborn where it is a level.
func (t *tied) addLeaf(id uint32, col int32) int {
	k := len(t.owner)
	t.owner, t.of = append(t.owner, id), append(t.of, col)
	w := t.prior(int(id))
	if col >= 0 {
		w = kernels.Weight{Variance: unborn}
	}
	for _, b := range t.bank {
		b.Add(w.Mean, w.Variance)
	}
	if t.plan.Drifts {
		t.touched = append(t.touched, math.NaN())
	}
	t.place[id] = int32(^k)
	return k
}

// put gives a new feature its place.
func (t *tied) put(id uint32) {
	prior := t.prior(int(id))
	if prior.Variance > 0 {
		if id == 0 && !t.plan.Model.NoIntercept || t.dict.NumberPlace(id) < MaxNumbers {
			t.addBlock(int32(id), prior, prior)
			return
		}
		if c := t.dict.ColumnOf(id); c > 0 && int(id) >= len(t.named) && (len(t.is) < maxBlock || t.hasColumn(c)) {
			t.addLeaf(id, t.levels(c))
			return
		}
	}
	t.addLeaf(id, -1)
}

func (t *tied) hasColumn(c uint32) bool { return int(c) < len(t.column) && t.column[c] > 0 }

// levels is the column in cols of the dictionary's column c, new where it is not there.
func (t *tied) levels(c uint32) int32 {
	for len(t.column) <= int(c) {
		t.column = append(t.column, 0)
	}
	if t.column[c] == 0 {
		text := t.dict.ColumnText(c)
		at := slices.IndexFunc(t.cols, func(l levelColumn) bool { return l.text == text })
		if at < 0 {
			at = len(t.cols)
			t.cols = append(t.cols, levelColumn{text: text, mean: -1, levels: 2})
		}
		t.column[c] = int32(at + 1)
	}
	return t.column[c] - 1
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
		t.place = append(t.place, 0)
		t.put(uint32(id))
	}
	return nil
}

// level makes sure that leaf k, which a row has, is born.
func (t *tied) level(k uint32) {
	if _, q, _ := t.bank[0].Leaf(int(k)); q != unborn {
		return
	}
	c := &t.cols[t.of[k]]
	c.seen++
	if c.mean < 0 {
		p := t.plan.Model.Prior
		w := kernels.Weight{Mean: p.Mean, Variance: p.Variance * arrowhead.MeanShare(float64(c.levels))}
		c.mean = t.addBlock(-1, w, w)
	}
	t.widen(t.of[k], c.seen)
	for _, b := range t.bank {
		b.Set(int(k), 0, t.leafPrior(int(k)).Variance)
	}
}

// widen changes the priors of column c to those of at least n levels.
func (t *tied) widen(c, n int32) {
	l := &t.cols[c]
	if n <= l.levels || l.mean < 0 {
		return
	}
	was := float64(l.levels)
	for n > l.levels {
		l.levels *= 2
	}
	now := float64(l.levels)
	p := t.plan.Model.Prior
	t.block[l.mean].Variance = p.Variance * arrowhead.MeanShare(now)
	less := (1/arrowhead.OwnShare(now) - 1/arrowhead.OwnShare(was)) / p.Variance
	for _, b := range t.bank {
		d := b.Dim()
		delta, nu := dense.New(d, d), make([]float64, d)
		add := (1/arrowhead.MeanShare(now) - 1/arrowhead.MeanShare(was)) / p.Variance
		delta.Row(int(l.mean))[l.mean] = add
		nu[l.mean] = add * p.Mean
		b.Bring()
		for k, of := range t.of {
			if _, q, _ := b.Leaf(k); of == c && q != unborn {
				// A leaf that drifted far past its prior has no precision to give.
				_ = b.LeafPrecise(k, less, 0, delta, nu)
			}
		}
		_ = b.Precise(delta, nu)
	}
	t.recount()
}

// gather reads a row: block inputs into x, leaves into ks and xs.
func (t *tied) gather(fs []uint32, xs []float64) {
	for _, id := range fs {
		if p := t.place[id]; p < 0 && t.of[^p] >= 0 {
			t.level(uint32(^p))
		}
	}
	t.scatter(fs, xs)
}

func (t *tied) scatter(fs []uint32, xs []float64) {
	t.x = resize(t.x, len(t.is))
	clear(t.x)
	t.ks, t.xs = t.ks[:0], t.xs[:0]
	for e, id := range fs {
		p := t.place[id]
		if p >= 0 {
			t.x[p] += xs[e]
			continue
		}
		k := uint32(^p)
		if c := t.of[k]; c >= 0 && t.cols[c].mean >= 0 {
			t.x[t.cols[c].mean] += xs[e]
		}
		t.ks, t.xs = append(t.ks, k), append(t.xs, xs[e])
	}
}

func resize(s []float64, n int) []float64 {
	if cap(s) < n {
		return make([]float64, n, n+4)
	}
	return s[:n]
}

// Begin implements stream.Form.
func (t *tied) Begin(now float64) {
	for id := range min(t.plan.Named, len(t.place)) {
		t.begin(t.place[id], now)
	}
}

// begin starts the drift of a weight.
func (t *tied) begin(place int32, now float64) {
	if place >= 0 {
		t.moves[place] = t.is[place] >= 0
	} else if k := ^place; math.IsNaN(t.touched[k]) {
		t.touched[k] = now
	}
}

// rate is the random-walk variance of feature id a unit of time, in belief k.
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
	for _, id := range fs {
		p := t.place[id]
		if p >= 0 {
			t.begin(p, to)
			continue
		}
		k := int(^p)
		if t.of[k] >= 0 {
			t.level(uint32(k))
		}
		t.driftLeaf(k, to)
	}
	return nil
}

// driftBlock brings the block dt ahead.
func (t *tied) driftBlock(dt float64) error {
	if !(dt > 0) || len(t.is) == 0 {
		return nil
	}
	m := t.plan.Model
	for k, b := range t.bank {
		if m.Forgets() {
			if err := t.forget(b, math.Pow(m.Forgetting, dt)); err != nil {
				return err
			}
			continue
		}
		t.rates = resize(t.rates, len(t.is))
		for j, id := range t.is {
			t.rates[j] = 0
			if id >= 0 && t.moves[j] {
				t.rates[j] = t.rate(k, uint32(id)) * dt
			}
		}
		b.Drift(t.rates)
	}
	return nil
}

// forget takes the block of b towards its prior: Λ = λΛ + (1-λ)Λ0.
func (t *tied) forget(b *arrowhead.Belief, lambda float64) error {
	if lambda == 1 {
		return nil
	}
	d := b.Dim()
	delta, nu := dense.New(d, d), make([]float64, d)
	for j, w := range t.block {
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
		b.Forward(k)
		_, q, _ := b.Leaf(k)
		if !(dt > 0) || q <= 0 {
			continue
		}
		t.count(i, k, -1)
		if m.Forgets() {
			b.Temper(k, math.Pow(m.Forgetting, dt), p.Mean, p.Variance)
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
	return shift + m, v
}

// Absorb implements stream.Form.
func (t *tied) Absorb(k int, _ []uint32, _ []float64, _ float64, tilt lik.Tilted) {
	for _, l := range t.ks {
		t.count(k, int(l), -1)
	}
	t.bank[k].Absorb(t.ks, t.xs, tilt)
	for _, l := range t.ks {
		t.count(k, int(l), 1)
	}
}

// count adds what the data determine of leaf l to the count of belief k, or takes it.
func (t *tied) count(k, l int, sign int64) {
	if t.known == nil {
		return
	}
	if _, q, _ := t.bank[k].Leaf(l); q > 0 {
		t.known[k] += sign * lik.Determined(q, t.leafPrior(l).Variance)
	}
}

// recount counts all leaves that the data determine anew.
func (t *tied) recount() {
	for k := range t.known {
		t.known[k] = 0
		for l := range t.owner {
			t.count(k, l, 1)
		}
	}
}

// Known implements stream.Form: a leaf counts by its variance given the block.
func (t *tied) Known(k int) int64 {
	n := t.known[k]
	one := make([]float64, len(t.is))
	for j, w := range t.block {
		one[j] = 1
		_, v := t.bank[k].Along(one)
		one[j] = 0
		n += lik.Determined(v, w.Variance)
	}
	return n
}

// Determined implements stream.Form: the count is kept with every change.
func (t *tied) Determined(k int) int64 { return t.Known(k) }

// Rescale implements stream.Form.
func (t *tied) Rescale(k int, lambda float64) {
	if lambda == 1 {
		return
	}
	b := t.bank[k]
	b.Bring()
	before := b.Clone()
	d := b.Dim()
	delta, nu := dense.New(d, d), make([]float64, d)
	for j, w := range t.block {
		delta.Row(j)[j] = (1 - lambda) / w.Variance
		nu[j] = delta.Row(j)[j] * w.Mean
	}
	var known []int
	for l := range t.owner {
		if _, q, _ := b.Leaf(l); q == 0 || q == unborn {
			known = append(known, l)
		}
	}
	b.Scale(lambda)
	for _, l := range known {
		a, q, h := before.Leaf(l)
		b.Put(l, a, q, h)
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

// Numbers implements stream.Form: numbers beyond the block are not centred, for which a
// leaf has no part in the intercept.
func (t *tied) Numbers(id uint32) stream.Numbers {
	if t.place[id] >= 0 {
		return stream.Centred
	}
	return stream.Scaled
}

// Unit implements stream.Form.
func (t *tied) Unit(id uint32) (stream.Unit, bool) {
	if p := t.place[id]; p >= 0 {
		return t.unit[p], true
	}
	return stream.Unit{}, false
}

// Recast implements stream.Form.
func (t *tied) Recast(k int, r *stream.Recast) (logZ float64) {
	b := t.bank[k]
	to := -1
	if !t.plan.Model.NoIntercept && t.place[0] >= 0 {
		to = int(t.place[0])
	}
	ratio, shift := make([]float64, b.Dim()), make([]float64, b.Dim())
	for j := range ratio {
		ratio[j] = 1
	}
	for i, id := range r.IDs {
		p := t.place[id]
		if p < 0 {
			b.StretchLeaf(int(^p), r.Ratio(i))
			if t.scale == nil {
				t.scale = map[int]float64{}
			}
			t.scale[int(^p)] = r.New[i].Scale
			continue
		}
		ratio[p], shift[p], t.unit[p] = r.Ratio(i), r.Shift(i), r.New[i]
	}
	b.Rescale(ratio, shift, to)
	if r.Bare {
		return 0
	}
	row := make([]float64, b.Dim())
	return r.Restore(func(i int) kernels.Weight {
		if i < 0 {
			return t.block[to]
		}
		return t.prior(int(r.IDs[i]))
	}, func(js []int, xs []float64, delta, about float64) float64 {
		clear(row)
		var ks []uint32
		for e, i := range js {
			if i < 0 {
				row[to] = xs[e]
			} else if p := t.place[r.IDs[i]]; p >= 0 {
				row[p] = xs[e]
			} else {
				ks = append(ks, uint32(^p))
			}
		}
		one := []float64{1}[:len(ks)]
		m, v := b.Predict(row, ks, one)
		tilt, ok := stream.Pin(m, v, delta, about)
		if ok {
			b.Absorb(ks, one, tilt)
		}
		return tilt.LogZ
	})
}

// Stretch implements stream.Form.
func (t *tied) Stretch(k int, ratio float64) { t.bank[k].StretchMeans(ratio) }

// Lift implements stream.Form.
func (t *tied) Lift(k int, shift float64) { t.bank[k].Shift(int(t.place[0]), shift) }

// Linear implements stream.Form.
func (t *tied) Linear(k int, b *kernels.Batch, now float64, at func(int) float64, mean, variance []float64) error {
	f := t
	for i := range b.Len() {
		fs, xs := b.Entries(i)
		if f.plan.Drifts {
			c, _ := t.Clone(t.dict)
			f = c.(*tied)
			if err := f.Drift(now, max(at(i), now), fs); err != nil {
				return err
			}
		}
		mean[i], variance[i] = f.predict(k, fs, xs, b.Shift(i))
	}
	return nil
}

// predict is Predict of a row that is not learnt: a level that is new has its prior.
func (t *tied) predict(k int, fs []uint32, xs []float64, shift float64) (m, v float64) {
	t.scatter(fs, xs)
	ks, vs := t.ks[:0], t.xs[:0]
	for e, l := range t.ks {
		if _, q, _ := t.bank[k].Leaf(int(l)); q == unborn {
			x := t.xs[e]
			v += x * x * t.leafPrior(int(l)).Variance
			if c := &t.cols[t.of[l]]; c.mean < 0 {
				p := t.plan.Model.Prior
				m += x * p.Mean
				v += x * x * p.Variance * arrowhead.MeanShare(float64(c.levels))
			}
			continue
		}
		ks, vs = append(ks, l), append(vs, t.xs[e])
	}
	m0, v0 := t.bank[k].Predict(t.x, ks, vs)
	return shift + m + m0, v + v0
}

// bring brings all weights of all beliefs to time now.
func (t *tied) bring(now float64) {
	for _, b := range t.bank {
		b.Bring()
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
		t.bring(now)
	}
	b := t.bank[k]
	h := make([]float64, b.Dim())
	for id, p := range t.place {
		clear(h)
		if p >= 0 {
			t.plain(h, p)
			m, v := b.Along(h)
			dst = append(dst, kernels.Weight{Mean: m, Variance: v})
			continue
		}
		alpha, q, own := b.Leaf(int(^p))
		copy(h, own)
		c := t.of[^p]
		if q == unborn {
			alpha, q = 0, t.leafPrior(int(^p)).Variance
		}
		if c >= 0 {
			if j := t.cols[c].mean; j >= 0 {
				h[j]++
			} else { // nor has any level of its column been seen
				alpha, q = t.prior(id).Mean, t.prior(id).Variance
			}
		}
		m, v := b.Along(h)
		s := 1.0
		if t.scale != nil {
			s = kernels.Or(t.scale[int(^p)], 1)
		}
		dst = append(dst, kernels.Weight{Mean: (alpha + m) / s, Variance: (q + v) / (s * s)})
	}
	return dst
}

// plain sets h to the row of weight p of the block, per number as it is.
func (t *tied) plain(h []float64, p int32) {
	h[p] = 1 / kernels.Or(t.unit[p].Scale, 1)
	if id := t.is[p]; id == 0 && !t.plan.Model.NoIntercept {
		for j, u := range t.unit {
			if u.Center != 0 {
				h[j] = -u.Center / kernels.Or(u.Scale, 1)
			}
		}
	}
}

// Covariance implements stream.Form.
func (t *tied) Covariance(k int, order []uint32) (kernels.Covariance, error) {
	b := t.bank[k]
	b.Bring()
	d := b.Dim()
	c := kernels.Covariance{Form: gauss.Arrowhead, Rank: d}
	c.Values = make([]float64, 0, arrowhead.Want(d, len(order)))
	c.Values = append(c.Values, b.Mean...)
	levels := make([]float64, d)
	for _, l := range t.cols {
		if l.mean >= 0 {
			levels[l.mean] = float64(l.levels)
		}
	}
	for i, id := range order { // units are with their beliefs
		if p := t.place[id]; p >= 0 && t.unit[p] != (stream.Unit{Scale: 1}) {
			levels[p] = float64(-1 - i)
		}
	}
	c.Values = append(c.Values, levels...)
	root := b.Root()
	for i := range d {
		c.Values = append(c.Values, root.Row(i)[:i+1]...)
	}
	for _, id := range order {
		p := t.place[id]
		if p >= 0 {
			c.Values = append(c.Values, float64(-2-p), 0, 0)
			if u := t.unit[p]; u != (stream.Unit{Scale: 1}) {
				c.Values[len(c.Values)-2], c.Values[len(c.Values)-1] = u.Center, u.Scale
			}
			c.Values = append(c.Values, make([]float64, d)...)
			continue
		}
		alpha, q, h := b.Leaf(int(^p))
		what := -1.0
		if col := t.of[^p]; col >= 0 && t.cols[col].mean >= 0 {
			what = float64(t.cols[col].mean)
			if q == unborn {
				alpha, q = 0, t.leafPrior(int(^p)).Variance
			}
		} else if q == unborn {
			w := t.prior(int(id))
			alpha, q = w.Mean, w.Variance
		}
		s := 1.0
		if t.scale != nil {
			s = kernels.Or(t.scale[int(^p)], 1)
		}
		c.Values = append(c.Values, what, alpha/s, q/(s*s))
		for _, x := range h {
			c.Values = append(c.Values, x/s)
		}
	}
	return c, nil
}

// Clone implements stream.Form.
func (t *tied) Clone(d *kernels.Dict) (stream.Form, *stream.State) {
	c := *t
	c.dict = d
	c.place, c.owner, c.of = slices.Clone(t.place), slices.Clone(t.owner), slices.Clone(t.of)
	c.block, c.is, c.cols, c.column = slices.Clone(t.block), slices.Clone(t.is), slices.Clone(t.cols), slices.Clone(t.column)
	c.unit, c.scale = slices.Clone(t.unit), maps.Clone(t.scale)
	c.moves, c.touched, c.known = slices.Clone(t.moves), slices.Clone(t.touched), slices.Clone(t.known)
	c.bank = make([]*arrowhead.Belief, len(t.bank))
	for k, b := range t.bank {
		c.bank[k] = b.Clone()
	}
	c.x, c.rates, c.ks, c.xs = nil, nil, nil, nil
	return &c, &stream.State{}
}

// Size implements stream.Form.
func (t *tied) Size() int64 {
	n := int64(600) + 4*int64(cap(t.place)+cap(t.owner)+cap(t.of)+cap(t.is)+cap(t.column)) + 16*int64(cap(t.block)+cap(t.unit)) + 40*int64(cap(t.cols)) + 8*int64(cap(t.touched))
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

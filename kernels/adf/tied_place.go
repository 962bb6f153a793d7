package adf

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stream"
)

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

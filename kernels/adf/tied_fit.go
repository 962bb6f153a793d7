package adf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/stream"
)

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

// At implements stream.Lazy.
func (t *tied) At(now float64) stream.Form {
	form, _ := t.Clone(t.dict, nil)
	form.(*tied).applyAllDrift(now)
	return form
}

// Beliefs implements stream.Form, with the drift that is applied.
func (t *tied) Beliefs(k int, _ float64, dst []kernels.Weight) []kernels.Weight {
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

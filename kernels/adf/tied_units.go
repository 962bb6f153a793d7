package adf

import (
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/stream"
)

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

// scaleOf is the scale of feature id's numbers if it is a leaf, 1 if there is none.
func (t *tied) scaleOf(id uint32) float64 {
	if t.scale == nil {
		return 1
	}
	return kernels.Or(t.scale[id], 1)
}

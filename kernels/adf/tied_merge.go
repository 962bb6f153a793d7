package adf

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/stream"
)

// tiedProduct is that of two arrowheads with a common start.
type tiedProduct struct {
	t, o, start *tied
	from        []int32 // by own feature: o's, -1 for none
	begun       []int32 // by own feature: start's
	idle        []int   // leaves that no row of either has had
	*stream.Merging
}

// Merge implements stream.Form: both come to the same weights in the same places, with
// the priors of the same numbers of levels.
func (t *tied) Merge(of stream.Form, g *stream.Merging) (stream.Product, error) {
	if !g.Brought {
		return nil, nil
	}
	c, _ := of.Clone(g.Other)
	p := &tiedProduct{t: t, o: c.(*tied), Merging: g}
	o := p.o
	d := &kernels.Dict{}
	if err := t.plan.Model.Name(d); err != nil {
		return nil, err
	}
	s, _, err := newTied(t.plan, d)
	if err != nil {
		return nil, err
	}
	p.start = s.(*tied)
	if err := p.start.Grow(d); err != nil {
		return nil, err
	}
	g.Prepare(p.start)
	p.from, p.begun = make([]int32, len(t.place)), make([]int32, len(t.place))
	for id := range p.from {
		p.from[id], p.begun[id] = -1, -1
		if id < d.Len() {
			p.begun[id] = int32(id) // the names of the model come first in every state
		}
	}
	for j, id := range g.IDs[:len(o.place)] {
		p.from[id] = int32(j)
	}
	if t.plan.Drifts {
		at := g.OtherNow
		if t.plan.Model.HasTime {
			at = g.Clock
		}
		for _, x := range []struct {
			f        *tied
			from, to float64
		}{{t, g.Now, g.Clock}, {o, g.OtherNow, at}, {p.start, g.Begun, g.Clock}} {
			if x.f == p.start && !t.plan.Model.Forgets() {
				continue // Multiply adds the walk, to all weights
			}
			if err := x.f.driftBlock(x.to - x.from); err != nil {
				return nil, err
			}
			x.f.bring(x.to)
		}
	}
	// One number of levels a column, and every level mean in t.
	for _, oc := range o.cols {
		if oc.mean < 0 {
			continue
		}
		c := t.columnNamed(oc.text)
		if tc := &t.cols[c]; tc.mean < 0 {
			tc.levels = max(tc.levels, oc.levels)
			m := t.plan.Model.Prior
			w := kernels.Weight{Mean: m.Mean, Variance: m.Variance * arrowhead.MeanShare(float64(tc.levels))}
			tc.mean = t.addBlock(-1, w, w)
		}
		t.widen(int32(c), oc.levels)
	}
	for _, f := range []*tied{o, p.start} {
		for c := range f.cols {
			f.widen(int32(c), t.cols[t.columnNamed(f.cols[c].text)].levels)
		}
	}
	// Leaves that one of them has had are born in both.
	for k, id := range t.owner {
		if t.of[k] < 0 {
			continue
		}
		_, q, _ := t.bank[0].Leaf(k)
		if q != unborn {
			continue
		}
		if j := p.from[id]; j < 0 || o.place[j] >= 0 || o.unborn(int(^o.place[j])) {
			p.idle = append(p.idle, k)
		} else if t.plan.Drifts {
			t.touched[k] = g.Clock
		}
		for _, b := range t.bank {
			b.Set(k, 0, t.leafPrior(k).Variance)
		}
	}
	t.recount()
	return p, nil
}

func (t *tied) unborn(k int) bool {
	_, q, _ := t.bank[0].Leaf(k)
	return q == unborn
}

// columnNamed is the place in cols of a column, new where it is not there.
func (t *tied) columnNamed(text string) int {
	for c := range t.cols {
		if t.cols[c].text == text {
			return c
		}
	}
	t.cols = append(t.cols, levelColumn{text: text, mean: -1, levels: 2})
	return len(t.cols) - 1
}

// aligned is belief k of f with the weights of t at the places of t; ids are f's features
// by t's.
func (p *tiedProduct) aligned(f *tied, k int, ids []int32) (*arrowhead.Belief, error) {
	t := p.t
	b := f.bank[k].Clone()
	used := make([]bool, b.Dim())
	order := make([]int, len(t.is))
	for j, id := range t.is {
		at := -1
		if id < 0 {
			for _, c := range t.cols {
				if int(c.mean) != j {
					continue
				}
				for _, fc := range f.cols {
					if fc.text == c.text {
						at = int(fc.mean)
					}
				}
			}
		} else if own := ids[id]; own >= 0 {
			if at = int(f.place[own]); at < 0 {
				l := ^at
				alpha, q, h := b.Leaf(l)
				if !zero(h) {
					return nil, fmt.Errorf("feature %q is a leaf in one part and in the block of the other", t.dict.Name(uint32(id)))
				}
				at = b.Extend(alpha, q)
			} else {
				used[at] = true
			}
			order[j] = at
			continue
		}
		if at < 0 {
			w := t.block[j]
			at = b.Extend(w.Mean, w.Variance)
		} else if at < len(used) {
			used[at] = true
		}
		order[j] = at
	}
	for at, is := range used {
		if !is {
			return nil, fmt.Errorf("weight %d of the block is in one part only", at+1)
		}
	}
	if err := b.Permute(order); err != nil {
		return nil, err
	}
	rows := make([]int, len(t.owner))
	for l, id := range t.owner {
		rows[l] = -1
		if own := ids[id]; own >= 0 && f.place[own] < 0 {
			if m := int(^f.place[own]); !f.unborn(m) {
				rows[l] = m
			}
		}
	}
	b.Leave(rows, func(l int) (float64, float64) {
		w := t.leafPrior(l)
		if _, q, _ := t.bank[k].Leaf(l); q == 0 {
			w = kernels.Weight{}
			w.Mean, _, _ = t.bank[k].Leaf(l)
		}
		return w.Mean, w.Variance
	})
	return b, nil
}

// Known implements stream.Product.
func (p *tiedProduct) Known(k int) [3]int64 {
	return [3]int64{p.t.Known(k), p.o.Known(k), p.start.Known(k)}
}

// Multiply implements stream.Product.
func (p *tiedProduct) Multiply(k int, scale [3]float64, logZ float64) (sum, apart, conflict float64, err error) {
	t := p.t
	t.Rescale(k, scale[0])
	p.o.Rescale(k, scale[1])
	p.start.Rescale(k, scale[2])
	o, err := p.aligned(p.o, k, p.from)
	if err != nil {
		return 0, 0, 0, err
	}
	start, err := p.aligned(p.start, k, p.begun)
	if err != nil {
		return 0, 0, 0, err
	}
	if t.plan.Drifts && !t.plan.Model.Forgets() {
		// What both walked since counts for the start they share.
		passed := max(p.Clock-p.Begun, 0)
		walk := make([]float64, len(t.is))
		for j, id := range t.is {
			if id >= 0 {
				walk[j] = t.rate(k, uint32(id)) * passed
			}
		}
		start.Drift(walk)
		start.Bring()
		for l, id := range t.owner {
			if _, q, _ := start.Leaf(l); q > 0 {
				start.Widen(l, t.rate(k, id)*passed)
			}
		}
	}
	b := t.bank[k]
	b.Bring()
	h := make([]float64, b.Dim())
	far := func(ma, va, mb, vb float64) {
		if v := va + vb; v > 0 {
			conflict = max(conflict, math.Abs(ma-mb)/math.Sqrt(v))
		}
	}
	for j := range h {
		h[j] = 1
		ma, va := b.Along(h)
		mb, vb := o.Along(h)
		far(ma, va, mb, vb)
		h[j] = 0
	}
	for l := range t.owner {
		ma, va := b.Marginal(l)
		mb, vb := o.Marginal(l)
		far(ma, va, mb, vb)
	}
	strain := t.strain(b) + t.strain(o) - t.strain(start)
	logC, apart, err := b.Product(o, start, t.plan.Drifts)
	if err != nil {
		return 0, 0, 0, err
	}
	return logZ + logC, apart + strain - t.strain(b), conflict, nil
}

// strain is the squared distance of the means of b from the priors', in prior variances.
func (t *tied) strain(b *arrowhead.Belief) (sum float64) {
	for j, w := range t.block {
		d := b.Mean[j] - w.Mean
		sum += d * (d / w.Variance)
	}
	for l := range t.owner {
		if w := t.leafPrior(l); w.Variance > 0 {
			m, _ := b.Marginal(l)
			sum += (m - w.Mean) * ((m - w.Mean) / w.Variance)
		}
	}
	return sum
}

// Done implements stream.Product.
func (p *tiedProduct) Done() {
	t := p.t
	for _, k := range p.idle {
		for _, b := range t.bank {
			b.Set(k, 0, unborn)
		}
	}
	for c := range t.cols {
		t.cols[c].seen = 0
	}
	for k, c := range t.of {
		if c >= 0 && !t.unborn(k) {
			t.cols[c].seen++
		}
	}
	for c := range t.cols {
		t.widen(int32(c), t.cols[c].seen)
	}
	for j, is := range t.is {
		t.moves[j] = t.moves[j] || is >= 0 && t.plan.Drifts
	}
	t.recount()
}

func init() { kernels.SetArrowheads(mergeFits) }

// mergeFits is the product of fits of one model over the fit that they started from, nil
// for the prior.
func mergeFits(fits []*kernels.Fit, from *kernels.Fit) ([]kernels.Belief, kernels.Covariance, float64, error) {
	var none kernels.Covariance
	h := fits[0]
	m := &kernels.Model{Prior: h.Prior.Literal(), NoIntercept: !h.Intercept, HashBits: h.HashBits, Options: kernels.Options{Covariance: "arrowhead"}, Start: from}
	var err error
	if m.Lik, err = h.Likelihood(); err != nil {
		return nil, none, 0, err
	}
	var all *tied
	var names *kernels.Dict
	logC := 0.0
	for _, f := range fits {
		s, err := NewTied(m)
		if err != nil {
			return nil, none, 0, err
		}
		d := s.Features()
		for _, b := range f.Beliefs {
			if _, err := d.AddRaw(b.Feature); err != nil {
				return nil, none, 0, err
			}
		}
		t := s.Beliefs().(*tied)
		*t = tied{plan: t.plan, named: t.named, dict: d, bank: []*arrowhead.Belief{arrowhead.New(nil, nil)}}
		if err := t.resume(f); err != nil {
			return nil, none, 0, err
		}
		if all == nil {
			all, names = t, d
			continue
		}
		g := &stream.Merging{Own: names, Other: d, Grown: names.Len(), Now: math.NaN(), OtherNow: math.NaN(), Clock: math.NaN(), Begun: math.NaN(), Seen: true, Brought: true, Prepare: func(stream.Form) {}}
		if g.IDs, err = names.Merge(d); err != nil {
			return nil, none, 0, err
		}
		all.adopt(t, g.IDs)
		p, err := all.Merge(t, g)
		if err != nil {
			return nil, none, 0, err
		}
		c, _, _, err := p.Multiply(0, [3]float64{1, 1, 1}, 0)
		if err != nil {
			return nil, none, 0, err
		}
		p.Done()
		logC += c
	}
	order := names.Order()
	ws := all.Beliefs(0, math.NaN(), nil)
	bs := make([]kernels.Belief, len(order))
	for k, id := range order {
		bs[k] = kernels.Belief{Feature: string(names.Name(id)), Weight: ws[id]}
	}
	c, err := all.Covariance(0, order)
	return bs, c, logC, err
}

// adopt gives the features that t does not have yet, ids by o's numbers, the places that
// they have in o.
func (t *tied) adopt(o *tied, ids []uint32) {
	for j, id := range ids {
		if int(id) < len(t.place) {
			continue
		}
		t.place = append(t.place, 0)
		prior := t.prior(int(id))
		p := o.place[j]
		switch {
		case p >= 0:
			t.addBlock(int32(id), prior, prior)
		case o.of[^p] >= 0:
			t.addLeaf(id, int32(t.columnNamed(o.cols[o.of[^p]].text)))
		default:
			t.addLeaf(id, -1)
		}
	}
}

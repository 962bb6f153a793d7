package adf

import (
	"errors"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/stream"
)

// tiedProduct is the product of two arrowheads with a common start.
type tiedProduct struct {
	t, o, start *tied
	from        []int32 // by own feature: number in o, -1 for none
	begun       []int32 // by own feature: number in start
	gained      float64 // change of the evidence of the parts beyond the start's by the common prior variances
	closer      float64 // change of the sum of squares of the start's rows by these, in units of the noise, negated
	*stream.Merging
}

// Merge implements stream.Form: both get the same weights in the same places, with priors for the
// same numbers of levels.
func (t *tied) Merge(of stream.Form, g *stream.Merging) (stream.Product, error) {
	if !g.Brought {
		return nil, nil
	}
	c, _ := of.Clone(g.OtherDict, nil)
	p := &tiedProduct{t: t, o: c.(*tied), Merging: g}
	d := &kernels.Dict{}
	if err := t.plan.Model.Name(d); err != nil {
		return nil, err
	}
	d.UseOf(g.Dict)
	for _, id := range g.Joined {
		if _, err := d.AddRaw(string(g.Dict.Name(id))); err != nil {
			return nil, err
		}
	}
	s, _, err := newTied(t.plan, d)
	if err != nil {
		return nil, err
	}
	p.start = s.(*tied)
	if err := p.start.Grow(d); err != nil {
		return nil, err
	}
	if err := p.shareVariances(); err != nil {
		return nil, err
	}
	g.Prepare(p.start)
	if err := p.meet(); err != nil {
		return nil, err
	}
	p.number(d.Len() - len(g.Joined))
	p.shape()
	t.addHints(p.o, p.start)
	if !g.Seen && t.plan.Drifts {
		p.driftNewLeaves()
	}
	t.recount()
	return p, nil
}

// ShareVariances implements stream.PriorLearner.
func (t *tied) ShareVariances(of stream.Form, adopt bool) (logZ float64, err error) {
	o := of.(*tied)
	if t.vars == nil && o.vars == nil {
		return 0, nil
	}
	v, base := t.minVariances(o), min(t.base, o.base)
	if adopt && o.vars != nil {
		v, base = o.vars, o.base
	}
	t.base = base
	return t.replacePriors(v)
}

// shareVariances gives the start the prior variances of the parts, and fits merged the same ones, as
// their states have.
func (p *tiedProduct) shareVariances() error {
	own, err := p.t.ShareVariances(p.o, !p.Seen)
	if err != nil {
		return err
	}
	other, err := p.o.ShareVariances(p.t, false)
	if err != nil || p.t.vars == nil {
		return err
	}
	s := p.start
	distance := func() float64 {
		far := s.Apart(0, nil)
		return s.Gain(0) + dense.Dot(far, far)
	}
	before := distance()
	gain, err := s.replacePriors(p.t.vars)
	if err != nil {
		return err
	}
	p.gained = own + other - gain
	p.closer = 2*gain + distance() - before
	return nil
}

// number maps own features to those of the other and of the start.
func (p *tiedProduct) number(named int) {
	n := len(p.t.place)
	p.from, p.begun = make([]int32, n), make([]int32, n)
	for id := range p.from {
		p.from[id], p.begun[id] = -1, -1
		if id < named {
			p.begun[id] = int32(id) // the names of the model come first in every state
		}
	}
	for k, id := range p.Joined {
		p.begun[id] = int32(named + k)
	}
	for j := range p.o.place {
		p.from[p.ID(j)] = int32(j)
	}
}

// meet brings all to a common time.
func (p *tiedProduct) meet() error {
	t, o, g := p.t, p.o, p.Merging
	if !t.plan.Drifts {
		return nil
	}
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
			return err
		}
		x.f.now = x.to
		x.f.applyAllDrift(x.to)
	}
	return nil
}

// shape gives all three the same weights in the block and the same columns of levels, and t all
// weights of o.
func (p *tiedProduct) shape() {
	t, o, all := p.t, p.o, []*tied{p.t, p.o, p.start}
	if t.parted() || o.parted() {
		for _, f := range all {
			js, _ := f.removable()
			f.moveToLeaves(js)
		}
	}
	var up [3][]int
	for id := range t.place {
		in := false
		at := [3]int32{t.place[id], absent, absent}
		if j := p.from[id]; j >= 0 {
			at[1] = o.place[j]
		}
		if j := p.begun[id]; j >= 0 {
			at[2] = p.start.place[j]
		}
		for _, q := range at {
			in = in || q >= 0
		}
		for k, q := range at {
			if in && q < 0 && q != absent {
				up[k] = append(up[k], int(^q))
			}
		}
	}
	for k, f := range all {
		f.moveToBlock(up[k])
	}
	for _, oc := range o.cols {
		if oc.mean < 0 {
			continue
		}
		c := int32(t.columnNamed(oc.text, oc.variance))
		if t.cols[c].mean < 0 {
			t.cols[c].levels = max(t.cols[c].levels, oc.levels)
			t.meanOf(c)
		}
		t.widen(c, oc.levels)
	}
	for id, j := range p.from {
		if j < 0 || t.place[id] != absent || o.place[j] == absent {
			continue
		}
		if q := o.place[j]; q >= 0 {
			t.addBlock(int32(id), t.prior(id))
		} else {
			c, start := int32(-1), t.prior(id)
			if oc := o.of[^q]; oc >= 0 {
				c = int32(t.columnNamed(o.cols[oc].text, o.cols[oc].variance))
				start = t.levelPrior(c)
			}
			k := t.addLeaf(uint32(id), c, start)
			if t.plan.Drifts {
				t.touched[k] = p.Clock
			}
		}
	}
	for _, f := range all[1:] {
		for c := range f.cols {
			f.widen(int32(c), t.cols[t.columnNamed(f.cols[c].text, f.cols[c].variance)].levels)
		}
	}
}

// driftNewLeaves makes leaves that begin with the other's rows drift on from the time of these.
func (p *tiedProduct) driftNewLeaves() {
	for l, id := range p.t.owner {
		if j := p.from[id]; j >= 0 && p.o.place[j] < 0 && p.o.place[j] != absent {
			p.t.touched[l] = p.o.touched[^p.o.place[j]]
			if !math.IsNaN(p.t.touched[l]) {
				p.t.touched[l] = p.Clock // on the own clock
			}
		}
	}
}

// columnNamed returns the index in cols of a column, which it adds if it is not there.
func (t *tied) columnNamed(text string, variance float64) int {
	for c := range t.cols {
		if t.cols[c].text == text {
			return c
		}
	}
	t.cols = append(t.cols, levelColumn{text: text, mean: -1, levels: 2, variance: variance})
	return len(t.cols) - 1
}

// Known implements stream.Product.
func (p *tiedProduct) Known(k int) [3]int64 {
	if !p.Seen { // nothing to multiply
		return [3]int64{}
	}
	return [3]int64{p.t.Known(k), p.o.Known(k), p.start.Known(k)}
}

// Multiply implements stream.Product.
func (p *tiedProduct) Multiply(k int, scale [3]float64, logZ float64) (sum, apart, conflict float64, err error) {
	t := p.t
	if !p.Seen { // a state without rows is at the other's start
		if t.bank[k], err = t.aligned(p.o, k, p.from); err == nil {
			t.bank[k].UpdateLeaves()
		}
		return logZ, 0, 0, err
	}
	t.Rescale(k, scale[0])
	p.o.Rescale(k, scale[1])
	p.start.Rescale(k, scale[2])
	o, err := t.aligned(p.o, k, p.from)
	if err != nil {
		return 0, 0, 0, err
	}
	start, err := t.aligned(p.start, k, p.begun)
	if err != nil {
		return 0, 0, 0, err
	}
	if t.plan.Drifts && !t.plan.Model.Forgets() {
		// The start that both share drifts by what both have drifted since.
		passed := max(p.Clock-p.Begun, 0)
		walk := make([]float64, len(t.is))
		for j, id := range t.is {
			if id >= 0 {
				walk[j] = t.rate(k, uint32(id)) * passed
			}
		}
		start.Drift(walk)
		start.UpdateLeaves()
		for l, id := range t.owner {
			if _, q, _ := start.Leaf(l); q > 0 {
				start.Widen(l, t.rate(k, id)*passed)
			}
		}
	}
	b := t.bank[k]
	b.UpdateLeaves()
	h := make([]float64, b.Dim())
	far := func(ma, va, mb, vb float64) {
		if v := va + vb; v > 0 {
			conflict = max(conflict, math.Abs(ma-mb)/math.Sqrt(v))
		}
	}
	for j := range h {
		h[j] = 1
		ma, va := b.Projection(h)
		mb, vb := o.Projection(h)
		far(ma, va, mb, vb)
		h[j] = 0
	}
	for l := range t.owner {
		ma, va := b.Marginal(l)
		mb, vb := o.Marginal(l)
		far(ma, va, mb, vb)
	}
	strain := t.priorDistance(b) + t.priorDistance(o) - t.priorDistance(start)
	logC, apart, err := b.Product(o, start, t.plan.Drifts)
	if !t.plan.Drifts && errors.Is(err, gauss.ErrNotPD) {
		// For the family as a whole, covariance of the leaves that a part leaves out counts as
		// knowledge of the block, and a part of few rows over many leaves can have less than none
		// of it. Its marginals do not.
		logC, apart, err = b.Product(o, start, true)
	}
	if err != nil {
		return 0, 0, 0, err
	}
	return logZ + logC + p.gained, apart + strain - t.priorDistance(b) + p.closer, conflict, nil
}

// priorDistance is the squared distance of the means of b from those of the priors, in prior
// variances.
func (t *tied) priorDistance(b *arrowhead.Belief) (sum float64) {
	for j, m := range b.Mean {
		w := t.blockPrior(j)
		d := m - w.Mean
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

// Done implements stream.Product: weights for which the block has no room leave it.
func (p *tiedProduct) Done() {
	t := p.t
	for c := range t.cols {
		t.cols[c].seen = 0
	}
	for _, c := range t.of {
		if c >= 0 {
			t.cols[c].seen++
		}
	}
	for c := range t.cols {
		t.widen(int32(c), t.cols[c].seen)
	}
	for j, is := range t.is {
		if t.plan.Drifts && is >= 0 {
			t.moves[j] = true
		}
	}
	js, size := t.removable()
	switch most := t.mostJoined(); {
	case !p.Seen: // the block is the other's
	case t.parted():
		t.moveToLeaves(js)
	case size > most:
		t.moveToLeaves(js[max(0, len(js)-(size-most)):])
		if t.parted() {
			js, _ = t.removable()
			t.moveToLeaves(js)
		}
	}
	t.recount()
}

// MergeArrowheads is a kernels.ArrowheadProduct, for fits of one model. out gets the prior
// variances that parts have learnt.
func MergeArrowheads(fits []*kernels.Fit, from, out *kernels.Fit) ([]kernels.Belief, kernels.Covariance, float64, error) {
	var none kernels.Covariance
	var all *tied
	var names *kernels.Dict
	logC, rows, learn := 0.0, int64(0), true
	for _, f := range fits {
		rows += f.N
		learn = learn && variancesOf(f) != nil
		t, d, err := tiedOf(f, from)
		if err != nil {
			return nil, none, 0, err
		}
		if all == nil {
			all, names = t, d
			continue
		}
		g := &stream.Merging{Dict: names, OtherDict: d, Grown: names.Len(), Now: math.NaN(), OtherNow: math.NaN(), Clock: math.NaN(), Begun: math.NaN(), Seen: true, Brought: true, Prepare: func(stream.Form) {}}
		if g.IDs, err = names.Merge(d); err != nil {
			return nil, none, 0, err
		}
		for range names.Len() - len(all.place) {
			all.place = append(all.place, absent)
		}
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
	if learn = learn || all.vars != nil && !all.vars.first; learn {
		logC += all.LearnPriors(rows)
		all.Priors(out, 1)
	}
	all.learn(learn)
	order := names.Order()
	ws := all.Beliefs(0, math.NaN(), nil)
	bs := make([]kernels.Belief, len(order))
	for k, id := range order {
		bs[k] = kernels.Belief{Feature: string(names.Name(id)), Weight: ws[id]}
	}
	c, err := all.Covariance(0, order)
	return bs, c, logC, err
}

// tiedOf returns the beliefs of f, which started from fit from, nil for its own prior, and the
// names of their features.
func tiedOf(f, from *kernels.Fit) (*tied, *kernels.Dict, error) {
	m := &kernels.Model{Prior: f.Prior.Literal(), NoIntercept: !f.Intercept, HashBits: f.HashBits, Options: kernels.Options{Covariance: "arrowhead"}, Start: from}
	m.Options.AutoPrior = from != nil && variancesOf(from) != nil
	if variancesOf(f) == nil {
		m.PriorBy = f.GivenVariances()
	}
	var err error
	if m.Lik, err = f.Likelihood(); err != nil {
		return nil, nil, err
	}
	s, err := NewTied(m)
	if err != nil {
		return nil, nil, err
	}
	d := s.Features()
	d.Use(f.NameColumns())
	for _, b := range f.Beliefs {
		if _, err := d.AddRaw(b.Feature); err != nil {
			return nil, nil, err
		}
	}
	t := s.Beliefs().(*tied)
	*t = tied{plan: t.plan, named: t.named, vars: variancesOf(f), dict: d, bank: []*arrowhead.Belief{arrowhead.New(nil, nil)}, now: math.NaN(), base: kernels.DefaultPrior.Variance}
	if err := t.resume(f); err != nil {
		return nil, nil, err
	}
	t.readHints(f)
	return t, d, nil
}

// learn sets whether the prior variances of t are learnt from here on.
func (t *tied) learn(is bool) {
	own, m := *t.plan, *t.plan.Model
	m.Options.AutoPrior = is
	own.Model = &m
	t.plan = &own
}

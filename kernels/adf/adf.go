// Package adf is assumed density filtering: one pass over the rows, one Gaussian per weight, all of
// them tied to a small dense block (NewTied) or factorised (New).
//
// With factorised beliefs, a row with linear predictor s = Σ x_j w_j + offset has s ~ N(m, v),
// m = Σ x_j μ_j + offset, v = Σ x_j² σ_j². The tilted moments of s under p(y | s) are distributed
// over the weights of the row,
//
//	μ_j += x_j σ_j² α          α =  ∂ log Z / ∂m
//	σ_j² -= (x_j σ_j²)² β      β = -∂² log Z / ∂m²
//
// which is the one-step unscented Kalman filter of Zoeter (2007), section 2, eq. 17: with a_j = x_j
// σ_j² / v the change of the predictor's mean is distributed as a_j and that of its variance as
// a_j². Between rows the weights drift as a random walk, applied when a weight is next used.
package adf

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
	"github.com/bglm/bglm/kernels/stream"
)

// New returns the state of the filter before the first row. A row costs O(non-zeros).
// Errors: automatic process noise with forgetting; those of stream.New.
func New(m *kernels.Model) (*stream.State, error) {
	m = m.Complete()
	if m.Options.AutoNoise && m.Forgets() {
		return nil, errors.New("process_noise = 'auto' and forgetting are two models of drift; give one of them")
	}
	return stream.New(stream.Config{Model: m, Rule: stream.ADF{}, Form: newFactors})
}

// factors is a bank of factorised beliefs.
type factors struct {
	*start
	w    []kernels.Weight // of the first belief
	meet bool             // a row has correlated weights, which the beliefs do not represent
	ties bool             // the row last predicted does so; only if the dispersion is learnt
	rest *rest            // nil with one belief, no drift, nothing learnt and one prior
}

// start is what the beliefs of one model began with. It is immutable.
type start struct {
	plan  *stream.Plan
	prior []kernels.Weight // of the named features
	base  []kernels.Weight // starting beliefs; nil if they are the prior
}

// rest is what factors hold besides one mean and variance per weight.
type rest struct {
	more    [][]kernels.Weight // of the other beliefs of the bank
	touched []float64          // with drift: when each weight was last brought forward, NaN if not yet
	drifted [][]float64        // with drift, by belief: the total variance it has added to each weight
	now     float64            // with drift: the time of the last row
	known   []int64            // by belief, if the dispersion is learnt
	dict    *kernels.Dict
	scale   []float64 // by feature: the scale of its numbers, 0 for none
}

// only reports whether there is one belief, without drift and learning.
func (r *rest) only() bool {
	return r.more == nil && r.touched == nil && r.drifted == nil && r.known == nil
}

// few is the number of weights stored with their state.
const few = 4

// small is a state of few weights in one allocation.
type small struct {
	state stream.State
	factors
	w [few]kernels.Weight
}

func newFactors(p *stream.Plan, d *kernels.Dict) (stream.Form, *stream.State, error) {
	c := &start{plan: p}
	for id := range d.Len() {
		c.prior = append(c.prior, p.Fresh(d, id))
	}
	put := func(w []kernels.Weight, bs []kernels.Belief) {
		for _, b := range bs {
			if id, ok := d.Find(b.Feature); ok {
				w[id] = b.Weight
			}
		}
	}
	m := p.Model
	put(c.prior, m.Priors)
	if m.Start != nil {
		c.base = slices.Clone(c.prior)
		put(c.base, m.Start.Beliefs) // a posterior overrides a prior
	}
	s := &small{factors: factors{start: c}}
	f := &s.factors
	f.w = append(s.w[:0], c.startingBeliefs()...)
	if p.Drifts || p.Learns || len(p.Rates) > 1 || !p.OnePrior() {
		f.rest = &rest{dict: d}
	}
	for range p.Rates[1:] {
		f.rest.more = append(f.rest.more, slices.Clone(f.w))
	}
	if p.Learns {
		f.rest.known = make([]int64, len(p.Rates))
		for k := range p.Rates {
			f.count(k)
		}
	}
	if p.Drifts {
		f.rest.drifted = make([][]float64, len(p.Rates))
		f.growDrift(len(f.w))
	}
	return f, &s.state, nil
}

// startingBeliefs returns the starting beliefs of the named features.
func (c *start) startingBeliefs() []kernels.Weight {
	if c.base != nil {
		return c.base
	}
	return c.prior
}

// first is the starting belief of feature id: the prior that parts of a run share.
func (f *factors) first(id int) kernels.Weight {
	if w := f.startingBeliefs(); id < len(w) {
		return w[id]
	}
	return f.fresh(id)
}

// fresh is the prior of feature id, which is not named.
func (f *factors) fresh(id int) kernels.Weight {
	if f.rest == nil {
		return f.plan.Fresh(nil, id)
	}
	return f.plan.Fresh(f.rest.dict, id)
}

// target is the prior of feature id, to which forgetting returns it. For numbers it is the prior of
// the weight in their scale, converted to the original numbers.
func (f *factors) target(id int) kernels.Weight {
	w := f.prior0(id)
	if s := f.unit(id); s > 0 {
		w.Mean /= s
		w.Variance /= s * s
	}
	return w
}

// unit is the scale of feature id's numbers, 0 if there is none.
func (f *factors) unit(id int) float64 {
	if f.rest == nil || id >= len(f.rest.scale) {
		return 0
	}
	return f.rest.scale[id]
}

// Numbers implements stream.Form: numbers are not transformed, because a factorised belief at
// another centre would not be factorised at the original one.
func (f *factors) Numbers(uint32) stream.Numbers { return stream.Raw }

// Unit implements stream.Form.
func (f *factors) Unit(uint32) (stream.Unit, bool) { return stream.Unit{}, false }

// Recast implements stream.Form: it adds the change of the priors.
func (f *factors) Recast(k int, r *stream.Recast) (logZ float64) {
	if f.rest == nil {
		f.rest = &rest{}
	}
	w := *f.weights(k)
	for len(f.rest.scale) < len(w) {
		f.rest.scale = append(f.rest.scale, 0)
	}
	f.applyDrift(r.IDs)
	for i, id := range r.IDs {
		p, a := f.prior0(int(id)), &w[id]
		old, now := r.Old[i].Scale, r.New[i].Scale
		f.rest.scale[id] = now
		if old == 0 {
			*a = f.target(int(id))
			continue
		}
		delta := (now - old) * (now + old) / p.Variance
		if delta == 0 || a.Variance == 0 {
			continue
		}
		about := p.Mean / (now + old)
		if t, ok := stream.Pin(a.Mean, a.Variance, delta, about); ok {
			a.Mean += a.Variance * t.Alpha
			a.Variance *= t.Ratio
			logZ += t.LogZ + math.Log(now/old)
		}
	}
	if r.Enters {
		f.count(k)
	}
	return logZ
}

// prior0 is the prior of feature id for numbers in their scale.
func (f *factors) prior0(id int) kernels.Weight {
	if id < len(f.prior) {
		return f.prior[id]
	}
	return f.fresh(id)
}

// Stretch implements stream.Form.
func (f *factors) Stretch(k int, ratio float64) {
	f.applyAllDrift()
	ws := *f.weights(k)
	for id := range ws {
		w := &ws[id]
		w.Mean *= ratio
		if p := f.target(id); p.Mean != 0 {
			w.Mean += w.Variance * stream.Back(p, w.Variance, ratio).Alpha
		}
	}
}

// Lift implements stream.Form.
func (f *factors) Lift(k int, shift float64) { (*f.weights(k))[0].Mean += shift }

// weights returns the weights of belief k.
func (f *factors) weights(k int) *[]kernels.Weight {
	if k == 0 {
		return &f.w
	}
	return &f.rest.more[k-1]
}

// Grow implements stream.Form.
func (f *factors) Grow(d *kernels.Dict) error {
	if f.rest != nil {
		f.rest.dict = d
	}
	n := d.Len()
	if len(f.w) >= n {
		return nil
	}
	for k := range f.plan.Rates {
		w := f.weights(k)
		*w = memory.Grow(*w, n-len(*w))
		for id := len(*w); id < n; id++ {
			*w = append(*w, f.plan.Fresh(d, id))
		}
	}
	if f.plan.Drifts {
		f.growDrift(n)
	}
	return nil
}

// growDrift allocates the drift of n features.
func (f *factors) growDrift(n int) {
	r := f.rest
	for len(r.touched) < n {
		r.touched = append(r.touched, math.NaN())
	}
	for k := range r.drifted {
		r.drifted[k] = append(r.drifted[k], make([]float64, n-len(r.drifted[k]))...)
	}
}

// Begin implements stream.Form.
func (f *factors) Begin(t float64) {
	f.rest.now = t
	for id := range f.plan.Named {
		f.rest.touched[id] = t
	}
}

// Drift implements stream.Form.
func (f *factors) Drift(_, to float64, fs []uint32) error {
	f.rest.now = to
	for _, id := range fs {
		f.advance(int(id), to)
	}
	return nil
}

// applyDrift applies the drift that these features have not received yet, in the units that it was
// in, before they change other than by a row: a run continued from a fit has it by then, too.
func (f *factors) applyDrift(ids []uint32) {
	if !f.plan.Drifts {
		return
	}
	for _, id := range ids {
		f.advanceToLast(int(id))
	}
}

// applyAllDrift is applyDrift for all features.
func (f *factors) applyAllDrift() {
	if !f.plan.Drifts {
		return
	}
	for id := range f.rest.touched {
		f.advanceToLast(id)
	}
}

// advanceToLast brings feature id to the time of the last row, if a row had it.
func (f *factors) advanceToLast(id int) {
	if id < len(f.rest.touched) && f.rest.touched[id] < f.rest.now {
		f.advance(id, f.rest.now)
	}
}

// advance brings feature id to time t.
func (f *factors) advance(id int, t float64) {
	r := f.rest
	for k := range f.plan.Rates {
		ws := *f.weights(k)
		w, added := f.advanced(k, id, t)
		if r.known != nil {
			v0 := f.target(id).Variance
			r.known[k] += lik.Determined(w.Variance, v0) - lik.Determined(ws[id].Variance, v0)
		}
		ws[id] = w
		r.drifted[k][id] += added
	}
	if !(r.touched[id] >= t) { // also NaN
		r.touched[id] = t
	}
}

// advanced returns feature id under belief k at time t, and the variance that drift added.
func (f *factors) advanced(k, id int, t float64) (w kernels.Weight, added float64) {
	w = (*f.weights(k))[id]
	dt := t - f.rest.touched[id]
	if !(dt > 0) || w.Variance == 0 { // a known weight stays known
		return w, 0
	}
	m := f.plan.Model
	if m.Forgets() {
		p := f.forget(w, f.target(id), dt)
		return p, p.Variance - w.Variance
	}
	q := f.plan.Rates[k]
	if m.NoiseBy != nil {
		q = m.NoiseBy[string(f.rest.dict.Name(uint32(id)))]
	}
	if s := f.unit(id); s > 0 {
		q /= s * s
	}
	added = q * dt
	w.Variance = min(w.Variance+added, math.MaxFloat64)
	return w, added
}

// forget is belief w after forgetting towards its prior p for time dt.
func (f *factors) forget(w, p kernels.Weight, dt float64) kernels.Weight {
	if w.Variance == 0 || p.Variance == 0 {
		return w
	}
	l := math.Pow(f.plan.Model.Forgetting, dt)
	lam := l/w.Variance + (1-l)/p.Variance
	return kernels.Weight{Mean: p.Mean + l*(w.Mean-p.Mean)/(w.Variance*lam), Variance: 1 / lam}
}

// nearWeights is the number of weights that fit into the near caches.
const nearWeights = 1 << 15

// Fetch implements stream.Far.
func (f *factors) Fetch(fs []uint32) bool {
	if len(f.w) > nearWeights {
		dense.Fetch(f.w, fs)
		return true
	}
	return false
}

// Predict implements stream.Form.
func (f *factors) Predict(k int, fs []uint32, xs []float64, shift float64) (m, v float64) {
	xs = xs[:len(fs)]
	w := *f.weights(k)
	if f.plan.Learns {
		f.ties = meet(w, fs, xs)
	}
	m = shift
	for e, id := range fs {
		x, wf := xs[e], &w[id]
		m += x * wf.Mean
		v += x * x * wf.Variance
	}
	return m, v
}

// Loose implements stream.Loose: the weights of a row stay independent.
func (f *factors) Loose() bool { return f.ties }

// Absorb implements stream.Form: it distributes the tilted moments over the row's weights.
func (f *factors) Absorb(k int, fs []uint32, xs []float64, v float64, t lik.Tilted) {
	learns := f.plan.Learns
	if learns {
		f.rest.known[k] -= f.determinedAmong(k, fs)
	}
	xs = xs[:len(fs)]
	w := *f.weights(k)
	if !f.meet {
		f.meet = meet(w, fs, xs)
	}
	inv := 1 / v
	for e, id := range fs {
		x, wf := xs[e], &w[id]
		xv := x * wf.Variance
		a := x * xv * inv
		rest := 1 - a
		if rest < 0 || len(fs) == 1 {
			rest = 0
		}
		if len(fs) == 1 {
			a = 1
		}
		wf.Mean += xv * t.Alpha
		wf.Variance *= rest + a*t.Ratio
	}
	if learns {
		f.rest.known[k] += f.determinedAmong(k, fs)
	}
}

// Extend implements stream.Form.
func (f *factors) Extend(p *stream.Plan, at, from int) error {
	own, r := *f.start, f.rest
	own.plan, f.start = p, &own
	r.more = slices.Insert(r.more, at-1, slices.Clone(*f.weights(from)))
	r.drifted = slices.Insert(r.drifted, at, slices.Clone(r.drifted[from]))
	if r.known != nil {
		r.known = slices.Insert(r.known, at, r.known[from])
	}
	return nil
}

// Rest implements stream.Form.
func (f *factors) Rest() {}

// determinedAmong is the number of the weights fs that the data determine, in units of
// lik.Determined.
func (f *factors) determinedAmong(k int, fs []uint32) (known int64) {
	w := *f.weights(k)
	for _, id := range fs {
		known += lik.Determined(w[id].Variance, f.target(int(id)).Variance)
	}
	return known
}

// Known implements stream.Form.
func (f *factors) Known(k int) int64 { return f.rest.known[k] }

// Determined implements stream.Form: the count is updated with every change.
func (f *factors) Determined(k int) int64 { return f.rest.known[k] }

// count recounts the weights of belief k that the data determine.
func (f *factors) count(k int) {
	if f.plan.Learns {
		f.rest.known[k] = f.Count(k)
	}
}

// Count implements stream.Counter.
func (f *factors) Count(k int) (n int64) {
	for id, w := range *f.weights(k) {
		n += lik.Determined(w.Variance, f.target(id).Variance)
	}
	return n
}

// SetKnown implements stream.Counter.
func (f *factors) SetKnown(k int, n int64) { f.rest.known[k] = n }

// Rescale implements stream.Form.
func (f *factors) Rescale(k int, lambda float64) {
	f.applyAllDrift()
	w := *f.weights(k)
	for id := range w {
		w[id] = rescaled(w[id], f.target(id), lambda)
	}
	f.count(k)
}

// rescaled is Λ0 + λ(Λ - Λ0) for a belief w with prior p. A weight that drifted past its prior has
// no contribution of the data to multiply.
func rescaled(w, p kernels.Weight, lambda float64) kernels.Weight {
	if !(w.Variance < p.Variance) || w.Variance == 0 {
		return w
	}
	shrink := lambda + (1-lambda)*(w.Variance/p.Variance)
	return kernels.Weight{Mean: p.Mean + lambda*(w.Mean-p.Mean)/shrink, Variance: w.Variance / shrink}
}

// Linear implements stream.Form.
func (f *factors) Linear(k int, b *kernels.Batch, _ float64, at func(int) float64, mean, variance []float64) error {
	ws := *f.weights(k)
	for i := range b.Len() {
		t := at(i)
		m, v := b.Shift(i), 0.0
		fs, xs := b.Entries(i)
		for e, id := range fs {
			x, w := xs[e], ws[id]
			if f.plan.Drifts {
				w, _ = f.advanced(k, int(id), t)
			}
			m += x * w.Mean
			v += x * x * w.Variance
		}
		mean[i], variance[i] = m, v
	}
	return nil
}

// Beliefs implements stream.Form.
func (f *factors) Beliefs(k int, now float64, dst []kernels.Weight) []kernels.Weight {
	n := len(dst)
	dst = append(dst, *f.weights(k)...)
	if f.plan.Drifts {
		for id := range dst[n:] {
			dst[n+id], _ = f.advanced(k, id, now)
		}
	}
	return dst
}

// Covariance implements stream.Form: it is diagonal.
func (f *factors) Covariance(int, []uint32) (kernels.Covariance, error) {
	return kernels.Covariance{}, nil
}

// Clone implements stream.Form.
func (f *factors) Clone(d *kernels.Dict, old stream.Form) (stream.Form, *stream.State) {
	if c, ok := old.(*factors); ok && (f.rest == nil || f.rest.only()) && (c.rest == nil || c.rest.only()) {
		w, r := c.w, c.rest
		*c = *f
		c.w, c.rest = append(w[:0], f.w...), r
		if r != nil {
			r.scale = r.scale[:0]
		}
		if f.rest != nil {
			if r == nil {
				c.rest = &rest{}
			}
			c.rest.dict, c.rest.scale = d, append(c.rest.scale, f.rest.scale...)
		}
		return c, nil
	}
	s := &small{factors: *f}
	c := &s.factors
	c.w = append(s.w[:0], f.w...)
	if f.rest != nil {
		r := *f.rest
		r.dict = d
		r.touched, r.known, r.scale = slices.Clone(r.touched), slices.Clone(r.known), slices.Clone(r.scale)
		r.more, r.drifted = slices.Clone(r.more), slices.Clone(r.drifted)
		for k := range r.more {
			r.more[k] = slices.Clone(r.more[k])
		}
		for k := range r.drifted {
			r.drifted[k] = slices.Clone(r.drifted[k])
		}
		c.rest = &r
	}
	return c, &s.state
}

// Size implements stream.Form.
func (f *factors) Size() int64 {
	n := int64(384)
	if cap(f.w) > few {
		n += 16 * int64(cap(f.w))
	}
	if r := f.rest; r != nil {
		n += 128 + 8*int64(cap(r.touched)+cap(r.known)+cap(r.scale))
		for _, w := range r.more {
			n += 24 + 16*int64(cap(w))
		}
		for _, d := range r.drifted {
			n += 24 + 8*int64(cap(d))
		}
	}
	return n
}

// Reserve implements stream.Form.
func (f *factors) Reserve(int64, string) (*memory.Grant, error) { return nil, nil }

// Under implements stream.Form: no step is long.
func (f *factors) Under(*stop.Stop) {}

// meet reports whether a row correlates weights: two or more uncertain ones have values other than
// 0.
func meet(w []kernels.Weight, fs []uint32, xs []float64) bool {
	n := 0
	for e, id := range fs {
		if xs[e] != 0 && w[id].Variance > 0 {
			n++
		}
	}
	return n > 1
}

// Status implements stream.Form.
func (f *factors) Status(int) string {
	if f.meet {
		return kernels.FactorisedNote
	}
	return ""
}

// product is the product of f and o.
type product struct {
	f, o  *factors
	start *factors // in the units of both, if numbers have units
	*stream.Merging
}

// Merge implements stream.Form.
func (f *factors) Merge(o stream.Form, g *stream.Merging) (stream.Product, error) {
	p := &product{f, o.(*factors), nil, g}
	f.meet = f.meet || p.o.meet
	if !g.Brought {
		return nil, nil
	}
	if g.Seen && f.rest != nil && f.rest.scale != nil {
		start, _, err := newFactors(f.plan, g.Dict)
		if err != nil {
			return nil, err
		}
		if err := start.Grow(g.Dict); err != nil {
			return nil, err
		}
		p.start = start.(*factors)
		g.Prepare(p.start)
	}
	if f.plan.Drifts {
		for id := range g.Grown {
			f.advance(id, g.Clock)
		}
	}
	return p, nil
}

// Known implements stream.Product.
func (p *product) Known(k int) (known [3]int64) {
	if !p.Seen { // nothing to multiply
		return known
	}
	known[0], known[1] = p.f.Known(k), p.o.Known(k)
	for id, w := range p.f.base {
		known[2] += lik.Determined(w.Variance, p.f.target(id).Variance)
	}
	return known
}

// Multiply implements stream.Product.
func (p *product) Multiply(k int, scale [3]float64, logZ float64) (sum, apart, conflict float64, err error) {
	f, o := p.f, p.o
	if !p.Seen {
		p.copyBelief(k)
		return logZ, 0, 0, nil
	}
	if scale[0] != 1 {
		f.Rescale(k, scale[0])
	}
	if !f.plan.Drifts && !f.plan.Learns && scale == [3]float64{1, 1, 1} && len(*o.weights(k)) > mergeBlock {
		return p.plain(k, logZ)
	}
	own, at := *f.weights(k), p.otherTime()
	for j, q := range *o.weights(k) {
		id, added := p.ID(j), 0.0
		if f.plan.Drifts {
			q, added = o.advanced(k, j, at)
			added += o.rest.drifted[k][j]
		}
		if scale[1] != 1 {
			q = rescaled(q, f.target(id), scale[1])
		}
		if id >= p.Grown {
			own[id] = q
			if f.plan.Drifts {
				f.rest.drifted[k][id] = added
			}
			continue
		}
		a := own[id]
		if v := a.Variance + q.Variance; v > 0 {
			conflict = max(conflict, math.Abs(a.Mean-q.Mean)/math.Sqrt(v))
		}
		s := p.shared(k, id, added, scale[2])
		w, c, ok := kernels.Merge(a, q, s)
		if !ok {
			return 0, 0, 0, fmt.Errorf("feature %q has no proper product (variances %v and %v, prior %v)",
				p.Dict.Name(uint32(id)), a.Variance, q.Variance, s.Variance)
		}
		own[id] = w
		logZ += c
		if f.plan.Learns && s.Variance > 0 && w.Variance > 0 {
			// log ∫ q_a q_b / p0 without its determinants and its part from the prior
			far := math.Log(w.Variance/a.Variance) + math.Log(s.Variance/q.Variance) - 2*c
			t := f.target(id)
			apart += far + (strain(a, t) + strain(q, t) - strain(s, t) - strain(w, t))
		}
	}
	if f.plan.Learns {
		f.count(k)
	}
	return logZ, apart, conflict, nil
}

// otherTime is the time, on the other's clock, to which both are brought.
func (p *product) otherTime() float64 {
	if p.f.plan.Model.HasTime {
		return p.Clock
	}
	return p.OtherNow
}

// copyBelief sets own belief k to the other's: a state without rows is at the other's start.
func (p *product) copyBelief(k int) {
	f, o := p.f, p.o
	own, at := *f.weights(k), p.otherTime()
	for j, w := range *o.weights(k) {
		id, added := p.ID(j), 0.0
		if f.plan.Drifts {
			w, added = o.advanced(k, j, at)
			f.rest.drifted[k][id] = added + o.rest.drifted[k][j]
		}
		own[id] = w
	}
	if f.plan.Learns {
		f.count(k)
	}
}

// mergeBlock is the number of weights worth a goroutine.
const mergeBlock = 1 << 14

// plain is Multiply without drift and learning: large blocks of weights are multiplied in parallel,
// and the evidence is summed in their order.
func (p *product) plain(k int, logZ float64) (sum, _, conflict float64, err error) {
	const block = mergeBlock
	other := *p.o.weights(k)
	gain := make([]float64, min(len(other), 4*block))
	type part struct {
		conflict float64
		bad      int // the first weight without a proper product, -1 for none
	}
	for lo := 0; lo < len(other); lo += len(gain) {
		n := min(len(gain), len(other)-lo)
		parts := make([]part, (n+block-1)/block)
		dense.Each(len(parts), func(i int) {
			from, to := i*block, min((i+1)*block, n)
			parts[i].bad = -1
			var known [256]kernels.Weight // own weights, read together, so that their cache misses overlap
			for ; from < to && parts[i].bad < 0; from += len(known) {
				some := gain[from:min(from+len(known), to)]
				parts[i].conflict, parts[i].bad = p.multiplySome(k, lo+from, some, known[:len(some)], parts[i].conflict)
			}
		})
		for i := range parts {
			if j := parts[i].bad; j >= 0 {
				return 0, 0, 0, p.improper(k, j)
			}
			conflict = max(conflict, parts[i].conflict)
		}
		for _, c := range gain[:n] {
			logZ += c
		}
	}
	return logZ, 0, conflict, nil
}

// multiplySome is plain for len(gain) weights of the other from number lo on. It sets gain to the
// change of the evidence by each; a is memory for the own weights. bad is the first weight without
// a proper product, -1 for none; conflict is the largest so far.
func (p *product) multiplySome(k, lo int, gain []float64, a []kernels.Weight, conflict float64) (_ float64, bad int) {
	own, other := *p.f.weights(k), (*p.o.weights(k))[lo:lo+len(gain)]
	a = a[:len(gain)]
	for j := range gain {
		if id := p.ID(lo + j); id < p.Grown {
			a[j] = own[id]
		}
	}
	for j, q := range other {
		id := p.ID(lo + j)
		if gain[j] = 0; id >= p.Grown {
			own[id] = q
			continue
		}
		a := a[j]
		if v := a.Variance + q.Variance; v > 0 {
			conflict = max(conflict, math.Abs(a.Mean-q.Mean)/math.Sqrt(v))
		}
		w, c, ok := kernels.Merge(a, q, p.shared(k, id, 0, 1))
		if !ok {
			return conflict, lo + j
		}
		own[id], gain[j] = w, c
	}
	return conflict, -1
}

// improper is the error for weight j of the other part, whose product with the own one is improper.
func (p *product) improper(k, j int) error {
	id := p.ID(j)
	return fmt.Errorf("feature %q has no proper product (variances %v and %v, prior %v)",
		p.Dict.Name(uint32(id)), (*p.f.weights(k))[id].Variance, (*p.o.weights(k))[j].Variance, p.shared(k, id, 0, 1).Variance)
}

// shared is the belief from which both parts started with feature id, at the common time and
// dispersion; added is the variance that the other's drift added to it.
func (p *product) shared(k, id int, added, scale float64) kernels.Weight {
	f := p.f
	w := f.first(id)
	if p.start != nil && f.unit(id) > 0 {
		if w = p.start.w[id]; p.start.unit(id) == 0 {
			w = f.target(id)
		}
	}
	if scale != 1 {
		w = rescaled(w, f.target(id), scale)
	}
	switch {
	case !f.plan.Drifts || w.Variance == 0:
	case f.plan.Model.Forgets():
		w = f.forget(w, f.target(id), p.Clock-p.Begun)
	default:
		d := &f.rest.drifted[k][id]
		*d = max(*d, added)
		w.Variance += *d
	}
	return w
}

// Done implements stream.Product.
func (p *product) Done() {
	if p.f.plan.Drifts {
		for j := range p.o.w { // a name may exist without a row yet
			p.f.rest.touched[p.ID(j)] = p.Clock
		}
	}
}

// strain is the squared distance of w from its prior p, in prior variances.
func strain(w, p kernels.Weight) float64 {
	if p.Variance == 0 {
		return 0
	}
	return (w.Mean - p.Mean) * ((w.Mean - p.Mean) / p.Variance)
}

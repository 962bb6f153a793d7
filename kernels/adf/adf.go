// Package adf is assumed density filtering with factorised beliefs: one pass
// over the rows, one Gaussian per weight.
//
// For a row with linear predictor s = Σ x_j w_j + offset the belief gives
// s ~ N(m, v), m = Σ x_j μ_j + offset, v = Σ x_j² σ_j². The tilted moments of s
// under p(y | s) are shared back over the weights of the row,
//
//	μ_j += x_j σ_j² α          α =  ∂ log Z / ∂m
//	σ_j² -= (x_j σ_j²)² β      β = -∂² log Z / ∂m²
//
// which is the one-step unscented Kalman filter of Zoeter (2007), section 2,
// eq. 17: with a_j = x_j σ_j² / v the change of the predictor's mean and
// variance is shared as a_j and a_j². Between rows the weights drift as a random
// walk, applied when a weight is next touched.
//
// Automatic process noise runs a bank of such filters side by side, one for each
// rate of Model.NoiseGrid, over one dictionary and one reading of the rows. The
// answer is the filter of the largest log evidence, the innovation likelihood of its
// rate. All of them are merged and cloned, none is dropped, so that the choice is a
// function of the rows alone. A run continued from a fit starts all of them from
// its beliefs. Cost: the bank's size (10) times that of one filter.
package adf

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// MaxConflict is how far, in standard deviations, merged beliefs of a weight may
// lie apart before the status says so: six sigma does not happen by chance.
const MaxConflict = 6

// State is the filter's state. The zero State is not ready: use New.
type State struct {
	cfg  *kernels.Model
	Dict kernels.Dict
	bank []filter         // one; with automatic noise one for each rate tried
	one  [1]filter        // its memory where it is one
	base []kernels.Weight // where the first len(base) features started
	rest []kernels.Weight // their priors, which forgetting goes back to; nil without it

	drifts       bool
	touched      []float64 // with drift: when each weight was last brought forward, NaN = not yet
	begun, clock float64   // times of the start and of the latest row; NaN before the first

	n, skipped, late, merged int64
}

// filter is the beliefs under one rate of drift.
type filter struct {
	q        float64 // random-walk variance per unit of time, unless the model gives it by feature
	w        []kernels.Weight
	drifted  []float64 // with drift: how much variance it has added to each weight in all
	logZ     float64
	conflict float64 // largest |μa - μb| / sqrt(σa² + σb²) met in a merge

	lik      lik.Likelihood
	learning *lik.Learning // lik, where the dispersion is learnt
	known    int64         // then how many weights the data determine, in units of lik.Determined

	tilt lik.Tilted // of the row at hand, and the predictor it met
	m, v float64
}

// New returns the state before the first row.
// Errors: more start beliefs than MaxFeatures; automatic process noise beside
// forgetting; an automatic dispersion of a family that has none to learn by rows.
func New(cfg *kernels.Model) (*State, error) {
	cfg = cfg.Complete()
	s := &State{cfg: cfg, drifts: cfg.Drifts() || cfg.Options.AutoNoise, begun: math.NaN(), clock: math.NaN()}
	if cfg.Options.AutoNoise && cfg.Forgets() {
		return nil, fmt.Errorf("process_noise = 'auto' and forgetting are two models of drift; give one of them")
	}
	var learning *lik.Learning
	if cfg.Options.AutoDispersion {
		n := int64(0)
		if cfg.Start != nil {
			n = cfg.Start.N
		}
		var err error
		if learning, err = lik.NewLearning(cfg.Lik, n); err != nil {
			return nil, err
		}
	}
	if err := cfg.Name(&s.Dict); err != nil {
		return nil, err
	}
	w := make([]kernels.Weight, 0, max(s.Dict.Len(), 4)) // one allocation for a small group
	for id := range s.Dict.Len() {
		w = append(w, s.fresh(id))
	}
	put := func(bs []kernels.Belief) {
		for _, b := range bs {
			if id, ok := s.Dict.Find(b.Feature); ok {
				w[id] = b.Weight
			}
		}
	}
	put(cfg.Priors)
	if cfg.Forgets() || learning != nil {
		s.rest = append([]kernels.Weight(nil), w...)
	}
	if f := cfg.Start; f != nil {
		put(f.Beliefs) // a posterior knows better than a prior
	}
	if len(cfg.Priors) > 0 || cfg.Start != nil {
		s.base = append([]kernels.Weight(nil), w...)
	}
	logZ := 0.0
	if f := cfg.Start; f != nil {
		s.n, s.skipped, logZ = f.N, f.Skipped, f.LogEvidence
		if cfg.HasTime && !math.IsNaN(f.Time) {
			s.clock = f.Time
		} else if f.N > 0 && !cfg.HasTime {
			s.clock = 0 // the next row is one step later
		}
		s.begun = s.clock
	}
	rates := []float64{cfg.Noise}
	if cfg.Options.AutoNoise {
		rates = cfg.NoiseGrid()
	}
	s.bank = s.one[:0]
	for k, q := range rates {
		if k > 0 {
			w = append([]kernels.Weight(nil), w...)
		}
		s.bank = append(s.bank, filter{q: q, w: w, logZ: logZ, lik: cfg.Lik})
	}
	if learning != nil {
		for k := range s.bank {
			b := &s.bank[k]
			b.learning = learning.Clone()
			b.lik = b.learning
			b.known = s.determined(b)
		}
	}
	if s.drifts {
		s.born(len(w))
		if !math.IsNaN(s.clock) {
			for i := range s.touched {
				s.touched[i] = s.clock
			}
		}
	}
	return s, nil
}

// determined is how many weights of b the data determine, in units of lik.Determined.
func (s *State) determined(b *filter) (known int64) {
	for id, w := range b.w {
		known += lik.Determined(w.Variance, s.target(id).Variance)
	}
	return known
}

// rescale multiplies by λ what the data have added to the precisions of b.
func (s *State) rescale(b *filter, lambda float64) {
	if lambda == 1 {
		return
	}
	for id := range b.w {
		b.w[id] = rescaled(b.w[id], s.target(id), lambda)
	}
	b.known = s.determined(b)
}

// rescaled is Λ0 + λ(Λ - Λ0) for a belief w of prior p. A weight that drifted past its
// prior has nothing of the data's to multiply.
func rescaled(w, p kernels.Weight, lambda float64) kernels.Weight {
	if !(w.Variance < p.Variance) || w.Variance == 0 {
		return w
	}
	shrink := lambda + (1-lambda)*(w.Variance/p.Variance)
	return kernels.Weight{Mean: p.Mean + lambda*(w.Mean-p.Mean)/shrink, Variance: w.Variance / shrink}
}

func (s *State) born(n int) {
	for len(s.touched) < n {
		s.touched = append(s.touched, math.NaN())
	}
	for k := range s.bank {
		for b := &s.bank[k]; len(b.drifted) < n; {
			b.drifted = append(b.drifted, 0)
		}
	}
}

// best is the filter of the largest log evidence, the least drift among equals.
func (s *State) best() *filter {
	best := &s.bank[0]
	for k := range s.bank {
		if s.bank[k].logZ > best.logZ {
			best = &s.bank[k]
		}
	}
	return best
}

// start is where feature id started: the prior that parts of a run share.
func (s *State) start(id int) kernels.Weight {
	if id < len(s.base) {
		return s.base[id]
	}
	return s.fresh(id)
}

// target is the prior that forgetting takes feature id back to.
func (s *State) target(id int) kernels.Weight {
	if id < len(s.rest) {
		return s.rest[id]
	}
	return s.fresh(id)
}

// fresh is the prior of a feature that was not named.
func (s *State) fresh(id int) kernels.Weight {
	if id == 0 && !s.cfg.NoIntercept {
		return kernels.Weight{Mean: s.cfg.Prior.Mean, Variance: s.cfg.Prior.InterceptVariance}
	}
	return kernels.Weight{Mean: s.cfg.Prior.Mean, Variance: s.cfg.Prior.Variance}
}

// Grow gives features that the dictionary has learnt their prior.
func (s *State) Grow() {
	n := s.Dict.Len()
	if len(s.bank[0].w) >= n {
		return
	}
	p := kernels.Weight{Mean: s.cfg.Prior.Mean, Variance: s.cfg.Prior.Variance}
	for k := range s.bank {
		for b := &s.bank[k]; len(b.w) < n; {
			b.w = append(b.w, p)
		}
	}
	if s.drifts {
		s.born(n)
	}
}

// forward is the belief of feature id at time t, and the variance drift added.
func (s *State) forward(b *filter, id int, t float64) (w kernels.Weight, added float64) {
	w = b.w[id]
	dt := t - s.touched[id]
	if !(dt > 0) || w.Variance == 0 { // a known weight stays known
		return w, 0
	}
	if s.cfg.Forgets() {
		p := s.settle(w, s.target(id), dt)
		return p, p.Variance - w.Variance
	}
	q := b.q
	if s.cfg.NoiseBy != nil {
		q = s.cfg.NoiseBy[string(s.Dict.Name(uint32(id)))]
	}
	added = q * dt
	w.Variance = min(w.Variance+added, math.MaxFloat64)
	return w, added
}

// settle is the belief w after dt of forgetting towards its prior p.
func (s *State) settle(w, p kernels.Weight, dt float64) kernels.Weight {
	if w.Variance == 0 || p.Variance == 0 {
		return w
	}
	l := math.Pow(s.cfg.Forgetting, dt)
	lam := l/w.Variance + (1-l)/p.Variance
	return kernels.Weight{Mean: p.Mean + l*(w.Mean-p.Mean)/(w.Variance*lam), Variance: 1 / lam}
}

func (s *State) advance(id int, t float64) {
	for k := range s.bank {
		b := &s.bank[k]
		w, added := s.forward(b, id, t)
		if b.learning != nil {
			b.known += s.gained(b, id, w)
		}
		b.w[id] = w
		b.drifted[id] += added
	}
	if !(s.touched[id] >= t) { // also NaN
		s.touched[id] = t
	}
}

// gained is how much more the data determine feature id when its belief becomes w.
func (s *State) gained(b *filter, id int, w kernels.Weight) int64 {
	v0 := s.target(id).Variance
	return lik.Determined(w.Variance, v0) - lik.Determined(b.w[id].Variance, v0)
}

// tick moves the clock to row i of b and returns its time.
func (s *State) tick(b *kernels.Batch, i int) float64 {
	if s.cfg.HasTime {
		t := b.Time[i]
		if t < s.clock {
			s.late++ // no drift for a row that comes late
			return s.clock
		}
		s.started(t)
		return t
	}
	t := s.clock + 1
	if math.IsNaN(t) {
		t = 0
	}
	s.started(t)
	return t
}

// started sets the clock; with the first row the named weights start to drift.
func (s *State) started(t float64) {
	if math.IsNaN(s.clock) {
		s.begun = t
		for id := range s.base {
			s.touched[id] = t
		}
		if !s.cfg.NoIntercept {
			s.touched[0] = t
		}
	}
	s.clock = t
}

// Skip counts rows that were left out.
func (s *State) Skip(n int64) { s.skipped += n }

// Update absorbs the rows of b in order; feature numbers are those of s.Dict.
// With skip, bad rows are counted and left out, else the first one ends the
// update with an error that Is kernels.ErrRow; the rows before it stay absorbed.
//
// Cost: O(non-zeros), no allocation. The result depends on the order of the
// rows unless no two rows share a weight.
//
// Source: Zoeter (2007), section 2.
func (s *State) Update(b *kernels.Batch, skip bool) error {
	s.Grow()
	l := s.cfg.Lik
	for i := range b.Len() {
		o := b.Obs(i)
		err := l.Check(o)
		if err == nil {
			fs, xs := b.Entries(i)
			if s.drifts {
				t := s.tick(b, i)
				for _, f := range fs {
					s.advance(int(f), t)
				}
			} else if s.cfg.HasTime {
				s.tickOnly(b.Time[i])
			}
			err = s.row(o, fs, xs, b.Shift(i))
		}
		if err != nil {
			if skip {
				s.skipped++
				continue
			}
			return kernels.RowError(err)
		}
	}
	return nil
}

// row absorbs one row, whose weights have drifted up to it: all filters or none.
func (s *State) row(o lik.Obs, fs []uint32, xs []float64, shift float64) error {
	xs = xs[:len(fs)]
	for k := range s.bank {
		b := &s.bank[k]
		w := b.w
		m, v := shift, 0.0
		for k, f := range fs {
			x, wf := xs[k], &w[f]
			m += x * wf.Mean
			v += x * x * wf.Variance
		}
		if !(math.Abs(m) <= math.MaxFloat64) || !(v <= math.MaxFloat64) {
			return fmt.Errorf("the linear predictor overflows (mean %v, variance %v); scale the features down", m, v)
		}
		if b.learning != nil {
			b.learning.Begin(o, m, v)
		}
		t := b.lik.Moments(o, m, v)
		if b.learning != nil {
			t.LogZ = b.learning.LogZ(o, m, v, b.known)
		}
		if !finite(t.LogZ) || !finite(t.Alpha) || !(t.Ratio > 0) || !(t.Ratio <= math.MaxFloat64) {
			return fmt.Errorf("y = %v with weight %v is impossible under a linear predictor of mean %v, variance %v: log Z = %v", o.Y, o.Weight, m, v, t.LogZ)
		}
		b.tilt, b.m, b.v = t, m, v
	}
	s.n++
	for k := range s.bank {
		b := &s.bank[k]
		b.logZ += b.tilt.LogZ
		before := b.known
		if b.learning != nil {
			b.known -= s.among(b, fs)
		}
		if b.v > 0 {
			b.share(fs, xs)
		}
		if b.learning != nil {
			b.known += s.among(b, fs)
			s.rescale(b, b.learning.Learn(o, b.m, b.v, before, b.known))
		}
	}
	return nil
}

// among is how many of the weights fs the data determine, in units of lik.Determined.
func (s *State) among(b *filter, fs []uint32) (known int64) {
	for _, f := range fs {
		known += lik.Determined(b.w[f].Variance, s.target(int(f)).Variance)
	}
	return known
}

// share gives the weights of a row their parts of its tilted moments.
func (b *filter) share(fs []uint32, xs []float64) {
	w, alpha, ratio := b.w, b.tilt.Alpha, b.tilt.Ratio
	inv := 1 / b.v
	for k, f := range fs {
		x, wf := xs[k], &w[f]
		xv := x * wf.Variance
		a := x * xv * inv
		rest := 1 - a
		if rest < 0 || len(fs) == 1 {
			rest = 0
		}
		if len(fs) == 1 {
			a = 1
		}
		wf.Mean += xv * alpha
		wf.Variance *= rest + a*ratio
	}
}

func finite(x float64) bool { return math.Abs(x) <= math.MaxFloat64 }

// tickOnly keeps the clock for the fit's time when nothing drifts.
func (s *State) tickOnly(t float64) {
	if t < s.clock {
		s.late++
		return
	}
	s.clock = t
}

// Linear gives mean and variance of the linear predictor of each row of b as
// the state stands, drift up to the row's time included, for a prediction before
// the row is learnt. Nothing is changed.
func (s *State) Linear(b *kernels.Batch, mean, variance []float64) {
	s.Grow()
	best := s.best()
	for i := range b.Len() {
		t := s.clock
		if s.cfg.HasTime && len(b.Time) > 0 {
			t = b.Time[i]
		} else if !s.cfg.HasTime {
			t++
		}
		m, v := b.Shift(i), 0.0
		fs, xs := b.Entries(i)
		for k, f := range fs {
			x, w := xs[k], best.w[f]
			if s.drifts {
				w, _ = s.forward(best, int(f), t)
			}
			m += x * w.Mean
			v += x * x * w.Variance
		}
		mean[i], variance[i] = m, v
	}
}

// Clone returns an independent copy.
func (s *State) Clone() *State {
	c := *s
	c.Dict = s.Dict.Clone()
	c.touched = append([]float64(nil), s.touched...)
	c.bank = append(c.one[:0], s.bank...)
	for k := range c.bank {
		b := &c.bank[k]
		b.w, b.drifted = append([]kernels.Weight(nil), b.w...), append([]float64(nil), b.drifted...)
		if b.learning != nil {
			b.learning = b.learning.Clone()
			b.lik = b.learning
		}
	}
	return &c // base and rest are never changed
}

// Size is the memory held, in bytes.
func (s *State) Size() int64 {
	n := s.Dict.Size() + 16*int64(cap(s.base)+cap(s.rest)) + 8*int64(cap(s.touched)) + 200
	for k := range s.bank {
		n += 100 + 16*int64(cap(s.bank[k].w)) + 8*int64(cap(s.bank[k].drifted))
	}
	return n
}

// Merge absorbs a state of the same Config that saw other rows: the product of
// the posteriors with the shared prior counted once, Λ = Λa + Λb - Λ0. It is
// exact where no two rows of different states share a non-Gaussian weight;
// else it is the usual embarrassingly parallel approximation. With drift both
// are brought to the later time first (rows without time count on: src comes
// after s), and the prior counts with the larger of the two drifts.
//
// The log evidence gains log ∫ q_a q_b / p0, the overlap that the two parts lack:
// exact where the product is, but far off when factorised beliefs of correlated
// features settled apart, which Summary reports.
// src is not changed. Errors: src's features exceed the dictionary's limit.
func (s *State) Merge(src *State) error {
	s.Grow()
	before := len(s.bank[0].w)
	ids, err := s.Dict.Merge(&src.Dict)
	if err != nil {
		return err
	}
	ids = ids[:len(src.bank[0].w)] // a name may be there without a row yet
	s.Grow()
	// Rows without time count on: src comes after s, and s drifts through its rows.
	clock, begun := s.clock, s.begun
	switch {
	case math.IsNaN(clock):
		clock, begun = src.clock, src.begun
	case math.IsNaN(src.clock):
	case s.cfg.HasTime:
		clock, begun = max(clock, src.clock), min(begun, src.begun)
	case s.drifts:
		clock += src.clock - src.begun
		if f := s.cfg.Start; f == nil || f.N == 0 { // a fresh run begins at its first row
			clock++
		}
	}
	if s.drifts {
		for j := range before {
			s.advance(j, clock)
		}
	}
	at := src.clock
	if s.cfg.HasTime {
		at = clock
	}
	for k := range s.bank {
		b, o := &s.bank[k], &src.bank[k]
		scale := [3]float64{1, 1, 1} // λ of b, of o and of where they started
		parts, distance := int64(0), 0.0
		if b.learning != nil {
			from := int64(0)
			for id := range s.base {
				from += lik.Determined(s.base[id].Variance, s.target(id).Variance)
			}
			parts = b.known + o.known - from
			scale = b.learning.Merge(o.learning, [3]int64{b.known, o.known, from})
			s.rescale(b, scale[0])
		}
		for j := range o.w {
			id := int(ids[j])
			q, added := o.w[j], 0.0
			if s.drifts {
				q, added = src.forward(o, j, at)
				added += o.drifted[j]
			}
			if scale[1] != 1 {
				q = rescaled(q, s.target(id), scale[1])
			}
			if id >= before {
				b.w[id] = q
				if s.drifts {
					b.drifted[id] = added
				}
				continue
			}
			apart, err := s.multiply(b, id, q, added, clock-begun, scale[2])
			if err != nil {
				return err
			}
			distance += apart
		}
		b.conflict = max(b.conflict, o.conflict)
		if b.learning != nil {
			b.known = s.determined(b)
			s.rescale(b, b.learning.Disagree(distance, parts, b.known))
		}
	}
	if s.drifts {
		for _, id := range ids {
			s.touched[id] = clock
		}
	}
	s.clock, s.begun = clock, begun
	from := int64(0)
	logZ0 := 0.0
	skipped := int64(0)
	if f := s.cfg.Start; f != nil { // the counts both continued from
		from, logZ0, skipped = f.N, f.LogEvidence, f.Skipped
	}
	s.n += src.n - from
	s.skipped += src.skipped - skipped
	for k := range s.bank {
		s.bank[k].logZ += src.bank[k].logZ - logZ0
	}
	s.late += src.late
	s.merged += src.merged + 1
	return nil
}

// multiply takes in the belief q of feature id from another state, to which drift
// added that much variance; the prior both share lies passed before, and came to the
// common dispersion by scale. It returns the squared distance of the two beliefs.
func (s *State) multiply(b *filter, id int, q kernels.Weight, added, passed, scale float64) (apart float64, err error) {
	p := s.start(id)
	if scale != 1 {
		p = rescaled(p, s.target(id), scale)
	}
	switch {
	case !s.drifts || p.Variance == 0:
	case s.cfg.Forgets():
		p = s.settle(p, s.target(id), passed)
	default:
		b.drifted[id] = max(b.drifted[id], added)
		p.Variance += b.drifted[id]
	}
	a := b.w[id]
	if a.Variance+q.Variance > 0 {
		b.conflict = max(b.conflict, math.Abs(a.Mean-q.Mean)/math.Sqrt(a.Variance+q.Variance))
	}
	w, c, ok := kernels.Merge(a, q, p)
	if !ok {
		return 0, fmt.Errorf("merging partial states: feature %q has no proper product (variances %v and %v, prior %v)",
			s.Dict.Name(uint32(id)), a.Variance, q.Variance, p.Variance)
	}
	b.w[id] = w
	b.logZ += c
	if b.learning != nil && p.Variance > 0 && w.Variance > 0 {
		// log ∫ q_a q_b / p0 without its determinants, nor what it says of the prior
		apart = math.Log(w.Variance/a.Variance) + math.Log(p.Variance/q.Variance) - 2*c
		t := s.target(id)
		apart += strain(a, t) + strain(q, t) - strain(p, t) - strain(w, t)
	}
	return apart, nil
}

// strain is the squared distance of w from its prior p, in prior variances.
func strain(w, p kernels.Weight) float64 {
	if p.Variance == 0 {
		return 0
	}
	return (w.Mean - p.Mean) * ((w.Mean - p.Mean) / p.Variance)
}

// Each visits the beliefs in their fixed order, drift applied up to the latest
// row; the state is not changed. A name is valid during its visit only. Cost: O(p log p).
func (s *State) Each(f func(name []byte, w kernels.Weight)) {
	s.Grow()
	b := s.best()
	var name []byte
	for _, id := range s.Dict.Order() {
		w := b.w[id]
		if s.drifts {
			w, _ = s.forward(b, int(id), s.clock)
		}
		name = s.Dict.AppendName(name[:0], id)
		f(name, w)
	}
}

// Len is the number of features.
func (s *State) Len() int { return s.Dict.Len() }

// Summary is the fit without its beliefs.
func (s *State) Summary() kernels.Fit {
	c, b := s.cfg, s.best()
	f := *c.NewFit("adf")
	f.SetLikelihood(b.lik)
	f.N, f.Skipped, f.LogEvidence = s.n, s.skipped, b.logZ
	if c.HasTime {
		f.Time = s.clock
	}
	if c.Options.AutoNoise {
		f.Status = kernels.NoiseStatus(b.q, len(s.bank))
	}
	switch {
	case b.conflict > MaxConflict:
		f.Status = fmt.Sprintf("parts fitted apart (several threads or window parts, no ORDER BY) were merged and disagree by up to %.0f standard deviations: log_evidence is not reliable", b.conflict)
	case s.merged > 0 && s.drifts:
		f.Status = "parts fitted apart (several threads or window parts, no ORDER BY) were merged: with drift the answer is approximate"
	}
	if b.learning != nil {
		if note := b.learning.Note(b.known); note != "" {
			f.Status = note
		}
	}
	if s.late > 0 {
		f.Status = fmt.Sprintf("%d rows came before the time already reached: no drift was applied for them", s.late)
	}
	return f
}

// Fit returns the posterior. Cost: O(p log p).
func (s *State) Fit() *kernels.Fit {
	f := s.Summary()
	f.Beliefs = make([]kernels.Belief, 0, s.Len())
	s.Each(func(name []byte, w kernels.Weight) {
		f.Beliefs = append(f.Beliefs, kernels.Belief{Feature: string(name), Weight: w})
	})
	return &f
}

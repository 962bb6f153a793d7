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
package adf

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
)

// MaxConflict is how far, in standard deviations, merged beliefs of a weight may
// lie apart before the status says so: six sigma does not happen by chance.
const MaxConflict = 6

// State is the filter's state. The zero State is not ready: use New.
type State struct {
	cfg  *kernels.Model
	Dict kernels.Dict
	w    []kernels.Weight
	base []kernels.Weight // where the first len(base) features started
	rest []kernels.Weight // their priors, which forgetting goes back to; nil without it

	// With drift only: when each weight was last brought forward (NaN = not
	// touched yet) and how much variance drift has added to it in all.
	touched, drifted []float64
	begun, clock     float64 // times of the start and of the latest row; NaN before the first

	n, skipped, late, merged int64
	logZ                     float64
	conflict                 float64 // largest |μa - μb| / sqrt(σa² + σb²) met in a merge
}

// New returns the state before the first row.
// Errors: more start beliefs than MaxFeatures.
func New(cfg *kernels.Model) (*State, error) {
	s := &State{cfg: cfg, begun: math.NaN(), clock: math.NaN()}
	if err := cfg.Name(&s.Dict); err != nil {
		return nil, err
	}
	for id := range s.Dict.Len() {
		s.w = append(s.w, s.fresh(id))
	}
	put := func(bs []kernels.Belief) {
		for _, b := range bs {
			if id, ok := s.Dict.Find(b.Feature); ok {
				s.w[id] = b.Weight
			}
		}
	}
	put(cfg.Priors)
	if cfg.Forgets() {
		s.rest = append([]kernels.Weight(nil), s.w...)
	}
	if f := cfg.Start; f != nil {
		put(f.Beliefs) // a posterior knows better than a prior
	}
	if len(cfg.Priors) > 0 || cfg.Start != nil {
		s.base = append([]kernels.Weight(nil), s.w...)
	}
	if f := cfg.Start; f != nil {
		s.n, s.skipped, s.logZ = f.N, f.Skipped, f.LogEvidence
		if cfg.HasTime && !math.IsNaN(f.Time) {
			s.clock = f.Time
		} else if f.N > 0 && !cfg.HasTime {
			s.clock = 0 // the next row is one step later
		}
		s.begun = s.clock
	}
	if s.cfg.Drifts() {
		s.born(len(s.w))
		if !math.IsNaN(s.clock) {
			for i := range s.touched {
				s.touched[i] = s.clock
			}
		}
	}
	return s, nil
}

func (s *State) born(n int) {
	for len(s.touched) < n {
		s.touched = append(s.touched, math.NaN())
		s.drifted = append(s.drifted, 0)
	}
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
	if id == 0 && s.cfg.Intercept {
		return kernels.Weight{Mean: s.cfg.Prior.Mean, Variance: s.cfg.Prior.InterceptVariance}
	}
	return kernels.Weight{Mean: s.cfg.Prior.Mean, Variance: s.cfg.Prior.Variance}
}

// Grow gives features that the dictionary has learnt their prior.
func (s *State) Grow() {
	if n := s.Dict.Len(); len(s.w) < n {
		p := kernels.Weight{Mean: s.cfg.Prior.Mean, Variance: s.cfg.Prior.Variance}
		for len(s.w) < n {
			s.w = append(s.w, p)
		}
		if s.cfg.Drifts() {
			s.born(n)
		}
	}
}

func (s *State) noise(id int) float64 {
	if s.cfg.NoiseBy != nil {
		return s.cfg.NoiseBy[string(s.Dict.Name(uint32(id)))]
	}
	return s.cfg.Noise
}

// forward is the belief of feature id at time t, and the variance drift added.
func (s *State) forward(id int, t float64) (w kernels.Weight, added float64) {
	w = s.w[id]
	dt := t - s.touched[id]
	if !(dt > 0) || w.Variance == 0 { // a known weight stays known
		return w, 0
	}
	if s.cfg.Forgets() {
		p := s.settle(w, s.target(id), dt)
		return p, p.Variance - w.Variance
	}
	added = s.noise(id) * dt
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
	w, added := s.forward(id, t)
	s.w[id] = w
	s.drifted[id] += added
	if !(s.touched[id] >= t) { // also NaN
		s.touched[id] = t
	}
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
		if s.cfg.Intercept {
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
	drifts := s.cfg.Drifts()
	w := s.w
	l := s.cfg.Lik
	for i := range b.Len() {
		o := b.Obs(i)
		if err := l.Check(o); err != nil {
			if skip {
				s.skipped++
				continue
			}
			return kernels.RowError(err)
		}
		if !drifts && s.cfg.HasTime {
			s.tickOnly(b.Time[i])
		}
		lo, hi := b.Row[i], b.Row[i+1]
		fs, xs := b.Feature[lo:hi], b.Value[lo:hi]
		xs = xs[:len(fs)]
		if drifts {
			t := s.tick(b, i)
			for _, f := range fs {
				s.advance(int(f), t)
			}
		}
		m, v := b.Shift(i), 0.0
		for k, f := range fs {
			x, wf := xs[k], &w[f]
			m += x * wf.Mean
			v += x * x * wf.Variance
		}
		if !(math.Abs(m) <= math.MaxFloat64) || !(v <= math.MaxFloat64) {
			if skip {
				s.skipped++
				continue
			}
			return kernels.RowError(fmt.Errorf("the linear predictor overflows (mean %v, variance %v); scale the features down", m, v))
		}
		t := l.Moments(o, m, v)
		if !finite(t.LogZ) || !finite(t.Alpha) || !(t.Ratio > 0) || !(t.Ratio <= math.MaxFloat64) {
			if skip {
				s.skipped++
				continue
			}
			return kernels.RowError(fmt.Errorf("y = %v with weight %v is impossible under a linear predictor of mean %v, variance %v: log Z = %v", o.Y, o.Weight, m, v, t.LogZ))
		}
		s.n++
		s.logZ += t.LogZ
		if v == 0 {
			continue
		}
		inv := 1 / v
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
			wf.Mean += xv * t.Alpha
			wf.Variance *= rest + a*t.Ratio
		}
	}
	return nil
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
	for i := range b.Len() {
		t := s.clock
		if s.cfg.HasTime && len(b.Time) > 0 {
			t = b.Time[i]
		} else if !s.cfg.HasTime {
			t++
		}
		m, v := b.Shift(i), 0.0
		for k := b.Row[i]; k < b.Row[i+1]; k++ {
			x, w := b.Value[k], s.w[b.Feature[k]]
			if s.touched != nil {
				w, _ = s.forward(int(b.Feature[k]), t)
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
	c.w = append([]kernels.Weight(nil), s.w...)
	c.touched = append([]float64(nil), s.touched...)
	c.drifted = append([]float64(nil), s.drifted...)
	return &c // base and rest are never changed
}

// Size is the memory held, in bytes.
func (s *State) Size() int64 {
	return s.Dict.Size() + 16*int64(cap(s.w)+cap(s.base)+cap(s.rest)) + 8*int64(cap(s.touched)+cap(s.drifted)) + 200
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
	drifts := s.cfg.Drifts()
	before := len(s.w)
	ids := make([]uint32, len(src.w))
	for j := range src.w {
		id, err := s.Dict.AddRaw(string(src.Dict.Name(uint32(j))))
		if err != nil {
			return err
		}
		ids[j] = id
	}
	s.Grow()
	// Rows without time count on: src comes after s, and s drifts through its rows.
	clock, begun := s.clock, s.begun
	switch {
	case math.IsNaN(clock):
		clock, begun = src.clock, src.begun
	case math.IsNaN(src.clock):
	case s.cfg.HasTime:
		clock, begun = max(clock, src.clock), min(begun, src.begun)
	case drifts:
		clock += src.clock - src.begun
		if f := s.cfg.Start; f == nil || f.N == 0 { // a fresh run begins at its first row
			clock++
		}
	}
	if drifts {
		for j := range before {
			s.advance(j, clock)
		}
	}
	for j := range src.w {
		id := int(ids[j])
		q, added := src.w[j], 0.0
		if drifts {
			at := src.clock
			if s.cfg.HasTime {
				at = clock
			}
			q, added = src.forward(j, at)
			added += src.drifted[j]
			s.touched[id] = clock
		}
		if id >= before {
			s.w[id] = q
			if drifts {
				s.drifted[id] = added
			}
			continue
		}
		p := s.start(id)
		switch {
		case !drifts || p.Variance == 0:
		case s.cfg.Forgets():
			p = s.settle(p, s.target(id), clock-begun)
		default:
			s.drifted[id] = max(s.drifted[id], added)
			p.Variance += s.drifted[id]
		}
		if a := s.w[id]; a.Variance+q.Variance > 0 {
			s.conflict = max(s.conflict, math.Abs(a.Mean-q.Mean)/math.Sqrt(a.Variance+q.Variance))
		}
		w, c, ok := kernels.Merge(s.w[id], q, p)
		if !ok {
			return fmt.Errorf("merging partial states: feature %q has no proper product (variances %v and %v, prior %v)",
				s.Dict.Name(uint32(id)), s.w[id].Variance, q.Variance, p.Variance)
		}
		s.w[id] = w
		s.logZ += c
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
	s.logZ += src.logZ - logZ0
	s.late += src.late
	s.merged += src.merged + 1
	s.conflict = max(s.conflict, src.conflict)
	return nil
}

// Each visits the beliefs in their fixed order, drift applied up to the latest
// row; the state is not changed. Cost: O(p log p).
func (s *State) Each(f func(name []byte, w kernels.Weight)) {
	s.Grow()
	for _, id := range s.Dict.Order() {
		w := s.w[id]
		if s.touched != nil {
			w, _ = s.forward(int(id), s.clock)
		}
		f(s.Dict.Name(id), w)
	}
}

// Len is the number of features.
func (s *State) Len() int { return s.Dict.Len() }

// Summary is the fit without its beliefs.
func (s *State) Summary() kernels.Fit {
	c := s.cfg
	f := *c.NewFit("adf")
	f.N, f.Skipped, f.LogEvidence = s.n, s.skipped, s.logZ
	if c.HasTime {
		f.Time = s.clock
	}
	switch {
	case s.conflict > MaxConflict:
		f.Status = fmt.Sprintf("parts fitted apart (several threads or window parts, no ORDER BY) were merged and disagree by up to %.0f standard deviations: log_evidence is not reliable", s.conflict)
	case s.merged > 0 && s.cfg.Drifts():
		f.Status = "parts fitted apart (several threads or window parts, no ORDER BY) were merged: with drift the answer is approximate"
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

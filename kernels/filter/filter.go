// Package filter is streaming Gaussian inference with a joint belief over all weights: several
// update rules (ADF, Laplace, Variational, EKF) for the loop of package stream, and three
// representations of the covariance.
//
// The covariance is kept as
//
//   - a Cholesky factor if no variance is added between rows: Carlson's update multiplies its
//     diagonal by positive numbers, so that it stays positive definite whatever the conditioning.
//     O(p²) a row; forgetting costs O(p³) per time step.
//   - Σ itself if the weights follow a random walk: adding to its diagonal is O(p), a row O(p²).
//     walk.go explains when rounding is harmless, and repairs its effect otherwise.
//   - a precision of diagonal plus low rank with Options.Covariance "lowrank": O(p rank) memory
//     and time per row (lowrank.go).
//
// New features are independent and have their prior. They are kept in belief order, so that a run
// continued from its fit computes the same numbers.
package filter

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/stop"
	"github.com/bglm/bglm/kernels/stream"
)

// MaxFull is the largest number of weights with a full covariance: its factor has p(p+1)/2 numbers,
// 1.6 GB, and a fit as much again. A low-rank precision may have as much.
const MaxFull = 20_000

// leastRatio is the least fraction of a variance that a row leaves, that of lik's moments: a
// linearised exponential would claim to determine a weight to a fraction of e^-500.
const leastRatio = 1e-24

// New returns the state before the first row.
//
// Errors: a rule that does not fit the family or the options; a covariance other than "", "full"
// and "lowrank"; process noise with forgetting; a prior that is not a proper Gaussian; more
// starting beliefs than MaxFeatures or MaxFull.
func New(m *kernels.Model, rule Rule) (*stream.State, error) {
	m = m.Complete()
	if err := option.Check(&m.Options); err != nil {
		return nil, err
	}
	return stream.New(stream.Config{Model: m, Rule: rule, Costly: m.Options.Covariance != "lowrank", Slow: true,
		Form: func(p *stream.Plan, d *kernels.Dict) (stream.Form, *stream.State, error) {
			switch m.Options.Covariance {
			case "", "full", "lowrank":
			default:
				return nil, nil, fmt.Errorf("covariance = %q: allowed for %s here: full, lowrank", m.Options.Covariance, rule.Name())
			}
			if m.Forgets() && (m.Options.AutoNoise || m.Noise > 0 || m.NoiseBy != nil) {
				return nil, nil, errors.New("process_noise and forgetting are two models of drift; give one of them")
			}
			j, err := newJoint(p, d)
			return j, new(stream.State), err
		}})
}

// joint is a bank of beliefs with correlated weights.
type joint struct {
	plan *stream.Plan
	dict *kernels.Dict

	// Features and columns. Known weights (prior variance 0) have no column.
	order []uint32         // features in belief order
	at    []int32          // by feature: column, or -1
	known []kernels.Weight // by feature, if at is -1

	bank []*member

	// By column, with drift: whether its walk has begun, and for how long it has run; its rate if
	// the model gives rates by name.
	born       []bool
	life, rate []float64
	// By column, with forgetting or a learnt dispersion or shape: the prior.
	restMu, restV []float64

	cols        []int32 // of the current row: entries with a column, and the contribution of the others
	vals        []float64
	shift       float64
	added, free []float64 // scratch

	stop *stop.Stop // of the current call
}

// member is one belief: there are several only to compare process noises.
type member struct {
	q    float64 // random-walk variance per unit of time
	mean []float64
	cov  covariance
	// known is, if the dispersion is learnt, the number of weights that the data determine as of
	// the last row, in units of lik.Determined.
	known int64
}

// covariance is a member's representation of Σ over its columns.
type covariance interface {
	// grow resizes to p columns: column j becomes move[j], the others are new and independent with
	// the given variances.
	grow(p int, move []int, variance []float64)
	// predict returns v = xᵀΣx and keeps the row for absorb.
	predict(cols []int32, x []float64) float64
	// absorb is the rank-one update of mean and Σ for the row last predicted.
	absorb(mean []float64, t lik.Tilted)
	// walk adds scale·d_j to the variance of column j.
	walk(scale float64, d []float64)
	// recast multiplies weight j by ratio_j and adds Σ shift_j times the old weights to weight to,
	// -1 for none.
	recast(ratio, shift []float64, to int)
	// forget sets Λ = λΛ + (1-λ)Λ0 for Λ0 = diag(1/restV), and updates the mean accordingly.
	forget(lambda float64, mean, restMu, restV []float64) error
	// merge multiplies by o, counting the prior once: da and db are the two means less the prior's;
	// it returns that of the product, log ∫ q_a q_b / p0 and the squared distance of the two,
	// daᵀΛa da + dbᵀΛb db - dᵀΛd.
	merge(o, prior covariance, da, db []float64) (d []float64, logC, apart float64, err error)
	variances(dst []float64)
	// quick is variances up to rounding; after a row it costs no more than the row.
	quick(dst []float64)
	// pack returns the covariance in the order of places: columns, -1 for known weights.
	pack(places []int32) (kernels.Covariance, error)
	clone() covariance
	// under sets the Stop of dense steps from here on.
	under(s *stop.Stop)
	size() int64
	status() string // the note, or ""
}

// newJoint gives the features that the model names, which are in d, their columns and every member
// its starting belief.
func newJoint(plan *stream.Plan, d *kernels.Dict) (*joint, error) {
	s := &joint{plan: plan}
	for _, q := range plan.Rates {
		s.bank = append(s.bank, &member{q: q})
	}
	if err := s.index(d); err != nil {
		return nil, err
	}
	// The batch engines' problem without rows: the starting belief, with columns in our order.
	m := plan.Model
	named := *m
	named.PriorBy = nil // the columns are not known yet, and named features have their own priors
	r, err := kernels.NewRows(&named)
	if err != nil {
		return nil, err
	}
	p, err := r.Problem()
	if err != nil {
		return nil, err
	}
	for _, b := range s.bank {
		b.mean = append([]float64(nil), p.Normal.Mean...)
		switch {
		case m.Options.Covariance == "lowrank":
			b.cov, err = newLowRank(p.Normal, m.Options.Rank)
		case b.q > 0 || m.NoiseBy != nil:
			b.cov, err = newWalk(p.Normal)
		default:
			b.cov, err = newRoot(p.Normal)
		}
		if err != nil {
			return nil, fmt.Errorf("prior: %w", err)
		}
	}
	return s, nil
}

// room returns an error if p weights need more memory than a covariance may have.
func (s *joint) room(p int) error {
	if s.plan.Model.Options.Covariance == "lowrank" {
		l := lowRank{p: p, rank: kernels.Or(s.plan.Model.Options.Rank, DefaultRank)}
		// Up to MaxFull/√2 weights fit whatever the rank, which is at most their number.
		if most := max(MaxFull*MaxFull/l.room(), MaxFull*70/99); p > most {
			return fmt.Errorf("covariance = 'lowrank': found %d weights of rank %d, whose precision takes %.1f GB; allowed: at most %d; lower rank, or use covariance 'diagonal' (adf)",
				p, l.rank, 8*float64(p)*float64(l.room())/1e9, most)
		}
		return memory.Room(s.covarianceBytes(p), fmt.Sprintf("covariance = 'lowrank' with rank = %d and %d weights", l.rank, p))
	}
	if p > MaxFull {
		return fmt.Errorf("covariance = 'full': found %d weights, whose covariance takes %.1f GB; allowed: at most %d; use covariance 'diagonal' (adf) or 'lowrank'",
			p, 8*float64(p)*float64(p)/1e9, MaxFull)
	}
	return memory.Room(s.covarianceBytes(p), fmt.Sprintf("covariance = 'full' with %d weights ('diagonal' and 'lowrank' take less)", p))
}

// covarianceBytes is the size of the covariances of p weights in bytes.
func (s *joint) covarianceBytes(p int) int64 {
	each := float64(p) * float64(p)
	if s.plan.Model.Options.Covariance == "lowrank" {
		l := lowRank{p: p, rank: kernels.Or(s.plan.Model.Options.Rank, DefaultRank)}
		each = float64(p)*float64(l.room()+4) + 3*float64(l.room())*float64(l.room())
	}
	return int64(8 * each * float64(max(1, len(s.bank))))
}

// Reserve implements stream.Form.
func (s *joint) Reserve(copies int64, what string) (*memory.Grant, error) {
	p := s.dict.Len()
	return memory.Reserve(copies*s.covarianceBytes(p), fmt.Sprintf("%s with covariance = '%s' of %d weights", what, kernels.Or(s.plan.Model.Options.Covariance, "full"), p))
}

// index gives the features that d has gained their columns.
func (s *joint) index(d *kernels.Dict) error {
	s.dict = d
	n, old := d.Len(), len(s.at)
	prior, start := s.fresh(d)
	moves := make([]int, 0, n)
	cols := make([]int32, n)
	for id := range n {
		if id < old {
			cols[id] = s.at[id]
			continue
		}
		if start[id].Variance == 0 {
			cols[id] = -1
		}
	}
	// Old columns keep their relative order.
	order := d.Order()
	p := 0
	var mean, variance []float64
	for _, id := range order {
		if cols[id] < 0 {
			continue
		}
		w := kernels.Weight{Mean: math.NaN(), Variance: math.NaN()}
		if int(id) < old {
			moves = append(moves, p)
		} else {
			w = prior[id]
		}
		mean, variance = append(mean, w.Mean), append(variance, w.Variance)
		cols[id] = int32(p)
		p++
	}
	if err := s.room(p); err != nil {
		return err
	}
	s.order, s.at, s.known = order, cols, append(s.known, start[old:]...)
	for _, b := range s.bank {
		if b.cov == nil {
			continue
		}
		b.mean = spread(b.mean, moves, mean)
		b.cov.grow(p, moves, variance)
	}
	if m := s.plan.Model; m.Forgets() || m.Options.AutoDispersion || m.Options.AutoShape || m.Options.Standardize {
		s.restMu = spread(s.restMu, moves, mean)
		s.restV = spread(s.restV, moves, variance)
	}
	if s.plan.Drifts {
		s.indexDrift(d, moves, p)
	}
	return nil
}

// fresh returns the priors, by number, of the features of d that have no columns yet, and the
// weights that they start from.
func (s *joint) fresh(d *kernels.Dict) (prior, start []kernels.Weight) {
	n, old := d.Len(), len(s.at)
	prior = make([]kernels.Weight, n)
	for id := old; id < n; id++ {
		prior[id] = s.plan.Fresh(d, id)
	}
	if old > 0 {
		return prior, prior
	}
	named := func(ws []kernels.Weight, bs []kernels.Belief) {
		for _, b := range bs {
			if id, ok := d.Find(b.Feature); ok {
				ws[id] = b.Weight
			}
		}
	}
	named(prior, s.plan.Model.Priors)
	start = prior
	if f := s.plan.Model.Start; f != nil {
		start = append([]kernels.Weight(nil), prior...)
		named(start, f.Beliefs)
	}
	return prior, start
}

// indexDrift is index for the drift of the p columns, of which the old ones are now at moves.
func (s *joint) indexDrift(d *kernels.Dict, moves []int, p int) {
	s.born = spread(s.born, moves, make([]bool, p))
	s.life = spread(s.life, moves, memory.Floats(p))
	if s.plan.Model.NoiseBy == nil {
		return
	}
	s.rate = memory.Floats(p)
	for id, j := range s.at {
		if j >= 0 {
			s.rate[j] = s.plan.Model.NoiseBy[string(d.Name(uint32(id)))]
		}
	}
}

// spread copies src[j] to dst[move[j]] and returns dst.
func spread[T any](src []T, move []int, dst []T) []T {
	dst = append([]T(nil), dst...)
	for j, to := range move {
		if j < len(src) {
			dst[to] = src[j]
		}
	}
	return dst
}

// Grow implements stream.Form. Cost: O(p²) with a full covariance, if features are new.
// Errors: more weights than MaxFull with a full covariance.
func (s *joint) Grow(d *kernels.Dict) error {
	s.dict = d
	if d.Len() <= len(s.at) {
		return nil
	}
	return s.index(d)
}

// Begin implements stream.Form.
func (s *joint) Begin(float64) {
	for _, j := range s.at[:s.plan.Named] {
		if j >= 0 {
			s.born[j] = true
		}
	}
}

// Drift implements stream.Form: all weights are brought to the same time.
func (s *joint) Drift(from, to float64, fs []uint32) error {
	if err := s.drift(to - from); err != nil {
		return err
	}
	for _, f := range fs {
		if j := s.at[f]; j >= 0 {
			s.born[j] = true
		}
	}
	return nil
}

// drift advances every member by dt if it is positive.
func (s *joint) drift(dt float64) error {
	if !(dt > 0) {
		return nil
	}
	for j, b := range s.born {
		if b {
			s.life[j] += dt
		}
	}
	if s.plan.Model.Forgets() {
		for _, b := range s.bank {
			if err := b.cov.forget(math.Pow(s.plan.Model.Forgetting, dt), b.mean, s.restMu, s.restV); err != nil {
				return err
			}
		}
		return nil
	}
	s.added = resize(s.added, len(s.born))
	for j, b := range s.born {
		s.added[j] = 0
		if b {
			s.added[j] = s.perUnit(j, dt)
		}
	}
	s.walk(s.added)
	return nil
}

// perUnit is dt, times the column's own rate if it has one.
func (s *joint) perUnit(j int, dt float64) float64 {
	if s.rate != nil {
		return s.rate[j] * dt
	}
	return dt
}

func (s *joint) walk(d []float64) {
	for _, b := range s.bank {
		if q := s.scale(b); q > 0 {
			b.cov.walk(q, d)
		}
	}
}

// scale is the factor of perUnit.
func (s *joint) scale(b *member) float64 {
	if s.rate != nil {
		return 1
	}
	return b.q
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/2)
	}
	return s[:n]
}

// Under implements stream.Form.
func (s *joint) Under(halt *stop.Stop) {
	s.stop = halt
	for _, b := range s.bank {
		b.cov.under(halt)
	}
}

// entries sets cols and vals to the unknown weights of a row, in the order of the columns, and
// returns m plus the contribution of the known ones to the linear predictor.
func (s *joint) entries(fs []uint32, xs []float64, m float64) float64 {
	s.cols, s.vals = s.cols[:0], s.vals[:0]
	for e, f := range fs {
		x := xs[e]
		if j := s.at[f]; j >= 0 {
			s.cols, s.vals = append(s.cols, j), append(s.vals, x)
			for k := len(s.cols) - 1; k > 0 && s.cols[k-1] > j; k-- {
				s.cols[k-1], s.cols[k] = j, s.cols[k-1]
				s.vals[k-1], s.vals[k] = x, s.vals[k-1]
			}
		} else {
			m += x * s.known[f].Mean
		}
	}
	return m
}

// Predict implements stream.Form.
func (s *joint) Predict(k int, fs []uint32, xs []float64, shift float64) (m, v float64) {
	if k == 0 {
		s.shift = s.entries(fs, xs, shift)
	}
	b := s.bank[k]
	m, v = s.shift, b.cov.predict(s.cols, s.vals)
	for e, j := range s.cols {
		m += s.vals[e] * b.mean[j]
	}
	return m, v
}

// Absorb implements stream.Form.
func (s *joint) Absorb(k int, _ []uint32, _ []float64, _ float64, t lik.Tilted) {
	if t.Alpha == 0 && t.Beta == 0 { // a row of weight 0
		return
	}
	t.Ratio = math.Max(t.Ratio, leastRatio)
	s.bank[k].cov.absorb(s.bank[k].mean, t)
}

// Extend implements stream.Form.
func (s *joint) Extend(p *stream.Plan, at, from int) error {
	b := *s.bank[from]
	if err := memory.Room(b.cov.size(), fmt.Sprintf("one more process noise with %d weights", len(b.mean))); err != nil {
		return err
	}
	b.q, b.mean, b.cov = p.Rates[at], slices.Clone(b.mean), b.cov.clone()
	s.plan, s.bank = p, slices.Insert(s.bank, at, &b)
	return nil
}

// Rest implements stream.Form.
func (s *joint) Rest() {}

// Known implements stream.Form.
func (s *joint) Known(k int) int64 { return s.bank[k].known }

// Determined implements stream.Form.
func (s *joint) Determined(k int) int64 {
	s.bank[k].known = s.Count(k)
	return s.bank[k].known
}

// Count implements stream.Counter: Known is that after the last row of weight above 0, since which
// the weights may have drifted.
func (s *joint) Count(k int) (known int64) {
	b := s.bank[k]
	s.free = resize(s.free, len(b.mean))
	b.cov.quick(s.free)
	for j, v := range s.free {
		known += lik.Determined(v, s.restV[j])
	}
	return known
}

// SetKnown implements stream.Counter.
func (s *joint) SetKnown(k int, n int64) { s.bank[k].known = n }

// Gain implements stream.Whole.
func (s *joint) Gain(k int) float64 {
	c, ok := s.bank[k].cov.(interface{ logDetPrec() float64 })
	if !ok { // with drift
		return math.NaN()
	}
	sum := c.logDetPrec()
	for _, v := range s.restV {
		sum += math.Log(v)
	}
	return sum
}

// Nearly implements stream.Whole: true for low rank.
func (s *joint) Nearly() bool { _, low := s.bank[0].cov.(*lowRank); return low }

// Apart implements stream.Whole.
func (s *joint) Apart(k int, dst []float64) []float64 {
	for j, m := range s.bank[k].mean {
		dst = append(dst, (m-s.restMu[j])/math.Sqrt(s.restV[j]))
	}
	return dst
}

// Approximates implements stream.Approximate: a low-rank precision that includes rows without noise
// has no digits left of the contribution of other rows and the prior.
func (s *joint) Approximates() float64 {
	if _, low := s.bank[0].cov.(*lowRank); low {
		return lik.LeastScale
	}
	return 0
}

// Rescale implements stream.Form if the result is still a precision: a weight may have drifted past
// its prior.
func (s *joint) Rescale(k int, lambda float64) {
	b := s.bank[k]
	if lambda != 1 && b.cov.forget(lambda, b.mean, s.restMu, s.restV) == nil {
		s.Determined(k)
	}
}

// priorDistance is the squared distance of mean from the prior mean, in prior variances.
func (s *joint) priorDistance(mean []float64) (sum float64) {
	for j, v := range s.restV {
		d := mean[j] - s.restMu[j]
		sum += d * (d / v)
	}
	return sum
}

// Numbers implements stream.Form.
func (s *joint) Numbers(uint32) stream.Numbers { return stream.Centred }

// Unit implements stream.Form.
func (s *joint) Unit(uint32) (stream.Unit, bool) { return stream.Unit{}, false }

// Recast implements stream.Form.
func (s *joint) Recast(k int, r *stream.Recast) (logZ float64) {
	b := s.bank[k]
	p := len(b.mean)
	to := -1
	if !s.plan.Model.NoIntercept {
		to = int(s.at[0])
	}
	ratio, shift := memory.Floats(p), memory.Floats(p)
	for j := range ratio {
		ratio[j] = 1
	}
	for i, id := range r.IDs {
		if j := s.at[id]; j >= 0 {
			ratio[j], shift[j] = r.Ratio(i), r.Shift(i)
		}
	}
	if l, ok := b.cov.(*lowRank); ok && !r.Bare {
		l.restore(b.mean, ratio, shift, to, s.restMu, s.restV)
		return 0
	} else if ok && to >= 0 {
		l.interceptPrec = 1 / s.restV[to]
	}
	gain := dense.Dot(shift, b.mean)
	for j, q := range ratio {
		b.mean[j] *= q
	}
	if to >= 0 {
		b.mean[to] += gain
	}
	b.cov.recast(ratio, shift, to)
	if l, ok := b.cov.(*lowRank); ok && r.Enters && to >= 0 && s.plan.Model.Start.KeepsUnits() {
		l.restoreIntercept(to)
	}
	if r.Bare {
		return 0
	}
	return r.Restore(&restorer{s, b, r, to})
}

// restorer is belief b of s for Recast.Restore.
type restorer struct {
	s  *joint
	b  *member
	r  *stream.Recast
	to int // index of the intercept
}

// Prior implements stream.Restorer.
func (p *restorer) Prior(i int) kernels.Weight {
	j := p.to
	if i >= 0 {
		j = int(p.s.at[p.r.IDs[i]])
	}
	return kernels.Weight{Mean: p.s.restMu[j], Variance: p.s.restV[j]}
}

// Pin implements stream.Restorer.
func (p *restorer) Pin(js []int, xs []float64, delta, about float64) float64 {
	s, b := p.s, p.b
	s.stop.Check() // there is a pin for each number, and each costs as much as a row
	// The intercept is feature 0.
	fs := make([]uint32, len(js))
	for e, i := range js {
		if i >= 0 {
			fs[e] = p.r.IDs[i]
		}
	}
	s.shift = s.entries(fs, xs, 0)
	m, v := 0.0, b.cov.predict(s.cols, s.vals)
	for e, j := range s.cols {
		m += s.vals[e] * b.mean[j]
	}
	tilt, ok := stream.Pin(m, v, delta, about)
	if ok {
		b.cov.absorb(b.mean, tilt)
	}
	return tilt.LogZ
}

// Stretch implements stream.Form.
func (s *joint) Stretch(k int, ratio float64) {
	b := s.bank[k]
	for j := range b.mean {
		b.mean[j] *= ratio
	}
	for j, m := range s.restMu {
		if m == 0 {
			continue
		}
		s.stop.Check()
		if v := b.cov.predict([]int32{int32(j)}, []float64{1}); v > 0 {
			b.cov.absorb(b.mean, stream.Back(kernels.Weight{Mean: m, Variance: s.restV[j]}, v, ratio))
		}
	}
}

// Lift implements stream.Form.
func (s *joint) Lift(k int, shift float64) { s.bank[k].mean[s.at[0]] += shift }

// Linear implements stream.Form.
func (s *joint) Linear(k int, b *kernels.Batch, now float64, at func(int) float64, mean, variance []float64) error {
	q, forgets := s.bank[k], s.plan.Model.Forgets()
	cov, mu := q.cov, q.mean
	reached := 0.0 // how far cov and mu have been advanced, with forgetting
	for i := range b.Len() {
		dt := at(i) - now
		if !(dt > 0) || !s.plan.Drifts {
			dt = 0
		}
		if forgets && dt != reached {
			cov, mu, reached = q.cov.clone(), append([]float64(nil), q.mean...), dt
			if dt > 0 {
				if err := cov.forget(math.Pow(s.plan.Model.Forgetting, dt), mu, s.restMu, s.restV); err != nil {
					return err
				}
			}
		}
		fs, xs := b.Entries(i)
		m := s.entries(fs, xs, b.Shift(i))
		v := cov.predict(s.cols, s.vals)
		for e, j := range s.cols {
			m += s.vals[e] * mu[j]
			if dt > 0 && !forgets && s.born[j] {
				v += s.vals[e] * s.vals[e] * s.scale(q) * s.perUnit(int(j), dt)
			}
		}
		mean[i], variance[i] = m, v
	}
	return nil
}

// Beliefs implements stream.Form: they are those at the last row's time.
func (s *joint) Beliefs(k int, _ float64, dst []kernels.Weight) []kernels.Weight {
	b := s.bank[k]
	variance := make([]float64, len(b.mean))
	b.cov.variances(variance)
	for id, j := range s.at {
		w := s.known[id]
		if j >= 0 {
			w = kernels.Weight{Mean: b.mean[j], Variance: variance[j]}
		}
		dst = append(dst, w)
	}
	return dst
}

// Covariance implements stream.Form. Cost: O(p²), O(p³) with process noise.
func (s *joint) Covariance(k int, order []uint32) (kernels.Covariance, error) {
	places := make([]int32, len(order))
	for i, id := range order {
		places[i] = s.at[id]
	}
	return s.bank[k].cov.pack(places)
}

// Status implements stream.Form.
func (s *joint) Status(k int) string { return s.bank[k].cov.status() }

// Clone implements stream.Form.
func (s *joint) Clone(d *kernels.Dict, _ stream.Form) (stream.Form, *stream.State) {
	return s.clone(d), new(stream.State)
}

func (s *joint) clone(d *kernels.Dict) *joint {
	c := *s
	c.dict = d
	c.known, c.born, c.life = slices.Clone(s.known), slices.Clone(s.born), slices.Clone(s.life)
	c.cols, c.vals, c.added, c.free = nil, nil, nil, nil
	c.bank = make([]*member, len(s.bank))
	for k, b := range s.bank {
		m := *b
		m.mean, m.cov = slices.Clone(b.mean), b.cov.clone()
		c.bank[k] = &m
	}
	return &c // order, at, rate and rest are replaced, never changed
}

// Size implements stream.Form.
func (s *joint) Size() int64 {
	n := 600 + 4*int64(cap(s.order)+cap(s.at)+cap(s.cols)) + 16*int64(cap(s.known)) + int64(cap(s.born)) +
		8*int64(cap(s.life)+cap(s.rate)+cap(s.restMu)+cap(s.restV)+cap(s.vals)+cap(s.added)+cap(s.free))
	for _, b := range s.bank {
		n += 8*int64(cap(b.mean)) + b.cov.size()
	}
	return n
}

// merged is the product of s and o, a copy of the other with the same columns, over prior, the
// common start; taken says that s had no rows and is now o.
type merged struct {
	s, o, prior *joint
	taken       bool
}

// Merge implements stream.Form. Cost of the product: O(p³), with low rank O(p rank²).
func (s *joint) Merge(other stream.Form, g *stream.Merging) (stream.Product, error) {
	d := g.OtherDict.Clone()
	o := other.(*joint).clone(&d)
	o.Under(s.stop)
	if err := o.Grow(&d); err != nil {
		return nil, err
	}
	if _, err := d.Merge(g.Dict); err != nil {
		return nil, err
	}
	if err := o.Grow(&d); err != nil {
		return nil, err
	}
	if s.plan.Drifts {
		if err := s.drift(g.Clock - g.Now); err != nil {
			return nil, err
		}
		if s.plan.Model.HasTime {
			if err := o.drift(g.Clock - g.OtherNow); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case !g.Brought:
		return nil, nil
	case !g.Seen:
		copy(s.life, o.life)
		copy(s.born, o.born)
		return &merged{s: s, o: o, taken: true}, nil
	}
	prior, err := s.started(g.Dict)
	if err != nil {
		return nil, err
	}
	g.Prepare(prior)
	if s.plan.Drifts && !s.plan.Model.Forgets() {
		// A weight that one side never saw drifted on the other side only.
		n := len(s.life)
		onlyA, onlyB, most := memory.Floats(n), memory.Floats(n), memory.Floats(n)
		for j := range s.life {
			most[j] = s.perUnit(j, max(s.life[j], o.life[j]))
			switch {
			case !o.born[j]:
				onlyA[j] = most[j]
			case !s.born[j]:
				onlyB[j] = most[j]
			}
		}
		s.walk(onlyB)
		o.walk(onlyA)
		prior.walk(most)
	} else if s.plan.Drifts {
		for _, q := range prior.bank {
			if err := q.cov.forget(math.Pow(s.plan.Model.Forgetting, g.Clock-g.Begun), q.mean, prior.restMu, prior.restV); err != nil {
				return nil, err
			}
		}
	}
	for j := range s.life {
		s.life[j], s.born[j] = max(s.life[j], o.life[j]), s.born[j] || o.born[j]
	}
	return &merged{s: s, o: o, prior: prior}, nil
}

// started returns the start of s over the features of d.
func (s *joint) started(d *kernels.Dict) (*joint, error) {
	var names kernels.Dict
	if err := s.plan.Model.Name(&names); err != nil {
		return nil, err
	}
	prior, err := newJoint(s.plan, &names)
	if err != nil {
		return nil, err
	}
	prior.Under(s.stop)
	if _, err := names.Merge(d); err != nil {
		return nil, err
	}
	return prior, prior.Grow(&names)
}

// Known implements stream.Product.
func (p *merged) Known(k int) [3]int64 {
	if p.taken { // nothing to multiply
		return [3]int64{}
	}
	return [3]int64{p.s.Determined(k), p.o.Determined(k), p.prior.Determined(k)}
}

// Multiply implements stream.Product.
func (p *merged) Multiply(k int, scale [3]float64, logZ float64) (sum, apart, conflict float64, err error) {
	if p.taken {
		p.s.bank[k] = p.o.bank[k]
		return logZ, 0, 0, nil
	}
	for i, j := range [3]*joint{p.s, p.o, p.prior} {
		j.Rescale(k, scale[i])
	}
	q, r, o := p.s.bank[k], p.o.bank[k], p.prior.bank[k]
	n := len(q.mean)
	va, vb := memory.Floats(n), memory.Floats(n)
	q.cov.variances(va)
	r.cov.variances(vb)
	da, db := memory.Floats(n), memory.Floats(n)
	for j := range n {
		da[j], db[j] = q.mean[j]-o.mean[j], r.mean[j]-o.mean[j]
		conflict = max(conflict, math.Abs(da[j]-db[j])/math.Sqrt(va[j]+vb[j]))
	}
	strain := p.s.priorDistance(q.mean) + p.s.priorDistance(r.mean) - p.s.priorDistance(o.mean)
	d, logC, apart, err := q.cov.merge(r.cov, o.cov, da, db)
	if err != nil {
		return 0, 0, 0, err
	}
	for j := range n {
		q.mean[j] = o.mean[j] + d[j]
	}
	// less the part of the distance from the prior
	return logZ + logC, apart + strain - p.s.priorDistance(q.mean), conflict, nil
}

// Done implements stream.Product.
func (p *merged) Done() {}

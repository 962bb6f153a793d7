// Package filter is streaming Gaussian inference with a joint belief over all
// weights: one pass over the rows, one loop, several update rules (ADF, Laplace,
// Variational, EKF), and three ways to keep the covariance.
//
// A row with features x meets the belief N(m, v) of its linear predictor,
// m = xᵀμ + offset, v = xᵀΣx. The rule answers with α and β, and
//
//	μ' = μ + Σx α,  Σ' = Σ - Σx (Σx)ᵀ β
//
// The covariance is kept as
//
//   - a Cholesky factor when no variance is added between rows: Carlson's update
//     multiplies its diagonal by positive numbers, so that it stays positive definite
//     whatever the conditioning. O(p²) a row; forgetting costs O(p³) a step of time.
//   - Σ itself when the weights walk at random: adding to its diagonal is O(p), a row
//     O(p²). walk.go argues when rounding is harmless, and repairs it else.
//   - a precision of diagonal plus low rank with Options.Covariance "lowrank": O(p rank)
//     memory and time a row (lowrank.go).
//
// Features appear as they come, independent and with their prior. They are kept in
// belief order, so that a run continued from its fit goes through the same numbers.
package filter

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
)

// MaxFull is the largest number of weights with a full covariance: its factor
// takes p(p+1)/2 numbers, 1.6 GB, and a fit as much again. A low-rank precision may take
// as much.
const MaxFull = 20_000

// MaxConflict is how far, in standard deviations, merged beliefs of a weight may
// lie apart before the status says so.
const MaxConflict = 6

// leastRatio is the least part of a variance that a row leaves, that of lik's moments:
// a linearised exponential would claim to know a weight to a part in e^500.
const leastRatio = 1e-24

// State is a filter's state. The zero State is not ready: use New.
type State struct {
	cfg  *kernels.Model
	rule Rule
	Dict kernels.Dict

	// Features and columns. Known weights (prior variance 0) have no column.
	order []uint32         // features in belief order
	at    []int32          // by feature: column, or -1
	known []kernels.Weight // by feature, where at is -1
	named int              // how many features the model names; they come first

	bank []*member // one; with automatic noise one for each rate tried

	// By column, with drift: does it run yet, and for how long it has; its rate
	// where the model gives them by name.
	drifts     bool
	born       []bool
	life, rate []float64
	// By column, with forgetting or a dispersion that is learnt: the prior.
	restMu, restV []float64
	begun, clock  float64 // times of the start and of the latest row; NaN before the first
	seen          bool    // a row has come
	n, skipped    int64
	late, cut     int64
	merged        int64
	conflict      float64 // largest |μa - μb| / sqrt(σa² + σb²) met in a merge
	cols          []int32 // scratch: the row's entries with a column
	vals, added   []float64
	tilts         []lik.Tilted
	spreads       []float64
	spare         []float64

	stop *stop.Stop // of the call under way
}

// member is one belief: the filter has several only to compare process noises.
type member struct {
	q    float64 // random-walk variance per unit of time
	mean []float64
	cov  covariance
	logZ float64

	up       update
	learning *lik.Learning // where the dispersion is learnt
	// Then whether the rows' noise is what is learnt, and how many weights the data
	// determine, in units of lik.Determined.
	noise bool
	known int64
}

// covariance is how a member keeps Σ over its columns.
type covariance interface {
	// grow makes room for p columns: column j becomes move[j], the others are new
	// and independent with the given variances.
	grow(p int, move []int, variance []float64)
	// predict returns v = xᵀΣx and remembers the row for absorb.
	predict(cols []int32, x []float64) float64
	// absorb is the rank-one update of mean and Σ for the row last predicted.
	absorb(mean []float64, t lik.Tilted)
	// walk adds scale·d_j to the variance of column j.
	walk(scale float64, d []float64)
	// forget sets Λ = λΛ + (1-λ)Λ0 for Λ0 = diag(1/restV), and the mean alike.
	forget(lambda float64, mean, restMu, restV []float64) error
	// merge is the product with o, prior counted once: da and db are the two means
	// less the prior's; it returns that of the product, log ∫ q_a q_b / p0 and how far the
	// two lie apart, daᵀΛa da + dbᵀΛb db - dᵀΛd.
	merge(o, prior covariance, da, db []float64) (d []float64, logC, apart float64, err error)
	variances(dst []float64)
	// quick is variances to rounding, after a row for no more than the row's cost.
	quick(dst []float64)
	// pack is the covariance in the order of places: columns, -1 for known weights.
	pack(places []int32) (kernels.Covariance, error)
	clone() covariance
	// under gives the dense steps from here on a Stop.
	under(s *stop.Stop)
	size() int64
	status() string // "" or a sentence
}

// New returns the state before the first row.
//
// Errors: a rule that does not fit the family or the options; a covariance other
// than "", "full" and "lowrank"; process noise beside forgetting; a prior
// that is not a proper Gaussian; more start beliefs than MaxFeatures or MaxFull.
func New(m *kernels.Model, rule Rule) (*State, error) {
	m = m.Complete()
	var learning *lik.Learning
	if m.Options.AutoDispersion {
		n := int64(0)
		if m.Start != nil {
			n = m.Start.N
		}
		var err error
		if learning, err = lik.NewLearning(m.Lik, n); err != nil {
			return nil, err
		}
	}
	up, err := rule.bind(m)
	if err != nil {
		return nil, err
	}
	switch m.Options.Covariance {
	case "", "full", "lowrank":
	default:
		return nil, fmt.Errorf("covariance = %q: allowed for %s here: full, lowrank", m.Options.Covariance, rule.Name())
	}
	if m.Options.Rank < 0 {
		return nil, fmt.Errorf("rank = %d: allowed: 1 and more", m.Options.Rank)
	}
	if m.Forgets() && (m.Options.AutoNoise || m.Noise > 0 || m.NoiseBy != nil) {
		return nil, errors.New("process_noise and forgetting are two models of drift; give one of them")
	}
	s := &State{cfg: m, rule: rule, begun: math.NaN(), clock: math.NaN(), drifts: m.Drifts() || m.Options.AutoNoise}
	if err := m.Name(&s.Dict); err != nil {
		return nil, err
	}
	s.named = s.Dict.Len()
	rates := []float64{m.Noise}
	if m.Options.AutoNoise {
		rates = m.NoiseGrid()
	}
	for _, q := range rates {
		s.bank = append(s.bank, &member{q: q, up: up})
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	if learning != nil {
		learning.Dear = m.Options.Covariance != "lowrank"
		for _, b := range s.bank {
			b.learning = learning.Clone()
			b.up = s.bound(b.learning)
			b.noise = rule.Name() != "ekf" || m.Options.MeasurementNoise == 0 && !m.Options.AutoMeasurementNoise
			b.known = s.determined(b)
		}
	}
	if f := m.Start; f != nil {
		s.n, s.skipped = f.N, f.Skipped
		for _, b := range s.bank {
			b.logZ = f.LogEvidence
		}
		if m.HasTime && !math.IsNaN(f.Time) {
			s.clock = f.Time
		} else if f.N > 0 && !m.HasTime {
			s.clock = 0 // the next row is one step later
		}
		s.begun = s.clock
	}
	if !math.IsNaN(s.clock) {
		s.bear()
	}
	return s, nil
}

// bound is the rule for rows whose likelihood is l.
func (s *State) bound(l lik.Likelihood) update {
	own := *s.cfg
	own.Lik = l
	up, err := s.rule.bind(&own)
	if err != nil { // the same options bound before
		panic(err)
	}
	return up
}

// determined is how many weights of b the data determine, in units of lik.Determined.
func (s *State) determined(b *member) (known int64) {
	s.spare = resize(s.spare, len(b.mean))
	b.cov.quick(s.spare)
	for j, v := range s.spare {
		known += lik.Determined(v, s.restV[j])
	}
	return known
}

// strain is the squared distance of mean from the prior's, in prior variances.
func (s *State) strain(mean []float64) (sum float64) {
	for j, v := range s.restV {
		d := mean[j] - s.restMu[j]
		sum += d * (d / v)
	}
	return sum
}

// rescale multiplies by λ what the data have added to b's precision, where that is
// still a precision: a weight may have drifted past its prior.
func (s *State) rescale(b *member, lambda float64) {
	if lambda == 1 || !b.noise || b.cov.forget(lambda, b.mean, s.restMu, s.restV) != nil {
		return
	}
	if b.learning != nil {
		b.known = s.determined(b)
	}
}

// begin gives the named features their columns and every member its start.
func (s *State) begin() error {
	s.at, s.order, s.known, s.born, s.life = nil, nil, nil, nil, nil
	for _, b := range s.bank {
		b.mean, b.cov = nil, nil
	}
	if err := s.index(); err != nil {
		return err
	}
	// The batch engines' problem without rows: the start, columns in our order.
	r, err := kernels.NewRows(s.cfg)
	if err != nil {
		return err
	}
	p, err := r.Problem()
	if err != nil {
		return err
	}
	for _, b := range s.bank {
		b.mean = append([]float64(nil), p.Normal.Mean...)
		switch {
		case s.cfg.Options.Covariance == "lowrank":
			b.cov, err = newLowRank(p.Normal, s.cfg.Options.Rank)
		case b.q > 0 || s.cfg.NoiseBy != nil:
			b.cov, err = newWalk(p.Normal)
		default:
			b.cov, err = newRoot(p.Normal)
		}
		if err != nil {
			return fmt.Errorf("prior: %w", err)
		}
	}
	return nil
}

// room reports more weights than a covariance has memory for.
func (s *State) room(p int) error {
	if s.cfg.Options.Covariance == "lowrank" {
		l := lowRank{p: p, rank: kernels.Or(s.cfg.Options.Rank, DefaultRank)}
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

// covarianceBytes is what the covariances of p weights take.
func (s *State) covarianceBytes(p int) int64 {
	each := float64(p) * float64(p)
	if s.cfg.Options.Covariance == "lowrank" {
		l := lowRank{p: p, rank: kernels.Or(s.cfg.Options.Rank, DefaultRank)}
		each = float64(p)*float64(l.room()+4) + 3*float64(l.room())*float64(l.room())
	}
	return int64(8 * each * float64(max(1, len(s.bank))))
}

// reserve takes the memory of so many more covariances from the budget.
func (s *State) reserve(times int64, what string) (*memory.Grant, error) {
	p := s.Dict.Len()
	return memory.Reserve(times*s.covarianceBytes(p), fmt.Sprintf("%s with covariance = '%s' of %d weights", what, kernels.Or(s.cfg.Options.Covariance, "full"), p))
}

// index gives the features that the dictionary has learnt their columns.
func (s *State) index() error {
	n, old := s.Dict.Len(), len(s.at)
	prior := make([]kernels.Weight, n)
	for id := old; id < n; id++ {
		prior[id] = s.cfg.Prior.Of(s.Dict.Name(uint32(id)))
	}
	start := prior
	if old == 0 {
		put := func(ws []kernels.Weight, bs []kernels.Belief) {
			for _, b := range bs {
				if id, ok := s.Dict.Find(b.Feature); ok {
					ws[id] = b.Weight
				}
			}
		}
		put(prior, s.cfg.Priors)
		if f := s.cfg.Start; f != nil {
			start = append([]kernels.Weight(nil), prior...)
			put(start, f.Beliefs)
		}
	}
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
	// Old columns keep their order among themselves.
	order := s.Dict.Order()
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
	if s.cfg.Forgets() || s.cfg.Options.AutoDispersion {
		s.restMu = spread(s.restMu, moves, mean)
		s.restV = spread(s.restV, moves, variance)
	}
	if !s.drifts {
		return nil
	}
	s.born = spread(s.born, moves, make([]bool, p))
	s.life = spread(s.life, moves, make([]float64, p))
	if s.cfg.NoiseBy != nil {
		s.rate = make([]float64, p)
		for id, j := range cols {
			if j >= 0 {
				s.rate[j] = s.cfg.NoiseBy[string(s.Dict.Name(uint32(id)))]
			}
		}
	}
	return nil
}

// spread puts src[j] to dst[move[j]] and returns dst.
func spread[T any](src []T, move []int, dst []T) []T {
	dst = append([]T(nil), dst...)
	for j, to := range move {
		if j < len(src) {
			dst[to] = src[j]
		}
	}
	return dst
}

// Grow gives features that the dictionary has learnt their prior. Cost: O(p²)
// with a full covariance, when there are any.
// Errors: more weights than MaxFull with a full covariance.
func (s *State) Grow() error {
	if s.Dict.Len() <= len(s.at) {
		return nil
	}
	return s.index()
}

// bear starts the drift of the named features.
func (s *State) bear() {
	if !s.drifts {
		return
	}
	for _, j := range s.at[:s.named] {
		if j >= 0 {
			s.born[j] = true
		}
	}
}

// tick moves the clock to row i of b and lets the weights drift up to it.
func (s *State) tick(b *kernels.Batch, i int) error {
	t := s.clock + 1
	if s.cfg.HasTime {
		t = b.Time[i]
		if t < s.clock {
			s.late++ // no drift for a row that comes late
			return nil
		}
		if math.IsNaN(t) || math.IsInf(t, 0) {
			return kernels.RowError(fmt.Errorf("time = %v; allowed: finite numbers", t))
		}
	} else if math.IsNaN(t) {
		t = 0
	}
	dt := t - s.clock
	if math.IsNaN(s.clock) { // with the first row the named weights start to drift
		s.begun = t
		s.bear()
	}
	s.clock = t
	if dt > 0 && s.drifts {
		return s.drift(dt)
	}
	return nil
}

// drift takes every member dt ahead.
func (s *State) drift(dt float64) error {
	for j, b := range s.born {
		if b {
			s.life[j] += dt
		}
	}
	if s.cfg.Forgets() {
		for _, b := range s.bank {
			if err := b.cov.forget(math.Pow(s.cfg.Forgetting, dt), b.mean, s.restMu, s.restV); err != nil {
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

// perUnit is dt, times the column's own rate where there is one.
func (s *State) perUnit(j int, dt float64) float64 {
	if s.rate != nil {
		return s.rate[j] * dt
	}
	return dt
}

func (s *State) walk(d []float64) {
	for _, b := range s.bank {
		if q := s.scale(b); q > 0 {
			b.cov.walk(q, d)
		}
	}
}

// scale is what perUnit is multiplied by.
func (s *State) scale(b *member) float64 {
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

// Features is the dictionary that numbers the features of the batches.
func (s *State) Features() *kernels.Dict { return &s.Dict }

// Skip counts rows that were left out.
func (s *State) Skip(n int64) { s.skipped += n }

// Update absorbs the rows of b in order; feature numbers are those of s.Dict.
// With skip, bad rows are counted and left out, else the first one ends the
// update with an error that Is kernels.ErrRow; the rows before it stay absorbed.
// A cancelled ctx may end it within a row: the state is of no use then.
//
// Cost: see the package comment; no allocation a row. The result depends on the
// order of the rows unless the likelihood is Gaussian and nothing drifts.
func (s *State) Update(ctx context.Context, b *kernels.Batch, skip bool) (err error) {
	s.watch(ctx)
	defer s.stop.End(&err)
	if err := s.Grow(); err != nil {
		return err
	}
	for i := range b.Len() {
		s.stop.Check()
		if err := s.row(b, i); err != nil {
			if skip && errors.Is(err, kernels.ErrRow) {
				s.skipped++
				continue
			}
			return err
		}
	}
	return nil
}

// watch gives the call under way and its dense steps a Stop; defer its End.
func (s *State) watch(ctx context.Context) {
	s.stop = stop.Watch(ctx, 0)
	s.under(s.stop)
}

func (s *State) under(halt *stop.Stop) {
	s.stop = halt
	for _, b := range s.bank {
		b.cov.under(halt)
	}
}

func (s *State) row(b *kernels.Batch, i int) error {
	o := b.Obs(i)
	if err := s.cfg.Lik.Check(o); err != nil {
		return kernels.RowError(err)
	}
	s.seen = true
	if s.drifts || s.cfg.HasTime {
		if err := s.tick(b, i); err != nil {
			return err
		}
	}
	m := s.entries(b, i)
	if s.drifts {
		for _, j := range s.cols {
			s.born[j] = true
		}
	}
	k := len(s.bank)
	s.tilts, s.spreads = resize(s.tilts, k), resize(s.spreads, k)
	cut := false
	for k, q := range s.bank {
		mk, v := m, q.cov.predict(s.cols, s.vals)
		for e, j := range s.cols {
			mk += s.vals[e] * q.mean[j]
		}
		if !finite(mk) || !finite(v) {
			return kernels.RowError(fmt.Errorf("the linear predictor overflows (mean %v, variance %v); scale the features down", mk, v))
		}
		t := lik.Tilted{Ratio: 1}
		if o.Weight > 0 {
			if q.learning != nil {
				q.learning.Begin(o, mk, v)
			}
			var c bool
			t, c = q.up.tilt(o, mk, v)
			cut = cut || c
			if q.learning != nil && q.noise {
				t.LogZ = q.learning.LogZ(o, mk, v, q.known)
			}
		}
		if !finite(t.LogZ) || !finite(t.Alpha) || !finite(v*t.Alpha) || !finite(t.Beta) || !(t.Ratio > 0) || !finite(t.Ratio) {
			return kernels.RowError(fmt.Errorf("y = %v with weight %v is impossible under a linear predictor of mean %v, variance %v: log Z = %v", o.Y, o.Weight, mk, v, t.LogZ))
		}
		t.Ratio = math.Max(t.Ratio, leastRatio)
		s.tilts[k], s.spreads[k] = t, v
	}
	s.n++
	if cut {
		s.cut++
	}
	for k, q := range s.bank {
		q.logZ += s.tilts[k].LogZ
		at, before := m, q.known
		if q.learning != nil {
			for e, j := range s.cols {
				at += s.vals[e] * q.mean[j]
			}
		}
		if s.spreads[k] > 0 && o.Weight > 0 {
			q.cov.absorb(q.mean, s.tilts[k])
		}
		if q.learning != nil && o.Weight > 0 {
			q.known = s.determined(q)
			s.rescale(q, q.learning.Learn(o, at, s.spreads[k], before, q.known))
		}
	}
	return nil
}

// entries sets cols and vals to the unknown weights of row i, in the order of the
// columns, and returns what the offset and the known ones add to the linear predictor.
func (s *State) entries(b *kernels.Batch, i int) float64 {
	m := b.Shift(i)
	s.cols, s.vals = s.cols[:0], s.vals[:0]
	fs, xs := b.Entries(i)
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

func finite(x float64) bool { return math.Abs(x) <= math.MaxFloat64 }

// best is the member of the largest log evidence, the smallest noise among equals.
func (s *State) best() *member {
	best := s.bank[0]
	for _, b := range s.bank[1:] {
		if b.logZ > best.logZ {
			best = b
		}
	}
	return best
}

// Linear gives mean and variance of the linear predictor of each row of b as
// the state stands, drift up to the row's time included, for a prediction before
// the row is learnt. The beliefs are not changed.
func (s *State) Linear(b *kernels.Batch, mean, variance []float64) error {
	if err := s.Grow(); err != nil {
		return err
	}
	q := s.best()
	cov, mu := q.cov, q.mean
	reached := 0.0 // how far cov and mu are ahead, with forgetting
	for i := range b.Len() {
		t := s.clock
		if s.cfg.HasTime && len(b.Time) > 0 {
			t = b.Time[i]
		} else if !s.cfg.HasTime {
			t++
		}
		dt := t - s.clock
		if !(dt > 0) || !s.drifts {
			dt = 0
		}
		if s.cfg.Forgets() && dt != reached {
			cov, mu, reached = q.cov.clone(), append([]float64(nil), q.mean...), dt
			if dt > 0 {
				if err := cov.forget(math.Pow(s.cfg.Forgetting, dt), mu, s.restMu, s.restV); err != nil {
					return err
				}
			}
		}
		m := s.entries(b, i)
		v := cov.predict(s.cols, s.vals)
		for e, j := range s.cols {
			m += s.vals[e] * mu[j]
			if dt > 0 && !s.cfg.Forgets() && s.born[j] {
				v += s.vals[e] * s.vals[e] * s.scale(q) * s.perUnit(int(j), dt)
			}
		}
		mean[i], variance[i] = m, v
	}
	return nil
}

// Clone returns an independent copy.
func (s *State) Clone() *State {
	c := *s
	c.Dict = s.Dict.Clone()
	c.known = append([]kernels.Weight(nil), s.known...)
	c.born = append([]bool(nil), s.born...)
	c.life = append([]float64(nil), s.life...)
	c.cols, c.vals, c.added, c.tilts, c.spreads, c.spare = nil, nil, nil, nil, nil, nil
	c.bank = make([]*member, len(s.bank))
	for k, b := range s.bank {
		m := *b
		m.mean, m.cov = append([]float64(nil), b.mean...), b.cov.clone()
		if b.learning != nil {
			m.learning = b.learning.Clone()
			m.up = s.bound(m.learning)
		}
		c.bank[k] = &m
	}
	return &c // order, at, rate and rest are replaced, never changed
}

// Size is the memory held, in bytes.
func (s *State) Size() int64 {
	n := s.Dict.Size() + 400 + 4*int64(cap(s.order)+cap(s.at)+cap(s.cols)) + 16*int64(cap(s.known)) + int64(cap(s.born)) +
		8*int64(cap(s.life)+cap(s.rate)+cap(s.restMu)+cap(s.restV)+cap(s.vals)+cap(s.added))
	for _, b := range s.bank {
		n += 8*int64(cap(b.mean)) + b.cov.size()
	}
	return n
}

// Len is the number of features.
func (s *State) Len() int { return s.Dict.Len() }

// Merge absorbs a state of the same model and rule that saw other rows: the
// product of the posteriors with the shared prior counted once, Λ = Λa + Λb - Λ0,
// over all features of both. It is exact for a Gaussian likelihood without drift
// (with a full covariance), else the usual embarrassingly parallel approximation.
// With drift both are brought to the later time first (rows without time count on:
// src comes after s), and the prior counts with the larger of the two drifts.
//
// The log evidence gains log ∫ q_a q_b / p0. src is not changed. After a cancelled ctx s
// is of no use.
//
// Cost: O(p³), with low rank O(p rank²).
// Errors: src's features exceed a limit; the product is improper.
func (s *State) Merge(ctx context.Context, src *State) (err error) {
	s.watch(ctx)
	defer s.stop.End(&err)
	s.stop.Check()
	g, err := s.reserve(5, "merging fits")
	if err != nil {
		return err
	}
	defer g.Release()
	return s.merge(src)
}

func (s *State) merge(src *State) error {
	b := src.Clone()
	b.under(s.stop)
	if err := b.Grow(); err != nil {
		return err
	}
	if _, err := s.Dict.Merge(&src.Dict); err != nil {
		return err
	}
	if err := s.Grow(); err != nil {
		return err
	}
	if _, err := b.Dict.Merge(&s.Dict); err != nil {
		return err
	}
	if err := b.Grow(); err != nil {
		return err
	}
	clock, begun := s.clock, s.begun
	switch {
	case math.IsNaN(clock):
		clock, begun = b.clock, b.begun
	case math.IsNaN(b.clock):
	case s.cfg.HasTime:
		clock, begun = max(clock, b.clock), min(begun, b.begun)
	case s.drifts:
		clock += b.clock - b.begun
		if f := s.cfg.Start; f == nil || f.N == 0 { // a fresh run begins at its first row
			clock++
		}
	}
	if s.drifts {
		if dt := clock - s.clock; dt > 0 {
			if err := s.drift(dt); err != nil {
				return err
			}
		}
		if dt := clock - b.clock; dt > 0 && s.cfg.HasTime {
			if err := b.drift(dt); err != nil {
				return err
			}
		}
	}
	switch {
	case !b.seen:
	case !s.seen:
		for k, q := range s.bank {
			r := b.bank[k]
			q.mean, q.cov, q.learning, q.up, q.known = r.mean, r.cov, r.learning, r.up, r.known
		}
		copy(s.life, b.life)
		copy(s.born, b.born)
	default:
		if err := s.multiply(b, clock-begun); err != nil {
			return err
		}
	}
	s.clock, s.begun, s.seen = clock, begun, s.seen || b.seen
	from, logZ0, skipped := int64(0), 0.0, int64(0)
	if f := s.cfg.Start; f != nil { // the counts both continued from
		from, logZ0, skipped = f.N, f.LogEvidence, f.Skipped
	}
	for k, q := range s.bank {
		q.logZ += b.bank[k].logZ - logZ0
	}
	s.n += b.n - from
	s.skipped += b.skipped - skipped
	s.late += b.late
	s.cut += b.cut
	s.merged += b.merged + 1
	s.conflict = max(s.conflict, b.conflict)
	return nil
}

// multiply is the product of beliefs over the same features, in b's dictionary in
// another order but the same columns. Time has passed since the common prior.
func (s *State) multiply(b *State, passed float64) error {
	prior := &State{cfg: s.cfg, rule: s.rule, drifts: s.drifts}
	if err := s.cfg.Name(&prior.Dict); err != nil {
		return err
	}
	prior.named = prior.Dict.Len()
	for _, q := range s.bank {
		prior.bank = append(prior.bank, &member{q: q.q, noise: q.noise})
	}
	if err := prior.begin(); err != nil {
		return err
	}
	prior.under(s.stop)
	if _, err := prior.Dict.Merge(&s.Dict); err != nil {
		return err
	}
	if err := prior.Grow(); err != nil {
		return err
	}
	if s.drifts && !s.cfg.Forgets() {
		// A weight that one side never met drifted on the other side only.
		onlyA, onlyB, most := make([]float64, len(s.life)), make([]float64, len(s.life)), make([]float64, len(s.life))
		for j := range s.life {
			most[j] = s.perUnit(j, max(s.life[j], b.life[j]))
			switch {
			case !b.born[j]:
				onlyA[j] = most[j]
			case !s.born[j]:
				onlyB[j] = most[j]
			}
			s.life[j], s.born[j] = max(s.life[j], b.life[j]), s.born[j] || b.born[j]
		}
		s.walk(onlyB)
		b.walk(onlyA)
		prior.walk(most)
	} else if s.drifts {
		for j := range s.life {
			s.life[j], s.born[j] = max(s.life[j], b.life[j]), s.born[j] || b.born[j]
		}
		for _, q := range prior.bank {
			if err := q.cov.forget(math.Pow(s.cfg.Forgetting, passed), q.mean, prior.restMu, prior.restV); err != nil {
				return err
			}
		}
	}
	p := len(s.bank[0].mean)
	va, vb := make([]float64, p), make([]float64, p)
	for k, q := range s.bank {
		r, o := b.bank[k], prior.bank[k]
		parts := int64(0)
		if q.learning != nil {
			from := prior.determined(o)
			q.known, r.known = s.determined(q), b.determined(r)
			parts = q.known + r.known - from
			scale := q.learning.Merge(r.learning, [3]int64{q.known, r.known, from})
			s.rescale(q, scale[0])
			b.rescale(r, scale[1])
			prior.rescale(o, scale[2])
		}
		q.cov.variances(va)
		r.cov.variances(vb)
		da, db := make([]float64, p), make([]float64, p)
		for j := range p {
			da[j], db[j] = q.mean[j]-o.mean[j], r.mean[j]-o.mean[j]
			s.conflict = max(s.conflict, math.Abs(da[j]-db[j])/math.Sqrt(va[j]+vb[j]))
		}
		strain := s.strain(q.mean) + s.strain(r.mean) - s.strain(o.mean)
		d, logC, apart, err := q.cov.merge(r.cov, o.cov, da, db)
		if err != nil {
			return fmt.Errorf("merging partial states: %w", err)
		}
		for j := range p {
			q.mean[j] = o.mean[j] + d[j]
		}
		q.logZ += logC
		if q.learning != nil {
			q.known = s.determined(q)
			// less what the distance says of the prior
			s.rescale(q, q.learning.Disagree(apart+strain-s.strain(q.mean), parts, q.known))
		}
	}
	return nil
}

// Summary is the fit without its beliefs and covariance.
func (s *State) Summary() kernels.Fit {
	b := s.best()
	f := *s.cfg.NewFit(s.rule.Name())
	if b.learning != nil {
		f.SetLikelihood(b.learning)
	}
	f.N, f.Skipped, f.LogEvidence = s.n, s.skipped, b.logZ
	if s.cfg.HasTime {
		f.Time = s.clock
	}
	f.Status = s.status(b)
	return f
}

func (s *State) status(b *member) string {
	note := ""
	if b.learning != nil {
		note = b.learning.Note(b.known)
	}
	switch {
	case s.late > 0:
		return fmt.Sprintf("%d rows came before the time already reached: no drift was applied for them", s.late)
	case s.conflict > MaxConflict:
		return fmt.Sprintf("parts fitted apart (several threads or window parts, no ORDER BY) were merged and disagree by up to %.0f standard deviations: log_evidence is not reliable", s.conflict)
	case s.merged > 0 && s.drifts:
		return "parts fitted apart (several threads or window parts, no ORDER BY) were merged: with drift the answer is approximate"
	case s.cut > 0:
		return fmt.Sprintf("%d steps were cut at %d on the linear predictor, where one linearisation does not reach", s.cut, maxStep)
	case note != "":
		return note
	case b.cov.status() != "":
		return b.cov.status()
	case s.cfg.Options.AutoNoise:
		return kernels.NoiseStatus(b.q, len(s.bank))
	}
	return "ok"
}

// Fit returns the posterior with its covariance, in belief order.
// Cost: O(p²), O(p³) with process noise. Errors: a belief that is not finite.
func (s *State) Fit(ctx context.Context) (f *kernels.Fit, err error) {
	s.watch(ctx)
	defer s.stop.End(&err)
	s.stop.Check()
	g, err := s.reserve(2, "a fit")
	if err != nil {
		return nil, err
	}
	defer g.Release()
	return s.fit()
}

func (s *State) fit() (*kernels.Fit, error) {
	if err := s.Grow(); err != nil {
		return nil, err
	}
	f := s.Summary()
	b := s.best()
	variance := make([]float64, len(b.mean))
	b.cov.variances(variance)
	places := make([]int32, len(s.order))
	f.Beliefs = make([]kernels.Belief, len(s.order))
	for k, id := range s.order {
		j := s.at[id]
		places[k] = j
		w := s.known[id]
		if j >= 0 {
			w = kernels.Weight{Mean: b.mean[j], Variance: variance[j]}
		}
		f.Beliefs[k] = kernels.Belief{Feature: string(s.Dict.Name(id)), Weight: w}
	}
	var err error
	if f.Covariance, err = b.cov.pack(places); err != nil {
		return nil, err
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	return &f, f.Covariance.Check(len(f.Beliefs))
}

// Package stream is the common part of one-pass Gaussian filters: one loop that absorbs rows one
// after the other, whatever the form of the beliefs and the rule by which a row updates them.
//
// For a row with features x the belief gives the linear predictor s = Σ x_j w_j + offset the
// distribution N(m, v). The Rule returns α and β, and
//
//	μ' = μ + Σx α,  Σ' = Σ - Σx (Σx)ᵀ β
//
// which the Form applies to its representation of Σ. Between rows the weights drift, by a random
// walk or by forgetting.
//
// Automatic process noise runs a bank of such filters side by side, one for each rate of
// Model.NoiseGrid, over one dictionary and one reading of the rows, and beyond the grid's edges
// while those are clearly the best (extend). The answer is the filter of the largest log evidence,
// the innovation likelihood of its rate; for counts, the one that predicts best with the
// overdispersion it has met (countScore). All filters are merged and cloned, none is dropped, so that
// the choice depends on the rows alone. A run continued from a fit starts all of them from its
// beliefs. Cost: the bank's size (10 and more) times that of one filter.
package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// Plan is what the states of one model share, except for the rates of a bank extended beyond its
// grid. It is immutable.
type Plan struct {
	Model  *kernels.Model
	Rates  []float64 // of random-walk variance, one for each belief of a bank, ascending
	Drifts bool      // weights move between rows
	Learns bool      // the dispersion is learnt from the rows
	Named  int       // number of features that the model names; they come first
	Exact  bool      // what rows say of the weights is a Gaussian, whatever the prior that they meet
	// Located says that responses lie around their predictor: each row says something of it, and about
	// the same under any prior.
	Located bool

	grid       [2]float64 // the ends of the rates that a bank starts with
	rule       Rule
	up         Update // bound to the model's own likelihood
	noise      bool   // the noise of the rows is learnt
	unitNoise  bool   // the noise is 1 in the unit of the responses until rows teach it
	loose      bool   // the rows of the fit continued tied weights, but brought no information about the noise
	slow       bool
	costly     bool // Form.Rescale costs much more than a row
	answers    likelihoodTraits
	calibrates bool          // the summary compares the number of events or counts with its expectation
	predicts   bool          // log Z of a row of weight 1 is the log probability of its binary response
	linear     bool          // log Z is that of innovations, with the likelihood's own noise
	begins     int64         // rows before a summary, including those of a fit continued
	names      *kernels.Dict // the features that the model names
	head       kernels.Fit   // the fields that are the same in all fits
	levels     bool          // the fit continued has prior variances of columns of levels
	startUnit  float64       // scale of the unit of its responses

	fixed map[uint32]float64 // means of known weights (fixedNamed); nil unless numbers are standardised
}

// Config configures a State.
type Config struct {
	Model *kernels.Model
	Rule  Rule
	// Form creates the beliefs before the first row over the features that the model names, which
	// are in d, and memory for the State.
	Form func(p *Plan, d *kernels.Dict) (Form, *State, error)
	// Costly says that Form.Rescale costs much more than a row (lik.Learning.Costly).
	Costly bool
	// Slow says that rows, merges and fits take so long that a context may cancel them.
	Slow bool
}

// State is the state of a filter. The zero State is not ready: use New.
type State struct {
	plan *Plan
	dict *kernels.Dict // shared with other states, none of which changes it, unless copied
	form Form
	bank []member // one; with automatic noise one for each rate
	one  [1]member

	begun, clock float64 // times of the start and of the latest row; NaN before the first
	units        *units  // nil if numbers are not standardised
	means        *means  // of numbers not in units; nil if there are none
	counted      kernels.ColumnCounts
	n, skipped   int64
	told         int64 // rows of weight above 0
	late, cut    int64
	merged       int32
	sure         int32            // steps that ended TooCertain, at most MaxInt32
	responses    *responseSummary // nil before Plan.begins rows
	fixed        *lik.Fixed       // nil if the parameters are learnt, and before Plan.begins rows
	seen         bool             // a row has come
	counts       bool             // determined has run
	copied       bool
	moved        bool  // units have changed
	early        ends  // of the rows before the summary of responses
	vague        int16 // how many of the first rows were vague; halved by each that was not
}

// member is the part of a State that belongs to one belief of the bank.
type member struct {
	logZ     float64
	score    float64 // log predictive density of the rows of the summary
	conflict float64 // largest |μa - μb| / sqrt(σa² + σb²) seen in a merge
	learning *learning
	scored   *scored // nil if the rows of the family teach it nothing else
	row      *met    // memory for the current row; nil if there is one member
}

// learning is a member's own likelihood and the rule bound to it.
type learning struct {
	*lik.Learning
	up      Update
	squares squares
}

// New returns the state before the first row.
//
// Errors: an automatic dispersion of a family whose dispersion cannot be learnt row by row; learnt
// prior variances with a form that does not learn them or weights that drift; those of the rule and
// of the form; more starting beliefs than MaxFeatures.
func New(c Config) (*State, error) {
	if c.Rule == nil || c.Form == nil {
		return nil, errors.New("the stream has no rule or no form of its beliefs; packages adf and filter make both")
	}
	m := c.Model.Complete()
	if err := m.CheckStart(); err != nil {
		return nil, err
	}
	m, reply := standardised(m)
	p, learn, err := newPlan(&c, m, reply)
	if err != nil {
		return nil, err
	}
	d := &kernels.Dict{}
	if err := m.Name(d); err != nil {
		return nil, err
	}
	p.Named, p.names, p.head = d.Len(), d, *m.NewFit(c.Rule.Name())
	form, s, err := c.Form(p, d)
	if err != nil {
		return nil, err
	}
	if _, ok := form.(PriorLearner); m.Options.AutoPrior && (!ok || p.Drifts || len(p.Rates) > 1 || m.NoIntercept) {
		return nil, errors.New("prior_variance = 'auto' in one pass: allowed with covariance = 'arrowhead', an intercept and weights that do not move")
	}
	*s = State{plan: p, dict: d, form: form, begun: math.NaN(), clock: math.NaN()}
	s.bank = s.one[:]
	if len(p.Rates) > 1 {
		s.bank = make([]member, len(p.Rates))
	}
	s.rows()
	if m.Options.Standardize {
		p.fixed = p.fixedNamed(d)
		s.units = &units{centred: !m.NoIntercept, y: reply}
		if s.units.centred { // not about an intercept that is known
			_, fixed := p.known(d, 0)
			s.units.centred = !fixed
		}
	}
	if m.Start != nil {
		s.continueFrom(m.Start)
	}
	if err := s.startMembers(learn, reply); err != nil {
		return nil, err
	}
	return s, nil
}

// newPlan returns the plan of model m, whose responses have a unit of their own unless reply is
// nil, and the likelihood that rows learn, nil for none.
func newPlan(c *Config, m *kernels.Model, reply *response) (p *Plan, learn *lik.Learning, err error) {
	p = &Plan{Model: m, Rates: []float64{m.Noise}, Drifts: m.Drifts() || m.Options.AutoNoise, rule: c.Rule, slow: c.Slow, costly: c.Costly, Exact: m.Lik.Traits().Gaussian, Located: m.Lik.Traits().Located,
		answers: likelihoodTraitsOf(m.Lik), begins: responseSummaryBegins, calibrates: calibrates(m.Lik)}
	n := int64(0) // rows of the fit that is continued
	if m.Start != nil {
		n = trainingRows(m.Start)
	}
	if m.Options.AutoShape { // the mean under the first shape does not compete with a learnt shape
		p.answers.constant, p.answers.keeper, p.answers.sized = nil, nil, m.Lik.Traits().Counts
	}
	if p.answers.growing {
		p.begins = growingSummaryBegins
	}
	p.begins += n
	p.startUnit = reply.scale()
	p.levels = m.Start.KeepsLevels() || m.Start != nil && slices.ContainsFunc(m.Start.Columns, func(c kernels.FitColumn) bool { return c.Kind == kernels.LevelsColumn && c.Variance >= 0 })
	if m.Options.AutoNoise {
		p.Rates = m.NoiseGrid()
		p.grid = edges(p.Rates)
	}
	p.linear = innovates(c.Rule) && m.Options.MeasurementNoise == 0 && !m.Options.AutoMeasurementNoise
	if m.Options.AutoDispersion {
		if reply != nil && !m.Lik.Traits().Gaussian {
			p.unitNoise = true // at first
		} else if learn, err = lik.NewLearning(m.Lik, n); err != nil {
			return nil, nil, err
		} else {
			p.loose = resumeNoise(learn, m, reply.scale())
			learn.Costly = c.Costly
			p.Learns = true
		}
		p.noise = !innovates(c.Rule) || p.linear
		p.answers.homoscedastic = p.Learns && m.Lik.Traits().Homoscedastic
	}
	p.up, err = c.Rule.Bind(m)
	if _, ok := p.up.(exact); ok {
		p.predicts = m.Lik.Traits().Binary
	}
	return p, learn, err
}

// continueFrom sets the counts to those of a fit.
func (s *State) continueFrom(f *kernels.Fit) {
	s.n, s.skipped, s.told = f.N, f.Skipped, trainingRows(f)
	s.counted = kernels.CountFrom(f.Columns)
	for k := range s.bank {
		s.bank[k].logZ = f.LogEvidence
	}
	timed := s.plan.Model.HasTime
	if timed && !math.IsNaN(f.Time) {
		s.clock = f.Time
	} else if f.N > 0 && !timed {
		s.clock = 0 // the next row is one step later
	}
	s.begun = s.clock
}

// startMembers gives each member the part of the likelihood that it learns, and starts the drift.
func (s *State) startMembers(learn *lik.Learning, reply *response) (err error) {
	p := s.plan
	if learn != nil {
		for k := range s.bank {
			learn.Drift = p.Rates[k] > 0 || p.Model.NoiseBy != nil
			learn.Steps = learn.Steps || p.Drifts || !p.noise
			s.bank[k].learning = p.learning(learn)
			if _, ok := s.form.(Loose); ok && p.loose {
				s.bank[k].learning.ResumeLoose()
			} else if ok && learn.Information() != 0 { // of earlier rows
				s.bank[k].learning.Relax(0, 0)
			} else if f := p.Model.Start; ok && f != nil && f.Intercept && len(f.Beliefs) > 1 {
				if rows, _ := f.TrainingRows(); rows > 2 { // a fit of this version records that it is loose
					s.bank[k].learning.MarkUncertain()
				}
			}
			s.form.Determined(k)
		}
	}
	if reply != nil {
		s.bind()
	}
	for k := range s.bank {
		if s.bank[k].scored, err = p.newScored(); err != nil {
			return err
		}
	}
	if s.units == nil {
		s.determined()
	}
	if p.Drifts && !math.IsNaN(s.clock) {
		s.form.Begin(s.clock)
	}
	return nil
}

// rows allocates the members' memory for a row.
func (s *State) rows() {
	if n := len(s.bank); n > 1 {
		row := make([]met, n)
		for k := range s.bank {
			s.bank[k].row = &row[k]
		}
	}
}

// learning returns a copy of l, bound to the rule.
func (p *Plan) learning(l *lik.Learning) *learning {
	own := *p.Model
	l = l.Clone()
	own.Lik = l
	up, err := p.rule.Bind(&own)
	if err != nil { // the same options bound before
		panic(err)
	}
	return &learning{Learning: l, up: up}
}

// cloneLearning returns an independent copy of l.
func (p *Plan) cloneLearning(l *learning) *learning {
	c := p.learning(l.Learning)
	c.squares = l.squares
	return c
}

// Fresh is the prior of feature id of d without a prior of its own: that of its column if there is
// one, for a level as the model or the fit continued has it.
func (p *Plan) Fresh(d *kernels.Dict, id int) kernels.Weight {
	prior := &p.Model.Prior
	if id == 0 && !p.Model.NoIntercept {
		return kernels.Weight{Mean: prior.Mean, Variance: prior.InterceptVariance}
	}
	w := kernels.Weight{Mean: prior.Mean, Variance: prior.Variance}
	if p.OnePrior() {
		return w
	}
	name := d.Name(uint32(id))
	if by := p.Model.PriorBy.OfFeature(string(name)); by != nil {
		w.Variance = by.Variance
	} else if p.levels && (id < p.Named || d.LevelColumn(uint32(id)) != "" || p.Model.Start.KeepsLevels()) { // the dictionary may not know the columns of named features yet
		if v, ok := p.Model.Start.LevelVariance(name); ok {
			w.Variance = kernels.UnscalePrior(v, p.startUnit*p.startUnit)
		}
	}
	return w
}

// OnePrior reports whether all weights that the model does not name, except the intercept, have one
// prior.
func (p *Plan) OnePrior() bool { return len(p.Model.PriorBy) == 0 && !p.levels }

// fixedNamed returns the means, by feature, of the weights that the model names and that are known.
func (p *Plan) fixedNamed(d *kernels.Dict) map[uint32]float64 {
	m := p.Model
	fixed := map[uint32]float64{}
	if m.Prior.Variance == 0 || m.Prior.InterceptVariance == 0 || !p.OnePrior() {
		for id := range p.Named {
			if w := p.Fresh(d, id); w.Variance == 0 {
				fixed[uint32(id)] = w.Mean
			}
		}
	}
	put := func(bs []kernels.Belief) {
		for i := range bs {
			if bs[i].Variance > 0 && len(fixed) == 0 {
				continue
			}
			if id, ok := d.Find(bs[i].Feature); ok && bs[i].Variance == 0 {
				fixed[id] = bs[i].Mean
			} else if ok {
				delete(fixed, id)
			}
		}
	}
	put(m.Priors)
	if m.Start != nil {
		put(m.Start.Beliefs)
	}
	return fixed
}

// known returns the mean of the weight of feature id of d if its prior variance is 0.
func (p *Plan) known(d *kernels.Dict, id int) (mean float64, is bool) {
	if id < p.Named {
		mean, is = p.fixed[uint32(id)]
		return mean, is
	}
	w := p.Fresh(d, id)
	return w.Mean, w.Variance == 0
}

// Best is the index of the belief of largest log evidence, or of largest score for counts and
// learnt noise; of the least drift among equals.
func (s *State) Best() int {
	best := 0
	for k := range s.bank {
		if s.bank[k].merit() > s.bank[best].merit() {
			best = k
		}
	}
	return best
}

func (b *member) merit() float64 {
	switch {
	case b.counts() != nil:
		return b.counts().score
	case (b.learning != nil || b.learner() != nil) && b.score != 0:
		// The first rows are scored under a noise not learnt yet, which drift makes up for.
		return b.score
	}
	return b.logZ
}

// Rates are the rates of random-walk variance of the bank and the log evidence of each.
func (s *State) Rates() (rates, logZ []float64) {
	for k := range s.bank {
		logZ = append(logZ, s.bank[k].logZ)
	}
	return s.plan.Rates, logZ
}

// Model is the model of the state.
func (s *State) Model() *kernels.Model { return s.plan.Model }

// Rows is the number of rows learnt, including those of a fit continued.
func (s *State) Rows() int64 { return s.n }

// Likelihood is that of the rows: the model's, or as learnt so far.
func (s *State) Likelihood() lik.Likelihood {
	m := s.plan.Model
	scale := 1.0
	if s.units != nil && s.units.y != nil {
		scale = s.units.y.unit.scale()
	}
	if l := s.bank[s.Best()].learner(); l != nil {
		return l.inUnitOf(scale)
	}
	if l := s.bank[s.Best()].learning; l != nil {
		if scale == 1 {
			return l.Learning
		}
		l := l.Learning.Clone()
		l.Recast(scale)
		return l
	}
	return m.Lik
}

// Beliefs is the form of the beliefs.
func (s *State) Beliefs() Form { return s.form }

// Features is the dictionary that numbers the features of the batches, the state's own copy.
func (s *State) Features() *kernels.Dict {
	if !s.copied {
		s.dict, s.copied = s.dict.Copy(), true
	}
	return s.dict
}

// Share makes d, which must no longer change, the state's dictionary, so that small states of one
// model share one. It returns false if the state has features of its own. d must begin with the
// features of a state before its first row, and the row that follows must have all of d's, in their
// order.
func (s *State) Share(d *kernels.Dict) bool {
	if s.copied || s.dict != d && s.dict != s.plan.names {
		return false
	}
	s.dict = d
	return true
}

// Len is the number of features.
func (s *State) Len() int { return s.dict.Len() }

// Skip counts rows that were left out.
func (s *State) Skip(n int64) { s.skipped += n }

// Grow gives features that the dictionary has gained their prior.
// Errors: more weights than the form has memory for.
func (s *State) Grow() error { return s.form.Grow(s.dict) }

// startStop gives the current call and its long steps a Stop; defer its End. Calls that are not slow
// have none.
func (s *State) startStop(ctx context.Context) *stop.Stop {
	halt := stop.Watch(ctx, 0)
	s.form.Under(halt)
	return halt
}

// Update absorbs the rows of b in order; feature numbers are those of Features. With skip, bad rows
// are counted and left out, as if they had not come; otherwise the first one ends the update with an
// error that Is kernels.ErrRow, and the rows before it stay absorbed, while units, means of numbers
// and the clock may have followed the bad row. A cancelled ctx ends it with its cause,
// that of a slow form within a row: the state is unusable then.
//
// Cost: that of the form and the rule; no allocation per row. The result depends on the order of
// the rows unless no two of them share a weight, or the likelihood is Gaussian, the form exact and
// nothing drifts.
func (s *State) Update(ctx context.Context, b *kernels.Batch, skip bool) error {
	if s.plan.slow {
		return s.updateUnder(ctx, b, skip)
	}
	return s.update(ctx, nil, b, skip)
}

func (s *State) updateUnder(ctx context.Context, b *kernels.Batch, skip bool) (err error) {
	halt := s.startStop(ctx)
	defer halt.End(&err)
	return s.update(ctx, halt, b, skip)
}

func (s *State) update(ctx context.Context, halt *stop.Stop, b *kernels.Batch, skip bool) error {
	if err := b.Check(); err != nil {
		return err
	}
	b.Transpose()
	if err := s.Grow(); err != nil {
		return err
	}
	if s.units != nil && len(s.units.at) < s.dict.Len() { // before the weights drift
		s.number()
	}
	s.counted.Add(b)
	if (b.Schema.Numbers() || s.means != nil) && s.bare() {
		s.averages()
	}
	defer s.rest()
	next := s.ahead(b)
	var good retreat
	if skip {
		good = s.retreat(b)
	}
	for i := range b.Len() {
		if halt.Check(); halt == nil && i&15 == 15 { // small groups never check
			if err := stop.Cause(ctx); err != nil {
				return err
			}
		}
		next.prefetch(b, i)
		if skip {
			good.before(s, b, i)
		}
		if err := s.row(b, i); err != nil {
			if skip && errors.Is(err, kernels.ErrRow) {
				if s.possible(b.Obs(i), b, i) == nil {
					good.back(s, halt, b, i)
				}
				s.leaveOut(b, i)
				continue
			}
			return &kernels.BatchError{Row: i, Err: err}
		}
	}
	return nil
}

// Count counts the columns of r, whose rows come with the next Update: the rows that r keeps say
// nothing of columns.
func (s *State) Count(r *kernels.Rows) error {
	if s.means == nil {
		s.means = &means{}
	}
	return r.CountIn(&s.counted)
}

// fetchAhead is the number of entries to prefetch beyond a row: one row of many, several of few.
const fetchAhead = 64

// ahead prefetches the weights of the rows that follow. form is nil if nothing is far.
type ahead struct {
	form  Far
	asked int // entries of the batch prefetched
}

func (s *State) ahead(b *kernels.Batch) (a ahead) {
	if b.Shared == nil && b.Len() > 0 {
		a.form, _ = s.form.(Far)
		a.asked = b.Row[0]
	}
	return a
}

// prefetch prefetches what follows row i.
func (a *ahead) prefetch(b *kernels.Batch, i int) {
	if a.form == nil || b.Row[i+1]+fetchAhead <= a.asked || a.asked >= len(b.Feature) {
		return
	}
	to := min(max(b.Row[i+1], a.asked)+fetchAhead, len(b.Feature))
	if !a.form.Fetch(b.Feature[a.asked:to]) {
		a.form = nil
	}
	a.asked = to
}

// rest releases memory that only rows need.
func (s *State) rest() {
	s.form.Rest()
	s.units.rest()
}

// met is the update of one belief of the bank by a row.
type met struct {
	t    lik.Tilted
	m, v float64
}

// possible returns the error for row i of b, observation o, if it is bad whatever came before it.
func (s *State) possible(o lik.Obs, b *kernels.Batch, i int) error {
	if err := s.plan.Model.Lik.Check(o); err != nil {
		return kernels.RowError(err)
	}
	if s.plan.Model.HasTime && !special.Finite(b.Time[i]) && !(b.Time[i] < s.clock) {
		return kernels.RowError(fmt.Errorf("time = %v; allowed: finite numbers", b.Time[i]))
	}
	return nil
}

// row absorbs row i of b, in all beliefs or in none. The error of possible leaves the state as it
// was; after others units, means and the clock have moved (retreat).
func (s *State) row(b *kernels.Batch, i int) error {
	p := s.plan
	o := b.Obs(i)
	if err := s.possible(o, b, i); err != nil {
		return err
	}
	s.seen = true
	fs, xs := b.Entries(i)
	if p.Drifts || p.Model.HasTime {
		if err := s.tick(b, i, fs); err != nil {
			return err
		}
	}
	var one met
	shift, up, unit := b.Shift(i), p.up, 0.0
	if o.Weight > 0 {
		s.measure(fs, xs)
	}
	if s.means != nil {
		xs = s.fill(fs, xs, o.Weight > 0)
	}
	given, numbers := fs, xs
	if s.units != nil {
		known := 0.0
		fs, xs, known = s.standardiseRow(fs, xs, o.Weight > 0)
		if shift += known; s.units.y != nil {
			o, up, shift, unit = s.inUnit(o, shift)
		}
	}
	cut, sure := false, false
	for k := range s.bank {
		c := &s.bank[k]
		r := c.room(&one)
		r.m, r.v = s.form.Predict(k, fs, xs, shift)
		if !special.Finite(r.m) || !special.Finite(r.v) {
			return s.overflows(r)
		}
		r.t = lik.Tilted{Ratio: 1}
		if o.Weight > 0 {
			if c.learning != nil {
				if f, ok := s.form.(Loose); ok && f.Loose() {
					c.learning.Relax(s.form.Known(k), r.v*o.Weight)
				}
				c.learning.Begin(o, r.m, r.v)
				if s.doubts(k, o, r.v) {
					r.m, r.v = s.form.Predict(k, fs, xs, shift)
				}
			}
			var held StepLimit
			r.t, held = c.rule(up).Tilt(c.counted(o), r.m, r.v)
			cut, sure = cut || held == Shortened, sure || held == TooCertain
			if c.learning != nil && p.noise {
				r.t.LogZ = c.learning.LogZ(o, r.m, r.v, s.form.Known(k))
			}
		}
		if t := &r.t; !special.Finite(t.LogZ) || !special.Finite(t.Alpha) || !special.Finite(r.v*t.Alpha) || !special.Finite(t.Beta) || !(t.Ratio > 0) || !special.Finite(t.Ratio) {
			return s.improperError(o, r)
		}
	}
	if p.answers.growing && o.Weight > 0 && s.told < kernels.VagueRows {
		if s.told > 0 && s.bank[0].room(&one).v > kernels.Vague*kernels.Vague {
			s.vague++
		} else {
			s.vague /= 2 // as good as none after a few rows, but not after a single one by chance
		}
	}
	if s.responses != nil || o.Weight > 0 && s.told >= p.begins {
		s.summarise(b.Obs(i), o, s.bank[0].room(&one))
	} else if o.Weight > 0 {
		s.early |= endOf(b.Obs(i))
	}
	if o.Weight > 0 {
		s.follow(given, numbers, &s.bank[0].room(&one).t)
	}
	if s.n++; o.Weight > 0 {
		s.told++
	}
	if cut {
		s.cut++
	}
	if sure && s.sure < math.MaxInt32 {
		s.sure++
	}
	for k := range s.bank {
		c := &s.bank[k]
		r, before := c.room(&one), int64(0)
		logZ := r.t.LogZ - o.Weight*unit
		c.logZ += logZ
		if s.responses != nil {
			if p.linear && c.learning == nil {
				logZ = s.likelihoodInUnit(k).Moments(o, r.m, r.v).LogZ - o.Weight*unit
			}
			c.score += logZ
		}
		if c.counts() != nil {
			c.counts().learn(o, r.m, r.v, r.t.LogZ, len(s.bank) > 1)
		}
		if c.learning != nil {
			before = s.form.Known(k)
		}
		if r.v > 0 {
			s.form.Absorb(k, fs, xs, r.v, r.t)
		}
		if c.learning != nil && o.Weight > 0 {
			s.rescale(k, c.learning.Learn(o, r.m, r.v, before, s.form.Determined(k)))
		}
		s.learnParameter(k, o, r)
	}
	if c := s.responses; c != nil && (p.answers.heavy || p.answers.growing) {
		c.begun(p, s.bank[0].score)
	}
	if p.Model.Options.AutoPrior && o.Weight > 0 && learnsAt(s.told) {
		s.learnPriors()
	}
	if len(s.bank) > 1 {
		return s.extend()
	}
	return nil
}

// inUnit is a row in the unit of the responses, with its rule, its shift and the log of the unit.
func (s *State) inUnit(o lik.Obs, shift float64) (lik.Obs, Update, float64, float64) {
	y := s.units.y
	o = s.rescaleResponse(o, shift)
	return o, y.up, shift / y.unit.scale(), math.Log(y.unit.scale())
}

// fixedLikelihood is the likelihood with given parameters, for responses in their unit.
func (s *State) fixedLikelihood() lik.Likelihood {
	if s.units != nil && s.units.y != nil {
		return s.units.y.lik
	}
	return s.plan.Model.Lik
}

// likelihoodInUnit is what belief k has of the likelihood so far, for responses in their unit.
func (s *State) likelihoodInUnit(k int) lik.Likelihood {
	b := &s.bank[k]
	if b.learning != nil {
		return b.learning.Learning
	}
	if l := b.learner(); l != nil {
		return l
	}
	return s.fixedLikelihood()
}

// room is the member's memory for a row, or one if it has none.
func (b *member) room(one *met) *met {
	if b.row != nil {
		return b.row
	}
	return one
}

// counted is o weighted relative to earlier rows, which counted under the member's believed noise.
func (b *member) counted(o lik.Obs) lik.Obs {
	if b.learning != nil {
		o.Weight *= b.learning.Count()
	}
	return o
}

// rule is up, or the rule of the likelihood that the member learns.
func (b *member) rule(up Update) Update {
	if b.learning != nil {
		return b.learning.up
	}
	if b.learner() != nil {
		return b.learner().up
	}
	return up
}

// overflows returns the error for a row whose predictor is not finite.
func (s *State) overflows(r *met) error {
	return kernels.RowError(s.causeOf(fmt.Errorf("the linear predictor overflows (mean %v, variance %v); scale the features down", r.m, r.v)))
}

// improperError returns the error for a row whose tilted belief is not proper.
func (s *State) improperError(o lik.Obs, r *met) error {
	return kernels.RowError(s.causeOf(fmt.Errorf("y = %v with weight %v is impossible under a linear predictor of mean %v, variance %v: log Z = %v", o.Y, o.Weight, r.m, r.v, r.t.LogZ)))
}

// checksFixed reports whether rows are checked against a parameter that is not learnt.
func (p *Plan) checksFixed() bool {
	if t := p.Model.Lik.Traits(); t.Gaussian && !t.LogMean {
		return !p.Learns && !p.unitNoise && (p.linear || !innovates(p.rule))
	}
	return !p.scores()
}

// summarise adds a response y, which is o in its unit, to the summary, which begins with the first
// that has weight; r is its update of the first member.
func (s *State) summarise(y, o lik.Obs, r *met) {
	p := s.plan
	if y.Weight > 0 && s.told >= p.begins {
		if s.responses == nil {
			if s.responses = (&responseSummary{logs: p.Model.Lik.Traits().Relative}); p.checksFixed() {
				s.fixed = lik.NewFixed(p.Model.Lik)
			}
			if p.scores() && !p.answers.counts {
				s.responses.scale, _ = lik.NewLearner(s.fixedLikelihood(), 0)
			}
		}
		if p.answers.heavy || s.responses.scale != nil {
			unit := Unit{Scale: 1}
			if s.units != nil && s.units.y != nil {
				unit = Unit{s.units.y.unit.Center, s.units.y.unit.scale()}
			}
			s.responses.addAlone(s.fixedLikelihood(), o, unit)
		}
		if p.answers.growing {
			s.responses.expect(y, r.m, r.v)
		}
		s.responses.add(y, &p.answers)
		by := lik.Residual(r.t.Alpha, r.t.Beta)
		if s.responses.neighbours.Add(y, by); p.noise && p.Exact {
			s.responses.middle.Add(y, by)
		}
		if of := &p.answers; !p.Drifts && (of.positive || of.homoscedastic) {
			s.responses.furthest.meet(s.likelihoodInUnit(0), &p.answers, y, o, s.units.responses(), r.m, r.v)
		}
		switch {
		case p.Drifts || !p.calibrates:
		case p.predicts && o.Weight == 1:
			s.responses.addBinaryRow(o.Y, r.t.LogZ)
		default:
			s.responses.addRow(s.likelihoodInUnit(0), o, r.m, r.v)
		}
	}
	if s.fixed != nil && s.responses != nil {
		s.fixed.Observe(s.fixedLikelihood(), o, r.m, r.v)
	}
}

// mostRescales is how often D may follow what beliefs under it determine; changes shrink fast.
const mostRescales = 8

// rescale scales belief k to its noise, by lambda, then the noise to what the belief determines.
func (s *State) rescale(k int, lambda float64) {
	if !s.plan.noise {
		return
	}
	form, g := s.wholeForm(k), s.bank[k].learning
	if lambda == 1 && g.Due() && s.exactly(k) {
		s.updateEvidence(k)
		lambda = s.relearn(k, s.form.Known(k))
	}
	for i := 0; lambda != 1; i++ {
		before := int64(0)
		if form != nil {
			before = s.form.Known(k)
		}
		d := g.Believed()
		s.change(k, lambda*d, d, func() float64 {
			s.form.Rescale(k, lambda)
			return math.NaN()
		})
		if form == nil || i == mostRescales || g.Steps {
			return
		}
		s.form.Determined(k)
		lambda = s.relearn(k, before)
	}
}

// doubts raises the noise of belief k, and reports whether it did, if the form would absorb a row
// only approximately and the weights leave it almost no noise.
func (s *State) doubts(k int, o lik.Obs, v float64) bool {
	f, ok := s.form.(Approximate)
	if !ok {
		return false
	}
	share, g := f.Approximates(), s.bank[k].learning
	if share == 0 {
		return false
	}
	g.Steps = g.Steps || share >= lik.LeastNoise
	lambda := g.RaiseDispersion(o, v, share, float64(s.told), s.form.Known(k))
	s.rescale(k, lambda)
	return lambda != 1
}

// tick moves the clock to row i of b, whose features are fs, and lets the weights drift up to it.
func (s *State) tick(b *kernels.Batch, i int, fs []uint32) error {
	p := s.plan
	from, t := s.clock, s.clock+1
	switch {
	case p.Model.HasTime:
		t = b.Time[i]
		if t < s.clock {
			s.late++ // a late row causes no drift
			t = s.clock
		}
	case math.IsNaN(t):
		t = 0
	}
	first := math.IsNaN(s.clock)
	if first {
		s.begun = t
	}
	s.clock = t
	if !p.Drifts {
		return nil
	}
	if first { // the named weights start to drift with the first row
		s.form.Begin(t)
	}
	return s.form.Drift(from, t, fs)
}

// Linear computes mean and variance of the linear predictor of each row of b in the present state,
// drift up to the row's time included, for predictions before the rows are learnt. The beliefs are
// not changed.
func (s *State) Linear(b *kernels.Batch, mean, variance []float64) error {
	if err := s.Grow(); err != nil {
		return err
	}
	defer s.rest()
	if before := s.counted; b.Schema != nil && b.Schema != before.Schema() { // gaps need the columns before the first row
		s.counted.Add(&kernels.Batch{Schema: b.Schema})
		defer func() { s.counted = before }()
	}
	if b.Schema.Numbers() && s.bare() {
		b = s.filled(b)
	}
	if s.units != nil {
		return s.linearIn(b, mean, variance)
	}
	return s.linear(b, mean, variance)
}

func (s *State) linear(b *kernels.Batch, mean, variance []float64) error {
	at := func(i int) float64 {
		switch {
		case !s.plan.Model.HasTime:
			return s.clock + 1
		case len(b.Time) > 0:
			return b.Time[i]
		}
		return s.clock
	}
	return s.form.Linear(s.Best(), b, s.clock, at, mean, variance)
}

// Clone returns an independent copy.
func (s *State) Clone() *State { return s.CloneTo(nil) }

// CloneTo is Clone in the memory of old. old is nil or another clone of s, or of the state that s
// is a clone of, that is no longer read: groups that are made, read and discarded one after the
// other then share one place.
func (s *State) CloneTo(old *State) *State {
	d := s.dict
	if s.copied {
		d = d.Copy()
	}
	return s.cloneTo(old, d)
}

// cloneTo is CloneTo with dictionary d.
func (s *State) cloneTo(old *State, d *kernels.Dict) *State {
	var was State
	if old != nil && old.plan == s.plan && len(old.bank) == 1 {
		was = *old
	} else {
		old = nil
	}
	form, c := s.form.Clone(d, was.form)
	if c == nil {
		c = old
	}
	*c = *s
	c.form, c.dict, c.units, c.means, c.fixed = form, d, s.units.clone(was.units), s.means.clone(), s.fixed.Clone()
	c.counted = s.counted.CloneTo(was.counted)
	c.responses = s.responses.clone()
	c.bank = append(c.one[:0], s.bank...)
	for k := range c.bank {
		if b := &c.bank[k]; b.learning != nil {
			b.learning = s.plan.cloneLearning(b.learning)
		}
		c.bank[k].scored = s.plan.cloneScored(c.bank[k].scored)
	}
	c.rows()
	return c
}

// Size is the memory held in bytes.
func (s *State) Size() int64 {
	n := s.form.Size() + s.units.size() + s.means.size()
	if s.copied {
		n += s.dict.Size()
	}
	if len(s.bank) > 1 || s.plan.Learns || s.bank[0].scored != nil {
		n += 200 * int64(len(s.bank))
	}
	if s.responses != nil {
		n += responseSummarySize + s.responses.crosses.size()
	}
	n += s.fixed.Size()
	return n
}

// Merge absorbs a state of the same model and rule that saw other rows: the product of the
// posteriors with the shared prior counted once, Λ = Λa + Λb - Λ0, over the features of both. It is
// exact for a Gaussian likelihood without drift if the form is exact, and if no two rows of
// different states share a non-Gaussian weight; otherwise it is the usual embarrassingly parallel
// approximation. With drift both are first brought to the later time (rows without time continue
// the count: src comes after s), and the prior counts with the larger of the two drifts.
//
// The log evidence gains log ∫ q_a q_b / p0, the overlap that the two parts lack: exact if the
// product is, but far off for factorised beliefs of correlated features fitted apart, which Summary
// reports.
//
// src is not changed. After a cancelled ctx s is unusable.
// Errors: src's features exceed a limit; the product is improper.
func (s *State) Merge(ctx context.Context, src *State) (err error) {
	if s.plan.slow {
		halt := s.startStop(ctx)
		defer halt.End(&err)
		halt.Check()
	} else if err := stop.Cause(ctx); err != nil {
		return err
	}
	return stop.Run(ctx, s.long() || src.long(), func() error {
		g, err := s.form.Reserve(5, "merging fits")
		if err != nil {
			return err
		}
		defer g.Release()
		return s.merge(ctx, src)
	})
}

// manyWeights is from how many weights on a cancelled call does not wait for a step over them.
const manyWeights = 1 << 17

func (s *State) long() bool { return s.dict.Len() >= manyWeights }

func (s *State) merge(ctx context.Context, src *State) error {
	if err := s.Grow(); err != nil {
		return err
	}
	src, err := s.matchRates(src)
	if err != nil {
		return err
	}
	g := Merging{OtherDict: src.dict, Grown: s.dict.Len(), Now: s.clock, OtherNow: src.clock, Seen: s.seen, Brought: src.seen}
	if s.dict != src.dict {
		if g.IDs, err = s.Features().Merge(src.dict); err != nil {
			return err
		}
	}
	g.Dict = s.dict
	if err := s.Grow(); err != nil {
		return err
	}
	if err := stop.Cause(ctx); err != nil {
		return err
	}
	if err := s.counted.Merge(&src.counted, s.plan.Model.Start); err != nil {
		return err
	}
	s.mergeMeans(src, g.ID)
	s.mergeSizes(src, g.ID)
	g.Prepare = func(Form) {}
	if s.units != nil {
		if src, err = s.toCommonUnits(src, &g); err != nil {
			return err
		}
	}
	if src, err = s.shareVariances(src, &g); err != nil {
		return err
	}
	g.Clock, g.Begun = s.together(src)
	product, err := s.form.Merge(src.form, &g)
	if err != nil {
		return err
	}
	if product != nil {
		if err := s.multiply(ctx, product, src); err != nil {
			return err
		}
	}
	s.join(src, &g)
	return nil
}

// multiply replaces the beliefs of all members by their product with those of src.
func (s *State) multiply(ctx context.Context, product Product, src *State) error {
	for k := range s.bank {
		if err := stop.Cause(ctx); err != nil {
			return err
		}
		b, o := &s.bank[k], &src.bank[k]
		parts := int64(0)
		apart, err := s.mergeBelief(k, src, func() (float64, error) {
			scale := [3]float64{1, 1, 1} // λ of b, of o and of their start
			if b.learning != nil {
				known := product.Known(k)
				parts = known[0] + known[1] - known[2]
				if λ := b.learning.Merge(o.learning.Learning, known); s.plan.noise {
					scale = λ
				}
			}
			if b.learner() != nil {
				scale = s.mergeLearner(b.learner(), o.learner())
			}
			sum, apart, conflict, err := product.Multiply(k, scale, b.logZ)
			if err != nil {
				return 0, fmt.Errorf("merging partial states: %w", err)
			}
			if b.counts() != nil {
				b.counts().score += sum - b.logZ
			}
			b.logZ, b.conflict = sum, max(b.conflict, conflict)
			return apart, nil
		})
		if err != nil {
			return err
		}
		if parts != 0 {
			s.rescale(k, b.learning.Disagree(apart, parts, s.form.Determined(k)))
		}
	}
	product.Done()
	return nil
}

// join adds up what both states hold besides the beliefs, and learns the priors anew.
func (s *State) join(src *State, g *Merging) {
	both := s.seen && src.seen
	s.clock, s.begun, s.seen = g.Clock, g.Begun, s.seen || src.seen
	from, before, logZ0, skipped := int64(0), int64(0), 0.0, int64(0)
	if f := s.plan.Model.Start; f != nil { // the counts that both continued from
		from, before, logZ0, skipped = f.N, trainingRows(f), f.LogEvidence, f.Skipped
	}
	s.n += src.n - from
	s.told += src.told - before
	s.skipped += src.skipped - skipped
	for k := range s.bank {
		b, o := &s.bank[k], &src.bank[k]
		b.logZ += o.logZ - logZ0
		b.score += o.score
		b.conflict = max(b.conflict, o.conflict)
		if b.counts() != nil {
			b.counts().merge(o.counts())
		}
	}
	if both && s.plan.Model.Options.AutoPrior && s.told >= LearnsFrom {
		s.learnPriors()
	}
	s.responses = merged(s.responses, s.renumberedSummary(src.responses, g.ID))
	if s.fixed == nil {
		s.fixed = src.fixed.Clone()
	} else if src.fixed != nil {
		s.fixed.Merge(src.fixed)
	}
	s.late += src.late
	s.moved, s.early = s.moved || src.moved, s.early|src.early
	if both {
		s.vague = min(s.vague, src.vague)
	} else {
		s.vague += src.vague
	}
	s.cut += src.cut
	s.sure += min(src.sure, math.MaxInt32-s.sure)
	s.merged += src.merged
	if both { // otherwise nothing was fitted apart
		s.merged++
	}
}

// together returns the clock of both states and when it began. Rows without time continue the
// count: src comes after s, and s drifts through its rows.
func (s *State) together(src *State) (clock, begun float64) {
	clock, begun = s.clock, s.begun
	switch m := s.plan.Model; {
	case math.IsNaN(clock):
		return src.clock, src.begun
	case math.IsNaN(src.clock):
	case m.HasTime:
		return max(clock, src.clock), min(begun, src.begun)
	case s.plan.Drifts:
		clock += src.clock - src.begun
		if f := m.Start; f == nil || f.N == 0 { // a fresh run begins at its first row
			clock++
		}
	}
	return clock, begun
}

// Each visits the beliefs in their fixed order, with drift up to the latest row; the state is not
// changed. A name is valid during its visit only. Cost: O(p log p).
func (s *State) Each(ctx context.Context, visit func(name []byte, w kernels.Weight)) error {
	return s.Read(ctx, func(each func(func([]byte, kernels.Weight) bool)) {
		each(func(name []byte, w kernels.Weight) bool {
			visit(name, w)
			return true
		})
	})
}

// Read calls read once with a function like Each that visits while visit returns true; the beliefs
// are sorted once for all its calls. A cancelled ctx ends them, and Read with its cause; s is
// unusable then.
func (s *State) Read(ctx context.Context, read func(each func(visit func(name []byte, w kernels.Weight) bool))) error {
	var sorted *reader
	err := stop.Run(ctx, s.long(), func() (err error) {
		sorted, err = s.sorted(ctx)
		return err
	})
	if err != nil {
		return err
	}
	r := sorted
	defer r.done()
	read(func(visit func(name []byte, w kernels.Weight) bool) {
		if len(r.order) >= manyBeliefs {
			s.readMany(ctx, r, visit)
			return
		}
		for _, id := range r.order {
			r.name = s.dict.AppendName(r.name[:0], id)
			if !visit(r.name, s.units.original(id, r.w[id])) {
				return
			}
		}
	})
	return stop.Cause(ctx)
}

// sorted returns the beliefs and their order, for Read.
func (s *State) sorted(ctx context.Context) (*reader, error) {
	if err := s.Grow(); err != nil {
		return nil, err
	}
	if err := s.plan.Model.CheckPriorBy(s.dict, s.n); err != nil {
		return nil, err
	}
	r := s.reader()
	if err := stop.Cause(ctx); err != nil {
		return nil, err
	}
	r.w = s.form.Beliefs(s.Best(), s.clock, r.w[:0])
	if s.units != nil {
		for id, w := range r.w {
			now := s.units.original(uint32(id), w)
			err := kernels.CheckWeight(now)
			if err == nil && s.vanishes(uint32(id), now, w) {
				err = errVanished
			}
			if err != nil {
				r.done()
				return nil, s.causeOf(fmt.Errorf("feature %q: %w", s.dict.Name(uint32(id)), err))
			}
		}
	}
	return r, nil
}

// From manyBeliefs on the names do not fit into the near caches: blocks of aBlock are read in
// parallel.
const (
	manyBeliefs = 1 << 15
	aBlock      = 1 << 12
)

// readMany visits the beliefs in their order while visit returns true.
func (s *State) readMany(ctx context.Context, r *reader, visit func(name []byte, w kernels.Weight) bool) {
	blocks := make([]struct {
		text []byte
		ends []int
		w    []kernels.Weight
	}, 2*runtime.GOMAXPROCS(0))
	for order := r.order; len(order) > 0 && ctx.Err() == nil; {
		n := min(len(blocks), (len(order)+aBlock-1)/aBlock)
		dense.Each(n, func(k int) {
			b, ids := &blocks[k], order[k*aBlock:min((k+1)*aBlock, len(order))]
			b.text, b.ends = s.dict.AppendNames(b.text[:0], b.ends[:0], ids)
			b.w = b.w[:0]
			for _, id := range ids {
				b.w = append(b.w, r.w[id])
			}
			for i, id := range ids {
				b.w[i] = s.units.original(id, b.w[i])
			}
		})
		for k := range blocks[:n] {
			b, lo := &blocks[k], 0
			for i, hi := range b.ends {
				if !visit(b.text[lo:hi:hi], b.w[i]) {
					return
				}
				lo = hi
			}
		}
		order = order[min(n*aBlock, len(order)):]
	}
}

// reader is memory for visits of beliefs: there may be millions of small groups.
type reader struct {
	w     []kernels.Weight
	name  []byte
	dict  *kernels.Dict // whose order and names these are
	order []uint32
	names []string // in this order
}

// reader returns a reader with the order of the features.
func (s *State) reader() *reader {
	r := readers.Get().(*reader)
	if s.copied || r.dict != s.dict { // a shared one does not change
		r.order, r.names, r.dict = s.dict.Order(), nil, nil
		if !s.copied {
			r.dict = s.dict
		}
	}
	return r
}

// done releases the memory.
func (r *reader) done() {
	if cap(r.w) > maxReader {
		*r = reader{}
	}
	readers.Put(r)
}

// named returns the names of the features in their order.
func (r *reader) named(d *kernels.Dict) []string {
	if len(r.names) < len(r.order) {
		r.names = make([]string, 0, len(r.order))
		for _, id := range r.order {
			r.name = d.AppendName(r.name[:0], id)
			r.names = append(r.names, string(r.name))
		}
	}
	return r.names
}

var readers = sync.Pool{New: func() any { return new(reader) }}

const maxReader = 1 << 16 // the most weights whose memory is worth keeping

// Summary is the fit without beliefs and covariance.
func (s *State) Summary() kernels.Fit {
	var f kernels.Fit
	s.summary(&f)
	s.keep(&f, s.Best())
	return f
}

// summary is Summary without what only a continued run needs.
func (s *State) summary(f *kernels.Fit) {
	p, k := s.plan, s.Best()
	b := &s.bank[k]
	*f = p.head
	if b.learning != nil || b.learner() != nil {
		f.SetLikelihood(s.Likelihood())
	}
	if b.learning != nil {
		if d := s.noise(k); d != b.learning.Dispersion() {
			f.Dispersion *= d / b.learning.Dispersion()
		}
	}
	s.parameters(f, k)
	s.units.prior(&f.Prior)
	f.Columns = s.columns()
	q := s.units.responses()
	for j := range f.Columns {
		c := &f.Columns[j]
		if c.Kind != kernels.LevelsColumn {
			continue
		}
		if by := p.Model.PriorBy.Of(c.Name); by != nil {
			c.Variance = by.Variance * q * q
		} else if q != p.startUnit && c.Variance > 0 { // of the fit continued, in its unit
			c.Variance = kernels.UnscalePrior(c.Variance, p.startUnit*p.startUnit) * q * q
		}
	}
	if p.Model.Options.AutoPrior {
		s.form.(PriorLearner).Priors(f, q)
	}
	f.N, f.Skipped, f.LogEvidence = s.n, s.skipped, s.evidence(k)
	if p.Model.HasTime {
		f.Time = s.clock
	}
	f.Status = s.status(f, k)
	if start := p.Model.Start; s.n > 0 && s.told == 0 && (start == nil || start.N == 0) {
		f.AddStatus(kernels.WeightlessNote)
	}
	exact := p.Exact && s.bank[k].learning != nil && s.exactly(k)
	codes, curve := s.codeNote(), ""
	if codes == "" {
		curve = s.curveNote(f)
	}
	f.AddStatus(s.responses.notes(f, p, s.score(k), exact, curve))
	f.AddStatus(s.oneSided())
	f.AddStatus(s.scaleNote(f))
	f.AddStatus(codes)
	f.AddStatus(s.openNote(f))
	f.AddStatus(s.priorsNote())
	f.AddStatus(kernels.SkippedNote(f.Skipped))
}

// priorsNote is the note on priors of single features that the continued fit was given and does not
// keep, if they are needed again: forgetting returns weights to their priors, and a change of a
// weight's unit removes its prior and adds it anew.
func (s *State) priorsNote() string {
	m := s.plan.Model
	_, moving, given := m.Start.Kept(kernels.KeptPriors)
	if !given || len(m.Priors)+len(m.PriorBy) > 0 || s.n == 0 || !m.Forgets() && !(moving > 0 && s.moved) {
		return ""
	}
	return "the fit that this one continues was given priors of single features or columns, which a fit does not keep: weights went back to the default prior instead; give the option again"
}

// parameters records in f what belief k learnt of dispersion and shape. The dispersion of gaussian
// responses has the posterior of the conjugate model; for the unit of other responses, which is
// their spread, no standard deviation is known.
func (s *State) parameters(f *kernels.Fit, k int) {
	b := &s.bank[k]
	switch {
	case s.n == 0:
	case b.learning != nil && s.plan.noise:
		f.LearnDeviation(f.Dispersion, b.learning.Freedom(s.form.Known(k)))
	case b.learner() != nil:
		info := b.learner().LogPrecision()
		if b.learner().Note() != "" { // at the edge of its range
			info = math.NaN()
		}
		if s.plan.unitNoise {
			f.LearnDeviation(f.Dispersion, 2*info) // as much as of a normal distribution
		} else {
			f.LearnShape(f.Shape, 1/math.Sqrt(info))
		}
	}
}

// constant returns the unit of the responses if they have all been the same and their scale is
// learnt; nil otherwise.
func (s *State) constant() *response {
	if s.units == nil || s.units.y == nil || s.units.y.N == 0 || s.units.y.Scale > 0 || !s.plan.Learns && !s.plan.unitNoise {
		return nil
	}
	return s.units.y
}

func (s *State) status(f *kernels.Fit, k int) (status string) {
	b := &s.bank[k]
	say := func(is bool, sentence string, args ...any) {
		if is {
			status = kernels.Join(status, fmt.Sprintf(sentence, args...))
		}
	}
	say(s.late > 0, "%d %s came before the time already reached: no drift was applied for %s", s.late, kernels.Inflect(s.late, "row", "rows"), kernels.Inflect(s.late, "it", "them"))
	if conflict := b.conflict > kernels.MaxConflict; conflict {
		say(true, "parts fitted apart (by several threads or over parts of a window, in no common order) were merged and disagree by up to %.0f standard deviations: log_evidence is not reliable", b.conflict)
	} else {
		say(s.merged > 0 && s.plan.Drifts, "parts fitted apart (by several threads or over parts of a window, in no common order) were merged: with drift the answer is approximate")
	}
	say(s.cut > 0, "%d %s cut at %d on the linear predictor, where one linearisation does not reach", s.cut, kernels.Inflect(s.cut, "step was", "steps were"), MaxStep)
	say(s.sure > 0, "%d %s ended over %d of %s own standard deviations from the mode of %[4]s row, whose response was far from its prediction: beliefs are too certain there, while adf has the exact moments of such rows", s.sure, kernels.Inflect(s.sure, "step", "steps"), MaxLeft, kernels.Inflect(s.sure, "its", "their"))
	if y := s.constant(); y != nil {
		status = kernels.Join(status, kernels.ConstantNote(y.Center))
	} else if b.learning != nil {
		status = kernels.Join(status, b.learning.Note(s.form.Known(k), f.Dispersion))
	}
	// Predictors are as wide for the first rows of any stream, but not for a quarter of few rows up to
	// the last one, if these determine the weights.
	say(s.told <= kernels.VagueRows && s.vague > 0 && 4*int64(s.vague) >= s.told, "%d or more of %d rows, up to the last ones, had a linear predictor of standard deviation above %v before they were learnt: %s", s.vague, s.told, kernels.Vague, kernels.VagueMeaning)
	if b.counts() != nil {
		status = kernels.Join(status, b.counts().note(s.plan.Model.Lik))
	}
	if b.learner() != nil && s.constant() == nil {
		status = kernels.Join(status, b.learner().Note())
	}
	if _, bad := s.responses.worseThanMean(f, s.plan, s.score(k)); !bad || s.plan.linear || s.plan.answers.trials || s.plan.answers.heavy || s.plan.Model.Lik.Traits().Gaussian { // otherwise it is the weights that fit badly
		status = kernels.Join(status, s.fixed.Note(s.Likelihood()))
	}
	status = kernels.Join(status, s.form.Status(k))
	if len(s.bank) > 1 {
		status = kernels.Join(status, kernels.NoiseStatus(s.plan.Rates[k], s.plan.Rates))
	}
	return kernels.Join(status, "")
}

// Fit returns the posterior with its covariance, in belief order. After a cancelled ctx s is
// unusable: what is left behind may still read it.
// Errors: a belief that is not finite; those of the form.
func (s *State) Fit(ctx context.Context) (f *kernels.Fit, err error) {
	if s.plan.slow {
		halt := s.startStop(ctx)
		defer halt.End(&err)
		halt.Check()
	} else if err := stop.Cause(ctx); err != nil {
		return nil, err
	}
	var made *kernels.Fit
	err = stop.Run(ctx, s.long(), func() error {
		g, err := s.form.Reserve(2, "a fit")
		if err != nil {
			return err
		}
		defer g.Release()
		made, err = s.fit(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

func (s *State) fit(ctx context.Context) (*kernels.Fit, error) {
	if err := s.Grow(); err != nil {
		return nil, err
	}
	if err := s.plan.Model.CheckPriorBy(s.dict, s.n); err != nil {
		return nil, err
	}
	f, k := &kernels.Fit{}, s.Best()
	s.summary(f)
	r := s.reader()
	defer r.done()
	form := s.form
	if s.units != nil && len(s.units.cols) > 0 {
		form = s.formForFit()
	}
	r.w = form.Beliefs(k, s.clock, r.w[:0])
	if err := stop.Cause(ctx); err != nil {
		return nil, err
	}
	f.Beliefs = make([]kernels.Belief, len(r.order))
	for i, name := range r.named(s.dict) {
		f.Beliefs[i] = kernels.Belief{Feature: name, Weight: r.w[r.order[i]]}
	}
	var err error
	if f.Covariance, err = form.Covariance(k, r.order); err != nil {
		return nil, err
	}
	if err := stop.Cause(ctx); err != nil {
		return nil, err
	}
	s.units.restore(f, r.order)
	s.keep(f, k)
	if err = f.Check(); err == nil {
		err = f.Covariance.Check(len(f.Beliefs))
	}
	if err == nil {
		err = s.vanishedError(f, k, r.order)
	}
	if err != nil {
		return nil, s.causeOf(err)
	}
	return f, nil
}

// vanishes reports whether the variance of now, which is w in other units, has underflowed to 0.
func (s *State) vanishes(id uint32, now, w kernels.Weight) bool {
	return now.Variance == 0 && (w.Variance > 0 || s.units.squareless(id))
}

var errVanished = errors.New("its variance is too small for a number; scale the features and y")

// vanishedError is the error for a dispersion or variance that is 0 in the units of the rows, under
// which a weight would count as known, but not in those of the stream.
func (s *State) vanishedError(f *kernels.Fit, k int, order []uint32) error {
	if s.units == nil {
		return nil
	}
	if f.Dispersion == 0 { // it is 1 if a family has none
		return errors.New("the dispersion is too small for a number; scale y")
	}
	if !slices.ContainsFunc(f.Beliefs, func(b kernels.Belief) bool { return b.Variance == 0 }) {
		return nil
	}
	w := s.form.Beliefs(k, s.clock, nil)
	for i, id := range order {
		if s.vanishes(id, f.Beliefs[i].Weight, w[id]) {
			return fmt.Errorf("feature %q: %w", f.Beliefs[i].Feature, errVanished)
		}
	}
	return nil
}

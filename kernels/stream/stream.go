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
	"slices"

	"github.com/bglm/bglm/kernels"
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
	l = l.Clone()
	return &learning{Learning: l, up: p.ruleFor(l)}
}

// ruleFor returns the rule bound to l.
func (p *Plan) ruleFor(l lik.Likelihood) Update {
	own := *p.Model
	own.Lik = l
	up, err := p.rule.Bind(&own)
	if err != nil { // the same options bound before
		panic(err)
	}
	return up
}

// cloneLearning returns an independent copy of l.
func (p *Plan) cloneLearning(l *learning) *learning {
	c := p.learning(l.Learning)
	c.squares = l.squares
	return c
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

// manyWeights is from how many weights on a cancelled call does not wait for a step over them.
const manyWeights = 1 << 17

func (s *State) long() bool { return s.dict.Len() >= manyWeights }

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
	s.observe(b.Obs(i), o, s.bank[0].room(&one))
	if o.Weight > 0 {
		s.follow(given, numbers, &s.bank[0].room(&one).t)
		s.lacked(b, i, o.Weight)
		s.told++
	}
	s.n++
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

// observe notes how a row was predicted, before it is learnt: a response y, which is o in its unit. r
// is its update of the first member.
func (s *State) observe(y, o lik.Obs, r *met) {
	p := s.plan
	if p.answers.growing && o.Weight > 0 && s.told < kernels.VagueRows {
		if s.told > 0 && r.v > kernels.Vague*kernels.Vague {
			s.vague++
		} else {
			s.vague /= 2 // as good as none after a few rows, but not after a single one by chance
		}
	}
	if s.responses != nil || o.Weight > 0 && s.told >= p.begins {
		s.summarise(y, o, r)
	} else if o.Weight > 0 {
		s.early |= endOf(y)
	}
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

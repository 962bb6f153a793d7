// Package engine lists the inference engines under their public names and gives them one interface:
// Batches in, a Result out. A new engine is a package and a line in methods.
//
// Fit does everything from rows to a Result. Producers with rows of their own find a Method, make a
// Model from the settings and a Fitter from that, feed it by rows.Source and get the Result from
// it.
package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/ep"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/gp"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
	"github.com/bglm/bglm/kernels/stream"
)

// Fitter is a fit that learns from rows. It is used by one goroutine at a time.
type Fitter interface {
	// Features numbers the features of the batches; the intercept, if the model has one, is 0.
	Features() *kernels.Dict
	// Update learns from the rows of b. With skip, invalid rows are counted and left out, else the
	// first one ends the update with an error that Is kernels.ErrRow. A cancelled ctx ends a long
	// update with its cause; the fit must not be used then.
	Update(ctx context.Context, b *kernels.Batch, skip bool) error
	// Skip counts rows that the caller has left out.
	Skip(n int64)
	// Merge adds what src, a fit of the same model, has learnt; src is not changed.
	// ctx is as in Update.
	Merge(ctx context.Context, src Fitter) error
	Clone() Fitter
	Size() int64 // bytes
	// Fit returns the result for the rows so far; more may follow. A cancelled ctx ends it with its
	// cause; the Fitter is unusable then, as what is left behind may still read it: fit a Clone to
	// go on. The time limit of the model's options ends an iterative fit with the best posterior
	// found and a status that says so, or with an error that Is stop.ErrTimeLimit if there is none
	// yet.
	Fit(ctx context.Context) (*Result, error)
}

// Kind is what rows a method needs and what it returns.
type Kind uint8

// The kinds of methods.
const (
	Weights     Kind = iota // a belief for each feature
	Paths                   // also the beliefs of each feature through time
	Classes                 // y is a label, for a rows.Labelled Fitter; a belief for each feature in each class
	Process                 // x is a point, for a rows.Points Fitter; a function of x and no beliefs
	Parts                   // a summary of the likelihood near a fit by a pass over the rows, to be merged and solved
	Predictions             // also what was expected of each row before it was learnt (Method.Progressive)
)

// Result is the result of a fit.
type Result struct {
	// Fit is the posterior of the weights. That of a Process has no beliefs and no covariance, that
	// of Paths has the end of each path.
	*kernels.Fit
	Path    []Moment      // of Paths, by feature in belief order, then time
	Rows    []Prediction  // of Predictions, in the order they were learnt
	Process *gp.Posterior // of a Process
	Part    Part          // of Parts, whose Fit has no beliefs
	Pass    *laplace.Pass // Part, if it is a laplace.Pass

	// Mixed is the column that, according to the status, may have been meant as numbers; nil for
	// none.
	Mixed *kernels.Mixed
}

// Moment is the belief in a weight at a time, given all rows: one for each row that has the
// feature. Without times the rows are counted from 1.
type Moment struct {
	Feature string
	Time    float64
	kernels.Weight
}

// Method is an engine under its public name; option.For lists its options.
type Method struct {
	Name    string // as the method of a fit
	Summary string
	Source  string
	Kind    Kind
	// Streams says that rows are absorbed as they come, in order; other engines keep them.
	Streams bool
	Link    string // the only link that it supports, "" = any
	// Covariance is the form of its beliefs if neither an option nor the fit that is continued
	// gives one; "" leaves it to New.
	Covariance string
	// LearnsShape says that a filter learns the shape of its family, and LearnsPrior that
	// one with an arrowhead learns prior variances.
	LearnsShape, LearnsPrior bool
	// Moments says that its posteriors match the moments under each row's exact likelihood
	// (predict.OfMoments), not under a parabola at the mode.
	Moments bool
	// Partial says that a posterior has not seen all directions of the rows if its status says that
	// it left some out, and WholeRank that the option rank selects singular values of the rows
	// themselves, each on its own.
	Partial, WholeRank bool
	Passes             *Passes // over rows that are not kept; nil if the method has no passes

	make func(ctx context.Context, m *kernels.Model) (Fitter, error)
}

// New returns a fit of a model, nil for the default one, without rows. A cancelled ctx ends it with
// its cause: a pass may have to begin with a decomposition.
// Errors: the zero Method; what the engine does not support in the model.
func (m *Method) New(ctx context.Context, model *kernels.Model) (Fitter, error) {
	if m == nil || m.make == nil {
		return nil, errors.New("the zero Method makes no fits; Find gives those of a name")
	}
	if model == nil {
		model = new(kernels.Model)
	}
	return m.make(ctx, model)
}

// Methods lists the engines, in a new slice.
func Methods() []Method { return slices.Clone(methods) }

// Names lists the methods of the given kinds, or of all kinds.
func Names(kinds ...Kind) (names []string) {
	for i := range methods {
		if len(kinds) == 0 || slices.Contains(kinds, methods[i].Kind) {
			names = append(names, methods[i].Name)
		}
	}
	return names
}

// Find returns the named method, of the given kinds or of any; Auto is one of Weights.
// Errors: an unknown name, with the nearest one.
func Find(name string, kinds ...Kind) (*Method, error) {
	names := Names(kinds...)
	if len(kinds) == 0 || slices.Contains(kinds, Weights) {
		if name == Auto {
			return &auto, nil
		}
		names = append([]string{Auto}, names...)
	}
	for i := range methods {
		if methods[i].Name == name && slices.Contains(names, name) {
			return &methods[i], nil
		}
	}
	return nil, wrongMethod(name, names)
}

func wrongMethod(name string, names []string) error { return argument.Word("method", name, names) }

// Model turns settings into a model for the method, for rows with or without times and binomial
// trials. s, nil for the defaults, is not changed and serves any number of models.
//
// Errors name the option: one out of its range, a likelihood that is unknown or does not fit the
// rows, 'auto' where rows are seen once, a start with a time but rows without.
func (m *Method) Model(s *option.Settings, times, trials bool) (*kernels.Model, error) {
	if s == nil {
		s = option.Defaults()
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	s = s.Clone()
	s.Complete()
	if s.Lik == nil { // a Go program may have set Start without calling Continue
		if err := s.Resume(); err != nil {
			return nil, err
		}
	}
	s.Options.Standardize = s.Standardize.Or(s.Options.Standardize)
	given := s.Params
	front := m.Name == Auto
	if front && (times || asksForStream(&s.Model)) {
		if err := checkStreamed(s); err != nil {
			return nil, err
		}
	}
	m = m.resolve(s, times)
	if m.Kind != Classes { // each class has a predictor
		if err := s.LikelihoodOf(trials); err != nil {
			return nil, err
		}
	}
	asked := m.LearnsPrior && s.Options.AutoPrior
	s.Options.PriorAsked = s.Options.PriorAsked || asked
	if err := m.checkSeenOnce(s, front); err != nil {
		return nil, err
	}
	if o := &s.Options; o.Compress && (times || s.Drifts() || o.AutoNoise || m.Streams || m.WholeRank && o.Rank > 0) {
		why := "rows that differ in time cannot be one"
		if m.WholeRank {
			why = "rank takes singular values of all rows"
		}
		return nil, &argument.Error{Name: "compress", Found: "true", Why: why}
	}
	m.defaults(s, given)
	if s.Columns == "any" && s.Options.Missing == "indicator" { // a fit without columns predicts no indicators
		return nil, &argument.Error{Name: "missing", Found: "'indicator'", Why: "with columns = 'any' a NULL counts as absent"}
	}
	if asked && !s.Options.AutoPrior {
		return nil, &argument.Error{Name: "prior_variance", Found: "'auto'", Why: m.whyNot(front, "learns it with covariance 'arrowhead' and an intercept where no other prior is given, weights do not drift, "+
			"responses have no unit (of gaussian and studentt they do) and the fit that is continued, if any, has learnt it")}
	}
	if o := &s.Options; m.Streams && !front && o.AutoDispersion && lik.LearnsDispersion(s.Lik) && !o.Standardize {
		return nil, &argument.Error{Name: "dispersion", Found: "'auto'", Why: m.whyNot(front, "learns it in the unit of the responses, which they have if numbers are standardised")}
	}
	if err := m.checkIdle(s); err != nil {
		return nil, err
	}
	p := &s.Model
	p.Prior = p.Prior.Complete()
	p.HasTime = times
	if m.Kind == Process { // it has a mean instead
		p.NoIntercept = true
	}
	if f := p.Start; f != nil && (p.Drifts() || p.Options.AutoNoise) && !times && f.Time == f.Time && f.N > 0 {
		return nil, &argument.Error{Name: "time", Found: "none", Why: fmt.Sprintf("the prior fit is valid at time %v, and its weights drift from then on", f.Time)}
	}
	return p, nameSlots(p)
}

// checkSeenOnce rejects what a stream does not learn; front says that Auto chose the stream.
func (m *Method) checkSeenOnce(s *option.Settings, front bool) error {
	if !m.Streams {
		return nil
	}
	sized := m.LearnsShape && s.Lik != nil && lik.LearnsShape(s.Lik)
	prior := s.LearnsPrior() && !m.LearnsPrior || s.PriorBy.Learn()
	_, dispersed := s.Lik.(lik.Dispersed)
	noise := s.Options.AutoDispersion && !front && dispersed && !s.Lik.Traits().Gaussian && !lik.LearnsDispersion(s.Lik) // Auto leaves it at its default
	for _, learn := range []struct {
		key   string
		asked bool
	}{{"prior_variance", prior && len(s.Correlated) == 0}, {"shape", s.Options.AutoShape && !sized}, {"dispersion", noise}, {"correlated", len(s.Correlated) > 0}} {
		if !learn.asked {
			continue
		}
		var also []string
		if learn.key == "shape" && s.Lik != nil && lik.LearnsShape(s.Lik) {
			also = shapers()
		}
		e := &argument.Error{Name: learn.key, Found: "'auto'", Why: m.whyNot(front, "sees each row once and takes a number here", also...)}
		if front && learn.key == "correlated" {
			e.Found = fmt.Sprintf("%q", s.Correlated[0])
		}
		return e
	}
	return nil
}

// whyNot says why a stream, chosen by Auto or by name, does not learn something, which also other
// streams may.
func (m *Method) whyNot(front bool, why string, also ...string) string {
	if front {
		return "it is learnt from rows that are kept; " + whyStream + "uses it as it is given"
	}
	return m.Name + " " + why + "; 'auto' belongs to: " + strings.Join(append(also, keepers()...), ", ")
}

// shapers are the streams that learn the shape of some likelihoods.
func shapers() (names []string) {
	for _, k := range methods {
		if k.Streams && k.LearnsShape {
			names = append(names, k.Name)
		}
	}
	return names
}

// keepers are the methods that keep the rows and learn from all of them.
func keepers() (names []string) {
	for _, k := range methods {
		if !k.Streams && k.Kind == Weights {
			names = append(names, k.Name)
		}
	}
	return names
}

// nameSlots replaces the features that options name by their names in the dictionary: with
// hash_bits, their slots.
func nameSlots(m *kernels.Model) error {
	if m.HashBits == 0 {
		return nil
	}
	slot := func(feature string) (string, error) {
		if feature == kernels.Intercept {
			return feature, nil
		}
		d := kernels.Dict{HashBits: m.HashBits}
		id, err := d.Add(feature)
		if err != nil {
			return "", err
		}
		return string(d.Name(id)), nil
	}
	var err error
	m.Priors = slices.Clone(m.Priors)
	for i := range m.Priors {
		if m.Priors[i].Feature, err = slot(m.Priors[i].Feature); err != nil {
			return err
		}
	}
	if m.NoiseBy != nil {
		by := map[string]float64{}
		for name, q := range m.NoiseBy {
			if name, err = slot(name); err != nil {
				return err
			}
			by[name] = max(by[name], q) // names that collide share the larger
		}
		m.NoiseBy = by
	}
	return nil
}

// streaming is a filter's state as a Fitter.
type streaming struct{ state *stream.State }

func (s streaming) filter() *stream.State   { return s.state }
func (s streaming) Features() *kernels.Dict { return s.state.Features() }
func (s streaming) Update(ctx context.Context, b *kernels.Batch, skip bool) error {
	return s.state.Update(ctx, b, skip)
}
func (s streaming) Skip(n int64)  { s.state.Skip(n) }
func (s streaming) Clone() Fitter { return streaming{s.state.Clone()} }
func (s streaming) Size() int64   { return s.state.Size() }

// CloneTo implements Recycler.
func (s streaming) CloneTo(old Fitter) Fitter {
	o, _ := old.(streaming)
	return streaming{s.state.CloneTo(o.state)}
}

// Share implements Sharer.
func (s streaming) Share(d *kernels.Dict) bool { return s.state.Share(d) }
func (s streaming) Fit(ctx context.Context) (*Result, error) {
	f, err := s.state.Fit(ctx)
	return checked(ctx, s.state.Model(), f, err, func() {
		m := s.state.Model()
		if h := m.Options.Hessian; h != "" && h != "auto" { // only auto takes it for a stream
			f.AddStatus(fmt.Sprintf("hessian = '%s' had no effect: the rows were streamed by adf", h))
		}
		if stationary(m) {
			own := learntBy(m, f)
			f.AddStatus(f.PriorNote(own))
			f.AddStatus(grownPriorNote(m, own, f))
			f.AddStatus(unlearntNote(own, f))
		}
		f.AddStatus(f.LeafNote())
	})
}

// unlearntNote is the note if a stream was asked to learn prior variances and did not; own is the
// model with those that it has learnt.
func unlearntNote(own *kernels.Model, f *kernels.Fit) string {
	if o := own.Options; !o.PriorAsked || !o.AutoPrior || f.Prior.Variance != firstVariance(f) || len(own.PriorBy) > 0 {
		return ""
	}
	return fmt.Sprintf("prior_variance was not learnt and is %.6g, as before any row: %d rows and %d weights say too little about it (it takes 32 weights, 16 of gaussian and studentt, and no more than about two a row), or agree with it; methods that keep the rows learn it from fewer",
		f.Prior.Variance, f.N, len(f.Beliefs))
}

// firstVariance is the prior variance of f before any row, if f learns it: 1 in the unit of the
// responses.
func firstVariance(f *kernels.Fit) float64 {
	unit := f.Covariance.Arrow().ResponseUnit()
	return kernels.ScalePrior(kernels.DefaultPrior.Variance, unit*unit)
}

// learntBy is m with the prior variances that f has learnt, or has from the fit that it continues.
func learntBy(m *kernels.Model, f *kernels.Fit) *kernels.Model {
	learns := m.Options.AutoPrior
	if !learns && (m.Start == nil || m.Lik.Traits().Located) { // its variances are in a unit of the responses
		return m
	}
	variance, by := m.Prior.Variance, slices.Clip(m.PriorBy)
	if learns {
		variance = f.Prior.Variance
	}
	for _, c := range f.Columns {
		if c.Kind == kernels.LevelsColumn && c.Variance > 0 && c.Variance != variance && by.Of(c.Name) == nil {
			by = append(by, kernels.ColumnPrior{Column: c.Name, Variance: c.Variance})
		}
	}
	if variance == m.Prior.Variance && len(by) == len(m.PriorBy) {
		return m // without a copy: there are many small groups
	}
	own := *m
	own.Prior.Variance, own.PriorBy = variance, by
	return &own
}

// grownPriorNote is the note if learnt prior variances ended far above the one that the first rows
// met: each row is absorbed once, under the prior at that time.
func grownPriorNote(m, own *kernels.Model, f *kernels.Fit) string {
	if !m.Options.AutoPrior || m.Lik.Traits().Gaussian { // gaussian rows say the same under any prior
		return ""
	}
	at, v, first := "the weights", own.Prior.Variance, firstVariance(f)
	for _, c := range own.PriorBy {
		if c.Variance > v {
			at, v = "the weights of column "+c.Column, c.Variance
		}
	}
	if !(v > 2*first) {
		return ""
	}
	return fmt.Sprintf("the prior variance of %s was learnt from %.3g to %.3g as rows came: the first of them were absorbed under narrower priors, and methods that keep the rows may predict better", at, first, v)
}

// stationary reports whether a stream's weights are constant in time, so that they inform about
// their prior.
func stationary(m *kernels.Model) bool { return !m.Drifts() && !m.Options.AutoNoise }

func (s streaming) Merge(ctx context.Context, src Fitter) error {
	o, ok := src.(interface{ filter() *stream.State })
	if !ok {
		return errMixed
	}
	return s.state.Merge(ctx, o.filter())
}

var errMixed = fmt.Errorf("internal error: merging fits of different methods")

// batch keeps the rows for an engine that reads them several times.
type batch struct {
	*kernels.Rows
	solve func(context.Context, *kernels.Rows) (*kernels.Fit, error)
}

func (b batch) Features() *kernels.Dict { return &b.Rows.Dict }
func (b batch) Clone() Fitter           { return batch{b.Rows.Clone(), b.solve} }
func (b batch) Update(_ context.Context, rows *kernels.Batch, skip bool) error {
	if rows == nil {
		return kernels.ErrNoBatch
	}
	if err := roomForRows(b.Rows, rows.Len()); err != nil {
		return err
	}
	return b.Rows.Update(rows, skip)
}
func (b batch) Merge(ctx context.Context, src Fitter) error {
	o, ok := src.(batch)
	if !ok {
		return errMixed
	}
	if err := roomToMerge(b.Rows, o.Rows); err != nil {
		return err
	}
	return stop.Run(ctx, b.many()+o.many() >= manyEntries, func() error { return b.Rows.Merge(o.Rows) })
}

// manyEntries of rows and names are merged in a goroutine that an interrupt does not wait for.
const manyEntries = 1 << 20

func (b batch) many() int { return b.Rows.Dict.Len() + b.Rows.Values() }

func (b batch) Fit(ctx context.Context) (*Result, error) {
	ctx, cancel := stop.WithLimit(ctx, b.Model.Options.TimeLimit) // from here on
	defer cancel()
	rows := b.Rows
	if err := stop.Run(ctx, b.many() >= manyEntries, func() error { rows = b.Rows.Pooled(); return nil }); err != nil {
		return nil, err
	}
	f, err := b.solve(ctx, rows)
	return checked(ctx, b.Model, f, err, func() {
		f.AddStatus(rows.ScaleNote(f))
		f.KeepModel(b.Model)
		f.KeepFilled(b.Model)
	})
}

// checked checks a fit before it leaves an engine, after say, if not nil, has added its notes: no
// belief or covariance may be NaN or infinite.
func checked(ctx context.Context, m *kernels.Model, f *kernels.Fit, err error, say func()) (*Result, error) {
	if err != nil {
		return nil, err
	}
	r := &Result{Fit: f}
	err = stop.Run(ctx, len(f.Beliefs) >= manyBeliefs, func() error {
		if say != nil {
			say()
		}
		f.AddStatus(m.StrayNote(f))
		f.AddStatus(f.CloseNote())
		f.AddStatus(f.CrossNote())
		f.AddStatus(f.GapNote(m))
		f.AddStatus(f.ExactNote(m))
		return r.check()
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// manyBeliefs are checked in a goroutine that an interrupt does not wait for.
const manyBeliefs = 1 << 17

func (r *Result) check() error {
	f := r.Fit
	if err := f.Check(); err != nil {
		return fmt.Errorf("the posterior of method %s overflows: %w; scale the features down", f.Method, err)
	}
	f.AddStatus(kernels.SkippedNote(f.Skipped))
	for _, v := range f.Covariance.Values {
		if !special.Finite(v) {
			return fmt.Errorf("the posterior of method %s overflows: its covariance holds %v; scale the features down", f.Method, v)
		}
	}
	if r.Mixed = f.Mixed(); r.Mixed != nil {
		f.AddStatus(r.Mixed.String())
	}
	return nil
}

// solver is a batch engine.
type solver func(ctx context.Context, p *kernels.Problem) (*kernels.Fit, error)

// layOut makes the problem of the rows, with its reservation from the memory budget.
func layOut(ctx context.Context, r *kernels.Rows) (*kernels.Problem, *memory.Grant, error) {
	n, nnz := int64(r.Len()), int64(r.Values())
	g, err := memory.Reserve(12*nnz+60*n+100*int64(r.Dict.Len()), fmt.Sprintf("%d rows with %d values, laid out to be solved", n, nnz))
	if err != nil {
		return nil, nil, err
	}
	p, err := r.ProblemUnder(ctx)
	if err != nil {
		g.Release()
		return nil, nil, err
	}
	return p, g, nil
}

// inPlace is layOut for a solver that needs only products with X: the rows are read where they are
// kept if possible.
func inPlace(ctx context.Context, r *kernels.Rows) (*kernels.Problem, *memory.Grant, error) {
	g, err := memory.Reserve(60*int64(r.Len()), fmt.Sprintf("%d rows, to be solved", r.Len()))
	if err != nil {
		return nil, nil, err
	}
	p, err := r.ProblemInPlace(ctx)
	if p != nil {
		return p, g, nil
	}
	g.Release()
	if err != nil {
		return nil, nil, err
	}
	return layOut(ctx, r)
}

// layer makes the problem of rows: layOut or inPlace.
type layer func(context.Context, *kernels.Rows) (*kernels.Problem, *memory.Grant, error)

// laidOut makes a batch engine that works on the rows as they are kept.
func laidOut(lay layer, solve solver) func(context.Context, *kernels.Rows) (*kernels.Fit, error) {
	return func(ctx context.Context, r *kernels.Rows) (*kernels.Fit, error) {
		p, g, err := lay(ctx, r)
		if err != nil {
			return nil, err
		}
		defer g.Release()
		p, none := weightless(p)
		f, err := solve(ctx, p)
		if err != nil {
			return nil, err
		}
		if none != "" || p.N == 0 {
			keepLearnt(f, p.Start)
		}
		if none != "" {
			f.AddStatus(none)
			return f, nil
		}
		err = noting(ctx, func(s *stop.Stop) { sayOfRows(s, r, p, f) })
		if err != nil {
			return nil, err
		}
		return f, nil
	}
}

// noting calls say, which adds notes to a fit and ends with ctx. A time limit that has passed
// meanwhile is no error: the fit kept to it.
func noting(ctx context.Context, say func(s *stop.Stop)) (err error) {
	defer func() {
		if errors.Is(err, stop.ErrTimeLimit) {
			err = nil
		}
	}()
	s := stop.Watch(ctx, 0)
	defer s.End(&err)
	say(s)
	return nil
}

// sayOfRows adds the notes on the rows of f, the problem of r.
func sayOfRows(s *stop.Stop, r *kernels.Rows, p *kernels.Problem, f *kernels.Fit) {
	p = p.Under(s).Noting()
	codes, far, prior := r.CodeNote(s, f), "", ""
	// Neither a low rank nor draws show what the rows say of each weight.
	if !p.LearnsPrior() && !p.Drifts() && f.Covariance.Form != gauss.LowRank && f.Method != "hmc" {
		prior = f.PriorNote(p.Model)
	}
	overshoot := func(f *kernels.Fit) string { far = p.Overshoot(f); return far }
	residuals := func(f *kernels.Fit) string { return p.Residuals(f, codes == "" && far == "" && prior == "") }
	for _, note := range []func(*kernels.Fit) string{p.Separation, p.ConstantNote, p.SamplingNote, p.Overdispersion, p.Averages, p.FixedNote, p.Outlying, p.Dominated, overshoot, residuals, p.VagueNote, p.BaseNote, p.MovedMean} {
		s.Check()
		f.AddStatus(note(f))
	}
	f.AddStatus(codes)
	f.AddStatus(prior)
}

// keeping makes the New of a batch engine.
func keeping(lay layer, solve solver) func(context.Context, *kernels.Model) (Fitter, error) {
	return func(_ context.Context, m *kernels.Model) (Fitter, error) {
		r, err := kernels.NewRows(m)
		if err != nil {
			return nil, err
		}
		return batch{r, laidOut(lay, solve)}, nil
	}
}

// growsFrom is the size of a state from which its growth is checked against the memory budget.
const growsFrom = 16 << 20

// roomForRows reports whether more rows can be kept: they go into chunks of up to a quarter of the
// present size, and the names into tables that grow by copying.
func roomForRows(r *kernels.Rows, more int) error {
	if n := r.Size(); n > growsFrom {
		return memory.Room(n/4+2*r.Dict.Size(), fmt.Sprintf("keeping more than %d rows; a streaming method keeps none", r.Len()+more))
	}
	return nil
}

// roomToMerge is roomForRows for all rows of src: their chunks are shared, their names are not.
func roomToMerge(r, src *kernels.Rows) error {
	if n := 2 * (r.Dict.Size() + src.Dict.Size()); n > growsFrom {
		return memory.Room(n, fmt.Sprintf("keeping %d rows of several threads in one place; a streaming method keeps none", r.Len()+src.Len()))
	}
	return nil
}

// Factorised is implemented by fits of diagonal beliefs, which can be read one by one without
// making a Fit of a million names.
type Factorised interface {
	// Read calls write with the fit without its beliefs, and with a function that visits these in
	// order. A name is valid during its visit only.
	// Errors, before write is called: beliefs or units that overflow, and memory.
	// A cancelled ctx ends Read with its cause, also while write visits the beliefs.
	Read(ctx context.Context, write func(f *kernels.Fit, each func(visit func(name []byte, w kernels.Weight)))) error
}

// Recycler is a fit whose clones can reuse the memory of a clone that is no longer needed.
type Recycler interface {
	// CloneTo is Clone in the memory of old, which is nil, or a clone of the same fit that must not
	// be used afterwards.
	CloneTo(old Fitter) Fitter
}

// Sharer is a fit that can share its dictionary with other fits of its model, as documented at
// stream.State.Share.
type Sharer interface{ Share(d *kernels.Dict) bool }

// factorised is a filter with diagonal beliefs as a Fitter.
type factorised struct{ streaming }

func (s factorised) Clone() Fitter { return factorised{streaming{s.state.Clone()}} }

// CloneTo implements Recycler.
func (s factorised) CloneTo(old Fitter) Fitter {
	o, _ := old.(factorised)
	return factorised{streaming{s.state.CloneTo(o.state)}}
}

// Read implements Factorised.
func (s factorised) Read(ctx context.Context, write func(f *kernels.Fit, each func(visit func(name []byte, w kernels.Weight)))) error {
	return s.state.Read(ctx, func(each func(visit func(name []byte, w kernels.Weight) bool)) {
		f := s.state.Summary()
		if m := s.state.Model(); stationary(m) {
			f.AddStatus(f.PriorNoteOf(learntBy(m, &f), each))
		}
		f.AddStatus(f.CrossNote())
		f.AddStatus(f.GapNote(s.state.Model()))
		write(&f, func(visit func(name []byte, w kernels.Weight)) {
			each(func(name []byte, w kernels.Weight) bool {
				visit(name, w)
				return true
			})
		})
	})
}
func (s factorised) Update(ctx context.Context, b *kernels.Batch, skip bool) error {
	if n := s.Size(); n > growsFrom { // tables and vectors grow by copying
		if err := memory.Room(n, fmt.Sprintf("more than %d weights", s.state.Len())); err != nil {
			return err
		}
	}
	return s.state.Update(ctx, b, skip)
}

// smoother keeps the rows to compute the paths of their weights.
type smoother struct{ batch }

func newSmoother(_ context.Context, m *kernels.Model) (Fitter, error) {
	r, err := kernels.NewRows(m)
	return smoother{batch{Rows: r}}, err
}

func (s smoother) Clone() Fitter { return smoother{s.batch.Clone().(batch)} }
func (s smoother) Merge(ctx context.Context, src Fitter) error {
	o, ok := src.(smoother)
	if !ok {
		return errMixed
	}
	return s.batch.Merge(ctx, o.batch)
}

// affordsPaths reports whether the trajectories of p get a full covariance by default: they take
// the square of the number of weights for each value of a row and for each row.
func affordsPaths(p *kernels.Problem) bool {
	w := float64(p.P)
	return p.P <= fullEP && float64(p.N+p.Values())*w*w <= fullPaths
}

func (s smoother) Fit(ctx context.Context) (*Result, error) {
	ctx, cancel := stop.WithLimit(ctx, s.Model.Options.TimeLimit)
	defer cancel()
	p, g, err := layOut(ctx, s.Rows)
	if err != nil {
		return nil, err
	}
	defer g.Release()
	out, factorised := &Result{}, ""
	switch c := p.Options.Covariance; {
	case c == "" && affordsPaths(p):
		q, m := *p, *p.Model
		m.Options.Covariance = "full"
		q.Model, p = &m, &q
	case c == "" && p.HasMultipleWeights():
		factorised = kernels.ManyFactorised(p.P)
	case c == "diagonal" && p.HasMultipleWeights():
		factorised = kernels.FactorisedNote
	}
	r, err := ep.Smooth(ctx, p, func(feature string, time, mean, variance float64) {
		out.Path = append(out.Path, Moment{feature, time, kernels.Weight{Mean: mean, Variance: variance}})
	})
	if err != nil {
		return nil, err
	}
	out.Fit = r.Fit
	out.AddStatus(factorised)
	_, none := weightless(p)
	out.AddStatus(none)
	out.AddStatus(kernels.SkippedNote(out.Skipped))
	return out, nil
}

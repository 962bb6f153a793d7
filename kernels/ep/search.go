package ep

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

const (
	// farthest is how far the logarithm of a hyperparameter may move from its start:
	// e^23 = 1e10.
	farthest = 23
	// differences is the step, in the logarithm, of differences in dispersion and shape.
	differences = 0.02
	// flat is how many nats below its maximum the evidence may end in dispersion or shape, ends the
	// gain left in nats below which they are moved to the end of their range.
	flat, ends = 1e-6, 5e-2
	// looseTol is the tolerance of the fits during the search for the best variances. The evidence
	// is stationary in the sites: its error is the square of that.
	looseTol = 1e-4
	// sameEvidence is the gain, in nats, of steps that are too small to go on.
	sameEvidence = 1e-3
	// coarseGain replaces it for Learn: variances are then about as far from the best ones as the
	// rows determine them.
	coarseGain = 0.5
)

// search is one call of Fit: what may end it and its notes.
type search struct {
	stop    *stop.Stop
	kernel  Kernel
	earlier kernels.Earlier
	notes   []string
	guess   float64 // the initial logarithm of a learnt dispersion
	coarse  bool    // see coarseGain
}

func (s *search) late() bool { return s.stop.Late() }

func (s *search) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(s.notes, n) {
		s.notes = append(s.notes, n)
	}
}

func (s *search) fit(p *kernels.Problem) (*Result, error) {
	o := &p.Options
	s.earlier = p.Earlier()
	if _, ok := p.Lik.(lik.Dispersed); ok && o.AutoDispersion {
		// a first run with dispersion 1 loses its digits if responses have another scale
		start := mode.FirstDispersion(p)
		if far, ok := mode.FarDispersion(p); ok { // few responses have nearly all of the variance
			start = math.Exp(far)
		}
		q, err := dispersed(p, start)
		if err != nil {
			return nil, err
		}
		p, s.guess = q, math.Log(start)
	}
	if o.AutoNoise {
		if o.Covariance == "lowrank" {
			return nil, fmt.Errorf("covariance = 'lowrank' with process_noise is not used by ep; allowed: diagonal, full")
		}
		var err error
		if p, err = s.chooseNoise(p); err != nil {
			return nil, err
		}
	}
	e, err := newEngine(p, s.kernel)
	if err != nil {
		return nil, err
	}
	out, err := s.iterate(e, o, s.earlier.Log(p.Lik), true)
	if err != nil {
		return nil, err
	}
	e, out, _ = s.bestFixedPoint(p, e, out)
	if p.LearnsPrior() || o.AutoDispersion || o.AutoShape {
		l := &learner{search: s, e: e, p: p, out: out}
		if err := l.learn(); err != nil {
			return nil, err
		}
		log := l.out.logZ
		around, err := l.integrate()
		if err != nil {
			return nil, err
		}
		out := l.out
		out.logZ = log // the highest
		var weights *gauss.Normal
		if around != nil {
			weights = around.Weights
		}
		r, err := s.result(l.p, e, out, weights)
		if err != nil {
			return nil, err
		}
		if around != nil && !o.PriorGroups {
			g := mode.NewGroups(l.p)
			around.Note(r.Fit, l.p, &g)
		}
		if l.out.converged {
			l.parameters(r.Fit)
		}
		if err := l.single(around, r.Fit); err != nil {
			return nil, err
		}
		return r, l.guessed(r.Fit)
	}
	return s.result(p, e, out, nil)
}

// guessed notes in f a dispersion or a shape that the rows hardly determine.
func (l *learner) guessed(f *kernels.Fit) error {
	o, t := &l.p.Options, l.p.Lik.Traits()
	_, dispersed := l.p.Lik.(lik.Dispersed)
	dispersed = dispersed && o.AutoDispersion
	shaped := o.AutoShape && t.Relative
	if !dispersed && !shaped {
		return nil
	}
	variance := memory.Floats(l.p.P)
	if err := l.e.initial(memory.Floats(l.p.P), variance); err != nil {
		return err
	}
	if dispersed {
		f.AddStatus(mode.Guess(l.p, variance, l.p.PriorVar, false, false))
	} else {
		f.AddStatus(mode.GuessedShape(l.p, variance, l.p.PriorVar, false))
	}
	return nil
}

// result returns the result of e, which ended with out; post is the posterior, nil for that of e.
func (s *search) result(p *kernels.Problem, e engine, out outcome, post *gauss.Normal) (*Result, error) {
	if post == nil {
		var err error
		if post, err = e.posterior(); err != nil {
			return nil, err
		}
	}
	for j := range p.P {
		if !special.Finite(post.Mean[j]) || !(post.Var[j] > 0) || !special.Finite(post.Var[j]) {
			return nil, fmt.Errorf("ep: feature %q has posterior mean %v and variance %v; scale the features", p.Name(j), post.Mean[j], post.Var[j])
		}
	}
	f := p.Fit("ep", post, out.logZ)
	f.Iterations, f.Converged = out.sweeps, out.usable()
	if !out.complete() {
		f.LogEvidence = math.NaN()
	}
	if r, ok := e.(*reduced); ok {
		if r.red.Clamped > 0 {
			s.note("rank %d was lowered to %d", r.red.Clamped, len(r.red.S))
		}
		if r.held > 0 {
			s.note("%d %s the prior's variance, though the data say more", r.held, kernels.Inflect(r.held, "direction keeps", "directions keep"))
		}
	}
	if _, ok := e.(*diagonal); ok && p.Normal.Form != gauss.Diagonal {
		s.note("covariance = 'diagonal' leaves the prior's covariances out")
	}
	if n := early(p); n > 0 {
		s.note("%d %s came before the time of the fit that is continued: no drift was applied for %s", n, kernels.Inflect(n, "row", "rows"), kernels.Inflect(n, "it", "them"))
	}
	if t := out.status(&p.Options); t != "" {
		s.notes = append([]string{t}, s.notes...)
	}
	if len(s.notes) > 0 {
		f.Status = strings.Join(s.notes, "; ")
	}
	return &Result{
		Fit: f, LOO: e.loo(), Sites: e.sites(), Sweeps: out.sweeps, Skipped: out.skipped, Clamped: out.clamped,
		Damping: out.damping, Noise: p.Noise, p: p, e: e, mean: post.Mean, variance: post.Var,
	}, nil
}

// with returns p with an edited copy of its model; the rows are shared.
func with(p *kernels.Problem, edit func(m *kernels.Model)) *kernels.Problem {
	q, m := *p, *p.Model
	q.Model = &m
	edit(&m)
	return &q
}

// innovations returns the evidence of p's first sweep, the filter: -Inf if the drift of the weights
// overflows.
func (s *search) innovations(p *kernels.Problem) (float64, error) {
	counts := &counted{Likelihood: p.Lik, Overdispersion: lik.NewOverdispersion(0, 0)}
	overdispersed := lik.Overdisperses(p.Lik)
	if overdispersed {
		p.Lik = counts
	}
	e, err := newEngine(p, s.kernel)
	if err != nil {
		return 0, err
	}
	c, err := e.sweep(1)
	if errors.Is(err, kernels.ErrRow) && p.Noise > 0 {
		return math.Inf(-1), nil
	}
	if overdispersed {
		return counts.score, err
	}
	return c.logZ, err
}

// counted is a likelihood of counts in the filter's sweep: it sums the log probabilities of the rows
// with the overdispersion found so far, so that drifting rates do not stand in for that.
type counted struct {
	lik.Likelihood
	*lik.Overdispersion
	score float64
}

func (c *counted) Moments(o lik.Obs, m, v float64) lik.Tilted {
	c.score += c.Learn(o, m, v)
	return c.Likelihood.Moments(o, m, v)
}

// learner maximises the log evidence over hyperparameters; every step is a fit that starts from
// the sites of the best one so far.
type learner struct {
	*search
	e   engine
	p   *kernels.Problem
	out outcome
}

// try fits q.
func (l *learner) try(q *kernels.Problem) (outcome, error) { return l.tryTo(q, 0) }

// tryTo fits q to a tolerance of at least tol.
func (l *learner) tryTo(q *kernels.Problem, tol float64) (outcome, error) {
	if err := l.e.reset(q); err != nil {
		return outcome{}, err
	}
	o := q.Options
	o.Tol = max(kernels.Or(o.Tol, defaultTol), tol)
	return l.iterate(l.e, &o, l.earlier.Log(q.Lik), false)
}

// adopt makes q the fitted problem, whether or not it was fitted last.
func (l *learner) adopt(q *kernels.Problem) (err error) {
	l.p = q
	l.out, err = l.try(q)
	return err
}

// dispersed returns p with another dispersion.
func dispersed(p *kernels.Problem, d float64) (*kernels.Problem, error) {
	params := p.Params
	params.Shape, params.Dispersion = shapeOf(p.Lik), d
	lk, err := lik.Remake(p.Lik, params)
	if err != nil {
		return nil, err
	}
	return with(p, func(m *kernels.Model) { m.Lik, m.Params = lk, params }), nil
}

// learn moves to the hyperparameters of highest evidence, from the present ones and from a coarse
// grid in the units of the data.
func (l *learner) learn() error {
	v, theta, err := l.hyper()
	if err != nil || len(theta) == 0 {
		return err
	}
	starts := [][]float64{theta}
	if unit := slices.Clone(theta); v.dispersion >= 0 || len(v.groups.Names) > 0 {
		about, err := v.groups.Start(l.p)
		if err != nil {
			return err
		}
		copy(unit, about)
		if v.dispersion >= 0 {
			unit[v.dispersion] = math.Log(mode.FirstDispersion(l.p))
		}
		starts = append(starts, v.groups.Starts(unit, v.dispersion)...)
	}
	s := mode.Search{Late: l.late, Apart: math.Inf(1), Stretch: v.dispersion >= 0 || v.shape >= 0}
	v.lo, v.hi = v.limits(starts)
	s.Lo, s.Hi, s.Ends = v.lo, v.hi, make([]float64, len(theta))
	for k := len(v.groups.Names); k < len(theta); k++ {
		s.Ends[k] = ends
	}
	best, status, err := s.From(v, starts)
	if err != nil {
		return err
	}
	copy(l.e.sites(), v.best)
	q, err := v.at(best)
	if err != nil {
		return err
	}
	if err := l.adopt(q); err != nil {
		return err
	}
	if status != "" && !l.late() {
		l.note("%s", status)
	}
	if !l.out.complete() {
		l.note("no evidence has all rows: what was to be learnt is where the search for it began")
		return nil
	}
	if err := v.noteEnds(best); err != nil {
		return err
	}
	if l.p.Options.PriorGroups && len(v.groups.Names) > 0 {
		l.noteGroups(v.groups, best)
	}
	return nil
}

// hyper returns the evidence of what is to be learnt, and its present θ: the prior variances of all
// weights with the default prior except the intercept, or one for each group of features, then
// dispersion and shape.
func (l *learner) hyper() (*hyper, []float64, error) {
	o := &l.p.Options
	v := &hyper{dispersion: -1, shape: -1}
	var g mode.Groups
	if l.p.LearnsPrior() {
		if g = mode.NewGroups(l.p); len(g.Names) == 0 {
			l.note("no weight takes the default prior: prior_variance 'auto' has nothing to learn")
		}
	}
	v.varied = *l.varied(&g)
	theta := mode.Logs(g.Given)
	if o.AutoDispersion {
		d, ok := l.p.Lik.(lik.Dispersed)
		if !ok {
			return nil, nil, lik.Lacks(l.p.Lik, "dispersion")
		}
		v.dispersion = len(theta)
		theta = append(theta, math.Log(d.Dispersion()))
	}
	if o.AutoShape {
		d, ok := l.p.Lik.(lik.Shaped)
		if !ok {
			return nil, nil, lik.Lacks(l.p.Lik, "shape")
		}
		v.shape = len(theta)
		theta = append(theta, math.Log(d.Shape()))
	}
	return v, theta, nil
}

// hyper is the evidence as a function of the logarithms of prior variances and then of dispersion
// and shape, whose slopes are differences of fits.
type hyper struct {
	varied
	dispersion, shape int // index in θ; -1 if not learnt
	lo, hi            []float64
	theta             []float64 // of the last Try
}

// limits returns how far the parameters may move from the starts, which are clamped: a dispersion by
// a factor of 1e10 from the guess, wherever a search for drift left it.
func (v *hyper) limits(starts [][]float64) (lo, hi []float64) {
	lo, hi = slices.Clone(starts[0]), slices.Clone(starts[0])
	for k := range lo {
		for _, s := range starts {
			lo[k], hi[k] = min(lo[k], s[k]), max(hi[k], s[k])
		}
		lo[k], hi[k] = lo[k]-farthest, hi[k]+farthest
	}
	if k := v.dispersion; k >= 0 {
		lo[k], hi[k] = v.guess-farthest, max(v.guess+farthest, mode.MostDispersion(v.from))
	}
	if k := v.shape; k >= 0 {
		lo[k], hi[k] = math.Log(lik.MinShape), math.Log(mostShape)
	}
	for _, s := range starts {
		for k, x := range s {
			s[k] = min(max(x, lo[k]), hi[k])
		}
	}
	return lo, hi
}

// at returns the problem at θ.
func (v *hyper) at(theta []float64) (*kernels.Problem, error) {
	q := v.from
	if len(v.groups.Names) > 0 {
		q = v.varied.at(theta[:len(v.groups.Names)])
	}
	if v.dispersion < 0 && v.shape < 0 {
		return q, nil
	}
	params := q.Params
	params.Shape, params.Dispersion = shapeOf(q.Lik), dispersionOf(q.Lik)
	if v.dispersion >= 0 {
		params.Dispersion = math.Exp(theta[v.dispersion])
	}
	if v.shape >= 0 {
		params.Shape = max(math.Exp(theta[v.shape]), lik.MinShape)
	}
	lk, err := lik.Remake(q.Lik, params)
	if err != nil {
		return nil, err
	}
	return with(q, func(m *kernels.Model) { m.Lik, m.Params = lk, params }), nil
}

// Try fits at θ.
func (v *hyper) Try(theta []float64) (float64, bool, error) {
	q, err := v.at(theta)
	if err != nil {
		return 0, false, err
	}
	v.theta = append(v.theta[:0], theta...)
	return v.attempt(q)
}

// Tolerance returns how many nats below its maximum the evidence may end, if slopes are
// differences.
func (v *hyper) Tolerance() float64 {
	if v.dispersion >= 0 || v.shape >= 0 {
		return flat
	}
	return 0
}

// Same is the gain of steps that are too small to go on: slopes by differences converge fast.
func (v *hyper) Same() float64 {
	if v.coarse {
		return coarseGain
	}
	if v.Tolerance() > 0 {
		return 0.01 * sameEvidence
	}
	return sameEvidence
}

// Slope returns that of the variances, and differences for dispersion and shape.
func (v *hyper) Slope() (slope, scale []float64, err error) {
	if slope, scale, err = v.varied.Slope(); err != nil {
		return nil, nil, err
	}
	at, log := slices.Clone(v.theta), v.out.logZ
	for _, k := range []int{v.dispersion, v.shape} {
		if k >= 0 {
			g, curvature := mode.Differences(v.Try, at, k, log, differences, v.lo[k], v.hi[k])
			slope, scale = append(slope, g), append(scale, curvature)
		}
	}
	return slope, scale, nil
}

// noteEnds notes parameters at the end of their range, and variances that vanished.
func (v *hyper) noteEnds(theta []float64) error {
	var vanished []bool
	if !v.p.Options.PriorGroups { // it lists all of them
		if err := v.e.initial(v.dev, v.variance); err != nil {
			return err
		}
		vanished = v.groups.Vanished(v.variance, v.p.PriorVar)
	}
	for k, x := range theta {
		at := mode.AtEnd(x, v.lo[k], v.hi[k])
		switch {
		case k < len(vanished) && (vanished[k] || at < 0):
			v.note("%s", mode.Zero(v.groups.Names[k]))
		case at == 0:
		case k == v.dispersion: // its unit may not be that of the responses as given
			end := "lower"
			if at > 0 {
				end = "upper"
			}
			v.note("dispersion by evidence ran to the %s end of its range, at which it stands: the data do not bound it", end)
		case k == v.shape:
			v.note("shape by evidence ran to %.3g, the end of its range: the data do not bound it", math.Exp(x))
		default:
			v.note("a prior variance, %.3g, "+endOfRange, math.Exp(x))
		}
	}
	return nil
}

// mostShape is the end of the search for a shape: beyond it a Student's t is a Gaussian and a
// negative binomial a Poisson in double precision.
const mostShape = 1e8

func shapeOf(l lik.Likelihood) float64 {
	if s, ok := l.(lik.Shaped); ok {
		return s.Shape()
	}
	return 0
}

func dispersionOf(l lik.Likelihood) float64 {
	if d, ok := l.(lik.Dispersed); ok {
		return d.Dispersion()
	}
	return 1
}

// noteGroups notes the prior variances, at most eight of them.
func (l *learner) noteGroups(g *mode.Groups, theta []float64) {
	var b strings.Builder
	for k, x := range theta {
		if k == 8 {
			fmt.Fprintf(&b, " and %d more", len(theta)-8)
			break
		}
		fmt.Fprintf(&b, " %s %.3g", g.Names[k], math.Exp(x))
	}
	l.notes = slices.DeleteFunc(l.notes, func(s string) bool { return strings.HasPrefix(s, "prior variances:") })
	l.note("prior variances:%s", b.String())
}

// complete reports whether all rows are in a run's evidence, except at most one in a thousand.
func (r *outcome) complete() bool { return 1000*(r.skipped+r.clamped) <= r.rows }

// usable reports whether it is complete and has converged.
func (r *outcome) usable() bool { return r.converged && r.complete() }

// varied is EP's evidence as a function of the logarithms of the prior variances. It is stationary
// in the sites, so its slope is that with fixed sites, which for posteriors N(m, s) of the weights
// of a group is
//
//	½ Σ (((m - μ0)² + s)/v - 1)
//
// whose zero is the fixed point of EM; dividing it by Σ (1 - s/v) gives MacKay's step.
//
// Source: [mackay1992]; [rasmussen2006], section 5.5.2, for EP.
type varied struct {
	*learner
	groups        *mode.Groups
	from          *kernels.Problem
	strict        bool // only sound fits count
	tol           float64
	dev, variance []float64
	best          []Site // where every fit starts
	turns         int    // calls of Higher
}

// endOfRange is the status note about a prior variance at the end of its range.
const endOfRange = "is at the end of its range: the data do not bound it"

func (l *learner) varied(g *mode.Groups) *varied {
	return &varied{learner: l, groups: g, from: l.p, strict: l.out.usable(), tol: looseTol,
		dev: memory.Floats(l.p.P), variance: memory.Floats(l.p.P), best: slices.Clone(l.e.sites())}
}

func (v *varied) at(theta []float64) *kernels.Problem {
	variance := make([]float64, len(theta))
	for k, x := range theta {
		variance[k] = math.Exp(x)
	}
	return v.priors(v.from, v.groups, variance)
}

// Try fits with the variances e^θ.
func (v *varied) Try(theta []float64) (float64, bool, error) { return v.attempt(v.at(theta)) }

// attempt fits q from the best sites so far.
func (v *varied) attempt(q *kernels.Problem) (float64, bool, error) {
	var err error
	v.p = q
	copy(v.e.sites(), v.best)
	v.out, err = v.tryTo(q, v.tol)
	return v.out.logZ, v.out.complete() && (v.out.converged || !v.strict), err
}

// mostTurns bounds how often a search moves to another fixed point: one whose evidence fails
// repeatedly would make it move forever.
const mostTurns = 6

// Higher implements mode.Modal.
func (v *varied) Higher() (bool, error) {
	if v.turns++; v.turns > mostTurns {
		return false, nil
	}
	e, out, moved := v.bestFixedPoint(v.p, v.e, v.out)
	if moved {
		copy(v.e.sites(), e.sites())
		v.out, v.strict = out, true
		v.Keep()
	}
	return moved, nil
}

func (v *varied) Keep()         { v.best = append(v.best[:0], v.e.sites()...) }
func (v *varied) Same() float64 { return sameEvidence }

func (v *varied) Slope() (slope, scale []float64, err error) {
	if err := v.e.initial(v.dev, v.variance); err != nil {
		return nil, nil, err
	}
	slope, scale = make([]float64, len(v.groups.Names)), make([]float64, len(v.groups.Names))
	for j, g := range v.groups.Of {
		if g >= 0 {
			known := 1 - v.variance[j]/v.p.PriorVar[j]
			slope[g] += 0.5 * (v.dev[j]*v.dev[j]/v.p.PriorVar[j] - known)
			scale[g] += 0.5 * max(known, 0)
		}
	}
	return slope, scale, nil
}

// groups returns the groups of prior variances to learn, by column, -1 for none, with the number of
// columns of each.
func (l *learner) groups() (g mode.Groups, count []float64) {
	g = mode.NewGroups(l.p)
	count = make([]float64, len(g.Names))
	for _, k := range g.Of {
		if k >= 0 {
			count[k]++
		}
	}
	return g, count
}

// priors returns p with other prior variances for the columns of the groups. They are independent
// of all others: a continued fit does not contain them.
func (l *learner) priors(p *kernels.Problem, g *mode.Groups, variance []float64) *kernels.Problem {
	q := with(p, func(m *kernels.Model) {
		if v, ok := g.Default(mode.Logs(variance)); ok && !m.Options.PriorGroups {
			m.Prior.Variance = v
		}
	})
	q.PriorVar = slices.Clone(p.PriorVar)
	for j, k := range g.Of {
		if k >= 0 {
			q.PriorVar[j] = variance[k]
		}
	}
	// Only positive variances change, and stay positive.
	q.Normal, _ = p.Normal.WithVariances(func(j int) (float64, bool) { return q.PriorVar[j], g.Of[j] >= 0 })
	return q
}

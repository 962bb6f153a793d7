// Package laplace computes Laplace's approximation: the mode ŵ of the posterior and a Gaussian
// with the curvature there.
//
//	ŵ = argmax Σ log p(y_i | x_iᵀw + offset_i) - ½ (w-μ0)ᵀ Λ0 (w-μ0)
//	H = Xᵀ W X,  W = diag(-∂² log p / ∂s²)
//	Σ = (Λ0 + H)⁻¹
//	log evidence = log p(y | ŵ) - ½ (ŵ-μ0)ᵀ Λ0 (ŵ-μ0) - ½ log |I + Σ0 H|
//
// The mode is found by Newton's method in whichever of three forms is cheapest: p x p, n x n,
// or conjugate gradients without any matrix; all give the same answer. The Hessian may be kept
// whole, or as its diagonal, its blocks, or its leading eigenpairs; the formulas of mean and
// evidence stay the same, with H what is kept.
//
// Sources: [hennig2020], lecture 14, Laplace training and evidence; [mackay1992], the evidence
// and its maximisation; [rasmussen2006], algorithms 3.1 and 3.2, the stable n x n form.
package laplace

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/stop"
)

const (
	// fullWeights is the largest number of weights for which hessian 'auto' is 'full', the largest
	// number of rows for which it is the n x n form, and the largest block that elimination of a
	// column of levels may leave.
	fullWeights = 5000
	// Up to smallWeights elimination gains nothing, up to squareWeights the n x n form.
	smallWeights, squareWeights = 500, 2000
	// maxKept bounds how many numbers of an exact covariance are kept: 256 MB.
	maxKept = 1 << 25
	// maxFullWeights bounds the matrices of hessian 'full': three of 8 p² bytes.
	maxFullWeights = 14000
	// Below this many rows the n x n system is faster than conjugate gradients.
	rowSpaceRows = 1500
	// sparseRows steps of conjugate gradients, which read the entries of X four times, are
	// cheaper than a factorisation of the n x n form.
	sparseRows = 20
)

// engine is one fit.
type engine struct {
	bare      bool // the result has only variances, no covariance
	x         *kernels.Problem
	lik       lik.Likelihood
	params    lik.Params
	earlier   kernels.Earlier
	root      *gauss.Root
	prior     kernels.Prior // of the fit
	search    *search
	hessian   string // as requested, or "rows", "arrow" or "rest": see plan
	split     *split // for "arrow"
	tied      *tied  // nil if no weights are correlated
	assembled bool   // search.b is the factor at search.now
	said      string // status notes about learnt numbers, if a single value of each is used
}

// Fit computes the Laplace approximation of p's posterior.
//
// Options read: Hessian, Rank (50), Oversample (10), PowerIterations (2) and Seed for
// lowrank, MaxIter (100 Newton steps), Tol (1e-8: the distance to the mode in posterior
// standard deviations), At, AutoPrior, PriorGroups, AutoDispersion, AutoShape, ThirdOrder,
// Standardize, TimeLimit.
//
// Hessian "auto" is exact wherever that is affordable. Up to 5,000 weights it is full; with
// fewer rows than weights, and up to 5,000 rows, it is the n x n form; and if elimination of the
// column with most levels leaves up to 5,000 weights that are at most half of all, or up to 3,500,
// it is that. All three give the same mean, variances and evidence. Otherwise it is lowrank plus
// the diagonal of what that leaves out: the status says so, and its evidence learns no variance
// (LacksEvidence). An explicit lowrank is the same, with the variances that an exact Hessian
// learns if that is affordable. If only the covariance is too large to be kept, as for 20,000
// levels beside 2,000, elimination that leaves up to 2,500 weights still learns.
//
// ThirdOrder moves the mean off the mode by the third derivatives of the likelihood (lag);
// covariance and evidence are unchanged. It needs an exact Hessian: without one it is left out,
// and the status says so.
//
// At gives the Gaussian at given weights (those not named at their prior mean), without
// optimisation: mean = those weights, covariance and evidence by the formulas above. Unless
// they are the mode, the gradient there is missing from both.
//
// The result is Full for hessian full and block (zero between blocks), Diagonal for diagonal,
// LowRank for lowrank and the n x n form, Arrowhead for elimination. With a full prior
// covariance lowrank is Full too, and diagonal keeps the diagonal of Λ0 + H. The status says so
// if the curvature that diagonal and block leave out makes variances too small. If a likelihood
// is not log-concave, negative curvatures keep their sign if the sum is positive definite;
// otherwise they count as 0, and the status says so.
//
// Cost of a Newton step: n p² + p³/3 (n >= p), n²p once and n³/3 (n < p), or O(nnz)
// per step of conjugate gradients if p is large.
//
// Errors: an option out of range, a likelihood that is not finite at the start, a
// curvature that overflows; the cause of ctx if it is cancelled, or if the time limit
// ends before there is a first posterior. Stopping early is not an error: see Status and
// Converged.
func Fit(ctx context.Context, p *kernels.Problem) (*kernels.Fit, error) { return FitFrom(ctx, p, nil) }

// FitFrom is Fit with the search for the mode started at weights start, by column of p; nil
// starts at the prior mean. It matters only if the log posterior may have several modes
// (studentt, gaussian with link log): the mode found is uphill from start.
func FitFrom(ctx context.Context, p *kernels.Problem, start []float64) (*kernels.Fit, error) {
	f, _, err := learnFrom(ctx, p, start)
	return f, err
}

// Learn is Fit, with means that expect about the events that came (unbalanced); it also returns p with the learnt prior variances, dispersion and shape as if they
// were given, a problem for a method that learns none itself. Both problems share all else.
func Learn(ctx context.Context, p *kernels.Problem) (*kernels.Fit, *kernels.Problem, error) {
	q := *p
	q.Balanced = true
	f, e, err := learnFrom(ctx, &q, nil)
	if err != nil {
		return nil, nil, err
	}
	known, err := knownTo(p, f, e)
	return f, known, err
}

// LearnAlone is Learn without averaging: the fit and the problem have the values of highest
// evidence. note is what a status should say about them ("" for nothing), such as that the rows
// hardly determine them.
func LearnAlone(ctx context.Context, p *kernels.Problem) (f *kernels.Fit, known *kernels.Problem, note string, err error) {
	if err := p.Check(); err != nil {
		return nil, nil, "", err
	}
	q, m := *p, *p.Model
	q.Model = &m
	m.Options.Integrate = false
	f, e, err := learnFrom(ctx, &q, nil)
	if err != nil {
		return nil, nil, "", err
	}
	note = e.said
	for _, more := range e.lowNotes() {
		note = kernels.Join(note, more)
	}
	known, err = knownTo(&q, f, e)
	return f, known, note, err
}

// knownTo returns p with what f, its fit by e, has learnt.
func knownTo(p *kernels.Problem, f *kernels.Fit, e *engine) (*kernels.Problem, error) {
	known, err := p.Known(e.prior, e.root.Of, f)
	if err != nil {
		return nil, err
	}
	known.CrossAs(e.x)
	return known, nil
}

// lowRankLearnt returns the low-rank Gaussian of p under the variances, dispersion and shape learnt
// by exact, p with an exact Hessian: the evidence of a Hessian that leaves curvature out rises with
// what it leaves out. With bare (learnBy) learning gets a third of the time limit; nil if that is
// too little.
func lowRankLearnt(ctx context.Context, p, exact *kernels.Problem, start []float64, bare bool) (*kernels.Fit, *engine, error) {
	within := ctx
	if bare {
		var cancel context.CancelFunc
		within, cancel = stop.WithLimit(ctx, p.Stop.Limit()/3)
		defer cancel()
	}
	p, exact = p.WithoutCentring(), exact.WithoutCentring()
	learnt, e, err := learnBy(within, exact, start, bare)
	if bare && errors.Is(err, stop.ErrTimeLimit) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	known, err := knownTo(p, learnt, e)
	if err != nil {
		return nil, nil, err
	}
	f, _, err := learnFrom(ctx, known, start)
	if err != nil {
		return nil, nil, err
	}
	f.Prior, f.Columns, f.Learnt = learnt.Prior, learnt.Columns, learnt.Learnt
	f.Iterations += learnt.Iterations
	f.Converged = f.Converged && learnt.Converged
	if learnt.Status != "ok" {
		f.Status = kernels.Join(learnt.Status, strings.TrimPrefix(f.Status, "ok"))
	}
	return f, e, nil
}

// learnApart returns the low-rank Gaussian of p under what an exact Hessian learns, nil if that is
// not requested or not possible.
func learnApart(ctx context.Context, p *kernels.Problem, ties []kernels.Tie, start []float64, hessian string) (*kernels.Fit, *engine, error) {
	if hessian != "lowrank" && hessian != "rest" || !learns(p) {
		return nil, nil, nil
	}
	exact, m := *p, *p.Model
	exact.Model, m.Options.Hessian = &m, "auto"
	if hessian == "lowrank" {
		if h, _ := plan(&exact, ties, start != nil); h != "rest" {
			return lowRankLearnt(ctx, p, &exact, start, false)
		}
	}
	if eliminates(p, ties) {
		return lowRankLearnt(ctx, p, &exact, start, true)
	}
	return nil, nil, nil
}

// LacksEvidence reports whether p asks for prior variances, of independent weights, that Fit does
// not learn, because no Hessian that it can afford has an exact evidence.
func LacksEvidence(p *kernels.Problem) bool {
	if p.P <= fullWeights || !p.LearnsPrior() || len(p.Correlated) > 0 || len(p.At) > 0 {
		return false
	}
	q, m := *p, *p.Model
	if q.Model = &m; m.Options.Hessian == "lowrank" {
		m.Options.Hessian = "auto" // it learns what an exact one does
	}
	h, _ := plan(&q, nil, false)
	return h == "rest" && !eliminates(p, nil)
}

func learnFrom(ctx context.Context, p *kernels.Problem, start []float64) (*kernels.Fit, *engine, error) {
	return learnBy(ctx, p, start, false)
}

// learnBy is learnFrom. With bare it eliminates leaves and does not compute their covariance with
// the block, which is too large to be kept: enough to learn from.
func learnBy(ctx context.Context, p *kernels.Problem, start []float64, bare bool) (f *kernels.Fit, e *engine, err error) {
	if err := p.Check(); err != nil {
		return nil, nil, err
	}
	s := stop.Watch(ctx, p.Options.TimeLimit)
	defer s.End(&err)
	if err := check(p); err != nil {
		return nil, nil, err
	}
	if start != nil && (len(start) != p.P || len(p.Correlated) > 0) {
		return nil, nil, fmt.Errorf("start: %d weights for %d columns, of which %d sets are correlated; allowed: one each, and none correlated", len(start), p.P, len(p.Correlated))
	}
	p = p.Under(s)
	ties, err := p.Ties()
	if err != nil {
		return nil, nil, err
	}
	hessian, split := plan(p, ties, start != nil)
	if bare {
		hessian, split = "arrow", leaves(p, ties)
	} else if f, e, err := learnApart(ctx, p, ties, start, hessian); f != nil || err != nil {
		return f, e, err
	}
	g, err := reserve(p, ties, hessian, split, bare)
	if err != nil {
		return nil, nil, err
	}
	defer g.Release()
	if gathers(p, ties, hessian) {
		q := *p
		q.Columns = p.Gathered()
		p = &q
	}
	if !p.Options.Standardize {
		return fitFrom(p, ties, start, hessian, split, bare)
	}
	loose := 1
	if hessian == "full" || hessian == "arrow" {
		loose = 0
	}
	if hessian == "arrow" {
		p = p.WithoutCentring()
	}
	q, sc, err := p.Standardize(loose)
	if err != nil {
		return nil, nil, err
	}
	if start != nil {
		from := memory.Floats(len(start))
		sc.To(from, start)
		start = from
	}
	if f, e, err = fitFrom(q, ties, start, hessian, split, bare); err != nil {
		return nil, nil, err
	}
	return f, e, sc.Restore(f)
}

func fitFrom(p *kernels.Problem, ties []kernels.Tie, start []float64, hessian string, leaves *split, bare bool) (*kernels.Fit, *engine, error) {
	e, err := newEngine(p, ties, hessian, leaves)
	if err != nil {
		return nil, nil, err
	}
	e.bare = bare
	if start != nil && e.search.space == rowSpace { // row space does not contain every start
		e.newSearch(krylov)
		if p.P <= fullWeights {
			e.newSearch(weightSpace)
		}
	}
	f, err := e.fit(start)
	if err == nil {
		e.prior = f.Prior
	}
	return f, e, err
}

// plan returns the Hessian that p asks for; 'auto' is "full", "rows" (n x n), "arrow" (leaves
// eliminated) or "rest" (low rank plus the diagonal of what that leaves out). anywhere means that
// the search must reach any weights, which row space does not contain.
func plan(p *kernels.Problem, ties []kernels.Tie, anywhere bool) (string, *split) {
	h := p.Options.Hessian
	if h != "" && h != "auto" {
		return h, nil
	}
	if p.P > smallWeights && p.Normal.Form == gauss.Diagonal {
		if s := leaves(p, ties); s != nil && len(s.block) <= fullWeights && (2*len(s.block) <= p.P || p.P > fullWeights && len(s.block) <= mostCrossed) &&
			float64(len(s.leaf))*float64(len(s.block)+3) <= maxKept {
			return "arrow", s
		}
		if !anywhere && len(p.At)+len(ties) == 0 && p.N < p.P && p.N <= fullWeights && p.P > squareWeights {
			return "rows", nil
		}
	}
	if p.P <= fullWeights {
		return "full", nil
	}
	return "rest", nil
}

// mostCrossed is the largest block of more than half of all weights, as of crossed columns of as
// many levels each: that of 4,800 takes three times as long as a full Hessian of as many weights.
const mostCrossed = 3500

// mostBlock is the largest block for which variances are learnt although the covariance is not kept.
const mostBlock = 2500

// eliminates reports whether variances can be learnt by elimination although p's covariance is too
// large to be kept.
func eliminates(p *kernels.Problem, ties []kernels.Tie) bool {
	if p.Normal.Form != gauss.Diagonal || len(ties) > 0 {
		return false
	}
	s := leaves(p, ties)
	return s != nil && len(s.block) <= mostBlock
}

// called returns the name of a Hessian for users.
func called(h string) string {
	switch h {
	case "rows", "rest":
		return "the low-rank form of the posterior"
	}
	return "hessian '" + h + "'"
}

func check(p *kernels.Problem) error {
	o := &p.Options
	if err := option.Check(o); err != nil {
		return err
	}
	switch {
	case p.Lik == nil:
		return fmt.Errorf("laplace needs a likelihood")
	case len(p.Correlated) > 0 && o.Hessian != "" && o.Hessian != "auto" && o.Hessian != "full":
		return fmt.Errorf("hessian = '%s' does not go with correlated; allowed: 'auto', 'full'", o.Hessian)
	case o.ThirdOrder && (len(p.At) > 0 || o.Hessian != "" && o.Hessian != "auto" && o.Hessian != "full"):
		return fmt.Errorf("third_order does not go with at, nor with hessian = '%s': it takes the whole Hessian at the mode; allowed: 'auto', 'full'", kernels.Or(o.Hessian, "auto"))
	case len(p.At) > 0 && (p.LearnsPrior() || o.AutoDispersion || o.AutoShape):
		return fmt.Errorf("at takes the Gaussian at given weights; it does not go with 'auto' for prior_variance, dispersion or shape")
	}
	if h := o.Hessian; (h == "full" && p.P > maxFullWeights) || (h == "block" && p.P > maxBlockWeights) {
		return fmt.Errorf("hessian = '%s' with %d weights; allowed: up to %d weights; use 'lowrank' or 'diagonal'", h, p.P, maxFullWeights)
	}
	return nil
}

func newEngine(p *kernels.Problem, ties []kernels.Tie, hessian string, leaves *split) (*engine, error) {
	e := &engine{lik: p.Lik, params: p.Params, hessian: hessian, split: leaves}
	if len(ties) > 0 && hessian != "rest" {
		e.tied = newTied(p, ties)
		p = e.tied.problem
	}
	e.x, e.earlier = p, p.Earlier()
	p.Fill()
	prior := p.Normal
	if prior.Form == gauss.LowRank && (e.hessian == "full" || e.hessian == "block") {
		var err error
		if prior, err = prior.ToFull(); err != nil {
			return nil, fmt.Errorf("prior: %w", err)
		}
	}
	var err error
	if e.root, err = prior.Root(); err != nil {
		return nil, err
	}
	e.newSearch(chooseSpace(p, e.hessian, prior.Form))
	return e, nil
}

func (e *engine) newSearch(sp space) {
	e.search = newSearch(e.x, e.lik, e.root, sp, e.split, e.hessian == "rows")
}

// chooseSpace picks the cheapest form of Newton's equations that fits into memory.
func chooseSpace(x *kernels.Problem, hessian string, prior gauss.Form) space {
	n, p := x.N, x.P
	switch {
	case hessian == "arrow":
		return arrowSpace
	case hessian == "rows" && x.Values() < n*n/sparseRows:
		return krylov
	case hessian == "rows":
		return rowSpace
	case prior == gauss.LowRank:
		return krylov
	case n < p && (n <= rowSpaceRows || p <= squareWeights):
		return rowSpace
	case p <= squareWeights || hessian == "full":
		return weightSpace
	}
	return krylov
}

func (e *engine) fit(start []float64) (*kernels.Fit, error) {
	if len(e.x.At) > 0 {
		return e.at()
	}
	if e.learns() {
		return e.fitLearning(start)
	}
	ev, err := e.climbTo(start)
	if err != nil {
		return nil, err
	}
	steps, note := e.search.Iterations, ""
	if start == nil {
		if ev, note, err = e.highest(ev); err != nil {
			return nil, err
		}
	}
	if e.search.Status == "" {
		var more string
		if ev.belief, more = (&learner{engine: e}).thirdOrder(ev.belief, ev); more != "" {
			note = kernels.Join(note, more)
		}
	}
	return e.result(ev, steps, e.search.Status, note)
}

// fitLearning is fit with parameters of the prior or the likelihood to be learnt.
func (e *engine) fitLearning(start []float64) (*kernels.Fit, error) {
	h, err := newLearner(e)
	if err != nil {
		return nil, err
	}
	ev, status, note, err := h.maximise(start)
	if err != nil {
		return nil, err
	}
	var around *spread
	h.rising = status == mode.StillRising && !h.costlyEvidence && !h.search.late()
	if e.x.Options.Integrate && (status == "" || h.rising) {
		if around, err = h.integrate(); err != nil {
			return nil, err
		}
		if around != nil { // the prior bounds what the rows do not
			status = ""
		}
		if h.plain {
			note = kernels.Join(note, mode.NotAveraged)
		}
		if err := h.exactly(); err != nil {
			return nil, err
		}
		bl := *h.at.belief
		if around != nil && around.weights != nil {
			bl = *around.weights
			bl.floored, bl.note = ev.floored, ev.note
		}
		ev = &evidence{&bl, ev.log}
	} else if status == "" && h.search.loose > 0 {
		if err := h.exactly(); err != nil {
			return nil, err
		}
		ev = h.at
	}
	if status == "" {
		bl, more := h.thirdOrder(ev.belief, h.at)
		if ev = (&evidence{bl, ev.log}); more != "" {
			note = kernels.Join(note, more)
		}
	}
	learnt := h.learnt()
	e.said = kernels.Join(status, learnt)
	if status == "" {
		for _, more := range append(h.fewRowsNotes(), h.guessed(around)...) {
			if more != "" {
				note, e.said = kernels.Join(note, more), kernels.Join(e.said, more)
			}
		}
	}
	if learnt != "" && note != "" {
		note = learnt + "; " + note
	} else {
		note += learnt
	}
	f, err := e.result(ev, h.newton, status, note)
	if err != nil {
		return nil, err
	}
	if !e.x.Options.PriorGroups {
		h.note(f, around)
	}
	if status == "" {
		before := f.Status
		if err = h.parameters(f, around); f.Status != before {
			e.said = kernels.Join(e.said, strings.TrimPrefix(f.Status, before+"; "))
		}
		if !e.x.Options.Integrate && h.pass == nil && len(h.Names) > 0 && h.exact() && h.Single(nil, h.at.vars(), h.root.Of.Var) {
			e.said = kernels.Join(e.said, mode.NotAveraged) // if asked for, this fit does not say so itself
		}
	}
	return f, err
}

// note records in f what was learnt of variances.
func (h *learner) note(f *kernels.Fit, around *spread) {
	x := h.x
	if v, ok := h.Default(h.theta); ok {
		f.Prior.Variance = v
	}
	variance := h.root.Of.Var
	if h.tied != nil {
		variance = slices.Clone(variance)
		h.tied.variances(variance)
		f.Correlations = h.tied.correlations(h.tied.spreads(), nil)
	}
	x.SetVariances(f, variance)
	if around == nil {
		return
	}
	if around.noise > 0 {
		f.Dispersion = around.noise
	}
	if around.shape[2] > 0 {
		f.Shape = around.shape[2]
	}
	sd, deviation := memory.Floats(x.P), memory.Floats(x.P)
	for j, k := range h.Of {
		if k >= 0 {
			sd[j], deviation[j] = around.mean[k], around.sd[k]
		}
	}
	if h.tied != nil {
		h.tied.deviations(around.tied, sd, deviation)
		f.Correlations = h.tied.correlations(around.tied[0], around.tied[1])
	}
	x.SetSpread(f, sd, deviation)
}

// evidence is the Gaussian at a mode with its log evidence.
type evidence struct {
	*belief
	log float64
}

// climbTo finds the mode from weights start, or from the search's present point if nil, and
// returns the Gaussian there.
func (e *engine) climbTo(start []float64) (*evidence, error) {
	s := e.search
	s.restart(start)
	if err := s.run(); err != nil {
		return nil, err
	}
	return e.here()
}

// here returns the Gaussian at the search's present point, a mode.
func (e *engine) here() (*evidence, error) {
	s := e.search
	e.assembled = s.Status == "" && s.exact
	w := memory.Floats(e.x.P)
	s.weights(w)
	if s.space == arrowSpace {
		s.evaluated = append(s.evaluated[:0], w...)
	}
	bl, err := e.gaussian(w, s.now.Curv)
	if err != nil {
		return nil, err
	}
	return &evidence{bl, s.logPosterior() - 0.5*bl.logDet + e.earlier.Log(e.lik)}, nil
}

// highest returns the Gaussian at the best mode that can be found, and a note about the others;
// ev is the Gaussian at the search's present point.
func (e *engine) highest(ev *evidence) (*evidence, string, error) {
	l, bumpy := e.lik.(lik.Bumpy)
	if !bumpy || e.search.Status != "" {
		return ev, "", nil
	}
	c := &climber{e, ev, e.x.Batch()}
	r, err := mode.Highest(c, l)
	if err != nil || r.Found < 2 {
		if err == nil {
			_, err = c.LogEvidence()
		}
		return c.ev, "", err
	}
	_, err = c.LogEvidence()
	return c.ev, r.Note(), err
}

// climber makes an engine a mode.Climber.
type climber struct {
	*engine
	ev   *evidence // at the search's present point, nil if not known
	rows *kernels.Batch
}

func (c *climber) Climb(l lik.Likelihood, only []bool) error {
	s := c.search
	c.ev = nil
	s.data.Lik, s.data.Only = l, only
	s.data.Evaluate(&s.now)
	err := s.run()
	if only != nil || l != c.lik {
		s.data.Lik, s.data.Only = c.lik, nil
		s.data.Evaluate(&s.now)
	}
	return err
}

func (c *climber) At() []float64 { return c.search.u }

func (c *climber) Go(u []float64) {
	c.ev = nil
	if u == nil {
		clear(c.search.u)
	} else {
		copy(c.search.u, u)
	}
	c.search.evaluateHere()
}

func (c *climber) Predictor() []float64 { return c.search.now.Eta }
func (c *climber) Obs(i int) lik.Obs    { return c.rows.Obs(i) }
func (c *climber) Late() bool           { return c.search.late() }

func (c *climber) LogEvidence() (float64, error) {
	if c.ev == nil {
		var err error
		if c.ev, err = c.here(); err != nil {
			return 0, err
		}
	}
	return c.ev.log, nil
}

// at returns the Gaussian at the weights of Model.At.
func (e *engine) at() (*kernels.Fit, error) {
	p := e.x
	w := append([]float64(nil), e.root.Of.Mean...)
	if err := p.Place(w, p.At); err != nil {
		return nil, fmt.Errorf("at: %w", err)
	}
	if e.search.space == rowSpace { // row space does not contain every w
		e.newSearch(krylov)
	}
	s := e.search
	s.restart(w)
	if math.IsInf(s.now.LogLik, -1) {
		return nil, fmt.Errorf("at: the log likelihood is not finite at the given weights")
	}
	bl, err := e.gaussian(w, s.now.Curv)
	if err != nil {
		return nil, err
	}
	return e.result(&evidence{bl, s.logPosterior() - 0.5*bl.logDet}, 0, "", "")
}

// result returns the fit with posterior ev. status is the reason why a search stopped early.
func (e *engine) result(ev *evidence, iterations int, status, learnt string) (*kernels.Fit, error) {
	post := gauss.NewDiagonal(ev.mean, nil)
	if e.bare {
		post.Var = ev.vars()
	} else {
		var err error
		if post, err = ev.build(); err != nil {
			return nil, err
		}
	}
	notes := []string{ev.note, learnt}
	notes = append(notes, e.lowNotes()...)
	if ev.floored {
		notes = append(notes, flooredNote)
	}
	if e.hessian == "diagonal" || e.hessian == "block" {
		tied, err := mode.Tied(e.root.Of, post, e.x.Options.Seed, e.x.Stop, func(dst, m *dense.Matrix) { e.x.GramMat(dst, m, e.search.now.Curv) })
		if err != nil {
			return nil, err
		}
		if tied {
			notes = append(notes, kernels.FactorisedNote)
		}
	}
	f := e.x.Fit("laplace", post, ev.log)
	f.SetLikelihood(e.lik)
	mode.Conclude(f, iterations, status, notes)
	if err := e.x.CheckEvidence(f); err != nil {
		return nil, err
	}
	return f, f.Check()
}

// lowNotes returns notes about what a Hessian that leaves curvature out does or does not learn.
func (e *engine) lowNotes() (notes []string) {
	if !e.low() {
		return nil
	}
	if e.x.LearnsPrior() {
		notes = append(notes, mode.Kept(e.x.Prior.Variance))
	}
	if e.x.Options.AutoDispersion || e.x.Options.AutoShape {
		notes = append(notes, mode.LearntNote)
	}
	return notes
}

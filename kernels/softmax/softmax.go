// Package softmax implements multi-class regression by Laplace's approximation: each class has
// separate weights,
//
//	p(y_i = c) = exp(f_ic) / Σ_k exp(f_ik),  f_ik = x_iᵀw_k + offset_i
//
// with independent Gaussian priors, and the posterior over all of them is the Gaussian at the
// mode with the curvature there, or, if the prior variance is learnt, the Gaussian nearest to
// the posterior. The likelihood does not change if all f of a row move together: the prior
// decides, or one class is pinned at 0, in which case an offset counts against that class
// (without one it cancels).
//
// Sources: [hennig2020], lecture 14, the softmax model; [rasmussen2006], section 3.5.
package softmax

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/stop"
)

const (
	// fullWeights is the number of weights, of all classes, up to which hessian 'auto' is
	// 'full', directWeights that up to which Newton's equations are solved directly.
	fullWeights, directWeights = 5000, 2000
	// maxFullWeights bounds the matrices of hessian 'full' and 'block'.
	maxFullWeights = 14000
)

type engine struct {
	x       *kernels.Problem
	classes *kernels.Classes
	label   []int
	prior   *gauss.Normal // as given
	root    *gauss.Root
	search  *search
	hessian string
	learnt  bool // prior variances are learnt
}

// Fit computes the Laplace approximation for rows whose Y is the index of their class in classes;
// the Model's Lik is nil. The fit's Classes are classes, its Beliefs a block of all features for
// each, in that order, and its Covariance is over all of them; family multinomial, link softmax.
// The class pinned by Options.Reference has weights 0 of variance 0.
//
// Options read: Reference, Hessian, Rank, Oversample, PowerIterations, Seed, MaxIter (100 Newton
// steps), Tol (1e-8: the distance to the mode in posterior standard deviations), AutoPrior,
// PriorGroups, Integrate (with SDScale and SDFreedom; hessian full, LogEvidence is the highest),
// Standardize, TimeLimit. A Start is a softmax fit of the same classes and reference.
// Hessian "auto" is full up to 5,000 weights of all classes, then lowrank plus the diagonal of what
// that leaves out: the status says so, and no variance is learnt (LacksEvidence). If it is learnt
// auto is, up to 2,000 weights, the Gaussian of least Kullback-Leibler divergence from the
// posterior, and LogEvidence its lower bound. Block keeps the covariance within a class. The status
// says if block or diagonal make variances too small.
//
// Newton's equations are solved over all weights, Ap x Ap for A learnt classes and p features, if
// those are few; in row space, A + 1 factors of n x n, if rows are fewer than features; otherwise
// by conjugate gradients.
//
// Errors: a class index outside classes, an unknown reference, options out of range, a curvature
// that overflows; the cause of ctx if it is cancelled, or if the time limit ends before there is a
// first posterior. Stopping early is not an error: see Status and Converged.
func Fit(ctx context.Context, p *kernels.Problem, classes []string) (f *kernels.Fit, err error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	s := stop.Watch(ctx, p.Options.TimeLimit)
	defer s.End(&err)
	if err := check(p, classes); err != nil {
		return nil, err
	}
	g, err := reserve(p, classes)
	if err != nil {
		return nil, err
	}
	defer g.Release()
	loose := len(classes)
	if hessianOf(p, classes) == "full" {
		loose = 0
	}
	return kernels.SolveStandardized(p.Under(s), loose, func(q *kernels.Problem) (*kernels.Fit, error) { return solve(q, classes) })
}

func solve(p *kernels.Problem, classes []string) (*kernels.Fit, error) {
	o := &p.Options
	e := &engine{x: p}
	var err error
	if e.classes, err = kernels.NewClasses(p, classes, o.Reference); err != nil {
		return nil, err
	}
	e.hessian = hessianOf(p, classes)
	weights := len(e.classes.Learnt) * p.P
	if (e.hessian == "full" || e.hessian == "block") && weights > maxFullWeights {
		return nil, fmt.Errorf("hessian = '%s' with %d weights of all classes; allowed: up to %d; use 'lowrank' or 'diagonal'", e.hessian, weights, maxFullWeights)
	}
	p.Fill()
	if e.prior, err = e.classes.Prior(); err != nil {
		return nil, err
	}
	if e.prior.Form == gauss.LowRank && (e.hessian == "full" || e.hessian == "block") {
		if e.prior, err = e.prior.ToFull(); err != nil {
			return nil, fmt.Errorf("prior: %w", err)
		}
	}
	if e.root, err = e.prior.Root(); err != nil {
		return nil, err
	}
	e.label = make([]int, p.N)
	for i, y := range p.Y {
		e.label[i] = slices.Index(e.classes.Learnt, int(y))
	}
	e.newSearch(chooseSpace(p.N, p.P, len(e.classes.Learnt), e.prior.Form))
	return e.fit()
}

func (e *engine) newSearch(sp space) {
	e.search = newSearch(e.x, e.classes, e.label, e.root, sp)
}

func check(p *kernels.Problem, classes []string) error {
	o := &p.Options
	if err := option.Check(o); err != nil {
		return err
	}
	switch {
	case len(p.At) > 0:
		return fmt.Errorf("at is not an option of softmax; allowed with laplace")
	case o.AutoDispersion:
		return fmt.Errorf("dispersion = 'auto': softmax has none; allowed with gaussian and studentt")
	case o.AutoShape:
		return fmt.Errorf("shape = 'auto': softmax has none; allowed with negbinomial, gamma and studentt")
	case len(classes) == 0:
		return fmt.Errorf("softmax needs classes; found none")
	}
	for i, y := range p.Y {
		if !(y >= 0 && y < float64(len(classes))) || y != math.Trunc(y) {
			return kernels.RowError(fmt.Errorf("row %d: class number %v; allowed: 0 to %d", i+1, y, len(classes)-1))
		}
		if p.Weight != nil && (!(p.Weight[i] >= 0) || math.IsInf(p.Weight[i], 0)) {
			return kernels.RowError(fmt.Errorf("row %d: weight = %v: weights are finite numbers >= 0", i+1, p.Weight[i]))
		}
	}
	return nil
}

// learntClasses is how many classes have weights: all but the reference.
func learntClasses(p *kernels.Problem, classes []string) int {
	if p.Options.Reference != "" {
		return len(classes) - 1
	}
	return len(classes)
}

func hessianOf(p *kernels.Problem, classes []string) string {
	switch h := p.Options.Hessian; {
	case h != "" && h != "auto":
		return h
	case learntClasses(p, classes)*p.P > fullWeights:
		return "rest"
	}
	return "full"
}

// LacksEvidence reports whether p asks for prior variances that Fit does not learn, because no
// Hessian that it can afford has an exact evidence.
func LacksEvidence(p *kernels.Problem, classes []string) bool {
	h := hessianOf(p, classes)
	return p.LearnsPrior() && (h == "rest" || h == "lowrank" && learntClasses(p, classes)*p.P > fullWeights)
}

// called returns the name of a Hessian for users.
func called(h string) string {
	if h == "rest" {
		return "the low-rank form of the posterior"
	}
	return "hessian '" + h + "'"
}

func (e *engine) fit() (*kernels.Fit, error) {
	low := e.hessian == "lowrank"
	if low && len(e.prior.Mean) <= fullWeights && e.x.LearnsPrior() {
		e.hessian = "full" // to learn with
	}
	e.learnt = e.x.LearnsPrior() && e.hessian != "rest" && e.hessian != "lowrank" && len(e.classes.Learnt) > 0
	if !e.learnt {
		ev, err := e.climbTo(nil)
		if err != nil {
			return nil, err
		}
		return e.result(ev, e.search.Iterations, e.search.Status, "")
	}
	h, err := newLearner(e)
	if err != nil {
		return nil, err
	}
	theta, status, err := mode.Search{Lo: h.lo, Hi: h.hi, Late: e.search.late, Ends: slices.Repeat([]float64{endGain}, len(h.theta))}.From(h, h.starts())
	if err != nil {
		return nil, err
	}
	if status == "" {
		status = e.search.Status
	}
	var around *mode.Spread
	ev := h.at
	if e.refines() {
		if ev, err = e.refine(ev); err != nil {
			return nil, err
		}
	}
	learnt := ""
	if status == "" || status == mode.StillRising {
		if around, theta, err = h.integrate(theta); err != nil {
			return nil, err
		}
		if h.single(around) {
			learnt = mode.NotAveraged
		}
	}
	if around != nil {
		status = "" // the prior bounds what the rows do not
	}
	switch {
	case low:
		e.hessian = "lowrank"
		if ev, err = e.climbTo(h.at.post.Mean); err != nil {
			return nil, err
		}
	case around != nil:
		post, note := around.Weights, ev.note
		if post == nil {
			if post, err = h.here(); err != nil {
				return nil, err
			}
		}
		ev = &evidence{&belief{post: post, note: note}, ev.log}
	}
	f, err := e.result(ev, h.newton, status, kernels.Join(h.Learnt(&e.x.Options, theta, h.lo, nil), learnt))
	if err == nil && !e.x.Options.PriorGroups {
		if v, ok := h.Default(theta); ok {
			f.Prior.Variance = v
		}
		e.x.SetVariances(f, e.root.Of.Var[:e.x.P])
		if around != nil {
			around.Note(f, e.x, &h.Groups)
		}
	}
	return f, err
}

// refines reports whether the fit is the Gaussian nearest to the posterior: if the variance is
// learnt and no particular Hessian was requested.
func (e *engine) refines() bool {
	h, a := e.x.Options.Hessian, len(e.classes.Learnt)
	d := a * e.x.P
	work := float64(e.x.N) * float64(a*a) * float64(d/2+pairs)
	return (h == "" || h == "auto") && e.hessian == "full" && e.x.N > 0 && e.prior.Form == gauss.Diagonal && d <= nearestWeights && work <= nearestWork
}

// evidence is the Gaussian at a mode with its log evidence.
type evidence struct {
	*belief
	log float64
}

// climbTo finds the mode from weights w, or from the search's present point if w is nil.
func (e *engine) climbTo(w []float64) (*evidence, error) {
	s := e.search
	s.restart(w)
	if err := s.run(); err != nil {
		return nil, err
	}
	at := memory.Floats(s.a * s.p)
	s.weights(at)
	bl, err := e.gaussian(at)
	if err != nil {
		return nil, err
	}
	return &evidence{bl, s.logPosterior() - 0.5*bl.logDet}, nil
}

func (e *engine) result(ev *evidence, iterations int, status, learnt string) (*kernels.Fit, error) {
	notes := []string{ev.note, learnt}
	if (e.hessian == "rest" || e.hessian == "lowrank") && e.x.LearnsPrior() && !e.learnt {
		notes = append(notes, mode.Kept(e.x.Prior.Variance))
	}
	if e.hessian == "diagonal" || e.hessian == "block" {
		tied, err := mode.Tied(e.root.Of, ev.post, e.x.Options.Seed, e.x.Stop, e.search.curved)
		if err != nil {
			return nil, err
		}
		if tied {
			notes = append(notes, kernels.FactorisedNote)
		}
	}
	if names := e.classes.Names; len(names) == 1 {
		notes = append(notes, fmt.Sprintf("all responses have the class %q: there is nothing to tell apart", names[0]))
	}
	f := e.classes.Fit("softmax", ev.post, ev.log)
	mode.Conclude(f, iterations, status, notes)
	if err := e.classes.CheckEvidence(f); err != nil {
		return nil, err
	}
	return f, f.Check()
}

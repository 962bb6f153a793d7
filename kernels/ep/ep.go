// Package ep implements quadrature expectation propagation: the assumed density filter of package
// adf iterated to its fixed point, where the contribution of every row can be removed again.
//
// Each row i keeps Gaussian sites, its approximate share of the posterior. To refresh them,
// the row's own sites are removed from the beliefs, which leaves the cavity; the moments of the
// linear predictor s under the tilted distribution, p(y_i | s) times the cavity's N(m, v), are
// matched, and the change of the beliefs is the new site. With
//
//	α = ∂ log Z / ∂m,  β = -∂² log Z / ∂m²  at the cavity
//
// a site on s itself is exp(νs - τs²/2), τ = β/(1-vβ), ν = (α + mβ)/(1-vβ).
//
//   - covariance 'diagonal' (factorised, the default): one Gaussian per weight and one
//     site per non-zero. Sweep 1 is the filter of package adf. Process noise makes
//     each weight a chain over the rows that touch it.
//   - covariance 'full': a joint Gaussian and one site per row. With process noise,
//     a Kalman filter and smoother around the sites.
//   - covariance 'lowrank': 'full' for the likelihood of package lowrank, which sees a
//     row x as its projection U Uᵀx on the leading right singular vectors of X.
//
// The first two have different fixed points if features are correlated: with a Gaussian likelihood
// the factorised means are those of the full posterior, but the factorised variances are too small
// (each is about that of the weight if the others were known). With correlated features factorised
// standard deviations can be half of the exact ones.
//
// Sources: Zoeter (2007), section 3; Minka (2001), chapter 3; Rasmussen and Williams
// (2006), section 3.6, for the evidence.
package ep

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// Site is the factor exp(Nu·u - Tau·u²/2) that stands for a row's likelihood. u is the weight
// (diagonal) or the linear predictor (full), relative to its prior mean.
type Site struct{ Tau, Nu float64 }

// Result is a fit with further results of EP.
type Result struct {
	Fit *kernels.Fit
	// LOO is the log density of each row given all others, in the order of the Problem's rows:
	// log Z of its cavity (for a weighted row, of its likelihood to the power of the weight).
	// After a single sweep it is given the earlier rows only.
	LOO []float64
	// Sites has one site per non-zero (diagonal) or per row (full).
	Sites []Site
	// Sweeps is the number of passes over the rows, without those of the search for
	// hyperparameters.
	Sweeps int
	// Skipped rows kept their old site in the last sweep because their cavity was not a proper
	// Gaussian, Clamped ones because the new site was not finite.
	Skipped, Clamped int
	// Damping is the share of a site's change that was made in the last sweep.
	Damping float64
	// Noise is the process noise used, given or chosen by AutoNoise.
	Noise float64

	p              *kernels.Problem
	e              engine
	mean, variance []float64 // posterior by column
}

// Prior returns the prior of the result, with the variances that were learnt, and the prior variance
// of each column.
func (r *Result) Prior() (kernels.Prior, []float64) { return r.p.Model.Prior, r.p.PriorVar }

// Kernel chooses the quadrature nodes for a site.
type Kernel struct {
	// Prior > 0 is the vanilla variant: that many Gauss-Hermite nodes on the prior of the
	// predictor (with process noise: on its prediction from earlier rows), each weighted by
	// cavity over prior. 0 is the cavity kernel: the likelihood's own moments under the cavity.
	Prior int
}

// Fit runs EP on p to convergence.
//
// Options read: Covariance ('diagonal', 'full', 'lowrank'; with it Rank, Oversample,
// PowerIterations and Seed), MaxIter (sweeps, default 100), Tol (1e-8), Damping (1), TimeLimit,
// AutoNoise, AutoPrior, PriorGroups, AutoDispersion, AutoShape, Integrate (with SDScale and
// SDFreedom; with a full covariance and weights that do not drift); and the model's Noise, NoiseBy
// and times.
//
// A run has converged if no site changes its beliefs by more than Tol standard deviations (or Tol
// of the variance), no leave-one-out density changes by more than Tol, and log Z by no more than
// Tol, relative to 1 + their size. If that would take more sweeps than MaxIter, it is enough that
// the predictors of the rows no longer move: see trend. Damping is halved if changes grow, log Z
// falls or cavities fail, and recovers. Factorised means are accelerated by Newton steps
// (newtonStep), sites of full EP by extrapolation.
//
// Errors: an option that EP does not support, a row that is impossible under the model (Is
// kernels.ErrRow), a posterior that is not finite. Stopping early is not an error: see Fit.Status.
//
// Cost of a sweep: diagonal O(nnz) time, 16 bytes per non-zero (32 with process noise), 56 per row;
// full O(n p²) time and O(p²) memory, for many sparse rows O(Σ nnz² + p³) time, or O(n² p) once and
// O(n³) per sweep if n < p; with process noise O(n p²) time and O(n p + p²) memory; lowrank that of
// full with Rank + 1 weights, and the decomposition once.
func Fit(ctx context.Context, p *kernels.Problem) (*Result, error) { return FitWith(ctx, p, Kernel{}) }

// FitWith is Fit with a choice of quadrature kernel.
func FitWith(ctx context.Context, p *kernels.Problem, k Kernel) (*Result, error) {
	return fitBy(ctx, p, &search{kernel: k})
}

// Learn is Fit for the prior variances, dispersion and shape alone: the search for them ends where
// two steps in a row gain less than half a nat each.
func Learn(ctx context.Context, p *kernels.Problem) (*Result, error) {
	return fitBy(ctx, p, &search{coarse: true})
}

func fitBy(ctx context.Context, p *kernels.Problem, by *search) (r *Result, err error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	s := stop.Watch(ctx, p.Options.TimeLimit)
	defer s.End(&err)
	g, err := reserve(p, false)
	if err != nil {
		return nil, err
	}
	defer g.Release()
	return by.fitUnder(p.Under(s))
}

// fitUnder may change the columns of p.
func (s *search) fitUnder(p *kernels.Problem) (*Result, error) {
	p.Index()
	if p.Forgets() {
		return nil, fmt.Errorf("forgetting = %v is not used by ep; allowed: 1, or process_noise for weights that move", p.Forgetting)
	}
	if k := s.kernel; k.Prior < 0 || k.Prior > maxNodes {
		return nil, fmt.Errorf("prior kernel with %d nodes; allowed: 0 (cavity kernel) to %d", k.Prior, maxNodes)
	}
	if err := option.Check(&p.Options); err != nil {
		return nil, err
	}
	s.stop = p.Stop
	return s.fit(p)
}

// Smooth is Fit followed by Trajectories.
func Smooth(ctx context.Context, p *kernels.Problem, visit func(feature string, time, mean, variance float64)) (r *Result, err error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	s := stop.Watch(ctx, p.Options.TimeLimit)
	defer s.End(&err)
	g, err := reserve(p, true)
	if err != nil {
		return nil, err
	}
	defer g.Release()
	one := with(p, func(m *kernels.Model) { m.Options.Integrate = false }) // trajectories belong to one set of variances
	if r, err = new(search).fitUnder(one.Under(s)); err != nil {
		return nil, err
	}
	if q := r.p; early(q) > 0 {
		return nil, &argument.Error{
			Name: "time", Found: strconv.FormatFloat(q.Time[0], 'g', -1, 64), Allowed: "times from " + strconv.FormatFloat(q.Begin, 'g', -1, 64) + " on",
			Why: "is before the time of the fit that is continued, and of how weights drifted up to that nothing is known",
		}
	}
	return r, r.trajectories(visit)
}

// engine is one form of EP, between sweeps.
type engine interface {
	// sweep refreshes every site once, making the share damp of each change.
	sweep(damp float64) (change, error)
	// posterior returns the belief after the last row, in the problem's own coordinates.
	posterior() (*gauss.Normal, error)
	// initial sets, by column, the posterior mean less the prior mean and the variance of the
	// weights at the time of the prior.
	initial(dev, variance []float64) error
	// touches returns the posterior of each non-zero's weight at the time of its row, or nil,
	// nil if the weights do not drift.
	touches() (mean, variance []float64, err error)
	// reset sets a new likelihood and prior over the same rows and keeps the sites.
	reset(p *kernels.Problem) error

	sites() []Site
	loo() []float64
}

// accelerator is an engine that can take steps between sweeps towards the same fixed point; grew
// reports that the sweep's changes were much larger than those of the one before.
type accelerator interface{ accelerate(grew bool) (taken bool) }

// change is the result of one sweep.
type change struct {
	size             float64 // largest undamped change of a site or belief
	move             float64 // square of the largest move of a row's predictor, in standard deviations
	logZ             float64
	skipped, clamped int
}

// moved compares the predictor of a row given all rows, N(m, v), with that of the previous
// sweep.
func (c *change) moved(last *kernels.Weight, m, v float64) {
	dm, dv := m-last.Mean, (v-last.Variance)/(2*v)
	c.move = max(c.move, dm*dm/v, dv*dv)
	last.Mean, last.Variance = m, v
}

func newEngine(p *kernels.Problem, k Kernel) (engine, error) {
	switch p.Options.Covariance {
	case "", "diagonal":
		return newDiagonal(p, k), nil
	case "full":
		if k.Prior > 0 {
			return nil, fmt.Errorf("the prior kernel goes with covariance 'diagonal' only")
		}
		if noises(p) != nil {
			return newKalman(p)
		}
		return newFull(p)
	case "lowrank":
		if k.Prior > 0 {
			return nil, fmt.Errorf("the prior kernel goes with covariance 'diagonal' only")
		}
		return newReduced(p)
	}
	return nil, fmt.Errorf("covariance = %q is not used by ep; allowed: diagonal, full, lowrank", p.Options.Covariance)
}

// stillMoving is the change per sweep, in standard deviations of a weight, above which the status
// reports it.
const stillMoving = 1e-4

const (
	defaultTol = 1e-8
	// leastDamping is the limit of halving.
	leastDamping = 1.0 / 32
)

// outcome is the result of a run of sweeps.
type outcome struct {
	change
	rows      int
	sweeps    int
	damping   float64
	step      float64 // last change of log Z
	rest      float64 // how far the predictors may still move, in their standard deviations
	converged bool
	expired   bool
}

// iterate sweeps until nothing changes, or until predictions no longer change and convergence
// would take more sweeps than are allowed. first means that e has no sites yet: its first
// sweep is the filter, undamped. earlier is added to the log evidence.
func (s *search) iterate(e engine, o *kernels.Options, earlier float64, first bool) (r outcome, err error) {
	limit := kernels.Or(o.Damping, 1)
	tol, most := kernels.Or(o.Tol, defaultTol), kernels.Or(o.MaxIter, 100)
	r.damping, r.rows = limit, len(e.loo())
	last := change{size: math.Inf(1), logZ: math.NaN()}
	var t trend
	accelerated := false // before the sweep, accelerate moved the sites
	for r.sweeps < most {
		damp := r.damping
		if first && r.sweeps == 0 {
			damp = 1
		}
		c, err := e.sweep(damp)
		if err != nil {
			return r, err
		}
		if math.IsNaN(c.logZ) {
			return r, fmt.Errorf("ep: the log evidence is not a number after %d sweeps; scale the features", r.sweeps+1)
		}
		c.logZ += earlier
		r.sweeps++
		r.change = c
		step := c.logZ - last.logZ
		if c.size <= tol && math.Abs(step) <= tol*(1+math.Abs(c.logZ)) {
			r.step, r.converged = step, true
			return r, nil
		}
		if r.sweeps > 2 && !accelerated {
			fell := step < -0.1 && -step > math.Abs(r.step)
			if c.size >= last.size || fell || c.skipped > last.skipped {
				r.damping = max(r.damping/2, min(leastDamping, limit))
			} else {
				r.damping = min(r.damping*1.2, limit)
			}
		}
		before := last.size
		last, r.step = c, step
		t.add(c, step)
		r.expired = s.late()
		left := most - r.sweeps
		if r.expired {
			left = 0
		}
		r.rest = t.rest()
		if r.converged = t.predictorsConverged(tol, left); r.converged || r.expired {
			return r, nil
		}
		accelerated = false
		if n, ok := e.(accelerator); ok && t.slow() && c.skipped+c.clamped == 0 && left > 0 {
			accelerated = n.accelerate(c.size > 2*before)
		}
	}
	return r, nil
}

// status returns the status note for an outcome.
func (r *outcome) status(o *kernels.Options) string {
	switch {
	case r.expired && !r.converged:
		return fmt.Sprintf("stopped after %d %s by time_limit = %v", r.sweeps, kernels.Inflect(r.sweeps, "sweep", "sweeps"), o.TimeLimit)
	case !r.converged && r.sweeps == 1:
		return "stopped after 1 sweep, the assumed density filter (max_iter)"
	case !r.converged:
		return fmt.Sprintf("not converged after %d sweeps: sites still change by %.1g, log evidence by %.1g%s", r.sweeps, r.size, r.step, r.ahead())
	case r.skipped+r.clamped > 0:
		why, then := "have no proper cavity", "they kept an older site and are not in the log evidence"
		if r.skipped == 0 {
			why = "have a site that is not finite"
		}
		if !r.complete() {
			then = "they kept an older site, so that this is no fixed point and there is no log evidence"
		}
		return fmt.Sprintf("%d of %d rows %s: %s", max(r.skipped, r.clamped), r.rows, why, then)
	case r.size > kernels.Or(o.Tol, defaultTol) && r.size > stillMoving:
		return fmt.Sprintf("converged after %d %s in what it predicts; weights that rows see only together still move by %.1g of their standard deviations a sweep", r.sweeps, kernels.Inflect(r.sweeps, "sweep", "sweeps"), r.size)
	}
	return ""
}

// ahead reports how far predictions may be from their limit, "" if unknown.
func (r *outcome) ahead() string {
	if math.IsInf(r.rest, 1) {
		return ""
	}
	return fmt.Sprintf("; predictors may be %.1g of their standard deviations from where they would arrive", r.rest)
}

// overlap returns the log of the integral of N(u; m, v) times a site, without -log(den)/2, where
// den = 1 + v τ > 0: the caller adds that, in one logarithm for many.
func overlap(m, v float64, s Site, den float64) float64 {
	g := s.Nu - s.Tau*m
	return m*(g+0.5*s.Tau*m) + 0.5*v*g*g/den
}

// impossible returns the error for a row that the filter cannot absorb.
func impossible(i int, y, m, v, logZ float64) error {
	if !special.Finite(m) || !special.Finite(v) {
		return kernels.RowError(fmt.Errorf("row %d: the linear predictor overflows (mean %v, variance %v); scale the features down", i+1, m, v))
	}
	return kernels.RowError(fmt.Errorf("row %d: y = %v is impossible under a linear predictor of mean %v, variance %v: log Z = %v", i+1, y, m, v, logZ))
}

package lowrank

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/stop"
)

// Result is a low-rank fit with what is known of its error.
type Result struct {
	Fit       *kernels.Fit
	Posterior *gauss.Normal // over the columns of the problem
	Reduced   *Reduced
	Singular  []float64 // λ(1) ... λ(M)
	Next      float64   // λ(M+1), see Factors.Next

	// Bound is an upper bound of the distance between this mean and the mode of the posterior
	// under the whole design, in prior standard deviations: ((μ̃-μ)ᵀ Σ0⁻¹ (μ̃-μ))^½, so no weight
	// is off by more than that many of its own. It is NaN if the likelihood is not log-concave.
	Bound float64
	// Spectral is the sharper form of the poster's bound of |μ̃-μ| (Euclidean), from λ(M+1)
	// alone: min(σβ² τ λ(M+1), (σβ² τ)^½ / 2) |Y - V VᵀY|, Y centred at the prior mean. It holds
	// for the gaussian family with identity link, rows of equal weight, a prior with a single
	// variance σβ² and no intercept; otherwise it is NaN.
	Spectral float64
}

// Fit computes the posterior under the low-rank likelihood: Laplace's approximation in the
// reduced coordinates (LR-Laplace), which for the gaussian family with identity link is exact
// (LR conjugate). With B = I + S the precision of u at its mode û and S = V diag(λ) Vᵀ,
//
//	mean = μ0 + C H û,   Σ = Σ0 - F Fᵀ,   F = C H V diag(λ / (1 + λ))^½
//
// which is Σ0 - Σ0 Ũ W Ũᵀ Σ0 of the paper, without an inverse and with any prior. The result is
// LowRank; it is Full if the prior is, or if every direction is kept.
//
// Options read: Rank (50), Oversample (10), PowerIterations (2), Seed, MaxIter (100 Newton
// steps), Tol (1e-8, the distance to the mode in posterior standard deviations), AutoPrior (one
// variance for each column of levels and one for all other weights without a prior of their
// own), AutoDispersion and AutoShape (by the evidence of the reduced problem), Standardize,
// TimeLimit.
//
// Fit.Status reports λ(M+1) and Result.Bound. The bound is a posteriori: with J the negative
// log posterior under the whole design, J - ½ (w-μ0)ᵀΣ0⁻¹(w-μ0) is convex, so
// |Σ0^-½(w-μ)| <= |Σ0^½ ∇J(w)| for any w; some steps are made from μ̃ towards μ and their
// length is added. That takes a few dozen products of X with a vector. It does not rely on the
// estimate of λ(M+1), and holds for every log-concave family and every prior.
//
// Directions outside U keep their prior, so the variances are not below those under the whole
// design for the gaussian family with identity link, an isotropic prior and exact singular
// vectors (their theorem); otherwise that is the rule, without a proof.
//
// A family that is not log-concave has rows of negative curvature. They keep their sign if the
// sum stays positive definite, otherwise they count as flat, as Status reports.
//
// Cost: SVD, then n k² + O(k³) per Newton step, k = M + 1, and O(p k²) at the end.
// Errors: options out of range, a design or a curvature that overflows, a full prior of more
// than FullLimit weights.
//
// Source: Trippe et al. (2019), sections 4 and 5; the bound: their theorem for the mean, with
// the gradient itself in place of its bound.
func Fit(ctx context.Context, p *kernels.Problem) (r *Result, err error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	s := stop.Watch(ctx, p.Options.TimeLimit)
	defer s.End(&err)
	if err := check(p); err != nil {
		return nil, err
	}
	g, err := reserve(p)
	if err != nil {
		return nil, err
	}
	defer g.Release()
	p = p.Under(s)
	_, err = kernels.SolveStandardized(p, 1, func(q *kernels.Problem) (*kernels.Fit, error) {
		if r, err = solve(q); err != nil {
			return nil, err
		}
		return r.Fit, nil
	})
	if err == nil && p.Options.Standardize {
		r.Posterior, err = p.Posterior(r.Fit)
	}
	return r, err
}

func solve(p *kernels.Problem) (*Result, error) {
	r, err := Reduce(p)
	if err != nil {
		return nil, err
	}
	s := newSolver(r)
	learnt, err := learn(r, s)
	if err != nil {
		return nil, err
	}
	s.total = 0
	if err := s.run(); err != nil {
		return nil, err
	}
	stopped, rivals := s.Status, ""
	if stopped == "" {
		if rivals, err = s.highest(); err != nil {
			return nil, err
		}
	}
	e, v, err := dense.Eigen(s.s)
	if err != nil {
		return nil, err
	}
	gone, keep := make([]float64, len(e)), make([]float64, len(e))
	for j, l := range e {
		if s.negative == 0 || s.floored {
			l = max(l, 0)
		}
		gone[j], keep[j] = l/(1+l), 1/(1+l)
	}
	post, held, err := r.lift(s.u, v, gone, keep)
	if err != nil {
		return nil, err
	}
	out := &Result{Posterior: post, Reduced: r, Singular: r.S, Next: r.Next, Bound: math.NaN(), Spectral: math.NaN()}
	logZ := s.logZ()
	if s.data.Lik.Traits().Concave {
		out.Bound, out.Spectral = bound(r, s), spectral(r, s)
	}
	f := p.Fit("lowrank", out.Posterior, logZ)
	f.SetLikelihood(s.data.Lik)
	if !math.IsNaN(learnt.variance) {
		f.Prior.Variance = learnt.variance
	}
	p.SetVariances(f, learnt.prior.Var)
	learnt.note(f, p)
	f.Iterations = max(s.total, 1)
	f.Converged = stopped == ""
	f.Status = status(r, out, s, held, stopped)
	few := ""
	if _, ok := s.data.Lik.(lik.Dispersed); ok && p.Options.AutoDispersion {
		few = mode.Guess(p, post.Var, learnt.prior.Var, false, false)
	}
	for _, note := range []string{rivals, meanWorseNote(r, s, post.Mean), learnt.status, learnt.point, few} {
		if note != "" {
			f.Status += "; " + note
		}
	}
	if err := p.CheckEvidence(f); err != nil {
		return nil, err
	}
	out.Fit = f
	return out, f.Check()
}

// Rows predicted worse by as many nats each, and in all, are reported.
const lostEach, lostInAll = 0.02, 2

// meanWorseNote returns a note if the mean weights predict the rows worse than the low-rank
// likelihood, which saw UUᵀx of a row x. With a single prior variance the learnt weights lie in U,
// and both are the same. With several they do not: the information of a direction goes to its
// columns of largest variance. It leaves s with the likelihood of another point.
func meanWorseNote(r *Reduced, s *solver, mean []float64) string {
	p, at, n := r.of, &s.next, 0.0
	for i := range p.N {
		n += p.Rows(i)
	}
	p.Predictor(at.Eta, mean)
	s.data.Evaluate(at)
	worse := s.now.LogLik - at.LogLik
	if !(worse > max(lostEach*n, lostInAll)) {
		return ""
	}
	return fmt.Sprintf("the mean weights predict the rows by %.2g nats each worse than the low rank does, which assigns what it saw to the columns of largest prior variance: a higher rank, or one prior variance for all, would not", worse/n)
}

// note records in f what was learnt of dispersion and shape.
func (l *learned) note(f *kernels.Fit, p *kernels.Problem) {
	if _, ok := p.Lik.(lik.Dispersed); ok && p.Options.AutoDispersion && p.N > 0 {
		f.LearnDeviation(f.Dispersion, 2*l.dispersion)
	}
	if _, ok := p.Lik.(lik.Shaped); ok && p.Options.AutoShape && p.N > 0 {
		f.LearnShapeBy(f.Shape, l.shape)
	}
}

func check(p *kernels.Problem) error {
	switch {
	case p.Lik == nil:
		return fmt.Errorf("lowrank needs a likelihood")
	case p.Options.PriorGroups:
		return fmt.Errorf("prior_variance: lowrank learns one variance for all weights, not one for each group")
	}
	return option.Check(&p.Options)
}

// status returns the sentence of a fit.
func status(r *Reduced, out *Result, s *solver, held int, stopped string) string {
	var b strings.Builder
	if stopped != "" {
		b.WriteString(stopped + "; ")
	}
	b.WriteString(r.rankNote())
	if math.IsNaN(out.Bound) {
		b.WriteString(", no bound on the mean as the likelihood is not log-concave")
	} else {
		fmt.Fprintf(&b, ", mean within %.2g prior standard deviations of the full posterior's, all weights together", out.Bound)
	}
	switch {
	case s.floored:
		fmt.Fprintf(&b, "; %d %s as flat", s.negative, kernels.Inflect(s.negative, "row of negative curvature counts", "rows of negative curvature count"))
	case r.rounded > 0:
		fmt.Fprintf(&b, "; %d %s held at 1e-13 of the prior's, the limit of rounding", r.rounded, kernels.Inflect(r.rounded, "variance is", "variances are"))
	case held > 0:
		fmt.Fprintf(&b, "; the variance of %d %s is held at the prior's", held, kernels.Inflect(held, "direction", "directions"))
	}
	return b.String()
}

// rankNote reports the rank, and the first singular value left out.
func (r *Reduced) rankNote() string {
	m, note := len(r.S), ""
	switch o := kernels.Or(r.of.Options.Rank, 50); {
	case r.Clamped > 0 && m == min(r.rows, r.of.P-r.Forced):
		note = fmt.Sprintf("rank %d lowered to %d, the smaller number of rows and features", o, m)
	case m < o:
		note = fmt.Sprintf("rank %d lowered to %d, the rank of the features", o, m)
	default:
		note = fmt.Sprintf("rank %d", m)
	}
	if math.IsNaN(r.Next) {
		return note + fmt.Sprintf(": lambda(%d) is not known without oversample", m+1)
	}
	return note + fmt.Sprintf(": lambda(%d) = %.3g", m+1, r.Next)
}

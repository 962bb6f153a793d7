package engine

import (
	"context"
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// epWork bounds n min(n, p)², a sixth of the operations of a sweep of expectation propagation with
// a full covariance; a fit has ten to a hundred sweeps.
const epWork = 2e9

// learningWork bounds the estimated operations of a sweep times the number of prior variances that
// ep learns, each of which takes hundreds of sweeps: some seconds of one processor.
const learningWork = 1.5e7

// inadequateNote begins the status of a fit for which laplace was inadequate.
const inadequateNote = "the likelihood is flat at the mode, where laplace's Gaussian is too wide: "

// learnable is how many prior variances ep learns and averages over here at most.
const learnable = 8

// solveAuto is laplace, and expectation propagation if the Gaussian at the mode is not that of the
// posterior: the likelihood of separated responses is flat at the mode, where its curvature says
// that the data carry no information. ep then learns the prior variances and averages over them
// itself, or uses those that laplace learnt if that would take too long.
func solveAuto(ctx context.Context, p *kernels.Problem) (*kernels.Fit, error) {
	f, err := solveWithin(ctx, p, epWork)
	if err != nil {
		return f, err
	}
	had := "had no effect: the rows were kept and solved by " + f.Method
	if c := p.Options.Covariance; c != "" && c != f.Covariance.Form.String() {
		f.AddStatus(fmt.Sprintf("covariance = '%s' %s", c, had))
	}
	if k := p.Params.Quadrature; k > 0 && f.Method != "ep" {
		f.AddStatus(fmt.Sprintf("quadrature = %d %s", k, had))
	}
	return f, nil
}

// solveWithin is solveAuto with a full covariance up to so much work, else with factorised beliefs:
// their means and predictions are near those of the full ones, and a sweep costs O(nnz).
func solveWithin(ctx context.Context, p *kernels.Problem, work float64) (*kernels.Fit, error) {
	f, known, err := learnLaplace(ctx, p)
	if err != nil {
		return nil, err
	}
	if h := p.Options.Hessian; h != "" && h != "auto" || len(p.At) > 0 {
		return f, nil
	}
	dull, err := tooWide(p, f)
	if err != nil || !dull {
		return f, err
	}
	if len(p.Correlated) > 0 { // ep does not support correlated priors
		f.AddStatus(inadequateNote + "predictions are pulled towards the base rate")
		return f, nil
	}
	// Equal rows share one site, instead of one each for a bound that all of them set: ep is near
	// the posterior with few such sites, and far too narrow with many.
	p, known = p.Repeated(), known.Repeated()
	n, dim := float64(p.N), float64(min(p.N, p.P))
	sweep := n * (lik.MomentsWork(p.Lik, p.Weight != nil) + 1.2*dim*dim) // the squares by a matrix product
	if k := float64(len(mode.NewGroups(p).Names)); k > 0 && k <= learnable && n*dim*dim <= work && sweep*k <= learningWork {
		if e, err := byLearning(ctx, p, known, f); e != nil || ctx.Err() != nil {
			return e, err
		}
	}
	known.Options.Covariance = "full"
	if n*dim*dim > work {
		known.Options.Covariance = "diagonal"
	}
	e, err := epOf(ctx, known)
	if err != nil {
		if ctx.Err() == nil {
			f.AddStatus(fmt.Sprintf(inadequateNote+"predictions are pulled towards the base rate (ep: %v)", err))
			err = nil
		}
		return f, err
	}
	e.Columns, e.Learnt = f.Columns, f.Learnt
	e.AddStatus(inadequateNote + "solved by ep under the prior variances that laplace learnt")
	if p.LearnsPrior() {
		e.AddStatus("standard deviations and the log evidence are those under one value of each prior variance, which separated responses hardly determine: ep with prior_variance 'auto' averages over them")
	}
	return e, nil
}

// byLearning is ep that learns the prior variances of p, and averages over them if p asks for that,
// with the shape of known, which laplace's fit f has learnt. nil if it did not converge.
func byLearning(ctx context.Context, p, known *kernels.Problem, f *kernels.Fit) (*kernels.Fit, error) {
	q, m := *p, *p.Model
	q.Model = &m
	m.Lik, m.Params = known.Lik, known.Params
	m.Options.AutoShape, m.Options.ThirdOrder, m.Options.Covariance = false, false, "full"
	e, err := epOf(ctx, &q)
	if err != nil || !e.Converged {
		return nil, err
	}
	e.Learnt = append(kernels.Parameters(f.Learnt), e.Learnt...) // the rest of f.Learnt are its scales; e has its own
	e.AddStatus(inadequateNote + "solved by ep, which learnt the prior variances")
	return e, nil
}

// epOf runs expectation propagation on the problem that laplace solved, with its rows gathered in
// one place.
func epOf(ctx context.Context, p *kernels.Problem) (*kernels.Fit, error) {
	release, err := gathered(p)
	if err != nil {
		return nil, err
	}
	defer release()
	return solveEP(ctx, p)
}

// gathered lays the rows of p out in one place, as ep needs them; release gives their memory back to
// the budget.
func gathered(p *kernels.Problem) (release func(), err error) {
	if !p.InPieces() {
		return func() {}, nil
	}
	g, err := memory.Reserve(8*int64(p.Values()), fmt.Sprintf("%d rows with %d values, laid out for ep", p.N, p.Values()))
	if err != nil {
		return nil, err
	}
	p.Columns = p.Gathered()
	return g.Release, nil
}

// tooWide reports whether f, laplace's fit of p, predicts its own rows with more than twice the log
// loss under its Gaussian than at the mode. To second order the two differ by ½Σ v_i(W_i - l'_i²),
// v_i being the variances of the predictors and W_i = -l”_i: by at most half the number of weights
// that the data determine. If that is of the size of the loss itself, as with separated responses,
// the log likelihood is not a parabola over the Gaussian's width.
//
// Cost: that of the variances of all predictors.
func tooWide(p *kernels.Problem, f *kernels.Fit) (bool, error) {
	// Densities depend on the unit of the responses, so that twice one means nothing.
	if _, scaled := p.Lik.(lik.Dispersed); scaled || p.Lik.Traits().Relative || p.N == 0 {
		return false, nil
	}
	l, err := f.Likelihood()
	if err != nil {
		return false, err
	}
	eta, v := memory.Floats(p.N), memory.Floats(p.N)
	if err := p.Predictors(f, eta, v); err != nil {
		return false, err
	}
	b := p.Batch()
	plugIn, moderated := 0.0, 0.0
	for i, s := range eta {
		p.Stop.Row(i)
		o, rows := b.Obs(i), p.Rows(i) // each of several pooled rows is predicted separately
		o.Weight /= rows
		logp, _, _ := l.LogLik(o, s)
		plugIn -= rows * logp
		moderated -= rows * l.Moments(o, s, v[i]).LogZ
	}
	return moderated > 2*plugIn, nil
}

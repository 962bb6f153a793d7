package engine

import (
	"context"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/ep"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/stop"
)

// solveLaplace is laplace.Fit, with prior variances learnt as in learnLaplace.
func solveLaplace(ctx context.Context, p *kernels.Problem) (*kernels.Fit, error) {
	f, _, err := learnLaplace(ctx, p)
	return f, err
}

// byFactorised says where the prior variances come from.
const byFactorised = "ep with factorised beliefs learnt the prior variances"

// learnLaplace is laplace.Learn. Where no exact Hessian is affordable, its evidence cannot learn prior
// variances: a larger variance hides the curvature that is left out. Expectation propagation with
// factorised beliefs learns them then, with dispersion and shape, in time linear in the rows, and
// laplace uses what it has learnt. Crossed columns of thousands of levels are such problems.
//
// Errors: those of laplace.Learn; if expectation propagation fails or has no time, nothing is learnt.
func learnLaplace(ctx context.Context, p *kernels.Problem) (*kernels.Fit, *kernels.Problem, error) {
	lacks, err := laplace.LacksEvidence(p)
	if err != nil {
		return nil, nil, err
	}
	if !lacks {
		return laplace.Learn(ctx, p)
	}
	within, cancel := stop.WithLimit(ctx, p.Options.TimeLimit) // of both
	defer cancel()
	known, e, err := learnByEP(within, p)
	if cause := stop.Cause(ctx); cause != nil {
		return nil, nil, cause
	}
	if err != nil || !e.Converged {
		return laplace.Learn(within, p)
	}
	f, known, err := laplace.Learn(within, known)
	if err != nil {
		return nil, nil, err
	}
	f.Iterations += e.Iterations
	f.Learnt = e.Learnt
	f.Say(byFactorised)
	if e.Status != "ok" {
		f.Say(e.Status)
	}
	return f, known, nil
}

// learnByEP returns p with the prior variances, dispersion and shape that expectation propagation with
// factorised beliefs learns, and the fit that it learns them with. A quarter of a time limit is for it.
func learnByEP(ctx context.Context, p *kernels.Problem) (known *kernels.Problem, e *kernels.Fit, err error) {
	q, m := *p, *p.Model
	q.Model = &m
	m.Options.Covariance, m.Options.Hessian, m.Options.Integrate, m.Options.ThirdOrder = "diagonal", "", false, false
	m.Options.TimeLimit /= 4
	release, err := gathered(&q)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	var prior kernels.Prior
	var variance []float64
	e, err = kernels.SolveStandardized(&q, 1, func(q *kernels.Problem) (*kernels.Fit, error) {
		r, err := ep.Learn(ctx, q)
		if err != nil {
			return nil, err
		}
		prior, variance = r.Prior()
		return r.Fit, nil
	})
	if err != nil {
		return nil, nil, err
	}
	of, to := *p, *p.Model
	of.Model = &to
	to.Prior, to.PriorBy, to.Params.Dispersion = prior, nil, e.Dispersion
	o := &to.Options
	o.AutoPrior, o.PriorGroups, o.AutoDispersion, o.AutoShape, o.Integrate = false, false, false, false, false
	if _, ok := p.Lik.(lik.Shaped); ok {
		to.Params.Shape = e.Shape
	}
	if to.Lik, err = lik.New(e.Family, e.Link, to.Params); err != nil {
		return nil, nil, err
	}
	of.PriorVar = variance
	of.Normal, err = p.Normal.WithVariances(func(j int) (float64, bool) { return variance[j], variance[j] != p.PriorVar[j] })
	return &of, e, err
}

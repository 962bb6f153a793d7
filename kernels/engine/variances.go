package engine

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/ep"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/softmax"
	"github.com/bglm/bglm/kernels/stop"
)

// solveLaplace is laplace.Fit, with prior variances learnt as in learnLaplace.
func solveLaplace(ctx context.Context, p *kernels.Problem) (*kernels.Fit, error) {
	f, _, err := learnLaplace(ctx, p)
	return f, err
}

// mostLearning bounds the estimated operations of learnByEP: about a minute of one processor. Only
// likelihoods whose moments take quadrature reach it, with tens of thousands of rows.
const mostLearning = 3e11

// learningOf estimates the operations of learnByEP: about a hundred sweeps, and two hundred more for
// each of dispersion and shape, whose slopes are differences.
func learningOf(p *kernels.Problem) float64 {
	sweeps := 100.0
	if _, ok := p.Lik.(lik.Dispersed); ok && p.Options.AutoDispersion {
		sweeps += 200
	}
	if _, ok := p.Lik.(lik.Shaped); ok && p.Options.AutoShape {
		sweeps += 200
	}
	return sweeps * (float64(p.N)*lik.MomentsWork(p.Lik, p.Weight != nil) + 100*float64(p.Values()))
}

// byFactorised says where the prior variances come from.
const byFactorised = "ep with factorised beliefs learnt the prior variances"

// learnLaplace is laplace.Learn. Where no exact Hessian is affordable, its evidence cannot learn
// prior variances: a larger variance hides the curvature that is left out. Expectation propagation
// with factorised beliefs learns them then, with dispersion and shape, in time linear in the rows,
// and laplace uses what it has learnt. Crossed columns of thousands of levels are such problems.
//
// Errors: those of laplace.Learn; if expectation propagation fails, has no time or would take more
// than mostLearning, nothing is learnt, as the status says.
func learnLaplace(ctx context.Context, p *kernels.Problem) (*kernels.Fit, *kernels.Problem, error) {
	if !laplace.LacksEvidence(p) || learningOf(p) > mostLearning {
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
	f.AddStatus(byFactorised)
	if e.Status != "ok" {
		f.AddStatus(e.Status)
	}
	return f, known, nil
}

// learnByEP returns p with the prior variances, dispersion and shape that expectation propagation
// with factorised beliefs learns, and the fit that it learns them with. A quarter of a time limit
// is for it.
func learnByEP(ctx context.Context, p *kernels.Problem) (known *kernels.Problem, e *kernels.Fit, err error) {
	q := *p
	release, err := gathered(&q)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	e, prior, variance, err := factorisedEP(ctx, &q, 4)
	if err != nil {
		return nil, nil, err
	}
	if known, err = withVariances(p, prior, variance, e); err != nil {
		return nil, nil, err
	}
	known.Options.ThirdOrder = p.Options.ThirdOrder // laplace says that it is left out
	return known, e, nil
}

// factorisedEP learns by expectation propagation with factorised beliefs, in one part of so many of
// a time limit. variance is by column, of standardised columns if p asks for that.
func factorisedEP(ctx context.Context, p *kernels.Problem, parts int) (e *kernels.Fit, prior kernels.Prior, variance []float64, err error) {
	q, m := *p, *p.Model
	q.Model = &m
	o := &m.Options
	o.Covariance, o.Hessian, o.Integrate, o.ThirdOrder = "diagonal", "", false, false
	o.TimeLimit /= time.Duration(parts)
	e, err = kernels.SolveStandardized(&q, 1, func(q *kernels.Problem) (*kernels.Fit, error) {
		r, err := ep.Learn(ctx, q)
		if err != nil {
			return nil, err
		}
		prior, variance = r.Prior()
		return r.Fit, nil
	})
	return e, prior, variance, err
}

// withVariances is p.Known with these prior variances by column.
func withVariances(p *kernels.Problem, prior kernels.Prior, variance []float64, f *kernels.Fit) (*kernels.Problem, error) {
	normal, err := p.Normal.WithVariances(func(j int) (float64, bool) { return variance[j], variance[j] != p.PriorVar[j] })
	if err != nil {
		return nil, err
	}
	return p.Known(prior, normal, f)
}

// byClass says where the prior variances of classes come from.
const byClass = byFactorised + ", one class against the rest"

// learnByClass fits the learningClasses classes with most rows, and fewer if these take more than
// classLearning operations in all, some ten seconds, but one if that takes no more than
// mostLearning.
const (
	learningClasses = 8
	classLearning   = 2e10
)

// solveClasses is softmax.Fit, with prior variances learnt by learnByClass where no exact Hessian is
// affordable.
func solveClasses(ctx context.Context, p *kernels.Problem, names []string) (*kernels.Fit, error) {
	if !softmax.LacksEvidence(p, names) || p.Start != nil || len(names) < 2 {
		return softmax.Fit(ctx, p, names)
	}
	known, err := learnByClass(ctx, p, len(names))
	if err != nil {
		return nil, err
	}
	if known == nil {
		return softmax.Fit(ctx, p, names)
	}
	f, err := softmax.Fit(ctx, known, names)
	if err == nil {
		f.AddStatus(byClass)
	}
	return f, err
}

// learnByClass returns p with prior variances that expectation propagation with factorised beliefs
// learns from one class against the rest: the geometric mean over classes of what each learns,
// times (K - 1)/K for K classes. The predictor of such a fit is about that of its class less the
// mean of the others, whose variance is K/(K - 1) times that of one class. nil if no class has a
// fit that converged, or one takes too long.
//
// Errors: the cause of ctx if it is cancelled; no memory for the rows.
func learnByClass(ctx context.Context, p *kernels.Problem, classes int) (*kernels.Problem, error) {
	q, m := *p, *p.Model
	q.Model = &m
	var err error
	if m.Lik, err = lik.New("bernoulli", "logit", lik.Params{}); err != nil {
		return nil, err
	}
	m.Options.Reference = ""
	q.Offset = nil // it is the same for all classes
	release, err := gathered(&q)
	if err != nil {
		return nil, err
	}
	defer release()
	rows := make([]float64, classes)
	for i, y := range p.Y {
		rows[int(y)] += p.Rows(i)
	}
	order := make([]int, classes)
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rows[b], rows[a]) })
	work := learningOf(&q)
	if work > mostLearning {
		return nil, nil
	}
	order = order[:min(classes, learningClasses, max(1, int(classLearning/work)))]
	logs, moved := memory.Floats(p.P), make([]bool, p.P) // a variance that is not learnt stays what it is
	var prior kernels.Prior
	learnt, log, movedPrior := 0.0, 0.0, false
	for _, k := range order {
		q.Y = memory.Floats(p.N)
		for i, y := range p.Y {
			if int(y) == k {
				q.Y[i] = 1
			}
		}
		e, by, variance, err := factorisedEP(ctx, &q, 4*len(order))
		if cause := stop.Cause(ctx); cause != nil {
			return nil, cause
		}
		if err != nil || !e.Converged {
			continue
		}
		for j, v := range variance {
			logs[j] += math.Log(v)
			moved[j] = moved[j] || v != p.PriorVar[j]
		}
		log += math.Log(by.Variance)
		movedPrior = movedPrior || by.Variance != p.Prior.Variance
		prior = by
		learnt++
	}
	if learnt == 0 {
		return nil, nil
	}
	mean := func(log float64) float64 { return float64(classes-1) / float64(classes) * math.Exp(log/learnt) }
	variance := slices.Clone(p.PriorVar)
	for j := range variance {
		if moved[j] {
			variance[j] = mean(logs[j])
		}
	}
	if movedPrior {
		prior.Variance = mean(log)
	}
	return withVariances(p, prior, variance, nil)
}

package engine

import (
	"context"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/ep"
	"github.com/bglm/bglm/kernels/filter"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/hmc"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lowrank"
	"github.com/bglm/bglm/kernels/stop"
)

var methods = []Method{
	{Name: "adf", Streams: true, Source: "Zoeter (2007), section 2",
		Summary: "One-pass assumed density filter, the one-step unscented Kalman filter: exact moments row by row, with factorised beliefs or a full or low-rank covariance, and drift.",
		make:    newADF, Covariance: "arrowhead", LearnsShape: true, LearnsPrior: true},
	{Name: "ep", Source: "Zoeter (2007), section 3",
		Summary: "Quadrature expectation propagation to convergence, forward and backward over weights that drift, with a full covariance, or with factorised beliefs: these have good means and too small variances where features are correlated.",
		make:    keeping(layOut, solveByEP), Moments: true, Passes: &Passes{Covariance: "full"}},
	{Name: "laplace", Source: "Hennig (2020); MacKay (1992)",
		Summary: "Most probable weights by Newton's method and a Gaussian with the curvature there; log evidence, and prior variance, dispersion and shape that maximise it.",
		make:    keeping(inPlace, laplace.Fit), Passes: &Passes{Default: true}},
	{Name: "lowrank", Source: "Trippe, Huggins, Agrawal and Broderick (2019)",
		Summary: "LR-GLM: the data projected on their leading singular vectors by a randomised SVD; exact for gaussian, Laplace's approximation in the reduced space otherwise. status reports the first singular value left out and the bound on the mean's error.",
		make:    keeping(layOut, solveLowRank), Partial: true, Passes: &Passes{Chained: true}},
	{Name: "sequential_laplace", Streams: true, Source: "Spiegelhalter and Lauritzen (1990), as in Niranjan (1999)",
		Summary: "One Newton step from the prior mean for each row, full or low-rank covariance.",
		make:    filtering(filter.Laplace{})},
	{Name: "variational", Streams: true, Link: "logit", Source: "Jaakkola and Jordan (1997), as in Niranjan (1999)",
		Summary: "Variational logistic regression, a bound fitted to each row; full or low-rank covariance. Bernoulli and binomial with link logit. log_evidence is a lower bound.",
		make:    filtering(filter.Variational{})},
	{Name: "ekf", Streams: true, Source: "Niranjan (1999)",
		Summary: "Extended Kalman filter with process and measurement noise, iterated with max_iter > 1; full or low-rank covariance. log_evidence is the innovation density.",
		make:    filtering(filter.EKF{})},
	{Name: "hmc", Source: "Hoffman and Gelman (2014); Trippe et al. (2019) for rank",
		Summary: "No-U-turn Hamiltonian Monte Carlo, the referee: means, variances and covariance of the draws, log evidence by bridge sampling, R-hat and effective sample sizes in status. With rank it samples the low-rank likelihood; parameters asked for as auto are those of laplace's highest evidence, one value of each (status says where the rows hardly know them).",
		make:    keeping(layOut, solveHMC), Moments: true, WholeRank: true},
	{Name: "smooth", Kind: Paths, Source: "Zoeter (2007), section 3",
		Summary: "The smoothed trajectories of weights that drift: expectation propagation forward and backward, each belief given all rows.",
		make:    newSmoother},
	{Name: "softmax", Kind: Classes, Source: "Hennig (2020)",
		Summary: "Multi-class regression by Laplace's approximation: each class has weights of its own, one joint Gaussian over all of them; log evidence. Without options the prior variance is learnt and averaged over, and the Gaussian is the one nearest to the posterior, which does not grow dull where classes are separated; log_evidence is its lower bound then.",
		make:    newClassifier},
	{Name: "newton_state", Kind: Parts, Source: "Rasmussen and Williams (2006), chapter 3, for the step; Halko, Martinsson and Tropp (2011) for singular vectors",
		Summary: "What one pass over rows, which are not kept, says about Laplace's approximation near the weights of the fit around, or with method 'ep' about that of expectation propagation near its beliefs: value, slope and curvature there of the log likelihood, or of the sites that stand for it, as a BLOB; with method 'lowrank' one of the passes that look for the leading singular vectors of the rows, each going on from the merged state of the one before, and then for the mode. States of parts of the rows merge (`newton_merge`), in any order and on any machine, and `newton_solve` makes of them the fit after Newton's step, around which the next pass looks.",
		make:    newPass},
	{Name: "gp", Kind: Process, Source: "Hennig (2020); Rasmussen and Williams (2006), chapters 3 and 5",
		Summary: "Gaussian process classification, regression or counts by Laplace's approximation; x is a list of numbers. Memory grows with the square of the rows: 10,000 at most.",
		make:    newProcess},
}

// newADF makes the factorised filter, or the joint one if the covariance or the fit continued
// requires it.
func newADF(ctx context.Context, m *kernels.Model) (Fitter, error) {
	form := m.Options.Covariance
	if form == "" && m.Start != nil && m.Start.Covariance.Form != gauss.Diagonal {
		form = m.Start.Covariance.Form.String()
	}
	if form == "" || form == "diagonal" {
		s, err := adf.New(m)
		return factorised{streaming{s}}, err
	}
	if form == "arrowhead" {
		s, err := adf.NewTied(m)
		return streaming{s}, err
	}
	joint := *m
	joint.Options.Covariance = form
	return filtering(filter.ADF{})(ctx, &joint)
}

// filtering makes a filter with a joint belief: full, or low-rank if the options or the fit
// continued say so.
func filtering(rule filter.Rule) func(context.Context, *kernels.Model) (Fitter, error) {
	return func(_ context.Context, m *kernels.Model) (Fitter, error) {
		if m.Options.Covariance == "" && m.Start != nil && m.Start.Covariance.Form == gauss.LowRank {
			going := *m
			going.Options.Covariance = "lowrank"
			m = &going
		}
		s, err := filter.New(m, rule)
		return streaming{s}, err
	}
}

const (
	// fullEP is up to how many weights ep has a full covariance by default, and fullPath up to how
	// many rows times weights if they drift, which it keeps.
	fullEP   = 1000
	fullPath = 10_000_000
	// fullPaths is up to how many rows and values, times the squared number of weights, smooth has
	// one: a second or two of a processor.
	fullPaths = 1e9
)

// solveEP runs package ep, by default with a full covariance if weights are few.
func solveEP(ctx context.Context, p *kernels.Problem) (f *kernels.Fit, err error) {
	if p.Options.Covariance == "diagonal" && p.Meet() {
		defer func() {
			if err == nil {
				f.Say(kernels.FactorisedNote)
			}
		}()
	}
	if p.Options.Covariance == "" {
		m, q := *p.Model, *p
		m.Options.Covariance = "full"
		if p.P > fullEP || (p.Drifts() || p.Options.AutoNoise) && p.P*p.N > fullPath {
			m.Options.Covariance = "diagonal"
			defer func() {
				if err == nil {
					f.Say(kernels.ManyFactorised(p.P))
				}
			}()
		}
		q.Model = &m
		p = &q
	}
	halt := stop.Watch(ctx, p.Options.TimeLimit)
	defer halt.End(&err)
	loose := 1
	if p.Options.Covariance == "full" {
		loose = 0
	}
	return kernels.SolveStandardized(p.Under(halt), loose, func(q *kernels.Problem) (*kernels.Fit, error) {
		r, err := ep.Fit(halt.Context(), q)
		if err != nil {
			return nil, err
		}
		return r.Fit, nil
	})
}

// solveByEP is solveEP as a method of its own, with a note if the prior variances do not fit.
func solveByEP(ctx context.Context, p *kernels.Problem) (*kernels.Fit, error) {
	f, err := solveEP(ctx, p)
	if err == nil && !p.LearnsPrior() && !p.Drifts() {
		f.Say(f.PriorNote(p.Model))
	}
	return f, err
}

func solveLowRank(ctx context.Context, p *kernels.Problem) (*kernels.Fit, error) {
	r, err := lowrank.Fit(ctx, p)
	if err != nil {
		return nil, err
	}
	return r.Fit, nil
}

// solveHMC samples under the parameters that maximise Laplace's evidence, for those that the model
// asks to be learnt.
func solveHMC(ctx context.Context, p *kernels.Problem) (*kernels.Fit, error) {
	o := &p.Options
	if !p.LearnsPrior() && !o.AutoDispersion && !o.AutoShape {
		return hmc.Fit(ctx, p)
	}
	q, m := *p, *p.Model
	q.Model = &m
	m.Options.Rank = 0 // rank applies to the likelihood here, not to the Hessian
	around, known, note, err := laplace.LearnAlone(ctx, &q)
	if err != nil {
		return nil, err
	}
	known.Options.Rank = o.Rank
	f, err := hmc.Fit(ctx, known)
	if err == nil {
		f.Learnt = around.Learnt
		f.Say(note)
	}
	return f, err
}

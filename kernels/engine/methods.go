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
		Summary: "Assumed density filtering, a one-step unscented Kalman filter: absorbs the rows one by one in a single pass, with the exact moments of each row. The covariance is an arrowhead, full, low-rank or diagonal (factorised beliefs), and weights may drift.",
		make:    newADF, Covariance: "arrowhead", LearnsShape: true, LearnsPrior: true},
	{Name: "ep", Source: "Zoeter (2007), section 3",
		Summary: "Expectation propagation by quadrature, run to convergence; over weights that drift it sweeps forward and backward. The covariance is full, low-rank or diagonal. Diagonal means factorised beliefs: their means are good, but their variances are too small if features are correlated.",
		make:    keeping(layOut, solveEP), Moments: true, Passes: &Passes{Covariance: "full"}},
	{Name: "laplace", Source: "Hennig (2020); MacKay (1992)",
		Summary: "Laplace's approximation: finds the most probable weights by Newton's method, and uses the Gaussian with the curvature there. It gives the log evidence, and learns prior variance, dispersion and shape by maximising it.",
		make:    keeping(inPlace, solveLaplace), Passes: &Passes{Default: true}},
	{Name: "lowrank", Source: "Trippe, Huggins, Agrawal and Broderick (2019)",
		Summary: "LR-GLM: projects the data on their leading singular vectors, found by a randomised SVD. The posterior of the projected data is exact for gaussian, Laplace's approximation otherwise. status reports the first singular value left out and the bound on the mean's error.",
		make:    keeping(layOut, solveLowRank), Partial: true, Passes: &Passes{Chained: true}},
	{Name: "sequential_laplace", Streams: true, Source: "Spiegelhalter and Lauritzen (1990), as in Niranjan (1999)",
		Summary: "Sequential Laplace: one Newton step from the prior mean for each row. The covariance is full or low-rank.",
		make:    filtering(filter.Laplace{})},
	{Name: "variational", Streams: true, Link: "logit", Source: "Jaakkola and Jordan (1997), as in Niranjan (1999)",
		Summary: "Variational logistic regression: fits a bound to the likelihood of each row. For bernoulli and binomial with link logit. The covariance is full or low-rank; log_evidence is a lower bound.",
		make:    filtering(filter.Variational{})},
	{Name: "ekf", Streams: true, Source: "Niranjan (1999)",
		Summary: "Extended Kalman filter with process and measurement noise; iterated if max_iter > 1. The covariance is full or low-rank; log_evidence is the log density of the innovations.",
		make:    filtering(filter.EKF{})},
	{Name: "hmc", Source: "Hoffman and Gelman (2014); Trippe et al. (2019) for rank",
		Summary: "No-U-turn Hamiltonian Monte Carlo, the reference for the other methods. The fit has the means, variances and covariance of the draws, and the log evidence by bridge sampling; status has R-hat and effective sample sizes. With rank it samples the low-rank likelihood. Parameters set to 'auto' are fixed at the values of highest evidence under laplace, and status says if the rows hardly determine them.",
		make:    keeping(layOut, solveHMC), Moments: true, WholeRank: true},
	{Name: "smooth", Kind: Paths, Source: "Zoeter (2007), section 3",
		Summary: "Smoothed trajectories of weights that drift: expectation propagation forward and backward, so that each belief uses all rows.",
		make:    newSmoother},
	{Name: "softmax", Kind: Classes, Source: "Hennig (2020)",
		Summary: "Multi-class (softmax) regression by Laplace's approximation. Each class has weights of its own, with one joint Gaussian over all of them, and the fit has the log evidence. Without options the prior variance is learnt and averaged over, and the Gaussian is the one nearest to the posterior, whose predictions stay sharp if classes are separated; log_evidence is then its lower bound.",
		make:    newClassifier},
	{Name: "newton_state", Kind: Parts, Source: "Rasmussen and Williams (2006), chapter 3, for the step; Halko, Martinsson and Tropp (2011) for singular vectors",
		Summary: "Makes one pass over rows that are not kept, to fit data that do not fit in memory. The result is a BLOB with what the rows say near the fit around: the value, slope and curvature of the log likelihood for Laplace's approximation or, with method 'ep', of the sites that stand for the likelihood in expectation propagation. With method 'lowrank' the passes first look for the leading singular vectors of the rows, each continuing from the merged state of the one before, and then for the mode. Merge the states of parts of the rows with `newton_merge`, in any order and on any machine. `newton_solve` then makes the fit after a Newton step; give it to the next pass as around.",
		make:    newPass},
	{Name: "gp", Kind: Process, Source: "Hennig (2020); Rasmussen and Williams (2006), chapters 3 and 5",
		Summary: "Gaussian process classification, regression or counts by Laplace's approximation. x is a list of numbers. Memory grows with the square of the number of rows: 10,000 rows at most.",
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
	if p.Options.Covariance == "diagonal" && p.HasMultipleWeights() {
		defer func() {
			if err == nil {
				f.AddStatus(kernels.FactorisedNote)
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
					f.AddStatus(kernels.ManyFactorised(p.P))
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
		f.AddStatus(note)
	}
	return f, err
}

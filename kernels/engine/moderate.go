package engine

import (
	"context"
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lik"
)

// epWork bounds n min(n, p)², a sixth of the operations of a sweep of expectation
// propagation with a full covariance, of which there are ten to a hundred.
const epWork = 2e9

// solveAuto is laplace, and expectation propagation under the parameters that laplace learnt
// where the Gaussian at the mode is not the posterior's: the likelihood of separated
// responses is flat at the mode, so that its curvature there says that the data know nothing.
func solveAuto(ctx context.Context, p *kernels.Problem) (*kernels.Fit, error) {
	f, known, err := laplace.Learn(ctx, p)
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
	const wide = "the likelihood is flat at the mode, where laplace's Gaussian is too wide"
	n, dim := float64(p.N), float64(min(p.N, p.P))
	if n*dim*dim > epWork || len(p.Correlated) > 0 { // whose prior ep does not have
		f.Say(wide + ": predictions are drawn to the base rate")
		return f, nil
	}
	known.Options.Covariance = "full"
	e, err := solveEP(ctx, known)
	if err != nil {
		if ctx.Err() == nil {
			f.Say(fmt.Sprintf("%s: predictions are drawn to the base rate, and %v", wide, err))
			err = nil
		}
		return f, err
	}
	e.Columns = f.Columns
	e.Say(wide + ": solved by ep under the prior variances that laplace learnt")
	return e, nil
}

// tooWide says whether f, laplace's fit of p, predicts the rows that it was made of much worse
// by its Gaussian than by the mode. Both losses are short of that of new rows by what fitting
// takes out of them, γ nats in all, γ = Σ W_i v_i being the number of weights that the
// data determine; so they are of one size where their difference is below that and a tenth of them.
func tooWide(p *kernels.Problem, f *kernels.Fit) (bool, error) {
	if _, scaled := p.Lik.(lik.Dispersed); scaled || p.N == 0 {
		return false, nil
	}
	post, err := p.Posterior(f)
	if err != nil {
		return false, err
	}
	l, err := f.Likelihood()
	if err != nil {
		return false, err
	}
	eta, v := make([]float64, p.N), make([]float64, p.N)
	p.Predictor(eta, post.Mean)
	p.Spread(v, post)
	b := p.Batch()
	plugIn, moderated, known := 0.0, 0.0, 0.0
	for i, s := range eta {
		p.Stop.Row(i)
		o := b.Obs(i)
		logp, _, d2 := l.LogLik(o, s)
		plugIn -= logp
		moderated -= l.Moments(o, s, v[i]).LogZ
		known += math.Max(-d2*v[i], 0)
	}
	return moderated-plugIn > 0.1*plugIn+math.Min(known, float64(p.P)), nil
}

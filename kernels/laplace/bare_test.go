package laplace

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// Where the covariance of an elimination is too large to be kept, variances are those that it
// learns all the same, and the posterior is the low-rank one under them.
func TestLearnsByElimination(t *testing.T) {
	kerneltest.Slow(t)
	m := model(t, "bernoulli", "", lik.Params{})
	m.NoIntercept = false
	m.Options = kernels.Options{AutoPrior: true, Integrate: true}
	p := problem(t, m, levels(rand.New(rand.NewPCG(3, 9)), "bernoulli", 6000, 1, 700, 60))
	ties, err := p.Ties()
	if err != nil || !eliminates(p, ties) {
		t.Fatal("nothing to eliminate", err)
	}
	want, _, err := learnFrom(context.Background(), p, nil)
	if err != nil || want.Covariance.Form != gauss.Arrowhead {
		t.Fatal(want.Covariance.Form, err)
	}
	f, _, err := lowRankLearnt(context.Background(), under(p, "lowrank"), p, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if f.Covariance.Form != gauss.LowRank {
		t.Errorf("covariance %v", f.Covariance.Form)
	}
	kerneltest.Close(t, "prior variance", f.Prior.Variance, want.Prior.Variance, kerneltest.Tol{Rel: 1e-6})
	for k, c := range want.Columns {
		kerneltest.Close(t, "variance of "+c.Name, f.Columns[k].Variance, c.Variance, kerneltest.Tol{Rel: 1e-6})
	}
	apart := 0.0
	for k, b := range want.Beliefs {
		d := f.Beliefs[k].Mean - b.Mean
		apart = max(apart, d*d/b.Variance)
	}
	if apart > 0.01 { // means are exact under the one value of the variances, where want averages over them
		t.Errorf("means are up to %v deviations off", apart)
	}
}

// under is p by another Hessian.
func under(p *kernels.Problem, h string) *kernels.Problem {
	q, m := *p, *p.Model
	q.Model, m.Options.Hessian = &m, h
	return &q
}

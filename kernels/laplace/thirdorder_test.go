package laplace

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/kerneltest/covariance"
	"github.com/bglm/bglm/kernels/lik"
)

// meanOf is the mean of the posterior of two weights, by a sum over a lattice of ±9 deviations
// along the axes of the Gaussian f.
func meanOf(t *testing.T, p *kernels.Problem, f *kernels.Fit) (mean [2]float64) {
	t.Helper()
	l := covariance.Of(t, f)
	if err := dense.Cholesky(l); err != nil {
		t.Fatal(err)
	}
	const far, step = 9, 0.15
	w, total, top := make([]float64, 2), 0.0, logJoint(p, []float64{f.Beliefs[0].Mean, f.Beliefs[1].Mean})
	for a := -far / step; a <= far/step; a++ {
		for b := -far / step; b <= far/step; b++ {
			u, v := a*step, b*step
			w[0] = f.Beliefs[0].Mean + l.At(0, 0)*u
			w[1] = f.Beliefs[1].Mean + l.At(1, 0)*u + l.At(1, 1)*v
			z := math.Exp(logJoint(p, w) - top)
			total += z
			mean[0] += z * w[0]
			mean[1] += z * w[1]
		}
	}
	return [2]float64{mean[0] / total, mean[1] / total}
}

// The mean to third order is that of the posterior by a lattice, to a part of what the mode is
// off; where rows weigh four times as much, and the mode is a quarter as far off, to a smaller part.
func TestThirdOrder(t *testing.T) {
	for _, c := range []struct {
		family, link string
		q            lik.Params
	}{{"bernoulli", "logit", lik.Params{}}, {"bernoulli", "probit", lik.Params{}}, {"bernoulli", "cloglog", lik.Params{}}, {"poisson", "log", lik.Params{}},
		{"negbinomial", "log", lik.Params{Shape: 3}}, {"gamma", "log", lik.Params{Shape: 2}}} {
		var parts []float64
		for _, heavy := range []float64{2, 8} {
			o := simulated(rand.New(rand.NewPCG(4, 9)), c.family, c.link, 12, 2, 1)
			for i := range o.weight {
				o.weight[i] *= heavy
			}
			m := model(t, c.family, c.link, c.q)
			m.Prior.Variance, m.Prior.InterceptVariance = 9, 9
			fits := [2]*kernels.Fit{}
			var p *kernels.Problem
			for k := range fits {
				own := *m
				own.Options.ThirdOrder = k == 1
				p = problem(t, &own, o)
				var err error
				if fits[k], err = Fit(context.Background(), p); err != nil {
					t.Fatal(err)
				}
			}
			exact := meanOf(t, p, fits[0])
			off, left := 0.0, 0.0
			for j, b := range fits[0].Beliefs {
				sd := math.Sqrt(b.Variance)
				off = max(off, math.Abs(b.Mean-exact[j])/sd)
				left = max(left, math.Abs(fits[1].Beliefs[j].Mean-exact[j])/sd)
				if fits[1].Beliefs[j].Variance != b.Variance {
					t.Errorf("%s %s: variance %v, want %v", c.family, c.link, fits[1].Beliefs[j].Variance, b.Variance)
				}
			}
			if fits[1].LogEvidence != fits[0].LogEvidence || fits[1].Status != "ok" {
				t.Errorf("%s %s: log evidence %v, want %v; %s", c.family, c.link, fits[1].LogEvidence, fits[0].LogEvidence, fits[1].Status)
			}
			t.Logf("%s %s, rows of weight %v: the mode is %.4f deviations off, the mean to third order %.4f", c.family, c.link, heavy, off, left)
			parts = append(parts, left/off)
		}
		if parts[0] > 0.1 || parts[1] > parts[0] {
			t.Errorf("%s %s: what is left is %.3v of what the mode is off", c.family, c.link, parts)
		}
	}
}

func lagOf(e *engine, ev *evidence) []float64 {
	q := make([]float64, e.x.N)
	ev.rows(q)
	return (&learner{engine: e}).lag(ev, q)
}

// All exact forms say the same, and so does the definition with the covariance of the fit; of
// correlated weights too.
func TestThirdOrderForms(t *testing.T) {
	for _, c := range []struct {
		family  string
		n       int
		columns []int
	}{{"bernoulli", 400, []int{60, 5}}, {"poisson", 60, []int{55, 30}}, {"studentt", 250, []int{30, 4}}} {
		m := model(t, c.family, "", lik.Params{Shape: 4})
		m.NoIntercept = false
		m.Options.Tol = 1e-11
		p := problem(t, m, levels(rand.New(rand.NewPCG(6, 7)), c.family, c.n, 1, c.columns...))
		e, ev := forced(t, p, weightSpace, "full", false)
		want := lagOf(e, ev)
		far := 0.0
		for j, v := range want {
			far = max(far, math.Abs(v)/math.Sqrt(ev.vars()[j]))
		}
		if far < 0.02 {
			t.Errorf("%s: the mode is %v deviations off, which is no test", c.family, far)
		}
		forms := []space{arrowSpace}
		if c.n < p.P {
			forms = append(forms, rowSpace, krylov)
		}
		for k, sp := range forms {
			e, ev := forced(t, p, sp, []string{"arrow", "rows", "rows"}[k], false)
			for j, v := range lagOf(e, ev) {
				kerneltest.Close(t, fmt.Sprint(c.family, ", form ", sp), v, want[j], kerneltest.Tol{Rel: 1e-8, Abs: 1e-9})
			}
		}
	}

	rng := rand.New(rand.NewPCG(8, 9))
	for _, groups := range []int{12, 400} { // full, and leaves of two
		var y, x []float64
		var g []string
		for i := range 8 * groups {
			x, g = append(x, rng.NormFloat64()), append(g, fmt.Sprint(i%groups))
			k := 0.0
			if rng.Float64() < 1/(1+math.Exp(2-x[i]*float64(i%groups)/float64(groups))) {
				k = 1
			}
			y = append(y, k)
		}
		var fits [2]*kernels.Fit
		var p *kernels.Problem
		for k := range fits {
			m := model(t, "bernoulli", "", lik.Params{})
			m.NoIntercept = false
			m.Options = kernels.Options{AutoPrior: true, ThirdOrder: k == 1, Tol: 1e-10}
			p = slopes(t, m, y, nil, g, []string{"x"}, x)
			var err error
			if fits[k], err = Fit(context.Background(), p); err != nil {
				t.Fatal(err)
			}
		}
		post, at, err := fits[0].Joint(nil)
		if err != nil {
			t.Fatal(err)
		}
		sigma := dense.New(len(at), len(at))
		post.Cov(sigma)
		place := map[string]int{}
		for k, j := range at {
			place[fits[0].Beliefs[j].Feature] = k
		}
		// ½ Σ Xᵀ (q ∘ dW/dη), in the weights of the fit
		rhs, lag := make([]float64, len(at)), make([]float64, len(at))
		for i := range p.N {
			col, val := p.Entries(i)
			row := make([]float64, len(at))
			for k, j := range col {
				row[place[p.Name(int(j))]] += val[k]
			}
			dense.Gemv(lag, sigma, row)
			eta := 0.0
			for k, j := range at {
				eta += row[k] * fits[0].Beliefs[j].Mean
			}
			pr := 1 / (1 + math.Exp(-eta))
			dense.Axpy(0.5*dense.Dot(row, lag)*pr*(1-pr)*(1-2*pr), row, rhs)
		}
		dense.Gemv(lag, sigma, rhs)
		for k, j := range at {
			b := fits[0].Beliefs[j]
			kerneltest.Close(t, fmt.Sprint(groups, " correlated groups: ", b.Feature), fits[1].Beliefs[j].Mean, b.Mean-lag[k], kerneltest.Tol{Abs: 1e-5 * math.Sqrt(b.Variance)})
		}
	}
}

// Under learnt variances that are integrated over it is that of the mode of the variances'
// posterior (TestModesLagBehind says how near that is); where it cannot be had, an error or the
// status says so.
func TestThirdOrderOptions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	o := levels(rng, "bernoulli", 300, 1, 12)
	m := model(t, "bernoulli", "", lik.Params{})
	m.NoIntercept = false
	m.Options = kernels.Options{AutoPrior: true, Integrate: true}
	plain, h, _ := integrated(t, problem(t, m, o))
	lag := behind(h)
	m.Options.ThirdOrder = true
	f, err := Fit(context.Background(), problem(t, m, o))
	if err != nil {
		t.Fatal(err)
	}
	for j, b := range plain.Beliefs {
		kerneltest.Close(t, b.Feature, f.Beliefs[j].Mean, b.Mean-lag[j], kerneltest.Tol{Abs: 1e-6})
	}
	for _, hessian := range []string{"diagonal", "block", "lowrank"} {
		m.Options.Hessian, m.Options.AutoPrior = hessian, false
		if _, err := Fit(context.Background(), problem(t, m, o)); err == nil || !strings.Contains(err.Error(), "third_order does not go with") {
			t.Errorf("hessian %s: %v", hessian, err)
		}
	}
	m.Options.Hessian = ""
	if _, err := NewPass(context.Background(), m); err == nil || !strings.Contains(err.Error(), "third_order") {
		t.Errorf("a pass: %v", err)
	}
	// gaussian rows have no third derivative
	g := model(t, "gaussian", "", lik.Params{})
	g.Options.ThirdOrder = true
	o = levels(rng, "gaussian", 100, 1, 5)
	a, err := Fit(context.Background(), problem(t, g, o))
	if err != nil {
		t.Fatal(err)
	}
	g.Options.ThirdOrder = false
	b, err := Fit(context.Background(), problem(t, g, o))
	if err != nil {
		t.Fatal(err)
	}
	for j := range a.Beliefs {
		if a.Beliefs[j] != b.Beliefs[j] {
			t.Errorf("%v, want %v", a.Beliefs[j], b.Beliefs[j])
		}
	}
}

package laplace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// Where an evidence takes long, fewer of them find the same variances and deviations, to a
// part of what the data leave open.
func TestFewerEvidences(t *testing.T) {
	kerneltest.Slow(t)
	for _, family := range []string{"gaussian", "bernoulli", "poisson"} {
		o := levels(rand.New(rand.NewPCG(3, 9)), family, 4000, 1, 500, 12)
		m := model(t, family, "", lik.Params{Dispersion: 1})
		m.NoIntercept = false
		m.Options = kernels.Options{AutoPrior: true, AutoDispersion: family == "gaussian", Integrate: true}
		p := problem(t, m, o)
		var steps [2]int
		var found [2]*spread
		var means [2][]float64
		for k, dear := range []bool{false, true} {
			e, err := newEngine(p, nil, "arrow", leaves(p, nil))
			if err != nil {
				t.Fatal(err)
			}
			h, err := newLearner(e)
			if err != nil {
				t.Fatal(err)
			}
			h.costlyEvidence, h.costlyFactor, h.coarse = dear, dear, true
			if dear {
				h.follow()
			}
			if _, status, _, err := h.maximise(nil); err != nil || status != "" {
				t.Fatal(status, err)
			}
			if found[k], err = h.integrate(); err != nil {
				t.Fatal(err)
			}
			if err := h.exactly(); err != nil {
				t.Fatal(err)
			}
			steps[k], means[k] = h.newton, h.at.mean
		}
		if 2*steps[1] > steps[0] {
			t.Errorf("%s: %d steps, %d where evidences are cheap", family, steps[1], steps[0])
		}
		for k, sd := range found[0].sd {
			what := fmt.Sprintf("%s, parameter %d", family, k)
			kerneltest.Close(t, what+": mean", found[1].mean[k], found[0].mean[k], kerneltest.Tol{Abs: 0.1 * sd})
			kerneltest.Close(t, what+": deviation", found[1].sd[k], sd, kerneltest.Tol{Rel: 0.05})
		}
		_, full := forced(t, p, arrowSpace, "arrow", false)
		sd := full.vars()
		for j, w := range means[0] {
			kerneltest.Close(t, fmt.Sprintf("%s, weight %d", family, j), means[1][j], w, kerneltest.Tol{Abs: 0.02 * math.Sqrt(sd[j])})
		}
	}
}

// What the information of many rows says of the deviation of groups is what the grid says of it,
// also of groups that their rows determine by a part.
func TestKnownDeviations(t *testing.T) {
	kerneltest.Slow(t)
	for _, family := range []string{"gaussian", "bernoulli", "poisson"} {
		for _, each := range []int{4, 20} {
			o := levels(rand.New(rand.NewPCG(3, 9)), family, 400*each, 0, 400)
			m := model(t, family, "", lik.Params{Dispersion: 1})
			m.NoIntercept = false
			m.Options = kernels.Options{AutoPrior: true, AutoDispersion: family == "gaussian", Integrate: true}
			h := learnt(t, problem(t, m, o))
			at, err := h.known()
			if err != nil || at == nil {
				t.Fatal(at, err)
			}
			want, err := h.integrate()
			if err != nil || want == nil {
				t.Fatal(want, err)
			}
			for k, name := range h.Names {
				t.Logf("%s, %d rows each: sd(%s) %.4f ± %.4f, by the grid %.4f ± %.4f", family, each, name, at.mean[k], at.sd[k], want.mean[k], want.sd[k])
				tol := kerneltest.Tol{Rel: 0.12}
				if family == "bernoulli" && each == 4 { // a larger variance flattens the likelihood: there is less to know
					tol.Rel = 0.25
				}
				kerneltest.Close(t, fmt.Sprint(family, ", ", each, " rows each"), at.sd[k], want.sd[k], tol)
			}
		}
	}
}

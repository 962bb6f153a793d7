package laplace

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// grouped names columns so that they fall into two groups.
func grouped(o data) data {
	for j := range o.x[0] {
		o.names = append(o.names, fmt.Sprintf("%c=%d", 'a'+j%2, j))
	}
	return o
}

// At the θ found, the slope of the evidence is 0 by finite differences of evidences
// from fits of their own, and no other θ around is better.
func TestEvidenceMaximum(t *testing.T) {
	for _, f := range families {
		for _, hessian := range []string{"full", "diagonal", "block"} {
			if hessian != "full" && f.family != "poisson" && f.family != "bernoulli" {
				continue
			}
			for _, shape := range [][2]int{{150, 10}, {25, 60}} {
				rng := rand.New(rand.NewPCG(8, 1))
				m := model(t, f.family, f.link, f.params)
				m.NoIntercept = false
				m.Options = kernels.Options{AutoPrior: true, PriorGroups: true, Hessian: hessian, Rank: 12, Tol: 1e-10}
				_, m.Options.AutoDispersion = m.Lik.(lik.Dispersed)
				_, m.Options.AutoShape = m.Lik.(lik.Shaped)
				if shape[0] < shape[1] { // the weights may explain the data without noise
					m.Options.AutoDispersion, m.Options.AutoShape = false, false
				}
				o := grouped(simulated(rng, f.family, f.link, shape[0], shape[1], 0.7))
				for i := range o.x {
					for j := range o.x[i] {
						if j%2 == 1 {
							o.x[i][j] *= 0.2
						}
					}
				}
				p := problem(t, m, o)
				what := fmt.Sprintf("%s %s %s %v", f.family, f.link, hessian, shape)
				e, err := newEngine(planned(p))
				if err != nil {
					t.Fatal(err)
				}
				h, err := newLearner(e)
				if err != nil {
					t.Fatal(err)
				}
				best, status, _, err := h.maximise(nil)
				if err != nil {
					t.Fatal(what, err)
				}
				if status != "" {
					t.Errorf("%s: %s", what, status)
				}
				// an engine of its own for the evidence elsewhere
				e2, _ := newEngine(planned(p))
				h2, _ := newLearner(e2)
				at := append([]float64(nil), h.theta...)
				evidence := func(k int, x float64) float64 {
					at[k] = x
					defer func() { at[k] = h.theta[k] }()
					ev, err := h2.try(at, best.mean, make([]float64, len(e2.search.u)))
					if err != nil {
						t.Fatal(what, err)
					}
					return ev.log
				}
				for k, x := range h.theta {
					if x <= h.lo[k] || x >= h.hi[k] {
						continue
					}
					abs := 5e-5                 // of a curvature of 1 and more, which leaves 1e-9 nats to gain: the search ends at 1e-8
					if f.family == "studentt" { // Newton's steps with floored curvatures end less sharply
						abs = 2e-4
					}
					kerneltest.Gradient(t, what+fmt.Sprintf(" θ%d", k), func(x float64) float64 { return evidence(k, x) }, x, 1e-2, 0, kerneltest.Tol{Abs: abs})
					for _, d := range []float64{-1, -0.1, 0.1, 1} {
						if up := evidence(k, x+d); up > best.log+1e-6 {
							t.Errorf("%s: evidence %v at θ%d = %v, %v at %v", what, best.log, k, x, up, x+d)
						}
					}
				}
			}
		}
	}
}

// The curvature of the evidence in θ with the rows' own curvature fixed is that of differences of
// slopes: for gaussian rows, for which W does not depend on the mode, to the steps' third order, for
// others of 1,000 rows within 3 % of its diagonal.
func TestCurvature(t *testing.T) {
	for _, f := range families {
		rng := rand.New(rand.NewPCG(8, 1))
		m := model(t, f.family, f.link, f.params)
		m.NoIntercept = false
		m.Options = kernels.Options{AutoPrior: true, PriorGroups: true, Hessian: "full", Tol: 1e-10}
		e, err := newEngine(planned(problem(t, m, grouped(simulated(rng, f.family, f.link, 1000, 10, 0.7)))))
		if err != nil {
			t.Fatal(err)
		}
		h, err := newLearner(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := h.maximise(nil); err != nil {
			t.Fatal(err)
		}
		if c, err := h.Curvature(); c != nil || err != nil {
			t.Errorf("%s %s: a curvature (%v) that was not asked for, %v", f.family, f.link, c, err)
		}
		h.fixed = true
		c, err := h.Curvature()
		if err != nil {
			t.Fatal(err)
		}
		share := 0.03
		if f.family == "gaussian" && f.link == "identity" {
			share = 2e-4
		}
		const d = 0.02
		theta := slices.Clone(h.theta)
		for a := range theta {
			var slope [2][]float64
			for k, d := range []float64{d, -d} {
				at := slices.Clone(theta)
				at[a] += d
				if _, _, err := h.Try(at); err != nil {
					t.Fatal(err)
				}
				if slope[k], _, err = h.Slope(); err != nil {
					t.Fatal(err)
				}
			}
			for b := range theta {
				what := fmt.Sprintf("%s %s: %d, %d", f.family, f.link, a, b)
				kerneltest.Close(t, what, c.At(a, b), -(slope[0][b]-slope[1][b])/(2*d), kerneltest.Tol{Abs: share * c.At(a, a)})
			}
		}
	}
}

// A low rank does not learn by its evidence: whatever is left out, variances, dispersion and
// shape are those of an exact Hessian, and so is the mean, and the status says what is left out.
func TestLowRankLearnsExactly(t *testing.T) {
	for _, f := range families {
		for _, standardize := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(8, 7))
			m := model(t, f.family, f.link, f.params)
			m.NoIntercept = false
			m.Options = kernels.Options{AutoPrior: true, Standardize: standardize, Integrate: standardize}
			_, m.Options.AutoDispersion = m.Lik.(lik.Dispersed)
			_, m.Options.AutoShape = m.Lik.(lik.Shaped)
			o := simulated(rng, f.family, f.link, 150, 10, 1)
			fit := func(hessian string) *kernels.Fit {
				f, err := Fit(context.Background(), problem(t, withHessian(m, hessian, 2), o))
				if err != nil {
					t.Fatal(err)
				}
				return f
			}
			full, low := fit("full"), fit("lowrank")
			what := fmt.Sprintf("%s %s, standardized %v", f.family, f.link, standardize)
			tol := kerneltest.Tol{Rel: 1e-9}
			kerneltest.Close(t, what+": prior variance", low.Prior.Variance, full.Prior.Variance, tol)
			kerneltest.Close(t, what+": dispersion", low.Dispersion, full.Dispersion, tol)
			kerneltest.Close(t, what+": shape", low.Shape, full.Shape, tol)
			if !standardize { // else the mean of full is that of a mixture
				for j, b := range low.Beliefs {
					kerneltest.Close(t, what+": mean", b.Mean, full.Beliefs[j].Mean, kerneltest.Tol{Rel: 1e-5, Abs: 1e-7})
				}
			}
			if len(low.Learnt) != len(full.Learnt) || !strings.Contains(low.Status, "left out by a low rank") || strings.Contains(full.Status, "left out by a low rank") {
				t.Errorf("%s: %v %s; full %v %s", what, low.Learnt, low.Status, full.Learnt, full.Status)
			}
		}
	}
}

// For a Gaussian likelihood the slope's first part is MacKay's fixed point.
func TestMacKayFixedPoint(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 2))
	m := model(t, "gaussian", "", lik.Params{})
	m.Options = kernels.Options{AutoPrior: true, AutoDispersion: true}
	p := problem(t, m, simulate(rng, "gaussian", 200, 12, 1))
	f, err := Fit(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if !f.Converged || f.Status != "ok" {
		t.Error(f.Status)
	}
	gamma, square := 12.0, 0.0
	w := make([]float64, 12)
	for j, b := range f.Beliefs {
		gamma -= b.Variance / f.Prior.Variance
		square += b.Mean * b.Mean
		w[j] = b.Mean
	}
	eta := make([]float64, p.N)
	p.Predictor(eta, w)
	rss := 0.0
	for i, y := range p.Y {
		rss += (y - eta[i]) * (y - eta[i])
	}
	kerneltest.Close(t, "prior variance", f.Prior.Variance, square/gamma, kerneltest.Tol{Rel: 1e-5})
	kerneltest.Close(t, "dispersion", f.Dispersion, rss/(200-gamma), kerneltest.Tol{Rel: 1e-5})
	if math.Abs(f.Dispersion-1) > 0.3 {
		t.Errorf("dispersion %v of noise with variance 1", f.Dispersion)
	}
}

// Features with a prior of their own and features of a continued fit keep it; learnt
// groups are listed, and no more than eight of them.
func TestLearnsOnlyDefaults(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 3))
	o := simulate(rng, "bernoulli", 120, 14, 1)
	m := model(t, "bernoulli", "logit", lik.Params{})
	m.NoIntercept = false
	m.Priors = []kernels.Belief{{Feature: "x000", Weight: kernels.Weight{Variance: 1e-8}}}
	m.Options = kernels.Options{AutoPrior: true, PriorGroups: true}
	f, err := Fit(context.Background(), problem(t, m, o))
	if err != nil {
		t.Fatal(err)
	}
	if b := f.Beliefs[1]; b.Feature != "x000" || math.Abs(b.Mean) > 1e-4 {
		t.Errorf("%+v", b)
	}
	if !strings.HasPrefix(f.Status, "prior variance by group: x001 ") || !strings.HasSuffix(f.Status, "and 5 more") || !f.Converged {
		t.Errorf("status %q", f.Status)
	}
	if f.Prior.Variance != 1 {
		t.Errorf("prior variance %v", f.Prior.Variance)
	}
}

// Responses that have nothing to do with the features take their variance to the end
// of its range, and the status says so; a column of zeros changes nothing.
func TestNoSignal(t *testing.T) {
	m := model(t, "gaussian", "", lik.Params{})
	m.NoIntercept = false
	m.Options = kernels.Options{AutoPrior: true}
	var o data
	for i := range 64 {
		o.x = append(o.x, []float64{float64(i&1)*2 - 1, float64(i>>1&1)*2 - 1, 0})
		o.y = append(o.y, float64(i>>2&1))
	}
	f, err := Fit(context.Background(), problem(t, m, o))
	if err != nil {
		t.Fatal(err)
	}
	if !f.Converged || !strings.Contains(f.Status, "prior variance of 0") && math.Abs(f.Beliefs[1].Mean) > 1e-9 {
		t.Errorf("%+v", f)
	}
}

func TestAutoErrors(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 4))
	o := simulate(rng, "poisson", 20, 2, 1)
	m := model(t, "poisson", "log", lik.Params{})
	m.Options.AutoDispersion = true
	if _, err := Fit(context.Background(), problem(t, m, o)); err == nil || !strings.Contains(err.Error(), "dispersion: found 'auto'") {
		t.Error(err)
	}
	m.Options = kernels.Options{AutoShape: true}
	if _, err := Fit(context.Background(), problem(t, m, o)); err == nil || !strings.Contains(err.Error(), "shape: found 'auto'") {
		t.Error(err)
	}
	m.Options, m.At = kernels.Options{AutoPrior: true}, []kernels.Belief{{Feature: "x000"}}
	if _, err := Fit(context.Background(), problem(t, m, o)); err == nil || !strings.Contains(err.Error(), "at") {
		t.Error(err)
	}
	m.Options, m.At = kernels.Options{AutoPrior: true, TimeLimit: time.Nanosecond}, nil
	f, err := Fit(context.Background(), problem(t, m, o))
	if err != nil || f.Converged || !strings.Contains(f.Status, "time limit") {
		t.Error(err, f)
	}
}

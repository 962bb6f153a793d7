package laplace

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// From a prior mean where the rate is e^29 and more, and the rows say 10¹⁶ times what the prior
// does, the search goes on to the mode: of one row, the posterior of its predictor alone tells
// where that is, and what the evidence is.
func TestFarStart(t *testing.T) {
	for _, c := range []struct {
		family, link    string
		y, x, mean      float64
		prior, constant float64 // variances
	}{
		{"poisson", "", 3, 48, 0.5, 25, 400},
		{"poisson", "", 3, 300, 1, 25, 400},
		{"gaussian", "log", 1.9, 156.2, 1, 0.3, 400},
		{"gaussian", "log", 1.9, 20, 1, 0.3, 10},
		{"gamma", "", 2, -200, 1, 4, 4},
		{"negbinomial", "", 2, 100, 1, 4, 4},
		{"bernoulli", "cloglog", 0, 60, 1, 4, 4},
	} {
		m := model(t, c.family, c.link, lik.Params{})
		m.NoIntercept = false
		m.Prior = kernels.Prior{Mean: c.mean, Variance: c.prior, InterceptVariance: c.constant}
		f, err := Fit(context.Background(), problem(t, m, data{x: [][]float64{{c.x}}, y: []float64{c.y}}))
		if err != nil {
			t.Fatal(err)
		}
		what := c.family + " " + c.link
		if !f.Converged || f.Status != "ok" {
			t.Errorf("%s, x = %v: %s", what, c.x, f.Status)
		}
		// By bisection of the slope, which falls.
		k := c.constant + c.prior*c.x*c.x
		at := c.mean + c.mean*c.x
		lo, hi := math.Min(at, -50), math.Max(at, 50)
		var log, curv float64
		for range 200 {
			eta := 0.5 * (lo + hi)
			l, d1, d2 := m.Lik.LogLik(lik.Obs{Y: c.y, Weight: 1}, eta)
			log, curv = l-0.5*(eta-at)*(eta-at)/k, -d2
			if d1-(eta-at)/k > 0 {
				lo = eta
			} else {
				hi = eta
			}
		}
		a := (lo - at) / k
		kerneltest.Close(t, what+" intercept", f.Beliefs[0].Mean, c.mean+c.constant*a, kerneltest.Tol{Rel: 1e-7, Abs: 1e-6})
		kerneltest.Close(t, what+" weight", f.Beliefs[1].Mean, c.mean+c.prior*c.x*a, kerneltest.Tol{Rel: 1e-7, Abs: 1e-6})
		kerneltest.Close(t, what+" evidence", f.LogEvidence, log-0.5*math.Log1p(k*curv), kerneltest.Tol{Rel: 1e-7})
	}
}

// A row of 1e20 on the right side says nothing of its weight where the others have it. Newton's
// method comes there past places where it alone bends the log posterior: a step of 1e-10
// deviations moves its predictor by 1, and is not the last.
func TestFarRow(t *testing.T) {
	fit := func(link string, far, weight float64) *kernels.Fit {
		t.Helper()
		var d data
		for i := range 20 {
			d.x = append(d.x, []float64{float64(i % 3)})
			d.y = append(d.y, float64(i%2))
			d.weight = append(d.weight, 1)
		}
		d.x[3], d.weight[3] = []float64{far}, weight
		m := model(t, "bernoulli", link, lik.Params{})
		m.NoIntercept = false
		f, err := Fit(context.Background(), problem(t, m, d))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, link := range []string{"logit", "probit"} {
		want := fit(link, 0, 0)
		for _, far := range []float64{1e18, 1e19, 1e20, 1e21, 1e22, 1e30, 1e60} {
			got := fit(link, far, 1)
			if got.Status != "ok" {
				if far < 1e60 { // that takes more steps than are allowed
					t.Errorf("%s %v: %s", link, far, got.Status)
				}
				continue
			}
			for j, b := range want.Beliefs {
				what := fmt.Sprint(link, " ", far, " ", b.Feature)
				kerneltest.Close(t, what, got.Beliefs[j].Mean, b.Mean, kerneltest.Tol{Rel: 1e-7})
				kerneltest.Close(t, what, got.Beliefs[j].Variance, b.Variance, kerneltest.Tol{Rel: 1e-7})
			}
		}
	}
}

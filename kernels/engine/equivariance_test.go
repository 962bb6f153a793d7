package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// units are the units of a table: y is multiplied by y and moved by shift, the columns
// are multiplied by x, and the prior with them.
type units struct{ y, shift, x float64 }

// table is rows of an intercept and two columns in those units, under model m, whose
// prior is in the first ones.
func (u units) fit(t *testing.T, method string, m kernels.Model, n int, family string) *kernels.Fit {
	t.Helper()
	rnd := rand.New(rand.NewPCG(11, uint64(n)))
	var b kernels.Batch
	b.Reset()
	for range n {
		x, z := rnd.NormFloat64(), rnd.NormFloat64()
		b.Add(0, 1)
		b.Add(1, x*u.x)
		b.Add(2, z*u.x)
		b.EndRow()
		y := 0.7 + 2*x - z + 0.3*rnd.NormFloat64()
		if family == "studentt" && rnd.IntN(20) == 0 {
			y += 5 * rnd.NormFloat64()
		}
		b.Y = append(b.Y, y*u.y+u.shift)
	}
	yy, xx := u.y*u.y, u.x*u.x
	mean := m.Prior.Mean
	m.Prior = kernels.Prior{Mean: mean * u.y / u.x, Variance: m.Prior.Variance * yy / xx, InterceptVariance: m.Prior.InterceptVariance * yy}
	m.Priors = []kernels.Belief{{Feature: kernels.Intercept, Weight: kernels.Weight{Mean: mean*u.y + u.shift, Variance: m.Prior.InterceptVariance}}}
	if !m.Options.AutoDispersion {
		m.Params.Dispersion *= yy
	}
	l, err := lik.New(family, "", m.Params)
	if err != nil {
		t.Fatal(err)
	}
	m.Lik, m.NoIntercept = l, false
	e, err := Find(method)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.New(context.Background(), &m)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "z"} {
		if _, err := s.Features().Add(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Update(context.Background(), &b, false); err != nil {
		t.Fatal(err)
	}
	f, err := s.Fit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return f.Fit
}

// Whatever is learnt has the units of the data: a fit in other units is the fit.
func TestEquivariance(t *testing.T) {
	kerneltest.Slow(t)
	type variant struct {
		method, family string
		o              kernels.Options
	}
	var all []variant
	for _, form := range []string{"diagonal", "full", "lowrank"} {
		o := kernels.Options{Covariance: form, AutoDispersion: true}
		all = append(all, variant{"adf", "gaussian", o})
		noisy := o
		noisy.AutoNoise = true
		all = append(all, variant{"adf", "gaussian", noisy})
		if form == "diagonal" {
			continue
		}
		inferred := o
		inferred.AutoMeasurementNoise = true
		all = append(all, variant{"sequential_laplace", "gaussian", o}, variant{"ekf", "gaussian", o}, variant{"ekf", "gaussian", inferred}, variant{"ekf", "gaussian", noisy})
	}
	for _, family := range []string{"gaussian", "studentt"} {
		both := kernels.Options{AutoDispersion: true, AutoPrior: true, Tol: 1e-10}
		full := both
		full.Covariance = "full"
		all = append(all, variant{"laplace", family, both}, variant{"lowrank", family, both})
		if family == "gaussian" { // seconds for studentt
			dispersed := full
			dispersed.AutoPrior = false
			all = append(all, variant{"ep", family, full}, variant{"ep", family, dispersed})
		}
	}
	for _, v := range all {
		m := kernels.Model{NoIntercept: true, Params: lik.Params{Dispersion: 1, Shape: 4}, Prior: kernels.Prior{Mean: 0.1, Variance: 2, InterceptVariance: 10}, Options: v.o}
		want := units{1, 0, 1}.fit(t, v.method, m, 200, v.family)
		for _, u := range []units{{1e4, 0, 1}, {1e-5, 0, 1}, {1e10, 0, 1}, {1, 1e4, 1}, {1, 0, 1e3}, {1, 0, 1e-4}, {30, -500, 0.02}} {
			if v.o.AutoNoise && u.x != 1 {
				continue // one rate for all weights, the intercept's too, is in one unit
			}
			what := fmt.Sprintf("%s %s %s, noise %v %v, units %v", v.method, v.family, v.o.Covariance, v.o.AutoNoise, v.o.AutoMeasurementNoise, u)
			got := u.fit(t, v.method, m, 200, v.family)
			fine := 1.0
			if v.method == "ep" {
				fine = 1e3 // its searches end at changes of 1e-3
			}
			if strings.Contains(got.Status, "ran to") || got.Status != want.Status && v.method == "ep" {
				t.Errorf("%s: status %q, want %q", what, got.Status, want.Status)
			}
			tol := kerneltest.Tol{Rel: 1e-6 * fine}
			kerneltest.Close(t, what+": dispersion", got.Dispersion, want.Dispersion*u.y*u.y, tol)
			kerneltest.Close(t, what+": log evidence", got.LogEvidence, want.LogEvidence-200*math.Log(u.y), kerneltest.Tol{Rel: 1e-6, Abs: 1e-4})
			for i, w := range want.Beliefs {
				unit, shift := u.y/u.x, 0.0
				if w.Feature == kernels.Intercept {
					unit, shift = u.y, u.shift
				}
				sd := math.Sqrt(w.Variance)
				kerneltest.Close(t, what+": mean of "+w.Feature, (got.Beliefs[i].Mean-shift)/unit, w.Mean, kerneltest.Tol{Rel: 1e-6, Abs: 1e-4 * fine * sd})
				kerneltest.Close(t, what+": variance of "+w.Feature, got.Beliefs[i].Variance, w.Variance*unit*unit, kerneltest.Tol{Rel: 1e-5 * fine})
			}
			if t.Failed() {
				return
			}
		}
	}
}

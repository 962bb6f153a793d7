package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// A row whose linear predictor is known (no features, zeros, known weights only)
// moves no belief in any filter. It counts, and log evidence takes its density at the
// known predictor: log p(y | s), for the EKF that of the innovation.
func TestKnownPredictors(t *testing.T) {
	type variant struct {
		method string
		o      kernels.Options
	}
	var all []variant
	for _, form := range []string{"diagonal", "full", "lowrank"} {
		all = append(all, variant{"adf", kernels.Options{Covariance: form}})
		if form == "diagonal" {
			continue
		}
		all = append(all, variant{"sequential_laplace", kernels.Options{Covariance: form}}, variant{"variational", kernels.Options{Covariance: form}})
		for _, iter := range []int{1, 2, 20} {
			for _, o := range []kernels.Options{{}, {MeasurementNoise: 0.7}, {AutoMeasurementNoise: true}} {
				o.Covariance, o.MaxIter = form, iter
				all = append(all, variant{"ekf", o})
			}
		}
	}
	for _, fam := range lik.Families() {
		for _, link := range fam.Links {
			p := lik.Params{Dispersion: 0.8, Shape: 4}
			l, err := lik.New(fam.Family, link, p)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range all {
				if v.method == "variational" && link != "logit" {
					continue
				}
				for _, drift := range []string{"", "noise", "forgetting"} {
					m := kernels.Model{NoIntercept: true, Lik: l, Params: p, Prior: kernels.DefaultPrior, Options: v.o, HasTime: true,
						Priors: []kernels.Belief{{Feature: "known", Weight: kernels.Weight{Mean: 0.3}}}}
					switch drift {
					case "noise":
						m.Noise = 0.01
					case "forgetting":
						m.Forgetting = 0.99
					}
					what := fmt.Sprintf("%s %s %s %+v %s", fam.Family, link, v.method, v.o, drift)
					checkKnown(t, what, m, v.method)
				}
			}
		}
	}
}

func checkKnown(t *testing.T, what string, m kernels.Model, method string) {
	t.Helper()
	e, err := Find(method)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.New(context.Background(), &m)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	id := map[string]uint32{}
	for _, name := range []string{"a", "b", "known"} {
		if id[name], err = s.Features().Add(name); err != nil {
			t.Fatal(err)
		}
	}
	rnd := rand.New(rand.NewPCG(3, 3))
	response := func() (y, trials float64) {
		switch is := m.Lik.Traits(); {
		case is.Binary:
			return float64(rnd.IntN(2)), 0
		case is.Trials:
			return float64(rnd.IntN(4)), 3
		case is.Counts:
			return float64(rnd.IntN(4)), 0
		case m.Lik.Check(lik.Obs{Y: -1, Weight: 1}) != nil:
			return rnd.ExpFloat64() + 0.01, 0
		}
		return rnd.NormFloat64(), 0
	}
	var b kernels.Batch
	put := func(y, trials, weight float64, x map[string]float64) {
		b.Reset()
		for name, v := range x {
			b.Add(id[name], v)
		}
		b.EndRow()
		b.Y, b.Trials, b.Weight, b.Time = append(b.Y, y), append(b.Trials, trials), append(b.Weight, weight), append(b.Time, 0)
		if err := s.Update(context.Background(), &b, false); err != nil {
			t.Fatalf("%s: y = %v, x = %v: %v", what, y, x, err)
		}
	}
	fit := func() *kernels.Fit {
		f, err := s.Fit(context.Background())
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return f.Fit
	}
	for range 5 {
		y, n := response()
		put(y, n, 1, map[string]float64{"a": rnd.NormFloat64(), "b": 1})
	}
	for _, x := range []map[string]float64{{}, {"a": 0, "b": 0}, {"known": 2}, {"known": -1, "a": 0}} {
		before := fit()
		y, n := response()
		put(y, n, 1.5, x)
		after := fit()
		if after.N != before.N+1 || after.Skipped != 0 {
			t.Fatalf("%s: x = %v: n = %d after %d", what, x, after.N, before.N)
		}
		for i, w := range after.Beliefs {
			if w != before.Beliefs[i] {
				t.Fatalf("%s: x = %v moved %v to %v", what, x, before.Beliefs[i], w)
			}
		}
		o := lik.Obs{Y: y, Trials: n, Weight: 1.5}
		want, _, _ := m.Lik.LogLik(o, 0.3*x["known"])
		gain := after.LogEvidence - before.LogEvidence
		switch {
		case method == "ekf":
			if math.IsNaN(gain) || math.IsInf(gain, 0) {
				t.Fatalf("%s: log evidence gained %v", what, gain)
			}
		default:
			kerneltest.Close(t, what, gain, want, kerneltest.Tol{Rel: 1e-9, Abs: 1e-12})
		}
	}
}

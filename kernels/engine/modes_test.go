package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// Twenty responses near 10 and one at the prior mean: no engine stays at the one.
func TestMinorMode(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	var b kernels.Batch
	b.Reset()
	for i := range 21 {
		b.Add(0, 1)
		b.EndRow()
		y := 0.0
		if i < 20 {
			y = 10 + 0.1*rnd.NormFloat64()
		}
		b.Y = append(b.Y, y)
	}
	par := lik.Params{Dispersion: 0.01, Shape: 4}
	l, err := lik.New("studentt", "", par)
	if err != nil {
		t.Fatal(err)
	}
	// log ∫ by the trapezoid rule
	top, sum := math.Inf(-1), 0.0
	logs := make([]float64, 0, 60_001)
	for i := range cap(logs) {
		s := -2 + 14*float64(i)/60_000
		log := -0.5*s*s/100 - 0.5*math.Log(2*math.Pi*100)
		for r := range b.Len() {
			logp, _, _ := l.LogLik(b.Obs(r), s)
			log += logp
		}
		logs = append(logs, log)
		top = math.Max(top, log)
	}
	for _, v := range logs {
		sum += math.Exp(v-top) * 14 / 60_000
	}
	exact := top + math.Log(sum)
	for _, c := range []struct {
		method string
		o      kernels.Options
		near   float64 // of log evidence
	}{
		{"laplace", kernels.Options{}, 0.1}, {"laplace", kernels.Options{Hessian: "lowrank"}, 0.1}, {"lowrank", kernels.Options{}, 0.1},
		{"ep", kernels.Options{}, 0.1}, {"ep", kernels.Options{Covariance: "full"}, 0.1},
		{"hmc", kernels.Options{Samples: 400, Warmup: 200, Chains: 2}, 0.1},
	} {
		e, err := Find(c.method)
		if err != nil {
			t.Fatal(err)
		}
		s, err := e.New(context.Background(), &kernels.Model{Lik: l, Params: par, Prior: kernels.Prior{Variance: 1, InterceptVariance: 100}, Options: c.o})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Update(context.Background(), &b, false); err != nil {
			t.Fatal(err)
		}
		f, err := s.Fit(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s %v: %v, %v (exact %v): %s", c.method, c.o.Covariance, f.Beliefs[0].Weight, f.LogEvidence, exact, f.Status)
		if math.Abs(f.Beliefs[0].Mean-10) > 0.1 || math.Abs(f.LogEvidence-exact) > c.near {
			t.Errorf("%s %s%s: mean %v, log evidence %v, want %v; %s", c.method, c.o.Hessian, c.o.Covariance, f.Beliefs[0].Mean, f.LogEvidence, exact, f.Status)
		}
		if c.method == "laplace" || c.method == "lowrank" {
			if !strings.Contains(f.Status, "modes found") {
				t.Errorf("%s: status %q", c.method, f.Status)
			}
		}
	}
}

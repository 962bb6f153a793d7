package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
)

// crossed is a problem of two crossed columns of levels whose weights have the standard deviations sd,
// and what is learnt of it: a prior variance for each, with the dispersion of a gaussian.
func crossed(t *testing.T, family string, n, levels int, sd [2]float64) *kernels.Problem {
	t.Helper()
	s, err := option.For("laplace").Decode(func(yield func(string, option.Source) bool) {
		_ = yield("family", option.Go(family)) && yield("prior_variance", option.Go("auto")) &&
			(family != "gaussian" || yield("dispersion", option.Go("auto")))
	})
	if err != nil {
		t.Fatal(err)
	}
	method, err := Find("laplace")
	if err != nil {
		t.Fatal(err)
	}
	m, err := method.Model(s, false, false)
	if err != nil {
		t.Fatal(err)
	}
	r, err := kernels.NewRows(m)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(11, uint64(n)))
	effect := [2][]float64{}
	for k := range effect {
		for range levels {
			effect[k] = append(effect[k], sd[k]*rng.NormFloat64())
		}
	}
	var b kernels.Batch
	b.Reset()
	for range n {
		b.Add(0, 1)
		eta := 0.3
		for k, name := range []string{"a", "b"} {
			j := rng.IntN(levels)
			id, err := r.Dict.Add(fmt.Sprintf("%s=%d", name, j))
			if err != nil {
				t.Fatal(err)
			}
			b.Add(id, 1)
			eta += effect[k][j]
		}
		b.EndRow()
		y := 0.0
		switch {
		case family == "gaussian":
			y = 40 * (eta + 1.5*rng.NormFloat64())
		case family == "poisson":
			for at := rng.ExpFloat64(); at < math.Exp(eta); at += rng.ExpFloat64() {
				y++
			}
		case rng.Float64() < 1/(1+math.Exp(-eta)):
			y = 1
		}
		b.Y = append(b.Y, y)
	}
	if err := r.Update(&b, false); err != nil {
		t.Fatal(err)
	}
	p, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What factorised beliefs learn of crossed columns is what the exact evidence learns, where that is
// affordable.
func TestLearnByEP(t *testing.T) {
	kerneltest.Slow(t)
	for _, c := range []struct {
		family string
		sd     [2]float64
	}{{"bernoulli", [2]float64{0.8, 0.4}}, {"bernoulli", [2]float64{0.8, 0}}, {"poisson", [2]float64{0.5, 0.2}}, {"gaussian", [2]float64{0.7, 0.3}}, {"gaussian", [2]float64{0.7, 0}}} {
		p := crossed(t, c.family, 6000, 150, c.sd)
		_, exact, err := laplace.Learn(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		known, e, err := learnByEP(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if !e.Converged || known.LearnsPrior() {
			t.Errorf("%v: %s", c, e.Status)
		}
		done := map[string]bool{}
		for j := 1; j < p.P; j++ {
			name, _, _ := strings.Cut(p.Name(j), "=")
			if done[name] {
				continue
			}
			done[name] = true
			want, got := math.Sqrt(exact.PriorVar[j]), math.Sqrt(known.PriorVar[j])
			// To a third of a posterior standard deviation of about sd/√(2·150) + 0.02, and what half a nat leaves open.
			if math.Abs(got-want) > 0.1*want+0.05*math.Sqrt(exact.PriorVar[1]) {
				t.Errorf("%v, %s: sd %.4f by ep, %.4f by the exact evidence", c, name, got, want)
			}
		}
		if len(done) != 2 {
			t.Error(done)
		}
		if c.family == "gaussian" {
			kerneltest.Close(t, "dispersion", known.Params.Dispersion, exact.Params.Dispersion, kerneltest.Tol{Rel: 0.02})
		}
	}
}

// A minute of expectation propagation is what prior variances may take: more than a million binary rows,
// and some fifty thousand of a likelihood whose moments and parameters take quadrature.
func TestLearningWork(t *testing.T) {
	for _, c := range []struct {
		family string
		n      int
		auto   bool
		within bool
	}{{"bernoulli", 1_000_000, false, true}, {"gaussian", 1_000_000, true, true}, {"negbinomial", 40_000, true, true}, {"studentt", 40_000, true, false}} {
		l, err := lik.New(c.family, "", lik.Params{Dispersion: 1, Shape: 4})
		if err != nil {
			t.Fatal(err)
		}
		p := &kernels.Problem{Columns: design.Columns{N: c.n}, Model: &kernels.Model{Lik: l}}
		p.Options.AutoDispersion, p.Options.AutoShape = c.auto, c.auto
		if work := learningOf(p); work <= mostLearning != c.within {
			t.Errorf("%v: %g operations, of %g allowed", c, work, float64(mostLearning))
		}
	}
}

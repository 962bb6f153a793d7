package softmax

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/internal/mode"
)

// hyper draws n rows of two numbers and three classes whose effects have that deviation.
func hyper(rng *rand.Rand, n int, effect float64) (o data) {
	w := make([]float64, 6)
	for j := range w {
		w[j] = effect * rng.NormFloat64()
	}
	f, p := make([]float64, 3), make([]float64, 3)
	for range n {
		x := []float64{rng.NormFloat64(), rng.NormFloat64()}
		for k := range f {
			f[k] = w[2*k]*x[0] + w[2*k+1]*x[1]
		}
		softmaxTo(p, f)
		u, y := rng.Float64(), 0
		for y < 2 && u > p[y] {
			u -= p[y]
			y++
		}
		o.x, o.y = append(o.x, x), append(o.y, float64(y))
	}
	return o
}

// Weights averaged over the prior variance are near the exact posterior of both: a sum over the
// variance, the weights under each one by importance sampling. Where the evidence is highest at 0
// its maximum knows them as 0.
func TestIntegrate(t *testing.T) {
	kerneltest.Slow(t)
	draws := 8000
	if testing.Short() {
		draws = 3000
	}
	for _, c := range []struct {
		what   string
		effect float64
		seed   uint64
		zero   bool // the evidence is highest at a variance of 0
	}{
		{"no effects", 0, 1, true},
		{"weak effects", 0.4, 2, false},
		{"strong effects", 2, 5, false},
	} {
		d := hyper(rand.New(rand.NewPCG(c.seed, 21)), 60, c.effect)
		m := model(kernels.Options{AutoPrior: true, Integrate: true, SDScale: 1.5, SDFreedom: 3})
		f := fit(t, m, d, names(3))
		if f.Status != "ok" {
			t.Errorf("%s: %s", c.what, f.Status)
		}

		n := len(f.Beliefs)
		mean, square, total, top := make([]float64, n), make([]float64, n), 0.0, math.NaN()
		const step = 0.75
		for theta := -9.0; theta < 5; theta += step {
			given := model(kernels.Options{Hessian: "full"})
			given.Prior.Variance = math.Exp(theta)
			g := fit(t, given, d, names(3))
			log, at, sd, _ := sampled(t, problem(t, given, d), g, draws)
			// The deviation s has the density (1 + s²/(ν a²))^-((ν + 1)/2), and θ = 2 log s.
			log += 0.5*theta - 2*math.Log1p(math.Exp(theta)/(3*1.5*1.5))
			if math.IsNaN(top) {
				top = log
			}
			w := math.Exp(log - top)
			total += w
			for j := range mean {
				mean[j] += w * at[j]
				square[j] += w * (sd[j]*sd[j] + at[j]*at[j])
			}
		}
		most, worst := 0.0, 0.0
		for j, b := range f.Beliefs {
			mu := mean[j] / total
			sd := math.Sqrt(square[j]/total - mu*mu)
			off, r := math.Abs(b.Mean-mu)/sd, math.Sqrt(b.Variance)/sd
			most, worst = max(most, off), max(worst, math.Abs(r-1))
			// Laplace's evidence of the variance, and the deviations of the nearest Gaussian, are
			// theirs.
			if off > 0.1 || r < 0.93 || r > 1.07 {
				t.Errorf("%s: %s has mean %.4f and deviation %.4f, the exact posterior %.4f and %.4f", c.what, b.Feature, b.Mean, math.Sqrt(b.Variance), mu, sd)
			}
		}
		t.Logf("%s: variance %.3g, means within %.3f deviations, deviations within %.1f %%", c.what, f.Prior.Variance, most, 100*worst)

		m.Options.Integrate = false
		peak := fit(t, m, d, names(3))
		if got := peak.Status != "ok"; got != c.zero {
			t.Errorf("%s: at the maximum %s", c.what, peak.Status)
		}
		if peak.LogEvidence != f.LogEvidence {
			t.Errorf("%s: log evidence %v, the highest is %v", c.what, f.LogEvidence, peak.LogEvidence)
		}
	}
}

// Of classes that are separated the mixture's moments alone would draw predictions to one over the
// number of classes: by the factors beside them they are those of the mixture.
func TestIntegrateSeparated(t *testing.T) {
	d := separated(rand.New(rand.NewPCG(2, 4)), 40, 8, 3, 0)
	m := model(kernels.Options{AutoPrior: true, Integrate: true})
	f := fit(t, m, d, names(3))
	if k := f.PredictiveScale(); k.Plain() || !(k.Variance < 0.7) || strings.Contains(f.Status, mode.Drawn) {
		t.Errorf("predicted by %v; %s", k, f.Status)
	}
	e := fit(t, model(kernels.Options{AutoPrior: true}), d, names(3))
	got, at := trainingLoss(t, f, d), trainingLoss(t, e, d)
	own := *f
	own.Learnt = nil
	moments := trainingLoss(t, &own, d)
	t.Logf("log loss %.4f under a variance of %.3g, %.4f under %.3g; %.4f by the moments", got, f.Prior.Variance, at, e.Prior.Variance, moments)
	if got > 2*at || moments < 1.1*got {
		t.Errorf("log loss %.4f, %.4f at the highest evidence", got, at)
	}
}

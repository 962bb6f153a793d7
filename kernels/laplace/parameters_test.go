package laplace

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// What is known of a shape, and of a dispersion beside it, against the curvature of the log
// evidence of fits that have them given: fourth-order differences about the maximum.
func TestWhatIsKnownOfParameters(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 3))
	counts, times, robust := data{}, data{}, data{}
	for range 300 {
		x := rng.NormFloat64()
		gamma := 0.0 // of shape 2
		for range 2 {
			gamma += rng.ExpFloat64()
		}
		mean := math.Exp(1 + 0.5*x)
		counts.x, counts.y = append(counts.x, []float64{1, x}), append(counts.y, poisson(rng, mean*gamma/2))
		times.x, times.y = append(times.x, []float64{1, x}), append(times.y, mean*gamma/2)
		chi := 0.0
		for range 4 {
			z := rng.NormFloat64()
			chi += z * z / 4
		}
		robust.x, robust.y = append(robust.x, []float64{1, x}), append(robust.y, 2+x+3*rng.NormFloat64()/math.Sqrt(chi))
	}
	for _, c := range []struct {
		family string
		d      data
	}{{"negbinomial", counts}, {"gamma", times}, {"studentt", robust}} {
		for _, integrate := range []bool{false, true} {
			if integrate && c.family == "gamma" { // TestShapeIsIntegrated
				continue
			}
			m := model(t, c.family, "", lik.Params{Shape: 3})
			m.Prior = kernels.Prior{Variance: 100, InterceptVariance: 100}
			m.Options = kernels.Options{AutoShape: true, AutoDispersion: c.family == "studentt", Integrate: integrate}
			f, err := Fit(context.Background(), problem(t, m, c.d))
			if err != nil || f.Status != "ok" {
				t.Fatal(c.family, f.Status, err)
			}
			at := lik.Params{Shape: f.Shape, Dispersion: f.Dispersion}
			if h := learnt(t, problem(t, m, c.d)); integrate && h.dispersion >= 0 {
				if _, err := h.integrate(); err != nil { // the mode, not the mean that the fit has
					t.Fatal(err)
				}
				at.Dispersion = math.Exp(h.theta[h.dispersion])
			}
			information := func(set func(q *lik.Params, x float64)) float64 {
				const step = 0.05
				var log [5]float64
				for k := range log {
					q := at
					set(&q, math.Exp(step*float64(k-2)))
					given := model(t, c.family, "", q)
					given.Prior = m.Prior
					g, err := Fit(context.Background(), problem(t, given, c.d))
					if err != nil {
						t.Fatal(err)
					}
					log[k] = g.LogEvidence
				}
				return (log[0] - 16*log[1] + 30*log[2] - 16*log[3] + log[4]) / (12 * step * step)
			}
			what := c.family + " shape"
			v := 1 / information(func(q *lik.Params, x float64) { q.Shape *= x })
			mean, sd, _ := f.LearntOf(kernels.LearntShape)
			kerneltest.Close(t, what, mean, f.Shape*math.Exp(0.5*v), kerneltest.Tol{Rel: 2e-3})
			kerneltest.Close(t, what+", not known", sd/mean, math.Sqrt(math.Expm1(v)), kerneltest.Tol{Rel: 0.02})
			mean, sd, ok := f.LearntOf(kernels.LearntDeviation)
			if ok != (c.family == "studentt") {
				t.Errorf("%s: a dispersion was learnt: %v", c.family, ok)
			}
			if !ok || integrate { // TestNoiseIsIntegrated
				continue
			}
			nu := 2 * information(func(q *lik.Params, x float64) { q.Dispersion *= x })
			sigma := inverseChi(at.Dispersion, nu)
			kerneltest.Close(t, "studentt scale", mean, sigma[0], kerneltest.Tol{Rel: 2e-3})
			kerneltest.Close(t, "studentt scale, not known", sd, sigma[1], kerneltest.Tol{Rel: 0.03})
		}
	}
	// A number that is given is not learnt.
	f, err := Fit(context.Background(), problem(t, model(t, "negbinomial", "", lik.Params{Shape: 3}), counts))
	if err != nil || f.Learnt != nil {
		t.Error(f.Learnt, err)
	}
}

func poisson(rng *rand.Rand, mean float64) float64 {
	n, sum := 0.0, rng.ExpFloat64()
	for ; sum < mean; sum += rng.ExpFloat64() {
		n++
	}
	return n
}

package engine_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/kernels/special"
)

// The posterior of the residual deviation of a line through 60 points under vague priors, in
// units far from 1, is the root of an inverse chi-square variable of 58 degrees of freedom about
// the residuals of least squares, by every method that learns it; those that integrate have one
// or two more degrees for the prior.
func TestResidualDeviation(t *testing.T) {
	const n = 60
	rng := rand.New(rand.NewPCG(8, 1))
	var x, y []float64
	var sx, sy, sxx, sxy, syy float64
	for range n {
		a := rng.NormFloat64()
		b := 300 + 50*a + 40*rng.NormFloat64()
		x, y = append(x, a), append(y, b)
		sx, sy, sxx, sxy, syy = sx+a, sy+b, sxx+a*a, sxy+a*b, syy+b*b
	}
	cov := sxy - sx*sy/n
	rss := syy - sy*sy/n - cov*cov/(sxx-sx*sx/n)
	mean, sd := special.InverseChi(n - 2)
	scale := math.Sqrt(rss / (n - 2))
	mean, sd = scale*mean, scale*sd
	for _, c := range []struct {
		method  string
		o       kernels.Options
		vague   bool
		mean    float64 // tolerances
		unknown float64
	}{
		{"laplace", kernels.Options{}, false, 0.01, 0.05},
		{"auto", kernels.Options{}, false, 0.01, 0.05},
		{"ep", kernels.Options{Covariance: "full"}, true, 1e-3, 5e-3},
		{"lowrank", kernels.Options{Rank: 2}, true, 1e-3, 5e-3},
		{"hmc", kernels.Options{}, true, 1e-3, 5e-3},
		{"adf", kernels.Options{}, false, 0.05, 0.1}, // the first rows under the wrong unit
		{"adf", kernels.Options{Covariance: "full"}, true, 0.05, 0.1},
		{"ekf", kernels.Options{}, true, 0.05, 0.1},
	} {
		s := option.Defaults()
		s.Family, s.Options.Covariance, s.Options.Rank = "gaussian", c.o.Covariance, c.o.Rank
		if c.vague {
			s.Prior = kernels.Prior{Variance: 1e6, InterceptVariance: 1e7}
			s.Options.AutoDispersion = true
		}
		r, err := engine.Fit(context.Background(), c.method, s, &rows.Table{X: rows.Fields(rows.Numbers("x", x)), Y: rows.Numbers("y", y)})
		if err != nil {
			t.Fatalf("%s: %v", c.method, err)
		}
		got, unknown, ok := r.Fit.LearntOf(kernels.LearntDeviation)
		t.Logf("%s %+v: %.3f ± %.3f, exact %.3f ± %.3f", c.method, c.vague, got, unknown, mean, sd)
		if !ok {
			t.Errorf("%s: nothing is known of the residual deviation", c.method)
			continue
		}
		kerneltest.Close(t, c.method+": residual deviation", got, mean, kerneltest.Tol{Rel: c.mean})
		kerneltest.Close(t, c.method+": what is not known of it", unknown, sd, kerneltest.Tol{Rel: c.unknown})
		if err := r.Fit.Validate(); err != nil {
			t.Error(err)
		}
		terms, err := predict.Summary(r.Fit, 0.9, 0)
		if err != nil {
			t.Fatal(err)
		}
		last := terms[len(terms)-1]
		if last.Term != "sd(residual)" || last.Column != "" || last.Mean != got || last.SD != unknown {
			t.Errorf("%s: the summary ends with %+v", c.method, last)
		}
		kerneltest.Close(t, c.method+": lower", last.Lower, scale*special.InverseChiQuantile(n-2, 0.05), kerneltest.Tol{Rel: 0.05})
		kerneltest.Close(t, c.method+": upper", last.Upper, scale*special.InverseChiQuantile(n-2, 0.95), kerneltest.Tol{Rel: 0.05})
	}
}

// What is given is not learnt; shapes are, of counts that a stream sees one by one too, whose
// log has about the information of maximum likelihood.
func TestShapeIsLearnt(t *testing.T) {
	kerneltest.Slow(t)
	const n, size = 1000, 3
	rng := rand.New(rand.NewPCG(2, 9))
	var y []float64
	for range n {
		rate := 0.0
		for range size {
			rate += rng.ExpFloat64()
		}
		k, sum := 0.0, rng.ExpFloat64()
		for ; sum < 5*rate/size; sum += rng.ExpFloat64() {
			k++
		}
		y = append(y, k)
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	// minus the log likelihood of the size at the mean of the counts, and its curvature
	mean := 0.0
	for _, v := range y {
		mean += v / n
	}
	log := func(r float64) (sum float64) {
		for _, v := range y {
			a, _ := math.Lgamma(v + r)
			b, _ := math.Lgamma(r)
			sum += a - b + r*math.Log(r/(r+mean)) + v*math.Log(mean/(r+mean))
		}
		return sum
	}
	best := 1.0
	for r := 1.0; r < 6; r += 0.001 {
		if log(r) > log(best) {
			best = r
		}
	}
	const h = 0.05
	information := (2*log(best) - log(best*math.Exp(h)) - log(best*math.Exp(-h))) / h / h
	for _, c := range []struct {
		method string
		tol    float64
	}{{"laplace", 0.02}, {"ep", 0.02}, {"lowrank", 0.02}, {"adf", 0.1}} {
		for _, given := range []float64{0, 3} {
			s := option.Defaults()
			s.Family, s.Params.Shape, s.Options.AutoShape = "negbinomial", given, given == 0 && c.method == "adf"
			r, err := engine.Fit(context.Background(), c.method, s, &rows.Table{X: rows.Fields(rows.Numbers("x", x)), Y: rows.Numbers("y", y)})
			if err != nil {
				t.Fatalf("%s: %v", c.method, err)
			}
			if given > 0 {
				if r.Fit.Learnt != nil {
					t.Errorf("%s: %v was learnt", c.method, r.Fit.Learnt)
				}
				continue
			}
			got, sd, ok := r.Fit.LearntOf(kernels.LearntShape)
			t.Logf("%s: %.3f ± %.3f, likelihood %.3f ± %.3f", c.method, got, sd, best, best/math.Sqrt(information))
			if !ok {
				t.Errorf("%s: no shape was learnt: %v", c.method, r.Fit.Status)
				continue
			}
			kerneltest.Close(t, c.method+": shape", got, best, kerneltest.Tol{Rel: c.tol})
			kerneltest.Close(t, c.method+": what is not known of it", sd/got, 1/math.Sqrt(information), kerneltest.Tol{Rel: c.tol})
			terms, err := predict.Summary(r.Fit, 0.95, 0)
			if err != nil {
				t.Fatal(err)
			}
			if last := terms[len(terms)-1]; last.Term != "shape(negbinomial)" || !(last.Lower < best && best < last.Upper) {
				t.Errorf("%s: the summary ends with %+v", c.method, last)
			}
		}
	}
}

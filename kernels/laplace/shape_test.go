package laplace

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// Eight counts do not bound the size of a negative binomial: the most likely one is noted, and that
// nothing else is known; of four hundred with much spread its deviation is.
func TestHardlyKnownShape(t *testing.T) {
	few := data{x: [][]float64{{-2.44}, {-2.02}, {-0.44}, {-0.2}, {0.99}, {0.92}, {1.2}, {-0.54}}, y: []float64{0, 1, 0, 0, 2, 0, 2, 0}}
	many := data{}
	for i := range 400 {
		many.x = append(many.x, []float64{math.Sin(float64(i))})
		many.y = append(many.y, float64(i*i%7*(i%3)))
	}
	for _, c := range []struct {
		d     data
		known bool
	}{{few, false}, {many, true}} {
		m := model(t, "negbinomial", "", lik.Params{Shape: 1})
		m.NoIntercept, m.Prior = false, kernels.DefaultPrior
		m.Options = kernels.Options{AutoShape: true}
		f, err := Fit(context.Background(), problem(t, m, c.d))
		if err != nil {
			t.Fatal(err)
		}
		_, sd, ok := f.LearntOf(kernels.LearntShape)
		if ok != c.known || strings.Contains(f.Status, "hardly bound the shape") == c.known {
			t.Errorf("%d rows: shape %v ± %v, status %q", len(c.d.y), f.Shape, sd, f.Status)
		}
	}
}

// The shape of few gamma responses is averaged over with the weights, 1/√shape having a half-t
// prior in units of the deviation of their logarithms: by quadrature over weights and shape. What
// stands for it in predictions has the mean of the variance. One value would make the slope's
// deviation a quarter smaller.
func TestShapeIsIntegrated(t *testing.T) {
	d := data{x: [][]float64{{-1.43}, {-0.37}, {-1.2}, {1.18}, {0.4}}, y: []float64{0.98, 0.78, 1.25, 0.19, 0.6}}
	fit := func(integrate bool) *kernels.Fit {
		m := model(t, "gamma", "", lik.Params{Shape: 1})
		m.NoIntercept, m.Prior = false, kernels.Prior{Variance: 2, InterceptVariance: 3}
		m.Options = kernels.Options{AutoShape: true, Integrate: integrate}
		f, err := Fit(context.Background(), problem(t, m, d))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	mean, spread := 0.0, 0.0
	for _, y := range d.y {
		mean += math.Log(y) / float64(len(d.y))
	}
	for _, y := range d.y {
		spread += math.Pow(math.Log(y)-mean, 2) / float64(len(d.y))
	}
	var total float64
	var sums [5]float64 // of w, w², k, k², 1/k
	for u := -5.0; u <= 8; u += 0.1 {
		k := math.Exp(u)
		lg, _ := math.Lgamma(k)
		prior := -0.5*u - 2*math.Log1p(1/(k*3*2.5*2.5*spread))
		for b := -3.0; b <= 2; b += 0.05 {
			for w := -4.0; w <= 3; w += 0.05 {
				log := prior - b*b/6 - w*w/4
				for i, y := range d.y {
					eta := b + w*d.x[i][0]
					log += k*(u-eta) + (k-1)*math.Log(y) - k*y*math.Exp(-eta) - lg
				}
				p := math.Exp(log)
				total += p
				for j, v := range []float64{w, w * w, k, k * k, 1 / k} {
					sums[j] += p * v
				}
			}
		}
	}
	for j := range sums {
		sums[j] /= total
	}
	f, plain := fit(true), fit(false)
	sd := math.Sqrt(sums[1] - sums[0]*sums[0])
	kerneltest.Close(t, "slope", f.Beliefs[1].Mean, sums[0], kerneltest.Tol{Abs: 0.1 * sd})
	kerneltest.Close(t, "slope's deviation", math.Sqrt(f.Beliefs[1].Variance), sd, kerneltest.Tol{Rel: 0.08})
	kerneltest.Close(t, "shape in predictions", f.Shape, 1/sums[4], kerneltest.Tol{Rel: 0.1})
	k, deviation, ok := f.LearntOf(kernels.LearntShape)
	if !ok || f.Status != "ok" {
		t.Errorf("learnt %v, status %q", f.Learnt, f.Status)
	}
	kerneltest.Close(t, "shape", k, sums[2], kerneltest.Tol{Rel: 0.1})
	kerneltest.Close(t, "shape's deviation", deviation, math.Sqrt(sums[3]-sums[2]*sums[2]), kerneltest.Tol{Rel: 0.15})
	if !(plain.Beliefs[1].Variance < 0.7*sd*sd) || !strings.Contains(plain.Status, "the shape is a guess, under which") {
		t.Errorf("one value: deviation %v, status %q", math.Sqrt(plain.Beliefs[1].Variance), plain.Status)
	}
}

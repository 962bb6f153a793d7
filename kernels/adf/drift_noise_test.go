package adf_test

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

// kalman is the log density of responses y, a level that walks by q a row under noise d.
func kalman(y []float64, q, d float64) (logZ float64) {
	m, v := 0.0, 1000.0
	for i, x := range y {
		if i > 0 {
			v += q
		}
		s := v + d
		logZ -= 0.5 * (math.Log(2*math.Pi*s) + (x-m)*(x-m)/s)
		m += v / s * (x - m)
		v *= d / s
	}
	return logZ
}

// The noise that a stream learns of a level that walks is that of an exact filter's largest
// likelihood, to a deviation of what can be known of it, whether the walk is far smaller than the
// noise or larger; the evidence is within what learning D in one pass costs; and a run that goes on
// is the uninterrupted one.
func TestDriftNoise(t *testing.T) {
	for _, q := range []float64{1e-4, 0.01, 0.1, 1, 3} {
		for seed := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, 8))
			y, level := make([]float64, 1500), 0.0
			for i := range y {
				level += math.Sqrt(q) * r.NormFloat64()
				y[i] = level + r.NormFloat64()
			}
			best, top := 0.0, math.Inf(-1)
			for d := 0.2; d < 3; d *= 1.01 {
				if z := kalman(y, q, d); z > top {
					best, top = d, z
				}
			}
			const h = 1.1 // the curvature of the likelihood in log d
			sd := best / math.Sqrt((2*top-kalman(y, q, best*h)-kalman(y, q, best/h))/math.Log(h)/math.Log(h))

			l, err := lik.New("gaussian", "", lik.Params{Dispersion: 1})
			if err != nil {
				t.Fatal(err)
			}
			m := &kernels.Model{Lik: l, Params: lik.Params{Dispersion: 1}, Prior: kernels.Prior{Variance: 1, InterceptVariance: 1000}, Noise: q}
			for _, covariance := range []string{"diagonal", "arrowhead", "full"} {
				m.Options.Covariance, m.Options.AutoDispersion = covariance, true
				feed := func(m *kernels.Model, lo, hi int) *kernels.Fit {
					st := newUnits(t, m)
					var b kernels.Batch
					b.Reset()
					for _, x := range y[lo:hi] {
						b.Add(0, 1)
						b.EndRow()
						b.Y = append(b.Y, x)
					}
					if err := st.Update(context.Background(), &b, false); err != nil {
						t.Fatal(err)
					}
					return unitFit(t, st)
				}
				f := feed(m, 0, len(y))
				name := fmt.Sprintf("q %v, seed %d, %s", q, seed, covariance)
				kerneltest.Close(t, name+": dispersion", f.Dispersion, best, kerneltest.Tol{Abs: sd})
				if f.LogEvidence < top-15 || f.LogEvidence > top {
					t.Errorf("%s: log evidence %v, that of the best noise %v", name, f.LogEvidence, top)
				}
				on := feed(continuing(t, m, feed(m, 0, 700)), 700, len(y))
				kerneltest.Close(t, name+": goes on", on.Dispersion, f.Dispersion, kerneltest.Tol{Rel: 1e-9})
			}
		}
	}
}

// Of an automatic drift the stream finds the rate of a level that walks, and that most levels that
// do not walk have none: the first rows, whose noise nobody knows, do not count.
func TestDriftFound(t *testing.T) {
	kerneltest.Slow(t)
	for _, q := range []float64{0, 0.01, 0.1, 1} {
		found := 0
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 12))
			l, err := lik.New("gaussian", "", lik.Params{Dispersion: 1})
			if err != nil {
				t.Fatal(err)
			}
			m := &kernels.Model{Lik: l, Params: lik.Params{Dispersion: 1}, Prior: kernels.Prior{Variance: 1, InterceptVariance: 1000}}
			m.Options.Covariance, m.Options.AutoDispersion, m.Options.AutoNoise = "arrowhead", true, true
			st := newUnits(t, m)
			var b kernels.Batch
			b.Reset()
			level := 5.0
			for range 500 {
				level += math.Sqrt(q) * r.NormFloat64()
				b.Add(0, 1)
				b.EndRow()
				b.Y = append(b.Y, level+r.NormFloat64())
			}
			if err := st.Update(context.Background(), &b, false); err != nil {
				t.Fatal(err)
			}
			rates, _ := st.Rates()
			if rate := rates[st.Best()]; rate == q || q > 0 && math.Abs(math.Log10(rate/q)) < 1e-9 || q == 0 && rate < 1e-6 {
				found++
			}
			if f := unitFit(t, st); math.Abs(f.Dispersion-1) > 0.7 {
				t.Errorf("q %v, seed %d: dispersion %v", q, seed, f.Dispersion)
			}
		}
		if found < 14 {
			t.Errorf("q %v: found in %d of 20", q, found)
		}
	}
}

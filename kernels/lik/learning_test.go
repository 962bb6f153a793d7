package lik

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// For one weight under the conjugate prior N(0, D/k) the learnt variance is that of
// the normal-inverse-gamma posterior, b/a with one row's worth of prior.
func TestLearningConjugate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	l, err := New("gaussian", "", Params{Dispersion: 2.5})
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewLearning(l, 1)
	if err != nil {
		t.Fatal(err)
	}
	const k = 0.3
	var sy, syy, n float64
	mean, precision := 0.0, k // in units of the noise
	for range 200 {
		y := 1.5 + 0.7*r.NormFloat64()
		g.Learn(Obs{Y: y, Weight: 1}, mean, g.Believed()/precision, 0, 0)
		precision++
		mean += (y - mean) / precision
		sy, syy, n = sy+y, syy+y*y, n+1
	}
	// 2b = 2b0 + Σy² - (Σy)²/(n+k) with b0 = D0/2; 2a = 1 + n
	want := (2.5 + syy - sy*sy/(n+k)) / (1 + n)
	kerneltest.Close(t, "noise variance", g.Dispersion(), want, kerneltest.Tol{Rel: 1e-12})
}

// Rows of a weight w count as w rows in the normal-inverse-gamma posterior and in its log evidence,
// whole weights or not.
func TestLearningWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	l, _ := New("gaussian", "", Params{Dispersion: 2.5})
	for _, weights := range []func() float64{
		func() float64 { return 1 },
		func() float64 { return float64(1 + r.IntN(4)) },
		func() float64 { return 0.1 + r.Float64() },
		func() float64 { return 50 * r.Float64() },
	} {
		g, err := NewLearning(l, 1)
		if err != nil {
			t.Fatal(err)
		}
		const k = 0.3
		var sy, syy, n, logZ float64
		mean, precision := 0.0, k
		for range 200 {
			o := Obs{Y: 1.5 + 0.7*r.NormFloat64(), Weight: weights()}
			logZ += g.LogZ(o, mean, g.Dispersion()/precision, 0)
			// what is determined stays the same here, so that the whole row is left for the noise
			g.Learn(o, mean, g.Believed()/precision, 0, 0)
			precision += o.Weight
			mean += o.Weight * (o.Y - mean) / precision
			sy, syy, n = sy+o.Weight*o.Y, syy+o.Weight*o.Y*o.Y, n+o.Weight
		}
		b := 2.5 + syy - sy*sy/(n+k)
		kerneltest.Close(t, "rows", g.Rows(), 1+n, kerneltest.Tol{Rel: 1e-12})
		kerneltest.Close(t, "noise variance", g.Dispersion(), b/(1+n), kerneltest.Tol{Rel: 1e-12})
		top, _ := math.Lgamma(0.5 * (1 + n))
		bottom, _ := math.Lgamma(0.5)
		want := top - bottom + 0.5*math.Log(2.5) - 0.5*(1+n)*math.Log(b) - 0.5*n*math.Log(math.Pi) + 0.5*math.Log(k/(n+k))
		kerneltest.Close(t, "log evidence", logZ, want, kerneltest.Tol{Rel: 1e-11})
	}
}

func TestLearningMerge(t *testing.T) {
	l, _ := New("gaussian", "", Params{Dispersion: 1})
	all, _ := NewLearning(l, 5)
	a, b := all.Clone(), all.Clone()
	for i := range 10 {
		o := Obs{Y: float64(i%3) - 1, Weight: 1}
		// Without a predictor's variance the sums do not depend on the variance so far.
		all.Learn(o, 0, 0, 0, 0)
		if i < 4 {
			a.Learn(o, 0, 0, 0, 0)
		} else {
			b.Learn(o, 0, 0, 0, 0)
		}
	}
	a.Merge(b, [3]int64{})
	kerneltest.Close(t, "merged", a.Dispersion(), all.Dispersion(), kerneltest.Tol{Rel: 1e-14})
	before := a.Dispersion()
	a.Learn(Obs{Y: math.MaxFloat64, Weight: 1}, 0, 1, 0, 0)
	a.Learn(Obs{Y: 1, Weight: 0}, 0, 1, 0, 0)
	if a.Dispersion() != before {
		t.Errorf("an endless innovation or a row of weight 0 changed the variance to %v", a.Dispersion())
	}
	p, _ := New("poisson", "", Params{})
	if _, err := NewLearning(p, 0); err == nil {
		t.Error("poisson has no noise variance to learn")
	}
}

package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

func gaussianRows(n int, seed uint64) kernels.Batch {
	r := rand.New(rand.NewPCG(seed, 7))
	var b kernels.Batch
	b.Reset()
	for range n {
		x, z := r.NormFloat64(), r.NormFloat64()
		b.Add(0, 1)
		b.Add(1, x)
		b.Add(2, z)
		b.EndRow()
		b.Y = append(b.Y, 1+2*x-z+0.3*r.NormFloat64())
	}
	return b
}

func fit(t *testing.T, method string, m kernels.Model, bs ...kernels.Batch) (Fitter, *kernels.Fit) {
	t.Helper()
	e, err := Find(method)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.New(context.Background(), &m)
	if err != nil {
		t.Fatal(err)
	}
	if m.Start == nil {
		for _, name := range []string{"x", "z"} {
			if _, err := s.Features().Add(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, b := range bs {
		if err := s.Update(context.Background(), &b, false); err != nil {
			t.Fatal(err)
		}
	}
	f, err := s.Fit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s, f.Fit
}

// Every filter learns the noise variance (0.09 here): the same to rounding when the
// run is interrupted, near it when parts are merged, and Laplace's by evidence is
// close.
func TestDispersionByRow(t *testing.T) {
	l, err := lik.New("gaussian", "", lik.Params{Dispersion: 1})
	if err != nil {
		t.Fatal(err)
	}
	model := kernels.Model{Lik: l, Params: lik.Params{Dispersion: 1}, Prior: kernels.DefaultPrior,
		Options: kernels.Options{AutoDispersion: true}}
	a, b := gaussianRows(800, 1), gaussianRows(800, 2)
	_, batch := fit(t, "laplace", model, a, b)
	for _, form := range []string{"diagonal", "full", "lowrank"} {
		m := model
		m.Options.Covariance = form
		_, whole := fit(t, "adf", m, a, b)
		// 1,600 rows tell a variance to 3.5 % (one sd); a filter's first rows, under the
		// wrong variance and factorised beliefs, add some.
		if d := whole.Dispersion / batch.Dispersion; !(d > 0.9 && d < 1.15) {
			t.Errorf("%s: noise variance %v, by evidence %v", form, whole.Dispersion, batch.Dispersion)
		}
		_, first := fit(t, "adf", m, a)
		next := m
		next.Start = first
		nl, err := lik.New("gaussian", "", lik.Params{Dispersion: first.Dispersion})
		if err != nil {
			t.Fatal(err)
		}
		next.Lik = nl
		_, cont := fit(t, "adf", next, b)
		tol := kerneltest.Tol{Rel: 1e-9}
		if form == "lowrank" {
			tol.Rel = 1e-3 // its two representations are cut at different rows
		}
		kerneltest.Close(t, form+": continued", cont.Dispersion, whole.Dispersion, tol)
		s, _ := fit(t, "adf", m, a)
		o, _ := fit(t, "adf", m, b)
		if err := s.Merge(context.Background(), o.Clone()); err != nil {
			t.Fatal(err)
		}
		merged, err := s.Fit(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(merged.Dispersion/whole.Dispersion-1) > 0.05 {
			t.Errorf("%s: noise variance of merged parts %v, of one run %v", form, merged.Dispersion, whole.Dispersion)
		}
	}
}

// level makes n rows of an intercept alone, y uniform on [lo, hi].
func level(n int, lo, hi float64) kernels.Batch {
	r := rand.New(rand.NewPCG(5, 5))
	var b kernels.Batch
	b.Reset()
	for range n {
		b.Add(0, 1)
		b.EndRow()
		b.Y = append(b.Y, lo+(hi-lo)*r.Float64())
	}
	return b
}

// slice is rows i to j of b.
func slice(b kernels.Batch, i, j int) kernels.Batch {
	var c kernels.Batch
	c.Reset()
	for r := i; r < j; r++ {
		for e := b.Row[r]; e < b.Row[r+1]; e++ {
			c.Add(b.Feature[e], b.Value[e])
		}
		c.EndRow()
		c.Y = append(c.Y, b.Y[r])
	}
	return c
}

func automatic(t *testing.T, o kernels.Options, prior kernels.Prior) kernels.Model {
	t.Helper()
	l, err := lik.New("gaussian", "", lik.Params{Dispersion: 1})
	if err != nil {
		t.Fatal(err)
	}
	o.AutoDispersion = true
	return kernels.Model{Lik: l, Params: lik.Params{Dispersion: 1}, Prior: prior, Options: o}
}

// An intercept under a vague prior is the mean, its variance s²/n, and the dispersion
// s², wherever the responses lie and whatever their unit; in rows one by one merged too.
func TestDispersionVague(t *testing.T) {
	for _, at := range [][2]float64{{100, 200}, {9999, 10001}, {-1e-2, 1e-2}, {0, 1e6}} {
		for _, n := range []int{3, 20, 400} {
			b := level(n, at[0], at[1])
			mean, s2 := 0.0, 0.0
			for _, y := range b.Y {
				mean += y / float64(n)
			}
			for _, y := range b.Y {
				s2 += (y - mean) * (y - mean) / float64(n-1)
			}
			check := func(what string, f *kernels.Fit, rel float64) {
				t.Helper()
				w := f.Beliefs[0].Weight
				sd := math.Sqrt(s2 / float64(n))
				if math.Abs(w.Mean-mean) > 0.1*sd {
					t.Errorf("%s %v, n = %d: mean %v, want %v ± %v", what, at, n, w.Mean, mean, sd)
				}
				kerneltest.Close(t, fmt.Sprintf("%s %v, n = %d: dispersion", what, at, n), f.Dispersion, s2, kerneltest.Tol{Rel: rel})
				// What the first rows weigh follows their dispersion to its own uncertainty.
				kerneltest.Close(t, fmt.Sprintf("%s %v, n = %d: variance", what, at, n), w.Variance, s2/float64(n), kerneltest.Tol{Rel: 1.5 * math.Sqrt(2/float64(n))})
			}
			for _, form := range []string{"diagonal", "full", "lowrank"} {
				if form == "lowrank" && at[0] == 9999 {
					continue // Woodbury's formula has no digits for 10^13 of prior in one of noise
				}
				m := automatic(t, kernels.Options{Covariance: form}, kernels.Prior{Variance: 1, InterceptVariance: 1e4 * math.Max(at[0]*at[0], at[1]*at[1])})
				_, f := fit(t, "adf", m, b)
				check("adf "+form, f, 0.05)
				whole, _ := fit(t, "adf", m, slice(b, 0, 1))
				for i := 1; i < n; i++ {
					part, _ := fit(t, "adf", m, slice(b, i, i+1))
					if err := whole.Merge(context.Background(), part); err != nil {
						t.Fatal(err)
					}
				}
				merged, err := whole.Fit(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				check("merged "+form, merged.Fit, 0.05)
			}
		}
	}
}

// With many vague weights, of which the first rows determine one each, the dispersion and
// the beliefs are those of the evidence's maximum, to the uncertainty of a dispersion.
func TestDispersionManyWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	const p, n = 20, 200
	var b kernels.Batch
	b.Reset()
	for range n {
		eta := 300.0
		b.Add(0, 1)
		for j := 1; j < p; j++ {
			x := r.NormFloat64()
			b.Add(uint32(j), x)
			eta += 20 * x * float64(j%3-1)
		}
		b.EndRow()
		b.Y = append(b.Y, eta+5*r.NormFloat64())
	}
	prior := kernels.Prior{Variance: 1e4, InterceptVariance: 1e6}
	fitted := func(method, form string) *kernels.Fit {
		e, _ := Find(method)
		m := automatic(t, kernels.Options{Covariance: form}, prior)
		s, err := e.New(context.Background(), &m)
		if err != nil {
			t.Fatal(err)
		}
		for j := 1; j < p; j++ {
			if _, err := s.Features().Add(fmt.Sprint("x", 10+j)); err != nil {
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
	want := fitted("laplace", "")
	for _, form := range []string{"full", "lowrank"} {
		for _, method := range []string{"adf", "sequential_laplace", "ekf"} {
			got := fitted(method, form)
			kerneltest.Close(t, method+" "+form+": dispersion", got.Dispersion, want.Dispersion, kerneltest.Tol{Rel: 0.05})
			for i, w := range want.Beliefs {
				if d := math.Abs(got.Beliefs[i].Mean-w.Mean) / math.Sqrt(w.Variance); d > 0.35 {
					t.Errorf("%s %s: mean of %s off by %.2f standard deviations", method, form, w.Feature, d)
				}
				kerneltest.Close(t, method+" "+form+": variance of "+w.Feature, got.Beliefs[i].Variance, w.Variance, kerneltest.Tol{Rel: 0.25}) // D has a standard error of 0.105
			}
		}
	}
}

// A run continued from its fit is the uninterrupted one, bit for bit, dispersion
// included, wherever it is cut.
func TestDispersionContinues(t *testing.T) {
	b := gaussianRows(60, 3)
	for i := range b.Y {
		b.Y[i] = 50 + 40*b.Y[i]
	}
	for _, c := range []struct{ method, form string }{{"adf", "diagonal"}, {"adf", "full"}, {"sequential_laplace", "full"}, {"ekf", "full"}} {
		m := automatic(t, kernels.Options{Covariance: c.form}, kernels.Prior{Variance: 100, InterceptVariance: 1e5})
		_, whole := fit(t, c.method, m, b)
		for _, cut := range []int{1, 2, 3, 4, 7, 20, 59} {
			_, first := fit(t, c.method, m, slice(b, 0, cut))
			next := m
			next.Start = first
			var err error
			if next.Lik, err = lik.New("gaussian", "", lik.Params{Dispersion: first.Dispersion}); err != nil {
				t.Fatal(err)
			}
			_, cont := fit(t, c.method, next, slice(b, cut, 60))
			if cont.Dispersion != whole.Dispersion || cont.LogEvidence != whole.LogEvidence {
				t.Errorf("%s %s, cut at %d: dispersion %v, log evidence %v, want %v, %v", c.method, c.form, cut, cont.Dispersion, cont.LogEvidence, whole.Dispersion, whole.LogEvidence)
			}
			for i, w := range whole.Beliefs {
				if cont.Beliefs[i] != w {
					t.Errorf("%s %s, cut at %d: %v, want %v", c.method, c.form, cut, cont.Beliefs[i], w)
				}
			}
		}
	}
}

// The evidence of states that are merged, from the prior or from one fit, is log N(y; 0, D I + X
// Λ0⁻¹ Xᵀ) at their D.
func TestEvidenceOfMergedStates(t *testing.T) {
	const n = 160
	b := gaussianRows(n, 3)
	prior := kernels.Prior{Variance: 0.5, InterceptVariance: 4}
	variance := []float64{prior.InterceptVariance, prior.Variance, prior.Variance}
	exact := func(d float64) float64 {
		s := dense.New(n, n)
		for i := range n {
			s.Set(i, i, d)
			for j := range n {
				for e := range 3 {
					s.Set(i, j, s.At(i, j)+b.Value[3*i+e]*variance[e]*b.Value[3*j+e])
				}
			}
		}
		if err := dense.Cholesky(s); err != nil {
			t.Fatal(err)
		}
		sum, e := -0.5*(n*math.Log(2*math.Pi)+dense.LogDet(s)), make([]float64, n)
		for i := range n {
			e[i] = (b.Y[i] - dense.Dot(s.Row(i)[:i], e[:i])) / s.At(i, i)
			sum -= 0.5 * e[i] * e[i]
		}
		return sum
	}
	for _, form := range []string{"full", "arrowhead", "lowrank"} {
		for _, start := range []int{0, 20} {
			for _, k := range []int{1, 2, 4} {
				m := automatic(t, kernels.Options{Covariance: form}, prior)
				if start > 0 {
					_, m.Start = fit(t, "adf", m, slice(b, 0, start))
					m.Params.Dispersion = m.Start.Dispersion
					l, err := lik.New("gaussian", "", m.Params)
					if err != nil {
						t.Fatal(err)
					}
					m.Lik = l
				}
				var whole Fitter
				for j := range k {
					at := func(j int) int { return start + j*(n-start)/k }
					part, _ := fit(t, "adf", m, slice(b, at(j), at(j+1)))
					if whole == nil {
						whole = part
					} else if err := whole.Merge(context.Background(), part); err != nil {
						t.Fatal(err)
					}
				}
				merged, err := whole.Fit(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				f := merged.Fit
				what := fmt.Sprintf("%s, from %d rows on, %d parts", form, start, k)
				within := 0.001
				if form == "lowrank" {
					within = 0.05
				}
				if k > 1 { // parts have the squares under their own noise
					within = 0.2
					if start > 0 {
						within = 1
					}
				}
				kerneltest.Close(t, what+": log evidence", f.LogEvidence, exact(f.Dispersion), kerneltest.Tol{Abs: within})
			}
		}
	}
}

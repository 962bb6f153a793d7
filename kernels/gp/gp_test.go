package gp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/special"
)

func likelihood(t testing.TB, family, link string, dispersion, shape float64) lik.Likelihood {
	t.Helper()
	l, err := lik.New(family, link, lik.Params{Dispersion: dispersion, Shape: shape})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// every calls f for each family and link, with a random response and trials for it.
func every(t *testing.T, f func(t *testing.T, l lik.Likelihood)) {
	for _, info := range lik.Families() {
		for _, link := range info.Links {
			t.Run(info.Family+"_"+link, func(t *testing.T) {
				shape := 2.0
				if info.Family == "studentt" {
					shape = 4
				}
				f(t, likelihood(t, info.Family, link, 0.3, shape))
			})
		}
	}
}

// problem is random rows with responses that fit the family.
type problem struct {
	x                         *dense.Matrix
	y, weight, offset, trials []float64
}

func random(r *rand.Rand, l lik.Likelihood, n, d int) problem {
	p := problem{x: dense.New(n, d), y: make([]float64, n), offset: make([]float64, n), weight: make([]float64, n)}
	if l.Traits().Trials {
		p.trials = make([]float64, n)
	}
	for i := range n {
		for j := range d {
			p.x.Set(i, j, r.NormFloat64())
		}
		p.offset[i], p.weight[i] = 0.3*r.NormFloat64(), 0.5+r.Float64()
		s := p.offset[i]
		if d > 0 {
			s += math.Sin(2 * p.x.At(i, 0))
		}
		switch is := l.Traits(); {
		case is.Binary:
			if r.Float64() < l.Response(s) {
				p.y[i] = 1
			}
		case is.Trials:
			p.trials[i] = 8
			for range 8 {
				if r.Float64() < l.Response(s) {
					p.y[i]++
				}
			}
		case is.Counts:
			p.y[i] = math.Floor(math.Exp(s+0.5) * 2 * r.Float64())
		case l.Check(lik.Obs{Y: -1, Weight: 1}) != nil: // positive
			p.y[i] = math.Exp(s) * r.ExpFloat64()
		default:
			p.y[i] = s + 0.5*r.NormFloat64()
			if i%7 == 3 {
				p.y[i] += 3
			}
		}
	}
	return p
}

func (p problem) fit(t testing.TB, l lik.Likelihood, o Options) *Posterior {
	t.Helper()
	f, err := Fit(context.Background(), l, p.x, p.y, p.weight, p.offset, p.trials, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	return f
}

// naive is the kernel matrix between rows of a and b, written out.
func naive(kernel string, a, b *dense.Matrix, length, signal float64) *mat.Dense {
	k := mat.NewDense(a.Rows, b.Rows, nil)
	k.Apply(func(i, j int, _ float64) float64 {
		var r2, xx float64
		for c := range a.Cols {
			u, v := a.At(i, c), b.At(j, c)
			r2 += (u - v) * (u - v) / length / length
			xx += u * v / length / length
		}
		r := math.Sqrt(r2)
		switch kernel {
		case "rbf":
			return signal * math.Exp(-r2/2)
		case "matern32":
			return signal * (1 + math.Sqrt(3)*r) * math.Exp(-math.Sqrt(3)*r)
		case "matern52":
			return signal * (1 + math.Sqrt(5)*r + 5*r2/3) * math.Exp(-math.Sqrt(5)*r)
		}
		return signal * xx
	}, k)
	return k
}

// rowOf finds a row of the data: a posterior may hold them in another order.
func rowOf(x *dense.Matrix, row []float64) int {
	for i := range x.Rows {
		if reflect.DeepEqual(x.Row(i), row) {
			return i
		}
	}
	return -1
}

// H1: at the mode alpha = ∇ log p(y|f̂), with f̂ = mean + K alpha taken by Predict, in
// every family. Nine digits of K alpha survive where it is the sum of 60 terms near 1.
func TestMode(t *testing.T) {
	every(t, func(t *testing.T, l lik.Likelihood) {
		for _, kernel := range Kernels {
			p := random(rand.New(rand.NewPCG(1, 2)), l, 60, 2)
			f := p.fit(t, l, Options{Kernel: kernel, Lengthscale: 0.7, SignalVariance: 1.3, Mean: 0.2})
			if !f.Converged || f.Status != "ok" {
				t.Fatalf("%s: %s", kernel, f.Status)
			}
			var s Scratch
			d := &data{Data: mode.Data{Lik: l, Y: p.y, Weight: p.weight, Trials: p.trials}}
			for a := range p.x.Rows {
				i := rowOf(p.x, f.X.Row(a))
				m, _ := f.Predict(f.X.Row(a), &s)
				_, d1, _ := l.LogLik(d.Obs(i), m+p.offset[i])
				kerneltest.Close(t, kernel+" residual", f.Alpha[a], d1, kerneltest.Tol{Rel: 1e-9, Abs: 1e-9})
			}
		}
	})
}

// Evidence, means and variances are what the textbook formulas give by general LU
// decompositions, negative curvatures included: log |I + KW| and K(I + WK)⁻¹.
func TestAgainstDenseAlgebra(t *testing.T) {
	signed := 0
	every(t, func(t *testing.T, l lik.Likelihood) {
		for _, kernel := range Kernels {
			p := random(rand.New(rand.NewPCG(3, 4)), l, 40, 2)
			const length, signal, mean = 0.9, 0.8, -0.1
			f := p.fit(t, l, Options{Kernel: kernel, Lengthscale: length, SignalVariance: signal, Mean: mean})
			if f.Negative > 0 {
				signed++
			}
			n := len(p.y)
			k := naive(kernel, f.X, f.X, length, signal)
			alpha := mat.NewVecDense(n, f.Alpha)
			var latent mat.VecDense
			latent.MulVec(k, alpha)
			d := &data{Data: mode.Data{Lik: l, Y: p.y, Weight: p.weight, Trials: p.trials}}
			want := -0.5 * mat.Dot(alpha, &latent)
			w := mat.NewDense(n, n, nil)
			for a := range n {
				i := rowOf(p.x, f.X.Row(a))
				logp, _, d2 := l.LogLik(d.Obs(i), mean+latent.AtVec(a)+p.offset[i])
				want += logp
				w.Set(a, a, -d2)
				if (a >= n-f.Negative) != (d2 > 0) {
					t.Errorf("row %d of %d, of which %d are negative, has curvature %v", a, n, f.Negative, -d2)
				}
			}
			var b mat.Dense // I + WK
			b.Mul(w, k)
			for a := range n {
				b.Set(a, a, b.At(a, a)+1)
			}
			var lu mat.LU
			lu.Factorize(&b)
			det, _ := lu.LogDet()
			kerneltest.Close(t, kernel+" evidence", f.LogEvidence, want-0.5*det, kerneltest.Tol{Rel: 1e-9})

			var s Scratch
			to := random(rand.New(rand.NewPCG(5, 6)), l, 9, 2).x
			ks := naive(kernel, f.X, to, length, signal)
			kss := naive(kernel, to, to, length, signal)
			var wk, r mat.Dense
			wk.Mul(w, ks)
			if err := lu.SolveTo(&r, false, &wk); err != nil { // (I+WK)⁻¹W k
				t.Fatal(err)
			}
			for j := range to.Rows {
				m, v := f.Predict(to.Row(j), &s)
				kj := ks.ColView(j)
				kerneltest.Close(t, kernel+" mean", m, mean+mat.Dot(kj, alpha), kerneltest.Tol{Rel: 1e-11, Abs: 1e-11})
				kerneltest.Close(t, kernel+" variance", v, kss.At(j, j)-mat.Dot(kj, r.ColView(j)), kerneltest.Tol{Rel: 1e-8, Abs: 1e-11})
			}
		}
	})
	if signed < 4 {
		t.Errorf("only %d fits had negative curvatures", signed)
	}
}

// With a Gaussian likelihood the evidence is log N(y; mean + offset, K + D) and the
// predictions are the conditional ones.
func TestExactRegression(t *testing.T) {
	l := likelihood(t, "gaussian", "identity", 0.3, 0)
	for _, kernel := range Kernels {
		p := random(rand.New(rand.NewPCG(7, 8)), l, 50, 3)
		p.weight = nil
		f := p.fit(t, l, Options{Kernel: kernel, Lengthscale: 1.4, SignalVariance: 2, Mean: 0.5})
		n := len(p.y)
		k := naive(kernel, p.x, p.x, 1.4, 2)
		c := mat.NewSymDense(n, nil)
		r := mat.NewVecDense(n, nil)
		for i := range n {
			for j := range i + 1 {
				c.SetSym(i, j, k.At(i, j))
			}
			c.SetSym(i, i, k.At(i, i)+0.3)
			r.SetVec(i, p.y[i]-p.offset[i]-0.5)
		}
		var ch mat.Cholesky
		if !ch.Factorize(c) {
			t.Fatal("K + D")
		}
		var a mat.VecDense
		if err := ch.SolveVecTo(&a, r); err != nil {
			t.Fatal(err)
		}
		want := -0.5 * (mat.Dot(r, &a) + ch.LogDet() + float64(n)*math.Log(2*math.Pi))
		// cond(K + D) is below 1e3
		tol := kerneltest.Tol{Rel: 1e-11, Abs: 1e-11}
		kerneltest.Close(t, kernel+" evidence", f.LogEvidence, want, tol)
		to := random(rand.New(rand.NewPCG(9, 9)), l, 7, 3).x
		ks := naive(kernel, p.x, to, 1.4, 2)
		kss := naive(kernel, to, to, 1.4, 2)
		var s Scratch
		for j := range to.Rows {
			m, v := f.Predict(to.Row(j), &s)
			kerneltest.Close(t, kernel+" mean", m, 0.5+mat.Dot(ks.ColView(j), &a), tol)
			var u mat.VecDense
			if err := ch.SolveVecTo(&u, ks.ColView(j)); err != nil {
				t.Fatal(err)
			}
			kerneltest.Close(t, kernel+" variance", v, kss.At(j, j)-mat.Dot(ks.ColView(j), &u), tol)
		}
	}
}

// H3: the linear kernel is Bayesian regression with weights N(0, signal/lengthscale²),
// in every family, also where curvatures are negative.
func TestWeightSpace(t *testing.T) {
	every(t, func(t *testing.T, l lik.Likelihood) {
		p := random(rand.New(rand.NewPCG(11, 12)), l, 80, 4)
		f := p.fit(t, l, Options{Kernel: "linear", Lengthscale: 0.8, SignalVariance: 0.5})
		m := &kernels.Model{NoIntercept: true, Lik: l, Prior: kernels.Prior{Variance: 0.5 / 0.64}}
		rows, err := kernels.NewRows(m)
		if err != nil {
			t.Fatal(err)
		}
		base, err := rows.Dict.Dense(4)
		if err != nil {
			t.Fatal(err)
		}
		var b kernels.Batch
		b.Reset()
		for i := range p.y {
			for j, v := range p.x.Row(i) {
				b.Add(uint32(base+j), v)
			}
			b.EndRow()
		}
		b.Y, b.Weight, b.Offset, b.Trials = p.y, p.weight, p.offset, p.trials
		if err := rows.Update(&b, false); err != nil {
			t.Fatal(err)
		}
		problem, err := rows.Problem()
		if err != nil {
			t.Fatal(err)
		}
		g, err := laplace.Fit(context.Background(), problem)
		if err != nil {
			t.Fatal(err)
		}
		// both modes are within 1e-8 deviations; the difference is second order in means
		tol := kerneltest.Tol{Rel: 1e-8, Abs: 1e-8}
		kerneltest.Close(t, "evidence", f.LogEvidence, g.LogEvidence, tol)
		var s Scratch
		var scratch []float64
		for i := range 10 {
			x := p.x.Row(i)
			mean, variance := f.Predict(x, &s)
			want := 0.0
			for j, v := range x {
				want += v * g.Beliefs[j].Mean
			}
			kerneltest.Close(t, "mean", mean, want, tol)
			kerneltest.Close(t, "variance", variance, g.Covariance.Variance([]int{0, 1, 2, 3}, x, &scratch), tol)
		}
	})
}

// The evidence of one and two rows against quadrature over f. Laplace's error falls like
// the square of the signal variance s; duplicates give the same evidence as weight 2.
func TestEvidenceAgainstQuadrature(t *testing.T) {
	every(t, func(t *testing.T, l lik.Likelihood) {
		p := random(rand.New(rand.NewPCG(13, 14)), l, 2, 1)
		p.weight = nil
		d := &data{Data: mode.Data{Lik: l, Y: p.y, Trials: p.trials}, offset: p.offset}
		r := naive("matern32", p.x, p.x, 1, 1).At(0, 1)
		quadrature := func(n int, s float64) float64 {
			const h, reach = 0.1, 9.0
			sum := 0.0
			for u := -reach; u <= reach; u += h {
				f0 := math.Sqrt(s) * u
				a, _, _ := l.LogLik(d.Obs(0), 0.2+f0+p.offset[0])
				if n == 1 {
					sum += math.Exp(a-u*u/2) * h / math.Sqrt(2*math.Pi)
					continue
				}
				for v := -reach; v <= reach; v += h {
					f1 := math.Sqrt(s) * (r*u + math.Sqrt(1-r*r)*v)
					b, _, _ := l.LogLik(d.Obs(1), 0.2+f1+p.offset[1])
					sum += math.Exp(a+b-(u*u+v*v)/2) * h * h / (2 * math.Pi)
				}
			}
			return math.Log(sum)
		}
		for n := 1; n <= 2; n++ {
			one := problem{x: p.x.Slice(0, n, 0, 1), y: p.y[:n], offset: p.offset[:n]}
			if p.trials != nil {
				one.trials = p.trials[:n]
			}
			gap := func(s float64) float64 {
				return math.Abs(one.fit(t, l, Options{Kernel: "matern32", SignalVariance: s, Mean: 0.2}).LogEvidence - quadrature(n, s))
			}
			wide, narrow := gap(0.02), gap(0.002)
			if !(wide < 0.02) || !(narrow < wide/20 || narrow < 1e-10) {
				t.Errorf("n = %d: evidence is off by %.3g at s = 0.02 and %.3g at s = 0.002", n, wide, narrow)
			}
		}
		twice := problem{x: dense.New(2, 1), y: []float64{p.y[0], p.y[0]}}
		once := problem{x: dense.New(1, 1), y: p.y[:1], weight: []float64{2}}
		if p.trials != nil {
			twice.trials, once.trials = []float64{8, 8}, []float64{8}
		}
		a, b := twice.fit(t, l, Options{}), once.fit(t, l, Options{})
		kerneltest.Close(t, "a row twice", a.LogEvidence, b.LogEvidence, kerneltest.Tol{Rel: 1e-12})
		var s Scratch
		ma, va := a.Predict([]float64{0.3}, &s)
		mb, vb := b.Predict([]float64{0.3}, &s)
		kerneltest.Close(t, "mean", ma, mb, kerneltest.Tol{Rel: 1e-9, Abs: 1e-12})
		kerneltest.Close(t, "variance", va, vb, kerneltest.Tol{Rel: 1e-9})
	})
}

// The analytic gradient against differences of the evidence, in all parameters. The
// differences carry the error of the mode, 1e-8 of a deviation, over a step of 0.02.
func TestGradient(t *testing.T) {
	every(t, func(t *testing.T, l lik.Likelihood) {
		for _, kernel := range Kernels {
			p := random(rand.New(rand.NewPCG(1, 2)), l, 40, 2)
			_, dispersed := l.(lik.Dispersed)
			_, shaped := l.(lik.Shaped)
			o := Options{Kernel: kernel, Tol: 1e-11, AutoLengthscale: true, AutoSignalVariance: true, AutoMean: true, AutoDispersion: dispersed, AutoShape: shaped}
			k, err := o.check(l)
			if err != nil {
				t.Fatal(err)
			}
			s := newSearch(&data{mode.Data{Lik: l, Y: p.y, Weight: p.weight, Trials: p.trials}, p.x, p.offset}, newGeometry(k, p.x), o)
			c := newClimber(s, o)
			c.work = workspace{dense.New(40, 40), dense.New(40, 40)}
			c.starts()
			c.unit = 1
			c.free[logLengthscale] = true
			u := vector{-0.3, 0.4, 0.2, math.Log(c.fixed.dispersion), math.Log(c.fixed.shape)}
			if _, err := c.value(u); err != nil {
				t.Fatal(err)
			}
			g := c.gradient()
			for k, free := range c.free {
				if !free {
					continue
				}
				f := func(v float64) float64 {
					at := u
					at[k] = v
					q, err := c.value(at)
					if err != nil {
						t.Fatal(err)
					}
					return q
				}
				kerneltest.Gradient(t, fmt.Sprintf("%s, parameter %d", kernel, k), f, u[k], 0.01, g[k], kerneltest.Tol{Rel: 2e-5, Abs: 2e-5})
			}
		}
	})
}

// planted draws n rows on [0, 10] whose f has lengthscale 1.2 and variance 2.
func planted(r *rand.Rand, n int) (x *dense.Matrix, f []float64) {
	x = dense.New(n, 1)
	for i := range n {
		x.Set(i, 0, 10*r.Float64())
	}
	k := naive("rbf", x, x, 1.2, 2)
	sym := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range i + 1 {
			sym.SetSym(i, j, k.At(i, j))
		}
		sym.SetSym(i, i, k.At(i, i)+1e-9)
	}
	var c mat.Cholesky
	if !c.Factorize(sym) {
		panic("planted")
	}
	var l mat.TriDense
	c.LTo(&l)
	z := mat.NewVecDense(n, nil)
	for i := range n {
		z.SetVec(i, r.NormFloat64())
	}
	var v mat.VecDense
	v.MulVec(&l, z)
	return x, v.RawVector().Data
}

// Parameters by evidence: near the planted ones (300 rows hold some eight lengthscales:
// within a factor 1.6 of length, 4 of variance), and the evidence is a local maximum.
func TestByEvidence(t *testing.T) {
	kerneltest.Slow(t)
	families := []string{"gaussian", "bernoulli", "poisson", "negbinomial"}
	if testing.Short() {
		families = families[:2]
	}
	for _, family := range families {
		r := rand.New(rand.NewPCG(21, 22))
		x, f := planted(r, 300)
		y := make([]float64, len(f))
		o := Options{AutoLengthscale: true, AutoSignalVariance: true, AutoMean: true}
		for i, v := range f {
			v += 0.7
			switch family {
			case "gaussian":
				y[i] = v + 0.3*r.NormFloat64()
				o.AutoDispersion = true
			case "bernoulli":
				if r.Float64() < 1/(1+math.Exp(-v)) {
					y[i] = 1
				}
			default: // Poisson; the negbinomial finds a large shape
				for mu, s := math.Exp(v), r.ExpFloat64(); s < mu; s += r.ExpFloat64() {
					y[i]++
				}
				o.AutoShape = family == "negbinomial"
			}
		}
		p := problem{x: x, y: y}
		l := likelihood(t, family, "", 1, 2)
		at := p.fit(t, l, o)
		t.Logf("%s: lengthscale %.3f, signal %.3f, mean %.3f, dispersion %.4f, shape %.3g: %.3f nats, %d Newton steps, %s",
			family, at.Lengthscale, at.SignalVariance, at.Mean, at.Dispersion, at.Shape, at.LogEvidence, at.Iterations, at.Status)
		if !at.Converged || math.Abs(math.Log(at.Lengthscale/1.2)) > math.Log(1.6) || math.Abs(math.Log(at.SignalVariance/2)) > math.Log(4) {
			t.Errorf("%s: lengthscale %v, want about 1.2; signal variance %v, want about 2 (%s)", family, at.Lengthscale, at.SignalVariance, at.Status)
		}
		if family == "gaussian" && math.Abs(math.Log(at.Dispersion/0.09)) > 0.4 {
			t.Errorf("dispersion %v, want about 0.09", at.Dispersion)
		}
		again := func(change func(o *Options, dispersion, shape *float64)) float64 {
			o := Options{Lengthscale: at.Lengthscale, SignalVariance: at.SignalVariance, Mean: at.Mean}
			dispersion, shape := at.Dispersion, at.Shape
			if math.IsNaN(shape) {
				shape = 0
			}
			change(&o, &dispersion, &shape)
			return p.fit(t, likelihood(t, family, "", dispersion, shape), o).LogEvidence
		}
		kerneltest.Close(t, family+": same evidence at the parameters given", again(func(*Options, *float64, *float64) {}), at.LogEvidence, kerneltest.Tol{Rel: 1e-9})
		const h = 0.02
		for _, step := range []float64{-h, h} {
			for k, q := range []float64{
				again(func(o *Options, _, _ *float64) { o.Lengthscale *= math.Exp(step) }),
				again(func(o *Options, _, _ *float64) { o.SignalVariance *= math.Exp(step) }),
				again(func(o *Options, _, _ *float64) { o.Mean += step }),
			} {
				if q > at.LogEvidence {
					t.Errorf("%s: evidence %v, but %v after a step of %v in parameter %d", family, at.LogEvidence, q, step, k)
				}
			}
		}
	}
}

// Auto parameters where there is nothing to learn them from, and the linear kernel.
func TestByEvidenceEdges(t *testing.T) {
	kerneltest.Slow(t)
	auto := Options{AutoLengthscale: true, AutoSignalVariance: true, AutoMean: true}
	logit := likelihood(t, "bernoulli", "logit", 1, 0)
	for name, p := range map[string]problem{
		"no rows":       {x: dense.New(0, 2), y: []float64{}},
		"one row":       {x: dense.New(1, 2), y: []float64{1}},
		"equal rows":    {x: dense.New(5, 1), y: []float64{1, 0, 1, 1, 0}},
		"one response":  {x: random(rand.New(rand.NewPCG(1, 1)), logit, 30, 2).x, y: make([]float64, 30)},
		"no columns":    {x: dense.New(4, 0), y: []float64{1, 0, 1, 1}},
		"far apart":     {x: &dense.Matrix{Rows: 3, Cols: 1, Stride: 1, Data: []float64{-1e150, 0, 1e150}}, y: []float64{1, 0, 1}},
		"close by":      {x: &dense.Matrix{Rows: 3, Cols: 1, Stride: 1, Data: []float64{1e9, 1e9, 1e9 + 1e-6}}, y: []float64{1, 0, 1}},
		"zero weights":  {x: dense.New(3, 1), y: []float64{1, 0, 1}, weight: make([]float64, 3)},
		"heavy weights": {x: random(rand.New(rand.NewPCG(1, 1)), logit, 4, 2).x, y: []float64{1, 0, 1, 1}, weight: []float64{1e9, 1e9, 1e-9, 0}},
	} {
		for _, kernel := range Kernels {
			auto.Kernel = kernel
			f := p.fit(t, logit, auto)
			if f.Status == "" || !special.Finite(f.LogEvidence) {
				t.Errorf("%s, %s: evidence %v, status %q", name, kernel, f.LogEvidence, f.Status)
			}
			if m, v := f.Predict(make([]float64, p.x.Cols), new(Scratch)); !special.Finite(m) || !(v >= 0) || !special.Finite(v) {
				t.Errorf("%s, %s: predicts N(%v, %v)", name, kernel, m, v)
			}
		}
	}

	p := random(rand.New(rand.NewPCG(5, 5)), logit, 80, 3)
	byLength := p.fit(t, logit, Options{Kernel: "linear", AutoLengthscale: true})
	bySignal := p.fit(t, logit, Options{Kernel: "linear", AutoSignalVariance: true, AutoLengthscale: true, Lengthscale: 3})
	if bySignal.Lengthscale != 3 {
		t.Errorf("lengthscale %v of a linear kernel moved with the signal variance", bySignal.Lengthscale)
	}
	tol := kerneltest.Tol{Rel: 1e-6}
	kerneltest.Close(t, "evidence", byLength.LogEvidence, bySignal.LogEvidence, tol)
	kerneltest.Close(t, "variance of the weights", 1/(byLength.Lengthscale*byLength.Lengthscale), bySignal.SignalVariance/9, kerneltest.Tol{Rel: 1e-2})
}

// The unit of responses does not matter to what is learnt, not where most are equal either.
func TestByEvidenceUnit(t *testing.T) {
	x, y := dense.New(30, 1), make([]float64, 30)
	for i := range y {
		x.Row(i)[0] = float64(i) / 3
		if i%9 == 4 {
			y[i] = 1 + 0.2*math.Sin(float64(i))
		}
	}
	l := likelihood(t, "gaussian", "", 1, 0)
	o := Options{AutoLengthscale: true, AutoSignalVariance: true, AutoMean: true, AutoDispersion: true}
	fit := func(unit float64) (log, mean, variance float64) {
		z := make([]float64, len(y))
		for i, v := range y {
			z[i] = unit * v
		}
		f := problem{x: x, y: z}.fit(t, l, o)
		m, v := f.Predict([]float64{4.4}, new(Scratch))
		return f.LogEvidence + float64(len(y))*math.Log(unit), m / unit, v / unit / unit
	}
	log, mean, variance := fit(1)
	for _, unit := range []float64{1e-7, 1e7} {
		log1, mean1, variance1 := fit(unit)
		tol := kerneltest.Tol{Rel: 1e-3}
		kerneltest.Close(t, "log evidence", log1, log, tol)
		kerneltest.Close(t, "mean", mean1, mean, tol)
		kerneltest.Close(t, "variance", variance1, variance, tol)
	}
}

// Responses far from the mean given have a process as large as that, or noise.
func TestByEvidenceFarMean(t *testing.T) {
	x, y := dense.New(30, 1), make([]float64, 30)
	for i := range y {
		u := float64(i) / 3
		x.Row(i)[0], y[i] = u, 1013+math.Sin(u)+0.1*math.Cos(float64(i*i))
	}
	p := problem{x: x, y: y}
	at := p.fit(t, likelihood(t, "gaussian", "", 1, 0), Options{AutoLengthscale: true, AutoSignalVariance: true, AutoDispersion: true})
	q := p.fit(t, likelihood(t, "gaussian", "", 0.01, 0), Options{Lengthscale: 6, SignalVariance: 1e6}).LogEvidence
	if at.LogEvidence < q {
		t.Errorf("log evidence %v (%s), but %v at the parameters of a process about 1000 large", at.LogEvidence, at.Status, q)
	}
	at = p.fit(t, likelihood(t, "gaussian", "", 1, 0), Options{AutoLengthscale: true, AutoDispersion: true})
	q = p.fit(t, likelihood(t, "gaussian", "", 1013*1013, 0), Options{Lengthscale: 100}).LogEvidence
	if at.LogEvidence < q {
		t.Errorf("log evidence %v (%s), but %v of noise about 1000 large", at.LogEvidence, at.Status, q)
	}
}

// Counts up to 1e9 from a prior mean of 1: exp does not overflow on the way.
func TestLargeCounts(t *testing.T) {
	for _, family := range []string{"poisson", "negbinomial", "gamma"} {
		l := likelihood(t, family, "log", 1, 3)
		p := problem{x: dense.New(6, 1), y: []float64{1, 0, 1e3, 1e9, 7, 1e6}}
		for i := range p.y {
			p.x.Set(i, 0, float64(i))
			if family == "gamma" && p.y[i] == 0 {
				p.y[i] = 1e-9
			}
		}
		f := p.fit(t, l, Options{Lengthscale: 0.5, SignalVariance: 1e6})
		if !f.Converged || f.Status != "ok" {
			t.Errorf("%s: %s", family, f.Status)
		}
		for i, y := range p.y {
			if m, _ := f.Predict(p.x.Row(i), new(Scratch)); y > 10 {
				kerneltest.Close(t, family+" f", m, math.Log(y), kerneltest.Tol{Rel: 0.01})
			}
		}
	}
}

func TestPriorAndConstantInputs(t *testing.T) {
	l := likelihood(t, "poisson", "log", 1, 0)
	f := problem{x: dense.New(0, 2), y: []float64{}}.fit(t, l, Options{SignalVariance: 3, Mean: -1})
	if m, v := f.Predict([]float64{1, 2}, new(Scratch)); m != -1 || v != 3 || f.LogEvidence != 0 || !f.Converged {
		t.Errorf("without rows f ~ N(%v, %v), evidence %v, %s; want N(-1, 3)", m, v, f.LogEvidence, f.Status)
	}
	// equal rows are one latent value: the Poisson with one prior N(0, 2)
	p := problem{x: dense.New(9, 2), y: []float64{3, 1, 4, 1, 5, 9, 2, 6, 5}}
	f = p.fit(t, l, Options{SignalVariance: 2})
	m, v := f.Predict([]float64{0, 0}, new(Scratch))
	// Ψ' = 36 - 9 e^m - m/2 = 0, v = 1/(9 e^m + 1/2)
	kerneltest.Close(t, "mode", 36-9*math.Exp(m), m/2, kerneltest.Tol{Abs: 1e-9})
	kerneltest.Close(t, "variance", v, 1/(9*math.Exp(m)+0.5), kerneltest.Tol{Rel: 1e-12})
}

// Data so precise that K + W⁻¹ is singular in doubles still give predictions and say so.
func TestRounding(t *testing.T) {
	l := likelihood(t, "gaussian", "identity", 1e-18, 0)
	p := problem{x: dense.New(40, 1), y: make([]float64, 40)}
	for i := range p.y {
		p.x.Set(i, 0, float64(i)/10)
		p.y[i] = math.Sin(p.x.At(i, 0))
	}
	f := p.fit(t, l, Options{Lengthscale: 2})
	m, v := f.Predict([]float64{1.234}, new(Scratch))
	kerneltest.Close(t, "interpolation", m, math.Sin(1.234), kerneltest.Tol{Abs: 1e-4})
	if !(v >= 0 && v < 1e-4) || f.Status == "ok" {
		t.Errorf("variance %v, status %q", v, f.Status)
	}
}

func TestErrors(t *testing.T) {
	l := likelihood(t, "bernoulli", "logit", 1, 0)
	x, y := dense.New(2, 1), []float64{0, 1}
	nan := math.NaN()
	for _, c := range []struct {
		want string
		row  bool
		call func() error
	}{
		{`kernel = "rfb"; allowed: rbf, matern32, matern52, linear`, false, func() error {
			_, err := Fit(context.Background(), l, x, y, nil, nil, nil, Options{Kernel: "rfb"})
			return err
		}},
		{"lengthscale: found -1; allowed: a finite number > 0", false, func() error {
			_, err := Fit(context.Background(), l, x, y, nil, nil, nil, Options{Lengthscale: -1})
			return err
		}},
		{"signal_variance: found +Inf", false, func() error {
			_, err := Fit(context.Background(), l, x, y, nil, nil, nil, Options{SignalVariance: math.Inf(1)})
			return err
		}},
		{"mean: found NaN", false, func() error {
			_, err := Fit(context.Background(), l, x, y, nil, nil, nil, Options{Mean: nan})
			return err
		}},
		{"max_iter: found -1", false, func() error {
			_, err := Fit(context.Background(), l, x, y, nil, nil, nil, Options{MaxIter: -1})
			return err
		}},
		{"tol: found -1", false, func() error {
			_, err := Fit(context.Background(), l, x, y, nil, nil, nil, Options{Tol: -1})
			return err
		}},
		{"time_limit: found -1", false, func() error {
			_, err := Fit(context.Background(), l, x, y, nil, nil, nil, Options{TimeLimit: -time.Second})
			return err
		}},
		{"shape: found 'auto'; bernoulli has none", false, func() error {
			_, err := Fit(context.Background(), l, x, y, nil, nil, nil, Options{AutoShape: true})
			return err
		}},
		{"y has 1 values for the 2 rows of x", false, func() error { _, err := Fit(context.Background(), l, x, y[:1], nil, nil, nil, Options{}); return err }},
		{"weight has 1 values", false, func() error { _, err := Fit(context.Background(), l, x, y, y[:1], nil, nil, Options{}); return err }},
		{"row 2: y = 3: bernoulli takes 0 or 1", true, func() error {
			_, err := Fit(context.Background(), l, x, []float64{0, 3}, nil, nil, nil, Options{})
			return err
		}},
		{"row 1: offset = NaN", true, func() error {
			_, err := Fit(context.Background(), l, x, y, nil, []float64{nan, 0}, nil, Options{})
			return err
		}},
		{"row 1: x[1] = 1e+200", true, func() error {
			_, err := Fit(context.Background(), l, &dense.Matrix{Rows: 1, Cols: 1, Stride: 1, Data: []float64{1e200}}, y[:1], nil, nil, nil, Options{})
			return err
		}},
		{"row 1: the kernel at this row is +Inf", true, func() error {
			_, err := Fit(context.Background(), l, &dense.Matrix{Rows: 1, Cols: 1, Stride: 1, Data: []float64{1e150}}, y[:1], nil, nil, nil, Options{Kernel: "linear", SignalVariance: 1e20})
			return err
		}},
		{"10001 rows; allowed: up to 10000", false, func() error {
			_, err := Fit(context.Background(), l, dense.New(10001, 0), make([]float64, 10001), nil, nil, nil, Options{})
			return err
		}},
		{"not a positive finite number at the prior mean", true, func() error {
			_, err := Fit(context.Background(), likelihood(t, "poisson", "", 1, 0), x, y, nil, nil, nil, Options{Mean: 1e4})
			return err
		}},
	} {
		err := c.call()
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, kernels.ErrRow) != c.row {
			t.Errorf("got %v (a row's: %v), want %q", err, errors.Is(err, kernels.ErrRow), c.want)
		}
	}

	f := problem{x: x, y: y}.fit(t, l, Options{})
	for _, x := range [][]float64{{1, 2}, {nan}} {
		if m, v := f.Predict(x, new(Scratch)); !math.IsNaN(m) || !math.IsNaN(v) || f.CheckInput(x) == nil {
			t.Errorf("x = %v predicts N(%v, %v)", x, m, v)
		}
	}
	broken := *f
	broken.Root = broken.Root[1:]
	if _, err := NewPredictor(&broken, predict.Exact); err == nil {
		t.Error("a root that is too short passes")
	}
}

func TestLimits(t *testing.T) {
	l := likelihood(t, "poisson", "log", 1, 0)
	p := random(rand.New(rand.NewPCG(1, 1)), l, 100, 2)
	p.y[3] = 1e4
	f := p.fit(t, l, Options{MaxIter: 1})
	if f.Converged || !strings.Contains(f.Status, "no convergence in 1 Newton steps") {
		t.Errorf("converged %v, status %q", f.Converged, f.Status)
	}
	f = p.fit(t, l, Options{TimeLimit: 1, AutoLengthscale: true, AutoSignalVariance: true})
	if f.Converged || !strings.Contains(f.Status, "time limit") {
		t.Errorf("converged %v, status %q", f.Converged, f.Status)
	}
	f = p.fit(t, l, Options{TimeLimit: 20 * time.Millisecond, AutoLengthscale: true, AutoSignalVariance: true, AutoMean: true})
	if strings.Contains(f.Status, "steps of the parameters") { // the best so far, at its mode
		again := p.fit(t, l, Options{Lengthscale: f.Lengthscale, SignalVariance: f.SignalVariance, Mean: f.Mean})
		kerneltest.Close(t, "evidence at the time limit", f.LogEvidence, again.LogEvidence, kerneltest.Tol{Rel: 1e-9})
	}
	f = p.fit(t, l, Options{MaxIter: 20, AutoLengthscale: true, AutoSignalVariance: true, TimeLimit: time.Hour})
	if !f.Converged {
		t.Error(f.Status)
	}
}

// The answer does not depend on how many processors there are.
func TestDeterministic(t *testing.T) {
	l := likelihood(t, "bernoulli", "probit", 1, 0)
	p := random(rand.New(rand.NewPCG(1, 1)), l, 150, 3)
	o := Options{AutoLengthscale: true, AutoSignalVariance: true, AutoMean: true, Kernel: "matern52"}
	want := p.fit(t, l, o)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	got := p.fit(t, l, o)
	got.Shape, want.Shape = 0, 0 // NaN
	if !reflect.DeepEqual(got, want) {
		t.Errorf("evidence %v with one processor, %v with all", got.LogEvidence, want.LogEvidence)
	}
}

func TestPredictor(t *testing.T) {
	l := likelihood(t, "bernoulli", "logit", 1, 0)
	p := random(rand.New(rand.NewPCG(1, 1)), l, 60, 2)
	f := p.fit(t, l, Options{})
	x := []float64{0.4, -0.2}
	m, v := f.Predict(x, new(Scratch))
	m += 0.3
	exact, _ := l.Predict(m, v)
	for _, c := range []struct {
		how  predict.Kind
		want float64
	}{{predict.Exact, exact}, {predict.MacKay, l.Moderated(m, v)}, {predict.Plugin, l.Response(m)}} {
		r, err := NewPredictor(f, c.how)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Response(x, 0.3)
		if err != nil {
			t.Fatal(err)
		}
		kerneltest.Close(t, c.how.String(), got, c.want, kerneltest.Tol{Rel: 1e-14})
		if _, err := r.Response(x[:1], 0); err == nil {
			t.Error("a short x is predicted")
		}
	}
}

// Order of rows, origin of x, and its unit (with the lengthscale's) change nothing.
func TestInvariance(t *testing.T) {
	l := likelihood(t, "bernoulli", "probit", 1, 0)
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		n, d := rapid.IntRange(1, 20).Draw(t, "n"), rapid.IntRange(1, 4).Draw(t, "d")
		kernel := rapid.SampledFrom(Kernels[:3]).Draw(t, "kernel")
		length, signal := math.Exp(r.NormFloat64()), math.Exp(2*r.NormFloat64())
		p := random(r, l, n, d)
		unit, origin := rapid.Float64Range(1e-3, 1e3).Draw(t, "unit"), rapid.Float64Range(-10, 10).Draw(t, "origin")
		q := problem{x: dense.New(n, d), y: make([]float64, n), weight: make([]float64, n), offset: make([]float64, n)}
		move := func(x []float64) []float64 {
			out := make([]float64, d)
			for j, v := range x {
				out[j] = (v + origin) * unit
			}
			return out
		}
		for a, i := range r.Perm(n) {
			copy(q.x.Row(a), move(p.x.Row(i)))
			q.y[a], q.weight[a], q.offset[a] = p.y[i], p.weight[i], p.offset[i]
		}
		o := Options{Kernel: kernel, Lengthscale: length, SignalVariance: signal}
		f, err := Fit(context.Background(), l, p.x, p.y, p.weight, p.offset, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		o.Lengthscale *= unit
		g, err := Fit(context.Background(), l, q.x, q.y, q.weight, q.offset, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		// a move by 10 costs a digit of the distances, the mode is good to 1e-8
		near := func(what string, a, b float64) {
			if math.Abs(a-b) > 1e-8*(1+math.Abs(b)+signal) {
				t.Errorf("%s: %v and %v", what, a, b)
			}
		}
		near("evidence", f.LogEvidence, g.LogEvidence)
		x := make([]float64, d)
		x[0] = r.NormFloat64()
		m, v := f.Predict(x, new(Scratch))
		gm, gv := g.Predict(move(x), new(Scratch))
		near("mean", m, gm)
		near("variance", v, gv)
		if v > signal {
			t.Errorf("variance %v above the prior's %v", v, signal)
		}
	})
}

// No panic and nothing that is not finite, whatever the rows.
func FuzzFit(f *testing.F) {
	f.Add(uint64(1), uint8(5), uint8(0), uint8(0), 1.0, 1.0, 1.0, false)
	f.Add(uint64(2), uint8(3), uint8(7), uint8(3), 1e100, 1e-100, 1e100, true)
	f.Add(uint64(3), uint8(9), uint8(9), uint8(1), 0.0, 1e300, 1e-300, true)
	f.Add(uint64(4), uint8(0), uint8(4), uint8(2), 1e-200, 1.0, 1e5, true)
	f.Add(uint64(5), uint8(8), uint8(10), uint8(2), 10.0, 1.0, 1e12, false)
	f.Fuzz(func(t *testing.T, seed uint64, n, family, kernel uint8, size, length, signal float64, auto bool) {
		infos := lik.Families()
		info := infos[int(family)%len(infos)]
		l, err := lik.New(info.Family, info.Links[int(family/16)%len(info.Links)], lik.Params{Dispersion: 0.5, Shape: 3})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(seed, 1))
		p := random(r, l, int(n)%12, int(seed%4))
		for i := range p.x.Data {
			p.x.Data[i] = math.Trunc(p.x.Data[i]*2) * size
		}
		for i := range p.weight {
			p.weight[i] *= math.Abs(math.Mod(size, 1e6))
			if i == 0 && (info.Family == "poisson" || info.Family == "gaussian" || info.Family == "studentt") {
				p.y[i] = math.Trunc(math.Abs(size))
			}
		}
		o := Options{Kernel: Kernels[int(kernel)%len(Kernels)], Lengthscale: length, SignalVariance: signal, MaxIter: 15}
		if auto {
			_, dispersed := l.(lik.Dispersed)
			_, shaped := l.(lik.Shaped)
			o.AutoLengthscale, o.AutoSignalVariance, o.AutoMean = true, seed%2 == 0, seed%3 == 0
			o.AutoDispersion, o.AutoShape = dispersed && seed%5 > 2, shaped && seed%7 > 3
		}
		g, err := Fit(context.Background(), l, p.x, p.y, p.weight, p.offset, p.trials, o)
		if err != nil {
			return
		}
		if err := g.Check(); err != nil || !special.Finite(g.LogEvidence) || g.Status == "" || g.Converged && strings.HasPrefix(g.Status, "no ") {
			t.Fatalf("%v: evidence %v, converged %v, status %q", err, g.LogEvidence, g.Converged, g.Status)
		}
		if m, v := g.Predict(make([]float64, p.x.Cols), new(Scratch)); !special.Finite(m) || !(v >= 0) || !special.Finite(v) {
			t.Fatalf("N(%v, %v)", m, v)
		}
	})
}

// A GP through five yes-or-no answers.
func ExampleFit() {
	l, _ := lik.New("bernoulli", "probit", lik.Params{})
	x := dense.New(5, 1)
	copy(x.Data, []float64{-2, -1, 0, 1, 2})
	f, err := Fit(context.Background(), l, x, []float64{0, 0, 1, 1, 1}, nil, nil, nil, Options{Kernel: "matern52", Lengthscale: 1.5, SignalVariance: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, _ := NewPredictor(f, predict.Exact)
	for _, at := range []float64{-2, 0.5, 20} {
		p, _ := r.Response([]float64{at}, 0)
		fmt.Printf("P(y = 1 | x = %v) = %.3f\n", at, p)
	}
	fmt.Printf("log evidence %.3f, %s\n", f.LogEvidence, f.Status)
	// Output:
	// P(y = 1 | x = -2) = 0.209
	// P(y = 1 | x = 0.5) = 0.803
	// P(y = 1 | x = 20) = 0.500
	// log evidence -3.121, ok
}

// Standardised points are points that were standardised before, lengthscales in that unit,
// whatever scale they came in; a column of equal numbers says nothing.
func TestStandardize(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	l, err := lik.New("bernoulli", "logit", lik.Params{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 40
	raw, z := dense.New(n, 3), dense.New(n, 2)
	y, w := make([]float64, n), make([]float64, n)
	var mean, square [2]float64
	total := 0.0
	for i := range n {
		w[i] = 0.5 + rng.Float64()
		u, v := rng.NormFloat64(), rng.NormFloat64()
		raw.Row(i)[0], raw.Row(i)[1], raw.Row(i)[2] = 1.6e9+3e6*u, 1e-7*v, 7
		if u*v > 0 {
			y[i] = 1
		}
		total += w[i]
		for j := range 2 {
			d := (raw.At(i, j) - mean[j]) * w[i] / total
			square[j] += (total - w[i]) * d * (raw.At(i, j) - mean[j])
			mean[j] += d
		}
	}
	for i := range n {
		for j := range 2 {
			z.Row(i)[j] = (raw.At(i, j) - mean[j]) / math.Sqrt(square[j]/total)
		}
	}
	for _, kernel := range Kernels {
		o := Options{Kernel: kernel, Lengthscale: 0.7}
		want, err := Fit(context.Background(), l, z, y, w, nil, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		o.Standardize = true
		got, err := Fit(context.Background(), l, raw, y, w, nil, nil, o)
		if err != nil || got.Check() != nil {
			t.Fatal(err, got.Check())
		}
		tol := kerneltest.Tol{Rel: 1e-6, Abs: 1e-7} // u comes back from 1.6e9 + 3e6 u
		kerneltest.Close(t, kernel+": evidence", got.LogEvidence, want.LogEvidence, tol)
		var s Scratch
		for i := range 5 {
			m, v := got.Predict(raw.Row(i), &s)
			wm, wv := want.Predict(z.Row(i), &s)
			kerneltest.Close(t, kernel+": mean", m, wm, tol)
			kerneltest.Close(t, kernel+": variance", v, wv, tol)
		}
		got.Scale[1] = 0
		if got.Check() == nil {
			t.Error("a scale of 0")
		}
		got.Scale = got.Scale[:2]
		if got.Check() == nil {
			t.Error("a column without a scale")
		}
	}
}

package predict

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// laplace is the Laplace approximation of rows x, y but row out, by plain Newton
// steps in dense algebra: prior N(0, 1). Exact for the gaussian family.
func laplace(l lik.Likelihood, x *dense.Matrix, y []float64, out int) *gauss.Normal {
	n, p := x.Rows, x.Cols
	w := make([]float64, p)
	var h *dense.Matrix
	for range 30 {
		g := make([]float64, p)
		h = dense.New(p, p)
		for j := range p {
			h.Row(j)[j] = 1
			g[j] = -w[j]
		}
		for i := range n {
			if i == out {
				continue
			}
			_, d1, d2 := l.LogLik(lik.Obs{Y: y[i], Weight: 1}, dense.Dot(x.Row(i), w))
			dense.Axpy(d1, x.Row(i), g)
			for j := range p {
				dense.Axpy(-d2*x.At(i, j), x.Row(i), h.Row(j))
			}
		}
		if err := dense.Cholesky(h); err != nil {
			panic(err)
		}
		dense.SolveLowerVec(h, g)
		dense.SolveLowerTVec(h, g)
		dense.Axpy(1, g, w)
	}
	c := dense.New(p, p)
	dense.InverseFromCholesky(c, h)
	if err := dense.Cholesky(c); err != nil {
		panic(err)
	}
	return gauss.NewFull(w, c)
}

func linear(g *gauss.Normal, x []float64) (m, v float64) {
	cols := make([]uint32, len(x))
	for j := range cols {
		cols[j] = uint32(j)
	}
	return g.Linear(cols, x, nil)
}

// Gaussian rows: the cavity is the posterior without the row, so LOO equals a refit
// (1e-10: a few hundred roundings divided by 1 - leverage), leverages are the hat
// matrix's and add up to the effective number of weights, and residuals solve
// Σ0⁻¹ μ = Xᵀ r. Other families: the other rows' sites stay where they are, which
// moves the mode by a term of order leverage² ("one Newton step from the full fit");
// with leverages near p/n = 0.08 the log density is off by some 0.01, while the
// effect of leaving the row out is ten times that for the rows that matter.
func TestInfluence(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	const n, p = 40, 3
	for _, c := range []struct {
		family string
		tol    float64
	}{{"gaussian", 1e-10}, {"bernoulli", 0.02}, {"poisson", 0.05}} {
		l, err := lik.New(c.family, "", lik.Params{Dispersion: 0.7})
		if err != nil {
			t.Fatal(err)
		}
		x, y := dense.New(n, p), make([]float64, n)
		for i := range y {
			for j := range p {
				x.Row(i)[j] = 0.7 * rng.NormFloat64()
			}
			s := 2*x.At(i, 0) - x.At(i, 1)
			switch c.family {
			case "gaussian":
				y[i] = s + rng.NormFloat64()
			case "bernoulli":
				if rng.Float64() < l.Response(s) {
					y[i] = 1
				}
			default:
				y[i] = math.Floor(l.Response(0.5*s) + rng.Float64())
			}
		}
		post := laplace(l, x, y, -1)
		xr, hat, worst, naive := make([]float64, p), 0.0, 0.0, 0.0
		for i := range y {
			o := lik.Obs{Y: y[i], Weight: 1}
			m, v := linear(post, x.Row(i))
			f, err := InfluenceOf(l, o, m, v)
			if err != nil {
				t.Fatal(err)
			}
			dense.Axpy(f.Residual, x.Row(i), xr)
			hat += f.Leverage
			rm, rv := linear(laplace(l, x, y, i), x.Row(i))
			want := l.Moments(o, rm, rv).LogZ
			worst = math.Max(worst, math.Abs(f.LOO-want))
			naive = math.Max(naive, math.Abs(l.Moments(o, m, v).LogZ-want))
			if c.family == "gaussian" {
				kerneltest.Close(t, "leverage", f.Leverage, v/0.7, kerneltest.Tol{Rel: 1e-14})
			}
		}
		if worst > c.tol {
			t.Errorf("%s: LOO off by %v, allowed %v", c.family, worst, c.tol)
		}
		t.Logf("%s: LOO off by at most %.2g; by %.2g if the row is not taken out", c.family, worst, naive)
		trace := 0.0 // effective number of weights: p - tr(Σ Σ0⁻¹)
		for j := range p {
			kerneltest.Close(t, c.family+" Xᵀr", xr[j], post.Mean[j], kerneltest.Tol{Rel: 1e-10, Abs: 1e-12})
			trace += 1 - post.Var[j]
		}
		kerneltest.Close(t, c.family+" sum of leverages", hat, trace, kerneltest.Tol{Rel: 1e-10})
	}
}

// No cavity: NaN, never a number made up; nothing for a row without weight.
func TestImproperCavity(t *testing.T) {
	l, _ := lik.New("gaussian", "", lik.Params{Dispersion: 1})
	f, err := InfluenceOf(l, lik.Obs{Y: 1, Weight: 1}, 0, 2)
	if err != nil || !math.IsNaN(f.LOO) || f.Leverage != 2 || f.Residual != 1 {
		t.Errorf("%+v %v", f, err)
	}
	f, err = InfluenceOf(l, lik.Obs{Y: 1, Weight: 0}, 0, 2)
	want := -0.5 * (math.Log(2*math.Pi*3) + 1.0/3)
	if err != nil || f.Leverage != 0 || math.Abs(f.LOO-want) > 1e-14 {
		t.Errorf("weight 0: %+v %v", f, err)
	}
	if _, err := InfluenceOf(l, lik.Obs{Y: math.NaN(), Weight: 1}, 0, 2); err == nil {
		t.Error("y = NaN was taken")
	}
	s, err := New(&kernels.Fit{Family: "gaussian", Dispersion: 1, Prior: kernels.DefaultPrior})
	if err != nil {
		t.Fatal(err)
	}
	b := row(t, s, []string{"x"}, []float64{0.5})
	b.Y = []float64{1}
	got, err := s.Influence(b, 0)
	if w, _ := InfluenceOf(l, lik.Obs{Y: 1, Weight: 1}, 0, 0.25); err != nil || got != w {
		t.Errorf("%+v, want %+v", got, w)
	}
}

// The gain is ½ log(1 + I v): I by finite sums of d2 over the responses, for the
// families in which there are few, and the known formulas elsewhere.
func TestInformationGain(t *testing.T) {
	const v = 0.8
	for _, c := range []struct {
		family, link string
		q            lik.Params
		most         int
		info         func(m float64) float64
	}{
		{"bernoulli", "logit", lik.Params{}, 1, nil},
		{"bernoulli", "probit", lik.Params{}, 1, nil},
		{"bernoulli", "cloglog", lik.Params{}, 1, nil},
		{"poisson", "", lik.Params{}, 200, nil},
		{"negbinomial", "", lik.Params{Shape: 5}, 500, nil},
		{"gaussian", "", lik.Params{Dispersion: 2}, 0, func(float64) float64 { return 0.5 }},
		{"gamma", "", lik.Params{Shape: 3}, 0, func(float64) float64 { return 3 }},
		{"studentt", "", lik.Params{Dispersion: 2, Shape: 1}, 0, func(float64) float64 { return 0.25 }},
	} {
		l, err := lik.New(c.family, c.link, c.q)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []float64{-2, 0.3, 1.5} {
			info := 0.0
			if c.info != nil {
				info = c.info(m)
			} else {
				for y := range c.most + 1 {
					logp, _, d2 := l.LogLik(lik.Obs{Y: float64(y), Weight: 1}, m)
					info -= math.Exp(logp) * d2
				}
			}
			kerneltest.Close(t, c.family+" gain", InformationGain(l, m, v), 0.5*math.Log1p(info*v), kerneltest.Tol{Rel: 1e-8})
		}
	}
	l, _ := lik.New("bernoulli", "", lik.Params{})
	for _, m := range []float64{-1e4, 1e4} {
		if g := InformationGain(l, m, 1); g != 0 {
			t.Errorf("gain %v of a certain response", g)
		}
	}
}

package gp

import (
	"fmt"
	"math"
	"math/rand/v2"

	"testing"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
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
	if l.Family() == "binomial" {
		p.trials = make([]float64, n)
	}
	for i := range n {
		for j := range d {
			p.x.Set(i, j, r.NormFloat64())
		}
		p.offset[i], p.weight[i] = 0.3*r.NormFloat64(), 0.5+r.Float64()
		s := math.Sin(2*p.x.At(i, 0)) + p.offset[i]
		switch l.Family() {
		case "bernoulli":
			if r.Float64() < l.Response(s) {
				p.y[i] = 1
			}
		case "binomial":
			p.trials[i] = 8
			for range 8 {
				if r.Float64() < l.Response(s) {
					p.y[i]++
				}
			}
		case "poisson", "negbinomial":
			p.y[i] = math.Floor(math.Exp(s+0.5) * 2 * r.Float64())
		case "gamma":
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
	f, err := Fit(l, p.x, p.y, p.weight, p.offset, p.trials, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	return f
}

// H1: at the mode alpha = ∇ log p(y|f̂), f̂ = mean + K alpha taken by Predict, in every
// family. Ten digits of K alpha survive where it is the sum of n terms near 1.
func TestMode(t *testing.T) {
	every(t, func(t *testing.T, l lik.Likelihood) {
		for _, kernel := range Kernels {
			p := random(rand.New(rand.NewPCG(1, 2)), l, 60, 2)
			f := p.fit(t, l, Options{Kernel: kernel, Lengthscale: 0.7, SignalVariance: 1.3, Mean: 0.2})
			if !f.Converged {
				t.Fatalf("%s: %s", kernel, f.Status)
			}
			var s Scratch
			d := &data{lik: l, y: p.y, weight: p.weight, trials: p.trials}
			for a := range p.x.Rows {
				i := rowOf(p.x, f.X.Row(a))
				m, _ := f.Predict(f.X.Row(a), &s)
				_, d1, _ := l.LogLik(d.obs(i), m+p.offset[i])
				kerneltest.Close(t, kernel+" residual", f.Alpha[a], d1, kerneltest.Tol{Rel: 1e-10, Abs: 1e-10})
			}
		}
	})
}

func rowOf(x *dense.Matrix, row []float64) int {
	for i := range x.Rows {
		if fmt.Sprint(x.Row(i)) == fmt.Sprint(row) {
			return i
		}
	}
	return -1
}

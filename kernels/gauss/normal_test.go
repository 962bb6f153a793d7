package gauss

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// random makes one Normal of each form over p weights.
func random(t *testing.T, r *rand.Rand, p int) []*Normal {
	t.Helper()
	vec := func(lo, hi float64) []float64 {
		v := make([]float64, p)
		for i := range v {
			v[i] = lo + (hi-lo)*r.Float64()
		}
		return v
	}
	l := dense.New(p, p)
	for i := range p {
		for j := range i {
			l.Set(i, j, r.NormFloat64()*0.3)
		}
		l.Set(i, i, 0.5+r.Float64())
	}
	rank := min(3, p)
	f := dense.New(p, rank)
	for i := range p {
		for j := range rank {
			f.Set(i, j, r.NormFloat64()*0.3/math.Sqrt(float64(p)))
		}
	}
	low, err := NewLowRank(vec(-1, 1), vec(1, 3), f)
	if err != nil {
		t.Fatal(err)
	}
	return []*Normal{NewDiagonal(vec(-1, 1), vec(0.1, 2)), NewFull(vec(-1, 1), l), low}
}

// Every operation agrees with the covariance written out.
func TestFormsAgree(t *testing.T) {
	// Products of p <= 17 well-conditioned numbers: a few hundred ulps.
	tol := kerneltest.Tol{Rel: 1e-11, Abs: 1e-11}
	r := rand.New(rand.NewPCG(1, 2))
	for _, p := range []int{1, 2, 7, 17} {
		for _, g := range random(t, r, p) {
			cov, prec := dense.New(p, p), dense.New(p, p)
			g.Cov(cov)
			if err := g.Prec(prec); err != nil {
				t.Fatal(err)
			}
			one := dense.New(p, p)
			dense.Mul(one, cov, prec)
			full, err := g.ToFull()
			if err != nil {
				t.Fatal(err)
			}
			x, got := make([]float64, p), make([]float64, p)
			col := make([]uint32, p)
			for i := range x {
				x[i], col[i] = r.NormFloat64(), uint32(i)
				kerneltest.Close(t, "diagonal of covariance", g.Var[i], cov.At(i, i), tol)
				for j := range p {
					want := 0.0
					if i == j {
						want = 1
					}
					kerneltest.Close(t, g.Form.String()+": covariance x precision", one.At(i, j), want, tol)
				}
			}
			g.MulCov(got, x)
			quad, mean := 0.0, 0.0
			for i := range p {
				want := 0.0
				for j := range p {
					want += cov.At(i, j) * x[j]
				}
				kerneltest.Close(t, "MulCov", got[i], want, tol)
				quad += x[i] * want
				mean += x[i] * g.Mean[i]
			}
			if err := g.MulPrec(got, got); err != nil {
				t.Fatal(err)
			}
			for i := range p {
				kerneltest.Close(t, "MulPrec after MulCov", got[i], x[i], tol)
			}
			m, v := g.Linear(col, x, nil)
			kerneltest.Close(t, "mean", m, mean, tol)
			kerneltest.Close(t, "variance", v, quad, tol)
			d, err := g.LogDet()
			if err != nil {
				t.Fatal(err)
			}
			kerneltest.Close(t, "log det", d, dense.LogDet(full.L), tol)
		}
	}
}

func TestNotPositive(t *testing.T) {
	f := dense.New(1, 1)
	f.Set(0, 0, 2)
	if _, err := NewLowRank([]float64{0}, []float64{1}, f); err == nil {
		t.Error("variance 1 - 4 was taken")
	}
}

package gauss

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/kerneltest"
)

var tight = kerneltest.Tol{Rel: 1e-11, Abs: 1e-13}

// A Aᵀ = Σ for every form, and Mul, MulT, Solve, MulMat and MulTMat are one operator. Entries are
// of order 1 and sums have 6 terms: 1e-13 is hundreds of roundings.
func TestRoot(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const p = 6
	mean, va := make([]float64, p), make([]float64, p)
	l := dense.New(p, p)
	f := dense.New(p, 3)
	for i := range p {
		va[i] = 1 + rng.Float64()
		for j := range i {
			l.Row(i)[j] = rng.NormFloat64()
		}
		l.Row(i)[i] = 1 + rng.Float64()
		f.Row(i)[0] = 0.3 * rng.NormFloat64()
		f.Row(i)[1] = 2 * f.Row(i)[0] // a direction that F does not have
		f.Row(i)[2] = 0.2
		for j := range 3 {
			f.Row(i)[j] *= 0.5
		}
	}
	low, err := NewLowRank(mean, append([]float64(nil), va...), f)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []*Normal{NewDiagonal(mean, va), NewFull(mean, l), low} {
		r, err := g.Root()
		if err != nil {
			t.Fatal(err)
		}
		a := dense.New(p, p) // row j is column j of A
		e := make([]float64, p)
		for j := range p {
			clear(e)
			e[j] = 1
			r.Mul(a.Row(j), e)
		}
		got, want := dense.New(p, p), dense.New(p, p)
		dense.MulTA(got, a, a)
		g.Cov(want)
		for i := range got.Data {
			if math.Abs(got.Data[i]-want.Data[i]) > 1e-13 {
				t.Fatalf("%v: A Aᵀ = %v, Σ = %v", g.Form, got.Data, want.Data)
			}
		}
		for i, v := range r.Variances() {
			if math.Abs(v-g.Var[i]) > 1e-13 {
				t.Errorf("%v: variance %d = %v, want %v", g.Form, i, v, g.Var[i])
			}
		}
		x, at := make([]float64, p), make([]float64, p)
		for j := range x {
			x[j] = rng.NormFloat64()
		}
		r.MulT(at, x)
		for j := range at {
			if d := at[j] - dense.Dot(a.Row(j), x); math.Abs(d) > 1e-13 {
				t.Errorf("%v: MulT off by %v", g.Form, d)
			}
		}
		r.Mul(at, x)
		r.Solve(at, at)
		for j, v := range at {
			kerneltest.Close(t, "Solve", v, x[j], tight)
		}
		eye, m, mt := dense.New(p, p), dense.New(p, p), dense.New(p, p)
		for i := range p {
			eye.Set(i, i, 1)
		}
		r.MulMat(m, eye)
		dense.Copy(mt, eye)
		r.MulTMat(mt, mt)
		if err := g.Prec(want); err != nil {
			t.Fatal(err)
		}
		lambda := r.Precisions()
		for i := range p {
			kerneltest.Close(t, "Precisions", lambda[i], want.At(i, i), tight)
			for j := range p {
				kerneltest.Close(t, "MulMat", m.At(i, j), a.At(j, i), tight)
				kerneltest.Close(t, "MulTMat", mt.At(j, i), a.At(j, i), tight)
			}
		}
	}
	low.F.Row(0)[0], low.F.Row(1)[0] = 5, 5
	if _, err := low.Root(); !errors.Is(err, ErrNotPD) {
		t.Errorf("indefinite covariance: %v", err)
	}
}

package lowrank

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
)

// model is a model of the family with the prior and options given.
func model(t testing.TB, family string, intercept bool, o kernels.Options) *kernels.Model {
	t.Helper()
	par := lik.Params{Dispersion: 1, Shape: 4}
	l, err := lik.New(family, "", par)
	if err != nil {
		t.Fatal(err)
	}
	return &kernels.Model{Lik: l, Params: par, Prior: kernels.DefaultPrior, NoIntercept: !intercept, Options: o}
}

// problem lays out the rows of x, column j named j+1, behind an intercept where the
// model has one; entries that are 0 are left out.
func problem(t testing.TB, m *kernels.Model, x *dense.Matrix, y, offset []float64) *kernels.Problem {
	t.Helper()
	r, err := kernels.NewRows(m)
	if err != nil {
		t.Fatal(err)
	}
	ids, numbers := make([]uint32, x.Cols), make([]string, x.Cols)
	for j := range ids {
		numbers[j] = strconv.Itoa(j + 1)
		if ids[j], err = r.Dict.AddInt(j + 1); err != nil {
			t.Fatal(err)
		}
	}
	r.Dict.Use(kernels.NewColumns(nil, numbers))
	var b kernels.Batch
	b.Reset()
	for i := range x.Rows {
		if !m.NoIntercept {
			b.Add(0, 1)
		}
		for j, v := range x.Row(i) {
			if v != 0 {
				b.Add(ids[j], v)
			}
		}
		b.EndRow()
	}
	b.Y, b.Offset = y, offset
	if err := r.Update(&b, false); err != nil {
		t.Fatal(err)
	}
	p, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// respond draws responses of a family at predictors s.
func respond(rng *rand.Rand, family string, s []float64) []float64 {
	y := make([]float64, len(s))
	for i, v := range s {
		switch family {
		case "bernoulli":
			if rng.Float64() < 1/(1+math.Exp(-v)) {
				y[i] = 1
			}
		case "poisson", "negbinomial":
			for at, mu := rng.ExpFloat64(), math.Exp(min(v, 4)); at < mu; at += rng.ExpFloat64() {
				y[i]++
			}
		case "gamma":
			for range 4 {
				y[i] += rng.ExpFloat64() * math.Exp(v) / 4
			}
		default:
			y[i] = v + rng.NormFloat64()
		}
	}
	return y
}

// normals makes a prior of each form over p weights, means not 0.
func normals(t testing.TB, rng *rand.Rand, p int) []*gauss.Normal {
	t.Helper()
	mean, d := make([]float64, p), make([]float64, p)
	l, f := dense.New(p, p), dense.New(p, 2)
	for j := range p {
		mean[j], d[j] = 0.3*rng.NormFloat64(), 0.2+2*rng.Float64()
		for i := range j {
			l.Row(j)[i] = 0.3 * rng.NormFloat64()
		}
		l.Row(j)[j] = 0.5 + rng.Float64()
		for i := range 2 {
			f.Row(j)[i] = 0.5 * math.Sqrt(d[j]/float64(p)) * rng.NormFloat64()
		}
	}
	low, err := gauss.NewLowRank(mean, d, f)
	if err != nil {
		t.Fatal(err)
	}
	return []*gauss.Normal{gauss.NewDiagonal(mean, append([]float64(nil), d...)), gauss.NewFull(mean, l), low}
}

func covariance(g *gauss.Normal) *dense.Matrix {
	c := dense.New(g.Dim(), g.Dim())
	g.Cov(c)
	return c
}

func close2(t testing.TB, what string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	top := 1.0
	for _, v := range want {
		top = max(top, math.Abs(v))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= tol*top) {
			t.Errorf("%s: [%d] = %.15g, want %.15g (difference %.3g, allowed %.3g)", what, i, got[i], want[i], got[i]-want[i], tol*top)
			return
		}
	}
}

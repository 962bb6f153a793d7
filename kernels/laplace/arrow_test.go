package laplace

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// levels are rows with numbers and columns of levels, some rows without a level.
func levels(rng *rand.Rand, family string, n, numbers int, columns ...int) data {
	var o data
	for j := range numbers {
		o.names = append(o.names, fmt.Sprintf("u%d", j))
	}
	for c, l := range columns {
		for k := range l {
			o.names = append(o.names, fmt.Sprintf("c%d=%d", c, k))
		}
	}
	effect := make([]float64, len(o.names))
	for j := range effect {
		effect[j] = 0.6 * rng.NormFloat64()
	}
	for i := range n {
		row := make([]float64, len(o.names))
		at := numbers
		for j := range numbers {
			row[j] = rng.NormFloat64()
		}
		for c, l := range columns {
			if rng.IntN(20) > 0 {
				row[at+rng.IntN(l)] = 1
				if c == 0 {
					row[at+i%l] = 1
					for k := range l {
						if k != i%l {
							row[at+k] = 0
						}
					}
				}
			}
			at += l
		}
		s := -0.3
		for j, x := range row {
			s += x * effect[j]
		}
		o.x = append(o.x, row)
		switch family {
		case "poisson":
			y, p := 0.0, math.Exp(-math.Exp(min(s, 3)))
			for u := rng.Float64(); u > p && y < 50; y++ {
				u -= p
				p *= math.Exp(min(s, 3)) / (y + 1)
			}
			o.y = append(o.y, y)
		case "bernoulli":
			y := 0.0
			if rng.Float64() < 1/(1+math.Exp(-s)) {
				y = 1
			}
			o.y = append(o.y, y)
		default:
			o.y = append(o.y, s+0.8*rng.NormFloat64())
		}
		o.weight = append(o.weight, float64(1+i%3)/2)
		o.offset = append(o.offset, 0.1*float64(i%5)-0.2)
	}
	return o
}

// Elimination and the n x n form are the full Hessian: mean, variances, evidence, the
// variances of predictors, products with the covariance and the covariance itself.
func TestExactForms(t *testing.T) {
	tol := kerneltest.Tol{Rel: 1e-9, Abs: 1e-9}
	for _, c := range []struct {
		family  string
		n       int
		numbers int
		columns []int
	}{
		{"bernoulli", 400, 2, []int{60, 5}}, {"poisson", 300, 3, []int{40, 7, 3}}, {"gaussian", 250, 0, []int{50}},
		{"studentt", 250, 1, []int{30, 4}}, {"bernoulli", 60, 2, []int{55, 30}}, {"bernoulli", 40, 0, []int{80}},
	} {
		for _, intercept := range []bool{true, false} {
			rng := rand.New(rand.NewPCG(6, 7))
			m := model(t, c.family, "", lik.Params{})
			m.NoIntercept = !intercept
			m.Options.Tol = 1e-11
			p := problem(t, m, levels(rng, c.family, c.n, c.numbers, c.columns...))
			what := fmt.Sprintf("%s %v %v", c.family, c.columns, intercept)
			_, full := forced(t, p, weightSpace, "full", false)
			forms := []space{arrowSpace}
			if c.n < p.P && c.family != "studentt" {
				forms = append(forms, rowSpace, krylov)
			}
			for k, sp := range forms {
				h := []string{"arrow", "rows", "rows"}[k]
				_, got := forced(t, p, sp, h, false)
				kerneltest.Close(t, what+h+" evidence", got.log, full.log, tol)
				q, q0 := make([]float64, p.N), make([]float64, p.N)
				got.rows(q)
				full.rows(q0)
				g, dst, dst0 := make([]float64, p.P), make([]float64, p.P), make([]float64, p.P)
				for j := range g {
					kerneltest.Close(t, what+h+" mean", got.mean[j], full.mean[j], tol)
					kerneltest.Close(t, what+h+" variance", got.vars()[j], full.vars()[j], tol)
					g[j] = rng.NormFloat64()
				}
				for i := range q {
					kerneltest.Close(t, what+h+" predictor", q[i], q0[i], tol)
				}
				got.mulCov(dst, g)
				full.mulCov(dst0, g)
				for j := range g {
					kerneltest.Close(t, what+h+" product", dst[j], dst0[j], tol)
				}
				post, err := got.build()
				if err != nil {
					t.Fatal(err)
				}
				want, _ := full.build()
				a, b := dense.New(p.P, p.P), dense.New(p.P, p.P)
				post.Cov(a)
				want.Cov(b)
				for k := range a.Data {
					kerneltest.Close(t, what+h+" covariance", a.Data[k], b.Data[k], tol)
				}
				if h == "arrow" && post.Form != gauss.Arrowhead || h == "rows" && post.Form != gauss.LowRank {
					t.Errorf("%s%s: form %v", what, h, post.Form)
				}
			}
		}
	}
}

// K under other prior variances is that made anew, where it is only scaled too.
func TestKernelScaled(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 9))
	for _, intercept := range []bool{true, false} {
		m := model(t, "bernoulli", "", lik.Params{})
		m.NoIntercept = !intercept
		p := problem(t, m, levels(rng, "bernoulli", 40, 1, 80))
		e, _ := forced(t, p, rowSpace, "rows", false)
		fresh := p.Matrix(p.N, p.N)
		for _, f := range []float64{1e4, 1, 1e-6, 3, 3} {
			v := slices.Repeat([]float64{f}, p.P)
			v[0] = 10
			if f == 1e-6 {
				v[5] = 1 // no multiple
			}
			root, err := gauss.NewDiagonal(make([]float64, p.P), v).Root()
			if err != nil {
				t.Fatal(err)
			}
			e.search.root = root
			e.search.setKernel()
			p.Kernel(fresh, v)
			for k, want := range fresh.Data {
				kerneltest.Close(t, "kernel", e.search.k.Data[k], want, kerneltest.Tol{Rel: 1e-12, Abs: 1e-12})
			}
		}
	}
}

// Where evidences are dear fewer are taken, and the variance is the same to a tenth of its
// posterior deviation: √(2 · 0.005).
func TestDearEvidence(t *testing.T) {
	if testing.Short() {
		t.Skip("matrices of 1,100 rows")
	}
	p := sparseProblem(t, smallTable+100, 4000, 10, kernels.Options{AutoPrior: true})
	var log, steps [2]float64
	for k, dear := range []bool{false, true} {
		e, err := newEngine(planned(p))
		if err != nil {
			t.Fatal(err)
		}
		h, err := newLearner(e)
		if err != nil {
			t.Fatal(err)
		}
		if !h.costlyEvidence || e.hessian != "rows" {
			t.Fatalf("hessian %s, dear %v", e.hessian, h.costlyEvidence)
		}
		h.costlyEvidence, h.costlyFactor = dear, dear
		ev, status, _, err := h.maximise(nil)
		if err != nil || status != "" {
			t.Fatal(status, err)
		}
		log[k], steps[k] = ev.log, float64(h.newton)
	}
	if log[1] < log[0]-0.005 || log[1] > log[0]+1e-6 || steps[1] > steps[0]/2 {
		t.Errorf("log evidence %.6f after %v steps, %.6f after %v where each is dear", log[0], steps[0], log[1], steps[1])
	}
}

// hessian 'auto' finds the form: elimination from 500 weights, the rows from 2,000, full to
// 5,000, and says where none is affordable. With and without standardising, predictions are
// those of the full Hessian.
func TestAutoHessian(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 8))
	o := levels(rng, "bernoulli", 900, 2, 520, 6)
	for i := range o.x {
		o.x[i][0] = 50 + 10*o.x[i][0]
	}
	for _, standardize := range []bool{false, true} {
		m := model(t, "bernoulli", "logit", lik.Params{})
		m.NoIntercept = false
		m.Options.Standardize = standardize
		auto, err := Fit(context.Background(), problem(t, m, o))
		if err != nil {
			t.Fatal(err)
		}
		full, err := Fit(context.Background(), problem(t, withHessian(m, "full", 0), o))
		if err != nil {
			t.Fatal(err)
		}
		if auto.Covariance.Form != gauss.Arrowhead || auto.Status != "ok" || full.Covariance.Form != gauss.Full {
			t.Fatalf("%v %s, %v", auto.Covariance.Form, auto.Status, full.Covariance.Form)
		}
		if err := auto.Covariance.Arrow().Check(len(auto.Beliefs)); err != nil {
			t.Fatal(err)
		}
		kerneltest.Close(t, "evidence", auto.LogEvidence, full.LogEvidence, close8)
		for j, b := range full.Beliefs {
			kerneltest.Close(t, b.Feature, auto.Beliefs[j].Mean, b.Mean, close8)
			kerneltest.Close(t, b.Feature, auto.Beliefs[j].Variance, b.Variance, close8)
		}
		last := len(full.Beliefs) - 1 // levels come before u0 and u1
		for i := range 20 {
			at, x := []int{0, 5 + i, last - 2 - i%6, last - 1, last}, []float64{1, 1, 1, o.x[i][0], o.x[i][1]}
			kerneltest.Close(t, "predictor", auto.Covariance.Variance(at, x, nil), full.Covariance.Variance(at, x, nil), close8)
		}
	}
	for _, c := range []struct {
		n, numbers int
		columns    []int
		want       string
	}{{40, 2, []int{9}, "full"}, {600, 3, []int{560, 20, 20}, "arrow"}, {400, 0, []int{300, 290, 280}, "full"}} {
		m := model(t, "bernoulli", "logit", lik.Params{})
		p := problem(t, m, levels(rng, "bernoulli", c.n, c.numbers, c.columns...))
		if _, _, h, _ := planned(p); h != c.want {
			t.Errorf("%v: %s for %d rows and %d weights", c, h, p.N, p.P)
		}
	}
}

// Crossed columns of as many levels each are eliminated too where their weights are too many for the
// full Hessian, up to a block that takes no longer than that.
func TestCrossedHessian(t *testing.T) {
	for _, c := range []struct {
		columns []int
		want    string
	}{{[]int{2400, 2400}, "full"}, {[]int{2600, 2600}, "arrow"}, {[]int{3490, 3490}, "arrow"}, {[]int{3600, 3600}, "rest"}, {[]int{9000, 3600}, "arrow"}} {
		m := model(t, "bernoulli", "logit", lik.Params{})
		m.NoIntercept = false
		r, err := kernels.NewRows(m)
		if err != nil {
			t.Fatal(err)
		}
		var b kernels.Batch
		b.Reset()
		for i := range 14000 {
			b.Add(0, 1)
			for k, l := range c.columns {
				id, err := r.Dict.Add(fmt.Sprintf("c%d=%d", k, (i+k*(i/l))%l))
				if err != nil {
					t.Fatal(err)
				}
				b.Add(id, 1)
			}
			b.EndRow()
			b.Y = append(b.Y, float64(i%2))
		}
		if err := r.Update(&b, false); err != nil {
			t.Fatal(err)
		}
		p, err := r.Problem()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, h, _ := planned(p); h != c.want {
			t.Errorf("%v: %s for %d rows and %d weights", c, h, p.N, p.P)
		}
	}
}

// Parts whose covariances have different forms are merged as those of one form are.
func TestMergeForms(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 9))
	m := model(t, "gaussian", "", lik.Params{})
	o := levels(rng, "gaussian", 900, 2, 520, 6)
	part := func(lo, hi int) *kernels.Fit {
		q := o
		q.x, q.y, q.weight, q.offset = o.x[lo:hi], o.y[lo:hi], o.weight[lo:hi], o.offset[lo:hi]
		f, err := Fit(context.Background(), problem(t, m, q))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	a, b, all := part(0, 700), part(700, 900), part(0, 900)
	if a.Covariance.Form != gauss.Arrowhead || b.Covariance.Form != gauss.Full {
		t.Fatal(a.Covariance.Form, b.Covariance.Form)
	}
	f, err := kernels.MergeFits(context.Background(), []*kernels.Fit{a, b}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.Close(t, "evidence", f.LogEvidence, all.LogEvidence, close8)
	for j, b := range all.Beliefs {
		kerneltest.Close(t, b.Feature, f.Beliefs[j].Mean, b.Mean, close8)
		kerneltest.Close(t, b.Feature, f.Beliefs[j].Variance, b.Variance, close8)
	}
}

// Sums over the rows lose nothing where the predictor is all but the response.
func TestSumsOfSmallNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 2))
	o := levels(rng, "gaussian", 600, 2, 80, 6)
	for i, y := range o.y {
		o.y[i] = 1e5 * y
		s := 0.0
		for j, x := range o.x[i] {
			s += x * float64(j%7-3) * 1e5
		}
		o.y[i] = s + 1e-2*rng.NormFloat64()
	}
	m := model(t, "gaussian", "", lik.Params{Dispersion: 1e-4})
	m.Prior = kernels.Prior{Variance: 1e12, InterceptVariance: 1e12}
	p := problem(t, m, o)
	_, full := forced(t, p, weightSpace, "full", false)
	_, got := forced(t, p, arrowSpace, "arrow", false)
	kerneltest.Close(t, "evidence", got.log, full.log, kerneltest.Tol{Rel: 1e-7})
	v, w := full.vars(), got.vars()
	for j := range v {
		kerneltest.Close(t, fmt.Sprintf("mean %d", j), got.mean[j], full.mean[j], kerneltest.Tol{Abs: 1e-3 * math.Sqrt(v[j]), Rel: 1e-12})
		kerneltest.Close(t, fmt.Sprintf("variance %d", j), w[j], v[j], kerneltest.Tol{Rel: 1e-6})
	}
}

package laplace

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

var close8 = kerneltest.Tol{Rel: 1e-8, Abs: 1e-8}

// data is rows for a test: x with a first column of ones where intercept is set.
type data struct {
	x              [][]float64
	y              []float64
	weight, offset []float64
	trials         []float64
	names          []string // of the columns; nil: 1, 2, ...
	flags          int      // how many of the last columns are no numbers
}

func newLik(t testing.TB, family, link string, q lik.Params) lik.Likelihood {
	t.Helper()
	if q.Dispersion == 0 {
		q.Dispersion = 1
	}
	l, err := lik.New(family, link, q)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func model(t testing.TB, family, link string, q lik.Params) *kernels.Model {
	if q.Dispersion == 0 {
		q.Dispersion = 1
	}
	return &kernels.Model{NoIntercept: true, Lik: newLik(t, family, link, q), Params: q, Prior: kernels.DefaultPrior}
}

func problem(t testing.TB, m *kernels.Model, d data) *kernels.Problem {
	t.Helper()
	r, err := kernels.NewRows(m)
	if err != nil {
		t.Fatal(err)
	}
	name := func(j int) string {
		if d.names != nil {
			return d.names[j]
		}
		return fmt.Sprintf("x%03d", j)
	}
	var numbers []string
	if len(d.x) > 0 && d.names == nil {
		for j := range d.x[0][:len(d.x[0])-d.flags] {
			numbers = append(numbers, name(j))
		}
	}
	r.Dict.Use(kernels.NewColumns(nil, numbers))
	var b kernels.Batch
	b.Reset()
	for i, row := range d.x {
		if !m.NoIntercept {
			b.Add(0, 1)
		}
		for j, v := range row {
			if v == 0 {
				continue
			}
			id, err := r.Dict.Add(name(j))
			if err != nil {
				t.Fatal(err)
			}
			b.Add(id, v)
		}
		b.EndRow()
		b.Y = append(b.Y, d.y[i])
	}
	b.Weight, b.Offset, b.Trials = d.weight, d.offset, d.trials
	if err := r.Update(&b, false); err != nil {
		t.Fatal(err)
	}
	p, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// simulate draws n rows of d features, a share of them kept, and responses of the family.
func simulate(rng *rand.Rand, family string, n, d int, share float64) data {
	var o data
	w := make([]float64, d)
	for j := range w {
		w[j] = rng.NormFloat64() * 0.7
	}
	for range n {
		row := make([]float64, d)
		s := 0.3
		for j := range row {
			if rng.Float64() < share {
				row[j] = rng.NormFloat64()
			}
			s += w[j] * row[j] / math.Sqrt(1+share*float64(d)/4)
		}
		y, trials := 0.0, 0.0
		p := 1 / (1 + math.Exp(-s))
		switch family {
		case "bernoulli":
			if rng.Float64() < p {
				y = 1
			}
		case "binomial":
			trials = float64(1 + rng.IntN(9))
			for range int(trials) {
				if rng.Float64() < p {
					y++
				}
			}
		case "poisson", "negbinomial":
			rate := math.Exp(s)
			for u := rng.ExpFloat64(); u < rate; u += rng.ExpFloat64() {
				y++
			}
		case "gamma":
			y = math.Exp(s) * (rng.ExpFloat64() + rng.ExpFloat64()) / 2
		case "gaussian-log":
			y = math.Exp(s) + 0.3*rng.NormFloat64()
		case "studentt":
			y = s + rng.NormFloat64()
			if rng.IntN(10) == 0 {
				y += 8 * rng.NormFloat64()
			}
		default:
			y = s + rng.NormFloat64()
		}
		o.x, o.y = append(o.x, row), append(o.y, y)
		if trials > 0 {
			o.trials = append(o.trials, trials)
		}
	}
	return o
}

var families = []struct {
	family, link string
	params       lik.Params
}{
	{"bernoulli", "logit", lik.Params{}},
	{"bernoulli", "probit", lik.Params{}},
	{"bernoulli", "cloglog", lik.Params{}},
	{"binomial", "logit", lik.Params{}},
	{"binomial", "probit", lik.Params{}},
	{"binomial", "cloglog", lik.Params{}},
	{"poisson", "log", lik.Params{}},
	{"negbinomial", "log", lik.Params{Shape: 1.7}},
	{"gamma", "log", lik.Params{Shape: 2}},
	{"gaussian", "identity", lik.Params{Dispersion: 0.8}},
	{"gaussian", "log", lik.Params{Dispersion: 0.5}},
	{"studentt", "identity", lik.Params{Shape: 4, Dispersion: 0.9}},
}

func simulated(rng *rand.Rand, family, link string, n, d int, share float64) data {
	if family == "gaussian" && link == "log" {
		family = "gaussian-log"
	}
	o := simulate(rng, family, n, d, share)
	for i := range n {
		o.weight = append(o.weight, float64(1+i%3)/2)
		o.offset = append(o.offset, 0.1*float64(i%5)-0.2)
	}
	return o
}

// planned is what newEngine takes for p.
func planned(p *kernels.Problem) (*kernels.Problem, []kernels.Tie, string, *split) {
	ties, err := p.Ties()
	if err != nil {
		panic(err)
	}
	h, s := plan(p, ties, false)
	return p, ties, h, s
}

func forced(t *testing.T, p *kernels.Problem, sp space, hessian string, sparse bool) (*engine, *evidence) {
	t.Helper()
	e, err := newEngine(planned(p))
	if err != nil {
		t.Fatal(err)
	}
	if sparse {
		q := *p
		q.Columns = design.Columns{N: p.N, P: p.P, Row: p.Row, Col: p.Col, Val: p.Val}
		e.x = &q
	}
	e.hessian = hessian
	if sp == arrowSpace {
		e.split = leaves(p, nil)
	}
	e.newSearch(sp)
	ev, err := e.climbTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	if e.search.Status != "" {
		t.Errorf("%s %s: %s", p.Lik.Family(), p.Lik.Link(), e.search.Status)
	}
	return e, ev
}

// fullPrior gives p a prior covariance with correlations.
func fullPrior(rng *rand.Rand, p *kernels.Problem) {
	l := dense.New(p.P, p.P)
	for i := range p.P {
		for j := range i {
			l.Row(i)[j] = 0.3 * rng.NormFloat64()
		}
		l.Row(i)[i] = 0.5 + rng.Float64()
	}
	p.Normal = gauss.NewFull(p.PriorMean, l)
	p.PriorVar = p.Normal.Var
}

func lowPrior(t *testing.T, rng *rand.Rand, p *kernels.Problem, rank int) {
	f := dense.New(p.P, rank)
	d := make([]float64, p.P)
	for i := range d {
		for k := range rank {
			f.Row(i)[k] = 0.5 * rng.NormFloat64() / math.Sqrt(float64(p.P))
		}
		d[i] = 1 + rng.Float64()
	}
	g, err := gauss.NewLowRank(p.PriorMean, d, f)
	if err != nil {
		t.Fatal(err)
	}
	p.Normal, p.PriorVar = g, g.Var
}

// The mode has no gradient, the covariance is the inverse of the Hessian of the log
// posterior by finite differences, and the evidence is its formula by brute force.
func TestAgainstFiniteDifferences(t *testing.T) {
	for _, f := range families {
		for _, prior := range []string{"diagonal", "full", "lowrank"} {
			rng := rand.New(rand.NewPCG(3, 5))
			m := model(t, f.family, f.link, f.params)
			m.NoIntercept = false
			m.Prior.Mean = 0.1
			p := problem(t, m, simulated(rng, f.family, f.link, 80, 4, 0.8))
			switch prior {
			case "full":
				fullPrior(rng, p)
			case "lowrank":
				lowPrior(t, rng, p, 2)
			}
			fit, err := Fit(context.Background(), p)
			if err != nil {
				t.Fatal(err)
			}
			what := f.family + " " + f.link + " " + prior
			if !fit.Converged || fit.Status != "ok" {
				t.Errorf("%s: %s", what, fit.Status)
			}
			w := make([]float64, p.P)
			for j := range w {
				w[j] = fit.Beliefs[j].Mean
			}
			h := checkMode(t, what, p, w)
			// covariance
			l := dense.New(p.P, p.P)
			for j := range p.P {
				copy(l.Row(j), fit.Covariance.Row(j))
			}
			inv := dense.New(p.P, p.P)
			dense.InverseFromCholesky(inv, l)
			for i := range p.P {
				for j := range p.P {
					kerneltest.Close(t, what+" precision", inv.At(i, j), h.At(i, j), kerneltest.Tol{Rel: 1e-5, Abs: 1e-4})
				}
			}
			want := logJoint(p, w) + 0.5*float64(p.P)*math.Log(2*math.Pi) + 0.5*dense.LogDet(l)
			kerneltest.Close(t, what+" evidence", fit.LogEvidence, want, close8)
		}
	}
}

// logJoint is log p(y | w) + log N(w; μ0, Σ0), from the definitions.
func logJoint(p *kernels.Problem, w []float64) float64 {
	s := 0.0
	b := p.Batch()
	for i := range p.N {
		eta := b.Shift(i)
		col, val := p.Entries(i)
		for k, j := range col {
			eta += val[k] * w[j]
		}
		logp, _, _ := p.Lik.LogLik(b.Obs(i), eta)
		s += logp
	}
	d, ld := make([]float64, p.P), make([]float64, p.P)
	for j := range d {
		d[j] = w[j] - p.Normal.Mean[j]
	}
	if err := p.Normal.MulPrec(ld, d); err != nil {
		panic(err)
	}
	det, _ := p.Normal.LogDet()
	return s - 0.5*dense.Dot(d, ld) - 0.5*det - 0.5*float64(p.P)*math.Log(2*math.Pi)
}

// checkMode fails unless w is a stationary point, and returns minus the Hessian there.
func checkMode(t *testing.T, what string, p *kernels.Problem, w []float64) *dense.Matrix {
	t.Helper()
	grad := func(w []float64) []float64 {
		g := make([]float64, p.P)
		b := p.Batch()
		for i := range p.N {
			eta := b.Shift(i)
			col, val := p.Entries(i)
			for k, j := range col {
				eta += val[k] * w[j]
			}
			_, d1, _ := p.Lik.LogLik(b.Obs(i), eta)
			for k, j := range col {
				g[j] += val[k] * d1
			}
		}
		d, ld := make([]float64, p.P), make([]float64, p.P)
		for j := range d {
			d[j] = w[j] - p.Normal.Mean[j]
		}
		if err := p.Normal.MulPrec(ld, d); err != nil {
			t.Fatal(err)
		}
		for j := range g {
			g[j] -= ld[j]
		}
		return g
	}
	at := append([]float64(nil), w...)
	g := grad(w)
	h := dense.New(p.P, p.P)
	const step = 1e-4
	for j := range w {
		kerneltest.Gradient(t, what+" log joint", func(x float64) float64 { at[j] = x; v := logJoint(p, at); at[j] = w[j]; return v }, w[j], 1e-3, g[j], kerneltest.Tol{Rel: 1e-5, Abs: 1e-6})
		at[j] = w[j] + step
		up := grad(at)
		at[j] = w[j] - step
		dn := grad(at)
		at[j] = w[j]
		for k := range up {
			h.Row(j)[k] = -(up[k] - dn[k]) / (2 * step)
		}
		// in units of the posterior's own scale
		if math.Abs(g[j])/math.Sqrt(math.Abs(h.At(j, j))) > 1e-7 {
			t.Errorf("%s: gradient %v at the mode, curvature %v", what, g[j], h.At(j, j))
		}
	}
	return h
}

// The three forms of Newton's equations agree, dense and sparse, with any prior.
func TestSpacesAgree(t *testing.T) {
	for _, f := range families {
		for _, shape := range [][2]int{{40, 8}, {12, 25}} {
			for _, prior := range []string{"diagonal", "full", "lowrank"} {
				rng := rand.New(rand.NewPCG(uint64(shape[0]), 9))
				m := model(t, f.family, f.link, f.params)
				m.NoIntercept = false
				p := problem(t, m, simulated(rng, f.family, f.link, shape[0], shape[1], 0.3))
				hessian := "full"
				switch prior {
				case "full":
					fullPrior(rng, p)
				case "lowrank":
					lowPrior(t, rng, p, 3)
				}
				e0, want := forced(t, p, weightSpace, hessian, true)
				for _, sp := range []space{weightSpace, rowSpace, krylov} {
					for _, sparse := range []bool{true, false} {
						e, got := forced(t, p, sp, hessian, sparse)
						what := fmt.Sprintf("%s %s %v %s space %d sparse %v", f.family, f.link, shape, prior, sp, sparse)
						kerneltest.Close(t, what+" evidence", got.log, want.log, close8)
						for j := range p.P {
							kerneltest.Close(t, what+" mean", got.mean[j], want.mean[j], close8)
							kerneltest.Close(t, what+" variance", got.vars()[j], want.vars()[j], close8)
						}
						checkSolve(t, what, e, e0)
					}
				}
			}
		}
	}
}

// Predictors of a billion before the first step: the rows' form of Newton's equations keeps
// the digits that the mode needs, in either order of the rows. By 60-digit arithmetic.
func TestLargePredictors(t *testing.T) {
	want := [][2]float64{{-2.3438276498797984e-8, 3.9964560905999044e-9}, {0.24999999991665222, 0.99999999994446175}, {0.24999999983356923, 0.99999999994446928}}
	x := [][]float64{{1e9 + 841471, 1, 0}, {1e9 + 909297, 0, 1}}
	for _, o := range [][2]int{{0, 1}, {1, 0}} {
		m := model(t, "bernoulli", "logit", lik.Params{})
		m.Prior.Mean = 0.25
		p := problem(t, m, data{x: [][]float64{x[o[0]], x[o[1]]}, y: []float64{0, 0}, weight: []float64{float64(1 + o[0]), float64(1 + o[1])}})
		_, got := forced(t, p, rowSpace, "full", false)
		// The curvature follows the predictor, 1e9 times the weight, whose deviation is 6e-5:
		// a mode at rounding still moves it a little.
		kerneltest.Close(t, "evidence", got.log, -9.7001789291774616, kerneltest.Tol{Abs: 1e-4})
		for j := range p.P {
			kerneltest.Close(t, "mean", got.mean[j], want[j][0], kerneltest.Tol{Abs: 1e-8 * math.Sqrt(want[j][1])})
			kerneltest.Close(t, "variance", got.vars()[j], want[j][1], kerneltest.Tol{Rel: 1e-4})
		}
	}
}

// solve is B⁻¹ in every space.
func checkSolve(t *testing.T, what string, e, e0 *engine) {
	t.Helper()
	if e.search.floored || e0.search.floored || e.x.Lik.Family() == "studentt" || e.x.Lik.Link() == "log" && e.x.Lik.Family() == "gaussian" {
		return
	}
	g, a, b := make([]float64, e.x.P), make([]float64, e.x.P), make([]float64, e.x.P)
	for j := range g {
		g[j] = math.Sin(float64(j + 1))
	}
	e.search.Decrement = 0
	if e.search.space == krylov {
		e.search.conjugate(a, g, 1e-12, maxInner)
	} else {
		e.search.solve(a, g)
	}
	e0.search.solve(b, g)
	for j := range a {
		kerneltest.Close(t, what+" solve", a[j], b[j], kerneltest.Tol{Rel: 1e-6, Abs: 1e-6})
	}
}

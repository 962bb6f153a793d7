package hmc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/stop"
)

func family(t testing.TB, name, link string, q lik.Params) lik.Likelihood {
	t.Helper()
	l, err := lik.New(name, link, q)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// problem has the columns of x (by row) as features 1, 2, ... and an intercept where
// the model says so.
func problem(t testing.TB, m *kernels.Model, x [][]float64, y []float64) *kernels.Problem {
	t.Helper()
	r, err := kernels.NewRows(m)
	if err != nil {
		t.Fatal(err)
	}
	var numbers []string
	for j := 0; len(x) > 0 && j < len(x[0]); j++ {
		numbers = append(numbers, strconv.Itoa(j+1))
	}
	r.Dict.Use(kernels.NewColumns(nil, numbers))
	var b kernels.Batch
	b.Reset()
	for i, row := range x {
		if !m.NoIntercept {
			b.Add(0, 1)
		}
		for j, v := range row {
			id, err := r.Dict.AddInt(j + 1)
			if err != nil {
				t.Fatal(err)
			}
			if v != 0 {
				b.Add(id, v)
			}
		}
		b.EndRow()
		b.Y = append(b.Y, y[i])
	}
	if err := r.Update(&b, false); err != nil {
		t.Fatal(err)
	}
	p, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func normals(rng *rand.Rand, n, p int) [][]float64 {
	x := make([][]float64, n)
	for i := range x {
		x[i] = make([]float64, p)
		for j := range x[i] {
			x[i][j] = rng.NormFloat64()
		}
	}
	return x
}

func sample(t testing.TB, p *kernels.Problem) *Result {
	t.Helper()
	r, err := Sample(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ridge is the closed form of the Gaussian model with unit noise: posterior and log
// evidence.
func ridge(t testing.TB, p *kernels.Problem) (mean []float64, cov *dense.Matrix, logZ float64) {
	t.Helper()
	x := p.Dense()
	prec := dense.New(p.P, p.P)
	if err := p.Normal.Prec(prec); err != nil {
		t.Fatal(err)
	}
	nu := make([]float64, p.P)
	if err := p.Normal.MulPrec(nu, p.PriorMean); err != nil {
		t.Fatal(err)
	}
	g := dense.New(p.P, p.P)
	dense.Gram(g, x, nil)
	xy := make([]float64, p.P)
	dense.GemvT(xy, x, p.Y)
	noise := p.Lik.(lik.Dispersed).Dispersion()
	for i := range prec.Data {
		prec.Data[i] += g.Data[i] / noise
	}
	for j := range nu {
		nu[j] += xy[j] / noise
	}
	if err := dense.Cholesky(prec); err != nil {
		t.Fatal(err)
	}
	cov = dense.New(p.P, p.P)
	dense.InverseFromCholesky(cov, prec)
	mean = append([]float64(nil), nu...)
	dense.SolveLowerVec(prec, mean)
	dense.SolveLowerTVec(prec, mean)
	// log p(y) = log N(y; X μ0, D I + X Σ0 Xᵀ)
	s := dense.New(p.N, p.N)
	c := dense.New(p.P, p.P)
	p.Normal.Cov(c)
	xc := dense.New(p.N, p.P)
	dense.Mul(xc, x, c)
	dense.MulTB(s, xc, x)
	e := make([]float64, p.N)
	dense.Gemv(e, x, p.PriorMean)
	for i := range e {
		s.Row(i)[i] += noise
		e[i] = p.Y[i] - e[i]
	}
	if err := dense.Cholesky(s); err != nil {
		t.Fatal(err)
	}
	dense.SolveLowerVec(s, e)
	logZ = -0.5 * (dense.Dot(e, e) + dense.LogDet(s) + float64(p.N)*math.Log(2*math.Pi))
	return mean, cov, logZ
}

// agree checks means and variances within 5 Monte-Carlo standard errors: a mean's is
// sd/√ESS, a variance's about variance·√(2/ESS) for near-Gaussian draws. Seeds are
// fixed: 5 leaves room for many weights, not for a wrong sampler. Squares mix a little
// worse than values, hence the factor 2 on the variance's.
func agree(t *testing.T, r *Result, mean, variance []float64) {
	t.Helper()
	post, err := r.normal()
	if err != nil {
		t.Fatal(err)
	}
	for j := range mean {
		se := math.Sqrt(variance[j] / r.ESSBulk[j])
		if d := math.Abs(post.Mean[j]-mean[j]) / se; !(d < 5) {
			t.Errorf("mean %d = %v, want %v: %.1f standard errors (ESS %.0f)", j, post.Mean[j], mean[j], d, r.ESSBulk[j])
		}
		se = variance[j] * math.Sqrt(2*2/r.ESSTail[j])
		if d := math.Abs(post.Var[j]-variance[j]) / se; !(d < 5) {
			t.Errorf("variance %d = %v, want %v: %.1f standard errors (ESS %.0f)", j, post.Var[j], variance[j], d, r.ESSTail[j])
		}
	}
}

// Gaussian model, every form of prior: moments, correlation and evidence against the
// closed form.
func TestConjugate(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	const n, d = 30, 4
	x := normals(rng, n, d)
	y := make([]float64, n)
	for i := range y {
		x[i][1] += 0.9 * x[i][0]
		y[i] = x[i][0] - 2*x[i][1] + 0.5 + rng.NormFloat64()
	}
	for _, form := range []gauss.Form{gauss.Diagonal, gauss.Full, gauss.LowRank} {
		m := &kernels.Model{Lik: family(t, "gaussian", "", lik.Params{Dispersion: 1}), Prior: kernels.Prior{Mean: 0.3, Variance: 2, InterceptVariance: 10}}
		m.Options.Seed = 5
		p := problem(t, m, x, y)
		switch form {
		case gauss.Full:
			l := dense.New(p.P, p.P)
			for i := range p.P {
				for j := range i {
					l.Row(i)[j] = 0.3
				}
				l.Row(i)[i] = 1
			}
			p.Normal = gauss.NewFull(p.PriorMean, l)
		case gauss.LowRank:
			f := dense.New(p.P, 2)
			for i := range p.P {
				f.Row(i)[0], f.Row(i)[1] = 0.4, 0.2*float64(i-2)
			}
			g, err := gauss.NewLowRank(p.PriorMean, append([]float64(nil), p.PriorVar...), f)
			if err != nil {
				t.Fatal(err)
			}
			p.Normal = g
		}
		p.PriorVar = p.Normal.Var
		mean, cov, logZ := ridge(t, p)
		r := sample(t, p)
		variance := make([]float64, p.P)
		for j := range variance {
			variance[j] = cov.At(j, j)
		}
		agree(t, r, mean, variance)
		// Control variates leave no Monte-Carlo error in the means of a Gaussian. Within
		// chains it is exact; a few roundings of sums over 4000 draws remain.
		for j, b := range r.Fit.Beliefs {
			if d := math.Abs(b.Mean-mean[j]) / math.Sqrt(variance[j]); d > 1e-10 {
				t.Errorf("%v: mean %d of the fit off by %v posterior deviations", form, j, d)
			}
		}
		if !r.Fit.Converged || !strings.HasPrefix(r.Fit.Status, "R-hat 1.0") {
			t.Errorf("%v: status %q, converged %v", form, r.Fit.Status, r.Fit.Converged)
		}
		if d := math.Abs(r.LogEvidence-logZ) / r.LogEvidenceError; !(d < 5) || !(r.LogEvidenceError < 0.02) {
			t.Errorf("%v: log evidence %v ± %v, want %v", form, r.LogEvidence, r.LogEvidenceError, logZ)
		}
		// A correlation of n_eff draws is off by 1/√n_eff.
		post, _ := r.normal()
		got := dense.New(p.P, p.P)
		post.Cov(got)
		for i := range p.P {
			for j := range i {
				d := (got.At(i, j) - cov.At(i, j)) / math.Sqrt(variance[i]*variance[j])
				if math.Abs(d) > 5/math.Sqrt(1500) {
					t.Errorf("%v: correlation (%d,%d) off by %v", form, i, j, d)
				}
			}
		}
		if form == gauss.Full {
			t.Logf("%s; %.1f steps a draw, acceptance %.2f", r.Fit.Status, float64(r.Steps)/4000, r.Acceptance)
		}
	}
}

// grid is the posterior of one or two weights with prior N(0, v0) by a Riemann sum
// over ±9 prior deviations around 0: smooth and gone at the edges, so exact to
// rounding.
func grid(p *kernels.Problem) (mean, variance []float64, logZ float64) {
	const k = 600
	at := func(j, i int) float64 { return p.PriorMean[j] + 9*math.Sqrt(p.PriorVar[j])*(2*float64(i)/k-1) }
	n := k
	if p.P == 1 {
		n = 0
	}
	w, s := make([]float64, p.P), make([]float64, p.N)
	b := p.Batch()
	mean, variance = make([]float64, p.P), make([]float64, p.P)
	type cell struct {
		w [2]float64
		l float64
	}
	var cells []cell
	top := math.Inf(-1)
	for i := range k + 1 {
		for j := range n + 1 {
			var c cell
			for q, ij := range []int{i, j}[:p.P] {
				w[q] = at(q, ij)
				c.w[q] = w[q]
				d := w[q] - p.PriorMean[q]
				c.l += -0.5*d*d/p.PriorVar[q] - 0.5*math.Log(2*math.Pi*p.PriorVar[q]) + math.Log(18*math.Sqrt(p.PriorVar[q])/k)
			}
			p.Predictor(s, w)
			for r := range s {
				l, _, _ := p.Lik.LogLik(b.Obs(r), s[r])
				c.l += l
			}
			cells = append(cells, c)
			top = math.Max(top, c.l)
		}
	}
	z := 0.0
	for _, c := range cells {
		e := math.Exp(c.l - top)
		z += e
		for q := range mean {
			mean[q] += e * c.w[q]
		}
	}
	for q := range mean {
		mean[q] /= z
	}
	for _, c := range cells {
		for q := range mean {
			variance[q] += math.Exp(c.l-top) / z * (c.w[q] - mean[q]) * (c.w[q] - mean[q])
		}
	}
	return mean, variance, top + math.Log(z)
}

// Skewed and heavy-tailed posteriors of one and two weights against quadrature.
func TestQuadrature(t *testing.T) {
	kerneltest.Slow(t)
	rng := rand.New(rand.NewPCG(3, 1))
	cases := []struct {
		family, link string
		q            lik.Params
		y            func(s float64) float64
	}{
		{"bernoulli", "logit", lik.Params{}, func(s float64) float64 { return 1 }},
		{"bernoulli", "cloglog", lik.Params{}, func(s float64) float64 { return math.Round(rng.Float64()) }},
		{"poisson", "", lik.Params{}, func(s float64) float64 { return math.Floor(2 * rng.Float64()) }},
		{"studentt", "", lik.Params{Dispersion: 1, Shape: 4}, func(s float64) float64 { return s + 2*rng.NormFloat64() }},
		{"gamma", "", lik.Params{Shape: 2}, func(s float64) float64 { return math.Exp(s) * rng.ExpFloat64() }},
		{"negbinomial", "", lik.Params{Shape: 2}, func(s float64) float64 { return math.Floor(4 * rng.Float64()) }},
	}
	for _, c := range cases {
		for d := 1; d <= 2; d++ {
			m := &kernels.Model{NoIntercept: true, Lik: family(t, c.family, c.link, c.q), Prior: kernels.Prior{Variance: 4, InterceptVariance: 4}}
			m.Options.Samples = 2000
			x := normals(rng, 3, d)
			y := make([]float64, len(x))
			for i := range y {
				y[i] = c.y(x[i][0])
			}
			p := problem(t, m, x, y)
			mean, variance, logZ := grid(p)
			r := sample(t, p)
			t.Run(fmt.Sprintf("%s-%d", c.family, d), func(t *testing.T) {
				agree(t, r, mean, variance)
				for j, b := range r.Fit.Beliefs { // control variates make nothing worse
					if d := math.Abs(b.Mean-mean[j]) * math.Sqrt(r.ESSBulk[j]/variance[j]); d > 5 {
						t.Errorf("mean %d of the fit off by %.1f standard errors", j, d)
					}
				}
				if d := math.Abs(r.LogEvidence-logZ) / r.LogEvidenceError; !(d < 5) || !(r.LogEvidenceError < 0.05) {
					t.Errorf("log evidence %v ± %v, want %v", r.LogEvidence, r.LogEvidenceError, logZ)
				}
			})
		}
	}
}

// Draw weights from the prior, rows from them, and rank the weights among 63 draws of
// their posterior: ranks are uniform if and only if the sampler is right. Draws are
// thinned to be near independent. χ² with 7 degrees of freedom exceeds 24.3 once in a
// thousand; the seed is fixed.
func TestCalibration(t *testing.T) {
	const sims, bins, thin, kept = 160, 8, 5, 63
	if testing.Short() {
		t.Skip("many fits")
	}
	rng := rand.New(rand.NewPCG(11, 4))
	l := family(t, "bernoulli", "logit", lik.Params{})
	var count [2][bins]int
	for sim := range sims {
		m := &kernels.Model{Lik: l, Prior: kernels.Prior{Variance: 4, InterceptVariance: 4}}
		m.Options = kernels.Options{Samples: thin * kept, Warmup: 150, Chains: 1, Seed: uint64(sim)}
		w := []float64{2 * rng.NormFloat64(), 2 * rng.NormFloat64()}
		x := normals(rng, 8, 1)
		y := make([]float64, len(x))
		for i := range y {
			if rng.Float64() < l.Response(w[0]+w[1]*x[i][0]) {
				y[i] = 1
			}
		}
		r := sample(t, problem(t, m, x, y))
		for j := range w {
			rank := 0
			for i := thin - 1; i < thin*kept; i += thin {
				if r.Draws[0].At(i, j) < w[j] {
					rank++
				}
			}
			count[j][rank*bins/(kept+1)]++
		}
	}
	for j := range count {
		chi := 0.0
		for _, c := range count[j] {
			d := float64(c) - sims/bins
			chi += d * d / (sims / bins)
		}
		if chi > 24.3 {
			t.Errorf("weight %d: ranks %v, χ² = %.1f", j, count[j], chi)
		}
	}
}

// The same draws for any number of processors; others for another seed.
func TestDeterminism(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := normals(rng, 20, 3)
	y := make([]float64, 20)
	for i := range y {
		y[i] = float64(i % 2)
	}
	run := func(procs int, seed uint64) *Result {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		m := &kernels.Model{Lik: family(t, "bernoulli", "", lik.Params{}), Prior: kernels.DefaultPrior}
		m.Options = kernels.Options{Samples: 50, Warmup: 60, Chains: 3, Seed: seed}
		return sample(t, problem(t, m, x, y))
	}
	a, b, c := run(1, 1), run(2, 1), run(1, 2)
	same := true
	for k := range a.Draws {
		for i := range a.Draws[k].Rows {
			for j := range a.Draws[k].Cols {
				if a.Draws[k].At(i, j) != b.Draws[k].At(i, j) {
					t.Fatal("draws depend on GOMAXPROCS")
				}
				same = same && a.Draws[k].At(i, j) == c.Draws[k].At(i, j)
			}
		}
	}
	if same || a.Draws[0].At(0, 0) == a.Draws[1].At(0, 0) {
		t.Error("draws do not depend on seed and chain")
	}
	if a.LogEvidence != b.LogEvidence || a.Fit.Status != b.Fit.Status {
		t.Errorf("fits differ: %q and %q", a.Fit.Status, b.Fit.Status)
	}
}

// cliff is log-concave but for a wall that no step size resolves.
type cliff struct{ lik.Likelihood }

func (cliff) LogLik(_ lik.Obs, s float64) (logp, d1, d2 float64) {
	if s > 0 {
		return -1e8 * s, -1e8, 0
	}
	return 0, 0, 0
}

// Trajectories that fail are counted and told, and the fit has not converged.
func TestDivergence(t *testing.T) {
	m := &kernels.Model{NoIntercept: true, Lik: cliff{family(t, "gaussian", "", lik.Params{Dispersion: 1})}, Prior: kernels.DefaultPrior}
	m.Options = kernels.Options{Samples: 300, Warmup: 300}
	r := sample(t, problem(t, m, [][]float64{{1}}, []float64{0}))
	if r.Divergences == 0 || r.Fit.Converged || !strings.Contains(r.Fit.Status, fmt.Sprintf("%d divergences", r.Divergences)) {
		t.Errorf("%d divergences, converged %v, status %q", r.Divergences, r.Fit.Converged, r.Fit.Status)
	}
}

// The limit leaves what there is, and says so.
func TestTimeLimit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := normals(rng, 100, 3)
	y := make([]float64, len(x))
	m := &kernels.Model{NoIntercept: true, Lik: family(t, "bernoulli", "", lik.Params{}), Prior: kernels.DefaultPrior}
	m.Options = kernels.Options{Samples: 1_000_000, Warmup: 10, Chains: 2, TimeLimit: 300 * time.Millisecond}
	limited := func() *Result {
		r, err := Sample(context.Background(), problem(t, m, x, y))
		for errors.Is(err, stop.ErrTimeLimit) && m.Options.TimeLimit < 20*time.Second { // a busy machine: nothing to give yet
			m.Options.TimeLimit *= 2
			r, err = Sample(context.Background(), problem(t, m, x, y))
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := limited()
	if r.Fit.Converged || !strings.Contains(r.Fit.Status, "time limit") {
		t.Errorf("status %q", r.Fit.Status)
	}
	m.Options.Warmup, m.Options.TimeLimit = 1_000_000, time.Nanosecond
	r = limited()
	if r.Fit.Converged || !strings.Contains(r.Fit.Status, "Laplace") || r.Fit.Check() != nil {
		t.Errorf("status %q", r.Fit.Status)
	}
}

// A standardised fit is that of columns standardised by hand, put back; a low rank is exact
// where it is full.
func TestStandardize(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	const n = 40
	x, y := normals(rng, n, 2), make([]float64, n)
	for i := range y {
		y[i] = 3*x[i][0] + rng.NormFloat64()
		x[i][0] = 100*x[i][0] + 500
		x[i][1] *= 0.01
	}
	for _, rank := range []int{0, 2} {
		m := &kernels.Model{Lik: family(t, "gaussian", "", lik.Params{Dispersion: 1}), Prior: kernels.DefaultPrior}
		m.Options = kernels.Options{Standardize: true, Seed: 2, Rank: rank}
		p := problem(t, m, x, y)
		r := sample(t, p)
		q, sc, err := p.Standardize(0)
		if err != nil {
			t.Fatal(err)
		}
		mean, cov, logZ := ridge(t, q)
		if err := dense.Cholesky(cov); err != nil {
			t.Fatal(err)
		}
		logZ -= n * math.Log(sc.Unit)
		want, err := sc.Scaling.Restore(gauss.NewFull(mean, cov))
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(r.LogEvidence-logZ) > 5*r.LogEvidenceError {
			t.Errorf("log evidence %v ± %v, want %v", r.LogEvidence, r.LogEvidenceError, logZ)
		}
		s := newSpread(3, true)
		w := make([]float64, 3)
		for c := range r.Draws {
			for i := range r.Draws[c].Rows {
				r.Weights(w, c, i)
				s.add(w)
			}
		}
		for j := range 3 { // 4000 draws worth 1500
			sd := math.Sqrt(want.Var[j])
			b := r.Fit.Beliefs[j]
			if math.Abs(b.Mean-want.Mean[j]) > 5*sd/math.Sqrt(1500) || math.Abs(b.Variance/want.Var[j]-1) > 5*math.Sqrt(4.0/1500) {
				t.Errorf("rank %d: belief %d = %v, want %v, %v", rank, j, b, want.Mean[j], want.Var[j])
			}
			if math.Abs(s.mean[j]-want.Mean[j]) > 5*sd/math.Sqrt(1500) || math.Abs(s.cov.At(j, j)/(s.n-1)/want.Var[j]-1) > 5*math.Sqrt(4.0/1500) {
				t.Errorf("rank %d: draws of %d have mean %v, want %v", rank, j, s.mean[j], want.Mean[j])
			}
		}
	}
}

// Beyond 100 weights the mass matrix is diagonal and the mode comes from conjugate
// gradients. Wide Gaussian model, strong correlations: closed form again.
func TestManyWeights(t *testing.T) {
	if testing.Short() {
		t.Skip("long chains")
	}
	rng := rand.New(rand.NewPCG(2, 9))
	const n, d = 60, 120
	x := normals(rng, n, d)
	y := make([]float64, n)
	for i := range y {
		y[i] = x[i][0] + rng.NormFloat64()
		for j := 5; j < d; j++ {
			if (i+j)%7 != 0 {
				x[i][j] = 0
			}
		}
	}
	m := &kernels.Model{NoIntercept: true, Lik: family(t, "gaussian", "", lik.Params{Dispersion: 1}), Prior: kernels.DefaultPrior}
	m.Options = kernels.Options{Samples: 500, Warmup: 500}
	p := problem(t, m, x, y)
	r := sample(t, p)
	mean, cov, logZ := ridge(t, p)
	variance := make([]float64, d)
	for j := range variance {
		variance[j] = cov.At(j, j)
	}
	agree(t, r, mean, variance)
	if math.Abs(r.LogEvidence-logZ) > 5*r.LogEvidenceError {
		t.Errorf("log evidence %v ± %v, want %v", r.LogEvidence, r.LogEvidenceError, logZ)
	}
	t.Logf("%s, log evidence off by %.3f", r.Fit.Status, r.LogEvidence-logZ)
}

func TestEdges(t *testing.T) {
	l := family(t, "bernoulli", "", lik.Params{})
	fresh := func() *kernels.Model {
		m := &kernels.Model{Lik: l, Prior: kernels.DefaultPrior}
		m.Options = kernels.Options{Samples: 40, Warmup: 30, Chains: 2}
		return m
	}
	// No rows: the prior, evidence 0.
	r := sample(t, problem(t, fresh(), nil, nil))
	if f := r.Fit; f.N != 0 || math.Abs(f.LogEvidence) > 5*r.LogEvidenceError+1e-9 || len(f.Beliefs) != 1 {
		t.Errorf("no rows: %+v", f)
	}
	// All weights known.
	m := fresh()
	m.NoIntercept = true
	m.Priors = []kernels.Belief{{Feature: "1", Weight: kernels.Weight{Mean: 2}}}
	r = sample(t, problem(t, m, [][]float64{{1}}, []float64{1}))
	if want := -math.Log1p(math.Exp(-2)); math.Abs(r.Fit.LogEvidence-want) > 1e-15 || r.Fit.Beliefs[0].Mean != 2 || !r.Fit.Converged {
		t.Errorf("known weights: %+v", r.Fit)
	}
	for name, set := range map[string]func(*kernels.Model){
		"samples: found 3; allowed: a whole number from 4 to 1000000": func(m *kernels.Model) { m.Options.Samples = 3 },
		"warmup: found -1":   func(m *kernels.Model) { m.Options.Warmup = -1 },
		"chains: found 5000": func(m *kernels.Model) { m.Options.Chains = 5000 },
		"rank: found -2":     func(m *kernels.Model) { m.Options.Rank = -2 },
		"process_noise":      func(m *kernels.Model) { m.Noise = 1 },
		"numbers":            func(m *kernels.Model) { m.Options.Samples, m.Options.Chains = 1_000_000, 64 },
	} {
		m := fresh()
		set(m)
		if _, err := Sample(context.Background(), problem(t, m, [][]float64{{1, 2, 3, 4, 5}}, []float64{1})); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Nothing panics and no belief is NaN, whatever the rows.
func FuzzSample(f *testing.F) {
	f.Add(uint64(1), 1.0, 2.0, 1.0, uint8(3), uint8(2))
	f.Add(uint64(2), 1e300, -1e300, 1e5, uint8(2), uint8(0))
	f.Add(uint64(3), 0.0, 0.0, 1e-300, uint8(0), uint8(4))
	f.Add(uint64(4), 50.0, 1e8, 1e300, uint8(5), uint8(6))
	fams := []lik.Likelihood{}
	for _, i := range lik.Families() {
		for _, link := range i.Links {
			l, err := lik.New(i.Family, link, lik.Params{Dispersion: 1, Shape: 4})
			if err != nil {
				f.Fatal(err)
			}
			fams = append(fams, l)
		}
	}
	f.Fuzz(func(t *testing.T, seed uint64, a, b, v float64, n, kind uint8) {
		if !(v > 0) || math.IsInf(v, 0) {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		m := &kernels.Model{Lik: fams[int(kind)%len(fams)], Prior: kernels.Prior{Variance: v, InterceptVariance: 1}, NoIntercept: !(n%2 == 0)}
		m.Options = kernels.Options{Samples: 6, Warmup: 21, Chains: 2, Seed: seed, Rank: int(seed % 3), Standardize: seed%5 == 0, TimeLimit: 2 * time.Second}
		r, err := kernels.NewRows(m)
		if err != nil {
			t.Fatal(err)
		}
		var batch kernels.Batch
		batch.Reset()
		for range n % 6 {
			if !m.NoIntercept {
				batch.Add(0, 1)
			}
			for j, x := range []float64{a, b, 0} {
				if rng.IntN(3) > 0 {
					id, _ := r.Dict.AddInt(j + 1)
					batch.Add(id, x*rng.Float64())
				}
			}
			batch.EndRow()
			batch.Y = append(batch.Y, float64(rng.IntN(2)))
			batch.Trials = append(batch.Trials, 2)
		}
		if err := r.Update(&batch, true); err != nil {
			return
		}
		p, err := r.Problem()
		if err != nil {
			return
		}
		res, err := Sample(context.Background(), p)
		if err != nil {
			return
		}
		if err := res.Fit.Check(); err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkLeapfrog(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		n, p int
		fill float64
	}{{1000, 20, 1}, {10000, 50, 1}, {10000, 1000, 0.01}} {
		x := normals(rng, c.n, c.p)
		y := make([]float64, c.n)
		for i := range y {
			y[i] = float64(rng.IntN(2))
			for j := range x[i] {
				if rng.Float64() > c.fill {
					x[i][j] = 0
				}
			}
		}
		m := &kernels.Model{NoIntercept: true, Lik: family(b, "bernoulli", "", lik.Params{}), Prior: kernels.DefaultPrior}
		p := problem(b, m, x, y)
		p.Fill()
		mod, err := newModel(&p.Columns, p, p.Offset, p.Normal)
		if err != nil {
			b.Fatal(err)
		}
		one := &metric{scale: make([]float64, p.P)}
		for i := range one.scale {
			one.scale[i] = 1
		}
		b.Run(fmt.Sprintf("n=%d/p=%d/fill=%v", c.n, c.p, c.fill), func(b *testing.B) {
			s := newSampler(mod.view(one, make([]float64, p.P)), p.P, rng, nil)
			s.move(make([]float64, p.P))
			s.drawMomentum()
			b.ReportAllocs()
			for b.Loop() {
				s.leapfrog(&s.now, 1e-6)
			}
			b.ReportMetric(float64(len(p.Col))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mnnz/s")
		})
	}
}

// However short the adaptation is, the step size that it leaves lets the chains move.
func TestShortWarmup(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 2))
	x := normals(rng, 60, 5)
	y := make([]float64, 60)
	for i := range y {
		y[i] = float64(rng.IntN(2))
	}
	for _, warmup := range []int{1, 2, 3, 4, 5, 10, 19, 20, 21, 25, 29, 30, 40, 50} {
		for seed := range uint64(4) {
			m := &kernels.Model{Lik: family(t, "bernoulli", "", lik.Params{}), Prior: kernels.DefaultPrior}
			m.Options = kernels.Options{Samples: 50, Warmup: warmup, Chains: 1, Seed: seed}
			if r := sample(t, problem(t, m, x, y)); r.Divergences > 0 || warmup >= 10 && r.Acceptance < 0.4 {
				t.Errorf("warmup %d, seed %d: %d divergences, acceptance %.2f", warmup, seed, r.Divergences, r.Acceptance)
			}
		}
	}
}

package laplace

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/kerneltest/covariance"
	"github.com/bglm/bglm/kernels/lik"
)

// One weight N(0, 1), probit, one success in ten: numbers computed in double
// precision from the definition.
func TestOneSuccessInTen(t *testing.T) {
	m := model(t, "bernoulli", "probit", lik.Params{})
	var o data
	for i := range 10 {
		o.x, o.y = append(o.x, []float64{1}), append(o.y, float64(i/9))
	}
	f, err := Fit(context.Background(), problem(t, m, o))
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.Close(t, "evidence", f.LogEvidence, -4.710257, kerneltest.Tol{Abs: 5e-7})
	b := f.Beliefs[0]
	p, _ := m.Lik.Predict(b.Mean, b.Variance)
	kerneltest.Close(t, "prediction", p, .1773, kerneltest.Tol{Abs: 5e-5})
}

// A Gaussian likelihood gives the conjugate posterior and evidence, in closed form
// from the joint law of the responses.
func TestConjugate(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, shape := range [][2]int{{30, 5}, {6, 15}} {
		m := model(t, "gaussian", "", lik.Params{Dispersion: 0.7})
		m.NoIntercept, m.Prior.Mean = false, 0.3
		p := problem(t, m, simulate(rng, "gaussian", shape[0], shape[1], 0.8))
		fullPrior(rng, p)
		f, err := Fit(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		// y ~ N(Xμ0, C), C = XΣ0Xᵀ + 0.7 I; posterior by conditioning
		n := p.N
		s0, xs, c := dense.New(p.P, p.P), dense.New(n, p.P), dense.New(n, n)
		p.Normal.Cov(s0)
		dense.Mul(xs, p.Dense(), s0)
		dense.MulTB(c, xs, p.Dense())
		for i := range n {
			c.Row(i)[i] += 0.7
		}
		if err := dense.Cholesky(c); err != nil {
			t.Fatal(err)
		}
		r := make([]float64, n)
		p.Predictor(r, p.PriorMean)
		for i := range r {
			r[i] = p.Y[i] - r[i]
		}
		dense.SolveLowerVec(c, r)
		kerneltest.Close(t, "evidence", f.LogEvidence, -0.5*(dense.Dot(r, r)+dense.LogDet(c)+float64(n)*math.Log(2*math.Pi)), close8)
		dense.SolveLowerTVec(c, r)
		mean := make([]float64, p.P)
		dense.GemvT(mean, xs, r)
		cov := covariance.Of(t, f)
		v := xs.Clone()
		dense.SolveLower(c, v)
		for j := range p.P {
			kerneltest.Close(t, "mean", f.Beliefs[j].Mean, p.PriorMean[j]+mean[j], close8)
			for k := range p.P {
				want := s0.At(j, k)
				for i := range n {
					want -= v.At(i, j) * v.At(i, k)
				}
				kerneltest.Close(t, "covariance", cov.At(j, k), want, close8)
			}
		}
	}
}

// With many rows the posterior is nearly Gaussian: the evidence comes close to its
// integral, in one and in two dimensions, at a rate of one over the rows.
func TestEvidenceManyRows(t *testing.T) {
	for _, family := range []string{"bernoulli", "poisson"} {
		for d := 1; d <= 2; d++ {
			var last float64
			for _, n := range []int{50, 500, 5000} {
				rng := rand.New(rand.NewPCG(2, 2))
				m := model(t, family, "", lik.Params{})
				p := problem(t, m, simulate(rng, family, n, d, 1))
				f, err := Fit(context.Background(), p)
				if err != nil {
					t.Fatal(err)
				}
				// the trapezoid rule in whitened coordinates around the mode, ±9 deviations
				cov := covariance.Of(t, f)
				if err := dense.Cholesky(cov); err != nil {
					t.Fatal(err)
				}
				mode := make([]float64, d)
				for j := range mode {
					mode[j] = f.Beliefs[j].Mean
				}
				top := logJoint(p, mode)
				const h = 0.25
				sum := 0.0
				w := make([]float64, d)
				each := func(z ...float64) {
					for i := range w {
						w[i] = mode[i] + dense.Dot(cov.Row(i)[:i+1], z[:i+1])
					}
					sum += math.Exp(logJoint(p, w) - top)
				}
				if n > 500 && d == 2 && testing.Short() {
					continue
				}
				for a := -6.0; a <= 6; a += h {
					if d == 1 {
						each(a)
						continue
					}
					for b := -6.0; b <= 6; b += h {
						each(a, b)
					}
				}
				exact := top + math.Log(sum) + float64(d)*math.Log(h) + 0.5*dense.LogDet(cov)
				gap := math.Abs(f.LogEvidence - exact)
				if n == 5000 && gap > 1e-3 || last > 1e-3 && gap > last/3 {
					t.Errorf("%s %d-d n=%d: evidence %v, integral %v; gap was %v", family, d, n, f.LogEvidence, exact, last)
				}
				last = gap
			}
		}
	}
}

// The log posterior of a log-concave family has one mode: twenty starts find it.
func TestTwentyStarts(t *testing.T) {
	for _, f := range families {
		if f.family == "studentt" || f.family == "gaussian" && f.link == "log" {
			continue
		}
		rng := rand.New(rand.NewPCG(4, 1))
		m := model(t, f.family, f.link, f.params)
		m.NoIntercept = false
		for _, shape := range [][2]int{{60, 5}, {10, 20}} {
			p := problem(t, m, simulated(rng, f.family, f.link, shape[0], shape[1], 1))
			want, err := Fit(context.Background(), p)
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				start := make([]float64, p.P)
				for j := range start {
					start[j] = 2 * rng.NormFloat64()
				}
				got, err := FitFrom(context.Background(), p, start)
				if err != nil {
					t.Fatal(err)
				}
				if !got.Converged {
					t.Errorf("%s %s: %s", f.family, f.link, got.Status)
				}
				for j := range p.P {
					kerneltest.Close(t, f.family+" "+f.link, got.Beliefs[j].Mean, want.Beliefs[j].Mean, kerneltest.Tol{Rel: 1e-7, Abs: 1e-7})
				}
			}
		}
	}
}

// At: the Gaussian at given weights is that at the mode when given the mode; weights
// not named are at their prior mean; unknown names are errors.
func TestAt(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	for _, shape := range [][2]int{{50, 4}, {8, 12}} {
		m := model(t, "bernoulli", "logit", lik.Params{})
		m.NoIntercept = false
		o := simulate(rng, "bernoulli", shape[0], shape[1], 1)
		mode, err := Fit(context.Background(), problem(t, m, o))
		if err != nil {
			t.Fatal(err)
		}
		m.At = mode.Beliefs
		for _, std := range []bool{false, true} {
			m.Options.Standardize = std
			at, err := Fit(context.Background(), problem(t, m, o))
			if err != nil {
				t.Fatal(err)
			}
			if !at.Converged || at.Iterations != 0 {
				t.Errorf("%+v", at)
			}
			if !std {
				kerneltest.Close(t, "evidence", at.LogEvidence, mode.LogEvidence, close8)
			}
			for j, b := range at.Beliefs {
				kerneltest.Close(t, "mean", b.Mean, mode.Beliefs[j].Mean, close8)
				if !std {
					kerneltest.Close(t, "variance", b.Variance, mode.Beliefs[j].Variance, close8)
				}
			}
		}
		m.Options.Standardize = false
		m.At = mode.Beliefs[1:2]
		at, err := Fit(context.Background(), problem(t, m, o))
		if err != nil || at.Beliefs[1].Mean != mode.Beliefs[1].Mean || at.Beliefs[0].Mean != 0 || at.Beliefs[2].Mean != 0 {
			t.Error(err, at)
		}
		m.At = []kernels.Belief{{Feature: "none"}}
		if _, err := Fit(context.Background(), problem(t, m, o)); err == nil || !strings.Contains(err.Error(), `at: feature "none"`) {
			t.Error(err)
		}
	}
}

// Separable data: the prior keeps the mode finite, also a wide one.
func TestSeparable(t *testing.T) {
	for _, v := range []float64{1, 1e4, 1e8} {
		for _, link := range []string{"logit", "probit", "cloglog"} {
			m := model(t, "bernoulli", link, lik.Params{})
			m.Prior.Variance = v
			var o data
			for i := range 40 {
				x := float64(i) - 19.5
				o.x, o.y = append(o.x, []float64{x, 1}), append(o.y, float64(i/20))
			}
			f, err := Fit(context.Background(), problem(t, m, o))
			if err != nil {
				t.Fatal(link, v, err)
			}
			if !f.Converged || !(f.Beliefs[0].Mean > 0) {
				t.Errorf("%s variance %v: %+v", link, v, f)
			}
		}
	}
}

// Equal columns, and columns that add up to others, under a prior too wide for double
// precision: their sum is determined, beliefs stay finite and predictions agree with
// those of the plain column.
func TestCollinear(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 3))
	for _, v := range []float64{1, 1e6, 1e14} {
		m := model(t, "bernoulli", "logit", lik.Params{})
		m.Prior.Variance = v
		a, b := simulate(rng, "bernoulli", 200, 1, 1), data{}
		for i, r := range a.x {
			b.x = append(b.x, []float64{r[0], r[0], 1, 1})
			b.y = append(b.y, a.y[i])
			a.x[i] = []float64{r[0], 1}
		}
		single := *m
		single.Prior.Variance = 2 * v
		want, err := Fit(context.Background(), problem(t, &single, a))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Fit(context.Background(), problem(t, m, b))
		if err != nil {
			t.Fatal(v, err)
		}
		// two weights N(0, v) add up to one N(0, 2v)
		tol := kerneltest.Tol{Rel: 1e-6, Abs: 1e-6}
		kerneltest.Close(t, "sum", got.Beliefs[0].Mean+got.Beliefs[1].Mean, want.Beliefs[0].Mean, tol)
		// B has eigenvalues 1 beside ones of about 50 v, whose rounding is the error of
		// the small ones: relative eps 50 v each, of which half the logarithm counts
		kerneltest.Close(t, "evidence", got.LogEvidence, want.LogEvidence, kerneltest.Tol{Abs: 1e-6 + math.Log1p(1e-14*v)})
		if !got.Converged {
			t.Error(got.Status)
		}
	}
}

// Standardize is the fit of standardised columns, seen on the original scale: equal
// predictions and evidence, with the intercept's correlation.
func TestStandardize(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 5))
	m := model(t, "bernoulli", "logit", lik.Params{})
	m.NoIntercept = false
	raw := simulate(rng, "bernoulli", 150, 4, 1)
	var z data
	z.y = raw.y
	for j, scale := range []float64{1, 10, 1e3, 1e-3} {
		for i := range raw.x {
			raw.x[i][j] = scale * (raw.x[i][j] + 5)
		}
	}
	raw.flags = 1
	n := float64(len(raw.x))
	for i := range raw.x {
		raw.x[i] = append(raw.x[i], float64(i%2))
		z.x = append(z.x, append([]float64(nil), raw.x[i]...))
	}
	for j := range 4 {
		mean, sq := 0.0, 0.0
		for i := range raw.x {
			mean += raw.x[i][j] / n
		}
		for i := range raw.x {
			sq += (raw.x[i][j] - mean) * (raw.x[i][j] - mean) / n
		}
		for i := range raw.x {
			z.x[i][j] = (raw.x[i][j] - mean) / math.Sqrt(sq)
		}
	}
	std := *m
	std.Options.Standardize = true
	a, err := Fit(context.Background(), problem(t, &std, raw))
	if err != nil {
		t.Fatal(err)
	}
	pz := problem(t, m, z)
	b, err := Fit(context.Background(), pz)
	if err != nil {
		t.Fatal(err)
	}
	if a.Status != "ok" {
		t.Error(a.Status)
	}
	kerneltest.Close(t, "evidence", a.LogEvidence, b.LogEvidence, close8)
	ga, gb := normal(t, a), normal(t, b)
	pr := problem(t, m, raw)
	for i := range pr.N {
		ca, va := pr.Entries(i)
		cb, vb := pz.Entries(i)
		m1, v1 := ga.Linear(ca, va, nil)
		m2, v2 := gb.Linear(cb, vb, nil)
		kerneltest.Close(t, "predictor mean", m1, m2, close8)
		kerneltest.Close(t, "predictor variance", v1, v2, kerneltest.Tol{Rel: 1e-6})
	}
	for _, h := range []string{"diagonal", "block", "lowrank"} {
		std.Options.Hessian = h
		f, err := Fit(context.Background(), problem(t, &std, raw))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(f.Status, "standardize") || !f.Converged {
			t.Errorf("%s: %q", h, f.Status)
		}
	}
	std.Options = kernels.Options{Standardize: true, AutoPrior: true}
	f, err := Fit(context.Background(), problem(t, &std, raw))
	if err != nil || !f.Converged || f.LogEvidence < a.LogEvidence-1e-9 {
		t.Error(err, f)
	}
}

func normal(t *testing.T, f *kernels.Fit) *gauss.Normal {
	t.Helper()
	mean := make([]float64, len(f.Beliefs))
	for j, b := range f.Beliefs {
		mean[j] = b.Mean
	}
	l := covariance.Of(t, f)
	if err := dense.Cholesky(l); err != nil {
		t.Fatal(err)
	}
	return gauss.NewFull(mean, l)
}

// A row of weight 2 is the row twice; a fit continued from a Gaussian likelihood's
// posterior is the fit of all rows.
func TestWeightsAndContinuation(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 6))
	m := model(t, "poisson", "log", lik.Params{})
	o := simulate(rng, "poisson", 40, 3, 1)
	twice := o
	twice.x = append(append([][]float64(nil), o.x...), o.x[:7]...)
	twice.y = append(append([]float64(nil), o.y...), o.y[:7]...)
	for i := range o.x {
		w := 1.0
		if i < 7 {
			w = 2
		}
		o.weight = append(o.weight, w)
	}
	a, err := Fit(context.Background(), problem(t, m, o))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Fit(context.Background(), problem(t, m, twice))
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.Close(t, "evidence", a.LogEvidence, b.LogEvidence, close8)
	for j := range a.Beliefs {
		kerneltest.Close(t, "mean", a.Beliefs[j].Mean, b.Beliefs[j].Mean, close8)
	}

	g := model(t, "gaussian", "", lik.Params{})
	for _, h := range []string{"full", "lowrank"} {
		g = withHessian(g, h, 8)
		all := simulate(rng, "gaussian", 60, 8, 1)
		want, err := Fit(context.Background(), problem(t, g, all))
		if err != nil {
			t.Fatal(err)
		}
		first, err := Fit(context.Background(), problem(t, g, data{x: all.x[:25], y: all.y[:25]}))
		if err != nil {
			t.Fatal(err)
		}
		next := *g
		next.Start = first
		got, err := Fit(context.Background(), problem(t, &next, data{x: all.x[25:], y: all.y[25:]}))
		if err != nil {
			t.Fatal(err)
		}
		kerneltest.Close(t, h+" evidence", got.LogEvidence, want.LogEvidence, kerneltest.Tol{Rel: 1e-7})
		for j := range want.Beliefs {
			kerneltest.Close(t, h+" mean", got.Beliefs[j].Mean, want.Beliefs[j].Mean, kerneltest.Tol{Rel: 1e-6, Abs: 1e-7})
			kerneltest.Close(t, h+" variance", got.Beliefs[j].Variance, want.Beliefs[j].Variance, kerneltest.Tol{Rel: 1e-6})
		}
	}
}

// Equal input gives an equal answer, whatever the number of processors.
func TestDeterministic(t *testing.T) {
	for _, o := range []kernels.Options{{}, {Hessian: "lowrank", Rank: 5}, {AutoPrior: true}, {Standardize: true}} {
		p := denseProblem(t, 6000, 12, o)
		old := runtime.GOMAXPROCS(1)
		a, err := Fit(context.Background(), p)
		runtime.GOMAXPROCS(4)
		b, err2 := Fit(context.Background(), p)
		runtime.GOMAXPROCS(old)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if !reflect.DeepEqual(a.Beliefs, b.Beliefs) || a.LogEvidence != b.LogEvidence || !reflect.DeepEqual(a.Covariance, b.Covariance) {
			t.Errorf("%+v: differs between 1 and 4 processors", o)
		}
	}
}

// Many weights: the factor of an earlier point preconditions, and the mode is the same.
func TestStaleFactor(t *testing.T) {
	p := denseProblem(t, 1500, staleWeights+10, kernels.Options{})
	_, a := forced(t, p, weightSpace, "full", false)
	_, b := forced(t, p, krylov, "full", false)
	kerneltest.Close(t, "evidence", a.log, b.log, close8)
	for j := range p.P {
		kerneltest.Close(t, "mean", a.mean[j], b.mean[j], close8)
		kerneltest.Close(t, "variance", a.vars()[j], b.vars()[j], close8)
	}
}

func TestEmpty(t *testing.T) {
	for _, h := range []string{"", "diagonal", "block", "lowrank"} {
		m := withHessian(model(t, "bernoulli", "logit", lik.Params{}), h, 0)
		for _, o := range []data{{}, {x: [][]float64{{}, {}}, y: []float64{0, 1}}, {x: [][]float64{{0, 0}, {0, 0}}, y: []float64{0, 1}}} {
			for _, auto := range []bool{false, true} {
				m.Options.AutoPrior, m.Options.Standardize = auto, auto
				for _, intercept := range []bool{false, true} {
					m.NoIntercept = !intercept
					f, err := Fit(context.Background(), problem(t, m, o))
					if err != nil {
						t.Fatal(err)
					}
					if !f.Converged || len(o.y) > 0 && !intercept && math.Abs(f.LogEvidence+2*math.Ln2) > 1e-12 || len(o.y) == 0 && f.LogEvidence != 0 {
						t.Errorf("%+v", f)
					}
				}
			}
		}
	}
}

func TestBadOptions(t *testing.T) {
	m := model(t, "bernoulli", "logit", lik.Params{})
	o := data{x: [][]float64{{1}}, y: []float64{1}}
	for _, c := range []struct {
		o    kernels.Options
		want string
	}{
		{kernels.Options{Hessian: "dense"}, `hessian: found 'dense'; allowed: 'auto', 'full'`},
		{kernels.Options{MaxIter: -1}, "max_iter: found -1"},
		{kernels.Options{Tol: 2}, "tol: found 2"},
		{kernels.Options{Rank: -3}, "rank: found -3"},
	} {
		m.Options = c.o
		if _, err := Fit(context.Background(), problem(t, m, o)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	m.Options = kernels.Options{}
	if _, err := FitFrom(context.Background(), problem(t, m, o), make([]float64, 3)); err == nil {
		t.Error("3 start weights for 1 column")
	}
	big := model(t, "poisson", "log", lik.Params{})
	bad := data{x: [][]float64{{1}}, y: []float64{1}, offset: []float64{1000}}
	if _, err := Fit(context.Background(), problem(t, big, bad)); err == nil || !strings.Contains(err.Error(), "row 1") {
		t.Errorf("%v", err)
	}
}

func TestStopsEarly(t *testing.T) {
	p := denseProblem(t, 500, 3, kernels.Options{MaxIter: 1})
	f, err := Fit(context.Background(), p)
	if err != nil || f.Converged || f.Iterations != 1 || !strings.Contains(f.Status, "no convergence in 1 Newton step") {
		t.Error(err, f)
	}
	p = denseProblem(t, 500, 3, kernels.Options{TimeLimit: time.Nanosecond})
	f, err = Fit(context.Background(), p)
	if err != nil || f.Converged || !strings.Contains(f.Status, "time limit") {
		t.Error(err, f)
	}
}

// Any small problem gives beliefs that are Gaussians: no variance above its prior's
// for a log-concave likelihood, none below 0.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := families[rapid.IntRange(0, len(families)-1).Draw(r, "family")]
		n, d := rapid.IntRange(1, 12).Draw(r, "n"), rapid.IntRange(1, 8).Draw(r, "d")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 1))
		m := model(t, f.family, f.link, f.params)
		m.NoIntercept = !rapid.Bool().Draw(r, "intercept")
		m.Prior.Variance = math.Exp(rapid.Float64Range(-10, 10).Draw(r, "log variance"))
		m.Options.Hessian = rapid.SampledFrom([]string{"full", "diagonal", "block", "lowrank"}).Draw(r, "hessian")
		p := problem(t, m, simulated(rng, f.family, f.link, n, d, 0.7))
		fit, err := Fit(context.Background(), p)
		if err != nil {
			r.Fatal(err)
		}
		concave := f.family != "studentt" && !(f.family == "gaussian" && f.link == "log")
		for j, b := range fit.Beliefs {
			if !(b.Variance > 0) || concave && b.Variance > p.PriorVar[j]*(1+1e-9) {
				r.Fatalf("%s %s: variance %v, prior %v", f.family, f.link, b.Variance, p.PriorVar[j])
			}
		}
		if concave && !fit.Converged {
			r.Fatal(fit.Status)
		}
	})
}

// Whatever the numbers, Fit returns: a fit without NaN or an error.
func FuzzFit(f *testing.F) {
	f.Add(uint64(1), uint8(0), uint8(5), uint8(3), 1.0, 1.0, uint8(0))
	f.Add(uint64(2), uint8(6), uint8(3), uint8(9), 1e9, 1e8, uint8(3))
	f.Add(uint64(3), uint8(10), uint8(9), uint8(2), 1e-200, 1e-300, uint8(6))
	f.Add(uint64(4), uint8(11), uint8(0), uint8(4), 1e300, 1e300, uint8(9))
	f.Add(uint64(5), uint8(7), uint8(20), uint8(0), 30.0, 1e10, uint8(15))
	f.Add(uint64(6), uint8(1), uint8(8), uint8(8), 1e150, 1e10, uint8(37))
	f.Fuzz(func(t *testing.T, seed uint64, family, n, d uint8, scale, variance float64, options uint8) {
		if !(variance > 0) || math.IsInf(variance, 0) {
			variance = 1
		}
		if math.IsNaN(scale) || math.IsInf(scale, 0) {
			scale = 1
		}
		c := families[int(family)%len(families)]
		m := model(t, c.family, c.link, c.params)
		m.NoIntercept = !(seed%2 == 0)
		m.Prior.Variance = variance
		m.Options = kernels.Options{
			Hessian:     []string{"full", "diagonal", "block", "lowrank"}[options%4],
			AutoPrior:   options&4 != 0,
			Standardize: options&8 != 0,
			AutoShape:   options&16 != 0 && (c.family == "negbinomial" || c.family == "gamma"),
			PriorGroups: options&32 != 0,
			MaxIter:     25,
		}
		rng := rand.New(rand.NewPCG(seed, 7))
		o := simulated(rng, c.family, c.link, int(n)%24, int(d)%12, 0.6)
		for i := range o.x {
			for j := range o.x[i] {
				o.x[i][j] *= scale
				if math.IsInf(o.x[i][j], 0) {
					o.x[i][j] = math.MaxFloat64
				}
			}
		}
		fit, err := Fit(context.Background(), problem(t, m, o))
		if err != nil {
			return
		}
		if err := fit.Check(); err != nil {
			t.Fatal(err)
		}
		if err := fit.Covariance.Check(len(fit.Beliefs)); err != nil {
			t.Fatal(err)
		}
		if math.IsNaN(fit.LogEvidence) {
			t.Fatal("evidence NaN")
		}
	})
}

package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gp"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
)

// hennigGP is the claims about Gaussian processes.
var hennigGP = []Claim{
	{ID: "H1-gp", Run: gpSupport,
		Text:     "GP classification: K⁻¹(f̂ - m) is the gradient r of the log likelihood at the mode. A point far from the boundary (small |r|) barely matters; all such points together do, because they hold f̂ away from its mean",
		Expected: "residual at most 1e-8; dropping a row with |r| < 0.05 moves probabilities less than a fifth as far as dropping one with |f̂| < 1"},
	{ID: "H3", Run: gpWeightSpace,
		Text:     "Weight space and function space are equivalent: K = φΣφᵀ gives the Laplace means, variances and evidence of the weights",
		Expected: "differences of at most 1e-8 in five families"},
	{ID: "H4-gp", Run: gpEvidence,
		Text:     "The log evidence is -½ aᵀ(f̂ - m) + Σ log σ(y f̂) - Σ log R_ii, where B = RᵀR (the slide omits the logarithm of σ)",
		Expected: "equal to that sum to 1e-10; for one and two rows, within 0.01 nats a row of quadrature at signal variance 1 and 30 times closer at 0.1"},
	{ID: "GP-ionosphere", Run: gpIonosphere, Data: "ionosphere.parquet",
		Text:     "Ionosphere, parameters chosen by evidence on the odd rows: the evidence ranks the kernels as the even rows do",
		Expected: "rbf better than linear in evidence and in test log loss, test errors below 10 %"},
	{ID: "GP-1000", Slow: true, Run: gpTime,
		Text:     "GP classification at n = 1,000, with given parameters and with parameters by evidence",
		Expected: "from n = 500 to 2,000, time grows as n³ or more slowly"},
}

// with is s and more claims.
func (s Section) with(more []Claim) Section {
	s.Claims = append(s.Claims[:len(s.Claims):len(s.Claims)], more...)
	return s
}

// gpScene is n points in the plane around a round boundary.
func gpScene(rng *rand.Rand, n int) (*dense.Matrix, []float64) {
	x, y := dense.New(n, 2), make([]float64, n)
	for i := range n {
		a, b := 2*rng.NormFloat64(), 2*rng.NormFloat64()
		x.Set(i, 0, a)
		x.Set(i, 1, b)
		if rng.Float64() < 1/(1+math.Exp(2*(a*a+b*b-5))) {
			y[i] = 1
		}
	}
	return x, y
}

func gpSupport(*Context) Found {
	rng := rand.New(rand.NewPCG(1, 2))
	l := ok(lik.New("bernoulli", "logit", lik.Params{}))
	x, y := gpScene(rng, 300)
	o := gp.Options{Lengthscale: 1.5, SignalVariance: 25}
	fit := ok(gp.Fit(context.Background(), l, x, y, nil, nil, nil, o))
	var s gp.Scratch
	residual := 0.0
	var certain, support []int // |r| < 0.05 and |f̂| < 1
	sure := make([]bool, len(y))
	for i := range y {
		f, _ := fit.Predict(x.Row(i), &s)
		_, r, _ := l.LogLik(lik.Obs{Y: y[i], Weight: 1}, f)
		residual = max(residual, math.Abs(fit.Alpha[i]-r))
		if sure[i] = math.Abs(r) < 0.05; sure[i] {
			certain = append(certain, i)
		}
		if math.Abs(f) < 1 {
			support = append(support, i)
		}
	}
	// change is the mean absolute change of P(y = 1) when the fit keeps some rows only
	to, _ := gpScene(rng, 300)
	before := make([]float64, to.Rows)
	for i := range before {
		before[i], _ = l.Predict(fit.Predict(to.Row(i), &s))
	}
	change := func(keep func(i int) bool) (sum float64) {
		part, py := dense.New(0, 2), []float64(nil)
		for i, v := range y {
			if keep(i) {
				part.Data, py = append(part.Data, x.Row(i)...), append(py, v)
			}
		}
		part.Rows = len(py)
		less := ok(gp.Fit(context.Background(), l, part, py, nil, nil, nil, o))
		for i, p := range before {
			q, _ := l.Predict(less.Predict(to.Row(i), &s))
			sum += math.Abs(p-q) / float64(to.Rows)
		}
		return sum
	}
	one := func(of []int) (mean float64) {
		for _, drop := range of[:20] {
			mean += change(func(i int) bool { return i != drop }) / 20
		}
		return mean
	}
	quiet, loud, together := one(certain), one(support), change(func(i int) bool { return !sure[i] })
	return Found{fmt.Sprintf("residual %.1e; dropping one row moves probabilities by %.1e on average if |r| < 0.05 and by %.1e if |f̂| < 1; dropping all %d of 300 rows with |r| < 0.05 moves them by %.3f",
		residual, quiet, loud, len(certain), together), residual <= 1e-8 && quiet < loud/5}
}

func gpWeightSpace(*Context) Found {
	rng := rand.New(rand.NewPCG(3, 4))
	const n, p = 120, 6
	deviation := []float64{3, 1, 1, 0.5, 0.5, 0.2}
	gap := [3]float64{}
	for _, f := range []struct{ family, link string }{{"bernoulli", "logit"}, {"bernoulli", "probit"}, {"poisson", "log"}, {"gamma", "log"}, {"gaussian", "identity"}} {
		l := ok(lik.New(f.family, f.link, lik.Params{Dispersion: 0.5, Shape: 2}))
		// φ Σ½: cubic polynomials of two inputs, and its weights N(0, I)
		phi, rows, y := dense.New(n, p), make([][]float64, n), make([]float64, n)
		for i := range n {
			a, b := rng.NormFloat64(), rng.NormFloat64()
			copy(phi.Row(i), []float64{1, a, b, a * a, a * b, a * a * a})
			for j, d := range deviation {
				phi.Row(i)[j] *= d
			}
			rows[i] = phi.Row(i)
			switch s := math.Sin(2*a) + b; f.family {
			case "bernoulli":
				if rng.Float64() < l.Response(s) {
					y[i] = 1
				}
			case "poisson":
				y[i] = math.Floor(math.Exp(s) * 2 * rng.Float64())
			case "gamma":
				y[i] = math.Exp(s) * rng.ExpFloat64()
			default:
				y[i] = s + rng.NormFloat64()
			}
		}
		process := ok(gp.Fit(context.Background(), l, phi, y, nil, nil, nil, gp.Options{Kernel: "linear"}))
		m := &kernels.Model{NoIntercept: true, Lik: l, Prior: kernels.Prior{Variance: 1}}
		weights := ok(laplace.Fit(context.Background(), ok(ok(denseRows(m, rows, y)).Problem())))
		var s gp.Scratch
		all := []int{0, 1, 2, 3, 4, 5}
		for i := range n {
			mean, variance := process.Predict(phi.Row(i), &s)
			for j, v := range phi.Row(i) {
				mean -= v * weights.Beliefs[j].Mean
			}
			gap[0] = max(gap[0], math.Abs(mean))
			gap[1] = max(gap[1], math.Abs(variance-weights.Covariance.Variance(all, phi.Row(i), nil)))
		}
		gap[2] = max(gap[2], math.Abs(process.LogEvidence-weights.LogEvidence))
	}
	return Found{fmt.Sprintf("largest differences: means %.1e, variances %.1e, log evidence %.1e", gap[0], gap[1], gap[2]), max(gap[0], gap[1], gap[2]) <= 1e-8}
}

func gpEvidence(*Context) Found {
	l := ok(lik.New("bernoulli", "logit", lik.Params{}))
	// the sum of the slide, R by its definition
	rng := rand.New(rand.NewPCG(5, 6))
	x, y := gpScene(rng, 60)
	fit := ok(gp.Fit(context.Background(), l, x, y, nil, nil, nil, gp.Options{SignalVariance: 4}))
	b, f := dense.New(60, 60), make([]float64, 60)
	sum := 0.0
	var s gp.Scratch
	sw := make([]float64, 60)
	for i := range f {
		f[i], _ = fit.Predict(x.Row(i), &s)
		logp, _, d2 := l.LogLik(lik.Obs{Y: y[i], Weight: 1}, f[i])
		sum += logp - 0.5*fit.Alpha[i]*f[i]
		sw[i] = math.Sqrt(-d2)
	}
	for i := range f {
		for j := range f {
			d := math.Hypot(x.At(i, 0)-x.At(j, 0), x.At(i, 1)-x.At(j, 1))
			b.Set(i, j, sw[i]*4*math.Exp(-d*d/2)*sw[j])
		}
		b.Set(i, i, 1+b.At(i, i))
	}
	if err := dense.Cholesky(b); err != nil {
		return Found{err.Error(), false}
	}
	formula := math.Abs(fit.LogEvidence - (sum - 0.5*dense.LogDet(b)))

	// one and two rows against the trapezoid rule
	gap := func(signal float64) (worst float64) {
		for _, ys := range [][]float64{{1}, {0}, {1, 1}, {1, 0}} {
			xs := dense.New(len(ys), 1)
			if len(ys) == 2 {
				xs.Set(1, 0, 1)
			}
			q := ok(gp.Fit(context.Background(), l, xs, ys, nil, nil, nil, gp.Options{SignalVariance: signal})).LogEvidence
			worst = max(worst, math.Abs(q-math.Log(gpQuadrature(l, ys, signal)))/float64(len(ys)))
		}
		return worst
	}
	wide, narrow := gap(1), gap(0.1)
	return Found{fmt.Sprintf("differs from the sum by %.1e, and from quadrature by %.4f nats a row at signal variance 1 and by %.1e at 0.1", formula, wide, narrow),
		formula <= 1e-10 && wide <= 0.01 && narrow <= wide/30}
}

// gpQuadrature is the evidence of one row, or of two at distance 1 under the rbf kernel.
func gpQuadrature(l lik.Likelihood, y []float64, signal float64) float64 {
	const h, reach = 0.05, 8.5
	rho := math.Exp(-0.5)
	p := func(y, f float64) float64 {
		logp, _, _ := l.LogLik(lik.Obs{Y: y, Weight: 1}, f)
		return math.Exp(logp)
	}
	sum := 0.0
	for u := -reach; u <= reach; u += h {
		w := p(y[0], math.Sqrt(signal)*u) * math.Exp(-u*u/2) * h / math.Sqrt(2*math.Pi)
		if len(y) == 1 {
			sum += w
			continue
		}
		for v := -reach; v <= reach; v += h {
			sum += w * p(y[1], math.Sqrt(signal)*(rho*u+math.Sqrt(1-rho*rho)*v)) * math.Exp(-v*v/2) * h / math.Sqrt(2*math.Pi)
		}
	}
	return sum
}

func gpIonosphere(c *Context) Found {
	t := ok(readTable(c.Data + "/ionosphere.parquet"))
	l := ok(lik.New("bernoulli", "probit", lik.Params{}))
	half := func(odd int) (*dense.Matrix, []float64) {
		x, y := dense.New((t.Rows+1-odd)/2, 34), []float64(nil)
		for i := odd; i < t.Rows; i += 2 {
			for j := range 34 {
				x.Set(len(y), j, t.Num(fmt.Sprintf("V%d", j+1))[i])
			}
			y = append(y, t.Num("y")[i])
		}
		return x, y
	}
	x, y := half(0)
	to, truth := half(1)
	var evidence, loss, wrong [2]float64
	text := ""
	for k, kernel := range []string{"rbf", "linear"} {
		f := ok(gp.Fit(context.Background(), l, x, y, nil, nil, nil, gp.Options{Kernel: kernel, AutoLengthscale: true, AutoSignalVariance: true, AutoMean: true}))
		r := ok(gp.NewPredictor(f, predict.Exact))
		score := make([]float64, len(truth))
		for i, v := range truth {
			p := ok(r.Response(to.Row(i), 0))
			score[i] = p
			if v == 0 {
				p = 1 - p
			}
			loss[k] -= math.Log(p) / float64(len(truth))
			if p < 0.5 {
				wrong[k] += 100 / float64(len(truth))
			}
		}
		evidence[k] = f.LogEvidence
		text += fmt.Sprintf("; %s: log evidence %.1f, test log loss %.3f, errors %.1f %%, AUC %.3f", kernel, evidence[k], loss[k], wrong[k], auc(truth, score))
	}
	return Found{text[2:], evidence[0] > evidence[1] && loss[0] < loss[1] && wrong[0] < 10}
}

func gpTime(*Context) Found {
	l := ok(lik.New("bernoulli", "logit", lik.Params{}))
	auto := gp.Options{AutoLengthscale: true, AutoSignalVariance: true, AutoMean: true}
	took := func(n int, o gp.Options) (seconds float64) {
		x, y := gpScene(rand.New(rand.NewPCG(7, uint64(n))), n)
		seconds = math.Inf(1)
		for range 3 {
			start := time.Now()
			ok(gp.Fit(context.Background(), l, x, y, nil, nil, nil, o))
			seconds = min(seconds, time.Since(start).Seconds())
		}
		return seconds
	}
	var logN, logT []float64
	var at1000 float64
	for _, n := range []int{500, 1000, 2000} {
		s := took(n, gp.Options{Lengthscale: 1.5, SignalVariance: 25})
		if n == 1000 {
			at1000 = s
		}
		logN, logT = append(logN, math.Log(float64(n))), append(logT, math.Log(s))
	}
	grows := slope(logN, logT)
	return Found{fmt.Sprintf("parameters given %.3f s, all by evidence %.2f s; time grows as n^%.1f", at1000, took(1000, auto), grows), grows <= 3.1}
}

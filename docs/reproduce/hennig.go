package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/ep"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/softmax"
)

var hennig = Section{
	Title:  "Probabilistic machine learning, lecture 14",
	Source: "Hennig (2020).",
	Claims: []Claim{
		{ID: "H1", Run: supportPoints,
			Text:     "At the Laplace mode, Σ0⁻¹(ŵ - μ0) is Xᵀr, where r are the gradients of the rows: rows far on the correct side of the boundary barely matter; those with |f| < 1 are the support points",
			Expected: "residual at most 1e-8; leaving out the tenth of the rows with the smallest |r| moves probabilities less than a fifth as far as leaving out as many rows with |f| < 1"},
		{ID: "H2", Run: oneMode,
			Text:     "The log posteriors of logistic and softmax regression are concave: there is one mode, found from any start",
			Expected: "the same mode to 1e-8 from 20 starts; none of 1,000 chords of the softmax log posterior lies above it"},
		{ID: "H2-time", Slow: true, Run: newtonTime,
			Text:     "Newton's method for F weights costs O(F² n)",
			Expected: "slopes of log time about 1 in n and at most 2 in F (below 2 while reading X, not arithmetic, is the bottleneck)"},
		{ID: "H4", Run: evidenceNumbers,
			Text:     "Laplace's log evidence is log p(y | ŵ) - ½ (ŵ-μ0)ᵀΛ0(ŵ-μ0) - ½ log |I + Σ0 H|; it approaches the integral as rows are added",
			Expected: "one success in ten, probit: log evidence -4.710257, prediction .1773 (exact -4.700480, 1/6); logit in 1 and 2 dimensions: gap to quadrature below 0.1 nats at 10 rows, 0.02 at 100, 0.002 at 1,000"},
		{ID: "H5", Run: moderation,
			Text:     "MacKay's moderated output σ(m/√(1 + πv/8)) approximates the integral well",
			Expected: "largest error 0.016 for |m| <= 10 and v <= 100, never on the other side of one half"},
		{ID: "H6", Run: farAway,
			Text:     "Far from the data, the MAP prediction is certain; with Laplace, the confidence stays bounded: by σ(|xᵀμ|/√(π/8 xᵀΨx)) along x, and by σ(‖μ‖/√(π/8 λmin(Ψ))) in every direction",
			Expected: "at 1e8 x, the MAP confidence is 1, and the moderated confidence is within 1e-6 of its limit and below the bound; the exact integral tends to Φ(|xᵀμ|/√(xᵀΨx))"},
		{ID: "H7", Run: hinge,
			Text:     "The hinge loss is not a likelihood: exp(-ℓ(f)) + exp(-ℓ(-f)) is not constant, as it is for the logistic loss",
			Expected: "logistic: 1 everywhere; hinge: from 0.74 at f = 0 to 1.14 at f = 1"},
		{ID: "H8", Run: counts,
			Text:     "Counts with a Gaussian likelihood and exponential link: N(y; exp f, σ²) is near N(log y; f, σ²/y²) (the slide prints 1/y, but its curvature gives 1/y²); for y = 0 there is no such form",
			Expected: "curvature at f = log y equal to y²/σ² to 1e-9, and fits with both forms within 0.1 posterior standard deviations; data with zeros can be fitted too"},
		{ID: "H9", Run: arbitraryLinks,
			Text:     "For links other than logit, the posterior can be skewed and Laplace's approximation poor; EP, which matches moments, is closer",
			Expected: "for every link, the KL divergence from the exact posterior of one weight to Laplace is above that to EP; for the worst, it is above 0.05 nats"},
		{ID: "H10", Run: cheapHessians,
			Text:     "Cheap Hessians give usable uncertainty: with a prior ten times too wide, held-out log loss falls from the MAP estimate to the diagonal, the block and the full Hessian. Low rank, which keeps the diagonal of what it leaves out, approaches full as the rank grows",
			Expected: "mean log loss over 40 replications with 150 rows and 30 weights: full < block < diagonal < MAP; low rank of 10, 20 and 28 below MAP and falling, the last within 0.01 of full"},
		{ID: "H11", Run: weightDecay,
			Text:     "The evidence chooses the weight decay and ranks models",
			Expected: "held-out log loss at the prior variance of highest evidence within 0.01 of the best on a grid, on average over 20 data sets; the true number of features has the highest evidence in most of 40 data sets, and a smaller number never has"},
		{ID: "H12", Run: moderatedOutputs,
			Text:     "Moderated outputs predict better than plug-in ones if the prior is too wide; under the prior that the weights were drawn from, the mode is shrunk enough and both do equally well. Labelling the most informative rows improves the fit faster than labelling random ones",
			Expected: "30 rows, 10 weights: with a prior ten times too wide, moderation lowers held-out log loss in more than nine of ten data sets; with the right prior, both are within 0.02 on average; after 40 labels, log loss is lower with chosen rows, on average over 30 replications"},
	},
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// logitScene is n rows of d standard normal features and a logit response with
// weights of the given scale.
func logitScene(rng *rand.Rand, n, d int, scale float64) (x *dense.Matrix, y, w []float64) {
	x, w = lrNormals(rng, n, d), make([]float64, d)
	for j := range w {
		w[j] = scale * rng.NormFloat64()
	}
	return x, lrRespond(rng, "bernoulli", x, w), w
}

func laplaceOf(p *kernels.Problem) (*kernels.Fit, *gauss.Normal) {
	f := ok(laplace.Fit(context.Background(), p))
	return f, ok(p.Posterior(f))
}

// logLoss is the mean of -log p(y) under probabilities of 1.
func logLoss(y, p []float64) float64 {
	s := 0.0
	for i, q := range p {
		if y[i] == 0 {
			q = 1 - q
		}
		s -= math.Log(max(q, 1e-300)) / float64(len(p))
	}
	return s
}

// forecast is the probabilities of rows x under g, moderated or at the mean.
func forecast(g *gauss.Normal, x *dense.Matrix, exact bool) []float64 {
	l := ok(lik.New("bernoulli", "logit", lik.Params{}))
	out := make([]float64, x.Rows)
	col := make([]uint32, x.Cols)
	for j := range col {
		col[j] = uint32(j)
	}
	var scratch []float64
	for i := range out {
		m, v := g.Linear(col, x.Row(i), &scratch)
		out[i] = logistic(m)
		if exact {
			out[i], _ = l.Predict(m, v)
		}
	}
	return out
}

func without(x *dense.Matrix, y []float64, drop []int) (*dense.Matrix, []float64) {
	gone := map[int]bool{}
	for _, i := range drop {
		gone[i] = true
	}
	kept := dense.New(x.Rows-len(gone), x.Cols)
	var ys []float64
	for i, v := range y {
		if !gone[i] {
			copy(kept.Row(len(ys)), x.Row(i))
			ys = append(ys, v)
		}
	}
	return kept, ys
}

func supportPoints(*Context) Found {
	rng := rand.New(rand.NewPCG(1, 1))
	x, y, _ := logitScene(rng, 400, 6, 1.5)
	m := lrModel("bernoulli", false, lik.Params{}, kernels.Options{})
	p := lrProblem(m, x, y)
	_, g := laplaceOf(p)
	f, r := make([]float64, p.N), make([]float64, p.N)
	p.Predictor(f, g.Mean)
	byR, near := make([]int, p.N), []int(nil)
	for i := range f {
		_, r[i], _ = m.Lik.LogLik(p.Batch().Obs(i), f[i])
		byR[i] = i
		if math.Abs(f[i]) < 1 {
			near = append(near, i)
		}
	}
	grad := make([]float64, p.P)
	p.MulT(grad, r)
	residual := 0.0
	for j, w := range g.Mean {
		residual = max(residual, math.Abs(grad[j]-(w-p.PriorMean[j])/p.PriorVar[j]))
	}
	slices.SortFunc(byR, func(a, b int) int {
		if math.Abs(r[a]) < math.Abs(r[b]) {
			return -1
		}
		return 1
	})
	moved := func(drop []int) float64 {
		kept, ys := without(x, y, drop)
		_, h := laplaceOf(lrProblem(m, kept, ys))
		a, b, worst := forecast(g, x, true), forecast(h, x, true), 0.0
		for i := range a {
			worst = max(worst, math.Abs(a[i]-b[i]))
		}
		return worst
	}
	far, support := moved(byR[:40]), moved(near[:40])
	return Found{fmt.Sprintf("residual %.1e; probabilities move by at most %.4f without the 40 rows with the smallest |r|, and by at most %.4f without 40 of the %d rows with |f| < 1", residual, far, support, len(near)),
		residual <= 1e-8 && far < support/5}
}

func oneMode(*Context) Found {
	rng := rand.New(rand.NewPCG(1, 2))
	worst := 0.0
	for _, d := range []int{5, 40} {
		x, y, _ := logitScene(rng, 60, d, 1)
		p := lrProblem(lrModel("bernoulli", true, lik.Params{}, kernels.Options{Tol: 1e-10}), x, y)
		want, _ := laplaceOf(p)
		for range 10 {
			start := make([]float64, p.P)
			for j := range start {
				start[j] = 3 * rng.NormFloat64()
			}
			f := ok(laplace.FitFrom(context.Background(), p, start))
			for j, b := range f.Beliefs {
				worst = max(worst, math.Abs(b.Mean-want.Beliefs[j].Mean))
			}
		}
	}
	// softmax: the log posterior at the middle of a chord
	x, _, _ := logitScene(rng, 50, 3, 1)
	label := make([]int, 50)
	for i := range label {
		label[i] = rng.IntN(3)
	}
	value := func(w []float64) float64 {
		s := -0.5 * dense.Dot(w, w)
		for i, l := range label {
			var f [3]float64
			total := 0.0
			for k := range f {
				f[k] = dense.Dot(x.Row(i), w[3*k:3*k+3])
				total += math.Exp(f[k])
			}
			s += f[l] - math.Log(total)
		}
		return s
	}
	above := 0
	for range 1000 {
		a, b, mid := make([]float64, 9), make([]float64, 9), make([]float64, 9)
		for j := range a {
			a[j], b[j] = 3*rng.NormFloat64(), 3*rng.NormFloat64()
			mid[j] = (a[j] + b[j]) / 2
		}
		if value(mid) < (value(a)+value(b))/2 {
			above++
		}
	}
	// and the mode that softmax.Fit finds is above all of them
	m := lrModel("bernoulli", false, lik.Params{}, kernels.Options{})
	m.Lik = nil
	y := make([]float64, len(label))
	for i, l := range label {
		y[i] = float64(l)
	}
	f := ok(softmax.Fit(context.Background(), lrProblem(m, x, y), []string{"a", "b", "c"}))
	w := make([]float64, 9)
	for j, b := range f.Beliefs {
		w[j] = b.Mean
	}
	top := value(w)
	higher := 0
	for range 1000 {
		v := slices.Clone(w)
		for j := range v {
			v[j] += 0.1 * rng.NormFloat64()
		}
		if value(v) > top {
			higher++
		}
	}
	return Found{fmt.Sprintf("modes differ by %.1e; %d of 1,000 chords above the softmax log posterior, %d of 1,000 points around its mode higher", worst, above, higher), worst < 1e-8 && above == 0 && higher == 0}
}

func newtonTime(*Context) Found {
	rng := rand.New(rand.NewPCG(1, 3))
	per := func(n, d int) float64 {
		x, y, _ := logitScene(rng, n, d, 1/math.Sqrt(float64(d)))
		p := lrProblem(lrModel("bernoulli", false, lik.Params{}, kernels.Options{}), x, y)
		p.Dense()
		steps := 1
		s := fastest(3, func() { steps = ok(laplace.Fit(context.Background(), p)).Iterations + 1 })
		return math.Log(s / float64(steps))
	}
	var ln, tn, lf, tf []float64
	for _, n := range []int{10_000, 20_000, 40_000, 80_000} {
		ln, tn = append(ln, math.Log(float64(n))), append(tn, per(n, 100))
	}
	for _, d := range []int{40, 80, 160, 320} {
		lf, tf = append(lf, math.Log(float64(d))), append(tf, per(20_000, d))
	}
	a, b := slope(ln, tn), slope(lf, tf)
	return Found{fmt.Sprintf("slope %.2f in n, %.2f in F", a, b), a > 0.7 && a < 1.3 && b < 2.1}
}

// integral is log ∫ p(y | w) N(w; 0, I) dw of one or two logit weights, by the
// trapezoid rule.
func integral(p *kernels.Problem) float64 {
	const h = 0.05
	eta, w := make([]float64, p.N), make([]float64, p.P)
	sum := 0.0
	at := func() {
		p.Predictor(eta, w)
		s := -0.5 * dense.Dot(w, w)
		for i, e := range eta {
			logp, _, _ := p.Lik.LogLik(p.Batch().Obs(i), e)
			s += logp
		}
		sum += math.Exp(s + float64(p.N)*math.Ln2)
	}
	for w[0] = -6; w[0] <= 6; w[0] += h {
		if p.P == 1 {
			at()
			continue
		}
		for w[1] = -6; w[1] <= 6; w[1] += h {
			at()
		}
	}
	return math.Log(sum) - float64(p.N)*math.Ln2 + float64(p.P)*math.Log(h/math.Sqrt(2*math.Pi))
}

func evidenceNumbers(*Context) Found {
	m := &kernels.Model{NoIntercept: true, Lik: ok(lik.New("bernoulli", "probit", lik.Params{})), Prior: kernels.Prior{Variance: 1}}
	one := dense.New(10, 1)
	y := make([]float64, 10)
	for i := range y {
		one.Set(i, 0, 1)
	}
	y[3] = 1
	f, g := laplaceOf(lrProblem(m, one, y))
	pred, _ := m.Lik.Predict(g.Mean[0], g.Var[0])
	holds := math.Abs(f.LogEvidence+4.710257) < 1e-6 && math.Abs(pred-.1773) < 5e-5
	text := fmt.Sprintf("log evidence %.6f, prediction %.4f; gaps in nats:", f.LogEvidence, pred)
	bound := map[int]float64{10: 0.1, 100: 0.02, 1000: 0.002}
	for d := 1; d <= 2; d++ {
		for _, n := range []int{10, 100, 1000} {
			if d == 2 && n == 1000 {
				continue
			}
			rng := rand.New(rand.NewPCG(1, 4))
			x, y, _ := logitScene(rng, n, d, 0.7)
			p := lrProblem(lrModel("bernoulli", false, lik.Params{}, kernels.Options{}), x, y)
			f, _ := laplaceOf(p)
			gap := math.Abs(f.LogEvidence - integral(p))
			holds = holds && gap < bound[n]
			text += fmt.Sprintf(" %.4f (%d-d, %d rows),", gap, d, n)
		}
	}
	return Found{strings.TrimSuffix(text, ","), holds}
}

func moderation(*Context) Found {
	l := ok(lik.New("bernoulli", "logit", lik.Params{}))
	worst, at := 0.0, [2]float64{}
	crossed := 0
	for m := -10.0; m <= 10; m += 0.25 {
		for v := 0.0; v <= 100; v++ {
			exact, _ := l.Predict(m, v)
			got := l.Moderated(m, v)
			if d := math.Abs(got - exact); d > worst {
				worst, at = d, [2]float64{m, v}
			}
			if m != 0 && (got > 0.5) != (exact > 0.5) {
				crossed++
			}
		}
	}
	return Found{fmt.Sprintf("largest error %.4f at m = %v, v = %v; %d on the other side of one half", worst, at[0], at[1], crossed), math.Abs(worst-0.016) < 5e-4 && crossed == 0}
}

func farAway(*Context) Found {
	rng := rand.New(rand.NewPCG(1, 5))
	x, y, _ := logitScene(rng, 40, 3, 1)
	p := lrProblem(lrModel("bernoulli", false, lik.Params{}, kernels.Options{}), x, y)
	_, g := laplaceOf(p)
	l := p.Lik
	cov := lrCov(g)
	least := -lrEigen(cov, mat.NewSymDense(3, nil), -1)
	bound := logistic(lrNorm(g.Mean) / math.Sqrt(math.Pi/8*least))
	holds := true
	gap, gapExact, top := 0.0, 0.0, 0.0
	col := []uint32{0, 1, 2}
	for range 200 {
		d := lrNormals(rng, 1, 3).Data
		m, v := g.Linear(col, d, nil)
		for s := 1.0; s <= 1e8; s *= 10 {
			conf := l.Moderated(s*math.Abs(m), s*s*v)
			holds = holds && conf <= bound
			top = max(top, conf)
		}
		const s = 1e8
		gap = max(gap, math.Abs(l.Moderated(s*math.Abs(m), s*s*v)-logistic(math.Abs(m)/math.Sqrt(math.Pi/8*v))))
		exact, _ := l.Predict(s*math.Abs(m), s*s*v)
		gapExact = max(gapExact, math.Abs(exact-0.5*math.Erfc(-math.Abs(m)/math.Sqrt(2*v))))
		holds = holds && l.Response(s*math.Abs(m)) == 1
	}
	return Found{fmt.Sprintf("at 1e8 x: MAP 1, distance to the limits %.1e (moderated), %.1e (exact); largest moderated confidence %.4f, bound %.4f", gap, gapExact, top, bound), holds && gap < 1e-6 && gapExact < 1e-6}
}

func hinge(*Context) Found {
	l := ok(lik.New("bernoulli", "logit", lik.Params{}))
	loss := func(f float64) float64 { return max(1-f, 0) }
	lo, hi, off := math.Inf(1), 0.0, 0.0
	for f := -4.0; f <= 4; f += 0.01 {
		h := math.Exp(-loss(f)) + math.Exp(-loss(-f))
		lo, hi = min(lo, h), max(hi, h)
		a, _, _ := l.LogLik(lik.Obs{Y: 1, Weight: 1}, f)
		b, _, _ := l.LogLik(lik.Obs{Y: 0, Weight: 1}, f)
		off = max(off, math.Abs(math.Exp(a)+math.Exp(b)-1))
	}
	return Found{fmt.Sprintf("logistic 1 within %.0e; hinge from %.4f to %.4f", off, lo, hi), off < 1e-12 && math.Abs(lo-2*math.Exp(-1)) < 1e-9 && math.Abs(hi-1-math.Exp(-2)) < 1e-3}
}

func counts(*Context) Found {
	const noise = 4.0
	l := ok(lik.New("gaussian", "log", lik.Params{Dispersion: noise}))
	worst := 0.0
	for _, y := range []float64{0.5, 1, 3, 40, 1e4} {
		_, d1, d2 := l.LogLik(lik.Obs{Y: y, Weight: 1}, math.Log(y))
		worst = max(worst, math.Abs(-d2*noise/(y*y)-1), math.Abs(d1)/y)
	}
	rng := rand.New(rand.NewPCG(1, 8))
	m := &kernels.Model{Lik: l, Params: lik.Params{Dispersion: noise}, Prior: kernels.DefaultPrior}
	x, y := lrNormals(rng, 200, 2), make([]float64, 200)
	for i := range y {
		y[i] = math.Round(math.Exp(6.5+0.4*x.At(i, 0)-0.3*x.At(i, 1)) + 2*rng.NormFloat64())
	}
	exact := ok(laplace.Fit(context.Background(), lrProblem(m, x, y)))
	// the same by a weighted Gaussian regression on log y: weight y²
	n := *m
	n.Lik = ok(lik.New("gaussian", "", lik.Params{Dispersion: noise}))
	rows := ok(kernels.NewRows(&n))
	base := ok(rows.Dict.Dense(2))
	var b kernels.Batch
	b.Reset()
	for i := range y {
		b.Add(0, 1)
		b.Add(uint32(base), x.At(i, 0))
		b.Add(uint32(base+1), x.At(i, 1))
		b.EndRow()
		b.Y, b.Weight = append(b.Y, math.Log(y[i])), append(b.Weight, y[i]*y[i])
	}
	must(rows.Update(&b, false))
	delta := ok(laplace.Fit(context.Background(), ok(rows.Problem())))
	apart := 0.0
	for j, e := range exact.Beliefs {
		apart = max(apart, math.Abs(e.Mean-delta.Beliefs[j].Mean)/math.Sqrt(e.Variance))
	}
	zeros := 0
	for i := range y {
		y[i] = math.Round(max(math.Exp(0.2+x.At(i, 0))+rng.NormFloat64(), 0))
		if y[i] == 0 {
			zeros++
		}
	}
	f := ok(laplace.Fit(context.Background(), lrProblem(m, x, y)))
	return Found{fmt.Sprintf("curvature y²/σ² within %.0e; fits %.3f posterior standard deviations apart; with %d zeros in 200 rows: status %s, slope %.2f", worst, apart, zeros, f.Status, f.Beliefs[1].Mean),
		worst < 1e-9 && apart < 0.1 && f.Converged && zeros > 20 && math.Abs(f.Beliefs[1].Mean-1) < 0.3}
}

// klToGaussian is KL(posterior of one weight ‖ N(m, v)), by quadrature.
func klToGaussian(p *kernels.Problem, m, v float64) float64 {
	eta := make([]float64, p.N)
	logPost := func(w float64) float64 {
		p.Predictor(eta, []float64{w})
		s := -0.5 * w * w / p.PriorVar[0]
		for i, e := range eta {
			logp, _, _ := p.Lik.LogLik(p.Batch().Obs(i), e)
			s += logp
		}
		return s
	}
	const n = 8001
	reach := 8 * math.Sqrt(p.PriorVar[0])
	h := 2 * reach / (n - 1)
	q := make([]float64, n)
	top := math.Inf(-1)
	for i := range q {
		q[i] = logPost(-reach + h*float64(i))
		top = max(top, q[i])
	}
	z := 0.0
	for _, v := range q {
		z += h * math.Exp(v-top)
	}
	kl := 0.0
	for i, l := range q {
		l -= top + math.Log(z)
		w := -reach + h*float64(i)
		kl += h * math.Exp(l) * (l + 0.5*(w-m)*(w-m)/v + 0.5*math.Log(2*math.Pi*v))
	}
	return kl
}

func arbitraryLinks(*Context) Found {
	var text []string
	holds, worst := true, 0.0
	for _, c := range []struct {
		family, link string
		y            []float64
		params       lik.Params
	}{
		{"bernoulli", "logit", []float64{1, 1, 1}, lik.Params{}},
		{"bernoulli", "probit", []float64{1, 1, 1}, lik.Params{}},
		{"bernoulli", "cloglog", []float64{0, 0, 0}, lik.Params{}},
		{"poisson", "log", []float64{0, 0, 1}, lik.Params{}},
		{"studentt", "identity", []float64{1, 8}, lik.Params{Shape: 3, Dispersion: 1}},
	} {
		m := &kernels.Model{NoIntercept: true, Lik: ok(lik.New(c.family, c.link, c.params)), Params: c.params, Prior: kernels.Prior{Variance: 9}}
		x := dense.New(len(c.y), 1)
		for i := range c.y {
			x.Set(i, 0, 1)
		}
		p := lrProblem(m, x, c.y)
		_, la := laplaceOf(p)
		e := ok(ep.Fit(context.Background(), p))
		a, b := klToGaussian(p, la.Mean[0], la.Var[0]), klToGaussian(p, e.Fit.Beliefs[0].Mean, e.Fit.Beliefs[0].Variance)
		holds = holds && a > b
		worst = max(worst, a)
		text = append(text, fmt.Sprintf("%s %.3f (EP %.3f)", strings.TrimSuffix(c.family+" "+c.link, " identity"), a, b))
	}
	return Found{"KL to Laplace: " + strings.Join(text, ", "), holds && worst > 0.05}
}

// hessianScene is rows of features in groups of five, correlated within a group and a
// little between them.
func hessianScene(rng *rand.Rand, n, d int) *dense.Matrix {
	x := lrNormals(rng, n, d)
	for i := range n {
		common := rng.NormFloat64()
		for g := range d / 5 {
			shared := rng.NormFloat64()
			for j := range 5 {
				x.Row(i)[5*g+j] = 0.5*x.Row(i)[5*g+j] + 0.8*shared + 0.3*common
			}
		}
	}
	return x
}

// groupedProblem is rows x, every five columns a group; names keep their order.
func groupedProblem(m *kernels.Model, x *dense.Matrix, y []float64) *kernels.Problem {
	rows := ok(kernels.NewRows(m))
	var b kernels.Batch
	b.Reset()
	for i := range y {
		for j, v := range x.Row(i) {
			b.Add(ok(rows.Dict.Add(fmt.Sprintf("g%02d=%d", j/5, j%5))), v)
		}
		b.EndRow()
		b.Y = append(b.Y, y[i])
	}
	must(rows.Update(&b, false))
	return ok(rows.Problem())
}

func cheapHessians(*Context) Found {
	const reps, d = 40, 30
	kinds := []struct {
		hessian string
		rank    int
	}{{"MAP", 0}, {"diagonal", 0}, {"block", 0}, {"full", 0}, {"lowrank", 10}, {"lowrank", 20}, {"lowrank", 28}}
	loss := make([]float64, len(kinds))
	for rep := range reps {
		rng := rand.New(rand.NewPCG(2, uint64(rep)))
		x, far := hessianScene(rng, 150, d), hessianScene(rng, 1000, d)
		w := lrNormals(rng, 1, d).Data
		y, yFar := lrRespond(rng, "bernoulli", x, w), lrRespond(rng, "bernoulli", far, w)
		for k, c := range kinds {
			o := kernels.Options{Hessian: c.hessian, Rank: c.rank}
			if c.hessian == "MAP" {
				o.Hessian = "diagonal"
			}
			m := lrModel("bernoulli", false, lik.Params{}, o)
			m.Prior.Variance = 10
			_, g := laplaceOf(groupedProblem(m, x, y))
			loss[k] += logLoss(yFar, forecast(g, far, c.hessian != "MAP")) / reps
		}
	}
	var text []string
	for k, c := range kinds {
		name := c.hessian
		if c.rank > 0 {
			name = fmt.Sprintf("rank %d", c.rank)
		}
		text = append(text, fmt.Sprintf("%s %.4f", name, loss[k]))
	}
	mapLoss, diag, block, full := loss[0], loss[1], loss[2], loss[3]
	return Found{strings.Join(text, ", "), full < block && block < diag && diag < mapLoss &&
		mapLoss > loss[4] && loss[4] > loss[5] && loss[5] > loss[6] && loss[6] < full+0.01}
}

func weightDecay(*Context) Found {
	regret := 0.0
	const sets = 20
	for rep := range sets {
		rng := rand.New(rand.NewPCG(3, uint64(rep)))
		scale := []float64{0.1, 0.3, 1, 2}[rep%4]
		x, y, w := logitScene(rng, 150, 20, scale)
		far := lrNormals(rng, 4000, 20)
		yFar := lrRespond(rng, "bernoulli", far, w)
		at := func(v float64, auto bool) float64 {
			m := lrModel("bernoulli", false, lik.Params{}, kernels.Options{AutoPrior: auto})
			m.Prior.Variance = v
			_, g := laplaceOf(lrProblem(m, x, y))
			return logLoss(yFar, forecast(g, far, true))
		}
		best := math.Inf(1)
		for e := -4.0; e <= 2; e += 0.5 {
			best = min(best, at(math.Pow(10, e), false))
		}
		regret += (at(1, true) - best) / sets
	}
	right, fewer := 0, 0
	const tries, truth = 40, 4
	for rep := range tries {
		rng := rand.New(rand.NewPCG(4, uint64(rep)))
		x, w := lrNormals(rng, 400, 8), make([]float64, 8)
		for j := range truth {
			w[j] = 0.8 * math.Copysign(1, rng.NormFloat64())
		}
		y := lrRespond(rng, "bernoulli", x, w)
		top, order := math.Inf(-1), 0
		for d := 1; d <= 8; d++ {
			f, _ := laplaceOf(lrProblem(lrModel("bernoulli", false, lik.Params{}, kernels.Options{}), x.Slice(0, 400, 0, d), y))
			if f.LogEvidence > top {
				top, order = f.LogEvidence, d
			}
		}
		if order == truth {
			right++
		}
		if order < truth {
			fewer++
		}
	}
	return Found{fmt.Sprintf("log loss %.4f above the best of 13 variances; highest evidence for the true number of features in %d of %d data sets, for fewer in %d", regret, right, tries, fewer), regret < 0.01 && right > tries/2 && fewer == 0}
}

func moderatedOutputs(*Context) Found {
	var wins [2]int
	var gain [2]float64
	const sets = 60
	for rep := range sets {
		for k, v := range [2]float64{10, 1} {
			rng := rand.New(rand.NewPCG(5, uint64(rep)))
			x, y, w := logitScene(rng, 30, 10, 1)
			far := lrNormals(rng, 2000, 10)
			yFar := lrRespond(rng, "bernoulli", far, w)
			m := lrModel("bernoulli", false, lik.Params{}, kernels.Options{})
			m.Prior.Variance = v
			_, g := laplaceOf(lrProblem(m, x, y))
			d := logLoss(yFar, forecast(g, far, false)) - logLoss(yFar, forecast(g, far, true))
			if gain[k] += d / sets; d > 0 {
				wins[k]++
			}
		}
	}
	// Active choice: of a pool the row whose label tells most about the weights, by
	// MacKay's measure of the curvature it adds, ½ log(1 + p(1-p) v).
	var loss [2]float64
	const reps, labels = 30, 40
	for rep := range reps {
		rng := rand.New(rand.NewPCG(6, uint64(rep)))
		pool := lrNormals(rng, 400, 8)
		w := lrNormals(rng, 1, 8).Data
		for j := range w {
			w[j] *= 1.5
		}
		for i := range pool.Rows { // most of them near the origin, where labels are noise
			if i%4 > 0 {
				for j := range pool.Row(i) {
					pool.Row(i)[j] *= 0.2
				}
			}
		}
		y := lrRespond(rng, "bernoulli", pool, w)
		far := lrNormals(rng, 2000, 8)
		yFar := lrRespond(rng, "bernoulli", far, w)
		m := lrModel("bernoulli", false, lik.Params{}, kernels.Options{})
		col := []uint32{0, 1, 2, 3, 4, 5, 6, 7}
		for k := range loss {
			order := rng.Perm(pool.Rows)
			var g *gauss.Normal
			for n := 5; n <= labels; n++ {
				x, ys := dense.New(n, 8), make([]float64, n)
				for i, r := range order[:n] {
					copy(x.Row(i), pool.Row(r))
					ys[i] = y[r]
				}
				if k == 0 && n < labels { // random: only the last fit counts
					continue
				}
				_, g = laplaceOf(lrProblem(m, x, ys))
				best, at := -1.0, n
				for i := n; i < len(order) && k == 1; i++ {
					mean, v := g.Linear(col, pool.Row(order[i]), nil)
					p := logistic(mean)
					if info := 0.5 * math.Log1p(p*(1-p)*v); info > best {
						best, at = info, i
					}
				}
				if n < len(order) {
					order[n], order[at] = order[at], order[n]
				}
			}
			loss[k] += logLoss(yFar, forecast(g, far, true)) / reps
		}
	}
	return Found{fmt.Sprintf("wide prior: moderation is better in %d of %d data sets, by %.3f on average; right prior: in %d, by %.3f; log loss after %d labels %.4f (random) and %.4f (chosen)", wins[0], sets, gain[0], wins[1], gain[1], labels, loss[0], loss[1]),
		wins[0]*10 > 9*sets && math.Abs(gain[1]) < 0.02 && loss[1] < loss[0]}
}

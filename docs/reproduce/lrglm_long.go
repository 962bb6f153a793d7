package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/hmc"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/lowrank"
)

// fastest is the least processor time in seconds of some runs of f.
func fastest(runs int, f func()) float64 {
	best := math.Inf(1)
	for range runs {
		runtime.GC()
		start := clock()
		f()
		best = min(best, clock()-start)
	}
	return best
}

// lrHarmonic and lrGeometric are how singular values may fall.
func lrHarmonic(i float64) float64  { return 1 / (1 + i) }
func lrGeometric(i float64) float64 { return math.Pow(0.85, i) }

// lrScene is a logistic problem with a dense design: 60 common factors whose singular
// values are n^½ fall(j), and a little noise.
func lrScene(n, d, m int, fall func(float64) float64) *kernels.Problem {
	rng := rand.New(rand.NewPCG(uint64(n), uint64(d)))
	k := min(60, d)
	load := lrNormals(rng, k, d)
	for i := range k {
		for j := range d {
			load.Row(i)[j] *= fall(float64(i)) / math.Sqrt(float64(d))
		}
	}
	x := dense.New(n, d)
	dense.Mul(x, lrNormals(rng, n, k), load)
	for i := range x.Data {
		x.Data[i] += 0.005 * rng.NormFloat64() / math.Sqrt(float64(d))
	}
	w := lrNormals(rng, 1, d).Data
	for j := range w {
		w[j] *= 2
	}
	mod := lrModel("bernoulli", false, lik.Params{}, kernels.Options{Rank: m})
	y := lrRespond(rng, "bernoulli", x, w)
	// In blocks: the whole design would stand in memory once more.
	r := ok(kernels.NewRows(mod))
	base := ok(r.Dict.Dense(d))
	var b kernels.Batch
	for lo := 0; lo < n; lo += 1000 {
		b.Reset()
		for i := lo; i < min(lo+1000, n); i++ {
			for j, v := range x.Row(i) {
				b.Add(uint32(base+j), v)
			}
			b.EndRow()
			b.Y = append(b.Y, y[i])
		}
		must(r.Update(&b, false))
	}
	return ok(r.Problem())
}

func lrCost(c *Context) Found {
	low := func(p *kernels.Problem) func() { return func() { ok(lowrank.Fit(context.Background(), p)) } }
	full := func(p *kernels.Problem) func() { return func() { lrFull(p) } }
	one := func(what string, sizes []int, make func(int) *kernels.Problem, fit func(*kernels.Problem) func()) float64 {
		var x, y []float64
		for _, s := range sizes {
			p := make(s)
			p.Dense()
			t := fastest(5, fit(p))
			fmt.Fprintf(c.Log, "  %s = %d: %.3f s\n", what, s, t)
			x, y = append(x, math.Log(float64(s))), append(y, math.Log(t))
		}
		return slope(x, y)
	}
	d := one("low rank, D", []int{1000, 2000, 4000, 8000}, func(d int) *kernels.Problem { return lrScene(2000, d, 40, lrHarmonic) }, low)
	n := one("low rank, N", []int{2000, 4000, 8000, 16000}, func(n int) *kernels.Problem { return lrScene(n, 1000, 40, lrHarmonic) }, low)
	m := one("low rank, M", []int{25, 50, 100, 200}, func(m int) *kernels.Problem { return lrScene(4000, 4000, m, lrHarmonic) }, low)
	f := one("full, D", []int{500, 1000, 2000, 4000}, func(d int) *kernels.Problem { return lrScene(4000, d, 40, lrHarmonic) }, full)
	return Found{fmt.Sprintf("slopes of log processor time %.2f in D (1,000 to 8,000), %.2f in N (2,000 to 16,000), %.2f in M (25 to 200); full Laplace %.2f in D (500 to 4,000)", d, n, m, f),
		d < 1.3 && n < 1.3 && m < 1.4 && f > 1.5}
}

func lrSpeedUp(c *Context) Found {
	const n, d = 20000, 5000
	var text []string
	holds := true
	for i, fall := range []func(float64) float64{lrGeometric, lrHarmonic} {
		p := lrScene(n, d, 50, fall)
		p.Dense()
		var low *lowrank.Result
		wall := time.Now()
		tl := fastest(3, func() { low = ok(lowrank.Fit(context.Background(), p)) })
		fmt.Fprintf(c.Log, "  low rank: %.2f s, %.2f on the wall, %s\n", tl, time.Since(wall).Seconds()/3, low.Fit.Status)
		var full *gauss.Normal
		wall = time.Now()
		tf := fastest(1, func() { full, _ = lrFull(p) })
		fmt.Fprintf(c.Log, "  full: %.1f s, %.1f on the wall\n", tf, time.Since(wall).Seconds())
		e, s := lrDistance(low.Posterior.Mean, full.Mean), lrDistance(lrSD(low.Posterior.Var), lrSD(full.Var))
		name := []string{"0.85^j", "1/j"}[i]
		text = append(text, fmt.Sprintf("%s: %.2f s of processor time against %.1f s, %.0f times as fast, error of the mean %.1f %%, of the standard deviations %.2g %%", name, tl, tf, tf/tl, 100*e, 100*s))
		if i == 0 {
			holds = tf/tl >= 10 && e <= 0.05
		}
	}
	return Found{strings.Join(text, "; "), holds}
}

// lrPosterDesign is the poster's: feature variances 1e-5 + 5·1.05^-i, turned.
func lrPosterDesign(rng *rand.Rand, n int, turn *dense.Matrix) *dense.Matrix {
	d := turn.Rows
	z := lrNormals(rng, n, d)
	for i := range n {
		for j := range d {
			z.Row(i)[j] *= math.Sqrt(1e-5 + 5*math.Pow(1.05, -float64(j+1)))
		}
	}
	x := dense.New(n, d)
	dense.MulTB(x, z, turn)
	return x
}

// lrTest is what a posterior is judged by on new rows.
type lrTest struct {
	x *dense.Matrix
	y []float64
}

// losses are the negative log probabilities of the responses, given the mean and variance of
// each predictor.
func (t lrTest) losses(m, v []float64) []float64 {
	l := ok(lik.New("bernoulli", "", lik.Params{}))
	out := make([]float64, len(t.y))
	for i, y := range t.y {
		q, _ := l.Predict(m[i], v[i])
		out[i] = -math.Log(max(y*q+(1-y)*(1-q), 1e-300))
	}
	return out
}

// logLoss is the mean of losses.
func (t lrTest) logLoss(m, v []float64) float64 { return mean(t.losses(m, v)) }

// noWorse says whether losses are not above others of the same rows on average, but for two
// standard errors of their difference.
func noWorse(losses, others []float64) bool {
	d := make([]float64, len(losses))
	for i, v := range losses {
		d[i] = v - others[i]
	}
	m, square := mean(d), 0.0
	for _, v := range d {
		square += (v - m) * (v - m)
	}
	n := float64(len(d))
	return m <= 2*math.Sqrt(square/(n-1)/n)
}

// score is the losses under g.
func (t lrTest) score(g *gauss.Normal) []float64 {
	m, v := make([]float64, len(t.y)), make([]float64, len(t.y))
	col := make([]uint32, t.x.Cols)
	for j := range col {
		col[j] = uint32(j)
	}
	var scratch []float64
	for i := range m {
		m[i], v[i] = g.Linear(col, t.x.Row(i), &scratch)
	}
	return t.losses(m, v)
}

// lrRandom is Laplace under a random projection in the place of the singular vectors.
func lrRandom(rng *rand.Rand, x *dense.Matrix, y []float64, m int) *gauss.Normal {
	d := x.Cols
	r := lrRotation(rng, d, m)
	z := dense.New(x.Rows, m)
	dense.Mul(z, x, r)
	g, _ := lrFull(lrProblem(lrModel("bernoulli", false, lik.Params{}, kernels.Options{}), z, y))
	mean := make([]float64, d)
	dense.Gemv(mean, r, g.Mean)
	cov, inner, half := dense.New(d, d), dense.New(m, m), dense.New(d, m)
	g.Cov(inner)
	for j := range m {
		inner.Row(j)[j]--
	}
	dense.Mul(half, r, inner)
	dense.MulTB(cov, half, r)
	for j := range d {
		cov.Row(j)[j]++
	}
	must(dense.Cholesky(cov))
	return gauss.NewFull(mean, cov)
}

func lrDiagonal(p *kernels.Problem) *gauss.Normal {
	q, m := *p, *p.Model
	q.Model, m.Options.Hessian = &m, "diagonal"
	f := ok(laplace.Fit(context.Background(), &q))
	mean, v := make([]float64, p.P), make([]float64, p.P)
	for j, b := range f.Beliefs {
		mean[j], v[j] = b.Mean, b.Variance
	}
	return gauss.NewDiagonal(mean, v)
}

func lrRank(p *kernels.Problem, m int) *kernels.Problem {
	q, mod := *p, *p.Model
	q.Model, mod.Options.Rank = &mod, m
	return &q
}

func lrPoster(c *Context) Found {
	const n, d = 2500, 500
	rng := rand.New(rand.NewPCG(10, 2))
	turn := lrRotation(rng, d, d)
	x := lrPosterDesign(rng, n, turn)
	beta := lrNormals(rng, 1, d).Data
	y := lrRespond(rng, "bernoulli", x, beta)
	p := lrProblem(lrModel("bernoulli", false, lik.Params{}, kernels.Options{}), x, y)
	p.Dense()
	var full *gauss.Normal
	tf := fastest(2, func() { full, _ = lrFull(p) })
	var text []string
	falls, last := true, math.Inf(1)
	e := 0.0
	for _, m := range []int{5, 50, 100, 250, 500} {
		var low *lowrank.Result
		t := fastest(2, func() { low = ok(lowrank.Fit(context.Background(), lrRank(p, m))) })
		e = lrDistance(low.Posterior.Mean, full.Mean)
		s := lrDistance(lrSD(low.Posterior.Var), lrSD(full.Var))
		falls = falls && e < last
		last = e
		text = append(text, fmt.Sprintf("M = %d: %.1e, %.1e, %.2f s", m, e, s, t))
		fmt.Fprintf(c.Log, "  M = %d: %s\n", m, low.Fit.Status)
	}
	return Found{fmt.Sprintf("relative error of the mean, of the standard deviations, processor time: %s; full Laplace %.2f s", strings.Join(text, "; "), tf), falls && e < 1e-6}
}

// lrMoments are the means and deviations of the weights of a fit.
func lrMoments(f *kernels.Fit) (mean, sd []float64) {
	for _, b := range f.Beliefs {
		mean, sd = append(mean, b.Mean), append(sd, math.Sqrt(b.Variance))
	}
	return mean, sd
}

// lrJudged is an approximation against HMC and the true weights.
type lrJudged struct {
	name           string
	mean, sd, wide float64   // errors of mean and deviation, and the geometric mean of the deviations' ratios
	in, out        float64   // log losses
	cover, half    float64   // shares of the true weights in the central 90 % and 50 %
	losses         []float64 // on rotated rows
}

// compare fills in what deviations sd and true weights beta say of g.
func (r *lrJudged) compare(g *gauss.Normal, sd, beta []float64) {
	d := float64(len(beta))
	for j, v := range g.Var {
		s := math.Sqrt(v)
		r.wide += math.Log(s/sd[j]) / d
		if z := math.Abs(g.Mean[j]-beta[j]) / s; z < 1.6448536269514722 {
			r.cover += 1.0 / d
			if z < 0.6744897501960817 {
				r.half += 1.0 / d
			}
		}
	}
	r.wide = math.Exp(r.wide)
}

func lrAgainstHMC(c *Context) Found {
	const n, d, test = 2500, 500, 5000
	rng := rand.New(rand.NewPCG(11, 2))
	turn := lrRotation(rng, d, d)
	x := lrPosterDesign(rng, n, turn)
	beta := lrNormals(rng, 1, d).Data
	y := lrRespond(rng, "bernoulli", x, beta)
	in := lrTest{x: lrPosterDesign(rng, test, turn)}
	in.y = lrRespond(rng, "bernoulli", in.x, beta)
	out := lrTest{x: lrPosterDesign(rng, test, lrRotation(rng, d, d))}
	out.y = lrRespond(rng, "bernoulli", out.x, beta)

	mod := lrModel("bernoulli", false, lik.Params{}, kernels.Options{Samples: 500, Warmup: 500, Chains: 2, Seed: 1})
	p := lrProblem(mod, x, y)
	p.Dense()
	start := time.Now()
	chains := ok(hmc.Sample(context.Background(), p))
	fmt.Fprintf(c.Log, "  HMC: %.0f s, %s\n", time.Since(start).Seconds(), chains.Fit.Status)
	means, sd := lrMoments(chains.Fit)
	judge := func(name string, g *gauss.Normal) lrJudged {
		r := lrJudged{name: name, mean: lrDistance(g.Mean, means), sd: lrDistance(lrSD(g.Var), sd), in: mean(in.score(g)), losses: out.score(g)}
		r.out = mean(r.losses)
		r.compare(g, sd, beta)
		fmt.Fprintf(c.Log, "  %-18s mean %.4f, sd %.4f (ratio %.3f), log loss %.4f, rotated %.4f, true weights in 90 %% %.3f, in 50 %% %.3f\n",
			r.name, r.mean, r.sd, r.wide, r.in, r.out, r.cover, r.half)
		return r
	}
	var low []lrJudged
	for _, m := range []int{5, 50, 100, 250, 500} {
		low = append(low, judge(fmt.Sprint("LR-Laplace ", m), ok(lowrank.Fit(context.Background(), lrRank(p, m))).Posterior))
	}
	poor := true
	var random lrJudged
	for i, m := range []int{50, 250} {
		random = judge(fmt.Sprint("random ", m), lrRandom(rng, x, y, m))
		svd := low[1+2*i]
		poor = poor && random.mean > svd.mean && random.in > svd.in
	}
	g, _ := lrFull(p)
	full := judge("Laplace", g)
	diagonal := judge("diagonal Laplace", lrDiagonal(p))
	prior := judge("prior", p.Normal)
	for _, m := range []int{50, 250} {
		q := lrRank(p, m)
		start := time.Now()
		r := ok(hmc.Fit(context.Background(), q))
		mu, v := lrMoments(r)
		fmt.Fprintf(c.Log, "  LR-MCMC %d: %.0f s, mean %.4f, sd %.4f; %s\n", m, time.Since(start).Seconds(), lrDistance(mu, means), lrDistance(v, sd), r.Status)
	}
	falls, wide := true, true
	var text []string
	for i, r := range low {
		falls = falls && (i == 0 || r.mean < low[i-1].mean && noWorse(r.losses, low[i-1].losses))
		wide = wide && r.wide >= full.wide*(1-1e-3)
		text = append(text, fmt.Sprintf("M = %s: %.3f, %.3f, %.3f", strings.TrimPrefix(r.name, "LR-Laplace "), r.mean, r.sd, r.out))
	}
	return Found{fmt.Sprintf("error of the mean, of the standard deviations, log loss on rotated rows: %s; diagonal Laplace: %.3f, %.3f, %.3f; random projection, M = 250: %.3f, %.3f, %.3f; full Laplace: %.3f, %.3f, %.3f; log loss of the prior %.3f",
		strings.Join(text, "; "), diagonal.mean, diagonal.sd, diagonal.out, random.mean, random.sd, random.out, full.mean, full.sd, full.out, prior.out),
		falls && wide && poor && diagonal.out > prior.out}
}

// lrRows is full Laplace for a logistic model in the space of rows: K is the prior
// covariance of the predictors of all rows, of which the first n have responses y. It
// gives mean and variance of the others' predictors.
func lrRows(k *dense.Matrix, y []float64) (mean, variance []float64) {
	n, all := len(y), k.Rows
	l := ok(lik.New("bernoulli", "", lik.Params{}))
	f, d1, w, a, b := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	kk := k.Slice(0, n, 0, n)
	bb := dense.New(n, n)
	look := func() (logp float64) {
		for i := range f {
			p, d, d2 := l.LogLik(lik.Obs{Y: y[i], Weight: 1}, f[i])
			logp += p
			d1[i], w[i] = d, math.Sqrt(-d2)
		}
		return logp
	}
	for range 50 {
		look()
		for i := range n {
			for j := range n {
				bb.Row(i)[j] = w[i] * kk.At(i, j) * w[j]
			}
			bb.Row(i)[i]++
		}
		must(dense.Cholesky(bb))
		for i := range n {
			b[i] = w[i]*w[i]*f[i] + d1[i]
		}
		dense.Gemv(a, kk, b)
		for i := range n {
			a[i] *= w[i]
		}
		dense.SolveLowerVec(bb, a)
		dense.SolveLowerTVec(bb, a)
		for i := range n {
			a[i] = b[i] - w[i]*a[i]
		}
		next := make([]float64, n)
		dense.Gemv(next, kk, a)
		step := lrGap(next, f)
		copy(f, next)
		if step < 1e-9 {
			break
		}
	}
	look()
	cross := k.Slice(n, all, 0, n)
	mean, variance = make([]float64, all-n), make([]float64, all-n)
	dense.Gemv(mean, cross, d1)
	ct := cross.T()
	for i := range n {
		for j := range ct.Row(i) {
			ct.Row(i)[j] *= w[i]
		}
	}
	dense.SolveLower(bb, ct)
	for j := range variance {
		variance[j] = k.At(n+j, n+j)
	}
	for i := range n {
		for j, v := range ct.Row(i) {
			variance[j] -= v * v
		}
	}
	return mean, variance
}

func lrFarm(c *Context) Found {
	t := ok(readTable(c.Data + "/farm_ads_sparse.parquet"))
	y := t.Num("y")
	rng := rand.New(rand.NewPCG(12, 2))
	order := rng.Perm(t.Rows)
	train, test := order[:t.Rows*4/5], order[t.Rows*4/5:]
	part := func(ids []int) (*Table, []float64) {
		s, ys := &Table{Rows: len(ids)}, make([]float64, len(ids))
		for k, i := range ids {
			s.lists = append(s.lists, t.lists[i])
			ys[k] = y[i]
		}
		return s, ys
	}
	learn, ly := part(train)
	unseen, ty := part(test)
	mod := lrModel("bernoulli", true, lik.Params{}, kernels.Options{Rank: 200, AutoPrior: true})
	p := ok(ok(learn.sparse(mod, ly)).Problem())
	auto := ok(lowrank.Fit(context.Background(), p))
	fmt.Fprintf(c.Log, "  prior variance by evidence at M = 200: %.4g; %s\n", auto.Fit.Prior.Variance, auto.Fit.Status)
	v := auto.Fit.Prior.Variance
	mod = lrModel("bernoulli", true, lik.Params{}, kernels.Options{})
	mod.Prior.Variance = v
	p = ok(ok(learn.sparse(mod, ly)).Problem())

	// The exact answer in the space of rows.
	start := clock()
	em, ev := lrRows(lrKernel(append(learn.lists, unseen.lists...), v, mod.Prior.InterceptVariance), ly)
	exactTime := clock() - start
	judge := lrTest{y: ty}
	el, ea := judge.logLoss(em, ev), auc(ty, em)
	fmt.Fprintf(c.Log, "  rows: %.1f s, log loss %.4f, AUC %.4f\n", exactTime, el, ea)

	column := map[string]uint32{}
	for j := range p.P {
		column[p.Name(j)] = uint32(j)
	}
	var text []string
	falls := true
	ll, la, last := math.Inf(1), 0.0, math.Inf(1)
	for _, m := range []int{10, 50, 100, 200, 400, 800} {
		var r *lowrank.Result
		tm := fastest(1, func() { r = ok(lowrank.Fit(context.Background(), lrRank(p, m))) })
		lm, lv := make([]float64, len(ty)), make([]float64, len(ty))
		var scratch []float64
		for i, row := range unseen.lists {
			col, val := []uint32{0}, []float64{1}
			extra := 0.0
			for _, e := range row {
				if j, seen := column[e.feature]; seen {
					col, val = append(col, j), append(val, e.value)
				} else {
					extra += e.value * e.value * v
				}
			}
			lm[i], lv[i] = r.Posterior.Linear(col, val, &scratch)
			lv[i] += extra
		}
		e, s := lrDistance(lm, em), lrDistance(lrSD(lv), lrSD(ev))
		l, a := judge.logLoss(lm, lv), auc(ty, lm)
		falls = falls && s < last && l < ll && a > la
		last, ll, la = s, l, a
		text = append(text, fmt.Sprintf("M = %d: %.3f, %.3f, %.4f, %.4f, %.1f s", m, e, s, la, ll, tm))
		fmt.Fprintf(c.Log, "  %s; %s\n", text[len(text)-1], r.Fit.Status)
	}
	return Found{fmt.Sprintf("prior variance %.3g; relative error of the predictor's mean, of its standard deviation, AUC, log loss, processor time: %s; full Laplace: AUC %.4f, log loss %.4f, %.1f s",
		v, strings.Join(text, "; "), ea, el, exactTime), falls && la > ea-0.01 && ll < el+0.02}
}

// lrKernel is the prior covariance of the predictors of sparse rows.
func lrKernel(rows [][]pair, variance, intercept float64) *dense.Matrix {
	type entry struct {
		row   int
		value float64
	}
	number := map[string]int{}
	var columns [][]entry // in order of appearance
	for i, row := range rows {
		for _, e := range row {
			j, seen := number[e.feature]
			if !seen {
				j = len(columns)
				number[e.feature] = j
				columns = append(columns, nil)
			}
			columns[j] = append(columns[j], entry{i, e.value})
		}
	}
	k := dense.New(len(rows), len(rows))
	for i := range k.Data {
		k.Data[i] = intercept
	}
	for _, c := range columns {
		for _, a := range c {
			row := k.Row(a.row)
			for _, b := range c {
				row[b.row] += variance * a.value * b.value
			}
		}
	}
	return k
}

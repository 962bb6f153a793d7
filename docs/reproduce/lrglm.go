package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/lowrank"
)

var lrglm = Section{
	Title:  "LR-GLM",
	Source: "Trippe, Huggins, Agrawal and Broderick (2019), and the poster.",
	Claims: []Claim{
		{ID: "L1", Slow: true, Run: lrCost,
			Text:     "Laplace's approximation costs O((N + M) D M) with a rank-M design and O(N D²) with the full one",
			Expected: "slopes of log time about 1 in D and N and at most 1 in M; for full Laplace, 2 in D"},
		{ID: "L2", Run: lrExact,
			Text:     "Nothing is lost if the design has rank M",
			Expected: "means, covariances and log evidence within 1e-8 of full Laplace's"},
		{ID: "L3", Run: lrConjugate,
			Text:     "The conjugate posterior under the rank-M likelihood has a closed form",
			Expected: "within 1e-9 of a dense solve"},
		{ID: "L4", Run: lrMeanBound,
			Text:     "The conjugate mean is within σβ²τ(λ²‖μ‖ + λ√N b) of the exact mean, where λ = λ(M+1) and b is the largest response",
			Expected: "no violation in 2,000 random problems, neither of this bound, nor of the sharper min(σβ²τλ, √(σβ²τ)/2)‖Y‖, nor of the bound in the status"},
		{ID: "L5", Run: lrPrecisionGap,
			Text:     "The precision is too small by τλ²(M+1) in spectral norm",
			Expected: "equal to a relative 1e-6"},
		{ID: "L6", Run: lrConservative,
			Text:     "The approximation is conservative for the conjugate model: no direction is narrower than in the exact posterior, and the entropy is not smaller",
			Expected: "eigenvalues of the difference of the covariances, and difference of the entropies, at least -1e-9"},
		{ID: "L6-logit", Run: lrConservativeLogit,
			Text:     "LR-Laplace is conservative for logistic regression too",
			Expected: "no weight's variance below full Laplace's",
			Fails: "The theorem is for the conjugate model only: XᵀWX does not commute with UUᵀ, and the curvatures W are those at another mode. " +
				"Most variances are above full Laplace's, some are below."},
		{ID: "L7", Run: lrConsistent,
			Text:     "As N grows, the mean tends to the weights Σ0 U(UᵀΣ0U)⁻¹Uᵀβ, which agree with the true β along U",
			Expected: "the error falls as N^-½"},
		{ID: "L8", Run: lrToy,
			Text:     "Logistic regression with two features, an intercept and 50 rows: the factorised Laplace approximation is too narrow; rank 1 is wider than full Laplace and much narrower than the prior",
			Expected: "in each of 20 data sets, trace and entropy over both features rise in the order factorised, full, rank 1, prior"},
		{ID: "L9", Slow: true, Run: lrAgainstHMC,
			Text: "Means and standard deviations compared with HMC as M grows, along with diagonal Laplace and random projections. Logistic, N = 2,500, the paper's design at D = 500 " +
				"(the largest of its 10 to 500), M = 5, 50, 100, 250 and 500; 5,000 test rows from the design and 5,000 from a rotated one; one replicate instead of 3, 2 chains of 500 draws, no ADVI",
			Expected: "as M grows, errors of the mean fall, and log loss on rotated rows never rises by more than two standard errors; standard deviations are on average not below full Laplace's; on rotated rows, diagonal Laplace is worse than the prior; random projections have larger errors at equal M"},
		{ID: "L10", Slow: true, Run: lrSpeedUp,
			Text:     "Ten times as fast as full Laplace, with little error: D = 5,000, N = 20,000, M = 50, logistic, dense design of 60 factors with 0.5 % noise, whose singular values fall as 0.85^j (and, for comparison, as 1/j)",
			Expected: "for 0.85^j, at least 10 times as fast and an error of the mean of at most 5 %"},
		{ID: "LR-poster", Slow: true, Run: lrPoster,
			Text:     "The poster's synthetic design compared with full Laplace: N = 2,500, D = 500, feature variances 1e-5 + 5·1.05^-i, logistic",
			Expected: "errors of the mean and the standard deviations fall as M grows and vanish at M = D"},
		{ID: "LR-farm", Slow: true, Data: "farm_ads_sparse.parquet", Run: lrFarm,
			Text:     "Farm Ads, 4,143 x 54,877, four fifths for training: LR-Laplace compared with full Laplace, computed in the space of rows; prior variance by evidence",
			Expected: "as M grows, the error of the standard deviation and log loss fall, and AUC rises; at M = 800 within 0.01 in AUC and 0.02 in log loss of full Laplace"},
	},
}

// lrProblem lays out rows x with responses y.
func lrProblem(m *kernels.Model, x *dense.Matrix, y []float64) *kernels.Problem {
	rows := make([][]float64, x.Rows)
	for i := range rows {
		rows[i] = x.Row(i)
	}
	return ok(ok(denseRows(m, rows, y)).Problem())
}

func lrModel(family string, intercept bool, p lik.Params, o kernels.Options) *kernels.Model {
	return &kernels.Model{Lik: ok(lik.New(family, "", p)), Params: p, Prior: kernels.Prior{Variance: 1, InterceptVariance: 10}, NoIntercept: !intercept, Options: o}
}

func lrNormals(rng *rand.Rand, n, d int) *dense.Matrix {
	a := dense.New(n, d)
	for i := range a.Data {
		a.Data[i] = rng.NormFloat64()
	}
	return a
}

// lrRotation is a random d x k matrix with orthonormal columns.
func lrRotation(rng *rand.Rand, d, k int) *dense.Matrix {
	var qr mat.QR
	qr.Factorize(mat.NewDense(d, k, lrNormals(rng, d, k).Data))
	var q mat.Dense
	qr.QTo(&q)
	out := dense.New(d, k)
	for i := range d {
		for j := range k {
			out.Row(i)[j] = q.At(i, j)
		}
	}
	return out
}

// lrSpectrum is an n x d matrix with the singular values s.
func lrSpectrum(rng *rand.Rand, n, d int, s []float64) *dense.Matrix {
	u, v := lrRotation(rng, d, len(s)), lrRotation(rng, n, len(s))
	for i := range n {
		for j := range s {
			v.Row(i)[j] *= s[j]
		}
	}
	x := dense.New(n, d)
	dense.MulTB(x, v, u)
	return x
}

func lrDecay(n int, f func(i float64) float64) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = f(float64(i))
	}
	return s
}

// lrRespond draws responses at the predictors X w.
func lrRespond(rng *rand.Rand, family string, x *dense.Matrix, w []float64) []float64 {
	y := make([]float64, x.Rows)
	for i := range y {
		s := dense.Dot(x.Row(i), w)
		switch family {
		case "bernoulli":
			if rng.Float64() < 1/(1+math.Exp(-s)) {
				y[i] = 1
			}
		case "poisson":
			for at, mu := rng.ExpFloat64(), math.Exp(min(s, 5)); at < mu; at += rng.ExpFloat64() {
				y[i]++
			}
		default:
			y[i] = s + rng.NormFloat64()
		}
	}
	return y
}

// lrFull is full Laplace as a Gaussian over the columns (no known weights).
func lrFull(p *kernels.Problem) (*gauss.Normal, *kernels.Fit) {
	q, m := *p, *p.Model
	q.Model, m.Options.Hessian = &m, "full"
	f := ok(laplace.Fit(context.Background(), &q))
	mean := make([]float64, len(f.Beliefs))
	l := dense.New(len(mean), len(mean))
	for j, b := range f.Beliefs {
		mean[j] = b.Mean
		copy(l.Row(j), f.Covariance.Row(j))
	}
	return gauss.NewFull(mean, l), f
}

func lrCov(g *gauss.Normal) *mat.SymDense {
	c := dense.New(g.Dim(), g.Dim())
	g.Cov(c)
	return mat.NewSymDense(g.Dim(), c.Data)
}

func lrGap(x, y []float64) float64 {
	top := 0.0
	for i := range x {
		top = max(top, math.Abs(x[i]-y[i]))
	}
	return top
}

// lrGapCov is the largest difference of two covariances.
func lrGapCov(a, b *mat.SymDense) float64 {
	top := 0.0
	for i := range a.SymmetricDim() {
		for j := range i + 1 {
			top = max(top, math.Abs(a.At(i, j)-b.At(i, j)))
		}
	}
	return top
}

func lrNorm(x []float64) float64 { return math.Sqrt(dense.Dot(x, x)) }

// lrDistance is |x - y| / |y|.
func lrDistance(x, y []float64) float64 {
	s := 0.0
	for i := range x {
		s += (x[i] - y[i]) * (x[i] - y[i])
	}
	return math.Sqrt(s) / lrNorm(y)
}

func lrSD(v []float64) []float64 {
	s := make([]float64, len(v))
	for i := range s {
		s[i] = math.Sqrt(v[i])
	}
	return s
}

func lrExact(*Context) Found {
	rng := rand.New(rand.NewPCG(2, 2))
	worst := 0.0
	for _, family := range []string{"gaussian", "bernoulli", "poisson"} {
		for _, m := range []int{1, 5, 12} {
			x := lrSpectrum(rng, 120, 30, lrDecay(m, func(i float64) float64 { return 10 / (1 + i) }))
			p := lrProblem(lrModel(family, true, lik.Params{Dispersion: 1}, kernels.Options{Rank: m, Tol: 1e-10}), x, lrRespond(rng, family, x, lrNormals(rng, 1, 30).Data))
			low := ok(lowrank.Fit(context.Background(), p))
			full, fit := lrFull(p)
			worst = max(worst, lrGap(low.Posterior.Mean, full.Mean), lrGapCov(lrCov(low.Posterior), lrCov(full)),
				math.Abs(low.Fit.LogEvidence-fit.LogEvidence))
		}
	}
	return Found{fmt.Sprintf("largest difference %.1e over gaussian, logistic and Poisson problems of rank 1, 5 and 12 with 30 features and an intercept", worst), worst <= 1e-8}
}

// lrTheory is a random problem of the poster's theory: conjugate, isotropic prior, no
// intercept, exact singular vectors.
func lrTheory(rng *rand.Rand) *kernels.Problem {
	n, d := 2+rng.IntN(20), 2+rng.IntN(15)
	o := kernels.Options{Rank: 1 + rng.IntN(min(n, d)), Oversample: kernels.Given(100)}
	m := lrModel("gaussian", false, lik.Params{Dispersion: math.Exp(rng.NormFloat64())}, o)
	m.Prior.Variance = math.Exp(2 * rng.NormFloat64())
	slope := 2 * rng.Float64()
	x := lrSpectrum(rng, n, d, lrDecay(min(n, d), func(i float64) float64 { return 5 * math.Pow(1+i, -slope) }))
	y := lrNormals(rng, 1, n).Data
	size := math.Exp(rng.NormFloat64())
	for i := range y {
		y[i] *= size
	}
	return lrProblem(m, x, y)
}

// lrSolve is the conjugate posterior of design x by a dense solve, as precision,
// covariance and mean.
func lrSolve(p *kernels.Problem, x *dense.Matrix) (prec, cov *mat.SymDense, mean []float64) {
	d := x.Cols
	tau := 1 / p.Params.Dispersion
	a := mat.NewDense(x.Rows, d, x.Clone().Data)
	prec = mat.NewSymDense(d, nil)
	prec.SymOuterK(tau, a.T())
	for j := range d {
		prec.SetSym(j, j, prec.At(j, j)+1/p.PriorVar[j])
	}
	var ch mat.Cholesky
	ch.Factorize(prec)
	cov = mat.NewSymDense(d, nil)
	must(ch.InverseTo(cov))
	var b, m mat.VecDense
	b.MulVec(a.T(), mat.NewVecDense(x.Rows, p.Y))
	b.ScaleVec(tau, &b)
	must(ch.SolveVecTo(&m, &b))
	return prec, cov, m.RawVector().Data
}

// lrProjected is X U Uᵀ.
func lrProjected(r *lowrank.Result) *dense.Matrix {
	x := dense.New(r.Reduced.XU.Rows, r.Reduced.U.Rows)
	dense.MulTB(x, r.Reduced.XU, r.Reduced.U)
	return x
}

func lrConjugate(*Context) Found {
	rng := rand.New(rand.NewPCG(3, 2))
	worst := 0.0
	for range 300 {
		p := lrTheory(rng)
		for j := range p.PriorVar { // any diagonal prior
			p.PriorVar[j] *= math.Exp(rng.NormFloat64())
		}
		r := ok(lowrank.Fit(context.Background(), p))
		_, cov, mean := lrSolve(p, lrProjected(r))
		scale := 1.0
		for _, v := range p.PriorVar {
			scale = max(scale, v)
		}
		worst = max(worst, lrGap(r.Posterior.Mean, mean)/(1+lrNorm(mean)), lrGapCov(lrCov(r.Posterior), cov)/scale)
	}
	return Found{fmt.Sprintf("largest relative difference %.1e over 300 problems whose weights have different prior variances", worst), worst <= 1e-9}
}

func lrMeanBound(*Context) Found {
	rng := rand.New(rand.NewPCG(4, 2))
	worst, sharp, ours := 0.0, 0.0, 0.0
	violations := 0
	for range 2000 {
		p := lrTheory(rng)
		r := ok(lowrank.Fit(context.Background(), p))
		_, _, mean := lrSolve(p, p.Dense())
		low, v, tau := r.Posterior.Mean, p.PriorVar[0], 1/p.Params.Dispersion
		gap := lrDistance(low, mean) * lrNorm(mean)
		b := 0.0
		for _, y := range p.Y {
			b = max(b, math.Abs(y))
		}
		poster := v * tau * (r.Next*r.Next*lrNorm(low) + r.Next*math.Sqrt(float64(p.N))*b)
		sharper := min(v*tau*r.Next, math.Sqrt(v*tau)/2) * lrNorm(p.Y)
		if round := 1e-12 * (1 + lrNorm(mean)) * (1 + v*tau*r.Singular[0]*r.Singular[0]); gap > round { // else all is exact
			worst, sharp, ours = max(worst, gap/poster), max(sharp, gap/sharper), max(ours, gap/(r.Bound*math.Sqrt(v)))
			if gap > poster || gap > sharper || gap > r.Bound*math.Sqrt(v)+round {
				violations++
			}
		}
	}
	return Found{fmt.Sprintf("%d violations; error at most %.2f of the poster's bound, %.2f of the sharper one, %.2f of the one in the status", violations, worst, sharp, ours), violations == 0}
}

// lrEigen is the largest eigenvalue of sign (a - b).
func lrEigen(a, b *mat.SymDense, sign float64) float64 {
	n := a.SymmetricDim()
	d := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range i + 1 {
			d.SetSym(i, j, sign*(a.At(i, j)-b.At(i, j)))
		}
	}
	var e mat.EigenSym
	e.Factorize(d, false)
	return e.Values(nil)[n-1]
}

func lrLogDet(a *mat.SymDense) float64 {
	var ch mat.Cholesky
	if !ch.Factorize(a) {
		panic("covariance is not positive definite")
	}
	return ch.LogDet()
}

func lrPrecisionGap(*Context) Found {
	rng := rand.New(rand.NewPCG(5, 2))
	worst := 0.0
	for range 200 {
		p := lrTheory(rng)
		r := ok(lowrank.Fit(context.Background(), p))
		low := dense.New(p.P, p.P)
		must(r.Posterior.Prec(low))
		full, _, _ := lrSolve(p, p.Dense())
		want := r.Next * r.Next / p.Params.Dispersion
		round := 1e-9 * lrEigen(full, mat.NewSymDense(p.P, nil), 1)
		if want > 1e4*round {
			worst = max(worst, math.Abs(lrEigen(full, mat.NewSymDense(p.P, low.Data), 1)-want)/want)
		}
	}
	return Found{fmt.Sprintf("largest relative difference %.1e over 200 problems", worst), worst <= 1e-6}
}

func lrConservative(*Context) Found {
	rng := rand.New(rand.NewPCG(6, 2))
	least, entropy := 0.0, math.Inf(1)
	for range 200 {
		p := lrTheory(rng)
		r := ok(lowrank.Fit(context.Background(), p))
		_, full, _ := lrSolve(p, p.Dense())
		low := lrCov(r.Posterior)
		least = min(least, -lrEigen(low, full, -1)/p.PriorVar[0])
		entropy = min(entropy, (lrLogDet(low)-lrLogDet(full))/2)
	}
	return Found{fmt.Sprintf("smallest eigenvalue %.1e prior variances, difference of the entropies at least %.1e, over 200 problems", least, entropy), least >= -1e-9 && entropy >= -1e-9}
}

func lrConservativeLogit(*Context) Found {
	rng := rand.New(rand.NewPCG(7, 2))
	narrower, total, entropies := 0, 0, 0
	least := math.Inf(1)
	const rounds = 100
	for range rounds {
		x := lrSpectrum(rng, 60, 12, lrDecay(12, func(i float64) float64 { return 40 * math.Pow(0.7, i) }))
		p := lrProblem(lrModel("bernoulli", false, lik.Params{}, kernels.Options{Rank: 1 + rng.IntN(10), Oversample: kernels.Given(100)}), x,
			lrRespond(rng, "bernoulli", x, lrNormals(rng, 1, 12).Data))
		r := ok(lowrank.Fit(context.Background(), p))
		full, _ := lrFull(p)
		for j, v := range r.Posterior.Var {
			total++
			if ratio := v / full.Var[j]; ratio < 1-1e-9 {
				narrower++
				least = min(least, ratio)
			}
		}
		if lrLogDet(lrCov(r.Posterior)) >= lrLogDet(lrCov(full))-1e-9 {
			entropies++
		}
	}
	return Found{fmt.Sprintf("%.1f %% of the variances are below full Laplace's, the lowest at %.2f times it; entropy not smaller in %d of %d data sets",
		100*float64(narrower)/float64(total), least, entropies, rounds), narrower == 0}
}

func lrConsistent(*Context) Found {
	rng := rand.New(rand.NewPCG(8, 2))
	const d, m, replicates = 12, 4, 8
	u := lrRotation(rng, d, d)
	beta := lrNormals(rng, 1, d).Data
	prior := lrDecay(d, func(i float64) float64 { return 0.5 + math.Mod(i, 4) })
	var logN, logE []float64
	var text []string
	for n := 100; n <= 100*256; n *= 4 {
		total := 0.0
		for range replicates {
			z := lrNormals(rng, n, d)
			for i := range n {
				for j := range d {
					z.Row(i)[j] *= math.Pow(0.7, float64(j))
				}
			}
			x := dense.New(n, d)
			dense.MulTB(x, z, u)
			mod := lrModel("gaussian", false, lik.Params{Dispersion: 1}, kernels.Options{Rank: m})
			p := lrProblem(mod, x, lrRespond(rng, "gaussian", x, beta))
			p.Normal = gauss.NewDiagonal(p.PriorMean, prior)
			p.PriorVar = prior
			r := ok(lowrank.Fit(context.Background(), p))
			// Σ0 U (UᵀΣ0U)⁻¹ Uᵀβ with the U found
			us := r.Reduced.U.Clone()
			for j := range d {
				for i := range us.Row(j) {
					us.Row(j)[i] *= prior[j]
				}
			}
			a, g := dense.New(m, m), make([]float64, m)
			dense.MulTA(a, r.Reduced.U, us)
			must(dense.Cholesky(a))
			dense.GemvT(g, r.Reduced.U, beta)
			dense.SolveLowerVec(a, g)
			dense.SolveLowerTVec(a, g)
			want := make([]float64, d)
			dense.Gemv(want, us, g)
			total += lrDistance(r.Posterior.Mean, want)
		}
		logN, logE = append(logN, math.Log(float64(n))), append(logE, math.Log(total/replicates))
		text = append(text, fmt.Sprintf("%d: %.4f", n, total/replicates))
	}
	s := slope(logN, logE)
	return Found{fmt.Sprintf("slope %.2f; mean relative error at N = %s (D = 12, M = 4, weights with different prior variances)", s, strings.Join(text, ", ")), math.Abs(s+0.5) < 0.08}
}

func lrToy(*Context) Found {
	holds := 0
	var trace, entropy [4]float64
	const sets = 20
	for set := range sets {
		rng := rand.New(rand.NewPCG(9, uint64(set)))
		turn := 2 * math.Pi * rng.Float64()
		c, s := math.Cos(turn), math.Sin(turn)
		x := dense.New(50, 2)
		for i := range 50 {
			a, b := rng.NormFloat64(), rng.NormFloat64()/math.Sqrt(40)
			x.Row(i)[0], x.Row(i)[1] = c*a-s*b, s*a+c*b
		}
		m := lrModel("bernoulli", true, lik.Params{}, kernels.Options{Rank: 1})
		m.Prior.InterceptVariance = 1
		p := lrProblem(m, x, lrRespond(rng, "bernoulli", x, []float64{rng.NormFloat64(), rng.NormFloat64()}))
		full, _ := lrFull(p)
		q, md := *p, *m
		q.Model, md.Options.Hessian = &md, "diagonal"
		diag := ok(laplace.Fit(context.Background(), &q))
		low := ok(lowrank.Fit(context.Background(), p))
		var tr, en [4]float64
		for k, cov := range []*mat.SymDense{mat.NewSymDense(2, []float64{diag.Beliefs[1].Variance, 0, 0, diag.Beliefs[2].Variance}),
			lrFeatures(lrCov(full)), lrFeatures(lrCov(low.Posterior)), mat.NewSymDense(2, []float64{1, 0, 0, 1})} {
			tr[k], en[k] = mat.Trace(cov), lrLogDet(cov)/2
			trace[k] += tr[k] / sets
			entropy[k] += en[k] / sets
		}
		// The factorised one has its largest error where the features are correlated;
		// rank 1 "far below the prior": its entropy nearer to the full one's.
		if tr[0] < tr[1] && tr[1] < tr[2] && tr[2] < tr[3] && en[1] < en[2] && en[3]-en[2] > en[2]-en[1] {
			holds++
		}
	}
	return Found{fmt.Sprintf("in this order in %d of %d data sets; mean trace %.3f, %.3f, %.3f, %.3f and mean entropy (up to a constant) %.3f, %.3f, %.3f, %.3f for factorised, full, rank 1, prior",
		holds, sets, trace[0], trace[1], trace[2], trace[3], entropy[0], entropy[1], entropy[2], entropy[3]), holds == sets}
}

// lrFeatures is the block of the two features, behind the intercept.
func lrFeatures(c *mat.SymDense) *mat.SymDense {
	return mat.NewSymDense(2, []float64{c.At(1, 1), c.At(1, 2), c.At(1, 2), c.At(2, 2)})
}

package lowrank

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	fulllaplace "github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lik"
)

// laplace is Laplace's approximation by plain dense algebra: Newton's method in the
// weights with the inverse of the prior's covariance.
func laplace(t testing.TB, p *kernels.Problem, x *dense.Matrix, offset []float64) (mean []float64, cov *mat.SymDense, logZ float64) {
	t.Helper()
	n, d := x.Rows, x.Cols
	prior := mat.NewSymDense(d, covariance(p.Normal).Data)
	var cp mat.Cholesky
	if !cp.Factorize(prior) {
		t.Fatal("prior")
	}
	var lam mat.SymDense
	if err := cp.InverseTo(&lam); err != nil {
		t.Fatal(err)
	}
	w := mat.NewVecDense(d, append([]float64(nil), p.Normal.Mean...))
	look := func(w *mat.VecDense) (ll float64, g *mat.VecDense, h *mat.SymDense) {
		g, h = mat.NewVecDense(d, nil), mat.NewSymDense(d, nil)
		diff := mat.NewVecDense(d, nil)
		diff.SubVec(w, mat.NewVecDense(d, p.Normal.Mean))
		g.MulVec(&lam, diff)
		g.ScaleVec(-1, g)
		h.CopySym(&lam)
		ll = 0.5 * mat.Dot(g, diff)
		for i := range n {
			row := mat.NewVecDense(d, x.Row(i))
			s := mat.Dot(row, w)
			if offset != nil {
				s += offset[i]
			}
			l, d1, d2 := p.Lik.LogLik(p.Batch().Obs(i), s)
			ll += l
			g.AddScaledVec(g, d1, row)
			h.SymRankOne(h, -d2, row)
		}
		return ll, g, h
	}
	var ch mat.Cholesky
	for range 60 {
		ll, g, h := look(w)
		if !ch.Factorize(h) {
			t.Fatal("Hessian")
		}
		step := mat.NewVecDense(d, nil)
		if err := ch.SolveVecTo(step, g); err != nil {
			t.Fatal(err)
		}
		logZ = ll - 0.5*ch.LogDet() - 0.5*cp.LogDet()
		gain := mat.Dot(step, g)
		for a := 1.0; a > 1e-6; a /= 2 {
			try := mat.NewVecDense(d, nil)
			try.AddScaledVec(w, a, step)
			if l, _, _ := look(try); l > ll || gain < 1e-12 {
				w = try
				break
			}
		}
		if gain < 1e-22 {
			break
		}
	}
	cov = mat.NewSymDense(d, nil)
	if err := ch.InverseTo(cov); err != nil {
		t.Fatal(err)
	}
	return w.RawVector().Data, cov, logZ
}

// lowDesign is X Ũ Ũᵀ and the offset that goes with it, X (I - Ũ Ũᵀ) μ0 included.
func lowDesign(p *kernels.Problem, r *Reduced) (*dense.Matrix, []float64) {
	x := dense.New(p.N, p.P)
	dense.MulTB(x, r.Z, r.basis)
	off := make([]float64, p.N)
	p.Predictor(off, p.Normal.Mean)
	for i := range off {
		off[i] -= dense.Dot(x.Row(i), p.Normal.Mean)
	}
	return x, off
}

func fit(t testing.TB, p *kernels.Problem) *Result {
	t.Helper()
	r, err := Fit(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// scene is a random problem with predictors of order one.
func scene(t testing.TB, rng *rand.Rand, family string, n, d, rank int, intercept bool, o kernels.Options) *kernels.Problem {
	k := min(n, d)
	if rank > 0 {
		k = rank
	}
	x := spectrum(rng, n, d, decay(k, func(i float64) float64 { return math.Sqrt(float64(n)) * math.Pow(0.8, i) }))
	s, off := make([]float64, n), make([]float64, n)
	w := gaussian(rng, 1, d).Data
	for i := range s {
		off[i] = 0.2 * rng.NormFloat64()
		s[i] = 0.3 + off[i] + dense.Dot(x.Row(i), w)
	}
	return problem(t, model(t, family, intercept, o), x, respond(rng, family, s), off)
}

// L3 and the same for every family: the fit is Laplace's approximation of the model
// with design X Ũ Ũᵀ, whatever the prior; exact for the gaussian family.
func TestAgainstDenseAlgebra(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	for _, family := range []string{"gaussian", "bernoulli", "poisson", "gamma", "negbinomial"} {
		for _, intercept := range []bool{false, true} {
			p := scene(t, rng, family, 60, 14, 0, intercept, kernels.Options{Rank: 5, Tol: 1e-10})
			for _, prior := range normals(t, rng, p.P) {
				p.Normal = prior
				f := fit(t, p)
				x, off := lowDesign(p, f.Reduced)
				mean, cov, logZ := laplace(t, p, x, off)
				what := fmt.Sprint(family, " ", prior.Form, " intercept ", intercept, ": ")
				// Condition numbers here are below 10³; 1e-9 is the claim's.
				close2(t, what+"mean", f.Posterior.Mean, mean, 1e-9)
				close2(t, what+"covariance", covariance(f.Posterior).Data, mat.DenseCopyOf(cov).RawMatrix().Data, 1e-9)
				close2(t, what+"log evidence", []float64{f.Fit.LogEvidence}, []float64{logZ}, 1e-9)
				if !f.Fit.Converged || f.Fit.Method != "lowrank" || !strings.HasPrefix(f.Fit.Status, "rank 5: lambda(6) = ") {
					t.Errorf("%sconverged %v, status %q", what, f.Fit.Converged, f.Fit.Status)
				}
			}
		}
	}
}

// L2: a design of rank M loses nothing. The full answer is dense algebra on X itself.
func TestExactAtFullRank(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	for _, family := range []string{"gaussian", "bernoulli", "poisson"} {
		for _, c := range []struct{ n, d, rank, ask int }{{50, 20, 4, 4}, {50, 20, 4, 9}, {8, 30, 0, 50}, {40, 6, 0, 6}} {
			for _, intercept := range []bool{false, true} {
				p := scene(t, rng, family, c.n, c.d, c.rank, intercept, kernels.Options{Rank: c.ask, Tol: 1e-10})
				for _, prior := range normals(t, rng, p.P) {
					p.Normal = prior
					f := fit(t, p)
					mean, cov, logZ := laplace(t, p, p.Dense(), p.Offset)
					what := fmt.Sprint(family, " ", c, " ", prior.Form, ": ")
					close2(t, what+"mean", f.Posterior.Mean, mean, 1e-8)
					close2(t, what+"covariance", covariance(f.Posterior).Data, mat.DenseCopyOf(cov).RawMatrix().Data, 1e-8)
					close2(t, what+"log evidence", []float64{f.Fit.LogEvidence}, []float64{logZ}, 1e-8)
					if f.Next > 1e-12*f.Singular[0] || !(f.Bound < 1e-6) {
						t.Errorf("%snext %g, bound %g", what, f.Next, f.Bound)
					}
					if c.ask > c.rank && c.rank > 0 && !strings.Contains(f.Fit.Status, "lowered to 4, the rank of the features") ||
						c.ask == 50 && !strings.Contains(f.Fit.Status, "rank 50 lowered to 8, the smaller number of rows and features") {
						t.Errorf("%sstatus %q", what, f.Fit.Status)
					}
				}
			}
		}
	}
}

// conjugate is a gaussian problem of the poster's theory: isotropic prior, no intercept.
func conjugate(t testing.TB, rng *rand.Rand, n, d, m int) *kernels.Problem {
	variance, tau := math.Exp(2*rng.NormFloat64()), math.Exp(rng.NormFloat64())
	par := lik.Params{Dispersion: 1 / tau}
	l, err := lik.New("gaussian", "", par)
	if err != nil {
		t.Fatal(err)
	}
	mod := &kernels.Model{NoIntercept: true, Lik: l, Params: par, Prior: kernels.Prior{Variance: variance}, Options: kernels.Options{Rank: m}}
	slope := 2 * rng.Float64()
	x := spectrum(rng, n, d, decay(min(n, d), func(i float64) float64 { return 5 * math.Pow(1+i, -slope) }))
	y := gaussian(rng, 1, n).Data
	scaleBy := math.Exp(rng.NormFloat64())
	for i := range y {
		y[i] *= scaleBy
	}
	return problem(t, mod, x, y, nil)
}

// L4: the mean is within the poster's bound, its sharper form and the a posteriori
// bound of the full posterior's, on 2,000 random problems.
func TestMeanBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 1))
	rounds := 2000
	if testing.Short() {
		rounds = 300
	}
	worst, worstSharp, worstOurs := 0.0, 0.0, 0.0
	for range rounds {
		n, d := 2+rng.IntN(20), 2+rng.IntN(15)
		p := conjugate(t, rng, n, d, 1+rng.IntN(min(n, d)))
		f := fit(t, p)
		mean, _, _ := laplace(t, p, p.Dense(), nil)
		gap, norm, b := 0.0, 0.0, 0.0
		for j, m := range mean {
			gap += (m - f.Posterior.Mean[j]) * (m - f.Posterior.Mean[j])
			norm += f.Posterior.Mean[j] * f.Posterior.Mean[j]
		}
		for _, y := range p.Y {
			b = max(b, math.Abs(y))
		}
		gap = math.Sqrt(gap)
		v, tau := p.PriorVar[0], 1/p.Params.Dispersion
		poster := v * tau * (f.Next*f.Next*math.Sqrt(norm) + f.Next*math.Sqrt(float64(n))*b)
		ours := f.Bound * math.Sqrt(v)
		round := 1e-12 * (1 + math.Sqrt(norm)) * (1 + v*tau*f.Singular[0]*f.Singular[0])
		if gap > poster+round || gap > f.Spectral+round || gap > ours+round {
			t.Fatalf("gap %g, poster's bound %g, sharper %g, a posteriori %g", gap, poster, f.Spectral, ours)
		}
		if gap > round {
			worst, worstSharp, worstOurs = max(worst, gap/poster), max(worstSharp, gap/f.Spectral), max(worstOurs, gap/ours)
		}
	}
	t.Logf("largest share of the bounds: poster %.3f, sharper %.3f, a posteriori %.3f", worst, worstSharp, worstOurs)
}

// The bound holds for the other log-concave families and for any prior too.
func TestBoundElsewhere(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 1))
	for _, family := range []string{"gaussian", "bernoulli", "poisson", "gamma", "negbinomial"} {
		for range 6 {
			p := scene(t, rng, family, 40, 12, 0, true, kernels.Options{Rank: 1 + rng.IntN(8)})
			for _, prior := range normals(t, rng, p.P) {
				p.Normal = prior
				f := fit(t, p)
				mean, _, _ := laplace(t, p, p.Dense(), p.Offset)
				diff := make([]float64, p.P)
				for j := range diff {
					diff[j] = f.Posterior.Mean[j] - mean[j]
				}
				w := make([]float64, p.P)
				if err := prior.MulPrec(w, diff); err != nil {
					t.Fatal(err)
				}
				gap := math.Sqrt(dense.Dot(w, diff))
				if gap > f.Bound*(1+1e-9) {
					t.Errorf("%s: gap %g, bound %g", family, gap, f.Bound)
				}
			}
		}
	}
}

// L5 and L6 for the conjugate model: the precision lacks τ λ(M+1)² in spectral norm,
// no direction is narrower than under the whole design, and the entropy is not smaller.
func TestConservative(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 1))
	for range 60 {
		n, d := 3+rng.IntN(20), 3+rng.IntN(15)
		p := conjugate(t, rng, n, d, 1+rng.IntN(min(n, d)-1))
		p.Model.Options.Oversample = kernels.Given(100) // the theorem is about exact singular vectors
		f := fit(t, p)
		_, full, _ := laplace(t, p, p.Dense(), nil)
		low := mat.NewSymDense(d, covariance(f.Posterior).Data)
		var ch mat.Cholesky
		precision := func(c *mat.SymDense) *mat.SymDense {
			var inv mat.SymDense
			if !ch.Factorize(c) || ch.InverseTo(&inv) != nil {
				t.Fatal("covariance")
			}
			return &inv
		}
		top := func(a *mat.SymDense, sign float64) float64 {
			var e mat.EigenSym
			if !e.Factorize(a, false) {
				t.Fatal("eigenvalues")
			}
			best := math.Inf(-1)
			for _, v := range e.Values(nil) {
				best = max(best, sign*v)
			}
			return best
		}
		a, b := precision(full), precision(low)
		gap := mat.NewSymDense(d, nil)
		for i := range d {
			for j := range i + 1 {
				gap.SetSym(i, j, a.At(i, j)-b.At(i, j))
			}
		}
		want := f.Next * f.Next / p.Params.Dispersion
		if got := top(gap, 1); math.Abs(got-want) > 1e-6*want+1e-9*top(a, 1) {
			t.Errorf("precision gap %g, want %g", got, want)
		}
		for i := range d {
			for j := range i + 1 {
				gap.SetSym(i, j, low.At(i, j)-full.At(i, j))
			}
		}
		if got := top(gap, -1); got > 1e-9*max(1, p.PriorVar[0]) {
			t.Errorf("an eigenvalue of the difference of covariances is %g", -got)
		}
		ch.Factorize(low)
		lowDet := ch.LogDet()
		ch.Factorize(full)
		if ch.LogDet() > lowDet+1e-9 {
			t.Errorf("entropy %g below the full posterior's by %g", lowDet/2, ch.LogDet()-lowDet)
		}
	}
}

// L8: two features and a bias, logistic; rank 1 lies between the full posterior and the
// prior, a factorised Laplace approximation is narrower than the full one.
func TestToy(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 1))
	const n = 50
	x := dense.New(n, 2)
	y := make([]float64, n)
	for i := range n {
		a, b := rng.NormFloat64(), rng.NormFloat64()/math.Sqrt(40)
		x.Row(i)[0], x.Row(i)[1] = (a+b)/math.Sqrt2*1.0, (a-b)/math.Sqrt2
		if rng.Float64() < 1/(1+math.Exp(-2*a)) {
			y[i] = 1
		}
	}
	p := problem(t, model(t, "bernoulli", true, kernels.Options{Rank: 1}), x, y, nil)
	f := fit(t, p)
	_, full, _ := laplace(t, p, p.Dense(), nil)
	low := covariance(f.Posterior)
	trace, fullTrace, factorised, priorTrace := 0.0, 0.0, 0.0, 0.0
	var ch mat.Cholesky
	ch.Factorize(full)
	var prec mat.SymDense
	if err := ch.InverseTo(&prec); err != nil {
		t.Fatal(err)
	}
	for j := 1; j < 3; j++ {
		trace += low.At(j, j)
		fullTrace += full.At(j, j)
		factorised += 1 / prec.At(j, j)
		priorTrace += p.PriorVar[j]
	}
	if !(factorised < fullTrace && fullTrace < trace && trace < priorTrace) {
		t.Errorf("trace: factorised %g, full %g, rank 1 %g, prior %g", factorised, fullTrace, trace, priorTrace)
	}
}

// The intercept is exact: with features that are 0 the fit is the one-weight model's.
func TestInterceptIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 1))
	y := respond(rng, "poisson", decay(40, func(float64) float64 { return 1.2 }))
	p := problem(t, model(t, "poisson", true, kernels.Options{}), dense.New(40, 9), y, nil)
	f := fit(t, p)
	one := problem(t, model(t, "poisson", true, kernels.Options{}), dense.New(40, 0), y, nil)
	mean, cov, logZ := laplace(t, one, one.Dense(), nil)
	close2(t, "mean", f.Posterior.Mean[:1], mean, 1e-9)
	close2(t, "variance", f.Posterior.Var[:1], []float64{cov.At(0, 0)}, 1e-9)
	close2(t, "evidence", []float64{f.Fit.LogEvidence}, []float64{logZ}, 1e-9)
	for j := 1; j < p.P; j++ {
		if f.Posterior.Mean[j] != 0 || math.Abs(f.Posterior.Var[j]-1) > 1e-14 {
			t.Errorf("weight %d outside every direction: %v, %v", j, f.Posterior.Mean[j], f.Posterior.Var[j])
		}
	}
}

// A fit that continues another forgets nothing, although its own directions differ.
func TestContinue(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 1))
	m := model(t, "gaussian", true, kernels.Options{Rank: 3})
	a := spectrum(rng, 30, 20, []float64{9, 8, 7})
	b := spectrum(rng, 30, 20, []float64{9, 8, 7})
	w := gaussian(rng, 1, 20).Data
	both := dense.New(60, 20)
	y := make([]float64, 60)
	for i := range 30 {
		copy(both.Row(i), a.Row(i))
		copy(both.Row(30+i), b.Row(i))
	}
	for i := range y {
		y[i] = dense.Dot(both.Row(i), w) + rng.NormFloat64()
	}
	first := fit(t, problem(t, m, a, y[:30], nil))
	next := *m
	next.Start = first.Fit
	second := fit(t, problem(t, &next, b, y[30:], nil))
	whole := *m
	whole.Options.Rank = 6
	once := fit(t, problem(t, &whole, both, y, nil))
	close2(t, "mean", second.Posterior.Mean, once.Posterior.Mean, 1e-9)
	close2(t, "covariance", covariance(second.Posterior).Data, covariance(once.Posterior).Data, 1e-9)
	close2(t, "evidence", []float64{second.Fit.LogEvidence}, []float64{once.Fit.LogEvidence}, 1e-9)
	if first.Posterior.Form != gauss.LowRank || second.Posterior.F.Cols != 8 || second.Fit.N != 60 {
		t.Errorf("forms %v %v, n = %d", first.Posterior.Form, second.Posterior.Form, second.Fit.N)
	}
}

// What is learnt is where the evidence is flat, and its value is that of a fit with it.
func TestLearn(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 1))
	for _, c := range []struct {
		family string
		o      kernels.Options
	}{
		{"gaussian", kernels.Options{AutoPrior: true, AutoDispersion: true}},
		{"bernoulli", kernels.Options{AutoPrior: true}},
		{"gamma", kernels.Options{AutoPrior: true, AutoShape: true}},
		{"negbinomial", kernels.Options{AutoShape: true}},
		{"studentt", kernels.Options{AutoDispersion: true}},
	} {
		c.o.Rank, c.o.Tol = 6, 1e-10
		p := scene(t, rng, c.family, 200, 15, 0, true, c.o)
		for _, form := range normals(t, rng, p.P)[:1+len(c.family)%3] {
			if c.o.AutoPrior { // free columns are independent of the others, of one variance
				q := scene(t, rng, c.family, 200, 15, 0, true, c.o)
				q.Normal = freed(t, form, q.Born)
				p = q
			} else {
				p.Normal = form
			}
			got := fit(t, p)
			if !got.Fit.Converged {
				t.Errorf("%s: %s", c.family, got.Fit.Status)
			}
			at := func(dv, dd, ds float64) float64 {
				q := *p
				m := *p.Model
				q.Model = &m
				m.Options.AutoPrior, m.Options.AutoDispersion, m.Options.AutoShape = false, false, false
				m.Params.Dispersion = got.Fit.Dispersion * math.Exp(dd)
				if !math.IsNaN(got.Fit.Shape) {
					m.Params.Shape = got.Fit.Shape * math.Exp(ds)
				}
				var err error
				if m.Lik, err = lik.New(p.Lik.Family(), p.Lik.Link(), m.Params); err != nil {
					t.Fatal(err)
				}
				if c.o.AutoPrior {
					l := &learner{r: got.Reduced, Groups: mode.NewGroups(p), variance: []float64{got.Fit.Prior.Variance * math.Exp(dv)}}
					if q.Normal, err = l.prior(); err != nil {
						t.Fatal(err)
					}
				}
				return fit(t, &q).Fit.LogEvidence
			}
			top := at(0, 0, 0)
			close2(t, c.family+": evidence", []float64{got.Fit.LogEvidence}, []float64{top}, 1e-9)
			const h = 0.01
			check := func(what string, up, down float64) {
				// The maximum is within 1e-6 per coordinate and a few of that jointly; a
				// parabola's top is within slope / curvature.
				slope, curve := (up-down)/(2*h), (up+down-2*top)/(h*h)
				if !(curve < 0) || math.Abs(slope/curve) > 2e-3 {
					t.Errorf("%s %s: slope %g, curvature %g at %v, %v, %v", c.family, what, slope, curve, got.Fit.Prior.Variance, got.Fit.Dispersion, got.Fit.Shape)
				}
			}
			if c.o.AutoPrior {
				check("prior variance", at(h, 0, 0), at(-h, 0, 0))
			}
			if c.o.AutoDispersion {
				check("dispersion", at(0, h, 0), at(0, -h, 0))
			}
			if c.o.AutoShape {
				check("shape", at(0, 0, h), at(0, 0, -h))
			}
		}
	}
}

// freed is g with independent variance 1 in the columns without a prior of their own.
func freed(t testing.TB, g *gauss.Normal, born []bool) *gauss.Normal {
	one := func(old []float64) []float64 {
		d := append([]float64(nil), old...)
		for j := range d {
			if !born[j] {
				d[j] = 1
			}
		}
		return d
	}
	switch g.Form {
	case gauss.Full:
		l := g.L.Clone()
		for j := range l.Rows {
			for i := range j {
				if !born[j] || !born[i] {
					l.Row(j)[i] = 0
				}
			}
			if !born[j] {
				l.Row(j)[j] = 1
			}
		}
		return gauss.NewFull(g.Mean, l)
	case gauss.LowRank:
		f := g.F.Clone()
		for j := range f.Rows {
			if !born[j] {
				clear(f.Row(j))
			}
		}
		out, err := gauss.NewLowRank(g.Mean, one(g.D), f)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	return gauss.NewDiagonal(g.Mean, one(g.Var))
}

// Student-t rows far out have negative curvature: B is positive definite with them
// here, and the answer is the dense one; the status says that there is no bound.
func TestNotLogConcave(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 1))
	p := scene(t, rng, "studentt", 80, 10, 0, true, kernels.Options{Rank: 4, Tol: 1e-10})
	for i := range 8 {
		p.Y[i] += 20
	}
	f := fit(t, p)
	x, off := lowDesign(p, f.Reduced)
	mean, cov, logZ := laplace(t, p, x, off)
	close2(t, "mean", f.Posterior.Mean, mean, 1e-8)
	close2(t, "covariance", covariance(f.Posterior).Data, mat.DenseCopyOf(cov).RawMatrix().Data, 1e-8)
	close2(t, "evidence", []float64{f.Fit.LogEvidence}, []float64{logZ}, 1e-8)
	if !math.IsNaN(f.Bound) || !strings.Contains(f.Fit.Status, "no bound") {
		t.Errorf("bound %v, status %q", f.Bound, f.Fit.Status)
	}
	// Two rows that disagree wildly about one weight under a wide prior.
	l, err := lik.New("studentt", "", lik.Params{Dispersion: 1, Shape: 1})
	if err != nil {
		t.Fatal(err)
	}
	one := dense.New(2, 1)
	one.Data[0], one.Data[1] = 1, 1
	q := problem(t, &kernels.Model{NoIntercept: true, Lik: l, Prior: kernels.Prior{Variance: 1e4}}, one, []float64{-5, 5}, nil)
	f = fit(t, q) // starts, and stays, at the valley between them
	if !strings.Contains(f.Fit.Status, "2 rows of negative curvature count as flat") {
		t.Errorf("status %q", f.Fit.Status)
	}
	for j, v := range f.Posterior.Var {
		if !(v > 0) {
			t.Errorf("variance %d = %v", j, v)
		}
	}
}

func TestErrorsAndEdges(t *testing.T) {
	x := dense.New(2, 2)
	x.Data[0], x.Data[3] = 1, 2
	for _, c := range []struct {
		o    kernels.Options
		want string
	}{
		{kernels.Options{Rank: -2}, "rank: found -2"},
		{kernels.Options{Oversample: kernels.Given(-2)}, "oversample: found -2"},
		{kernels.Options{PowerIterations: kernels.Given(-3)}, "power_iterations: found -3"},
		{kernels.Options{MaxIter: -1}, "max_iter: found -1"},
		{kernels.Options{Tol: 2}, "tol: found 2"},
		{kernels.Options{AutoPrior: true, PriorGroups: true}, "prior_variance"},
	} {
		if _, err := Fit(context.Background(), problem(t, model(t, "gaussian", true, c.o), x, []float64{1, 2}, nil)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	for _, f := range []string{"gaussian", "bernoulli", "poisson", "studentt"} {
		for _, dims := range [][2]int{{0, 0}, {0, 3}, {3, 0}, {3, 2}} {
			for _, intercept := range []bool{false, true} {
				p := problem(t, model(t, f, intercept, kernels.Options{AutoPrior: true, AutoDispersion: f == "studentt"}), dense.New(dims[0], dims[1]), make([]float64, dims[0]), nil)
				r := fit(t, p)
				if err := r.Fit.Check(); err != nil || r.Fit.N != int64(dims[0]) {
					t.Errorf("%v: %v", dims, err)
				}
			}
		}
	}
	rng := rand.New(rand.NewPCG(21, 1))
	p := scene(t, rng, "poisson", 50, 10, 0, true, kernels.Options{Rank: 4, MaxIter: 1})
	if f := fit(t, p); f.Fit.Converged || !strings.HasPrefix(f.Fit.Status, "no convergence in 1 Newton steps") {
		t.Errorf("max_iter: %v %q", f.Fit.Converged, f.Fit.Status)
	}
	p.Model.Options.MaxIter, p.Model.Options.TimeLimit = 0, time.Nanosecond
	if f := fit(t, p); f.Fit.Converged || !strings.HasPrefix(f.Fit.Status, "stopped at the time limit") {
		t.Errorf("time_limit: %v %q", f.Fit.Converged, f.Fit.Status)
	}
	wide := dense.New(40, 3)
	for i := range wide.Data {
		wide.Data[i] = 1e9 * rng.NormFloat64()
	}
	if f := fit(t, problem(t, model(t, "gaussian", false, kernels.Options{Rank: 2}), wide, make([]float64, 40), nil)); f.Posterior.Form != gauss.LowRank || !(f.Posterior.Var[0] > 0) {
		t.Errorf("values of 1e9: %q", f.Fit.Status)
	}
	wide = dense.New(40, 3)
	for i := range 40 {
		wide.Row(i)[i%2] = 1e9
		wide.Row(i)[2] = 1e-9
	}
	if f := fit(t, problem(t, model(t, "gaussian", false, kernels.Options{Rank: 2}), wide, make([]float64, 40), nil)); !strings.Contains(f.Fit.Status, "2 variances are held") {
		t.Errorf("weights known to 1e-20: %q", f.Fit.Status)
	}
	big, options := *p, *p.Model
	big.N, big.P, big.Model, options.Options.Rank = 1<<40, 1<<20, &options, 1000
	if _, err := Fit(context.Background(), &big); err == nil || !strings.Contains(err.Error(), "lower rank") {
		t.Errorf("a decomposition beyond memory: %v", err)
	}
	for i := range p.N {
		p.Y[i] = 1e7 // far from the start: the rate rises by e¹⁶
	}
	p.Model.Options.TimeLimit = 0
	if f := fit(t, p); !f.Fit.Converged {
		t.Errorf("large counts: %q", f.Fit.Status)
	}
}

func TestFitIsAFunction(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 1))
	p := scene(t, rng, "bernoulli", 900, 80, 0, true, kernels.Options{Rank: 7, AutoPrior: true})
	run := func(procs int) *kernels.Fit {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		return fit(t, p).Fit
	}
	a, b := run(1), run(3)
	if a.LogEvidence != b.LogEvidence || a.Status != b.Status {
		t.Errorf("%v %q with one processor, %v %q with three", a.LogEvidence, a.Status, b.LogEvidence, b.Status)
	}
	for j := range a.Beliefs {
		if a.Beliefs[j] != b.Beliefs[j] {
			t.Fatalf("belief %d: %+v and %+v", j, a.Beliefs[j], b.Beliefs[j])
		}
	}
}

// No batch panics or gives a belief that is not a Gaussian.
func FuzzFit(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(4), uint8(0), 1.0, uint8(2))
	f.Add(uint64(2), uint8(0), uint8(0), uint8(1), 1e300, uint8(9))
	f.Add(uint64(3), uint8(9), uint8(2), uint8(2), 1e-300, uint8(0))
	f.Add(uint64(4), uint8(2), uint8(9), uint8(3), -1e155, uint8(1))
	f.Add(uint64(5), uint8(5), uint8(5), uint8(4), 1e8, uint8(3))
	f.Fuzz(func(t *testing.T, seed uint64, n, d, kind uint8, size float64, rank uint8) {
		if math.IsNaN(size) || math.IsInf(size, 0) {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		family := []string{"gaussian", "bernoulli", "poisson", "gamma", "negbinomial", "studentt"}[kind%6]
		o := kernels.Options{Rank: int(rank % 12), AutoPrior: kind&8 != 0, AutoShape: kind&16 != 0, AutoDispersion: kind&32 != 0}
		x := dense.New(int(n%12), int(d%12))
		for i := range x.Data {
			switch rng.IntN(4) {
			case 0:
				x.Data[i] = size * rng.NormFloat64()
			case 1:
				x.Data[i] = rng.NormFloat64()
			}
			if math.IsInf(x.Data[i], 0) {
				x.Data[i] = size
			}
		}
		y := respond(rng, family, make([]float64, x.Rows))
		p := problem(t, model(t, family, kind&64 != 0, o), x, y, nil)
		r, err := Fit(context.Background(), p)
		if err != nil {
			return
		}
		if err := r.Fit.Check(); err != nil {
			t.Fatal(err)
		}
		if err := r.Fit.Covariance.Check(len(r.Fit.Beliefs)); err != nil {
			t.Fatal(err)
		}
		for _, b := range r.Fit.Beliefs {
			if !(b.Variance > 0) {
				t.Fatalf("%+v", b)
			}
		}
		if math.IsNaN(r.Fit.LogEvidence) || r.Fit.Status == "" {
			t.Fatalf("%v %q", r.Fit.LogEvidence, r.Fit.Status)
		}
	})
}

// Against the full Laplace engine where every direction is kept, also with
// standardised columns, which is centred here and full.
func TestAgainstLaplaceEngine(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 1))
	for _, standardize := range []bool{false, true} {
		for _, family := range []string{"gaussian", "bernoulli", "poisson"} {
			o := kernels.Options{Rank: 30, Tol: 1e-10, Hessian: "full", Standardize: standardize}
			p := scene(t, rng, family, 70, 12, 0, true, o)
			got := fit(t, p)
			want, err := fulllaplace.Fit(context.Background(), p)
			if err != nil {
				t.Fatal(err)
			}
			for j, b := range want.Beliefs {
				close2(t, family+" "+b.Feature, []float64{got.Fit.Beliefs[j].Mean, got.Fit.Beliefs[j].Variance}, []float64{b.Mean, b.Variance}, 1e-8)
			}
			close2(t, family+" covariance", got.Fit.Covariance.Values, want.Covariance.Values, 1e-8)
			close2(t, family+" evidence", []float64{got.Fit.LogEvidence}, []float64{want.LogEvidence}, 1e-8)
		}
	}
}

// Too many numbers for a low-rank form are scaled only, and that is said.
func TestScaledOnly(t *testing.T) {
	rng := rand.New(rand.NewPCG(24, 1))
	x := dense.New(30, 2010)
	for i := range x.Data {
		if rng.IntN(10) == 0 {
			x.Data[i] = 5 * rng.NormFloat64()
		}
	}
	y := respond(rng, "bernoulli", make([]float64, 30))
	f := fit(t, problem(t, model(t, "bernoulli", true, kernels.Options{Rank: 5, Standardize: true}), x, y, nil))
	if f.Posterior.Form != gauss.LowRank || !strings.Contains(f.Fit.Status, "does not centre") {
		t.Errorf("form %v, status %q", f.Posterior.Form, f.Fit.Status)
	}
}

// A dispersion or a shape whose spread is not known is recorded nevertheless: a fit that continues
// this one then learns it on.
func TestLearntWithoutSpread(t *testing.T) {
	p := problem(t, model(t, "studentt", true, kernels.Options{AutoDispersion: true, AutoShape: true}), dense.New(5, 1), make([]float64, 5), nil)
	f := p.Fit("lowrank", p.Normal, 0)
	(&learned{dispersion: math.NaN(), shape: math.NaN()}).note(f, p)
	for _, name := range []string{kernels.LearntDeviation, kernels.LearntShape} {
		if mean, sd, ok := f.Kept(name); !ok || !(mean > 0) || !math.IsNaN(sd) {
			t.Errorf("%s: %v ± %v, %v", name, mean, sd, ok)
		}
	}
}

package ep

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// wide gives n rows over p dense features.
func wide(r *rand.Rand, f family, n, p int) []row {
	rows := make([]row, n)
	at := 0.0
	for i := range rows {
		x := map[string]float64{}
		s := 0.0
		for j := range p {
			v := r.NormFloat64() / math.Sqrt(float64(p))
			x[fmt.Sprintf("f%02d", j)] = v
			s += v * float64(j%5-2)
		}
		at += r.ExpFloat64()
		rows[i] = row{x: x, y: f.y(r, s), trials: f.trials, time: at}
	}
	return rows
}

// design is X as a gonum matrix.
func design(p *kernels.Problem) *mat.Dense {
	x := mat.NewDense(max(p.N, 1), p.P, nil)
	for i := range p.N {
		cols, xs := p.Entries(i)
		for k, j := range cols {
			x.Set(i, int(j), xs[k])
		}
	}
	return x
}

func covOf(g *gauss.Normal) *mat.Dense {
	d := dense.New(g.Dim(), g.Dim())
	g.Cov(d)
	return mat.NewDense(g.Dim(), g.Dim(), d.Data)
}

func posteriorOf(t testing.TB, r *Result) *gauss.Normal {
	t.Helper()
	g, err := r.e.posterior()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// reference is EP with a joint Gaussian as one would write it from the definition:
// p x p matrices, inverses, natural parameters; no code shared with the package.
type reference struct {
	mean  []float64
	cov   *mat.Dense
	logZ  float64
	loo   []float64
	sites []Site
}

func bruteForce(p *kernels.Problem, sweeps int) reference {
	x := design(p)
	s0 := covOf(p.Normal)
	var l0 mat.Dense
	if err := l0.Inverse(s0); err != nil {
		panic(err)
	}
	n, d := p.N, p.P
	tau, nu := make([]float64, n), make([]float64, n)
	ref := reference{loo: make([]float64, n), sites: make([]Site, n)}
	mu0 := mat.NewVecDense(d, p.PriorMean)
	posterior := func(tau, nu []float64) (*mat.Dense, *mat.VecDense) {
		lam := mat.DenseCopyOf(&l0)
		var eta mat.VecDense
		eta.MulVec(&l0, mu0)
		for i := range n {
			xi := mat.NewVecDense(d, x.RawRowView(i))
			lam.RankOne(lam, tau[i], xi, xi)
			eta.AddScaledVec(&eta, nu[i], xi)
		}
		var cov mat.Dense
		if err := cov.Inverse(lam); err != nil {
			panic(err)
		}
		var mean mat.VecDense
		mean.MulVec(&cov, &eta)
		return &cov, &mean
	}
	// Sites here are on x'w itself, not measured from the prior mean.
	terms := make([]float64, n)
	for range sweeps {
		for i := range n {
			t0, n0 := tau[i], nu[i]
			tau[i], nu[i] = 0, 0
			cov, mean := posterior(tau, nu)
			tau[i], nu[i] = t0, n0
			xi := mat.NewVecDense(d, x.RawRowView(i))
			m, v := mat.Dot(xi, mean), mat.Inner(xi, cov, xi)
			off := 0.0
			if p.Offset != nil {
				off = p.Offset[i]
			}
			q := p.Lik.Moments(p.Batch().Obs(i), m+off, v)
			ref.loo[i] = q.LogZ
			if v > 0 {
				tilt := v * q.Ratio
				tau[i] = 1/tilt - 1/v
				nu[i] = (m+v*q.Alpha)/tilt - m/v
			}
			den := 1 + v*tau[i]
			terms[i] = q.LogZ + 0.5*math.Log(den) - 0.5*(-m*m/v+math.Pow(m/v+nu[i], 2)*v/den)
			if v == 0 {
				terms[i] = q.LogZ
			}
		}
	}
	cov, mean := posterior(tau, nu)
	ref.cov, ref.mean = cov, mean.RawVector().Data
	ld1, _ := mat.LogDet(cov)
	ld0, _ := mat.LogDet(s0)
	var a, b mat.VecDense
	var lam mat.Dense
	lam.Inverse(cov)
	a.MulVec(&lam, mean)
	b.MulVec(&l0, mu0)
	ref.logZ = 0.5*(ld1-ld0) + 0.5*(mat.Dot(&a, mean)-mat.Dot(&b, mu0))
	for i, t := range terms {
		ref.logZ += t
		ref.sites[i] = Site{tau[i], nu[i]}
	}
	return ref
}

// Full EP is the brute-force one: fewer and more weights than rows, several blocks,
// every family, offsets and weights.
func TestFullIsBruteForce(t *testing.T) {
	for name, f := range families(t) {
		for _, shape := range [][2]int{{12, 4}, {6, 9}, {5, 20}} {
			r := rand.New(rand.NewPCG(5, uint64(shape[1])))
			rows := wide(r, f, shape[0], shape[1])
			for i := range rows {
				rows[i].off = 0.3 * r.NormFloat64()
				rows[i].w = 0.5 + r.Float64()
			}
			m := &kernels.Model{Lik: f.l, Prior: kernels.Prior{Mean: 0.1, Variance: 0.8, InterceptVariance: 2},
				Options: kernels.Options{Covariance: "full", Tol: 1e-12, MaxIter: 300}}
			p := problem(t, m, rows)
			got := fit(t, p)
			want := bruteForce(p, 60)
			what := fmt.Sprintf("%s %dx%d", name, shape[0], shape[1])
			// Both iterate to rounding; inverses cost cond(Λ) of about 1e2.
			close(t, what+" evidence", got.Fit.LogEvidence, want.logZ, 1e-9)
			g := posteriorOf(t, got)
			cov := covOf(g)
			for j := range p.P {
				close(t, what+" mean", g.Mean[j], want.mean[j], 1e-8)
				for k := range p.P {
					close(t, what+" covariance", cov.At(j, k), want.cov.At(j, k), 1e-8)
				}
			}
			for i := range p.N {
				close(t, what+" leave-one-out", got.LOO[i], want.loo[i], 1e-8)
				close(t, what+" site", got.Sites[i].Tau, want.sites[i].Tau, 1e-7)
			}
		}
	}
}

// Rows in blocks of matrix products are rows one by one, and what a sweep carries
// agrees with the rebuilt belief.
func TestBlocksAndRebuild(t *testing.T) {
	f := families(t)["probit"]
	for _, c := range []struct{ n, p, most int }{{250, 12, 12}, {250, 120, 120}, {150, 400, 3}, {300, 200, 4}} {
		r := rand.New(rand.NewPCG(9, 9))
		rows := wide(r, f, c.n, c.p)
		if c.most < c.p {
			for i := range rows {
				rows[i].x = map[string]float64{}
				for range c.most {
					rows[i].x[fmt.Sprintf("f%02d", r.IntN(c.p))] = r.NormFloat64()
				}
			}
		}
		m := &kernels.Model{Lik: f.l, Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: "full"}}
		p := problem(t, m, rows)
		a, err := newFull(p)
		if err != nil {
			t.Fatal(err)
		}
		b, err := newFull(p)
		if err != nil {
			t.Fatal(err)
		}
		b.g, b.h, b.hc = dense.New(1, b.dim), dense.New(1, b.dim), dense.New(1, b.dim) // blocks of one row
		for range 3 {
			ca, err := a.sweep(1)
			if err != nil {
				t.Fatal(err)
			}
			cb, err := b.sweep(1)
			if err != nil {
				t.Fatal(err)
			}
			close(t, "evidence", ca.logZ, cb.logZ, 1e-11)
			for i := range a.site {
				close(t, "site", a.site[i].Tau, b.site[i].Tau, 1e-10)
				close(t, "site", a.site[i].Nu, b.site[i].Nu, 1e-10)
			}
			if a.gap > 1e-10 || b.gap > 1e-10 {
				t.Errorf("%dx%d: rank-one updates are off by %g and %g", c.n, c.p, a.gap, b.gap)
			}
		}
		t.Logf("%dx%d: gap %.1g in blocks, %.1g row by row", c.n, c.p, a.gap, b.gap)
	}
}

// With a Gaussian likelihood full EP is the conjugate posterior, its leave-one-out
// densities are those of fits without the row, and the factorised means are ridge
// regression's.
func TestGaussianIsExact(t *testing.T) {
	f := families(t)["gaussian"]
	const noise = 0.5
	for _, shape := range [][2]int{{30, 5}, {8, 20}, {12, 60}} {
		r := rand.New(rand.NewPCG(11, 1))
		rows := wide(r, f, shape[0], shape[1])
		m := &kernels.Model{Lik: f.l, Prior: kernels.Prior{Mean: -0.2, Variance: 0.7, InterceptVariance: 3},
			Options: kernels.Options{Covariance: "full"}}
		p := problem(t, m, rows)
		got := fit(t, p)
		if got.Sweeps > 3 || !got.Fit.Converged { // sites, cavities given later rows, and once more to see it
			t.Errorf("%d sweeps, %s", got.Sweeps, got.Fit.Status)
		}
		evidence := func(p *kernels.Problem) float64 {
			x, s0 := design(p), covOf(p.Normal)
			var k, xs mat.Dense
			xs.Mul(x, s0)
			k.Mul(&xs, x.T())
			res := mat.NewVecDense(p.N, nil)
			res.MulVec(x, mat.NewVecDense(p.P, p.PriorMean))
			sym := mat.NewSymDense(p.N, nil)
			for i := range p.N {
				res.SetVec(i, p.Y[i]-res.AtVec(i))
				for j := range i + 1 {
					sym.SetSym(i, j, k.At(i, j))
				}
				sym.SetSym(i, i, k.At(i, i)+noise)
			}
			var c mat.Cholesky
			c.Factorize(sym)
			var sol mat.VecDense
			c.SolveVecTo(&sol, res)
			return -0.5 * (mat.Dot(res, &sol) + c.LogDet() + float64(p.N)*math.Log(2*math.Pi))
		}
		close(t, "evidence", got.Fit.LogEvidence, evidence(p), 1e-11)
		for i := range rows {
			rest := append(append([]row{}, rows[:i]...), rows[i+1:]...)
			close(t, "leave-one-out", got.LOO[i], evidence(p)-evidence(problem(t, m, rest)), 1e-10)
		}
		factor := *m
		factor.Options.Covariance, factor.Options.MaxIter = "diagonal", 5000
		h := fit(t, problem(t, &factor, rows))
		for j, b := range got.Fit.Beliefs {
			close(t, "factorised mean of "+b.Feature, h.Fit.Beliefs[j].Mean, b.Mean, 1e-6)
		}
	}
}

// A fit continued from a fit with its full or low-rank covariance is the fit of all
// rows, evidence included.
func TestWarmStart(t *testing.T) {
	f := families(t)["gaussian"]
	for _, shape := range [][2]int{{40, 6}, {12, 40}, {30, 40}} {
		r := rand.New(rand.NewPCG(13, 1))
		rows := wide(r, f, shape[0], shape[1])
		m := &kernels.Model{Lik: f.l, Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: "full"}}
		whole := fit(t, problem(t, m, rows))
		next := *m
		next.Start = fit(t, problem(t, m, rows[:len(rows)/3])).Fit
		part := fit(t, problem(t, &next, rows[len(rows)/3:]))
		what := fmt.Sprintf("%v (%v, %v)", shape, next.Start.Covariance.Form, part.Fit.Covariance.Form)
		close(t, what+" evidence", part.Fit.LogEvidence, whole.Fit.LogEvidence, 1e-11)
		a, b := covOf(posteriorOf(t, whole)), covOf(posteriorOf(t, part))
		for j, w := range whole.Fit.Beliefs {
			close(t, what+" mean", part.Fit.Beliefs[j].Mean, w.Mean, 1e-10)
			close(t, what+" variance", part.Fit.Beliefs[j].Variance, w.Variance, 1e-10)
			close(t, what+" covariance", b.At(j, 0), a.At(j, 0), 1e-10)
		}
		if err := part.Fit.Covariance.Check(len(part.Fit.Beliefs)); err != nil {
			t.Error(err)
		}
		// Factorised beliefs cannot carry it, and say so.
		next.Options.Covariance = ""
		if s := fit(t, problem(t, &next, rows[len(rows)/3:])).Fit.Status; s == "ok" {
			t.Error("the prior's covariances are dropped in silence")
		}
	}
}

// Z12: with one non-zero per row factorised and full EP are the same, with and
// without drift; so are the evidence, the leave-one-out densities and the smoothed
// trajectories.
func TestOneNonZero(t *testing.T) {
	for name, f := range families(t) {
		for _, q := range []float64{0, 0.05} {
			rows := draw(rand.New(rand.NewPCG(17, 1)), f, 40, 1)
			m := &kernels.Model{NoIntercept: true, Lik: f.l, Prior: kernels.Prior{Variance: 0.6}, Noise: q, HasTime: true,
				Options: kernels.Options{Tol: 1e-13, MaxIter: 400}}
			a := fit(t, problem(t, m, rows))
			m.Options.Covariance = "full"
			b := fit(t, problem(t, m, rows))
			what := fmt.Sprintf("%s q=%v", name, q)
			// Fixed points found to Tol by different roads: 1e-12 and what the moments'
			// own rounding adds in the family with the worst rate.
			close(t, what+" evidence", b.Fit.LogEvidence, a.Fit.LogEvidence, 1e-12)
			for j, w := range a.Fit.Beliefs {
				close(t, what+" mean", b.Fit.Beliefs[j].Mean, w.Mean, 2e-12)
				close(t, what+" variance", b.Fit.Beliefs[j].Variance, w.Variance, 2e-12)
			}
			for i := range a.LOO {
				close(t, what+" leave-one-out", b.LOO[i], a.LOO[i], 2e-12)
			}
			ta, tb := trajectories(t, a), trajectories(t, b)
			if len(ta) != len(rows) || len(tb) != len(rows) {
				t.Fatalf("%s: %d and %d entries for %d rows", what, len(ta), len(tb), len(rows))
			}
			for i := range ta {
				if ta[i].feature != tb[i].feature || ta[i].time != tb[i].time {
					t.Fatalf("%s: %v and %v", what, ta[i], tb[i])
				}
				close(t, what+" smoothed mean", tb[i].mean, ta[i].mean, 1e-11)
				close(t, what+" smoothed variance", tb[i].variance, ta[i].variance, 1e-11)
			}
		}
	}
}

type point struct {
	feature              string
	time, mean, variance float64
}

func trajectories(t testing.TB, r *Result) (out []point) {
	t.Helper()
	if err := r.Trajectories(context.Background(), func(feature string, time, mean, variance float64) {
		out = append(out, point{feature, time, mean, variance})
	}); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(out); i++ {
		a, b := out[i-1], out[i]
		if c := kernels.CompareNames(a.feature, b.feature); c > 0 || c == 0 && a.time > b.time {
			t.Errorf("%v before %v", a, b)
		}
	}
	return out
}

// Z12: identity link, Gaussian noise, drift: the Kalman filter and the RTS smoother
// after one sweep, evidence included. The reference is textbook matrices.
func TestKalman(t *testing.T) {
	f := families(t)["gaussian"]
	const noise = 0.5
	r := rand.New(rand.NewPCG(19, 1))
	rows := draw(r, f, 60, 4)
	m := &kernels.Model{Lik: f.l, Prior: kernels.Prior{Mean: 0.3, Variance: 0.6, InterceptVariance: 2}, HasTime: true,
		NoiseBy: map[string]float64{"f0": 0.1, "f1": 0.02, "f2": 0.3, "f5": 0.04, "(Intercept)": 0.01},
		Priors:  []kernels.Belief{{Feature: "f4", Weight: kernels.Weight{Mean: 1, Variance: 0.2}}, {Feature: "f5", Weight: kernels.Weight{Mean: -1, Variance: 0.2}}},
		Options: kernels.Options{Covariance: "full", MaxIter: 1}}
	p := problem(t, m, rows)
	got := fit(t, p)

	x, d := design(p), p.P
	q := noises(p)
	type gaussian struct {
		m mat.VecDense
		p mat.Dense
	}
	pred, filt := make([]gaussian, p.N), make([]gaussian, p.N)
	cur := gaussian{}
	cur.m.CloneFromVec(mat.NewVecDense(d, p.PriorMean))
	cur.p.CloneFrom(covOf(p.Normal))
	moving := append([]bool(nil), p.Born...)
	last, logZ := p.Begin, 0.0
	steps := make([][]float64, p.N) // drift variance before each row
	for i := range p.N {
		steps[i] = make([]float64, d)
		for j := range d {
			if moving[j] {
				steps[i][j] = q[j] * (p.Time[i] - last)
				cur.p.Set(j, j, cur.p.At(j, j)+steps[i][j])
			}
		}
		last = p.Time[i]
		cols, _ := p.Entries(i)
		for _, j := range cols {
			moving[j] = true
		}
		pred[i].m.CloneFromVec(&cur.m)
		pred[i].p.CloneFrom(&cur.p)
		xi := mat.NewVecDense(d, x.RawRowView(i))
		var h mat.VecDense
		h.MulVec(&cur.p, xi)
		s := mat.Dot(xi, &h) + noise
		e := p.Y[i] - mat.Dot(xi, &cur.m)
		logZ += -0.5 * (math.Log(2*math.Pi*s) + e*e/s)
		cur.m.AddScaledVec(&cur.m, e/s, &h)
		cur.p.RankOne(&cur.p, -1/s, &h, &h)
		filt[i].m.CloneFromVec(&cur.m)
		filt[i].p.CloneFrom(&cur.p)
	}
	close(t, "evidence", got.Fit.LogEvidence, logZ, 1e-10)
	g := posteriorOf(t, got)
	cov := covOf(g)
	for j := range d {
		close(t, "filtered mean", g.Mean[j], cur.m.AtVec(j), 1e-10)
		for k := range d {
			close(t, "filtered covariance", cov.At(j, k), cur.p.At(j, k), 1e-10)
		}
	}
	smooth := make([]gaussian, p.N)
	smooth[p.N-1] = filt[p.N-1]
	for i := p.N - 2; i >= 0; i-- {
		var inv, gain, dp, tmp mat.Dense
		inv.Inverse(&pred[i+1].p)
		gain.Mul(&filt[i].p, &inv)
		var dm, step mat.VecDense
		dm.SubVec(&smooth[i+1].m, &pred[i+1].m)
		step.MulVec(&gain, &dm)
		smooth[i].m.AddVec(&filt[i].m, &step)
		dp.Sub(&smooth[i+1].p, &pred[i+1].p)
		tmp.Mul(&gain, &dp)
		dp.Mul(&tmp, gain.T())
		smooth[i].p.Add(&filt[i].p, &dp)
	}
	all := trajectories(t, got)
	at := 0
	for j := range d {
		for i := range p.N {
			cols, _ := p.Entries(i)
			for _, c := range cols {
				if int(c) != j {
					continue
				}
				close(t, "smoothed mean", all[at].mean, smooth[i].m.AtVec(j), 1e-10)
				close(t, "smoothed variance", all[at].variance, smooth[i].p.At(j, j), 1e-10)
				at++
			}
		}
	}
	if at != len(all) {
		t.Errorf("%d entries, want %d", len(all), at)
	}
	// The sites are at their fixed point already.
	m.Options.MaxIter = 0
	again := fit(t, problem(t, m, rows))
	if !again.Fit.Converged || again.Sweeps > 3 {
		t.Errorf("%d sweeps: %s", again.Sweeps, again.Fit.Status)
	}
	close(t, "evidence after all sweeps", again.Fit.LogEvidence, logZ, 1e-10)
}

// EP with drift is EP without drift on the increments as weights of their own: two
// programs that share only the moments of a row.
func TestDriftIsIncrements(t *testing.T) {
	for name, f := range families(t) {
		r := rand.New(rand.NewPCG(23, 1))
		rows := draw(r, f, 14, 3)
		const q = 0.08
		m := &kernels.Model{Lik: f.l, Prior: kernels.Prior{Mean: 0.1, Variance: 0.5, InterceptVariance: 1}, HasTime: true, Noise: q,
			Options: kernels.Options{Covariance: "full", Tol: 1e-11, MaxIter: 300}}
		a := fit(t, problem(t, m, rows))
		still := &kernels.Model{NoIntercept: true, Lik: f.l, Prior: kernels.Prior{Mean: 0.1, Variance: 0.5}, Options: m.Options,
			Priors: []kernels.Belief{{Feature: "0", Weight: kernels.Weight{Mean: 0.1, Variance: 1}}}}
		began := map[string]float64{"0": rows[0].time} // the intercept is feature 0 here
		var flat []row
		for i, w := range rows {
			x := map[string]float64{"0": 1}
			for k, v := range w.x {
				x[k] = v
			}
			all := map[string]float64{}
			for k, v := range x {
				all[k] = v
				if _, ok := began[k]; !ok {
					began[k] = w.time
				}
				for s := 1; s <= i; s++ { // increments between row s-1 and s
					if rows[s].time > began[k] {
						name := fmt.Sprintf("d%s.%d", k, s)
						all[name] = v
						still.Priors = append(still.Priors, kernels.Belief{Feature: name,
							Weight: kernels.Weight{Variance: q * (rows[s].time - math.Max(rows[s-1].time, began[k]))}})
					}
				}
			}
			w.x = all
			flat = append(flat, w)
		}
		b := fit(t, problem(t, still, flat))
		if !a.Fit.Converged || !b.Fit.Converged {
			t.Errorf("%s: %s, %s", name, a.Fit.Status, b.Fit.Status)
		}
		close(t, name+" evidence", a.Fit.LogEvidence, b.Fit.LogEvidence, 1e-8)
		for i := range a.LOO {
			close(t, name+" leave-one-out", a.LOO[i], b.LOO[i], 1e-7)
			close(t, name+" site", a.Sites[i].Tau, b.Sites[i].Tau, 1e-7)
		}
	}
}

// Full EP against the exact posterior by quadrature on a grid, two weights.
func TestFullAgainstQuadrature(t *testing.T) {
	kerneltest.Slow(t)
	for _, name := range []string{"poisson", "logit", "probit", "studentt"} {
		f := families(t)[name]
		r := rand.New(rand.NewPCG(29, 1))
		rows := wide(r, f, 25, 2)
		m := &kernels.Model{NoIntercept: true, Lik: f.l, Prior: kernels.Prior{Variance: 2}, Options: kernels.Options{Covariance: "full"}}
		p := problem(t, m, rows)
		got := fit(t, p)
		const n, reach = 400, 8.0
		g := posteriorOf(t, got)
		// Trapezoid rule on ± 8 deviations around EP's answer.
		logs := make([]float64, 0, n*n)
		top := math.Inf(-1)
		sd := [2]float64{math.Sqrt(g.Var[0]), math.Sqrt(g.Var[1])}
		at := func(k, j int) float64 { return g.Mean[j] + sd[j]*reach*(2*float64(k)/(n-1)-1) }
		for a := range n {
			for b := range n {
				w := []float64{at(a, 0), at(b, 1)}
				l := -(w[0]*w[0]+w[1]*w[1])/4 - math.Log(2*math.Pi*2)
				for i := range p.N {
					cols, xs := p.Entries(i)
					s := 0.0
					for k, j := range cols {
						s += xs[k] * w[j]
					}
					lp, _, _ := p.Lik.LogLik(p.Batch().Obs(i), s)
					l += lp
				}
				logs = append(logs, l)
				top = max(top, l)
			}
		}
		var mass, m0, m00 float64
		for k, l := range logs {
			w := math.Exp(l - top)
			mass += w
			m0 += w * at(k/n, 0)
			m00 += w * at(k/n, 0) * at(k/n, 0)
		}
		m0 /= mass
		v0 := m00/mass - m0*m0
		logZ := top + math.Log(mass*sd[0]*sd[1]*math.Pow(2*reach/(n-1), 2))
		t.Logf("%s: mean off by %.4f sd, sd by %.2f%%, log evidence by %.4f", name, (g.Mean[0]-m0)/math.Sqrt(v0), 100*(sd[0]/math.Sqrt(v0)-1), got.Fit.LogEvidence-logZ)
		// EP is an approximation: here the weights are nearly separable by 25 rows, the
		// posterior is skewed, and EP still has the mean to a thousandth of a deviation.
		if math.Abs(g.Mean[0]-m0) > 0.01*math.Sqrt(v0) || math.Abs(g.Var[0]/v0-1) > 0.08 || math.Abs(got.Fit.LogEvidence-logZ) > 0.03 {
			t.Errorf("%s: mean %v, want %v; variance %v, want %v; evidence %v, want %v", name, g.Mean[0], m0, g.Var[0], v0, got.Fit.LogEvidence, logZ)
		}
	}
}

// The gradient of the log evidence in the prior's variance is that of its Gaussian:
// EP's evidence is stationary in the sites.
func TestEvidenceGradient(t *testing.T) {
	for name, f := range families(t) {
		for _, c := range []struct {
			cov   string
			noise float64
		}{{"diagonal", 0}, {"diagonal", 0.05}, {"full", 0}, {"full", 0.05}} {
			for _, n := range []int{25, 4} {
				rows := draw(rand.New(rand.NewPCG(31, 1)), f, n, 3)
				run := func(v float64) *Result {
					return fit(t, problem(t, &kernels.Model{NoIntercept: true, Lik: f.l, Prior: kernels.Prior{Mean: 0.2, Variance: v}, Noise: c.noise,
						Options: kernels.Options{Covariance: c.cov, Tol: 1e-12, MaxIter: 1000}}, rows))
				}
				const v, h = 0.7, 1e-3
				a, b, mid := run(v-h), run(v+h), run(v)
				dev, variance := make([]float64, mid.p.P), make([]float64, mid.p.P)
				if err := mid.e.initial(dev, variance); err != nil {
					t.Fatal(err)
				}
				want := 0.0
				for j := range dev {
					want += 0.5 * ((dev[j]*dev[j]+variance[j])/(v*v) - 1/v)
				}
				// Central differences: h² times the third derivative, about 1e-6 each weight.
				close(t, fmt.Sprintf("%s %s q=%v n=%d", name, c.cov, c.noise, n), (b.Fit.LogEvidence-a.Fit.LogEvidence)/(2*h), want, 3e-5)
			}
		}
	}
}

// lowrank with all directions is full.
func TestLowRank(t *testing.T) {
	for _, name := range []string{"logit", "poisson", "gaussian"} {
		f := families(t)[name]
		for _, shape := range [][2]int{{40, 6}, {10, 25}} {
			rows := wide(rand.New(rand.NewPCG(37, 1)), f, shape[0], shape[1])
			m := &kernels.Model{Lik: f.l, Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: "full"}}
			a := fit(t, problem(t, m, rows))
			m.Options.Covariance, m.Options.Rank = "lowrank", min(shape[0], shape[1])
			b := fit(t, problem(t, m, rows))
			close(t, name+" evidence", b.Fit.LogEvidence, a.Fit.LogEvidence, 1e-8)
			for j, w := range a.Fit.Beliefs {
				close(t, name+" mean", b.Fit.Beliefs[j].Mean, w.Mean, 1e-7)
				close(t, name+" variance", b.Fit.Beliefs[j].Variance, w.Variance, 1e-7)
			}
		}
	}
}

// Results are bit-equal whatever the number of processors.
func TestDeterministic(t *testing.T) {
	f := families(t)["logit"]
	rows := wide(rand.New(rand.NewPCG(41, 1)), f, 220, 150)
	for _, cov := range []string{"diagonal", "full", "lowrank"} {
		m := &kernels.Model{NoIntercept: true, Lik: f.l, Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: cov, Rank: 20, MaxIter: 4}}
		var first *kernels.Fit
		for _, procs := range []int{1, 2, 5} {
			old := runtime.GOMAXPROCS(procs)
			got := fit(t, problem(t, m, rows)).Fit
			runtime.GOMAXPROCS(old)
			if first == nil {
				first = got
			}
			if got.LogEvidence != first.LogEvidence {
				t.Errorf("%s: evidence %v with %d processors, %v with 1", cov, got.LogEvidence, procs, first.LogEvidence)
			}
			for j := range got.Beliefs {
				if got.Beliefs[j] != first.Beliefs[j] {
					t.Fatalf("%s: %v with %d processors, %v with 1", cov, got.Beliefs[j], procs, first.Beliefs[j])
				}
			}
		}
	}
}

// Sites refreshed all at once end where those end that are refreshed one after the other, by
// some more sweeps, which are cheap; where they do not get there, as under a
// vague prior, they are begun anew one after the other.
func TestTogether(t *testing.T) {
	const n, levels = 12_000, 60
	for name, f := range families(t) {
		for _, vague := range []bool{false, true} {
			if vague && name != "probit" && name != "poisson" || !f.l.Traits().Concave || testing.Short() && name != "probit" {
				continue
			}
			what := fmt.Sprintf("%s, vague %v", name, vague)
			r := rand.New(rand.NewPCG(23, 2))
			rows := make([]row, n)
			for i := range rows {
				a, b := r.IntN(levels), int(math.Exp(r.Float64()*math.Log(levels))) // levels of few rows too
				rows[i] = row{x: map[string]float64{fmt.Sprint("a=", a): 1, fmt.Sprint("b=", b): 1}, y: f.y(r, 0.02*float64(a)-0.5+math.Sin(float64(b))), trials: f.trials}
			}
			m := &kernels.Model{Lik: f.l, Prior: kernels.Prior{Variance: 1, InterceptVariance: 10}, Options: kernels.Options{Covariance: "full"}}
			tol := 3e-8
			if vague {
				m.Prior.Variance = 1e4
			} else if name == "logit" {
				m.Options.AutoPrior, tol = true, 1e-3 // of the search
			}
			q := *m
			q.Options.Damping = 1 - 1e-12 // which keeps the order of the rows
			all, one := fit(t, problem(t, m, rows)), fit(t, problem(t, &q, rows))
			e := all.e.(*full)
			if e.sweeps == 0 || one.e.(*full).sweeps != 0 {
				t.Fatalf("%s: %d sweeps together, and %d", what, e.sweeps, one.e.(*full).sweeps)
			}
			t.Logf("%s: %d sweeps together %v, %d one by one; %s", what, all.Sweeps, e.together, one.Sweeps, all.Fit.Status)
			if all.Fit.Status != one.Fit.Status {
				t.Errorf("%s: status %q, one by one %q", what, all.Fit.Status, one.Fit.Status)
			}
			if one.Fit.Converged {
				sameFit(t, what, all, one, tol)
			}
			if !vague && !e.together {
				t.Errorf("%s: begun anew one by one", what)
			}
		}
	}
}

// sameFit compares two runs to convergence, in deviations.
func sameFit(t *testing.T, what string, a, b *Result, tol float64) {
	t.Helper()
	if math.Abs(a.Fit.LogEvidence-b.Fit.LogEvidence) > tol*(1+math.Abs(b.Fit.LogEvidence)) {
		t.Errorf("%s: log evidence %v, want %v", what, a.Fit.LogEvidence, b.Fit.LogEvidence)
	}
	for j, v := range b.variance {
		if math.Abs(a.mean[j]-b.mean[j]) > tol*math.Sqrt(v) || math.Abs(a.variance[j]/v-1) > tol {
			t.Errorf("%s: weight %d is %v, %v; want %v, %v", what, j, a.mean[j], a.variance[j], b.mean[j], v)
			return
		}
	}
	for i, v := range b.LOO {
		if math.Abs(a.LOO[i]-v) > tol*(1+math.Abs(v)) {
			t.Errorf("%s: leave-one-out density %d is %v, want %v", what, i, a.LOO[i], v)
			return
		}
	}
}

package filter

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/stream"
)

func like(t testing.TB, family, link string) lik.Likelihood {
	t.Helper()
	l, err := lik.New(family, link, lik.Params{Dispersion: 0.8, Shape: 4})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func state(t testing.TB, m *kernels.Model, r Rule) *stream.State {
	t.Helper()
	s, err := New(m, r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// row is a test row in terms of names.
type row struct {
	x           map[string]float64
	y, w, t, tr float64
}

func batch(t testing.TB, s *stream.State, rows []row) *kernels.Batch {
	t.Helper()
	var b kernels.Batch
	b.Reset()
	for _, r := range rows {
		if !s.Model().NoIntercept {
			b.Add(0, 1)
		}
		for _, name := range names(r.x) {
			id, err := s.Features().Add(name)
			if err != nil {
				t.Fatal(err)
			}
			b.Add(id, r.x[name])
		}
		b.EndRow()
		b.Y, b.Weight, b.Time, b.Trials = append(b.Y, r.y), append(b.Weight, r.w), append(b.Time, r.t), append(b.Trials, r.tr)
	}
	return &b
}

func feed(t testing.TB, s *stream.State, rows []row) {
	t.Helper()
	if err := s.Update(context.Background(), batch(t, s, rows), false); err != nil {
		t.Fatal(err)
	}
}

func fit(t testing.TB, s *stream.State) *kernels.Fit {
	t.Helper()
	f, err := s.Fit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func names(m map[string]float64) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.SortFunc(out, kernels.CompareNames)
	return out
}

func near(t testing.TB, what string, got, want, tol float64) {
	t.Helper()
	kerneltest.Close(t, what, got, want, kerneltest.Tol{Rel: tol, Abs: tol})
}

// covOf is the covariance of a fit, dense.
func covOf(t testing.TB, f *kernels.Fit) *dense.Matrix {
	t.Helper()
	p := len(f.Beliefs)
	out := dense.New(p, p)
	c := &f.Covariance
	switch c.Form {
	case gauss.Full:
		l := dense.New(p, p)
		for i := range p {
			copy(l.Row(i), c.Row(i))
		}
		dense.MulTB(out, l, l)
	case gauss.LowRank:
		for i := range p {
			for j := range p {
				out.Row(i)[j] = -dense.Dot(c.Row(i)[1:], c.Row(j)[1:])
			}
			out.Row(i)[i] += c.Row(i)[0]
		}
	default:
		for i, b := range f.Beliefs {
			out.Row(i)[i] = b.Variance
		}
	}
	return out
}

// reference is the one update of the method table: prior N((.5,-.25), diag(4,1)),
// x = (1, 2), y = 1, logit; s ~ N(0, 8).
func reference(t testing.TB, r Rule, o kernels.Options) *kernels.Fit {
	t.Helper()
	s := state(t, &kernels.Model{NoIntercept: true, Lik: like(t, "bernoulli", "logit"), Prior: kernels.DefaultPrior, Options: o, Priors: []kernels.Belief{
		{Feature: "a", Weight: kernels.Weight{Mean: 0.5, Variance: 4}}, {Feature: "b", Weight: kernels.Weight{Mean: -0.25, Variance: 1}}}}, r)
	feed(t, s, []row{{x: map[string]float64{"a": 1, "b": 2}, y: 1, w: 1}})
	return fit(t, s)
}

// The printed digits of the reference update.
func TestReference(t *testing.T) {
	for _, c := range []struct {
		name string
		rule Rule
		o    kernels.Options
		want [5]float64 // mean, P11, P12, P22
		logZ float64
	}{
		{"sequential_laplace", Laplace{}, kernels.Options{}, [5]float64{1.166667, .083333, 2.666667, -.666667, .666667}, -.693147},
		{"ekf", EKF{}, kernels.Options{}, [5]float64{1.166667, .083333, 2.666667, -.666667, .666667}, math.NaN()},
		{"laplace mode", EKF{}, kernels.Options{MaxIter: 50}, [5]float64{1.240774, .120387, 2.906135, -.546932, .726534}, math.NaN()},
		{"variational", Variational{}, kernels.Options{MaxIter: 500, Tol: 1e-13}, [5]float64{1.349151, .174576, 2.849151, -.575424, .712288}, -.803237},
		{"exact moments", ADF{}, kernels.Options{}, [5]float64{1.460049, .230024, 3.078307, -.460847, .769577}, -.693147},
	} {
		for _, cov := range []string{"full", "lowrank"} {
			c.o.Covariance = cov
			f := reference(t, c.rule, c.o)
			s := covOf(t, f)
			got := [5]float64{f.Beliefs[0].Mean, f.Beliefs[1].Mean, s.At(0, 0), s.At(0, 1), s.At(1, 1)}
			for i := range got {
				if math.Abs(got[i]-c.want[i]) > 0.5000001e-6 { // six printed decimals
					t.Errorf("%s, %s: %d is %.9f, want %.6f", c.name, cov, i, got[i], c.want[i])
				}
			}
			if c.logZ == c.logZ && math.Abs(f.LogEvidence-c.logZ) > 0.5000001e-6 {
				t.Errorf("%s: log evidence %.9f, want %.6f", c.name, f.LogEvidence, c.logZ)
			}
		}
	}
}

// N1: the EKF with R = g(1-g) is the filter of Spiegelhalter and Lauritzen.
func TestEKFIsLaplace(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		m := &kernels.Model{Lik: like(t, "bernoulli", "logit"), Prior: kernels.Prior{Variance: 9, InterceptVariance: 10}}
		rows := random(rnd, 60, "bernoulli")
		a, b := state(t, m, Laplace{}), state(t, m, EKF{})
		feed(t, a, rows)
		feed(t, b, rows)
		fa, fb := fit(t, a), fit(t, b)
		for i := range fa.Beliefs {
			near(t, "mean", fb.Beliefs[i].Mean, fa.Beliefs[i].Mean, 1e-12)
		}
		for i, v := range fa.Covariance.Values {
			near(t, "factor", fb.Covariance.Values[i], v, 1e-12)
		}
	})
}

// random makes rows over six features with responses that fit the family.
func random(r *rand.Rand, n int, family string) []row {
	rows := make([]row, n)
	tm := 0.0
	for i := range rows {
		x := map[string]float64{}
		eta := 0.0
		for range 1 + r.IntN(4) {
			k := r.IntN(6)
			v := r.NormFloat64()
			x[fmt.Sprintf("f%d", k)] = v
			eta += v * float64(k-3) * 0.3
		}
		tm += r.ExpFloat64()
		rows[i] = row{x: x, w: 1, t: tm}
		switch family {
		case "bernoulli":
			if r.Float64() < 1/(1+math.Exp(-eta)) {
				rows[i].y = 1
			}
		case "binomial":
			rows[i].tr = float64(1 + r.IntN(5))
			for range int(rows[i].tr) {
				if r.Float64() < 1/(1+math.Exp(-eta)) {
					rows[i].y++
				}
			}
		case "poisson", "negbinomial":
			rows[i].y = math.Floor(math.Exp(eta) * (0.5 + r.Float64()))
		case "gamma":
			rows[i].y = math.Exp(eta) * (0.2 + r.ExpFloat64())
		default:
			rows[i].y = eta + r.NormFloat64()
		}
	}
	return rows
}

// brute is the filter in dense algebra, written down as in the books: Σ in full,
// drift by inverting it.
type brute struct {
	names      []string
	mean       map[string]float64
	cov        map[[2]string]float64
	begun      bool
	clock      float64
	born       map[string]bool
	prior      func(string) kernels.Weight
	up         stream.Update
	noise      float64
	forgetting float64
	logZ       float64
	intercept  bool
}

func newBrute(t testing.TB, m *kernels.Model, r Rule) *brute {
	t.Helper()
	up, err := r.Bind(m)
	if err != nil {
		t.Fatal(err)
	}
	b := &brute{mean: map[string]float64{}, cov: map[[2]string]float64{}, born: map[string]bool{}, up: up, noise: m.Noise, forgetting: m.Forgetting, intercept: !m.NoIntercept,
		prior: func(n string) kernels.Weight { return m.Prior.Of([]byte(n)) }}
	if !m.NoIntercept {
		b.add(kernels.Intercept)
	}
	return b
}

func (b *brute) add(n string) {
	if _, ok := b.mean[n]; ok {
		return
	}
	w := b.prior(n)
	b.names = append(b.names, n)
	b.mean[n] = w.Mean
	b.cov[[2]string{n, n}] = w.Variance
}

func (b *brute) dense() (*dense.Matrix, []float64) {
	p := len(b.names)
	s, m := dense.New(p, p), make([]float64, p)
	for i, a := range b.names {
		m[i] = b.mean[a]
		for j, c := range b.names {
			s.Row(i)[j] = b.cov[[2]string{a, c}]
		}
	}
	return s, m
}

func inverse(t testing.TB, s *dense.Matrix) *dense.Matrix {
	t.Helper()
	l := s.Clone()
	if err := dense.Cholesky(l); err != nil {
		t.Fatal(err)
	}
	inv := dense.New(s.Rows, s.Rows)
	dense.InverseFromCholesky(inv, l)
	return inv
}

func (b *brute) row(t testing.TB, r row, tm float64) {
	x := map[string]float64{}
	for k, v := range r.x {
		x[k] = v
	}
	if b.intercept {
		x[kernels.Intercept] = 1
		b.born[kernels.Intercept] = true
	}
	if dt := tm - b.clock; b.begun && dt > 0 {
		if b.forgetting > 0 {
			s, m := b.dense()
			prec := inverse(t, s)
			l := math.Pow(b.forgetting, dt)
			nu := make([]float64, len(m))
			dense.Gemv(nu, prec, m)
			for i, n := range b.names {
				w := b.prior(n)
				for j := range b.names {
					prec.Row(i)[j] *= l
				}
				prec.Row(i)[i] += (1 - l) / w.Variance
				nu[i] = l*nu[i] + (1-l)*w.Mean/w.Variance
			}
			s = inverse(t, prec)
			dense.Gemv(m, s, nu)
			for i, a := range b.names {
				b.mean[a] = m[i]
				for j, c := range b.names {
					b.cov[[2]string{a, c}] = s.At(i, j)
				}
			}
		} else {
			for _, n := range b.names {
				if b.born[n] {
					b.cov[[2]string{n, n}] += b.noise * dt
				}
			}
		}
	}
	b.begun, b.clock = true, tm
	m, v := 0.0, 0.0
	for _, n := range names(x) {
		b.add(n)
		b.born[n] = true
		m += x[n] * b.mean[n]
	}
	c := map[string]float64{}
	for _, n := range b.names {
		for k, xv := range x {
			c[n] += b.cov[[2]string{n, k}] * xv
		}
	}
	for k, xv := range x {
		v += xv * c[k]
	}
	tl, _ := b.up.Tilt(lik.Obs{Y: r.y, Weight: r.w, Trials: r.tr}, m, v)
	b.logZ += tl.LogZ
	for _, a := range b.names {
		b.mean[a] += c[a] * tl.Alpha
		for _, d := range b.names {
			b.cov[[2]string{a, d}] -= c[a] * c[d] * tl.Beta
		}
	}
}

func (b *brute) check(t testing.TB, what string, f *kernels.Fit, tol float64) {
	t.Helper()
	s := covOf(t, f)
	if len(f.Beliefs) != len(b.names) {
		t.Fatalf("%s: %d beliefs, want %d", what, len(f.Beliefs), len(b.names))
	}
	for i, x := range f.Beliefs {
		near(t, what+": mean of "+x.Feature, x.Mean, b.mean[x.Feature], tol)
		near(t, what+": variance of "+x.Feature, x.Variance, b.cov[[2]string{x.Feature, x.Feature}], tol)
		for j, y := range f.Beliefs {
			near(t, what+": covariance "+x.Feature+" "+y.Feature, s.At(i, j), b.cov[[2]string{x.Feature, y.Feature}], tol)
		}
	}
	near(t, what+": log evidence", f.LogEvidence, b.logZ, tol)
}

// Every rule, family, drift and way to keep the covariance against dense algebra:
// rank 50 holds all that 7 weights can have, so low rank is exact too.
func TestAgainstBruteForce(t *testing.T) {
	type job struct {
		rule         Rule
		family, link string
		o            kernels.Options
	}
	jobs := []job{
		{ADF{}, "bernoulli", "probit", kernels.Options{}}, {ADF{}, "poisson", "log", kernels.Options{}}, {ADF{}, "gaussian", "identity", kernels.Options{}},
		{Laplace{}, "bernoulli", "cloglog", kernels.Options{}}, {Laplace{}, "poisson", "log", kernels.Options{}},
		{Variational{}, "bernoulli", "logit", kernels.Options{}}, {Variational{}, "binomial", "logit", kernels.Options{}},
		{EKF{}, "bernoulli", "probit", kernels.Options{}}, {EKF{}, "bernoulli", "logit", kernels.Options{AutoMeasurementNoise: true}},
		{EKF{}, "negbinomial", "log", kernels.Options{MeasurementNoise: 0.3}}, {EKF{SecondOrder: true}, "bernoulli", "logit", kernels.Options{}},
		{EKF{}, "binomial", "logit", kernels.Options{MaxIter: 20}},
		{ADF{}, "studentt", "identity", kernels.Options{}}, // rows that raise the variance
	}
	for _, j := range jobs {
		for _, cov := range []string{"full", "lowrank"} {
			if cov == "lowrank" && j.family == "studentt" {
				continue // it cannot raise the variance
			}
			for _, drift := range []string{"", "noise", "forgetting"} {
				for _, timed := range []bool{false, true} {
					what := fmt.Sprintf("%s %s %s %s %s timed=%v", j.rule.Name(), j.family, j.link, cov, drift, timed)
					j.o.Covariance = cov
					m := &kernels.Model{Lik: like(t, j.family, j.link), Prior: kernels.Prior{Mean: 0.1, Variance: 2, InterceptVariance: 3}, HasTime: timed, Options: j.o}
					switch drift {
					case "noise":
						m.Noise = 0.02
					case "forgetting":
						m.Forgetting = 0.95
					}
					rows := random(rand.New(rand.NewPCG(3, 4)), 120, j.family)
					s := state(t, m, j.rule)
					b := newBrute(t, m, j.rule)
					for i, r := range rows {
						tm := float64(i)
						if timed {
							tm = r.t
						}
						b.row(t, r, tm)
						if i%17 == 0 { // in pieces: features come and the columns move
							feed(t, s, rows[i:min(i+17, len(rows))])
						}
					}
					// 120 updates of well-conditioned 7 x 7 matrices; the square roots, the
					// cuts and the inversions each lose a few digits. The iterated EKF stops
					// at 1e-8 of a deviation, squared by the last step.
					b.check(t, what, fit(t, s), 1e-9)
				}
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		m    kernels.Model
		r    Rule
		want string
	}{
		{kernels.Model{NoIntercept: true, Lik: like(t, "poisson", "")}, Variational{}, `family = "poisson", link = "log": allowed for variational: bernoulli or binomial with link logit`},
		{kernels.Model{NoIntercept: true, Lik: like(t, "", "probit")}, Variational{}, `link = "probit"`},
		{kernels.Model{NoIntercept: true, Lik: like(t, "", ""), Options: kernels.Options{Covariance: "diagonal"}}, EKF{}, "allowed for ekf here: full, lowrank"},
		{kernels.Model{NoIntercept: true, Lik: like(t, "", ""), Options: kernels.Options{MeasurementNoise: -1}}, EKF{}, "measurement_noise: found -1"},
		{kernels.Model{NoIntercept: true, Lik: like(t, "", ""), Options: kernels.Options{NoiseFloor: -1}}, EKF{}, "noise_floor: found -1"},
		{kernels.Model{NoIntercept: true, Lik: like(t, "", ""), Options: kernels.Options{MaxIter: 3}}, EKF{SecondOrder: true}, "max_iter = 3"},
		{kernels.Model{NoIntercept: true, Lik: like(t, "", ""), Options: kernels.Options{AutoNoise: true}, Forgetting: 0.9}, ADF{}, "two models of drift"},
		{kernels.Model{NoIntercept: true, Lik: like(t, "", ""), Noise: 0.1, Forgetting: 0.9}, ADF{}, "two models of drift"},
	} {
		_, err := New(&c.m, c.r)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	s := state(t, &kernels.Model{NoIntercept: true, Lik: like(t, "", ""), Prior: kernels.DefaultPrior}, ADF{})
	for i := range MaxFull + 1 {
		s.Features().AddInt(i + 1)
	}
	var b kernels.Batch
	b.Reset()
	err := s.Update(context.Background(), &b, true)
	if err == nil || !strings.Contains(err.Error(), "covariance = 'full': found 20001 weights") || !strings.Contains(err.Error(), "'lowrank'") {
		t.Error(err)
	}
	s = state(t, &kernels.Model{NoIntercept: true, Lik: like(t, "", ""), Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: "lowrank", Rank: 9000}}, ADF{})
	for i := range MaxFull + 3000 {
		s.Features().AddInt(i + 1)
	}
	err = s.Update(context.Background(), &b, true)
	if err == nil || !strings.Contains(err.Error(), "covariance = 'lowrank': found 23000 weights of rank 9000") {
		t.Error(err)
	}
}

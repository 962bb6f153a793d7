package filter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
	"github.com/bglm/bglm/kernels/stream"
)

func same(t testing.TB, what string, a, b *kernels.Fit, tol float64) {
	t.Helper()
	if len(a.Beliefs) != len(b.Beliefs) || a.N != b.N || a.Skipped != b.Skipped {
		t.Fatalf("%s: %d beliefs of %d rows (%d skipped), want %d of %d (%d)", what, len(a.Beliefs), a.N, a.Skipped, len(b.Beliefs), b.N, b.Skipped)
	}
	x, y := covOf(t, a), covOf(t, b)
	for i := range a.Beliefs {
		near(t, what+": mean of "+a.Beliefs[i].Feature, a.Beliefs[i].Mean, b.Beliefs[i].Mean, tol)
		near(t, what+": variance", a.Beliefs[i].Variance, b.Beliefs[i].Variance, tol)
		for j := range i {
			near(t, what+": covariance", x.At(i, j), y.At(i, j), tol)
		}
	}
	near(t, what+": log evidence", a.LogEvidence, b.LogEvidence, tol)
}

// A run continued from its fit equals the uninterrupted one: bit for bit without
// drift and with a full covariance, to rounding else. Features that come later lie
// between those of the start.
func TestWarmStart(t *testing.T) {
	for _, r := range []Rule{ADF{}, Laplace{}, EKF{}, Variational{}} {
		for _, cov := range []string{"full", "lowrank"} {
			for _, noise := range []float64{0, 0.01, -1} { // -1: forgetting
				for _, timed := range []bool{false, true} {
					what := fmt.Sprintf("%s %s noise=%v timed=%v", r.Name(), cov, noise, timed)
					rows := random(rand.New(rand.NewPCG(7, 8)), 160, "bernoulli")
					rows[100].x["a new one"], rows[120].x["f2b"] = 1, 2
					m := kernels.Model{Lik: like(t, "", "logit"), Prior: kernels.DefaultPrior, Noise: max(noise, 0), HasTime: timed,
						Options: kernels.Options{Covariance: cov},
						Priors:  []kernels.Belief{{Feature: "f1", Weight: kernels.Weight{Mean: 0.4, Variance: 0.3}}, {Feature: "k", Weight: kernels.Weight{Mean: 1}}}}
					if noise < 0 {
						m.Forgetting = 0.98
					}
					rows[3].x["k"] = 0.5
					whole, first := state(t, &m, r), state(t, &m, r)
					feed(t, whole, rows)
					feed(t, first, rows[:90])
					next := m
					next.Start = fit(t, first)
					second := state(t, &next, r)
					feed(t, second, rows[90:])
					a, b := fit(t, second), fit(t, whole)
					same(t, what, a, b, 1e-11) // low rank and drift go through factors of Σ
					if noise == 0 && cov == "full" {
						for i := range a.Beliefs {
							if a.Beliefs[i] != b.Beliefs[i] {
								t.Errorf("%s: %v, want %v bit for bit", what, a.Beliefs[i], b.Beliefs[i])
							}
						}
						for i, v := range a.Covariance.Values {
							if v != b.Covariance.Values[i] {
								t.Fatalf("%s: factor %v, want %v bit for bit", what, v, b.Covariance.Values[i])
							}
						}
					}
				}
			}
		}
	}
}

// A start of one form carries on in another.
func TestStartForms(t *testing.T) {
	rows := random(rand.New(rand.NewPCG(9, 8)), 100, "poisson")
	m := kernels.Model{Lik: like(t, "poisson", ""), Prior: kernels.DefaultPrior}
	var fits []*kernels.Fit
	for _, from := range []string{"full", "lowrank"} {
		a := m
		a.Options.Covariance = from
		s := state(t, &a, ADF{})
		feed(t, s, rows[:50])
		for _, to := range []string{"full", "lowrank"} {
			b := m
			b.Options.Covariance, b.Start = to, fit(t, s)
			s2 := state(t, &b, ADF{})
			feed(t, s2, rows[50:])
			fits = append(fits, fit(t, s2))
		}
	}
	for _, f := range fits[1:] {
		same(t, "start", f, fits[0], 1e-10)
	}
}

// Merging counts the prior once: for a Gaussian likelihood the product of parts is
// the single pass, evidence included, also over features that only one part saw, and
// from a start with a covariance.
func TestMergeExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		cov := rapid.SampledFrom([]string{"full", "lowrank"}).Draw(rt, "covariance")
		rows := random(rnd, 60, "gaussian")
		rows[50].x["late"] = 1
		m := &kernels.Model{Lik: like(t, "gaussian", ""), Prior: kernels.Prior{Mean: -0.3, Variance: 1.7, InterceptVariance: 2}, Options: kernels.Options{Covariance: cov}}
		if rapid.Bool().Draw(rt, "start") {
			s := state(t, m, ADF{})
			feed(t, s, random(rnd, 20, "gaussian"))
			n := *m
			n.Start = fit(t, s)
			m = &n
		}
		whole := state(t, m, ADF{})
		feed(t, whole, rows)
		parts := []*stream.State{state(t, m, ADF{}), state(t, m, ADF{}), state(t, m, ADF{}), state(t, m, ADF{})}
		for _, r := range rows {
			feed(t, parts[1+rnd.IntN(3)], []row{r}) // the first one stays empty
		}
		before := fit(t, parts[2])
		for _, p := range parts[1:] {
			if err := parts[0].Merge(context.Background(), p); err != nil {
				rt.Fatal(err)
			}
		}
		// inversions of matrices of condition about 100
		same(t, cov, fit(t, parts[0]), fit(t, whole), 1e-10)
		same(t, "source", fit(t, parts[2]), before, 0)
	})
}

// With drift merging is an approximation, but a proper one that does not depend on
// the order of the two; where the parts share no weight it is exact but for the
// common clock.
func TestMergeLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
		m := &kernels.Model{Lik: like(t, "", "logit"), Prior: kernels.DefaultPrior, HasTime: true,
			Options: kernels.Options{Covariance: rapid.SampledFrom([]string{"full", "lowrank"}).Draw(rt, "covariance")}}
		switch rapid.SampledFrom([]string{"noise", "by", "forget", "auto", "none"}).Draw(rt, "drift") {
		case "noise":
			m.Noise = 0.02
		case "by":
			m.NoiseBy = map[string]float64{"f1": 0.1, "f3": 0.01}
		case "forget":
			m.Forgetting = 0.97
		case "auto":
			m.Options.AutoNoise = true
		}
		rows := random(rnd, 60, "bernoulli")
		part := func(k int) *stream.State {
			s := state(t, m, ADF{})
			feed(t, s, rows[k*30:k*30+30])
			return s
		}
		merge := func(a, b *stream.State) *kernels.Fit {
			c := a.Clone()
			if err := c.Merge(context.Background(), b); err != nil {
				rt.Fatal(err)
			}
			return fit(t, c)
		}
		a, b := part(0), part(1)
		same(t, "swapped", merge(a, b), merge(b, a), 1e-8) // products of inverses
	})
}

// Parts over features of their own, drift by rows with time: one pass.
func TestMergeApart(t *testing.T) {
	for _, drift := range []string{"noise", "forget"} {
		m := &kernels.Model{NoIntercept: true, Lik: like(t, "", "probit"), Prior: kernels.DefaultPrior, HasTime: true}
		if drift == "noise" {
			m.Noise = 0.05
		} else {
			m.Forgetting = 0.9
		}
		a, b, whole := state(t, m, ADF{}), state(t, m, ADF{}), state(t, m, ADF{})
		for i := range 40 {
			r := row{x: map[string]float64{fmt.Sprintf("%c%d", 'a'+i%2, i%3): 1, fmt.Sprintf("%c", 'x'+i%2): 0.5}, y: float64(i / 3 % 2), w: 1, t: float64(i)}
			feed(t, whole, []row{r})
			feed(t, []*stream.State{a, b}[i%2], []row{r})
		}
		if err := a.Merge(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		same(t, drift, fit(t, a), fit(t, whole), 1e-10)
	}
}

// Known weights never move, an all-zero row only counts, weight 0 too, and weight 2
// is the row twice for a Gaussian.
func TestEdges(t *testing.T) {
	g := like(t, "gaussian", "")
	for _, cov := range []string{"full", "lowrank"} {
		o := kernels.Options{Covariance: cov}
		m := &kernels.Model{NoIntercept: true, Lik: g, Prior: kernels.DefaultPrior, Noise: 0.1, HasTime: true, Options: o,
			Start: &kernels.Fit{Time: math.NaN(), Beliefs: []kernels.Belief{{Feature: "k", Weight: kernels.Weight{Mean: 2}}}}}
		s := state(t, m, ADF{})
		feed(t, s, []row{{x: map[string]float64{"k": 1}, y: 5, w: 1}, {x: map[string]float64{"k": 1, "a": 1}, y: 5, w: 1, t: 4}, {x: map[string]float64{"a": 0}, y: 1, w: 1, t: 4}})
		f := fit(t, s)
		if w := f.Beliefs[1]; w.Feature != "k" || w.Mean != 2 || w.Variance != 0 {
			t.Errorf("known weight became %v", w)
		}
		near(t, "a", f.Beliefs[0].Mean, 3/1.8, 1e-15) // (5-2)/(1 + 0.8)
		if f.N != 3 {
			t.Errorf("n = %d", f.N)
		}
		plain := &kernels.Model{NoIntercept: true, Lik: g, Prior: kernels.DefaultPrior, Options: o}
		once, twice := state(t, plain, ADF{}), state(t, plain, ADF{})
		x := map[string]float64{"a": 0.7, "b": -1}
		feed(t, once, []row{{x: x, y: 1.3, w: 2}, {x: x, y: 9, w: 0}})
		feed(t, twice, []row{{x: x, y: 1.3, w: 1}, {x: x, y: 1.3, w: 1}, {x: nil, y: 0, w: 0}})
		a, b := fit(t, once), fit(t, twice)
		b.N = a.N
		same(t, "weight 2", a, b, 1e-14)
		if f := fit(t, state(t, plain, ADF{})); len(f.Beliefs) != 0 || f.N != 0 || f.Status != "ok" {
			t.Errorf("no rows: %+v", f)
		}
	}
}

// Linear at the next time is what Update then meets.
func TestLinear(t *testing.T) {
	for _, cov := range []string{"full", "lowrank"} {
		for _, drift := range []string{"", "noise", "forget"} {
			m := &kernels.Model{Lik: like(t, "gaussian", ""), Prior: kernels.DefaultPrior, HasTime: true, Options: kernels.Options{Covariance: cov}}
			switch drift {
			case "noise":
				m.Noise = 0.1
			case "forget":
				m.Forgetting = 0.9
			}
			rows := random(rand.New(rand.NewPCG(1, 1)), 50, "gaussian")
			s := state(t, m, ADF{})
			feed(t, s, rows[:40])
			for _, r := range rows[40:] {
				b := batch(t, s, []row{r})
				var mean, v [1]float64
				if err := s.Linear(b, mean[:], v[:]); err != nil {
					t.Fatal(err)
				}
				want := m.Lik.Moments(lik.Obs{Y: r.y, Weight: 1}, mean[0], v[0]).LogZ
				before := s.Summary().LogEvidence
				feed(t, s, []row{r})
				near(t, cov+" "+drift, s.Summary().LogEvidence-before, want, 1e-10)
			}
		}
	}
}

// N2: the curvature weights g(1-g) and 2λ(ξ) lie in (0, 1/4]; g(1-g) at ±800 is e^-800,
// which no double holds, but its logarithm is right.
func TestCurvatureWeights(t *testing.T) {
	l := like(t, "bernoulli", "logit")
	check := func(s float64) {
		_, d1, d2 := l.LogLik(lik.Obs{Y: 1, Weight: 1}, s)
		_, d0, _ := l.LogLik(lik.Obs{Y: 0, Weight: 1}, s)
		const quarter = 0.25 * (1 + 4.5e-16) // the two factors are rounded apart
		if !(-d2 >= 0 && -d2 <= quarter) || !(-d1*d0 >= 0 && -d1*d0 <= quarter) || math.Abs(s) < 700 && !(-d2 > 0) {
			t.Fatalf("g(1-g) = %g, %g at %g", -d2, -d1*d0, s)
		}
		if w := 2 * lambda(math.Abs(s)); !(w > 0 && w <= 0.25) {
			t.Fatalf("2λ(%g) = %g", s, w)
		}
	}
	for _, s := range []float64{0, 800, -800, 1e-300, 1e-4, 0.99999e-4, 5e-5} {
		check(s)
	}
	if lambda(0) != 0.125 {
		t.Error("λ(0)")
	}
	up, _, _ := l.LogLik(lik.Obs{Y: 1, Weight: 1}, -800)
	dn, _, _ := l.LogLik(lik.Obs{Y: 0, Weight: 1}, -800)
	near(t, "log g(1-g)", up+dn, -800, 1e-15)
	near(t, "λ at the seam", lambda(0.99999e-4), lambda(1.00001e-4), 1e-12)
	rapid.Check(t, func(rt *rapid.T) { check(rapid.Float64Range(-900, 900).Draw(rt, "s")) })
}

// N3: the iterated EKF ends at the mode of the row, θ = θ0 + (y - g(θ)) P0 x, and its
// bound family too: for every family with R its own, s = m + v l'(s).
func TestIteratedEKF(t *testing.T) {
	for _, c := range []struct{ family, link string }{{"bernoulli", "logit"}, {"bernoulli", "probit"}, {"bernoulli", "cloglog"}, {"binomial", "logit"}, {"poisson", "log"}, {"negbinomial", "log"}, {"gamma", "log"}, {"gaussian", "identity"}} {
		l := like(t, c.family, c.link)
		up, err := EKF{}.Bind(&kernels.Model{NoIntercept: true, Lik: l, Options: kernels.Options{MaxIter: 200, Tol: 1e-15}})
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(rt *rapid.T) {
			rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
			r := random(rnd, 1, c.family)[0]
			o := lik.Obs{Y: r.y, Weight: 1, Trials: r.tr}
			m, v := rapid.Float64Range(-8, 8).Draw(rt, "m"), math.Exp(rapid.Float64Range(-8, 4).Draw(rt, "log v"))
			tl, _ := up.Tilt(o, m, v)
			_, d1, _ := l.LogLik(o, m+v*tl.Alpha)
			// Both sides carry the rounding of s times the curvature of l.
			tol := 1e-12 * (1 + math.Abs(tl.Alpha)*v) * (1 + 1/tl.Ratio)
			if math.Abs(v*tl.Alpha-v*d1) > tol {
				rt.Fatalf("%s y = %v, N(%g, %g): moved %.17g, v l' = %.17g", c.link, o.Y, m, v, v*tl.Alpha, v*d1)
			}
		})
	}
	up, _ := EKF{}.Bind(&kernels.Model{NoIntercept: true, Lik: like(t, "", ""), Options: kernels.Options{MaxIter: 50}})
	tl, _ := up.Tilt(lik.Obs{Y: 1, Weight: 1}, 0, 8)
	if s := 8 * tl.Alpha; math.Abs(s-8/(1+math.Exp(s))) > 1e-12 {
		t.Errorf("residual %g", s-8/(1+math.Exp(s)))
	}
	// Far out, where Newton's own steps would jump back and forth.
	tl, _ = up.Tilt(lik.Obs{Y: 1, Weight: 1}, -30, 100)
	if s := -30 + 100*tl.Alpha; math.Abs(s+30-100/(1+math.Exp(s))) > 1e-9 {
		t.Errorf("s = %g", s)
	}
}

// The EKF's own variances against Var(y | s), its slopes against differences, and the
// second order against quadrature of the response: a Gaussian of these two moments.
func TestTangents(t *testing.T) {
	for _, c := range []struct{ family, link string }{{"bernoulli", "logit"}, {"bernoulli", "probit"}, {"bernoulli", "cloglog"}, {"binomial", "probit"}, {"poisson", "log"}, {"negbinomial", "log"}, {"gamma", "log"}, {"gaussian", "identity"}, {"gaussian", "log"}, {"studentt", "identity"}} {
		l := like(t, c.family, c.link)
		for _, w := range []float64{1, 2.5} {
			k := &ekf{Likelihood: l, traits: l.Traits()}
			fixed := &ekf{Likelihood: l, traits: l.Traits(), r: 0.7}
			for _, s := range []float64{-2, -0.3, 0, 1.1} {
				o := lik.Obs{Y: 1, Weight: w}
				if c.family == "binomial" {
					o.Y, o.Trials = 2, 3
				}
				const h = 1e-4
				g := l.Response(s)
				slope := (l.Response(s+h) - l.Response(s-h)) / (2 * h)
				bend := (l.Response(s+h) - 2*g + l.Response(s-h)) / (h * h)
				_, r := l.Predict(s, 0)
				e := o.Y - g
				if o.Trials > 0 {
					r /= o.Trials
					e = o.Y/o.Trials - g
				}
				what := fmt.Sprintf("%s %s w=%g at %g", c.family, c.link, w, s)
				for _, want := range []struct {
					k *ekf
					r float64
				}{{k, r / w}, {fixed, 0.7 / w}} {
					a := want.k.at(o, s, 1)
					near(t, what+" score", a.score, slope*e/want.r, 1e-6) // differences of step 1e-4
					near(t, what+" information", a.h, slope*slope/want.r, 1e-6)
					near(t, what+" R", math.Exp(a.logR), want.r, 1e-6)
					near(t, what+" e²/R", a.sq, e*e/want.r, 1e-6)
					near(t, what+" bend", a.bend*slope, bend, 1e-6)
				}
			}
		}
	}
}

// The second-order filter in the textbook's terms.
func TestSecondOrder(t *testing.T) {
	l := like(t, "", "logit")
	up, err := EKF{SecondOrder: true}.Bind(&kernels.Model{NoIntercept: true, Lik: l})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []float64{-3, 0.2, 2} {
		for _, v := range []float64{0.1, 4, 50} {
			tl, _ := up.Tilt(lik.Obs{Y: 1, Weight: 1}, m, v)
			g := l.Response(m)
			d, b, r := g*(1-g), g*(1-g)*(1-2*g), g*(1-g)
			s := r + d*d*v + 0.5*b*b*v*v
			e := 1 - g - 0.5*b*v
			near(t, "alpha", tl.Alpha, d*e/s, 1e-12)
			near(t, "beta", tl.Beta, d*d/s, 1e-12)
			near(t, "ratio", tl.Ratio, 1-v*d*d/s, 1e-12)
			near(t, "log density", tl.LogZ, -0.5*(math.Log(2*math.Pi*s)+e*e/s), 1e-12)
		}
	}
}

// J-J is a lower bound of log Z, tight in ξ: no other ξ gives a higher one.
func TestVariationalBound(t *testing.T) {
	for _, c := range []struct {
		family string
		o      lik.Obs
	}{{"bernoulli", lik.Obs{Y: 1, Weight: 1}}, {"bernoulli", lik.Obs{Y: 0, Weight: 2.5}}, {"binomial", lik.Obs{Y: 3, Trials: 7, Weight: 1}}} {
		l := like(t, c.family, "logit")
		up, err := Variational{}.Bind(&kernels.Model{NoIntercept: true, Lik: l, Options: kernels.Options{MaxIter: 10000, Tol: 1e-14}})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []float64{-800, -5, 0, 2, 800} {
			for _, v := range []float64{1e-6, 0.3, 8, 400} {
				tl, _ := up.Tilt(c.o, m, v)
				exact := l.Moments(c.o, m, v).LogZ
				if !(tl.LogZ <= exact+1e-9*(1+math.Abs(exact))) {
					t.Errorf("%s N(%g, %g): bound %g above log Z %g", c.family, m, v, tl.LogZ, exact)
				}
				for _, n := range []int{1, 5} {
					few, _ := Variational{}.Bind(&kernels.Model{NoIntercept: true, Lik: l, Options: kernels.Options{MaxIter: n}})
					if got, _ := few.Tilt(c.o, m, v); got.LogZ > tl.LogZ+1e-9*(1+math.Abs(exact)) {
						t.Errorf("%s N(%g, %g): %d steps give %g, the fixed point %g", c.family, m, v, n, got.LogZ, tl.LogZ)
					}
				}
			}
		}
	}
}

// twice is a sum of products to twice the digits.
type twice struct{ s, low float64 }

func (t *twice) add(x, y float64) {
	p := x * y
	e := math.FMA(x, y, -p)
	s := t.s + p
	b := s - t.s
	t.low += (t.s - (s - b)) + (p - b) + e
	t.s = s
}

func (t *twice) sum() float64 { return t.s + t.low }

// A million updates on an ill-conditioned stream: nearly collinear features of scales
// 1 to 1e6, a prior of variance 1e8, noise 1e-4. The factor stays positive, and is that
// of a batch computation.
func TestMillionUpdates(t *testing.T) {
	const p = 6
	n := 1_000_000
	if testing.Short() {
		n = 50_000
	}
	for _, noise := range []float64{0, 1e-6} {
		l, _ := lik.New("gaussian", "", lik.Params{Dispersion: 1e-4})
		s := state(t, &kernels.Model{NoIntercept: true, Lik: l, Prior: kernels.Prior{Variance: 1e8}, Noise: noise}, ADF{})
		rnd := rand.New(rand.NewPCG(4, 4))
		var b kernels.Batch
		var gram [p][p]twice
		var xty [p]twice
		x := make([]float64, p)
		for i := 0; i < n; {
			b.Reset()
			for range 2000 {
				c := rnd.NormFloat64()
				y := 0.0
				for j := range p {
					id, _ := s.Features().AddInt(j + 1)
					x[j] = (c + 1e-3*rnd.NormFloat64()) * math.Pow(10, float64(j)*1.2)
					y += x[j] / math.Pow(10, float64(j)*1.2)
					b.Add(id, x[j])
				}
				y += 1e-2 * rnd.NormFloat64()
				b.EndRow()
				b.Y = append(b.Y, y)
				for j := range p {
					for k := range p {
						gram[j][k].add(x[j], x[k])
					}
					xty[j].add(x[j], y)
				}
				i++
			}
			if err := s.Update(context.Background(), &b, false); err != nil {
				t.Fatal(err)
			}
		}
		f := fit(t, s) // checks every belief; the packed factor has a positive diagonal:
		for j := range p {
			if r := f.Covariance.Row(j); !(r[j] > 0) {
				t.Fatalf("factor %v", r)
			}
		}
		if noise > 0 {
			t.Logf("noise %g: status %s", noise, f.Status)
			continue
		}
		// Precision 1e4 XᵀX + 1e-8 I, sums to twice the digits, scaled to a unit diagonal.
		prec := dense.New(p, p)
		scale := make([]float64, p)
		for j := range p {
			scale[j] = 1e2 * math.Sqrt(gram[j][j].sum()+1e-12)
		}
		for j := range p {
			for k := range p {
				prec.Row(j)[k] = 1e4 * gram[j][k].sum() / scale[j] / scale[k]
			}
			prec.Row(j)[j] = 1
		}
		sigma := inverse(t, prec)
		got := covOf(t, f)
		worst, worstMean := 0.0, 0.0
		for j := range p {
			want := 0.0
			for k := range p {
				want += sigma.At(j, k) / scale[j] * 1e4 * xty[k].sum() / scale[k]
				w := sigma.At(j, k) / scale[j] / scale[k]
				worst = max(worst, math.Abs(got.At(j, k)-w)/math.Sqrt(sigma.At(j, j)*sigma.At(k, k))*scale[j]*scale[k])
			}
			worstMean = max(worstMean, math.Abs(f.Beliefs[j].Mean-want)/math.Sqrt(sigma.At(j, j))*scale[j])
		}
		t.Logf("%d updates: covariance off by %.2g of the variances, mean by %.2g deviations", n, worst, worstMean)
		// n updates that each round by 1e-16, should all errors add up, make 1e-10; the scaled
		// precision of condition 1e7 costs the batch's mean as many of its 16 digits.
		if worst > 1e-8 || worstMean > 1e-5 {
			t.Errorf("%d updates: covariance off by %.2g of the variances, mean by %.2g deviations", n, worst, worstMean)
		}
	}
}

// Plain exponential discounting dies when some directions are seldom excited: arms
// drawn 90/5/5 with discount 0.98 wind up. Ours stays proper, and goes back to the prior.
func TestNoWindUp(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 10_000
	}
	for _, cov := range []string{"full", "lowrank"} {
		m := &kernels.Model{NoIntercept: true, Lik: like(t, "gaussian", ""), Prior: kernels.DefaultPrior, Forgetting: 0.98, Options: kernels.Options{Covariance: cov, Rank: 3}}
		s := state(t, m, ADF{})
		rnd := rand.New(rand.NewPCG(5, 5))
		var b kernels.Batch
		for i := 0; i < n; {
			b.Reset()
			for range 1000 {
				arm := 0
				if u := rnd.Float64(); u > 0.95 {
					arm = 2
				} else if u > 0.9 {
					arm = 1
				}
				for j := range 2 {
					id, _ := s.Features().AddInt(2*arm + j + 1)
					b.Add(id, rnd.NormFloat64())
				}
				b.EndRow()
				b.Y = append(b.Y, rnd.NormFloat64())
				i++
			}
			if err := s.Update(context.Background(), &b, false); err != nil {
				t.Fatal(err)
			}
			f := fit(t, s)
			for _, q := range f.Beliefs {
				if !(q.Variance > 0 && q.Variance <= 1+1e-9) {
					t.Fatalf("row %d: %v", i, q)
				}
			}
		}
	}
}

// Any batch leaves proper beliefs or an error, never a NaN or a panic.
func FuzzUpdate(f *testing.F) {
	f.Add(1.0, 1.0, 1.0, 1.0, 0.5, uint8(0), uint8(0))
	f.Add(1e300, -1e300, 3.0, 1e200, 1e-12, uint8(1), uint8(7))
	f.Add(0.0, 1e-300, 1e6, 0.0, 1e6, uint8(3), uint8(33))
	f.Add(40.0, -800.0, 1.0, 1.0, 1e4, uint8(0), uint8(20))
	models := []struct{ family, link string }{{"", "logit"}, {"", "probit"}, {"poisson", ""}, {"gaussian", ""}, {"studentt", ""}, {"gaussian", "log"}, {"gamma", ""}, {"negbinomial", ""}}
	rules := []Rule{ADF{}, Laplace{}, EKF{}, EKF{SecondOrder: true}, Variational{}}
	f.Fuzz(func(t *testing.T, x1, x2, y, w, v float64, model, how uint8) {
		if !(v >= 0 && v <= 1e12) {
			return
		}
		c := models[int(model)%len(models)]
		m := &kernels.Model{Lik: like(t, c.family, c.link), Prior: kernels.Prior{Variance: v, InterceptVariance: 1}}
		rule := rules[int(how)%len(rules)]
		how /= uint8(len(rules))
		switch how % 4 {
		case 1:
			m.Noise = 0.1
		case 2:
			m.Forgetting = 0.9
		case 3:
			m.Options.AutoNoise = true
		}
		how /= 4
		if how%2 == 1 {
			m.Options.Covariance, m.Options.Rank = "lowrank", 1
		}
		if how/2%3 == 1 {
			m.Options.AutoMeasurementNoise = true
		}
		s, err := New(m, rule)
		if err != nil {
			return
		}
		var b kernels.Batch
		b.Reset()
		for _, x := range []float64{x1, x2, 1, x2 - x1} {
			b.Add(0, 1)
			id, _ := s.Features().Add("a")
			b.Add(id, x)
			id, _ = s.Features().Add("b")
			b.Add(id, x1)
			b.EndRow()
			b.Y, b.Weight = append(b.Y, y), append(b.Weight, w)
		}
		if err := s.Update(context.Background(), &b, true); err != nil {
			t.Fatal(err)
		}
		fit, err := s.Fit(context.Background())
		if err != nil {
			t.Fatalf("x=%g,%g y=%g w=%g v=%g %s %v: %v", x1, x2, y, w, v, rule.Name(), m.Options, err)
		}
		if _, err := New(&kernels.Model{Lik: m.Lik, Prior: m.Prior, Start: fit}, ADF{}); err != nil && fit.Covariance.Form != gauss.Diagonal {
			t.Logf("not a start: %v", err)
		}
		s.Clone().Merge(context.Background(), s)
	})
}

// The bank of process noises over full covariances: it finds the rate of a walk to
// within the grid's decade, and its filter is the one of that rate.
func TestAutoNoise(t *testing.T) {
	kerneltest.Slow(t)
	for _, c := range []struct {
		q    float64
		rule Rule
		cov  string
	}{{1e-3, ADF{}, "full"}, {1e-2, EKF{}, "full"}, {1e-3, ADF{}, "lowrank"}, {0, Laplace{}, "full"}} {
		rnd := rand.New(rand.NewPCG(3, 9))
		n := 2500
		var w [4]float64
		rows := make([]row, n)
		for i := range rows {
			x := map[string]float64{}
			eta := 0.0
			for j := range w {
				w[j] += math.Sqrt(c.q) * rnd.NormFloat64()
				if i == 0 {
					w[j] = rnd.NormFloat64()
				}
				v := rnd.NormFloat64()
				x[string(rune('a'+j))] = v
				eta += v * w[j]
			}
			rows[i] = row{x: x, y: eta + rnd.NormFloat64()*0.9, w: 1}
		}
		m := kernels.Model{NoIntercept: true, Lik: like(t, "gaussian", ""), Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: c.cov, Rank: 4}}
		run := func(q float64, auto bool) *stream.State {
			k := m
			k.Noise, k.Options.AutoNoise = q, auto
			s := state(t, &k, c.rule)
			feed(t, s, rows)
			return s
		}
		auto := run(0, true)
		rates, _ := auto.Rates()
		q, score := rates[auto.Best()], auto.Summary().LogEvidence
		same(t, "alone", fit(t, run(q, false)), fit(t, auto), 0)
		if c.q == 0 {
			if q*float64(n) > 0.01 {
				t.Errorf("static: q = %g", q)
			}
			continue
		}
		none, much := run(0, false).Summary().LogEvidence, run(100*c.q, false).Summary().LogEvidence
		if q < c.q/10 || q > 10*c.q || score <= none || score <= much {
			t.Errorf("q = %g for %g, score %.1f, without %.1f, with 100 times too much %.1f", q, c.q, score, none, much)
		}
	}
}

// What is cut off goes to the diagonal: for a Gaussian likelihood, whose rows all add
// x xᵀ / D to the precision, its diagonal is exact at any rank.
func TestPrecisionDiagonal(t *testing.T) {
	rows := random(rand.New(rand.NewPCG(8, 8)), 200, "gaussian")
	want := map[string]float64{}
	for _, r := range rows {
		for n, v := range r.x {
			want[n] += v * v / 0.8
		}
	}
	for rank := 1; rank < 6; rank++ {
		s := state(t, &kernels.Model{NoIntercept: true, Lik: like(t, "gaussian", ""), Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: "lowrank", Rank: rank}}, ADF{})
		feed(t, s, rows)
		j := s.Beliefs().(*joint)
		l := j.bank[0].cov.(*lowRank)
		for k, id := range j.order {
			near(t, fmt.Sprintf("rank %d", rank), l.s[k]+dense.Dot(l.row(k), l.row(k)), 1+want[string(s.Features().Name(id))], 1e-12)
		}
		// The fit's covariance inverts to the same.
		inv := inverse(t, covOf(t, fit(t, s)))
		for k, id := range j.order {
			near(t, fmt.Sprintf("rank %d, fit", rank), inv.At(k, k), 1+want[string(s.Features().Name(id))], 1e-10)
		}
	}
}

// Between diagonal and full: what low rank keeps of correlated weights. The mean of the
// squared gaps to the full filter's means falls from rank to rank.
func TestRanks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 6))
	const p, n = 30, 400
	mixing := make([][]float64, p)
	for i := range mixing {
		mixing[i] = make([]float64, p)
		for k := range mixing[i] {
			mixing[i][k] = rnd.NormFloat64() * math.Pow(0.75, float64(k))
		}
	}
	rows := make([]row, n)
	for i := range rows {
		z := make([]float64, p)
		for k := range z {
			z[k] = rnd.NormFloat64()
		}
		x := map[string]float64{}
		eta := 0.0
		for j := range p {
			v := dense.Dot(mixing[j], z)
			x[fmt.Sprint(j+1)] = v
			eta += v * math.Sin(float64(j)) * 0.3
		}
		y := 0.0
		if rnd.Float64() < 1/(1+math.Exp(-eta)) {
			y = 1
		}
		rows[i] = row{x: x, y: y, w: 1}
	}
	gap := func(f, g *kernels.Fit) (s float64) {
		for j := range f.Beliefs {
			s += (f.Beliefs[j].Mean - g.Beliefs[j].Mean) * (f.Beliefs[j].Mean - g.Beliefs[j].Mean) / g.Beliefs[j].Variance / p
		}
		return s
	}
	run := func(cov string, rank int) *kernels.Fit {
		s := state(t, &kernels.Model{NoIntercept: true, Lik: like(t, "", ""), Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: cov, Rank: rank}}, ADF{})
		feed(t, s, rows)
		return fit(t, s)
	}
	full := run("full", 0)
	last := math.Inf(1)
	for _, rank := range []int{1, 3, 10, 20, 30} {
		f := run("lowrank", rank)
		g := gap(f, full)
		t.Logf("rank %d: mean squared gap %.3g variances; %s", rank, g, f.Status)
		if !(g < last) {
			t.Errorf("rank %d is no better than the one below", rank)
		}
		last = g
	}
	if last > 1e-18 {
		t.Errorf("rank p: gap %g", last)
	}
}

// Inferred and given R in the textbook's terms, on x = 1: R = max(floor, e² - g'²v),
// K = v g' / (R + g'²v), log evidence the innovation density.
func TestMeasurementNoise(t *testing.T) {
	l := like(t, "", "logit")
	for _, c := range []struct{ r, floor, y, m, v float64 }{
		{0, 0, 1, -2, 0.5}, {0, 0, 0, -2, 0.5}, {0, 0, 0, 0.3, 9}, {0, 0.2, 1, 1, 2}, {0.7, 0, 1, -1, 3}, {0.01, 0, 0, 4, 3},
	} {
		up, err := EKF{}.Bind(&kernels.Model{NoIntercept: true, Lik: l, Options: kernels.Options{MeasurementNoise: c.r, AutoMeasurementNoise: c.r == 0, NoiseFloor: c.floor}})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range []float64{1, 2} {
			tl, _ := up.Tilt(lik.Obs{Y: c.y, Weight: w}, c.m, c.v)
			g := 1 / (1 + math.Exp(-c.m))
			d, e := g*(1-g), c.y-g
			r := c.r / w
			if c.r == 0 {
				r = math.Max(kernels.Or(c.floor, 1e-3)/w, e*e-d*d*c.v)
			}
			s := r + d*d*c.v
			near(t, "alpha", tl.Alpha, d*e/s, 1e-12)
			near(t, "beta", tl.Beta, d*d/s, 1e-12)
			near(t, "ratio", tl.Ratio, r/s, 1e-12)
			near(t, "log density", tl.LogZ, -0.5*(math.Log(2*math.Pi*s)+e*e/s), 1e-12)
		}
	}
}

// A low-rank run that stops between two cuts and goes on from its fit is the
// uninterrupted one but for the rounding of Λ⁻¹ and back, drift or none.
func TestLowRankContinues(t *testing.T) {
	rows := random(rand.New(rand.NewPCG(3, 14)), 200, "bernoulli")
	for _, noise := range []float64{0, 0.01} {
		for _, stop := range []int{90, 91, 92, 93} {
			m := kernels.Model{Lik: like(t, "", "logit"), Prior: kernels.DefaultPrior, Noise: noise,
				Options: kernels.Options{Covariance: "lowrank", Rank: 2}}
			whole, first := state(t, &m, ADF{}), state(t, &m, ADF{})
			feed(t, whole, rows)
			feed(t, first, rows[:stop])
			next := m
			next.Start = fit(t, first)
			second := state(t, &next, ADF{})
			feed(t, second, rows[stop:])
			same(t, fmt.Sprintf("noise %v, stopped at %d", noise, stop), fit(t, second), fit(t, whole), 1e-9)
		}
	}
}

// The second-order filter meets known predictors as the others do.
func TestSecondOrderKnown(t *testing.T) {
	for _, f := range lik.Families() {
		for _, link := range f.Links {
			m := &kernels.Model{NoIntercept: true, Lik: like(t, f.Family, link), Prior: kernels.DefaultPrior,
				Priors: []kernels.Belief{{Feature: "k", Weight: kernels.Weight{Mean: 0.3}}}}
			s := state(t, m, EKF{SecondOrder: true})
			rows := []row{{x: map[string]float64{"a": 0.5}, y: 1, w: 1, tr: 1}, {y: 1, w: 2, tr: 1}, {x: map[string]float64{"a": 0, "k": 2}, y: 1, w: 1, tr: 1}}
			feed(t, s, rows[:1])
			before := fit(t, s)
			feed(t, s, rows[1:])
			after := fit(t, s)
			if after.N != 3 || after.Beliefs[0] != before.Beliefs[0] || after.LogEvidence == before.LogEvidence || !special.Finite(after.LogEvidence) {
				t.Errorf("%s %s: %+v after %+v", f.Family, link, after, before)
			}
		}
	}
}

// Memory follows the weights there are, not a rank beyond them; so does what a start may
// bring, one with more columns than a run would have before the next cut.
func TestRankBeyondWeights(t *testing.T) {
	rows := random(rand.New(rand.NewPCG(3, 15)), 100, "bernoulli")
	m := kernels.Model{NoIntercept: true, Lik: like(t, "", "logit"), Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: "lowrank", Rank: 10000}}
	s := state(t, &m, ADF{})
	feed(t, s, rows)
	if n := s.Size(); n > 1<<16 {
		t.Errorf("%d bytes for %d weights", n, s.Len())
	}
	f := fit(t, s)
	joint := m
	joint.Options.Covariance = "full"
	full := state(t, &joint, ADF{})
	feed(t, full, rows)
	for j, b := range fit(t, full).Beliefs {
		near(t, b.Feature, f.Beliefs[j].Mean, b.Mean, 1e-9)
	}
	wide := kernels.Covariance{Form: gauss.LowRank, Rank: 30}
	for range f.Beliefs {
		wide.Values = append(wide.Values, 1)
		for range wide.Rank {
			wide.Values = append(wide.Values, 0.01)
		}
	}
	f.Covariance = wide
	for k := range f.Beliefs {
		f.Beliefs[k].Variance = 1 - 30e-4
	}
	for _, rank := range []int{15, 16, 100} {
		m.Start, m.Options.Rank = f, rank
		s := state(t, &m, ADF{})
		feed(t, s, rows)
		fit(t, s)
	}
}

// The dense steps of a merge and of a fit end when ctx does, not only their beginnings.
func TestInterruptedMerge(t *testing.T) {
	if testing.Short() {
		t.Skip("large covariances")
	}
	for _, c := range []struct {
		name  string
		p     int
		noise float64
		o     kernels.Options
	}{{"full", 1500, 0, kernels.Options{}}, {"walk", 1200, 0.01, kernels.Options{}}, {"lowrank", 900, 0, kernels.Options{Covariance: "lowrank", Rank: 400}}} {
		m := &kernels.Model{NoIntercept: true, Lik: like(t, "", "logit"), Prior: kernels.DefaultPrior, Noise: c.noise, Options: c.o}
		rnd := rand.New(rand.NewPCG(3, 16))
		part := func() *stream.State {
			s := state(t, m, ADF{})
			x := map[string]float64{}
			for j := range c.p {
				x[fmt.Sprint("x", j)] = rnd.NormFloat64()
			}
			rows := []row{{x: x, y: 1, w: 1, tr: 1}}
			for range c.o.Rank {
				rows = append(rows, row{x: map[string]float64{fmt.Sprint("x", rnd.IntN(c.p)): 1, fmt.Sprint("x", rnd.IntN(c.p)): 2}, w: 1, tr: 1})
			}
			feed(t, s, rows)
			return s
		}
		a, b := part(), part()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		if err := a.Merge(ctx, b); !errors.Is(err, stop.ErrInterrupted) {
			t.Errorf("%s: merge: %v", c.name, err)
		}
		if c.noise == 0 {
			continue
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		if _, err := b.Fit(ctx); !errors.Is(err, stop.ErrInterrupted) {
			t.Errorf("%s: fit: %v", c.name, err)
		}
	}
}

// A change of units, which takes as long as so many rows as there are numbers, ends when the
// context does.
func TestInterruptedUnits(t *testing.T) {
	m := (&kernels.Model{Lik: like(t, "", "logit"), Prior: kernels.DefaultPrior, Options: kernels.Options{Standardize: true}}).Complete()
	for j := range 3 {
		m.Priors = append(m.Priors, kernels.Belief{Feature: fmt.Sprint("x", j), Weight: kernels.Weight{Mean: 0.5, Variance: 1}})
	}
	var d kernels.Dict
	if err := m.Name(&d); err != nil {
		t.Fatal(err)
	}
	s, err := newJoint(&stream.Plan{Model: m, Rates: []float64{0}}, &d)
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, f := range map[string]func(){
		"units of numbers": func() {
			r := &stream.Recast{IDs: []uint32{1, 2, 3}, Old: slices.Repeat([]stream.Unit{{Scale: 1}}, 3), New: slices.Repeat([]stream.Unit{{Center: 1, Scale: 2}}, 3)}
			r.Restore(&restorer{s, s.bank[0], r, int(s.at[0])})
		},
		"units of responses": func() { s.Stretch(0, 2) },
	} {
		f() // under no context
		if err := func() (err error) {
			halt := stop.Watch(cancelled, 0)
			defer halt.End(&err)
			s.Under(halt)
			f()
			return nil
		}(); !errors.Is(err, stop.ErrInterrupted) {
			t.Errorf("%s: %v", name, err)
		}
		s.Under(nil)
	}
}

// A bank goes beyond its grid with full covariances and low-rank ones too: what it learns
// from there on is that of the filter at the rate found.
func TestBankExtends(t *testing.T) {
	for _, cov := range []string{"full", "lowrank"} {
		for _, c := range []struct{ variance, unit float64 }{{1e-4, 1}, {1, 1e8}} {
			rnd := rand.New(rand.NewPCG(4, 9))
			var w [3]float64
			rows := make([]row, 2000)
			for i := range rows {
				x, eta := map[string]float64{}, 0.0
				for j := range w {
					w[j] += 0.1 * rnd.NormFloat64()
					v := rnd.NormFloat64()
					x[string(rune('a'+j))] = v
					eta += v * w[j]
				}
				rows[i] = row{x: x, y: eta + rnd.NormFloat64(), w: 1, t: float64(i) * c.unit}
			}
			m := kernels.Model{NoIntercept: true, HasTime: true, Lik: like(t, "gaussian", ""), Prior: kernels.Prior{Variance: c.variance}, Options: kernels.Options{Covariance: cov, Rank: 3}}
			run := func(q float64, auto bool) *stream.State {
				k := m
				k.Noise, k.Options.AutoNoise = q, auto
				s := state(t, &k, ADF{})
				feed(t, s, rows[:900])
				s = s.Clone()
				feed(t, s, rows[900:])
				return s
			}
			auto := run(0, true)
			rates, _ := auto.Rates()
			q, truth := rates[auto.Best()], 0.01/c.unit
			if len(rates) <= 10 || q < truth/10 || q > 10*truth {
				t.Errorf("%s: %g of %v, made with %g", cov, q, rates, truth)
			}
			a, b := fit(t, run(q, false)), fit(t, auto)
			for i, w := range a.Beliefs {
				near(t, cov+" mean", b.Beliefs[i].Mean, w.Mean, 1e-6)
				near(t, cov+" variance", b.Beliefs[i].Variance/w.Variance, 1, 1e-6)
			}
		}
	}
}

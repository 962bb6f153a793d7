package lik

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/special"
)

func TestLogLikDerivatives(t *testing.T) {
	every(t, func(t *testing.T, l Likelihood) {
		for _, y := range responses(l) {
			for _, w := range []float64{0.3, 1, 4} {
				o := observe(l, y, w)
				if err := l.Check(o); err != nil {
					t.Fatal(err)
				}
				for _, s := range []float64{-40, -12, -3, -0.5, 0, 0.4, 2, 5, 9} {
					logp, d1, d2 := l.LogLik(o, s)
					what := fmt.Sprintf("y=%v w=%v s=%v", y, w, s)
					// differences of step h lose eps|l|/h
					const h = 1e-3
					floor := 1e-9 + 4e-16*math.Abs(logp)/h
					kerneltest.Gradient(t, what+" d1", func(s float64) float64 { a, _, _ := l.LogLik(o, s); return a }, s, h, d1, kerneltest.Tol{Rel: 1e-8, Abs: floor})
					kerneltest.Gradient(t, what+" d2", func(s float64) float64 { _, a, _ := l.LogLik(o, s); return a }, s, h, d2, kerneltest.Tol{Rel: 1e-8, Abs: 1e-9 + 4e-16*math.Abs(d1)/h})
				}
			}
		}
	})
}

func TestMomentsDerivatives(t *testing.T) {
	every(t, func(t *testing.T, l Likelihood) {
		for _, y := range responses(l) {
			for _, w := range []float64{0.3, 1, 4} {
				o := observe(l, y, w)
				for _, m := range []float64{-30, -3, 0, 0.4, 6} {
					for _, v := range []float64{0.02, 1, 7, 400} {
						got := l.Moments(o, m, v)
						// a hundredth of the shorter of prior and tilted deviation, over the prior's
						h := 0.02 * math.Sqrt(v)
						what := fmt.Sprintf("y=%v w=%v m=%v v=%v", y, w, m, v)
						at := func(m float64) Tilted { return l.Moments(o, m, v) }
						// 1e-9 of quadrature error in logZ, over h
						kerneltest.Gradient(t, what+" alpha", func(m float64) float64 { return at(m).LogZ }, m, h, got.Alpha,
							kerneltest.Tol{Rel: 2e-6, Abs: (2e-9 + 4e-16*math.Abs(got.LogZ)) / h})
						kerneltest.Gradient(t, what+" beta", func(m float64) float64 { return -at(m).Alpha }, m, h, got.Beta,
							kerneltest.Tol{Rel: 2e-5, Abs: 2e-8/(h*math.Sqrt(v)) + 4e-16*math.Abs(got.Alpha)/h})
					}
				}
			}
		}
	})
}

func TestSymmetry(t *testing.T) {
	for _, link := range []string{"logit", "probit"} {
		l := mustNew(t, "bernoulli", link, Params{})
		rapid.Check(t, func(t *rapid.T) {
			m, v, w := drawPoint(t, 1e4)
			a := l.Moments(Obs{Y: 1, Weight: w}, m, v)
			b := l.Moments(Obs{Y: 0, Weight: w}, -m, v)
			b.Alpha = -b.Alpha
			if a != b {
				t.Fatalf("%s m=%v v=%v w=%v: %+v and %+v", link, m, v, w, a, b)
			}
		})
	}
}

// drawPoint draws m up to span in size, half of the time near the borders between the
// rules (v = 1, m = -v/2, m = 2.5v + 12), v over 18 decades and a weight.
func drawPoint(t *rapid.T, span float64) (m, v, w float64) {
	v = math.Pow(10, rapid.Float64Range(-12, 6).Draw(t, "log10 v"))
	w = rapid.SampledFrom([]float64{1, 1, 1, 0.1, 0.5, 2, 2.5, 7, 100}).Draw(t, "w")
	m = rapid.Float64Range(-1, 1).Draw(t, "m")
	jitter := 1 + rapid.SampledFrom([]float64{-1e-3, -1e-9, 0, 1e-9, 1e-3}).Draw(t, "jitter")
	switch rapid.IntRange(0, 9).Draw(t, "where") {
	case 0:
		v = jitter
		m *= 10
	case 1:
		m = -0.5 * v * jitter
	case 2:
		m = (2.5*v + 12) * jitter
	case 3:
		m = -v * rapid.Float64Range(0, 2).Draw(t, "slope")
	case 4, 5, 6:
		m *= 10 * math.Sqrt(v)
	default:
		m = m * math.Pow(10, rapid.Float64Range(-2, math.Log10(span)).Draw(t, "log10 m"))
	}
	return math.Max(-span, math.Min(span, m)), v, w
}

func drawY(t *rapid.T, l Likelihood) float64 {
	return rapid.SampledFrom(responses(l)).Draw(t, "y")
}

// Everything stays finite and inside the ranges of a log-concave family.
func TestRanges(t *testing.T) {
	every(t, func(t *testing.T, l Likelihood) {
		rapid.Check(t, func(t *rapid.T) {
			m, v, w := drawPoint(t, 1e4)
			o := observe(l, drawY(t, l), w)
			got := l.Moments(o, m, v)
			bounded := got.Ratio <= 1 && got.Beta >= 0 || !concave(l.Family(), l.Link())
			if math.IsNaN(got.LogZ+got.Alpha+got.Beta) || math.IsInf(got.LogZ+got.Alpha, 0) ||
				!(got.Ratio > 0 && bounded) || !(got.Beta*v <= 1+1e-9) {
				t.Fatalf("y=%v w=%v m=%v v=%v: %+v", o.Y, w, m, v, got)
			}
			if l.Family() == "bernoulli" && (got.LogZ > 1e-12 || got.Alpha*(2*o.Y-1) < 0) {
				t.Fatalf("y=%v w=%v m=%v v=%v: %+v", o.Y, w, m, v, got)
			}
		})
	})
}

// The fast rules against adaptive quadrature, at random points and at the borders
// between the rules: at 1e-7 a seam would show. The reference takes differences of
// log p, which lose digits where |log p| is large, so m stays within 100 and rows whose
// log p would cost more than the tolerance are skipped.
func TestDense(t *testing.T) {
	every(t, func(t *testing.T, l Likelihood) {
		rapid.Check(t, func(t *rapid.T) {
			m, v, w := drawPoint(t, 100)
			o := observe(l, drawY(t, l), w)
			got := l.Moments(o, m, v)
			if math.Abs(got.LogZ) > 3e7 || v < 1e-9 {
				t.Skip()
			}
			var want Tilted
			if concave(l.Family(), l.Link()) {
				want, _ = slowly(l, o, m, v, nil)
			} else {
				want = denseModes(l, o, m, v)
			}
			lost := 1e-15 * (math.Abs(want.LogZ) + m*m/v*1e-1)
			if lost > 2e-8 {
				t.Skip()
			}
			lz := math.Abs(got.LogZ-want.LogZ) / math.Max(1, math.Abs(want.LogZ))
			mean := math.Abs(got.Alpha-want.Alpha) * math.Sqrt(v/want.Ratio)
			variance := math.Abs(got.Ratio/want.Ratio - 1)
			if !(lz <= 1e-8 && mean <= 1e-7+lost && variance <= 1e-7+lost) {
				t.Fatalf("y=%v w=%v m=%v v=%v: logZ %.3g mean %.3g variance %.3g\n got %+v\nwant %+v",
					o.Y, w, m, v, lz, mean, variance, got, want)
			}
		})
	})
}

func TestGaussianWeightIsRepetition(t *testing.T) {
	l := mustNew(t, "gaussian", "", Params{Dispersion: 0.7})
	for _, v := range []float64{1e-6, 1, 1e5} {
		m, y := 0.4, 2.5
		once := Obs{Y: y, Weight: 1}
		a := l.Moments(once, m, v)
		b := l.Moments(once, m+v*a.Alpha, v*a.Ratio)
		two := l.Moments(Obs{Y: y, Weight: 2}, m, v)
		tol := kerneltest.Tol{Rel: 1e-12, Abs: 1e-12}
		kerneltest.Close(t, "logZ", two.LogZ, a.LogZ+b.LogZ, tol)
		kerneltest.Close(t, "ratio", two.Ratio, a.Ratio*b.Ratio, kerneltest.Tol{Rel: 1e-12})
		kerneltest.Close(t, "mean", m+v*two.Alpha, m+v*a.Alpha+v*a.Ratio*b.Alpha, tol)
	}
}

func TestEdges(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	every(t, func(t *testing.T, l Likelihood) {
		for _, y := range responses(l) {
			o := observe(l, y, 1.7)
			for _, m := range []float64{-1e4, -20, 0, 3, 20} {
				logp, d1, d2 := l.LogLik(o, m)
				const top = math.MaxFloat64 // degenerate keeps what overflows within it
				clip := func(x float64) float64 { return math.Max(-top, math.Min(top, x)) }
				want := Tilted{LogZ: clip(logp), Alpha: clip(d1), Beta: clip(-d2), Ratio: 1}
				if got := l.Moments(o, m, 0); got != want {
					t.Errorf("y=%v m=%v v=0: %+v, want %+v", y, m, got, want)
				}
				if got := l.Moments(observe(l, y, 0), m, 2); got != (Tilted{Ratio: 1}) {
					t.Errorf("weight 0 changes the prior: %+v", got)
				}
			}
			for _, p := range [][2]float64{{nan, 1}, {inf, 1}, {0, nan}, {0, inf}, {0, -1}} {
				got := l.Moments(o, p[0], p[1])
				if !math.IsNaN(got.LogZ) || !math.IsNaN(got.Ratio) {
					t.Errorf("improper prior N(%v, %v) gives %+v", p[0], p[1], got)
				}
			}
			if allocs := testing.AllocsPerRun(20, func() { l.Moments(o, 0.3, 2); l.Moments(o, -50, 1e5) }); allocs != 0 {
				t.Errorf("y=%v: %v allocations", y, allocs)
			}
		}
		for _, o := range []Obs{{Y: nan, Weight: 1}, {Y: inf, Weight: 1}, {Y: 1, Weight: -1}, {Y: 1, Weight: nan}, {Y: 1, Weight: inf}} {
			if l.Check(o) == nil {
				t.Errorf("%+v passes", o)
			}
		}
	})
}

// The evidence is a distribution over y.
func TestNormalisation(t *testing.T) {
	every(t, func(t *testing.T, l Likelihood) {
		last := 1.0
		switch l.Family() {
		case "poisson", "negbinomial":
			last = 400
		case "bernoulli":
		case "binomial":
			last = testTrials
		default:
			t.Skip("not a family of whole numbers")
		}
		for _, m := range []float64{-7, -0.5, 0, 1, 2} {
			for _, v := range []float64{1e-9, 0.2, 0.999, 1, 3} {
				if last == 400 && v > 0.2 {
					m = -1.5 // keep the tail beyond 400 below 1e-9
				}
				if last == 400 && v > 1 {
					continue
				}
				sum := 0.0
				for y := 0.0; y <= last; y++ {
					sum += math.Exp(l.Moments(observe(l, y, 1), m, v).LogZ)
				}
				kerneltest.Close(t, fmt.Sprintf("m=%v v=%v: sum of Z", m, v), sum, 1, kerneltest.Tol{Rel: 2e-9})
			}
		}
	})
}

// Zoeter (2007), figure 1: logit, y = 1, prior N(0, 25).
func TestPlainRuleLogit(t *testing.T) {
	o := Obs{Y: 1, Weight: 1}
	exact := mustNew(t, "", "logit", Params{}).Moments(o, 0, 25)
	kerneltest.Close(t, "z", math.Exp(exact.LogZ), 0.5, kerneltest.Tol{Rel: 1e-10})
	kerneltest.Close(t, "mean", 25*exact.Alpha, 3.7572427214, kerneltest.Tol{Rel: 1e-9})
	kerneltest.Close(t, "variance", 25*exact.Ratio, 10.8831271325, kerneltest.Tol{Rel: 1e-9})
	for _, c := range []struct {
		nodes int
		want  float64
	}{{10, -9.0e-2}, {20, -1.8e-2}, {30, -5.1e-3}, {50, -7.0e-4}, {100, -1.8e-5}} {
		got := mustNew(t, "", "logit", Params{Quadrature: c.nodes}).Moments(o, 0, 25)
		// the expected numbers carry two digits
		kerneltest.Close(t, fmt.Sprintf("error of v at %d nodes", c.nodes), got.Ratio/exact.Ratio-1, c.want, kerneltest.Tol{Rel: 0.03})
	}
}

// Zoeter (2007), figures 2 to 4: divergence of the exact tilted law from the Gaussian
// of the rule's moments. 50 nodes are worst at (0, 5), 10 nodes at (-20, 5).
func TestPlainRuleDivergence(t *testing.T) {
	o := Obs{Y: 1, Weight: 1}
	for _, c := range []struct {
		nodes    int
		m, v, kl float64
	}{{50, 0, 25, 0.0354}, {10, -20, 25, 0.0863}} {
		g := mustNew(t, "", "logit", Params{Quadrature: c.nodes}).Moments(o, c.m, c.v)
		mean, variance := c.m+c.v*g.Alpha, c.v*g.Ratio
		l := mustNew(t, "", "logit", Params{})
		exact := l.Moments(o, c.m, c.v)
		_, kl := slowly(l, o, c.m, c.v, func(s, _ float64) float64 {
			logp, _, _ := l.LogLik(o, s)
			return logp - (s-c.m)*(s-c.m)/(2*c.v) - exact.LogZ - 0.5*math.Log(c.v) +
				(s-mean)*(s-mean)/(2*variance) + 0.5*math.Log(variance)
		})
		kerneltest.Close(t, fmt.Sprintf("KL at %d nodes", c.nodes), kl, c.kl, kerneltest.Tol{Rel: 0.002})
	}
}

// Zoeter (2007), figure 5: probit, prior N(0, 1), one success among ten rows, the
// predictive probability by the place of the success under assumed-density filtering.
func TestProbitFilterOrder(t *testing.T) {
	want := []float64{.160352, .162494, .161358, .160177, .159431, .159157, .159308, .159833, .160687, .161835}
	l := mustNew(t, "", "probit", Params{})
	for place, p := range want {
		m, v := 0.0, 1.0
		for i := range want {
			o := Obs{Weight: 1}
			if i == place {
				o.Y = 1
			}
			g := l.Moments(o, m, v)
			m, v = m+v*g.Alpha, v*g.Ratio
		}
		got, _ := l.Predict(m, v)
		kerneltest.Close(t, fmt.Sprintf("success at %d", place+1), got, p, kerneltest.Tol{Abs: 6e-7})
	}
}

func TestRule(t *testing.T) {
	for _, k := range []int{2, 3, 10, 50, 199, 201, 512} {
		r, err := newRule(k)
		if err != nil {
			t.Fatal(err)
		}
		var m0, m2, m4 float64
		for i, x := range r.x {
			w := math.Exp(r.logw[i])
			m0 += w
			m2 += w * x * x
			m4 += w * x * x * x * x
		}
		tol := kerneltest.Tol{Rel: 1e-11}
		kerneltest.Close(t, fmt.Sprintf("%d nodes, mass", k), m0, 1, tol)
		kerneltest.Close(t, fmt.Sprintf("%d nodes, variance", k), m2, 1, tol)
		if k > 2 {
			kerneltest.Close(t, fmt.Sprintf("%d nodes, fourth moment", k), m4, 3, tol)
		}
	}
	for _, k := range []int{-1, 1, 513} {
		if _, err := New("", "", Params{Quadrature: k}); err == nil || !strings.Contains(err.Error(), "quadrature") {
			t.Errorf("quadrature %d: %v", k, err)
		}
	}
}

// The plain rule collapses but never returns NaN, 0 or more than the prior variance.
func TestPlainRuleRanges(t *testing.T) {
	every(t, func(t *testing.T, auto Likelihood) {
		for _, k := range []int{2, 20, 512} {
			l := mustNew(t, auto.Family(), auto.Link(), Params{Dispersion: 1e-3, Quadrature: k})
			for _, y := range responses(l) {
				for _, m := range []float64{-1e4, -30, 0, 5, 800, 1e4} {
					for _, v := range []float64{0, 1e-12, 1, 1e6} {
						got := l.Moments(observe(l, y, 1), m, v)
						if math.IsNaN(got.LogZ+got.Alpha+got.Beta) || !(got.Ratio > 0 && (got.Ratio <= 1 || !concave(l.Family(), l.Link()))) {
							t.Errorf("k=%d y=%v m=%v v=%v: %+v", k, y, m, v, got)
						}
					}
				}
			}
		}
	})
}

func TestPredict(t *testing.T) {
	every(t, func(t *testing.T, l Likelihood) {
		for _, m := range []float64{-60, -4, 0, 0.7, 12} {
			for _, v := range []float64{0, 1e-8, 0.3, 1, 9, 200} {
				mean, variance := l.Predict(m, v)
				what := fmt.Sprintf("m=%v v=%v", m, v)
				if v == 0 {
					kerneltest.Close(t, what, mean, l.Response(m), kerneltest.Tol{Rel: 1e-12})
				}
				if l.Family() == "bernoulli" {
					if !(mean >= 0 && mean <= 1 && variance >= 0) {
						t.Errorf("%s: mean %v variance %v", what, mean, variance)
					}
					if v > 0 {
						want, _ := slowly(l, Obs{Y: 1, Weight: 1}, m, v, nil)
						kerneltest.Close(t, what, mean, math.Exp(want.LogZ), kerneltest.Tol{Rel: 1e-8})
						other, _ := slowly(l, Obs{Y: 0, Weight: 1}, m, v, nil)
						kerneltest.Close(t, what+" variance", variance, math.Exp(want.LogZ+other.LogZ), kerneltest.Tol{Rel: 1e-8, Abs: 1e-300})
					}
				}
			}
		}
	})
	mean, variance := mustNew(t, "poisson", "", Params{}).Predict(0.2, 0.5)
	mu := math.Exp(0.45)
	kerneltest.Close(t, "poisson mean", mean, mu, kerneltest.Tol{Rel: 1e-14})
	kerneltest.Close(t, "poisson variance", variance, mu+mu*mu*math.Expm1(0.5), kerneltest.Tol{Rel: 1e-13})
	if mean, variance := mustNew(t, "poisson", "", Params{}).Predict(700, 1); math.IsInf(mean, 0) || !math.IsInf(variance, 1) {
		t.Errorf("poisson at m=700: %v %v", mean, variance)
	}
}

// MacKay's approximation: largest error 0.016 for |m| <= 10, v <= 100.
func TestModerated(t *testing.T) {
	l := mustNew(t, "", "logit", Params{})
	worst := 0.0
	for m := -10.0; m <= 10; m += 0.5 {
		for v := 0.0; v <= 100; v += 2 {
			exact, _ := l.Predict(m, v)
			worst = math.Max(worst, math.Abs(l.Moderated(m, v)-exact))
		}
	}
	if worst < 0.0155 || worst > 0.0165 {
		t.Errorf("largest error %v, expected 0.016", worst)
	}
}

func TestInterval(t *testing.T) {
	every(t, func(t *testing.T, l Likelihood) {
		lo, hi := l.Interval(0.4, 2, 0.9)
		if !(lo < hi) {
			t.Errorf("[%v, %v]", lo, hi)
		}
		if lo, hi := l.Interval(0.4, 2, 1.5); !math.IsNaN(lo) || !math.IsNaN(hi) {
			t.Error("level 1.5 accepted")
		}
		if l.Family() == "bernoulli" {
			z := special.PhiInv(0.95) * math.Sqrt2
			kerneltest.Close(t, "lower", lo, l.Response(0.4-z), kerneltest.Tol{Rel: 1e-12})
			kerneltest.Close(t, "upper", hi, l.Response(0.4+z), kerneltest.Tol{Rel: 1e-12})
		}
	})
}

// countInterval checks the interval of a count against sums of the evidence, which come
// from another path.
func countInterval(t *testing.T, l Likelihood) {
	for _, c := range [][2]float64{{-3, 0.5}, {0, 0}, {0, 1e-6}, {1, 1}, {3, 0.01}, {5, 0.001}, {6, 1e-6}, {2, 4}} {
		m, v := c[0], c[1]
		lo, hi := l.Interval(m, v, 0.9)
		cdf, y := 0.0, 0.0
		for _, q := range []struct{ p, got float64 }{{0.05, lo}, {0.95, hi}} {
			for {
				next := cdf + math.Exp(l.Moments(Obs{Y: y, Weight: 1}, m, v).LogZ)
				if next >= q.p {
					break
				}
				cdf = next
				y++
			}
			if q.got != y {
				t.Errorf("m=%v v=%v p=%v: %v, want %v", m, v, q.p, q.got, y)
			}
		}
	}
}

func TestPoissonInterval(t *testing.T) {
	l := mustNew(t, "poisson", "", Params{})
	countInterval(t, l)
	// a rate of 1e12 known exactly: the normal law of the count, to a part in its deviation
	lo, hi := l.Interval(math.Log(1e12), 0, 0.95)
	kerneltest.Close(t, "lower", lo, 1e12-1.959964e6, kerneltest.Tol{Abs: 3e3})
	kerneltest.Close(t, "upper", hi, 1e12+1.959964e6, kerneltest.Tol{Abs: 3e3})
	lo, hi = l.Interval(100, 4, 0.95)
	kerneltest.Close(t, "huge lower", lo, math.Exp(100-2*1.9599639845400543), kerneltest.Tol{Rel: 1e-9})
	kerneltest.Close(t, "huge upper", hi, math.Exp(100+2*1.9599639845400543), kerneltest.Tol{Rel: 1e-9})
}

func TestNew(t *testing.T) {
	for _, c := range []struct{ family, link, wantFamily, wantLink string }{
		{"", "", "bernoulli", "logit"},
		{"bernoulli", "", "bernoulli", "logit"},
		{"Poisson", "", "poisson", "log"},
		{"gaussian", "", "gaussian", "identity"},
		{"", "probit", "bernoulli", "probit"},
		{"", "LOGIT ", "bernoulli", "logit"},
		{"", "cloglog", "bernoulli", "cloglog"},
		{"", "log", "poisson", "log"},
		{"", "identity", "gaussian", "identity"},
	} {
		l := mustNew(t, c.family, c.link, Params{Dispersion: 1})
		if l.Family() != c.wantFamily || l.Link() != c.wantLink {
			t.Errorf("New(%q, %q) is %s %s", c.family, c.link, l.Family(), l.Link())
		}
	}
	var names, links []string
	for _, f := range Families() {
		names = append(names, f.Family)
		for _, link := range f.Links {
			if !slices.Contains(links, link) {
				links = append(links, link)
			}
		}
		l := mustNew(t, f.Family, "", Params{Dispersion: 1})
		if l.Family() != f.Family || l.Link() != f.Links[0] {
			t.Errorf("New(%q) is %s %s", f.Family, l.Family(), l.Link())
		}
	}
	for _, c := range []struct {
		family, link string
		p            Params
		want         string
	}{
		{"bernouli", "", Params{}, "family: found 'bernouli'; allowed: " + strings.Join(names, ", ") + "; the nearest is bernoulli"},
		{"poisson", "logit", Params{}, "link: found 'logit'; allowed for poisson: log; the nearest is log"},
		{"", "zzzzzz", Params{}, "link: found 'zzzzzz'; allowed: " + strings.Join(links, ", ")},
		{"gaussian", "", Params{Dispersion: -1}, "dispersion = -1: gaussian takes a finite noise variance > 0"},
		{"gaussian", "", Params{Dispersion: math.NaN()}, "dispersion = NaN: gaussian takes a finite noise variance > 0"},
		{"", "", Params{Quadrature: 1}, "quadrature = 1: 0 (auto) or 2 to 512 nodes"},
	} {
		_, err := New(c.family, c.link, c.p)
		if err == nil || err.Error() != c.want {
			t.Errorf("New(%q, %q): %v, want %s", c.family, c.link, err, c.want)
		}
	}
	f := Families()
	f[0].Links[0] = "changed"
	if Families()[0].Links[0] != "logit" {
		t.Error("Families hands out the registry itself")
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		family string
		o      Obs
		want   string
	}{
		{"bernoulli", Obs{Y: 2, Weight: 1}, "y = 2: bernoulli takes 0 or 1; labels 1 and 2 become y - 1; for other numbers there is family 'gaussian', for counts 'poisson'"},
		{"bernoulli", Obs{Y: -1, Weight: 1}, "y = -1: bernoulli takes 0 or 1; labels -1 and 1 become y > 0; for other numbers there is family 'gaussian', for counts 'poisson'"},
		{"bernoulli", Obs{Y: 3, Weight: 1}, "y = 3: bernoulli takes 0 or 1; for other numbers there is family 'gaussian', for counts 'poisson'"},
		{"poisson", Obs{Y: -1, Weight: 1}, "y = -1: poisson takes whole numbers >= 0"},
		{"poisson", Obs{Y: 1.5, Weight: 1}, "y = 1.5: poisson takes whole numbers >= 0; a rate is given as its count, with the offset ln(exposure)"},
		{"gaussian", Obs{Y: math.NaN(), Weight: 1}, "y = NaN: gaussian takes finite numbers"},
		{"gaussian", Obs{Y: 1, Weight: -2}, "weight = -2: weights are finite numbers >= 0"},
	} {
		err := mustNew(t, c.family, "", Params{Dispersion: 1}).Check(c.o)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// A count of 0 under a predictor so wide that its panels reach where exp overflows: the
// law is the part of N(m, v) below about 0.
func TestPoissonZeroUnderWidest(t *testing.T) {
	l := mustNew(t, "poisson", "", Params{})
	for _, m := range []float64{-14959.67, 0, -1e5} {
		for _, v := range []float64{4.9e7, 1e8, 1e9, 1e12} {
			got := l.Moments(Obs{Y: 0, Weight: 1}, m, v)
			sd := math.Sqrt(v)
			// exp(-e^s) is a step at s = -0.58, whose width of about 1 adds 1/sd.
			z := (-0.5772156649 - m) / sd
			logZ, r, _ := special.PhiMoments(z)
			kerneltest.Close(t, "logZ", got.LogZ, logZ, kerneltest.Tol{Rel: 1e-5, Abs: 1e-9})
			kerneltest.Close(t, "shift", got.Alpha*sd, -r, kerneltest.Tol{Rel: 1e-4, Abs: 1e-9})
			kerneltest.Close(t, "ratio", got.Ratio, 1-r*(z+r), kerneltest.Tol{Rel: 1e-4})
		}
	}
}

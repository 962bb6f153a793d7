package predict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// The response's difference agrees with draws from the joint Gaussian of the two
// predictors, and its interval with their quantiles.
func TestResponses(t *testing.T) {
	const draws = 400_000
	r := rand.New(rand.NewPCG(1, 9))
	for _, c := range []struct {
		family, link       string
		ma, va, mb, vb, co float64
	}{
		{"", "logit", 0.5, 1, -0.5, 2, 0.9}, {"", "logit", 3, 20, 2, 0.1, 0.3}, {"", "probit", -1, 0.5, 1, 0.5, -0.4}, {"", "cloglog", -2, 0.3, -1, 0.4, 0.2},
		{"poisson", "log", 1, 0.2, 0.3, 0.1, 0.05}, {"", "logit", 1, 0.5, 1.3, 0, 0}, {"", "logit", 0, 1, 1, 1, 1},
	} {
		l, err := lik.New(c.family, c.link, lik.Params{Dispersion: 1})
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("%s %v", c.link, c)
		got := responses(l, c.ma-c.mb, c.va+c.vb-2*c.co, c.ma, c.va, c.mb, c.vb, 0.9)
		d := make([]float64, draws)
		var sum, sq float64
		gain := 0.0
		if c.vb > 0 {
			gain = c.co / c.vb
		}
		for i := range d {
			z := math.Sqrt(c.vb) * r.NormFloat64()
			sa := c.ma + gain*z + math.Sqrt(max(c.va-gain*c.co, 0))*r.NormFloat64()
			d[i] = l.Response(sa) - l.Response(c.mb+z)
			sum += d[i]
			sq += d[i] * d[i]
		}
		mean := sum / draws
		sd := math.Sqrt(sq/draws - mean*mean)
		slices.Sort(d)
		// five standard errors of what is drawn; quantiles have wider ones
		kerneltest.Close(t, what+": mean", got.Mean, mean, kerneltest.Tol{Abs: 5 * sd / math.Sqrt(draws)})
		kerneltest.Close(t, what+": sd", got.SD, sd, kerneltest.Tol{Rel: 0.02})
		kerneltest.Close(t, what+": lower", got.Lower, d[draws/20], kerneltest.Tol{Abs: 0.02 * sd})
		kerneltest.Close(t, what+": upper", got.Upper, d[draws*19/20], kerneltest.Tol{Abs: 0.02 * sd})
		// and the exact means of the two responses
		ra, _ := l.Predict(c.ma, c.va)
		rb, _ := l.Predict(c.mb, c.vb)
		kerneltest.Close(t, what+": exact mean", got.Mean, ra-rb, kerneltest.Tol{Abs: 1e-8 * (1 + got.SD)})
	}
}

// The ends of the interval have the wanted probability below them, by the plain sum over a fine
// grid of the second predictor: to 2e-5 of the deviation of the difference, also where
// one predictor is all but known, where both are all but one, and where a response is at its end.
func TestResponsesInterval(t *testing.T) {
	kerneltest.Slow(t)
	r := rand.New(rand.NewPCG(1, 3))
	for i := range 140 {
		link := [][2]string{{"bernoulli", "logit"}, {"bernoulli", "probit"}, {"bernoulli", "cloglog"}, {"poisson", "log"}}[i%4]
		l, err := lik.New(link[0], link[1], lik.Params{Dispersion: 1})
		if err != nil {
			t.Fatal(err)
		}
		sa, sb := min(math.Exp(1.5*r.NormFloat64()-1), 8), min(math.Exp(1.5*r.NormFloat64()-1), 8)
		if link[1] == "log" {
			sa, sb = min(sa, 2), min(sb, 2)
		}
		rho := 1 - math.Exp(-2*r.ExpFloat64())
		switch {
		case i%3 == 0:
			rho = -rho
		case i%7 == 0:
			rho = 1 - 1e-5*r.Float64()
		}
		ma := 2 * r.NormFloat64()
		mb := ma + r.NormFloat64()
		// given the wider one
		below := func(d float64) float64 {
			const n = 40000
			from, wide, of, narrow, sign := mb, sb, ma, sa, 1.0
			if sb < sa {
				from, wide, of, narrow, sign = ma, sa, mb, sb, -1
			}
			sum, total := 0.0, 0.0
			for k := range n {
				z := 8 * (2*(float64(k)+0.5)/n - 1)
				w := math.Exp(-0.5 * z * z)
				gap := l.Traits().Predictor(l.Response(from+wide*z)+sign*d) - of - rho*narrow*z
				total += w
				sum += w * 0.5 * math.Erfc(-sign*gap/(narrow*math.Sqrt(2*(1-rho*rho))))
			}
			return sum / total
		}
		for _, level := range []float64{0.5, 0.95} {
			e := responses(l, ma-mb, sa*sa+sb*sb-2*rho*sa*sb, ma, sa*sa, mb, sb*sb, level)
			slack := 2e-5*e.SD + 1e-14
			for _, end := range []struct{ at, p float64 }{{e.Lower, 0.5 - 0.5*level}, {e.Upper, 0.5 + 0.5*level}} {
				// 2e-4 for the plain sum: a step may lie anywhere between two nodes
				if below(end.at-slack) > end.p+2e-4 || below(end.at+slack) < end.p-2e-4 {
					t.Errorf("%v, N(%v, %v²) and N(%v, %v²), correlation %v: %v is below %v with %v, want %v", link, ma, sa, mb, sb, rho, end.at, level, below(end.at), end.p)
				}
			}
		}
	}
}

// Predictors of which doubles know no differences have an end, and numbers.
func TestResponsesFar(t *testing.T) {
	kerneltest.Slow(t)
	for _, link := range [][2]string{{"bernoulli", "logit"}, {"bernoulli", "probit"}, {"bernoulli", "cloglog"}, {"poisson", "log"}} {
		l, err := lik.New(link[0], link[1], lik.Params{Dispersion: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []float64{1e18, -1e300, 700, 40} {
			for _, v := range []float64{1e-300, 1, 1e300} {
				for _, rho := range []float64{-1, 0.5, 1} {
					for _, b := range []float64{m, -m, 0} {
						e := responses(l, m-b, 1.5*v-2*rho*v*math.Sqrt(0.5), m, v, b, 0.5*v, 0.9)
						for _, x := range []float64{e.Mean, e.SD, e.Lower, e.Upper} {
							if math.IsNaN(x) {
								t.Errorf("%v, N(%v, %v) and N(%v, %v), correlation %v: %+v", link, m, v, b, 0.5*v, rho, e)
								break
							}
						}
					}
				}
			}
		}
	}
}

// The difference of exponentials keeps its digits where the predictors are nearly one.
func TestExponentials(t *testing.T) {
	l, err := lik.New("poisson", "log", lik.Params{Dispersion: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []float64{1, 1e-3, 1e-9} {
		for _, v := range []float64{0, 1e-4 * m * m, m * m} {
			// s_b ~ N(0.3, 0.5), s_a = s_b + d with d ~ N(m, v) of its own: E f(s_b) and E f(d)
			// apart
			e := responses(l, m, v, 0.3+m, 0.5+v, 0.3, 0.5, 0.9)
			grow := m + 0.5*v
			rise := math.Expm1(grow)
			first, second := math.Exp(0.3+0.25)*rise, math.Exp(0.6+1)*(rise*rise+math.Exp(2*grow)*math.Expm1(v))
			kerneltest.Close(t, fmt.Sprintf("mean of exp(s) (exp(d) - 1), d ~ N(%v, %v)", m, v), e.Mean, first, kerneltest.Tol{Rel: 1e-12})
			kerneltest.Close(t, fmt.Sprintf("deviation of exp(s) (exp(d) - 1), d ~ N(%v, %v)", m, v), e.SD, math.Sqrt(second-first*first), kerneltest.Tol{Rel: 1e-6})
		}
	}
}

// Contrasts come from the joint posterior: what two rows share does not count.
func TestContrast(t *testing.T) {
	f := &kernels.Fit{Method: "laplace", Family: "bernoulli", Link: "logit", Shape: math.NaN(), Dispersion: 1, Intercept: true, Prior: kernels.DefaultPrior, Time: math.NaN(),
		Beliefs: []kernels.Belief{{Feature: kernels.Intercept, Weight: kernels.Weight{Mean: 1, Variance: 4}}, {Feature: "g=a", Weight: kernels.Weight{Mean: 0.5, Variance: 4}}, {Feature: "g=b", Weight: kernels.Weight{Mean: -0.5, Variance: 4}}}}
	if err := f.SetCovariance(f.Beliefs, [][]float64{{4, -3.5, -3.5}, {-3.5, 4, 3.6}, {-3.5, 3.6, 4}}); err != nil {
		t.Fatal(err)
	}
	s, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	var b kernels.Batch
	b.Reset()
	for _, name := range []string{"g=a", "g=b"} {
		id, err := s.Features().Add(name)
		if err != nil {
			t.Fatal(err)
		}
		b.Add(0, 1)
		b.Add(id, 1)
		b.EndRow()
	}
	c, err := s.Contrast(&b, 0, 1, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	tol := kerneltest.Tol{Rel: 1e-9, Abs: 1e-12}
	kerneltest.Close(t, "mean", c.Mean, 1, tol)
	kerneltest.Close(t, "sd", c.SD, math.Sqrt(4+4-7.2), tol)
	kerneltest.Close(t, "positive", c.Positive, 0.5*math.Erfc(-1/math.Sqrt(2*0.8)), tol)
	if c, err = s.Contrast(&b, 1, 1, 0.95); err != nil || c.Mean != 0 || c.SD != 0 || c.Positive != 0.5 {
		t.Errorf("a row less itself: %+v, %v", c, err)
	}
	if c.Response != (Estimate{}) {
		t.Errorf("the response of a row less itself: %+v", c.Response)
	}
	if _, err = s.Contrast(&b, 0, 1, 1); err == nil {
		t.Error("level 1 was taken")
	}
	f.Beliefs = append(f.Beliefs, kernels.Belief{Feature: "u", Weight: kernels.Weight{Mean: 0.25, Variance: 1}})
	f.Columns = []kernels.FitColumn{{Name: "g", Kind: kernels.LevelsColumn}, {Name: "u", Kind: kernels.NumberColumn, Scale: 2}}
	terms, err := Summary(f, 0.9, 0)
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.Close(t, "odds ratio", terms[1].ExpUpper, math.Exp(0.5+1.6448536269514722*2), tol)
	kerneltest.Close(t, "effect of a deviation", terms[3].PerSD, 0.5, tol)
	if terms[1].Column != "g" || terms[0].Column != "" {
		t.Errorf("columns %q, %q", terms[1].Column, terms[0].Column)
	}
}

// A feature belongs to the longest column that its name begins with.
func TestColumnOf(t *testing.T) {
	f := &kernels.Fit{Columns: []kernels.FitColumn{{Name: "n"}, {Name: "n=items"}, {Name: "g"}}}
	for feature, want := range map[string]string{"n": "n", "n=items": "n=items", "n=items IS NULL": "n=items", "n=items=3": "n=items", "n=item": "n", "g=a=b": "g", "gold": "gold", "other=x": "other", "g IS NULL": "g"} {
		if got := ColumnOf(f, feature); got != want {
			t.Errorf("%s: %s, want %s", feature, got, want)
		}
	}
}

func BenchmarkContrast(b *testing.B) {
	l, err := lik.New("bernoulli", "logit", lik.Params{Dispersion: 1})
	if err != nil {
		b.Fatal(err)
	}
	for name, c := range map[string][5]float64{"apart": {0.5, 1, -0.5, 2, 0.9}, "together": {0.2, 9, 0.3, 9.2, 9}, "close": {1, 0.01, 0.5, 0.02, 0.005}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				responses(l, c[0]-c[2], c[1]+c[3]-2*c[4], c[0], c[1], c[2], c[3], 0.95)
			}
		})
	}
}

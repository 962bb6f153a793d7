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

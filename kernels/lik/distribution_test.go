package lik

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"

	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// distributions calls f once for each registered family and link, of a shape that has four
// moments: tests of the draws' variances need them.
func distributions(t *testing.T, f func(t *testing.T, d Distribution, trials float64)) {
	for _, info := range Families() {
		for _, link := range info.Links {
			t.Run(info.Family+"_"+link, func(t *testing.T) {
				d, err := DistributionOf(mustNew(t, info.Family, link, Params{Dispersion: 0.7, Shape: 6}))
				if err != nil {
					t.Fatal(err)
				}
				trials := 0.0
				if d.Traits().Trials {
					trials = testTrials
				}
				f(t, d, trials)
			})
		}
	}
}

// The distribution function is the sum, or the integral, of exp(log p). Both are good to
// 1e-12 or better, the functions of gonum to 1e-11.
func TestCDF(t *testing.T) {
	tol := kerneltest.Tol{Abs: 1e-11}
	distributions(t, func(t *testing.T, d Distribution, trials float64) {
		at := func(y float64) Obs { return Obs{Y: y, Weight: 1, Trials: trials} }
		mass := func(y, s float64) float64 {
			logp, _, _ := d.LogLik(at(y), s)
			return math.Exp(logp)
		}
		r := d.Traits()
		whole := r.Binary || r.Trials || r.Counts
		for _, s := range []float64{-3, -0.4, 0, 0.7, 2.5} {
			sum := 0.0
			for y := 0.0; whole && y < 60 && d.Check(at(y)) == nil; y++ {
				below, upTo := d.CDF(at(y), s)
				what := fmt.Sprintf("s=%v y=%v", s, y)
				kerneltest.Close(t, what+" below", below, sum, tol)
				sum += mass(y, s)
				kerneltest.Close(t, what+" up to", upTo, sum, tol)
			}
			if whole {
				continue
			}
			// Places about the mean, which a law may have a kink at.
			mean, _ := d.Predict(s, 0)
			var places []float64
			for _, z := range []float64{-8, -2, -0.5, -0.1, 0, 0.1, 0.5, 2, 8} {
				if y := mean + z; d.Check(at(y)) == nil {
					places = append(places, y)
				} else if y = mean * math.Exp(z); d.Check(at(y)) == nil {
					places = append(places, y)
				}
			}
			slices.Sort(places)
			for k, hi := range places[1:] {
				lo := places[k]
				_, a := d.CDF(at(lo), s)
				below, upTo := d.CDF(at(hi), s)
				want := 0.0
				const parts = 64 // of which 20 nodes resolve each to rounding
				for j := range parts {
					from, to := lo+(hi-lo)*float64(j)/parts, lo+(hi-lo)*float64(j+1)/parts
					want += quad.Fixed(func(y float64) float64 { return mass(y, s) }, from, to, 20, quad.Legendre{}, 0)
				}
				what := fmt.Sprintf("s=%v %v to %v", s, lo, hi)
				kerneltest.Close(t, what, upTo-a, want, tol)
				if below != upTo {
					t.Errorf("%s: a step from %v to %v", what, below, upTo)
				}
			}
			ends := []float64{math.MaxFloat64, -math.MaxFloat64}
			if d.Check(at(-1)) != nil {
				ends[1] = math.SmallestNonzeroFloat64
			}
			if _, p := d.CDF(at(ends[0]), s); p != 1 {
				t.Errorf("s=%v: %v below the largest number", s, p)
			}
			if p, _ := d.CDF(at(ends[1]), s); !(p < 1e-12) {
				t.Errorf("s=%v: %v below the least", s, p)
			}
		}
	})
}

// Draws have the mean and the variance that the likelihood says, each within 4.5 standard
// errors, and their distribution: the largest distance of the probability transforms from
// uniform is, times the root of their number, above 2.2 once in 8,000 times (Kolmogorov).
func TestDraw(t *testing.T) {
	const n = 20000
	distributions(t, func(t *testing.T, d Distribution, trials float64) {
		of := max(trials, 1)
		for k, s := range []float64{-2, 0.3, 1.8} {
			src := rand.NewPCG(uint64(k), 7)
			uniform := rand.New(rand.NewPCG(uint64(k), 8))
			mean, variance := d.Predict(s, 0)
			if mean != d.Response(s) {
				kerneltest.Close(t, "mean", mean, d.Response(s), kerneltest.Tol{Rel: 1e-12})
			}
			mean, variance = of*mean, of*variance
			var sum, square, fourth float64
			us := make([]float64, n)
			for i := range us {
				o := Obs{Y: d.Draw(s, trials, src), Weight: 1, Trials: trials}
				if err := d.Check(o); err != nil {
					t.Fatal(err)
				}
				e := o.Y - mean
				sum += e
				square += e * e
				fourth += e * e * e * e
				below, upTo := d.CDF(o, s)
				us[i] = below + uniform.Float64()*(upTo-below)
			}
			what := fmt.Sprintf("s=%v ", s)
			kerneltest.Close(t, what+"mean", sum/n, 0, kerneltest.Tol{Abs: 4.5 * math.Sqrt(variance/n)})
			kerneltest.Close(t, what+"variance", square/n, variance, kerneltest.Tol{Abs: 4.5 * math.Sqrt((fourth/n-square/n*square/n)/n)})
			slices.Sort(us)
			far := 0.0
			for i, u := range us {
				far = max(far, u-float64(i)/n, float64(i+1)/n-u)
			}
			if !(far*math.Sqrt(n) < 2.2) {
				t.Errorf("%sdistance %v from uniform", what, far)
			}
		}
	})
}

// silent is a likelihood that says nothing but log p.
type silent struct{ Likelihood }

func TestDistributionOf(t *testing.T) {
	_, err := DistributionOf(silent{mustNew(t, "gamma", "", Params{})})
	e := (*argument.Error)(nil)
	if !errors.As(err, &e) || e.Name != "family" || !strings.HasPrefix(err.Error(), "family: found 'gamma'; it has no distribution function") || !strings.Contains(e.Allowed, "bernoulli, binomial, gaussian") {
		t.Error(err)
	}
	if c := ConstantOf(silent{mustNew(t, "gamma", "", Params{})}); c != nil {
		t.Error("a score of the mean alone")
	}
	// y is 0 or 1: that says all.
	if _, err := DistributionOf(silent{mustNew(t, "", "probit", Params{})}); err != nil {
		t.Error(err)
	}
}

// Best is the log likelihood of rows at their mean, to rounding, and no other predictor or
// dispersion has more.
func TestConstant(t *testing.T) {
	some := 0
	every(t, func(t *testing.T, l Likelihood) {
		c := ConstantOf(l)
		if c == nil {
			return
		}
		some++
		var rows []Obs
		var s Sums
		for i, y := range responses(l) {
			if math.Abs(y) > 1000 {
				continue
			}
			o := observe(l, y, 0.4+0.5*float64(i))
			rows = append(rows, o)
			e := o.Y - 2.5
			s.Weight += o.Weight
			s.Y += o.Weight * o.Y
			s.Trials += o.Weight * o.Trials
			if k, ok := c.(Keeper); ok {
				s.Known += o.Weight * k.Known(o)
			}
			s.Centred += o.Weight * e
			s.Square += o.Weight * e * e
		}
		total := func(l Likelihood, predictor float64) (sum float64) {
			for _, o := range rows {
				logp, _, _ := l.LogLik(o, predictor)
				sum += logp
			}
			return sum
		}
		mean := s.Y / s.Weight
		if l.Traits().Trials {
			mean = s.Y / s.Trials
		}
		at := l.Traits().Predictor(mean)
		tol := kerneltest.Tol{Rel: 1e-12}
		got, ok := c.Best(s, 1.5)
		if !ok {
			t.Fatal("no score")
		}
		kerneltest.Close(t, "best", got, total(l, at), tol)
		for _, d := range []float64{-0.1, 0.1} {
			if total(l, at+d) > got {
				t.Errorf("more at %v than at the mean's %v", at+d, at)
			}
		}
		if _, dispersed := l.(Dispersed); !dispersed {
			return
		}
		got, _ = c.Best(s, 0)
		for d, e := range map[float64]float64{1: 0, 0.9: 1e-3, 1.1: 1e-3} {
			variance := (s.Square - s.Centred*s.Centred/s.Weight) / s.Weight
			w := WithDispersion(l, Params{Dispersion: 1}, d*variance)
			if e == 0 {
				kerneltest.Close(t, "best dispersion", got, total(w, at), tol)
			} else if total(w, at) > got-e {
				t.Errorf("dispersion: as much at %v times the best one", d)
			}
		}
	})
	if some == 0 {
		t.Error("no likelihood has a score of the mean alone")
	}
}

// The four ways of negBinomialUpTo meet: the sum of the masses beside each.
func TestNegBinomialUpTo(t *testing.T) {
	for _, c := range []struct{ k, shape, g, tol float64 }{
		{3, 2e5, 1.5, 1e-9}, {3, 9e4, 1.5, 1e-9}, {40, 1.01e5 * 50, 50, 1e-9}, {900, 1.2e7, 990, 1e-7}, {1100, 1.2e7, 1001, 1e-4}, {1e4, 1.1e7, 1e4, 1e-4}, {2e5, 3e6, 2e5, 1e-7}, {2e5, 1.1e7, 2e5, 1e-5},
	} {
		sum := 0.0
		// p(0) = (shape/(shape+g))^shape; p(j+1)/p(j) = (j+shape)/(j+1) g/(shape+g)
		log := -c.shape * math.Log1p(c.g/c.shape)
		for j := 0.0; j <= c.k; j++ {
			sum += math.Exp(log)
			log += math.Log((j+c.shape)/(j+1)) + math.Log(c.g/(c.shape+c.g))
		}
		if got := negBinomialUpTo(c.k, c.shape, c.g); math.Abs(got-sum) > c.tol {
			t.Errorf("%+v: %v, the sum of masses %v, off by %.2g", c, got, sum, got-sum)
		}
	}
}

// One deviation above a gamma of a large shape has Phi(1), to 1/sqrt(shape).
func TestGammaBelow(t *testing.T) {
	for _, shape := range []float64{1e10, 0.99e13, 1.01e13, 1e15} {
		if got := gammaBelow(shape, 1+1/math.Sqrt(shape)); math.Abs(got-0.841344746068543) > 1/math.Sqrt(shape)+1e-8 {
			t.Errorf("gamma of shape %v: %v below a deviation above its mean", shape, got)
		}
	}
}

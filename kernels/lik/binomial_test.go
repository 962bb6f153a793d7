package lik

import (
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

func TestBinomialCheck(t *testing.T) {
	l := mustNew(t, "binomial", "", Params{})
	for _, c := range []struct {
		o    Obs
		want string
	}{
		{Obs{Y: 1, Weight: 1}, "trials = 0: binomial takes whole numbers >= 1"},
		{Obs{Y: 1, Weight: 1, Trials: 2.5}, "trials = 2.5: binomial takes whole numbers >= 1"},
		{Obs{Y: 4, Weight: 1, Trials: 3}, "y = 4: binomial takes a whole number of successes from 0 to trials (3)"},
		{Obs{Y: 0.5, Weight: 1, Trials: 3}, "y = 0.5: binomial takes a whole number of successes from 0 to trials (3); a share of the trials is given as their number of successes"},
		{Obs{Y: 1, Weight: -1, Trials: 3}, "weight = -1: weights are finite numbers >= 0"},
	} {
		if err := l.Check(c.o); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// One trial is a bernoulli datum; n successes of n are one of weight n; predictions are
// those of one trial.
func TestBinomialIsBernoulli(t *testing.T) {
	for _, link := range []string{"logit", "probit", "cloglog"} {
		bin, ber := mustNew(t, "binomial", link, Params{}), mustNew(t, "bernoulli", link, Params{})
		for _, m := range []float64{-40, -3, 0, 0.7, 12} {
			for _, v := range []float64{1e-9, 0.4, 30, 1e5} {
				for _, c := range []struct{ y, n, w float64 }{{0, 1, 1}, {1, 1, 1}, {1, 1, 2.5}, {0, 7, 1}, {7, 7, 1}, {30, 30, 0.1}} {
					one := Obs{Y: c.y / c.n, Weight: c.w * c.n}
					a, b := bin.Moments(Obs{Y: c.y, Weight: c.w, Trials: c.n}, m, v), ber.Moments(one, m, v)
					kerneltest.Close(t, link+" logZ", a.LogZ, b.LogZ, kerneltest.Tol{Rel: 1e-8, Abs: 1e-9})
					kerneltest.Close(t, link+" ratio", a.Ratio, b.Ratio, kerneltest.Tol{Rel: 1e-7})
				}
				p1, v1 := bin.Predict(m, v)
				p2, v2 := ber.Predict(m, v)
				if p1 != p2 || v1 != v2 {
					t.Errorf("%s m=%v v=%v: %v %v, want %v %v", link, m, v, p1, v1, p2, v2)
				}
			}
		}
	}
}

func BenchmarkBinomial(b *testing.B) {
	for _, link := range []string{"logit", "probit", "cloglog"} {
		b.Run("link="+link, func(b *testing.B) {
			benchmark(b, mustNew(b, "binomial", link, Params{}), Obs{Y: 3, Weight: 1, Trials: 10})
		})
	}
}

// benchmark averages Moments over |m| < 5 and v in 0.1 .. 4.6.
func benchmark(b *testing.B, l Likelihood, o Obs) {
	b.ReportAllocs()
	i, s := 0, 0.0
	for b.Loop() {
		i = (i + 7) & 63
		t := l.Moments(o, float64(i&15)*0.6-4.6, 0.1+float64(i>>4)*1.5)
		s += t.Alpha
	}
	sink = s
}

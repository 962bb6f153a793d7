package metric

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// The interval of a share is that of R's qbeta; that of an area under the curve has the standard
// error of Hanley and McNeil's 51 normal and 58 abnormal images (0.893, 0.032).
func TestIntervals(t *testing.T) {
	for _, c := range []struct{ k, n, lower, upper float64 }{
		{0, 10, 0, 0.2171963}, {5, 10, 0.2235287, 0.7764713}, {10, 10, 1 - 0.2171963, 1},
	} {
		if lo, hi := ShareInterval(c.k, c.n); math.Abs(lo-c.lower) > 1e-6 || math.Abs(hi-c.upper) > 1e-6 {
			t.Errorf("%+v: %v to %v", c, lo, hi)
		}
	}
	lo, hi := AUCInterval(0.893, 51, 58)
	if se := (hi - lo) / (2 * Z95); math.Abs(se-0.032) > 1e-3 || math.Abs(lo+hi-2*0.893) > 1e-12 {
		t.Error(lo, hi)
	}
	if lo, hi := AUCInterval(0.999, 3, 3); hi != 1 || !(lo > 0) {
		t.Error(lo, hi)
	}
}

// Intervals of means stay where the responses are: symmetric on the scale of the logarithm, or of
// the log odds; without an event those of R's qgamma and qbeta.
func TestMeanInterval(t *testing.T) {
	const z = 1.959963984540054
	for _, c := range []struct {
		family       string
		mean, se, n  float64
		lower, upper float64
	}{
		{"gaussian", 0.1, 0.1, 10, 0.1 - 0.1*z, 0.1 + 0.1*z},
		{"studentt", -1, 0.1, 10, -1 - 0.1*z, -1 + 0.1*z},
		{"poisson", 0.1, 0.1, 10, 0.1 * math.Exp(-z), 0.1 * math.Exp(z)},
		{"negbinomial", 4, 1, 10, 4 * math.Exp(-z/4), 4 * math.Exp(z/4)},
		{"gamma", 4, 1, 10, 4 * math.Exp(-z/4), 4 * math.Exp(z/4)},
		{"poisson", 0, 0, 10, 0, 0.2511943}, // qgamma(0.975, 0.5, 10)
		{"binomial", 0.5, 0.1, 10, 1 / (1 + math.Exp(0.4*z)), 1 / (1 + math.Exp(-0.4*z))},
		{"binomial", 0, 0, 10, 0, 0.2171963}, // qbeta(0.975, 0.5, 10.5)
	} {
		l, err := lik.New(c.family, "", lik.Params{Dispersion: 1})
		if err != nil {
			t.Fatal(err)
		}
		lo, hi := MeanInterval(l, c.mean, c.se, c.n)
		if math.Abs(lo-c.lower) > 1e-6 || math.Abs(hi-c.upper) > 1e-6 {
			t.Errorf("%+v: %v to %v", c, lo, hi)
		}
	}
}

// Losses drawn from laws that are known: the interval holds the mean in 95 of 100 draws, and of two
// equal laws one is found better, or worse, in 5.
func TestSkill(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const draws, n = 4000, 200
	holds, better, worse := 0, 0, 0
	for range draws {
		var loss, base, square, gain2 float64
		for range n {
			l, b := 1+rnd.NormFloat64(), 1+rnd.NormFloat64()
			loss, base, square, gain2 = loss+l, base+b, square+l*l, gain2+(b-l)*(b-l)
		}
		sd := func(sum, squares float64) float64 { return math.Sqrt((squares - sum*sum/n) / (n - 1)) }
		s := Skill{Rows: n, Loss: loss / n, Base: base / n, LossSD: sd(loss, square), GainSD: sd(base-loss, gain2)}
		if lo, hi := s.LossInterval(); lo < 1 && 1 < hi {
			holds++
		}
		switch s.Verdict() {
		case 1:
			better++
		case -1:
			worse++
		}
	}
	most := 4 * math.Sqrt(0.05*0.95/draws)
	if math.Abs(float64(holds)/draws-0.95) > most || math.Abs(float64(better+worse)/draws-0.05) > most || min(better, worse) < draws/80 {
		t.Error(holds, better, worse)
	}
	kerneltest.Close(t, "explained", Skill{Loss: 1, Base: 4}.Explained(), 0.75, tol)
}

// Four standard errors are passed by chance in three of 100,000 draws of one side.
func TestBeyondChance(t *testing.T) {
	se := ShareError(0.2, 400)
	kerneltest.Close(t, "standard error", se, 0.02, tol)
	if BeyondChance(0.079, se) || !BeyondChance(0.081, se) || BeyondChance(-1, se) {
		t.Error("the bound is not at 4 standard errors above 0")
	}
}

// A share of more than there are, or of none, has no interval.
func TestNoShare(t *testing.T) {
	for _, c := range [][2]float64{{3, 2}, {-1, 3}, {math.NaN(), 3}, {0, math.NaN()}} {
		if lower, upper := ShareInterval(c[0], c[1]); !math.IsNaN(lower) || !math.IsNaN(upper) {
			t.Errorf("%v of %v: %v to %v", c[0], c[1], lower, upper)
		}
	}
}

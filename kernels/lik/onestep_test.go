package lik

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// Responses of the law are never said to vary more than it allows, however wide their predictors
// were, and though the first rows were predicted by a filter that knew nothing; those whose rates
// vary besides are, also where a few of them are far off all others.
func TestOneStep(t *testing.T) {
	src := rand.NewPCG(9, 1)
	rng := rand.New(src)
	for _, c := range []struct {
		family      string
		mean, extra float64 // of the predictor; its deviation besides
		said        bool
	}{
		{"poisson", 2, 0, false}, {"poisson", -3, 0, false}, {"poisson", 2, 0.7, true}, {"poisson", 0, 1.5, true},
		{"binomial", 0, 0, false}, {"binomial", -3, 0, false}, {"binomial", 0, 0.8, true}, {"binomial", -3, 1.5, true},
	} {
		l := mustNew(t, c.family, "", Params{})
		const sets = 300
		said := 0
		for range sets {
			var parts [2]*Fixed
			var counts [2]*Overdispersion
			for k := range parts {
				parts[k], counts[k] = NewFixed(l), NewOverdispersion(0, 0)
			}
			for i := range 500 {
				m, v := c.mean+0.5*rng.NormFloat64(), math.Exp(2*rng.NormFloat64()-7)
				s := m + math.Sqrt(v)*rng.NormFloat64() + c.extra*rng.NormFloat64()
				if i < 4 { // nobody foresaw it
					s += 0.7
				}
				if c.family == "poisson" {
					counts[i%2].Observe(Obs{Y: distuv.Poisson{Lambda: math.Exp(s), Src: src}.Rand(), Weight: 1}, m, v)
					continue
				}
				n := float64(1 + i%20)
				parts[i%2].Observe(l, Obs{Y: distuv.Binomial{N: n, P: 1 / (1 + math.Exp(-s)), Src: src}.Rand(), Trials: n, Weight: 1}, m, v)
			}
			note := ""
			if c.family == "poisson" {
				counts[0].Merge(counts[1])
				note = counts[0].far.Note(l)
			} else {
				f := parts[0].Clone()
				f.Merge(parts[1])
				note = f.Note(l)
			}
			if note != "" {
				said++
			}
		}
		if c.said && said < sets*95/100 || !c.said && said > 0 {
			t.Errorf("%+v: said of %d sets of %d", c, said, sets)
		}
	}
}

// A row that is far beyond all others counts for mostFar of its variances: it hides nothing, and is
// nothing by itself.
func TestOneStepFar(t *testing.T) {
	l := mustNew(t, "poisson", "", Params{})
	d, one := NewOverdispersion(0, 0), NewOverdispersion(0, 0)
	for i := range 400 {
		y := 10 * float64(i%2*2) // 0 and 20 about a mean of 10: squares of 10 times the variance
		if i == 9 {
			y = 1e5
		}
		d.Observe(Obs{Y: y, Weight: 1}, math.Log(10), 0)
		if i != 9 {
			y = 10 + math.Sqrt(10)*float64(i%2*2-1)
		}
		one.Observe(Obs{Y: y, Weight: 1}, math.Log(10), 0)
	}
	const want = "the counts vary 10 times as much as poisson allows (Pearson dispersion of the one-step predictions, each 16 at most), so that the weights' standard deviations are too small: family 'negbinomial' has overdispersion"
	if got := d.Note(l); got != want {
		t.Error(got)
	}
	if got := one.Note(l); got != "" {
		t.Error(got)
	}
}

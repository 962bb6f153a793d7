package gp

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
)

// tableOf is up to 40 rows of one or two inputs in some unit, about a curve of some
// length and size, with noise of some size and a level of some height.
func tableOf(rnd *rand.Rand, family string) problem {
	n, d := 12+rnd.IntN(29), 1+rnd.IntN(2)
	unit := math.Exp(3 * rnd.NormFloat64())
	size := math.Exp(1.5 * rnd.NormFloat64())
	noise := size * math.Exp(1.5*rnd.NormFloat64()-1)
	wave, level := math.Exp(0.7*rnd.NormFloat64()), size*rnd.NormFloat64()
	if family != "gaussian" && family != "studentt" {
		size, level = math.Exp(0.5*rnd.NormFloat64()), rnd.NormFloat64()
	}
	p := problem{x: dense.New(n, d), y: make([]float64, n)}
	if family == "binomial" {
		p.trials = make([]float64, n)
	}
	for i := range n {
		f := level
		for j := range d {
			u := 4 * rnd.Float64()
			p.x.Set(i, j, unit*u)
			f += size * math.Sin(wave*u+float64(j))
		}
		switch family {
		case "gaussian":
			p.y[i] = f + noise*rnd.NormFloat64()
		case "studentt":
			p.y[i] = f + noise*rnd.NormFloat64()
			if rnd.IntN(6) == 0 {
				p.y[i] = f + 20*noise*rnd.NormFloat64()
			}
		case "bernoulli":
			if rnd.Float64() < 1/(1+math.Exp(-f)) {
				p.y[i] = 1
			}
		case "binomial":
			p.trials[i] = float64(50 + rnd.IntN(701))
			for range int(p.trials[i]) {
				if rnd.Float64() < 1/(1+math.Exp(-f)) {
					p.y[i]++
				}
			}
		case "gamma":
			p.y[i] = math.Exp(min(f, 5)) * (rnd.ExpFloat64() + rnd.ExpFloat64())
		default:
			for a, mu := rnd.ExpFloat64(), math.Exp(min(f, 5)); a < mu; a += rnd.ExpFloat64() {
				p.y[i]++
			}
		}
	}
	return p
}

// Learning never ends below the best of a grid over lengthscale and signal variance, and
// over the likelihood's own parameter besides, and says that it converged. The rows of
// yes and no are not nearly independent there, see mostUnits.
func TestLearningTables(t *testing.T) {
	seeds, lengths, signals, others := []uint64{20, 54, 56}, 8, 7, 5
	if testing.Short() {
		seeds, lengths, signals, others = []uint64{56}, 8, 6, 5
	}
	for _, family := range []string{"gaussian", "bernoulli", "binomial", "poisson", "negbinomial", "gamma", "studentt"} {
		l := likelihood(t, family, "", 1, 2)
		_, dispersed := l.(lik.Dispersed)
		_, shaped := l.(lik.Shaped)
		for _, seed := range seeds {
			p := tableOf(rand.New(rand.NewPCG(seed, 99)), family)
			o := Options{Kernel: Kernels[seed%4], AutoLengthscale: true, AutoSignalVariance: true, AutoMean: seed%2 == 0, AutoDispersion: dispersed, AutoShape: shaped && !dispersed}
			got, err := Fit(context.Background(), l, p.x, p.y, nil, nil, p.trials, o)
			if err != nil {
				t.Errorf("%s, table %d: %v", family, seed, err)
				continue
			}
			if !got.Converged {
				t.Errorf("%s, table %d: %s", family, seed, got.Status)
			}
			k, err := o.check(l)
			if err != nil {
				t.Fatal(err)
			}
			c := newClimber(newSearch(&data{mode.Data{Lik: l, Y: p.y, Trials: p.trials}, p.x, nil}, newGeometry(k, p.x), o), o)
			c.starts()
			if family == "bernoulli" && c.free[logLengthscale] {
				c.lo[logLengthscale] = c.neighbour() + math.Log(4)
			}
			values := func(k, m int, own float64) (v []float64) {
				if !c.free[k] {
					return []float64{own}
				}
				for i := range m {
					v = append(v, math.Exp(c.lo[k]+(c.hi[k]-c.lo[k])*float64(i)/float64(m-1)))
				}
				return v
			}
			for _, o.Lengthscale = range values(logLengthscale, lengths, got.Lengthscale) {
				for _, o.SignalVariance = range values(logSignal, signals, got.SignalVariance) {
					for _, dispersion := range values(logDispersion, others, 1) {
						for _, shape := range values(logShape, others, 2) {
							q, err := Fit(context.Background(), likelihood(t, family, "", dispersion, shape), p.x, p.y, nil, nil, p.trials,
								Options{Kernel: o.Kernel, Lengthscale: o.Lengthscale, SignalVariance: o.SignalVariance, Mean: got.Mean})
							if err == nil && q.Converged && !(got.LogEvidence > q.LogEvidence-1e-3) {
								t.Fatalf("%s, table %d (%d rows, %s): log evidence %v at lengthscale %.3g, signal variance %.3g, dispersion %.3g, shape %.3g (%s), but %v at %.3g, %.3g, %.3g, %.3g (%s)",
									family, seed, len(p.y), o.Kernel, got.LogEvidence, got.Lengthscale, got.SignalVariance, got.Dispersion, got.Shape, got.Status,
									q.LogEvidence, q.Lengthscale, q.SignalVariance, q.Dispersion, q.Shape, q.Status)
							}
						}
					}
				}
			}
		}
	}
}

// One no among many yes: Laplace's evidence rises with the variance of independent rows,
// and the status says that this has no end.
func TestNoEndOfRange(t *testing.T) {
	p := tableOf(rand.New(rand.NewPCG(8, 99)), "bernoulli")
	l := likelihood(t, "bernoulli", "", 1, 0)
	o := Options{AutoLengthscale: true, AutoSignalVariance: true, AutoMean: true}
	f := p.fit(t, l, o)
	if want := "signal_variance = 100 is at the end of its range: the data do not bound it"; f.Status != want || !f.Converged {
		t.Errorf("status %q, want %q", f.Status, want)
	}
	o.SignalVariance = 400 // a variance given is in the range
	if g := p.fit(t, l, o); !(g.LogEvidence > f.LogEvidence) {
		t.Errorf("log evidence %v, but %v in a smaller range", g.LogEvidence, f.LogEvidence)
	}
}

package lik

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// learners are families with D, the dispersion or 1/shape, as their Learners have it.
var learners = map[string]func(t *testing.T, d float64) Likelihood{
	"gamma":    func(t *testing.T, d float64) Likelihood { return made(t, "gamma", Params{Shape: 1 / d}) },
	"studentt": func(t *testing.T, d float64) Likelihood { return made(t, "studentt", Params{Dispersion: d, Shape: 4}) },
}

func made(t *testing.T, family string, p Params) Likelihood {
	t.Helper()
	l, err := New(family, "", p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func scaleOf(t *testing.T, l Likelihood, n int64) (Learner, *scale) {
	t.Helper()
	g, err := NewLearner(l, n)
	if err != nil {
		t.Fatal(err)
	}
	switch g := g.(type) {
	case *gammaLearner:
		return g, &g.scale
	case *studentLearner:
		return g, &g.scale
	}
	t.Fatalf("%T", g)
	return nil, nil
}

// The score is the slope of the log predictive density in log D.
func TestLearnerScore(t *testing.T) {
	for family, with := range learners {
		for _, d := range []float64{0.003, 0.4, 2} {
			for _, c := range [][2]float64{{0.3, 0}, {-0.2, 0.01}, {0.1, 0.25}, {0.5, 4}} {
				for _, y := range []float64{0.7, 1.3, 2.9} {
					m, v := c[0], c[1]
					o := Obs{Y: y, Weight: 1, Trials: 1}
					const h = 1e-3
					want := (with(t, d*math.Exp(h)).Moments(o, m, v).LogZ - with(t, d*math.Exp(-h)).Moments(o, m, v).LogZ) / (2 * h)
					g, _ := scaleOf(t, with(t, d), 0)
					got := g.(interface {
						score(y float64, t Tilted, m, v float64) float64
					}).score(y, g.Moments(o, m, v), m, v)
					// The difference has an error of h²/6 third derivatives, and of 1e-9/h of log Z.
					kerneltest.Close(t, family, got, want, kerneltest.Tol{Rel: 1e-5, Abs: 2e-6})
				}
			}
		}
	}
}

// At known predictors the score has mean 0 and, as its variance, the information.
func TestLearnerInformation(t *testing.T) {
	for family, with := range learners {
		for _, d := range []float64{0.002, 0.009, 0.011, 0.3, 1, 5} {
			l := with(t, d)
			g, s := scaleOf(t, l, 0)
			g.Learn(Obs{Y: 1, Weight: 1}, l.Moments(Obs{Y: 1, Weight: 1}, 0, 0), 0, 0)
			each := s.info
			// Over x = log y for gamma, y = √D sinh(x) for studentt: both have tails of exp(-|x|) or less.
			at, lo, hi := func(x float64) (y, slope float64) { return math.Sqrt(d) * math.Sinh(x), math.Sqrt(d) * math.Cosh(x) }, -30.0, 30.0
			if family == "gamma" {
				at, lo, hi = func(x float64) (y, slope float64) { return math.Exp(x), math.Exp(x) }, -60*d-12*math.Sqrt(d), 12*math.Sqrt(d)
			}
			mean, square := 0.0, 0.0
			for part := range 40 {
				width := (hi - lo) / 40
				from := lo + width*float64(part)
				sum := func(of func(score float64) float64) float64 {
					return quad.Fixed(func(x float64) float64 {
						y, slope := at(x)
						o := Obs{Y: y, Weight: 1}
						logp, _, _ := l.LogLik(o, 0)
						const h = 1e-4
						up, _, _ := with(t, d*math.Exp(h)).LogLik(o, 0)
						down, _, _ := with(t, d*math.Exp(-h)).LogLik(o, 0)
						return math.Exp(logp) * slope * of((up-down)/(2*h))
					}, from, from+width, 24, quad.Legendre{}, 0)
				}
				mean += sum(func(g float64) float64 { return g })
				square += sum(func(g float64) float64 { return g * g })
			}
			kerneltest.Close(t, family+" mean of the score", mean, 0, kerneltest.Tol{Abs: 1e-6})
			// A row of information i leaves that of the rows before as it is, up to the change of D, on
			// which that of gamma depends.
			kerneltest.Close(t, family+" information", each, square, kerneltest.Tol{Rel: 1e-5})
		}
	}
}

// A row of weight 3 teaches what three rows do that were each predicted as it was, one of weight 1/2
// half of a row.
func TestLearnerWeights(t *testing.T) {
	for family, with := range learners {
		for _, w := range []float64{3, 0.5} {
			l := with(t, 0.4)
			heavy, a := scaleOf(t, l, 1e6)
			one, b := scaleOf(t, l, 1e6)
			o := Obs{Y: 1.9, Weight: w}
			heavy.Learn(o, heavy.Moments(o, 0.3, 0.7), 0.3, 0.7)
			o.Weight = 1
			one.Learn(o, one.Moments(o, 0.3, 0.7), 0.3, 0.7)
			// Of so many rows a step is as good as its slope: the digits of the change remain.
			kerneltest.Close(t, family+" change", (a.d-0.4)/w, b.d-0.4, kerneltest.Tol{Rel: 1e-5})
			kerneltest.Close(t, family+" rows", a.rows-1e6, w, kerneltest.Tol{Rel: 1e-9})
		}
	}
}

// rowsOf draws responses about known predictors.
func rowsOf(l Likelihood, n int, seed uint64) (ys, ms []float64) {
	src := rand.New(rand.NewPCG(seed, 5))
	for range n {
		m := src.NormFloat64()
		ms = append(ms, m)
		ys = append(ys, l.(Distribution).Draw(m, 1, src))
	}
	return ys, ms
}

// mostLikely returns where at, of a logarithm, is largest, within 1 of near, and its standard
// deviation by the curvature there.
func mostLikely(at func(log float64) float64, near float64) (log, sd float64) {
	lo, hi := near-1, near+1
	for hi-lo > 1e-5 {
		a, b := lo+(hi-lo)/3, hi-(hi-lo)/3
		if at(a) < at(b) {
			lo = a
		} else {
			hi = b
		}
	}
	const h = 0.01
	return lo, h / math.Sqrt(2*at(lo)-at(lo+h)-at(lo-h))
}

// From any start, D comes to its most likely value within a quarter of its deviation, which is that of
// the curvature there. Beliefs that follow are raised by no more than its change.
func TestLearnerMostLikely(t *testing.T) {
	for family, with := range learners {
		for _, d := range []float64{0.01, 0.3, 3} {
			for _, begin := range []float64{0.1, 1} {
				ys, ms := rowsOf(with(t, d), 3000, 11)
				g, s := scaleOf(t, with(t, begin), 0)
				scale := 1.0
				for i, y := range ys {
					o := Obs{Y: y, Weight: 1}
					g.Learn(o, g.Moments(o, ms[i], 0), ms[i], 0)
					scale *= g.Follow(1.05)
				}
				at := func(log float64) (sum float64) {
					l := with(t, math.Exp(log))
					for i, y := range ys {
						logp, _, _ := l.LogLik(Obs{Y: y, Weight: 1}, ms[i])
						sum += logp
					}
					return sum
				}
				lo, sd := mostLikely(at, math.Log(d))
				// The start counts as much as rows of information FirstShape with such a D, and a little more
				// while the shape is small: the least score of gamma is 0.9 of its information there.
				start := 1.2 * math.Max(begin/s.d-1, 0) * FirstShape / s.info / sd
				if off := (math.Log(s.d) - lo) / sd; math.Abs(off) > 0.25+start {
					t.Errorf("%s: D %v from %v: %.4g, most likely %.4g: off by %.2g deviations", family, d, begin, s.d, math.Exp(lo), off)
				}
				kerneltest.Close(t, family+" deviation", 1/math.Sqrt(g.LogPrecision()), sd, kerneltest.Tol{Rel: 0.06})
				if most := begin / s.d; !(scale <= 1.06*most && scale > 0.05*most) {
					t.Errorf("%s: D %v from %v: beliefs were scaled by %v", family, d, begin, scale)
				}
			}
		}
	}
}

// The precision of few rows that were absorbed under a far larger D is raised by mostRaised at most,
// later again as others come.
func TestLearnerRaisesLittle(t *testing.T) {
	l := learners["studentt"](t, 1)
	g, _ := scaleOf(t, l, 0)
	at, raised := 0.0, 1.0
	for i := range 40 {
		o := Obs{Y: 1e-3 * float64(i%3-1), Weight: 1}
		g.Learn(o, g.Moments(o, 0, 0), 0, 0)
		lambda := g.Follow(1.05)
		if raised = (1 + (raised-1)*at/(at+1)) * lambda; raised > mostRaised*(1+1e-12) {
			t.Fatalf("row %d: raised by %v", i, raised)
		}
		at++
	}
}

// A run continues from what it keeps, parts are merged, and a dispersion follows the unit of the
// responses.
func TestLearnerContinues(t *testing.T) {
	for family, with := range learners {
		ys, ms := rowsOf(with(t, 0.2), 400, 3)
		learn := func(g Learner, from, to int, unit float64) {
			for i := from; i < to; i++ {
				o, m, v := Obs{Y: ys[i], Weight: 1}, ms[i], 0.01
				if family == "studentt" {
					o.Y, m, v = o.Y*unit, m*unit, v*unit*unit
				}
				g.Learn(o, g.Moments(o, m, v), m, v)
				g.Follow(1.05)
			}
		}
		whole, of := scaleOf(t, with(t, 1), 0)
		learn(whole, 0, 400, 1)

		half, _ := scaleOf(t, with(t, 1), 0)
		learn(half, 0, 150, 1)
		kept, rows := half.Kept()
		rest, of2 := scaleOf(t, with(t, 1), 0)
		rest.Restore(kept, rows)
		other := half.CloneLearner()
		learn(rest, 150, 400, 1)
		kerneltest.Close(t, family+" continued", of2.d, of.d, kerneltest.Tol{Rel: 1e-12})
		kerneltest.Close(t, family+" continued believed", of2.believed, of.believed, kerneltest.Tol{Rel: 1e-12})
		kerneltest.Close(t, family+" continued raised", of2.raised, of.raised, kerneltest.Tol{Rel: 1e-12})

		part, begun := scaleOf(t, with(t, 1), 0)
		learn(part, 150, 400, 1)
		before := begun.believed
		was := other.(interface{ kept() KeptLearner }).kept()
		if was.Believed == 0 {
			was.Believed = was.At
		}
		lambda := other.Merge(part)
		var merged *scale
		switch o := other.(type) {
		case *gammaLearner:
			merged = &o.scale
		case *studentLearner:
			merged = &o.scale
		}
		if off := math.Abs(math.Log(merged.d/of.d)) * math.Sqrt(of.LogPrecision()); off > 0.3 {
			t.Errorf("%s merged: %v, in one run %v: %.2g deviations", family, merged.d, of.d, off)
		}
		kerneltest.Close(t, family+" merged rows", merged.rows, 400, kerneltest.Tol{})
		kerneltest.Close(t, family+" merged information", merged.info, of.info, kerneltest.Tol{Rel: 0.03})
		kerneltest.Close(t, family+" scale of the first part", lambda[0], was.Believed/merged.d, kerneltest.Tol{Rel: 1e-12})
		kerneltest.Close(t, family+" scale of the second part", lambda[1], before/merged.d, kerneltest.Tol{Rel: 1e-12})
		kerneltest.Close(t, family+" scale of the start", lambda[2], 1/merged.d, kerneltest.Tol{Rel: 1e-12})

		cast, in := scaleOf(t, with(t, 1), 0)
		learn(cast, 0, 150, 1)
		cast.Recast(7)
		learn(cast, 150, 400, 7)
		want := of.d
		if family == "studentt" {
			want *= 49
		}
		kerneltest.Close(t, family+" in another unit", in.d, want, kerneltest.Tol{Rel: 1e-9})
	}
}

package engine_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
)

// scales are families with a dispersion or shape that a stream learns, with rows of levelled about
// their predictors.
var scales = map[string]func(rng *rand.Rand, s float64) float64{
	"studentt": func(rng *rand.Rand, s float64) float64 {
		return s + 0.5*distuv.StudentsT{Sigma: 1, Nu: 4, Src: rng}.Rand()
	},
	"gamma": func(rng *rand.Rand, s float64) float64 {
		return math.Exp(s) * distuv.Gamma{Alpha: 5, Beta: 5, Src: rng}.Rand()
	},
}

func newScaled(family string, n, levels int, sd float64, seed uint64) *levelled {
	d, rng := newLevelled(n, levels, sd, seed), rand.New(rand.NewPCG(seed, 3))
	for i := range d.y {
		k := 0.0
		for _, c := range d.g[i] + d.h[i] { // a predictor that the columns determine
			k = math.Mod(7*k+float64(c), 11)
		}
		d.y[i] = scales[family](rng, 0.3*d.x[i]+sd*(k-5)/3)
	}
	return d
}

// ofFamily are settings of a newcomer who names the family.
func ofFamily(family string, also func(*option.Settings)) func(*option.Settings) {
	return func(s *option.Settings) {
		s.Family = family
		if also != nil {
			also(s)
		}
	}
}

// scaleOf is D: the dispersion, or 1/shape.
func scaleOf(f *kernels.Fit) float64 {
	if f.Family == "gamma" {
		return 1 / f.Shape
	}
	return f.Dispersion
}

// A stream without options learns D as laplace does, which has the rows: within half of its
// deviation, that of a normal distribution of as many rows of information i. Beliefs are those of
// laplace under that D, whatever their form.
func TestStreamScale(t *testing.T) {
	each := map[string]float64{"studentt": 0.5 * 4 / 7, "gamma": 0.53}
	for family := range scales {
		for _, n := range []int{60, 400, 3000} {
			d := newScaled(family, n, 3, 0.6, 8)
			for _, covariance := range []string{"arrowhead", "full", "lowrank"} {
				f := d.fit(t, "adf", 0, n, ofFamily(family, func(s *option.Settings) { s.Options.Covariance = covariance }))
				own := func(d float64) func(*option.Settings) {
					return ofFamily(family, func(s *option.Settings) {
						s.Standardize, s.Params.Dispersion = kernels.Given(true), d
						if s.Params.Shape = 4; family == "gamma" {
							s.Params.Dispersion, s.Params.Shape = 0, 1/d
						}
					})
				}
				free := d.fit(t, "laplace", 0, n, ofFamily(family, func(s *option.Settings) {
					s.Standardize, s.Options.AutoDispersion, s.Options.AutoShape = kernels.Given(true), family == "studentt", family == "gamma"
					s.Params.Shape = map[string]float64{"studentt": 4}[family]
				}))
				name := family + " " + covariance
				sd := 1 / math.Sqrt(float64(n)*each[family])
				if off := math.Log(scaleOf(f)/scaleOf(free)) / sd; math.Abs(off) > 0.6 {
					t.Errorf("%s, %d rows: D %.4g, by laplace %.4g: off by %.2f deviations", name, n, scaleOf(f), scaleOf(free), off)
				}
				given := d.fit(t, "laplace", 0, n, own(scaleOf(f)))
				for k, w := range given.Beliefs {
					sd := math.Sqrt(w.Variance)
					if off := (f.Beliefs[k].Mean - w.Mean) / sd; math.Abs(off) > 0.5 {
						t.Errorf("%s, %d rows: mean of %s is off by %.2f deviations", name, n, w.Feature, off)
					}
					rel := 0.12
					if n < 100 { // early rows count for as much as later ones up to a limit
						rel = 0.25
					}
					kerneltest.Close(t, name+": deviation of "+w.Feature, math.Sqrt(f.Beliefs[k].Variance)/sd, 1, kerneltest.Tol{Rel: rel})
				}
				// newScaled's predictors are no sum over g and h, and rows enough say so. A low rank cannot
				// lose precision, as heavy tails have it.
				together := n > 60 && strings.HasPrefix(f.Status, "residuals follow columns g and h together") && !strings.Contains(f.Status, "; ")
				if covariance != "lowrank" && f.Status != "ok" && !together {
					t.Errorf("%s, %d rows: %s", name, n, f.Status)
				}
			}
		}
	}
}

// The unit of the responses changes nothing: of studentt also where they are counted from, of gamma
// the scale, which its intercept's prior notices.
func TestStreamScaleUnit(t *testing.T) {
	d := newScaled("studentt", 300, 3, 0.6, 5)
	want := d.fit(t, "adf", 0, 300, ofFamily("studentt", nil))
	for _, u := range [][2]float64{{1e-6, 0}, {1e7, 3e8}, {30, -1000}} {
		f := d.in(u[0], u[1]).fit(t, "adf", 0, 300, ofFamily("studentt", nil))
		kerneltest.Close(t, "dispersion", f.Dispersion/u[0]/u[0], want.Dispersion, kerneltest.Tol{Rel: 1e-7})
		for k, w := range want.Beliefs {
			mean := w.Mean * u[0]
			if w.Feature == kernels.Intercept {
				mean += u[1]
			}
			sd := math.Sqrt(w.Variance) * u[0]
			kerneltest.Close(t, "mean of "+w.Feature, f.Beliefs[k].Mean/sd, mean/sd, kerneltest.Tol{Abs: 1e-6})
			kerneltest.Close(t, "deviation of "+w.Feature, math.Sqrt(f.Beliefs[k].Variance), sd, kerneltest.Tol{Rel: 1e-7})
		}
	}
	g := newScaled("gamma", 300, 3, 0.6, 5)
	of, small := g.fit(t, "adf", 0, 300, ofFamily("gamma", nil)), g.in(0.1, 0).fit(t, "adf", 0, 300, ofFamily("gamma", nil))
	kerneltest.Close(t, "shape", small.Shape, of.Shape, kerneltest.Tol{Rel: 0.02})
}

// One response a million times too far does not move a studentt stream by more than a deviation and
// a half, though it changes its unit: among the first rows, it takes information of them with it.
func TestStreamScaleOutlier(t *testing.T) {
	d := newScaled("studentt", 300, 3, 0.6, 5)
	want := d.fit(t, "adf", 0, 300, ofFamily("studentt", nil))
	for _, at := range []int{0, 1, 20, 150, 299} {
		far := d.in(1, 0)
		far.y[at] = 1e6
		f := far.fit(t, "adf", 0, 300, ofFamily("studentt", nil))
		if off := math.Log(f.Dispersion / want.Dispersion); math.Abs(off) > 0.3 {
			t.Errorf("row %d: dispersion %.4g, without %.4g", at, f.Dispersion, want.Dispersion)
		}
		for k, w := range want.Beliefs {
			if off := (f.Beliefs[k].Mean - w.Mean) / math.Sqrt(f.Beliefs[k].Variance); w.Feature == "x" && math.Abs(off) > 1.5 {
				t.Errorf("row %d: mean of %s is off by %.2f deviations", at, w.Feature, off)
			}
			if ratio := f.Beliefs[k].Variance / w.Variance; w.Feature == "x" && at > 100 && ratio > 1.1 {
				t.Errorf("row %d: variance of %s is %.3g times as large", at, w.Feature, ratio)
			}
		}
	}
}

// A stream that stops and goes on has the answer of one that did not; parts of it, as states or as
// fits, nearly so, also over a common start.
func TestStreamScaleParts(t *testing.T) {
	for family := range scales {
		d := newScaled(family, 3000, 3, 0.6, 2)
		fit := func(start *kernels.Fit, lo, hi int) *kernels.Fit {
			return d.fit(t, "adf", lo, hi, ofFamily(family, continuing(t, start)))
		}
		want := fit(nil, 0, 3000)
		check := func(what string, f *kernels.Fit, far, rel float64) {
			kerneltest.Close(t, family+", "+what+": D", scaleOf(f), scaleOf(want), kerneltest.Tol{Rel: rel})
			for k, w := range want.Beliefs {
				sd := math.Sqrt(w.Variance)
				kerneltest.Close(t, family+", "+what+": mean of "+w.Feature, f.Beliefs[k].Mean/sd, w.Mean/sd, kerneltest.Tol{Abs: far})
				kerneltest.Close(t, family+", "+what+": deviation of "+w.Feature, math.Sqrt(f.Beliefs[k].Variance)/sd, 1, kerneltest.Tol{Rel: rel})
			}
		}
		for _, cut := range []int{1, 7, 40, 1000} {
			check("continued", fit(fit(nil, 0, cut), cut, 3000), 1e-9, 1e-9)
		}
		merged := func(start *kernels.Fit, cuts ...int) *kernels.Fit {
			var all engine.Fitter
			for k, lo := range cuts[:len(cuts)-1] {
				f := d.feed(t, "adf", lo, cuts[k+1], ofFamily(family, continuing(t, start)))
				if all == nil {
					all = f
				} else if err := all.Merge(context.Background(), f); err != nil {
					t.Fatal(err)
				}
			}
			return fitted(t, all)
		}
		fits := func(start *kernels.Fit, cuts ...int) *kernels.Fit {
			var parts []*kernels.Fit
			for k, lo := range cuts[:len(cuts)-1] {
				parts = append(parts, fit(start, lo, cuts[k+1]))
			}
			f, err := kernels.MergeFits(context.Background(), parts, start, adf.MergeArrowheads)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		start := fit(nil, 0, 500)
		check("states", merged(nil, 0, 1000, 1100, 3000), 0.3, 0.05)
		check("states over a start", merged(start, 500, 1500, 1600, 3000), 0.3, 0.05)
		check("fits", fits(nil, 0, 1000, 1100, 3000), 0.3, 0.08)
		check("fits over a start", fits(start, 500, 1500, 1600, 3000), 0.3, 0.08)
	}
}

// A shape or dispersion that is given stays, and so does the default under a prior of the user's own:
// the algorithm as published.
func TestStreamScaleGiven(t *testing.T) {
	d := newScaled("gamma", 200, 3, 0.6, 2)
	prior := func(s *option.Settings) { s.Prior.Variance = 2 }
	for what, c := range map[string]struct {
		set  func(*option.Settings)
		want float64
	}{
		"shape 2":        {func(s *option.Settings) { s.Params.Shape = 2 }, 2},
		"prior":          {prior, 1},
		"shape 2, prior": {func(s *option.Settings) { prior(s); s.Params.Shape = 2 }, 2},
	} {
		if f := d.fit(t, "adf", 0, 200, ofFamily("gamma", c.set)); f.Shape != c.want || len(kernels.Parameters(f.Learnt)) > 0 {
			t.Errorf("%s: shape %v, learnt %v", what, f.Shape, f.Learnt)
		}
	}
	auto := d.fit(t, "adf", 0, 200, ofFamily("gamma", func(s *option.Settings) { prior(s); s.Options.AutoShape = true }))
	if len(kernels.Parameters(auto.Learnt)) != 1 || auto.Shape == 1 {
		t.Errorf("prior and 'auto': shape %v, learnt %v", auto.Shape, auto.Learnt)
	}
	s := newScaled("studentt", 200, 3, 0.6, 2)
	if f := s.fit(t, "adf", 0, 200, ofFamily("studentt", func(s *option.Settings) { s.Params.Dispersion = 0.3 })); math.Abs(f.Dispersion-0.3) > 1e-12 {
		t.Errorf("dispersion %v, given 0.3", f.Dispersion)
	}
	if f := s.fit(t, "adf", 0, 200, ofFamily("studentt", prior)); f.Dispersion != 1 {
		t.Errorf("dispersion %v under a prior", f.Dispersion)
	}
}

// Prior variances of a studentt stream are near those of laplace, which has the rows.
func TestStreamScaleVariances(t *testing.T) {
	kerneltest.Slow(t)
	for _, n := range []int{200, 1000} {
		for _, sd := range []float64{0.1, 0.5, 1.5} {
			for seed := range uint64(3) {
				d := newScaled("studentt", n, 30, sd, seed)
				f := d.fit(t, "adf", 0, n, ofFamily("studentt", nil))
				free := d.fit(t, "laplace", 0, n, ofFamily("studentt", func(s *option.Settings) {
					s.Standardize, s.Options.AutoDispersion, s.Options.AutoPrior, s.Params.Shape = kernels.Given(true), true, true, 4
				}))
				off := math.Log(columnVariance(f, "g") / columnVariance(free, "g"))
				if sd > 0.1 && math.Abs(off) > math.Log(4) || off > math.Log(30) {
					t.Errorf("%d rows, deviation %v, set %d: variance %.3g, by laplace %.3g", n, sd, seed, columnVariance(f, "g"), columnVariance(free, "g"))
				}
			}
		}
	}
}

// A level with one row far from all others says next to nothing of where the level is: counted among
// those that are known, it made the variance 10,346 in the first set and 152,136 in the second.
func TestStreamScaleFarLevel(t *testing.T) {
	for _, c := range []struct {
		n    int
		nu   float64
		seed uint64
	}{{200, 4, 188}, {100, 1.5, 121}} {
		d, rng := newLevelled(c.n, 30, 1.5, c.seed), rand.New(rand.NewPCG(c.seed, 77))
		for i := range d.y {
			if rng.Float64() < 0.3 {
				d.y[i] += distuv.StudentsT{Sigma: 3, Nu: c.nu, Src: rng}.Rand()
			}
		}
		if v := columnVariance(d.fit(t, "adf", 0, c.n, ofFamily("studentt", nil)), "g"); !(v < 60) {
			t.Errorf("set %d: variance %.6g", c.seed, v)
		}
	}
}

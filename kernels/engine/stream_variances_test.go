package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// levelled are gaussian responses to a number and two columns of levels.
type levelled struct {
	x, y []float64
	g, h []string
}

func newLevelled(n, levels int, sd float64, seed uint64) *levelled {
	rng := rand.New(rand.NewPCG(seed, 41))
	d := &levelled{}
	g, h := make([]float64, levels), make([]float64, 6)
	for k := range g {
		g[k] = sd * rng.NormFloat64()
	}
	for k := range h {
		h[k] = 0.8 * rng.NormFloat64()
	}
	for range n {
		x, k, l := rng.NormFloat64(), rng.IntN(levels), rng.IntN(6)
		d.x, d.g, d.h = append(d.x, x), append(d.g, fmt.Sprint(k)), append(d.h, fmt.Sprint(l))
		d.y = append(d.y, 0.3*x+g[k]+h[l]+rng.NormFloat64())
	}
	return d
}

// in returns the rows with responses in another unit.
func (d *levelled) in(scale, shift float64) *levelled {
	c := *d
	c.y = slices.Clone(d.y)
	for i := range c.y {
		c.y[i] = c.y[i]*scale + shift
	}
	return &c
}

// feed returns a method's state after rows lo to hi; set changes the settings, nil for those that a
// newcomer has.
func (d *levelled) feed(t *testing.T, method string, lo, hi int, set func(*option.Settings)) engine.Fitter {
	t.Helper()
	s := option.Defaults()
	s.Family = "gaussian"
	if set != nil {
		set(s)
	}
	m, err := engine.Find(method)
	if err != nil {
		t.Fatal(err)
	}
	model, err := m.Model(s, false, false)
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.New(context.Background(), model)
	if err != nil {
		t.Fatal(err)
	}
	src, err := (&rows.Table{X: rows.Fields(rows.Numbers("x", d.x[lo:hi]), rows.Texts("g", d.g[lo:hi]), rows.Texts("h", d.h[lo:hi])), Y: rows.Numbers("y", d.y[lo:hi])}).Source()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.Feed(context.Background(), f, model, option.Fail, 0, hi-lo, &kernels.Batch{}); err != nil {
		t.Fatal(err)
	}
	return f
}

// fit is the fit of feed.
func (d *levelled) fit(t *testing.T, method string, lo, hi int, set func(*option.Settings)) *kernels.Fit {
	t.Helper()
	return fitted(t, d.feed(t, method, lo, hi, set))
}

func fitted(t *testing.T, f engine.Fitter) *kernels.Fit {
	t.Helper()
	r, err := f.Fit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r.Fit
}

// continuing are the settings that continue f, nil for none.
func continuing(t *testing.T, f *kernels.Fit) func(*option.Settings) {
	return func(s *option.Settings) {
		if f == nil {
			return
		}
		if err := s.Continue(f); err != nil {
			t.Fatal(err)
		}
	}
}

// columnVariance is the prior variance of column name of f.
func columnVariance(f *kernels.Fit, name string) float64 {
	k := slices.IndexFunc(f.Columns, func(c kernels.FitColumn) bool { return c.Name == name })
	return f.Columns[k].Variance
}

// A gaussian stream's answer is the posterior under the variances that it has learnt, which have the
// highest posterior density at its noise: laplace has the same beliefs and evidence under them, and
// less under others. A weight more of prior variance 1, a tenth of one here, is part of the density.
// After 512 rows the units of a stream are those of all rows, and its variances have just been learnt.
func TestStreamVariances(t *testing.T) {
	const hold = 0.1
	for _, sd := range []float64{0.05, 0.4, 2} {
		d := newLevelled(512, 25, sd, 7).in(30, 500)
		f := d.fit(t, "adf", 0, 512, nil)
		_, unit, _, _ := f.Covariance.Arrow().Response()
		unit *= unit
		at := []float64{f.Prior.Variance, columnVariance(f, "g"), columnVariance(f, "h")}
		given := func(v []float64) *kernels.Fit {
			return d.fit(t, "laplace", 0, 512, func(s *option.Settings) {
				s.Standardize, s.Options.AutoPrior, s.Params.Dispersion = kernels.Given(true), false, f.Dispersion
				s.Prior.Variance = v[0] / unit
				s.PriorBy = kernels.ColumnPriors{{Column: "g", Variance: v[1] / unit}, {Column: "h", Variance: v[2] / unit}}
			})
		}
		density := func(v []float64) float64 {
			sum := given(v).LogEvidence
			for _, v := range v {
				sum -= 0.5 * hold * (math.Log(v/unit) + unit/v)
			}
			return sum
		}
		want := given(at)
		kerneltest.Close(t, "log evidence", f.LogEvidence, want.LogEvidence, kerneltest.Tol{Abs: 0.02})
		for k, b := range want.Beliefs {
			sdOf := math.Sqrt(b.Variance)
			// Beliefs follow the noise in steps of five per cent.
			kerneltest.Close(t, b.Feature+": mean", f.Beliefs[k].Mean, b.Mean, kerneltest.Tol{Abs: 0.05 * sdOf})
			kerneltest.Close(t, b.Feature+": deviation", math.Sqrt(f.Beliefs[k].Variance), sdOf, kerneltest.Tol{Rel: 0.025})
		}
		best := density(at)
		for k := range at {
			for _, by := range []float64{1.5, 1 / 1.5} {
				other := slices.Clone(at)
				other[k] *= by
				if got := density(other); got > best {
					t.Errorf("levels of deviation %v: group %d has density %v at %v, %v at %v", sd, k, best, at[k], got, other[k])
				}
			}
		}
	}
}

// Learnt variances are those of responses in any unit.
func TestStreamVariancesUnit(t *testing.T) {
	d := newLevelled(400, 25, 0.3, 3)
	want := d.fit(t, "adf", 0, 400, nil)
	for _, c := range [][2]float64{{1e-6, 0}, {1, 1e4}, {1e7, -3e7}} {
		f := d.in(c[0], c[1]).fit(t, "adf", 0, 400, nil)
		what := fmt.Sprintf("y times %g plus %g: ", c[0], c[1])
		kerneltest.Close(t, what+"prior variance", f.Prior.Variance/c[0]/c[0], want.Prior.Variance, kerneltest.Tol{Rel: 1e-4})
		kerneltest.Close(t, what+"prior variance of g", columnVariance(f, "g")/c[0]/c[0], columnVariance(want, "g"), kerneltest.Tol{Rel: 1e-4})
		for k, b := range want.Beliefs {
			mean := f.Beliefs[k].Mean
			if b.Feature == kernels.Intercept {
				mean -= c[1]
			}
			kerneltest.Close(t, what+b.Feature, mean/c[0], b.Mean, kerneltest.Tol{Abs: 1e-4 * math.Sqrt(b.Variance)})
		}
	}
}

// A run that is stopped and continued is the run that was not.
func TestStreamVariancesResume(t *testing.T) {
	for _, levels := range []int{25, 300} {
		d := newLevelled(1500, levels, 0.3, 5).in(1e3, 2e5)
		want := d.fit(t, "adf", 0, 1500, nil)
		if v := columnVariance(want, "g"); !(v < 0.5*want.Dispersion) {
			t.Errorf("%d levels: prior variance %v under a dispersion of %v", levels, v, want.Dispersion)
		}
		var got *kernels.Fit
		for _, cut := range [][2]int{{0, 5}, {5, 30}, {30, 31}, {31, 700}, {700, 1500}} {
			got = d.fit(t, "adf", cut[0], cut[1], continuing(t, got))
		}
		if got.Prior != want.Prior || columnVariance(got, "g") != columnVariance(want, "g") || got.Dispersion != want.Dispersion {
			t.Errorf("%d levels: %+v, %v, dispersion %v; want %+v, %v, %v", levels, got.Prior, columnVariance(got, "g"), got.Dispersion, want.Prior, columnVariance(want, "g"), want.Dispersion)
		}
		kerneltest.Close(t, "log evidence", got.LogEvidence, want.LogEvidence, kerneltest.Tol{Rel: 1e-10})
		for k, b := range want.Beliefs {
			kerneltest.Close(t, b.Feature+", continued", got.Beliefs[k].Mean, b.Mean, kerneltest.Tol{Abs: 1e-9 * math.Sqrt(b.Variance)})
			kerneltest.Close(t, b.Feature+", continued", got.Beliefs[k].Variance, b.Variance, kerneltest.Tol{Rel: 1e-9})
		}
	}
}

// Parts that learnt variances of their own, of responses that each standardised, come to the answer of
// all rows: as states, as fits where these can be multiplied, and over a common start.
func TestStreamVariancesMerge(t *testing.T) {
	for _, levels := range []int{25, 300} {
		d := newLevelled(4000, levels, 0.3, 11).in(50, 1e3)
		want := d.fit(t, "adf", 0, 4000, nil)
		check := func(what string, f *kernels.Fit) {
			t.Helper()
			if f.N != want.N {
				t.Errorf("%s: %d rows, want %d", what, f.N, want.N)
			}
			noise, evidence := 0.02, 4.5
			if levels > 25 { // leaves lose correlations, of which parts have others
				noise, evidence = 0.05, 6
			}
			kerneltest.Close(t, what+": dispersion", f.Dispersion, want.Dispersion, kerneltest.Tol{Rel: noise})
			kerneltest.Close(t, what+": log evidence", f.LogEvidence, want.LogEvidence, kerneltest.Tol{Abs: evidence})
			for k, b := range want.Beliefs {
				sd := math.Sqrt(b.Variance)
				if off := (f.Beliefs[k].Mean - b.Mean) / sd; !(math.Abs(off) < 0.3) {
					t.Errorf("%s: mean of %s is off by %.2f deviations", what, b.Feature, off)
				}
				kerneltest.Close(t, what+": deviation of "+b.Feature, math.Sqrt(f.Beliefs[k].Variance), sd, kerneltest.Tol{Rel: 0.2})
			}
		}
		states := func(start *kernels.Fit, cuts ...int) *kernels.Fit {
			var all engine.Fitter
			for k, lo := range cuts[:len(cuts)-1] {
				f := d.feed(t, "adf", lo, cuts[k+1], continuing(t, start))
				if all == nil {
					all = f
				} else if err := all.Merge(context.Background(), f); err != nil {
					t.Fatal(err)
				}
			}
			return fitted(t, all)
		}
		check(fmt.Sprint(levels, " levels, states"), states(nil, 0, 1500, 1700, 4000))
		start := d.fit(t, "adf", 0, 1000, nil)
		check(fmt.Sprint(levels, " levels, states over a start"), states(start, 1000, 2000, 2100, 4000))
		var parts []*kernels.Fit
		for _, cut := range [][2]int{{1000, 2000}, {2000, 2100}, {2100, 4000}} {
			parts = append(parts, d.fit(t, "adf", cut[0], cut[1], continuing(t, start)))
		}
		merge := func(what string, parts []*kernels.Fit, start *kernels.Fit) {
			merged, err := kernels.MergeFits(context.Background(), parts, start, adf.MergeArrowheads)
			if levels > 25 {
				if !errors.Is(err, kernels.ErrApart) { // level means in units of their own
					t.Errorf("%s: %v, want %v", what, err, kernels.ErrApart)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			check(what, merged)
		}
		merge("fits over a start", parts, start)
		parts = nil
		for _, cut := range [][2]int{{0, 1500}, {1500, 1700}, {1700, 4000}} {
			parts = append(parts, d.fit(t, "adf", cut[0], cut[1], nil))
		}
		merge("fits", parts, nil)
	}
}

// Parts that share variances change those of their start, whose sum of squares goes along: without
// that the evidence over a start of few rows is 4.4 too low.
func TestStreamVariancesShared(t *testing.T) {
	d := newLevelled(900, 25, 0.3, 11).in(50, 1e3)
	want := d.fit(t, "adf", 0, 900, nil)
	start := d.fit(t, "adf", 0, 40, nil)
	all := d.feed(t, "adf", 40, 400, continuing(t, start))
	if err := all.Merge(context.Background(), d.feed(t, "adf", 400, 900, continuing(t, start))); err != nil {
		t.Fatal(err)
	}
	f := fitted(t, all)
	kerneltest.Close(t, "log evidence", f.LogEvidence, want.LogEvidence, kerneltest.Tol{Abs: 3})
	kerneltest.Close(t, "dispersion", f.Dispersion, want.Dispersion, kerneltest.Tol{Rel: 0.007})
}

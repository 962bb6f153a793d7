package engine_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// What parts learnt of their noise or shape is, multiplied, what all rows tell, but for what each
// part spent on weights of its own: 5 of 400 degrees of freedom for each part of gaussian rows. A
// stream's first rows teach less than later ones do, and four parts have four times as many: its
// means are up to 0.31 deviations off, where those of rows that are kept are up to 0.1. A start
// that parts share counts once, merged all at once or two by two.
func TestMergeLearnt(t *testing.T) {
	const n, parts = 1600, 4
	for _, c := range []struct {
		method, covariance, family, name string
		mean, sd                         float64 // tolerances: in deviations, and of the deviation
		start                            bool
	}{
		{"adf", "full", "gaussian", kernels.LearntDeviation, 0.4, 0.02, false},
		{"adf", "full", "gaussian", kernels.LearntDeviation, 0.4, 0.02, true},
		// Parts do not know the 15 degrees of freedom in which their weights differ, of 1,600: a
		// tenth of a deviation, twice.
		{"laplace", "", "gaussian", kernels.LearntDeviation, 0.2, 0.01, false},
		{"adf", "diagonal", "negbinomial", kernels.LearntShape, 0.3, 0.15, false},
		{"adf", "diagonal", "negbinomial", kernels.LearntShape, 0.2, 0.15, true},
		{"laplace", "", "negbinomial", kernels.LearntShape, 0.15, 0.01, false},
	} {
		rng := rand.New(rand.NewPCG(5, 6))
		var y []float64
		var x [4][]float64
		for range n {
			eta := 1.0
			for j := range x {
				u := rng.NormFloat64()
				eta += 0.2 * u
				x[j] = append(x[j], u)
			}
			if c.family == "gaussian" {
				y = append(y, eta+3*rng.NormFloat64())
				continue
			}
			rate, k := math.Exp(eta)*(rng.ExpFloat64()+rng.ExpFloat64())/2, 0.0 // of size 2
			for s := rng.ExpFloat64(); s < rate; s += rng.ExpFloat64() {
				k++
			}
			y = append(y, k)
		}
		fit := func(start *kernels.Fit, lo, hi int) *kernels.Fit {
			s := option.Defaults()
			s.Family, s.Options.Covariance = c.family, c.covariance
			if s.Standardize = kernels.Given(false); c.method == "adf" {
				s.Options.AutoDispersion, s.Options.AutoShape = c.family == "gaussian", c.family != "gaussian"
			}
			if start != nil {
				if err := s.Continue(start); err != nil {
					t.Fatal(err)
				}
			}
			var fields []*rows.Slice
			for j := range x {
				fields = append(fields, rows.Numbers(string(rune('a'+j)), x[j][lo:hi]))
			}
			f, err := engine.Fit(context.Background(), c.method, s, &rows.Table{X: rows.Fields(fields...), Y: rows.Numbers("y", y[lo:hi])})
			if err != nil {
				t.Fatal(err)
			}
			return f.Fit
		}
		whole := fit(nil, 0, n)
		var from *kernels.Fit
		lo := 0
		if c.start {
			lo = 200
			from = fit(nil, 0, lo)
		}
		var fits []*kernels.Fit
		for k := range parts {
			fits = append(fits, fit(from, lo+k*(n-lo)/parts, lo+(k+1)*(n-lo)/parts))
		}
		merged, err := kernels.MergeFits(context.Background(), fits, from, adf.MergeArrowheads)
		if err != nil {
			t.Fatal(err)
		}
		one, err := kernels.NewMerger(fits[0], from)
		if err != nil {
			t.Fatal(err)
		}
		two := one.Clone()
		for k, m := range []*kernels.Merger{one, one, two, two} {
			if f := fits[k]; m.Joint(f) {
				err = m.AddJoint(f)
			} else {
				err = m.Add(f, func(yield func(kernels.Belief, error) bool) {
					for _, b := range f.Beliefs {
						if !yield(b, nil) {
							return
						}
					}
				})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := one.Merge(two); err != nil {
			t.Fatal(err)
		}
		tree, _, err := one.Fit(context.Background(), adf.MergeArrowheads)
		if err != nil {
			t.Fatal(err)
		}
		want, sd, ok := whole.LearntOf(c.name)
		if !ok {
			t.Fatalf("%+v: nothing is known of all rows", c)
		}
		for what, f := range map[string]*kernels.Fit{"at once": merged, "two by two": tree} {
			got, own, ok := f.LearntOf(c.name)
			if !ok || !(math.Abs(got-want) <= c.mean*sd) || !(math.Abs(own/sd-1) <= c.sd) || len(f.Learnt) != 1 {
				t.Errorf("%s %s %s, %s: %v ± %v, want %v ± %v", c.method, c.covariance, c.family, what, got, own, want, sd)
			}
			if c.name == kernels.LearntShape && !(math.Abs(math.Log(f.Shape/whole.Shape)) <= c.mean*sd/want) {
				t.Errorf("%s %s, %s: shape %v, want %v", c.method, c.covariance, what, f.Shape, whole.Shape)
			}
			t.Logf("%s %s %s, start %v, %s: %.4g ± %.4g, all rows %.4g ± %.4g", c.method, c.covariance, c.family, c.start, what, got, own, want, sd)
		}
	}
}

// Parts of gamma rows have each the prior of the intercept at their own mean, which merging counts
// once: of levels alone, whose weights trade off against the intercept, all at once or two by two.
func TestMergeGamma(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	const n, parts = 1200, 12
	var y []float64
	var g []string
	for i := range n {
		g = append(g, string(rune('a'+i%3)))
		y = append(y, 5e4*math.Exp(0.3*float64(i%3))*(rng.ExpFloat64()+rng.ExpFloat64()))
	}
	fit := func(lo, hi int) *kernels.Fit {
		s := option.Defaults()
		s.Family, s.Params.Shape = "gamma", 2
		r, err := engine.Fit(context.Background(), "laplace", s, &rows.Table{X: rows.Fields(rows.Texts("g", g[lo:hi])), Y: rows.Numbers("y", y[lo:hi])})
		if err != nil {
			t.Fatal(err)
		}
		return r.Fit
	}
	merge := func(fits ...*kernels.Fit) *kernels.Fit {
		f, err := kernels.MergeFits(context.Background(), fits, nil, adf.MergeArrowheads)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	var all []*kernels.Fit
	for k := range parts {
		all = append(all, fit(k*n/parts, (k+1)*n/parts))
	}
	whole := fit(0, n)
	for name, got := range map[string]*kernels.Fit{"at once": merge(all...), "in turn": merge(merge(all[:5]...), merge(all[5:]...))} {
		for i, b := range whole.Beliefs {
			m := got.Beliefs[i]
			if sd := math.Sqrt(b.Variance); math.Abs(m.Mean-b.Mean) > 0.15*sd || math.Abs(math.Sqrt(m.Variance)-sd) > 0.02*sd {
				t.Errorf("%s: %s %v ± %v, of all rows %v ± %v", name, b.Feature, m.Mean, math.Sqrt(m.Variance), b.Mean, sd)
			}
		}
	}
}

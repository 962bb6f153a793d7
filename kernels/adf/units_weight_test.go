package adf_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/stream"
)

// weighted feeds rows with their weights; copies says that a row of weight w is w rows instead,
// of which there are none for 0.
func (s *sample) weighted(t *testing.T, st *stream.State, lo, hi int, weight func(i int) float64, copies bool) {
	t.Helper()
	d := st.Features()
	d.Use(unitColumns)
	var b kernels.Batch
	b.Reset()
	for i := lo; i < hi; i++ {
		a, y, w, n := affine{0, 1, 0, 1, 0, 1}, s.y[i], weight(i), 1
		if copies {
			w, n = 1, int(w)
		}
		if w == 0 {
			a, y = affine{1e6, 1e9, -1e6, 1e7, 0, 1}, 1
		}
		for range n {
			a.row(t, d, &b, s.u[i], s.v[i], s.late[i], s.g[i])
			b.Y, b.Weight = append(b.Y, y), append(b.Weight, w)
		}
	}
	if err := st.Update(context.Background(), &b, false); err != nil {
		t.Fatal(err)
	}
}

// A row of weight 0 is no row, wherever it stands, for units, dispersion, learnt variances and
// noise too: it only counts. Runs that go on and parts that are merged know of it.
func TestUnitsWeightless(t *testing.T) {
	zero := func(i int) float64 {
		if i == 0 || i == 1 || i%5 == 2 || i > 190 {
			return 0
		}
		return 1
	}
	for _, family := range []string{"gaussian", "bernoulli", "studentt"} {
		for _, covariance := range []string{"diagonal", "full", "arrowhead"} {
			s := newSample(200, family, 5)
			m := unitModel(t, family, covariance)
			m.Options.AutoPrior = covariance == "arrowhead" && family == "bernoulli"
			want := newUnits(t, m)
			s.weighted(t, want, 0, 200, zero, true)
			whole := newUnits(t, m)
			s.weighted(t, whole, 0, 200, zero, false)
			name := family + ", " + covariance
			count := func(f *kernels.Fit) *kernels.Fit { // as if rows of weight 0 were some
				c := *f
				c.N, c.Learnt = 0, nil
				c.Columns = nil
				return &c
			}
			sameFit(t, name, count(unitFit(t, whole)), count(unitFit(t, want)), kerneltest.Tol{Rel: 1e-12, Abs: 1e-12})
			for _, cut := range []int{1, 2, 3, 40, 195} {
				part := newUnits(t, m)
				s.weighted(t, part, 0, cut, zero, false)
				on := newUnits(t, continuing(t, m, unitFit(t, part)))
				s.weighted(t, on, cut, 200, zero, false)
				sameFit(t, fmt.Sprintf("%s, cut at %d", name, cut), count(unitFit(t, on)), count(unitFit(t, want)), kerneltest.Tol{Rel: 1e-9, Abs: 1e-9})

				a, b, c, d := newUnits(t, m), newUnits(t, m), newUnits(t, m), newUnits(t, m)
				s.weighted(t, a, 0, cut, zero, false)
				s.weighted(t, b, cut, 200, zero, false)
				s.weighted(t, c, 0, cut, zero, true)
				s.weighted(t, d, cut, 200, zero, true)
				for _, p := range [][2]*stream.State{{a, b}, {c, d}} {
					if err := p[0].Merge(context.Background(), p[1]); err != nil {
						t.Fatal(err)
					}
				}
				// what is determined is counted in units of 2^-30, other ones for parts with rows
				// of weight 0
				sameFit(t, fmt.Sprintf("%s, parts cut at %d", name, cut), count(unitFit(t, a)), count(unitFit(t, c)), kerneltest.Tol{Rel: 2e-6, Abs: 2e-6})
			}
		}
	}
}

// A row of weight w is w equal rows for a dispersion that is learnt, to 2 %: the filter's γ follows
// the order of what it learns. Beliefs are those under a given dispersion of that value, which are
// exact: deviations to 2.5 %, for beliefs come to a new one when it changes by a factor of 1.05.
func TestUnitsWeights(t *testing.T) {
	weight := func(i int) float64 { return float64(1 + i%4) }
	for _, covariance := range []string{"full", "arrowhead"} {
		for _, standardize := range []bool{false, true} {
			s := newSample(400, "gaussian", 5)
			m := unitModel(t, "gaussian", covariance)
			m.Options.Standardize = standardize
			w, c := newUnits(t, m), newUnits(t, m)
			s.weighted(t, w, 0, 400, weight, false)
			s.weighted(t, c, 0, 400, weight, true)
			got, copies := unitFit(t, w), unitFit(t, c)
			name := fmt.Sprintf("%s, standardize %v", covariance, standardize)
			kerneltest.Close(t, name+": dispersion", got.Dispersion, copies.Dispersion, kerneltest.Tol{Rel: 0.02})

			given := *m
			given.Params.Dispersion = got.Dispersion
			given.Lik = lik.WithDispersion(m.Lik, m.Params, got.Dispersion)
			given.Options.AutoDispersion = false
			g := newUnits(t, &given)
			s.weighted(t, g, 0, 400, weight, false)
			for k, want := range unitFit(t, g).Beliefs {
				b := got.Beliefs[k]
				kerneltest.Close(t, name+": deviation of "+b.Feature, math.Sqrt(b.Variance), math.Sqrt(want.Variance), kerneltest.Tol{Rel: 0.025})
				kerneltest.Close(t, name+": mean of "+b.Feature, b.Mean, want.Mean, kerneltest.Tol{Abs: 0.2 * math.Sqrt(want.Variance)})
			}
		}
	}
}

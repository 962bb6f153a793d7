package adf_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/filter"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/stream"
)

// Numbers and responses whose unit has no square are named, where rows, beliefs or a fit
// overflow by them; no belief is written that is not a number.
func TestUnitsBeyond(t *testing.T) {
	forms := map[string]func(*kernels.Model) (*stream.State, error){
		"arrowhead": adf.NewTied,
		"diagonal":  adf.New,
		"full":      func(m *kernels.Model) (*stream.State, error) { return filter.New(m, filter.ADF{}) },
		"lowrank":   func(m *kernels.Model) (*stream.State, error) { return filter.New(m, filter.ADF{}) },
	}
	for _, c := range []struct {
		family string
		rows   [][3]float64 // u, v, y
		cause  string       // "" for none
	}{
		{"poisson", [][3]float64{{1e300, 1, 2}, {9e299, 2, 1}, {1e300, 1, 0}}, `feature "u": the spread`},
		{"poisson", [][3]float64{{1, 9e299, 2}}, `feature "v": the spread`},
		{"poisson", [][3]float64{{1, 1e-300, 2}, {2, 3e-300, 1}, {3, 2e-300, 1}}, `feature "v": the spread`},
		{"poisson", [][3]float64{{1, 1e-300, 2}, {2, 3e-300, 1}, {3e-310, 2e-300, 1e300}}, `feature "v": the spread`},
		{"gaussian", [][3]float64{{1, 2, 1e300}, {2, 1, 3e299}, {4, 3, 1e298}, {5, 3, -1e300}}, "y: the spread"},
		{"poisson", [][3]float64{{1e200, 1, 2}, {3e200, 2, 1}, {2e200, 1, 0}}, `feature "u": the spread`},
		{"gaussian", [][3]float64{{1, 2, 1e-165}, {2, 1, 3e-165}, {4, 3, 7e-165}, {5, 3, 2e-165}}, "y: the spread"},
		{"poisson", [][3]float64{{1, 2, 3}, {2, 1, 0}, {1, 1, 1}}, ""},
	} {
		for form, open := range forms {
			m := &kernels.Model{Prior: kernels.DefaultPrior, Params: lik.Params{Dispersion: 1, Shape: 4}}
			m.Options.Standardize, m.Options.Covariance, m.Options.AutoDispersion = true, form, c.family == "gaussian"
			var err error
			if m.Lik, err = lik.New(c.family, "", m.Params); err != nil {
				t.Fatal(err)
			}
			if form == "lowrank" {
				m.Options.Rank = 2
			}
			s, err := open(m)
			if err != nil {
				t.Fatal(err)
			}
			d := s.Features()
			d.Use(unitColumns)
			for _, r := range c.rows {
				var b kernels.Batch
				b.Reset()
				plain.row(t, d, &b, r[0], r[1], 0, 1)
				b.Y = append(b.Y, r[2])
				if err = s.Update(context.Background(), &b, false); err != nil {
					break
				}
			}
			if err == nil {
				read := s.Each(t.Context(), func(name []byte, w kernels.Weight) {
					if kernels.CheckWeight(w) != nil || math.IsNaN(w.Variance) {
						t.Errorf("%s, %s, %v: %s is %v", form, c.family, c.rows, name, w)
					}
				})
				if _, err = s.Fit(context.Background()); err == nil {
					err = read
				}
			}
			switch {
			case c.cause == "" && err != nil:
				t.Errorf("%s, %s, %v: %v", form, c.family, c.rows, err)
			case c.cause != "" && err != nil && !strings.Contains(err.Error(), c.cause):
				t.Errorf("%s, %s, %v: %v; want %s", form, c.family, c.rows, err, c.cause)
			case c.cause != "" && err == nil:
				t.Logf("%s, %s, %v is fitted", form, c.family, c.rows)
			}
		}
	}
}

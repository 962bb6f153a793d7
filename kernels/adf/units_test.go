package adf_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/filter"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/stream"
)

var unitColumns = kernels.NewColumns([]string{"g"}, []string{"u", "v", "late"})

// sample is rows of two numbers, one that varies late, and a level.
type sample struct {
	u, v, late []float64
	g          []int
	y          []float64
}

func newSample(n int, family string, seed uint64) *sample {
	r := rand.New(rand.NewPCG(seed, 3))
	s := &sample{}
	for i := range n {
		u, v, late, g := r.Float64(), r.NormFloat64(), 0.0, r.IntN(5)
		if i > 40 && i%7 == 0 {
			late = 1
		}
		eta := 1.5*u - 0.8*v + 0.3*float64(g) - 1 + 0.5*late
		y := eta + 0.7*r.NormFloat64()
		if family == "bernoulli" {
			y = 0
			if r.Float64() < 1/(1+math.Exp(-eta)) {
				y = 1
			}
		}
		s.u, s.v, s.late, s.g, s.y = append(s.u, u), append(s.v, v), append(s.late, late), append(s.g, g), append(s.y, y)
	}
	return s
}

// affine is other units of a sample.
type affine struct{ u0, u1, v0, v1, y0, y1 float64 }

var plain = affine{0, 1, 0, 1, 0, 1}

func (a affine) row(t *testing.T, d *kernels.Dict, b *kernels.Batch, u, v, late float64, g int) {
	t.Helper()
	add := func(name string, x float64) {
		id, err := d.Add(name)
		if err != nil {
			t.Fatal(err)
		}
		b.Add(id, x)
	}
	b.Add(0, 1)
	add("u", a.u0+a.u1*u)
	add("v", a.v0+a.v1*v)
	add("late", late)
	add(fmt.Sprintf("g=%d", g), 1)
	b.EndRow()
}

func (s *sample) feed(t *testing.T, st *stream.State, a affine, lo, hi int) {
	t.Helper()
	d := st.Features()
	d.Use(unitColumns)
	var b kernels.Batch
	b.Reset()
	for i := lo; i < hi; i++ {
		a.row(t, d, &b, s.u[i], s.v[i], s.late[i], s.g[i])
		b.Y = append(b.Y, a.y0+a.y1*s.y[i])
	}
	if err := st.Update(context.Background(), &b, false); err != nil {
		t.Fatal(err)
	}
}

func unitModel(t *testing.T, family, covariance string) *kernels.Model {
	t.Helper()
	l, err := lik.New(family, "", lik.Params{Dispersion: 1, Shape: 4})
	if err != nil {
		t.Fatal(err)
	}
	m := &kernels.Model{Lik: l, Params: lik.Params{Dispersion: 1, Shape: 4}, Prior: kernels.DefaultPrior,
		Options: kernels.Options{Covariance: covariance, Standardize: true, Rank: 20}}
	m.Options.AutoDispersion = family != "bernoulli"
	return m
}

func newUnits(t *testing.T, m *kernels.Model) *stream.State {
	t.Helper()
	var s *stream.State
	var err error
	switch m.Options.Covariance {
	case "diagonal":
		s, err = adf.New(m)
	case "arrowhead":
		s, err = adf.NewTied(m)
	default:
		s, err = filter.New(m, filter.ADF{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func unitFit(t *testing.T, s *stream.State) *kernels.Fit {
	t.Helper()
	f, err := s.Fit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Validate(); err != nil {
		t.Fatal(err)
	}
	return f
}

// predicted is the predictor of a few rows under a fit.
func (a affine) predicted(t *testing.T, f *kernels.Fit) (m, v []float64) {
	t.Helper()
	p, err := predict.New(f)
	if err != nil {
		t.Fatal(err)
	}
	var b kernels.Batch
	b.Reset()
	d := p.Features()
	for i := range 12 {
		a.row(t, d, &b, 0.1*float64(i), 1-0.2*float64(i), float64(i%2), i%6)
	}
	for i := range b.Len() {
		mean, variance, err := p.Linear(&b, i)
		if err != nil {
			t.Fatal(err)
		}
		m, v = append(m, (mean-a.y0)/a.y1), append(v, variance/(a.y1*a.y1))
	}
	return m, v
}

// Other units of the numbers, and of a located response, change no prediction, whatever
// the row count at which the filter stops.
func TestUnitsAreFree(t *testing.T) {
	for _, family := range []string{"bernoulli", "gaussian", "studentt"} {
		for _, covariance := range []string{"arrowhead", "full", "lowrank", "diagonal"} {
			other := affine{2013, 1e4, 1e6, 1e-6, 0, 1}
			tol := kerneltest.Tol{Rel: 1e-9, Abs: 1e-9}
			if covariance == "full" { // the fit is at the intercept at 0, 1e5 deviations away
				tol = kerneltest.Tol{Rel: 1e-7, Abs: 1e-7}
			}
			if covariance == "lowrank" { // its layout is a difference at the intercept at 0
				other.u0, other.u1, other.v0 = 20, 3, 0
				tol = kerneltest.Tol{Rel: 1e-3, Abs: 1e-3}
			}
			if covariance == "diagonal" {
				other.u0, other.v0 = 0, 0
			}
			if covariance == "arrowhead" || covariance == "full" {
				other.u0, other.v0 = 1.7e9, 1
			}
			if family != "bernoulli" {
				other.y0, other.y1 = 50_000, 8000
			}
			for _, n := range []int{2, 3, 5, 60, 300} {
				s := newSample(300, family, 1)
				m := unitModel(t, family, covariance)
				one, two := newUnits(t, m), newUnits(t, m)
				s.feed(t, one, plain, 0, n)
				s.feed(t, two, other, 0, n)
				f, g := unitFit(t, one), unitFit(t, two)
				m0, v0 := plain.predicted(t, f)
				m1, v1 := other.predicted(t, g)
				for i := range m0 {
					what := fmt.Sprintf("%s, %s, %d rows, predictor %d", family, covariance, n, i)
					kerneltest.Close(t, what+": mean", m1[i], m0[i], tol)
					kerneltest.Close(t, what+": variance", v1[i], v0[i], tol)
				}
				if t.Failed() {
					return
				}
			}
		}
	}
}

// With a Gaussian likelihood and no drift the filter is the exact posterior under the
// prior of the last units, N(0, v/s²) of a weight per number and N(0, 10) of the
// intercept at the centres, whatever came on the way.
func TestUnitsExact(t *testing.T) {
	for _, n := range []int{2, 4, 8, 128} { // the units are those of all rows
		s := newSample(n, "gaussian", 2)
		for _, covariance := range []string{"arrowhead", "full"} {
			m := unitModel(t, "gaussian", covariance)
			// no level means: a number each
			m.Options.AutoDispersion = false
			m.Options.Standardize = true
			st := newUnits(t, m)
			d := st.Features()
			d.Use(unitColumns)
			var b kernels.Batch
			b.Reset()
			for i := range n {
				for j, x := range []float64{1, 2000 + s.u[i], s.v[i] * 1e-6, s.late[i]} {
					name := []string{kernels.Intercept, "u", "v", "late"}[j]
					id, err := d.AddRaw(name)
					if err != nil {
						t.Fatal(err)
					}
					b.Add(id, x)
				}
				b.EndRow()
				b.Y = append(b.Y, s.y[i])
			}
			if err := st.Update(context.Background(), &b, false); err != nil {
				t.Fatal(err)
			}
			f := unitFit(t, st)

			// y and the columns in their units; the noise is 1 in y's own
			cy, sy := moments(s.y)
			cols := [][]float64{make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)}
			centers, scales := []float64{0, 0, 0, 0}, []float64{1, 0, 0, 0}
			for j := 1; j < 4; j++ {
				raw := make([]float64, n)
				for i := range raw {
					raw[i] = []float64{2000 + s.u[i], s.v[i] * 1e-6, s.late[i]}[j-1]
				}
				centers[j], scales[j] = moments(raw)
				if scales[j] == 0 {
					scales[j] = 1
				}
				for i := range raw {
					cols[j][i] = (raw[i] - centers[j]) / scales[j]
				}
			}
			prec, nu := dense.New(4, 4), make([]float64, 4)
			for i := range n {
				cols[0][i] = 1
				for j := range 4 {
					for k := range 4 {
						prec.Row(j)[k] += cols[j][i] * cols[k][i] * sy * sy
					}
					nu[j] += cols[j][i] * (s.y[i] - cy) / sy * sy * sy
				}
			}
			for j := range 4 {
				prec.Row(j)[j] += []float64{0.1, 1, 1, 1}[j]
			}
			if err := dense.Cholesky(prec); err != nil {
				t.Fatal(err)
			}
			cov := dense.New(4, 4)
			dense.InverseFromCholesky(cov, prec)
			mean := make([]float64, 4)
			dense.Gemv(mean, cov, nu)
			tol := kerneltest.Tol{Rel: 1e-9, Abs: 1e-9}
			b0 := mean[0]
			v0 := 0.0
			a := []float64{1, -centers[1] / scales[1], -centers[2] / scales[2], -centers[3] / scales[3]}
			for j := range 4 {
				if j > 0 {
					b0 += a[j] * mean[j]
				}
				for k := range 4 {
					v0 += a[j] * a[k] * cov.Row(j)[k]
				}
			}
			for _, w := range f.Beliefs {
				j := map[string]int{kernels.Intercept: 0, "u": 1, "v": 2, "late": 3}[w.Feature]
				if j == 0 {
					kerneltest.Close(t, covariance+fmt.Sprint(n)+": intercept", w.Mean, cy+sy*b0, tol)
					kerneltest.Close(t, covariance+": its variance", w.Variance, sy*sy*v0, tol)
					continue
				}
				kerneltest.Close(t, covariance+": mean of "+w.Feature, w.Mean, sy*mean[j]/scales[j], tol)
				kerneltest.Close(t, covariance+": variance of "+w.Feature, w.Variance, sy*sy*cov.Row(j)[j]/(scales[j]*scales[j]), tol)
			}
		}
	}
}

func moments(x []float64) (mean, sd float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		sd += (v - mean) * (v - mean) / float64(len(x))
	}
	return mean, math.Sqrt(sd)
}

// Parts come to common units, and the prior at these counts once: with a Gaussian
// likelihood the product is the filter of all rows.
func TestUnitsMerge(t *testing.T) {
	for _, family := range []string{"gaussian", "bernoulli"} {
		var full []kernels.Belief // the filter of all rows, which with one level is exact in both
		for _, covariance := range []string{"full", "arrowhead", "diagonal"} {
			m := unitModel(t, family, covariance)
			m.Options.AutoDispersion = false
			s := newSample(256, family, 5)
			for i := range s.g {
				s.g[i] = 0 // leaves that never meet: one level
			}
			whole := newUnits(t, m)
			s.feed(t, whole, plain, 0, 256)
			want := unitFit(t, whole)
			if covariance == "full" {
				full = want.Beliefs
			} else if covariance == "arrowhead" {
				for k, w := range want.Beliefs {
					kerneltest.Close(t, family+": mean of "+w.Feature, w.Mean, full[k].Mean, kerneltest.Tol{Rel: 1e-9, Abs: 1e-9})
					kerneltest.Close(t, family+": variance of "+w.Feature, w.Variance, full[k].Variance, kerneltest.Tol{Rel: 1e-9})
				}
			}
			a, b, c := newUnits(t, m), newUnits(t, m), newUnits(t, m)
			s.feed(t, a, plain, 0, 60)
			s.feed(t, b, plain, 60, 200)
			s.feed(t, c, plain, 200, 256)
			before := unitFit(t, b)
			for _, o := range []*stream.State{newUnits(t, m), b, c} {
				if err := a.Merge(context.Background(), o); err != nil {
					t.Fatal(err)
				}
			}
			if after := unitFit(t, b); after.Beliefs[1] != before.Beliefs[1] {
				t.Errorf("the source changed: %v, %v", after.Beliefs[1], before.Beliefs[1])
			}
			got := unitFit(t, a)
			tol := kerneltest.Tol{Rel: 1e-8, Abs: 1e-8}
			if family != "gaussian" || covariance == "diagonal" {
				tol = kerneltest.Tol{Rel: 0.25, Abs: 0.25}
			}
			for k, w := range want.Beliefs {
				what := fmt.Sprintf("%s, %s: %s", family, covariance, w.Feature)
				kerneltest.Close(t, what+": mean", got.Beliefs[k].Mean, w.Mean, tol)
				kerneltest.Close(t, what+": variance", got.Beliefs[k].Variance, w.Variance, tol)
			}
			empty := newUnits(t, m)
			if err := empty.Merge(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			for k, w := range unitFit(t, empty).Beliefs {
				what := fmt.Sprintf("%s, %s: taken into a state without rows: %s", family, covariance, w.Feature)
				kerneltest.Close(t, what, w.Mean, before.Beliefs[k].Mean, kerneltest.Tol{Rel: 1e-12})
				kerneltest.Close(t, what, w.Variance, before.Beliefs[k].Variance, kerneltest.Tol{Rel: 1e-12})
			}
		}
	}
}

// Without an intercept the first responses may all be 0: they count with the noise that is given,
// under the prior of the last unit, in which the posterior is that of one mean a level. A noise
// that is 1 in the unit of the responses is that of the later rows for first ones that were far
// smaller too.
func TestUnitsBegin(t *testing.T) {
	const n = 64
	feed := func(st *stream.State, y func(i int) float64) *kernels.Fit {
		t.Helper()
		var b kernels.Batch
		b.Reset()
		for i := range n {
			id, err := st.Features().Add(fmt.Sprintf("g=%d", i%2))
			if err != nil {
				t.Fatal(err)
			}
			b.Add(id, 1)
			b.EndRow()
			b.Y = append(b.Y, y(i))
		}
		if err := st.Update(context.Background(), &b, false); err != nil {
			t.Fatal(err)
		}
		return unitFit(t, st)
	}
	level := func(i int) float64 { return 4 + 0.1*float64(i*7919%13) }
	for _, covariance := range []string{"arrowhead", "full", "diagonal"} {
		for _, zeros := range []int{0, 1, 2, 5} {
			m := unitModel(t, "gaussian", covariance)
			m.NoIntercept, m.Options.AutoDispersion = true, false
			m.Params.Dispersion = 0.09
			m.Lik = lik.WithDispersion(m.Lik, m.Params, 0.09)
			y := func(i int) float64 {
				if i < zeros {
					return 0
				}
				return level(i)
			}
			sum, squares := [2]float64{}, 0.0
			for i := range n {
				sum[i%2] += y(i)
				squares += y(i) * y(i) / n
			}
			f := feed(newUnits(t, m), y)
			for k, w := range f.Beliefs {
				precision := n/2/0.09 + 1/squares
				what := fmt.Sprintf("%s, %d zeros: %s", covariance, zeros, w.Feature)
				tol := kerneltest.Tol{Rel: 1e-10}
				kerneltest.Close(t, what+": mean", w.Mean, sum[k]/0.09/precision, tol)
				kerneltest.Close(t, what+": variance", w.Variance, 1/precision, tol)
			}
		}
		m := unitModel(t, "studentt", covariance)
		m.NoIntercept, m.Options.AutoDispersion = true, false
		first := feed(newUnits(t, m), func(i int) float64 {
			if i == 0 {
				return 0.01
			}
			return level(i)
		})
		last := feed(newUnits(t, m), func(i int) float64 {
			if i == n-2 {
				return 0.01
			}
			return level(i)
		})
		for k, w := range first.Beliefs { // one row of 32 a level
			o, sd := last.Beliefs[k], math.Sqrt(w.Variance)
			kerneltest.Close(t, covariance+", a small response first: "+w.Feature, w.Mean/sd, o.Mean/sd, kerneltest.Tol{Abs: 0.2})
			kerneltest.Close(t, covariance+", a small response first: deviation of "+w.Feature, w.Variance/o.Variance, 1, kerneltest.Tol{Abs: 0.1})
		}
	}
}

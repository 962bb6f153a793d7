package answer

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/special"
)

// points are those of the rows of d under f, with weights, and the sums.
func (d *data) points(t testing.TB, f *kernels.Fit, y, x string, weight []float64) ([]Point, LOOSummary) {
	t.Helper()
	l, err := NewLOO(f, engine.FactorOf(f.Method), true)
	if err != nil {
		t.Fatal(err)
	}
	b := d.batch(t, f, l.Features(), y, x)
	b.Weight = weight
	if err := l.Add(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	out := make([]Point, d.n)
	for i := range out {
		m, v, err := l.Linear(b, i)
		if err != nil {
			t.Fatal(err)
		}
		if out[i], err = l.point(b, i, m, v); err != nil {
			t.Fatal(err)
		}
	}
	return out, l.Summary()
}

// averaged is the predictive density of the row of one under f, gaussian, averaged over the law of
// the noise by its quantiles.
func (d *data) averaged(t testing.TB, f *kernels.Fit, y, x string) float64 {
	t.Helper()
	s, err := predict.New(f)
	if err != nil {
		t.Fatal(err)
	}
	m, v, err := s.Linear(d.batch(t, f, s.Features(), y, x), 0)
	if err != nil {
		t.Fatal(err)
	}
	mean, sd, ok := f.LearntOf(kernels.LearntDeviation)
	if !ok {
		t.Fatal("no deviation was learnt")
	}
	nu := special.InverseChiFreedom(sd / mean)
	unit, _ := special.InverseChi(nu)
	const n = 1000
	sum := 0.0
	for k := range n {
		sigma := mean / unit * special.InverseChiQuantile(nu, (float64(k)+0.5)/n)
		total := sigma * sigma * (1 + v/f.Dispersion)
		e := d.number[y][0] - m
		sum += math.Exp(-0.5*e*e/total) / math.Sqrt(2*math.Pi*total) / n
	}
	return math.Log(sum)
}

// regression is n rows of p numbers and noise of deviation 1.
func regression(r *rand.Rand, n, p int) (d *data, x string) {
	d = &data{n: n, number: map[string][]float64{"num": make([]float64, n)}, text: map[string][]string{}}
	for j := range p {
		name := fmt.Sprintf("x%d", j)
		x += name + " "
		slope := 2 * r.NormFloat64()
		for i := range n {
			d.number[name] = append(d.number[name], r.NormFloat64())
			d.number["num"][i] += slope * d.number[name][i]
		}
	}
	for i := range n {
		d.number["num"][i] += r.NormFloat64()
	}
	return d, x
}

// Of gaussian responses whose dispersion was learnt a row is left out of that too: the densities
// are those of fits again, averaged over their own noise. What is left is the prior of the noise,
// which is measured by the deviation of all responses, and that of the weights, in no unit of the
// noise: what they say goes with 1/n, and what one row changes of that with 1/n².
func TestLearntDispersionIsLeftOut(t *testing.T) {
	kerneltest.Slow(t)
	r := rand.New(rand.NewPCG(5, 6))
	o := map[string]any{"family": "gaussian", "prior_variance": 100.0}
	for _, n := range []int{10, 25, 60} {
		for p := 1; p <= 5; p += 2 {
			d, x := regression(r, n, p)
			f := d.fit(t, "num", x, o, nil)
			points, s := d.points(t, f, "num", x, nil)
			sum, lpd := 0.0, 0.0
			for i := range n {
				out := d.only(func(j int) bool { return j != i }).fit(t, "num", x, o, nil)
				one := d.only(func(j int) bool { return j == i })
				want := one.averaged(t, out, "num", x)
				if points[i].Reach <= predict.MaxReach {
					kerneltest.Close(t, fmt.Sprintf("n %d p %d row %d", n, p, i), points[i].LOO, want, exact(30/float64(n*n)))
				}
				sum, lpd = sum+want, lpd+one.averaged(t, f, "num", x)
			}
			kerneltest.Close(t, fmt.Sprintf("n %d p %d elpd", n, p), s.ELPD, sum, exact(130/float64(n*n)))
			kerneltest.Close(t, fmt.Sprintf("n %d p %d p_loo", n, p), s.PLoo, lpd-sum, exact(130/float64(n*n)))
		}
	}
}

// A row of weight w is w rows, of which one is left out of the dispersion too.
func TestLearntDispersionOfWeightedRows(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	d, x := regression(r, 12, 2)
	weight := make([]float64, d.n)
	var at []int
	for i := range weight {
		for range 1 + i%3 {
			weight[i]++
			at = append(at, i)
		}
	}
	long := &data{n: len(at), number: map[string][]float64{}, text: map[string][]string{}}
	for k, v := range d.number {
		for _, i := range at {
			long.number[k] = append(long.number[k], v[i])
		}
	}
	f := long.fit(t, "num", x, map[string]any{"family": "gaussian"}, nil)
	_, want := long.points(t, f, "num", x, nil)
	_, got := d.points(t, f, "num", x, weight)
	tol := kerneltest.Tol{Rel: 1e-10}
	kerneltest.Close(t, "elpd", got.ELPD, want.ELPD, tol)
	kerneltest.Close(t, "p_loo", got.PLoo, want.PLoo, tol)
	kerneltest.Close(t, "p_waic", got.PWaic, want.PWaic, tol)
}

// p_waic is the variance of the log density over draws of noise and weights.
func TestPenaltyOfLearntDispersion(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	d, x := regression(r, 25, 2)
	f := d.fit(t, "num", x, map[string]any{"family": "gaussian"}, nil)
	points, _ := d.points(t, f, "num", x, nil)
	s, err := predict.New(f)
	if err != nil {
		t.Fatal(err)
	}
	mean, sd, _ := f.LearntOf(kernels.LearntDeviation)
	nu := special.InverseChiFreedom(sd / mean)
	unit, _ := special.InverseChi(nu)
	b := d.batch(t, f, s.Features(), "num", x)
	for i := range d.n {
		m, v, err := s.Linear(b, i)
		if err != nil {
			t.Fatal(err)
		}
		var all moments
		const n = 1000
		for j := range n {
			sigma := mean / unit * special.InverseChiQuantile(nu, (float64(j)+0.5)/n)
			for k := range 100 {
				e := (d.number["num"][i]-m)/sigma - math.Sqrt(v/f.Dispersion)*special.PhiInv((float64(k)+0.5)/100)
				all.add(-math.Log(sigma)-0.5*e*e, 1)
			}
		}
		kerneltest.Close(t, fmt.Sprint(i), points[i].Penalty, all.m2/all.n, kerneltest.Tol{Rel: 0.05})
	}
}

// A level of one row, under a learnt variance of levels, is left out as if it were new, and warned
// of.
func TestLevelOfOneRow(t *testing.T) {
	d := &data{n: 8, number: map[string][]float64{"num": {-0.11, -0.93, 0.18, 0.42, -1.54, -0.65, -0.14, 2.37}},
		text: map[string][]string{"g": {"a", "b", "b", "b", "b", "b", "a", "c"}}}
	o := map[string]any{"family": "gaussian", "prior_variance": "auto"}
	points, s := d.points(t, d.fit(t, "num", "g", o, nil), "num", "g", nil)
	sum := 0.0
	for i := range d.n {
		want := d.only(func(j int) bool { return j == i }).averaged(t, d.only(func(j int) bool { return j != i }).fit(t, "num", "g", o, nil), "num", "g")
		if points[i].Reach <= predict.MaxReach {
			kerneltest.Close(t, fmt.Sprint(i), points[i].LOO, want, exact(0.3))
		}
		sum += want
	}
	if s.Warned != 1 || points[7].Reach <= predict.MaxReach {
		t.Errorf("%+v, the row %+v", s, points[7])
	}
	kerneltest.Close(t, "elpd", s.ELPD, sum, exact(2))
}

// An outlier that is most of the sum of squares is warned of, and so is a row from which studentt
// learns how heavy its tails are.
func TestOutlierIsWarnedOf(t *testing.T) {
	for _, family := range []string{"gaussian", "studentt"} {
		d := &data{n: 20, number: map[string][]float64{}, text: map[string][]string{}}
		for i := range d.n {
			d.number["x"] = append(d.number["x"], math.Cos(float64(i)*3.3))
			d.number["num"] = append(d.number["num"], 0.1*math.Sin(float64(i)*7.1))
		}
		d.number["num"][3] = 10
		points, s := d.points(t, d.fit(t, "num", "x", map[string]any{"family": family}, nil), "num", "x", nil)
		if s.Warned != 1 || points[3].Reach <= predict.MaxReach {
			t.Errorf("%s: %+v, the row %+v", family, s, points[3])
		}
	}
}

// What studentt, and gaussian with link log, learn of their noise is not averaged over, which is
// said; where it was given there is nothing to say.
func TestHeldNoiseIsSaid(t *testing.T) {
	d, x := regression(rand.New(rand.NewPCG(11, 12)), 30, 1)
	for _, c := range []struct {
		o    map[string]any
		said bool
	}{
		{map[string]any{"family": "studentt"}, true},
		{map[string]any{"family": "studentt", "dispersion": 1.0, "shape": 4.0}, false},
		{map[string]any{"family": "gaussian"}, false},
		{map[string]any{"family": "gaussian", "link": "log"}, true},
	} {
		_, s := d.points(t, d.fit(t, "num", x, c.o, nil), "num", x, nil)
		if strings.Contains(s.Status, "not averaged over") != c.said {
			t.Errorf("%v: status %q", c.o, s.Status)
		}
	}
}

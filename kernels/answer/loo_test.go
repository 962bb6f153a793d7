package answer

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
)

// data is columns of rows by name.
type data struct {
	n      int
	number map[string][]float64
	text   map[string][]string
}

// facts are what testdata/gen/answer.R found, by model, what and key, and its rows.
func facts(t testing.TB) (*data, map[string]map[string]float64, []map[string]string) {
	t.Helper()
	d := &data{number: map[string][]float64{}, text: map[string][]string{}}
	for _, row := range kerneltest.Golden(t, "../../testdata/answer/rows.csv") {
		d.n++
		for _, k := range []string{"cl", "g", "h"} {
			d.text[k] = append(d.text[k], row[k])
		}
		for _, k := range []string{"x", "z", "bin", "cnt", "num", "pos"} {
			d.number[k] = append(d.number[k], kerneltest.Number(t, row[k]))
		}
	}
	all := kerneltest.Golden(t, "../../testdata/answer/facts.csv")
	by := map[string]map[string]float64{}
	for _, f := range all {
		k := f["model"] + " " + f["what"]
		if by[k] == nil {
			by[k] = map[string]float64{}
		}
		by[k][f["key"]] = kerneltest.Number(t, f["value"])
	}
	return d, by, all
}

// cols are columns of d as features; what is not among them is not a column.
func (d *data) cols(names string) []*rows.Slice {
	var out []*rows.Slice
	for _, k := range strings.Fields(names) {
		if x := d.number[k]; x != nil {
			out = append(out, rows.Numbers(k, x))
		} else {
			out = append(out, rows.Texts(k, d.text[k]))
		}
	}
	return out
}

// only is d without row i.
func (d *data) only(has func(i int) bool) *data {
	out := &data{number: map[string][]float64{}, text: map[string][]string{}}
	for i := range d.n {
		if !has(i) {
			continue
		}
		out.n++
		for k, x := range d.number {
			out.number[k] = append(out.number[k], x[i])
		}
		for k, x := range d.text {
			out.text[k] = append(out.text[k], x[i])
		}
	}
	return out
}

func given(o map[string]any) iter.Seq2[string, option.Source] {
	return func(yield func(string, option.Source) bool) {
		for k, v := range maps.All(o) {
			if !yield(k, option.Go(v)) {
				return
			}
		}
	}
}

// fit is the fit of y to columns of d by laplace.
func (d *data) fit(t testing.TB, y, x string, o map[string]any, offset []float64) *kernels.Fit {
	t.Helper()
	return d.fitBy(t, "laplace", y, x, o, offset)
}

func (d *data) fitBy(t testing.TB, method, y, x string, o map[string]any, offset []float64) *kernels.Fit {
	t.Helper()
	s, err := option.For(method).Decode(given(o))
	if err != nil {
		t.Fatal(err)
	}
	table := &rows.Table{X: d.fields(x), Y: rows.Numbers("y", d.number[y])}
	if offset != nil {
		table.Offset = rows.Numbers("offset", offset)
	}
	r, err := engine.Fit(context.Background(), method, s, table)
	if err != nil {
		t.Fatal(err)
	}
	return r.Fit
}

// batch is the rows of d with the features of dict, which must have an intercept.
func (d *data) batch(t testing.TB, f *kernels.Fit, dict *kernels.Dict, y, x string) *kernels.Batch {
	t.Helper()
	b := encoded(t, f, dict, d.fields(x), d.n)
	if y != "" {
		b.Y = d.number[y]
	}
	return b
}

func exact(err float64) kerneltest.Tol { return kerneltest.Tol{Abs: err} }

// Of gaussian responses of known variance the sum is that of the closed form, in which row i
// has its fit without it: a fit again of all other rows. Numbers of Laplace's fits are
// exact there to 1e-8 or so.
func TestGaussianLOO(t *testing.T) {
	all, _, _ := facts(t)
	d := all.only(func(i int) bool { return i < 25 })
	o := map[string]any{"family": "gaussian", "dispersion": 0.7, "standardize": false, "prior_variance": 3.0}
	f := d.fit(t, "num", "x g", o, nil)
	l, err := NewLOO(f, engine.FactorOf(f.Method), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Add(context.Background(), d.batch(t, f, l.Features(), "num", "x g")); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i := range d.n {
		out := d.only(func(j int) bool { return j != i }).fit(t, "num", "x g", o, nil)
		r, err := NewLOO(out, engine.FactorOf(out.Method), true)
		if err != nil {
			t.Fatal(err)
		}
		m, v, err := r.Linear(d.only(func(j int) bool { return j == i }).batch(t, out, r.Features(), "num", "x g"), 0)
		if err != nil {
			t.Fatal(err)
		}
		e := d.number["num"][i] - m
		want := -0.5*math.Log(2*math.Pi*(v+0.7)) - 0.5*e*e/(v+0.7)
		kerneltest.Close(t, fmt.Sprintf("row %d", i), l.points[i], want, exact(1e-7))
		sum += want
	}
	s := l.Summary()
	kerneltest.Close(t, "elpd", s.ELPD, sum, exact(1e-6))
	if s.Warned != 0 || s.Failed != 0 || s.Status != "ok" || s.Worst != 0 {
		t.Errorf("%+v", s)
	}
	if err := l.Add(context.Background(), d.only(func(i int) bool { return i < 3 }).batch(t, f, l.Features(), "num", "x g")); err != nil {
		t.Fatal(err)
	}
	if s := l.Summary(); !strings.HasPrefix(s.Status, "28 rows, of which the fit has learnt 25 at most") {
		t.Errorf("rows that were not learnt: %q", s.Status)
	}
	// log p(y | s) = c - e²/2φ, e ~ N(m, v): its variance is (v² + 2 v m²) / 2φ².
	for _, c := range [][3]float64{{0.5, 2, 1}, {3, 0.1, 4}, {0, 30, 0.1}} {
		g, err := lik.New("gaussian", "", lik.Params{Dispersion: c[2]})
		if err != nil {
			t.Fatal(err)
		}
		want := (c[1]*c[1] + 2*c[1]*c[0]*c[0]) / (2 * c[2] * c[2])
		mean, got := logMoments(g, lik.Obs{Y: 0, Weight: 1}, c[0], c[1])
		kerneltest.Close(t, "penalty", got, want, kerneltest.Tol{Rel: 1e-10})
		kerneltest.Close(t, "mean", mean, -0.5*(math.Log(2*math.Pi*c[2])+(c[0]*c[0]+c[1])/c[2]), kerneltest.Tol{Rel: 1e-10})
	}
}

// A learnt shape counts in p_waic: a row's part is the variance of its log density over predictor
// and shape.
func TestWaicOfShapes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 1))
	for family, draw := range map[string]func() float64{
		"gamma":       func() float64 { return rnd.ExpFloat64() + rnd.ExpFloat64() },
		"negbinomial": func() float64 { return math.Floor(3 * rnd.ExpFloat64()) },
	} {
		const sd = 0.2
		p := lik.Params{Dispersion: 1, Shape: 2}
		l, err := lik.New(family, "", p)
		if err != nil {
			t.Fatal(err)
		}
		f, err := kernels.FromBeliefs([]kernels.Belief{{Feature: "(Intercept)", Weight: kernels.Weight{Mean: 0.7, Variance: 0.01}}}, &kernels.Model{Lik: l, Params: p})
		if err != nil {
			t.Fatal(err)
		}
		f.LearnShape(2, sd)
		w, err := NewLOO(f, predict.AtMode, false)
		if err != nil {
			t.Fatal(err)
		}
		var b kernels.Batch
		for range 20 {
			y := draw()
			b.Reset()
			b.Add(0, 1)
			b.EndRow()
			b.Y = append(b.Y, y)
			q, err := w.point(&b, 0, 0.7, 0.01)
			if err != nil {
				t.Fatal(err)
			}
			// By a grid over both.
			var total, one, two float64
			for i := -20; i <= 20; i++ {
				for k := -20; k <= 20; k++ {
					z, u := float64(i)/4, float64(k)/4
					other, err := lik.New(family, "", lik.Params{Shape: 2 * math.Exp(sd*u)})
					if err != nil {
						t.Fatal(err)
					}
					log, _, _ := other.LogLik(lik.Obs{Y: y, Weight: 1}, 0.7+0.1*z)
					at := math.Exp(-0.5 * (z*z + u*u))
					total, one, two = total+at, one+at*log, two+at*log*log
				}
			}
			one /= total
			kerneltest.Close(t, family+" penalty", q.Penalty, two/total-one*one, kerneltest.Tol{Rel: 0.1, Abs: 0.003})
		}
	}
}

// Other families against the fit without each row: the sums agree within a fortieth of the
// standard error, that of WAIC, which is known to be too high, within a fifth; a row that is
// not warned of is right within 0.15 nats.
func TestLOOAgainstRefits(t *testing.T) {
	all, _, _ := facts(t)
	d := all.only(func(i int) bool { return i < 40 })
	warned := 0
	for _, c := range []struct{ y, family string }{{"bin", "bernoulli"}, {"cnt", "poisson"}, {"pos", "gamma"}} {
		o := map[string]any{"family": c.family, "standardize": false, "prior_variance": 4.0}
		if c.family == "gamma" {
			o["shape"] = 3.0
		}
		d.number["x"][3] = 5 // a row that others do not say much about
		f := d.fit(t, c.y, "x g", o, nil)
		l, err := NewLOO(f, engine.FactorOf(f.Method), true)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Add(context.Background(), d.batch(t, f, l.Features(), c.y, "x g")); err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i := range d.n {
			one := d.only(func(j int) bool { return j == i })
			out := d.only(func(j int) bool { return j != i }).fit(t, c.y, "x g", o, nil)
			r, err := NewLOO(out, engine.FactorOf(out.Method), false)
			if err != nil {
				t.Fatal(err)
			}
			b := one.batch(t, out, r.Features(), c.y, "x g")
			mine := one.batch(t, f, l.Features(), c.y, "x g")
			want, err := r.LogDensity(b, 0)
			if err != nil {
				t.Fatal(err)
			}
			m, v, _ := l.Linear(mine, 0)
			p, err := l.point(mine, 0, m, v)
			if err != nil {
				t.Fatal(err)
			}
			if p.Reach > predict.MaxReach {
				warned++
			} else {
				kerneltest.Close(t, fmt.Sprintf("%s row %d (reach %.2f)", c.family, i, p.Reach), p.LOO, want, exact(0.15))
			}
			sum += want
		}
		s := l.Summary()
		kerneltest.Close(t, c.family, s.ELPD, sum, exact(0.025*s.SE))
		kerneltest.Close(t, c.family+" WAIC", s.ELPDWaic, sum, exact(0.2*s.SE))
	}
	if warned == 0 {
		t.Error("no row is warned of")
	}
}

// Of responses that one level a row separates, each row says nearly all that is known of its
// level: EP's own factors leave it out, as refits do, where Laplace's at the mean of the
// posterior flatter the fit four times over.
func TestLOOOfSeparatedRows(t *testing.T) {
	d := &data{n: 12, number: map[string][]float64{}, text: map[string][]string{}}
	for i := range d.n {
		d.number["bin"] = append(d.number["bin"], float64((i*5+i/4)%2))
		d.text["one"] = append(d.text["one"], fmt.Sprint("own", i))
		d.text["g"] = append(d.text["g"], fmt.Sprint("g", i%3))
	}
	o := map[string]any{"prior_variance": 15.0, "covariance": "full"}
	f := d.fitBy(t, "ep", "bin", "one g", o, nil)
	l, err := NewLOO(f, engine.FactorOf(f.Method), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Add(context.Background(), d.batch(t, f, l.Features(), "bin", "one g")); err != nil {
		t.Fatal(err)
	}
	var mode, sum float64
	for i := range d.n {
		one := d.only(func(j int) bool { return j == i })
		r, err := NewLOO(d.only(func(j int) bool { return j != i }).fitBy(t, "ep", "bin", "one g", o, nil), engine.FactorOf("ep"), false)
		if err != nil {
			t.Fatal(err)
		}
		want, err := r.LogDensity(one.batch(t, r.Fit, r.Features(), "bin", "one g"), 0)
		if err != nil {
			t.Fatal(err)
		}
		// Other rows' sites change a little without this one, by way of g and the intercept.
		kerneltest.Close(t, fmt.Sprint("row ", i), l.points[i], want, exact(0.1))
		p, err := l.Influence(one.batch(t, f, l.Features(), "bin", "one g"), 0)
		if err != nil {
			t.Fatal(err)
		}
		mode, sum = mode+p.LOO, sum+want
	}
	if !(mode > sum/2) {
		t.Errorf("Laplace's factors give %v of %v: this data would not show the difference", mode, sum)
	}
}

// Merged parts are the whole.
func TestMergeLOO(t *testing.T) {
	d, _, _ := facts(t)
	f := d.fit(t, "bin", "x g", nil, nil)
	whole, _ := NewLOO(f, engine.FactorOf(f.Method), false)
	if err := whole.Add(context.Background(), d.batch(t, f, whole.Features(), "bin", "x g")); err != nil {
		t.Fatal(err)
	}
	a, _ := NewLOO(f, engine.FactorOf(f.Method), false)
	b := a.Clone()
	for k, l := range []*LOO{a, b} {
		part := d.only(func(i int) bool { return i%2 == k })
		if err := l.Add(context.Background(), part.batch(t, f, l.Features(), "bin", "x g")); err != nil {
			t.Fatal(err)
		}
	}
	a.Merge(b)
	got, want := a.Summary(), whole.Summary()
	for k, x := range [][2]float64{{got.ELPD, want.ELPD}, {got.SE, want.SE}, {got.PLoo, want.PLoo}, {got.PWaic, want.PWaic}, {got.Worst, want.Worst}} {
		kerneltest.Close(t, fmt.Sprint(k), x[0], x[1], kerneltest.Tol{Rel: 1e-12})
	}
	if got.N != want.N {
		t.Error(got.N, want.N)
	}
}

// A row of weight w is w rows: sums, their errors, differences, the weights of stacking, the area by
// pairs and the drivers are those of a table that has all of them, under
// one posterior.
func TestWeightedRowsAreRows(t *testing.T) {
	d, _, _ := facts(t)
	for i := range d.n { // cells, of which some are alike
		d.number["x"][i] = math.Round(d.number["x"][i])
	}
	rng := rand.New(rand.NewPCG(4, 4))
	times := make([]float64, d.n)
	long := &data{number: map[string][]float64{}, text: map[string][]string{}}
	for i := range times {
		times[i] = float64(rng.IntN(4))
		for range int(times[i]) {
			one := d.only(func(j int) bool { return j == i })
			long.n++
			for k, x := range one.number {
				long.number[k] = append(long.number[k], x...)
			}
			for k, x := range one.text {
				long.text[k] = append(long.text[k], x...)
			}
		}
	}
	const x = "x g"
	o := map[string]any{"standardize": false, "prior_variance": 2.0}
	a, b := long.fit(t, "bin", x, o, nil), long.fit(t, "bin", x, map[string]any{"standardize": false, "prior_variance": 0.01}, nil)
	sums := func(d *data, weight []float64) []float64 {
		var fits []*LOO
		for _, f := range []*kernels.Fit{a, b} {
			l, err := NewLOO(f, engine.FactorOf(f.Method), true)
			if err != nil {
				t.Fatal(err)
			}
			rows := d.batch(t, f, l.Features(), "bin", x)
			rows.Weight = weight
			if err := l.Add(context.Background(), rows); err != nil {
				t.Fatal(err)
			}
			fits = append(fits, l)
		}
		p, err := NewPairAUC(a, engine.FactorOf(a.Method))
		if err != nil {
			t.Fatal(err)
		}
		rows := d.batch(t, a, p.Features(), "bin", x)
		rows.Weight = weight
		if err := p.Add(context.Background(), rows); err != nil {
			t.Fatal(err)
		}
		area, err := p.Value(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		out := []float64{area}
		got, err := Compare([]string{"a", "b"}, fits)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range got {
			out = append(out, c.ELPD, c.SE, c.PLoo, c.PWaic, c.Waic, c.Diff, c.SEDiff, c.Weight)
		}
		drive, err := NewDrivers(a, 0)
		if err != nil {
			t.Fatal(err)
		}
		rows = d.batch(t, a, drive.Features(), "", x)
		rows.Weight = weight
		if err := drive.Add(context.Background(), rows); err != nil {
			t.Fatal(err)
		}
		driven, err := drive.Drivers(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range driven {
			out = append(out, c.Mean, c.SD, c.Spread)
		}
		return out
	}
	want := sums(long, nil)
	for k, got := range sums(d, times) {
		kerneltest.Close(t, fmt.Sprint(k), got, want[k], kerneltest.Tol{Rel: 1e-8, Abs: 1e-10})
	}
}

// Differences, their errors and the weights of stacking are those of R's package loo. Its
// optimiser ends within 1e-6 or so.
func TestCompareAgainstR(t *testing.T) {
	_, by, all := facts(t)
	fits := make([]*LOO, 3)
	names := []string{"1", "2", "3"}
	for k := range fits {
		fits[k], _ = NewLOO(&kernels.Fit{Family: "gaussian", Link: "identity", Dispersion: 1, Shape: math.NaN(), LogEvidence: math.NaN()}, predict.AtMode, true)
	}
	for _, f := range all {
		if f["model"] == "stacking" && f["what"] == "point" {
			k := f["key"][len(f["key"])-1] - '1'
			x := kerneltest.Number(t, f["value"])
			fits[k].points, fits[k].weights = append(fits[k].points, x), append(fits[k].weights, 1)
			fits[k].rows++
			fits[k].loo.add(x, 1)
			fits[k].lpd.add(x, 1)
		}
	}
	got, err := Compare(names, fits)
	if err != nil {
		t.Fatal(err)
	}
	for k, c := range got {
		for what, x := range map[string]float64{"elpd": c.ELPD, "se": c.SE, "diff": c.Diff, "se_diff": c.SEDiff} {
			kerneltest.Close(t, c.Name+" "+what, x, by["stacking "+what][c.Name], exact(1e-9))
		}
		kerneltest.Close(t, c.Name+" weight", c.Weight, by["stacking weight"][c.Name], exact(2e-5))
		if k > 0 && c.Diff > got[k-1].Diff {
			t.Error("not the best first")
		}
	}
	fits[0].points = fits[0].points[1:]
	if _, err := Compare(names, fits); err == nil || !strings.Contains(err.Error(), "the same rows") {
		t.Error(err)
	}
}

// The weights of stacking maximise: at them Σ_i p_ik / (Pw)_i <= n, with equality where w_k > 0.
func TestStack(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for k := 2; k < 7; k++ {
		rows := make([][]float64, 50)
		for i := range rows {
			rows[i] = make([]float64, k)
			for j := range rows[i] {
				rows[i][j] = -1 + rng.NormFloat64() - 0.2*float64(j*(j%3))
			}
		}
		w := stack(rows, slices.Repeat([]float64{1}, len(rows)), k)
		for j := range k {
			g := 0.0
			for _, row := range rows {
				z := 0.0
				for a := range k {
					z += w[a] * math.Exp(row[a])
				}
				g += math.Exp(row[j]) / z / float64(len(rows))
			}
			if g > 1+1e-8 || w[j] > 1e-6 && g < 1-1e-8 {
				t.Errorf("%d fits: weight %d is %v, its slope %v", k, j, w[j], g)
			}
		}
	}
}

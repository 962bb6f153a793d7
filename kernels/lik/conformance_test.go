package lik

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

var update = flag.Bool("update", false, "rewrite ACCURACY.md")

// The promise of quadrature 'auto'. golden compares in these units.
const (
	tolLogZ     = 1e-8 // absolute, relative where |logZ| > 1
	tolMean     = 1e-6 // tilted deviations
	tolVariance = 1e-6 // relative
	tolPredict  = 1e-8 // relative
	ulp         = 1.0 / (1 << 52)
)

func mustNew(t testing.TB, family, link string, p Params) Likelihood {
	t.Helper()
	l, err := New(family, link, p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// every calls f once for each registered family and link.
func every(t *testing.T, f func(t *testing.T, l Likelihood)) {
	for _, info := range Families() {
		for _, link := range info.Links {
			t.Run(info.Family+"_"+link, func(t *testing.T) {
				f(t, mustNew(t, info.Family, link, Params{Dispersion: 1.5, Shape: 2}))
			})
		}
	}
}

// responses are values inside the support.
func responses(l Likelihood) []float64 {
	switch t := l.Traits(); {
	case t.Binary:
		return []float64{0, 1}
	case t.Trials:
		return []float64{0, 1, 7, testTrials}
	case t.Counts:
		return []float64{0, 1, 3, 20, 300, 1e6}
	}
	if l.Check(Obs{Y: -3, Weight: 1}) != nil { // a family of positive numbers
		return []float64{1e-8, 0.3, 1, 40, 1e8}
	}
	return []float64{-3, 0, 1.5, 100}
}

// testTrials are the binomial trials of the tests that are not golden tables.
const testTrials = 12

// observe is one observation, with trials for the family that has them.
func observe(l Likelihood, y, w float64) Obs {
	o := Obs{Y: y, Weight: w}
	if l.Traits().Trials {
		o.Trials = testTrials
	}
	return o
}

// concave reports that the tilted law has one mode for every y.
func concave(family, link string) bool {
	l, err := New(family, link, Params{Dispersion: 1})
	return err == nil && l.Traits().Concave
}

type golden struct {
	family, link                 string
	o                            Obs
	dispersion, shape, m, v      float64
	logZ, alpha, beta, ratio, pm float64
}

func (g golden) String() string {
	extra := ""
	if g.o.Trials > 0 {
		extra += fmt.Sprintf(" trials=%v", g.o.Trials)
	}
	if g.shape > 0 {
		extra += fmt.Sprintf(" shape=%v", g.shape)
	}
	return fmt.Sprintf("y=%v w=%v m=%v v=%v%s", g.o.Y, g.o.Weight, g.m, g.v, extra)
}

func readGolden(t testing.TB, family, link string) []golden {
	var out []golden
	for _, r := range kerneltest.Golden(t, filepath.Join("..", "..", "testdata", "lik", family+"_"+link+".csv")) {
		n := func(name string) float64 {
			if r[name] == "" { // an older table without trials and shape
				return 0
			}
			return kerneltest.Number(t, r[name])
		}
		out = append(out, golden{family, link, Obs{Y: n("y"), Weight: n("weight"), Trials: n("trials")},
			n("dispersion"), n("shape"), n("m"), n("v"), n("logz"), n("alpha"), n("beta"), n("ratio"), n("pred_mean")})
	}
	return out
}

// worst is the largest error seen, and where.
type worst struct {
	err   float64
	where string
}

func (w *worst) see(err float64, where fmt.Stringer) {
	if !(err <= w.err) { // also keeps NaN
		w.err, w.where = err, where.String()
	}
}

type accuracy struct {
	rows                                int
	logZ, mean, variance, beta, predict worst
}

// errors of t against g, in the units of the promise.
func (g golden) errors(t Tilted) (logZ, mean, variance float64) {
	logZ = math.Abs(t.LogZ-g.logZ) / math.Max(1, math.Abs(g.logZ))
	// two ulp of alpha are free: m = 1e4, v = 1e-12 and a Poisson y = 0 give alpha = -1e16,
	// and one rounding of that number alone moves the mean by 1e-4 tilted deviations
	mean = math.Max(0, math.Abs(t.Alpha-g.alpha)-2*ulp*math.Abs(g.alpha)) * math.Sqrt(g.v/g.ratio)
	variance = math.Abs(t.Ratio/g.ratio - 1)
	return logZ, mean, variance
}

// beta is compared where it moves the variance by more than 1e-12 of itself.
func (g golden) betaError(t Tilted) float64 {
	if g.v*math.Abs(g.beta) < 1e-12 && math.Abs(g.beta) < 1e-12 {
		return 0
	}
	if !concave(g.family, g.link) {
		// beta crosses 0: below 1e-8 of the prior's precision it is judged on that scale
		return math.Abs(t.Beta-g.beta) / math.Max(math.Abs(g.beta), 1e-8/g.v)
	}
	return math.Abs(t.Beta/g.beta - 1)
}

func measure(t testing.TB, family, link string, check bool) (acc accuracy) {
	bad := 0
	for _, g := range readGolden(t, family, link) {
		l := mustNew(t, family, link, Params{Dispersion: g.dispersion, Shape: g.shape})
		got := l.Moments(g.o, g.m, g.v)
		acc.rows++
		lz, mean, variance := g.errors(got)
		acc.logZ.see(lz, g)
		acc.mean.see(mean, g)
		acc.variance.see(variance, g)
		be := g.betaError(got)
		acc.beta.see(be, g)
		pm, _ := l.Predict(g.m, g.v)
		pe := math.Abs(pm-g.pm) / math.Max(math.Abs(g.pm), 1e-300)
		if pm == g.pm {
			pe = 0
		}
		acc.predict.see(pe, g)
		ok := lz <= tolLogZ && mean <= tolMean && variance <= tolVariance && be <= 1e-5 && pe <= tolPredict
		if check && !ok {
			if bad++; bad <= 12 {
				t.Errorf("%v: logZ %.3g mean %.3g variance %.3g beta %.3g predict %.3g\n got %+v %v\nwant %v %v %v %v %v",
					g, lz, mean, variance, be, pe, got, pm, g.logZ, g.alpha, g.beta, g.ratio, g.pm)
			}
		}
	}
	if bad > 12 {
		t.Errorf("... %d rows fail in all", bad)
	}
	return acc
}

func TestGolden(t *testing.T) {
	every(t, func(t *testing.T, l Likelihood) {
		acc := measure(t, l.Family(), l.Link(), true)
		t.Logf("%d rows; worst: logZ %.2g (%s); mean %.2g sd (%s); variance %.2g (%s); beta %.2g (%s); predict %.2g (%s)",
			acc.rows, acc.logZ.err, acc.logZ.where, acc.mean.err, acc.mean.where, acc.variance.err, acc.variance.where,
			acc.beta.err, acc.beta.where, acc.predict.err, acc.predict.where)
	})
}

// TestAccuracyTable keeps ACCURACY.md in step with the code: -update rewrites it, and
// otherwise an entry that got more than ten times worse than the file says fails.
func TestAccuracyTable(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Accuracy of the moments

Worst errors of quadrature 'auto' over the reference rows in testdata/lik (60-digit arithmetic,
testdata/gen/moments.py): m in [-1e4, 1e4], v in [1e-12, 1e6], weights 0.1, 1, 2.5 and 100,
responses over each support (counts and trials up to 1e6). Written by ` + "`go test ./kernels/lik -run TestAccuracyTable -update`" + `; powers of ten, rounded up.

logZ: absolute, relative where it exceeds 1. Mean: in tilted deviations. Variance and predictive
mean: relative.

What the numbers leave out: two roundings of alpha are not counted in the mean (with m = 1e4 and
v = 1e-12 one rounding alone moves it by up to 1e-4 tilted deviations). The test also holds beta to
1e-5 of itself; for gaussian log and studentt, whose beta crosses zero, to 1e-5 of beta or of 1e-8/v,
whichever is larger. Ratio is never below 1e-24, which a gaussian log datum sharper than that reaches.

| family | link | rows | logZ | mean | variance | predictive mean |
|---|---|---|---|---|---|---|
`)
	ceil := func(w worst) string { return fmt.Sprintf("1e%d", int(math.Ceil(math.Log10(math.Max(w.err, 1e-16))))) }
	for _, info := range Families() {
		for _, link := range info.Links {
			a := measure(t, info.Family, link, false)
			fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %s | %s |\n", info.Family, link, a.rows,
				ceil(a.logZ), ceil(a.mean), ceil(a.variance), ceil(a.predict))
		}
	}
	if *update {
		if err := os.WriteFile("ACCURACY.md", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	old, err := os.ReadFile("ACCURACY.md")
	if err != nil {
		t.Fatal(err)
	}
	before, after := strings.Split(string(old), "\n"), strings.Split(b.String(), "\n")
	if len(before) != len(after) {
		t.Fatal("ACCURACY.md is out of date: run with -update")
	}
	for i, line := range after {
		was, is := strings.Split(before[i], "|"), strings.Split(line, "|")
		if len(was) != len(is) {
			t.Fatalf("ACCURACY.md line %d is out of date: run with -update", i+1)
		}
		for j := range is {
			var x, y float64
			n1, _ := fmt.Sscanf(strings.TrimSpace(was[j]), "1e%g", &x)
			n2, _ := fmt.Sscanf(strings.TrimSpace(is[j]), "1e%g", &y)
			if n1 == 1 && n2 == 1 && y > x+1 {
				t.Errorf("accuracy fell: %q, ACCURACY.md says %q", line, before[i])
			}
		}
	}
}

func BenchmarkMoments(b *testing.B) {
	for _, c := range []struct {
		name, link string
		y, w       float64
		nodes      int
	}{
		{"probit", "probit", 1, 1, 0},
		{"probit-w2.5", "probit", 1, 2.5, 0},
		{"gaussian", "identity", 1, 1, 0},
		{"logit", "logit", 1, 1, 0},
		{"logit-w2.5", "logit", 1, 2.5, 0},
		{"logit-20nodes", "logit", 1, 1, 20},
		{"cloglog", "cloglog", 1, 1, 0},
		{"poisson-y0", "log", 0, 1, 0},
		{"poisson-y3", "log", 3, 1, 0},
		{"poisson-y300", "log", 300, 1, 0},
	} {
		b.Run("lik="+c.name, func(b *testing.B) {
			l := mustNew(b, "", c.link, Params{Dispersion: 1, Quadrature: c.nodes})
			o := Obs{Y: c.y, Weight: c.w}
			b.ReportAllocs()
			i, s := 0, 0.0
			for b.Loop() {
				i = (i + 7) & 63
				m, v := float64(i&15)*0.6-4.6, 0.1+float64(i>>4)*1.5 // |m| < 5, v in 0.1 .. 4.6
				t := l.Moments(o, m, v)
				s += t.Alpha
			}
			sink = s
		})
	}
}

var sink float64

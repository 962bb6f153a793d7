package engine_test

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
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
)

// trials are groups of as many binary rows each, whose logits vary by sd about -1/2.
func trials(rng *rand.Rand, groups, rowsEach int, sd float64) (tab *rows.Table, ones []int) {
	var g []string
	var y []float64
	ones = make([]int, groups)
	for k := range ones {
		p := 1 / (1 + math.Exp(0.5-sd*rng.NormFloat64()))
		for range rowsEach {
			one := 0
			if rng.Float64() < p {
				one = 1
			}
			ones[k] += one
			g, y = append(g, fmt.Sprint("g", k)), append(y, float64(one))
		}
	}
	return &rows.Table{X: rows.Fields(rows.Texts("g", g)), Y: rows.Numbers("y", y)}, ones
}

// exactly are mean and deviation of the groups' standard deviation, half-t with three degrees of
// freedom and scale 2.5, and of the intercept, N(0, 10), by sums over fine grids of both and of
// each group's weight.
func exactly(ones []int, m int) (sd, sdSD, at, atSD float64) {
	var z, w []float64 // a standard normal, by the midpoint rule
	for x := -6.0; x <= 6; x += 0.1 {
		z, w = append(z, x), append(w, 0.1*math.Exp(-0.5*x*x)/math.Sqrt(2*math.Pi))
	}
	count := make([]float64, m+1)
	for _, k := range ones {
		count[k]++
	}
	var total, s1, s2, b1, b2, top float64
	first := true
	for lt := math.Log(0.003); lt < math.Log(15); lt += 0.1 {
		t := math.Exp(lt)
		for b := -4.0; b < 3; b += 0.09 {
			log := lt - 2*math.Log1p(t*t/(3*2.5*2.5)) - b*b/20
			for k, n := range count {
				sum := 0.0
				for i, x := range z {
					eta := b + t*x
					sum += w[i] * math.Exp(float64(k)*eta-float64(m)*math.Log1p(math.Exp(eta)))
				}
				log += n * math.Log(sum)
			}
			if first {
				top, first = log, false
			}
			p := math.Exp(log - top)
			total, s1, s2, b1, b2 = total+p, s1+p*t, s2+p*t*t, b1+p*b, b2+p*b*b
		}
	}
	sd, at = s1/total, b1/total
	return sd, math.Sqrt(s2/total - sd*sd), at, math.Sqrt(b2/total - at*at)
}

func fitBy(t *testing.T, method string, tab *rows.Table, options map[string]any) (*engine.Result, map[string]predict.Term) {
	t.Helper()
	s, err := option.For(method).Decode(func(yield func(string, option.Source) bool) {
		for k, v := range options {
			if !yield(k, option.Go(v)) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := engine.Fit(context.Background(), method, s, tab)
	if err != nil {
		t.Fatal(err)
	}
	terms, err := predict.Summary(r.Fit, 0.95, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]predict.Term{}
	for _, term := range terms {
		all[term.Term] = term
	}
	return r, all
}

// The standard deviation of groups of few trials by EP is that of the exact posterior within a
// fifth of its deviation, and so is the intercept, whose deviation has what is not known of it. The
// summary has it, and not where it is not integrated.
func TestEPIntegrates(t *testing.T) {
	kerneltest.Slow(t)
	auto := map[string]any{"prior_variance": "auto"}
	for _, c := range []struct {
		groups, m int
		sd        float64
	}{{30, 4, 1.5}, {60, 3, 1}, {20, 10, 0}, {12, 40, 0.7}} {
		tab, ones := trials(rand.New(rand.NewPCG(5, uint64(c.groups))), c.groups, c.m, c.sd)
		sd, sdSD, at, atSD := exactly(ones, c.m)
		r, terms := fitBy(t, "ep", tab, auto)
		what := fmt.Sprintf("%d groups of %d", c.groups, c.m)
		got, b := terms["sd(g)"], terms[kernels.Intercept]
		t.Logf("%s: sd %.3f ± %.3f, exact %.3f ± %.3f; intercept %.3f ± %.3f, exact %.3f ± %.3f; %s", what, got.Mean, got.SD, sd, sdSD, b.Mean, b.SD, at, atSD, r.Status)
		kerneltest.Close(t, what+": sd(g)", got.Mean, sd, kerneltest.Tol{Abs: 0.2 * sdSD})
		kerneltest.Close(t, what+": its deviation", got.SD, sdSD, kerneltest.Tol{Rel: 0.1})
		kerneltest.Close(t, what+": intercept", b.Mean, at, kerneltest.Tol{Abs: 0.1 * atSD})
		kerneltest.Close(t, what+": its deviation", b.SD, atSD, kerneltest.Tol{Rel: 0.05})
		if r.Status != "ok" || !(got.Lower > 0 && got.Lower < got.Mean && got.Mean < got.Upper) {
			t.Errorf("%s: %+v %s", what, got, r.Status)
		}
		off, terms := fitBy(t, "ep", tab, map[string]any{"prior_variance": "auto", "integrate": false})
		if _, ok := terms["sd(g)"]; ok {
			t.Errorf("%s: sd(g) without integration", what)
		}
		if off.Fit.LogEvidence < r.Fit.LogEvidence-1e-6 {
			t.Errorf("%s: log evidence %v at the maximum, %v", what, off.Fit.LogEvidence, r.Fit.LogEvidence)
		}
	}
}

// Laplace says where its evidence is too poor for the variance of groups of few rows: by more than
// half of a deviation always, by less than a fifth never.
func TestFewRowsAreSaid(t *testing.T) {
	kerneltest.Slow(t)
	said := 0
	for seed := range uint64(2) {
		for _, c := range []struct {
			groups, m int
			sd        float64
		}{{60, 3, 1.5}, {80, 2, 2}, {20, 10, 1}, {12, 40, 0.7}} {
			tab, ones := trials(rand.New(rand.NewPCG(6, seed)), c.groups, c.m, c.sd)
			sd, sdSD, _, _ := exactly(ones, c.m)
			r, terms := fitBy(t, "laplace", tab, map[string]any{"prior_variance": "auto"})
			off := (sd - terms["sd(g)"].Mean) / sdSD
			alarm := strings.Contains(r.Status, "the learnt variance of column g rests on Laplace's approximation")
			t.Logf("%+v: sd %.3f ± %.3f, exact %.3f ± %.3f: %.2f deviations off; %s", c, terms["sd(g)"].Mean, terms["sd(g)"].SD, sd, sdSD, off, r.Status)
			if math.Abs(off) > 0.5 && !alarm || math.Abs(off) < 0.2 && alarm {
				t.Errorf("%+v: %.2f deviations off: %s", c, off, r.Status)
			}
			if alarm {
				said++
			}
		}
	}
	if said < 4 {
		t.Errorf("%d alarms", said)
	}
}

// Numbers of gaussian responses are those of laplace, which integrates in the same way where the
// dispersion is given.
func TestEPIntegratesAsLaplace(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	var g []string
	var x, y []float64
	for i := range 90 {
		x = append(x, rng.NormFloat64())
		g = append(g, fmt.Sprint("g", i%9))
		y = append(y, 100+float64(i%9)+2*x[i]+3*rng.NormFloat64())
	}
	tab := &rows.Table{X: rows.Fields(rows.Texts("g", g), rows.Numbers("x", x)), Y: rows.Numbers("y", y)}
	given := map[string]any{"prior_variance": "auto", "family": "gaussian", "dispersion": 9.0}
	want, by := fitBy(t, "laplace", tab, given)
	got, terms := fitBy(t, "ep", tab, given)
	for name, w := range by {
		kerneltest.Close(t, name, terms[name].Mean, w.Mean, kerneltest.Tol{Abs: 0.02 * w.SD})
		kerneltest.Close(t, name+": deviation", terms[name].SD, w.SD, kerneltest.Tol{Rel: 0.02})
	}
	kerneltest.Close(t, "log evidence", got.Fit.LogEvidence, want.Fit.LogEvidence, kerneltest.Tol{Abs: 1e-3})
}

package laplace

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// byLevels is a problem with an intercept and columns of levels.
func byLevels(t testing.TB, m *kernels.Model, y, weight []float64, names []string, levels ...[]string) *kernels.Problem {
	t.Helper()
	r, err := kernels.NewRows(m)
	if err != nil {
		t.Fatal(err)
	}
	r.Dict.Use(kernels.NewColumns(names, nil))
	var b kernels.Batch
	b.Reset()
	for i := range y {
		b.Add(0, 1)
		for c, name := range names {
			id, err := r.Dict.Add(name + "=" + levels[c][i])
			if err != nil {
				t.Fatal(err)
			}
			b.Add(id, 1)
		}
		b.EndRow()
	}
	b.Y, b.Weight = y, weight
	if err := r.Update(&b, false); err != nil {
		t.Fatal(err)
	}
	p, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// learnt is the learner at the maximum of the evidence.
func learnt(t *testing.T, p *kernels.Problem) *learner {
	t.Helper()
	e, err := newEngine(planned(p))
	if err != nil {
		t.Fatal(err)
	}
	h, err := newLearner(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, status, _, err := h.maximise(nil); err != nil || status != "" {
		t.Fatal(status, err)
	}
	return h
}

func numbers(t testing.TB, text string) (out []float64) {
	t.Helper()
	for _, s := range strings.Split(text, ",") {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}

const (
	// Davies and Goldsmith (1972), the data of the R package lme4: yields of dyestuff, five of
	// each of six batches; diameters of inhibition of growth by penicillin, 24 plates by 6
	// samples; strengths of paste, two of each of three casks of ten batches.
	dyestuff   = "1545,1440,1440,1520,1580,1540,1555,1490,1560,1495,1595,1550,1605,1510,1560,1445,1440,1595,1465,1545,1595,1630,1515,1635,1625,1520,1455,1450,1480,1445"
	penicillin = "27,23,26,23,23,21,27,23,26,23,23,21,25,21,25,24,24,20,26,23,25,23,23,20,25,22,26,22,23,20,24,22,25,23,22,19,24,20,23,21,22,19,26,22,26,24,24,21,24,21,24,22,22,20,24,21,24,23,22,19,26,23,26,24,24,21,25,22,26,24,24,20,26,24,26,24,25,22,26,23,26,23,23,20,26,23,25,24,24,22,25,22,25,23,23,20,25,21,24,23,23,20,25,22,24,23,23,19,24,21,23,21,21,19,26,23,26,24,24,21,25,21,24,22,22,18,25,22,25,22,22,20,24,21,24,22,24,19,24,21,24,22,21,18"
	pastes     = "62.8,62.6,60.1,62.3,62.7,63.1,60,61.4,57.5,56.9,61.1,58.9,58.7,57.5,63.9,63.1,65.4,63.7,57.1,56.4,56.9,58.6,64.7,64.5,55.1,55.1,54.7,54.2,58.8,57.5,63.4,64.9,59.3,58.1,60.5,60,62.5,62.6,61,58.7,56.9,57.7,59.2,59.4,65.2,66,64.8,64.1,54.8,54.8,64,64,57.7,56.8,58.3,59.3,59.2,59.2,58.9,56.6"
)

// With a vague intercept the evidence of a gaussian model is the restricted likelihood: the
// deviations that maximise it are those of lmer (lme4 1.1-31), for one column, crossed and
// nested ones.
func TestRestrictedLikelihood(t *testing.T) {
	level := func(f func(i int) int, n int) (out []string) {
		for i := range n {
			out = append(out, "l"+strconv.Itoa(f(i)))
		}
		return out
	}
	for _, c := range []struct {
		name, data string
		columns    []string
		levels     []func(i int) int
		want       []float64 // by column, and the noise
	}{
		{"dyestuff", dyestuff, []string{"batch"}, []func(int) int{func(i int) int { return i / 5 }}, []float64{42.000595, 49.510100}},
		{"penicillin", penicillin, []string{"plate", "sample"}, []func(int) int{func(i int) int { return i / 6 }, func(i int) int { return i % 6 }}, []float64{0.84670251, 1.93161379, 0.54992268}},
		{"pastes", pastes, []string{"batch", "batch:cask"}, []func(int) int{func(i int) int { return i / 6 }, func(i int) int { return i / 2 }}, []float64{1.28736474, 2.90407781, 0.82340752}},
	} {
		y := numbers(t, c.data)
		m := model(t, "gaussian", "", lik.Params{})
		m.NoIntercept = false
		m.Prior.InterceptVariance = 1e8
		m.Options = kernels.Options{AutoPrior: true, AutoDispersion: true}
		var levels [][]string
		for _, f := range c.levels {
			levels = append(levels, level(f, len(y)))
		}
		h := learnt(t, byLevels(t, m, y, nil, c.columns, levels...))
		for k, want := range c.want {
			at := slices.Index(h.Names, append(c.columns, "")[k])
			if at < 0 {
				at = h.dispersion
			}
			kerneltest.Close(t, c.name, math.Exp(0.5*h.theta[at]), want, kerneltest.Tol{Rel: 2e-4})
		}
	}
}

// eightSchools is the problem of Rubin (1981): effects and their known deviations.
func eightSchools(t *testing.T) *kernels.Problem {
	y := []float64{28, 8, -3, 7, -1, 1, 18, 12}
	sigma := []float64{15, 10, 16, 11, 9, 11, 10, 18}
	weight := make([]float64, 8)
	school := make([]string, 8)
	for i, s := range sigma {
		weight[i], school[i] = 1/(s*s), string(rune('A'+i))
	}
	m := model(t, "gaussian", "", lik.Params{})
	m.NoIntercept = false
	m.Prior.InterceptVariance = 25
	m.Options = kernels.Options{AutoPrior: true, Integrate: true, SDScale: 5, SDFreedom: 1}
	return byLevels(t, m, y, weight, []string{"school"}, school)
}

// The evidence of eight schools is highest at tau = 0. Integrated, the posterior is the exact
// mixture over tau (by a fine sum here), which is that of posteriordb's reference draws
// (eight_schools_noncentered, mu ~ N(0, 5), tau ~ half-Cauchy(0, 5)): tau 3.60 ± 3.20, mu
// 4.41 ± 3.32, theta[1] 6.15 ± 5.59.
func TestEightSchools(t *testing.T) {
	p := eightSchools(t)
	h := learnt(t, p)
	if h.theta[0] > 0 {
		t.Errorf("the evidence is highest at tau = %v", math.Exp(0.5*h.theta[0]))
	}
	got, err := h.integrate()
	if err != nil || got == nil || got.weights == nil {
		t.Fatal(got, err)
	}
	// the sum, with the closed form given tau
	t.Logf("tau %.3f ± %.3f, mu %.3f ± %.3f", got.mean[0], got.sd[0], got.weights.mean[0], math.Sqrt(got.weights.vars()[0]))
	total, tau, tau2 := 0.0, 0.0, 0.0
	mean, square := make([]float64, p.P), make([]float64, p.P)
	for x := 0.005; x < 200; x *= 1.03 {
		ev, err := h.try([]float64{2 * math.Log(x)}, make([]float64, p.P), nil)
		if err != nil {
			t.Fatal(err)
		}
		w := math.Exp(ev.log+30) * x / (1 + x*x/25)
		total += w
		tau += w * x
		tau2 += w * x * x
		for j, m := range ev.mean {
			mean[j] += w * m
			square[j] += w * (ev.vars()[j] + m*m)
		}
	}
	tau, tau2 = tau/total, tau2/total
	kerneltest.Close(t, "tau", got.mean[0], tau, kerneltest.Tol{Rel: 0.02})
	kerneltest.Close(t, "sd of tau", got.sd[0], math.Sqrt(tau2-tau*tau), kerneltest.Tol{Rel: 0.03})
	kerneltest.Close(t, "published tau", got.mean[0], 3.60, kerneltest.Tol{Abs: 0.05 * 3.20})
	kerneltest.Close(t, "published sd of tau", got.sd[0], 3.20, kerneltest.Tol{Rel: 0.05})
	for j := range mean {
		m := mean[j] / total
		sd := math.Sqrt(square[j]/total - m*m)
		kerneltest.Close(t, p.Name(j), got.weights.mean[j], m, kerneltest.Tol{Abs: 0.01 * sd})
		kerneltest.Close(t, p.Name(j), math.Sqrt(got.weights.vars()[j]), sd, kerneltest.Tol{Rel: 0.01})
	}
	kerneltest.Close(t, "published mu", got.weights.mean[0], 4.41, kerneltest.Tol{Abs: 0.05 * 3.32})
	theta := got.weights.mean[0] + got.weights.mean[1]
	kerneltest.Close(t, "published theta[1]", theta, 6.15, kerneltest.Tol{Abs: 0.05 * 5.59})
}

// A variance that the data hardly know: its evidence is highest at 0, where the weights would
// be known. Integrated on a grid, and at the mode of its posterior where columns are too many
// for one, they keep most of the deviation that they have under a given prior.
func TestWeakVariances(t *testing.T) {
	kerneltest.Slow(t)
	rng := rand.New(rand.NewPCG(8, 1))
	const n = 400
	for _, columns := range []int{1, 5} {
		y := make([]float64, n)
		names, levels := make([]string, columns), make([][]string, columns)
		for i := range y {
			y[i] = float64(rng.IntN(2))
		}
		for c := range columns {
			names[c] = string(rune('a' + c))
			for range n {
				levels[c] = append(levels[c], string(rune('A'+rng.IntN(4))))
			}
		}
		m := model(t, "bernoulli", "logit", lik.Params{})
		m.Prior.Variance = 0.04
		given, err := Fit(context.Background(), byLevels(t, m, y, nil, names, levels...))
		if err != nil {
			t.Fatal(err)
		}
		m.Prior.Variance = 1
		m.Options = kernels.Options{AutoPrior: true}
		low, err := Fit(context.Background(), byLevels(t, m, y, nil, names, levels...))
		if err != nil {
			t.Fatal(err)
		}
		m.Options.Integrate = true
		got, err := Fit(context.Background(), byLevels(t, m, y, nil, names, levels...))
		if err != nil {
			t.Fatal(err)
		}
		if got.LogEvidence < low.LogEvidence-1e-6 {
			t.Errorf("%d columns: log evidence %v, at its maximum %v", columns, got.LogEvidence, low.LogEvidence)
		}
		least, collapsed := math.Inf(1), math.Inf(1)
		for j := 1; j < len(got.Beliefs); j++ {
			sd := math.Sqrt(given.Beliefs[j].Variance)
			least = min(least, math.Sqrt(got.Beliefs[j].Variance)/sd)
			collapsed = min(collapsed, math.Sqrt(low.Beliefs[j].Variance)/sd)
		}
		t.Logf("%d columns: deviations %.3f, at the maximum %.3f of those with variance 0.04", columns, least, collapsed)
		if !(collapsed < 0.2) {
			t.Errorf("%d columns: the evidence is not highest near 0: %v", columns, collapsed)
		}
		if !(least > 0.4) {
			t.Errorf("%d columns: deviations %v of those of a given prior", columns, least)
		}
	}
}

package ep

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

func like(t testing.TB, family, link string, p lik.Params) lik.Likelihood {
	t.Helper()
	if p.Dispersion == 0 {
		p.Dispersion = 1
	}
	l, err := lik.New(family, link, p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// row is a test row in terms of names; w, trials and time count when set anywhere.
type row struct {
	x                       map[string]float64
	y, w, off, trials, time float64
}

func batchOf(t testing.TB, d *kernels.Dict, m *kernels.Model, rows []row) *kernels.Batch {
	t.Helper()
	b := &kernels.Batch{}
	b.Reset()
	for _, r := range rows {
		if !m.NoIntercept {
			b.Add(0, 1)
		}
		for _, name := range sorted(r.x) {
			id, err := d.Add(name)
			if err != nil {
				t.Fatal(err)
			}
			b.Add(id, r.x[name])
		}
		b.EndRow()
		if r.w == 0 {
			r.w = 1
		}
		b.Y, b.Weight, b.Offset = append(b.Y, r.y), append(b.Weight, r.w), append(b.Offset, r.off)
		b.Trials, b.Time = append(b.Trials, r.trials), append(b.Time, r.time)
	}
	return b
}

func sorted(m map[string]float64) []string {
	var d kernels.Dict
	for k := range m {
		d.Add(k)
	}
	var out []string
	for _, id := range d.Order() {
		out = append(out, string(d.Name(id)))
	}
	return out
}

func problem(t testing.TB, m *kernels.Model, rows []row) *kernels.Problem {
	t.Helper()
	r, err := kernels.NewRows(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Update(batchOf(t, &r.Dict, m, rows), false); err != nil {
		t.Fatal(err)
	}
	p, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func fit(t testing.TB, p *kernels.Problem) *Result {
	t.Helper()
	r, err := Fit(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func filter(t testing.TB, m *kernels.Model, rows []row) *kernels.Fit {
	t.Helper()
	s, err := adf.New(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), batchOf(t, s.Features(), m, rows), false); err != nil {
		t.Fatal(err)
	}
	f, err := s.Fit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func close(t testing.TB, what string, got, want, rel float64) {
	t.Helper()
	kerneltest.Close(t, what, got, want, kerneltest.Tol{Rel: rel, Abs: rel})
}

// family is a likelihood with a way to draw responses.
type family struct {
	l      lik.Likelihood
	trials float64
	y      func(r *rand.Rand, s float64) float64
}

func families(t testing.TB) map[string]family {
	coin := func(r *rand.Rand, s float64) float64 {
		if s+r.NormFloat64() > 0 {
			return 1
		}
		return 0
	}
	count := func(r *rand.Rand, s float64) float64 {
		n := 0.0
		for u := r.ExpFloat64(); u < math.Exp(min(s, 3)); u += r.ExpFloat64() {
			n++
		}
		return n
	}
	real := func(r *rand.Rand, s float64) float64 { return s + r.NormFloat64() }
	return map[string]family{
		"logit":       {like(t, "bernoulli", "logit", lik.Params{}), 0, coin},
		"probit":      {like(t, "bernoulli", "probit", lik.Params{}), 0, coin},
		"cloglog":     {like(t, "bernoulli", "cloglog", lik.Params{}), 0, coin},
		"binomial":    {like(t, "binomial", "logit", lik.Params{}), 3, func(r *rand.Rand, s float64) float64 { return float64(r.IntN(4)) }},
		"poisson":     {like(t, "poisson", "log", lik.Params{}), 0, count},
		"negbinomial": {like(t, "negbinomial", "log", lik.Params{Shape: 2}), 0, count},
		"gamma":       {like(t, "gamma", "log", lik.Params{Shape: 2}), 0, func(r *rand.Rand, s float64) float64 { return math.Exp(min(s, 3)) * (0.1 + r.ExpFloat64()) }},
		"gaussian":    {like(t, "gaussian", "identity", lik.Params{Dispersion: 0.5}), 0, real},
		"gausslog":    {like(t, "gaussian", "log", lik.Params{Dispersion: 0.5}), 0, func(r *rand.Rand, s float64) float64 { return math.Exp(min(s, 2)) + 0.7*r.NormFloat64() }},
		"studentt":    {like(t, "studentt", "identity", lik.Params{Shape: 4}), 0, real},
	}
}

// draw gives n rows with up to most features each of the names f0..f5.
func draw(r *rand.Rand, f family, n, most int) []row {
	rows := make([]row, n)
	at := 0.0
	for i := range rows {
		x := map[string]float64{}
		s := 0.0
		for range 1 + r.IntN(most) {
			j := r.IntN(6)
			v := r.NormFloat64()
			x[fmt.Sprint("f", j)] = v
			s += v * float64(j-3) / 3
		}
		at += r.ExpFloat64()
		rows[i] = row{x: x, y: f.y(r, s), trials: f.trials, time: at}
	}
	return rows
}

// Z1: the first sweep is the assumed density filter, with and without drift, from a
// prior mean that is not zero and from an earlier fit.
func TestFirstSweepIsTheFilter(t *testing.T) {
	for name, f := range families(t) {
		for _, q := range []float64{0, 0.03} {
			for _, timed := range []bool{false, true} {
				r := rand.New(rand.NewPCG(1, 2))
				rows := draw(r, f, 80, 4)
				m := &kernels.Model{Lik: f.l, Prior: kernels.Prior{Mean: 0.25, Variance: 0.5, InterceptVariance: 2},
					Noise: q, HasTime: timed, Options: kernels.Options{MaxIter: 1}}
				if q > 0 && timed {
					m.Noise, m.NoiseBy = 0, map[string]float64{"f1": 0.1, "(Intercept)": 0.01}
				}
				for part := range 2 {
					if part == 1 { // continue, some rows before the time reached
						m2 := *m
						m2.Start = filter(t, m, rows)
						rows = draw(r, f, 40, 4)
						for i := range rows {
							rows[i].time += m2.Start.Time - 2
						}
						m = &m2
					}
					want := filter(t, m, rows)
					got := fit(t, problem(t, m, rows)).Fit
					what := fmt.Sprintf("%s q=%v timed=%v part %d", name, q, timed, part)
					close(t, what+" evidence", got.LogEvidence, want.LogEvidence, 1e-12)
					if len(got.Beliefs) != len(want.Beliefs) {
						t.Fatalf("%s: %d beliefs, want %d", what, len(got.Beliefs), len(want.Beliefs))
					}
					for j, b := range want.Beliefs {
						g := got.Beliefs[j]
						close(t, what+" mean of "+b.Feature, g.Mean, b.Mean, 1e-12)
						close(t, what+" variance of "+b.Feature, g.Variance, b.Variance, 1e-12)
					}
				}
			}
		}
	}
}

// Z5, Z6, Z8: ten trials, one success.
func figure5(pos int) []row {
	rows := make([]row, 10)
	for i := range rows {
		rows[i] = row{x: map[string]float64{"1": 1}}
	}
	rows[pos].y = 1
	return rows
}

func TestZoeterFigure5(t *testing.T) {
	l := like(t, "", "probit", lik.Params{})
	for pos := range 10 {
		for sweeps := 1; sweeps <= 100; sweeps = sweeps + 1 {
			m := &kernels.Model{NoIntercept: true, Lik: l, Prior: kernels.Prior{Variance: 1}, Options: kernels.Options{MaxIter: sweeps}}
			r := fit(t, problem(t, m, figure5(pos)))
			b := r.Fit.Beliefs[0]
			p, _ := l.Predict(b.Mean, b.Variance)
			switch {
			case sweeps == 2 && math.Abs(p-.16647050) > 7.2e-4, sweeps == 3 && math.Abs(p-.16647050) > 8e-6:
				t.Errorf("success at %d, sweep %d: %.8f", pos+1, sweeps, p)
			}
			if sweeps < 100 && !r.Fit.Converged {
				continue
			}
			if !r.Fit.Converged {
				t.Errorf("success at %d: %s", pos+1, r.Fit.Status)
			}
			kerneltest.Close(t, "probability", p, .16647050, kerneltest.Tol{Abs: 6e-9})
			kerneltest.Close(t, "mean", b.Mean, -1.061083, kerneltest.Tol{Abs: 6e-7})
			kerneltest.Close(t, "variance", b.Variance, .201053, kerneltest.Tol{Abs: 6e-7})
			kerneltest.Close(t, "log evidence", r.Fit.LogEvidence, -4.703883, kerneltest.Tol{Abs: 6e-7})
			break
		}
	}
}

// Every family converges to a fixed point: with and without drift, under a time limit,
// and the point does not depend on damping.
func TestConverges(t *testing.T) {
	for name, f := range families(t) {
		for _, q := range []float64{0, 0.02} {
			rows := draw(rand.New(rand.NewPCG(3, 4)), f, 60, 3)
			m := &kernels.Model{Lik: f.l, Prior: kernels.Prior{Variance: 0.5, InterceptVariance: 2}, Noise: q}
			a := fit(t, problem(t, m, rows))
			if !a.Fit.Converged || a.Fit.Status != "ok" {
				t.Errorf("%s q=%v: %s", name, q, a.Fit.Status)
			}
			m.Options.Damping = 0.5
			b := fit(t, problem(t, m, rows))
			close(t, name+" evidence", b.Fit.LogEvidence, a.Fit.LogEvidence, 1e-7)
			for j := range a.Fit.Beliefs {
				close(t, name+" mean", b.Fit.Beliefs[j].Mean, a.Fit.Beliefs[j].Mean, 1e-6)
				close(t, name+" variance", b.Fit.Beliefs[j].Variance, a.Fit.Beliefs[j].Variance, 1e-6)
			}
			t.Logf("%s q=%v: %d sweeps, damped %d", name, q, a.Sweeps, b.Sweeps)
		}
	}
}

package laplace

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// table is the model of tableRows, its one prior variance to be learnt or not.
func table(t *testing.T, family string, o kernels.Options) *kernels.Model {
	t.Helper()
	p := lik.Params{Dispersion: 1, Shape: 4}
	l, err := lik.New(family, "", p)
	if err != nil {
		t.Fatal(err)
	}
	return &kernels.Model{Lik: l, Params: p, Prior: kernels.DefaultPrior, Options: o}
}

// tableRows has intercepts and slopes by group, of one deviation and a fifth of it, and
// a common level: far from the prior mean where far is, and with slopes over an x of
// deviation 10 then.
func tableRows(t *testing.T, m *kernels.Model, seed uint64, groups, rows int, far bool) *kernels.Problem {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 77))
	r, err := kernels.NewRows(m)
	if err != nil {
		t.Fatal(err)
	}
	family := m.Lik.Family()
	scale := math.Exp(3 * rnd.NormFloat64()) // of what the groups add
	noise := math.Exp(1.5 * rnd.NormFloat64())
	base := 2 * rnd.NormFloat64()
	width := 1.0
	if far {
		scale, noise, base, width = 14, 3, 20, 10
	}
	if family != "gaussian" {
		scale = math.Exp(-0.5 + 0.7*rnd.NormFloat64())
		base /= 2
	}
	var b kernels.Batch
	b.Reset()
	for g := range groups {
		at, err := r.Dict.Add(fmt.Sprintf("g=%02d", g))
		if err != nil {
			t.Fatal(err)
		}
		by, err := r.Dict.Add(fmt.Sprintf("s=%02d", g))
		if err != nil {
			t.Fatal(err)
		}
		level, slope := scale*rnd.NormFloat64(), 0.2*scale*rnd.NormFloat64()
		for range rows {
			x := width * rnd.NormFloat64()
			b.Add(0, 1)
			b.Add(at, 1)
			b.Add(by, x)
			b.EndRow()
			eta := base + level + slope*x
			y, n := 0.0, 0.0
			switch family {
			case "gaussian":
				y = 10*base + eta + noise*rnd.NormFloat64()
			case "bernoulli":
				if rnd.Float64() < 1/(1+math.Exp(-eta)) {
					y = 1
				}
			case "binomial":
				n = float64(50 + rnd.IntN(701))
				for range int(n) {
					if rnd.Float64() < 1/(1+math.Exp(-eta)) {
						y++
					}
				}
			case "poisson":
				for a, mu := rnd.ExpFloat64(), math.Exp(min(eta, 5)); a < mu; a += rnd.ExpFloat64() {
					y++
				}
			}
			b.Y, b.Trials = append(b.Y, y), append(b.Trials, n)
		}
	}
	if err := r.Update(&b, false); err != nil {
		t.Fatal(err)
	}
	p, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Learning never ends below the best of a fine grid over the prior variance, and says
// that it converged.
func TestLearningTables(t *testing.T) {
	kerneltest.Slow(t)
	tables, points := 60, 80
	if testing.Short() {
		tables, points = 5, 25
	}
	for _, c := range []struct {
		family       string
		groups, rows int
		dispersion   bool
		far          bool
	}{{"gaussian", 30, 5, false, false}, {"gaussian", 30, 5, true, false}, {"gaussian", 30, 5, true, true}, {"binomial", 12, 1, false, false},
		{"binomial", 12, 4, false, false}, {"poisson", 20, 4, false, false}, {"bernoulli", 20, 10, false, false}} {
		bad, stalled := 0, 0
		for seed := range tables {
			o := kernels.Options{AutoPrior: true, AutoDispersion: c.dispersion}
			m := table(t, c.family, o)
			p := tableRows(t, m, uint64(seed), c.groups, c.rows, c.far)
			got, err := Fit(context.Background(), p)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Converged {
				stalled++
				t.Logf("%s, table %d: %s", c.family, seed, got.Status)
			}
			top, at := math.Inf(-1), 0.0
			dispersions := []float64{1}
			if c.dispersion {
				dispersions = []float64{got.Dispersion, got.Dispersion / 1e3, got.Dispersion / 30, got.Dispersion * 30}
			}
			for _, d := range dispersions {
				for k := range points {
					v := math.Exp(-14 + 28*float64(k)/float64(points-1))
					fixed := *m
					fixed.Options = kernels.Options{}
					fixed.Prior.Variance = v
					if c.family == "gaussian" {
						fixed.Params.Dispersion = d
						if fixed.Lik, err = lik.New(c.family, "", fixed.Params); err != nil {
							t.Fatal(err)
						}
					}
					q := tableRows(t, &fixed, uint64(seed), c.groups, c.rows, c.far)
					f, err := Fit(context.Background(), q)
					if err != nil {
						t.Fatal(err)
					}
					if f.LogEvidence > top {
						top, at = f.LogEvidence, v
					}
				}
			}
			if !(got.LogEvidence > top-1e-3) {
				bad++
				t.Errorf("%s, table %d: log evidence %v at variance %g, dispersion %g, on the grid %v at %g; %s", c.family, seed, got.LogEvidence, got.Prior.Variance, got.Dispersion, top, at, got.Status)
			}
		}
		t.Logf("%s, dispersion %v: %d of %d below the grid, %d not converged", c.family, c.dispersion, bad, tables, stalled)
	}
}

// A weight that was only ever 0 has the prior that was learnt, and its group keeps its
// number.
func TestLearningUnseen(t *testing.T) {
	for _, groups := range []bool{false, true} {
		m := table(t, "gaussian", kernels.Options{AutoPrior: true, PriorGroups: groups})
		rnd := rand.New(rand.NewPCG(2, 2))
		r, err := kernels.NewRows(m)
		if err != nil {
			t.Fatal(err)
		}
		var b kernels.Batch
		b.Reset()
		for i := range 60 {
			b.Add(0, 1)
			y := 0.0
			for j := range 6 {
				id, err := r.Dict.Add(fmt.Sprintf("a=%d", j))
				if err != nil {
					t.Fatal(err)
				}
				x := rnd.NormFloat64()
				if j == 0 {
					x = 0
				}
				b.Add(id, x)
				y += 7 * x * float64(j%3-1)
			}
			b.EndRow()
			b.Y = append(b.Y, y+rnd.NormFloat64()+float64(i%2))
		}
		if err := r.Update(&b, false); err != nil {
			t.Fatal(err)
		}
		p, err := r.Problem()
		if err != nil {
			t.Fatal(err)
		}
		f, err := Fit(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		learnt := f.Prior.Variance
		for _, w := range f.Beliefs {
			if w.Feature == "a=0" && (w.Mean != 0 || !(w.Variance > 10) || !groups && math.Abs(w.Variance/learnt-1) > 1e-9) {
				t.Errorf("groups %v: an unseen weight has %v, the learnt variance is %v", groups, w.Weight, learnt)
			}
		}
	}
}

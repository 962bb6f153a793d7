package laplace

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// Rows that are read once a step give the mode, covariance and evidence of rows that are read
// for each product: with weights and offsets, with links whose steps are cut, and where whole
// steps overshoot.
func TestOnce(t *testing.T) {
	for _, c := range []struct {
		family, link string
		params       lik.Params
		far          float64 // from the prior mean to the responses
	}{
		{"bernoulli", "logit", lik.Params{}, 0.3},
		{"bernoulli", "probit", lik.Params{}, 6},
		{"bernoulli", "cloglog", lik.Params{}, 0.3},
		{"poisson", "log", lik.Params{}, 4},
		{"gamma", "log", lik.Params{Shape: 3}, -5},
		{"studentt", "identity", lik.Params{Shape: 4}, 20},
	} {
		m := model(t, c.family, c.link, c.params)
		m.NoIntercept = false
		r, err := kernels.NewRows(m)
		if err != nil {
			t.Fatal(err)
		}
		const n, d = 17_000, 6
		base, err := r.Dict.Dense(d)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(3, 1))
		var b kernels.Batch
		b.Reset()
		for i := range n {
			b.Add(0, 1)
			eta := c.far
			for j := range d {
				x := rng.NormFloat64()
				eta += 0.3 * x
				b.Add(uint32(base+j), x)
			}
			b.EndRow()
			y := 0.0
			switch c.family {
			case "bernoulli":
				if rng.NormFloat64() < eta {
					y = 1
				}
			case "studentt":
				y = eta + rng.NormFloat64()
			default:
				y = math.Floor(math.Exp(eta)*rng.ExpFloat64()) + 1
			}
			b.Y, b.Weight = append(b.Y, y), append(b.Weight, float64(i%3))
			b.Offset = append(b.Offset, 0.1*float64(i%2))
		}
		if err := r.Update(&b, false); err != nil {
			t.Fatal(err)
		}
		solve := func(whole bool) (*kernels.Fit, int) {
			p, err := r.Problem()
			if err != nil {
				t.Fatal(err)
			}
			e, err := newEngine(p, nil, "full", nil)
			if err != nil {
				t.Fatal(err)
			}
			if e.search.once == nil {
				t.Fatalf("%s: the rows are not read once", c.family)
			}
			if whole {
				e.search.once = nil
			}
			f, err := e.fit(nil)
			if err != nil {
				t.Fatal(err)
			}
			return f, e.search.Iterations
		}
		f, steps := solve(false)
		g, want := solve(true)
		// Steps by an earlier XᵀWX come nearer by less each.
		if steps < want || steps > want+4 || f.Status != g.Status {
			t.Errorf("%s, %s: %d steps, %s; want %d to 4 more, %s", c.family, c.link, steps, f.Status, want, g.Status)
		}
		if math.Abs(f.LogEvidence-g.LogEvidence) > 1e-11*math.Abs(g.LogEvidence) {
			t.Errorf("%s, %s: log evidence %v, want %v", c.family, c.link, f.LogEvidence, g.LogEvidence)
		}
		for k, w := range g.Beliefs {
			if v := f.Beliefs[k]; math.Abs(v.Mean-w.Mean) > 1e-8*math.Sqrt(w.Variance) || math.Abs(v.Variance/w.Variance-1) > 1e-8 {
				t.Errorf("%s, %s: %s = %v, want %v", c.family, c.link, v.Feature, v.Weight, w.Weight)
			}
		}
	}
}

// With many columns steps near the mode go by the XᵀWX there is, which is made half as often,
// and end where Newton's do.
func TestChord(t *testing.T) {
	p := denseProblem(t, 20_000, 150, kernels.Options{})
	solve := func(whole bool) (f *kernels.Fit, steps, made int) {
		e, err := newEngine(p, nil, "full", nil)
		if err != nil {
			t.Fatal(err)
		}
		if whole {
			e.search.once = nil
		}
		if f, err = e.fit(nil); err != nil {
			t.Fatal(err)
		}
		return f, e.search.Iterations, e.search.hess.made
	}
	f, steps, made := solve(false)
	g, want, all := solve(true)
	if made > 3 || all != want+1 || steps <= want {
		t.Errorf("XᵀWX was made %d times in %d steps, without such steps %d times in %d", made, steps, all, want)
	}
	if math.Abs(f.LogEvidence-g.LogEvidence) > 1e-11*math.Abs(g.LogEvidence) {
		t.Errorf("log evidence %v, want %v", f.LogEvidence, g.LogEvidence)
	}
	for k, w := range g.Beliefs {
		if v := f.Beliefs[k]; math.Abs(v.Mean-w.Mean) > 1e-8*math.Sqrt(w.Variance) || math.Abs(v.Variance/w.Variance-1) > 1e-8 {
			t.Errorf("%s = %v, want %v", v.Feature, v.Weight, w.Weight)
		}
	}
}

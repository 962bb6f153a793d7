package ep

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// separable are rows whose responses a plane separates, or counts of a rare event with
// many sparse indicators.
func separable(seed uint64, n, p int) []row {
	r := rand.New(rand.NewPCG(seed, 5))
	rows := make([]row, n)
	for i := range rows {
		x := map[string]float64{}
		s := 0.0
		for j := range p {
			v := r.NormFloat64()
			x[fmt.Sprintf("f%02d", j)] = v
			s += v * float64(j%5-2)
		}
		rows[i].x = x
		if s > 0 {
			rows[i].y = 1
		}
	}
	return rows
}

func rare(seed uint64, n, p int) []row {
	r := rand.New(rand.NewPCG(seed, 5))
	rows := make([]row, n)
	for i := range rows {
		x := map[string]float64{}
		s := -5.0
		for j := range p {
			if r.Float64() < 0.5/float64(1+j) {
				x[fmt.Sprintf("f%02d", j)] = 1
				s += float64(j%5-2) / 2
			}
		}
		rows[i].x = x
		if r.Float64() < 1/(1+math.Exp(-s)) {
			rows[i].y = 1
		}
	}
	return rows
}

// levels are rows of words in columns, of which one decides and others follow it.
func levels(seed uint64, n, columns int) []row {
	r := rand.New(rand.NewPCG(seed, 5))
	rows := make([]row, n)
	for i := range rows {
		x := map[string]float64{}
		own := r.IntN(6)
		for c := range columns {
			l := own
			if c > 0 && r.IntN(3) == 0 {
				l = r.IntN(6)
			}
			x[fmt.Sprintf("c%d=%d", c, l)] = 1
		}
		rows[i].x = x
		if own < 3 {
			rows[i].y = 1
		}
	}
	return rows
}

// Extrapolated sweeps end at the fixed point of the sweeps alone, after half as many of them
// or less where these are slow, in the weights' form and in the rows'.
func TestExtrapolation(t *testing.T) {
	for _, c := range []struct {
		what     string
		rows     []row
		variance float64
		slow     bool
	}{
		{"separable", separable(3, 400, 8), 1e4, false},
		{"separable levels", levels(4, 1500, 8), 100, true},
		{"more weights than rows", separable(5, 30, 40), 100, false},
		{"rare", rare(6, 2000, 44), 1, false},
	} {
		for _, link := range []string{"logit", "probit"} {
			what := c.what + ", " + link
			m := &kernels.Model{Lik: like(t, "bernoulli", link, lik.Params{}), Prior: kernels.Prior{Variance: c.variance, InterceptVariance: 10},
				Options: kernels.Options{Covariance: "full"}}
			p := problem(t, m, c.rows)
			got := fit(t, p)
			if got.Fit.Status != "ok" || got.Sweeps > 40 {
				t.Errorf("%s: %d sweeps, %s", what, got.Sweeps, got.Fit.Status)
			}
			p.Fill()
			plain, err := newFull(p)
			if err != nil {
				t.Fatal(err)
			}
			sweeps, logZ := 0, 0.0
			for size := 1.0; size > 1e-9 && sweeps < 400; sweeps++ {
				ch, err := plain.sweep(1)
				if err != nil {
					t.Fatal(err)
				}
				size, logZ = ch.size, ch.logZ
			}
			if c.slow && 2*got.Sweeps > sweeps {
				t.Errorf("%s: %d sweeps, %d without extrapolation", what, got.Sweeps, sweeps)
			}
			t.Logf("%s: %d sweeps, %d without extrapolation to 1e-9", what, got.Sweeps, sweeps)
			close(t, what+" evidence", got.Fit.LogEvidence, logZ, 1e-7)
			want, err := plain.posterior()
			if err != nil {
				t.Fatal(err)
			}
			for j, b := range got.Fit.Beliefs {
				sd := math.Sqrt(want.Var[j])
				if d := math.Abs(b.Mean-want.Mean[j]) / sd; d > 1e-5 {
					t.Errorf("%s: mean of %s off by %.1g deviations", what, b.Feature, d)
				}
				close(t, what+" variance of "+b.Feature, b.Variance, want.Var[j], 1e-5)
			}
		}
	}
}

// The slope by which variances are learnt is that of the evidence.
func TestVarianceSlope(t *testing.T) {
	for _, cov := range []string{"diagonal", "full", "lowrank"} {
		rows := wide(rand.New(rand.NewPCG(43, 2)), families(t)["logit"], 80, 6)
		m := &kernels.Model{Lik: like(t, "bernoulli", "logit", lik.Params{}), Prior: kernels.Prior{Variance: 1, InterceptVariance: 4},
			Options: kernels.Options{Covariance: cov, AutoPrior: true, Rank: 7, Tol: 1e-10, MaxIter: 500}}
		p := problem(t, m, rows)
		s := &search{}
		e, err := newEngine(p, Kernel{})
		if err != nil {
			t.Fatal(err)
		}
		l := &learner{search: s, e: e, p: p}
		groups, _ := l.groups()
		v := &varied{learner: l, groups: &groups, from: p, dev: make([]float64, p.P), variance: make([]float64, p.P)}
		at := func(x float64) float64 {
			q := v.at([]float64{x})
			out, err := l.try(q)
			if err != nil {
				t.Fatal(err)
			}
			return out.logZ
		}
		const h = 1e-3
		for _, x := range []float64{-1, 0.5, 2} {
			want := (at(x+h) - at(x-h)) / (2 * h)
			v.p = v.at([]float64{x})
			if _, err := l.try(v.p); err != nil {
				t.Fatal(err)
			}
			got, scale, err := v.Slope()
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(got[0]-want) > 1e-5*(1+math.Abs(want)) || !(scale[0] > 0) {
				t.Errorf("%s at %v: slope %v, of differences %v, scale %v", cov, x, got[0], want, scale[0])
			}
		}
	}
}

package adf

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/stream"
)

// Where the best rate is beyond the grid, the grid follows it: weights that forget within a
// hundredth of the unit of time, and times in units so fine that weights move by 10^-10 of
// their prior variance in one. The rate found is within a decade of the one that made the
// rows, and predicts better than the edge, in the end as well as the filter that had it from the
// beginning.
func TestBankExtends(t *testing.T) {
	for _, c := range []struct {
		name     string
		make     func(*kernels.Model) (*stream.State, error)
		family   string
		q, unit  float64
		variance float64
	}{
		{"diagonal", New, "gaussian", 0.03, 1, 3e-4},
		{"arrowhead", NewTied, "gaussian", 0.03, 1, 3e-4},
		{"diagonal", New, "gaussian", 1e-3, 1e7, 1},
		{"arrowhead", NewTied, "gaussian", 1e-3, 1e7, 1},
		{"arrowhead", NewTied, "bernoulli", 1e-2, 1e8, 1},
	} {
		n := 3000
		rows := walking(rand.New(rand.NewPCG(7, 9)), n, c.q, c.family)
		for i := range rows {
			rows[i].t *= c.unit
		}
		m := kernels.Model{Lik: like(t, c.family, "", 1), Prior: kernels.Prior{Variance: c.variance, InterceptVariance: c.variance}, HasTime: true}
		grid := m.NoiseGrid()
		run := func(q float64, auto bool) (s *stream.State, late float64) {
			k := m
			k.Noise, k.Options.AutoNoise = q, auto
			s, err := c.make(&k)
			if err != nil {
				t.Fatal(err)
			}
			feed(t, s, rows[:1500])
			_, before := s.Rates()
			first, _ := s.Rates()
			feed(t, s, rows[1500:])
			rates, logZ := s.Rates()
			if !slices.Equal(first, rates) {
				t.Errorf("%s %s: the rates still grew after 1,500 rows", c.name, c.family)
			}
			return s, logZ[s.Best()] - before[s.Best()]
		}
		s, late := run(0, true)
		rates, _ := s.Rates()
		q, truth := rates[s.Best()], c.q/c.unit
		if !slices.IsSorted(rates) || len(rates) <= len(grid) || q < truth/10 || q > 10*truth {
			t.Errorf("%s %s: %g of %v, made with %g", c.name, c.family, q, rates, truth)
		}
		edge := grid[1]
		if truth > grid[len(grid)-1] {
			edge = grid[len(grid)-1]
		}
		_, alone := run(q, false)
		_, bound := run(edge, false)
		t.Logf("%s %s: %g for %g, %d rates; the last 1,500 rows have a log evidence of %.2f, at the edge %.1f, with that rate from the beginning %.2f", c.name, c.family, q, truth, len(rates), late, bound, alone)
		if !(late > bound+10) || math.Abs(late-alone) > 0.001*math.Abs(alone) {
			t.Error("it is not as good as that rate from the beginning")
		}
	}
}

// A bank beyond its grid does not depend on how calls cut the rows, is cloned whole, and is
// merged with one that stayed within: both have all rates, whichever absorbs the other.
func TestBankStates(t *testing.T) {
	for name, create := range map[string]func(*kernels.Model) (*stream.State, error){"diagonal": New, "arrowhead": NewTied} {
		for _, o := range []kernels.Options{{AutoNoise: true}, {AutoNoise: true, AutoDispersion: true}, {AutoNoise: true, AutoDispersion: true, Standardize: true}} {
			m := &kernels.Model{Lik: like(t, "gaussian", "", 1), Prior: kernels.Prior{Variance: 1e-4, InterceptVariance: 1e-4}, HasTime: true, Options: o}
			fresh := func() *stream.State {
				s, err := create(m)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			rows := walking(rand.New(rand.NewPCG(8, 9)), 800, 0.05, "gaussian")
			whole, cut := fresh(), fresh()
			feed(t, whole, rows)
			for i := 0; i < len(rows); i += 37 {
				feed(t, cut, rows[i:min(i+37, len(rows))])
				cut = cut.Clone()
			}
			a, b := fit(t, whole), fit(t, cut)
			if a.LogEvidence != b.LogEvidence || a.Status != b.Status || !slices.Equal(a.Beliefs, b.Beliefs) {
				t.Errorf("%s %+v: cut %v %s, whole %v %s", name, o, b.LogEvidence, b.Status, a.LogEvidence, a.Status)
			}
			if r, _ := whole.Rates(); len(r) <= 10 && !o.Standardize { // where the noise learnt may take the drift
				t.Errorf("%s %+v: %v, which is no test", name, o, r)
			}

			few := fresh()
			feed(t, few, rows[795:])
			if r, _ := few.Rates(); len(r) != 10 {
				t.Errorf("%s %+v: few rows have %v", name, o, r)
			}
			early := fresh()
			feed(t, early, rows[:790])
			both := func(a, b *stream.State) *kernels.Fit {
				own, err := a.Clone(), error(nil)
				before, _ := b.Rates()
				if err = own.Merge(context.Background(), b); err != nil {
					t.Fatal(err)
				}
				if after, _ := b.Rates(); !slices.Equal(before, after) {
					t.Errorf("%s: a merge changed its source", name)
				}
				r, z := own.Rates()
				want, _ := early.Rates()
				if !slices.Equal(r, want) || len(z) != len(r) {
					t.Errorf("%s: merged rates %v, want %v", name, r, want)
				}
				return fit(t, own)
			}
			ab, ba := both(early, few), both(few, early)
			if math.Abs(ab.LogEvidence-ba.LogEvidence) > 1e-6*math.Abs(ab.LogEvidence) {
				t.Errorf("%s %+v: merged %v, the other way %v", name, o, ab.LogEvidence, ba.LogEvidence)
			}
			for i, w := range ab.Beliefs {
				if v := ba.Beliefs[i]; v.Feature != w.Feature || math.Abs(v.Mean-w.Mean) > 1e-6*(1+math.Abs(w.Mean)) || math.Abs(v.Variance/w.Variance-1) > 1e-6 {
					t.Errorf("%s %+v: %v, the other way %v", name, o, w, v)
				}
			}
		}
	}
}

// Weights that stand still, and those whose rate is within the grid, keep it; the status of
// a bank that went beyond says how many rates there were.
func TestBankStays(t *testing.T) {
	for _, q := range []float64{0, 1e-5, 1e-2} {
		for _, family := range []string{"gaussian", "bernoulli"} {
			m := &kernels.Model{Lik: like(t, family, "", 1), Prior: kernels.DefaultPrior, Options: kernels.Options{AutoNoise: true}}
			s, err := NewTied(m)
			if err != nil {
				t.Fatal(err)
			}
			feed(t, s, walking(rand.New(rand.NewPCG(9, 9)), 2000, q, family))
			if r, _ := s.Rates(); len(r) != 10 || !strings.Contains(fit(t, s).Status, "of 10 rates tried") {
				t.Errorf("%s, q = %v: %v, %s", family, q, r, fit(t, s).Status)
			}
		}
	}
}

package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// levelsFit is a fit of n weights of column g, of prior N(0, 1) and true variance v, each
// told about with noise of variance e, from rows of them all.
func levelsFit(r *rand.Rand, n int, v, e float64, rows int64) *Fit {
	return levelsUnder(r, 1, n, v, e, rows)
}

// levelsUnder is levelsFit under the prior N(0, p).
func levelsUnder(r *rand.Rand, p float64, n int, v, e float64, rows int64) *Fit {
	f := &Fit{Intercept: true, Prior: DefaultPrior, N: rows, Status: "ok", Columns: []FitColumn{{Name: "g", Kind: LevelsColumn, Variance: math.NaN(), Scale: math.NaN()}}}
	f.Beliefs = append(f.Beliefs, Belief{Intercept, Weight{30, 1e-4}})
	for k := range n {
		y := math.Sqrt(v+e) * r.NormFloat64()
		f.Beliefs = append(f.Beliefs, Belief{fmt.Sprintf("g=%04d", k), Weight{y * p / (p + e), p * e / (p + e)}})
	}
	return f
}

// A prior that the weights were drawn from is not spoken of, whatever the rows say of them;
// one that is far too wide or narrow is, and what is said of it is about right.
func TestPriorNote(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	m := &Model{Prior: DefaultPrior}
	said := 0
	for range 1000 {
		n := 2 + r.IntN(400)
		if levelsFit(r, n, 1, math.Exp(3*r.NormFloat64()), int64(2*n)).PriorNote(m) != "" {
			said++
		}
	}
	if said > 5 {
		t.Errorf("the right prior was spoken of in %d of 1000 fits", said)
	}
	for range 20 {
		if s := levelsFit(r, 800, 0, 3, 2000).PriorNote(m); !strings.Contains(s, "too wide for the weights of column g") {
			t.Errorf("noise: %q", s)
		}
		s := levelsFit(r, 60, 30, 0.5, 1000).PriorNote(m)
		var c, gain float64
		_, err := fmt.Sscanf(s, "prior_variance 1 is too narrow for the weights of column g: %g fits them better by about %g nats", &c, &gain)
		// 30 + 0.5 against 1 + 0.5: (30.5/1.5 - 1 - log(30.5/1.5))/2 nats a weight.
		if want := (30.5/1.5 - 1 - math.Log(30.5/1.5)) / 2 * 60 / 1000; err != nil || c < 15 || c > 60 || math.Abs(gain-want) > 0.7*want {
			t.Errorf("narrow: %q, want about 30 and %.2g nats: %v", s, want, err)
		}
	}
	// Weights of long columns that vary less take up no noise, a feature's own prior is not
	// the column's, and what is by column counts by column.
	if s := levelsFit(r, 50, 0.01, 1e-4, 100_000).PriorNote(m); s != "" {
		t.Errorf("levels that are known: %q", s)
	}
	f := levelsFit(r, 60, 30, 0.5, 1000)
	if s := f.PriorNote(&Model{Prior: DefaultPrior, Priors: f.Beliefs}); s != "" {
		t.Errorf("priors of their own: %q", s)
	}
	f = levelsUnder(r, 30, 60, 30, 0.5, 1000)
	if s := f.PriorNote(&Model{Prior: DefaultPrior, PriorBy: ColumnPriors{{Column: "g", Variance: 30}}}); s != "" {
		t.Errorf("by column: %q", s)
	}
}

// A name that is a column's but for its case is told, and of a noise one that nothing has; one that
// is a column's or a level of one is not.
func TestStrayNote(t *testing.T) {
	f := &Fit{Columns: []FitColumn{{Name: "Age"}, {Name: "city"}}}
	for name, want := range map[string]string{"age": `"Age"`, "CITY=Bonn": `"city"`, "Age": "", "city=BONN": "", "other": "", Intercept: ""} {
		for _, m := range []*Model{{Priors: []Belief{{Feature: name}}}, {NoiseBy: map[string]float64{name: 1}}} {
			if s := m.StrayNote(f); !strings.Contains(s, want) || (s == "") != (want == "") {
				t.Errorf("%s: %q, want %q", name, s, want)
			}
			if s := m.StrayNote(&Fit{}); s != "" {
				t.Errorf("no columns: %q", s)
			}
		}
	}
	for name, want := range map[string]string{"other": `feature "other" is of no row: no feature`, "here": "", "Age" + IsNull: "", "city=new": "", Intercept: `"(Intercept)"`} {
		m := &Model{NoiseBy: map[string]float64{name: 1, "here": 1}}
		f := &Fit{Columns: f.Columns, N: 3, Beliefs: []Belief{{Feature: "here"}}}
		if s := m.StrayNote(f); !strings.Contains(s, want) || (s == "") != (want == "") {
			t.Errorf("%s: %q, want %q", name, s, want)
		}
		m.HashBits = 4
		if s := m.StrayNote(f); s != "" {
			t.Errorf("slots: %q", s)
		}
	}
}

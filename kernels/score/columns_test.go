package score_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/kernels/score"
)

// trips are rows of a number far from 1, of levels and of a truth value.
type trips struct {
	u    []float64
	g    []string
	b, y []bool
}

func someTrips(n int) *trips {
	rng := rand.New(rand.NewPCG(5, 6))
	t := &trips{}
	for range n {
		u, g := 1e4+300*rng.NormFloat64(), string(rune('a'+rng.IntN(6)))
		t.u, t.g, t.b = append(t.u, u), append(t.g, g), append(t.b, rng.IntN(2) == 0)
		t.y = append(t.y, rng.NormFloat64() < (u-1e4)/300+float64(g[0]-'c')/2)
	}
	return t
}

func (t *trips) table(lo, hi int) *rows.Table {
	return &rows.Table{X: rows.Fields(rows.Numbers("u", t.u[lo:hi]), rows.Texts("g", t.g[lo:hi]), rows.Bools("b", t.b[lo:hi])), Y: rows.Bools("y", t.y[lo:hi])}
}

func (t *trips) row(i int) score.Row {
	b := "b=false"
	if t.b[i] {
		b = "b=true"
	}
	return score.Row{Names: []string{"u", "g=" + t.g[i], b}, Values: []float64{t.u[i], 1, 1}}
}

func fitOfTrips(t *testing.T, method string, s *option.Settings, table *rows.Table) *kernels.Fit {
	t.Helper()
	f, err := engine.Fit(context.Background(), method, s, table)
	if err != nil {
		t.Fatal(err)
	}
	return f.Fit
}

// Rows by names are those of a table under every form of covariance, whatever the case of
// their columns and whatever else they have.
func TestColumns(t *testing.T) {
	all := someTrips(300)
	for _, method := range []string{"laplace", "adf", "ep", "lowrank", "sequential_laplace"} {
		f := fitOfTrips(t, method, nil, all.table(0, 200))
		if len(f.Columns) != 3 {
			t.Fatalf("%s: columns %+v", method, f.Columns)
		}
		s, err := score.New(f)
		if err != nil {
			t.Fatal(err)
		}
		p, err := predict.New(f)
		if err != nil {
			t.Fatal(err)
		}
		all.g[250] = "never seen"
		src, err := all.table(200, 300).Source()
		if err != nil {
			t.Fatal(err)
		}
		var b kernels.Batch
		if _, err := src.Score(f, p.Features(), 0, 100, &b); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			m, v, err := p.Linear(&b, i)
			if err != nil {
				t.Fatal(err)
			}
			r := all.row(200 + i)
			if i%2 == 0 {
				r.Names[0], r.Names[1] = "U", "G"+r.Names[1][1:]
				r.Names, r.Values = append(r.Names, "id", "Other=x"), append(r.Values, 1e9, 1)
			}
			gm, gv, err := s.Linear(r)
			if err != nil || math.Abs(gm-m) > 1e-12*(1+math.Abs(m)) || math.Abs(gv-v) > 1e-12*v {
				t.Fatalf("%s, row %d: N(%v, %v) %v, want N(%v, %v)", method, i, gm, gv, err, m, v)
			}
		}
	}
}

// A column that is not there, or of the other kind, is an error that names it; a value that is
// missing is the mean of the column.
func TestColumnErrors(t *testing.T) {
	all := someTrips(200)
	f := fitOfTrips(t, "laplace", nil, all.table(0, 200))
	s, err := score.New(f)
	if err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]score.Row{
		`the row has no column "g", which the fit has learnt from; the nearest that it has is "gg"`: {Names: []string{"u", "gg=a", "b=true"}, Values: []float64{1, 1, 1}},
		`the row has no column "u"`:             {Names: []string{"g=a", "b=true"}},
		`feature "u=3": column "u" has numbers`: {Names: []string{"u=3", "g=a", "b=true"}},
		`feature "g": column "g" has levels`:    {Names: []string{"u", "g", "b=true"}},
	} {
		if _, err := s.Predict(r, predict.Exact); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	open, _, err := s.Linear(score.Row{Names: []string{"g=a"}, Open: true})
	want := f.Beliefs[0].Mean
	for _, b := range f.Beliefs {
		if b.Feature == "g=a" {
			want += b.Mean
		}
	}
	if err != nil || math.Abs(open-want) > 1e-12 {
		t.Errorf("an open row: %v (%v), want %v", open, err, want)
	}
	at, err := s.Predict(score.Row{Names: []string{"u", "g=a", "b=true"}, Values: []float64{f.Number("u").Center, 1, 1}}, predict.Plugin)
	if err != nil {
		t.Fatal(err)
	}
	for what, r := range map[string]score.Row{
		"NaN":     {Names: []string{"u", "g=a", "b=true"}, Values: []float64{math.NaN(), 1, 1}},
		"IS NULL": {Names: []string{"b=true", "g=a", "U is null"}},
		"both":    {Names: []string{"u", "g=a", "b=true", "u IS NULL"}, Values: []float64{math.NaN(), 1, 1, 1}},
	} {
		if got, err := s.Predict(r, predict.Plugin); err != nil || math.Abs(got-at) > 1e-12 {
			t.Errorf("%s: %v (%v), want %v at the mean", what, got, err, at)
		}
	}
}

// An Updater that continues a fit with columns is one uninterrupted run, numbers standardised
// and rows without a value included; rows must have the columns.
func TestUpdaterColumns(t *testing.T) {
	all := someTrips(300)
	for _, covariance := range []string{"arrowhead", "diagonal"} {
		settings := func() *option.Settings {
			s := option.Defaults()
			s.Options.Covariance = covariance
			return s
		}
		adf, err := engine.Find("adf")
		if err != nil {
			t.Fatal(err)
		}
		s := settings()
		s.Start = fitOfTrips(t, "adf", settings(), all.table(0, 150))
		m, err := adf.Model(s, false, false)
		if err != nil {
			t.Fatal(err)
		}
		u, err := score.NewUpdater(m, score.Publishing{})
		if err != nil {
			t.Fatal(err)
		}
		learn := func(r score.Row, y bool) error {
			o := score.Observation{Row: r}
			if y {
				o.Y = 1
			}
			return u.Learn(t.Context(), o)
		}
		for i := 150; i < 300; i++ {
			if err := learn(all.row(i), all.y[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := u.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		want, got := fitOfTrips(t, "adf", settings(), all.table(0, 300)), u.Snapshot().Fit()
		if len(got.Beliefs) != len(want.Beliefs) || got.N != 300 || len(got.Columns) != 3 || got.Columns[0].N != 300 {
			t.Fatalf("%s: %d beliefs of %d rows, columns %+v", covariance, len(got.Beliefs), got.N, got.Columns)
		}
		for j, b := range want.Beliefs {
			if g := got.Beliefs[j]; g.Feature != b.Feature || math.Abs(g.Mean-b.Mean) > 1e-9*(math.Abs(b.Mean)+math.Sqrt(b.Variance)) || math.Abs(g.Variance-b.Variance) > 1e-9*b.Variance {
				t.Errorf("%s: %+v, want %+v", covariance, g, b)
			}
		}
		if err := learn(score.Row{Names: []string{"g=a", "b=true"}}, true); err == nil || !strings.Contains(err.Error(), `row 1: the row has no column "u"`) {
			t.Errorf("%v", err)
		}
		// Without a value: a feature of its own, which is known afterwards.
		null := score.Row{Names: []string{"u IS NULL", "g=a", "b=true"}}
		before, _ := u.Snapshot().Predict(null, predict.Exact)
		for range 40 {
			if err := learn(null, true); err != nil {
				t.Fatal(err)
			}
		}
		if err := u.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		after, err := u.Snapshot().Predict(null, predict.Exact)
		if f := u.Snapshot().Fit(); err != nil || !(after > before) || f.Number("u").Missing != 40 || f.Number("u").N != 340 {
			t.Errorf("%s: %v before 40 rows without a value, %v after (%v): %+v", covariance, before, after, err, f.Columns)
		}
	}
}

// An interaction of levels and numbers has no feature for rows without a value: a row says that it
// lacks one, and neither a Snapshot nor an Updater takes that for a weight.
func TestMixedColumns(t *testing.T) {
	nan := math.NaN()
	weight := kernels.Weight{Mean: 0.5, Variance: 0.25}
	f := &kernels.Fit{Method: "adf", Family: "bernoulli", Link: "logit", Shape: 1, Dispersion: 1, Intercept: true, Prior: kernels.DefaultPrior, N: 10,
		Columns: []kernels.FitColumn{
			{Name: "u", Kind: kernels.NumberColumn, N: 10, Center: nan, Scale: nan, Variance: nan},
			{Name: "g", Kind: kernels.LevelsColumn, N: 10, Center: nan, Scale: nan, Variance: nan},
			{Name: "u:g", Kind: kernels.LevelsColumn, Parts: "number u, levels g", N: 10, Center: nan, Scale: nan, Variance: nan}},
		Beliefs: []kernels.Belief{{Feature: kernels.Intercept, Weight: weight}, {Feature: "g=a", Weight: weight}, {Feature: "u", Weight: weight}, {Feature: "u:g=a", Weight: weight}}}
	lacks := score.Row{Names: []string{"u", "g IS NULL", "u:g IS NULL"}, Values: []float64{2, 1, 1}}
	want := 0.25 + 4*0.25 + kernels.DefaultPrior.Variance // of a level never seen
	s, err := score.New(f)
	if err != nil {
		t.Fatal(err)
	}
	if m, v, err := s.Linear(lacks); err != nil || m != 1.5 || v != want {
		t.Errorf("N(%v, %v) %v, want N(1.5, %v)", m, v, err, want)
	}
	p, err := predict.New(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Row(lacks.Names, lacks.Values, 0)
	if err != nil {
		t.Fatal(err)
	}
	if m, v, err := p.Linear(b, 0); err != nil || m != 1.5 || v != want {
		t.Errorf("by package predict: N(%v, %v) %v, want N(1.5, %v)", m, v, err, want)
	}
	u, err := score.NewUpdater(&kernels.Model{Start: f, Options: kernels.Options{Missing: "indicator"}}, score.Publishing{Rows: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Learn(t.Context(), score.Observation{Row: lacks, Y: 1}); err != nil {
		t.Fatal(err)
	}
	got := u.Snapshot().Fit()
	for _, b := range got.Beliefs {
		if b.Feature == "u:g IS NULL" {
			t.Errorf("learnt: %+v", b)
		}
	}
	if c := got.Columns[2]; len(got.Beliefs) != 5 || c.N != 11 || c.Missing != 1 {
		t.Errorf("%d beliefs, column %+v", len(got.Beliefs), c)
	}
}

// Where a map or list of features was beside the columns a name that the fit has not met is one of
// these, under its prior, as in SQL; else it is of another column, and left out.
func TestFeaturesBesideColumns(t *testing.T) {
	nan := math.NaN()
	weight := kernels.Weight{Mean: 0.5, Variance: 0.25}
	f := &kernels.Fit{Method: "laplace", Family: "bernoulli", Link: "logit", Shape: 1, Dispersion: 1, Intercept: true, Prior: kernels.DefaultPrior, N: 10,
		Columns: []kernels.FitColumn{{Name: "u", Kind: kernels.NumberColumn, N: 10, Center: nan, Scale: nan, Variance: nan}},
		Beliefs: []kernels.Belief{{Feature: kernels.Intercept, Weight: weight}, {Feature: "k", Weight: weight}, {Feature: "u", Weight: weight}}}
	row := score.Row{Names: []string{"u", "k", "new"}, Values: []float64{2, 1, 3}}
	for _, beside := range []bool{false, true} {
		want := 6 * 0.25
		if beside {
			f.Columns = append(f.Columns, kernels.FitColumn{Name: "m", Kind: kernels.FeaturesColumn, N: 10, Center: nan, Scale: nan, Variance: nan})
			want += 9 * kernels.DefaultPrior.Variance
		}
		s, err := score.New(f)
		if err != nil {
			t.Fatal(err)
		}
		if m, v, err := s.Linear(row); err != nil || m != 2 || v != want {
			t.Errorf("features beside the columns %t: N(%v, %v) %v, want N(2, %v)", beside, m, v, err, want)
		}
	}
}

// Under hash_bits a value that was missing in rows learnt without it counts for nothing, and so do
// other columns.
func TestHashedColumns(t *testing.T) {
	const bits = 20
	nan := math.NaN()
	weight := kernels.Weight{Mean: 0.5, Variance: 0.25}
	slot := func(name string) string {
		return string(kernels.AppendSlot(nil, kernels.SlotOf([]byte(name), bits)))
	}
	for _, missing := range []int64{0, 3} {
		f := &kernels.Fit{Method: "adf", Family: "bernoulli", Link: "logit", Shape: 1, Dispersion: 1, Intercept: true, HashBits: bits, Prior: kernels.DefaultPrior, N: 10,
			Columns: []kernels.FitColumn{
				{Name: "u", Kind: kernels.NumberColumn, N: 10, Missing: missing, Center: nan, Scale: nan, Variance: nan},
				{Name: "g", Kind: kernels.LevelsColumn, N: 10, Missing: missing, Center: nan, Scale: nan, Variance: nan}},
			Beliefs: []kernels.Belief{{Feature: kernels.Intercept, Weight: weight}, {Feature: slot("g=a"), Weight: weight}, {Feature: slot("u"), Weight: weight}}}
		slices.SortFunc(f.Beliefs[1:], func(a, b kernels.Belief) int { return kernels.CompareNames(a.Feature, b.Feature) })
		s, err := score.New(f)
		if err != nil {
			t.Fatal(err)
		}
		p, err := predict.New(f)
		if err != nil {
			t.Fatal(err)
		}
		lacks := score.Row{Names: []string{"u", "g IS NULL"}, Values: []float64{2, 1}}
		want := 0.25 + 4*0.25
		if missing == 0 {
			want += kernels.DefaultPrior.Variance
		}
		b, err := p.Row(lacks.Names, lacks.Values, 0)
		if err != nil {
			t.Fatal(err)
		}
		if m, v, err := p.Linear(b, 0); err != nil || m != 1.5 || v != want {
			t.Errorf("%d rows missing, by package predict: N(%v, %v) %v, want N(1.5, %v)", missing, m, v, err, want)
		}
		more := score.Row{Names: append(lacks.Names, "other"), Values: append(lacks.Values, 5)}
		for _, r := range []score.Row{lacks, more} {
			if m, v, err := s.Linear(r); err != nil || m != 1.5 || v != want {
				t.Errorf("%d rows missing, %v: N(%v, %v) %v, want N(1.5, %v)", missing, r.Names, m, v, err, want)
			}
		}
	}
}

// An indicator that rows were learnt without does not count in the slot of another feature, by names
// as by the columns of SQL.
func TestHashedAbsent(t *testing.T) {
	weight := kernels.Weight{Mean: 0.5, Variance: 0.25}
	nan := math.NaN()
	f := &kernels.Fit{Method: "adf", Family: "bernoulli", Link: "logit", Shape: 1, Dispersion: 1, HashBits: 1, Prior: kernels.DefaultPrior, N: 10,
		Columns: []kernels.FitColumn{{Name: "g", Kind: kernels.LevelsColumn, N: 10, Missing: 3, Center: nan, Scale: nan, Variance: nan}},
		Beliefs: []kernels.Belief{{Feature: "#0", Weight: weight}, {Feature: "#1", Weight: weight}}}
	f.Keep(kernels.KeptAbsent, 1, 0)
	s, err := score.New(f)
	if err != nil {
		t.Fatal(err)
	}
	p, err := predict.New(f)
	if err != nil {
		t.Fatal(err)
	}
	r := score.Row{Names: []string{"g IS NULL"}, Values: []float64{1}}
	if m, v, err := s.Linear(r); err != nil || m != 0 || v != 0 {
		t.Errorf("N(%v, %v) %v, want N(0, 0)", m, v, err)
	}
	b, err := p.Row(r.Names, r.Values, 0)
	if err != nil {
		t.Fatal(err)
	}
	if m, v, err := p.Linear(b, 0); err != nil || m != 0 || v != 0 {
		t.Errorf("by package predict: N(%v, %v) %v, want N(0, 0)", m, v, err)
	}
}

// Where the numbers of interactions were centred one that is missing is its mean, and a level that
// is missing one never seen: by rows of names as by the columns of SQL.
func TestMixedCentred(t *testing.T) {
	nan := math.NaN()
	w := func(mean float64) kernels.Weight { return kernels.Weight{Mean: mean, Variance: 0.25} }
	f := &kernels.Fit{Method: "laplace", Family: "gaussian", Link: "identity", Shape: nan, Dispersion: 1, Intercept: true, Prior: kernels.DefaultPrior, N: 10,
		Columns: []kernels.FitColumn{
			{Name: "u", Kind: kernels.NumberColumn, N: 10, Center: 2000, Scale: 2, Variance: 1},
			{Name: "z", Kind: kernels.NumberColumn, N: 10, Center: 3, Scale: 1, Variance: 1},
			{Name: "g", Kind: kernels.LevelsColumn, N: 10, Center: nan, Scale: nan, Variance: 4e6},
			{Name: "u:g", Kind: kernels.LevelsColumn, Parts: "number u, levels g", N: 10, Center: nan, Scale: nan, Variance: 1},
			{Name: "u:z", Kind: kernels.NumberColumn, Parts: "number u, number z", N: 10, Center: 6001, Scale: 1, Variance: 1}},
		Beliefs: []kernels.Belief{{Feature: kernels.Intercept, Weight: w(1)}, {Feature: "g=a", Weight: w(-4000)}, {Feature: "u", Weight: w(1)}, {Feature: "u:g=a", Weight: w(1)}, {Feature: "u:z", Weight: w(0.5)}, {Feature: "z", Weight: w(-1000)}}}
	f.Keep(kernels.KeptCrossedOf("u:g"), 1999, 2)
	f.Keep(kernels.KeptCrossedOf("u:z"), 0, 0)
	s, err := score.New(f)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		row  score.Row
		want float64
	}{
		"the number": {score.Row{Names: []string{"u", "z", "g=a", "u:g=a", "u:z"}, Values: []float64{nan, 2, 1, nan, nan}}, 1 + 2000 - 2000 - 4000 + 1999 + 0.5*2000*2},
		"the other":  {score.Row{Names: []string{"u", "z", "g=a", "u:g=a", "u:z"}, Values: []float64{2001, nan, 1, 2001, nan}}, 1 + 2001 - 3000 - 4000 + 2001 + 0.5*2001*3},
		"the level":  {score.Row{Names: []string{"u", "z", "g IS NULL", "u:g IS NULL", "u:z"}, Values: []float64{2001, 2, 1, 2001, 4002}}, 1 + 2001 - 2000 + 0.5*4002},
	} {
		m, _, err := s.Linear(c.row)
		if err != nil || math.Abs(m-c.want) > 1e-9 {
			t.Errorf("without %s: %v %v, want %v", name, m, err, c.want)
		}
	}
	u, err := score.NewUpdater(&kernels.Model{Start: f, Options: kernels.Options{Missing: "indicator"}}, score.Publishing{Rows: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Learn(t.Context(), score.Observation{Row: score.Row{Names: []string{"u", "z", "g=a", "u:g=a", "u:z"}, Values: []float64{nan, 2, 1, nan, nan}}, Y: 0}); err != nil {
		t.Fatal(err)
	}
	if mean, _, ok := u.Snapshot().Fit().Kept(kernels.KeptCrossedOf("u:g")); !ok || mean != 1999 {
		t.Errorf("the fit that went on has %v of what was centred", mean)
	}
}

// A number that a row to learn from lacks is in interactions what stands for it in its own column,
// the mean so far: the update is that of names alone with these values and the features that say
// what is missing.
func TestGapsLearnt(t *testing.T) {
	nan := math.NaN()
	w := func(mean float64) kernels.Weight { return kernels.Weight{Mean: mean, Variance: 0.25} }
	learn := func(columns []kernels.FitColumn, rows ...score.Row) *kernels.Fit {
		f := &kernels.Fit{Method: "adf", Family: "gaussian", Link: "identity", Shape: nan, Dispersion: 1, Intercept: true, Prior: kernels.DefaultPrior, N: 10, Columns: columns,
			Beliefs: []kernels.Belief{{Feature: kernels.Intercept, Weight: w(1)}, {Feature: "g=a", Weight: w(-4)}, {Feature: "u", Weight: w(1)}, {Feature: "u:g=a", Weight: w(1)}, {Feature: "u:z", Weight: w(0.5)}, {Feature: "z", Weight: w(-1)}}}
		u, err := score.NewUpdater(&kernels.Model{Start: f, Options: kernels.Options{Missing: "indicator"}}, score.Publishing{Rows: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if err := u.Learn(t.Context(), score.Observation{Row: r, Y: 3}); err != nil {
				t.Fatal(err)
			}
		}
		return u.Snapshot().Fit()
	}
	names := []string{"u", "z", "g=a", "u:g=a", "u:z"}
	got := learn([]kernels.FitColumn{
		{Name: "u", Kind: kernels.NumberColumn, N: 10, Center: 2, Scale: nan, Variance: nan},
		{Name: "z", Kind: kernels.NumberColumn, N: 10, Center: 5, Scale: nan, Variance: nan},
		{Name: "g", Kind: kernels.LevelsColumn, N: 10, Center: nan, Scale: nan, Variance: nan},
		{Name: "u:g", Kind: kernels.LevelsColumn, Parts: "number u, levels g", N: 10, Center: nan, Scale: nan, Variance: nan},
		{Name: "u:z", Kind: kernels.NumberColumn, Parts: "number u, number z", N: 10, Center: 11, Scale: nan, Variance: nan},
	}, score.Row{Names: names, Values: []float64{13, 4, 1, 13, 52}}, score.Row{Names: names, Values: []float64{nan, 3, 1, nan, nan}})
	want := learn(nil, score.Row{Names: names, Values: []float64{13, 4, 1, 13, 52}},
		score.Row{Names: append(names, "u IS NULL", "u:z IS NULL"), Values: []float64{3, 3, 1, 3, 9, 1, 1}})
	if len(got.Beliefs) != 8 || len(want.Beliefs) != 8 {
		t.Fatalf("%d and %d beliefs", len(got.Beliefs), len(want.Beliefs))
	}
	for _, b := range want.Beliefs {
		k := slices.IndexFunc(got.Beliefs, func(g kernels.Belief) bool { return g.Feature == b.Feature })
		if k < 0 || math.Abs(got.Beliefs[k].Mean-b.Mean) > 1e-12 || math.Abs(got.Beliefs[k].Variance-b.Variance) > 1e-12 {
			t.Errorf("%+v is not among %+v", b, got.Beliefs)
		}
	}
	if c := got.Columns[3]; c.N != 12 || c.Missing != 1 {
		t.Errorf("column %+v", c)
	}
	for _, name := range []string{"u:g", "u:z"} {
		if _, _, ok := got.Kept(kernels.KeptFilledOf(name)); !ok {
			t.Errorf("nothing says that %s was filled: %+v", name, got.Learnt)
		}
	}
}

package engine_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/answer"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/ep"
	"github.com/bglm/bglm/kernels/export"
	"github.com/bglm/bglm/kernels/filter"
	"github.com/bglm/bglm/kernels/gp"
	"github.com/bglm/bglm/kernels/hmc"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lowrank"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/kernels/score"
	"github.com/bglm/bglm/kernels/softmax"
	"github.com/bglm/bglm/kernels/stream"
)

// What is nothing at all, or none of the kinds there are, is an error and no panic.
func TestNothing(t *testing.T) {
	const none = "the fit is nil"
	fit, err := kernels.FromBeliefs([]kernels.Belief{{Feature: "a", Weight: kernels.Weight{Mean: 1, Variance: 1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := score.New(fit)
	if err != nil {
		t.Fatal(err)
	}
	scorer, err := predict.New(fit)
	if err != nil {
		t.Fatal(err)
	}
	row := &kernels.Batch{}
	row.EndRow()
	for what, c := range map[string]struct {
		want string
		do   func() error
	}{
		"score.New":         {none, func() error { _, err := score.New(nil); return err }},
		"predict.New":       {none, func() error { _, err := predict.New(nil); return err }},
		"softmax.NewScorer": {none, func() error { _, err := softmax.NewScorer(nil); return err }},
		"gp.NewPredictor":   {"the posterior is nil", func() error { _, err := gp.NewPredictor(nil, predict.Exact); return err }},
		"export.SQL":        {none, func() error { _, err := export.SQL(nil, "duckdb", export.Options{}); return err }},
		"export.PMML":       {none, func() error { _, err := export.PMML(nil, ""); return err }},
		"MergeFits":         {"no fits to merge", func() error { _, err := kernels.MergeFits(t.Context(), nil, nil, nil); return err }},
		"MergeFits of nil":  {"fit 2 of 2: " + none, func() error { _, err := kernels.MergeFits(t.Context(), []*kernels.Fit{fit, nil}, nil, nil); return err }},
		"NewMerger":         {none, func() error { _, err := kernels.NewMerger(nil, nil); return err }},
		"Fields": {"field 2 of 2 is nil", func() error {
			_, err := engine.Fit(t.Context(), "laplace", nil, &rows.Table{X: rows.Fields(rows.Numbers("a", []float64{1}), nil), Y: rows.Numbers("y", []float64{1})})
			return err
		}},
		"no fields": {"allowed: those of y", func() error {
			_, err := engine.Fit(t.Context(), "laplace", nil, &rows.Table{X: rows.Fields(nil), Y: rows.Numbers("y", []float64{1})})
			return err
		}},
		"Summary":     {none, func() error { _, err := predict.Summary(nil, 0.9, 0); return err }},
		"Agree":       {none, func() error { return kernels.Agree(fit, nil) }},
		"Validate":    {none, func() error { return (*kernels.Fit)(nil).Validate() }},
		"Comparisons": {none, func() error { _, err := answer.NewComparisons(nil, nil); return err }},
		"Robust":      {none, func() error { _, err := answer.NewRobust(nil, "", false); return err }},
		"Compare":     {`fit "a" is nil`, func() error { _, err := answer.Compare([]string{"a"}, []*answer.LOO{nil}); return err }},
		"stream.New":  {"no rule or no form", func() error { _, err := stream.New(stream.Config{}); return err }},
		"filter.New":  {"no rule or no form", func() error { _, err := filter.New(nil, nil); return err }},
		"gp.Fit": {"needs a likelihood and a matrix", func() error {
			_, err := gp.Fit(t.Context(), nil, nil, nil, nil, nil, nil, gp.Options{})
			return err
		}},
		"NewTerms": {"term 1 of 1 has a column that is nil, or none", func() error { _, err := rows.NewTerms(nil, []rows.Term{nil}, rows.Words{}); return err }},
		"names": {"field 1 of 1 is Lists without a name", func() error {
			_, err := engine.Fit(t.Context(), "laplace", nil, &rows.Table{X: rows.Fields(rows.Lists([][]string{{"a"}})), Y: rows.Numbers("y", []float64{1})})
			return err
		}},
		"Kind":           {"found kind 99; allowed: 0 to 2", func() error { _, err := snap.Predict(score.Row{}, predict.Kind(99)); return err }},
		"Kind of scorer": {"found kind -1", func() error { _, err := scorer.Predict(row, 0, predict.Kind(-1)); return err }},
	} {
		if err := c.do(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
	if got := predict.Kind(99).String(); got != "Kind(99)" {
		t.Error(got)
	}
}

// Settings that a method has no use for are an error, lists and fits among them.
func TestUnusedLists(t *testing.T) {
	fit, err := kernels.FromBeliefs(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := []kernels.Belief{{Feature: "x", Weight: kernels.Weight{Variance: 1}}}
	table := &rows.Table{X: rows.Lists([][]float64{{1}, {2}, {3}}), Y: rows.Numbers("y", []float64{1, 0, 1})}
	for key, set := range map[string]func(s *option.Settings){
		"priors":         func(s *option.Settings) { s.Priors = b },
		"prior":          func(s *option.Settings) { s.Start = fit },
		"prior_variance": func(s *option.Settings) { s.PriorBy = kernels.ColumnPriors{{Column: "x", Variance: 2}} },
		"correlated":     func(s *option.Settings) { s.Correlated = [][]string{{"a", "b"}} },
		"process_noise":  func(s *option.Settings) { s.NoiseBy = map[string]float64{"x": 1} },
		"at":             func(s *option.Settings) { s.At = b },
		"around":         func(s *option.Settings) { s.Around = fit },
	} {
		s := option.Defaults()
		set(s)
		if _, err := engine.Fit(t.Context(), "gp", s, table); err == nil || !strings.Contains(err.Error(), key+": found a ") || !strings.Contains(err.Error(), "is not used here") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// Sets of correlated columns: of rows without such columns an error, of no rows at all a fit of
// none.
func TestCorrelatedOfNothing(t *testing.T) {
	for _, method := range []string{"laplace", engine.Auto} {
		for _, without := range []bool{true, false} {
			s := func() *option.Settings {
				s := option.Defaults()
				s.Correlated, s.NoIntercept = [][]string{{"a", "b"}}, without
				return s
			}
			_, err := engine.Fit(t.Context(), method, s(), &rows.Table{X: rows.Lists([][]float64{{}, {}}), Y: rows.Numbers("y", []float64{1, 0})})
			if err == nil || !strings.Contains(err.Error(), "the rows have no column of levels") {
				t.Errorf("%s: %v", method, err)
			}
			r, err := engine.Fit(t.Context(), method, s(), &rows.Table{X: rows.Fields(rows.Texts("a", nil), rows.Texts("b", nil)), Y: rows.Numbers("y", nil)})
			if err != nil || r.Fit.N != 0 || len(r.Fit.Correlations) != 0 {
				t.Errorf("%s: %+v, %v", method, r, err)
			}
		}
	}
}

// A problem that no rows made is an error of every method.
func TestNoProblem(t *testing.T) {
	for what, p := range map[string]*kernels.Problem{"nil": nil, "zero": {}, "of a model alone": {Model: (*kernels.Model)(nil).Complete()}} {
		for method, fit := range map[string]func() error{
			"laplace": func() error { _, err := laplace.Fit(t.Context(), p); return err },
			"learn":   func() error { _, _, _, err := laplace.LearnAlone(t.Context(), p); return err },
			"ep":      func() error { _, err := ep.Fit(t.Context(), p); return err },
			"smooth":  func() error { _, err := ep.Smooth(t.Context(), p, nil); return err },
			"hmc":     func() error { _, err := hmc.Fit(t.Context(), p); return err },
			"lowrank": func() error { _, err := lowrank.Fit(t.Context(), p); return err },
			"reduce":  func() error { _, err := lowrank.Reduce(p); return err },
			"softmax": func() error { _, err := softmax.Fit(t.Context(), p, []string{"a", "b"}); return err },
			"classes": func() error { _, err := kernels.NewClasses(p, nil, ""); return err },
			"standardize": func() error {
				_, err := kernels.SolveStandardized(p, 0, nil)
				return err
			},
		} {
			if err := fit(); err != kernels.ErrNoProblem {
				t.Errorf("%s of a problem that is %s: %v", method, what, err)
			}
		}
	}
}

// A batch whose responses or weights are not those of its rows, or that has fewer entries than its
// rows say, is an error of every method that learns rows.
func TestShortBatches(t *testing.T) {
	const rows = 4
	for what, c := range map[string]struct {
		want string
		do   func(b *kernels.Batch)
	}{
		"responses": {"3 responses for 4 rows", func(b *kernels.Batch) { b.Y = b.Y[:3] }},
		"none":      {"0 responses for 4 rows", func(b *kernels.Batch) { b.Y = nil }},
		"more":      {"5 responses for 4 rows", func(b *kernels.Batch) { b.Y = make([]float64, 5) }},
		"weights":   {"2 weights for 4 rows", func(b *kernels.Batch) { b.Weight = make([]float64, 2) }},
		"offsets":   {"5 offsets for 4 rows", func(b *kernels.Batch) { b.Offset = make([]float64, 5) }},
		"trials":    {"1 trials for 4 rows", func(b *kernels.Batch) { b.Trials = make([]float64, 1) }},
		"times":     {"3 times for 4 rows", func(b *kernels.Batch) { b.Time = make([]float64, 3) }},
		"values":    {"8 entries, but there are 8 features and 5 values", func(b *kernels.Batch) { b.Value = b.Value[:5] }},
		"columns": {"1 columns of 2 features", func(b *kernels.Batch) {
			*b = kernels.Batch{Shared: []uint32{0, 1}, Columns: [][]float64{{1, 1}}, Y: make([]float64, 2)}
		}},
		"lengths": {"2 columns of 2 features", func(b *kernels.Batch) {
			*b = kernels.Batch{Shared: []uint32{0, 1}, Columns: [][]float64{{1, 1}, {2}}, Y: make([]float64, 2)}
		}},
		"shared": {"7 values of 2 features a row", func(b *kernels.Batch) {
			*b = kernels.Batch{Shared: []uint32{0, 1}, Value: make([]float64, 7), Y: make([]float64, 3)}
		}},
	} {
		for method, begin := range map[string]func() (update func(b *kernels.Batch) error, err error){
			"rows": func() (func(*kernels.Batch) error, error) {
				r, err := kernels.NewRows(nil)
				return func(b *kernels.Batch) error { r.Dict.Add("a"); return r.Update(b, true) }, err
			},
			"stream": func() (func(*kernels.Batch) error, error) {
				s, err := filter.New(nil, filter.ADF{})
				return func(b *kernels.Batch) error { s.Features().Add("a"); return s.Update(t.Context(), b, true) }, err
			},
			"laplace": func() (func(*kernels.Batch) error, error) {
				s, err := laplace.NewPass(t.Context(), nil)
				return func(b *kernels.Batch) error { s.Features().Add("a"); return s.Update(t.Context(), b, true) }, err
			},
			"lowrank": func() (func(*kernels.Batch) error, error) {
				s, err := lowrank.NewPass(t.Context(), nil)
				return func(b *kernels.Batch) error { s.Features().Add("a"); return s.Update(t.Context(), b, true) }, err
			},
		} {
			update, err := begin()
			if err != nil {
				t.Fatal(method, err)
			}
			b := &kernels.Batch{Y: make([]float64, rows)}
			for range rows {
				b.Add(0, 1)
				b.Add(1, 1)
				b.EndRow()
			}
			c.do(b)
			if err := update(b); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s of %s: %v, want %s", method, what, err, c.want)
			}
			if err := update(nil); err == nil || !strings.Contains(err.Error(), "the batch is nil") {
				t.Errorf("%s of nil: %v", method, err)
			}
		}
	}
}

// A nil batch is an error of every method.
func TestNoBatch(t *testing.T) {
	for _, name := range append(engine.Names(engine.Weights, engine.Classes, engine.Paths, engine.Process), engine.Auto) {
		m, err := engine.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		model, err := m.Model(option.Defaults(), false, false)
		if err != nil {
			t.Fatal(name, err)
		}
		f, err := m.New(t.Context(), model)
		if err != nil {
			t.Fatal(name, err)
		}
		if err := f.Update(t.Context(), nil, false); err == nil || !strings.Contains(err.Error(), "the batch is nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Answers about rows need their responses.
func TestNoResponses(t *testing.T) {
	f, err := kernels.FromBeliefs([]kernels.Belief{{Feature: "a", Weight: kernels.Weight{Mean: 1, Variance: 1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := predict.New(f)
	if err != nil {
		t.Fatal(err)
	}
	b := &kernels.Batch{}
	b.Add(0, 1)
	b.EndRow()
	loo, err := answer.NewLOO(f, predict.AtMode, true)
	if err != nil {
		t.Fatal(err)
	}
	full := *f
	if err := full.SetCovariance(f.Beliefs, [][]float64{{10, 0}, {0, 1}}); err != nil {
		t.Fatal(err)
	}
	robust, err := answer.NewRobust(&full, "", true)
	if err != nil {
		t.Fatal(err)
	}
	const none = "0 responses for 1 rows"
	for what, do := range map[string]func() error{
		"Influence":  func() error { _, err := s.Influence(b, 0); return err },
		"LogDensity": func() error { _, err := s.LogDensity(b, 0); return err },
		"LeaveOut":   func() error { _, err := s.LeaveOut(b, 0, 0, 1, predict.AtMode); return err },
		"LOO":        func() error { return loo.Add(t.Context(), b) },
		"Robust":     func() error { return robust.Add(t.Context(), b, nil) },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), none) {
			t.Errorf("%s: %v, want %s", what, err, none)
		}
	}
	b.Y = []float64{1}
	if err := robust.Add(t.Context(), b, nil); err == nil || !strings.Contains(err.Error(), "0 clusters for 1 rows") {
		t.Errorf("no clusters: %v", err)
	}
}

// Two beliefs about one feature are an error, as in SQL; the last one was taken.
func TestTwoBeliefs(t *testing.T) {
	for _, name := range []string{"a", kernels.Intercept} {
		b := []kernels.Belief{{Feature: name, Weight: kernels.Weight{Mean: 1, Variance: 1}}, {Feature: name, Weight: kernels.Weight{Mean: 2, Variance: 1}}}
		want := `feature "` + name + `" has more than one belief`
		for what, do := range map[string]func() error{
			"kernels.FromBeliefs": func() error { _, err := kernels.FromBeliefs(b, nil); return err },
			"score.FromBeliefs":   func() error { _, err := score.FromBeliefs(b, nil); return err },
		} {
			if err := do(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s of two beliefs about %s: %v", what, name, err)
			}
		}
		if _, err := kernels.FromBeliefs(b[:1], nil); err != nil {
			t.Error(name, err)
		}
	}
}

// Values by column are those of rows for methods that work by row.
func TestColumnsOfBatches(t *testing.T) {
	columns := func() *kernels.Batch {
		return &kernels.Batch{Shared: []uint32{0, 1}, Columns: [][]float64{{1, 1, 1}, {2, 3, 5}}, Y: []float64{1, 0, 1}}
	}
	values := &kernels.Batch{Shared: []uint32{0, 1}, Value: []float64{1, 2, 1, 3, 1, 5}, Y: []float64{1, 0, 1}}
	fits := map[string][]kernels.Belief{}
	for k, b := range []*kernels.Batch{values, columns(), columns()} {
		r, err := kernels.NewRows(nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := filter.New(nil, filter.ADF{})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []*kernels.Dict{&r.Dict, s.Features()} {
			if _, err := d.Add("u"); err != nil {
				t.Fatal(err)
			}
		}
		if k < 2 {
			err = r.Update(b, false)
		}
		if err == nil && k != 1 {
			err = s.Update(t.Context(), b, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.Problem()
		if err != nil {
			t.Fatal(err)
		}
		f, err := laplace.Fit(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.Fit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for what, got := range map[string][]kernels.Belief{"rows": f.Beliefs, "stream": g.Beliefs} {
			if what == "rows" && k == 2 || what == "stream" && k == 1 {
				continue
			}
			if was := fits[what]; was != nil && !slices.Equal(was, got) {
				t.Errorf("%s by column: %v, by row %v", what, got, was)
			}
			fits[what] = got
		}
	}
}

// A smoother says that its beliefs are factorised, and that no row counts.
func TestSmoothNotes(t *testing.T) {
	const n = 60
	u, y, none := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		u[i], y[i] = 3+0.5*math.Sin(float64(7*i)), float64(i*i%7%2)
	}
	for _, c := range []struct {
		covariance string
		weight     []float64
		want       string
	}{{"", nil, "ok"}, {"diagonal", nil, kernels.FactorisedNote}, {"", none, kernels.WeightlessNote}} {
		s := option.Defaults()
		s.Options.Covariance = c.covariance
		x := &rows.Table{X: rows.Fields(rows.Numbers("u", u)), Y: rows.Numbers("y", y)}
		if c.weight != nil {
			x.Weight = rows.Numbers("w", c.weight)
		}
		r, err := engine.Fit(t.Context(), "smooth", s, x)
		if err != nil {
			t.Fatal(err)
		}
		if r.Fit.Status != c.want {
			t.Errorf("covariance %q: %s", c.covariance, r.Fit.Status)
		}
	}
}

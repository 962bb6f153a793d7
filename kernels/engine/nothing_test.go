package engine_test

import (
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/export"
	"github.com/bglm/bglm/kernels/gp"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/kernels/score"
	"github.com/bglm/bglm/kernels/softmax"
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
		"MergeFits":         {"no fits to merge", func() error { _, err := kernels.MergeFits(t.Context(), nil, nil); return err }},
		"MergeFits of nil":  {"fit 2 of 2: " + none, func() error { _, err := kernels.MergeFits(t.Context(), []*kernels.Fit{fit, nil}, nil); return err }},
		"NewMerger":         {none, func() error { _, err := kernels.NewMerger(nil, nil); return err }},
		"Fields": {"field 2 of 2 is nil", func() error {
			_, err := engine.Fit(t.Context(), "laplace", nil, &rows.Table{X: rows.Fields(rows.Numbers("a", []float64{1}), nil), Y: rows.Numbers("y", []float64{1})})
			return err
		}},
		"no fields": {"allowed: those of y", func() error {
			_, err := engine.Fit(t.Context(), "laplace", nil, &rows.Table{X: rows.Fields(nil), Y: rows.Numbers("y", []float64{1})})
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

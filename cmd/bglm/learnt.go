package main

import (
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/fitstore"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/cmd/internal/shell"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// learnt is how well a fit predicts unseen rows, measured on its own rows: each left out in turn,
// or predicted before a stream learnt it.
type learnt struct {
	How      string   `json:"validation"` // "leave-one-out" or "progressive"
	Rows     int64    `json:"validation_rows"`
	Weight   *float64 `json:"validation_weight,omitempty"` // sum of the weights of the rows, if they have any
	Unsure   int64    `json:"validation_unsure,omitempty"` // rows too influential to be left out by a formula
	Mean     *float64 `json:"base_rate,omitempty"`         // of the responses; of all trials
	LogLoss  *float64 `json:"log_loss,omitempty"`          // minus the mean log density of a response
	RuledOut int64    `json:"ruled_out,omitempty"`         // rows whose response had density 0: the log loss is infinite
	BaseLoss *float64 `json:"base_log_loss,omitempty"`
	AUC      *float64 `json:"auc,omitempty"`

	none    bool // some rows have no prediction
	stopped bool // the fit has not converged: what its formulas leave out is not in it
	binary  bool
}

// measured is how well the fit predicts its own rows as if it had not seen them; nil if there is no
// way to know.
func measured(s *duck.Session, f *fitstore.Fits, j *job.Job, src *job.Source) (*learnt, error) {
	if len(j.Group) > 0 {
		return nil, nil
	}
	sc, err := newScoring(s, f, src, j)
	if err != nil {
		return nil, err
	}
	number, trials := j.Option("trials")
	if trials {
		sc.rows, sc.keep = "(SELECT *, ("+number+")::DOUBLE AS bglm_n FROM "+sc.rows+")", []string{"bglm_n"}
	}
	r := &learnt{}
	if r.How, err = sc.predictUnlearnt(s, j); err != nil || r.How == "" {
		return nil, src.Blame(err)
	}
	rows := "scored WHERE y IS NOT NULL AND log_density IS NOT NULL AND w > 0"
	if r.How == leaveOneOut {
		rows = "scored WHERE y IS NOT NULL AND reach IS NOT NULL AND w > 0" // including those without a density
		var none int64
		if r.Unsure, none, err = decisive(s); err != nil {
			return nil, err
		}
		r.none = none > 0
		if err := s.Row("SELECT NOT coalesce(bool_and(fit.converged), true) FROM "+f.Table, &r.stopped); err != nil {
			return nil, err
		}
	}
	of := "1"
	if trials {
		of = sc.keep[0] // responses are proportions, and the base loss that of the share of all trials
	}
	var mean, loss, base, auc sql.NullFloat64
	var binary bool
	var weight sql.NullFloat64
	if err := s.Row("SELECT count(*), sum(w), sum(w * y * "+of+") / sum(w * "+of+"), -"+weighted("log_density")+", count(*) FILTER (log_density = '-inf'), coalesce(bool_and(y IN (0, 1)), false) FROM "+rows, &r.Rows, &weight, &mean, &loss, &r.RuledOut, &binary); err != nil {
		return nil, err
	}
	if sc.weight != "" && weight.Valid {
		r.Weight = &weight.Float64
	}
	if binary {
		if err := s.Row("SELECT bglm_auc(y = 1, p, w) FROM "+rows+" AND p IS NOT NULL", &auc); err != nil {
			return nil, err
		}
	}
	r.binary = binary
	if sc.pairAUC != nil && binary {
		auc = sql.NullFloat64{Float64: *sc.pairAUC, Valid: true}
	}
	if _, offset := j.Option("offset"); binary || !offset {
		if base, err = baseLoss(s, rows, sc.keep, offset); err != nil {
			return nil, err
		}
	}
	if r.none || r.stopped { // sums over the others would be those of easier rows
		loss, auc = sql.NullFloat64{}, sql.NullFloat64{}
	}
	if r.stopped {
		r.Unsure, r.RuledOut = 0, 0
	}
	for to, v := range map[**float64]sql.NullFloat64{&r.Mean: mean, &r.LogLoss: loss, &r.BaseLoss: base, &r.AUC: auc} {
		if v.Valid && !math.IsNaN(v.Float64) && !math.IsInf(v.Float64, 0) {
			*to = &v.Float64
		}
	}
	return r, nil
}

// baseRows is the largest number of distinct responses from which a base loss is computed;
// continuous ones with a shape, gamma and studentt, may be as many as the rows, and are read into
// memory.
const baseRows = 1 << 20

// baseLoss is minus the mean log density of the responses in the table scored under the distribution
// of the fit's family that fits them best without features: lik.NullLogLik. trials names the column
// of trials, if there is one, offset says that rows have one. It is not valid if there is none.
func baseLoss(s *duck.Session, rows string, trials []string, offset bool) (base sql.NullFloat64, err error) {
	var family, link string
	var shape sql.NullFloat64
	if err := s.Row("SELECT fit.family, fit.link, fit.shape FROM fits", &family, &link, &shape); err != nil {
		return base, err
	}
	l, err := lik.New(family, link, lik.Params{Shape: shape.Float64, Dispersion: 1})
	if err != nil {
		return base, nil // a distribution with several predictors
	}
	if offset && l.Traits().Counts { // also for 0 and 1 with an exposure, which a single rate ignores
		return base, nil
	}
	var n float64
	loss := func(logp float64, ok bool) (sql.NullFloat64, error) {
		return sql.NullFloat64{Float64: 0 - logp/n, Valid: ok}, nil // 0 for certain responses, not -0
	}
	if l.Traits().Homoscedastic { // sums are sufficient
		var variance sql.NullFloat64
		if err := s.Row("SELECT sum(w), "+weighted("(y - m)**2")+" FROM (FROM "+rows+"), (SELECT "+weighted("y")+" AS m FROM "+rows+")", &n, &variance); err != nil {
			return base, err
		}
		return loss(lik.ConstantOf(l).Best(lik.Sums{Weight: n, Square: n * variance.Float64}, 0))
	}
	of := "0"
	if len(trials) > 0 {
		of = trials[0]
	}
	var obs []lik.Obs
	err = s.Each(fmt.Sprintf("SELECT y, %s AS trials, sum(w) FROM %s GROUP BY ALL ORDER BY ALL LIMIT %d", of, rows, baseRows+1), func(scan func(...any) error) error {
		var o lik.Obs
		err := scan(&o.Y, &o.Trials, &o.Weight)
		if o.Trials > 0 {
			o.Y = math.Round(o.Y * o.Trials) // the response is a proportion
		}
		n += o.Weight
		obs = append(obs, o)
		return err
	})
	if err != nil || len(obs) > baseRows {
		return base, err
	}
	return loss(lik.NullLogLik(l, obs))
}

// line is the sentence about how well the fit predicts.
func (r *learnt) line() string {
	var parts []string
	add := func(format string, v *float64) {
		if v != nil {
			parts = append(parts, fmt.Sprintf(format, *v))
		}
	}
	if r.binary && r.BaseLoss != nil {
		add("base rate %.4g", r.Mean)
		add("its log loss %.4f", r.BaseLoss)
		add(r.How+" log loss %.4f", r.LogLoss)
		add("AUC %.4f", r.AUC)
	} else {
		add("mean response %.4g", r.Mean)
		add("its log loss a row %.4f", r.BaseLoss)
		add(r.How+" log loss a row %.4f", r.LogLoss)
	}
	switch {
	case r.stopped:
		parts = append(parts, "no "+r.How+" figure of a fit that has not converged")
	case r.none:
		parts = append(parts, "no "+r.How+" figure")
	case r.RuledOut > 0:
		parts = append(parts, fmt.Sprintf("%s log loss infinite (of %s)", r.How, some(r.RuledOut, "row")))
	}
	out := strings.Join(parts, ", ")
	if more := unsure(r.Unsure, r.Rows); more != "" {
		out += "." + more
	}
	return out
}

// term is a row of bglm_summary.
type term struct {
	Term     string   `json:"term"`
	Column   *string  `json:"column,omitempty"`
	Mean     *float64 `json:"mean,omitempty"`
	SD       *float64 `json:"sd,omitempty"`
	Lower    *float64 `json:"lower,omitempty"`
	Upper    *float64 `json:"upper,omitempty"`
	ExpMean  *float64 `json:"exp_mean,omitempty"`
	Positive *float64 `json:"p_positive,omitempty"`
}

// How many terms are shown: if there are more, first those of columns with up to fewTerms terms,
// and those with the largest means in standard deviations.
const (
	shownTerms  = 30
	storedTerms = 1000
	fewTerms    = 12
)

// terms are up to most rows of the summary of the one fit, in its order, and the total number: the
// intercept, learnt variances, and the weights furthest from 0, those of columns with few terms
// before those of columns with many, such as the subjects of a study.
func terms(s *duck.Session, f *fitstore.Fits, most int) (out []term, all int64, err error) {
	if !f.IsFit || f.HasClass || len(f.Group) > 0 {
		return nil, 0, nil
	}
	if err := s.Exec("CREATE OR REPLACE TEMP TABLE terms AS SELECT generate_subscripts(l, 1) AS k, unnest(l, recursive := true), weights FROM (SELECT bglm_summary(fit) AS l, len(fit.beliefs) AS weights FROM " + f.Table + ")"); err != nil {
		return nil, 0, err
	}
	if err := s.Row("SELECT count(*) FROM terms", &all); err != nil {
		return nil, 0, err
	}
	q := fmt.Sprintf(`SELECT term, "column", mean, sd, lower, upper, exp_mean, p_positive FROM
		(SELECT *, k > 1 AND k <= weights AS weight, count(*) OVER (PARTITION BY "column", weight) > %d AS many FROM terms
		ORDER BY weight, weight AND many, abs(mean) / sd DESC NULLS LAST, k LIMIT %d) ORDER BY k`, fewTerms, most)
	err = s.Each(q, func(scan func(...any) error) error {
		var x term
		err := scan(&x.Term, &x.Column, &x.Mean, &x.SD, &x.Lower, &x.Upper, &x.ExpMean, &x.Positive)
		out = append(out, x)
		return err
	})
	return out, all, err
}

// termTable prints terms; exp_mean only if some term has it, and no standard deviations if the
// posterior is factorised, whose deviations are not those of the weights.
func termTable(all []term, of int64, factorised bool) string {
	if len(all) == 0 {
		return ""
	}
	exp := slices.ContainsFunc(all, func(x term) bool { return x.ExpMean != nil })
	t := newTable()
	row := func(first, mean, exponential string, more ...any) table.Row {
		r := table.Row{first, mean}
		if exp {
			r = append(r, exponential)
		}
		if !factorised {
			r = append(r, more...)
		}
		return r
	}
	t.AppendHeader(row("term", "mean", "exp(mean)", "sd", "2.5 %", "97.5 %", "P(> 0)"))
	for _, x := range all {
		t.AppendRow(row(shell.Visible(x.Term), number(x.Mean, "%.4g"), number(x.ExpMean, "%.4g"),
			number(x.SD, "%.3g"), number(x.Lower, "%.4g"), number(x.Upper, "%.4g"), number(x.Positive, "%.3f")))
	}
	out := t.Render() + "\n"
	if n := of - int64(len(all)); n > 0 {
		out += fmt.Sprintf("and %d terms more, of columns of many terms or with means fewer standard deviations from 0\n", n)
	}
	return out
}

// interceptNote mentions a column of levels whose weights are shown: each is as uncertain as the
// intercept with which it is confounded, which is easily mistaken for the uncertainty of the
// column's effect.
func interceptNote(all []term) string {
	levels := make(map[string]int)
	for _, x := range all {
		if x.Column == nil || !strings.HasPrefix(x.Term, *x.Column+"=") || strings.Contains(*x.Column, ":") { // an interaction has no effect of its own
			continue
		}
		if levels[*x.Column]++; levels[*x.Column] == 2 {
			return "levels stand beside the intercept, and differences between them are known better: bglm effects --column " + quote.Shell(shell.Visible(*x.Column)) + "\n"
		}
	}
	return ""
}

// centredNote mentions columns of levels with slopes of a number that was centred: their weights,
// and the standard deviation shown with these, are for the number at 0, but the weights independent
// of the slopes are those at its mean. In lme4 (x || g) refers to 0.
func centredNote(s *duck.Session, f *fitstore.Fits, all []term) (text string, err error) {
	if !f.IsFit || f.HasClass {
		return "", nil
	}
	shown := func(column string) bool {
		return slices.ContainsFunc(all, func(x term) bool { return x.Term == "sd("+column+")" })
	}
	type column struct {
		kind               string
		variance, centered sql.NullFloat64
	}
	columns := make(map[string]column)
	err = s.Each("SELECT c.name, c.kind, c.variance, list_filter(fit.learnt, lambda l: l.name = 'centred(' || c.name || ')')[1].mean FROM (SELECT fit, unnest(fit.columns) AS c FROM (FROM "+f.Table+" LIMIT 1))", func(scan func(...any) error) error {
		var name string
		var c column
		if err := scan(&name, &c.kind, &c.variance, &c.centered); err != nil {
			return err
		}
		columns[name] = c
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		c := columns[name]
		parts, ok := kernels.SplitParts(strings.TrimPrefix(c.kind, kernels.LevelsColumn+" of "))
		if !ok || c.centered.Float64 == 0 {
			continue
		}
		var number string
		var levels []string
		for _, p := range parts {
			if p.Kind == kernels.NumberColumn {
				number = p.Name
			} else {
				levels = append(levels, p.Name)
			}
		}
		base := strings.Join(levels, ":")
		there := columns[base].variance.Float64 - c.centered.Float64*c.centered.Float64*c.variance.Float64
		if shown(base) && shown(name) && there >= 0 {
			text += shell.Visible(fmt.Sprintf("sd(%s) is that where %s is 0; at its mean, %.4g, where the weights of %[1]s and of %[4]s are independent, it is %.4g: (%[2]s | %[1]s) in a formula learns their correlation", base, number, c.centered.Float64, name, math.Sqrt(there))) + "\n"
		}
	}
	return text, err
}

// number is v as text, "" for none.
func number(v *float64, format string) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf(format, *v)
}

package main

import (
	"database/sql"
	"fmt"
	"math"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/page"
	"github.com/bglm/bglm/cmd/internal/shell"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/metric"
)

// crossValidated says that rows were predicted by fits of the parts without them.
const crossValidated = "cross-validation"

// folds is how many parts cross-validation makes, and leastFolded the least number of rows for it.
const (
	folds       = 5
	leastFolded = 10
)

// judgeFolds is judge for fits without a formula for leaving out a row, those of classes and
// functions: the rows that they have learnt are predicted by fits of four fifths of them. For
// classes the table scored has y, a class as text, and p, the MAP of their probabilities.
func (sc *scoring) judgeFolds(s *duck.Session, asFitted bool) (how string, err error) {
	mark := sc.fits.Job(rowsKey)
	how = unknownRows
	if mark != "" {
		now, err := rowsMark(s, sc.y, sc.x, sc.rows)
		if err != nil {
			return "", err
		}
		if how = otherRows; sameRows(mark, now) {
			how = fitted
		}
	}
	if how == fitted && !asFitted && len(sc.fits.Group) == 0 && sc.offset == "" && sc.fits.Job(startKey) == "" {
		done := false
		err := sc.withoutBadRows(s, func() (err error) { done, err = sc.folded(s); return err })
		if err != nil {
			return "", err
		}
		if done {
			return crossValidated, nil
		}
	}
	return how, sc.withoutBadRows(s, func() error {
		return sc.scoreAny(s, sc.subquery("", sc.observed(sc.job, sc.y)+" AS bglm_y", trialsOf(sc.job)+" AS bglm_of", weightOf(sc.weight)+" AS bglm_w"))
	})
}

// scoreAny creates the table scored from rows with bglm_y, bglm_of, bglm_w, bglm_fit and bglm_x.
func (sc *scoring) scoreAny(s *duck.Session, from string) error {
	if sc.fits.HasClass {
		return sc.scored(s, "bglm_y::VARCHAR AS y, bglm_predict(bglm_fit, bglm_x) AS p", "bglm_w", from)
	}
	err := sc.scored(s, "bglm_y::DOUBLE AS y, d.mean AS p, "+intervalOf(sc.job)+", bglm_of AS trials", "bglm_w", "(SELECT bglm_y, bglm_of, bglm_w, bglm_predict_dist(bglm_fit, bglm_x) AS d FROM "+from+")")
	if err != nil {
		return err
	}
	return sc.checkResponses(s)
}

// observed is what predictions of a response y are compared with: its class, or shareOf it.
func (sc *scoring) observed(j *job.Job, y string) string {
	if sc.fits.HasClass {
		return "(" + y + ")"
	}
	return shareOf(j, y)
}

// folded predicts each part of the rows by the fit of all others; false if the fits do not record
// how they were made, or have few rows. A row's part depends only on its position; a row of weight
// w goes as a whole, although its copies in an expanded table might be separated.
func (sc *scoring) folded(s *duck.Session) (done bool, err error) {
	m, ok, err := modelOf(sc.fits)
	if err != nil || !ok {
		return false, err
	}
	if m.Method = engine.Names(engine.Process)[0]; sc.fits.HasClass {
		m.Method = engine.Names(engine.Classes)[0]
	}
	j, err := job.New(sc.src, m, true)
	if err != nil {
		return false, err
	}
	fn, err := job.Function(s, j.Method)
	if err != nil {
		return false, err
	}
	var n int64
	if err := s.Row("SELECT count(*) FROM "+sc.rows, &n); err != nil || n < leastFolded {
		return false, err
	}
	defer func() { _ = s.Exec("DROP TABLE IF EXISTS folded; DROP TABLE IF EXISTS fold_fits") }()
	q := fmt.Sprintf("CREATE OR REPLACE TEMP TABLE folded AS SELECT *, row_number() OVER (ORDER BY hash(bglm_at), bglm_at) %% %d AS bglm_fold FROM (SELECT *, row_number() OVER () AS bglm_at FROM (%s))", folds, j.Inner(sc.rows, sc.observed(j, j.Y)+" AS bglm_observed", trialsOf(j)+" AS bglm_of", weightOf(sc.weight)+" AS bglm_w"))
	if err := s.Exec(q); err != nil {
		return false, err
	}
	q = fmt.Sprintf("CREATE OR REPLACE TEMP TABLE fold_fits AS SELECT f AS bglm_left, %s(bglm_y, bglm_x, %s) AS bglm_fit FROM folded, range(%d) t(f) WHERE bglm_fold <> f GROUP BY f", fn, j.OptionsText(), folds)
	if err := s.Long("cross-validating", q); err != nil {
		return false, err
	}
	// One fit at a time, to which DuckDB points for all rows; a join would copy it for each.
	parts := make([]string, folds)
	for k := range parts {
		parts[k] = fmt.Sprintf("SELECT bglm_observed AS bglm_y, bglm_of, bglm_w, bglm_x, bglm_fit FROM (FROM folded WHERE bglm_fold = %d), (FROM fold_fits WHERE bglm_left = %d)", k, k)
	}
	return true, sc.scoreAny(s, "("+strings.Join(parts, " UNION ALL ")+")")
}

// class is the quality of the predictions for one class.
type class struct {
	Class     string             `json:"class"`
	N         float64            `json:"n"`                   // sum of the weights of its rows
	Share     float64            `json:"share"`               // of the rows
	Predicted float64            `json:"predicted"`           // mean probability
	Recall    float64            `json:"recall"`              // proportion of its rows for which it is the most likely
	Precision *float64           `json:"precision,omitempty"` // proportion of the rows for which it is the most likely that belong to it
	Taken     map[string]float64 `json:"taken_for"`           // rows by most likely class
}

// measureClasses is the quality of the probabilities in the table scored. A class unknown to the
// fit of a row has probability 0: if it is the row's class, the log loss is infinite, and not
// shown.
func measureClasses(s *duck.Session) (*quality, error) {
	r := &quality{}
	// Numbers are the same class in any notation.
	if err := s.Exec(`CREATE OR REPLACE TEMP TABLE labelled AS WITH k AS (SELECT DISTINCT unnest(map_keys(p)) AS class FROM scored WHERE p IS NOT NULL),
		t AS (SELECT y, coalesce(max(class) FILTER (class = y), max(class) FILTER (TRY_CAST(class AS DOUBLE) = TRY_CAST(y AS DOUBLE)), y) AS class FROM (SELECT DISTINCT y FROM scored WHERE y IS NOT NULL), k GROUP BY y)
		SELECT row_number() OVER () AS k, class, p, w, coalesce(p[class], 0) AS own, list_reduce(map_entries(p), lambda a, b: CASE WHEN b.value > a.value THEN b ELSE a END).key AS likeliest
		FROM scored JOIN t USING (y) WHERE p IS NOT NULL AND w > 0`); err != nil {
		return nil, err
	}
	defer func() { _ = s.Exec("DROP TABLE labelled") }()
	var loss, brier, weight sql.NullFloat64
	var plain bool
	err := s.Row(`SELECT count(*), (SELECT count(*) FROM scored WHERE y IS NULL OR p IS NULL OR w IS NULL), coalesce(bool_and(w = 1), true), sum(w), count(*) FILTER (own = 0), CASE WHEN min(own) > 0 THEN -`+weighted("ln(nullif(own, 0))")+` END,
		`+weighted("list_sum(list_transform(map_entries(p), lambda e: (e.value - (e.key = class)::INT)**2)) + (p[class] IS NULL)::INT")+` FROM labelled`, &r.N, &r.Missing, &plain, &weight, &r.RuledOut, &loss, &brier)
	if err != nil {
		return nil, err
	}
	if r.N == 0 {
		return nil, fmt.Errorf("no row has both a class and a prediction")
	}
	err = s.Each(`SELECT class, coalesce(predicted, 0) FROM (SELECT DISTINCT class FROM labelled)
		FULL JOIN (SELECT e.key AS class, sum(w * e.value) / (SELECT sum(w) FROM labelled) AS predicted FROM (SELECT unnest(map_entries(p)) AS e, w FROM labelled) GROUP BY ALL) USING (class) ORDER BY class`, func(scan func(...any) error) error {
		c := class{Taken: map[string]float64{}}
		err := scan(&c.Class, &c.Predicted)
		r.Classes = append(r.Classes, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	of, rows := map[string]int{}, make(metric.Confusion, len(r.Classes))
	for i, c := range r.Classes {
		of[c.Class], rows[i] = i, make([]float64, len(r.Classes))
	}
	err = s.Each("SELECT class, likeliest, sum(w) FROM labelled GROUP BY ALL", func(scan func(...any) error) error {
		var class, taken string
		var n float64
		err := scan(&class, &taken, &n)
		r.Classes[of[class]].Taken[taken], rows[of[class]][of[taken]] = n, n
		return err
	})
	if err != nil {
		return nil, err
	}
	for k := range r.Classes {
		c := &r.Classes[k]
		c.N, _ = rows.Class(k)
		c.Share, c.Recall = c.N/weight.Float64, rows.Recall(k)
		if v := rows.Precision(k); !math.IsNaN(v) {
			c.Precision = &v
		}
	}
	accuracy, most := rows.Accuracy()
	base := rows.BaseLoss()
	r.Accuracy, r.BaseAccuracy, r.BaseLoss = &accuracy, &most, &base
	if plain {
		weight.Valid = false
	}
	for to, v := range map[**float64]sql.NullFloat64{&r.LogLoss: loss, &r.Brier: brier, &r.Weight: weight} {
		if v.Valid {
			*to = &v.Float64
		}
	}
	return r, nil
}

// mostConfused is the number of classes up to which a table of all pairs is shown.
const mostConfused = 12

// classTables are the measures by class, and the confusions between classes.
func (r *quality) classTables() []*page.Table {
	text := func(s string) page.Cell { return page.Text(shell.Visible(s)) }
	number := func(format string, v ...any) page.Cell { return page.Number(fmt.Sprintf(format, v...)) }
	t := &page.Table{Head: []page.Cell{page.Text("class"), page.Number("rows"), page.Number("share"), page.Number("mean probability"), page.Number("recall"), page.Number("precision")}}
	for _, c := range r.Classes {
		precision := page.Number("")
		if c.Precision != nil {
			precision = number("%.3f", *c.Precision)
		}
		t.Rows = append(t.Rows, []page.Cell{text(c.Class), page.Number(amount(c.N)), number("%.4f", c.Share), number("%.4f", c.Predicted), number("%.3f", c.Recall), precision})
	}
	if len(r.Classes) > mostConfused {
		return []*page.Table{t}
	}
	pairs := &page.Table{Head: []page.Cell{page.Text("observed, by likeliest class")}}
	for _, c := range r.Classes {
		pairs.Head = append(pairs.Head, page.Number(shell.Visible(c.Class)))
		row := []page.Cell{text(c.Class)}
		for _, d := range r.Classes {
			row = append(row, page.Number(amount(c.Taken[d.Class])))
		}
		pairs.Rows = append(pairs.Rows, row)
	}
	return []*page.Table{t, pairs}
}

// forTerminal draws a table.
func forTerminal(t *page.Table) string {
	line := func(cells []page.Cell) table.Row {
		out := make(table.Row, len(cells))
		for i, c := range cells {
			out[i] = c.Text
		}
		return out
	}
	w := newTable()
	w.AppendHeader(line(t.Head))
	for _, r := range t.Rows {
		w.AppendRow(line(r))
	}
	return w.Render() + "\n"
}

// judgedClasses adds how the data judge a model with classes.
func (c *reportCommand) judgedClasses(s *duck.Session, p *page.Page, sc *scoring, sum *summary) error {
	how, err := sc.judgeFolds(s, false)
	if err != nil {
		return err
	}
	r, err := measureClasses(s)
	if err != nil {
		return err
	}
	r.How = how
	better, loss := "Better than the shares of the classes alone.", "infinite: a row has a class to which the fit gives no probability"
	switch {
	case r.LogLoss == nil:
		better = "It rules out classes that occur."
	case *r.LogLoss >= *r.BaseLoss:
		better = "No better than the shares of the classes alone: do not use it as it is."
	}
	if r.LogLoss != nil {
		loss = digits(*r.LogLoss)
	}
	good := fmt.Sprintf("%s Log loss %s against %s. The likeliest class is right in %s of the rows; the most frequent one is in %s.", better, loss, digits(*r.BaseLoss), percent(*r.Accuracy), percent(*r.BaseAccuracy))
	p.Add(page.Section{ID: "verdict", Title: "In short", Doc: "coefficients.md", Points: []page.Point{{Question: "Is it good?", Answer: good}, {Question: "Can it be trusted?", Answer: explained[how] + checks(sum.Status)}}})
	for i, t := range r.classTables() {
		sec := page.Section{ID: "classes", Title: "Classes", Doc: "cli.md", Text: "Recall is the share of a class's rows for which it is the likeliest; precision, of the rows for which it is the likeliest, the share that is of the class." + r.weighing(), Table: t, Facts: r.rowFacts(sc.skipped)}
		if i == 1 {
			sec.ID, sec.Title, sec.Facts, sec.Text = "taken", "What is taken for what", nil, "Rows of the observed class by the class that is the likeliest for them."
		}
		p.Add(sec)
	}
	return nil
}

// classMeasures are the rows of the table that evaluate prints.
func (r *quality) classMeasures() string {
	var b strings.Builder
	for _, t := range r.classTables() {
		b.WriteString(forTerminal(t))
	}
	return b.String()
}

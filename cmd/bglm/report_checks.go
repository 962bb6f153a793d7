package main

import (
	"database/sql"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bglm/bglm/cmd/chart"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/fitstore"
	"github.com/bglm/bglm/cmd/internal/page"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/cmd/internal/shell"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/metric"
)

// traitsOf are the traits of a family and a link, the family's default if it is ""; zero for what
// is not a likelihood of one predictor, such as classes.
func traitsOf(family, link string) (t lik.Traits) {
	if l, err := lik.New(family, link, lik.Params{Dispersion: 1}); err == nil {
		t = l.Traits()
	}
	return t
}

// thresholds shows the results of deciding by the probability.
func (c *reportCommand) thresholds(s *duck.Session, p *page.Page) error {
	t := &page.Table{Head: []page.Cell{page.Number("threshold"), page.Number("rows above"), page.Number("share"), page.Number("precision"), page.Number("recall"), page.Number("lift"), page.Number("cost of 1,000 rows")}}
	err := s.Each(`SELECT t, above, found, n, pos FROM (SELECT t, coalesce(sum(w) FILTER (p >= t), 0) AS above, coalesce(sum(w * y) FILTER (p >= t), 0) AS found, sum(w) AS n, sum(w * y) AS pos
			FROM (FROM `+usable+`), (SELECT unnest([0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]) AS t) GROUP BY t)
		WHERE pos > 0 AND above > 0 AND above < n ORDER BY t`, func(scan func(...any) error) error {
		var at float64
		var d metric.Threshold
		if err := scan(&at, &d.Above, &d.Found, &d.Rows, &d.Positive); err != nil {
			return err
		}
		t.Rows = append(t.Rows, []page.Cell{page.Number(fmt.Sprintf("%.2f", at)), page.Number(amount(d.Above)), page.Number(percent(d.Above / d.Rows)), page.Number(percent(d.Precision())), page.Number(percent(d.Recall())), page.Number(fmt.Sprintf("%.2f", d.Lift())), page.Number(chart.Thousands(fmt.Sprintf("%.1f", 1000*d.Cost(c.CostFalse, c.CostMissed))))})
		return nil
	})
	if err != nil || len(t.Rows) == 0 {
		return err
	}
	p.Add(page.Section{ID: "thresholds", Title: "Deciding by a threshold", Doc: "cookbook/credit.md", Table: t,
		Text: fmt.Sprintf("Rows whose probability is at least the threshold are taken for 1. Precision is the share of those that are 1, recall the share of all 1 among them, lift how many times more than among all rows. The cost counts %v for a 0 above the threshold and %v for a 1 below it (--cost-false, --cost-missed); with calibrated probabilities it is least near %.2f.", c.CostFalse, c.CostMissed, c.CostFalse/(c.CostFalse+c.CostMissed))})
	return nil
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }
func count(n int64) string     { return chart.Thousands(strconv.FormatInt(n, 10)) }

// amount prints a sum of weights, whole ones like count.
func amount(w float64) string {
	if w == math.Trunc(w) && math.Abs(w) < 1e15 {
		return count(int64(w))
	}
	return chart.Thousands(strconv.FormatFloat(w, 'f', 1, 64))
}

func some(n int64, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return count(n) + " " + unit + "s"
}

// variances shows what was learnt in addition to the weights, with its uncertainty.
func (c *reportCommand) variances(s *duck.Session, p *page.Page, f *fitstore.Fits) error {
	if len(f.Group) > 0 || f.HasClass {
		return nil
	}
	var terms []string
	t := &page.Table{Head: []page.Cell{page.Text("learnt"), page.Number("mean"), page.Number("sd"), page.Number("lower"), page.Number("upper")}}
	err := s.Each(`SELECT t.term, t.mean, t.sd, t.lower, t.upper FROM (SELECT unnest(bglm_summary(fit)) AS t FROM `+f.Table+`) WHERE regexp_full_match(t.term, '(sd|cor|scale|shape)\(.*\)')`, func(scan func(...any) error) error {
		var term string
		var v [4]sql.NullFloat64
		if err := scan(&term, &v[0], &v[1], &v[2], &v[3]); err != nil {
			return err
		}
		row := []page.Cell{page.Text(shell.Visible(term))}
		for _, x := range v {
			text := ""
			if x.Valid {
				text = chart.Digits(x.Float64, 4)
			}
			row = append(row, page.Number(text))
		}
		t.Rows, terms = append(t.Rows, row), append(terms, term)
		return nil
	})
	if err != nil || len(t.Rows) == 0 {
		return err
	}
	text := "Learnt from the rows."
	for _, what := range [...]struct{ of, text string }{
		{"sd(residual)", " sd(residual) is how far responses lie from what the fit expects."},
		{"scale(", " scale(residual) is the same for a response with outliers, without them."},
		{"shape(", " The shape says how far counts, or positive responses, spread around what is expected: the larger, the less."},
	} {
		if slices.ContainsFunc(terms, func(term string) bool { return strings.HasPrefix(term, what.of) }) {
			text += what.text
		}
	}
	if slices.ContainsFunc(terms, func(term string) bool { return strings.HasPrefix(term, "sd(") && term != "sd(residual)" }) {
		text += " sd(column) is the standard deviation of the weights of a column of levels: near 0, the column says little, and its levels are drawn together."
	}
	if slices.ContainsFunc(terms, func(term string) bool { return strings.HasPrefix(term, "cor(") }) {
		text += " cor is the correlation of intercepts and slopes."
	}
	p.Add(page.Section{ID: "variances", Title: "How far levels and rows lie apart", Doc: "coefficients.md#shrinkage", Table: t,
		Text: text})
	return nil
}

// columnHealth summarises the rows of data in a column.
type columnHealth struct {
	name, kind string
	metric.Column
	mean, sd sql.NullFloat64
	counted  bool // its levels were counted
}

// doubtTexts are the doubts about a column in the table of the data.
var doubtTexts = map[metric.Warning]string{
	metric.MostlyMissing:  "often missing",
	metric.Constant:       "does not vary",
	metric.FarScalePrior:  "far from unit scale, and its prior is per unit: divide it by its sd, or standardize",
	metric.FarScale:       "far from unit scale: its weight is per unit, read the effect of one sd",
	metric.FarMean:        "far from 0 for its sd: subtract its mean, or the intercept tells of no row",
	metric.CountsRows:     "counts the rows: an identifier?",
	metric.LevelPerRow:    "nearly as many levels as rows: an identifier?",
	metric.MostLevelsRare: "most levels are rare",
}

// health shows the state of the rows of data.
func (c *reportCommand) health(s *duck.Session, p *page.Page, sc *scoring, sum *summary) error {
	if len(sc.fits.Group) > 0 || sc.fits.HasClass {
		return nil
	}
	all, err := sc.columns(s)
	if err != nil || len(all) == 0 {
		return err
	}
	t := &page.Table{Head: []page.Cell{page.Text("column"), page.Text("kind"), page.Number("rows"), page.Number("missing"), page.Number("mean"), page.Number("sd"), page.Number("levels"), page.Number(fmt.Sprintf("of under %d rows", metric.RareRows)), page.Text("mind")}}
	for _, x := range all {
		t.Rows = append(t.Rows, x.row())
	}
	text := fmt.Sprintf("The columns as the fit has seen them, in %s.", some(sum.N, "row"))
	if sum.Skipped > 0 {
		text += fmt.Sprintf(" %s skipped.", some(sum.Skipped, "row")+" "+map[bool]string{true: "was", false: "were"}[sum.Skipped == 1])
	}
	p.Add(page.Section{ID: "health", Title: "Data", Doc: "data.md", Text: text, Table: t.Filled()})
	return nil
}

// row is x as a row of the table of health.
func (x *columnHealth) row() []page.Cell {
	number := func(v sql.NullFloat64) page.Cell {
		if !v.Valid {
			return page.Number("")
		}
		return page.Number(chart.Digits(v.Float64, 4))
	}
	levels, rare := page.Number(""), page.Number("")
	if x.counted {
		levels, rare = page.Number(count(x.Levels)), page.Number(count(x.Rare))
	}
	var mind []string
	for _, d := range x.Warnings() {
		mind = append(mind, doubtTexts[d])
	}
	row := []page.Cell{page.Text(x.name), page.Text(x.kind), page.Number(count(x.Rows)), page.Number(count(x.Missing))}
	if !x.Number {
		return append(row, page.Number(""), page.Number(""), levels, rare, page.Text(strings.Join(mind, "; ")))
	}
	return append(row, number(x.mean), number(x.sd), levels, rare, page.Text(strings.Join(mind, "; ")))
}

// columns are those that the fit has seen, with what the rows show about them.
func (sc *scoring) columns(s *duck.Session) (all []*columnHealth, err error) {
	err = s.Each("SELECT c.name, split_part(c.kind, ' of ', 1), c.n, c.missing, c.center, c.scale FROM (SELECT unnest(fit.columns) AS c FROM fits)", func(scan func(...any) error) error {
		x := &columnHealth{}
		err := scan(&x.name, &x.kind, &x.Rows, &x.Missing, &x.mean, &x.sd)
		x.Number = x.kind == "number"
		all = append(all, x)
		return err
	})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	fields, err := sc.sampleColumns(s)
	if err != nil {
		return nil, err
	}
	plain := map[string]bool{}
	for _, f := range fields {
		plain[f.Name] = isPlain(f)
	}
	var numbers []*columnHealth
	for _, x := range all {
		x.PerUnit = !x.sd.Valid
		switch {
		case !plain[x.name] || x.kind == "features":
		case x.Number:
			numbers = append(numbers, x)
		default:
			if err := x.countLevels(s); err != nil {
				return nil, err
			}
		}
	}
	if err := sc.inspect(s, numbers); err != nil {
		return nil, err
	}
	for _, x := range all {
		x.Known, x.Mean, x.SD = x.sd.Valid, x.mean.Float64, x.sd.Float64
	}
	return all, nil
}

// healthRows and healthCells limit the rows, and their values, used for moments and levels.
const healthRows, healthCells = 1_000_000, 50_000_000

// isPlain reports whether a feature is one number or level.
func isPlain(c duck.Column) bool {
	return !strings.HasPrefix(c.Type, "STRUCT") && !strings.HasSuffix(c.Type, "]") && !strings.HasPrefix(c.Type, "MAP")
}

// sampleColumns creates the table seen, once: the plain features of the first rows by their names,
// and the weight bglm_w. Queries about single columns read it, since each query of a file detects
// the types of all its columns again. It returns all features, none if x is not a STRUCT.
func (sc *scoring) sampleColumns(s *duck.Session) ([]duck.Column, error) {
	if sc.sampled {
		return sc.fields, nil
	}
	fields, err := s.Describe("SELECT unnest(bglm_x) FROM " + sc.features() + " WHERE bglm_x IS NOT NULL")
	if err != nil {
		sc.sampled = true // not a STRUCT
		return nil, nil
	}
	var names []string
	for _, f := range fields {
		if isPlain(f) {
			names = append(names, quote.Name(f.Name))
		}
	}
	sc.seen = int64(max(min(healthRows, healthCells/max(len(names), 1)), 1))
	err = s.Long("looking at columns", "CREATE OR REPLACE TEMP TABLE seen AS "+sc.sample(names))
	if err == nil {
		sc.sampled, sc.fields = true, fields
	}
	return fields, err
}

// sample is the SQL of the features called names, and of bglm_w, in the first rows. Wrapping each
// row's features in a list of one keeps the planner from copying the whole expression of x into
// every single column, which takes minutes for thousands of them.
func (sc *scoring) sample(names []string) string {
	return fmt.Sprintf("SELECT %s FROM (SELECT unnest(bglm_x), bglm_w FROM (SELECT unnest([bglm_x]) AS bglm_x, bglm_w FROM %s LIMIT %d))", strings.Join(append(names, "bglm_w"), ", "), sc.features(), sc.seen)
}

// countLevels counts the levels of a column.
func (x *columnHealth) countLevels(s *duck.Session) error {
	x.counted = true
	name := quote.Name(x.name)
	return s.Row(fmt.Sprintf("SELECT count(*), count(*) FILTER (n < %d), coalesce(sum(n), 0)::BIGINT FROM (SELECT count(*) AS n FROM seen WHERE %s IS NOT NULL GROUP BY %s)", metric.RareRows, name, name), &x.Levels, &x.Rare, &x.Counted)
}

// inspect finds the moments of numbers where the fit has none, and numbers that count the rows.
func (sc *scoring) inspect(s *duck.Session, numbers []*columnHealth) error {
	const together = 100 // columns in a statement
	var counting []*columnHealth
	whole := make([]bool, len(numbers))
	for part := range slices.Chunk(numbers, together) {
		var ask []string
		var into []any
		for i, x := range part {
			v := quote.Name(x.name) + "::DOUBLE"
			if x.PerUnit {
				ask, into = append(ask, "avg("+v+")", "stddev_pop("+v+")"), append(into, &x.mean, &x.sd)
			}
			ask, into = append(ask, fmt.Sprintf("coalesce(bool_and(%[1]s = trunc(%[1]s)) AND count(%[1]s) = count(*), false)", v)), append(into, &whole[i])
		}
		if err := s.Row("SELECT "+strings.Join(ask, ", ")+" FROM seen", into...); err != nil {
			return err
		}
		for i, x := range part {
			if whole[i] {
				counting = append(counting, x)
			}
		}
	}
	return sc.countRows(s, counting, together)
}

// countRows finds the columns of whole numbers that number all of the rows.
func (sc *scoring) countRows(s *duck.Session, of []*columnHealth, together int) error {
	var rows int64
	if err := s.Row("SELECT count(*) FROM seen", &rows); err != nil {
		return err
	}
	ask := func(of []*columnHealth, from, form string) error {
		for part := range slices.Chunk(of, together) {
			var all []string
			var into []any
			for _, x := range part {
				v := "(" + quote.Name(x.name) + ")::DOUBLE"
				all, into = append(all, "coalesce("+strings.ReplaceAll(form, "_", v)+", false)"), append(into, &x.Counting)
			}
			if err := s.Row("SELECT "+strings.Join(all, ", ")+" FROM "+from, into...); err != nil {
				return err
			}
		}
		return nil
	}
	const once, gapless = "count(DISTINCT _) = count(*)", "count(_) > 20 AND max(_) - min(_) + 1 = count(*)"
	if rows < sc.seen { // these are all rows
		return ask(of, "seen", gapless+" AND "+once)
	}
	if err := ask(of, "seen", once); err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(of), func(x *columnHealth) bool { return !x.Counting })
	return ask(left, "(SELECT unnest(bglm_x) FROM "+sc.features()+")", gapless+" AND bool_and(_ = trunc(_)) AND "+once)
}

// reasons are the features that move the predictor of each of the rows, given by file and row,
// furthest from its mean, as an explanation for the reader.
func (sc *scoring) reasons(s *duck.Session, keys string) (map[string]string, error) {
	out := map[string]string{}
	if len(sc.fits.Group) > 0 || sc.fits.HasClass {
		return out, nil
	}
	err := s.Each(`SELECT bglm_file || ' ' || bglm_row, string_agg(feature || ' ' || printf('%+.2f', adds), ', ' ORDER BY abs(adds) DESC, feature) FROM (
			SELECT *, row_number() OVER (PARTITION BY bglm_file, bglm_row ORDER BY abs(adds) DESC, feature) AS k FROM (
				SELECT r.bglm_file, r.bglm_row, r.f.feature AS feature, b.mean * (r.f.value - CASE WHEN starts_with(c.kind, 'number') THEN coalesce(c.center, 0) ELSE 0 END) AS adds
				FROM (SELECT bglm_file, bglm_row, unnest(bglm_features(bglm_x)) AS f FROM `+sc.features("bglm_file", "bglm_row")+` SEMI JOIN (`+keys+`) USING (bglm_file, bglm_row)) r
				JOIN (SELECT unnest(fit.beliefs, recursive := true) FROM fits) b ON b.feature = r.f.feature
				LEFT JOIN (SELECT unnest(fit.columns, recursive := true) FROM fits) c ON c.name = r.f.feature))
		WHERE k <= 3 GROUP BY ALL`, func(scan func(...any) error) error {
		var key string
		var why sql.NullString
		err := scan(&key, &why)
		out[key] = why.String
		return err
	})
	return out, err
}

// today is the date of a report; SOURCE_DATE_EPOCH overrides it, for reproducible pages.
func today() string {
	now := time.Now()
	if n, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		now = time.Unix(n, 0)
	}
	return now.UTC().Format(time.DateOnly)
}

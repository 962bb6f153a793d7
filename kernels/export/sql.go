package export

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/special"
)

// Options are the options of SQL.
type Options struct {
	Table      string       // table with the rows; "" is rows
	Keep       []string     // its columns to keep in the result; none: those of the fit
	Prediction predict.Kind // of the expected response
	Level      float64      // of the interval; 0 is 0.95
	Form       string       // "query" with expressions, "join" over tables of values; "" by size
}

// Forms are the values of Options.Form.
var Forms = []string{"query", "join"}

// narrow is up to how many numbers of a fit are written as expressions.
const narrow = 3000

// SQL returns a query in a database's dialect (Dialects) that scores the rows of a table without
// bglm. For each row it has the columns kept, the Gaussian of the linear predictor, eta_mean and
// eta_variance, the expected response, prediction, and the central interval of the expected
// response, lower and upper.
//
// The table has the columns of the fit by name: numbers, and levels as text, truth values or dates;
// an interaction of levels or of numbers is a column of its own, 'x:y' or the product. Lists of
// levels cannot be scored: in DuckDB, PostgreSQL and BigQuery the query fails on them. NULL and
// unseen levels are treated as by bglm_predict, to whose results these are equal up to rounding:
// eta_*, 'plugin', 'mackay', lower and upper for every link, and 'exact' for the links identity,
// log and probit. 'exact' for logit and cloglog is a sum over 65 nodes, accurate to 1e-10 (cloglog
// 1e-9) up to a standard deviation of the predictor of 2, to 1e-8 (2e-5) up to 4, to 1e-5 (1e-3) up
// to 7 (TestNodes). The normal distribution is Cody's rational approximation, accurate to 1e-14.
//
// A fit with many weights, or with a large covariance, is written as tables of values that are
// joined with the rows, which are numbered for this.
//
// A fit with classes has instead a column prediction_CLASS for each: the probabilities at the mean
// weights ('plugin') or by MacKay's moderation, which ignores covariances between classes
// ('mackay'), equal to those of bglm_predict up to rounding. How far they are from integrating the
// weights out depends on the posterior (TestClassSQLScoresElsewhere logs it).
//
// Errors: an unknown dialect; a fit with hashed features, or with classes and 'exact', with features
// that belong to no column, or with an interaction of levels and numbers named after its columns.
//
// Source: [cody1969] for the normal distribution.
func SQL(f *kernels.Fit, name string, o Options) (string, error) {
	if f == nil {
		return "", kernels.ErrNoFit
	}
	d, err := dialectOf(name)
	if err != nil {
		return "", err
	}
	if o.Form != "" && !slices.Contains(Forms, o.Form) {
		return "", argument.Word("form", o.Form, Forms)
	}
	o.Level = cmp.Or(o.Level, 0.95)
	if !(o.Level > 0 && o.Level < 1) {
		return "", fmt.Errorf("level = %v; allowed: a number between 0 and 1", o.Level)
	}
	var m *model
	var classes []*model
	var to link
	if len(f.Classes) > 0 {
		if o.Prediction == predict.Exact {
			return "", fmt.Errorf("prediction = 'exact' of a FIT of classes, an integral over all of them that SQL has no sum for; allowed: 'plugin' or 'mackay'")
		}
		if classes, err = classModels(f); err == nil {
			m = classes[0]
		}
	} else if m, err = newModel(f); err == nil {
		_, to, err = likelihoodOf(f)
	}
	if err != nil {
		return "", err
	}
	for k := range m.columns {
		if c := &m.columns[k]; m.scaled(c) {
			return "", fmt.Errorf("the FIT has the interaction %q of levels and numbers, which is no one column of a table; allowed: interactions of levels alone or of numbers alone (PMML has both)", c.name)
		}
	}
	for _, c := range append(slices.Clone(o.Keep), o.Table) {
		if err := checkText("name", c); err != nil {
			return "", err
		}
	}
	o.Table = cmp.Or(o.Table, "rows")
	if len(o.Keep) == 0 {
		for _, c := range m.columns {
			o.Keep = append(o.Keep, c.name)
		}
	}
	w := &writer{d, m, o, to}
	if err := w.checkNames(f.Classes); err != nil {
		return "", err
	}
	if classes != nil {
		of := &classWriter{w, classes, f.Classes}
		numbers := 0
		for _, m := range classes {
			if n := m.numbers(); o.Prediction == predict.Plugin {
				numbers += n / (m.rank + 2)
			} else {
				numbers += n
			}
		}
		if (o.Form == "join" || o.Form == "" && numbers > narrow) && len(m.columns) > 0 {
			return of.join(), nil
		}
		return of.query(), nil
	}
	if (o.Form == "join" || o.Form == "" && m.numbers() > narrow) && len(m.columns) > 0 {
		return w.join(), nil
	}
	return w.query(), nil
}

// writer writes the query of a model.
type writer struct {
	*dialect
	m    *model
	o    Options
	link link // unset for a fit with classes
}

// keep lists the kept columns, each with a prefix.
func (w *writer) keep(prefix string) string {
	var out []string
	for _, c := range w.o.Keep {
		out = append(out, prefix+w.ident(c))
	}
	if len(out) == 0 {
		return ""
	}
	return strings.Join(out, ", ") + ", "
}

// table is the name of the table, whose parts are separated by dots outside quotes.
func (w *writer) table() string {
	parts := strings.Split(w.o.Table, ".")
	for k := range parts {
		parts[k] = w.ident(parts[k])
	}
	return strings.Join(parts, ".")
}

// cell names the value of column k of the fit.
func cell(k int) string { return fmt.Sprintf("bglm_x%d", k+1) }

// cells reads the columns of the fit as numbers and text.
func (w *writer) cells() string {
	var out []string
	for k, c := range w.m.columns {
		x := "bglm_t." + w.ident(c.name)
		switch {
		case c.number:
			x = w.cast(x, w.real)
		case c.truth && w.name == "sqlite": // it stores 1 and 0
			t := w.cast(x, w.text)
			x = "CASE " + t + " WHEN '1' THEN 'true' WHEN '0' THEN 'false' ELSE " + t + " END"
		case c.truth && w.name == "postgres", c.truth && w.name == "snowflake":
			x = "lower(" + w.levels(x) + ")"
		default:
			x = w.levels(x)
		}
		out = append(out, x+" AS "+cell(k))
	}
	return strings.Join(out, ", ")
}

// sum is the sum over the columns of what of returns for their states, times the values, or their
// squares if square is set. It is "" if all terms are 0.
func (w *writer) sum(square bool, of func(*state) float64) string {
	var terms []string
	if s := w.m.intercept; s != nil && of(s) != 0 {
		terms = append(terms, w.number(of(s)))
	}
	for k := range w.m.columns {
		if t := w.term(k, square, of); t != "" {
			terms = append(terms, t)
		}
	}
	for k := range w.m.ties {
		if v := of(&w.m.ties[k].state); v != 0 {
			terms = append(terms, w.tied(&w.m.ties[k], w.number(v)))
		}
	}
	return strings.Join(terms, " + ")
}

// tied is v where a row has the states that t refers to, else 0.
func (w *writer) tied(t *tie, v string) string {
	a, b := cell(t.a), cell(t.b)
	when := a + " = " + b
	for _, k := range [2]int{t.a, t.b} {
		var levels []string
		for j := range w.m.columns[k].levels {
			levels = append(levels, w.string(w.m.columns[k].levels[j].level))
		}
		if levels != nil {
			when += " AND " + cell(k) + " NOT IN (" + strings.Join(levels, ", ") + ")"
		}
	}
	if t.null {
		when += " OR " + a + " IS NULL AND " + b + " IS NULL"
	}
	return "CASE WHEN " + when + " THEN " + v + " ELSE " + w.number(0) + " END"
}

// term is the contribution of column k to a sum.
func (w *writer) term(k int, square bool, of func(*state) float64) string {
	c, x := &w.m.columns[k], cell(k)
	if c.number {
		unit, stand := of(&c.unit), c.stand
		if c.parts != nil {
			return w.productTerm(c, x, unit, square, of(&c.null))
		}
		value := x + " * " + w.number(unit)
		if square {
			stand *= stand
			value = x + " * " + value
		}
		null := stand*unit + of(&c.null)
		switch {
		case unit == 0 && null == 0:
			return ""
		case null == 0:
			return "coalesce(" + value + ", " + w.number(0) + ")"
		}
		return "coalesce(" + value + ", " + w.number(null) + ")"
	}
	var whens []string
	for j := range c.levels {
		s := &c.levels[j]
		if v := of(s); v != of(&c.other) {
			whens = append(whens, " WHEN "+w.string(s.level)+" THEN "+w.number(v))
		}
	}
	null, other := of(&c.null), of(&c.other)
	if len(whens) == 0 && null == other {
		if other == 0 {
			return ""
		}
		return w.number(other)
	}
	all := w.number(other)
	if len(whens) > 0 {
		all = "CASE " + x + strings.Join(whens, "") + " ELSE " + all + " END"
	}
	if null == other {
		return all
	}
	return "CASE WHEN " + x + " IS NULL THEN " + w.number(null) + " ELSE " + all + " END"
}

// productTerm is term for a product of numbers with parts.
func (w *writer) productTerm(c *column, x string, unit float64, square bool, null float64) string {
	value := w.stands(c, x)
	if square {
		value += " * " + value
	}
	value += " * " + w.number(unit)
	if null != 0 {
		value += " + CASE WHEN " + x + " IS NULL THEN " + w.number(null) + " ELSE " + w.number(0) + " END"
	}
	return value
}

// stands is the number x of a column, with its replacement if it is missing.
func (w *writer) stands(c *column, x string) string {
	stand := w.number(c.stand)
	for k, q := range c.parts {
		at := slices.IndexFunc(w.m.columns, func(o column) bool { return o.name == q.name })
		factor := "coalesce(" + cell(at) + ", " + w.number(q.stand) + ")"
		if stand += " * " + factor; k == 0 {
			stand = factor
		}
	}
	return "coalesce(" + x + ", " + stand + ")"
}

// moments are the mean and variance of the predictor as expressions.
func (w *writer) moments(spread bool) (mean, variance string) {
	mean = cmp.Or(w.sum(false, func(s *state) float64 { return s.mean }), w.number(0))
	if !spread {
		return mean, ""
	}
	own := cmp.Or(w.sum(true, func(s *state) float64 { return s.variance }), w.number(0))
	var factors []string
	for k := range w.m.rank {
		if u := w.sum(false, func(s *state) float64 { return s.at(k) }); u != "" {
			factors = append(factors, "power("+u+", 2)")
		}
	}
	variance = own
	if len(factors) > 0 {
		all := strings.Join(factors, "\n      + ")
		if w.m.sign < 0 {
			variance = w.most + "(" + own + " - (" + all + "), " + w.number(0) + ")"
		} else {
			variance = own + "\n      + " + all
		}
	}
	return mean, variance
}

// query writes the mean and variance as expressions.
func (w *writer) query() string {
	mean, variance := w.moments(true)
	inner := fmt.Sprintf("SELECT %s%s FROM %s AS bglm_t", w.keep("bglm_t."), w.cells(), w.table())
	if len(w.m.columns) == 0 {
		inner = fmt.Sprintf("SELECT %s1 AS bglm_x0 FROM %s AS bglm_t", w.keep("bglm_t."), w.table())
	}
	return w.scored(fmt.Sprintf("SELECT %s\n      %s AS bglm_m,\n      %s AS bglm_v\n    FROM (%s) AS bglm_0", w.keep(""), mean, variance, inner))
}

// scored adds the responses to a query of bglm_m and bglm_v.
func (w *writer) scored(moments string) string {
	z := special.PhiInv(0.5 + 0.5*w.o.Level)
	at := "bglm_m"
	if w.link.at != nil && w.o.Prediction != predict.Plugin {
		at = w.link.at(w, "bglm_m", "bglm_v")
	}
	step := w.number(z) + " * sqrt(bglm_v)"
	return fmt.Sprintf("SELECT %sbglm_m AS eta_mean, bglm_v AS eta_variance,\n  %s AS prediction,\n  %s AS %s,\n  %s AS %s\nFROM (SELECT %sbglm_m, bglm_v, sqrt(bglm_v) AS bglm_s, %s AS bglm_a, bglm_m - %s AS bglm_l, bglm_m + %s AS bglm_u\n  FROM (\n    %s\n  ) AS bglm_1\n) AS bglm_2",
		w.keep(""), w.prediction(), w.inverse("bglm_l"), w.ident("lower"), w.inverse("bglm_u"), w.ident("upper"),
		w.keep(""), at, step, step, moments)
}

// inverse is the inverse link of a column.
func (w *writer) inverse(x string) string { return w.link.inverse(w, x) }

// prediction is the expected response of bglm_m, bglm_v, bglm_s and bglm_a.
func (w *writer) prediction() string {
	switch l := &w.link; {
	case w.o.Prediction == predict.Plugin:
		return w.inverse("bglm_m")
	case w.o.Prediction == predict.MacKay && l.mackay != nil:
		return l.mackay(w)
	case l.mean != nil:
		return l.mean(w)
	}
	var terms []string
	zs, ws := Nodes()
	for k, z := range zs {
		terms = append(terms, w.number(ws[k])+" * ("+w.inverse("bglm_m + "+w.number(z)+" * bglm_s")+")")
	}
	return strings.Join(terms, "\n    + ")
}

// Nodes returns the nodes and weights of the sum that replaces an integral over a standard normal:
// the trapezoid rule from -8 to 8.
func Nodes() (z, weight []float64) {
	total := 0.0
	for k := -32; k <= 32; k++ {
		x := float64(k) / 4
		z, weight = append(z, x), append(weight, math.Exp(-0.5*x*x))
		total += weight[len(weight)-1]
	}
	for k := range weight {
		weight[k] /= total
	}
	return z, weight
}

// Package job defines what a batch command fits to which rows: the data as DuckDB or the Arrow
// engine reads them, the model from a formula or SQL expressions, its options, and the statement
// that fits it. Errors name the file and the row that they are about.
package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/formula"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
)

// Model describes what is fitted to the rows, with the fields of bglm fit's flags.
type Model struct {
	Formula string
	Y       string
	X       string
	Group   []string
	Order   string
	Method  string
	Option  []string
	Dot     []string // what . stood for when the model was fitted; nil: what it stands for now
}

// Job is a model with everything that its SQL needs.
type Job struct {
	Method  string
	Y, X    string        // SQL
	Group   []duck.Column // of the fits
	GroupBy []string      // SQL, one for each of Group
	Order   string
	Options []Setting
	Meta    []string         // pairs, stored with the beliefs
	Resumes bool             // the fits that it continues are its own
	Formula *formula.Formula // with the columns it names, nil without one
	Kept    []string         // after Fit: groups that have the fit of its prior still, for want of one of their rows

	s *duck.Session
}

// Setting is an option and the SQL of its value.
type Setting struct {
	Key, SQL string
	Term     string // the term of the formula that implies it; "" if the user has set it
}

// Option is the SQL of an option; ok is false if the job does not set it.
func (j *Job) Option(key string) (sql string, ok bool) {
	for _, o := range j.Options {
		if o.Key == key {
			return o.SQL, true
		}
	}
	return "", false
}

func (j *Job) set(key, sql string) { j.Options = append(j.Options, Setting{Key: key, SQL: sql}) }

var errCorrelated = cli.Usage(errors.New("formula: a bar between intercepts and slopes and --option correlated say the same; give one of them"))

// setBy adds a setting implied by a term of the formula.
func (j *Job) setBy(key, sql, term string) { j.Options = append(j.Options, Setting{key, sql, term}) }

// termError turns an error about an option into one about the term that implies it; nil if none
// does.
func (j *Job) termError(key, what string) error { return termError(j.Options, key, what) }

func termError(options []Setting, key, what string) error {
	for _, o := range options {
		switch {
		case o.Key != key || o.Term == "":
		case key == "correlated" && !strings.HasPrefix(what, ": found "): // else it is supported, but not for these columns
			return cli.Usage(fmt.Errorf("formula: %s is not used here: its intercepts and slopes are correlated; allowed: (x || g), which takes them for independent, or another method, such as laplace with its rows kept", o.Term))
		case key == "prior_variance":
			return cli.Usage(fmt.Errorf("formula: %s learns its prior variance%s", o.Term, what))
		default:
			return cli.Usage(fmt.Errorf("formula: %s%s", o.Term, what))
		}
	}
	return nil
}

// Check reports contradictory flags.
func (m *Model) Check() error {
	switch {
	case m.Formula == "" && m.Y == "" && m.X == "":
		return cli.Usage(errors.New("no model: give --formula 'y ~ a + b', or --y and --x"))
	case m.Formula != "" && (m.Y != "" || m.X != ""):
		return cli.Usage(errors.New("--formula and --y, --x are two ways to say the same; give one of them"))
	case m.Formula == "" && (m.Y == "" || m.X == ""):
		return cli.Usage(errors.New("--y and --x belong together"))
	}
	return nil
}

// New builds the SQL of the model over the columns of src. withY is false for predictions.
func New(src *Source, m Model, withY bool) (*Job, error) {
	s := src.s
	if err := m.Check(); err != nil {
		return nil, err
	}
	j := &Job{s: s, Method: strings.ToLower(m.Method), Y: m.Y, X: formula.FullStruct(m.X), Order: m.Order}
	if j.Method == "" {
		j.Method = engine.Auto
	}
	opts, err := ReadOptions(s, m.Option)
	if err != nil {
		return nil, err
	}
	cols, err := s.Describe("FROM " + src.Rows())
	if err != nil {
		return nil, src.blameWhere(err)
	}
	if err := src.Misread(duck.Names(cols)); err != nil {
		return nil, err
	}
	src.renamed(duck.Names(cols))
	keep := func(key, value string) {
		if value != "" {
			j.Meta = append(j.Meta, key, value)
		}
	}
	keep("formula", m.Formula)
	keep("y", m.Y)
	keep("x", m.X)
	keep("order", m.Order)
	if j.Order, err = j.quoted(cols, m.Order); err != nil {
		return nil, err
	}
	for _, o := range opts {
		sql := OptionSQL(o[0], o[1])
		if slices.Contains(RowKeys, o[0]) {
			if sql, err = j.quoted(cols, sql); err != nil {
				return nil, err
			}
		}
		j.set(o[0], sql)
		keep("option."+o[0], o[1])
	}
	if m.Formula != "" {
		if err := j.formula(src, m, cols, withY); err != nil {
			return nil, src.Blame(err)
		}
	}
	x, err := j.check(src, m, withY)
	if err != nil {
		return nil, err
	}
	if withY {
		if err := j.lists(src, x); err != nil {
			return nil, src.Blame(err)
		}
		if j.Formula != nil {
			src.mixed(j.Formula.Parts(), cols)
		}
	}
	return j, j.groups(src, m.Group, cols)
}

// quoted is a list of SQL expressions in which names of columns that are reserved words of SQL, such
// as group, have quotation marks.
func (j *Job) quoted(cols []duck.Column, sql string) (string, error) {
	parts, err := formula.SplitArgs(sql)
	if err != nil {
		return sql, nil // its use reports the error
	}
	found := false
	for k, p := range parts {
		name, direction, _ := strings.Cut(p, " ") // of an order
		if d := strings.ToLower(strings.TrimSpace(direction)); d != "" && d != "asc" && d != "desc" {
			continue
		}
		i := slices.IndexFunc(cols, func(c duck.Column) bool { return strings.EqualFold(c.Name, name) })
		if i < 0 {
			continue
		}
		var reserved bool
		if err := j.s.Row("SELECT count(*) > 0 FROM duckdb_keywords() WHERE keyword_category = 'reserved' AND keyword_name NOT IN ('true', 'false', 'null') AND keyword_name = lower("+quote.Text(name)+")", &reserved); err != nil {
			return "", err
		}
		if reserved {
			parts[k], found = strings.TrimSpace(quote.Name(cols[i].Name)+" "+direction), true
		}
	}
	if !found {
		return sql, nil
	}
	return strings.Join(parts, ", "), nil
}

func (j *Job) formula(src *Source, m Model, cols []duck.Column, withY bool) error {
	f, err := formula.Parse(m.Formula)
	if err != nil {
		return cli.Usage(err)
	}
	// Columns that options read by row, or that group the rows, are no features of a dot.
	used := strings.Join(m.Group, " ")
	for _, o := range j.Options {
		if option.ByRow(o.Key) {
			used += " " + o.SQL
		}
	}
	if err := f.Bind(duck.Names(cols), used, m.Dot...); err != nil {
		return err
	}
	if f.Dot {
		dot, err := json.Marshal(f.Others)
		if err != nil {
			return err
		}
		j.Meta = append(j.Meta, "dot", string(dot))
	}
	if j.X, err = j.features(src, f); err != nil {
		return err
	}
	j.Formula = f
	for _, t := range f.Terms {
		for _, p := range t {
			src.parts = append(src.parts, part{"formula: " + p.Name, p.SQL})
		}
	}
	for _, e := range f.Offset {
		src.parts = append(src.parts, part{"formula: offset(" + e + ")", e})
	}
	if _, ok := j.Option("prior_variance"); f.Random && !ok {
		j.setBy("prior_variance", "'auto'", strings.Join(f.Bars, ", "))
	}
	for k := range j.Options {
		if o := &j.Options[k]; o.Key == "prior_variance" {
			if by := learnBars(j.s, f, o.SQL); by != strings.TrimSpace(o.SQL) {
				o.SQL, o.Term = by, strings.Join(f.Bars, ", ")
			}
		}
	}
	if sets := f.CorrelatedSQL(); sets != "" {
		if _, ok := j.Option("correlated"); ok {
			return errCorrelated
		}
		j.setBy("correlated", sets, strings.Join(f.Paired, ", "))
	}
	j.Y = f.Y
	if withY && slices.ContainsFunc(cols, func(c duck.Column) bool { return strings.EqualFold(c.Name, f.Y) }) {
		j.Y = quote.Name(f.Y)
	}
	if f.Trials != "" {
		if _, ok := j.Option("trials"); ok {
			return cli.Usage(errors.New("formula: cbind( ) and --option trials say the same; give one of them"))
		}
		j.setBy("trials", f.Trials, f.Trials)
	}
	if len(f.Offset) > 0 {
		sum := "(" + strings.Join(f.Offset, ") + (") + ")"
		for i := range j.Options {
			if j.Options[i].Key == "offset" {
				j.Options[i].SQL, sum = "("+j.Options[i].SQL+") + "+sum, ""
			}
		}
		if sum != "" {
			j.setBy("offset", sum, "offset"+sum)
		}
	}
	if !f.Intercept {
		if v, ok := j.Option("intercept"); ok && v != "false" {
			return cli.Usage(errors.New("the formula has no intercept, but --option intercept is " + v))
		} else if !ok {
			j.setBy("intercept", "false", "- 1")
		}
	}
	return nil
}

// learnBars is the SQL of prior variances by column in which those of terms in bars are learnt
// unless given; other SQL is unchanged.
func learnBars(s *duck.Session, f *formula.Formula, given string) string {
	by := strings.TrimSpace(given)
	if !strings.HasPrefix(by, "{") || !strings.HasSuffix(by, "}") {
		return given
	}
	cols, err := s.Describe("SELECT unnest(" + by + ")")
	if err != nil {
		return given // the option's own error says what is wrong
	}
	for _, name := range f.Learnt {
		named := func(c duck.Column) bool { return strings.EqualFold(c.Name, name) }
		twin := func(t formula.Term) bool {
			return strings.EqualFold(t.Name(), name) && !slices.Contains(f.Learnt, t.Name())
		}
		if !slices.ContainsFunc(cols, named) && !slices.ContainsFunc(f.Terms, twin) {
			by = strings.TrimSuffix(by, "}") + ", " + quote.Text(name) + ": 'auto'}"
		}
	}
	return by
}

// features is the SQL of the features of f over the columns of src.
func (j *Job) features(src *Source, f *formula.Formula) (string, error) {
	types := typesOf(f, src.Rows(), j.s.Describe)
	kind := func(p formula.Part) (formula.Kind, error) {
		t, err := types(p.SQL)
		if err != nil {
			return 0, err
		}
		return formula.KindOf(t)
	}
	return f.Features(kind, func(p formula.Part) ([]string, error) {
		d, err := j.s.Describe("SELECT unnest(" + p.SQL + ") FROM " + src.Rows())
		return duck.Names(d), err
	})
}

// Kind returns the kind of a part of the formula over the rows of src.
func (j *Job) Kind(src *Source, p formula.Part) (formula.Kind, error) {
	d, err := j.s.Describe("SELECT (" + p.SQL + ") AS bglm_v FROM " + src.Rows())
	if err != nil {
		return 0, err
	}
	return formula.KindOf(d[0].Type)
}

// XWith is X with the SQL of some parts of the formula, by their keys, replaced by that of
// expressions of the same kind.
func (j *Job) XWith(src *Source, as map[formula.Part]string) (string, error) {
	if len(as) == 0 {
		return j.X, nil
	}
	types := typesOf(j.Formula, src.Rows(), j.s.Describe)
	f, was := j.Formula.With(as), map[string]string{}
	for from, to := range as {
		was[to] = from.SQL
	}
	return f.Features(func(p formula.Part) (formula.Kind, error) {
		sql := p.SQL
		if from, ok := was[sql]; ok {
			sql = from
		}
		t, err := types(sql)
		if err != nil {
			return 0, err
		}
		return formula.KindOf(t)
	}, func(p formula.Part) ([]string, error) {
		d, err := j.s.Describe("SELECT unnest(" + p.SQL + ") FROM " + src.Rows())
		return duck.Names(d), err
	})
}

// typesOf finds the SQL types of the parts of f over rows. All are queried at once, since each query
// may read the beginning of a file again; if one fails its halves are queried, to find the error.
func typesOf(f *formula.Formula, rows string, describe func(string) ([]duck.Column, error)) func(sql string) (string, error) {
	known := map[string]string{}
	var ask func(sql []string) error
	ask = func(sql []string) error {
		d, err := describe("SELECT " + strings.Join(sql, " AS bglm_v, ") + " AS bglm_v FROM " + rows)
		switch {
		case len(sql) == 1 && err != nil:
			return err
		case len(sql) == 1 || err == nil && len(d) == len(sql):
			for i, part := range sql {
				known[part] = d[i].Type
			}
			return nil
		}
		half := len(sql) / 2
		if err := ask(sql[:half]); err != nil {
			return err
		}
		return ask(sql[half:])
	}
	var all []string
	for _, t := range f.Terms {
		for _, p := range t {
			if !slices.Contains(all, p.SQL) {
				all = append(all, p.SQL)
			}
		}
	}
	if len(all) > 0 {
		_ = ask(all) // the error of a part that fails is returned later
	}
	return func(sql string) (string, error) {
		if t, ok := known[sql]; ok {
			return t, nil
		}
		err := ask([]string{sql})
		return known[sql], err
	}
}

// ListsKey is the metadata key for the names of columns of x that are lists of levels.
const ListsKey = "lists"

// check finds the argument with wrong SQL over the rows, and the type of x.
func (j *Job) check(src *Source, m Model, withY bool) (x string, err error) {
	args := []part{{"--x " + m.X, j.X}}
	if m.Formula != "" {
		args[0].flag = "formula: the terms"
	}
	if withY {
		response := "--y " + m.Y
		if m.Formula != "" {
			response = "formula: the response " + j.Y
		}
		args = append(args, part{response, j.Y})
		for _, o := range j.Options {
			flag := "--option " + o.Key + "=" + o.SQL
			if o.Term != "" {
				flag = "formula: " + o.Term
			}
			if slices.Contains(RowKeys, o.Key) && (o.Key != "weight" || src.Fits == "") { // a fit's own weight is reported where it scores
				args = append(args, part{flag, o.SQL})
			}
		}
	}
	src.parts = append(src.parts, args...)
	from, order := " FROM "+src.Rows(), ""
	if withY && j.Order != "" {
		order = " ORDER BY " + j.Order
	}
	var all []string
	for i, a := range args {
		all = append(all, fmt.Sprintf("(%s) AS bglm_%d", a.sql, i))
	}
	d, err := j.s.Describe("SELECT " + strings.Join(all, ", ") + from + order)
	if err == nil {
		return d[0].Type, nil
	}
	for _, a := range args {
		if _, e := j.s.Describe("SELECT (" + a.sql + ") AS bglm_v" + from); e != nil {
			return "", fmt.Errorf("%s: %w", a.flag, src.Blame(e))
		}
	}
	if _, e := j.s.Describe("SELECT 1" + from + order); e != nil {
		err = fmt.Errorf("--order %s: %w", j.Order, src.Blame(e))
	}
	return "", src.Blame(err)
}

// blameWhere is Blame for an error about all rows, which may be due to the condition.
func (src *Source) blameWhere(err error) error {
	if src.where != "" {
		if _, e := src.s.Describe("FROM " + src.from); e == nil {
			return fmt.Errorf("--where %s: %w", src.where, src.Blame(err))
		}
	}
	return src.Blame(err)
}

// lists stores the names of such columns, x being of that type.
func (j *Job) lists(src *Source, x string) error {
	if !strings.HasPrefix(x, "STRUCT(") || !strings.Contains(x, "VARCHAR[") {
		return nil
	}
	fields, err := j.s.Describe("SELECT unnest(" + j.X + ") FROM " + src.Rows())
	if err != nil {
		return err
	}
	var names []string
	for _, c := range fields {
		if k, err := formula.KindOf(c.Type); err == nil && k == formula.Levels {
			names = append(names, quote.Name(c.Name))
		}
	}
	if len(names) > 0 {
		j.Meta = append(j.Meta, ListsKey, strings.Join(names, ", "))
	}
	return nil
}

// Reserved are the columns of a belief table.
var Reserved = []string{"class", "feature", "mean", "variance", "covariance", "fit"}

func (j *Job) groups(src *Source, groups []string, cols []duck.Column) error {
	for _, g := range groups {
		g, err := j.quoted(cols, g)
		if err != nil {
			return err
		}
		parts, err := formula.SplitArgs(g)
		if err != nil {
			return cli.Usage(fmt.Errorf("--group %s: %w", g, err))
		}
		for _, p := range parts {
			d, err := j.s.Describe("SELECT " + p + " FROM " + src.Rows())
			if err != nil {
				return fmt.Errorf("--group %s: %w", p, src.Blame(err))
			}
			if len(d) != 1 || slices.Contains(Reserved, strings.ToLower(d[0].Name)) || slices.ContainsFunc(j.Group, func(c duck.Column) bool { return strings.EqualFold(c.Name, d[0].Name) }) {
				return cli.Usage(fmt.Errorf("--group %s: allowed: one column each, none of them called %s or as another", p, strings.Join(Reserved, ", ")))
			}
			j.Group, j.GroupBy = append(j.Group, d[0]), append(j.GroupBy, p)
			src.parts = append(src.parts, part{"--group " + p, formula.Bare(p)})
			j.Meta = append(j.Meta, "group."+d[0].Name, p)
		}
	}
	return nil
}

// Inner is the rows as the fit reads them: groups, y, x and the columns by row under names that no
// column has, in order.
func (j *Job) Inner(from string, extra ...string) string {
	cols := slices.Clone(j.GroupBy)
	cols = append(cols, "("+j.Y+") AS bglm_y", "("+j.X+") AS bglm_x")
	for _, k := range RowKeys {
		if v, ok := j.Option(k); ok {
			cols = append(cols, "("+v+") AS bglm_"+k)
		}
	}
	q := "SELECT " + strings.Join(append(cols, extra...), ", ") + " FROM " + from
	if j.Order != "" {
		q += " ORDER BY " + j.Order
	}
	return q
}

// OptionsText is the STRUCT of options over Inner's columns, with more added.
func (j *Job) OptionsText(more ...Setting) string {
	return j.OptionsOf(func(string) bool { return true }, more...)
}

// OptionsOf is OptionsText for the options whose keys has accepts.
func (j *Job) OptionsOf(has func(key string) bool, more ...Setting) string {
	var out []string
	for _, o := range append(slices.DeleteFunc(slices.Clone(j.Options), func(o Setting) bool { return !has(o.Key) }), more...) {
		v := o.SQL
		if slices.Contains(RowKeys, o.Key) {
			v = "bglm_" + o.Key
		}
		out = append(out, quote.Text(o.Key)+": "+v)
	}
	if len(out) == 0 {
		return "NULL"
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// GroupNames are the names of Group.
func (j *Job) GroupNames() []string { return duck.Names(j.Group) }

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/formula"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
)

// modelFlags say what is fitted to the rows.
type modelFlags struct {
	Formula string   `short:"f" placeholder:"'Y ~ TERMS'" help:"The model as in R: 'late ~ origin + hour(date) + origin:destination - 1'. Functions are SQL."`
	Y       string   `name:"y" placeholder:"SQL" help:"Response, instead of a formula."`
	X       string   `name:"x" placeholder:"SQL" help:"Features, with --y: a STRUCT such as '{origin, hour: hour(date)::VARCHAR}', a MAP or a list."`
	Group   []string `sep:"none" placeholder:"SQL" help:"A fit for each value of these columns (a,b) or expressions; may be given several times."`
	Order   string   `placeholder:"SQL" help:"Order in which rows are absorbed; makes the answer that of one thread."`
	Method  string   `short:"m" placeholder:"NAME" help:"adf (default), ep, laplace, ...: the name of a fitting function without bglm_."`
	Option  []string `short:"o" sep:"none" placeholder:"KEY=VALUE" help:"An option of the method, such as link=probit; weight, offset, trials and time are SQL. May be given several times."`
}

// job is a model with all that SQL needs.
type job struct {
	method  string
	y, x    string
	group   []columnType // with their SQL in sqlOf
	groupBy []string     // SQL, one for each group column
	order   string
	options []setting
	meta    []string // pairs, kept with the beliefs
}

type setting struct{ key, sql string }

func (j *job) option(key string) (string, bool) {
	for _, o := range j.options {
		if o.key == key {
			return o.sql, true
		}
	}
	return "", false
}

func (j *job) set(key, sql string) { j.options = append(j.options, setting{key, sql}) }

// check reports flags that contradict each other.
func (m *modelFlags) check() error {
	switch {
	case m.Formula == "" && m.Y == "" && m.X == "":
		return usageError{errors.New("no model: give --formula 'y ~ a + b', or --y and --x")}
	case m.Formula != "" && (m.Y != "" || m.X != ""):
		return usageError{errors.New("--formula and --y, --x are two ways to say the same; give one of them")}
	case m.Formula == "" && (m.Y == "" || m.X == ""):
		return usageError{errors.New("--y and --x belong together")}
	}
	return nil
}

// job works out the SQL of the model over the columns of src. withY is false for
// predictions.
func (s *session) job(m *modelFlags, src *source, withY bool) (*job, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	j := &job{method: strings.ToLower(m.Method), y: m.Y, x: formula.FullStruct(m.X), order: m.Order}
	if j.method == "" {
		j.method = "adf"
	}
	opts, err := parseOptionFlags(m.Option)
	if err != nil {
		return nil, err
	}
	cols, err := s.describe("FROM " + src.rows())
	if err != nil {
		return nil, s.blame(src, err)
	}
	if err := s.misread(src, names(cols)); err != nil {
		return nil, err
	}
	keep := func(key, value string) {
		if value != "" {
			j.meta = append(j.meta, key, value)
		}
	}
	keep("formula", m.Formula)
	keep("y", m.Y)
	keep("x", m.X)
	keep("order", m.Order)
	for _, o := range opts {
		j.set(o[0], optionSQL(o[0], o[1]))
		keep("option."+o[0], o[1])
	}
	if m.Formula != "" {
		if err := s.formula(m.Formula, j, cols, src, withY); err != nil {
			return nil, s.blame(src, err)
		}
	}
	return j, s.groups(m, j, src)
}

func (s *session) formula(text string, j *job, cols []columnType, src *source, withY bool) error {
	f, err := formula.Parse(text)
	if err != nil {
		return usageError{err}
	}
	if err := f.Bind(names(cols)); err != nil {
		return err
	}
	kinds := map[string]formula.Kind{}
	kind := func(p formula.Part) (formula.Kind, error) {
		if k, ok := kinds[p.SQL]; ok {
			return k, nil
		}
		d, err := s.describe("SELECT " + p.SQL + " AS v FROM " + src.rows())
		if err != nil {
			return 0, err
		}
		k, err := formula.KindOf(d[0].sqlType)
		if err == nil {
			kinds[p.SQL] = k
		}
		return k, err
	}
	if j.x, err = f.Features(kind); err != nil {
		return err
	}
	j.y = f.Y
	if withY && slices.ContainsFunc(cols, func(c columnType) bool { return strings.EqualFold(c.name, f.Y) }) {
		j.y = quoteName(f.Y)
	}
	if f.Trials != "" {
		if _, ok := j.option("trials"); ok {
			return usageError{errors.New("formula: cbind( ) and --option trials say the same; give one of them")}
		}
		j.set("trials", f.Trials)
	}
	if len(f.Offset) > 0 {
		sum := "(" + strings.Join(f.Offset, ") + (") + ")"
		for i := range j.options {
			if j.options[i].key == "offset" {
				j.options[i].sql, sum = "("+j.options[i].sql+") + "+sum, ""
			}
		}
		if sum != "" {
			j.set("offset", sum)
		}
	}
	if !f.Intercept {
		if v, ok := j.option("intercept"); ok && v != "false" {
			return usageError{errors.New("the formula has no intercept, but --option intercept is " + v)}
		} else if !ok {
			j.set("intercept", "false")
		}
	}
	return nil
}

// reserved are the columns of a belief table.
var reserved = []string{"class", "feature", "mean", "variance", "covariance", "fit"}

func (s *session) groups(m *modelFlags, j *job, src *source) error {
	for _, g := range m.Group {
		parts, err := formula.SplitArgs(g)
		if err != nil {
			return usageError{fmt.Errorf("--group %s: %w", g, err)}
		}
		for _, p := range parts {
			d, err := s.describe("SELECT " + p + " FROM " + src.rows())
			if err != nil {
				return fmt.Errorf("--group %s: %w", p, s.blame(src, err))
			}
			if len(d) != 1 || slices.Contains(reserved, strings.ToLower(d[0].name)) || slices.ContainsFunc(j.group, func(c columnType) bool { return strings.EqualFold(c.name, d[0].name) }) {
				return usageError{fmt.Errorf("--group %s: allowed: one column each, none of them called %s or as another", p, strings.Join(reserved, ", "))}
			}
			j.group, j.groupBy = append(j.group, d[0]), append(j.groupBy, p)
			j.meta = append(j.meta, "group."+d[0].name, p)
		}
	}
	return nil
}

// inner is the rows as the fit sees them: groups, y, x and the columns by row
// under names of our own, in order.
func (j *job) inner(from string, extra ...string) string {
	cols := slices.Clone(j.groupBy)
	cols = append(cols, "("+j.y+") AS bglm_y", "("+j.x+") AS bglm_x")
	for _, k := range rowKeys {
		if v, ok := j.option(k); ok {
			cols = append(cols, "("+v+") AS bglm_"+k)
		}
	}
	q := "SELECT " + strings.Join(append(cols, extra...), ", ") + " FROM " + from
	if j.order != "" {
		q += " ORDER BY " + j.order
	}
	return q
}

// optionsText is the STRUCT of options over inner's columns; more are added.
func (j *job) optionsText(more ...setting) string {
	var out []string
	for _, o := range slices.Concat(j.options, more) {
		v := o.sql
		if slices.Contains(rowKeys, o.key) {
			v = "bglm_" + o.key
		}
		out = append(out, quoteText(o.key)+": "+v)
	}
	if len(out) == 0 {
		return "NULL"
	}
	return "{" + strings.Join(out, ", ") + "}"
}

func (j *job) groupNames() []string { return names(j.group) }

// function is the SQL aggregate of the method.
func (s *session) function(method string) (string, error) {
	var all []string
	err := s.each("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name LIKE 'bglm\\_%' ESCAPE '\\' AND function_type = 'aggregate' ORDER BY 1", func(scan func(...any) error) error {
		var n string
		err := scan(&n)
		all = append(all, n)
		return err
	})
	if err != nil {
		return "", err
	}
	if known := methodNames(); !slices.Contains(known, method) || !slices.Contains(all, "bglm_"+method) {
		err := fmt.Errorf("--method %s: allowed: %s", method, strings.Join(known, ", "))
		if n := option.Nearest(method, known); n != "" {
			err = fmt.Errorf("%w; the nearest is %s", err, n)
		}
		return "", usageError{err}
	}
	return "bglm_" + method, nil
}

// streams says whether a method absorbs rows in their order.
func streams(method string) bool {
	m, err := engine.Find(method)
	return err == nil && m.Streams
}

// blame names the file that an error is about, where DuckDB's message does not.
func (s *session) blame(src *source, err error) error {
	if err == nil || errors.As(err, new(usageError)) || s.ctx.Err() != nil {
		return err
	}
	text := err.Error()
	name := ""
	for i, read := range src.read {
		if strings.Contains(text, read) {
			name = src.fileName(read)
			if name != read {
				text = strings.ReplaceAll(text, read, name)
			}
			break
		}
		if src.files[i] != "-" && strings.Contains(text, src.files[i]) {
			name = src.files[i]
			break
		}
	}
	switch {
	case name != "":
	case len(src.files) == 1:
		name = src.fileName(src.read[0])
	case !duck.AboutSQL(text):
		name = s.unreadable(src)
	}
	switch {
	case name == "":
		name = strings.Join(src.files[:min(3, len(src.files))], ", ")
		if more := len(src.files) - 3; more > 0 {
			name += fmt.Sprintf(" and %d more", more)
		}
		fallthrough
	case !strings.Contains(text, name):
		text = name + ": " + text
	}
	// The fault may be the fit's.
	if src.fits != "" && (strings.Contains(text, "bglm_predict") || strings.Contains(text, "prior")) && !strings.Contains(text, src.fits) {
		text = src.fits + " with " + text
	}
	if text == err.Error() {
		return err
	}
	return duck.Reword(err, text)
}

// unreadable reads the files one by one, all columns of them, and names the first
// that fails.
func (s *session) unreadable(src *source) string {
	f, ok := readers[src.kind]
	if !ok {
		return ""
	}
	for _, read := range src.read {
		if s.exec("SELECT max(hash(t)) FROM "+f+"("+listText([]string{read})+") t") != nil && s.ctx.Err() == nil {
			return src.fileName(read)
		}
	}
	return ""
}

// locate finds the first row that a fit refused, for its message.
func (s *session) locate(j *job, src *source, err error) error {
	msg := err.Error()
	if !strings.Contains(msg, "on_error: 'skip'") {
		return s.blame(src, err)
	}
	one := *j
	one.options = slices.DeleteFunc(slices.Clone(j.options), func(o setting) bool {
		return !slices.Contains([]string{"family", "link", "shape", "dispersion", "intercept", "hash_bits"}, o.key) && !slices.Contains(rowKeys, o.key) || o.sql == "'auto'"
	})
	one.order, one.groupBy = "", nil
	fn := "bglm_adf"
	var file string
	var row int64
	q := fmt.Sprintf("SELECT bglm_file, bglm_row FROM (SELECT bglm_file, bglm_row, %s(bglm_y, bglm_x, %s) AS fit FROM (%s) GROUP BY ALL) WHERE fit IS NULL ORDER BY 1, 2 LIMIT 1",
		fn, one.optionsText(setting{"on_error", "'null'"}), one.inner(src.numbered(), "bglm_file", "bglm_row"))
	if s.row(q, &file, &row) != nil {
		return s.blame(src, err)
	}
	return fmt.Errorf("%s, row %d: %w", src.fileName(file), row, err)
}

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/fitstore"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/cmd/internal/shell"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/special"
)

// answerFlags are those of commands that print a table about a fit.
type answerFlags struct {
	Level float64 `placeholder:"P" default:"0.95" help:"Probability of the intervals (default: 0.95)."`
	JSON  bool    `name:"json" help:"Print the table as JSON."`
}

func (a *answerFlags) check() error {
	if !(a.Level > 0 && a.Level < 1) {
		return cli.Usage(fmt.Errorf("--level is %v, allowed is a number between 0 and 1", a.Level))
	}
	return nil
}

// print runs a query and prints its rows.
func (a *answerFlags) print(e *cli.Env, s *duck.Session, query string) error {
	cols, err := s.Describe(query)
	if err != nil {
		return err
	}
	t := newTable()
	head := table.Row{}
	var texts []string
	for _, c := range cols {
		head = append(head, shell.Visible(c.Name))
		if text := a.text(c); text != "" {
			texts = append(texts, text+" AS "+quote.Name(c.Name))
		}
	}
	if texts != nil {
		query = "SELECT * REPLACE (" + strings.Join(texts, ", ") + ") FROM (" + query + ")"
	}
	t.AppendHeader(head)
	all := []map[string]any{}
	err = s.Each(query, func(scan func(...any) error) error {
		values, at := make([]any, len(cols)), make([]any, len(cols))
		for k := range values {
			at[k] = &values[k]
		}
		if err := scan(at...); err != nil {
			return err
		}
		row, object := table.Row{}, map[string]any{}
		for k, v := range values {
			if x, ok := v.(float64); ok && (!special.Finite(x)) {
				v = nil
			}
			row = append(row, shown(v))
			if text, ok := v.(string); ok && (nested(cols[k]) || decimal(cols[k])) {
				v = json.RawMessage(text)
			}
			object[cols[k].Name] = v
		}
		all = append(all, object)
		t.AppendRow(row)
		return nil
	})
	if err == nil {
		err = errors.Join(s.Interrupted(), s.Unchanged())
	}
	if err != nil {
		return err
	}
	if a.JSON {
		return writeJSON(e.Stdout, all)
	}
	_, err = fmt.Fprintln(e.Stdout, t.Render())
	return err
}

// text is the SQL that converts a column to text, such as a group of dates or UUIDs, "" if its
// values are printed as they are.
func (a *answerFlags) text(c duck.Column) string {
	switch {
	case c.Type == "VARCHAR" || c.Type == "BOOLEAN" || c.Type == "DOUBLE" || c.Type == "FLOAT" || strings.HasSuffix(c.Type, "INT") || c.Type == "INTEGER":
		return ""
	case a.JSON && nested(c):
		return "to_json(" + quote.Name(c.Name) + ")::VARCHAR"
	}
	return quote.Name(c.Name) + "::VARCHAR"
}

func nested(c duck.Column) bool {
	return strings.HasSuffix(c.Type, ")") && !decimal(c) || strings.HasSuffix(c.Type, "]")
}

func decimal(c duck.Column) bool { return strings.HasPrefix(c.Type, "DECIMAL(") }

func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return fmt.Sprintf("%.4g", v)
	case string:
		return shell.Visible(v)
	}
	return fmt.Sprint(v)
}

// beliefFlags select the fits that a command is about.
type beliefFlags struct {
	Beliefs string   `short:"b" placeholder:"FILE" required:"" help:"Belief table of the model."`
	Option  []string `short:"o" sep:"none" placeholder:"KEY=VALUE" help:"family, link and so on, if the belief table does not have them."`
}

// with runs a command on the fits, which are in the table fits of a session.
func (b *beliefFlags) with(e *cli.Env, run func(*duck.Session, *fitstore.Fits) error) error {
	s, err := duck.Open(e, true)
	if err != nil {
		return err
	}
	defer s.Close()
	opts, err := job.ReadOptions(s, b.Option)
	if err != nil {
		return err
	}
	f, err := fitstore.Load(s, "fits", b.Beliefs, opts)
	if err == nil && !f.IsFit {
		err = errors.New("this method's fit has no weights")
	}
	if err == nil {
		err = f.ConflictError(opts)
	}
	if err != nil {
		return fmt.Errorf("--beliefs %s: %w", b.Beliefs, err)
	}
	return run(s, f)
}

// groups lists the columns of groups, each followed by a comma.
func groups(f *fitstore.Fits) string {
	out := ""
	for _, g := range f.Group {
		out += quote.Name(g.Name) + ", "
	}
	return out
}

type summaryCommand struct {
	beliefFlags
	Rope float64 `placeholder:"W" help:"Also print the probability that a weight is between -W and W, that is practically zero."`
	answerFlags
}

// Help is the text below the usage line.
func (*summaryCommand) Help() string {
	return `Prints the weights of a fit with standard deviations, intervals, odds or rate ratios, and the
probability that they are positive (bglm_summary).

Example:

  bglm summary --beliefs beliefs.parquet --level 0.9 --rope 0.1`
}

// Run prints the weights.
func (c *summaryCommand) Run(e *cli.Env) error {
	if err := c.check(); err != nil {
		return err
	}
	rope := "NULL"
	if c.Rope != 0 {
		rope = fmt.Sprint(c.Rope)
	}
	return c.with(e, func(s *duck.Session, f *fitstore.Fits) error {
		return c.print(e, s, fmt.Sprintf("SELECT %sunnest(bglm_summary(fit, {level: %v, rope: %s}), recursive := true) FROM %s", groups(f), c.Level, rope, f.Table))
	})
}

type contrastCommand struct {
	beliefFlags
	A      string `name:"row" placeholder:"STRUCT" help:"A row of the data, or of features, as SQL."`
	B      string `name:"against" placeholder:"STRUCT" help:"The row to compare it with."`
	X      string `name:"x" placeholder:"STRUCT" help:"With --column: the row that sets all other columns; its level in that column does not matter."`
	Column string `placeholder:"NAME" help:"Compare all pairs of this column's levels."`
	answerFlags
}

// Help is the text below the usage line.
func (*contrastCommand) Help() string {
	return `Prints the difference between two rows, or between all pairs of a column's levels, in the linear
predictor and in the response, under the joint posterior (bglm_contrast, bglm_pairs).

Rows have the columns of the data, from which the model in the belief file makes features; otherwise
they are features, as in bglm fit --x. An offset of the model is left out in both rows; a message on
standard error says so.

Examples:

  bglm contrast --beliefs beliefs.parquet --row "{origin: 'ORD', hour: '17'}" --against "{origin: 'JFK', hour: '17'}"
  bglm contrast --beliefs beliefs.parquet --x "{origin: 'ORD', hour: '17'}" --column hour`
}

// Run prints the differences.
func (c *contrastCommand) Run(e *cli.Env) error {
	if err := c.check(); err != nil {
		return err
	}
	pairs := c.X != "" && c.Column != "" && c.A == "" && c.B == ""
	if two := c.A != "" && c.B != "" && c.X == "" && c.Column == ""; !two && !pairs {
		return cli.Usage(errors.New("give --row and --against, two rows, or --x and --column, a row and the column whose levels are compared"))
	}
	return c.with(e, func(s *duck.Session, f *fitstore.Fits) error {
		one, levels := "[bglm_contrast(fit, %s, %s, %v)]", ""
		if f.HasClass {
			one, levels = "bglm_contrast(fit, %s, %s, %v)", "c.class, "
		}
		if pairs {
			c.X = withColumn(s, c.X, c.Column)
		}
		given := slices.DeleteFunc([]string{c.A, c.B, c.X}, func(row string) bool { return row == "" })
		rows, asData := featuresOf(s, f, given)
		of := ""
		if pairs {
			of = fmt.Sprintf("SELECT %sunnest(bglm_pairs(fit, %s, %s, %v)) AS c FROM %s", groups(f), rows[0], quote.Text(c.Column), c.Level, f.Table)
			levels = "c.a, c.b, " + levels
		} else {
			of = fmt.Sprintf("SELECT %sunnest("+one+") AS c FROM %s", groups(f), rows[0], rows[1], c.Level, f.Table)
		}
		err := c.print(e, s, fmt.Sprintf("SELECT %s%sc.mean, c.sd, c.lower, c.upper, c.p_positive, c.response.mean AS response, c.response.lower AS response_lower, c.response.upper AS response_upper FROM (%s)", groups(f), levels, of))
		if err != nil && asData != nil && s.Interrupted() == nil {
			err = fmt.Errorf("%w\nand as a row of the data: %w", err, asData)
		}
		if m, ok, merr := modelOf(f); err == nil && ok && merr == nil {
			if offset, _ := offsetsOf(f, m); len(offset) > 0 {
				fmt.Fprintln(e.Stderr, "bglm contrast: "+shell.Visible("the fit has an offset, which is left out here: rows are compared as if it was 0 in both: "+strings.Join(offset, " + ")))
			}
		}
		return err
	})
}

// featuresOf returns the SQL of the features that the model of fits makes of rows, each a STRUCT
// with the columns of its data. If one of them is not that, it returns rows, with the reason if the
// model has one.
func featuresOf(s *duck.Session, f *fitstore.Fits, rows []string) ([]string, error) {
	m, ok, err := modelOf(f)
	if err != nil || !ok {
		return rows, err
	}
	m.Group, m.Order, m.Option = nil, "", nil
	if m.Formula != "" {
		m.Y, m.X = "", ""
	} else {
		m.Y = "NULL"
	}
	var out []string
	for k, row := range rows {
		file := filepath.Join(s.Dir, fmt.Sprintf("row-%d.parquet", k))
		one, err := typedRow(s, f, row)
		if err != nil || s.Exec("COPY ("+one+") TO "+quote.Text(file)+" (FORMAT parquet)") != nil {
			return rows, nil // a MAP or LIST of features, or invalid SQL, which its use reports
		}
		src, err := job.Open(s, job.Data{Files: []string{file}})
		if err != nil {
			return rows, err
		}
		j, err := job.New(src, m, false)
		if err != nil {
			return rows, errors.New(strings.ReplaceAll(err.Error(), file+": ", ""))
		}
		out = append(out, "(SELECT "+j.X+" FROM "+src.Rows()+")")
	}
	return out, nil
}

// withColumn adds to row, SQL, the column whose levels are compared, with any level, if row lacks
// it.
func withColumn(s *duck.Session, row, column string) string {
	cols, err := s.Describe("SELECT unnest(" + row + ")")
	if err != nil || slices.ContainsFunc(cols, func(c duck.Column) bool { return strings.EqualFold(c.Name, column) }) {
		return row
	}
	return "struct_insert(" + row + ", " + quote.Name(column) + " := NULL::VARCHAR)"
}

// typedRow is row, SQL, with NULLs of the types that the fit has learnt, which a file would lose.
func typedRow(s *duck.Session, f *fitstore.Fits, row string) (string, error) {
	cols, err := s.Describe("SELECT unnest(" + row + ")")
	if err != nil {
		return "", err
	}
	types := map[string]string{}
	err = s.Each("SELECT DISTINCT lower(c.name), CASE WHEN starts_with(c.kind, 'number') THEN 'DOUBLE' ELSE 'VARCHAR' END FROM (SELECT unnest(fit.columns) AS c FROM "+f.Table+")", func(scan func(...any) error) error {
		var name, sqlType string
		err := scan(&name, &sqlType)
		types[name] = sqlType
		return err
	})
	var out []string
	for _, c := range cols {
		name := quote.Name(c.Name)
		if t := types[strings.ToLower(c.Name)]; c.Type == `"NULL"` && t != "" {
			name += "::" + t + " AS " + name
		}
		out = append(out, name)
	}
	return "SELECT " + strings.Join(out, ", ") + " FROM (SELECT unnest(" + row + "))", err
}

type effectsCommand struct {
	dataFlags
	scoreFlags
	Column     string  `placeholder:"NAME" default:"*" help:"Column whose effect is measured (default: all)."`
	Step       float64 `placeholder:"N" help:"Print the effect of adding N to a number, in place of the slope."`
	Reference  string  `placeholder:"LEVEL" help:"Level that the others are compared with (default: the first)."`
	Prediction string  `placeholder:"KIND" enum:"${effectpredictions}" default:"exact" help:"How expected responses are computed: with the weights integrated out (exact, the default), or at the mean weights (plugin)."`
	Draws      int     `placeholder:"N" help:"Use N joint draws of the weights, in place of the delta method."`
	Seed       int64   `placeholder:"N" help:"Seed of the draws."`
	Quiet      bool    `short:"q" help:"No progress bar."`
	answerFlags
}

// Help is the text below the usage line.
func (*effectsCommand) Help() string {
	return `Prints average slopes and comparisons over the given rows, on the scale of the response
(bglm_effects). Terms of the formula that are computed from a column, such as I(distance^2), move with
it, and so does the offset. Levels of a number that is a term of its own, such as factor(year) beside
year, are compared as if all rows were of that year.

Example:

  bglm effects --beliefs beliefs.parquet --data testdata/flights.parquet --column distance --step 500`
}

// Run computes and prints the effects.
func (c *effectsCommand) Run(e *cli.Env) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Seed != 0 && c.Draws == 0 {
		return cli.Usage(errors.New("--seed belongs to --draws"))
	}
	s, err := duck.Open(e, c.Quiet)
	if err != nil {
		return err
	}
	defer s.Close()
	sc, err := openScoring(s, &c.dataFlags, &c.scoreFlags, toAverage)
	if err != nil {
		return err
	}
	if err := c.checkAny(s, sc); err != nil {
		return err
	}
	offset := sc.offset
	if sc.fits.HasClass { // it cancels
		offset = ""
	}
	ms, blocked, err := movers(s, sc, offset)
	if err != nil {
		return sc.src.Blame(err)
	}
	if c.Column == "*" {
		return c.all(e, s, sc, ms, blocked)
	}
	of, term := levelsTerm(ms, c.Column)
	if why := blocked[strings.ToLower(c.Column)]; why != "" && term == "" {
		return cli.Usage(fmt.Errorf("--column %s: %s", c.Column, why))
	}
	k := slices.IndexFunc(ms, func(m mover) bool { return strings.EqualFold(m.Name, c.Column) })
	switch {
	case term != "":
		err = c.compare(s, sc, of, term, "effects")
	case k >= 0:
		err = c.move(s, sc, ms[k], "effects")
	default:
		err = c.measure(s, sc, quote.Text(c.Column), "effects", c.options())
	}
	if err != nil {
		return err
	}
	_, as := keysOf(sc)
	return c.print(e, s, "SELECT "+as+"unnest(l, recursive := true) FROM effects")
}

// checkAny returns an error if there are no rows, or if their features are of no columns.
func (c *effectsCommand) checkAny(s *duck.Session, sc *scoring) error {
	if sc.src.Empty() {
		why := "no rows"
		if c.Where != "" {
			why += " that --where keeps"
		}
		return fmt.Errorf("%s: %s; effects are averages over rows", strings.Join(sc.src.Names(), ", "), why)
	}
	x, err := s.Describe("SELECT (" + sc.x + ") FROM " + sc.rows)
	if err != nil {
		return sc.src.Blame(err)
	}
	if strings.HasPrefix(x[0].Type, "STRUCT(") {
		return c.checkKnown(s, sc)
	}
	model := "--x " + cmp.Or(c.X, sc.fits.Job("x"))
	if sc.job.Formula != nil {
		model = cmp.Or(c.Formula, sc.fits.Job("formula"))
	}
	return fmt.Errorf("%s: the model %s has no column of numbers or levels, whose effect could be measured", c.Beliefs, model)
}

// checkKnown says how many rows are of groups without beliefs, an error if all are.
func (c *effectsCommand) checkKnown(s *duck.Session, sc *scoring) error {
	if len(sc.fits.Group) == 0 {
		return nil
	}
	n, unknown, err := sc.counts(s)
	switch {
	case err != nil:
		return sc.src.Blame(err)
	case n == 0:
		return fmt.Errorf("%s: all rows are of groups without beliefs", strings.Join(sc.src.Names(), ", "))
	case unknown > 0 && !c.Quiet:
		fmt.Fprintf(s.Env.Stderr, "bglm effects: left out: %s of groups without beliefs\n", some(unknown, "row"))
	}
	return nil
}

// all prints the effects of all columns; those from which other terms are computed move these along.
func (c *effectsCommand) all(e *cli.Env, s *duck.Session, sc *scoring, ms []mover, blocked map[string]string) error {
	if err := c.measure(s, sc, "'*'", "effects", c.options()); err != nil {
		return err
	}
	keys, as := keysOf(sc)
	from, instead := "effects", ""
	for k, m := range ms {
		if m.alone() {
			continue
		}
		table := fmt.Sprintf("moved%d", k)
		var err error
		if m.levels() {
			err = c.compare(s, sc, m, m.Name, table)
		} else {
			err = c.move(s, sc, m, table)
		}
		if errors.Is(err, errNoEffect) {
			blocked[strings.ToLower(m.Name)] = err.Error()
			if !c.Quiet {
				fmt.Fprintf(e.Stderr, "bglm effects: left out: %s\n", shell.Visible(err.Error()))
			}
			continue
		}
		if err != nil {
			return err
		}
		on := []string{"true"}
		for _, k := range keys {
			on = append(on, "effects."+k+" IS NOT DISTINCT FROM "+table+"."+k)
		}
		from += " LEFT JOIN " + table + " ON " + strings.Join(on, " AND ")
		// In the place of the first row about its terms: there is one for each class.
		first := fmt.Sprintf("list_filter(effects.l, lambda o: lower(o.column) IN (%s))[1]", m.names())
		instead += fmt.Sprintf(" WHEN e.column = %[1]s.column AND e.contrast = %[1]s.contrast THEN %[2]s.l WHEN lower(e.column) IN (%[3]s) THEN []", first, table, m.names())
	}
	var gone []string
	for _, name := range slices.Sorted(maps.Keys(blocked)) {
		gone = append(gone, quote.Text(name))
		if !c.Quiet && !slices.ContainsFunc(ms, func(m mover) bool { return m.number && m.has(name) }) {
			fmt.Fprintf(e.Stderr, "bglm effects: left out: --column %s: %s\n", shell.Visible(name), shell.Visible(blocked[name]))
		}
	}
	l := "effects.l"
	if gone != nil {
		instead += fmt.Sprintf(" WHEN lower(e.column) IN (%s) THEN []", strings.Join(gone, ", "))
	}
	if instead != "" {
		l = "flatten([CASE" + instead + " ELSE [e] END FOR e IN effects.l])"
	}
	return c.print(e, s, "SELECT "+as+"unnest("+l+", recursive := true) FROM "+from)
}

// options are those of bglm_effects in SQL.
func (c *effectsCommand) options() []string {
	options := c.common()
	if c.Step != 0 {
		options = append(options, fmt.Sprintf("step: %v", c.Step))
	}
	if c.Reference != "" {
		options = append(options, "reference: "+quote.Text(c.Reference))
	}
	return options
}

// common are those without step and reference.
func (c *effectsCommand) common() []string {
	return []string{fmt.Sprintf("level: %v", c.Level), "prediction: " + quote.Text(c.Prediction), fmt.Sprintf("draws: %d", c.Draws), fmt.Sprintf("seed: %d", c.Seed)}
}

// move measures the effect of a column that moves others along.
func (c *effectsCommand) move(s *duck.Session, sc *scoring, m mover, table string) error {
	if c.Reference != "" && c.Column != "*" {
		return cli.Usage(fmt.Errorf("--reference is not used by %s, a column of numbers; allowed here: --step", m.Name))
	}
	versions, h, err := sc.moved(s, m, c.Step)
	if err != nil {
		return err
	}
	options, was, contrast := c.common(), "column - x", fmt.Sprintf("%+g", c.Step)
	if c.Step == 0 {
		options, was, contrast = append(options, fmt.Sprintf("step: %v", 2*h)), "dY/dX", "dY/dX"
	}
	if m.inOffset {
		options = append(options, "column_offset: "+movedOffset)
	}
	if err := c.measure(s, versions, movedRow, table, options); err != nil {
		return err
	}
	return s.Exec(fmt.Sprintf("UPDATE %s SET l = [struct_update(e, \"column\" := %s, contrast := replace(e.contrast, %s, %s)) FOR e IN l]", table, quote.Text(m.Name), quote.Text(was), quote.Text(contrast)))
}

// compare measures the effects of the levels of a term, each as if all rows had it, on which other
// terms or the offset depend.
func (c *effectsCommand) compare(s *duck.Session, sc *scoring, m mover, term, table string) error {
	if c.Step != 0 && c.Column != "*" {
		return cli.Usage(fmt.Errorf("--step is not used by %s, a column of levels; allowed here: --reference", term))
	}
	levels, err := sc.termLevels(s, m, term)
	if err != nil {
		return err
	}
	if len(levels) == 0 {
		return cli.Usage(fmt.Errorf("--column %s: the fit knows no level of it%w", term, errNoEffect))
	}
	reference := levels[0]
	if c.Reference != "" {
		reference = c.Reference
	}
	if !slices.Contains(levels, reference) {
		err := fmt.Errorf("--reference %.100s: no level of %s", reference, term)
		if near := option.Nearest(reference, levels); near != "" {
			err = fmt.Errorf("%w; the nearest is %s", err, near)
		}
		return cli.Usage(err)
	}
	options := c.common()
	if m.inOffset {
		options = append(options, "column_offset: "+movedOffset)
	}
	if err := c.measure(s, sc.atLevels(m, levels, reference), movedRow, table, options, "bglm_level"); err != nil {
		return err
	}
	keys, _ := keysOf(sc)
	l := fmt.Sprintf("[struct_update(e, \"column\" := %s, contrast := replace(e.contrast, 'column - x', 'mean(' || bglm_level || ') - mean(' || %s || ')')) FOR e IN l]", quote.Text(term), quote.Text(reference))
	q := fmt.Sprintf("CREATE OR REPLACE TEMP TABLE %[1]s AS SELECT %[2]sflatten(list(%[3]s ORDER BY bglm_level)) AS l FROM %[1]s", table, strings.Join(append(keys, ""), ", "), l)
	if len(keys) > 0 {
		q += " GROUP BY " + strings.Join(keys, ", ")
	}
	return s.Exec(q)
}

// measure creates a table with the effects of column, SQL, in each group, and for each value of further
// columns by.
func (c *effectsCommand) measure(s *duck.Session, of *scoring, column, table string, options []string, by ...string) error {
	sc := *of
	var extra []string
	if sc.offset != "" {
		extra, sc.offset = []string{"(" + sc.offset + ") AS bglm_o"}, ""
		options = append(options, `"offset": bglm_o`)
	}
	if sc.weight != "" {
		extra = append(extra, "("+sc.weight+") AS bglm_w")
		options = append(options, "weight: bglm_w")
	}
	if column == movedRow {
		extra = append(extra, column)
	}
	if slices.Contains(options, "column_offset: "+movedOffset) {
		extra = append(extra, movedOffset)
	}
	extra = append(extra, by...)
	keys, _ := keysOf(&sc)
	keys = append(keys, by...)
	q := fmt.Sprintf("SELECT %sbglm_effects(bglm_fit, bglm_x, %s, {%s}) AS l FROM %s", strings.Join(append(keys, ""), ", "), column, strings.Join(options, ", "), sc.subquery("", extra...))
	if len(keys) > 0 {
		q += " GROUP BY " + strings.Join(keys, ", ")
	}
	if err := s.Long("measuring", "CREATE OR REPLACE TEMP TABLE "+table+" AS "+q); err != nil {
		return sc.src.Blame(err)
	}
	return nil
}

// keysOf are the columns of groups, and their SQL under the names of the fits, each followed by a
// comma.
func keysOf(sc *scoring) (keys []string, as string) {
	for i, g := range sc.fits.Group {
		keys = append(keys, fmt.Sprintf("bglm_g%d", i))
		as += fmt.Sprintf("effects.bglm_g%d AS %s, ", i, quote.Name(g.Name))
	}
	return keys, as
}

type compareCommand struct {
	dataFlags
	Beliefs []string `short:"b" sep:"none" placeholder:"FILE" required:"" help:"Belief table of a model; give it once for each model."`
	Quiet   bool     `short:"q" help:"No progress bar."`
	JSON    bool     `name:"json" help:"Print the table as JSON."`
}

// Help is the text below the usage line.
func (*compareCommand) Help() string {
	return `Compares fits of the same rows by how well each predicts every row from all others. The best fit
comes first; the table has the differences with their standard errors, WAIC, stacking weights and
evidence (bglm_loo_compare). Give the rows that the fits have learnt from with --data.

Example:

  bglm compare --beliefs small.parquet --beliefs large.parquet --data testdata/flights.parquet`
}

// Run compares and prints.
func (c *compareCommand) Run(e *cli.Env) error {
	s, err := duck.Open(e, c.Quiet)
	if err != nil {
		return err
	}
	defer s.Close()
	var fits, xs, from []string
	var first *scoring
	var options map[string]string
	names := map[string]bool{}
	for k, path := range c.Beliefs {
		sc, err := openScoring(s, &c.dataFlags, &scoreFlags{Beliefs: path}, toJudge)
		if err != nil {
			return err
		}
		if len(sc.fits.Group) > 0 || sc.fits.HasClass || !sc.fits.IsFit {
			return fmt.Errorf("--beliefs %s: fits of groups or of classes are not compared; allowed: one FIT", path)
		}
		own, err := sc.rowOptions()
		if err != nil {
			return err
		}
		if first == nil {
			first, options = sc, own
		}
		for _, key := range comparedKeys {
			if own[key] != options[key] {
				return fmt.Errorf("--beliefs %s has another %s than %s; allowed: the same for all", path, key, c.Beliefs[0])
			}
		}
		if err := sc.sameResponse(s, first, path, c.Beliefs[0]); err != nil {
			return err
		}
		name := filepath.Base(path)
		for names[name] {
			name += "'"
		}
		names[name] = true
		table := fmt.Sprintf("compared%d", k)
		if err := s.Exec("CREATE OR REPLACE TEMP TABLE " + table + " AS FROM fits"); err != nil {
			return err
		}
		fits = append(fits, fmt.Sprintf("%s: bglm_m%d", quote.Name(name), k))
		xs = append(xs, fmt.Sprintf("%s: %s", quote.Name(name), sc.x))
		from = append(from, fmt.Sprintf("(SELECT fit AS bglm_m%d FROM %s) f%d", k, table, k))
	}
	of, columns := "NULL", ""
	for _, key := range comparedKeys {
		if v := options[key]; v != "" {
			of += fmt.Sprintf(", %s: bglm_%s", quote.Name(key), key)
			columns += fmt.Sprintf(", (%s) AS bglm_%s", v, key)
		}
	}
	if columns != "" {
		of = "{" + strings.TrimPrefix(of, "NULL, ") + "}"
	}
	q := fmt.Sprintf("CREATE OR REPLACE TEMP TABLE compared AS SELECT bglm_loo_compare({%s}, bglm_y, bglm_x, %s) AS l FROM (SELECT (%s) AS bglm_y, {%s} AS bglm_x%s FROM %s) d, %s",
		strings.Join(fits, ", "), of, first.y, strings.Join(xs, ", "), columns, first.rows, strings.Join(from, ", "))
	if err := s.Long("comparing", q); err != nil {
		return first.src.Blame(err)
	}
	return (&answerFlags{JSON: c.JSON}).print(e, s, "SELECT name, n, elpd_loo, se_elpd_loo, elpd_diff, se_diff, weight, p_loo, waic, log_evidence, n_warned, status FROM (SELECT unnest(l, recursive := true) FROM compared)")
}

// comparedKeys are the options by row that compared fits have in common.
var comparedKeys = []string{"offset", "weight", "trials"}

// rowOptions returns the SQL of comparedKeys with which the fit was made.
func (sc *scoring) rowOptions() (map[string]string, error) {
	out := map[string]string{"offset": sc.offset}
	if v, ok := sc.job.Option("trials"); ok {
		out["trials"] = v
	}
	m, ok, err := modelOf(sc.fits)
	if err != nil || !ok {
		return out, err
	}
	j, err := job.New(sc.src, m, true)
	if err != nil {
		return nil, err
	}
	if v, ok := j.Option("weight"); ok {
		out["weight"] = v
	}
	return out, nil
}

// sameResponse checks that the fit has learnt the rows as they are, and the same response as the
// first: leaving out a row that is not in a fit, or densities of two responses, would compare
// nothing.
func (sc *scoring) sameResponse(s *duck.Session, first *scoring, path, firstPath string) error {
	if sc.y != first.y {
		var n int64
		if err := s.Row(fmt.Sprintf("SELECT count(*) FILTER ((%s)::DOUBLE IS DISTINCT FROM (%s)::DOUBLE) FROM %s", sc.y, first.y, first.rows), &n); err != nil {
			return sc.src.Blame(err)
		}
		if n > 0 {
			return fmt.Errorf("--beliefs %s: its response %s is another than %s of %s in %s; allowed: fits of the same response", path, sc.y, first.y, firstPath, some(n, "row"))
		}
	}
	mark := sc.fits.Job(rowsKey)
	if mark == "" {
		return nil
	}
	now, err := rowsMark(s, sc.y, sc.x, sc.rows)
	if err != nil {
		return sc.src.Blame(err)
	}
	if !sameRows(mark, now) {
		learnt, _, _ := strings.Cut(mark, " ")
		given, _, _ := strings.Cut(now, " ")
		return fmt.Errorf("--data are not the rows that %s has learnt (found: %s rows; learnt: %s), so that none can be left out of it; allowed: the same rows, --where included (bglm evaluate predicts others)", path, given, learnt)
	}
	return nil
}

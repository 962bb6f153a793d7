package main

import (
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/fitstore"
	"github.com/bglm/bglm/cmd/internal/formula"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/cmd/internal/shell"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/export"
)

type exportCommand struct {
	beliefFlags
	Format     string  `placeholder:"FORM" enum:",sql,json,pmml" default:"" help:"sql: a query that predicts rows without bglm; pmml: PMML 4.4 with the mean weights; json: the FIT (default: by the extension of --out, otherwise sql)."`
	Dialect    string  `placeholder:"NAME" default:"duckdb" help:"SQL dialect: duckdb (default), sqlite, postgres, bigquery or snowflake."`
	Table      string  `placeholder:"NAME" default:"rows" help:"Table that the SQL query reads (default: rows)."`
	Keep       string  `placeholder:"NAMES" help:"Columns of that table to keep in the result, separated by commas (default: those of the fit)."`
	Prediction string  `placeholder:"KIND" enum:",${predictions}" default:"" help:"How the expected response is computed: exact (default), mackay or plugin; for classes plugin (default) or mackay."`
	Out        string  `placeholder:"FILE" default:"-" help:"Output file (default: the standard output)."`
	Level      float64 `placeholder:"P" default:"0.95" help:"Probability of the interval (default: 0.95)."`
	Response   string  `placeholder:"NAME" default:"y" help:"Name of the field that the PMML predicts (default: y)."`
}

// Help is the text below the usage line.
func (*exportCommand) Help() string {
	return `Writes a fit in a form that other programs can predict with: SQL (bglm_sql), PMML (bglm_pmml), or
the FIT as JSON.

The columns of the table, or the fields of the PMML, are the columns of the fit by name. A term such
as hour(ts) is one of these columns, and you have to compute it first. An offset is left out, and
you have to add it to the linear predictor. If the fit has any of these, the first lines of the text
and a message on standard error say so. A column of lists of levels cannot be exported.

Examples:

  bglm export --beliefs beliefs.parquet --dialect sqlite --table flights --keep id --out score.sql
  bglm export --beliefs beliefs.parquet --format pmml --response late --out late.pmml`
}

// Run writes the text.
func (c *exportCommand) Run(e *cli.Env) error {
	if c.Format == "" {
		c.Format = "sql"
		if ext := strings.ToLower(strings.TrimPrefix(filepath.Ext(c.Out), ".")); ext == "json" || ext == "pmml" {
			c.Format = ext
		}
	}
	for _, f := range []struct {
		flag, format string
		given        bool
	}{{"dialect", "sql", c.Dialect != "duckdb"}, {"table", "sql", c.Table != "rows"}, {"keep", "sql", c.Keep != ""}, {"prediction", "sql", c.Prediction != ""}, {"level", "sql", c.Level != 0.95}, {"response", "pmml", c.Response != "y"}} {
		if f.given && c.Format != f.format {
			return cli.Usage(fmt.Errorf("--%s with --format %s; allowed: with --format %s", f.flag, c.Format, f.format))
		}
	}
	if word := strings.ToLower(c.Dialect); c.Format == "sql" && word != "postgresql" && !slices.Contains(export.Dialects(), word) {
		return cli.Usage(argument.Word("--dialect", c.Dialect, export.Dialects()))
	}
	if kind := files.KindOf(c.Out); slices.Contains([]string{"parquet", "arrow", "duckdb"}, kind) {
		return cli.Usage(fmt.Errorf("--out %s: the file would hold %s; allowed: .sql, .pmml, .json", c.Out, c.Format))
	}
	if err := spared(c.Out, c.Beliefs); err != nil {
		return err
	}
	prediction := ""
	if c.Prediction != "" {
		prediction = "prediction: " + quote.Text(c.Prediction) + ", "
	}
	q := fmt.Sprintf("SELECT bglm_sql(fit, %s, {\"table\": %s, keep: %s, %slevel: %v}) FROM fits", quote.Text(c.Dialect), quote.Text(c.Table), quote.Text(c.Keep), prediction, c.Level)
	switch c.Format {
	case "json":
		q = "SELECT to_json(fit)::VARCHAR FROM fits"
	case "pmml":
		q = fmt.Sprintf("SELECT bglm_pmml(fit, %s) FROM fits", quote.Text(c.Response))
	}
	var text string
	var notes []string
	err := c.with(e, func(s *duck.Session, f *fitstore.Fits) (err error) {
		if len(f.Group) > 0 {
			return fmt.Errorf("--beliefs %s has a fit for each group; allowed: one FIT", c.Beliefs)
		}
		if lists := f.Job(job.ListsKey); lists != "" && c.Format != "json" {
			return fmt.Errorf("--beliefs %s: lists of levels cannot be exported; found: %s; allowed: columns of one level each, such as a BOOLEAN for each level of the list (or --format json)", c.Beliefs, lists)
		}
		if notes, err = exportNotes(s, f, c.Format); err != nil {
			return err
		}
		return s.Row(q, &text)
	})
	if err != nil {
		return err
	}
	text = commented(strings.TrimSuffix(text, "\n"), c.Format, notes)
	for _, n := range notes {
		fmt.Fprintln(e.Stderr, "bglm export: "+shell.Visible(n))
	}
	put := func(w io.Writer) error { _, err := fmt.Fprintln(w, text); return err }
	if c.Out == "-" {
		return put(e.Stdout)
	}
	return files.Create(c.Out, e.Stderr, put)
}

// exportNotes mention what the columns of a fit alone do not show: columns that the formula
// computes, and an offset.
func exportNotes(s *duck.Session, f *fitstore.Fits, format string) ([]string, error) {
	m, ok, err := modelOf(f)
	if err != nil || !ok {
		return nil, err
	}
	var notes, made []string
	offset, err := offsetsOf(f, m)
	if err != nil {
		return nil, err
	}
	if m.Formula != "" {
		p, err := formula.Parse(m.Formula)
		if err != nil {
			return nil, err
		}
		if made, err = madeColumns(s, p, m.Dot, format); err != nil {
			return nil, err
		}
	} else if strings.ContainsAny(m.X, "(:") && !plainColumns.MatchString(strings.TrimSpace(m.X)) { // more than names
		made = append(made, "the fields of "+m.X)
	}
	if len(made) > 0 && format != "json" {
		notes = append(notes, "columns that the model makes of others have to be in the table, by these names: "+strings.Join(made, "; "))
	}
	if len(offset) > 0 {
		notes = append(notes, "the fit has an offset, which is left out here and has to be added to the linear predictor (eta_mean): "+strings.Join(offset, " + "))
	}
	return notes, nil
}

// plainColumns matches an x that consists of unchanged columns.
var plainColumns = regexp.MustCompile(`(?is)^struct_pack\(\s*\*\s*COLUMNS\(\s*(\*(\s*EXCLUDE\s*(\([^()]*\)|"?\w+"?))?|'[^']*')\s*\)\s*\)$`)

// madeColumns are those that a formula computes from others, with their definitions.
func madeColumns(s *duck.Session, p *formula.Formula, dot []string, format string) (made []string, err error) {
	features, err := s.Texts("SELECT DISTINCT b.feature FROM (SELECT unnest(fit.beliefs) AS b FROM fits) ORDER BY 1")
	if err != nil {
		return nil, err
	}
	var known bool // whether the columns of features are known
	if err := s.Row("SELECT coalesce(len(fit.columns) > 0, false) FROM fits", &known); err != nil {
		return nil, err
	}
	if p.Dot {
		columns := slices.Clone(dot)
		for _, t := range p.Terms {
			for _, part := range t {
				columns = append(columns, part.Name)
			}
		}
		if err := p.Bind(columns, "", dot...); err != nil {
			return nil, err
		}
	}
	for _, c := range p.DerivedColumns(features) {
		apart := func(part string) bool {
			return slices.ContainsFunc(features, func(w string) bool { return formula.OfColumn(w, part) })
		}
		switch {
		case c.In != "" && len(c.Has) > 0:
			const most = 20
			names := quote.Names(c.Has[:min(most, len(c.Has))])
			if more := len(c.Has) - most; more > 0 {
				names += fmt.Sprintf(" and %d more", more)
			}
			made = append(made, names+" of "+c.In)
		case c.In != "":
		case format == "pmml" && known && len(c.Of) > 0 && !slices.ContainsFunc(c.Of, func(part string) bool { return !apart(part) }):
			// PMML computes it from its parts.
		default:
			made = append(made, quote.Name(c.Name)+" is "+c.SQL)
		}
	}
	return made, nil
}

// commented is a text preceded by notes, as comments of its format.
func commented(text, format string, notes []string) string {
	switch format {
	case "sql":
		head := ""
		for _, n := range notes {
			head += "-- " + strings.Join(strings.Fields(n), " ") + "\n"
		}
		return head + text + ";"
	case "pmml":
		first, rest, _ := strings.Cut(text, "\n")
		for _, n := range notes {
			first += "\n<!-- " + strings.ReplaceAll(strings.Join(strings.Fields(n), " "), "--", "- -") + " -->"
		}
		return first + "\n" + rest
	}
	return text
}

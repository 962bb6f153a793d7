package export

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bglm/bglm/kernels/argument"
)

// dialect is how a database writes what is not standard SQL.
type dialect struct {
	name    string
	real    string // type of numbers
	text    string // type of text
	quote   string // quotation mark of names, doubled inside
	folds   bool   // names that differ in case alone are one
	slashes bool   // a backslash is an escape in text, and in BigQuery's names
	literal string // format of a number
	least   string
	most    string
	joins   bool // text || fails for a list, whose cast to text would not
	values  func(name string, columns []string, rows [][]string) string
}

var dialects = []dialect{
	{name: "duckdb", real: "DOUBLE", text: "VARCHAR", quote: `"`, folds: true, literal: "%s", least: "least", most: "greatest", joins: true, values: standardValues},
	{name: "sqlite", real: "REAL", text: "TEXT", quote: `"`, folds: true, literal: "%s", least: "min", most: "max", values: standardValues},
	{name: "postgres", real: "DOUBLE PRECISION", text: "TEXT", quote: `"`, literal: "'%s'::float8", least: "least", most: "greatest", joins: true, values: standardValues},
	{name: "bigquery", real: "FLOAT64", text: "STRING", quote: "`", slashes: true, folds: true, literal: "%s", least: "least", most: "greatest", values: structValues},
	{name: "snowflake", real: "DOUBLE", text: "VARCHAR", quote: `"`, slashes: true, literal: "%s::DOUBLE", least: "least", most: "greatest", values: columnValues},
}

// Dialects returns the names that SQL accepts.
func Dialects() []string {
	var out []string
	for _, d := range dialects {
		out = append(out, d.name)
	}
	return out
}

func dialectOf(name string) (*dialect, error) {
	word := strings.ToLower(name)
	if word == "postgresql" {
		word = "postgres"
	}
	for k := range dialects {
		if dialects[k].name == word {
			return &dialects[k], nil
		}
	}
	return nil, argument.Word("dialect", name, Dialects())
}

// number is a literal that the database reads as the same double, up to its rounding.
func (d *dialect) number(x float64) string {
	return fmt.Sprintf(d.literal, strconv.FormatFloat(x, 'e', -1, 64))
}

// string is a literal of s. What a database cannot store has been rejected before (checkText).
func (d *dialect) string(s string) string {
	s = strings.ReplaceAll(s, "'", "''")
	if !d.slashes {
		return "'" + s + "'"
	}
	s = strings.ReplaceAll(s, "''", `\'`)
	// Quotes are already escaped by backslashes: escape the other backslashes first.
	s = strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(s, `\'`, "\x00"), `\`, `\\`), "\x00", `\'`)
	return "'" + strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s) + "'"
}

// ident is a quoted name.
func (d *dialect) ident(s string) string {
	if d.quote == "`" {
		return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`", "\n", `\n`, "\r", `\r`).Replace(s) + "`"
	}
	return d.quote + strings.ReplaceAll(s, d.quote, d.quote+d.quote) + d.quote
}

// checkText rejects what some database cannot store as text.
func checkText(what, s string) error {
	if strings.ContainsRune(s, 0) {
		return fmt.Errorf("%s %q has a zero byte, which SQL cannot write", what, s)
	}
	return nil
}

func (d *dialect) cast(expression, to string) string { return "CAST(" + expression + " AS " + to + ")" }

// levels reads a column's levels as text. A list, which has several, is an error where the database
// would write it as the text of one unknown level.
func (d *dialect) levels(column string) string {
	if d.joins {
		column = "(" + column + " || '')"
	}
	return d.cast(column, d.text)
}

// exp is e^x without overflow or underflow, which are errors in some databases.
func (d *dialect) exp(x string) string {
	return "exp(" + d.least + "(" + d.most + "(" + x + ", " + d.number(-700) + "), " + d.number(700) + "))"
}

func tuples(rows [][]string) string {
	out := make([]string, len(rows))
	for k, r := range rows {
		out[k] = "(" + strings.Join(r, ", ") + ")"
	}
	return strings.Join(out, ",\n    ")
}

// standardValues is a common table of rows.
func standardValues(name string, columns []string, rows [][]string) string {
	return name + "(" + strings.Join(columns, ", ") + ") AS (VALUES\n    " + tuples(rows) + ")"
}

func structValues(name string, columns []string, rows [][]string) string {
	first := make([]string, len(columns))
	for k, c := range columns {
		first[k] = rows[0][k] + " AS " + c
	}
	all := append([]string{"STRUCT(" + strings.Join(first, ", ") + ")"}, strings.Split(tuples(rows[1:]), ",\n    ")...)
	if len(rows) == 1 {
		all = all[:1]
	}
	return name + " AS (SELECT * FROM UNNEST([\n    " + strings.Join(all, ",\n    ") + "]))"
}

func columnValues(name string, columns []string, rows [][]string) string {
	as := make([]string, len(columns))
	for k, c := range columns {
		as[k] = fmt.Sprintf("column%d AS %s", k+1, c)
	}
	return name + " AS (SELECT " + strings.Join(as, ", ") + " FROM VALUES\n    " + tuples(rows) + ")"
}

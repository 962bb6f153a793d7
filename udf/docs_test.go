package udf_test

import (
	"database/sql"
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/fitlayout"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	sqlfiles "github.com/bglm/bglm/sql"
	"github.com/bglm/bglm/udf"
)

var update = flag.Bool("update", false, "write the generated pages")

// tasks are the functions by what one wants of them, in the order of the page.
var tasks = []struct{ title, functions string }{
	{"Fitting", "fit laplace ep adf lowrank sequential_laplace variational ekf hmc smooth softmax gp"},
	{"Predicting", "predict predict_dist sample loo_predict"},
	{"Reading a fit", "summary contrast pairs effects drivers influence robust beliefs"},
	{"Checking a fit", "progressive loo loo_auc loo_compare ppc pit auc log_loss brier rmse calibration coverage"},
	{"Continuing, merging, passes", "update merge from_beliefs newton_state newton_merge newton_solve"},
	{"Scoring without bglm", "sql pmml"},
	{"Help and state", "help functions options families features macros version state purge"},
}

// byTask are the functions in the order of tasks, with the title before the first of each.
func byTask(t *testing.T) (titles []string, functions [][]udf.Function) {
	t.Helper()
	left := map[string]udf.Function{}
	for _, f := range udf.Functions() {
		left[f.Name] = f
	}
	for _, task := range tasks {
		var all []udf.Function
		for _, name := range strings.Fields(task.functions) {
			f, ok := left["bglm_"+name]
			if !ok {
				t.Errorf("no function bglm_%s", name)
			}
			delete(left, "bglm_"+name)
			all = append(all, f)
		}
		titles, functions = append(titles, task.title), append(functions, all)
	}
	for name := range left {
		t.Errorf("%s is of no task of docs/functions.md", name)
	}
	return titles, functions
}

// docs/functions.md is the registry printed, each example with its result; the
// test fails when the page is not what the code says.
func TestFunctionsDoc(t *testing.T) {
	kerneltest.Slow(t)
	db := open(t)
	wrong, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# SQL functions\n\nThis page lists every function, table macro and option, and the fields of a FIT. It is generated from the code (`make docs`), and a test compares the two. Every example runs as it stands.\n\n")
	b.WriteString("The arguments of most functions are the response `y`, BOOLEAN or a number, and the features `x`: a STRUCT, a MAP(VARCHAR or integer, number), a LIST(STRUCT(feature, value)), a LIST(VARCHAR) or a list of numbers. Fields of a STRUCT may also be maps and lists of features.\n")
	titles, functions := byTask(t)
	b.WriteString("\n| task | functions |\n|---|---|\n")
	for k, title := range titles {
		var links []string
		for _, f := range functions[k] {
			links = append(links, fmt.Sprintf("[%s](#%s)", f.Name, f.Name))
		}
		fmt.Fprintf(&b, "| %s | %s |\n", title, strings.Join(links, ", "))
	}
	b.WriteString("| Working with tables | [table macros](#table-macros) |\n| Looking up | [the FIT](#the-fit), [options](#options) |\n")
	for k := range titles {
		fmt.Fprintf(&b, "\n## %s\n", titles[k])
		for _, f := range functions[k] {
			function(t, db, &b, &f, string(wrong))
		}
	}
	b.WriteString("\n## Table macros\n\nThe script `sql/bglm.sql`, which `bglm_macros()` returns, creates them; `bglm sql` has them already. Give a table by its name or as a query, in quotes, and columns as expressions without quotes. The head of the script has examples.\n\n| macro | description |\n|---|---|\n")
	for _, m := range sqlfiles.List() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", m.Signature, strings.ReplaceAll(m.Doc, "|", "\\|"))
	}
	b.WriteString("\n## The FIT\n\nA FIT is what the fitting functions return. It holds all that predicting, continuing and merging need. BELIEF is STRUCT(feature VARCHAR, mean DOUBLE, variance DOUBLE).\n\n| field | type | NULL | meaning |\n|---|---|---|---|\n")
	for k := range fitlayout.Fields {
		f := &fitlayout.Fields[k]
		null := ""
		if f.Nullable {
			null = "if none"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.Name, f.SQL(), null, udf.Told(f.Doc))
	}
	fmt.Fprintf(&b, "\nThe FIT of `bglm_softmax`:\n\n```\n%s\n```\n", fitlayout.SQL(kernels.FitFormat, true))
	b.WriteString("\n## Options\n\nOptions are one STRUCT, the last argument; NULL stands for all defaults. `weight`, `offset`, `trials` and `time` may be columns and are read for each row. The others are constants, read from the first row of a group.\n\n| key | default | allowed | meaning |\n|---|---|---|---|\n")
	for _, o := range option.All() {
		doc := udf.Told(o.Doc)
		if o.Reserved {
			doc += fmt.Sprintf("; the key is a reserved word of SQL: write `%s_` or `\"%s\"`", o.Key, o.Key)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", o.Key, udf.Told(o.Default), strings.ReplaceAll(o.Allowed(udf.OptionWords), "|", "\\|"), doc)
	}
	upToDate(t, "../docs/functions.md", b.String())
	upToDate(t, "../docs/function_descriptions.csv", descriptions(t))
}

// function writes the paragraph of one function.
func function(t *testing.T, db *sql.DB, b *strings.Builder, f *udf.Function, wrong string) {
	t.Helper()
	fmt.Fprintf(b, "\n### %s\n\n`%s` → `%s` (%s)\n\n%s\n\n```sql\n%s\n```\n", f.Name, f.Signature, f.Result, f.Kind, f.Description, f.Example)
	if len(f.Options) > 0 {
		fmt.Fprintf(b, "\nOptions: %s.\n", strings.Join(f.Options, ", "))
	}
	b.WriteString("\n" + markdown(t, db, f.Example))
	if n := strings.Count(wrong, f.Name+"("); n > 0 {
		fmt.Fprintf(b, "\nErrors: [examples](errors.md) (%d).\n", n)
	}
}

// descriptions are the functions in the form of DuckDB's community catalogue.
func descriptions(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	w := csv.NewWriter(&b)
	rows := [][]string{{"function", "description", "comment", "example"}}
	for _, f := range udf.Functions() {
		rows = append(rows, []string{f.Name, f.Description, f.Signature + " (" + f.Kind + ")", f.Example})
	}
	if err := w.WriteAll(rows); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// upToDate compares a generated file with what it should be, or writes it.
func upToDate(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s is out of date: run make docs", path)
	}
}

// TestPitfalls: every test that docs/duckdb.md names is there, and every pitfall names one.
func TestPitfalls(t *testing.T) {
	page, err := os.ReadFile("../docs/duckdb.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "*/*_test.go", "*/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(b), -1) {
				there[m[1]] = true
			}
		}
	}
	names := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(page), -1)
	if len(names) < 30 {
		t.Errorf("found %d names of tests", len(names))
	}
	for _, n := range names {
		if !there[n] {
			t.Errorf("docs/duckdb.md names %s, which is not there", n)
		}
	}
	rows := regexp.MustCompile(`(?m)^\| \d+ \|.*$`).FindAllString(string(page), -1)
	if len(rows) < 25 {
		t.Errorf("found %d pitfalls", len(rows))
	}
	for _, row := range rows {
		if cells := strings.Split(row, "|"); len(cells) != 8 || !strings.Contains(cells[5], "Test") {
			t.Errorf("docs/duckdb.md names no test for%s", row)
		}
	}
}

// TestEmbeddedVersion: the DuckDB that is linked in is the one that go.mod, the other modules,
// the pages and the error of Register name, and among those that the rules were tested in.
func TestEmbeddedVersion(t *testing.T) {
	var version string
	if err := open(t).QueryRow("SELECT version()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "v%d.%d.%d", &major, &minor, &patch); err != nil {
		t.Fatalf("%s: %v", version, err)
	}
	version, number := strings.TrimPrefix(version, "v"), fmt.Sprintf("%d%02d%02d.", major, minor, patch)
	for file, want := range map[string]string{
		"../go.mod":                 "github.com/duckdb/duckdb-go/v2 v2." + number,
		"../notebooks/go.mod":       "github.com/duckdb/duckdb-go/v2 v2." + number,
		"../arrowio/beam/go.sum":    "github.com/duckdb/duckdb-go/v2 v2." + number,
		"register.go":               "github.com/duckdb/duckdb-go/v2 v2." + number,
		"../README.md":              "embedded through duckdb-go v2." + number,
		"../docs/duckdb.md":         "and " + version + " embedded.",
		"internal/capi/releases.go": `"` + version + `"`,
		"sqltest/clients_test.go":   `"` + version + "-",
		"sqltest/README.md":         "cases " + version + "-",
		"bench/client.mjs":          "const version = '" + version + "-",
	} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), want) {
			t.Errorf("%s does not say %q, though DuckDB %s is linked in", file, want, version)
		}
		for _, old := range regexp.MustCompile(`duckdb-go(?:-bindings\S*|/v2)? v\d+\.(\d{5}\.)`).FindAllStringSubmatch(string(b), -1) {
			if old[1] != number {
				t.Errorf("%s has %s beside DuckDB %s", file, old[0], version)
			}
		}
	}
}

// markdown runs a query and prints its result as a table.
func markdown(t *testing.T, db *sql.DB, q string) string {
	t.Helper()
	rows, err := db.Query("SELECT COLUMNS(*)::VARCHAR FROM (" + strings.TrimSuffix(q, ";") + ")")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i, c := range cols {
		if strings.ContainsAny(c, "(|") {
			cols[i] = "result"
		}
	}
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(cols, " | "), strings.Repeat("---|", len(cols)))
	cells := make([]sql.NullString, len(cols))
	ptrs := make([]any, len(cols))
	for i := range cells {
		ptrs[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(ptrs...); err != nil {
			t.Fatal(err)
		}
		b.WriteString("|")
		for _, c := range cells {
			if !c.Valid {
				c.String = "NULL"
			}
			fmt.Fprintf(&b, " %s |", strings.ReplaceAll(c.String, "|", "\\|"))
		}
		b.WriteString("\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

package job

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/formula"
	"github.com/bglm/bglm/cmd/internal/quote"
)

func open(t *testing.T, stdin string) *duck.Session {
	t.Helper()
	s, err := duck.Open(&cli.Env{Ctx: t.Context(), Stdin: strings.NewReader(stdin), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOptionSQL(t *testing.T) {
	for in, want := range map[[2]string]string{
		{"link", "probit"}: "'probit'", {"prior_variance", "2.5"}: "2.5", {"prior_variance", "auto"}: "'auto'", {"prior_variance", "inf"}: "'inf'",
		{"intercept", "false"}: "false", {"weight", "w + 1"}: "w + 1", {"priors", "MAP {'a': 1}"}: "MAP {'a': 1}", {"link", "'logit'"}: "'logit'", {"on_error", "null"}: "'null'", {"shape", "null"}: "null",
	} {
		if got := OptionSQL(in[0], in[1]); got != want {
			t.Errorf("%s=%s: %s, want %s", in[0], in[1], got, want)
		}
	}
	for flag, want := range map[string]string{"link": "key=value", "out.parquet": "-o is not --out FILE", "a b=1": "key=value", "prior=x.parquet": "--prior", "offset=log(t + 1)": "write offset=ln(t + 1), or offset=log10(t + 1)", "offset= LOG(t)": "offset=ln(t)"} {
		if _, err := ParseOptions([]string{flag}); !cli.IsUsage(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flag, err, want)
		}
	}
	for _, flag := range []string{"offset=log10(t)", "offset=log(2, t)", "offset=ln(t)", "weight=log(t)"} {
		if _, err := ParseOptions([]string{flag}); err != nil {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if _, err := ParseOptions([]string{"link=a", "link=b"}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("%v", err)
	}
	s := open(t, "")
	set, err := Settings(s, FitOptions(), [][2]string{{"link", "probit"}, {"prior_variance", "1 + 1"}, {"weight", "no such column"}})
	if err == nil || !strings.Contains(err.Error(), "prior_variance") {
		t.Errorf("a text for a number: %+v (%v)", set, err)
	}
	if set, err = Settings(s, FitOptions(), [][2]string{{"link", "probit"}, {"prior_variance", "(1 + 1)"}, {"weight", "no such column"}}); err != nil || set.Link != "probit" || set.Prior.Variance != 2 {
		t.Errorf("%+v (%v)", set, err)
	}
}

const rows = "y,g,x,name\n1,a,2,u\n0,b,3,v\n1,a,4,u\n"

// Each kind of source gives the same rows, numbered from 1 in each file.
func TestSources(t *testing.T) {
	s := open(t, rows)
	csv := write(t, "rows.csv", rows)
	path := func(name string) string { return filepath.Join(filepath.Dir(csv), name) }
	for _, q := range []string{"COPY (FROM read_csv('" + csv + "')) TO '" + path("rows.parquet") + "'", "COPY (FROM read_csv('" + csv + "')) TO '" + path("rows.json") + "'",
		"ATTACH '" + path("rows.duckdb") + "' AS d; CREATE TABLE d.rows AS FROM read_csv('" + csv + "'); DETACH d"} {
		if err := s.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{csv, path("rows.parquet"), path("rows.json"), "-", path("rows.duckdb")} {
		src, err := Open(s, Data{Data: []string{name}, Where: "x > 2"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var n, last int
		if err := s.Row("SELECT count(*), max(bglm_row) FROM "+src.Numbered(), &n, &last); err != nil || n != 2 || last != 3 {
			t.Errorf("%s: %d rows, the last %d (%v)", name, n, last, err)
		}
		if got := src.FileName(src.Read[0]); got != name && !(name == "-" && got == "standard input") {
			t.Errorf("%s is called %s", name, got)
		}
	}
	for _, c := range []struct {
		d    Data
		want string
	}{
		{Data{}, "no data"}, {Data{Data: []string{"a.xyz"}}, "does not say"}, {Data{Data: []string{csv, path("rows.json")}}, "all must be of one format"},
		{Data{Data: []string{path("*.no")}}, "no such file"},
	} {
		if _, err := Open(s, c.d); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.d, err, c.want)
		}
	}
}

func TestJob(t *testing.T) {
	s := open(t, "")
	src, err := Open(s, Data{Files: []string{write(t, "rows.csv", rows)}})
	if err != nil {
		t.Fatal(err)
	}
	j, err := New(src, Model{Formula: "Y ~ x + NAME + offset(x) - 1", Group: []string{"g, x > 2 AS big"}, Order: "x", Option: []string{"weight=x", "offset=1", "link=probit"}}, true)
	if err != nil {
		t.Fatal(err)
	}
	if j.Y != `"Y"` || j.X != `{'x': "x", 'NAME': "name"}` || strings.Join(j.GroupNames(), " ") != "g big" || j.Method != "auto" {
		t.Errorf("%+v", j)
	}
	if got, want := j.OptionsText(Setting{Key: "seed", SQL: "1"}), "{'weight': bglm_weight, 'offset': bglm_offset, 'link': 'probit', 'intercept': false, 'seed': 1}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := j.Inner("r"), `SELECT g, x > 2 AS big, ("Y") AS bglm_y, ({'x': "x", 'NAME': "name"}) AS bglm_x, (x) AS bglm_weight, ((1) + (x)) AS bglm_offset FROM r ORDER BY x`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if i := slices.Index(j.Meta, "group.big"); i < 0 || j.Meta[i+1] != "x > 2 AS big" {
		t.Errorf("%q", j.Meta)
	}
	for _, c := range []struct {
		m    Model
		want string
	}{
		{Model{}, "no model"}, {Model{Formula: "y ~ x", Y: "y"}, "two ways"}, {Model{Y: "y"}, "belong together"}, {Model{Formula: "y ~ nope"}, "no column nope"},
		{Model{Formula: "y ~ x", Group: []string{"g, g"}}, "--group g"}, {Model{Formula: "y ~ x", Group: []string{"x AS fit"}}, "fit"},
		{Model{Formula: "y ~ x - 1", Option: []string{"intercept=true"}}, "no intercept"},
	} {
		if _, err := New(src, c.m, true); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.m, err, c.want)
		}
	}
}

// A fit continues a table of fits, and an error names the row it rejects.
func TestFit(t *testing.T) {
	s := open(t, "")
	path := write(t, "rows.csv", rows)
	fit := func(prior string) error {
		src, err := Open(s, Data{Files: []string{path}})
		if err != nil {
			t.Fatal(err)
		}
		j, err := New(src, Model{Formula: "y ~ x", Group: []string{"g"}, Order: "x"}, true)
		if err != nil {
			t.Fatal(err)
		}
		return j.Fit(src, prior, false)
	}
	if err := errors.Join(fit(""), s.Exec("CREATE TEMP TABLE before AS FROM fits"), os.WriteFile(path, []byte("y,g,x\n0,a,1\n1,c,2\n"), 0o600), fit("before")); err != nil {
		t.Fatal(err)
	}
	var n string
	if err := s.Row("SELECT string_agg(g || fit.n, ' ' ORDER BY g) FROM fits", &n); err != nil || n != "a3 b1 c1" {
		t.Errorf("%s (%v)", n, err)
	}
	if err := os.WriteFile(path, []byte("y,g,x\n0,a,1\n1,c,2\n7,a,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fit(""); err == nil || !strings.HasPrefix(err.Error(), path+", row 3: ") {
		t.Errorf("%v", err)
	}
	if _, err := Function(s, "laplase"); !cli.IsUsage(err) || !strings.Contains(err.Error(), "the nearest is laplace") {
		t.Errorf("%v", err)
	}
}

func TestArrow(t *testing.T) {
	s := open(t, "")
	csv := write(t, "rows.csv", rows)
	path := csv + ".parquet"
	if err := s.Exec("COPY (FROM read_csv(" + quote.Text(csv) + ")) TO " + quote.Text(path)); err != nil {
		t.Fatal(err)
	}
	a, err := NewArrow(s, Data{Data: []string{path, path}}, Model{Formula: "y ~ x + name", Group: []string{"g"}, Option: []string{"link=probit"}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := a.Fit()
	if err != nil || len(g.Fits) != 2 || g.Fits[0].N+g.Fits[1].N != 6 || !a.Grouped() {
		t.Errorf("%+v (%v)", g, err)
	}
	if g != nil {
		g.Keys.Release()
	}
	for _, c := range []struct {
		d    Data
		m    Model
		want string
	}{
		{Data{Data: []string{path}}, Model{Formula: "y ~ x", Order: "x"}, "--order needs SQL"},
		{Data{Data: []string{path}}, Model{Formula: "y ~ x + hour(d)"}, "hour(d) is an SQL expression"},
		{Data{Data: []string{path}}, Model{Formula: "y ~ ."}, "no dot"},
		{Data{Data: []string{path}}, Model{Formula: "y ~ x", Method: "nope"}, "--engine duckdb"},
		{Data{Data: []string{path}}, Model{Formula: "y ~ x", Method: "softmax"}, "--method softmax: y is a label, and --engine arrow reads numbers; it goes with --engine duckdb"},
		{Data{Data: []string{path}}, Model{Formula: "y ~ x", Method: "gp"}, "--method gp: x is a point"},
		{Data{Data: []string{csv}}, Model{Formula: "y ~ x"}, "the data are csv"},
	} {
		if _, err := NewArrow(s, c.d, c.m); !cli.IsUsage(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.m, err, c.want)
		}
	}
	if err := inFile("a.arrow", 10, errors.New("arrowio: row 12: no")); err.Error() != "a.arrow, row 2: no" {
		t.Error(err)
	}
}

// A folder is said to be one, whether or not its name says a format.
func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rows")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Data{}).Kind([]string{dir}); err == nil || !strings.Contains(err.Error(), "a folder") {
		t.Errorf("%v", err)
	}
}

// DuckDB's advice about parameters of its CSV reader is left out; the line that does not fit is
// found.
func TestSniffed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.csv")
	src := &Source{Kind: "csv", Files: []string{"-"}, Read: []string{path}}
	text := "Invalid Input Error: Error when sniffing file \"" + path + "\".\nIt was not possible to automatically detect the CSV parsing dialect\nThe search space used was:\nDelimiter Candidates: ','\nPossible fixes:\n* null_padding=true"
	for content, want := range map[string]string{
		"a,b\n1,2\n\"3\n4\",5\n6\n7,8\n": "standard input, line 5: its number of fields is 1, that of the first line 2",
		"a;b;c\n1;2;3\n1;2;3;4\n":        "standard input, line 3: its number of fields is 4, that of the first line 3",
		"nothing\nof the kind\n":         "standard input: no CSV whose lines have equally many fields, between commas, semicolons, tabs or bars",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := src.sniffed(text); got != want {
			t.Errorf("%q: %s", content, got)
		}
	}
	if got := src.sniffed("Binder Error: no column"); got != "Binder Error: no column" {
		t.Error(got)
	}
}

// Types of many parts are one question, and a wrong part takes few more.
func TestTypes(t *testing.T) {
	s := open(t, "")
	terms := []string{}
	for i := range 200 {
		terms = append(terms, fmt.Sprintf("c%d", i))
	}
	if err := s.Exec("CREATE TABLE t (y INTEGER, " + strings.Join(terms, " DOUBLE, ") + " DOUBLE)"); err != nil {
		t.Fatal(err)
	}
	for wrong, most := range map[string]int{"": 1, "ln('a' || c0)": 20} {
		text := "y ~ " + strings.Join(terms, " + ")
		if wrong != "" {
			text += " + " + wrong
		}
		f, err := formula.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		types := typesOf(f, "t", func(q string) ([]duck.Column, error) { asked++; return s.Describe(q) })
		for _, term := range f.Terms {
			typ, err := types(term[0].SQL)
			if (err != nil) != (term.Name() == wrong) || err == nil && typ != "DOUBLE" {
				t.Fatalf("%s is %q (%v)", term.Name(), typ, err)
			}
		}
		if asked > most {
			t.Errorf("with %q: %d statements, want at most %d", wrong, asked, most)
		}
	}
}

// More than 200 columns of JSON stay columns, and an object of many keys inside one a MAP.
func TestWideJSON(t *testing.T) {
	var wide, keys strings.Builder
	for i := range 20 {
		fmt.Fprintf(&wide, `{"y": %d`, i%2)
		for k := range 300 {
			fmt.Fprintf(&wide, `, "c%d": %d`, k, i*k%7)
		}
		wide.WriteString("}\n")
		fmt.Fprintf(&keys, `{"y": %d, "words": {`, i%2)
		for k := range 20 {
			fmt.Fprintf(&keys, `%s"w%d": 1`, ", "[:min(2, 2*k)], 20*i+k)
		}
		keys.WriteString("}}\n")
	}
	s := open(t, "")
	for name, c := range map[string]struct {
		text string
		n    int
		last string
	}{"wide.json": {wide.String(), 301, "BIGINT"}, "keys.json": {keys.String(), 2, "MAP(VARCHAR, BIGINT)"}} {
		src, err := Open(s, Data{Data: []string{write(t, name, c.text)}})
		if err != nil {
			t.Fatal(err)
		}
		for rows, more := range map[string]int{src.Rows(): 0, src.Numbered(): 2} {
			cols, err := s.Describe("FROM " + rows)
			if err != nil || len(cols) != c.n+more || cols[c.n-1].Type != c.last {
				t.Errorf("%s: %d columns (%v) of %s", name, len(cols), err, rows)
			}
		}
	}
}

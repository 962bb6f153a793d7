package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// Text behind the rows that DuckDB takes the types of columns from is read as it is before them.
func TestLateText(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	rows := func(text int) string {
		var b strings.Builder
		b.WriteString("y,x\n")
		for i := range 22_000 {
			x := fmt.Sprintf("%d.5", i*7919%40)
			if i == text {
				x = "n/a"
			}
			fmt.Fprintf(&b, "%d,%s\n", i%2, x)
		}
		return b.String()
	}
	path := func(n string) string { return filepath.Join(dir, n) }
	for name, text := range map[string]int{"early.csv": 100, "late.csv": 21_500} {
		if err := os.WriteFile(path(name), []byte(rows(text)), 0o600); err != nil {
			t.Fatal(err)
		}
		r := ok(t, "fit", path(name), "-f", "y ~ x", "-m", "adf", "--out", path("f.parquet"))
		if !strings.Contains(r.stdout, "column x was learnt as levels: its texts are numbers but for 'n/a'; TRY_CAST(x AS DOUBLE)") {
			t.Errorf("%s: %s", name, r.stdout)
		}
		if note := "line 21502: column x"; strings.Contains(r.stderr, note) != (name == "late.csv") || strings.Contains(r.stderr, "sample_size") {
			t.Errorf("%s: %s", name, r.stderr)
		}
	}
	// The cure works, of the standard input too.
	for _, from := range []string{path("late.csv"), "-"} {
		r := bglm(t, rows(21_500), "fit", "--data", from, "-f", "y ~ TRY_CAST(x AS DOUBLE)", "-m", "adf", "--out", path("f.parquet"))
		if r.code != 0 || !strings.Contains(r.stdout, "22,000 rows, 3 weights") {
			t.Errorf("%s: %d, %s%s", from, r.code, r.stdout, r.stderr)
		}
	}
	ok(t, "predict", "-b", path("f.parquet"), path("late.csv"), "--out", path("p.parquet"), "-q")
}

// DuckDB takes all quotation marks of such a file for text.
func TestQuotationWithoutEnd(t *testing.T) {
	half := strings.Repeat("0,\"a\"\n1,\"b\"\n", 25)
	broken := "y,s\n" + half + "1,\"abc\n" + half
	whole := file(t, "whole.csv", "y,s\n"+half)
	out := filepath.Join(t.TempDir(), "f.parquet")
	r := bglm(t, "", "fit", file(t, "q.csv", broken), "-f", "y ~ s", "--out", out)
	if r.code != 1 || !strings.Contains(r.stderr, "q.csv: damaged, or no CSV: a quotation that begins in line 52 has no end") {
		t.Errorf("%d: %s", r.code, r.stderr)
	}
	late := file(t, "late.csv", "y,s\n"+strings.Repeat(half, 450)+"1,\"abc\n"+half)
	if r := bglm(t, "", "fit", late, "-f", "y ~ s", "--out", out); r.code != 1 || !strings.Contains(r.stderr, "late.csv: damaged, or no CSV: a quotation that begins in line 22502 has no end") {
		t.Errorf("%d: %s", r.code, r.stderr)
	}
	ok(t, "fit", whole, "-f", "y ~ s", "--out", out, "-q")
	if r := bglm(t, broken, "predict", "-b", out, "--data", "-", "--format", "csv", "--out", "-"); r.code != 1 || !strings.Contains(r.stderr, "standard input: damaged") {
		t.Errorf("%d: %s", r.code, r.stderr)
	}
}

// Columns of one name are told apart by names that nobody gave.
func TestColumnsOfOneName(t *testing.T) {
	rows := strings.Repeat("0,1.5,2.5,7\n1,2.5,0.5,8\n", 20)
	data, out := file(t, "dup.csv", "y,a,a,A\n"+rows), filepath.Join(t.TempDir(), "f.parquet")
	r := ok(t, "fit", data, "-f", "y ~ a + a_1", "--out", out, "-q")
	for _, want := range []string{"dup.csv: more than one column is called a; column 3 is a_1 here", "called A; column 4 is A_2 here"} {
		if strings.Count(r.stderr, want) != 1 {
			t.Errorf("no %q in %s", want, r.stderr)
		}
	}
	if r := ok(t, "fit", file(t, "plain.csv", "y,a,b,c\n"+rows), "-f", "y ~ a", "--out", out, "-q"); r.stderr != "" {
		t.Error(r.stderr)
	}
	scores := filepath.Join(t.TempDir(), "p.csv")
	if r := bglm(t, "", "predict", "-b", out, data, "--columns", "a, y, A", "--out", scores); r.code != 2 || !strings.Contains(r.stderr, `--columns a, y, A: two of them are called "a"`) {
		t.Errorf("%d: %s", r.code, r.stderr)
	}
}

// onFirst calls back before the first text is written.
type onFirst struct {
	bytes.Buffer
	then func()
}

func (w *onFirst) Write(p []byte) (int, error) {
	if w.then != nil {
		w.then()
		w.then = nil
	}
	return w.Buffer.Write(p)
}

// A file that is cut or written to while a job reads it is an error, and nothing is written: columns
// of one name are told before rows are read, which is when the test changes the file.
func TestChangedWhileRead(t *testing.T) {
	rows := "y,a,a\n" + strings.Repeat("0,1.5,2.5\n1,2.5,0.5\n1,1.5,1.5\n", 40)
	data, dir := file(t, "dup.csv", rows), t.TempDir()
	fit := filepath.Join(dir, "f.parquet")
	ok(t, "fit", data, "-f", "y ~ a + a_1", "--out", fit, "-q")
	for _, text := range []string{rows[:len(rows)/2], rows + "0,1,1\n"} {
		text = text[:strings.LastIndexByte(text, '\n')+1]
		for _, args := range [][]string{
			{"fit", data, "-f", "y ~ a + a_1", "--out", filepath.Join(dir, "g.parquet")},
			{"fit", data, "-f", "y ~ a + a_1", "--out", filepath.Join(dir, "g.duckdb")},
			{"fit", data, "-f", "y ~ a + a_1", "--out-of-core", "--out", filepath.Join(dir, "g.csv")},
			{"predict", data, "-b", fit, "--out", filepath.Join(dir, "p.csv")},
			{"predict", data, "-b", fit, "--out", filepath.Join(dir, "p.arrow")},
			{"predict", data, "-b", fit, "--out", filepath.Join(dir, "p.duckdb")},
			{"predict", data, "-b", fit, "--out", "-"},
			{"evaluate", data, "-b", fit},
			{"effects", data, "-b", fit, "--column", "a"},
			{"report", data, "-b", fit, "--out", filepath.Join(dir, "r.html")},
		} {
			if err := os.WriteFile(data, []byte(rows), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			stderr := &onFirst{then: func() {
				if err := os.WriteFile(data, []byte(text), 0o600); err != nil {
					t.Error(err)
				}
			}}
			code := run(t.Context(), args, strings.NewReader(""), &out, stderr)
			if code != 1 || out.Len() > 0 || !strings.Contains(stderr.String(), "dup.csv changed while it was read") {
				t.Errorf("%v: exit code %d, %s%s", args, code, out.String(), stderr.String())
			}
			if left, err := filepath.Glob(filepath.Join(dir, "[gpr].*")); err != nil || len(left) > 0 {
				t.Errorf("%v left %v (%v)", args, left, err)
			}
		}
	}
}

// A column without a name, as pandas writes that of its index, is no damage, nor is one called as
// DuckDB calls those.
func TestColumnsWithoutName(t *testing.T) {
	dir := t.TempDir()
	data, out := filepath.Join(dir, "d.csv"), filepath.Join(dir, "f.parquet")
	for _, c := range []struct{ header, said, features string }{
		{",y,x", "column 1 has no name; it is column0 here", "(Intercept) column0 x"},
		{"y,x,", "column 3 has no name; it is column2 here", "(Intercept) column2 x"},
		{"x,y,column1", "", "(Intercept) column1 x"},
		{"y,x,\"two\nlines\"", "", "(Intercept) two\nlines x"},
	} {
		if err := os.WriteFile(data, []byte(c.header+"\n0,1,0.5\n1,0,3\n0,1,1\n1,1,7\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		r := ok(t, "fit", data, "-f", "y ~ .", "-o", "family=gaussian", "-q", "--out", out)
		if said := strings.TrimSpace(r.stderr); said != "" && c.said == "" || !strings.Contains(said, c.said) {
			t.Errorf("%q: %q, want %q", c.header, said, c.said)
		}
		if got := strings.Trim(query(t, "SELECT string_agg(feature, ' ') FROM '"+out+"'"), `"`); got != c.features {
			t.Errorf("%q: features %q, want %q", c.header, got, c.features)
		}
	}
	for _, text := range []string{",y,x\n0,1,2.5\n1,0\n2,1,1\n", "y,,x\n0,1,2.5\n1,0,3,4\n2,1,1\n"} {
		if err := os.WriteFile(data, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if r := bglm(t, "", "fit", data, "-f", "y ~ .", "--out", out); r.code != 1 || !strings.Contains(r.stderr, "line 3") {
			t.Errorf("%q: %d, %s", text, r.code, r.stderr)
		}
	}
}

// Negative zero, which round makes of -0.3, is the level of zero, as in R.
func TestNegativeZeroIsZero(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	query(t, "COPY (SELECT hash(i) % 2 AS y, (i % 9 - 4) / 4 AS x FROM range(90) t(i)) TO '"+path("d.csv")+"'")
	for _, formula := range []string{"y ~ factor(round(x))", "y ~ x:factor(round(x))"} {
		ok(t, "fit", path("d.csv"), "-f", formula, "-q", "--out", path("f.parquet"))
		if got := query(t, "SELECT count(*) || ' ' || count(*) FILTER (feature LIKE '%=-0%') FROM '"+path("f.parquet")+"'"); got != "4 0" {
			t.Errorf("%s: %s", formula, got)
		}
	}
}

// A column whose name is a word of SQL needs no quotation marks as group, order or option, as it needs
// none in a formula.
func TestColumnsNamedAsWords(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	query(t, `COPY (SELECT hash(i) % 2 AS y, i % 5 AS x, i % 2 AS "group", i % 3 AS "Table", hash(i, 1) AS "order", hash(i, 2) AS "all", 1 + i % 2 AS "end" FROM range(60) t(i)) TO '`+path("d.csv")+"'")
	fit := func(out string, args ...string) {
		ok(t, append([]string{"fit", path("d.csv"), "-f", "y ~ x", "-m", "adf", "-q", "--out", path(out)}, args...)...)
	}
	beliefs := func(name string) string {
		return query(t, "SELECT string_agg(concat_ws(' ', feature, mean, variance), '; ') FROM '"+path(name)+"'")
	}
	for _, c := range [][2][]string{
		{{"--group", "group,table"}, {"--group", `"group", "Table"`}},
		{{"--order", "order"}, {"--order", `"order"`}},
		{{"--order", "all"}, {"--order", `"all"`}},
		{{"--order", "group, order DESC"}, {"--order", `"group", "order" DESC`}},
		{{"-o", "weight=end", "-o", "time=table"}, {"-o", `weight="end"`, "-o", `time="Table"`}},
	} {
		fit("a.parquet", c[0]...)
		fit("b.parquet", c[1]...)
		if a, b := beliefs("a.parquet"), beliefs("b.parquet"); a != b {
			t.Errorf("%v: %s, quoted %s", c[0], a, b)
		}
		ok(t, "evaluate", path("d.csv"), "-b", path("a.parquet"))
		ok(t, "predict", path("d.csv"), "-b", path("a.parquet"), "--out", path("p.csv"))
	}
}

// A column of numbers in one Parquet file and of text in another is levels in all: a message says so.
func TestNumbersAndTextInFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	query(t, "COPY (SELECT i % 2 AS y, i % 5 AS x, DATE '2024-01-01' + (i % 3)::INT AS d FROM range(60) t(i)) TO '"+path("a.parquet")+"'; COPY (SELECT i % 2 AS y, (i % 5)::VARCHAR AS X, (DATE '2024-01-01' + (i % 3)::INT)::VARCHAR AS d FROM range(60) t(i)) TO '"+path("b.parquet")+"'; COPY (FROM '"+path("a.parquet")+"') TO '"+path("c.parquet")+"'")
	note := "column x is BIGINT in a.parquet and VARCHAR in b.parquet, and so has levels here; TRY_CAST(\"x\" AS DOUBLE) makes numbers of them"
	for model, want := range map[string]bool{"y ~ x + d": true, "y ~ factor(x)": false, "y ~ TRY_CAST(x AS DOUBLE)": false, "y ~ d": false} {
		r := ok(t, "fit", path("a.parquet"), path("b.parquet"), path("c.parquet"), "-f", model, "--out", path("f.parquet"))
		if got := strings.Contains(strings.ReplaceAll(r.stderr, dir+"/", ""), note); got != want || !want && r.stderr != "" {
			t.Errorf("%s: %s", model, r.stderr)
		}
	}
}

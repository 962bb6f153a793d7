package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/udf"
)

// query runs SQL and gives its rows as CSV without the header.
func query(t *testing.T, sql string) string {
	t.Helper()
	r := bglm(t, "", "sql", "--mode", "csv", "-c", sql)
	if r.code != 0 {
		t.Fatalf("%s: %s", sql, r.stderr)
	}
	_, rows, _ := strings.Cut(r.stdout, "\n")
	return strings.TrimSpace(rows)
}

func ok(t *testing.T, args ...string) result {
	t.Helper()
	r := bglm(t, "", args...)
	if r.code != 0 {
		t.Fatalf("bglm %s: exit code %d: %s", strings.Join(args, " "), r.code, r.stderr)
	}
	return r
}

// rowsFile is a small data set of all kinds of columns.
func rowsFile(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	query(t, `COPY (SELECT i, hash(i) % 5 < 2 AS y, 'a' || hash(i + 7) % 20 AS ad, CASE WHEN i % 9 > 0 THEN 's:' || i % 4 END AS site, (hash(i + 3) % 100) / 50.0 AS x, i % 24 AS hour, 'g' || i % 3 AS g,
		1 + i % 2 AS w, ln(1 + i % 5) AS o, DATE '2024-01-01' + (i // 1000)::INT AS day FROM range(6000) t(i)) TO '`+path+`' (ROW_GROUP_SIZE 2048)`)
	return path
}

// differ counts the beliefs of b that are not those of a.
func differ(t *testing.T, a, b string) string {
	t.Helper()
	return query(t, fmt.Sprintf("SELECT count(*) || ' of ' || (SELECT count(*) FROM '%s') FROM ((FROM (SELECT feature, mean, variance FROM '%s') EXCEPT ALL SELECT feature, mean, variance FROM '%s') UNION ALL (SELECT feature, mean, variance FROM '%s' EXCEPT ALL SELECT feature, mean, variance FROM '%s'))", a, a, b, b, a))
}

// SQL, the command line and the Arrow engine give one answer, from every format.
func TestThreeWays(t *testing.T) {
	kerneltest.Slow(t)
	data := rowsFile(t, "rows.parquet")
	dir := filepath.Dir(data)
	path := func(n string) string { return filepath.Join(dir, n) }
	for _, f := range []string{"rows.csv", "rows.json"} {
		query(t, "COPY (FROM '"+data+"') TO '"+path(f)+"'")
	}
	if r := bglm(t, "", "sql", "--db", path("rows.duckdb"), "-c", "CREATE TABLE rows AS FROM '"+data+"'"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	ok(t, "fit", data, "--y", "y", "--x", "{a: x}", "--out", path("any.parquet"), "-q")
	ok(t, "predict", "-b", path("any.parquet"), data, "--out", path("rows.arrow"))
	ok(t, "predict", "-b", path("any.parquet"), data, "--out", path("rows.arrows"))

	fit := `(SELECT bglm_adf(y, {ad: ad, site: site, 'ad:site': ad || ':' || replace(site, ':', '\:'), x: x}, {link: 'probit', covariance: 'diagonal', weight: w, process_noise: 0.001} ORDER BY i) AS fit FROM '` + data + "')"
	query(t, "COPY (SELECT unnest(fit.beliefs, recursive := true) FROM "+fit+") TO '"+path("sql.parquet")+"'")
	opts := []string{"-m", "adf", "-f", "y ~ ad*site + x", "-o", "link=probit", "-o", "covariance=diagonal", "-o", "weight=w", "-o", "process_noise=0.001", "-q"}
	for _, c := range [][]string{{data}, {data, "--order", "i"}, {path("rows.csv")}, {path("rows.json")}, {path("rows.duckdb")}, {path("rows.arrow")}, {path("rows.arrows")},
		{data, "--engine", "arrow"}, {path("rows.arrow"), "--engine", "arrow"}, {path("rows.arrows"), "--engine", "arrow"}} {
		out := path("out.parquet")
		os.Remove(out)
		ok(t, append(append([]string{"fit"}, c...), append(opts, "--out", out)...)...)
		if got := differ(t, path("sql.parquet"), out); !strings.HasPrefix(got, "0 of 10") {
			t.Errorf("%v: %s beliefs differ", c, got)
		}
	}
	if testing.Short() {
		return
	}
	// The standard input, by its first bytes.
	for _, c := range [][]string{{"rows.parquet"}, {"rows.csv"}, {"rows.json"}, {"rows.arrow"}, {"rows.arrows"}, {"rows.arrows", "--engine", "arrow"}} {
		b, err := os.ReadFile(path(c[0]))
		if err != nil {
			t.Fatal(err)
		}
		out := path("stdin.parquet")
		os.Remove(out)
		r := bglm(t, string(b), append(append([]string{"fit", "--data", "-", "--out", out}, c[1:]...), opts...)...)
		if r.code != 0 {
			t.Errorf("%v from stdin: %s", c, r.stderr)
		} else if got := differ(t, path("sql.parquet"), out); !strings.HasPrefix(got, "0 of 10") {
			t.Errorf("%v from stdin: %s beliefs differ", c, got)
		}
	}
	// Every output format holds the same table, and goes back into predictions.
	want := query(t, "SELECT feature, mean, variance FROM '"+path("sql.parquet")+"'")
	for _, out := range []string{"b.parquet", "b.arrow", "b.csv", "b.json", "b.duckdb"} {
		ok(t, append([]string{"fit", data, "--out", path(out)}, opts...)...)
		switch filepath.Ext(out) {
		case ".arrow":
			if r := ok(t, "merge", path(out), dir+"/./b.arrow", "--out", path("m.csv"), "-q"); !strings.Contains(r.stderr, "./b.arrow is there twice: its rows count twice") {
				t.Errorf("the same file twice: %s", r.stderr)
			}
		case ".duckdb":
			r := ok(t, "sql", "--db", path(out), "--mode", "csv", "-c", "FROM beliefs")
			if _, got, _ := strings.Cut(r.stdout, "\n"); strings.TrimSpace(got) != want {
				t.Errorf("%s holds other beliefs", out)
			}
		default:
			if got := query(t, "SELECT feature, mean, variance FROM '"+path(out)+"'"); got != want {
				t.Errorf("%s holds other beliefs", out)
			}
		}
		args := []string{"predict", "-b", path(out), data, "--out", path("scores.parquet"), "-q"}
		from := fit // tables without fits remember no columns
		if ext := filepath.Ext(out); ext == ".csv" || ext == ".json" {
			args = append(args, "-f", "y ~ ad*site + x", "-o", "link=probit")
			from = "(SELECT bglm_from_beliefs(list({feature: feature, mean: mean, variance: variance}), {link: 'probit'}) AS fit FROM '" + path("sql.parquet") + "')"
		}
		ok(t, args...)
		got := query(t, "SELECT count(*), max(abs(prediction - p)) < 1e-15 FROM '"+path("scores.parquet")+"' JOIN (SELECT i AS j, bglm_predict(fit, {ad: ad, site: site, 'ad:site': ad || ':' || replace(site, ':', '\\:'), x: x}) AS p FROM '"+data+"', "+from+") ON i = j")
		if got != "6000,true" {
			t.Errorf("%s: predictions: %s", out, got)
		}
	}
}

func TestGroups(t *testing.T) {
	data := rowsFile(t, "rows.parquet")
	dir := filepath.Dir(data)
	path := func(n string) string { return filepath.Join(dir, n) }
	query(t, "COPY (SELECT g, d, unnest(fit.beliefs, recursive := true) FROM (SELECT g, i % 2 AS d, bglm_adf(y, {ad: ad, x: x}, {covariance: 'diagonal'} ORDER BY i) AS fit FROM '"+data+"' GROUP BY ALL)) TO '"+path("sql.parquet")+"'")
	same := func(what, file string) {
		t.Helper()
		got := query(t, "SELECT count(*), (SELECT count(*) FROM '"+file+"') = (SELECT count(*) FROM '"+path("sql.parquet")+"') FROM (SELECT g, d, feature, mean, variance FROM '"+path("sql.parquet")+"' EXCEPT SELECT g, d, feature, mean, variance FROM '"+file+"')")
		if got != "0,true" {
			t.Errorf("%s: %s", what, got)
		}
	}
	for _, out := range []string{"g.parquet", "g.csv", "g.json"} {
		ok(t, "fit", "-m", "adf", "-o", "covariance=diagonal", data, "-f", "y ~ ad + x", "--group", "g, i % 2 AS d", "--order", "i", "--out", path(out), "-q")
		same(out, path(out))
	}
	// Half, continued with the other half from each format that keeps fits.
	for _, out := range []string{"h.parquet", "h.arrow", "h.duckdb"} {
		ok(t, "fit", "-m", "adf", "-o", "covariance=diagonal", data, "--where", "i < 3000", "-f", "y ~ ad + x", "--group", "g", "--group", "i % 2 AS d", "--out", path(out), "-q")
		ok(t, "fit", "-m", "adf", "-o", "covariance=diagonal", data, "--where", "i >= 3000", "-f", "y ~ ad + x", "--group", "g", "--group", "i % 2 AS d", "--prior", path(out), "--order", "i", "--out", path("whole.parquet"), "-q")
		same("continued from "+out, path("whole.parquet"))
		os.Remove(path("whole.parquet"))
	}
	ok(t, "fit", "-m", "adf", "-o", "covariance=diagonal", data, "-f", "y ~ ad + x", "--group", "g", "--engine", "arrow", "--out", path("a.parquet"), "-q")
	ok(t, "fit", "-m", "adf", "-o", "covariance=diagonal", data, "-f", "y ~ ad + x", "--group", "g", "--out", path("s.parquet"), "-q")
	if got := query(t, "SELECT count(*), (SELECT count(*) FROM '"+path("a.parquet")+"') FROM (FROM '"+path("a.parquet")+"' EXCEPT FROM '"+path("s.parquet")+"')"); !strings.HasPrefix(got, "0,6") {
		t.Errorf("arrow engine: %s", got)
	}
	ok(t, "predict", "-b", path("g.parquet"), data, "--dist", "--columns", "i, g", "--out", path("p.parquet"), "-q")
	if got := query(t, "SELECT count(*), max(abs(p.prediction - r.p)) < 1e-14, any_value(columns(p.*)) IS NOT NULL FROM '"+path("p.parquet")+"' p JOIN (SELECT i, bglm_predict(fit, {ad: ad, x: x}) AS p FROM '"+data+"' JOIN (SELECT g, i % 2 AS d, bglm_adf(y, {ad: ad, x: x}, {covariance: 'diagonal'} ORDER BY i) AS fit FROM '"+data+"' GROUP BY ALL) f USING (g) WHERE i % 2 = f.d) r USING (i)"); !strings.HasPrefix(got, "6000,true") {
		t.Errorf("predictions: %s", got)
	}
	r := ok(t, "evaluate", "-b", path("g.parquet"), data, "--fitted", "--json")
	var q quality
	if err := json.Unmarshal([]byte(r.stdout), &q); err != nil || q.N != 6000 || q.LogLoss == nil || *q.LogLoss > 0.7 {
		t.Errorf("%v: %s", err, r.stdout)
	}
}

// What cannot be measured is said in the words of the user: rows without the response, responses
// that the family does not have, predictions that are no numbers or no probabilities. Predictions
// do not go beside columns of their names.
func TestMeasuredInVain(t *testing.T) {
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	query(t, "COPY (SELECT i, i * 7 % 5 > 2 AS b, i * 37 % 11 AS x FROM range(60) t(i)) TO '"+path("d.parquet")+"'")
	query(t, "COPY (SELECT i, x FROM '"+path("d.parquet")+"') TO '"+path("nob.parquet")+"'")
	query(t, "COPY (SELECT i % 4 AS b, x FROM '"+path("d.parquet")+"') TO '"+path("four.parquet")+"'")
	ok(t, "fit", path("d.parquet"), "-f", "b ~ x", "-q", "--out", path("f.parquet"))
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"evaluate", path("nob.parquet"), "-b", path("f.parquet")}, 1, []string{"the response b", "nob.parquet", "Referenced column"}},
		{[]string{"evaluate", path("d.parquet"), "--y", "nope", "--p", "x"}, 1, []string{`Referenced column "nope"`}},
		{[]string{"evaluate", path("four.parquet"), "-b", path("f.parquet")}, 1, []string{"four.parquet, row 4: y = 3: bernoulli takes 0 or 1"}},
		{[]string{"evaluate", path("d.parquet"), "--y", "b", "--p", "CASE WHEN i = 7 THEN 'nan'::DOUBLE ELSE 0.5 END"}, 1, []string{"d.parquet, row 8: p is nan"}},
		{[]string{"predict", path("p.parquet"), "-b", path("f.parquet"), "--out", path("q.parquet")}, 2, []string{`the data have "prediction"`, `--columns '* EXCLUDE ("prediction")'`}},
		{[]string{"predict", path("p.parquet"), "-b", path("f.parquet"), "--dist", "--columns", "prediction AS Mean", "--out", path("q.parquet")}, 2, []string{`the data have "Mean"`}},
	} {
		if c.args[0] == "predict" {
			ok(t, "predict", path("d.parquet"), "-b", path("f.parquet"), "-q", "--out", path("p.parquet"))
		}
		r := bglm(t, "", c.args...)
		for _, want := range append(c.want, "bglm "+c.args[0]) {
			if !strings.Contains(r.stderr, want) {
				t.Errorf("%v: no %q in %s", c.args, want, r.stderr)
			}
		}
		if r.code != c.code || strings.Contains(r.stderr, "LINE ") || strings.Contains(r.stderr, "SELECT") {
			t.Errorf("%v: %+v", c.args, r)
		}
	}
	if r := ok(t, "evaluate", path("d.parquet"), "--y", "b", "--p", "x / 5"); !strings.Contains(r.stdout, "are no probabilities (they go from 0 to 2): measured as numbers") {
		t.Error(r.stdout)
	}
	ok(t, "predict", path("p.parquet"), "-b", path("f.parquet"), "--columns", "* EXCLUDE (prediction)", "-q", "--out", path("q.parquet"))
}

// The rows that groups have skipped are added up.
func TestGroupsSkip(t *testing.T) {
	dir := t.TempDir()
	data, out := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "f.parquet")
	ok(t, "sql", "-c", "COPY (SELECT i % 6 AS g, CASE WHEN i < 18 AND i % 6 < 3 AND i // 6 <= i % 6 THEN NULL ELSE i % 5 = 0 END AS y, i * 37 % 100 / 100 AS x FROM range(300) t(i)) TO '"+data+"'")
	r := ok(t, "fit", data, "-f", "y ~ x", "--group", "g", "-m", "adf", "--out", out)
	if !strings.Contains(r.stdout, ", 6 rows were skipped;") || strings.Count(r.stdout, "skipped") != 2 { // in brackets too
		t.Error(r.stdout)
	}
	page := filepath.Join(dir, "r.html")
	ok(t, "report", "-b", out, "--out", page, "-q")
	b, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(b), "6 rows were skipped") || strings.Contains(string(b), "1 row was skipped") {
		t.Errorf("the page adds up other rows (%v)", err)
	}
}

// Of the statuses of groups the most frequent are shown, with how many groups have them and one by
// name. Those that differ in numbers alone are one.
func TestGroupsSay(t *testing.T) {
	data := filepath.Join(t.TempDir(), "d.parquet")
	ok(t, "sql", "-c", "COPY (SELECT 'a' || g AS g, h, i % 7 AS x, CASE WHEN g < 4 THEN g // 2 WHEN g = 4 THEN i % 2 ELSE i % 7 // 4 END AS y FROM range(40) t(i), range(6) s(g), range(2) r(h)) TO '"+data+"'")
	var sum summary
	if err := json.Unmarshal([]byte(ok(t, "fit", data, "-f", "y ~ x", "--group", "g, h", "-m", "laplace", "-o", "prior_variance=1", "--out", data+".f.parquet", "--json").stdout), &sum); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(sum.Status, "8 of 12 groups, such as a0, 0: all responses are 0: ") || !strings.Contains(sum.Status, "; 2 of 12 groups, such as a5, 0: the responses are separated by x") || strings.Contains(sum.Status, "a4") {
		t.Error(sum.Status)
	}
	if err := json.Unmarshal([]byte(ok(t, "fit", data, "--where", "g IN ('a3', 'a4')", "-f", "y ~ x", "--group", "g", "--out", data+".f.parquet", "--json").stdout), &sum); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(sum.Status, "1 of 2 groups (a3): ") {
		t.Error(sum.Status)
	}
}

// A file of beliefs alone does not keep the expressions that rows are grouped by.
func TestGroupsByExpression(t *testing.T) {
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	ok(t, "sql", "-c", "COPY (SELECT i % 5 = 0 AS y, i % 7 AS k, i * 37 % 100 / 100 AS x FROM range(60) t(i)) TO '"+path("d.parquet")+"'")
	for _, name := range []string{"f.csv", "f.json", "f.parquet"} {
		ok(t, "fit", path("d.parquet"), "-f", "y ~ x", "--group", "k % 2 AS k2", "-m", "adf", "--out", path(name), "-q")
		r := bglm(t, "", "predict", path("d.parquet"), "-b", path(name), "-o", "family=bernoulli", "--x", "{x}", "--out", path("p.csv"))
		if name == "f.parquet" {
			r = bglm(t, "", "predict", path("d.parquet"), "-b", path(name), "--out", path("p.csv"))
		}
		if told := strings.Contains(r.stderr, name+`: it does not know what its groups "k2" are`); told != (name != "f.parquet") || told != (r.code == 1) {
			t.Errorf("%s: %d, %s", name, r.code, r.stderr)
		}
	}
}

// Columns of groups have names that no statement takes for its own, in every command and file.
func TestNamesOfGroups(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	query(t, "COPY (SELECT i % 3 > 0 AS y, i * 7 % 5 AS x, i % 3 AS g, i % 3 AS b, i % 3 AS c, i % 3 AS k, i % 3 AS r FROM range(90) t(i)) TO '"+path("d.parquet")+"'")
	beliefs := func(g string) string {
		for _, covariance := range []string{"full", "arrowhead"} {
			ok(t, "fit", path("d.parquet"), "-f", "y ~ x", "--group", g, "-m", "adf", "-o", "covariance="+covariance, "--out", path(covariance+".parquet"), "-q")
		}
		ok(t, "predict", path("d.parquet"), "-b", path("full.parquet"), "--out", path("p.parquet"), "-q")
		ok(t, "report", path("d.parquet"), "-b", path("arrowhead.parquet"), "--out", path("p.html"), "-q")
		return query(t, "SELECT (SELECT list("+g+" || feature || mean || variance || covariance::VARCHAR ORDER BY "+g+", feature) FROM '"+path("full.parquet")+"'), (SELECT list("+
			g+" || feature || mean || variance || covariance::VARCHAR ORDER BY "+g+", feature) FROM '"+path("arrowhead.parquet")+"'), (SELECT sum(prediction) FROM '"+path("p.parquet")+"')")
	}
	want := beliefs("g")
	for _, name := range []string{"b", "c", "k", "r"} {
		if got := beliefs(name); got != want {
			t.Errorf("groups called %s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

// The model of --prior is that of the job, unless it is given.
func TestModelOfPrior(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	query(t, "CREATE TABLE d AS SELECT i, i % 5 AS x, 'g' || i % 2 AS g, 'h' || i % 3 AS h, 1 + i % 4 AS e, 1 + i % 2 AS w, hash(i) % 6 AS y FROM range(120) t(i); COPY (FROM d WHERE i < 60) TO '"+path("a.parquet")+"'; "+
		"COPY (SELECT *, i AS other FROM d WHERE i >= 60) TO '"+path("b.parquet")+"'; COPY (SELECT x, g, y FROM d) TO '"+path("plain.parquet")+"'")
	beliefs := func(name string) string {
		return query(t, "SELECT string_agg(concat_ws(' ', feature, mean, variance), '; ') FROM '"+path(name)+"'")
	}
	for k, c := range []struct {
		model []string
		more  []string // in the second run of the model by hand
		note  string
	}{
		{[]string{"-f", "y ~ x + g + offset(ln(e))", "-o", "family=poisson", "-o", "weight=w", "-m", "adf", "--order", "i DESC"}, nil, "y ~ x + g + offset(ln(e)), --option weight=w, --order i DESC"},
		{[]string{"-f", "y ~ . - i - h", "-o", "family=poisson"}, []string{"-f", "y ~ x + g + e + w"}, "y ~ . - i - h\n"},
		{[]string{"--y", "y", "--x", "{x, g}", "-o", "family=poisson", "-o", "offset=ln(e)", "--group", "h", "--group", "e > 1 AS big"}, nil, "--y y --x {x, g}, --option offset=ln(e), --group h, --group e > 1 AS big"},
	} {
		for _, kind := range []string{".parquet", ".duckdb"} {
			a := path(fmt.Sprintf("%d%s", k, kind))
			ok(t, append([]string{"fit", path("a.parquet"), "-q", "--out", a}, c.model...)...)
			by := append([]string{"fit", path("b.parquet"), "--prior", a, "-q", "--out", path("want.parquet")}, c.model...)
			if c.more != nil {
				by = append(by[:len(by)-len(c.model)], c.more...)
			}
			ok(t, by...)
			method := []string{}
			if slices.Contains(c.model, "adf") {
				method = []string{"-m", "adf"}
			}
			r := ok(t, append([]string{"fit", path("b.parquet"), "--prior", a, "--out", path("got.parquet")}, method...)...)
			if !strings.Contains(r.stderr, "bglm fit: the model of "+a+": "+c.note) {
				t.Errorf("%v: %+v", c.model, r)
			}
			if got, want := beliefs("got.parquet"), beliefs("want.parquet"); got != want {
				t.Errorf("%v:\n%s, by hand:\n%s", c.model, got, want)
			}
		}
	}
	if r := ok(t, "fit", path("b.parquet"), "--prior", path("0.parquet"), "-f", "y ~ x + g", "--out", path("got.parquet")); !strings.Contains(r.stderr, "0.parquet has the offset ln(e), this model none: give offset( ) in --formula or --option offset if its rows have one") {
		t.Errorf("%+v", r)
	}
	if r := bglm(t, "", "fit", path("plain.parquet"), "--prior", path("0.parquet"), "--out", path("got.parquet")); r.code != exitFailed || !strings.Contains(r.stderr, "offset(ln(e))") {
		t.Errorf("%+v", r)
	}
	ok(t, "fit", path("a.parquet"), "-f", "y ~ x", "-q", "-o", "family=poisson", "--out", path("c.csv"))
	if r := bglm(t, "", "fit", path("b.parquet"), "--prior", path("c.csv"), "-o", "family=poisson", "--out", path("got.parquet")); r.code != exitUsage || !strings.Contains(r.stderr, "--prior "+path("c.csv")+" does not know its formula: give --formula, or --y and --x") {
		t.Errorf("%+v", r)
	}
	// Incremental jobs have it, too.
	for _, run := range []string{"1 new file", "0 new files"} {
		if r := ok(t, "fit", path("b.parquet"), "--prior", path("2.parquet"), "--incremental", "--out", path("m.duckdb")); !strings.Contains(r.stdout, run) {
			t.Errorf("%+v", r)
		}
	}
	ok(t, "fit", path("a.parquet"), "-f", "y ~ x + g", "-q", "-o", "family=poisson", "--engine", "arrow", "--out", path("r.parquet"))
	ok(t, "fit", path("b.parquet"), "--prior", path("r.parquet"), "-q", "--engine", "arrow", "--out", path("got.parquet"))
	ok(t, "fit", path("b.parquet"), "--prior", path("r.parquet"), "-q", "-f", "y ~ x + g", "--engine", "arrow", "--out", path("want.parquet"))
	if got, want := beliefs("got.parquet"), beliefs("want.parquet"); got != want {
		t.Errorf("arrow: %s, by hand: %s", got, want)
	}
}

// Groups that on_error=null leaves without a fit are counted and named, and rows of groups without
// beliefs are not among those scored.
func TestGroupsWithoutFits(t *testing.T) {
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	query(t, "COPY (SELECT i, CASE WHEN i IN (5, 7) THEN 3 ELSE i * 7 % 5 // 3 END AS y, i * 37 % 11 AS x, 'g' || i % 4 AS g FROM range(60) t(i)) TO '"+path("d.parquet")+"'")
	for _, out := range []string{"f.parquet", "f.duckdb"} {
		r := ok(t, "fit", path("d.parquet"), "-f", "y ~ x", "--group", "g", "-o", "on_error=null", "--out", path(out))
		if !strings.Contains(r.stdout, "30 rows, 2 groups and 2 groups without a fit (g1; g3), 4 weights") {
			t.Errorf("%s: %s", out, r.stdout)
		}
		var sum summary
		r = ok(t, "predict", path("d.parquet"), "-b", path(out), "--json", "--out", path("p.csv"))
		if err := json.Unmarshal([]byte(r.stdout), &sum); err != nil || sum.N != 30 || sum.Skipped != 30 {
			t.Errorf("%s: %+v", out, sum)
		}
		if r = ok(t, "predict", path("d.parquet"), "-b", path(out), "--out", path("p.csv")); !strings.Contains(r.stdout, "30 rows scored; 30 rows of groups without beliefs") {
			t.Errorf("%s: %s", out, r.stdout)
		}
	}
	if r := bglm(t, "", "fit", path("d.parquet"), "-f", "y ~ x", "-o", "on_error=null", "--out", path("f.parquet")); r.code != 1 || !strings.Contains(r.stderr, "on_error=null leaves without a fit") {
		t.Errorf("%+v", r)
	}
}

// Beliefs alone do not say what they are of: the fit says which options they need, with which they
// predict as it does, and without them they are an error. As a prior they are of the job's family.
func TestBeliefsAlone(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	query(t, "COPY (SELECT i % 7 AS x, i % 3 AS cnt, 'g' || i % 2 AS g, sin(i) AS z FROM range(80) t(i)) TO '"+path("d.parquet")+"'")
	for needs, model := range map[string][]string{
		"--option family=poisson": {"-f", "cnt ~ x + g", "-o", "family=poisson"},
		"--option family=gaussian --option dispersion=0.5 --option intercept=false": {"-f", "z ~ x - 1", "-o", "family=gaussian", "-o", "dispersion=0.5"},
		"--option family=bernoulli --option link=probit":                            {"-f", "cnt > 0 ~ x", "-o", "link=probit"},
	} {
		fit := append([]string{"fit", path("d.parquet"), "-m", "adf", "-o", "covariance=diagonal", "-o", "prior_variance=1"}, model...)
		ok(t, append(fit, "-q", "--out", path("f.parquet"))...)
		for _, alone := range []string{"b.csv", "b.json"} {
			if out := ok(t, append(fit, "--out", path(alone))...).stdout; !strings.Contains(out, "give "+needs+"\n") {
				t.Errorf("%s: %s", alone, out)
			}
			predict := append([]string{"predict", path("d.parquet"), "--columns", "none", "--dist", "-q"}, model[:2]...)
			if r := bglm(t, "", append(predict, "-b", path(alone), "--out", path("p.csv"))...); r.code != 2 || !strings.Contains(r.stderr, "--option family=NAME") {
				t.Errorf("%s: %+v", alone, r)
			}
			ok(t, append(append(predict, "-b", path(alone), "--out", path("p.csv")), strings.Fields(strings.ReplaceAll(needs, "--option ", "-o "))...)...)
			ok(t, append(predict, "-b", path("f.parquet"), "--out", path("q.csv"))...)
			if got := query(t, "SELECT max(abs(p.mean - q.mean) + abs(p.upper - q.upper)) < 1e-9 FROM '"+path("p.csv")+"' p POSITIONAL JOIN '"+path("q.csv")+"' q"); got != "true" {
				t.Errorf("%s %s: %s", alone, needs, got)
			}
			for _, engine := range []string{"duckdb", "arrow"} {
				if engine == "duckdb" || !strings.Contains(model[1], ">") {
					ok(t, append(fit, "--prior", path(alone), "--engine", engine, "-q", "--out", path("more.parquet"))...)
				}
			}
			ok(t, append([]string{"merge", path(alone), path(alone), "-q", "--out", path("m.parquet")}, strings.Fields(strings.ReplaceAll(needs, "--option ", "-o "))...)...)
		}
	}
}

// Beliefs alone predict otherwise than a fit with a covariance, or with factors of predictions,
// which is said.
func TestBeliefsApart(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	query(t, "COPY (SELECT i % 7 AS x, 'g' || i % 3 AS g, i % 7 + i % 3 > 4 AS y FROM range(80) t(i)) TO '"+path("d.parquet")+"'")
	for out, room := range map[string]bool{"f.csv": false, "f.json": false, "f.parquet": true, "f.arrow": true} {
		for method, joint := range map[string]bool{"": true, "ep": true, "adf": false} {
			args := []string{"fit", path("d.parquet"), "-f", "y ~ x + g", "--out", path(out)}
			if method != "" {
				args = append(args, "-m", method)
			}
			if !joint {
				args = append(args, "-o", "covariance=diagonal")
			}
			if got := ok(t, args...).stdout; strings.Contains(got, "predictions from it differ from those of the fit") != (joint && !room) {
				t.Errorf("%s, method %q: %s", out, method, got)
			}
		}
	}
}

// Of a file of beliefs alone the fit says which slots its features are hashed into, and that rows
// without a value are predicted otherwise.
func TestBeliefsAloneOfGaps(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	query(t, "COPY (SELECT i % 7 AS x, CASE WHEN i % 5 > 0 THEN i % 4 END AS u, 'g' || i % 3 AS g, i % 7 + i % 3 > 4 AS y FROM range(80) t(i)) TO '"+path("d.parquet")+"'")
	for _, c := range []struct {
		formula, missing, hashed string
		gaps                     bool
	}{{"y ~ x + g", "indicator", "", false}, {"y ~ x + u", "indicator", "", true}, {"y ~ x + u", "absent", "", false}, {"y ~ x + g", "indicator", "hash_bits=10", false}} {
		fit := []string{"fit", path("d.parquet"), "-f", c.formula, "-m", "adf", "-o", "covariance=diagonal", "-o", "standardize=false", "-o", "missing=" + c.missing}
		predict := []string{"predict", "-q", path("d.parquet"), "-f", c.formula, "-o", "family=bernoulli", "--columns", "none"}
		if c.hashed != "" {
			fit, predict = append(fit, "-o", c.hashed), append(predict, "-o", c.hashed)
		}
		got := ok(t, append(fit, "--out", path("f.csv"))...).stdout
		if strings.Contains(got, "differ from those of the fit for rows without a value") != c.gaps || strings.Contains(got, c.hashed) != true {
			t.Errorf("%v: %s", c, got)
		}
		ok(t, append(fit, "-q", "--out", path("f.parquet"))...)
		ok(t, append(predict, "-b", path("f.csv"), "--out", path("a.csv"))...)
		ok(t, "predict", "-q", path("d.parquet"), "-b", path("f.parquet"), "--columns", "none", "--out", path("b.csv"))
		same := query(t, "SELECT max(abs(a.prediction - b.prediction)) < 1e-12 FROM read_csv('"+path("a.csv")+"') a POSITIONAL JOIN read_csv('"+path("b.csv")+"') b")
		if same != fmt.Sprint(!c.gaps) {
			t.Errorf("%v: predictions from the file of beliefs alone are those of the fit: %s", c, same)
		}
	}
}

// Priors of single features are no part of a table of beliefs: the fit says so, and a merge that they
// count once only by --prior.
func TestBeliefsAloneOfPriorsByFeature(t *testing.T) {
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	query(t, "COPY (SELECT i, i % 5 AS x, i % 3 + sin(i) AS y FROM range(60) t(i)) TO '"+path("d.parquet")+"'; COPY (SELECT 'x' AS feature, 2 AS mean, 0.001 AS variance) TO '"+path("prior.csv")+"'")
	fit := []string{"fit", path("d.parquet"), "-f", "y ~ x", "-m", "adf", "-o", "covariance=diagonal", "-o", "family=gaussian", "-o", "dispersion=0.5", "-o", "priors=MAP {'x': {mean: 2.0, variance: 0.001}}"}
	for part, where := range map[string]string{"a": "i % 2 = 0", "b": "i % 2 = 1"} {
		for _, kind := range []string{".csv", ".json", ".parquet"} {
			got := ok(t, append(fit, "--where", where, "--out", path(part+kind))...).stdout
			if says := strings.Contains(got, "it leaves out priors=MAP {'x': {mean: 2.0, variance: 0.001}}, which bglm merge counts once if --prior is a table of them"); says != (kind != ".parquet") {
				t.Error(kind, got)
			}
		}
	}
	if got := ok(t, append(fit, "--json", "--out", path("j.csv"))...).stdout; !strings.Contains(got, `"priors_lost": true`) {
		t.Error(got)
	}
	for _, kind := range []string{".csv", ".parquet"} {
		r := ok(t, "merge", path("a"+kind), path("b"+kind), "--prior", path("prior.csv"), "-o", "family=gaussian", "-o", "dispersion=0.5", "--out", path("m"+kind))
		if strings.Contains(r.stdout, "beliefs alone: their prior") {
			t.Error(r)
		}
	}
	if got := query(t, "SELECT max(abs(a.mean - b.mean) + abs(a.variance - b.variance)) < 1e-9 FROM '"+path("m.csv")+"' a JOIN '"+path("m.parquet")+"' b USING (feature)"); got != "true" {
		t.Error(got)
	}
	if got := ok(t, "merge", path("a.csv"), path("b.csv"), "-o", "family=gaussian", "-o", "dispersion=0.5", "--out", path("m.csv")).stdout; !strings.Contains(got, "or --prior FILE with the priors of single features") {
		t.Error(got)
	}
}

// Beliefs alone do not say under which prior they were learnt: the fit does, or else predictions for
// new levels are wrong, and parts that are merged count another prior once.
func TestBeliefsAloneOfPriors(t *testing.T) {
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	query(t, "COPY (SELECT i, 'g' || i % 7 AS g, i % 3 + sin(i) AS z FROM range(60) t(i)) TO '"+path("d.parquet")+"'; COPY (SELECT 'new' AS g, 0 AS z) TO '"+path("new.parquet")+"'")
	model := []string{"-f", "z ~ g", "-o", "family=gaussian", "-o", "dispersion=0.5", "-o", "prior_mean=0.5", "-o", "prior_variance=0.05", "-o", "intercept_variance=2"}
	fit := append([]string{"fit", path("d.parquet"), "-m", "adf", "-o", "covariance=diagonal"}, model...)
	needs := "--option family=gaussian --option dispersion=0.5 --option prior_mean=0.5 --option prior_variance=0.05 --option intercept_variance=2"
	given := strings.Fields(needs)
	for part, where := range map[string]string{"a": "i % 2 = 0", "b": "i % 2 = 1"} {
		if got := ok(t, append(fit, "--where", where, "--out", path(part+".csv"))...).stdout; !strings.HasSuffix(got, "give "+needs+"\n") {
			t.Error(got)
		}
		ok(t, append(fit, "--where", where, "-q", "--out", path(part+".parquet"))...)
	}
	ok(t, "merge", path("a.parquet"), path("b.parquet"), "-q", "--out", path("m.parquet"))
	merge := []string{"merge", path("a.csv"), path("b.csv"), "--out", path("m.csv")}
	got := ok(t, append(merge, given...)...).stdout
	if strings.Contains(got, "log evidence") || strings.Contains(got, "beliefs alone: their prior") {
		t.Error(got)
	}
	if got := query(t, "SELECT max(abs(a.mean - b.mean) + abs(a.variance - b.variance)) < 1e-9 FROM '"+path("m.csv")+"' a JOIN '"+path("m.parquet")+"' b USING (feature)"); got != "true" {
		t.Error(got)
	}
	if got := ok(t, append(merge, given[:4]...)...).stdout; !strings.Contains(got, "a.csv has beliefs alone: their prior is taken for N(0, 1), the intercept's for N(0, 10)") {
		t.Error(got)
	}
	for _, form := range []string{"csv", "parquet"} {
		args := []string{"predict", path("new.parquet"), "-f", "z ~ g", "-b", path("a." + form), "--dist", "-q", "--out", path("p." + form)}
		if form == "csv" {
			args = append(args, given...)
		}
		ok(t, args...)
	}
	if got := query(t, "SELECT abs(a.mean - b.mean) < 1e-9, abs(a.upper - b.upper) < 1e-9 FROM '"+path("p.csv")+"' a, '"+path("p.parquet")+"' b"); got != "true,true" {
		t.Error(got)
	}
	for model, want := range map[string]bool{"z ~ g + i, laplace, 0.5": false, "z ~ g + i, adf, 0.5": false, "z ~ g + i, laplace, {i: 2, g: 0.5}": true, "z ~ i + (1 | g), laplace, auto": true} {
		m := strings.SplitN(model, ", ", 3)
		got := ok(t, "fit", path("d.parquet"), "-f", m[0], "-o", "family=gaussian", "-m", m[1], "-o", "prior_variance="+m[2], "--out", path("l.csv")).stdout
		if strings.Contains(got, "prior variances of single columns") != want {
			t.Errorf("%s: %s", model, got)
		}
	}
}

// What groups have each for itself is in no option: the fit says that a file of beliefs alone loses
// it.
func TestBeliefsAloneOfGroups(t *testing.T) {
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	query(t, "COPY (SELECT i % 7 AS x, 'g' || i % 2 AS g, (1 + 9 * (i % 2)) * sin(i) AS z FROM range(80) t(i)) TO '"+path("d.parquet")+"'")
	for out, want := range map[string]bool{"f.csv": true, "f.json": true, "f.parquet": false} {
		for _, given := range []bool{false, true} {
			args := []string{"fit", path("d.parquet"), "-f", "z ~ x", "--group", "g", "-o", "family=gaussian", "--out", path(out)}
			if given {
				args = append(args, "-o", "dispersion=2")
			}
			if got := ok(t, args...).stdout; strings.Contains(got, "each group has another dispersion") != (want && !given) {
				t.Errorf("%s, dispersion given %v: %s", out, given, got)
			}
		}
	}
}

// What status and summaries count is said of one as of one.
func TestNumberOfOne(t *testing.T) {
	for rows, want := range map[string]string{
		"1,2,0.5,3\n0,3,1,2\n1,1,2,1\n":          "1 row came before the time already reached: no drift was applied for it;",
		"1,2,0.5,3\n0,3,1,2\n1,1,2,1\n0,1,3,2\n": "2 rows came before the time already reached: no drift was applied for them;",
	} {
		data := file(t, "d.csv", "y,t,x,k\n"+rows)
		got := ok(t, "fit", data, "-f", "y ~ x", "-m", "adf", "-o", "time=t", "-o", "process_noise=0.1", "-o", "standardize=false", "-o", "covariance=diagonal", "-o", "prior_variance=1", "--out", data+".parquet").stdout
		if !strings.Contains(got, want) {
			t.Error(got)
		}
		if got := ok(t, "fit", data, "-f", "y ~ x", "-m", "adf", "--incremental", "--out", data+".duckdb").stdout; !strings.HasPrefix(got, "1 new file. ") {
			t.Error(got)
		}
	}
}

// A command that is suggested can be pasted: names in it are quoted for a shell.
func TestSuggestedCommand(t *testing.T) {
	data := file(t, "d.csv", "y,<b>s\n1,u\n0,v\n1,u\n0,u\n1,v\n0,v\n")
	fit := filepath.Join(t.TempDir(), "f.parquet")
	got := ok(t, "fit", data, "-f", `y ~ "<b>s"`, "--out", fit).stdout
	_, rest, found := strings.Cut(got, "known better: bglm ")
	command, _, _ := strings.Cut(rest, "\n")
	if words := shellWords(command); !found || words[len(words)-1] != "<b>s" || !strings.HasSuffix(command, " '<b>s'") {
		t.Fatalf("%q in %s", command, got)
	}
	ok(t, append(shellWords(command), "-b", fit, data)...)
}

// Leaving rows out takes a fit at its mode: there are no figures of one that was stopped before.
func TestStoppedFitHasNoScore(t *testing.T) {
	kerneltest.Slow(t)
	data := rowsFile(t, "rows.parquet")
	for _, c := range []struct {
		method, steps, how string
		scored             bool
	}{{"laplace", "1", "leave-one-out", false}, {"laplace", "50", "leave-one-out", true}, {"ep", "1", "leave-one-out", false}, {"adf", "", "progressive", true}} {
		args := []string{"fit", data, "-m", c.method, "-f", "y ~ ad + x", "-o", "prior_variance=1", "--out", filepath.Join(filepath.Dir(data), "f.parquet")}
		if c.steps != "" {
			args = append(args, "-o", "max_iter="+c.steps)
		}
		out := ok(t, args...).stdout
		if strings.Contains(out, ", "+c.how+" log loss") != c.scored || strings.Contains(out, "AUC") != c.scored || strings.Contains(out, ", no leave-one-out figure of a fit that has not converged\n") == c.scored || !strings.Contains(out, "base rate") {
			t.Errorf("%v: %s", c, out)
		}
		var q struct {
			learnt
			Converged bool
		}
		if err := json.Unmarshal([]byte(ok(t, append(args, "--json")...).stdout), &q); err != nil || q.Converged != c.scored || (q.LogLoss != nil) != c.scored || (q.AUC != nil) != c.scored || q.BaseLoss == nil {
			t.Errorf("%v: %v, %+v", c, err, q)
		}
	}
}

// Predictions go down a pipe, the summary beside it; a failure has no output.
func TestStandardOutput(t *testing.T) {
	dir := t.TempDir()
	data, fit := filepath.Join(dir, "d.csv"), filepath.Join(dir, "f.parquet")
	if err := os.WriteFile(data, []byte("y,x\n1,0.5\n0,-0.5\n1,0.2\n0,0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ok(t, "fit", data, "-f", "y ~ x", "--out", fit, "-q")
	r := ok(t, "predict", "-b", fit, data, "--columns", "y", "--out", "-")
	if lines := strings.Split(strings.TrimSpace(r.stdout), "\n"); len(lines) != 5 || lines[0] != "y,prediction" || r.stderr == "" {
		t.Errorf("%q %q", r.stdout, r.stderr)
	}
	for _, out := range []string{"-", "-.json"} {
		r = ok(t, "predict", "-b", fit, data, "--columns", "y", "--json", "--out="+out)
		var sum summary
		if err := json.Unmarshal([]byte(r.stderr), &sum); err != nil || sum.N != 4 || strings.Contains(r.stdout, "command") {
			t.Errorf("--out %s: %v: %q %q", out, err, r.stdout, r.stderr)
		}
	}
	for out, wrote := range map[string]string{"": "CSV", "-": "CSV", "-.csv": "CSV", "-.json": "JSON", "-.parquet": "Parquet"} {
		args := []string{"fit", data, "-f", "y ~ x", "-o", "prior_variance=1", "--out=" + out}
		if out == "" {
			args = args[:len(args)-1]
		}
		more := ", which has the beliefs alone: to predict from it, give --option family=bernoulli; predictions from it differ from those of the fit, whose covariance it leaves out: .parquet, .arrow and .duckdb keep it"
		if wrote == "Parquet" {
			more = ""
		}
		if r := ok(t, args...); !strings.HasSuffix(r.stderr, " s; wrote "+wrote+" to the standard output"+more+"\n") {
			t.Errorf("--out=%s: %s", out, r.stderr)
		}
		if r := ok(t, "predict", "-b", fit, data, "--out="+cmp.Or(out, "-")); !strings.HasSuffix(r.stderr, " s; wrote "+wrote+" to the standard output\n") {
			t.Errorf("--out=%s: %s", out, r.stderr)
		}
	}
	for _, out := range []string{"-", "-.csv"} { // beliefs too
		r = ok(t, "fit", data, "-f", "y ~ x", "--json", "--out="+out)
		if err := json.Unmarshal([]byte(r.stderr), &quality{}); err != nil || !strings.HasPrefix(r.stdout, "feature,mean,variance\n") {
			t.Errorf("--out %s: %v: %q %q", out, err, r.stdout, r.stderr)
		}
	}
	r = ok(t, "predict", "-b", fit, data, "--columns", "y", "--out=-.arrows", "-q")
	r = bglm(t, r.stdout, "evaluate", "--data", "-", "--y", "y = 1", "--p", "prediction", "--json")
	var q quality
	if err := json.Unmarshal([]byte(r.stdout), &q); err != nil || q.N != 4 {
		t.Errorf("%v: %q %q", err, r.stdout, r.stderr)
	}
	for args, want := range map[string]string{"--out=-.duckdb": "a database is a file", "--out=-.xyz": "-.xyz"} {
		if r := bglm(t, "", "predict", "-b", fit, data, args); r.code == 0 || r.stdout != "" || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %+v", args, r)
		}
	}
	if r := bglm(t, "", "predict", "-b", fit, data, "--columns", "nosuch", "--out", "-"); r.code == 0 || r.stdout != "" {
		t.Errorf("%+v", r)
	}
}

// A fit ends with its terms and with how well it predicts what it has not seen: the mean of
// the leave-one-out densities, for a stream its evidence a row (but for what the priors of
// level means change in it as levels appear).
func TestFitConcludes(t *testing.T) {
	kerneltest.Slow(t)
	data := rowsFile(t, "rows.parquet")
	path := func(n string) string { return filepath.Join(filepath.Dir(data), n) }
	loo := func(options string) string {
		return "SELECT -avg(bglm_influence(fit, y, {ad: ad, x: x, g: g}).loo_log_density) FROM (SELECT bglm_fit(y, {ad: ad, x: x, g: g}" + options + " ORDER BY i) AS fit FROM '" + data + "'), '" + data + "'"
	}
	for _, c := range []struct {
		method  string
		options []string
		terms   int
		how     string
		want    string
	}{
		{"auto", nil, 27, "leave-one-out", loo("")}, // with the deviations of ad and g
		{"auto", []string{"integrate=false"}, 25, "leave-one-out", loo(", {integrate: false}")},
		{"adf", []string{"prior_variance=1", "covariance=arrowhead"}, 25, "progressive", "SELECT -fit.log_evidence / fit.n FROM (SELECT bglm_adf(y, {ad: ad, x: x, g: g}, {prior_variance: 1, covariance: 'arrowhead'} ORDER BY i) AS fit FROM '" + data + "')"},
	} {
		args := []string{"fit", data, "-m", c.method, "-f", "y ~ ad + x + g", "--order", "i", "--out", path(c.method + ".parquet")}
		for _, o := range c.options {
			args = append(args, "-o", o)
		}
		var sum struct {
			learnt
			Terms []term
		}
		if err := json.Unmarshal([]byte(ok(t, append(args, "--json")...).stdout), &sum); err != nil || sum.LogLoss == nil || sum.AUC == nil {
			t.Fatalf("%s: %v: %+v", c.method, err, sum)
		}
		want, err := strconv.ParseFloat(query(t, c.want), 64)
		if err != nil || sum.How != c.how || sum.Rows != 6000 || math.Abs(*sum.LogLoss-want) > 1e-5 || !(*sum.AUC > 0.4 && *sum.AUC < 0.6) {
			t.Errorf("%s: %s log loss %v, want %v, AUC %v", c.method, sum.How, *sum.LogLoss, want, *sum.AUC)
		}
		if len(sum.Terms) != c.terms || sum.Terms[0].Term != "(Intercept)" {
			t.Errorf("%s: %d terms, first %+v", c.method, len(sum.Terms), sum.Terms[0])
		}
		out := ok(t, args...).stdout
		for _, w := range []string{"│ (Intercept) │", "97.5 %", "base rate 0.", c.how + " log loss 0.", "AUC 0."} {
			if !strings.Contains(out, w) {
				t.Errorf("%s: no %q in %s", c.method, w, out)
			}
		}
	}
	// Intervals of factorised beliefs are not the posterior's.
	out := ok(t, "fit", data, "-m", "adf", "-o", "covariance=diagonal", "-f", "y ~ ad", "--out", path("d.parquet")).stdout
	if strings.Contains(out, "97.5 %") || !strings.Contains(out, "(Intercept)") || !strings.Contains(out, "factorised") {
		t.Errorf("%s", out)
	}
	// Nothing of it with groups, other families as they can.
	out = ok(t, "fit", data, "-f", "x ~ ad", "-o", "family=gaussian", "--out", path("n.parquet")).stdout
	if !strings.Contains(out, "mean response ") || strings.Contains(out, "AUC") || strings.Contains(out, "exp(mean)") {
		t.Errorf("%s", out)
	}
	if out = ok(t, "fit", data, "-f", "y ~ ad", "--group", "g", "--out", path("g.parquet")).stdout; strings.Contains(out, "base rate") {
		t.Errorf("%s", out)
	}
}

// Parts merged are one run: to rounding for Gaussian responses with full
// covariance, where the product of the parts is exact.
func TestMergeOfParts(t *testing.T) {
	kerneltest.Slow(t)
	data := rowsFile(t, "rows.parquet")
	path := func(n string) string { return filepath.Join(filepath.Dir(data), n) }
	opts := []string{"--y", "x", "--x", "{ad: ad, hour: hour / 24, g: g}", "-m", "adf", "-o", "family=gaussian", "-o", "covariance=full", "-o", "prior_variance=1", "-q"}
	fit := func(out string, more ...string) {
		t.Helper()
		ok(t, append(append([]string{"fit", data, "--out", path(out)}, opts...), more...)...)
	}
	fit("one.parquet")
	fit("a.parquet", "--where", "i % 3 = 0")
	fit("b.arrow", "--where", "i % 3 = 1")
	fit("c.duckdb", "--where", "i % 3 = 2")
	ok(t, "merge", path("a.parquet"), path("b.arrow"), path("c.duckdb"), "--out", path("merged.parquet"))
	if got := query(t, "SELECT count(*), max(abs(a.mean - b.mean)) < 1e-9, max(abs(a.variance / b.variance - 1)) < 1e-9 FROM '"+path("one.parquet")+"' a JOIN '"+path("merged.parquet")+"' b USING (feature)"); got != "25,true,true" {
		t.Errorf("%s", got)
	}
	r := bglm(t, "", "merge", path("a.parquet"), data, "--out", path("x.parquet"))
	if r.code != 1 || !strings.Contains(r.stderr, data) || !strings.Contains(r.stderr, "no column feature") || strings.Contains(r.stderr, "file_row_number") {
		t.Errorf("%+v", r)
	}
	ok(t, "fit", data, "-f", "y ~ ad", "--out", path("other.parquet"), "-q")
	if r := bglm(t, "", "merge", path("a.parquet"), path("other.parquet")); r.code != 1 || !strings.Contains(r.stderr, "other.parquet") {
		t.Errorf("%+v", r)
	}
}

// Priors of single features are no part of a fit: they would count in every part, which is an error
// without a fit that has them. With it the parts are one run.
func TestMergeCountsPriorsOnce(t *testing.T) {
	data := rowsFile(t, "rows.parquet")
	path := func(n string) string { return filepath.Join(filepath.Dir(data), n) }
	for out, where := range map[string]string{"one.parquet": "true", "a.parquet": "i % 2 = 0", "b.parquet": "i % 2 = 1"} {
		ok(t, "fit", data, "-f", "x ~ ad + g", "--where", where, "-m", "adf", "-o", "family=gaussian", "-o", "dispersion=4", "-o", "prior_variance=1", "-o", "priors=MAP {'ad=a1': {mean: 2, variance: 0.01}}", "-q", "--out", path(out))
	}
	query(t, "COPY (SELECT bglm_from_beliefs([{feature: 'ad=a1', mean: 2.0, variance: 0.01}], {family: 'gaussian', dispersion: 4, prior_variance: 1}) AS fit) TO '"+path("start.parquet")+"'")
	parts := []string{"merge", path("a.parquet"), path("b.parquet"), "-q", "--out", path("merged.parquet")}
	if r := bglm(t, "", parts...); r.code != 2 || !strings.Contains(r.stderr, "a.parquet was fitted with priors of single features, MAP {'ad=a1'") || !strings.Contains(r.stderr, "give --prior") {
		t.Errorf("%+v", r)
	}
	ok(t, append(parts, "--prior", path("start.parquet"))...)
	got := query(t, "SELECT count(*) > 3, max(abs(a.mean - b.mean)) < 1e-9, max(abs(a.variance / b.variance - 1)) < 1e-9, bool_or(a.feature = 'ad=a1') FROM '"+path("one.parquet")+"' a JOIN '"+path("merged.parquet")+"' b USING (feature)")
	if got != "true,true,true,true" {
		t.Error(got)
	}
}

// A value of an option that is no SQL is wrong usage of that option, in all commands.
func TestValuesOfOptions(t *testing.T) {
	kerneltest.Slow(t)
	data := rowsFile(t, "rows.parquet")
	beliefs := file(t, "b.csv", "feature,mean,variance\n(Intercept),0,1\nad,1,0.5\n")
	for name, args := range map[string][]string{
		"duckdb":   {"fit", data, "-f", "y ~ ad"},
		"arrow":    {"fit", data, "-f", "y ~ ad", "--engine", "arrow"},
		"predict":  {"predict", data, "-f", "y ~ ad", "-b", beliefs, "--out", "-"},
		"evaluate": {"evaluate", data, "-f", "y ~ ad", "-b", beliefs},
		"merge":    {"merge", beliefs, beliefs},
	} {
		for value, want := range map[string]string{
			"family=":                       "--option family has no value",
			"weight= ":                      "--option weight has no value",
			"prior_variance={origin: auto}": "--option prior_variance: {origin: auto} is no constant of SQL (Referenced column \"auto\"",
			"prior_variance={origin:":       "--option prior_variance: {origin: is no constant of SQL (syntax error",
			"prior_variance=(1":             "--option prior_variance: (1 is no constant of SQL (syntax error",
			"priors=MAP {'a': b}":           "--option priors: MAP {'a': b} is no constant of SQL (Referenced column \"b\"",
		} {
			r := bglm(t, "", append(args, "-o", value)...)
			if r.code != 2 || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "Error:") || strings.Contains(r.stderr, "LINE") {
				t.Errorf("%s, %s: %+v", name, value, r)
			}
		}
	}
	ok(t, "fit", data, "-f", "y ~ ad", "-o", "prior_variance=[0.5][1]", "-o", "family='bernoulli'", "-q", "--out", filepath.Join(filepath.Dir(data), "f.csv"))
}

// Models with offsets and trials predict with them.
func TestOffsetAndTrials(t *testing.T) {
	kerneltest.Slow(t)
	data := rowsFile(t, "rows.parquet")
	path := func(n string) string { return filepath.Join(filepath.Dir(data), n) }
	ok(t, "fit", data, "-f", "hour ~ ad + offset(o)", "-m", "adf", "-o", "covariance=diagonal", "-o", "family=poisson", "--out", path("b.parquet"), "-q")
	ok(t, "predict", "-b", path("b.parquet"), data, "--out", path("p.parquet"), "--dist", "-q")
	// For the log link the offset multiplies the rate.
	got := query(t, "SELECT count(*), max(abs(prediction / (exp(o) * bglm_predict(fit, {ad: ad})) - 1)) < 1e-12, max(abs(mean / prediction - 1)) < 1e-9 FROM '"+path("p.parquet")+
		"', (SELECT bglm_from_beliefs(list({feature: feature, mean: b.mean, variance: b.variance}), {family: 'poisson'}) AS fit FROM '"+path("b.parquet")+"' b)")
	if got != "6000,true,true" {
		t.Errorf("%s", got)
	}
	ok(t, "fit", data, "-f", "cbind(hour, 24 - hour) ~ ad", "--out", path("c.parquet"), "-q")
	r := ok(t, "evaluate", "-b", path("c.parquet"), data)
	if !strings.Contains(r.stdout, "RMSE") {
		t.Errorf("%s", r.stdout)
	}
}

// Wrong flags, data and beliefs: the exit code, a message that names the file and
// the row, and nothing written.
func TestBatchErrors(t *testing.T) {
	kerneltest.Slow(t)
	data := rowsFile(t, "rows.parquet")
	dir := filepath.Dir(data)
	path := func(n string) string { return filepath.Join(dir, n) }
	whole, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, b []byte) string {
		if err := os.WriteFile(path(name), b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path(name)
	}
	cut := put("cut.parquet", whole[:len(whole)/2])
	text := put("text.arrow", []byte("this is no Arrow file at all"))
	query(t, "COPY (SELECT i, CASE WHEN i = 4321 THEN 7 ELSE i % 2 END AS y, 'a' AS ad FROM range(5000) t(i)) TO '"+path("bad.parquet")+"' (ROW_GROUP_SIZE 2048)")
	query(t, "COPY (FROM '"+path("bad.parquet")+"') TO '"+path("bad.csv")+"'; COPY (SELECT i % 2 AS y, 'a' AS ad, INTERVAL (i % 3) DAY AS span FROM range(30) t(i)) TO '"+path("span.parquet")+"'")
	ok(t, "fit", data, "-f", "y ~ ad", "--out", path("b.parquet"), "-q")
	ok(t, "fit", data, "-f", "y ~ ad", "--out", path("b.duckdb"), "-q")
	beliefs, _ := os.ReadFile(path("b.parquet"))
	cutBeliefs := put("cutb.parquet", beliefs[:len(beliefs)-40])
	query(t, "COPY (FROM '"+path("b.parquet")+"') TO '"+path("v9.parquet")+"' (KV_METADATA {'bglm.schema': '9'})")
	query(t, "COPY (SELECT feature, mean, -variance AS variance FROM '"+path("b.parquet")+"') TO '"+path("negative.parquet")+"'")
	before, _ := os.ReadDir(dir)
	out := path("out.parquet")
	fit := func(args ...string) []string { return append([]string{"fit", "--out", out, "-f", "y ~ ad"}, args...) }
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{fit(), 2, []string{"no data"}},
		{[]string{"fit", data, "--out", out}, 2, []string{"no model"}},
		{fit(data, "--y", "y"), 2, []string{"two ways"}},
		{[]string{"fit", data, "-f", "y ~", "--out", out}, 2, []string{"formula"}},
		{fit(data, "--method", "nope"), 2, []string{"--method nope", "adf"}},
		{fit(data, "--option", "nope"), 2, []string{"key=value"}},
		{fit(data, "--option", "linc=probit"), 2, []string{"the nearest is link"}},
		{fit(data, "--option", "link=probit", "--option", "link=logit"), 2, []string{"twice"}},
		{[]string{"fit", data, "-f", "y ~ ad", "--out", path("out.xml")}, 2, []string{".parquet, .arrow, .csv, .json, .duckdb"}},
		{[]string{"fit", data, "-f", "y ~ ad", "--out", path("no/out.parquet")}, 1, []string{"no/out.parquet"}},
		{fit(path("none.parquet")), 1, []string{"none.parquet"}},
		{fit(path("*.nothing")), 1, []string{"no such file"}},
		{fit(dir), 2, []string{dir}},
		{fit(data, path("bad.csv")), 2, []string{"one format"}},
		{fit(cut), 1, []string{cut}},
		{fit(cut, "--engine", "arrow"), 1, []string{cut}},
		{fit(text), 1, []string{text}},
		{fit(text, "--engine", "arrow"), 1, []string{text}},
		{[]string{"fit", data, "-f", "y ~ nope", "--out", out}, 1, []string{"no column nope", "site"}},
		{[]string{"fit", data, "-f", "nope ~ ad", "--out", out}, 1, []string{"nope", data}},
		{fit(path("bad.parquet")), 1, []string{"bad.parquet, row 4322: ", "y = 7"}},
		{fit(data, path("bad.parquet")), 1, []string{"bad.parquet, row 4322: "}},
		{fit(path("bad.csv")), 1, []string{"bad.csv, row 4322: "}},
		{fit(path("bad.parquet"), "--engine", "arrow"), 1, []string{"bad.parquet, row 4322: ", "y = 7"}},
		{fit(data, "--where", "false"), 1, []string{"no rows"}},
		{fit(data, "--group", "mean"), 1, []string{"--group mean"}},
		{fit(data, "--prior", data), 1, []string{"--prior", data, "no column feature"}},
		{fit(data, "--prior", cutBeliefs), 1, []string{cutBeliefs}},
		{fit(data, "--prior", path("v9.parquet")), 1, []string{"v9.parquet", "unknown version", `"9"`}},
		{fit(data, "--prior", path("negative.parquet")), 1, []string{"negative.parquet", "variance = -"}},
		{fit(data, "--prior", path("b.parquet"), "--group", "g"), 1, []string{"groups"}},
		{fit(data, "--prior", path("b.parquet"), "-o", "link=probit"), 1, []string{"probit", "logit"}},
		{fit(data, "--incremental"), 2, []string{".duckdb"}},
		{[]string{"fit", data, "-f", "y ~ ad", "--incremental", "--out", path("b.duckdb")}, 1, []string{"not those of an incremental job"}},
		{fit(data, "--watch", "1s"), 2, []string{"--incremental"}},
		{fit(data, "--engine", "arrow", "--where", "x > 1"), 2, []string{"--where needs SQL"}},
		{[]string{"fit", data, "-f", "y ~ hour(day)", "--engine", "arrow", "--out", out}, 2, []string{"SQL expression"}},
		{fit(data, "--engine", "arrow", "-m", "adf", "-o", "tol=2x"), 2, []string{"option tol is not used here; it belongs to: ep, laplace, lowrank, variational, ekf, smooth, softmax, gp; allowed: family, link"}},
		{fit(data, "--engine", "arrow", "-m", "laplace", "-o", "tol=2x"), 2, []string{"option tol: found '2x' (VARCHAR); allowed: a number in (0, 1)"}},
		{fit(data, "--engine", "arrow", "-o", "linc=probit"), 2, []string{"the nearest is link"}},
		{fit(path("span.parquet"), "--engine", "arrow", "--group", "span"), 2, []string{"--group span: an INTERVAL, which Parquet keeps as bytes; it goes with --engine duckdb"}},
		{fit(data, "--engine", "arrow", "-o", "on_error=null"), 2, []string{"--engine arrow takes 'fail' or 'skip'"}},
		{fit(data, "--engine", "arrow", "-o", "family=normal"), 2, []string{"the nearest is gaussian"}},
		{fit(data, "--engine", "arrow", "-m", "bglm_ep", "-o", "tol=1e-3"), 2, []string{"--method", "the nearest is ep"}},
		{fit(data, "-m", "bglm_ep"), 2, []string{"--method", "the nearest is ep"}},
		{fit(path("bad.parquet"), "-o", "on_error=null"), 1, []string{"no rows to fit"}},
		{fit(data, "-o", "offset=x", "-o", "offset_=x"), 2, []string{"twice"}},
		{fit(data, "-o", "method=ep"), 2, []string{"give --method NAME"}},
		{fit(data, "--prior", path("b.parquet"), "--engine", "arrow", "-o", "link=probit"), 1, []string{"link: found probit, but the prior fit has bernoulli logit"}},
		{[]string{"predict", "-b", path("b.parquet"), path("bad.csv"), "--out", path("out.parquet"), "-f", "y ~ nope"}, 1, []string{"no column nope"}},
		{[]string{"predict", "-b", path("v9.parquet"), data, "--out", out}, 1, []string{"v9.parquet", "version"}},
		{[]string{"predict", "-b", path("b.parquet"), cut, "--out", out}, 1, []string{cut}},
		{[]string{"predict", "-b", path("b.parquet"), data}, 2, []string{"--out"}},
		{[]string{"predict", "-b", path("b.parquet"), data, "--out", out, "--level", "2"}, 2, []string{"--level"}},
		{[]string{"predict", "-b", path("b.parquet"), data, "--out", out, "--level", "0.5"}, 2, []string{"--level belongs to --dist"}},
		{[]string{"effects", "-b", path("b.parquet"), data, "--seed", "3"}, 2, []string{"--seed belongs to --draws"}},
		{[]string{"evaluate", data, "--p", "x", "--y", "y", "--fitted"}, 2, []string{"--fitted belong to --beliefs"}},
		{[]string{"evaluate", data}, 2, []string{"--beliefs"}},
		{[]string{"evaluate", data, "--p", "x"}, 2, []string{"--y"}},
		{[]string{"merge", path("b.parquet")}, 2, []string{"two"}},
		{[]string{"predict", "-b", path("b.parquet"), data, "--out", out, "-o", "family=poisson"}, 2, []string{"family=poisson", "the fit has bernoulli"}},
		{[]string{"predict", "-b", path("b.parquet"), data, "--out", out, "-o", "samples=10"}, 2, []string{"b.parquet", "option samples is not used here; it belongs to: hmc; allowed: family"}},
		{[]string{"predict", "-b", path("b.parquet"), data, "--out", out, "-o", "prior_variance=33"}, 2, []string{"b.parquet", "prior_variance=33", "the fit has"}},
		{[]string{"predict", "-b", path("b.parquet"), data, "--out", out, "-o", "hash_bits=3"}, 2, []string{"b.parquet", "hash_bits=3", "the fit has none"}},
		{[]string{"predict", "-b", path("b.parquet"), data, "--out", out, "-o", "covariance=lowrank"}, 2, []string{"b.parquet", "covariance=lowrank", "the fit has"}},
		{[]string{"report", "-b", path("b.parquet"), "--out", path("r.html"), "-o", "link=probit"}, 2, []string{"b.parquet", "link=probit", "the fit has logit"}},
		{[]string{"summary", "-b", path("b.parquet"), "-o", "intercept=false"}, 2, []string{"intercept=false", "the fit has true"}},
		{[]string{"merge", path("b.parquet"), path("b.parquet"), "-o", "dispersion=4", "--out", out}, 2, []string{"b.parquet", "dispersion=4", "the fit has 1"}},
		{[]string{"fit", data, "--data", dir + "/rows.par*", "-f", "y ~ ad", "--out", out}, 2, []string{"rows.parquet is there twice"}},
		{[]string{"export", "-b", path("b.parquet"), "--dialect", "sqlight", "--out", out}, 2, []string{"--dialect", "'sqlight'", "nearest is sqlite"}},
		{[]string{"merge", path("b.parquet"), path("v9.parquet"), "--out", out}, 1, []string{"v9.parquet"}},
	} {
		r := bglm(t, "", c.args...)
		if r.code != c.code {
			t.Errorf("%v: exit code %d, want %d: %s%s", c.args, r.code, c.code, r.stderr, r.stdout)
		}
		for _, w := range c.want {
			if !strings.Contains(r.stderr, w) {
				t.Errorf("%v: the message %q does not hold %q", c.args, r.stderr, w)
			}
		}
	}
	after, _ := os.ReadDir(dir)
	if len(after) != len(before) {
		t.Errorf("files were left: %v", after)
	}
	for _, cmd := range []string{"fit", "predict", "evaluate", "merge", "report"} {
		if r := bglm(t, "", cmd, "--help"); r.code != 0 || !strings.Contains(r.stdout, "  bglm "+cmd+" ") {
			t.Errorf("bglm %s --help: %+v", cmd, r)
		}
	}
}

// parts cuts data into files by day.
func parts(t *testing.T, data string) (dir string, files []string) {
	t.Helper()
	dir = t.TempDir()
	for k := range 6 {
		f := filepath.Join(dir, fmt.Sprintf("day-%d.parquet", k))
		query(t, fmt.Sprintf("COPY (FROM '%s' WHERE i // 1000 = %d) TO '%s'", data, k, f))
		files = append(files, f)
	}
	return dir, files
}

func TestIncremental(t *testing.T) {
	data := rowsFile(t, "rows.parquet")
	dir, files := parts(t, data)
	db, whole := filepath.Join(dir, "m.duckdb"), filepath.Join(dir, "whole.parquet")
	opts := []string{"-m", "adf", "-f", "y ~ ad + x", "-o", "time=i", "-o", "process_noise=1e-6", "-q"}
	run := func(more ...string) result {
		t.Helper()
		return ok(t, append(append([]string{"fit", "--data", filepath.Join(dir, "day-*.parquet"), "--incremental", "--out", db}, opts...), more...)...)
	}
	last := filepath.Join(dir, "later")
	if err := os.Rename(files[5], last); err != nil {
		t.Fatal(err)
	}
	run()
	if err := os.Rename(last, files[5]); err != nil {
		t.Fatal(err)
	}
	if r := run("--json"); !strings.Contains(r.stdout, `"files": 1,`) || !strings.Contains(r.stdout, `"n": 6000`) {
		t.Errorf("%s", r.stdout)
	}
	if r := run("--json"); !strings.Contains(r.stdout, `"n": 6000`) || strings.Contains(r.stdout, `"files"`) {
		t.Errorf("nothing new: %s", r.stdout)
	}
	ok(t, append([]string{"fit", data, "--out", whole}, opts...)...)
	r := ok(t, "sql", "--db", db, "--mode", "csv", "-c", "SELECT count(*), max(abs(a.mean - b.mean)) < 1e-12, (SELECT count(*) FROM bglm_ledger) AS l, (SELECT sum(n) FROM bglm_ledger) AS n FROM beliefs a JOIN '"+whole+"' b USING (feature)")
	if !strings.HasSuffix(strings.TrimSpace(r.stdout), "22,true,6,6000") {
		t.Errorf("%s", r.stdout)
	}
	if r := bglm(t, "", "fit", "--data", files[0], "--incremental", "--out", db, "-f", "y ~ ad"); r.code != 1 || !strings.Contains(r.stderr, "belongs to another job") {
		t.Errorf("%+v", r)
	}
	query(t, "COPY (FROM '"+data+"' WHERE i < 999) TO '"+files[0]+"'")
	if r := bglm(t, "", append([]string{"fit", "--data", files[0], "--incremental", "--out", db}, opts...)...); r.code != 1 || !strings.Contains(r.stderr, files[0]+" has ") {
		t.Errorf("a changed file: %+v", r)
	}
}

// A prior given as a number is that of standardised responses in every file, as in one run; groups
// that begin in a later file have it, too.
func TestIncrementalPrior(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	rows := "(SELECT i, 1000 + 50 * (i % 5) + i % 7 AS y, 'L' || i // 15 AS s, CASE WHEN i < 30 THEN 'g' || i % 2 ELSE 'g' || i % 3 END AS g FROM range(60) t(i))"
	query(t, "COPY (FROM "+rows+" WHERE i < 20) TO '"+path("day-1.parquet")+"'; COPY (FROM "+rows+" WHERE i >= 20) TO '"+path("day-2.parquet")+"'; COPY (FROM "+rows+") TO '"+path("all.parquet")+"'")
	for k, group := range [][]string{nil, {"--group", "g"}} {
		opts := append([]string{"-m", "adf", "-f", "y ~ s", "-o", "family=gaussian", "-o", "covariance=full", "-o", "standardize=true", "-o", "prior_variance=2.0", "-o", "intercept_variance=5", "-q"}, group...)
		db, whole, using := path(fmt.Sprintf("m%d.duckdb", k)), path(fmt.Sprintf("whole%d.parquet", k)), "feature"
		if group != nil {
			using += ", g"
		}
		ok(t, append([]string{"fit", "--data", path("day-*.parquet"), "--incremental", "--out", db}, opts...)...)
		ok(t, append([]string{"fit", path("all.parquet"), "--order", "i", "--out", whole}, opts...)...)
		r := ok(t, "sql", "--db", db, "--mode", "csv", "-c", "SELECT count(*) > 4, max(abs(a.mean - b.mean) / sqrt(b.variance)) < 1e-9, max(abs(ln(a.variance / b.variance))) < 1e-9 FROM beliefs a JOIN '"+whole+"' b USING ("+using+")")
		if !strings.HasSuffix(strings.TrimSpace(r.stdout), "true,true,true") {
			t.Errorf("groups %v: %s", group, r.stdout)
		}
	}
}

// A job that is killed at random moments and started again gives, bit for bit, the
// beliefs of one that was never killed.
func TestKilledAndStartedAgain(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no SIGKILL")
	}
	data := rowsFile(t, "rows.parquet")
	dir, _ := parts(t, data)
	args := func(db string) []string {
		return []string{"fit", "--data", filepath.Join(dir, "day-*.parquet"), "--incremental", "--out", db, "-f", "y ~ ad*site + x", "-o", "link=probit", "-o", "process_noise=0.001"}
	}
	calm := filepath.Join(dir, "calm.duckdb")
	run := func(db string, kill time.Duration) bool {
		cmd := exec.Command(os.Args[0], append(args(db), "-q")...)
		cmd.Env = append(os.Environ(), beMain+"=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if kill > 0 {
			defer time.AfterFunc(kill, func() { cmd.Process.Kill() }).Stop()
		}
		return cmd.Wait() == nil
	}
	began := time.Now()
	if !run(calm, 0) {
		t.Fatal("the job fails")
	}
	whole := time.Since(began)
	q := "SELECT md5(string_agg(feature || mean || variance, ',')), count(*) FROM beliefs"
	want := ok(t, "sql", "--db", calm, "--mode", "csv", "-c", q).stdout
	rng := rand.New(rand.NewPCG(3, 4))
	kills, rounds := 0, 4
	if testing.Short() {
		rounds = 1
	}
	for k := range rounds {
		hard := filepath.Join(dir, fmt.Sprintf("hard-%d.duckdb", k))
		for tries := 0; !run(hard, whole/8+time.Duration(rng.Int64N(int64(whole)))); tries++ {
			if kills++; tries > 40 {
				t.Fatal("the job does not get through")
			}
		}
		if got := ok(t, "sql", "--db", hard, "--mode", "csv", "-c", q).stdout; got != want {
			t.Errorf("after %d kills %s, want %s", kills, got, want)
		}
	}
	t.Logf("%d kills", kills)
}

func TestCompletion(t *testing.T) {
	for _, sh := range []string{"bash", "zsh", "fish"} {
		r := ok(t, "completion", sh)
		for _, w := range []string{"fit", "merge", "incremental", "duckdb arrow"} {
			if !strings.Contains(r.stdout, w) {
				t.Errorf("%s: no %s", sh, w)
			}
		}
	}
	script := filepath.Join(t.TempDir(), "bglm.bash")
	if err := os.WriteFile(script, []byte(ok(t, "completion", "bash").stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	for line, want := range map[string]string{"bglm pre": "predict", "bglm fit --eng": "--engine", "bglm fit --engine a": "arrow", "bglm merge --pr": "--prior",
		"bglm fit --method lap": "laplace", "bglm fit --option measure": "measurement_noise=", "bglm fit --option covariance = fu": "full", "bglm predict --option disp": "dispersion="} {
		words := strings.Fields(line)
		out, err := exec.Command(bash, "-c", "source "+script+"; COMP_WORDS=("+line+"); COMP_CWORD="+fmt.Sprint(len(words)-1)+"; _bglm; echo \"${COMPREPLY[@]}\"").CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %q (%v), want %s", line, out, err, want)
		}
	}
}

// --engine arrow accepts what SQL accepts, values of SQL among them, and the help lists it.
func TestOptionsOfBothEngines(t *testing.T) {
	kerneltest.Slow(t)
	data := rowsFile(t, "rows.parquet")
	path := func(n string) string { return filepath.Join(filepath.Dir(data), n) }
	small := path("small.parquet")
	query(t, "COPY (SELECT *, x / 3 AS o FROM '"+data+"' WHERE i < 300) TO '"+small+"'")
	for _, opts := range [][]string{
		{"-m", "adf", "-o", "process_noise=MAP {'x': 0.01}", "-o", "priors=[{feature: 'x', mean: 0.5, variance: 0.1}]", "-o", "offset_=o"},
		{"-m", "adf", "-o", "priors=MAP {'x': {mean: 0.5, variance: 0.1}}", "-o", "prior_mean=NULL", "-o", "hash_bits=8", "-o", "quadrature=20"},
		{"-m", "laplace", "-o", "at_=MAP {'x': 0.5}", "-o", "Link=PROBIT"},
		{"-m", "lowrank", "-o", "oversample=0", "-o", "power_iterations=0", "-o", "rank=3"},
		{"-m", "ekf", "-o", "measurement_noise=auto", "-o", "noise_floor=1e-2", "-o", "on_error=skip"},
	} {
		args := append([]string{"fit", small, "-f", "y ~ ad + x", "-q"}, opts...)
		a, b := path("a.parquet"), path("b.parquet")
		os.Remove(a)
		os.Remove(b)
		ok(t, append(args, "--out", a)...)
		ok(t, append(args, "--engine", "arrow", "--out", b)...)
		if got := differ(t, a, b); !strings.HasPrefix(got, "0 of ") {
			t.Errorf("%v: %s beliefs differ between engines", opts, got)
		}
	}
	help := ok(t, "fit", "--help").stdout
	for _, p := range job.FitOptions() {
		if !strings.Contains(help, "  "+p.Key+" ") || !strings.Contains(help, udf.Told(p.Doc)) || !strings.Contains(help, p.Allowed(udf.OptionWords)) {
			t.Errorf("bglm fit --help has no %s: %s; %s", p.Key, udf.Told(p.Doc), p.Allowed(udf.OptionWords))
		}
	}
}

// Interactions of levels and numbers are the same to both engines, where values are missing too.
func TestInteractionsOfBothEngines(t *testing.T) {
	kerneltest.Slow(t)
	if kerneltest.Race {
		t.Skip("a session, one command after another: the detector only makes it long")
	}
	data := rowsFile(t, "rows.parquet")
	path := func(n string) string { return filepath.Join(filepath.Dir(data), n) }
	small := path("small.parquet")
	query(t, "COPY (SELECT * REPLACE (CASE WHEN i % 7 > 0 THEN x END AS x) FROM '"+data+"' WHERE i < 600) TO '"+small+"'")
	for _, text := range []string{"y ~ x + site:x", "y ~ x * site + hour:x + ad:site", "o ~ x + (x || g) + site:x:hour"} {
		a, b := path("a.parquet"), path("b.parquet")
		os.Remove(a)
		os.Remove(b)
		args := []string{"fit", small, "-f", text, "-q"}
		if strings.HasPrefix(text, "o") {
			args = append(args, "-o", "family=gaussian")
		}
		ok(t, append(args, "--out", a)...)
		ok(t, append(args, "--engine", "arrow", "--out", b)...)
		if got := differ(t, a, b); !strings.HasPrefix(got, "0 of ") {
			t.Errorf("%s: %s beliefs differ between engines", text, got)
		}
		if n := query(t, "SELECT count(*) FROM '"+a+"' WHERE feature = 'x IS NULL'"); n != "1" {
			t.Errorf("%s: %s features for rows without x", text, n)
		}
	}
	// A column that is text now, in an interaction alone.
	texts := path("texts.parquet")
	query(t, "COPY (SELECT * REPLACE (x::VARCHAR AS x) FROM '"+small+"') TO '"+texts+"'")
	for _, engine := range []string{"duckdb", "arrow"} {
		b := path("inter.parquet")
		ok(t, "fit", small, "-f", "y ~ site:x", "-m", "laplace", "-q", "--out", b, "--engine", engine)
		for _, args := range [][]string{
			{"predict", "-b", b, texts, "--out", path("p.parquet")}, {"evaluate", "-b", b, texts},
			{"fit", texts, "-f", "y ~ site:x", "--prior", b, "-m", "laplace", "--out", path("p.parquet"), "--engine", engine},
		} {
			if r := bglm(t, "", args...); r.code != 1 || !strings.Contains(r.stderr, `column "x" is `) || !strings.Contains(r.stderr, "allowed: a number, as the fit has learnt it") {
				t.Errorf("%s: %v: %+v", engine, args, r)
			}
		}
	}
}

// Every engine of the registry serves both ways of reading, goes through its files
// and predicts.
func TestAllMethods(t *testing.T) {
	kerneltest.Slow(t)
	data := rowsFile(t, "rows.parquet")
	path := func(n string) string { return filepath.Join(filepath.Dir(data), n) }
	small := path("small.parquet")
	query(t, "COPY (SELECT * FROM '"+data+"' WHERE i < 400) TO '"+small+"'")
	for _, m := range engine.Names(engine.Weights) {
		args := []string{"fit", small, "-f", "y ~ ad + x", "-m", m, "-q"}
		if m == "hmc" {
			args = append(args, "-o", "samples=50", "-o", "warmup=50", "-o", "chains=2", "-o", "seed=3")
		}
		a, b := path("a.parquet"), path("b.arrow")
		os.Remove(a)
		ok(t, append(args, "--out", a)...)
		ok(t, append(args, "--out", b)...)
		for _, f := range []string{a, b} {
			ok(t, "predict", "-b", f, small, "--columns", "i", "--out", f+".csv", "-q")
		}
		if got := query(t, "SELECT count(*) FROM (FROM '"+a+".csv' EXCEPT FROM '"+b+".csv')"); got != "0" {
			t.Errorf("%s: predictions from Parquet and Arrow differ in %s rows", m, got)
		}
		if m == "softmax" {
			continue
		}
		c := path("c.parquet")
		ok(t, append(args, "--engine", "arrow", "--out", c)...)
		if got := differ(t, a, c); !strings.HasPrefix(got, "0 of 22") {
			t.Errorf("%s: %s beliefs differ between engines", m, got)
		}
		ok(t, "report", "-b", a, small, "--out", path("r.html"), "-q")
	}
	ok(t, "fit", small, "-f", "ad ~ x", "-m", "softmax", "--group", "g", "--out", path("s.parquet"), "-q")
	ok(t, "predict", "-b", path("s.parquet"), small, "--out", path("p.parquet"), "-q")
	if got := query(t, "SELECT count(*), min(abs(list_sum(map_values(prediction)) - 1)) < 1e-9 FROM '"+path("p.parquet")+"'"); got != "400,true" {
		t.Errorf("softmax: %s", got)
	}
	ok(t, "fit", small, "--y", "y", "--x", "[x]", "-m", "gp", "--where", "i < 60", "--out", path("gp.parquet"))
	ok(t, "predict", "-b", path("gp.parquet"), small, "--out", path("q.parquet"), "-q")
	if got := query(t, "SELECT count(*), bool_and(prediction BETWEEN 0 AND 1) FROM '"+path("q.parquet")+"'"); got != "400,true" {
		t.Errorf("gp: %s", got)
	}
	if r := bglm(t, "", "fit", small, "--y", "y", "--x", "[x]", "-m", "gp", "--out", path("gp.csv")); r.code == 0 {
		t.Error("a gp was written as CSV")
	}
}

// Compressed rows have the fit of all rows, counts and evidence included, with either engine.
func TestCompress(t *testing.T) {
	kerneltest.Slow(t)
	data := rowsFile(t, "rows.parquet")
	type result struct {
		N, Skipped int64
		Status     string
		Evidence   float64 `json:"log_evidence"`
		Terms      []term
	}
	fit := func(args ...string) (sum result) {
		out := filepath.Join(t.TempDir(), "beliefs.parquet")
		args = append([]string{"fit", "--data", data, "--formula", "y ~ site + hour + g", "--json", "--out", out}, args...)
		if err := json.Unmarshal([]byte(ok(t, args...).stdout), &sum); err != nil {
			t.Fatal(err)
		}
		return sum
	}
	for _, engine := range []string{"duckdb", "arrow"} {
		a, b := fit("--engine", engine), fit("--engine", engine, "--compress")
		if a.N != b.N || a.Skipped != b.Skipped || a.Status != b.Status || len(a.Terms) != len(b.Terms) || math.Abs(a.Evidence-b.Evidence) > 1e-7 {
			t.Errorf("%s: %+v, want %+v", engine, b, a)
		}
		for i := range a.Terms {
			if x, y := a.Terms[i], b.Terms[i]; x.Term != y.Term || math.Abs(*x.Mean-*y.Mean) > 1e-4**x.SD || math.Abs(*x.SD-*y.SD) > 1e-4**x.SD {
				t.Errorf("%s: %s %v, want %v", engine, x.Term, *y.Mean, *x.Mean)
			}
		}
	}
}

// (x | g) is the option correlated: one fit from both engines, and its correlation in the summary.
func TestCorrelatedFormula(t *testing.T) {
	kerneltest.Slow(t)
	data := rowsFile(t, "rows.parquet")
	path := func(n string) string { return filepath.Join(filepath.Dir(data), n) }
	small := path("small.parquet")
	query(t, "COPY (SELECT * FROM '"+data+"' WHERE i < 600) TO '"+small+"'")
	args := []string{"fit", small, "-f", "o ~ x + (x | ad)", "-o", "family=gaussian"}
	out := ok(t, append(args, "--out", path("a.parquet"))...).stdout
	ok(t, append(args, "--engine", "arrow", "--out", path("b.parquet"), "-q")...)
	if got := differ(t, path("a.parquet"), path("b.parquet")); !strings.HasPrefix(got, "0 of ") {
		t.Errorf("%s beliefs differ between engines", got)
	}
	if !strings.Contains(out, "cor(ad, x:ad)") || !strings.Contains(out, "sd(x:ad)") {
		t.Errorf("no correlation in:\n%s", out)
	}
	ok(t, "predict", "-b", path("a.parquet"), small, "--columns", "none", "--out", path("p.csv"), "-q")
	want := query(t, "SELECT round(avg(bglm_predict(fit, {x: x, ad: ad, 'x:ad': {x: x, ad: ad}})), 9) FROM '"+small+"', (SELECT bglm_fit(o, {x: x, ad: ad, 'x:ad': {x: x, ad: ad}}, {family: 'gaussian', prior_variance: 'auto', correlated: [['ad', 'x:ad']]}) AS fit FROM '"+small+"')")
	if got := query(t, "SELECT round(avg(prediction), 9) FROM '"+path("p.csv")+"'"); got != want {
		t.Errorf("predictions of the file %s, in SQL %s", got, want)
	}
}

// Prior variances that are given by column leave those of terms in bars to be learnt, in both
// engines: they were 1, and under these the residual of machines that differ was that of the
// workers too.
func TestBarsBesideGivenVariances(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	data := path("rows.parquet")
	query(t, "COPY (SELECT 'm' || i % 3 AS m, 'w' || i // 3 % 6 AS w, 50 + 8 * (i % 3) + 7 * sin(i // 3 % 6 * 2.3) + 4 * sin(i % 18 * 1.9) + sin(i * i) AS z FROM range(54) t(i)) TO '"+data+"'")
	want := query(t, "SELECT round(f.log_evidence, 6), round(sqrt(f.dispersion), 6) FROM (SELECT bglm_fit(z, {m: m, w: w, 'w:m': {w: w, m: m}}, {family: 'gaussian', prior_variance: {m: 1e6, w: 'auto', 'w:m': 'auto'}}) AS f FROM '"+data+"')")
	for _, engine := range []string{"duckdb", "arrow"} {
		ok(t, "fit", data, "-f", "z ~ m + (1 | w/m)", "-o", "family=gaussian", "-o", "prior_variance={m: 1e6}", "--engine", engine, "--out", path(engine+".duckdb"), "-q")
		got := query(t, "ATTACH '"+path(engine+".duckdb")+"' AS "+engine+"; SELECT round(fit.log_evidence, 6), round(sqrt(fit.dispersion), 6) FROM "+engine+".fits")
		if got != want {
			t.Errorf("%s: %s, want %s", engine, got, want)
		}
	}
	ok(t, "fit", data, "-f", "z ~ m + (1 | w)", "-o", "family=gaussian", "-o", "prior_variance={m: 1e6, w: 4}", "--out", path("given.duckdb"), "-q")
	if got := query(t, "ATTACH '"+path("given.duckdb")+"' AS given; SELECT c.variance FROM (SELECT unnest(fit.columns) AS c FROM given.fits) WHERE c.name = 'w'"); got != "4.0" {
		t.Errorf("a variance that is given is %s", got)
	}
	if r := bglm(t, "", "fit", data, "-f", "z ~ m + (1 | w)", "-m", "adf", "-o", "family=gaussian", "-o", "prior_variance={m: 1e6}", "--out", path("s.parquet")); r.code == 0 || !strings.Contains(r.stderr, "(1 | w) learns its prior variance") {
		t.Errorf("%+v", r)
	}
}

// A number and its levels are two columns, by both engines and in every command.
func TestNumberAndItsLevels(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	data := path("years.parquet")
	query(t, "COPY (SELECT i % 10 AS year, (i * 7919 % 1000) / 1000.0 AS x, (i % 10 * 37 % 50) / 10.0 + sin(i) AS z FROM range(400) t(i)) TO '"+data+"'")
	for _, c := range []struct{ text, sd string }{
		{"z ~ year + (1 | year)", "sd(factor(year))"}, {"z ~ year + (x | year)", "cor(factor(year), x:factor(year))"}, {"z ~ (1 | year)", "sd(year)"},
	} {
		for _, engine := range []string{"duckdb", "arrow"} {
			b := path(engine + ".parquet")
			os.Remove(b)
			if out := ok(t, "fit", data, "-f", c.text, "-o", "family=gaussian", "--engine", engine, "--out", b).stdout; !strings.Contains(out, c.sd) {
				t.Errorf("%s, %s: no %s in\n%s", engine, c.text, c.sd, out)
			}
			ok(t, "predict", "-b", b, data, "--out", path(engine+".csv"), "-q")
			ok(t, "evaluate", "-b", b, data, "-q")
		}
		if got := query(t, "SELECT sqrt(fit.dispersion) BETWEEN 0.6 AND 0.8 FROM (SELECT bglm_fit(z, {year: year, 'factor(year)': year::VARCHAR}, {family: 'gaussian'}) AS fit FROM '"+data+"')"); got != "true" {
			t.Errorf("the reference has another residual: %s", got)
		}
		if got := query(t, "SELECT max(abs(a.prediction - b.prediction)) < 1e-9, max(abs(a.prediction - a.z)) < 1.5 FROM '"+path("duckdb.csv")+"' a POSITIONAL JOIN '"+path("arrow.csv")+"' b"); got != "true,true" && got != "true\ttrue" {
			t.Errorf("%s: %q", c.text, got)
		}
	}
	ok(t, "report", "-b", path("duckdb.parquet"), data, "--out", path("r.html"), "-q")
	query(t, "COPY (SELECT * REPLACE (year / 2 AS year) FROM '"+data+"') TO '"+path("halves.parquet")+"'")
	if r := bglm(t, "", "fit", path("halves.parquet"), "-f", "z ~ (1 | year)", "-o", "family=gaussian", "--engine", "arrow", "--out", path("h.parquet")); r.code != 1 || !strings.Contains(r.stderr, "the levels of column year are float64; allowed: whole numbers") {
		t.Errorf("%+v", r)
	}
}

// A file that is read is not written to, by whatever name.
func TestOutIsData(t *testing.T) {
	dir := t.TempDir()
	data, link, fit := filepath.Join(dir, "d.csv"), filepath.Join(dir, "link.csv"), filepath.Join(dir, "f.parquet")
	query(t, "COPY (SELECT i % 3 = 0 AS y, sin(i) AS x FROM range(100) t(i)) TO '"+data+"'")
	if err := os.Symlink(data, link); err != nil {
		t.Skip(err)
	}
	ok(t, "fit", "--data", data, "--formula", "y ~ x", "--out", fit, "-q")
	part, asJSON := filepath.Join(dir, "part.parquet"), filepath.Join(dir, "f.json")
	ok(t, "fit", "--partial", "--data", data, "--formula", "y ~ x", "--out", part, "-q")
	ok(t, "fit", "--data", data, "--formula", "y ~ x", "--method", "adf", "--option", "covariance=diagonal", "--out", asJSON, "-q")
	if r := ok(t, "finish", "-q", part, part, "--out", filepath.Join(dir, "twice.parquet")); !strings.Contains(r.stderr, "part.parquet is there twice: its rows count twice") {
		t.Errorf("a part that is there twice: %q", r.stderr)
	}
	was := map[string][]byte{}
	for _, name := range []string{data, fit, part, asJSON} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		was[name] = b
	}
	for _, args := range [][]string{
		{"fit", "--data", data, "--formula", "y ~ x", "--out", data},
		{"fit", "--data", filepath.Join(dir, "d*.csv"), "--formula", "y ~ x", "--out", link},
		{"fit", "--out-of-core", "--data", data, "--formula", "y ~ x", "--out", data},
		{"fit", "--engine", "arrow", "--data", data, "--formula", "y ~ x", "--out", data},
		{"predict", "--beliefs", fit, "--data", data, "--out", data},
		{"predict", "--beliefs", fit, "--data", data, "--out", fit},
		{"fit", "--partial", "--data", data, "--formula", "y ~ x", "--around", fit, "--out", fit},
		{"finish", part, "--out", part},
		{"export", "--beliefs", asJSON, "--option", "family=bernoulli", "--out", asJSON},
	} {
		if r := bglm(t, "", args...); r.code != 2 || !strings.Contains(r.stderr, "it would replace") {
			t.Errorf("%v: %d: %s", args, r.code, r.stderr)
		}
	}
	for name, b := range was {
		if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, b) {
			t.Errorf("%s has changed: %v", name, err)
		}
	}
	ok(t, "fit", "--data", data, "--formula", "y ~ x", "--prior", fit, "--out", fit, "-q") // in the place of the fit that it continues
}

// A merged fit knows the rows of all its parts, and says where they count twice.
func TestMergedRows(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	query(t, "COPY (SELECT i % 3 = 0 AS y, sin(i) AS x, i, i % 2 AS g FROM range(90) t(i)) TO '"+in("d.parquet")+"'")
	for _, group := range [][]string{nil, {"--group", "g"}} {
		part := func(name, where string) {
			ok(t, append([]string{"fit", "-q", in("d.parquet"), "--where", where, "-f", "y ~ x", "-m", "adf", "-o", "prior_variance=1", "--out", in(name)}, group...)...)
		}
		part("a.parquet", "i < 50")
		part("b.parquet", "i >= 50")
		if r := ok(t, "merge", "-q", in("a.parquet"), in("b.parquet"), "--out", in("a.parquet")); r.stderr != "" {
			t.Errorf("parts of different rows: %s", r.stderr)
		}
		if r := ok(t, "evaluate", "--json", "-b", in("a.parquet"), in("d.parquet")); !strings.Contains(r.stdout, `"fitted"`) {
			t.Errorf("the rows of both parts: %s", r.stdout)
		}
		if r := ok(t, "evaluate", "--json", "-b", in("a.parquet"), in("d.parquet"), "--where", "i < 50"); !strings.Contains(r.stdout, `"other rows"`) {
			t.Errorf("the rows of one part: %s", r.stdout)
		}
		for _, ext := range []string{".duckdb", ".arrow", ".parquet"} {
			ok(t, "merge", "-q", in("b.parquet"), in("a.parquet"), "--out", in("again"+ext))
			r := ok(t, "merge", "-q", in("again"+ext), in("b.parquet"), "--out", in("more"+ext))
			if want := "40 rows of " + in("b.parquet") + " are in " + in("again"+ext) + " already: they count twice"; !strings.Contains(r.stderr, want) {
				t.Errorf("merged again: %q has no %q", r.stderr, want)
			}
			os.Remove(in("more" + ext))
			os.Remove(in("again" + ext))
		}
	}
}

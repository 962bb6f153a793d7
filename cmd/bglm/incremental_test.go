package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// Files without rows are noted as processed and change nothing, wherever they come among the others.
func TestIncrementalWithoutRows(t *testing.T) {
	kerneltest.Slow(t)
	// In a CSV file without rows every column is text, of which there are no squares.
	for _, model := range [][]string{{"-f", "y ~ x + I(x^2)"}, {"-f", "y ~ x", "-m", "adf"}, {"-f", "y ~ x", "--group", "g"}} {
		dir := t.TempDir()
		db, data := filepath.Join(dir, "m.duckdb"), filepath.Join(dir, "*.csv")
		day := func(name, rows string) {
			query(t, "COPY (SELECT i, i % 10 AS x, hash(i) % 100 < 30 + i % 10 AS y, 'g' || i % 2 AS g FROM range("+rows+") t(i) WHERE i >= 0) TO '"+filepath.Join(dir, name)+"'")
		}
		run := func() result {
			t.Helper()
			return ok(t, append([]string{"fit", "--data", data, "--where", "i < 900", "--incremental", "--out", db}, model...)...)
		}
		n := func() string {
			return strings.TrimSpace(ok(t, "sql", "--db", db, "--mode", "csv", "-c", "SELECT sum(fit.n) AS n, (SELECT count(*) FROM bglm_ledger) AS files FROM fits").stdout)
		}
		day("00.csv", "0")
		if r := run(); !strings.Contains(r.stderr, "00.csv has no rows that --where keeps: nothing was learnt from it") || !strings.Contains(r.stdout, "1 new file. There is no fit yet") {
			t.Errorf("%v: only a file without rows: %+v", model, r)
		}
		if r := run(); !strings.HasPrefix(r.stdout, "0 new files. There is no fit yet") {
			t.Errorf("%v: nothing new: %+v", model, r)
		}
		day("01.csv", "400")
		run()
		day("02.csv", "900, 950") // left out by --where
		if r := run(); !strings.Contains(r.stderr, "02.csv has no rows that --where keeps: the fits stay as they were") || !strings.Contains(r.stdout, ": 400 rows") {
			t.Errorf("%v: %+v", model, r)
		}
		if got := n(); got != "n,files\n400,3" {
			t.Errorf("%v: %s", model, got)
		}
		day("03.csv", "500, 600")
		run()
		if got := n(); got != "n,files\n500,4" {
			t.Errorf("%v: %s", model, got)
		}
		means := func() string {
			return ok(t, "sql", "--db", db, "--mode", "csv", "-c", "SELECT feature, round(mean, 9), round(variance, 9) FROM beliefs ORDER BY ALL").stdout
		}
		before := means()
		if err := os.Remove(db); err != nil {
			t.Fatal(err)
		}
		run()
		if got := n(); got != "n,files\n500,4" || means() != before {
			t.Errorf("%v: all files in one run: %s\n%s, one after the other:\n%s", model, got, means(), before)
		}
	}
}

// Beliefs that a job starts from are still those of its first rows after a file without any.
func TestIncrementalPriorWithoutRows(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	query(t, "COPY (SELECT i % 10 AS x, hash(i) % 100 < 40 AS y FROM range(300) t(i)) TO '"+path("p.parquet")+"'; COPY (FROM '"+path("p.parquet")+"' LIMIT 0) TO '"+path("1.parquet")+"'; COPY (FROM '"+path("p.parquet")+"' LIMIT 100) TO '"+path("2.parquet")+"'")
	fit := func(args ...string) {
		ok(t, append([]string{"fit", "-f", "y ~ x", "-m", "adf", "-q"}, args...)...)
	}
	fit(path("p.parquet"), "--out", path("prior.parquet"))
	fit(path("1.parquet"), path("2.parquet"), "--incremental", "--prior", path("prior.parquet"), "--out", path("a.duckdb"))
	fit(path("2.parquet"), "--incremental", "--prior", path("prior.parquet"), "--out", path("b.duckdb"))
	all := func(db string) string {
		return ok(t, "sql", "--db", path(db), "--mode", "csv", "-c", "SELECT feature, mean, variance, (SELECT fit.n FROM fits) AS n FROM beliefs ORDER BY ALL").stdout
	}
	if a, b := all("a.duckdb"), all("b.duckdb"); a != b || !strings.Contains(a, ",400\n") {
		t.Errorf("%s, without the empty file:\n%s", a, b)
	}
}

// A group whose new rows cannot be fitted keeps its earlier fit under on_error=null, and the exit code
// says so.
func TestKeepsFitsOfBadRows(t *testing.T) {
	kerneltest.Slow(t)
	for _, model := range [][]string{{"--group", "g"}, {"--group", "g", "-m", "adf"}, {}} {
		dir := t.TempDir()
		path := func(name string) string { return filepath.Join(dir, name) }
		day := func(k int, bad string) {
			query(t, fmt.Sprintf("COPY (SELECT CASE WHEN %s THEN 'inf'::DOUBLE ELSE (hash(i) %% 100) / 9 + i %% 10 END AS y, i %% 10 AS x, 'g' || i %% 3 AS g FROM range(%d, %d) t(i)) TO '%s'", bad, 60*k, 60*k+60, path(fmt.Sprintf("%d.parquet", k))))
		}
		grouped := len(model) > 0
		model = append([]string{"-f", "y ~ x", "-o", "family=gaussian", "-o", "on_error=null"}, model...)
		db := path("m.duckdb")
		run := func(code int, want ...string) {
			t.Helper()
			r := bglm(t, "", append([]string{"fit", "--data", path("?.parquet"), "--incremental", "--out", db}, model...)...)
			if r.code != code {
				t.Errorf("%v: %+v", model, r)
			}
			for _, w := range want {
				if !strings.Contains(r.stderr, w) {
					t.Errorf("%v: not %q: %+v", model, w, r)
				}
			}
		}
		n := func() string {
			return strings.ReplaceAll(query(t, "ATTACH '"+db+"' (READ_ONLY); SELECT list(fit.n ORDER BY fit.n)::VARCHAR || (SELECT list(n ORDER BY file)::VARCHAR FROM m.bglm_ledger) FROM m.fits; DETACH m"), "\"", "")
		}
		day(0, "false")
		run(exitDone)
		day(1, "i IN (61, 70)")
		if !grouped {
			run(exitFailed, "1.parquet: the fit stays as it was, without these rows: one is bad, or they cannot be fitted", "on_error=skip")
			day(2, "false")
			run(exitDone)
			if got := n(); got != "[120][60, 0, 60]" {
				t.Errorf("%v: %s", model, got)
			}
			continue
		}
		run(exitFailed, "1.parquet: 1 group keeps its earlier fit (g1), without these rows: one is bad, or they cannot be fitted", "on_error=skip")
		if got := n(); got != "[20, 40, 40][60, 40]" {
			t.Errorf("%v: %s", model, got)
		}
		day(2, "true")
		run(exitFailed, "2.parquet: 3 groups keep their earlier fits (g0; g1; g2)")
		day(3, "false")
		run(exitDone)
		if got := n(); got != "[40, 60, 60][60, 40, 0, 60]" {
			t.Errorf("%v: %s", model, got)
		}
		// The same by hand.
		a, b := path("a.arrow"), path("b.parquet")
		ok(t, append([]string{"fit", path("0.parquet"), "--out", a, "-q"}, model...)...)
		if r := bglm(t, "", append([]string{"fit", path("1.parquet"), "--prior", a, "--out", b}, model...)...); r.code != exitFailed || !strings.Contains(r.stderr, "1.parquet: 1 group keeps its earlier fit (g1)") || !strings.Contains(r.stdout, "3 groups") {
			t.Errorf("%v: %+v", model, r)
		}
		if got := query(t, "SELECT list(n ORDER BY n)::VARCHAR FROM (SELECT (fit->>'n')::INT AS n FROM '"+b+"' WHERE fit IS NOT NULL)"); strings.Trim(got, "\"") != "[20, 40, 40]" {
			t.Errorf("%v: %s", model, got)
		}
	}
}

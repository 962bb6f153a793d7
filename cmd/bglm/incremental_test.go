package main

import (
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

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The figures of docs/cli.md, written there: time and peak memory of whole processes over
// the full flights (make data), and over ten copies of them.
//
//	BGLM_FIGURES=1 go test -run TestFigures -v -timeout 30m ./cmd/bglm
func TestFigures(t *testing.T) {
	if os.Getenv("BGLM_FIGURES") == "" {
		t.Skip("BGLM_FIGURES is not set")
	}
	flights := os.Getenv("BGLM_FLIGHTS")
	if flights == "" {
		flights = "../../data/flights-3m.parquet"
	}
	if _, err := os.Stat(flights); err != nil {
		t.Skipf("no full data (make data gets them): %v", err)
	}
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	table := "| job | time | rows/s | peak memory |\n|---|---|---|---|\n"
	run := func(what, stdin string, rows float64, args ...string) {
		t.Helper()
		best, peak := time.Duration(1<<62), int64(0)
		for range 3 {
			cmd := exec.Command(os.Args[0], args...)
			cmd.Env = append(os.Environ(), beMain+"=1")
			if stdin != "" {
				f, err := os.Open(stdin)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				cmd.Stdin = f
			}
			began := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", what, err, out)
			}
			best = min(best, time.Since(began))
			peak = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss // KiB, as Linux counts it
		}
		table += fmt.Sprintf("| %s | %.2f s | %.2f M | %d MB |\n", what, best.Seconds(), rows/best.Seconds()/1e6, peak/1024)
	}
	const n = 3e6
	// In separate processes: a process counts its parent's memory as its peak.
	child := func(args ...string) {
		t.Helper()
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), beMain+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	prepared := path("prepared.parquet")
	sql := func(q string) {
		t.Helper()
		child("sql", "-c", q)
	}
	sql("COPY (SELECT delay > 15 AS late, origin, destination, hour(date)::VARCHAR AS hour FROM '" + flights + "') TO '" + prepared + "'")
	sql("COPY (SELECT t.* FROM '" + prepared + "' t, range(10) ORDER BY range) TO '" + path("ten.parquet") + "'")
	child("fit", prepared, "-f", "late ~ origin", "--out", path("any.parquet"), "-q")
	child("predict", "-b", path("any.parquet"), prepared, "--out", path("rows.arrow"), "-q")
	child("predict", "-b", path("any.parquet"), prepared, "--out", path("rows.arrows"), "-q")
	x := "{origin: origin, destination: destination, hour: hour}"
	formula := []string{"-f", "late ~ origin + destination + hour", "-o", "link=probit", "-q", "--method", "adf"}
	fit := func(in, out string, more ...string) []string {
		return append(append([]string{"fit", "--data", in, "--out", path(out)}, formula...), more...)
	}
	run("bglm sql: COPY of bglm_adf, one thread", "", n, "sql", "-c", "SET threads = 1", "-c", "COPY (SELECT unnest(fit.beliefs, recursive := true) FROM (SELECT bglm_adf(late, "+x+", {link: 'probit'}) AS fit FROM '"+prepared+"')) TO '"+path("s.parquet")+"'")
	run("bglm sql: the same, all threads merged", "", n, "sql", "-c", "COPY (SELECT unnest(fit.beliefs, recursive := true) FROM (SELECT bglm_adf(late, "+x+", {link: 'probit'}) AS fit FROM '"+prepared+"')) TO '"+path("s2.parquet")+"'")
	run("bglm fit, Parquet", "", n, fit(prepared, "b.parquet")...)
	run("bglm fit --parallel, Parquet", "", n, fit(prepared, "b2.parquet", "--parallel")...)
	run("bglm fit, Parquet as it came: 'delay > 15 ~ origin + destination + factor(hour(date))'", "", n, "fit", flights, "-f", "delay > 15 ~ origin + destination + factor(hour(date))", "-o", "link=probit", "--method", "adf", "--out", path("b3.parquet"), "-q")
	run("bglm fit --order date of the same", "", n, "fit", flights, "-f", "delay > 15 ~ origin + destination + factor(hour(date))", "-o", "link=probit", "--order", "date", "--method", "adf", "--out", path("b4.parquet"), "-q")
	run("bglm fit --engine arrow, Parquet", "", n, fit(prepared, "b5.parquet", "--engine", "arrow")...)
	run("bglm fit --engine arrow, Arrow IPC file", "", n, fit(path("rows.arrow"), "b6.parquet", "--engine", "arrow")...)
	run("bglm fit --engine arrow, Arrow IPC stream from the standard input", path("rows.arrows"), n, fit("-", "b7.parquet", "--engine", "arrow")...)
	run("bglm fit, Arrow IPC file through DuckDB", "", n, fit(path("rows.arrow"), "b8.parquet")...)
	run("bglm fit, Parquet, no method named (laplace)", "", n, "fit", "--data", prepared, "-f", "late ~ origin + destination + hour", "-q", "--out", path("b9.parquet"))
	run("bglm predict, Parquet to Parquet with all columns", "", n, "predict", "-b", path("b.parquet"), prepared, "--out", path("scores.parquet"), "-q")
	run("bglm evaluate, Parquet", "", n, "evaluate", "-b", path("b.parquet"), prepared, "-q")
	run("10 copies (30,000,000 rows): bglm fit, Parquet", "", 10*n, fit(path("ten.parquet"), "t1.parquet")...)
	run("10 copies: bglm fit --engine arrow, Parquet", "", 10*n, fit(path("ten.parquet"), "t2.parquet", "--engine", "arrow")...)
	for _, other := range []string{"b5.parquet", "b6.parquet", "b7.parquet", "b8.parquet", "s.parquet"} {
		if got := differ(t, path("b.parquet"), path(other)); !strings.HasPrefix(got, "0 of ") {
			t.Errorf("%s: %s beliefs differ", other, got)
		}
	}
	const page = "../../docs/cli.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const head = "\n## Figures\n"
	at := strings.Index(string(text), head)
	old := strings.Index(string(text[max(at, 0):]), "| job |")
	if at < 0 || old < 0 {
		t.Fatalf("no table under %q in %s", head, page)
	}
	before, after := string(text[:at+old]), ""
	if _, rest, ok := strings.Cut(string(text[at+old:]), "\n\n"); ok {
		after = "\n" + rest
	}
	if err := os.WriteFile(page, []byte(before+table+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bglm/bglm/kernels/kerneltest"
)

type result struct {
	code           int
	stdout, stderr string
}

func bglm(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	return bglmCtx(t.Context(), stdin, args...)
}

func bglmCtx(ctx context.Context, stdin string, args ...string) result {
	var out, errOut bytes.Buffer
	code := run(ctx, args, strings.NewReader(stdin), &out, &errOut)
	return result{code, out.String(), errOut.String()}
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExitCodes(t *testing.T) {
	kerneltest.Slow(t)
	bad := file(t, "bad.sql", "SELECT 1;\n\nSELECT\n  nope;\nSELECT 3;\n")
	noDB := file(t, "text.db", strings.Repeat("this is no database\n", 1000))
	for _, tc := range []struct {
		name   string
		args   []string
		code   int
		stdout string // a part of it
		stderr string
	}{
		{"no command", nil, 2, "", "expected one of"},
		{"unknown command", []string{"nope"}, 2, "", "nope"},
		{"unknown flag", []string{"sql", "--nope"}, 2, "", "--nope"},
		{"an option as a flag", []string{"fit", "--family", "poisson"}, 2, "", "family is an option of the methods: --option family=VALUE"},
		{"an option of two words as a flag", []string{"fit", "--prior-variance=auto"}, 2, "", "--option prior_variance=VALUE"},
		{"unknown mode", []string{"sql", "--mode", "xml"}, 2, "", `"box","csv","json","markdown","line"`},
		{"rows no number", []string{"sql", "--max-rows", "x"}, 2, "", "--max-rows"},
		{"rows negative", []string{"sql", "--max-rows=-3"}, 2, "", "--max-rows is -3"},
		{"read only memory", []string{"sql", "--read-only"}, 2, "", "--db"},
		{"help", []string{"--help"}, 0, "sql", ""},
		{"help of sql", []string{"sql", "--help"}, 0, "bglm sql --db flights.db", ""},
		{"help of version", []string{"version", "--help"}, 0, "bglm version", ""},
		{"version as a flag", []string{"--version"}, 0, "DuckDB v", ""},
		{"statement", []string{"sql", "-c", "SELECT 7 AS seven"}, 0, "seven", ""},
		{"comment first", []string{"sql", "-c", "-- nothing = yet\nSELECT 7 AS seven", "--command", "-- and\n;"}, 0, "seven", ""},
		{"long nonsense", []string{"sql", "--max-rows", strings.Repeat("x", 5000)}, 2, "", "…\nbglm --help"},
		{"wrong statement", []string{"sql", "-c", "SELEC"}, 1, "", "bglm sql: -c:1: Parser Error"},
		{"wrong second -c", []string{"sql", "-c", "SELECT 1", "-c", "\nSELECT nope"}, 1, "1", "-c 2:2: Binder Error"},
		{"wrong file", []string{"sql", bad}, 1, "1", bad + ":3: Binder Error"},
		{"missing file", []string{"sql", "missing.sql"}, 1, "", "missing.sql"},
		{"database for SQL", []string{"sql", "flights.duckdb"}, 2, "", "flights.duckdb is the name of a database; --db flights.duckdb opens it"},
		{"no database", []string{"sql", "--db", noDB, "-c", "SELECT 1"}, 1, "", "--db " + noDB},
		{"no folder", []string{"sql", "--db", "missing/x.db", "-c", "SELECT 1"}, 1, "", "--db missing/x.db"},
		{"quit", []string{"sql", "-c", ".quit", "-c", "SELEC"}, 0, "", ""},
		{"empty", []string{"sql", "-c", " ; -- nothing"}, 0, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := bglm(t, "", tc.args...)
			if r.code != tc.code || !strings.Contains(r.stdout, tc.stdout) || !strings.Contains(r.stderr, tc.stderr) || (tc.code == 0) != (r.stderr == "") {
				t.Errorf("got %+v, want code %d, stdout with %q, stderr with %q", r, tc.code, tc.stdout, tc.stderr)
			}
		})
	}
}

func TestSourcesRunInOrder(t *testing.T) {
	a, b := file(t, "a.sql", "SELECT 'a' AS x;"), file(t, "b.sql", "SELECT 'b, c' AS x;")
	r := bglm(t, "SELECT 'in' AS x;", "sql", "--mode", "csv", "-c", "SELECT 'd' AS x", a, "-", b, "-c", "SELECT 'e' AS x; SELECT 'f' AS x")
	want := "x\na\nx\nin\nx\n\"b, c\"\nx\nd\nx\ne\nx\nf\n"
	if r.code != 0 || r.stdout != want {
		t.Errorf("got %+v, want %q", r, want)
	}
}

func TestStdin(t *testing.T) {
	r := bglm(t, "SELECT 1 AS a;\n-- done\nSELECT\n nope;\nSELECT 3 AS c;", "sql", "--mode", "csv")
	if r.code != 1 || r.stdout != "a\n1\n" || !strings.Contains(r.stderr, "bglm sql: stdin:3: ") || !strings.Contains(r.stderr, "LINE 4:  nope") {
		t.Errorf("got %+v", r)
	}
	r = bglm(t, "SELECT 1 AS a", "sql", "--mode", "json")
	if r.code != 0 || r.stdout != "[{\"a\":1}]\n" {
		t.Errorf("without a last semicolon: %+v", r)
	}
}

func TestStdinAsData(t *testing.T) {
	r := bglm(t, "a,b\n1,x\n2,y\n", "sql", "--mode", "csv", "-c", "SELECT sum(a) AS s, [max(b)] AS m FROM read_csv('/dev/stdin')", "-c", "SELECT count(*) AS n FROM read_csv('/dev/stdin')")
	if r.code != 0 || r.stdout != "s,m\n3,[y]\nn\n2\n" {
		t.Errorf("got %+v", r)
	}
	r = bglm(t, "SELECT * FROM read_csv('/dev/stdin');", "sql")
	if r.code != 1 || !strings.Contains(r.stderr, "/dev/stdin") {
		t.Errorf("statements that read their own source: %+v", r)
	}
}

func TestDatabaseFile(t *testing.T) {
	db := filepath.Join(t.TempDir(), "a b%20c.duckdb")
	if r := bglm(t, "", "sql", "--db", db, "-c", "CREATE TABLE t AS SELECT 5 AS five"); r.code != 0 {
		t.Fatalf("got %+v", r)
	}
	if _, err := os.Stat(db); err != nil {
		t.Fatal(err)
	}
	if r := bglm(t, "", "sql", "--db", db, "--mode", "csv", "-c", "FROM t"); r.code != 0 || r.stdout != "five\n5\n" {
		t.Errorf("got %+v", r)
	}
	if r := bglm(t, "", "sql", "--db", db, "--read-only", "-c", "DROP TABLE t"); r.code != 1 || !strings.Contains(r.stderr, "read-only") {
		t.Errorf("got %+v", r)
	}
}

// onWrite calls back, a little later, when something is written.
type onWrite struct {
	bytes.Buffer
	then func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	time.AfterFunc(100*time.Millisecond, w.then)
	return w.Buffer.Write(p)
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := time.Now()
	out := &onWrite{then: cancel}
	var errOut bytes.Buffer
	code := run(ctx, []string{"sql", "--mode", "csv", "-c", "SELECT 1 AS a", "-c", "SELECT count(*) FROM range(1000000000000)", "-c", "SELECT 2"}, strings.NewReader(""), out, &errOut)
	if s := errOut.String(); code != 1 || out.String() != "a\n1\n" || !strings.Contains(s, "interrupted") {
		t.Errorf("exit code %d, %q, %q", code, out, s)
	}
	if took := time.Since(began); took > 60*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestVersion(t *testing.T) {
	set := func(kv ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}
		for i := 0; i < len(kv); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: kv[i], Value: kv[i+1]})
		}
		return info
	}
	for _, c := range []struct {
		info        *debug.BuildInfo
		built, want string
	}{
		{nil, "", ""}, {set(), "", ""}, {&debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}}, "", "module v0.1.0\n"},
		{set("vcs.revision", "abc", "vcs.time", "2026-11-22T05:00:00Z", "vcs.modified", "false"), "", "commit abc of 2026-11-22T05:00:00Z\n"},
		{set("vcs.revision", "abc", "vcs.time", "2026-11-22T05:00:00Z", "vcs.modified", "true"), "", "commit abc of 2026-11-22T05:00:00Z, with changes\n"},
		{nil, "abc,2026-11-22T05:00:00Z", "commit abc of 2026-11-22T05:00:00Z\n"},
		{set(), "abc,2026-11-22T05:00:00Z,changed", "commit abc of 2026-11-22T05:00:00Z, with changes\n"},
		{set("vcs.revision", "def", "vcs.time", "2026-11-22T05:00:00Z", "vcs.modified", "false"), "abc,2026-11-22T05:00:00Z,changed", "commit def of 2026-11-22T05:00:00Z\n"},
	} {
		if got := commit(c.info, c.built); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	r := bglm(t, "", "version")
	if r.code != 0 || !regexp.MustCompile(`^bglm   \S+\nGo     go1\.\S+ \S+/\S+\nDuckDB v1\.\S+\n$`).MatchString(r.stdout) {
		t.Errorf("got %+v", r)
	}
}

// A job that is ended once its file is there does not say that nothing was written.
func TestEndedAfterWriting(t *testing.T) {
	times := 3
	if testing.Short() {
		times = 1
	}
	dir := t.TempDir()
	fit := filepath.Join(dir, "fit.parquet")
	january := []string{"../../testdata/flights.parquet", "--where", "month(date) = 1", "--out"}
	made := append([]string{"fit", "--formula", "delay > 15 ~ origin", "--method", "laplace"}, january...)
	if r := bglm(t, "", append(made, fit, "--quiet")...); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	for name, args := range map[string][]string{
		"fit.parquet": made,
		"p.arrow":     append([]string{"predict", "--beliefs", fit}, january...),
		"m.parquet":   {"merge", fit, fit, "--out"},
	} {
		for range times {
			ctx, cancel := context.WithCancel(t.Context())
			out := filepath.Join(t.TempDir(), name)
			go func() {
				for ctx.Err() == nil {
					if _, err := os.Stat(out); err == nil {
						cancel()
					}
					time.Sleep(50 * time.Microsecond)
				}
			}()
			r := bglmCtx(ctx, "", append(slices.Clone(args), out)...)
			cancel()
			if strings.Contains(r.stderr, "nothing was written") || args[0] != "fit" && r.code != exitDone {
				t.Errorf("%s, whose file is there: exit code %d, %s", args[0], r.code, r.stderr)
			}
		}
	}
}

// Whatever step a job is ended in, it says so in the same words and leaves no file.
func TestEndedAnywhere(t *testing.T) {
	dir := t.TempDir()
	fit := filepath.Join(dir, "fit.parquet")
	if r := bglm(t, "", "fit", "../../testdata/flights.parquet", "--formula", "delay > 15 ~ origin", "--method", "adf", "--quiet", "--out", fit); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	for _, ext := range []string{"parquet", "csv", "arrow", "json", "duckdb"} {
		for _, after := range []time.Duration{0, 10, 40, 100, 300} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(after*time.Millisecond, cancel)
			out := filepath.Join(t.TempDir(), "out."+ext)
			r := bglmCtx(ctx, "", "predict", "../../testdata/flights.parquet", "--beliefs", fit, "--quiet", "--out", out)
			cancel()
			if r.code == exitDone {
				continue
			}
			if want := "bglm predict: interrupted; nothing was written\n"; r.code != exitFailed || r.stderr != want {
				t.Errorf("%s after %d ms: exit code %d, %q", ext, after, r.code, r.stderr)
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(out), "*")); len(left) > 0 {
				t.Errorf("%s after %d ms left %q", ext, after, left)
			}
		}
	}
}

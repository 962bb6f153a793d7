package fitstore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/quote"
)

func open(t *testing.T) *duck.Session {
	t.Helper()
	s, err := duck.Open(&cli.Env{Ctx: t.Context(), Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// fits makes a table of fits of two groups, or of one fit.
func fits(t *testing.T, s *duck.Session, grouped bool) *Fits {
	t.Helper()
	group := ""
	if grouped {
		group = "'g' || i % 2 AS g, "
	}
	if err := s.Exec("CREATE OR REPLACE TEMP TABLE made AS SELECT " + group + "bglm_laplace(i % 3 = 0, {x: i / 10, c: 'c' || i % 2}) AS fit FROM range(40) t(i) GROUP BY ALL"); err != nil {
		t.Fatal(err)
	}
	f, err := Open(s, "made", []string{"formula", "y ~ x + c", "option.link", "it's"})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Fits of many weights are written as others are, but without a copy of the FIT for each
// belief: 700 weights would take 1.4 GB.
func TestWide(t *testing.T) {
	kerneltest.Slow(t)
	s := open(t)
	for _, q := range []string{
		"bglm_laplace(i % 3 = 0, x, {hessian: 'full'})", "bglm_laplace(i % 3 = 0, x, {hessian: 'lowrank', rank: 2})", "bglm_adf(i % 3 = 0, x)",
		"bglm_adf(i % 3 = 0, {c: i * 7 % 300})", "bglm_adf(i % 3 = 0, x, {covariance: 'diagonal'})", "bglm_adf(NULL::BOOLEAN, x, {intercept: false})",
		"bglm_softmax(i % 3, x)",
	} {
		for _, group := range []string{"", "'g' || i % 2 AS g, i % 3 AS h, "} {
			if err := s.Exec("CREATE OR REPLACE TEMP TABLE made AS SELECT " + group + q + " AS fit FROM (SELECT i, {x: sin(i), c: 'c' || i * 7 % 5, d: i * 11 % 9} AS x FROM range(900) t(i)) GROUP BY ALL"); err != nil {
				t.Fatal(err)
			}
			f, err := Open(s, "made", nil)
			if err != nil {
				t.Fatal(err)
			}
			table := func(q string) string { // without beliefs there is no covariance, or an empty one
				return "(SELECT row_number() OVER () AS i, t FROM (SELECT * REPLACE (coalesce(covariance, []) AS covariance) FROM (" + q + ")) t)"
			}
			var rows, same int64
			if err := s.Row("SELECT count(*), count(*) FILTER (a.t = b.t) FROM "+table(f.Flat(true))+" a FULL JOIN "+table(f.flatWide())+" b USING (i)", &rows, &same); err != nil {
				t.Fatal(err)
			}
			if rows == 0 || same != rows {
				t.Errorf("%s%s: %d of %d rows are the same", group, q, same, rows)
			}
		}
	}
	if err := errors.Join(s.Exec("CREATE OR REPLACE TEMP TABLE made AS SELECT bglm_laplace(i % 3 = 0, {c: 'c' || i % 700}, {hessian: 'full'}) AS fit FROM range(2000) t(i)"), s.Exec("SET memory_limit = '400MB'")); err != nil {
		t.Fatal(err)
	}
	f, err := Open(s, "made", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Save(filepath.Join(t.TempDir(), "wide.parquet")); err != nil {
		t.Error(err)
	}
	// Columns of groups may have any name.
	if err := s.Exec("CREATE OR REPLACE TEMP TABLE made AS SELECT i % 2 AS k, i % 3 AS v, 1 AS r, 2 AS x, bglm_laplace(i % 3 = 0, {c: 'c' || i % 100}, {hessian: 'full'}) AS fit FROM range(2000) t(i) GROUP BY ALL"); err != nil {
		t.Fatal(err)
	}
	if f, err = Open(s, "made", nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(filepath.Join(t.TempDir(), "named.parquet")); err != nil {
		t.Error(err)
	}
}

// What is written is read again, bit for bit where the format holds the whole fit, and
// the beliefs from the others.
func TestRoundTrip(t *testing.T) {
	s := open(t)
	for _, grouped := range []bool{false, true} {
		made := fits(t, s, grouped)
		for k, name := range []string{"a.parquet", "a.arrow", "a.duckdb", "a.csv", "a.json"} {
			path := filepath.Join(t.TempDir(), name)
			if err := made.Save(path); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			table := strings.Replace(name, "a.", "read_", 1)
			if err := s.Exec("DROP TABLE IF EXISTS " + table); err != nil {
				t.Fatal(err)
			}
			read, err := Load(s, table, path, [][2]string{{"family", "bernoulli"}})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			whole := k < 3
			q, want := "fit", "[]"
			if !whole {
				q = "fit.beliefs"
			} else if got := read.Job("option.link"); got != "it's" || read.Job("formula") != "y ~ x + c" || read.Job("no") != "" {
				t.Errorf("%s: the job is %q", name, read.Meta)
			}
			if len(read.Group) != len(made.Group) || !read.IsFit {
				t.Errorf("%s: %+v", name, read)
			}
			var differ string
			if err := s.Row("SELECT coalesce(list(d), [])::VARCHAR FROM (SELECT "+q+"::VARCHAR AS d FROM made EXCEPT SELECT "+q+"::VARCHAR FROM "+table+")", &differ); err != nil || differ != want {
				t.Errorf("grouped %v, %s: %.300s (%v)", grouped, name, differ, err)
			}
		}
	}
}

func TestFetchAndInsert(t *testing.T) {
	s := open(t)
	f, err := fits(t, s, false).Fetch()
	if err != nil || f.N != 40 || len(f.Beliefs) != 4 || f.Method != "laplace" {
		t.Fatalf("%+v (%v)", f, err)
	}
}

func TestErrors(t *testing.T) {
	s := open(t)
	dir := t.TempDir()
	text := filepath.Join(dir, "a.csv")
	if err := os.WriteFile(text, []byte("feature,mean\na,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(s, "t", text, nil); err == nil || !strings.Contains(err.Error(), "no column variance") || !strings.Contains(err.Error(), text) {
		t.Errorf("%v", err)
	}
	if _, err := Load(s, "t", filepath.Join(dir, "none.parquet"), nil); err == nil {
		t.Error("a file that is not there")
	}
	if err := s.Exec("CREATE TEMP TABLE plain AS SELECT 1 AS a"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s, "plain", nil); err == nil || !strings.Contains(err.Error(), "no column fit; found: a") {
		t.Errorf("%v", err)
	}
	if err := fits(t, s, true).Continues([]string{"G"}); err != nil {
		t.Error(err)
	}
	if err := fits(t, s, true).Continues([]string{"h"}); err == nil || !strings.Contains(err.Error(), "its groups are (g), those of the job (h)") {
		t.Errorf("%v", err)
	}
	for path, want := range map[string]string{"": "", "-": "", filepath.Join(dir, "a.csv"): "", filepath.Join(dir, "a.xyz"): "allowed: .parquet", filepath.Join(dir, "no", "a.csv"): "no such file", filepath.Join(text, "a.csv"): "no folder"} {
		if err := CheckOut(path); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// A ledger has each file once, whatever its name, and belongs to one job.
func TestLedger(t *testing.T) {
	s := open(t)
	dir := t.TempDir()
	path, a, b := filepath.Join(dir, "m.duckdb"), filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv")
	for _, name := range []string{a, b} {
		if err := os.WriteFile(name, []byte("y,x\n1,2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := OpenLedger(s, path, "job 1")
	if err != nil {
		t.Fatal(err)
	}
	if f, err := l.Fits(); err != nil || f != nil {
		t.Errorf("a new ledger has %+v (%v)", f, err)
	}
	fresh, err := l.Fresh([]string{b, a, b})
	if err != nil || len(fresh) != 2 || fresh[0] != a {
		t.Errorf("%q (%v)", fresh, err)
	}
	e, of, err := l.Enter(a)
	if err != nil || of != "" {
		t.Fatalf("a copy of %q (%v)", of, err)
	}
	if err := s.Exec("CREATE TEMP TABLE fits AS SELECT bglm_adf(true, {x: 2}) AS fit"); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Commit(e, nil, []string{"formula", "y ~ x"}); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if _, of, err = l.Enter(b); err != nil || of != a {
		t.Errorf("a copy of %q (%v), want of %q", of, err, a)
	}
	if fresh, err = l.Fresh([]string{a, b}); err != nil || len(fresh) != 0 {
		t.Errorf("%q (%v)", fresh, err)
	}
	if p, err := l.Prior(); err != nil || p == nil || p.Table != "prior_fits" {
		t.Errorf("%+v (%v)", p, err)
	}
	if err := os.WriteFile(a, []byte("y,x\n1,2\n0,3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Fresh([]string{a}); err == nil || !strings.Contains(err.Error(), "its rows are in the beliefs already") {
		t.Errorf("%v", err)
	}
	if _, err := l.Commit(e, nil, nil); err == nil || !strings.Contains(err.Error(), "changed while it was read") {
		t.Errorf("%v", err)
	}
	l.Close()
	if _, err := OpenLedger(s, path, "job 2"); err == nil || !strings.Contains(err.Error(), "another job") {
		t.Errorf("%v", err)
	}
}

// In a CSV for spreadsheets no cell begins as a formula does.
func TestCSVSafe(t *testing.T) {
	s := open(t)
	s.CSVSafe = true
	path := filepath.Join(t.TempDir(), "a.csv")
	if err := CopyTo(s, path, "SELECT '=1+1' AS "+quote.Name("=a")+", -1 AS n", nil); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "'=a,n\n'=1+1,-1\n" {
		t.Errorf("%q (%v)", b, err)
	}
}

// Names of groups and features in files of text are those that the fits had, whatever they look
// like.
func TestNamesAsWritten(t *testing.T) {
	s := open(t)
	dir := t.TempDir()
	for _, names := range []string{
		"'', 'a'", "'', NULL", "'1e3', '1000'", "'true', 'TRUE'", "'2024-01-02', '2024-1-2'", "'1.50', '2.50'", "'0x10', '16'", "'10:00', '10:00:00'", "'007', '7'",
		"1, NULL", "0.1, 1", "0.1::DOUBLE, 1", "0.1::FLOAT, 1", "1.50::DECIMAL(5, 2), 2", "DATE '2024-01-02', NULL", "true, NULL", "[1], [2]",
	} {
		// l is what a variable may be called, too
		made := "SELECT [" + names + "][1 + i % 2] AS l, bglm_adf(i % 3 = 0, MAP {coalesce(nullif([" + names + "][1 + i % 2]::VARCHAR, ''), 'none'): 1}, {intercept: false, covariance: 'diagonal'}) AS fit FROM range(40) t(i) GROUP BY ALL"
		if err := s.Exec("CREATE OR REPLACE TEMP TABLE made AS " + made); err != nil {
			t.Fatal(err)
		}
		f, err := Open(s, "made", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, ext := range []string{".csv", ".json", ".ndjson"} {
			if ext == ".csv" && strings.HasPrefix(names, "[") {
				continue // a list is text there
			}
			path := filepath.Join(dir, "fits"+ext)
			if _, _, err := f.LosesCovariance(path); err != nil {
				t.Errorf("%s: %v", names, err)
			}
			if err := f.Save(path); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(s, "read", path, [][2]string{{"family", "bernoulli"}, {"intercept", "false"}}); err != nil {
				t.Errorf("%s of %s: %v", ext, names, err)
				continue
			}
			var same int64
			if err := s.Row("SELECT count(*) FROM made m JOIN read r ON m.l IS NOT DISTINCT FROM r.l AND m.fit.beliefs[1].feature = r.fit.beliefs[1].feature AND len(r.fit.beliefs) = 1", &same); err != nil || same != 2 {
				t.Errorf("%s of %s: %d of 2 fits are found again, %v", ext, names, same, err)
			}
		}
	}
}

package shell

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// open returns a shell on a database in memory and its output.
func open(t *testing.T, f Format) (*Shell, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	s, err := Open(t.Context(), Options{Format: f, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, &out
}

func run(t *testing.T, s *Shell, text string) {
	t.Helper()
	if err := s.RunText(t.Context(), "test", text); err != nil {
		t.Fatal(err)
	}
}

// Nothing is fetched from elsewhere because a statement would need it.
func TestNoDownloads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.duckdb")
	for _, o := range []Options{{}, {DB: file}, {DB: file, ReadOnly: true}} {
		var out bytes.Buffer
		o.Stdout, o.Stderr, o.Format = &out, &out, Format{Mode: "csv"}
		s, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		run(t, s, "SELECT current_setting('autoinstall_known_extensions') AS installs, current_setting('autoload_known_extensions') AS loads")
		if got := out.String(); got != "installs,loads\nfalse,true\n" {
			t.Errorf("%+v: %q", o, got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Values print as DuckDB itself casts them to text.
func TestTextEqualsCast(t *testing.T) {
	s, out := open(t, Format{Mode: "line"})
	for _, expr := range []string{
		"NULL", "true", "1::TINYINT", "-5::SMALLINT", "7::BIGINT", "255::UTINYINT", "18446744073709551615::UBIGINT",
		"170141183460469231731687303715884105727", "(-170141183460469231731687303715884105727)::HUGEINT",
		"340282366920938463463374607431768211455::UHUGEINT", "123456789012345678901234567890123456789012345::BIGNUM",
		"0.1::DOUBLE", "1e15::DOUBLE", "1e16::DOUBLE", "1e-4::DOUBLE", "1e-5::DOUBLE", "-1.5e-7::DOUBLE", "1e300::DOUBLE", "5e-324::DOUBLE",
		"123456789012345678::DOUBLE", "9007199254740993::DOUBLE", "0::DOUBLE", "'nan'::DOUBLE", "'inf'::DOUBLE", "'-inf'::DOUBLE", "(1/3)::DOUBLE",
		"0.1::FLOAT", "16777216::FLOAT", "1e10::FLOAT", "3.4e38::FLOAT", "1e-5::FLOAT", "1.17549e-38::FLOAT", "12345678::FLOAT",
		"1.50::DECIMAL(5,2)", "-0.05::DECIMAL(5,2)", "0::DECIMAL(5,2)", "0.25::DECIMAL(2,2)", "-0.25::DECIMAL(2,2)", "12::DECIMAL(4,0)",
		"12345678901234567890123456.789::DECIMAL(38,3)",
		"'plain'", "''", "'\\x00\\x41 ''\"\\x5c~\\xff'::BLOB", "'101'::BIT", "'b'::ENUM('a', 'b')",
		"'00112233-4455-6677-8899-aabbccddeeff'::UUID",
		"DATE '2020-02-29'", "'infinity'::DATE", "'-infinity'::DATE", "'0044-03-15 (BC)'::DATE", "'290000-01-01'::DATE",
		"TIMESTAMP '2020-01-01 10:00:00'", "TIMESTAMP '2020-01-01 10:00:00.5'", "TIMESTAMP '1969-12-31 23:59:59.999999'",
		"'infinity'::TIMESTAMP", "'-infinity'::TIMESTAMP", "'0044-03-15 (BC) 01:02:03'::TIMESTAMP",
		"'2020-01-01 10:00:00.123456789'::TIMESTAMP_NS", "'2020-01-01 10:00:00'::TIMESTAMP_S", "'2020-01-01 10:00:00.120'::TIMESTAMP_MS",
		"'infinity'::TIMESTAMP_S", "'infinity'::TIMESTAMP_MS", "'infinity'::TIMESTAMP_NS",
		"TIMESTAMPTZ '2020-07-01 10:00:00+03'",
		"TIME '10:00:00.25'", "'10:00:00+05:30'::TIMETZ", "'10:00:00-07'::TIMETZ",
		"INTERVAL '0 seconds'", "INTERVAL '-1 day'", "INTERVAL '14 months'", "INTERVAL '-25 hours'", "INTERVAL '1.000001 second'",
		"INTERVAL '1 year 1 month 2 days 3.5 seconds'", "INTERVAL '-3 months'",
		"[1, 2, NULL]", "[]::INTEGER[]", "NULL::INTEGER[]", "[1, 2]::INTEGER[2]", "[[1], [], NULL]",
		"{'a': 1, 'b': [1, 2]}", "{'Dd x': 1, 'q\"''x': 2}", "{'a': NULL, 'b': {'c': 'x y'}}",
		"['a b', ' a', 'a ', 'a''', '\"', 'a:b', 'a=b', '(x)', '{}', '[', 'NULL', 'null', '', 'a,b', 'x\\', '\\ '' b']",
		"{'t': TIMESTAMP '2020-01-01 10:00:00', 'i': INTERVAL '1 month 2 days 3.5 seconds', 'd': DATE '2020-01-01', 'b': '\\x01ab'::BLOB, 'z': '1.5'::DECIMAL(3,1), 'u': '00112233-4455-6677-8899-aabbccddeeff'::UUID}",
		"MAP {'a b': 1, 'a,b': 2}", "MAP {[1, 2]: {'a': 1}}", "MAP {}::MAP(VARCHAR, INTEGER)", "MAP {TIMESTAMP '2020-01-01 00:00:00': 0.5}",
		"union_value(k := 1)", "{'u': union_value(k := 'a,b')}",
		"'{\"b\": 1, \"a\": 12345678901234567890}'::JSON", "{'j': '[1]'::JSON}", "row(1, 'a b')", "1::VARIANT",
		"[TIMESTAMPTZ '2020-07-01 10:00:00+03']",
		"[{'feature': '(Intercept)', 'mean': -0.8, 'variance': 1e-05}]",
	} {
		out.Reset()
		s.printed = false
		run(t, s, "SELECT "+expr+" AS x; SELECT CAST(("+expr+") AS VARCHAR) AS x;")
		lines := strings.Split(strings.Trim(out.String(), "\n"), "\n\n")
		if got, want := lines[0], lines[len(lines)-1]; len(lines) != 2 || got != want {
			t.Errorf("%s\n got %s\nwant %s", expr, got, want)
		}
	}
}

func TestFloatsEqualCast(t *testing.T) {
	s, out := open(t, Format{Mode: "csv"})
	r := rand.New(rand.NewPCG(1, 2))
	var values []string
	for range 2000 {
		values = append(values, "("+strconv.FormatFloat((r.Float64()-0.5)*pow10(r.IntN(50)-25), 'g', -1, 64)+"::DOUBLE)")
	}
	run(t, s, "SELECT x, x::VARCHAR, x::FLOAT, x::FLOAT::VARCHAR FROM (VALUES "+strings.Join(values, ", ")+") t(x);")
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n")[1:] {
		f := strings.Split(line, ",")
		if f[0] != f[1] {
			t.Errorf("%s: DOUBLE %s, DuckDB prints %s", values[i], f[0], f[1])
		}
		// DuckDB prints some FLOATs with more digits than needed.
		got, err1 := strconv.ParseFloat(f[2], 32)
		want, err2 := strconv.ParseFloat(f[3], 32)
		if err1 != nil || err2 != nil || got != want || len(f[2]) > len(f[3]) {
			t.Errorf("%s: FLOAT %s, DuckDB prints %s", values[i], f[2], f[3])
		}
	}
}

func pow10(n int) float64 {
	f, _ := strconv.ParseFloat("1e"+strconv.Itoa(n), 64)
	return f
}

const goldenSQL = `
SELECT 1 AS i, 1.5::DOUBLE AS d, 'text' AS s, NULL AS n, {'a': 1, 'b': [1, 2]} AS st, MAP {'k': 0.1} AS m, DATE '2001-01-01' AS dt
UNION ALL SELECT 22, 'nan', 'comma, "quote" and | bar', 5, {'a': NULL, 'b': []}, MAP {}, NULL;
SELECT '' AS empty, E'two\nlines' AS nl, E'\x1b[31mred' AS esc, 'größe ✓ 漢字' AS wide, true AS b;
SELECT 1 AS a, 2 AS a;
SELECT 42 AS none WHERE false;
CREATE TABLE t (x INTEGER);
INSERT INTO t VALUES (1), (2);
INSERT INTO t VALUES (3) RETURNING x, [x] AS l;
SELECT '{"b": [1, 2.50], "a": 12345678901234567890}'::JSON AS j;
SELECT range AS r FROM range(60);
`

func TestModes(t *testing.T) {
	for _, mode := range Modes {
		t.Run(mode, func(t *testing.T) {
			s, out := open(t, Format{Mode: mode, MaxRows: -1})
			run(t, s, goldenSQL)
			golden(t, mode+".golden", out.Bytes())
		})
	}
	t.Run("narrow", func(t *testing.T) {
		s, out := open(t, Format{Width: 80, MaxRows: 3})
		run(t, s, `
			SELECT range AS a, repeat('wide ', 40) AS b, 'short' AS c FROM range(5);
			SELECT `+strings.Repeat("repeat('漢', 30) AS c, 1 AS i, ", 8)+`2 AS last;`)
		for line := range strings.Lines(out.String()) {
			if n := width(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("a line takes %d columns, 80 are there: %s", n, line)
			}
		}
		golden(t, "narrow.golden", out.Bytes())
	})
}

func width(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r >= 0x2E80 && r < 0xA000 { // CJK
			n++
		}
	}
	return n
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; run go test with -update after checking.\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

func TestMaxRows(t *testing.T) {
	for _, tc := range []struct {
		mode string
		max  int
		want int // lines with a number
	}{{"csv", -1, 50}, {"csv", 3, 3}, {"box", -1, 40}, {"box", 0, 50}, {"json", 7, 7}, {"line", 2, 2}, {"markdown", -1, 50}} {
		s, out := open(t, Format{Mode: tc.mode, MaxRows: tc.max})
		run(t, s, "SELECT 'row' || range AS r FROM range(50);")
		if got := strings.Count(out.String(), "row") - strings.Count(out.String(), "rows"); got != tc.want {
			t.Errorf("%s with max-rows %d prints %d rows, want %d", tc.mode, tc.max, got, tc.want)
		}
	}
}

// A cast to text must keep the order of the rows.
func TestWrappedOrder(t *testing.T) {
	s, out := open(t, Format{Mode: "csv"})
	run(t, s, "SELECT range AS r, row(range, 'x') AS u FROM range(300000) ORDER BY r DESC;")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 300001 {
		t.Fatalf("%d lines, want 300001", len(lines))
	}
	for i, l := range lines[1:] {
		n := strconv.Itoa(299999 - i)
		if want := n + `,"(` + n + `, x)"`; l != want {
			t.Fatalf("line %d is %s, want %s", i+1, l, want)
		}
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	s, _ := open(t, Format{Mode: "csv"})
	for _, tc := range []struct {
		text string
		line int
		want string
	}{
		{"SELECT 1;\n\n-- c\nSELECT nope;", 4, "LINE 4: SELECT nope"},
		{"SELECT 1; SELECT\n  2,\n nope;", 1, "LINE 3:  nope"},
		{"\n\n\n\n\n\n\n\nSELECT 1,\n nope;", 9, "LINE 10:  nope\n          ^"},
		{"SELECT 1;\n.nope\n", 2, ".nope"},
		{"/*\n*/ .5;", 2, "syntax error"},
		{"SELECT ?;", 1, "1 parameters"},
		{"SELECT 1::VARIANT AS v,\n x::INTEGER FROM (VALUES ('a')) t(x);", 1, "LINE 2:  x::INTEGER"},
		{"SELEC 1", 1, "Parser Error"},
		{"SELECT 'open", 1, "unterminated"},
		{".mode xml", 1, `"xml", allowed are box, csv`},
		{".timer maybe", 1, "allowed are on, off"},
		{".read", 1, "needs a file name"},
		{".read missing.sql", 1, "missing.sql"},
		{".schema nothing", 1, "nothing"},
		{".quit now", 1, "takes no argument"},
	} {
		err := s.RunText(t.Context(), "text", tc.text)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q gives %v, want an Error", tc.text, err)
			continue
		}
		if e.Line != tc.line || e.Source != "text" || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q gives %q (line %d), want line %d and %q", tc.text, err, e.Line, tc.line, tc.want)
		}
	}
	run(t, s, "SELECT 1;") // the shell is still usable
}

func TestDotCommands(t *testing.T) {
	s, out := open(t, Format{Mode: "csv"})
	dir := t.TempDir()
	inner, loop := filepath.Join(dir, "inner file.sql"), filepath.Join(dir, "loop.sql")
	if err := os.WriteFile(inner, []byte("\ufeffSELECT 'from file' AS f;\n.mode json\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(loop, []byte(".read "+loop+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, s, "CREATE TABLE b (x INTEGER);\nCREATE VIEW a AS SELECT 1 AS one;\nCREATE SCHEMA sc; CREATE TABLE sc.c (y VARCHAR);\n"+
		".tables\n.schema b\n  .mode ;\n.read '"+inner+"'\nSELECT 1 AS j;\n.mode csv\n")
	want := "a\nb\nsc.c\nCREATE TABLE b(x INTEGER);\ncsv\nf\nfrom file\n[{\"j\":1}]\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	if err := s.RunText(t.Context(), "text", ".read "+loop); err == nil || !strings.Contains(err.Error(), "deep") {
		t.Errorf("a file that reads itself gives %v", err)
	}
	if err := s.RunText(t.Context(), "text", "SELECT 1;\n.quit\nSELECT nope;"); !errors.Is(err, ErrQuit) {
		t.Errorf(".quit gives %v", err)
	}
	out.Reset()
	run(t, s, ".timer on\nSELECT 1;\n.timer off\n.help\n")
	if !strings.Contains(out.String(), "Time: 0.") || !strings.Contains(out.String(), ".read FILE") {
		t.Errorf("timer and help print\n%s", out)
	}
}

func TestInterrupt(t *testing.T) {
	s, out := open(t, Format{Mode: "csv"})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	began := time.Now()
	err := s.Exec(ctx, "SELECT count(*) FROM range(1000000000000)")
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("the interrupted query gives %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the query gave way after %v", took)
	}
	run(t, s, "SELECT 'on' AS goes;")
	if out.String() != "goes\non\n" {
		t.Errorf("after an interrupt the shell prints %q", out)
	}
}

// Solves in bglm functions end with their statement: each of these would run for minutes.
func TestInterruptSolve(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds")
	}
	s, out := open(t, Format{Mode: "csv"})
	run(t, s, "CREATE TABLE d AS SELECT i, hash(i) % 3 = 0 AS y, list_transform(range(300), lambda j: sin(i * (j + 1))) AS x FROM range(4000) t(i);")
	for _, text := range []string{
		"SELECT bglm_hmc(y, x, {samples: 100000}) FROM d",
		"SELECT bglm_gp(y, x[1:3], {lengthscale: 'auto', on_error: 'null'}) FROM d",
		"SELECT bglm_ep(y, x, {covariance: 'full', prior_variance: 'auto', max_iter: 100000, tol: 1e-15}) FROM d",
		"SELECT bglm_adf(y, x, {covariance: 'full', process_noise: 'auto'} ORDER BY i) FROM d, range(10) r(r)",
		"SELECT bglm_update(f, l) FROM (SELECT bglm_adf(y, x, {covariance: 'full'}) AS f, list({y: y, x: x}) AS l FROM d), range(1000)",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var at time.Time
		time.AfterFunc(time.Second, func() { at = time.Now(); cancel() })
		err := s.Exec(ctx, text)
		if err == nil || !strings.Contains(err.Error(), "interrupted") {
			t.Errorf("%s gives %v", text, err)
			continue
		}
		if took := time.Since(at); took > 3*time.Second { // 0.2 s on a machine with nothing else to do
			t.Errorf("%s gave way after %v", text, took)
		}
		out.Reset()
		run(t, s, "SELECT (bglm_adf(y, x[1:2])).n AS n FROM d;")
		if out.String() != "n\n4000\n" {
			t.Errorf("after an interrupt the shell prints %q", out)
		}
	}
}

func TestHistoryEntries(t *testing.T) {
	for _, tc := range []struct{ lines, want []string }{
		{[]string{"select 1", "  + 2;"}, []string{"select 1 + 2;"}},
		{[]string{"select 'a", "b';"}, []string{"select 'a", "b';"}},
		{[]string{"select 1 -- one", ";"}, []string{"select 1 -- one", ";"}},
		{nil, nil},
	} {
		got := historyEntries(tc.lines)
		if strings.Join(got, "|") != strings.Join(tc.want, "|") {
			t.Errorf("%q gives %q, want %q", tc.lines, got, tc.want)
		}
	}
}

func TestCompletion(t *testing.T) {
	s, _ := open(t, Format{})
	run(t, s, "CREATE TABLE flights (x INTEGER);")
	got, n := (&completer{s}).Do([]rune("SELECT * FROM fli"), 17)
	if len(got) == 0 || !strings.HasPrefix(string(got[0]), "ghts") || n != 3 {
		t.Errorf("completions %q with %d characters typed, want ghts after 3", got, n)
	}
	if got, _ := (&completer{s}).Do([]rune(".ti"), 3); len(got) != 1 || string(got[0]) != "mer " {
		t.Errorf("completions of .ti are %q", got)
	}
}

// The table macros are there, and leave nothing in a user's database file.
func TestMacrosAreTemporary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "user.db")
	for range 2 {
		var out strings.Builder
		sh, err := Open(t.Context(), Options{DB: file, Stdout: &out, Stderr: &out, Format: Format{Mode: "csv"}})
		if err != nil {
			t.Fatal(err)
		}
		err = sh.RunText(t.Context(), "test", `CREATE OR REPLACE TABLE r AS SELECT i % 2 AS g, i % 3 = 0 AS y, i AS v FROM range(30) t(i);
			SELECT sum(fit.n) AS n FROM bglm_fit_by('r', g, y, {v: v / 30});
			SELECT count(*) AS persistent FROM duckdb_functions() WHERE NOT internal AND function_name LIKE 'bglm%' AND database_name NOT IN ('system', 'temp');`)
		if err != nil {
			t.Fatal(err)
		}
		if err := sh.Close(); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, "n\n30\n") || !strings.Contains(got, "persistent\n0\n") {
			t.Errorf("printed %q", got)
		}
	}
}

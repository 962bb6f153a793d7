package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// The tables about fits are those of the SQL functions, and the exported query scores.
func TestAnswers(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("y,a,g,w\n")
	for i := range 60 {
		fmt.Fprintf(&b, "%d,%g,%s,%d\n", (i*i%7)%2, math.Sin(float64(i)), string(rune('p'+i%3)), i%4)
	}
	data, small, large := filepath.Join(dir, "d.csv"), filepath.Join(dir, "small.parquet"), filepath.Join(dir, "large.parquet")
	if err := os.WriteFile(data, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	ok(t, "fit", "-q", "--method", "laplace", "--formula", "y ~ a", "--data", data, "--out", small)
	ok(t, "fit", "-q", "--method", "laplace", "--formula", "y ~ a + g", "--data", data, "--out", large)
	rows := func(args ...string) (out []map[string]any) {
		t.Helper()
		r := bglm(t, "", append(args, "--json")...)
		if r.code != 0 {
			t.Fatal(args, r.stderr)
		}
		if err := json.Unmarshal([]byte(r.stdout), &out); err != nil {
			t.Fatal(err, r.stdout)
		}
		return out
	}
	terms := rows("summary", "--beliefs", large, "--rope", "0.2")
	if len(terms) < 5 || terms[0]["term"] != "(Intercept)" || !(terms[1]["rope"].(float64) > 0) {
		t.Error(terms)
	}
	pairs := rows("contrast", "--beliefs", large, "--x", "{a: 0.5, g: 'p'}", "--column", "g")
	two := rows("contrast", "--beliefs", large, "--row", "{a: 0.5, g: 'p'}", "--against", "{a: 0.5, g: 'q'}")
	if len(pairs) != 3 || pairs[0]["a"] != "p" || math.Abs(pairs[0]["mean"].(float64)-two[0]["mean"].(float64)) > 1e-12 {
		t.Error(pairs, two)
	}
	contrasted(t, dir, data, rows)
	effects := rows("effects", "--beliefs", large, "--data", data)
	if len(effects) != 3 || effects[0]["contrast"] != "dY/dX" || effects[1]["contrast"] != "mean(q) - mean(p)" || effects[0]["n"] != 60.0 {
		t.Error(effects)
	}
	step := rows("effects", "--beliefs", large, "--data", data, "--column", "a", "--step", "0.5", "--level", "0.5")
	if len(step) != 1 || step[0]["contrast"] != "+0.5" {
		t.Error(step)
	}
	both := rows("compare", "--beliefs", small, "--beliefs", large, "--data", data)
	if len(both) != 2 || both[0]["elpd_diff"] != 0.0 || math.Abs(both[0]["weight"].(float64)+both[1]["weight"].(float64)-1) > 1e-9 || both[0]["n"] != 60.0 {
		t.Error(both)
	}
	if r := bglm(t, "", "compare", "--beliefs", small, "--beliefs", large, "--data", data); !strings.Contains(r.stdout, "elpd_diff") || !strings.Contains(r.stdout, "large.parquet") {
		t.Error(r.stdout)
	}
	compared(t, dir, data)
	query := filepath.Join(dir, "score.sql")
	ok(t, "export", "--beliefs", large, "--table", "d", "--keep", "a", "--out", query)
	text, err := os.ReadFile(query)
	if err != nil {
		t.Fatal(err)
	}
	scores := filepath.Join(dir, "scores.csv")
	ok(t, "predict", "-q", "--beliefs", large, "--data", data, "--out", scores)
	r := bglm(t, "", "sql", "-c", "CREATE TABLE d AS FROM '"+data+"'; SELECT abs(p - q) < 1e-6 AS same FROM (SELECT sum(prediction) AS p FROM ("+
		strings.TrimSuffix(strings.TrimSpace(string(text)), ";")+")), (SELECT sum(prediction) AS q FROM '"+scores+"')")
	if r.code != 0 || !strings.Contains(r.stdout, "true") {
		t.Error(r.stdout, r.stderr)
	}
	for name, head := range map[string]string{"score.pmml": "<?xml", "score.JSON": "{", "score.txt": "SELECT"} { // what the extension says
		out := filepath.Join(dir, name)
		ok(t, "export", "--beliefs", large, "--out", out)
		if text, err := os.ReadFile(out); err != nil || !strings.HasPrefix(string(text), head) {
			t.Errorf("%s: %.60s (%v)", name, text, err)
		}
	}
	if r := bglm(t, "", "export", "--beliefs", large, "--format", "json"); !strings.Contains(r.stdout, `"beliefs"`) {
		t.Error(r.stdout)
	}
	if r := bglm(t, "", "export", "--beliefs", large, "--format", "pmml", "--response", "late"); !strings.HasPrefix(r.stdout, "<?xml") || !strings.Contains(r.stdout, `<MiningField name="late" usageType="target"/>`) {
		t.Error(r.stdout, r.stderr)
	}
	for want, args := range map[string][]string{
		"give --row and --against": {"contrast", "--beliefs", large, "--x", "{a: 1}"},
		"--level is 2":             {"summary", "--beliefs", large, "--level", "2"},
		"--keep with --format pmml; allowed: with --format sql":     {"export", "--beliefs", large, "--format", "pmml", "--keep", "a"},
		"--response with --format sql; allowed: with --format pmml": {"export", "--beliefs", large, "--response", "late"},
		"e.parquet: the file would hold sql":                        {"export", "--beliefs", large, "--out", filepath.Join(dir, "e.parquet")},
		"dialect: found 'oracle'":                                   {"export", "--beliefs", large, "--dialect", "oracle"},
		"which x does not have":                                     {"effects", "--beliefs", large, "--data", data, "--column", "zz"},
	} {
		if r := bglm(t, "", args...); r.code == 0 || !strings.Contains(r.stderr, want) {
			t.Error(args, r.code, r.stderr)
		}
	}
}

// contrasted checks that rows are those of the data, of which the model makes features, or
// features; and that columns of many levels leave the others their place in what fit prints.
func contrasted(t *testing.T, dir, data string, rows func(...string) []map[string]any) {
	t.Helper()
	many, made, listed := filepath.Join(dir, "many.csv"), filepath.Join(dir, "made.parquet"), filepath.Join(dir, "listed.parquet")
	ok(t, "sql", "-c", "COPY (SELECT *, row_number() OVER () % 29 + 1 AS s, CASE WHEN s % 2 = 0 THEN y ELSE s > 9 END AS e FROM '"+data+"') TO '"+many+"'")
	out := ok(t, "fit", "--method", "laplace", "--formula", "e ~ exp(a) * g + (1 | s)", "--option", "prior_variance=1", "--option", "standardize=false", "--data", many, "--out", made).stdout
	for _, w := range []string{"│ exp(a):g=p ", "│ exp(a):g=q ", "│ exp(a):g=r ", "│ g=p ", "│ g=q ", "│ g=r ", "│ s=9 ", "of columns of many terms", "bglm effects --column g"} {
		if !strings.Contains(out, w) {
			t.Errorf("no %q in %s", w, out)
		}
	}
	row := func(a, g string) string { return fmt.Sprintf("{a: %s, g: '%s', s: 7}", a, g) }
	features := func(a, g string) string {
		return fmt.Sprintf("{'exp(a)': exp(%s), g: '%s', 'exp(a):g': {'exp(a)': exp(%[1]s), g: '%[2]s'}, s: '7'}", a, g)
	}
	mean := func(got []map[string]any) float64 {
		if len(got) == 0 {
			t.Fatal("no row")
		}
		return got[0]["mean"].(float64)
	}
	want := mean(rows("contrast", "--beliefs", made, "--row", features("0.5", "q"), "--against", features("-1", "p")))
	if got := mean(rows("contrast", "--beliefs", made, "--row", row("0.5", "q"), "--against", row("-1", "p"))); math.Abs(got-want) > 1e-12 || want == 0 {
		t.Errorf("rows of the data differ by %v, their features by %v", got, want)
	}
	pairs := rows("contrast", "--beliefs", made, "--x", row("0.5", "p"), "--column", "g")
	if got := mean(rows("contrast", "--beliefs", made, "--row", features("0.5", "p"), "--against", features("0.5", "q"))); len(pairs) != 3 || math.Abs(mean(pairs)-got) > 1e-12 || got == 0 {
		t.Errorf("pairs of a row %v, its features differ by %v", pairs, got)
	}
	if got := rows("contrast", "--beliefs", made, "--x", "{a: 0.5, s: 7}", "--column", "g"); !reflect.DeepEqual(got, pairs) {
		t.Errorf("pairs of a row without the column compared are %v, with it %v", got, pairs)
	}
	want = mean(rows("contrast", "--beliefs", made, "--row", "{a: NULL::DOUBLE, g: NULL::VARCHAR, s: 7}", "--against", row("0.5", "q")))
	if got := mean(rows("contrast", "--beliefs", made, "--row", "{a: NULL, g: NULL, s: 7}", "--against", row("0.5", "q"))); got != want {
		t.Errorf("a row of NULL differs by %v, of NULL with types by %v", got, want)
	}
	ok(t, "fit", "-q", "--method", "laplace", "--y", "y", "--x", "[a, w]", "--data", data, "--out", listed)
	want = mean(rows("contrast", "--beliefs", listed, "--row", "[0.5, 1.0]", "--against", "[0.0, 2.0]"))
	if got := mean(rows("contrast", "--beliefs", listed, "--row", "{a: 0.5, w: 1}", "--against", "{w: 2, a: 0}")); math.Abs(got-want) > 1e-12 || want == 0 {
		t.Errorf("rows of the data differ by %v, their lists by %v", got, want)
	}
	shifted := filepath.Join(dir, "shifted.parquet")
	for _, args := range [][]string{{"--formula", "y ~ a + offset(2 * w)"}, {"--formula", "y ~ a", "--option", "offset=2 * w"}} {
		ok(t, append([]string{"fit", "-q", "--method", "laplace", "--data", data, "--out", shifted}, args...)...)
		if r := ok(t, "contrast", "--beliefs", shifted, "--row", "{a: 1, w: 1}", "--against", "{a: 0, w: 2}"); !strings.Contains(r.stderr, "as if it was 0 in both: 2 * w") {
			t.Errorf("%v: offsets that are left out are not said: %q", args, r.stderr)
		}
	}
	for want, args := range map[string][]string{
		"and as a row of the data: formula: no column g; found: a": {"--row", "{a: 1}", "--against", "{a: 2}"},
		`column "s" is INTEGER`: {"--row", "map{'a': 1}", "--against", row("1", "p")}, // not one of each
	} {
		if r := bglm(t, "", append([]string{"contrast", "--beliefs", made}, args...)...); r.code == 0 || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "row-") {
			t.Error(args, r.code, r.stderr)
		}
	}
}

// compared checks what bglm compare makes of weights, trials and fits that have nothing to
// compare.
func compared(t *testing.T, dir, data string) {
	t.Helper()
	fit := func(name string, args ...string) string {
		path := filepath.Join(dir, name)
		ok(t, append([]string{"fit", data, "-m", "laplace", "-q", "--out", path}, args...)...)
		return path
	}
	plain := fit("plain.parquet", "-f", "w ~ a", "-o", "family=poisson")
	weighted := fit("weighted.parquet", "-f", "w ~ a", "-o", "family=poisson", "-o", "weight=1 + w")
	trials := fit("trials.parquet", "-f", "cbind(w, 9 - w) ~ a")
	for path, text := range map[string]string{
		weighted: "bglm_loo(fit, w, {a: a}, {weight: 1 + w}) AS l FROM '" + data + "', (SELECT bglm_laplace(w, {a: a}, {family: 'poisson', weight: 1 + w}) AS fit FROM '" + data + "')",
		trials:   "bglm_loo(fit, w, {a: a}, {trials: 9}) AS l FROM '" + data + "', (SELECT bglm_laplace(w, {a: a}, {trials: 9}) AS fit FROM '" + data + "')",
	} {
		r := bglm(t, "", "compare", "--json", "--beliefs", path, "--data", data)
		var got []map[string]any
		if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || len(got) != 1 {
			t.Fatal(r.stdout, r.stderr)
		}
		var want float64
		if _, err := fmt.Sscan(query(t, "SELECT l.elpd_loo FROM (SELECT "+text+")"), &want); err != nil {
			t.Fatal(err)
		}
		if g := got[0]["elpd_loo"].(float64); math.Abs(g-want) > 1e-9*math.Abs(want) {
			t.Errorf("%s: %v, want %v", filepath.Base(path), g, want)
		}
	}
	other := fit("other.parquet", "-f", "ln(1 + w) ~ a", "-o", "family=gaussian")
	same := fit("same.parquet", "-f", "w + 0 ~ a", "-o", "family=poisson")
	if r := bglm(t, "", "compare", "--beliefs", plain, "--beliefs", same, "--data", data); r.code != 0 {
		t.Error(r.stderr)
	}
	for want, args := range map[string][]string{
		"has another weight than":                      {"--beliefs", plain, "--beliefs", weighted},
		"has another trials than":                      {"--beliefs", plain, "--beliefs", trials},
		"its response ln(1 + w) is another than \"w\"": {"--beliefs", plain, "--beliefs", other},
		"are not the rows that":                        {"--beliefs", plain, "--where", "a > 0"},
	} {
		if r := bglm(t, "", append([]string{"compare", "--data", data}, args...)...); r.code != 1 || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: %d, %s", args, r.code, r.stderr)
		}
	}
}

// What a fit was made with that its columns do not tell is said in the text and beside it; what
// cannot be exported is an error.
func TestExportSays(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data, out := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "fit.parquet")
	ok(t, "sql", "-c", "COPY (SELECT i % 3 AS y, i / 40 AS x, 1 + i % 4 AS o, 'k' || i % 2 AS g, 'h' || i % 5 AS h, MAP {'a': i % 7, 'b': 1} AS m, {c: i % 5} AS st, CASE i % 3 WHEN 0 THEN ['a'] ELSE ['a', 'b'] END AS tags FROM range(60) t(i)) TO '"+data+"'")
	fit := func(args ...string) {
		t.Helper()
		ok(t, append([]string{"fit", data, "-q", "-m", "laplace", "-o", "family=poisson", "--out", out}, args...)...)
	}
	check := func(format string, want ...string) {
		t.Helper()
		r := bglm(t, "", "export", "-b", out, "--format", format)
		for _, w := range want {
			if r.code != 0 || !strings.Contains(r.stderr, w) || format != "json" && !strings.Contains(r.stdout, w) {
				t.Errorf("%s: %d, %s\n%.300s", format, r.code, r.stderr, r.stdout)
			}
		}
		if len(want) == 0 && (r.code != 0 || r.stderr != "") {
			t.Errorf("%s: %d, %s", format, r.code, r.stderr)
		}
	}
	fit("-f", "y ~ I(x^2) + x + factor(o):g + offset(ln(o))")
	check("sql", `"I(x^2)" is`, "x^2", "offset", "ln(o)")
	check("pmml", `"I(x^2)" is`, "x^2", "offset", "ln(o)")
	check("json", "offset", "ln(o)")
	fit("-f", "y ~ o + (1 | o)")
	check("sql", `"factor(o)" is o`)
	fit("--y", "y", "--x", "{z: x + 1}", "-o", "offset=o / 2")
	check("sql", "the fields of {z: x + 1}", "o / 2")
	fit("-f", "y ~ x*o + g:h")
	check("sql", `"x:o" is x * o`, `"g:h" is g || ':' || h`)
	check("pmml", `"g:h" is g || ':' || h`)
	if r := bglm(t, "", "export", "-b", out, "--format", "pmml"); strings.Contains(r.stderr, "x:o") { // which it makes itself
		t.Error(r.stderr)
	}
	fit("-f", "y ~ x + m + st")
	check("sql", `"a", "b", "c" of m, st`)
	check("pmml", `"a", "b", "c" of m, st`)
	fit("--y", "y", "--x", "struct_pack(*COLUMNS(* EXCLUDE (y, tags, m, st)))")
	check("sql")
	fit("-f", "y ~ x + g")
	check("sql")
	check("pmml")
	for _, model := range [][]string{{"-f", "y ~ x + tags"}, {"--y", "y", "--x", "{tags, x}"}} {
		fit(model...)
		for _, format := range []string{"sql", "pmml"} {
			if r := bglm(t, "", "export", "-b", out, "--format", format); r.code != 1 || !strings.Contains(r.stderr, `lists of levels cannot be exported; found: "tags"`) {
				t.Errorf("%s: %d, %s", format, r.code, r.stderr)
			}
		}
		check("json")
	}
	// Colons and backslashes of levels are as the features have them.
	colons := filepath.Join(dir, "colons.parquet")
	ok(t, "sql", "-c", `COPY (SELECT y, x, g, CASE h WHEN 'h1' THEN 'a:b' WHEN 'h2' THEN '\' ELSE h END AS h FROM '`+data+`') TO '`+colons+`'`)
	ok(t, "fit", colons, "-q", "-m", "laplace", "-o", "family=poisson", "--out", out, "-f", "y ~ x + g:h")
	made := `replace(replace(h, '\', '\\'), ':', '\:')`
	check("sql", `"g:h" is g || ':' || `+made)
	text := bglm(t, "", "export", "-b", out, "--table", "d", "--keep", "i").stdout
	scores := filepath.Join(dir, "scores.parquet")
	ok(t, "predict", "-q", "-b", out, colons, "--out", scores)
	if r := bglm(t, "", "sql", "--mode", "csv", "-c", "CREATE TABLE d AS SELECT row_number() OVER () AS i, x, prediction AS p, g || ':' || "+made+` AS "g:h" FROM '`+scores+"'; SELECT max(abs(s.prediction - d.p)) < 1e-9 AS same, count(*) AS n FROM ("+strings.TrimSuffix(strings.TrimSpace(text), ";")+") s JOIN d USING (i)"); r.code != 0 || !strings.Contains(r.stdout, "true,60") {
		t.Error(r.stdout, r.stderr)
	}
	// The comments leave a query that runs.
	fit("-f", "y ~ I(x^2) + offset(o)")
	text = bglm(t, "", "export", "-b", out, "--table", "d").stdout
	if r := bglm(t, "", "sql", "-c", "CREATE TABLE d AS SELECT *, x^2 AS \"I(x^2)\" FROM '"+data+"'; SELECT count(prediction) AS n FROM ("+strings.TrimSuffix(strings.TrimSpace(text), ";")+")"); r.code != 0 || !strings.Contains(r.stdout, "60") {
		t.Error(r.stdout, r.stderr)
	}
}

// Groups of any type are shown as DuckDB writes them, and intervals are groups in files of every
// kind.
func TestGroupTexts(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	query(t, "COPY (SELECT i % 3 = 0 AS y, sin(i) AS x, i, to_days((i % 2)::INT) + to_hours(i % 2) AS iv, DATE '2024-02-03' AS day, 'a6e4119c-9dad-11d1-80b4-00c04fd430c8'::UUID AS id, 1.5::DECIMAL(30, 2) AS dec, TIME '12:30:00' AS tm, [1, 2] AS l FROM range(60) t(i)) TO '"+in("d.parquet")+"'")
	ok(t, "fit", "-q", in("d.parquet"), "-f", "y ~ x", "--group", "day, id, dec, tm, l", "--out", in("g.parquet"))
	if r := ok(t, "summary", "-b", in("g.parquet")); !strings.Contains(r.stdout, "│ 2024-02-03 │ a6e4119c-9dad-11d1-80b4-00c04fd430c8 │ 1.50 │ 12:30:00 │ [1, 2] │ ") {
		t.Errorf("groups in a table:\n%s", r.stdout)
	}
	r := ok(t, "summary", "--json", "-b", in("g.parquet"))
	var rows []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.stdout), &rows); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"day": `"2024-02-03"`, "id": `"a6e4119c-9dad-11d1-80b4-00c04fd430c8"`, "dec": "1.50", "tm": `"12:30:00"`} {
		if got := string(rows[0][name]); got != want {
			t.Errorf("%s in JSON: %s, want %s", name, got, want)
		}
	}
	var want string
	for _, ext := range []string{".parquet", ".arrow", ".duckdb"} {
		ok(t, "fit", "-q", in("d.parquet"), "-f", "y ~ x", "--group", "iv", "--out", in("iv"+ext))
		if r := ok(t, "summary", "-b", in("iv"+ext)); !strings.Contains(r.stdout, "│ 1 day 01:00:00 ") {
			t.Errorf("intervals of %s:\n%s", ext, r.stdout)
		}
		ok(t, "predict", "-q", in("d.parquet"), "-b", in("iv"+ext), "--columns", "i, iv", "--out", in("p.csv"))
		got := query(t, "SELECT count(prediction), count(DISTINCT prediction), sum(prediction) FROM '"+in("p.csv")+"'")
		if want == "" {
			want = got
		}
		if got != want || !strings.HasPrefix(got, "60,60,") {
			t.Errorf("predictions from %s: %s, want %s", ext, got, want)
		}
	}
}

// Fits are compared on rows of the standard input, which each of them needs.
func TestCompareStandardInput(t *testing.T) {
	dir := t.TempDir()
	data, a, b := filepath.Join(dir, "d.csv"), filepath.Join(dir, "a.parquet"), filepath.Join(dir, "b.parquet")
	query(t, "COPY (SELECT i % 3 = 0 AS y, sin(i) AS x FROM range(60) t(i)) TO '"+data+"'")
	ok(t, "fit", "-q", data, "-f", "y ~ x", "--out", a)
	ok(t, "fit", "-q", data, "-f", "y ~ 1", "--out", b)
	rows, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	want := ok(t, "compare", "-b", a, "-b", b, data)
	if r := bglm(t, string(rows), "compare", "-b", a, "-b", b, "--data", "-"); r.code != 0 || r.stdout != want.stdout {
		t.Errorf("%d, %s%s, want %s", r.code, r.stderr, r.stdout, want.stdout)
	}
}

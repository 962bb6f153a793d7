package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// effectsOf are the rows that bglm effects prints as JSON.
func effectsOf(t *testing.T, args ...string) (out []map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(ok(t, append([]string{"effects", "--json"}, args...)...).stdout), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// meanPrediction is the mean of the predictions of a file's rows, by their weights w.
func meanPrediction(t *testing.T, fit, rows string) (mean float64) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "p.parquet")
	ok(t, "predict", "-b", fit, rows, "--out", out, "-q")
	if _, err := fmt.Sscan(query(t, "SELECT sum(prediction * w) / sum(w) FROM '"+out+"'"), &mean); err != nil {
		t.Fatal(err)
	}
	return mean
}

// Terms computed from a column move with it: effects are those of predictions of moved rows.
func TestEffectsMoveTerms(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	query(t, "CREATE TABLE d AS SELECT i // 4 + 1 AS x, 'g' || i % 3 AS g, 'h' || i % 2 AS h, 3 + (x / 10 - 3) ** 2 + (hash(i) % 1000) / 300 + (i % 3) AS y, 1 + i % 2 AS w, hash(i, 2) % 100 < 30 + x AS late FROM range(200) t(i); COPY d TO '"+path("d.parquet")+"'; "+
		"COPY (SELECT * REPLACE (x + 1 AS x) FROM d) TO '"+path("step.parquet")+"'; COPY (SELECT * REPLACE (x + 1e-3 AS x) FROM d) TO '"+path("up.parquet")+"'; COPY (SELECT * REPLACE (x - 1e-3 AS x) FROM d) TO '"+path("down.parquet")+"'")
	for k, c := range [][]string{
		{"y ~ x + I(x^2)", "family=gaussian"},
		{"y ~ g + x*g + I(x^2) + factor(x > 20.5)", "family=gaussian"},
		{"late ~ x + ln(x):g + I(x * sqrt(x))", "link=probit"},
		{"y ~ x + (1 | x)", "family=gaussian"},
		{"late ~ sqrt(x)", "family=bernoulli"},
		{"y ~ I(x^2) + I(x^3 / 1000) + g", "family=gaussian"},
	} {
		fit := path(fmt.Sprintf("%d.parquet", k))
		ok(t, "fit", path("d.parquet"), "-f", c[0], "-o", c[1], "-o", "weight=w", "--out", fit, "-q")
		mean := func(name string) float64 { return meanPrediction(t, fit, path(name)) }
		for want, args := range map[string][]string{"+1": {"--step", "1"}, "dY/dX": nil} {
			truth := mean("step.parquet") - mean("d.parquet")
			if args == nil {
				truth = (mean("up.parquet") - mean("down.parquet")) / 2e-3
			}
			if strings.HasPrefix(c[0], "y ~ x + (1") && args == nil { // levels have no slope
				var trend float64
				if _, err := fmt.Sscan(query(t, "SELECT mean FROM '"+fit+"' WHERE feature = 'x'"), &trend); err != nil {
					t.Fatal(err)
				}
				truth = trend
			}
			es := effectsOf(t, append([]string{"-b", fit, path("d.parquet"), "--column", "X"}, args...)...)
			if len(es) != 1 || es[0]["column"] != "x" || es[0]["contrast"] != want || es[0]["n"] != 200.0 || math.Abs(es[0]["mean"].(float64)-truth) > 1e-5*(1e-2+math.Abs(truth)) || !(es[0]["sd"].(float64) > 0) {
				t.Errorf("%s: %v, of predictions %v", c[0], es, truth)
			}
		}
	}
	// Under the identity link the average is the effect in the mean row, whose standard deviation is
	// that of the contrast.
	ok(t, "fit", path("d.parquet"), "-f", "y ~ x + I(x^2)", "-o", "family=gaussian", "--out", path("q.parquet"), "-q")
	for k, args := range [][]string{nil, {"--step", "1"}} {
		es := effectsOf(t, append([]string{"-b", path("q.parquet"), path("d.parquet")}, args...)...)
		at := 25.5 - 0.5 + float64(k)*0.5 // 25.5 is the mean of x
		var of []map[string]any
		if err := json.Unmarshal([]byte(ok(t, "contrast", "-b", path("q.parquet"), "--row", fmt.Sprintf("{x: %v}", at+1), "--against", fmt.Sprintf("{x: %v}", at), "--json").stdout), &of); err != nil {
			t.Fatal(err)
		}
		if len(es) != 1 || math.Abs(es[0]["mean"].(float64)-of[0]["mean"].(float64)) > 1e-7 || math.Abs(es[0]["sd"].(float64)/of[0]["sd"].(float64)-1) > 1e-6 {
			t.Errorf("%v: %v, the contrast %v", args, es, of)
		}
	}
	// All columns, by groups: x once, in its place.
	ok(t, "fit", path("d.parquet"), "-f", "y ~ g + x + I(x^2)", "-o", "family=gaussian", "--group", "h", "--out", path("h.parquet"), "-q")
	es := effectsOf(t, "-b", path("h.parquet"), path("d.parquet"))
	var got []string
	for _, e := range es {
		got = append(got, fmt.Sprint(e["column"], " ", e["contrast"], " ", e["n"]))
	}
	one := "g mean(g1) - mean(g0) 100, g mean(g2) - mean(g0) 100, x dY/dX 100"
	if s := strings.Join(got, ", "); s != one+", "+one {
		t.Error(s)
	}
	ok(t, "fit", path("d.parquet"), "-f", "g ~ I(x^2) + x + h", "-m", "softmax", "--out", path("g.parquet"), "-q")
	got = nil
	for _, e := range effectsOf(t, "-b", path("g.parquet"), path("d.parquet"), "--step", "2") {
		got = append(got, fmt.Sprint(e["column"], " ", e["contrast"]))
	}
	if s := strings.Join(got, ", "); s != "x g0: +2, x g1: +2, x g2: +2, h g0: mean(h1) - mean(h0), h g1: mean(h1) - mean(h0), h g2: mean(h1) - mean(h0)" {
		t.Error(s)
	}
	if x := effectsOf(t, "-b", path("h.parquet"), path("d.parquet"), "--column", "x"); len(x) != 2 || x[0]["mean"] == x[1]["mean"] || x[0]["mean"] != es[2]["mean"] && x[0]["mean"] != es[5]["mean"] {
		t.Error(x, es)
	}
}

// A column in the offset moves the offset: effects are those of predictions of moved rows.
func TestEffectsMoveOffset(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	query(t, "CREATE TABLE d AS SELECT i % 40 + 1 AS x, 'g' || i % 3 AS g, i % 7 AS z, hash(i) % 10 AS y, 'h' || i % 2 AS h, 1 + i % 2 AS w FROM range(200) t(i); COPY d TO '"+path("d.parquet")+"'; "+
		"COPY (SELECT * REPLACE (x + 1 AS x) FROM d) TO '"+path("step.parquet")+"'; COPY (SELECT * REPLACE (x + 1e-3 AS x) FROM d) TO '"+path("up.parquet")+"'; COPY (SELECT * REPLACE (x - 1e-3 AS x) FROM d) TO '"+path("down.parquet")+"'")
	for k, model := range [][]string{
		{"-f", "y ~ z + offset(ln(x))", "-o", "family=poisson"},
		{"-f", "y ~ z + x + offset(ln(x))", "-o", "family=poisson"},
		{"-f", "y > 4 ~ z + g*x + I(x^2) + offset(x / 40)", "-o", "offset=sqrt(x)"},
		{"-f", "y ~ z + sqrt(x)", "-o", "family=gaussian", "-o", "offset=x"},
		{"--y", "y", "--x", "{z, x, q: x**2}", "-o", "family=poisson", "-o", "offset=ln(z + 1)"},
	} {
		fit, column := path(fmt.Sprintf("%d.parquet", k)), "x"
		ok(t, append([]string{"fit", path("d.parquet"), "-o", "weight=w", "--out", fit, "-q"}, model...)...)
		if model[0] == "--y" {
			if r := bglm(t, "", "effects", "-b", fit, path("d.parquet"), "--column", "z"); r.code != exitUsage || !strings.Contains(r.stderr, "z: the offset is computed from it, and --x does not say what else is; allowed: beliefs of --formula") {
				t.Errorf("%v: %+v", model, r)
			}
			continue
		}
		mean := func(name string) float64 { return meanPrediction(t, fit, path(name)) }
		for want, args := range map[string][]string{"+1": {"--step", "1"}, "dY/dX": nil} {
			truth := mean("step.parquet") - mean("d.parquet")
			if args == nil {
				truth = (mean("up.parquet") - mean("down.parquet")) / 2e-3
			}
			es := effectsOf(t, append([]string{"-b", fit, path("d.parquet"), "--column", column}, args...)...)
			if len(es) != 1 || es[0]["column"] != "x" || es[0]["contrast"] != want || es[0]["n"] != 200.0 || math.Abs(es[0]["mean"].(float64)-truth) > 1e-5*(1e-2+math.Abs(truth)) || !(es[0]["sd"].(float64) > 0) {
				t.Errorf("%v: %v, of predictions %v", model, es, truth)
			}
		}
	}
	// An offset cancels among classes, and the groups have theirs.
	ok(t, "fit", path("d.parquet"), "-f", "g ~ x + z", "-o", "offset=x / 9", "-m", "softmax", "--out", path("c.parquet"), "-q")
	if es := effectsOf(t, "-b", path("c.parquet"), path("d.parquet"), "--column", "x"); len(es) != 3 {
		t.Error(es)
	}
	ok(t, "fit", path("d.parquet"), "-f", "y ~ z + x + offset(ln(x))", "-o", "family=poisson", "--group", "h", "--out", path("h.parquet"), "-q")
	all := effectsOf(t, "-b", path("h.parquet"), path("d.parquet"))
	one := effectsOf(t, "-b", path("h.parquet"), path("d.parquet"), "--column", "x")
	if len(all) != 4 || len(one) != 2 || one[0]["mean"] == one[1]["mean"] || one[0]["mean"] != all[1]["mean"] && one[0]["mean"] != all[3]["mean"] {
		t.Error(all, one)
	}
}

// Levels move what is computed from their column, or from the number that they are levels of: effects
// are differences of predictions as if all rows had them.
func TestEffectsMoveLevels(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	query(t, "COPY (SELECT 2000 + i % 4 AS year, 'g' || i % 3 AS g, i % 7 AS z, hash(i) % 10 + i % 4 AS y, 'h' || i % 2 AS h, 1 + i % 2 AS w FROM range(200) t(i)) TO '"+path("d.parquet")+"'")
	for k, c := range []struct{ column, a, b, formula string }{
		{"factor(year)", "2001", "2000", "y ~ z + year + factor(year)"},
		{"factor(year)", "2003", "2001", "y ~ z + g:year + factor(year) + offset(0.1 * (year - 2000))"},
		{"factor(year)", "2001", "2000", "y ~ year + (1 | year)"},
		{"g", "g2", "g0", "y ~ z + g + I(g = 'g1')"},
		{"g", "g0", "g1", "y ~ z + g + offset(CASE WHEN g = 'g2' THEN 0 ELSE 1 END)"},
	} {
		fit := path(fmt.Sprintf("%d.parquet", k))
		ok(t, "fit", path("d.parquet"), "-f", c.formula, "-o", "weight=w", "-o", "family=poisson", "--out", fit, "-q")
		name := strings.TrimSuffix(strings.TrimPrefix(c.column, "factor("), ")")
		mean := func(level string) float64 {
			query(t, "COPY (SELECT * REPLACE ('"+level+"' AS "+name+") FROM '"+path("d.parquet")+"') TO '"+path("at.csv")+"'")
			return meanPrediction(t, fit, path("at.csv"))
		}
		truth := mean(c.a) - mean(c.b)
		es := effectsOf(t, "-b", fit, path("d.parquet"), "--column", strings.ToUpper(c.column), "--reference", c.b)
		at := slices.IndexFunc(es, func(e map[string]any) bool { return e["contrast"] == "mean("+c.a+") - mean("+c.b+")" })
		if at < 0 || len(es) != map[string]int{"g": 2, "year": 3}[name] || es[at]["column"] != c.column || es[at]["n"] != 200.0 || math.Abs(es[at]["mean"].(float64)-truth) > 1e-9 || !(es[at]["sd"].(float64) > 0) {
			t.Errorf("%s: %v, of predictions %v", c.formula, es, truth)
		}
		if name == "g" {
			var names []string
			for _, e := range effectsOf(t, "-b", fit, path("d.parquet")) {
				names = append(names, fmt.Sprint(e["column"]))
			}
			if got := strings.Join(names, " "); got != "z g g" {
				t.Errorf("%s: all are %s", c.formula, got)
			}
		}
		for flag, want := range map[string]string{"--step=1": "--step is not used by " + c.column + ", a column of levels; allowed here: --reference", "--reference=x": "--reference x: no level of " + c.column} {
			if r := bglm(t, "", "effects", "-b", fit, path("d.parquet"), "--column", c.column, flag); r.code != exitUsage || !strings.Contains(r.stderr, want) {
				t.Errorf("%s: %+v", c.formula, r)
			}
		}
	}
	ok(t, "fit", path("d.parquet"), "-f", "g ~ year + factor(year)", "-m", "softmax", "--group", "h", "--out", path("c.parquet"), "-q")
	es := effectsOf(t, "-b", path("c.parquet"), path("d.parquet"), "--column", "factor(year)")
	if len(es) != 2*3*3 || es[0]["contrast"] != "g0: mean(2001) - mean(2000)" || es[0]["h"] == es[17]["h"] {
		t.Error(es)
	}
}

// An effect that cannot be told is an error that says why.
func TestEffectsThatDoNotMove(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data, fit := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "f.parquet")
	query(t, "COPY (SELECT i % 40 + 1 AS x, 'g' || i % 3 AS g, i % 7 AS z, ['a' || i % 2] AS l, hash(i) % 10 AS y, DATE '2024-01-01' + i::INT AS day FROM range(200) t(i)) TO '"+data+"'")
	for _, c := range []struct{ formula, column, want, all string }{
		{"y ~ x + I(x^2) + g", "I(x^2)", "computed from x, as other terms are, with which it moves; allowed: --column x", "x g g"},
		{"y ~ I(x^2) + I(x^3)", "I(x^2)", "allowed: --column x", "x"},
		{"y ~ z + x + I(floor(x / 10))", "x", "I(floor(x / 10)) jumps, and so has no slope; allowed: --step", "z"},
		{"y ~ z + x + offset(floor(x / 10))", "x", "the offset jumps, and so has no slope; allowed: --step", "z"},
		{"y ~ z + I(x^2) + offset(ln(x))", "I(x^2)", "it is computed from x, as the offset is, with which it moves; allowed: --column x", "z x"},
		{"y ~ z + l + offset(len(l) / 9)", "l", "the offset is computed from it, whose values are neither numbers nor levels", "z"},
		{"y ~ z + factor(z)", "Factor(z)", "", "z"},
		{"y ~ z + month(day) + cos(month(day))", "month(day)", "cos(month(day)) is computed from it; make month(day) a column", "z"},
		{"y ~ z + factor(month(day)) + factor(dayofweek(day))", "", "", "z" + strings.Repeat(" factor(month(day))", 6) + strings.Repeat(" factor(dayofweek(day))", 6)},
	} {
		ok(t, "fit", data, "-f", c.formula, "-o", "family=gaussian", "--out", fit, "-q")
		if c.want != "" {
			if r := bglm(t, "", "effects", "-b", fit, data, "--column", c.column); r.code != exitUsage || !strings.Contains(r.stderr, c.want) {
				t.Errorf("%s: %+v", c.formula, r)
			}
		}
		var names []string
		for _, e := range effectsOf(t, "-b", fit, data) {
			names = append(names, fmt.Sprint(e["column"]))
		}
		if got := strings.Join(names, " "); got != c.all {
			t.Errorf("%s: all are %s, want %s", c.formula, got, c.all)
		}
	}
}

// The report draws a column with the terms computed from it as one curve: here one that falls and
// rises, of which each term alone is monotone.
func TestReportDrawsCurve(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	query(t, "COPY (SELECT i / 50 AS x, 1 + i % 30 AS k, 'g' || i % 3 AS g, 3 + (i / 50 - 5) ** 2 + (hash(i) % 1000) / 500.0 + i % 3 + ln(1 + i % 30) AS y FROM range(500) t(i)) TO '"+path("d.csv")+"'")
	for formula, want := range map[string]int{"y ~ x + I(x^2)": 1, "y ~ g + x + I(x^2) + k + sqrt(k)": 3, "y ~ I(x^2) + I(x^4)": 1, "y ~ x + I(x^2) + I(x * hash(k))": 0} {
		ok(t, "fit", path("d.csv"), "-f", formula, "-o", "family=gaussian", "--out", path("f.parquet"), "-q")
		ok(t, "report", "-b", path("f.parquet"), path("d.csv"), "--out", path("r.html"), "-q")
		b, err := os.ReadFile(path("r.html"))
		if err != nil {
			t.Fatal(err)
		}
		p := parsePage(t, b)
		if verdict := p.id("verdict").content(); !strings.Contains(verdict, "one curve with the other terms of x") || strings.Contains(verdict, "x (") && strings.Contains(verdict, "one standard deviation more") {
			t.Errorf("%s: %s", formula, verdict)
		}
		if want == 0 { // what the terms are without k is not known
			if p.id("effects") != nil {
				t.Errorf("%s: %s", formula, p.id("effects").content())
			}
			continue
		}
		effects := p.id("effects")
		if n := len(effects.all("figure", "")); n != want || strings.Contains(effects.content(), "I(x^2)") || !strings.Contains(effects.content(), "computed from a column move with it") {
			t.Errorf("%s: %d figures: %s", formula, n, effects.content())
			continue
		}
		if strings.Contains(formula, "x^4") {
			continue
		}
		turns := false
		for _, line := range effects.all("polyline", "") {
			var heights []float64
			for _, point := range strings.Fields(line.attrs["points"]) {
				var x, y float64
				if _, err := fmt.Sscanf(point, "%g,%g", &x, &y); err != nil {
					t.Fatal(err)
				}
				heights = append(heights, -y) // SVG counts downwards
			}
			n := len(heights)
			lowest := slices.Min(heights)
			// (x - 5)² is as high at both ends, and lowest in the middle.
			turns = turns || n == effectPoints && lowest == heights[n/2] && heights[0]-lowest > 50 && math.Abs(heights[0]-heights[n-1]) < 10
		}
		if !turns {
			t.Errorf("%s: no curve with a bend", formula)
		}
	}
}

// Without rows, or a column to change, there is no effect: an error says so.
func TestEffectsOfNothing(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	query(t, "COPY (SELECT i % 2 AS y, i % 5 AS x, MAP {'m' || i % 3: 1.0} AS m FROM range(40) t(i)) TO '"+path("d.parquet")+"'; COPY (FROM '"+path("d.parquet")+"' LIMIT 0) TO '"+path("none.csv")+"'")
	for model, where := range map[string]string{"y ~ x": "x < 0", "y ~ 1": "true", "y ~ m": "true"} {
		want := "d.parquet: no rows that --where keeps"
		if where == "true" {
			want = "f.parquet: the model " + model + " has no column of numbers or levels, whose effect could be measured"
		}
		ok(t, "fit", path("d.parquet"), "-f", model, "-q", "--out", path("f.parquet"))
		for _, column := range []string{"*", "x"} {
			if r := bglm(t, "", "effects", "-b", path("f.parquet"), path("d.parquet"), "--where", where, "--column", column); r.code != exitFailed || !strings.Contains(r.stderr, want) || r.stdout != "" {
				t.Errorf("%s: %+v", model, r)
			}
		}
	}
	ok(t, "fit", path("d.parquet"), "-f", "y ~ x", "-q", "--out", path("f.parquet"))
	if r := bglm(t, "", "effects", "-b", path("f.parquet"), path("none.csv")); r.code != exitFailed || !strings.Contains(r.stderr, "none.csv: no rows") {
		t.Errorf("%+v", r)
	}
}

// Rows of groups without beliefs have no effect: a message counts them.
func TestEffectsOfUnknownGroups(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	query(t, "COPY (SELECT i % 2 AS y, i % 5 AS x, 'g' || i % 4 AS g FROM range(80) t(i)) TO '"+path("d.parquet")+"'")
	ok(t, "fit", path("d.parquet"), "--where", "g <> 'g3'", "-f", "y ~ x", "--group", "g", "-q", "--out", path("f.parquet"))
	for _, column := range []string{"*", "x"} {
		r := ok(t, "effects", "-b", path("f.parquet"), path("d.parquet"), "--column", column)
		if !strings.Contains(r.stderr, "bglm effects: left out: 20 rows of groups without beliefs") || strings.Contains(r.stdout, "g3") {
			t.Errorf("%+v", r)
		}
	}
	if r := bglm(t, "", "effects", "-b", path("f.parquet"), path("d.parquet"), "--where", "g = 'g3'"); r.code != exitFailed || !strings.Contains(r.stderr, "d.parquet: all rows are of groups without beliefs") {
		t.Errorf("%+v", r)
	}
	if r := ok(t, "effects", "-b", path("f.parquet"), path("d.parquet"), "--where", "g <> 'g3'"); r.stderr != "" {
		t.Errorf("%+v", r)
	}
}

// Effects of moved rows are those of predictions also where there are more rows than DuckDB hands over
// at a time.
func TestEffectsOfManyRows(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	query(t, "CREATE TABLE d AS SELECT 1 + i * 37 % 101 / 10 AS x, 'g' || i % 3 AS g, hash(i) % 10 < 2 + x / 3 AS y FROM range(9000) t(i); COPY d TO '"+path("d.parquet")+"'; COPY (SELECT * REPLACE (x + 1 AS x) FROM d) TO '"+path("up.parquet")+"'")
	ok(t, "fit", path("d.parquet"), "-f", "y ~ x + I(x^2) + g + offset(ln(x) / 5)", "-q", "--out", path("f.parquet"))
	mean := func(name string) (v float64) {
		ok(t, "predict", "-b", path("f.parquet"), path(name), "--out", path("p.parquet"), "-q")
		if _, err := fmt.Sscan(query(t, "SELECT avg(prediction) FROM '"+path("p.parquet")+"'"), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	truth := mean("up.parquet") - mean("d.parquet")
	if es := effectsOf(t, "-b", path("f.parquet"), path("d.parquet"), "--column", "x", "--step", "1"); len(es) != 1 || es[0]["n"] != 9000.0 || math.Abs(es[0]["mean"].(float64)-truth) > 1e-9 {
		t.Errorf("%v, of predictions %v", es, truth)
	}
}

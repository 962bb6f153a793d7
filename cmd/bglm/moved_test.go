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
		mean := func(name string) float64 {
			var v float64
			ok(t, "predict", "-b", fit, path(name), "--out", path("p.parquet"), "-q")
			if _, err := fmt.Sscan(query(t, "SELECT sum(prediction * w) / sum(w) FROM '"+path("p.parquet")+"'"), &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
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

// An effect that cannot be told is an error that says why.
func TestEffectsThatDoNotMove(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data, fit := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "f.parquet")
	query(t, "COPY (SELECT i % 40 + 1 AS x, 'g' || i % 3 AS g, i % 7 AS z, hash(i) % 10 AS y, DATE '2024-01-01' + i::INT AS day FROM range(200) t(i)) TO '"+data+"'")
	for _, c := range []struct{ formula, column, want, all string }{
		{"y ~ x + I(x^2) + g", "I(x^2)", "computed from x, as other terms are, with which it moves; allowed: --column x", "x g g"},
		{"y ~ I(x^2) + I(x^3)", "I(x^2)", "allowed: --column x", "x"},
		{"y ~ z + x + I(floor(x / 10))", "x", "I(floor(x / 10)) jumps, and so has no slope; allowed: --step", "z"},
		{"y ~ z + x + offset(ln(x))", "x", "the offset is computed from it", "z"},
		{"y ~ z + x + I(x^2) + offset(ln(x))", "x", "the offset is computed from it", "z"},
		{"y ~ z + g + I(g = 'g1')", "g", "I(g = 'g1') is computed from it, whose values are no numbers", "z"},
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

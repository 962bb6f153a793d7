package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// A fit that skips bad rows is checked, evaluated and reported without them, whatever the method:
// the figures are those of the rows without the bad ones. Of other rows bad ones are skipped too.
func TestBadRowsAreSkipped(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data, good, fit := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "good.parquet"), filepath.Join(dir, "f.parquet")
	query(t, "COPY (SELECT i, CASE WHEN i = 5 THEN 3 ELSE (i * 7 % 5 > 2)::INT END AS y, CASE WHEN i = 9 THEN 'nan'::DOUBLE ELSE i * 37 % 11 / 4.0 END AS x, 'g' || i % 3 AS g, CASE WHEN i = 20 THEN -1 ELSE i % 2 + 1 END AS w FROM range(60) t(i)) TO '"+data+"'")
	query(t, "COPY (FROM '"+data+"' WHERE i NOT IN (5, 9, 20)) TO '"+good+"'")
	for _, m := range []string{"auto", "laplace", "ep", "lowrank", "hmc", "adf"} {
		var sums [2]learnt
		var q [2]quality
		for k, rows := range []string{good, data} {
			args := []string{"fit", rows, "-f", "y ~ x + g", "-m", m, "-o", "weight=w", "-o", "on_error=skip", "-o", "standardize=false", "-o", "prior_variance=1", "--json", "--out", fit}
			if err := json.Unmarshal([]byte(ok(t, args...).stdout), &sums[k]); err != nil {
				t.Fatal(err)
			}
			q[k] = evaluated(t, rows, "-b", fit)
			ok(t, "report", rows, "-b", fit, "-q", "--out", filepath.Join(dir, "r.html"))
		}
		if sums[1].Rows != 57 || sums[1].How != sums[0].How || math.Abs(*sums[1].LogLoss-*sums[0].LogLoss) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", m, sums[1], sums[0])
		}
		if q[1].Skipped != 3 || q[0].Skipped != 0 || q[1].N != 57 || q[1].How != q[0].How || math.Abs(*q[1].LogLoss-*q[0].LogLoss) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", m, q[1], q[0])
		}
		if other := evaluated(t, data, "-b", fit, "--where", "i < 30"); other.How != otherRows || other.N != 27 || other.Skipped != 3 {
			t.Errorf("%s: %+v", m, other)
		}
	}
	ok(t, "fit", data, "-f", "y ~ x + g", "-m", "softmax", "-o", "weight=w", "-o", "on_error=skip", "-q", "--out", fit)
	if q := evaluated(t, data, "-b", fit); q.How != crossValidated || q.Skipped != 2 { // 3 is a class
		t.Errorf("%+v", q)
	}
	// Rows that a fit does not skip are errors where it is judged by them.
	ok(t, "fit", good, "-f", "y ~ x + g", "-o", "weight=w", "-q", "--out", fit)
	if r := bglm(t, "", "evaluate", data, "-b", fit); r.code != 1 {
		t.Errorf("%d: %s%s", r.code, r.stdout, r.stderr)
	}
}

// An expression that has no value in a row is named, with the row.
func TestBadValues(t *testing.T) {
	data, out := filepath.Join(t.TempDir(), "d.parquet"), filepath.Join(t.TempDir(), "f.parquet")
	ok(t, "sql", "-c", "COPY (SELECT i AS y, CASE WHEN i > 1 THEN i END AS e, i / 9 AS u, 'g' || i AS g FROM range(9) t(i)) TO '"+data+"'")
	fit := []string{"fit", "-q", data, "--option", "family=poisson", "--out", out}
	for want, args := range map[string][]string{
		"d.parquet, row 1: formula: offset(ln(0)): Out of Range Error: ":                  {"--formula", "y ~ u + offset(u) + offset(ln(0))"},
		"d.parquet, row 5: formula: ln(4 - y): Out of Range Error: ":                      {"--formula", "y ~ u*ln(4 - y)"},
		"d.parquet: formula: ln(e - 5): Out of Range Error: ":                             {"--formula", "y ~ u + ln(e - 5)"}, // NULL in row 1
		"d.parquet, row 1: formula: the response sqrt(y - 1): Out of Range Error: ":       {"--formula", "sqrt(y - 1) ~ u"},
		"d.parquet, row 1: --option weight=ln(y): Out of Range Error: ":                   {"--formula", "y ~ u", "--option", "weight=ln(y)"},
		"d.parquet, row 1: --x {g: g::INT}: Conversion Error: ":                           {"--y", "y", "--x", "{g: g::INT}"},
		"d.parquet, row 1: --group g::INT: Conversion Error: ":                            {"--formula", "y ~ u", "--group", "g::INT"},
		"d.parquet: --where ln(y) > 0: Out of Range Error: cannot take logarithm of zero": {"--formula", "y ~ u + ln(y)", "--where", "ln(y) > 0"},
	} {
		if r := bglm(t, "", append(fit, args...)...); r.code != 1 || !strings.Contains(r.stderr, want) {
			t.Errorf("%q: %d, %s", args, r.code, r.stderr)
		}
	}
	ok(t, append(fit, "--formula", "y ~ u + offset(ln(y))", "--where", "y > 0")...)
	if r := bglm(t, "", "predict", "-b", out, data, "--out", filepath.Join(t.TempDir(), "p.csv")); r.code != 1 || !strings.Contains(r.stderr, "d.parquet, row 1: formula: offset(ln(y)): Out of Range Error") {
		t.Errorf("predict: %d, %s", r.code, r.stderr)
	}
}

package udf_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bglm/bglm/udf"
)

// Rows of a small group wait for its result; it is what they come to without, whatever the method,
// the family, the covariance, the columns and what comes with a row. Groups of 3 rows end while
// they wait, of 40 they do not.
func TestWaiting(t *testing.T) {
	db := open(t)
	exec(t, db, "SET threads = 1")
	exec(t, db, `CREATE TABLE t AS SELECT i % 300 AS g, i % 30 AS big, i, i % 3 = 0 AS y, i % 5 AS count, (i % 11 - 5)::DOUBLE AS a, (i % 7) / 4 AS b FROM range(1200) t(i)`)
	exec(t, db, "CREATE TABLE base AS SELECT bglm_adf(y, {a: a, b: b}) AS f FROM t")
	for _, c := range []struct{ y, options string }{
		{"y", "{link: 'probit'}"},
		{"y", "{link: 'probit', standardize: false}"},
		{"y", "{link: 'logit', covariance: 'diagonal'}"},
		{"y", "{link: 'logit', covariance: 'full'}"},
		{"a", "{family: 'gaussian'}"},
		{"a + b", "{family: 'gaussian', covariance: 'diagonal', dispersion: 'auto'}"},
		{"count", "{family: 'poisson', 'weight': 1 + i % 2, 'offset': b / 3}"},
		{"i % 4", "{family: 'binomial', trials: 3 + i % 2}"},
		{"y", "{process_noise: 0.1, time: i % 50}"},
		{"y", "{process_noise: 'auto'}"},
		{"y", "{forgetting: 0.9}"},
		{"CASE WHEN i % 50 = 7 THEN -1 ELSE count END", "{family: 'poisson', on_error: 'skip'}"},
		{"CASE WHEN i % 50 = 7 THEN -1 ELSE count END", "{family: 'poisson', on_error: 'null'}"},
		{"y", "{standardize: false, on_error: 'skip'}"},
		{"y", "{standardize: false, on_error: 'null'}"},
		{"y", "{standardize: false, covariance: 'diagonal', on_error: 'null'}"},
		{"y", "{prior: f}"},
	} {
		for _, by := range []string{"g", "big"} {
			all := func() string {
				a := "a"
				if c.y == "y" && strings.Contains(c.options, "on_error") { // also rows that are found bad by learning them
					a = "CASE WHEN i % 60 = 8 THEN 1e300 ELSE a END"
				}
				q := fmt.Sprintf("SELECT string_agg(coalesce(f, 'NULL'), ' ' ORDER BY k) FROM (SELECT %s AS k, bglm_adf(%s, {a: %s, b: b}, %s)::VARCHAR AS f FROM t, base GROUP BY k)", by, c.y, a, c.options)
				return value[string](t, db, q)
			}
			waiting := all()
			restore := udf.Waiting(0)
			at := all()
			restore()
			if waiting != at {
				t.Errorf("%s by %s: groups differ whose rows did not wait", c.options, by)
			}
		}
	}
}

// The same for columns of every type and for methods that keep their rows.
func TestWaitingColumns(t *testing.T) {
	db := open(t)
	exec(t, db, "SET threads = 1")
	exec(t, db, "CREATE TYPE colour AS ENUM ('red', 'green', 'a colour of many bytes')")
	exec(t, db, `CREATE TABLE t AS SELECT i, i % 400 AS g, i % 40 AS big, i % 3 = 0 AS y, (i * 7 % 11 - 5)::DOUBLE AS a,
		CASE WHEN i % 13 <> 4 THEN i % 5 END AS n, CASE WHEN i % 17 <> 3 THEN 'level ' || i % 4 END AS s, (['red', 'green', 'a colour of many bytes'])[1 + i % 3]::colour AS e,
		DATE '2024-01-01' + (i % 4)::INTEGER AS d, ['t' || i % 3, 'u' || i % 2] AS tags FROM range(1600) t(i)`)
	for _, c := range []struct{ fit, x, options string }{
		{"bglm_adf", "{a: a, s: s}", ""},
		{"bglm_adf", "{a: a, n: n, s: s, e: e, d: d, b: i % 2 = 0}", ""},
		{"bglm_adf", "{s: s, tags: tags, ab: {a: a, s: s}}", ", {missing: 'absent'}"},
		{"bglm_adf", "{n: n, s: s}", ", {covariance: 'diagonal', time: d, process_noise: 0.01}"},
		{"bglm_adf", "CASE WHEN i % 19 <> 2 THEN {n: n, s: s} END", ", {'weight': 1 + i % 2}"},
		{"bglm_adf", "tags", ""},
		{"bglm_adf", "map {i % 3: a, 9: 1.5}", ", {covariance: 'diagonal'}"},
		{"bglm_adf", "[{feature: s, value: a}]", ""},
		{"bglm_adf", "[a, n]", ", {hash_bits: 4}"},
		{"bglm_adf", "[1.5, a]::DOUBLE[2]", ""},
		{"bglm_laplace", "{a: a, s: s}", ", {prior_variance: 1}"},
		{"bglm_fit", "{a: a, n: n, s: s}", ", {prior_variance: 1}"},
		{"bglm_ep", "{n: n, e: e}", ", {link: 'probit'}"},
		{"bglm_ekf", "{n: n, e: e}", ", {on_error: 'skip'}"},
	} {
		for _, by := range []string{"g", "big"} {
			all := func() string {
				return value[string](t, db, fmt.Sprintf("SELECT string_agg(coalesce(f, 'NULL'), ' ' ORDER BY k) FROM (SELECT %s AS k, %s(y, %s%s)::VARCHAR AS f FROM t GROUP BY k)", by, c.fit, c.x, c.options))
			}
			waiting := all()
			restore := udf.Waiting(0)
			at := all()
			restore()
			if waiting != at {
				t.Errorf("%s of %s by %s: groups differ whose rows did not wait", c.fit, c.x, by)
			}
		}
	}
	for _, s := range []string{"bglm_softmax(s, {a: a, e: e})", "bglm_smooth(y, {e: e})", "bglm_gp(y, [a, i % 3]::DOUBLE[])", "bglm_progressive(y, {a: a, s: s})"} {
		all := func() string {
			return value[string](t, db, fmt.Sprintf("SELECT string_agg(coalesce(f, 'NULL'), ' ' ORDER BY g) FROM (SELECT g, %s::VARCHAR AS f FROM t WHERE s IS NOT NULL AND g < 50 GROUP BY g)", s))
		}
		waiting := all()
		restore := udf.Waiting(0)
		if at := all(); waiting != at {
			t.Errorf("%s: groups differ whose rows did not wait", s)
		}
		restore()
	}
}

// Statements with the same options have one plan, but groups of each share the names of their
// own columns.
func TestWaitingKinds(t *testing.T) {
	db := open(t)
	before := udf.Kinds()
	for _, x := range []string{"{of_kind_1: a}", "{of_kind_1: a, of_kind_2: a + 1}", "[a, a + 1, 2]", "[a, 2, 3, 4, 5]", "{of_kind_1: a}", "[a, 2, 3, 4, 5]"} {
		exec(t, db, "CREATE OR REPLACE TABLE f AS SELECT g, bglm_adf(y, "+x+") AS f FROM (SELECT i // 4 AS g, i % 3 = 0 AS y, sin(i) AS a FROM range(64) t(i)) GROUP BY g")
	}
	if made := udf.Kinds() - before; made != 4 {
		t.Errorf("groups of four kinds of columns share the names of %d", made)
	}
}

// Parts of a group whose rows wait are one pass over them: frames of a window, which DuckDB
// puts together from parts, are the fits of their rows.
func TestWaitingParts(t *testing.T) {
	db := open(t)
	exec(t, db, "SET threads = 1")
	exec(t, db, "CREATE TABLE t AS SELECT i, i % 3 = 0 AS y, (i % 11 - 5)::DOUBLE AS a FROM range(60) t(i)")
	for _, options := range []string{"{link: 'probit'}", "{covariance: 'diagonal'}", "{process_noise: 0.1}"} {
		n := value[int](t, db, fmt.Sprintf(`WITH w AS (SELECT i, bglm_adf(y, {a: a}, %[1]s) OVER (ORDER BY i ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)::VARCHAR AS f FROM t)
			SELECT count(*) FROM w WHERE f IS DISTINCT FROM (SELECT bglm_adf(t.y, {a: t.a}, %[1]s ORDER BY t.i)::VARCHAR FROM t WHERE t.i BETWEEN w.i - 9 AND w.i)`, options))
		if n > 0 {
			t.Errorf("%s: %d frames differ from the fits of their rows", options, n)
		}
	}
}

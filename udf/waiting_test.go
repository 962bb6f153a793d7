package udf_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bglm/bglm/udf"
)

// Rows of a small group wait for its result; it is what they come to without, whatever the
// family, the covariance and what comes with a row. Groups of 3 rows end while they wait,
// of 40 they do not.
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

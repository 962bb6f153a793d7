package sqltest

import (
	"fmt"
	"testing"

	sqlfiles "github.com/bglm/bglm/sql"
)

// BenchmarkScoring compares ways to score rows of 8 random features by a fit of p
// weights, on one thread: bglm_predict on a cross join and on a scalar subquery, and the
// join of bglm_score. copy is what DuckDB itself takes to hand the fit to a function
// chunk by chunk: len(fit.beliefs) instead of bglm_predict.
func BenchmarkScoring(b *testing.B) {
	for _, p := range []int{1000, 100_000, 1_000_000} {
		con := connect(b, open(b))
		exec := func(q string) {
			b.Helper()
			if _, err := con.ExecContext(b.Context(), q); err != nil {
				b.Fatalf("%v\n%s", err, q)
			}
		}
		exec("SET threads = 1")
		exec(sqlfiles.Macros)
		exec(fmt.Sprintf("CREATE TABLE beliefs AS SELECT 'u' || lpad(i::VARCHAR, 7, '0') AS feature, sin(i) AS mean, 1.0 AS variance FROM range(%d) t(i)", p))
		exec("CREATE TABLE fit AS SELECT bglm_from_beliefs(list({feature: feature, mean: mean, variance: variance}), {link: 'probit', intercept: false}) AS fit FROM beliefs")
		for _, n := range []int{2048, 20 * 2048, 100 * 2048} {
			exec(fmt.Sprintf("CREATE OR REPLACE TABLE scored AS SELECT i AS id, [{feature: 'u' || lpad(((i * 7919 + k * 104729) %% %d)::VARCHAR, 7, '0'), value: 1.0} FOR k IN range(8)] AS features FROM range(%d) t(i)", p, n))
			for _, c := range []struct{ how, query string }{
				{"copy", "SELECT sum(len(fit.beliefs)) FROM scored, fit"},
				{"predict", "SELECT sum(bglm_predict(fit, features)) FROM scored, fit"},
				{"predict-subquery", "SELECT sum(bglm_predict((SELECT fit FROM fit), features)) FROM scored"},
				{"score", "SELECT sum(prediction) FROM bglm_score('scored', 'beliefs', link := 'probit', intercept := false)"},
			} {
				b.Run(fmt.Sprintf("p=%d/rows=%d/%s", p, n, c.how), func(b *testing.B) {
					for b.Loop() {
						exec(c.query)
					}
				})
			}
		}
	}
}

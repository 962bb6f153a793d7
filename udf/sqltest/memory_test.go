package sqltest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/udf"
)

// Whatever does not fit into the memory budget is an error that says so, or NULL where
// that was asked for; and after every query, however it ended, the budget is whole again.
func TestMemoryBudget(t *testing.T) {
	con := connect(t, open(t))
	before := memory.Used()
	defer memory.SetLimit(memory.SetLimit(before + 48<<20))
	whole := func(what string) {
		t.Helper()
		for range 100 { // DuckDB's threads give up their states in their own time
			if memory.Used() == before {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("after %s %d bytes of the budget are missing", what, memory.Used()-before)
	}
	ctx := context.Background()
	for _, c := range []struct{ text, want string }{
		{"SELECT (bglm_adf(i%3=0, ['f'||i], {covariance: 'full'})).n FROM range(19000) t(i)", "covariance = 'full'"},
		{"SELECT (bglm_adf(i%3=0, ['f'||i], {covariance: 'full'})).n FROM range(100000) t(i)", "covariance = 'full'"},
		{"SELECT (bglm_ekf(i%3=0, ['f'||i], {covariance: 'lowrank', rank: 3000})).n FROM range(20000) t(i)", "rank = 3000"},
		{"SELECT (bglm_adf(i%3=0, ['feature number '||i], {covariance: 'diagonal'})).n FROM range(1000000) t(i)", "weights"},
		{"SELECT (bglm_ep(i%3=0, [i % 7, i % 11])).n FROM range(1500000) t(i)", "rows"},
		{"SELECT (bglm_gp(i%3=0, [i])).n FROM range(1500) t(i)", "1500 rows"},
		{"SELECT (bglm_laplace(i%3=0, ['f'||i%1500], {hessian: 'full'})).n FROM range(5000) t(i)", "hessian 'full'"},
		{"SELECT (bglm_softmax(i%5, ['f'||i%300], {hessian: 'full'})).n FROM range(5000) t(i)", "hessian 'full'"},
		{"SELECT (bglm_lowrank(i%3=0, ['f'||i%3000, 'g'||hash(i)%3000], {rank: 1000})).n FROM range(5000) t(i)", "rank = 1000"},
		{"SELECT (bglm_hmc(i%3=0, ['f'||i%1000], {samples: 60000})).n FROM range(1000) t(i)", "samples = 60000"},
		{"SELECT (bglm_hmc(i%3=0, ['f'||i%2000], {rank: 900})).n FROM range(3000) t(i)", "samples"},
		{"SELECT count(f) FROM (SELECT bglm_adf(i%3=0, [repeat('f', 600)||i]) AS f FROM range(700000) t(i) GROUP BY i//4)", "states"},
		{"SELECT len(bglm_smooth(i%3=0, [i], {covariance: 'full', process_noise: 0.1})) FROM range(2000000) t(i)", "rows"},
	} {
		var n any
		err := con.QueryRowContext(ctx, c.text).Scan(&n)
		if err == nil || !strings.Contains(err.Error(), memory.ErrLimit.Error()) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), memory.Variable) {
			t.Errorf("%s gives %v; want an error about %s", c.text, err, c.want)
		}
		whole(c.text)
	}
	var null bool
	if err := con.QueryRowContext(ctx, "SELECT bglm_gp(i%3=0, [i], {on_error: 'null'}) IS NULL FROM range(1500) t(i)").Scan(&null); err != nil || !null {
		t.Errorf("on_error 'null' gives %v, %v", null, err)
	}
	whole("on_error 'null'")
	for _, text := range []string{
		"SELECT count(f) FROM (SELECT i%7 AS g, bglm_ep(i%3=0, [i % 5, i % 11]) AS f FROM range(20000) t(i) GROUP BY g)",
		"SELECT bglm_laplace(CASE WHEN i < 9999 THEN 1 ELSE 7 END, [i]) FROM range(10000) t(i)", // a bad row
		"SELECT bglm_adf(i%3=0, [i], {covariance: 'full'}) OVER (ORDER BY i ROWS 3 PRECEDING) FROM range(200) t(i)",
		"SELECT bglm_auc(i%3=0, i / 200) FROM range(200) t(i)",
	} {
		rows, err := con.QueryContext(ctx, text)
		if err == nil {
			for rows.Next() {
			}
			rows.Close()
		}
		whole(text)
	}
	cancelled, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	defer udf.Interruptible(cancelled)()
	if _, err := con.ExecContext(cancelled, "SELECT bglm_hmc(i%3=0, [i % 7, i % 11], {samples: 200000}) FROM range(3000) t(i)"); err == nil {
		t.Error("the query was not cancelled")
	}
	whole("a cancelled query")
}

// A time limit ends what would take minutes with an error, or a status.
func TestTimeLimitEnds(t *testing.T) {
	con := connect(t, open(t))
	for _, c := range []struct{ call, from string }{
		{"bglm_gp(i%3=0, [i, sin(i)], {time_limit: 0.3, on_error: 'null'})", "range(5000)"},
		{"bglm_gp(i%3=0, [i, sin(i)], {time_limit: 0.3, lengthscale: 'auto', on_error: 'null'})", "range(800)"},
		{"bglm_ep(i%3=0, ['f'||i%700, 'g'||hash(i)%700], {time_limit: 0.3, covariance: 'full', tol: 1e-15, on_error: 'null'})", "range(5000)"},
		{"bglm_lowrank(i%3=0, ['f'||i%3000, 'g'||hash(i)%3000], {time_limit: 0.3, rank: 900, on_error: 'null'})", "range(5000)"},
		{"bglm_laplace(i%3=0, ['f'||i%1900, 'g'||hash(i)%1900], {time_limit: 0.3, hessian: 'full', on_error: 'null'})", "range(9000)"},
		{"bglm_hmc(i%3=0, ['f'||i%100, 'g'||hash(i)%100], {time_limit: 0.3, samples: 100000, on_error: 'null'})", "range(9000)"},
	} {
		began := time.Now()
		var status *string
		err := con.QueryRowContext(context.Background(), "SELECT f.status FROM (SELECT "+c.call+" AS f FROM "+c.from+" t(i))").Scan(&status)
		if took := time.Since(began); took > 4*time.Second { // 0.5 s where nothing else runs
			t.Errorf("%s took %v", c.call, took)
		}
		if err != nil || status != nil && !strings.Contains(*status, "time") {
			t.Errorf("%s gives %v, %v", c.call, status, err)
		}
		_, err = con.ExecContext(context.Background(), "SELECT "+strings.Replace(c.call, ", on_error: 'null'", "", 1)+" FROM "+c.from+" t(i)")
		if err != nil && !strings.Contains(err.Error(), "time_limit = 300ms ran out") {
			t.Errorf("%s: %v", c.call, err)
		}
	}
}

package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var stressFor = flag.Duration("stress", 10*time.Second, "how long TestStress runs")

func pause() { time.Sleep(5 * time.Millisecond) }

// stressQuery is a query with its known answer: the rows, an error that contains
// fails, or none of them for queries that end early and may leave states behind.
type stressQuery struct {
	sql, want, fails string
	early            bool
}

var stressQueries = []stressQuery{
	{sql: "SELECT count(*), sum((f.n = c)::INT) FROM (SELECT g, bglm_adf(y, x) AS f, count(*) AS c FROM d GROUP BY g)", want: "1000\t1000"},
	{sql: "SELECT count(*), sum((abs(r - s) <= 1e-12)::INT) FROM (SELECT g2, bglm_rmse(p, q ORDER BY i) AS r, sqrt(avg((p - q) ** 2)) AS s FROM d GROUP BY g2)", want: "10000\t10000"},
	{sql: "SELECT bool_and(f.n = 20000), count(*) FROM (SELECT bglm_adf(y, x) OVER () AS f FROM d)", want: "true\t20000"},
	{sql: "SELECT count(*), sum((f.n = c)::INT) FROM (SELECT bglm_adf(y, x) OVER w AS f, count(y) OVER w AS c FROM d WHERE i < 2000 WINDOW w AS (PARTITION BY g % 5 ORDER BY i ROWS BETWEEN 20 PRECEDING AND 5 FOLLOWING))", want: "2000\t2000"},
	{sql: "SELECT count(*), sum((f.n = c)::INT) FROM (SELECT bglm_adf(y, x ORDER BY p) OVER w AS f, count(y) OVER w AS c FROM d WHERE i < 1000 WINDOW w AS (ORDER BY i ROWS BETWEEN 9 PRECEDING AND CURRENT ROW))", want: "1000\t1000"},
	{sql: "SELECT count(*), sum((f.n = c)::INT) FROM (SELECT bglm_adf(y, x) OVER w AS f, count(y) OVER w AS c FROM d WHERE i < 1000 WINDOW w AS (ORDER BY i ROWS BETWEEN 9 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW))", want: "1000\t999", early: true}, // the first frame is empty: NULL; DuckDB never frees EXCLUDE's right-hand states
	{sql: "SELECT f.n, f.beliefs = o.b FROM (SELECT bglm_adf(y, x, {link: 'probit'} ORDER BY i) AS f FROM d), o", want: "20000\ttrue"},
	{sql: "SELECT count(*), sum((bglm_predict(f, x) BETWEEN 0 AND 1)::INT) FROM (SELECT g % 10 AS h, bglm_adf(y, x) AS f FROM d GROUP BY 1) JOIN d ON h = d.g % 10", want: "20000\t20000"},
	{sql: "SELECT bglm_merge(f).n FROM (SELECT bglm_adf(y, x) AS f FROM d GROUP BY g)", want: "20000"},
	{sql: "SELECT bglm_adf(DISTINCT y, x).n > 10, len(bglm_calibration(y, q, 5)) FROM d", want: "true\t5"},
	{sql: "SELECT count(*), sum(n) FROM (SELECT bglm_adf(y, x).n AS n FROM d GROUP BY GROUPING SETS ((g), (g2), ()))", want: "11001\t60000"},
	{sql: "SELECT bglm_adf(i, x) FROM d", fails: "bernoulli"},
	{sql: "SELECT g, bglm_adf(CASE WHEN i = 19999 THEN 5 ELSE 1 END, x ORDER BY i) FROM d GROUP BY g", fails: "y = 5", early: true},
	{sql: "SELECT bglm_adf(y, x, {prior_varience: 1}) FROM d GROUP BY g", fails: "prior_variance"},
	{sql: "SELECT bglm_predict(bglm_from_beliefs([{feature: 'a', mean: 0, variance: -1}]), x) FROM d", fails: "variance = -1"},
	{sql: "SELECT count(*) FROM (SELECT g2, bglm_adf(y, x) AS f FROM d GROUP BY g2 LIMIT 3)", want: "3", early: true},
	{sql: "SELECT sum(bglm_state().live_states >= 0) = 1", want: "true"},
}

// TestStress runs mixed queries on several connections at once and compares every
// answer. At the end no state is alive but those that DuckDB does not release after
// queries that end early, and bglm_purge() releases them.
//
// covers: never.leak
func TestStress(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	exec := func(q string) {
		t.Helper()
		if _, err := db.ExecContext(ctx, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	exec("SET threads = 4")
	exec(`CREATE TABLE d AS SELECT i, (i * 7919) % 11 < 4 AS y, i % 1000 AS g, i // 2 AS g2, {k: (i % 13)::VARCHAR, v: (i % 7) - 3.0} AS x,
		(i * 7919 % 1009) / 1009.0 AS p, (i * 31 % 997) / 997.0 AS q FROM range(20000) t(i)`)
	exec("CREATE TABLE o AS SELECT bglm_adf(y, x, {link: 'probit'} ORDER BY i).beliefs AS b FROM d")
	live := func() (n int64) {
		t.Helper()
		if err := db.QueryRowContext(ctx, "SELECT bglm_state().live_states").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	exec("SELECT bglm_purge()")

	// Full scans, one after the other, leave nothing.
	for _, q := range stressQueries {
		if q.early {
			continue
		}
		con := connect(t, db)
		if bad := stressOnce(ctx, con, q); bad != "" {
			t.Fatal(bad)
		}
		if n := live(); n != 0 {
			t.Errorf("%d live states after the full scan %s", n, q.sql)
			exec("SELECT bglm_purge()")
		}
		con.Close()
	}

	const workers = 6
	var wg sync.WaitGroup
	var ran, cancelled atomic.Int64
	end := time.Now().Add(*stressFor)
	for w := range workers {
		con := connect(t, db)
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for time.Now().Before(end) && !t.Failed() {
				q := stressQueries[r.IntN(len(stressQueries))]
				if r.IntN(5) == 0 { // a cancelled query: it fails as cancelled, or was faster
					c, stop := context.WithTimeout(ctx, time.Duration(r.IntN(20))*time.Millisecond)
					_, err := rowsOf(c, con, q.sql)
					stop()
					if err != nil && !interrupted(err) && (q.fails == "" || !strings.Contains(err.Error(), q.fails)) {
						t.Errorf("cancelled: %s\nerror: %v", q.sql, err)
					}
					cancelled.Add(1)
					continue
				}
				if bad := stressOnce(ctx, con, q); bad != "" {
					t.Error(bad)
				}
				ran.Add(1)
			}
		})
	}
	wg.Wait()
	left := live()
	t.Logf("%d queries and %d cancelled ones in %v; %d states left by those that ended early", ran.Load(), cancelled.Load(), *stressFor, left)
	var freed int64
	if err := db.QueryRowContext(ctx, "SELECT bglm_purge()").Scan(&freed); err != nil {
		t.Fatal(err)
	}
	if n := live(); n != 0 || freed != left {
		t.Errorf("bglm_purge() released %d of %d states, %d live after it", freed, left, n)
	}
}

func interrupted(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || strings.Contains(strings.ToLower(err.Error()), "interrupt")
}

func stressOnce(ctx context.Context, con *sql.Conn, q stressQuery) string {
	got, err := rowsOf(ctx, con, q.sql)
	switch {
	case q.fails != "":
		if err == nil || !strings.Contains(err.Error(), q.fails) {
			return fmt.Sprintf("%s\nerror: %v\nwant one with %q", q.sql, err, q.fails)
		}
	case err != nil:
		return fmt.Sprintf("%s\nerror: %v", q.sql, err)
	case strings.Join(got, "\n") != q.want:
		return fmt.Sprintf("%s\n got  %q\n want %q", q.sql, got, q.want)
	}
	return ""
}

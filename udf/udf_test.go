package udf_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/udf"
)

// bare is a database without bglm.
func bare(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func open(t testing.TB) *sql.DB {
	t.Helper()
	db := bare(t)
	if err := udf.Register(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	return db
}

func exec(t testing.TB, db *sql.DB, q string) {
	t.Helper()
	if _, err := db.Exec(q); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
}

func value[T any](t testing.TB, db *sql.DB, q string) (v T) {
	t.Helper()
	if err := db.QueryRow(q).Scan(&v); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return v
}

// A panic in any callback becomes a SQL error, the connection stays usable and
// no state stays behind.
//
// covers: never.crash
func TestPanics(t *testing.T) {
	db := open(t)
	if err := udf.RegisterPanics(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "SET threads = 4")
	for _, q := range []string{
		"SELECT panic_update(i) FROM range(100000) t(i)",
		"SELECT i % 100, panic_update(i) FROM range(100000) t(i) GROUP BY 1",
		"SELECT panic_combine(i) OVER (ORDER BY i ROWS BETWEEN 3000 PRECEDING AND CURRENT ROW) FROM range(10000) t(i)",
		"SELECT panic_finalize(i) FROM range(10) t(i)",
		"SELECT i, panic_finalize(i ORDER BY i) FROM range(10) t(i) GROUP BY i",
		"SELECT panic_scalar(i) FROM range(10) t(i)",
		"SELECT short_result(i) FROM range(10) t(i)",
	} {
		_, err := db.Exec(q)
		if err == nil || !strings.Contains(err.Error(), "internal error") {
			t.Errorf("%s: error %v", q, err)
		}
		if got := value[int](t, db, "SELECT bglm_adf(true, {a: 1}).n::INT"); got != 1 {
			t.Errorf("after %s: n = %d", q, got)
		}
	}
	udf.Purge(0)
}

// Registering twice, on a pool or one connection, changes nothing; other things
// than DuckDB connections are refused with a clear error.
func TestRegister(t *testing.T) {
	db := open(t)
	if err := udf.Register(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	c, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := udf.Register(context.Background(), c); err != nil {
		t.Error(err)
	}
	if tx, err := c.BeginTx(context.Background(), nil); err != nil {
		t.Error(err)
	} else {
		if err := udf.Register(context.Background(), c); err != nil {
			t.Errorf("inside a transaction: %v", err)
		}
		if _, err := tx.Exec("CREATE TABLE t AS SELECT 1 AS i"); err != nil {
			t.Errorf("the transaction goes on: %v", err)
		}
		tx.Rollback()
	}
	c.Close()
	for _, bad := range []any{nil, 3, "duckdb", &struct{ conn int }{}} {
		if _, err := udf.RawConnection(bad); err == nil || !strings.Contains(err.Error(), "duckdb-go/v2") {
			t.Errorf("%T: error %v", bad, err)
		}
	}
	closed, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	if err := udf.Register(context.Background(), closed); err == nil {
		t.Error("a closed database was accepted")
	}
}

// Programs may open databases side by side, and ask one while they open another; the race
// detector reads along.
func TestRegisterSideBySide(t *testing.T) {
	const q = "SELECT bglm_predict_dist(bglm_adf(i % 2 = 0, [i / 8]), [0.5], 0.5).mean FROM range(40) t(i)"
	want := value[float64](t, open(t), q)
	var all sync.WaitGroup
	for range 8 {
		con, err := bare(t).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			var got float64
			if err := udf.Register(t.Context(), con); err != nil {
				t.Error(err)
			} else if err := con.QueryRowContext(t.Context(), q).Scan(&got); err != nil || got != want {
				t.Errorf("%v, error %v; want %v", got, err, want)
			}
			con.Close()
		})
	}
	all.Wait()
}

// Goroutines that register with one database find all functions there when they are told so.
func TestRegisterTogether(t *testing.T) {
	for range 4 {
		db := bare(t)
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				var mean float64
				if err := udf.Register(t.Context(), db); err != nil {
					t.Error(err)
				} else if err := db.QueryRow("SELECT bglm_predict_dist(bglm_adf(true, [1]), [1], 0.5).mean").Scan(&mean); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

// What a transaction registers another connection does not see, which is said, and when it is
// rolled back registering again is no error.
func TestRegisterRolledBack(t *testing.T) {
	db := bare(t)
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tx, err := c.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := udf.Register(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := udf.Register(t.Context(), db); err == nil || !strings.Contains(err.Error(), "another transaction") {
		t.Errorf("while the transaction is open: error %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := udf.Register(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	value[float64](t, db, "SELECT bglm_predict(bglm_adf(true, [1]), [1])")
}

// The classifier knows callers of both kinds after registration, none of them
// contradictory, and the fast path carries the load.
func TestCallSites(t *testing.T) {
	db := open(t)
	before := udf.Sites()
	if before.Constant < 2 || before.Flat < 3 || before.Conflict != 0 {
		t.Errorf("after the warm-up: %+v", before)
	}
	if before.Windows < 1 || before.Sorted < 1 || before.Parents < 1 {
		t.Errorf("no window over whole partitions is known: %+v", before)
	}
	exec(t, db, "CREATE TABLE d AS SELECT i, i % 1000 AS g FROM range(200000) t(i)")
	for _, q := range []string{"SELECT g, bglm_rmse(i, i ORDER BY i) FROM d GROUP BY g", "SELECT g, bglm_rmse(i, i) FROM d GROUP BY g",
		"SELECT bglm_rmse(i, i) OVER (PARTITION BY g) FROM d"} {
		exec(t, db, q)
	}
	after := udf.Sites()
	if after.Conflict != 0 {
		t.Errorf("a caller is contradictory: %+v", after)
	}
	fast, slow := after.Fast-before.Fast, after.Unwound-before.Unwound
	if fast < 10*slow {
		t.Errorf("%d updates by the fast path, %d by unwinding", fast, slow)
	}
	if after.Inspected-before.Inspected > 10 {
		t.Errorf("%d updates decided by inspection after the warm-up", after.Inspected-before.Inspected)
	}
}

// Full scans release every state; early ends leave some, which are counted and
// can be purged; a purge under a running query is an error, not a crash.
//
// covers: state
func TestStates(t *testing.T) {
	db := open(t)
	udf.Purge(0)
	exec(t, db, "SET threads = 4")
	for _, q := range []string{
		"SELECT g, bglm_adf(i % 3 = 0, [i % 7::DOUBLE]).n FROM (SELECT i, i % 20000 g FROM range(200000) t(i)) GROUP BY g",
		"SELECT bglm_adf(i % 3 = 0, [1.0]) OVER (ORDER BY i ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) FROM range(5000) t(i)",
		"SELECT bglm_adf(i % 3 = 0, [1.0] ORDER BY i) FROM range(50000) t(i) GROUP BY i % 100",
		"SELECT bglm_adf(i % 3 = 0, [1.0]) FROM range(5000) t(i) GROUP BY GROUPING SETS ((i % 3), (i % 5), ())",
	} {
		exec(t, db, q)
		if n := udf.States().Live; n != 0 {
			t.Errorf("%d states left by %s", n, q)
			udf.Purge(0)
		}
	}
	rows, err := db.Query("SELECT g, bglm_adf(true, [1.0]) FROM (SELECT i % 100000 g FROM range(200000) t(i)) GROUP BY g LIMIT 1")
	if err != nil {
		t.Fatal(err)
	}
	rows.Close()
	s := udf.States()
	if s.Live == 0 || s.Bytes == 0 {
		t.Errorf("LIMIT left nothing behind to count: %+v; if DuckDB now releases such states, the docs can say so", s)
	}
	if n := value[int64](t, db, "SELECT bglm_purge()"); n != s.Live {
		t.Errorf("purged %d of %d", n, s.Live)
	}
	if s := udf.States(); s.Live != 0 || s.Bytes != 0 {
		t.Errorf("after the purge: %+v", s)
	}
}

// A purge while a query runs: the query fails with a clear error or finishes,
// and the process lives.
//
// covers: purge
func TestPurgeUnderLoad(t *testing.T) {
	db := open(t)
	done := make(chan error)
	go func() {
		var n int64
		done <- db.QueryRow("SELECT sum(f.n) FROM (SELECT g, bglm_adf(i % 3 = 0, [1.0, 2.0]) f FROM (SELECT i, i % 300000 g FROM range(3000000) t(i)) GROUP BY g)").Scan(&n)
	}()
	for {
		select {
		case err := <-done:
			if err != nil && !strings.Contains(err.Error(), "purged") {
				t.Error(err)
			}
			udf.Purge(0)
			return
		case <-time.After(100 * time.Millisecond):
			udf.Purge(0)
		}
	}
}

// An out-of-memory error while the result is written is a SQL error: DuckDB
// throws through C frames only.
//
// covers: never.crash
func TestOutOfMemoryInResult(t *testing.T) {
	kerneltest.Slow(t)
	db := open(t)
	exec(t, db, "SET memory_limit = '60MB'")
	_, err := db.Exec("CREATE TABLE t AS SELECT g, bglm_adf(true, list_transform(range(20000), lambda i: i::DOUBLE), {covariance: 'diagonal'}) f FROM range(400) t(g) GROUP BY g")
	if err == nil || !strings.Contains(err.Error(), "Memory") {
		t.Errorf("error %v", err)
	}
	exec(t, db, "SET memory_limit = '4GB'")
	udf.Purge(0)
	if got := value[int](t, db, "SELECT bglm_adf(true, {a: 1}).n::INT"); got != 1 {
		t.Errorf("n = %d", got)
	}
}

// Every documented example runs.
func TestExamples(t *testing.T) {
	db := open(t)
	for _, f := range udf.Functions() {
		rows, err := db.Query(f.Example)
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		n := 0
		for rows.Next() {
			n++
		}
		if rows.Err() != nil || n == 0 {
			t.Errorf("%s: %d rows, error %v", f.Name, n, rows.Err())
		}
		rows.Close()
	}
}

// Any thread count gives the same bits with ORDER BY inside the call.
func TestOrderedIsBitEqual(t *testing.T) {
	db := open(t)
	exec(t, db, "CREATE TABLE d AS SELECT i, hash(i) % 5 < 2 AS y, {a: (hash(i + 1) % 50)::VARCHAR, b: (i % 17) / 7.0} AS x FROM range(100000) t(i)")
	var first string
	for _, threads := range []int{1, 2, 8} {
		exec(t, db, fmt.Sprintf("SET threads = %d", threads))
		got := value[string](t, db, "SELECT bglm_adf(y, x, {process_noise: 0.001} ORDER BY i)::VARCHAR FROM d")
		if first == "" {
			first = got
		}
		if got != first {
			t.Errorf("%d threads give another fit", threads)
		}
	}
}

// The table macros come on request only, and twice is as good as once.
//
// covers: macro.register
func TestLoadMacros(t *testing.T) {
	db := open(t)
	if n := value[int](t, db, "SELECT count(*) FROM duckdb_functions() WHERE function_name = 'bglm_fit_by'"); n != 0 {
		t.Errorf("%d macros without a request", n)
	}
	for range 2 {
		if err := udf.LoadMacros(context.Background(), db); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, db, "CREATE TABLE r AS SELECT i % 2 AS g, i % 3 = 0 AS y, i / 30 AS v FROM range(30) t(i)")
	if n := value[int](t, db, "SELECT sum(fit.n)::INT FROM bglm_fit_by('r', g, y, {v: v})"); n != 30 {
		t.Errorf("n = %d", n)
	}
}

// A database opened, with the functions: what every program begins with. Only the first of
// a process is shown every kind of caller.
func BenchmarkRegister(b *testing.B) {
	for b.Loop() {
		db, err := sql.Open("duckdb", "")
		if err != nil {
			b.Fatal(err)
		}
		if err := udf.Register(b.Context(), db); err != nil {
			b.Fatal(err)
		}
		db.Close()
	}
}

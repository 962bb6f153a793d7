package udf_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	osexec "os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/duckdb/duckdb-go/v2" // DuckDB alone, without bglm's functions
)

// TestWindowTextByItself: a window over whole partitions with a constant text beside a column is
// DuckDB's own mistake, and no function of bglm need be near: its list() copies the text by a
// garbage pointer, which ends the process or gives texts that are nowhere in the data. It fails
// where DuckDB has mended that; then rows 7 and 8 of the pitfalls in docs/duckdb.md are done.
func TestWindowTextByItself(t *testing.T) {
	const name, text = "BGLM_WINDOW_TEXT", "a constant longer than twelve bytes"
	if os.Getenv(name) != "" {
		db, err := sql.Open("duckdb", "")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var rows, wrong int
		err = db.QueryRow(`SELECT count(*), count(*) FILTER (x.c <> '`+text+`') FROM (SELECT unnest(l) AS x FROM (SELECT DISTINCT g,
    list({c: '`+text+`', u: u} ORDER BY i) OVER (PARTITION BY g ORDER BY i ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS l
  FROM (SELECT i, i % 7 AS g, sin(i) AS u FROM range(60) t(i))))`).Scan(&rows, &wrong)
		fmt.Printf("child: %d rows, %d wrong, %v\n", rows, wrong, err)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		cmd := osexec.CommandContext(t.Context(), self, "-test.run", "^TestWindowTextByItself$")
		cmd.Env = append(os.Environ(), name+"=1", "GOTRACEBACK=none")
		out, err := cmd.CombinedOutput()
		var rows, wrong int
		at := max(0, strings.Index(string(out), "child: "))
		switch n, _ := fmt.Sscanf(string(out)[at:], "child: %d rows, %d wrong, <nil>", &rows, &wrong); {
		case err != nil:
			t.Logf("the process ended: %v", err)
		case n != 2 || rows != 60:
			t.Logf("%s", out) // an error of DuckDB's, of a text that is none
		case wrong == 0:
			t.Errorf("DuckDB gives the right texts: %s", out)
		default:
			t.Logf("%d of %d texts are wrong", wrong, rows)
		}
	}
}

// TestFitsBesideRows: a join copies a FIT for every row, before any function of bglm is
// called and whatever is asked of it, and one that is crossed with the rows is not copied. It
// fails where DuckDB no longer copies; then row 25 of the pitfalls in docs/duckdb.md is done.
func TestFitsBesideRows(t *testing.T) {
	if testing.Short() {
		t.Skip("times copies")
	}
	db := open(t)
	exec(t, db, "SET threads = 1")
	exec(t, db, `CREATE TABLE fits AS SELECT g, bglm_adf(sin(i * 7) > 0, [sin(i * j) FOR j IN range(100)], {covariance: 'full'}) AS fit
		FROM range(60) r(i), range(4) s(g) GROUP BY g`)
	exec(t, db, "CREATE TABLE rows AS SELECT i, i % 4 AS g, [sin(i * j) FOR j IN range(100)] AS x FROM range(2048) t(i)")
	least := func(q string) time.Duration {
		t.Helper()
		var took []time.Duration
		for range 5 {
			began := time.Now()
			var n int
			if err := db.QueryRowContext(context.Background(), q).Scan(&n); err != nil || n != 2048 {
				t.Fatalf("%s: %d, %v", q, n, err)
			}
			took = append(took, time.Since(began))
		}
		return slices.Min(took)
	}
	for _, q := range []string{"SELECT count(fit.covariance.values[i % 7 + 1]) FROM rows", "SELECT count(bglm_predict(fit, x)) FROM rows"} {
		joined, crossed := least(q+" JOIN fits USING (g)"), least(q+", (FROM fits WHERE g = 0)")
		t.Logf("%s: joined %v, crossed %v", q, joined, crossed)
		if joined < 4*crossed {
			t.Errorf("%s takes %v over a join, %v over rows that are crossed with a fit: the join does not copy fits", q, joined, crossed)
		}
	}
}

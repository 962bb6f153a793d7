//go:build duckdb_arrow && cgo

package duckdb

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/udf"
)

// A query's records give the beliefs of the SQL function to the last bit, and they
// come back as a view.
func TestThereAndBack(t *testing.T) {
	ctx := t.Context()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := udf.Register(ctx, db); err != nil {
		t.Fatal(err)
	}
	con, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer con.Close()
	if _, err := con.ExecContext(ctx, `CREATE TABLE t AS SELECT i, (i * 7919) % 1009 < 400 AS y,
		{s: 'v' || (i % 5), u: (i * 31 % 64) / 64.0::DOUBLE} AS x, i::DOUBLE AS day FROM range(5000) t(i)`); err != nil {
		t.Fatal(err)
	}
	l, err := lik.New("", "probit", lik.Params{Dispersion: 1})
	if err != nil {
		t.Fatal(err)
	}
	f, err := Fit(ctx, con, "SELECT y, x, day FROM t ORDER BY i", arrowio.Job{Y: "y", Features: "x", Time: "day",
		Model: kernels.Model{Lik: l, Params: lik.Params{Dispersion: 1}, Prior: kernels.DefaultPrior, Noise: 0.001}})
	if err != nil {
		t.Fatal(err)
	}
	if f.N != 5000 || len(f.Beliefs) != 7 {
		t.Fatalf("%d rows, %d beliefs", f.N, len(f.Beliefs))
	}
	rec, err := arrowio.FitRecord(f, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	r, err := array.NewRecordReader(rec.Schema(), []arrow.RecordBatch{rec})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	release, err := View(con, r, "beliefs")
	if err != nil {
		t.Fatal(err)
	}
	var same bool
	err = con.QueryRowContext(ctx, `SELECT (SELECT list({feature: feature, mean: mean, variance: variance}) FROM beliefs) =
		(SELECT bglm_adf(y, x, {link: 'probit', process_noise: 0.001, time: day, covariance: 'diagonal', standardize: false} ORDER BY i).beliefs FROM t)`).Scan(&same)
	if err != nil || !same {
		t.Errorf("equal to SQL: %v, %v", same, err)
	}
	release()
	release() // does nothing
	for _, q := range []string{"SELECT * FROM beliefs", "DESCRIBE beliefs"} {
		if _, err := con.ExecContext(ctx, q); err == nil || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("%s of a view that was released: %v", q, err)
		}
	}
	if _, err := Fit(ctx, con, "SELECT nothing", arrowio.Job{Y: "y"}); err == nil {
		t.Error("a wrong query was taken")
	}
}

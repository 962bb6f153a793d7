//go:build cgo

package arrowio_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/udf"
)

// Files go from DuckDB to arrowio and back.
func TestDuckDBFiles(t *testing.T) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := udf.Register(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	exec := func(q string) {
		t.Helper()
		if _, err := db.Exec(strings.ReplaceAll(q, "$dir", dir)); err != nil {
			t.Fatalf("%v\n%s", err, q)
		}
	}
	exec(`CREATE TABLE fit AS SELECT bglm_adf(i % 3 = 0, {k: i % 50, s: 'v' || i % 400}, {link: 'probit'} ORDER BY i) AS fit FROM range(5000) t(i)`)
	exec(`COPY (SELECT unnest(fit.beliefs, recursive := true) FROM fit) TO '$dir/out.parquet'`)
	f, err := arrowio.ReadParquetFile(filepath.Join(dir, "out.parquet"), &arrowio.Options{Link: "probit"})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Beliefs) != 402 || f.Family != "bernoulli" || !f.Intercept {
		t.Fatalf("%d beliefs, family %s, intercept %v", len(f.Beliefs), f.Family, f.Intercept)
	}

	// Back: DuckDB sees the same numbers, the metadata, and predicts the same.
	f.Method, f.N = "adf", 5000
	if err := arrowio.WriteParquetFile(filepath.Join(dir, "back.parquet"), f); err != nil {
		t.Fatal(err)
	}
	var same, rows, meta int
	q := strings.ReplaceAll(`SELECT (SELECT count(*) FROM (SELECT unnest(fit.beliefs, recursive := true) FROM fit) a JOIN '$dir/back.parquet' b
		ON a.feature = b.feature AND a.mean = b.mean AND a.variance = b.variance),
		(SELECT count(*) FROM '$dir/back.parquet'),
		(SELECT count(*) FROM '$dir/back.parquet' WHERE (fit->>'n')::INT = 5000)`, "$dir", dir)
	if err := db.QueryRow(q).Scan(&same, &rows, &meta); err != nil {
		t.Fatal(err)
	}
	if same != 402 || rows != 402 || meta != 1 {
		t.Errorf("%d of %d rows equal, metadata found %d times", same, rows, meta)
	}

	// What DuckDB makes of literals and of other encodings and codecs.
	for _, c := range []struct{ query, options, want string }{
		{`SELECT 'a' AS feature, 0.25 AS mean, 2 AS variance`, "", ""},
		{`SELECT 'f' || i AS feature, i::FLOAT AS mean, 1.0 AS variance FROM range(3000) t(i)`, ", PARQUET_VERSION 'v2', COMPRESSION 'zstd', ROW_GROUP_SIZE 2048", ""},
		{`SELECT 'f' || i AS feature, (i % 3)::DOUBLE AS mean, 1.0::DOUBLE AS variance FROM range(3000) t(i)`, ", COMPRESSION 'gzip'", ""},
		{`SELECT 'f' || i AS feature, (i % 3)::DOUBLE AS mean, 1.0::DOUBLE AS variance FROM range(3000) t(i)`, ", COMPRESSION 'lz4_raw'", ""},
		{`SELECT 'f' || i AS feature, i::TINYINT AS mean, 1.5::DECIMAL(18, 4) AS variance FROM range(100) t(i)`, ", COMPRESSION 'uncompressed'", ""},
		{`SELECT 'a' AS feature, 1.0 AS mean, NULL::DOUBLE AS variance`, "", "column variance, rows 1 to 1: NULL"},
		{`SELECT 'a' AS feature, 'nan'::DOUBLE AS mean, 1.0 AS variance`, "", "column mean = NaN"},
		{`SELECT 'a' AS feature, 1.0 AS mean, -1.0 AS variance`, "", "column variance = -1"},
		{`SELECT 'a' AS feature, 1.0 AS mean, 1.0 AS variance UNION ALL SELECT 'a', 2.0, 1.0`, "", `"a" is there more than once`},
		{`SELECT 1 AS feature, 1.0 AS mean, 1.0 AS variance`, "", "column feature: its type is INT32"},
		{`SELECT 'a'::BLOB AS feature, 1.0 AS mean, 1.0 AS variance`, "", "column feature: its type is BYTE_ARRAY"},
		{`SELECT 'a' AS feature, [1.0] AS mean, 1.0 AS variance`, "", "no column mean; found: feature, mean."},
		{`SELECT 'a' AS feature, 1::UBIGINT AS mean, 1.0 AS variance`, "", "column mean: its type is INT64 (Int(bitWidth=64, isSigned=false))"},
		{`SELECT 'a' AS feature, 1.0 AS mean`, "", "no column variance; found: feature, mean;"},
	} {
		exec("COPY (" + c.query + ") TO '$dir/case.parquet' (FORMAT parquet" + c.options + ")")
		f, err := arrowio.ReadParquetFile(filepath.Join(dir, "case.parquet"), nil)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, want %q", c.query, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s%s: %v", c.query, c.options, err)
			continue
		}
		var n int
		var sum float64
		if err := db.QueryRow("SELECT count(*), sum(mean + variance) FROM '"+dir+"/case.parquet'").Scan(&n, &sum); err != nil {
			t.Fatal(err)
		}
		got := 0.0
		for _, b := range f.Beliefs {
			got += b.Mean + b.Variance
		}
		if len(f.Beliefs) != n || got != sum {
			t.Errorf("%s: %d beliefs of sum %v, want %d of %v", c.query, len(f.Beliefs), got, n, sum)
		}
	}
}

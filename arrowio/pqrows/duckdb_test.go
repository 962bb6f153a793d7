//go:build cgo

package pqrows_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	_ "github.com/duckdb/duckdb-go/v2"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/arrowio/pqrows"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/udf"
)

const rowsSQL = `SELECT i, i % 3 = 0 AS y, (i % 7)::TINYINT AS tiny, (i * 0.25)::DECIMAL(9, 2) AS dec, CASE WHEN i % 5 > 0 THEN (i % 11) / 8.0 END::FLOAT AS f,
  (i % 4)::UTINYINT AS ut, (i % 1000)::UBIGINT / 1000 AS ub, CASE WHEN i % 6 > 0 THEN 'v' || i % 40 END AS s, ('e' || i % 3)::ENUM('e0', 'e1', 'e2') AS e, i % 2 = 0 AS b,
  CASE WHEN i % 9 > 0 THEN DATE '1969-12-20' + (i % 30)::INT END AS d, list_filter(['t' || i % 5, 't' || i % 4, NULL], lambda z, k: k <= i % 4) AS tags,
  CASE WHEN i % 13 > 0 THEN MAP {'k' || i % 3: (i % 5)::DOUBLE, 'z:' || i % 2: 0.5} END AS m, MAP {i % 3: 1, 100: (i % 2)::INT} AS im,
  [{feature: 'p' || i % 3, value: 1.0}, {feature: 'p' || i % 2, value: (i % 3)::DOUBLE}, {feature: NULL, value: 1.0}] AS pairs,
  [(i % 3)::DOUBLE, NULL, i / 1000.0] AS dense, [(i % 3)::FLOAT, 2]::FLOAT[2] AS fixed, {u: i % 3, v: 'w' || i % 4} AS st, 1 + (i % 2) AS w, (i % 5) / 10 AS o,
  TIMESTAMP '2024-01-01' + to_minutes(i * 37) AS ts FROM range(20000) t(i)`

// Each x means the same in SQL and in Arrow, read from Parquet: the fits are equal.
func TestSameAsSQL(t *testing.T) {
	kerneltest.Slow(t)
	ctx := context.Background()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := udf.Register(ctx, db); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rows.parquet")
	if _, err := db.Exec("COPY (" + rowsSQL + ") TO '" + path + "' (ROW_GROUP_SIZE 3000)"); err != nil {
		t.Fatal(err)
	}
	l, err := lik.New("", "probit", lik.Params{Dispersion: 1, Shape: math.NaN()})
	if err != nil {
		t.Fatal(err)
	}
	base := kernels.Model{Lik: l, Prior: kernels.DefaultPrior, MaxFeatures: 1e6, Forgetting: 1}
	one := func(names ...string) (out []arrowio.Term) {
		for _, n := range names {
			out = append(out, strings.Split(n, ":"))
		}
		return out
	}
	for _, c := range []struct {
		x, opts string
		job     arrowio.Job
		model   func(*kernels.Model)
	}{
		{"{tiny: tiny, dec: dec, f: f, ut: ut, ub: ub}", "", arrowio.Job{Terms: one("tiny", "dec", "f", "ut", "ub")}, nil},
		{"{tiny: tiny, f: f, s: s}", "", arrowio.Job{Terms: one("tiny", "f", "s")}, func(m *kernels.Model) { m.Options.Missing = "indicator" }},
		{"dense", "", arrowio.Job{Features: "dense"}, func(m *kernels.Model) { m.Options.Missing = "indicator" }},
		{"{s: s, e: e, b: b, d: d, tags: tags}", "", arrowio.Job{Terms: one("s", "e", "b", "d", "tags")}, nil},
		{"tags", "", arrowio.Job{Features: "tags"}, nil},
		{"m", "", arrowio.Job{Features: "m"}, nil},
		{"im", "", arrowio.Job{Features: "im"}, nil},
		{"pairs", "", arrowio.Job{Features: "pairs"}, nil},
		{"dense", "", arrowio.Job{Features: "dense"}, nil},
		{"fixed", "", arrowio.Job{Features: "fixed"}, nil},
		{"st", "", arrowio.Job{Features: "st"}, nil},
		{"{s: s, m: m, fixed: fixed}", "", arrowio.Job{Terms: one("s", "m", "fixed")}, nil},
		{"{tiny: tiny, dense: dense, m: m}", "", arrowio.Job{Terms: one("tiny", "dense", "m")}, func(m *kernels.Model) { m.Options.Missing = "indicator" }},
		{"{'e:s': e::VARCHAR || ':' || s, 'tiny:f': tiny * f}", "", arrowio.Job{Terms: one("e:s", "tiny:f")}, nil},
		{"{s: s}", ", weight: w, 'offset': o, time: ts, process_noise: 0.01", arrowio.Job{Terms: one("s"), Weight: "w", Offset: "o", Time: "ts"}, func(m *kernels.Model) { m.Noise = 0.01 }},
		{"{s: s, e: e}", ", hash_bits: 4", arrowio.Job{Terms: one("s", "e")}, func(m *kernels.Model) { m.HashBits = 4 }},
	} {
		job := c.job
		job.Y, job.Model = "y", base
		job.Model.Options.Missing = "absent"
		if c.model != nil {
			c.model(&job.Model)
		}
		var cols []string
		for _, name := range append([]string{job.Y, job.Features, job.Weight, job.Offset, job.Time}, flat(job.Terms)...) {
			if name != "" {
				cols = append(cols, name)
			}
		}
		r, err := pqrows.Open(ctx, path, cols)
		if err != nil {
			t.Fatal(err)
		}
		got, err := arrowio.Fit(ctx, r, job)
		r.Close()
		if err != nil {
			t.Errorf("%s: %v", c.x, err)
			continue
		}
		// DuckDB compares the beliefs: exactly.
		back := filepath.Join(filepath.Dir(path), "fit.parquet")
		if err := arrowio.WriteParquetFile(back, got); err != nil {
			t.Fatal(err)
		}
		var same, rows, n, skipped int64
		var evidence float64
		err = db.QueryRow(fmt.Sprintf(`WITH f AS (SELECT bglm_adf(y, %s, {link: 'probit', standardize: false, covariance: 'diagonal', missing: '%s'%s} ORDER BY i) AS fit FROM '%s'), b AS (SELECT unnest(fit.beliefs, recursive := true) FROM f)
			SELECT (SELECT count(*) FROM b JOIN '%s' c USING (feature) WHERE b.mean = c.mean AND b.variance = c.variance), (SELECT count(*) FROM b), fit.n, fit.n_skipped, fit.log_evidence FROM f`,
			c.x, job.Model.Options.Missing, c.opts, path, back)).Scan(&same, &rows, &n, &skipped, &evidence)
		if err != nil {
			t.Fatalf("%s: %v", c.x, err)
		}
		if same != rows || rows != int64(len(got.Beliefs)) || n != got.N || skipped != got.Skipped || math.Abs(evidence-got.LogEvidence) > 1e-9*math.Abs(evidence) {
			t.Errorf("%s: %d of %d beliefs equal, %d here; n %d and %d, skipped %d and %d, log evidence %v and %v", c.x, same, rows, len(got.Beliefs), n, got.N, skipped, got.Skipped, evidence, got.LogEvidence)
		}
	}
}

func flat(terms []arrowio.Term) (out []string) {
	for _, t := range terms {
		out = append(out, t...)
	}
	return out
}

// Tables go to Arrow and back to Parquet unchanged.
func TestConversions(t *testing.T) {
	ctx := context.Background()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	dir := t.TempDir()
	path, back := filepath.Join(dir, "rows.parquet"), filepath.Join(dir, "back.parquet")
	if _, err := db.Exec("COPY (" + rowsSQL + ") TO '" + path + "' (ROW_GROUP_SIZE 3000)"); err != nil {
		t.Fatal(err)
	}
	for _, stream := range []bool{true, false} {
		var b bytes.Buffer
		if err := pqrows.ToIPC(ctx, &b, path, stream); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "rows.arrow")
		if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := arrowio.OpenIPC(name)
		if err != nil {
			t.Fatal(err)
		}
		out, err := os.Create(back)
		if err != nil {
			t.Fatal(err)
		}
		if err := pqrows.FromArrow(out, r); err != nil {
			t.Fatal(err)
		}
		r.Close()
		out.Close()
		var n int
		if err := db.QueryRow("SELECT count(*) FROM ((FROM '" + path + "' EXCEPT ALL FROM '" + back + "') UNION ALL (FROM '" + back + "' EXCEPT ALL FROM '" + path + "'))").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != 0 {
			t.Errorf("stream %v: %d rows differ", stream, n)
		}
	}
	if _, err := pqrows.Open(ctx, path, []string{"y", "nope"}); err == nil || !strings.Contains(err.Error(), "no column nope; found: i, y") || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
}

// Decimals of more digits than DuckDB has are read as the numbers that they are, wherever they
// stand.
func TestWideDecimals(t *testing.T) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	path := filepath.Join(t.TempDir(), "x.parquet")
	for _, digits := range []int32{39, 45, 50, 57, 70, 76} {
		of := &arrow.Decimal256Type{Precision: digits, Scale: 10}
		a := fromJSON(t, of, `["1000000000.5", "-3.25", null, "0.0000000001", "12345678901234567890123456789"]`)
		dict := array.NewDictionaryArray(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: of}, fromJSON(t, arrow.PrimitiveTypes.Int8, "[0, 1, 2, 3, 4]"), a)
		rec := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{
			{Name: "a", Type: of, Nullable: true},
			{Name: "d", Type: dict.DataType(), Nullable: true},
			{Name: "l", Type: arrow.ListOf(of), Nullable: true},
			{Name: "m", Type: arrow.MapOf(arrow.BinaryTypes.String, of), Nullable: true},
			{Name: "s", Type: arrow.StructOf(arrow.Field{Name: "v", Type: arrow.FixedSizeListOf(1, of), Nullable: true}), Nullable: true},
		}, nil), []arrow.Array{a, dict,
			fromJSON(t, arrow.ListOf(of), `[["1000000000.5"], ["-3.25"], [null], ["0.0000000001"], ["12345678901234567890123456789"]]`),
			fromJSON(t, arrow.MapOf(arrow.BinaryTypes.String, of), `[[{"key": "k", "value": "1000000000.5"}], [{"key": "k", "value": "-3.25"}], [{"key": "k", "value": null}], [{"key": "k", "value": "0.0000000001"}], [{"key": "k", "value": "12345678901234567890123456789"}]]`),
			fromJSON(t, arrow.StructOf(arrow.Field{Name: "v", Type: arrow.FixedSizeListOf(1, of), Nullable: true}), `[{"v": ["1000000000.5"]}, {"v": ["-3.25"]}, {"v": [null]}, {"v": ["0.0000000001"]}, {"v": ["12345678901234567890123456789"]}]`),
		}, 5)
		r, err := array.NewRecordReader(rec.Schema(), []arrow.RecordBatch{rec})
		if err != nil {
			t.Fatal(err)
		}
		out, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := pqrows.FromArrow(out, r); err != nil {
			t.Fatal(err)
		}
		out.Close()
		rows, err := db.Query("SELECT a, d, l[1], m['k'], s.v[1] FROM '" + path + "'")
		if err != nil {
			t.Fatal(err)
		}
		want := []sql.NullFloat64{{Float64: 1000000000.5, Valid: true}, {Float64: -3.25, Valid: true}, {}, {Float64: 1e-10, Valid: true}, {Float64: 12345678901234567890123456789, Valid: true}}
		for _, w := range want {
			var got [5]sql.NullFloat64
			rows.Next()
			if err := rows.Scan(&got[0], &got[1], &got[2], &got[3], &got[4]); err != nil {
				t.Fatal(err)
			}
			for k, g := range got {
				if g.Valid != w.Valid || math.Abs(g.Float64-w.Float64) > 1e-15*math.Abs(w.Float64) {
					t.Errorf("%d digits, column %d: %v, want %v", digits, k, g, w)
				}
			}
		}
		rows.Close()
	}
}

// Cut and damaged files give an error that names them.
func TestDamaged(t *testing.T) {
	ctx := context.Background()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	path := filepath.Join(t.TempDir(), "rows.parquet")
	if _, err := db.Exec("COPY (SELECT i, i % 3 = 0 AS y, 'v' || i AS s FROM range(5000) t(i)) TO '" + path + "' (ROW_GROUP_SIZE 2048)"); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read := func(b []byte) error {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := pqrows.Open(ctx, path, nil)
		if err != nil {
			return err
		}
		defer r.Close()
		for r.Next() {
		}
		return r.Err()
	}
	for _, n := range []int{0, 5, 100, len(whole) / 2, len(whole) - 1} {
		if err := read(whole[:n]); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("cut to %d bytes: error %v", n, err)
		}
	}
	rounds := 400
	if testing.Short() {
		rounds = 60
	}
	for i := range rounds {
		b := bytes.Clone(whole)
		b[(i*7919)%len(b)] ^= byte(1 << (i % 8))
		_ = read(b) // no panic
	}
}

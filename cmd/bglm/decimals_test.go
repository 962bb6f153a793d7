package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// A Parquet file with decimals that DuckDB reads wrongly is no data: its fit would be of other
// numbers.
func TestWideDecimalsOfParquet(t *testing.T) {
	for digits, wrong := range map[int32]bool{38: false, 45: true, 70: true, 76: false} {
		var of arrow.DataType = &arrow.Decimal256Type{Precision: digits, Scale: 2}
		if digits <= 38 {
			of = &arrow.Decimal128Type{Precision: digits, Scale: 2}
		}
		a, _, err := array.FromJSON(memory.DefaultAllocator, of, strings.NewReader(`["1.25", "2.5", "7", "4", "1", "0"]`))
		if err != nil {
			t.Fatal(err)
		}
		y, _, err := array.FromJSON(memory.DefaultAllocator, arrow.FixedWidthTypes.Boolean, strings.NewReader("[true, false, false, true, true, false]"))
		if err != nil {
			t.Fatal(err)
		}
		s := arrow.NewSchema([]arrow.Field{{Name: "y", Type: y.DataType()}, {Name: "amount", Type: of}}, nil)
		path := filepath.Join(t.TempDir(), "rows.parquet")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w, err := pqarrow.NewFileWriter(s, f, parquet.NewWriterProperties(), pqarrow.NewArrowWriterProperties())
		if err == nil {
			err = w.Write(array.NewRecordBatch(s, []arrow.Array{y, a}, 6))
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		r := bglm(t, "", "fit", "--data", path, "--formula", "y ~ amount", "--quiet")
		if wrong != (r.code == exitFailed && strings.Contains(r.stderr, "rows.parquet: column amount is DECIMAL(") && strings.Contains(r.stderr, "reads wrongly")) || !wrong && r.code != exitDone {
			t.Errorf("%d digits: exit %d, %s", digits, r.code, r.stderr)
		}
		if r := bglm(t, "", "fit", "--data", path, "--engine", "arrow", "--formula", "y ~ amount", "--quiet"); r.code != exitDone {
			t.Errorf("%d digits, Arrow: exit %d, %s", digits, r.code, r.stderr)
		}
	}
}

package pqrows_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/arrowio/pqrows"
)

// Rows of a Parquet file are learnt a row group at a time.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "bglm")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "clicks.parquet")
	if err := write(path); err != nil {
		fmt.Println(err)
		return
	}
	r, err := pqrows.Open(context.Background(), path, []string{"click", "site"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Release()
	f, err := arrowio.Fit(context.Background(), r, arrowio.Job{Y: "click", Terms: []arrowio.Term{{"site"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.N, "rows,", len(f.Beliefs), "beliefs")
	// Output:
	// 2 rows, 3 beliefs
}

func write(path string) error {
	schema := arrow.NewSchema([]arrow.Field{{Name: "click", Type: arrow.FixedWidthTypes.Boolean}, {Name: "site", Type: arrow.BinaryTypes.String}}, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(`[{"click": true, "site": "a"}, {"click": false, "site": "b"}]`))
	if err != nil {
		return err
	}
	defer rec.Release()
	r, err := array.NewRecordReader(schema, []arrow.RecordBatch{rec})
	if err != nil {
		return err
	}
	defer r.Release()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pqrows.FromArrow(f, r); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

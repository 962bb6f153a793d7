package pqrows_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/bglm/bglm/arrowio/pqrows"
)

// Row groups read apart are the rows of the file, each once.
func TestRowGroups(t *testing.T) {
	const flights = "../../testdata/flights.parquet"
	rows, err := pqrows.RowGroups(flights)
	if err != nil || fmt.Sprint(rows) != "[122880 122880 122880 122880 8480]" {
		t.Fatalf("%v, %v", rows, err)
	}
	read := func(lo, hi int) (n int64, sum float64) {
		r, err := pqrows.OpenGroups(t.Context(), flights, []string{"delay"}, lo, hi)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for r.Next() {
			for _, v := range r.RecordBatch().Column(0).(*array.Int16).Values() {
				n++
				sum += float64(n%7) * float64(v) // of the order too, within a file
			}
		}
		if r.Err() != nil || n != r.NumRows() {
			t.Fatalf("%d rows, the footer says %d: %v", n, r.NumRows(), r.Err())
		}
		return n, sum
	}
	all, sum := read(0, math.MaxInt)
	if all != 500_000 {
		t.Errorf("%d rows", all)
	}
	if n, s := read(-1, 5); n != all || s != sum {
		t.Errorf("%d rows, %v; want %d, %v", n, s, all, sum)
	}
	parts := int64(0)
	for _, g := range [][2]int{{3, 9}, {0, 1}, {1, 3}, {2, 2}, {7, 9}} {
		n, _ := read(g[0], g[1])
		parts += n
	}
	if parts != all {
		t.Errorf("%d rows in parts, want %d", parts, all)
	}
	if _, err := pqrows.RowGroups("../../testdata/README.md"); err == nil {
		t.Error("no error of a text")
	}
}

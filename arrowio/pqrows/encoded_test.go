package pqrows_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/bglm/bglm/arrowio/pqrows"
)

func fromJSON(t *testing.T, of arrow.DataType, json string) arrow.Array {
	t.Helper()
	a, _, err := array.FromJSON(memory.DefaultAllocator, of, strings.NewReader(json))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Dictionaries, also those with a NULL in them, runs and views become the rows that they stand for;
// the text (null) is no NULL.
func TestEncodedColumns(t *testing.T) {
	for _, c := range []struct {
		t                  arrow.DataType
		values, rows, want string
	}{
		{arrow.BinaryTypes.String, `["u", null, "(null)"]`, `["u", null, null, "(null)", "u"]`, `"u" - - "(null)" "u"`},
		{arrow.BinaryTypes.LargeString, `["u", null, "(null)"]`, `["u", null, null, "(null)", "u"]`, `"u" - - "(null)" "u"`},
		{arrow.BinaryTypes.StringView, `["u", null, "(null)"]`, `["u", null, null, "(null)", "u"]`, `"u" - - "(null)" "u"`},
		{arrow.BinaryTypes.StringView, `["", "w", "longer than a view"]`, `["", "w", null, "longer than a view", ""]`, `"" "w" - "longer than a view" ""`},
		{arrow.FixedWidthTypes.Boolean, `[true, null, false]`, `[true, null, null, false, true]`, `"true" - - "false" "true"`},
		{arrow.PrimitiveTypes.Float64, `[0.1, null, -2]`, `[0.1, null, null, -2, 0.1]`, `"0.1" - - "-2" "0.1"`},
		{arrow.FixedWidthTypes.Date32, `["2024-02-29", null, "1969-12-31"]`, `["2024-02-29", null, null, "1969-12-31", "2024-02-29"]`, `"2024-02-29" - - "1969-12-31" "2024-02-29"`},
		{arrow.Null, `[null, null, null]`, `[null, null, null, null, null]`, `- - - - -`},
	} {
		indices := fromJSON(t, arrow.PrimitiveTypes.Uint8, `[9, 0, 1, null, 2, 0, 9]`)
		dict := array.NewDictionaryArray(&arrow.DictionaryType{IndexType: indices.DataType(), ValueType: c.t}, array.NewSlice(indices, 1, 6), fromJSON(t, c.t, c.values))
		rows := fromJSON(t, c.t, c.rows)
		runs := array.NewRunEndEncodedArray(fromJSON(t, arrow.PrimitiveTypes.Int32, `[1, 2, 3, 4, 5]`), rows, 5, 0)
		for _, a := range []arrow.Array{dict, runs, rows} {
			if got := throughParquet(t, a); got != c.want {
				t.Errorf("%s: %s, want %s", a.DataType(), got, c.want)
			}
		}
	}
}

// throughParquet writes a as a column of a file and shows what is read again.
func throughParquet(t *testing.T, a arrow.Array) string {
	t.Helper()
	s := arrow.NewSchema([]arrow.Field{{Name: "x", Type: a.DataType(), Nullable: true}}, nil)
	r, err := array.NewRecordReader(s, []arrow.RecordBatch{array.NewRecordBatch(s, []arrow.Array{a}, int64(a.Len()))})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := pqrows.FromArrow(&b, r); err != nil {
		return err.Error()
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := pqrows.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var shown []string
	for in.Next() {
		x := in.RecordBatch().Column(0)
		for i := range x.Len() {
			if x.IsNull(i) || x.NullN() == x.Len() {
				shown = append(shown, "-")
			} else {
				shown = append(shown, fmt.Sprintf("%q", x.ValueStr(i)))
			}
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(shown, " ")
}

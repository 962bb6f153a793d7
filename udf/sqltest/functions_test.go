package sqltest

import (
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/udf"
)

// TestExamples runs the example of every function: each gives at least one row.
//
// covers: functions
func TestExamples(t *testing.T) {
	con := connect(t, open(t))
	for _, f := range udf.Functions() {
		t.Run(f.Name, func(t *testing.T) {
			if !strings.Contains(f.Example, f.Name+"(") {
				t.Errorf("the example does not call %s: %s", f.Name, f.Example)
			}
			rows, err := con.QueryContext(t.Context(), f.Example)
			if err != nil {
				t.Fatalf("%s\n%v", f.Example, err)
			}
			defer rows.Close()
			n := 0
			for rows.Next() {
				n++
			}
			if err := rows.Err(); err != nil || n == 0 {
				t.Errorf("%s\n%d rows, %v", f.Example, n, err)
			}
		})
	}
}

// TestFunctionList compares udf.Functions, bglm_functions() and DuckDB's catalog.
//
// covers: functions
func TestFunctionList(t *testing.T) {
	con := connect(t, open(t))
	ask := func(q string) []string {
		got, err := rowsOf(t.Context(), con, q)
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		slices.Sort(got)
		return got
	}
	var want []string
	for _, f := range udf.Functions() {
		want = append(want, f.Name+"\t"+f.Kind)
		if f.Description == "" || !strings.HasPrefix(f.Signature, f.Name+"(") {
			t.Errorf("%s: description %q, signature %q", f.Name, f.Description, f.Signature)
		}
	}
	slices.Sort(want)
	if got := ask("SELECT f.name, f.kind FROM (SELECT unnest(bglm_functions()) AS f)"); !slices.Equal(got, want) {
		t.Errorf("bglm_functions():\n got  %q\n want %q", got, want)
	}
	if got := ask("SELECT DISTINCT function_name, function_type FROM duckdb_functions() WHERE starts_with(function_name, 'bglm_')"); !slices.Equal(got, want) {
		t.Errorf("duckdb_functions():\n got  %q\n want %q", got, want)
	}
}

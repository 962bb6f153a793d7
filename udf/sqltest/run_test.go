package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/udf"
)

// open returns a fresh in-memory database with bglm's functions, which spills to a folder of
// its own: see TestSpillFolders.
func open(t testing.TB) *sql.DB {
	t.Helper()
	spill := t.TempDir()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := udf.Register(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "SET temp_directory = '"+strings.ReplaceAll(spill, "'", "''")+"'"); err != nil {
		t.Fatal(err)
	}
	return db
}

func connect(t testing.TB, db *sql.DB) *sql.Conn {
	t.Helper()
	con, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { con.Close() })
	return con
}

// rowsOf runs a query and prints its rows, cells separated by tabs.
func rowsOf(ctx context.Context, con *sql.Conn, query string) ([]string, error) {
	rows, err := con.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	vals, ptrs := make([]any, len(cols)), make([]any, len(cols))
	for i := range vals {
		ptrs[i] = &vals[i]
	}
	var out []string
	for rows.Next() {
		if err := rows.Scan(ptrs...); err != nil {
			return nil, err
		}
		cells := make([]string, len(vals))
		for i, v := range vals {
			if cells[i], err = Cell(v); err != nil {
				return nil, fmt.Errorf("column %s: %w", cols[i], err)
			}
		}
		out = append(out, strings.Join(cells, "\t"))
	}
	return out, rows.Err()
}

// check runs a block and says what is wrong, or "".
func check(ctx context.Context, con *sql.Conn, b Block, tmp string) string {
	query := strings.ReplaceAll(b.SQL, "${TMP}", tmp)
	if b.Kind != Query {
		_, err := con.ExecContext(ctx, query)
		switch {
		case b.Kind == OK && err != nil:
			return "error: " + err.Error()
		case b.Kind == Error && err == nil:
			return fmt.Sprintf("no error; want one matching %s", b.Pattern)
		case b.Kind == Error && !b.Pattern.MatchString(err.Error()):
			return fmt.Sprintf("error: %v\nwant one matching %s", err, b.Pattern)
		}
		return ""
	}
	got, err := rowsOf(ctx, con, query)
	if err != nil {
		return "error: " + err.Error()
	}
	want := slices.Clone(b.Rows)
	if b.Sort {
		slices.Sort(got)
		slices.Sort(want)
	}
	for i := range max(len(got), len(want)) {
		g, w := "(no row)", "(no row)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		gc, wc := strings.Split(g, "\t"), strings.Split(w, "\t")
		same := len(gc) == len(wc)
		for k := 0; same && k < len(wc); k++ {
			same = Same(gc[k], wc[k], b.RTol, b.ATol)
		}
		if !same {
			return fmt.Sprintf("row %d\n got  %s\n want %s", i+1, g, w)
		}
	}
	return ""
}

func caseFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("cases/*.test")
	if err != nil || len(files) == 0 {
		t.Fatalf("no case files: %v", err)
	}
	return files
}

// lengthy are the files that take a quarter of a minute and more under the race detector, of
// aggregates that other files call by as many threads.
var lengthy = []string{"constant_groups", "correlated", "drift", "front", "grouping", "interactions-far", "order", "predictive", "rows-under-a-fit", "softmax", "status", "tiny-groups", "warm-start", "windows"}

// TestCases runs every file of cases/ in this process.
func TestCases(t *testing.T) {
	for _, path := range caseFiles(t) {
		name := strings.TrimSuffix(filepath.Base(path), ".test")
		t.Run(name, func(t *testing.T) {
			if slices.Contains(lengthy, name) {
				kerneltest.Slow(t)
			}
			t.Parallel()
			f, err := Parse(path)
			if err != nil {
				t.Fatal(err)
			}
			if f.Only == "clients" {
				t.Skip("for the clients only")
			}
			checkFile(t, f)
		})
	}
}

func checkFile(t *testing.T, f *File) {
	t.Helper()
	con := connect(t, open(t))
	tmp := t.TempDir()
	for _, b := range f.Blocks {
		if bad := check(t.Context(), con, b, tmp); bad != "" {
			t.Errorf("%s:%d: %s\n%s", f.Path, b.Line, b.SQL, bad)
		}
	}
}

// TestSettings: what SET tells concerns the whole process, and so runs alone.
//
// covers: hosts
func TestSettings(t *testing.T) {
	f, err := Parse("cases/settings.test")
	if err != nil {
		t.Fatal(err)
	}
	checkFile(t, f)
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		got, want string
		same      bool
	}{
		{"1", "1.0", true}, {"1.0000000001", "1", true}, {"1.00000001", "1", false},
		{"{'feature': x1, 'mean': 0.50000000001}", "{'feature': x1, 'mean': 0.5}", true},
		{"{'feature': x1, 'mean': 0.5}", "{'feature': x2, 'mean': 0.5}", false},
		{"[1e-3, -2.0]", "[0.001, -2]", true}, {"[1]", "[1, 2]", false}, {"#12", "#12.0", false},
		{"NULL", "0", false}, {"inf", "inf", true}, {"nan", "1", false}, {"-1", "1", false}, {"a-1", "a1", false},
		{"10000000001", "10000000002", true},
	} {
		if Same(c.got, c.want, DefaultRTol, 0) != c.same {
			t.Errorf("Same(%q, %q) = %v", c.got, c.want, !c.same)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"statement maybe\nSELECT 1\n":      "begins with",
		"query\nSELECT 1\n":                "needs a line ----",
		"statement ok\n\nSELECT 1\n":       "no SQL",
		"query rtoll=1\nSELECT 1\n----\n1": "rtoll=1",
		"statement error (\nSELECT 1\n":    "missing closing",
		"# threads many\n":                 "whole number",
		"# only shells\n":                  "embedded or clients",
		"statement ok\nSELECT 1\n----\n1":  "nothing else",
	} {
		path := filepath.Join(t.TempDir(), "bad.test")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v; want an error with %q", text, err, want)
		}
	}
}

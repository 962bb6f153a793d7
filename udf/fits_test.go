package udf_test

import (
	"compress/gzip"
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// FITs of every layout, stored in every way, answer what they did when they were made.
func TestStoredFits(t *testing.T) {
	for _, dir := range kerneltest.FitFolders(t) {
		want := kerneltest.FitAnswers(t, dir)
		in := func(name string) string { return "'" + strings.ReplaceAll(filepath.Join(dir, name), "'", "''") + "'" }
		for how, from := range map[string]func(db *sql.DB){
			"parquet": func(db *sql.DB) {
				for _, name := range []string{"fits", "softmaxes", "processes"} {
					exec(t, db, "CREATE TABLE "+name+" AS FROM "+in(name+".parquet"))
				}
			},
			"parquet, views": func(db *sql.DB) { // the functions read what the scan gives
				for _, name := range []string{"fits", "softmaxes", "processes"} {
					exec(t, db, "CREATE VIEW "+name+" AS FROM "+in(name+".parquet"))
				}
			},
			"json": func(db *sql.DB) {
				exec(t, db, "CREATE TABLE fits AS FROM read_json("+in("fits.json.gz")+", maximum_sample_files = 1, sample_size = -1)")
				for _, name := range []string{"softmaxes", "processes"} { // JSON is only tried for the fits
					exec(t, db, "CREATE TABLE "+name+" AS FROM "+in(name+".parquet"))
				}
			},
			"database": func(db *sql.DB) {
				exec(t, db, "ATTACH '"+unpacked(t, filepath.Join(dir, "sql.duckdb.gz"))+"' AS golden (READ_ONLY)")
				exec(t, db, "USE golden")
			},
		} {
			db := open(t)
			db.SetMaxOpenConns(1) // USE is the connection's
			from(db)
			q, err := os.ReadFile(filepath.Join(dir, "..", "answers.sql"))
			if err != nil {
				t.Fatal(err)
			}
			rows, err := db.Query("SELECT name, what, coalesce(answer::VARCHAR, ''), coalesce(text, '') FROM (" + strings.TrimSuffix(strings.TrimSpace(string(q)), ";") + ")")
			if err != nil {
				t.Errorf("%s: %v", how, err)
				continue
			}
			seen := 0
			for rows.Next() {
				var name, what, numbers, text string
				if err := rows.Scan(&name, &what, &numbers, &text); err != nil {
					t.Fatal(err)
				}
				w, ok := want[name+" "+what]
				if err := kerneltest.SameAnswer(numbers+" "+text, w, 1e-9); err != nil || !ok {
					t.Errorf("layout %s as %s: %s of %s: %v", filepath.Base(dir), how, what, name, err)
				}
				seen++
			}
			if err := rows.Err(); err != nil {
				t.Errorf("%s: %v", how, err)
			} else if seen != len(want) {
				t.Errorf("%s: %d answers, want %d", how, seen, len(want))
			}
		}
	}
}

// unpacked is the path of an unpacked copy of a gzip file.
func unpacked(t *testing.T, path string) string {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	z, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(path), ".gz"))
	if err := os.WriteFile(out, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

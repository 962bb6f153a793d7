package udf_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/fitlayout"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// FITs of every layout, stored in every way, answer what they did when they were made.
func TestStoredFits(t *testing.T) {
	kerneltest.Slow(t)
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
				tol := 1e-9
				if strings.HasPrefix(name, "softmax") && what == "predict" {
					tol = 1e-7 // what the quadrature of three classes promises
				}
				if name == "adf_lowrank" && what == "update" {
					// The compression of each row chooses between directions that are nearly as
					// large: what moments differ by is 1e6 times that at the end of the rows,
					// rounding 7e-9.
					tol = 1e-5
				}
				if err := kerneltest.SameAnswer(numbers+" "+text, w, tol); err != nil || !ok {
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

// Columns that a FIT remembers go through all that takes and gives one, in every form;
// merged fits add up their rows.
func TestColumnsAreCarried(t *testing.T) {
	db := open(t)
	with := func(f string, n int) string {
		return fmt.Sprintf(`struct_update(%s, columns := [
			{name: 'Ünï', kind: 'number', n: %d::BIGINT, missing: 1::BIGINT, center: 0.5::DOUBLE, scale: 2.0::DOUBLE, variance: NULL::DOUBLE},
			{name: 's', kind: 'levels', n: %d::BIGINT, missing: 0::BIGINT, center: NULL::DOUBLE, scale: NULL::DOUBLE, variance: 1.0::DOUBLE}])`, f, n, n)
	}
	for _, form := range []string{"diagonal", "full"} {
		exec(t, db, `CREATE OR REPLACE TABLE plain AS SELECT bglm_adf(i % 3 = 0, {a: i / 10}, {covariance: '`+form+`', columns: 'any'} ORDER BY i) AS f FROM range(10) t(i)`)
		exec(t, db, "CREATE OR REPLACE TABLE one AS SELECT "+with("f", 10)+" AS f FROM plain")
		file := filepath.Join(t.TempDir(), "one.parquet")
		exec(t, db, "COPY one TO '"+file+"'")
		ten := "Ünï number 10 1 0.5 2.0 NULL|s levels 10 0 NULL NULL 1.0"
		twenty := "Ünï number 20 2 0.5 2.0 NULL|s levels 20 0 NULL NULL 1.0"
		for q, want := range map[string]string{
			"SELECT f FROM plain":                                                              "",
			"SELECT f FROM one":                                                                ten,
			"SELECT f FROM '" + file + "'":                                                     ten,
			"SELECT bglm_update(f, []) AS f FROM one":                                          ten,
			"SELECT bglm_merge(f) AS f FROM (FROM one UNION ALL FROM one)":                     twenty,
			"SELECT bglm_merge(f) AS f FROM (FROM one UNION ALL FROM plain)":                   ten,
			"SELECT bglm_merge(" + with("o.f", 15) + ", p.f) AS f FROM one o, one p, range(2)": "Ünï number 20 1 0.5 2.0 NULL|s levels 20 0 NULL NULL 1.0",
		} {
			got := value[sql.NullString](t, db, "SELECT array_to_string([concat_ws(' ', c.name, c.kind, c.n, c.missing, coalesce(c.center::VARCHAR, 'NULL'), coalesce(c.scale::VARCHAR, 'NULL'), coalesce(c.variance::VARCHAR, 'NULL')) FOR c IN f.columns], '|') FROM ("+q+")")
			if got.String != want {
				t.Errorf("%s, %s: %q, want %q", form, q, got.String, want)
			}
		}
	}
}

// NULLs in lists that are longer than a vector of DuckDB's, some of them without any.
func TestManyColumns(t *testing.T) {
	db := open(t)
	exec(t, db, `CREATE TABLE one AS SELECT i, struct_update(bglm_from_beliefs([]), columns := CASE WHEN i % 4 = 1 THEN NULL ELSE
		[{name: 'c' || k, kind: 'number', n: i, missing: 0::BIGINT, center: k::DOUBLE, scale: CASE WHEN k % 3 <> i % 5 THEN k + 0.5::DOUBLE END, variance: CASE WHEN i > 7000 THEN 1.5::DOUBLE END} FOR k IN range(i % 6)] END) AS f FROM range(10000) t(i)`)
	for _, call := range []string{"bglm_update(f, [])", "bglm_merge(f)"} {
		if n := value[int](t, db, "SELECT count(*) FROM one JOIN (SELECT i, "+call+" AS g FROM one GROUP BY i, f) USING (i) WHERE f.columns IS DISTINCT FROM g.columns AND (f.columns IS NOT NULL OR len(g.columns) > 0)"); n > 0 {
			t.Errorf("%s: %d of 10000 fits have other columns", call, n)
		}
	}
}

// FITs of a layout to come, and columns that cannot be, are refused.
func TestFormats(t *testing.T) {
	db := open(t)
	exec(t, db, `CREATE TABLE one AS SELECT bglm_adf(i % 3 = 0, {a: i / 10} ORDER BY i) AS f, bglm_gp(i % 3 = 0, [i / 10] ORDER BY i) AS g, bglm_softmax('k' || i % 2, {a: i / 10}) AS s FROM range(10) t(i)`)
	column := "{name: 'a', kind: 'number', n: 3, missing: 0, center: NULL::DOUBLE, scale: NULL::DOUBLE, variance: NULL::DOUBLE}"
	for call, want := range map[string]string{
		"bglm_predict(struct_update(f, format := 2), {a: 1})":                                                       "",
		"bglm_predict(struct_update(f, format := 1::BIGINT), {a: 1})":                                               "",
		"bglm_predict(struct_update(f, format := NULL::INTEGER), {a: 1})":                                           "",
		"bglm_predict(struct_update(f, format := 5), {a: 1})":                                                       "format = 5, a layout newer than the 4 that this version of bglm knows; update bglm to read it",
		"bglm_predict(struct_update(struct_update(f, format := 5), status := NULL::VARCHAR), {a: 1})":               "update bglm",
		"bglm_predict(struct_update(f, format := 0), {a: 1})":                                                       "allowed: 1 to 4",
		"bglm_beliefs(struct_update(s, format := 5))":                                                               "update bglm",
		"bglm_predict(struct_update(s, format := 5), {a: 1})":                                                       "update bglm",
		"bglm_predict(struct_update(g, format := 5), [1.0])":                                                        "update bglm",
		"bglm_merge(struct_update(f, format := 5))":                                                                 "update bglm",
		"bglm_predict(struct_update(f, columns := [" + column + "]), {a: 1})":                                       "",
		"bglm_predict(struct_update(f, columns := []), {a: 1})":                                                     "",
		"bglm_predict(struct_update(f, columns := 'x'), {a: 1})":                                                    "columns is text",
		"bglm_predict(struct_update(f, columns := [NULL]), {a: 1})":                                                 "entry 1 is NULL",
		"bglm_predict(struct_update(f, columns := [" + column + ", " + column + "]), {a: 1})":                       `"a" is there more than once`,
		"bglm_predict(struct_update(f, columns := [struct_update(" + column + ", kind := 'x')]), {a: 1})":           "allowed: 'number', 'levels'",
		"bglm_predict(struct_update(f, columns := [struct_update(" + column + ", missing := 4)]), {a: 1})":          "missing at most n",
		"bglm_predict(struct_update(f, columns := [struct_update(" + column + ", scale := -1)]), {a: 1})":           "scale >= 0",
		"bglm_predict(struct_update(f, columns := [struct_update(" + column + ", name := NULL::VARCHAR)]), {a: 1})": "NULL for its field columns.name",
	} {
		var v any
		err := db.QueryRow("SELECT " + call + " FROM one").Scan(&v)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", call, err, want)
		}
	}
	// The types of the functions are those of the list.
	for fit, want := range map[string]string{"f": fitlayout.SQL(kernels.FitFormat, false), "s": fitlayout.SQL(kernels.FitFormat, true)} {
		if !value[bool](t, db, "SELECT typeof("+fit+") = typeof(NULL::"+want+") FROM one") {
			t.Errorf("the type of %s is not %s", fit, want)
		}
	}
}

// unpacked is the path of an unpacked copy of a gzip file.
func unpacked(t *testing.T, path string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(path), ".gz"))
	if err := os.WriteFile(out, kerneltest.Gunzip(t, path), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

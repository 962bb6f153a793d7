package udf_test

import (
	"database/sql"
	"fmt"
	"math"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// hostileLevels are names that SQL has to quote.
var hostileLevels = []string{"a", "O'Hare", `back\slash`, `"quoted"`, "", "größe ✓", "'); DROP TABLE t; --", "new\nline", "a`b", "%s", "$1", "\\'"}

// exported are fits of the table t, each a query; a few have columns of names that need quotes.
var exported = []struct{ name, fit, x string }{
	{"logit, full", `bglm_laplace(y, x)`, `{n: n, "we""ird 'name'": w, g: g, flag: flag, day: day}`},
	{"logit, without NULLs", `bglm_laplace(y, x) FILTER (id % 7 <> 3 AND g IS NOT NULL AND n IS NOT NULL)`, `{n: n, g: g}`},
	{"probit, arrowhead", `bglm_adf(y, x, {link: 'probit'} ORDER BY id)`, `{n: n, "we""ird 'name'": w, g: g, flag: flag}`},
	{"logit, arrowhead without block numbers", `bglm_adf(y, x ORDER BY id)`, `{g: g}`},
	{"cloglog, diagonal", `bglm_adf(y, x, {link: 'cloglog', covariance: 'diagonal', standardize: false} ORDER BY id)`, `{n: n, g: g}`},
	{"poisson, low rank", `bglm_lowrank(c, x, {family: 'poisson', rank: 3})`, `{n: n, w: w, g: g}`},
	{"gaussian", `bglm_laplace(w, x, {family: 'gaussian'})`, `{n: n, g: g}`},
	{"absent", `bglm_laplace(y, x, {missing: 'absent'})`, `{n: n, g: g}`},
	{"known weight, no intercept", `bglm_laplace(y, x, {intercept: false, prior_variance: {n: 0, g: 2}})`, `{n: n, g: g}`},
	{"any columns", `bglm_laplace(y, x, {columns: 'any'})`, `{n: n, g: g}`},
	{"list", `bglm_laplace(y, x)`, `[n, w]`},
	{"map beside columns", `bglm_laplace(y, x)`, `{n: n, m: MAP {'w': w}, g: g}`},
	{"foretold", `struct_update(bglm_laplace(y, x, {prior_variance: 2.0}), learnt := [{name: 'foretold', mean: 0.7::DOUBLE, sd: 0.3::DOUBLE}])`, `{n: n, g: g}`},
	{"correlated, gaussian", `bglm_laplace(w, x, {family: 'gaussian', correlated: [['g', 'h']]})`, `{g: g, h: h}`},
	{"robust", `(SELECT bglm_robust(f, y, {n: n, g: g}) FROM t, (SELECT bglm_laplace(y, {n: n, g: g}) AS f FROM t))`, ``},
}

func makeRows(t *testing.T, db *sql.DB) {
	t.Helper()
	do := func(q string, args ...any) {
		if _, err := db.Exec(q, args...); err != nil {
			t.Fatal(err, q)
		}
	}
	do(`CREATE TABLE t(id INTEGER, n DOUBLE, "we""ird 'name'" INTEGER, w INTEGER, g VARCHAR, flag BOOLEAN, day VARCHAR, y BOOLEAN, c INTEGER, "1" DOUBLE, "2" DOUBLE, h VARCHAR)`)
	for i := range 90 {
		var n, g, flag, h any = math.Sin(float64(7*i)) * 2, hostileLevels[i%(len(hostileLevels)-2)], i%3 == 0, hostileLevels[i*i%(len(hostileLevels)-2)]
		if i%11 == 5 {
			n = nil
		}
		if i%13 == 4 {
			g = nil
		}
		if i%39 == 4 {
			h = nil
		}
		if i%17 == 2 {
			flag = nil
		}
		do(`INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, i, n, i*i%23, i*i%23, g, flag, fmt.Sprintf("2024-01-%02d", 1+i%3), (i*i%7) < 3, i*i%9, n, i*i%23, h)
	}
}

// score are rows that include levels never seen, and what lacks values.
func scoreRows(t *testing.T, db *sql.DB) (insert string) {
	t.Helper()
	if _, err := db.Exec(`CREATE TABLE score AS SELECT id + 1000 AS id, n, "we""ird 'name'", w, CASE WHEN id % 5 = 2 THEN 'never ' || id ELSE g END AS g, flag, day, "1", "2", CASE WHEN id % 10 = 2 THEN 'never ' || id ELSE h END AS h FROM t WHERE id < 40`); err != nil {
		t.Fatal(err)
	}
	for _, l := range hostileLevels[len(hostileLevels)-2:] {
		if _, err := db.Exec(`INSERT INTO score VALUES (?, 0.5, 3, 3, ?, true, '2024-01-01', 0.5, 3, ?)`, 2000+len(l), l, l); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	rows, err := db.Query(`SELECT 'INSERT INTO score VALUES (' || id || ',' || coalesce(printf('%.17e', n), 'NULL') || ',' || w || ',' || w || ',' || coalesce('''' || replace(g, '''', '''''') || '''', 'NULL') || ',' || coalesce(flag::INT::VARCHAR, 'NULL') || ',''' || day || ''',' || coalesce(printf('%.17e', "1"), 'NULL') || ',' || "2" || ',' || coalesce('''' || replace(h, '''', '''''') || '''', 'NULL') || ');' FROM score`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, s)
	}
	return `CREATE TABLE score(id INTEGER, n DOUBLE, "we""ird 'name'" INTEGER, w INTEGER, g TEXT, flag BOOLEAN, day TEXT, "1" DOUBLE, "2" DOUBLE, h TEXT);` + "\n" + strings.Join(lines, "\n") + "\n"
}

// covers: sql opt.table opt.keep opt.form
//
// The queries of bglm_sql give, in a DuckDB that does not know bglm and in SQLite, what
// bglm_predict gives: 1e-12 relative to the size of the predictor, 1e-8 for the sums over
// nodes. In all forms of covariance, links and ways of writing; with NULLs, levels never
// seen and names full of quotes.
func TestSQLScoresElsewhere(t *testing.T) {
	kerneltest.Slow(t)
	db, plain := open(t), func() *sql.DB {
		db, err := sql.Open("duckdb", "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		db.SetMaxOpenConns(1)
		return db
	}()
	db.SetMaxOpenConns(1)
	makeRows(t, db)
	insert := scoreRows(t, db)
	if _, err := plain.Exec(insert); err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Exec("ALTER TABLE score ALTER flag TYPE BOOLEAN"); err != nil {
		t.Fatal(err)
	}
	sqlite, lite := osexec.LookPath("sqlite3")
	if lite != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(lite)
		}
		t.Log("SQLite is not checked: no sqlite3")
	}
	for k, c := range exported {
		x, fit := c.x, "SELECT "+strings.Replace(c.fit, "x", c.x, 1)+" AS f FROM t"
		if x == "" {
			x, fit = "{n: n, g: g}", "SELECT "+c.fit+" AS f"
		}
		if _, err := db.Exec("CREATE OR REPLACE TABLE fit AS " + fit); err != nil {
			t.Fatal(c.name, err)
		}
		for _, form := range []string{"query", "join"} {
			for _, kind := range []string{"exact", "mackay", "plugin"} {
				if k > 0 && kind == "mackay" {
					continue // written in the same way for all
				}
				want := fetch(t, db, fmt.Sprintf(`SELECT id, d.eta_mean, d.eta_variance, bglm_predict(f, %[1]s, '%[2]s'), CASE f.link WHEN 'log' THEN exp(d.eta_mean - z * sqrt(d.eta_variance)) WHEN 'identity' THEN d.eta_mean - z * sqrt(d.eta_variance) ELSE d.lower END,
				 CASE f.link WHEN 'log' THEN exp(d.eta_mean + z * sqrt(d.eta_variance)) WHEN 'identity' THEN d.eta_mean + z * sqrt(d.eta_variance) ELSE d.upper END FROM (SELECT *, bglm_predict_dist(f, %[1]s, 0.9) AS d, 1.6448536269514722 AS z FROM score, fit) ORDER BY id`, x, kind))
				text := func(dialect string) string {
					var s string
					if err := db.QueryRow(`SELECT bglm_sql(f, ?, {table_: 'score', keep: 'id', prediction: ?, level: 0.9, form: ?}) FROM fit`, dialect, kind, form).Scan(&s); err != nil {
						t.Fatal(c.name, err)
					}
					return s
				}
				what := fmt.Sprintf("%s, %s, %s", c.name, form, kind)
				nodes := kind == "exact" || kind == "mackay" && strings.Contains(c.name, "cloglog")
				for _, closed := range []string{"probit", "poisson", "gaussian"} {
					nodes = nodes && !strings.Contains(c.name, closed)
				}
				compareRows(t, what+", DuckDB", fetch(t, plain, "SELECT id, eta_mean, eta_variance, prediction, lower, upper FROM ("+text("duckdb")+") ORDER BY id"), want, nodes)
				if lite != nil {
					continue
				}
				out := run(t, sqlite, insert+".mode list\n.separator \"|\"\nSELECT id, printf('%.17g', eta_mean), printf('%.17g', eta_variance), printf('%.17g', prediction), printf('%.17g', lower), printf('%.17g', upper) FROM ("+text("sqlite")+") ORDER BY id;\n")
				compareRows(t, what+", SQLite", out, want, nodes)
			}
		}
	}
	var s string
	if err := db.QueryRow(`SELECT bglm_sql(f, 'oracle') FROM fit`).Scan(&s); err == nil || !strings.Contains(err.Error(), "dialect: found 'oracle'; allowed: duckdb, sqlite") {
		t.Error(err)
	}
	for _, d := range []string{"postgres", "bigquery", "snowflake"} { // no such database is here: they are written
		if err := db.QueryRow(`SELECT bglm_sql(f, ?) FROM fit`, d).Scan(&s); err != nil || len(s) < 500 {
			t.Error(d, err, len(s))
		}
	}
}

// covers: sql.classes
//
// The queries of fits of classes give the probabilities of bglm_predict, in a DuckDB that does
// not know bglm and in SQLite, in all forms of covariance, with or without a reference.
func TestClassSQLScoresElsewhere(t *testing.T) {
	kerneltest.Slow(t)
	db := open(t)
	plain, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { plain.Close() })
	db.SetMaxOpenConns(1)
	plain.SetMaxOpenConns(1)
	makeRows(t, db)
	insert := scoreRows(t, db)
	if _, err := plain.Exec(insert); err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Exec("ALTER TABLE score ALTER flag TYPE BOOLEAN"); err != nil {
		t.Fatal(err)
	}
	sqlite, lite := osexec.LookPath("sqlite3")
	if lite != nil && os.Getenv("CI") != "" {
		t.Fatal(lite)
	}
	const label = `['ü', 'a b', '"b' || chr(39)][1 + (id * id + id // 7) % 3]`
	const factors = `struct_update(f, learnt := [{name: 'foretold', mean: 0.7::DOUBLE, sd: 0.3::DOUBLE}])`
	for k, c := range []struct{ options, x, as string }{
		{"", `{n: n, "we""ird 'name'": w, g: g, flag: flag, day: day}`, "f"},
		{", {reference: 'a b'}", `{n: n, g: g}`, "f"},
		{", {hessian: 'diagonal'}", `{n: n, g: g}`, "f"},
		{", {hessian: 'lowrank', rank: 3}", `{n: n, w: w, g: g}`, "f"},
		{", {missing: 'absent', intercept: false}", `{n: n, g: g}`, "f"},
		{"", `[n, w]`, "f"},
		{"", `{n: n, g: g}`, factors},
	} {
		if _, err := db.Exec("CREATE OR REPLACE TABLE fit AS SELECT " + c.as + " AS f FROM (SELECT bglm_softmax(" + label + ", " + c.x + c.options + ") AS f FROM t)"); err != nil {
			t.Fatal(c, err)
		}
		for _, form := range []string{"query", "join"} {
			for _, kind := range []string{"mackay", "plugin"} {
				want := fetch(t, db, fmt.Sprintf(`SELECT id, p['"b' || chr(39)], p['a b'], p['ü'], 0, 0 FROM (SELECT id, bglm_predict(f, %s, '%s') AS p FROM score, fit) ORDER BY id`, c.x, kind))
				text := func(dialect string) string {
					var s string
					if err := db.QueryRow(`SELECT bglm_sql(f, ?, {table_: 'score', keep: 'id', prediction: ?, form: ?}) FROM fit`, dialect, kind, form).Scan(&s); err != nil {
						t.Fatal(c, err)
					}
					return s
				}
				what := fmt.Sprintf("%d, %s, %s", k, form, kind)
				compareRows(t, what+", DuckDB", fetch(t, plain, `SELECT id, "prediction_""b'", "prediction_a b", "prediction_ü", 0, 0 FROM (`+text("duckdb")+`) ORDER BY id`), want, false)
				if lite == nil {
					compareRows(t, what+", SQLite", run(t, sqlite, insert+".mode list\n.separator \"|\"\n"+
						`SELECT id, printf('%.17g', "prediction_""b'"), printf('%.17g', "prediction_a b"), printf('%.17g', "prediction_ü"), 0, 0 FROM (`+text("sqlite")+") ORDER BY id;\n"), want, false)
				}
			}
		}
		var plugin, moderated float64
		if err := db.QueryRow(fmt.Sprintf(`SELECT max(list_max([abs(p[k] - e[k]) FOR k IN map_keys(e)])), max(list_max([abs(m[k] - e[k]) FOR k IN map_keys(e)]))
			FROM (SELECT bglm_predict(f, %[1]s) AS e, bglm_predict(f, %[1]s, 'plugin') AS p, bglm_predict(f, %[1]s, 'mackay') AS m FROM score, fit)`, c.x)).Scan(&plugin, &moderated); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s %s: from the weights integrated out 'plugin' is at most %.3f, 'mackay' %.3f", c.options, c.x, plugin, moderated)
	}
	var s string
	for q, want := range map[string]string{
		"SELECT bglm_sql(f, 'duckdb', {prediction: 'exact'}) FROM fit":                                                        "allowed: 'plugin' or 'mackay'",
		"SELECT bglm_sql(bglm_softmax('a', {a: 1}, {hash_bits: 3}), 'duckdb')":                                                "hashed features",
		"SELECT bglm_sql(bglm_softmax('a' || chr(0), {a: 1}), 'duckdb')":                                                      "zero byte",
		"SELECT bglm_sql(bglm_softmax(chr(97 + i::INT), {n: 1, g: 'x', 'n:g': {n: 1, g: 'x'}}), 'duckdb') FROM range(3) t(i)": "no one column",
	} {
		if err := db.QueryRow(q).Scan(&s); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(q, err)
		}
	}
	for _, d := range []string{"postgres", "bigquery", "snowflake"} {
		if err := db.QueryRow(`SELECT bglm_sql(f, ?) FROM fit`, d).Scan(&s); err != nil || len(s) < 300 {
			t.Error(d, err, len(s))
		}
	}
	// One class alone.
	if err := db.QueryRow("SELECT bglm_sql(bglm_softmax('only', {n: 1}), 'duckdb', {table_: 'score', keep: 'id'})").Scan(&s); err != nil {
		t.Fatal(err)
	}
	if one := fetch(t, plain, `SELECT id, prediction_only, 0, 0, 0, 0 FROM (`+s+`)`); one[0][1] != 1 {
		t.Error(one[0])
	}
}

// The normal distribution of the queries is right to 5e-13 everywhere, relative to it in the
// lower tail.
func TestPhiElsewhere(t *testing.T) {
	db := open(t)
	var text string
	if err := db.QueryRow(`SELECT bglm_sql(bglm_from_beliefs([{feature: 'x', mean: 1.0, variance: 0.0}], {link: 'probit', intercept: false}), 'duckdb', {"table": 'grid'})`).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var worst float64
	if err := db.QueryRow(`WITH grid AS (SELECT (i - 3700) / 100.0::DOUBLE AS x FROM range(7401) t(i)), f AS (SELECT bglm_from_beliefs([{feature: 'x', mean: 1.0, variance: 0.0}], {link: 'probit', intercept: false}) AS f)
		SELECT max(abs(prediction / bglm_predict(f, {x: x}) - 1)) FROM (` + text + `), f`).Scan(&worst); err != nil {
		t.Fatal(err)
	}
	if !(worst < 5e-13) { // far out, where e^(-x²/2) multiplies a rounding of x²/2, up to 684
		t.Error(worst)
	}
	t.Log(worst)
}

func fetch(t *testing.T, db *sql.DB, q string) (out [][]float64) {
	t.Helper()
	rows, err := db.Query(q)
	if err != nil {
		t.Fatalf("%v\n%.3000s", err, q)
	}
	defer rows.Close()
	for rows.Next() {
		r := make([]float64, 6)
		if err := rows.Scan(&r[0], &r[1], &r[2], &r[3], &r[4], &r[5]); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func run(t *testing.T, sqlite, script string) (out [][]float64) {
	t.Helper()
	cmd := osexec.Command(sqlite, "-bail", ":memory:")
	cmd.Stdin = strings.NewReader(script)
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, b)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		var r []float64
		for _, cell := range strings.Split(line, "|") {
			x, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				t.Fatalf("%v\n%.2000s", err, b)
			}
			r = append(r, x)
		}
		out = append(out, r)
	}
	return out
}

// A column of lists is an error of the query, not the text of a level that the fit lacks; levels
// of every other type are read.
func TestSQLRefusesLists(t *testing.T) {
	db := open(t)
	if _, err := db.Exec(`CREATE TABLE l AS SELECT i % 3 = 0 AS y, CASE i % 3 WHEN 0 THEN ['a'] WHEN 1 THEN ['a', 'b'] ELSE [] END AS tags, ('k' || i % 2)::ENUM('k0', 'k1') AS e, DATE '2024-01-01' + (i % 2)::INTEGER AS d, i % 2 = 0 AS b FROM range(30) r(i)`); err != nil {
		t.Fatal(err)
	}
	write := func(x, form string) (text string) {
		t.Helper()
		if err := db.QueryRow(`SELECT bglm_sql(bglm_laplace(y, `+x+`), 'duckdb', {table_: 'l', form: ?}) FROM l`, form).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, form := range []string{"query", "join"} {
		if _, err := db.Exec(write(`{tags: tags}`, form)); err == nil || !strings.Contains(err.Error(), "Cannot concatenate") {
			t.Errorf("%s: %v", form, err)
		}
		var worst float64
		x := `{e: e, d: d, b: b}`
		if err := db.QueryRow(`SELECT max(abs(prediction - bglm_predict(f, ` + x + `))) FROM (` + write(x, form) + `), (SELECT bglm_laplace(y, ` + x + `) AS f FROM l)`).Scan(&worst); err != nil || worst > 1e-9 {
			t.Errorf("%s: %v, %v", form, worst, err)
		}
	}
}

func compareRows(t *testing.T, what string, got, want [][]float64, nodes bool) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		for k, x := range w {
			tol := 1e-12 * (1 + math.Abs(x))
			if k == 3 && nodes {
				tol = 1e-8
			}
			if d := math.Abs(got[i][k] - x); !(d <= tol) {
				t.Errorf("%s: row %v, column %d: %.17g, want %.17g", what, w[0], k, got[i][k], x)
				return
			}
		}
	}
}

// covers: sql
//
// Where a number is missing in a product that was learnt by numbers that are centred, the query
// takes its mean there, as bglm_predict does: in a table the product is a column of its own.
func TestSQLOfCentredProducts(t *testing.T) {
	db := open(t)
	db.SetMaxOpenConns(1)
	for _, text := range []string{
		`CREATE TABLE d AS SELECT 2000 + i * 7919 % 101 / 25.0 AS u, sin(i * 1.7) + 0.5 AS z, sin(i * 12.3) AS e FROM range(90) t(i)`,
		`CREATE TABLE fit AS SELECT bglm_laplace(0.8 * (u - 2001) * z + 0.3 * e, {u: u, z: z, "u:z": {u: u, z: z}}, {family: 'gaussian', standardize: true}) AS f FROM d`,
		`CREATE TABLE score AS SELECT row_number() OVER () AS id, u, z, u * z AS "u:z" FROM (VALUES (2001.5, 1.0), (NULL, 1.0), (NULL, -0.5), (2003, NULL), (NULL, NULL)) v(u, z)`,
	} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	want := fetch(t, db, `SELECT id, d.eta_mean, d.eta_variance, 0, 0, 0 FROM (SELECT id, bglm_predict_dist(f, {u: u, z: z, "u:z": {u: u, z: z}}) AS d FROM score, fit) ORDER BY id`)
	for _, form := range []string{"query", "join"} {
		var query string
		if err := db.QueryRow(`SELECT bglm_sql(f, 'duckdb', {table_: 'score', keep: 'id', form: ?}) FROM fit`, form).Scan(&query); err != nil {
			t.Fatal(err)
		}
		got := fetch(t, db, "SELECT id, eta_mean, eta_variance, 0, 0, 0 FROM ("+query+") ORDER BY id")
		for i, w := range want {
			for k := 1; k < 3; k++ {
				if !(math.Abs(got[i][k]-w[k]) <= 1e-9*(1+math.Abs(w[k]))) || math.Abs(w[k]) > 100 {
					t.Errorf("%s: row %v is %v, want %v", form, w[0], got[i], w)
				}
			}
		}
	}
}

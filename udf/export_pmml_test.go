package udf_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// crossed are fits with interactions, whose parts the fit has by themselves.
var crossed = []struct{ name, fit, x string }{
	{"interactions", `bglm_laplace(y, x)`, `{n: n, w: w, g: g, flag: flag, "n:g": {n: n, g: g}, "g:flag": {g: g, flag: flag}, "n:w": {n: n, w: w}, "n:g:flag": {n: n, g: g, flag: flag}}`},
	{"interactions, arrowhead", `bglm_adf(y, x, {link: 'probit'} ORDER BY id)`, `{n: n, w: w, g: g, flag: flag, "n:g": {n: n, g: g}, "g:flag": {g: g, flag: flag}, "n:w": {n: n, w: w}}`},
	{"interactions, prior mean", `bglm_laplace(c, x, {family: 'poisson', prior_mean: 0.25, prior_variance: 1.0})`, `{n: n, g: g, day: day, "n:g": {n: n, g: g}, "g:day": {g: g, day: day}}`},
	{"an interaction of its own", `bglm_laplace(y, x)`, `{g: g, "both": {g: g, day: day}}`},
	{"interactions of numbers that were centred", `bglm_laplace(y, x, {standardize: true}) FILTER (n IS NOT NULL AND g IS NOT NULL)`, `{n: n, w: w, g: g, "n:g": {n: n, g: g}, "n:w": {n: n, w: w}}`},
	{"names of derived fields", `bglm_laplace(y, x)`, `{n: n, "n IS NULL ": w, "n, its mean where missing": w, y: n, probability: w}`},
}

// pmmlReader is the interpreter of the independent reader and a database with rows to score;
// without the one, which CI has, the test is skipped.
func pmmlReader(t *testing.T) (python string, db *sql.DB) {
	t.Helper()
	python, err := osexec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no python3")
	}
	db = open(t)
	db.SetMaxOpenConns(1)
	makeRows(t, db)
	scoreRows(t, db)
	return python, db
}

// covers: pmml
//
// The documents of bglm_pmml are valid and give, by a reader written in another language from
// the specification alone, what bglm_predict gives with 'plugin': 1e-12 relative. In all forms
// of covariance, links, with NULLs, levels never seen, interactions and names full of quotes.
func TestPMMLScoresElsewhere(t *testing.T) {
	kerneltest.Slow(t)
	python, db := pmmlReader(t)
	for _, c := range append(exported[:len(exported):len(exported)], crossed...) {
		x, fit := c.x, "SELECT "+strings.Replace(c.fit, "x", c.x, 1)+" AS f FROM t"
		if x == "" {
			x, fit = "{n: n, g: g}", "SELECT "+c.fit+" AS f"
		}
		if _, err := db.Exec("CREATE OR REPLACE TABLE fit AS " + fit); err != nil {
			t.Fatal(c.name, err)
		}
		var doc string
		if err := db.QueryRow("SELECT bglm_pmml(f, 'late') FROM fit").Scan(&doc); err != nil {
			t.Fatal(c.name, err)
		}
		var want []float64
		rows := pmmlRows(t, db, x, &want)
		got, err := pmmlScores(t, python, doc, rows)
		if err != nil {
			t.Errorf("%s: %v\n%.3000s", c.name, err, doc)
			continue
		}
		worst := 0.0
		for i, w := range want {
			worst = math.Max(worst, math.Abs(got[i]-w)/math.Abs(w))
		}
		if !(worst <= 1e-12) || len(got) != len(want) || len(want) < 40 {
			t.Errorf("%s: %d rows, want %d; up to %.1e off\n%.3000s", c.name, len(got), len(want), worst, doc)
		}
		t.Logf("%s: %.1e", c.name, worst)
	}
}

// covers: pmml.classes
//
// The documents of fits of classes give, by the same reader, what bglm_predict gives with
// 'plugin': 1e-12 relative, for each class. In all forms of covariance, two classes and more,
// with NULLs, levels never seen, interactions and classes full of quotes.
func TestPMMLOfClassesScoresElsewhere(t *testing.T) {
	kerneltest.Slow(t)
	python, db := pmmlReader(t)
	const three, two = `['ü', 'a <b>', '"b" & ' || chr(39) || chr(10)][1 + (id * id + id // 7) % 3]`, `id % 7 < 3`
	for _, c := range []struct{ label, options, x string }{
		{three, "", `{n: n, "we""ird 'name'": w, g: g, flag: flag, day: day}`},
		{three, ", {reference: 'ü'}", `{n: n, g: g}`},
		{three, ", {hessian: 'diagonal'}", `{n: n, g: g}`},
		{three, ", {hessian: 'lowrank', rank: 3}", `{n: n, w: w, g: g}`},
		{three, ", {missing: 'absent', intercept: false}", `{n: n, g: g}`},
		{three, "", `{n: n, w: w, g: g, flag: flag, "n:g": {n: n, g: g}, "g:flag": {g: g, flag: flag}, "n:w": {n: n, w: w}}`},
		{three, "", `{n: n, "probability(ü)": w, y: n}`},
		{three, "", `[n, w]`},
		{two, "", `{n: n, g: g}`},
		{two, ", {reference: 'false'}", `{n: n, w: w, g: g}`},
		{"id % 11", ", {standardize: false}", `{n: n, g: g}`},
	} {
		if _, err := db.Exec("CREATE OR REPLACE TABLE fit AS SELECT bglm_softmax(" + c.label + ", " + c.x + c.options + ") AS f FROM t"); err != nil {
			t.Fatal(c, err)
		}
		var doc string
		if err := db.QueryRow("SELECT bglm_pmml(f) FROM fit").Scan(&doc); err != nil {
			t.Fatal(c, err)
		}
		var got, want []map[string]float64
		rows := pmmlRows(t, db, c.x, &want)
		if err := pmmlRead(t, python, doc, rows, &got); err != nil {
			t.Errorf("%v: %v\n%.3000s", c, err, doc)
			continue
		}
		worst := 0.0
		for i, w := range want {
			for class, p := range w {
				name := "probability(" + class + ")"
				if strings.Contains(c.x, name) {
					name += "'" // for the column is called so
				}
				g, ok := got[i][name]
				if worst = math.Max(worst, math.Abs(g-p)/p); !ok {
					t.Fatalf("%v: no output %q among %v", c, name, got[i])
				}
			}
			if len(got[i]) != len(w) {
				t.Fatalf("%v: %d outputs for %d classes", c, len(got[i]), len(w))
			}
		}
		if !(worst <= 1e-12) || len(got) != len(want) || len(want) < 40 {
			t.Errorf("%v: %d rows, want %d; up to %.1e off\n%.3000s", c, len(got), len(want), worst, doc)
		}
		t.Logf("%v: %.1e", c, worst)
	}
}

// The reader refuses what the schema does not have.
func TestPMMLReader(t *testing.T) {
	kerneltest.Slow(t)
	python, err := osexec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	db := open(t)
	var classes string
	if err := db.QueryRow("SELECT bglm_pmml(bglm_softmax(i % 3, {x: i})) FROM range(9) t(i)").Scan(&classes); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{`<Value value="2"/>`: ``, `targetCategory="2"`: `targetCategory="1"`, `value="2"/>
</Output>`: `value="3"/>
</Output>`, `"softmax"`: `"logit"`} {
		if _, err := pmmlScores(t, python, strings.Replace(classes, from, to, 1), nil); err == nil || !strings.Contains(classes, from) {
			t.Errorf("with %s for %s it is read:\n%s", to, from, classes)
		}
	}
	var doc string
	if err := db.QueryRow("SELECT bglm_pmml(bglm_from_beliefs([{feature: 'x', mean: 1.0, variance: 0.25}]))").Scan(&doc); err != nil {
		t.Fatal(err)
	}
	if got, err := pmmlScores(t, python, doc, []map[string]any{{"x": 0.5}}); err != nil || got[0] != 1/(1+math.Exp(-0.5)) {
		t.Error(got, err)
	}
	for from, to := range map[string]string{`usageType="target"`: `usageType="goal"`, `<Header`: `<Heading/><Header`, ` optype="continuous"`: ``, `coefficient="1"`: `coefficient="one"`,
		`PMML-4_4`: `PMML-3_0`, `numberOfFields="2"`: `numberOfFields="3"`, `<FieldRef field="x"`: `<FieldRef field="z"`, `</MiningSchema>`: `</MiningSchema><RegressionTable intercept="1"/>`} {
		if !strings.Contains(doc, from) {
			t.Fatal(from)
		}
		if _, err := pmmlScores(t, python, strings.ReplaceAll(doc, from, to), nil); err == nil {
			t.Errorf("with %s for %s it is read", to, from)
		}
	}
}

// What cannot be written is an error; SQL refuses interactions of levels and numbers, too.
func TestExportErrors(t *testing.T) {
	db := open(t)
	const d = `(SELECT i % 3 = 0 AS y, i % 5 AS n, 'g' || i % 2 AS g, chr((1 + i % 2)::INT) AS c FROM range(20) t(i))`
	for _, e := range []struct{ query, want string }{
		{`SELECT bglm_pmml(f) FROM (SELECT bglm_softmax('only', {n: n}) AS f FROM ` + d + `)`, `the class "only" alone`},
		{`SELECT bglm_pmml(f) FROM (SELECT bglm_softmax(c, {n: n}) AS f FROM ` + d + `)`, "a character that XML cannot write"},
		{`SELECT bglm_pmml(f) FROM (SELECT bglm_softmax(g, {n: n}, {hash_bits: 3}) AS f FROM ` + d + `)`, "hashed features"},
		{`SELECT bglm_pmml(f) FROM (SELECT bglm_softmax(c, {g: g, "n:g": {n: n, g: g}}) AS f FROM ` + d + `)`, `interaction "n:g" of levels and numbers, but not its columns`},
		{`SELECT bglm_pmml(f) FROM (SELECT bglm_adf(y, {n: n}, {hash_bits: 3}) AS f FROM ` + d + `)`, "hashed features"},
		{`SELECT bglm_pmml(f) FROM (SELECT bglm_laplace(y, {c: c}) AS f FROM ` + d + `)`, "a character that XML cannot write"},
		{`SELECT bglm_pmml(f) FROM (SELECT bglm_laplace(y, {g: g, "n:g": {n: n, g: g}}) AS f FROM ` + d + `)`, `interaction "n:g" of levels and numbers, but not its columns`},
		{`SELECT bglm_pmml(f, 3) FROM (SELECT bglm_laplace(y, {n: n}) AS f FROM ` + d + `)`, "response is INTEGER; allowed: VARCHAR"},
		{`SELECT bglm_sql(f, 'duckdb') FROM (SELECT bglm_laplace(y, {n: n, g: g, "n:g": {n: n, g: g}}) AS f FROM ` + d + `)`, `interaction "n:g" of levels and numbers, which is no one column`},
		{`SELECT bglm_sql(f, 'duckdb') FROM (SELECT bglm_laplace(y, {"n:g": {n: n, g: g}}) AS f FROM ` + d + `)`, `interaction "n:g" of levels and numbers`},
		{`SELECT bglm_sql(f, 'duckdb') FROM (SELECT bglm_laplace(y, {Prediction: n, g: g}) AS f FROM ` + d + `)`, `option keep: found 'Prediction'; is a column of the result itself`},
		{`SELECT bglm_sql(f, 'snowflake', {keep: 'i, lower'}) FROM (SELECT bglm_laplace(y, {n: n, g: g}) AS f FROM ` + d + `)`, `option keep: found 'lower'; is a column of the result itself`},
		{`SELECT bglm_sql(f, 'postgres', {keep: 'bglm_m'}) FROM (SELECT bglm_laplace(y, {n: n, g: g}) AS f FROM ` + d + `)`, `option keep: found 'bglm_m'; is a name inside the query`},
		{`SELECT bglm_sql(f, 'sqlite', {keep: 'prediction_g1'}) FROM (SELECT bglm_softmax(g, {n: n}) AS f FROM ` + d + `)`, `option keep: found 'prediction_g1'; is a column of the result itself`},
		{`SELECT bglm_sql(f, 'duckdb') FROM (SELECT bglm_softmax(CASE WHEN y THEN 'yes' ELSE 'Yes' END, {n: n}) AS f FROM ` + d + `)`, `the classes "Yes" and "yes", whose columns prediction_Yes and prediction_yes are one in duckdb`},
		{`SELECT bglm_sql(f, 'bigquery') FROM (SELECT bglm_laplace(y, MAP {'n': n, 'N': n * n}) AS f FROM ` + d + `)`, `the columns "N" and "n", which are one column in bigquery`},
	} {
		var s string
		if err := db.QueryRow(e.query).Scan(&s); err == nil || !strings.Contains(err.Error(), e.want) {
			t.Errorf("%s\n%v, want %s", e.query, err, e.want)
		}
	}
	// Names that differ in case are two to PostgreSQL and Snowflake.
	for _, query := range []string{
		`SELECT bglm_sql(f, 'postgres', {keep: 'Prediction'}) FROM (SELECT bglm_laplace(y, MAP {'n': n, 'N': n * n}) AS f FROM ` + d + `)`,
		`SELECT bglm_sql(f, 'snowflake', {keep: 'bglm_score'}) FROM (SELECT bglm_softmax(CASE WHEN y THEN 'yes' ELSE 'Yes' END, {n: n}) AS f FROM ` + d + `)`,
	} {
		var s string
		if err := db.QueryRow(query).Scan(&s); err != nil {
			t.Errorf("%s\n%v", query, err)
		}
	}
}

// pmmlRows are the rows of score as a reader sees them; want is a list for what bglm_predict
// says.
func pmmlRows(t *testing.T, db *sql.DB, x string, want any) (rows []map[string]any) {
	t.Helper()
	r, err := db.Query(fmt.Sprintf(`SELECT to_json(bglm_predict(f, %s, 'plugin'))::VARCHAR, n, w, g, flag::VARCHAR, day, "1", "2", h FROM score, fit ORDER BY id`, x))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var said []string
	for r.Next() {
		var p string
		var n, one, two sql.NullFloat64
		var w float64
		var g, flag, day, h sql.NullString
		if err := r.Scan(&p, &n, &w, &g, &flag, &day, &one, &two, &h); err != nil {
			t.Fatal(err)
		}
		row := map[string]any{"w": w, `we"ird 'name'`: w, "n IS NULL ": w, "n, its mean where missing": w, "probability": w, "probability(ü)": w}
		for name, v := range map[string]sql.NullFloat64{"n": n, "1": one, "2": two, "y": n} {
			if row[name] = nil; v.Valid {
				row[name] = v.Float64
			}
		}
		for name, v := range map[string]sql.NullString{"g": g, "flag": flag, "day": day, "h": h} {
			if row[name] = nil; v.Valid {
				row[name] = v.String
			}
		}
		if row["both"] = nil; g.Valid {
			row["both"] = strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(g.String) + ":" + day.String
		}
		rows, said = append(rows, row), append(said, p)
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte("["+strings.Join(said, ",")+"]"), want); err != nil {
		t.Fatal(err)
	}
	return rows
}

// pmmlScores runs the reader on a document of one response.
func pmmlScores(t *testing.T, python, doc string, rows []map[string]any) (out []float64, err error) {
	t.Helper()
	return out, pmmlRead(t, python, doc, rows, &out)
}

// pmmlRead runs the reader; out is what it prints.
func pmmlRead(t *testing.T, python, doc string, rows []map[string]any, out any) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fit.pmml")
	if err := os.WriteFile(path, []byte(doc), 0o644); err != nil {
		t.Fatal(err)
	}
	in, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(python, "testdata/pmml/score.py", path)
	cmd.Stdin = bytes.NewReader(in)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	b, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w: %s", err, errs.String())
	}
	return json.Unmarshal(b, out)
}

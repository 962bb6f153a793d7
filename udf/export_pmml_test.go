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
)

// crossed are fits with interactions, whose parts the fit has by themselves.
var crossed = []struct{ name, fit, x string }{
	{"interactions", `bglm_laplace(y, x)`, `{n: n, w: w, g: g, flag: flag, "n:g": {n: n, g: g}, "g:flag": {g: g, flag: flag}, "n:w": {n: n, w: w}, "n:g:flag": {n: n, g: g, flag: flag}}`},
	{"interactions, arrowhead", `bglm_adf(y, x, {link: 'probit'} ORDER BY id)`, `{n: n, w: w, g: g, flag: flag, "n:g": {n: n, g: g}, "g:flag": {g: g, flag: flag}, "n:w": {n: n, w: w}}`},
	{"interactions, prior mean", `bglm_laplace(c, x, {family: 'poisson', prior_mean: 0.25, prior_variance: 1.0})`, `{n: n, g: g, day: day, "n:g": {n: n, g: g}, "g:day": {g: g, day: day}}`},
	{"an interaction of its own", `bglm_laplace(y, x)`, `{g: g, "both": {g: g, day: day}}`},
	{"names of derived fields", `bglm_laplace(y, x)`, `{n: n, "n IS NULL ": w, "n, its mean where missing": w, y: n, probability: w}`},
}

// covers: pmml
//
// The documents of bglm_pmml are valid and give, by a reader written in another language from
// the specification alone, what bglm_predict gives with 'plugin': 1e-12 relative. In all forms
// of covariance, links, with NULLs, levels never seen, interactions and names full of quotes.
func TestPMMLScoresElsewhere(t *testing.T) {
	python, err := osexec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no python3")
	}
	db := open(t)
	db.SetMaxOpenConns(1)
	makeRows(t, db)
	scoreRows(t, db)
	for k, c := range append(exported[:len(exported):len(exported)], crossed...) {
		if testing.Short() && k%3 > 0 {
			continue
		}
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
		rows, want := pmmlRows(t, db, x)
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

// The reader refuses what the schema does not have.
func TestPMMLReader(t *testing.T) {
	python, err := osexec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	db := open(t)
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
		{`SELECT bglm_pmml(f) FROM (SELECT bglm_softmax(g, {n: n}) AS f FROM ` + d + `)`, "classes"},
		{`SELECT bglm_pmml(f) FROM (SELECT bglm_adf(y, {n: n}, {hash_bits: 3}) AS f FROM ` + d + `)`, "hashed features"},
		{`SELECT bglm_pmml(f) FROM (SELECT bglm_laplace(y, {c: c}) AS f FROM ` + d + `)`, "a character that XML cannot write"},
		{`SELECT bglm_pmml(f) FROM (SELECT bglm_laplace(y, {g: g, "n:g": {n: n, g: g}}) AS f FROM ` + d + `)`, `interaction "n:g" of levels and numbers, but not its columns`},
		{`SELECT bglm_pmml(f, 3) FROM (SELECT bglm_laplace(y, {n: n}) AS f FROM ` + d + `)`, "response is INTEGER; allowed: VARCHAR"},
		{`SELECT bglm_sql(f, 'duckdb') FROM (SELECT bglm_laplace(y, {n: n, g: g, "n:g": {n: n, g: g}}) AS f FROM ` + d + `)`, `interaction "n:g" of levels and numbers, which is no one column`},
		{`SELECT bglm_sql(f, 'duckdb') FROM (SELECT bglm_laplace(y, {"n:g": {n: n, g: g}}) AS f FROM ` + d + `)`, `interaction "n:g" of levels and numbers`},
	} {
		var s string
		if err := db.QueryRow(e.query).Scan(&s); err == nil || !strings.Contains(err.Error(), e.want) {
			t.Errorf("%s\n%v, want %s", e.query, err, e.want)
		}
	}
}

// pmmlRows are the rows of score as a reader sees them, and what bglm_predict says.
func pmmlRows(t *testing.T, db *sql.DB, x string) (rows []map[string]any, want []float64) {
	t.Helper()
	r, err := db.Query(fmt.Sprintf(`SELECT bglm_predict(f, %s, 'plugin'), n, w, g, flag::VARCHAR, day, "1", "2" FROM score, fit ORDER BY id`, x))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for r.Next() {
		var p float64
		var n, one, two sql.NullFloat64
		var w float64
		var g, flag, day sql.NullString
		if err := r.Scan(&p, &n, &w, &g, &flag, &day, &one, &two); err != nil {
			t.Fatal(err)
		}
		row := map[string]any{"w": w, `we"ird 'name'`: w, "n IS NULL ": w, "n, its mean where missing": w, "probability": w}
		for name, v := range map[string]sql.NullFloat64{"n": n, "1": one, "2": two, "y": n} {
			if row[name] = nil; v.Valid {
				row[name] = v.Float64
			}
		}
		for name, v := range map[string]sql.NullString{"g": g, "flag": flag, "day": day} {
			if row[name] = nil; v.Valid {
				row[name] = v.String
			}
		}
		if row["both"] = nil; g.Valid {
			row["both"] = strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(g.String) + ":" + day.String
		}
		rows, want = append(rows, row), append(want, p)
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return rows, want
}

// pmmlScores runs the reader.
func pmmlScores(t *testing.T, python, doc string, rows []map[string]any) (out []float64, err error) {
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
		return nil, fmt.Errorf("%w: %s", err, errs.String())
	}
	return out, json.Unmarshal(b, &out)
}

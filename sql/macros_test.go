//go:build cgo

package sqlfiles_test

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2"

	sqlfiles "github.com/bglm/bglm/sql"
	"github.com/bglm/bglm/udf"
)

func open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1) // temporary tables belong to a connection
	if err := udf.Register(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	exec(t, db, sqlfiles.Macros)
	return db
}

func exec(t *testing.T, db *sql.DB, stmts ...string) {
	t.Helper()
	for _, s := range stmts {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%v\n%s", err, s)
		}
	}
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case float64:
		return fmt.Sprintf("%.12g", v)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = text(v[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(v)
}

// rows prints a result, one line a row.
func rows(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	r, err := db.Query(query)
	if err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
	defer r.Close()
	cols, err := r.Columns()
	if err != nil {
		t.Fatal(err)
	}
	vals, ptrs := make([]any, len(cols)), make([]any, len(cols))
	for i := range vals {
		ptrs[i] = &vals[i]
	}
	var b strings.Builder
	for r.Next() {
		if err := r.Scan(ptrs...); err != nil {
			t.Fatal(err)
		}
		for i, v := range vals {
			if i > 0 {
				b.WriteString(" | ")
			}
			b.WriteString(text(v))
		}
		b.WriteByte('\n')
	}
	if err := r.Err(); err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
	return b.String()
}

func same(t *testing.T, db *sql.DB, query, want string) {
	t.Helper()
	if got := rows(t, db, query); got != want {
		t.Errorf("%s\ngot:\n%swant:\n%s", query, got, want)
	}
}

func fails(t *testing.T, db *sql.DB, query, want string) {
	t.Helper()
	r, err := db.Query(query)
	if err == nil {
		for r.Next() {
		}
		err = r.Err()
		r.Close()
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s\ngot error %v, want one with %q", query, err, want)
	}
}

func TestHeaderExamples(t *testing.T) {
	db := open(t)
	exec(t, db, sqlfiles.Macros) // once more: replaces
	shown := 0
	for _, e := range examples(t) {
		if e.want == "" {
			exec(t, db, e.stmt)
			continue
		}
		shown++
		same(t, db, e.stmt, e.want)
	}
	if shown < 7 {
		t.Errorf("%d examples with results, want one for each of the 7 macros", shown)
	}
}

// covers: macro.fit_by
func TestFitBy(t *testing.T) {
	db := open(t)
	exec(t, db, "SET threads = 1", `CREATE TABLE "odd name" AS
		SELECT i AS t, i % 3 AS grp, i % 7 < 3 AS y, [('f' || i % 5)] AS x, 1.0 + i % 2 AS w FROM range(3000) r(i)`)
	direct := `SELECT grp, bglm_adf(y, x, {link: 'probit', weight: w} ORDER BY t) AS fit FROM "odd name" GROUP BY grp`
	same(t, db, `SELECT count(*), count(*) FILTER (d.fit = m.fit) FROM (`+direct+`) d
		JOIN bglm_fit_by_ordered('odd name', grp, y, x, t, opts := {link: 'probit', method: 'adf', weight: w}) m USING (grp)`, "3 | 3\n")
	same(t, db, `SELECT count(*), count(*) FILTER (d.fit = m.fit) FROM (`+direct+`) d
		JOIN bglm_fit_by('odd name', grp, y, x, opts := {link: 'probit', method: 'adf', weight: w}) m USING (grp)`, "3 | 3\n")
	same(t, db, `SELECT grp.a, grp.b, fit.n, fit.link FROM bglm_fit_by('odd name', {a: grp, b: w > 1}, y, {s: t % 4}) ORDER BY ALL LIMIT 2`,
		"0 | false | 500 | logit\n0 | true | 500 | logit\n")
	same(t, db, `WITH few AS (FROM "odd name" WHERE t < 10) SELECT grp, fit.n FROM bglm_fit_by('few', grp, y, x) ORDER BY grp`, "0 | 4\n1 | 3\n2 | 3\n")
	same(t, db, `SELECT count(*) FROM bglm_fit_by('odd name', grp, y, x) WHERE grp = 99`, "0\n")
	fails(t, db, `FROM bglm_fit_by('odd name', grp, y, x, opts := {lnk: 'probit'})`, "lnk")
	fails(t, db, `FROM bglm_fit_by('nowhere', grp, y, x)`, "nowhere")
	file := filepath.Join(t.TempDir(), "rows.parquet")
	exec(t, db, `COPY "odd name" TO '`+file+`'`)
	same(t, db, `SELECT grp, fit.n FROM bglm_fit_by('`+file+`', grp, y, x) ORDER BY grp`, "0 | 1000\n1 | 1000\n2 | 1000\n")
}

// covers: macro.score
func TestScoreIsPredict(t *testing.T) {
	db := open(t)
	exec(t, db,
		"SELECT setseed(0.5)",
		`CREATE TABLE beliefs AS SELECT 'f' || i AS feature, random() * 2 - 1 AS mean, random() AS variance FROM range(200) t(i)
		 UNION ALL VALUES ('(Intercept)', 0.7, 0.2), ('known', 2.0, 0.0)`,
		`CREATE TABLE rows AS SELECT i AS id, list_transform(range(i % 9), lambda k: {feature: CASE WHEN k = 7 THEN 'known' WHEN i % 31 = k THEN '(Intercept)'
		    ELSE 'f' || (hash(i, k // 2) % 250) END, value: (hash(i, k) % 1000) / 500 - 1}) AS features FROM range(3000) t(i)
		 UNION ALL VALUES (5000, NULL), (5001, [{feature: NULL, value: 1.0}, {feature: 'f1', value: NULL}, NULL]), (5002, []), (5002, [{feature: 'f2', value: 1}])`,
		`CREATE TABLE bare AS FROM beliefs WHERE feature <> '(Intercept)'`,
		`CREATE TABLE nothing AS FROM beliefs WHERE false`)
	for _, c := range []struct{ tbl, params, options string }{
		{"beliefs", "", "{intercept: true}"},
		{"beliefs", ", link := 'probit', prior_mean := 0.5, prior_variance := 3.0", "{link: 'probit', intercept: true, prior_mean: 0.5, prior_variance: 3.0}"},
		{"beliefs", ", link := 'cloglog'", "{link: 'cloglog', intercept: true}"},
		{"beliefs", ", link := 'log', intercept := false", "{link: 'log', intercept: false}"},
		{"beliefs", ", link := 'identity', dispersion := 4.0", "{link: 'identity', dispersion: 4.0, intercept: true}"},
		{"bare", ", intercept_variance := 2.0, prior_mean := -1", "{intercept: true, intercept_variance: 2.0, prior_mean: -1}"},
		{"bare", ", intercept := false", "{intercept: false}"},
		{"nothing", "", "{intercept: true}"},
	} {
		got := rows(t, db, fmt.Sprintf(`
			WITH fit AS (SELECT bglm_from_beliefs(coalesce(list({feature: feature, mean: mean, variance: variance}), []), %s) AS fit FROM %s),
			     direct AS (SELECT id, len(features) AS len, bglm_predict(fit, features) AS p, bglm_predict_dist(fit, features) AS d FROM rows, fit)
			SELECT count(*), count(p), count(eta_mean), count(prediction), max(abs(p - prediction) / abs(p)) < 1e-12,
			       max(abs(d.eta_mean - eta_mean)) < 1e-13 * 20, max(abs(d.eta_variance - eta_variance) / greatest(d.eta_variance, 1e-6)) < 1e-13
			FROM direct LEFT JOIN (SELECT s.*, len FROM bglm_score('rows', '%s'%s) s JOIN rows r ON s.id = r.id AND s.id <> 5002
			     UNION ALL SELECT *, 0 FROM bglm_score('rows', '%s'%s) WHERE id = 5002) USING (id)
			WHERE id <> 5002`, c.options, c.tbl, c.tbl, c.params, c.tbl, c.params))
		if want := "3002 | 3001 | 3001 | 3001 | true | true | true\n"; got != want {
			t.Errorf("%s%s: got %swant %s", c.tbl, c.params, got, want)
		}
	}
	// ids may repeat; the row with no features is there
	same(t, db, "SELECT id, eta_mean = 0.7 FROM bglm_score('rows', 'beliefs') WHERE id = 5002 ORDER BY 2", "5002 | false\n5002 | true\n")
	// x of other shapes
	exec(t, db, "CREATE TABLE flights AS SELECT 1 AS id, {origin: 'ATL', distance: 0.5} AS features",
		"CREATE TABLE w AS FROM (VALUES ('origin=ATL', 1.0, 0.5), ('distance', 2.0, 0.25)) t(feature, mean, variance)")
	same(t, db, "SELECT eta_mean, eta_variance FROM bglm_score('flights', 'w')", "2 | 10.5625\n")

	exec(t, db, "CREATE TABLE twice AS FROM bare UNION ALL FROM bare WHERE feature = 'f7'")
	for _, c := range []struct{ option, want string }{
		{"prior_variance := -1", "bglm_score: prior_variance: found -1; allowed: a finite number >= 0"},
		{"intercept_variance := 'nan'::DOUBLE", "bglm_score: intercept_variance: found nan; allowed: a finite number >= 0"},
		{"prior_mean := 'inf'::DOUBLE", "bglm_score: prior_mean: found inf; allowed: a finite number"},
		{"dispersion := -1.0, link := 'identity'", "option dispersion: found -1"},
	} {
		fails(t, db, "SELECT sum(prediction) FROM bglm_score('rows', 'beliefs', "+c.option+")", c.want)
	}
	fails(t, db, "SELECT sum(lower) FROM bglm_weights('SELECT bglm_fit(i % 3 = 0, {a: i}) AS fit FROM range(9) t(i)', sd := -1)", "bglm_weights: sd: found -1; allowed: a finite number >= 0")
	fails(t, db, "SELECT sum(prediction) FROM bglm_score('rows', 'twice')", `feature "f7" has more than one belief`)
	exec(t, db, "CREATE TABLE hole AS SELECT feature, CASE WHEN feature = 'f3' THEN NULL ELSE mean END AS mean, variance FROM bare")
	fails(t, db, "SELECT sum(prediction) FROM bglm_score('rows', 'hole')", `feature "f3" has the mean NULL`)
	exec(t, db, "CREATE TABLE below AS SELECT feature, mean, CASE WHEN feature = 'f4' THEN -1 ELSE variance END AS variance FROM bare")
	fails(t, db, "SELECT sum(prediction) FROM bglm_score('rows', 'below')", `feature "f4" has the variance -1`)
	fails(t, db, "SELECT sum(prediction) FROM bglm_score('rows', 'bare', link := 'probt')", "probit")
}

// covers: macro.compare
func TestCompare(t *testing.T) {
	db := open(t)
	exec(t, db,
		`CREATE TABLE a AS FROM (VALUES ('10', 0.0, 1.0), ('9', 1.5, 0.5), ('b', 1.0, 0.0), ('c', 1.0, 0.0), ('d', 1.0, 0.0), ('e', 1.0, 2.0), ('only a', 3.0, 1.0)) t(feature, mean, variance)`,
		`CREATE TABLE b AS FROM (VALUES ('10', 0.0, 1.0), ('9', 1.0, 0.25), ('b', 1.0, 0.0), ('c', 2.0, 0.0), ('d', 1.0, 1.0), ('e', 0.0, 0.0), ('(Intercept)', 0.5, 1.0)) t(feature, mean, variance)`)
	kl := 0.5 * (0.25/0.5 - 1 - math.Log(0.25/0.5) + 0.25/0.5)
	same(t, db, "FROM bglm_compare('a', 'b')", strings.Join([]string{
		"(Intercept) | NULL | NULL | 0.5 | 1 | NULL | NULL | NULL",
		fmt.Sprintf("9 | 1.5 | 0.5 | 1 | 0.25 | -0.5 | %.12g | %.12g", -0.5/math.Sqrt(0.75), kl),
		"10 | 0 | 1 | 0 | 1 | 0 | 0 | 0",
		"b | 1 | 0 | 1 | 0 | 0 | 0 | 0",
		"c | 1 | 0 | 2 | 0 | 1 | +Inf | +Inf",
		"d | 1 | 0 | 1 | 1 | 0 | 0 | +Inf",
		fmt.Sprintf("e | 1 | 2 | 0 | 0 | -1 | %.12g | +Inf", -1/math.Sqrt2),
		"only a | 3 | 1 | NULL | NULL | NULL | NULL | NULL",
		""}, "\n"))
}

// Weights of classes are told apart; what is no belief is an error.
func TestWeightsOfClasses(t *testing.T) {
	db := open(t)
	exec(t, db, `CREATE TABLE fits AS SELECT bglm_softmax(i % 3, {x: i}) AS fit FROM range(30) t(i)`,
		"CREATE TABLE w AS FROM bglm_weights('fits')", "CREATE TABLE moved AS SELECT * REPLACE (mean + class::DOUBLE AS mean) FROM w")
	same(t, db, "SELECT feature, class FROM w", "(Intercept) | 0\nx | 0\n(Intercept) | 1\nx | 1\n(Intercept) | 2\nx | 2\n")
	same(t, db, "SELECT column_name FROM (DESCRIBE w)", "feature\nmean\nvariance\nclass\nlower\nupper\nz\n")
	same(t, db, "SELECT feature, class, round(difference, 9) FROM bglm_compare('w', 'moved')", "(Intercept) | 0 | 0\n(Intercept) | 1 | 1\n(Intercept) | 2 | 2\nx | 0 | 0\nx | 1 | 1\nx | 2 | 2\n")
	fails(t, db, "FROM bglm_compare('SELECT * EXCLUDE (class) FROM w', 'w')", `more than one belief`)
	for belief, want := range map[string]string{"('a', 1.0, -1.0)": "the variance -1", "('a', 'NaN'::DOUBLE, 1.0)": "the mean nan", "('a', 1.0, 1.0), ('a', 1.0, 2.0)": "more than one belief", "('a', NULL, 1.0)": "the mean NULL"} {
		exec(t, db, "CREATE OR REPLACE TABLE bad AS FROM (VALUES "+belief+") t(feature, mean, variance)", "CREATE OR REPLACE TABLE good AS SELECT 'a' AS feature, 0.0 AS mean, 1.0 AS variance")
		fails(t, db, "FROM bglm_compare('good', 'bad')", `bglm_compare: b: feature "a" has `+want)
		fails(t, db, "FROM bglm_compare('bad', 'good')", `bglm_compare: a: feature "a" has `+want)
	}
}

// Names of fits may be numbers; fits that are NULL are left out.
func TestCompareFits(t *testing.T) {
	db := open(t)
	exec(t, db, `CREATE TABLE rows AS SELECT i % 5 AS x, i % 3 = 0 AS y FROM range(30) t(i)`,
		`CREATE TABLE fits AS SELECT 7 AS name, bglm_fit(y, {x: x}) AS fit FROM rows UNION ALL SELECT 8, NULL`)
	same(t, db, "SELECT name, n, elpd_diff FROM bglm_compare_fits('fits', 'rows', y, {x: x})", "7 | 30 | 0\n")
	for names, want := range map[string]string{"": "several fits have no name", "'a' AS name,": `several fits have the name "a"`, "nullif(i, 0) AS name,": "a name is NULL"} {
		exec(t, db, "CREATE OR REPLACE TABLE alike AS SELECT "+names+" fit FROM (SELECT fit FROM fits WHERE fit IS NOT NULL), range(2) t(i)")
		fails(t, db, "FROM bglm_compare_fits('alike', 'rows', y, {x: x})", "bglm_compare_fits: fits: "+want+"; allowed: a name of its own for each, in the column name")
	}
	exec(t, db, `CREATE TABLE counts AS SELECT i % 5 AS x, i % 4 * 100 AS n, 1 + i % 4 AS e FROM range(30) t(i)`,
		`CREATE TABLE rates AS SELECT 'rate' AS name, bglm_fit(n, {x: x}, {family: 'poisson', offset_: ln(e)}) AS fit FROM counts`)
	same(t, db, `SELECT a.elpd_loo = b.elpd_loo FROM bglm_compare_fits('rates', 'counts', n, {x: x}, opts := {offset_: ln(e)}) a,
		(SELECT unnest(bglm_loo_compare({rate: fit}, n, {x: x}, {offset_: ln(e)})) AS b FROM counts, rates)`, "true\n")
}

// A table with FITs and one of beliefs are not taken for one another; tables may be queries.
func TestTablesOfMacros(t *testing.T) {
	db := open(t)
	exec(t, db, `CREATE TABLE rows AS SELECT i AS id, {x: i} AS features, i % 3 = 0 AS y FROM range(9) t(i)`,
		`CREATE TABLE fits AS SELECT 'a' AS name, bglm_from_beliefs([{feature: 'x', mean: 1.0, variance: 4.0}]) AS fit`,
		"CREATE TABLE beliefs AS FROM bglm_weights('fits')")
	for _, q := range []string{"bglm_weights('beliefs')", "bglm_contrasts('beliefs', {x: 1}, 'x')", "bglm_compare_fits('beliefs', 'rows', y, features)", "bglm_weights('SELECT feature FROM beliefs')"} {
		name, _, _ := strings.Cut(q, "(")
		fails(t, db, "FROM "+q, name+": fits has no column fit; allowed: a table with FITs")
	}
	for q, arg := range map[string]string{"bglm_score('rows', 'fits')": "bglm_score: beliefs", "bglm_compare('fits', 'beliefs')": "bglm_compare: a", "bglm_compare('beliefs', 'fits')": "bglm_compare: b"} {
		fails(t, db, "SELECT count(COLUMNS(*)) FROM "+q, arg+" has neither feature nor mean nor variance; allowed: a table of beliefs")
	}
	want := rows(t, db, "FROM bglm_score('rows', 'beliefs') ORDER BY id LIMIT 4")
	for _, b := range []string{"'SELECT * FROM beliefs'", "' (FROM beliefs)'", "$$with b AS (FROM beliefs) FROM b -- all$$", "beliefs"} {
		same(t, db, "FROM bglm_score($$FROM rows WHERE id < 4$$, "+b+") ORDER BY id", want)
	}
	same(t, db, "WITH few AS (FROM rows WHERE id < 4) FROM bglm_score('SELECT * FROM few', 'beliefs') ORDER BY id", want)
	same(t, db, "SELECT grp, fit.n FROM bglm_fit_by('SELECT *, id % 2 AS odd FROM rows', odd, y, features) ORDER BY grp", "0 | 5\n1 | 4\n")
	same(t, db, "SELECT n FROM bglm_evaluate('(SELECT y, 0.3 AS p FROM rows)', y, p)", "9\n")
	same(t, db, "SELECT count(*) FROM duckdb_functions() WHERE function_name LIKE 'bglm%' AND function_type LIKE '%macro' AND comment IS NULL", "0\n")
}

// The statements of one macro make it, whatever else is there.
func TestOneMacro(t *testing.T) {
	for _, m := range sqlfiles.List() {
		db, err := sql.Open("duckdb", "")
		if err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1)
		if err := udf.Register(context.Background(), db); err != nil {
			t.Fatal(err)
		}
		exec(t, db, sqlfiles.SQL(m.Name))
		if m.Name == "bglm_compare" {
			exec(t, db, "CREATE TABLE b AS SELECT 'x' AS feature, 1.0 AS mean, 2.0 AS variance")
			same(t, db, "SELECT z FROM bglm_compare('b', 'b')", "0\n")
		}
		db.Close()
	}
}

func TestWeightsAndEvaluate(t *testing.T) {
	db := open(t)
	exec(t, db, `CREATE TABLE one AS SELECT bglm_from_beliefs([{feature: 'b', mean: 1.0, variance: 4.0}, {feature: '2', mean: 3.0, variance: 0.0}], {intercept: false}) AS fit`,
		`CREATE TABLE many AS SELECT 'k' || k AS grp, fit FROM one, range(2) t(k)`)
	same(t, db, "FROM bglm_weights('one')", "2 | 3 | 0 | 3 | 3 | NULL\nb | 1 | 4 | -2.91992796908 | 4.91992796908 | 0.5\n")
	same(t, db, "SELECT grp, count(*), max(upper) FROM bglm_weights('many', sd := 1) GROUP BY grp ORDER BY grp", "k0 | 2 | 3\nk1 | 2 | 3\n")

	exec(t, db, `CREATE TABLE scored AS FROM (VALUES (true, 0.8), (false, 0.3), (true, 0.6), (false, 0.7), (NULL, 0.5), (true, NULL)) t(y, p)`)
	ll := -(math.Log(0.8) + math.Log(0.7) + math.Log(0.6) + math.Log(0.3)) / 4
	same(t, db, "FROM bglm_evaluate('scored', y, p)", fmt.Sprintf("4 | %.12g | 0.75 | %.12g\n", ll, (0.04+0.09+0.16+0.49)/4))
}

// Compressed rows have the fit of all rows, to rounding: families, weights and offsets.
// covers: macro.compress
func TestCompress(t *testing.T) {
	db := open(t)
	exec(t, db, `CREATE TEMP TABLE r AS SELECT 'g' || i % 3 AS g, i % 4 AS u, (1 + i % 2)::DOUBLE AS w, (i % 5) / 5 AS o, 1 + i % 4 AS t,
		i % 7 < 3 AS bernoulli, i * 31 % (2 + i % 4) AS binomial, i * 37 % 11 AS poisson, 1e5 + sin(i) AS gaussian, exp(sin(i)) AS gamma, CASE WHEN i < 399 THEN i * 37 % 11 END AS gaps FROM range(400) t(i)`)
	for family, c := range map[string]struct{ compress, fit string }{
		"bernoulli":   {", offset_ := o", ", offset_: %s"},
		"binomial":    {", trials := t", ", trials: %s"},
		"poisson":     {", offset_ := o", ", offset_: %s, family: 'poisson'"},
		"negbinomial": {", offset_ := o", ", offset_: %s, family: 'negbinomial', shape: 2"},
		"gaussian":    {", offset_ := o", ", offset_: %s, link: 'identity', dispersion: 1.5"},
		"gamma":       {", offset_ := o", ", offset_: %s, family: 'gamma', shape: 3"},
	} {
		y, column := family, map[bool][2]string{true: {"t", "trials"}, false: {"o", "offset_"}}[family == "binomial"]
		if y == "negbinomial" {
			y = "poisson"
		}
		exec(t, db, "CREATE OR REPLACE TEMP TABLE few AS FROM bglm_compress('r', "+y+", {g: g, u: u}, family := '"+family+"', weight := w"+c.compress+")",
			"CREATE OR REPLACE TEMP TABLE a AS SELECT bglm_laplace("+y+", {g: g, u: u}, {weight: w"+fmt.Sprintf(c.fit, column[0])+"}) AS f FROM r",
			"CREATE OR REPLACE TEMP TABLE b AS SELECT bglm_laplace(y, x, {weight: weight"+fmt.Sprintf(c.fit, column[1])+"}) AS f FROM few")
		same(t, db, `SELECT count(*), max(abs(p.mean - q.mean) / sqrt(p.variance)) < 1e-9, max(abs(p.variance / q.variance - 1)) < 1e-9
			FROM (SELECT unnest(f.beliefs, recursive := true) FROM a) p JOIN (SELECT unnest(f.beliefs, recursive := true) FROM b) q USING (feature)`, "5 | true | true\n")
		same(t, db, "SELECT sum(n) FROM few", "400\n")
		constant := "0"
		if family == "gamma" {
			constant = "(SELECT sum(w * o) FROM r)"
		}
		same(t, db, "SELECT abs(a.f.log_evidence + "+constant+" - b.f.log_evidence) < 1e-9 * abs(a.f.log_evidence) FROM a, b", "true\n")
	}
	same(t, db, "SELECT sum(n) FROM bglm_compress('r', gaps, {g: g}, family := 'poisson')", "399\n")
	fails(t, db, "FROM bglm_compress('r', gaussian, {g: g}, family := 'studentt')", "allowed: bernoulli, binomial, poisson")
	fails(t, db, "FROM bglm_compress('r', poisson, {g: g}, family := NULL)", "bglm_compress: family = NULL; allowed: bernoulli, binomial, poisson")
	for _, family := range []string{"poisson", "gaussian", "gamma"} {
		fails(t, db, "FROM bglm_compress('r', "+family+", {g: g}, family := '"+family+"', weight := 1.5 - w)", "bglm_compress: weight = -0.5; allowed: finite numbers >= 0")
	}
	// Responses that no fit takes are rows of their own.
	for family, bad := range map[string]string{"gaussian": "'NaN'::DOUBLE", "gamma": "0"} {
		y := "CASE WHEN i = 7 THEN " + bad + " ELSE " + family + " END"
		same(t, db, "SELECT count(*), sum(n) FROM bglm_compress($$SELECT *, row_number() OVER () AS i FROM r$$, "+y+", {g: g}, family := '"+family+"')", "7 | 400\n")
		same(t, db, "SELECT f.n, f.n_skipped FROM (SELECT bglm_laplace(y, x, {weight: weight, offset_: offset_, family: '"+family+"', on_error: 'skip'}) AS f FROM bglm_compress($$SELECT *, row_number() OVER () AS i FROM r$$, "+y+", {g: g}, family := '"+family+"'))", "6 | 1\n")
	}
}

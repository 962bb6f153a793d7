package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// Rows that a fit of classes has learnt are judged by fits of four fifths of them, the same as
// are made by hand; measures are those of their definitions.
func TestEvaluateClasses(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data, fit := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "f.parquet")
	query(t, "COPY (SELECT i, (i * 37 % 100) / 25.0 - 2 AS u, 'k' || i * 13 % 5 AS s, 1 + (i * 17 % 100 + i % 13 * 5) // 55 AS k FROM range(90) t(i)) TO '"+data+"'")
	ok(t, "fit", data, "-f", "k ~ u + s", "-m", "softmax", "-o", "prior_variance=2", "-q", "--out", fit)
	q := evaluated(t, data, "-b", fit)
	if q.How != crossValidated || q.N != 90 || len(q.Classes) != 3 {
		t.Fatalf("%+v", q)
	}
	byHand := `WITH r AS (SELECT *, row_number() OVER (ORDER BY hash(a), a) % 5 AS fold FROM (SELECT *, row_number() OVER () AS a FROM '` + data + `')),
		f AS (SELECT t.f, bglm_softmax(k, {u: u, s: s}, {prior_variance: 2}) AS fit FROM r, range(5) t(f) WHERE fold <> t.f GROUP BY t.f),
		p AS (SELECT k::VARCHAR AS k, bglm_predict(fit, {u: u, s: s}) AS p FROM r JOIN f ON fold = f) `
	for _, c := range []struct {
		what string
		got  *float64
		sql  string
	}{
		{"log loss", q.LogLoss, "SELECT -avg(ln(p[k])) FROM p"},
		{"log loss of the shares", q.BaseLoss, "SELECT -avg(ln(n)) FROM (SELECT count(*) OVER (PARTITION BY k) / 90 AS n FROM p)"},
		{"Brier score", q.Brier, "SELECT avg(((k = '1')::INT - p['1'])**2 + ((k = '2')::INT - p['2'])**2 + ((k = '3')::INT - p['3'])**2) FROM p"},
		{"accuracy", q.Accuracy, "SELECT avg((p[k] = greatest(p['1'], p['2'], p['3']))::INT) FROM p"},
		{"accuracy of the most frequent", q.BaseAccuracy, "SELECT max(n) / 90 FROM (SELECT count(*) AS n FROM p GROUP BY k)"},
		{"precision of 2", q.Classes[1].Precision, "SELECT avg((k = '2')::INT) FILTER (p['2'] = greatest(p['1'], p['2'], p['3'])) FROM p"},
		{"recall of 2", &q.Classes[1].Recall, "SELECT avg((p['2'] = greatest(p['1'], p['2'], p['3']))::INT) FILTER (k = '2') FROM p"},
		{"mean probability of 3", &q.Classes[2].Predicted, "SELECT avg(p['3']) FROM p"},
	} {
		if want := queried(t, byHand+c.sql); c.got == nil || math.Abs(*c.got-want) > 1e-9 {
			t.Errorf("%s: %s, want %v", c.what, number(c.got, "%v"), want)
		}
	}
	if n := q.Classes[0].Taken["1"] + q.Classes[0].Taken["2"] + q.Classes[0].Taken["3"]; n != q.Classes[0].N {
		t.Errorf("%v rows of class 1, %v", q.Classes[0].N, q.Classes[0].Taken)
	}
	own := evaluated(t, data, "-b", fit, "--fitted")
	if own.How != fitted || !(*own.LogLoss < *q.LogLoss) {
		t.Errorf("rows as fitted: %+v", own)
	}
	// A number is the same class as 2 and 2.0; a class that the fit has not seen is said.
	query(t, "COPY (SELECT u, s, k::DOUBLE AS k FROM '"+data+"') TO '"+filepath.Join(dir, "e.parquet")+"'")
	if q = evaluated(t, filepath.Join(dir, "e.parquet"), "-b", fit); q.How != otherRows && q.How != fitted || math.Abs(*q.LogLoss-*own.LogLoss) > 1e-9 {
		t.Errorf("numbers: %+v", q)
	}
	query(t, "COPY (SELECT u, s, CASE WHEN i = 7 THEN 4 ELSE k END AS k FROM '"+data+"' WHERE i < 60) TO '"+filepath.Join(dir, "o.parquet")+"'")
	if q = evaluated(t, filepath.Join(dir, "o.parquet"), "-b", fit); q.How != otherRows || q.LogLoss != nil || q.Accuracy == nil || len(q.Classes) != 4 || q.Classes[3].Recall != 0 {
		t.Errorf("a class unknown: %+v", q)
	}
	ok(t, "report", "-b", fit, data, "--out", filepath.Join(dir, "r.html"))
	page, err := os.ReadFile(filepath.Join(dir, "r.html"))
	if err != nil {
		t.Fatal(err)
	}
	p := parsePage(t, page)
	for id, want := range map[string]string{"verdict": "Log loss", "classes": "recall", "taken": "likeliest class"} {
		if n := p.id(id); n == nil || !strings.Contains(n.content(), want) {
			t.Errorf("the report's section %s lacks %q", id, want)
		}
	}
	// A Gaussian process is judged in the same way.
	query(t, "COPY (SELECT sin(i / 5) + (i * 7 % 5) / 20 AS y, i / 5 AS u FROM range(40) t(i)) TO '"+data+"'")
	ok(t, "fit", data, "--y", "y", "--x", "[u]", "-m", "gp", "-o", "family=gaussian", "-q", "--out", fit)
	if q = evaluated(t, data, "-b", fit); q.How != crossValidated || q.RMSE == nil || !(*q.RMSE < 0.3) {
		t.Errorf("a process: %+v", q)
	}
}

// A class that the fit of a row does not know has the probability 0 there, in means and the Brier
// score too: of rows of a class that occurs once, which the fit without it predicts, and of others.
func TestEvaluateUnknownClass(t *testing.T) {
	dir := t.TempDir()
	data, fit, other := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "f.parquet"), filepath.Join(dir, "o.parquet")
	query(t, "COPY (SELECT CASE WHEN i = 7 THEN 'rare' WHEN i % 3 = 0 THEN 'a' ELSE 'b' END AS k, (i * 37 % 100) / 25.0 - 2 AS u FROM range(40) t(i)) TO '"+data+"'")
	ok(t, "fit", data, "-f", "k ~ u", "-m", "softmax", "-o", "prior_variance=2", "-q", "--out", fit)
	q := evaluated(t, data, "-b", fit)
	byHand := `WITH r AS (SELECT *, row_number() OVER (ORDER BY hash(a), a) % 5 AS fold FROM (SELECT *, row_number() OVER () AS a FROM '` + data + `')),
		f AS (SELECT t.f, bglm_softmax(k, {u: u}, {prior_variance: 2}) AS fit FROM r, range(5) t(f) WHERE fold <> t.f GROUP BY t.f),
		p AS (SELECT k, bglm_predict(fit, {u: u}) AS p FROM r JOIN f ON fold = f) `
	near := func(what string, got *float64, sql string) {
		t.Helper()
		if want := queried(t, sql); got == nil || math.Abs(*got-want) > 1e-9 {
			t.Errorf("%s: %s, want %v", what, number(got, "%v"), want)
		}
	}
	if q.How != crossValidated || len(q.Classes) != 3 || q.RuledOut != 1 {
		t.Fatalf("%+v", q)
	}
	near("mean probability of rare", &q.Classes[2].Predicted, byHand+"SELECT avg(coalesce(p['rare'], 0)) FROM p")
	near("Brier score", q.Brier, byHand+"SELECT avg(((k = 'a')::INT - p['a'])**2 + ((k = 'b')::INT - p['b'])**2 + ((k = 'rare')::INT - coalesce(p['rare'], 0))**2) FROM p")
	query(t, "COPY (SELECT 'new' AS k, u FROM '"+data+"') TO '"+other+"'")
	q = evaluated(t, other, "-b", fit)
	near("Brier score of a new class", q.Brier, `SELECT avg(1 + list_sum(list_transform(map_values(p), lambda x: x**2))) FROM
		(SELECT bglm_predict(fit, {u: u}) AS p FROM '`+other+`', (SELECT bglm_softmax(k, {u: u}, {prior_variance: 2}) AS fit FROM '`+data+`'))`)
}

// Successes among trials under a Gaussian process are judged as shares, as they are under other
// fits.
func TestEvaluateProcessOfTrials(t *testing.T) {
	dir := t.TempDir()
	data, fit := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "f.parquet")
	query(t, "COPY (SELECT i * 7 % 5 AS y, 4 + i % 3 AS n, i / 5 AS u FROM range(40) t(i)) TO '"+data+"'")
	ok(t, "fit", data, "--y", "y", "--x", "[u]", "-m", "gp", "-o", "trials=n", "-q", "--out", fit)
	const errors = "SELECT sqrt(avg((y / n - p)**2)) FROM "
	for how, c := range map[string]struct{ sql, flag string }{
		crossValidated: {`(WITH r AS (SELECT *, row_number() OVER (ORDER BY hash(a), a) % 5 AS fold FROM (SELECT *, row_number() OVER () AS a FROM '` + data + `')),
			f AS (SELECT t.f, bglm_gp(y, [u], {trials: n}) AS fit FROM r, range(5) t(f) WHERE fold <> t.f GROUP BY t.f)
			SELECT y, n, bglm_predict(fit, [u]) AS p FROM r JOIN f ON fold = f)`, "--quiet"},
		fitted: {`(SELECT y, n, bglm_predict(fit, [u]) AS p FROM '` + data + `', (SELECT bglm_gp(y, [u], {trials: n}) AS fit FROM '` + data + `'))`, "--fitted"},
	} {
		q := evaluated(t, data, "-b", fit, c.flag)
		if want := queried(t, errors+c.sql); q.How != how || q.RMSE == nil || math.Abs(*q.RMSE-want) > 1e-9 || q.Coverage != nil {
			t.Errorf("%s: %+v, RMSE %s, want %v", how, q, number(q.RMSE, "%v"), want)
		}
	}
}

// The tables about a fit of classes have them by name, and probabilities that add up.
func TestClassAnswers(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data, fit := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "f.parquet")
	query(t, "COPY (SELECT i, (i * 37 % 100) / 25.0 - 2 AS u, 'k' || i * 13 % 5 AS s, ['red', 'green', 'blue'][1 + (i * 17 % 100 + i % 13 * 5) // 55] AS k FROM range(90) t(i)) TO '"+data+"'")
	ok(t, "fit", data, "-f", "k ~ u + s", "-m", "softmax", "-q", "--out", fit)
	rows := func(args ...string) (out []map[string]any) {
		t.Helper()
		r := bglm(t, "", append(args, "--json", "--beliefs", fit)...)
		if r.code != 0 {
			t.Fatal(args, r.stderr)
		}
		if err := json.Unmarshal([]byte(r.stdout), &out); err != nil {
			t.Fatal(err, r.stdout)
		}
		return out
	}
	if terms := rows("summary"); len(terms) != 22 || terms[1]["term"] != "blue: s=k0" || terms[21]["term"] != "sd(s)" {
		t.Error(terms)
	}
	two := rows("contrast", "--row", "{u: 1.0, s: 'k1'}", "--against", "{u: 1.0, s: 'k2'}")
	pairs := rows("contrast", "--x", "{u: 1.0, s: 'k1'}", "--column", "s")
	if len(two) != 3 || two[2]["class"] != "red" || len(pairs) != 30 || pairs[12]["a"] != "k1" || pairs[12]["response"] != two[0]["response"] {
		t.Error(two, pairs)
	}
	if sum := two[0]["response"].(float64) + two[1]["response"].(float64) + two[2]["response"].(float64); math.Abs(sum) > 1e-9 {
		t.Error(sum)
	}
	effects := rows("effects", "--data", data)
	if len(effects) != 15 || effects[0]["contrast"] != "blue: dY/dX" || effects[3]["contrast"] != "blue: mean(k1) - mean(k0)" || effects[0]["n"] != 90.0 {
		t.Error(effects)
	}
	if r := bglm(t, "", "export", "--beliefs", fit, "--table", "d", "--keep", "i"); r.code != 0 || !strings.Contains(r.stdout, `AS "prediction_blue"`) {
		t.Error(r)
	}
	if r := bglm(t, "", "export", "--beliefs", fit, "--format", "pmml"); r.code != 0 || !strings.Contains(r.stdout, `value="blue"/>`) || strings.Count(r.stdout, "<RegressionTable") != 3 {
		t.Error(r.stdout, r.stderr)
	}
	if r := bglm(t, "", "export", "--beliefs", fit, "--prediction", "exact"); r.code == 0 || !strings.Contains(r.stderr, "allowed: 'plugin' or 'mackay'") {
		t.Error(r)
	}
}

// The kind of prediction is that of SQL for classes and processes too; an offset cancels among
// classes, counts for a process, and where it is NULL there is no prediction.
func TestPredictionKinds(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "d.parquet")
	ok(t, "sql", "-c", "COPY (SELECT i, sin(i) AS x, i % 5 AS n, i % 3 = 0 AS y, 'c' || (i * i % 3 + (sin(i) > 0)::INT) AS c, CASE WHEN i % 10 <> 3 THEN i % 4 END AS o FROM range(60) t(i)) TO '"+data+"'")
	fit := func(name string, args ...string) string {
		path := filepath.Join(dir, name+".parquet")
		ok(t, append([]string{"fit", data, "-q", "--out", path}, args...)...)
		return path
	}
	check := func(path, f, kind string, args ...string) {
		t.Helper()
		out := filepath.Join(dir, "out.parquet")
		ok(t, append([]string{"predict", "-q", "-b", path, "--data", data, "--out", out, "--prediction", kind}, args...)...)
		same := query(t, "SELECT count(*) FILTER (p.prediction IS DISTINCT FROM bglm_predict(fit, p.x, '"+kind+"')) FROM '"+out+"' p, (SELECT "+f+" AS fit FROM '"+data+"')")
		if same != "0" {
			t.Errorf("%s, %s: %s rows differ", path, kind, same)
		}
	}
	classes, process := fit("classes", "-m", "softmax", "-f", "c ~ x"), fit("process", "-m", "gp", "--y", "y", "--x", "[x]")
	withOffset := fit("offset", "-m", "softmax", "-f", "c ~ x + offset(o)")
	counts := fit("counts", "-m", "laplace", "-f", "n ~ x + offset(o)", "-o", "family=poisson")
	for _, kind := range []string{"exact", "mackay", "plugin"} {
		check(classes, "bglm_softmax(c, {x: x})", kind, "--columns", "{x: x} AS x")
		check(process, "bglm_gp(y, [x])", kind, "--columns", "[x] AS x")
		check(withOffset, "bglm_softmax(c, {x: x}, {offset_: o})", kind, "--columns", "CASE WHEN o IS NOT NULL THEN {x: x} END AS x")
	}
	out := filepath.Join(dir, "rates.parquet")
	ok(t, "predict", "-q", "-b", counts, "--data", data, "--out", out, "--dist", "--prediction", "plugin")
	if got := query(t, "SELECT count(*) FILTER (o IS NULL AND coalesce(prediction, eta_mean, mean, lower) IS NULL), count(*) FILTER (abs(prediction / exp(o + bglm_predict_dist(fit, {x: x}).eta_mean) - 1) < 1e-12) FROM '"+out+"', (SELECT bglm_laplace(n, {x: x}, {family: 'poisson', offset_: o}) AS fit FROM '"+data+"')"); got != "6,54" {
		t.Error(got)
	}
	for what, args := range map[string][]string{`"n": 54`: nil, `"missing": 6`: {"--fitted"}} {
		if r := bglm(t, "", append([]string{"evaluate", "-b", counts, "--data", data, "--json"}, args...)...); r.code != 0 || !strings.Contains(r.stdout, what) {
			t.Error(r.stdout, r.stderr)
		}
	}
	reference := fit("reference", "-m", "softmax", "-f", "c ~ x + offset(o)", "-o", "reference=c1")
	if r := bglm(t, "", "predict", "-b", reference, "--data", data, "--out", out); r.code != 1 || !strings.Contains(r.stderr, "counts against the reference class 'c1'") {
		t.Error(r.code, r.stderr)
	}
}

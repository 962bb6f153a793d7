package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

func evaluated(t *testing.T, args ...string) (q quality) {
	t.Helper()
	if err := json.Unmarshal([]byte(ok(t, append([]string{"evaluate", "--json"}, args...)...).stdout), &q); err != nil {
		t.Fatal(err)
	}
	return q
}

func queried(t *testing.T, sql string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(query(t, sql), 64)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return x
}

// Rows that a fit has learnt are judged by what it would have been without them: of gaussian
// responses by the fit of all other rows, refitted; else by the cavity of bglm_influence.
func TestEvaluateLeavesOut(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "d.parquet")
	fit := filepath.Join(dir, "f.parquet")
	query(t, "COPY (SELECT i, i % 7 * 0.5 AS u, 'g' || i % 3 AS g, (i * 5 % 11) / 3 + u AS z, 1 + i % 4 AS t, (i * 7 % 5 % (2 + i % 4))::INT AS s, 0.5 + i % 2 AS w, i * 13 % 8 > 3 AS b FROM range(24) r(i)) TO '"+data+"'")
	near := func(what string, got *float64, want, tol float64) {
		t.Helper()
		if got == nil || !(math.Abs(*got-want) <= tol*math.Abs(want)) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	base := []string{"fit", data, "--order", "i", "-m", "laplace", "-q", "--out", fit, "-o", "prior_variance=2", "-o", "standardize=false"}

	ok(t, append(base, "-f", "z ~ u + g + offset(u / 3)", "-o", "family=gaussian", "-o", "dispersion=1.5")...)
	q := evaluated(t, data, "-b", fit)
	want := queried(t, "SELECT sqrt(avg((z - u / 3 - bglm_predict((SELECT bglm_laplace(o.z, {u: o.u, g: o.g}, {offset_: o.u / 3, family: 'gaussian', dispersion: 1.5, prior_variance: 2, standardize: false}) FROM '"+data+"' o WHERE o.i <> d.i), {u: u, g: g}))**2)) FROM '"+data+"' d")
	if q.How != leaveOneOut || q.N != 24 {
		t.Errorf("%+v", q)
	}
	near("RMSE of rows left out", q.RMSE, want, 1e-9)

	// A group is judged by its own fit, with the dispersion that it has learnt.
	ok(t, "fit", data, "-f", "z ~ u", "--group", "g", "-o", "family=gaussian", "-q", "--out", fit)
	q = evaluated(t, data, "-b", fit)
	near("coverage by groups", q.Coverage, queried(t, `WITH f AS (SELECT g, bglm_laplace(z, {u: u}, {family: 'gaussian'}) AS fit FROM '`+data+`' GROUP BY g),
		r AS (SELECT z, fit, bglm_predict_dist(fit, {u: u}) AS d, bglm_influence(fit, z, {u: u}) AS i FROM '`+data+`' JOIN f USING (g)),
		c AS (SELECT z, d.eta_mean - i.residual * d.eta_variance / (1 - i.leverage) AS m, sqrt(d.eta_variance / (1 - i.leverage) + fit.dispersion) AS sd FROM r)
		SELECT avg((abs(z - m) <= 1.959963984540054 * sd)::INT) FROM c`), 1e-12)

	ok(t, append(base, "-f", "b ~ u + g", "-o", "weight=w")...)
	q = evaluated(t, data, "-b", fit)
	near("log loss of rows left out", q.LogLoss, queried(t, "SELECT -sum(w * bglm_influence(fit, b, {u: u, g: g}, {weight: w}).loo_log_density) / sum(w) FROM '"+data+"', (SELECT bglm_laplace(b, {u: u, g: g}, {weight: w, prior_variance: 2, standardize: false}) AS fit FROM '"+data+"')"), 1e-6)

	ok(t, append(base, "-f", "cbind(s, t - s) ~ u")...)
	if q = evaluated(t, data, "-b", fit); q.How != leaveOneOut || q.RMSE == nil || !(*q.Mean < 1) {
		t.Errorf("shares: %+v", q)
	}

	// Other rows are said, and so are beliefs that do not say what they have learnt.
	if q = evaluated(t, data, "-b", fit, "--where", "i < 20"); q.How != otherRows {
		t.Errorf("a part: %+v", q)
	}
	query(t, "COPY (SELECT 'u' AS feature, 0.1 AS mean, 0.1 AS variance) TO '"+filepath.Join(dir, "p.parquet")+"'")
	if q = evaluated(t, data, "-b", filepath.Join(dir, "p.parquet"), "-o", "family=bernoulli", "-f", "b ~ u"); q.How != unknownRows {
		t.Errorf("beliefs alone: %+v", q)
	}
	if out := ok(t, "evaluate", data, "-b", fit).stdout; !strings.Contains(out, "predictions") || !strings.Contains(out, explained[leaveOneOut]) {
		t.Errorf("%s", out)
	}
}

// The stream of method auto is judged as it was learnt, without what was asked to be learnt and is
// not by a stream.
func TestProgressiveOfAuto(t *testing.T) {
	kerneltest.Slow(t)
	data := rowsFile(t, "rows.parquet")
	fit := filepath.Join(filepath.Dir(data), "f.parquet")
	for _, options := range [][]string{
		{"family=studentt", "dispersion=auto", "standardize=false", "process_noise=auto"}, {"family=studentt", "row_budget=100", "shape=auto"},
		{"family=gaussian", "row_budget=100", "prior_variance=auto", "dispersion=auto"},
	} {
		args := []string{"fit", data, "-f", "x ~ hour", "--order", "i", "--json", "--out", fit}
		for _, o := range options {
			args = append(args, "-o", o)
		}
		var sum struct {
			How      string  `json:"validation"`
			LogLoss  float64 `json:"log_loss"`
			Evidence float64 `json:"log_evidence"`
		}
		if err := json.Unmarshal([]byte(ok(t, args...).stdout), &sum); err != nil {
			t.Fatal(err)
		}
		if sum.How != progressive || !(math.Abs(sum.LogLoss+sum.Evidence/6000) < 0.05) {
			t.Errorf("%v: %+v", options, sum)
		}
		if q := evaluated(t, data, "-b", fit); q.How != progressive {
			t.Errorf("%v: %+v", options, q)
		}
	}
}

// A stream is judged by its progressive predictions: their log loss is its evidence a row.
func TestEvaluateProgressive(t *testing.T) {
	data := rowsFile(t, "rows.parquet")
	fit := filepath.Join(filepath.Dir(data), "f.parquet")
	var sum struct {
		Evidence float64 `json:"log_evidence"`
	}
	out := ok(t, "fit", data, "--order", "i DESC", "-m", "adf", "-f", "y ~ .- i - day", "-o", "prior_variance=1", "-o", "covariance=diagonal", "--json", "--out", fit).stdout
	if err := json.Unmarshal([]byte(out), &sum); err != nil {
		t.Fatal(err)
	}
	q := evaluated(t, data, "-b", fit, "--bins", "7")
	want := -sum.Evidence / 6000
	if q.How != progressive || q.N != 6000 || q.LogLoss == nil || math.Abs(*q.LogLoss-want) > 1e-9 || len(q.Course) != 7 {
		t.Fatalf("want %v: %+v", want, q)
	}
	n, loss := int64(0), 0.0
	for _, p := range q.Course {
		if p.From != n+1 || p.AUC == nil || p.Observed == nil || !(*p.Predicted > 0 && *p.Predicted < 1) {
			t.Errorf("%+v after %d rows", p, n)
		}
		n += p.N
		loss += *p.LogLoss * float64(p.N)
	}
	if n != 6000 || math.Abs(loss/6000-want) > 1e-9 {
		t.Errorf("%d rows of loss %v, want %v", n, loss/6000, want)
	}
	if out = ok(t, "evaluate", data, "-b", fit).stdout; !strings.Contains(out, "from row") || !strings.Contains(out, explained[progressive]) {
		t.Errorf("%s", out)
	}
	// One that has learnt more than these rows cannot say what it was before them.
	more := filepath.Join(filepath.Dir(data), "more.parquet")
	ok(t, "fit", data, "--prior", fit, "-m", "adf", "-f", "y ~ ad + x", "-q", "--out", more, "-o", "columns=any")
	if q = evaluated(t, data, "-b", more); q.How != fitted {
		t.Errorf("continued: %+v", q)
	}
}

// A fit that started from beliefs is not run again without them, as another model: a stream is not
// judged by what one from nothing predicts, nor are classes by fits of four fifths alone.
func TestStartsAreNotForgotten(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data, start, fit := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "start.parquet"), filepath.Join(dir, "f.parquet")
	query(t, "COPY (SELECT i, i % 7 / 3.0 - 1 AS x, hash(i) % 3 = 0 AS y, hash(i) % 3 AS k FROM range(60) t(i)) TO '"+data+"'")
	query(t, "COPY (SELECT bglm_from_beliefs([{feature: '(Intercept)', mean: 0.0, variance: 1.0}, {feature: 'x', mean: -5.0, variance: 0.01}]) AS fit) TO '"+start+"'")
	ok(t, "fit", data, "-f", "y ~ x", "-m", "adf", "--order", "i", "--prior", start, "-q", "--out", fit)
	q := evaluated(t, data, "-b", fit)
	want := queried(t, "SELECT bglm_log_loss(y, bglm_predict(fit, {x: x})) FROM '"+data+"', (SELECT bglm_adf(y, {x: x}, {prior: (SELECT fit FROM '"+start+"')} ORDER BY i) AS fit FROM '"+data+"')")
	if q.How != fitted || !(math.Abs(*q.LogLoss-want) < 1e-9) {
		t.Errorf("stream: %s, log loss %v, want %v", q.How, *q.LogLoss, want)
	}
	page := filepath.Join(dir, "r.html")
	ok(t, "report", data, "-b", fit, "-q", "--out", page)
	if text, err := os.ReadFile(page); err != nil || strings.Contains(string(text), "learnt again") {
		t.Errorf("report: a stream from nothing is shown, %v", err)
	}

	ok(t, "fit", data, "-f", "k ~ x", "-m", "softmax", "-q", "--out", start)
	ok(t, "fit", data, "--where", "i < 30", "-f", "k ~ x", "-m", "softmax", "--prior", start, "-q", "--out", fit)
	if q := evaluated(t, data, "-b", fit, "--where", "i < 30"); q.How != fitted {
		t.Errorf("classes: %s", q.How)
	}

	ledger := filepath.Join(dir, "m.duckdb")
	query(t, "COPY (SELECT bglm_from_beliefs([{feature: 'x', mean: -5.0, variance: 0.01}]) AS fit) TO '"+start+"'")
	ok(t, "fit", data, "-f", "y ~ x", "-m", "adf", "--incremental", "--prior", start, "-q", "--out", ledger)
	query(t, "COPY (SELECT i, x, NOT y AS y FROM '"+data+"') TO '"+filepath.Join(dir, "d2.parquet")+"'")
	ok(t, "fit", data, filepath.Join(dir, "d2.parquet"), "-f", "y ~ x", "-m", "adf", "--incremental", "-q", "--out", ledger)
	ok(t, "report", data, "-b", ledger, "-q", "--out", page)
	if text, err := os.ReadFile(page); err != nil || strings.Contains(string(text), "learnt again") {
		t.Errorf("report of a ledger: a stream from nothing is shown, %v", err)
	}
}

// Weights that drift are those of the last row: what another row's own time says without it is not
// in the fit, and no figure is called leave-one-out.
func TestDriftHasNoLeaveOneOut(t *testing.T) {
	dir := t.TempDir()
	data, fit := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "f.parquet")
	ok(t, "sql", "-c", "COPY (SELECT i AS t, hash(i) % 2 = 0 AS y FROM range(60) r(i)) TO '"+data+"'")
	for noise, want := range map[string]string{"0": leaveOneOut, "0.05": fitted} {
		out := ok(t, "fit", data, "-f", "y ~ 1", "-m", "ep", "-o", "time=t", "-o", "process_noise="+noise, "--out", fit).stdout
		if strings.Contains(out, "leave-one-out log loss") != (want == leaveOneOut) {
			t.Errorf("process_noise %s:\n%s", noise, out)
		}
		if q := evaluated(t, data, "-b", fit); q.How != want {
			t.Errorf("process_noise %s: %+v", noise, q)
		}
	}
}

// A newcomer's file of a few rows, where every column is of levels that one row has: what others
// predict of a row is near the base rate, whatever the fit says of it, and rows that cannot be
// left out are said, not dropped.
func TestDecisiveRows(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	csv := filepath.Join(dir, "own.csv")
	if err := os.WriteFile(csv, []byte("id,age,city,income,bought\n1,34,Berlin,52000,yes\n2,45,Paris,61000,no\n3,NA,Berlin,48000,yes\n4,29,Rome,-,no\n5,51,Paris,75000,yes\n6,38,Rome,50000,no\n7,27,Berlin,39000,no\n8,60,Paris,90000,yes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fit := filepath.Join(dir, "f.parquet")
	for formula, want := range map[string]string{"bought ~ .": "leave-one-out log loss", "bought ~ age + city": "no leave-one-out figure"} {
		args := []string{"fit", csv, "-f", formula, "--out", fit}
		out := ok(t, args...).stdout
		for _, w := range []string{"base rate 0.5, its log loss 0.6931", want, "8 of the 8 rows weigh so much"} {
			if !strings.Contains(out, w) {
				t.Errorf("%s does not say %q:\n%s", formula, w, out)
			}
		}
		var sum learnt
		if err := json.Unmarshal([]byte(ok(t, append(args, "--json")...).stdout), &sum); err != nil {
			t.Fatal(err)
		}
		// Refits without each row give 0.81; a row whose levels are new is near the base rate, 0.69.
		if sum.Rows != 8 || sum.Unsure != 8 || sum.LogLoss != nil && math.Abs(*sum.LogLoss-0.81) > 0.15 {
			t.Errorf("%s: %+v, log loss %v", formula, sum, number(sum.LogLoss, "%v"))
		}
		if q := evaluated(t, csv, "-b", fit); q.Unsure != 8 || q.N+q.Missing != 8 {
			t.Errorf("%s: %+v", formula, q)
		}
	}
}

// A low-rank likelihood has not seen the directions that it leaves out: no row can be taken out of
// them, and what was learnt is shown as it is. Of full rank it is Laplace's.
func TestLowRankLeftOut(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data, fit := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "f.parquet")
	query(t, "COPY (SELECT hash(i) % 10 < 3 + i % 40 // 10 AS y, 'l' || i % 40 AS l, sin(i) AS x FROM range(800) t(i)) TO '"+data+"'")
	left := func(args ...string) learnt {
		var sum learnt
		args = append([]string{"fit", data, "-f", "y ~ l + x", "--option", "prior_variance=1", "--out", fit, "--json"}, args...)
		if err := json.Unmarshal([]byte(ok(t, args...).stdout), &sum); err != nil {
			t.Fatal(err)
		}
		return sum
	}
	laplace, full, low := left("--method", "laplace"), left("--method", "lowrank"), left("--method", "lowrank", "--option", "rank=2")
	if full.How != leaveOneOut || full.LogLoss == nil || math.Abs(*full.LogLoss-*laplace.LogLoss) > 1e-6 {
		t.Errorf("full rank: %+v, laplace %+v", full, laplace)
	}
	if low.How != "" || low.LogLoss != nil || low.AUC != nil {
		t.Errorf("rank 2: %+v", low)
	}
	if q := evaluated(t, data, "-b", fit); q.How != fitted {
		t.Errorf("evaluate: %+v", q)
	}
}

// A model without features tells no row from another: pairs that are left out are ties, in every
// command, where rows left out one by one would be ranked the wrong way round.
func TestNoSignalIsHalf(t *testing.T) {
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	data := path("rows.parquet")
	query(t, "COPY (SELECT i * 7919 % 1000 < 300 AS y, i % 7 AS w FROM range(500) t(i)) TO '"+data+"'")
	if out := ok(t, "fit", data, "-f", "y ~ 1 + offset(w / 10)", "-o", "weight=w + 1", "--out", path("o.parquet")).stdout; strings.Contains(out, "AUC 0.5000") {
		t.Errorf("offsets tell rows apart: %s", out)
	}
	if out := ok(t, "fit", data, "-f", "y ~ 1", "--out", path("f.parquet")).stdout; !strings.Contains(out, "AUC 0.5000") {
		t.Errorf("fit: %s", out)
	}
	if out := ok(t, "evaluate", "-b", path("f.parquet"), data).stdout; !strings.Contains(out, "│ AUC             │ 0.5 ") {
		t.Errorf("evaluate: %s", out)
	}
	ok(t, "report", "-b", path("f.parquet"), data, "--out", path("r.html"), "-q")
}

// Responses of every family have a law without features to be better than. A fit of the intercept
// alone is that law, but for what leaving a row out costs: about a parameter for each row.
func TestBaseLoss(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "rows.parquet")
	query(t, "COPY (SELECT i % 10 AS c, i % 10 * (i % 7) AS d, sin(i) AS z, exp(sin(i * i)) AS g, tan(i) AS h, i % 3 AS s, 3 + i % 2 AS t, i % 4 = 0 AS b FROM range(400) t(i)) TO '"+data+"'")
	for _, c := range []struct{ text, option, law string }{
		{"b ~ 1", "family=bernoulli", "avg(-0.25 * ln(0.25) - 0.75 * ln(0.75))"},
		{"z ~ 1", "family=gaussian", "0.5 * ln(2 * pi() * var_pop(z)) + 0.5"},
		{"b::INT ~ 1", "family=gaussian", "0.5 * ln(2 * pi() * var_pop(b::INT)) + 0.5"}, // of 0 and 1, but a density
		{"c ~ 1", "family=poisson", "avg(4.5 - c * ln(4.5) + lgamma(c + 1))"},
		{"cbind(s, t - s) ~ 1", "family=binomial", "-sum(s) * ln(sum(s) / sum(t)) / count(*) - sum(t - s) * ln(1 - sum(s) / sum(t)) / count(*) - avg(lgamma(t + 1) - lgamma(s + 1) - lgamma(t - s + 1))"},
		{"d ~ 1", "family=negbinomial", ""},
		{"g ~ 1", "family=gamma", ""},
		{"h ~ 1", "family=studentt", ""},
	} {
		var sum learnt
		if err := json.Unmarshal([]byte(ok(t, "fit", data, "-f", c.text, "-o", c.option, "--out", filepath.Join(dir, "f.parquet"), "--json").stdout), &sum); err != nil {
			t.Fatal(err)
		}
		if sum.BaseLoss == nil || sum.LogLoss == nil {
			t.Errorf("%s: %+v", c.option, sum)
			continue
		}
		if more := *sum.LogLoss - *sum.BaseLoss; !(more > 0 && more < 3./400) {
			t.Errorf("%s: %v, left out %v", c.option, *sum.BaseLoss, *sum.LogLoss)
		}
		if c.law != "" {
			if want := queried(t, "SELECT "+c.law+" FROM '"+data+"'"); math.Abs(*sum.BaseLoss-want) > 1e-9 {
				t.Errorf("%s: %v, want %v", c.option, *sum.BaseLoss, want)
			}
		}
	}
	if out := ok(t, "fit", data, "-f", "d ~ z", "-o", "family=negbinomial", "--out", filepath.Join(dir, "f.parquet")).stdout; !strings.Contains(out, "its log loss a row 3.5722, leave-one-out") {
		t.Error(out)
	}
}

// Rows without response, of which a stream makes no prediction, are counted as missing.
func TestEvaluateStreamCountsMissing(t *testing.T) {
	dir := t.TempDir()
	data, fit := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "f.parquet")
	query(t, "COPY (SELECT i, CASE WHEN i % 10 <> 3 THEN i * 7 % 5 < 2 END AS y, i % 7 AS u FROM range(60) t(i)) TO '"+data+"'")
	for _, method := range []string{"adf", "laplace"} {
		ok(t, "fit", data, "-f", "y ~ u", "-m", method, "--order", "i", "-q", "--out", fit)
		if q := evaluated(t, data, "-b", fit); q.N != 54 || q.Missing != 6 {
			t.Errorf("%s: %+v", method, q)
		}
	}
}

// The deviation of a column of levels beside slopes is that where their number is 0, and the one
// about which they are independent is said: of rows about u = 4 it is 3.
func TestFitTellsOrigin(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data, fit := filepath.Join(dir, "d.csv"), filepath.Join(dir, "f.parquet")
	query(t, "COPY (SELECT 'g' || g AS g, u, 3 * sqrt(2) * sin(g * pi() / 20) + 2 * (u - 4) * sqrt(2) * cos(g * pi() / 20) + sin(137.0 * g * u) AS y FROM range(40) a(g), range(9) b(u)) TO '"+data+"'")
	out := ok(t, "fit", data, "-f", "y ~ u + (u || g)", "-o", "family=gaussian", "--out", fit).stdout
	const says = "sd(g) is that where u is 0; at its mean, 4, where the weights of g and of u:g are independent, it is "
	_, rest, found := strings.Cut(out, says)
	var there float64
	if _, err := fmt.Sscanf(rest, "%g:", &there); !found || err != nil || math.Abs(there-3) > 0.2 {
		t.Errorf("%v, %v in\n%s", there, err, out)
	}
	for _, text := range []string{"y ~ u + (u | g)", "y ~ I(u - 4) + (I(u - 4) || g)", "y ~ u + (1 | g)"} {
		if out := ok(t, "fit", data, "-f", text, "-o", "family=gaussian", "--out", fit).stdout; strings.Contains(out, "is that where") {
			t.Errorf("%s:\n%s", text, out)
		}
	}
}

// Of counts with an exposure no base loss is told, also where all are 0 or 1: one rate for all rows
// knows nothing of the exposure, and its loss was below that of the law that the rows were drawn
// from.
func TestBaseLossOfExposures(t *testing.T) {
	dir := t.TempDir()
	data, fit := filepath.Join(dir, "d.csv"), filepath.Join(dir, "f.parquet")
	query(t, "COPY (SELECT i % 7 * 0.1 AS x, 1 + i % 50 AS t, (i * 37 % 50 < 25)::INT AS d FROM range(200) r(i)) TO '"+data+"'")
	for family, want := range map[string]bool{"poisson": false, "bernoulli": true} {
		out := ok(t, "fit", data, "-f", "d ~ x + offset(ln(t))", "-o", "family="+family, "--out", fit).stdout
		if strings.Contains(out, "its log loss") != want || !strings.Contains(out, "leave-one-out log loss") {
			t.Errorf("%s:\n%s", family, out)
		}
	}
}

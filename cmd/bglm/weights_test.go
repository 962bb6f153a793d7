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

// weighedRows makes two files of the same rows: all of them, and equal ones once with the weight w.
func weighedRows(t *testing.T) (all, once string) {
	t.Helper()
	dir := t.TempDir()
	all, once = filepath.Join(dir, "all.parquet"), filepath.Join(dir, "once.parquet")
	query(t, "COPY (SELECT i, (i * 37 % 11) / 4.0 AS x, 'g' || i % 3 AS g, i % 2 = 0 AS y, i % 4 AS c, (i * 7 % 5) / 2.0 + (i * 37 % 11) / 4.0 AS z, i % 3 AS k, CASE WHEN i = 8 THEN 0 ELSE 1 + (i * 31) % (1 + 3 * (i % 2)) END AS w FROM range(44) t(i)) TO '"+once+"'")
	query(t, "COPY (SELECT * FROM '"+once+"' JOIN range(9) t(j) ON j < w) TO '"+all+"'")
	return all, once
}

// Rows with weights are measured as a table is that has each as often as its weight says: the line
// of a fit, what evaluate prints, also of the user's predictions, and the report.
func TestWeightsCountRows(t *testing.T) {
	kerneltest.Slow(t)
	all, once := weighedRows(t)
	fits := []string{filepath.Join(filepath.Dir(all), "all.fit.parquet"), filepath.Join(filepath.Dir(all), "once.fit.parquet")}
	same := func(what string, got, want *float64) {
		t.Helper()
		if (got == nil) != (want == nil) || got != nil && !(math.Abs(*got-*want) <= 2e-7*(1+math.Abs(*want))) {
			t.Errorf("%s: %s of weighted rows, %s of all", what, number(got, "%.10g"), number(want, "%.10g"))
		}
	}
	for _, c := range [][]string{
		{"-f", "y ~ x + g"},
		{"-f", "z ~ x + g", "-o", "family=gaussian", "-o", "dispersion=0.5"},
		{"-f", "c ~ x + g", "-o", "family=poisson"},
		{"-f", "c ~ x", "-o", "family=poisson", "-m", "ep"},
		{"-f", "y ~ x", "--group", "g"},
	} {
		var sums [2]learnt
		var q, own [2]quality
		for k, data := range []string{all, once} {
			args := append([]string{"fit", data, "--out", fits[k], "--json", "-o", "prior_variance=2", "-o", "standardize=false"}, c...)
			if k == 1 {
				args = append(args, "-o", "weight=w")
			}
			if err := json.Unmarshal([]byte(ok(t, args...).stdout), &sums[k]); err != nil {
				t.Fatal(err)
			}
			q[k], own[k] = evaluated(t, data, "-b", fits[k]), evaluated(t, data, "-b", fits[k], "--fitted")
		}
		what := strings.Join(c, " ")
		if q[1].How != leaveOneOut || own[1].How != fitted || q[1].N != 43 || q[1].Weight == nil || *q[1].Weight != float64(q[0].N) || q[0].Weight != nil {
			t.Errorf("%s: %+v\n%+v", what, q[1], q[0])
		}
		if out := ok(t, "evaluate", once, "-b", fits[1]).stdout; !strings.Contains(out, "A row of weight w counts as w rows, of which one is left out.") {
			t.Error(out)
		}
		if s := sums[1]; s.How != "" {
			same(what+", weight", s.Weight, q[1].Weight)
		}
		for name, of := range map[string]func(learnt) *float64{"base rate": func(l learnt) *float64 { return l.Mean }, "log loss": func(l learnt) *float64 { return l.LogLoss },
			"base loss": func(l learnt) *float64 { return l.BaseLoss }, "AUC": func(l learnt) *float64 { return l.AUC }} {
			if name == "log loss" && strings.Contains(what, "-m ep") {
				continue // ep's factor of a weighted row is not that of its copies
			}
			same(what+", "+name, of(sums[1]), of(sums[0]))
		}
		for how, q := range map[string][2]quality{"left out": q, "as fitted": own} {
			if strings.Contains(what, "-m ep") {
				continue
			}
			for name, of := range map[string]func(quality) *float64{"mean": func(q quality) *float64 { return q.Mean }, "mean prediction": func(q quality) *float64 { return q.Predicted },
				"log loss": func(q quality) *float64 { return q.LogLoss }, "AUC": func(q quality) *float64 { return q.AUC }, "Brier": func(q quality) *float64 { return q.Brier },
				"RMSE": func(q quality) *float64 { return q.RMSE }, "MAE": func(q quality) *float64 { return q.MAE }, "coverage": func(q quality) *float64 { return q.Coverage }} {
				same(what+", "+how+", "+name, of(q[1]), of(q[0]))
			}
			for i, want := range q[0].Calibration {
				if got := q[1].Calibration[i]; got.N != want.N || math.Abs(got.Predicted-want.Predicted)+math.Abs(got.Observed-want.Observed) > 1e-6 {
					t.Errorf("%s, %s: bin %+v, want %+v", what, how, got, want)
				}
			}
		}
	}
}

// The base rate of successes among trials is that of all trials: its log loss is the one printed.
func TestBaseRateOfTrials(t *testing.T) {
	data := filepath.Join(t.TempDir(), "trials.parquet")
	query(t, "COPY (SELECT i % 7 / 7.0 AS x, CASE WHEN i % 3 = 0 THEN 40 ELSE 1 END AS n, CASE WHEN i % 3 = 0 THEN 4 + i % 2 ELSE i % 2 END AS s, 1 + i % 4 AS w FROM range(60) t(i)) TO '"+data+"'")
	var sum learnt
	if err := json.Unmarshal([]byte(ok(t, "fit", data, "-f", "s ~ x", "-o", "trials=n", "-o", "weight=w", "--json", "--out", data+".fit.parquet").stdout), &sum); err != nil {
		t.Fatal(err)
	}
	from := "'" + data + "'"
	for name, c := range map[string]struct {
		got *float64
		sql string
	}{
		"base rate": {sum.Mean, "SELECT sum(w * s) / sum(w * n) FROM " + from},
		"base loss": {sum.BaseLoss, "SELECT -sum(w * (lgamma(n + 1) - lgamma(s + 1) - lgamma(n - s + 1) + s * ln(p) + (n - s) * ln(1 - p))) / sum(w) FROM " + from + ", (SELECT sum(w * s) / sum(w * n) AS p FROM " + from + ")"},
	} {
		want, err := strconv.ParseFloat(query(t, c.sql), 64)
		if err != nil || c.got == nil || math.Abs(*c.got-want) > 1e-9 {
			t.Errorf("%s %s, want %v (%v)", name, number(c.got, "%.10g"), want, err)
		}
	}
}

// Successes among trials are judged as so many rows of 0 and 1 are, however they were predicted, and
// the report compares the log loss of a trial with that of the share of all.
func TestEvaluateTrials(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data, single, fit, html := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "s.parquet"), filepath.Join(dir, "f.parquet"), filepath.Join(dir, "r.html")
	query(t, "COPY (SELECT i, i % 11 / 5.0 - 1 AS u, [1, 3, 40][1 + i % 3] AS n, least(n, hash(i) % 3 + (n * (0.5 + u / 3))::INT)::INT AS k, 1 + i % 2 AS w FROM range(90) t(i)) TO '"+data+"'")
	for how, c := range map[string]struct {
		method, p string
		flags     []string
	}{
		leaveOneOut: {"laplace", "SELECT k, n, w, bglm_loo_predict(fit, k, {u: u}, {trials: n, weight: w}).mean AS p FROM '" + data + "', (SELECT bglm_laplace(k, {u: u}, {trials: n, weight: w}) AS fit FROM '" + data + "')", nil},
		fitted:      {"laplace", "SELECT k, n, w, bglm_predict(fit, {u: u}) AS p FROM '" + data + "', (SELECT bglm_laplace(k, {u: u}, {trials: n, weight: w}) AS fit FROM '" + data + "')", []string{"--fitted"}},
		progressive: {"adf", "SELECT d.k, d.n, d.w, p FROM (SELECT unnest(list({k: k, n: n, w: w} ORDER BY i)) AS d, unnest(bglm_progressive(k, {u: u}, {trials: n, weight: w} ORDER BY i)).mean AS p FROM '" + data + "')", nil},
	} {
		ok(t, "fit", data, "-f", "k ~ u", "-m", c.method, "-o", "trials=n", "-o", "weight=w", "--order", "i", "-q", "--out", fit)
		query(t, "COPY (SELECT p, unnest(list_resize([]::INT[], k, 1) || list_resize([]::INT[], n - k, 0)) AS y, w FROM ("+c.p+")) TO '"+single+"'")
		got := evaluated(t, append([]string{data, "-b", fit}, c.flags...)...)
		want := evaluated(t, single, "--y", "y", "--p", "p", "-o", "weight=w")
		if got.How != how || got.N != 90 || got.AUC != nil || len(got.Calibration) != len(want.Calibration) {
			t.Fatalf("%s: %+v, want the measures of %+v", how, got, want)
		}
		for name, of := range map[string][2]*float64{"trials": {got.Trials, want.Weight}, "mean": {got.Mean, want.Mean}, "mean prediction": {got.Predicted, want.Predicted}, "log loss": {got.LogLoss, want.LogLoss}, "Brier score": {got.Brier, want.Brier}} {
			if of[0] == nil || of[1] == nil || math.Abs(*of[0]-*of[1]) > 1e-9*math.Abs(*of[1]) {
				t.Errorf("%s: %s %s, want %s", how, name, number(of[0], "%.12g"), number(of[1], "%.12g"))
			}
		}
		for i, b := range want.Calibration {
			if g := got.Calibration[i]; g.N != b.N || math.Abs(g.Predicted-b.Predicted)+math.Abs(g.Observed-b.Observed) > 1e-9 {
				t.Errorf("%s: bin %+v, want %+v", how, g, b)
			}
		}
		if (how == progressive) != (len(got.Course) > 0) {
			t.Errorf("%s: course %v", how, got.Course)
		}
		if total := 0.0; how == progressive {
			for _, p := range got.Course {
				total += *p.LogLoss * queried(t, fmt.Sprintf("SELECT sum(w * n) FROM '%s' WHERE i >= %d AND i < %d", data, p.From-1, p.From-1+p.N))
			}
			if want := *want.LogLoss * *want.Weight; math.Abs(total-want) > 1e-9*want {
				t.Errorf("the course loses %v, want %v", total, want)
			}
		}
		if c.flags != nil {
			continue // a report has no such flag
		}
		ok(t, "report", "-b", fit, data, "--out", html, "-q")
		b, err := os.ReadFile(html)
		if err != nil {
			t.Fatal(err)
		}
		base := queried(t, "SELECT -(m * ln(m) + (1 - m) * ln(1 - m)) FROM (SELECT sum(w * k) / sum(w * n) AS m FROM '"+data+"')")
		said := parsePage(t, b).id("verdict").content()
		if !strings.Contains(said, fmt.Sprintf("Log loss a trial %.4f (", *want.LogLoss)) || !strings.Contains(said, fmt.Sprintf(") against %.4f.", base)) || strings.Contains(said, "RMSE") {
			t.Errorf("%s: %s; want a log loss of %.4f against %.4f", how, said, *want.LogLoss, base)
		}
	}
}

// A number of trials or successes that no fit takes is an error that names the row, however the rows
// are predicted.
func TestEvaluateBadTrials(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data, bad := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "b.parquet")
	query(t, "COPY (SELECT i * 7 % 5 AS k, 4 + i % 3 AS n, i / 5 AS u FROM range(40) t(i)) TO '"+data+"'")
	for _, args := range [][]string{{"-f", "k ~ u"}, {"--y", "k", "--x", "[u]", "-m", "gp"}} {
		fit := filepath.Join(dir, "f.parquet")
		ok(t, append([]string{"fit", data, "-o", "trials=n", "-q", "--out", fit}, args...)...)
		for row, want := range map[string]string{"0, 0": "trials = 0: binomial takes whole numbers >= 1", "1, 2.5": "trials = 2.5: ", "5, 3": "y = 5: binomial takes a whole number of successes from 0 to trials (3)", "1.5, 3": "y = 1.5: ", "-1, 3": "y = -1: "} {
			query(t, "COPY (SELECT * FROM (VALUES (1.0, 3.0, 0.5), ("+row+", 0.1)) v(k, n, u)) TO '"+bad+"'")
			if r := bglm(t, "", "evaluate", bad, "-b", fit); r.code != 1 || !strings.Contains(r.stderr, "b.parquet, row 2: "+want) {
				t.Errorf("%v, %s: %d %s, want %s", args, row, r.code, r.stderr, want)
			}
		}
		query(t, "COPY (SELECT * FROM (VALUES (1.0, 3.0, 0.5), (NULL, 3, 0.1), (1, NULL, 0.1)) v(k, n, u)) TO '"+bad+"'")
		if q := evaluated(t, bad, "-b", fit); q.N != 1 || q.Missing != 2 {
			t.Errorf("%v: %+v, want one row of three", args, q)
		}
	}
}

// The sections of a report that count rows have the same text of weighted rows as of all.
func TestWeightsInReports(t *testing.T) {
	all, once := weighedRows(t)
	dir := filepath.Dir(all)
	var pages [2]*node
	for k, data := range []string{all, once} {
		fit, out := filepath.Join(dir, "f.parquet"), filepath.Join(dir, "r.html")
		args := []string{"fit", data, "--out", fit, "-q", "-o", "prior_variance=2", "-o", "standardize=false", "-f", "y ~ x + g"}
		if k == 1 {
			args = append(args, "-o", "weight=w")
		}
		ok(t, args...)
		ok(t, "report", "-b", fit, data, "--out", out, "-q")
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		pages[k] = parsePage(t, b)
	}
	for _, id := range []string{"verdict", "driving", "thresholds"} {
		got, want := pages[1].id(id), pages[0].id(id)
		if got == nil || want == nil || got.content() != want.content() {
			t.Errorf("%s of weighted rows:\n%s\nof all:\n%s", id, got.content(), want.content())
		}
	}
	if worst := pages[1].id("worst").content(); !strings.Contains(worst, "weight") {
		t.Error(worst)
	}
}

// Other rows need the weights of a fit that has some, or another that the user gives; so do
// predictions of the user's.
func TestWeightsOfOtherRows(t *testing.T) {
	all, once := weighedRows(t)
	dir := filepath.Dir(all)
	fit, bare, scores := filepath.Join(dir, "f.parquet"), filepath.Join(dir, "bare.parquet"), filepath.Join(dir, "s.parquet")
	query(t, "COPY (SELECT x, g, y FROM '"+all+"') TO '"+bare+"'")
	ok(t, "fit", once, "-f", "y ~ x + g", "-o", "weight=w", "-q", "--out", fit)
	r := bglm(t, "", "evaluate", bare, "-b", fit)
	if r.code != 2 || !strings.Contains(r.stderr, "--option weight=1") || !strings.Contains(r.stderr, "weight w") {
		t.Errorf("%d: %s", r.code, r.stderr)
	}
	plain := evaluated(t, bare, "-b", fit, "-o", "weight=1")
	fittedOnes := evaluated(t, once, "-b", fit, "--fitted")
	if plain.N != 72 && plain.N != int64(*fittedOnes.Weight) || math.Abs(*plain.LogLoss-*fittedOnes.LogLoss) > 1e-12 {
		t.Errorf("%+v\n%+v", plain, fittedOnes)
	}
	ok(t, "predict", bare, "-b", fit, "-q", "--out", scores) // needs no weight
	ok(t, "predict", once, "-b", fit, "-q", "--out", scores)
	q := evaluated(t, scores, "--y", "y", "--p", "prediction", "-o", "weight=w")
	if math.Abs(*q.LogLoss-*plain.LogLoss) > 1e-12 || *q.Weight != float64(plain.N) {
		t.Errorf("%+v", q)
	}
	if r := bglm(t, "", "evaluate", scores, "--y", "y", "--p", "prediction", "-o", "trials=2"); r.code != 2 || !strings.Contains(r.stderr, "allowed with --p: weight") {
		t.Errorf("%d: %s", r.code, r.stderr)
	}
	if r := bglm(t, "", "evaluate", scores, "--y", "y", "--p", "prediction", "-o", "weight=w - 3"); r.code != 1 || !strings.Contains(r.stderr, "weight = -") {
		t.Errorf("%d: %s", r.code, r.stderr)
	}
}

// Of classes a row of weight w is w rows for every measure.
func TestWeightsOfClasses(t *testing.T) {
	kerneltest.Slow(t)
	all, once := weighedRows(t)
	fit := filepath.Join(filepath.Dir(all), "f.parquet")
	ok(t, "fit", all, "-f", "k ~ x + g", "-m", "softmax", "-q", "--out", fit)
	a, b := evaluated(t, all, "-b", fit, "--fitted"), evaluated(t, once, "-b", fit, "--fitted", "-o", "weight=w")
	if b.Weight == nil || *b.Weight != float64(a.N) || a.Weight != nil {
		t.Errorf("%+v\n%+v", a, b)
	}
	for what, v := range map[string][2]*float64{"log loss": {a.LogLoss, b.LogLoss}, "base loss": {a.BaseLoss, b.BaseLoss}, "Brier": {a.Brier, b.Brier}, "accuracy": {a.Accuracy, b.Accuracy}} {
		if v[0] == nil || v[1] == nil || math.Abs(*v[0]-*v[1]) > 1e-12 {
			t.Errorf("%s: %s, %s", what, number(v[0], "%v"), number(v[1], "%v"))
		}
	}
	for k := range a.Classes {
		if x, y := fmt.Sprintf("%.9v %v", a.Classes[k].Share, a.Classes[k].Taken), fmt.Sprintf("%.9v %v", b.Classes[k].Share, b.Classes[k].Taken); x != y {
			t.Errorf("%s, want %s", y, x)
		}
	}
}

// A response that was ruled out makes the log loss infinite, which is said with how many there are.
func TestRuledOut(t *testing.T) {
	data := filepath.Join(t.TempDir(), "p.csv")
	query(t, "COPY (FROM (VALUES (1, 0.5), (1, 0), (0, 1.0), (0, 0.25)) t(y, p)) TO '"+data+"'")
	args := []string{"evaluate", data, "--y", "y", "--p", "p"}
	if q := evaluated(t, args[1:]...); q.RuledOut != 2 || q.LogLoss != nil || q.Brier == nil {
		t.Errorf("%+v", q)
	}
	if out := ok(t, args...).stdout; !strings.Contains(out, "The log loss is infinite: the responses of 2 rows were given the probability 0.") {
		t.Error(out)
	}
}

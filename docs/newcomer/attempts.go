package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
)

// try is a plain first attempt.
type try struct {
	name string // what the newcomer does
	call string // how
	must string // the verdict, where only one will do
	run  func(c *Context, s *session, t *try) *outcome
}

// people is a table as people have it: money, years and a town.
const people = "{income: income, age: age, city: city}"

// shops is people with a column of many levels, each of a few rows.
const shops = "{income: income, age: age, city: city, shop: 's' || hash(i) % 1000}"

// sqlTry fits and predicts by SQL; the call is the aggregate, and x what it predicts from.
func sqlTry(name, must, family, call, x string, rows ...string) try {
	return try{name, "`" + call + "`", must, func(c *Context, s *session, t *try) *outcome {
		if err := s.world(7, family, 4000, 10); err != nil {
			return failure(err)
		}
		for _, r := range rows {
			if err := s.exec("CREATE OR REPLACE TABLE rows AS " + r); err != nil {
				return failure(err)
			}
		}
		predict := "bglm_predict(fit, " + x + ")"
		if strings.HasPrefix(call, "bglm_softmax") {
			predict += "['1']"
		}
		return s.attempt(family, call, predict)
	}}
}

var tries = []try{
	sqlTry("columns in their own units", right, "bernoulli", "bglm_fit(y, "+people+")", people),
	sqlTry("columns in their own units, one pass", right, "bernoulli", "bglm_adf(y, "+people+" ORDER BY i)", people),
	sqlTry("columns in their own units, without ORDER BY", right, "bernoulli", "bglm_adf(y, "+people+")", people),
	sqlTry("columns in their own units, factorised", "", "bernoulli", "bglm_adf(y, "+people+", {covariance: 'diagonal'} ORDER BY i)", people),
	sqlTry("columns in their own units, full covariance", "", "bernoulli", "bglm_adf(y, "+people+", {covariance: 'full'} ORDER BY i)", people),
	sqlTry("columns in their own units, sequential Laplace", "", "bernoulli", "bglm_sequential_laplace(y, "+people+" ORDER BY i)", people),
	sqlTry("columns in their own units, variational", "", "bernoulli", "bglm_variational(y, "+people+" ORDER BY i)", people),
	sqlTry("columns in their own units, EKF", "", "bernoulli", "bglm_ekf(y, "+people+" ORDER BY i)", people),
	sqlTry("columns in their own units, EP", "", "bernoulli", "bglm_ep(y, "+people+")", people),
	sqlTry("columns in their own units, prior given", "", "bernoulli", "bglm_adf(y, "+people+", {prior_variance: 1.0} ORDER BY i)", people),
	sqlTry("rows sorted by outcome", "", "bernoulli", "bglm_adf(y, "+people+" ORDER BY y)", people),
	sqlTry("rows sorted by outcome, factorised", "", "bernoulli", "bglm_adf(y, "+people+", {covariance: 'diagonal'} ORDER BY y)", people),
	sqlTry("rows sorted by outcome, batch method", right, "bernoulli", "bglm_fit(y, "+people+" ORDER BY y)", people),
	sqlTry("an id among the columns", right, "bernoulli", "bglm_fit(y, {id: i, income: income, age: age, city: city})", "{id: i, income: income, age: age, city: city}"),
	sqlTry("an id among the columns, one pass", "", "bernoulli", "bglm_adf(y, {id: i, income: income, age: age, city: city} ORDER BY i)", "{id: i, income: income, age: age, city: city}"),
	sqlTry("fitted to some columns, predicted from all", right, "bernoulli", "bglm_fit(y, "+people+")", "{id: i + 1000000000, y: y, city: city, age: age, income: income, eta: eta}"),
	sqlTry("column names in another case", right, "bernoulli", "bglm_fit(y, "+people+")", "{Income: income, AGE: age, City: city}"),
	sqlTry("a column missing at prediction", anError, "bernoulli", "bglm_fit(y, "+people+")", "{income: income, city: city}"),
	sqlTry("a number for a column of levels", anError, "bernoulli", "bglm_fit(y, "+people+")", "{income: income, age: age, city: 3}"),
	sqlTry("a level never seen", right, "bernoulli", "bglm_fit(y, "+people+")", people, "SELECT * REPLACE (CASE WHEN i > 3900 THEN 'new' ELSE city END AS city) FROM rows"),
	sqlTry("NULL in a list of numbers", right, "bernoulli", "bglm_fit(y, "+list+")", list,
		"SELECT * REPLACE (CASE WHEN i % 10 = 2 THEN NULL ELSE 300 + v END AS v) FROM rows"),
	sqlTry("NULL in a list of numbers, one pass", right, "bernoulli", "bglm_adf(y, "+list+" ORDER BY i)", list, "SELECT * REPLACE (CASE WHEN i % 10 = 2 THEN NULL ELSE 300 + v END AS v) FROM rows"),
	sqlTry("NULL in a numeric column", right, "bernoulli", "bglm_fit(y, "+people+")", people, "SELECT * REPLACE (CASE WHEN i % 10 = 2 THEN NULL ELSE age END AS age) FROM rows"),
	sqlTry("a response in thousands", right, "gaussian", "bglm_fit(y, "+people+", {family: 'gaussian'})", people, thousands),
	sqlTry("a response in thousands, one pass", right, "gaussian", "bglm_adf(y, "+people+", {family: 'gaussian'} ORDER BY i)", people, thousands),
	sqlTry("1,000 shops without effect, one pass", right, "gaussian", "bglm_adf(y, "+shops+", {family: 'gaussian'} ORDER BY i)", shops, thousands),
	sqlTry("a response in thousands, Laplace", right, "gaussian", "bglm_laplace(y, "+people+", {family: 'gaussian'})", people, thousands),
	sqlTry("a response in thousands, EP", "", "gaussian", "bglm_ep(y, "+people+", {family: 'gaussian'})", people, thousands),
	sqlTry("a response in thousands, Student's t", "", "gaussian", "bglm_fit(y, "+people+", {family: 'studentt'})", people, thousands),
	sqlTry("a response in thousands, outliers, Student's t, one pass", right, "gaussian", "bglm_adf(y, "+people+", {family: 'studentt'} ORDER BY i)", people, thousands, outliers),
	sqlTry("a response in billionths", right, "gaussian", "bglm_fit(y, "+people+", {family: 'gaussian'})", people, "SELECT * REPLACE (1e-9 * y AS y, 1e-9 * eta AS eta) FROM rows"),
	sqlTry("counts", right, "poisson", "bglm_fit(y, "+people+", {family: 'poisson'})", people),
	sqlTry("counts, one pass", right, "poisson", "bglm_adf(y, "+people+", {family: 'poisson'} ORDER BY i)", people),
	sqlTry("overdispersed counts, drift learnt", "", "poisson", "bglm_adf(y, "+people+", {family: 'poisson', process_noise: 'auto'} ORDER BY i)", people, overdispersed),
	sqlTry("overdispersed counts, negbinomial, drift learnt", "", "poisson", "bglm_adf(y, "+people+", {family: 'negbinomial', process_noise: 'auto'} ORDER BY i)", people, overdispersed),
	sqlTry("an exposure as a number, negbinomial", "", "poisson", "bglm_fit(y, "+shared+", {family: 'negbinomial'})", shared, exposed),
	sqlTry("an exposure as a number, negbinomial, one pass", "", "poisson", "bglm_adf(y, "+shared+", {family: 'negbinomial'} ORDER BY i)", shared, exposed),
	sqlTry("one random walk for another", said, "gaussian", "bglm_fit(y, "+people+", {family: 'gaussian'} ORDER BY i)", people, walks),
	sqlTry("one random walk for another, one pass", said, "gaussian", "bglm_adf(y, "+people+", {family: 'gaussian'} ORDER BY i)", people, walks),
	sqlTry("counts with a cause of zeros of their own, negbinomial", "", "poisson", "bglm_fit(y, "+people+", {family: 'negbinomial'})", people, moreZeros),
	sqlTry("a response highest in middle age", said, "gaussian", "bglm_fit(y, "+people+", {family: 'gaussian'})", people, middleAge),
	sqlTry("a response highest in middle age, one pass", said, "gaussian", "bglm_adf(y, "+people+", {family: 'gaussian'})", people, middleAge),
	sqlTry("a response highest in middle age, the square given", right, "gaussian", "bglm_fit(y, "+squared+", {family: 'gaussian'})", squared, middleAge),
	sqlTry("an effect of age that depends on income", said, "bernoulli", "bglm_fit(y, "+people+")", people, dependsOnIncome),
	sqlTry("an effect of age that depends on income, one pass", said, "bernoulli", "bglm_adf(y, "+people+")", people, dependsOnIncome),
	sqlTry("an effect of age that depends on income, both given", right, "bernoulli", "bglm_fit(y, "+both+")", both, dependsOnIncome),
	sqlTry("an effect of age that turns over as rows come", said, "bernoulli", "bglm_fit(y, "+people+" ORDER BY i)", people, turnsOver),
	sqlTry("an effect of age that turns over as rows come, one pass", said, "bernoulli", "bglm_adf(y, "+people+" ORDER BY i)", people, turnsOver),
	sqlTry("classes", right, "bernoulli", "bglm_softmax(y, "+people+")", people),
	sqlTry("classes, an effect of age that depends on income", said, "bernoulli", "bglm_softmax(y, "+people+")", people, dependsOnIncome),
	{"3,000 words in a list", "`bglm_laplace(y, x)`", right, manyWords("bglm_laplace(y, x)")},
	{"3,000 words, prior variance learnt", "`bglm_laplace(y, x, {prior_variance: 'auto'})`", right, manyWords("bglm_laplace(y, x, {prior_variance: 'auto'})")},
	{"3,000 words, bglm_fit", "`bglm_fit(y, x)`", right, manyWords("bglm_fit(y, x)")},
	{"3,000 words, one pass", "`bglm_adf(y, x)`", "", manyWords("bglm_adf(y, x ORDER BY i)")},
	{"a learnt variance raises the evidence", "`{prior_variance: 'auto'}` of laplace, ep and lowrank", right, evidence},
	{"factorised EP on ordinary tables", "`bglm_ep(y, x, {covariance: 'diagonal'})`", "", factorised},
	{"NA in a CSV", "`bglm_fit(y, {u: u, v: v}) FROM 'rows.csv'`", "", notAvailable},
	{"columns in their own units, Go", "`engine.Fit(ctx, \"laplace\", nil, table)`", right, inGo("laplace")},
	{"columns in their own units, one pass, Go", "`engine.Fit(ctx, \"adf\", nil, table)`", right, inGo("adf")},
	{"a CSV, command line", "`bglm fit --formula 'y ~ income + age + city'`", right, commandLine("y ~ income + age + city", "")},
	{"a CSV with an id, command line", "`bglm fit --formula 'y ~ .'`", right, commandLine("y ~ .", "")},
	{"NA in a CSV, command line", "`bglm fit --formula 'y ~ income + age + city'`", "", commandLine("y ~ income + age + city", "NA")},
}

const (
	// list is the same table as a list of numbers.
	list = "list_concat([u, v], [(g = 'l' || k)::INT::DOUBLE FOR k IN range(9)])"
	// thousands is a response in thousands.
	thousands = "SELECT * REPLACE (54000 + 8000 * y AS y, 54000 + 8000 * eta AS eta) FROM rows"
	// outliers moves one in forty of the rows learnt far away.
	outliers = "SELECT * REPLACE (CASE WHEN i % 40 = 3 AND i <= 2000 THEN y + 1e6 ELSE y END AS y) FROM rows"
	// exposed multiplies the counts by a whole number, of which a few are very large.
	exposed = "SELECT * REPLACE (e * y AS y, eta + ln(e) AS eta) FROM (SELECT *, ceil(exp(1.5 * sqrt(-2 * ln((hash(i, 5) % 10000 + 1) / 10001.0)) * cos(6.283185307 * (hash(i, 6) % 10000) / 10000))) AS e FROM rows)"
	// shared has that number as a column.
	shared = "{income: income, age: age, city: city, sold: e}"
	// walks are two series without relation; eta is the value before.
	walks = "SELECT * EXCLUDE (a, b) REPLACE (sum(a) OVER (ORDER BY i) AS income, sum(b) OVER (ORDER BY i) AS y, sum(b) OVER (ORDER BY i) - b AS eta) FROM (SELECT *, " +
		"sqrt(-2 * ln((hash(i, 7) % 10000 + 1) / 10001.0)) * cos(6.283185307 * (hash(i, 8) % 10000) / 10000) AS a, sqrt(-2 * ln((hash(i, 9) % 10000 + 1) / 10001.0)) * cos(6.283185307 * (hash(i, 10) % 10000) / 10000) AS b FROM rows) ORDER BY i"
	// moreZeros drops every other count, whatever the columns say.
	moreZeros = "SELECT * REPLACE (CASE WHEN hash(i, 12) % 2 = 0 THEN 0 ELSE y + 5 END AS y, ln((exp(eta) + 5) / 2) AS eta) FROM rows"
	// middleAge is a response that falls with the distance from an age; squared has the square as well.
	middleAge = "SELECT * REPLACE (eta + y - e AS y) FROM (SELECT * REPLACE (-2 * v * v AS eta), eta AS e FROM rows)"
	squared   = "{income: income, age: age, age2: age * age, city: city}"
	// dependsOnIncome is a response that rises with age among those of high income, and falls among
	// others; both has the product as well.
	dependsOnIncome = "SELECT * REPLACE ((hash(i, 11) % 10000 / 10000 < 1 / (1 + exp(-eta)))::INT AS y) FROM (SELECT * REPLACE (3 * u * v AS eta) FROM rows)"
	both            = "{income: income, age: age, city: city, 'income:age': {income: income, age: age}}"
	// turnsOver is a response that rises with age for a while, then falls with it, and so on.
	turnsOver = "SELECT * REPLACE ((hash(i, 11) % 10000 / 10000 < 1 / (1 + exp(-eta)))::INT AS y) FROM (SELECT * REPLACE (3 * v * cos(i * pi() / 700) AS eta) FROM rows) ORDER BY i"
	// overdispersed doubles every other count and drops the rest.
	overdispersed = "SELECT * REPLACE (CASE WHEN hash(i) % 2 = 0 THEN 2 * y ELSE 0 END AS y) FROM rows"
)

var attempts = Part{
	Name: "attempts", Title: "Plain first attempts",
	Text: "These are calls that a new user might write without reading the manual, on simulated rows. Each call is fitted to the first half of the\n" +
		"rows and predicts the second half.\n\n" +
		"- *right*: the loss is no higher than the base rate's, and exceeds the truth's by at most a tenth of the difference between the two, plus two standard errors.\n" +
		"  For the 3,000 words, it is enough to be no higher than the base rate's.\n" +
		"- *error*: the call fails, and the message says why.\n" +
		"- *warned*: the prediction is not right, and the status says why.\n\n" +
		"Losses are log losses; for gaussian responses, squared errors. Two rows show other numbers. *A learnt variance raises the evidence* has the largest loss of log\n" +
		"evidence, over 27 fits, from learning the prior variance instead of fixing it at 1: below 0, every fit gains. *Factorised EP on ordinary tables* has the number\n" +
		"of tables, of twelve, on which EP does not converge.",
	Run: func(c *Context) (*Table, error) {
		t := &Table{Head: []string{"attempt", "call", "base rate", "truth", "bglm", "verdict", "error or status"}}
		for _, a := range tries {
			if !strings.Contains(a.name, c.Sets) {
				continue
			}
			if c.Quick && (strings.Contains(a.name, "3,000") || strings.HasPrefix(a.name, "a learnt")) {
				continue
			}
			s, err := open()
			if err != nil {
				return nil, err
			}
			started := processorTime()
			o := a.run(c, s, &a)
			s.Close()
			if o == nil {
				continue // no tool
			}
			v := o.verdict()
			fmt.Fprintf(c.Log, "%s, %s: %s, loss %s (%.1f s)\n", a.name, a.call, v, number(o.loss), (processorTime() - started).Seconds())
			t.add(a.name, a.call, number(o.base), number(o.truth), number(o.loss), v, o.remark())
			if v == wrongWord || a.must != "" && v != a.must {
				t.miss(a.name+", "+a.call, "%s, loss %s, base rate %s, truth %s; %s", v, number(o.loss), number(o.base), number(o.truth), o.remark())
			}
		}
		return t, nil
	},
}

// manyWords are 3,000 rare words, ten a row, of which every tenth matters.
func manyWords(call string) func(*Context, *session, *try) *outcome {
	return func(_ *Context, s *session, _ *try) *outcome {
		err := s.exec(`CREATE OR REPLACE MACRO word(i, k) AS (hash(i * 10 + k) % 3000);
CREATE TABLE texts AS SELECT i, list_distinct([word(i, k) FOR k IN range(10)]) AS w FROM range(4000) t(i);
CREATE TABLE sums AS SELECT i, w, list_sum([CASE WHEN k % 10 = 0 THEN 3.0 - 6 * (k % 20 // 10) ELSE 0 END FOR k IN w]) - 0.5 AS eta FROM texts;
CREATE TABLE rows AS SELECT i, eta, (hash('y' || i) % 1000003 / 1000003.0 < 1 / (1 + exp(-eta)))::INT AS y, ['w' || k FOR k IN w] AS x FROM sums ORDER BY i`)
		if err != nil {
			return failure(err)
		}
		o := s.attempt("bernoulli", call, "bglm_predict(fit, x)")
		// So many words on so few rows: the truth is far, the base rate is the bound.
		o.bound = o.base
		return o
	}
}

// evidence compares what is learnt with where it started from.
func evidence(_ *Context, s *session, _ *try) *outcome {
	o := &outcome{loss: math.Inf(-1), base: math.NaN(), truth: math.NaN(), status: "ok"}
	for seed := range uint64(3) {
		for _, family := range []string{"bernoulli", "gaussian", "poisson"} {
			if err := s.world(20+seed, family, 300, 6); err != nil {
				return failure(err)
			}
			for _, method := range []string{"laplace", "ep", "lowrank"} {
				at := func(variance string) string {
					return fmt.Sprintf("SELECT bglm_%s(y, {u: u, v: v, g: g}, {family: '%s', standardize: true, prior_variance: %s}).log_evidence FROM rows", method, family, variance)
				}
				var learnt, given float64
				if err := s.row("SELECT ("+at("'auto'")+"), ("+at("1.0")+")", &learnt, &given); err != nil {
					return failure(fmt.Errorf("%s, %s: %w", method, family, err))
				}
				o.loss = max(o.loss, given-learnt)
			}
		}
	}
	o.bound = 1e-6
	return o
}

// factorised says how many of twelve tables converge.
func factorised(_ *Context, s *session, _ *try) *outcome {
	o := &outcome{base: math.NaN(), truth: math.NaN(), status: "ok"}
	for seed := range uint64(4) {
		for _, levels := range []int{3, 20, 100} {
			if err := s.world(30+seed, "bernoulli", 1000, levels); err != nil {
				return failure(err)
			}
			var converged bool
			var status string
			if err := s.row("SELECT fit.converged, fit.status FROM (SELECT bglm_ep(y, {income: income, age: age, city: city}, {covariance: 'diagonal'}) AS fit FROM rows)", &converged, &status); err != nil {
				return failure(err)
			}
			if !converged {
				o.loss, o.status = o.loss+1, status
			}
		}
	}
	return o
}

// notAvailable has a number in a CSV that is NA here and there.
func notAvailable(_ *Context, s *session, _ *try) *outcome {
	if err := s.world(7, "bernoulli", 4000, 10); err != nil {
		return failure(err)
	}
	dir, err := os.MkdirTemp("", "newcomer-")
	if err != nil {
		return failure(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "rows.csv")
	if err := s.exec("COPY (SELECT i, CASE WHEN i % 50 = 1 THEN 'NA' ELSE u::VARCHAR END AS u, v, eta, y FROM rows) TO '" + file + "' (HEADER); CREATE OR REPLACE TABLE rows AS FROM '" + file + "' ORDER BY i"); err != nil {
		return failure(err)
	}
	return s.attempt("bernoulli", "bglm_fit(y, {u: u, v: v})", "bglm_predict(fit, {u: u, v: v})")
}

// inGo fits and predicts without SQL.
func inGo(method string) func(*Context, *session, *try) *outcome {
	return func(_ *Context, s *session, _ *try) *outcome {
		if err := s.world(7, "bernoulli", 4000, 10); err != nil {
			return failure(err)
		}
		x, err := s.columns("SELECT income, age, y, eta FROM rows ORDER BY i")
		if err != nil {
			return failure(err)
		}
		city, err := s.texts("SELECT city FROM rows ORDER BY i")
		if err != nil {
			return failure(err)
		}
		n := len(city) / 2
		fit, err := engine.Fit(context.Background(), method, nil, &rows.Table{
			X: rows.Fields(rows.Numbers("income", x[0][:n]), rows.Numbers("age", x[1][:n]), rows.Texts("city", city[:n])), Y: rows.Numbers("y", x[2][:n])})
		if err != nil {
			return failure(err)
		}
		scorer, err := predict.New(fit.Fit)
		if err != nil {
			return failure(err)
		}
		p := make([]float64, n)
		for i := range p {
			b, err := scorer.Row([]string{"income", "age", "city=" + city[n+i]}, []float64{x[0][n+i], x[1][n+i], 1}, 0)
			if err == nil {
				p[i], err = scorer.Predict(b, 0, predict.Exact)
			}
			if err != nil {
				return failure(err)
			}
		}
		return judgeBy("bernoulli", x[2][n:], x[3][n:], p, constant(n, mean(x[2][:n])), fit.Status)
	}
}

// commandLine fits one CSV file and scores another; a value in fifty of income is missing,
// where that is a word.
func commandLine(formula, missing string) func(*Context, *session, *try) *outcome {
	return func(c *Context, s *session, _ *try) *outcome {
		if c.Bglm == "" {
			return nil
		}
		if err := s.world(7, "bernoulli", 4000, 10); err != nil {
			return failure(err)
		}
		dir, err := os.MkdirTemp("", "newcomer-")
		if err != nil {
			return failure(err)
		}
		defer os.RemoveAll(dir)
		for name, where := range map[string]string{"train": "i < 2000", "test": "i >= 2000"} {
			income := "income"
			if missing != "" {
				income = "CASE WHEN i % 50 = 1 THEN '" + missing + "' ELSE income::VARCHAR END AS income"
			}
			if err := s.exec("COPY (SELECT i AS id, " + income + ", age, city, y::INT AS y FROM rows WHERE " + where + " ORDER BY i) TO '" + filepath.Join(dir, name) + ".csv' (HEADER)"); err != nil {
				return failure(err)
			}
		}
		var fitted struct{ Status string }
		if err := c.tool(&fitted, "fit", "--data", dir+"/train.csv", "--formula", formula, "--out", dir+"/beliefs.parquet", "--json"); err != nil {
			return failure(err)
		}
		if err := c.tool(nil, "predict", "--beliefs", dir+"/beliefs.parquet", "--data", dir+"/test.csv", "--columns", "id", "--out", dir+"/scores.csv"); err != nil {
			return failure(err)
		}
		x, err := s.columns("SELECT y, eta, prediction, (SELECT avg(y) FROM rows WHERE i < 2000) FROM rows JOIN '" + dir + "/scores.csv' s ON s.id = i ORDER BY i")
		if err != nil {
			return failure(err)
		}
		return judgeBy("bernoulli", x[0], x[1], x[2], x[3], fitted.Status)
	}
}

// tool runs the command line tool and reads its JSON.
func (c *Context) tool(to any, args ...string) error {
	var said strings.Builder
	cmd := exec.Command(c.Bglm, args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("bglm %s: %s", args[0], strings.TrimSpace(said.String()))
	}
	if to == nil {
		return nil
	}
	return json.Unmarshal(out, to)
}

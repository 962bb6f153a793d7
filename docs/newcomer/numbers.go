package main

import (
	"fmt"
	"math"
	"strings"
)

// response is a set whose response is a number, a count or a class.
type response struct {
	set
	call, predict string // of bglm
	task          string // of the peers
	what          string // loss
	loss          func(y, p []float64) []float64
	aim           float64 // largest ratio to the peer's loss; 0 = within a standard error
}

func rootMean(x []float64) float64 { return math.Sqrt(mean(x)) }

// assigned are the losses of probabilities given to what was observed.
func assigned(_, p []float64) []float64 { return logLosses(constant(len(p), 1), p) }

const (
	gaussian = "bglm_fit(y, x, {family: 'gaussian'})"
	counts   = "bglm_fit(y, x, {family: 'poisson'})"
	expected = "bglm_predict(fit, x)"
)

var responses = []response{
	{set: set{name: "longley", file: "longley.csv", from: plain, loo: true}, call: gaussian, predict: expected, task: "gaussian", what: "RMSE", loss: squares, aim: 1.01},
	{set: set{name: "abalone (rings)", file: "abalone.parquet", from: plain}, call: gaussian, predict: expected, task: "gaussian", what: "RMSE", loss: squares, aim: 1.01},
	{set: set{name: "flights_3m (delay)", file: "flights_3m.parquet", rows: 20000,
		from: "SELECT delay AS y, origin, destination, hour(date)::VARCHAR AS hour, distance FROM '%s'"}, call: gaussian, predict: expected, task: "gaussian", what: "RMSE", loss: squares, aim: 1.01},
	{set: set{name: "births_2014 (weight)", file: "births_2014.parquet", rows: 10000, from: "SELECT dbwt AS y, * EXCLUDE (id, dbwt) FROM '%s'"}, call: gaussian, predict: expected, task: "gaussian", what: "RMSE", loss: squares, aim: 1.01},
	{set: set{name: "abalone (count)", file: "abalone.parquet", from: plain}, call: counts, predict: expected, task: "poisson", what: "log loss", loss: poissonLosses},
	{set: set{name: "doctor_visits", from: plain}, call: counts, predict: expected, task: "poisson", what: "log loss", loss: poissonLosses},
	{set: set{name: "quine", from: plain}, call: counts, predict: expected, task: "poisson", what: "log loss", loss: poissonLosses},
	{set: set{name: "epilepsy", from: plain}, call: counts, predict: expected, task: "poisson", what: "log loss", loss: poissonLosses},
	{set: set{name: "car_insurance", file: "car_insurance.csv", from: "SELECT y, district::VARCHAR AS district, car_group, age, holders FROM '%s'", exposure: "holders"},
		call: "bglm_fit(y, x, {family: 'poisson', \"offset\": ln(e)})", predict: "bglm_predict(fit, x) * e", task: "poisson", what: "log loss", loss: poissonLosses},
	{set: set{name: "iris", from: plain}, call: "bglm_softmax(y, x)", predict: "bglm_predict(fit, x)[y::VARCHAR]", task: "classes", what: "log loss", loss: assigned},
	{set: set{name: "wine", from: plain}, call: "bglm_softmax(y, x)", predict: "bglm_predict(fit, x)[y::VARCHAR]", task: "classes", what: "log loss", loss: assigned},
}

// longleyNote is by `prior_variance: v, standardize: true` for v = 0.1, 1, 10, 100 and 10,000.
const longleyNote = "longley has 16 rows and six nearly collinear columns, and the difference to least squares is a third of its own standard error. By prior variance, on standardised\n" +
	"columns:\n\n" +
	"| prior variance | 0.1 | 1 | 10 | 100 | 10,000 |\n" +
	"|---|---|---|---|---|---|\n" +
	"| RMSE | 0.495 | 0.416 | 0.410 | 0.422 | 0.425 (least squares) |\n" +
	"| log evidence of the fifteen remaining rows, on average | -21.1 | -21.3 | -25.7 | -32.2 | -46.0 |\n\n" +
	"The evidence hardly distinguishes the two best prior variances (0.2 nats), whose RMSEs lie on both sides of least squares. It considers least squares e^-25 times as\n" +
	"likely. `bglm_fit` averages over the prior variances."

var numbers = Part{
	Name: "numbers", Title: "Numbers, counts and classes",
	Text: "The same comparison for other responses, without options except the family. longley is evaluated by leaving one row out at a time.\n\n" +
		"- `family: 'gaussian'` against least squares, by RMSE. The aim is at most 1 % above least squares.\n" +
		"- `family: 'poisson'` against `PoissonRegressor(alpha=1e-3)`, by the log loss of a Poisson distribution with the predicted mean. If rows have an exposure, its\n" +
		"  logarithm is the offset. The aim is to be no worse by more than the paired standard error.\n" +
		"- `bglm_softmax` against `LogisticRegression` with C = 1, by log loss and with the same aim.\n\n" +
		"No loss may be above the base rate's. *difference* is the mean difference of the rows' losses (squared errors for RMSE), with its standard error.",
	Run: func(c *Context) (*Table, error) {
		t := &Table{Head: []string{"data set", "rows", "loss", "base rate", "compared with", "its loss", "bglm", "difference", "method and status"}}
		s, err := open()
		if err != nil {
			return nil, err
		}
		defer s.Close()
		var sets []set
		for _, r := range responses {
			sets = append(sets, r.set)
		}
		for _, d := range c.wanted(sets, t) {
			if d.name == "longley" {
				t.Notes = append(t.Notes, longleyNote)
			}
			for _, r := range responses {
				if r.name != d.name {
					continue
				}
				r.set = d
				if err := c.numberLine(s, &r, t); err != nil {
					return nil, fmt.Errorf("%s: %w", d.name, err)
				}
			}
		}
		return t, nil
	},
}

func (c *Context) numberLine(s *session, r *response, t *Table) error {
	if err := r.load(s); err != nil {
		return err
	}
	f, err := s.crossValidate(r.call, r.predict)
	if err != nil {
		fmt.Fprintf(c.Log, "%s: %v\n", r.name, err)
		t.add(r.name, "-", r.what, "-", "-", "-", "-", "-", "error: "+err.Error())
		t.miss(r.name, "%v", err)
		return nil
	}
	theirs, err := c.peers(s, r.task, r.exposure)
	if err != nil {
		return err
	}
	total := mean
	if r.what == "RMSE" {
		total = rootMean
	}
	loss := r.loss(f.y, f.p)
	base, err := r.base(s, f.y)
	if err != nil {
		return err
	}
	name, theirLoss, difference := "-", math.NaN(), "-"
	if len(theirs) > 0 {
		p := theirs[0]
		l := r.loss(f.y, p.p)
		diff, se := paired(loss, l)
		name, theirLoss, difference = p.name, total(l), fmt.Sprintf("%s ± %s", number(diff), number(se))
		if bound := r.aim * theirLoss; r.aim > 0 && !(total(loss) <= bound) || r.aim == 0 && !(diff <= se) {
			t.miss(r.name, "%s %s, %s has %s", r.what, number(total(loss)), p.name, number(theirLoss))
		}
	}
	if !(total(loss) <= total(base)) {
		t.miss(r.name, "%s %s above the base rate's %s", r.what, number(total(loss)), number(total(base)))
	}
	row := []string{r.name, r.cut(len(f.y)), r.what, number(total(base)), name, number(theirLoss), number(total(loss)), difference, f.method + ": " + f.status()}
	fmt.Fprintln(c.Log, strings.Join(row, " | "))
	t.add(row...)
	return nil
}

// base are the losses of the mean of the other folds, or of the classes' shares in them.
func (r *response) base(s *session, y []float64) ([]float64, error) {
	if r.task == "classes" {
		p, err := s.columns("SELECT count(*) FILTER (o.y = t.y) / count(*) FROM t JOIN t o ON o.fold <> t.fold GROUP BY t.i ORDER BY t.i")
		if err != nil {
			return nil, err
		}
		return r.loss(nil, p[0]), nil
	}
	p, err := s.baseRates()
	if err != nil {
		return nil, err
	}
	if r.exposure != "" {
		both, err := s.columns("SELECT sum(o.y) / sum(o.e) * any_value(t.e) FROM t JOIN t o ON o.fold <> t.fold GROUP BY t.i ORDER BY t.i")
		if err != nil {
			return nil, err
		}
		p = both[0]
	}
	return r.loss(y, p), nil
}

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// covered are the calls whose intervals are measured; %s is what a family adds.
var covered = []struct{ name, call string }{
	{"bglm_adf", "bglm_adf(y, {u: u, v: v, g: g}%s ORDER BY i)"},
	{"bglm_laplace", "bglm_laplace(y, {u: u, v: v, g: g}%s)"},
	{"bglm_ep", "bglm_ep(y, {u: u, v: v, g: g}%s)"},
	{"bglm_fit", "bglm_fit(y, {u: u, v: v, g: g}%s)"},
}

// levels of the intervals, and how far from them their coverage may be.
var levels = []float64{0.5, 0.8, 0.95}

const coverageAim = 0.02

var coverage = Part{
	Name: "coverage", Title: "Coverage",
	Text: "This table shows how often intervals contain the true value, over simulated data sets of 400 rows with two correlated numbers, a column of eight levels and an\n" +
		"intercept. The true weights of each set are drawn from N(0, 1). Calls have no options except the family. Gaussian responses are 1000 + 250 times the sum of the\n" +
		"linear predictor and noise.\n\n" +
		"- *predictors* are those of the first ten rows of a set (`eta_mean` and `eta_variance` of `bglm_predict_dist`). With three classes, they are contrasts of each class\n" +
		"  between one of the first ten rows and one of the next ten (`bglm_contrast`). The aim is to be within 2 points.\n" +
		"- *weights* are those of `bglm_summary`. Only the prior determines how a column's levels and the intercept share their sum, so weights are covered too often if the\n" +
		"  prior is wider than N(0, 1): the intercept's N(0, 10) for all families and, for gaussian, whose response is standardised, the priors of the other weights.\n" +
		"- *not ok* is the number of fits whose status is not ok, and the most frequent of their statuses.\n\n" +
		"Monte Carlo standard errors are in brackets.",
	Run: func(c *Context) (*Table, error) {
		t := &Table{Head: []string{"family", "call", "data sets", "predictors: 50 %", "80 %", "95 %", "weights: 50 %", "80 %", "95 %", "not ok"}}
		s, err := open()
		if err != nil {
			return nil, err
		}
		defer s.Close()
		n, classes := 2000, 500 // a standard error of 0.45 points at 50 %: of 500 it is half the aim
		if c.Quick {
			n, classes = 100, 30
		}
		for _, family := range []string{"bernoulli", "gaussian", "poisson"} {
			if err := c.coverageLines(s, family, n, t); err != nil {
				return nil, err
			}
		}
		return t, c.classLine(s, classes, t)
	},
}

func (c *Context) coverageLines(s *session, family string, n int, t *Table) error {
	r := rand.New(rand.NewPCG(1, 2))
	shift, unit, options := 0.0, 1.0, ""
	switch family {
	case "gaussian":
		shift, unit, options = 1000, 250, ", {family: 'gaussian'}"
	case "poisson":
		options = ", {family: 'poisson'}"
	}
	worlds := make([]*world, n)
	for k := range worlds {
		worlds[k] = newWorld(r, family, 400, 8, 1, 0)
		for i := range worlds[k].y {
			worlds[k].y[i] = shift + unit*worlds[k].y[i]
		}
	}
	if err := s.load("sims", worlds); err != nil {
		return err
	}
	for _, e := range covered {
		if err := s.exec("CREATE OR REPLACE TABLE fits AS SELECT sim, " + fmt.Sprintf(e.call, options) + " AS fit FROM sims GROUP BY sim"); err != nil {
			t.add(family, e.name, fmt.Sprint(n), "error: "+err.Error(), "-", "-", "-", "-", "-", "-")
			t.miss(family+", "+e.name, "%v", err)
			continue
		}
		row := []string{family, e.name, fmt.Sprint(n)}
		for _, level := range levels {
			share, se, err := s.predictors(len(worlds), level, shift, unit)
			if err != nil {
				return err
			}
			row = append(row, c.held(t, family+", "+e.name, "predictors", level, share, se))
		}
		for _, level := range levels {
			share, se, err := s.coverage(worlds, level, shift, unit)
			if err != nil {
				return err
			}
			row = append(row, fmt.Sprintf("%.1f (%.1f)", 100*share, 100*se))
		}
		said, err := s.notOK()
		if err != nil {
			return err
		}
		row = append(row, said)
		fmt.Fprintln(c.Log, strings.Join(row, " | "))
		t.add(row...)
	}
	return nil
}

// held is the entry of a share and its standard error, which misses its aim where it is too far
// from the level.
func (c *Context) held(t *Table, call, what string, level, share, se float64) string {
	aim := coverageAim
	if c.Quick { // it allows for its own noise
		aim += 3 * se
	}
	if !(math.Abs(share-level) <= aim) {
		t.miss(call, "%.0f %% intervals contain %.1f %% of the %s", 100*level, 100*share, what)
	}
	return fmt.Sprintf("%.1f (%.1f)", 100*share, 100*se)
}

// classLine is of three classes, each with weights of its own.
func (c *Context) classLine(s *session, n int, t *Table) error {
	r := rand.New(rand.NewPCG(3, 4))
	classes := make([][]*world, 3)
	for range n {
		first := newWorld(r, "bernoulli", 400, 8, 1, 0)
		best := make([]float64, len(first.y))
		for k := range classes {
			w := *first
			w.weights, w.eta = map[string]float64{}, nil
			for _, name := range first.features() {
				w.weights[name] = r.NormFloat64()
			}
			for i := range w.y {
				w.eta = append(w.eta, w.predictor(w.weights, i))
				// The class of the largest sum with a Gumbel variable is drawn by softmax.
				if z := w.eta[i] - math.Log(r.ExpFloat64()); k == 0 || z > best[i] {
					best[i], first.y[i] = z, float64(k)
				}
			}
			classes[k] = append(classes[k], &w)
		}
	}
	for k, worlds := range classes {
		if err := s.load(fmt.Sprint("class", k), worlds); err != nil {
			return err
		}
	}
	if err := s.exec("CREATE OR REPLACE TABLE fits AS SELECT sim, bglm_softmax(y::INT, {u: u, v: v, g: g}) AS fit FROM class0 GROUP BY sim; " +
		"CREATE OR REPLACE TABLE sims AS SELECT sim, i, {u: a.u, v: a.v, g: a.g} AS x, [a.eta, b.eta, c.eta] AS eta FROM class0 a JOIN class1 b USING (sim, i) JOIN class2 c USING (sim, i) WHERE i < 20; " +
		"CREATE OR REPLACE TABLE pairs AS SELECT sim, list_transform(list_zip(a.eta, b.eta), lambda e: e[1] - e[2]) AS d, bglm_contrast(fit, a.x, b.x) AS q FROM sims a JOIN sims b USING (sim) JOIN fits USING (sim) WHERE a.i < 10 AND b.i = a.i + 10"); err != nil {
		return err
	}
	row := []string{"three classes", "bglm_softmax", fmt.Sprint(n)}
	for _, level := range levels {
		held, err := s.columns(fmt.Sprintf("SELECT avg((abs(d - q.mean) <= %v * q.sd)::INT) FROM (SELECT sim, unnest(list_transform(d, lambda e: e - list_avg(d))) AS d, unnest(q) AS q FROM pairs WHERE len(q) = 3) GROUP BY sim ORDER BY sim", math.Sqrt2*math.Erfinv(level)))
		if err != nil {
			return err
		}
		share, se := paired(held[0], constant(len(held[0]), 0))
		row = append(row, c.held(t, "three classes, bglm_softmax", "contrasts", level, share, se))
	}
	said, err := s.notOK()
	if err != nil {
		return err
	}
	t.add(append(row, "-", "-", "-", said)...)
	return nil
}

// notOK is how many of the fits say more than ok, and what most of these say.
func (s *session) notOK() (string, error) {
	var said int
	var status string
	err := s.row("SELECT count(*) FILTER (fit.status <> 'ok'), coalesce(mode(fit.status) FILTER (fit.status <> 'ok'), '') FROM fits", &said, &status)
	return strings.TrimSuffix(fmt.Sprintf("%d: %s", said, status), ": "), err
}

// predictors is the share of true predictors that the intervals of the fits hold, and its
// standard error over data sets.
func (s *session) predictors(n int, level, shift, unit float64) (share, se float64, err error) {
	z := math.Sqrt2 * math.Erfinv(level)
	held, err := s.columns(fmt.Sprintf("SELECT avg((abs(%v + %v * eta - d.eta_mean) <= %v * sqrt(d.eta_variance))::INT) FROM "+
		"(SELECT sim, eta, bglm_predict_dist(fit, {u: u, v: v, g: g}) AS d FROM sims JOIN fits USING (sim) WHERE i < 10) GROUP BY sim ORDER BY sim", shift, unit, z))
	if err != nil {
		return 0, 0, err
	}
	share, se = paired(held[0], constant(n, 0))
	return share, se, nil
}

// coverage is the share of weights that the intervals of the fits hold, and its standard
// error over data sets.
func (s *session) coverage(worlds []*world, level, shift, unit float64) (share, se float64, err error) {
	rows, err := s.db.Query(fmt.Sprintf("SELECT sim, s.term, s.lower, s.upper FROM (SELECT sim, unnest(bglm_summary(fit, %v)) AS s FROM fits)", level))
	if err != nil {
		return 0, 0, short(err)
	}
	defer rows.Close()
	held := make([]float64, len(worlds))
	for rows.Next() {
		var sim int
		var term string
		var lower, upper float64
		if err := rows.Scan(&sim, &term, &lower, &upper); err != nil {
			return 0, 0, err
		}
		truth, ok := worlds[sim].weights[term]
		if !ok {
			continue
		}
		truth *= unit
		if term == "(Intercept)" {
			truth += shift
		}
		if lower <= truth && truth <= upper {
			held[sim] += 1 / float64(len(worlds[sim].weights))
		}
	}
	if err := short(rows.Err()); err != nil {
		return 0, 0, err
	}
	share, se = paired(held, constant(len(held), 0))
	return share, se, nil
}

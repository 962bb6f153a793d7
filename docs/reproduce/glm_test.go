package main

import (
	"context"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lik"
)

// column is a feature of every row: numbers, or text coded by treatment contrasts.
type column struct {
	name string
	num  []float64
	text []string
}

func numbers(t *Table, names ...string) (out []column) {
	for _, n := range names {
		out = append(out, column{name: n, num: t.Num(n)})
	}
	return out
}

func factor(t *Table, name string) column {
	if x, ok := t.text[name]; ok {
		return column{name: name, text: x}
	}
	c := column{name: name}
	for _, v := range t.Num(name) {
		c.text = append(c.text, string(rune('A'+int(v)%100))) // numbers below 100, in order
	}
	return c
}

func power(c column, f func(float64) float64) column {
	out := column{name: c.name + "'"}
	for _, v := range c.num {
		out.num = append(out.num, f(v))
	}
	return out
}

// Under a very wide prior the mode is the maximum likelihood estimate: deviances of R's
// glm (4.2.2), to the digits given.
func TestMaximumLikelihood(t *testing.T) {
	const folder = "../../../shared/data/"
	for _, c := range []struct {
		file, family, link string
		rows               func(t *Table) (y []float64, x []column, offset []float64, keep func(i int) bool)
		deviance           float64
		weights            map[string]float64
	}{
		{"credit_default.parquet", "bernoulli", "logit", func(d *Table) ([]float64, []column, []float64, func(int) bool) {
			return d.Num("y"), append([]column{student(d)}, numbers(d, "balance", "income")...), nil, nil
		}, 1571.5448, map[string]float64{kernels.Intercept: -10.86905, "balance": 0.0057365}},
		{"credit_default.parquet", "bernoulli", "probit", func(d *Table) ([]float64, []column, []float64, func(int) bool) {
			return d.Num("y"), append([]column{student(d)}, numbers(d, "balance", "income")...), nil, nil
		}, 1583.2171, nil},
		{"australian_credit.parquet", "bernoulli", "logit", func(d *Table) ([]float64, []column, []float64, func(int) bool) {
			x := numbers(d, "a2", "a3", "a7", "a8", "a9", "a10", "a11", "a13")
			return d.Num("y"), append(x, power(numbers(d, "a14")[0], math.Log)), nil, nil
		}, 476.9703, nil},
		{"quine.parquet", "poisson", "log", func(d *Table) ([]float64, []column, []float64, func(int) bool) {
			return d.Num("y"), []column{factor(d, "eth"), factor(d, "sex"), factor(d, "age"), factor(d, "lrn")}, nil, nil
		}, 1696.7066, nil},
		{"doctor_visits.parquet", "poisson", "log", func(d *Table) ([]float64, []column, []float64, func(int) bool) {
			var x []column
			for _, n := range []string{"gender", "age", "income", "illness", "reduced", "health", "private", "freepoor", "freerepat", "nchronic", "lchronic"} {
				if _, text := d.text[n]; text {
					x = append(x, factor(d, n))
				} else {
					x = append(x, numbers(d, n)...)
				}
			}
			return d.Num("y"), append(x, power(numbers(d, "age")[0], func(v float64) float64 { return v * v })), nil, nil
		}, 4379.5151, nil},
		{"ships.csv", "poisson", "log", func(d *Table) ([]float64, []column, []float64, func(int) bool) {
			s := d.Num("service")
			return d.Num("y"), []column{factor(d, "type"), factor(d, "year"), factor(d, "period")}, power(column{num: s}, math.Log).num, func(i int) bool { return s[i] > 0 }
		}, 38.6951, nil},
		{"car_insurance.csv", "poisson", "log", func(d *Table) ([]float64, []column, []float64, func(int) bool) {
			return d.Num("y"), []column{factor(d, "district"), factor(d, "car_group"), factor(d, "age")}, power(column{num: d.Num("holders")}, math.Log).num, nil
		}, 51.4200, nil},
		{"road_casualties.parquet", "poisson", "log", func(d *Table) ([]float64, []column, []float64, func(int) bool) {
			return d.Num("y"), append([]column{factor(d, "month")}, numbers(d, "kms", "petrol_price", "law")...), nil, nil
		}, 2141.9160, nil},
		{"longley.csv", "gaussian", "identity", func(d *Table) ([]float64, []column, []float64, func(int) bool) {
			return d.Num("y"), numbers(d, "gnp_deflator", "gnp", "unemployed", "armed_forces", "population", "year"), nil, nil
		}, 0.304854 * 0.304854 * 9, map[string]float64{kernels.Intercept: -3482.258635, "year": 1.829151}},
	} {
		t.Run(strings.TrimSuffix(c.file, ".parquet")+" "+c.link, func(t *testing.T) {
			if _, err := os.Stat(folder + c.file); err != nil {
				t.Skip("the data set is not there")
			}
			d, err := readTable(folder + c.file)
			if err != nil {
				t.Fatal(err)
			}
			y, x, offset, keep := c.rows(d)
			for _, standardize := range []bool{false, true} {
				if standardize && c.file == "longley.csv" {
					continue // the prior would have to be wider still
				}
				m := &kernels.Model{Lik: ok(lik.New(c.family, c.link, lik.Params{Dispersion: 1})), Prior: kernels.Prior{Variance: 1e8, InterceptVariance: 1e10}}
				if c.file == "longley.csv" {
					m.Prior = kernels.Prior{Variance: 1e10, InterceptVariance: 1e16}
				}
				m.Options.Standardize = standardize
				p := designOf(m, y, x, offset, keep)
				f, err := laplace.Fit(context.Background(), p)
				if err != nil {
					t.Fatal(err)
				}
				if !f.Converged {
					t.Error(f.Status)
				}
				dev := deviance(p, f)
				if math.Abs(dev-c.deviance) > 1e-4+2e-6*c.deviance {
					t.Errorf("standardize %v: deviance %.5f, R has %.4f", standardize, dev, c.deviance)
				}
				for _, b := range f.Beliefs {
					if want, ok := c.weights[b.Feature]; ok && math.Abs(b.Mean-want) > 2e-5*math.Abs(want) {
						t.Errorf("standardize %v: %s %.7g, R has %.7g", standardize, b.Feature, b.Mean, want)
					}
				}
			}
		})
	}
}

func student(d *Table) column {
	if x, ok := d.num["student"]; ok {
		return column{name: "student", num: x}
	}
	return factor(d, "student")
}

// designOf lays out rows with treatment contrasts: a factor's first level in byte
// order has no column.
func designOf(m *kernels.Model, y []float64, x []column, offset []float64, keep func(int) bool) *kernels.Problem {
	rows := ok(kernels.NewRows(m))
	var b kernels.Batch
	b.Reset()
	first := map[string]string{}
	var numbers []string
	for _, c := range x {
		if c.text != nil {
			first[c.name] = slices.Min(c.text)
		} else {
			numbers = append(numbers, c.name)
		}
	}
	rows.Dict.Use(kernels.NewColumns(nil, numbers))
	for i, v := range y {
		if keep != nil && !keep(i) {
			continue
		}
		b.Add(0, 1)
		for _, c := range x {
			switch {
			case c.text == nil:
				b.Add(ok(rows.Dict.Add(c.name)), c.num[i])
			case c.text[i] != first[c.name]:
				b.Add(ok(rows.Dict.Add(c.name+"="+c.text[i])), 1)
			}
		}
		b.EndRow()
		b.Y = append(b.Y, v)
		if offset != nil {
			b.Offset = append(b.Offset, offset[i])
		}
	}
	if err := rows.Update(&b, false); err != nil {
		panic(err)
	}
	return ok(rows.Problem())
}

// deviance is twice the log likelihood ratio to the saturated model.
func deviance(p *kernels.Problem, f *kernels.Fit) float64 {
	w, eta := make([]float64, p.P), make([]float64, p.N)
	for j := range w {
		w[j] = f.Beliefs[j].Mean
	}
	p.Predictor(eta, w)
	s := 0.0
	for i, e := range eta {
		o := p.Batch().Obs(i)
		logp, _, _ := p.Lik.LogLik(o, e)
		top := 0.0
		switch p.Lik.Family() {
		case "poisson":
			if top, _, _ = p.Lik.LogLik(o, math.Log(o.Y)); o.Y == 0 {
				top = 0
			}
		case "gaussian":
			top, _, _ = p.Lik.LogLik(o, o.Y)
		}
		s += 2 * (top - logp)
	}
	return s
}

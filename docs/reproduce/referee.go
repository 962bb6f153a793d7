package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/hmc"
	"github.com/bglm/bglm/kernels/lik"
)

var referee = Section{
	Title: "Against Hamiltonian Monte Carlo",
	Source: "The posterior means and standard deviations (sd) of each engine, compared with long NUTS chains of bglm's own sampler. The prior is N(0, 1), and N(0, 10) for the intercept; numeric columns are standardised. " +
		"Errors of means are in posterior sds, and \"sd\" is the ratio to NUTS's sd. The error of NUTS is the difference between two runs with different seeds.",
	Claims: []Claim{
		{
			ID: "R1", Data: "quine.parquet",
			Text:     "Poisson regression of school absence on eth, sex, age and lrn (146 rows, 7 weights): full EP has the means and sds of the posterior, and Laplace nearly so; factorised EP has the means, but sds down to less than half",
			Expected: "largest error of a mean at most 0.002 plus NUTS's own (full EP), 0.1 (Laplace), 0.06 (factorised EP); sds within 5 % (full EP), smallest below 0.5 (factorised EP)",
			Run: func(c *Context) Found {
				p, err := quine(c)
				return judge(c, p, err, 1000, func(r map[string]gap) bool {
					e, l, f := r["ep full"], r["laplace"], r["ep factorised"]
					return e.worst < 0.002+r["nuts"].worst && e.near(0.05) && l.worst < 0.1 && f.worst < 0.06 && f.sdMin < 0.5
				})
			},
		},
		{
			ID: "R2", Data: "australian_credit.parquet",
			Text:     "Logistic regression of credit approval on its 14 attributes as numbers (690 rows): errors of means are thousandths for full EP, hundredths for factorised EP (with sds down to less than half) and tenths for Laplace",
			Expected: "average error of means at most 0.002 plus NUTS's own (full EP); largest error 0.01 to 0.1 (factorised EP), 0.13 to 0.4 (Laplace)",
			Run: func(c *Context) Found {
				p, err := australian(c)
				return judge(c, p, err, 500, func(r map[string]gap) bool {
					e, l, f := r["ep full"], r["laplace"], r["ep factorised"]
					return e.mean < 0.002+r["nuts"].mean && f.worst > 0.01 && f.worst < 0.1 && f.sdMin < 0.5 && l.worst > 0.13 && l.worst < 0.4
				})
			},
		},
		{
			ID: "R3", Data: "australian_credit_sparse.parquet", Slow: true,
			Text:     "The same with indicators of all levels of the nominal attributes (43 weights, collinear with the intercept): full EP and Laplace do as well as before; factorised EP keeps its means, but its sds fall to a twelfth",
			Expected: "average error of means at most 0.002 plus NUTS's own (full EP); largest error 0.13 to 0.4 (Laplace), at most 0.1 (factorised EP); sds within 10 % (full EP), smallest below 0.2 (factorised EP)",
			Run: func(c *Context) Found {
				p, err := sparseProblem(c, "australian_credit_sparse.parquet", 0)
				return judge(c, p, err, 4000, func(r map[string]gap) bool {
					e, l, f := r["ep full"], r["laplace"], r["ep factorised"]
					return e.mean < 0.002+r["nuts"].mean && e.near(0.1) && l.worst > 0.13 && l.worst < 0.4 && f.worst < 0.1 && f.sdMin < 0.2
				})
			},
		},
		{
			ID: "R4", Data: "births_2014_risk44_sparse.parquet", Slow: true,
			Text:     "Logistic regression of intensive care on 44 indicators, the first 20,000 births: with this much data, full EP agrees with the posterior; Laplace's means are off by 0.1 for rare features",
			Expected: "average error of means at most 0.002 plus NUTS's own (full EP); largest error 0.05 to 0.3 (Laplace); sds within 10 % (both, including NUTS's Monte Carlo error)",
			Run: func(c *Context) Found {
				p, err := sparseProblem(c, "births_2014_risk44_sparse.parquet", 20000)
				return judge(c, p, err, 500, func(r map[string]gap) bool {
					e, l := r["ep full"], r["laplace"]
					return e.mean < 0.002+r["nuts"].mean && e.near(0.1) && l.near(0.1) && l.worst > 0.05 && l.worst < 0.3
				})
			},
		},
	},
}

// method is an engine and its options.
type method struct {
	name, engine string
	set          func(*kernels.Options)
}

func covariance(form string) func(*kernels.Options) {
	return func(o *kernels.Options) { o.Covariance = form }
}

var methods = []method{
	{"ep full", "ep", covariance("full")},
	{"ep factorised", "ep", covariance("diagonal")},
	{"laplace", "laplace", func(*kernels.Options) {}},
	{"laplace diagonal", "laplace", func(o *kernels.Options) { o.Hessian = "diagonal" }},
	{"adf full", "adf", covariance("full")},
	{"adf factorised", "adf", covariance("diagonal")},
	{"sequential laplace", "sequential_laplace", covariance("full")},
	{"variational", "variational", covariance("full")},
}

// run fits p, whose columns become the features in their order.
func (m method) run(p *kernels.Problem) (*kernels.Fit, error) {
	e, err := engine.Find(m.engine)
	if err != nil {
		return nil, err
	}
	model := *p.Model
	m.set(&model.Options)
	f, err := e.New(context.Background(), &model)
	if err != nil {
		return nil, err
	}
	for j := range p.P {
		if _, err := f.Features().AddRaw(p.Name(j)); err != nil {
			return nil, err
		}
	}
	if err := f.Update(context.Background(), p.Batch(), false); err != nil {
		return nil, err
	}
	r, err := f.Fit(context.Background())
	if err != nil {
		return nil, err
	}
	return r.Fit, nil
}

// gap is how far a fit is from the referee's.
type gap struct {
	worst, mean  float64 // errors of means in posterior sds
	sdMin, sdMax float64 // ratios of sds
	seconds      float64
}

// near says that all sds are within a share tol of the referee's.
func (g gap) near(tol float64) bool { return g.sdMin > 1-tol && g.sdMax < 1+tol }

func compare(f, ref *kernels.Fit) gap {
	g := gap{sdMin: math.Inf(1)}
	for j, b := range f.Beliefs {
		r := ref.Beliefs[j]
		e := math.Abs(b.Mean-r.Mean) / math.Sqrt(r.Variance)
		g.worst = math.Max(g.worst, e)
		g.mean += e / float64(len(f.Beliefs))
		q := math.Sqrt(b.Variance / r.Variance)
		g.sdMin, g.sdMax = math.Min(g.sdMin, q), math.Max(g.sdMax, q)
	}
	return g
}

// judge samples p twice and fits it by all methods that take its family.
func judge(c *Context, p *kernels.Problem, err error, samples int, holds func(map[string]gap) bool) Found {
	if err != nil {
		return Found{Text: err.Error()}
	}
	var refs [2]*kernels.Fit
	start := time.Now()
	for i := range refs {
		p.Options.Samples, p.Options.Warmup, p.Options.Seed = samples, 300, uint64(i+1)
		r, err := hmc.Sample(context.Background(), p)
		if err != nil {
			return Found{Text: err.Error()}
		}
		refs[i] = r.Fit
	}
	found := map[string]gap{"nuts": compare(refs[0], refs[1])}
	line := func(name string, g gap) string {
		return fmt.Sprintf("%s: error of means at most %.4f, %.4f on average, sd %.2f to %.2f", name, g.worst, g.mean, g.sdMin, g.sdMax)
	}
	took := time.Since(start).Seconds() / 2
	text := []string{line(fmt.Sprintf("NUTS (%s), second run", refs[0].Status), found["nuts"])}
	fmt.Fprintf(c.Log, "%s, %.2f s\n", text[0], took)
	ref := *refs[0] // the average of both
	ref.Beliefs = make([]kernels.Belief, len(refs[0].Beliefs))
	for j := range ref.Beliefs {
		a, b := refs[0].Beliefs[j], refs[1].Beliefs[j]
		ref.Beliefs[j] = kernels.Belief{Feature: a.Feature, Weight: kernels.Weight{Mean: (a.Mean + b.Mean) / 2, Variance: (a.Variance + b.Variance) / 2}}
	}
	for _, m := range methods {
		start := time.Now()
		f, err := m.run(p)
		if err != nil {
			fmt.Fprintf(c.Log, "%s: %v\n", m.name, err)
			continue
		}
		g := compare(f, &ref)
		g.seconds = time.Since(start).Seconds()
		found[m.name] = g
		fmt.Fprintf(c.Log, "%s, %.4f s, %s\n", line(m.name, g), g.seconds, f.Status)
		text = append(text, line(m.name, g))
	}
	return Found{strings.Join(text, "; "), holds(found)}
}

// quine has the four factors by treatment contrasts.
func quine(c *Context) (*kernels.Problem, error) {
	t, err := readTable(c.Data + "/quine.parquet")
	if err != nil {
		return nil, err
	}
	l, err := lik.New("poisson", "", lik.Params{})
	if err != nil {
		return nil, err
	}
	for i := range t.Rows {
		var row []pair
		for _, f := range [][2]string{{"eth", "A"}, {"sex", "F"}, {"age", "F0"}, {"lrn", "AL"}} {
			if level := t.Text(f[0])[i]; level != f[1] {
				row = append(row, pair{f[0] + "=" + level, 1})
			}
		}
		t.lists = append(t.lists, row)
	}
	return t.problem(l, t.Num("y"))
}

// australian has the 14 attributes as numbers, standardised.
func australian(c *Context) (*kernels.Problem, error) {
	t, err := readTable(c.Data + "/australian_credit.parquet")
	if err != nil {
		return nil, err
	}
	l, err := lik.New("bernoulli", "logit", lik.Params{})
	if err != nil {
		return nil, err
	}
	for i := range t.Rows {
		var row []pair
		for j := 1; j <= 14; j++ {
			name := fmt.Sprintf("a%d", j)
			row = append(row, pair{name, t.Num(name)[i]})
		}
		t.lists = append(t.lists, row)
	}
	return t.problem(l, t.Num("y"))
}

// sparseProblem is a file of feature lists as a logistic regression of its first n
// rows, all for 0.
func sparseProblem(c *Context, file string, n int) (*kernels.Problem, error) {
	t, err := readTable(c.Data + "/" + file)
	if err != nil {
		return nil, err
	}
	if n > 0 {
		t.lists = t.lists[:n]
	}
	l, err := lik.New("bernoulli", "logit", lik.Params{})
	if err != nil {
		return nil, err
	}
	return t.problem(l, t.Num("y"))
}

func (t *Table) problem(l lik.Likelihood, y []float64) (*kernels.Problem, error) {
	r, err := t.sparse(&kernels.Model{Lik: l, Prior: kernels.DefaultPrior}, y)
	if err != nil {
		return nil, err
	}
	r.Dict.Use(kernels.NewColumns(nil, t.numbers()))
	p, err := r.Problem()
	if err != nil {
		return nil, err
	}
	p, _, err = p.Standardize(0)
	return p, err
}

// numbers are the features that have a value other than 0 and 1.
func (t *Table) numbers() []string {
	var out []string
	for _, row := range t.lists {
		for _, p := range row {
			if p.value != 0 && p.value != 1 && !slices.Contains(out, p.feature) {
				out = append(out, p.feature)
			}
		}
	}
	return out
}

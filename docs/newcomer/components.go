package main

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bglm/bglm/kernels/kerneltest/components"
)

//go:embed components.R
var lme4 []byte

// grouped is data with one column of groups, and how it is fitted.
type grouped struct {
	name    string
	y, n    []float64
	x       [][]float64
	g       []int
	slopes  bool // of x1, by group
	prior   string
	options string
	// posterior is mean and deviation of what is known of the exact one, by sampling or as
	// published.
	posterior func(c *Context) (map[string]weight, error)
}

// groupedSets are the data.
func groupedSets(c *Context) ([]grouped, error) {
	num := func(s string) []float64 {
		x, err := components.Numbers(s)
		if err != nil {
			panic(err) // constants
		}
		return x
	}
	index := func(n int) (g []int) {
		for i := range n {
			g = append(g, i)
		}
		return g
	}
	rats := grouped{name: "rats", y: num(components.Rats), x: make([][]float64, 1), slopes: true, prior: "half-Cauchy(100)",
		options: "family: 'gaussian', prior_variance: {x1: 1e6, g: 'auto', 's:g': 'auto'}, intercept_variance: 1e6, standardize: false, sd_scale: 100, sd_freedom: 1, dispersion_scale: 100, dispersion_freedom: 1"}
	for i := range rats.y {
		rats.x[0], rats.g = append(rats.x[0], float64(7*(i%5)-14)), append(rats.g, i/5)
	}
	rats.posterior = func(c *Context) (map[string]weight, error) {
		out := map[string]weight{}
		if !c.Quick {
			out = rats.sampled(100, []string{"noise", "sd(g)", "sd(s:g)"}, []float64{math.Log(6), math.Log(14), math.Log(0.5)}, []float64{0.04, 0.07, 0.1}, 100_000)
		}
		out["(Intercept)"], out["x1"], out["noise"] = weight{242.7, 2.7}, weight{6.186, 0.1088}, weight{6.09, 0.4655}
		return out, nil
	}
	y, floor, county, err := components.Radon(filepath.Join(c.Project, "testdata", "radon.csv"))
	if err != nil {
		return nil, err
	}
	radon := grouped{name: "radon", y: y, x: [][]float64{floor}, g: county, prior: "half-Cauchy(5)",
		options: "family: 'gaussian', prior_variance: {x1: 1e6, g: 'auto'}, intercept_variance: 1e6, standardize: false" + ", sd_scale: 5, sd_freedom: 1, dispersion_scale: 5, dispersion_freedom: 1"}
	radon.posterior = func(*Context) (map[string]weight, error) {
		return radon.sampled(5, []string{"noise", "sd(g)"}, []float64{math.Log(0.73), math.Log(0.32)}, []float64{0.012, 0.07}, 50_000), nil
	}
	binomial := "family: 'binomial', trials: n, prior_variance: {%sg: 'auto'}, intercept_variance: 100, standardize: false, sd_scale: 1, sd_freedom: 1"
	surgical := grouped{name: "surgical", y: num(components.Surgical[0]), n: num(components.Surgical[1]), g: index(12), prior: "half-Cauchy(1)", options: fmt.Sprintf(binomial, "")}
	surgical.posterior = func(*Context) (map[string]weight, error) {
		return surgical.sampledBinomial([]float64{-2.5, math.Log(0.4)}, []float64{0.1, 0.5}, 100_000), nil
	}
	x1, x2 := num(components.Seeds[2]), num(components.Seeds[3])
	both := make([]float64, len(x1))
	for i := range both {
		both[i] = x1[i] * x2[i]
	}
	seeds := grouped{name: "seeds", y: num(components.Seeds[0]), n: num(components.Seeds[1]), x: [][]float64{x1, x2, both}, g: index(21), prior: "half-Cauchy(1)", options: fmt.Sprintf(binomial, "x1: 100, x2: 100, x3: 100, ")}
	seeds.posterior = func(*Context) (map[string]weight, error) {
		return seeds.sampledBinomial([]float64{-0.5, 0.1, 1.3, -0.8, math.Log(0.3)}, []float64{0.15, 0.2, 0.2, 0.3, 0.5}, 100_000), nil
	}
	return []grouped{rats, radon, surgical, seeds}, nil
}

// sampled is the posterior of a gaussian model, whose coefficients are integrated exactly.
func (d *grouped) sampled(scale float64, names []string, at, step []float64, draws int) map[string]weight {
	x := [][]float64{make([]float64, len(d.y))}
	for i := range x[0] {
		x[0][i] = 1
	}
	x = append(x, d.x...)
	var z []float64
	if d.slopes {
		z = d.x[0]
	}
	log := components.Gaussian(d.y, x, d.g, z, scale)
	all := components.Metropolis(at, step, draws, func(q []float64) float64 {
		l, _, _ := log(q)
		return l
	})
	out := map[string]weight{}
	for k, name := range names {
		m, s := components.Moments(all, func(q []float64) float64 { return math.Exp(q[k]) })
		out[name] = weight{m, s}
	}
	for j := range x {
		within := 0.0
		m, s := components.Moments(all, func(q []float64) float64 {
			_, mean, variance := log(q)
			within += variance[j] / float64(len(all))
			return mean[j]
		})
		out[coefficient(j)] = weight{m, math.Sqrt(s*s + within)}
	}
	return out
}

func (d *grouped) sampledBinomial(at, step []float64, draws int) map[string]weight {
	p := len(at) - 1
	variance := make([]float64, p)
	for j := range variance {
		variance[j] = 100
	}
	all := components.Metropolis(at, step, draws, components.Binomial(d.y, d.n, d.x, variance, 1))
	out := map[string]weight{}
	for k := range at {
		name, value := coefficient(k), func(q []float64) float64 { return q[k] }
		if k == p {
			name, value = "sd(g)", func(q []float64) float64 { return math.Exp(q[k]) }
		}
		m, s := components.Moments(all, value)
		out[name] = weight{m, s}
	}
	return out
}

func coefficient(j int) string {
	if j == 0 {
		return "(Intercept)"
	}
	return fmt.Sprint("x", j)
}

// write leaves the data in a file and in the table d.
func (d *grouped) write(s *session, dir string) error {
	file := filepath.Join(dir, d.name+".csv")
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	head := []string{"y", "n", "g"}
	for j := range d.x {
		head = append(head, coefficient(j+1))
	}
	w.Write(head)
	for i, y := range d.y {
		n := 1.0
		if d.n != nil {
			n = d.n[i]
		}
		row := []string{fmt.Sprint(y), fmt.Sprint(n), fmt.Sprint("g", d.g[i])}
		for _, x := range d.x {
			row = append(row, fmt.Sprint(x[i]))
		}
		w.Write(row)
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return s.exec("CREATE OR REPLACE TABLE d AS FROM read_csv('" + file + "')")
}

// fit is what a function says of the data: coefficients and deviations.
func (d *grouped) fit(s *session, function, more string) (map[string]weight, error) {
	fields := []string{"g: g"}
	for j := range d.x {
		fields = append(fields, coefficient(j+1)+": "+coefficient(j+1)+"::DOUBLE")
	}
	if d.slopes {
		fields = append(fields, "'s:g': {s: x1::DOUBLE, g: g}")
	}
	return s.summary(fmt.Sprintf("SELECT %s(y, {%s}, {%s%s}) FROM d", function, strings.Join(fields, ", "), d.options, more))
}

// summary is what bglm_summary says of the FIT that a query gives.
func (s *session) summary(fit string) (map[string]weight, error) {
	rows, err := s.db.Query("SELECT term, mean, sd FROM (SELECT unnest(bglm_summary(fit), recursive := true) FROM (" + fit + ") f(fit))")
	if err != nil {
		return nil, short(err)
	}
	defer rows.Close()
	out := map[string]weight{}
	for rows.Next() {
		var name string
		var w weight
		if err := rows.Scan(&name, &w.mean, &w.sd); err != nil {
			return nil, err
		}
		out[name] = w
	}
	if err := rows.Err(); err != nil {
		return nil, short(err)
	}
	noise := weight{sd: math.NaN()}
	if err := s.row("SELECT sqrt(fit.dispersion) FROM ("+fit+") f(fit)", &noise.mean); err != nil {
		return nil, err
	}
	out["noise"] = noise
	names, err := s.texts("SELECT c.name FROM (SELECT unnest(fit.columns) AS c FROM (" + fit + ") f(fit)) WHERE c.variance IS NOT NULL ORDER BY 1")
	if err != nil {
		return nil, err
	}
	sds, err := s.columns("SELECT sqrt(c.variance) FROM (SELECT unnest(fit.columns) AS c FROM (" + fit + ") f(fit)) WHERE c.variance IS NOT NULL ORDER BY c.name")
	if err != nil {
		return nil, err
	}
	for k, name := range names {
		if _, ok := out["sd("+name+")"]; !ok { // at the maximum alone there is no posterior of it
			out["sd("+name+")"] = weight{mean: sds[0][k], sd: math.NaN()}
		}
	}
	return out, nil
}

// estimates are those of lme4 for the data in the folder, by data set and quantity; none where
// R or lme4 is missing.
func (c *Context) estimates(dir string) (map[string]float64, string, error) {
	if c.R == "" || exec.Command(c.R, "-e", "library(lme4)").Run() != nil {
		return nil, "", nil
	}
	script := filepath.Join(dir, "components.R")
	if err := os.WriteFile(script, lme4, 0o600); err != nil {
		return nil, "", err
	}
	if out, err := exec.Command(c.R, script, dir).CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("lme4: %w: %s", err, out)
	}
	f, err := os.Open(filepath.Join(dir, "lme4.csv"))
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, "", err
	}
	out, version := map[string]float64{}, ""
	for _, l := range lines[1:] {
		if out[l[0]+" "+strings.Replace(l[1], "sd(x1:g)", "sd(s:g)", 1)], err = strconv.ParseFloat(l[2], 64); err != nil {
			return nil, "", err
		}
		version = l[3]
	}
	return out, version, nil
}

var variances = Part{
	Name: "components", Title: "Variance components",
	Text: "This section compares models of groups with learnt variances with the exact posterior. Both have the same prior of the group standard deviations, shown in the table;\n" +
		"coefficients have vague priors. The exact posterior is published, or sampled by the Metropolis algorithm from the exact marginal likelihood\n" +
		"(`kernels/kerneltest/components`).\n\n" +
		"- *error of the mean* is in standard deviations of the exact posterior. The aim is at most 0.05.\n" +
		"- *error of the sd* is relative. The aim is at most 5 %.\n" +
		"- *at the maximum* is the estimate that maximises the evidence (`integrate: false`).\n" +
		"- *lme4* is the estimate on the same data by restricted maximum likelihood (lmer) or maximum likelihood (glmer, 25 quadrature points).\n" +
		"- *noise* is the square root of the mean of σ².",
	Run: func(c *Context) (*Table, error) {
		t := &Table{Head: []string{"data", "prior", "quantity", "bglm_laplace", "exact", "error of the mean", "error of the sd", "at the maximum", "lme4"}}
		s, err := open()
		if err != nil {
			return nil, err
		}
		defer s.Close()
		dir, err := os.MkdirTemp("", "newcomer-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		if err := schoolLines(s, t); err != nil {
			return nil, err
		}
		sets, err := groupedSets(c)
		if err != nil {
			return nil, err
		}
		if c.Quick {
			sets = sets[:1]
		}
		for _, d := range sets {
			if err := d.write(s, dir); err != nil {
				return nil, err
			}
		}
		theirs, version, err := c.estimates(dir)
		if err != nil {
			return nil, err
		}
		for _, d := range sets {
			if err := c.componentLines(s, &d, dir, theirs, t); err != nil {
				return nil, fmt.Errorf("%s: %w", d.name, err)
			}
		}
		if version != "" {
			t.Notes = append(t.Notes, "lme4 "+version+". The references for rats are those of the BUGS examples, except for the sampled standard deviations of the groups; those for eight schools are posteriordb's.")
		}
		if !c.Quick {
			t.Notes = append(t.Notes, "For the coefficients of surgical and seeds, `bglm_laplace` averages conditional modes instead of means. `third_order: true` corrects each mode by its difference to the mean, to third order; `bglm_ep` computes means. The brackets above contain the errors of the mean and of the sd.")
		}
		if !c.Quick {
			return t, manyGroups(s, t)
		}
		return t, nil
	},
}

// quantity adds a line, and what misses its aim.
func (t *Table) quantity(set, prior, name string, got, want weight, most, theirs string) {
	off, wide := (got.mean-want.mean)/want.sd, got.sd/want.sd-1
	spread, ratio := number(got.mean)+" ± "+number(got.sd), fmt.Sprintf("%+.1f %%", 100*wide)
	if math.IsNaN(got.sd) {
		spread, ratio = number(got.mean), "-"
	}
	t.add(set, prior, name, spread, number(want.mean)+" ± "+number(want.sd), fmt.Sprintf("%+.3f", off), ratio, most, theirs)
	if math.Abs(off) > 0.05 {
		t.miss(set+", "+name, "mean %s, exact %s ± %s", number(got.mean), number(want.mean), number(want.sd))
	}
	if math.Abs(wide) > 0.05 {
		t.miss(set+", "+name, "sd %s, exact %s", number(got.sd), number(want.sd))
	}
}

// schoolLines is Rubin's (1981) eight schools, mu ~ N(0, 25), tau half-Cauchy(5).
func schoolLines(s *session, t *Table) error {
	const call = "SELECT bglm_laplace(y, {school: school}, {family: 'gaussian', dispersion: 1, weight: 1 / (e * e), prior_variance: {school: 'auto'}, intercept_variance: 25, standardize: false, sd_scale: 5, sd_freedom: 1}) " +
		"FROM (VALUES ('A', 28, 15.0), ('B', 8, 10), ('C', -3, 16), ('D', 7, 11), ('E', -1, 9), ('F', 1, 11), ('G', 18, 10), ('H', 12, 18)) d(school, y, e)"
	got, err := s.summary(call)
	if err != nil {
		return err
	}
	t.quantity("eight schools", "half-Cauchy(5)", "(Intercept)", got["(Intercept)"], weight{4.41, 3.32}, "-", "-")
	t.quantity("eight schools", "half-Cauchy(5)", "sd(school)", got["sd(school)"], weight{3.60, 3.20}, "-", "-")
	return nil
}

func (c *Context) componentLines(s *session, d *grouped, dir string, theirs map[string]float64, t *Table) error {
	if err := d.write(s, dir); err != nil {
		return err
	}
	got, err := d.fit(s, "bglm_laplace", "")
	if err != nil {
		return err
	}
	most, err := d.fit(s, "bglm_laplace", ", integrate: false")
	if err != nil {
		return err
	}
	want, err := d.posterior(c)
	if err != nil {
		return err
	}
	names := []string{"(Intercept)"}
	for j := range d.x {
		names = append(names, coefficient(j+1))
	}
	for _, name := range append(names, "sd(g)", "sd(s:g)", "noise") {
		w, ok := want[name]
		if !ok {
			continue
		}
		g, m := got[name], most[name]
		if name == "noise" {
			w.mean = math.Hypot(w.mean, w.sd)
		}
		other := "-"
		if v, ok := theirs[d.name+" "+name]; ok {
			other = number(v)
		}
		fmt.Fprintln(c.Log, d.name, name, g, w, m, other)
		t.quantity(d.name, d.prior, name, g, w, number(m.mean), other)
	}
	if d.n == nil {
		return nil
	}
	for _, other := range []struct{ what, function, more string }{{"With `third_order: true`", "bglm_laplace", ", third_order: true"}, {"With `bglm_ep`", "bglm_ep", ""}} {
		fit, err := d.fit(s, other.function, other.more)
		if err != nil {
			return err
		}
		var means []string
		for _, name := range append(names, "sd(g)") {
			g, w := fit[name], want[name]
			means = append(means, fmt.Sprintf("%s %s ± %s (%+.3f, %+.1f %%)", name, number(g.mean), number(g.sd), (g.mean-w.mean)/w.sd, 100*(g.sd/w.sd-1)))
			if math.Abs(g.mean-w.mean) > 0.05*w.sd || math.Abs(g.sd/w.sd-1) > 0.05 {
				t.miss(d.name+", "+name+", "+strings.ToLower(other.what[:1])+other.what[1:], "%s ± %s, exact %s ± %s", number(g.mean), number(g.sd), number(w.mean), number(w.sd))
			}
		}
		t.Notes = append(t.Notes, fmt.Sprintf("%s, %s has %s.", other.what, d.name, strings.Join(means, ", ")))
	}
	return nil
}

// manyGroups is how long 100,000 groups of ten rows take, and the memory beside the rows.
func manyGroups(s *session, t *Table) error {
	if err := s.exec("CREATE OR REPLACE TABLE m AS SELECT i, 'g' || (i // 10) AS g, u, eta + sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()) AS y, random() < 1 / (1 + exp(-eta)) AS b FROM " +
		"(SELECT i, u, -0.5 + 0.4 * u + first_value(z) OVER (PARTITION BY i // 10 ORDER BY i) AS eta FROM (SELECT i, random() - 0.5 AS u, 0.7 * sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()) AS z FROM range(1000000) r(i)))"); err != nil {
		return err
	}
	for _, c := range []struct{ y, options string }{{"y", "family: 'gaussian', "}, {"b", ""}} {
		peak, before, start := newPeak(), processorTime(), time.Now()
		var sd float64
		if err := s.row("SELECT list_filter(bglm_summary(bglm_laplace("+c.y+", {g: g, u: u}, {"+c.options+"prior_variance: 'auto'})), lambda r: r.term = 'sd(g)')[1].mean FROM m", &sd); err != nil {
			return err
		}
		took, used := time.Since(start).Seconds(), (processorTime() - before).Seconds()
		family := "logit"
		if c.y == "y" {
			family = "gaussian"
		}
		memory := ""
		if mb := peak(); mb > 0 && c.y == "y" { // the second finds room that the first has left
			memory = fmt.Sprintf(" and %.0f MiB of memory", mb)
		}
		t.Notes = append(t.Notes, fmt.Sprintf("100,000 groups of ten rows with one number, %s, all variances learnt, in SQL: %.1f s of wall-clock time, %.1f s of processor time (DuckDB's calling thread spins while a worker solves)%s. The learnt sd(g) is %.3f; the rows were simulated with 0.7.", family, took, used, memory, sd))
		if took > 2 {
			t.miss("100,000 groups, "+family, "%.1f s, the aim is 2", took)
		}
	}
	return nil
}

// newPeak begins to measure the most memory that the process takes; its result says by how
// much more, in MB, that is than at the beginning, 0 where that cannot be measured.
func newPeak() func() float64 {
	resident := func(key string) float64 {
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return 0
		}
		_, rest, _ := strings.Cut(string(text), key+":")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return 0
		}
		kb, _ := strconv.ParseFloat(fields[0], 64)
		return kb / 1024
	}
	before := resident("VmRSS")
	if os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) != nil {
		return func() float64 { return 0 }
	}
	return func() float64 { return resident("VmHWM") - before }
}

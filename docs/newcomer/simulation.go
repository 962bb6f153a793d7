package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
)

// checked is an engine whose posterior is compared with the truths that its prior gives.
type checked struct {
	name, method string
	options      map[string]any
	leaves       bool // so many levels that the block has no room for them
	few          bool // a slow one: fewer data sets
	// wrong changes a draw of the posterior; the engine must be rejected.
	wrong func(r *rand.Rand, m, w float64) float64
	aim   string // "pass", "reject", or "" for an approximation that is only shown
}

var engines = []checked{
	{name: "adf, arrowhead", method: "adf", options: map[string]any{"covariance": "arrowhead"}, aim: "pass"},
	{name: "adf, arrowhead, 200 levels in 1,000 rows", method: "adf", options: map[string]any{"covariance": "arrowhead"}, leaves: true, aim: "pass"},
	{name: "adf, full", method: "adf", options: map[string]any{"covariance": "full"}, aim: "pass"},
	{name: "ep, full", method: "ep", options: map[string]any{"covariance": "full"}, aim: "pass"},
	{name: "laplace", method: "laplace", aim: "pass"},
	{name: "hmc, 300 draws of a chain", method: "hmc", options: map[string]any{"samples": 300, "warmup": 200, "chains": 1}, few: true, aim: "pass"},
	{name: "lowrank, full rank", method: "lowrank", options: map[string]any{"rank": 10}, aim: "pass"},
	{name: "sequential_laplace", method: "sequential_laplace"},
	{name: "variational", method: "variational"},
	{name: "ekf", method: "ekf"},
	{name: "adf, factorised", method: "adf", options: map[string]any{"covariance": "diagonal"}, aim: "reject"},
	{name: "ep, factorised", method: "ep", options: map[string]any{"covariance": "diagonal"}, aim: "reject"},
	{name: "wrong on purpose: laplace with half the variance", method: "laplace", aim: "reject",
		wrong: func(_ *rand.Rand, m, w float64) float64 { return m + (w-m)*math.Sqrt(0.5) }},
	{name: "wrong on purpose: laplace without its prior", method: "laplace", options: map[string]any{"prior_variance": 1e4, "intercept_variance": 1e4}, aim: "reject"},
	{name: "wrong on purpose: the prior, no data", method: "laplace", aim: "reject",
		wrong: func(r *rand.Rand, _, _ float64) float64 { return r.NormFloat64() }},
}

const (
	draws     = 127 // of a posterior, so that a rank is one of 128
	rankBins  = 16
	rejection = 1e-3
)

var simulation = Part{
	Name: "simulation", Title: "Simulation-based calibration",
	Text: "Each run draws the true weights from the prior, N(0, 1), and then 200 rows of two numbers and eight levels (logit). If the posterior is right, the rank of the truth\n" +
		"among 127 draws of the joint posterior is uniform, which a chi-squared test over 16 bins checks for\n\n" +
		"- the log likelihood of the data, which rejects a posterior that ignores the data even if its weights pass;\n" +
		"- every weight (the smallest p-value times the number of weights, which is eleven with eight levels).\n\n" +
		"An engine passes if both p-values are above 0.001. With more levels than the arrowhead's block has room for, truths are drawn from the arrowhead's own prior, which\n" +
		"ties the levels of a column. Factorised posteriors, and three that are wrong on purpose, must be rejected. Engines without a requirement are approximations, and\n" +
		"their p-values are for information.",
	Run: func(c *Context) (*Table, error) {
		t := &Table{Head: []string{"engine", "data sets", "p, log likelihood", "p, weights", "verdict", "required"}}
		for _, e := range engines {
			n := 500
			switch {
			case c.Quick && e.aim == "":
				continue
			case c.Quick:
				n = 120
			case e.few:
				n = 200
			}
			if c.Quick && e.few {
				continue
			}
			lik, weights, err := e.calibrate(n)
			if err != nil {
				t.add(e.name, fmt.Sprint(n), "error: "+err.Error(), "-", "-", e.aim)
				t.miss(e.name, "%v", err)
				continue
			}
			verdict := "pass"
			if !(min(lik, weights) > rejection) {
				verdict = "reject"
			}
			row := []string{e.name, fmt.Sprint(n), number(lik), number(weights), verdict, e.aim}
			fmt.Fprintln(c.Log, strings.Join(row, " | "))
			t.add(row...)
			if e.aim != "" && verdict != e.aim {
				t.miss(e.name, "%s instead of %s", verdict, e.aim)
			}
		}
		return t, nil
	},
}

// calibrate is the p of uniform ranks over n data sets: of the log likelihood, and of the
// weights together.
func (e *checked) calibrate(n int) (lik, weights float64, err error) {
	r := rand.New(rand.NewPCG(3, 4))
	counts := map[string][]float64{}
	for range n {
		w := newWorld(r, "bernoulli", 200, 8, 1, 0)
		if e.leaves {
			w = newWorld(r, "bernoulli", 1000, 200, 1, 256) // as many levels as the filter takes 200 for
		}
		posterior, err := e.sample(w, r)
		if err != nil {
			return 0, 0, err
		}
		truth := w.logLik(w.weights)
		rank := map[string]int{"": 0}
		for _, drawn := range posterior {
			if w.logLik(drawn) < truth {
				rank[""]++
			}
			for name, x := range drawn {
				if x < w.weights[name] {
					rank[name]++
				}
			}
		}
		for _, name := range append(w.features(), "") {
			if counts[name] == nil {
				counts[name] = make([]float64, rankBins)
			}
			counts[name][rank[name]*rankBins/(draws+1)]++
		}
	}
	weights = 1
	for name, k := range counts {
		p := uniform(k, n)
		if name == "" {
			lik = p
		} else {
			weights = min(weights, p*float64(len(counts)-1))
		}
	}
	return lik, weights, nil
}

// uniform is the p of a chi-squared test that n falls are uniform over the bins.
func uniform(k []float64, n int) float64 {
	each, chi := float64(n)/float64(len(k)), 0.0
	for _, c := range k {
		chi += (c - each) * (c - each) / each
	}
	return distuv.ChiSquared{K: float64(len(k) - 1)}.Survival(chi)
}

// sample fits the world in Go and draws weights from the joint posterior.
func (e *checked) sample(w *world, r *rand.Rand) ([]map[string]float64, error) {
	given := map[string]option.Source{"prior_variance": option.Go(1.0), "intercept_variance": option.Go(1.0)}
	for k, v := range e.options {
		given[k] = option.Go(v)
	}
	settings, err := option.For(e.method).Decode(maps.All(given))
	if err != nil {
		return nil, err
	}
	fit, err := engine.Fit(context.Background(), e.method, settings, &rows.Table{
		X: rows.Fields(rows.Numbers("u", w.u), rows.Numbers("v", w.v), rows.Texts("g", w.g)), Y: rows.Numbers("y", w.y)})
	if err != nil {
		return nil, err
	}
	s, err := predict.New(fit.Fit)
	if err != nil {
		return nil, err
	}
	d, err := s.NewDraw()
	if err != nil {
		return nil, err
	}
	means := map[string]float64{}
	for _, b := range fit.Beliefs {
		means[b.Feature] = b.Mean
	}
	names := w.features()
	slices.Sort(names)
	out := make([]map[string]float64, draws)
	seed := r.Uint64()
	for k := range out {
		d.Set(seed, uint64(k))
		out[k] = map[string]float64{}
		for _, name := range names {
			// The predictor of a row with one feature, less that of a row without any.
			var features []string
			var ones []float64
			if name != "(Intercept)" {
				features, ones = []string{name}, []float64{1}
			}
			b, err := s.Row(features, ones, 0)
			if err != nil {
				return nil, err
			}
			eta, err := d.Linear(b, 0)
			if err != nil {
				return nil, err
			}
			out[k][name] = eta - out[k]["(Intercept)"]
		}
		if e.wrong != nil {
			for _, name := range names {
				out[k][name] = e.wrong(r, means[name], out[k][name])
			}
		}
	}
	return out, nil
}

package answer

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
)

// rModel is a model of testdata/gen/answer.R with a vague prior.
type rModel struct {
	name, y, family, link, x string
	offset                   bool
}

var rModels = []rModel{
	{"logit", "bin", "bernoulli", "logit", "x z g h", false},
	{"probit", "bin", "bernoulli", "probit", "x z g h", false},
	{"cloglog", "bin", "bernoulli", "cloglog", "x z g h", false},
	{"poisson", "cnt", "poisson", "log", "x z g h", false},
	{"gaussian", "num", "gaussian", "identity", "x z g h", false},
	{"offset", "cnt", "poisson", "log", "x g", true},
	{"plain", "num", "gaussian", "identity", "x z", false},
	{"levels", "bin", "bernoulli", "logit", "g h", false},
	{"small", "cnt", "poisson", "log", "g x", false},
	{"interaction", "bin", "bernoulli", "logit", "x z x_by_z h", false},
}

// fit is the model of d under N(0, 1e8) for every weight: with an intercept and all levels of
// the factors it is R's but for the coding of these.
func (m *rModel) fit(t testing.TB, d *data, by map[string]map[string]float64) (*kernels.Fit, []float64) {
	o := map[string]any{"family": m.family, "link": m.link, "standardize": false, "prior_variance": 1e6, "intercept_variance": 1e6, "tol": 1e-12}
	if s, ok := by[m.name+" sigma2"]; ok {
		o["dispersion"] = s[""]
	}
	var offset []float64
	if m.offset {
		for _, z := range d.number["z"] {
			offset = append(offset, math.Log(z+1))
		}
	}
	return d.fit(t, m.y, m.x, o, offset), offset
}

// fields are the columns of a model, x_by_z the interaction of x and z.
func (d *data) fields(names string) *rows.Slice {
	if d.number["z"] != nil {
		d.number["x_by_z"] = make([]float64, d.n)
		for i := range d.n {
			d.number["x_by_z"][i] = d.number["x"][i] * d.number["z"][i]
		}
	}
	return rows.Fields(d.cols(names)...)
}

// encoded are the rows of x with the features of dict.
func encoded(t testing.TB, f *kernels.Fit, dict *kernels.Dict, x rows.Column, n int) *kernels.Batch {
	t.Helper()
	e := rows.NewScoring(x, "x", rows.Words{})
	if _, err := e.Score(f); err != nil {
		t.Fatal(err)
	}
	var b kernels.Batch
	b.Reset()
	if err := e.Append(0, n, dict, f.Intercept, nil, &b); err != nil {
		t.Fatal(err)
	}
	return &b
}

func scorer(t testing.TB, f *kernels.Fit) *predict.Scorer {
	t.Helper()
	s, err := predict.New(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pair are the low and the high version of the rows under a key of facts.csv such as "x:dY/dX".
func (d *data) pair(t testing.TB, e *Effects, names, key string) (lo, hi *kernels.Batch) {
	column, contrast, _ := strings.Cut(key, ":")
	x := d.fields(names)
	version := func(by func(rows.Column) rows.Column) *kernels.Batch {
		c, _, ok := rows.Change(x, column, by)
		if !ok {
			t.Fatal("no column", column)
		}
		return encoded(t, e.Fit, e.Features(), c, d.n)
	}
	shift := func(by float64) *kernels.Batch {
		return version(func(c rows.Column) rows.Column { return rows.Shifted(c, by) })
	}
	level := func(l string) *kernels.Batch {
		return version(func(c rows.Column) rows.Column { return rows.Fixed(c, l) })
	}
	switch contrast {
	case "dY/dX":
		return shift(-e.o.Step), shift(e.o.Step)
	case "+2":
		return shift(0), shift(2)
	}
	return level(contrast[strings.LastIndex(contrast, "(")+1 : len(contrast)-1]), level(contrast[strings.Index(contrast, "(")+1 : strings.Index(contrast, ")")])
}

// Average comparisons and slopes and their errors are R's, by marginaleffects' definition,
// within 1e-3 of the error: at the mean weights, under a vague prior.
func TestEffectsAgainstR(t *testing.T) {
	d, by, _ := facts(t)
	checked := 0
	for _, m := range rModels {
		if m.name == "interaction" {
			continue // x and x_by_z change together: SQL says so by a STRUCT in x
		}
		f, offset := m.fit(t, d, by)
		for key, want := range by[m.name+" effect"] {
			sd := by[m.name+" effect_sd"][key]
			o := EffectOptions{Kind: predict.Plugin, Slopes: strings.HasSuffix(key, "dY/dX"), Step: 0.8}
			e, err := NewEffects(scorer(t, f), o)
			if err != nil {
				t.Fatal(err)
			}
			lo, hi := d.pair(t, e, m.x, key)
			lo.Offset, hi.Offset = offset, offset
			if err := e.Add(context.Background(), lo, hi); err != nil {
				t.Fatal(err)
			}
			got, err := e.Effect()
			if err != nil {
				t.Fatal(err)
			}
			kerneltest.Close(t, m.name+" "+key, got.Mean, want, kerneltest.Tol{Abs: 1e-3 * sd})
			kerneltest.Close(t, m.name+" "+key+" sd", got.SD, sd, kerneltest.Tol{Rel: 1e-3})
			checked++
		}
	}
	if checked < 40 {
		t.Error("only", checked)
	}
}

// Differences between levels are R's, of emmeans, within 1e-3 of their errors.
func TestContrastsAgainstR(t *testing.T) {
	d, by, _ := facts(t)
	for _, m := range rModels {
		f, _ := m.fit(t, d, by)
		s, err := predict.New(f)
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range by[m.name+" pair"] {
			var b kernels.Batch
			b.Reset()
			for _, l := range strings.Split(key, " - ") {
				id, ok := s.Features().Find("g=" + l)
				if !ok {
					t.Fatal(m.name, key)
				}
				b.Add(id, 1)
				b.EndRow()
			}
			c, err := s.Contrast(&b, 0, 1, 0.95)
			if err != nil {
				t.Fatal(err)
			}
			sd := by[m.name+" pair_sd"][key]
			kerneltest.Close(t, m.name+" "+key, c.Mean, want, kerneltest.Tol{Abs: 1e-3 * sd})
			kerneltest.Close(t, m.name+" "+key+" sd", c.SD, sd, kerneltest.Tol{Rel: 1e-3})
		}
	}
}

// With the weights integrated out the mean is that of draws of them, and the deviation that
// of draws up to the curvature of the link.
func TestEffectsAgainstDraws(t *testing.T) {
	d, by, _ := facts(t)
	const draws = 2000
	for _, m := range []rModel{rModels[0], rModels[3]} {
		f, _ := m.fit(t, d, by)
		d := d.only(func(i int) bool { return i < 30 })
		for key := range by[m.name+" effect"] {
			var got [2]Effect
			for k, n := range []int{0, draws} {
				e, err := NewEffects(scorer(t, f), EffectOptions{Draws: n, Seed: 5, Slopes: strings.HasSuffix(key, "dY/dX"), Step: 0.8})
				if err != nil {
					t.Fatal(err)
				}
				lo, hi := d.pair(t, e, m.x, key)
				if err := e.Add(context.Background(), lo, hi); err != nil {
					t.Fatal(err)
				}
				if got[k], err = e.Effect(); err != nil {
					t.Fatal(err)
				}
			}
			what := m.name + " " + key
			// four standard errors of a mean of draws
			kerneltest.Close(t, what, got[0].Mean, got[1].Mean, kerneltest.Tol{Abs: 4 * got[1].SD / math.Sqrt(draws)})
			kerneltest.Close(t, what+" sd", got[0].SD, got[1].SD, kerneltest.Tol{Rel: 0.08})
			kerneltest.Close(t, what+" P(> 0)", got[0].Positive, got[1].Positive, kerneltest.Tol{Abs: 0.04})
		}
	}
}

// The slopes of the responses are derivatives of what predict says, and of the closed form.
func TestResponses(t *testing.T) {
	for _, c := range []struct{ family, link string }{{"bernoulli", "logit"}, {"bernoulli", "probit"}, {"bernoulli", "cloglog"}, {"poisson", "log"}, {"gaussian", "identity"}} {
		l, err := lik.New(c.family, c.link, lik.Params{Dispersion: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []float64{-3, -0.4, 0, 1.7} {
			for _, v := range []float64{0, 1e-6, 0.01, 0.3, 4, 60} {
				d := responses(l, m, v)
				value, slope := responseAndSlope(l, m, v)
				kerneltest.Close(t, fmt.Sprintf("%s %v %v, value", c.link, m, v), value, d[0], kerneltest.Tol{Abs: 1e-9})
				kerneltest.Close(t, fmt.Sprintf("%s %v %v, slope", c.link, m, v), slope, d[1], kerneltest.Tol{Abs: 1e-9, Rel: 1e-9})
				for k := range 3 {
					const h = 1e-4
					slope := (responses(l, m+h, v)[k] - responses(l, m-h, v)[k]) / (2 * h)
					kerneltest.Close(t, fmt.Sprintf("%s %v %v, derivative %d", c.link, m, v, k+1), d[k+1], slope, kerneltest.Tol{Abs: 1e-6 * (1 + math.Abs(slope))})
				}
			}
		}
	}
}

// Parts of the rows add up to the whole, also where each part has met levels of its own that
// the fit has not seen, and equal draws are equal.
func TestMergeEffects(t *testing.T) {
	d, _, _ := facts(t)
	f := d.fit(t, "bin", "x g", map[string]any{"prior_variance": 2.0}, nil)
	for i := range d.n {
		if i > 60 {
			d.text["g"][i] = "new" + string(rune('a'+i%2))
		}
	}
	for _, n := range []int{0, 50} {
		var got [2]Effect
		for part := range 2 {
			var es []*Effects
			whole, err := NewEffects(scorer(t, f), EffectOptions{Draws: n, Slopes: true, Step: 1})
			if err != nil {
				t.Fatal(err)
			}
			es = append(es, whole)
			if part == 1 {
				es = append(es, whole.Clone(whole.Scorer.Clone()))
			}
			for k, e := range es {
				rest := d.only(func(i int) bool { return (i*7)%len(es) == k })
				lo, hi := rest.pair(t, e, "x g", "x:dY/dX")
				if err := e.Add(context.Background(), lo, hi); err != nil {
					t.Fatal(err)
				}
				if k > 0 {
					whole.Merge(e)
				}
			}
			if got[part], err = whole.Effect(); err != nil {
				t.Fatal(err)
			}
		}
		kerneltest.Close(t, "mean", got[1].Mean, got[0].Mean, kerneltest.Tol{Rel: 1e-12})
		kerneltest.Close(t, "sd", got[1].SD, got[0].SD, kerneltest.Tol{Rel: 1e-12})
		kerneltest.Close(t, "upper", got[1].Upper, got[0].Upper, kerneltest.Tol{Rel: 1e-12})
	}
}

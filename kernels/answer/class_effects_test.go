package answer

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
)

// labelled fits the classes y.
func labelled(t *testing.T, y []string, x *rows.Slice, o map[string]any) *kernels.Fit {
	t.Helper()
	s, err := option.For("softmax").Decode(given(o))
	if err != nil {
		t.Fatal(err)
	}
	r, err := engine.Fit(t.Context(), "softmax", s, &rows.Table{X: x, Y: rows.Texts("y", y)})
	if err != nil {
		t.Fatal(err)
	}
	return r.Fit
}

// classData has three classes that depend on a number and on levels.
func classData() (y []string, x []float64, g []string) {
	for i := range 240 {
		v := float64((i*37)%101)/25 - 2
		l := string(rune('a' + i%3))
		k := (i*i/7 + i) % 5 / 2
		if v > 0.5 && i%4 > 0 || l == "c" && i%5 == 0 {
			k = 2
		}
		y, x, g = append(y, []string{"red", "green", "blue"}[k]), append(x, v), append(g, l)
	}
	return y, x, g
}

// compare is what a comparison of two versions of the rows comes to.
func compared(t *testing.T, f *kernels.Fit, o EffectOptions, lo, hi rows.Column, n int) []Effect {
	t.Helper()
	c, err := NewComparisons(f, []EffectOptions{o})
	if err != nil {
		t.Fatal(err)
	}
	// In two parts, merged: as one.
	half := c.Clone()
	for k, part := range []*Comparisons{half, c} {
		keep := make([]bool, n)
		for i := range keep {
			keep[i] = (i%3 == 0) == (k == 0)
		}
		var two [2]kernels.Batch
		for j, x := range []rows.Column{lo, hi} {
			e := rows.NewScoring(x, "x", rows.Words{})
			if _, err := e.Score(f); err != nil {
				t.Fatal(err)
			}
			two[j].Reset()
			if err := e.Append(0, n, part.Features(), f.Intercept, keep, &two[j]); err != nil {
				t.Fatal(err)
			}
		}
		if err := part.Add(context.Background(), 0, &two[0], &two[1]); err != nil {
			t.Fatal(err)
		}
	}
	c.Merge(half)
	e, err := c.Effect(0)
	if err != nil {
		t.Fatal(err)
	}
	if c.Size() <= 0 {
		t.Error("no size")
	}
	return e
}

// Of one column of levels and no prior to speak of, probabilities are shares, and their
// differences have the errors of the multinomial distribution: what nnet's multinom and
// marginaleffects come to.
func TestClassSharesClosedForm(t *testing.T) {
	y, _, g := classData()
	n, of := map[string]float64{}, map[string]float64{}
	for i := range y {
		n[g[i]]++
		of[g[i]+y[i]]++
	}
	levels := rows.Fields(rows.Texts("g", g))
	for _, reference := range []string{"", "green"} {
		o := map[string]any{"prior_variance": 1e6, "intercept_variance": 1e6, "tol": 1e-12}
		if reference != "" {
			o["reference"] = reference
		}
		f := labelled(t, y, levels, o)
		fixed := func(l string) rows.Column {
			c, _, _ := rows.Change(levels, "g", func(c rows.Column) rows.Column { return rows.Fixed(c, l) })
			return c
		}
		for _, e := range compared(t, f, EffectOptions{Kind: predict.Plugin}, fixed("a"), fixed("c"), len(y)) {
			pa, pc := of["a"+e.Class]/n["a"], of["c"+e.Class]/n["c"]
			kerneltest.Close(t, e.Class, e.Mean, pc-pa, kerneltest.Tol{Abs: 1e-5})
			kerneltest.Close(t, e.Class+" sd", e.SD, math.Sqrt(pa*(1-pa)/n["a"]+pc*(1-pc)/n["c"]), kerneltest.Tol{Rel: 1e-4})
			if e.N != int64(len(y)) {
				t.Error(e.N)
			}
		}
	}
}

// Effects at the mean weights are those of the probabilities written out, and their errors
// the gradients by differences under the covariance written out; exact ones, and draws, are
// near to these where the posterior is narrow.
func TestClassEffectsByDifferences(t *testing.T) {
	kerneltest.Slow(t)
	y, x, g := classData()
	n := len(y)
	both := rows.Fields(rows.Numbers("x", x), rows.Texts("g", g))
	for name, o := range map[string]map[string]any{"full": {"hessian": "full"}, "diagonal": {"hessian": "diagonal"}, "lowrank": {"hessian": "lowrank", "rank": 12.0}, "reference": {"reference": "red"}} {
		o["standardize"], o["prior_variance"] = false, 1.0
		f := labelled(t, y, both, o)
		c := len(f.Classes)
		p := len(f.Beliefs) / c
		at := map[string]int{}
		w := make([]float64, len(f.Beliefs))
		for k, b := range f.Beliefs {
			w[k] = b.Mean
			if k < p {
				at[b.Feature] = k
			}
		}
		probs := func(w []float64, x float64, g string) []float64 {
			out, total := make([]float64, c), 0.0
			for k := range out {
				of := w[k*p:]
				out[k] = math.Exp(of[at["(Intercept)"]] + x*of[at["x"]] + of[at["g="+g]])
				total += out[k]
			}
			for k := range out {
				out[k] /= total
			}
			return out
		}
		level := func(w []float64) []float64 {
			out := make([]float64, c)
			for i := range n {
				a, b := probs(w, x[i], "a"), probs(w, x[i], "b")
				for k := range out {
					out[k] += (b[k] - a[k]) / float64(n)
				}
			}
			return out
		}
		slope := func(w []float64) []float64 {
			out := make([]float64, c)
			const h = 1e-4
			for i := range n {
				a, b := probs(w, x[i]-h, g[i]), probs(w, x[i]+h, g[i])
				for k := range out {
					out[k] += (b[k] - a[k]) / (2 * h) / float64(n)
				}
			}
			return out
		}
		fixed := func(l string) rows.Column {
			v, _, _ := rows.Change(both, "g", func(c rows.Column) rows.Column { return rows.Fixed(c, l) })
			return v
		}
		shifted := func(by float64) rows.Column {
			v, _, _ := rows.Change(both, "x", func(c rows.Column) rows.Column { return rows.Shifted(c, by) })
			return v
		}
		for _, what := range []struct {
			name   string
			of     func([]float64) []float64
			o      EffectOptions
			lo, hi rows.Column
		}{{"level", level, EffectOptions{}, fixed("a"), fixed("b")}, {"slope", slope, EffectOptions{Slopes: true, Step: 0.7}, shifted(-0.7), shifted(0.7)}} {
			name := strings.Join([]string{name, what.name}, " ")
			mean := what.of(w)
			grad := make([][]float64, len(w))
			for j := range w {
				const h = 1e-4
				w[j] += h
				up := what.of(w)
				w[j] -= 2 * h
				down := what.of(w)
				w[j] += h
				for k := range c {
					grad[j] = append(grad[j], (up[k]-down[k])/(2*h))
				}
			}
			variance := func(k int) (v float64) {
				for i := range w {
					for j := range w {
						v += grad[i][k] * grad[j][k] * dense2(f, i, j)
					}
				}
				return v
			}
			plugin, exact, draws := what.o, what.o, what.o
			plugin.Kind, draws.Draws, draws.Seed = predict.Plugin, 1000, 3
			one, two := compared(t, f, plugin, what.lo, what.hi, n), compared(t, f, exact, what.lo, what.hi, n)
			three := compared(t, f, draws, what.lo, what.hi, n)
			for k, e := range one {
				sd := math.Sqrt(variance(k))
				kerneltest.Close(t, name+" mean", e.Mean, mean[k], kerneltest.Tol{Abs: 1e-8})
				kerneltest.Close(t, name+" sd", e.SD, sd, kerneltest.Tol{Rel: 1e-5})
				kerneltest.Close(t, name+" exact", two[k].Mean, three[k].Mean, kerneltest.Tol{Abs: 4 * sd / math.Sqrt(1000)})
				kerneltest.Close(t, name+" exact sd", two[k].SD, three[k].SD, kerneltest.Tol{Rel: 0.1})
				kerneltest.Close(t, name+" P", two[k].Positive, three[k].Positive, kerneltest.Tol{Abs: 0.05})
			}
		}
	}
}

// dense2 is the posterior covariance of two weights.
func dense2(f *kernels.Fit, i, j int) float64 {
	c := &f.Covariance
	if c.Form == gauss.Diagonal {
		if i == j {
			return f.Beliefs[i].Variance
		}
		return 0
	}
	of := func(at []int, x []float64) float64 { return c.Variance(at, x, nil) }
	if i == j {
		return of([]int{i}, []float64{1})
	}
	return 0.25 * (of([]int{i, j}, []float64{1, 1}) - of([]int{i, j}, []float64{1, -1}))
}

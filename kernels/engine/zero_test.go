package engine_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/gp"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/kernels/score"
	"github.com/bglm/bglm/kernels/stop"
)

// Methods of zero values that take nothing do not panic. Not here are what only functions
// make of something: problems, classes, scorers, predictors, states, roots, results.
func TestZeroMethods(t *testing.T) {
	for _, x := range []any{
		new(kernels.Model), new(kernels.Batch), new(kernels.Dict), new(kernels.Fit), new(kernels.Prior), new(kernels.Rows), new(kernels.Covariance), new(kernels.Text),
		new(kernels.Scratch), new(kernels.Columns), new(kernels.Options),
		new(dense.Matrix), new(design.Columns), new(design.Scaling), new(gauss.Normal), new(lik.Tilted), new(lik.Learning), new(memory.Grant), new(stop.Stop),
		new(option.Settings), new(option.Spec), new(rows.Table), new(rows.Slice), new(rows.Source), new(rows.Encoder), new(predict.Names),
		new(gp.Posterior), new(score.Snapshot), new(score.Updater), new(engine.Method),
	} {
		v := reflect.ValueOf(x)
		for i := range v.NumMethod() {
			if f := v.Method(i); f.Type().NumIn() == 0 {
				func() {
					defer func() {
						if p := recover(); p != nil {
							t.Errorf("%T.%s: %v", x, v.Type().Method(i).Name, p)
						}
					}()
					f.Call(nil)
				}()
			}
		}
	}
}

// bits prints all exported fields of a value; numbers to the last bit.
func bits(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Float64:
		return fmt.Sprintf("%x,", math.Float64bits(v.Float()))
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return "nil,"
		}
		return bits(v.Elem())
	case reflect.Struct:
		var b strings.Builder
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				b.WriteString(f.Name + ":" + bits(v.Field(i)))
			}
		}
		return b.String()
	case reflect.Slice, reflect.Array:
		var b strings.Builder
		for i := range v.Len() {
			b.WriteString(bits(v.Index(i)))
		}
		return b.String() + ";"
	case reflect.Func, reflect.Map, reflect.Chan:
		return ""
	}
	return fmt.Sprintf("%v,", v)
}

// Zero settings with a family are, for every method, what the other systems decode from no
// option but that.
func TestZeroSettings(t *testing.T) {
	kerneltest.Slow(t)
	const n = 40
	ctx, methods := context.Background(), engine.Methods()
	auto, err := engine.Find(engine.Auto)
	if err != nil {
		t.Fatal(err)
	}
	families := []lik.Info{{Links: []string{""}}}
	for _, f := range lik.Families() {
		f.Links = append([]string{""}, f.Links...)
		families = append(families, f)
	}
	for _, m := range append(methods, *auto) {
		for _, f := range families {
			for _, link := range f.Links {
				run := func(s *option.Settings) string {
					tab := table(n)
					y := make([]float64, n)
					for i := range y {
						switch y[i] = float64((i*i + i%3) % 5); f.Family {
						case "", "bernoulli":
							y[i] = min(y[i], 1)
						case "gamma":
							y[i]++
						case "binomial":
							tab.Trials = rows.Numbers("trials", slices.Repeat([]float64{5}, n))
						}
					}
					tab.Y = rows.Numbers("y", y)
					switch m.Kind {
					case engine.Classes:
						tab.Y, tab.Trials = rows.Texts("y", strings.Split(strings.Repeat("red,green,blue,green,", n/4), ",")[:n]), nil
					case engine.Process:
						x := make([][]float64, n)
						for i := range x {
							x[i] = []float64{float64(i) / n, float64(i % 4)}
						}
						tab.X = rows.Lists(x)
					}
					if s != nil && m.Name == "hmc" { // whose defaults take seconds
						s.Options.Samples, s.Options.Warmup, s.Options.Chains = 20, 20, 1
					}
					r, err := engine.Fit(ctx, m.Name, s, tab)
					if err != nil {
						return err.Error()
					}
					return bits(reflect.ValueOf(r))
				}
				given := map[string]string{}
				for key, word := range map[string]string{"family": f.Family, "link": link} {
					if word != "" {
						given[key] = word
					}
				}
				decoded, err := option.For("fit", m.Name).Decode(func(yield func(string, option.Source) bool) {
					for key, word := range given {
						if !yield(key, option.Go(word)) {
							return
						}
					}
				})
				if err != nil {
					continue // classes have no family
				}
				want := run(decoded)
				if got := run(&option.Settings{Family: f.Family, Link: link}); got != want {
					t.Errorf("%s, %q, %q: zero settings come to\n%.400s\nthose without options to\n%.400s", m.Name, f.Family, link, got, want)
				}
				if strings.Contains(want, "= 0:") || !strings.Contains(want, ",") && m.Name != "variational" {
					t.Errorf("%s, %q, %q: %s", m.Name, f.Family, link, want)
				}
				if f.Family == "" && m.Name != "hmc" {
					if got := run(nil); got != want {
						t.Errorf("%s without settings differs", m.Name)
					}
				}
			}
		}
	}
}

// What is missing is an error.
func TestZeroDoor(t *testing.T) {
	for _, m := range engine.Methods() {
		for _, tab := range []*rows.Table{nil, {}} {
			if r, err := engine.Fit(context.Background(), m.Name, nil, tab); err == nil {
				t.Errorf("%s without a table: %v", m.Name, r)
			}
		}
		if _, err := m.New(t.Context(), nil); err != nil {
			t.Errorf("%s of no model: %v", m.Name, err)
		}
	}
	var m engine.Method
	if f, err := m.New(t.Context(), new(kernels.Model)); err == nil {
		t.Error("the zero Method made", f)
	}
	if _, err := m.Progressive(); err == nil {
		t.Error("the zero Method is progressive")
	}
	if _, err := m.Model(new(option.Settings), false, false); err != nil {
		t.Error(err)
	}
}

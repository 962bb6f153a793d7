package answer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/predict"
)

// coefficient is what R calls a coefficient, as a combination of weights: the intercept with
// the first level of each factor, a level less the first one.
func coefficient(t testing.TB, s *predict.Scorer, m *rModel, key string) *kernels.Batch {
	t.Helper()
	x := map[string]float64{}
	first := map[string]string{"g": "g=a", "h": "h=u"}
	column, _, level := strings.Cut(key, "=")
	switch {
	case key == "(Intercept)":
		x[key] = 1
		for _, c := range strings.Fields(m.x) {
			if f := first[c]; f != "" {
				x[f] = 1
			}
		}
	case level:
		x[key], x[first[column]] = 1, -1
	default:
		x[key] = 1
	}
	var b kernels.Batch
	b.Reset()
	for name, v := range x {
		id, ok := s.Features().Find(name)
		if !ok {
			t.Fatalf("%s: no feature %q", m.name, name)
		}
		b.Add(id, v)
	}
	b.EndRow()
	return &b
}

// Robust errors of ten fits are those of R's sandwich within 1e-4: HC0 to HC3 and by
// clusters. Errors of the model itself are, too. (Links that are not canonical have the
// observed information, see testdata/gen/answer.R.)
func TestRobustAgainstR(t *testing.T) {
	d, by, _ := facts(t)
	checked := 0
	for _, m := range rModels {
		f, offset := m.fit(t, d, by)
		check := func(what string, f *kernels.Fit) {
			s, err := predict.New(f)
			if err != nil {
				t.Fatal(err)
			}
			for key, want := range by[m.name+" "+what] {
				mean, v, err := s.Linear(coefficient(t, s, &m, key), 0)
				if err != nil {
					t.Fatal(err)
				}
				kerneltest.Close(t, m.name+" "+what+" "+key, math.Sqrt(v), want, kerneltest.Tol{Rel: 1e-4})
				kerneltest.Close(t, m.name+" "+key, mean, by[m.name+" coef"][key], kerneltest.Tol{Abs: 1e-4 * want})
				checked++
			}
		}
		check("vcov", f)
		for _, kind := range []string{"HC0", "HC1", "HC2", "HC3", "CL0", "CL1"} {
			grouped := kind[0] == 'C'
			r, err := NewRobust(f, strings.ToLower(strings.Replace(kind, "CL", "HC", 1)), grouped)
			if err != nil {
				t.Fatal(err)
			}
			b := encoded(t, f, r.Features(), d.fields(m.x), d.n)
			b.Y, b.Offset = d.number[m.y], offset
			if err := r.Add(context.Background(), b, d.text["cl"]); err != nil {
				t.Fatal(err)
			}
			out, err := r.Robustly(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if out.Status != "ok" {
				t.Error(m.name, kind, out.Status)
			}
			check(kind, out)
		}
	}
	if checked < 300 {
		t.Error("only", checked)
	}
}

// Parts merge into the whole; where the model is true of the rows' second moments (M = H) the
// robust covariance is the fit's own, whatever the prior; and what cannot be is said.
func TestRobust(t *testing.T) {
	d, _, _ := facts(t)
	f := d.fit(t, "num", "x g", map[string]any{"family": "gaussian", "dispersion": 1.0, "prior_variance": 0.5}, nil)
	whole, err := NewRobust(f, "", true)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := NewRobust(f, "", true)
	b := a.Clone()
	if err := whole.Add(context.Background(), d.batch(t, f, whole.Features(), "num", "x g"), d.text["cl"]); err != nil {
		t.Fatal(err)
	}
	for k, r := range []*Robust{a, b} {
		part := d.only(func(i int) bool { return i%2 == k })
		if err := r.Add(context.Background(), part.batch(t, f, r.Features(), "num", "x g"), part.text["cl"]); err != nil {
			t.Fatal(err)
		}
	}
	a.Merge(b)
	got, err := a.Robustly(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	want, err := whole.Robustly(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for k := range want.Covariance.Values {
		kerneltest.Close(t, fmt.Sprint(k), got.Covariance.Values[k], want.Covariance.Values[k], kerneltest.Tol{Rel: 1e-9, Abs: 1e-12})
	}
	// Residuals of ±1 under a variance of 1: r² = c = 1 for each row.
	flat, _ := NewRobust(f, "", false)
	rows := d.batch(t, f, flat.Features(), "num", "x g")
	rows.Y = make([]float64, d.n)
	for i := range rows.Y {
		m, _, err := flat.Linear(rows, i)
		if err != nil {
			t.Fatal(err)
		}
		rows.Y[i] = m + float64(1-2*(i%2))
	}
	if err := flat.Add(context.Background(), rows, nil); err != nil {
		t.Fatal(err)
	}
	same, err := flat.Robustly(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for k := range f.Beliefs {
		kerneltest.Close(t, f.Beliefs[k].Feature, same.Beliefs[k].Variance, f.Beliefs[k].Variance, kerneltest.Tol{Rel: 1e-9})
	}
	if _, err := NewRobust(f, "hc3", true); err == nil {
		t.Error("hc3 of clusters")
	}
	if _, err := NewRobust(f, "hc9", false); err == nil || !strings.Contains(err.Error(), "hc9") {
		t.Error(err)
	}
	diagonal := *f
	diagonal.Covariance = kernels.Covariance{}
	if _, err := NewRobust(&diagonal, "", false); err == nil || !strings.Contains(err.Error(), "diagonal") {
		t.Error(err)
	}
	lone, _ := NewRobust(f, "", true)
	if err := lone.Add(context.Background(), rows, make([]string, d.n)); err != nil {
		t.Fatal(err)
	}
	if _, err := lone.Robustly(context.Background()); err == nil || !strings.Contains(err.Error(), "cluster") {
		t.Error(err)
	}
}

// A covariance wider than the rows leave it, twice that of a vague prior, has the sandwich of that
// prior and its own width beyond.
func TestRobustWider(t *testing.T) {
	d, _, _ := facts(t)
	f := d.fit(t, "num", "x g", map[string]any{"family": "gaussian", "dispersion": 1.0, "prior_variance": 1e7, "intercept_variance": 1e7, "intercept": false, "standardize": false}, nil)
	robust := func(f *kernels.Fit) [][]float64 {
		r, err := NewRobust(f, "", false)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Add(context.Background(), d.batch(t, f, r.Features(), "num", "x g"), nil); err != nil {
			t.Fatal(err)
		}
		out, err := r.Robustly(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return products(out)
	}
	wide := *f
	wide.Beliefs, wide.Covariance.Values = slices.Clone(f.Beliefs), slices.Clone(f.Covariance.Values)
	for k := range wide.Beliefs {
		wide.Beliefs[k].Variance *= 2
	}
	for k := range wide.Covariance.Values {
		wide.Covariance.Values[k] *= math.Sqrt2
	}
	own, vague, got := products(f), robust(f), robust(&wide)
	for i := range own {
		for j := range own {
			kerneltest.Close(t, fmt.Sprint(i, j), got[i][j], own[i][j]+vague[i][j], kerneltest.Tol{Rel: 1e-5, Abs: 1e-7})
		}
	}
}

// products are the covariance that the factor of f stands for.
func products(f *kernels.Fit) [][]float64 {
	l := func(i, j int) float64 { return f.Covariance.Values[i*(i+1)/2+j] }
	out := make([][]float64, len(f.Beliefs))
	for i := range out {
		out[i] = make([]float64, len(out))
		for j := range out {
			for k := range min(i, j) + 1 {
				out[i][j] += l(i, k) * l(j, k)
			}
		}
	}
	return out
}

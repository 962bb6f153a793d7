package laplace

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// levelRows are n rows of k columns of so many levels, those later rarer, and a number.
func levelRows(t testing.TB, d *kernels.Dict, n, k, levels int, number bool, seed uint64) []*kernels.Batch {
	t.Helper()
	var names []string
	for c := range k {
		names = append(names, fmt.Sprintf("c%d", c))
	}
	d.Use(kernels.NewColumns(names, []string{"x"}))
	rng := rand.New(rand.NewPCG(seed, 3))
	effect := rand.New(rand.NewPCG(7, 7))
	id, at := make([][]uint32, k), make([][]float64, k)
	add := func(name string) uint32 {
		f, err := d.Add(name)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for c := range k {
		for l := range levels {
			id[c], at[c] = append(id[c], add(fmt.Sprintf("c%d=%d", c, l))), append(at[c], 0.7*effect.NormFloat64())
		}
	}
	var out []*kernels.Batch
	for done := 0; done < n; {
		b := &kernels.Batch{}
		b.Reset()
		for range min(2048, n-done) {
			eta := -1.0
			b.Add(0, 1)
			for c := range k {
				u := rng.Float64()
				l := int(u * u * u * float64(levels))
				b.Add(id[c][l], 1)
				eta += at[c][l]
			}
			if number {
				x := 5 + 2*rng.NormFloat64()
				b.Add(add("x"), x)
				eta += 0.1 * (x - 5)
			}
			b.EndRow()
			y := 0.0
			if rng.Float64() < special.Logistic(eta) {
				y = 1
			}
			b.Y = append(b.Y, y)
			done++
		}
		out = append(out, b)
	}
	return out
}

func passModel(t testing.TB, around *kernels.Fit, set func(m *kernels.Model)) *kernels.Model {
	m := model(t, "bernoulli", "logit", lik.Params{})
	m.NoIntercept, m.Around = false, around
	if set != nil {
		set(m)
	}
	return m
}

// passOf is a pass around a fit over those of the batches that which says, whose features are
// numbered by base.
func passOf(t *testing.T, m *kernels.Model, base *kernels.Dict, batches []*kernels.Batch, which func(k int) bool) *Pass {
	t.Helper()
	s, err := NewPass(context.Background(), m)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := s.dict.Merge(base)
	if err != nil {
		t.Fatal(err)
	}
	for k, b := range batches {
		if !which(k) {
			continue
		}
		c := *b
		c.Feature = make([]uint32, len(b.Feature))
		for i, f := range b.Feature {
			c.Feature[i] = ids[f]
		}
		if err := s.Update(t.Context(), &c, false); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func solved(t *testing.T, s *Pass) *Step {
	t.Helper()
	step, err := s.Solve(context.Background(), passModel(t, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	return step
}

// levelsBase is a dictionary that has the intercept.
func levelsBase(t *testing.T) *kernels.Dict {
	t.Helper()
	d := &kernels.Dict{}
	if _, err := d.AddRaw(kernels.Intercept); err != nil {
		t.Fatal(err)
	}
	return d
}

// Steps on a pass and a sample need two passes less than Newton's from the sample's fit, and end
// at the same point.
func TestToward(t *testing.T) {
	const share = 12
	base := levelsBase(t)
	batches := levelRows(t, base, 120_000, 5, 40, true, 1)
	all, some := func(int) bool { return true }, func(k int) bool { return k%share == 0 }
	var sample *kernels.Fit
	for range 12 {
		if sample = solved(t, passOf(t, passModel(t, sample, nil), base, batches, some)).Fit; sample.Converged {
			break
		}
	}
	passes := func(nearer bool) (*kernels.Fit, []float64) {
		f, distances := sample, []float64(nil)
		for k := 1; k < 10; k++ {
			whole, here := passOf(t, passModel(t, f, nil), base, batches, all), passOf(t, passModel(t, f, nil), base, batches, some)
			step := solved(t, whole)
			f, distances = step.Fit, append(distances, step.Distance)
			if f.Converged {
				return f, distances
			}
			for range 3 - k {
				if !nearer {
					break
				}
				about, err := whole.Toward(context.Background(), passOf(t, passModel(t, f, nil), base, batches, some), here, share)
				if err != nil {
					t.Fatal(err)
				}
				f = solved(t, about).Fit
			}
		}
		t.Fatalf("no convergence: %v", distances)
		return nil, nil
	}
	want, plain := passes(false)
	got, nearer := passes(true)
	t.Logf("distances %.2g by Newton's steps, %.2g by steps on a sample too", plain, nearer)
	if len(nearer) >= len(plain) || nearer[1] > plain[1]/3 {
		t.Errorf("%.2g, Newton's steps alone %.2g", nearer, plain)
	}
	kerneltest.Close(t, "log evidence", got.LogEvidence, want.LogEvidence, kerneltest.Tol{Rel: 1e-10})
	for i, b := range want.Beliefs {
		kerneltest.Close(t, "mean of "+b.Feature, got.Beliefs[i].Mean, b.Mean, kerneltest.Tol{Abs: 1e-8 * math.Sqrt(b.Variance)})
		kerneltest.Close(t, "variance of "+b.Feature, got.Beliefs[i].Variance, b.Variance, kerneltest.Tol{Rel: 1e-8})
	}
}

// Where the sample is all rows what is said of another point is the pass there, whatever the
// shifts of numbers, some of which are missing.
func TestTowardAll(t *testing.T) {
	base := levelsBase(t)
	batches := levelRows(t, base, 6000, 2, 5, true, 2)
	null, err := base.AddRaw("x" + kernels.IsNull)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		c := &kernels.Batch{}
		c.Reset()
		for i := range b.Len() {
			fs, xs := b.Entries(i)
			for k, f := range fs {
				if k == len(fs)-1 && i%7 == 0 {
					c.Add(f, math.NaN())
					c.Add(null, 1)
				} else {
					c.Add(f, xs[k])
				}
			}
			c.EndRow()
		}
		b.Row, b.Feature, b.Value = c.Row, c.Feature, c.Value
	}
	all := func(int) bool { return true }
	known := func(f *kernels.Fit, center float64) *kernels.Fit {
		f.Columns = []kernels.FitColumn{{Name: "x", Kind: kernels.NumberColumn, N: 100, Center: center}}
		return f
	}
	first := known(solved(t, passOf(t, passModel(t, nil, nil), base, batches, all)).Fit, 4.5)
	second := known(solved(t, passOf(t, passModel(t, first, nil), base, batches, all)).Fit, 5.25)
	here := passOf(t, passModel(t, first, nil), base, batches, all)
	there := passOf(t, passModel(t, second, nil), base, batches, all)
	if here.shift[there.dict.Len()-2] == there.shift[there.dict.Len()-2] {
		t.Fatal("equal shifts")
	}
	got, err := here.Toward(context.Background(), there, here, 1)
	if err != nil {
		t.Fatal(err)
	}
	a, b := solved(t, got), solved(t, there)
	kerneltest.Close(t, "distance", a.Distance, b.Distance, kerneltest.Tol{Rel: 1e-6, Abs: 1e-9})
	kerneltest.Close(t, "height", a.LogPosterior, b.LogPosterior, kerneltest.Tol{Rel: 1e-10})
	for i, w := range b.Fit.Beliefs {
		kerneltest.Close(t, "mean of "+w.Feature, a.Fit.Beliefs[i].Mean, w.Mean, kerneltest.Tol{Abs: 1e-8 * math.Sqrt(w.Variance)})
		kerneltest.Close(t, "variance of "+w.Feature, a.Fit.Beliefs[i].Variance, w.Variance, kerneltest.Tol{Rel: 1e-8})
	}

	for want, try := range map[string]func() (*Pass, error){
		"around different fits": func() (*Pass, error) { return here.Toward(context.Background(), there, there, 1) },
		"different models": func() (*Pass, error) {
			return here.Toward(context.Background(), there, passOf(t, passModel(t, first, func(m *kernels.Model) { m.HashBits = 9 }), base, nil, all), 1)
		},
		"which the rows do not have": func() (*Pass, error) {
			return passOf(t, passModel(t, nil, nil), levelsBase(t), nil, all).Toward(context.Background(), there, here, 1)
		},
	} {
		if _, err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

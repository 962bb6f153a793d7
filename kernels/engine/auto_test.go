package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/stop"
)

// door is a Fitter of a method by settings, and the batches of some rows for it.
func door(t *testing.T, method string, set func(*option.Settings)) Fitter {
	t.Helper()
	m, err := Find(method)
	if err != nil {
		t.Fatal(err)
	}
	s := option.Defaults()
	if set != nil {
		set(s)
	}
	model, err := m.Model(s, false, false)
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.New(context.Background(), model)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// feed gives rows [lo, hi) of a fixed table to f, in batches of size; every 50th row is bad.
func feed(t *testing.T, f Fitter, lo, hi, size int) {
	t.Helper()
	columns := kernels.NewColumns([]string{"g"}, []string{"u"})
	for from := lo; from < hi; from += size {
		var b kernels.Batch
		b.Reset()
		d := f.Features()
		d.Use(columns)
		for i := from; i < min(hi, from+size); i++ {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			u, g := r.NormFloat64(), fmt.Sprintf("g=%d", r.IntN(5+i/100))
			b.Add(0, 1)
			for _, e := range []struct {
				name string
				x    float64
			}{{"u", u}, {g, 1}} {
				id, err := d.Add(e.name)
				if err != nil {
					t.Fatal(err)
				}
				b.Add(id, e.x)
			}
			b.EndRow()
			y := 0.0
			if r.Float64() < 1/(1+math.Exp(-u)) {
				y = 1
			}
			if i%50 == 49 {
				y = 2
			}
			b.Y = append(b.Y, y)
		}
		if err := f.Update(context.Background(), &b, true); err != nil {
			t.Fatal(err)
		}
	}
}

func fitted(t *testing.T, f Fitter) *kernels.Fit {
	t.Helper()
	r, err := f.Fit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r.Fit
}

// same says whether two fits have the same beliefs, to a relative tolerance of deviations.
func same(a, b *kernels.Fit, tol float64) bool {
	return a.N == b.N && a.Skipped == b.Skipped && slices.EqualFunc(a.Beliefs, b.Beliefs, func(x, y kernels.Belief) bool {
		return x.Feature == y.Feature && math.Abs(x.Mean-y.Mean) <= tol*math.Sqrt(x.Variance) && math.Abs(x.Variance-y.Variance) <= tol*x.Variance
	})
}

// Up to the budget the answer is that of laplace with learnt variances, beyond it that of
// adf over all rows, however they are cut; one number more decides.
func TestAutoBudget(t *testing.T) {
	const n = 600
	numbers := 4 * (n - n/50) // the bad rows are not kept
	laplace := door(t, "laplace", func(s *option.Settings) { s.Options.AutoPrior = true })
	feed(t, laplace, 0, n, n)
	stream := door(t, "adf", func(s *option.Settings) { s.Options.Covariance = "arrowhead"; s.Options.Standardize = true })
	feed(t, stream, 0, n, 37)
	for _, size := range []int{n, 100, 1} {
		for budget, want := range map[int]Fitter{numbers: laplace, numbers - 1: stream, 100: stream, 1: stream} {
			f := door(t, Auto, func(s *option.Settings) { s.Options.RowBudget = budget })
			feed(t, f, 0, n, size)
			got, want := fitted(t, f.Clone()), fitted(t, want)
			if got.Method != want.Method || !same(got, want, 1e-9) || got.Covariance.Form != want.Covariance.Form {
				t.Errorf("budget %d, batches of %d: method %s, not that of %s", budget, size, got.Method, want.Method)
			}
			if streamed := strings.Contains(got.Status, "row_budget"); streamed != (budget < numbers) {
				t.Errorf("budget %d: status %q", budget, got.Status)
			}
		}
	}
}

// The choice is a function of the rows alone, not of the parts in which they were merged.
func TestAutoMerge(t *testing.T) {
	const n = 600
	numbers := 4 * (n - n/50)
	for _, budget := range []int{numbers, numbers - 1, numbers / 2, 100} {
		set := func(s *option.Settings) { s.Options.RowBudget = budget }
		whole := door(t, Auto, set)
		feed(t, whole, 0, n, n)
		want := fitted(t, whole)
		for _, cuts := range [][]int{{0, 10, n}, {0, 300, n}, {0, 590, n}, {0, 100, 500, n}, {0, 0, n, n}} {
			var parts []Fitter
			for k := range len(cuts) - 1 {
				p := door(t, Auto, set)
				feed(t, p, cuts[k], cuts[k+1], 64)
				parts = append(parts, p)
			}
			before := fitted(t, parts[1].Clone())
			all := parts[0]
			for _, p := range parts[1:] {
				if err := all.Merge(context.Background(), p); err != nil {
					t.Fatal(err)
				}
			}
			got := fitted(t, all)
			if got.Method != want.Method || got.N != want.N || got.Skipped != want.Skipped {
				t.Errorf("budget %d, cuts %v: %s of %d rows, want %s of %d", budget, cuts, got.Method, got.N, want.Method, want.N)
			}
			tol := 1e-6 // rounding, to where a search has converged
			if want.Method == "adf" {
				tol = 1 // another order of the rows
			}
			if !same(got, want, tol) {
				t.Errorf("budget %d, cuts %v: other beliefs", budget, cuts)
			}
			if after := fitted(t, parts[1]); !same(after, before, 0) {
				t.Errorf("budget %d, cuts %v: the merge changed its source", budget, cuts)
			}
		}
	}
}

// What asks for a stream gets one at once; options of either way are taken.
func TestAutoStream(t *testing.T) {
	for name, set := range map[string]func(*option.Settings){
		"process_noise": func(s *option.Settings) { s.Noise = 0.01 },
		"by feature":    func(s *option.Settings) { s.NoiseBy = map[string]float64{"u": 1} },
		"auto noise":    func(s *option.Settings) { s.Options.AutoNoise = true },
		"forgetting":    func(s *option.Settings) { s.Forgetting = 0.9 },
	} {
		f := door(t, Auto, set)
		feed(t, f, 0, 100, 100)
		if got := fitted(t, f); got.Method != "adf" || got.Covariance.Form.String() != "arrowhead" || strings.Contains(got.Status, "row_budget") {
			t.Errorf("%s: %s, %s: %s", name, got.Method, got.Covariance.Form, got.Status)
		}
	}
	m, err := Find(Auto)
	if err != nil {
		t.Fatal(err)
	}
	model, err := m.Model(option.Defaults(), true, false)
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.New(context.Background(), model)
	if err != nil {
		t.Fatal(err)
	}
	if got := fitted(t, f); got.Method != "adf" {
		t.Errorf("rows with times: %s", got.Method)
	}
}

// A literal prior stays as it is; without one the variance is learnt.
func TestAutoPrior(t *testing.T) {
	fit := func(set func(*option.Settings)) *kernels.Fit {
		f := door(t, Auto, set)
		feed(t, f, 0, 400, 400)
		return fitted(t, f)
	}
	own := fit(func(s *option.Settings) { s.Prior.Variance = 0.25 })
	if own.Prior.Variance != 0.25 {
		t.Errorf("prior variance %v, given 0.25", own.Prior.Variance)
	}
	if learnt := fit(nil); learnt.LogEvidence <= own.LogEvidence {
		t.Errorf("log evidence %v with a learnt variance, %v at 0.25", learnt.LogEvidence, own.LogEvidence)
	}
	from := door(t, "laplace", func(s *option.Settings) { s.Start = own; s.Prior = own.Prior })
	feed(t, from, 400, 500, 100)
	again := door(t, Auto, func(s *option.Settings) { s.Start = own; s.Prior = own.Prior })
	feed(t, again, 400, 500, 100)
	if a, b := fitted(t, again), fitted(t, from); !same(a, b, 1e-12) || a.N <= own.N {
		t.Errorf("continued: %d rows, want %d; or other beliefs", a.N, b.N)
	}
}

// A replay ends when its context does.
func TestAutoInterrupted(t *testing.T) {
	f := door(t, Auto, func(s *option.Settings) { s.Options.RowBudget = 1 << 20 })
	feed(t, f, 0, 500, 500)
	g := f.(*budgeted)
	g.budget = 100
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop.ErrTimeLimit)
	if err := g.switchToStream(ctx); err == nil {
		t.Error("a cancelled replay went on")
	}
}

package laplace

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// denseProblem is n rows of d Gaussian features and a logit response.
func denseProblem(b testing.TB, n, d int, o kernels.Options) *kernels.Problem {
	b.Helper()
	m := model(b, "bernoulli", "logit", lik.Params{})
	m.NoIntercept = false
	m.Options = o
	r, err := kernels.NewRows(m)
	if err != nil {
		b.Fatal(err)
	}
	base, err := r.Dict.Dense(d)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	w := make([]float64, d)
	for j := range w {
		w[j] = rng.NormFloat64() / math.Sqrt(float64(d))
	}
	var t kernels.Batch
	for done := 0; done < n; {
		t.Reset()
		for range min(4096, n-done) {
			t.Add(0, 1)
			s := 0.2
			for j := range d {
				x := rng.NormFloat64()
				s += x * w[j]
				t.Add(uint32(base+j), x)
			}
			t.EndRow()
			y := 0.0
			if rng.Float64() < 1/(1+math.Exp(-s)) {
				y = 1
			}
			t.Y = append(t.Y, y)
			done++
		}
		if err := r.Update(&t, false); err != nil {
			b.Fatal(err)
		}
	}
	p, err := r.Problem()
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// Mode, covariance and evidence of a dense logit model.
func BenchmarkLogit(b *testing.B) {
	for _, s := range [][2]int{{200_000, 50}, {100_000, 200}, {20_000, 1000}} {
		b.Run(fmt.Sprintf("n=%d/p=%d", s[0], s[1]), func(b *testing.B) {
			p := denseProblem(b, s[0], s[1], kernels.Options{})
			p.Dense()
			b.ReportAllocs()
			steps := 0
			for b.Loop() {
				f, err := Fit(context.Background(), p)
				if err != nil {
					b.Fatal(err)
				}
				steps = f.Iterations
			}
			// what Newton's method with a Gram matrix and a factor at each step would do
			n, d := float64(s[0]), float64(s[1]+1)
			flops := float64(steps+1) * (n*d*d + 4*n*d + d*d*d/3)
			b.ReportMetric(flops/b.Elapsed().Seconds()*float64(b.N)/1e9, "newton-GF/s")
			b.ReportMetric(float64(steps), "steps")
		})
	}
}

// Text-like data: eight of a million features a row, frequent ones first.
func BenchmarkSparse(b *testing.B) {
	for _, h := range []string{"diagonal", "lowrank"} {
		b.Run("hessian="+h, func(b *testing.B) {
			p := sparseProblem(b, 300_000, 1_000_000, 8, kernels.Options{Hessian: h, Rank: 20})
			b.ReportAllocs()
			steps := 0
			for b.Loop() {
				f, err := Fit(context.Background(), p)
				if err != nil {
					b.Fatal(err)
				}
				steps = f.Iterations
			}
			b.ReportMetric(float64(steps), "steps")
			b.ReportMetric(float64(p.P), "weights")
		})
	}
}

func sparseProblem(b testing.TB, n, d, k int, o kernels.Options) *kernels.Problem {
	b.Helper()
	m := model(b, "bernoulli", "logit", lik.Params{})
	m.NoIntercept = false
	m.Options = o
	r, err := kernels.NewRows(m)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.1, 50, uint64(d-1))
	var t kernels.Batch
	var dup kernels.Scratch
	t.Reset()
	name := []byte{}
	for range n {
		t.Add(0, 1)
		s := -0.5
		for range k {
			j := zipf.Uint64()
			name = fmt.Appendf(name[:0], "w%d", j)
			id, err := r.Dict.Add(string(name))
			if err != nil {
				b.Fatal(err)
			}
			t.Add(id, 1)
			s += math.Sin(float64(j))
		}
		t.SumDuplicates(&dup)
		t.EndRow()
		y := 0.0
		if rng.Float64() < 1/(1+math.Exp(-s)) {
			y = 1
		}
		t.Y = append(t.Y, y)
	}
	if err := r.Update(&t, false); err != nil {
		b.Fatal(err)
	}
	p, err := r.Problem()
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// A small model, as in a GROUP BY of many.
func BenchmarkSmall(b *testing.B) {
	p := denseProblem(b, 40, 3, kernels.Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Fit(context.Background(), p); err != nil {
			b.Fatal(err)
		}
	}
}

// One prior variance by evidence.
func BenchmarkAutoPrior(b *testing.B) {
	for _, s := range [][2]int{{100_000, 50}, {20_000, 300}} {
		b.Run(fmt.Sprintf("n=%d/p=%d", s[0], s[1]), func(b *testing.B) {
			p := denseProblem(b, s[0], s[1], kernels.Options{AutoPrior: true})
			p.Dense()
			b.ReportAllocs()
			steps := 0
			for b.Loop() {
				f, err := Fit(context.Background(), p)
				if err != nil {
					b.Fatal(err)
				}
				steps = f.Iterations
			}
			b.ReportMetric(float64(steps), "steps")
		})
	}
}

// A random effect of 100,000 groups with ten rows each: variance learnt and integrated.
func BenchmarkGroups(b *testing.B) {
	for _, family := range []string{"bernoulli", "gaussian"} {
		b.Run(family, func(b *testing.B) {
			o := kernels.Options{AutoPrior: true, Integrate: true, AutoDispersion: family == "gaussian"}
			p := groupProblem(b, family, 100_000, 10, o)
			b.ReportAllocs()
			steps := 0
			for b.Loop() {
				f, err := Fit(context.Background(), p)
				if err != nil {
					b.Fatal(err)
				}
				steps = f.Iterations
			}
			b.ReportMetric(float64(steps), "steps")
		})
	}
}

// groupProblem is rows of one column of levels, whose weights have deviation 0.7.
func groupProblem(b testing.TB, family string, groups, each int, o kernels.Options) *kernels.Problem {
	b.Helper()
	m := model(b, family, "", lik.Params{Dispersion: 1})
	m.NoIntercept = false
	m.Options = o
	r, err := kernels.NewRows(m)
	if err != nil {
		b.Fatal(err)
	}
	r.Dict.Use(kernels.NewColumns([]string{"g"}, nil))
	rng := rand.New(rand.NewPCG(4, 1))
	var t kernels.Batch
	for g := range groups {
		id, err := r.Dict.Add(fmt.Sprintf("g=%d", g))
		if err != nil {
			b.Fatal(err)
		}
		s := -0.5 + 0.7*rng.NormFloat64()
		for range each {
			t.Add(0, 1)
			t.Add(id, 1)
			t.EndRow()
			y := s + rng.NormFloat64()
			if family == "bernoulli" {
				y = 0
				if rng.Float64() < 1/(1+math.Exp(-s)) {
					y = 1
				}
			}
			t.Y = append(t.Y, y)
		}
	}
	if err := r.Update(&t, false); err != nil {
		b.Fatal(err)
	}
	p, err := r.Problem()
	if err != nil {
		b.Fatal(err)
	}
	return p
}

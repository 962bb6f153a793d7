package lowrank

import (
	"github.com/bglm/bglm/kernels/design"

	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
)

// sparseProblem has nnz entries a row, a few columns far more often than others.
func sparseProblem(b *testing.B, n, d, nnz int, o kernels.Options) *kernels.Problem {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	r, err := kernels.NewRows(model(b, "bernoulli", true, o))
	if err != nil {
		b.Fatal(err)
	}
	base, err := r.Dict.Dense(d)
	if err != nil {
		b.Fatal(err)
	}
	var t kernels.Batch
	t.Reset()
	var seen kernels.Scratch
	for range n {
		t.Add(0, 1)
		for range nnz {
			u := rng.Float64()
			t.Add(uint32(base+int(u*u*u*float64(d))), rng.NormFloat64())
		}
		t.SumDuplicates(&seen)
		t.EndRow()
		t.Y = append(t.Y, float64(rng.IntN(2)))
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

func BenchmarkSVD(b *testing.B) {
	p := sparseProblem(b, 20000, 20000, 100, kernels.Options{})
	x := p.Tail(1)
	y := design.Dense(gaussian(rand.New(rand.NewPCG(1, 1)), 4000, 1000))
	for _, m := range []int{10, 50, 200} {
		run := func(b *testing.B, x *design.Columns) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := SVD(x, Options{Rank: m}); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.Run(fmt.Sprintf("sparse=20000x20000/nnz=2e6/m=%d", m), func(b *testing.B) { run(b, x) })
		b.Run(fmt.Sprintf("dense=4000x1000/m=%d", m), func(b *testing.B) { run(b, y) })
	}
}

// A run of Newton's method from the prior mean: nothing is allocated for a row.
func BenchmarkNewton(b *testing.B) {
	for _, m := range []int{10, 50, 200} {
		p := sparseProblem(b, 20000, 2000, 20, kernels.Options{Rank: m})
		r, err := Reduce(p)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("n=20000/m=%d", m), func(b *testing.B) {
			var err error
			s := newSolver(r)
			b.ReportAllocs()
			for b.Loop() {
				clear(s.u)
				s.total = 0
				if err = s.run(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(s.total), "steps")
		})
	}
}

func BenchmarkFit(b *testing.B) {
	for _, c := range []struct{ n, d, nnz, m int }{{20000, 5000, 50, 50}, {20000, 5000, 50, 200}, {5000, 100000, 200, 50}} {
		p := sparseProblem(b, c.n, c.d, c.nnz, kernels.Options{Rank: c.m})
		b.Run(fmt.Sprintf("n=%d/d=%d/nnz=%d/m=%d", c.n, c.d, c.nnz, c.m), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Fit(context.Background(), p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package ep

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/lik"
)

// sparseBatch is n rows of nnz distinct features out of p, indicators, responses of a
// probit model.
func sparseBatch(n, nnz, p int) *kernels.Batch {
	r := rand.New(rand.NewPCG(7, 7))
	w := make([]float64, p)
	for j := range w {
		w[j] = 0.5 * r.NormFloat64()
	}
	b := &kernels.Batch{}
	b.Reset()
	var s kernels.Scratch
	for range n {
		eta := 0.0
		for range nnz {
			j := uint32(r.IntN(p))
			b.Add(j, 1)
			eta += w[j]
		}
		b.SumDuplicates(&s)
		b.EndRow()
		y := 0.0
		if eta+r.NormFloat64() > 0 {
			y = 1
		}
		b.Y = append(b.Y, y)
	}
	return b
}

func name(d *kernels.Dict, p int) {
	for j := range p {
		if _, err := d.AddInt(j + 1); err != nil {
			panic(err)
		}
	}
}

// BenchmarkSweep is one EP sweep after the first, and its time over that of a filter
// pass over the same rows in the same run.
func BenchmarkSweep(b *testing.B) {
	const n, nnz, p = 1_000_000, 8, 5_000
	batch := sparseBatch(n, nnz, p)
	for _, c := range []struct {
		name, link string
		noise      float64
	}{{"probit", "probit", 0}, {"logit", "logit", 0}, {"probit-drift", "probit", 1e-7}} {
		b.Run("link="+c.name, func(b *testing.B) {
			m := &kernels.Model{Lik: like(b, "", c.link, lik.Params{}), Prior: kernels.DefaultPrior, Noise: c.noise}
			rows, err := kernels.NewRows(m)
			if err != nil {
				b.Fatal(err)
			}
			name(&rows.Dict, p)
			if err := rows.Update(batch, false); err != nil {
				b.Fatal(err)
			}
			prob, err := rows.Problem()
			if err != nil {
				b.Fatal(err)
			}
			pass := math.Inf(1)
			for range 3 {
				s, err := adf.New(m)
				if err != nil {
					b.Fatal(err)
				}
				name(&s.Dict, p)
				s.Grow()
				start := time.Now()
				if err := s.Update(batch, false); err != nil {
					b.Fatal(err)
				}
				pass = min(pass, time.Since(start).Seconds())
			}
			d := newDiagonal(prob, Kernel{})
			if _, err := d.sweep(1); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.sweep(1); err != nil {
					b.Fatal(err)
				}
			}
			each := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(each/n*1e9, "ns/row")
			b.ReportMetric(each/pass, "x-adf")
			b.ReportMetric(0, "ns/op")
		})
	}
}

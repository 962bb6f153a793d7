package filter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
)

// Rows a second by covariance, rule, weights and non-zeros; one op is a row.
func BenchmarkUpdate(b *testing.B) {
	full := kernels.Options{}
	for _, c := range []struct {
		name   string
		rule   Rule
		p, nnz int
		noise  float64 // below 0: forgetting
		o      kernels.Options
	}{
		{"full/adf", ADF{}, 10, 10, 0, full},
		{"full/adf", ADF{}, 100, 10, 0, full},
		{"full/adf", ADF{}, 100, 100, 0, full},
		{"full/adf", ADF{}, 1000, 10, 0, full},
		{"full/adf", ADF{}, 1000, 1000, 0, full},
		{"full+noise/adf", ADF{}, 10, 10, 1e-4, full},
		{"full+noise/adf", ADF{}, 100, 10, 1e-4, full},
		{"full+noise/adf", ADF{}, 1000, 10, 1e-4, full},
		{"full+noise/adf", ADF{}, 1000, 1000, 1e-4, full},
		{"full+forgetting/adf", ADF{}, 10, 10, -1, full},
		{"full+forgetting/adf", ADF{}, 100, 10, -1, full},
		{"full/sequential_laplace", Laplace{}, 100, 10, 0, full},
		{"full/ekf", EKF{}, 100, 10, 0, full},
		{"full/ekf iterated", EKF{}, 100, 10, 0, kernels.Options{MaxIter: 20}},
		{"full/variational", Variational{}, 100, 10, 0, full},
		{"full/ekf", EKF{}, 10, 10, 0, full},
		{"full/variational", Variational{}, 10, 10, 0, full},
		{"full/ekf auto noise", EKF{}, 10, 10, 0, kernels.Options{AutoNoise: true}},
		{"lowrank 20/adf", ADF{}, 10_000, 10, 0, kernels.Options{Covariance: "lowrank", Rank: 20}},
		{"lowrank 20/adf", ADF{}, 1000, 10, 0, kernels.Options{Covariance: "lowrank", Rank: 20}},
		{"lowrank 20+noise/adf", ADF{}, 1000, 10, 1e-4, kernels.Options{Covariance: "lowrank", Rank: 20}},
	} {
		b.Run(fmt.Sprintf("%s/p=%d/nnz=%d", c.name, c.p, c.nnz), func(b *testing.B) {
			m := &kernels.Model{NoIntercept: true, Lik: like(b, "", "logit"), Prior: kernels.DefaultPrior, Noise: max(c.noise, 0), Options: c.o}
			if c.noise < 0 {
				m.Forgetting = 0.999
			}
			s := state(b, m, c.rule)
			for i := range c.p {
				s.Features().AddInt(i + 1)
			}
			rnd := rand.New(rand.NewPCG(5, 6))
			rows := make([]kernels.Batch, 256)
			for k := range rows {
				r := &rows[k]
				r.Reset()
				for j := range c.nnz { // distinct within a row: one per stripe
					r.Add(uint32(j*(c.p/c.nnz)+rnd.IntN(c.p/c.nnz)), rnd.NormFloat64())
				}
				r.EndRow()
				r.Y = append(r.Y, float64(rnd.IntN(2)))
			}
			for k := range rows { // memory is there
				if err := s.Update(context.Background(), &rows[k], false); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := s.Update(context.Background(), &rows[i%len(rows)], false); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

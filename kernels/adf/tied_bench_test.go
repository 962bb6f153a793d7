package adf

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/stream"
)

// Rows of an intercept and eight non-zeros by covariance: names, levels of eight columns,
// and few enough of both for the block. One op is a block of 1024 rows.
func BenchmarkTied(b *testing.B) {
	const rows, nnz = 1024, 8
	for _, link := range []string{"probit", "logit"} {
		for _, shape := range []struct {
			what   string
			p      int
			levels bool
		}{{"names", 5000, false}, {"levels", 5000, true}, {"names", 200, false}, {"levels", 200, true}, {"names", 56, false}, {"levels", 16, true}} {
			for _, covariance := range []string{"diagonal", "arrowhead"} {
				b.Run(fmt.Sprintf("%s/%d %s/%s", link, shape.p, shape.what, covariance), func(b *testing.B) {
					m := &kernels.Model{Lik: like(b, "", link, 1), Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: covariance}}
					make := New
					if covariance == "arrowhead" {
						make = NewTied
					}
					s, err := make(m)
					if err != nil {
						b.Fatal(err)
					}
					d := s.Features()
					if shape.levels {
						d.Use(kernels.NewColumns([]string{"a", "b", "c", "d", "e", "f", "g", "h"}, nil))
					}
					rnd := rand.New(rand.NewPCG(5, 6))
					blocks := [16]kernels.Batch{}
					for k := range blocks {
						r := &blocks[k]
						r.Reset()
						for range rows {
							r.Add(0, 1)
							for j := range nnz { // distinct within a row: one per stripe
								at := int(float64(shape.p/nnz) * rnd.Float64() * rnd.Float64())
								name := fmt.Sprintf("%d-%d", j, at)
								if shape.levels {
									name = fmt.Sprintf("%c=%d", 'a'+j, at)
								}
								id, err := d.Add(name)
								if err != nil {
									b.Fatal(err)
								}
								r.Add(id, 1)
							}
							r.EndRow()
							r.Y = append(r.Y, float64(rnd.IntN(10)/7))
						}
					}
					benchBlocks(b, s, blocks[:], rows)
				})
			}
		}
	}
}

func benchBlocks(b *testing.B, s *stream.State, blocks []kernels.Batch, rows int) {
	for k := range blocks { // memory is there
		if err := s.Update(context.Background(), &blocks[k], false); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := s.Update(context.Background(), &blocks[i%len(blocks)], false); err != nil {
			b.Fatal(err)
		}
		i++
	}
	b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

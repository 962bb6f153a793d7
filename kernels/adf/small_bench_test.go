package adf

import (
	"context"
	"testing"

	"github.com/bglm/bglm/kernels"
)

// A group of four rows of an intercept and two numbers, from nothing to its fit, by
// covariance.
func BenchmarkSmallGroup(b *testing.B) {
	for _, covariance := range []string{"diagonal", "arrowhead"} {
		b.Run(covariance, func(b *testing.B) {
			m := &kernels.Model{Lik: like(b, "", "probit", 1), Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: covariance, Standardize: true}}
			make := New
			if covariance == "arrowhead" {
				make = NewTied
			}
			empty, err := make(m)
			if err != nil {
				b.Fatal(err)
			}
			names := empty.Clone().Features()
			names.Use(kernels.NewColumns(nil, []string{"a", "b"}))
			rows := kernels.Batch{Shared: []uint32{0}, Schema: &kernels.Schema{Names: []string{"a", "b"}, Levels: []bool{false, false}}}
			for _, name := range []string{"a", "b"} {
				id, err := names.Add(name)
				if err != nil {
					b.Fatal(err)
				}
				rows.Shared = append(rows.Shared, id)
			}
			for i := range 4 {
				rows.Value, rows.Y = append(rows.Value, 1, float64(i*3%7), 1.5), append(rows.Y, float64(i&1))
			}
			b.ReportAllocs()
			for b.Loop() {
				s := empty.Clone()
				s.Share(names)
				if err := s.Update(context.Background(), &rows, false); err != nil {
					b.Fatal(err)
				}
				if _, err := s.Fit(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package adf

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/stream"
)

// What a million features cost beside their updates: finding them, the product of two parts
// that met them in orders of their own, and reading the beliefs in their order.
func BenchmarkWide(b *testing.B) {
	const p, nnz = 1 << 20, 32
	for _, kind := range []string{"names", "slots", "keys"} {
		m := &kernels.Model{Lik: like(b, "", "probit", 1), Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: "diagonal"}}
		if kind == "slots" {
			m.HashBits = 20
		}
		find := func(d *kernels.Dict, ids []uint32, at []int64) {
			if kind == "keys" {
				if !d.FindInts(ids, at) {
					for k, v := range at {
						ids[k], _ = d.AddInt(int(v))
					}
				}
				return
			}
			ts := make([]kernels.Text, len(at))
			for k, v := range at {
				ts[k] = kernels.NewText(fmt.Sprintf("f%d", v))
			}
			if !d.FindTexts(ids, kernels.Names, ts) {
				for k := range ts {
					ids[k], _ = d.AddText(kernels.Names, &ts[k])
				}
			}
		}
		part := func(seed uint64) *stream.State {
			s := state(b, m)
			rnd := rand.New(rand.NewPCG(seed, 6))
			all := make([]int64, p)
			for k, v := range rnd.Perm(p) {
				all[k] = int64(v)
			}
			var rows kernels.Batch
			for lo := 0; lo+nnz <= p; lo += nnz {
				ids := make([]uint32, nnz)
				find(s.Features(), ids, all[lo:lo+nnz])
				rows.Add(0, 1)
				for _, id := range ids {
					rows.Add(id, 1)
				}
				rows.EndRow()
				rows.Y = append(rows.Y, float64(lo%3&1))
			}
			if err := s.Update(context.Background(), &rows, false); err != nil {
				b.Fatal(err)
			}
			return s
		}
		one, two := part(1), part(2)
		b.Run("find/"+kind, func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(3, 6))
			const n = 1 << 16
			vs, ts, ids := make([]int64, n), make([]kernels.Text, n), make([]uint32, n)
			for k := range vs {
				vs[k] = rnd.Int64N(p)
				ts[k] = kernels.NewText(fmt.Sprintf("f%d", vs[k]))
			}
			for b.Loop() {
				if kind == "keys" {
					one.Features().FindInts(ids, vs)
				} else {
					one.Features().FindTexts(ids, kernels.Names, ts)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/feature")
		})
		b.Run("merge/"+kind, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s := one.Clone()
				b.StartTimer()
				if err := s.Merge(context.Background(), two); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/p, "ns/feature")
		})
		b.Run("read/"+kind, func(b *testing.B) {
			sum := 0.0
			for b.Loop() {
				if err := one.Each(context.Background(), func(_ []byte, w kernels.Weight) { sum += w.Mean }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/p, "ns/feature")
		})
	}
}

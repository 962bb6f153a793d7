//go:build unix

package laplace

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/bglm/bglm/kernels"
)

func BenchmarkPassLevels(b *testing.B) {
	for _, number := range []bool{false, true} {
		b.Run(fmt.Sprint(number), func(b *testing.B) {
			s, err := NewPass(passModel(b, nil, nil))
			if err != nil {
				b.Fatal(err)
			}
			batches := levelRows(b, &s.dict, 200_000, 6, 80, number, 1)
			b.ResetTimer()
			began := cpuTime(b)
			for b.Loop() {
				for _, t := range batches {
					if err := s.Update(b.Context(), t, false); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric((cpuTime(b)-began)/float64(b.N)/200_000, "cpu-ns/row")
		})
	}
}

func BenchmarkPassNumbers(b *testing.B) {
	const k, n, rows = 50, 2048, 20
	s, err := NewPass(passModel(b, nil, nil))
	if err != nil {
		b.Fatal(err)
	}
	var names []string
	shared := []uint32{0}
	for c := range k {
		names = append(names, fmt.Sprintf("x%d", c))
	}
	s.dict.Use(kernels.NewColumns(nil, names))
	for _, name := range names {
		f, err := s.dict.Add(name)
		if err != nil {
			b.Fatal(err)
		}
		shared = append(shared, f)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var batches []*kernels.Batch
	for range rows {
		t := &kernels.Batch{Shared: shared}
		for range n {
			t.Value = append(t.Value, 1)
			for range k {
				t.Value = append(t.Value, rng.NormFloat64())
			}
			t.Y = append(t.Y, float64(rng.IntN(2)))
		}
		batches = append(batches, t)
	}
	b.ResetTimer()
	began := cpuTime(b)
	for b.Loop() {
		for _, t := range batches {
			if err := s.Update(b.Context(), t, false); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric((cpuTime(b)-began)/float64(b.N)/(n*rows), "cpu-ns/row")
}

// cpuTime is that of the process, in nanoseconds: other processes do not count.
func cpuTime(t testing.TB) float64 {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return float64(r.Utime.Nano() + r.Stime.Nano())
}

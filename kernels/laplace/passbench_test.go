//go:build unix

package laplace

import (
	"context"
	"fmt"
	"syscall"
	"testing"
)

func BenchmarkPassLevels(b *testing.B) {
	for _, number := range []bool{false, true} {
		b.Run(fmt.Sprint(number), func(b *testing.B) {
			s, err := NewPass(context.Background(), passModel(b, nil, nil))
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
	for _, byColumn := range []bool{false, true} {
		b.Run(fmt.Sprintf("byColumn=%v", byColumn), func(b *testing.B) { passNumbers(b, byColumn) })
	}
}

func passNumbers(b *testing.B, byColumn bool) {
	const k, n, rows = 50, 512, 80
	s, err := NewPass(context.Background(), passModel(b, nil, nil))
	if err != nil {
		b.Fatal(err)
	}
	batches := numberRows(b, &s.dict, k, n, rows, byColumn)
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

//go:build unix

package laplace

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/bglm/bglm/kernels"
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

// numberRows are batches of n rows of k numbers and the intercept, the same ones by row and by
// column.
func numberRows(t testing.TB, d *kernels.Dict, k, n, batches int, byColumn bool) (out []*kernels.Batch) {
	t.Helper()
	var names []string
	shared := []uint32{0}
	for c := range k {
		names = append(names, fmt.Sprintf("x%d", c))
	}
	d.Use(kernels.NewColumns(nil, names))
	for _, name := range names {
		f, err := d.Add(name)
		if err != nil {
			t.Fatal(err)
		}
		shared = append(shared, f)
	}
	schema := &kernels.Schema{Names: names, Levels: make([]bool, k)}
	rng := rand.New(rand.NewPCG(1, 2))
	for range batches {
		b := &kernels.Batch{Shared: shared, Schema: schema}
		for range n {
			b.Value = append(b.Value, 1)
			for j := range k {
				b.Value = append(b.Value, rng.NormFloat64()+100*float64(j%3))
			}
			b.Y = append(b.Y, float64(rng.IntN(2)))
		}
		if byColumn {
			for j := range shared {
				column := make([]float64, n)
				for i := range column {
					column[i] = b.Value[i*len(shared)+j]
				}
				b.Columns = append(b.Columns, column)
			}
			b.Value = nil
		}
		out = append(out, b)
	}
	return out
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

//go:build unix

package laplace

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// levelRows are n rows of k columns of so many levels, those later rarer, and a number.
func levelRows(t testing.TB, d *kernels.Dict, n, k, levels int, number bool, seed uint64) []*kernels.Batch {
	t.Helper()
	var names []string
	for c := range k {
		names = append(names, fmt.Sprintf("c%d", c))
	}
	d.Use(kernels.NewColumns(names, []string{"x"}))
	rng := rand.New(rand.NewPCG(seed, 3))
	effect := rand.New(rand.NewPCG(7, 7))
	id, at := make([][]uint32, k), make([][]float64, k)
	add := func(name string) uint32 {
		f, err := d.Add(name)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for c := range k {
		for l := range levels {
			id[c], at[c] = append(id[c], add(fmt.Sprintf("c%d=%d", c, l))), append(at[c], 0.7*effect.NormFloat64())
		}
	}
	var out []*kernels.Batch
	for done := 0; done < n; {
		b := &kernels.Batch{}
		b.Reset()
		for range min(2048, n-done) {
			eta := -1.0
			b.Add(0, 1)
			for c := range k {
				u := rng.Float64()
				l := int(u * u * u * float64(levels))
				b.Add(id[c][l], 1)
				eta += at[c][l]
			}
			if number {
				x := 5 + 2*rng.NormFloat64()
				b.Add(add("x"), x)
				eta += 0.1 * (x - 5)
			}
			b.EndRow()
			b.Y = append(b.Y, float64(btoi(rng.Float64() < special.Logistic(eta))))
			done++
		}
		out = append(out, b)
	}
	return out
}

func passModel(t testing.TB, around *kernels.Fit, set func(m *kernels.Model)) *kernels.Model {
	m := model(t, "bernoulli", "logit", lik.Params{})
	m.NoIntercept, m.Around = false, around
	if set != nil {
		set(m)
	}
	return m
}

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

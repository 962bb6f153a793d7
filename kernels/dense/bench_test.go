package dense

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// peak is the rate of multiply-adds on registers, in operations per second for all
// processors together: the best of several short runs, for other work on the machine only
// lowers it.
var peak = sync.OnceValue(func() float64 {
	best, procs := 0.0, runtime.GOMAXPROCS(0)
	for range 10 {
		const rounds = 2_000_000
		start := time.Now()
		tasks(procs, procs, func(int) { peakOps(rounds) })
		best = math.Max(best, float64(procs)*peakOps(1)*rounds/time.Since(start).Seconds())
	}
	return best
})

// rate reports billions of operations per second and the share of the peak.
func rate(b *testing.B, operations float64) {
	r := operations * float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(r/1e9, "GF/s")
	if p := peak(); p > 0 {
		b.ReportMetric(100*r/p, "peak-%")
	}
}

func BenchmarkPeak(b *testing.B) {
	for b.Loop() {
		peak()
	}
	b.ReportMetric(peak()/1e9, "GF/s")
}

func BenchmarkGram(b *testing.B) {
	for _, s := range [][2]int{{20, 3}, {100, 10}, {200_000, 1}, {200_000, 4}, {200_000, 10}, {200_000, 20}, {200_000, 50}, {100_000, 200}, {20_000, 1000}} {
		n, p := s[0], s[1]
		x, w := random(newRand(1), n, p, 0, 0), vector(newRand(2), n)
		dst := New(p, p)
		ops := float64(n) * float64(p) * float64(p+1)
		b.Run(fmt.Sprintf("n=%d/p=%d", n, p), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Gram(dst, x, w)
			}
			rate(b, ops)
		})
		if p == 50 {
			b.Run(fmt.Sprintf("gonum/n=%d/p=%d", n, p), func(b *testing.B) {
				c := blas64.Symmetric{N: p, Stride: p, Data: make([]float64, p*p), Uplo: blas.Lower}
				for b.Loop() {
					blas64.Syrk(blas.Trans, 1, general(x), 0, c)
				}
				rate(b, ops)
			})
		}
	}
}

func BenchmarkMul(b *testing.B) {
	for _, n := range []int{4, 8, 16, 32, 64, 128, 256, 500, 1000, 2000} {
		x, y, dst := random(newRand(1), n, n, 0, 0), random(newRand(2), n, n, 0, 0), New(n, n)
		ops := 2 * float64(n) * float64(n) * float64(n)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			for b.Loop() {
				Mul(dst, x, y)
			}
			rate(b, ops)
		})
		if n == 1000 {
			b.Run("transposed/n=1000", func(b *testing.B) {
				for b.Loop() {
					MulTB(dst, x, y)
				}
				rate(b, ops)
			})
		}
		if n == 16 || n == 1000 {
			b.Run(fmt.Sprintf("gonum/n=%d", n), func(b *testing.B) {
				for b.Loop() {
					blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, general(x), general(y), 0, general(dst))
				}
				rate(b, ops)
			})
		}
	}
}

func BenchmarkGramT(b *testing.B) {
	x, dst := random(newRand(1), 1000, 1000, 0, 0), New(1000, 1000)
	w := vector(newRand(2), 1000)
	b.Run("n=1000/p=1000", func(b *testing.B) {
		for b.Loop() {
			GramT(dst, x, w)
		}
		rate(b, 1e9)
	})
}

func BenchmarkCholesky(b *testing.B) {
	for _, n := range []int{8, 16, 50, 100, 200, 1000, 2000, 5000} {
		ops := float64(n) * float64(n) * float64(n) / 3
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			a, l := spd(newRand(1), n), New(n, n)
			for b.Loop() {
				copy(l.Data, a.Data)
				if err := Cholesky(l); err != nil {
					b.Fatal(err)
				}
			}
			rate(b, ops)
		})
		if n == 1000 {
			b.Run("gonum/n=1000", func(b *testing.B) {
				s := mat.NewSymDense(n, spd(newRand(1), n).Data)
				var c mat.Cholesky
				for b.Loop() {
					c.Factorize(s)
				}
				rate(b, ops)
			})
		}
	}
}

func BenchmarkSolve(b *testing.B) {
	for _, s := range [][2]int{{50, 50}, {1000, 1}, {1000, 1000}, {2000, 2000}} {
		n, k := s[0], s[1]
		for name, f := range map[string]func(l, b *Matrix){"lower": SolveLower, "transposed": SolveLowerT} {
			b.Run(fmt.Sprintf("%s/n=%d/k=%d", name, n, k), func(b *testing.B) {
				l, x := spd(newRand(1), n), random(newRand(2), n, k, 0, 0)
				if err := Cholesky(l); err != nil {
					b.Fatal(err)
				}
				y := x.Clone()
				for b.Loop() {
					copy(y.Data, x.Data)
					f(l, y)
				}
				rate(b, float64(n)*float64(n)*float64(k))
			})
		}
	}
}

func BenchmarkInverse(b *testing.B) {
	for _, n := range []int{50, 200, 1000, 2000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			l, dst := spd(newRand(1), n), New(n, n)
			if err := Cholesky(l); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				InverseFromCholesky(dst, l)
			}
			rate(b, 2*float64(n)*float64(n)*float64(n)/3)
		})
	}
}

// BenchmarkVector is bound by memory where the matrix is larger than the caches.
func BenchmarkVector(b *testing.B) {
	for _, s := range [][2]int{{50, 50}, {1000, 50}, {200_000, 50}} {
		n, p := s[0], s[1]
		a := random(newRand(1), n, p, 0, 0)
		x, y := vector(newRand(2), p), vector(newRand(2), n)
		b.Run(fmt.Sprintf("Gemv/n=%d/p=%d", n, p), func(b *testing.B) {
			for b.Loop() {
				Gemv(y, a, x)
			}
			rate(b, 2*float64(n)*float64(p))
		})
		b.Run(fmt.Sprintf("GemvT/n=%d/p=%d", n, p), func(b *testing.B) {
			for b.Loop() {
				GemvT(x, a, y)
			}
			rate(b, 2*float64(n)*float64(p))
		})
	}
}

func general(m *Matrix) blas64.General {
	return blas64.General{Rows: m.Rows, Cols: m.Cols, Stride: m.Stride, Data: m.Data}
}

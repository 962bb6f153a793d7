package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Means of rows of equal features, column by column, are those of their entries one after the
// other, to the last bit: with and without values that are missing, chunks that are numbered
// anew, rows before them.
func TestRunning(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const wide = 37
	for _, missing := range []float64{0, 1e-4, 0.3} {
		var r Rows
		for k := range 4 {
			c := chunk{}
			for e := range wide {
				c.Shared = append(c.Shared, uint32(e))
			}
			if k == 2 { // other numbers for the same features
				c.ids = make([]uint32, wide)
				for e := range wide {
					c.Shared[e], c.ids[wide-1-e] = uint32(wide-1-e), uint32(e)
				}
			}
			if k == 3 {
				c.count = make([]float64, 400)
				for i := range c.count {
					c.count[i] = float64(1 + i%3)
				}
			}
			for range 400 {
				for range wide {
					x := 3 + rng.NormFloat64()
					if rng.Float64() < missing {
						x = math.NaN()
					}
					c.Value = append(c.Value, x)
				}
			}
			r.chunks = append(r.chunks, c)
			r.nnz += len(c.Value)
		}
		at := make([]int32, wide)
		for e := range at {
			at[e] = int32((e*5)%wide) - 1
		}
		for _, square := range []bool{false, true} {
			want := make([]center, wide)
			want[3] = center{7, 2}
			got := append([]center(nil), want...)
			for k := range r.chunks {
				r.chunks[k].visit(at, func(k int32, x, rows float64) {
					if square {
						x *= x
					}
					want[k].add(x, rows)
				})
			}
			r.running(at, got, square)
			for k := range want {
				if got[k] != want[k] {
					t.Fatalf("missing %v, square %v, place %d: %v, want %v", missing, square, k, got[k], want[k])
				}
			}
		}
	}
}

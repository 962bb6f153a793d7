package arrowio

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/bglm/bglm/kernels"
)

func seeds(t testing.TB) [][]byte {
	empty := sample()
	empty.Beliefs = nil
	many := sample()
	many.Beliefs = nil
	for i := range 1000 {
		many.Beliefs = append(many.Beliefs, kernels.Belief{Feature: fmt.Sprintf("f%03d", i), Weight: kernels.Weight{Mean: float64(i % 7), Variance: 1}})
	}
	out := [][]byte{parquetOf(t, sample()), parquetOf(t, empty), parquetOf(t, many)}
	// Files of other writers, with dictionaries, NULLs and other encodings.
	files, _ := filepath.Glob("testdata/*.parquet")
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// tryDamaged reads b: no panic, and what is read can be written and read again.
func tryDamaged(t *testing.T, b []byte) {
	f, err := read(b, nil)
	if err != nil {
		return
	}
	g, err := read(parquetOf(t, f), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := equal(f, g); err != nil {
		t.Fatal(err)
	}
}

func FuzzReadParquet(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	f.Fuzz(tryDamaged)
}

// Damaged files do not panic and do not make the reader allocate without bound.
func TestDamagedFiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	rounds := 4000
	if testing.Short() {
		rounds = 400
	}
	all := seeds(t)
	var before, after runtime.MemStats
	for i := range rounds {
		b := append([]byte(nil), all[i%len(all)]...)
		for range 1 + rng.IntN(4) {
			// The footer holds most of what can go wrong.
			at := rng.IntN(len(b))
			if rng.IntN(2) == 0 {
				at = len(b) - 1 - rng.IntN(min(len(b), 1500))
			}
			switch rng.IntN(4) {
			case 0:
				b[at] ^= 1 << rng.IntN(8)
			case 1:
				b[at] = byte(rng.IntN(256))
			case 2:
				b[at] = 0xff
			case 3:
				if len(b) > 20 {
					b = append(b[:at], b[min(len(b), at+1+rng.IntN(8)):]...)
				}
			}
			if len(b) == 0 {
				b = []byte{0}
			}
		}
		runtime.ReadMemStats(&before)
		tryDamaged(t, b)
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 256<<20 {
			t.Fatalf("round %d: %d MiB allocated for a file of %d bytes", i, grown>>20, len(b))
		}
	}
}

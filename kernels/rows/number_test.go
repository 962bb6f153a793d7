package rows

import (
	"math/rand/v2"
	"testing"
)

// Places of lists are 1 to their length, whatever the memory held before.
func TestNumber(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := &term{kind: dense, buffers: &buffers{}}
	for block := range 2000 {
		x.i, x.off = x.i[:0], append(x.off[:0], 0)
		m := 1 + rng.IntN(4)
		for range rng.IntN(12) {
			if rng.IntN(8) == 0 {
				m = 1 + rng.IntN(4)
			}
			at := len(x.i)
			x.number(at, m)
			if rng.IntN(20) == 0 { // as drop leaves it
				x.upto = min(x.upto, at)
				x.i[at] = -7
				x.i = x.i[:at+rng.IntN(m)]
			} else {
				for k, i := range x.i[at:] {
					if i != int64(k+1) {
						t.Fatalf("block %d: entry %d of a list of %d is %d", block, k, m, i)
					}
				}
			}
		}
	}
}

package memory

import (
	"slices"
	"testing"
)

// A slice that grows keeps what it has, at small sizes and at those of large pages.
func TestGrow(t *testing.T) {
	for _, n := range []int{0, 1, 7, fromHuge/8 - 1, fromHuge / 4} {
		s := Make[uint64](n, n)
		for i := range s {
			s[i] = uint64(i) * 0x9E3779B97F4A7C15
		}
		was := slices.Clone(s)
		for _, more := range []int{0, 1, 5, n + 1} {
			out := Grow(s, more)
			if !slices.Equal(out, was) || cap(out) < n+more || cap(out) != cap(s) && cap(out) < 2*n {
				t.Fatalf("%d more of %d: capacity %d, the same %v", more, n, cap(out), slices.Equal(out, was))
			}
			for _, x := range out[n:cap(out)] {
				if x != 0 {
					t.Fatal("what has grown is not empty")
				}
			}
		}
	}
}

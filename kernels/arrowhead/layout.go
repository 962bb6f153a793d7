package arrowhead

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/dense"
)

// Layout is an arrowhead Gaussian over named beliefs as a fit stores it, numbers one
// behind the other, for d weights of the block:
//
//   - their means, d numbers;
//   - what they are, d numbers: 0 for a weight that is a belief of its own, else for a
//     level mean the power of two that the number of its column's levels is taken for;
//   - L of P = L Lᵀ, row by row: L(i, j) at i(i+1)/2 + j;
//   - d+3 numbers for each belief: what it is, then α, q and h of package arrowhead. What
//     it is: j >= 0 for a leaf of the level mean j, which is added to it; -1 for a leaf of
//     none; -2-j for weight j of the block, whose other numbers are 0.
type Layout struct {
	D      int
	Values []float64
}

// MaxBlock is the largest block.
const MaxBlock = 5000

// Want is how many numbers p beliefs take.
func Want(d, p int) int { return 2*d + d*(d+1)/2 + p*(d+3) }

// MeanShare is what part of the prior variance of its weights a column of L levels has in
// its level mean, and OwnShare the rest, in each weight alone.
func MeanShare(levels float64) float64 { return 0.5 / levels }
func OwnShare(levels float64) float64  { return 1 - 0.5/levels }

// Mean is that of weight j of the block.
func (l Layout) Mean(j int) float64 { return l.Values[j] }

// Levels is 0 for a weight that is a belief, else the power of two of level mean j.
func (l Layout) Levels(j int) float64 { return l.Values[l.D+j] }

// Root is row i of L.
func (l Layout) Root(i int) []float64 {
	at := 2*l.D + i*(i+1)/2
	return l.Values[at : at+i+1]
}

// Row is belief k's numbers.
func (l Layout) Row(k int) []float64 {
	n := l.D + 3
	at := Want(l.D, 0) + k*n
	return l.Values[at : at+n]
}

// Gather adds x times belief k to the row g of block inputs, and returns what it brings to
// the predictor beside gᵀb: x α and x² q.
func (l Layout) Gather(k int, x float64, g []float64) (mean, variance float64) {
	r := l.Row(k)
	if c := int(r[0]); c <= -2 {
		g[-2-c] += x
		return 0, 0
	} else if c >= 0 {
		g[c] += x
	}
	dense.Axpy(x, r[3:], g)
	return x * r[1], x * x * r[2]
}

// Quad is gᵀPg. Cost: O(d²).
func (l Layout) Quad(g []float64) (v float64) {
	root := l.Values[2*l.D : Want(l.D, 0)]
	for j := range g {
		s := 0.0
		for i, at := j, j*(j+1)/2+j; i < l.D; i++ {
			s += root[at] * g[i]
			at += i + 1 // one row down
		}
		v += s * s
	}
	return v
}

// Variance is that of belief k; g is room for the block's inputs.
func (l Layout) Variance(k int, g []float64) float64 {
	clear(g)
	_, q := l.Gather(k, 1, g)
	return q + l.Quad(g)
}

// LevelMean is the level mean of belief k, -1 where it has none.
func (l Layout) LevelMean(k int) int { return max(int(l.Row(k)[0]), -1) }

// Check reports numbers that cannot be such a Gaussian over p beliefs: their count, a
// number that is not finite, a diagonal of the root or a q below 0, a belief that is none
// of what there is, a weight of the block that is not just one belief.
func (l Layout) Check(p int) error {
	if want := Want(l.D, p); l.D < 0 || len(l.Values) != want {
		return fmt.Errorf("%d values for %d weights in the block and %d beliefs; allowed: %d", len(l.Values), l.D, p, want)
	}
	for _, v := range l.Values {
		if v-v != 0 {
			return fmt.Errorf("found a value %v; allowed: finite numbers", v)
		}
	}
	owner := make([]bool, l.D)
	for j := range l.D {
		n := l.Levels(j)
		if n != 0 && (n < 2 || n > 1<<40 || math.Exp2(math.Round(math.Log2(n))) != n) {
			return fmt.Errorf("weight %d of the block stands for %v levels; allowed: 0 or a power of two from 2", j+1, n)
		}
		if d := l.Root(j)[j]; d < 0 {
			return fmt.Errorf("%v on the diagonal of the block's factor, in row %d; allowed: numbers >= 0", d, j+1)
		}
	}
	for k := range p {
		r := l.Row(k)
		c := r[0]
		switch {
		case c != math.Trunc(c) || c >= float64(l.D) || c < -1-float64(l.D) || c >= 0 && l.Levels(int(c)) == 0:
			return fmt.Errorf("belief %d belongs to %v; allowed: a level mean of the block, -1, or -2 less a weight of it", k+1, c)
		case r[2] < 0:
			return fmt.Errorf("q = %v of belief %d; allowed: numbers >= 0", r[2], k+1)
		case c <= -2:
			j := -2 - int(c)
			if owner[j] || l.Levels(j) != 0 {
				return fmt.Errorf("belief %d is weight %d of the block, which is another's", k+1, j+1)
			}
			owner[j] = true
		}
	}
	for j, is := range owner {
		if !is && l.Levels(j) == 0 {
			return fmt.Errorf("weight %d of the block is no belief and no level mean", j+1)
		}
	}
	return nil
}

package arrowhead

import (
	"math"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/memory"
)

// Spread computes the variances of many predictors under a Layout, equal to those of its Variance
// up to rounding. It serves concurrent goroutines, each with a SpreadScratch.
type Spread struct {
	l      Layout
	root   []float64     // packed, if the block is small or predictors are few
	cov    *dense.Matrix // otherwise the covariance of the block, P
	tied   *dense.Matrix // and P g of each leaf, with its block inputs g
	place  []int         // of beliefs: their row in tied, -1 for those of the block
	square []float64     // by leaf: gᵀPg
	units  []int         // weights of the block that have a unit
}

// SpreadScratch is scratch memory for Spread's Variance.
type SpreadScratch struct {
	g, f []float64 // g is 0 between calls
	used []bool
	on   []int // indices in use
}

// wideBlock is the block size from which products with the leaves pay.
const wideBlock = 64

// NewSpread returns the Spread for n predictors over p beliefs; matrix allocates matrices of zeros.
//
// Cost: O(d²), or O(d²) for each weight of the block and each leaf and d numbers for each if that
// is no more than O(d²) for each predictor.
func (l Layout) NewSpread(p, n int, matrix func(rows, columns int) *dense.Matrix) *Spread {
	s := &Spread{l: l}
	leaves := 0
	for k := range p {
		if l.Row(k)[0] > -2 {
			leaves++
		}
	}
	if l.D < wideBlock || n < (l.D+leaves)/4 {
		s.Pack(l)
		return s
	}
	root := matrix(l.D, l.D)
	for i := range l.D {
		copy(root.Row(i), l.Root(i))
		if l.Values[l.D+i] <= -1 {
			s.units = append(s.units, i)
		}
	}
	s.cov = matrix(l.D, l.D)
	dense.GramT(s.cov, root, nil)
	inputs := matrix(leaves, l.D)
	s.place, s.square = make([]int, p), make([]float64, leaves)
	at := 0
	for k := range p {
		if s.place[k] = -1; l.Row(k)[0] <= -2 {
			continue
		}
		s.place[k] = at
		g := inputs.Row(at)
		copy(g, l.Row(k)[3:])
		if c := l.LevelMean(k); c >= 0 {
			g[c]++
		}
		at++
	}
	s.tied = matrix(leaves, l.D)
	dense.Mul(s.tied, inputs, s.cov)
	for k := range s.square {
		s.square[k] = dense.Dot(inputs.Row(k), s.tied.Row(k))
	}
	return s
}

// Pack makes s the Spread of l without products, reusing its memory.
func (s *Spread) Pack(l Layout) {
	n := dense.PackedLen(l.D)
	if cap(s.root) < n {
		s.root = memory.Floats(n)
	}
	*s = Spread{l: l, root: s.root[:n]}
	l.pack(s.root)
}

// Variance returns the variance of Σ x_i w of beliefs at_i, like Layout.Variance. Cost: O(d²), or
// with products O(nnz²), and O(d) for each pair of leaves.
func (s *Spread) Variance(at []int, x []float64, r *SpreadScratch) float64 {
	if len(r.g) < s.l.D {
		r.g, r.f, r.used = make([]float64, s.l.D), make([]float64, s.l.D), make([]bool, s.l.D)
	}
	unit := s.l.ResponseUnit()
	if s.cov == nil {
		g, f := r.g[:s.l.D], r.f[:s.l.D]
		v := s.l.Inputs(at, x, g)
		dense.PackedTMul(f, s.root, g)
		clear(g)
		return unit * unit * (v + dot(f, f))
	}
	r.on = r.on[:0]
	add := func(j int, v float64) {
		if !r.used[j] {
			r.used[j], r.on = true, append(r.on, j)
		}
		r.g[j] += v
	}
	for i, k := range at {
		if k < 0 {
			add(^k, x[i])
		} else if c := int(s.l.Row(k)[0]); c <= -2 {
			add(-2-c, x[i])
		}
	}
	one := 0.0
	if j := s.l.intercept(); j >= 0 {
		one = r.g[j]
	}
	for _, j := range s.units {
		c, scale := s.l.Unit(j)
		if add(j, -one*c); scale > 0 {
			r.g[j] /= scale
		}
	}
	v := 0.0
	for _, j := range r.on {
		row := s.cov.Row(j)
		for _, k := range r.on {
			v += r.g[j] * r.g[k] * row[k]
		}
	}
	for i, k := range at {
		if k < 0 || s.place[k] < 0 {
			continue
		}
		tied, sum := s.tied.Row(s.place[k]), 0.0
		for _, j := range r.on {
			sum += r.g[j] * tied[j]
		}
		v += x[i] * (x[i]*(s.l.Row(k)[2]+s.square[s.place[k]]) + 2*sum)
		for h, m := range at[:i] {
			if m < 0 || s.place[m] < 0 {
				continue
			}
			both := dense.Dot(s.l.Row(m)[3:], tied)
			if c := s.l.LevelMean(m); c >= 0 {
				both += tied[c]
			}
			v += 2 * x[i] * x[h] * both
		}
	}
	for _, j := range r.on {
		r.g[j], r.used[j] = 0, false
	}
	return unit * unit * math.Max(v, 0)
}

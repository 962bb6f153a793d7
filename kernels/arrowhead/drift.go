package arrowhead

import (
	"github.com/bglm/bglm/kernels/dense"
)

// history is how the block has drifted since the leaves were last brought forward together. Leaves
// are given relative to the block as it was; after a step of drift from P to P + Q, the block
// before it has, given the block after it, the distribution
//
//	b | b⁺ ~ N(μ + G(b⁺ - μ), P - GP),  G = P(P + Q)⁻¹,
//
// and a leaf follows through all steps since its last row: h⁺ = hG, with α and q such that its mean
// and variance stay the same. (A leaf that merely kept its h would drift along with the block, and
// a well-known predictor would never feel the block's drift.) The steps are composed pairwise in
// levels, so that a leaf needs log₂ of them.
type history struct {
	d      int
	steps  int
	levels [][]step // level l: of 2^l steps each
}

// step is b | b⁺ ~ N(gain b⁺ + shift, rest) over one or more steps of drift.
type step struct {
	gain, rest []float64 // d x d
	shift      []float64
}

func newStep(d int) step {
	s := make([]float64, 2*d*d+d)
	return step{s[: d*d : d*d], s[d*d : 2*d*d : 2*d*d], s[2*d*d:]}
}

// then returns s followed by t.
func (s step) then(t step, d int) step {
	r := newStep(d)
	mul(r.gain, s.gain, t.gain, d)
	half := make([]float64, d*d)
	mul(half, s.gain, t.rest, d)
	for i := range d {
		r.shift[i] = s.shift[i] + dense.Dot(s.gain[i*d:i*d+d], t.shift)
		for j := range d {
			r.rest[i*d+j] = s.rest[i*d+j] + dense.Dot(half[i*d:i*d+d], s.gain[j*d:j*d+d])
		}
	}
	return r
}

func mul(dst, a, b []float64, d int) {
	for i := range d {
		for k := range d {
			dense.Axpy(a[i*d+k], b[k*d:k*d+d], dst[i*d:i*d+d])
		}
	}
}

func (h *history) add(s step) {
	h.steps++
	for l, n := 0, h.steps; ; l++ {
		if l == len(h.levels) {
			h.levels = append(h.levels, nil)
		}
		h.levels[l] = append(h.levels[l], s)
		if n&1 == 1 {
			return
		}
		n >>= 1
		all := h.levels[l]
		s = all[len(all)-2].then(all[len(all)-1], h.d)
	}
}

// most is the most steps kept: a few megabytes of them, but not so few that bringing all leaves
// forward costs more than the rows.
func (h *history) most() int {
	return max(16, min(4096, 4<<20/(32*h.d*h.d+1)))
}

// Drift adds to the variances of the block's weights between two rows.
// Cost: O(d³), and occasionally O(d²) for each leaf.
func (b *Belief) Drift(add []float64) {
	d := b.Dim()
	moves := false
	for _, q := range add {
		moves = moves || q > 0
	}
	if !moves {
		return
	}
	if b.past.d != d {
		b.UpdateLeaves()
		b.past = history{d: d}
	}
	p, sum := dense.New(d, d), dense.New(d, d)
	b.Cov(p)
	for i := range d {
		copy(sum.Row(i), p.Row(i))
		sum.Row(i)[i] += add[i]
	}
	if dense.Cholesky(sum) != nil { // beyond what the rounding of proper variances can cause
		return
	}
	if b.Leaves() > 0 {
		// G = P(P+Q)⁻¹; with P + Q = CCᵀ, Gᵀ = C⁻ᵀC⁻¹P.
		g := p.Clone()
		dense.SolveLower(sum, g)
		dense.SolveLowerT(sum, g)
		s := newStep(d)
		for i := range d {
			for j := range d {
				s.gain[i*d+j] = g.Row(j)[i]
			}
		}
		for i := range d {
			row := s.gain[i*d : i*d+d]
			s.shift[i] = b.Mean[i] - dense.Dot(row, b.Mean)
			for j := range d {
				// P - GP = GQ, symmetric and without cancellation
				s.rest[i*d+j] = 0.5 * (row[j]*add[j] + s.gain[j*d+i]*add[i])
			}
		}
		b.past.add(s)
	}
	b.SetRoot(sum)
	if b.past.steps >= b.past.most() {
		b.UpdateLeaves()
	}
}

// UpdateLeaf brings leaf k to the present block. Rows may only be predicted with leaves brought
// forward.
func (b *Belief) UpdateLeaf(k int) {
	n := b.past.steps
	if n == 0 || k < len(b.since) && int(b.since[k]) == n {
		return
	}
	from := 0
	if k < len(b.since) {
		from = int(b.since[k])
	}
	for len(b.since) <= k {
		b.since = append(b.since, 0)
	}
	b.since[k] = uint32(n)
	l := b.at(k)
	h := l[2:]
	d := b.Dim()
	u := b.room().u
	for from < n {
		level := 0
		for from>>level&1 == 0 && from+2<<level <= n {
			level++
		}
		s := &b.past.levels[level][from>>level]
		from += 1 << level
		clear(u)
		quad := 0.0
		for i, x := range h {
			if x == 0 {
				continue
			}
			l[0] += x * s.shift[i]
			quad += x * dense.Dot(s.rest[i*d:i*d+d], h)
			dense.Axpy(x, s.gain[i*d:i*d+d], u)
		}
		if quad > 0 {
			l[1] += quad
		}
		copy(h, u)
	}
}

// UpdateLeaves brings all leaves to the present block.
func (b *Belief) UpdateLeaves() {
	if b.past.steps == 0 {
		return
	}
	for k := range b.Leaves() {
		b.UpdateLeaf(k)
	}
	clear(b.since)
	b.past = history{d: b.past.d}
}

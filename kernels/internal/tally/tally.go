// Package tally adds up what a problem has to know of rows that are not kept: kernels.Totals.
package tally

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// Block sums numbers less Origin, the first of them, near which the others are.
type Block struct {
	Origin                          float64
	Rows, Sum, Weight, Wsum, Square float64
	Missing, MissingByWeight        float64
}

// Add adds a number; one that is NaN is missing.
func (t *Block) Add(x, weight float64) {
	if x != x {
		t.Missing++
		t.MissingByWeight += weight
		return
	}
	if t.Rows == 0 {
		t.Origin = x
	}
	x -= t.Origin
	t.Rows++
	t.Sum += x
	t.Weight += weight
	t.Wsum += weight * x
	t.Square += weight * x * x
}

// Into adds what the block knows to n.
func (t *Block) Into(n *kernels.NumberTotals) {
	o := kernels.NumberTotals{Rows: t.Rows, Weight: t.Weight, Missing: t.Missing, MissingByWeight: t.MissingByWeight}
	if t.Rows > 0 {
		o.Mean = t.Origin + t.Sum/t.Rows
	}
	if t.Weight > 0 {
		m := t.Wsum / t.Weight
		o.Center, o.Squares = t.Origin+m, max(t.Square-t.Wsum*m, 0)
	}
	n.Add(o)
}

// Responses adds rows and responses of b, of a likelihood with those traits, to t, without the rows
// where out is NaN.
func Responses(t *kernels.Totals, b *kernels.Batch, of lik.Traits, out []float64) {
	var y Block
	for i, v := range b.Y {
		if out[i] != out[i] {
			continue
		}
		t.Rows++
		weight := b.Obs(i).Weight
		t.Weight += weight
		y.Add(kernels.Less(of, v, b.Shift(i)), weight)
	}
	y.Into(&t.Y)
}

// Join adds the rows of o, whose features have the numbers ids in t.
func Join(t, o *kernels.Totals, ids []uint32) {
	t.Rows, t.Skipped, t.Weight = t.Rows+o.Rows, t.Skipped+o.Skipped, t.Weight+o.Weight
	t.Y.Add(o.Y)
	for j, id := range ids {
		t.Numbers[id].Add(o.Numbers[j])
	}
}

// Work is memory for Numbers.
type Work struct {
	number []int32 // by feature: 1 + its place in blocks, -1 for what is no number
	blocks []Block
}

// Numbers adds the numbers of b to t, whose features are those of d, without the rows where out
// is NaN.
func (m *Work) Numbers(t *kernels.Totals, d *kernels.Dict, b *kernels.Batch, out []float64) {
	if b.Shared != nil {
		for j, f := range b.Shared {
			if d.NumberPlace(f) == math.MaxInt {
				continue
			}
			values, step := b.Value[min(j, len(b.Value)):], len(b.Shared)
			if len(b.Columns) > 0 {
				values, step = b.Columns[j], 1
			}
			var s Block
			for i, w := range out {
				if w == w {
					s.Add(values[i*step], b.Obs(i).Weight)
				}
			}
			s.Into(&t.Numbers[f])
		}
		return
	}
	n := d.Len()
	m.number, m.blocks = slices.Grow(m.number[:0], n)[:n], m.blocks[:0]
	clear(m.number)
	for i, w := range out {
		if w != w {
			continue
		}
		fs, xs := b.Entries(i)
		for k, f := range fs {
			at := m.number[f]
			if at == 0 {
				if at = -1; d.NumberPlace(f) < math.MaxInt {
					m.blocks = append(m.blocks, Block{})
					at = int32(len(m.blocks))
				}
				m.number[f] = at
			}
			if at > 0 {
				m.blocks[at-1].Add(xs[k], b.Obs(i).Weight)
			}
		}
	}
	for f, at := range m.number {
		if at > 0 {
			m.blocks[at-1].Into(&t.Numbers[f])
		}
	}
}

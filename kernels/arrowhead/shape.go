package arrowhead

import (
	"math"

	"github.com/bglm/bglm/kernels/dense"
)

// Tie adds sign times weight to to weight j of the block. Leaves do not change. Cost: O(d²) and
// O(1) per leaf.
func (b *Belief) Tie(j, to int, sign float64) {
	b.UpdateLeaves()
	b.Mean[j] += sign * b.Mean[to]
	l := b.Root()
	dense.Axpy(sign, l.Row(to)[:to+1], l.Row(j)[:to+1])
	if to > j {
		dense.Relower(l, j, to)
	}
	b.SetRoot(l)
	for k := range b.Leaves() {
		h := b.at(k)[2:]
		h[to] -= sign * h[j]
	}
}

// MoveToLeaves turns the weights out of the block into leaves, after the existing ones, in this
// order. Each keeps its moments with the rest of the block, and so does each leaf; correlations of
// leaves beyond that are lost. Cost: O(d³) and O(d) for each weight shed and leaf.
func (b *Belief) MoveToLeaves(out []int) {
	b.UpdateLeaves()
	d, l := b.Dim(), b.Root()
	leaves := make([]bool, d)
	for _, j := range out {
		leaves[j] = true
	}
	var order []int
	for j := range d {
		if !leaves[j] {
			order = append(order, j)
		}
	}
	n := len(order)
	order = append(order, out...)
	m, mean := dense.New(d, d), make([]float64, d)
	for i, j := range order {
		copy(m.Row(i), l.Row(j))
		mean[i] = b.Mean[j]
	}
	lower(m)
	// A weight shed is hᵀ(the rest) plus the part of its row of m beyond column n.
	h := dense.New(d-n, n)
	for i := range out {
		copy(h.Row(i), m.Row(n + i)[:n])
		dense.SolveLowerTVec(m.Slice(0, n, 0, n), h.Row(i))
		mean[n+i] -= dense.Dot(h.Row(i), mean[:n])
	}
	old := *b
	b.Mean = mean[:n:n]
	b.root = make([]float64, dense.PackedLen(n))
	b.SetRoot(m.Slice(0, n, 0, n))
	b.leaf = make([]float64, 0, (old.Leaves()+len(out))*(n+2))
	rest := make([]float64, d-n)
	for k := range old.Leaves() {
		from := old.at(k)
		at := len(b.leaf)
		b.leaf = append(b.leaf, from[:2]...)
		for _, j := range order[:n] {
			b.leaf = append(b.leaf, from[2+j])
		}
		l := b.leaf[at:]
		clear(rest)
		for i, j := range out {
			if c := from[2+j]; c != 0 {
				l[0] += c * mean[n+i]
				dense.Axpy(c, h.Row(i), l[2:])
				dense.Axpy(c, m.Row(n + i)[n:], rest)
			}
		}
		l[1] += dense.Dot(rest, rest)
	}
	for i := range out {
		r := m.Row(n + i)[n:]
		b.leaf = append(append(b.leaf, mean[n+i], dense.Dot(r, r)), h.Row(i)...)
	}
	b.past, b.since = history{}, nil
}

// MoveToBlock turns the leaves ks, in ascending order, into weights of the block, after the existing
// ones. It changes no moment. Cost: O(d²) and O(d) per leaf.
func (b *Belief) MoveToBlock(ks []int) {
	b.UpdateLeaves()
	d := b.Dim()
	old := *b
	l, root := dense.New(d+len(ks), d+len(ks)), old.Root()
	for i := range d {
		copy(l.Row(i), root.Row(i))
	}
	mean := append([]float64(nil), b.Mean...)
	b.leaf = make([]float64, 0, (old.Leaves()-len(ks))*(d+len(ks)+2))
	next := 0
	for k := range old.Leaves() {
		from := old.at(k)
		if next == len(ks) || k != ks[next] {
			b.leaf = append(append(b.leaf, from...), make([]float64, len(ks))...)
			continue
		}
		m, _ := old.Marginal(k)
		mean = append(mean, m)
		row := l.Row(d + next)
		dense.PackedTMul(row[:d], old.root, from[2:])
		row[d+next] = math.Sqrt(from[1])
		next++
	}
	b.Mean, b.root = mean, make([]float64, dense.PackedLen(len(mean)))
	b.SetRoot(l)
	b.past, b.since = history{}, nil
}

// lower transforms the columns of m, by Householder reflections, into a lower triangular root of m
// mᵀ with a nonnegative diagonal.
func lower(m *dense.Matrix) {
	d := m.Rows
	v := make([]float64, d)
	for i := range d {
		row := m.Row(i)
		norm := math.Sqrt(dense.Dot(row[i:], row[i:]))
		v := v[i:]
		copy(v, row[i:])
		v[0] += math.Copysign(norm, v[0])
		if vv := dense.Dot(v, v); vv > 0 {
			for k := i; k < d; k++ {
				to := m.Row(k)[i:]
				dense.Axpy(-2*dense.Dot(v, to)/vv, v, to)
			}
		}
		clear(row[i+1:])
		if row[i] < 0 {
			for k := i; k < d; k++ {
				m.Row(k)[i] = -m.Row(k)[i]
			}
		}
		row[i] = math.Max(norm, dense.Least)
	}
}

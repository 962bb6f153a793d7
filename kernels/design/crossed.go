package design

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
)

// Crossed is a column of an interaction of numbers less their means:
// x' = (x - Σ C[k] x_Base[k]) / By, where the bases are columns that are not crossed. Their weights
// absorb what the means shift: w' = By w, and a base's weight becomes w_b + C w.
type Crossed struct {
	Column int
	By     float64
	Base   []int
	C      []float64
}

// Crosses reports whether columns may be crossed for a posterior of this many weights that is loose
// as for Columns.Standardize: one that does not keep all covariances is made full.
func Crosses(loose, weights int) bool { return loose*weights <= fullRestore }

// Cross returns X with the crossed columns in place of the originals. c is not changed.
//
// Cost: O(nnz), and a copy.
func (c *Columns) Cross(all []Crossed) Columns {
	q := c.Gathered()
	q.block = nil
	own, on := make([]int32, c.P), make([][]int32, c.P) // by column: index in all; those it is a base of
	for j := range own {
		own[j] = -1
	}
	of := make([][]float64, c.P)
	for k, x := range all {
		own[x.Column] = int32(k)
		for i, b := range x.Base {
			on[b], of[b] = append(on[b], int32(k)), append(of[b], x.C[i])
		}
	}
	less, hit := make([]float64, len(all)), make([]bool, len(all))
	var touched []int32
	out := make([]float64, 0, len(q.Val))
	col, row := make([]uint32, 0, len(q.Val)), make([]int, 1, c.N+1)
	for i := range c.N {
		c.Stop.Row(i)
		at, val := q.Entries(i)
		touched = touched[:0]
		for k, j := range at {
			for m, x := range on[j] {
				if !hit[x] {
					hit[x], touched = true, append(touched, x)
				}
				less[x] += of[j][m] * val[k]
			}
		}
		start := len(col)
		for k, j := range at {
			v := val[k]
			if x := own[j]; x >= 0 {
				v = (v - less[x]) / all[x].By
				hit[x], less[x] = false, 0
			}
			col, out = append(col, j), append(out, v)
		}
		more := false
		for _, x := range touched {
			if hit[x] { // a row without an entry of its own
				col, out = append(col, uint32(all[x].Column)), append(out, -less[x]/all[x].By)
				hit[x], less[x], more = false, 0, true
			}
		}
		if more {
			sortRow(col[start:], out[start:])
		}
		row = append(row, len(col))
	}
	q.Val = out
	if q.all == nil {
		q.Row, q.Col = row, col
	}
	return q
}

// sortRow sorts the entries by column; the original ones are in order.
func sortRow(col []uint32, val []float64) {
	for k := 1; k < len(col); k++ {
		for i := k; i > 0 && col[i] < col[i-1]; i-- {
			col[i], col[i-1] = col[i-1], col[i]
			val[i], val[i-1] = val[i-1], val[i]
		}
	}
}

// uncross converts weights of crossed columns to those of the original columns, in place.
func (s *Scaling) uncross(w []float64) {
	for _, x := range s.Crossed {
		w[x.Column] /= x.By
		for k, b := range x.Base {
			w[b] -= x.C[k] * w[x.Column]
		}
	}
}

// cross is the reverse of uncross.
func (s *Scaling) cross(w []float64) {
	for _, x := range s.Crossed {
		for k, b := range x.Base {
			w[b] += x.C[k] * w[x.Column]
		}
		w[x.Column] *= x.By
	}
}

// uncrossRows is uncross for the rows of a Cholesky factor, which stays one.
func (s *Scaling) uncrossRows(l *dense.Matrix) {
	p := len(s.Scale)
	last := make([]int, l.Rows) // by row: its last nonzero number
	for i := range last {
		last[i] = i
	}
	for at := 0; at < l.Rows; at += p {
		for _, x := range s.Crossed {
			row := l.Row(at + x.Column)[:at+x.Column+1]
			times(row, 1/x.By)
			for k, b := range x.Base {
				dense.Axpy(-x.C[k], row, l.Row(at + b)[:len(row)])
				last[at+b] = max(last[at+b], at+x.Column)
			}
		}
	}
	Lower(l, last)
}

// Lower makes m, whose row i has numbers up to column last[i] >= i, lower triangular without
// changing m mᵀ, by reflections of its columns. The result is a Cholesky factor, which would be
// lost by squaring if the product is nearly singular.
func Lower(m *dense.Matrix, last []int) {
	for i := range m.Rows {
		m.Stop.Row(i)
		row := m.Row(i)[i : last[i]+1]
		size := math.Sqrt(dense.Dot(row, row))
		if len(row) > 1 && size > 0 {
			v := slices.Clone(row)
			if v[0] > 0 {
				size = -size
			}
			v[0] -= size
			times(v, 1/math.Sqrt(dense.Dot(v, v)))
			below := m.Rows - i - 1
			turn := func(lo, hi int) {
				for r := i + 1 + lo; r < i+1+hi; r++ {
					to := m.Row(r)[i : last[i]+1]
					dense.Axpy(-2*dense.Dot(to, v), v, to)
					last[r] = max(last[r], last[i])
				}
			}
			if below*len(v) < parallelFrom {
				turn(0, below)
			} else {
				dense.Parallel(below, turn)
			}
			clear(row)
			row[0] = size
		}
		if row[0] < 0 {
			for r := i; r < m.Rows; r++ {
				m.Row(r)[i] = -m.Row(r)[i]
			}
		}
	}
}

func times(x []float64, by float64) {
	for k := range x {
		x[k] *= by
	}
}

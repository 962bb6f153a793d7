package laplace

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/internal/tally"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// ByColumn reports that rows which have all features are processed by column: predictor, slope
// and moments are then long sums over adjacent memory.
func (s *Pass) ByColumn() bool { return true }

// block adds rows that have all features.
func (s *Pass) block(halt *stop.Stop, b *kernels.Batch) error {
	n, k, w := b.Len(), len(b.Shared), &s.work
	w.eta, w.slope = slices.Grow(w.eta[:0], n)[:n], slices.Grow(w.slope[:0], n)[:n]
	for len(w.ones) < n {
		w.ones = append(w.ones, 1)
	}
	z := s.columns(b)
	z.Stop = halt
	if clear(w.eta); len(b.Offset) > 0 {
		copy(w.eta, b.Offset)
	}
	for j, f := range b.Shared {
		dense.Axpy(s.at[f], z.Row(j), w.eta)
	}
	if w.whole = !slices.ContainsFunc(w.eta, math.IsNaN); !w.whole {
		s.complete(b, z)
	}
	if s.cov != nil {
		s.variances(b.Shared, z)
	}
	s.evaluateAll(halt, b)
	for j, f := range b.Shared {
		s.slope[f] += dense.Dot(w.slope, z.Row(j))
	}
	if s.bends() {
		for i, t := range w.third[:n] {
			w.vars[i] *= t
		}
		for j, f := range b.Shared {
			s.bend[f] += dense.Dot(w.vars, z.Row(j))
		}
	}
	if w.gram == nil || w.gram.Cols != k {
		w.gram = dense.New(k, k)
	}
	w.gram.Stop = halt
	dense.GramTAlone(w.gram, z, w.w[:n])
	for a, f := range b.Shared {
		row := w.gram.Row(a)
		for c, g := range b.Shared[:a+1] {
			s.curv[packed(f, g)] += row[c]
		}
	}
	return nil
}

// columns sets z to the columns of b less their shifts.
func (s *Pass) columns(b *kernels.Batch) *dense.Matrix {
	n, k, w := b.Len(), len(b.Shared), &s.work
	if w.z == nil || w.z.Rows != k || w.z.Cols < n {
		// an odd number of cache lines from row to row: with a power of two all rows would begin
		// at the same place of a cache
		w.z = dense.New(k, 8*(n/8|1)+16)
	}
	z := w.z.Slice(0, k, 0, n)
	if len(b.Columns) == 0 {
		dense.Transpose(z, &dense.Matrix{Rows: n, Cols: k, Stride: k, Data: b.Value})
	}
	for j, f := range b.Shared {
		column := z.Row(j)
		if len(b.Columns) > 0 {
			copy(column, b.Columns[j])
		}
		if c := s.shift[f]; c != 0 {
			dense.Axpy(-c, w.ones[:n], column)
		}
	}
	return z
}

// complete sets missing numbers to 0, which is the mean, and recomputes the predictors of these
// rows.
func (s *Pass) complete(b *kernels.Batch, z *dense.Matrix) {
	eta := s.work.eta
	for i, v := range eta {
		if v == v {
			continue
		}
		eta[i] = b.Shift(i)
		for j, f := range b.Shared {
			column := z.Row(j)
			if column[i] != column[i] {
				column[i] = 0
			}
			eta[i] += s.at[f] * column[i]
		}
	}
}

// evaluateAll evaluates the likelihood of all rows at their predictors, except of those whose
// curvature is NaN.
func (s *Pass) evaluateAll(halt *stop.Stop, b *kernels.Batch) {
	s.evaluateRows(halt, b)
	w := &s.work
	for i, slope := range w.slope {
		if w.w[i] != w.w[i] {
			continue
		}
		o := b.Obs(i)
		s.misfit.Follow(o, slope, w.w[i])
		if s.depart != nil {
			s.depart(&s.misfit, o, w.eta[i])
		}
	}
}

// evaluateRows is evaluateAll without what rows say of the misfit.
func (s *Pass) evaluateRows(halt *stop.Stop, b *kernels.Batch) {
	n, w := b.Len(), &s.work
	if s.many != nil && !(s.sites && s.cov != nil) && !slices.ContainsFunc(w.w, math.IsNaN) {
		weight := b.Weight
		if len(weight) == 0 {
			weight = nil
		}
		if sum := s.many(b.Y, weight, w.eta, w.slope, w.w); special.Finite(sum) {
			s.logLik += sum
			for i := 0; s.bends() && i < n; i++ {
				w.third[i] = s.third.at(b.Obs(i), w.eta[i])
			}
			return
		}
		clear(w.w)
	}
	for i, eta := range w.eta {
		halt.Row(i) // the search for a cavity can take a tenth of a millisecond
		if w.w[i] == w.w[i] {
			w.slope[i] = s.evaluate(b, i, eta)
		}
	}
}

// variances sets those of the predictors of rows; z are their columns of the features shared.
func (s *Pass) variances(shared []uint32, z *dense.Matrix) {
	w, k, n := &s.work, len(shared), z.Cols
	if w.cov == nil || w.cov.Rows != k {
		w.cov = dense.New(k, k)
	}
	if w.covz == nil || w.covz.Rows != k || w.covz.Cols < n {
		w.covz = dense.New(k, w.z.Cols)
	}
	for a, f := range shared {
		row := w.cov.Row(a)
		for c, g := range shared {
			if row[c] = 0; int(max(f, g)) < s.cov.Rows {
				row[c] = s.cov.Row(int(f))[g]
			}
		}
	}
	covz := w.covz.Slice(0, k, 0, n)
	covz.Stop = z.Stop
	dense.Mul(covz, w.cov, z)
	w.vars, w.apart = slices.Grow(w.vars[:0], n)[:n], slices.Grow(w.apart[:0], n)[:n]
	clear(w.vars)
	clear(w.apart)
	for j := range k {
		column, own := z.Row(j), w.cov.Row(j)[j]
		for i, v := range covz.Row(j) {
			w.vars[i] += v * column[i]
			w.apart[i] += own * column[i] * column[i]
		}
	}
}

// wholeNumbers is numbers for the n rows of z, which have weight 1.
func (s *Pass) wholeNumbers(shared []uint32, n int) {
	w, rows := &s.work, float64(n)
	for j, f := range shared {
		if s.dict.NumberPlace(f) == math.MaxInt {
			continue
		}
		column := w.z.Row(j)[:n]
		origin, sum, square := 0.0, dense.Dot(w.ones[:n], column), dense.Dot(column, column)
		if sum*sum > 0.5*rows*square { // far from 0, where cancellation would lose the variance
			origin = column[0]
			less := w.eta[:n] // no longer needed
			copy(less, column)
			dense.Axpy(-origin, w.ones[:n], less)
			sum, square = dense.Dot(w.ones[:n], less), dense.Dot(less, less)
		}
		t := tally.Block{Origin: origin + s.shift[f], Rows: rows, Sum: sum, Square: square, Weight: rows, Wsum: sum}
		t.Into(&s.totals.Numbers[f])
	}
}

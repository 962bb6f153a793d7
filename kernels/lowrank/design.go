package lowrank

import (
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/stop"
)

// Design is an n x d matrix X known by its products with blocks of vectors.
type Design interface {
	Dims() (n, d int)
	Mul(dst, w *dense.Matrix)  // dst = X w, w d x l
	MulT(dst, q *dense.Matrix) // dst = Xᵀ q, q n x l
}

// Dense is a dense matrix as a Design.
func Dense(x *dense.Matrix) Design { return full{x} }

type full struct{ x *dense.Matrix }

func (f full) Dims() (int, int)          { return f.x.Rows, f.x.Cols }
func (f full) Mul(dst, w *dense.Matrix)  { dense.Mul(dst, f.x, w) }
func (f full) MulT(dst, q *dense.Matrix) { dense.MulTA(dst, f.x, q) }

// Sparse is a row-compressed matrix of d columns as a Design. Rows own the entries
// row[i] to row[i+1]; entries in the first skip columns are left out, and the others
// are numbered from there: column c is c - skip of d. The slices are kept.
//
// A transposed copy of 12 bytes an entry makes both products loops over rows of the
// result, so that they run in parallel and do not depend on the number of processors.
func Sparse(row []int, col []uint32, val []float64, skip, d int) Design {
	s := &sparse{n: len(row) - 1, d: d, skip: uint32(skip), row: row, col: col, val: val, start: make([]int, d+1)}
	for _, c := range col {
		if c >= s.skip {
			s.start[c-s.skip+1]++
		}
	}
	for j := range d {
		s.start[j+1] += s.start[j]
	}
	s.at, s.tval = make([]uint32, s.start[d]), make([]float64, s.start[d])
	next := append([]int(nil), s.start[:d]...)
	for i := range s.n {
		for k := row[i]; k < row[i+1]; k++ {
			if c := col[k]; c >= s.skip {
				e := next[c-s.skip]
				next[c-s.skip]++
				s.at[e], s.tval[e] = uint32(i), val[k]
			}
		}
	}
	return s
}

type sparse struct {
	n, d int
	stop *stop.Stop
	skip uint32
	row  []int
	col  []uint32
	val  []float64
	// the transpose
	start []int
	at    []uint32
	tval  []float64
}

func (s *sparse) Dims() (int, int) { return s.n, s.d }

func (s *sparse) Mul(dst, w *dense.Matrix) {
	dense.Parallel(s.n, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			s.stop.Check()
			out := dst.Row(i)
			clear(out)
			for k := s.row[i]; k < s.row[i+1]; k++ {
				if c := s.col[k]; c >= s.skip {
					dense.Axpy(s.val[k], w.Row(int(c-s.skip)), out)
				}
			}
		}
	})
}

func (s *sparse) MulT(dst, q *dense.Matrix) {
	dense.Parallel(s.d, func(lo, hi int) {
		for j := lo; j < hi; j++ {
			out := dst.Row(j)
			clear(out)
			for k := s.start[j]; k < s.start[j+1]; k++ {
				s.stop.Check()
				dense.Axpy(s.tval[k], q.Row(int(s.at[k])), out)
			}
		}
	})
}

// denseShare is the share of non-zeros above which a design is multiplied as a dense
// matrix: its products run about ten times as fast per entry, its memory is up to
// 8 / (24 * 0.3) of the sparse form's.
const denseShare = 0.3

// Of is the design of p without its first skip columns.
func Of(p *kernels.Problem, skip int) Design {
	if p.Density() >= denseShare {
		return full{p.Dense().Slice(0, p.N, skip, p.P)}
	}
	s := Sparse(p.Row, p.Col, p.Val, skip, p.P-skip).(*sparse)
	s.stop = p.Stop
	return s
}

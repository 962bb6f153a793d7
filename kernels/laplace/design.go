package laplace

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
)

const (
	// A weighted Gram matrix of a sparse row costs nnz² scattered additions, of a
	// dense one p² in vector registers, about thirty times as fast: they break even
	// where a sixth of the entries is there.
	denseShare = 1.0 / 6
	// Work below this number of entries is not worth a second goroutine.
	parallelFrom = 1 << 15
	// Rows are summed in blocks of this many, in order, whatever the processors.
	sumRows = 4096
)

// design is X with its products. All are functions of X alone: each result is
// computed by one goroutine, in row order.
type design struct {
	*kernels.Problem
	x *dense.Matrix // nil where X stays sparse
}

func newDesign(p *kernels.Problem) *design {
	d := &design{Problem: p}
	if p.Density() >= denseShare {
		d.x = p.Dense()
	}
	return d
}

func (d *design) parallel(n, entries int, f func(lo, hi int)) {
	if entries < parallelFrom {
		f(0, n)
		return
	}
	dense.Parallel(n, f)
}

// mul sets dst = X w.
func (d *design) mul(dst, w []float64) {
	if d.x != nil {
		dense.Gemv(dst, d.x, w)
		return
	}
	d.parallel(d.N, len(d.Col), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			col, val := d.Entries(i)
			s := 0.0
			for k, j := range col {
				s += val[k] * w[j]
			}
			dst[i] = s
		}
	})
}

// mulT sets dst = Xᵀ r.
func (d *design) mulT(dst, r []float64) {
	if d.x != nil {
		dense.GemvT(dst, d.x, r)
		return
	}
	clear(dst)
	for i, v := range r {
		if v == 0 {
			continue
		}
		col, val := d.Entries(i)
		for k, j := range col {
			dst[j] += val[k] * v
		}
	}
}

// mulMat sets dst (n x k) = X m, m p x k.
func (d *design) mulMat(dst, m *dense.Matrix) {
	if d.x != nil {
		dense.Mul(dst, d.x, m)
		return
	}
	d.parallel(d.N, len(d.Col)*m.Cols, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row := dst.Row(i)
			clear(row)
			col, val := d.Entries(i)
			for k, j := range col {
				dense.Axpy(val[k], m.Row(int(j)), row)
			}
		}
	})
}

// mulTMat sets dst (p x k) = Xᵀ m, m n x k.
func (d *design) mulTMat(dst, m *dense.Matrix) {
	if d.x != nil {
		dense.MulTA(dst, d.x, m)
		return
	}
	// Each part has its own columns of the result.
	d.parallel(m.Cols, len(d.Col)*m.Cols, func(lo, hi int) {
		for j := range dst.Rows {
			clear(dst.Row(j)[lo:hi])
		}
		for i := range d.N {
			from := m.Row(i)[lo:hi]
			col, val := d.Entries(i)
			for k, j := range col {
				dense.Axpy(val[k], from, dst.Row(int(j))[lo:hi])
			}
		}
	})
}

// gram sets dst = Xᵀ diag(w) X, both triangles.
func (d *design) gram(dst *dense.Matrix, w []float64) {
	if d.x != nil {
		dense.Gram(dst, d.x, w)
		return
	}
	work := 0
	for i := range d.N {
		k := d.Row[i+1] - d.Row[i]
		work += k * k
	}
	// Each part has its own rows of the result and meets all rows of X.
	d.parallel(d.P, work, func(lo, hi int) {
		for j := lo; j < hi; j++ {
			clear(dst.Row(j))
		}
		for i, wi := range w {
			if wi == 0 {
				continue
			}
			col, val := d.Entries(i)
			for a, j := range col {
				if int(j) < lo {
					continue
				}
				if int(j) >= hi {
					break
				}
				row, v := dst.Row(int(j)), wi*val[a]
				for b, k := range col[:a+1] {
					row[k] += v * val[b]
				}
			}
		}
	})
	mirror(dst)
}

// squares sets dst_j = Σ_i w_i x_ij².
func (d *design) squares(dst, w []float64) {
	clear(dst)
	for i, wi := range w {
		col, val := d.Entries(i)
		for k, j := range col {
			dst[j] += wi * val[k] * val[k]
		}
	}
}

// kernelPanel is how many rows of X are scattered at once in kernel.
const kernelPanel = 64

// kernel sets dst (n x n) = X diag(v) Xᵀ, both triangles.
func (d *design) kernel(dst *dense.Matrix, v []float64) {
	if d.x != nil {
		dense.GramT(dst, d.x, v)
		return
	}
	panel := dense.New(d.P, kernelPanel)
	for lo := 0; lo < d.N; lo += kernelPanel {
		hi := min(lo+kernelPanel, d.N)
		for i := lo; i < hi; i++ {
			col, val := d.Entries(i)
			for k, j := range col {
				panel.Row(int(j))[i-lo] = val[k] * v[j]
			}
		}
		d.parallel(d.N-lo, (d.Row[d.N]-d.Row[lo])*kernelPanel, func(a, b int) {
			for i := lo + a; i < lo+b; i++ {
				row := dst.Row(i)[lo:hi]
				clear(row)
				col, val := d.Entries(i)
				for k, j := range col {
					dense.Axpy(val[k], panel.Row(int(j))[:hi-lo], row)
				}
			}
		})
		for i := lo; i < hi; i++ {
			col, _ := d.Entries(i)
			for _, j := range col {
				panel.Row(int(j))[i-lo] = 0
			}
		}
	}
	mirror(dst)
}

// mirror copies the lower triangle onto the upper one.
func mirror(m *dense.Matrix) {
	for i := range m.Rows {
		for j, v := range m.Row(i)[:i] {
			m.Data[j*m.Stride+i] = v
		}
	}
}

// sum adds up f over the rows: in blocks, each in order, the blocks in order.
func (d *design) sum(perRow int, f func(lo, hi int) float64) float64 {
	blocks := (d.N + sumRows - 1) / sumRows
	part := make([]float64, blocks)
	d.parallel(blocks, d.N*perRow, func(lo, hi int) {
		for b := lo; b < hi; b++ {
			part[b] = f(b*sumRows, min((b+1)*sumRows, d.N))
		}
	})
	s := 0.0
	for _, v := range part {
		s += v
	}
	return s
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

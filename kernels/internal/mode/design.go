package mode

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
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

// Design is X with its products. All are functions of X alone: each result is
// computed by one goroutine, in row order.
type Design struct {
	*kernels.Problem
	X *dense.Matrix // nil where X stays sparse
}

// NewDesign chooses whether X is dense.
func NewDesign(p *kernels.Problem) *Design {
	d := &Design{Problem: p}
	if p.Density() >= denseShare {
		d.X = p.Dense()
	}
	return d
}

// Parallel splits [0, n) into parts where the entries are worth it.
func (d *Design) Parallel(n, entries int, f func(lo, hi int)) {
	if entries < parallelFrom {
		f(0, n)
		return
	}
	dense.Parallel(n, f)
}

// Mul sets dst = X w.
func (d *Design) Mul(dst, w []float64) {
	if d.X != nil {
		dense.Gemv(dst, d.X, w)
		return
	}
	d.Parallel(d.N, len(d.Col), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			d.Stop.Row(i)
			col, val := d.Entries(i)
			s := 0.0
			for k, j := range col {
				s += val[k] * w[j]
			}
			dst[i] = s
		}
	})
}

// MulT sets dst = Xᵀ r.
func (d *Design) MulT(dst, r []float64) {
	if d.X != nil {
		dense.GemvT(dst, d.X, r)
		return
	}
	clear(dst)
	for i, v := range r {
		d.Stop.Row(i)
		if v == 0 {
			continue
		}
		col, val := d.Entries(i)
		for k, j := range col {
			dst[j] += val[k] * v
		}
	}
}

// MulMat sets dst (n x k) = X m, m p x k.
func (d *Design) MulMat(dst, m *dense.Matrix) {
	dst.Stop = d.Stop
	if d.X != nil {
		dense.Mul(dst, d.X, m)
		return
	}
	d.Parallel(d.N, len(d.Col)*m.Cols, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			d.Stop.Check()
			row := dst.Row(i)
			clear(row)
			col, val := d.Entries(i)
			for k, j := range col {
				dense.Axpy(val[k], m.Row(int(j)), row)
			}
		}
	})
}

// MulTMat sets dst (p x k) = Xᵀ m, m n x k.
func (d *Design) MulTMat(dst, m *dense.Matrix) {
	dst.Stop = d.Stop
	if d.X != nil {
		dense.MulTA(dst, d.X, m)
		return
	}
	// Each part has its own columns of the result.
	d.Parallel(m.Cols, len(d.Col)*m.Cols, func(lo, hi int) {
		for j := range dst.Rows {
			clear(dst.Row(j)[lo:hi])
		}
		for i := range d.N {
			d.Stop.Check()
			from := m.Row(i)[lo:hi]
			col, val := d.Entries(i)
			for k, j := range col {
				dense.Axpy(val[k], from, dst.Row(int(j))[lo:hi])
			}
		}
	})
}

// normalRows is how many rows of a dense X go into Normal at once.
const normalRows = 2048

// Normal sets dst (p x k) = Xᵀ diag(w) X m, without a matrix of n rows.
func (d *Design) Normal(dst, m *dense.Matrix, w []float64) {
	dst.Stop = d.Stop
	if d.X != nil {
		xm := dense.New(min(normalRows, d.N), m.Cols)
		for i := range dst.Rows {
			clear(dst.Row(i))
		}
		for lo := 0; lo < d.N; lo += normalRows {
			d.Stop.Check()
			hi := min(lo+normalRows, d.N)
			x, part := d.X.Slice(lo, hi, 0, d.P), xm.Slice(0, hi-lo, 0, m.Cols)
			dense.Mul(part, x, m)
			ScaleRows(part, w[lo:hi])
			dense.Gemm(dst, 1, x, true, part, false, 1)
		}
		return
	}
	// Each part has its own columns.
	d.Parallel(m.Cols, len(d.Col)*m.Cols, func(lo, hi int) {
		for j := range dst.Rows {
			clear(dst.Row(j)[lo:hi])
		}
		s := make([]float64, hi-lo)
		for i, wi := range w {
			d.Stop.Check()
			if wi == 0 {
				continue
			}
			clear(s)
			col, val := d.Entries(i)
			for k, j := range col {
				dense.Axpy(val[k], m.Row(int(j))[lo:hi], s)
			}
			for k, j := range col {
				dense.Axpy(wi*val[k], s, dst.Row(int(j))[lo:hi])
			}
		}
	})
}

// Gram sets dst = Xᵀ diag(w) X, both triangles.
func (d *Design) Gram(dst *dense.Matrix, w []float64) {
	dst.Stop = d.Stop
	if d.X != nil {
		dense.Gram(dst, d.X, w)
		return
	}
	work := 0
	for i := range d.N {
		d.Stop.Check()
		k := d.Row[i+1] - d.Row[i]
		work += k * k
	}
	// Each part has its own rows of the result and meets all rows of X.
	d.Parallel(d.P, work, func(lo, hi int) {
		for j := lo; j < hi; j++ {
			clear(dst.Row(j))
		}
		for i, wi := range w {
			d.Stop.Check()
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
	Mirror(dst)
}

// Squares sets dst_j = Σ_i w_i x_ij².
func (d *Design) Squares(dst, w []float64) {
	clear(dst)
	for i, wi := range w {
		d.Stop.Row(i)
		col, val := d.Entries(i)
		for k, j := range col {
			dst[j] += wi * val[k] * val[k]
		}
	}
}

// Kernel scatters up to 64 rows of X at once, fewer where p is large: the panel stays
// below 32 MB.
const (
	widePanel   = 64
	panelMemory = 1 << 22
)

// Kernel sets dst (n x n) = X diag(v) Xᵀ, both triangles.
func (d *Design) Kernel(dst *dense.Matrix, v []float64) {
	dst.Stop = d.Stop
	if d.X != nil {
		dense.GramT(dst, d.X, v)
		return
	}
	wide := min(max(panelMemory/max(d.P, 1), 4), widePanel)
	panel := dense.New(d.P, wide)
	for lo := 0; lo < d.N; lo += wide {
		d.Stop.Check()
		hi := min(lo+wide, d.N)
		for i := lo; i < hi; i++ {
			d.Stop.Check()
			col, val := d.Entries(i)
			for k, j := range col {
				panel.Row(int(j))[i-lo] = val[k] * v[j]
			}
		}
		d.Parallel(d.N-lo, (d.Row[d.N]-d.Row[lo])*wide, func(a, b int) {
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
			d.Stop.Check()
			col, _ := d.Entries(i)
			for _, j := range col {
				panel.Row(int(j))[i-lo] = 0
			}
		}
	}
	Mirror(dst)
}

// Mirror copies the lower triangle onto the upper one.
func Mirror(m *dense.Matrix) {
	for i := range m.Rows {
		m.Stop.Check()
		for j, v := range m.Row(i)[:i] {
			m.Data[j*m.Stride+i] = v
		}
	}
}

// Sum adds up f over the rows: in blocks, each in order, the blocks in order.
func (d *Design) Sum(perRow int, f func(lo, hi int) float64) float64 {
	blocks := (d.N + sumRows - 1) / sumRows
	part := make([]float64, blocks)
	d.Parallel(blocks, d.N*perRow, func(lo, hi int) {
		for b := lo; b < hi; b++ {
			d.Stop.Check()
			part[b] = f(b*sumRows, min((b+1)*sumRows, d.N))
		}
	})
	s := 0.0
	for _, v := range part {
		s += v
	}
	return s
}

// Finite says that x is a number.
func Finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// BlockGram sets dst to XᵀWX for the columns that have a place in dst, -1 for none;
// places rise with the columns.
func (d *Design) BlockGram(dst *dense.Matrix, place []int, w []float64) {
	dst.Stop = d.Stop
	for a := range dst.Rows {
		clear(dst.Row(a))
	}
	var at []int
	var x []float64
	for i, wi := range w {
		d.Stop.Check()
		col, val := d.Entries(i)
		at, x = at[:0], x[:0]
		for k, j := range col {
			if place[j] >= 0 {
				at, x = append(at, place[j]), append(x, val[k])
			}
		}
		for a, r := range at {
			row, v := dst.Row(r), wi*x[a]
			for b, k := range at[:a+1] {
				row[k] += v * x[b]
			}
		}
	}
	Mirror(dst)
}

// Spread sets dst to the variances of the predictors under g.
func (d *Design) Spread(dst []float64, g *gauss.Normal) {
	if d.X != nil && g.Form == gauss.Full {
		const block = 1024
		buf := dense.New(min(block, d.N), d.P)
		for lo := 0; lo < d.N; lo += block {
			d.Stop.Check()
			hi := min(lo+block, d.N)
			xl := buf.Slice(0, hi-lo, 0, d.P)
			dense.Mul(xl, d.X.Slice(lo, hi, 0, d.P), g.L)
			for i := lo; i < hi; i++ {
				d.Stop.Check()
				r := xl.Row(i - lo)
				dst[i] = dense.Dot(r, r)
			}
		}
		return
	}
	d.Parallel(d.N, len(d.Col)*(1+d.P/8), func(lo, hi int) {
		var scratch []float64
		for i := lo; i < hi; i++ {
			d.Stop.Check()
			col, val := d.Entries(i)
			_, dst[i] = g.Linear(col, val, &scratch)
		}
	})
}

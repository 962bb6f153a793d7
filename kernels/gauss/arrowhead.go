package gauss

import (
	"math"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
)

// Arrow is the covariance of an Arrowhead Normal: a block of d weights b and leaves tied to it,
// each independent of the other leaves given the block,
//
//	w_k = Mean_k + h_kᵀ(b - Mean_b) + ε_k,   ε_k ~ N(0, Q_k)
//
// so that the precision matrix consists of a dense block, a diagonal, and the rows that connect
// them.
type Arrow struct {
	Block []int         // columns of the block, ascending
	Leaf  []int         // columns of the leaves, ascending
	L     *dense.Matrix // lower Cholesky factor of the block's covariance, d x d
	H     *dense.Matrix // h_k by leaf, leaves x d
	Q     []float64     // by leaf

	at []int // by column: its place in Block, or ^ its place in Leaf
}

// NewArrowhead returns the Normal over the columns of a; the arguments are retained.
// Cost: O(d²) for each leaf.
func NewArrowhead(mean []float64, a *Arrow) *Normal {
	g := &Normal{Form: Arrowhead, Mean: mean, Arrow: a, Var: memory.Floats(len(mean))}
	a.at = make([]int, len(mean))
	for i, j := range a.Block {
		a.L.Stop.Row(i)
		a.at[j] = i
		r := a.L.Row(i)[:i+1]
		g.Var[j] = dense.Dot(r, r)
	}
	const some = 1024
	d := len(a.Block)
	hl := dense.NewUnder(a.L.Stop, min(some, len(a.Leaf)), d)
	for lo := 0; lo < len(a.Leaf); lo += some {
		hi := min(lo+some, len(a.Leaf))
		part := hl.Slice(0, hi-lo, 0, d)
		if d > 0 {
			dense.Mul(part, a.H.Slice(lo, hi, 0, d), a.L)
		}
		for k := lo; k < hi; k++ {
			a.at[a.Leaf[k]] = ^k
			r := part.Row(k - lo)
			g.Var[a.Leaf[k]] = a.Q[k] + dense.Dot(r, r)
		}
	}
	return g
}

// At is the place of a column in the block, or ^ its place among the leaves.
func (a *Arrow) At(j int) int { return a.at[j] }

func (a *Arrow) stop() *stop.Stop { return a.L.Stop }

// gather adds x times weight j to the row g of block inputs, and returns the variance that is its
// own.
func (a *Arrow) gather(j int, x float64, g []float64) float64 {
	k := a.at[j]
	if k >= 0 {
		g[k] += x
		return 0
	}
	dense.Axpy(x, a.H.Row(^k), g)
	return x * x * a.Q[^k]
}

// quad is gᵀPg; u is scratch for d numbers.
func (a *Arrow) quad(g, u []float64) float64 {
	clear(u)
	for i, x := range g {
		if x != 0 {
			dense.Axpy(x, a.L.Row(i)[:i+1], u[:i+1])
		}
	}
	return dense.Dot(u, u)
}

// mulCov sets dst = Σ x.
func (a *Arrow) mulCov(dst, x []float64) {
	d := len(a.Block)
	g, u, b := make([]float64, d), make([]float64, d), make([]float64, d)
	for k, j := range a.Leaf {
		a.stop().Row(k)
		dense.Axpy(x[j], a.H.Row(k), g)
	}
	for i, j := range a.Block {
		g[i] += x[j]
	}
	for i := range d {
		dense.Axpy(g[i], a.L.Row(i)[:i+1], u[:i+1])
	}
	for i := range d {
		b[i] = dense.Dot(a.L.Row(i)[:i+1], u[:i+1])
	}
	for i, j := range a.Block {
		dst[j] = b[i]
	}
	for k, j := range a.Leaf {
		a.stop().Row(k)
		dst[j] = a.Q[k]*x[j] + dense.Dot(a.H.Row(k), b)
	}
}

// mulPrec sets dst = Σ⁻¹ x.
func (a *Arrow) mulPrec(dst, x []float64) {
	d := len(a.Block)
	b, sum := make([]float64, d), make([]float64, d)
	for i, j := range a.Block {
		b[i] = x[j]
	}
	for k, j := range a.Leaf {
		a.stop().Row(k)
		e := (x[j] - dense.Dot(a.H.Row(k), b)) / a.Q[k]
		dst[j] = e
		dense.Axpy(-e, a.H.Row(k), sum)
	}
	dense.SolveLowerVec(a.L, b)
	dense.SolveLowerTVec(a.L, b)
	for i, j := range a.Block {
		dst[j] = b[i] + sum[i]
	}
}

// cov sets dst to Σ.
func (a *Arrow) cov(dst *dense.Matrix) {
	p, d := dst.Rows, len(a.Block)
	g := dense.NewUnder(a.stop(), p, d)
	for i, j := range a.Block {
		copy(g.Row(j), a.L.Row(i))
	}
	if d > 0 && len(a.Leaf) > 0 {
		hl := dense.NewUnder(a.stop(), len(a.Leaf), d)
		dense.Mul(hl, a.H, a.L)
		for k, j := range a.Leaf {
			copy(g.Row(j), hl.Row(k))
		}
	}
	dense.MulTB(dst, g, g)
	for k, j := range a.Leaf {
		dst.Row(j)[j] += a.Q[k]
	}
}

// logDet is log |Σ|.
func (a *Arrow) logDet() float64 {
	s := dense.LogDet(a.L)
	for _, q := range a.Q {
		s += math.Log(q)
	}
	return s
}

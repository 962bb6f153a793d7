package laplace

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
)

// Elimination. No row has two levels of one column, so that the levels of a column are a
// diagonal block of Λ0 + XᵀWX: leaves, w_k with the entries x_ik, tied to the other weights
// b, the block, with the entries x_ib:
//
//	D_k = Σ_i w_i x_ik²,  C_k = Σ_i w_i x_ik x_ib,  q_k = 1/(1/v_k + D_k)
//	S = Λ_b + Σ_i w_i x_ib x_ibᵀ - Σ_k q_k C_k C_kᵀ        (Schur's complement)
//	log |Λ0 + H| = Σ log (1/q_k) + log |S|,  P = S⁻¹,  h_k = -q_k C_k
//
// P is the covariance of the block and h_k the regression of a leaf on it: the posterior
// is an arrowhead. C_k has entries where a row has the leaf and the other weight together.

// split says which columns are leaves.
type split struct {
	block, leaf []int
	at          []int32 // by column: its place in block, or ^ its place in leaf
}

// leaves finds the column with the most levels whose levels are never two in a row and are
// not standardised; nil without one.
func leaves(p *kernels.Problem) *split {
	group, names := p.LevelGroups()
	if len(names) == 0 {
		return nil
	}
	count, last := make([]int, len(names)), make([]int, len(names))
	bad := make([]bool, len(names))
	for _, g := range group {
		if g >= 0 {
			count[g]++
		}
	}
	for i := range p.N {
		p.Stop.Row(i)
		col, val := p.Entries(i)
		for k, j := range col {
			if g := group[j]; g >= 0 && val[k] != 0 {
				bad[g] = bad[g] || last[g] == i+1 || p.Options.Standardize && val[k] != 1
				last[g] = i + 1
			}
		}
	}
	best := -1
	for g, n := range count {
		if !bad[g] && n > 1 && (best < 0 || n > count[best]) {
			best = g
		}
	}
	if best < 0 {
		return nil
	}
	s := &split{at: make([]int32, p.P)}
	for j, g := range group {
		if g == best {
			s.at[j] = ^int32(len(s.leaf))
			s.leaf = append(s.leaf, j)
		} else {
			s.at[j] = int32(len(s.block))
			s.block = append(s.block, j)
		}
	}
	return s
}

// arrow is Λ0 + XᵀWX with the leaves eliminated.
type arrow struct {
	*kernels.Problem
	*split
	xb   design.Columns // the rows' entries in the block
	leaf []int32        // leaf of each row, -1 for none
	x    []float64      // its entry
	tie  design.Columns // C, a row for each leaf
	slot []uint32       // where the product of a row's leaf and block entry is in tie.Val
	h    *dense.Matrix  // Σ w x_b x_bᵀ
	d    []float64      // D by leaf
	w    []float64      // the curvatures of h, d and tie; empty before the first

	root *gauss.Root // of the block's prior
	v    []float64   // prior variances of the leaves
	q    []float64
	s    *dense.Matrix // S less Λ_b
	b    *dense.Matrix // the factor of I + TᵀST, in reverse order
	u    []float64     // room for the block
}

// newArrow lays out the products. Cost: O(nnz log nnz).
func newArrow(p *kernels.Problem, s *split) *arrow {
	n, d := p.N, len(s.block)
	a := &arrow{Problem: p, split: s, leaf: make([]int32, n), x: make([]float64, n)}
	a.xb = design.Columns{N: n, P: d, Row: make([]int, 1, n+1), Stop: p.Stop}
	size := max(len(p.Val)-n, 0)
	a.xb.Col, a.xb.Val = make([]uint32, 0, size), make([]float64, 0, size)
	rows := make([]int, len(s.leaf)+1)
	for i := range n {
		p.Stop.Row(i)
		a.leaf[i] = -1
		col, val := p.Entries(i)
		for k, j := range col {
			at := s.at[j]
			switch {
			case at >= 0:
				a.xb.Col, a.xb.Val = append(a.xb.Col, uint32(at)), append(a.xb.Val, val[k])
			case val[k] != 0:
				a.leaf[i], a.x[i] = ^at, val[k]
			}
		}
		a.xb.Row = append(a.xb.Row, len(a.xb.Col))
		if k := a.leaf[i]; k >= 0 {
			rows[k+1]++
		}
	}
	for k := range s.leaf {
		rows[k+1] += rows[k]
	}
	of := make([]int32, rows[len(s.leaf)]) // the rows of each leaf
	next := slices.Clone(rows)
	for i, k := range a.leaf {
		if k >= 0 {
			of[next[k]] = int32(i)
			next[k]++
		}
	}
	a.tie = design.Columns{N: len(s.leaf), P: d, Row: make([]int, 1, len(s.leaf)+1), Stop: p.Stop}
	a.slot = make([]uint32, len(a.xb.Col))
	place := make([]int, d) // of a block weight in the leaf's row, + 1
	for k := range s.leaf {
		p.Stop.Row(k)
		first := len(a.tie.Col)
		for _, i := range of[rows[k]:rows[k+1]] {
			for _, j := range a.xb.Col[a.xb.Row[i]:a.xb.Row[i+1]] {
				if place[j] <= first {
					place[j] = 1 + len(a.tie.Col)
					a.tie.Col = append(a.tie.Col, j)
				}
			}
		}
		slices.Sort(a.tie.Col[first:])
		for e, j := range a.tie.Col[first:] {
			place[j] = first + e + 1
		}
		for _, i := range of[rows[k]:rows[k+1]] {
			for e := a.xb.Row[i]; e < a.xb.Row[i+1]; e++ {
				a.slot[e] = uint32(place[a.xb.Col[e]] - 1)
			}
		}
		a.tie.Row = append(a.tie.Row, len(a.tie.Col))
	}
	a.tie.Val = make([]float64, len(a.tie.Col))
	a.xb.Fill()
	a.h, a.s, a.b = p.Matrix(d, d), p.Matrix(d, d), p.Matrix(d, d)
	a.d, a.q, a.v = make([]float64, len(s.leaf)), make([]float64, len(s.leaf)), make([]float64, len(s.leaf))
	a.u = make([]float64, d)
	return a
}

// factor is that of Λ0 + Xᵀ diag(curv) X under the diagonal prior of t: with the signs of
// curv if it is positive definite, else with negative ones as 0.
func (a *arrow) factor(t *gauss.Root, curv []float64) (floored bool, err error) {
	scale := make([]float64, len(a.block))
	for i, j := range a.block {
		scale[i] = t.Scale[j]
	}
	for k, j := range a.split.leaf {
		a.v[k] = t.Of.Var[j]
	}
	a.root = gauss.Scaled(scale)
	negative := slices.ContainsFunc(curv, func(c float64) bool { return c < 0 })
	a.set(curv)
	if negative {
		if a.complement() && dense.Cholesky(a.b) == nil {
			return false, nil
		}
		a.set(floorOf(curv))
	}
	a.complement()
	return negative, mode.Factor(a.b)
}

func floorOf(curv []float64) []float64 {
	c := make([]float64, len(curv))
	for i, v := range curv {
		c[i] = max(v, 0)
	}
	return c
}

// set makes h, d and tie for W = diag(w). Where w is a multiple of the last one, so are they.
func (a *arrow) set(w []float64) {
	if f, ok := multiple(w, a.w); ok {
		if f != 1 {
			for i := range a.h.Rows {
				row := a.h.Row(i)
				for j := range row {
					row[j] *= f
				}
			}
			for k := range a.d {
				a.d[k] *= f
			}
			for k := range a.tie.Val {
				a.tie.Val[k] *= f
			}
		}
		a.w = append(a.w[:0], w...)
		return
	}
	a.w = append(a.w[:0], w...)
	if len(a.block) > 0 {
		a.xb.Gram(a.h, w)
	}
	clear(a.d)
	clear(a.tie.Val)
	for i, k := range a.leaf {
		a.Stop.Row(i)
		if k < 0 || w[i] == 0 {
			continue
		}
		wx := w[i] * a.x[i]
		a.d[k] += wx * a.x[i]
		lo, hi := a.xb.Row[i], a.xb.Row[i+1]
		val := a.xb.Val[lo:hi]
		for e, s := range a.slot[lo:hi] {
			a.tie.Val[s] += wx * val[e]
		}
	}
}

// complement makes q and the whitened S, false where a leaf has no precision.
func (a *arrow) complement() bool {
	fine := true
	for k, d := range a.d {
		r := 1 + a.v[k]*d
		fine = fine && r > 0
		a.q[k] = a.v[k] / r
	}
	if len(a.block) == 0 {
		return fine
	}
	a.tie.Gram(a.s, a.q)
	for i := range a.s.Rows {
		a.Stop.Check()
		row, h := a.s.Row(i), a.h.Row(i)
		for j := range row {
			row[j] = h[j] - row[j]
		}
	}
	mode.Whiten(a.b, a.s, a.root)
	return fine
}

// logDet is log |I + Σ0 H|.
func (a *arrow) logDet() float64 {
	sum := dense.LogDet(a.b)
	for k, d := range a.d {
		sum += math.Log1p(a.v[k] * d)
	}
	return sum
}

// solve sets dst = (Λ0 + H)⁻¹ g.
func (a *arrow) solve(dst, g []float64) {
	for i, j := range a.block {
		a.u[i] = g[j]
	}
	for k, j := range a.split.leaf {
		a.Stop.Row(k)
		f := a.q[k] * g[j]
		col, c := a.tie.Entries(k)
		for e, b := range col {
			a.u[b] -= c[e] * f
		}
	}
	a.root.MulT(a.u, a.u)
	mode.ReverseVec(a.u, a.u)
	dense.SolveLowerVec(a.b, a.u)
	dense.SolveLowerTVec(a.b, a.u)
	mode.ReverseVec(a.u, a.u)
	a.root.Mul(a.u, a.u)
	for i, j := range a.block {
		dst[j] = a.u[i]
	}
	for k, j := range a.split.leaf {
		a.Stop.Row(k)
		col, c := a.tie.Entries(k)
		s := g[j]
		for e, b := range col {
			s -= c[e] * a.u[b]
		}
		dst[j] = a.q[k] * s
	}
}

// covariance is P, and by leaf (P h_k) at the entries of tie and the variance.
func (a *arrow) covariance() (root, p *dense.Matrix, ph, variance []float64) {
	d := len(a.block)
	root = mode.PosteriorRoot(a.root, a.b)
	p = a.Matrix(d, d)
	dense.MulTB(p, root, root)
	ph, variance = make([]float64, len(a.tie.Val)), make([]float64, len(a.d))
	a.Parallel(len(a.d), len(a.tie.Val)*8, func(lo, hi int) {
		for k := lo; k < hi; k++ {
			a.Stop.Check()
			col, c := a.tie.Entries(k)
			first := a.tie.Row[k]
			variance[k] = a.q[k]
			for e, b := range col {
				s, row := 0.0, p.Row(int(b))
				for f, o := range col {
					s += row[o] * c[f]
				}
				ph[first+e] = -a.q[k] * s
				variance[k] += a.q[k] * a.q[k] * c[e] * s
			}
		}
	})
	return root, p, ph, variance
}

// arrowAt is the Gaussian with the exact Hessian, by elimination.
func (e *engine) arrowAt(w, curv []float64) (*belief, error) {
	a := e.search.arrow
	bl := &belief{}
	if e.assembled {
		bl.floored = e.search.floored
	} else {
		var err error
		if bl.floored, err = a.factor(e.root, curv); err != nil {
			return nil, err
		}
	}
	bl.logDet = a.logDet()
	root, p, ph, variance := a.covariance()
	bl.mean, bl.variance = w, make([]float64, len(w))
	for i, j := range a.block {
		bl.variance[j] = p.Row(i)[i]
	}
	for k, j := range a.split.leaf {
		bl.variance[j] = variance[k]
	}
	bl.mulCov = a.solve
	bl.rows = func(dst []float64) { a.spread(dst, p, ph, variance) }
	bl.build = func() (*gauss.Normal, error) { return a.normal(w, root), nil }
	return bl, nil
}

// spread sets dst to the variances of the predictors.
func (a *arrow) spread(dst []float64, p *dense.Matrix, ph, variance []float64) {
	part := func(lo, hi int) {
		for i := lo; i < hi; i++ {
			a.Stop.Row(i)
			first := a.xb.Row[i]
			col, val := a.xb.Entries(i)
			s := 0.0
			for e, j := range col {
				row, t := p.Row(int(j)), 0.0
				for f, o := range col[:e] {
					t += row[o] * val[f]
				}
				s += val[e] * (2*t + row[j]*val[e])
			}
			if k := a.leaf[i]; k >= 0 {
				t := 0.0
				for e, x := range val {
					t += x * ph[a.slot[first+e]]
				}
				s += a.x[i] * (2*t + a.x[i]*variance[k])
			}
			dst[i] = s
		}
	}
	a.Parallel(a.N, len(a.xb.Val)*4+a.N, part)
}

// normal is the posterior with mean w, root that of the block.
func (a *arrow) normal(w []float64, root *dense.Matrix) *gauss.Normal {
	h := a.Matrix(len(a.d), len(a.block))
	for k := range a.d {
		a.Stop.Row(k)
		row := h.Row(k)
		col, c := a.tie.Entries(k)
		for e, b := range col {
			row[b] = -a.q[k] * c[e]
		}
	}
	return gauss.NewArrowhead(w, &gauss.Arrow{Block: a.block, Leaf: a.split.leaf, L: root, H: h, Q: slices.Clone(a.q)})
}

package laplace

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/memory"
)

// Elimination. No row has two levels of the same column, so the levels of a column form a
// diagonal block of Λ0 + XᵀWX. They are the leaves: w_k with entries x_ik, tied to the other
// weights b (the block) with entries x_ib:
//
//	D_k = Σ_i w_i x_ik²,  C_k = Σ_i w_i x_ik x_ib,  q_k = 1/(1/v_k + D_k)
//	S = Λ_b + Σ_i w_i x_ib x_ibᵀ - Σ_k q_k C_k C_kᵀ        (Schur complement)
//	log |Λ0 + H| = Σ log (1/q_k) + log |S|,  P = S⁻¹,  h_k = -q_k C_k
//
// P is the covariance of the block and h_k the regression of a leaf on it, so the posterior is
// an arrowhead. C_k is non-zero only for block weights that occur in a row together with the leaf.
//
// If several columns of levels are correlated, a leaf is the set of weights that they have for
// one level. Then v_k and q_k are matrices, and with q_k = R_k R_kᵀ the rows E_k = R_kᵀ C_k
// enter S. In the coordinates R_k⁻¹ w_k the weights are again independent given the block.

// split divides the columns into leaves, wide of them per level, and the block.
type split struct {
	block, leaf []int
	at          []int32 // by column: its place in block, or ^ its place in leaf
	wide        int
}

// leaves finds the column with the most levels that has at most one level per row and is not
// standardised, together with the columns tied to it. It returns nil if there is none.
func leaves(p *kernels.Problem, ties []kernels.Tie) *split {
	group, names := p.LevelGroups()
	if len(names) == 0 {
		return nil
	}
	level := make([]int, p.P) // by column: a number that identifies its level
	order := make([][]int, len(names))
	wide := make([]int, len(names))
	for j, g := range group {
		level[j] = j
		if g >= 0 {
			order[g], wide[g] = append(order[g], j), 1
		}
	}
	for _, t := range ties {
		g := group[t.Levels[0][0]]
		order[g], wide[g] = nil, len(t.Names)
		for _, of := range t.Levels {
			for _, j := range of {
				if group[j] != g {
					order[group[j]] = nil
				}
				group[j], level[j] = g, of[0]
			}
			order[g] = append(order[g], of...)
		}
	}
	last, at, bad := make([]int, len(names)), make([]int, len(names)), make([]bool, len(names))
	for i := range p.N {
		p.Stop.Row(i)
		col, val := p.Entries(i)
		for k, j := range col {
			if g := group[j]; g >= 0 && val[k] != 0 {
				bad[g] = bad[g] || last[g] == i+1 && at[g] != level[j] || p.Options.Standardize && p.IsNumber(int(j))
				last[g], at[g] = i+1, level[j]
			}
		}
	}
	best := -1
	for g, of := range order {
		if !bad[g] && len(of) > wide[g] && (best < 0 || len(of) > len(order[best])) {
			best = g
		}
	}
	if best < 0 {
		return nil
	}
	s := &split{at: make([]int32, p.P), leaf: order[best], wide: wide[best]}
	for k, j := range s.leaf {
		s.at[j] = ^int32(k)
	}
	for j, g := range group {
		if g != best {
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
	row   []int32        // the rows in leaf order, those without a leaf last; nil if they already are
	start []int          // first row of each leaf, and at the end that of the rows without a leaf
	xb    design.Columns // block entries of the rows, in that order
	x     []float64      // and their leaf entries
	tie   design.Columns // C, wide rows per leaf
	slot  []uint32       // where in tie.Val a row's leaf entry times block entry is added, relative to the leaf's first row
	h     *dense.Matrix  // Σ w x_b x_bᵀ
	d     []float64      // D by leaf, row by row
	w     []float64      // the curvatures of h, d and tie; empty before the first call of set
	by    []float64      // scratch: a vector of the rows in leaf order

	root  *gauss.Root // of the block's prior
	noise float64     // the noise variance that sums.go used for the last factor
	v     []float64   // prior variances of the leaves
	r     []float64   // R by leaf, upper triangular
	det   float64     // log |I + v D| of all leaves
	e     design.Columns
	ones  []float64
	s     *dense.Matrix // S less Λ_b
	b     *dense.Matrix // the factor of I + TᵀST, in reverse order
	u     []float64     // room for the block
	f     []float64     // and for the leaves
	part  []float64     // of each leaf
}

// newArrow lays out the products. Cost: O(nnz log nnz).
func newArrow(p *kernels.Problem, s *split) *arrow {
	n, d, q := p.N, len(s.block), s.wide
	a := &arrow{Problem: p, split: s, x: memory.Floats(n * q)}
	all := len(s.leaf) / q
	a.order(all)
	a.xb = design.Columns{N: n, P: d, Row: memory.Make[int](1, n+1), Stop: p.Stop}
	a.xb.Col = memory.Make[uint32](0, max(len(p.Val)-n*q, 0))
	for r := range n {
		p.Stop.Row(r)
		col, _ := p.Entries(a.place(r))
		for _, j := range col {
			if at := s.at[j]; at >= 0 {
				a.xb.Col = append(a.xb.Col, uint32(at))
			}
		}
		a.xb.Row = append(a.xb.Row, len(a.xb.Col))
	}
	a.tie = design.Columns{N: len(s.leaf), P: d, Row: memory.Make[int](1, len(s.leaf)+1), Stop: p.Stop}
	a.slot = memory.Make[uint32](len(a.xb.Col), len(a.xb.Col))
	place := make([]int, d) // by block weight: its place in the leaf's row, plus 1
	for k := range all {
		p.Stop.Row(k)
		first := len(a.tie.Col)
		lo, hi := a.xb.Row[a.start[k]], a.xb.Row[a.start[k+1]]
		for _, j := range a.xb.Col[lo:hi] {
			if place[j] <= first {
				place[j] = 1 + len(a.tie.Col)
				a.tie.Col = append(a.tie.Col, j)
			}
		}
		pattern := a.tie.Col[first:]
		slices.Sort(pattern)
		for e, j := range pattern {
			place[j] = first + e + 1
		}
		for e := lo; e < hi; e++ {
			a.slot[e] = uint32(place[a.xb.Col[e]] - 1)
		}
		for range q - 1 {
			a.tie.Row = append(a.tie.Row, len(a.tie.Col))
			a.tie.Col = append(a.tie.Col, pattern...)
		}
		a.tie.Row = append(a.tie.Row, len(a.tie.Col))
	}
	a.tie.Val = memory.Floats(len(a.tie.Col))
	a.xb.Val = memory.Floats(len(a.xb.Col))
	a.load()
	a.xb.Fill()
	a.h, a.s, a.b = p.Matrix(d, d), p.Matrix(d, d), p.Matrix(d, d)
	a.d, a.r, a.v = memory.Floats(all*q*q), memory.Floats(all*q*q), memory.Floats(len(s.leaf))
	a.e, a.ones = a.tie, memory.Floats(len(s.leaf))
	a.e.Val = memory.Floats(len(a.tie.Col))
	for k := range a.ones {
		a.ones[k] = 1
	}
	a.u, a.part = make([]float64, d), memory.Floats(len(a.tie.Col))
	return a
}

// order sorts the rows by leaf; all is the number of leaves.
func (a *arrow) order(all int) {
	leaf := memory.Make[int32](a.N, a.N)
	a.start = memory.Make[int](all+2, all+2)
	sorted, q := true, int32(a.wide)
	for i := range leaf {
		a.Stop.Row(i)
		leaf[i] = int32(all)
		col, val := a.Entries(i)
		for k, j := range col {
			if at := a.at[j]; at < 0 && (val[k] != 0 || q > 1) {
				leaf[i] = ^at / q
			}
		}
		a.start[leaf[i]+1]++
		sorted = sorted && (i == 0 || leaf[i-1] <= leaf[i])
	}
	for k := range all + 1 {
		a.start[k+1] += a.start[k]
	}
	a.start = a.start[:all+1]
	if sorted {
		return
	}
	a.row = memory.Make[int32](a.N, a.N)
	next := slices.Clone(a.start)
	for i, k := range leaf {
		a.row[next[k]] = int32(i)
		next[k]++
	}
	a.by = memory.Floats(a.N)
}

// place returns the index of the r-th row in leaf order.
func (a *arrow) place(r int) int {
	if a.row == nil {
		return r
	}
	return int(a.row[r])
}

// byLeaf returns v, a vector of all rows, in leaf order.
func (a *arrow) byLeaf(v []float64) []float64 {
	if a.row == nil {
		return v
	}
	for r, i := range a.row {
		a.by[r] = v[i]
	}
	return a.by
}

// leaves calls f in parallel on ranges of leaves.
func (a *arrow) leaves(f func(lo, hi int)) { a.Parallel(len(a.start)-1, len(a.Val), f) }

// load reads the entries of the rows.
func (a *arrow) load() {
	e, q, k := 0, int32(a.wide), int32(0)
	for r := range a.N {
		a.Stop.Row(r)
		for int(k) < len(a.start)-1 && r >= a.start[k+1] {
			k++
		}
		col, val := a.Entries(a.place(r))
		for c, j := range col {
			switch at := a.at[j]; {
			case at >= 0:
				a.xb.Val[e] = val[c]
				e++
			case ^at/q == k:
				a.x[int32(r)*q+^at%q] = val[c]
			}
		}
	}
	a.xb.Refill()
	a.w = a.w[:0]
}

// setPrior sets the prior.
func (a *arrow) setPrior(t *gauss.Root) {
	scale := make([]float64, len(a.block))
	for i, j := range a.block {
		scale[i] = t.Scale[j]
	}
	for k, j := range a.split.leaf {
		a.v[k] = t.Of.Var[j]
	}
	a.root = gauss.Scaled(scale)
}

// factor factors Λ0 + Xᵀ diag(curv) X under the diagonal prior of t. Negative curvatures keep
// their sign if the matrix is positive definite, otherwise they count as 0.
func (a *arrow) factor(t *gauss.Root, curv []float64) (floored bool, err error) {
	a.setPrior(t)
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

// arrowFactor factors by elimination at curvatures curv, or from the sums that replace the rows.
func (s *search) arrowFactor(curv []float64) (floored bool, err error) {
	a := s.arrow
	if s.sums == nil {
		return a.factor(s.root, curv)
	}
	a.setPrior(s.root)
	a.noise = s.sums.noise
	a.complement()
	return false, mode.Factor(a.b)
}

func floorOf(curv []float64) []float64 {
	c := memory.Floats(len(curv))
	for i, v := range curv {
		c[i] = max(v, 0)
	}
	return c
}

// set computes h, d and tie for W = diag(w), by scaling if w is a multiple of the last one.
func (a *arrow) set(w []float64) {
	if f, ok := multiple(w, a.w); ok {
		if f != 1 {
			a.scale(f)
		}
		a.w = append(a.w[:0], w...)
		return
	}
	a.w = append(a.w[:0], w...)
	w = a.byLeaf(w)
	if len(a.block) > 0 {
		a.xb.Gram(a.h, w)
	}
	q := a.wide
	a.leaves(func(lo, hi int) {
		clear(a.d[lo*q*q : hi*q*q])
		clear(a.tie.Val[a.tie.Row[lo*q]:a.tie.Row[hi*q]])
		for k := lo; k < hi; k++ {
			a.Stop.Row(k)
			d := a.d[k*q*q : (k+1)*q*q]
			length := a.tie.Row[k*q+1] - a.tie.Row[k*q]
			for r := a.start[k]; r < a.start[k+1]; r++ {
				x := a.x[r*q : (r+1)*q]
				first, end := a.xb.Row[r], a.xb.Row[r+1]
				val := a.xb.Val[first:end]
				for i, v := range x {
					wx := w[r] * v
					for c, o := range x {
						d[i*q+c] += wx * o
					}
					to := a.tie.Val[i*length:]
					for e, s := range a.slot[first:end] {
						to[s] += wx * val[e]
					}
				}
			}
		}
	})
}

// mulT sets dst = Xᵀ v, v by row.
func (a *arrow) mulT(dst, v []float64) {
	v = a.byLeaf(v)
	q, all := a.wide, len(a.start)-1
	narrow := len(a.xb.Col) <= fewBlock*a.N // beyond this a vectorised product is faster
	if !narrow {
		a.xb.MulT(a.u, v)
	}
	a.leaves(func(lo, hi int) {
		if narrow {
			clear(a.part[a.tie.Row[lo*q]:a.tie.Row[hi*q]])
		}
		for k := lo; k < hi; k++ {
			a.Stop.Row(k)
			first, end := a.start[k], a.start[k+1]
			for c, j := range a.split.leaf[k*q : (k+1)*q] {
				s := 0.0
				for r := first; r < end; r++ {
					s += a.x[r*q+c] * v[r]
				}
				dst[j] = s
			}
			if narrow {
				e := a.xb.Row[first]
				for r := first; r < end; r++ {
					for ; e < a.xb.Row[r+1]; e++ {
						a.part[a.slot[e]] += a.xb.Val[e] * v[r]
					}
				}
			}
		}
	})
	if narrow {
		clear(a.u)
		for k := range all {
			lo, hi := a.tie.Row[k*q], a.tie.Row[k*q+1]
			for e, j := range a.tie.Col[lo:hi] {
				a.u[j] += a.part[lo+e]
			}
		}
		for r := a.start[all]; r < a.N; r++ {
			col, val := a.xb.Entries(r)
			for e, j := range col {
				a.u[j] += val[e] * v[r]
			}
		}
	}
	for i, j := range a.block {
		dst[j] = a.u[i]
	}
}

// fewBlock is the mean number of block entries per row up to which mulT adds them leaf by leaf.
const fewBlock = 16

// roots computes R of leaf k, R Rᵀ = (v⁻¹ + D)⁻¹, and returns log |I + v D|. It returns false if
// the precision of the leaf is not positive.
func (a *arrow) roots(k int, b *dense.Matrix) (logDet float64, ok bool) {
	q := a.wide
	d, r, v := a.d[k*q*q:(k+1)*q*q], a.r[k*q*q:(k+1)*q*q], a.v[k*q:(k+1)*q]
	if q == 1 {
		s := 1 + v[0]*d[0]
		r[0] = math.Sqrt(v[0] / s)
		return math.Log1p(v[0] * d[0]), s > 0
	}
	for i := range q {
		for j := range i + 1 {
			b.Row(i)[j] = math.Sqrt(v[i]) * d[i*q+j] * math.Sqrt(v[j])
		}
		b.Row(i)[i]++
	}
	if dense.Cholesky(b) != nil {
		return 0, false
	}
	// R = v^½ L⁻ᵀ, one column of L⁻¹ at a time
	for c := range q {
		for i := c; i < q; i++ {
			s := 0.0
			if i == c {
				s = 1
			}
			for j := c; j < i; j++ {
				s -= b.Row(i)[j] * r[c*q+j]
			}
			r[c*q+i] = s / b.Row(i)[i]
		}
		for i := range c {
			r[c*q+i] = 0
		}
	}
	for i := range q {
		for j := i; j < q; j++ {
			r[i*q+j] *= math.Sqrt(v[i])
		}
	}
	return dense.LogDet(b), true
}

// complement computes R, E and the whitened S. It returns false if roots does for a leaf.
func (a *arrow) complement() bool {
	q := a.wide
	a.det = 0
	b := dense.New(q, q)
	for k := range len(a.v) / q {
		a.Stop.Row(k)
		logDet, ok := a.roots(k, b)
		if !ok {
			return false
		}
		a.det += logDet
		length := a.tie.Row[k*q+1] - a.tie.Row[k*q]
		from, to := a.tie.Val[a.tie.Row[k*q]:], a.e.Val[a.tie.Row[k*q]:]
		r := a.r[k*q*q:]
		if q == 1 {
			for e := range length {
				to[e] = r[0] * from[e]
			}
			continue
		}
		for c := range q { // Rᵀ C
			row := to[c*length : (c+1)*length]
			clear(row)
			for i := range c + 1 {
				dense.Axpy(r[i*q+c], from[i*length:(i+1)*length], row)
			}
		}
	}
	if len(a.block) == 0 {
		return true
	}
	a.e.Gram(a.s, a.ones)
	for i := range a.s.Rows {
		a.Stop.Check()
		row, h := a.s.Row(i), a.h.Row(i)
		for j := range row {
			row[j] = h[j] - row[j]
		}
	}
	mode.Whiten(a.b, a.s, a.root)
	return true
}

// logDet returns log |I + Σ0 H|.
func (a *arrow) logDet() float64 { return dense.LogDet(a.b) + a.det }

// mulR sets dst = R u for leaf k, dst by column; mulRT sets dst = Rᵀ g, g by column.
func (a *arrow) mulR(k int, dst, u []float64) {
	q := a.wide
	for i, j := range a.split.leaf[k*q : (k+1)*q] {
		dst[j] = dense.Dot(a.r[(k*q+i)*q+i:(k*q+i+1)*q], u[i:])
	}
}

func (a *arrow) mulRT(k int, dst, g []float64) {
	q := a.wide
	clear(dst)
	for i, j := range a.split.leaf[k*q : (k+1)*q] {
		dense.Axpy(g[j], a.r[(k*q+i)*q:(k*q+i+1)*q], dst)
	}
}

// solve sets dst = (Λ0 + H)⁻¹ g.
func (a *arrow) solve(dst, g []float64) {
	for i, j := range a.block {
		a.u[i] = g[j]
	}
	q := a.wide
	all := len(a.v) / q
	if a.f == nil {
		a.f = memory.Floats(len(a.v))
	}
	f := a.f
	if q == 1 {
		a.solveSingle(dst, g, f)
		return
	}
	for k := range all {
		a.Stop.Row(k)
		f := f[k*q : (k+1)*q]
		a.mulRT(k, f, g)
		for r, x := range f {
			col, c := a.e.Entries(k*q + r)
			for e, b := range col {
				a.u[b] -= c[e] * x
			}
		}
	}
	a.solveBlock(dst)
	for k := range all {
		a.Stop.Row(k)
		f := f[k*q : (k+1)*q]
		for r := range f {
			col, c := a.e.Entries(k*q + r)
			for e, b := range col {
				f[r] -= c[e] * a.u[b]
			}
		}
		a.mulR(k, dst, f)
	}
}

// solveBlock sets u = S⁻¹ u and copies it to the block's part of dst.
func (a *arrow) solveBlock(dst []float64) {
	a.root.MulT(a.u, a.u)
	mode.ReverseVec(a.u, a.u)
	dense.SolveLowerVec(a.b, a.u)
	dense.SolveLowerTVec(a.b, a.u)
	mode.ReverseVec(a.u, a.u)
	a.root.Mul(a.u, a.u)
	for i, j := range a.block {
		dst[j] = a.u[i]
	}
}

// solveSingle is solve for leaves of a single weight.
func (a *arrow) solveSingle(dst, g, f []float64) {
	for k, j := range a.split.leaf {
		a.Stop.Row(k)
		x := a.r[k] * g[j]
		f[k] = x
		lo, hi := a.e.Row[k], a.e.Row[k+1]
		val := a.e.Val[lo:hi]
		for e, b := range a.e.Col[lo:hi] {
			a.u[b] -= val[e] * x
		}
	}
	a.solveBlock(dst)
	for k, j := range a.split.leaf {
		a.Stop.Row(k)
		x := f[k]
		lo, hi := a.e.Row[k], a.e.Row[k+1]
		val := a.e.Val[lo:hi]
		for e, b := range a.e.Col[lo:hi] {
			x -= val[e] * a.u[b]
		}
		dst[j] = a.r[k] * x
	}
}

// covariance returns P and its root, and for each leaf its covariance with the block, at the
// entries of tie, and its own covariance, q x q.
func (a *arrow) covariance() (root, p *dense.Matrix, ph, own []float64) {
	d, q := len(a.block), a.wide
	root = mode.PosteriorRoot(a.root, a.b)
	p = a.Matrix(d, d)
	dense.MulTB(p, root, root)
	ph, own = memory.Floats(len(a.tie.Val)), memory.Floats(len(a.r))
	a.Parallel(len(a.v)/q, len(a.tie.Val)*8, func(lo, hi int) {
		turned := make([]float64, q*q) // covariance in the leaf's coordinates
		for k := lo; k < hi; k++ {
			a.Stop.Check()
			first, length := a.tie.Row[k*q], a.tie.Row[k*q+1]-a.tie.Row[k*q]
			col := a.tie.Col[first : first+length]
			pe := make([]float64, q*length)
			for r := range q {
				c := a.e.Val[first+r*length:][:length]
				for e, b := range col {
					row := p.Row(int(b))
					s := 0.0
					for f, o := range col {
						s += row[o] * c[f]
					}
					pe[r*length+e] = s
				}
				for o := range r + 1 {
					v := dense.Dot(a.e.Val[first+o*length:][:length], pe[r*length:(r+1)*length])
					if o == r {
						v++
					}
					turned[r*q+o], turned[o*q+r] = v, v
				}
			}
			r, to := a.r[k*q*q:(k+1)*q*q], own[k*q*q:(k+1)*q*q]
			for i := range q {
				for c := i; c < q; c++ {
					dense.Axpy(-r[i*q+c], pe[c*length:(c+1)*length], ph[first+i*length:][:length])
				}
			}
			sandwich(to, r, turned, q)
		}
	})
	return root, p, ph, own
}

// sandwich sets dst = r m rᵀ, all q x q.
func sandwich(dst, r, m []float64, q int) {
	for i := range q {
		for j := range q {
			s := 0.0
			for a := range q {
				for b := range q {
					s += r[i*q+a] * m[a*q+b] * r[j*q+b]
				}
			}
			dst[i*q+j] = s
		}
	}
}

// arrowAt returns the Gaussian with the exact Hessian, by elimination.
func (e *engine) arrowAt(w, curv []float64) (*belief, error) {
	a := e.search.arrow
	bl := &belief{}
	if e.assembled {
		bl.floored = e.search.floored
	} else {
		var err error
		if bl.floored, err = e.search.arrowFactor(curv); err != nil {
			return nil, err
		}
	}
	bl.logDet = a.logDet()
	root, p, ph, own := a.covariance()
	q := a.wide
	bl.mean = w
	bl.vars = func() []float64 {
		v := memory.Floats(len(w))
		for i, j := range a.block {
			v[j] = p.Row(i)[i]
		}
		for k, j := range a.split.leaf {
			v[j] = own[k*q+k%q]
		}
		return v
	}
	if q > 1 && len(w) > fullWeights {
		bl.note = looseNote
	}
	bl.mulCov = a.solve
	bl.between = func(i, j int) float64 {
		if k := int(a.at[i]); k >= 0 {
			return p.Row(k)[a.at[j]]
		}
		return own[int(^a.at[i])*q+int(^a.at[j])%q]
	}
	bl.rows = func(dst []float64) { a.spread(dst, p, ph, own) }
	bl.build = func() (*gauss.Normal, error) { return e.arrowNormal(w, root, p) }
	return bl, nil
}

// spread sets dst to the variances of the predictors.
func (a *arrow) spread(dst []float64, p *dense.Matrix, ph, own []float64) {
	q := a.wide
	part := func(k, lo, hi int) { // of leaf k
		for i := lo; i < hi; i++ {
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
			if k < len(a.start)-1 {
				length := a.tie.Row[k*q+1] - a.tie.Row[k*q]
				x := a.x[i*q : (i+1)*q]
				for r, v := range x {
					t := 0.0
					for e, b := range val {
						t += b * ph[int(a.slot[first+e])+r*length]
					}
					s += v * (2*t + dense.Dot(own[(k*q+r)*q:(k*q+r+1)*q], x))
				}
			}
			dst[a.place(i)] = s
		}
	}
	a.leaves(func(lo, hi int) {
		for k := lo; k < hi; k++ {
			a.Stop.Row(k)
			part(k, a.start[k], a.start[k+1])
		}
	})
	part(len(a.start)-1, a.start[len(a.start)-1], a.N)
}

const looseNote = "of the correlated weights of a level, more than 5,000 in all, the fit keeps the variances and the covariances with other weights, but not those between them: " +
	"intervals of predictions for these levels take their weights as independent given the others; means and what was learnt are exact"

// arrowNormal returns the posterior with mean w; root and p are the block's. It is an arrowhead
// if leaves are single weights, otherwise full up to fullWeights, and beyond that an arrowhead
// without the covariances between the weights of a leaf given the block.
func (e *engine) arrowNormal(w []float64, root, p *dense.Matrix) (*gauss.Normal, error) {
	a := e.search.arrow
	q, d := a.wide, len(a.block)
	h, own := a.Matrix(len(a.v), d), memory.Floats(len(a.r))
	unit := make([]float64, q*q)
	for r := range q {
		unit[r*q+r] = 1
	}
	for k := range len(a.v) / q {
		a.Stop.Row(k)
		r := a.r[k*q*q : (k+1)*q*q]
		for c := range q {
			col, val := a.e.Entries(k*q + c)
			for i := range c + 1 {
				row := h.Row(k*q + i)
				for f, b := range col {
					row[b] -= r[i*q+c] * val[f]
				}
			}
		}
		sandwich(own[k*q*q:(k+1)*q*q], r, unit, q)
	}
	leaf := a.split.leaf
	if q > 1 && len(w) <= fullWeights {
		g, err := a.full(w, p, h, own)
		if err != nil {
			return nil, err
		}
		return e.tied.weights(g), nil
	}
	if q > 1 {
		w = e.tied.of[slices.IndexFunc(e.tied.of, func(s *tie) bool { return s.Levels[0][0] == leaf[0] })].leaves(w, h, own)
	}
	diag := memory.Floats(len(leaf))
	for k := range diag {
		diag[k] = own[k*q+k%q]
	}
	g := gauss.NewArrowhead(w, &gauss.Arrow{Block: a.block, Leaf: leaf, L: root, H: h, Q: diag})
	if e.tied == nil {
		return g, nil
	}
	return e.tied.weights(g), nil
}

// full returns the posterior with mean w and all covariances: p is the block's, h the regression
// of the leaves on it, own their covariances given it.
func (a *arrow) full(w []float64, p, h *dense.Matrix, own []float64) (*gauss.Normal, error) {
	q := a.wide
	cov, hp := a.Matrix(len(w), len(w)), a.Matrix(h.Rows, h.Cols)
	leaves := a.Matrix(h.Rows, h.Rows)
	if len(a.block) > 0 {
		dense.Mul(hp, h, p)
		dense.MulTB(leaves, hp, h)
	}
	for i, j := range a.block {
		for k, o := range a.block {
			cov.Row(j)[o] = p.Row(i)[k]
		}
	}
	for k, j := range a.split.leaf {
		for i, b := range a.block {
			cov.Row(j)[b], cov.Row(b)[j] = hp.Row(k)[i], hp.Row(k)[i]
		}
		for m, o := range a.split.leaf {
			cov.Row(j)[o] = leaves.Row(k)[m]
		}
		for r, o := range a.split.leaf[k/q*q : k/q*q+q] {
			cov.Row(j)[o] += own[k*q+r]
		}
	}
	if err := dense.Cholesky(cov); err != nil {
		return nil, err
	}
	return gauss.NewFull(w, cov), nil
}

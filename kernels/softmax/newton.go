package softmax

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// A space is the form in which Newton's equations are solved.
type space int

const (
	weightSpace space = iota // Ap x Ap
	rowSpace                 // A Cholesky factors of n x n and one of their sum
	krylov                   // conjugate gradients
)

// search finds the mode for A learnt classes. Vectors of weights are class by class, of length A p;
// matrices over rows are n x A. In rowSpace the unknowns are a, n x A, with z = TᵀXᵀa.
type search struct {
	*kernels.Problem
	mode.Newton
	classes *kernels.Classes
	n, a, p int
	label   []int // learnt class of a row, -1 = the pinned one
	root    *gauss.Root
	space   space

	base      *dense.Matrix // X μ0 + offset
	z, pz     []float64     // unknowns, and with them zᵀz = z·pz
	now, next point
	grad, dz  []float64
	dEta      *dense.Matrix
	cg        mode.Conjugate
	jacobi    []float64
	b, h      *dense.Matrix // weightSpace: factor of B, XᵀWX
	kern      []*dense.Matrix
	chol      []*dense.Matrix // rowSpace: factors of I + D½ K D½ by class
	e         []*dense.Matrix // D½ (I + D½ K D½)⁻¹ D½
	sum       *dense.Matrix   // factor of Σ E + ω π of the pinned class
	logDet    float64         // rowSpace: log |I + KW|
	wa, xa    *dense.Matrix   // p x A, n x A
	w1        []float64
	pd, dd    float64 // slope and curvature of ½ zᵀz along dz
}

// point is the likelihood at a predictor: probabilities and residuals, multiplied by the row's
// weight.
type point struct {
	eta, prob, resid *dense.Matrix
	rest             []float64 // ω times the probability of the pinned class
	logLik           float64
}

func newPoint(n, a int) point {
	return point{dense.New(n, a), dense.New(n, a), dense.New(n, a), memory.Floats(n), 0}
}

func newSearch(d *kernels.Problem, c *kernels.Classes, label []int, t *gauss.Root, sp space) *search {
	n, a, p := d.N, len(c.Learnt), d.P
	s := &search{Problem: d, classes: c, n: n, a: a, p: p, label: label, root: t, space: sp,
		Newton: mode.NewNewton(&d.Options),
		base:   dense.New(n, a), now: newPoint(n, a), next: newPoint(n, a), dEta: dense.New(n, a),
		wa: dense.New(p, a), xa: dense.New(n, a), w1: make([]float64, a*p), grad: make([]float64, a*p)}
	s.product(s.base, t.Of.Mean)
	for i := range d.Offset {
		row := s.base.Row(i)
		for k := range row {
			row[k] += d.Offset[i]
		}
	}
	dim := a * p
	if sp == rowSpace {
		dim = n * a
		for range a {
			s.kern = append(s.kern, d.Matrix(n, n))
			s.chol = append(s.chol, d.Matrix(n, n))
			s.e = append(s.e, d.Matrix(n, n))
		}
		s.sum, s.pz = d.Matrix(n, n), memory.Floats(dim)
	}
	s.z, s.dz = memory.Floats(dim), memory.Floats(dim)
	if sp != rowSpace {
		s.pz = s.z
	}
	if sp == weightSpace {
		s.b, s.h = d.Matrix(a*p, a*p), d.Matrix(a*p, a*p)
	} else {
		s.jacobi = make([]float64, a*p)
	}
	return s
}

// product sets dst = X W for weights class by class.
func (s *search) product(dst *dense.Matrix, w []float64) {
	for k := range s.a {
		for j, v := range w[k*s.p : (k+1)*s.p] {
			s.wa.Row(j)[k] = v
		}
	}
	s.MulMat(dst, s.wa)
}

// productT sets dst = Xᵀ R, class by class.
func (s *search) productT(dst []float64, r *dense.Matrix) {
	s.MulTMat(s.wa, r)
	for j := range s.p {
		for k, v := range s.wa.Row(j) {
			dst[k*s.p+j] = v
		}
	}
}

func (s *search) weight(i int) float64 {
	if s.Weight != nil {
		return s.Weight[i]
	}
	return 1
}

// evaluate computes the likelihood at pt.eta.
func (s *search) evaluate(pt *point) {
	pt.logLik = mode.Sum(s.Stop, s.n, 16*s.a, func(lo, hi int) float64 {
		sum := 0.0
		for i := lo; i < hi; i++ {
			eta, prob, resid := pt.eta.Row(i), pt.prob.Row(i), pt.resid.Row(i)
			w := s.weight(i)
			top, total, own := 0.0, 1.0, 0.0
			if s.classes.Pinned < 0 {
				top, total = eta[0], 0
			}
			for _, e := range eta {
				top = max(top, e)
			}
			if s.classes.Pinned >= 0 {
				total = math.Exp(-top)
			}
			for k, e := range eta {
				prob[k] = math.Exp(e - top)
				total += prob[k]
			}
			if l := s.label[i]; l >= 0 {
				own = eta[l]
			}
			if s.classes.Pinned >= 0 {
				pt.rest[i] = w * math.Exp(-top) / total
			}
			for k := range prob {
				prob[k] *= w / total
				resid[k] = -prob[k]
			}
			if l := s.label[i]; l >= 0 {
				resid[l] += w
			}
			if w != 0 {
				sum += w * (own - top - math.Log(total))
			}
		}
		return sum
	})
	if !special.Finite(pt.logLik) {
		pt.logLik = math.Inf(-1)
	}
}

// restart moves to weights w; in rowSpace it stays at the present a.
func (s *search) restart(w []float64) {
	if s.space == rowSpace {
		for k, m := range s.kern {
			v := s.root.Of.Var[k*s.p : (k+1)*s.p]
			if k > 0 && equal(v, s.root.Of.Var[(k-1)*s.p:k*s.p]) {
				s.kern[k] = s.kern[k-1]
				continue
			}
			if k > 0 && m == s.kern[k-1] {
				s.kern[k] = s.Matrix(s.n, s.n)
			}
			s.Kernel(s.kern[k], v)
		}
	} else if w != nil {
		for j := range w {
			s.z[j] = w[j] - s.root.Of.Mean[j]
		}
		s.root.Solve(s.z, s.z)
	}
	s.toEta(s.now.eta, s.z)
	if s.space == rowSpace {
		copy(s.pz, s.now.eta.Data)
	}
	dense.Axpy(1, s.base.Data, s.now.eta.Data)
	s.evaluate(&s.now)
}

func equal(a, b []float64) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// toEta sets dst to the contribution of z to the predictors.
func (s *search) toEta(dst *dense.Matrix, z []float64) {
	if s.space == rowSpace {
		s.timesKernel(dst, &dense.Matrix{Rows: s.n, Cols: s.a, Stride: s.a, Data: z})
		return
	}
	s.root.Mul(s.w1, z)
	s.product(dst, s.w1)
}

// timesKernel sets dst = K m, with the kernel of each class.
func (s *search) timesKernel(dst, m *dense.Matrix) {
	x, y := memory.Floats(s.n), memory.Floats(s.n)
	for k := range s.a {
		column(x, m, k)
		dense.Gemv(y, s.kern[k], x)
		setColumn(dst, k, y)
	}
}

func column(dst []float64, m *dense.Matrix, k int) {
	for i := range dst {
		dst[i] = m.Row(i)[k]
	}
}

func setColumn(m *dense.Matrix, k int, x []float64) {
	for i, v := range x {
		m.Row(i)[k] = v
	}
}

func (s *search) penalty() float64      { return 0.5 * dense.Dot(s.z, s.pz) }
func (s *search) logPosterior() float64 { return s.now.logLik - s.penalty() }

// curve sets dst = W f, W = ω(diag(π) - ππᵀ) in each row: with prob = ωπ,
// (W f)_k = prob_k (f_k - Σ prob f / ω).
func (s *search) curve(dst, f *dense.Matrix) {
	for i := range s.n {
		s.Stop.Row(i)
		prob, from, to := s.now.prob.Row(i), f.Row(i), dst.Row(i)
		w, mean := s.weight(i), 0.0
		if w > 0 {
			mean = dense.Dot(prob, from) / w
		}
		for k, q := range prob {
			to[k] = q * (from[k] - mean)
		}
	}
}

// applyB sets dst = (I + TᵀXᵀWXT) x.
func (s *search) applyB(dst, x []float64) {
	s.root.Mul(s.w1, x)
	s.product(s.xa, s.w1)
	s.curve(s.xa, s.xa)
	s.productT(dst, s.xa)
	s.root.MulT(dst, dst)
	dense.Axpy(1, x, dst)
}

func (s *search) precondition(dst, g []float64) {
	for j, v := range g {
		dst[j] = v / s.jacobi[j]
	}
}

// setJacobi computes the diagonal of B.
func (s *search) setJacobi() {
	c := memory.Floats(s.n)
	v := s.root.Of.Diag()
	for k := range s.a {
		s.classCurvature(c, k)
		part := s.jacobi[k*s.p : (k+1)*s.p]
		s.Squares(part, c)
		for j := range part {
			part[j] = 1 + v[k*s.p+j]*part[j]
		}
	}
}

// classCurvature sets c to ωπ(1-π) of learnt class k, the diagonal of W.
func (s *search) classCurvature(c []float64, k int) {
	for i := range c {
		q := s.now.prob.Row(i)[k]
		if w := s.weight(i); w > 0 {
			c[i] = q * (1 - q/w)
		} else {
			c[i] = 0
		}
	}
}

// manyClasses is the number of classes from which, if it exceeds the number of weights of each, the
// Hessian is assembled by pairs of weights: p² large products instead of A² small ones.
var manyClasses = 32 // a variable for its test

// hessian sets h = XᵀWX, Ap x Ap.
func (s *search) hessian(h *dense.Matrix) {
	if s.a >= manyClasses && s.p < s.a {
		s.hessianByWeights(h)
		return
	}
	c, block := memory.Floats(s.n), s.Matrix(s.p, s.p)
	for a := range s.a {
		for b := range a + 1 {
			if a == b {
				s.classCurvature(c, a)
			} else {
				for i := range c {
					c[i] = 0
					if w := s.weight(i); w > 0 {
						c[i] = -s.now.prob.Row(i)[a] * s.now.prob.Row(i)[b] / w
					}
				}
			}
			s.Gram(block, c)
			s.setBlocks(h, a, b, block)
		}
	}
}

// setBlocks sets the blocks of h for the classes a and b, on both sides of its diagonal, to block,
// which is symmetric.
func (s *search) setBlocks(h *dense.Matrix, a, b int, block *dense.Matrix) {
	for i := range s.p {
		s.Stop.Check()
		copy(h.Row(a*s.p + i)[b*s.p:(b+1)*s.p], block.Row(i))
		copy(h.Row(b*s.p + i)[a*s.p:(a+1)*s.p], block.Row(i))
	}
}

// hessianByWeights is hessian if there are more classes than weights of each: its entries for
// weights j and k of all pairs of classes are -Πᵀ diag(x_j x_k / ω) Π, Π the weighted
// probabilities, plus Πᵀ (x_j x_k) on the diagonal.
func (s *search) hessianByWeights(h *dense.Matrix) {
	x := s.Dense()
	prob := s.now.prob
	block, c, own := s.Matrix(s.a, s.a), memory.Floats(s.n), make([]float64, s.a)
	for j := range s.p {
		for k := range j + 1 {
			clear(own)
			for i := range c {
				row := x.Row(i)
				c[i] = 0
				if w := s.weight(i); w > 0 {
					xx := row[j] * row[k]
					c[i] = -xx / w
					dense.Axpy(xx, prob.Row(i), own)
				}
			}
			dense.Gram(block, prob, c)
			for a := range s.a {
				s.Stop.Check()
				block.Row(a)[a] += own[a]
				for b, v := range block.Row(a) {
					h.Row(a*s.p + j)[b*s.p+k] = v
					h.Row(a*s.p + k)[b*s.p+j] = v
				}
			}
		}
	}
}

// Direction sets dz to Newton's step and dEta to the change of the predictors.
func (s *search) Direction() (float64, error) {
	slope, err := s.direction()
	s.pd, s.dd = dense.Dot(s.pz, s.dz), dense.Dot(s.dz, s.dz)
	if s.space == rowSpace {
		s.dd = dense.Dot(s.dEta.Data, s.dz)
	}
	return slope, err
}

func (s *search) direction() (float64, error) {
	if s.space == rowSpace {
		return s.rowDirection()
	}
	s.productT(s.grad, s.now.resid)
	s.root.MulT(s.grad, s.grad)
	dense.Axpy(-1, s.z, s.grad)
	if s.space == weightSpace {
		s.hessian(s.h)
		mode.Whiten(s.b, s.h, s.root)
		if err := mode.Factor(s.b); err != nil {
			return 0, err
		}
		mode.ReverseVec(s.dz, s.grad)
		dense.SolveLowerVec(s.b, s.dz)
		dense.SolveLowerTVec(s.b, s.dz)
		mode.ReverseVec(s.dz, s.dz)
	} else {
		s.setJacobi()
		s.cg.Solve(s.dz, s.grad, min(0.1, math.Sqrt(s.Decrement)), 500, s.applyB, s.precondition, s.late)
	}
	s.toEta(s.dEta, s.dz)
	return dense.Dot(s.grad, s.dz), nil
}

// rowDirection solves Newton's equations in row space. W is a diagonal D less a matrix of rank one
// in each row, so with E = D½ (I + D½ K D½)⁻¹ D½, block by class,
//
//	a' = b - c + E R M⁻¹ Rᵀ c,  c = E K b,  b = W(η - base) + residual
//	M = Σ_k E_k + ω π_pinned,  R stacking identities
//	log |I + KW| = Σ log |I + D½ K D½| + log |M| - Σ log ω
//
// Nothing singular is inverted: not W, and M only for ω > 0.
//
// Source: [rasmussen2006], algorithm 3.3; weights and a pinned class add
// ω and ωπ.
func (s *search) rowDirection() (float64, error) {
	n := s.n
	root := memory.Floats(n)
	inv := s.Matrix(n, n)
	s.logDet = 0
	for i := range n {
		s.Stop.Row(i)
		clear(s.sum.Row(i))
	}
	for k := range s.a {
		b := s.chol[k]
		for i := range n {
			root[i] = math.Sqrt(s.now.prob.Row(i)[k])
		}
		for i := range n {
			s.Stop.Check()
			row, from := b.Row(i), s.kern[k].Row(i)
			for j := range i + 1 {
				row[j] = root[i] * from[j] * root[j]
			}
			row[i]++
		}
		if err := mode.Factor(b); err != nil {
			return 0, err
		}
		s.logDet += dense.LogDet(b)
		dense.InverseFromCholesky(inv, b)
		for i := range n {
			s.Stop.Check()
			row, from, sum := s.e[k].Row(i), inv.Row(i), s.sum.Row(i)
			for j := range row {
				row[j] = root[i] * from[j] * root[j]
				sum[j] += row[j]
			}
		}
	}
	for i := range n {
		w := s.weight(i)
		if !(w > 0) {
			s.sum.Row(i)[i] = 1 // a row without weight: its row of E is zero
			continue
		}
		s.logDet -= math.Log(w)
		s.sum.Row(i)[i] += s.now.rest[i]
	}
	if err := dense.Cholesky(s.sum); err != nil {
		return 0, fmt.Errorf("the classes' Hessian: %w", err)
	}
	s.logDet += dense.LogDet(s.sum)

	f := &dense.Matrix{Rows: n, Cols: s.a, Stride: s.a, Data: s.pz}
	b := &dense.Matrix{Rows: n, Cols: s.a, Stride: s.a, Data: s.dz}
	s.curve(b, f)
	dense.Axpy(1, s.now.resid.Data, b.Data)
	kb, c := s.dEta, s.xa
	s.timesKernel(kb, b)
	x, y, total := memory.Floats(n), memory.Floats(n), memory.Floats(n)
	for k := range s.a {
		column(x, kb, k)
		dense.Gemv(y, s.e[k], x)
		setColumn(c, k, y)
		dense.Axpy(1, y, total)
	}
	dense.SolveLowerVec(s.sum, total)
	dense.SolveLowerTVec(s.sum, total)
	for k := range s.a {
		dense.Gemv(y, s.e[k], total)
		for i := range n {
			b.Row(i)[k] += y[i] - c.Row(i)[k] - s.z[i*s.a+k]
		}
	}
	s.timesKernel(s.dEta, b)
	slope := 0.0
	for i, v := range s.dEta.Data {
		slope += (s.now.resid.Data[i] - s.z[i]) * v
	}
	return slope, nil
}

func (s *search) late() bool { return s.Stop.Late() }

// run climbs to the mode. The log posterior is concave, and Newton's step, halved until it pays,
// converges from everywhere.
func (s *search) run() error {
	s.Newton = mode.NewNewton(&s.Options)
	if math.IsInf(s.now.logLik, -1) {
		return fmt.Errorf("the log likelihood overflows at the prior mean; check offset, prior_mean and the scale of the features")
	}
	return s.Climb(s, s.Stop)
}

func (s *search) Gain(t float64) float64 {
	for i, e := range s.now.eta.Data {
		s.next.eta.Data[i] = e + t*s.dEta.Data[i]
	}
	s.evaluate(&s.next)
	return s.next.logLik - s.now.logLik - t*(s.pd+0.5*t*s.dd)
}

func (s *search) Go(t float64) bool {
	s.now, s.next = s.next, s.now
	dense.Axpy(t, s.dz, s.z)
	if s.space == rowSpace {
		dense.Axpy(t, s.dEta.Data, s.pz)
	}
	return true
}

func (s *search) Height() (logLik, penalty float64, rows int) {
	return s.now.logLik, s.penalty(), s.n
}

// weights sets dst = μ0 + T z.
func (s *search) weights(dst []float64) {
	if s.space == rowSpace {
		s.productT(dst, &dense.Matrix{Rows: s.n, Cols: s.a, Stride: s.a, Data: s.z})
		s.root.MulT(dst, dst)
	} else {
		copy(dst, s.z)
	}
	s.root.Mul(dst, dst)
	dense.Axpy(1, s.root.Of.Mean, dst)
}

// chooseSpace picks the cheapest form of Newton's equations that fits into memory.
func chooseSpace(n, p, a int, prior gauss.Form) space {
	switch {
	case n < p && n <= 1500 && a*n*n <= 1<<26 && prior == gauss.Diagonal:
		return rowSpace
	case a*p <= directWeights && prior != gauss.LowRank:
		return weightSpace
	}
	return krylov
}

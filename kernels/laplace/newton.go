package laplace

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// A space is where Newton's equations are solved.
type space int

const (
	weightSpace space = iota // p x p: B = I + Tᵀ XᵀWX T
	rowSpace                 // n x n: B = I + W½ K W½, K = XΣ0Xᵀ
	krylov                   // conjugate gradients on the p x p B, which is never formed
)

// maxRise is how far exp(s) may rise in one step of a link with an exponential:
// e^5 = 148 times. Beyond, Newton's parabola says nothing about the exponential.
const maxRise = 5

// search finds the mode. In weightSpace and krylov the unknowns u are z, the whitened
// weights, and η = base + X T z; in rowSpace u is a with z = TᵀXᵀa, η = base + K a.
// Either way the log posterior is
//
//	Σ log p(y_i | η_i) - ½ zᵀz
type search struct {
	*kernels.Problem
	lik     lik.Likelihood
	only    []bool // the rows that count, nil for all
	root    *gauss.Root
	space   space
	maxIter int
	tol     float64

	base []float64 // Xμ0 + offset
	u    []float64
	pu   []float64 // zᵀz = uᵀ pu: u itself, or K a
	now  point     // at u
	next point     // where a step is tried

	grad, du, dEta []float64
	b              *dense.Matrix // the factored B, columns in reverse order in weightSpace
	hess           *hessian      // weightSpace: XᵀWX
	exact          bool          // b is that of the present point and root
	factored       *gauss.Root   // weightSpace: the root that b was made with
	k              *dense.Matrix // rowSpace: K
	jacobi         []float64     // krylov: the diagonal of B
	sw             []float64     // W½
	w1             []float64     // length p
	n1             []float64     // length n
	cg             mode.Conjugate
	floored        bool // rows of negative curvature were taken as 0 in B

	iterations int
	decrement  float64 // Newton's: the distance to the mode in posterior deviations
	status     string  // why it stopped before the mode, "" at the mode
}

// point is the likelihood at a predictor.
type point struct {
	eta, d1, curv []float64 // curv = -l''
	logLik        float64
}

func newPoint(n int) point {
	return point{make([]float64, n), make([]float64, n), make([]float64, n), 0}
}

func newSearch(d *kernels.Problem, l lik.Likelihood, t *gauss.Root, sp space) *search {
	s := &search{Problem: d, lik: l, root: t, space: sp, maxIter: kernels.Or(d.Options.MaxIter, 100), tol: kernels.Or(d.Options.Tol, 1e-8)}
	n, p := d.N, d.P
	s.base, s.now, s.next = make([]float64, n), newPoint(n), newPoint(n)
	s.dEta, s.n1 = make([]float64, n), make([]float64, n)
	s.w1 = make([]float64, p)
	s.Mul(s.base, t.Of.Mean)
	for i := range d.Offset {
		s.base[i] += d.Offset[i]
	}
	dim := p
	if sp == rowSpace {
		dim = n
		s.sw, s.pu = make([]float64, n), make([]float64, n)
	}
	s.u, s.du, s.grad = make([]float64, dim), make([]float64, dim), make([]float64, dim)
	if sp != rowSpace {
		s.pu = s.u
	}
	switch sp {
	case weightSpace:
		s.b, s.hess = d.Matrix(p, p), newHessian(d)
	case rowSpace:
		s.b, s.k = d.Matrix(n, n), d.Matrix(n, n)
	case krylov:
		s.jacobi = make([]float64, p)
	}
	return s
}

// setKernel makes K = XΣ0Xᵀ for the root as it is, of a diagonal or full prior.
func (s *search) setKernel() {
	prior := s.root.Of
	if prior.Form == gauss.Diagonal {
		s.Kernel(s.k, prior.Var)
		return
	}
	xl := s.Matrix(s.N, s.P) // K = (XL)(XL)ᵀ; chooseSpace leaves low rank to krylov
	s.MulMat(xl, prior.L)
	dense.GramT(s.k, xl, nil)
}

// restart goes to weights w, in rowSpace or without any it stays at u.
func (s *search) restart(w []float64) {
	if s.space == rowSpace {
		s.setKernel()
	}
	if w != nil && s.space != rowSpace {
		for j := range w {
			s.u[j] = w[j] - s.root.Of.Mean[j]
		}
		s.root.Solve(s.u, s.u)
	}
	s.stand()
}

// stand takes predictor and likelihood at u.
func (s *search) stand() {
	s.toEta(s.now.eta, s.u)
	if s.space == rowSpace {
		copy(s.pu, s.now.eta)
	}
	for i, b := range s.base {
		s.now.eta[i] += b
	}
	s.look(&s.now)
}

// toEta sets dst to the part of η that u makes.
func (s *search) toEta(dst, u []float64) {
	if s.space == rowSpace {
		dense.Gemv(dst, s.k, u)
		return
	}
	s.root.Mul(s.w1, u)
	s.Mul(dst, s.w1)
}

// look takes the likelihood at pt.eta. Where it or a derivative is not finite, the
// log likelihood is -Inf: no step goes there.
func (s *search) look(pt *point) {
	y, weight, trials := s.Y, s.Weight, s.Trials
	pt.logLik = s.Sum(16, func(lo, hi int) float64 {
		o := lik.Obs{Weight: 1}
		sum := 0.0
		for i := lo; i < hi; i++ {
			s.Stop.Row(i)
			if s.only != nil && !s.only[i] {
				pt.d1[i], pt.curv[i] = 0, 0
				continue
			}
			o.Y = y[i]
			if weight != nil {
				o.Weight = weight[i]
			}
			if trials != nil {
				o.Trials = trials[i]
			}
			logp, d1, d2 := s.lik.LogLik(o, pt.eta[i])
			if !special.Finite(logp) || !special.Finite(d1) || !special.Finite(d2) {
				return math.Inf(-1)
			}
			sum += logp
			pt.d1[i], pt.curv[i] = d1, -d2
		}
		return sum
	})
	if math.IsNaN(pt.logLik) {
		pt.logLik = math.Inf(-1)
	}
}

// penalty is ½ zᵀz.
func (s *search) penalty() float64 { return 0.5 * dense.Dot(s.u, s.pu) }

// logPosterior is the log of likelihood times prior density, less the prior's constant.
func (s *search) logPosterior() float64 { return s.now.logLik - s.penalty() }

// assemble factors B for the curvatures at the present point: with their signs
// where B is positive definite then, else with negative ones as 0.
func (s *search) assemble() error {
	s.floored, s.exact = false, true
	if s.space == rowSpace {
		for i, c := range s.now.curv {
			s.floored = s.floored || c < 0
			s.sw[i] = math.Sqrt(max(c, 0))
		}
		for i := range s.N {
			s.Stop.Check()
			row, from, a := s.b.Row(i), s.k.Row(i), s.sw[i]
			for j, v := range s.sw[:i+1] {
				row[j] = a * from[j] * v
			}
			row[i]++
		}
		return mode.Factor(s.b)
	}
	if s.space == krylov {
		s.Squares(s.jacobi, s.floor())
		for j, v := range s.root.Of.Diag() {
			s.jacobi[j] = 1 + v*s.jacobi[j]
		}
		return nil
	}
	var err error
	s.factored = s.root
	s.floored, err = s.hess.factor(s.b, s.root, s.now.curv)
	return err
}

const (
	// From this many weights on, steps of conjugate gradients with the factor of an
	// earlier point are tried before a new one is made. One step reads X twice, 16 np
	// bytes; the Gram matrix takes np² multiplications in registers: about p/100 steps
	// cost as much as a factor.
	staleWeights = 400
	staleSteps   = 150 // weights for each step allowed
)

// stale finds Newton's step by conjugate gradients, preconditioned with B at an
// earlier point, or under an earlier prior whose XᵀWX is still there. It gives up
// when that is no cheaper than a new factor.
func (s *search) stale() (ok bool, err error) {
	if s.P < staleWeights || s.factored == nil || s.floored {
		return false, nil
	}
	for _, c := range s.now.curv {
		if c < 0 {
			return false, nil
		}
	}
	if s.factored != s.root {
		mode.Whiten(s.b, s.hess.h, s.root)
		if err := mode.Factor(s.b); err != nil {
			return false, err
		}
		s.factored = s.root
	}
	s.exact = false
	return s.conjugate(s.du, s.grad, min(0.1, math.Sqrt(s.decrement)), s.P/staleSteps), nil
}

// floor is the curvature with negative values as 0.
func (s *search) floor() []float64 {
	for i, c := range s.now.curv {
		s.floored = s.floored || c < 0
		s.n1[i] = max(c, 0)
	}
	return s.n1
}

// hessian is XᵀWX as it was last made.
type hessian struct {
	*kernels.Problem
	h       *dense.Matrix
	w       []float64 // the W of h; empty before the first
	scratch []float64
}

func newHessian(d *kernels.Problem) *hessian {
	return &hessian{Problem: d, h: d.Matrix(d.P, d.P), w: make([]float64, 0, d.N)}
}

// set makes h for W = diag(w). Where w is a multiple of the last one, as for a
// Gaussian likelihood, so is h.
func (x *hessian) set(w []float64) {
	if f, ok := multiple(w, x.w); ok {
		if f != 1 {
			for i := range x.P {
				row := x.h.Row(i)
				for j := range row {
					row[j] *= f
				}
			}
		}
	} else {
		x.Gram(x.h, w)
	}
	x.w = append(x.w[:0], w...)
}

// multiple finds f with a = f b, to rounding.
func multiple(a, b []float64) (f float64, ok bool) {
	if len(a) != len(b) {
		return 0, false
	}
	for i, v := range b {
		if v == 0 && a[i] == 0 {
			continue
		}
		if f == 0 {
			f = a[i] / v
		}
		if !(math.Abs(a[i]-f*v) <= 4e-16*math.Abs(a[i])) || f == 0 {
			return 0, false
		}
	}
	return f, f != 0 && special.Finite(f)
}

// factor sets b to the Cholesky factor of what whiten makes for W = diag(curv): with
// the signs of curv if that is positive definite, else with negative ones as 0.
func (x *hessian) factor(b *dense.Matrix, t *gauss.Root, curv []float64) (floored bool, err error) {
	negative := false
	for _, c := range curv {
		negative = negative || c < 0
	}
	x.set(curv)
	mode.Whiten(b, x.h, t)
	if negative {
		if err := dense.Cholesky(b); err == nil {
			return false, nil
		}
		x.scratch = append(x.scratch[:0], curv...)
		for i, c := range curv {
			x.scratch[i] = max(c, 0)
		}
		x.set(x.scratch)
		mode.Whiten(b, x.h, t)
	}
	return negative, mode.Factor(b)
}

// direction sets du to Newton's step and dEta to what it does to η, and returns the
// slope of the log posterior along it, the square of Newton's decrement.
func (s *search) direction() (slope float64, err error) {
	if s.space == rowSpace {
		if err := s.assemble(); err != nil {
			return 0, err
		}
		// a' = b - W½ B⁻¹ W½ K b, b = W(η - base) + l'
		b, kb := s.du, s.dEta
		for i := range b {
			b[i] = s.sw[i]*s.sw[i]*s.pu[i] + s.now.d1[i]
		}
		dense.Gemv(kb, s.k, b)
		for i, w := range s.sw {
			kb[i] *= w
		}
		dense.SolveLowerVec(s.b, kb)
		dense.SolveLowerTVec(s.b, kb)
		for i := range b {
			b[i] += -s.sw[i]*kb[i] - s.u[i]
		}
		s.toEta(s.dEta, s.du)
		for i, v := range s.dEta {
			slope += (s.now.d1[i] - s.u[i]) * v
		}
		return slope, nil
	}
	s.MulT(s.w1, s.now.d1)
	s.root.MulT(s.grad, s.w1)
	for j, z := range s.u {
		s.grad[j] -= z
	}
	ok := false
	if s.space == weightSpace {
		if ok, err = s.stale(); err != nil {
			return 0, err
		}
	}
	if !ok {
		if err := s.assemble(); err != nil {
			return 0, err
		}
		s.solve(s.du, s.grad)
	}
	s.toEta(s.dEta, s.du)
	return dense.Dot(s.grad, s.du), nil
}

// solve sets dst = B⁻¹ g in the whitened weights, B = I + TᵀXᵀWXT as it was assembled.
func (s *search) solve(dst, g []float64) {
	switch s.space {
	case weightSpace:
		s.precondition(dst, g)
	case rowSpace:
		// Woodbury: g - TᵀXᵀ W½ B⁻¹ W½ X T g
		s.root.Mul(s.w1, g)
		s.Mul(s.n1, s.w1)
		for i, w := range s.sw {
			s.n1[i] *= w
		}
		dense.SolveLowerVec(s.b, s.n1)
		dense.SolveLowerTVec(s.b, s.n1)
		for i, w := range s.sw {
			s.n1[i] *= w
		}
		s.MulT(s.w1, s.n1)
		s.root.MulT(s.w1, s.w1)
		for j := range dst {
			dst[j] = g[j] - s.w1[j]
		}
	case krylov:
		s.conjugate(dst, g, min(0.1, math.Sqrt(s.decrement)), maxInner)
	}
}

// applyB sets dst = B x without forming B, W floored at 0.
func (s *search) applyB(dst, x []float64) {
	s.root.Mul(s.w1, x)
	s.Mul(s.n1, s.w1)
	for i, c := range s.now.curv {
		s.n1[i] *= max(c, 0)
	}
	s.MulT(s.w1, s.n1)
	s.root.MulT(dst, s.w1)
	for j := range dst {
		dst[j] += x[j]
	}
}

// maxInner bounds the steps of conjugate gradients for one Newton step; a direction
// found by fewer is one of ascent all the same.
const maxInner = 500

// conjugate solves B x = g by conjugate gradients, preconditioned with what is known
// of B; false: not in the given number of steps.
func (s *search) conjugate(x, g []float64, rel float64, steps int) bool {
	return s.cg.Solve(x, g, rel, steps, s.applyB, s.precondition, s.late)
}

// precondition sets dst to the solution with the factor of B, in krylov with its
// diagonal.
func (s *search) precondition(dst, g []float64) {
	if s.space == krylov {
		for j, v := range g {
			dst[j] = v / s.jacobi[j]
		}
		return
	}
	mode.ReverseVec(dst, g)
	dense.SolveLowerVec(s.b, dst)
	dense.SolveLowerTVec(s.b, dst)
	mode.ReverseVec(dst, dst)
}

func (s *search) late() bool { return s.Stop.Late() }

// run climbs to the mode by Newton's method with step-halving. It has converged when
// the mode is within tol posterior deviations, by Newton's decrement, or when rounding
// is all that is left of the decrement. Errors: a curvature that overflows, a
// likelihood that is not finite at the start.
func (s *search) run() error {
	s.status, s.iterations, s.decrement = "", 0, math.Inf(1)
	s.exact = false
	if math.IsInf(s.now.logLik, -1) {
		for i, eta := range s.now.eta {
			logp, d1, d2 := s.lik.LogLik(s.Batch().Obs(i), eta)
			if !special.Finite(logp) || !special.Finite(d1) || !special.Finite(d2) {
				return kernels.RowError(fmt.Errorf("row %d: the likelihood of y = %v is not a positive finite number at the prior mean, linear predictor %v; check offset, prior_mean and the scale of the features", i+1, s.Y[i], eta))
			}
		}
		return fmt.Errorf("the log likelihood overflows at the prior mean")
	}
	side := s.lik.Traits().Growth
	for {
		slope, err := s.direction()
		if err != nil {
			return err
		}
		if math.IsNaN(slope) {
			return mode.ErrOverflow
		}
		last := s.decrement
		s.decrement = math.Sqrt(max(slope, 0))
		if s.decrement <= s.tol || s.decrement < 1e-4 && s.decrement > 0.5*last && s.atRounding() {
			return s.settle()
		}
		if s.iterations >= s.maxIter {
			s.status = fmt.Sprintf("no convergence in %d Newton steps: the mode is about %.2g posterior deviations away", s.iterations, s.decrement)
			return nil
		}
		if s.late() {
			s.status = fmt.Sprintf("stopped at the time limit after %d Newton steps: the mode is about %.2g posterior deviations away", s.iterations, s.decrement)
			return nil
		}
		s.iterations++
		if !s.climb(slope, side) {
			if s.decrement > 1e-4 && !s.atRounding() {
				s.status = fmt.Sprintf("no higher log posterior along Newton's direction after %d steps", s.iterations)
			}
			return s.settle()
		}
	}
}

// settle leaves B factored at the mode.
func (s *search) settle() error {
	if s.exact || s.space != weightSpace {
		return nil
	}
	return s.assemble()
}

// atRounding says that what Newton's step promises, half the squared decrement, is
// below the rounding of the log posterior, summed over n rows.
func (s *search) atRounding() bool {
	return 0.5*s.decrement*s.decrement <= 1e-15*(1+math.Abs(s.now.logLik)+s.penalty()+math.Sqrt(float64(s.N)))
}

// climb takes a step along du that raises the log posterior, false if there is none.
func (s *search) climb(slope, side float64) bool {
	t := 1.0
	if side != 0 {
		far := 0.0
		for _, d := range s.dEta {
			far = max(far, side*d)
		}
		if far > maxRise {
			t = maxRise / far
		}
	}
	old := s.now.logLik
	pd, dd := dense.Dot(s.pu, s.du), 0.0
	if s.space == rowSpace {
		dd = dense.Dot(s.dEta, s.du)
	} else {
		dd = dense.Dot(s.du, s.du)
	}
	gain := func(t float64) float64 {
		for i, e := range s.now.eta {
			s.next.eta[i] = e + t*s.dEta[i]
		}
		s.look(&s.next)
		return s.next.logLik - old - t*(pd+0.5*t*dd)
	}
	small := slope < 1e-8 // a step that the sums of the log posterior hardly see
	got := gain(t)
	for halvings := 0; !(got >= 1e-4*t*slope); halvings++ {
		if small && special.Finite(s.next.logLik) && got > -1e-12*(1+math.Abs(old)) {
			break
		}
		if halvings == 60 {
			return false
		}
		t *= 0.5
		got = gain(t)
	}
	for t < 1 && t*2 <= 1 && side != 0 {
		// the cap, not the likelihood, held the step back: longer while that pays
		more := gain(2 * t)
		if !(more > got) {
			gain(t)
			break
		}
		t, got = 2*t, more
	}
	s.now, s.next = s.next, s.now
	dense.Axpy(t, s.du, s.u)
	if s.space == rowSpace {
		dense.Axpy(t, s.dEta, s.pu)
	}
	return true
}

// whitenedWeights sets dst to z.
func (s *search) whitenedWeights(dst []float64) {
	if s.space != rowSpace {
		copy(dst, s.u)
		return
	}
	s.MulT(dst, s.u)
	s.root.MulT(dst, dst)
}

// weights sets dst = μ0 + T z.
func (s *search) weights(dst []float64) {
	s.whitenedWeights(dst)
	s.root.Mul(dst, dst)
	for j, m := range s.root.Of.Mean {
		dst[j] += m
	}
}

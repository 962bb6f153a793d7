package laplace

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// A space is the form in which Newton's equations are solved.
type space int

const (
	weightSpace space = iota // p x p: B = I + Tᵀ XᵀWX T
	rowSpace                 // n x n: B = I + W½ K W½, K = XΣ0Xᵀ
	krylov                   // conjugate gradients on the p x p B, which is never formed
	arrowSpace               // B with its largest diagonal block eliminated
)

// maxRise is how far s may rise in one step if the link has an exponential, which then grows
// e^5 = 148 times. Beyond that, Newton's parabola says nothing about the exponential.
const maxRise = 5

// search finds the mode. In weightSpace and krylov the unknowns u are z, the whitened
// weights, and η = base + X T z; in rowSpace u is a, with z = TᵀXᵀa and η = base + K a.
// In either case the log posterior is
//
//	Σ log p(y_i | η_i) - ½ zᵀz
type search struct {
	*kernels.Problem
	mode.Newton
	data  mode.Data
	root  *gauss.Root
	space space

	base []float64 // Xμ0 + offset
	u    []float64
	pu   []float64  // zᵀz = uᵀ pu: u itself, or K a
	now  mode.Point // at u
	next mode.Point // at the trial point of a step

	grad, du, dEta []float64
	pd, dd         float64       // slope and curvature of ½ zᵀz along du
	b              *dense.Matrix // the factored B, in weightSpace with columns in reverse order; krylov: that of n x n, if any
	hess           *hessian      // weightSpace: XᵀWX
	exact          bool          // b belongs to the present point and root
	factored       *gauss.Root   // weightSpace: the root for which b was computed
	of             int           // and the hess.made of its XᵀWX
	k              *dense.Matrix // rowSpace, and krylov with "rows": K
	kOf            []float64     // the prior variances of K, if the prior is diagonal
	jacobi         []float64     // krylov: the diagonal of B
	arrow          *arrow        // arrowSpace
	sums           *sums         // replaces the rows of a Gaussian likelihood
	sw             []float64     // W½ of the n x n B
	w1, tried      []float64     // length p
	n1, n2         []float64     // length n
	cg             mode.Conjugate
	once           *singleRead // for rows that are read once per step, else nil
	evaluated      []float64   // the weights at which now is, empty if not known
	loose          float64     // a tolerance above that of the options, 0 for none
	most           int         // Newton steps of a climb, 0 for MaxIter
	floored        bool        // negative curvatures count as 0 in B
}

// newSearch creates a search in a space; rows says that the Gaussian is by the n x n form.
func newSearch(d *kernels.Problem, l lik.Likelihood, t *gauss.Root, sp space, leaves *split, rows bool) *search {
	s := &search{Problem: d, Newton: mode.NewNewton(&d.Options), data: mode.DataOf(d), root: t, space: sp}
	s.data.Lik = l
	n, p := d.N, d.P
	if sp == arrowSpace {
		s.arrow = newArrow(d, leaves)
		if s.sums = newSums(s); s.sums != nil {
			n = 0
		}
	}
	s.base, s.now, s.next = memory.Floats(n), mode.NewPoint(n), mode.NewPoint(n)
	s.dEta, s.n1 = memory.Floats(n), memory.Floats(n)
	s.w1 = memory.Floats(p)
	if s.sums == nil {
		s.Predictor(s.base, t.Of.Mean)
	}
	dim := p
	if sp == rowSpace {
		dim = n
		s.pu = memory.Floats(n)
	}
	if sp == rowSpace || rows {
		s.sw, s.b, s.k = memory.Floats(n), d.Matrix(n, n), d.Matrix(n, n)
	}
	s.u, s.du, s.grad = memory.Floats(dim), memory.Floats(dim), memory.Floats(dim)
	if sp != rowSpace {
		s.pu = s.u
	}
	if s.sums != nil {
		s.tried = memory.Floats(p)
	}
	switch sp {
	case weightSpace:
		s.b, s.hess = d.Matrix(p, p), newHessian(d)
		s.once = newOnce(d, l)
	case krylov:
		s.jacobi = memory.Floats(p)
	}
	return s
}

// setKernel computes K = XΣ0Xᵀ for the present root, of a diagonal or full prior.
func (s *search) setKernel() {
	prior := s.root.Of
	if prior.Form != gauss.Diagonal {
		xl := s.Matrix(s.N, s.P) // K = (XL)(XL)ᵀ; chooseSpace leaves low rank to krylov
		s.MulMat(xl, prior.L)
		dense.GramT(s.k, xl, nil)
		return
	}
	if !s.rescale(prior.Var) {
		s.Kernel(s.k, prior.Var)
	}
	s.kOf = append(s.kOf[:0], prior.Var...)
}

// rescale updates K to prior variances v if they are a multiple of the former ones, except for
// the intercept's. It returns false if they are not.
func (s *search) rescale(v []float64) bool {
	if len(v) < 2 || len(s.kOf) != len(v) {
		return false
	}
	f, ok := multiple(v[1:], s.kOf[1:])
	if !ok {
		return false
	}
	more := v[0] - f*s.kOf[0]
	if f == 1 && more == 0 {
		return true
	}
	x := memory.Floats(s.N) // column 0, the first in its rows
	for i := range x {
		if col, val := s.Entries(i); len(col) > 0 && col[0] == 0 {
			x[i] = val[0]
		}
	}
	for i, a := range x {
		s.Stop.Check()
		row := s.k.Row(i)
		a *= more
		for j, b := range x {
			row[j] = f*row[j] + a*b
		}
	}
	return true
}

// restart moves to weights w; in rowSpace or if w is nil it stays at u.
func (s *search) restart(w []float64) {
	if s.space == rowSpace {
		s.setKernel()
	}
	if w != nil && s.space != rowSpace {
		for j := range w {
			s.u[j] = w[j] - s.root.Of.Mean[j]
		}
		s.root.Solve(s.u, s.u)
		if s.sums == nil && slices.Equal(w, s.evaluated) {
			return // the likelihood does not depend on the prior
		}
	}
	s.evaluateHere()
}

// renew must be called after the columns got new values.
func (s *search) renew() {
	s.exact, s.factored, s.evaluated = false, nil, s.evaluated[:0]
	s.once.forget()
	if s.hess != nil {
		s.hess.w = s.hess.w[:0]
	}
	if s.arrow != nil {
		s.arrow.load()
	}
	if s.sums != nil {
		s.sums.known = false
	}
}

// evaluateHere computes predictors and likelihood at u.
func (s *search) evaluateHere() {
	s.evaluated = s.evaluated[:0]
	if s.sums != nil {
		s.evaluateSums(&s.now, s.u)
		return
	}
	s.toEta(s.now.Eta, s.u)
	if s.space == rowSpace {
		copy(s.pu, s.now.Eta)
	}
	for i, b := range s.base {
		s.now.Eta[i] += b
	}
	s.data.Evaluate(&s.now)
}

// toEta sets dst to the contribution of u to η.
func (s *search) toEta(dst, u []float64) {
	if s.space == rowSpace {
		dense.Gemv(dst, s.k, u)
		return
	}
	if !slices.ContainsFunc(u, func(v float64) bool { return v != 0 }) {
		clear(dst)
		return
	}
	s.root.Mul(s.w1, u)
	s.Mul(dst, s.w1)
}

// penalty returns ½ zᵀz.
func (s *search) penalty() float64 { return 0.5 * dense.Dot(s.u, s.pu) }

// logPosterior returns the log of likelihood times prior density, without the prior's constant.
func (s *search) logPosterior() float64 { return s.now.LogLik - s.penalty() }

// assemble factors B for the curvatures at the present point. Negative ones keep their sign if
// B is positive definite, otherwise they count as 0.
func (s *search) assemble() error {
	s.floored, s.exact = false, true
	if s.space == rowSpace {
		return s.assembleRows(s.now.Curv)
	}
	if s.space == krylov {
		s.Squares(s.jacobi, s.floor())
		for j, v := range s.root.Of.Diag() {
			s.jacobi[j] = 1 + v*s.jacobi[j]
		}
		return nil
	}
	var err error
	if s.space == arrowSpace {
		if s.sums != nil && s.factored == s.root && s.arrow.noise == s.sums.noise {
			return nil
		}
		s.factored = s.root
		s.floored, err = s.arrowFactor(s.now.Curv)
		return err
	}
	s.factored = s.root
	s.floored, err = s.hess.factor(s.b, s.root, s.now.Curv)
	s.of = s.hess.made
	return err
}

// assembleRows factors the n x n B, with negative curvatures as 0.
func (s *search) assembleRows(curv []float64) error {
	for i, c := range curv {
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

const (
	// From this many weights on, conjugate gradients with the factor of an earlier point are
	// tried before a new factorisation. One step reads X twice, 16 np bytes; the Gram matrix
	// takes np² multiplications in registers: about p/100 steps cost as much as a
	// factorisation.
	staleWeights = 400
	staleSteps   = 150 // weights per step allowed
	enough       = 0.2 // the last step may leave this share of the tolerance
)

// stale computes Newton's step by conjugate gradients, preconditioned with B at an earlier point,
// rebuilt from the existing XᵀWX if the prior has changed. It gives up if that is no cheaper
// than a new factorisation.
func (s *search) stale() (ok bool, err error) {
	if s.P < staleWeights || s.factored == nil || s.floored {
		return false, nil
	}
	for _, c := range s.now.Curv {
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
	rel := max(math.Sqrt(s.Decrement), enough*s.Tol/s.Decrement) // Newton's step leaves more, or else the mode is close enough
	return s.conjugate(s.du, s.grad, min(0.1, rel), s.P/staleSteps), nil
}

// floor returns the curvatures with negative values as 0.
func (s *search) floor() []float64 {
	for i, c := range s.now.Curv {
		s.floored = s.floored || c < 0
		s.n1[i] = max(c, 0)
	}
	return s.n1
}

// hessian holds the XᵀWX computed last.
type hessian struct {
	*kernels.Problem
	h       *dense.Matrix
	w       []float64 // the W of h; empty before the first call of set
	made    int       // how many times h was computed
	scratch []float64
}

func newHessian(d *kernels.Problem) *hessian {
	return &hessian{Problem: d, h: d.Matrix(d.P, d.P), w: make([]float64, 0, d.N)}
}

// set computes h for W = diag(w), by scaling if w is a multiple of the last one, as it is for
// a Gaussian likelihood.
func (x *hessian) set(w []float64) {
	if f, ok := multiple(w, x.w); ok {
		if f != 1 {
			x.made++
			for i := range x.P {
				row := x.h.Row(i)
				for j := range row {
					row[j] *= f
				}
			}
		}
	} else {
		x.Gram(x.h, w)
		x.made++
	}
	x.w = append(x.w[:0], w...)
}

// multiple finds f with a = f b, up to rounding.
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

// factor sets b to the Cholesky factor of what mode.Whiten returns for W = diag(curv). Negative
// curvatures keep their sign if that is positive definite, otherwise they count as 0.
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

// Direction sets du to Newton's step and dEta to the change of η.
func (s *search) Direction() (slope float64, err error) {
	slope, err = s.direction()
	s.pd, s.dd = dense.Dot(s.pu, s.du), dense.Dot(s.du, s.du)
	if s.space == rowSpace {
		s.dd = dense.Dot(s.dEta, s.du)
	}
	return slope, err
}

func (s *search) direction() (slope float64, err error) {
	if s.space == rowSpace {
		if err := s.assemble(); err != nil {
			return 0, err
		}
		// (I + WK) a' = W(η - base) + l' minus (I + WK) a is (I + WK) da = l' - a. The difference
		// of two solutions would lose the digits that they share, which a large K may make
		// essential.
		for i, u := range s.u {
			s.du[i] = s.now.D1[i] - u
		}
		s.rowSolve(s.du, s.dEta)
		s.toEta(s.dEta, s.du)
		for i, v := range s.dEta {
			slope += (s.now.D1[i] - s.u[i]) * v
		}
		return slope, nil
	}
	switch {
	case s.sums != nil:
		s.sums.slope(s.w1)
	case s.once != nil:
		copy(s.w1, s.slopes())
	default:
		s.mulT(s.w1, s.now.D1)
	}
	s.root.MulT(s.grad, s.w1)
	for j, z := range s.u {
		s.grad[j] -= z
	}
	ok := false
	if s.space == weightSpace {
		if s.once != nil {
			ok, err = s.chordStep()
		} else {
			ok, err = s.stale()
		}
		if err != nil {
			return 0, err
		}
	}
	if !ok {
		if err := s.assemble(); err != nil {
			return 0, err
		}
		s.solve(s.du, s.grad)
	}
	if s.once.isDeferred() {
		s.once.due = true
	} else if s.sums == nil {
		s.toEta(s.dEta, s.du)
	}
	slope = dense.Dot(s.grad, s.du)
	if s.once != nil {
		s.once.chord.learn(math.Sqrt(math.Abs(slope)), s.Decrement)
	}
	return slope, nil
}

// mulT sets dst = Xᵀ v.
func (s *search) mulT(dst, v []float64) {
	if s.arrow != nil {
		s.arrow.mulT(dst, v)
		return
	}
	s.MulT(dst, v)
}

// solve sets dst = B⁻¹ g in the whitened weights, B = I + TᵀXᵀWXT as assembled.
func (s *search) solve(dst, g []float64) {
	switch s.space {
	case weightSpace:
		s.precondition(dst, g)
	case arrowSpace: // B⁻¹ = T⁻¹ (Λ0 + H)⁻¹ T⁻ᵀ, T diagonal
		for j, t := range s.root.Scale {
			s.w1[j] = g[j] / t
		}
		s.arrow.solve(dst, s.w1)
		s.root.Solve(dst, dst)
	case rowSpace:
		// Woodbury: g - TᵀXᵀ W½ B⁻¹ W½ X T g
		s.root.Mul(s.w1, g)
		s.Mul(s.n1, s.w1)
		s.halfSolve(s.n1)
		s.MulT(s.w1, s.n1)
		s.root.MulT(s.w1, s.w1)
		for j := range dst {
			dst[j] = g[j] - s.w1[j]
		}
	case krylov:
		s.conjugate(dst, g, min(0.1, math.Sqrt(s.Decrement)), maxInner)
	}
}

// stiff is the largest W K of a row for which rowSolve computes a difference.
const stiff = 1e8

// rowSolve sets r = (I + WK)⁻¹ r, which is r - W½ B⁻¹ W½ K r. If rows are so much more informative
// than the prior that this difference is rounding error it is W½ B⁻¹ W^-½ r, and r for rows with
// next to no information. kr is scratch.
func (s *search) rowSolve(r, kr []float64) {
	far := false
	for i, w := range s.sw {
		far = far || w*w*s.k.Row(i)[i] > stiff
	}
	if !far {
		dense.Gemv(kr, s.k, r)
		s.halfSolve(kr)
		for i := range r {
			r[i] -= kr[i]
		}
		return
	}
	silent := func(i int) bool { w := s.sw[i]; return w*w*s.k.Row(i)[i] < 1e-20 }
	known := make([]float64, len(r))
	for i, v := range r {
		if silent(i) {
			known[i] = v
		}
	}
	dense.Gemv(kr, s.k, known)
	for i, w := range s.sw {
		if kr[i] = r[i]/w - w*kr[i]; silent(i) {
			kr[i] = 0
		}
	}
	dense.SolveLowerVec(s.b, kr)
	dense.SolveLowerTVec(s.b, kr)
	for i, w := range s.sw {
		if !silent(i) {
			r[i] = w * kr[i]
		}
	}
}

// halfSolve sets y = W½ B⁻¹ W½ y with the n x n B.
func (s *search) halfSolve(y []float64) {
	for i, w := range s.sw {
		y[i] *= w
	}
	dense.SolveLowerVec(s.b, y)
	dense.SolveLowerTVec(s.b, y)
	for i, w := range s.sw {
		y[i] *= w
	}
}

// applyB sets dst = B x without forming B, with negative curvatures as 0.
func (s *search) applyB(dst, x []float64) {
	s.root.Mul(s.w1, x)
	if s.n2 == nil {
		s.n2 = memory.Floats(s.N)
	}
	for i, c := range s.now.Curv {
		s.n1[i] = max(c, 0)
	}
	s.GramVec(dst, s.w1, s.n1, s.n2)
	s.root.MulT(dst, dst)
	for j := range dst {
		dst[j] += x[j]
	}
}

// maxInner bounds the steps of conjugate gradients per Newton step; a direction found by
// fewer is still one of ascent.
const maxInner = 500

// conjugate solves B x = g by conjugate gradients, preconditioned with what is known of B. It
// returns false if that takes more than the given number of steps.
func (s *search) conjugate(x, g []float64, rel float64, steps int) bool {
	return s.cg.Solve(x, g, rel, steps, s.applyB, s.precondition, s.late)
}

// precondition sets dst to the solution with the factor of B, in krylov with its diagonal.
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

// run climbs to the mode. Errors: a curvature that overflows, a likelihood that is not finite
// at the start.
func (s *search) run() error {
	s.Newton, s.exact = mode.NewNewton(&s.Options), false
	if s.most > 0 {
		s.MaxIter = min(s.MaxIter, s.most)
	}
	s.once.begin(s.data.Lik)
	s.Tol = max(s.Tol, s.loose)
	const check = "offset, prior_mean and the scale of the features"
	if s.sums != nil {
		return s.runSums(check)
	}
	if err := s.data.Start(&s.now, check); err != nil {
		return err
	}
	if err := s.Climb(s, s.Stop); err != nil || s.Status != "" {
		return err
	}
	return s.factorAtMode()
}

// factorAtMode leaves B factored at the mode.
func (s *search) factorAtMode() error {
	if s.exact || s.space != weightSpace {
		return nil
	}
	return s.assemble()
}

// Longest returns the share of the step to try first, below 1 for links with an exponential.
func (s *search) Longest() (t float64, capped bool) {
	side, far := s.data.Lik.Traits().Growth, 0.0
	if side == 0 {
		return 1, false
	}
	for _, d := range s.dEta {
		far = max(far, side*d)
	}
	return min(1, maxRise/far), true
}

// telling is the least information of a row about its predictor, relative to the prior's, that
// counts; bends is the share of its curvature that may change in a step that is to be the last.
const telling, bends = 0.01, 0.01

// Curves reports whether the curvature of informative rows changes where Newton's step ends. One
// row with a value of 1e20 makes the log posterior so steep that a step of 1e-10 standard deviations
// moves its predictor by 1; a little further the row carries no information, and the mode is where
// the others put it.
func (s *search) Curves() bool {
	if s.sums != nil || s.data.Lik.Traits().Gaussian {
		return false
	}
	if s.once != nil && s.once.due {
		s.toEta(s.dEta, s.du)
		s.once.due = false
	}
	prior := s.root.Of.Var
	for i, d := range s.dEta {
		w := math.Abs(s.now.Curv[i])
		if math.Abs(d) < 1e-4 || w == 0 {
			continue
		}
		sd := 0.0 // of its predictor, at most
		for col, val := s.Entries(i); len(col) > 0; col, val = col[1:], val[1:] {
			sd += math.Abs(val[0]) * math.Sqrt(prior[col[0]])
		}
		if math.Sqrt(w)*sd < math.Sqrt(telling) {
			continue
		}
		if _, _, next := s.data.Lik.LogLik(s.data.Obs(i), s.now.Eta[i]+d); math.Abs(-next-s.now.Curv[i]) > bends*w {
			return true
		}
	}
	return false
}

func (s *search) Gain(t float64) float64 {
	if s.sums != nil {
		copy(s.tried, s.u)
		dense.Axpy(t, s.du, s.tried)
		s.evaluateSums(&s.next, s.tried)
		return s.next.LogLik - s.now.LogLik - t*(s.pd+0.5*t*s.dd)
	}
	if s.once != nil {
		if t == 1 && !s.once.tried {
			s.ahead()
			return s.next.LogLik - s.now.LogLik - (s.pd + 0.5*s.dd)
		}
		s.once.next = false
	}
	for i, e := range s.now.Eta {
		s.next.Eta[i] = e + t*s.dEta[i]
	}
	s.data.Evaluate(&s.next)
	return s.next.LogLik - s.now.LogLik - t*(s.pd+0.5*t*s.dd)
}

func (s *search) Go(t float64) bool {
	s.now, s.next = s.next, s.now
	s.evaluated = s.evaluated[:0]
	s.once.move()
	dense.Axpy(t, s.du, s.u)
	if s.space == rowSpace {
		dense.Axpy(t, s.dEta, s.pu)
	}
	return true
}

func (s *search) Height() (logLik, penalty float64, rows int) {
	return s.now.LogLik, s.penalty(), s.N
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

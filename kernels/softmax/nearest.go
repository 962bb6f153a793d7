package softmax

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

const (
	// nearestWeights bounds the weights for the nearest Gaussian, whose steps factor their
	// Hessian.
	nearestWeights = 2000
	// nearestWork bounds the products in its averages over the rows, of which there are ten or
	// more: a second or two each.
	nearestWork = 2e9
	// pairs is the number of points, each with its negative, for the averages of a row.
	pairs = 64
	// averageRows is how many rows are averaged at a time, a whole number of panels.
	averageRows = 4 * panelRows
	// maxSteps bounds the steps to the nearest Gaussian; they end when one moves it by less than
	// nearTol standard deviations and gains less than nearTol² nats.
	maxSteps = 60
	nearTol  = 1e-2
)

// nearest is the search for the Gaussian N(w, S) of least Kullback-Leibler divergence from the
// posterior. With averages over it in place of values at the mode its equations are Newton's:
//
//	Σ0⁻¹ (w - μ0) = Σ_i x_i ⊗ (y_i - E π_i),  S⁻¹ = Σ0⁻¹ + Σ_i x_i x_iᵀ ⊗ E W_i
//
// and the bound on the log evidence is E log p(y | f) - KL(N(w, S), prior). If classes are
// separated the likelihood is flat at the mode: the Gaussian there is as wide as the prior even
// where the likelihood vanishes. The average accounts for that.
//
// Source: [opper2009].
type nearest struct {
	*engine
	z     *dense.Matrix // pairs x A, with the second moments of N(0, I)
	resid *dense.Matrix // n x A: ω (y - E π)
	curve *dense.Matrix // n x A (A + 1)/2: ω E W, lower triangle row by row
	h     *dense.Matrix // the data's part of S⁻¹
	mix   *dense.Matrix // n x A (A + 1)/2: the ω E W behind h
	at    *evidence     // its log is the bound
}

// refine replaces Laplace's Gaussian at ev by the nearest one, as long as that raises the bound; if
// time is up or it stalls it keeps the best.
func (e *engine) refine(ev *evidence) (*evidence, error) {
	if e.inRows() {
		return e.refineInRows()
	}
	x := e.nearest()
	x.evaluate(ev.belief, ev.post.Mean)
	if err := x.climb(); err != nil {
		return nil, err
	}
	return x.at, nil
}

// nearest starts from the Hessian at the mode.
func (e *engine) nearest() *nearest {
	s := e.search
	d := s.a * s.p
	pairs := s.a * (s.a + 1) / 2
	x := &nearest{engine: e, z: pointsOf(s.a), resid: dense.New(s.n, s.a), curve: dense.New(s.n, pairs), mix: dense.New(s.n, pairs), h: s.Matrix(d, d)}
	for i := range s.n {
		w := s.weight(i)
		if !(w > 0) {
			continue
		}
		prob, mix := s.now.prob.Row(i), x.mix.Row(i)
		at := 0
		for a, q := range prob {
			for b := range a {
				mix[at] = -q * prob[b] / w
				at++
			}
			mix[at] = q * (1 - q/w)
			at++
		}
	}
	x.average(x.h, x.mix)
	return x
}

// climb steps from x.at as long as that raises the bound.
func (x *nearest) climb() error {
	s := x.search
	d := s.a * s.p
	grad, step, next := make([]float64, d), make([]float64, d), s.Matrix(d, d)
	for range maxSteps {
		x.gradient(grad)
		x.average(next, x.curve)
		moved, gain, err := x.step(grad, step, next)
		if err != nil {
			return err
		}
		if moved < nearTol && gain < nearTol*nearTol || s.late() {
			break
		}
	}
	return nil
}

// inRows reports whether the nearest Gaussian is sought over the predictors of the rows.
func (e *engine) inRows() bool { return e.search.space == rowSpace && e.sameInClasses() }

// sameInClasses reports whether the prior is the same in each class.
func (e *engine) sameInClasses() bool {
	v, p := e.root.Of.Var, e.search.p
	for k := p; k < len(v); k += p {
		if !equal(v[k:k+p], v[:p]) {
			return false
		}
	}
	return true
}

// refineInRows is refine over the n predictors of each class, which are fewer than its weights. With
// L Lᵀ = X Σ0 Xᵀ and u ~ N(0, I) they are X μ0 + L u: weights orthogonal to the span of the rows
// keep their prior, and the bound is the same.
func (e *engine) refineInRows() (*evidence, error) {
	s := e.search
	l, inv := rootOf(s.kern[0])
	rows := *e.x
	rows.Columns = design.Whole(l).Under(s.Stop)
	rows.Offset = nil // base contains it
	one := memory.Floats(s.a * s.n)
	for j := range one {
		one[j] = 1
	}
	r := &engine{x: &rows, classes: e.classes, label: e.label, prior: gauss.NewDiagonal(make([]float64, len(one)), one), hessian: e.hessian}
	var err error
	if r.root, err = r.prior.Root(); err != nil {
		return nil, err
	}
	r.newSearch(weightSpace)
	r.search.now, r.search.base = s.now, s.base
	x := r.nearest()
	u := make([]float64, len(one))
	for k := range s.a {
		part := u[k*s.n : (k+1)*s.n]
		for i := range part { // Lᵀ a
			for j, v := range l.Row(i)[:i+1] {
				part[j] += v * s.z[i*s.a+k]
			}
		}
	}
	bl, err := x.belief(u)
	if err != nil {
		return nil, err
	}
	x.evaluate(bl, bl.post.Mean)
	if err := x.climb(); err != nil {
		return nil, err
	}

	// The weights: μ0 + Σ0 Xᵀ a with Lᵀ a = u, and the precision of the same rows.
	for k := range s.a {
		part := x.at.post.Mean[k*s.n : (k+1)*s.n]
		dense.SolveLowerTVec(inv, part)
		for i, v := range part {
			s.z[i*s.a+k] = v
		}
	}
	w := memory.Floats(s.a * s.p)
	s.weights(w)
	y := &nearest{engine: e, h: s.Matrix(len(w), len(w))}
	y.average(y.h, x.mix)
	if bl, err = y.belief(w); err != nil {
		return nil, err
	}
	return &evidence{bl, x.at.log}, nil
}

// rootOf returns the lower triangular root of k, which need not have full rank: if a row depends on
// earlier ones its column is 0. inv is the same with 1 there, so that it can be solved.
func rootOf(k *dense.Matrix) (l, inv *dense.Matrix) {
	n := k.Rows
	l, inv = dense.NewUnder(k.Stop, n, n), dense.NewUnder(k.Stop, n, n)
	for i := range n {
		k.Stop.Row(i)
		row := l.Row(i)
		for j := range i + 1 {
			v := k.Row(i)[j] - dense.Dot(row[:j], l.Row(j)[:j])
			switch {
			case j < i && l.Row(j)[j] > 0:
				row[j] = v / l.Row(j)[j]
			case j == i && v > 64*float64(n)*0x1p-52*k.Row(i)[i]:
				row[i] = math.Sqrt(v)
			}
		}
		copy(inv.Row(i), row)
		if row[i] == 0 {
			inv.Row(i)[i] = 1
		}
	}
	return l, inv
}

// step moves along the natural gradient, halved until the bound rises: moved is its length in
// standard deviations, 0 if no step raises it. From a mode under a wide prior, where the likelihood
// is flat, the first step is some thousand standard deviations long.
func (x *nearest) step(grad, step []float64, next *dense.Matrix) (moved, gain float64, err error) {
	const least, last = 1.0 / 64, 0x1p-40
	was, h, resid, curve, mix := x.at, x.h, x.resid, x.curve, x.mix
	x.resid, x.curve, x.mix = dense.New(resid.Rows, resid.Cols), dense.New(curve.Rows, curve.Cols), dense.New(mix.Rows, mix.Cols)
	for t := 1.0; t >= least || moved >= nearTol && t >= last; t /= 2 {
		x.h = x.search.Matrix(h.Rows, h.Cols)
		for i := range h.Rows {
			x.search.Stop.Row(i)
			row, a, b := x.h.Row(i), h.Row(i), next.Row(i)
			for j := range row {
				row[j] = (1-t)*a[j] + t*b[j]
			}
		}
		for i := range x.mix.Data {
			x.mix.Data[i] = (1-t)*mix.Data[i] + t*curve.Data[i]
		}
		bl, err := x.belief(was.post.Mean)
		if err != nil {
			return 0, 0, err
		}
		bl.post.MulCov(step, grad)
		moved = t * math.Sqrt(max(dense.Dot(step, grad), 0))
		dense.Axpy(t, step, bl.post.Mean)
		x.evaluate(bl, bl.post.Mean)
		if gain = x.at.log - was.log; gain > 0 {
			return moved, gain, nil
		}
	}
	x.at, x.h, x.resid, x.curve, x.mix = was, h, resid, curve, mix
	return 0, 0, nil
}

// belief returns the Gaussian of precision Σ0⁻¹ + h about w.
func (x *nearest) belief(w []float64) (*belief, error) {
	d := len(w)
	b := x.search.Matrix(d, d)
	mode.Whiten(b, x.h, x.root)
	if err := mode.Factor(b); err != nil {
		return nil, err
	}
	return fullBelief(slices.Clone(w), x.root, b), nil
}

// evaluate computes the averages over the rows' predictors and the bound.
func (x *nearest) evaluate(bl *belief, w []float64) {
	s := x.search
	prior := x.root.Of
	dev := memory.Floats(len(w))
	for j, m := range w {
		dev[j] = m - prior.Mean[j]
	}
	eta := dense.New(s.n, s.a)
	s.product(eta, dev)
	dense.Axpy(1, s.base.Data, eta.Data)
	kl := bl.logDet - float64(len(w))
	for j, d := range dev {
		kl += (d*d + bl.post.Var[j]) / prior.Var[j]
	}
	logLik := mode.SumBy(s.Stop, s.n, averageRows, s.a*s.a*pairs, func(lo, hi int) float64 {
		r := newRowAverage(x.z)
		y := s.newPanel(bl.root, true)
		sum := 0.0
		for i := lo; i < hi; i++ {
			mean, curve, resid := eta.Row(i), x.curve.Row(i), x.resid.Row(i)
			clear(curve)
			clear(resid)
			at := (i - lo) % panelRows
			if at == 0 {
				y.fill(s, i, min(i+panelRows, hi))
			}
			omega := s.weight(i)
			if !(omega > 0) {
				continue
			}
			r.covariance(y, at)
			sum += omega * r.average(mean, s.label[i], s.classes.Pinned >= 0)
			k := 0
			for a := range s.a {
				for b := range a + 1 {
					v := -r.pair[k]
					if a == b {
						v += r.prob[a]
					}
					curve[k] = omega * v
					k++
				}
				resid[a] = -omega * r.prob[a]
			}
			if l := s.label[i]; l >= 0 {
				resid[l] += omega
			}
		}
		return sum
	})
	x.at = &evidence{bl, logLik - 0.5*kl}
	if !special.Finite(x.at.log) {
		x.at.log = math.Inf(-1)
	}
}

// gradient sets g to that of the bound in the mean.
func (x *nearest) gradient(g []float64) {
	s := x.search
	s.productT(g, x.resid)
	prior := x.root.Of
	for j, m := range x.at.post.Mean {
		g[j] -= (m - prior.Mean[j]) / prior.Var[j]
	}
}

// average sets h to Σ_i x_i x_iᵀ ⊗ W_i.
func (x *nearest) average(h, w *dense.Matrix) {
	s := x.search
	c, block := memory.Floats(s.n), s.Matrix(s.p, s.p)
	at := 0
	for a := range s.a {
		for b := range a + 1 {
			column(c, w, at)
			at++
			s.Gram(block, c)
			s.setBlocks(h, a, b, block)
		}
	}
}

// rowAverage averages over the predictors of a row: at n points and their negatives.
type rowAverage struct {
	z          *dense.Matrix // A x n: the points
	f          *dense.Matrix // A x 2n: predictors there, then their exponentials and probabilities
	down       []float64
	top, total []float64 // over the classes
	l          []float64 // A x A: root of the predictors' covariance
	prob, pair []float64 // E π, E π πᵀ (lower triangle)
}

func newRowAverage(z *dense.Matrix) *rowAverage {
	n, a := z.Rows, z.Cols
	return &rowAverage{z: z.T(), f: dense.New(a, 2*n), down: memory.Floats(2 * n), top: memory.Floats(2 * n), total: memory.Floats(2 * n),
		l: make([]float64, a*a), prob: make([]float64, a), pair: make([]float64, a*(a+1)/2)}
}

// covariance computes the root of the covariance of the predictors of row i of a panel; its columns
// are 0 where it is rank deficient.
func (r *rowAverage) covariance(y *panel, i int) {
	n := len(r.prob)
	for a := range n {
		for b := range a + 1 {
			yb := y.y[b].Row(i)
			v := dense.Dot(y.y[a].Row(i)[:len(yb)], yb)
			full := v
			for k := range b {
				v -= r.l[a*n+k] * r.l[b*n+k]
			}
			switch {
			case a == b && v > 1e-12*full:
				r.l[a*n+a] = math.Sqrt(v)
			case a != b && r.l[b*n+b] > 0:
				r.l[a*n+b] = v / r.l[b*n+b]
			default:
				r.l[a*n+b] = 0
			}
		}
	}
}

// average sets prob and pair and returns E log p of the class label, where -1 is the one pinned
// at 0.
func (r *rowAverage) average(mean []float64, label int, pinned bool) float64 {
	n := r.z.Cols
	for i := range r.top {
		r.top[i], r.total[i] = math.Inf(-1), 0
	}
	if pinned {
		clear(r.top)
	}
	for a, m := range mean {
		f := r.f.Row(a)
		up, down := f[:n], f[n:]
		clear(up)
		for k, l := range r.l[a*len(mean) : a*len(mean)+a+1] {
			dense.Axpy(l, r.z.Row(k), up)
		}
		for i, u := range up {
			up[i], down[i] = m+u, m-u
		}
		for i, v := range f {
			r.top[i] = max(r.top[i], v)
		}
	}
	for a := range mean {
		f := r.f.Row(a)
		dense.Axpy(-1, r.top, f)
		dense.Exp(f, r.down, f)
		dense.Axpy(1, f, r.total)
	}
	sum := 0.0
	for _, t := range r.top {
		sum -= t
	}
	if pinned {
		dense.Exp(r.top, r.down, r.top)
		dense.Axpy(1, r.down, r.total)
	}
	const some = 16 // a total is between 1 and A + 1: the product of so many is finite
	for i := 0; i < len(r.total); i += some {
		product := 1.0
		for j, t := range r.total[i:min(i+some, len(r.total))] {
			product *= t
			r.total[i+j] = 1 / t
		}
		sum -= math.Log(product)
	}
	share, at := 1/float64(2*n), 0
	for a := range mean {
		f := r.f.Row(a)
		r.prob[a] = share * dense.Dot(f, r.total)
		for i, s := range r.total {
			f[i] *= s
		}
		for b := range a + 1 {
			r.pair[at] = share * dense.Dot(f, r.f.Row(b))
			at++
		}
	}
	if label >= 0 {
		return mean[label] + share*sum // points and their negatives cancel
	}
	return share * sum
}

// pointsOf returns points that each stand for themselves and their negatives, in dim dimensions: an
// additive recurrence by powers of the root of x^(dim+1) = x + 1, through the normal quantile
// function, transformed linearly to covariance I.
//
// Source: [roberts2018].
func pointsOf(dim int) *dense.Matrix {
	n := max(pairs, 2*dim)
	g := 2.0
	for range 60 {
		g = math.Pow(1+g, 1/float64(dim+1))
	}
	z := dense.New(n, dim)
	for k, a := 0, 1.0; k < dim; k++ {
		a /= g
		for i := range n {
			_, u := math.Modf(0.5 + float64(i+1)*a)
			z.Row(i)[k] = special.PhiInv(min(max(u, 1e-12), 1-1e-12))
		}
	}
	return unitCovariance(z)
}

// unitCovariance transforms z to zᵀz = n I, as far as z has rank, by the Cholesky factor of its
// covariance.
func unitCovariance(z *dense.Matrix) *dense.Matrix {
	g := dense.New(z.Cols, z.Cols)
	n := make([]float64, z.Rows)
	for i := range n {
		n[i] = 1 / float64(z.Rows)
	}
	dense.Gram(g, z, n)
	if dense.Cholesky(g) != nil {
		return z
	}
	t := z.T()
	dense.SolveLower(g, t)
	return t.T()
}

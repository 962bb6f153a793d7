package filter

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/memory"

	"gonum.org/v1/gonum/mat"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// DefaultRank is the default number of directions of a low-rank precision.
const DefaultRank = 50

// lowRank keeps the precision Λ = diag(s) + W Wᵀ. A row adds the column sqrt(h) x to W,
// h = β / (1 - vβ). When W has twice the rank in columns, it is truncated by a singular value
// decomposition of diag(s)^-½ W, which does not depend on the units of features; the squares of the
// truncated part go to the diagonal, so that Λ keeps its diagonal. While the columns fit
// (rank >= rows, or >= weights) nothing is truncated and the filter is that of the full covariance.
// A row with negative h (studentt) moves the mean only.
//
// Products go through Woodbury: with M = I + Wᵀ diag(1/s) W = K Kᵀ,
//
//	Σx = (x - W M⁻¹ u) / s,  v = xᵀ diag(1/s) x - |K⁻¹u|²,  u = Wᵀ (x / s)
//
// Source: Chang, Durán-Martín, Shestopaloff, Jones and Murphy (2023), low-rank
// extended Kalman filtering (LO-FI), with a scaled decomposition that is ours.
type lowRank struct {
	p, r, rank    int
	asked         int     // the rank that the options ask for
	interceptPrec float64 // the precision of the intercept's prior, for recast
	s             []float64
	w             []float64     // p rows of room columns, r of them used, the others zero
	gram          *dense.Matrix // Wᵀ diag(1/s) W, lower triangle, room x room
	k             *dense.Matrix // K, room x room, r used

	// of the row last predicted
	cols    []int32
	x       []float64
	u, y, z []float64
	prior   float64 // xᵀ diag(1/s) x
	v       float64
	sx      []float64 // Σx if near is set
	near    bool      // v is so far below prior that the difference is not accurate

	e, qe, n, turned []float64 // scratch
	diag             []float64 // the variances after a call of quick; nil when they changed other than by a row

	cuts    int64
	dropped float64 // the largest share of precision that one cut moved to the diagonal
	convex  int64   // rows with h < 0

	stop *stop.Stop
}

// room is the number of columns allocated, at which W is cut.
func (l *lowRank) room() int { return max(2*l.keep(), l.keep()+1) }

// keep is the number of columns that a cut leaves, at most the number of weights.
func (l *lowRank) keep() int { return min(l.rank, l.p) }

func newLowRank(g *gauss.Normal, rank int) (*lowRank, error) {
	l := &lowRank{rank: kernels.Or(rank, DefaultRank), asked: rank}
	l.init(g.Dim())
	var w *dense.Matrix
	switch g.Form {
	case gauss.Diagonal:
		for i, v := range g.Var {
			l.s[i] = 1 / v
		}
	case gauss.LowRank:
		// (D - FFᵀ)⁻¹ = D⁻¹ + D⁻¹F (I - FᵀD⁻¹F)⁻¹ FᵀD⁻¹
		r := g.F.Cols
		inner := dense.New(r, r)
		f := g.F.Clone()
		weights := make([]float64, g.Dim())
		for i, d := range g.D {
			l.s[i], weights[i] = 1/d, -1/d
			for j := range f.Row(i) {
				f.Row(i)[j] /= d
			}
		}
		dense.Gram(inner, g.F, weights)
		// It is the inverse of M, which rounding destroys if rows contribute 1e16 times what the
		// diagonal does: it is then raised, to a belief that knows less.
		var err error
		for raised := 1.0; raised < 1+1e-5; raised += 10 * max(raised-1, 0x1p-52) {
			root := inner.Clone()
			for i := range r {
				root.Row(i)[i] += raised
			}
			if err = dense.Cholesky(root); err == nil {
				inner = root
				break
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", gauss.ErrNotPD, err)
		}
		ft := f.T()
		dense.SolveLower(inner, ft)
		w = ft.T()
	case gauss.Full:
		var err error
		if w, err = l.split(g); err != nil {
			return nil, err
		}
	}
	switch {
	case w == nil:
	case g.Form == gauss.LowRank && w.Cols < l.room():
		l.setFactor(w) // as the fit was when it ended: the next cut comes at the same row as without the break
	default:
		l.setProjected(w, nil)
	}
	return l, nil
}

// split sets s and returns W for a full precision: with T = diag(Var)^½, W represents the matrix
// TΛT less its least eigenvalue. Cost: O(p³).
func (l *lowRank) split(g *gauss.Normal) (*dense.Matrix, error) {
	p := g.Dim()
	prec := dense.New(p, p)
	if err := g.Prec(prec); err != nil {
		return nil, err
	}
	for i := range p {
		for j := range i + 1 {
			prec.Row(i)[j] *= math.Sqrt(g.Var[i]) * math.Sqrt(g.Var[j])
		}
	}
	vals, vec, ok := eigen(prec)
	if !ok {
		return nil, fmt.Errorf("the covariance has no eigenvalues: %w", gauss.ErrNotPD)
	}
	if p > 0 && !(vals[0] > 0) {
		return nil, fmt.Errorf("least eigenvalue %v of the scaled precision: %w", vals[0], gauss.ErrNotPD)
	}
	w := dense.New(p, p)
	for i := range p {
		l.s[i] = vals[0] / g.Var[i]
		for j := range p {
			w.Row(i)[j] = vec.At(i, j) * math.Sqrt(math.Max(vals[j]-vals[0], 0)/g.Var[i])
		}
	}
	return w, nil
}

func (l *lowRank) init(p int) {
	l.p = p
	room := l.room()
	l.s, l.w = memory.Floats(p), stop.Make[float64](l.stop, p*room)
	if l.gram == nil || l.gram.Rows < room {
		l.gram, l.k = dense.NewUnder(l.stop, room, room), dense.NewUnder(l.stop, room, room)
		l.u, l.y, l.z = make([]float64, room), make([]float64, room), make([]float64, room)
	}
}

// row returns row i of W.
func (l *lowRank) row(i int) []float64 {
	lo := i * l.room()
	return l.w[lo : lo+l.r : lo+l.r]
}

// matrix returns W as a view.
func (l *lowRank) matrix() *dense.Matrix {
	return &dense.Matrix{Rows: l.p, Cols: l.r, Stride: l.room(), Data: l.w, Stop: l.stop}
}

func (l *lowRank) grow(p int, move []int, variance []float64) {
	l.diag = nil
	old := *l
	l.init(p)
	for i, v := range variance {
		l.s[i] = 1 / v
	}
	for i, to := range move {
		l.s[to] = old.s[i]
		copy(l.row(to), old.row(i))
	}
	if l.gram == old.gram {
		return
	}
	for i := range l.r {
		copy(l.gram.Row(i), old.gram.Row(i)[:l.r])
		copy(l.k.Row(i), old.k.Row(i)[:l.r])
	}
}

func (l *lowRank) predict(cols []int32, x []float64) float64 {
	l.cols, l.x = cols, x
	u := l.u[:l.r]
	clear(u)
	l.prior = 0
	for e, j := range cols {
		xs := x[e] / l.s[j]
		l.prior += x[e] * xs
		dense.Axpy(xs, l.row(int(j)), u)
	}
	y := l.y[:l.r]
	copy(y, u)
	dense.SolveLowerVec(l.factor(), y)
	l.v = l.prior - dense.Dot(y, y)
	if l.near = !(l.v >= nearly*l.prior) && l.prior <= math.MaxFloat64; l.near {
		l.v = math.Max(l.objective(cols, x), 1e-30*l.prior)
	}
	return l.v
}

// nearly is the share of the prior variance below which the difference for a variance is inaccurate.
const nearly = 1e-6

// objective is the variance of the row predicted; it sets sx and z to its Σx and M⁻¹u. With z
//
//	v = |diag(s)^-½ (x - Wz)|² + |z|²,
//
// the least value that a ridge regression of the row on W reaches: a sum of squares, in which an
// error of z enters squared. Cost: O(p r).
func (l *lowRank) objective(cols []int32, x []float64) float64 {
	z := l.z[:l.r]
	copy(z, l.y)
	dense.SolveLowerTVec(l.factor(), z)
	l.sx = resize(l.sx, l.p)
	for i := range l.sx {
		l.sx[i] = -dense.Dot(l.row(i), z)
	}
	for e, j := range cols {
		l.sx[j] += x[e]
	}
	v := dense.Dot(z, z)
	for i, d := range l.sx {
		l.sx[i] = d / l.s[i]
		v += d * l.sx[i]
	}
	return v
}

func (l *lowRank) factor() *dense.Matrix { return l.k.Slice(0, l.r, 0, l.r) }

func (l *lowRank) absorb(mean []float64, t lik.Tilted) {
	z := l.z[:l.r]
	if l.near {
		dense.Axpy(t.Alpha, l.sx, mean)
	} else {
		copy(z, l.y)
		dense.SolveLowerTVec(l.factor(), z)
		for i := range l.p {
			if d := dense.Dot(l.row(i), z); d != 0 {
				mean[i] -= t.Alpha * d / l.s[i]
			}
		}
		for e, j := range l.cols {
			mean[j] += t.Alpha * l.x[e] / l.s[j]
		}
	}
	if l.diag != nil {
		l.narrow(z, t)
	}
	h := t.Beta / t.Ratio
	if !(h > 0) {
		if h < 0 {
			l.convex++
		}
		return
	}
	// The new column borders M: [M, √h u; ·, 1 + h xᵀx/s].
	root := math.Sqrt(h)
	r := l.r
	g := l.gram.Row(r)
	k := l.k.Row(r)
	rest := 1 + h*l.v // Schur complement 1 + h (xᵀx/s - |y|²)
	for j := range r {
		g[j], k[j] = root*l.u[j], root*l.y[j]
	}
	g[r], k[r] = h*l.prior, math.Sqrt(rest)
	room := l.room()
	for e, j := range l.cols {
		l.w[int(j)*room+r] = root * l.x[e]
	}
	l.r++
	if l.r == room {
		l.cut()
	}
}

// narrow subtracts β (Σx)² from the variances in diag; z is M⁻¹u.
func (l *lowRank) narrow(z []float64, t lik.Tilted) {
	l.e = resize(l.e, l.p)
	for i := range l.p {
		l.e[i] = -dense.Dot(l.row(i), z) / l.s[i]
	}
	for e, j := range l.cols {
		l.e[j] += l.x[e] / l.s[j]
	}
	for i, v := range l.diag {
		l.diag[i] = math.Max(v-t.Beta*l.e[i]*l.e[i], v*math.Min(t.Ratio, 1))
	}
}

// cut truncates W to its rank.
func (l *lowRank) cut() {
	if l.r <= l.keep() {
		return
	}
	l.setProjected(l.matrix().Clone(), l.gram.Slice(0, l.r, 0, l.r))
}

// setProjected sets the low-rank part to w (p x any), truncated to the rank if it is wider; gram is
// wᵀ diag(1/s) w, nil if unknown.
func (l *lowRank) setProjected(w, gram *dense.Matrix) {
	c, keep := w.Cols, l.keep()
	if c > keep {
		if gram == nil {
			gram = dense.NewUnder(l.stop, c, c)
			dense.Gram(gram, w, l.inverse())
		}
		all, kept := 0.0, 0.0
		for i := range c {
			all += gram.At(i, i)
		}
		top := dense.NewUnder(l.stop, c, keep)
		if vals, vec, ok := eigen(gram); ok {
			for j := range keep { // largest first
				kept += math.Max(vals[c-1-j], 0)
				for i := range c {
					top.Row(i)[j] = vec.At(i, c-1-j)
				}
			}
		}
		cutW := dense.NewUnder(l.stop, l.p, keep)
		dense.Mul(cutW, w, top)
		for i := range l.p {
			// What the rotation loses of row i; rows within the rank lose only rounding errors.
			a, b := w.Row(i), cutW.Row(i)
			before := dense.Dot(a, a)
			if lost := before - dense.Dot(b, b); lost > 1e-14*before {
				l.s[i] += lost
			}
		}
		if all > 0 {
			l.dropped = math.Max(l.dropped, 1-kept/all)
		}
		l.cuts++
		w = cutW
	}
	l.setFactor(w)
}

// setFactor sets the low-rank part to w, which has fewer than room columns.
func (l *lowRank) setFactor(w *dense.Matrix) {
	l.diag = nil
	clear(l.w)
	l.r = w.Cols
	for i := range l.p {
		copy(l.row(i), w.Row(i))
	}
	l.refactor()
}

func (l *lowRank) inverse() []float64 {
	inv := memory.Floats(l.p)
	for i, s := range l.s {
		inv[i] = 1 / s
	}
	return inv
}

// refactor computes gram and K from s and W.
func (l *lowRank) refactor() {
	if l.r == 0 {
		return
	}
	g := l.square()
	l.qe = resize(l.qe, l.p)
	for i, s := range l.s {
		l.qe[i] = 1 / s
	}
	dense.Gram(g, l.matrix(), l.qe)
	for i := range l.r {
		copy(l.gram.Row(i)[:l.r], g.Row(i))
		g.Row(i)[i]++
	}
	if dense.Cholesky(g) != nil {
		// I plus a Gram matrix: only overflow fails, and then predict reports it.
		for i := range l.r {
			g.Row(i)[i] = math.Inf(1)
		}
	}
	for i := range l.r {
		copy(l.k.Row(i)[:i+1], g.Row(i)[:i+1])
	}
}

// walk computes Σ + diag(q) in closed form. With e = 1/(1 + s q),
//
//	s' = s e,  W' = diag(e) W R⁻ᵀ,  R Rᵀ = I + Wᵀ diag(q e) W
//
// without cancellation. Cost: O(p r²).
func (l *lowRank) walk(scale float64, d []float64) {
	if scale == 0 {
		return
	}
	if l.diag != nil {
		for i := range l.diag {
			l.diag[i] += scale * d[i]
		}
	}
	l.e, l.qe = resize(l.e, l.p), resize(l.qe, l.p)
	for i, s := range l.s {
		q := scale * d[i]
		e := 1 / (1 + s*q)
		l.e[i], l.qe[i] = e, q*e
		l.s[i] = s * e
	}
	if l.r == 0 {
		return
	}
	n := l.square()
	dense.Gram(n, l.matrix(), l.qe)
	for i := range l.r {
		n.Row(i)[i]++
	}
	if dense.Cholesky(n) == nil { // otherwise the noise overflows, and s alone shows it
		l.turned = resize(l.turned, l.r*l.p)
		t := &dense.Matrix{Rows: l.r, Cols: l.p, Stride: l.p, Data: l.turned, Stop: l.stop}
		for i := range l.p {
			for j, v := range l.row(i) {
				t.Data[j*l.p+i] = v
			}
		}
		dense.SolveLower(n, t)
		for i, e := range l.e {
			row := l.row(i)
			for j := range row {
				row[j] = e * t.Data[j*l.p+i]
			}
		}
	}
	l.refactor()
}

// square returns r x r scratch memory.
func (l *lowRank) square() *dense.Matrix {
	l.n = resize(l.n, l.r*l.r)
	return &dense.Matrix{Rows: l.r, Cols: l.r, Stride: l.r, Data: l.n, Stop: l.stop}
}

// mulPrec sets dst to Λ x.
func (l *lowRank) mulPrec(dst, x []float64) {
	u := make([]float64, l.r)
	dense.GemvT(u, l.matrix(), x)
	for i, s := range l.s {
		dst[i] = s*x[i] + dense.Dot(l.row(i), u)
	}
}

// solve sets dst to Λ⁻¹ x.
func (l *lowRank) solve(dst, x []float64) {
	for i, s := range l.s {
		dst[i] = x[i] / s
	}
	u := make([]float64, l.r)
	dense.GemvT(u, l.matrix(), dst)
	dense.SolveLowerVec(l.factor(), u)
	dense.SolveLowerTVec(l.factor(), u)
	for i, s := range l.s {
		dst[i] = (x[i] - dense.Dot(l.row(i), u)) / s
	}
}

func (l *lowRank) logDetPrec() float64 {
	sum := 0.0
	for _, s := range l.s {
		sum += math.Log(s)
	}
	for i := range l.r {
		sum += 2 * math.Log(l.k.At(i, i))
	}
	return sum
}

// recast changes the coordinates: the intercept's part of the diagonal, which refers to numbers at
// the old centres, moves to W.
func (l *lowRank) recast(ratio, shift []float64, to int) {
	if to >= 0 && dense.Dot(shift, shift) > 0 && l.s[to] > 1e-4*l.interceptPrec { // otherwise it is there
		if l.r+1 >= l.room() {
			l.cut()
		}
		rest := l.rest(shift, to)
		l.w[to*l.room()+l.r] = math.Sqrt(l.s[to] - rest)
		l.s[to] = rest
		l.r++
	}
	l.transform(ratio, shift, to)
	l.refactor()
}

// restoreIntercept moves the intercept's part of the diagonal back from W, to which recast moved it
// before the fit: the continued run's recast has brought its column, the last, back to the
// intercept alone.
func (l *lowRank) restoreIntercept(to int) {
	if l.r == 0 {
		return
	}
	at, own, others := l.r-1, 0.0, 0.0
	for i := range l.p {
		x := l.row(i)[at]
		if share := x * (x / l.s[i]); i == to {
			own = x * x
		} else {
			others += share
		}
	}
	if !(own > 0) || others > 1e-12 {
		return
	}
	for i := range l.p {
		l.row(i)[at] = 0
	}
	l.s[to] += own
	l.r--
	l.refactor()
}

// rest is the amount of the intercept's part of the diagonal that stays there. It refers to the
// wrong centres, a relative error of rest times the variance of the intercept at the new ones, but
// variances are differences from 1/rest, which rounding spoils by ε/rest: the value balances the
// two if the weights are known well, when the prior says little anyway.
func (l *lowRank) rest(shift []float64, to int) float64 {
	cols, x := make([]int32, l.p), memory.Floats(l.p)
	for j := range cols {
		cols[j], x[j] = int32(j), shift[j]
	}
	moved := l.variance(cols, x, to)
	clear(x)
	here := l.variance(cols, x, to)
	r := math.Sqrt(0x1p-52 / (here * moved))
	return min(max(r, 1e-8*l.s[to]), 0.99e-4*l.interceptPrec)
}

// variance is the variance of the row x plus the intercept.
func (l *lowRank) variance(cols []int32, x []float64, to int) float64 {
	x[to]++
	return l.predict(cols, x)
}

// transform transforms W, and the diagonal weight by weight, to other coordinates.
func (l *lowRank) transform(ratio, shift []float64, to int) {
	l.diag = nil
	for j, r := range ratio {
		row := l.row(j)
		if to >= 0 && shift[j] != 0 {
			dense.Axpy(-shift[j], l.row(to), row)
		}
		l.s[j] /= r * r
		for i := range row {
			row[i] /= r
		}
	}
}

// restore is recast with the prior on the diagonal staying there, for the new weights: W changes
// exactly, and what cuts moved to the diagonal stays too. mean comes as that of the old weights; it
// is transformed and then corrected for the change of the diagonal, so that nothing cancels in what
// the rows contribute.
func (l *lowRank) restore(mean, ratio, shift []float64, to int, restMu, restV []float64) {
	nu, moved := memory.Floats(l.p), memory.Floats(l.p)
	for j, m := range mean {
		nu[j] = l.s[j]*m - restMu[j]/restV[j]
		moved[j] = ratio[j] * m
	}
	if to >= 0 {
		moved[to] += dense.Dot(shift, mean)
	}
	l.transform(ratio, shift, to)
	for j, r := range ratio {
		if to >= 0 {
			nu[j] -= shift[j] * nu[to]
		}
		nu[j] /= r
		if s := l.s[j] + (1-1/(r*r))/restV[j]; s > 0 {
			l.s[j] = s
		}
	}
	for j, m := range restMu {
		nu[j] += m/restV[j] - l.s[j]*moved[j]
	}
	l.refactor()
	l.solve(mean, nu)
	dense.Axpy(1, moved, mean)
}

// forget: Λ = λ(diag(s) + WWᵀ) + (1-λ) diag(1/restV).
func (l *lowRank) forget(lambda float64, mean, restMu, restV []float64) error {
	if lambda == 1 {
		return nil
	}
	l.diag = nil
	d, nu := memory.Floats(l.p), memory.Floats(l.p)
	for i := range d {
		d[i] = mean[i] - restMu[i]
	}
	// Λ'd' = λΛd: the mean moves back by Λ'⁻¹(1-λ)Λ0 d, without cancellation.
	root := math.Sqrt(lambda)
	for i := range l.p {
		rest := (1 - lambda) / restV[i]
		own := 1 / restV[i] // the prior's part of the diagonal stays, however large λ is
		if s := own + lambda*(l.s[i]-own); s > 0 {
			l.s[i] = s
		} else { // the weight has drifted past its prior
			rest = (1 - lambda) * l.s[i]
		}
		for j, v := range l.row(i) {
			l.row(i)[j] = v * root
		}
		nu[i] = rest * d[i]
	}
	l.refactor()
	l.solve(d, nu)
	for i := range mean {
		mean[i] -= d[i]
	}
	return nil
}

// merge joins the columns and truncates them to the rank. A low-rank part of the start is in both
// factors: it is removed from the second one, by the eigenvalues of the difference of the two.
func (l *lowRank) merge(other, start covariance, da, db []float64) ([]float64, float64, float64, error) {
	o, p0 := other.(*lowRank), start.(*lowRank)
	// All is relative to the mean of the narrower part: what the two share does not cancel.
	nl, no := l.logDetPrec(), o.logDetPrec()
	base, part := da, struct {
		*lowRank
		d []float64
	}{o, db}
	if no > nl {
		base, part.lowRank, part.d = db, l, da
	}
	logC, apart := 0.5*(nl+no-p0.logDetPrec()), 0.0
	nu, term, away := memory.Floats(l.p), memory.Floats(l.p), memory.Floats(l.p)
	for i, m := range base {
		away[i] = part.d[i] - m
	}
	part.mulPrec(nu, away)
	apart += dense.Dot(nu, away)
	p0.mulPrec(term, base)
	apart -= dense.Dot(term, base)
	dense.Axpy(1, term, nu)
	s := memory.Floats(l.p)
	for i := range s {
		// Cuts and data only add to s, so that the gains of both parts add up.
		if s[i] = l.s[i] + (o.s[i] - p0.s[i]); !(s[i] > 0) {
			return nil, 0, 0, fmt.Errorf("no proper product: precision %v + %v - %v on the diagonal", l.s[i], o.s[i], p0.s[i])
		}
	}
	w, err := signed(s, []*dense.Matrix{l.matrix(), o.matrix()}, p0.matrix())
	if err != nil {
		return nil, 0, 0, err
	}
	l.s = s
	l.cuts += o.cuts
	l.convex += o.convex
	l.dropped = math.Max(l.dropped, o.dropped)
	l.r = 0
	l.setProjected(w, nil)
	d := memory.Floats(l.p)
	l.solve(d, nu)
	apart -= dense.Dot(nu, d)
	dense.Axpy(1, base, d)
	return d, logC - 0.5*(apart+l.logDetPrec()), apart, nil
}

// signed returns a W with W Wᵀ = Σ plus plusᵀ - minus minusᵀ; remaining negative parts go to s, and
// the product is improper, an error, unless s stays positive.
func signed(s []float64, plus []*dense.Matrix, minus *dense.Matrix) (*dense.Matrix, error) {
	p, c := len(s), 0
	for _, m := range plus {
		c += m.Cols
	}
	all := dense.NewUnder(minus.Stop, p, c+minus.Cols)
	for i := range p {
		row := all.Row(i)[:0]
		for _, m := range plus {
			row = append(row, m.Row(i)...)
		}
		_ = append(row, minus.Row(i)...)
	}
	if minus.Cols == 0 {
		return all, nil
	}
	evals, dirs, err := signedDirections(s, all, c)
	if err != nil {
		return nil, err
	}
	var keep []int
	for j := len(evals) - 1; j >= 0; j-- {
		if evals[j] > 0 {
			keep = append(keep, j)
		}
	}
	w := dense.NewUnder(all.Stop, p, len(keep))
	for i := range p {
		all.Stop.Row(i)
		for j, e := range evals {
			if d := dirs.At(i, j); e < 0 {
				s[i] += e * d * d
			}
		}
		if !(s[i] > 0) {
			return nil, fmt.Errorf("no proper product: precision %v on the diagonal", s[i])
		}
		for to, j := range keep {
			w.Row(i)[to] = dirs.At(i, j) * math.Sqrt(evals[j])
		}
	}
	return w, nil
}

// signedDirections returns the directions of all J allᵀ and their eigenvalues, J with 1 for the
// first c columns and -1 for the others: with Z = diag(s)^-½ all and ZᵀZ = V Γ Vᵀ the nonzero
// eigenvalues of Z J Zᵀ are those of Γ^½ Vᵀ J V Γ^½, its eigenvectors Z V Γ^-½ times theirs.
func signedDirections(s []float64, all *dense.Matrix, c int) (evals []float64, dirs *dense.Matrix, err error) {
	p, n := len(s), all.Cols
	inv := memory.Floats(p)
	for i, v := range s {
		inv[i] = 1 / v
	}
	gram := dense.NewUnder(all.Stop, n, n)
	dense.Gram(gram, all, inv)
	vals, vec, ok := eigen(gram)
	if !ok {
		return nil, nil, fmt.Errorf("no proper product: the factors overflow")
	}
	from := 0
	for from < n && vals[from] <= 1e-14*vals[n-1] {
		from++
	}
	k := n - from
	half := dense.New(n, k) // V Γ^½ over the kept directions
	basis := dense.New(n, k)
	for i := range n {
		for j := range k {
			g := math.Sqrt(vals[from+j])
			half.Row(i)[j] = vec.At(i, from+j) * g
			basis.Row(i)[j] = vec.At(i, from+j) / g
		}
	}
	sign := memory.Floats(n)
	for i := range sign {
		sign[i] = 1
		if i >= c {
			sign[i] = -1
		}
	}
	core := dense.NewUnder(all.Stop, k, k)
	dense.Gram(core, half, sign)
	evals, evec, ok := eigen(core)
	if !ok {
		return nil, nil, fmt.Errorf("no proper product: the factors overflow")
	}
	turn := dense.NewUnder(all.Stop, n, k)
	dense.Mul(turn, basis, evec)
	dirs = dense.NewUnder(all.Stop, p, k)
	dense.Mul(dirs, all, turn)
	return evals, dirs, nil
}

// eigen returns the eigenvalues of a symmetric matrix, ascending, and their vectors; it reads the
// lower triangle.
func eigen(m *dense.Matrix) ([]float64, *dense.Matrix, bool) {
	n := m.Rows
	if n == 0 {
		return nil, dense.New(0, 0), true
	}
	sym := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range i + 1 {
			if !special.Finite(m.At(i, j)) {
				return nil, nil, false
			}
			sym.SetSym(i, j, m.At(i, j))
		}
	}
	var e mat.EigenSym
	var v mat.Dense
	found := false
	m.Stop.Beside(func() {
		if found = e.Factorize(sym, true); found {
			e.VectorsTo(&v)
		}
	})
	if !found {
		return nil, nil, false
	}
	out := dense.NewUnder(m.Stop, n, n)
	for i := range n {
		for j := range n {
			out.Row(i)[j] = v.At(i, j)
		}
	}
	return e.Values(nil), out, true
}

// normal returns D and F of Σ = diag(D) - F Fᵀ, F = diag(1/s) W K⁻ᵀ, and the variances.
func (l *lowRank) normal() (d []float64, f *dense.Matrix, variance []float64) {
	wt := l.matrix().T()
	dense.SolveLower(l.factor(), wt)
	f = wt.T()
	d, variance = l.inverse(), memory.Floats(l.p)
	for i := range f.Rows {
		l.stop.Row(i)
		row := f.Row(i)
		for j := range row {
			row[j] *= d[i]
		}
		// If rounding removes all of the variance, the row of F is shortened, which widens it.
		// Numbers that overflowed never get there; the last check of the fit finds them.
		for shrink := 1e-15; shrink < 1; shrink *= 4 {
			if variance[i] = d[i] - dense.Dot(row, row); variance[i] > 0 {
				break
			}
			for j := range row {
				row[j] *= 1 - shrink
			}
		}
	}
	return d, f, variance
}

// variances are those of normal; those whose difference has no digits are the objective's, up to
// mostExact operations.
func (l *lowRank) variances(dst []float64) {
	d, _, v := l.normal()
	copy(dst, v)
	room := mostExact
	for i := range v {
		if !(v[i] < nearly*d[i]) {
			continue
		}
		if room -= l.p * (l.r + 1); room < 0 {
			return
		}
		if w := l.predict([]int32{int32(i)}, []float64{1}); w > 0 {
			dst[i] = w
		}
	}
}

// mostExact is about a second's work.
const mostExact = 1_000_000_000

func (l *lowRank) quick(dst []float64) {
	if l.diag == nil {
		l.diag = memory.Floats(l.p)
		l.variances(l.diag)
	}
	copy(dst, l.diag)
}

// pack keeps every column, up to twice the rank: if it truncated them, a run continued from its fit
// would differ from the uninterrupted one.
func (l *lowRank) pack(places []int32) (kernels.Covariance, error) {
	d, f, _ := l.normal()
	out := kernels.Covariance{Form: gauss.LowRank, Rank: f.Cols, Values: stop.Make[float64](l.stop, len(places)*(f.Cols+1))[:0]}
	none := make([]float64, f.Cols+1)
	for k, j := range places {
		l.stop.Row(k)
		if j < 0 {
			out.Values = append(out.Values, none...)
			continue
		}
		out.Values = append(append(out.Values, d[j]), f.Row(int(j))...)
	}
	return out, nil
}

func (l *lowRank) clone() covariance {
	c := *l
	c.gram, c.e, c.qe, c.n, c.turned, c.diag = nil, nil, nil, nil, nil, nil
	c.init(l.p)
	copy(c.s, l.s)
	copy(c.w, l.w)
	copy(c.gram.Data, l.gram.Data)
	copy(c.k.Data, l.k.Data)
	return &c
}

func (l *lowRank) under(s *stop.Stop) { l.stop, l.gram.Stop, l.k.Stop = s, s, s }

func (l *lowRank) size() int64 {
	room := int64(l.room())
	return 8 * (int64(cap(l.s)+cap(l.w)+cap(l.e)+cap(l.qe)+cap(l.n)+cap(l.turned)) + 2*room*room + 3*room)
}

func (l *lowRank) status() string {
	switch {
	case l.convex > 0:
		return fmt.Sprintf("%d %s that would raise the variance moved the mean only: a low rank can only add precision", l.convex, kernels.Inflect(l.convex, "row", "rows"))
	case l.asked > l.p:
		return fmt.Sprintf("rank %d was cut to the %d weights there are", l.asked, l.p)
	case l.dropped > 1e-12:
		return fmt.Sprintf("%d %s to rank %d, the largest moved %.2g of the low-rank precision to the diagonal", l.cuts, kernels.Inflect(l.cuts, "cut", "cuts"), l.rank, l.dropped)
	}
	return ""
}

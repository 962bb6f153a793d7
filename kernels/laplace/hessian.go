package laplace

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
)

// A belief is the Gaussian taken at a point of the log posterior.
type belief struct {
	post   *gauss.Normal
	logDet float64 // log |I + Σ0 H| for the Hessian H chosen
	// rows sets dst_i to the derivative of logDet in the curvature of row i; for all
	// but low rank that is the posterior variance of the predictor.
	rows    func(dst []float64)
	floored bool // rows of negative curvature were taken as 0
	note    string
}

// gaussian takes the Gaussian with the chosen Hessian at weights w, curv = -l” of
// the rows there.
func (e *engine) gaussian(w, curv []float64) (*belief, error) {
	switch e.hessian {
	case "full":
		return e.fullAt(w, curv)
	case "block":
		return e.blockAt(w, curv)
	case "diagonal":
		return e.diagonalAt(w, curv)
	}
	return e.lowRankAt(w, curv)
}

const flooredNote = "rows of negative curvature count as 0 in the Hessian, for the posterior is not a maximum in every direction without that"

func (e *engine) fullAt(w, curv []float64) (*belief, error) {
	p := e.x.P
	s := e.search
	bl := &belief{}
	var b *dense.Matrix
	if s.space == weightSpace && e.assembled {
		b = s.b
		if s.floored {
			bl.floored = true
		}
	} else {
		b = dense.New(p, p)
		floored, err := newHessian(e.x).factor(b, e.root, curv)
		if err != nil {
			return nil, err
		}
		if floored {
			bl.floored = true
		}
	}
	bl.logDet = dense.LogDet(b)
	bl.post = gauss.NewFull(w, posteriorRoot(e.root, b))
	bl.rows = func(dst []float64) { e.spread(dst, bl.post) }
	return bl, nil
}

// posteriorRoot is the lower triangular root of T B⁻¹ Tᵀ, b the factor of B in
// reverse order as whitened leaves it.
func posteriorRoot(t *root, b *dense.Matrix) *dense.Matrix {
	p := b.Rows
	inv := dense.New(p, p)
	for i := range p {
		inv.Row(i)[i] = 1
	}
	dense.SolveLower(b, inv)
	l := dense.New(p, p)
	for i := range p {
		row := l.Row(i)
		for j := range i + 1 {
			row[j] = inv.Row(p - 1 - j)[p-1-i]
		}
	}
	if t.prior.Form == gauss.Full {
		dense.Mul(inv, t.prior.L, l)
		for i := range p {
			clear(inv.Row(i)[i+1:])
		}
		return inv
	}
	for i, s := range t.s {
		for j := range l.Row(i)[:i+1] {
			l.Row(i)[j] *= s
		}
	}
	return l
}

// lowerOf sets dst to the lower triangular L with L Lᵀ = aᵀa, by QR of a.
func lowerOf(dst, a *dense.Matrix) {
	var qr mat.QR
	qr.Factorize(mat.NewDense(a.Rows, a.Cols, a.Clone().Data))
	var r mat.Dense
	qr.RTo(&r)
	for i := range dst.Rows {
		clear(dst.Row(i))
	}
	for k := range dst.Rows {
		sign := math.Copysign(1, r.At(k, k))
		for i := k; i < dst.Rows; i++ {
			dst.Row(i)[k] = sign * r.At(k, i)
		}
	}
}

// spread sets dst to the variances of the predictors under g.
func (e *engine) spread(dst []float64, g *gauss.Normal) {
	d := e.x
	if d.x != nil && g.Form == gauss.Full {
		const block = 1024
		buf := dense.New(min(block, d.N), d.P)
		for lo := 0; lo < d.N; lo += block {
			hi := min(lo+block, d.N)
			xl := buf.Slice(0, hi-lo, 0, d.P)
			dense.Mul(xl, d.x.Slice(lo, hi, 0, d.P), g.L)
			for i := lo; i < hi; i++ {
				r := xl.Row(i - lo)
				dst[i] = dense.Dot(r, r)
			}
		}
		return
	}
	d.parallel(d.N, len(d.Col)*(1+d.P/8), func(lo, hi int) {
		var scratch []float64
		for i := lo; i < hi; i++ {
			col, val := d.Entries(i)
			_, dst[i] = g.Linear(col, val, &scratch)
		}
	})
}

func (e *engine) diagonalAt(w, curv []float64) (*belief, error) {
	p := e.x.P
	bl := &belief{}
	h := make([]float64, p)
	e.x.squares(h, curv)
	lambda, logDet0, err := precision(e.root.prior)
	if err != nil {
		return nil, err
	}
	variance := make([]float64, p)
	bl.logDet = logDet0
	for j, l := range lambda {
		if !(l+h[j] > 0) {
			h[j], bl.floored = 0, true
		}
		q := l + h[j]
		if !(q > 0) || math.IsInf(q, 1) {
			return nil, errOverflow
		}
		variance[j] = 1 / q
		if e.root.prior.Form == gauss.Diagonal {
			bl.logDet += math.Log1p(h[j] / l) // exact where the data say little
		} else {
			bl.logDet += math.Log(q)
		}
	}
	bl.post = gauss.NewDiagonal(w, variance)
	bl.rows = func(dst []float64) { e.spread(dst, bl.post) }
	return bl, nil
}

var errOverflow = fmt.Errorf("the curvature of the log posterior overflows; scale the features or give smaller prior variances")

// precision is the diagonal of Λ0, and log |Σ0| for the forms whose determinant the
// caller does not have term by term.
func precision(g *gauss.Normal) (lambda []float64, logDet float64, err error) {
	lambda = make([]float64, g.Dim())
	if g.Form == gauss.Diagonal {
		for j, v := range g.Var {
			lambda[j] = 1 / v
		}
		return lambda, 0, nil
	}
	if logDet, err = g.LogDet(); err != nil {
		return nil, 0, err
	}
	if g.Form == gauss.Full {
		inv := dense.New(g.Dim(), g.Dim())
		dense.InverseFromCholesky(inv, g.L)
		for j := range lambda {
			lambda[j] = inv.Row(j)[j]
		}
		return lambda, logDet, nil
	}
	// Woodbury by the eigenvectors of root: Λ0 = D^-½ (I - GGᵀ)⁻¹ D^-½
	t, err := newRoot(g)
	if err != nil {
		return nil, 0, err
	}
	for j, d := range g.D {
		s := 1.0
		for k, v := range t.g.Row(j) {
			s += v * v / (1 - t.e[k])
		}
		lambda[j] = s / d
	}
	return lambda, logDet, nil
}

// maxBlockWeights bounds the packed covariance of hessian 'block': 8 bytes times
// p²/2, 800 MB.
const maxBlockWeights = 14000

// blocks lists the columns of each block: a group each, the intercept by itself.
func (e *engine) blocks() [][]int {
	group, names := e.x.Groups()
	out := make([][]int, len(names)+1)
	for j, g := range group {
		out[g+1] = append(out[g+1], j)
	}
	return out
}

func (e *engine) blockAt(w, curv []float64) (*belief, error) {
	d := e.x
	p := d.P
	bl := &belief{}
	prior := e.root.prior
	// The blocks of Λ0 are those of the prior where it is diagonal.
	var lambda *dense.Matrix
	if prior.Form != gauss.Diagonal {
		lambda = dense.New(p, p)
		if err := prior.Prec(lambda); err != nil {
			return nil, err
		}
		ld, err := prior.LogDet()
		if err != nil {
			return nil, err
		}
		bl.logDet = ld
	}
	l := dense.New(p, p)
	place := make([]int, p)
	for j := range place {
		place[j] = -1
	}
	c := append([]float64(nil), curv...)
	for _, cols := range e.blocks() {
		if len(cols) == 0 {
			continue
		}
		for k, j := range cols {
			place[j] = k
		}
		n := len(cols)
		scale := make([]float64, n)
		for k, j := range cols {
			scale[k] = math.Sqrt(prior.Var[j])
		}
		h, b := dense.New(n, n), dense.New(n, n)
		build := func() {
			d.blockGram(h, place, c)
			for a := range n {
				for k := range a + 1 {
					v := h.Row(a)[k]
					if lambda != nil {
						v += lambda.Row(cols[a])[cols[k]]
					}
					v *= scale[a] * scale[k]
					if lambda == nil && a == k {
						v++
					}
					h.Row(a)[k], h.Row(k)[a] = v, v
				}
			}
			reverse(b, h)
		}
		build()
		err := dense.Cholesky(b)
		if err != nil {
			for i := range c {
				if c[i] < 0 {
					c[i], bl.floored = 0, true
				}
			}
			build()
			if err = dense.Cholesky(b); err != nil && lambda == nil {
				reverse(b, h)
				err = factor(b)
			}
			if err != nil {
				return nil, fmt.Errorf("block of %q: %w", d.Name(cols[0]), err)
			}
		}
		bl.logDet += dense.LogDet(b)
		if lambda != nil {
			for k := range scale {
				bl.logDet -= 2 * math.Log(scale[k])
			}
		}
		part := posteriorRoot(&root{prior: gauss.NewDiagonal(nil, nil), s: scale}, b)
		for a, i := range cols {
			for k, v := range part.Row(a)[:a+1] {
				l.Row(i)[cols[k]] = v
			}
		}
		for _, j := range cols {
			place[j] = -1
		}
	}
	bl.post = gauss.NewFull(w, l)
	bl.rows = func(dst []float64) { e.spread(dst, bl.post) }
	return bl, nil
}

// blockGram sets dst to XᵀWX for the columns that have a place in dst.
func (d *design) blockGram(dst *dense.Matrix, place []int, w []float64) {
	for a := range dst.Rows {
		clear(dst.Row(a))
	}
	var at []int
	var x []float64
	for i, wi := range w {
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
	mirror(dst)
}

// maxShare is the largest share of a prior variance that one direction of a low-rank
// Hessian takes: what is left, 1e-12 of it, stays well above rounding.
const maxShare = 1 - 1e-12

// lowRankAt keeps the r largest eigenpairs of the whitened data Hessian A = TᵀXᵀWXT:
//
//	Σ = T (I - Q diag(λ/(1+λ)) Qᵀ) Tᵀ,  log |I + Σ0 H| = Σ log(1 + λ)
//
// They are those of Nyström's approximation A Ω (ΩᵀAΩ)⁻¹ ΩᵀA, which is never above A
// in the order of matrices: no direction gets a smaller variance than the full Hessian
// gives it. Ω is an orthonormal basis of A^q G, G random.
//
// Source: Halko, Martinsson and Tropp (2011), algorithms 4.4 and 5.5; Tropp, Yurtsever,
// Udell and Cevher (2017), algorithm 3, for the shift.
func (e *engine) lowRankAt(w, curv []float64) (*belief, error) {
	d, t, opt := e.x, e.root, &e.x.Options
	n, p := d.N, d.P
	bl := &belief{}
	most := min(n, p)
	rank := kernels.Or(opt.Rank, 50)
	if rank > most && opt.Rank == 0 {
		rank = most
	}
	if rank > most {
		bl.note = fmt.Sprintf("rank %d is clamped to %d, the smaller of rows and weights", rank, most)
		rank = most
	}
	wide := min(rank+atLeast0(kernels.Or(opt.Oversample, 10)), p)
	c := append([]float64(nil), curv...)
	for i := range c {
		if c[i] < 0 {
			c[i], bl.floored = 0, true
		}
	}
	// dst = A m, by columns of the p x wide matrices
	xm := dense.New(n, wide)
	apply := func(dst, m *dense.Matrix) {
		tm := t.mulMat(m)
		d.mulMat(xm, tm)
		for i, ci := range c {
			row := xm.Row(i)
			for k := range row {
				row[k] *= ci
			}
		}
		d.mulTMat(dst, xm)
		t.mulTMat(dst)
	}
	omega, y := dense.New(p, wide), dense.New(p, wide)
	if wide == p {
		for j := range p {
			omega.Row(j)[j] = 1
		}
	} else {
		rng := rand.New(rand.NewPCG(opt.Seed, 0x6c61706c616365))
		for i := range omega.Data {
			omega.Data[i] = rng.NormFloat64()
		}
		orthonormal(omega)
		for range atLeast0(kernels.Or(opt.PowerIterations, 2)) {
			apply(y, omega)
			omega, y = y, omega
			orthonormal(omega)
		}
	}
	apply(y, omega)
	q, lambda, err := nystrom(y, omega)
	if err != nil {
		return nil, err
	}
	// largest last; keep rank of them, and none that says nothing
	keep := 0
	for keep < rank && keep < len(lambda) && lambda[len(lambda)-1-keep] > 0 {
		keep++
	}
	f := dense.New(p, keep) // T Q diag(λ/(1+λ))^½
	qt := dense.New(p, keep)
	for k := range keep {
		l := lambda[len(lambda)-1-k]
		bl.logDet += math.Log1p(l)
		for j := range p {
			qt.Row(j)[k] = q.Row(j)[len(lambda)-1-k]
		}
	}
	tq := t.mulMat(qt)
	share := make([]float64, keep)
	for k := range share {
		l := lambda[len(lambda)-1-k]
		share[k] = min(l/(1+l), maxShare)
	}
	for j := range p {
		for k, v := range tq.Row(j) {
			f.Row(j)[k] = v * math.Sqrt(share[k])
		}
	}
	bl.post, err = subtract(t.prior, w, f, qt, share, rank)
	if err != nil {
		return nil, err
	}
	bl.rows = func(dst []float64) {
		d.parallel(n, len(d.Col)*keep, func(lo, hi int) {
			s := make([]float64, keep)
			for i := lo; i < hi; i++ {
				clear(s)
				col, val := d.Entries(i)
				for k, j := range col {
					dense.Axpy(val[k], tq.Row(int(j)), s)
				}
				dst[i] = 0
				for k, v := range s {
					dst[i] += v * v * (1 - share[k])
				}
			}
		})
	}
	return bl, nil
}

func atLeast0(n int) int { return max(n, 0) }

// subtract is N(w, Σ0 - F Fᵀ), F = T Q diag(share)^½, in a form that holds it.
func subtract(prior *gauss.Normal, w []float64, f, q *dense.Matrix, share []float64, rank int) (*gauss.Normal, error) {
	switch prior.Form {
	case gauss.Diagonal:
		return gauss.NewLowRank(w, prior.Var, f)
	case gauss.Full:
		// L (I - Q share Qᵀ) Lᵀ: its inverse's middle is I + Q share/(1-share) Qᵀ
		p := len(w)
		c := make([]float64, len(share))
		for k, s := range share {
			c[k] = s / (1 - s)
		}
		m, b := dense.New(p, p), dense.New(p, p)
		dense.GramT(m, q, c)
		for j := range p {
			m.Row(j)[j]++
		}
		reverse(b, m)
		if err := factor(b); err != nil {
			return nil, err
		}
		return gauss.NewFull(w, posteriorRoot(&root{prior: prior}, b)), nil
	}
	// D - F0 F0ᵀ - F Fᵀ; no more columns than the prior or the rank had, leaving out
	// the weakest, which only widens
	p, r0, r := len(w), prior.F.Cols, f.Cols
	both, scaled := dense.New(p, r0+r), dense.New(p, r0+r)
	for j := range p {
		copy(both.Row(j), prior.F.Row(j))
		copy(both.Row(j)[r0:], f.Row(j))
		for k, v := range both.Row(j) {
			scaled.Row(j)[k] = v / math.Sqrt(prior.D[j])
		}
	}
	most := max(r0, rank)
	if r0+r <= most {
		return gauss.NewLowRank(w, prior.D, both)
	}
	m := dense.New(r0+r, r0+r)
	dense.Gram(m, scaled, nil)
	v, _, err := eigen(m)
	if err != nil {
		return nil, err
	}
	kept := dense.New(p, most)
	dense.Mul(kept, both, v.Slice(0, r0+r, r0+r-most, r0+r))
	return gauss.NewLowRank(w, prior.D, kept)
}

// mulMat is T m, by columns.
func (t *root) mulMat(m *dense.Matrix) *dense.Matrix {
	out := dense.New(m.Rows, m.Cols)
	if t.prior.Form == gauss.Full {
		dense.Mul(out, t.prior.L, m)
		return out
	}
	copyMat(out, m)
	if t.g != nil {
		t.fixMat(out)
	}
	scaleRows(out, t.s)
	return out
}

// mulTMat sets m = Tᵀ m, by columns.
func (t *root) mulTMat(m *dense.Matrix) {
	if t.prior.Form == gauss.Full {
		dense.MulTA(m, t.prior.L, m.Clone())
		return
	}
	scaleRows(m, t.s)
	if t.g != nil {
		t.fixMat(m)
	}
}

func (t *root) fixMat(m *dense.Matrix) {
	gm := dense.New(t.g.Cols, m.Cols)
	dense.MulTA(gm, t.g, m)
	scaleRows(gm, t.c)
	dense.Gemm(m, -1, t.g, false, gm, false, 1)
}

func copyMat(dst, src *dense.Matrix) {
	for i := range src.Rows {
		copy(dst.Row(i), src.Row(i))
	}
}

func scaleRows(m *dense.Matrix, s []float64) {
	for i, v := range s {
		row := m.Row(i)
		for k := range row {
			row[k] *= v
		}
	}
}

// orthonormal replaces the columns of m by an orthonormal basis: Gram-Schmidt with
// each column against those before, twice. A column that depends on them becomes 0.
func orthonormal(m *dense.Matrix) {
	t := m.T()
	for k := range t.Rows {
		v := t.Row(k)
		size := math.Sqrt(dense.Dot(v, v))
		for range 2 {
			for i := range k {
				u := t.Row(i)
				dense.Axpy(-dense.Dot(u, v), u, v)
			}
		}
		left := math.Sqrt(dense.Dot(v, v))
		f := 0.0
		if left > 1e-14*size && finite(1/left) {
			f = 1 / left
		}
		for j := range v {
			v[j] *= f
		}
	}
	copyMat(m, t.T())
}

// nystrom is the eigenvectors, in columns, and eigenvalues in rising order of
// Y (ΩᵀY)⁻¹ Yᵀ, Y = A Ω. Ω has orthonormal columns or zero ones.
func nystrom(y, omega *dense.Matrix) (*dense.Matrix, []float64, error) {
	p, k := y.Rows, y.Cols
	norm := 0.0
	for _, v := range y.Data {
		norm += v * v
	}
	norm = math.Sqrt(norm)
	if !finite(norm) {
		return nil, nil, errOverflow
	}
	// A + shift I instead of A, and the shift off again at the end
	shift := 4e-16 * norm * math.Sqrt(float64(k))
	if shift == 0 {
		return dense.New(p, 0), nil, nil
	}
	ys := y.Clone()
	for j := range p {
		dense.Axpy(shift, omega.Row(j), ys.Row(j))
	}
	c := dense.New(k, k)
	dense.MulTA(c, omega, ys)
	for i := range k {
		for j := range i {
			v := 0.5 * (c.Row(i)[j] + c.Row(j)[i])
			c.Row(i)[j], c.Row(j)[i] = v, v
		}
		if c.Row(i)[i] == 0 { // a zero column of Ω
			c.Row(i)[i] = norm
		}
	}
	if err := dense.Cholesky(c); err != nil {
		return nil, nil, errOverflow
	}
	bt := ys.T()
	dense.SolveLower(c, bt) // B = Y C⁻ᵀ, A ≈ B Bᵀ
	// B = V S Uᵀ: the singular values through Gram-Schmidt keep what a Gram matrix
	// of B would lose
	v := bt.T()
	orthonormal(v)
	r := dense.New(k, k)
	dense.MulTB(r, bt, v.T()) // rows of bt in the basis v: B = v rᵀ
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(k, k, r.Data), mat.SVDThin) {
		return nil, nil, fmt.Errorf("the singular values of a %d x %d matrix were not found", k, k)
	}
	// r = U S Wᵀ, so B = v W S Uᵀ
	var wm mat.Dense
	svd.VTo(&wm)
	sv := svd.Values(nil)
	lambda := make([]float64, k)
	turn := dense.New(k, k)
	for a := range k {
		lambda[k-1-a] = max(sv[a]*sv[a]-shift, 0)
		for i := range k {
			turn.Row(i)[k-1-a] = wm.At(i, a)
		}
	}
	q := dense.New(p, k)
	dense.Mul(q, v, turn)
	return q, lambda, nil
}

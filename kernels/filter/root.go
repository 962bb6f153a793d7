package filter

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
)

// root keeps the lower Cholesky factor of Σ = L Lᵀ column by column: L(i, j) with i >= j at
// start(j) + i - j.
//
// A row is absorbed by Carlson's square-root update, from the last column to the first. With
// f = Lᵀx, c = 1 - vβ before the first column, and for each column
//
//	c' = c + β f_j²,  r = sqrt(c/c')
//	L_j' = r (L_j - (β f_j / c) b),  b' = b + f_j L_j
//
// c ends at 1 and b at Σx. All c are positive, so the diagonal is multiplied by positive numbers
// and nothing can make Σ indefinite.
//
// Source: Bierman, Factorization Methods for Discrete Sequential Estimation (1977),
// chapter V; Carlson (1973).
type root struct {
	p    int
	l    []float64
	f, b []float64 // of the row last predicted: Lᵀx, and memory for Σx
	x    []float64
	top  int // columns above it have f = 0
	stop *stop.Stop
}

// least is the smallest diagonal entry: its square, a variance, does not underflow.
const least = 1e-150

func newRoot(g *gauss.Normal) (*root, error) {
	g, err := g.ToFull()
	if err != nil {
		return nil, err
	}
	r := &root{}
	r.size0(g.Dim())
	for j := range r.p {
		for i, c := j, r.col(j); i < r.p; i++ {
			c[i-j] = g.L.At(i, j)
		}
	}
	return r, nil
}

func (r *root) size0(p int) {
	*r = root{p: p, l: stop.Make[float64](r.stop, p*(p+1)/2), f: memory.Floats(p), b: memory.Floats(p), x: memory.Floats(p), stop: r.stop}
}

func (r *root) logDetPrec() (sum float64) {
	for j := range r.p {
		sum -= 2 * math.Log(r.col(j)[0])
	}
	return sum
}

// col returns column j from the diagonal down.
func (r *root) col(j int) []float64 {
	lo := j*r.p - j*(j-1)/2
	return r.l[lo : lo+r.p-j : lo+r.p-j]
}

func (r *root) grow(p int, move []int, variance []float64) {
	n := root{stop: r.stop}
	n.size0(p)
	for j, v := range variance {
		n.col(j)[0] = math.Sqrt(v)
	}
	for j, to := range move {
		dst := n.col(to)
		for i, v := range r.col(j) {
			dst[move[j+i]-to] = v
		}
	}
	*r = n
}

func (r *root) predict(cols []int32, x []float64) (v float64) {
	r.top = -1
	if n := len(cols); n > 0 {
		r.top = int(cols[n-1])
	}
	wide := 4*len(cols) > r.p
	if wide {
		clear(r.x)
		for e, j := range cols {
			r.x[j] = x[e]
		}
	}
	// Both ways add in the order of the columns, one after the other, and zeros add nothing:
	// features that a row lacks leave every bit unchanged.
	j := 0
	for ; wide && j+4 <= r.top+1; j += 4 {
		dots4(r.f[j:j+4], r.col(j), r.col(j+1), r.col(j+2), r.col(j+3), r.x[j:r.top+1])
	}
	for first := 0; j <= r.top; j++ {
		for int(cols[first]) < j {
			first++
		}
		c, s := r.col(j), 0.0
		for e, i := range cols[first:] {
			s += c[int(i)-j] * x[first+e]
		}
		r.f[j] = s
	}
	for _, f := range r.f[:r.top+1] {
		v += f * f
	}
	return v
}

// dots4 computes the products of four consecutive columns of L with x, which starts where the first
// does.
func dots4(f, a, b, c, d, x []float64) {
	s0 := a[0] * x[0]
	var s1, s2, s3 float64
	if len(x) > 1 {
		s0 += a[1] * x[1]
		s1 = b[0] * x[1]
	}
	if len(x) > 2 {
		s0 += a[2] * x[2]
		s1 += b[1] * x[2]
		s2 = c[0] * x[2]
	}
	if len(x) > 3 {
		x = x[3:]
		a, b, c, d = a[3:][:len(x)], b[2:][:len(x)], c[1:][:len(x)], d[:len(x)]
		for i, v := range x {
			s0 += a[i] * v
			s1 += b[i] * v
			s2 += c[i] * v
			s3 += d[i] * v
		}
	}
	f[0], f[1], f[2], f[3] = s0, s1, s2, s3
}

func (r *root) absorb(mean []float64, t lik.Tilted) {
	clear(r.b)
	c := t.Ratio
	for j := r.top; j >= 0; j-- {
		f := r.f[j]
		if f == 0 {
			continue
		}
		next := c + t.Beta*f*f
		if t.Beta < 0 {
			next = math.Max(next, 1) // c falls to 1 from above
		}
		shrink := math.Sqrt(c / next)
		col := r.col(j)
		first := max(shrink*col[0], least) // no difference to round, no underflow
		carlson(col, r.b[j:], r.x[:len(col)], shrink, t.Beta*f/c*shrink, f)
		col[0] = first
		c = next
	}
	for i, b := range r.b {
		mean[i] += t.Alpha * b
	}
}

// carlson sets l, b = r l - g b, b + f l. For r of a half or more, r l is l + (r-1) l, which the
// vector kernels can do; the choice, and so every bit, depends on r alone.
func carlson(l, b, old []float64, r, g, f float64) {
	if r < 0.5 {
		b = b[:len(l)]
		for i, v := range l {
			l[i] = r*v - g*b[i]
			b[i] += f * v
		}
		return
	}
	copy(old, l)
	dense.Axpy(r-1, old, l)
	dense.Axpy(-g, b, l)
	dense.Axpy(f, old, b)
}

// walk panics: a root is used only if no variance is added.
func (r *root) walk(scale float64, _ []float64) {
	if scale != 0 {
		panic("filter: a root does not walk")
	}
}

func (r *root) recast(ratio, shift []float64, to int) {
	l := r.matrix()
	recastRoot(l, ratio, shift, to)
	r.set(l)
}

// recastRoot is recast of a lower root.
func recastRoot(l *dense.Matrix, ratio, shift []float64, to int) {
	gain, last := make([]float64, l.Rows), 0
	for j, s := range shift {
		if s != 0 {
			dense.Axpy(s, l.Row(j)[:j+1], gain[:j+1])
			last = j
		}
	}
	for j, r := range ratio {
		if r != 1 {
			for i, row := 0, l.Row(j); i <= j; i++ {
				row[i] *= r
			}
		}
	}
	if to >= 0 {
		dense.Axpy(1, gain, l.Row(to))
		dense.Relower(l, to, last)
	}
}

// forget uses Σ' = L (λI + (1-λ) LᵀΛ0L)⁻¹ Lᵀ: with the middle matrix = CᵀC, C lower triangular, the
// new factor is L C⁻¹, and neither Σ nor Λ is formed. The mean becomes μ0 + Σ'λΛ(μ - μ0) = μ0 + λ
// L' C⁻ᵀ L⁻¹ (μ - μ0).
func (r *root) forget(lambda float64, mean, restMu, restV []float64) error {
	if lambda == 1 || r.p == 0 {
		return nil
	}
	// Weights that no row has touched stay at their prior. They are left out, so that names known
	// early, as with chunks of rows, change no bit.
	if live := r.live(mean, restMu, restV); len(live) < r.p {
		return r.forgetSome(live, lambda, mean, restMu, restV)
	}
	return r.forgetAll(lambda, mean, restMu, restV)
}

// forgetAll is forget for all columns.
func (r *root) forgetAll(lambda float64, mean, restMu, restV []float64) error {
	l := r.matrix()
	w := memory.Floats(r.p)
	for i, v := range restV {
		w[i] = (1 - lambda) / v
	}
	n := dense.NewUnder(r.stop, r.p, r.p)
	dense.Gram(n, l, w)
	for i := range r.p {
		n.Row(i)[i] += lambda
	}
	c, err := dense.LowerRoot(n)
	if err != nil {
		return fmt.Errorf("forgetting: %w: %w", gauss.ErrNotPD, err)
	}
	d := memory.Floats(r.p)
	for i := range d {
		d[i] = mean[i] - restMu[i]
	}
	dense.SolveLowerVec(l, d)
	dense.SolveLowerTVec(c, d)
	// L' = L C⁻¹, so L'ᵀ = C⁻ᵀ Lᵀ
	lt := l.T()
	dense.SolveLowerT(c, lt)
	r.set(lt.T())
	clear(mean)
	for j := range r.p {
		dense.Axpy(lambda*d[j], r.col(j), mean[j:])
	}
	for i := range mean {
		mean[i] += restMu[i]
	}
	return nil
}

// live returns the columns that are not both independent of all others and at their prior.
func (r *root) live(mean, restMu, restV []float64) (live []int) {
	tied := make([]bool, r.p)
	for j := range r.p {
		col := r.col(j)
		if mean[j] != restMu[j] || col[0] != math.Sqrt(restV[j]) {
			tied[j] = true
		}
		for i, v := range col[1:] {
			if v != 0 {
				tied[j], tied[j+1+i] = true, true
			}
		}
	}
	for j, is := range tied {
		if is {
			live = append(live, j)
		}
	}
	return live
}

// forgetSome is forget for the columns live; the others are independent.
func (r *root) forgetSome(live []int, lambda float64, mean, restMu, restV []float64) error {
	p := len(live)
	if p == 0 {
		return nil
	}
	part := root{stop: r.stop}
	part.size0(p)
	mu, mu0, v0 := memory.Floats(p), memory.Floats(p), memory.Floats(p)
	for b, j := range live {
		mu[b], mu0[b], v0[b] = mean[j], restMu[j], restV[j]
		from, to := r.col(j), part.col(b)
		for a := range to {
			to[a] = from[live[b+a]-j]
		}
	}
	if err := part.forgetAll(lambda, mu, mu0, v0); err != nil {
		return err
	}
	for b, j := range live {
		mean[j] = mu[b]
		from, to := part.col(b), r.col(j)
		for a, v := range from {
			to[live[b+a]-j] = v
		}
	}
	return nil
}

// matrix returns L, row by row.
func (r *root) matrix() *dense.Matrix {
	m := dense.NewUnder(r.stop, r.p, r.p)
	for j := range r.p {
		r.stop.Row(j)
		for i, v := range r.col(j) {
			m.Row(j + i)[j] = v
		}
	}
	return m
}

// set copies the lower triangle of m.
func (r *root) set(m *dense.Matrix) {
	for j := range r.p {
		r.stop.Row(j)
		c := r.col(j)
		for i := range c {
			c[i] = m.Row(j + i)[j]
		}
	}
}

func (r *root) merge(o, prior covariance, da, db []float64) ([]float64, float64, float64, error) {
	l, d, logC, apart, err := product(r.matrix(), o.(*root).matrix(), prior.(*root).matrix(), da, db)
	if err == nil {
		r.set(l)
	}
	return d, logC, apart, err
}

// product is the product of N(da, A Aᵀ) and N(db, B Bᵀ) over N(0, P Pᵀ): it returns its factor, its
// mean, the log of its integral, and that without the determinants, times -2. A, B and P are lower
// triangular.
func product(a, b, prior *dense.Matrix, da, db []float64) (l *dense.Matrix, d []float64, logC, apart float64, err error) {
	na, nb := dense.LogDet(a), dense.LogDet(b)
	if nb < na {
		a, b, da, db, nb = b, a, db, da, na
	}
	away, back := make([]float64, len(da)), make([]float64, len(da))
	for i, m := range da {
		away[i], back[i] = db[i]-m, -m
	}
	l, d, logDet, apart, err := gauss.Multiply(a, []gauss.Factor{{Times: 1, Root: b, Mean: away}, {Times: -1, Root: prior, Mean: back}}, nil, nil)
	if err != nil {
		return nil, nil, 0, 0, fmt.Errorf("no proper product of the covariances: %w", err)
	}
	dense.Axpy(1, da, d)
	return l, d, -0.5 * (apart + logDet + nb - dense.LogDet(prior)), apart, nil
}

func (r *root) variances(dst []float64) {
	clear(dst)
	for j := range r.p {
		r.stop.Row(j)
		for i, v := range r.col(j) {
			dst[j+i] += v * v
		}
	}
}

func (r *root) quick(dst []float64) { r.variances(dst) }

func (r *root) pack(places []int32) (kernels.Covariance, error) {
	return packFull(r.stop, places, func(i, j int) float64 { return r.l[j*r.p-j*(j-1)/2+i-j] }), nil
}

// packFull returns a lower factor in belief order; rows of known weights are zero.
func packFull(halt *stop.Stop, places []int32, at func(i, j int) float64) kernels.Covariance {
	n := len(places)
	c := kernels.Covariance{Form: gauss.Full, Values: stop.Make[float64](halt, n*(n+1)/2)[:0]}
	for k, i := range places {
		halt.Row(k)
		for _, j := range places[:k+1] {
			v := 0.0
			if i >= 0 && j >= 0 {
				v = at(int(i), int(j))
			}
			c.Values = append(c.Values, v)
		}
	}
	return c
}

func (r *root) clone() covariance {
	c := &root{}
	c.size0(r.p)
	copy(c.l, r.l)
	return c
}

func (r *root) under(s *stop.Stop) { r.stop = s }

func (r *root) size() int64 { return 8 * int64(cap(r.l)+3*cap(r.f)) }

func (r *root) status() string { return "" }

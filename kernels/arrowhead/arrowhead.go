// Package arrowhead is a Gaussian over many weights that depend on a few: a block b ~ N(μ, P) of d
// weights, and leaves
//
//	w_k = α_k + h_kᵀb + ε_k,   ε_k ~ N(0, q_k) independent.
//
// The precision matrix has the shape of an arrowhead: a dense block, a diagonal, and the terms that
// connect them,
//
//	Λ_kk = 1/q_k,  Λ_kb = -h_k/q_k,  Λ_bb = P⁻¹ + Σ h_k h_kᵀ/q_k,
//
// so that the family is closed under products, quotients, powers and changes of the
// prior. A row with block inputs x_b and leaves x_k has the predictor
//
//	g = x_b + Σ x_k h_k,  m = gᵀμ + Σ x_k α_k + offset,  V = gᵀPg + Σ x_k² q_k
//
// and with α, β the derivatives of its log Z at (m, V) it is absorbed by
//
//	μ += α P g            P -= β P g (P g)ᵀ      c = β/(1 - β gᵀPg),  e_k = x_k q_k
//	h_k -= e_k c g        α_k += e_k α + e_k c gᵀμ (the new one)      q_k -= e_k² c
//
// which gives every pair (b, w_k) its exact moments if the leaves are independent given b, as they
// are assumed to be. Leaves that a row does not touch need no work: they follow b. Without leaves
// this is the full-covariance filter, without a block (d = 0) the factorised one. Cost: O(d²) a row
// and O(d) per leaf touched; d + 2 numbers per leaf.
package arrowhead

import (
	"fmt"
	"math"
	"sync"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// Belief is such a Gaussian. The zero Belief has no weights.
type Belief struct {
	Mean []float64 // of the block, μ

	root []float64 // L of P = L Lᵀ, packed as by package dense
	leaf []float64 // d+2 numbers per leaf: α, q, h

	row  *row    // memory for a row; nil at rest
	vb   float64 // gᵀPg of the row last seen
	ties float64 // V minus vb

	past  history
	since []uint32 // by leaf: the step of past up to which it has been brought forward
}

// New returns a block of independent weights with these means and variances > 0, without leaves.
func New(mean, variance []float64) *Belief {
	d := len(mean)
	b := &Belief{Mean: append([]float64(nil), mean...), root: make([]float64, dense.PackedLen(d))}
	for j, v := range variance {
		*b.entry(j, j) = rootOf(v)
	}
	return b
}

// rootOf is the root of v, rounded so that its square is at most v: without data, a variance must
// not exceed its prior.
func rootOf(v float64) float64 {
	r := math.Sqrt(v)
	if r*r > v {
		r = math.Nextafter(r, 0)
	}
	return r
}

// row is memory for the row last seen, which beliefs at rest release: g, Lᵀg, scratch, and for each
// column of the root its shrinkage, its gain and the remaining ratio from it on.
type row struct {
	g, f, u, shrink, gain, left []float64
	all                         []float64
	by                          []float64 // by leaf: the multiple of g that its h gains

	root dense.Matrix // memory for a root during rotations
}

var rows = sync.Pool{New: func() any { return new(row) }}

func (b *Belief) room() *row {
	d := len(b.Mean)
	r := b.row
	if r == nil {
		r = rows.Get().(*row)
		b.row = r
	}
	if len(r.left) != d+1 {
		if cap(r.all) < 6*d+1 {
			r.all = make([]float64, 6*d+1, 12*d+1)
		}
		s := r.all[:6*d+1]
		r.g, r.f, r.u, r.shrink, r.gain, r.left = s[:d:d], s[d:2*d:2*d], s[2*d:3*d:3*d], s[3*d:4*d:4*d], s[4*d:5*d:5*d], s[5*d:]
	}
	return r
}

// Rest releases memory that rows need; Predict acquires it again.
func (b *Belief) Rest() {
	if b.row != nil {
		rows.Put(b.row)
		b.row = nil
	}
}

// Dim is the size of the block.
func (b *Belief) Dim() int { return len(b.Mean) }

// Leaves is the number of leaves.
func (b *Belief) Leaves() int { return len(b.leaf) / (b.Dim() + 2) }

// Add adds a leaf with this mean and variance, independent of the block, and returns its number.
func (b *Belief) Add(mean, variance float64) int {
	k := b.Leaves()
	b.leaf = append(b.leaf, mean, variance)
	for range b.Mean {
		b.leaf = append(b.leaf, 0)
	}
	if n := b.past.steps; n > 0 {
		for len(b.since) < k {
			b.since = append(b.since, 0)
		}
		b.since = append(b.since, uint32(n))
	}
	return k
}

// Leaf returns α, q and h of leaf k; h is not copied.
func (b *Belief) Leaf(k int) (alpha, q float64, h []float64) {
	l := b.at(k)
	return l[0], l[1], l[2:]
}

func (b *Belief) at(k int) []float64 {
	n := b.Dim() + 2
	return b.leaf[k*n : k*n+n : k*n+n]
}

// entry points to L(i, j) of the root, i >= j.
func (b *Belief) entry(i, j int) *float64 { return &b.root[dense.PackedAt(len(b.Mean), i, j)] }

// Predict returns mean and variance of the predictor of a row with block inputs x, d numbers, and
// the leaves ks with values xs, each leaf once. It keeps the row for Absorb.
func (b *Belief) Predict(x []float64, ks []uint32, xs []float64) (m, v float64) {
	row := b.room()
	g := row.g
	copy(g, x)
	ties := 0.0
	n := len(g) + 2
	xs = xs[:len(ks)]
	for i, k := range ks {
		at, x := int(k)*n, xs[i]
		l := b.leaf[at : at+n : at+n]
		m += x * l[0]
		ties += x * x * l[1]
		if len(g) < long { // inline: there are many leaves
			g := g[:n-2]
			for j, v := range l[2:] {
				g[j] += x * v
			}
		}
	}
	if len(g) >= long && len(ks) > 0 {
		dense.AddRows(g, b.leaf[2:], n, ks, xs)
	}
	b.ties = ties
	mean := b.Mean[:len(g)]
	for j, x := range g { // one after the other, as with a table of beliefs
		m += x * mean[j]
	}
	dense.PackedTMul(row.f, b.root, g)
	b.vb = dot(row.f, row.f)
	return m, b.vb + ties
}

// long is the length from which vectors are worth a function call.
const long = 8

func axpy(a float64, x, y []float64) {
	if len(x) >= long {
		dense.Axpy(a, x, y)
		return
	}
	y = y[:len(x)]
	for i, v := range x {
		y[i] += a * v
	}
}

func dot(x, y []float64) (s float64) {
	if len(x) >= long {
		return dense.Dot(x, y[:len(x)])
	}
	y = y[:len(x)]
	for i, v := range x {
		s += v * y[i]
	}
	return s
}

// Absorb updates the belief by the row last predicted, with leaves ks and their values xs and
// moments t; t.Ratio is 1 - Vβ.
func (b *Belief) Absorb(ks []uint32, xs []float64, t lik.Tilted) {
	// 1 - βV_b without the cancellation: V = V_b + ties.
	ratio := t.Ratio + t.Beta*b.ties
	if t.Beta < 0 {
		ratio = math.Max(1-t.Beta*b.vb, 1)
	}
	b.downdateRoot(ratio, t.Beta)
	g, u := b.row.g, b.row.u
	axpy(t.Alpha, u, b.Mean)
	gm := 0.0
	if len(ks) > 0 {
		gm = dot(g, b.Mean)
	}
	c := t.Beta / ratio
	n := len(g) + 2
	xs = xs[:len(ks)]
	if cap(b.row.by) < len(ks) {
		b.row.by = make([]float64, 2*len(ks))
	}
	by := b.row.by[:len(ks)]
	for i, k := range ks {
		at, x := int(k)*n, xs[i]
		l := b.leaf[at : at+n : at+n]
		e := x * l[1]
		by[i] = -e * c
		if len(g) < long {
			h, s := l[2:], by[i]
			g := g[:len(h)]
			for j := range h {
				h[j] += s * g[j]
			}
		}
		l[0] += e * (t.Alpha + c*gm)
		// q (1 - x²qc), as the difference without this leaf's part:
		// ratio - βx²q = t.Ratio + β(ties - x²q).
		part := x * e
		if t.Beta > 0 {
			l[1] *= (t.Ratio + t.Beta*max(b.ties-part, 0)) / ratio
		} else {
			l[1] *= 1 - part*c
		}
	}
	if len(g) >= long && len(ks) > 0 {
		dense.AddToRows(b.leaf[2:], n, ks, by, g)
	}
}

// downdateRoot is Carlson's update of the root by P -= βPg(Pg)ᵀ (filter/root.go), dense in g; it
// leaves Pg of the previous P in u. ratio is 1 - βgᵀPg.
func (b *Belief) downdateRoot(ratio, beta float64) {
	row := b.row
	f, shrink, gain, u, left := row.f, row.shrink, row.gain, row.u, row.left
	left[len(f)] = ratio
	j := len(f)
	for ; j >= 4 && beta >= 0; j -= 4 { // in groups of four, which shortens the chain of dependent sums
		f, left := f[j-4:j:j], left[j-4:j:j]
		c := beta * f[3] * f[3]
		left[3] = ratio + c
		c += beta * f[2] * f[2]
		left[2] = ratio + c
		c += beta * f[1] * f[1]
		left[1] = ratio + c
		ratio += c + beta*f[0]*f[0]
		left[0] = ratio
	}
	for j--; j >= 0; j-- {
		ratio += beta * f[j] * f[j]
		if beta < 0 {
			ratio = max(ratio, 1)
		}
		left[j] = ratio
	}
	dense.Shrinks(shrink, gain, f, left, beta)
	dense.PackedRotate(b.root, u, shrink, gain, f) // diagonal entries are only shrunk
}

// Marginal returns mean and variance of leaf k. Cost: O(d²).
func (b *Belief) Marginal(k int) (mean, variance float64) {
	alpha, q, h := b.Leaf(k)
	mean = alpha
	for j, x := range h {
		mean += x * b.Mean[j]
	}
	return mean, q + b.quad(h)
}

// Projection returns mean and variance of xᵀb.
func (b *Belief) Projection(x []float64) (mean, variance float64) {
	for j, x := range x {
		mean += x * b.Mean[j]
	}
	return mean, b.quad(x)
}

// quad returns hᵀPh.
func (b *Belief) quad(h []float64) (v float64) {
	var room [64]float64
	f := room[:]
	if len(h) > len(f) {
		f = make([]float64, len(h))
	}
	f = f[:len(h)]
	dense.PackedTMul(f, b.root, h)
	for _, s := range f { // in the order of Variances, so that unit vectors give the same numbers
		v += s * s
	}
	return v
}

// Variances sets dst, d numbers, to the variances of the block. Cost: O(d²).
func (b *Belief) Variances(dst []float64) {
	clear(dst)
	for i := range dst {
		for j := range i + 1 {
			l := *b.entry(i, j)
			dst[i] += l * l
		}
	}
}

// LogDet is log |P|.
func (b *Belief) LogDet() (sum float64) {
	for j := range b.Mean {
		sum += math.Log(*b.entry(j, j))
	}
	return 2 * sum
}

// Cov sets dst to P.
func (b *Belief) Cov(dst *dense.Matrix) {
	l := b.Root()
	dense.MulTB(dst, l, l)
}

// Root returns L of P = L Lᵀ.
func (b *Belief) Root() *dense.Matrix {
	m := dense.New(b.Dim(), b.Dim())
	b.rootTo(m)
	return m
}

// rootTo sets the lower triangle of m to the root.
func (b *Belief) rootTo(m *dense.Matrix) {
	for i := range b.Mean {
		row := m.Row(i)[:i+1]
		for j := range row {
			row[j] = *b.entry(i, j)
		}
	}
}

// AppendRoot appends L row by row, each up to its diagonal.
func (b *Belief) AppendRoot(dst []float64) []float64 {
	for i := range b.Mean {
		for j := range i + 1 {
			dst = append(dst, *b.entry(i, j))
		}
	}
	return dst
}

// square returns the root of b as a matrix, in memory of r.
func (r *row) square(b *Belief) *dense.Matrix {
	d := b.Dim()
	m := &r.root
	if cap(m.Data) < d*d {
		m.Data = make([]float64, d*d, 2*d*d)
	}
	m.Rows, m.Cols, m.Stride, m.Data = d, d, d, m.Data[:d*d]
	clear(m.Data)
	b.rootTo(m)
	return m
}

// SetRoot sets the root to the lower triangle of m.
func (b *Belief) SetRoot(m *dense.Matrix) {
	for i := range b.Mean {
		for j, v := range m.Row(i)[:i+1] {
			*b.entry(i, j) = v
		}
	}
}

// Clone returns an independent copy. It brings all leaves forward to the present block.
func (b *Belief) Clone() *Belief {
	c := new(Belief)
	b.CloneTo(c, nil)
	return c
}

// CloneTo makes c an independent copy in the memory of spare, as far as that suffices.
func (b *Belief) CloneTo(c *Belief, spare []float64) {
	b.UpdateLeaves()
	*c = Belief{}
	at := int(math.Sqrt(float64(2 * len(spare)))) // the most weights whose means and root fit into spare
	for at > 0 && at+dense.PackedLen(at) > len(spare) {
		at--
	}
	if at >= len(b.Mean) {
		c.Mean, c.root = spare[:0:at], spare[at:at:len(spare)]
	}
	c.Mean, c.root, c.leaf = append(c.Mean, b.Mean...), append(c.root, b.root...), append(c.leaf, b.leaf...)
}

// CopyTo makes c an independent copy in its own memory.
func (b *Belief) CopyTo(c *Belief) {
	b.UpdateLeaves()
	*c = Belief{Mean: append(c.Mean[:0], b.Mean...), root: append(c.root[:0], b.root...), leaf: append(c.leaf[:0], b.leaf...)}
}

// Size is the memory held in bytes.
func (b *Belief) Size() int64 {
	return 8*int64(cap(b.Mean)+cap(b.root)+cap(b.leaf)) + 200
}

// ---- changes of the prior, drift, products --------------------------------------------

// Precise adds the symmetric matrix delta to the block's precision and the vector nu to its
// precision times mean; both may remove what a prior contributed.
//
// P' = L (I + LᵀΔL)⁻¹ Lᵀ: with the middle matrix = CᵀC the new root is L C⁻¹, and neither P nor P⁻¹
// is formed. μ' = μ + P'(ν - Δμ). Cost: O(d³).
// Errors: gauss.ErrNotPD if the sum is not positive definite; the belief is unchanged then.
func (b *Belief) Precise(delta *dense.Matrix, nu []float64) error {
	d := b.Dim()
	if d == 0 {
		return nil
	}
	r := make([]float64, d)
	dense.Gemv(r, delta, b.Mean)
	for i := range r {
		r[i] = nu[i] - r[i]
	}
	root, mean, _, _, err := gauss.Multiply(b.Root(), nil, delta, r)
	if err != nil {
		return err
	}
	b.SetRoot(root)
	dense.Axpy(1, mean, b.Mean)
	return nil
}

// PreciseAlong is Precise by the single factor exp(-w(gᵀb - m)²/2). Cost: O(d²).
func (b *Belief) PreciseAlong(g []float64, w, m float64) error {
	b.UpdateLeaves()
	row := b.room()
	dense.PackedTMul(row.f, b.root, g)
	ratio := 1 / (1 + w*dot(row.f, row.f))
	if !(ratio > 0) || math.IsInf(ratio, 1) {
		return fmt.Errorf("a precision of %v along a direction: %w", w, gauss.ErrNotPD)
	}
	e := m - dot(g, b.Mean)
	b.downdateRoot(ratio, w*ratio)
	axpy(w*ratio*e, row.u, b.Mean)
	return nil
}

// LeafPrecise adds Δ to the precision of leaf k about the mean m: the factor exp(-Δ(w_k - m)²/2).
// It adds to delta and nu the block's part of the change, which one call of Precise applies for all
// leaves.
// Errors: gauss.ErrNotPD if the leaf has no precision left.
func (b *Belief) LeafPrecise(k int, add, m float64, delta *dense.Matrix, nu []float64) error {
	l := b.at(k)
	r, err := leafRatio(k, l, add)
	if err != nil {
		return err
	}
	// The integral over w_k leaves exp(-Δr (α + hᵀb - m)²/2) on the block.
	w := add * r
	for i, hi := range l[2:] {
		if hi == 0 {
			continue
		}
		nu[i] += w * (m - l[0]) * hi
		dense.Axpy(w*hi, l[2:], delta.Row(i))
	}
	scaleLeaf(l, r, add, m)
	return nil
}

// LeafPreciseNow is LeafPrecise including the block's part, in O(d²).
func (b *Belief) LeafPreciseNow(k int, add, m float64) error {
	b.UpdateLeaves()
	l := b.at(k)
	r, err := leafRatio(k, l, add)
	if err != nil {
		return err
	}
	if err := b.PreciseAlong(l[2:], add*r, m-l[0]); err != nil {
		return err
	}
	scaleLeaf(l, r, add, m)
	return nil
}

// leafRatio is the factor by which added precision add multiplies the variance of leaf k, l.
func leafRatio(k int, l []float64, add float64) (float64, error) {
	r := 1 / (1 + add*l[1])
	if !(r > 0) || math.IsInf(r, 1) {
		return r, fmt.Errorf("leaf %d of variance %v less a precision of %v: %w", k, l[1], -add, gauss.ErrNotPD)
	}
	return r, nil
}

// scaleLeaf adds precision add about m to leaf l; r is its leafRatio.
func scaleLeaf(l []float64, r, add, m float64) {
	l[0] = r * (l[0] + add*l[1]*m)
	l[1] *= r
	for i := range l[2:] {
		l[2+i] *= r
	}
}

// Rescale changes the units of the block: weight j is multiplied by ratio_j > 0, and weight to,
// unless negative, gains Σ shift_j times the old weights. Leaves do not change. Cost: O(d²) and
// O(d) per leaf.
//
// It is the effect of new centres and scales on the weights of standardised columns and on the
// intercept.
func (b *Belief) Rescale(ratio, shift []float64, to int) {
	b.UpdateLeaves()
	same := true
	for j := range ratio {
		same = same && ratio[j] == 1 && shift[j] == 0
	}
	if same {
		return
	}
	r := b.room()
	l, gain, last := r.square(b), r.u, 0
	clear(gain)
	if to >= 0 {
		for j, s := range shift {
			if s != 0 {
				dense.Axpy(s, l.Row(j)[:j+1], gain[:j+1])
				last = j
			}
		}
		b.Mean[to] = ratio[to]*b.Mean[to] + dense.Dot(shift, b.Mean)
	}
	for j, r := range ratio {
		if j != to {
			b.Mean[j] *= r
		}
		for i, row := 0, l.Row(j); i <= j; i++ {
			row[i] *= r
		}
	}
	if to >= 0 {
		dense.Axpy(1, gain, l.Row(to))
		dense.Relower(l, to, last)
	}
	b.SetRoot(l)
	for k := range b.Leaves() {
		h := b.at(k)[2:]
		h0 := 0.0
		if to >= 0 {
			h[to] /= ratio[to]
			h0 = h[to]
		}
		for j := range h {
			if j != to {
				if to >= 0 {
					h[j] -= h0 * shift[j]
				}
				h[j] /= ratio[j]
			}
		}
	}
}

// StretchLeaf multiplies leaf k by ratio > 0.
func (b *Belief) StretchLeaf(k int, ratio float64) {
	b.UpdateLeaf(k)
	l := b.at(k)
	l[0] *= ratio
	l[1] *= ratio * ratio
	for i := range l[2:] {
		l[2+i] *= ratio
	}
}

// Shift adds shift to weight j of the block. Leaves do not change. Cost: O(1) per leaf.
func (b *Belief) Shift(j int, shift float64) {
	b.UpdateLeaves()
	b.Mean[j] += shift
	for k := range b.Leaves() {
		l := b.at(k)
		l[0] -= shift * l[2+j]
	}
}

// StretchMeans multiplies all means by ratio.
func (b *Belief) StretchMeans(ratio float64) {
	b.UpdateLeaves()
	for j := range b.Mean {
		b.Mean[j] *= ratio
	}
	for k := range b.Leaves() {
		b.at(k)[0] *= ratio
	}
}

// Extend adds weights to the block, independent of all others, and returns the number of the first.
// Cost: O(d²) and O(d) per leaf.
func (b *Belief) Extend(mean, variance []float64) int {
	b.UpdateLeaves()
	d, m := b.Dim(), len(mean)
	old := *b
	b.Mean = append(b.Mean, mean...)
	n := dense.PackedLen(d + m)
	if d+m < 8 && n <= cap(b.root) { // stored by columns, so each entry moves up
		b.root = b.root[:n]
	} else {
		b.root = memory.Floats(n)
	}
	for j := d - 1; j >= 0; j-- {
		for i := d - 1; i >= j; i-- {
			*b.entry(i, j) = *old.entry(i, j)
		}
	}
	for j := range d + m {
		for i := max(d, j); i < d+m; i++ {
			*b.entry(i, j) = 0
		}
	}
	for i, v := range variance {
		*b.entry(d+i, d+i) = rootOf(v)
	}
	if leaf := b.leaf; len(leaf) > 0 {
		n := d + 2
		b.leaf = make([]float64, 0, cap(leaf)/n*(n+m))
		for ; len(leaf) > 0; leaf = leaf[n:] {
			b.leaf = append(b.leaf, leaf[:n]...)
			b.leaf = append(b.leaf, make([]float64, m)...)
		}
	}
	b.past, b.since = history{}, nil
	return d
}

// Permute moves weight order[j] of the block to place j. Cost: O(d³) and O(d) per leaf.
// Errors: gauss.ErrNotPD if rounding has left no proper block.
func (b *Belief) Permute(order []int) error {
	same := true
	for j, i := range order {
		same = same && i == j
	}
	if same {
		return nil
	}
	b.UpdateLeaves()
	d := b.Dim()
	p, q := dense.New(d, d), dense.New(d, d)
	b.Cov(p)
	mean := make([]float64, d)
	for j, i := range order {
		mean[j] = b.Mean[i]
		for k, l := range order {
			q.Row(j)[k] = p.Row(i)[l]
		}
	}
	if err := dense.Cholesky(q); err != nil {
		return fmt.Errorf("%w: %w", gauss.ErrNotPD, err)
	}
	copy(b.Mean, mean)
	b.SetRoot(q)
	for k := range b.Leaves() {
		h := b.at(k)[2:]
		copy(mean, h)
		for j, i := range order {
			h[j] = mean[i]
		}
	}
	return nil
}

// SelectLeaves makes leaf k the present leaf rows[k], for all of rows; if that is negative, leaf k
// is independent of the block with the mean and variance from fresh.
func (b *Belief) SelectLeaves(rows []int, fresh func(k int) (mean, variance float64)) {
	b.UpdateLeaves()
	n := b.Dim() + 2
	leaf := make([]float64, n*len(rows))
	for k, r := range rows {
		if r >= 0 {
			copy(leaf[k*n:], b.at(r))
			continue
		}
		leaf[k*n], leaf[k*n+1] = fresh(k)
	}
	b.leaf = leaf
}

// Set makes leaf k independent of the block, with this mean and variance.
func (b *Belief) Set(k int, mean, variance float64) {
	b.UpdateLeaf(k) // discard its past
	l := b.at(k)
	clear(l)
	l[0], l[1] = mean, variance
}

// SetLeaf sets leaf k to these numbers.
func (b *Belief) SetLeaf(k int, alpha, q float64, h []float64) {
	b.Set(k, alpha, q)
	copy(b.at(k)[2:], h)
}

// Widen adds to the variance of leaf k given the block.
func (b *Belief) Widen(k int, add float64) { b.at(k)[1] = math.Min(b.at(k)[1]+add, math.MaxFloat64) }

// DiscountLeaf multiplies the precision of leaf k given the block by λ and adds 1-λ times that of
// its prior N(m, v), independent of the block. The block does not change.
func (b *Belief) DiscountLeaf(k int, lambda, m, v float64) {
	l := b.at(k)
	q := 1 / (lambda/l[1] + (1-lambda)/v)
	f := lambda * q / l[1]
	l[0] = f*l[0] + (1-lambda)*q/v*m
	for i := range l[2:] {
		l[2+i] *= f
	}
	l[1] = q
}

// Scale multiplies all precisions by λ. Cost: O(d²) and O(1) per leaf.
func (b *Belief) Scale(lambda float64) {
	r := 1 / math.Sqrt(lambda)
	for i := range b.root {
		b.root[i] *= r
	}
	for k := range b.Leaves() {
		b.at(k)[1] /= lambda
	}
}

// ScaleBlock is Scale for the block alone.
func (b *Belief) ScaleBlock(lambda float64) {
	r := 1 / math.Sqrt(lambda)
	for i := range b.root {
		b.root[i] *= r
	}
}

// Product multiplies b by o over their common start, which is counted once: natural parameters add
// and subtract. All three have the same weights in the same places. A leaf whose variance is 0 at
// the start is known and does not change.
//
// logC is log ∫ b o / start, which the sum of the parts' log evidences lacks; apart is -2 logC
// without the determinants: the squared distance of the two.
//
// With loose set, the marginals of the block are multiplied, and each leaf given the block
// separately: the joint product may be improper after drift, which acts on them one by one, and
// where many leaves met in few rows.
// Cost: O(d³) and O(d²) per leaf.
// Errors: gauss.ErrNotPD if the product is improper; b is unchanged then.
func (b *Belief) Product(o, start *Belief, loose bool) (logC, apart float64, err error) {
	for _, q := range []*Belief{b, o, start} {
		q.UpdateLeaves()
	}
	d, n := b.Dim(), b.Dim()+2
	// The block is multiplied about the mean of the narrower one.
	base, other := b, o
	var lb, lo, ls *dense.Matrix
	if d > 0 {
		lb, lo, ls = b.Root(), o.Root(), start.Root()
		nb, no := dense.LogDet(lb), dense.LogDet(lo)
		if no < nb {
			base, other, lb, lo, no = o, b, lo, lb, nb
		}
		logC += 0.5 * (dense.LogDet(ls) - no)
	}
	about := base.Mean
	if loose {
		about = start.Mean
	}
	x := &leafProduct{about: about, loose: loose, delta: dense.New(d, d), nu: make([]float64, d), h: make([]float64, d), logC: logC}
	leaf := append([]float64(nil), b.leaf...)
	for k := range b.Leaves() {
		if err := x.multiply(leaf[k*n:k*n+n], o.at(k), start.at(k)); err != nil {
			return 0, 0, fmt.Errorf("leaf %d: %w", k, err)
		}
	}
	logC, apart = x.logC, x.apart
	if d > 0 {
		less := func(m []float64) []float64 {
			out := make([]float64, d)
			for i := range out {
				out[i] = m[i] - base.Mean[i]
			}
			return out
		}
		root, mean, logDet, blocks, err := gauss.Multiply(lb, []gauss.Factor{{Times: 1, Root: lo, Mean: less(other.Mean)}, {Times: -1, Root: ls, Mean: less(start.Mean)}}, x.delta, x.nu)
		if err != nil {
			return 0, 0, fmt.Errorf("no proper product of the blocks: %w", err)
		}
		apart += blocks
		logC -= 0.5 * logDet
		mean0 := base.Mean
		b.SetRoot(root)
		for i := range d {
			b.Mean[i] = mean0[i] + mean[i]
		}
	}
	b.leaf = leaf
	return logC - 0.5*apart, apart, nil
}

// leafProduct multiplies leaves one by one and accumulates the effect on the block.
type leafProduct struct {
	about       []float64 // the point of the block at which leaves are compared
	loose       bool
	delta       *dense.Matrix // change of the block's precision
	nu          []float64     // and of its precision times mean
	h           []float64     // memory for a pair
	logC, apart float64       // of the leaves so far
}

// multiply replaces leaf l by its product with r over s, their common start.
func (x *leafProduct) multiply(l, r, s []float64) error {
	if s[1] == 0 {
		return nil
	}
	c := [3]float64{1 / l[1], 1 / r[1], -1 / s[1]}
	lam := c[0] + c[1] + c[2]
	if !(lam > 0) || math.IsInf(lam, 1) {
		return fmt.Errorf("precision %v of the product: %w", lam, gauss.ErrNotPD)
	}
	x.logC += 0.5 * math.Log(c[0]*s[1]*(c[1]/lam))
	// After integrating w out, Σ c (w - α - hᵀb)² leaves Σ c c' (α - α' + (h - h')ᵀb)² / Σ c over
	// the pairs.
	x.pair(c[0]/lam*c[1], l, r)
	x.pair(c[0]/lam*c[2], l, s)
	x.pair(c[1]/lam*c[2], r, s)
	wr, ws := c[1]/lam, c[2]/lam
	for i := range l {
		if i != 1 {
			l[i] += wr*(r[i]-l[i]) + ws*(s[i]-l[i])
		}
	}
	l[1] = 1 / lam
	return nil
}

// pair adds c (α - α' + (h - h')ᵀb)² for leaves a and b.
func (x *leafProduct) pair(c float64, a, b []float64) {
	h := x.h
	f := a[0] - b[0]
	for i, m := range x.about {
		h[i] = a[2+i] - b[2+i]
		f += h[i] * m
	}
	x.apart += c * f * f
	for i, hi := range h {
		if hi != 0 && !x.loose {
			dense.Axpy(c*hi, h, x.delta.Row(i))
			x.nu[i] -= c * f * hi
		}
	}
}

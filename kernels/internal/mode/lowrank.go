package mode

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// maxShare is the largest share of a prior variance that one direction of a low-rank
// Hessian takes: what is left, 1e-12 of it, stays well above rounding.
const maxShare = 1 - 1e-12

// LowRank is the Gaussian with the r largest eigenpairs of the whitened data Hessian
// A = TᵀHT:
//
//	Σ = T (I - Q diag(λ/(1+λ)) Qᵀ) Tᵀ,  log |I + Σ0 H| = Σ log(1 + λ)
type LowRank struct {
	Post   *gauss.Normal
	TQ     *dense.Matrix // T Q, p x r
	Share  []float64     // λ/(1+λ)
	LogDet float64
	Note   string
}

// NewLowRank finds the eigenpairs from products with A: apply sets dst = A m for p x k
// matrices. They are those of Nyström's approximation A Ω (ΩᵀAΩ)⁻¹ ΩᵀA, which is never
// above A in the order of matrices: no direction gets a smaller variance than the full
// Hessian gives it. Ω is an orthonormal basis of A^q G, G random. w is the mean, most
// the rank that A can have; of o, Rank (50), Oversample (10), PowerIterations (2) and
// Seed are read.
//
// Source: [halko2011], algorithms 4.4 and 5.5; [tropp2017],
// algorithm 3, for the shift.
func NewLowRank(t *Root, w []float64, most int, o *kernels.Options, halt *stop.Stop, apply func(dst, m *dense.Matrix)) (*LowRank, error) {
	p := len(w)
	x := &LowRank{}
	rank := kernels.Or(o.Rank, 50)
	if rank > most {
		if o.Rank != 0 {
			x.Note = fmt.Sprintf("rank %d is clamped to %d, the smaller of rows and weights", rank, most)
		}
		rank = most
	}
	wide := min(rank+o.Oversample.Or(10), p)
	omega, y := dense.NewUnder(halt, p, wide), dense.NewUnder(halt, p, wide)
	if wide == p {
		for j := range p {
			omega.Row(j)[j] = 1
		}
	} else {
		rng := rand.New(rand.NewPCG(o.Seed, 0x6c61706c616365))
		for i := range omega.Data {
			omega.Data[i] = rng.NormFloat64()
		}
		orthonormal(omega)
		for range o.PowerIterations.Or(2) {
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
	// in rising order: the last ones, but none that says nothing
	keep := 0
	for keep < rank && keep < len(lambda) && lambda[len(lambda)-1-keep] > 0 {
		keep++
	}
	kept := dense.NewUnder(halt, p, keep)
	x.Share = make([]float64, keep)
	for k := range keep {
		from := len(lambda) - 1 - k
		l := lambda[from]
		x.LogDet += math.Log1p(l)
		x.Share[k] = min(l/(1+l), maxShare)
		for j := range p {
			kept.Row(j)[k] = q.Row(j)[from]
		}
	}
	x.TQ = t.MulMat(kept)
	f := x.TQ.Clone()
	for j := range p {
		for k := range f.Row(j) {
			f.Row(j)[k] *= math.Sqrt(x.Share[k])
		}
	}
	x.Post, err = subtract(t.Prior, w, f, kept, x.Share, rank)
	return x, err
}

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
		m, b := dense.NewUnder(q.Stop, p, p), dense.NewUnder(q.Stop, p, p)
		dense.GramT(m, q, c)
		for j := range p {
			m.Row(j)[j]++
		}
		Reverse(b, m)
		if err := Factor(b); err != nil {
			return nil, err
		}
		return gauss.NewFull(w, PosteriorRoot(&Root{Prior: prior}, b)), nil
	}
	// D - F0 F0ᵀ - F Fᵀ; no more columns than the prior or the rank had, leaving out
	// the weakest, which only widens
	p, r0, r := len(w), prior.F.Cols, f.Cols
	both, scaled := dense.NewUnder(f.Stop, p, r0+r), dense.NewUnder(f.Stop, p, r0+r)
	for j := range p {
		f.Stop.Row(j)
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
	v, _, err := Eigen(m)
	if err != nil {
		return nil, err
	}
	kept := dense.New(p, most)
	dense.Mul(kept, both, v.Slice(0, r0+r, r0+r-most, r0+r))
	return gauss.NewLowRank(w, prior.D, kept)
}

// orthonormal replaces the columns of m by an orthonormal basis of their span, by
// Cholesky factors of MᵀM twice: products that run at full speed. Columns too nearly
// dependent for that go through gramSchmidt.
//
// Source: [yamamoto2015], CholeskyQR2.
func orthonormal(m *dense.Matrix) {
	k := m.Cols
	if m.Rows < k {
		gramSchmidt(m)
		return
	}
	g, inv := dense.New(k, k), dense.New(k, k)
	scale := make([]float64, k)
	next := dense.NewUnder(m.Stop, m.Rows, k)
	for range 2 {
		dense.Gram(g, m, nil)
		for i := range k {
			scale[i] = 1 / math.Sqrt(g.Row(i)[i])
			if !(scale[i] > 0) || math.IsInf(scale[i], 0) {
				gramSchmidt(m)
				return
			}
		}
		for i := range k {
			for j := range k {
				g.Row(i)[j] *= scale[i] * scale[j]
			}
		}
		if dense.Cholesky(g) != nil || !wellConditioned(g) {
			gramSchmidt(m)
			return
		}
		for i := range k {
			clear(inv.Row(i))
			inv.Row(i)[i] = scale[i]
		}
		dense.SolveLower(g, inv)
		dense.MulTB(next, m, inv)
		copyMat(m, next)
	}
}

// wellConditioned says that the pivots of a Cholesky factor with unit rows leave a
// second pass something to work with.
func wellConditioned(l *dense.Matrix) bool {
	for i := range l.Rows {
		if l.Row(i)[i] < 1e-5 {
			return false
		}
	}
	return true
}

// gramSchmidt takes from each column those before, twice. A column that depends on
// them becomes 0.
func gramSchmidt(m *dense.Matrix) {
	t := m.T()
	for k := range t.Rows {
		t.Stop.Check()
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
		if left > 1e-14*size && special.Finite(1/left) {
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
	if !special.Finite(norm) {
		return nil, nil, ErrOverflow
	}
	// A + shift I instead of A, and the shift off again at the end
	shift := 4e-16 * norm * math.Sqrt(float64(k))
	if shift == 0 {
		return dense.New(p, 0), nil, nil
	}
	ys := y.Clone()
	for j := range p {
		ys.Stop.Row(j)
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
		return nil, nil, ErrOverflow
	}
	inv := dense.New(k, k)
	for i := range k {
		inv.Row(i)[i] = 1
	}
	dense.SolveLower(c, inv)
	b := dense.NewUnder(y.Stop, p, k)
	dense.MulTB(b, ys, inv) // B = Y C⁻ᵀ, A ≈ B Bᵀ
	// B = V S Uᵀ: the singular values through an orthonormal basis keep what a Gram
	// matrix of B would lose
	v := ys
	copyMat(v, b)
	orthonormal(v)
	r := dense.New(k, k)
	dense.MulTA(r, b, v) // B = v rᵀ
	var svd mat.SVD
	found := false
	r.Stop.Beside(func() { found = svd.Factorize(mat.NewDense(k, k, r.Data), mat.SVDThin) })
	if !found {
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
	q := dense.NewUnder(y.Stop, p, k)
	dense.Mul(q, v, turn)
	return q, lambda, nil
}

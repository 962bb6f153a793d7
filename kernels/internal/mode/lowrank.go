package mode

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// DefaultRank is the rank if none is given.
const DefaultRank = 50

// maxShare is the largest share of a prior variance that one direction of a low-rank Hessian may
// remove: the rest, 1e-12 of it, stays well above rounding error.
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
	// set by WithRest: the trace of the whitened Hessian, and of what the eigenpairs leave out of it
	Trace, Rest float64
}

// NewLowRank finds the eigenpairs from products with A: apply sets dst = A m for p x k
// matrices. They are those of Nyström's approximation A Ω (ΩᵀAΩ)⁻¹ ΩᵀA, which never exceeds A in
// the order of matrices: no direction gets a smaller variance than with the full Hessian. Ω is an
// orthonormal basis of A^q G, G random. w is the mean, most the largest possible rank of A; the
// options Rank (50), Oversample (10), PowerIterations (2) and Seed of o are read.
//
// Source: [halko2011], algorithms 4.4 and 5.5; [tropp2017], algorithm 3, for the shift.
func NewLowRank(t *gauss.Root, w []float64, most int, o *kernels.Options, halt *stop.Stop, apply func(dst, m *dense.Matrix)) (*LowRank, error) {
	p := len(w)
	x := &LowRank{}
	rank := kernels.Or(o.Rank, DefaultRank)
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
		dense.Orthonormal(omega, 2)
		for range o.PowerIterations.Or(2) {
			apply(y, omega)
			omega, y = y, omega
			if !dense.Orthonormal(omega, 2) {
				return nil, ErrOverflow
			}
		}
	}
	apply(y, omega)
	q, lambda, err := nystrom(y, omega)
	if err != nil {
		return nil, err
	}
	// in rising order: keep the last ones, except those that are 0
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
	x.TQ = dense.NewUnder(halt, p, keep)
	t.MulMat(x.TQ, kept)
	f := x.TQ.Clone()
	for j := range p {
		for k := range f.Row(j) {
			f.Row(j)[k] *= math.Sqrt(x.Share[k])
		}
	}
	x.Post, err = subtract(t.Of, w, f, kept, x.Share, rank)
	return x, err
}

// noRest is the share of a diagonal entry of the Hessian below which what the eigenpairs leave out
// of it is rounding error: a thousand units in the last place of double precision, because they
// come from a few products and a decomposition.
const noRest = 1e-12

// WithRest returns the Gaussian of precision Λ0 + T⁻ᵀQλQᵀT⁻¹ + R, with R the diagonal of what the
// leading eigenpairs leave out of the Hessian H, and its log |I + Σ0 H|. h is the diagonal of H. It
// sets Trace and Rest. Under a low-rank prior the rank is that of the prior, or the given rank if
// that is larger: the least informative directions then keep only their diagonal.
func (x *LowRank) WithRest(t *gauss.Root, h []float64, rank int) (post *gauss.Normal, logDet float64, err error) {
	prior := t.Of
	p := len(h)
	u, err := precise(prior, x.TQ) // Λ0 T Q = T⁻ᵀ Q
	if err != nil {
		return nil, 0, err
	}
	v, rest := t.Variances(), memory.Floats(p)
	for j := range rest {
		u.Stop.Row(j)
		row := u.Row(j)
		own := h[j]
		for k, q := range row {
			l := x.Share[k] / (1 - x.Share[k])
			own -= l * q * q
			row[k] = math.Sqrt(l) * q
		}
		if own > noRest*h[j] {
			rest[j] = own
		}
		x.Trace += v[j] * h[j]
		x.Rest += v[j] * rest[j]
	}
	if prior.Form == gauss.Full {
		m, b := dense.NewUnder(u.Stop, p, p), dense.NewUnder(u.Stop, p, p)
		dense.GramT(m, u, nil)
		for j, r := range rest {
			m.Row(j)[j] += r
		}
		Whiten(b, m, t)
		if err := Factor(b); err != nil {
			return nil, 0, err
		}
		return gauss.NewFull(x.Post.Mean, PosteriorRoot(t, b)), dense.LogDet(b), nil
	}
	b := u.T()
	d := prior.Diag()
	if prior.Form == gauss.LowRank {
		own, err := prior.HalfPrec()
		if err != nil {
			return nil, 0, err
		}
		both := dense.NewUnder(u.Stop, own.Rows+b.Rows, p)
		copy(both.Data, own.Data)
		copy(both.Data[len(own.Data):], b.Data)
		b = both
		rank = max(rank, own.Rows)
	}
	for j := range rest {
		rest[j] += 1 / d[j]
	}
	if post, err = gauss.FromPrecision(x.Post.Mean, rest, b); err != nil {
		return nil, 0, err
	}
	for _, g := range []struct {
		of   *gauss.Normal
		sign float64
	}{{prior, 1}, {post, -1}} {
		ld, err := g.of.LogDet()
		if err != nil {
			return nil, 0, err
		}
		logDet += g.sign * ld
	}
	if post.F.Cols > rank {
		post, err = weakened(x.Post.Mean, post.D, post.F, rank)
	}
	return post, logDet, err
}

// precise returns Λ0 m.
func precise(prior *gauss.Normal, m *dense.Matrix) (*dense.Matrix, error) {
	u := m.Clone()
	switch prior.Form {
	case gauss.Full:
		dense.SolveLower(prior.L, u)
		dense.SolveLowerT(prior.L, u)
		return u, nil
	case gauss.LowRank:
		b, err := prior.HalfPrec()
		if err != nil {
			return nil, err
		}
		bq := dense.NewUnder(u.Stop, b.Rows, u.Cols)
		dense.Mul(bq, b, m)
		divideRows(u, prior.D)
		dense.Gemm(u, 1, b, true, bq, false, 1)
		return u, nil
	}
	divideRows(u, prior.Var)
	return u, nil
}

func divideRows(m *dense.Matrix, by []float64) {
	for j, v := range by {
		m.Stop.Row(j)
		row := m.Row(j)
		for k := range row {
			row[k] /= v
		}
	}
}

// subtract returns N(w, Σ0 - F Fᵀ), F = T Q diag(share)^½, in a form that can represent it.
func subtract(prior *gauss.Normal, w []float64, f, q *dense.Matrix, share []float64, rank int) (*gauss.Normal, error) {
	switch prior.Form {
	case gauss.Diagonal:
		return gauss.NewLowRank(w, prior.Var, f)
	case gauss.Full:
		// L (I - Q share Qᵀ) Lᵀ: the middle factor has the inverse I + Q share/(1-share) Qᵀ
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
		return gauss.NewFull(w, PosteriorRoot(&gauss.Root{L: prior.L}, b)), nil
	}
	// D - F0 F0ᵀ - F Fᵀ, with no more columns than the larger of the prior's rank and rank:
	// leaving out the weakest only widens it
	p, r0, r := len(w), prior.F.Cols, f.Cols
	both := dense.NewUnder(f.Stop, p, r0+r)
	for j := range p {
		f.Stop.Row(j)
		copy(both.Row(j), prior.F.Row(j))
		copy(both.Row(j)[r0:], f.Row(j))
	}
	return weakened(w, prior.D, both, max(r0, rank))
}

// weakened returns N(w, D - F Fᵀ) with at most most columns of F. Those of least weight are left
// out: no direction gets a smaller variance.
func weakened(w, d []float64, f *dense.Matrix, most int) (*gauss.Normal, error) {
	p, r := f.Rows, f.Cols
	if r <= most {
		return gauss.NewLowRank(w, d, f)
	}
	scaled := dense.NewUnder(f.Stop, p, r)
	for j := range p {
		f.Stop.Row(j)
		for k, v := range f.Row(j) {
			scaled.Row(j)[k] = v / math.Sqrt(d[j])
		}
	}
	m := dense.New(r, r)
	dense.Gram(m, scaled, nil)
	_, v, err := dense.Eigen(m)
	if err != nil {
		return nil, err
	}
	kept := dense.New(p, most)
	dense.Mul(kept, f, v.Slice(0, r, r-most, r))
	return gauss.NewLowRank(w, d, kept)
}

// nystrom returns the eigenvectors, in columns, and eigenvalues in rising order of
// Y (ΩᵀY)⁻¹ Yᵀ, Y = A Ω. Ω has orthonormal columns.
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
	// use A + shift I instead of A, and subtract the shift at the end
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
	// B = V S Uᵀ: singular values computed in an orthonormal basis keep the digits that a
	// Gram matrix of B would lose
	v := ys
	dense.Copy(v, b)
	if !dense.Orthonormal(v, 2) {
		return nil, nil, ErrOverflow
	}
	r := dense.New(k, k)
	dense.MulTA(r, b, v) // B = v rᵀ
	sv, w, err := dense.SVD(r)
	if err != nil {
		return nil, nil, err
	}
	// r = U S Wᵀ, so B = v W S Uᵀ
	lambda := make([]float64, k)
	turn := dense.New(k, k)
	for a := range k {
		lambda[k-1-a] = max(sv[a]*sv[a]-shift, 0)
		for i := range k {
			turn.Row(i)[k-1-a] = w.At(i, a)
		}
	}
	q := dense.NewUnder(y.Stop, p, k)
	dense.Mul(q, v, turn)
	return q, lambda, nil
}

// smallRest is the trace of what the leading directions leave out of the whitened Hessian up to
// which they count as exact: with R for the rest, the error of log |I + A| is at most tr R, and
// that of a variance at most that share, whatever the correlations in it.
const smallRest = 1e-3

// RestNote returns the status note about a Hessian that has only the diagonal of what its leading
// directions leave out, "" if that is next to nothing. asked means that the rank was requested.
func (x *LowRank) RestNote(asked bool) string {
	if x.Rest <= smallRest {
		return ""
	}
	why := ""
	if !asked {
		why = "an exact Hessian is not affordable, and "
	}
	return fmt.Sprintf("%scurvature is left out by a low rank: the Hessian has rank %d and the diagonal of what that leaves out (%.2g of its trace), so that standard deviations and log_evidence are approximate", why, len(x.Share), x.Rest/x.Trace)
}

// LearntNote is the status note about parameters of the likelihood that are learnt nevertheless.
const LearntNote = "the dispersion or shape is learnt from an approximate log_evidence"

// Kept returns the status note about a prior variance that is not learnt from such a Hessian.
func Kept(v float64) string {
	return fmt.Sprintf("prior_variance stays %.4g, for variances are not learnt from an approximate log_evidence", v)
}

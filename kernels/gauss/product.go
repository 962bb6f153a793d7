package gauss

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/stop"
)

// Product multiplies posteriors over the same weights that started from one
// prior, the prior counted once: Λ = Λ0 + Σ(Λk - Λ0), and the same for precision
// times mean. logC is log ∫ Πqk / p^(K-1), what the sum of the parts' log
// evidences lacks.
//
// The product is Diagonal when all are, LowRank when none is Full and the ranks
// add up to less than the weights, else Full.
//
// Cost: O(K p³) for Full, O(p (Σ ranks)²) for LowRank.
// Errors: ErrNotPD when the product is improper.
func Product(prior *Normal, parts []*Normal) (post *Normal, logC float64, err error) {
	p := prior.Dim()
	halt := prior.stop()
	form, rank := prior.Form, 0
	for _, q := range append([]*Normal{prior}, parts...) {
		form = max(form, q.Form)
		if halt == nil {
			halt = q.stop()
		}
		if q.Form == LowRank {
			rank += q.F.Cols
		}
		if q.Form == Full {
			rank = p
		}
	}
	if prior.Form != Diagonal || form != Diagonal && rank >= p {
		form = Full
	} else if form != Diagonal {
		form = LowRank
	}
	// Precision times mean relative to the prior's mean: parts that learnt little
	// stay small instead of cancelling.
	nu := make([]float64, p)
	u, d := make([]float64, p), make([]float64, p)
	norm0, err := logNorm(prior, nil, nil)
	if err != nil {
		return nil, 0, err
	}
	logC = -norm0 // -K + (K-1) of the prior's, the product's comes below
	for _, q := range parts {
		for i := range d {
			d[i] = q.Mean[i] - prior.Mean[i]
		}
		if err := q.MulPrec(u, d); err != nil {
			return nil, 0, err
		}
		dense.Axpy(1, u, nu)
		n, err := logNorm(q, d, u)
		if err != nil {
			return nil, 0, err
		}
		logC += norm0 - n
	}
	switch form {
	case Diagonal:
		post, err = diagonalProduct(prior, parts)
	case LowRank:
		post, err = lowRankProduct(prior, parts, rank, halt)
	default:
		post, err = fullProduct(prior, parts, halt)
	}
	if err != nil {
		return nil, 0, err
	}
	post.MulCov(d, nu)
	n, err := logNorm(post, d, nu)
	if err != nil {
		return nil, 0, err
	}
	logC += n
	for i := range d {
		post.Mean[i] = prior.Mean[i] + d[i]
	}
	return post, logC, nil
}

// logNorm is the log normaliser ½(dᵀΛd + log|Σ|) of a Gaussian with mean d and
// precision times mean nu, without the constant.
func logNorm(g *Normal, d, nu []float64) (float64, error) {
	l, err := g.LogDet()
	if d == nil {
		return 0.5 * l, err
	}
	return 0.5 * (dense.Dot(d, nu) + l), err
}

// diagonals is the sum of the parts' diagonal precision terms, the prior's once.
func diagonals(prior *Normal, parts []*Normal) ([]float64, error) {
	lam := make([]float64, prior.Dim())
	for i, v := range prior.Var {
		lam[i] = 1 / v
		for _, q := range parts {
			w := q.Var[i]
			if q.Form == LowRank {
				w = q.D[i]
			}
			lam[i] += 1/w - 1/v
		}
		if !(lam[i] > 0) || math.IsInf(lam[i], 1) {
			return nil, fmt.Errorf("weight %d: precision %v of the product: %w", i, lam[i], ErrNotPD)
		}
	}
	return lam, nil
}

func diagonalProduct(prior *Normal, parts []*Normal) (*Normal, error) {
	lam, err := diagonals(prior, parts)
	if err != nil {
		return nil, err
	}
	for i := range lam {
		lam[i] = 1 / lam[i]
	}
	return NewDiagonal(make([]float64, len(lam)), lam), nil
}

func lowRankProduct(prior *Normal, parts []*Normal, rank int, halt *stop.Stop) (*Normal, error) {
	lam, err := diagonals(prior, parts)
	if err != nil {
		return nil, err
	}
	b := dense.NewUnder(halt, rank, prior.Dim())
	at := 0
	for _, q := range parts {
		if q.Form != LowRank {
			continue
		}
		h, err := q.halfPrec()
		if err != nil {
			return nil, err
		}
		for k := range h.Rows {
			halt.Check()
			copy(b.Row(at), h.Row(k))
			at++
		}
	}
	return FromPrecision(make([]float64, len(lam)), lam, b)
}

// halfPrec is B with Σ⁻¹ = D⁻¹ + BᵀB, r x p.
func (g *Normal) halfPrec() (*dense.Matrix, error) {
	c, err := g.capacitance()
	if err != nil {
		return nil, err
	}
	b := g.F.T()
	for k := range b.Rows {
		b.Stop.Check()
		r := b.Row(k)
		for i := range r {
			r[i] /= g.D[i]
		}
	}
	dense.SolveLower(c, b)
	return b, nil
}

// FromPrecision returns the LowRank Normal with precision diag(lam) + BᵀB, B r x p;
// mean is kept. Woodbury: D = 1/lam, F = D Bᵀ C⁻ᵀ with C Cᵀ = I + B D Bᵀ.
// Cost: O(p r²).
func FromPrecision(mean, lam []float64, b *dense.Matrix) (*Normal, error) {
	d := make([]float64, len(lam))
	for i, l := range lam {
		d[i] = 1 / l
	}
	c := dense.NewUnder(b.Stop, b.Rows, b.Rows)
	dense.GramT(c, b, d)
	for i := range c.Rows {
		c.Row(i)[i]++
	}
	if err := dense.Cholesky(c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotPD, err)
	}
	f := b.Clone()
	for k := range f.Rows {
		f.Stop.Check()
		r := f.Row(k)
		for i := range r {
			r[i] *= d[i]
		}
	}
	dense.SolveLower(c, f)
	return NewLowRank(mean, d, f.T())
}

func fullProduct(prior *Normal, parts []*Normal, halt *stop.Stop) (*Normal, error) {
	p := prior.Dim()
	sum, one := dense.NewUnder(halt, p, p), dense.NewUnder(halt, p, p)
	if err := prior.Prec(one); err != nil {
		return nil, err
	}
	k := float64(len(parts) - 1)
	for i := range p {
		halt.Row(i)
		dense.Axpy(-k, one.Row(i), sum.Row(i))
	}
	for _, q := range parts {
		if err := q.Prec(one); err != nil {
			return nil, err
		}
		for i := range p {
			halt.Row(i)
			dense.Axpy(1, one.Row(i), sum.Row(i))
		}
	}
	if err := dense.Cholesky(sum); err != nil {
		return nil, fmt.Errorf("the product: %w: %w", ErrNotPD, err)
	}
	cov := one
	dense.InverseFromCholesky(cov, sum)
	if err := dense.Cholesky(cov); err != nil {
		return nil, fmt.Errorf("the product: %w: %w", ErrNotPD, err)
	}
	return NewFull(make([]float64, p), cov), nil
}

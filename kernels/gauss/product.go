package gauss

import (
	"errors"
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
)

// Product multiplies posteriors over the same weights that started from one prior, the prior
// counted once: Λ = Λ0 + Σ(Λk - Λ0), and likewise for precision times mean. logC is log ∫ Πqk /
// p^(K-1), which the joint log evidence has beyond the sum of the parts' log evidences.
//
// The product is Diagonal if all are, LowRank if none is Full and the ranks add up to less than the
// number of weights, else Full.
//
// Cost: O(K p³) for Full, O(p (Σ ranks)²) for LowRank.
// Errors: ErrNotPD if the product is improper.
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
	norm0, err := prior.LogDet()
	if err != nil {
		return nil, 0, err
	}
	// All is relative to the narrowest part: what it shares with the others does not cancel.
	norms, base := make([]float64, len(parts)), 0
	for k, q := range parts {
		if norms[k], err = q.LogDet(); err != nil {
			return nil, 0, err
		}
		if norms[k] < norms[base] {
			base = k
		}
	}
	for k, n := range norms {
		if k != base {
			logC += 0.5 * (norm0 - n)
		}
	}
	if form == Full {
		post, d, err := fullProduct(prior, parts, base)
		return post, logC - 0.5*d, err
	}
	nu, apart, err := pull(prior, parts, base)
	if err != nil {
		return nil, 0, err
	}
	if form == Diagonal {
		post, err = diagonalProduct(prior, parts)
	} else {
		post, err = lowRankProduct(prior, parts, rank, halt)
	}
	if err != nil {
		return nil, 0, err
	}
	norm, err := post.LogDet()
	if err != nil {
		return nil, 0, err
	}
	d := memory.Floats(p)
	post.MulCov(d, nu)
	logC -= 0.5 * (apart - dense.Dot(d, nu) + norms[base] - norm)
	for i := range d {
		post.Mean[i] = parts[base].Mean[i] + d[i]
	}
	return post, logC, nil
}

// pull is the precision times mean of the product, and the squared distance of its factors,
// relative to the mean of part base.
func pull(prior *Normal, parts []*Normal, base int) (nu []float64, apart float64, err error) {
	p := prior.Dim()
	nu = memory.Floats(p)
	u := memory.Floats(p)
	add := func(q *Normal, times float64) error {
		d := less(q.Mean, parts[base].Mean)
		if err := q.MulPrec(u, d); err != nil {
			return err
		}
		dense.Axpy(times, u, nu)
		apart += times * dense.Dot(u, d)
		return nil
	}
	for k, q := range parts {
		if k != base {
			err = errors.Join(err, add(q, 1))
		}
	}
	return nu, apart, errors.Join(err, add(prior, -float64(len(parts)-1)))
}

// less is a - b.
func less(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range d {
		d[i] = a[i] - b[i]
	}
	return d
}

// diagonals is the sum of the diagonal precision terms of the parts, with the prior counted once.
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
		h, err := q.HalfPrec()
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

// HalfPrec is B, r x p, in Σ⁻¹ = D⁻¹ + BᵀB for a LowRank covariance; otherwise B has no rows.
// Cost: O(p r²). Errors: a covariance that is not positive definite.
func (g *Normal) HalfPrec() (*dense.Matrix, error) {
	if g.Form != LowRank || g.F == nil {
		return dense.New(0, g.Dim()), nil
	}
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

// FromPrecision returns the LowRank Normal with precision diag(lam) + BᵀB, B r x p; mean is
// retained. Woodbury: D = 1/lam, F = D Bᵀ C⁻ᵀ with C Cᵀ = I + B D Bᵀ.
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

// fullProduct is the product and the squared distance of its factors, minus the determinants in
// logC that are not those of the parts.
func fullProduct(prior *Normal, parts []*Normal, base int) (post *Normal, d float64, err error) {
	var factors []Factor
	add := func(q *Normal, times float64) error {
		f, err := q.ToFull()
		if err == nil {
			factors = append(factors, Factor{Times: times, Root: f.L, Mean: less(q.Mean, parts[base].Mean)})
		}
		return err
	}
	for k, q := range parts {
		if k != base {
			err = errors.Join(err, add(q, 1))
		}
	}
	if err = errors.Join(err, add(prior, -float64(len(parts)-1))); err != nil {
		return nil, 0, err
	}
	a, err := parts[base].ToFull()
	if err != nil {
		return nil, 0, err
	}
	root, mean, logDet, apart, err := Multiply(a.L, factors, nil, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("the product: %w", err)
	}
	for i, m := range parts[base].Mean {
		mean[i] += m
	}
	return NewFull(mean, root), apart + logDet, nil
}

package gauss

import (
	"fmt"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/memory"
)

// Factor is exp(-Times/2 (x - Mean)ᵀ(R Rᵀ)⁻¹(x - Mean)), R lower triangular: an unnormalised
// Gaussian, to the power Times. A negative Times divides.
type Factor struct {
	Times float64
	Root  *dense.Matrix // p x p
	Mean  []float64     // relative to the mean of the Gaussian that is multiplied
}

// Multiply multiplies N(0, A Aᵀ), A lower triangular, by factors and by exp(νᵀx - xᵀΔx/2); delta
// and nu may be nil. It returns the lower triangular root and the mean of the product, log |Σ⁻¹| +
// log |A Aᵀ|, and the squared distance of the factors, Σ Times |R⁻¹Mean|² - meanᵀΣ⁻¹mean.
//
// With T = R⁻¹A for each factor
//
//	Σ = A (I + M)⁻¹ Aᵀ,  M = Σ Times TᵀT + AᵀΔA,  mean = A (I + M)⁻¹ (Σ Times TᵀR⁻¹Mean + Aᵀν)
//
// so that neither a covariance nor a precision is formed, and the relative error of the mean is
// small if the means are close: with A the narrowest of the posteriors, I + M is near the identity,
// however much better some directions are known than others.
//
// Cost: O(p³) per factor. Errors: ErrNotPD if the product is improper.
func Multiply(a *dense.Matrix, factors []Factor, delta *dense.Matrix, nu []float64) (root *dense.Matrix, mean []float64, logDet, apart float64, err error) {
	p := a.Rows
	mid, term := dense.NewUnder(a.Stop, p, p), dense.NewUnder(a.Stop, p, p)
	rhs, u := memory.Floats(p), memory.Floats(p)
	if nu != nil {
		dense.GemvT(rhs, a, nu)
	}
	if delta != nil {
		dense.Mul(term, delta, a)
		dense.MulTA(mid, a, term)
		for i := range p { // symmetric to the last bit
			mid.Stop.Row(i)
			for j := range i {
				s := 0.5 * (mid.Row(i)[j] + mid.Row(j)[i])
				mid.Row(i)[j], mid.Row(j)[i] = s, s
			}
		}
	}
	t := dense.NewUnder(a.Stop, p, p)
	for _, f := range factors {
		for i := range p {
			t.Stop.Row(i)
			copy(t.Row(i), a.Row(i)[:i+1])
			clear(t.Row(i)[i+1:])
		}
		dense.SolveLower(f.Root, t)
		dense.Gram(term, t, nil)
		for i := range p {
			mid.Stop.Row(i)
			dense.Axpy(f.Times, term.Row(i), mid.Row(i))
		}
		w := append([]float64(nil), f.Mean...)
		dense.SolveLowerVec(f.Root, w)
		apart += f.Times * dense.Dot(w, w)
		dense.GemvT(u, t, w)
		dense.Axpy(f.Times, u, rhs)
	}
	for i := range p {
		mid.Row(i)[i]++
	}
	c, err := dense.LowerRoot(mid)
	if err != nil {
		return nil, nil, 0, 0, fmt.Errorf("%w: %w", ErrNotPD, err)
	}
	lt := a.T()
	dense.SolveLowerT(c, lt) // A' = A C⁻¹, so A'ᵀ = C⁻ᵀAᵀ
	dense.SolveLowerTVec(c, rhs)
	mean = memory.Floats(p)
	dense.GemvT(mean, lt, rhs)
	return lt.T(), mean, dense.LogDet(c), apart - dense.Dot(rhs, rhs), nil
}

package laplace

import (
	"slices"
	"sync"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
)

// lag returns how far the mode of the weights is from the mean of a skew posterior, by the third
// derivatives of the log likelihood:
//
//	½ Σ Xᵀ (q ∘ dW/dη),  q = diag(X Σ Xᵀ)
//
// It is nil if there are none. ev is the Gaussian at the search's present point. Cost: O(n p²) for
// the full form, like a Newton step, and for the others that of the variances of all predictors.
//
// Source: [rue2009], section 3.2.3.
func (h *learner) lag(ev *evidence) []float64 {
	n := h.x.N
	third := memory.Floats(n)
	if h.lik.Traits().Gaussian || !h.third(third, ev.floored) {
		return nil
	}
	q := memory.Floats(n)
	ev.rows(q)
	for i := range third {
		third[i] *= 0.5 * q[i]
	}
	return h.mulCovRows(ev, third)
}

// mulCovRows returns Σ Xᵀ v.
func (h *learner) mulCovRows(ev *evidence, v []float64) []float64 {
	s := h.search
	out, rhs := memory.Floats(h.x.P), memory.Floats(h.x.P)
	s.mulT(rhs, v)
	if ev.mulCov != nil {
		ev.mulCov(out, rhs)
		return out
	}
	s.root.MulT(rhs, rhs)
	s.Decrement = 1e-12 // run conjugate gradients to the end
	s.solve(out, rhs)
	s.root.Mul(out, out)
	return out
}

// If the Hessian leaves curvature out, q is not the variances of the posterior.
const thirdNote = "third_order is left out: the Hessian lacks curvature, and so do the variances that it needs"

// thirdOrder gives the Gaussian bl the mean to third order if the model asks for it. ev is the
// Gaussian at the mode, the search's present point: bl itself, or near the middle of the mixture
// that bl is. note says why it was not done.
func (h *learner) thirdOrder(bl *belief, ev *evidence) (out *belief, note string) {
	if !h.x.Options.ThirdOrder {
		return bl, ""
	}
	if !h.exact() {
		return bl, thirdNote
	}
	lag := h.lag(ev)
	if lag == nil {
		return bl, ""
	}
	if h.tied != nil {
		h.tied.transform(lag)
	}
	moved := *bl
	moved.build = sync.OnceValues(func() (*gauss.Normal, error) {
		g, err := bl.build()
		if err != nil {
			return nil, err
		}
		own := *g
		own.Mean = slices.Clone(g.Mean)
		dense.Axpy(-1, lag, own.Mean)
		return &own, nil
	})
	return &moved, ""
}

// transform transforms weights v of the search to those of the fit, in place.
func (t *tied) transform(v []float64) {
	for _, s := range t.of {
		a := s.matrix()
		for _, cols := range s.Levels {
			s.transform(a, cols, func(j int) []float64 { return v[j : j+1] })
		}
	}
}

package laplace

import (
	"math"
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
// It is nil if there are none. ev is the Gaussian at the search's present point, and q are the
// variances of the predictors under it.
//
// Source: [rue2009], section 3.2.3.
func (h *learner) lag(ev *evidence, q []float64) []float64 {
	third := memory.Floats(h.x.N)
	if h.lik.Traits().Gaussian || !h.third(third, ev.floored) {
		return nil
	}
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

// thirdOrder gives the Gaussian bl the mean to third order if the model asks for it, or if the problem
// is to be balanced and bl expects another number of events of its rows than came (unbalanced). ev is the
// Gaussian at the mode, the search's present point: bl itself, or near the middle of the mixture
// that bl is. note says why it was not done.
func (h *learner) thirdOrder(bl *belief, ev *evidence) (out *belief, note string) {
	asked := h.x.Options.ThirdOrder
	if !asked && !h.mayUnbalance() {
		return bl, ""
	}
	if !h.exact() {
		if asked {
			note = thirdNote
		}
		return bl, note
	}
	q := memory.Floats(h.x.N)
	ev.rows(q)
	lag := h.lag(ev, q)
	if lag == nil || !asked && !h.unbalanced(q, lag) {
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

// offBalance is the share of the events, or of what is no event, by which their expected number may be
// off. Of trials or binary responses no more than rareEvents may be events: where both are frequent and
// rows few, the mode predicts new ones a little better than the mean.
const (
	offBalance = 0.05
	rareEvents = 0.1
)

// mayUnbalance reports whether the expected number of events may be unbalanced: at the mode it is about
// what came, and on average over the Gaussian more by ½ Σ q d²μ/dη², of which Σ q dμ/dη, the number of
// weights that the rows determine, is a bound.
func (h *learner) mayUnbalance() bool {
	x, t := h.x, h.lik.Traits()
	if !x.Balanced || !x.LearnsPrior() || h.pass != nil || h.tied != nil || x.Count != nil || !(t.Binary || t.Trials || t.Equidispersed) {
		return false
	}
	_, least, rare := h.events(h.search.now.Eta, nil)
	return rare && 0.5*float64(min(x.N, x.P)) > offBalance*least
}

// unbalanced reports whether the Gaussian at the mode expects a number of events that is off by
// offBalance, and lag mends at least half of it. The posterior itself expects what came, as far as
// the prior lets it, because the expectation of its slope is 0.
func (h *learner) unbalanced(q, lag []float64) bool {
	eta, moved := h.search.now.Eta, memory.Floats(h.x.N)
	h.x.Affine(moved, lag, nil)
	for i, s := range eta {
		moved[i] = s - moved[i]
	}
	came, least, _ := h.events(eta, nil)
	before, _, _ := h.events(eta, q)
	after, _, _ := h.events(moved, q)
	return math.Abs(before-came) > offBalance*least && math.Abs(after-came) < 0.5*math.Abs(before-came)
}

// events returns the expected number of events at predictors eta, on average over their variances q if
// these are given, that number or of what is no event, whichever is less, and whether it is rare.
func (h *learner) events(eta, q []float64) (events, least float64, rare bool) {
	b, t := h.x.Batch(), h.lik.Traits()
	trials := 0.0
	for i, s := range eta {
		h.search.Stop.Row(i)
		o := b.Obs(i)
		n := o.Weight
		if t.Trials {
			n *= o.Trials
		}
		mean := h.lik.Response(s)
		if q != nil {
			mean, _ = h.lik.Predict(s, q[i])
		}
		events, trials = events+n*mean, trials+n
	}
	if t.Equidispersed { // there is no end to how many may come
		return events, events, true
	}
	least = min(events, trials-events)
	return events, least, least < rareEvents*trials
}

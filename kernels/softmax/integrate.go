package softmax

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
)

// Integration, as in package laplace: the evidence is a likelihood of the prior variances. With
// half-t priors of their roots it gives their posterior, and the posterior of the weights is the
// mixture over it, of which mean and covariance are kept. If the rows hardly distinguish the classes
// the evidence is highest at a variance of 0, under which all weights would be known exactly.
//
// Source: [rue2009].

const (
	// maxWork bounds the estimated number of operations of integration: some seconds.
	maxWork = 5e9
	// pointSteps is the estimated number of Newton steps for a point of the sum, and of steps to
	// the nearest Gaussian.
	pointSteps = 12
)

// integrate finds the posterior of the prior variances near theta and leaves the learner at its
// mode, which it returns. around is nil if it is not found: the learner then stays at theta.
func (h *learner) integrate(theta []float64) (around *mode.Spread, at []float64, err error) {
	s, o := h.search, &h.x.Options
	one := h.work()
	if !o.Integrate || h.hessian != "full" || s.n == 0 || len(theta) == 0 || float64(6*len(theta)+6)*one > maxWork {
		return nil, theta, nil
	}
	peak, err := mode.VariancePeak(h, h.Hypers(o, 1), theta, h.lo, h.hi, s.late)
	if err != nil {
		return nil, nil, err
	}
	at = theta
	if peak != nil {
		at = peak.Mode()
		if around, err = peak.Variances(one, maxWork, h.here, h.events()); err != nil {
			return nil, nil, err
		}
	}
	if _, _, err := h.Try(at); err != nil {
		return nil, nil, err
	}
	h.Keep()
	return around, at, nil
}

// single reports whether the weights' posterior is that under a single value of the variances, and
// whether that matters; around is what was found of them.
func (h *learner) single(around *mode.Spread) bool {
	return h.x.Options.Integrate && h.Single(around, h.at.post.Var, h.root.Of.Diag())
}

// here returns the posterior of the weights at the learner's present point. The search for the
// nearest Gaussian starts from the last one, moved by the change of the mode.
func (h *learner) here() (*gauss.Normal, error) {
	here := h.at.post
	if !h.refines() {
		return here, nil
	}
	if h.inRows() {
		ev, err := h.refine(h.at)
		if err != nil {
			return nil, err
		}
		return ev.post, nil
	}
	if h.near == nil {
		h.near = h.nearest()
		h.near.evaluate(h.at.belief, here.Mean)
	} else {
		at := slices.Clone(here.Mean)
		for j, m := range h.beside {
			at[j] += h.near.at.post.Mean[j] - m
		}
		bl, err := h.near.belief(at)
		if err != nil {
			return nil, err
		}
		h.near.evaluate(bl, at)
	}
	h.beside = append(h.beside[:0], here.Mean...)
	if err := h.near.climb(); err != nil {
		return nil, err
	}
	return h.near.at.post, nil
}

// events are the classes of all rows, or of the rows of some panels.
type events struct {
	*learner
	r          *rowAverage
	mean, root [][]float64 // of the predictors of each row: their mean, the root of their covariance
	rows       []int
	out        []float64
}

// events returns those of the rows; nil if some weights are known.
func (h *learner) events() mode.Predictor {
	if h.x.HasKnown() {
		return nil
	}
	return &events{learner: h, r: newRowAverage(pointsOf(h.search.a))}
}

func (e *events) Under(g *gauss.Normal) []float64 {
	const panels = 4
	s := e.search
	y := s.newPanel(g.L, true)
	mean := dense.New(s.n, s.a)
	dev := make([]float64, len(g.Mean))
	for j, m := range e.learner.root.Of.Mean {
		dev[j] = g.Mean[j] - m
	}
	s.product(mean, dev)
	dense.Axpy(1, s.base.Data, mean.Data)
	e.mean, e.root, e.rows = e.mean[:0], e.root[:0], e.rows[:0]
	all := (s.n + panelRows - 1) / panelRows
	for k := range min(all, panels) {
		lo := k * all / min(all, panels) * panelRows
		hi := min(lo+panelRows, s.n)
		y.fill(s, lo, hi)
		for i := lo; i < hi; i++ {
			e.r.covariance(y, i-lo)
			e.mean, e.root, e.rows = append(e.mean, mean.Row(i)), append(e.root, slices.Clone(e.r.l)), append(e.rows, i)
		}
	}
	return e.By(kernels.Unscaled)
}

func (e *events) By(k kernels.PredictiveScale) []float64 {
	e.out = e.out[:0]
	mean, pinned := make([]float64, e.search.a), e.classes.Pinned >= 0
	for i, m := range e.mean {
		offset, times := 0.0, e.search.weight(e.rows[i])
		if e.x.Offset != nil {
			offset = e.x.Offset[e.rows[i]]
		}
		for j, x := range m {
			mean[j] = offset + k.Mean*(x-offset)
		}
		for j, x := range e.root[i] {
			e.r.l[j] = math.Sqrt(k.Variance) * x
		}
		e.r.average(mean, -1, pinned)
		for _, p := range e.r.prob {
			e.out = append(e.out, times*p)
		}
		if pinned {
			e.out = append(e.out, times*max(1-floats.Sum(e.r.prob), 0))
		}
	}
	return e.out
}

// work returns the approximate number of operations for a point.
func (h *learner) work() float64 {
	s := h.search
	n, a, d := float64(s.n), float64(s.a), float64(s.a*s.p)
	row := a * float64(len(s.Val)) / n // entries
	one := n*(row*row+a*d) + d*d*d
	if h.refines() {
		one += n * a * a * (0.5*d + pairs)
	}
	return pointSteps * one
}

package softmax

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/memory"
)

// learner maximises the evidence over the prior variances, a single one or one by group of
// features, the same in every class. The slope is that of package laplace, with the part
// through the mode from the third derivatives of the softmax.
type learner struct {
	*engine
	mode.Groups
	theta, lo, hi []float64
	newton        int
	at            *evidence
	w, a          []float64 // where the search starts
	tried, kept   []float64 // the latest θ, and that of the kept mode
	near          *nearest  // the last Gaussian found
	beside        []float64 // and the mode for it
}

func newLearner(e *engine) (*learner, error) {
	h := &learner{engine: e, Groups: mode.NewGroups(e.x), a: make([]float64, len(e.search.z))}
	starts, err := h.Groups.Start(e.x)
	if err != nil {
		return nil, err
	}
	for _, start := range starts {
		h.theta = append(h.theta, start)
		h.lo, h.hi = append(h.lo, start-mode.Reach), append(h.hi, start+mode.Reach)
	}
	return h, nil
}

// endGain is the gain left in nats below which a variance is moved to the end of its range: weights
// about which the data say nothing are 0 there.
const endGain = 1e-3

// starts returns a coarse grid if the Hessian has all curvature, otherwise a single start.
func (h *learner) starts() [][]float64 {
	if h.hessian != "full" {
		return [][]float64{h.theta}
	}
	return h.Starts(h.theta, -1)
}

// Try returns the log evidence at θ, searching for the mode from where Keep was last called.
func (h *learner) Try(theta []float64) (float64, bool, error) {
	e := h.engine
	prior, err := h.Prior(h.engine.prior, theta)
	if err != nil {
		return 0, false, err
	}
	if e.root, err = prior.Root(); err != nil {
		return 0, false, err
	}
	e.search.root = e.root
	if e.search.space == rowSpace {
		copy(e.search.z, h.a)
		if grown := h.grown(theta); grown > restartGrowth {
			for i := range e.search.z {
				e.search.z[i] *= math.Exp(-grown)
			}
		}
	}
	ev, err := e.climbTo(h.w)
	h.newton += e.search.Iterations
	if err != nil {
		return 0, false, err
	}
	h.at, h.tried = ev, append(h.tried[:0], theta...)
	return ev.log, e.search.Status == "" && h.atMode(), nil
}

// Keep makes the mode that Try found the next starting point.
func (h *learner) Keep() {
	h.w = append(h.w[:0], h.at.post.Mean...)
	if h.search.space == rowSpace {
		h.a = append(h.a[:0], h.search.z...)
		h.kept = append(h.kept[:0], h.tried...)
	}
}

// atMode reports whether the search in row space ended where a equals the residuals, as at the
// mode. Under very wide priors a point of the same height, up to rounding, need not have the
// curvature of the mode.
func (h *learner) atMode() bool {
	s := h.search
	if s.space != rowSpace {
		return true
	}
	off, most := 0.0, 0.0
	for i := range s.n {
		for k, r := range s.now.resid.Row(i) {
			a := s.z[i*s.a+k]
			off, most = max(off, math.Abs(r-a)), max(most, math.Abs(a))
		}
	}
	return off <= 0.1*most
}

// restartGrowth is the growth of a log variance above which the search in row space starts with the
// predictors of the kept mode. With the same a they grow with the variances: for separated rows so
// much that all curvature is 0, and with it every evidence near 0.
const restartGrowth = 8

// grown returns the largest growth of a log variance since the last call of Keep.
func (h *learner) grown(theta []float64) float64 {
	most := 0.0
	for k, t := range h.kept {
		most = max(most, theta[k]-t)
	}
	return most
}

// Slope returns the derivative of the evidence and the scale that divides it into MacKay's step.
func (h *learner) Slope() (g, scale []float64, err error) {
	s, ev := h.search, h.at
	g, scale = make([]float64, len(h.theta)), make([]float64, len(h.theta))
	u := dense.New(s.n, s.a)
	h.logDetGradient(u)
	adj := memory.Floats(s.a * s.p)
	s.productT(adj, u)
	rhs := slices.Clone(adj)
	if h.hessian == "full" {
		ev.post.MulCov(adj, rhs)
	} else {
		h.root.MulT(rhs, rhs)
		if s.jacobi == nil {
			s.jacobi = make([]float64, len(adj))
		}
		s.setJacobi()
		s.cg.Solve(adj, rhs, 1e-6, 500, s.applyB, s.precondition, s.late)
		h.root.Mul(adj, adj)
	}
	v := h.root.Of.Diag()
	for j, m := range h.root.Of.Mean {
		k := h.Of[j%s.p]
		if k < 0 {
			continue
		}
		dw := ev.post.Mean[j] - m
		known := min(max(1-ev.post.Var[j]/h.root.Of.Var[j], 0), 1)
		g[k] += 0.5 * (dw*dw/v[j] - known - adj[j]*dw/v[j])
		scale[k] += 0.5 * known
	}
	return g, scale, nil
}

// logDetGradient sets u_ia to the derivative of log |I + Σ0 H| in η_ia. With Q the derivative in
// the W of the row, W = ω(diag(π) - ππᵀ),
//
//	u_a = ω π_a [(Q_aa - Σ_b π_b Q_bb) - 2 ((Qπ)_a - πᵀQπ)]
//
// and if H contains only the diagonal of W
//
//	u_a = ω π_a [(1 - 2π_a) Q_aa - Σ_b π_b (1 - 2π_b) Q_bb]
func (h *learner) logDetGradient(u *dense.Matrix) {
	s, ev := h.search, h.at
	// triangular: the root's rows of class b end with the columns of b.
	triangular := ev.root != nil && ev.root == ev.post.L
	r := 1
	if ev.root != nil {
		r = ev.root.Cols
	}
	s.Parallel(s.n, len(s.Val)*s.a*(1+r/8), func(lo, hi int) {
		var y *panel
		if ev.root != nil {
			y = s.newPanel(ev.root, triangular)
		}
		q, pi, qp, mix := make([]float64, s.a), make([]float64, s.a), make([]float64, s.a), make([]float64, r)
		for i := lo; i < hi; i++ {
			s.Stop.Check()
			at := (i - lo) % panelRows
			if y != nil && at == 0 {
				y.fill(s, i, min(i+panelRows, hi))
			}
			w := s.weight(i)
			out := u.Row(i)
			clear(out)
			if !(w > 0) {
				continue
			}
			for b := range s.a {
				pi[b] = s.now.prob.Row(i)[b] / w
				if y != nil {
					yb := y.y[b].Row(at)
					q[b] = dense.Dot(yb, yb)
					continue
				}
				q[b] = 0 // diagonal
				col, val := s.Entries(i)
				for k, j := range col {
					q[b] += val[k] * val[k] * ev.post.Var[b*s.p+int(j)]
				}
			}
			if ev.split {
				mean := 0.0
				for b, v := range q {
					mean += pi[b] * (1 - 2*pi[b]) * v
				}
				for a := range out {
					out[a] = w * pi[a] * ((1-2*pi[a])*q[a] - mean)
				}
				continue
			}
			clear(mix)
			trace := 0.0
			for b, v := range q {
				yb := y.y[b].Row(at)
				dense.Axpy(pi[b], yb, mix[:len(yb)])
				trace += pi[b] * v
			}
			form := 0.0
			for b := range qp {
				yb := y.y[b].Row(at)
				qp[b] = dense.Dot(yb, mix[:len(yb)])
				form += pi[b] * qp[b]
			}
			for a := range out {
				out[a] = w * pi[a] * (q[a] - trace - 2*(qp[a]-form))
			}
		}
	})
}

package hmc

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// model is the posterior in coordinates z whose prior is N(0, I): w = mean + A z, with A Aᵀ the
// prior covariance.
type model struct {
	*design.Columns
	lik    lik.Likelihood
	obs    []lik.Obs
	offset []float64 // of the predictor, nil = 0
	mean   []float64
	root   *gauss.Root
	stop   *stop.Stop
}

// newModel returns a model of the rows of p with the given columns and offsets (nil = 0).
func newModel(x *design.Columns, p *kernels.Problem, offset []float64, prior *gauss.Normal) (*model, error) {
	root, err := prior.Root()
	if err != nil {
		return nil, fmt.Errorf("prior: %w", err)
	}
	m := &model{Columns: x, lik: p.Lik, obs: make([]lik.Obs, p.N), offset: offset, mean: prior.Mean, root: root, stop: p.Stop}
	b := p.Batch()
	for i := range m.obs {
		m.obs[i] = b.Obs(i)
	}
	return m, nil
}

func (m *model) dim() int { return len(m.mean) }

// weights sets w = mean + A z.
func (m *model) weights(w, z []float64, scratch *[]float64) {
	m.root.Mul(w, z)
	for i, v := range m.mean {
		w[i] += v
	}
}

// view is one goroutine's view of a model through a metric, with all scratch memory for its
// evaluation; it is a target.
type view struct {
	*model
	metric    *metric
	centre    []float64
	z, g      []float64 // at: z and the gradient in z
	w, x      []float64 // weights, and scratch for Xᵀ times a vector
	s, d1, d2 []float64 // predictors and derivatives of log p(y | s)
	scratch   []float64
}

func (m *model) view(r *metric, centre []float64) *view {
	p, n := m.dim(), len(m.obs)
	v := &view{model: m, metric: r, centre: centre}
	for _, x := range []*[]float64{&v.z, &v.g, &v.w, &v.x} {
		*x = memory.Floats(p)
	}
	for _, x := range []*[]float64{&v.s, &v.d1, &v.d2} {
		*x = memory.Floats(n)
	}
	return v
}

// density returns log p(y | z) + log N(z; 0, I) and sets grad to its gradient. Cost:
// O(nnz + p) and the prior's root; no allocation.
func (v *view) density(z, grad []float64) float64 {
	v.weights(v.w, z, &v.scratch)
	v.Affine(v.s, v.w, v.offset)
	l := 0.0
	for i, s := range v.s {
		v.stop.Row(i)
		logp, d1, d2 := v.lik.LogLik(v.obs[i], s)
		l += logp
		v.d1[i], v.d2[i] = d1, d2
	}
	v.MulT(v.x, v.d1)
	v.root.MulT(grad, v.x)
	dense.Axpy(-1, z, grad)
	return l - 0.5*(dense.Dot(z, z)+float64(len(z))*math.Log(2*math.Pi))
}

func (v *view) at(u, grad []float64) float64 {
	v.metric.to(v.z, v.centre, u)
	l := v.density(v.z, v.g)
	v.metric.mulT(grad, v.g)
	return l
}

// curvature replaces d2 by max(-d2, 0): rows of negative curvature, of a family that is not
// log-concave, are left out.
func (v *view) curvature() []float64 {
	for i, d2 := range v.d2 {
		v.d2[i] = math.Max(-d2, 0)
	}
	return v.d2
}

// hessian sets h = I + Aᵀ Xᵀ diag(c) X A.
func (v *view) hessian(h *dense.Matrix, c []float64) {
	p := v.dim()
	g, t := dense.NewUnder(v.stop, p, p), dense.NewUnder(v.stop, p, p)
	v.Gram(g, c)
	for j := range p {
		v.stop.Row(j)
		v.root.MulT(t.Row(j), g.Row(j)) // row j of G A, because G is symmetric
	}
	t = t.T()
	for j := range p {
		v.stop.Row(j)
		v.root.MulT(h.Row(j), t.Row(j))
		h.Row(j)[j]++
	}
}

// mode climbs from z to the maximum of the density by Newton's method, and returns the metric of the
// curvature there: a full one is exact, a diagonal one holds the curvature's diagonal and the climb
// uses conjugate gradients. ok is false if z is impossible. It need not converge: the mode is where
// the chains start, not the result.
func (v *view) mode(z []float64, fullMetric bool, halt *stop.Stop) (r *metric, ok bool) {
	p := v.dim()
	h := &hill{view: v, z: z, grad: memory.Floats(p), step: memory.Floats(p), next: memory.Floats(p), nextGrad: memory.Floats(p), t: make([]float64, len(v.obs))}
	h.logp = v.density(z, h.grad)
	if !special.Finite(h.logp) || !dense.AllFinite(h.grad) {
		return nil, false
	}
	if fullMetric {
		h.h = dense.NewUnder(v.stop, p, p)
	}
	n := mode.Newton{MaxIter: 100, Tol: math.Sqrt(1e-9)}
	_ = n.Climb(h, halt) // a point whose curvature has no factor is as good a start as any
	v.density(z, h.grad)
	return v.laplace(fullMetric), true
}

// hill makes a view a mode.Hill.
type hill struct {
	*view
	h                             *dense.Matrix // nil: conjugate gradients
	z, grad, step, next, nextGrad []float64
	logp, nextLogp                float64
	t                             []float64 // length n
}

func (h *hill) Direction() (slope float64, err error) {
	c := h.curvature()
	copy(h.step, h.grad)
	if h.h == nil {
		h.solve(h.step, c, h.t)
	} else {
		h.hessian(h.h, c)
		if err := dense.Cholesky(h.h); err != nil {
			return 0, err
		}
		dense.SolveLowerVec(h.h, h.step)
		dense.SolveLowerTVec(h.h, h.step)
	}
	return dense.Dot(h.step, h.grad), nil
}

func (h *hill) Gain(t float64) float64 {
	copy(h.next, h.z)
	dense.Axpy(t, h.step, h.next)
	if h.nextLogp = h.density(h.next, h.nextGrad); !dense.AllFinite(h.nextGrad) {
		return math.Inf(-1)
	}
	return h.nextLogp - h.logp
}

func (h *hill) Go(float64) bool {
	copy(h.z, h.next)
	h.grad, h.nextGrad, h.logp = h.nextGrad, h.grad, h.nextLogp
	return true
}

func (h *hill) Height() (logLik, penalty float64, rows int) { return h.logp, 0, len(h.obs) }

// laplace returns the metric of the curvature at the latest point.
func (v *view) laplace(fullMetric bool) *metric {
	p := v.dim()
	c := v.curvature()
	if fullMetric {
		h := dense.NewUnder(v.stop, p, p)
		v.hessian(h, c)
		if dense.Cholesky(h) == nil {
			inv := dense.NewUnder(v.stop, p, p)
			dense.InverseFromCholesky(inv, h)
			if dense.Cholesky(inv) == nil {
				return &metric{chol: inv}
			}
		}
		clear(h.Data)
		for i := range p {
			h.Row(i)[i] = 1
		}
		return &metric{chol: h}
	}
	r := &metric{scale: memory.Floats(p)}
	v.Squares(r.scale, c)
	prior := v.root.Variances() // exact if the prior is diagonal, otherwise close enough
	for i, s := range r.scale {
		r.scale[i] = 1 / math.Sqrt(1+s*prior[i])
		if !(r.scale[i] > 0) {
			r.scale[i] = 1
		}
	}
	return r
}

// solve replaces b by approximately (I + Aᵀ Xᵀ diag(c) X A)⁻¹ b, by conjugate gradients.
func (v *view) solve(b, c, t []float64) {
	p := len(b)
	r := append([]float64(nil), b...)
	d := append([]float64(nil), b...)
	q := memory.Floats(p)
	clear(b)
	rr := dense.Dot(r, r)
	for stop, k := 1e-8*rr, 0; rr > stop && k < 200; k++ {
		v.root.Mul(v.x, d)
		v.Mul(t, v.x)
		for i := range t {
			t[i] *= c[i]
		}
		v.MulT(v.x, t)
		v.root.MulT(q, v.x)
		dense.Axpy(1, d, q)
		a := rr / dense.Dot(d, q)
		if !special.Finite(a) {
			return
		}
		dense.Axpy(a, d, b)
		dense.Axpy(-a, q, r)
		r2 := dense.Dot(r, r)
		for i := range d {
			d[i] = r[i] + r2/rr*d[i]
		}
		rr = r2
	}
}

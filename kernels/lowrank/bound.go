package lowrank

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// Limits on the work for the bound: two rounds of up to eight steps, each with two products of
// X and one vector. The decomposition has hundreds.
const (
	boundRounds = 2
	boundSteps  = 8
)

// bounder evaluates the posterior under the whole design in coordinates b, w = μ0 + C b:
//
//	J(b) = ½ bᵀb - Σ log p(y_i | s_i),   s = offset + X C b
//
// J - ½ bᵀb is convex for a log-concave family, so |b - b̂| <= |∇J(b)| for every b, where b̂ is
// the mode. From the low-rank mode b̃ = H û some steps of conjugate gradients, preconditioned
// by the low-rank posterior, lead to a b nearer to b̂, and
//
//	|b̃ - b̂| <= |b̃ - b| + |∇J(b)|.
type bounder struct {
	r      *Reduced
	s      *solver
	x      kernels.Problem // without offset
	w, v   []float64       // length p
	z      []float64       // length n
	kt, ku []float64       // length k
}

// bound returns the least of these bounds, in prior standard deviations. It leaves s with the
// likelihood of another point.
func bound(r *Reduced, s *solver) float64 {
	p := r.of
	o := &bounder{r: r, s: s, x: *p, w: memory.Floats(p.P), v: memory.Floats(p.P), z: memory.Floats(p.N),
		kt: make([]float64, r.K()), ku: make([]float64, r.K())}
	o.x.Offset = nil
	start := memory.Floats(p.P)
	dense.Gemv(start, r.H, s.u)
	b := append([]float64(nil), start...)
	g, d := memory.Floats(p.P), memory.Floats(p.P)
	least := o.gradient(g, b)
	for round := 0; round < boundRounds && least > 0 && special.Finite(least); round++ {
		o.solve(d, g)
		dense.Axpy(1, d, b)
		size := o.gradient(g, b)
		moved := distance(b, start)
		if total := moved + size; total < least {
			least = total
		}
		if !(size > moved/4) || !special.Finite(size) {
			break
		}
	}
	return least
}

func norm(x []float64) float64 { return math.Sqrt(dense.Dot(x, x)) }

func distance(x, y []float64) float64 {
	s := 0.0
	for i, v := range x {
		s += (v - y[i]) * (v - y[i])
	}
	return math.Sqrt(s)
}

// mul sets z = X C b, mulT g = CᵀXᵀ z.
func (o *bounder) mul(z, b []float64) {
	o.r.root.Mul(o.w, b)
	o.x.Predictor(z, o.w)
}

func (o *bounder) mulT(g, z []float64) {
	o.x.MulT(o.w, z)
	o.r.root.MulT(g, o.w)
}

// gradient sets g = -∇J(b), and s.next.Curv to the likelihood's curvature, and returns |g|.
func (o *bounder) gradient(g, b []float64) float64 {
	o.mul(o.z, b)
	dense.Axpy(1, o.r.Offset, o.z)
	at := &o.s.next
	copy(at.Eta, o.z)
	if o.s.data.Evaluate(at); math.IsInf(at.LogLik, -1) {
		return math.Inf(1)
	}
	o.mulT(g, at.D1)
	dense.Axpy(-1, b, g)
	if n := norm(g); !math.IsNaN(n) {
		return n
	}
	return math.Inf(1)
}

// precondition sets y = (I - H (I - B⁻¹) Hᵀ) x, the low-rank posterior's covariance.
func (o *bounder) precondition(y, x []float64) {
	dense.GemvT(o.kt, o.r.H, x)
	copy(o.ku, o.kt)
	dense.SolveLowerVec(o.s.b, o.ku)
	dense.SolveLowerTVec(o.s.b, o.ku)
	dense.Axpy(-1, o.kt, o.ku)
	dense.Gemv(y, o.r.H, o.ku)
	dense.Axpy(1, x, y)
}

// solve sets d ≈ (I + CᵀXᵀWXC)⁻¹ g, until the residual is small compared with d.
func (o *bounder) solve(d, g []float64) {
	clear(d)
	rest := append([]float64(nil), g...)
	y, dir, hd := make([]float64, len(g)), make([]float64, len(g)), make([]float64, len(g))
	curv := append([]float64(nil), o.s.next.Curv...)
	o.precondition(y, rest)
	copy(dir, y)
	ry := dense.Dot(rest, y)
	for range boundSteps {
		o.mul(o.z, dir)
		for i, w := range curv {
			o.z[i] *= w
		}
		o.mulT(hd, o.z)
		dense.Axpy(1, dir, hd)
		curve := dense.Dot(dir, hd)
		if !(curve > 0) || !special.Finite(ry/curve) {
			return
		}
		a := ry / curve
		dense.Axpy(a, dir, d)
		dense.Axpy(-a, hd, rest)
		if norm(rest) <= norm(d)/8 {
			return
		}
		o.precondition(y, rest)
		next := dense.Dot(rest, y)
		for i := range dir {
			dir[i] = y[i] + next/ry*dir[i]
		}
		ry = next
	}
}

// spectral returns Result.Spectral.
func spectral(r *Reduced, s *solver) float64 {
	p := r.of
	if !s.quadratic || r.Forced > 0 || r.Prior.Dim() == 0 || p.N == 0 || math.IsNaN(r.Next) {
		return math.NaN()
	}
	v, ok := isotropic(r)
	if !ok {
		return math.NaN()
	}
	tau := 1.0
	if d, ok := s.data.Lik.(lik.Dispersed); ok {
		tau = 1 / d.Dispersion()
	}
	for _, w := range p.Weight {
		if w != p.Weight[0] {
			return math.NaN()
		}
	}
	if p.Weight != nil {
		tau *= p.Weight[0]
	}
	y := memory.Floats(p.N)
	for i := range y {
		y[i] = p.Y[i] - r.Offset[i]
	}
	vy, fitted := make([]float64, len(r.S)), memory.Floats(p.N)
	dense.GemvT(vy, r.XU, y)
	for j, l := range r.S {
		vy[j] /= l * l // V VᵀY with V = XU / S
	}
	dense.Gemv(fitted, r.XU, vy)
	return min(v*tau*r.Next, math.Sqrt(v*tau)/2) * distance(y, fitted)
}

// isotropic returns the common variance of all weights, if there is one.
func isotropic(r *Reduced) (v float64, ok bool) {
	if r.root.L != nil || r.root.H != nil {
		return 0, false
	}
	for _, x := range r.Prior.Var {
		if x != r.Prior.Var[0] {
			return 0, false
		}
	}
	return r.Prior.Var[0], true
}

package laplace

import (
	"math"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// A Gaussian likelihood needs no rows once their sums are known. With residuals r at weights w0,
// row weights W, noise variance D and w = w0 + δ
//
//	log p = -½ (Σ W log 2πD + (rᵀWr - 2 δᵀXᵀWr + δᵀXᵀWXδ)/D)
//
// XᵀWX is what elimination keeps by leaf, so an evaluation at other weights, prior variances or
// noise costs as much as there are leaves. w0 is the first mode found: the sum of squares there
// is small, so no digits are lost to the squares of the responses.
type sums struct {
	known   bool    // for the present columns
	at      bool    // w0 is a mode
	weight  float64 // Σ W
	squares float64 // rᵀWr
	w0, g   []float64
	step, h []float64 // δ and XᵀWXδ/D at the last point evaluated
	noise   float64   // D there
}

// newSums returns nil if the likelihood is not Gaussian or nothing is eliminated.
func newSums(s *search) *sums {
	if s.arrow == nil || !s.data.Lik.Traits().Gaussian {
		return nil
	}
	p := s.P
	return &sums{w0: memory.Floats(p), g: memory.Floats(p), step: memory.Floats(p), h: memory.Floats(p)}
}

// gather computes the sums over the rows at weights w.
func (s *search) gather(w []float64) {
	m := s.sums
	eta, one := memory.Floats(s.N), memory.Floats(s.N)
	s.Predictor(eta, w)
	m.squares, m.weight = 0, 0
	for i, y := range s.Y {
		s.Stop.Row(i)
		r := y - eta[i]
		one[i] = 1
		if s.Weight != nil {
			one[i] = s.Weight[i]
		}
		if one[i] == 0 {
			r = 0 // whatever its response
		}
		m.weight += one[i]
		m.squares += one[i] * r * r
		eta[i] = one[i] * r
	}
	if !m.known {
		s.arrow.set(one)
		s.arrow.w = nil
		m.known, m.noise = true, 1
	}
	s.arrow.mulT(m.g, eta)
	copy(m.w0, w)
}

// evaluateSums computes the likelihood at u from the sums.
func (s *search) evaluateSums(pt *mode.Point, u []float64) {
	m := s.sums
	w := memory.Floats(s.P)
	s.root.Mul(w, u)
	for j, v := range s.root.Of.Mean {
		w[j] += v
	}
	if !m.known {
		s.gather(w)
	}
	d := s.data.Lik.(lik.Dispersed).Dispersion()
	if d != m.noise {
		s.arrow.scale(m.noise / d)
		m.noise = d
	}
	for j, v := range w {
		m.step[j] = v - m.w0[j]
	}
	s.arrow.mul(m.h, m.step)
	pt.LogLik = -0.5 * (m.weight*math.Log(2*math.Pi*d) + m.of()/d)
	if !special.Finite(pt.LogLik) {
		pt.LogLik = math.Inf(-1)
	}
}

// runSums is run without rows.
func (s *search) runSums(check string) error {
	if math.IsInf(s.now.LogLik, -1) { // to find the row
		pt, w := mode.NewPoint(s.N), memory.Floats(s.P)
		s.weights(w)
		s.Predictor(pt.Eta, w)
		s.data.Evaluate(&pt)
		pt.LogLik = math.Inf(-1)
		return s.data.Start(&pt, check)
	}
	steps := 0
	for {
		if err := s.Climb(s, s.Stop); err != nil {
			return err
		}
		s.Iterations += steps
		if s.sums.at || s.Status != "" {
			break
		}
		s.sums.at, steps = true, s.Iterations
		w := memory.Floats(s.P)
		s.weights(w)
		s.gather(w)
		s.evaluateHere()
	}
	s.evaluateHere() // the last step evaluated may not have been taken
	return nil
}

// of returns the sum of squares at the last point evaluated.
func (m *sums) of() float64 {
	return max(m.squares+dense.Dot(m.step, m.h)*m.noise-2*dense.Dot(m.step, m.g), 0)
}

// slope sets dst to the derivative of log p in the weights there.
func (m *sums) slope(dst []float64) {
	for j, g := range m.g {
		dst[j] = g/m.noise - m.h[j]
	}
}

// scale multiplies the curvatures by f.
func (a *arrow) scale(f float64) {
	for i := range a.h.Rows {
		row := a.h.Row(i)
		for j := range row {
			row[j] *= f
		}
	}
	for k := range a.d {
		a.d[k] *= f
	}
	for k := range a.tie.Val {
		a.tie.Val[k] *= f
	}
}

// mul sets dst = H x.
func (a *arrow) mul(dst, x []float64) {
	q := a.wide
	b, u := make([]float64, len(a.block)), a.u
	for i, j := range a.block {
		b[i] = x[j]
	}
	if len(b) > 0 {
		dense.Gemv(u, a.h, b)
	}
	for k := range len(a.start) - 1 {
		a.Stop.Row(k)
		leaf := a.split.leaf[k*q : (k+1)*q]
		for r, j := range leaf {
			col, val := a.tie.Entries(k*q + r)
			s := 0.0
			for e, c := range col {
				s += val[e] * b[c]
				u[c] += val[e] * x[j]
			}
			for c, o := range leaf {
				s += a.d[(k*q+r)*q+c] * x[o]
			}
			dst[j] = s
		}
	}
	for i, j := range a.block {
		dst[j] = u[i]
	}
}

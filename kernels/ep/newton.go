package ep

import (
	"math"

	"github.com/bglm/bglm/kernels/special"
)

// newtonStep moves all means together to where the sweeps would move them one at a time.
//
// At the fixed point of factorised EP a row's sites are ν_j = x_j α + τ_j μ_j with α the derivative
// of its log Z, so with D the prior precisions the means solve
//
//	D μ = Xᵀ α(X μ)
//
// like those of a joint posterior: only the variances are factorised. As a function of the
// tilted mean m + vα of its predictor, α falls with slope W = β/(1-vβ). This is one Newton step,
// (D + XᵀWX) δ = Xᵀα - Dμ, by conjugate gradients, and α changes by -W Xδ. Fixed points do not
// change. Sweeps alone converge as slowly as the weights are collinear: with an intercept beside
// full sets of indicators by a few per cent per sweep at best.
//
// Cost: that of one or two sweeps.
type newtonStep struct {
	alpha, curv []float64 // of the rows, at their last visit
	eta, back   []float64 // n
	mean, grad  []float64 // p
	step        []float64
	res, dir    []float64
	prod        []float64
	taken       bool
	wait, hold  int // sweeps to wait, and how many after the next failure
}

const (
	// maxGradients bounds the steps of conjugate gradients; they end when the residual is
	// nearGradient of the initial one, in standard deviations of the weights.
	maxGradients = 30
	nearGradient = 0.05
	// maxMove bounds the move of a predictor, in its standard deviations.
	maxMove = 4
)

func newNewtonStep(n, p int) *newtonStep {
	rows, cols := make([]float64, 4*n), make([]float64, 6*p)
	part := func(s *[]float64, n int) (r []float64) {
		r, *s = (*s)[:n:n], (*s)[n:]
		return r
	}
	s := &newtonStep{}
	for _, to := range []*[]float64{&s.alpha, &s.curv, &s.eta, &s.back} {
		*to = part(&rows, n)
	}
	for _, to := range []*[]float64{&s.mean, &s.grad, &s.step, &s.res, &s.dir, &s.prod} {
		*to = part(&cols, p)
	}
	return s
}

// visited records the moments of row i.
func (s *newtonStep) visited(i int, alpha, beta, ratio float64) {
	s.alpha[i], s.curv[i] = alpha, math.Max(beta/ratio, 0)
}

// accelerate makes the step from the sites of the last sweep. After steps that made the changes
// grow it waits, longer each time.
func (d *diagonal) accelerate(grew bool) bool {
	s, p := d.newton, d.p
	if s == nil {
		return false
	}
	if grew && s.taken {
		s.hold = 2*s.hold + 1
		s.wait = s.hold
	}
	if s.taken = s.wait == 0; !s.taken {
		s.wait--
		return false
	}
	for j, w := range d.w {
		s.mean[j] = w.Mean
	}
	p.Affine(s.eta, s.mean, d.base)
	for i, t := range d.tilt {
		s.alpha[i] -= s.curv[i] * (s.eta[i] - t.Mean)
	}
	p.MulT(s.grad, s.alpha)
	for j := range s.grad {
		s.grad[j] -= s.mean[j] / p.PriorVar[j]
	}
	s.solve(d)
	p.Mul(s.eta, s.step)
	share := 1.0
	for i, t := range d.tilt {
		if far := math.Abs(s.eta[i]); far*share > maxMove*math.Sqrt(t.Variance) && t.Variance > 0 {
			share = maxMove * math.Sqrt(t.Variance) / far
		}
	}
	for j := range s.mean {
		s.mean[j] += share * s.step[j]
		d.tail[j].Nu = 0
	}
	for i := range p.N {
		p.Stop.Row(i)
		a := s.alpha[i] - share*s.curv[i]*s.eta[i]
		cols, xs := p.Entries(i)
		sites := d.site[p.Row[i]:p.Row[i+1]]
		for k, j := range cols {
			sites[k].Nu = xs[k]*a + sites[k].Tau*s.mean[j]
			d.tail[j].Nu += sites[k].Nu
		}
	}
	for j := range d.w {
		d.w[j].Mean = d.w[j].Variance * d.tail[j].Nu
		d.prev[j] = d.w[j]
	}
	return true
}

// solve sets step by conjugate gradients, preconditioned by the weights' variances.
func (s *newtonStep) solve(d *diagonal) {
	p := d.p
	clear(s.step)
	copy(s.res, s.grad)
	size := 0.0
	for j, r := range s.res {
		s.dir[j] = d.w[j].Variance * r
		size += s.dir[j] * r
	}
	least := nearGradient * nearGradient * size
	for range maxGradients {
		p.Mul(s.back, s.dir)
		for i := range s.back {
			s.back[i] *= s.curv[i]
		}
		p.MulT(s.prod, s.back)
		curve := 0.0
		for j, u := range s.dir {
			s.prod[j] += u / p.PriorVar[j]
			curve += u * s.prod[j]
		}
		if !(curve > 0) || !special.Finite(curve) {
			return
		}
		a, next := size/curve, 0.0
		for j, u := range s.dir {
			s.step[j] += a * u
			s.res[j] -= a * s.prod[j]
			next += s.res[j] * d.w[j].Variance * s.res[j]
		}
		b := next / size
		if size = next; size <= least {
			return
		}
		for j, r := range s.res {
			s.dir[j] = d.w[j].Variance*r + b*s.dir[j]
		}
	}
}

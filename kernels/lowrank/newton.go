package lowrank

import (
	"errors"
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// solver finds the mode of the posterior of u by Newton's method:
//
//	maximise  Σ log p(y_i | s_i) - ½ uᵀu,   s = offset + Z Tᵀu
//	B = I + S,  S = T ZᵀWZ Tᵀ,  W = diag(-∂² log p / ∂s²)
//
// No eigenvalue of B is below 1 if the likelihood is log-concave. A step costs n k² + O(k³)
// operations and no memory.
type solver struct {
	mode.Newton
	data      mode.Data
	earlier   kernels.Earlier
	quadratic bool // gaussian with identity link: W is constant in s
	z, t      *dense.Matrix
	offset    []float64

	u, v, grad, step []float64 // length k; v = Tᵀu and the like
	now, next        mode.Point
	dEta             []float64 // length n
	gram, s, b, tmp  *dense.Matrix
	gramFor          float64 // quadratic: the dispersion of gram, 0 = none
	negative         int     // rows of negative curvature
	floored          bool    // they count as flat, because B is not positive definite with them
	total            int     // steps in all runs
}

func newSolver(r *Reduced) *solver {
	p, k, n := r.of, r.K(), r.of.N
	s := &solver{Newton: mode.NewNewton(&p.Options), data: mode.DataOf(p), earlier: p.Earlier(), z: r.Z, t: r.T, offset: r.Offset,
		now: mode.NewPoint(n), next: mode.NewPoint(n), dEta: memory.Floats(n),
		gram: dense.New(k, k), s: dense.New(k, k), b: dense.New(k, k), tmp: dense.New(k, k)}
	for _, a := range []*[]float64{&s.u, &s.v, &s.grad, &s.step} {
		*a = make([]float64, k)
	}
	s.setLik(p.Lik)
	return s
}

func (s *solver) setLik(l lik.Likelihood) {
	s.data.Lik = l
	s.quadratic = l.Traits().Gaussian
}

// predictor sets dst = Z Tᵀu.
func (s *solver) predictor(dst, u []float64) {
	dense.GemvT(s.v, s.t, u)
	dense.Gemv(dst, s.z, s.v)
}

// curvature sets S and the factor of B for the present W. Negative W keep their sign if B is
// positive definite with them, otherwise they count as 0.
func (s *solver) curvature() error {
	s.negative, s.floored = 0, false
	for _, w := range s.now.Curv {
		if w < 0 {
			s.negative++
		}
	}
	d, known := s.data.Lik.(lik.Dispersed)
	switch {
	case s.quadratic && known && s.gramFor > 0:
		for i := range s.gram.Data {
			s.gram.Data[i] *= s.gramFor / d.Dispersion()
		}
		s.gramFor = d.Dispersion()
	default:
		dense.Gram(s.gram, s.z, s.now.Curv)
		if s.quadratic && known {
			s.gramFor = d.Dispersion()
		}
	}
	err := s.factor()
	if err != nil && s.negative > 0 {
		for i, w := range s.now.Curv {
			s.now.Curv[i] = max(w, 0)
		}
		s.floored = true
		dense.Gram(s.gram, s.z, s.now.Curv)
		err = s.factor()
	}
	return err
}

func (s *solver) factor() error {
	dense.Mul(s.tmp, s.t, s.gram)
	dense.MulTB(s.s, s.tmp, s.t)
	k := s.s.Rows
	for i := range k { // the two products round differently: make it symmetric
		s.data.Stop.Check()
		for j := range i {
			s.s.Row(j)[i] = s.s.Row(i)[j]
		}
	}
	for i := range k {
		copy(s.b.Row(i), s.s.Row(i))
		s.b.Row(i)[i]++
	}
	if err := dense.Cholesky(s.b); err != nil {
		return fmt.Errorf("the curvature of the log posterior: %w; scale the features down", err)
	}
	return nil
}

var errStart = errors.New("the log likelihood is not finite at the prior mean; scale the features or the offset down")

// evaluateHere moves to u.
func (s *solver) evaluateHere() {
	s.predictor(s.now.Eta, s.u)
	dense.Axpy(1, s.offset, s.now.Eta)
	s.data.Evaluate(&s.now)
}

// run climbs from s.u to the mode; S, B and the likelihood are then those at the mode.
func (s *solver) run() error {
	if s.evaluateHere(); math.IsInf(s.now.LogLik, -1) {
		clear(s.u)
		if s.evaluateHere(); math.IsInf(s.now.LogLik, -1) {
			return errStart
		}
	}
	err := s.Climb(s, s.data.Stop)
	s.total += s.Iterations
	return err
}

func (s *solver) Direction() (slope float64, err error) {
	if err := s.curvature(); err != nil {
		return 0, err
	}
	dense.GemvT(s.v, s.z, s.now.D1)
	dense.Gemv(s.grad, s.t, s.v)
	dense.Axpy(-1, s.u, s.grad)
	copy(s.step, s.grad)
	dense.SolveLowerVec(s.b, s.step)
	slope = dense.Dot(s.step, s.step)
	dense.SolveLowerTVec(s.b, s.step)
	s.predictor(s.dEta, s.step)
	return slope, nil
}

func (s *solver) Gain(t float64) float64 {
	for i, e := range s.now.Eta {
		s.next.Eta[i] = e + t*s.dEta[i]
	}
	s.data.Evaluate(&s.next)
	return s.next.LogLik - s.now.LogLik - t*dense.Dot(s.u, s.step) - 0.5*t*t*dense.Dot(s.step, s.step)
}

func (s *solver) Go(t float64) bool {
	dense.Axpy(t, s.step, s.u)
	s.now, s.next = s.next, s.now
	return true
}

func (s *solver) Height() (logLik, penalty float64, rows int) {
	return s.now.LogLik, 0.5 * dense.Dot(s.u, s.u), len(s.offset)
}

// highest moves from the mode of run to the best one that can be found, and returns a note about
// the others.
func (s *solver) highest() (string, error) {
	l, bumpy := s.data.Lik.(lik.Bumpy)
	if !bumpy {
		return "", nil
	}
	r, err := mode.Highest(&climber{s}, l)
	return r.Note(), err
}

// climber makes a solver a mode.Climber.
type climber struct {
	*solver
}

func (c *climber) Climb(l lik.Likelihood, only []bool) error {
	own := c.data.Lik
	c.setLik(l)
	c.data.Only, c.gramFor = only, 0
	err := c.run()
	c.setLik(own)
	c.data.Only = nil
	return err
}

func (c *climber) At() []float64 { return c.u }

func (c *climber) Go(u []float64) {
	if u == nil {
		clear(c.u)
	} else {
		copy(c.u, u)
	}
	c.predictor(c.now.Eta, c.u)
	dense.Axpy(1, c.offset, c.now.Eta)
}

func (c *climber) Predictor() []float64          { return c.now.Eta }
func (c *climber) Obs(i int) lik.Obs             { return c.data.Obs(i) }
func (c *climber) Late() bool                    { return c.data.Stop.Late() }
func (c *climber) LogEvidence() (float64, error) { return c.logZ(), nil }

// logZ returns Laplace's log evidence at the mode: log p(y | u) - ½ uᵀu - ½ log |B|, exact for a
// gaussian likelihood.
func (s *solver) logZ() float64 {
	return s.now.LogLik - 0.5*dense.Dot(s.u, s.u) - 0.5*dense.LogDet(s.b) + s.earlier.Log(s.data.Lik)
}

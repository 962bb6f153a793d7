package lowrank

import (
	"errors"
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// solver finds the mode of the posterior of u by Newton's method:
//
//	maximise  Σ log p(y_i | s_i) - ½ uᵀu,   s = offset + Z Tᵀu
//	B = I + S,  S = T ZᵀWZ Tᵀ,  W = diag(-∂² log p / ∂s²)
//
// No eigenvalue of B is below 1 where the likelihood is log-concave. A step costs
// n k² + O(k³) operations and no memory.
type solver struct {
	lik       lik.Likelihood
	only      []bool // the rows that count, nil for all
	quadratic bool   // gaussian with identity link: W is constant in s
	z, t      *dense.Matrix
	offset    []float64
	y         []float64
	weight    []float64
	trials    []float64
	maxIter   int
	tol       float64
	stop      *stop.Stop

	u, v, grad, step    []float64 // length k; v = Tᵀu and the like
	eta, d1, curv, logp []float64 // length n
	dEta, tried         []float64
	gram, s, b, tmp     *dense.Matrix
	logLik              float64
	gramFor             float64 // quadratic: the dispersion that gram was made with, 0 = none
	negative            int     // rows of negative curvature
	floored             bool    // they count as flat, as B is not positive definite with them
	iterations          int     // in all runs
}

func newSolver(r *Reduced) *solver {
	p, k, n := r.of, r.K(), r.of.N
	s := &solver{z: r.Z, t: r.T, offset: r.Offset, y: p.Y, weight: p.Weight, trials: p.Trials,
		maxIter: kernels.Or(p.Options.MaxIter, 100), tol: kernels.Or(p.Options.Tol, 1e-8), stop: p.Stop,
		gram: dense.New(k, k), s: dense.New(k, k), b: dense.New(k, k), tmp: dense.New(k, k)}
	for _, a := range []*[]float64{&s.u, &s.v, &s.grad, &s.step} {
		*a = make([]float64, k)
	}
	for _, a := range []*[]float64{&s.eta, &s.d1, &s.curv, &s.logp, &s.dEta, &s.tried} {
		*a = make([]float64, n)
	}
	s.setLik(p.Lik)
	return s
}

func (s *solver) setLik(l lik.Likelihood) {
	s.lik = l
	s.quadratic = l.Traits().Gaussian
}

// look takes the likelihood and its derivatives at predictors eta: -Inf where one is
// not finite, so that no step goes there.
func (s *solver) look(eta []float64) float64 {
	dense.Parallel(len(eta), func(lo, hi int) {
		o := lik.Obs{Weight: 1}
		for i := lo; i < hi; i++ {
			s.stop.Row(i)
			if s.only != nil && !s.only[i] {
				s.logp[i], s.d1[i], s.curv[i] = 0, 0, 0
				continue
			}
			o.Y = s.y[i]
			if s.weight != nil {
				o.Weight = s.weight[i]
			}
			if s.trials != nil {
				o.Trials = s.trials[i]
			}
			logp, d1, d2 := s.lik.LogLik(o, eta[i])
			if !special.Finite(logp) || !special.Finite(d1) || !special.Finite(d2) {
				logp = math.Inf(-1)
			}
			s.logp[i], s.d1[i], s.curv[i] = logp, d1, -d2
		}
	})
	sum := 0.0
	for _, v := range s.logp {
		sum += v
	}
	return sum
}

// predictor sets dst = Z Tᵀu.
func (s *solver) predictor(dst, u []float64) {
	dense.GemvT(s.v, s.t, u)
	dense.Gemv(dst, s.z, s.v)
}

// curvature sets S and the factor of B for W as it is. Negative W enter with their
// sign if B is positive definite with them, else as 0.
func (s *solver) curvature() error {
	s.negative, s.floored = 0, false
	for _, w := range s.curv {
		if w < 0 {
			s.negative++
		}
	}
	d, known := s.lik.(lik.Dispersed)
	switch {
	case s.quadratic && known && s.gramFor > 0:
		for i := range s.gram.Data {
			s.gram.Data[i] *= s.gramFor / d.Dispersion()
		}
		s.gramFor = d.Dispersion()
	default:
		dense.Gram(s.gram, s.z, s.curv)
		if s.quadratic && known {
			s.gramFor = d.Dispersion()
		}
	}
	err := s.factor()
	if err != nil && s.negative > 0 {
		for i, w := range s.curv {
			s.curv[i] = max(w, 0)
		}
		s.floored = true
		dense.Gram(s.gram, s.z, s.curv)
		err = s.factor()
	}
	return err
}

func (s *solver) factor() error {
	dense.Mul(s.tmp, s.t, s.gram)
	dense.MulTB(s.s, s.tmp, s.t)
	k := s.s.Rows
	for i := range k { // the two products round apart: one triangle rules
		s.stop.Check()
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

// run climbs from s.u to the mode; S, B and the likelihood are those there. status is
// "" at the mode, else why it stopped.
//
// It stops when Newton's decrement, the distance to the mode in posterior standard
// deviations, is at most tol, or what is left to gain is below the rounding of the
// log posterior.
func (s *solver) run() (status string, err error) {
	s.predictor(s.eta, s.u)
	dense.Axpy(1, s.offset, s.eta)
	if s.logLik = s.look(s.eta); math.IsInf(s.logLik, -1) {
		clear(s.u)
		copy(s.eta, s.offset)
		if s.logLik = s.look(s.eta); math.IsInf(s.logLik, -1) {
			return "", errStart
		}
	}
	last := math.Inf(1)
	for iter := 0; ; iter++ {
		if err := s.curvature(); err != nil {
			return "", err
		}
		dense.GemvT(s.v, s.z, s.d1)
		dense.Gemv(s.grad, s.t, s.v)
		dense.Axpy(-1, s.u, s.grad)
		copy(s.step, s.grad)
		dense.SolveLowerVec(s.b, s.step)
		gain := dense.Dot(s.step, s.step) // the decrement squared
		dense.SolveLowerTVec(s.b, s.step)
		switch {
		case math.IsNaN(gain) || math.IsInf(gain, 0):
			return "", errors.New("the gradient of the log posterior overflows; scale the features down")
		case math.Sqrt(gain) <= s.tol, gain <= near && gain > last/4: // rounding stops it from shrinking
			return "", nil
		case iter >= s.maxIter:
			return fmt.Sprintf("stopped after %d Newton steps, %.2g posterior standard deviations from the mode", iter, math.Sqrt(gain)), nil
		case s.stop.Late():
			return fmt.Sprintf("stopped by time_limit after %d Newton steps, %.2g posterior standard deviations from the mode", iter, math.Sqrt(gain)), nil
		}
		s.predictor(s.dEta, s.step)
		if !s.move(gain) {
			s.look(s.eta) // the derivatives of the last trial go
			if err := s.curvature(); err != nil {
				return "", err
			}
			return fmt.Sprintf("stopped after %d Newton steps as no step raises the log posterior, %.2g posterior standard deviations from the mode", iter, math.Sqrt(gain)), nil
		}
		s.iterations++
		last = gain
	}
}

// highest goes on from the mode of run to the best one there is, and says what to say
// about the others.
func (s *solver) highest(rows *kernels.Batch) (string, error) {
	l, bumpy := s.lik.(lik.Bumpy)
	if !bumpy {
		return "", nil
	}
	r, err := mode.Highest(&climber{s, rows}, l)
	return r.Note(), err
}

// climber is a solver as a mode.Climber.
type climber struct {
	*solver
	rows *kernels.Batch
}

func (c *climber) Climb(l lik.Likelihood, only []bool) error {
	own := c.lik
	c.setLik(l)
	c.only, c.gramFor = only, 0
	_, err := c.run()
	c.setLik(own)
	c.only = nil
	return err
}

func (c *climber) At() []float64 { return c.u }

func (c *climber) Go(u []float64) {
	if u == nil {
		clear(c.u)
	} else {
		copy(c.u, u)
	}
	c.predictor(c.eta, c.u)
	dense.Axpy(1, c.offset, c.eta)
}

func (c *climber) Predictor() []float64          { return c.eta }
func (c *climber) Obs(i int) lik.Obs             { return c.rows.Obs(i) }
func (c *climber) Late() bool                    { return c.stop.Late() }
func (c *climber) LogEvidence() (float64, error) { return c.logZ(), nil }

// near is the decrement squared, (10⁻³ posterior standard deviations)², below which
// every log posterior is a parabola and a full step is right, whatever rounding says of
// the rise.
const near = 1e-6

// move takes the step, halved until the log posterior rises by a share of what its
// slope promises; false if no step does.
func (s *solver) move(gain float64) bool {
	ud, dd := dense.Dot(s.u, s.step), dense.Dot(s.step, s.step)
	for a := 1.0; a > 1e-10; a /= 2 {
		for i, e := range s.eta {
			s.tried[i] = e + a*s.dEta[i]
		}
		ll := s.look(s.tried)
		if rise := ll - s.logLik - a*ud - 0.5*a*a*dd; rise >= 1e-4*a*gain || gain <= near && !math.IsInf(ll, -1) {
			dense.Axpy(a, s.step, s.u)
			s.eta, s.tried = s.tried, s.eta
			s.logLik = ll
			return true
		}
	}
	return false
}

// logZ is Laplace's log evidence at the mode: log p(y | u) - ½ uᵀu - ½ log |B|, exact
// for a gaussian likelihood.
func (s *solver) logZ() float64 {
	return s.logLik - 0.5*dense.Dot(s.u, s.u) - 0.5*dense.LogDet(s.b)
}

package gp

import (
	"errors"
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/special"
)

// Scratch is memory that predictions reuse, one per goroutine. The zero Scratch is ready to use.
type Scratch struct{ k, x []float64 }

// Predict returns the mean and variance of the latent f at x, without the offset. x must have as
// many numbers as a row of X; if not, or if one of them is not finite or beyond MaxInput, both are
// NaN (CheckInput has the message). If Root subtracts more than the whole variance, by rounding or
// because the kernel's parameters were changed since, the variance is 0.
//
// Cost: n²/2 + n d multiplications, no allocation once s has grown.
//
// Source: Rasmussen and Williams (2006), eqs. 3.21 and 3.24.
func (p *Posterior) Predict(x []float64, s *Scratch) (mean, variance float64) {
	k, err := newKernel(p.Kernel)
	if err != nil || p.CheckInput(x) != nil {
		return math.NaN(), math.NaN()
	}
	if len(p.Center) > 0 {
		s.x = s.x[:0]
		for j, v := range x {
			s.x = append(s.x, (v-p.Center[j])/p.Scale[j])
		}
		x = s.x
	}
	n := len(p.Alpha)
	if cap(s.k) < n {
		s.k = memory.Floats(n)
	}
	ks := s.k[:n]
	if k.at == nil {
		variance, _ = k.value(dense.Dot(x, x), p.Lengthscale, p.SignalVariance)
		for i := range ks {
			ks[i], _ = k.value(dense.Dot(x, p.X.Row(i)), p.Lengthscale, p.SignalVariance)
		}
	} else {
		variance = p.SignalVariance
		for i := range ks {
			ks[i], _ = k.value(math.Sqrt(squaredDistance(x, p.X.Row(i))), p.Lengthscale, p.SignalVariance)
		}
	}
	mean = p.Mean + dense.Dot(ks, p.Alpha)
	known := 0.0
	for i, at := 0, 0; i < n; i++ {
		u := dense.Dot(p.Root[at:at+i+1], ks[:i+1])
		if at += i + 1; i < n-p.Negative {
			known += u * u
		} else {
			known -= u * u
		}
	}
	return mean, max(variance-known, 0)
}

// CheckInput returns an error if x cannot be predicted: about its length, or a number in it.
func (p *Posterior) CheckInput(x []float64) error {
	if none := len(p.Alpha) == 0 && p.X.Cols == 0; len(x) != p.X.Cols && !none { // without rows it is the prior, of any width
		return fmt.Errorf("x has %d values; the fit was made with %d", len(x), p.X.Cols)
	}
	return checkInput(x)
}

// Check returns an error if the parts of a posterior are inconsistent, as in one that was assembled
// elsewhere.
func (p *Posterior) Check() error {
	n := len(p.Alpha)
	if _, err := newKernel(p.Kernel); err != nil {
		return err
	}
	if !(p.Lengthscale > 0) || !special.Finite(p.Lengthscale) || !(p.SignalVariance > 0) || !special.Finite(p.SignalVariance) || !special.Finite(p.Mean) {
		return fmt.Errorf("lengthscale = %v, signal_variance = %v, mean = %v; allowed: finite numbers, the first two > 0", p.Lengthscale, p.SignalVariance, p.Mean)
	}
	if !(p.Dispersion > 0) || !special.Finite(p.Dispersion) || p.Shape <= 0 || math.IsInf(p.Shape, 0) {
		return fmt.Errorf("dispersion = %v, shape = %v; allowed: finite numbers > 0, no shape where the family has none", p.Dispersion, p.Shape)
	}
	if p.X == nil || p.X.Rows != n || len(p.Root) != n*(n+1)/2 || p.Negative < 0 || p.Negative > n {
		rows := 0
		if p.X != nil {
			rows = p.X.Rows
		}
		return fmt.Errorf("x has %d rows, alpha %d values, root %d, negative = %d; allowed for n rows: n, n, n(n+1)/2, and 0 to n", rows, n, len(p.Root), p.Negative)
	}
	if len(p.Center) != len(p.Scale) || len(p.Center) > 0 && len(p.Center) != p.X.Cols {
		return fmt.Errorf("x has %d columns, center %d values, scale %d; allowed: as many of all, or neither center nor scale", p.X.Cols, len(p.Center), len(p.Scale))
	}
	for j, s := range p.Scale {
		if !(s > 0) || !special.Finite(s) || !special.Finite(p.Center[j]) {
			return fmt.Errorf("center = %v, scale = %v; allowed: finite numbers, scales > 0", p.Center[j], s)
		}
	}
	for i := range n {
		if err := checkInput(p.X.Row(i)); err != nil {
			return fmt.Errorf("row %d: %w", i+1, err)
		}
	}
	for _, v := range [][]float64{p.Alpha, p.Root} {
		for i, a := range v {
			if !special.Finite(a) {
				return fmt.Errorf("alpha and root: found %v at %d; allowed: finite numbers", a, i+1)
			}
		}
	}
	for i, at := 0, 0; i < n; i++ {
		if at += i + 1; p.Root[at-1] < 0 {
			return fmt.Errorf("root: found %v on its diagonal, in row %d; allowed: numbers >= 0", p.Root[at-1], i+1)
		}
	}
	l, err := p.Likelihood()
	if _, ok := l.(lik.Shaped); err == nil && ok && math.IsNaN(p.Shape) {
		return fmt.Errorf("the shape is missing; family %s has one, a finite number > 0", p.Family)
	}
	return err
}

// Likelihood returns the observation model of the fit.
func (p *Posterior) Likelihood() (lik.Likelihood, error) {
	shape := p.Shape
	if math.IsNaN(shape) {
		shape = 0
	}
	return lik.New(p.Family, p.Link, lik.Params{Dispersion: p.Dispersion, Shape: shape})
}

// Predictor computes expected responses. It has scratch memory: one per goroutine.
type Predictor struct {
	*Posterior
	Lik     lik.Likelihood
	respond func(m, v float64) float64
	scratch Scratch
}

// NewPredictor prepares predictions: with the latent value integrated out, by MacKay's moderation,
// or at its mean. Errors: a posterior that fails Check; an unknown kind.
func NewPredictor(p *Posterior, k predict.Kind) (*Predictor, error) {
	if p == nil {
		return nil, errors.New("the posterior is nil; allowed: one that Fit made")
	}
	if err := k.Check(); err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	l, err := p.Likelihood()
	if err != nil {
		return nil, err
	}
	r := &Predictor{Posterior: p, Lik: l}
	switch k {
	case predict.MacKay:
		r.respond = l.Moderated
	case predict.Plugin:
		r.respond = func(m, _ float64) float64 { return l.Response(m) }
	default:
		r.respond = func(m, v float64) float64 { mean, _ := l.Predict(m, v); return mean }
	}
	return r, nil
}

// Linear returns the Gaussian of the linear predictor f(x) + offset.
// Errors: those of CheckInput, and an offset that is not finite.
func (r *Predictor) Linear(x []float64, offset float64) (m, v float64, err error) {
	if err := r.CheckInput(x); err != nil {
		return 0, 0, err
	}
	if !special.Finite(offset) {
		return 0, 0, fmt.Errorf("offset = %v; allowed: finite numbers", offset)
	}
	m, v = r.Predict(x, &r.scratch)
	m += offset
	if err := kernels.CheckPredictor(m, v); err != nil {
		return 0, 0, err
	}
	return m, v, nil
}

// Response returns the expected response at x.
func (r *Predictor) Response(x []float64, offset float64) (float64, error) {
	m, v, err := r.Linear(x, offset)
	if err != nil {
		return 0, err
	}
	return r.respond(m, v), nil
}

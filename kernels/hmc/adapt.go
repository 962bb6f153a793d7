package hmc

import (
	"math"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/memory"
)

// stepper adapts the step size by dual averaging so that the mean acceptance probability of
// steps is wantAccept.
//
// Source: [hoffman2014], section 3.2, with its constants.
type stepper struct{ mu, gap, logEps, logAvg, n, guess float64 }

const wantAccept = 0.8

func newStepper(eps float64) stepper { return stepper{mu: math.Log(10 * eps), guess: eps} }

func (d *stepper) next(accept float64) (eps float64) {
	const gamma, t0, kappa = 0.05, 10, 0.75
	d.n++
	eta := 1 / (d.n + t0)
	d.gap += eta * (wantAccept - accept - d.gap)
	d.logEps = d.mu - math.Sqrt(d.n)/gamma*d.gap
	w := math.Pow(d.n, -kappa)
	d.logAvg += w * (d.logEps - d.logAvg)
	return math.Exp(d.logEps)
}

// average returns the step size after adaptation. The first steps try about ten times the guess, so
// an average over only a few of them would be too long. Then half the guess, which may itself be
// the first step that was too long, is safe.
func (d *stepper) average() float64 {
	if d.n < 5 {
		return d.guess / 2
	}
	return math.Exp(d.logAvg)
}

// windows returns the iterations at which the metric is updated: draws from first count, in
// windows that double, and the last iterations are left for the step size.
func windows(warmup int) (first int, ends []int) {
	first, last, size := 75, 50, 25
	if warmup < first+last+size {
		first, last = warmup*15/100, warmup/10
		size = warmup - first - last
	}
	if warmup < 20 {
		return warmup, nil
	}
	for at := first; at < warmup-last; size *= 2 {
		at += size
		if at+2*size > warmup-last {
			at = warmup - last
		}
		ends = append(ends, at)
	}
	return first, ends
}

// spread is the running mean and covariance of draws z (Welford's recurrence).
type spread struct {
	n       float64
	mean, d []float64
	ss      []float64     // sums of squares; nil if cov is kept
	cov     *dense.Matrix // lower triangle of sums of products
}

func newSpread(n int, full bool) *spread {
	s := &spread{mean: memory.Floats(n), d: memory.Floats(n)}
	if full {
		s.cov = dense.New(n, n)
	} else {
		s.ss = memory.Floats(n)
	}
	return s
}

func (s *spread) reset() {
	s.n = 0
	clear(s.mean)
	clear(s.ss)
	if s.cov != nil {
		clear(s.cov.Data)
	}
}

func (s *spread) add(z []float64) {
	s.n++
	for i, v := range z {
		s.d[i] = v - s.mean[i]
		s.mean[i] += s.d[i] / s.n
	}
	f := 1 - 1/s.n
	if s.cov == nil {
		for i, d := range s.d {
			s.ss[i] += f * d * d
		}
		return
	}
	for i, d := range s.d {
		dense.Axpy(f*d, s.d[:i+1], s.cov.Row(i)[:i+1])
	}
}

// metric is the map z = centre + R u to coordinates in which the posterior is about N(0, I).
type metric struct {
	scale []float64     // diagonal R
	chol  *dense.Matrix // lower triangular R; nil if diagonal
}

func (m *metric) full() bool { return m.chol != nil }

func (m *metric) clone() *metric {
	if m.full() {
		return &metric{chol: m.chol.Clone()}
	}
	return &metric{scale: append([]float64(nil), m.scale...)}
}

// to sets z = centre + R u.
func (m *metric) to(z, centre, u []float64) {
	if m.full() {
		for i, c := range centre {
			z[i] = c + dense.Dot(m.chol.Row(i)[:i+1], u[:i+1])
		}
		return
	}
	for i, c := range centre {
		z[i] = c + m.scale[i]*u[i]
	}
}

// from sets u = R⁻¹ (z - centre).
func (m *metric) from(u, centre, z []float64) {
	for i, c := range centre {
		u[i] = z[i] - c
	}
	if m.full() {
		dense.SolveLowerVec(m.chol, u)
		return
	}
	for i, s := range m.scale {
		u[i] /= s
	}
}

// mulT sets dst = Rᵀ x.
func (m *metric) mulT(dst, x []float64) {
	if m.full() {
		clear(dst)
		for i, v := range x {
			dense.Axpy(v, m.chol.Row(i)[:i+1], dst[:i+1])
		}
		return
	}
	for i, s := range m.scale {
		dst[i] = s * x[i]
	}
}

// learn replaces m by the covariance of s, shrunk towards that of prior as if that had been
// observed k times: p + 5 times for a full matrix, whose estimate needs more draws than
// dimensions, 5 times for a diagonal one. If rounding makes the matrix indefinite m stays as it
// is.
func (m *metric) learn(s *spread, prior *metric) {
	if !m.full() {
		const k = 5
		for i, ss := range s.ss {
			m.scale[i] = math.Sqrt((ss + k*prior.scale[i]*prior.scale[i]) / (s.n + k))
		}
		return
	}
	k := float64(len(s.mean) + 5)
	c := s.cov.Clone()
	for i := range c.Rows {
		for j := range i + 1 {
			c.Row(i)[j] += k * dense.Dot(prior.chol.Row(i)[:j+1], prior.chol.Row(j)[:j+1])
			c.Row(i)[j] /= s.n + k
		}
	}
	if dense.Cholesky(c) == nil {
		m.chol = c
	}
}

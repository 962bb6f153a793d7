package ep

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
)

// kalman is EP with a joint Gaussian over weights that drift: a Kalman filter and smoother whose
// observations are the sites. The smoother is that of Bryson and Frazier, which needs no inverse:
// with μ, P mean and covariance of the weights given earlier rows, the information of this and
// later rows is
//
//	mean given all = μ - P λ,  covariance given all = P - P Λ P
//
// A random walk does not change λ and Λ from row to row. At row i, with h = P x and N(m, v) the
// distribution of the predictor given earlier rows, removing the old site gives λ°, Λ° of the
// later rows, so the cavity is
//
//	m_c = m - hᵀλ°,  v_c = v - hᵀΛ°h
//
// and inserting the new site (τ, ν), with u = x - Λ°h, gives
//
//	Λ = Λ° + u uᵀ τ/(1 + τ v_c),  λ = λ° - u (ν - τ m_c)/(1 + τ v_c).
//
// Sweep 1 refreshes the sites in the forward pass: it is the filter with a joint Gaussian. Later
// sweeps refresh them in the backward pass and then filter again.
//
// Source: Bierman, "Fixed interval smoothing with discrete measurements" (1973), for
// the smoother; the removal of a site is Woodbury's identity on Λ.
type kalman struct {
	rows
	noise, time []float64

	mean   []float64 // filtered, relative to the prior mean
	cov    *dense.Matrix
	moving []bool        // by column: drift has begun
	h      *dense.Matrix // P x by row
	m, v   []float64     // of the predictors given earlier rows

	lambda []float64
	info   *dense.Matrix
	a, u   []float64
}

// maxKalman bounds n p, the vectors P x that the backward pass needs: 2 GiB.
const maxKalman = 1 << 28

func newKalman(p *kernels.Problem) (*kalman, error) {
	if p.P > maxDim || p.N*p.P > maxKalman {
		return nil, fmt.Errorf("covariance = 'full' and process_noise with %d rows and %d weights; allowed: up to %d weights and %d rows x weights; use 'diagonal'", p.N, p.P, maxDim, maxKalman)
	}
	k := &kalman{
		rows: newRows(p), mean: memory.Floats(p.P), cov: p.Matrix(p.P, p.P), moving: make([]bool, p.P),
		h: p.Matrix(p.N, p.P), m: memory.Floats(p.N), v: memory.Floats(p.N),
		lambda: memory.Floats(p.P), info: p.Matrix(p.P, p.P), a: memory.Floats(p.P), u: memory.Floats(p.P),
	}
	return k, k.reset(p)
}

func (k *kalman) reset(p *kernels.Problem) error {
	k.use(p)
	k.noise, k.time = noises(p), clock(p)
	if k.ran {
		var c change
		return k.forward(false, &c, nil)
	}
	return nil
}

func (k *kalman) sweep(damp float64) (c change, err error) {
	if !k.ran {
		err = k.forward(true, &c, nil)
		k.ran = true
		return c, err
	}
	if err := k.backward(damp, &c, nil); err != nil {
		return c, err
	}
	return c, k.forward(false, &c, nil)
}

// begin resets the filter to the prior.
func (k *kalman) begin() {
	clear(k.mean)
	k.p.Normal.Cov(k.cov)
	copy(k.moving, k.p.Born)
}

// predict adds the drift of the weights from row i-1 to row i.
func (k *kalman) predict(i int) {
	last := k.p.Begin
	if i > 0 {
		last = k.time[i-1]
	}
	if dt := k.time[i] - last; dt > 0 {
		for j, q := range k.noise {
			if k.moving[j] {
				k.cov.Row(j)[j] += q * dt
			}
		}
	}
	cols, _ := k.p.Entries(i)
	for _, j := range cols {
		k.moving[j] = true
	}
}

// predictRow sets h = P x and returns mean and variance of row i's predictor.
func (k *kalman) predictRow(i int, h []float64) (m, v float64) {
	clear(h)
	cols, xs := k.p.Entries(i)
	for e, j := range cols {
		dense.Axpy(xs[e], k.cov.Row(int(j)), h)
		m += xs[e] * k.mean[j]
	}
	for e, j := range cols {
		v += xs[e] * h[j]
	}
	return m, math.Max(v, 0)
}

// absorb multiplies the filter's belief by a site on the predictor N(m, v).
func (k *kalman) absorb(s Site, h []float64, m, v float64) {
	den := 1 + v*s.Tau
	step := s.Tau / den
	dense.Axpy((s.Nu-s.Tau*m)/den, h, k.mean)
	if step == 0 {
		return
	}
	for j, x := range h {
		if x != 0 {
			dense.Axpy(-step*x, h, k.cov.Row(j))
		}
	}
}

// forward filters, refreshing the sites if fresh. It adds the log evidence of the sites as
// observations. before, if not nil, is called with the state before each row.
func (k *kalman) forward(fresh bool, c *change, before func(i int)) error {
	k.begin()
	for i := range k.p.N {
		k.p.Stop.Check()
		if before != nil {
			before(i)
		}
		k.predict(i)
		h := k.h.Row(i)
		m, v := k.predictRow(i, h)
		k.m[i], k.v[i] = m, v
		if fresh {
			if _, err := k.refresh(i, m, v, 1, c); err != nil {
				return err
			}
		}
		s := k.site[i]
		den := 1 + v*s.Tau
		if !(den > minCavity) { // only later rows keep this site proper
			s, den = Site{}, 1
			k.site[i] = s
			c.clamped++
		}
		c.logZ += overlap(m, v, s, den) - 0.5*math.Log(den)
		k.absorb(s, h, m, v)
	}
	return nil
}

// backward smooths, refreshing the sites if damp > 0. at, if not nil, is called with λ and Λ of the
// rows after each row, to be combined with mean and covariance given that row and earlier ones:
// given only earlier ones, the prior may be so wide that P - P Λ P has no digits left, nor m - hᵀλ°
// and v - hᵀΛ°h as they stand.
func (k *kalman) backward(damp float64, c *change, at func(i int)) error {
	clear(k.lambda)
	for j := range k.info.Rows {
		clear(k.info.Row(j))
	}
	for i := k.p.N - 1; i >= 0; i-- {
		k.p.Stop.Check()
		if at != nil {
			at(i)
		}
		h, m, v, s := k.h.Row(i), k.m[i], k.v[i], k.site[i]
		den := 1 + v*s.Tau
		step, pull := s.Tau/den, (s.Nu-s.Tau*m)/den
		dense.Gemv(k.a, k.info, h)
		ha, hl := dense.Dot(h, k.a), dense.Dot(h, k.lambda)
		out := 1 + step*ha
		// λ° = λ - a (step hᵀλ + pull)/out, Λ° = Λ - step/out a aᵀ, Λ°h = a/out
		less := (step*hl + pull) / out
		mc, vc := m-(hl-ha*pull)/out, (v-ha/den)/out
		if damp > 0 {
			var err error
			if s, err = k.refresh(i, mc, vc, damp, c); err != nil {
				return err
			}
		}
		in := 1 + math.Max(vc, 0)*s.Tau
		for j, x := range k.a {
			k.u[j] = -x / out
		}
		cols, xs := k.p.Entries(i)
		for e, j := range cols {
			k.u[j] += xs[e]
		}
		down, up := step/out, s.Tau/in
		for j := range k.info.Rows {
			row := k.info.Row(j)
			dense.Axpy(-down*k.a[j], k.a, row)
			dense.Axpy(up*k.u[j], k.u, row)
		}
		dense.Axpy(-less, k.a, k.lambda)
		dense.Axpy(-(s.Nu-s.Tau*mc)/in, k.u, k.lambda)
	}
	return nil
}

func (k *kalman) posterior() (*gauss.Normal, error) {
	p := k.p
	if p.N == 0 {
		return p.Normal.ToFull()
	}
	mean, l := memory.Floats(p.P), k.cov.Clone()
	if err := dense.Cholesky(l); err != nil {
		return nil, fmt.Errorf("ep: the filtered covariance: %w; scale the features", err)
	}
	for j, m := range k.mean {
		mean[j] = p.PriorMean[j] + m
	}
	return gauss.NewFull(mean, l), nil
}

func (k *kalman) initial(dev, variance []float64) error {
	var c change
	if err := k.backward(0, &c, nil); err != nil {
		return err
	}
	p := k.p
	cov, cl := p.Matrix(p.P, p.P), p.Matrix(p.P, p.P)
	p.Normal.Cov(cov)
	dense.Mul(cl, cov, k.info)
	for j := range p.P {
		dev[j] = -dense.Dot(cov.Row(j), k.lambda)
		variance[j] = cov.Row(j)[j] - dense.Dot(cl.Row(j), cov.Row(j))
	}
	return nil
}

// touches keeps the filter's state at every √n-th row and processes the stretches between from last
// to first.
func (k *kalman) touches() (mean, variance []float64, err error) {
	p := k.p
	mean, variance = memory.Floats(len(p.Col)), memory.Floats(len(p.Col))
	if p.N == 0 {
		return mean, variance, nil
	}
	type state struct {
		mean   []float64
		cov    *dense.Matrix
		moving []bool
	}
	long := int(math.Ceil(math.Sqrt(float64(p.N))))
	var saved []state
	var c change
	save := func() state {
		return state{append([]float64(nil), k.mean...), k.cov.Clone(), append([]bool(nil), k.moving...)}
	}
	if err := k.forward(false, &c, func(i int) {
		if i%long == 0 {
			saved = append(saved, save())
		}
	}); err != nil {
		return nil, nil, err
	}
	final := save()
	part := make([]state, 0, long)
	t := memory.Floats(p.P)
	var bad error
	err = k.backward(0, &c, func(i int) {
		if i == p.N-1 || (i+1)%long == 0 {
			s := saved[i/long]
			copy(k.mean, s.mean)
			copy(k.moving, s.moving)
			copy(k.cov.Data, s.cov.Data)
			part = part[:0]
			for r := i / long * long; r <= i; r++ {
				p.Stop.Check()
				k.predict(r)
				k.absorb(k.site[r], k.h.Row(r), k.m[r], k.v[r])
				part = append(part, save())
			}
		}
		s := part[i%long]
		for e := p.Row[i]; e < p.Row[i+1]; e++ {
			j := int(p.Col[e])
			row := s.cov.Row(j)
			dense.Gemv(t, k.info, row)
			mean[e] = p.PriorMean[j] + s.mean[j] - dense.Dot(row, k.lambda)
			variance[e] = row[j] - dense.Dot(row, t)
			if !(variance[e] > 0) && bad == nil {
				bad = fmt.Errorf("ep: feature %q has no proper posterior at time %v", p.Name(j), p.Time[i])
			}
		}
	})
	k.mean, k.cov, k.moving = final.mean, final.cov, final.moving
	if err == nil {
		err = bad
	}
	return mean, variance, err
}

package gp

import (
	"math"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// third returns the third derivative of row i's log likelihood at η, from the second by central
// differences with steps h and h/2, extrapolated: an error of about 1e-10 of the scale over
// which the curvature changes.
func (s *search) third(i int, eta, h float64) float64 {
	o := s.Obs(i)
	slope := func(h float64) float64 {
		_, _, up := s.Lik.LogLik(o, eta+h)
		_, _, down := s.Lik.LogLik(o, eta-h)
		return (up - down) / (2 * h)
	}
	return (4*slope(h/2) - slope(h)) / 3
}

// thirdStep returns the step for third, relative to the scale over which curvatures change.
func thirdStep(l lik.Likelihood) float64 { return 0.01 * l.Traits().Scale }

// gradient returns that of the log evidence at the fit, in log lengthscale, log signal variance and
// mean. With Σ = K - K R K, R = (K + W⁻¹)⁻¹ = TᵀJT, and the effect of moving f̂ on log |B|,
//
//	s_i = ½ Σ_ii ∂³ log p(y_i | η_i)/∂η³,  v = s - R K s
//
// it is, with ∂K the derivative of K and ∂l, ∂l', ∂l″ those of the log likelihoods in a parameter
// of the likelihood,
//
//	∂ log q = Σ_ij ∂K_ij (½ α_i α_j - ½ R_ij + v_i α_j)
//	∂ log q / ∂mean = Σ α_i + v_i
//	∂ log q = Σ ∂l_i + ½ Σ_ii ∂l″_i + (Kv)_i ∂l'_i
//
// Cost: 3 n³ operations.
//
// Source: Rasmussen and Williams (2006), section 5.5.1.
func (c *climber) gradient() (g vector) {
	s, w := c.search, &c.work
	n := len(s.Y)
	signs := memory.Floats(n)
	for a := range signs {
		signs[a] = s.sign(a)
	}
	s.rootOf(w.t)
	dense.Gram(w.r, w.t, signs) // R in the factor's order

	// Σ_ii = K_ii - Σ_a J_a (TK)_ai²
	tk := w.t
	for a, i := range s.order {
		tk.Stop.Check()
		row, from := tk.Row(a), s.k.Row(i)
		for j, k := range from {
			row[j] = s.sw[i] * k
		}
	}
	dense.SolveLower(s.b, tk)
	sigma, v := memory.Floats(n), memory.Floats(n)
	for i := range sigma {
		sigma[i] = s.k.At(i, i)
	}
	for a, sign := range signs {
		tk.Stop.Check()
		for j, t := range tk.Row(a) {
			sigma[j] -= sign * t * t
		}
	}
	h := thirdStep(s.Lik)
	for i, f := range s.now.f {
		v[i] = 0.5 * sigma[i] * s.third(i, s.mean+f+s.shift(i), h)
	}

	// v = s - R K s
	dense.Gemv(s.df, s.k, v)
	s.applyR(s.da, s.df)
	dense.Axpy(-1, s.da, v)
	if c.free[logDispersion] || c.free[logShape] {
		dense.Gemv(s.df, s.k, v)
		for _, k := range []int{logDispersion, logShape} {
			if c.free[k] {
				g[k] = c.likelihoodSlope(k, sigma, s.df)
			}
		}
	}

	v, alpha := pick(v, s.order), pick(s.alpha, s.order) // from here in the factor's order

	byRow := make([][2]float64, n) // summed in a fixed order
	s.each(func(a int) {
		r, between := w.r.Row(a), s.between.Row(s.order[a])
		var sum [2]float64
		for c := range a + 1 {
			k, dk := s.value(between[s.order[c]], s.lengthscale, s.signal)
			m := alpha[a]*alpha[c] - r[c] + v[a]*alpha[c] + v[c]*alpha[a]
			if c == a {
				m *= 0.5
			}
			sum[0] += m * dk
			sum[1] += m * k
		}
		byRow[a] = sum
	})
	for a, sum := range byRow {
		g[logLengthscale] += sum[0]
		g[logSignal] += sum[1]
		g[meanInUnits] += alpha[a] + v[a]
	}
	return g
}

// likelihoodSlope returns the gradient's entry for the log of a parameter of the likelihood, whose
// derivatives are central differences.
func (c *climber) likelihoodSlope(k int, sigma, kv []float64) (slope float64) {
	at := func(h float64) float64 {
		p := c.parameters
		if k == logDispersion {
			p.dispersion *= math.Exp(h)
		} else {
			p.shape *= math.Exp(h)
		}
		l, err := c.withParameters(p)
		if err != nil {
			return math.NaN()
		}
		sum := 0.0
		for i, f := range c.now.f {
			logp, d1, d2 := l.LogLik(c.Obs(i), c.mean+f+c.shift(i))
			sum += logp + 0.5*sigma[i]*d2 + kv[i]*d1
		}
		return sum
	}
	central := func(h float64) float64 { return (at(h) - at(-h)) / (2 * h) }
	return (4*central(0.005) - central(0.01)) / 3
}

func (c *climber) withParameters(p parameters) (lik.Likelihood, error) {
	return lik.Remake(c.Lik, lik.Params{Dispersion: p.dispersion, Shape: p.shape})
}

func pick(src []float64, order []int) []float64 {
	dst := make([]float64, len(order))
	for a, i := range order {
		dst[a] = src[i]
	}
	return dst
}

// workspace is scratch memory for gradients.
type workspace struct{ t, r *dense.Matrix }

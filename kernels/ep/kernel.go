package ep

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"

	"github.com/bglm/bglm/kernels/lik"
)

// maxNodes is the largest rule of the prior kernel: from some 380 nodes the outer weights
// underflow.
const maxNodes = 256

// priorKernel is the Gauss-Hermite rule for a standard normal, transformed to the prior of the
// predictor.
//
// The cavity is then part of the integrand, as cavity over prior at each node. If the cavity is
// much narrower than the prior no node lies in it, and if it is wider or far away the ratio
// explodes: for logit and probit the two kernels agree with few rows per weight, with many rows per
// weight only the cavity kernel works.
//
// Source: Zoeter (2007), section 3, where the cavity is called the special kernel.
type priorKernel struct{ x, logw []float64 }

func newPriorKernel(k int) *priorKernel {
	if k == 0 {
		return nil
	}
	r := &priorKernel{make([]float64, k), make([]float64, k)}
	quad.Hermite{}.FixedLocations(r.x, r.logw, math.Inf(-1), math.Inf(1))
	for i := range r.x {
		r.x[i] *= math.Sqrt2
		r.logw[i] = math.Log(r.logw[i] / math.Sqrt(math.Pi))
	}
	return r
}

// moments returns those of p(y|s) N(s; m, v) from nodes on N(m0, v0).
func (r *priorKernel) moments(l lik.Likelihood, o lik.Obs, m, v, m0, v0 float64) lik.Tilted {
	if !(v0 > 0) {
		return l.Moments(o, m, v)
	}
	sd := math.Sqrt(v0)
	var logs [maxNodes]float64
	top, at := math.Inf(-1), 0
	for i, x := range r.x {
		s := m0 + sd*x
		logp, _, _ := l.LogLik(o, s)
		u := s - m
		logs[i] = r.logw[i] + logp - 0.5*(u*u/v-x*x) - 0.5*math.Log(v/v0)
		if logs[i] > top {
			top, at = logs[i], i
		}
	}
	var mass, s1, s2 float64
	for i, x := range r.x {
		w := math.Exp(logs[i] - top)
		d := sd * (x - r.x[at])
		mass += w
		s1 += w * d
		s2 += w * d * d
	}
	s1 /= mass
	// A single node has no variance, and 0 would not be a Gaussian.
	ratio := math.Max(1e-24, (s2/mass-s1*s1)/v)
	return lik.Tilted{
		LogZ: top + math.Log(mass), Alpha: (m0 + sd*r.x[at] + s1 - m) / v,
		Beta: (1 - ratio) / v, Ratio: ratio,
	}
}

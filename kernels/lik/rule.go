package lik

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/integrate/quad"
)

// maxNodes is the largest plain rule: its logarithms are on the stack.
const maxNodes = 512

// rule is the k-point Gauss-Hermite rule for a standard normal: nodes x and the
// logarithms of weights that sum to 1. nil stands for 'auto'. Immutable.
type rule struct {
	x, logw []float64
	free    bool // Ratio may exceed 1
}

// unclamped returns r for a family that is not log-concave; nil stays nil.
func (r *rule) unclamped() *rule {
	if r == nil {
		return nil
	}
	return &rule{r.x, r.logw, true}
}

// newRule computes the k-point rule, nil for k = 0. Weights are kept as logarithms: those of the
// outer nodes underflow from k of about 400.
//
// Cost: O(k²), once per likelihood.
func newRule(k int) (*rule, error) {
	if k == 0 {
		return nil, nil
	}
	if k < 2 || k > maxNodes {
		return nil, fmt.Errorf("quadrature = %d: 0 (auto) or 2 to %d nodes", k, maxNodes)
	}
	r := &rule{x: make([]float64, k), logw: make([]float64, k)}
	quad.Hermite{}.FixedLocations(r.x, r.logw, math.Inf(-1), math.Inf(1))
	n := float64(k)
	for i, x := range r.x {
		// two Newton steps on the orthonormal Hermite polynomials h, h' = sqrt(2n) h_{n-1}
		var last, logScale float64
		for pass := 0; pass < 3; pass++ {
			p0, p1 := 0.0, 1.0 // h_{j-1}, h_j, times e^-logScale
			logScale = -0.25 * math.Log(math.Pi)
			for j := 0.0; j < n; j++ {
				p0, p1 = p1, x*math.Sqrt(2/(j+1))*p1-math.Sqrt(j/(j+1))*p0
				if big := math.Abs(p1); big > 1e100 {
					p0, p1, logScale = p0*1e-100, p1*1e-100, logScale+100*math.Ln10
				}
			}
			last = p0
			if pass < 2 {
				x -= p1 / (math.Sqrt(2*n) * p0)
			}
		}
		r.x[i] = math.Sqrt2 * x
		r.logw[i] = -math.Log(n) - 2*(math.Log(math.Abs(last))+logScale) - 0.5*math.Log(math.Pi)
	}
	return r, nil
}

// moments applies the rule under N(m, v), v > 0 (Zoeter 2007, section 2): sums of
// weight times likelihood at the fixed nodes, with the largest logarithm factored out.
//
// The error is unknown and can be large: if the likelihood is much sharper than the prior a
// single node has all the mass. Ratio is then tinyRatio, never 0; if every likelihood underflows
// even as a logarithm, the least unlikely end has the mass.
func (r *rule) moments(l Likelihood, o Obs, m, v float64) Tilted {
	var a [maxNodes]float64
	sd := math.Sqrt(v)
	top, at := math.Inf(-1), 0
	pull := 0.0
	for i, x := range r.x {
		logp, d1, _ := l.LogLik(o, m+sd*x)
		pull = d1
		a[i] = r.logw[i] + logp
		if a[i] > top {
			top, at = a[i], i
		}
	}
	if math.IsInf(top, -1) {
		// only if a rate overflows: the end to which l' points is the least unlikely
		top, at = -math.MaxFloat64, 0
		for i := range r.x {
			if r.x[i] < r.x[at] == (pull < 0) {
				at = i
			}
		}
		a[at] = top
	}
	var mass, s1, s2 float64
	for i, x := range r.x {
		p := math.Exp(a[i] - top)
		d := x - r.x[at]
		mass += p
		s1 += p * d
		s2 += p * d * d
	}
	s1 /= mass
	ratio := math.Max(tinyRatio, s2/mass-s1*s1)
	if !r.free {
		ratio = math.Min(1, ratio)
	}
	return Tilted{LogZ: top + math.Log(mass), Alpha: (r.x[at] + s1) / sd, Beta: (1 - ratio) / v, Ratio: ratio}
}

package lik

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/bglm/bglm/kernels/special"
)

var gaussianFamily = family{Info{
	Family:      "gaussian",
	Links:       []string{"identity", "log"},
	Description: "a real response with mean s (exp(s) with link log) and noise variance dispersion",
	Parameters:  []string{"dispersion"},
	Response:    "any finite number",
}, links{"identity": newGaussian, "log": newGaussianLog}}

// gaussian is p(y|s) = N(y; s, dispersion). With weight w the factor is p^w, its
// normalising constant included: a Gaussian in s of variance dispersion/w, so all
// moments are closed forms:
//
//	logZ = -w/2 log(2 pi D) + 1/2 log(2 pi D/w) + log N(y; m, v + D/w)
//	alpha = (y-m)/(v + D/w),  beta = 1/(v + D/w),  ratio = (D/w)/(v + D/w)
//
// Accuracy: rounding only. With quadrature k > 0 the plain rule is used instead.
type gaussian struct{ normal }

// normal is y with a normal distribution of variance dispersion about its mean, for any link.
type normal struct {
	dispersion float64
	rule       *rule
}

func newGaussian(p Params) (Likelihood, error) {
	if !(p.Dispersion > 0) || math.IsInf(p.Dispersion, 1) {
		return nil, fmt.Errorf("dispersion = %v: gaussian takes a finite noise variance > 0", p.Dispersion)
	}
	r, err := newRule(p.Quadrature)
	return gaussian{normal{p.Dispersion, r}}, err
}

func (normal) Family() string { return "gaussian" }
func (gaussian) Link() string { return "identity" }

func (gaussian) Traits() Traits {
	return Traits{Gaussian: true, Concave: true, Canonical: true, Located: true, Homoscedastic: true, Scale: 1, Work: 100, Inverse: identityInverse}
}

// Dispersion is the noise variance.
func (n normal) Dispersion() float64 { return n.dispersion }

func (normal) Check(o Obs) error {
	if !special.Finite(o.Y) {
		return fmt.Errorf("y = %v: gaussian takes finite numbers", o.Y)
	}
	return checkWeight(o)
}

func (g gaussian) LogLik(o Obs, s float64) (logp, d1, d2 float64) {
	if o.Weight == 0 {
		return 0, 0, 0
	}
	precision := o.Weight / g.dispersion
	r := o.Y - s
	return -0.5 * (o.Weight*math.Log(2*math.Pi*g.dispersion) + r*r*precision), r * precision, -precision
}

func (g gaussian) Moments(o Obs, m, v float64) Tilted {
	if !proper(o, m, v) {
		logp, d1, d2 := g.LogLik(o, m)
		return degenerate(o.Weight, m, v, logp, d1, d2)
	}
	if g.rule != nil {
		return g.rule.moments(g, o, m, v)
	}
	noise := g.dispersion / o.Weight
	total := v + noise
	inv := 1 / total
	r := o.Y - m
	logZ := -0.5 * (special.QuickLog(2*math.Pi*total) + r*(r*inv))
	if o.Weight != 1 {
		logZ += 0.5 * (math.Log(2*math.Pi*noise) - o.Weight*math.Log(2*math.Pi*g.dispersion))
	}
	return Tilted{LogZ: logZ, Alpha: r * inv, Beta: inv, Ratio: noise * inv}
}

func (gaussian) Response(s float64) float64 { return s }

func (g gaussian) Predict(m, v float64) (mean, variance float64) { return m, v + g.dispersion }

func (gaussian) Moderated(m, v float64) float64 { return m }

func (g gaussian) Interval(m, v, level float64) (lower, upper float64) {
	return normalQuantiles(m, v+g.dispersion, level)
}

// Draw returns s plus noise.
func (g gaussian) Draw(s, _ float64, src rand.Source) float64 { return g.draw(s, src) }

// CDF has no steps.
func (g gaussian) CDF(o Obs, s float64) (below, upTo float64) { return g.cdf(o.Y, s) }

func (n normal) draw(mean float64, src rand.Source) float64 {
	return mean + math.Sqrt(n.dispersion)*rand.New(src).NormFloat64()
}

func (n normal) cdf(y, mean float64) (below, upTo float64) {
	below = special.Phi((y - mean) / math.Sqrt(n.dispersion))
	return below, below
}

// Best is the log likelihood at the mean.
func (normal) Best(s Sums, dispersion float64) (logp float64, ok bool) {
	square := s.Square - s.Centred*s.Centred/s.Weight
	if !(square > 0) {
		return 0, false
	}
	if dispersion == 0 {
		return -0.5 * s.Weight * (math.Log(2*math.Pi*square/s.Weight) + 1), true
	}
	return -0.5 * (s.Weight*math.Log(2*math.Pi*dispersion) + square/dispersion), true
}

func (gaussian) third() func(o Obs, s float64) float64 {
	return func(Obs, float64) float64 { return 0 }
}

// pooling subtracts the offset from the response, which has the same unit.
func (gaussian) pooling() Pooling {
	return Pooling{Add: func(p *Pool, o Obs, offset float64) {
		o.Y -= offset
		p.mean(o)
	}, Make: twoNormals}
}

// centralZ returns the z with P(|N(0,1)| <= z) = level.
func centralZ(level float64) float64 { return -special.PhiInv(0.5 * (1 - level)) }

package lik

import (
	"math"

	"github.com/bglm/bglm/kernels/special"
)

// Many looks at many rows faster than LogLik at one after the other, nil where l has nothing
// faster. It sets d1 and curv to the first derivative and to less the second of every row,
// weight nil standing for 1, and returns the sum of w log p. It says the same to rounding, of
// log p to an absolute 1e-15 of a row of weight 1. A number that is not finite makes the sum
// not finite.
func Many(l Likelihood) func(y, weight, s, d1, curv []float64) (sum float64) {
	switch l := l.(type) { // of exactly this type: others are made of it
	case gaussian:
		return l.many
	case logit:
		return l.many
	}
	return nil
}

// Means is Predict's mean of many predictors N(m, v), the same bit by bit, faster than one
// after the other; nil where l has nothing faster.
func Means(l Likelihood) func(m, v, mean []float64) {
	if l, ok := l.(logit); ok {
		return l.means
	}
	return nil
}

func (l logit) means(m, v, mean []float64) {
	m, v = m[:len(mean)], v[:len(mean)]
	for i := range mean {
		x, v := -math.Abs(m[i]), v[i]
		var small float64
		if v > 0 && v < seriesV && x > expFar {
			small = logitSeries(x, v)
		} else {
			small = logitTail(x, v)
		}
		if m[i] > 0 {
			small = 1 - small
		}
		mean[i] = small
	}
}

// Third is the third derivative of w log p in s, nil where l does not know it.
func Third(l Likelihood) func(o Obs, s float64) float64 {
	switch l.(type) {
	case gaussian:
		return func(Obs, float64) float64 { return 0 }
	case logit:
		return logitThird
	case poisson:
		return poissonThird
	}
	return nil
}

func (g gaussian) many(y, weight, s, d1, curv []float64) (sum float64) {
	norm := math.Log(2 * math.Pi * g.dispersion)
	d1, curv, s = d1[:len(y)], curv[:len(y)], s[:len(y)]
	w, precision := 1.0, 1/g.dispersion
	for i, v := range y {
		if weight != nil {
			if w = weight[i]; w == 0 {
				d1[i], curv[i] = 0, 0
				continue
			}
			precision = w / g.dispersion
		}
		r := v - s[i]
		d1[i], curv[i] = r*precision, precision
		sum -= 0.5 * (w*norm + r*r*precision)
	}
	return sum
}

func (logit) many(y, weight, s, d1, curv []float64) (sum float64) {
	d1, curv, s = d1[:len(y)], curv[:len(y)], s[:len(y)]
	w := 1.0
	for i, v := range y {
		if weight != nil {
			if w = weight[i]; w == 0 {
				d1[i], curv[i] = 0, 0
				continue
			}
		}
		x := s[i]
		if v == 0 {
			x = -x
		}
		far := math.Abs(x)
		e := special.ExpDown(-far)
		big := 1 / (1 + e)
		small := e * big
		// log p of the likelier response, and what is more for the other
		logp, slope := special.QuickLog(1+e), small
		if x < 0 {
			logp, slope = logp+far, big
		}
		sum -= w * logp
		if v == 0 {
			slope = -slope
		}
		d1[i], curv[i] = w*slope, w*small*big
		if math.IsNaN(x) {
			return x
		}
	}
	return sum
}

func logitThird(o Obs, s float64) float64 {
	e := special.ExpDown(-math.Abs(s))
	big := 1 / (1 + e)
	small := e * big
	if s < 0 {
		return -o.Weight * small * big * (big - small)
	}
	return o.Weight * small * big * (big - small)
}

func poissonThird(o Obs, s float64) float64 {
	if o.Weight == 0 {
		return 0
	}
	return -o.Weight * math.Exp(s)
}

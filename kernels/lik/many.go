package lik

import (
	"math"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/special"
)

// Many returns a function that evaluates many rows faster than LogLik one at a time, nil if l has
// none. It sets d1 and curv to the first derivative and minus the second of every row, where a nil
// weight stands for 1, and returns the sum of w log p. The results are the same up to rounding, for
// log p up to an absolute 1e-15 for a row of weight 1. A number that is not finite makes the sum
// not finite.
func Many(l Likelihood) func(y, weight, s, d1, curv []float64) (sum float64) {
	if l, ok := l.(interface {
		many(y, weight, s, d1, curv []float64) (sum float64)
	}); ok {
		return l.many
	}
	return nil
}

// Means returns a function that computes Predict's means for many predictors N(m, v), bit for bit,
// faster than one at a time; nil if l has none.
func Means(l Likelihood) func(m, v, mean []float64) {
	if l, ok := l.(interface{ means(m, v, mean []float64) }); ok {
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

// Third returns the third derivative of w log p in s, nil if l has no formula for it.
func Third(l Likelihood) func(o Obs, s float64) float64 {
	if l, ok := l.(interface {
		third() func(o Obs, s float64) float64
	}); ok {
		return l.third()
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

// vectorRows is how many rows are vectorised at once. Also, that many numbers up to 2 are
// multiplied before their logarithm is taken.
const vectorRows = 256

// many does not branch on the response: for random ones half of the predictions would be wrong.
// Without weights the logarithms of 1 + e^-|s| are computed as one of their product.
func (logit) many(y, weight, s, d1, curv []float64) (sum float64) {
	var up, down [vectorRows]float64
	for len(y) > 0 {
		n := min(vectorRows, len(y))
		e, far := down[:n], up[:n]
		for i, v := range s[:n] {
			far[i] = math.Abs(v)
		}
		dense.Exp(far, e, far)
		if weight == nil {
			sum -= logitRows(y[:n], s[:n], e, d1[:n], curv[:n])
		} else {
			sum -= logitWeightedRows(y[:n], weight[:n], s[:n], e, d1[:n], curv[:n])
			weight = weight[n:]
		}
		y, s, d1, curv = y[n:], s[n:], d1[n:], curv[n:]
	}
	return sum
}

// logitRows returns -log p of up to some rows, with e = e^-|s|.
func logitRows(y, s, e, d1, curv []float64) float64 {
	s, e, d1, curv = s[:len(y)], e[:len(y)], d1[:len(y)], curv[:len(y)]
	product, twice := 1.0, 0.0
	for i, v := range y {
		e, side := e[i], 2*v-1
		x, one := s[i]*side, 1+e
		big := 1 / one
		small := e * big
		twice += math.Abs(s[i]) - x // the excess of the less likely response
		product *= one
		d1[i], curv[i] = side*larger(big, small, x), small*big
	}
	return special.QuickLog(product) + 0.5*twice
}

func logitWeightedRows(y, weight, s, e, d1, curv []float64) (sum float64) {
	weight, s, e, d1, curv = weight[:len(y)], s[:len(y)], e[:len(y)], d1[:len(y)], curv[:len(y)]
	for i, v := range y {
		w := weight[i]
		if w == 0 {
			d1[i], curv[i] = 0, 0
			continue
		}
		e, side := e[i], 2*v-1
		x, one := s[i]*side, 1+e
		big := 1 / one
		small := e * big
		sum += w * (special.QuickLog(one) + 0.5*(math.Abs(s[i])-x))
		d1[i], curv[i] = w*side*larger(big, small, x), w*small*big
	}
	return sum
}

// larger returns big if x < 0, otherwise small.
func larger(big, small, x float64) float64 {
	a, b := math.Float64bits(small), math.Float64bits(big)
	return math.Float64frombits(a ^ (a^b)&uint64(int64(math.Float64bits(x))>>63))
}

func (logit) third() func(o Obs, s float64) float64 { return logitThird }

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

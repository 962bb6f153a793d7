package lik

import (
	"math"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/special"
)

// Many looks at many rows faster than LogLik at one after the other, nil where l has nothing
// faster. It sets d1 and curv to the first derivative and to less the second of every row,
// weight nil standing for 1, and returns the sum of w log p. It says the same to rounding, of
// log p to an absolute 1e-15 of a row of weight 1. A number that is not finite makes the sum
// not finite.
func Many(l Likelihood) func(y, weight, s, d1, curv []float64) (sum float64) {
	if l, ok := l.(interface {
		many(y, weight, s, d1, curv []float64) (sum float64)
	}); ok {
		return l.many
	}
	return nil
}

// Means is Predict's mean of many predictors N(m, v), the same bit by bit, faster than one
// after the other; nil where l has nothing faster.
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

// Third is the third derivative of w log p in s, nil where l does not know it.
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

// some is how many rows go through vectors at once. So many numbers up to 2 are multiplied before
// their logarithm is taken, too.
const some = 256

// many has no branch on what a row says: at random ones half are predicted wrong. Without weights
// the logarithms of 1 + e^-|s| are one of their product.
func (logit) many(y, weight, s, d1, curv []float64) (sum float64) {
	var up, down [some]float64
	for len(y) > 0 {
		n := min(some, len(y))
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

// logitRows is -log p of up to some rows, e being e^-|s|.
func logitRows(y, s, e, d1, curv []float64) float64 {
	s, e, d1, curv = s[:len(y)], e[:len(y)], d1[:len(y)], curv[:len(y)]
	product, twice := 1.0, 0.0
	for i, v := range y {
		e, side := e[i], 2*v-1
		x, one := s[i]*side, 1+e
		big := 1 / one
		small := e * big
		twice += math.Abs(s[i]) - x // what is more for the less likely response
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

// larger is big where x < 0, else small.
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

package lik

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/special"
)

// oneByOne is Many by LogLik of one row at a time.
func oneByOne(l Likelihood, y, weight, s, d1, curv []float64) (sum float64) {
	o := Obs{Weight: 1}
	for i, v := range y {
		if o.Y = v; weight != nil {
			o.Weight = weight[i]
		}
		logp, first, second := l.LogLik(o, s[i])
		d1[i], curv[i] = first, -second
		sum += logp
	}
	return sum
}

// withinExp is the largest predictor whose exponential is vectorised.
const withinExp = 600

// byExp is Many for likelihoods that one evaluates for a row of weight 1, with e = e^s, or e^-s if
// down. Blocks with a predictor that is too large are evaluated one row at a time.
func byExp(l Likelihood, down bool, y, weight, s, d1, curv []float64, one func(y, s, e float64) (logp, d1, curv float64)) (sum float64) {
	var up, dn [vectorRows]float64
	es := up[:]
	if down {
		es = dn[:]
	}
	for len(y) > 0 {
		n, within := min(vectorRows, len(y)), true
		for _, v := range s[:n] {
			within = within && math.Abs(v) < withinExp
		}
		var w []float64
		if weight != nil {
			w, weight = weight[:n], weight[n:]
		}
		if within {
			dense.Exp(up[:n], dn[:n], s[:n])
			sum += rowsByExp(y[:n], w, s[:n], es[:n], d1[:n], curv[:n], one)
		} else {
			sum += oneByOne(l, y[:n], w, s[:n], d1[:n], curv[:n])
		}
		y, s, d1, curv = y[n:], s[n:], d1[n:], curv[n:]
	}
	return sum
}

// rowsByExp is byExp for up to some rows.
func rowsByExp(y, weight, s, es, d1, curv []float64, one func(y, s, e float64) (logp, d1, curv float64)) (sum float64) {
	w := 1.0
	for i, v := range y {
		if weight != nil {
			if w = weight[i]; w == 0 {
				d1[i], curv[i] = 0, 0
				continue
			}
		}
		logp, first, bend := one(v, s[i], es[i])
		d1[i], curv[i] = w*first, w*bend
		sum += w * logp
	}
	return sum
}

func (l poisson) many(y, weight, s, d1, curv []float64) (sum float64) {
	return byExp(l, false, y, weight, s, d1, curv, func(y, s, rate float64) (logp, d1, curv float64) {
		return poissonLogp(y, s, rate), y - rate, rate
	})
}

// manyShape is the largest shape for which shape times e^u - 1 - u may lose digits about u = 0.
const manyShape = 1e3

func (l gamma) many(y, weight, s, d1, curv []float64) (sum float64) {
	if !(l.shape <= manyShape) {
		return oneByOne(l, y, weight, s, d1, curv)
	}
	return byExp(l, true, y, weight, s, d1, curv, func(y, s, down float64) (logp, d1, curv float64) {
		logY, e := special.QuickLog(y), y*down
		return l.peak - logY - l.shape*((e-1)-(logY-s)), l.shape * (e - 1), l.shape * e
	})
}

func (l gamma) third() func(o Obs, s float64) float64 {
	return func(o Obs, s float64) float64 {
		if o.Weight == 0 {
			return 0
		}
		return o.Weight * l.shape * math.Exp(math.Log(o.Y)-s)
	}
}

// many uses log p = y s - (y + r) log(1 + e^s/r) plus a term of the count, which rows share.
func (l negbinomial) many(y, weight, s, d1, curv []float64) (sum float64) {
	if !(l.size <= 1e10) {
		return oneByOne(l, y, weight, s, d1, curv)
	}
	known, by := l.terms.upTo(l.size, y), 1/l.size
	return byExp(l, false, y, weight, s, d1, curv, func(y, s, rate float64) (logp, d1, curv float64) {
		k := int(y)
		if uint(k) >= uint(len(known)) {
			logp, first, second := l.LogLik(Obs{Y: y, Weight: 1}, s)
			return logp, first, -second
		}
		x, n := rate*by, y+l.size
		q := 1 / (1 + x)
		return y*s - n*special.QuickLog1p(x) + known[k], q * (y - rate), n * x * q * q
	})
}

// manyKnown is how many counts from 0 have their terms in a table.
const manyKnown = 1024

// countTerms are log(Γ(k+r)/(Γ(r) r^k k!)) for whole k from 0, computed on first use.
type countTerms struct{ table atomic.Pointer[[]float64] }

// upTo returns a table of at least the terms of all y below manyKnown.
func (c *countTerms) upTo(r float64, y []float64) []float64 {
	var known []float64
	if c != nil {
		if t := c.table.Load(); t != nil {
			known = *t
		}
	}
	largest := -1
	for _, v := range y {
		if v < manyKnown {
			largest = max(largest, int(v))
		}
	}
	if largest < len(known) {
		return known
	}
	known = slices.Grow([]float64(nil), largest+1)
	sum, lost := 0.0, 0.0 // Neumaier's sum, because there are a thousand terms
	for k := 0; k <= largest; k++ {
		if k > 0 {
			term := math.Log1p(float64(k-1)/r) - math.Log(float64(k))
			next := sum + term
			if math.Abs(sum) >= math.Abs(term) {
				lost += (sum - next) + term
			} else {
				lost += (term - next) + sum
			}
			sum = next
		}
		known = append(known, sum+lost)
	}
	if c != nil {
		c.table.Store(&known)
	}
	return known
}

func (l negbinomial) third() func(o Obs, s float64) float64 {
	return func(o Obs, s float64) float64 {
		if o.Weight == 0 {
			return 0
		}
		u := s - l.logSize
		e := math.Exp(-math.Abs(u))
		big := 1 / (1 + e)
		small := e * big
		t := o.Weight * (o.Y + l.size) * small * big * (big - small)
		if u < 0 {
			return -t
		}
		return t
	}
}

func (l studentT) many(y, weight, s, d1, curv []float64) (sum float64) {
	by, w := 1/l.scale2, 1.0
	if math.IsInf(by, 1) {
		return oneByOne(l, y, weight, s, d1, curv)
	}
	for i, v := range y {
		if weight != nil {
			if w = weight[i]; w == 0 {
				d1[i], curv[i] = 0, 0
				continue
			}
		}
		r := v - s[i]
		square := r * r
		if !(square*by < 1e16) {
			logp, first, second := l.LogLik(Obs{Y: v, Weight: w}, s[i])
			d1[i], curv[i] = first, -second
			sum += logp
			continue
		}
		k := w * (l.dof + 1)
		q := 1 / (l.scale2 + square)
		d1[i], curv[i] = k*(r*q), k*((l.scale2-square)*q*q)
		sum += w*l.peak - 0.5*k*special.QuickLog1p(square*by)
	}
	return sum
}

func (l studentT) third() func(o Obs, s float64) float64 {
	return func(o Obs, s float64) float64 {
		if o.Weight == 0 {
			return 0
		}
		r := o.Y - s
		q := l.scale2 + r*r
		return -2 * o.Weight * (l.dof + 1) * (r / q) * ((3*l.scale2 - r*r) / q / q)
	}
}

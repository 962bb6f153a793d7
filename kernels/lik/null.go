package lik

import (
	"math"

	"github.com/bglm/bglm/kernels/special"
)

// nullFitter is a likelihood with another parameter than its mean, whose best value has no closed
// form.
type nullFitter interface {
	nullLogLik(rows []Obs) (logp float64, ok bool)
}

// NullLogLik returns the log likelihood of rows under the null model: a common mean and, for a
// family with a dispersion or a shape, its best value for the rows; the degrees of freedom of
// studentt stay those of l. ok is false if there is no maximum, as for numbers that are all equal.
func NullLogLik(l Likelihood, rows []Obs) (logp float64, ok bool) {
	if len(rows) == 0 {
		return 0, false
	}
	if f, has := l.(nullFitter); has {
		return f.nullLogLik(rows)
	}
	c := ConstantOf(l)
	if c == nil {
		return 0, false
	}
	return c.Best(sumsOf(c, rows), 0)
}

// sumsOf returns the sums of rows, relative to the first.
func sumsOf(c Constant, rows []Obs) (s Sums) {
	k, _ := c.(Keeper)
	for _, o := range rows {
		s.add(o, rows[0].Y, k)
	}
	return s
}

// bestShape returns the shape at the maximum of a unimodal function of it, by golden section, and
// the maximum.
func bestShape(logp func(shape float64) float64) (shape, most float64) {
	const ratio, steps = 0.6180339887498949, 45 // 3e-9 of the range
	lo, hi := math.Log(MinShape), math.Log(mostSize)
	a, b := hi-ratio*(hi-lo), lo+ratio*(hi-lo)
	fa, fb := logp(math.Exp(a)), logp(math.Exp(b))
	for range steps {
		if fa > fb {
			hi, b, fb = b, a, fa
			a = hi - ratio*(hi-lo)
			fa = logp(math.Exp(a))
		} else {
			lo, a, fa = a, b, fb
			b = lo + ratio*(hi-lo)
			fb = logp(math.Exp(b))
		}
	}
	if fa > fb {
		return math.Exp(a), fa
	}
	return math.Exp(b), fb
}

// nullLogLik is at the mean, which is best for every shape.
func (l gamma) nullLogLik(rows []Obs) (logp float64, ok bool) {
	s := sumsOf(l, rows)
	if !(s.Square*s.Weight > s.Centred*s.Centred) {
		return 0, false
	}
	_, logp = bestShape(func(shape float64) float64 {
		logp, _ := gamma{shape: shape}.Best(s, 0)
		return logp
	})
	return logp, true
}

// nullLogLik is at the mean, which is best for every size; counts that vary less than a Poisson
// distribution's have the largest size.
func (l negbinomial) nullLogLik(rows []Obs) (logp float64, ok bool) {
	var y, weight float64
	for _, o := range rows {
		y, weight = y+o.Weight*o.Y, weight+o.Weight
	}
	if !(y > 0) {
		return 0, false
	}
	s := math.Log(y / weight)
	_, logp = bestSize(func(yield func(o Obs, s float64)) {
		for _, o := range rows {
			yield(o, s)
		}
	})
	return logp, true
}

// CountAlone is the log density of a count under the negative binomial distribution that earlier ones
// with these sums suggest, by their moments. It is what a filter of their mean alone would predict:
// the sums of such densities over counts in their order is that of a proper distribution of all.
// The first one has the density 1/((y+1)(y+2)).
func CountAlone(o Obs, s Sums) float64 {
	if !(s.Weight > 0) {
		return -o.Weight * (math.Log1p(o.Y) + math.Log(o.Y+2))
	}
	n, mean := s.Weight, (s.Y+0.5)/s.Weight
	over := math.Max((s.Square-s.Centred*s.Centred/n)/n-mean, 0) / (mean * mean) // 1/size
	over = (n*over + 1) / (n + 1)                                                // as if one count more had the size 1
	over += (over + 1/mean) / n                                                  // the mean is uncertain, too
	size := math.Min(math.Max(1/over, MinShape), mostSize)
	logp, _, _ := negbinomial{size: size, logSize: math.Log(size)}.LogLik(o, math.Log(mean))
	return logp
}

// bestSize returns the most likely size of the rows, counts whose linear predictors are known, and
// their log likelihood.
func bestSize(rows func(yield func(o Obs, s float64))) (size, most float64) {
	return bestShape(func(size float64) (logp float64) {
		one := negbinomial{size: size, logSize: math.Log(size)}
		rows(func(o Obs, s float64) {
			p, _, _ := one.LogLik(o, s)
			logp += p
		})
		return logp
	})
}

// SizeOfOthers returns the size of the negative binomial distribution that is most likely for n rows
// without row, whose means have the ratios of those at the linear predictors, and their mean; ok is
// false if their counts are all 0, or l is another distribution.
//
// Cost: 50 n log likelihoods.
func SizeOfOthers(l Likelihood, n, row int, rows func(i int) (o Obs, s float64)) (size, mean float64, ok bool) {
	if _, is := l.(negbinomial); !is {
		return 0, 0, false
	}
	var y, fitted, weight float64
	for i := range n {
		if o, s := rows(i); i != row && o.Weight > 0 {
			y, fitted, weight = y+o.Weight*o.Y, fitted+o.Weight*l.Response(s), weight+o.Weight
		}
	}
	shift := math.Log(y / fitted)
	if !special.Finite(shift) {
		return 0, 0, false
	}
	size, _ = bestSize(func(yield func(o Obs, s float64)) {
		for i := range n {
			if o, s := rows(i); i != row && o.Weight > 0 {
				yield(o, s+shift)
			}
		}
	})
	return size, y / weight, true
}

// nullLogLik is at the location and dispersion to which expectation maximisation converges, whose
// weights of rows are (nu+1)/(nu+r²).
func (l studentT) nullLogLik(rows []Obs) (logp float64, ok bool) {
	const most, small = 1000, 1e-10
	normal := sumsOf(gaussian{}, rows)
	at := rows[0].Y + normal.Centred/normal.Weight
	first := normal.Square/normal.Weight - (at-rows[0].Y)*(at-rows[0].Y)
	if !(first > 0) {
		return 0, false
	}
	d, before := first, math.Inf(-1)
	for range most {
		var w, centred, square float64
		for _, o := range rows {
			r := o.Y - at
			k := o.Weight * (l.dof + 1) / (l.dof + r*r/d)
			w, centred, square = w+k, centred+k*r, square+k*r*r
		}
		move := centred / w
		at += move
		// Divide by w instead of the weight of the rows: the same limit, reached sooner.
		d = (square - w*move*move) / w
		if !(d > small*small*first) { // most are equal
			return 0, false
		}
		one, err := newStudentT(Params{Shape: l.dof, Dispersion: d})
		if err != nil {
			return 0, false
		}
		logp = 0
		for _, o := range rows {
			p, _, _ := one.LogLik(o, at)
			logp += p
		}
		if logp-before < small*math.Abs(logp) {
			return logp, true
		}
		before = logp
	}
	return logp, true
}

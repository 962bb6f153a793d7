package predict

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// LearntParameters is what a fit has learnt in addition to its weights; a row that is left out has
// contributed to it too. The zero Beside belongs to a fit that has learnt nothing else.
type LearntParameters struct {
	// Scale and Freedom describe the posterior of the dispersion, a scaled inverse chi-square
	// distribution: the one whose square root has the fit's mean and standard deviation. Freedom is
	// 0 if the dispersion was given, or its posterior is unknown.
	Scale, Freedom float64
	// Shape is the variance of the logarithm of the shape, 0 if it was given, and ShapeUnbound if
	// the rows do not bound it. ShapeMode is the mode of the logarithm.
	Shape, ShapeMode float64
	// Varied says that the fit learnt the variance of a column of levels and averaged over it: the
	// variance of a predictor is then larger than under any one of them.
	Varied bool
}

// BesideOf returns what f has learnt in addition to its weights.
func BesideOf(f *kernels.Fit) LearntParameters {
	var b LearntParameters
	for k := range f.Columns {
		_, _, ok := f.Columns[k].Deviation()
		b.Varied = b.Varied || ok
	}
	if mean, sd, ok := f.LearntOf(kernels.LearntDeviation); ok {
		b.Freedom = special.InverseChiFreedom(sd / mean)
		unit, _ := special.InverseChi(b.Freedom)
		b.Scale = mean / unit * (mean / unit)
	}
	if slices.ContainsFunc(f.Learnt, func(l kernels.Learnt) bool { return l.Name == kernels.LearntShape }) {
		b.Shape = ShapeUnbound
		if mean, sd, ok := f.LearntOf(kernels.LearntShape); ok {
			b.Shape = math.Log1p(sd / mean * (sd / mean))
			b.ShapeMode = math.Log(mean) - 0.5*b.Shape
		}
	}
	return b
}

// ShapeUnbound is the variance of the logarithm of a shape from which on a fit does not report it.
const ShapeUnbound = 4

// Drawn returns a dispersion and a shape drawn independently from their posteriors in f, or their
// values if they were given or their posterior is unknown. ok says that one was drawn.
func (b LearntParameters) Drawn(f *kernels.Fit, src rand.Source) (p lik.Params, ok bool) {
	p = lik.Params{Dispersion: f.Dispersion, Shape: or0(f.Shape)}
	if b.Freedom > 1 {
		p.Dispersion = b.Scale * b.Freedom / distuv.ChiSquared{K: b.Freedom, Src: src}.Rand()
	}
	known := b.Shape > 0 && b.Shape < ShapeUnbound
	if known {
		p.Shape = math.Max(math.Exp(b.ShapeMode+math.Sqrt(b.Shape)*rand.New(src).NormFloat64()), lik.MinShape)
	}
	return p, known || b.Freedom > 1
}

// anewFrom is the leverage from which on a row's predictor is also computed without its level.
const anewFrom = 0.3

// conditional is the variance of the row's predictor under one value of what was learnt, v being
// that over all values: at most what it is if only this row informs about its levels, whose
// predictor then has the variance that anew returns. n is the influence of the row.
func (b LearntParameters) conditional(l lik.Likelihood, n Influence, v float64, anew func() (m, v float64, err error)) (float64, error) {
	if _, ok := l.(lik.Dispersed); !ok || !b.Varied || anew == nil || !(n.Leverage > anewFrom) {
		return v, nil
	}
	_, a, err := anew()
	if err != nil {
		return v, err
	}
	return min(v, a/(1+n.Curvature*a)), nil
}

// A cavity is due to the row alone if its variance is at least wideCavity of that with new levels,
// and its standard deviation more than wideScale scales of the likelihood, as for separated
// responses.
const wideCavity, wideScale = 0.5, 4.0

// withNewLevels is out, the row of o left out by its moments, if other rows inform about its
// levels. If not, a posterior averaged over variances has learnt the levels from the row itself,
// however wide they are: they are then treated as new, as they are to the other rows, and Reach
// warns of the row.
func (b LearntParameters) withNewLevels(l lik.Likelihood, o lik.Obs, out LeftOut, anew func() (m, v float64, err error)) (LeftOut, error) {
	wide := wideScale * l.Traits().Scale
	if _, ok := l.(lik.Dispersed); ok || !b.Varied || anew == nil || !(out.Variance > wide*wide) {
		return out, nil
	}
	m, v, err := anew()
	if err != nil || !(out.Variance >= wideCavity*v) {
		return out, err
	}
	o.Weight = 1
	out.Mean, out.Variance, out.LogDensity, out.Reach = m, v, l.Moments(o, m, v).LogZ, max(out.Reach, 1)
	return out, nil
}

// leastNoise is the least proportion of the sum of squares that remains when a row is left out: its
// distribution is known by two moments, which do not determine less.
const leastNoise = 0.02

// without takes the row of o, of weight up to 1, out of gaussian responses with a learnt
// dispersion: with the dispersion D of l, leverage h = v/D, e = y - m, and sum of squares S ν,
//
//	S' (ν-1) = S ν - e²/(1-h),   y ~ t(m - e h/(1-h), S' (1 + h/(1-h))) of ν-1 degrees of freedom
//
// which is exact if the prior of the weights is nearly flat or in units of the dispersion. e²/(1-h)
// in units of S ν is the tail index of the ratios 1/p(y | s, D).
//
// Source: the externally studentised residual, [cook1982], section 2.2.
func (b LearntParameters) without(l lik.Dispersed, o lik.Obs, m, v float64) (out LeftOut, tail float64) {
	d := l.Dispersion()
	h, e, w := v/d, o.Y-m, o.Weight
	rest := 1 - w*h
	squares := b.Scale * b.Freedom
	tail = w * e * e / rest / squares
	left := squares * max(1-tail, leastNoise)
	nu := b.Freedom - w
	by := squares / d // D is the sum of squares divided by this
	out.Dispersion = left / max(by-w, 0.5*by)
	out.Share = w * h
	out.Mean = m - w*h/rest*e
	out.Variance = h / rest * out.Dispersion
	out.LogDensity = logT(o.Y-out.Mean, left/nu*(1+h/rest), nu)
	return out, tail
}

// LogDensity is the log density of the response of o, with weight 1, when the predictor is N(m, v)
// under the dispersion or shape of l, which is uncertain as b says.
func (b LearntParameters) LogDensity(l lik.Likelihood, o lik.Obs, m, v float64) float64 {
	if d, ok := b.studentised(l); ok {
		return logT(o.Y-m, b.Scale*(1+v/d.Dispersion()), b.Freedom)
	}
	if _, ok := b.shaped(l); ok {
		if at := b.reaveraged(l, o, m, v); !math.IsNaN(at) {
			return at
		}
	}
	return l.Moments(o, m, v).LogZ
}

// Penalty is the variance of the log density of a response over the weights and what else was
// learnt: for gaussian responses the dispersion, with u = 1/D ~ Gamma(a, b), s = m + √(h/u) z and e
// = y - m the variance of ½ log u - ½ (√u e - √h z)², for others the shape. over returns the mean
// and variance of the log density under a likelihood, the predictor being N(m, v). false if nothing
// else is learnt.
func (b LearntParameters) Penalty(l lik.Likelihood, o lik.Obs, m, v float64, over func(l lik.Likelihood, v float64) (mean, variance float64)) (float64, bool) {
	if _, ok := b.shaped(l); ok {
		p := b.shapedPenalty(l, m, v, over)
		return p, !math.IsNaN(p)
	}
	d, ok := b.studentised(l)
	if !ok {
		return 0, false
	}
	shape, rate := 0.5*b.Freedom, 0.5*b.Freedom*b.Scale
	h, e := v/d.Dispersion(), o.Y-m
	r := e * e / rate
	return 0.25*(trigamma(shape)+r*r*shape) - 0.5*r + r*h*shape + 0.5*h*h, true
}

// studentised reports whether responses are gaussian about the predictor with a learnt dispersion.
func (b LearntParameters) studentised(l lik.Likelihood) (lik.Dispersed, bool) {
	d, ok := l.(lik.Dispersed)
	return d, ok && b.Freedom > 1 && l.Traits().Gaussian
}

// NotAveraged reports whether a dispersion or shape was learnt over which densities under l are not
// averaged: those of studentt, and of gaussian responses with a link other than identity.
func (b LearntParameters) NotAveraged(l lik.Likelihood) bool {
	_, ok := l.(lik.Dispersed)
	return ok && !l.Traits().Gaussian && (b.Freedom > 0 || b.Shape > 0)
}

// parameterShift is how far the row of o moves a learnt dispersion or shape, to first order: the
// slope of log p(y | m) in its logarithm times its variance, or the resulting change of log p(y |
// m), that product times the slope, if it is larger.
func (b LearntParameters) parameterShift(l lik.Likelihood, o lik.Obs, m float64) float64 {
	d, ok := l.(lik.Dispersed)
	if !ok {
		return 0
	}
	e := o.Y - l.Response(m)
	square, far := e*e/d.Dispersion(), 0.0
	by := func(slope, variance float64) {
		slope = math.Abs(slope)
		far = max(far, slope*variance, slope*slope*variance)
	}
	if s, ok := l.(lik.Shaped); ok {
		const step = 0.01
		nu := s.Shape()
		by((logT(e, d.Dispersion(), nu*math.Exp(step))-logT(e, d.Dispersion(), nu*math.Exp(-step)))/(2*step), b.Shape)
		square *= (nu + 1) / (nu + square)
	}
	if b.Freedom > 1 {
		by(0.5*(square-1), trigamma(0.5*b.Freedom))
	}
	return o.Weight * far
}

// logT is the log density of Student's t at x, with squared scale and nu degrees of freedom.
func logT(x, scale, nu float64) float64 {
	a, _ := math.Lgamma(0.5 * (nu + 1))
	b, _ := math.Lgamma(0.5 * nu)
	return a - b - 0.5*math.Log(math.Pi*nu*scale) - 0.5*(nu+1)*math.Log1p(x/scale*x/nu)
}

// trigamma is the second derivative of log Γ, accurate to 1e-12.
func trigamma(x float64) float64 {
	sum := 0.0
	for ; x < 12; x++ {
		sum += 1 / (x * x)
	}
	i := 1 / (x * x)
	return sum + 1/x + 0.5*i + i/x*(1.0/6-i*(1.0/30-i*(1.0/42-i/30)))
}

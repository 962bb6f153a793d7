package kernels

import (
	"math"

	"github.com/bglm/bglm/kernels/lik"
)

// Earlier is what the rows of a fit that is continued say of the dispersion D and the shape: the
// posteriors that it recorded, a scaled inverse chi-square distribution of D (Fit.LearnDeviation) and
// a log-normal one of the shape (Fit.LearnShape). Methods that keep the rows and learn D and the
// shape add it to the log evidence of the rows since. The zero value says nothing.
//
// If the fit did not find how far its rows determine D, each row but one for each weight counts as a
// degree of freedom; a shape like that, which few rows hardly bound, is learnt anew.
//
// D and the weights are taken to be independent, as they are in a fit: of gaussian responses a
// posterior of both has variances in proportion to D.
type Earlier struct {
	Noise, Freedom     float64 // scale and degrees of freedom, 0 for none
	Shape, Information float64 // most probable shape, and information about its logarithm, 0 for none
}

// Earlier is what the fit that p continues has learnt of the parameters that p learns.
func (p *Problem) Earlier() (e Earlier) {
	if p.Start == nil || p.Lik == nil {
		return e
	}
	if _, ok := p.Lik.(lik.Dispersed); ok && p.Options.AutoDispersion {
		e.Noise, e.Freedom = p.Start.noise()
	}
	if _, ok := p.Lik.(lik.Shaped); ok && p.Options.AutoShape {
		e.Shape, e.Information, _ = p.Start.LearntLogShape()
	}
	return e
}

// noise is LearntNoise, and a guess from the number of rows if the spread is not known.
func (f *Fit) noise() (scale, nu float64) {
	if scale, nu, ok := f.LearntNoise(); ok {
		return scale, nu
	}
	if _, _, learnt := f.Kept(LearntDeviation); learnt && f.Dispersion > 0 {
		return f.Dispersion, math.Max(float64(f.N-int64(len(f.Beliefs))), 0)
	}
	return 0, 0
}

// fewBound is the number of rows below which a shape that a fit could not bound is learnt anew.
const fewBound = 1000

// LearnsOn reports whether methods that keep the rows go on learning the dispersion, or the shape
// (a Learnt name), of f, nil for none: f has learnt it and knows how far, or, as for a shape at the
// end of its range, few rows could not tell.
func (f *Fit) LearnsOn(name string) bool {
	mean, sd, ok := f.Kept(name)
	return ok && mean > 0 && (sd > 0 || name == LearntDeviation || f.N < fewBound)
}

// Log is the log density of the dispersion and the shape of l, over their logarithms, less its
// maximum.
func (e Earlier) Log(l lik.Likelihood) (log float64) {
	if d, ok := l.(lik.Dispersed); ok {
		log = e.NoiseLog(d.Dispersion())
	}
	if s, ok := l.(lik.Shaped); ok && e.Information > 0 {
		x := math.Log(s.Shape() / e.Shape)
		log -= 0.5 * e.Information * x * x
	}
	return log
}

// NoiseLog is the part of Log that depends on the dispersion.
func (e Earlier) NoiseLog(dispersion float64) float64 {
	if e.Freedom == 0 {
		return 0
	}
	x := math.Log(dispersion / e.Noise)
	return -0.5 * e.Freedom * (x + math.Expm1(-x))
}

// NoiseSlope returns the slope of NoiseLog in the logarithm of the dispersion, and minus its
// curvature.
func (e Earlier) NoiseSlope(dispersion float64) (slope, curvature float64) {
	if e.Freedom == 0 {
		return 0, 0
	}
	r := e.Noise / dispersion
	return 0.5 * e.Freedom * (r - 1), 0.5 * e.Freedom * r
}

// ShapeSlope returns the slope of Log in the logarithm of the shape, and minus its curvature.
func (e Earlier) ShapeSlope(shape float64) (slope, curvature float64) {
	if e.Information == 0 {
		return 0, 0
	}
	return -e.Information * math.Log(shape/e.Shape), e.Information
}

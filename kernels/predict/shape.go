package predict

import (
	"math"

	"github.com/bglm/bglm/kernels/lik"
)

// shaped reports whether a shape, of known standard deviation, was learnt and no dispersion.
func (b LearntParameters) shaped(l lik.Likelihood) (lik.Shaped, bool) {
	if _, ok := l.(lik.Dispersed); ok || !(b.Shape > 0) || b.Shape >= ShapeUnbound {
		return nil, false
	}
	s, ok := l.(lik.Shaped)
	return s, ok
}

// shapes is the posterior of a shape e^t of responses with a mean about mu, as for a gamma:
//
//	log π(t) = A (κ log κ - log Γ(κ)) - B κ,  κ = e^t
//
// which is not normal in t: to the right it falls as e^-κ. A negbinomial count is nearly a gamma
// response of shape κ = rμ/(r+μ), and log π has a limit where the count becomes Poisson.
type shapes struct {
	counts  bool
	mu      float64
	mode, a float64 // mode is that of all rows, including the one that is left out
	b, top  float64 // top is log π(mode)
}

// shapes returns the posterior that has the mode and standard deviation of all rows once a term is
// added whose first two derivatives at the mode are slope and bend. If one row explains all of the
// bend, nothing remains without it: the posterior then only rises or falls.
func (b LearntParameters) shapes(l lik.Likelihood, mu, slope, bend float64) shapes {
	s := shapes{mode: b.ShapeMode, counts: l.Traits().Counts, mu: mu}
	first := func(t float64) float64 {
		k := s.known(t)
		log, _ := math.Lgamma(k)
		return k*math.Log(k) - log
	}
	second := func(t float64) float64 { return -s.known(t) }
	f1, f2 := derivatives(first, s.mode)
	g1, g2 := derivatives(second, s.mode)
	want1, want2 := -slope, min(-1/b.Shape-bend, -leastNoise/b.Shape)
	det := f1*g2 - f2*g1
	s.a = max((want1*g2-want2*g1)/det, 0)
	s.b = (want1 - s.a*f1) / g1
	s.top = s.log(s.mode)
	return s
}

// derivatives are the first two derivatives of f at t.
func derivatives(f func(t float64) float64, t float64) (first, second float64) {
	const h = 0.03
	up, down := f(t+h), f(t-h)
	return (up - down) / (2 * h), (up - 2*f(t) + down) / (h * h)
}

// known is the shape of a gamma distribution with the relative noise of responses of shape e^t.
func (s *shapes) known(t float64) float64 {
	k := math.Exp(t)
	if s.counts {
		return k / (1 + k/s.mu)
	}
	return k
}

// log is log π(t) minus that at the mode.
func (s *shapes) log(t float64) float64 {
	k := s.known(t)
	log, _ := math.Lgamma(k)
	return s.a*(k*math.Log(k)-log) - s.b*k - s.top
}

// A shape is sought at shapeNodes places, within farShape of the mode.
const (
	shapeNodes = 25
	farShape   = 4
)

// around are the nodes of a rule for integrals over t of a density proportional to e^at: the
// trapezoid rule about the maximum, within six standard deviations according to the curvature
// there. edge says that there is no maximum within reach.
func (s *shapes) around(sd float64, at func(t float64) float64) (ts [shapeNodes]float64, top float64, edge bool) {
	lo, hi := s.mode-farShape, s.mode+farShape
	// The maximum: uphill from the mode by whole standard deviations, then by ternary search.
	a, b, up := s.mode, s.mode, sd
	if at(s.mode-0.1*sd) > at(s.mode) {
		up = -sd
	}
	for here := at(b); ; {
		next := min(max(b+up, lo), hi)
		edge = next == b
		if v := at(next); edge || !(v > here) {
			b = next
			break
		} else {
			a, b, here = b-up, next, v
		}
	}
	if a > b {
		a, b = b, a
	}
	a, b = max(a, lo), min(b, hi)
	for b-a > 0.05*sd {
		c, d := a+(b-a)/3, b-(b-a)/3
		if at(c) < at(d) {
			a = c
		} else {
			b = d
		}
	}
	top = 0.5 * (a + b)
	h := 0.2 * sd
	wide := sd
	if bend := (2*at(top) - at(top+h) - at(top-h)) / (h * h); bend > 0 {
		wide = min(1/math.Sqrt(bend), 2*sd)
	}
	for k := range ts {
		ts[k] = min(max(top+wide*6*(2*float64(k)/(shapeNodes-1)-1), lo), hi)
	}
	return ts, top, edge
}

// sumLog is the log of the integral of e^at over ts, equally spaced except at a bound.
func sumLog(ts []float64, at func(t float64) float64) float64 {
	top := math.Inf(-1)
	logs := make([]float64, len(ts))
	for k, t := range ts {
		logs[k] = at(t)
		top = max(top, logs[k])
	}
	sum := 0.0
	for k := 1; k < len(ts); k++ {
		sum += 0.5 * (ts[k] - ts[k-1]) * (math.Exp(logs[k]-top) + math.Exp(logs[k-1]-top))
	}
	return top + math.Log(sum)
}

// density is the log density of o's response, of weight 1, by log shape, the predictor being N(m,
// v) at the shape of l. The variance of the weights scales with the noise, approximately.
func (b LearntParameters) density(l lik.Likelihood, o lik.Obs, m, v float64) func(t float64) float64 {
	under := underShape(l, m, v)
	o.Weight = 1
	return func(t float64) float64 {
		other, v, err := under(t)
		if err != nil {
			return math.NaN()
		}
		return other.Moments(o, m, v).LogZ
	}
}

// underShape is l, and the variance of a predictor N(m, v) at its shape, by log shape.
func underShape(l lik.Likelihood, m, v float64) func(t float64) (lik.Likelihood, float64, error) {
	s := shapes{counts: l.Traits().Counts, mu: math.Exp(m)}
	own := s.known(math.Log(l.(lik.Shaped).Shape()))
	return func(t float64) (lik.Likelihood, float64, error) {
		other, err := lik.New(l.Family(), l.Link(), lik.Params{Shape: math.Exp(t)})
		return other, v * own / s.known(t), err
	}
}

// averaged is the log of the mean of e^z over π, whose maximum is at top; edge says that it has
// none within reach.
func (s *shapes) averaged(sd float64, z func(t float64) float64) (mean, top float64, edge bool) {
	ts, top, edge := s.around(sd, s.log)
	return sumLog(ts[:], func(t float64) float64 { return s.log(t) + z(t) }) - sumLog(ts[:], s.log), top, edge
}

// hardlyMoves reports whether these derivatives by t of a row's log density suffice to average it
// over t, to some 1e-4 of a nat and, over n rows that inform about it, to 1/n.
func (b LearntParameters) hardlyMoves(slope, bend float64) bool {
	return (slope*slope+math.Abs(bend))*b.Shape < 0.01
}

// reaveraged is the log density of o's response, of weight 1, at N(m, v), averaged over the shape.
func (b LearntParameters) reaveraged(l lik.Likelihood, o lik.Obs, m, v float64) float64 {
	z := b.density(l, o, m, v)
	if slope, bend := derivatives(z, b.ShapeMode); b.hardlyMoves(slope, bend) {
		return z(b.ShapeMode) + 0.5*(slope*slope+bend)*b.Shape
	}
	s := b.shapes(l, math.Exp(m), 0, 0)
	mean, _, _ := s.averaged(math.Sqrt(b.Shape), z)
	return mean
}

// shapedPenalty is Penalty with a learnt shape: the mean over the shape of the variance under one
// shape, plus the variance of the mean.
func (b LearntParameters) shapedPenalty(l lik.Likelihood, m, v float64, over func(l lik.Likelihood, v float64) (mean, variance float64)) float64 {
	under := underShape(l, m, v)
	at := func(t float64) (mean, variance float64) {
		other, v, err := under(t)
		if err != nil {
			return math.NaN(), math.NaN()
		}
		return over(other, v)
	}
	slope, bend := derivatives(func(t float64) float64 { mean, _ := at(t); return mean }, b.ShapeMode)
	if b.hardlyMoves(slope, bend) {
		_, within := at(b.ShapeMode)
		return within + (slope*slope+0.5*bend*bend*b.Shape)*b.Shape
	}
	s := b.shapes(l, math.Exp(m), 0, 0)
	ts, _, _ := s.around(math.Sqrt(b.Shape), s.log)
	first, _ := at(b.ShapeMode)
	var total, within, one, two float64
	for k, t := range ts {
		w := math.Exp(s.log(t)) * (ts[min(k+1, len(ts)-1)] - ts[max(k-1, 0)])
		if !(w > 0) {
			continue
		}
		mean, variance := at(t)
		mean -= first
		total, within, one, two = total+w, within+w*variance, one+w*mean, two+w*mean*mean
	}
	one /= total
	return within/total + math.Max(two/total-one*one, 0)
}

// reshaped takes the row of o, of weight up to 1, out of a learnt shape too; out is the row left
// out of its predictor. The posterior of log shape t given all rows is that of the others times the
// density Z(t) of the response given them and the shape, and must have the fit's mode and standard
// deviation:
//
//	p(y | others) = ∫ Z π dt,  π Z^w ≈ the posterior of t
//
// Reach says how far the shape moves: half the squared move in standard deviations of the shape.
func (b LearntParameters) reshaped(l lik.Likelihood, o lik.Obs, out LeftOut) LeftOut {
	if _, ok := b.shaped(l); !ok || math.IsNaN(out.LogDensity) || !(o.Weight > 0) {
		return out
	}
	z := b.density(l, o, out.Mean, out.Variance)
	slope, bend := derivatives(z, b.ShapeMode)
	if b.hardlyMoves(slope, bend) {
		shift := o.Weight * slope * b.Shape
		out.LogDensity = z(b.ShapeMode) - slope*shift + 0.5*(slope*slope+bend)*b.Shape
		out.Shape, out.Reach = math.Exp(b.ShapeMode-shift), max(out.Reach, 0.5*shift*shift/b.Shape)
		return out
	}
	s, sd := b.shapes(l, math.Exp(out.Mean), o.Weight*slope, o.Weight*bend), math.Sqrt(b.Shape)
	left, top, edge := s.averaged(sd, z)
	if math.IsNaN(left) {
		return out
	}
	out.LogDensity, out.Shape = left, math.Exp(top)
	out.Variance *= s.known(math.Log(l.(lik.Shaped).Shape())) / s.known(top)
	moved := (top - s.mode) / sd
	if out.Reach = max(out.Reach, 0.5*moved*moved); edge {
		out.Reach = max(out.Reach, 1)
	}
	return out
}

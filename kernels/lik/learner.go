package lik

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/special"
)

// Learner is a likelihood with a parameter of its own that is learnt, by scores, from the rows as a
// filter absorbs them: the size of negbinomial, the shape of gamma, the dispersion of studentt.
// Unlike other likelihoods it changes, with Learn; every filter has its own. Learning is its
// counterpart for gaussian.
type Learner interface {
	Likelihood
	// Learn absorbs a row whose predictor was N(m, v) before it came and whose Moments are t.
	Learn(o Obs, t Tilted, m, v float64)
	// Follow returns the λ by which a filter multiplies what earlier rows have added to its
	// precision, so that they weigh as much as later ones: 1 if the parameter has changed by less
	// than the factor least since, or by a small part of its own deviation, or if that precision is
	// not proportional to a power of it.
	Follow(least float64) (lambda float64)
	// Recast converts the parameter to responses in another unit, of ratio times the numbers.
	Recast(ratio float64)

	// LogPrecision is the precision of the parameter's logarithm, by the rows and the start.
	LogPrecision() float64
	// Kept returns what Restore needs to continue a run whose rows have the given sum of weights.
	Kept() (k KeptLearner, rows float64)
	Restore(k KeptLearner, rows float64)
	// Merge adds what o learnt from the same start, and returns the λ, as of Follow, of the beliefs
	// of both and of that start.
	Merge(o Learner) (lambda [3]float64)
	CloneLearner() Learner
	// Note returns "" or a sentence about a parameter at the edge of its range.
	Note() string
}

// KeptLearner is the state of a Learner, in the present unit of the responses.
type KeptLearner struct {
	At       float64 // the logarithm of a shape, or the dispersion
	Info     float64 // of the rows about the parameter's logarithm
	Believed float64 // the dispersion, or 1/shape, under which beliefs count earlier rows; 0: the present one
	Raised   float64 // the factor by which their precision was raised for that, on average; 0: 1
}

// NewLearner returns the Learner that starts at l's parameter, learnt from n rows.
// Errors: a family without such a parameter.
func NewLearner(l Likelihood, n int64) (Learner, error) {
	if f, ok := l.(interface{ learner(rows int64) Learner }); ok {
		return f.learner(n), nil
	}
	return nil, fmt.Errorf("a stream learns the shape of negbinomial and gamma and the dispersion of studentt; found family %s", l.Family())
}

// LearnsShape reports whether the parameter of l's Learner is its shape, and LearnsDispersion
// whether it is its dispersion.
func LearnsShape(l Likelihood) bool {
	_, ok := l.(interface{ learner(rows int64) Learner })
	return ok && !l.Traits().Located
}

// LearnsDispersion: see LearnsShape.
func LearnsDispersion(l Likelihood) bool {
	_, ok := l.(interface{ learner(rows int64) Learner })
	return ok && l.Traits().Located
}

// scale learns D, to which the information of rows about their predictor is inversely
// proportional: the dispersion of studentt, 1/shape of gamma. A row moves it by
//
//	D' = D (1 + g/I),  g = ∂ log Z/∂ log D,  I = FirstShape + Σ i/(1 + r)²
//
// the natural gradient. A row has the information i about log D if its predictor is known; one that
// was N(m, v) has less, as for the variance of a normal distribution, where r is v times the row's
// information about the predictor. In log D itself the score of rows whose D is far smaller is
// bounded, and n rows could reduce D only by a factor of n.
//
// r grows as D falls: earlier rows keep the information that they have under the present D, as if
// all had had one r.
type scale struct {
	d, believed float64
	raised      float64    // the factor by which the precision of the rows, on average, was raised
	rows, info  float64    // Σw and Σi/(1 + r)²
	start       scaleStart // what a continued run began with
	lo, hi      float64    // the range of D
}

type scaleStart struct{ believed, rows, info float64 }

// The score of a row whose predictor is known is -leastScore times its information or more; one
// whose predictor is uncertain has less to say against D, too. A row changes D by mostDown or mostUp
// at most.
const (
	leastScore = 2
	mostDown   = 0.2
	mostUp     = math.E
)

// followed is the change of D in its own standard deviations that beliefs follow: a smaller one is
// likely to be reversed by the rows that come.
const followed = 1.0 / 3

// mostRaised limits by how much the precision of rows is raised, on average. What is approximate in
// the beliefs is raised, too: without a limit, few rows absorbed under a D a hundred times too large
// displaced the means by several of their standard deviations.
const mostRaised = 4

func newScale(d float64, rows, each, lo, hi float64) scale {
	s := scale{d: d, believed: d, raised: 1, rows: rows, info: rows * each, lo: lo, hi: hi}
	s.start = scaleStart{d, s.rows, s.info}
	return s
}

// learn absorbs a row of weight w whose score as a row of weight 1 is g; each is i. It teaches as w
// rows that were each predicted on their own: by each other, equal rows that nobody foresaw would say
// that D is 0.
func (s *scale) learn(w, g, r, each float64) {
	g *= w
	info := w * each / ((1 + r) * (1 + r))
	if !(w > 0) || !special.Finite(g) || !special.Finite(info) {
		return
	}
	s.raised = 1 + (s.raised-1)*s.rows/(s.rows+w)
	s.rows += w
	s.info += info
	g = max(g, -leastScore*info)
	d := s.d * min(max(1+g/(FirstShape+s.info), mostDown), mostUp)
	d = min(max(d, s.lo), s.hi)
	if full := s.rows * each; s.info > 0 && s.info < full {
		typical := (math.Sqrt(full/s.info) - 1) * (s.d / d)
		s.info = full / ((1 + typical) * (1 + typical))
	}
	s.d = d
}

// Follow implements Learner.
func (s *scale) Follow(least float64) (lambda float64) {
	lambda = s.believed / s.d
	least = max(least, 1+followed/math.Sqrt(s.LogPrecision()))
	if lambda < least && lambda > 1/least {
		return 1
	}
	s.believed = s.d
	lambda = min(lambda, max(mostRaised/s.raised, 1))
	s.raised *= lambda
	return lambda
}

// LogPrecision implements Learner.
func (s *scale) LogPrecision() float64 { return FirstShape + s.info }

// kept is Kept with D.
func (s *scale) kept() KeptLearner {
	k := KeptLearner{At: s.d, Info: s.info}
	if s.believed != s.d || s.raised != 1 {
		k.Believed, k.Raised = s.believed, s.raised
	}
	return k
}

// restore is Restore with D.
func (s *scale) restore(k KeptLearner, rows float64) {
	s.d = k.At
	s.lo, s.hi = min(s.lo, s.d), max(s.hi, s.d) // in a unit that may have changed
	s.believed, s.raised, s.info, s.rows = s.d, 1, k.Info, rows
	if k.Believed > 0 {
		s.believed = k.Believed
	}
	if k.Raised > 0 {
		s.raised = k.Raised
	}
	s.start = scaleStart{s.believed, s.rows, s.info}
}

func (s *scale) merge(o *scale) (lambda [3]float64) {
	own, other, from := s.believed, o.believed, s.start.believed
	switch {
	case o.rows == o.start.rows:
		return [3]float64{1, own / other, own / from}
	case s.rows == s.start.rows:
		s.d, s.believed, s.raised, s.info, s.rows = o.d, o.believed, o.raised, o.info, o.rows
	default:
		brought := max(o.info-o.start.info, 0)
		if mine := s.LogPrecision(); brought > 0 {
			s.d = (mine*s.d + brought*o.d) / (mine + brought)
		}
		s.believed, s.raised = s.d, max(s.raised, o.raised)
		s.info += brought
		s.rows += o.rows - o.start.rows
	}
	return [3]float64{own / s.believed, other / s.believed, from / s.believed}
}

func (s *scale) note(name string, value float64) string {
	if s.d <= 2*s.lo || s.d >= s.hi/2 {
		return fmt.Sprintf("%s %.3g is at the edge of its range", name, value)
	}
	return ""
}

// gammaLearner learns D = 1/shape. With u = log y - s the score in the shape k is that of k (log k -
// ψ(k) - E[e^u - 1 - u]), and both moments of the tilted distribution follow from its first ones:
// α = k E[e^u - 1].
type gammaLearner struct {
	gamma
	scale
	logShape float64
}

func (l gamma) learner(rows int64) Learner {
	_, fall := gammaGap(l.shape)
	return &gammaLearner{l, newScale(1/l.shape, float64(rows), l.shape*fall, 1/mostSize, 1/MinShape), math.Log(l.shape)}
}

// score is that in log D of response y with these moments. α is the slope in s, not in u.
func (l *gammaLearner) score(y float64, t Tilted, m, v float64) float64 {
	u := math.Log(y) - m - v*t.Alpha
	gap, _ := gammaGap(l.shape)
	return t.Alpha - l.shape*u - l.shape*gap
}

// Learn implements Learner. A row has the information k² ψ'(k) - k about log k: 1 at 0, falling to
// 1/2.
func (l *gammaLearner) Learn(o Obs, t Tilted, m, v float64) {
	_, fall := gammaGap(l.shape)
	l.learn(o.Weight, l.score(o.Y, once(l, o, t, m, v), m, v), v*l.shape, l.shape*fall)
	l.refresh()
}

// once returns the moments of the row of o, which are t, with weight 1.
func once(l Likelihood, o Obs, t Tilted, m, v float64) Tilted {
	if o.Weight == 1 || !(o.Weight > 0) {
		return t
	}
	o.Weight = 1
	return l.Moments(o, m, v)
}

func (l *gammaLearner) refresh() { l.at(-math.Log(l.d)) }

// at sets the shape by its logarithm, from which a continued run has the same bits.
func (l *gammaLearner) at(logShape float64) {
	l.logShape, l.d = logShape, math.Exp(-logShape)
	l.shape = 1 / l.d
	l.peak = gammaPeak(l.shape)
}

// Kept implements Learner.
func (l *gammaLearner) Kept() (k KeptLearner, rows float64) {
	k = l.kept()
	k.At = l.logShape
	return k, l.rows
}

// Restore implements Learner.
func (l *gammaLearner) Restore(k KeptLearner, rows float64) {
	l.at(k.At)
	k.At = l.d
	l.restore(k, rows)
}

// Merge implements Learner.
func (l *gammaLearner) Merge(o Learner) [3]float64 {
	lambda := l.merge(&o.(*gammaLearner).scale)
	l.refresh()
	return lambda
}

// Recast does nothing: a shape has no unit.
func (l *gammaLearner) Recast(float64) {}

// CloneLearner implements Learner.
func (l *gammaLearner) CloneLearner() Learner { c := *l; return &c }

// Note implements Learner.
func (l *gammaLearner) Note() string { return l.note("shape", l.shape) }

// studentLearner learns the dispersion D. A scale family has log Z(e, v, D), e = y - m, whose slopes
// are bound by e ∂/∂e + 2v ∂/∂v + 2D ∂/∂D = -1, and ∂/∂v is half of α² - β, so that the score in
// log D is (eα - 1 - v (α² - β))/2.
type studentLearner struct {
	studentT
	scale
}

// mostDispersion and its inverse are the range of a dispersion in the first unit of the responses.
const mostDispersion = 1e16

func (l studentT) learner(rows int64) Learner {
	return &studentLearner{l, newScale(l.dispersion, float64(rows), l.each(), 1/mostDispersion, mostDispersion)}
}

// each is the information of a row about log D.
func (l studentT) each() float64 { return 0.5 * l.dof / (l.dof + 3) }

// score is that in log D of response y with these moments.
func (l *studentLearner) score(y float64, t Tilted, m, v float64) float64 {
	return 0.5 * ((y-m)*t.Alpha - 1 - v*(t.Alpha*t.Alpha-t.Beta))
}

// Learn implements Learner.
func (l *studentLearner) Learn(o Obs, t Tilted, m, v float64) {
	l.learn(o.Weight, l.score(o.Y, once(l, o, t, m, v), m, v), v*l.Information(), l.each())
	l.refresh()
}

func (l *studentLearner) refresh() { l.studentT = l.with(l.d) }

// Kept implements Learner.
func (l *studentLearner) Kept() (k KeptLearner, rows float64) { return l.kept(), l.rows }

// Restore implements Learner.
func (l *studentLearner) Restore(k KeptLearner, rows float64) {
	l.restore(k, rows)
	l.refresh()
}

// Merge implements Learner.
func (l *studentLearner) Merge(o Learner) [3]float64 {
	lambda := l.merge(&o.(*studentLearner).scale)
	l.refresh()
	return lambda
}

// Recast implements Learner.
func (l *studentLearner) Recast(ratio float64) {
	q := ratio * ratio
	l.d, l.believed, l.start.believed = l.d*q, l.believed*q, l.start.believed*q
	l.lo, l.hi = l.lo*q, l.hi*q
	l.refresh()
}

// CloneLearner implements Learner.
func (l *studentLearner) CloneLearner() Learner { c := *l; return &c }

// Note implements Learner.
func (l *studentLearner) Note() string { return l.note("dispersion", l.d) }

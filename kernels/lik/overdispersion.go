package lik

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/mathext"
)

// Overdispersion learns from counts, as a filter meets them, how much more they vary than a Poisson
// distribution of their expected rate allows: the size r of a negative binomial, whose variance is
// μ + μ²/r. A row whose predictor was N(m, v) before it came has the score
//
//	g = ∂ log Z/∂ log r = r E[ψ(y+r) - ψ(r) - log(1 + μ/r) + (μ-y)/(r+μ)],  μ = e^s
//
// with the expectation over s given y, and moves log r by g/Σi: the natural gradient, with the
// expected information i of the rows so far, which is as good as maximum likelihood once there are
// many.
//
// Without it counts that vary more than their distribution allows look like drifting rates.
type Overdispersion struct {
	logSize                  float64
	rows, info               float64 // info is Σ i
	past                     float64 // number of earlier rows, of which no more is known
	earlierRows, earlierInfo float64 // earlier rows, and their info, if known
	ratio, square            float64 // sums of (y-M)²/Var y under Poisson and of its square
	far                      OneStep
}

// FirstShape is the initial information about log r: a standard deviation of 1.5.
const FirstShape = 1 / (1.5 * 1.5)

const (
	firstInfo = FirstShape
	// poissonSize is where learning starts from a Poisson distribution, mostSize where it ends:
	// there is no difference from one in double precision.
	poissonSize = 10
	mostSize    = 1e8
)

// NewOverdispersion starts from a Poisson distribution, size 0, or from the size of a negbinomial
// that n rows have taught. Their information is not known, only their number: each counts for as
// much as later rows do on average.
func NewOverdispersion(size float64, n int64) *Overdispersion {
	l := math.Log(math.Min(size, mostSize))
	if !(size > 0) {
		l = math.Log(poissonSize)
	}
	return &Overdispersion{logSize: l, past: float64(n)}
}

// Learn absorbs a row whose predictor was N(m, v) before it came and returns its log predictive
// probability. Rows whose rate is not a finite number teach nothing.
func (d *Overdispersion) Learn(o Obs, m, v float64) (logZ float64) {
	t := negbinomial{size: d.Size(), logSize: d.logSize}.Moments(o, m, v)
	d.learn(o, t, m, v)
	return t.LogZ
}

// learn is Learn with the row's moments.
func (d *Overdispersion) learn(o Obs, t Tilted, m, v float64) {
	mean, spread, square := lognormal(m, v)
	if !(o.Weight > 0) || !(square < maxDispersion) || !(spread < maxDispersion) || !(mean > 0) {
		return
	}
	d.met(o, mean, spread)
	g := d.slope(o.Y, m, v, t)
	each := d.expected(m, v)
	d.info += o.Weight * each
	step := o.Weight * g / d.known()
	d.logSize = math.Min(math.Max(d.logSize+math.Min(math.Max(step, -1), 1), math.Log(MinShape)), math.Log(mostSize))
	if each > 0 { // rescale the information to the present size
		by := d.expected(m, v) / each
		d.info, d.earlierInfo = d.info*by, d.earlierInfo*by
	}
}

// Observe is Learn for Pearson only.
func (d *Overdispersion) Observe(o Obs, m, v float64) {
	mean, spread, _ := lognormal(m, v)
	if o.Weight > 0 && spread < maxDispersion && mean > 0 {
		d.met(o, mean, spread)
	}
}

func (d *Overdispersion) met(o Obs, mean, spread float64) {
	d.rows += o.Weight
	e := o.Y - mean
	z := e * (e / (mean + spread))
	d.ratio += o.Weight * z
	d.square += o.Weight * z * z
	d.far.add(o, mean, mean, spread, 1/mean, 1/mean, 1/(mean*mean))
}

// known returns the information about log r.
func (d *Overdispersion) known() float64 { return firstInfo + d.info*(1+d.past/d.rows) }

// Information returns that about log r, of the rows and the start.
func (d *Overdispersion) Information() float64 {
	if !(d.rows > 0) {
		return firstInfo
	}
	return d.known()
}

// slopeNodes is the five-point rule for a standard normal.
var slopeNodes = [...]struct{ x, w float64 }{{0, 8.0 / 15}, {1.3556261799742659, 0.22207592200561265}, {-1.3556261799742659, 0.22207592200561265},
	{2.8569700138728056, 0.011257411327720689}, {-2.8569700138728056, 0.011257411327720689}}

// slope returns g, by the nodes moved to the moments t of s given y.
func (d *Overdispersion) slope(y, m, v float64, t Tilted) float64 {
	r := d.Size()
	same := mathext.Digamma(y+r) - mathext.Digamma(r)
	if r > 1e3*(1+y) { // the difference, without loss of digits
		same = y/r - y*(y-1)/(2*r*r)
	}
	centre, sd := m+v*t.Alpha, math.Sqrt(v*t.Ratio)
	var logs, gs [len(slopeNodes)]float64
	top := math.Inf(-1)
	for k, n := range slopeNodes {
		s := centre + sd*n.x
		mu := math.Exp(s)
		log := math.Log1p(mu / r)
		logs[k] = math.Log(n.w) + y*s - (y+r)*log
		if v > 0 {
			logs[k] += 0.5 * (n.x*n.x - (s-m)*((s-m)/v))
		}
		gs[k] = r * (same - log + (mu-y)/(r+mu))
		top = math.Max(top, logs[k])
	}
	mass, sum := 0.0, 0.0
	for k := range gs {
		w := math.Exp(logs[k] - top)
		mass += w
		sum += w * gs[k]
	}
	return sum / mass
}

// expected returns the expected information about log r of a row whose predictor is N(m, v),
//
//	r² (ψ'(r) - E ψ'(y+r)) - r μ/(r+μ) = r ∫₀¹ (-log(1-pt) - pt)/t du,  t = 1 - u^(1/r),  p = μ/(r+μ),
//
// at μ = e^m: between 0 for a Poisson distribution and 1. A row whose predictor is uncertain has
// less, as for the variance of a normal distribution: by (1 + v i)² with the information i =
// rμ/(r+μ) about s.
//
// The square of the score has the same expectation at the truth, but far from it is thousands of
// times larger: a few rows would then make a wrong size seem known.
func (d *Overdispersion) expected(m, v float64) float64 {
	r := d.Size()
	q := r * math.Exp(-m)
	p := 1 / (1 + q)
	q *= p // 1 - p
	sum := 0.0
	for k, x := range sizeNodes.x {
		u := math.Log(x) / r
		t := -math.Expm1(u)
		switch z := p * t; {
		case z < 1e-4: // the difference would lose its digits
			sum += sizeNodes.w[k] * p * z * (0.5 + z/3)
		case z < 0.5:
			sum += sizeNodes.w[k] * (-math.Log1p(-z) - z) / t
		default: // and so would 1 - z
			sum += sizeNodes.w[k] * (-math.Log(max(q+p*math.Exp(u), math.SmallestNonzeroFloat64)) - z) / t
		}
	}
	known := 1 + v*r*p
	return r * sum / (known * known)
}

// sizeNodes are those of Gauss-Legendre on (0, 1), with which expected is accurate to 2 %; never
// written after start-up.
var sizeNodes = func() (t struct{ x, w [8]float64 }) {
	quad.Legendre{}.FixedLocations(t.x[:], t.w[:], 0, 1)
	return t
}()

// Size returns r.
func (d *Overdispersion) Size() float64 { return math.Exp(d.logSize) }

// Pearson returns the mean of (y-M)²/V over the rows, 1 if they vary as a Poisson distribution does,
// and its standard error.
func (d *Overdispersion) Pearson() (ratio, se float64) {
	ratio = d.ratio / d.rows
	return ratio, math.Sqrt(math.Max(d.square/d.rows-ratio*ratio, 0) / d.rows)
}

// Note returns OverdispersionNote for counts of l: for Pearson's ratio or, if its rows differ too
// much to bound that, as with a few unexpected ones, for a lower bound of it.
func (d *Overdispersion) Note(l Likelihood) string {
	ratio, se := d.Pearson()
	if note := OverdispersionNote(l, ofPredictions, ratio, (ratio-1)/se, 0); note != "" {
		return note
	}
	return d.far.Note(l)
}

// Pearson sums, at known predictors, how much more rows vary than their distribution allows.
//
// A rare count has a square of 1/mean: a few such rows make the ratio large by chance, and its
// standard error so large that it hides all others. Whether the ratio is clearly above 1 is decided
// by the squares times min(1, variance of the count), to which all rows with counts contribute
// equally and rare ones hardly anything.
type Pearson struct {
	Squares float64 // of Pearson residuals by weight: the weight, on average
	Weight  float64
	Several float64 // by weight the informative rows: all but those of one trial, whose variance is fixed

	Damped       float64 // the squares so multiplied,
	DampedWeight float64 // their expectation,
	Variance     float64 // their variance
	Third        float64 // and third central moment
}

// PearsonOf returns how rows of l are added to a Pearson; nil for distributions whose mean does not
// determine the variance, and for binary responses. s is the predictor of o, which may stand for
// pooled rows, with within from their Pooling.
func PearsonOf(l Likelihood) func(sum *Pearson, o Obs, s, rows, within float64) {
	poisson := l.Traits().Equidispersed
	if !poisson && !l.Traits().Trials {
		return nil
	}
	return func(sum *Pearson, o Obs, s, rows, within float64) {
		if o.Weight == 0 {
			return
		}
		// What a response is the mean of, and the standardised cumulants of its distribution: the
		// third, squared, the fourth and the sixth.
		size, mean, v := 1.0, l.Response(s), 0.0
		var k3, k4, k6 float64
		if v, k3, k4, k6 = mean, 1/mean, 1/mean, 1/(mean*mean); !poisson {
			size, v = o.Trials, mean*(1-mean)
			nv := size * v
			k3, k4, k6 = (1-4*v)/nv, (1-6*v)/nv, (1-30*v+120*v*v)/(nv*nv)
		}
		sum.Weight += o.Weight
		if poisson || size > 1 {
			sum.Several += o.Weight
		}
		d := o.Y/size - mean
		if v == 0 && d == 0 && within == 0 { // as predicted, to all digits
			return
		}
		square, a, each := (o.Weight*size*d*d+within)/v, min(size*v, 1), o.Weight/rows
		sum.Squares += square
		sum.Damped += a * square
		sum.DampedWeight += a * o.Weight
		sum.Variance += a * a * o.Weight * each * (2 + k4)
		sum.Third += a * a * a * o.Weight * each * each * (8 + 10*k3 + 12*k4 + k6)
	}
}

// Note returns OverdispersionNote for the rows, whose mean weights took the given degrees of
// freedom.
func (p *Pearson) Note(l Likelihood, taken float64) string {
	left := p.Weight - taken
	if !(left > 0) || !(p.Several > 0) || !(p.Variance > 0) {
		return ""
	}
	clear := (p.Damped - p.DampedWeight*left/p.Weight) / math.Sqrt(p.Variance)
	return OverdispersionNote(l, "", p.Squares/left, clear, p.Third/math.Pow(p.Variance, 1.5))
}

// A note is made if responses vary this much more than their distribution allows, which makes
// intervals a tenth too narrow, by that many standard errors.
const (
	overdispersed = 1.2
	clearly       = 4
)

// Overdispersed reports whether responses with this Pearson ratio, which are so many standard
// errors above what their distribution allows, by a sum of skewness skew, vary more than chance
// explains. To be as rare as that many of a normal distribution, a skew sum needs more of them
// (Cornish and Fisher).
func Overdispersed(ratio, errors, skew float64) bool {
	return ratio > overdispersed && errors > clearly+(clearly*clearly-1)/6*max(skew, 0) && !math.IsInf(ratio, 1)
}

// OverdispersionNote returns the sentence about responses of l that are Overdispersed, with of
// saying what their ratio is of; "" if they are not.
func OverdispersionNote(l Likelihood, of string, ratio, errors, skew float64) string {
	if !Overdispersed(ratio, errors, skew) {
		return ""
	}
	what, use := "counts", "family 'negbinomial' has overdispersion"
	if l.Traits().Trials {
		what, use = "successes", "a column of levels for what rows have in common allows for that"
	}
	return fmt.Sprintf("the %s vary %.3g times as much as %s allows (Pearson dispersion%s)%s: %s", what, ratio, l.Family(), of, tooSmall, use)
}

const tooSmall = ", so that the weights' standard deviations are too small"

// IsOverdispersionNote reports whether a sentence is from OverdispersionNote.
func IsOverdispersionNote(sentence string) bool {
	return strings.Contains(sentence, "(Pearson dispersion") && strings.Contains(sentence, tooSmall)
}

// Merge adds what o learnt from the same start.
func (d *Overdispersion) Merge(o *Overdispersion) {
	if o.rows == o.earlierRows {
		return
	}
	mine := firstInfo
	if d.rows > 0 {
		mine = d.known()
	}
	info := o.info - o.earlierInfo
	d.logSize = (mine*d.logSize + info*o.logSize) / (mine + info)
	d.rows += o.rows - o.earlierRows
	d.info += info
	d.ratio += o.ratio
	d.square += o.square
	d.far.merge(&o.far)
}

// State returns what the rows so far have taught, for Resume: the logarithm of r, their information
// about it and their number, by weight.
func (d *Overdispersion) State() (logSize, info, rows float64) { return d.logSize, d.info, d.rows }

// Resume continues where a run with this State ended.
func (d *Overdispersion) Resume(logSize, info, rows float64) {
	d.logSize, d.info, d.earlierInfo = math.Min(math.Max(logSize, math.Log(MinShape)), math.Log(mostSize)), info, info
	d.rows, d.earlierRows, d.past = rows, rows, 0
}

// Clone returns an independent copy.
func (d *Overdispersion) Clone() *Overdispersion { c := *d; return &c }

// Overdisperses reports whether l is for counts whose overdispersion can be learnt: Poisson's,
// which has none, and those with a size for it.
func Overdisperses(l Likelihood) bool {
	return l.Traits().Equidispersed || LearnsShape(l) && l.Traits().Counts
}

// Sized is negbinomial with a size that is learnt, by Spread.
type Sized struct {
	negbinomial
	Spread *Overdispersion
}

func (l negbinomial) learner(rows int64) Learner { return &Sized{l, NewOverdispersion(l.size, rows)} }

// Learn implements Learner.
func (l *Sized) Learn(o Obs, t Tilted, m, v float64) {
	l.Spread.learn(o, t, m, v)
	l.refresh()
}

func (l *Sized) refresh() {
	l.size, l.logSize = l.Spread.Size(), l.Spread.logSize
}

// Follow returns 1: most of the information of a count does not depend on the size.
func (l *Sized) Follow(float64) float64 { return 1 }

// Recast does nothing: a size has no unit.
func (l *Sized) Recast(float64) {}

// LogPrecision implements Learner.
func (l *Sized) LogPrecision() float64 { return l.Spread.Information() }

// Kept implements Learner.
func (l *Sized) Kept() (k KeptLearner, rows float64) {
	log, info, rows := l.Spread.State()
	return KeptLearner{At: log, Info: info}, rows
}

// Restore implements Learner.
func (l *Sized) Restore(k KeptLearner, rows float64) {
	l.Spread.Resume(k.At, k.Info, rows)
	l.refresh()
}

// Merge implements Learner.
func (l *Sized) Merge(o Learner) [3]float64 {
	l.Spread.Merge(o.(*Sized).Spread)
	l.refresh()
	return [3]float64{1, 1, 1}
}

// CloneLearner implements Learner.
func (l *Sized) CloneLearner() Learner { return &Sized{l.negbinomial, l.Spread.Clone()} }

// Note implements Learner.
func (l *Sized) Note() string {
	switch r := l.size; {
	case r >= mostSize/2:
		return fmt.Sprintf("shape %.3g is at the edge of its range: the counts vary no more than poisson has it", r)
	case r <= MinShape*2:
		return fmt.Sprintf("shape %.3g is at the edge of its range", r)
	}
	return ""
}

package lik

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/mathext"

	"github.com/bglm/bglm/kernels/special"
)

// Fixed tests on rows, of a stream or under a fit to them, whether a parameter that is not learnt
// fits them: the shape k of gamma, the size of negbinomial, and the dispersion D of studentt and
// gaussian. See NewFixed.
//
// gamma: y e^-s is G, gamma distributed with mean 1 and shape k, for which E[G - 1 - log G] = log k
// - ψ(k) =: f(k), which is decreasing. A predictor s ~ N(m, v) known before the row adds nothing to
// the mean of y e^(-m-v/2) - 1 - (log y - m). Rows have weight 1/(1+kv)²: if v is above 1/k they
// are informative about little but the predictor.
//
// studentt: with q = (y-m)²/(v+D) and ν degrees of freedom E[(ν+1) q/(νc+q)] is 1 at c = 1, and if
// the dispersion is c times D at that c: the sum decreases in c, and is kept on a grid.
//
// gaussian: (y-M)²/(V+D) has as its mean the factor of D, where the mean of the row, s or with link
// log e^s, had mean M and variance V before it came. Rows have weight 1/(1+V/D)². The beliefs are the
// same if the weight of a row is the inverse of its variance relative to a D that is known, so that
// D is not wrong if it fits (y-M)²/(V+D/w).
//
// negbinomial: for a rate of mean M, variance V and mean square S = M² + V before the row came, the
// mean of (y - M)² is M + V + S/k, k the size. Its deviation from that under the assumed size,
// which varies by the cumulants of the distribution, is regressed on V + S/k: if rates vary
// otherwise, so do the weights learnt from them.
type Fixed struct {
	w, squares float64 // the sums of the rows' weights and of their squares
	sum        float64 // gamma, negbinomial, gaussian
	at         []float64
	size       sizeSums
	inverse    inverseSums
	trials     *OneStep // binomial, which has no such parameter
}

// sizeSums are the further sums of negbinomial: the growth of sum with the factor of 1/k, and its
// variance and third central moment under the assumed size.
type sizeSums struct{ slope, variance, third float64 }

// inverseSums are the sums of gaussian if a row of weight w is one of variance D/w.
type inverseSums struct{ w, squares, sum float64 }

// fixedGrid is the size of studentt's grid of factors of the dispersion, 2^(k/2 - 10).
const fixedGrid = 41

func fixedFactor(k float64) float64 { return math.Exp2(0.5*k - 10) }

// NewFixed returns nil for other likelihoods.
func NewFixed(l Likelihood) *Fixed {
	switch l.(type) {
	case gamma, negbinomial, gaussian, gaussianLog:
		return &Fixed{}
	case binomial:
		return &Fixed{trials: &OneStep{}}
	case studentT:
		return &Fixed{at: make([]float64, fixedGrid)}
	}
	return nil
}

// Observe adds a row of l, in any fixed unit, whose predictor was N(m, v) before it came. A row of
// weight 3 counts as three.
func (f *Fixed) Observe(l Likelihood, o Obs, m, v float64) {
	if !(o.Weight > 0) {
		return
	}
	w := 1.0
	switch l := l.(type) {
	case gamma:
		w = 1 / (1 + l.shape*v)
		w *= w
		u := math.Log(o.Y) - m
		d := math.Exp(u-0.5*v) - 1 - u
		if !special.Finite(w * d) {
			return
		}
		f.sum += o.Weight * w * d
	case studentT:
		e := o.Y - m
		q := e * (e / (v + l.dispersion))
		for k := range f.at {
			f.at[k] += o.Weight * (l.dof + 1) / (l.dof*fixedFactor(float64(k))/q + 1)
		}
	case gaussian:
		if w = f.meetNormal(o, m, v, l.dispersion); w == 0 {
			return
		}
	case gaussianLog:
		mean, spread, _ := lognormal(m, v)
		if w = f.meetNormal(o, mean, spread, l.dispersion); w == 0 {
			return
		}
	case binomial:
		f.trials.meetTrials(l, o, m, v)
	case negbinomial:
		if w = f.meetSize(l, o, m, v); w == 0 {
			return
		}
	}
	f.w += o.Weight * w
	f.squares += o.Weight * w * w
}

// meetNormal is Observe for a response with the given mean and variance; it returns the row's
// weight.
func (f *Fixed) meetNormal(o Obs, mean, spread, dispersion float64) float64 {
	w := 1 / (1 + spread/dispersion)
	w *= w
	e := o.Y - mean
	d := w * e * (e / (spread + dispersion))
	if !special.Finite(d) {
		return 0
	}
	f.sum += o.Weight * d
	noise := dispersion / o.Weight
	u := 1 / (1 + spread/noise)
	u *= u
	if d = u * e * (e / (spread + noise)); special.Finite(d) {
		f.inverse.w, f.inverse.squares, f.inverse.sum = f.inverse.w+u, f.inverse.squares+u*u, f.inverse.sum+d
	}
	return w
}

// farSquare bounds the squared deviation of a count, in units of its variance: single unexpected
// rows, as before the filter has learnt its weights, must not determine the size.
const farSquare = 400

// meetSize is Observe for negbinomial; it returns the row's weight.
func (f *Fixed) meetSize(l negbinomial, o Obs, m, v float64) float64 {
	mean, spread, square := lognormal(m, v)
	a := 1 / l.size
	c := mean + spread + a*square
	if !(mean > 0) || !special.Finite(c*c) {
		return 0
	}
	r := (spread + a*square) / c
	w := 1 / (1 + spread/(c-spread)) // a row with a wide predictor is informative about little else
	w *= w
	d := (o.Y - mean) * ((o.Y - mean) / c)
	k3, k4, k6 := (1+4*a*c)/c, (1+6*a*c)/c, (1+30*a*c+120*a*c*(a*c))/c/c
	f.sum += o.Weight * w * r * (math.Min(d, farSquare) - 1)
	f.size.slope += o.Weight * w * r * r
	f.size.variance += o.Weight * (w * r) * (w * r) * (2 + k4)
	f.size.third += o.Weight * (w * r) * (w * r) * (w * r) * (8 + 10*k3 + 12*k4 + k6)
	return w
}

// Clone returns an independent copy.
func (f *Fixed) Clone() *Fixed {
	if f == nil {
		return nil
	}
	c := *f
	c.at = append([]float64(nil), f.at...)
	if f.trials != nil {
		own := *f.trials
		c.trials = &own
	}
	return &c
}

// Size returns the memory held, in bytes.
func (f *Fixed) Size() int64 {
	if f == nil {
		return 0
	}
	n := 128 + 8*int64(cap(f.at))
	if f.trials != nil {
		n += 40
	}
	return n
}

// Merge adds the rows of o.
func (f *Fixed) Merge(o *Fixed) {
	f.w, f.squares, f.sum = f.w+o.w, f.squares+o.squares, f.sum+o.sum
	for k := range o.at {
		f.at[k] += o.at[k]
	}
	if f.trials != nil {
		f.trials.merge(o.trials)
	}
	f.size.slope += o.size.slope
	f.size.variance += o.size.variance
	f.size.third += o.size.third
	f.inverse.w += o.inverse.w
	f.inverse.squares += o.inverse.squares
	f.inverse.sum += o.inverse.sum
}

// farthest bounds the factor of gamma: predictors that are wide relative to a large shape hide its
// size.
const farthest = 1000

// A parameter is reported not to fit from a factor of fixedFactorSaid, if that many rows, more than
// fixedRows, deviate so far by chance less than once in 30,000 times.
const (
	fixedFactorSaid = 1.25
	fixedErrors     = 4
	fixedRows       = 10
	skewErrors      = (fixedErrors*fixedErrors - 1) / 6.
)

// Estimate returns the factor by which the parameter is off, and by how many standard errors; ok is
// false for too few rows.
func (f *Fixed) Estimate(l Likelihood) (factor, errors float64, ok bool) {
	if f == nil || !(f.w*f.w > fixedRows*f.squares) {
		return 0, 0, false
	}
	n := f.w * f.w / f.squares
	switch l := l.(type) {
	case gamma:
		k := l.shape
		mean := f.sum / f.w
		gap, fall := gammaGap(k)
		variance := fall / k // of G - 1 - log G: ψ'(k) - 1/k
		if errors = math.Abs(mean-gap) / math.Sqrt(variance/n); mean > gap {
			errors -= skewErrors * gammaThird(k) / math.Pow(variance, 1.5) / math.Sqrt(n)
		}
		return math.Min(math.Exp(gammaShapeLog(mean))/k, farthest), errors, true
	case studentT:
		one := 20 // the factor 1
		variance := 2 * l.dof / (l.dof + 3)
		errors = math.Abs(f.at[one]/f.w-1) / math.Sqrt(variance/n)
		for k := range f.at {
			if r := f.at[k] / f.w; r < 1 {
				at := float64(k)
				if k > 0 {
					up := math.Log(f.at[k-1] / f.w)
					at -= math.Log(r) / (math.Log(r) - up)
				}
				return fixedFactor(at), errors, true
			}
		}
		return fixedFactor(fixedGrid - 1), errors, true
	case gaussian, gaussianLog:
		factor = f.sum / f.w
		return factor, squaresErrors(factor, n), true
	case negbinomial:
		z := &f.size
		errors = math.Abs(f.sum) / math.Sqrt(z.variance)
		if f.sum > 0 { // a skew sum is large by chance more often
			errors -= skewErrors * z.third / math.Pow(z.variance, 1.5)
		}
		return 1 / math.Max(1+f.sum/z.slope, 1./farthest), errors, true
	}
	return 0, 0, false
}

// squaresErrors returns by how many standard errors the mean of the squares of n normal deviates,
// whose sum is skew, differs from 1.
func squaresErrors(mean, n float64) float64 {
	errors := math.Abs(mean-1) * math.Sqrt(0.5*n)
	if mean > 1 {
		errors -= skewErrors * math.Sqrt(8/n)
	}
	return errors
}

// far reports whether a factor that is off by so many standard errors is reported.
func far(factor, errors float64) bool {
	return errors >= fixedErrors && (factor >= fixedFactorSaid || factor <= 1/fixedFactorSaid)
}

// inverseFits reports whether the dispersion of gaussian is right for rows whose weights are the
// inverses of their variances.
func (f *Fixed) inverseFits() bool {
	z := &f.inverse
	if !(z.w > 0) {
		return false
	}
	factor := z.sum / z.w
	return !far(factor, squaresErrors(factor, z.w*z.w/z.squares))
}

// gammaGap returns log k - ψ(k), and its decrease with log k: kψ'(k) - 1.
func gammaGap(k float64) (gap, fall float64) {
	if k > 1e3 { // the next terms are 1e-14 of these
		i := 1 / k
		return i * (1./2 + i*(1./12-i*i/120)), i * (1./2 + i*(1./6-i*i/30))
	}
	return math.Log(k) - mathext.Digamma(k), k*mathext.Zeta(2, k) - 1
}

// gammaThird returns the third central moment of G - log G: the second derivative of -ψ, less 1/k².
func gammaThird(k float64) float64 {
	if k > 1e3 { // the next term is 1e-6 of these
		return (1 + 0.5/k) / (k * k * k)
	}
	return 2*mathext.Zeta(3, k) - 1/(k*k)
}

// gammaShapeLog returns the log k at which log k - ψ(k) is f, by Newton's method in log k.
func gammaShapeLog(f float64) float64 {
	const least, most = 1e-4, 1e12
	if low, _ := gammaGap(least); !(f < low) {
		return math.Log(least)
	}
	if high, _ := gammaGap(most); !(f > high) {
		return math.Log(most)
	}
	x := math.Log((3 - f + math.Sqrt((f-3)*(f-3)+24*f)) / (12 * f)) // within 1.5 %
	for range 4 {
		gap, fall := gammaGap(math.Exp(x))
		x += (gap - f) / fall
	}
	return x
}

// Note returns "" or a sentence.
func (f *Fixed) Note(l Likelihood) string {
	if f != nil && f.trials != nil {
		return f.trials.Note(l)
	}
	other := "use a method that keeps the rows and learns it"
	if _, is := l.(gaussian); is {
		other = "'auto', which learns it"
	}
	return f.NoteWithin(l, 1, other)
}

// NoteWithin is Note for rows under a fit to them, with that part of their degrees of freedom, whose
// predictors Observe had without variance. other says what to do instead of giving the value.
//
// The residuals vary by at least that part of what they would around the truth.
func (f *Fixed) NoteWithin(l Likelihood, freedom float64, other string) string {
	factor, errors, ok := f.Estimate(l)
	if !ok {
		return ""
	}
	var name string
	var is, noise float64 // the noise varies with the parameter to this power
	switch l := l.(type) {
	case Dispersed: // studentt's degrees of freedom are its shape
		name, is, noise = "dispersion", l.Dispersion(), 1
	case Shaped:
		name, is, noise = "shape", l.Shape(), -1
	}
	wide := "narrow"
	if noise*math.Log(factor) < 0 {
		wide = "wide"
		less := factor
		if factor *= math.Pow(freedom, -noise); noise*math.Log(factor) >= 0 {
			return ""
		}
		errors *= math.Log(factor) / math.Log(less)
	}
	if !far(factor, errors) || f.inverseFits() {
		return ""
	}
	return fmt.Sprintf("%s %.3g%s%.3g: standard deviations and intervals are too %s; %s%s", name, is, disagrees, is*factor, wide, giveThat, other)
}

// IsFixedNote reports whether one of the sentences of a status is of NoteWithin.
func IsFixedNote(sentence string) bool {
	return strings.Contains(sentence, disagrees) || strings.HasPrefix(sentence, giveThat)
}

// The parts of the sentence of NoteWithin, which has two.
const (
	disagrees = " does not agree with the rows, which say about "
	giveThat  = "give that value, or "
)

package lik

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/special"
)

// Learning is the gaussian likelihood with a noise variance D that is learnt from the rows as a
// filter absorbs them, by a rule that does not depend on units. A row whose predictor was N(m, v)
// before it came teaches by its standardised innovation,
//
//	D' = D + ((1 - Δγ) D e²/(v + D/w) - (ν' - ν) D)/ν',  e = y - m,  ν = Σw - γ
//
// γ = Σ (1 - σ_j²/σ_0j²) is how many weights the data determine (MacKay), so ν is the degrees of
// freedom left for the noise: rows that determine a vague weight are not informative about D and do
// not count. A row of weight w teaches what w equal rows do: their successive innovations sum to the
// same term. The first row only sets the scale, from its innovation. With beliefs in units of D (see
// Learn) this is the update of the conjugate normal-inverse-gamma model.
//
// A weight that drifts (Drift) has a variance that does not scale with D: v is then more than D
// implies, and rows that mostly reveal their drift would change a D that began too small only by
// fractions of itself. The same holds for factorised weights that a row ties (Relax), whose v falls
// by a fraction of itself from row to row, however small D is. Then rows teach by Fisher scoring of
// their density N(e; 0, S), S = v + D,
//
//	D' = D + s/I,  s = (w - Δγ)(e² - S)/S²,  I = Σ (w - Δγ)/S²
//
// and the part of I from earlier rows follows D as if all had had one S: S' = S + D' - D, I' =
// ν/S'². D²I is the degrees of freedom then, ν if v is small compared with D. A row of weight w
// teaches as w rows that were each predicted on their own: for a predictor that stays uncertain,
// equal rows would imply that there is no noise.
//
// All of it follows from D, n and the beliefs, so a run continues from its fit. Unlike the other
// likelihoods it changes with Learn: each filter has its own, and Clone makes another.
type Learning struct {
	gaussian
	// Costly means that converting beliefs to another D costs O(p³): that is done less often.
	Costly bool
	// Drift means that predictors have a variance that D does not scale, from drift or from ties
	// that the beliefs do not keep.
	Drift bool
	// Steps means that beliefs follow only single steps of D, not the sum of smaller ones: for
	// weights that drift, rows count by the noise of their time, and if rows are absorbed only
	// approximately (see RaiseDispersion) the effect of the approximation on D would feed back.
	// Beliefs that do not follow D at all, and streams that began so, have it, too.
	Steps   bool
	due     bool // the latest row reached another multiple of the number of weights determined
	loose   bool // by ties (Relax)
	doubted bool // rows that tied weights taught D without Relax (MarkUncertain)

	rows  float64 // by weight, those of the start included
	rows0 float64 // at the start
	d0    float64

	// The D under which earlier rows count in the beliefs; small changes of D leave it as it is
	// until they add up.
	believed, believed0 float64

	squares float64 // Q, see Squares

	info, info0 float64 // with Drift: I now and at the start
}

// NewLearning returns the likelihood that starts at l's noise variance, learnt from n rows. With
// n = 0 nothing is learnt yet.
// Errors: a family other than gaussian with link identity.
func NewLearning(l Likelihood, n int64) (*Learning, error) {
	g, ok := l.(gaussian)
	if !ok {
		return nil, fmt.Errorf("dispersion = 'auto' is learnt row by row for gaussian with link identity; for %s with link %s take a method that keeps its rows", l.Family(), l.Link())
	}
	return &Learning{gaussian: g, rows: float64(n), rows0: float64(n), d0: g.dispersion, believed: g.dispersion, believed0: g.dispersion}, nil
}

// determined is the unit of Determined: sums of such integers do not depend on their order, so a
// continued run has exactly the sum of the uninterrupted one.
const determined = 1 << 30

// Determined returns how far the data determine a weight of prior variance v0 that has variance v
// now, 1 - v/v0 in [0, 1], in units of 2^-30.
func Determined(v, v0 float64) int64 {
	if r := v / v0; r < 1 {
		return int64(math.Round((1 - r) * determined))
	}
	return 0
}

// Weights returns γ for a count in units of Determined.
func Weights(known int64) float64 { return float64(known) / determined }

// A first row attributes LeastScale of the predictor's variance to the noise, because it cannot
// distinguish more from less, but what the innovation has beyond mostPrior variances of the
// predictor is certainly noise.
const (
	LeastScale = 1e-8
	mostPrior  = 100
)

// Begin sets the scale if nothing has before. A row without innovation and variance leaves D as it
// is. A loose one attributes LeastNoise of the variance to the noise, because later innovations are
// informative about D only if it is not far smaller.
func (g *Learning) Begin(o Obs, m, v float64) {
	if g.rows > 0 || !(o.Weight > 0) {
		return
	}
	e, least := o.Y-m, LeastScale
	if g.loose {
		least = LeastNoise
	}
	if d := math.Max(e*e-mostPrior*v, least*v); d > 0 && d <= maxDispersion {
		g.dispersion, g.believed = d, d
	}
}

// spared is the share of the rows that must remain beside the weights that they determine, and
// LeastNoise the part of a predictor's variance that is attributed to noise otherwise.
const (
	spared     = 0.1
	LeastNoise = 0.125
)

// RaiseDispersion raises D to share of v before a row, whose predictor has variance v, that a
// filter can only absorb approximately. While nearly as many weights are determined as rows came, D
// is a guess, and if it is far too small rows count as exact: the error of the approximation then
// stays forever. The same holds for rows by weight: light ones that determine more than they bring
// teach no D, and a heavy one after them would teach all of it. It returns λ as Learn does.
func (g *Learning) RaiseDispersion(o Obs, v, share, rows float64, known int64) float64 {
	least, n := share*v*o.Weight, math.Min(rows, g.rows)
	if g.Drift || n-float64(known)/determined >= spared*n || !(least > 2*g.dispersion) {
		return 1
	}
	g.due = false // otherwise it would be that of the previous row
	return g.set(least, known)
}

// Relax continues as with Drift, from what the rows so far have taught. v is the variance of the
// next predictor: a doubted D below LeastNoise of it is learnt anew.
func (g *Learning) Relax(known int64, v float64) {
	if g.loose {
		return
	}
	if g.doubted && g.dispersion < LeastNoise*v {
		g.rows, g.info = 0, 0
	}
	if nu := g.freedom(known); !g.Drift && g.info == 0 && nu > 0 {
		g.info = nu / g.dispersion / g.dispersion
	}
	g.Drift, g.loose = true, true
}

// Loose reports whether rows tied weights (Relax).
func (g *Learning) Loose() bool { return g.loose }

// MarkUncertain marks a continued fit in which rows that tied weights taught D without Relax, as in
// former versions: D may be far too small then.
func (g *Learning) MarkUncertain() { g.doubted = true }

// LogZ returns the log predictive density of a row whose predictor is N(m, v), with D integrated
// out: Student's t with ν degrees of freedom (at least 1), the normal density as ν grows; for a
// weight w that of w equal responses. known is γ, in units of Determined.
func (g *Learning) LogZ(o Obs, m, v float64, known int64) float64 {
	if !(o.Weight > 0) {
		return 0
	}
	noise := g.dispersion / o.Weight
	total := v + noise
	e := o.Y - m
	w, nu := o.Weight, math.Max(g.FreedomAt(v, o.Weight, known), 1)
	top, _ := math.Lgamma(0.5 * (nu + w))
	bottom, _ := math.Lgamma(0.5 * nu)
	logDet := math.Log(total)
	if w != 1 {
		logDet = w*math.Log(g.dispersion) + math.Log1p(v/noise)
	}
	return top - bottom - 0.5*(w*math.Log(nu*math.Pi)+logDet) - 0.5*(nu+w)*math.Log1p(e*(e/total)/nu)
}

func (g *Learning) freedom(known int64) float64 { return g.rows - float64(known)/determined }

// Freedom returns the degrees of freedom behind D, 0 before the first row.
func (g *Learning) Freedom(known int64) float64 { return g.FreedomAt(0, 1, known) }

// FreedomAt returns the degrees of freedom of the density of a row of the given weight whose
// predictor has variance v: only D is uncertain in v + D/w.
func (g *Learning) FreedomAt(v, weight float64, known int64) float64 {
	nu := math.Max(g.freedom(known), 0)
	if g.Drift {
		s := v*weight + g.dispersion
		return math.Min(nu, s*s*g.info)
	}
	return nu
}

// leastRatio is the smallest factor by which one row may change D.
const leastRatio = 1e-12

// Beliefs are converted to a new D when it has changed by a factor of leastChange or more. If that
// costs O(p³), dear raises the factor with the number of weights determined, to 1.5 for a thousand,
// except at rows that reach another multiple of that number.
const (
	leastChange = 1.05
	dear        = 1.0 / 2000
)

// Learn absorbs a row whose predictor was N(m, v) before it came, under Believed, by which the row
// counts, too (Count); before and after are γ without and with it, in units of Determined. It
// returns λ, the former Believed over D, 1 if that is close enough: the filter multiplies what the
// data have added to its precision by it, Λ' = Λ0 + λ(Λ - Λ0), so that early rows weigh as much as
// later ones. A row that would leave the variance not positive or not finite teaches nothing.
func (g *Learning) Learn(o Obs, m, v float64, before, after int64) float64 {
	if !(o.Weight > 0) {
		return 1
	}
	e := o.Y - m
	believed := g.dispersion / g.Count()
	taught := believed * (e / (v + believed/o.Weight)) * e
	if !g.Drift && special.Finite(taught) {
		g.squares += taught
	}
	nu := g.freedom(before)
	first, weights := g.rows == 0, math.Max(Weights(after), 1)
	from := math.Floor(g.rows / weights)
	g.rows += o.Weight
	g.due = math.Floor(g.rows/weights) > from
	next := g.freedom(after)
	if g.Drift {
		return g.score(o, m, v, next-nu, next, after, first)
	}
	gain := (next - nu) / next
	if first || !(next > 0) || !(gain > 0) && !(next >= 1) {
		return 1
	}
	d := 0.0
	if left := next - nu; gain > 0 {
		if o.Weight != 1 { // per degree of freedom
			taught *= math.Max(left+1-o.Weight, 0) / left
		}
		d = g.dispersion + math.Min(gain, 1)*(taught-g.dispersion)
	} else { // a row of small weight determines more than it brings
		d = g.dispersion + (math.Max(left+1-o.Weight, 0)*taught-left*g.dispersion)/next
	}
	return g.set(math.Max(d, leastRatio*g.dispersion), after)
}

// score is Learn with Drift; left is how many degrees of freedom the row adds, to next.
func (g *Learning) score(o Obs, m, v, left, next float64, known int64, first bool) float64 {
	d := g.dispersion
	s := v + d
	info := left / s / s
	if !(info > 0) || math.IsInf(info, 1) || !(next > 0) {
		return 1
	}
	g.info += info
	if first {
		return 1
	}
	e := o.Y - m
	now := math.Max(d+left*(e/s*(e/s)-1/s)/g.info, leastScored*d)
	now = math.Max(now, math.Min(d, leastKnown*math.Sqrt(2/g.info)))
	if !(now <= maxDispersion) {
		return 1
	}
	typical := math.Max(math.Sqrt(next/g.info)+(now-d), now)
	g.info = next / typical / typical
	return g.set(now, known)
}

// leastScored is the smallest factor by which one row may change D with Drift, and leastKnown the
// least D in units of its own standard deviation: if drift is far larger than the noise, rows only
// show that the noise is small.
const (
	leastScored = 0.5
	leastKnown  = 0.01
)

// set sets the variance to d and returns λ.
func (g *Learning) set(d float64, known int64) float64 {
	if !(d > 0 && d <= maxDispersion) {
		return 1
	}
	ratio := g.believed / d
	if g.Steps || g.Drift {
		ratio = g.dispersion / d
	}
	g.dispersion = d
	least := leastChange
	if g.Costly && !g.due {
		least = math.Max(least, 1+dear*float64(known)/determined)
	}
	if ratio < least && ratio > 1/least {
		return 1
	}
	g.believed = d
	return ratio
}

// maxDispersion keeps its square finite.
const maxDispersion = 1e150

// fewFreedom is the degrees of freedom below which Student's 95 % quantile is more than 1.6 times
// the normal one, which predictions from a fit use.
const fewFreedom = 3

// Note returns "" or a sentence: without a degree of freedom left D is a guess, with few of them
// intervals are too narrow. dispersion is D in the unit of the responses.
func (g *Learning) Note(known int64, dispersion float64) string {
	nu, weights := g.freedom(known), float64(known)/determined
	switch {
	case !(g.rows > 0) || nu >= fewFreedom:
		return ""
	case nu < 1:
		return fmt.Sprintf("dispersion %.3g is a guess: the rows determine %.3g weights and leave less than one degree of freedom to learn it from", dispersion, weights)
	}
	return fmt.Sprintf("dispersion %.3g rests on %.2g degrees of freedom, all that the rows leave beside %.3g weights: intervals are too narrow", dispersion, nu, weights)
}

// Recast converts the variance to responses in another unit, of ratio times the numbers.
func (g *Learning) Recast(ratio float64) {
	q := ratio * ratio
	g.dispersion *= q
	g.d0 *= q
	g.believed, g.believed0 = g.believed*q, g.believed0*q
	g.squares *= q
	g.info, g.info0 = g.info/q/q, g.info0/q/q
}

// Squares returns the weighted sum of the rows' squares about the mean of the weights, Q: with exact
// beliefs Q/D + (μ - μ0)ᵀ Λ0 (μ - μ0) grows by e²/(v + D/w) with a row. Learn adds D times that; the
// caller, who knows the weights, subtracts D times the growth of the second term (AddSquares).
func (g *Learning) Squares() float64 { return g.squares }

// AddSquares adds to Squares.
func (g *Learning) AddSquares(more float64) { g.squares += more }

// Due reports whether Relearn, which costs as much as all weights, is worthwhile after a row that
// left the beliefs as they were: the innovations add up to Squares only if the prior is right.
func (g *Learning) Due() bool { return g.due }

// Relearn must be called when the beliefs were converted to another D, after which they determine
// known instead of before: D then is By or, with few degrees of freedom, rescaled to the new ν. It
// returns λ as Learn does.
func (g *Learning) Relearn(before, known int64, least float64) float64 {
	nu, was := g.freedom(known), g.freedom(before)
	if !(nu >= 1 && was >= 1) {
		return 1
	}
	if nu < leastBy {
		return g.set(g.dispersion*was/nu, known)
	}
	return g.set(g.By(g.squares, known, least), known)
}

// leastBy is the number of degrees of freedom from which D is computed from squares.
const leastBy = 3

// By returns D from the squares q, Q/ν, but at least least unless D is already lower; with few
// degrees of freedom it returns D as it is.
func (g *Learning) By(q float64, known int64, least float64) float64 {
	nu := g.freedom(known)
	if d := math.Max(q/nu, math.Min(least, g.dispersion)); nu >= leastBy && d > 0 && d <= maxDispersion {
		return d
	}
	return g.dispersion
}

// Information returns I with Drift, otherwise 0.
func (g *Learning) Information() float64 { return g.info }

// Rows returns the number of rows, by weight.
func (g *Learning) Rows() float64 { return g.rows }

// Believed returns the D under which earlier rows count in the beliefs; with Steps, that of the
// last step.
func (g *Learning) Believed() float64 { return g.believed }

// Count returns the weight under Believed of a row of weight 1 under D.
func (g *Learning) Count() float64 {
	if g.Steps || g.Drift {
		return 1
	}
	return g.dispersion / g.believed
}

// Resume starts at the variance d, in the present unit of the responses, that the given rows, by
// weight, have taught, with their I if there is drift; they count in the beliefs under believed.
func (g *Learning) Resume(d, believed, rows, info float64) {
	g.dispersion, g.d0 = d, d
	g.believed, g.believed0 = believed, believed
	g.info, g.info0 = info, info
	g.rows, g.rows0 = rows, rows
}

// ResumeLoose is Resume's addition for rows that tied weights (Relax) and have said nothing about D.
func (g *Learning) ResumeLoose() { g.Drift, g.loose = true, true }

// Clone returns an independent copy.
func (g *Learning) Clone() *Learning { c := *g; return &c }

// Merge adds what o learnt since the common start and returns the λ by which the beliefs of g, of o
// and of the start are converted to the common variance. known are the γ of the three. Call
// Disagree after merging the beliefs.
func (g *Learning) Merge(o *Learning, known [3]int64) (λ [3]float64) {
	da, db := g.dispersion, o.dispersion
	a, b := g.freedom(known[0]), o.freedom(known[1])
	start := g.rows0 - float64(known[2])/determined
	if g.Drift || o.Drift {
		g.Relax(known[0], 0)
		o = o.Clone()
		o.Relax(known[1], 0)
		g.pool(o)
		return [3]float64{1, 1, 1}
	}
	own, other, from := g.believed, o.believed, g.believed0
	if g.Steps = g.Steps || o.Steps; g.Steps {
		own, other, from = da, db, g.d0
	}
	d, believed := da, own
	switch {
	case o.rows == o.rows0:
	case g.rows == g.rows0:
		d, believed = db, other
	default:
		a, b = math.Max(a, 1e-9), math.Max(b, 1e-9)
		d = (a*da + b*db) / (a + b)
		if start > 0 {
			least := 0.1 * math.Min(da, db)
			if exact := (a*da + b*db - start*g.d0) / (a + b - start); exact > least && a+b > start {
				d = exact
			}
		}
		believed = d
	}
	g.dispersion, g.believed = d, believed
	g.rows += o.rows - o.rows0
	return [3]float64{own / believed, other / believed, from / believed}
}

// pool is Merge with Drift, which leaves the beliefs as they are.
func (g *Learning) pool(o *Learning) {
	own, other := math.Max(g.info-g.info0, 0), math.Max(o.info-o.info0, 0)
	if all := g.info0 + own + other; all > 0 {
		d := (g.info0*g.d0 + own*g.learnt() + other*o.learnt()) / all
		if d > 0 && d <= maxDispersion {
			g.dispersion, g.info = d, all
		}
	}
	g.rows += o.rows - o.rows0
}

// learnt returns the D of the rows since the start alone.
func (g *Learning) learnt() float64 {
	own := g.info - g.info0
	if !(own > 0) {
		return g.dispersion
	}
	return math.Max((g.info*g.dispersion-g.info0*g.d0)/own, leastScored*g.dispersion)
}

// Disagree absorbs the squared distance of two merged beliefs, in units of their covariance, which
// neither learnt; parts is the sum of their γ, less that of the start, and known that of the
// product. It returns λ as Learn does.
func (g *Learning) Disagree(distance float64, parts, known int64) float64 {
	g.due = false
	nu := g.freedom(known)
	gain := float64(parts-known) / determined / nu
	if g.Drift || !(nu > 0) || !(gain > 0) {
		return 1
	}
	return g.set(g.dispersion*(1+math.Min(gain, 1-leastRatio)*(math.Max(distance, 0)*determined/float64(parts-known)-1)), known)
}

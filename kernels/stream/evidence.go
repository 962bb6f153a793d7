package stream

import (
	"math"
	"sync"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// The log evidence of a stream is the sum of the log predictive densities of its rows. If the noise
// D is learnt, the first rows are scored under a guess of it, and their effect changes with D and
// the units: such a sum is some ten nats too low, more with more weights, by an amount that the
// order of the first few rows decides. A form that keeps the correlations of all weights instead
// has the evidence of all rows under the last D and the last units,
//
//	log p(y | D) = -½ (n log 2πD + log |Λ|/|Λ0| + Q/D + F),  F = (μ - μ0)ᵀ Λ0 (μ - μ0)
//
// which is what laplace has at its dispersion, and what parts of the rows have together. Q, the sum
// of squares at μ, is updated recursively: each row adds e²/(v + D/w) to Q/D + F. Other changes of
// the weights change it, too. If D becomes D' and the weights move by Δ to the optimum under D',
//
//	Q' = Q + ½ (D + D')(F - F') - ½ (D' - D) Δᵀ Λ0 Δ
//
// by the conditions of both optima; if the prior changes, Q changes by what p(y | D) gains.

// squares is what a member keeps of Q and F in addition to lik.Learning.
type squares struct {
	whole bool    // its evidence is computed from Q and F
	far   float64 // F when Q was last brought up to date
	q0    float64 // Q at the start
}

// distances are two sets of means in standard deviations of their priors.
type distances struct{ a, b []float64 }

var apart = sync.Pool{New: func() any { return new(distances) }}

// wholeForm returns the form of belief k if its evidence is computed from Q and F, else nil.
func (s *State) wholeForm(k int) Whole {
	if g := s.bank[k].learning; g == nil || !g.squares.whole || g.Drift {
		return nil
	}
	return s.form.(Whole)
}

// far returns F of belief k, whose evidence is computed from Q and F.
func (s *State) far(k int) float64 {
	d := apart.Get().(*distances)
	defer apart.Put(d)
	d.a = s.wholeForm(k).Apart(k, d.a[:0])
	return dense.Dot(d.a, d.a)
}

// change applies a change of belief k other than by a row, and updates Q: the weights move from the
// optimum under noise then to that under now. do returns the log evidence gained by a change of the
// prior under unchanged noise, NaN for other changes.
func (s *State) change(k int, then, now float64, do func() float64) {
	form := s.wholeForm(k)
	if form == nil {
		do()
		return
	}
	d := apart.Get().(*distances)
	defer apart.Put(d)
	g := s.bank[k].learning
	d.a = form.Apart(k, d.a[:0])
	before := dense.Dot(d.a, d.a)
	g.AddSquares(-then * (before - g.squares.far))
	logDet := 0.0
	if then == now {
		logDet = form.Gain(k)
	}
	gain := do()
	d.b = form.Apart(k, d.b[:0])
	g.squares.far = dense.Dot(d.b, d.b)
	switch {
	case then != now:
		moved := 0.0
		for j, x := range d.b {
			moved += (x - d.a[j]) * (x - d.a[j])
		}
		g.AddSquares(0.5*(then+now)*(before-g.squares.far) - 0.5*(now-then)*moved)
	case special.Finite(gain):
		g.AddSquares(now * (before - g.squares.far - 2*gain - (form.Gain(k) - logDet)))
	}
}

// noiseInForce is the noise that belief k rests on, 0 if none is learnt.
func (s *State) noiseInForce(k int) float64 {
	if g := s.bank[k].learning; g != nil {
		return g.Believed()
	}
	return 0
}

// begin decides whether the evidence of belief k is computed from Q and F, and initialises Q.
func (s *State) begin(k int) {
	g, f := s.bank[k].learning, s.plan.Model.Start
	if g == nil || !s.plan.noise || s.plan.Drifts {
		return
	}
	q, far, kept := f.Kept(kernels.KeptSquares)
	if _, ok := s.form.(Whole); !ok || f != nil && !kept { // its evidence may be of another kind
		return
	}
	g.squares = squares{true, far, q}
	g.AddSquares(q)
}

// knowsNoise reports whether the noise of belief k has a degree of freedom and is no mere guess.
func (s *State) knowsNoise(k int) bool { return s.bank[k].learning.Freedom(s.form.Known(k)) >= 1 }

// updateEvidence updates Q and F to the rows so far.
func (s *State) updateEvidence(k int) {
	g := s.bank[k].learning
	q, far := s.squares(k)
	g.AddSquares(q - g.Squares())
	g.squares.far = far
}

// exactly reports whether what the form of belief k keeps is exact up to rounding.
func (s *State) exactly(k int) bool {
	form := s.wholeForm(k)
	return form != nil && !form.Nearly() && !s.bank[k].learning.Steps
}

// noise returns D of belief k as estimated from all rows.
func (s *State) noise(k int) float64 {
	g := s.bank[k].learning
	if !s.exactly(k) {
		return g.Dispersion()
	}
	q, _ := s.squares(k)
	known := s.form.Known(k)
	return g.By(q, known, s.least(k, known))
}

// relearn updates the noise of belief k, which determined before, from the current squares.
func (s *State) relearn(k int, before int64) (lambda float64) {
	known := s.form.Known(k)
	return s.bank[k].learning.Relearn(before, known, s.least(k, known))
}

// mostGain is how much log |Λ| may gain per determined weight, on average: four digits of the
// prior's part are left then.
const mostGain = 12 * math.Ln10

// least is the noise at which belief k reaches mostGain, 0 if no weight is determined.
func (s *State) least(k int, known int64) float64 {
	g := s.bank[k].learning
	if known <= 0 {
		return 0
	}
	return g.Believed() * math.Exp(s.wholeForm(k).Gain(k)/lik.Weights(known)-mostGain)
}

// squares returns Q and F of belief k.
func (s *State) squares(k int) (q, far float64) {
	g := s.bank[k].learning
	far = s.far(k)
	return g.Squares() - g.Believed()*(far-g.squares.far), far
}

// mergeBelief replaces belief k by its product with that of o, and updates Q: at the common mean
// Q/D is larger by the squared distances from both, less their part of F, which product returns.
func (s *State) mergeBelief(k int, o *State, product func() (apart float64, err error)) (apart float64, err error) {
	if s.wholeForm(k) == nil || o.wholeForm(k) == nil {
		return product()
	}
	own, _ := s.squares(k)
	other, _ := o.squares(k)
	if apart, err = product(); err != nil {
		return 0, err
	}
	g := s.bank[k].learning
	g.AddSquares(own + other - g.squares.q0 + g.Believed()*apart - g.Squares())
	g.squares.far = s.far(k)
	return apart, nil
}

// whole is the log evidence of belief k from what its form keeps. From the believed noise D to its
// noise d, log |Λ| changes by log d/D per determined weight and all else to second order.
func (s *State) whole(k int) float64 {
	g := s.bank[k].learning
	d := s.noise(k)
	q, far := s.squares(k)
	gain := s.wholeForm(k).Gain(k)
	if s.exactly(k) {
		gain -= lik.Weights(s.form.Known(k)) * math.Log(d/g.Believed())
	}
	return -0.5 * (g.Rows()*(math.Log(2*math.Pi*d)+2*math.Log(s.units.responses())) + gain + q/d + far)
}

// score returns the log density of the rows of the summary as belief k predicted each. If prior
// variances are learnt, it is a share of the evidence under the last ones: early rows met others.
func (s *State) score(k int) float64 {
	b := &s.bank[k]
	if s.responses == nil || !s.plan.Model.Options.AutoPrior || s.wholeForm(k) == nil || !s.knowsNoise(k) {
		return b.score
	}
	return s.evidence(k) * s.responses.w / b.learning.Rows()
}

// evidence returns the log evidence of belief k.
func (s *State) evidence(k int) float64 {
	if s.wholeForm(k) != nil && s.knowsNoise(k) {
		if z := s.whole(k); special.Finite(z) {
			return z
		}
	}
	return s.bank[k].logZ
}

// mostRescales is how often D may follow what beliefs under it determine; changes shrink fast.
const mostRescales = 8

// rescale scales belief k to its noise, by lambda, then the noise to what the belief determines.
func (s *State) rescale(k int, lambda float64) {
	if !s.plan.noise {
		return
	}
	form, g := s.wholeForm(k), s.bank[k].learning
	if lambda == 1 && g.Due() && s.exactly(k) {
		s.updateEvidence(k)
		lambda = s.relearn(k, s.form.Known(k))
	}
	for i := 0; lambda != 1; i++ {
		before := int64(0)
		if form != nil {
			before = s.form.Known(k)
		}
		d := g.Believed()
		s.change(k, lambda*d, d, func() float64 {
			s.form.Rescale(k, lambda)
			return math.NaN()
		})
		if form == nil || i == mostRescales || g.Steps {
			return
		}
		s.form.Determined(k)
		lambda = s.relearn(k, before)
	}
}

// doubts raises the noise of belief k, and reports whether it did, if the form would absorb a row
// only approximately and the weights leave it almost no noise.
func (s *State) doubts(k int, o lik.Obs, v float64) bool {
	f, ok := s.form.(Approximate)
	if !ok {
		return false
	}
	share, g := f.Approximates(), s.bank[k].learning
	if share == 0 {
		return false
	}
	g.Steps = g.Steps || share >= lik.LeastNoise
	lambda := g.RaiseDispersion(o, v, share, float64(s.told), s.form.Known(k))
	s.rescale(k, lambda)
	return lambda != 1
}

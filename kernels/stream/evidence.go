package stream

import (
	"math"
	"sync"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// The log evidence of a stream is the sum of the log densities of its rows, each before it was learnt.
// Where a noise D is learnt the first rows are told under a guess of it, and what came of them is
// changed with D and with the units: such a sum is some ten nats too low, more with more weights,
// by an amount that the order of few rows decides. A form that keeps the ties of all weights has the
// evidence of all rows under the last D and the last units instead,
//
//	log p(y | D) = -½ (n log 2πD + log |Λ|/|Λ0| + Q/D + F),  F = (μ - μ0)ᵀ Λ0 (μ - μ0)
//
// which is what laplace has at its dispersion, and what parts of the rows have together. Q, the sum
// of squares at μ, follows from row to row: Q/D + F gains e²/(v + D/w) with each. It changes with what else
// happens to the weights. Where D becomes D' and they move by Δ to the optimum under that,
//
//	Q' = Q + ½ (D + D')(F - F') - ½ (D' - D) Δᵀ Λ0 Δ
//
// as both optima say, and where the prior changes by what p(y | D) gains.

// squares is what a member keeps of Q and F beside lik.Learning.
type squares struct {
	whole bool    // its evidence is told by them
	far   float64 // F as of when Q was brought up to date
	q0    float64 // Q at the start
}

// distances are two sets of means in deviations of their priors.
type distances struct{ a, b []float64 }

var apart = sync.Pool{New: func() any { return new(distances) }}

// wholly is the form of belief k where it says the evidence, else nil.
func (s *State) wholly(k int) Whole {
	if g := s.bank[k].learning; g == nil || !g.squares.whole || g.Drift {
		return nil
	}
	return s.form.(Whole)
}

// far is F of belief k, whose form says the evidence.
func (s *State) far(k int) float64 {
	d := apart.Get().(*distances)
	defer apart.Put(d)
	d.a = s.wholly(k).Apart(k, d.a[:0])
	return dense.Dot(d.a, d.a)
}

// change does what changes belief k other than by a row, and brings Q along: the weights come from
// the optimum under the noise then to that under now. do returns the log evidence that another
// prior has gained under one noise, NaN for other changes.
func (s *State) change(k int, then, now float64, do func() float64) {
	form := s.wholly(k)
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

// believed is the noise that belief k is under, 0 where none is learnt.
func (s *State) believed(k int) float64 {
	if g := s.bank[k].learning; g != nil {
		return g.Believed()
	}
	return 0
}

// begin says whether the evidence of belief k is told by its form, and what Q begins with.
func (s *State) begin(k int) {
	g, f := s.bank[k].learning, s.plan.Model.Start
	if g == nil || !s.plan.noise || s.plan.Drifts {
		return
	}
	q, far, kept := f.Kept(kernels.KeptSquares)
	if _, ok := s.form.(Whole); !ok || f != nil && !kept { // its evidence may be another
		return
	}
	g.squares = squares{true, far, q}
	g.AddSquares(q)
}

// knowsNoise says that the noise of belief k is no guess: that is some evidence of its own else.
func (s *State) knowsNoise(k int) bool { return s.bank[k].learning.Freedom(s.form.Known(k)) >= 1 }

// bring has Q and F as of the rows so far.
func (s *State) bring(k int) {
	g := s.bank[k].learning
	q, far := s.squares(k)
	g.AddSquares(q - g.Squares())
	g.squares.far = far
}

// exactly says that what the form of belief k keeps is what the rows say, to rounding.
func (s *State) exactly(k int) bool {
	form := s.wholly(k)
	return form != nil && !form.Nearly() && !s.bank[k].learning.Steps
}

// noise is D of belief k as all rows say it.
func (s *State) noise(k int) float64 {
	g := s.bank[k].learning
	if !s.exactly(k) {
		return g.Dispersion()
	}
	q, _ := s.squares(k)
	known := s.form.Known(k)
	return g.By(q, known, s.least(k, known))
}

// relearn has the noise of belief k, which determined before, follow from the squares as of now.
func (s *State) relearn(k int, before int64) (lambda float64) {
	known := s.form.Known(k)
	return s.bank[k].learning.Relearn(before, known, s.least(k, known))
}

// mostGain is how much, on average, a weight that is determined may gain of log Λ: of what the prior says
// four digits are left.
const mostGain = 12 * math.Ln10

// least is the noise under which belief k gains as much, 0 where no weight is determined.
func (s *State) least(k int, known int64) float64 {
	g := s.bank[k].learning
	if known <= 0 {
		return 0
	}
	return g.Believed() * math.Exp(s.wholly(k).Gain(k)/lik.Weights(known)-mostGain)
}

// squares is Q of belief k, and F.
func (s *State) squares(k int) (q, far float64) {
	g := s.bank[k].learning
	far = s.far(k)
	return g.Squares() - g.Believed()*(far-g.squares.far), far
}

// united does what makes belief k its product with that of o, and brings Q along: at the common mean
// Q/D is more by the squared distances from both, less what they say of F, which come back.
func (s *State) united(k int, o *State, product func() (apart float64, err error)) (apart float64, err error) {
	if s.wholly(k) == nil || o.wholly(k) == nil {
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

// whole is the log evidence of belief k by what the form keeps, at its noise: log |Λ|, under the noise that
// is believed, changes by as many weights as are determined, all else by squares of the difference.
func (s *State) whole(k int) float64 {
	g := s.bank[k].learning
	d := s.noise(k)
	q, far := s.squares(k)
	gain := s.wholly(k).Gain(k)
	if s.exactly(k) {
		gain -= lik.Weights(s.form.Known(k)) * math.Log(d/g.Believed())
	}
	return -0.5 * (g.Rows()*(math.Log(2*math.Pi*d)+2*math.Log(s.units.responses())) + gain + q/d + far)
}

// evidence is the log evidence of belief k.
func (s *State) evidence(k int) float64 {
	if s.wholly(k) != nil && s.knowsNoise(k) {
		if z := s.whole(k); special.Finite(z) {
			return z
		}
	}
	return s.bank[k].logZ
}

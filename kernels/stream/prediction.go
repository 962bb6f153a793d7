package stream

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// Linear computes mean and variance of the linear predictor of each row of b in the present state,
// drift up to the row's time included, for predictions before the rows are learnt. The beliefs are
// not changed.
func (s *State) Linear(b *kernels.Batch, mean, variance []float64) error {
	if err := s.Grow(); err != nil {
		return err
	}
	defer s.rest()
	if before := s.counted; b.Schema != nil && b.Schema != before.Schema() { // gaps need the columns before the first row
		s.counted.Add(&kernels.Batch{Schema: b.Schema})
		defer func() { s.counted = before }()
	}
	if b.Schema.Numbers() && s.bare() {
		b = s.filled(b)
	}
	if s.units != nil {
		return s.linearIn(b, mean, variance)
	}
	return s.linear(b, mean, variance)
}

func (s *State) linear(b *kernels.Batch, mean, variance []float64) error {
	at := func(i int) float64 {
		switch {
		case !s.plan.Model.HasTime:
			return s.clock + 1
		case len(b.Time) > 0:
			return b.Time[i]
		}
		return s.clock
	}
	return s.form.Linear(s.Best(), b, s.clock, at, mean, variance)
}

// Prediction is what a state predicts for a row before learning it: a predictor N(Mean, Variance)
// and the likelihood of its response.
type Prediction struct {
	lik.Likelihood
	Mean, Variance float64
	// Blind reports that the unit of the responses is not known yet: fewer than two different
	// responses came.
	Blind bool
}

// From normalFrom degrees of freedom on the normal distribution replaces Student's t: their 95 %
// quantiles differ by 0.2 %.
const normalFrom = 1000

// Predict returns the prediction for the single row of b.
//
// With a learnt dispersion D the response has a Student's t distribution, D integrated out, with
// the degrees of freedom ν of D, at least one (lik.Learning). Below two, D is mostly what the first
// row left, near zero, so the variance of the responses so far makes up for the missing degrees.
// The precision that the rows have added to the weights is as uncertain as a small D.
func (s *State) Predict(b *kernels.Batch) (f Prediction, err error) {
	var m, v [1]float64
	if err := s.Linear(b, m[:], v[:]); err != nil {
		return f, err
	}
	f = Prediction{Likelihood: s.likelihoodSnapshot(), Mean: m[0], Variance: v[0]}
	var y *response
	if s.units != nil {
		y = s.units.y
	}
	learn := s.bank[s.Best()].learning
	given := learn == nil && !s.plan.unitNoise
	if f.Blind = y != nil && !given && y.Scale == 0; f.Blind || learn == nil || !s.plan.noise {
		return f, nil
	}
	unit := s.units.responses()
	known := s.form.Known(s.Best())
	nu := learn.FreedomAt(f.Variance/unit/unit, 1, known)
	if few := float64(s.told) - learn.Rows() + learn.Freedom(known); few < 2 {
		nu = math.Min(nu, math.Max(few, 0))
	}
	if nu > normalFrom {
		return f, nil
	}
	d := f.Likelihood.(lik.Dispersed).Dispersion()
	if y != nil && nu < 2 {
		more := 0.5 * (nu*d + (2-nu)*y.Scale*y.Scale)
		f.Variance = s.widened(b, f.Variance, d/more)
		d = more
	}
	t, err := lik.New("studentt", "identity", lik.Params{Dispersion: d + f.Variance, Shape: math.Max(nu, 1)})
	if err != nil { // outside the range of floating-point numbers
		return f, nil
	}
	f.Likelihood, f.Variance = t, 0
	return f, nil
}

// likelihoodSnapshot returns a snapshot of Likelihood, which later rows do not change.
func (s *State) likelihoodSnapshot() lik.Likelihood {
	switch l := s.Likelihood().(type) {
	case lik.Learner:
		return l.CloneLearner()
	case *lik.Learning:
		return l.Clone()
	default:
		return l
	}
}

// widened is the variance v of a predictor after what the rows have added to its precision is
// multiplied by lambda.
func (s *State) widened(b *kernels.Batch, v, lambda float64) float64 {
	fs, xs := b.Entries(0)
	fs, xs, _ = s.standardiseRow(fs, xs, false)
	prior := 0.0
	for e, id := range fs {
		x := xs[e]
		if k := s.units.at[id]; k >= 0 && s.units.cols[k].how == Raw {
			x = s.units.cols[k].unit.of(x)
		}
		prior += x * x * s.plan.Fresh(s.dict, int(id)).Variance
	}
	q := s.units.responses()
	if prior *= q * q; !(v < prior) {
		return v
	}
	return 1 / (1/prior + lambda*(1/v-1/prior))
}

// LogEvidence is the log evidence of the best belief so far.
func (s *State) LogEvidence() float64 { return s.bank[s.Best()].logZ }

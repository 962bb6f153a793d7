package stream

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// Prediction is what a state expects of a row that it has not learnt: a predictor N(Mean, Variance)
// and the likelihood of its response.
type Prediction struct {
	lik.Likelihood
	Mean, Variance float64
	// Blind says that nothing is known yet of the unit of the responses: fewer than two
	// different ones came.
	Blind bool
}

// Beyond normalFrom degrees of freedom Student's law is not told from the normal one: a quantile
// of 95 % by 0.2 %.
const normalFrom = 1000

// Predict is what is expected of the one row of b.
//
// With a dispersion D that is learnt the law of the response is Student's, D integrated out, of
// the degrees of freedom ν that D rests on, one at least (lik.Learning). Below two D is mostly
// what the first row left it, near nothing, so that the missing ones are made up by the variance of
// the responses so far. What the rows say of the weights is as sure as that D is small.
func (s *State) Predict(b *kernels.Batch) (f Prediction, err error) {
	var m, v [1]float64
	if err := s.Linear(b, m[:], v[:]); err != nil {
		return f, err
	}
	f = Prediction{Likelihood: s.asNow(), Mean: m[0], Variance: v[0]}
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
	if err != nil { // beyond the numbers there are
		return f, nil
	}
	f.Likelihood, f.Variance = t, 0
	return f, nil
}

// asNow is Likelihood, which rows to come do not change.
func (s *State) asNow() lik.Likelihood {
	switch l := s.Likelihood().(type) {
	case *lik.Sized:
		return l.Clone()
	case *lik.Learning:
		return l.Clone()
	default:
		return l
	}
}

// widened is a predictor's variance v where what the rows have added to its precision counts
// lambda times.
func (s *State) widened(b *kernels.Batch, v, lambda float64) float64 {
	fs, xs := b.Entries(0)
	fs, xs, _ = s.tell(fs, xs, false)
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

// LogEvidence is that of the best belief so far.
func (s *State) LogEvidence() float64 { return s.bank[s.Best()].logZ }

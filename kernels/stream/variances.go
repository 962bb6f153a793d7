package stream

import "slices"

// LearnsFrom is the number of rows from which prior variances are learnt.
const LearnsFrom = 16

// learnsAt reports whether prior variances are learnt after n rows: at powers of two and one and a
// half times these, because rows are absorbed under the beliefs of their time.
func learnsAt(n int64) bool {
	return n >= LearnsFrom && (n&(n-1) == 0 || n%3 == 0 && (n/3)&(n/3-1) == 0)
}

// learnPriors makes the form learn the prior variances, unless responses of a location family were
// all equal: the unit of the variances is not known then.
func (s *State) learnPriors() {
	if s.units != nil && s.units.y != nil && s.units.y.unit.Scale == 0 {
		return
	}
	own := s.form.(PriorLearner)
	if !s.exactly(0) {
		_ = s.changeVariances(func() (float64, error) { return own.LearnPriors(s.told), nil })
		return
	}
	// Few rows leave two answers: wide weights without noise, and noise without weights.
	v, second := own.SecondStart(s.told)
	trial := *s
	if second {
		trial.form, _ = s.form.Clone(s.dict, nil)
		trial.bank = slices.Clone(s.bank)
		trial.bank[0].learning = s.plan.cloneLearning(s.bank[0].learning)
	}
	s.learnWithNoise()
	if !second {
		return
	}
	if err := trial.changeVariances(func() (float64, error) { return trial.form.(PriorLearner).SetVariance(v) }); err != nil {
		return
	}
	trial.followNoise()
	trial.learnWithNoise()
	if trial.merit() > s.merit() {
		s.form, s.bank[0] = trial.form, trial.bank[0]
	}
}

// merit is the log posterior of prior variances and noise.
func (s *State) merit() float64 { return s.whole(0) + s.form.(PriorLearner).LogPrior() }

// learnWithNoise lets the prior variances follow the noise, and the noise the variances.
func (s *State) learnWithNoise() {
	for range mostAlternations {
		moved := 0.0
		_ = s.changeVariances(func() (float64, error) {
			moved = s.form.(PriorLearner).LearnPriors(s.told)
			return moved, nil
		})
		if moved == 0 {
			return
		}
		s.followNoise()
	}
}

// followNoise learns the noise anew, under the present prior variances.
func (s *State) followNoise() {
	s.updateEvidence(0)
	s.rescale(0, s.relearn(0, s.form.Known(0)))
}

// mostAlternations is how often the noise may follow prior variances and these the noise.
const mostAlternations = 10

// changeVariances applies a change of the prior variances, which do returns the log evidence of.
func (s *State) changeVariances(do func() (logZ float64, err error)) (err error) {
	d, gain := s.noiseInForce(0), 0.0
	s.change(0, d, d, func() float64 {
		gain, err = do()
		return gain
	})
	if s.given() { // as in recast
		s.bank[0].logZ += gain
		if s.plan.Exact {
			s.bank[0].score += gain
		}
	}
	if s.bank[0].learning != nil {
		s.form.Determined(0)
	}
	return err
}

// shareVariances gives s and src, a copy if there are units, the prior variances of their product. It
// returns src, or a copy of it.
func (s *State) shareVariances(src *State, g *Merging) (*State, error) {
	if !s.plan.Model.Options.AutoPrior || !g.Brought {
		return src, nil
	}
	own := s.form.(PriorLearner)
	if !g.Seen { // what s has of the fit continued is src's, too
		if _, err := own.ShareVariances(src.form, true); err != nil {
			return nil, err
		}
		if s.wholeForm(0) != nil {
			s.bank[0].learning.squares.far = s.far(0)
		}
		return src, nil
	}
	if err := s.changeVariances(func() (float64, error) { return own.ShareVariances(src.form, false) }); err != nil {
		return nil, err
	}
	if s.units == nil { // otherwise it is a copy in common units
		src = src.Clone()
	}
	return src, src.changeVariances(func() (float64, error) { return src.form.(PriorLearner).ShareVariances(s.form, false) })
}

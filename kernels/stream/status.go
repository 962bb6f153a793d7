package stream

import (
	"fmt"

	"github.com/bglm/bglm/kernels"
)

// priorsNote is the note on priors of single features that the continued fit was given and does not
// keep, if they are needed again: forgetting returns weights to their priors, and a change of a
// weight's unit removes its prior and adds it anew.
func (s *State) priorsNote() string {
	m := s.plan.Model
	_, moving, given := m.Start.Kept(kernels.KeptPriors)
	if !given || len(m.Priors)+len(m.PriorBy) > 0 || s.n == 0 || !m.Forgets() && !(moving > 0 && s.moved) {
		return ""
	}
	return "the fit that this one continues was given priors of single features or columns, which a fit does not keep: weights went back to the default prior instead; give the option again"
}

// constant returns the unit of the responses if they have all been the same and their scale is
// learnt; nil otherwise.
func (s *State) constant() *response {
	if s.units == nil || s.units.y == nil || s.units.y.N == 0 || s.units.y.Scale > 0 || !s.plan.Learns && !s.plan.unitNoise {
		return nil
	}
	return s.units.y
}

func (s *State) status(f *kernels.Fit, k int) (status string) {
	b := &s.bank[k]
	say := func(is bool, sentence string, args ...any) {
		if is {
			status = kernels.Join(status, fmt.Sprintf(sentence, args...))
		}
	}
	say(s.late > 0, "%d %s came before the time already reached: no drift was applied for %s", s.late, kernels.Inflect(s.late, "row", "rows"), kernels.Inflect(s.late, "it", "them"))
	if conflict := b.conflict > kernels.MaxConflict; conflict {
		say(true, "parts fitted apart (by several threads or over parts of a window, in no common order) were merged and disagree by up to %.0f standard deviations: log_evidence is not reliable", b.conflict)
	} else {
		say(s.merged > 0 && s.plan.Drifts, "parts fitted apart (by several threads or over parts of a window, in no common order) were merged: with drift the answer is approximate")
	}
	say(s.cut > 0, "%d %s cut at %d on the linear predictor, where one linearisation does not reach", s.cut, kernels.Inflect(s.cut, "step was", "steps were"), MaxStep)
	say(s.sure > 0, "%d %s ended over %d of %s own standard deviations from the mode of %[4]s row, whose response was far from its prediction: beliefs are too certain there, while adf has the exact moments of such rows", s.sure, kernels.Inflect(s.sure, "step", "steps"), MaxLeft, kernels.Inflect(s.sure, "its", "their"))
	if y := s.constant(); y != nil {
		status = kernels.Join(status, kernels.ConstantNote(y.Center))
	} else if b.learning != nil {
		status = kernels.Join(status, b.learning.Note(s.form.Known(k), f.Dispersion))
	}
	// Predictors are as wide for the first rows of any stream, but not for a quarter of few rows up to
	// the last one, if these determine the weights.
	say(s.told <= kernels.VagueRows && s.vague > 0 && 4*int64(s.vague) >= s.told, "%d or more of %d rows, up to the last ones, had a linear predictor of standard deviation above %v before they were learnt: %s", s.vague, s.told, kernels.Vague, kernels.VagueMeaning)
	if b.counts() != nil {
		status = kernels.Join(status, b.counts().note(s.plan.Model.Lik))
	}
	if b.learner() != nil && s.constant() == nil {
		status = kernels.Join(status, b.learner().Note())
	}
	if _, bad := s.responses.worseThanMean(f, s.plan, s.dict.Len(), s.score(k)); !bad || s.plan.linear || s.plan.answers.trials || s.plan.answers.heavy || s.plan.Model.Lik.Traits().Gaussian { // otherwise it is the weights that fit badly
		status = kernels.Join(status, s.fixed.Note(s.Likelihood()))
	}
	status = kernels.Join(status, s.standsNote(k))
	status = kernels.Join(status, s.form.Status(k))
	if len(s.bank) > 1 {
		status = kernels.Join(status, kernels.NoiseStatus(s.plan.Rates[k], s.plan.Rates))
	}
	return kernels.Join(status, "")
}

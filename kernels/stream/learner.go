package stream

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// scored is what a member learns from its rows besides its weights and the noise of gaussian ones.
type scored struct {
	learner *learner    // of a parameter learnt by scores; nil for none
	counts  *countScore // nil for families other than counts
}

// newScored returns nil if a member learns nothing of that kind.
func (p *Plan) newScored() (*scored, error) {
	l, err := p.newLearner()
	if err != nil {
		return nil, err
	}
	c := p.newCountScore(l)
	if l == nil && c == nil {
		return nil, nil
	}
	return &scored{l, c}, nil
}

func (p *Plan) cloneScored(o *scored) *scored {
	if o == nil {
		return nil
	}
	l := p.cloneLearner(o.learner)
	return &scored{l, o.counts.clone(l)}
}

func (b *member) learner() *learner {
	if b.scored == nil {
		return nil
	}
	return b.scored.learner
}

func (b *member) counts() *countScore {
	if b.scored == nil {
		return nil
	}
	return b.scored.counts
}

// learner is a member's own likelihood, with a parameter that its rows teach, and the rule bound to
// it.
type learner struct {
	lik.Learner
	up    Update
	exact bool // the rule has the moments of the rows
}

// scores reports whether a parameter is learnt by a lik.Learner: a shape, or the dispersion of
// responses with heavy tails in their unit.
func (p *Plan) scores() bool { return p.Model.Options.AutoShape || p.unitNoise }

// newLearner returns nil if no parameter is learnt by scores.
func (p *Plan) newLearner() (*learner, error) {
	if !p.scores() {
		return nil, nil
	}
	m, of, f := p.Model, p.Model.Lik, p.Model.Start
	if _, err := lik.NewLearner(of, 0); err != nil {
		return nil, err
	}
	what, same := kernels.KeptShape, f != nil && f.Shape == of.(lik.Shaped).Shape()
	if p.unitNoise {
		d := of.(lik.Dispersed).Dispersion()
		what, same = kernels.KeptNoise, f != nil && f.Dispersion == d
		of = lik.WithDispersion(of, m.Params, d/(p.startUnit*p.startUnit))
	}
	at, info, kept := f.Kept(what)
	n := trainingRows(f)
	if p.unitNoise && !kept { // a stream of an older version learnt nothing but the unit
		n = 0
	}
	l, err := lik.NewLearner(of, n)
	if err != nil {
		return nil, err
	}
	if kept && same {
		k := lik.KeptLearner{At: at, Info: info}
		k.Believed, k.Raised, _ = f.Kept(kernels.KeptBelieved)
		_, taught := f.TrainingRows()
		l.Restore(k, taught)
	}
	return p.bound(l), nil
}

// bound returns l with the rule bound to it.
func (p *Plan) bound(l lik.Learner) *learner {
	up := p.ruleFor(l)
	_, is := up.(exact)
	return &learner{l, up, is}
}

func (p *Plan) cloneLearner(l *learner) *learner {
	if l == nil {
		return nil
	}
	return p.bound(l.CloneLearner())
}

// vague reports whether the rows hardly say what the parameter is.
func (l *learner) vague() bool { return l != nil && l.LogPrecision() < knownFrom }

// knownFrom is the precision of the logarithm of a known parameter: that of some ten rows of studentt.
const knownFrom = 4

// learnParameter lets the learner of belief k absorb a row, the update of whose belief was r, and
// the belief follow it.
func (s *State) learnParameter(k int, o lik.Obs, r *met) {
	l := s.bank[k].learner()
	if l == nil || !(o.Weight > 0) || s.units != nil && s.units.y != nil && s.units.y.unit.Scale == 0 {
		return
	}
	t := r.t
	if !l.exact {
		t = l.Moments(o, r.m, r.v)
	}
	l.Learn(o, t, r.m, r.v)
	if s.plan.Drifts { // earlier rows weigh less and less in any case
		return
	}
	if lambda := l.Follow(s.leastFollow()); lambda != 1 {
		s.form.Rescale(k, lambda)
	}
}

// Beliefs follow a change of the parameter by leastFollowed or more; for forms that take O(p³), by up
// to half with their number of weights.
const (
	leastFollowed = 1.05
	dearFollowed  = 1.0 / 2000
	mostFollowed  = 1.5
)

func (s *State) leastFollow() float64 {
	if !s.plan.costly {
		return leastFollowed
	}
	return math.Min(math.Max(leastFollowed, 1+dearFollowed*float64(s.dict.Len())), mostFollowed)
}

// inUnitOf returns the likelihood of responses whose unit has this scale.
func (l *learner) inUnitOf(scale float64) lik.Likelihood {
	if scale == 1 {
		return l.Learner
	}
	c := l.CloneLearner()
	c.Recast(scale)
	return c
}

// mergeLearner adds what o learnt to l, and returns the factors by which the data's part of both
// beliefs and of their start are multiplied.
func (s *State) mergeLearner(l, o *learner) (scale [3]float64) {
	if scale = l.Merge(o.Learner); s.plan.Drifts {
		return [3]float64{1, 1, 1}
	}
	return scale
}

package stream

import (
	"fmt"

	"github.com/bglm/bglm/kernels/lik"
)

// countScore is what one belief predicted of the counts before they came.
//
// With automatic process noise it decides between the rates. Weights that may drift fast enough
// explain any overdispersed counts one by one; beliefs then follow the noise, and expected counts
// grow without bound. So the beliefs compete by score, the log probability of the counts under the
// overdispersion that each belief has met: drift has to predict better than that.
type countScore struct {
	*lik.Overdispersion
	sized *lik.Sized // whose Overdispersion it is; nil: the shape is not learnt
	score float64
	rows  int64
	wide  int64 // rows after the first ones (first) whose predictor had a standard deviation above widest
}

// newCountScore returns nil for families other than counts and, if nothing is learnt or chosen, for
// those with overdispersion of their own. l is the member's learner.
func (p *Plan) newCountScore(l *learner) *countScore {
	t := p.Model.Lik.Traits()
	if l != nil {
		if sized, ok := l.Learner.(*lik.Sized); ok {
			return &countScore{Overdispersion: sized.Spread, sized: sized}
		}
	}
	if l != nil || !lik.Overdisperses(p.Model.Lik) || len(p.Rates) == 1 && !t.Equidispersed {
		return nil
	}
	return &countScore{Overdispersion: lik.NewOverdispersion(0, 0)}
}

// clone returns a copy for a member whose learner is l.
func (c *countScore) clone(l *learner) *countScore {
	if c == nil {
		return nil
	}
	d := *c
	if c.sized != nil {
		d.sized = l.Learner.(*lik.Sized)
		d.Overdispersion = d.sized.Spread
	} else {
		d.Overdispersion = c.Clone()
	}
	return &d
}

// learn absorbs a row whose predictor was N(m, v) before it came, and had the log density logZ;
// choosing reports whether beliefs compete.
func (c *countScore) learn(o lik.Obs, m, v, logZ float64, choosing bool) {
	if c.rows++; c.rows > first && v > widest*widest {
		c.wide++
	}
	switch {
	case c.sized != nil: // which learns by itself
		c.score += logZ
	case choosing:
		c.score += c.Learn(o, m, v)
	default:
		c.Observe(o, m, v)
	}
}

func (c *countScore) merge(o *countScore) {
	c.score += o.score
	c.rows += o.rows
	c.wide += o.wide
	if c.sized == nil {
		c.Merge(o.Overdispersion)
	}
}

// A note counts the rows after the first ones whose predictor was so wide that package predict caps
// their expected counts, if they are one in wideOf or more: a column that begins to vary late, as a
// flag of what is new, has one until its effect is learnt.
const (
	first  = 100
	widest = 4
	wideOf = 50
)

// note returns the status sentence, or "".
func (c *countScore) note(l lik.Likelihood) string {
	if wideOf*c.wide > c.rows {
		return fmt.Sprintf("%d rows had a linear predictor of standard deviation above %d: their expected counts are capped at two of them above the median", c.wide, widest)
	}
	if c.sized != nil || !l.Traits().Equidispersed {
		return ""
	}
	return c.Overdispersion.Note(l)
}

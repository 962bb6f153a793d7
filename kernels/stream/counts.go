package stream

import (
	"fmt"

	"github.com/bglm/bglm/kernels/lik"
)

// spread is what one belief predicted of the counts before they came.
//
// With automatic process noise it decides between the rates. Weights that may drift fast enough
// explain any overdispersed counts one by one; beliefs then follow the noise, and expected counts
// grow without bound. So the beliefs compete by score, the log probability of the counts under the
// overdispersion that each belief has met: drift has to predict better than that.
type spread struct {
	*lik.Overdispersion
	score float64
	rows  int64
	wide  int64      // rows after the first ones (first) whose predictor had a standard deviation above widest
	sized *lik.Sized // nil: the shape is not learnt
	up    Update     // the rule for sized
}

// newSpread returns nil for families other than counts and, if nothing is learnt or chosen, for
// those with overdispersion of their own.
func (p *Plan) newSpread() (*spread, error) {
	m := p.Model
	if m.Options.AutoShape {
		n := int64(0)
		if m.Start != nil {
			n = m.Start.N
		}
		l, err := lik.NewSized(m.Lik, n)
		if err != nil {
			return nil, err
		}
		resumeShape(l, m)
		return p.sized(l), nil
	}
	if !lik.Overdisperses(m.Lik) || len(p.Rates) == 1 && !m.Lik.Traits().Equidispersed {
		return nil, nil
	}
	return &spread{Overdispersion: lik.NewOverdispersion(0, 0)}, nil
}

func (p *Plan) sized(l *lik.Sized) *spread {
	own := *p.Model
	own.Lik = l
	up, err := p.rule.Bind(&own)
	if err != nil { // the same options bound before
		panic(err)
	}
	return &spread{Overdispersion: l.Spread, sized: l, up: up}
}

func (p *Plan) cloneSpread(c *spread) *spread {
	switch {
	case c == nil:
		return nil
	case c.sized != nil:
		d := p.sized(c.sized.Clone())
		d.score, d.rows, d.wide = c.score, c.rows, c.wide
		return d
	}
	return &spread{Overdispersion: c.Clone(), score: c.score, rows: c.rows, wide: c.wide}
}

// learn absorbs a row whose predictor was N(m, v) before it came; choosing reports whether beliefs
// compete.
func (c *spread) learn(o lik.Obs, m, v float64, choosing bool) {
	if c.rows++; c.rows > first && v > widest*widest {
		c.wide++
	}
	switch {
	case c.sized != nil:
		c.score += c.sized.Learn(o, m, v)
	case choosing:
		c.score += c.Learn(o, m, v)
	default:
		c.Observe(o, m, v)
	}
}

func (c *spread) merge(o *spread) {
	c.score += o.score
	c.rows += o.rows
	c.wide += o.wide
	if c.sized != nil {
		c.sized.Merge(o.sized)
		return
	}
	c.Merge(o.Overdispersion)
}

// A note counts the rows after the first ones whose predictor was so wide that package predict caps
// their expected counts.
const (
	first  = 100
	widest = 4
)

// note returns the status sentence, or "".
func (c *spread) note(l lik.Likelihood) string {
	if c.wide > 0 {
		return fmt.Sprintf("%d rows had a linear predictor of standard deviation above %d: their expected counts are capped at two of them above the median", c.wide, widest)
	}
	if c.sized != nil {
		return c.sized.Note()
	}
	if !l.Traits().Equidispersed {
		return ""
	}
	return c.Overdispersion.Note(l)
}

package stream

import "github.com/bglm/bglm/kernels"

// Clone returns an independent copy.
func (s *State) Clone() *State { return s.CloneTo(nil) }

// CloneTo is Clone in the memory of old. old is nil or another clone of s, or of the state that s
// is a clone of, that is no longer read: groups that are made, read and discarded one after the
// other then share one place.
func (s *State) CloneTo(old *State) *State {
	d := s.dict
	if s.copied {
		d = d.Copy()
	}
	return s.cloneTo(old, d)
}

// cloneTo is CloneTo with dictionary d.
func (s *State) cloneTo(old *State, d *kernels.Dict) *State {
	var was State
	if old != nil && old.plan == s.plan && len(old.bank) == 1 {
		was = *old
	} else {
		old = nil
	}
	form, c := s.form.Clone(d, was.form)
	if c == nil {
		c = old
	}
	*c = *s
	c.form, c.dict, c.units, c.means, c.fixed = form, d, s.units.clone(was.units), s.means.clone(), s.fixed.Clone()
	c.counted = s.counted.CloneTo(was.counted)
	c.responses = s.responses.clone()
	c.bank = append(c.one[:0], s.bank...)
	for k := range c.bank {
		if b := &c.bank[k]; b.learning != nil {
			b.learning = s.plan.cloneLearning(b.learning)
		}
		c.bank[k].scored = s.plan.cloneScored(c.bank[k].scored)
	}
	c.rows()
	return c
}

// Size is the memory held in bytes.
func (s *State) Size() int64 {
	n := s.form.Size() + s.units.size() + s.means.size()
	if s.copied {
		n += s.dict.Size()
	}
	if len(s.bank) > 1 || s.plan.Learns || s.bank[0].scored != nil {
		n += 200 * int64(len(s.bank))
	}
	if s.responses != nil {
		n += responseSummarySize + s.responses.crosses.size() + s.responses.stands.size()
	}
	n += s.fixed.Size()
	return n
}

package stream

import (
	"math"

	"github.com/bglm/bglm/kernels"
)

// tick moves the clock to row i of b, whose features are fs, and lets the weights drift up to it.
func (s *State) tick(b *kernels.Batch, i int, fs []uint32) error {
	p := s.plan
	from, t := s.clock, s.clock+1
	switch {
	case p.Model.HasTime:
		t = b.Time[i]
		if t < s.clock {
			s.late++ // a late row causes no drift
			t = s.clock
		}
	case math.IsNaN(t):
		t = 0
	}
	first := math.IsNaN(s.clock)
	if first {
		s.begun = t
	}
	s.clock = t
	if !p.Drifts {
		return nil
	}
	if first { // the named weights start to drift with the first row
		s.form.Begin(t)
	}
	return s.form.Drift(from, t, fs)
}

// together returns the clock of both states and when it began. Rows without time continue the
// count: src comes after s, and s drifts through its rows.
func (s *State) together(src *State) (clock, begun float64) {
	clock, begun = s.clock, s.begun
	switch m := s.plan.Model; {
	case math.IsNaN(clock):
		return src.clock, src.begun
	case math.IsNaN(src.clock):
	case m.HasTime:
		return max(clock, src.clock), min(begun, src.begun)
	case s.plan.Drifts:
		clock += src.clock - src.begun
		if f := m.Start; f == nil || f.N == 0 { // a fresh run begins at its first row
			clock++
		}
	}
	return clock, begun
}

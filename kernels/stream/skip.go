package stream

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/stop"
)

// retreat is a copy of a state before rows that may turn out to be bad. Units, means, the clock and
// drift move before a row is known to be good, and what they did has no inverse to the last bit.
// Copies are made where they cost little beside the rows: of all rows of a batch if the state is
// small beside it, otherwise of rows that may be bad.
type retreat struct {
	copy  *State // nil if there is none
	spare *State // memory for the next
	from  int    // the first row that copy is before
	whole bool
}

// smallBeside is the size of a state for each row of a batch up to which copies cost little.
const smallBeside = 256

// retreat returns the way back from bad rows of b.
func (s *State) retreat(b *kernels.Batch) retreat {
	return retreat{whole: s.plan.slow || s.Size() <= smallBeside*int64(b.Len())}
}

// before makes a copy before row i of b if there is to be one.
func (r *retreat) before(s *State, b *kernels.Batch, i int) {
	switch {
	case r.whole && r.copy != nil:
		return
	case !r.whole && r.copy != nil: // the row before was good
		r.spare, r.copy = r.copy, nil
	}
	if !r.whole && !s.risky(b, i) {
		return
	}
	if g, err := s.form.Reserve(1, "rows that may be left out"); err == nil {
		g.Release()
		r.copy, r.from, r.spare = s.cloneTo(r.spare, s.dict), i, nil
	}
}

// back brings s to where it was before row i of b, which is bad.
func (r *retreat) back(s *State, halt *stop.Stop, b *kernels.Batch, i int) {
	c := r.copy
	if c == nil {
		return
	}
	r.copy = nil
	s.rest()
	if *s = *c; len(s.bank) == 1 {
		s.bank = s.one[:]
	}
	if halt != nil {
		s.form.Under(halt)
	}
	for j := r.from; j < i; j++ {
		if s.row(b, j) != nil { // it was bad before, and changed nothing
			s.leaveOut(b, j)
		}
	}
}

// leaveOut counts row i of b as left out.
func (s *State) leaveOut(b *kernels.Batch, i int) {
	s.skipped++
	s.counted.Remove(b, i, s.dict)
}

// Rows beyond these may be bad: numbers in standard deviations of their column, and numbers, offsets
// and drift as they are.
const (
	farthestNumber = 64
	farthestBare   = 1e4
	farthestOffset = 100
	farthestY      = 1e50
)

// risky reports whether row i of b may be bad although its response is possible.
func (s *State) risky(b *kernels.Batch, i int) bool {
	o := b.Obs(i)
	if !(math.Abs(b.Shift(i)) < farthestOffset && math.Abs(o.Y) < farthestY && o.Weight < farthestBare) {
		return true
	}
	if p := s.plan; p.Drifts && p.Model.HasTime {
		if dt := b.Time[i] - s.clock; dt*p.fastest() > farthestBare || p.Model.Forgets() && dt > farthestBare {
			return true
		}
	}
	fs, xs := b.Entries(i)
	for e, id := range fs {
		x, most := xs[e], float64(farthestBare)
		if s.units != nil && int(id) < len(s.units.at) && s.units.at[id] >= 0 {
			c := &s.units.cols[s.units.at[id]]
			if x -= c.Center; c.Scale > 0 {
				most = farthestNumber * c.Scale
			} else { // its unit begins with this number
				most = farthestY
			}
		}
		if math.Abs(x) > most {
			return true
		}
	}
	return false
}

// fastest is the largest rate of random-walk variance.
func (p *Plan) fastest() float64 {
	most := p.Rates[len(p.Rates)-1]
	for _, q := range p.Model.NoiseBy {
		most = max(most, q)
	}
	return most
}

package stream

import "slices"

const (
	// lead is by how many nats the log evidence of a rate must exceed that of its neighbours to be
	// clearly better: it then has more than nine tenths of the posterior over them.
	lead = 3
	// patience is how many rows precede any extension of the grid: the first ones show how wrong
	// the prior is, not how weights move, and small groups have ten filters and no more.
	patience = 100
	// farthest is the factor by which the rates may go beyond the grid on either side.
	farthest = 1e8
)

// Best is the index of the belief of largest log evidence, or of largest score for counts and
// learnt noise; of the least drift among equals.
func (s *State) Best() int {
	best := 0
	for k := range s.bank {
		if s.bank[k].merit() > s.bank[best].merit() {
			best = k
		}
	}
	return best
}

func (b *member) merit() float64 {
	switch {
	case b.counts() != nil:
		return b.counts().score
	case (b.learning != nil || b.learner() != nil) && b.score != 0:
		// The first rows are scored under a noise not learnt yet, which drift makes up for.
		return b.score
	}
	return b.logZ
}

// Rates are the rates of random-walk variance of the bank and the log evidence of each.
func (s *State) Rates() (rates, logZ []float64) {
	for k := range s.bank {
		logZ = append(logZ, s.bank[k].logZ)
	}
	return s.plan.Rates, logZ
}

// extend follows the best rate beyond the edges of the grid. An edge that is clearly better than
// its neighbours gets a new one, ten times as large or small, which starts from the edge's belief
// and evidence at this row: the new member models weights that drifted at the edge's rate until now
// and drift at its own rate from here on. Its log evidence remains a sum of predictive log
// densities, comparable with all others; only the past is shared. A rate that turns out not to be
// needed costs a filter but never changes the answer. The outcome depends only on the rows
// absorbed, not on how calls divide them.
func (s *State) extend() error {
	if s.told < s.plan.begins+patience {
		return nil
	}
	q, b := s.plan.Rates, s.bank
	last := len(q) - 1
	beats := func(k, other int) bool { return b[k].merit() > b[other].merit()+lead }
	switch grid := s.plan.grid; {
	case beats(last, last-1) && q[last] < farthest*grid[1]*(1-1e-9):
		if s.Best() == last {
			return s.widen(last+1, last, 10*q[last])
		}
	case beats(1, 0) && beats(1, 2) && q[1] > grid[0]/farthest*(1+1e-9):
		if s.Best() == 1 {
			return s.widen(1, 1, q[1]/10)
		}
	}
	return nil
}

// widen inserts rate q at index at of the bank, as a copy of member from in its present state.
func (s *State) widen(at, from int, q float64) error {
	p := *s.plan
	p.Rates = slices.Insert(slices.Clone(p.Rates), at, q)
	if err := s.form.Extend(&p, at, from); err != nil {
		return err
	}
	b := s.bank[from]
	if b.learning != nil {
		b.learning = p.learning(b.learning.Learning)
	}
	b.scored = p.cloneScored(b.scored)
	s.plan, s.bank = &p, slices.Insert(s.bank, at, b)
	s.rows()
	return nil
}

// extendRates extends the rates of s to those of another bank.
func (s *State) extendRates(rates []float64) (err error) {
	for err == nil && s.plan.Rates[1] > rates[1] {
		err = s.widen(1, 1, s.plan.Rates[1]/10)
	}
	for last := len(s.plan.Rates) - 1; err == nil && s.plan.Rates[last] < rates[len(rates)-1]; last++ {
		err = s.widen(last+1, last, 10*s.plan.Rates[last])
	}
	return err
}

// matchRates gives both banks the same rates. src is not changed; the result may be a copy of it.
func (s *State) matchRates(src *State) (*State, error) {
	if len(s.bank) == 1 || slices.Equal(s.plan.Rates, src.plan.Rates) {
		return src, nil
	}
	if err := s.extendRates(src.plan.Rates); err != nil {
		return nil, err
	}
	if slices.Equal(s.plan.Rates, src.plan.Rates) {
		return src, nil
	}
	src = src.Clone()
	return src, src.extendRates(s.plan.Rates)
}

// edges returns the smallest rate above 0 and the largest of a grid.
func edges(grid []float64) [2]float64 { return [2]float64{grid[1], grid[len(grid)-1]} }

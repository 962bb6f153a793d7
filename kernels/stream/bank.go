package stream

import "slices"

const (
	// clearly better than its neighbours is a rate whose log evidence is that much larger:
	// it then has more than nine tenths of the posterior over them.
	lead = 3
	// patience is how many rows come before the grid is left: the first ones tell how wrong the
	// prior is, not how weights move, and small groups have ten filters and no more.
	patience = 100
	// farthest is how far the rates may go beyond the grid on either side.
	farthest = 1e8
)

// extend follows the best rate beyond the edges of the grid. An edge that is clearly better
// than its neighbours gets a new one, ten times as large or small, whose belief and
// evidence are the edge's at this row: what the new member stands for is weights that
// drifted at the edge's rate until now and at its own from here on. Its log evidence remains
// a sum of densities of rows before they were learnt, so that it is comparable with all
// others; only what lies behind is shared. A rate that is not needed after all costs a
// filter, never the answer. It depends on the rows absorbed alone, not on where calls cut
// them.
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

// widen inserts rate q at place at of the bank, as member from stands now.
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
	b.counts = p.cloneSpread(b.counts)
	s.plan, s.bank = &p, slices.Insert(s.bank, at, b)
	s.rows()
	return nil
}

// reach gives s the rates that another bank has beyond its own.
func (s *State) reach(rates []float64) (err error) {
	for err == nil && s.plan.Rates[1] > rates[1] {
		err = s.widen(1, 1, s.plan.Rates[1]/10)
	}
	for last := len(s.plan.Rates) - 1; err == nil && s.plan.Rates[last] < rates[len(rates)-1]; last++ {
		err = s.widen(last+1, last, 10*s.plan.Rates[last])
	}
	return err
}

// abreast gives both banks the same rates; src stays as it is, its copy may come back.
func (s *State) abreast(src *State) (*State, error) {
	if len(s.bank) == 1 || slices.Equal(s.plan.Rates, src.plan.Rates) {
		return src, nil
	}
	if err := s.reach(src.plan.Rates); err != nil {
		return nil, err
	}
	if slices.Equal(s.plan.Rates, src.plan.Rates) {
		return src, nil
	}
	src = src.Clone()
	return src, src.reach(s.plan.Rates)
}

// edges are the least rate above 0 and the largest of a grid.
func edges(grid []float64) [2]float64 { return [2]float64{grid[1], grid[len(grid)-1]} }

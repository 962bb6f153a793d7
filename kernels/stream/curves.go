package stream

import (
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// A curve has all rows up to curveAll, and then one of each curveOf at random, which suffices. Moves
// have all rows up to movesAll, and then one block of each movesOf.
const (
	curveAll = 512
	curveOf  = 8
	movesAll = 4096
	movesOf  = 16
)

// cellEnds are the quantiles of the standard normal distribution between the cells of a curve.
var cellEnds = [lik.CurveCells - 1]float64{-1.1503, -0.6745, -0.3186, 0, 0.3186, 0.6745, 1.1503}

// follow adds a row of some weight to the curves and moves of its columns, whose numbers are in their
// original units, and to the pairs of these; t is its update. Weights that drift follow what residuals
// do.
func (s *State) follow(fs []uint32, xs []float64, t *lik.Tilted) {
	n := s.told
	if s.responses == nil || s.plan.Drifts || n <= endsBegin {
		return
	}
	block := n / lik.MoveRows
	curves := n <= curveAll || uint64(n)*0x9E3779B97F4A7C15>>32%curveOf == 0
	moves := n <= movesAll || block%movesOf == 0
	if !curves && !moves {
		return
	}
	if s.responses.crosses == nil {
		s.responses.crosses = s.crossesOf(fs)
	}
	r := lik.Residual(t.Alpha, t.Beta)
	if s.units != nil {
		for e, id := range fs {
			c, x, cell := s.inCell(id, xs[e])
			if c == nil {
				continue
			}
			if c.follows == nil {
				c.follows = new(follows)
			}
			if curves {
				c.follows.curve.Add(cell, x, r)
			}
			if moves {
				c.follows.moves.AddNumber(block, x, r)
			}
		}
	}
	if moves {
		s.responses.crosses.move(s, fs, block, r)
	}
	if curves {
		s.responses.crosses.add(s, fs, xs, r)
	}
}

// follows is how residuals follow a column of numbers.
type follows struct {
	curve lik.Curve
	moves lik.Moves
}

// inCell returns the column of x, which is feature id of a row, with x in standard deviations from its
// mean and its cell; nil if that is no number, or nothing is known of its column.
func (s *State) inCell(id uint32, x float64) (c *column, by float64, cell int) {
	k := s.units.at[id]
	if k < 0 || x != x {
		return nil, 0, 0
	}
	if c = &s.units.cols[k]; c.ends == nil || !(c.Scale > 0) {
		return nil, 0, 0
	}
	by = (x - c.Center) / c.Scale
	for cell < len(cellEnds) && by > cellEnds[cell] {
		cell++
	}
	return c, by, cell
}

// mergedFollows returns the sums of the rows of both, nil if neither has any; a may change.
func mergedFollows(a, b *follows) *follows {
	switch {
	case b == nil:
		return a
	case a == nil:
		a = new(follows)
	}
	a.curve.Merge(&b.curve)
	a.moves.Merge(&b.moves)
	return a
}

// curveNote is the note on the column of f, the fit of s, that residuals follow most, or the pair of
// columns, "" if they clearly follow none otherwise than by a line and a sum that stay the same.
func (s *State) curveNote(f *kernels.Fit) (note string) {
	if s.plan.Drifts || s.responses == nil {
		return ""
	}
	crosses, neighbours := s.responses.crosses, &s.responses.neighbours
	test := lik.ShareTest{Freedom: float64(s.told) * neighbours.Independent(), Learnt: 1}
	var numbers []*column
	if s.units != nil {
		test.Tests = len(s.units.cols)
		test.Learnt += test.Tests
		for _, k := range s.units.order {
			if c := &s.units.cols[k]; c.follows != nil && !hasParts(f, string(s.dict.Name(c.id))) {
				numbers = append(numbers, c)
			}
		}
	}
	most := 0.0
	for _, c := range numbers {
		if share := c.follows.curve.Clear(test); share > most {
			most, note = share, lik.CurveNote("", string(s.dict.Name(c.id)), share)
		}
	}
	if share, pair := crosses.note(s, f, test, most); pair != "" {
		most, note = share, pair
	}
	if neighbours.Sorted() {
		return note
	}
	most *= lik.MovesOver
	if crosses != nil {
		test.Tests += len(crosses.columns)
	}
	moves := func(m *lik.Moves, name func() string) {
		if share := m.Clear(test); share > most {
			most, note = share, lik.MovesNote("", name(), share)
		}
	}
	for _, c := range numbers {
		moves(&c.follows.moves, func() string { return string(s.dict.Name(c.id)) })
	}
	if crosses != nil {
		for k := range crosses.columns {
			if x := &crosses.columns[k]; x.column > 0 {
				moves(&x.moves, func() string { return s.crossedName(x) })
			}
		}
	}
	return note
}

// hasParts reports whether a column of f is an interaction.
func hasParts(f *kernels.Fit, name string) bool {
	return slices.ContainsFunc(f.Columns, func(c kernels.FitColumn) bool { return c.Name == name && c.Parts != "" })
}

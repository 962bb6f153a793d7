package stream

import (
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// A curve has all rows up to curveAll, and then one of each curveOf at random, which suffices.
const (
	curveAll = 512
	curveOf  = 8
)

// cellEnds are the quantiles of the standard normal distribution between the cells of a curve.
var cellEnds = [lik.CurveCells - 1]float64{-1.1503, -0.6745, -0.3186, 0, 0.3186, 0.6745, 1.1503}

// follow adds a row of some weight to the curves of its numbers, which are in their original units,
// and to the pairs of its columns; t is its update. Weights that drift follow what residuals do.
func (s *State) follow(fs []uint32, xs []float64, t *lik.Tilted) {
	n := s.told
	if s.responses == nil || s.plan.Drifts || n <= endsBegin || n > curveAll && uint64(n)*0x9E3779B97F4A7C15>>32%curveOf != 0 {
		return
	}
	if s.responses.crosses == nil {
		s.responses.crosses = s.crossesOf(fs)
	}
	r := lik.Residual(t.Alpha, t.Beta)
	if s.units != nil {
		for e, id := range fs {
			if c, x, cell := s.inCell(id, xs[e]); c != nil {
				if c.curve == nil {
					c.curve = new(lik.Curve)
				}
				c.curve.Add(cell, x, r)
			}
		}
	}
	s.responses.crosses.add(s, fs, xs, r)
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

// mergedCurves returns the curve of the rows of both, nil if neither has any; a may change.
func mergedCurves(a, b *lik.Curve) *lik.Curve {
	switch {
	case b == nil:
		return a
	case a == nil:
		a = new(lik.Curve)
	}
	a.Merge(b)
	return a
}

// curveNote is the note on the column of f, the fit of s, that residuals follow most, or the pair
// of columns, "" if they clearly follow none otherwise than by a line and a sum.
func (s *State) curveNote(f *kernels.Fit) (note string) {
	if s.plan.Drifts || s.responses == nil {
		return ""
	}
	most, test := 0.0, lik.ShareTest{Freedom: float64(s.told) * s.responses.neighbours.Independent(), Learnt: 1}
	if s.units != nil {
		test.Tests = len(s.units.cols)
		test.Learnt += test.Tests
		for _, k := range s.units.order {
			c := &s.units.cols[k]
			if c.curve == nil {
				continue
			}
			if share := c.curve.Clear(test); share > most {
				if name := string(s.dict.Name(c.id)); !hasParts(f, name) {
					most, note = share, lik.CurveNote("", name, share)
				}
			}
		}
	}
	return kernels.Or(s.responses.crosses.note(s, f, test, most), note)
}

// hasParts reports whether a column of f is an interaction.
func hasParts(f *kernels.Fit, name string) bool {
	return slices.ContainsFunc(f.Columns, func(c kernels.FitColumn) bool { return c.Name == name && c.Parts != "" })
}

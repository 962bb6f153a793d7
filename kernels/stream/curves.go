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

// follow adds a row of some weight to the curves of its numbers, which are in their original units; t
// is its update. Weights that drift follow what residuals do.
func (s *State) follow(fs []uint32, xs []float64, t *lik.Tilted) {
	n := s.told
	if s.units == nil || s.plan.Drifts || n <= endsBegin || n > curveAll && uint64(n)*0x9E3779B97F4A7C15>>32%curveOf != 0 {
		return
	}
	r := lik.Residual(t.Alpha, t.Beta)
	for e, id := range fs {
		k := s.units.at[id]
		if k < 0 || xs[e] != xs[e] {
			continue
		}
		c := &s.units.cols[k]
		if c.ends == nil || !(c.Scale > 0) {
			continue
		}
		if c.curve == nil {
			c.curve = new(lik.Curve)
		}
		x, cell := (xs[e]-c.Center)/c.Scale, 0
		for cell < len(cellEnds) && x > cellEnds[cell] {
			cell++
		}
		c.curve.Add(cell, x, r)
	}
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

// curveNote is the note on the column of f, the fit of s, that residuals follow most, "" if they
// clearly follow none otherwise than by a line.
func (s *State) curveNote(f *kernels.Fit) (note string) {
	if s.units == nil || s.plan.Drifts || s.responses == nil {
		return ""
	}
	most, freedom := 0.0, float64(s.told)*s.responses.neighbours.Independent()
	for _, k := range s.units.order {
		c := &s.units.cols[k]
		if c.curve == nil {
			continue
		}
		if share := c.curve.Clear(freedom, len(s.units.cols)); share > most {
			name := string(s.dict.Name(c.id))
			if !slices.ContainsFunc(f.Columns, func(c kernels.FitColumn) bool { return c.Name == name && c.Parts != "" }) {
				most, note = share, lik.CurveNote(name, share)
			}
		}
	}
	return note
}

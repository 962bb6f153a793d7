package gp

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/design"
)

const (
	// apartScale is how many times the standard deviation of one column may be that of another:
	// beyond it distances are those of the wider column, and the kernel does not see the other.
	apartScale = 100
	// alone is the correlation of f at a point and at its nearest below which neither says much of
	// the other, and together the one between the two points farthest from each other above which
	// f is nearly constant over all of them.
	alone, together = 0.01, 0.9995
)

// scaleNote returns the sentences about columns of x, and about a given lengthscale, that hide from
// the kernel where rows lie; "" if there is nothing to say. far: it is about the lengthscale.
//
// Cost: n² operations.
func (s *search) scaleNote(o Options) (note string, far bool) {
	if s.at == nil || len(s.Y) < 2 {
		return "", false
	}
	if !o.Standardize {
		note = s.columnsNote()
	}
	if o.AutoLengthscale {
		return note, false
	}
	_, _, most := s.spread()
	near := math.Exp(s.neighbour()) * 2
	correlation := func(distance float64) float64 {
		k, _ := s.value(distance, s.lengthscale, 1)
		return k
	}
	switch {
	case !(most > 0):
	case correlation(near) < alone:
		note = kernels.Join(note, fmt.Sprintf("half of the points say nothing of any other place at lengthscale = %.4g, the nearest being at least %.3g away: a larger one suits them, or 'auto'", s.lengthscale, near))
		return note, true
	case correlation(most) > together:
		note = kernels.Join(note, fmt.Sprintf("the process is nearly constant over all points at lengthscale = %.4g, as they lie within %.3g of each other: a smaller one suits them, or 'auto'", s.lengthscale, most))
		return note, true
	}
	return note, false
}

// columnsNote is the sentence about the columns that vary least and most, of those that vary.
func (s *search) columnsNote() string {
	least, most, at, to := math.Inf(1), 0.0, 0, 0
	column := make([]float64, s.x.Rows)
	for j := range s.x.Cols {
		for i := range column {
			column[i] = s.x.At(i, j)
		}
		_, spread := design.Moments(column, s.Weight)
		if spread > 0 && spread < least {
			least, at = spread, j
		}
		if spread > most {
			most, to = spread, j
		}
	}
	if !(most > apartScale*least) {
		return ""
	}
	return fmt.Sprintf("columns %d and %d of x have standard deviations of %.2g and %.2g, and one lengthscale: it hides the former, unless standardize: true puts both on one scale", at+1, to+1, least, most)
}

package metric

import "math"

// Column is what rows were like in one of their columns.
type Column struct {
	Rows, Missing int64
	// Number says that it is one, whose Mean and SD are known; PerUnit, that its weight has its prior
	// in its unit, not in that of its standard deviation.
	Number, PerUnit, Known bool
	Mean, SD               float64
	Counting               bool // its values are as many whole numbers without a gap as there are rows
	// Of levels: how many there are, 0 where that is not known, how many of them have fewer than RareRows
	// rows, and the rows that these were counted in.
	Levels, Rare, Counted int64
}

// RareRows is below how many rows a level is rare.
const RareRows = 5

// Doubt is what to mind about a column.
type Doubt int

// The doubts, each but Missing of numbers or of levels alone.
const (
	MostlyMissing  Doubt = iota // more than a fifth of the rows lack it
	Constant                    // it does not vary
	FarScalePrior               // far from unit scale, though its prior is per unit
	FarScale                    // far from unit scale
	FarMean                     // far from 0 for its standard deviation
	CountsRows                  // it numbers the rows
	LevelPerRow                 // nearly as many levels as rows
	MostLevelsRare              // more than half of them
)

const (
	oftenMissing = 0.2 // share of the rows
	farScale     = 1e3 // factor from 1 from which on a standard deviation is far from it
	farMean      = 1e3 // standard deviations from 0 from which on a mean is far from it
	manyLevels   = 20  // fewer are no identifier
)

// Doubts are those about c.
func (c Column) Doubts() (out []Doubt) {
	if all := float64(c.Rows + c.Missing); float64(c.Missing) > oftenMissing*all {
		out = append(out, MostlyMissing)
	}
	switch {
	case c.Number && c.Known:
		out = append(out, c.scale()...)
	case c.Levels > manyLevels && 2*c.Levels > c.Counted:
		out = append(out, LevelPerRow)
	case c.Levels > manyLevels && 2*c.Rare > c.Levels:
		out = append(out, MostLevelsRare)
	case c.Levels == 1:
		out = append(out, Constant)
	}
	if c.Counting {
		out = append(out, CountsRows)
	}
	return out
}

// scale are the doubts about a number's mean and deviation.
func (c Column) scale() (out []Doubt) {
	if c.SD == 0 {
		return []Doubt{Constant}
	}
	if c.SD >= farScale || c.SD <= 1/farScale {
		if c.PerUnit {
			out = append(out, FarScalePrior)
		} else {
			out = append(out, FarScale)
		}
	}
	if math.Abs(c.Mean) >= farMean*c.SD {
		out = append(out, FarMean)
	}
	return out
}

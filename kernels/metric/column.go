package metric

import "math"

// Column summarises one column of the rows.
type Column struct {
	Rows, Missing int64
	// Number says that it is a number, whose Mean and SD are known if Known; PerUnit, that the
	// prior of its weight is per unit, not per standard deviation.
	Number, PerUnit, Known bool
	Mean, SD               float64
	Counting               bool // its values are whole numbers without gaps, as many as there are rows
	// Levels counts the levels, 0 if unknown, Rare those with fewer than RareRows rows, and Counted
	// the rows in which these were counted.
	Levels, Rare, Counted int64
}

// RareRows is the number of rows below which a level is rare.
const RareRows = 5

// Warning is a problem to consider about a column.
type Warning int

// The doubts; each except MostlyMissing applies to numbers or to levels only.
const (
	MostlyMissing  Warning = iota // more than a fifth of the rows lack it
	Constant                      // it does not vary
	FarScalePrior                 // far from unit scale, though its prior is per unit
	FarScale                      // far from unit scale
	FarMean                       // far from 0 relative to its standard deviation
	CountsRows                    // it numbers the rows
	LevelPerRow                   // nearly as many levels as rows
	MostLevelsRare                // more than half of them
)

const (
	oftenMissing = 0.2 // proportion of the rows
	farScale     = 1e3 // factor by which a standard deviation may differ from 1
	farMean      = 1e3 // standard deviations by which a mean may differ from 0
	manyLevels   = 20  // fewer do not make an identifier
)

// Warnings returns the warnings about c.
func (c Column) Warnings() (out []Warning) {
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

// scale are the doubts about a number's mean and standard deviation.
func (c Column) scale() (out []Warning) {
	if c.SD == 0 {
		return []Warning{Constant}
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

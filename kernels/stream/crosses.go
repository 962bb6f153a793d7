package stream

import (
	"slices"
	"unsafe"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// mostCrossed bounds the columns of which a stream sums residuals by pairs: 28 pairs take 8 kB.
const mostCrossed = 8

// crosses sums residuals in the cells of each pair of columns: those of the first row it meets,
// unless they are more than mostCrossed.
type crosses struct {
	columns []crossed
	pairs   []lik.Cross // of columns l < k: at k(k-1)/2 + l
	spread  lik.Spread
}

// crossed is a column of numbers, or of levels.
type crossed struct {
	number uint32 // the feature of numbers
	column uint32 // of levels, in the dictionary; 0 for numbers
	// levels are those with a cell, in the order in which they came, of which there is one at least
	// for a column of levels. All others share the last cell.
	levels []uint32
	moves  lik.Moves // of levels
}

// noCell is that of a row that lacks the column.
const noCell = lik.CrossCells

// crossesOf returns the crosses of the columns of a row.
func (s *State) crossesOf(fs []uint32) *crosses {
	c := &crosses{}
	for _, id := range fs {
		switch x := (crossed{number: id}); {
		case s.isNumber(id):
			c.columns = append(c.columns, x)
		case s.levelColumn(id) > 0:
			x = crossed{column: s.levelColumn(id), levels: make([]uint32, 0, lik.CrossCells-1)}
			c.columns = append(c.columns, x)
		}
		if len(c.columns) > mostCrossed {
			return &crosses{}
		}
	}
	c.pairs = make([]lik.Cross, len(c.columns)*(len(c.columns)-1)/2)
	return c
}

// isNumber reports whether feature id is a standardised number.
func (s *State) isNumber(id uint32) bool { return s.units != nil && s.units.at[id] >= 0 }

// levelColumn is the column of which feature id is a level, 0 for none.
func (s *State) levelColumn(id uint32) uint32 {
	if s.dict.HashBits > 0 {
		return 0
	}
	return s.dict.ColumnOf(id)
}

// add adds a row with its residual.
func (c *crosses) add(s *State, fs []uint32, xs []float64, residual float64) {
	if len(c.pairs) == 0 {
		return
	}
	var cells [mostCrossed]uint8
	for k := range c.columns {
		cells[k] = noCell
	}
	for e, id := range fs {
		if s.isNumber(id) {
			if k := slices.IndexFunc(c.columns, func(x crossed) bool { return x.column == 0 && x.number == id }); k >= 0 {
				if column, _, cell := s.inCell(id, xs[e]); column != nil {
					cells[k] = uint8(cell * lik.CrossCells / lik.CurveCells)
				}
			}
		} else if column := s.levelColumn(id); column > 0 {
			if k := c.ofLevels(column); k >= 0 {
				cells[k] = c.columns[k].cell(id)
			}
		}
	}
	c.spread.Add(residual)
	for k := range c.columns {
		for l := range k {
			if cells[k] != noCell && cells[l] != noCell {
				c.pairs[k*(k-1)/2+l].Add(cells[l], cells[k], residual)
			}
		}
	}
}

// move adds a row of a block with its residual to the moves of columns of levels.
func (c *crosses) move(s *State, fs []uint32, block int64, residual float64) {
	for _, id := range fs {
		if column := s.levelColumn(id); column > 0 {
			if k := c.ofLevels(column); k >= 0 {
				x := &c.columns[k]
				x.moves.AddCell(block, x.cell(id), residual)
			}
		}
	}
}

// ofLevels is the place of a column of levels, -1 for none.
func (c *crosses) ofLevels(column uint32) int {
	return slices.IndexFunc(c.columns, func(x crossed) bool { return x.column == column })
}

// cell is that of a level.
func (x *crossed) cell(id uint32) uint8 {
	k := slices.Index(x.levels, id)
	if k < 0 {
		if k = len(x.levels); k < lik.CrossCells-1 {
			x.levels = append(x.levels, id)
		}
	}
	return uint8(k)
}

func (c *crosses) clone() *crosses {
	if c == nil {
		return nil
	}
	own := &crosses{slices.Clone(c.columns), slices.Clone(c.pairs), c.spread}
	for k := range own.columns {
		x := &own.columns[k]
		x.levels = append(make([]uint32, 0, cap(x.levels)), x.levels...)
	}
	return own
}

// renumbered returns a copy of crosses of another state, whose features s numbers by id.
func (s *State) renumbered(o *crosses, id func(int) int) *crosses {
	o = o.clone()
	for k := range o.columns {
		x := &o.columns[k]
		if x.column == 0 {
			x.number = uint32(id(int(x.number)))
			continue
		}
		for l := range x.levels {
			x.levels[l] = uint32(id(int(x.levels[l])))
		}
		x.column = s.levelColumn(x.levels[0])
	}
	return o
}

// merge adds the rows of o, whose features are numbered as those of c. Levels of o that have no cell
// in c share the last one, and a column that c lacks is lost.
func (c *crosses) merge(o *crosses) {
	at, cells := make([]int, len(o.columns)), make([][lik.CrossCells]uint8, len(o.columns))
	for k := range o.columns {
		x := &o.columns[k]
		at[k] = slices.IndexFunc(c.columns, func(y crossed) bool { return y.column == x.column && y.number == x.number })
		for l := range cells[k] {
			cells[k][l] = uint8(l)
			if at[k] >= 0 && l < len(x.levels) {
				cells[k][l] = c.columns[at[k]].cell(x.levels[l])
			}
		}
	}
	for k := range o.columns {
		if at[k] >= 0 {
			c.columns[at[k]].moves.Merge(&o.columns[k].moves)
		}
		for l := range k {
			if a, b := at[k], at[l]; a >= 0 && b >= 0 {
				pair := &o.pairs[k*(k-1)/2+l]
				if a > b {
					c.pairs[a*(a-1)/2+b].Merge(pair, &cells[l], &cells[k])
				} else {
					c.pairs[b*(b-1)/2+a].Merge(pair.Transposed(), &cells[k], &cells[l])
				}
			}
		}
	}
	c.spread.Merge(o.spread)
}

func (c *crosses) size() int64 {
	if c == nil {
		return 0
	}
	n := int64(unsafe.Sizeof(*c)) + int64(cap(c.columns))*int64(unsafe.Sizeof(crossed{})) + int64(cap(c.pairs))*int64(unsafe.Sizeof(lik.Cross{}))
	for _, x := range c.columns {
		n += 4 * int64(cap(x.levels))
	}
	return n
}

// crossedName is the name of a column.
func (s *State) crossedName(x *crossed) string {
	if x.column > 0 {
		return s.dict.LevelColumn(x.levels[0])
	}
	return string(s.dict.Name(x.number))
}

// note is the note on the pair of columns that residuals follow most together, for which share of their
// variance; "" if they clearly follow none, or a single column as much, that of least. test is that of
// single columns.
func (c *crosses) note(s *State, f *kernels.Fit, test lik.ShareTest, least float64) (most float64, note string) {
	if c == nil {
		return 0, ""
	}
	most, test.Tests = least, len(c.columns)+len(c.pairs)
	for k := range c.columns {
		for l := range k {
			if share, interaction := c.pairs[k*(k-1)/2+l].Clear(&c.spread, test); interaction > most {
				if a, b := s.crossedName(&c.columns[l]), s.crossedName(&c.columns[k]); !hasParts(f, a) && !hasParts(f, b) {
					most, note = interaction, lik.CrossNote("", a, b, share)
				}
			}
		}
	}
	return most, note
}

package kernels

import (
	"cmp"
	"slices"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// Residuals that follow columns are looked for in the first curveColumns numbers and in pairs of up to
// crossColumns columns.
const (
	curveColumns = 1024
	crossColumns = 64
)

// curves finds what residuals of a sample of rows follow in columns of a problem otherwise than by a
// line (lik.Curve), and in pairs of them otherwise than by a sum (lik.Cross): neither is in a
// generalized linear model unless the rows give it.
type curves struct {
	p        *Problem
	freedom  float64 // rows less weights
	rows     []int   // the sample, ascending
	residual []float64
	spread   lik.Spread
	cells    bool // of numbers only the cells are of use
}

// curvesOf returns nil if p has too few rows.
func curvesOf(p *Problem) *curves {
	freedom := float64(p.N - p.P)
	if !lik.CurveFreedom(freedom) {
		return nil
	}
	return &curves{p: p, freedom: freedom}
}

// test judges shares of the residuals' variance, for the caller to count; false if the rows are too few.
func (c *curves) test(independent float64) (lik.ShareTest, bool) {
	freedom := min(float64(len(c.residual))*c.freedom/float64(c.p.N), c.freedom*independent)
	return lik.ShareTest{Freedom: freedom}, lik.CurveFreedom(freedom)
}

// add adds row i, later than those before, with its residual.
func (c *curves) add(i int, residual float64) {
	c.rows, c.residual = append(c.rows, i), append(c.residual, residual)
	c.spread.Add(residual)
}

// note is the sentence about the column, or the pair of columns, that residuals follow most, for which
// share of their variance, of a pair that of the interaction; "" if they clearly follow none. of says
// whose residuals they are, one of so many kinds, and independent is the part of the rows that tells.
func (c *curves) note(of string, kinds int, independent float64) (most float64, note string) {
	test, ok := c.test(independent)
	if !ok {
		return 0, ""
	}
	columns := c.columns()
	tests := len(columns)
	pairs := tests <= crossColumns
	if pairs {
		tests += tests * (tests - 1) / 2
	}
	test.Tests = tests * kinds
	for k := range columns {
		x := &columns[k]
		share := x.curve.Clear(test)
		if share > most {
			most, note = share, lik.CurveNote(of, x.name, share)
		}
		if own := x.values.Clear(test); own > most && own > lik.ValuesOver*share {
			most, note = own, x.values.Note(of, x.name, own)
		}
	}
	if !pairs {
		return most, note
	}
	c.flatten(columns)
	for k := range columns {
		for l := range k {
			a, b := &columns[l], &columns[k]
			var cross lik.Cross
			for i, r := range c.residual {
				cross.Add(a.cell[i], b.cell[i], r)
			}
			if share, interaction := cross.Clear(&c.spread, test); interaction > most {
				most, note = interaction, lik.CrossNote(of, a.name, b.name, share)
			}
		}
	}
	return most, note
}

// sweeps is how often the lines and means of all columns are subtracted, one after the other, which a
// fit has done but for its prior.
const sweeps = 3

// flatten subtracts from the residuals their lines in numbers and their means in the cells of levels.
func (c *curves) flatten(columns []celled) {
	for range sweeps {
		for k := range columns {
			x := &columns[k]
			if x.x == nil {
				var sum, rows [lik.CrossCells]float64
				for i, r := range c.residual {
					sum[x.cell[i]] += r
					rows[x.cell[i]]++
				}
				for i := range c.residual {
					c.residual[i] -= sum[x.cell[i]] / rows[x.cell[i]]
				}
				continue
			}
			slope, square := 0.0, 0.0
			for i, r := range c.residual {
				slope, square = slope+r*x.x[i], square+x.x[i]*x.x[i]
			}
			for i := range c.residual {
				c.residual[i] -= slope / square * x.x[i]
			}
		}
	}
	c.spread = lik.Spread{}
	for _, r := range c.residual {
		c.spread.Add(r)
	}
}

// celled is a column of the sample, cut into cells.
type celled struct {
	name   string
	place  int        // among the columns of x; -1 for an entry of a list of numbers
	x      []float64  // standardised, of a number; nil of levels
	curve  lik.Curve  // of a number
	values lik.Values // likewise
	cell   []uint8    // of lik.Cross, by row; nil if there is one cell only
}

// columns returns those of the sample with more than one cell, in the order of x, less interactions.
func (c *curves) columns() (out []celled) {
	at := make([]int, c.p.P) // by weight: its number from 1, or its column of levels from -1
	var numbers, levels []string
	for j, id := range c.p.cols {
		if name := c.p.dict.LevelColumn(id); name != "" {
			k := slices.Index(levels, name)
			if k < 0 {
				k, levels = len(levels), append(levels, name)
			}
			at[j] = -1 - k
		} else if c.p.IsNumber(j) && len(numbers) < curveColumns {
			numbers = append(numbers, c.p.Name(j))
			at[j] = len(numbers)
		}
	}
	n := len(c.residual)
	value := memory.Floats(n * len(numbers)) // one number after the other
	level := make([]uint32, n*len(levels))   // the weight of the last level, from 1; 0 for none
	for k := range n {
		cols, vals := c.p.Entries(c.rows[k])
		for e, j := range cols {
			if a := at[j]; a > 0 {
				value[(a-1)*n+k] = vals[e]
			} else if a < 0 {
				level[(-1-a)*n+k] = j + 1
			}
		}
	}
	add := func(name string, x celled) {
		x.name, x.place = name, slices.IndexFunc(c.p.columns, func(f FitColumn) bool { return f.Name == name })
		if x.cell != nil && (x.place < 0 || c.p.columns[x.place].Parts == "") {
			out = append(out, x)
		}
	}
	for k, name := range numbers {
		add(name, c.number(value[k*n:(k+1)*n]))
	}
	for k, name := range levels {
		add(name, c.levels(level[k*n:(k+1)*n]))
	}
	slices.SortStableFunc(out, func(a, b celled) int { return a.place - b.place })
	return out
}

// number standardises a number and cuts it into intervals, in each of which about as many of the rows lie.
func (c *curves) number(x []float64) (out celled) {
	some := make([]float64, 0, len(x)) // they suffice to tell where intervals begin
	for k := 0; k < len(x); k += 1 + len(x)/(sampleRows/4) {
		some = append(some, x[k])
	}
	slices.Sort(some)
	from := make([]float64, 0, lik.CurveCells)
	for q := 1; q < lik.CurveCells; q++ {
		if t := some[q*len(some)/lik.CurveCells]; t > some[0] && (len(from) == 0 || t > from[len(from)-1]) {
			from = append(from, t)
		}
	}
	if len(from) == 0 {
		return out
	}
	var unit ColumnStats
	for _, v := range x {
		unit.Add(v)
	}
	out.x, out.cell = x, make([]uint8, len(x))
	codes := !c.cells && lik.Repeated(some)
	for k, v := range x {
		if codes {
			out.values.Add(v, c.residual[k])
		}
		cell := 0
		for _, t := range from {
			if v >= t {
				cell++
			}
		}
		if x[k] = (v - unit.Center) / unit.Scale; !c.cells {
			out.curve.Add(cell, x[k], c.residual[k])
		}
		if len(from) >= lik.CrossCells {
			cell = cell * lik.CrossCells / (len(from) + 1)
		}
		out.cell[k] = uint8(cell)
	}
	return out
}

// levels keeps the most frequent levels apart and takes the others, and rows without one, together.
func (c *curves) levels(x []uint32) (out celled) {
	rows := map[uint32]int{}
	for _, j := range x {
		rows[j]++
	}
	most := make([]uint32, 0, len(rows))
	for j := range rows {
		most = append(most, j)
	}
	if len(most) == 1 {
		return out
	}
	slices.SortFunc(most, func(a, b uint32) int { return cmp.Or(cmp.Compare(rows[b], rows[a]), cmp.Compare(a, b)) })
	most = most[:min(len(most), lik.CrossCells-1)]
	out.cell = make([]uint8, len(x))
	for k, j := range x {
		cell := slices.Index(most, j)
		if cell < 0 {
			cell = lik.CrossCells - 1
		}
		out.cell[k] = uint8(cell)
	}
	return out
}

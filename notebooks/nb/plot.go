package nb

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/janpfeifer/gonb/gonbui"

	"github.com/bglm/bglm/cmd/chart"
)

// Mark adds to a picture what does not come from a query.
type Mark func(*chart.Chart)

// Across draws a broken line at a height.
func Across(y float64) Mark {
	return func(c *chart.Chart) {
		x, _ := ranges(c)
		c.Series = append(c.Series, chart.Series{Kind: "reference", X: x[:], Y: []float64{y, y}})
	}
}

// Upright draws a broken line at a place of the horizontal axis.
func Upright(x float64) Mark {
	return func(c *chart.Chart) {
		_, y := ranges(c)
		if len(c.Names) > 0 {
			y = [2]float64{-0.5, float64(len(c.Names)) - 0.5}
		}
		c.Series = append(c.Series, chart.Series{Kind: "reference", X: []float64{x, x}, Y: y[:]})
	}
}

// Diagonal draws the broken line of equal values.
func Diagonal(c *chart.Chart) {
	x, _ := ranges(c)
	c.Series = append(c.Series, chart.Series{Kind: "reference", X: x[:], Y: x[:]})
}

// Ratios makes the horizontal axis logarithmic; its values are above 0.
func Ratios(c *chart.Chart) { c.Ratio = true }

// Dots draws the rows of one kind as points.
func Dots(kind string) Mark {
	return func(c *chart.Chart) {
		for k := range c.Series {
			if s := &c.Series[k]; s.Label == kind {
				s.Kind = "points"
			}
		}
	}
}

// Heights sets the range of the vertical axis.
func Heights(low, high float64) Mark {
	return func(c *chart.Chart) { c.Y = &[2]float64{low, high} }
}

// FromZero begins the vertical axis at 0.
func FromZero(c *chart.Chart) {
	_, y := ranges(c)
	c.Y = &[2]float64{0, 1.1 * y[1]}
}

// ranges are those of the values of a chart.
func ranges(c *chart.Chart) (x, y [2]float64) {
	x, y = [2]float64{math.Inf(1), math.Inf(-1)}, [2]float64{math.Inf(1), math.Inf(-1)}
	for _, s := range c.Series {
		for _, v := range s.X {
			x = [2]float64{min(x[0], v), max(x[1], v)}
		}
		for _, v := range slices.Concat(s.Y, s.Lo, s.Hi) {
			y = [2]float64{min(y[0], v), max(y[1], v)}
		}
	}
	return x, y
}

// Line draws the rows of a query as lines: the first column is the horizontal axis, the
// second the vertical one, and their names are its labels. A column of texts parts the
// rows into lines of their own, in the order in which they come. Columns lower and upper
// are a band around each line; lines without one have NULL there.
func Line(title, question string, marks ...Mark) { draw(title, question, "line", marks) }

// Points draws the rows of a query as points, with bars from lower to upper; its columns
// are those of Line.
func Points(title, question string, marks ...Mark) { draw(title, question, "points", marks) }

// Intervals draws each row of a query as a point and a bar from lower to upper, one below
// the other: the first column names it, the second is the point. Another column of texts
// parts the rows into kinds, which are drawn together for each name.
func Intervals(title, question string, marks ...Mark) { draw(title, question, "interval", marks) }

// columns are the places of a picture's columns in a query; -1 where there is none.
type columns struct{ x, y, kind, lower, upper int }

func (t *table) columns() columns {
	c := columns{0, 1, -1, slices.Index(t.names, "lower"), slices.Index(t.names, "upper")}
	for j := 1; j < len(t.names); j++ {
		if t.isText(j) {
			c.kind = j
			if j == 1 {
				c.y = 2
			}
		}
	}
	return c
}

func draw(title, question, drawn string, marks []Mark) {
	var png bytes.Buffer
	must(query(question).picture(title, drawn, marks).PNG(&png))
	gonbui.DisplayPNG(png.Bytes())
	gonbui.Sync()
}

// picture draws the rows in series of the kind drawn.
func (t *table) picture(title, drawn string, marks []Mark) *chart.Chart {
	if len(t.rows) == 0 || len(t.names) < 2 {
		panic(fmt.Sprintf("%s: %d rows of %d columns make no picture", title, len(t.rows), len(t.names)))
	}
	at := t.columns()
	if at.y >= len(t.names) {
		panic(fmt.Sprintf("%s: columns %s have no number to draw", title, strings.Join(t.names, ", ")))
	}
	c := &chart.Chart{Title: title, XLabel: t.names[at.x], YLabel: t.names[at.y]}
	if drawn == "interval" {
		c.XLabel, c.YLabel = t.names[at.y], ""
	}
	value := func(row []any, j int) float64 {
		x, ok := number(row[j])
		if !ok {
			panic(fmt.Sprintf("%s: %v in column %s is no number", title, row[j], t.names[j]))
		}
		return x
	}
	var kinds []string
	for _, row := range t.rows {
		kind := ""
		if at.kind >= 0 {
			kind = fmt.Sprint(row[at.kind])
		}
		k := slices.Index(kinds, kind)
		if k < 0 {
			k = len(kinds)
			kinds = append(kinds, kind)
			c.Series = append(c.Series, chart.Series{Kind: drawn, Label: kind})
		}
		s := &c.Series[k]
		if drawn == "interval" {
			name := fmt.Sprint(row[at.x])
			i := slices.Index(c.Names, name)
			if i < 0 {
				i = len(c.Names)
				c.Names = append(c.Names, name)
			}
			s.X, s.Y = append(s.X, value(row, at.y)), append(s.Y, float64(i))
		} else {
			s.X, s.Y = append(s.X, value(row, at.x)), append(s.Y, value(row, at.y))
		}
		if at.lower >= 0 && at.upper >= 0 && row[at.lower] != nil {
			s.Lo, s.Hi = append(s.Lo, value(row, at.lower)), append(s.Hi, value(row, at.upper))
		}
	}
	for _, s := range c.Series {
		if len(s.Lo) != len(s.X) && (len(s.Lo) > 0 || drawn == "interval") {
			panic(fmt.Sprintf("%s: %d of %d rows%s have lower and upper; allowed: all of a kind%s", title, len(s.Lo), len(s.X),
				map[bool]string{true: " of " + s.Label}[s.Label != ""], map[bool]string{false: ", or none"}[drawn == "interval"]))
		}
	}
	if drawn == "interval" { // those of one name side by side
		c.Row = 15 * float64(len(kinds))
		for k := range c.Series {
			for i := range c.Series[k].Y {
				c.Series[k].Y[i] += 0.6 * ((float64(k)+0.5)/float64(len(kinds)) - 0.5)
			}
		}
	}
	for _, m := range marks {
		m(c)
	}
	return c
}

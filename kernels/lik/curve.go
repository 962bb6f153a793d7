package lik

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
)

// CurveCells is the number of cells of a Curve, CrossCells that of each column of a Cross.
const (
	CurveCells = 8
	CrossCells = 4
)

// A note is made if residuals follow a column, or two, for a part curved of their variance, which is
// worth half as many nats a row to predictions, and if that has a probability below curvedClearly among
// all columns and pairs. Where residuals vary less than usual, as those of separated responses do, the
// part must be curvedBy of the variance that the likelihood expects. Below curveFreedom degrees of
// freedom there is none.
const (
	curved        = 0.04
	curvedBy      = 0.1
	usual         = 0.5 // of the variance that the likelihood expects
	curvedClearly = 1e-6
	curveFreedom  = 3 * CurveCells
)

// wayRows is the number of rows in whose residuals a weight that a stream learns is still seen: they
// follow its column, and then no more.
const wayRows = 16

// ShareTest is what a share of the residuals' variance is judged by.
type ShareTest struct {
	Freedom float64 // degrees of freedom of the residuals
	Tests   int     // shares among which it is
	Learnt  int     // numbers whose weights were learnt while the residuals were summed, 0 if before
}

// Curve sums residuals in cells of a number, to find whether they follow it otherwise than by a line,
// which is all that a generalized linear model has of a number. It is the F test of a lack of fit in
// which the rows of a cell take the place of repeated ones (Green 1971, Journal of the American
// Statistical Association 66). The zero value has no rows.
type Curve struct {
	rows, x, residual [CurveCells]float64 // by cell: sums
	xx, xr            float64             // sums of squares and products
	spread            Spread
}

// Spread sums how residuals vary. The zero value has no rows.
type Spread struct {
	powers [5]float64 // sums of their powers
	most   float64    // the largest, without its sign
}

// Add adds a residual.
func (s *Spread) Add(r float64) {
	square := r * r
	s.powers[0]++
	s.powers[1] += r
	s.powers[2] += square
	s.powers[3] += square * r
	s.powers[4] += square * square
	s.most = max(s.most, math.Abs(r))
}

// Merge adds those of o.
func (s *Spread) Merge(o Spread) {
	for k, sum := range o.powers {
		s.powers[k] += sum
	}
	s.most = max(s.most, o.most)
}

// moments returns the number of residuals, their mean, variance and fourth moment about the mean.
func (s *Spread) moments() (n, mean, variance, fourth float64) {
	p, n := &s.powers, s.powers[0]
	m := p[1] / n
	return n, m, p[2]/n - m*m, p[4]/n - 4*m*p[3]/n + 6*m*m*p[2]/n - 3*m*m*m*m
}

// clear reports whether a part of the variance that has d of the residuals' degrees of freedom is large,
// and more than any of so many tests has by chance. A few large residuals among many small ones, as
// those of rare events, count as many degrees of freedom as normal ones of the same kurtosis. If all
// lie within one standard deviation, they only show how sure the prior lets a fit be.
func (s *Spread) clear(part, d float64, t ShareTest) bool {
	n, _, variance, fourth := s.moments()
	freedom := min(t.Freedom, n, 3*n*variance*variance/fourth)
	return part > curved+wayRows*float64(t.Learnt)/n && (variance > usual || part*variance > curvedBy) && s.most > 1 && d >= 1 && freedom >= curveFreedom &&
		mathext.RegIncBeta((freedom-d)/2, d/2, max(0, 1-part))*float64(t.Tests) < curvedClearly
}

// CurveFreedom reports whether residuals with so many degrees of freedom can show a curve.
func CurveFreedom(n float64) bool { return n >= curveFreedom }

// Add adds a row's number x, relative to about its mean and standard deviation, its cell and Residual.
func (c *Curve) Add(cell int, x, r float64) {
	c.rows[cell]++
	c.x[cell] += x
	c.residual[cell] += r
	c.xx += x * x
	c.xr += x * r
	c.spread.Add(r)
}

// Merge adds the rows of o.
func (c *Curve) Merge(o *Curve) {
	for k := range c.rows {
		c.rows[k], c.x[k], c.residual[k] = c.rows[k]+o.rows[k], c.x[k]+o.x[k], c.residual[k]+o.residual[k]
	}
	c.xx, c.xr = c.xx+o.xx, c.xr+o.xr
	c.spread.Merge(o.spread)
}

// Share returns the part of the residuals' variance that lies between cells, once their line is
// subtracted, which a prior may have kept the fit from, and its degrees of freedom.
func (c *Curve) Share() (share, freedom float64) {
	n, r, variance, _ := c.spread.moments()
	x := 0.0
	for _, s := range c.x {
		x += s
	}
	x /= n
	slope := (c.xr - n*x*r) / (c.xx - n*x*x)
	if !(math.Abs(slope) <= math.MaxFloat64) {
		slope = 0
	}
	for k, rows := range c.rows {
		if rows > 0 {
			s := c.residual[k] - rows*r - slope*(c.x[k]-rows*x)
			share += s * s / rows
			freedom++
		}
	}
	return share / (n*variance - slope*(c.xr-n*x*r)), freedom - 2
}

// Clear returns Share if it is large and clear, and otherwise 0.
func (c *Curve) Clear(t ShareTest) float64 {
	share, d := c.Share()
	if !c.spread.clear(share, d, t) {
		return 0
	}
	return share
}

// CurveNote returns the sentence about the column that residuals follow for that share; of says whose
// they are, as " of class a".
func CurveNote(of, column string, share float64) string {
	return fmt.Sprintf("residuals%s follow column %s otherwise than by a line, for %.2g of their variance, so that predictions are wrong in parts of its range: "+
		"give its square or its logarithm beside it, or intervals of it as text", of, column, share)
}

// Cross sums residuals in the cells of two columns, to find whether they follow both together, otherwise
// than by a sum of what each says. The zero value has no rows.
type Cross struct {
	rows, residual [CrossCells][CrossCells]float64
}

// Add adds a row's cells and Residual.
func (c *Cross) Add(a, b uint8, r float64) {
	c.rows[a][b]++
	c.residual[a][b] += r
}

// Merge adds the rows of o, whose cells (a, b) are (as[a], bs[b]).
func (c *Cross) Merge(o *Cross, as, bs *[CrossCells]uint8) {
	for a, to := range as {
		for b, and := range bs {
			c.rows[to][and] += o.rows[a][b]
			c.residual[to][and] += o.residual[a][b]
		}
	}
}

// Transposed returns the Cross of the same rows with the columns in the other order.
func (c *Cross) Transposed() *Cross {
	var t Cross
	for a := range c.rows {
		for b := range c.rows[a] {
			t.rows[b][a], t.residual[b][a] = c.rows[a][b], c.residual[a][b]
		}
	}
	return &t
}

// Share returns the part of the variance of the residuals, s, that lies between cells, and that part of
// it which is left of an effect of each cell of either column, such as a line, a curve, or the mean of
// a level has: the sum of squares of the interaction in an unbalanced two-way analysis of variance
// (Yates 1934, Journal of the American Statistical Association 29). Its degrees of freedom are too few
// if the cells with rows fall into parts that share none of either column.
func (c *Cross) Share(s *Spread) (share, interaction, freedom float64) {
	n, mean, variance, _ := s.moments()
	effect := c.effects(mean)
	freedom = 1
	var in [2][CrossCells]bool
	for a := range c.rows {
		for b, rows := range c.rows[a] {
			if rows == 0 {
				continue
			}
			r := c.residual[a][b] - rows*mean
			share += r * r / rows
			r -= rows * (effect[0][a] + effect[1][b])
			interaction += r * r / rows
			freedom++
			in[0][a], in[1][b] = true, true
		}
	}
	for k := range in {
		for _, is := range in[k] {
			if is {
				freedom--
			}
		}
	}
	return share / (n * variance), interaction / (n * variance), freedom
}

// Clear returns the share between cells of the residuals s, and that of the interaction, if this is
// large and clear, and otherwise 0.
func (c *Cross) Clear(s *Spread, t ShareTest) (share, interaction float64) {
	share, interaction, d := c.Share(s)
	if !s.clear(interaction, d, t) {
		return 0, 0
	}
	return share, interaction
}

// effects are those of the cells of either column by least squares, one column after the other until
// they stay, or long enough for columns that nearly determine each other.
func (c *Cross) effects(mean float64) (effect [2][CrossCells]float64) {
	for range 100 {
		moved := 0.0
		for k := range effect {
			var sum, n [CrossCells]float64
			for a := range c.rows {
				for b, rows := range c.rows[a] {
					own, other := a, b
					if k == 1 {
						own, other = b, a
					}
					sum[own] += c.residual[a][b] - rows*(mean+effect[1-k][other])
					n[own] += rows
				}
			}
			for a := range sum {
				if n[a] > 0 {
					to := sum[a] / n[a]
					moved = max(moved, math.Abs(to-effect[k][a]))
					effect[k][a] = to
				}
			}
		}
		if moved < 1e-4 { // of residuals, which are about 1
			break
		}
	}
	return effect
}

// CrossNote returns the sentence about the two columns that residuals, of what CurveNote says, follow
// for that share.
func CrossNote(of, a, b string, share float64) string {
	return fmt.Sprintf("residuals%s follow columns %s and %s together, for %.2g of their variance, as if the effect of one depended on the other: "+
		"give their interaction as well, in the way of 'u:v': {u: u, v: v}", of, a, b, share)
}

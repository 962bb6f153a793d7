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

// A note is made if residuals follow a column, or two, for a part curved of their variance, if that is
// curvedBy of the variance that the likelihood expects, and if it has a probability below curvedClearly
// among all columns and pairs. Below curveFreedom degrees of freedom there is none.
const (
	curved        = 0.25
	curvedBy      = 0.1
	curvedClearly = 1e-6
	curveFreedom  = 3 * CurveCells
)

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

// Clear reports whether a share of the variance that has d of the residuals' degrees of freedom is more
// than any of so many tests has by chance. A few large residuals among many small ones, as those of
// rare events, count as many degrees of freedom as normal ones of the same kurtosis. If all lie within
// one standard deviation, as those of separated responses do, they only show how sure the prior lets a
// fit be.
func (s *Spread) Clear(share, d, freedom float64, tests int) bool {
	n, _, variance, fourth := s.moments()
	freedom = min(freedom, n, 3*n*variance*variance/fourth)
	return share > curved && share*variance > curvedBy && s.most > 1 && d >= 1 && freedom >= curveFreedom &&
		mathext.RegIncBeta((freedom-d)/2, d/2, max(0, 1-share))*float64(tests) < curvedClearly
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

// Clear returns Share if it is clear by Spread.Clear, and otherwise 0.
func (c *Curve) Clear(freedom float64, tests int) float64 {
	share, d := c.Share()
	if !c.spread.Clear(share, d, freedom, tests) {
		return 0
	}
	return share
}

// CurveNote returns the sentence about the column that residuals follow for that share.
func CurveNote(column string, share float64) string {
	return fmt.Sprintf("residuals follow column %s otherwise than by a line, for %.2g of their variance, so that predictions are wrong in parts of its range: "+
		"give its square or its logarithm beside it, or intervals of it as text", column, share)
}

// Cross sums residuals in the cells of two columns, to find whether they follow both otherwise than by
// a plane, or by the mean of each level. The zero value has no rows.
type Cross struct {
	rows, residual [CrossCells][CrossCells]float64
}

// Add adds a row's cells and Residual, less the lines and the means of levels of all columns.
func (c *Cross) Add(a, b uint8, r float64) {
	c.rows[a][b]++
	c.residual[a][b] += r
}

// Share returns the part of the variance of the residuals, s, that lies between cells, and its
// degrees of freedom, less those lost to lines and means of levels.
func (c *Cross) Share(s *Spread, lost int) (share, freedom float64) {
	n, mean, variance, _ := s.moments()
	for a := range c.rows {
		for b, rows := range c.rows[a] {
			if rows > 0 {
				r := c.residual[a][b] - rows*mean
				share += r * r / rows
				freedom++
			}
		}
	}
	return share / (n * variance), freedom - 1 - float64(lost)
}

// CrossNote returns the sentence about the two columns that residuals follow for that share.
func CrossNote(a, b string, share float64) string {
	return fmt.Sprintf("residuals follow columns %s and %s together, for %.2g of their variance, as if the effect of one depended on the other: "+
		"give their interaction as well, in the way of 'u:v': {u: u, v: v}", a, b, share)
}

package kernels

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/gauss"
)

const (
	// wholeTo is the number up to which a double holds every whole number.
	wholeTo = 1 << 53
	// closest is the standard deviation, in distances between neighbouring doubles, below which
	// rounding to these is a thousandth of the variance or more (1/12 of their squared distance),
	// or a column counts as constant (design.Unit).
	closest = 10
)

// CloseNote is the note on the first column of numbers beyond 2^53 that lie so close together that
// doubles lose their differences, "" for none. Whole numbers of SQL and Arrow become doubles before
// any row is learnt, so that nothing but their mean and standard deviation shows what was lost.
//
// Only a standard deviation about the mean shows it: a fit without one, as where numbers are not
// centred, has no note.
func (f *Fit) CloseNote() string {
	if !f.Intercept || f.Covariance.Form != gauss.Full && f.Covariance.Form != gauss.Arrowhead {
		return ""
	}
	for k := range f.Columns {
		c := &f.Columns[k]
		size := math.Abs(c.Center)
		if c.Kind != NumberColumn || c.Parts != "" || !(size >= wholeTo) || math.IsInf(size, 1) {
			continue
		}
		apart := math.Nextafter(size, math.Inf(1)) - size
		constant := math.Abs(c.Scale-size) <= 2*apart // the divisor of equal numbers is their size
		if !constant && !(c.Scale <= closest*apart) {
			continue
		}
		sign := "-"
		if c.Center < 0 {
			sign = "+"
		}
		return fmt.Sprintf("the numbers of column %s, about %.4g, are rounded to multiples of %.6g, which loses differences as small as theirs: subtract a constant in SQL before the fit, as in %s %s %.0f", c.Name, c.Center, apart, c.Name, sign, size)
	}
	return ""
}

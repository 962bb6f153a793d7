package kernels

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/gauss"
)

// farLeaf is the ratio of mean to standard deviation of a column from which the mean matters.
const farLeaf = 1

// LeafNote is the note on numbers far from 0 whose weights are leaves of an arrowhead, "" for none.
// Such numbers are divided by their standard deviation but not centred: a leaf contributes nothing
// to the intercept. For one alone the arrowhead keeps the correlation of its weight with the
// intercept; two or more are also correlated with each other, which leaves lose, and their standard
// deviations are too small by up to the square root of 1 + mean²/variance.
func (f *Fit) LeafNote() string {
	if f.Covariance.Form != gauss.Arrowhead || !f.Intercept || !f.Standardized() {
		return ""
	}
	far := map[string]*FitColumn{}
	for k := range f.Columns {
		if c := &f.Columns[k]; c.Kind == NumberColumn && c.Scale > 0 && math.Abs(c.Center) > farLeaf*c.Scale {
			far[c.Name] = c
		}
	}
	if len(far) < 2 {
		return ""
	}
	a := f.Covariance.Arrow()
	var worst *FitColumn
	many := 0
	for k, b := range f.Beliefs {
		c := far[b.Feature]
		if c == nil || b.Variance == 0 || a.Row(k)[0] != -1 {
			continue
		}
		if many++; worst == nil || math.Abs(c.Center)/c.Scale > math.Abs(worst.Center)/worst.Scale {
			worst = c
		}
	}
	if many < 2 {
		return ""
	}
	return fmt.Sprintf("covariance 'arrowhead' does not centre numbers beyond the first columns, and %d of these have their means far from 0 (%.100s: mean %.4g, deviation %.3g): their weights, "+
		"with the intercept, are too certain and may be far off; subtract the means, or use covariance: 'full'", many, worst.Name, worst.Center, worst.Scale)
}

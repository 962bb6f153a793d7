package kernels

import (
	"fmt"
	"math"
)

// FarMean is the number of standard deviations of the weight of a missing number's absence from
// which a status says that the mean which it stood for has moved.
const FarMean = 3

// MovedMean is the note on a column of f, a fit of p, whose missing numbers stood for another mean
// in the fit that it continues: the weight of their absence belongs to that, predictions take the
// mean of all rows; "" for none.
func (p *Problem) MovedMean(f *Fit) string {
	if p.Start == nil || p.Drifts() || p.Options.AutoNoise || len(f.Classes) > 0 {
		return ""
	}
	var weights map[string]Weight
	most, of := 0.0, ""
	for _, c := range p.Start.Columns {
		now := f.Number(c.Name)
		if now == nil || now.Missing == 0 || now.Center == c.Center || !c.hasMissing() {
			continue
		}
		if weights == nil {
			weights = make(map[string]Weight, len(f.Beliefs))
			for _, b := range f.Beliefs {
				weights[b.Feature] = b.Weight
			}
		}
		slope, null := weights[c.Name], weights[c.Name+IsNull]
		d := math.Abs(slope.Mean*(now.Center-c.Center)) * float64(c.Missing) / float64(now.Missing)
		if d > max(most, FarMean*math.Sqrt(null.Variance)) {
			most, of = d, c.Name
		}
	}
	if of == "" {
		return ""
	}
	return fmt.Sprintf("missing numbers of column %.100q stood for another mean in the fit that is continued: the predictor of rows without it is off by about %.3g; fit all rows at once, or write the mean in place of missing numbers", of, most)
}

// hasMissing reports whether c is a column of numbers of which some are missing.
func (c *FitColumn) hasMissing() bool {
	return c.Kind == NumberColumn && c.Missing > 0 && c.N > c.Missing && !math.IsNaN(c.Center)
}

// MissingMean is the mean for which missing numbers of a column stood in f, which may be nil, and
// the number of their rows; 0, 0 for none.
func (f *Fit) MissingMean(column string) (mean, rows float64) {
	if c := f.Number(column); c != nil && c.hasMissing() {
		return c.Center, float64(c.Missing)
	}
	return 0, 0
}

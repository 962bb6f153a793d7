package kernels

import (
	"fmt"
	"math"
)

// A note is made of at least sampledRows rows whose weights add up to no whole number and are sampled
// or more on average: numbers of alike rows are whole, relative weights about 1.
const (
	sampledRows = 50
	sampled     = 5
)

// SamplingNote is the note on so many rows of m with weights that, by their total, are those of a
// sample, each for the number of units that its row stands for; "" if they do not look like it. A row
// of weight w counts as w rows. Weights may also be the inverses of variances, which is right if the
// dispersion is given, but not if it is learnt from their total.
func SamplingNote(m *Model, rows, total float64) string {
	t, or := m.Lik.Traits(), ""
	mean := total / rows
	if learnt := m.Options.AutoDispersion || m.Options.AutoShape; learnt && !t.Counts {
		or = ", or the inverses of variances,"
	} else if !(t.Binary || t.Trials || t.Counts) {
		return ""
	}
	if rows < sampledRows || mean < sampled || total == math.Trunc(total) || math.IsInf(total, 1) {
		return ""
	}
	return fmt.Sprintf("the weights of %.0f rows add up to %.4g, and each row counts as so many: if they are those of a sample, which say how many units a row stands for%s "+
		"standard deviations are too small by a factor of about %.3g; the weight divided by its mean, %.4g, takes rows for rows", rows, total, Or(or, ","), math.Sqrt(mean), mean)
}

// SamplingNote is the note on the weights of p's rows (SamplingNote).
func (p *Problem) SamplingNote(*Fit) string {
	if p.Lik == nil || p.Weight == nil || p.Count != nil || p.within != nil {
		return ""
	}
	rows, total := 0.0, 0.0
	for _, w := range p.Weight {
		if w > 0 {
			rows, total = rows+1, total+w
		}
	}
	return SamplingNote(p.Model, rows, total)
}

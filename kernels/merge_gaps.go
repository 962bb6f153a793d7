package kernels

import (
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
)

// mostShifted is the number of weights up to which other forms are expanded to full covariances if
// their missing numbers stand for different means.
const mostShifted = 500

// gap is a column of numbers of which some rows have none: the features of its weight and of the
// weight of its absence, and the mean of all rows, for which a missing number stands in the product.
type gap struct {
	column, null string
	center       float64
}

// gaps returns those of the product.
func (m *fitMerge) gaps() (out []gap) {
	for _, c := range m.out.Columns {
		if c.Kind == NumberColumn && c.Missing > 0 && !math.IsNaN(c.Center) {
			out = append(out, gap{c.Name, c.Name + IsNull, c.Center})
		}
	}
	return out
}

// shifts returns how far the means for which missing numbers stand in f lie from those in the
// product, by gap; nil if none does or if no row of f lacks a number.
func (m *fitMerge) shifts(f *Fit, gaps []gap) (out []float64) {
	for i, g := range gaps {
		k := slices.IndexFunc(f.Columns, func(c FitColumn) bool { return c.Name == g.column })
		if k < 0 || math.IsNaN(f.Columns[k].Center) || f.blankColumn(&f.Columns[k]) {
			continue
		}
		c, missing := &f.Columns[k], int64(0)
		if j := slices.IndexFunc(m.start.Columns, func(c FitColumn) bool { return c.Name == g.column }); j >= 0 {
			missing = m.start.Columns[j].Missing
		}
		if d := c.Center - g.center; c.Missing > missing && d != 0 {
			if out == nil {
				out = make([]float64, len(gaps))
			}
			out[i] = d
		}
	}
	return out
}

// shifted reports whether the missing numbers of a part stand for other means than in the product.
func (m *fitMerge) shifted() bool {
	gaps := m.gaps()
	return len(m.fits) > 1 && slices.ContainsFunc(m.fits, func(f *Fit) bool { return m.shifts(f, gaps) != nil })
}

// atMeans changes the posteriors parts, over the weights of names, to those of missing numbers that
// stand for the means of all rows. A row without a number has the predictor w c + u, where c is the
// mean in its part: with the mean m of all rows the weight of its absence is u + (c - m) w. That
// holds for what the rows say; the prior, which is the k-th part's, stays. logC is the change of the
// log evidence.
func (m *fitMerge) atMeans(names []string, parts []*gauss.Normal, prior func(k int) (*gauss.Normal, error)) (logC float64, err error) {
	gaps := m.gaps()
	if len(gaps) == 0 || !slices.ContainsFunc(parts, func(g *gauss.Normal) bool {
		return g.Form == gauss.Full || g.Form == gauss.Arrowhead || g.Form == gauss.LowRank && len(names) <= mostShifted
	}) {
		return 0, nil
	}
	place := make(map[string]int, len(names))
	for j, name := range names {
		place[name] = j
	}
	for k, f := range m.fits {
		shift := m.shifts(f, gaps)
		if shift == nil {
			continue
		}
		p, err := prior(k)
		if err != nil {
			return 0, err
		}
		from, err := moveGaps(p, place, gaps, shift)
		if err != nil {
			return 0, err
		}
		to, err := moveGaps(parts[k], place, gaps, shift)
		if err != nil {
			return 0, err
		}
		var lacks float64
		if parts[k], lacks, err = gauss.Product(from, []*gauss.Normal{to, p}); err != nil {
			return 0, err
		}
		logC += lacks
	}
	m.moved = true
	return logC, nil
}

// moveGaps returns the distribution of weights of g whose missing numbers stood for means larger by
// shift.
func moveGaps(g *gauss.Normal, place map[string]int, gaps []gap, shift []float64) (*gauss.Normal, error) {
	full, err := g.ToFull()
	if err != nil {
		return nil, err
	}
	mean, l := slices.Clone(full.Mean), full.L.Clone()
	for i, g := range gaps {
		j, ok := place[g.column]
		null, has := place[g.null]
		if !ok || !has || shift[i] == 0 { // a known weight
			continue
		}
		mean[null] += shift[i] * mean[j]
		dense.Axpy(shift[i], l.Row(j)[:j+1], l.Row(null)[:j+1]) // a column precedes its absence: l stays a lower triangle
	}
	return gauss.NewFull(mean, l), nil
}

// meansNote says of which column the missing numbers stand for means too far from that of all rows,
// if the form of the product does not allow for them.
func (m *fitMerge) meansNote() string {
	const far = 2 // standard deviations of the weight of absence
	if m.moved {
		return ""
	}
	gaps := m.gaps()
	weight := func(name string) (w Weight) {
		if k := slices.IndexFunc(m.out.Beliefs, func(b Belief) bool { return b.Feature == name }); k >= 0 {
			w = m.out.Beliefs[k].Weight
		}
		return w
	}
	most, of := 0.0, ""
	slope, least := make([]float64, len(gaps)), make([]float64, len(gaps))
	for i, g := range gaps {
		slope[i], least[i] = weight(g.column).Mean, far*math.Sqrt(weight(g.null).Variance)
	}
	for _, f := range m.fits {
		for i, shift := range m.shifts(f, gaps) {
			if d := math.Abs(shift * slope[i]); d > max(most, least[i]) {
				most, of = d, gaps[i].column
			}
		}
	}
	if of == "" {
		return ""
	}
	return fmt.Sprintf("missing numbers of column %.100q stand for its mean in each part, and the means differ: the predictor of rows without it is off by up to %.3g; fit the parts with covariance: 'full', or %v", of, most, ErrApart)
}

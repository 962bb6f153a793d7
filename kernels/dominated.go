package kernels

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"

	"github.com/bglm/bglm/kernels/lik"
)

// A single response leads all rows if it makes up Dominating of all squared residuals, or of all
// responses that are not negative, and the others, worth at least DominatedFrom rows or counts above
// 0, because fewer hardly show how they vary, give any as far a probability below Impossible.
const (
	Dominating    = 0.5
	DominatedFrom = 5
	Impossible    = 1e-6
)

// Dominated is the note on a single response of f, a fit of p whose dispersion or size was learnt,
// that makes up most of the squared residuals, or of the counts, and that the other rows make all
// but impossible; "" if there is none. Means of all rows follow it, and standard deviations are its
// distance. Heavy tails of many rows are not meant: means stand them.
//
// Cost: O(non-zeros); for a count above half of the sum 50 log likelihoods of each row.
func (p *Problem) Dominated(f *Fit) string {
	if p.Lik == nil || p.Count != nil || p.within != nil || p.N < 2 || p.Drifts() {
		return ""
	}
	t := p.Lik.Traits()
	squares := t.Homoscedastic && p.Options.AutoDispersion
	if !squares && !(t.Counts && p.Options.AutoShape) {
		return ""
	}
	d := &domination{p: p, b: p.Batch(), eta: p.predictorsAt(f)}
	size := func(i int) float64 {
		o := d.b.Obs(i)
		if !squares {
			return o.Weight * o.Y
		}
		r := o.Y - p.Lik.Response(d.eta[i])
		return o.Weight * r * r
	}
	most := 0.0
	for i := range p.N {
		p.Stop.Row(i)
		s := size(i)
		if d.total += s; s > most {
			most, d.at = s, i
		}
	}
	if !(most > Dominating*d.total) || math.IsInf(d.total, 1) {
		return ""
	}
	d.part = most / d.total
	for i := range p.N {
		w := d.b.Obs(i).Weight
		if w > 0 {
			d.rows++
		}
		if i != d.at {
			d.weight, d.square = d.weight+w, d.square+w*w
		}
	}
	one := d.b.Obs(d.at).Y
	switch {
	case squares && d.residual()*d.rows < Impossible:
		return fmt.Sprintf("one response, %.6g, makes up %.2g of the squared residuals: means and standard deviations "+
			"of all rows follow it; look at it, or take studentt", one, d.part)
	case !squares && d.count()*d.rows < Impossible:
		return fmt.Sprintf("one response, %.6g, makes up %.2g of all counts, and the others make it all but impossible: means, "+
			"standard deviations and the shape of all rows follow it; look at it", one, d.part)
	}
	return ""
}

// domination is one row beside the others.
type domination struct {
	p              *Problem
	b              *Batch
	eta            []float64
	at             int     // the row
	total, part    float64 // of the sum, and its part
	rows           float64 // that count
	weight, square float64 // sums of the weights of the others, and of their squares
}

// alike is the number of equal rows that the others are worth.
func (d *domination) alike() float64 { return d.weight * d.weight / d.square }

// residual returns the probability of a residual as large, by Student's t from those of the others;
// 1 if these are too few.
func (d *domination) residual() float64 {
	free := d.alike() - float64(d.p.P)
	if !(free >= DominatedFrom) {
		return 1
	}
	r := d.b.Obs(d.at).Y - d.p.Lik.Response(d.eta[d.at])
	variance := d.total * (1 - d.part) / d.weight * d.alike() / free
	return mathext.RegIncBeta(free/2, 0.5, free/(free+r*r/variance))
}

// count returns the probability that a count makes up as much of the sum of all, each relative to
// its exposure, if all rows are alike; 1 if the others are too few. The fit's means are of no use:
// they bend towards that count. Were they gamma distributed, the part of one would have a beta
// distribution. The shape is that of the others less three of its standard errors, whose logarithm
// has about the variance 1/n for n counts above 0.
func (d *domination) count() float64 {
	exposure := func(i int) float64 {
		if d.p.Offset == nil {
			return 0
		}
		return d.p.Offset[i]
	}
	size, mean, ok := lik.SizeOfOthers(d.p.Lik, d.p.N, d.at, func(i int) (lik.Obs, float64) {
		d.p.Stop.Row(i)
		return d.b.Obs(i), exposure(i)
	})
	if !ok {
		return 1
	}
	relative := func(i int) float64 { return d.b.Obs(i).Y / math.Exp(exposure(i)) }
	above, sum := 0.0, 0.0
	for i := range d.p.N {
		if o := d.b.Obs(i); i != d.at && o.Weight > 0 {
			sum += o.Weight * relative(i)
			if o.Y > 0 {
				above++
			}
		}
	}
	if above < DominatedFrom {
		return 1
	}
	shape := 1 / (math.Exp(3/math.Sqrt(above))/size + 1/mean)
	rest := sum / d.weight * d.alike()
	return mathext.RegIncBeta(d.alike()*shape, shape, rest/(rest+relative(d.at)))
}

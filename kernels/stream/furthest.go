package stream

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// furthest sets the response of largest size apart from the others: the size of a count or of a
// gamma response is itself, that of a gaussian one its squared distance from its prediction. A
// single such response leads means and standard deviations of all rows, and their mean alone
// follows it, too.
type furthest struct {
	y, weight, size float64
	others          struct{ weight, squares, sum, square float64 } // sums of their weights and the weights' squares, and of the sizes and their squares
}

// add adds a response of this size. Others keep one that was foreseen.
func (c *furthest) add(y, weight, size float64, foreseen bool) {
	if !foreseen && size > c.size {
		c.y = y
		weight, c.weight = c.weight, weight
		size, c.size = c.size, size
	}
	o := &c.others
	o.weight += weight
	o.squares += weight * weight
	o.sum += weight * size
	o.square += weight * size * size
}

func (c *furthest) merge(o furthest) {
	c.add(o.y, o.weight, o.size, false)
	p, q := &c.others, o.others
	p.weight, p.squares, p.sum, p.square = p.weight+q.weight, p.squares+q.squares, p.sum+q.sum, p.square+q.square
}

// foreseenBy returns whether a response y > 0 is no further above its prediction than three times
// its expectation at three standard deviations of the predictor N(m, v).
func foreseenBy(y, m, v float64) bool { return math.Log(y/3) <= m+3*math.Sqrt(v) }

// note returns the sentence about a response that makes up most of the sizes and that the others make
// all but impossible, "" if there is none.
func (c *furthest) note(of *likelihoodTraits) string {
	o := c.others
	part := c.weight * c.size / (c.weight*c.size + o.sum)
	alike := o.weight * o.weight / o.squares // equal rows that the others are worth
	if !(part > kernels.Dominating) || !(alike >= kernels.DominatedFrom) || !(o.sum > 0) {
		return ""
	}
	mean, chance, what, follows := o.sum/o.weight, 1.0, "the squared residuals", "means and standard deviations"
	if of.homoscedastic { // Student's t
		chance = mathext.RegIncBeta(alike/2, 0.5, alike/(alike+c.size/mean))
	} else {
		// Were the responses gamma distributed, the part of one would have a beta distribution. The
		// shape is that of their moments, less three of its standard errors.
		variance := math.Max(o.square/o.weight-mean*mean, 0) * alike / (alike - 1)
		if !(variance > 0) {
			variance = mean * mean / alike
		}
		shape := mean * mean / variance
		shape *= math.Exp(-3 * math.Sqrt(2*(1+1/shape)/alike))
		chance = mathext.RegIncBeta(alike*shape, shape, alike*mean/(alike*mean+c.size))
		if what = "the sum of all responses"; of.sized {
			follows = "means, standard deviations and the shape"
		}
	}
	if !(chance*(alike+1) < kernels.Impossible) {
		return ""
	}
	return fmt.Sprintf("one response, %.6g, makes up %.2g of %s, and the others make it all but impossible: %s of all rows follow it; look at it", c.y, part, what, follows)
}

// meet adds response y, which is o in a unit of this scale. Its likelihood there is l, and its
// predictor was N(m, v) before it came.
func (c *furthest) meet(l lik.Likelihood, of *likelihoodTraits, y, o lik.Obs, scale, m, v float64) {
	switch {
	case of.positive:
		c.add(y.Y, y.Weight, y.Y, foreseenBy(y.Y, m, v))
	case of.homoscedastic:
		mean, variance := l.Predict(m, v)
		e := (o.Y - mean) * scale
		if size := e * (e * (l.(lik.Dispersed).Dispersion() / variance)); special.Finite(size) { // rows that the weights cannot predict yet count less
			c.add(y.Y, y.Weight, size, false)
		}
	}
}

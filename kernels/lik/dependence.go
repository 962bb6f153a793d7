package lik

import (
	"fmt"
	"math"
)

// Dependence sums how rows depart from their predictions together with the row before them, as those
// of a series, those of a group that the columns do not name, and repeated ones do. The zero value
// has no rows.
//
// It is Durbin and Watson's test (1950, Biometrika 37) for any likelihood, by its Residual: (y - s)/σ
// for gaussian. If rows are independent, the products of neighbours are uncorrelated and, about the
// mean, have mean 0.
type Dependence struct {
	n       float64 // rows
	sum     float64 // of the residuals; not 0 if the family is another than theirs
	squares float64 // sum of their squares
	product float64 // sum of the products of neighbours
	square  float64 // sum of the squares of these
	last    float64 // residual

	// Monotone runs of responses: rows may lie in the order of their responses, which is no fault
	// of the fit.
	response, runs float64
	way            int8 // 1 while responses rise, -1 while they fall, 0 while they are equal
}

// farRow is the largest residual: none decides alone, neither an outlier nor a row that came before
// a stream knew its noise.
const farRow = 3

// Residual is that of a row, at most 3, from slope and curvature -d²/ds² of its log likelihood in the
// predictor, or those of log Z in its mean before the row is learnt.
func Residual(slope, curvature float64) float64 {
	if r := slope / math.Sqrt(curvature); math.Abs(r) < farRow { // NaN beyond an inflection
		return r
	}
	return math.Copysign(farRow, slope)
}

// Add adds a row, unless it has no weight: its observation and Residual.
func (d *Dependence) Add(o Obs, r float64) {
	if !(o.Weight > 0) {
		return
	}
	y := o.Y
	if o.Trials > 0 {
		y /= o.Trials
	}
	if d.n == 0 {
		d.runs = 1
	} else {
		d.turn(y)
		by := d.last * r
		d.product, d.square = d.product+by, d.square+by*by
	}
	d.sum, d.squares = d.sum+r, d.squares+r*r
	d.response, d.last = y, r
	d.n++
}

// turn counts the run that ends before response y, if that turns back.
func (d *Dependence) turn(y float64) {
	way := int8(0)
	switch {
	case y > d.response:
		way = 1
	case y < d.response:
		way = -1
	default:
		return
	}
	if d.way == -way {
		d.runs++
		way = 0 // the next run begins here
	}
	d.way = way
}

// Merge adds rows that came after those of d; that the first one of them has a neighbour among these
// does not count.
func (d *Dependence) Merge(o *Dependence) {
	d.n, d.runs, d.sum, d.squares = d.n+o.n, d.runs+o.runs, d.sum+o.sum, d.squares+o.squares
	d.product, d.square = d.product+o.product, d.square+o.square
	d.last, d.response, d.way = o.last, o.response, o.way
}

// A note is made of neighbours that correlate by so much, by that many standard errors, unless
// monotone runs of responses have that many rows on average. The root of the sum of squares is the
// standard error, whatever the tails: the sum of products that are symmetric exceeds it 4 times with
// a probability of at most exp(-4²/2) (de la Peña, Klass and Lai 2004, Annals of Probability 32).
const (
	dependent        = 1. / 3
	dependentClearly = 4
	sortedRun        = 20
)

// around returns the sums of the products of neighbours and of the squares about the mean residual.
func (d *Dependence) around() (product, squares float64) {
	mean := d.sum / d.n
	return d.product - d.sum*mean, d.squares - d.sum*mean
}

// Correlation is that of the residuals of neighbours.
func (d *Dependence) Correlation() float64 {
	product, squares := d.around()
	return product / squares
}

// Independent is the part of the rows that says as much of the mean of slowly changing residuals as
// independent ones: (1 - c)/(1 + c) if neighbours correlate by c above 0 (Bartlett 1946, Supplement to
// the Journal of the Royal Statistical Society 8), unless they were sorted by their responses.
func (d *Dependence) Independent() float64 {
	if c := d.Correlation(); c > 0 && !d.Sorted() {
		return max(0, 1-c) / (1 + c)
	}
	return 1
}

// Sorted reports whether rows lie in the order of their responses, if only in parts.
func (d *Dependence) Sorted() bool { return d.n >= sortedRun*d.runs }

// Clear reports whether rows clearly depend on those before them.
func (d *Dependence) Clear() bool {
	product, squares := d.around()
	return product > dependent*squares && product > dependentClearly*math.Sqrt(d.square) && !d.Sorted()
}

// Note returns the sentence about rows that clearly depend on those before them; "" if they do not.
func (d *Dependence) Note() string {
	if !d.Clear() {
		return ""
	}
	c := d.Correlation()
	return fmt.Sprintf("residuals of rows that follow each other correlate by %.2g: rows of a series or of a group need what they share as a column "+
		"(the response before, a trend, the group), repeated ones a weight; until then standard deviations are too small, by a factor of up to %.2g if columns change slowly, and predictions of later rows can be far off", c, math.Sqrt((1+c)/(1-c)))
}

package lik

import (
	"fmt"
	"math"
)

// Quarters adds up in which quarter of their distribution responses lie: a quarter of the rows in
// each if the distribution is theirs. A step of a count is spread over what it reaches across, as in
// a nonrandomised histogram of probability integral transforms (Czado, Gneiting and Held 2009,
// Biometrics 65). The zero value has no rows.
type Quarters struct {
	n   float64    // rows
	sum [4]float64 // of the part of each that lies in a quarter
}

// Add adds a row whose response has the probabilities below and upTo of less, and of no more.
func (q *Quarters) Add(below, upTo float64) {
	q.n++
	for k := range q.sum {
		lo, hi := float64(k)/4, float64(k+1)/4
		part := (min(upTo, hi) - max(below, lo)) / (upTo - below)
		if !(upTo > below) { // of a continuous response
			if part = 0; below >= lo && below < hi || k == 3 && below == 1 {
				part = 1
			}
		}
		q.sum[k] += max(part, 0)
	}
}

// A note is made if a quarter has so much more or less than its part of the rows, and if that has a
// probability below exp(-quarterClearly), by Chernoff's bound for numbers between 0 and 1 (Hoeffding
// 1963, Journal of the American Statistical Association 58).
const (
	quarterOff     = 0.1
	heavyOff       = 0.07 // of Student's t, which adapts to skewed responses by heavy tails
	relativeOff    = 0.15 // of gamma, of which few values may take the places of many
	quarterClearly = 12.5
)

var quarterNames = [4]string{"lowest", "second", "third", "highest"}

// Note returns the sentence about responses, of l, that are clearly distributed otherwise; "" if they may
// be so.
func (q *Quarters) Note(l Likelihood) string {
	most, at := quarterOff, -1
	switch t := l.Traits(); {
	case t.Heavy():
		most = heavyOff
	case t.Relative:
		most = relativeOff
	}
	for k, sum := range q.sum {
		mean := sum / q.n
		if off := math.Abs(mean - 0.25); off > most && q.n*(part(mean, 0.25)+part(1-mean, 0.75)) > quarterClearly {
			most, at = off, k
		}
	}
	if at < 0 {
		return ""
	}
	what, advice := "responses", "if those near 0 have a cause of their own, fit them apart"
	switch t := l.Traits(); {
	case t.Counts:
		what, advice = "counts", "if zeros have a cause of their own, fit y > 0 and the counts above 0 each by itself"
	case t.Heavy():
		advice = "take gamma or the logarithm for skewed ones, whose mean is not where most of them lie"
	}
	return fmt.Sprintf("%.2g of the rows, not 0.25, lie in the %s quarter of what %s expects of them: %s vary otherwise than it says, and so do intervals of new ones; %s",
		q.sum[at]/q.n, quarterNames[at], l.Family(), what, advice)
}

package kernels

import (
	"math"
	"strconv"
)

// ScalePrior is v times q: a number of a prior, in other units. A positive one stays within the
// range of positive numbers: a flat prior stays flat, and a variance above 0 stays above 0.
func ScalePrior(v, q float64) float64 { return inRange(v, v*q) }

func inRange(v, w float64) float64 {
	if v > 0 {
		return min(max(w, math.SmallestNonzeroFloat64), math.MaxFloat64)
	}
	return w
}

// UnscalePrior is the number u of which v is ScalePrior(u, q): among those that rounding allows the
// one of fewest digits, because priors are written by people and learnt ones are rounded
// (FewDigits).
func UnscalePrior(v, q float64) float64 {
	u := inRange(v, v/q)
	for digits := 1; digits < 17 && q != 1; digits++ {
		if near := rounded(u, digits); near*q == v {
			return near
		}
	}
	return u
}

// FewDigits rounds a learnt variance to six significant digits, far more than rows tell, so that
// UnscalePrior recovers it exactly.
func FewDigits(v float64) float64 { return rounded(v, 6) }

// rounded is v with so many significant digits.
func rounded(v float64, digits int) float64 {
	near, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil { // beyond the largest number
		return v
	}
	return near
}

package lik

import "fmt"

// Values sums residuals by the single values of a number, to find whether each of them has an effect of
// its own, as codes do: a one-way analysis of variance. The zero value has no rows.
type Values struct {
	sums   map[float64]valueSum
	spread Spread
}

type valueSum struct{ rows, residual float64 }

// rowsOfValue is the number of rows of a value, on average, from which values are compared.
const rowsOfValue = 4

// ValuesOver is the factor by which the share of values must exceed that of their Curve to be said in its
// place.
const ValuesOver = 2

// Repeated reports whether some numbers of a column, in order, repeat so often that those of all rows are
// worth comparing: on average each of them occurs twice.
func Repeated(sorted []float64) bool {
	distinct := 1
	for k, x := range sorted[1:] {
		if x != sorted[k] {
			distinct++
		}
	}
	return 2*distinct <= len(sorted)
}

// Add adds a row's number and Residual.
func (v *Values) Add(x, r float64) {
	if v.sums == nil {
		v.sums = map[float64]valueSum{}
	}
	s := v.sums[x]
	v.sums[x] = valueSum{s.rows + 1, s.residual + r}
	v.spread.Add(r)
}

// Share returns the part of the residuals' variance that lies between values beyond what it is by
// chance, that part with the latter, and its degrees of freedom.
func (v *Values) Share() (share, part, freedom float64) {
	n, mean, variance, _ := v.spread.moments()
	for _, s := range v.sums {
		d := s.residual - s.rows*mean
		part += d * d / s.rows
	}
	part, freedom = part/(n*variance), float64(len(v.sums)-1)
	return part - freedom/n, part, freedom
}

// Clear returns the share if it is large and clear, and otherwise 0: that of more values than a Curve
// has cells, each of rowsOfValue rows or more on average.
func (v *Values) Clear(t ShareTest) float64 {
	if n := len(v.sums); n <= CurveCells || float64(n*rowsOfValue) > v.spread.powers[0] {
		return 0
	}
	share, part, freedom := v.Share()
	if !(share > curved) || !v.spread.clear(part, freedom, t) {
		return 0
	}
	return share
}

// Note returns the sentence about a column whose values have effects of their own, for that share; of is
// that of CurveNote.
func (v *Values) Note(of, column string, share float64) string {
	return fmt.Sprintf("residuals%s differ between the single values of column %s, about %d in number, for %.2g of their variance, as if these were codes, "+
		"which a line has no use for: give the column as text, so that each of them has an effect of its own", of, column, len(v.sums), share)
}

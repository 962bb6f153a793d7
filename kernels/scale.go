package kernels

import (
	"fmt"
	"math"
)

// farScale is by how many times a column may be off the scale of its prior before a status
// says so.
const farScale = 1e3

// ScaleNote is the sentence about the column of numbers furthest from 1 that f has learnt as
// it is, under a prior that speaks of numbers about 1; "" for none. rms has the root mean
// square of each column of f, NaN where it does not matter; unit is that of the responses
// where the predictor is on their scale, else 1.
//
// Such a column is far from 1, and so is the deviation that its prior gives to the predictor:
// a prior variance that was chosen for its scale is no reason to speak.
func (f *Fit) ScaleNote(rms []float64, unit float64) string {
	worst, at := math.Log(farScale), -1
	for k := range f.Columns {
		c := &f.Columns[k]
		v := c.Variance
		if math.IsNaN(v) {
			v = f.Prior.Variance
		}
		if c.Kind != NumberColumn || !math.IsNaN(c.Scale) || v == 0 {
			continue
		}
		a := math.Log(rms[k])
		b := a + 0.5*math.Log(v) - math.Log(unit)
		if off := min(math.Abs(a), math.Abs(b)); a*b > 0 && off > worst && !math.IsInf(a, -1) {
			worst, at = off, k
		}
	}
	if at < 0 {
		return ""
	}
	return fmt.Sprintf("column %s is far from unit scale (root mean square %.2g), but its prior is taken as it stands: standardize: true puts the prior on the column's own scale", f.Columns[at].Name, rms[at])
}

// ScaleNote is Fit.ScaleNote of a fit of the rows.
func (r *Rows) ScaleNote(f *Fit) string {
	o := &r.Model.Options
	if o.Standardize || o.AutoPrior || len(r.counted.cols) == 0 && r.counted.schema == nil {
		return ""
	}
	at := make([]int32, r.Dict.Len())
	for j := range at {
		at[j] = -1
	}
	rms, squares := make([]float64, len(f.Columns)), make([]center, len(f.Columns))
	for k := range f.Columns {
		rms[k] = math.NaN()
		if id, ok := r.Dict.Find(f.Columns[k].Name); ok && r.Model.Start.Number(f.Columns[k].Name) == nil {
			at[id], rms[k] = int32(k), 0
		}
	}
	r.running(at, squares, true)
	for k := range rms {
		rms[k] += math.Sqrt(squares[k].mean)
	}
	unit := 1.0
	if r.Model.Lik != nil && r.Model.Lik.Traits().Located {
		unit = r.responseUnit()
	}
	return f.ScaleNote(rms, unit)
}

// responseUnit is the root mean square of the responses, 1 where all are 0.
func (r *Rows) responseUnit() float64 {
	s, n := 0.0, 0.0
	for k := range r.chunks {
		for i, y := range r.chunks[k].Y {
			rows := r.chunks[k].rows(i)
			n += rows
			s += (y*y - s) * (rows / n)
		}
	}
	return Or(math.Sqrt(s), 1)
}

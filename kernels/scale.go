package kernels

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// farScale is the factor by which a column may be off the scale of its prior before a status
// mentions it.
const farScale = 1e3

// FarFromOne reports whether a number may be why a column is off a scale near 1.
func FarFromOne(x float64) bool {
	x = math.Abs(x)
	return x > farScale || x < 1/farScale && x > 0
}

// ScaleNote is the note on the numeric column furthest from 1 that f has learnt without scaling,
// under a prior for numbers near 1; "" for none. rms has the root mean square of each column of f,
// NaN if it does not matter; unit is that of the responses if the predictor is on their scale, else
// 1.
//
// Both the column and the standard deviation that its prior gives to the predictor must be far from
// 1: a prior variance chosen for the column's scale is no reason for a note.
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
		if off := offScale(rms[k], v, unit); off > worst {
			worst, at = off, k
		}
	}
	if at < 0 {
		return ""
	}
	return fmt.Sprintf("column %s is far from unit scale (root mean square %.2g), but its prior is taken as it stands: standardize: true puts the prior on the column's own scale", f.Columns[at].Name, rms[at])
}

// offScale is the logarithm of the factor by which numbers of this root mean square are off the
// scale of a prior of variance v, 0 if the prior may have been chosen for them.
func offScale(rms, v, unit float64) float64 {
	a := math.Log(rms)
	b := a + 0.5*math.Log(v) - math.Log(unit)
	if !(a*b > 0) || math.IsInf(a, -1) {
		return 0
	}
	return min(math.Abs(a), math.Abs(b))
}

// ScaleNote is Fit.ScaleNote for a fit of the rows, including the features of maps and lists. If
// several features share a learnt prior variance, no prior is for numbers near 1: the note is given
// if one of them is that far from another. A row of weight w counts as w rows.
func (r *Rows) ScaleNote(f *Fit) string {
	if r.Dict.Len() == 0 {
		return ""
	}
	at := make([]int32, r.Dict.Len())
	var of []uint32
	standard := false // some numbers are standardised
	for id := range at {
		at[id] = -1
		measured, std := r.measured(uint32(id))
		if standard = standard || std; measured {
			at[id] = int32(len(of))
			of = append(of, uint32(id))
		}
	}
	if len(of) == 0 {
		return ""
	}
	squares := make([]center, len(of))
	if !r.weighted(at, squares, true) {
		r.running(at, squares, true)
	}
	unit := 1.0
	if r.Model.Lik != nil && r.Model.Lik.Traits().Located {
		unit = r.responseUnit()
	}
	if r.Model.Options.AutoPrior {
		return r.sharedNote(f, of, squares, standard)
	}
	rms := make([]float64, len(f.Columns))
	for k := range rms {
		rms[k] = math.NaN()
		if id, ok := r.Dict.Find(f.Columns[k].Name); ok && r.Dict.HashBits == 0 && at[id] >= 0 && f.Columns[k].Kind == NumberColumn {
			rms[k] = math.Sqrt(squares[at[id]].mean)
		}
	}
	if note := f.ScaleNote(rms, unit); note != "" {
		return note
	}
	worst, name, far := math.Log(farScale), []byte(nil), 0.0
	for k, id := range of {
		if r.Dict.NumberPlace(id) < math.MaxInt {
			continue
		}
		x := math.Sqrt(squares[k].mean)
		if off := offScale(x, f.PriorOf(r.Dict.Name(id)).Variance, unit); off > worst {
			worst, name, far = off, r.Dict.Name(id), x
		}
	}
	return f.OpenNote(name, far)
}

// measured reports whether a feature's values have a scale of their own for which its prior may not
// have been chosen, and whether they are standardised: not for the intercept, levels and what a fit
// has learnt before.
func (r *Rows) measured(id uint32) (is, standard bool) {
	m := r.Model
	if r.Dict.ColumnOf(id) > 0 {
		return false, false
	}
	name := string(r.Dict.Name(id))
	before := func(b Belief) bool { return b.Feature == name }
	if r.Dict.NumberPlace(id) < math.MaxInt {
		is = m.Start.Number(name) == nil && !(m.Options.AutoPrior && m.PriorBy.Of(name) != nil)
		return is && !m.Options.Standardize, is && m.Options.Standardize
	}
	if name == Intercept || strings.Contains(name, "=") || strings.HasSuffix(name, IsNull) {
		return false, false
	}
	return m.Start == nil && !slices.ContainsFunc(m.Priors, before), false
}

// sharedNote is ScaleNote for features of that share a learnt prior variance, with their mean
// squares; standard says that standardised numbers share it, too.
func (r *Rows) sharedNote(f *Fit, of []uint32, squares []center, standard bool) string {
	size := func(k int) float64 { return math.Sqrt(squares[k].mean) }
	low, high, worst, at := math.Inf(1), math.Inf(-1), math.Log(farScale), -1
	if standard {
		low, high = 0, 0
	}
	for k := range of {
		a := math.Log(size(k))
		if math.IsInf(a, -1) || math.IsNaN(a) {
			continue
		}
		low, high = min(low, a), max(high, a)
		if math.Abs(a) > worst {
			worst, at = math.Abs(a), k
		}
	}
	if at < 0 || high-low < math.Log(farScale) {
		return ""
	}
	name := r.Dict.Name(of[at])
	if r.Dict.NumberPlace(of[at]) == math.MaxInt {
		return f.OpenNote(name, size(at))
	}
	return fmt.Sprintf("column %s is far from unit scale (root mean square %.2g), but shares its learnt prior variance with others: standardize: true puts the prior on the column's own scale", name, size(at))
}

// OpenNote is the note on a feature of a map or a list, or on a slot, of this root mean square; ""
// without a name.
func (f *Fit) OpenNote(name []byte, rms float64) string {
	switch {
	case len(name) == 0:
		return ""
	case f.HashBits == 0:
		return fmt.Sprintf("feature %s is far from unit scale (root mean square %.2g), and features of maps and lists are taken as they are: divide it, or make it a column of a STRUCT, whose numbers are standardised", name, rms)
	}
	of := fmt.Sprintf("slot %s", name)
	for _, c := range f.Columns {
		if c.Kind == NumberColumn && string(name) == string(AppendSlot(nil, SlotOf(view(c.Name), f.HashBits))) {
			of = "column " + c.Name
		}
	}
	return fmt.Sprintf("%s is far from unit scale (root mean square %.2g), and with hash_bits numbers are taken as they are: divide it, or leave hash_bits out", of, rms)
}

// OffOpen is how far numbers of this root mean square, of a feature of a map or a list or of a slot,
// are off the scale of the prior of f, in logarithms; 0 if they are not. unit is that of the
// responses, as in ScaleNote.
func (f *Fit) OffOpen(name []byte, rms, unit float64) float64 {
	off := offScale(rms, f.PriorOf(name).Variance, unit)
	if off <= math.Log(farScale) {
		return 0
	}
	return off
}

// responseUnit is the root mean square of the responses, 1 if all are 0.
func (r *Rows) responseUnit() float64 {
	s, n := 0.0, 0.0
	for k := range r.chunks {
		for i, y := range r.chunks[k].Y {
			if rows := r.chunks[k].weight(i); rows > 0 {
				n += rows
				s += (y*y - s) * (rows / n)
			}
		}
	}
	return Or(math.Sqrt(s), 1)
}

package udf

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/udf/internal/capi"
)

// beliefCopy is a copy of a chunk's list of beliefs. The next chunk of a query mostly has the same
// list at another address, and positions found in the one then hold in the other.
type beliefCopy struct {
	name   [][2]uint64 // the two words of DuckDB's string; the second of a long one is its offset in text
	text   []byte
	weight []kernels.Weight
	valid  bool
}

// copyLimit is how many beliefs are copied at most, and copyRows how many for each row of a chunk:
// within these limits a comparison costs less than another search for the features of the rows.
const (
	copyLimit = 1 << 13
	copyRows  = 4
)

// keep copies beliefs [lo, hi) of r for a chunk of so many rows, or none if they are too many.
func (c *beliefCopy) keep(r *beliefReader, lo, hi, rows int) {
	c.name, c.text, c.weight = c.name[:0], c.text[:0], c.weight[:0]
	n := hi - lo
	if c.valid = copies(r) && n <= min(copyLimit, copyRows*rows); !c.valid {
		return
	}
	means, variances := r.mean.Floats()[lo:hi], r.variance.Floats()[lo:hi]
	for k := range n {
		a, b, short := r.feature.Inline(lo + k)
		if !short {
			b = uint64(len(c.text))
			c.text = append(c.text, r.feature.Str(lo+k)...)
		}
		c.name = append(c.name, [2]uint64{a, b})
		c.weight = append(c.weight, kernels.Weight{Mean: means[k], Variance: variances[k]})
	}
}

// same reports whether beliefs [lo, hi) of r equal the copy, bit by bit.
func (c *beliefCopy) same(r *beliefReader, lo, hi int) bool {
	n := hi - lo
	if !c.valid || n != len(c.name) || !copies(r) {
		return false
	}
	means, variances := r.mean.Floats()[lo:hi], r.variance.Floats()[lo:hi]
	for k, w := range c.weight {
		if math.Float64bits(w.Mean) != math.Float64bits(means[k]) || math.Float64bits(w.Variance) != math.Float64bits(variances[k]) {
			return false
		}
		a, b, short := r.feature.Inline(lo + k)
		if have := c.name[k]; have[0] != a || short && have[1] != b || !short && string(c.text[have[1]:have[1]+a&math.MaxUint32]) != r.feature.Str(lo+k) {
			return false
		}
	}
	return true
}

// copies reports whether the beliefs of r have plain types: VARCHAR and DOUBLE.
func copies(r *beliefReader) bool {
	return r.feature != nil && r.feature.Type == capi.Varchar && r.mean.Type == capi.Double && r.variance.Type == capi.Double
}

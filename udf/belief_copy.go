package udf

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/udf/internal/capi"
)

// beliefCopy is a list of beliefs as a chunk had it: the next chunk of a query mostly has
// the same, at another place, and what was found in the one then holds in the other.
type beliefCopy struct {
	name   [][2]uint64 // DuckDB's words of a text; a long one begins in text at the second
	text   []byte
	weight []kernels.Weight
	valid  bool
}

// copyLimit is how many beliefs are copied at most, and copyRows how many for each row of a
// chunk: to compare them costs less than to find those of its rows again.
const (
	copyLimit = 1 << 13
	copyRows  = 4
)

// keep copies beliefs [lo, hi) of r for a chunk of that many rows, or none.
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

// same says whether beliefs [lo, hi) of r are those that were copied, bit by bit.
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

// copies says whether beliefs of r are plain: texts and DOUBLEs.
func copies(r *beliefReader) bool {
	return r.feature != nil && r.feature.Type == capi.Varchar && r.mean.Type == capi.Double && r.variance.Type == capi.Double
}

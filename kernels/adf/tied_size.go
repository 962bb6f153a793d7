package adf

import (
	"math"

	"github.com/bglm/bglm/kernels/lik"
)

// Responses of two values say on which sides of the weights their rows lie, and weights that keep
// all rows on their sides may be of any size. What is absorbed of such rows under a narrow prior
// says otherwise: the Gaussians that stand for them are as narrow as what they met, and have most
// evidence near the prior of their time. It is rows to come that tell: a belief whose weights are
// too small is right more often than it says. Were the predictor e^r times as large, its mean m and
// deviation together, log Z would have the slope
//
//	α m + (α² - β) V
//
// in r at 0. Under a belief that is right the slope has the mean 0, whatever the rows, and, as the
// responses have the probabilities Z and 1 - Z, the variance slope² Z/(1 - Z) by the one that came:
// the information. The sum of squares of the slopes is less, for surprises that have not come yet
// are most of it.

// clearlySmall is by how many nats larger weights must be ahead before they are taken: two deviations
// of the slope. mostLarger is how much larger they become at once.
const (
	clearlySmall = 2.0
	mostLarger   = 2.0
	largestBase  = 1e6 // of the variance that stands for that before any row
)

// sizes says whether rows tell how large the weights are.
func (t *tied) sizes() bool {
	m := t.plan.Model
	return m.Prior.Mean == 0 && len(t.owner)+len(t.is) >= fewest && !m.NoIntercept && t.place[0] >= 0 && m.Lik.Traits().Binary
}

// noteSize adds to the hint of the size of all weights what the row last predicted says of it.
func (t *tied) noteSize(tilt lik.Tilted) {
	if !t.sizes() {
		return
	}
	slope := tilt.Alpha*t.m + (tilt.Alpha*tilt.Alpha-tilt.Beta)*t.v
	information := slope * slope / math.Expm1(-tilt.LogZ)
	if !(information >= 0 && information <= math.MaxFloat64) { // also NaN: a response that was sure, or no row
		return
	}
	t.size.slope += slope
	t.size.curvature += information
}

// enlarge makes all weights but the intercept larger, and their prior wider with them, where rows
// say clearly that they are too small and learning, which took the groups of weights from the
// variances before to those that are in force now, has not done it. What rows told becomes larger,
// too, as what sides say knows no size. The log evidence stays that of the rows as they were
// predicted.
func (s *priorSearch) enlarge(before, now []float64) {
	t, wider := s.tied, 0.0
	for _, p := range s.ps {
		wider += 0.5 * math.Log(now[p.group]/before[p.group]) / float64(len(s.ps))
	}
	t.size.slope -= t.size.curvature * max(wider, 0)
	slope, information := t.size.slope, t.size.curvature
	if !t.sizes() || t.base > largestBase || !(slope > 0) || !(slope*slope > 2*clearlySmall*information) {
		return
	}
	c := min(math.Exp(slope/information), mostLarger)
	b := t.bank[0]
	ratio := make([]float64, b.Dim())
	for j := range ratio {
		ratio[j] = c
	}
	ratio[t.place[0]] = 1
	for k := range t.owner {
		b.StretchLeaf(k, c)
	}
	b.Rescale(ratio, make([]float64, b.Dim()), -1)
	v := &variances{rest: t.plan.Model.Prior.Variance * c * c, levels: map[string]float64{}}
	if t.vars != nil {
		v.rest = t.vars.rest * c * c
		for name, own := range t.vars.levels {
			v.levels[name] = own * c * c
		}
	}
	t.setVariances(v)
	t.base *= c * c
	t.size, t.hint = hint{}, t.hint.larger(c)
	for k := range t.cols {
		t.cols[k].hint = t.cols[k].hint.larger(c)
	}
}

// larger is the hint where all weights are c times as large.
func (h hint) larger(c float64) hint { return hint{h.slope / (c * c), h.curvature / (c * c * c * c)} }

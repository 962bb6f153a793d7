package adf

import (
	"math"

	"github.com/bglm/bglm/kernels/lik"
)

// Binary responses say on which sides of a hyperplane their rows lie, and weights that put all rows
// on the right sides may have any size. What is absorbed of such rows under a narrow prior says
// otherwise: the Gaussians that approximate them are as narrow as the beliefs they met, and have
// most evidence near the prior of their time. Only rows to come show it: a belief with weights that
// are too small is right more often than it predicts. If the predictor's mean m and standard
// deviation were both e^r times as large, log Z would have the slope
//
//	α m + (α² - β) V
//
// in r at 0. Under a correct belief the slope has mean 0, whatever the rows, and, as the responses
// have probabilities Z and 1 - Z, the variance slope² Z/(1 - Z), evaluated at the observed
// response: the information. The sum of the squared slopes is less, because most of it comes from
// surprises that have not occurred yet.

// clearlySmall is by how many nats larger weights must be ahead to be adopted: two standard
// deviations of the slope. mostLarger is the largest factor of one change.
const (
	clearlySmall = 2.0
	mostLarger   = 2.0
	largestBase  = 1e6 // limit of base
)

// sizes reports whether rows can show how large the weights are.
func (t *tied) sizes() bool {
	m := t.plan.Model
	return m.Prior.Mean == 0 && len(t.owner)+len(t.is) >= fewest && !m.NoIntercept && t.place[0] >= 0 && m.Lik.Traits().Binary
}

// noteSize adds what the row last predicted says of the size of all weights to its hint.
func (t *tied) noteSize(tilt lik.Tilted) {
	if !t.sizes() {
		return
	}
	slope := tilt.Alpha*t.m + (tilt.Alpha*tilt.Alpha-tilt.Beta)*t.v
	information := slope * slope / math.Expm1(-tilt.LogZ)
	if !(information >= 0 && information <= math.MaxFloat64) { // also NaN: a response that was certain, or no row
		return
	}
	t.size.slope += slope
	t.size.curvature += information
}

// enlarge scales all weights but the intercept up, and widens their prior accordingly, if rows say
// clearly that they are too small and learning, which changed the variances of the groups from
// before to now, has not done it. What the rows contributed is scaled, too, as the sides of a
// hyperplane do not determine a size. The log evidence stays that of the rows as predicted.
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

// larger is the hint after all weights are scaled by c.
func (h hint) larger(c float64) hint { return hint{h.slope / (c * c), h.curvature / (c * c * c * c)} }

package adf

import (
	"math"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/lik"
)

// hint is what rows say of a prior variance v through weights that they hardly determine: the log
// evidence of v is about slope v - ½ curvature v².
//
// The Gaussian that approximates what a few rows say of a weight is right only under the prior that
// they met: a single truth value says nothing of the variance of its level, but what is absorbed of
// it under a variance of 1 has most evidence near 1, and some thousand such levels hold the
// variance there. So each row contributes as it comes: the slope of its log Z, through the mean and
// variance of its predictor. The curvature is the sum of the squared slopes.
type hint struct{ slope, curvature float64 }

// enoughKnown is the precision from the rows, relative to the prior before any row, from which on a
// weight's belief speaks for itself.
const enoughKnown = 1.0

// enoughHinted is the curvature, for the variance before any row, from which on hints count: the
// squares of fewer slopes do not measure their information.
const enoughHinted = 4.0

// varianceShare returns the share of leaf k in the variance of its group, that variance, and
// whether the rows hardly determine the leaf.
func (t *tied) varianceShare(k int) (share, v float64, hardly bool) {
	share, v = 1, t.plan.Model.Prior.Variance
	if c := t.of[k]; c >= 0 {
		share, v = arrowhead.LevelShare(float64(t.cols[c].levels)), t.cols[c].variance
	} else if t.vars != nil {
		v = t.vars.rest
		if len(t.is) >= maxBlock { // a level may have no room for its column's mean
			v = t.prior(int(t.owner[k])).Variance
		}
	}
	_, q, _ := t.bank[0].Leaf(k)
	return share, v, !t.plan.Exact && (share/q-1/v)*t.base < enoughKnown
}

// note adds to the hints what the row last predicted, with moments tilt, says of the variances of
// its leaves.
func (t *tied) note(tilt lik.Tilted) {
	b := t.bank[0]
	for e, l := range t.ks {
		k := int(l)
		share, v, hardly := t.varianceShare(k)
		if !hardly {
			continue
		}
		h := &t.hint
		if c := t.of[k]; c >= 0 && !t.plan.Model.Options.AnyColumns {
			h = &t.cols[c].hint
		} else if c < 0 && len(t.is) >= maxBlock {
			continue
		}
		alpha, q, row := b.Leaf(k)
		for j, x := range row {
			alpha += x * b.Mean[j]
		}
		// Given the block a leaf has the mean qν and the variance q = 1/(τ + 1/(share v)).
		x := t.xs[e]
		by := x * q / (share * v * v)
		slope := tilt.Alpha*by*alpha + 0.5*(tilt.Alpha*tilt.Alpha-tilt.Beta)*by*x*q
		if slope = min(max(slope, -1/v), 1/v); math.IsNaN(slope) { // otherwise the square for a very surprising row would dominate
			continue
		}
		h.slope += slope + slope*slope*v // the slope at v = 0
		h.curvature += slope * slope
	}
}

// hints returns the hints of the groups, zero for those that say little.
func (t *tied) hints(groups []string) []hint {
	hs := make([]hint, len(groups))
	hs[0] = t.hint
	for g, name := range groups[1:] {
		for c := range t.cols {
			if strings.TrimSuffix(t.cols[c].text, "=") == name {
				hs[g+1] = t.cols[c].hint
			}
		}
	}
	for g, h := range hs {
		if h.curvature*t.base*t.base < enoughHinted {
			hs[g] = hint{}
		}
	}
	return hs
}

// root is the variance at which the log evidence of weights with this sum of squares, of which the
// rows determine known, and of the hint has slope 0. Its range is 1e-8 to 1e8.
func (h hint) root(squares, known float64) float64 {
	lo, hi := 1e-8, 1e8
	if h.curvature == 0 {
		return min(max(squares/known, lo), hi)
	}
	for range 80 { // each halves the range of the logarithm
		v := math.Sqrt(lo * hi)
		if 0.5*(squares/v-known)+v*(h.slope-h.curvature*v) > 0 {
			lo = v
		} else {
			hi = v
		}
	}
	return lo
}

// keepHints records the hints in a fit; readHints reads them from one.
func (t *tied) keepHints(f *kernels.Fit) {
	if t.size != (hint{}) {
		f.Keep(kernels.KeptSize, t.size.slope, t.size.curvature)
	}
	if t.base != kernels.DefaultPrior.Variance {
		f.Keep(kernels.KeptBase, t.base, 0)
	}
	if t.hint != (hint{}) {
		f.Keep(kernels.KeptVarianceOf(""), t.hint.slope, t.hint.curvature)
	}
	for c := range t.cols {
		if h := t.cols[c].hint; h != (hint{}) {
			f.Keep(kernels.KeptVarianceOf(strings.TrimSuffix(t.cols[c].text, "=")), h.slope, h.curvature)
		}
	}
}

func (t *tied) readHints(f *kernels.Fit) {
	t.size.slope, t.size.curvature, _ = f.Kept(kernels.KeptSize)
	if base, _, ok := f.Kept(kernels.KeptBase); ok {
		t.base = base
	}
	t.hint.slope, t.hint.curvature, _ = f.Kept(kernels.KeptVarianceOf(""))
	for c := range t.cols {
		h := &t.cols[c].hint
		h.slope, h.curvature, _ = f.Kept(kernels.KeptVarianceOf(strings.TrimSuffix(t.cols[c].text, "=")))
	}
}

// addHints adds the hints of o to those of t, counting those of the start once.
func (t *tied) addHints(o, start *tied) {
	t.hint, t.size = t.hint.plus(o.hint, start.hint), t.size.plus(o.size, start.size)
	for c := range o.cols {
		var began hint
		for k := range start.cols {
			if start.cols[k].text == o.cols[c].text {
				began = start.cols[k].hint
			}
		}
		own := &t.cols[t.columnNamed(o.cols[c].text, o.cols[c].variance)].hint
		*own = own.plus(o.cols[c].hint, began)
	}
}

func (h hint) plus(o, start hint) hint {
	return hint{h.slope + o.slope - start.slope, max(h.curvature+o.curvature-start.curvature, 0)}
}

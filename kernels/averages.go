package kernels

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

const (
	leastRows = 30  // fewer do not show how responses vary with the weights of rows
	misjudged = 1.2 // ratio of variances beyond which intervals are a tenth too narrow or too wide
	farBelow  = 5   // logarithm of squares: below this distance from their mean they are no more informative
)

// Averages is the note on rows of f, a fit of p whose noise was learnt, that vary less the larger
// their weights are; "" if they do not. Responses that are means of several rows do that, and
// weights made from known variances do, too. Under the likelihood a row of weight w is w rows with
// the same response, so that noise and standard deviations are those of as many rows as the weights
// add up to.
//
// The test uses the logarithms of squares, those of each row's distance from its prediction
// relative to what the fit left of it: regressed on the logarithm of the weight their slope is -1
// for means. For rows that occur several times it is 0, or down to -0.4 if a row has up to half of
// the leverage on its own prediction.
//
// Cost: O(non-zeros); that of Predictors unless weights are few relative to the rows.
func (p *Problem) Averages(f *Fit) string {
	if p.Lik == nil || p.Weight == nil || p.Count != nil || p.within != nil || p.N < leastRows || p.Drifts() || !p.learnsNoise() {
		return ""
	}
	eta, v := p.predictorsAt(f), memory.Floats(p.N)
	if float64(p.P) > fewWeights*float64(p.N) {
		if err := p.Predictors(f, memory.Floats(p.N), v); err != nil {
			return ""
		}
	}
	relative := p.Lik.Traits().Relative
	square, slope := memory.Floats(p.N), memory.Floats(p.N)
	weight, noise, rows := 0.0, 0.0, 0.0
	for i, w := range p.Weight {
		if !(w > 0) {
			continue
		}
		g := p.Lik.Response(eta[i])
		d := p.Y[i] - g
		square[i] = d * d
		if slope[i] = 1; relative {
			e := d / g
			square[i] = 2 * (e - math.Log1p(e))
		} else if s := p.Lik.Traits().Slope; s != nil {
			slope[i] = s(g)
		}
		weight, noise, rows = weight+w, noise+w*square[i], rows+1
	}
	mean := weight / rows
	if !(noise > 0) || math.IsInf(noise, 1) || mean < misjudged && mean > 1/misjudged {
		return ""
	}
	noise /= weight
	var x, y []float64
	for i, w := range p.Weight {
		leverage := w * v[i] * slope[i] * slope[i] / noise
		if !(w > 0) || !(leverage < 0.5) {
			continue
		}
		x = append(x, math.Log(w))
		y = append(y, math.Log(square[i])-math.Log1p(-leverage))
	}
	if b, se := fall(x, y); len(x) < leastRows || b > -0.6 || !(b < -4*se) {
		return ""
	}
	factor, what := math.Sqrt(mean), "small"
	if factor < 1 {
		factor, what = 1/factor, "large"
	}
	return fmt.Sprintf("rows of larger weight vary less, as means of several rows do, but count as so many rows each: the weights' standard deviations are too %s by a factor of %.3g; "+
		"the weight divided by its mean, %.4g, takes rows for means", what, factor, mean)
}

// learnsNoise reports whether the variance of responses about their means is learnt.
func (p *Problem) learnsNoise() bool {
	if _, ok := p.Lik.(lik.Dispersed); ok && p.Options.AutoDispersion {
		return true
	}
	_, ok := p.Lik.(lik.Shaped)
	return ok && p.Options.AutoShape && p.Lik.Traits().Relative
}

// fall is the least-squares slope of y over x and its standard error. Values of y far below the
// mean are raised: rows that are fitted exactly by chance are no measure of the others.
func fall(x, y []float64) (slope, se float64) {
	n, middle, finite := float64(len(x)), 0.0, 0.0
	for _, v := range y {
		if !math.IsInf(v, 0) {
			middle, finite = middle+v, finite+1
		}
	}
	middle /= finite
	mx, my := 0.0, 0.0
	for i := range y {
		y[i] = max(y[i], middle-farBelow)
		mx, my = mx+x[i]/n, my+y[i]/n
	}
	xx, xy, yy := 0.0, 0.0, 0.0
	for i := range y {
		dx, dy := x[i]-mx, y[i]-my
		xx, xy, yy = xx+dx*dx, xy+dx*dy, yy+dy*dy
	}
	slope = xy / xx
	return slope, math.Sqrt(max(yy-slope*xy, 0) / ((n - 2) * xx))
}

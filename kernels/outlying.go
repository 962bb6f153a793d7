package kernels

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

const (
	outlying        = 0.5 // ratio of variances of logarithms below which a few responses set the shape
	outlyingClearly = 4   // by that many standard errors
	outlyingRows    = 10  // fewer hardly show how they vary
	farAbove        = 3   // times its mean: a response that is less does not set that of others
)

// Outlying is the note on responses of f, a fit of p whose shape was learnt, that lie further above
// the others than gamma allows; "" if there are none. The mean follows a single one, and the shape
// that explains it makes the others far less certain than they are. It shows in one of two ways:
// the logarithms of responses relative to their means vary less than they do under that shape,
// because most lie close together far below; or, if the mean follows in some rows only, the
// furthest is all but impossible even so. Very small responses only widen intervals.
//
// Cost: O(non-zeros); that of Predictors unless weights are few relative to the rows.
func (p *Problem) Outlying(f *Fit) string {
	if p.Lik == nil || p.Count != nil || p.within != nil || p.N < 2 || p.Drifts() || !p.learnsNoise() {
		return ""
	}
	under, ratio, ok := lik.LogSpread(p.Lik, f.Shape)
	if !ok {
		return ""
	}
	eta := p.predictorsAt(f)
	b := p.Batch()
	var rows, weight, squares, mean, most float64
	for i := range p.N {
		p.Stop.Row(i)
		o := b.Obs(i)
		if !(o.Weight > 0) {
			continue
		}
		u := math.Log(o.Y) - eta[i]
		rows++
		weight, squares = weight+o.Weight, squares+o.Weight*o.Weight
		mean, most = mean+o.Weight*u, max(most, u)
	}
	mean /= weight
	spread := 0.0
	for i := range p.N {
		p.Stop.Row(i)
		if o := b.Obs(i); o.Weight > 0 {
			d := math.Log(o.Y) - eta[i] - mean
			spread += o.Weight * d * d
		}
	}
	if most < math.Log(farAbove) {
		return ""
	}
	note := fmt.Sprintf("some responses lie further above the others than gamma allows, the furthest "+
		"at %.3g times what the fit expects of it: means, standard deviations and the shape, %.3g, "+
		"follow these few; look at them, or take gaussian for the logarithms", math.Exp(most), f.Shape)
	if rows*mathext.GammaIncRegComp(f.Shape, f.Shape*math.Exp(most)) < Impossible {
		return note
	}
	clear := func(taken float64) bool {
		left := weight - taken
		r := spread / (left * under)
		return taken < weight/2 && left*weight > outlyingRows*squares && r < outlying &&
			math.Log(r) < -outlyingClearly*math.Sqrt(ratio*squares)/weight
	}
	if !clear(0) { // what the weights took makes the ratio larger
		return ""
	}
	if float64(p.P) <= fewWeights*weight {
		return note
	}
	v := memory.Floats(p.N)
	if err := p.Predictors(f, memory.Floats(p.N), v); err != nil {
		return ""
	}
	taken := 0.0
	for i := range p.N {
		p.Stop.Row(i)
		taken += b.Obs(i).Weight * f.Shape * v[i]
	}
	if !clear(math.Min(taken, float64(p.P))) {
		return ""
	}
	return note
}

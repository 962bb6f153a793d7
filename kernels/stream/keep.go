package stream

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// Counter is a Form that counts the weights the rows determine from row to row, so that the count
// may differ from a recount over all beliefs.
type Counter interface {
	// Count is Known counted anew; SetKnown sets it.
	Count(k int) int64
	SetKnown(k int, n int64)
}

// keep records in f, the fit of belief k, what a continued stream needs and the rest of f does not
// imply.
func (s *State) keep(f *kernels.Fit, k int) {
	f.KeepModel(s.plan.Model)
	f.KeepFilled(s.plan.Model)
	if o := &s.plan.Model.Options; o.Covariance == gauss.LowRank.String() && o.Rank > 0 {
		f.Keep(kernels.KeptRank, float64(o.Rank), 0)
	}
	if s.n == 0 {
		return
	}
	b, n := &s.bank[k], float64(s.n)
	rows, taught := float64(s.told), n
	var own lik.KeptLearner
	switch {
	case b.learning != nil:
		taught = b.learning.Rows()
	case b.learner() != nil:
		own, taught = b.learner().Kept()
	}
	if rows != n || taught != n {
		f.Keep(kernels.KeptRows, rows, taught)
	}
	if b.learner() != nil {
		what := kernels.KeptShape
		if s.plan.unitNoise {
			what = kernels.KeptNoise
		}
		f.Keep(what, own.At, own.Info)
		if own.Believed > 0 {
			f.Keep(kernels.KeptBelieved, own.Believed, own.Raised)
		}
	}
	if s.units != nil {
		s.keepUnits(f)
	}
	if b.learning == nil {
		return
	}
	if d, info := b.learning.Dispersion(), b.learning.Information(); noiseOf(f, s.units.responses()) != d || info != 0 {
		f.Keep(kernels.KeptNoise, d, info)
	}
	if q, far := b.learning.Squares(), b.learning.squares.far; s.wholeForm(k) != nil && special.Finite(q) && special.Finite(far) {
		f.Keep(kernels.KeptSquares, q, far)
	}
	s.keepBelieved(f, b.learning.Learning)
	if c, ok := s.form.(Counter); ok && c.Count(k) != s.form.Known(k) {
		f.Keep(kernels.KeptDetermined, float64(s.form.Known(k)-c.Count(k)), 0)
	}
}

// looseBelieved in place of steps says that rows tied weights, but brought no information yet.
const looseBelieved = 2

// keepBelieved is keep for the noise under which the beliefs absorbed earlier rows.
func (s *State) keepBelieved(f *kernels.Fit, g *lik.Learning) {
	if !s.plan.noise || s.plan.Drifts {
		return
	}
	if g.Drift {
		if g.Loose() && g.Information() == 0 {
			f.Keep(kernels.KeptBelieved, g.Believed(), looseBelieved)
		}
		return
	}
	steps := 0.0
	if g.Steps {
		steps = 1
	}
	if d := g.Believed(); d != g.Dispersion() || g.Steps {
		f.Keep(kernels.KeptBelieved, d, steps)
	}
}

// keepUnits is keep for the units in force.
func (s *State) keepUnits(f *kernels.Fit) {
	if y := s.units.y; y != nil {
		r, inside := responseOf(f)
		given := !s.plan.Learns && !s.plan.unitNoise // which a layout with a unit does not record
		if r == nil || r.unit != y.unit || inside && given {
			f.Keep(kernels.KeptUnit, y.unit.Center, y.unit.Scale)
			r, _ = responseOf(f)
		}
		if r.Center != y.Center || r.Scale != y.Scale {
			f.Keep(kernels.KeptResponses, y.Center, y.Scale)
		}
		if r.owed != y.owed {
			f.Keep(kernels.KeptOwed, y.owed, 0)
		}
	}
	if s.plan.Model.Options.AnyColumns { // columns are not recorded
		return
	}
	low := f.Covariance.Form == gauss.LowRank // needs the units to restore its intercept's part
	for j := range s.units.cols {
		c := &s.units.cols[j]
		if _, inside := s.form.Unit(c.id); !inside && c.N > c.Missing && (low || c.unit != s.units.currentUnit(c)) {
			f.Keep(kernels.KeptUnitOf(string(s.dict.Name(c.id))), c.unit.Center, c.unit.Scale)
		}
	}
}

// responseOf returns the unit of the responses of a fit, nil if it has none, and whether the fit's
// covariance is in that unit.
func responseOf(f *kernels.Fit) (r *response, inside bool) {
	r = &response{}
	if f.Covariance.Form == gauss.Arrowhead && f.Covariance.Arrow().HasResponse() {
		r.unit.Center, r.unit.Scale, r.Center, r.Scale = f.Covariance.Arrow().Response()
		inside = true
	} else if center, scale, ok := f.Kept(kernels.KeptUnit); ok {
		r.unit = Unit{center, scale}
		r.Center, r.Scale = center, scale
	} else {
		return nil, false
	}
	r.N = trainingRows(f)
	if mean, sd, ok := f.Kept(kernels.KeptResponses); ok {
		r.Center, r.Scale = mean, sd
	}
	if r.unit.Scale == 0 {
		r.owed = float64(r.N)
		if n, _, ok := f.Kept(kernels.KeptOwed); ok {
			r.owed = n
		}
	}
	return r, inside
}

// noiseOf is the dispersion of a fit in units of scale of the responses.
func noiseOf(f *kernels.Fit, scale float64) float64 {
	if scale == 1 {
		return f.Dispersion
	}
	return f.Dispersion / (scale * scale)
}

// trainingRows is the number of rows of a fit with weight above 0.
func trainingRows(f *kernels.Fit) int64 {
	n, _ := f.TrainingRows()
	return int64(n)
}

// resumeNoise restores to l, for responses in units of scale, what a fit knows of the noise. loose
// says that its rows tied weights, which follows from information if there is some.
func resumeNoise(l *lik.Learning, m *kernels.Model, scale float64) (loose bool) {
	f := m.Start
	if f == nil {
		return false
	}
	own := *f // the dispersion may be set to another value
	own.Dispersion = l.Dispersion()
	d, info := noiseOf(&own, scale), 0.0
	believed := d
	if own.Dispersion == f.Dispersion {
		if kept, of, ok := f.Kept(kernels.KeptNoise); ok {
			d, info = kept, of
		}
		// A stream without squares drifted, or followed single steps as those of older versions did.
		_, _, whole := f.Kept(kernels.KeptSquares)
		l.Steps = info != 0 || !whole && f.Iterations <= 1 && f.N > 0
		believed = d
		if kept, steps, ok := f.Kept(kernels.KeptBelieved); ok && info == 0 {
			believed, l.Steps, loose = kept, steps != 0, steps == looseBelieved
		}
	}
	_, taught := f.TrainingRows()
	l.Resume(d, believed, taught, info)
	return loose
}

// fitInUnit returns a copy of f for responses in the unit of r: the reverse of units.restore.
func (r *response) fitInUnit(f *kernels.Fit, centred bool) *kernels.Fit {
	c, q := *f, r.unit.scale()
	c.Beliefs = make([]kernels.Belief, len(f.Beliefs))
	for k, b := range f.Beliefs {
		if c.Beliefs[k] = b; b.Variance == 0 { // a known weight, for responses as they come
			continue
		}
		if centred && b.Feature == kernels.Intercept {
			b.Mean -= r.unit.Center
		}
		b.Mean /= q
		b.Variance /= q * q
		c.Beliefs[k] = b
	}
	v := &c.Covariance
	v.Values = append([]float64(nil), v.Values...)
	switch v.Form {
	case gauss.Arrowhead:
		v.Arrow().Stretch(1 / q)
	case gauss.Full:
		for k := range v.Values {
			v.Values[k] /= q
		}
	case gauss.LowRank:
		for j := range c.Beliefs {
			row := v.Row(j)
			for k := range row {
				if row[k] /= q; k == 0 {
					row[k] /= q
				}
			}
		}
	}
	return &c
}

// enter adds the changes that bring the weight of a column, per original unit of its numbers, to
// the column's unit: to bare, and to back if the fit's prior is that of another unit.
func (s *State) enter(c *column, bare, back *Recast) {
	_, inside := s.form.Unit(c.id)
	switch f := s.plan.Model.Start; {
	case inside || c.N == c.Missing || math.IsNaN(c.unit.Center):
	case c.how == Raw:
		if c.unit.Scale != 0 { // this passes it to the form
			bare.add(c.id, c.unit, c.unit)
		}
	default:
		was := c.unit
		if left := s.units.currentUnit(c); left.Scale != 0 && trainingRows(f) < freeze && (f.Covariance.Form == gauss.Full || f.Covariance.Form == gauss.LowRank) {
			was = left // as in State.leave
		}
		bare.add(c.id, Unit{Scale: 1}, was)
		if was != c.unit {
			back.add(c.id, was, c.unit)
		}
	}
}

// entered applies the changes of enter to belief k of a form.
func entered(form Form, k int, bare, back *Recast) {
	if len(bare.IDs) > 0 {
		form.Recast(k, bare)
	}
	if len(back.IDs) > 0 {
		form.Recast(k, back)
	}
}

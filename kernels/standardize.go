package kernels

import (
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// Standard is how Standardize changed a problem.
type Standard struct {
	*design.Scaling
	of       *Problem
	response float64 // y = response y', less the mean if the link is the identity; of gamma, too
	crossed  []crossing
}

// SolveStandardized returns solve's fit of p or, if its options ask for it, that of p on
// standardised scales, converted to the original ones. See Problem.Standardize.
func SolveStandardized(p *Problem, loose int, solve func(q *Problem) (*Fit, error)) (*Fit, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if !p.Options.Standardize {
		return solve(p)
	}
	q, s, err := p.Standardize(loose)
	if err != nil {
		return nil, err
	}
	f, err := solve(q)
	if err != nil {
		return nil, err
	}
	return f, s.Restore(f)
}

// Standardize returns p with its numeric columns (Dict.NumberPlace) centred and scaled and, if the
// family is real-valued (identity link, or gaussian with link log), the responses too: less their
// mean and divided by their standard deviation, with link log only divided by their root mean
// square; those of gamma divided by the mean of their values without offsets, which the intercept
// absorbs. Rows count by their weights. p is not changed.
//
// The new problem has the prior of p, now for the standardised scales; on the original ones it is a
// Gaussian prior, too, in which centring correlates the intercept with the weights of numbers.
// Known weights, process noise of named features and the fit that p continues refer to the original
// scale: continued features are not changed, nor are the responses then. Weights of Model.At are
// converted to the new scales, and so are dispersion and offsets.
//
// Means are subtracted if column 0 is an intercept that is learnt. loose is as in
// design.Columns.Standardize.
// Errors: an At that p does not have, numbers or responses that cannot be squared.
func (p *Problem) Standardize(loose int) (*Problem, *Standard, error) {
	number := p.standardised()
	q, m := *p, *p.Model
	q.Model, m.Options.Standardize = &m, false
	s := &Standard{of: p, response: 1}
	var of []design.Crossed
	if s.crossed = p.crossings(loose); len(s.crossed) > 0 {
		for _, x := range s.crossed {
			of = append(of, x.of...)
		}
		q.Columns = p.Columns.Cross(of)
	}
	q.crossed = len(of) > 0
	q.Columns, s.Scaling = q.Columns.Standardize(p.Weight, number, p.centres(), loose)
	s.Crossed = of
	if j := s.Beyond; j >= 0 {
		return nil, nil, p.beyond(j)
	}
	q.columns = slices.Clone(p.columns)
	at := map[string]int{}
	for k, c := range q.columns {
		at[c.Name] = k
	}
	for j, scale := range s.Scale {
		if k, ok := at[p.Name(j)]; ok && q.columns[k].Kind == NumberColumn && number(j) {
			q.columns[k].Scale = scale
		}
	}
	if err := s.responses(&q); err != nil {
		return nil, nil, err
	}
	return &q, s, s.at(&q)
}

// standardised reports for a column whether its numbers are to be standardised: those of the fit
// that is continued are not.
func (p *Problem) standardised() func(j int) bool {
	continued := map[string]bool{}
	if p.Start != nil {
		for _, b := range p.Start.Beliefs {
			continued[b.Feature] = true
		}
	}
	return func(j int) bool {
		return p.dict.NumberPlace(p.cols[j]) < math.MaxInt && !continued[p.Name(j)]
	}
}

// centres reports whether a learnt intercept can absorb means.
func (p *Problem) centres() bool { return p.P > 0 && p.Name(0) == Intercept }

// responses standardises the responses of q.
func (s *Standard) responses(q *Problem) error {
	m := q.Model
	if m.Lik == nil { // of classes
		return nil
	}
	t := m.Lik.Traits()
	l, dispersed := m.Lik.(lik.Dispersed)
	if !dispersed && !t.Relative || m.Start != nil || q.N == 0 {
		return nil
	}
	y := memory.Floats(q.N)
	b := q.Batch()
	located := t.Located
	for i, v := range q.Y {
		y[i] = Less(t, v, b.Shift(i))
	}
	mean, spread := design.Moments(y, q.Weight)
	if !t.Relative && !design.Squares(mean, spread) {
		return ErrResponseSpread
	}
	if spread <= 1e-15*math.Abs(mean) { // the rounding of equal numbers
		for i := range y {
			y[i] = mean
		}
	}
	mean, unit := s.unitOf(q, mean, spread)
	if unit == 1 && mean == 0 {
		return nil
	}
	if located && q.Offset != nil {
		q.Offset = memory.Floats(q.N)
		for i, v := range y { // in this order, responses that are the mean plus their offset stay so
			q.Offset[i] = b.Shift(i) / unit
			y[i] = (v-mean)/unit + q.Offset[i]
		}
	} else {
		for i, v := range q.Y {
			y[i] = (v - mean) / unit
		}
	}
	q.Y = y
	s.response = unit
	if !dispersed {
		return nil
	}
	return s.measure(q, l, unit)
}

// Less is response y of a likelihood with traits t without its offset, if the offset is in its unit
// or scales its mean.
func Less(t lik.Traits, y, offset float64) float64 {
	switch {
	case t.Located:
		return y - offset
	case t.Relative && offset != 0:
		return y * math.Exp(-offset)
	}
	return y
}

// unitOf is the unit of responses of q with this mean and spread, and a mean to subtract: for
// real-valued ones their mean and standard deviation, with link log their root mean square; for
// gamma their mean.
func (s *Standard) unitOf(q *Problem, mean, spread float64) (less, unit float64) {
	switch {
	case q.Lik.Traits().Located:
		unit = design.Unit(mean, spread, q.centres())
		if !q.centres() {
			mean = 0
		}
		s.Unit, s.Origin = unit, mean
		return mean, unit
	case q.centres():
		unit = design.Unit(0, math.Hypot(mean, spread), true)
		if q.Lik.Traits().Relative { // its squares are not used
			unit = 1
			if mean > 0 && !math.IsInf(mean, 1) {
				unit = mean
			}
		}
		s.Origin = math.Log(unit)
		return 0, unit
	}
	return 0, 1
}

// measure converts the model of q, whose likelihood is l, to responses in this unit.
func (s *Standard) measure(q *Problem, l lik.Dispersed, unit float64) error {
	m := q.Model
	m.Options.DispersionScale /= unit
	m.Params.Dispersion = l.Dispersion() / unit / unit
	m.Options.SDScale /= unit
	if shaped, ok := m.Lik.(lik.Shaped); ok {
		m.Params.Shape = shaped.Shape()
	}
	var err error
	if m.Lik, err = lik.Remake(m.Lik, m.Params); err != nil {
		return fmt.Errorf("on the scale of the responses, whose standard deviation is %.3g: %w", unit, err)
	}
	return nil
}

// at converts the weights of Model.At to the scales of q.
func (s *Standard) at(q *Problem) error {
	if len(q.At) == 0 {
		return nil
	}
	w := memory.Floats(q.P)
	s.From(w, q.PriorMean)
	if err := q.Place(w, q.At); err != nil {
		return fmt.Errorf("at: %w", err)
	}
	s.To(w, w)
	q.At = make([]Belief, q.P)
	for j, x := range w {
		q.At[j] = Belief{Feature: q.Name(j), Weight: Weight{Mean: x}}
	}
	return nil
}

// weight is the total weight of the rows.
func (p *Problem) weight() float64 {
	switch {
	case p.unseen != nil:
		return p.unseen.Weight
	case p.Weight == nil:
		return float64(p.N)
	}
	rows := 0.0
	for _, w := range p.Weight {
		rows += w
	}
	return rows
}

// Response is the divisor of the responses.
func (s *Standard) Response() float64 { return s.response }

// Restore converts f, a fit of the standardised problem, to the original scales: beliefs and their
// covariance, dispersion, default prior and log evidence.
func (s *Standard) Restore(f *Fit) error {
	place, at := make([]int, len(f.Beliefs)), make([]int32, len(f.Beliefs))
	n := 0
	for k, b := range f.Beliefs {
		place[k] = -1
		if b.Variance > 0 {
			place[k] = n
			n++
		}
		at[k] = int32(place[k])
	}
	if f.Covariance.Form != gauss.Arrowhead || f.Covariance.Rank == 0 || !s.restoreArrow(f, place) {
		post, err := f.over(place, memory.Floats(n), memory.Floats(n), s.of.Stop)
		if err != nil {
			return err
		}
		if post, err = s.Scaling.Restore(post); err != nil {
			return err
		}
		for k, j := range place {
			if j >= 0 {
				f.Beliefs[k].Weight = Weight{post.Mean[j], post.Var[j]}
			}
		}
		f.Covariance = pack(at, post)
	}
	if d, is := s.of.Lik.(lik.Dispersed); is && !s.of.Options.AutoDispersion {
		f.Dispersion = d.Dispersion() // exactly as given
	} else if is {
		f.Dispersion *= s.response * s.response
	}
	f.Prior.Mean *= s.Unit
	f.Prior.Variance *= s.Unit * s.Unit
	f.Prior.InterceptVariance *= s.Unit * s.Unit
	f.Columns = slices.Clone(f.Columns)
	spread := map[string]float64{}
	if s.Spread != nil && f.Covariance.Form != gauss.Diagonal {
		for j, v := range s.Spread {
			if !math.IsNaN(v) {
				spread[s.of.Name(j)] = v
			}
		}
	}
	for k := range f.Columns {
		c := &f.Columns[k]
		c.Variance *= s.Unit * s.Unit
		if v, ok := spread[c.Name]; ok && c.Kind == NumberColumn {
			c.Scale = v
		}
		if c.Kind == LevelsColumn { // of the standard deviation of weights
			c.Center *= s.Unit
			c.Scale *= s.Unit
		}
	}
	f.Correlations = slices.Clone(f.Correlations)
	for k := range f.Correlations {
		f.Correlations[k].Covariance *= s.Unit * s.Unit
	}
	f.scaleLevels(s.Unit)
	f.rescaleLearnt(s.response)
	s.restoreCrossed(f)
	f.LogEvidence -= s.of.weight() * math.Log(s.response)
	if s.Origin != 0 && s.of.Lik.Traits().Relative {
		f.Keep(KeptOrigin, s.Origin, 0)
	}
	if (s.Unit != 1 || s.Origin != 0) && s.of.Lik != nil && s.of.Lik.Traits().Located && !f.Standardized() {
		f.Keep(KeptLevel, s.Origin, 0)
	}
	f.AddStatus(s.Note)
	return f.Check()
}

// restoreArrow is Restore for an arrowhead whose block has the intercept, first, and all columns
// that changed, false for others: the layout has units of its own. place is the column of each
// belief, -1 for a known weight.
func (s *Standard) restoreArrow(f *Fit, place []int) bool {
	l := f.Covariance.Arrow()
	inBlock := func(k int) bool { return l.Row(k)[0] <= -2 }
	if (s.Unit != 1 || s.centred()) && !(len(place) > 0 && inBlock(0) && f.Beliefs[0].Feature == Intercept) || l.InUnits() {
		return false
	}
	if len(s.Crossed) > 0 {
		return false
	}
	changed := func(j int) bool { return j >= 0 && (s.Scale[j] != 1 || s.Shift[j] != 0) }
	for k, j := range place {
		if changed(j) && !inBlock(k) {
			return false
		}
	}
	for k, j := range place {
		if changed(j) {
			l.SetUnit(k, s.Shift[j], s.Scale[j])
		}
	}
	if s.Unit != 1 || s.Origin != 0 {
		l.SetResponse(s.Origin, s.Unit, s.Origin, s.Unit)
	}
	w := make([]float64, l.D)
	spread := l.NewSpread(len(place), len(place), s.of.Matrix)
	var room arrowhead.SpreadScratch
	unit := l.OriginalUnits(w, l.Values[:l.D])
	for k, j := range place {
		s.of.Stop.Row(k)
		if j < 0 {
			continue
		}
		b, r := &f.Beliefs[k], l.Row(k)
		if c := int(r[0]); c <= -2 {
			b.Mean = w[-2-c]
		} else {
			b.Mean = r[1] + dense.Dot(r[3:], l.Values[:l.D])
			if c >= 0 {
				b.Mean += l.Mean(c)
			}
			b.Mean *= unit
		}
		b.Variance = spread.Variance([]int{k}, []float64{1}, &room)
	}
	return true
}

// centred reports whether the intercept absorbed means.
func (s *Standard) centred() bool {
	return s.Origin != 0 || slices.ContainsFunc(s.Shift, func(c float64) bool { return c != 0 })
}

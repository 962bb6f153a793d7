package stream

import (
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
)

// Unit is the unit in which a form is given a number u: as (u - Center)/Scale. Scale 0 means that
// all numbers so far were equal to Center, which becomes 0.
type Unit struct{ Center, Scale float64 }

func (u Unit) of(x float64) float64 {
	if u.Scale == 0 {
		return 0
	}
	return (x - u.Center) / u.Scale
}

// scale is the unit's Scale, 1 if there is none yet.
func (u Unit) scale() float64 { return kernels.Or(u.Scale, 1) }

// Numbers is how a form represents the numbers of a column.
type Numbers uint8

const (
	Centred Numbers = iota // minus their mean, in standard deviations
	Scaled                 // in standard deviations
	Raw                    // unchanged: the form scales the prior instead
)

// Recast is a change of units of the numbers of some features.
//
// With ratio r = New.Scale/Old.Scale the weight of a feature is multiplied by r, and the intercept
// gains (New.Center - Old.Center)/Old.Scale times the old weight: no predictor changes. Old.Scale 0
// stands for New.Scale: there are no data on the weight yet; if Old is Unseen, there are none on
// its column either. The priors of these weights and of the intercept are those of the units in
// force, so the contributions of the old priors are removed and the new ones added, which is exact;
// with Bare the beliefs are only transformed.
type Recast struct {
	IDs      []uint32
	Old, New []Unit
	Bare     bool

	// Enters says that a continued run converts weights per original unit to its units, once; such
	// a Recast is Bare.
	Enters bool

	js []int // memory of Restore
	xs []float64
}

// Unseen is the unit of a column of which no row has had a number.
var Unseen = Unit{Center: math.NaN()}

// Ratio is the factor by which the weight of feature k is multiplied.
func (r *Recast) Ratio(k int) float64 {
	if r.Old[k].Scale == 0 || r.New[k].Scale == 0 {
		return 1
	}
	return r.New[k].Scale / r.Old[k].Scale
}

// Shift is the multiple of the old weight of feature k that the intercept gains.
func (r *Recast) Shift(k int) float64 {
	if math.IsNaN(r.Old[k].Center) {
		return 0
	}
	return (r.New[k].Center - r.Old[k].Center) / kernels.Or(r.Old[k].Scale, r.New[k].scale())
}

// Pin is the effect of the factor exp(-δ(s - a)²/2) on a predictor s ~ N(m, v), as the tilt that a
// Form absorbs, with the log of the factor's mean. δ < 0 removes such a factor; ok is false if the
// result would not be proper.
func Pin(m, v, delta, a float64) (t lik.Tilted, ok bool) {
	r := 1 + delta*v
	if !(r > 1e-12) || math.IsInf(r, 1) {
		return t, false
	}
	e := a - m
	return lik.Tilted{LogZ: -0.5 * (math.Log(r) + delta*e*(e/r)), Alpha: delta * e / r, Beta: delta / r, Ratio: 1 / r}, true
}

// Back returns the tilt that restores the prior p of a weight of variance v after Stretch multiplied
// its mean by ratio: the prior refers to the weight in the unit of the responses, whatever that is.
// For a weight that has drifted beyond its prior it is the tilt of the prior alone.
func Back(p kernels.Weight, v, ratio float64) lik.Tilted {
	t := lik.Tilted{Ratio: 1}
	if u := max(p.Variance, v); u > 0 {
		t.Alpha = (1 - ratio) * p.Mean / u
	}
	return t
}

// Restorer is a belief whose priors Recast.Restore changes. Weights have their index in the Recast,
// -1 is the intercept.
type Restorer interface {
	Prior(j int) kernels.Weight
	// Pin adds precision δ along the row of weights js with values xs about the mean a, and returns
	// the change of the log evidence.
	Pin(js []int, xs []float64, delta, a float64) float64
}

// Restore gives the weights of r and the intercept the priors of the new units, after the weights
// were converted to these, and returns the change of the log evidence.
func (r *Recast) Restore(b Restorer) (logZ float64) {
	js, xs := append(r.js[:0], -1), append(r.xs[:0], 1)
	for k := range r.IDs {
		logZ += math.Log(r.Ratio(k))
		if delta, a := r.priorGain(b, k); delta > 0 {
			js[0], xs[0] = k, 1
			logZ += b.Pin(js[:1], xs[:1], delta, a)
		}
	}
	js[0], xs[0] = -1, 1
	for k := range r.IDs {
		if s := r.Shift(k); s != 0 {
			js, xs = append(js, k), append(xs, -s/r.Ratio(k))
		}
	}
	if len(js) > 1 { // the intercept at the new centres gets the prior that it had at the old ones
		w := b.Prior(-1)
		logZ += b.Pin(js[:1], xs[:1], 1/w.Variance, w.Mean)
		logZ += b.Pin(js, xs, -1/w.Variance, w.Mean)
	}
	for k := range r.IDs {
		if delta, a := r.priorGain(b, k); delta < 0 {
			js[0], xs[0] = k, 1
			logZ += b.Pin(js[:1], xs[:1], delta, a)
		}
	}
	r.js, r.xs = js, xs
	return logZ
}

// priorGain returns the precision that the prior of weight k adds with the new units, and about
// which mean.
func (r *Recast) priorGain(b Restorer, k int) (delta, a float64) {
	w, q := b.Prior(k), r.Ratio(k)
	return (1 - 1/(q*q)) / w.Variance, w.Mean * q / (1 + q)
}

const freeze = kernels.Freeze

// units are the units of a state's numbers, and of its responses.
type units struct {
	cols    []column
	at      []int32 // by feature: its index in cols, -1 for none
	order   []int32 // indices of cols by place
	centred bool    // there is an intercept to absorb what centring shifts
	bare    bool    // there are numbers that are not standardised
	y       *response
	// fixed are the means of known weights by feature, nil for none. They refer to numbers and
	// responses in their original units, so a form gets their contribution as a shift.
	fixed map[uint32]float64
	gaps  *gaps // nil until a row lacks a number

	*rowBuffer // nil at rest
}

// rowBuffer is memory for a row, which units at rest release.
type rowBuffer struct {
	fs   []uint32 // the row in the units in force
	xs   []float64
	here []bool // by column: whether the row has it
	r    Recast
}

var rowBuffers = sync.Pool{New: func() any { return new(rowBuffer) }}

// recast returns an empty change of units.
func (u *units) recast(bare bool) *Recast {
	if u.rowBuffer == nil {
		u.rowBuffer = rowBuffers.Get().(*rowBuffer)
	}
	u.r.reset(bare)
	return &u.r
}

// rest releases memory that only rows need.
func (u *units) rest() {
	if u != nil && u.rowBuffer != nil {
		rowBuffers.Put(u.rowBuffer)
		u.rowBuffer = nil
	}
}

// column is a column of numbers.
type column struct {
	kernels.ColumnStats
	id      uint32
	place   int  // position among the columns
	unit    Unit // in force
	how     Numbers
	ends    *kernels.Extremes // of the numbers after the first endsBegin, nil before
	follows *follows          // residuals of rows after these; nil before
}

// endsBegin is the number of values before the extremes: small groups are spared the memory, and
// few values do not tell a code.
const endsBegin = 64

// fewColumns is the number of new features up to which their memory is one allocation.
const fewColumns = 8

// currentUnit is the unit that follows from the statistics of c.
func (u *units) currentUnit(c *column) Unit {
	switch {
	case c.how == Raw && c.Scale == 0 && c.N-c.Missing > 1 && u.y == nil:
		// Without a center the same number in all rows is no 0, and a weight that is not learnt makes
		// expected responses wrong. Those of a location family it leaves unchanged.
		return Unit{0, math.Abs(c.Center)}
	case c.how == Raw:
		return Unit{0, c.Scale}
	case !u.centred:
		return Unit{0, math.Hypot(c.Center, c.Scale)}
	case c.how == Scaled:
		return Unit{0, c.Scale}
	}
	return Unit{c.Center, c.Scale}
}

// target is the unit that follows from the statistics of a column. If some rows lack the column,
// which means 0, and all others have the same number, that number is the unit.
func (u *units) target(c *column, absent bool) Unit {
	now := u.currentUnit(c)
	if absent && now.Scale == 0 && now.Center != 0 {
		return Unit{0, math.Abs(now.Center)}
	}
	return now
}

// clone returns a copy, in the memory of old unless that is nil.
func (u *units) clone(old *units) *units {
	if u == nil {
		return nil
	}
	if old == nil {
		old = &units{}
	}
	c := *u
	c.cols, c.at, c.order = append(old.cols[:0], u.cols...), append(old.at[:0], u.at...), append(old.order[:0], u.order...)
	for k := range c.cols {
		c.cols[k].ends = c.cols[k].ends.Clone()
		c.cols[k].follows = mergedFollows(nil, c.cols[k].follows)
	}
	c.rowBuffer = nil
	if u.y != nil {
		if c.y = old.y; c.y == nil {
			c.y = &response{}
		}
		*c.y = *u.y
	}
	*old = c
	return old
}

func (u *units) size() int64 {
	if u == nil {
		return 0
	}
	n := 120 + 104*int64(cap(u.cols)) + 4*int64(cap(u.at)+cap(u.order))
	for k := range u.cols {
		if n += u.cols[k].ends.Size(); u.cols[k].follows != nil {
			n += int64(unsafe.Sizeof(follows{}))
		}
	}
	return n
}

// codeNote is the note on a column of numbers with a code for missing values among them.
func (s *State) codeNote() string {
	if s.units == nil || s.dict.HashBits > 0 {
		return ""
	}
	for _, k := range s.units.order {
		if c := &s.units.cols[k]; c.ends != nil {
			if note := c.ends.Note("column " + string(s.dict.Name(c.id))); note != "" {
				return note
			}
		}
	}
	return ""
}

// number finds the numeric columns among the features that the dictionary has gained.
func (s *State) number() {
	u := s.units
	r, back := u.recast(true), Recast{}
	r.Enters = true
	if n := s.dict.Len() - len(u.at); n <= fewColumns { // one allocation for a small group
		u.at, u.cols, u.order = slices.Grow(u.at, n), slices.Grow(u.cols, n), slices.Grow(u.order, n)
	}
	for id := len(u.at); id < s.dict.Len(); id++ {
		u.at = append(u.at, -1)
		place := s.dict.NumberPlace(uint32(id))
		if mean, is := s.plan.known(s.dict, id); is {
			u.fix(uint32(id), mean)
			u.bare = u.bare || place < math.MaxInt
			continue
		}
		if place == math.MaxInt {
			continue
		}
		c := column{id: uint32(id), place: place, unit: Unseen, how: s.form.Numbers(uint32(id))}
		if id < s.plan.Named && s.plan.Model.Start != nil {
			if !s.resume(&c) {
				u.bare = true
				continue
			}
			s.enter(&c, r, &back)
		}
		u.at[id] = int32(len(u.cols))
		u.cols = append(u.cols, c)
		u.order = append(u.order, int32(len(u.order)))
	}
	slices.SortFunc(u.order, func(a, b int32) int { return u.cols[a].place - u.cols[b].place })
	for k := range s.bank {
		entered(s.form, k, r, &back)
		if s.bank[k].learning != nil && len(r.IDs) > 0 {
			s.form.Determined(k)
		}
	}
	s.determined()
}

// determined restores, once, the count of what the rows determine to that of the run before, for a
// run that continues it.
func (s *State) determined() {
	if n, _, ok := s.plan.Model.Start.Kept(kernels.KeptDetermined); ok && !s.counts && s.plan.Learns {
		if c, ok := s.form.(Counter); ok {
			for k := range s.bank {
				c.SetKnown(k, c.Count(k)+int64(n))
			}
		}
	}
	for k := range s.bank {
		if !s.counts {
			s.begin(k)
		}
	}
	s.counts = true
}

func (u *units) fix(id uint32, mean float64) {
	if u.fixed == nil {
		u.fixed = map[uint32]float64{}
	}
	u.fixed[id] = mean
}

func (r *Recast) reset(bare bool) {
	r.IDs, r.Old, r.New, r.Bare, r.Enters = r.IDs[:0], r.Old[:0], r.New[:0], bare, false
}

func (r *Recast) add(id uint32, old, now Unit) {
	r.IDs, r.Old, r.New = append(r.IDs, id), append(r.Old, old), append(r.New, now)
}

// resume gives a column what the fit continued knows of it; false if the fit has the weight and has
// not standardised it. With Options.AnyColumns only the fit's covariance has the unit.
func (s *State) resume(c *column) bool {
	if !s.restoreColumn(c) {
		if u, inside := s.form.Unit(c.id); inside && u.Scale > 0 && u != (Unit{Scale: 1}) { // a column that is not recorded
			c.unit = u
			return true
		}
		name := string(s.dict.Name(c.id))
		return !slices.ContainsFunc(s.plan.Model.Start.Beliefs, func(b kernels.Belief) bool { return b.Feature == name })
	}
	if c.N == c.Missing {
		c.unit = Unseen
	}
	return true
}

// plain converts all numbers of form, which is a copy, to their original units.
func (s *State) plain(form Form) {
	r := Recast{Bare: true}
	for _, c := range s.units.cols {
		if c.how != Raw && c.N > c.Missing {
			r.add(c.id, c.unit, Unit{Scale: 1})
		}
	}
	for k := range s.bank {
		form.Recast(k, &r)
	}
}

// due reports whether a column's unit is to follow its statistics at row n.
func due(n int64, old, now Unit) bool {
	switch {
	case now.Scale == 0 || old == now:
		return false
	case old.Scale == 0:
		return true
	case n&(n-1) != 0:
		return false
	}
	q := now.Scale / old.Scale
	return n <= freeze || q > 2 || q < 0.5
}

// standardiseRow returns a row in the units in force, after the changes that it makes to them, and
// the contribution of known weights in the original unit of the responses.
func (s *State) standardiseRow(fs []uint32, xs []float64, counts bool) ([]uint32, []float64, float64) {
	u := s.units
	if len(u.at) < s.dict.Len() {
		s.number()
	}
	if len(u.cols) == 0 && u.fixed == nil {
		return fs, xs, 0
	}
	if counts {
		u.learn(fs, xs)
		s.updateUnits()
	}
	return s.inUnits(fs, xs)
}

// causeOf returns err, of a belief or predictor that is not finite, or its cause: the first numbers
// in the order of the columns, or the responses, whose unit has no finite positive square.
func (s *State) causeOf(err error) error {
	if s.units == nil {
		return err
	}
	for _, k := range s.units.order {
		if c := &s.units.cols[k]; far(&c.ColumnStats, c.unit) {
			return kernels.SpreadError(string(s.dict.Name(c.id)))
		}
	}
	if y := s.units.y; y != nil && far(&y.ColumnStats, y.unit) {
		return kernels.ErrResponseSpread
	}
	return err
}

// far reports whether the square of the numbers or of their unit overflows or underflows.
func far(c *kernels.ColumnStats, u Unit) bool {
	return !design.Squares(c.Center, c.Scale) || !math.IsNaN(u.Center) && !design.Squares(u.Center, u.Scale)
}

// squareless reports whether feature id is a column in a unit, for which far holds.
func (u *units) squareless(id uint32) bool {
	if int(id) >= len(u.at) || u.at[id] < 0 {
		return false
	}
	c := &u.cols[u.at[id]]
	return c.how != Raw && far(&c.ColumnStats, c.unit)
}

// learn adds a row to the statistics.
func (u *units) learn(fs []uint32, xs []float64) {
	for e, id := range fs {
		k := u.at[id]
		if k < 0 {
			continue
		}
		c := &u.cols[k]
		c.Add(xs[e])
		if c.N-c.Missing > endsBegin && xs[e] == xs[e] {
			if c.ends == nil {
				c.ends = &kernels.Extremes{}
			}
			c.ends.Add(xs[e])
		}
	}
}

// updateUnits updates the units that are due to the statistics.
func (s *State) updateUnits() {
	u := s.units
	n := s.told + 1
	r := u.recast(false)
	for _, k := range u.order {
		c := &u.cols[k]
		first := math.IsNaN(c.unit.Center) && c.N > c.Missing && c.how != Raw
		if now := u.target(c, c.N < n); first || due(n, c.unit, now) || c.how == Raw && n <= freeze && now != c.unit {
			r.add(c.id, c.unit, now)
			c.unit = now
		}
	}
	s.recast(r)
}

// recast converts the form to other units. The evidence of the change of prior depends on the noise
// believed now, and is added only if that is given: it was then the same for all rows.
func (s *State) recast(r *Recast) {
	if len(r.IDs) == 0 {
		return
	}
	s.moved = true
	for k := range s.bank {
		gain := 0.0
		d := s.noiseInForce(k)
		s.change(k, d, d, func() float64 {
			gain = s.form.Recast(k, r)
			return gain
		})
		if s.given() {
			s.bank[k].logZ += gain
		}
		if s.bank[k].learning != nil {
			s.form.Determined(k)
		}
	}
}

// inUnits returns a row in the units in force. A missing number is the mean of its column or, in an
// interaction, the value that Gaps give; a column that a row does not have is 0.
func (s *State) inUnits(fs []uint32, xs []float64) ([]uint32, []float64, float64) {
	u := s.units
	u.recast(true)
	u.fs, u.xs = u.fs[:0], u.xs[:0]
	if len(u.here) < len(u.cols) {
		u.here = make([]bool, len(u.cols))
	}
	clear(u.here)
	n, shift := 0, 0.0
	for e, id := range fs {
		x := xs[e]
		if x != x {
			if stands, ok := s.interactionLacking(id, fs, xs); ok {
				x = stands
			}
		}
		if u.fixed != nil {
			if w, is := u.fixed[id]; is {
				shift += w * x
				continue
			}
		}
		if k := u.at[id]; k >= 0 {
			c := &u.cols[k]
			u.here[k] = true
			n++
			if math.IsNaN(x) {
				x = c.Center
			}
			if c.how == Raw {
				if c.unit.Scale == 0 { // the weight cannot be learnt yet
					continue
				}
			} else {
				x = c.unit.of(x)
			}
		}
		u.fs, u.xs = append(u.fs, id), append(u.xs, x)
	}
	for k := 0; n < len(u.cols) && k < len(u.cols); k++ {
		if c := &u.cols[k]; !u.here[k] && c.unit.Center != 0 && c.unit.Scale != 0 {
			u.fs, u.xs = append(u.fs, c.id), append(u.xs, c.unit.of(0))
		}
	}
	return u.fs, u.xs, shift
}

// response is the unit of the responses of a location family.
type response struct {
	kernels.ColumnStats
	unit Unit
	up   Update         // the rule for responses in their unit
	lik  lik.Likelihood // of responses in their unit, if their noise is given
	owed float64        // weight of the rows whose density lacks the log of a unit not known yet

	begun     kernels.ColumnStats // of the fit that is continued
	begunUnit Unit
}

// scale is the scale of the unit, 1 if there is none.
func (r *response) scale() float64 {
	if r == nil {
		return 1
	}
	return r.unit.scale()
}

// given reports whether the noise is a number in the original unit of the responses.
func (s *State) given() bool { return !s.plan.Learns && !s.plan.unitNoise }

// unitOfNoise is the standard deviation of a given noise, a unit until the responses have one.
func (s *State) unitOfNoise() float64 {
	return math.Sqrt(s.plan.Model.Lik.(lik.Dispersed).Dispersion())
}

// rescaleResponse returns a row in the unit of the responses, after the change that its response,
// less the known part of its predictor, makes to that unit.
func (s *State) rescaleResponse(o lik.Obs, shift float64) lik.Obs {
	y := s.units.y
	if !(o.Weight > 0) {
		o.Y = y.unit.of(o.Y)
		return o
	}
	y.Add(o.Y - shift)
	if y.N == 1 && y.unit == (Unit{}) && s.units.centred {
		y.unit.Center = o.Y - shift
		if s.given() {
			y.unit.Scale = s.unitOfNoise()
			s.bind()
		}
	}
	now := Unit{0, math.Hypot(y.Center, y.Scale)}
	if s.units.centred {
		now = Unit{y.Center, y.Scale}
	}
	if due(s.told+1, y.unit, now) {
		s.setResponseUnit(now)
	}
	if y.unit.Scale == 0 && !s.units.centred && s.given() { // all were 0
		y.unit.Scale = s.unitOfNoise()
		s.bind()
	}
	if y.unit.Scale == 0 { // the response is what is known of the predictor besides the center
		y.owed += o.Weight
		o.Y = shift
		return o
	}
	o.Y = y.unit.of(o.Y)
	return o
}

// setResponseUnit makes now the unit of the responses: weights are multiplied by ratio, the
// intercept moves, and all priors are those of the new unit.
func (s *State) setResponseUnit(now Unit) {
	y := s.units.y
	old := y.unit
	y.unit, s.moved = now, true
	ratio := 1.0
	if old.Scale != 0 {
		ratio = old.Scale / now.Scale
	}
	shift := (old.Center - now.Center) / now.scale()
	for k := range s.bank {
		b := &s.bank[k]
		d := s.noiseInForce(k)
		// Earlier rows keep their noise, except one that was meaningless, like their unit.
		if ratio != 1 && !(math.Abs(math.Log(ratio)) > farUnit && s.plan.unitNoise && b.learner().vague()) {
			if b.learner() != nil {
				b.learner().Recast(ratio)
			}
			s.change(k, d, d*ratio*ratio, func() float64 { // the prior changes as if the noise did
				s.form.Rescale(k, 1/(ratio*ratio))
				return math.NaN()
			})
		}
		s.change(k, d, d, func() float64 {
			s.form.Stretch(k, ratio)
			if s.units.centred && shift != 0 {
				s.shiftIntercept(k, shift)
			}
			if b.learning != nil {
				b.learning.Recast(ratio)
				b.learning.squares.q0 *= ratio * ratio
				s.form.Determined(k)
			}
			return math.NaN()
		})
		if old.Scale == 0 {
			b.logZ -= y.owed * math.Log(now.Scale)
		}
	}
	y.owed = 0
	s.bind()
}

// farUnit is the change of a unit's logarithm, a factor of four, above which the old unit is taken
// to be that of a few responses that were nearly equal or nearly 0.
const farUnit = 2 * math.Ln2

// shiftIntercept moves the intercept of belief k by shift, but not its prior.
func (s *State) shiftIntercept(k int, shift float64) {
	s.form.Lift(k, shift)
	one := []float64{1}
	id := []uint32{0}
	for j := 0; j <= k; j++ { // forms read a row with the first belief
		_, v := s.form.Predict(j, id, one, 0)
		if j == k && v > 0 {
			s.form.Absorb(k, id, one, v, lik.Tilted{Alpha: -shift / s.plan.Fresh(s.dict, 0).Variance, Ratio: 1})
		}
	}
}

// bind binds the rule for responses in their unit, with the given noise or that of the unit.
func (s *State) bind() {
	y := s.units.y
	scale := y.unit.scale()
	own := *s.plan.Model
	if !s.plan.unitNoise {
		own.Lik = lik.WithDispersion(own.Lik, own.Params, own.Lik.(lik.Dispersed).Dispersion()/(scale*scale))
	} else {
		own.Lik = lik.WithDispersion(own.Lik, own.Params, 1)
	}
	own.Options.MeasurementNoise /= scale * scale
	own.Options.NoiseFloor /= scale * scale
	up, err := s.plan.rule.Bind(&own)
	if err != nil { // the same options bound before
		panic(err)
	}
	y.up, y.lik = up, own.Lik
}

// standardised returns m as its form needs it, and the unit of its responses if they have one. A
// continued fit goes on as it began: its columns unchanged, its responses in its unit; if that is
// not known they stay in their original unit, under the prior that the fit has arrived at.
func standardised(m *kernels.Model) (*kernels.Model, *response) {
	f := m.Start
	if f != nil && f.Standardized() != m.Options.Standardize {
		c := *m
		c.Options.Standardize = f.Standardized()
		m = &c
	}
	if !m.Options.Standardize || !m.Lik.Traits().Located {
		return m, nil
	}
	if f == nil {
		return m, &response{}
	}
	r, inside := responseOf(f)
	if r == nil {
		return m, nil
	}
	r.begun, r.begunUnit = r.ColumnStats, r.unit
	c := *m
	q := r.unit.scale()
	c.Prior.Mean = kernels.UnscalePrior(c.Prior.Mean, q)
	c.Prior.Variance = kernels.UnscalePrior(c.Prior.Variance, q*q)
	c.Prior.InterceptVariance = kernels.UnscalePrior(c.Prior.InterceptVariance, q*q)
	if !inside {
		c.Start = r.fitInUnit(f, !m.NoIntercept)
	}
	return &c, r
}

// prior converts a prior to the original unit of the responses.
func (u *units) prior(p *kernels.Prior) {
	q := u.responses()
	p.Mean *= q
	p.Variance = kernels.ScalePrior(p.Variance, q*q)
	p.InterceptVariance = kernels.ScalePrior(p.InterceptVariance, q*q)
}

// responses is the scale of the responses' unit, 1 if there is none.
func (u *units) responses() float64 {
	if u == nil || u.y == nil {
		return 1
	}
	return u.y.unit.scale()
}

// original returns the belief w of feature id for responses in their original unit.
func (u *units) original(id uint32, w kernels.Weight) kernels.Weight {
	if u == nil || u.y == nil {
		return w
	}
	if mean, is := u.fixed[id]; is {
		return kernels.Weight{Mean: mean}
	}
	q := u.y.unit.scale()
	w.Mean *= q
	w.Variance *= q * q
	if id == 0 && u.centred {
		w.Mean += u.y.unit.Center
	}
	return w
}

// restore converts the posterior of f, whose beliefs are of these features, to the original
// responses.
func (u *units) restore(f *kernels.Fit, order []uint32) {
	if u == nil || u.y == nil {
		return
	}
	for k, id := range order {
		f.Beliefs[k].Weight = u.original(id, f.Beliefs[k].Weight)
	}
	c, q := &f.Covariance, u.y.unit.scale()
	switch c.Form {
	case gauss.Arrowhead:
		if u.centred { // an intercept that is learnt
			c.Arrow().SetResponse(u.y.unit.Center, u.y.unit.Scale, u.y.Center, u.y.Scale)
		} else { // otherwise the intercept would have the unit
			c.Arrow().Stretch(q)
		}
	case gauss.Full:
		for k := range c.Values {
			c.Values[k] *= q
		}
	case gauss.LowRank:
		for j := range f.Beliefs {
			for k := range c.Row(j) {
				if c.Row(j)[k] *= q; k == 0 {
					c.Row(j)[k] *= q
				}
			}
		}
	}
}

// linearIn is Linear with rows in the units in force.
func (s *State) linearIn(b *kernels.Batch, mean, variance []float64) error {
	var told kernels.Batch
	told.Reset()
	unit := Unit{Scale: 1}
	if y := s.units.y; y != nil {
		unit = Unit{y.unit.Center, y.unit.scale()}
	}
	for i := range b.Len() {
		fs, xs := b.Entries(i)
		fs, xs, shift := s.standardiseRow(fs, xs, false)
		for e, id := range fs {
			told.Add(id, xs[e])
		}
		told.EndRow()
		told.Offset = append(told.Offset, (b.Shift(i)+shift)/unit.Scale)
	}
	told.Time = b.Time
	if err := s.linear(&told, mean, variance); err != nil {
		return err
	}
	for i := range b.Len() {
		mean[i] = unit.Center + unit.Scale*mean[i]
		variance[i] *= unit.Scale * unit.Scale
	}
	return nil
}

// formForFit returns a form for the fit: one that does not keep units has the weights per original
// unit, under the prior of the units that the statistics have arrived at.
func (s *State) formForFit() Form {
	if len(s.units.at) < s.dict.Len() {
		s.number()
	}
	for _, c := range s.units.cols {
		if _, inside := s.form.Unit(c.id); inside || c.how == Raw {
			return s.present()
		}
	}
	form := s.present()
	if form == s.form {
		form, _ = s.form.Clone(s.dict, nil)
	}
	c := *s
	c.form, c.units, c.bank = form, s.units.clone(nil), slices.Clone(s.bank)
	for k := range c.bank {
		c.bank[k].learning = nil
	}
	if s.told < freeze {
		var r Recast
		for k := range c.units.cols {
			col := &c.units.cols[k]
			if now := c.units.currentUnit(col); now != col.unit && now.Scale != 0 {
				r.add(col.id, col.unit, now)
				col.unit = now
			}
		}
		c.recast(&r)
	}
	c.plain(form)
	return form
}

// toCommonUnits converts s and a copy of src, whose features are numbered by g, to common units:
// those of one if the other has no rows, otherwise those of their joint statistics.
func (s *State) toCommonUnits(src *State, g *Merging) (*State, error) {
	src = src.Clone()
	if err := src.Grow(); err != nil {
		return nil, err
	}
	s.number()
	src.number()
	start := s.plan.Model.Start
	var own, other, first, back Recast
	bare := Recast{Bare: true, Enters: true}
	to := func(r *Recast, c *column, id uint32, absent bool, now Unit) {
		if absent && math.IsNaN(c.unit.Center) && !math.IsNaN(now.Center) { // it is 0 in all rows
			c.unit = Unit{}
		}
		if c.unit != now {
			r.add(id, c.unit, now)
		}
		c.unit = now
	}
	for j := range src.units.cols {
		o := &src.units.cols[j]
		k := s.units.at[g.ID(int(o.id))]
		if k < 0 {
			continue
		}
		c := &s.units.cols[k]
		begun := column{id: c.id, how: c.how, unit: Unseen}
		if s.restoreColumn(&begun) {
			begun.unit = s.unitAtStart(&begun)
		}
		now := c.unit
		without, withoutToo := c.N < s.told || c.unit.Scale != 0, o.N < src.told || o.unit.Scale != 0
		c.ends, c.follows = kernels.MergedExtremes(c.ends, o.ends), mergedFollows(c.follows, o.follows)
		switch stats := begun.ColumnStats; {
		case o.N == stats.N: // nothing was learnt there
		case c.N == stats.N:
			now, c.ColumnStats = o.unit, o.ColumnStats
		default:
			c.Merge(o.Less(stats))
			now = s.units.currentUnit(c)
		}
		if now.Scale == 0 && c.N > c.Missing && c.how != Raw {
			now = s.units.target(c, without || withoutToo)
		}
		to(&own, c, c.id, without, now)
		to(&other, o, o.id, withoutToo, now)
		if begun.N > begun.Missing {
			s.enter(&begun, &bare, &back)
			first.add(c.id, begun.unit, c.unit)
		} else if start != nil && trainingRows(start) > begun.N && now.Center != 0 && !math.IsNaN(now.Center) {
			first.add(uint32(s.plan.Named+len(g.Joined)), Unit{}, now)
			g.Joined = append(g.Joined, c.id)
		}
	}
	s.recast(&own)
	src.recast(&other)
	if s.units.y != nil {
		s.toCommonResponseUnit(src)
	}
	g.Prepare = func(f Form) {
		t := *s
		t.form, t.bank = f, slices.Clone(s.bank)
		for k := range t.bank {
			t.bank[k].learning, t.bank[k].scored = nil, nil
		}
		for k := range t.bank {
			entered(f, k, &bare, &back)
		}
		t.recast(&first)
		if y := s.units.y; y != nil && start != nil && y.unit != y.begunUnit {
			u, r := *s.units, *y
			t.units, u.y, r.unit = &u, &r, y.begunUnit
			t.setResponseUnit(y.unit)
		}
	}
	return src, nil
}

// toCommonResponseUnit is toCommonUnits for the unit of the responses.
func (s *State) toCommonResponseUnit(src *State) {
	y, o := s.units.y, src.units.y
	start := y.begun
	switch {
	case o.N == start.N:
		src.adopt(y.unit)
	case y.N == start.N:
		s.adopt(o.unit)
		y.ColumnStats = o.ColumnStats
	default:
		y.Merge(o.Less(start))
		now := Unit{0, math.Hypot(y.Center, y.Scale)}
		if s.units.centred {
			now = Unit{y.Center, y.Scale}
		}
		s.adopt(now)
		src.adopt(now)
	}
}

// adopt makes now the unit of the responses, which may have none yet.
func (s *State) adopt(now Unit) {
	switch y := s.units.y; {
	case now == y.unit:
	case y.N == 0:
		y.unit = now
		s.bind()
	default:
		s.setResponseUnit(now)
	}
}

// restoreColumn gives a column the statistics and the unit of the fit continued; false if the fit
// has not standardised it.
func (s *State) restoreColumn(c *column) bool {
	k := s.columnBefore(c.id)
	if k == nil || math.IsNaN(k.Scale) {
		return false
	}
	c.ColumnStats = k.Stats()
	u, inside := s.form.Unit(c.id)
	if !inside {
		u = s.units.currentUnit(c)
		if center, scale, ok := s.plan.Model.Start.Kept(kernels.KeptUnitOf(k.Name)); ok && (center == 0 || s.units.centred && c.how == Centred) {
			u = Unit{center, scale}
		}
	}
	c.unit = u
	return true
}

// unitAtStart is the unit of a column in the fit continued, which the form may have changed since.
func (s *State) unitAtStart(c *column) Unit {
	f := s.plan.Model.Start
	if f.Covariance.Form != gauss.Arrowhead {
		return c.unit
	}
	name, a := string(s.dict.Name(c.id)), f.Covariance.Arrow()
	for k := range f.Beliefs {
		if j := -2 - int(a.Row(k)[0]); f.Beliefs[k].Feature == name && j >= 0 {
			center, scale := a.Unit(j)
			return Unit{center, scale}
		}
	}
	return c.unit
}

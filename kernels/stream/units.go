package stream

import (
	"math"
	"math/bits"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// Unit is how a number u is told to a form: (u - Center)/Scale. Scale 0 says that every
// number so far was Center, which is told as 0.
type Unit struct{ Center, Scale float64 }

func (u Unit) of(x float64) float64 {
	if u.Scale == 0 {
		return 0
	}
	return (x - u.Center) / u.Scale
}

// scale is the unit's, 1 where there is none yet.
func (u Unit) scale() float64 { return kernels.Or(u.Scale, 1) }

// Numbers is how a form takes the numbers of a column.
type Numbers uint8

const (
	Centred Numbers = iota // less their mean, in standard deviations
	Scaled                 // in standard deviations
	Raw                    // as they are: it keeps their scale for the prior
)

// Recast is a change of units of the numbers of some features.
//
// With ratio r = New.Scale/Old.Scale the weight of a feature becomes r times itself, and
// the intercept gains (New.Center - Old.Center)/Old.Scale times the old one: no predictor
// changes. Old.Scale 0 is New.Scale: there is no data on the weight yet. The priors of
// these weights and of the intercept are about the units in force, so that what the old
// priors gave is taken back and the new ones are added, which is exact; with Bare they
// stay as they came.
type Recast struct {
	IDs      []uint32
	Old, New []Unit
	Bare     bool
}

// Ratio is by what the weight of feature k is multiplied.
func (r *Recast) Ratio(k int) float64 {
	if r.Old[k].Scale == 0 || r.New[k].Scale == 0 {
		return 1
	}
	return r.New[k].Scale / r.Old[k].Scale
}

// Shift is by what the old weight of feature k is multiplied to move the intercept.
func (r *Recast) Shift(k int) float64 {
	return (r.New[k].Center - r.Old[k].Center) / kernels.Or(r.Old[k].Scale, r.New[k].scale())
}

// Pin is what the factor exp(-δ(s - a)²/2) does to a predictor s ~ N(m, v), as the tilt
// that a Form absorbs, and the log of its mean. δ < 0 takes such a factor back; ok is false
// where nothing proper would be left.
func Pin(m, v, delta, a float64) (t lik.Tilted, ok bool) {
	r := 1 + delta*v
	if !(r > 1e-12) || math.IsInf(r, 1) {
		return t, false
	}
	e := a - m
	return lik.Tilted{LogZ: -0.5 * (math.Log(r) + delta*e*(e/r)), Alpha: delta * e / r, Beta: delta / r, Ratio: 1 / r}, true
}

// Restore gives the weights of r and the intercept the priors of the new units, after the
// weights were brought to these. prior is that of a weight, -1 the intercept's; absorb adds
// δ to the precision along the row of weights js with values xs (-1 the intercept) about
// the mean a, and says by what the log evidence changes.
func (r *Recast) Restore(prior func(j int) kernels.Weight, absorb func(js []int, xs []float64, delta, a float64) float64) (logZ float64) {
	pin := func(k int) (delta, a float64) {
		w, q := prior(k), r.Ratio(k)
		return (1 - 1/(q*q)) / w.Variance, w.Mean * q / (1 + q)
	}
	one := []float64{1}
	for k := range r.IDs {
		logZ += math.Log(r.Ratio(k))
		if delta, a := pin(k); delta > 0 {
			logZ += absorb([]int{k}, one, delta, a)
		}
	}
	js, xs := []int{-1}, []float64{1}
	for k := range r.IDs {
		if s := r.Shift(k); s != 0 {
			js, xs = append(js, k), append(xs, -s/r.Ratio(k))
		}
	}
	if len(js) > 1 { // the intercept at the new centres has the prior that it had at the old ones
		w := prior(-1)
		logZ += absorb(js[:1], one, 1/w.Variance, w.Mean)
		logZ += absorb(js, xs, -1/w.Variance, w.Mean)
	}
	for k := range r.IDs {
		if delta, a := pin(k); delta < 0 {
			logZ += absorb([]int{k}, one, delta, a)
		}
	}
	return logZ
}

// freeze is the number of rows from which units stay, but for columns that begin to vary
// or change their scale by a factor of two.
const freeze = 1 << 16

// units are the units of a state's numbers, and of its responses.
type units struct {
	cols    []column
	at      []int32 // by feature: its column, -1 for none
	centred bool    // there is an intercept to take up what centring moves
	y       *response

	fs   []uint32 // the row as it is told
	xs   []float64
	here []bool // by column: the row has it
	r    Recast // memory
}

// column is a column of numbers.
type column struct {
	kernels.ColumnStats
	id   uint32
	unit Unit // in force
	how  Numbers
}

// running is the unit that the statistics come to.
func (u *units) running(c *column) Unit {
	switch {
	case c.how == Raw:
		return Unit{0, c.Scale}
	case !u.centred:
		return Unit{0, math.Hypot(c.Center, c.Scale)}
	case c.how == Scaled:
		return Unit{0, c.Scale}
	}
	return Unit{c.Center, c.Scale}
}

func (u *units) clone() *units {
	if u == nil {
		return nil
	}
	c := *u
	c.cols, c.at = slices.Clone(u.cols), slices.Clone(u.at)
	c.fs, c.xs, c.here, c.r = nil, nil, nil, Recast{}
	if u.y != nil {
		y := *u.y
		c.y = &y
	}
	return &c
}

func (u *units) size() int64 {
	if u == nil {
		return 0
	}
	return 120 + 80*int64(cap(u.cols)) + 4*int64(cap(u.at)+cap(u.fs)) + 8*int64(cap(u.xs)) + int64(cap(u.here))
}

// grow finds the columns of numbers among the features that the dictionary has learnt.
func (s *State) number() {
	u := s.units
	for id := len(u.at); id < s.dict.Len(); id++ {
		u.at = append(u.at, -1)
		if s.dict.NumberPlace(uint32(id)) == math.MaxInt || s.plan.Fresh(id).Variance == 0 || id < s.plan.Named && s.plan.asIs[id] {
			continue
		}
		u.at[id] = int32(len(u.cols))
		u.cols = append(u.cols, column{id: uint32(id), how: s.form.Numbers(uint32(id))})
	}
}

// due says whether a column's unit is to follow its statistics at row n.
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

// tell is a row in the units in force, after what it changes about them.
func (s *State) tell(fs []uint32, xs []float64, counts bool) ([]uint32, []float64) {
	u := s.units
	if len(u.at) < s.dict.Len() {
		s.number()
	}
	if len(u.cols) == 0 {
		return fs, xs
	}
	if counts {
		u.learn(fs, xs)
		s.follow()
	}
	return u.told(fs, xs)
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
		if c.N-c.Missing == 1 && c.unit == (Unit{}) && c.how == Centred && u.centred {
			c.unit.Center = c.Center
		}
	}
}

// follow brings the units that are due to the statistics.
func (s *State) follow() {
	u := s.units
	n := s.n + 1
	r := &u.r
	r.IDs, r.Old, r.New, r.Bare = r.IDs[:0], r.Old[:0], r.New[:0], false
	for k := range u.cols {
		c := &u.cols[k]
		if now := u.running(c); due(n, c.unit, now) || c.how == Raw && n <= freeze && now != c.unit {
			r.IDs, r.Old, r.New = append(r.IDs, c.id), append(r.Old, c.unit), append(r.New, now)
			c.unit = now
		}
	}
	s.recast(r)
}

func (s *State) recast(r *Recast) {
	if len(r.IDs) == 0 {
		return
	}
	for k := range s.bank {
		s.bank[k].logZ += s.form.Recast(k, r)
		if s.bank[k].learning != nil {
			s.form.Determined(k)
		}
	}
}

// told is a row in the units in force. A number that is missing is the mean of its
// column; one that a row does not have at all is 0.
func (u *units) told(fs []uint32, xs []float64) ([]uint32, []float64) {
	u.fs, u.xs = u.fs[:0], u.xs[:0]
	if len(u.here) < len(u.cols) {
		u.here = make([]bool, len(u.cols))
	}
	clear(u.here)
	n := 0
	for e, id := range fs {
		x := xs[e]
		if k := u.at[id]; k >= 0 {
			c := &u.cols[k]
			u.here[k] = true
			n++
			if math.IsNaN(x) {
				x = c.Center
			}
			if c.how == Raw {
				if c.unit.Scale == 0 { // nothing can be said of its weight
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
	return u.fs, u.xs
}

// response is the unit of the responses of a location family.
type response struct {
	kernels.ColumnStats
	unit Unit
	up   Update  // the rule for responses as they are told
	owed float64 // rows, by weight, whose density lacks a unit that is not known yet
}

// follow tells the form a response y of a row of that weight.
func (s *State) respond(o lik.Obs) lik.Obs {
	y := s.units.y
	if !(o.Weight > 0) {
		o.Y = y.unit.of(o.Y)
		return o
	}
	y.Add(o.Y)
	if y.N == 1 && y.unit == (Unit{}) && s.units.centred {
		y.unit.Center = o.Y
	}
	now := Unit{0, math.Hypot(y.Center, y.Scale)}
	if s.units.centred {
		now = Unit{y.Center, y.Scale}
	}
	if due(s.n+1, y.unit, now) {
		s.reply(now)
	}
	o.Y = y.unit.of(o.Y)
	return o
}

// reply makes now the unit of the responses: weights become ratio times themselves, the
// intercept moves, and all priors are those of the new unit.
func (s *State) reply(now Unit) {
	y := s.units.y
	old := y.unit
	y.unit = now
	ratio := 1.0
	if old.Scale != 0 {
		ratio = old.Scale / now.Scale
	}
	shift := (old.Center - now.Center) / now.scale()
	for k := range s.bank {
		b := &s.bank[k]
		if ratio != 1 {
			s.form.Rescale(k, 1/(ratio*ratio))
		}
		s.form.Stretch(k, ratio)
		if s.units.centred && shift != 0 {
			s.lift(k, shift)
		}
		if b.learning != nil {
			b.learning.Recast(ratio)
			s.form.Determined(k)
		}
		if old.Scale == 0 {
			b.logZ -= y.owed * math.Log(now.Scale)
		}
	}
	y.owed = 0
	s.bind()
}

// lift moves the intercept of belief k by shift, and its prior back to where it was.
func (s *State) lift(k int, shift float64) {
	s.form.Lift(k, shift)
	one := []float64{1}
	id := []uint32{0}
	for j := 0; j <= k; j++ { // forms read a row with the first
		_, v := s.form.Predict(j, id, one, 0)
		if j == k && v > 0 {
			s.form.Absorb(k, id, one, v, lik.Tilted{Alpha: -shift / s.plan.Fresh(0).Variance, Ratio: 1})
		}
	}
}

// bind makes the rule for responses as they are told, where their noise is a given one.
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
	y.up = up
}

// log2 of a row count, for tests of the schedule.
func log2(n int64) int { return bits.Len64(uint64(n)) - 1 }

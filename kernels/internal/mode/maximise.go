package mode

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
)

const (
	// MaxStep is the largest step of a parameter: a factor of 20 for a logarithm.
	MaxStep = 3
	// slopeTol is the largest slope at a maximum, relative to its scale: the relative error of
	// a variance. An Evidence may also have a method Tolerance() float64: how many nats below the
	// maximum each parameter may end.
	slopeTol = 1e-6
	pairs    = 8 // pairs that L-BFGS keeps
	maxOuter = 50
	// An evidence that has gained less than rising in the last lately steps no longer rises.
	rising = 1e-4
	lately = 5
	// Two steps in a row that gain less than this, in nats, end the search: for low rank the
	// slope is that of exact eigenpairs, to which the computed ones only come close.
	sameEvidence = 1e-8 // for an Evidence that is not Rough
	longest      = 64   // the largest factor by which steps may exceed the scales
	// tail is the least ratio of slope to curvature at which an evidence counts as flattening like
	// e^-θ, for which it is 1; below 1, as differences of slopes over a step of 3 give six times
	// that.
	tail = 0.1
	// stretch is the share of its linear prediction that a step must gain to be doubled: a step to
	// the top of a parabola gains a half, e^-θ in a step of 1 about 0.63.
	stretch = 0.6
)

// StillRising is the status of a climb that has taken all its steps, for a Search without Steps.
var StillRising = stillRising(maxOuter)

func stillRising(steps int) string {
	return fmt.Sprintf("the evidence was still rising after %d steps of its maximisation", steps)
}

// Evidence is a log evidence as a function of parameters θ.
type Evidence interface {
	// Try moves to θ; ok is false if the value is not reliable.
	Try(theta []float64) (log float64, ok bool, err error)
	// Keep is called if the θ tried last is the best so far.
	Keep()
	// Slope returns the derivative at the θ tried last, and positive numbers that divide it into a
	// good step, nil if they are not known. It may move elsewhere.
	Slope() (slope, scale []float64, err error)
}

func tolerance(e Evidence) float64 {
	if t, ok := e.(interface{ Tolerance() float64 }); ok {
		return t.Tolerance()
	}
	return 0
}

// Rough is an Evidence whose values or slopes are less exact: Same is the least gain of a step
// that counts.
type Rough interface {
	Evidence
	Same() float64
}

func sameOf(e Evidence) float64 {
	if r, ok := e.(Rough); ok {
		return r.Same()
	}
	return sameEvidence
}

// Modal is an Evidence of a posterior that may have several modes, of which it follows one:
// Higher moves to the best mode at the present θ, and reports whether its evidence is higher.
type Modal interface {
	Evidence
	Higher() (bool, error)
}

// Prober is an Evidence that can evaluate θ with less effort: while it is only used to choose a
// start, a value that takes long is reported as unreliable.
type Prober interface {
	Evidence
	Probe(on bool)
}

// Search is a search for the parameters of highest evidence within bounds.
type Search struct {
	Lo, Hi []float64
	Late   func() bool // reports whether time is up: the best so far is returned
	// Grid makes it try all starts before the first climb, which is from the best of them;
	// without it the first climb is from the first start.
	Grid bool
	// Climbs is the largest number of starts to climb from; 0 is 2.
	Climbs int
	// Apart is how far, in some parameter, a start must be from both ends of all earlier climbs to
	// be climbed from although it is lower than the best, by up to rival nats; 0 is 4.5.
	Apart float64
	// Ends is, by parameter, the gain left in nats below which a parameter whose evidence flattens
	// like e^-θ is moved to the end of its range, if that is no lower; 0 or nil means never.
	Ends []float64
	// Stretch makes a step that gains more than a parabola predicts be doubled for as long as the
	// evidence rises, for slopes that are computed from values.
	Stretch bool
	// Steps is the largest number of steps of a climb; 0 is 50.
	Steps int

	ends []end // of the climbs so far
}

// end is a climb: its start, end, path, and height.
type end struct {
	from, to []float64
	path     [][]float64
	log      float64
	ok       bool
	status   string
}

const (
	// beside is the distance below which two starts are the same; sameHill is the distance to the
	// end of an earlier climb at which a later one, no higher, stops, and that of a start to its
	// path.
	beside, sameHill = 1e-3, 0.5
	// rival is how many nats below the best maximum another start may lie to be climbed from, and
	// apart how far from it, on the logarithmic scale of a parameter.
	rival, apart = 30, 4.5
)

// AtEnd returns the end of the range from lo to hi at which x is: -1, 1, or 0 for neither.
func AtEnd(x, lo, hi float64) int {
	const near = 1e-4
	switch {
	case x <= lo+near:
		return -1
	case x >= hi-near:
		return 1
	}
	return 0
}

// From climbs from the best starts: those above the best end so far, or apart from the paths of
// earlier climbs, so that the result is never below a start. It returns with e at the best θ, as
// Slope leaves it; status is the reason why that climb stopped before the maximum, "" if it did
// not.
func (s Search) From(e Evidence, starts [][]float64) (best []float64, status string, err error) {
	top := end{log: math.Inf(-1)}
	left, here := kernels.Or(s.Climbs, 2), false
	climb := func(theta []float64) {
		to, failed := s.climb(e, theta)
		for m, ok := e.(Modal); ok && failed == nil && to.ok && !s.Late(); {
			higher, sure := m.Higher()
			if ok = higher && sure == nil; ok { // another mode has its own parameters
				to, failed = s.climb(e, to.to)
			}
		}
		if err == nil {
			err = failed
		}
		left--
		here = false
		if failed == nil {
			if !to.ok {
				to.log = math.Inf(-1)
			}
			if s.ends = append(s.ends, to); len(s.ends) == 1 || to.log > top.log {
				top, here = to, true
			}
		}
	}
	if !s.Grid {
		climb(starts[0])
		starts = starts[1:]
	}
	tried, failed := s.try(e, starts)
	if err == nil {
		err = failed
	}
	here = here && len(tried) == 0
	for _, t := range tried {
		if left > 0 && (len(s.ends) == 0 || !s.Late() && s.worth(&t, top.log)) {
			climb(t.to)
		}
	}
	if math.IsInf(top.log, -1) && err != nil || len(s.ends) == 0 {
		return nil, "", err
	}
	if err = nil; !here {
		_, _, err = e.Try(top.to)
	}
	return top.to, top.status, err
}

// try evaluates starts and sorts them, best first. If there is no end yet it tries one however late
// it is.
func (s *Search) try(e Evidence, starts [][]float64) (tried []end, first error) {
	if p, ok := e.(Prober); ok {
		p.Probe(true)
		defer p.Probe(false)
	}
	for _, theta := range starts {
		if s.Late() && len(s.ends)+len(tried) > 0 {
			break
		}
		near := func(t end) bool { return distance(theta, t.from) < beside }
		if slices.ContainsFunc(s.ends, near) || slices.ContainsFunc(tried, near) {
			continue
		}
		log, ok, err := e.Try(theta)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		tried = append(tried, end{from: theta, to: theta, log: log, ok: ok})
	}
	slices.SortStableFunc(tried, func(a, b end) int {
		if a.ok != b.ok {
			if a.ok {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.log, a.log)
	})
	return tried, first
}

// worth reports whether to climb from t; top is the best height so far.
func (s *Search) worth(t *end, top float64) bool {
	if !t.ok || t.log > top {
		return t.ok
	}
	far := kernels.Or(s.Apart, apart)
	return t.log > top-rival && !slices.ContainsFunc(s.ends, func(path end) bool {
		return distance(t.to, path.from) <= far || distance(t.to, path.to) <= far ||
			slices.ContainsFunc(path.path, func(at []float64) bool { return distance(t.to, at) < sameHill })
	})
}

// distance returns the largest difference of a parameter.
func distance(a, b []float64) (d float64) {
	for k, v := range a {
		d = max(d, math.Abs(v-b[k]))
	}
	return d
}

// ascent is the state of a climb.
type ascent struct {
	*Search
	e            Evidence
	theta        []float64
	log          float64
	slope, scale []float64
	free         []bool // by parameter: not pushing against an end of its range
	hist         history
	ended        []bool  // by parameter: was tried at the end of its range
	stretched    bool    // the latest step was stretched
	longer       float64 // factor by which steps exceed those of the scales
	away         bool    // the evidence is at another θ
}

// climb moves from θ to the maximum of e, by L-BFGS started from slope/scale, each step shortened
// until the evidence rises. It returns with e at the best θ; ok is that of the first evaluation.
func (s *Search) climb(e Evidence, theta []float64) (end, error) {
	a := &ascent{Search: s, e: e, theta: slices.Clone(theta), ended: make([]bool, len(theta)), longer: 1}
	log, ok, err := e.Try(theta)
	if a.log = log; err != nil || !ok || len(theta) == 0 {
		return end{from: theta, to: a.theta, log: log, ok: ok}, err
	}
	var path [][]float64
	var logs []float64
	if err := a.keep(); err != nil {
		return end{}, err
	}
	at := func(status string) (_ end, err error) {
		if a.away {
			_, _, err = e.Try(a.theta)
		}
		return end{theta, a.theta, path, a.log, ok, status}, err
	}
	late := func(outer int) string {
		return fmt.Sprintf("stopped at the time limit after %d steps of maximising the evidence", outer)
	}
	same, steps := sameOf(e), kernels.Or(s.Steps, maxOuter)
	still := 0 // steps in a row that hardly raised the evidence
	for outer := 0; ; outer++ {
		moved, next := a.toEnd()
		switch {
		case moved != nil:
		case a.done() || still == 2 || a.determined():
			return at("")
		case outer == steps && len(logs) > lately && a.log-logs[len(logs)-1-lately] < rising:
			return at("")
		case outer == steps:
			return at(stillRising(steps))
		case s.Late():
			return at(late(outer))
		default:
			if moved, next, err = a.step(); err != nil {
				return end{}, err
			}
		}
		if moved == nil {
			// not even a tiny step raises it: it is as high as rounding and the search for the
			// mode allow, or time is up
			if a.away = true; s.Late() {
				return at(late(outer))
			}
			return at("")
		}
		if still++; next-a.log >= same {
			still = 0
		}
		was, slope := a.theta, a.slope
		logs = append(logs, a.log)
		a.theta, a.log, path = moved, next, append(path, moved)
		if err := a.keep(); err != nil {
			return end{}, err
		}
		switch {
		case a.stretched: // the ground is not a parabola
			a.hist = history{}
		case a.hist.add(was, moved, slope, a.slope):
			a.longer = 1
		default: // the slope grows with distance, and steps by the scales would creep
			a.longer = min(2*a.longer, longest)
		}
	}
}

// keep calls Keep of the evidence and computes its slope.
func (a *ascent) keep() (err error) {
	a.away = false
	a.e.Keep()
	if a.slope, a.scale, err = a.e.Slope(); err != nil {
		return err
	}
	a.free = make([]bool, len(a.theta))
	for k, g := range a.slope {
		a.free[k] = !(g < 0 && a.theta[k] <= a.Lo[k]) && !(g > 0 && a.theta[k] >= a.Hi[k])
	}
	return nil
}

// done reports whether a maximum is reached; without scales they count as 1.
func (a *ascent) done() bool {
	nats := tolerance(a.e)
	for k, g := range a.slope {
		scale := 1.0
		if a.scale != nil {
			scale = a.scale[k]
		}
		if a.free[k] && !(math.Abs(g) <= slopeTol*max(scale, 0.1) || g*g <= 2*nats*scale) {
			return false
		}
	}
	return true
}

// determined reports whether the climb has reached the end of an earlier one that is no lower.
func (a *ascent) determined() bool {
	return slices.ContainsFunc(a.ends, func(t end) bool { return a.log <= t.log && distance(a.theta, t.to) < sameHill })
}

// step returns a point of higher evidence, nil if it finds none.
func (a *ascent) step() (moved []float64, log float64, err error) {
	for {
		dir := a.hist.direction(a.slope, a.scale, a.free)
		if !(dense.Dot(dir, a.slope) > 0) {
			a.hist = history{}
			dir = a.hist.direction(a.slope, a.scale, a.free)
		}
		for k := range dir {
			dir[k] = min(max(a.longer*dir[k], -MaxStep), MaxStep)
		}
		if moved, log, err = a.line(dir); moved != nil || err != nil || a.scale != nil || len(a.hist.s) == 0 || a.Late() {
			return moved, log, err
		}
		a.hist = history{} // it may mislead if no scale corrects it
	}
}

// toEnd returns the point with a parameter that has next to nothing left to gain, but no maximum in
// sight, at the end of its range; nil if there is none or that is lower. Each is tried once.
func (a *ascent) toEnd() (moved []float64, log float64) {
	for k, g := range a.slope {
		if a.Ends == nil || !a.free[k] || a.ended[k] || !(math.Abs(g) < a.Ends[k]) || !(math.Abs(g) > tail*a.curvature(k)) || a.Late() {
			continue
		}
		a.ended[k], a.away = true, true
		moved := slices.Clone(a.theta)
		if moved[k] = a.Lo[k]; g > 0 {
			moved[k] = a.Hi[k]
		}
		if log, ok, err := a.e.Try(moved); err == nil && ok && log >= a.log && !a.Late() {
			a.stretched = false
			return moved, log
		}
	}
	return nil, 0
}

// curvature returns the scale of parameter k, or its curvature along the latest step.
func (a *ascent) curvature(k int) float64 {
	if a.scale != nil {
		return a.scale[k]
	}
	if n := len(a.hist.s); n > 0 && a.hist.s[n-1][k] != 0 {
		return math.Abs(a.hist.y[n-1][k] / a.hist.s[n-1][k])
	}
	return math.Inf(1)
}

// line shortens the step until the evidence rises; it returns nil if it does not.
func (a *ascent) line(dir []float64) ([]float64, float64, error) {
	const tries = 12
	a.stretched = false
	t := 1.0
	for k := range tries {
		moved, gain := a.along(dir, t)
		log, ok, err := a.e.Try(moved)
		if err != nil && k == tries-1 {
			return nil, 0, err
		}
		if a.Late() {
			return nil, 0, nil
		}
		if err != nil || !ok {
			t *= 0.25
			continue
		}
		got := log - a.log
		if a.Stretch && k == 0 && got > stretch*gain {
			a.stretched = true
			return a.stretch(dir, moved, log)
		}
		// if rounding hides the gain, only the slope decides
		if got >= 1e-4*gain || gain < 1e-9*(1+math.Abs(a.log)) && got > -1e-11*(1+math.Abs(a.log)) {
			return moved, log, nil
		}
		t *= min(max(0.5*gain/(gain-got), 0.1), 0.5) // the parabola through both ends
	}
	return nil, 0, nil
}

// along returns the point t along dir, and the gain that the slope predicts.
func (a *ascent) along(dir []float64, t float64) (moved []float64, gain float64) {
	moved = make([]float64, len(a.theta))
	for k, x := range a.theta {
		moved[k] = min(max(x+t*dir[k], a.Lo[k]), a.Hi[k])
		gain += a.slope[k] * (moved[k] - x)
	}
	return moved, gain
}

// stretch doubles the step to moved, where the evidence is log, until it is no higher.
func (a *ascent) stretch(dir, moved []float64, log float64) ([]float64, float64, error) {
	for t := 2.0; ; t *= 2 {
		next, _ := a.along(dir, t)
		if slices.Equal(next, moved) {
			break
		}
		z, ok, err := a.e.Try(next)
		if err != nil || !ok || !(z > log) || a.Late() {
			break
		}
		moved, log = next, z
	}
	_, _, err := a.e.Try(moved)
	return moved, log, err
}

// history is the memory of L-BFGS for the maximum.
type history struct{ s, y [][]float64 }

// add records a step between two slopes. It returns false if they do not curve as at a maximum.
func (m *history) add(from, to, g0, g1 []float64) bool {
	s, y := make([]float64, len(from)), make([]float64, len(from))
	sy, ss, yy := 0.0, 0.0, 0.0
	for k := range s {
		s[k], y[k] = to[k]-from[k], g0[k]-g1[k]
		sy += s[k] * y[k]
		ss += s[k] * s[k]
		yy += y[k] * y[k]
	}
	if !(sy > 1e-10*math.Sqrt(ss*yy)) {
		return false
	}
	m.s, m.y = append(m.s, s), append(m.y, y)
	if len(m.s) > pairs {
		m.s, m.y = m.s[1:], m.y[1:]
	}
	return true
}

// length returns what multiplies a slope without a scale: the inverse curvature along the latest
// step; for the first step 1, or for slopes longer than 1 the inverse of their length.
func (m *history) length(slope []float64) float64 {
	if n := len(m.s); n > 0 {
		return dense.Dot(m.s[n-1], m.y[n-1]) / dense.Dot(m.y[n-1], m.y[n-1])
	}
	return 1 / max(1, math.Sqrt(dense.Dot(slope, slope)))
}

// direction returns that of L-BFGS, started from the slope divided by scale, each component at most
// MaxStep. Components that are not free are 0.
//
// Source: [nocedal2006], algorithm 7.4.
func (m *history) direction(slope, scale []float64, free []bool) []float64 {
	d := make([]float64, len(slope))
	for k, g := range slope {
		if free[k] {
			d[k] = g
		}
	}
	alpha := make([]float64, len(m.s))
	rho := func(i int) float64 { return 1 / dense.Dot(m.s[i], m.y[i]) }
	for i := len(m.s) - 1; i >= 0; i-- {
		alpha[i] = rho(i) * dense.Dot(m.s[i], d)
		dense.Axpy(-alpha[i], m.y[i], d)
	}
	if scale == nil {
		by := m.length(d)
		for k := range d {
			d[k] *= by
		}
	} else {
		for k := range d {
			// no component of the first step exceeds the limit: scale may be as small as 0 for a
			// group about which the data say nothing
			d[k] /= max(scale[k], math.Abs(slope[k])/MaxStep, 1e-12)
		}
	}
	for i := range m.s {
		beta := rho(i) * dense.Dot(m.y[i], d)
		dense.Axpy(alpha[i]-beta, m.s[i], d)
	}
	for k := range d {
		if !free[k] {
			d[k] = 0
		}
		// each on its own: a variance on its way to 0 does not hold up the others
		d[k] = min(max(d[k], -MaxStep), MaxStep)
	}
	return d
}

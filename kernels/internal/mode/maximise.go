package mode

import (
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
)

const (
	maxOuter = 50
	// MaxStep is the largest step of a parameter: a factor of 20 for a logarithm.
	MaxStep = 3
	// slopeTol is the largest slope at a maximum, relative to its scale: the relative error of
	// a variance. An Evidence may say besides how many nats below it will do, each parameter
	// for itself, by Tolerance() float64.
	slopeTol = 1e-6
	memory   = 8 // pairs of L-BFGS
	// Two steps in a row that gain less than this, in nats, end the search: for low
	// rank the slope is that of exact eigenpairs, which those found only come close to.
	sameEvidence = 1e-8 // of an Evidence that is no Rough
)

// Evidence is a log evidence as a function of parameters θ.
type Evidence interface {
	// Try goes to θ; ok is false when the value is not to be trusted.
	Try(theta []float64) (log float64, ok bool, err error)
	// Keep says that the θ last tried is the best one yet.
	Keep()
	// Slope is the derivative where Try was last, and positive numbers that divide it
	// into a good step.
	Slope() (slope, scale []float64, err error)
}

func tolerance(e Evidence) float64 {
	if t, ok := e.(interface{ Tolerance() float64 }); ok {
		return t.Tolerance()
	}
	return 0
}

// Rough is an Evidence whose values or slopes are less exact: Same is what a step must
// gain at least.
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

// beside is how near the first start another is the same.
const beside = 1e-3

// rival is how many nats below the best maximum a second start may lie and still be
// climbed from, and apart by how much, on the logarithmic scale of a parameter.
const (
	rival = 30
	apart = 4.5
)

// Search climbs from the first start, tries the others, and climbs from the best of
// those that lie above what was found, or apart from the path that was followed, so that the
// end is never below a start. It returns with e at the best θ; status is climb's.
func Search(e Evidence, starts [][]float64, lo, hi []float64, late func() bool) (best []float64, status string, err error) {
	best, log, ok, status, err := climb(e, starts[0], lo, hi, late)
	if len(starts) == 1 {
		return best, status, err
	}
	first := err
	if err != nil || !ok {
		log = math.Inf(-1)
	}
	next, top, tried := -1, math.Inf(-1), false
	for k, theta := range starts[1:] {
		if late() {
			break
		}
		away, same := math.IsInf(log, -1), ok && err == nil
		for j, v := range theta {
			same = same && math.Abs(v-starts[0][j]) < beside
			away = away || v < min(starts[0][j], best[j])-apart || v > max(starts[0][j], best[j])+apart
		}
		if same {
			continue // what it rose from
		}
		tried = true
		z, fine, err := e.Try(theta)
		if err == nil && fine && z > top && (z > log || away && z > log-rival) {
			next, top = k+1, z
		}
	}
	if next >= 0 && !late() {
		other, high, ok, why, err := climb(e, starts[next], lo, hi, late)
		if err == nil && ok && high > log {
			return other, why, nil
		}
	}
	if first != nil {
		return nil, "", first
	}
	if tried {
		_, _, err = e.Try(best)
	}
	return best, status, err
}

// Maximise is the climb from θ.
func Maximise(e Evidence, theta, lo, hi []float64, late func() bool) (best []float64, status string, err error) {
	best, _, _, status, err = climb(e, theta, lo, hi, late)
	return best, status, err
}

// climb goes from θ to the maximum of e within lo and hi, by L-BFGS started from
// slope/scale, each step shortened until the evidence rises. It returns with e at the
// best θ. ok is that of its first evaluation; status says why it stopped before the maximum, ""
// if it did not.
func climb(e Evidence, theta, lo, hi []float64, late func() bool) (best []float64, log float64, ok bool, status string, err error) {
	theta = slices.Clone(theta)
	log, ok, err = e.Try(theta)
	if err != nil || !ok || len(theta) == 0 {
		return theta, log, ok, "", err
	}
	e.Keep()
	slope, scale, err := e.Slope()
	if err != nil {
		return nil, 0, false, "", err
	}
	nats := tolerance(e)
	var hist history
	same := sameOf(e)
	still := 0 // steps in a row that hardly raised the evidence
	for outer := 0; ; outer++ {
		free := make([]bool, len(theta))
		done := true
		for k, g := range slope {
			free[k] = !(g < 0 && theta[k] <= lo[k]) && !(g > 0 && theta[k] >= hi[k])
			done = done && (!free[k] || math.Abs(g) <= slopeTol*max(scale[k], 0.1) || g*g <= 2*nats*scale[k])
		}
		switch {
		case done || still == 2:
			return theta, log, ok, "", nil
		case outer == maxOuter:
			return theta, log, ok, fmt.Sprintf("the evidence was still rising after %d steps of its maximisation", maxOuter), nil
		case late():
			return theta, log, ok, fmt.Sprintf("stopped at the time limit after %d steps of maximising the evidence", outer), nil
		}
		dir := hist.direction(slope, scale, free)
		if !(dense.Dot(dir, slope) > 0) {
			hist = history{}
			dir = hist.direction(slope, scale, free)
		}
		moved, next, err := line(e, theta, dir, slope, lo, hi, log, late)
		if err != nil {
			return nil, 0, false, "", err
		}
		if moved == nil {
			// not even a tiny step raises it: it is as high as rounding and the search
			// for the mode let it be, or time is up
			if late() {
				status = fmt.Sprintf("stopped at the time limit after %d steps of maximising the evidence", outer)
			}
			_, _, err = e.Try(theta)
			return theta, log, ok, status, err
		}
		e.Keep()
		g, sc, err := e.Slope()
		if err != nil {
			return nil, 0, false, "", err
		}
		if next-log < same {
			still++
		} else {
			still = 0
		}
		hist.add(theta, moved, slope, g)
		theta, log, slope, scale = moved, next, g, sc
	}
}

// line shortens the step until the evidence rises, nil if it does not.
func line(e Evidence, theta, dir, slope, lo, hi []float64, was float64, late func() bool) ([]float64, float64, error) {
	const tries = 12
	t := 1.0
	for k := range tries {
		moved := make([]float64, len(theta))
		gain := 0.0
		for k := range theta {
			moved[k] = min(max(theta[k]+t*dir[k], lo[k]), hi[k])
			gain += slope[k] * (moved[k] - theta[k])
		}
		log, ok, err := e.Try(moved)
		if err != nil && k == tries-1 {
			return nil, 0, err
		}
		if late() {
			return nil, 0, nil
		}
		if err != nil || !ok {
			t *= 0.25
			continue
		}
		got := log - was
		// where rounding hides the gain, the slope decides alone
		if got >= 1e-4*gain || gain < 1e-9*(1+math.Abs(was)) && got > -1e-11*(1+math.Abs(was)) {
			return moved, log, nil
		}
		t *= min(max(0.5*gain/(gain-got), 0.1), 0.5) // the parabola through both ends
	}
	return nil, 0, nil
}

// history is the memory of L-BFGS for the maximum.
type history struct{ s, y [][]float64 }

func (m *history) add(from, to, g0, g1 []float64) {
	s, y := make([]float64, len(from)), make([]float64, len(from))
	sy, ss, yy := 0.0, 0.0, 0.0
	for k := range s {
		s[k], y[k] = to[k]-from[k], g0[k]-g1[k]
		sy += s[k] * y[k]
		ss += s[k] * s[k]
		yy += y[k] * y[k]
	}
	if !(sy > 1e-10*math.Sqrt(ss*yy)) {
		return
	}
	m.s, m.y = append(m.s, s), append(m.y, y)
	if len(m.s) > memory {
		m.s, m.y = m.s[1:], m.y[1:]
	}
}

// direction is L-BFGS's, started from the slope divided by scale, each part at most
// MaxStep. Parts that are not free stay.
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
	for k := range d {
		// no part of the first step is longer than the limit: scale as small as 0 for
		// a group of which the data say nothing
		d[k] /= max(scale[k], math.Abs(slope[k])/MaxStep, 1e-12)
	}
	for i := range m.s {
		beta := rho(i) * dense.Dot(m.y[i], d)
		dense.Axpy(alpha[i]-beta, m.s[i], d)
	}
	for k := range d {
		if !free[k] {
			d[k] = 0
		}
		// each for itself: a variance on its way to 0 does not hold up the others
		d[k] = min(max(d[k], -MaxStep), MaxStep)
	}
	return d
}

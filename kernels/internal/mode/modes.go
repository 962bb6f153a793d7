package mode

import (
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// Climber is an uphill search for a mode from its present point.
type Climber interface {
	// Climb climbs under l, over the rows of only unless that is nil.
	Climb(l lik.Likelihood, only []bool) error
	// At returns the present point, Go moves to one, to the prior mean with nil.
	At() []float64
	Go(u []float64)
	// Predictor is the linear predictor, offsets included, at the present point.
	Predictor() []float64
	Obs(i int) lik.Obs
	// LogEvidence is that of the Gaussian at the present point.
	LogEvidence() (float64, error)
	Late() bool
}

// Rivals holds the modes that Highest found.
type Rivals struct {
	First, Best, Second float64 // log evidence of the first one, the best and the next best
	Found               int
	Modes               []Rival // all of them, the first one first
}

// Rival is a mode: its location, and the log evidence of the Gaussian there.
type Rival struct {
	At          []float64
	LogEvidence float64
}

// Notable is how many nats of log evidence a mode may be below the best one and still have more than
// a thousandth of its mass.
const Notable = 7

// Note returns "" or a sentence: if the best mode is not the one uphill of the prior mean, or if
// another one has more than a thousandth of its evidence.
func (r *Rivals) Note() string {
	switch {
	case r.Found < 2:
		return ""
	case r.First < r.Best:
		return fmt.Sprintf("%d modes found: the one uphill of the prior mean has a log evidence %.3g nats below the best one, which is this", r.Found, r.Best-r.First)
	case r.Second > r.Best-Notable:
		return fmt.Sprintf("%d modes found: this is the best one, another is %.2g nats of log evidence below; the posterior has them all", r.Found, r.Best-r.Second)
	}
	return ""
}

const (
	maxRounds = 4
	// Smoothing is reduced at least by this factor from one climb to the next.
	narrower  = 4
	maxStages = 30
)

// Highest searches for better modes than the present one of c, and leaves c at the one of highest
// evidence. It starts where all rows, and then the rows that the best mode has given up, lead if
// the likelihood is first so wide that only one mode is left and is then narrowed (graduated
// non-convexity). A mode that gives up no row is assumed to be the only one. Cost: about ten climbs
// per round.
//
// Source: [blake1987] for the narrowing.
func Highest(c Climber, l lik.Bumpy) (r Rivals, err error) {
	log, err := c.LogEvidence()
	if err != nil {
		return r, err
	}
	type peak struct {
		u, eta []float64
		log    float64
	}
	here := func(log float64) peak { return peak{slices.Clone(c.At()), slices.Clone(c.Predictor()), log} }
	peaks := []peak{here(log)}
	best, moved := 0, false
	for round := 0; round < maxRounds && !c.Late(); round++ {
		given, some := make([]bool, len(peaks[best].eta)), false
		for i, eta := range peaks[best].eta {
			o := c.Obs(i)
			given[i] = o.Weight > 0 && l.Far(o, eta) > 1
			some = some || given[i]
		}
		if !some {
			break
		}
		was := best
		for _, only := range [][]bool{nil, given} {
			if only == nil && round > 0 {
				continue
			}
			moved = true
			if !narrow(c, l, only) || c.Climb(l, nil) != nil {
				continue
			}
			log, err := c.LogEvidence()
			if err != nil || !special.Finite(log) {
				continue
			}
			p := here(log)
			if slices.ContainsFunc(peaks, func(q peak) bool { return alike(p.eta, q.eta) }) {
				continue
			}
			peaks = append(peaks, p)
			if log > peaks[best].log {
				best = len(peaks) - 1
			}
		}
		if best == was {
			break
		}
	}
	r = Rivals{First: peaks[0].log, Best: peaks[best].log, Second: math.Inf(-1), Found: len(peaks)}
	for k, p := range peaks {
		r.Modes = append(r.Modes, Rival{p.u, p.log})
		if k != best {
			r.Second = math.Max(r.Second, p.log)
		}
	}
	if moved {
		c.Go(peaks[best].u)
		err = c.Climb(l, nil)
	}
	return r, err
}

// narrow climbs from the prior mean under successively narrower likelihoods. It returns false if a
// climb fails.
func narrow(c Climber, l lik.Bumpy, only []bool) bool {
	c.Go(nil)
	far := func() float64 {
		sum, n := 0.0, 0.0
		for i, eta := range c.Predictor() {
			if only == nil || only[i] {
				o := c.Obs(i)
				sum += o.Weight * math.Min(l.Far(o, eta), 1e100)
				n += o.Weight
			}
		}
		return sum / n
	}
	f := far()
	for stage := 0; f > 1 && stage < maxStages && !c.Late(); stage++ {
		if c.Climb(l.Smoothed(f), only) != nil {
			return false
		}
		f = math.Min(f/narrower, far())
	}
	return only == nil || c.Climb(l, only) == nil
}

// alike reports whether two predictors belong to the same mode.
func alike(a, b []float64) bool {
	apart, size := 0.0, 0.0
	for i, v := range a {
		apart += (v - b[i]) * (v - b[i])
		size += v*v + b[i]*b[i]
	}
	return apart <= 1e-8*size
}

package mode

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/special"
)

// Function is the Evidence of a function whose slope is not known: differences of its values
// make it, and its curvature is the scale.
type Function struct {
	Value  func(theta []float64) (log float64, ok bool, err error)
	Lo, Hi []float64
	Step   float64 // of the differences

	at  []float64
	log float64
}

// Try is the value at θ.
func (f *Function) Try(theta []float64) (float64, bool, error) {
	log, ok, err := f.Value(theta)
	f.at, f.log = append(f.at[:0], theta...), log
	return log, ok && special.Finite(log), err
}

// Keep does nothing.
func (f *Function) Keep() {}

// Slope is by Differences.
func (f *Function) Slope() (slope, scale []float64, err error) {
	slope, scale = make([]float64, len(f.at)), make([]float64, len(f.at))
	for k := range f.at {
		if slope[k], scale[k], err = Differences(f.Value, f.at, k, f.log, f.Step, f.Lo[k], f.Hi[k]); err != nil {
			return nil, nil, err
		}
	}
	return slope, scale, nil
}

// Differences are slope and curvature in parameter k of value, which is log at θ, from its
// values a step to both sides, within lo and hi. A side without a value says nothing; without either
// the slope is 0. A curvature is at least what makes a step of MaxStep.
func Differences(value func([]float64) (float64, bool, error), theta []float64, k int, log, step, lo, hi float64) (slope, curvature float64, err error) {
	at := slices.Clone(theta)
	side := func(by float64) (float64, float64, error) { // how far it went, the slope of the way
		at[k] = min(max(theta[k]+by, lo), hi)
		by = at[k] - theta[k]
		if by == 0 {
			return 0, 0, nil
		}
		z, ok, err := value(at)
		if err != nil || !ok || !special.Finite(z) {
			return 0, 0, err
		}
		return by, (z - log) / by, nil
	}
	up, rise, err := side(step)
	if err != nil {
		return 0, 0, err
	}
	down, fall, err := side(-step)
	switch {
	case err != nil:
		return 0, 0, err
	case up != 0 && down != 0: // the parabola through three points
		curvature = 2 * (fall - rise) / (up - down)
		slope = (rise*-down + fall*up) / (up - down)
	default:
		slope = rise + fall // of the one that there is
	}
	return slope, max(curvature, math.Abs(slope)/MaxStep), nil
}

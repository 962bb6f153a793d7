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
	Flat   float64 // how many nats below its maximum the value may end

	at  []float64
	log float64
}

// Try is the value at θ.
func (f *Function) Try(theta []float64) (float64, bool, error) {
	log, ok, err := f.Value(theta)
	f.at, f.log = append(f.at[:0], theta...), log
	return log, ok && special.Finite(log), err
}

// Tolerance is Flat.
func (f *Function) Tolerance() float64 { return f.Flat }

// Keep does nothing.
func (f *Function) Keep() {}

// Slope is by Differences.
func (f *Function) Slope() (slope, scale []float64, err error) {
	slope, scale = make([]float64, len(f.at)), make([]float64, len(f.at))
	for k := range f.at {
		slope[k], scale[k] = Differences(f.Value, f.at, k, f.log, f.Step, f.Lo[k], f.Hi[k])
	}
	return slope, scale, nil
}

// Differences are slope and curvature in parameter k of value, which is log at θ, from its
// values a step to both sides, within lo and hi. A side without a value says nothing; without either
// the slope is 0. The curvature is at least one of which a step is no longer than MaxStep.
func Differences(value func(theta []float64) (float64, bool, error), theta []float64, k int, log, step, lo, hi float64) (slope, curvature float64) {
	side := func(by float64) (went, slope float64) {
		at := slices.Clone(theta)
		at[k] = min(max(theta[k]+by, lo), hi)
		by = at[k] - theta[k]
		if by == 0 {
			return 0, 0
		}
		z, ok, err := value(at)
		if err != nil || !ok || !special.Finite(z) {
			return 0, 0
		}
		return by, (z - log) / by
	}
	up, rise := side(step)
	down, fall := side(-step)
	slope = rise + fall       // of the one that there is
	if up != 0 && down != 0 { // the parabola through three points
		curvature = 2 * (fall - rise) / (up - down)
		slope = (fall*up - rise*down) / (up - down)
	}
	return slope, max(curvature, math.Abs(slope)/MaxStep)
}

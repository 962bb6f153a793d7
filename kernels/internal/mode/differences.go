package mode

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/special"
)

// Function is the Evidence of a function without a known slope: slope and scale, its curvature,
// are differences of its values.
type Function struct {
	Value  func(theta []float64) (log float64, ok bool, err error)
	Lo, Hi []float64
	Step   float64 // of the differences
	Flat   float64 // how many nats below its maximum the search may end

	at  []float64
	log float64
}

// Try returns the value at θ.
func (f *Function) Try(theta []float64) (float64, bool, error) {
	log, ok, err := f.Value(theta)
	f.at, f.log = append(f.at[:0], theta...), log
	return log, ok && special.Finite(log), err
}

// Tolerance returns Flat.
func (f *Function) Tolerance() float64 { return f.Flat }

// Keep does nothing.
func (f *Function) Keep() {}

// Slope returns Differences for all parameters.
func (f *Function) Slope() (slope, scale []float64, err error) {
	slope, scale = make([]float64, len(f.at)), make([]float64, len(f.at))
	for k := range f.at {
		slope[k], scale[k] = Differences(f.Value, f.at, k, f.log, f.Step, f.Lo[k], f.Hi[k])
	}
	return slope, scale, nil
}

// Differences returns slope and curvature in parameter k of value, which is log at theta, from its
// values one step to either side, within lo and hi. A side without a value is ignored; without
// either the slope is 0. The curvature is at least so large that a step is no longer than MaxStep.
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
	slope = rise + fall       // one of them, if the other side has no value
	if up != 0 && down != 0 { // the parabola through three points
		curvature = 2 * (fall - rise) / (up - down)
		slope = (fall*up - rise*down) / (up - down)
	}
	return slope, max(curvature, math.Abs(slope)/MaxStep)
}

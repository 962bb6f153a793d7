package kernels

import (
	"fmt"
	"math"
)

// NoiseGrid returns the rates of random-walk variance per unit of time that automatic process noise
// compares: 0, and Prior.Variance (the intercept's if that is 0, 1 if both are) times 10^-8, 10^-7,
// ..., 1. The unit may be a row or a day: at the largest rate a weight forgets within one, at the
// smallest it has hardly moved after a million. Times in seconds over years need a coarser unit.
// Decades are fine enough: one of the rates is within a factor of 3.2 of the best, and the log
// evidence is flat near its maximum.
func (m *Model) NoiseGrid() []float64 {
	grid := []float64{0}
	scale := Or(m.Prior.Variance, Or(m.Prior.InterceptVariance, 1))
	for k := -8; k <= 0; k++ {
		grid = append(grid, scale*math.Pow(10, float64(k)))
	}
	return grid
}

// NoiseStatus says which of the rates automatic process noise chose, and whether it is at their
// edge.
func NoiseStatus(q float64, rates []float64) string {
	text := fmt.Sprintf("process_noise %.3g per unit of time has the largest innovation likelihood of %d rates tried", q, len(rates))
	least, most := math.Inf(1), 0.0
	for _, r := range rates {
		if r > 0 {
			least, most = min(least, r), max(most, r)
		}
	}
	switch {
	case q == 0 || least == most:
	case q >= most:
		text += ", the largest: weights forget within a unit of time, which may be too coarse"
	case q <= least:
		text += ", the smallest above 0: weights hardly move, or the unit of time is too fine"
	}
	return text
}

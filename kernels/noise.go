package kernels

import (
	"fmt"
	"math"
)

// NoiseGrid is the rates of random-walk variance per unit of time that automatic
// process noise compares: 0, and Prior.Variance (1 where that is 0) times 10^-8,
// 10^-7, ..., 1. A day's drift within 1e-8 of the prior variance stays below it for
// longer than any stream of days; in rows it is below it for a hundred million.
// Decades are fine enough: a rate within a factor of 3 costs a filter little.
func (m *Model) NoiseGrid() []float64 {
	grid := []float64{0}
	for k := -8; k <= 0; k++ {
		grid = append(grid, Or(m.Prior.Variance, 1)*math.Pow(10, float64(k)))
	}
	return grid
}

// NoiseStatus says which rate automatic process noise chose, of how many.
func NoiseStatus(q float64, tried int) string {
	return fmt.Sprintf("process_noise %.3g per unit of time has the largest innovation likelihood of %d rates tried", q, tried)
}

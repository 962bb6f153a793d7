package mode

import (
	"github.com/bglm/bglm/kernels"
)

// DesignNeed is how many numbers NewDesign adds to the rows.
func DesignNeed(p *kernels.Problem) float64 {
	if p.Density() >= denseShare {
		return float64(p.N) * float64(p.P)
	}
	return 0
}

// LowRankNeed is how many numbers NewLowRank and the fit made of it hold for so many
// weights and at most that rank.
func LowRankNeed(p *kernels.Problem, weights, most float64) float64 {
	wide := min(float64(kernels.Or(p.Options.Rank, 50)), most) + float64(max(p.Options.Oversample.Or(10), 0))
	wide = min(wide, weights)
	return 7*weights*wide + 8*wide*wide
}

package mode

import (
	"github.com/bglm/bglm/kernels"
)

// LowRankNeed is how many numbers NewLowRank and the fit made of it hold for so many
// weights and at most that rank.
func LowRankNeed(p *kernels.Problem, weights, most float64) float64 {
	wide := min(float64(kernels.Or(p.Options.Rank, DefaultRank)), most) + float64(max(p.Options.Oversample.Or(10), 0))
	wide = min(wide, weights)
	return 7*weights*wide + 8*wide*wide
}

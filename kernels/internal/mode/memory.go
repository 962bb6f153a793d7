package mode

import (
	"github.com/bglm/bglm/kernels"
)

// LowRankNeed returns how many numbers NewLowRank and the resulting fit hold for the given number of
// weights, with a rank of at most most.
func LowRankNeed(p *kernels.Problem, weights, most float64) float64 {
	wide := min(float64(kernels.Or(p.Options.Rank, DefaultRank)), most) + float64(max(p.Options.Oversample.Or(10), 0))
	wide = min(wide, weights)
	return 7*weights*wide + 8*wide*wide
}

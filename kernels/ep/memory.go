package ep

import (
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lowrank"
	"github.com/bglm/bglm/kernels/memory"
)

// reserve reserves the peak memory of a fit of p from the memory budget; trajectories adds
// that of trajectories.
func reserve(p *kernels.Problem, trajectories bool) (*memory.Grant, error) {
	n, w, nnz := float64(p.N), float64(p.P), float64(p.Values())
	moves := noises(p) != nil || p.Options.AutoNoise
	form := p.Options.Covariance
	need := 14*n + 10*w
	switch {
	case form == "full" && moves:
		need += n*w + 5*w*w
		if trajectories {
			need += (w*w+2*w)*2*float64(isqrt(p.N)) + 2*nnz
		}
	case form == "full":
		need += fullNeed(p, n, w) + p.Need() + 30*n
		if p.Options.Integrate && p.LearnsPrior() {
			need += 4 * w * w // a posterior, and the mixture
		}
	case form == "lowrank":
		k := float64(min(kernels.Or(p.Options.Rank, 50), p.N, p.P) + 1)
		need += float64(lowrank.Need(p))/8 + 2.5*n*k + fullNeed(p, n, k)
	case moves:
		need += 6 * nnz
	default:
		need += 3*nnz + 4*n + 6*w
	}
	if form == "" {
		form = "diagonal"
	}
	return memory.Reserve(int64(8*need), fmt.Sprintf("covariance = '%s' with %d rows, %d weights and %d values", form, p.N, p.P, p.Values()))
}

// fullNeed returns how many numbers the full form holds.
func fullNeed(p *kernels.Problem, n, w float64) float64 {
	dim := min(n, w)
	need := 4*dim*dim + 5*float64(blockRows)*dim
	if p.Normal.Form != gauss.Diagonal || n >= w || w <= fullWeights {
		need += 4 * w * w
	} else {
		need += 4*n*w + n*n
	}
	return need
}

func isqrt(n int) int {
	r := 1
	for r*r < n {
		r++
	}
	return r
}

package lowrank

import (
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
)

// Need returns the peak memory, in bytes, of Reduce and what follows it, including the covariance
// of the fit.
func Need(p *kernels.Problem) int64 {
	n, w := float64(p.N), float64(p.P)
	l := min(float64(kernels.Or(p.Options.Rank, 50))+float64(p.Options.Oversample.Or(10)), n, w) + 1
	need := 4*(n+w)*l + 8*l*l + 8*n
	if dense := p.Need(); dense > 0 {
		need += dense
	} else {
		need += 1.5 * float64(p.Values()) // without the intercept
	}
	if p.Options.Standardize {
		need += 1.5 * float64(p.Values())
	}
	if p.Normal.Form == gauss.Full || w <= FullLimit && l >= w {
		need += 3.5 * w * w
	}
	return int64(8 * need)
}

func reserve(p *kernels.Problem) (*memory.Grant, error) {
	if err := tooMany(p); err != nil {
		return nil, err
	}
	return memory.Reserve(Need(p), fmt.Sprintf("rank = %d with %d rows and %d features", kernels.Or(p.Options.Rank, 50), p.N, p.P))
}

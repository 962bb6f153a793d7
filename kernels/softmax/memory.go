package softmax

import (
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/memory"
)

// reserve reserves the peak memory of a fit of p from the memory budget.
func reserve(p *kernels.Problem, classes []string) (*memory.Grant, error) {
	h := hessianOf(p, classes)
	a := learntClasses(p, classes)
	n, w, c := float64(p.N), float64(p.P)*float64(a), float64(a)
	need := 9*n*c + 10*w + p.Need()
	if p.Options.Standardize {
		need += 1.5 * float64(p.Values())
	}
	form := gauss.Diagonal
	if p.Start != nil {
		form = p.Start.Covariance.Form
	}
	switch chooseSpace(p.N, p.P, a, form) {
	case weightSpace:
		need += 3 * w * w
	case rowSpace:
		need += (3*c + 3) * n * n
	}
	switch {
	case h == "full" && p.LearnsPrior() && w <= nearestWeights:
		need += 10*w*w + n*c*(c+3)
		if p.Options.Integrate {
			need += 3 * w * w
		}
	case h == "full" || h == "block":
		need += 6 * w * w
	case h == "lowrank" || h == "rest":
		need += mode.LowRankNeed(p, w, w)
	}
	return memory.Reserve(int64(8*need), fmt.Sprintf("%s with %d rows and %d weights of all classes ('diagonal' takes least)", called(h), p.N, int(w)))
}

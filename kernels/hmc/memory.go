package hmc

import (
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lowrank"
	"github.com/bglm/bglm/kernels/memory"
)

// reserve reserves the peak memory of sampling p from the memory budget.
func reserve(p *kernels.Problem, o *settings) (*memory.Grant, error) {
	n, w, chains := float64(p.N), float64(p.P), float64(o.chains)
	need, dim := (3*chains+6)*n, w
	if o.rank > 0 {
		dim = float64(min(o.rank, p.N, p.P) + 1)
		need += float64(lowrank.Need(p))/8 + 2.5*n*dim
	} else {
		need += p.Need()
	}
	if float64(o.samples)*chains*dim > maxNumbers {
		return nil, fmt.Errorf("hmc: samples = %d times chains = %d times %d weights are more than %d numbers to keep; lower samples or chains, or set rank",
			o.samples, o.chains, int(dim), maxNumbers)
	}
	if p.Options.Standardize {
		need += 1.5 * float64(p.Values())
	}
	need += float64(o.samples)*chains*dim + 40*chains*dim
	if dim <= fullMetricMost {
		need += (6*chains + 10) * dim * dim
	}
	return memory.Reserve(int64(8*need), fmt.Sprintf("samples = %d times chains = %d with %d rows and %d weights", o.samples, o.chains, p.N, p.P))
}

package laplace

import (
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/memory"
)

// gathers reports whether rows that are read in place have to be copied: everything except the
// products in weight space needs them contiguous.
func gathers(p *kernels.Problem, ties []kernels.Tie, h string) bool {
	return p.InPieces() && (h != "full" || len(ties) > 0 || chooseSpace(p, h, p.Normal.Form) != weightSpace)
}

// reserve reserves the peak memory of a fit of p from the memory budget.
func reserve(p *kernels.Problem, ties []kernels.Tie, h string, leaves *split, bare bool) (*memory.Grant, error) {
	n, w, nnz := float64(p.N), float64(p.P), float64(p.Values())
	need := 12*n + 8*w
	gathered := gathers(p, ties, h)
	if gathered {
		need += nnz
	}
	if p.Options.Standardize && (gathered || !p.InPieces()) {
		need += 1.5 * nnz
	}
	need += p.Need()
	full := h == "full" || h == "block"
	switch chooseSpace(p, h, p.Normal.Form) {
	case weightSpace:
		need += 3 * w * w // XᵀWX, B and a copy
	case arrowSpace:
		d, l := float64(len(leaves.block)), float64(len(leaves.leaf))
		if need += 8*d*d + 2*l*(3+mostDrift) + 2*nnz; !bare {
			need += 2 * l * d
		}
	case rowSpace:
		if h != "rows" {
			need += 3 * n * n
		}
		if h == "full" {
			need += 3 * w * w
		}
	}
	switch {
	case full:
		need += 3.5 * w * w // the root of the covariance, twice, and what the fit returns
	case h == "rows":
		need += 4*n*n + 2*min(w*n, maxKept)
	case h == "lowrank" || h == "rest":
		need += mode.LowRankNeed(p, w, min(n, w))
	}
	if full && p.Normal.Form != gauss.Diagonal {
		need += 2 * w * w
	}
	return memory.Reserve(int64(8*need), fmt.Sprintf("%s with %d rows and %d weights ('diagonal' takes least)", called(h), p.N, p.P))
}

package laplace

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/memory"
)

// What Laplace's evidence leaves out for a weight with few rows is, to the next order and with all
// else fixed, with v = 1/(1/σ² + Σ x²W) and f the log likelihood of its rows,
//
//	Δ = 1/8 f'''' v² + 5/24 f'''² v³
//
// a function of σ² through v: dv/d log σ² = v (v/σ²). The sum of its slopes over a column of levels,
// divided by the information in log σ², ½ Σ ρ², ρ = 1 - v/σ², is roughly the error of the maximum in
// log σ². With three binary rows a level, where further orders count, it is half of that error.
//
// Source: [tierney1986], for the expansion.
const (
	// The status mentions an error of a learnt standard deviation above offShare of itself if it is
	// also above offSD of its posterior standard deviation: less is small, or within what the rows
	// leave open. 60 groups of 3 binary rows have 0.08 and 0.5; 21 of 40 trials (seeds) 0.003 and
	// 0.01, 2,000 flights from 100 airports 0.015 and 0.12.
	offShare = 0.05
	offSD    = 0.35
)

// fewRowsNotes returns the notes for the status about learnt variances of columns of levels.
func (h *learner) fewRowsNotes() (notes []string) {
	s := h.search
	if h.lik.Traits().Gaussian || h.pass != nil || s.sums != nil || h.tied != nil || !h.exact() || len(s.now.Eta) != h.x.N {
		return nil
	}
	levels := false
	for _, name := range h.Names {
		levels = levels || name != ""
	}
	if !levels {
		return nil
	}
	off, sd := h.nextOrderError()
	for k, name := range h.Names {
		if name == "" || !(math.Abs(off[k]) > 2*offShare) || !(math.Abs(off[k]) > offSD*sd[k]) {
			continue
		}
		way := "small"
		if off[k] < 0 {
			way = "large"
		}
		notes = append(notes, fmt.Sprintf("the learnt variance of column %s rests on Laplace's approximation, with few rows a level: its square root is too %s by %.2g %% to the next order, %.2g of its standard deviation; ep with prior_variance 'auto' (method: 'ep') does not have that error", name, way, 100*math.Abs(math.Expm1(-0.5*math.Abs(off[k]))), math.Abs(off[k])/sd[k]))
	}
	return notes
}

// nextOrderError returns by how much the next order raises the logarithm of each group's prior
// variance, and its posterior standard deviation.
func (h *learner) nextOrderError() (off, sd []float64) {
	s, b, t := h.search, h.x.Batch(), thirdOf(h.lik)
	n, p := h.x.N, h.x.P
	third, fourth := memory.Floats(n), memory.Floats(n)
	mode.Sum(s.Stop, n, 48, func(lo, hi int) float64 {
		step := 0.05 * t.unit
		for i := lo; i < hi; i++ {
			o, eta := b.Obs(i), s.now.Eta[i]
			third[i] = -t.at(o, eta)
			fourth[i] = -(t.at(o, eta+step) - t.at(o, eta-step)) / (2 * step)
		}
		return 0
	})
	curv, f3, f4 := memory.Floats(p), memory.Floats(p), memory.Floats(p)
	for i := range n {
		s.Stop.Row(i)
		w := max(s.now.Curv[i], 0)
		col, val := h.x.Entries(i)
		for e, j := range col {
			if h.Of[j] < 0 {
				continue
			}
			x := val[e]
			curv[j] += x * x * w
			f3[j] += x * x * x * third[i]
			f4[j] += x * x * x * x * fourth[i]
		}
	}
	off, sd = make([]float64, len(h.Names)), make([]float64, len(h.Names))
	information := make([]float64, len(h.Names))
	for j, k := range h.Of {
		if k < 0 || k >= len(h.Names) {
			continue
		}
		left := 1 / (1 + h.root.Of.Var[j]*curv[j]) // v/σ²
		v := h.root.Of.Var[j] * left
		off[k] += v * left * (0.25*f4[j]*v + 0.625*f3[j]*f3[j]*v*v)
		information[k] += 0.5 * (1 - left) * (1 - left)
	}
	for k := range off {
		information[k] += 0.25 // about the information of the prior
		off[k] /= information[k]
		sd[k] = 1 / math.Sqrt(information[k])
	}
	return off, sd
}

// guessed returns the status notes about a dispersion of gaussian or studentt responses, or a shape
// of gamma responses, that the rows hardly determine.
func (h *learner) guessed(around *spread) []string {
	switch {
	case h.pass != nil:
	case h.dispersion >= 0:
		return []string{mode.Guess(h.x, h.at.vars(), h.root.Of.Var, h.x.Options.Integrate, around != nil && around.noise > 0)}
	case h.shape >= 0 && h.lik.Traits().Relative:
		return []string{mode.GuessedShape(h.x, h.at.vars(), h.root.Of.Var, around != nil && around.shape[2] > 0)}
	}
	return nil
}

package hmc

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// RHat returns the rank-normalised split R-hat of one quantity: the larger of those of its bulk and
// of its distance from the median. 1 means that all halves of all chains agree; +Inf that they do
// not move. Chains have equal length, at least 4; for fewer draws or chains it is NaN, as the
// effective sample sizes are.
//
// Source: [vehtari2021], eq. 4 and section 4.1.
func RHat(chains [][]float64) float64 {
	if !enough(chains) {
		return math.NaN()
	}
	h := halves(chains)
	all := slices.Concat(h...)
	med := median(all)
	folded := make([][]float64, len(h))
	for i, c := range h {
		folded[i] = make([]float64, len(c))
		for j, v := range c {
			folded[i][j] = math.Abs(v - med)
		}
	}
	return math.Max(rHat(normalScores(h)), rHat(normalScores(folded)))
}

// ESSBulk returns the effective sample size for the centre of one quantity: that of its normal
// scores over split chains.
//
// Source: [vehtari2021], section 4.3.
func ESSBulk(chains [][]float64) float64 {
	if !enough(chains) {
		return math.NaN()
	}
	return ess(normalScores(halves(chains)))
}

// ESSTail returns the effective sample size for the tails: the smaller of those of the 5 % and
// the 95 % quantile.
func ESSTail(chains [][]float64) float64 {
	if !enough(chains) {
		return math.NaN()
	}
	h := halves(chains)
	all := slices.Concat(h...)
	slices.Sort(all)
	tail := func(q float64) float64 {
		cut := all[int(q*float64(len(all)-1))]
		ind := make([][]float64, len(h))
		for i, c := range h {
			ind[i] = make([]float64, len(c))
			for j, v := range c {
				if v <= cut {
					ind[i][j] = 1
				}
			}
		}
		return ess(ind)
	}
	return math.Min(tail(0.05), tail(0.95))
}

// ESS returns the effective sample size for the mean of one quantity over chains of equal length.
// It is 0 for chains that do not move.
func ESS(chains [][]float64) float64 {
	if !enough(chains) {
		return math.NaN()
	}
	return ess(chains)
}

// enough reports whether there are chains, of a common length for which diagnostics are defined.
func enough(chains [][]float64) bool {
	for _, c := range chains {
		if len(c) < 4 || len(c) != len(chains[0]) {
			return false
		}
	}
	return len(chains) > 0
}

func halves(chains [][]float64) [][]float64 {
	var h [][]float64
	for _, c := range chains {
		k := len(c) / 2
		h = append(h, c[:k], c[len(c)-k:])
	}
	return h
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	n := len(x)
	if n%2 == 1 {
		return x[n/2]
	}
	return x[n/2-1] + (x[n/2]-x[n/2-1])/2
}

// normalScores replaces values by Φ⁻¹((rank - 3/8) / (n + 1/4)), ties sharing the
// average of their ranks.
func normalScores(chains [][]float64) [][]float64 {
	type at struct {
		v    float64
		c, j int
	}
	var all []at
	out := make([][]float64, len(chains))
	for c, x := range chains {
		out[c] = make([]float64, len(x))
		for j, v := range x {
			all = append(all, at{v, c, j})
		}
	}
	slices.SortFunc(all, func(a, b at) int {
		switch {
		case a.v < b.v:
			return -1
		case a.v > b.v:
			return 1
		}
		return 0
	})
	n := float64(len(all))
	for lo := 0; lo < len(all); {
		hi := lo + 1
		for hi < len(all) && all[hi].v == all[lo].v {
			hi++
		}
		z := special.PhiInv((0.5*float64(lo+1+hi) - 0.375) / (n + 0.25))
		for _, a := range all[lo:hi] {
			out[a.c][a.j] = z
		}
		lo = hi
	}
	return out
}

// meanVar returns the mean and the unbiased variance.
func meanVar(x []float64) (mean, variance float64) {
	for i, v := range x {
		d := v - mean
		mean += d / float64(i+1)
		variance += d * (v - mean)
	}
	return mean, variance / float64(len(x)-1)
}

// between returns the mean of the chains' variances and the variance of their means.
func between(chains [][]float64) (within, means float64) {
	ms := make([]float64, len(chains))
	for i, c := range chains {
		m, v := meanVar(c)
		ms[i] = m
		within += v / float64(len(chains))
	}
	if len(ms) > 1 {
		_, means = meanVar(ms)
	}
	return within, means
}

func rHat(chains [][]float64) float64 {
	n := float64(len(chains[0]))
	w, b := between(chains)
	if w == 0 {
		return math.Inf(1)
	}
	return math.Sqrt((n-1)/n + b/w)
}

// ess sums the autocorrelations of all chains together in pairs while these are positive, made
// non-increasing (Geyer's initial monotone sequence).
func ess(chains [][]float64) float64 {
	m, n := len(chains), len(chains[0])
	w, b := between(chains)
	total := w*float64(n-1)/float64(n) + b
	if !(total > 0) || w == 0 {
		return 0
	}
	dev := make([][]float64, m)
	for i, c := range chains {
		mean, _ := meanVar(c)
		dev[i] = memory.Floats(n)
		for j, v := range c {
			dev[i][j] = v - mean
		}
	}
	rho := func(t int) float64 {
		s := 0.0
		for _, d := range dev {
			for j, v := range d[t:] {
				s += v * d[j]
			}
		}
		return 1 - (w-s/float64(m*n))/total
	}
	tau := -1.0
	last := math.Inf(1)
	for t := 0; t+1 < n; t += 2 {
		pair := rho(t) + rho(t+1)
		if t == 0 {
			pair = 1 + rho(1)
		}
		if pair <= 0 {
			break
		}
		last = math.Min(last, pair)
		tau += 2 * last
	}
	size := float64(m * n)
	// Anticorrelated draws count more than once, but with a bound.
	return size / math.Max(tau, 1/math.Log10(math.Max(size, 10)))
}

package answer

import (
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
)

// Compared is a fit compared with others on the same rows.
type Compared struct {
	Name string
	LOOSummary
	// Diff is the sum over the rows of its Point.LOO minus that of the best fit, a row of weight w
	// counted as w, and SEDiff its standard error √(n Var): both 0 for the best.
	Diff, SEDiff float64
	Weight       float64 // by stacking
	LogEvidence  float64 // NaN if the fit has none
}

// Compare compares fits to which the same rows were added in the same order, the best leave-one-out
// density first.
//
// The stacking weights maximise Σ_i log Σ_k w_k exp(LOO_ik) over the simplex, each row counted with
// its weight. Rows without a LOO under one of the fits are left out of differences and weights.
//
// Cost: O(n K²) for each of some 40 Newton steps.
// Errors: no fits, fits that do not remember their rows, or different numbers of them.
//
// Sources: [vehtari2017] for differences and their errors; [yao2018] for stacking.
func Compare(names []string, fits []*LOO) ([]Compared, error) {
	if len(fits) == 0 || len(names) != len(fits) {
		return nil, fmt.Errorf("%d names of %d fits; allowed: one or more of both", len(names), len(fits))
	}
	if k := slices.Index(fits, nil); k >= 0 {
		return nil, fmt.Errorf("fit %q is nil; allowed: what NewLOO made", names[k])
	}
	n := len(fits[0].points)
	for k, l := range fits {
		if !l.keep || len(l.points) != n {
			return nil, fmt.Errorf("fit %q has %d rows, fit %q has %d; allowed: the same rows of all", names[k], len(l.points), names[0], n)
		}
	}
	rows, times := make([][]float64, 0, n), make([]float64, 0, n)
	for i := range n {
		row := make([]float64, len(fits))
		for k, l := range fits {
			row[k] = l.points[i]
		}
		if !slices.ContainsFunc(row, math.IsNaN) {
			rows, times = append(rows, row), append(times, fits[0].weights[i])
		}
	}
	out := make([]Compared, len(fits))
	sum := make([]moments, len(fits))
	best := 0
	for k, l := range fits {
		for i, row := range rows {
			sum[k].add(row[k], times[i])
		}
		if sum[k].mean > sum[best].mean {
			best = k
		}
		out[k] = Compared{Name: names[k], LOOSummary: l.Summary(), LogEvidence: l.Fit.LogEvidence}
	}
	weights := stack(rows, times, len(fits))
	for k := range out {
		var d moments
		for i, row := range rows {
			d.add(row[k]-row[best], times[i])
		}
		out[k].Weight = weights[k]
		out[k].Diff = d.n * d.mean
		if out[k].SEDiff = math.Sqrt(d.n * d.variance()); k == best {
			out[k].SEDiff = 0
		}
	}
	slices.SortStableFunc(out, func(a, b Compared) int {
		switch {
		case a.Diff > b.Diff:
			return -1
		case a.Diff < b.Diff:
			return 1
		}
		return 0
	})
	return out, nil
}

// stack returns the stacking weights over rows counted with their weights, times.
//
// With p_ik = exp(row_ik - max_k row_ik) the maximum over the simplex is that of (1/n) Σ_i t_i log
// (Pw)_i - Σ w, n = Σ t, over w >= 0, where Σ w = 1. A barrier μ Σ log w keeps the steps inside; at
// its maximum Σ w = 1 + K μ, and the objective is within K μ of the best.
func stack(rows [][]float64, times []float64, k int) []float64 {
	w := make([]float64, k)
	for j := range w {
		w[j] = 1 / float64(k)
	}
	n := 0.0
	for _, t := range times {
		n += t
	}
	if k == 1 || n == 0 {
		return w
	}
	part := make([]float64, len(times))
	for i, t := range times {
		part[i] = t / n
	}
	p := make([][]float64, len(rows))
	for i, row := range rows {
		top := slices.Max(row)
		p[i] = make([]float64, k)
		for j, x := range row {
			p[i][j] = math.Exp(x - top)
		}
	}
	for mu := 0.1; mu > 1e-13; mu *= 0.2 {
		for range 50 {
			if newtonStep(p, part, w, mu) < 1e-12 {
				break
			}
		}
	}
	total := 0.0
	for j := range w {
		if w[j] < 1e-9 {
			w[j] = 0
		}
		total += w[j]
	}
	for j := range w {
		w[j] /= total
	}
	return w
}

// newtonStep improves w for the barrier mu and returns the largest relative change. part are the
// row weights of p divided by their sum.
func newtonStep(p [][]float64, part, w []float64, mu float64) float64 {
	k := len(w)
	g, h := make([]float64, k), dense.New(k, k)
	f := func(w []float64) (s float64) {
		for i, row := range p {
			s += part[i] * math.Log(dense.Dot(row, w))
		}
		for _, x := range w {
			s += mu*math.Log(x) - x
		}
		return s
	}
	for i, row := range p {
		q := 1 / dense.Dot(row, w)
		for a := range k {
			g[a] += part[i] * row[a] * q
			dense.Axpy(part[i]*row[a]*q*q, row, h.Row(a))
		}
	}
	for a := range k {
		g[a] += mu/w[a] - 1
		h.Row(a)[a] += mu / (w[a] * w[a])
	}
	if dense.Cholesky(h) != nil {
		return 0
	}
	dense.SolveLowerVec(h, g)
	dense.SolveLowerTVec(h, g)
	step := 1.0
	for a := range k {
		if g[a] < 0 {
			step = math.Min(step, -0.95*w[a]/g[a])
		}
	}
	at, next := f(w), make([]float64, k)
	for range 40 {
		for a := range k {
			next[a] = w[a] + step*g[a]
		}
		if f(next) >= at-1e-15*math.Abs(at) {
			break
		}
		step *= 0.5
	}
	change := 0.0
	for a := range k {
		change = math.Max(change, math.Abs(next[a]-w[a])/w[a])
	}
	copy(w, next)
	return change
}

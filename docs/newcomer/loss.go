package main

import (
	"fmt"
	"math"
	"slices"
)

// logLosses are -log of the probability that p gives each outcome.
func logLosses(y, p []float64) []float64 {
	out := make([]float64, len(y))
	for i := range y {
		if y[i] > 0 {
			out[i] = -math.Log(p[i])
		} else {
			out[i] = -math.Log1p(-p[i])
		}
		if math.IsNaN(out[i]) {
			out[i] = math.Inf(1) // no answer is the worst one
		}
	}
	return out
}

func squares(y, p []float64) []float64 {
	out := make([]float64, len(y))
	for i := range y {
		if out[i] = (y[i] - p[i]) * (y[i] - p[i]); math.IsNaN(out[i]) {
			out[i] = math.Inf(1)
		}
	}
	return out
}

// poissonLosses are -log of the Poisson probability of each count at mean p.
func poissonLosses(y, p []float64) []float64 {
	out := make([]float64, len(y))
	for i := range y {
		g, _ := math.Lgamma(y[i] + 1)
		if out[i] = p[i] - y[i]*math.Log(p[i]) + g; math.IsNaN(out[i]) {
			out[i] = math.Inf(1)
		}
	}
	return out
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// constant is n times v.
func constant(n int, v float64) []float64 { return slices.Repeat([]float64{v}, n) }

// paired is the mean of a - b and its standard error.
func paired(a, b []float64) (d, se float64) {
	n := float64(len(a))
	for i := range a {
		d += (a[i] - b[i]) / n
	}
	for i := range a {
		e := a[i] - b[i] - d
		se += e * e
	}
	return d, math.Sqrt(se / (n - 1) / n)
}

// calibrationError is the expected calibration error over 15 bins of equal width.
func calibrationError(y, p []float64) float64 {
	const bins = 15
	var n, sum [bins]float64
	for i := range y {
		k := min(bins-1, max(0, int(p[i]*bins)))
		n[k]++
		sum[k] += y[i] - p[i]
	}
	out := 0.0
	for k := range n {
		out += math.Abs(sum[k]) / float64(len(y))
	}
	return out
}

// number is a figure of a table.
func number(x float64) string {
	switch a := math.Abs(x); {
	case math.IsNaN(x):
		return "-"
	case math.IsInf(x, 0):
		return "infinite"
	case a >= 1e6 || a > 0 && a < 1e-4:
		return fmt.Sprintf("%.2g", x)
	case a >= 100:
		return fmt.Sprintf("%.1f", x)
	case a >= 10:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.4f", x)
}

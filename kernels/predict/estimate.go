package predict

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/special"
)

// Estimate summarises a posterior.
type Estimate struct{ Mean, SD, Lower, Upper float64 }

// gaussian is the Estimate of N(m, v) with its central interval.
func gaussian(m, v, level float64) Estimate {
	sd := math.Sqrt(v)
	z := special.PhiInv(0.5 + 0.5*level)
	return Estimate{m, sd, m - z*sd, m + z*sd}
}

// above is P(x > 0) for x ~ N(m, v), and 1/2 for a known 0.
func above(m, v float64) float64 {
	switch {
	case v > 0:
		return special.Phi(m / math.Sqrt(v))
	case m > 0:
		return 1
	case m < 0:
		return 0
	}
	return 0.5
}

// Normal is the Estimate of N(m, v) with its central interval, and P(x > 0).
func Normal(m, v, level float64) (Estimate, float64) { return gaussian(m, v, level), above(m, v) }

// OfDraws is the estimate from draws, each times unit, and the proportion above 0.
func OfDraws(draws []float64, unit, level float64) (Estimate, float64) {
	x := make([]float64, len(draws))
	mean, squares, positive := 0.0, 0.0, 0.0
	for k, d := range draws {
		x[k] = d * unit
		step := x[k] - mean
		mean += step / float64(k+1)
		squares += step * (x[k] - mean)
		switch {
		case d > 0:
			positive++
		case d == 0:
			positive += 0.5
		}
	}
	slices.Sort(x)
	at := func(p float64) float64 { // R's type 7
		k := p * float64(len(x)-1)
		j := int(k)
		if j+1 == len(x) {
			return x[j]
		}
		return x[j] + (k-float64(j))*(x[j+1]-x[j])
	}
	sd := 0.0
	if len(x) > 1 {
		sd = math.Sqrt(squares / float64(len(x)-1))
	}
	return Estimate{Mean: mean, SD: sd, Lower: at(0.5 - 0.5*level), Upper: at(0.5 + 0.5*level)}, positive / float64(len(x))
}

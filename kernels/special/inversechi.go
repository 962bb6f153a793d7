package special

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// A standard deviation σ whose square has the scaled inverse chi-square distribution with ν degrees
// of freedom and scale s², ν s²/σ² ~ χ²(ν), is the posterior of the noise of a linear model. Here s
// = 1.

// manyFreedom is the ν above which differences of log gamma functions are less accurate than two
// terms of a series in 1/ν.
const manyFreedom = 1e4

// InverseChi is the mean and standard deviation of σ; NaN if it does not exist: a mean needs ν > 1,
// a standard deviation ν > 2.
func InverseChi(nu float64) (mean, sd float64) {
	mean, sd = math.NaN(), math.NaN()
	if nu > manyFreedom {
		return 1 + (0.75+25.0/32/nu)/nu, math.Sqrt((0.5 + 1.875/nu) / nu)
	}
	if nu > 1 {
		top, _ := math.Lgamma(0.5 * (nu - 1))
		bottom, _ := math.Lgamma(0.5 * nu)
		mean = math.Sqrt(0.5*nu) * math.Exp(top-bottom)
	}
	if nu > 2 {
		sd = math.Sqrt(nu/(nu-2) - mean*mean)
	}
	return mean, sd
}

// InverseChiFreedom is the ν for which the standard deviation divided by the mean is ratio > 0.
func InverseChiFreedom(ratio float64) float64 {
	lo, hi := math.Log(2), math.Log(4+2/(ratio*ratio))
	for range 60 {
		mid := 0.5 * (lo + hi)
		if mean, sd := InverseChi(math.Exp(mid)); sd/mean > ratio || math.IsNaN(sd) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Exp(0.5 * (lo + hi))
}

// InverseChiQuantile is the p quantile of σ.
func InverseChiQuantile(nu, p float64) float64 {
	if nu > 1e6 { // log σ is Gaussian
		return math.Exp(mathext.NormalQuantile(p) / math.Sqrt(2*nu))
	}
	return math.Sqrt(0.5 * nu / mathext.GammaIncRegCompInv(0.5*nu, p))
}

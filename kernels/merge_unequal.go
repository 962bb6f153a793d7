package kernels

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
)

const (
	// unequalChance is the probability with which parts of one dispersion, or shape, would differ
	// as much.
	unequalChance = 1e-3
	// unequalNoise is the mean of log(pooled/own dispersion) from which a difference between parts
	// matters: that of two of equal size whose dispersions have the ratio 1.5. unequalShape is the
	// same for a mean square of log(own/pooled shape).
	unequalNoise, unequalShape = 0.02, 0.04
)

// unequal are sums over parts that test whether they have one dispersion, or one shape.
type unequal struct {
	parts, weight float64 // degrees of freedom, or the precision of a logarithm
	sum, log      float64 // weighted: of dispersions and of their logarithms; or of logarithms of shapes and of their squares
	mean, spread  float64 // sums of chiLog: expectation and variance
	least, most   float64
}

// noise adds a part that learnt the dispersion d with nu degrees of freedom.
func (u *unequal) noise(d, nu float64) {
	mean, spread := chiLog(nu)
	u.merge(&unequal{1, nu, nu * d, nu * math.Log(d), mean, spread, d, d})
}

// shape adds a part that learnt the logarithm of a shape with this precision.
func (u *unequal) shape(log, precision float64) {
	at := math.Exp(log)
	u.merge(&unequal{1, precision, precision * log, precision * log * log, 0, 0, at, at})
}

func (u *unequal) merge(o *unequal) {
	switch {
	case o.parts == 0:
	case u.parts == 0:
		*u = *o
	default:
		*u = unequal{u.parts + o.parts, u.weight + o.weight, u.sum + o.sum, u.log + o.log, u.mean + o.mean, u.spread + o.spread, min(u.least, o.least), max(u.most, o.most)}
	}
}

// chiLog is nu times the mean of log(x/nu) for a chi-square x, and nu² times its variance, less 2
// nu.
func chiLog(nu float64) (mean, spread float64) {
	if nu > 1e4 { // otherwise the differences cancel
		return -1 - 1/(3*nu), 2 + 4/(3*nu)
	}
	return nu * (mathext.Digamma(0.5*nu) - math.Log(0.5*nu)), nu * (nu*mathext.Zeta(2, 0.5*nu) - 2)
}

// bartlett returns Bartlett's statistic, and the probability of one as large by chance; 0, 1 for
// one part.
//
// The statistic, the sum of nu log(pooled/own), does not depend on the pooled dispersion, so its
// mean and variance under one dispersion follow from those of the logarithms of all of them, for
// any degrees of freedom. Its distribution is approximated by a gamma distribution with these.
func (u *unequal) bartlett() (t, chance float64) {
	if u.parts < 2 {
		return 0, 1
	}
	mean, spread := chiLog(u.weight)
	mean, spread = mean-u.mean, u.spread-spread
	if !(mean > 0 && spread > 0) {
		return 0, 1
	}
	t = max(0, u.weight*math.Log(u.sum/u.weight)-u.log)
	return t, mathext.GammaIncRegComp(mean*mean/spread, t*mean/spread)
}

// noises is the note on parts whose dispersions differ, "" if they may be equal. pooled is the
// common one.
func (u *unequal) noises(pooled float64) string {
	if t, chance := u.bartlett(); !(t > unequalNoise*u.weight && chance < unequalChance) {
		return ""
	}
	return fmt.Sprintf("the parts have different noise: dispersions from %.3g to %.3g differ by more than chance; weights are those under the noise of each part, but the dispersion %.3g, and with it predictive intervals of responses, describes none of them", u.least, u.most, pooled)
}

// shapes is the same for shapes, whose logarithms are treated as Gaussian.
func (u *unequal) shapes(pooled float64) string {
	if u.parts < 2 {
		return ""
	}
	q := u.log - u.sum*(u.sum/u.weight)
	if !(q > unequalShape*u.weight) || !(mathext.GammaIncRegComp(0.5*(u.parts-1), 0.5*q) < unequalChance) {
		return ""
	}
	return fmt.Sprintf("the parts have different shapes: those from %.3g to %.3g differ by more than chance; weights are those under the shape of each part, but the shape %.3g, and with it predictive intervals of responses, describes none of them", u.least, u.most, pooled)
}

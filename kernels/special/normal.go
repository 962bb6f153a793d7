package special

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

const (
	logSqrt2Pi = 0.9189385332046727418 // log(sqrt(2 pi))
	invSqrt2Pi = 0.3989422804014326779 // 1/sqrt(2 pi)
)

// upper returns, for x >= 0, excess = r - x and residual = 1 - r(r-x), where r = phi(x)/Q(x) is the
// hazard of the standard normal. residual is the variance of a standard normal truncated to (x,
// Inf).
//
// Both are polynomials of degree 8 in t = 4/(4+x) by pieces (mills_gen.go, relative error below
// 1e-16 before rounding), so nothing cancels however large x is.
func upper(x float64) (excess, residual float64) {
	t := 4 / (4 + x)
	i := min(int(64*t), 63)
	u := 128*t - float64(2*i+1)
	return t * piece(&millsExcess[i], u), t * t * piece(&millsResidual[i], u)
}

// upperExcess is upper without the residual.
func upperExcess(x float64) float64 {
	t := 4 / (4 + x)
	i := min(int(64*t), 63)
	return t * piece(&millsExcess[i], 128*t-float64(2*i+1))
}

func piece(c *[9]float64, u float64) float64 {
	u2 := u * u
	u4 := u2 * u2
	return (c[0] + c[1]*u + (c[2]+c[3]*u)*u2) + u4*((c[4]+c[5]*u)+(c[6]+c[7]*u)*u2+c[8]*u4)
}

// Phi is the standard normal distribution function.
func Phi(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }

// LogPhi is log Phi(x), finite for every finite x whose square is finite.
func LogPhi(x float64) float64 {
	logPhi, _, _ := PhiMoments(x)
	return logPhi
}

// InverseMills is phi(x)/Phi(x), the derivative of log Phi: about -x in the lower
// tail and phi(x) in the upper one.
func InverseMills(x float64) float64 {
	_, r, _ := PhiMoments(x)
	return r
}

// PhiMoments returns log Phi(x), the inverse Mills ratio r = phi(x)/Phi(x) and residual = 1 -
// r(r+x) = 1 + (log Phi)”(x), which is the variance of a standard normal truncated to (-Inf, x) and
// lies in (0, 1]. All three keep their relative accuracy in both tails: 1 - r(r+x) itself would
// cancel for x < 0.
//
// Cost: about 20 ns, no allocation.
func PhiMoments(x float64) (logPhi, r, residual float64) {
	switch {
	case x <= 0:
		if math.IsInf(x, -1) {
			return x, math.Inf(1), 0
		}
		e, res := upper(-x)
		r = e - x
		return -0.5*x*x - logSqrt2Pi - QuickLog(r), r, res
	case x > 0:
		if x > 39 {
			return 0, 0, 1 // phi(39) underflows
		}
		e := upperExcess(x)
		if x < 2 {
			// QuickLog's absolute error is below 2e-14 of log Phi(2) = -0.023
			phi := invSqrt2Pi * ExpDown(-0.5*x*x)
			p := 1 - phi/(x+e)
			r = phi / p
			return QuickLog(p), r, 1 - r*(r+x)
		}
		phi := invSqrt2Pi * math.Exp(-0.5*x*x)
		q := phi / (x + e)
		r = phi / (1 - q)
		return math.Log1p(-q), r, 1 - r*(r+x)
	}
	return math.NaN(), math.NaN(), math.NaN()
}

// InverseMillsExcess is r + x with r = phi(x)/Phi(x), without cancellation in the sum for x <= 0:
// it falls like 1/|x|.
func InverseMillsExcess(x float64) float64 {
	if x <= 0 {
		return upperExcess(-x)
	}
	return InverseMills(x) + x
}

// LogMills is log(Q(x)/phi(x)), Q the upper tail: a slowly varying function for
// x > 0, about x^2/2 for x < 0.
func LogMills(x float64) float64 {
	if x >= 0 {
		e := upperExcess(x)
		return -math.Log(x + e)
	}
	return LogPhi(-x) + 0.5*x*x + logSqrt2Pi
}

// PhiInv is the quantile of the standard normal, the inverse of Phi: -Inf at 0, +Inf
// at 1, NaN outside [0, 1].
func PhiInv(p float64) float64 {
	switch {
	case p == 0:
		return math.Inf(-1)
	case p == 1:
		return math.Inf(1)
	case p > 0 && p < 1:
		return mathext.NormalQuantile(p)
	}
	return math.NaN()
}

package answer

import (
	"math"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
)

// responses are the expectations of the expected response g⁻¹(s) and of its first three
// derivatives, s ~ N(m, v).
//
// Derivatives without a closed form are summed over a grid, accurate to 1e-9 or better. Under the
// log link a predictor with a standard deviation of 4 or more is clamped, as in predict.Expected.
func responses(l lik.Likelihood, m, v float64) (d [4]float64) {
	d[0] = predict.Expected(l, predict.Exact, m, v)
	switch t := l.Traits(); {
	case t.LogMean: // and clamped alike
		d[1], d[2], d[3] = d[0], d[0], d[0]
	case t.Averaged != nil:
		d[1], d[2], d[3] = t.Averaged(m, v)
	case v == 0:
		d[1], d[2], d[3] = t.Slopes(m)
	default:
		d[1], d[2], d[3] = average(t.Slopes, m, v)
	}
	return d
}

// average is the expectation of f over s ~ N(m, v).
func average(f func(s float64) (a, b, c float64), m, v float64) (a, b, c float64) {
	sd, total := math.Sqrt(v), 0.0
	n := nodes(sd)
	for k := range n {
		z := reach * (2*(float64(k)+0.5)/float64(n) - 1)
		w := math.Exp(-0.5 * z * z)
		x, y, u := f(m + sd*z)
		total += w
		a += w * x
		b += w * y
		c += w * u
	}
	return a / total, b / total, c / total
}

// logit is the Bernoulli likelihood with link logit, whose tilted moments are expectations of the
// inverse link and its derivative. Those of cloglog are less accurate than the grid.
var logit = func() lik.Likelihood {
	l, err := lik.New("bernoulli", "logit", lik.Params{})
	if err != nil {
		panic(err) // the family exists
	}
	return l
}()

// responseAndSlope are the first two of responses; for log odds without a grid, since E g⁻¹'(s) =
// ∂Z/∂m with Z = E g⁻¹(s).
func responseAndSlope(l lik.Likelihood, m, v float64) (value, slope float64) {
	if v > 0 && l.Traits().LogOdds {
		t := logit.Moments(lik.Obs{Y: 1, Weight: 1}, m, v)
		return predict.Expected(l, predict.Exact, m, v), math.Exp(t.LogZ) * t.Alpha
	}
	d := responses(l, m, v)
	return d[0], d[1]
}

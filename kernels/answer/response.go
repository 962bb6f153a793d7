package answer

import (
	"math"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
)

// responses are the expectations of the expected response g⁻¹(s) and of its first three
// derivatives, s ~ N(m, v).
//
// Closed forms but for logit and cloglog, whose derivatives are summed over a grid, good to
// 1e-9 and better. Under the link log a predictor of deviation 4 and more is held, as
// predict.Expected says.
func responses(l lik.Likelihood, m, v float64) (d [4]float64) {
	d[0] = predict.Expected(l, predict.Exact, m, v)
	switch l.Link() {
	case "identity":
		d[1] = 1
		return d
	case "log":
		d[1], d[2], d[3] = d[0], d[0], d[0]
		return d
	case "probit":
		r := 1 / math.Sqrt(1+v)
		z := m * r
		f := math.Exp(-0.5*z*z) / math.Sqrt(2*math.Pi)
		d[1], d[2], d[3] = r*f, -r*r*z*f, r*r*r*(z*z-1)*f
		return d
	}
	if v == 0 {
		d[1], d[2], d[3] = slopes(l.Link(), m)
		return d
	}
	sd, total := math.Sqrt(v), 0.0
	n := nodes(sd)
	for k := range n {
		z := reach * (2*(float64(k)+0.5)/float64(n) - 1)
		w := math.Exp(-0.5 * z * z)
		a, b, c := slopes(l.Link(), m+sd*z)
		total += w
		d[1] += w * a
		d[2] += w * b
		d[3] += w * c
	}
	d[1], d[2], d[3] = d[1]/total, d[2]/total, d[3]/total
	return d
}

// logit is the chance of 1, whose tilted moments are expectations of the inverse link and of
// its derivative. Those of cloglog are less exact than the grid.
var logit = func() lik.Likelihood {
	l, err := lik.New("bernoulli", "logit", lik.Params{})
	if err != nil {
		panic(err) // the family is there
	}
	return l
}()

// rising are the first two of responses; of logit without a grid, as E g⁻¹'(s) = ∂Z/∂m with
// Z = E g⁻¹(s).
func rising(l lik.Likelihood, m, v float64) (value, slope float64) {
	if l.Link() == "logit" && v > 0 {
		t := logit.Moments(lik.Obs{Y: 1, Weight: 1}, m, v)
		return predict.Expected(l, predict.Exact, m, v), math.Exp(t.LogZ) * t.Alpha
	}
	d := responses(l, m, v)
	return d[0], d[1]
}

// slopes are the first three derivatives of the inverse of logit or cloglog at s.
func slopes(link string, s float64) (d1, d2, d3 float64) {
	if link == "cloglog" {
		u := math.Exp(s)
		if d1 = u * math.Exp(-u); d1 == 0 || math.IsNaN(d1) {
			return 0, 0, 0
		}
		return d1, d1 * (1 - u), d1 * (1 - 3*u + u*u)
	}
	e := math.Exp(-math.Abs(s))
	near, far := 1/(1+e), e/(1+e) // the larger chance and the smaller
	d1 = near * far
	return d1, math.Copysign(d1*(far-near), -s), d1 * (1 - 6*d1)
}

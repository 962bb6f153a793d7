package lik

import (
	"math"

	"github.com/bglm/bglm/kernels/special"
)

var bernoulliFamily = family{Info{
	Family:      "bernoulli",
	Links:       []string{"logit", "probit", "cloglog"},
	Description: "a yes/no response with probability logistic(s), Phi(s) or 1 - exp(-exp(s))",
	Response:    "0 or 1",
}, links{"logit": newLogit, "probit": newProbit, "cloglog": newCloglog}}

// logit is p(y=1|s) = 1/(1 + e^-s). Moments with weight 1 use rules with fixed nodes, without a
// search for the mode (logitMoments); other weights use the shared quadrature.
// Accuracy: logZ 1e-9, mean 1e-8 standard deviations, variance 1e-8.
type logit struct{ rule *rule }

func newLogit(p Params) (Likelihood, error) {
	r, err := newRule(p.Quadrature)
	return logit{r}, err
}

func (logit) Family() string    { return "bernoulli" }
func (logit) Link() string      { return "logit" }
func (logit) Check(o Obs) error { return checkBinary(o) }

func (logit) Traits() Traits {
	return Traits{Concave: true, Canonical: true, Binary: true, LogOdds: true, Scale: 1, Work: 1500, Inverse: logitInverse}
}

var logitInverse = Inverse{
	Bend: func(s float64) float64 { return -math.Tanh(0.5 * s) },
	Slopes: func(s float64) (d1, d2, d3 float64) {
		e := math.Exp(-math.Abs(s))
		near, far := 1/(1+e), e/(1+e) // the larger chance and the smaller
		d1 = near * far
		return d1, math.Copysign(d1*(far-near), -s), d1 * (1 - 6*d1)
	},
	Predictor: chance(func(p float64) float64 { return math.Log(p) - math.Log1p(-p) }),
}

func (logit) LogLik(o Obs, s float64) (logp, d1, d2 float64) {
	if o.Y == 0 {
		logp, d1, d2 = logitLog(o.Weight, -s)
		return logp, -d1, d2
	}
	return logitLog(o.Weight, s)
}

func logitLog(w, x float64) (logp, d1, d2 float64) {
	if w == 0 {
		return 0, 0, 0
	}
	e := math.Exp(-math.Abs(x))
	big := 1 / (1 + e)
	small := e * big
	if x >= 0 {
		return -w * math.Log1p(e), w * small, -w * small * big
	}
	return w * (x - math.Log1p(e)), w * big, -w * small * big
}

func (l logit) Moments(o Obs, m, v float64) Tilted {
	if !proper(o, m, v) {
		logp, d1, d2 := l.LogLik(o, m)
		return degenerate(o.Weight, m, v, logp, d1, d2)
	}
	if l.rule != nil {
		return l.rule.moments(l, o, m, v)
	}
	if o.Y == 0 {
		m = -m
	}
	var t Tilted
	if o.Weight == 1 {
		t = logitMoments(m, v)
	} else {
		t = logitWeighted(o.Weight, m, v)
	}
	if o.Y == 0 {
		t.Alpha = -t.Alpha
	}
	return t
}

const (
	logitStep   = 0.66 // poles at ±i pi: error about exp(-2 pi²/0.66 + pi²/(2v)), 1e-11 at v = 1
	logitTable  = 104  // nodes up to s = 68
	logitKappa2 = 2.9  // Phi(s/kappa) is within 0.01 of the logistic function
	logitSmallV = 1    // below: a rule scaled by the prior
	logitFar    = 100  // standard deviations from which x²/2, 1e-12 of it, is too coarse
)

// logitRest[k] = (logistic(s) - Phi(s/kappa)) e^s at s = k logitStep; the difference is
// odd in s and falls like e^-s. Never written after start-up.
var logitRest = func() (t [logitTable]float64) {
	for k := range t {
		s := float64(k) * logitStep
		// Q(s/kappa) - logistic(-s), both times e^s
		t[k] = math.Exp(special.LogPhi(-s/math.Sqrt(logitKappa2))+s) - 1/(1+math.Exp(-s))
	}
	t[0] = 0
	return t
}()

// grid is the trapezoid rule for N(0,1) at ±k step, whose weights sum to 1.
type grid struct {
	step   float64
	weight []float64
}

func newGrid(step float64, nodes int) grid {
	g, sum := grid{step, make([]float64, nodes+1)}, 0.0
	for k := range g.weight {
		x := float64(k) * step
		g.weight[k] = math.Exp(-0.5 * x * x)
		sum += g.weight[k]
		if k > 0 {
			sum += g.weight[k]
		}
	}
	for k := range g.weight {
		g.weight[k] /= sum
	}
	return g
}

// The poles of the logistic function are pi/sqrt(v) prior standard deviations away: the farther,
// the wider the step for the same error. In log Z, in standard deviations of the mean and relative
// to the variance that is 1e-12 for coarse below its bound and for fine below 1/2, and 2e-9 for
// fine at 1.
const coarseV = 0.25

var (
	fineGrid   = newGrid(0.64, 12)
	coarseGrid = newGrid(0.76, 9)
)

func gridOf(v float64) *grid {
	if v < coarseV {
		return &coarseGrid
	}
	return &fineGrid
}

// logitMoments returns the moments for logistic(s) under N(m, v).
//
//  1. m < -v/2: e^s N(s; m, v) = e^(m+v/2) N(s; m+v, v) turns the problem into the one
//     at -(m+v), exactly; the rest has m >= -v/2.
//  2. m > 2.5v + 12: three terms of 1/(1+e^-s) = 1 - e^-s + ..., an alternating series.
//  3. v < 0.02: seven terms of the series in v, within 3e-13.
//  4. v < 1: trapezoid rule on m ± 7 sqrt(v), 19 or 25 nodes.
//  5. v >= 1: logistic(s) = Phi(s/kappa) + rest(s). The first part is the closed form of
//     probit; the rest lives near 0, and the trapezoid rule integrates it with the same
//     tabulated values for every (m, v). All powers come from recurrences.
func logitMoments(m, v float64) Tilted {
	if m < -0.5*v {
		t := logitCentred(-(m + v), v)
		t.LogZ += m + 0.5*v
		t.Alpha = 1 - t.Alpha
		return t
	}
	return logitCentred(m, v)
}

func logitCentred(m, v float64) Tilted {
	switch {
	case m > 2.5*v+12:
		e1, e2, e3 := math.Exp(-m+0.5*v), math.Exp(-2*m+2*v), math.Exp(-3*m+4.5*v)
		lost := e1 - e2 + e3
		z := 1 - lost
		alpha := (e1 - 2*e2 + 3*e3) / z
		beta := alpha*alpha + (e1-4*e2+9*e3)/z
		return Tilted{LogZ: math.Log1p(-lost), Alpha: alpha, Beta: beta, Ratio: 1 - v*beta}
	case v < seriesV:
		return logitTiny(m, v)
	case v < logitSmallV:
		return logitGrid(m, v)
	default:
		return logitSplit(m, v)
	}
}

// logitTiny is for v < seriesV and m >= -v/2. It uses the series of logitSeries for Z, and its
// derivatives in m: that of u t P_k is u Q_k, and the second is twice that in v (the heat equation).
func logitTiny(m, v float64) Tilted {
	e := expDownFrom(m)
	p := 1 / (1 + e)
	u := e * p * p
	a1 := 1. / 2
	a2 := 1./8 - 3./2*u
	a3 := 1./48 + u*(-5./4+u*(15./2))
	a4 := 1./384 + u*(-21./32+u*(105./8-105./2*u))
	a5 := 1./3840 + u*(-17./64+u*(441./32+u*(-315./2+u*(945./2))))
	a6 := 1./46080 + u*(-341./3840+u*(11+u*(-4389./16+u*(17325./8-10395./2*u))))
	b1 := 1./2 - 3*u
	b2 := 1./8 + u*(-15./4+15*u)
	b3 := 1./48 + u*(-21./8+u*(35-105*u))
	b4 := 1./384 + u*(-85./64+u*(735./16+u*(-1575./4+945*u)))
	b5 := 1./3840 + u*(-341./640+u*(44+u*(-13167./16+u*(10395./2-10395*u))))
	b6 := 1./46080 + u*(-91./512+u*(13013./384+u*(-5005./4+u*(63063./4+u*(-315315./4+135135*u)))))
	v2 := v * v
	v4 := v2 * v2
	ut := u * (e - 1) * p
	z := p + ut*v*((a1+v*a2)+v2*(a3+v*a4)+v4*(a5+v*a6))
	z1 := u + u*v*((b1+v*b2)+v2*(b3+v*b4)+v4*(b5+v*b6))
	z2 := 2 * ut * ((a1 + 2*v*a2) + v2*(3*a3+4*v*a4) + v4*(5*a5+6*v*a6))
	inv := 1 / z
	alpha := z1 * inv
	beta := alpha*alpha - z2*inv
	return finish(Tilted{LogZ: special.QuickLog(z), Alpha: alpha, Beta: beta, Ratio: 1 - v*beta})
}

// logitGrid is for v < 1 and m >= -v/2. The row shifts the distribution by less than one prior
// standard deviation, so the prior's own grid covers it. With p = 1 - logistic(s) = e^-s/(1 + e^-s)
// at the nodes ±k, a and b their e^-s and ab = e^-2m, power sums follow from
//
//	sum p = (a+b + 2ab) / (1 + a+b + ab),  product p = ab / (1 + a+b + ab)
//
// without cancellation, because no p is negative.
func logitGrid(m, v float64) Tilted {
	g := gridOf(v)
	e := expDownFrom(m)
	q := special.ExpDown(-g.step * math.Sqrt(v))
	inv := 1 / q
	p := e / (1 + e)
	s1 := g.weight[0] * p
	s2 := s1 * p
	s3 := s2 * p
	up, dn, both := e, e, e*e
	for _, w := range g.weight[1:] {
		up *= q
		dn *= inv
		sum := up + dn
		d := 1 / (1 + both + sum)
		p1, product := (sum+2*both)*d, both*d
		p2 := p1*p1 - 2*product
		p3 := p1 * (p2 - product)
		s1 += w * p1
		s2 += w * p2
		s3 += w * p3
	}
	z := 1 - s1
	iz := 1 / z
	alpha := (s1 - s2) * iz // E p(1-p)/E(1-p)
	beta := alpha + alpha*alpha - 2*(s2-s3)*iz
	return finish(Tilted{LogZ: special.QuickLog(z), Alpha: alpha, Beta: beta, Ratio: 1 - v*beta})
}

// expDownFrom returns e^-m for m >= -1/2.
func expDownFrom(m float64) float64 {
	const rootE = 1.6487212707001282
	return special.ExpDown(-m-0.5) * rootE
}

// logitTail returns E logistic(s) under N(m, v), m <= 0: exp(LogZ) of Moments up to rounding,
// without derivatives and logarithms. For small v it is a series in v (logitSeries), otherwise the
// nodes ±k of logitGrid share a division,
//
//	1/(1+a) + 1/(1+b) = (2 + a+b) / (1 + a+b + ab),  ab = e^-2m for every pair
func logitTail(m, v float64) float64 {
	if v > 0 && v < seriesV && m > expFar {
		return logitSeries(m, v)
	}
	o := Obs{Y: 1, Weight: 1}
	shift, c := 1.0, m
	if m < -0.5*v {
		shift, c = math.Exp(m+0.5*v), -(m + v)
	}
	if !proper(o, m, v) || v >= logitSmallV || c > 2.5*v+12 {
		return math.Exp(logit{}.Moments(o, m, v).LogZ)
	}
	e := math.Exp(-c)
	g := gridOf(v)
	q := math.Exp(-g.step * math.Sqrt(v))
	inv := 1 / q
	z := g.weight[0] / (1 + e)
	up, dn, both := e, e, 1+e*e
	for _, w := range g.weight[1:] {
		up *= q
		dn *= inv
		sum := up + dn
		z += w * (2 + sum) / (both + sum)
	}
	return z * shift
}

// seriesV bounds the variance of logitSeries and logitTiny. The largest omitted term, over m, is
// 0.0208 v^7 of Z: 2.7e-14 there, and 3e-13 of v Z”.
const seriesV = 0.02

const expFar = -600 // below, special.ExpDown is 0

// logitSeries returns E logistic(s) = sum of logistic^(2k)(m) v^k / (2^k k!), to k = 6. With
// p = logistic(m), u = p(1-p), t = 1-2p the derivatives of even order are u t P(u), because
// u' = u t and t' = -2u:
//
//	P_1 = 1,  P_{k+1} = Q + u Q',  Q = (1-6u) P_k + u (1-4u) P_k'
//
// Relative to p no term exceeds v^k / (2^k k!) in the tail.
func logitSeries(m, v float64) float64 {
	e := special.ExpDown(m)
	den := 1 / (1 + e)
	p := e * den
	u := p * den
	a1 := 1. / 2
	a2 := 1./8 - 3./2*u
	a3 := 1./48 + u*(-5./4+u*(15./2))
	a4 := 1./384 + u*(-21./32+u*(105./8-105./2*u))
	a5 := 1./3840 + u*(-17./64+u*(441./32+u*(-315./2+u*(945./2))))
	a6 := 1./46080 + u*(-341./3840+u*(11+u*(-4389./16+u*(17325./8-10395./2*u))))
	v2 := v * v
	sum := (a1 + v*a2) + v2*((a3+v*a4)+v2*(a5+v*a6))
	return p + u*(1-e)*den*v*sum
}

func logitSplit(m, v float64) Tilted {
	total := v + logitKappa2
	root := 1 / math.Sqrt(total)
	x := m * root
	logPhi, r, residual := special.PhiMoments(x)

	// rest: sums of D_k s^j N(s)/N(0) over both sides, up and dn times e^-s
	var s0, s1, s2 float64
	iv := 1 / v
	gauss := math.Exp(-0.5 * logitStep * logitStep * iv)
	decay := gauss * gauss
	slope := m * logitStep * iv
	fu, fd := gauss*math.Exp(slope-logitStep), gauss*math.Exp(-slope-logitStep)
	up, dn := 1.0, 1.0
	s := 0.0
	for k := 1; k < logitTable; k++ {
		up *= fu
		dn *= fd
		fu *= decay
		fd *= decay
		s += logitStep
		if up+dn < 1e-17 {
			break
		}
		c := logitRest[k]
		plus, minus := c*(up+dn)*s, c*(up-dn)
		s0 += minus
		s1 += plus
		s2 += minus * (s * s)
	}

	n0 := -0.5*m*(m*iv) - 0.5*special.QuickLog(2*math.Pi*v) // log N(0; m, v)
	if m >= 0 {
		phi := math.Exp(logPhi)
		c := logitStep * math.Exp(n0)
		z := phi + c*s0
		hazard := r * phi * root
		d1 := hazard + c*(s1-m*s0)*iv
		d2 := -x*root*hazard + c*((s2-2*m*s1+m*m*s0)*iv-s0)*iv
		alpha := d1 / z
		beta := alpha*alpha - d2/z
		return finish(Tilted{LogZ: math.Log(z), Alpha: alpha, Beta: beta, Ratio: 1 - v*beta})
	}
	n0 -= logPhi
	if x < -logitFar { // the difference of two huge numbers has no digits left
		n0 = -0.5*logitKappa2*(m*iv)*(m/total) + math.Log(r) - 0.5*math.Log(v)
	}
	c := logitStep * math.Exp(n0)
	mass := 1 + c*s0
	excess := special.InverseMillsExcess(x)
	mean0 := m*logitKappa2/total + v*excess*root // m + v r root, without cancellation
	var0 := v * (logitKappa2 + v*residual) / total
	mean := (mean0 + c*s1) / mass
	variance := (var0+mean0*mean0+c*s2)/mass - mean*mean
	ratio := variance * iv
	return finish(Tilted{LogZ: logPhi + math.Log(mass), Alpha: (mean - m) * iv, Beta: (1 - ratio) * iv, Ratio: ratio})
}

func logitWeighted(w, m, v float64) Tilted {
	a := findMode(m, v, func(s float64) (logp, d1, d2 float64) { return logitLog(w, s) })
	s0 := m + a.t
	h := math.Min(0.65*a.tau, 0.4)
	shift := math.Log1p(w)
	return tilt(newLogitShape(s0, w), a, v, h, bend{-s0, shift - s0, 1, 0}).tilted(a, v)
}

// logitShape is w log logistic about s0, p = logistic(-s0), q = logistic(s0).
type logitShape struct{ s0, w, p, q float64 }

func newLogitShape(s0, w float64) logitShape {
	return logitShape{s0, w, special.Logistic(-s0), special.Logistic(s0)}
}

func (l logitShape) at(d float64) (gap, slope, curv float64) {
	p, q := l.p, l.q
	// log[(1+e^-s)/(1+e^-s0)] from the side whose probability is small
	if math.Abs(d) > 300 {
		x := l.s0 + d
		pd, qd := special.Logistic(-x), special.Logistic(x)
		// both ends are straight lines there
		if p <= q {
			gap = math.Log(q) + special.Log1pExp(-x) + p*d
		} else {
			gap = math.Log(p) + special.Log1pExp(x) - q*d
		}
		return -l.w * gap, l.w * (pd - p), l.w * pd * qd
	}
	if p <= q {
		e := math.Expm1(-d)
		den := 1 / (1 + p*e)
		pd := p * (1 + e) * den
		return -l.w * (math.Log1p(p*e) + p*d), l.w * p * q * e * den, l.w * pd * q * den
	}
	e := math.Expm1(d)
	den := 1 / (1 + q*e)
	qd := q * (1 + e) * den
	return -l.w * (math.Log1p(q*e) - q*d), -l.w * p * q * e * den, l.w * qd * p * den
}

func (logit) Response(s float64) float64 { return special.Logistic(s) }

// Predict integrates the logistic function to 1e-10 relative, in both tails: it computes the smaller
// of the two probabilities; the other is its complement.
func (logit) Predict(m, v float64) (mean, variance float64) {
	small := logitTail(-math.Abs(m), v)
	if m > 0 {
		return 1 - small, small * (1 - small)
	}
	return small, small * (1 - small)
}

// Moderated returns MacKay's logistic(m/sqrt(1 + pi v/8)), within 0.016 of the exact mean.
//
// Source: D. MacKay, "The evidence framework applied to classification networks" (1992).
func (logit) Moderated(m, v float64) float64 {
	return special.Logistic(m / math.Sqrt(1+math.Pi*v/8))
}

func (l logit) Interval(m, v, level float64) (lower, upper float64) {
	lower, upper = normalQuantiles(m, v, level)
	return l.Response(lower), l.Response(upper)
}

package lik

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bglm/bglm/kernels/special"
)

var studenttFamily = family{Info{
	Family:      "studentt",
	Links:       []string{"identity"},
	Description: "a real response around s with heavy tails: Student's t with shape degrees of freedom and squared scale dispersion",
	Parameters:  []string{"dispersion", "shape"},
	Response:    "any finite number",
}, links{"identity": newStudentT}}

// studentT is y = s + sqrt(D) T, T of nu = Shape degrees of freedom, D = Dispersion:
//
//	p(y|s) = c (1 + (y-s)²/(nu D))^-(nu+1)/2
//
// Its logarithm bends up beyond sqrt(nu D) from y: with an outlier the tilted distribution may have
// two modes, one near m and one near y, and more variance than the prior (Ratio > 1).
//
// Accuracy: logZ 1e-10, mean and variance 1e-8; all modes count.
type studentT struct {
	dof, dispersion float64
	scale2          float64 // nu D
	core            float64 // the part of log p at s = y that depends on nu alone
	peak            float64 // log p at s = y
	rule            *rule
}

func newStudentT(p Params) (Likelihood, error) {
	dof, err := shapeOr(p, 4, "studentt", "degrees of freedom")
	if err != nil {
		return nil, err
	}
	if !(p.Dispersion > 0) || math.IsInf(p.Dispersion, 1) {
		return nil, fmt.Errorf("dispersion = %v: studentt takes a finite squared scale > 0", p.Dispersion)
	}
	r, err := newRule(p.Quadrature)
	return studentT{dof: dof, core: logGammaHalfStep(0.5 * dof), rule: r.unclamped()}.with(p.Dispersion), err
}

// with is l with another dispersion.
func (l studentT) with(dispersion float64) studentT {
	l.dispersion, l.scale2 = dispersion, l.dof*dispersion
	l.peak = l.core - 0.5*math.Log(math.Pi*l.dof*dispersion)
	return l
}

// logGammaHalfStep returns log Gamma(x + 1/2) - log Gamma(x), by Stirling's formula where the
// difference of two large numbers would cancel.
func logGammaHalfStep(x float64) float64 {
	if x < 16 {
		a, _ := math.Lgamma(x + 0.5)
		b, _ := math.Lgamma(x)
		return a - b
	}
	// log Gamma(z) = (z - 1/2) log z - z + log sqrt(2 pi) + stirling(z)
	return x*math.Log1p(0.5/x) - 0.5 + 0.5*math.Log(x) + special.StirlingError(x+0.5) - special.StirlingError(x)
}

func (studentT) Family() string   { return "studentt" }
func (studentT) Link() string     { return "identity" }
func (l studentT) Shape() float64 { return l.dof }

func (l studentT) Traits() Traits {
	return Traits{Located: true, Scale: math.Sqrt(l.dof * l.dispersion), Inverse: identityInverse}
}

// Information is (nu + 1)/((nu + 3) D), less than 1 over the variance.
func (l studentT) Information() float64 { return (l.dof + 1) / ((l.dof + 3) * l.dispersion) }

// Dispersion is the squared scale: the variance is nu/(nu-2) times it.
func (l studentT) Dispersion() float64 { return l.dispersion }

// Draw returns s plus a scaled T.
func (l studentT) Draw(s, _ float64, src rand.Source) float64 {
	return distuv.StudentsT{Mu: s, Sigma: math.Sqrt(l.dispersion), Nu: l.dof, Src: src}.Rand()
}

// CDF has no steps. That of T loses digits from 1e5 degrees of freedom: there it is the normal one
// plus the term of order 1/nu.
func (l studentT) CDF(o Obs, s float64) (below, upTo float64) {
	if sd := math.Sqrt(l.dispersion); l.dof < 1e5 {
		below = distuv.StudentsT{Mu: s, Sigma: sd, Nu: l.dof}.CDF(o.Y)
	} else {
		x := (o.Y - s) / sd
		if below = special.Phi(x); math.Abs(x) < 30 {
			below -= math.Exp(-0.5*x*x) / math.Sqrt(2*math.Pi) * x * (1 + x*x) / (4 * l.dof)
		}
	}
	return below, below
}

func (studentT) Check(o Obs) error {
	if !special.Finite(o.Y) {
		return fmt.Errorf("y = %v: studentt takes finite numbers", o.Y)
	}
	return checkWeight(o)
}

func (l studentT) LogLik(o Obs, s float64) (logp, d1, d2 float64) {
	if o.Weight == 0 {
		return 0, 0, 0
	}
	k := 0.5 * o.Weight * (l.dof + 1)
	r := o.Y - s
	q := l.scale2 + r*r
	return o.Weight*l.peak - k*l.fall(r), 2 * k * (r / q), -2 * k * ((l.scale2 - r*r) / q / q)
}

// fall returns log(1 + r²/(nu D)), also if r² overflows.
func (l studentT) fall(r float64) float64 {
	u := r / math.Sqrt(l.scale2)
	if math.Abs(u) > 1e8 {
		return 2 * math.Log(math.Abs(u))
	}
	return special.QuickLog1p(u * u)
}

// Moments finds the modes from the turning points of the slope of the tilted distribution. With
// K = w(nu+1)/2, S = nu D, r = y-s, q = S + r² they solve q² - 2Kv q + 4KvS = 0. For y >= m, which
// holds after a reflection, the modes lie between m and y.
func (l studentT) Moments(o Obs, m, v float64) Tilted {
	if !proper(o, m, v) {
		logp, d1, d2 := l.LogLik(o, m)
		return degenerate(o.Weight, m, v, logp, d1, d2)
	}
	if l.rule != nil {
		return l.rule.moments(l, o, m, v)
	}
	y := o.Y - m
	if y < 0 {
		t := l.centred(o.Weight, -y, v)
		t.Alpha = -t.Alpha
		return t
	}
	return l.centred(o.Weight, y, v)
}

// centred is Moments for m = 0 and y >= 0.
func (l studentT) centred(w, y, v float64) Tilted {
	k := 0.5 * w * (l.dof + 1)
	scale2 := l.scale2
	slope := func(t float64) (d1, d2 float64) {
		r := y - t
		iq := 1 / (scale2 + r*r)
		return 2 * k * r * iq, -2 * k * (scale2 - r*r) * iq * iq
	}
	low, high := math.NaN(), math.NaN()
	kv := k * v
	if kv > 4*scale2 {
		far := kv + math.Sqrt(kv*(kv-4*scale2))
		low, high = y-math.Sqrt(far-scale2), y-math.Sqrt(scale2*(4*kv/far-1))
	}
	found := findModes(v, low, high, slope)
	sh := newStudentShape(l.scale2, k, y-found.t[0])
	at := func(i int) anchor {
		// The shape's own slope: under a wide prior a difference in the last place would decide the
		// tails.
		d1 := newStudentShape(l.scale2, k, y-found.t[i]).d1
		return anchor{t: found.t[i], logp: w*l.peak - k*l.fall(y-found.t[i]), d1: d1, resid: d1 - found.t[i]/v, tau: found.tau[i]}
	}
	a := at(0)
	other := 0.0
	drop := dropModes(v, found.tau[0])
	if found.n == 2 {
		drop = math.Max(drop, dropModes(v, found.tau[1]))
		other = found.t[1] - found.t[0]
		if gap, _, _ := sh.at(other); gap+other*(a.resid-0.5*other/v) > 0 {
			a, sh = at(1), newStudentShape(l.scale2, k, y-found.t[1])
			other = -other
		}
	}
	return tiltModes(sh, a, v, drop, other, func() float64 { return valleyOf(v, low, high, slope) }).tiltedFree(a, v)
}

// studentShape is -k log(S + (r0 - d)²) about d = 0.
type studentShape struct {
	scale2, k, r0 float64
	q0, d1, core  float64
	narrow        float64 // panels: 2.5/sqrt(2k)
}

func newStudentShape(scale2, k, r0 float64) studentShape {
	q := scale2 + r0*r0
	return studentShape{scale2, k, r0, q, 2 * k * (r0 / q), math.Sqrt(scale2), 2.5 / math.Sqrt(2*k)}
}

func (s studentShape) at(d float64) (gap, slope, curv float64) {
	r := s.r0 - d
	q := s.scale2 + r*r
	iq := 1 / q
	z := d * (d - 2*s.r0) / s.q0 // q/q0 - 1
	switch {
	case math.Abs(z) < 1./16:
		gap = -s.k*special.QuickLog1p(z) - s.d1*d
	case z < -0.5:
		gap = -s.k*math.Log(q/s.q0) - s.d1*d
	default:
		gap = -s.k*math.Log1p(z) - s.d1*d
	}
	return gap, 2 * s.k * d * (s.r0*r - s.scale2) / s.q0 * iq, 2 * s.k * (s.scale2 - r*r) * iq * iq
}

func (s studentShape) wide(d float64) float64 {
	r := s.r0 - d
	return math.Min(math.Max(s.core, 0.6*math.Abs(r)), s.narrow*math.Sqrt(s.scale2+r*r))
}

// strip: at r - ib the modulus of q is at least S + r² - b², and -log(1 - b²/S) is below 1.4 b²/S
// for b² up to S/2.
func (s studentShape) strip(float64) (bend, most float64) {
	return 2.8 * s.k / s.scale2, s.core * math.Sqrt(0.5)
}

func (studentT) Response(s float64) float64 { return s }

// Predict has the variance v + D nu/(nu-2), +Inf for nu <= 2, and the mean m, which exists for
// nu > 1; below, m is the centre.
func (l studentT) Predict(m, v float64) (mean, variance float64) {
	if l.dof <= 2 {
		return m, math.Inf(1)
	}
	return m, v + l.dispersion*l.dof/(l.dof-2)
}

func (studentT) Moderated(m, v float64) float64 { return m }

// Interval returns m ± the quantile of the predictive distribution, by its distribution function and
// a bracketing root finder: probabilities to 1e-10.
func (l studentT) Interval(m, v, level float64) (lower, upper float64) {
	if !(level > 0 && level < 1) || math.IsNaN(m) || !(v >= 0) || math.IsInf(v, 1) {
		return math.NaN(), math.NaN()
	}
	scale := math.Sqrt(v + l.dispersion)
	half := math.Exp(quantile(math.Log(scale*centralZ(level)), 1, func(x float64) float64 {
		return 0.5*(1-level) - l.above(math.Exp(x), v)
	}))
	return m - half, m + half
}

// above returns P(Y > m + x). T is a normal variable over sqrt(G), G of mean 1 and shape nu/2, so
// given G the response is N(m, v + D/G): the trapezoid rule on log G.
func (l studentT) above(x, v float64) float64 {
	shape := 0.5 * l.dof
	tau := 1 / math.Sqrt(shape)
	h := 0.4 * tau / (1 + 0.5*tau)
	return meanAboutMode(h, logGamma(shape), func(d float64) float64 { return special.Phi(-x / math.Sqrt(v+l.dispersion*math.Exp(-d))) })
}

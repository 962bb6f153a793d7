package lik

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"

	"github.com/bglm/bglm/kernels/special"
)

// A shape is w log p(y|s) relative to a point s0, with s = s0 + d, written so that nothing
// cancels if d is tiny or s0 huge:
//
//	gap   = l(s0+d) - l(s0) - l'(s0) d       (<= 0: every family here is log-concave)
//	slope = l'(s0+d) - l'(s0)
//	curv  = -l''(s0+d)                        (>= 0)
type shape interface {
	at(d float64) (gap, slope, curv float64)
}

// bend is the interval [lo, hi] of d over which a shape bends, and the length over which it changes there.
// Outside it the shape is nearly a line or a parabola. piece is the length of panels there, 0 for scale.
type bend struct{ lo, hi, scale, piece float64 }

// sums are the moments of exp(gap + resid d - d²/2v) about s0, up to one factor.
type sums struct {
	mass           float64 // includes the step
	d, dd          float64 // of the offset
	slope, slopeSq float64
	curv           float64
}

// anchor is an approximate mode s0 = m + t of the tilted distribution: l, l' there, the
// residual l' - t/v, and the local standard deviation tau = (1/v - l”)^-1/2.
type anchor struct {
	t, logp, d1, resid, tau float64
}

const (
	dropTrapezoid = 36   // e^-36 of the peak is dropped at each end: a small beta depends on the far tails
	dropPanels    = 40   // the same for the panels
	mostPanels    = 4096 // in the bend, and away from it even if rounding distorts the range
	maxSide       = 160  // trapezoid nodes on one side before the panels take over
	modeTol       = 0.02
)

// tilt integrates the tilted distribution around a.
//
// Nine Gauss-Hermite nodes are enough if the distribution is narrow beside the bend, and so nearly
// Gaussian. Otherwise the trapezoid rule with step h comes first: for these analytic, bell-shaped
// integrands its error falls like exp(-2 pi c/h), c the distance to the nearest singularity. If the
// distribution is too wide for it (a plateau or a slow exponential tail far wider than the
// bend) Gauss-Legendre panels that grow away from the bend take over, some 300 to 800 nodes.
func tilt[S shape](sh S, a anchor, v, h float64, b bend) sums {
	// For a mode 1e16 standard deviations away the residual is only rounding error, which would
	// become a slope when multiplied by the width of the distribution.
	if math.Abs(a.resid) <= 1e-15*math.Abs(a.d1) {
		a.resid = 0
	}
	if s, ok := hermite(sh, a, v, b.scale); ok {
		return s
	}
	if s, ok := trapezoid(sh, a.resid, v, h); ok {
		return s
	}
	return panels(sh, a, v, b)
}

func (s *sums) add(p, d, slope, curv float64) {
	s.mass += p
	pd := p * d
	s.d += pd
	s.dd += pd * d
	ps := p * slope
	s.slope += ps
	s.slopeSq += ps * slope
	s.curv += p * curv
}

// times multiplies the sums by a step.
func (s *sums) times(h float64) {
	s.mass *= h
	s.d *= h
	s.dd *= h
	s.slope *= h
	s.slopeSq *= h
	s.curv *= h
}

const (
	hermiteNodes = 9
	// hermiteGap bounds log r at the nodes, r being the ratio of the density to its Gaussian. The
	// coefficient ε of a cubic term ε z³ of log r is then below 2.2e-4, and the first of its powers
	// that the rule gets wrong, of degree 18, contributes ε^6 17!!/6! = 5e-18 of the mass.
	hermiteGap = 0.02
)

// hermiteRule holds the nodes of N(0, 1), the outermost first, and their weights; never
// written after start-up.
var hermiteRule = func() (t [hermiteNodes][2]float64) {
	var x, w [hermiteNodes]float64
	quad.Hermite{}.FixedLocations(x[:], w[:], math.Inf(-1), math.Inf(1))
	for i := range t {
		j := i / 2
		if i%2 == 1 {
			j = hermiteNodes - 1 - j
		}
		t[i] = [2]float64{math.Sqrt2 * x[j], w[j] / math.Sqrt(math.Pi)}
	}
	return t
}()

// hermite applies Gauss-Hermite quadrature about the mode. ok is false if a node lies farther from
// it than scale, or if the density is not close enough to its Gaussian, which the outermost nodes
// show first. A singularity at distance b adds a relative error of e^(-4.4 b/tau): scale is at most
// b/2.
func hermite[S shape](sh S, a anchor, v, scale float64) (s sums, ok bool) {
	if !(hermiteRule[1][0]*a.tau < scale) {
		return s, false
	}
	half := 0.5 * (1/(a.tau*a.tau) - 1/v)
	for _, n := range hermiteRule {
		d := a.tau * n[0]
		gap, slope, curv := sh.at(d)
		gap += half * d * d
		if !(math.Abs(gap) < hermiteGap) {
			return s, false
		}
		s.add(n[1]*math.Exp(gap+a.resid*d), d, slope, curv)
	}
	s.times(math.Sqrt(2*math.Pi) * a.tau)
	return s, true
}

func trapezoid[S shape](sh S, resid, v, h float64) (s sums, ok bool) {
	half := -0.5 / v
	_, _, c0 := sh.at(0)
	s.mass, s.curv = 1, c0
	for _, step := range [2]float64{h, -h} {
		for k := 1; ; k++ {
			if k > maxSide {
				return s, false
			}
			d := step * float64(k)
			gap, slope, curv := sh.at(d)
			e := gap + d*(resid+half*d)
			if !(e > -dropTrapezoid) {
				break
			}
			s.add(special.ExpDown(e), d, slope, curv)
		}
	}
	s.times(h)
	return s, true
}

const legendreNodes = 16

// legendre holds the nodes and weights of Gauss-Legendre on (-1, 1); never written
// after start-up.
var legendre = func() (t [2][legendreNodes]float64) {
	quad.Legendre{}.FixedLocations(t[0][:], t[1][:], -1, 1)
	return t
}()

// panels integrates in Gauss-Legendre pieces of 16 nodes: no wider than two prior standard
// deviations, an eighth of the range, or max(piece of the bend, 0.6 times the distance to the bend), so
// that the nearest singularity stays well outside each piece's ellipse.
func panels[S shape](sh S, a anchor, v float64, b bend) (s sums) {
	half := -0.5 / v
	f := func(d float64) float64 {
		gap, _, _ := sh.at(d)
		return gap + d*(a.resid+half*d)
	}
	left, right := edge(f, -a.tau), edge(f, a.tau)
	widest := math.Min(2*math.Sqrt(v), (right+left)/8)
	widest = math.Max(widest, (right+left)/mostPanels)
	piece := max(b.scale, b.piece, (b.hi-b.lo)/mostPanels)
	for x := -left; x < right; {
		wide := piece
		if x < b.lo {
			wide = math.Max(wide, 0.6*(b.lo-x))
		} else if x > b.hi {
			wide = math.Max(wide, 0.6*(x-b.hi))
		}
		wide = math.Min(wide, widest)
		if x+wide > right {
			wide = right - x
		}
		c := 0.5 * wide
		mid := x + c
		for i, u := range legendre[0] {
			d := mid + c*u
			gap, slope, curv := sh.at(d)
			// Behind a wall the density is 0, and its slope may overflow.
			if p := math.Exp(gap + d*(a.resid+half*d)); p > 0 {
				s.add(c*legendre[1][i]*p, d, slope, curv)
			}
		}
		if x+wide == x {
			break
		}
		x += wide
	}
	return s
}

// edge returns the distance at which f has fallen dropPanels below its value at 0, to
// about one part in 16, going out in steps of the sign of step.
func edge(f func(float64) float64, step float64) float64 {
	hi := step
	for f(hi) > -dropPanels && !math.IsInf(hi, 0) {
		hi *= 2
	}
	lo := hi / 2
	if hi == step {
		lo = 0
	}
	for i := 0; i < 4; i++ {
		mid := 0.5 * (lo + hi)
		if f(mid) > -dropPanels {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Abs(hi)
}

// tilted turns sums about a into the four outputs. A weakly informative row (v*beta < 1/2) uses
// alpha = E[l'] and beta = E[-l”] - Var[l'], which lose nothing as v -> 0; a sharp one uses the
// mean and variance of s, because those identities cancel.
func (s sums) tilted(a anchor, v float64) Tilted {
	inv := 1 / s.mass
	delta := s.d * inv
	variance := s.dd*inv - delta*delta
	logZ := a.logp - 0.5*a.t*(a.t/v) + math.Log(s.mass/math.Sqrt(2*math.Pi*v))
	if variance > 0.5*v {
		ds := s.slope * inv
		beta := s.curv*inv - (s.slopeSq*inv - ds*ds)
		return finish(Tilted{LogZ: logZ, Alpha: a.d1 + ds, Beta: beta, Ratio: 1 - v*beta})
	}
	ratio := variance / v
	return finish(Tilted{LogZ: logZ, Alpha: (a.t + delta) / v, Beta: (1 - ratio) / v, Ratio: ratio})
}

// finish clamps rounding errors to the ranges that log-concavity guarantees: beta >= 0 and
// 0 < ratio <= 1.
func finish(t Tilted) Tilted {
	if t.Beta < 0 {
		t.Beta = 0
	}
	if t.Ratio > 1 {
		t.Ratio = 1
	} else if t.Ratio < tinyRatio {
		t.Ratio = tinyRatio
	}
	return t
}

// tinyRatio is the smallest Ratio returned: far below any reached in 'auto' (about
// 1/(1 + v w y)), and large enough that 1/(v*Ratio) stays finite.
const tinyRatio = 1e-24

// findMode solves t = v l'(m+t) for a log-concave l with l' >= 0 (responses are reflected so that
// they pull upwards), to modeTol tilted standard deviations: the rest goes into resid. l' falls,
// so the root lies in [0, v l'(m)]; every third step halves the bracket, which keeps Newton's
// method from crawling where l' is nearly flat.
func findMode(m, v float64, l func(s float64) (logp, d1, d2 float64)) anchor {
	logp, d1, d2 := l(m)
	lo, hi := 0.0, v*d1
	t := 0.0
	for i := 1; ; i++ {
		g := t - v*d1
		tau := 1 / math.Sqrt(1/v-d2)
		step := -g / (1 - v*d2)
		if math.Abs(step) <= modeTol*tau || i > 200 {
			return anchor{t: t, logp: logp, d1: d1, resid: d1 - t/v, tau: tau}
		}
		if g < 0 {
			lo = t
		} else {
			hi = t
		}
		t += step
		if i%3 == 0 || t <= lo || t >= hi {
			t = 0.5 * (lo + hi)
			if t == lo || t == hi {
				logp, d1, d2 = l(m + t)
				return anchor{t: t, logp: logp, d1: d1, resid: d1 - t/v, tau: 1 / math.Sqrt(1/v-d2)}
			}
		}
		logp, d1, d2 = l(m + t)
	}
}

// proper reports whether o and N(m, v) need an integral or a closed form; degenerate handles the
// rest.
func proper(o Obs, m, v float64) bool {
	return v > 1e-290 && v <= math.MaxFloat64 && o.Weight > 0 && math.Abs(m) <= math.MaxFloat64
}

// degenerate handles what is not proper: a prior that is no distribution (NaN everywhere), weight
// 0 (the prior itself), and v = 0, or so small that 1/v overflows (a point mass: the likelihood
// and its derivatives at m, clamped to the largest number, so that v*Beta is 0 and not NaN).
func degenerate(w, m, v, logp, d1, d2 float64) Tilted {
	nan := math.NaN()
	switch {
	case !(v >= 0) || math.IsInf(v, 1) || math.IsNaN(m) || math.IsInf(m, 0) || !(w >= 0):
		return Tilted{nan, nan, nan, nan}
	case w == 0:
		return Tilted{Ratio: 1}
	}
	const top = math.MaxFloat64
	return Tilted{LogZ: math.Max(logp, -top), Alpha: math.Min(math.Max(d1, -top), top), Beta: math.Min(-d2, top), Ratio: 1}
}

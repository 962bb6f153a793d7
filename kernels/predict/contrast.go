package predict

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// Contrast is the difference between two rows under one posterior: of the linear
// predictor, a Gaussian, and of the expected response g⁻¹(s).
type Contrast struct {
	Estimate
	Positive float64 // P(s_a > s_b), also that of the responses
	Response Estimate
}

// Contrast is row i of b minus row j. What the two rows share cancels in the difference of the
// predictors: a row minus itself is exactly 0.
//
// Cost: that of Linear three times and of ContrastOf.
// Errors: a level outside (0, 1); a predictor that is not finite.
func (s *Scorer) Contrast(b *kernels.Batch, i, j int, level float64) (c Contrast, err error) {
	var ms, vs [3]float64
	d := s.difference(b, i, j)
	for k, row := range []int{i, j, 0} {
		of := b
		if k == 2 {
			of = d
		}
		if ms[k], vs[k], err = s.Linear(of, row); err != nil {
			return c, err
		}
	}
	return ContrastOf(s.Lik, s.predictive, ms, vs, level)
}

// ContrastOf is the contrast of two predictors: means and variances of the first, of the second,
// and of the first minus the second, without offsets; k are the factors of the fit.
//
// The difference of the responses is integrated over the joint Gaussian of the two predictors, to
// about 1e-8 of its standard deviation, its interval to about 1e-5. Cost: some thousands of
// evaluations of the inverse link, a tenth of a millisecond; none for the identity.
// Errors: a level outside (0, 1).
func ContrastOf(l lik.Likelihood, k kernels.PredictiveScale, mean, variance [3]float64, level float64) (c Contrast, err error) {
	if err := CheckLevel(level); err != nil {
		return c, err
	}
	m, v := mean[2], variance[2]
	c.Estimate, c.Positive = gaussian(m, v, level), above(m, v)
	switch {
	case l.Traits().Located:
		c.Response = c.Estimate
	case m == 0 && v == 0: // one predictor
	default:
		for j := range mean {
			mean[j], variance[j] = k.Of(mean[j], variance[j], 0)
		}
		m, v = mean[2], variance[2]
		c.Response = responses(l, m, v, mean[0], variance[0], mean[1], variance[1], level)
	}
	return c, nil
}

// difference is row i of b minus row j, without entries that are 0.
func (s *Scorer) difference(b *kernels.Batch, i, j int) *kernels.Batch {
	by := map[uint32]float64{}
	var order []uint32
	for r, sign := range map[int]float64{i: 1, j: -1} {
		if i == j {
			sign = 0
		}
		fs, xs := s.Entries(s.Fit, b, r)
		for k, f := range fs {
			if _, ok := by[f]; !ok {
				order = append(order, f)
			}
			by[f] += sign * xs[k]
		}
	}
	slices.Sort(order)
	var d kernels.Batch
	d.Reset()
	for _, f := range order {
		if x := by[f]; x != 0 {
			d.Add(f, x)
		}
	}
	d.EndRow()
	d.Offset = []float64{b.Shift(i) - b.Shift(j)}
	return &d
}

// pair is the joint Gaussian of two predictors s_a and s_b: their moments, those of s_a - s_b,
// which cannot be computed from the others without cancellation, and cov(s_a, s_b).
type pair struct {
	l              lik.Likelihood
	ma, va, mb, vb float64
	m, v, cov      float64
}

// responses is the posterior of g⁻¹(s_a) - g⁻¹(s_b), the predictors being Gaussian with these
// moments and their difference N(m, v).
func responses(l lik.Likelihood, m, v, ma, va, mb, vb, level float64) Estimate {
	if va == 0 && vb == 0 {
		d := l.Response(ma) - l.Response(mb)
		return Estimate{d, 0, d, d}
	}
	if vb < va { // condition on the wider one; the difference changes sign
		e := responses(l, -m, v, mb, vb, ma, va, level)
		return Estimate{-e.Mean, e.SD, -e.Upper, -e.Lower}
	}
	p := pair{l, ma, va, mb, vb, m, v, 0.5 * (va + vb - v)}
	var e Estimate
	if l.Traits().LogMean {
		e.Mean, e.SD = p.exponentials()
	} else {
		e.Mean, e.SD = p.moments()
	}
	z := special.PhiInv(0.5 + 0.5*level)
	e.Lower, e.Upper = p.quantile(-z), p.quantile(z)
	return e
}

// exponentials are the mean and standard deviation of exp(s_a) - exp(s_b), clamped as moments are.
//
// With d = s_a - s_b the difference is exp(s_b) (exp(d) - 1), and a factor exp(k s_b) moves the
// mean of d by k cov(d, s_b): no large numbers cancel if d is small.
func (p *pair) exponentials() (mean, sd float64) {
	share := p.cov - p.vb // cov(d, s_b)
	mean = math.Exp(p.mb+0.5*p.vb) * math.Expm1(p.m+share+0.5*p.v)
	if max(p.va, p.vb) > mostSpread || !special.Finite(mean) {
		mean = finite(Expected(p.l, Exact, p.ma, p.va)) - finite(Expected(p.l, Exact, p.mb, p.vb))
	}
	m := p.m + 2*share
	rise := math.Expm1(m + 0.5*p.v)
	second := rise*rise + math.Exp(2*m+p.v)*math.Expm1(p.v)
	sd = math.Exp(p.mb+p.vb) * math.Sqrt(second)
	if r := mean / sd; math.Abs(r) < 1 {
		sd *= math.Sqrt(1 - r*r)
	} else if sd < math.Inf(1) {
		sd = 0
	}
	if sd != sd {
		sd = math.MaxFloat64
	}
	return mean, finite(sd)
}

// finite clamps x to the finite numbers.
func finite(x float64) float64 { return min(max(x, -math.MaxFloat64), math.MaxFloat64) }

// moments are the mean and standard deviation of the difference, summed over a lattice: of s_b, and
// of s_a given s_b. The trapezoid rule for a Gaussian converges faster than any power once its step
// resolves the inverse link.
func (p *pair) moments() (mean, sd float64) {
	gain := p.cov / p.vb
	sb, sr := math.Sqrt(p.vb), math.Sqrt(max(p.va-gain*p.cov, 0))
	var outer, inner lattice
	outer.over(sb)
	inner.over(sr)
	second := 0.0
	for j, u := range outer.z[:outer.n] {
		rb, ma := p.l.Response(p.mb+sb*u), p.ma+gain*sb*u
		a, aa := 0.0, 0.0
		for k, z := range inner.z[:inner.n] {
			d := p.l.Response(ma+sr*z) - rb
			a += inner.w[k] * d
			aa += inner.w[k] * d * d
		}
		mean += outer.w[j] * a
		second += outer.w[j] * aa
	}
	return mean, math.Sqrt(max(second-mean*mean, 0))
}

// mostNodes limits the nodes of a lattice.
const mostNodes = 1024

// lattice is the trapezoid rule for N(0, 1).
type lattice struct {
	z, w [mostNodes]float64
	n    int
}

// over chooses enough nodes to resolve an inverse link of width 1 under a Gaussian with standard
// deviation sd: steps of 0.6 of the narrower of the two, with errors below 1e-9.
func (l *lattice) over(sd float64) {
	const reach = 7.0 // standard deviations; the rest has weight 3e-12
	l.n = int(min(max(24, 24*sd), mostNodes))
	if sd == 0 {
		l.n = 1
	}
	total := 0.0
	for k := range l.n {
		l.z[k] = reach * (2*(float64(k)+0.5)/float64(l.n) - 1)
		l.w[k] = math.Exp(-0.5 * l.z[k] * l.z[k])
		total += l.w[k]
	}
	for k := range l.n {
		l.w[k] /= total
	}
}

// quantile is the t below which the difference of the responses lies with probability Φ(z).
//
// It is sought along the line on which the two predictors diverge as expected, given x standard
// deviations of their difference. There Φ⁻¹(P(below t)) is about x, and exactly x if one predictor
// is known: a few secant steps suffice.
func (p *pair) quantile(z float64) float64 {
	sd := math.Sqrt(p.v)
	if sd == 0 {
		sd = math.Sqrt(p.va + p.vb)
	}
	// both positive: all differences are on the line, also where one response saturates
	ca, cb := max((p.va-p.cov)/sd, 0.4*math.Sqrt(p.va)), max((p.vb-p.cov)/sd, 0.4*math.Sqrt(p.vb))
	difference := func(x float64) float64 {
		return finite(p.l.Response(p.ma+x*ca)) - finite(p.l.Response(p.mb-x*cb))
	}
	over := func(x float64) float64 {
		f := p.below(difference(x))
		return special.PhiInv(min(max(f, 1e-300), 1-0x1p-53)) - z
	}
	x := steepRoot(over, z)
	return finite(difference(x))
}

// steepRoot is the root of an increasing f with a slope of about 1, starting at x, to about 1e-6,
// by secants kept between the last points on either side, and bisection if they are slow.
func steepRoot(f func(float64) float64, x float64) float64 {
	const tol = 1e-6
	lo, hi := math.Inf(-1), math.Inf(1)
	fx := f(x)
	last, slope := 0.0, 1.0
	for step := range 100 {
		switch {
		case fx > 0:
			hi = x
		case fx < 0:
			lo = x
		default:
			return x
		}
		next := x - fx/slope
		if bounded := hi-lo < math.Inf(1); bounded && (!(next > lo && next < hi) || step > 8 && step%2 == 0) {
			next = 0.5 * (lo + hi)
		} else if !bounded { // overshoot the root rather than fall short of it
			next = x + math.Copysign(min(1.1*math.Abs(fx/slope)+tol, 4), -fx)
		}
		if math.Abs(next-x) <= tol || hi-lo <= tol {
			return next
		}
		last, x = x, next
		before := fx
		fx = f(x)
		if s := (fx - before) / (x - last); s > 0.05 && s < 20 {
			slope = s
		}
	}
	return x
}

// below is P(g⁻¹(s_a) - g⁻¹(s_b) < t): the probability, given s_b, that s_a is below the predictor
// whose response is g⁻¹(s_b) + t, summed over cells of s_b, each split until it resolves the change.
func (p *pair) below(t float64) float64 {
	const reach = 7.0
	gain, sb := p.cov/p.vb, math.Sqrt(p.vb)
	c := curve{p: p, t: t, inverse: p.l.Traits().Predictor, slopes: p.l.Traits().Slopes, gain: gain, sb: sb, sr: math.Sqrt(max(p.va-gain*p.cov, 0))}
	// A cell is half a standard deviation, or some two units of the predictor.
	cells := int(min(32+4*sb, mostCells/2))
	f := 0.0
	lo := c.at(-reach)
	for k := range cells {
		hi := c.at(reach * (2*float64(k+1)/float64(cells) - 1))
		f += c.cell(lo, hi, 40)
		lo = hi
	}
	return f
}

// curve is where the difference of the responses equals t: for z standard deviations of s_b, the
// number x of standard deviations of s_a given s_b by which s_a is above its mean.
type curve struct {
	p            *pair
	t            float64
	inverse      func(g float64) float64
	slopes       func(s float64) (d1, d2, d3 float64)
	gain, sb, sr float64
	cells        int // visited
}

// mostCells limits the cells of one sum: predictors may be so large that x is noise.
const mostCells = 1024

// onCurve is a point of a curve.
type onCurve struct{ z, x float64 }

func (c *curve) at(z float64) onCurve {
	x := c.inverse(c.p.l.Response(c.p.mb+c.sb*z)+c.t) - c.p.ma - c.gain*c.sb*z
	if c.sr > 0 || x == 0 {
		x /= c.sr + math.SmallestNonzeroFloat64
	} else {
		x = math.Copysign(math.Inf(1), x)
	}
	return onCurve{z, x}
}

// cell is ∫ φ(z) Φ(x(z)) dz over a cell, which it halves, at most depth times, if x changes by more
// than Gauss's rule can follow.
func (c *curve) cell(lo, hi onCurve, depth int) float64 {
	const sure = 7
	w := special.Phi(hi.z) - special.Phi(lo.z)
	if c.cells++; w < 1e-9 || depth == 0 || c.cells > mostCells {
		if x := 0.5 * (special.Phi(lo.x) + special.Phi(hi.x)); x == x {
			return w * x
		}
		return 0.5 * w // responses that are equal in double precision
	}
	if side := math.Copysign(1, lo.x); side*lo.x > sure && side*hi.x > sure {
		if turn, ok := c.extremum(lo, hi, side, sure); ok {
			return c.cell(lo, turn, depth-1) + c.cell(turn, hi, depth-1)
		}
		return w * (0.5 + 0.5*side)
	}
	half, sum := 0.5*(hi.z-lo.z), 0.0
	plain := math.Abs(clamped(lo.x)-clamped(hi.x)) < 1.5
	for k := 0; k < len(gauss4.z) && plain; k++ {
		u := 0.5 - 0.5*gauss4.z[k]
		p, q := c.at(lo.z+2*half*u), c.at(hi.z-2*half*u)
		// x must be nearly straight: it may turn within the cell
		plain = math.Abs(clamped(p.x)-(1-u)*clamped(lo.x)-u*clamped(hi.x)) < 0.5 && math.Abs(clamped(q.x)-(1-u)*clamped(hi.x)-u*clamped(lo.x)) < 0.5
		for _, at := range [2]onCurve{p, q} {
			sum += gauss4.w[k] * math.Exp(-0.5*at.z*at.z) * special.Phi(at.x)
		}
	}
	if plain {
		return sum * half / math.Sqrt(2*math.Pi)
	}
	mid := c.at(lo.z + half)
	return c.cell(lo, mid, depth-1) + c.cell(mid, hi, depth-1)
}

// clamped is x within the range that matters.
func clamped(x float64) float64 { return min(max(x, -8), 8) }

// extremum is a point between lo and hi, both clearly on one side of 0, where x is closer to 0: x
// falls at one end and rises at the other, and its extremum is sought by bisection.
func (c *curve) extremum(lo, hi onCurve, side, sure float64) (onCurve, bool) {
	if !(side*c.slope(lo) < 0 && side*c.slope(hi) > 0) {
		return onCurve{}, false
	}
	for range 30 {
		mid := c.at(0.5 * (lo.z + hi.z))
		if side*mid.x < sure {
			return mid, true
		}
		if side*c.slope(mid) < 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return onCurve{}, false
}

// slope has the sign of dx/dz at a point.
func (c *curve) slope(at onCurve) float64 {
	above, _, _ := c.slopes(c.p.ma + c.gain*c.sb*at.z + c.sr*at.x)
	below, _, _ := c.slopes(c.p.mb + c.sb*at.z)
	return below - c.gain*above
}

// gauss4 is the positive half of Gauss's rule with four nodes on (-1, 1).
var gauss4 = struct{ z, w [2]float64 }{
	[2]float64{0.33998104358485626, 0.86113631159405258},
	[2]float64{0.65214515486254614, 0.34785484513745386},
}

// Difference returns the mean and variance of the predictor of row i of b minus that of row j: both
// are 0 if the rows are equal.
//
// Cost: that of Linear for the features in which they differ. Errors: those of Linear.
func (s *Scorer) Difference(b *kernels.Batch, i, j int) (m, v float64, err error) {
	return s.Linear(s.difference(b, i, j), 0)
}

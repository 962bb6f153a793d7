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
	Positive float64 // P(s_a > s_b), which is that of the responses too
	Response Estimate
}

// Contrast is row i of b less row j. What the two rows share takes no part in the
// difference of the predictors: a row less itself is exactly 0.
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
	return ContrastOf(s.Lik, ms, vs, level)
}

// ContrastOf is the contrast of two predictors: means and variances of the first, of the
// second, and of the first less the second.
//
// The response's difference is integrated over the joint Gaussian of the two predictors,
// to about 1e-8 of its deviation, its interval to about 1e-4. Cost: some 10^5 evaluations
// of the inverse link, a millisecond or two; none for the identity.
// Errors: a level outside (0, 1).
func ContrastOf(l lik.Likelihood, mean, variance [3]float64, level float64) (c Contrast, err error) {
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
		c.Response = responses(l, m, v, mean[0], variance[0], mean[1], variance[1], level)
	}
	return c, nil
}

// difference is the row i of b less row j, without entries that are 0.
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

// responses is the posterior of g⁻¹(s_a) - g⁻¹(s_b), the predictors Gaussian with these
// moments and a difference N(m, v).
//
// With s_b = N(m_b, v_b) and s_a given s_b Gaussian, moments and distribution function are
// sums over a fine grid of s_b; the trapezoid rule on a Gaussian converges faster than
// any power, once its step resolves the inverse link.
func responses(l lik.Likelihood, m, v, ma, va, mb, vb, level float64) Estimate {
	if va == 0 && vb == 0 {
		d := l.Response(ma) - l.Response(mb)
		return Estimate{d, 0, d, d}
	}
	if vb < va { // condition on the wider one; the difference changes its sign
		e := responses(l, -m, v, mb, vb, ma, va, level)
		return Estimate{-e.Mean, e.SD, -e.Upper, -e.Lower}
	}
	sb := math.Sqrt(vb)
	// cov(s_a, s_b) without more rounding than v has
	cov := 0.5 * (va + vb - v)
	gain := cov / vb
	rest := max(va-gain*cov, 0)
	sr := math.Sqrt(rest)
	c := conditional{l: l, ma: ma, gain: gain, mb: mb, sb: sb, sr: sr}
	e := c.moments()
	below := c.distribution()
	e.Lower = quantile(below, e, 0.5-0.5*level)
	e.Upper = quantile(below, e, 0.5+0.5*level)
	return e
}

// conditional is s_b ~ N(mb, sb²), and s_a given it: N(ma + gain (s_b - mb), sr²).
type conditional struct {
	l                    lik.Likelihood
	ma, gain, mb, sb, sr float64
}

// node is a point of s_b: its weight, its response and the mean of s_a there.
type node struct{ w, rb, ma float64 }

func (c *conditional) nodes(n int) (nodes []node) {
	total := 0.0
	for k := range n {
		z := reach * (2*(float64(k)+0.5)/float64(n) - 1)
		w := math.Exp(-0.5 * z * z)
		nodes = append(nodes, node{w, c.l.Response(c.mb + c.sb*z), c.ma + c.gain*c.sb*z})
		total += w
	}
	for k := range nodes {
		nodes[k].w /= total
	}
	return nodes
}

// moments has the mean and deviation of the difference, without its quantiles.
func (c *conditional) moments() (e Estimate) {
	inner := grid(c.sr)
	if c.sr == 0 {
		inner = 1
	}
	zs, ws, sum := make([]float64, inner), make([]float64, inner), 0.0
	for k := range zs {
		zs[k] = reach * (2*(float64(k)+0.5)/float64(inner) - 1)
		ws[k] = math.Exp(-0.5 * zs[k] * zs[k])
		sum += ws[k]
	}
	second := 0.0
	for _, p := range c.nodes(grid(c.sb)) {
		a, aa := 0.0, 0.0
		for k, z := range zs {
			d := c.l.Response(p.ma+c.sr*z) - p.rb
			a += ws[k] * d
			aa += ws[k] * d * d
		}
		e.Mean += p.w * a / sum
		second += p.w * aa / sum
	}
	e.SD = math.Sqrt(max(second-e.Mean*e.Mean, 0))
	return e
}

// distribution is the distribution function of the difference.
func (c *conditional) distribution() func(t float64) float64 {
	n := max(512, grid(c.sb)) // it has narrow steps where g⁻¹ ends
	if c.sr < 0.2*c.sb {
		n = 2048
	}
	nodes, gap := c.nodes(n), make([]float64, n)
	inverse := c.l.Traits().Predictor
	return func(t float64) float64 {
		for k, p := range nodes {
			gap[k] = inverse(p.rb+t) - p.ma
		}
		f := 0.0
		for k, p := range nodes {
			// Where s_b nearly determines s_a this is a step, smoothed over its cell.
			width := 0.25 * math.Abs(gap[min(k+1, n-1)]-gap[max(k-1, 0)])
			if !(width > c.sr) || math.IsInf(width, 1) {
				width = c.sr
			}
			switch {
			case width > 0:
				f += p.w * special.Phi(gap[k]/width)
			case gap[k] >= 0:
				f += p.w
			}
		}
		return f
	}
}

const reach = 8.5 // standard deviations; what lies beyond weighs 1e-16

// grid is how many nodes over ±reach resolve an inverse link of width 1 under a Gaussian
// of deviation sd.
func grid(sd float64) int { return int(min(max(64, 24*sd), 1024)) }

// quantile is where the distribution function f reaches p.
func quantile(f func(float64) float64, e Estimate, p float64) float64 {
	lo, hi := e.Mean-max(4*e.SD, 1e-300), e.Mean+max(4*e.SD, 1e-300)
	for k := 0; f(lo) > p && k < 60; k++ {
		lo -= (hi - lo)
	}
	for k := 0; f(hi) < p && k < 60; k++ {
		hi += (hi - lo)
	}
	for range 60 {
		mid := 0.5 * (lo + hi)
		if mid <= lo || mid >= hi {
			break
		}
		if f(mid) < p {
			lo = mid
		} else {
			hi = mid
		}
		if hi-lo <= 1e-6*e.SD {
			break
		}
	}
	return 0.5 * (lo + hi)
}

// Difference is mean and variance of the predictor of row i of b less that of row j: both are 0
// where the rows are the same.
//
// Cost: that of Linear for the features in which they differ. Errors: those of Linear.
func (s *Scorer) Difference(b *kernels.Batch, i, j int) (m, v float64, err error) {
	return s.Linear(s.difference(b, i, j), 0)
}

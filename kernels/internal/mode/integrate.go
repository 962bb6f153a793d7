package mode

import (
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// Hyper is the prior of a standard deviation √(e^θ): half-t with DF degrees of freedom and the
// given scale. DF 1 is the half-Cauchy; an infinite scale is flat.
type Hyper struct{ DF, Scale float64 }

// Log returns the log density of θ, up to a constant, and its slope.
func (h Hyper) Log(theta float64) (f, slope float64) {
	f, slope = 0.5*theta, 0.5
	if math.IsInf(h.Scale, 1) {
		return f, slope
	}
	r := math.Exp(theta) / (h.DF * h.Scale * h.Scale)
	return f - 0.5*(h.DF+1)*math.Log1p(r), slope - 0.5*(h.DF+1)*r/(1+r)
}

// A Prior returns the log density of all parameters, up to a constant, and adds its slope to slope.
type Prior func(theta, slope []float64) float64

// posterior is an evidence with a prior on some parameters; the others are fixed.
type posterior struct {
	Evidence
	of    []int // parameters integrated
	prior Prior
	theta []float64 // all parameters, at the last evaluation
}

func (p *posterior) at(x []float64) []float64 {
	theta := slices.Clone(p.theta)
	for k, j := range p.of {
		theta[j] = x[k]
	}
	return theta
}

func (p *posterior) Try(x []float64) (float64, bool, error) {
	p.theta = p.at(x)
	log, ok, err := p.Evidence.Try(p.theta)
	return log + p.prior(p.theta, make([]float64, len(p.theta))), ok, err
}

// Tolerance is a tenth of the evidence's: if a parameter's posterior is little more than its prior,
// the scale is many times the curvature.
func (p *posterior) Tolerance() float64 { return 0.1 * tolerance(p.Evidence) }

// Same is that of the evidence.
func (p *posterior) Same() float64 { return sameOf(p.Evidence) }

func (p *posterior) Slope() (slope, scale []float64, err error) {
	all, sc, err := p.Evidence.Slope()
	if err != nil {
		return nil, nil, err
	}
	p.prior(p.theta, all)
	for _, j := range p.of {
		slope, scale = append(slope, all[j]), append(scale, sc[j]+0.25)
	}
	return slope, scale, nil
}

const (
	// LeastPoints is the least number of points for which a sum over parameters is worthwhile.
	LeastPoints = 200
	// far is the cost of a draw of Scatter in points of a lattice.
	far = 3
)

// Points is how many lattice points and draws of Scatter a sum may have, 0 for none.
type Points struct{ Lattice, Draws int }

// PointsOf returns the points for k parameters if so many are affordable: few rows, which hardly
// determine the parameters, need thousands. There is no lattice if one, of about lattice points, is
// not affordable.
func PointsOf(k int, lattice, affordable float64) Points {
	most := 4000.0
	if k > 3 {
		most = Scattered
	}
	if lattice > affordable || k > latticed {
		return Points{0, int(min(affordable/far, Scattered))} // they have no neighbour to start from
	}
	n := int(min(max(250, affordable), most))
	return Points{n, n / far}
}

// Peak is the posterior of some parameters near its mode.
type Peak struct {
	p      *posterior
	x      []float64
	log    float64
	axes   *dense.Matrix // principal axes of the curvature there, each one standard deviation long
	lo, hi []float64
	late   func() bool
}

// NewPeak climbs to the mode of the posterior of the parameters of, under their prior, from theta;
// other parameters stay there. It returns nil if the mode is not found.
func NewPeak(e Evidence, of []int, prior Prior, theta, lo, hi []float64, late func() bool) (*Peak, error) {
	k := len(of)
	p := &posterior{Evidence: e, of: of, prior: prior, theta: slices.Clone(theta)}
	q := &Peak{p: p, x: make([]float64, k), lo: make([]float64, k), hi: make([]float64, k), late: late}
	for i, j := range of {
		q.x[i], q.lo[i], q.hi[i] = min(max(theta[j], lo[j]), hi[j]), lo[j], hi[j]
	}
	top, err := (&Search{Lo: q.lo, Hi: q.hi, Late: late}).climb(p, q.x)
	if err != nil || !top.ok || top.status != "" {
		return nil, err
	}
	q.x, q.log = top.to, top.log
	var curved *dense.Matrix
	if c, ok := e.(Curved); ok { // before Slope, which may move e away from the mode
		if curved, err = c.Curvature(); err != nil {
			return nil, err
		}
	}
	at, _, err := p.Slope()
	if err == nil {
		q.axes, err = p.axes(q.x, at, curved)
	}
	return q, err
}

// Curved is an Evidence that can compute minus its own second derivatives at the θ tried last, well
// enough for standard deviations. Rows and columns of parameters without them are NaN; nil means
// none.
type Curved interface {
	Evidence
	Curvature() (*dense.Matrix, error)
}

// Mode returns the mode, for all parameters of the evidence.
func (q *Peak) Mode() []float64 { return q.p.at(q.x) }

// Expect returns mean and standard deviation of functions f of the parameters, to second order
// about the mode, from points one standard deviation away along the axes.
func (q *Peak) Expect(f func(theta []float64) []float64) (mean, sd []float64) {
	mean = f(q.p.at(q.x))
	at := slices.Clone(mean)
	sd = memory.Floats(len(mean))
	for a := range q.x {
		var ends [2][]float64
		for k, sign := range []float64{1, -1} {
			y := slices.Clone(q.x)
			dense.Axpy(sign, q.axes.Row(a), y)
			for i := range y {
				y[i] = min(max(y[i], q.lo[i]), q.hi[i])
			}
			ends[k] = f(q.p.at(y))
		}
		for i, v := range at {
			up, down := ends[0][i], ends[1][i]
			mean[i] += 0.5 * (up + down - 2*v)
			sd[i] = math.Hypot(sd[i], 0.5*(up-down))
		}
	}
	return mean, sd
}

// Moments returns mean and standard deviation of √(e^θ) of each parameter for Gaussian θ, whose
// variance is limited to widest. Beyond that θ is flat to one side of its mode and steep to the
// other, where the prior of standard deviations ends it, and its Gaussian is far too wide there.
func (q *Peak) Moments() (mean, sd []float64) {
	for k, x := range q.x {
		v := min(q.variance(k), widest)
		m := math.Exp(0.5*x + 0.125*v)
		mean, sd = append(mean, m), append(sd, m*math.Sqrt(math.Expm1(0.25*v)))
	}
	return mean, sd
}

// widest is the variance of θ under a prior of standard deviations with three degrees of freedom:
// (ψ'(1/2) + ψ'(3/2)) of log √(e^θ)², rounded.
const widest = 6

// variance returns that of parameter k in the Gaussian about the mode.
func (q *Peak) variance(k int) (v float64) {
	for a := range q.x {
		v += q.axes.Row(a)[k] * q.axes.Row(a)[k]
	}
	return v
}

const (
	// gaussianTo is the largest variance of θ for which its Gaussian is good enough: √(e^θ) is then
	// known to about half its size.
	gaussianTo = 1
	// The spacing of a section's points, and the fall in nats below the mode at which it ends. The
	// density is analytic within π of the real line: the sum is within e^(-2π²/2) of the integral.
	sectionStep, sectionFall = 2, 8
)

// Wide returns the parameters, of the first n, that are not Gaussian although Moments assumes it.
func (q *Peak) Wide(n int) (out []int) {
	for k := range q.x[:n] {
		if q.variance(k) > gaussianTo {
			out = append(out, k)
		}
	}
	return out
}

// Section returns mean and standard deviation of √(e^θ) of parameter k, with the others at the
// mode, by a sum over its posterior. ok is false if time is up, or a point has no evidence.
func (q *Peak) Section(k int) (mean, sd float64, ok bool, err error) {
	total, sum, square := 0.0, 0.0, 0.0
	for _, sign := range []float64{1, -1} {
		for n := 0; ; n++ {
			if sign < 0 && n == 0 {
				continue
			}
			y := slices.Clone(q.x)
			if y[k] += sign * sectionStep * float64(n); y[k] < q.lo[k] || y[k] > q.hi[k] {
				break
			}
			if q.late() {
				return 0, 0, false, nil
			}
			log, ok, err := q.p.Try(y)
			if err != nil || !ok || !special.Finite(log) {
				return 0, 0, false, err
			}
			q.p.Keep()
			w, s := math.Exp(log-q.log), math.Exp(0.5*y[k])
			total, sum, square = total+w, sum+w*s, square+w*s*s
			if log < q.log-sectionFall {
				break
			}
		}
	}
	mean = sum / total
	return mean, math.Sqrt(max(square/total-mean*mean, 0)), true, nil
}

// overPeak is how many nats a point may be above the peak that was found: beyond that, an
// approximation of the evidence does not hold there.
const overPeak = 30

// Grid visits the points of a lattice along the axes, from the mode outwards as far as the density
// is relevant. It calls use with the evidence at the point and the log density there. All points
// represent the same volume. It returns false if there are too many, time is up, or a point has no
// evidence.
//
// Source: [rue2009], section 3.1.
func (q *Peak) Grid(limit int, use func(theta []float64, log float64) error) (bool, error) {
	k := len(q.x)
	// The spacing of the points, in standard deviations near the mode, and the fall in nats below it
	// at which the grid ends: standard deviations of sums are within 1 % of the integrals'.
	step, fall := 1.0, 9.0
	if k > 1 {
		step, fall = 1.5, 8
	}
	if k > 3 {
		step, fall = 1.5, 7.5
	}
	// No parameter's spacing exceeds farthest: densities are analytic within π of the real line, so
	// sums over such points are within e^(-2π²/2.5) of the integrals, however flat the mode is.
	const farthest = 2.5
	steps := make([]float64, k)
	for a := range steps {
		steps[a] = step
		for _, x := range q.axes.Row(a) {
			steps[a] = min(steps[a], farthest/math.Abs(x))
		}
	}
	const weighed = 4 // the fall for densities times the variance of weights there
	// Depth first: the next point is a neighbour of one that was kept, whose fit is its start.
	stack := [][]int{make([]int, k)}
	seen := map[string]bool{fmt.Sprint(stack[0]): true}
	for n := 0; len(stack) > 0; n++ {
		if n == limit || q.late() {
			return false, nil
		}
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		y, out := slices.Clone(q.x), false
		for a, v := range at {
			dense.Axpy(steps[a]*float64(v), q.axes.Row(a), y)
		}
		for i := range y {
			out = out || y[i] < q.lo[i] || y[i] > q.hi[i]
		}
		if out {
			continue
		}
		log, ok, err := q.p.Try(y)
		if err != nil || !ok || !special.Finite(log) || log > q.log+overPeak {
			return false, nil // an error of the parameters there, not of the fit
		}
		rise := 0.0 // of a log variance: the variance of its weights grows in proportion
		for i, x := range q.x {
			rise = max(rise, y[i]-x)
		}
		if n > 0 && log < q.log-fall && log+rise < q.log-weighed {
			continue
		}
		q.p.Keep()
		if err := use(q.p.theta, log); err != nil {
			return false, err
		}
		for a := range k {
			for _, d := range []int{-1, 1} {
				next := slices.Clone(at)
				next[a] += d
				if s := fmt.Sprint(next); !seen[s] {
					seen[s] = true
					stack = append(stack, next)
				}
			}
		}
	}
	return true, nil
}

// axes returns the principal axes of the posterior's curvature at x, where its slope is at, each one
// standard deviation long, by differences of slopes for the parameters that curved does not have.
func (p *posterior) axes(x, at []float64, curved *dense.Matrix) (*dense.Matrix, error) {
	known := func(a int) bool { return curved != nil && !math.IsNaN(curved.At(p.of[a], p.of[a])) }
	d := 0.1
	k := len(x)
	c := dense.New(k, k)
	// If the evidence is slow: one-sided, so close that the third derivative hardly matters.
	var here []float64
	if tolerance(p.Evidence) > 0 {
		d, here = 0.02, at
	}
	slopes := func(y []float64) ([]float64, error) {
		if _, _, err := p.Try(y); err != nil {
			return nil, err
		}
		s, _, err := p.Slope()
		return s, err
	}
	for a := range k {
		y := slices.Clone(x)
		y[a] += d
		if known(a) {
			up, down := make([]float64, len(p.theta)), make([]float64, len(p.theta))
			p.prior(p.at(y), up)
			y[a] -= 2 * d
			p.prior(p.at(y), down)
			for b, j := range p.of {
				c.Row(a)[b] = curved.At(p.of[a], j) - (up[j]-down[j])/(2*d)
			}
			continue
		}
		up, err := slopes(y)
		if err != nil {
			return nil, err
		}
		down, wide := here, d
		if down == nil {
			y[a] -= 2 * d
			wide *= 2
			if down, err = slopes(y); err != nil {
				return nil, err
			}
		}
		for b := range k {
			c.Row(a)[b] = -(up[b] - down[b]) / wide
		}
	}
	for a := range k {
		for b := range a {
			v := 0.5 * (c.Row(a)[b] + c.Row(b)[a])
			if known(a) != known(b) { // only the differences have the pair
				v = c.Row(a)[b]
				if known(a) {
					v = c.Row(b)[a]
				}
			}
			c.Row(a)[b], c.Row(b)[a] = v, v
		}
	}
	e, v, err := dense.Eigen(c)
	if err != nil {
		return nil, err
	}
	axes := dense.New(k, k)
	for a, l := range e {
		// an almost flat direction: the prior ends it somewhere
		l = max(l, 0.05)
		for b := range k {
			axes.Row(a)[b] = v.At(b, a) / math.Sqrt(l)
		}
	}
	return axes, nil
}

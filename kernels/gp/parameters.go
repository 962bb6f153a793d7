package gp

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// The parameters of the search by evidence, and the scale of each.
const (
	logLengthscale = iota
	logSignal
	meanInUnits
	logDispersion
	logShape
	nParameters
)

type vector [nParameters]float64

const (
	// For up to fewRows rows the evidence has more maxima, and fits are cheap: more starts are
	// tried, and more of them followed.
	fewRows               = 100
	follow, followFewRows = 2, 5
	// apart is how far a start must be from both ends of earlier climbs, in log parameters and
	// units of the mean, to be followed as well.
	apart = 1
	// flat is how many nats below its maximum the evidence may end.
	flat = 5e-9
	// ends is the gain left in nats below which a parameter is moved to the end of its range, if
	// that is no lower.
	ends = 3e-3
)

// byEvidence maximises the log evidence over the auto parameters in log lengthscale, log signal
// variance and mean, within bounds, and leaves s at the best fit. It tries a grid of starts, and
// follows the best. If the posterior has several modes, a start uses the best one, and a climb
// keeps to its mode and finally tries the others.
func (s *search) byEvidence(o Options) error {
	n := len(s.Y)
	c := newClimber(s, o)
	c.work = workspace{dense.NewUnder(s.b.Stop, n, n), dense.NewUnder(s.b.Stop, n, n)}
	_, c.bumpy = s.Lik.(lik.Bumpy)
	us := c.starts()
	up := mode.Search{Lo: c.lo[:], Hi: c.hi[:], Late: s.late, Grid: true, Climbs: follow, Apart: apart, Steps: c.maxUp,
		Ends: slices.Repeat([]float64{ends}, nParameters)}
	up.Ends[meanInUnits] = 0 // far out it is certain anyway if all responses are equal
	if n <= fewRows {
		up.Climbs = followFewRows
	}
	var starts [][]float64
	for k := range us {
		c.alphas[us[k]] = nil
		starts = append(starts, us[k][:])
	}
	best, why, err := up.From(c, starts)
	if err != nil {
		return err
	}
	if err := s.highest(); err != nil {
		return err
	}
	if s.outer = why; why == "" {
		s.edge = c.edge(vector(best))
	}
	return nil
}

// climber is the evidence of a search as a function of its free parameters.
type climber struct {
	*search
	work   workspace
	fixed  parameters
	free   [nParameters]bool
	lo, hi vector
	unit   float64 // of the mean
	maxUp  int
	bumpy  bool
	alphas map[vector][]float64 // of each start, nil before it is tried, and of each point kept
	kept   []float64            // alpha at the present point of the climb
	stands vector               // the point of the last Try
}

func newClimber(s *search, o Options) *climber {
	c := &climber{search: s, fixed: o.parameters(s.Lik), maxUp: o.MaxIter, alphas: map[vector][]float64{}}
	c.free = [nParameters]bool{o.AutoLengthscale, o.AutoSignalVariance, o.AutoMean, o.AutoDispersion, o.AutoShape}
	if s.at == nil && o.AutoSignalVariance {
		c.free[logLengthscale] = false
	}
	return c
}

// spread returns the smallest non-zero distance between rows, a typical one, and the largest; zeros
// if all rows are equal.
func (g *geometry) spread() (least, middle, most float64) {
	n := g.between.Rows
	var some []float64
	stride := 1 + n/400 // the median of 80,000 pairs is good enough
	for i := range n {
		for j, d := range g.between.Row(i)[:i] {
			if !(d > 0) {
				continue
			}
			if least == 0 || d < least {
				least = d
			}
			most = max(most, d)
			if i%stride == 0 && j%stride == 0 {
				some = append(some, d)
			}
		}
	}
	if len(some) == 0 {
		return least, most, most
	}
	slices.Sort(some)
	return least, some[len(some)/2], most
}

// neighbour returns the log of half the median, over the rows, of the distance to the nearest row at
// another place.
func (g *geometry) neighbour() float64 {
	var nearest []float64
	for i := range g.between.Rows {
		least := math.Inf(1)
		for _, d := range g.between.Row(i) {
			if d > 0 {
				least = min(least, d)
			}
		}
		nearest = append(nearest, least)
	}
	slices.Sort(nearest)
	return math.Log(0.5 * nearest[len(nearest)/2])
}

// extent is the square of how far numbers lie from their median: narrow by the outer sixths, which
// a few outliers do not move, and wide by all of them, which is no less.
type extent struct{ narrow, wide float64 }

// extentOf sorts values. If nearly all numbers are equal their extent is that of the others, if all
// are equal that of their size.
func extentOf(values []float64) extent {
	slices.Sort(values)
	n := len(values)
	middle, square := values[n/2], 0.0
	for _, v := range values {
		square += (v - middle) * (v - middle) / float64(n)
	}
	if !special.Finite(square) {
		square = 0
	}
	half := 0.5 * (values[(5*n)/6] - values[n/6])
	e := extent{1, 1}
	for _, v := range []float64{middle * middle, square, half * half} {
		if v > 0 && special.Finite(v) {
			e = extent{v, max(v, square)}
		}
	}
	return e
}

// constant returns the best constant predictor without the offset, the expected variance of f about
// it (that of y if the link is the identity, otherwise 1), and the extent of y if the likelihood
// has a dispersion.
func (s *search) constant() (centre float64, variance, spread extent) {
	n := len(s.Y)
	one := extent{1, 1}
	if s.Lik.Traits().Located {
		shifted := memory.Floats(n)
		for i, y := range s.Y {
			shifted[i] = y - s.shift(i)
		}
		variance = extentOf(shifted)
		return shifted[n/2], variance, variance
	}
	// Newton's method under N(0, 100), which keeps a constant response in bounds
	at := func(c float64) (p, d1, d2 float64) {
		p, d1, d2 = -c*c/200, -c/100, -0.01
		for i := range s.Y {
			lp, l1, l2 := s.Lik.LogLik(s.Obs(i), c+s.shift(i))
			p, d1, d2 = p+lp, d1+l1, d2+min(l2, 0)
		}
		return p, d1, d2
	}
	p, d1, d2 := at(0)
	for range 50 {
		step := max(-3, min(3, -d1/d2))
		next, n1, n2 := at(centre + step)
		for halvings := 0; !(next >= p) && halvings < 30; halvings++ {
			step *= 0.5
			next, n1, n2 = at(centre + step)
		}
		if !(next > p) {
			break
		}
		centre, p, d1, d2 = centre+step, next, n1, n2
	}
	if _, dispersed := s.Lik.(lik.Dispersed); dispersed {
		return centre, one, extentOf(slices.Clone(s.Y))
	}
	return centre, one, one
}

const (
	signalRange = 14 // for a log variance: a factor of 1e6 either way
	// With a link f has units. If its standard deviation exceeds these, nearly independent rows
	// have a Laplace evidence above that of any such model, and it rises with the variance.
	mostUnits = 10
	meanRange = 20 // standard deviations of f
	// farthest is how far from a given mean responses may lie, squared, in units of their extent:
	// beyond that, rounding hides their variation.
	farthest   = 1e9
	leastShape = 0.05
	mostShape  = 1e4 // negbinomial is Poisson, studentt gaussian
)

// typicalParameters is where the data suggest the parameters: the log of the typical distance and
// of the variance of f, how much larger that may be, and the log of the extent of y.
type typicalParameters struct{ length, signal, more, spread float64 }

// bounds sets the bounds of the parameters, and returns the given parameters.
//
// The signal variance moves within a factor of 1e6 of constant's, whose wide value is no less than
// the square of its distance from a given mean; with a link up to 100 or the given value. The
// lengthscale moves from a tenth of the smallest distance (at least 1e-6 of the median one) to 100
// times the largest; the mean by 20 standard deviations of f; the dispersion within a factor of 1e6
// of a third of the extent of y; the shape between 0.05 and 10,000.
func (c *climber) bounds() (given vector, m typicalParameters) {
	centre, variance, spread := c.constant()
	c.unit = math.Sqrt(variance.narrow)
	if !c.free[meanInUnits] {
		if away := (centre - c.fixed.mean) * (centre - c.fixed.mean); c.Lik.Traits().Located && special.Finite(away) {
			spread.wide = max(spread.wide, away) // all may be noise
			if away < farthest*variance.narrow {
				variance.wide = max(variance.wide, away)
			}
		}
		centre = c.fixed.mean
	}
	at := vector{math.Log(c.fixed.lengthscale), math.Log(c.fixed.signal), centre / c.unit, math.Log(c.fixed.dispersion), math.Log(c.fixed.shape)}
	least, typical, most := c.spread()
	m = typicalParameters{math.Log(typical), math.Log(variance.narrow), math.Log(variance.wide / variance.narrow), math.Log(spread.narrow)}
	shortest, longest := math.Log(max(0.1*least, 1e-6*typical)), math.Log(100*most)
	if c.at == nil { // s/ℓ² times the mean square of a row is the variance of f
		square := 0.0
		for i := range c.Y {
			square += c.between.At(i, i) / float64(len(c.Y))
		}
		typical = square
		m.signal += 2*at[logLengthscale] - math.Log(square)
		m.length = 0.5 * (at[logSignal] + math.Log(square) - math.Log(variance.narrow))
		shortest, longest = m.length-0.5*(signalRange+m.more), m.length+0.5*signalRange
		c.free[logSignal] = c.free[logSignal] && square > 0
	}
	c.free[logLengthscale] = c.free[logLengthscale] && typical > 0

	largest := m.signal + m.more + signalRange
	if !c.Lik.Traits().Located {
		largest = max(m.signal+2*math.Log(mostUnits), at[logSignal])
	}
	reach := meanRange * math.Exp(0.5*m.more)
	c.lo, c.hi = at, at
	for k, ends := range [nParameters][2]float64{
		{shortest, longest},
		{m.signal - signalRange, largest},
		{at[meanInUnits] - reach, at[meanInUnits] + reach},
		{m.spread - 1 - signalRange, math.Log(spread.wide) - 1 + signalRange},
		{math.Log(leastShape), math.Log(mostShape)},
	} {
		if c.free[k] {
			c.lo[k], c.hi[k] = ends[0], ends[1]
		}
	}
	return at, m
}

// starts sets the bounds and returns the starting points: the given parameters, and a grid of
// lengthscales around the typical distance and of signal variances, wider if there are few rows.
func (c *climber) starts() []vector {
	at, m := c.bounds()
	us := []vector{c.clip(at)}
	grid := func(lengths, signals []float64) {
		if !c.free[logLengthscale] {
			lengths = at[logLengthscale : logLengthscale+1]
		}
		if !c.free[logSignal] {
			signals = at[logSignal : logSignal+1]
		}
		for _, l := range lengths {
			for _, v := range signals {
				u := at
				u[logLengthscale], u[logSignal] = l, v
				us = append(us, c.clip(u))
			}
		}
	}
	if c.free[logDispersion] {
		at[logDispersion] = m.spread - 1
	}
	signals := []float64{m.signal, m.signal + 2.5}
	if m.more > 2 {
		signals = append(signals, m.signal+m.more)
	}
	grid([]float64{m.length - 2, m.length - 1, m.length, m.length + 1}, signals)
	if len(c.Y) > fewRows {
		return us
	}
	// f small or nearly constant, nearly independent rows, and likelihoods with little noise
	lengths := []float64{m.length - 1, m.length + 1, m.length + 4}
	signals = append(signals[2:], m.signal-4, m.signal-1, m.signal+3)
	if c.free[logLengthscale] && !c.Lik.Traits().Binary { // binary rows are not informative about a variance of their own
		lengths = append(lengths, c.neighbour(), m.length-3)
	}
	grid(lengths, signals)
	if c.free[logDispersion] {
		at[logDispersion] -= 5
		grid(lengths, signals)
	}
	if c.free[logShape] {
		at[logShape] = math.Log(100)
		grid(lengths, signals)
	}
	return us
}

func (c *climber) clip(u vector) vector {
	for k := range u {
		u[k] = max(c.lo[k], min(c.hi[k], u[k]))
	}
	return u
}

// edge reports which free parameters are at a bound.
func (c *climber) edge(u vector) string {
	at := []float64{c.lengthscale, c.signal, c.mean, c.dispersion, c.shape}
	var ends []string
	for k, name := range []string{"lengthscale", "signal_variance", "mean", "dispersion", "shape"} {
		if c.free[k] && mode.AtEnd(u[k], c.lo[k], c.hi[k]) != 0 {
			ends = append(ends, fmt.Sprintf("%s = %.3g", name, at[k]))
		}
	}
	switch len(ends) {
	case 0:
		return ""
	case 1:
		return ends[0] + " is at the end of its range: the data do not bound it"
	}
	return strings.Join(ends, " and ") + " are at the ends of their ranges: the data do not bound them"
}

// value fits at u, from the mode near alpha or, if that stalls, from the mean.
func (c *climber) value(u vector) (float64, error) {
	p := c.fixed
	if c.free[logLengthscale] {
		p.lengthscale = math.Exp(u[logLengthscale])
	}
	if c.free[logSignal] {
		p.signal = math.Exp(u[logSignal])
	}
	if c.free[meanInUnits] {
		p.mean = u[meanInUnits] * c.unit
	}
	if c.free[logDispersion] || c.free[logShape] {
		if c.free[logDispersion] {
			p.dispersion = math.Exp(u[logDispersion])
		}
		if c.free[logShape] {
			p.shape = math.Exp(u[logShape])
		}
		l, err := c.withParameters(p)
		if err != nil {
			return 0, err
		}
		c.Lik = l
	}
	err := c.fit(p)
	if (err != nil || c.Status != "") && c.warm && !c.late() {
		was, failed, stalled := slices.Clone(c.alpha), err, c.logEvidence
		clear(c.alpha)
		if err = c.fit(p); err != nil && failed == nil || failed == nil && c.Status != "" && c.logEvidence < stalled {
			copy(c.alpha, was)
			err = c.fit(p)
		}
	}
	return c.logEvidence, err
}

// Try fits at u: at a start from the fit before it the first time, then from its own; elsewhere
// from the present point of the climb. An evidence that is not at a mode, which has a status, is
// not reliable.
func (c *climber) Try(u []float64) (float64, bool, error) {
	c.stands = vector(u)
	alpha, known := c.alphas[c.stands]
	switch {
	case known && alpha == nil:
		return c.tryStart()
	case known:
		copy(c.alpha, alpha)
	default:
		copy(c.alpha, c.kept)
	}
	q, err := c.value(c.stands)
	return q, err == nil && c.Status == "", err
}

// tryStart fits at a start, at the best mode there.
func (c *climber) tryStart() (float64, bool, error) {
	if c.bumpy {
		clear(c.alpha)
	}
	_, err := c.value(c.stands)
	if err == nil {
		err = c.highest()
	}
	if err == nil {
		c.alphas[c.stands] = slices.Clone(c.alpha)
	}
	return c.logEvidence, err == nil && c.Status == "", err
}

// Keep makes the mode that Try found the next starting point.
func (c *climber) Keep() {
	c.kept = slices.Clone(c.alpha)
	c.alphas[c.stands] = c.kept
}

// Higher moves to the best mode, if its evidence is higher.
func (c *climber) Higher() (bool, error) {
	if !c.bumpy {
		return false, nil
	}
	was := c.logEvidence
	if err := c.highest(); err != nil || !(c.logEvidence > was+1e-6*(1+math.Abs(was))) {
		return false, err
	}
	c.Keep()
	return true, nil
}

// Tolerance is how many nats below its maximum the evidence may end.
func (c *climber) Tolerance() float64 { return flat }

// Slope returns the gradient at the last fit, 0 for parameters that are not free. Its scale is not
// known.
func (c *climber) Slope() (slope, scale []float64, err error) {
	g := c.gradient()
	g[meanInUnits] *= c.unit
	for k, free := range c.free {
		if !free || !special.Finite(g[k]) {
			g[k] = 0
		}
	}
	return g[:], nil, nil
}

package gp

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// The parameters that a search moves, and the scale of each.
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
	// On tables of up to fewRows rows the evidence has more maxima, and fits cost little:
	// more starts are tried there, and more of them followed.
	fewRows               = 100
	follow, followFewRows = 2, 5
	// A start this many nats below what was found is not followed, nor one this near, in
	// log parameters and units of the mean, to where an earlier climb began or ended.
	rival  = 30
	beside = 1
)

// start is a place to climb from.
type start struct {
	u     vector
	q     float64 // log evidence
	alpha []float64
}

// way is a climb from one place to another.
type way struct {
	from vector
	to   start
}

// byEvidence maximises the log evidence over the auto parameters by a projected BFGS
// method in log lengthscale, log signal variance and mean, within bounds, and leaves s at
// the best fit. A grid of starts is tried, the best is followed, and then those that
// are above what was found or apart from the ends of climbs, so that the end is not below a
// start. Where the posterior has several modes, that of a start is the best one, a climb
// keeps to its mode, and ends with a try at the others.
func (s *search) byEvidence(o Options) error {
	n := len(s.Y)
	c := newClimber(s, o)
	c.work = workspace{dense.NewUnder(s.b.Stop, n, n), dense.NewUnder(s.b.Stop, n, n)}
	_, bumpy := s.Lik.(lik.Bumpy)
	var starts, stalled []start // of fits that ended at a mode, and of others
	var first error
	for _, u := range c.starts() {
		if len(starts)+len(stalled) > 0 && s.late() {
			break
		}
		if bumpy {
			clear(s.alpha)
		}
		_, err := c.value(u)
		if err == nil {
			err = s.highest()
		}
		at := start{u, s.logEvidence, slices.Clone(s.alpha)}
		switch {
		case err != nil && first == nil:
			first = err
		case err != nil:
		case s.Status != "":
			stalled = append(stalled, at)
		default:
			starts = append(starts, at)
		}
	}
	if starts = append(higherFirst(starts), higherFirst(stalled)...); len(starts) == 0 {
		return first
	}
	best := starts[0]
	climbs := follow
	if n <= fewRows {
		climbs = followFewRows
	}
	for k, from := range starts {
		if k > 0 && (climbs == 0 || s.late() || c.seen(from, best.q)) {
			continue
		}
		climbs--
		to, why := c.climb(from)
		for range 2 { // another mode has its own parameters
			if !bumpy || s.late() || s.highest() != nil || !(s.logEvidence > to.q+1e-6*(1+math.Abs(to.q))) {
				break
			}
			to, why = c.climb(start{to.u, s.logEvidence, slices.Clone(s.alpha)})
		}
		c.ways = append(c.ways, way{from.u, to})
		if k == 0 || to.q > best.q {
			best, s.outer = to, why
		}
	}
	copy(s.alpha, best.alpha)
	if _, err := c.value(best.u); err != nil {
		return err
	}
	if err := s.highest(); err != nil {
		return err
	}
	if s.outer == "" {
		s.edge = c.edge(best.u)
	}
	return nil
}

// higherFirst sorts by evidence.
func higherFirst(s []start) []start {
	slices.SortStableFunc(s, func(a, b start) int { return cmp.Compare(b.q, a.q) })
	return s
}

// climber moves the free parameters of a search.
type climber struct {
	*search
	work   workspace
	fixed  parameters
	free   [nParameters]bool
	lo, hi vector
	unit   float64 // of the mean
	maxUp  int
	kept   []float64 // alpha where climb stands
	ways   []way
}

func newClimber(s *search, o Options) *climber {
	c := &climber{search: s, fixed: o.parameters(s.Lik), maxUp: o.MaxIter}
	c.free = [nParameters]bool{o.AutoLengthscale, o.AutoSignalVariance, o.AutoMean, o.AutoDispersion, o.AutoShape}
	if s.at == nil && o.AutoSignalVariance {
		c.free[logLengthscale] = false
	}
	return c
}

// spread is the smallest distance between rows that is not 0, a middle one, and the
// largest; zeros when all rows are equal.
func (g *geometry) spread() (least, middle, most float64) {
	n := g.between.Rows
	var some []float64
	stride := 1 + n/400 // the middle of 80,000 pairs is good enough
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

// neighbour is the log of half the middle distance, over the rows, of the nearest row
// elsewhere.
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

// constant is the best constant predictor without the offset, the variance that f may
// be expected to have around it (that of y, by its quantiles, where the link is the
// identity, else 1), and the spread of y where it has a dispersion.
func (s *search) constant() (centre, variance, spread float64) {
	n := len(s.Y)
	scale := func(values []float64) float64 { // half the distance of the outer sixths
		slices.Sort(values)
		half := 0.5 * (values[(5*n)/6] - values[n/6])
		if v := half * half; v > 0 && special.Finite(v) {
			return v
		}
		return 1
	}
	if s.Lik.Traits().Located {
		shifted := make([]float64, n)
		for i, y := range s.Y {
			shifted[i] = y - s.shift(i)
		}
		variance = scale(shifted)
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
		return centre, 1, scale(slices.Clone(s.Y))
	}
	return centre, 1, 1
}

const (
	signalRange = 14 // of a log variance: a factor 1e6 either way
	// Under a link f has units. Where its deviation is beyond these, rows that are nearly
	// independent of each other have a Laplace evidence above that of any such model,
	// which rises with the variance.
	mostUnits  = 10
	meanRange  = 20 // deviations of f
	leastShape = 0.05
	mostShape  = 1e4 // negbinomial is Poisson, studentt gaussian
)

// starts sets the bounds and returns where to begin: at the parameters given, and on a
// grid of lengthscales around the middle distance and of signal variances, wider where
// rows are few.
//
// The signal variance moves within a factor 1e6 of constant's, under a link up to 100 or
// what was given; the lengthscale from a tenth of the smallest distance (at least 1e-6 of
// the largest) to 100 times the largest; the mean by 20 deviations of f; the dispersion
// within a factor 1e6 of a third of the spread of y; the shape between 0.05 and 10,000.
func (c *climber) starts() []vector {
	centre, variance, spread := c.constant()
	c.unit = math.Sqrt(variance)
	if !c.free[meanInUnits] {
		centre = c.fixed.mean
	}
	at := vector{math.Log(c.fixed.lengthscale), math.Log(c.fixed.signal), centre / c.unit, math.Log(c.fixed.dispersion), math.Log(c.fixed.shape)}
	c.lo, c.hi = at, at

	signal := math.Log(variance)
	traits := c.Lik.Traits()
	least, middle, most := c.spread()
	shortest, length, longest := math.Log(max(0.1*least, 1e-6*most)), math.Log(middle), math.Log(100*most)
	if c.at == nil { // s/ℓ² times the mean square of a row is the variance of f
		square := 0.0
		for i := range c.Y {
			square += c.between.At(i, i) / float64(len(c.Y))
		}
		middle = square
		signal += 2*at[logLengthscale] - math.Log(square)
		length = 0.5 * (at[logSignal] + math.Log(square) - math.Log(variance))
		shortest, longest = length-0.5*signalRange, length+0.5*signalRange
		c.free[logSignal] = c.free[logSignal] && square > 0
	}
	c.free[logLengthscale] = c.free[logLengthscale] && middle > 0

	lengths, signals := []float64{at[logLengthscale]}, []float64{at[logSignal]}
	if c.free[logLengthscale] {
		c.lo[logLengthscale], c.hi[logLengthscale] = shortest, longest
		lengths = []float64{length - 2, length - 1, length, length + 1}
	}
	if c.free[logSignal] {
		c.lo[logSignal], c.hi[logSignal] = signal-signalRange, signal+signalRange
		if !traits.Located {
			c.hi[logSignal] = max(signal+2*math.Log(mostUnits), at[logSignal])
		}
		signals = []float64{signal, signal + 2.5}
	}
	if c.free[meanInUnits] {
		c.lo[meanInUnits], c.hi[meanInUnits] = at[meanInUnits]-meanRange, at[meanInUnits]+meanRange
	}
	given := at
	if c.free[logDispersion] {
		at[logDispersion] = math.Log(spread) - 1
		c.lo[logDispersion], c.hi[logDispersion] = at[logDispersion]-signalRange, at[logDispersion]+signalRange
	}
	if c.free[logShape] {
		c.lo[logShape], c.hi[logShape] = math.Log(leastShape), math.Log(mostShape)
	}
	us := []vector{c.clip(given)}
	grid := func() {
		for _, l := range lengths {
			for _, v := range signals {
				at[logLengthscale], at[logSignal] = l, v
				us = append(us, c.clip(at))
			}
		}
	}
	grid()
	if len(c.Y) > fewRows {
		return us
	}
	// f small or nearly constant, rows nearly independent of each other, and likelihoods
	// of little noise
	if c.free[logLengthscale] {
		lengths = []float64{length - 1, length + 1, length + 4}
		if !traits.Binary { // whose rows say nothing of a variance of their own
			lengths = append(lengths, c.neighbour(), length-3)
		}
	}
	if c.free[logSignal] {
		signals = []float64{signal - 4, signal - 1, signal + 3}
	}
	grid()
	if c.free[logDispersion] {
		at[logDispersion] -= 5
		grid()
	}
	if c.free[logShape] {
		at[logShape] = math.Log(100)
		grid()
	}
	return us
}

func (c *climber) clip(u vector) vector {
	for k := range u {
		u[k] = max(c.lo[k], min(c.hi[k], u[k]))
	}
	return u
}

// edge says which free parameters are at a bound.
func (c *climber) edge(u vector) string {
	at := []float64{c.lengthscale, c.signal, c.mean, c.dispersion, c.shape}
	var ends []string
	for k, name := range []string{"lengthscale", "signal_variance", "mean", "dispersion", "shape"} {
		if c.free[k] && (u[k] == c.lo[k] || u[k] == c.hi[k]) {
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

// value fits at u, from the mode that alpha is near; if the fit stalls there, from the
// mean.
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

// slope is the gradient at the last fit, 0 for parameters that are not free or that it
// pushes against their bound.
func (c *climber) slope(u vector) vector {
	g := c.gradient()
	g[meanInUnits] *= c.unit
	for k, free := range c.free {
		if !free || !special.Finite(g[k]) || u[k] == c.lo[k] && g[k] < 0 || u[k] == c.hi[k] && g[k] > 0 {
			g[k] = 0
		}
	}
	return g
}

const (
	longestStep = 3    // in log parameters and units of the mean
	flatSlope   = 1e-4 // nats per unit: the evidence is within about 1e-8 of its maximum, 1e-4 in a tail
	sameHill    = 0.5  // in log parameters: a second climb this near leads to the same maximum
	maxTries    = 25
)

// climb follows the evidence up by BFGS steps, and ends where it began if there is no way.
// why says what ended it early.
func (c *climber) climb(from start) (to start, why string) {
	c.kept = append(c.kept[:0], from.alpha...)
	copy(c.alpha, c.kept)
	u := from.u
	q, err := c.value(u)
	if err != nil {
		return from, ""
	}
	here := func() start { return start{u, q, slices.Clone(c.kept)} }
	copy(c.kept, c.alpha)
	g := c.slope(u)
	h := scaled(1 / max(1, norm(g))) // inverse curvature
	fresh := true
	for up := 0; ; up++ {
		if norm(g) <= flatSlope || c.known(u, q) {
			return here(), ""
		}
		if c.late() {
			return here(), fmt.Sprintf("stopped at the time limit after %d steps of the parameters: log_evidence still rises", up)
		}
		if up >= c.maxUp {
			return here(), fmt.Sprintf("no convergence of the parameters in %d steps: log_evidence still rises", up)
		}
		d := h.times(g)
		for k := range d {
			if g[k] == 0 {
				d[k] = 0
			}
		}
		if !(dot(d, g) > 0) {
			h, fresh = scaled(1/max(1, norm(g))), true
			d = h.times(g)
		}
		if far := norm(d); far > longestStep {
			for k := range d {
				d[k] *= longestStep / far
			}
		}
		var to, step vector
		t, next := 1.0, 0.0
		for try := 0; ; try++ {
			for k := range u {
				to[k] = u[k] + t*d[k]
			}
			to = c.clip(to)
			for k := range u {
				step[k] = to[k] - u[k]
			}
			copy(c.alpha, c.kept)
			// an evidence beside the mode, which has a status, says nothing
			if next, err = c.value(to); err == nil && c.Status == "" && next > q && next >= q+1e-4*dot(g, step) {
				break
			}
			if try == maxTries || c.late() || t*dot(g, d) < 1e-12*(1+math.Abs(q)) {
				next = math.Inf(-1)
				break
			}
			cut := 0.25
			if err == nil { // the parabola through q, its slope and next
				rise := t * dot(g, d)
				cut = max(0.1, min(0.5, 0.5*rise/(rise-(next-q))))
			}
			t *= cut
		}
		if math.IsInf(next, -1) {
			copy(c.alpha, c.kept)
			if _, err := c.value(u); err != nil {
				return from, ""
			}
			if c.late() {
				continue // which says so
			}
			if fresh {
				return here(), "" // no higher evidence that rounding would show
			}
			h, fresh = scaled(1/max(1, norm(g))), true
			continue
		}
		before := g
		u, q = to, next
		copy(c.kept, c.alpha)
		g = c.slope(u)
		var y vector
		for k := range g {
			y[k] = before[k] - g[k] // of -q, whose curvature is positive at a maximum
		}
		h.update(step, y, fresh)
		fresh = false
	}
}

// known says that u has come to a maximum found before, of no lower evidence.
func (c *climber) known(u vector, q float64) bool {
	return slices.ContainsFunc(c.ways, func(w way) bool {
		apart := u
		for k := range apart {
			apart[k] -= w.to.u[k]
		}
		return q <= w.to.q && norm(apart) < sameHill
	})
}

// seen says that a climb from s is not worth while: it is far down, or beside an end of
// an earlier one.
func (c *climber) seen(s start, best float64) bool {
	near := func(u vector) bool {
		for k, v := range s.u {
			if math.Abs(v-u[k]) > beside {
				return false
			}
		}
		return true
	}
	return s.q < best-rival || s.q <= best && slices.ContainsFunc(c.ways, func(w way) bool { return near(w.from) || near(w.to.u) })
}

func dot(a, b vector) (s float64) {
	for k, v := range a {
		s += v * b[k]
	}
	return s
}

func norm(a vector) float64 { return math.Sqrt(dot(a, a)) }

type square [nParameters]vector

func scaled(d float64) (h square) {
	for k := range h {
		h[k][k] = d
	}
	return h
}

func (h *square) times(g vector) (d vector) {
	for k := range h {
		d[k] = dot(h[k], g)
	}
	return d
}

// update is the BFGS update of an inverse Hessian for a step s that changed the gradient
// by y; a first one sets the scale. Without positive curvature nothing changes.
func (h *square) update(s, y vector, first bool) {
	sy := dot(s, y)
	if !(sy > 1e-10*norm(s)*norm(y)) {
		return
	}
	if first {
		*h = scaled(sy / dot(y, y))
	}
	hy := h.times(y)
	c := (1 + dot(y, hy)/sy) / sy
	for i := range h {
		for j := range h {
			h[i][j] += c*s[i]*s[j] - (hy[i]*s[j]+s[i]*hy[j])/sy
		}
	}
}

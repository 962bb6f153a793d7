package ep

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

const (
	// maxRounds bounds the rounds over the kinds of hyperparameters, maxTries the fits of
	// one line search.
	maxRounds = 8
	maxTries  = 40
	// learnTol is the change of the logarithm of a hyperparameter that ends a search.
	learnTol = 1e-4
	// farthest is how far the logarithm of a prior variance may go from where it was.
	farthest = 23
	// looseTol is the tolerance of the fits on the way to the best variances. The evidence
	// is stationary in the sites: it is off by the square of that.
	looseTol = 1e-4
	// sameEvidence is the gain, in nats, of steps that are too small to go on.
	sameEvidence = 1e-3
)

// search is one call of Fit: what may end it and what it found out.
type search struct {
	stop   *stop.Stop
	kernel Kernel
	notes  []string
}

func (s *search) late() bool { return s.stop.Late() }

func (s *search) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(s.notes, n) {
		s.notes = append(s.notes, n)
	}
}

func (s *search) fit(p *kernels.Problem) (*Result, error) {
	o := &p.Options
	if _, ok := p.Lik.(lik.Dispersed); ok && o.AutoDispersion {
		// a first run about 1 loses its digits where responses are of another size
		start := mode.Variance(p) / 2
		if far, ok := mode.FarDispersion(p); ok { // few responses have nearly all of their variance
			start = math.Exp(far)
		}
		q, err := dispersed(p, start)
		if err != nil {
			return nil, err
		}
		p = q
	}
	if o.AutoNoise {
		if o.Covariance == "lowrank" {
			return nil, fmt.Errorf("covariance = 'lowrank' with process_noise is not used by ep; allowed: diagonal, full")
		}
		var err error
		if p, err = s.chooseNoise(p); err != nil {
			return nil, err
		}
	}
	e, err := newEngine(p, s.kernel)
	if err != nil {
		return nil, err
	}
	out, err := s.iterate(e, o, true)
	if err != nil {
		return nil, err
	}
	if p.LearnsPrior() || o.AutoDispersion || o.AutoShape {
		l := &learner{search: s, e: e, p: p, out: out}
		if err := l.learn(); err != nil {
			return nil, err
		}
		log := l.out.logZ
		around, err := l.integrate()
		if err != nil {
			return nil, err
		}
		out := l.out
		out.logZ = log // the highest
		var weights *gauss.Normal
		if around != nil {
			weights = around.weights
		}
		r, err := s.result(l.p, e, out, weights)
		if err != nil {
			return nil, err
		}
		if around != nil && !o.PriorGroups {
			around.note(r.Fit, l.p)
		}
		if l.out.converged {
			l.parameters(r.Fit)
		}
		if o.AutoDispersion && p.Lik.Traits().Located {
			variance := make([]float64, p.P)
			if err := e.initial(make([]float64, p.P), variance); err != nil {
				return nil, err
			}
			r.Fit.Say(mode.Guess(p, variance, l.p.PriorVar, false))
		}
		return r, err
	}
	return s.result(p, e, out, nil)
}

// result is what e, which ended with out, comes to; post is the posterior, nil for that of e.
func (s *search) result(p *kernels.Problem, e engine, out outcome, post *gauss.Normal) (*Result, error) {
	if post == nil {
		var err error
		if post, err = e.posterior(); err != nil {
			return nil, err
		}
	}
	for j := range p.P {
		if !special.Finite(post.Mean[j]) || !(post.Var[j] > 0) || !special.Finite(post.Var[j]) {
			return nil, fmt.Errorf("ep: feature %q has posterior mean %v and variance %v; scale the features", p.Name(j), post.Mean[j], post.Var[j])
		}
	}
	f := p.Fit("ep", post, out.logZ)
	f.Iterations, f.Converged = out.sweeps, out.converged
	if r, ok := e.(*reduced); ok {
		if r.red.Clamped > 0 {
			s.note("rank %d was lowered to %d", r.red.Clamped, len(r.red.S))
		}
		if r.held > 0 {
			s.note("%d directions keep the prior's variance, though the data say more", r.held)
		}
	}
	if _, ok := e.(*diagonal); ok && p.Normal.Form != gauss.Diagonal {
		s.note("covariance = 'diagonal' leaves the prior's covariances out")
	}
	if t := out.status(&p.Options, p.N); t != "" {
		s.notes = append([]string{t}, s.notes...)
	}
	if len(s.notes) > 0 {
		f.Status = strings.Join(s.notes, "; ")
	}
	return &Result{
		Fit: f, LOO: e.loo(), Sites: e.sites(), Sweeps: out.sweeps, Skipped: out.skipped, Clamped: out.clamped,
		Damping: out.damping, Noise: p.Noise, p: p, e: e, mean: post.Mean, variance: post.Var,
	}, nil
}

// with is p with another model; its rows are shared.
func with(p *kernels.Problem, edit func(m *kernels.Model)) *kernels.Problem {
	q, m := *p, *p.Model
	q.Model = &m
	edit(&m)
	return &q
}

// chooseNoise is p with the process noise of the largest innovation evidence, which
// is the first sweep's: 0, or from a grid of ten decades up to the prior variance
// lost in a mean interval between rows, further where its edge is the best, refined by
// golden sections.
func (s *search) chooseNoise(p *kernels.Problem) (*kernels.Problem, error) {
	at := func(q float64) *kernels.Problem {
		return with(p, func(m *kernels.Model) { m.Noise, m.NoiseBy = q, nil })
	}
	var tried []float64
	evidence := func(q float64) (float64, error) {
		tried = append(tried, q)
		trial := at(q)
		counts := &counted{Likelihood: p.Lik, Overdispersion: lik.NewOverdispersion(0, 0)}
		if lik.Overdisperses(p.Lik) {
			trial.Lik = counts
		}
		e, err := newEngine(trial, s.kernel)
		if err != nil {
			return 0, err
		}
		c, err := e.sweep(1)
		if errors.Is(err, kernels.ErrRow) && q > 0 {
			return math.Inf(-1), nil // weights that drift beyond all numbers
		}
		if lik.Overdisperses(p.Lik) {
			return counts.score, err
		}
		return c.logZ, err
	}
	scale, span := 0.0, 1.0
	for _, v := range p.PriorVar {
		scale += v / float64(p.P)
	}
	if p.N > 1 && p.Time[p.N-1] > p.Time[0] {
		span = (p.Time[p.N-1] - p.Time[0]) / float64(p.N-1)
	}
	still, err := evidence(0)
	if err != nil || p.P == 0 || p.N < 2 {
		return at(0), err
	}
	const decades = 10
	best, top := 0.0, math.Inf(-1)
	f := func(x float64) (float64, error) { return evidence(scale / span * math.Pow(10, x)) }
	grid := func(from, to int) error {
		for k := to; k >= from && !s.late(); k-- {
			z, err := f(float64(k))
			if err != nil {
				return err
			}
			if z > top {
				best, top = float64(k), z
			}
		}
		return nil
	}
	low, high := 1-decades, 0
	if err := grid(low, high); err != nil {
		return nil, err
	}
	for range decades { // beyond its edges while they are the best
		next := int(best) - 1
		if next >= low {
			next = high + 1
		}
		if inside := best != float64(low) && best != float64(high); inside || !(top > still) {
			break
		}
		low, high = min(low, next), max(high, next)
		if err := grid(next, next); err != nil {
			return nil, err
		}
	}
	best, top, err = golden(f, best-1, best, best+1, top, 0.01, func() bool { return s.late() })
	if err != nil {
		return nil, err
	}
	q := scale / span * math.Pow(10, best)
	if !(top > still) {
		q = 0
	}
	s.notes = append(s.notes, kernels.NoiseStatus(q, tried))
	return at(q), nil
}

// counted is a likelihood of counts in the filter's sweep: it sums up the log probabilities
// of the rows with the overdispersion met so far, which rates that move must not stand for.
type counted struct {
	lik.Likelihood
	*lik.Overdispersion
	score float64
}

func (c *counted) Moments(o lik.Obs, m, v float64) lik.Tilted {
	c.score += c.Learn(o, m, v)
	return c.Likelihood.Moments(o, m, v)
}

// golden maximises f on [a, b] by golden sections from a point x inside whose value is
// fx, to a width of tol.
func golden(f func(float64) (float64, error), a, x, b, fx, tol float64, stop func() bool) (float64, float64, error) {
	const part = 0.3819660112501051
	for b-a > tol && !stop() {
		y := x + part*(b-x)
		if x-a > b-x {
			y = x - part*(x-a)
		}
		fy, err := f(y)
		if err != nil {
			return x, fx, err
		}
		if fy > fx {
			if y > x {
				a = x
			} else {
				b = x
			}
			x, fx = y, fy
		} else if y > x {
			b = y
		} else {
			a = y
		}
	}
	return x, fx, nil
}

// learner climbs the log evidence over hyperparameters; every step is a fit that
// starts from the sites of the one before.
type learner struct {
	*search
	e   engine
	p   *kernels.Problem
	out outcome
	// dispersion is that of the first search for one
	dispersion float64
}

func (l *learner) stop() bool { return l.late() }

// try fits q.
func (l *learner) try(q *kernels.Problem) (outcome, error) { return l.tryTo(q, 0) }

// tryTo fits q to a tolerance that is at least tol.
func (l *learner) tryTo(q *kernels.Problem, tol float64) (outcome, error) {
	if err := l.e.reset(q); err != nil {
		return outcome{}, err
	}
	o := q.Options
	o.Tol = max(kernels.Or(o.Tol, defaultTol), tol)
	return l.iterate(l.e, &o, false)
}

// adopt makes q the problem fitted, whether it was fitted last or not.
func (l *learner) adopt(q *kernels.Problem) (err error) {
	l.p = q
	l.out, err = l.try(q)
	return err
}

// elsewhere goes to the best of a coarse grid in the units of the data, true if that is
// above what was found: then it is where to climb from. Fits that did not converge do
// not count.
func (l *learner) elsewhere() (bool, error) {
	p, o := l.p, &l.p.Options
	g, _ := l.groups()
	var theta []float64
	if p.LearnsPrior() && len(g.Names) > 0 {
		var err error
		if theta, err = g.Start(p); err != nil {
			return false, err
		}
	} else {
		g.Names = nil
	}
	last := -1
	if _, ok := p.Lik.(lik.Dispersed); ok && o.AutoDispersion {
		last = len(theta)
		theta = append(theta, math.Log(mode.Variance(p)/2))
	}
	if len(theta) == 0 {
		return false, nil
	}
	sites := slices.Clone(l.e.sites())
	best, top := p, l.out.logZ+1e-6*(1+math.Abs(l.out.logZ))
	if !l.out.converged {
		top = math.Inf(-1)
	}
	for _, start := range g.Starts(theta, last) {
		if l.stop() {
			break
		}
		q := p
		if len(g.Names) > 0 {
			v := make([]float64, len(g.Names))
			for k := range v {
				v[k] = math.Exp(start[k])
			}
			q = l.priors(q, &g, v)
		}
		if last >= 0 {
			var err error
			if q, err = dispersed(q, math.Exp(start[last])); err != nil {
				continue
			}
		}
		out, err := l.tryTo(q, 10*looseTol)
		if err != nil { // of sites that no other fit can start from
			copy(l.e.sites(), sites)
			continue
		}
		if out.converged && out.logZ > top {
			best, top = q, out.logZ
		}
	}
	return best != p, l.adopt(best)
}

// dispersed is p with another dispersion.
func dispersed(p *kernels.Problem, d float64) (*kernels.Problem, error) {
	params := p.Params
	params.Shape, params.Dispersion = shapeOf(p.Lik), d
	lk, err := lik.Remake(p.Lik, params)
	if err != nil {
		return nil, err
	}
	return with(p, func(m *kernels.Model) { m.Lik, m.Params = lk, params }), nil
}

func (l *learner) learn() error {
	notes := len(l.notes)
	if err := l.climb(); err != nil {
		return err
	}
	higher, err := l.elsewhere()
	if err != nil || !higher {
		return err
	}
	l.notes = l.notes[:notes]
	return l.climb()
}

// climb goes uphill in one kind of hyperparameter after the other.
func (l *learner) climb() error {
	o := &l.p.Options
	kinds := 0
	for _, on := range []bool{l.p.LearnsPrior(), o.AutoDispersion, o.AutoShape} {
		if on {
			kinds++
		}
	}
	for round := range maxRounds {
		before := l.out.logZ
		if l.p.LearnsPrior() {
			if err := l.variances(round == 0); err != nil {
				return err
			}
		}
		if o.AutoDispersion {
			_, ok := l.p.Lik.(lik.Dispersed)
			if !ok {
				return lik.Lacks(l.p.Lik, "dispersion")
			}
			if err := l.line(func(p *lik.Params) *float64 { return &p.Dispersion }, l.p.Lik.(lik.Dispersed).Dispersion(), "dispersion"); err != nil {
				return err
			}
		}
		if o.AutoShape {
			_, ok := l.p.Lik.(lik.Shaped)
			if !ok {
				return lik.Lacks(l.p.Lik, "shape")
			}
			if err := l.line(func(p *lik.Params) *float64 { return &p.Shape }, l.p.Lik.(lik.Shaped).Shape(), "shape"); err != nil {
				return err
			}
		}
		if kinds < 2 || math.Abs(l.out.logZ-before) < learnTol || l.stop() {
			return nil
		}
	}
	l.note("hyperparameters stopped after %d rounds", maxRounds)
	return nil
}

// line maximises the evidence over one parameter of the likelihood, on its logarithm:
// steps that double until it falls, then golden sections.
func (l *learner) line(field func(*lik.Params) *float64, now float64, name string) error {
	p := l.p
	at := func(x float64) (*kernels.Problem, error) {
		params := p.Params
		params.Shape, params.Dispersion = shapeOf(p.Lik), dispersionOf(p.Lik)
		*field(&params) = now * math.Exp(x)
		if name == "shape" {
			params.Shape = max(params.Shape, lik.MinShape)
		}
		lk, err := lik.Remake(p.Lik, params)
		if err != nil {
			return nil, err
		}
		return with(p, func(m *kernels.Model) { m.Lik, m.Params = lk, params }), nil
	}
	tries := 0
	f := func(x float64) (float64, error) {
		tries++
		q, err := at(x)
		if err != nil {
			return 0, err
		}
		out, err := l.try(q)
		if err != nil || math.IsNaN(out.logZ) {
			return math.Inf(-1), err
		}
		return out.logZ, nil
	}
	stop := func() bool { return tries >= maxTries || l.stop() }
	top, low := math.Inf(1), math.Inf(-1) // of x
	if name == "shape" {
		if top = math.Log(mostShape / now); top <= 0 {
			return nil // it ran there in an earlier round
		}
		if low = math.Log(lik.MinShape / now); low >= 0 {
			return nil
		}
	}
	limit := 23.0             // e^23 = 1e10
	if name == "dispersion" { // the range is about the first, in all rounds together
		if l.dispersion == 0 {
			l.dispersion = now
		}
		center := math.Log(l.dispersion / now)
		low, top = center-limit, center+limit
		if most := mode.MostDispersion(p) - math.Log(now); most > top {
			top, limit = most, max(limit, most)
		}
		if low > -0.01 || top < 0.01 {
			return nil
		}
	}
	a, x, fx, b := 0.0, 0.0, l.out.logZ, 0.0
	ran := false // to the limit, still rising
	for _, step := range []float64{0.7, -0.7} {
		y := step
		last := x
		for !stop() && math.Abs(y) < limit && y <= top && y >= low {
			fy, err := f(y)
			if err != nil {
				return err
			}
			if fy <= fx {
				break
			}
			last, x, fx = x, y, fy
			step *= 1.6
			y = x + step
			ran = math.Abs(y) >= limit
		}
		a, b = math.Min(last, y), math.Max(last, y)
		if x != 0 {
			break // uphill was this way
		}
	}
	if x == 0 {
		a, b = -0.7, 0.7
	}
	a, b = math.Max(a, low), math.Min(b, top)
	ran = ran || b == top || a == low
	x, _, err := golden(f, a, x, b, fx, learnTol*10, stop)
	if err != nil {
		return err
	}
	if name == "dispersion" && x > 0 { // a step beyond the end says nothing yet
		ran = ran && x > top-0.1
	}
	if ran {
		if name == "dispersion" { // whose unit may not be that of the responses as they came
			end := "lower"
			if top-x < x-low {
				end = "upper"
			}
			l.note("dispersion by evidence ran to the %s end of its range, at which it stands: the data do not bound it", end)
		} else {
			l.note("%s by evidence ran to %.3g, the end of its range: the data do not bound it", name, now*math.Exp(x))
		}
	}
	q, err := at(x)
	if err != nil {
		return err
	}
	return l.adopt(q)
}

// mostShape is where the search for a shape ends: beyond it a student-t is a Gaussian
// and a negative binomial a Poisson in double precision.
const mostShape = 1e8

func shapeOf(l lik.Likelihood) float64 {
	if s, ok := l.(lik.Shaped); ok {
		return s.Shape()
	}
	return 0
}

func dispersionOf(l lik.Likelihood) float64 {
	if d, ok := l.(lik.Dispersed); ok {
		return d.Dispersion()
	}
	return 1
}

// variances climbs the evidence over the prior variances: of all weights that take the
// default prior but the intercept, or one for each group of features.
func (l *learner) variances(first bool) error {
	groups, count := l.groups()
	if len(count) == 0 {
		if first {
			l.note("no weight takes the default prior: prior_variance 'auto' has nothing to learn")
		}
		return nil
	}
	theta := logs(groups.Given)
	lo, hi := slices.Clone(theta), slices.Clone(theta)
	for g := range theta {
		lo[g] -= farthest
		hi[g] += farthest
	}
	v := l.varied(&groups)
	best, status, err := mode.Search{Lo: lo, Hi: hi, Late: l.late}.From(v, [][]float64{theta})
	if err != nil {
		return err
	}
	copy(l.e.sites(), v.best)
	if err := l.adopt(v.at(best)); err != nil {
		return err
	}
	if status != "" && !l.late() {
		l.note("%s", status)
	}
	for g, x := range best {
		if x <= lo[g]+learnTol || x >= hi[g]-learnTol {
			l.note("a prior variance, %.3g, "+endOfRange, math.Exp(x))
		}
	}
	if l.p.Options.PriorGroups {
		l.noteGroups(&groups, best)
	}
	return nil
}

// noteGroups says what the prior variances are, at most eight of them.
func (l *learner) noteGroups(g *mode.Groups, theta []float64) {
	var b strings.Builder
	for k, x := range theta {
		if k == 8 {
			fmt.Fprintf(&b, " and %d more", len(theta)-8)
			break
		}
		fmt.Fprintf(&b, " %s %.3g", g.Names[k], math.Exp(x))
	}
	l.notes = slices.DeleteFunc(l.notes, func(s string) bool { return strings.HasPrefix(s, "prior variances:") })
	l.note("prior variances:%s", b.String())
}

// varied is EP's evidence as a function of the logarithms of the prior variances. EP's
// evidence is stationary in the sites, so that its slope is that with the sites held, which
// with the posterior N(m, s) of the weights of a group is
//
//	½ Σ (((m - μ0)² + s)/v - 1)
//
// whose zero is the fixed point of EM, and Σ (1 - s/v) is what makes MacKay's step of it.
//
// Source: [mackay1992]; [rasmussen2006], section 5.5.2, for EP.
type varied struct {
	*learner
	groups        *mode.Groups
	from          *kernels.Problem
	strict        bool // only fits that converged count
	tol           float64
	dev, variance []float64
	best          []Site // where every fit starts
}

// endOfRange is what a status says of a prior variance that went as far as it can.
const endOfRange = "is at the end of its range: the data do not bound it"

func (l *learner) varied(g *mode.Groups) *varied {
	return &varied{learner: l, groups: g, from: l.p, strict: l.out.converged, tol: looseTol, dev: make([]float64, l.p.P), variance: make([]float64, l.p.P)}
}

func (v *varied) at(theta []float64) *kernels.Problem {
	variance := make([]float64, len(theta))
	for k, x := range theta {
		variance[k] = math.Exp(x)
	}
	return v.priors(v.from, v.groups, variance)
}

// Try fits with the variances e^θ.
func (v *varied) Try(theta []float64) (float64, bool, error) {
	var err error
	v.p = v.at(theta)
	if v.best != nil {
		copy(v.e.sites(), v.best)
	}
	v.out, err = v.tryTo(v.p, v.tol)
	return v.out.logZ, v.out.converged || !v.strict, err
}

func (v *varied) Keep()         { v.best = append(v.best[:0], v.e.sites()...) }
func (v *varied) Same() float64 { return sameEvidence }

func (v *varied) Slope() (slope, scale []float64, err error) {
	if err := v.e.initial(v.dev, v.variance); err != nil {
		return nil, nil, err
	}
	slope, scale = make([]float64, len(v.groups.Names)), make([]float64, len(v.groups.Names))
	for j, g := range v.groups.Of {
		if g >= 0 {
			known := 1 - v.variance[j]/v.p.PriorVar[j]
			slope[g] += 0.5 * (v.dev[j]*v.dev[j]/v.p.PriorVar[j] - known)
			scale[g] += 0.5 * max(known, 0)
		}
	}
	return slope, scale, nil
}

// groups numbers the prior variances to learn by column, -1 for none, with how many columns
// each has.
func (l *learner) groups() (g mode.Groups, count []float64) {
	g = mode.NewGroups(l.p)
	count = make([]float64, len(g.Names))
	for _, k := range g.Of {
		if k >= 0 {
			count[k]++
		}
	}
	return g, count
}

// priors is p with other prior variances for the columns of the groups. They are
// independent of all others: a fit that is continued does not know them.
func (l *learner) priors(p *kernels.Problem, g *mode.Groups, variance []float64) *kernels.Problem {
	q := with(p, func(m *kernels.Model) {
		if v, ok := g.Default(logs(variance)); ok && !m.Options.PriorGroups {
			m.Prior.Variance = v
		}
	})
	q.PriorVar = slices.Clone(p.PriorVar)
	for j, k := range g.Of {
		if k >= 0 {
			q.PriorVar[j] = variance[k]
		}
	}
	// Only variances that were positive change, to positive ones.
	q.Normal, _ = p.Normal.WithVariances(func(j int) (float64, bool) { return q.PriorVar[j], g.Of[j] >= 0 })
	return q
}

func logs(v []float64) []float64 {
	out := make([]float64, len(v))
	for k, x := range v {
		out[k] = math.Log(x)
	}
	return out
}

package mode

import (
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
)

// Hypers returns the priors of the square roots of learnt prior variances: half-t, by default with
// a scale that moves the predictor by 2.5 units, and three degrees of freedom.
func (g *Groups) Hypers(o *kernels.Options, unit float64) (priors []Hyper) {
	for k := range g.Names {
		priors = append(priors, Hyper{DF: kernels.Or(o.SDFreedom, 3), Scale: kernels.Or(o.SDScale, 2.5*unit/math.Sqrt(g.Squares[k]))})
	}
	return priors
}

// Bottom is the lowest starting point of a search for the mode of the posterior of θ: below it
// there is no slope.
func (h Hyper) Bottom() float64 {
	if math.IsInf(h.Scale, 1) {
		return math.Inf(-1)
	}
	return 2*math.Log(h.Scale) - 8
}

// Information adds to to the information about the logarithms of the variances of groups in many
// weights, with the weights fixed: b = N(0, σ² + s), the likelihood's estimate of a weight, has the
// information ½ ρ² about log σ², where ρ = σ²/(σ² + s) is how far the rows determine the weight: 1
// minus the share of its prior variance that remains.
func (g *Groups) Information(to, variance, prior []float64) {
	for j, k := range g.Of {
		if k >= 0 && k < len(g.Names) {
			known := min(max(1-variance[j]/prior[j], 0), 1)
			to[k] += 0.5 * known * known
		}
	}
}

// Single reports whether the weights' posterior is that under a single value of the variances of
// groups, and whether that matters (TooNarrow). around is what is known of the variances, nil for
// nothing: then the mean of a variance exceeds its value by the uncertainty that the weights leave,
// at most by as much again. variance and prior are those of the weights, one class after the other.
func (g *Groups) Single(around *Spread, variance, prior []float64) bool {
	if around != nil && around.Weights != nil {
		return false
	}
	information := make([]float64, len(g.Names))
	for lo := 0; lo < len(variance); lo += len(g.Of) {
		g.Information(information, variance[lo:lo+len(g.Of)], prior[lo:lo+len(g.Of)])
	}
	return g.TooNarrow(variance, prior, func(k int, prior float64) float64 {
		if around == nil {
			return min(0.25/information[k], 1)
		}
		return (around.Mean[k]*around.Mean[k]+around.SD[k]*around.SD[k])/prior - 1
	})
}

// TooNarrow reports whether the standard deviation of some weight would be a tenth larger if its
// prior variance were replaced by its mean: above returns by which share that is larger, for group
// k.
func (g *Groups) TooNarrow(variance, prior []float64, above func(k int, prior float64) float64) bool {
	for j, v := range variance {
		if k := g.Of[j%len(g.Of)]; k >= 0 && v/prior[j]*above(k, prior[j]) > 0.2 {
			return true
		}
	}
	return false
}

// leastFreedom is the number of rows left by the weights below which a dispersion is called a guess:
// the logarithm of its root is then uncertain by more than 1/√(2 · 1.5) = 0.6, as under its prior.
const leastFreedom = 1.5

// narrowFreedom is the number of rows left by the weights below which intervals under a single
// value of a dispersion, or the most likely shape, are too narrow by a tenth or more.
const narrowFreedom = 8

// Guess returns the status note about a learnt dispersion that the rows hardly determine, "" for
// none; variance and before are the weights' variances after and before the rows. prior: the
// dispersion has a prior; averaged: the weights and the dispersion are averages over its posterior.
func Guess(p *kernels.Problem, variance, before []float64, prior, averaged bool) string {
	known, left := freedom(p, variance, before)
	why := ""
	switch {
	case left >= leastFreedom && (averaged || left >= narrowFreedom):
		return ""
	case left >= leastFreedom:
		return fmt.Sprintf("the dispersion rests on %.2g degrees of freedom, all that the rows leave beside %.2g weights: intervals that take it as known are too narrow", left, known)
	case prior:
		why = ", set by its prior more than by the rows"
	}
	return fmt.Sprintf("the dispersion is a guess%s: the rows determine %.2g weights and leave %.2g degrees of freedom to learn it from", why, known, max(left, 0))
}

// GuessedShape is Guess for the learnt shape of responses that vary in proportion to their means;
// averaged means that the weights and the shape are averages over its posterior.
func GuessedShape(p *kernels.Problem, variance, before []float64, averaged bool) string {
	known, left := freedom(p, variance, before)
	least, why := float64(narrowFreedom), ", under which alone intervals are too narrow"
	if averaged {
		least, why = leastFreedom, ", set by its prior more than by the rows"
	}
	if left >= least {
		return ""
	}
	return fmt.Sprintf("the shape is a guess%s: the rows determine %.2g weights and leave %.2g degrees of freedom to learn it from", why, known, max(left, 0))
}

// freedom returns how many weights the rows determine, and how many rows that leaves, with those that
// told the fit that is continued of dispersion and shape.
func freedom(p *kernels.Problem, variance, before []float64) (known, left float64) {
	rows := p.Table()
	if p.Weight != nil {
		rows = 0
		for _, w := range p.Weight {
			rows += w
		}
	}
	for j, v := range variance {
		known += min(max(1-v/before[j], 0), 1)
	}
	e := p.Earlier()
	return known, rows - known + e.Freedom + 2*e.Information
}

// Averages is the result of a sum over the posterior of some parameters: mean and mean square of the
// requested values, and the mixture of the Gaussians there.
type Averages struct {
	Mean, Square []float64
	Weights      *gauss.Normal
	Predictive   kernels.PredictiveScale // with which Weights predicts the rows as the mixture does
	Off          float64                 // nats per row by which it still does not
}

// SD returns the standard deviation of value k.
func (s *Averages) SD(k int) float64 { return math.Sqrt(max(s.Square[k]-s.Mean[k]*s.Mean[k], 0)) }

// Sum sums over a lattice of at most n.Lattice points, or, if they do not suffice, over n.Draws
// draws. values returns those of the parameters, in a slice that may be reused, and gaussian the
// posterior of the weights, full or with leaves, at the present point of the evidence. Sum returns
// nil if neither suffices. predictor may be nil.
func (q *Peak) Sum(n Points, values func(theta []float64) []float64, gaussian func() (*gauss.Normal, error), predictor Predictor) (*Averages, error) {
	var m mixture
	total := 0.0
	own := 0 // values
	var sums, squares []float64
	add := func(theta []float64, log float64) error {
		g, err := gaussian()
		if err != nil {
			return err
		}
		w := m.add(g, log)
		of := values(theta)
		own = len(of)
		if predictor != nil {
			of = append(of, predictor.Under(g)...)
		}
		if sums == nil {
			sums, squares = make([]float64, len(of)), make([]float64, len(of))
		}
		total += w
		for k, v := range of {
			sums[k] += w * v
			squares[k] += w * v * v
		}
		return nil
	}
	whole, err := false, error(nil)
	if n.Lattice > 0 {
		whole, err = q.Grid(n.Lattice, add)
	}
	if err == nil && !whole && !q.late() {
		if n.Draws < LeastPoints/2 {
			return nil, nil
		}
		if _, ok, failed := q.p.Try(q.x); failed != nil || !ok {
			return nil, failed
		}
		q.p.Keep()
		m, total, sums, squares = mixture{}, 0, nil, nil
		whole, err = q.Scatter(n.Draws, add)
	}
	if err != nil || !whole || sums == nil { // no point has an evidence
		return nil, err
	}
	for k := range sums {
		sums[k] /= total
		squares[k] /= total
	}
	g, err := m.normal()
	if err != nil {
		return nil, err
	}
	out := &Averages{Predictive: kernels.Unscaled, Mean: sums[:own], Square: squares[:own], Weights: g}
	if predictor != nil {
		out.Predictive, out.Off = factors(predictor, sums[own:], g)
	}
	return out, nil
}

// MaxGrid is the largest number of variances that Variances sums over.
const MaxGrid = 8

// Spread is the result of integrating over prior variances: mean and standard deviation of their
// roots by group, and the posterior of the weights, nil if that stays the one at the mode.
type Spread struct {
	Mean, SD   []float64
	Weights    *gauss.Normal
	Predictive kernels.PredictiveScale // of Weights
	Drawn      bool                    // predictions are pulled towards the base rate nevertheless
}

// VariancePeak is NewPeak for an evidence whose parameters are all logarithms of prior variances;
// priors are those of their roots.
func VariancePeak(e Evidence, priors []Hyper, theta, lo, hi []float64, late func() bool) (*Peak, error) {
	start, of := slices.Clone(theta), make([]int, len(theta))
	for k, p := range priors {
		of[k] = k
		start[k] = max(start[k], p.Bottom())
	}
	return NewPeak(e, of, func(theta, slope []float64) (sum float64) {
		for k, p := range priors {
			v, s := p.Log(theta[k])
			sum, slope[k] = sum+v, slope[k]+s
		}
		return sum
	}, start, lo, hi, late)
}

// Variances returns moments of the prior variances whose logarithms are the parameters of q, and
// the weights averaged over them: by a sum over points, and by sections if they are worthwhile.
// point is the approximate number of operations per point, most the limit for all of them. gaussian
// and predictor are as in Sum.
func (q *Peak) Variances(point, most float64, gaussian func() (*gauss.Normal, error), predictor Predictor) (*Spread, error) {
	n := len(q.x)
	s := &Spread{}
	s.Mean, s.SD = q.Moments()
	points := 15.0 // of a grid
	for range n - 1 {
		points = min(3.5*points, Scattered)
	}
	if affordable := most / point; n <= MaxGrid && affordable >= min(points, LeastPoints) {
		roots := memory.Floats(n)
		sum, err := q.Sum(PointsOf(n, points, affordable), func(theta []float64) []float64 {
			for k, j := range q.p.of {
				roots[k] = math.Exp(0.5 * theta[j])
			}
			return roots
		}, gaussian, predictor)
		if err != nil {
			return nil, err
		}
		if sum != nil {
			for k, m := range sum.Mean {
				s.Mean[k], s.SD[k] = m, sum.SD(k)
			}
			s.Weights, s.Predictive, s.Drawn = sum.Weights, sum.Predictive, sum.Off > unlike
		}
	}
	wide := q.Wide(n)
	if s.Weights != nil && n == 1 || float64(12*len(wide))*point > most {
		return s, nil
	}
	for _, k := range wide { // a grid of several parameters has few points for these
		mean, sd, ok, err := q.Section(k)
		if err != nil {
			return nil, err
		}
		if ok {
			s.Mean[k], s.SD[k] = mean, sd
		}
	}
	return s, nil
}

// Note records in f what was found of the variances of groups, and how the weights predict.
func (s *Spread) Note(f *kernels.Fit, p *kernels.Problem, groups *Groups) {
	mean, sd := memory.Floats(p.P), memory.Floats(p.P)
	for j, k := range groups.Of[:p.P] {
		if k >= 0 {
			mean[j], sd[j] = s.Mean[k], s.SD[k]
		}
	}
	p.SetSpread(f, mean, sd)
	if s.Weights == nil {
		return
	}
	if !s.Predictive.Plain() {
		f.Keep(kernels.KeptPredictive, s.Predictive.Mean, s.Predictive.Variance)
	}
	if s.Drawn {
		f.AddStatus(Drawn)
	}
}

// mixture accumulates Gaussians of one form: full, or with the same leaves.
type mixture struct {
	form  *gauss.Normal // the first
	log   float64
	total float64
	mean  []float64     // Σ weight (mean - that of the first)
	cov   *dense.Matrix // Σ weight (Σ + d dᵀ), with leaves only of the block
	tie   *dense.Matrix // of each leaf with the block
	leaf  []float64     // of each leaf
}

// add adds a Gaussian with the given log density and returns its weight.
func (m *mixture) add(g *gauss.Normal, log float64) float64 {
	if m.form == nil {
		m.form, m.log = g, log
		m.mean = make([]float64, g.Dim())
		n := g.Dim()
		if g.Form == gauss.Arrowhead {
			n = len(g.Arrow.Block)
			m.tie, m.leaf = dense.New(len(g.Arrow.Leaf), n), make([]float64, len(g.Arrow.Leaf))
		}
		m.cov = dense.New(n, n)
	}
	w := math.Exp(log - m.log)
	m.total += w
	d := make([]float64, g.Dim())
	for j, v := range g.Mean {
		d[j] = v - m.form.Mean[j]
		m.mean[j] += w * d[j]
	}
	l, block := g.L, d
	if a := g.Arrow; g.Form == gauss.Arrowhead {
		l, block = a.L, make([]float64, len(a.Block))
		for i, j := range a.Block {
			block[i] = d[j]
		}
	}
	if len(block) > 0 {
		dense.Gemm(m.cov, w, l, false, l, true, 1)
	}
	for i, v := range block {
		dense.Axpy(w*v, block, m.cov.Row(i))
	}
	if a := g.Arrow; g.Form == gauss.Arrowhead {
		n := len(a.Block)
		p, hp := dense.New(n, n), dense.New(len(a.Leaf), n)
		if n > 0 {
			dense.MulTB(p, l, l)
			dense.Mul(hp, a.H, p)
		}
		for k, j := range a.Leaf {
			dense.Axpy(w, hp.Row(k), m.tie.Row(k))
			dense.Axpy(w*d[j], block, m.tie.Row(k))
			m.leaf[k] += w * (g.Var[j] + d[j]*d[j])
		}
	}
	return w
}

// normal returns the Gaussian with the mixture's mean and covariance; with leaves only the
// covariance of the block and of each leaf with it.
func (m *mixture) normal() (*gauss.Normal, error) {
	mean := slices.Clone(m.form.Mean)
	for j, s := range m.mean {
		m.mean[j] = s / m.total
		mean[j] += m.mean[j]
	}
	block := m.mean
	a := m.form.Arrow
	if a != nil {
		block = make([]float64, len(a.Block))
		for i, j := range a.Block {
			block[i] = m.mean[j]
		}
	}
	l := m.cov
	for i, v := range block {
		for k, u := range block {
			l.Row(i)[k] = l.Row(i)[k]/m.total - v*u
		}
	}
	if err := dense.Cholesky(l); err != nil {
		return nil, err
	}
	if a == nil {
		return gauss.NewFull(mean, l), nil
	}
	out := &gauss.Arrow{Block: a.Block, Leaf: a.Leaf, L: l, H: m.tie, Q: m.leaf}
	for k, j := range a.Leaf {
		h := m.tie.Row(k)
		for i := range h {
			h[i] = h[i]/m.total - m.mean[j]*block[i]
		}
		v := m.leaf[k]/m.total - m.mean[j]*m.mean[j]
		dense.SolveLowerVec(l, h) // h is half solved: its square is hᵀPh
		m.leaf[k] = max(v-dense.Dot(h, h), 1e-14*v)
		dense.SolveLowerTVec(l, h)
	}
	return gauss.NewArrowhead(mean, out), nil
}

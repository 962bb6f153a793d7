// Package hmc samples posteriors by Hamiltonian Monte Carlo, the reference for the approximate
// engines.
//
// The no-U-turn sampler runs in coordinates z whose prior is N(0, I), w = μ0 + A z with A Aᵀ = Σ0,
// and z = ẑ + R u around the mode ẑ. R starts as a square root of the inverse curvature there, so
// that a posterior near its Laplace approximation is N(0, I) in u from the first step. In the
// warm-up R learns the draws' covariance in windows that double, and the step size is adapted to
// the acceptance rate.
//
// Chains start at draws twice as wide as the Laplace approximation. If the likelihood is not
// log-concave and the posterior has several modes, the number of chains that start at each is
// proportional to its share of the evidence. Each chain is a function of the seed and its number.
package hmc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// Defaults of kernels.Options.
const (
	Samples = 1000 // draws per chain
	Warmup  = 1000 // iterations before them
	Chains  = 4
)

const (
	fullMetric     = 100     // number of weights up to which the mass matrix is full; beyond, only if that costs less than the data
	fullMetricMost = 500     // never beyond
	FullCovariance = 500     // number of weights up to which the fit keeps the draws' covariance
	maxNumbers     = 1 << 28 // samples x chains x weights: 2 GiB
)

// Streams of the random number generator: chains use 1, 2, ...
const (
	bridgeStream = 1 << 32
	liftStream   = 1 << 63
)

// Result is the result of all chains.
type Result struct {
	// Fit has the means of the draws, improved by control variates if the mass matrix is full (see
	// control), their variances, their full covariance up to 500 weights, and the log evidence by
	// bridge sampling. It has Converged if all R-hat are below 1.01, all bulk and tail ESS above
	// 100 per chain, and no trajectory diverged.
	Fit *kernels.Fit
	// Draws are the draws of each chain, samples x weights, in the order of the problem's columns
	// (known weights have none). With a low-rank likelihood they are in its coordinates; Weights
	// returns the weights.
	Draws []*dense.Matrix
	// By column of Draws: rank-normalised split R-hat, and effective sample sizes.
	RHat, ESSBulk, ESSTail []float64

	Divergences int     // trajectories whose energy error exceeded 1000 nats
	DepthHits   int     // trajectories cut at 2^10 - 1 steps
	Acceptance  float64 // mean acceptance of the steps; the target is 0.8
	Steps       int64   // gradients for the draws, without the warm-up

	// LogEvidence of the rows and its standard error; NaN if there are too few draws (see
	// bridge).
	LogEvidence, LogEvidenceError float64

	lift func(dst, u []float64, rng *rand.Rand)
	seed uint64
}

// Fit returns Sample's Fit.
func Fit(ctx context.Context, p *kernels.Problem) (*kernels.Fit, error) {
	r, err := Sample(ctx, p)
	if err != nil {
		return nil, err
	}
	return r.Fit, nil
}

// Sample draws from the posterior of p with any likelihood. Options: Samples, Warmup, Chains,
// Seed, TimeLimit, Standardize, and Rank: above 0 the low-rank likelihood is sampled in its M
// dimensions, and directions outside these keep their prior.
//
// If a time limit ends the chains early the draws made until then are used; in the warm-up, the
// Laplace approximation at the mode reached. Status says so.
//
// Cost: O(nnz + p) per step, 2^depth - 1 steps per draw, plus p² if the mass matrix is full (up
// to 100 weights, and up to 500 if p² < nnz); memory 8 bytes per draw and weight. The result does
// not depend on the number of processors.
//
// Errors: options out of range, drift, more than 2^28 numbers to keep, a likelihood that is 0 at
// every start, draws that do not move.
func Sample(ctx context.Context, p *kernels.Problem) (r *Result, err error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	s := stop.Watch(ctx, p.Options.TimeLimit)
	defer s.End(&err)
	p = p.Under(s)
	if !p.Options.Standardize {
		return draw(p)
	}
	loose := 1
	if p.Options.Rank == 0 && p.P <= FullCovariance {
		loose = 0
	}
	q, sc, err := p.Standardize(loose)
	if err != nil {
		return nil, err
	}
	if r, err = draw(q); err != nil {
		return nil, err
	}
	return r, r.restore(sc)
}

// restore transforms what was drawn on standardised scales to the original ones.
func (r *Result) restore(s *kernels.Standard) error {
	was := r.Fit.LogEvidence
	if err := s.Restore(r.Fit); err != nil {
		return fmt.Errorf("hmc: %w", err)
	}
	r.LogEvidence += r.Fit.LogEvidence - was
	if lift := r.lift; lift != nil {
		r.lift = func(dst, u []float64, rng *rand.Rand) {
			w := make([]float64, len(dst))
			lift(w, u, rng)
			s.From(dst, w)
		}
		return nil
	}
	for _, d := range r.Draws {
		w := make([]float64, d.Cols)
		for i := range d.Rows {
			copy(w, d.Row(i))
			s.From(d.Row(i), w)
		}
	}
	return nil
}

func draw(p *kernels.Problem) (*Result, error) {
	o, err := options(p)
	if err != nil {
		return nil, err
	}
	if p.P == 0 {
		return known(p, o)
	}
	g, err := reserve(p, o)
	if err != nil {
		return nil, err
	}
	defer g.Release()
	s := &sampling{settings: o, of: p, lifted: func(g *gauss.Normal) (*gauss.Normal, error) { return g, nil }}
	if o.rank > 0 {
		err = s.reduce(p)
	} else {
		p.Fill()
		s.model, err = newModel(&p.Columns, p, p.Offset, p.Normal)
		s.nnz = len(p.Val)
	}
	if err != nil {
		return nil, err
	}
	if err := s.run(); err != nil {
		return nil, err
	}
	if s.draws == nil {
		return s.early()
	}
	return s.result()
}

type settings struct {
	samples, warmup, chains, rank int
	seed                          uint64
	limit                         time.Duration
}

func options(p *kernels.Problem) (*settings, error) {
	q := &p.Options
	o := &settings{
		samples: kernels.Or(q.Samples, Samples), warmup: kernels.Or(q.Warmup, Warmup), chains: kernels.Or(q.Chains, Chains),
		rank: q.Rank, seed: q.Seed, limit: q.TimeLimit,
	}
	if p.Drifts() {
		return nil, errors.New("hmc: process_noise and forgetting: weights do not drift here; leave them out")
	}
	return o, option.Check(q)
}

// chain is the result of one chain.
type chain struct {
	draws       *dense.Matrix // in z
	n           int           // draws made
	divergences int
	depthHits   int
	steps       int64
	accept      float64 // sum over draws
	both        *spread // of the draws and their gradients in z, concatenated; nil with a diagonal metric
	err         error
}

// sampling is a run: what is sampled and the draws of all chains, in z.
type sampling struct {
	*settings
	*model
	of   *kernels.Problem
	nnz  int    // cost of the data per step
	note string // for the status

	lift   func(dst, u []float64, rng *rand.Rand)     // low rank: weights given coordinates; otherwise nil
	lifted func(*gauss.Normal) (*gauss.Normal, error) // the Gaussian of the weights

	centre  []float64
	laplace *metric
	peaks   []*peak // the best first; empty if there is one mode
	made    []*chain
	draws   []*dense.Matrix
	evid    evidence
	short   bool // cut short by the time limit
}

// run finds the mode and runs the chains.
func (s *sampling) run() error {
	p := s.dim()
	isFull := p <= fullMetric || p <= fullMetricMost && p*p <= s.nnz
	one := &metric{scale: memory.Floats(p)}
	for i := range one.scale {
		one.scale[i] = 1
	}
	s.centre = memory.Floats(p)
	v := s.view(one, s.centre)
	rng := rand.New(rand.NewPCG(s.seed, 0))
	for try := 0; ; try++ {
		r, ok := v.mode(s.centre, isFull, s.stop)
		if ok {
			s.laplace = r
			break
		}
		if try == 100 {
			return errors.New("hmc: the likelihood of the rows is 0 to double precision at the prior mean and at 100 draws of the prior; scale the features down or look at the offsets")
		}
		for i := range s.centre {
			s.centre[i] = rng.NormFloat64()
		}
	}

	s.findPeaks(isFull)

	s.made = make([]*chain, s.chains)
	dense.Each(s.chains, func(k int) { s.made[k] = s.chain(uint64(k + 1)) })
	n := s.samples
	for _, c := range s.made {
		if c.err != nil {
			return c.err
		}
		n = min(n, c.n)
	}
	s.short = n < s.samples
	if n < 4 {
		return nil
	}
	for _, c := range s.made {
		s.draws = append(s.draws, c.draws.Slice(0, n, 0, p))
	}
	s.countByMode()
	s.evid = bridge(s.model, s.draws, rand.New(rand.NewPCG(s.seed, bridgeStream)), s.stop)
	return nil
}

func (s *sampling) chain(number uint64) *chain {
	p := s.dim()
	rng := rand.New(rand.NewPCG(s.seed, number))
	v := s.view(s.laplace.clone(), s.centre)
	t := newSampler(v, p, rng, s.stop)
	c := &chain{draws: dense.New(s.samples, p)}
	if v.metric.full() {
		c.both = newSpread(2*p, true)
	}

	u, z, zg := memory.Floats(p), memory.Floats(p), make([]float64, 2*p)
	if c.err = s.begin(t, s.startOf(int(number)-1), rng, u, z); c.err != nil {
		return c
	}
	t.guessStepSize()
	step := newStepper(t.eps)
	first, ends := windows(s.warmup)
	seen := newSpread(p, v.metric.full())
	for it := range s.warmup + s.samples {
		s.stop.Check()
		if s.stop.Nearly() {
			break
		}
		t.next()
		if t.late {
			break
		}
		if it >= s.warmup {
			z := c.draws.Row(c.n)
			v.metric.to(z, s.centre, t.now.u)
			c.n++
			if c.both != nil { // ∇z = R⁻ᵀ ∇u
				copy(zg, z)
				copy(zg[p:], t.now.g)
				dense.SolveLowerTVec(v.metric.chol, zg[p:])
				c.both.add(zg)
			}
			c.steps += int64(t.steps)
			c.accept += t.sumAccept / float64(t.steps)
			if t.divergent {
				c.divergences++
			}
			if t.depth == maxDepth {
				c.depthHits++
			}
			continue
		}
		t.eps = step.next(t.sumAccept / float64(t.steps))
		if len(ends) > 0 && it >= first {
			v.metric.to(z, s.centre, t.now.u)
			seen.add(z)
			if it+1 == ends[0] {
				ends = ends[1:]
				v.metric.learn(seen, s.laplace)
				seen.reset()
				v.metric.from(u, s.centre, z)
				t.move(u)
				t.guessStepSize()
				step = newStepper(t.eps)
			}
		}
		if it+1 == s.warmup {
			t.eps = step.average()
		}
	}
	return c
}

// begin moves t to a draw about the mode from, nil for the centre.
func (s *sampling) begin(t *sampler, from *peak, rng *rand.Rand, u, z []float64) error {
	for wide := 2.0; ; wide /= 2 {
		for i := range u {
			u[i] = wide * rng.NormFloat64()
		}
		if from != nil {
			from.metric.to(z, from.z, u)
			s.laplace.from(u, s.centre, z)
		}
		t.move(u)
		if special.Finite(t.now.logp) && dense.AllFinite(t.now.g) {
			return nil
		}
		if wide < 1e-6 {
			return errors.New("hmc: the likelihood of the rows is 0 to double precision around its mode")
		}
	}
}

// result returns the result of chains that finished, or that the time limit cut short.
func (s *sampling) result() (*Result, error) {
	r := &Result{LogEvidence: s.evid.logZ, LogEvidenceError: s.evid.err, Draws: s.draws, lift: s.lift, seed: s.seed}
	n := 0
	for _, c := range s.made {
		r.Divergences += c.divergences
		r.DepthHits += c.depthHits
		r.Steps += c.steps
		r.Acceptance += c.accept
		n += c.n
	}
	r.Acceptance /= float64(n)
	z := memory.Floats(s.dim())
	var scratch []float64
	for _, d := range s.draws {
		for i := range d.Rows {
			copy(z, d.Row(i))
			s.weights(d.Row(i), z, &scratch)
		}
	}
	g, err := r.normal()
	if err != nil {
		return nil, err
	}
	if c := s.control(); c != nil {
		s.root.Mul(z, c)
		dense.Axpy(1, z, g.Mean)
	}
	post, err := s.lifted(g)
	if err != nil {
		return nil, err
	}
	post = s.silent(post)
	s.note += s.noCovarianceNote(g)
	r.diagnose()
	s.finish(r, post)
	if err := r.Fit.Check(); err != nil {
		return nil, fmt.Errorf("hmc: %w; scale the features down", err)
	}
	return r, nil
}

// control returns the correction of the mean of the draws by control variates. The gradient g of
// the log density has posterior mean 0; its mean over the draws shows how far their mean is
// off,
//
//	E[z] ≈ z̄ - Cov(z, g) Cov(g)⁻¹ ḡ,
//
// which is exact for a Gaussian posterior, for any draws. It is nil with a diagonal metric, with
// fewer than ten draws per weight, and if the time limit cut the chains short.
//
// Source: [mira2013], linear trial functions.
func (s *sampling) control() []float64 {
	p := s.dim()
	if !s.laplace.full() || s.short || len(s.made)*s.samples < 10*p {
		return nil
	}
	n := 0.0
	mean, cov := memory.Floats(p), dense.New(2*p, 2*p)
	for _, c := range s.made {
		n += c.both.n
		dense.Axpy(c.both.n, c.both.mean[p:], mean)
		dense.Axpy(1, c.both.cov.Data, cov.Data)
	}
	// Both covariances lack the factor 1/n.
	gg, gz := cov.Slice(p, 2*p, p, 2*p).Clone(), cov.Slice(p, 2*p, 0, p)
	if dense.Cholesky(gg) != nil {
		return nil
	}
	for j := range mean {
		mean[j] /= -n
	}
	dense.SolveLowerVec(gg, mean)
	dense.SolveLowerTVec(gg, mean)
	shift := memory.Floats(p)
	dense.GemvT(shift, gz, mean)
	if !dense.AllFinite(shift) {
		return nil
	}
	return shift
}

// Weights sets dst to draw i of chain c as weights, in the order of the problem's columns: a row
// of Draws, or its lift with a low-rank likelihood, where the directions outside it are drawn
// from the prior by a stream of the seed, c and i.
func (r *Result) Weights(dst []float64, c, i int) {
	row := r.Draws[c].Row(i)
	if r.lift == nil {
		copy(dst, row)
		return
	}
	r.lift(dst, row, rand.New(rand.NewPCG(r.seed, liftStream|uint64(c)<<32|uint64(i))))
}

// diagnose computes R-hat and ESS by weight.
func (r *Result) diagnose() {
	p := r.Draws[0].Cols
	r.RHat, r.ESSBulk, r.ESSTail = memory.Floats(p), memory.Floats(p), memory.Floats(p)
	dense.Parallel(p, func(lo, hi int) {
		chains := make([][]float64, len(r.Draws))
		for j := lo; j < hi; j++ {
			for c, d := range r.Draws {
				chains[c] = make([]float64, d.Rows)
				for i := range chains[c] {
					chains[c][i] = d.At(i, j)
				}
			}
			r.RHat[j], r.ESSBulk[j], r.ESSTail[j] = RHat(chains), ESSBulk(chains), ESSTail(chains)
		}
	})
}

// normal returns the Gaussian with the moments of the draws: full up to FullCovariance weights if
// there are enough draws.
func (r *Result) normal() (*gauss.Normal, error) {
	p := r.Draws[0].Cols
	s := newSpread(p, p <= FullCovariance)
	for _, d := range r.Draws {
		for i := range d.Rows {
			s.add(d.Row(i))
		}
	}
	variance := memory.Floats(p)
	for j := range variance {
		if s.cov != nil {
			variance[j] = s.cov.At(j, j) / (s.n - 1)
		} else {
			variance[j] = s.ss[j] / (s.n - 1)
		}
		if !(variance[j] > 0) || !special.Finite(variance[j]) || !special.Finite(s.mean[j]) {
			return nil, fmt.Errorf("hmc: the draws of weight %d have mean %v and variance %v: the chains do not move; scale the features down", j+1, s.mean[j], variance[j])
		}
	}
	if s.cov != nil && s.n > float64(p) {
		for i := range s.cov.Data {
			s.cov.Data[i] /= s.n - 1
		}
		if dense.Cholesky(s.cov) == nil {
			return gauss.NewFull(s.mean, s.cov), nil
		}
	}
	return gauss.NewDiagonal(s.mean, variance), nil
}

// silent returns post with the prior, in place of the moments of its draws, of weights about which
// no row says anything, such as that of a number that is the same in all rows and so 0 when it is
// centred. A merge takes the difference from the prior for information.
func (s *sampling) silent(post *gauss.Normal) *gauss.Normal {
	p := s.of
	if p.Normal.Form != gauss.Diagonal || post.Form != gauss.Diagonal && post.Form != gauss.Full {
		return post
	}
	said, weight := memory.Floats(p.P), p.Weight
	if weight == nil {
		weight = slices.Repeat([]float64{1}, p.N)
	}
	p.Squares(said, weight)
	if !slices.Contains(said, 0) {
		return post
	}
	mean := slices.Clone(post.Mean)
	for j, v := range said {
		if v == 0 {
			mean[j] = p.PriorMean[j]
		}
	}
	if post.Form == gauss.Diagonal {
		variance := slices.Clone(post.Var)
		for j, v := range said {
			if v == 0 {
				variance[j] = p.PriorVar[j]
			}
		}
		return gauss.NewDiagonal(mean, variance)
	}
	cov := dense.New(p.P, p.P)
	post.Cov(cov)
	for j, v := range said {
		if v != 0 {
			continue
		}
		clear(cov.Row(j))
		for i := range p.P {
			cov.Row(i)[j] = 0
		}
		cov.Row(j)[j] = p.PriorVar[j]
	}
	if dense.Cholesky(cov) != nil {
		return post
	}
	return gauss.NewFull(mean, cov)
}

// apartNote is the status note if the beliefs have no covariances, but weights occur in rows
// together.
const apartNote = "; covariances are not kept of more than %d weights, nor of as many as there are draws: each weight has its own variance, but variances of predictions and of differences are wrong where weights are correlated"

// noCovarianceNote returns apartNote if it applies: g is over the sampled coordinates.
func (s *sampling) noCovarianceNote(g *gauss.Normal) string {
	if g.Form != gauss.Diagonal || !s.of.HasMultipleWeights() {
		return ""
	}
	return fmt.Sprintf(apartNote, FullCovariance)
}

// finish builds the Fit.
func (s *sampling) finish(r *Result, post *gauss.Normal) {
	f := s.of.Fit("hmc", post, r.LogEvidence)
	r.Fit = f
	f.Iterations = s.warmup + r.Draws[0].Rows
	worst, bulk, tail := 1.0, math.Inf(1), math.Inf(1)
	for j := range r.RHat {
		worst = math.Max(worst, r.RHat[j])
		bulk, tail = math.Min(bulk, r.ESSBulk[j]), math.Min(tail, r.ESSTail[j])
	}
	f.Converged = worst < 1.01 && math.Min(bulk, tail) > 100*float64(s.chains) && r.Divergences == 0 && !s.short
	f.Status = fmt.Sprintf("R-hat %.3f, bulk ESS %.0f, tail ESS %.0f, %d divergences", worst, bulk, tail, r.Divergences)
	if r.DepthHits > 0 {
		f.Status += fmt.Sprintf(", %d trajectories cut", r.DepthHits)
	}
	if !math.IsNaN(r.LogEvidence) {
		f.Status += fmt.Sprintf(", log evidence ± %.2g", r.LogEvidenceError)
	}
	modes, missed := s.modesNote()
	f.Converged = f.Converged && missed < 0.01
	f.Status += modes + s.note
	if s.short {
		f.Status += fmt.Sprintf("; the time limit of %v left %d of %d draws a chain", s.limit, r.Draws[0].Rows, s.samples)
	}
}

// early returns the result of a run that the time limit ended in its warm-up.
func (s *sampling) early() (*Result, error) {
	w, scratch := memory.Floats(s.dim()), []float64(nil)
	s.weights(w, s.centre, &scratch)
	var post *gauss.Normal
	if s.laplace.full() {
		a := dense.New(len(w), len(w)) // row j is column j of A R
		t := s.laplace.chol.T()
		for j := range w {
			s.root.Mul(a.Row(j), t.Row(j))
		}
		cov := dense.New(len(w), len(w))
		dense.MulTA(cov, a, a)
		if err := dense.Cholesky(cov); err != nil {
			return nil, fmt.Errorf("hmc: the curvature at the mode: %w", err)
		}
		post = gauss.NewFull(w, cov)
	} else {
		v := s.root.Variances()
		for i, sd := range s.laplace.scale {
			v[i] *= sd * sd
		}
		post = gauss.NewDiagonal(w, v)
	}
	s.note += s.noCovarianceNote(post)
	post, err := s.lifted(post)
	if err != nil {
		return nil, err
	}
	nan := math.NaN()
	f := s.of.Fit("hmc", post, nan)
	f.Iterations, f.Converged = 0, false
	f.Status = "the time limit ended the warm-up: these are the beliefs of the Laplace approximation" + s.note
	if err := f.Check(); err != nil {
		return nil, fmt.Errorf("hmc: %w; scale the features down", err)
	}
	return &Result{Fit: f, LogEvidence: nan, LogEvidenceError: nan}, nil
}

// known returns the result if all weights are known.
func known(p *kernels.Problem, o *settings) (*Result, error) {
	l := 0.0
	b := p.Batch()
	for i := range p.N {
		logp, _, _ := p.Lik.LogLik(b.Obs(i), b.Shift(i))
		l += logp
	}
	if !special.Finite(l) {
		return nil, fmt.Errorf("hmc: all weights are known, and the rows have log likelihood %v under them", l)
	}
	r := &Result{Fit: p.Fit("hmc", p.Normal, l), Acceptance: 1, LogEvidence: l}
	for range o.chains {
		r.Draws = append(r.Draws, dense.New(o.samples, 0))
	}
	return r, nil
}

package answer

import (
	"context"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/stop"
)

// EffectOptions say how an effect is computed.
type EffectOptions struct {
	Level  float64      // of the interval; 0 is 0.95
	Kind   predict.Kind // Exact: weights integrated out; Plugin: at their mean, as in R's delta method
	Draws  int          // 0: by the delta method; else by so many joint draws of the weights
	Seed   uint64       // of the draws
	Slopes bool         // dY/dX: the two versions of a row are a step to either side
	Step   float64      // that step, with Slopes
}

func (o *EffectOptions) complete() error {
	if o.Level == 0 {
		o.Level = 0.95
	}
	return predict.CheckLevel(o.Level)
}

// Effect is the average over rows of the change in the expected response when one column changes.
type Effect struct {
	Class string // whose probability changes; "" for a single response
	N     int64  // rows; the other numbers are NaN without rows
	predict.Estimate
	Positive float64 // P(effect > 0)
}

// Effects accumulates, for one comparison, the change of the expected response from a low to a high
// version of each row: an average comparison; or its slope, an average slope, if the two versions
// are a step to either side.
//
//	comparison  f = g⁻¹(s_hi) - g⁻¹(s_lo),  ∂f/∂w = g⁻¹'(s_hi) x_hi - g⁻¹'(s_lo) x_lo
//	slope       f = g⁻¹'(s) δ,              ∂f/∂w = g⁻¹'(s) d + g⁻¹''(s) δ x,   δ = dᵀw, d = dx/dz
//
// With Exact, functions of s are replaced by their expectations under the posterior, and the slope
// becomes E[g⁻¹'(s) δ] = E[g⁻¹'] E[δ] + E[g⁻¹”] Cov(s, δ). The average has the average gradient G,
// and the variance GᵀΣG: exact for the identity link, otherwise to first order in the posterior's
// spread.
//
// Cost: that of two predictors per row for a comparison, about a microsecond under an arrowhead
// covariance of one block weight, O(p²) at the end under a full one; with draws O(k) per row for
// each draw, of k features. A slope under logit or cloglog also needs a sum over a grid.
//
// Source: the definitions of average comparisons and slopes of R's package marginaleffects.
type Effects struct {
	*predict.Scorer
	tally
	o     EffectOptions
	sum   float64
	grad  []float64 // by feature
	draws []float64
	draw  *predict.Draw
}

// tally is the number of rows, and the sum of their weights.
type tally struct {
	n      int64
	weight float64
}

// each counts the rows of b with nonzero weight, and calls add with each and its weight.
func (t *tally) each(ctx context.Context, b *kernels.Batch, add func(i int, w float64) error) error {
	for i := range b.Len() {
		if err := stop.Cause(ctx); err != nil {
			return err
		}
		w := weight(b, i)
		if w == 0 {
			continue
		}
		if err := add(i, w); err != nil {
			return err
		}
		t.n++
		t.weight += w
	}
	return nil
}

// merge adds the counts of o.
func (t *tally) merge(o tally) { t.n, t.weight = t.n+o.n, t.weight+o.weight }

// NewEffects returns effects without rows; effects of one fit may share a Scorer.
// Errors: a level outside (0, 1); those of predict.Scorer.NewDraw.
func NewEffects(s *predict.Scorer, o EffectOptions) (e *Effects, err error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	e = &Effects{Scorer: s, o: o}
	if o.Draws > 0 {
		e.draws = make([]float64, o.Draws)
		e.draw, err = s.NewDraw()
	}
	return e, err
}

// Add adds the rows of lo and hi, two versions of the same rows, whose feature numbers are those of
// Features. Weights are those of lo; a row of weight 2 counts twice.
// Errors: a predictor that is not finite; the cause of ctx if it is cancelled.
func (e *Effects) Add(ctx context.Context, lo, hi *kernels.Batch) error {
	if err := e.each(ctx, lo, func(i int, w float64) error { return e.add(lo, hi, i, w) }); err != nil {
		return err
	}
	for k := range e.draws {
		if err := stop.Cause(ctx); err != nil {
			return err
		}
		e.draw.Set(e.o.Seed, uint64(k))
		for i := range lo.Len() {
			a, err := e.draw.Linear(lo, i)
			if err != nil {
				return err
			}
			b, err := e.draw.Linear(hi, i)
			if err != nil {
				return err
			}
			e.draws[k] += weight(lo, i) * e.change(a, b)
		}
	}
	return nil
}

// weight is the weight of row i.
func weight(b *kernels.Batch, i int) float64 {
	if len(b.Weight) == 0 {
		return 1
	}
	return b.Weight[i]
}

// change is f for known predictors.
func (e *Effects) change(lo, hi float64) float64 {
	if !e.o.Slopes {
		return e.Lik.Response(hi) - e.Lik.Response(lo)
	}
	return responses(e.Lik, 0.5*(lo+hi), 0)[1] * (hi - lo) / (2 * e.o.Step)
}

func (e *Effects) add(lo, hi *kernels.Batch, i int, w float64) error {
	ml, vl, err := e.Linear(lo, i)
	if err != nil {
		return err
	}
	mh, vh, err := e.Linear(hi, i)
	if err != nil {
		return err
	}
	if !e.o.Slopes {
		if e.o.Kind == predict.Plugin {
			vl, vh = 0, 0
		}
		a, da := responseAndSlope(e.Lik, ml, vl)
		b, db := responseAndSlope(e.Lik, mh, vh)
		e.sum += w * (b - a)
		e.gradient(lo, i, -w*da)
		e.gradient(hi, i, w*db)
		return nil
	}
	// The variance of s is quadratic in the step, m linear: with v(h) = v + 2 h c + h² u, and v
	// known only at ±h, c is exact and v = (v(h) + v(-h))/2 - h² u.
	h := e.o.Step
	slope, m := (mh-ml)/(2*h), 0.5*(ml+mh)
	v, c := 0.0, 0.0
	if e.o.Kind != predict.Plugin {
		c = (vh - vl) / (4 * h)
		u, err := e.spread(lo, hi, i)
		if err != nil {
			return err
		}
		v = max(0.5*(vh+vl)-u/4, 0)
	}
	d := responses(e.Lik, m, v)
	e.sum += w * (d[1]*slope + d[2]*c)
	// x is the mean of the two versions, d their difference over 2h.
	x, dx := 0.5*(d[2]*slope+d[3]*c), d[1]/(2*h)
	e.gradient(lo, i, w*(x-dx))
	e.gradient(hi, i, w*(x+dx))
	return nil
}

// spread is the variance of the difference of the two versions' predictors.
func (e *Effects) spread(lo, hi *kernels.Batch, i int) (float64, error) {
	_, v, err := e.Linear(apart(e.Names, e.Fit, lo, hi, i), 0)
	return v, err
}

// apart is row i of hi minus that of lo, with the entries that f uses.
func apart(n *predict.Names, f *kernels.Fit, lo, hi *kernels.Batch, i int) *kernels.Batch {
	var b kernels.Batch
	b.Reset()
	fl, xl := n.Entries(f, lo, i)
	xl = slices.Clone(xl) // the next call reuses its memory
	fh, xh := n.Entries(f, hi, i)
	same := func(k int) bool { return k < len(fl) && k < len(fh) && fl[k] == fh[k] && xl[k] == xh[k] }
	signed := func(fs []uint32, xs []float64, sign float64) {
		for k, f := range fs {
			if !same(k) { // most entries are: a version changes one column
				b.Add(f, sign*xs[k])
			}
		}
	}
	signed(fl, xl, -1)
	signed(fh, xh, 1)
	var s kernels.Scratch
	b.SumDuplicates(&s)
	b.EndRow()
	return &b
}

// gradient adds by times row i of b.
func (e *Effects) gradient(b *kernels.Batch, i int, by float64) {
	fs, xs := e.Entries(e.Fit, b, i)
	for k, f := range fs {
		for int(f) >= len(e.grad) {
			e.grad = append(e.grad, 0)
		}
		e.grad[f] += by * xs[k]
	}
}

// Merge adds the rows of o, which must have the same fit and options.
func (e *Effects) Merge(o *Effects) {
	e.merge(o.tally)
	e.sum += o.sum
	for f, x := range o.grad {
		if x == 0 {
			continue
		}
		id, err := e.Features().AddRaw(string(o.Features().Name(uint32(f))))
		if err != nil {
			continue // only a dictionary as large as that of o
		}
		for int(id) >= len(e.grad) {
			e.grad = append(e.grad, 0)
		}
		e.grad[id] += x
	}
	for k, x := range o.draws {
		e.draws[k] += x
	}
}

// Clone returns an independent copy with s, a clone of its Scorer.
func (e *Effects) Clone(s *predict.Scorer) *Effects {
	c := *e
	c.Scorer = s
	c.grad, c.draws = slices.Clone(e.grad), slices.Clone(e.draws)
	if e.draw != nil {
		c.draw, _ = s.NewDraw() // e has one
	}
	return &c
}

// Size is the approximate memory held in addition to the Scorer, in bytes.
func (e *Effects) Size() int64 { return 512 + 8*int64(cap(e.grad)+cap(e.draws)) }

// Effect returns the effect over the rows: with draws, their mean, standard deviation and quantiles.
// Errors: a gradient that is not finite.
func (e *Effects) Effect() (Effect, error) {
	out := noEffect("", e.n)
	if e.n == 0 {
		return out, nil
	}
	if len(e.draws) > 0 {
		out.Estimate, out.Positive = predict.OfDraws(e.draws, 1/e.weight, e.o.Level)
		return out, nil
	}
	var b kernels.Batch
	b.Reset()
	for f, x := range e.grad {
		if x != 0 {
			b.Add(uint32(f), x/e.weight)
		}
	}
	b.EndRow()
	_, v, err := e.Linear(&b, 0)
	if err != nil {
		return out, err
	}
	out.Estimate, out.Positive = predict.Normal(e.sum/e.weight, v, e.o.Level)
	return out, nil
}

func noEffect(class string, n int64) Effect {
	nan := math.NaN()
	return Effect{Class: class, N: n, Estimate: predict.Estimate{Mean: nan, SD: nan, Lower: nan, Upper: nan}, Positive: nan}
}

package answer

import (
	"context"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/softmax"
	"github.com/bglm/bglm/kernels/stop"
)

// classEffects is Effects for the probability of each class of a softmax fit:
//
//	comparison  f_c = p_c(s_hi) - p_c(s_lo)
//	slope       f_c = Σ_k ∂p_c/∂s_k δ_k,     δ = ds/dz by class
//
// With Exact the slope is that of the expected probability, E[∂p_c/∂s] E[δ] + Σ E[∂²p_c/∂s_k∂s_l]
// Cov(s_k, δ_l), as for one response. The gradient is with respect to the weights of all classes.
//
// Cost: O(k C² nodes) per row: one node with Plugin, else a few hundred for up to three classes and
// narrow posteriors, 4,078 for wide ones of more; C² numbers for each feature.
type classEffects struct {
	*softmax.Scorer
	tally
	o      EffectOptions
	sum    []float64
	grad   []float64 // by feature, C x C of value and class
	draws  [][]float64
	draw   *softmax.Draw
	change *softmax.Changer
}

func newClassEffects(s *softmax.Scorer, o EffectOptions) (e *classEffects, err error) {
	e = &classEffects{Scorer: s, o: o, sum: make([]float64, len(s.Fit.Classes)), change: &softmax.Changer{}}
	if o.Draws > 0 {
		for range e.sum {
			e.draws = append(e.draws, make([]float64, o.Draws))
		}
		e.draw, err = s.NewDraw()
	}
	return e, err
}

// at is the mean and covariance of row i's predictors, copied.
func (e *classEffects) at(b *kernels.Batch, i int) (mean, cov []float64, err error) {
	m, v, err := e.Linear(b, i)
	return slices.Clone(m), slices.Clone(v), err
}

// Add adds the rows of lo and hi, as Effects.Add does.
func (e *classEffects) Add(ctx context.Context, lo, hi *kernels.Batch) error {
	if err := e.each(ctx, lo, func(i int, w float64) error { return e.add(lo, hi, i, w) }); err != nil {
		return err
	}
	if e.draw == nil {
		return nil
	}
	c := len(e.sum)
	still := make([]float64, c*c)
	a, delta := make([]float64, c), make([]float64, c)
	for k := range e.o.Draws {
		if err := stop.Cause(ctx); err != nil {
			return err
		}
		e.draw.Set(e.o.Seed, uint64(k))
		for i := range lo.Len() {
			w := weight(lo, i)
			f, err := e.draw.Linear(lo, i)
			if err != nil {
				return err
			}
			copy(a, f)
			if f, err = e.draw.Linear(hi, i); err != nil {
				return err
			}
			add := func(sign float64, value []float64) {
				for c, x := range value {
					e.draws[c][k] += sign * w * x
				}
			}
			if !e.o.Slopes {
				add(1, e.change.Expected(f, still, predict.Plugin).Value)
				add(-1, e.change.Expected(a, still, predict.Plugin).Value)
				continue
			}
			for c := range a {
				a[c], delta[c] = 0.5*(a[c]+f[c]), (f[c]-a[c])/(2*e.o.Step)
			}
			add(1, e.change.Sloped(a, still, delta, nil, predict.Plugin).Value)
		}
	}
	return nil
}

func (e *classEffects) add(lo, hi *kernels.Batch, i int, w float64) error {
	ml, vl, err := e.at(lo, i)
	if err != nil {
		return err
	}
	mh, vh, err := e.at(hi, i)
	if err != nil {
		return err
	}
	c := len(e.sum)
	if !e.o.Slopes {
		for _, v := range []struct {
			b         *kernels.Batch
			mean, cov []float64
			by        float64
		}{{lo, ml, vl, -w}, {hi, mh, vh, w}} {
			d := e.change.Expected(v.mean, v.cov, e.o.Kind)
			for k, x := range d.Value {
				e.sum[k] += v.by * x
			}
			if err := e.gradient(v.b, i, v.by, d.At); err != nil {
				return err
			}
		}
		return nil
	}
	h := e.o.Step
	delta := make([]float64, c)
	for k := range c {
		ml[k], delta[k] = 0.5*(ml[k]+mh[k]), (mh[k]-ml[k])/(2*h)
	}
	if e.o.Kind != predict.Plugin { // as Effects.add: the covariance is quadratic in the step
		_, u, err := e.Linear(apart(e.Names, e.Fit, lo, hi, i), 0)
		if err != nil {
			return err
		}
		for k := range vl {
			vl[k], vh[k] = 0.5*(vh[k]+vl[k])-u[k]/4, (vh[k]-vl[k])/(2*h)
		}
	}
	d := e.change.Sloped(ml, vl, delta, vh, e.o.Kind)
	for k, x := range d.Value {
		e.sum[k] += w * x
	}
	by := make([]float64, c*c)
	for _, v := range []struct {
		b    *kernels.Batch
		sign float64
	}{{lo, -1}, {hi, 1}} {
		for k := range by {
			by[k] = 0.5*d.At[k] + v.sign*d.Slope[k]/(2*h)
		}
		if err := e.gradient(v.b, i, w, by); err != nil {
			return err
		}
	}
	return nil
}

// room grows the gradient to n features.
// Errors: memory has no room for it.
func (e *classEffects) room(n int) error {
	n *= len(e.sum) * len(e.sum)
	if n > cap(e.grad) {
		if err := memory.Room(8*int64(n), "effects on classes, their gradient by the weights of all classes"); err != nil {
			return err
		}
	}
	if n > len(e.grad) {
		e.grad = append(e.grad, make([]float64, n-len(e.grad))...)
	}
	return nil
}

// gradient adds w times by, value and class, times row i of b.
func (e *classEffects) gradient(b *kernels.Batch, i int, w float64, by []float64) error {
	fs, xs := e.Entries(e.Fit, b, i)
	for k, f := range fs {
		if err := e.room(int(f) + 1); err != nil {
			return err
		}
		to := e.grad[int(f)*len(by):]
		for j, d := range by {
			to[j] += w * xs[k] * d
		}
	}
	return nil
}

// Merge adds the rows of o, which must have the same fit and options.
func (e *classEffects) Merge(o *classEffects) {
	e.merge(o.tally)
	dense.Axpy(1, o.sum, e.sum)
	block := len(e.sum) * len(e.sum)
	for f := range len(o.grad) / block {
		id, err := e.Features().AddRaw(string(o.Features().Name(uint32(f))))
		if err != nil {
			continue // a dictionary as large as that of o
		}
		if n := (int(id) + 1) * block; n > len(e.grad) {
			e.grad = append(e.grad, make([]float64, n-len(e.grad))...)
		}
		dense.Axpy(1, o.grad[f*block:(f+1)*block], e.grad[int(id)*block:][:block])
	}
	for c, d := range o.draws {
		dense.Axpy(1, d, e.draws[c])
	}
}

// Clone returns an independent copy with s, a clone of its Scorer.
func (e *classEffects) Clone(s *softmax.Scorer) *classEffects {
	c := *e
	c.Scorer, c.change = s, &softmax.Changer{}
	c.sum, c.grad, c.draws = slices.Clone(e.sum), slices.Clone(e.grad), nil
	for _, d := range e.draws {
		c.draws = append(c.draws, slices.Clone(d))
	}
	if e.draw != nil {
		c.draw, _ = s.NewDraw() // e has one
	}
	return &c
}

// Size is the approximate memory held in addition to the Scorer, in bytes.
func (e *classEffects) Size() int64 {
	n := int64(cap(e.grad))
	for _, d := range e.draws {
		n += int64(len(d))
	}
	return 1024 + 8*n
}

// Effects returns the effects over the rows, by class.
// Errors: a gradient that is not finite.
func (e *classEffects) Effects() ([]Effect, error) {
	out := make([]Effect, len(e.sum))
	c := len(out)
	var fs []uint32
	for f := range len(e.grad) / (c * c) {
		fs = append(fs, uint32(f))
	}
	by := make([]float64, len(fs)*c)
	for k := range out {
		out[k] = noEffect(e.Fit.Classes[k], e.n)
		switch {
		case e.n == 0:
		case e.draw != nil:
			out[k].Estimate, out[k].Positive = predict.OfDraws(e.draws[k], 1/e.weight, e.o.Level)
		default:
			for f := range fs {
				for j := range c {
					by[f*c+j] = e.grad[(f*c+k)*c+j] / e.weight
				}
			}
			m, v := e.sum[k]/e.weight, e.Variance(fs, by)
			if err := kernels.CheckPredictor(m, v); err != nil {
				return nil, err
			}
			out[k].Estimate, out[k].Positive = predict.Normal(m, v, e.o.Level)
		}
	}
	return out, nil
}

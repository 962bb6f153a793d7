package answer

import (
	"context"
	"errors"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/softmax"
)

// Comparisons are the Effects of several comparisons under one fit, of one response or of classes.
type Comparisons struct {
	Fit     *kernels.Fit
	one     *predict.Scorer
	of      []*Effects
	many    *softmax.Scorer
	classes []*classEffects
}

// NewComparisons returns comparisons without rows.
// Errors: those of NewEffects; a fit whose beliefs, covariance or likelihood are not valid.
func NewComparisons(f *kernels.Fit, how []EffectOptions) (*Comparisons, error) {
	if f == nil {
		return nil, kernels.ErrNoFit
	}
	c := &Comparisons{Fit: f}
	f = f.ForPrediction()
	var err error
	if f.Family == kernels.Multinomial && len(f.Classes) == 0 {
		return nil, errors.New("the fit knows no class: none of its rows had one")
	}
	if len(f.Classes) > 0 {
		c.many, err = softmax.NewScorer(f)
	} else {
		c.one, err = predict.New(f)
	}
	if err != nil {
		return nil, err
	}
	for _, o := range how {
		if c.one != nil {
			e, err := NewEffects(c.one, o)
			if err != nil {
				return nil, err
			}
			c.of = append(c.of, e)
			continue
		}
		if err := o.complete(); err != nil {
			return nil, err
		}
		e, err := newClassEffects(c.many, o)
		if err != nil {
			return nil, err
		}
		c.classes = append(c.classes, e)
	}
	return c, nil
}

// Features numbers the features of the rows.
func (c *Comparisons) Features() *kernels.Dict {
	if c.many != nil {
		return c.many.Features()
	}
	return c.one.Features()
}

// Add adds rows to comparison k, as Effects.Add does.
func (c *Comparisons) Add(ctx context.Context, k int, lo, hi *kernels.Batch) error {
	if c.many != nil {
		return c.classes[k].Add(ctx, lo, hi)
	}
	return c.of[k].Add(ctx, lo, hi)
}

// Merge adds the rows of o, which must have the same fit and comparisons.
func (c *Comparisons) Merge(o *Comparisons) {
	for k, e := range c.of {
		e.Merge(o.of[k])
	}
	for k, e := range c.classes {
		e.Merge(o.classes[k])
	}
}

// Clone returns an independent copy.
func (c *Comparisons) Clone() *Comparisons {
	d := &Comparisons{Fit: c.Fit}
	if c.many != nil {
		d.many = c.many.Clone()
	} else {
		d.one = c.one.Clone()
	}
	for _, e := range c.of {
		d.of = append(d.of, e.Clone(d.one))
	}
	for _, e := range c.classes {
		d.classes = append(d.classes, e.Clone(d.many))
	}
	return d
}

// Size is the approximate memory held, in bytes.
func (c *Comparisons) Size() int64 {
	n := FitSize(c.Fit)
	for _, e := range c.of {
		n += e.Size()
	}
	for _, e := range c.classes {
		n += e.Size()
	}
	return n
}

// Effect returns the effect of comparison k, one for each class of a fit with classes.
// Errors: a gradient that is not finite.
func (c *Comparisons) Effect(k int) ([]Effect, error) {
	if c.many != nil {
		return c.classes[k].Effects()
	}
	e, err := c.of[k].Effect()
	return []Effect{e}, err
}

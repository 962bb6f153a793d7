package kernels

import (
	"errors"
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/lik"
)

// ErrRow marks an error that concerns one row only, so that it can be skipped.
var ErrRow = errors.New("bad row")

// RowError marks err as ErrRow without changing its text.
func RowError(err error) error { return fmt.Errorf("%w%w", errQuiet, err) }

// errQuiet wraps ErrRow without showing in the text.
var errQuiet error = quiet{}

type quiet struct{}

func (quiet) Error() string        { return "" }
func (quiet) Is(target error) bool { return target == ErrRow }

// Obs is the observation of row i.
func (b *Batch) Obs(i int) lik.Obs {
	o := lik.Obs{Y: b.Y[i], Weight: 1}
	if len(b.Weight) > 0 {
		o.Weight = b.Weight[i]
	}
	if len(b.Trials) > 0 {
		o.Trials = b.Trials[i]
	}
	return o
}

// Shift is the offset of row i.
func (b *Batch) Shift(i int) float64 {
	if len(b.Offset) > 0 {
		return b.Offset[i]
	}
	return 0
}

// Rows keeps the rows of one fit for the engines that read them more than once.
// The intercept, where the model has one, is feature 0.
type Rows struct {
	Model   *Model
	Dict    Dict
	Batch   Batch
	skipped int64
}

// NewRows returns rows without any, with the features that the model names.
// Errors: more of them than MaxFeatures.
func NewRows(m *Model) (*Rows, error) {
	r := &Rows{Model: m}
	r.Batch.Reset()
	return r, m.Name(&r.Dict)
}

// Name adds the features that the model names to an empty dictionary: the
// intercept first, then those of Priors and Start.
func (m *Model) Name(d *Dict) error {
	d.HashBits, d.Max = m.HashBits, m.MaxFeatures
	if m.Intercept {
		if _, err := d.AddRaw(Intercept); err != nil {
			return err
		}
	}
	for _, b := range m.Priors {
		if _, err := d.AddRaw(b.Feature); err != nil {
			return err
		}
	}
	if m.Start != nil {
		for _, b := range m.Start.Beliefs {
			if _, err := d.AddRaw(b.Feature); err != nil {
				return err
			}
		}
	}
	return nil
}

// Skip counts rows that were left out.
func (r *Rows) Skip(n int64) { r.skipped += n }

// Update keeps the rows of b, whose feature numbers are those of r.Dict. With
// skip, rows outside the support of the likelihood are counted and left out, else
// the first one ends the update with an error that Is ErrRow.
func (r *Rows) Update(b *Batch, skip bool) error {
	d := &r.Batch
	for i := range b.Len() {
		if l := r.Model.Lik; l != nil {
			if err := l.Check(b.Obs(i)); err != nil {
				if skip {
					r.skipped++
					continue
				}
				return RowError(err)
			}
		}
		n := d.Len()
		lo, hi := b.Row[i], b.Row[i+1]
		d.Feature = append(d.Feature, b.Feature[lo:hi]...)
		d.Value = append(d.Value, b.Value[lo:hi]...)
		d.EndRow()
		d.Y = append(d.Y, b.Y[i])
		keep := func(dst *[]float64, src []float64, absent float64) {
			if len(src) == 0 && len(*dst) == 0 {
				return
			}
			for len(*dst) < n {
				*dst = append(*dst, absent)
			}
			v := absent
			if len(src) > 0 {
				v = src[i]
			}
			*dst = append(*dst, v)
		}
		keep(&d.Weight, b.Weight, 1)
		keep(&d.Offset, b.Offset, 0)
		keep(&d.Trials, b.Trials, 0)
		keep(&d.Time, b.Time, 0)
	}
	return nil
}

// Merge appends the rows of src, a state of the same model. src is not changed.
// Errors: src's features exceed the dictionary's limit.
func (r *Rows) Merge(src *Rows) error {
	ids := make([]uint32, src.Dict.Len())
	for j := range ids {
		id, err := r.Dict.AddRaw(string(src.Dict.Name(uint32(j))))
		if err != nil {
			return err
		}
		ids[j] = id
	}
	b := src.Batch
	b.Feature = make([]uint32, len(b.Feature))
	for k, f := range src.Batch.Feature {
		b.Feature[k] = ids[f]
	}
	m := *r.Model
	m.Lik = nil // they were checked
	t := Rows{Model: &m, Batch: r.Batch}
	if err := t.Update(&b, false); err != nil {
		return err
	}
	r.Batch = t.Batch
	r.skipped += src.skipped
	return nil
}

// Clone returns an independent copy.
func (r *Rows) Clone() *Rows {
	c := *r
	c.Dict = r.Dict.Clone()
	b := &c.Batch
	b.Row = append([]int(nil), b.Row...)
	b.Feature = append([]uint32(nil), b.Feature...)
	for _, s := range []*[]float64{&b.Value, &b.Y, &b.Weight, &b.Offset, &b.Trials, &b.Time} {
		*s = append([]float64(nil), *s...)
	}
	return &c
}

// Size is the memory held, in bytes.
func (r *Rows) Size() int64 {
	b := &r.Batch
	return r.Dict.Size() + 200 + 4*int64(cap(b.Feature)) +
		8*int64(cap(b.Row)+cap(b.Value)+cap(b.Y)+cap(b.Weight)+cap(b.Offset)+cap(b.Trials)+cap(b.Time))
}

// Len is the number of rows kept.
func (r *Rows) Len() int { return r.Batch.Len() }

// finiteOr reports the first value that is not finite.
func finiteOr(what string, vs []float64) error {
	for i, v := range vs {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return RowError(fmt.Errorf("row %d: %s = %v; allowed: finite numbers", i+1, what, v))
		}
	}
	return nil
}

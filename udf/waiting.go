package udf

import (
	"errors"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
)

// alike is what rows have in common that all have the same features. Nobody changes it.
type alike struct {
	names  *kernels.Dict // their features; groups share it
	shared []uint32
	schema *kernels.Schema
	has    [4]bool       // weight, offset, trials, time
	width  int           // numbers a row: the values, the response and what it has of these
	ready  engine.Fitter // for such rows, of which it has none; groups begin as its clones
}

// alikeOf is what the rows of b have in common, whose features names has, for groups that
// begin as empty. Errors: no room for so many features.
func alikeOf(empty engine.Fitter, names *kernels.Dict, b *kernels.Batch) (*alike, error) {
	a := &alike{names: names, shared: slices.Clone(b.Shared), schema: b.Schema, width: len(b.Shared) + 1, ready: empty.Clone()}
	if f, ok := a.ready.(engine.Sharer); ok {
		f.Share(names)
		if err := a.ready.Update(running(), &kernels.Batch{Shared: a.shared, Schema: a.schema}, false); err != nil {
			return nil, err
		}
	}
	for k, s := range scalarsOf(b) {
		if a.has[k] = len(*s) > 0; a.has[k] {
			a.width++
		}
	}
	return a, nil
}

func scalarsOf(b *kernels.Batch) [4]*[]float64 {
	return [4]*[]float64{&b.Weight, &b.Offset, &b.Trials, &b.Time}
}

// describes says whether the rows of b are such rows.
func (a *alike) describes(b *kernels.Batch) bool {
	for k, s := range scalarsOf(b) {
		if a.has[k] != (len(*s) > 0) {
			return false
		}
	}
	return a.schema == b.Schema && slices.Equal(a.shared, b.Shared)
}

// maxWaiting is how many numbers wait for a small group: its rows take less memory than its
// beliefs, and with a million of them each belief is then made, used and written while it is
// in the cache.
var maxWaiting = 64

// waiting are the rows of a small group while nothing has been learnt from them: row after
// row the values, the response and the scalars that they have.
type waiting struct {
	alike *alike
	rows  []float64
}

// shares says whether s can take rows of a dictionary that groups share.
func (s *fitState) shares() bool {
	if s.Fitter == nil {
		return true
	}
	_, ok := s.Fitter.(engine.Sharer)
	return ok
}

// wait keeps the rows of b, which a describes, for later. It says false where they are to
// be learnt now.
func (s *fitState) wait(a *alike, b *kernels.Batch) bool {
	n := b.Len()
	if s.Fitter != nil || len(s.rows)+n*a.width > maxWaiting || s.alike != nil && s.alike != a || !a.describes(b) {
		return false
	}
	s.alike = a
	if s.rows == nil { // few groups have a single row
		s.rows = make([]float64, 0, max(n, 2)*a.width)
	}
	w := len(a.shared)
	scalars := scalarsOf(b)
	for i := range n {
		s.rows = append(s.rows, b.Value[i*w:(i+1)*w]...)
		s.rows = append(s.rows, b.Y[i])
		for k, has := range a.has {
			if has {
				s.rows = append(s.rows, (*scalars[k])[i])
			}
		}
	}
	return true
}

// wake makes the fit of the rows that wait, which more will follow.
func (s *fitState) wake() error {
	if s.Fitter != nil {
		return nil
	}
	w := s.waiting
	s.waiting = waiting{}
	if w.alike == nil {
		s.Fitter = s.plan.empty.Clone()
		return nil
	}
	s.Fitter = w.alike.ready.Clone()
	return s.learn(w)
}

// fitter is the fit of all rows, and whether one of them made it void; s stays as it is.
func (s *fitState) fitter() (f engine.Fitter, void bool, err error) {
	if s.Fitter != nil {
		return s.Fitter, s.failed, nil
	}
	c := *s
	err = c.wake()
	return c.Fitter, c.failed, err
}

// follow adds the rows that wait in o.
func (s *fitState) follow(o *fitState) error {
	if s.Fitter == nil && len(s.rows)+len(o.rows) <= maxWaiting && (s.alike == o.alike || s.alike == nil) {
		s.alike, s.rows = o.alike, append(s.rows, o.rows...)
		return nil
	}
	if err := s.wake(); err != nil {
		return err
	}
	if a := o.alike; a == nil || s.Fitter.(engine.Sharer).Share(a.names) {
		return s.learn(o.waiting)
	}
	f, void, err := o.fitter()
	if err != nil {
		return err
	}
	s.failed = s.failed || void
	return s.Fitter.Merge(running(), f)
}

// learn feeds rows that waited to the fit, which has their features.
func (s *fitState) learn(w waiting) error {
	a := w.alike
	if a == nil {
		return nil
	}
	b := batches.Get().(*kernels.Batch)
	defer batches.Put(b)
	b.Reset()
	scalars, n := scalarsOf(b), len(a.shared)
	for r := w.rows; len(r) > 0; r = r[a.width:] {
		b.Value = append(b.Value, r[:n]...)
		b.Y = append(b.Y, r[n])
		at := n + 1
		for k, has := range a.has {
			if has {
				*scalars[k] = append(*scalars[k], r[at])
				at++
			}
		}
	}
	b.Shared, b.Schema = a.shared, a.schema
	defer func() { b.Shared = nil }() // which is not its own
	return s.update(b)
}

// update learns from the rows of b.
func (s *fitState) update(b *kernels.Batch) error {
	err := s.Fitter.Update(running(), b, s.plan.onError == option.Skip)
	if s.plan.onError == option.Null && errors.Is(err, kernels.ErrRow) {
		s.failed, err = true, nil
	}
	return advised(err)
}

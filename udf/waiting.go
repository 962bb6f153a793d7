package udf

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// rowKind is what rows with the same features have in common. It is immutable.
type rowKind struct {
	names  *kernels.Dict // their features; groups share it
	shared []uint32
	schema *kernels.Schema
	has    [4]bool       // weight, offset, trials, time
	layout *rows.Layout  // of those that waited, else nil
	ready  engine.Fitter // a fit prepared for such rows, without any; groups begin as its clones
	spare  sync.Pool     // of clones no longer needed
}

// fitter is a new fit for such rows.
func (a *rowKind) fitter() engine.Fitter {
	r, ok := a.ready.(engine.Recycler)
	if !ok {
		return a.ready.Clone()
	}
	old, _ := a.spare.Get().(engine.Fitter)
	return r.CloneTo(old)
}

// release gives back a fit that fitter returned.
func (a *rowKind) release(f engine.Fitter) {
	if _, ok := a.ready.(engine.Recycler); ok {
		a.spare.Put(f)
	}
}

// alikeOf is what the rows of b, whose features are in names, have in common, for groups that begin
// as empty. Errors: no room for so many features.
func alikeOf(empty engine.Fitter, names *kernels.Dict, b *kernels.Batch) (*rowKind, error) {
	a := &rowKind{names: names, shared: slices.Clone(b.Shared), schema: b.Schema, ready: empty.Clone()}
	if f, ok := a.ready.(engine.Sharer); ok {
		f.Share(names)
		if err := a.ready.Update(running(), &kernels.Batch{Shared: a.shared, Schema: a.schema}, false); err != nil {
			return nil, err
		}
	}
	for k, s := range scalarsOf(b) {
		a.has[k] = len(*s) > 0
	}
	return a, nil
}

func scalarsOf(b *kernels.Batch) [4]*[]float64 {
	return [4]*[]float64{&b.Weight, &b.Offset, &b.Trials, &b.Time}
}

// may reports whether rows of src can be such rows, judging by its columns.
func (a *rowKind) may(src *rows.Source) bool {
	for k, c := range [...]rows.Column{src.Weight, src.Offset, src.Trials, src.Time} {
		if a.has[k] != (c != nil) {
			return false
		}
	}
	return a.names.Uses(src.X.Columns())
}

// rowKinds are the kinds of rows that a plan has seen: options are parsed once for all queries of a
// process, whose columns differ.
type rowKinds struct {
	seen atomic.Pointer[[]*rowKind]
	mu   sync.Mutex
}

// maxKinds is how many are kept; the first seen are dropped when there are more.
const maxKinds = 8

func (k *rowKinds) all() []*rowKind {
	if p := k.seen.Load(); p != nil {
		return *p
	}
	return nil
}

// add keeps a, of rows of src, and returns it, or an equal one that another thread was first to
// add.
func (k *rowKinds) add(a *rowKind, src *rows.Source) *rowKind {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.all()
	for _, o := range old {
		if o.layout == a.layout && o.may(src) && o.schema == a.schema && slices.Equal(o.shared, a.shared) {
			return o
		}
	}
	list := append([]*rowKind{a}, old[:min(len(old), maxKinds-1)]...)
	k.seen.Store(&list)
	return a
}

// describes reports whether the rows of b are such rows.
func (a *rowKind) describes(b *kernels.Batch) bool {
	for k, s := range scalarsOf(b) {
		if a.has[k] != (len(*s) > 0) {
			return false
		}
	}
	return a.schema == b.Schema && slices.Equal(a.shared, b.Shared)
}

// maxWaiting is about how many bytes of rows wait for a small group: they take less memory than its
// fit, and with a million groups each fit is then made, used and written while it is in the cache.
var maxWaiting = 512

// waiting holds the rows of a small group until something is learnt from them.
type waiting struct {
	layout *rows.Layout
	rows   []byte
}

// wait stores rows [lo, hi) of src, which has that layout, for later. It returns false if they are
// to be learnt now.
func (s *fitState) wait(p *rows.Packer, l *rows.Layout, src *rows.Source, lo, hi int) bool {
	if s.Fitter != nil || l == nil || s.layout != nil && s.layout != l {
		return false
	}
	if s.rows == nil { // room for a few rows; more will grow it
		s.rows = make([]byte, 0, waitingFrom)
	}
	var ok bool
	if s.rows, ok = p.Pack(l, s.rows, src, lo, hi, maxWaiting); ok {
		s.layout = l
	}
	return ok
}

// waitingFrom is the initial capacity in bytes.
const waitingFrom = 96

// materialize makes the fit of the waiting rows, to which more will be added.
func (s *fitState) materialize() (err error) {
	if s.Fitter != nil {
		return nil
	}
	w := s.waiting
	s.waiting = waiting{}
	if w.layout == nil {
		s.Fitter, err = s.plan.begin()
		return err
	}
	_, err = s.learn(w)
	return err
}

// learn feeds rows that waited to the fit. If there was no fit and a suitable kind is known, the
// fit comes from that kind, which is returned.
func (s *fitState) learn(w waiting) (a *rowKind, err error) {
	if w.layout == nil {
		return nil, nil
	}
	if a, done, err := s.learnNumbers(w); done || err != nil {
		return a, err
	}
	u, n, err := w.layout.Unpack(w.rows)
	if err != nil {
		return nil, err
	}
	defer u.Close()
	block := blocks.Get().(*sharedBlock)
	defer blocks.Put(block)
	block.begin(u.Source, n)
	block.layout = w.layout
	return nil, block.feed(s, 0, n)
}

// learnNumbers is learn for rows of numbers of a kind seen before, whose features need not be
// looked up; done is false for other rows, or if one is invalid.
func (s *fitState) learnNumbers(w waiting) (of *rowKind, done bool, err error) {
	m := s.plan.model
	var a *rowKind
	for _, o := range s.plan.alike.all() {
		if o.layout == w.layout {
			a = o
		}
	}
	if a == nil || m.Start != nil {
		return nil, false, nil
	}
	b := batches.Get().(*kernels.Batch)
	defer batches.Put(b)
	b.Reset()
	if !w.layout.Numbers(w.rows, !m.NoIntercept, len(a.shared), b) || !rows.Valid(m.Lik, b) {
		return nil, false, nil
	}
	if s.Fitter == nil {
		s.Fitter, of = a.fitter(), a
	} else if f, ok := s.Fitter.(engine.Sharer); !ok || !f.Share(a.names) {
		return nil, false, nil
	}
	b.Shared, b.Schema = a.shared, a.schema
	defer func() { b.Shared = nil }() // the slice belongs to the kind
	return of, true, s.update(b)
}

// waitedError is an error in rows that waited. It fails the query, as it would have if the rows had
// been learnt at once: no group becomes NULL for it.
type waitedError struct{ error }

func (e waitedError) Unwrap() error { return e.error }

// materialized is a group woken for its answer or a merge, with a fit of all its rows. That fit is
// given back afterwards to of, the kind of rows that it came from, if any.
type materialized struct {
	fitState
	of *rowKind
}

// materialize makes the fit of the rows of s, which is unchanged.
func (w *materialized) materialize(s *fitState) (err error) {
	w.fitState = *s
	switch {
	case s.Fitter != nil:
	case s.layout == nil:
		err = w.fitState.materialize()
	default:
		w.waiting = waiting{}
		w.of, err = w.learn(s.waiting)
	}
	return err
}

// release gives back what w no longer needs after its fit ended with err; an interrupt may leave it
// in use.
func (w *materialized) release(err error) {
	if w.of != nil && !interrupted(err) {
		w.of.release(w.Fitter)
	}
	*w = materialized{}
}

// appendWaiting adds the rows that wait in o.
func (s *fitState) appendWaiting(o *fitState) error {
	if s.Fitter == nil && len(s.rows)+len(o.rows) <= maxWaiting && (s.layout == nil || o.layout == nil || s.layout == o.layout) {
		if o.layout != nil {
			s.layout = o.layout
		}
		s.rows = append(s.rows, o.rows...)
		return nil
	}
	if err := s.materialize(); err != nil {
		return err
	}
	_, err := s.learn(o.waiting)
	return err
}

// update learns from the rows of b.
func (s *fitState) update(b *kernels.Batch) error {
	err := s.Fitter.Update(running(), b, s.plan.onError == option.Skip)
	if s.plan.onError == option.Null && errors.Is(err, kernels.ErrRow) {
		s.failed, err = true, nil
	}
	return advised(err)
}

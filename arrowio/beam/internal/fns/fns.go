// Package fns holds and registers the functions that Apache Beam runs on the workers. It is a small
// package of its own because Beam finds these functions by the registrations of the packages that a
// program imports; the work itself is in package parts.
package fns

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/bglm/bglm/arrowio/beam/parts"
)

func init() {
	beam.RegisterCoder(reflect.TypeFor[parts.State](), encode, parts.DecodeState)
	for _, t := range []reflect.Type{reflect.TypeFor[NothingFn](), reflect.TypeFor[SplitFn](), reflect.TypeFor[PassFn](), reflect.TypeFor[SolveFn](),
		reflect.TypeFor[ShardFn](), reflect.TypeFor[WriteFn]()} {
		beam.RegisterDoFn(t)
	}
	for _, t := range []reflect.Type{reflect.TypeFor[MergeFn](), reflect.TypeFor[parts.Split](), reflect.TypeFor[Stored]()} {
		beam.RegisterType(t)
	}
}

func encode(s parts.State) ([]byte, error) { return s.Bytes() }

// Counters of a pipeline, in the namespace bglm. Prism loses some.
var (
	rows   = beam.NewCounter("bglm", "rows")        // read, in all rounds
	states = beam.NewCounter("bglm", "states")      // emitted
	size   = beam.NewCounter("bglm", "state_bytes") // of the states
)

// NothingFn makes an empty collection, by group.
type NothingFn struct{}

// ProcessElement emits nothing.
func (*NothingFn) ProcessElement([]byte, func(string, []byte)) {}

// SplitFn lists the parts of the rows.
type SplitFn struct{ Job parts.Job }

// ProcessElement emits the parts.
func (f *SplitFn) ProcessElement(_ []byte, emit func(parts.Split)) error {
	all, err := f.Job.Splits()
	for _, s := range all {
		emit(s)
	}
	return err
}

// PassFn makes a pass over a part.
type PassFn struct {
	Job   parts.Job
	Round int // from 0

	reader *parts.Reader
}

// Setup makes the reader.
func (f *PassFn) Setup() (err error) {
	f.reader, err = parts.NewReader(&f.Job)
	return err
}

// ProcessElement emits a state for each group, expanded around the iterate of the round before.
func (f *PassFn) ProcessElement(ctx context.Context, s parts.Split, before func(*string, *[]byte) bool, emit func(string, []byte)) error {
	around := map[string]*parts.Iterate{}
	var group string
	var b []byte
	for before(&group, &b) {
		t, err := parts.DecodeIterate(bytes.Clone(b))
		if err != nil {
			return err
		}
		around[group] = t
	}
	n, err := f.reader.Read(ctx, s, f.Round, around, func(group string, s parts.State) error {
		b, err := s.Bytes()
		if err == nil {
			states.Inc(ctx, 1)
			size.Inc(ctx, int64(len(b)))
			emit(group, b)
		}
		return err
	})
	rows.Inc(ctx, n)
	return err
}

// MergeFn merges the states of a group: the accumulator of CombinePerKey.
type MergeFn struct {
	Job parts.Job

	merger *parts.Merger
}

// Setup makes the merger.
func (f *MergeFn) Setup() (err error) {
	f.merger, err = parts.NewMerger(&f.Job)
	return err
}

// CreateAccumulator returns the state of no rows.
func (f *MergeFn) CreateAccumulator() parts.State { return parts.State{} }

// AddInput merges the state of a part.
func (f *MergeFn) AddInput(ctx context.Context, a parts.State, b []byte) (parts.State, error) {
	s, err := parts.DecodeState(b)
	if err != nil {
		return a, err
	}
	return f.merger.Merge(ctx, a, s)
}

// MergeAccumulators merges two states.
func (f *MergeFn) MergeAccumulators(ctx context.Context, a, b parts.State) (parts.State, error) {
	return f.merger.Merge(ctx, a, b)
}

// ExtractOutput encodes the state.
func (f *MergeFn) ExtractOutput(s parts.State) ([]byte, error) { return s.Bytes() }

// SolveFn ends a round for a group.
type SolveFn struct {
	Job parts.Job

	solver *parts.Solver
}

// Setup makes the solver.
func (f *SolveFn) Setup() (err error) {
	f.solver, err = parts.NewSolver(&f.Job)
	return err
}

// ProcessElement emits a group's next iterate, or the iterate before if there is no state, because
// the group was done.
func (f *SolveFn) ProcessElement(ctx context.Context, group string, state, before func(*[]byte) bool, emit func(string, []byte)) error {
	var b []byte
	var t *parts.Iterate
	if before(&b) {
		var err error
		if t, err = parts.DecodeIterate(b); err != nil {
			return err
		}
	}
	var merged []byte
	if !state(&merged) {
		emit(group, b)
		return nil
	}
	s, err := parts.DecodeState(merged)
	if err != nil {
		return err
	}
	if t, err = f.solver.Solve(ctx, group, s, t); err != nil {
		return fmt.Errorf("group %s: %w", group, err)
	}
	emit(group, t.Bytes())
	return nil
}

// Stored is an iterate on its way to a file.
type Stored struct {
	Group   string
	Iterate []byte
}

// ShardFn assigns groups to files, the same in every run.
type ShardFn struct{ Shards int }

// ProcessElement emits the iterate with the number of its file.
func (f *ShardFn) ProcessElement(group string, b []byte, emit func(int, Stored)) {
	h := fnv.New32a()
	h.Write([]byte(group))
	emit(int(h.Sum32()%uint32(max(f.Shards, 1))), Stored{group, b})
}

// WriteFn writes the fits of a file.
type WriteFn struct {
	Job    parts.Job
	Path   string
	Shards int
}

// ProcessElement emits the name of the file.
func (f *WriteFn) ProcessElement(ctx context.Context, shard int, next func(*Stored) bool, emit func(string)) error {
	fits := parts.Fits{}
	var s Stored
	for next(&s) {
		t, err := parts.DecodeIterate(s.Iterate)
		if err != nil {
			return err
		}
		fit, err := t.Fit()
		if err != nil {
			return err
		}
		fits[s.Group] = fit
	}
	path := parts.ShardPath(f.Path, shard, f.Shards)
	if err := f.Job.Write(ctx, path, fits); err != nil {
		return err
	}
	emit(path)
	return nil
}

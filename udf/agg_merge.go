package udf

import (
	"fmt"
	"iter"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/udf/internal/capi"
)

// mergeState is the aggregate state of bglm_merge.
type mergeState struct{ *kernels.Merger }

func (s *mergeState) Clone() capi.State { return &mergeState{s.Merger.Clone()} }

func (s *mergeState) Merge(src capi.State) error {
	o, ok := src.(*mergeState)
	if !ok {
		return errMixedStates
	}
	return s.Merger.Merge(o.Merger)
}

// all yields the beliefs of row i; their names lie in DuckDB's memory.
func (r *beliefReader) all(i int) iter.Seq2[kernels.Belief, error] {
	return func(yield func(kernels.Belief, error) bool) {
		for j, hi := r.list.Span(i); j < hi; j++ {
			name, w, err := r.at(j)
			if !yield(kernels.Belief{Feature: name, Weight: w}, err) {
				return
			}
		}
	}
}

func updateMerge(args []capi.Vec, slots capi.Slots) error {
	fits, err := newFitReader(&args[0], "fit")
	if err != nil {
		return err
	}
	var priors *fitReader
	var starts decoded[*kernels.Fit]
	if len(args) > 1 {
		if priors, err = newFitReader(&args[1], "prior"); err != nil {
			return err
		}
		starts.of(&args[1], func(i int) (*kernels.Fit, error) {
			if priors.null(i) {
				return nil, nil
			}
			p, err := priors.whole(i)
			if err != nil {
				return nil, fmt.Errorf("prior: %w", err)
			}
			return p, nil
		})
	}
	return slots.Runs(func(slot capi.Slot, lo, hi int) error {
		for i := lo; i < hi; i++ {
			if fits.null(i) {
				continue // NULL is ignored, as in sum
			}
			f, err := fits.head(i)
			if err != nil {
				return err
			}
			var p *kernels.Fit
			if priors != nil {
				if p, err = starts.at(i); err != nil {
					return err
				}
			}
			st, err := slot.Mutable(func() (capi.State, error) {
				m, err := kernels.NewMerger(f, p)
				return &mergeState{m}, err
			})
			if err != nil {
				return err
			}
			m := st.(*mergeState).Merger
			if err := m.StartsFrom(p); err != nil {
				return err
			}
			if m.Joint(f) {
				whole, err := fits.whole(i)
				if err != nil {
					return err
				}
				whole.Converged, whole.Status = f.Converged, strings.Clone(f.Status)
				if err := m.AddJoint(whole); err != nil {
					return err
				}
				continue
			}
			if err := m.Add(f, fits.beliefs.all(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

func writeMerge(s *mergeState, out *capi.Col) error {
	f, each, err := s.Fit(running(), adf.MergeArrowheads)
	if err != nil {
		return err
	}
	appendFit(out, f, each)
	return nil
}

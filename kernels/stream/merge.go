package stream

import (
	"context"
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/stop"
)

// Merge absorbs a state of the same model and rule that saw other rows: the product of the
// posteriors with the shared prior counted once, Λ = Λa + Λb - Λ0, over the features of both. It is
// exact for a Gaussian likelihood without drift if the form is exact, and if no two rows of
// different states share a non-Gaussian weight; otherwise it is the usual embarrassingly parallel
// approximation. With drift both are first brought to the later time (rows without time continue
// the count: src comes after s), and the prior counts with the larger of the two drifts.
//
// The log evidence gains log ∫ q_a q_b / p0, the overlap that the two parts lack: exact if the
// product is, but far off for factorised beliefs of correlated features fitted apart, which Summary
// reports.
//
// src is not changed. After a cancelled ctx s is unusable.
// Errors: src's features exceed a limit; the product is improper.
func (s *State) Merge(ctx context.Context, src *State) (err error) {
	if s.plan.slow {
		halt := s.startStop(ctx)
		defer halt.End(&err)
		halt.Check()
	} else if err := stop.Cause(ctx); err != nil {
		return err
	}
	return stop.Run(ctx, s.long() || src.long(), func() error {
		g, err := s.form.Reserve(5, "merging fits")
		if err != nil {
			return err
		}
		defer g.Release()
		return s.merge(ctx, src)
	})
}

func (s *State) merge(ctx context.Context, src *State) error {
	if err := s.Grow(); err != nil {
		return err
	}
	src, err := s.matchRates(src)
	if err != nil {
		return err
	}
	g := Merging{OtherDict: src.dict, Grown: s.dict.Len(), Now: s.clock, OtherNow: src.clock, Seen: s.seen, Brought: src.seen}
	if s.dict != src.dict {
		if g.IDs, err = s.Features().Merge(src.dict); err != nil {
			return err
		}
	}
	g.Dict = s.dict
	if err := s.Grow(); err != nil {
		return err
	}
	if err := stop.Cause(ctx); err != nil {
		return err
	}
	if err := s.counted.Merge(&src.counted, s.plan.Model.Start); err != nil {
		return err
	}
	s.mergeMeans(src, g.ID)
	s.mergeSizes(src, g.ID)
	g.Prepare = func(Form) {}
	if s.units != nil {
		if src, err = s.toCommonUnits(src, &g); err != nil {
			return err
		}
	}
	if src, err = s.shareVariances(src, &g); err != nil {
		return err
	}
	g.Clock, g.Begun = s.together(src)
	product, err := s.form.Merge(src.form, &g)
	if err != nil {
		return err
	}
	if product != nil {
		if err := s.multiply(ctx, product, src); err != nil {
			return err
		}
	}
	s.join(src, &g)
	return nil
}

// multiply replaces the beliefs of all members by their product with those of src.
func (s *State) multiply(ctx context.Context, product Product, src *State) error {
	for k := range s.bank {
		if err := stop.Cause(ctx); err != nil {
			return err
		}
		b, o := &s.bank[k], &src.bank[k]
		parts := int64(0)
		apart, err := s.mergeBelief(k, src, func() (float64, error) {
			scale := [3]float64{1, 1, 1} // λ of b, of o and of their start
			if b.learning != nil {
				known := product.Known(k)
				parts = known[0] + known[1] - known[2]
				if λ := b.learning.Merge(o.learning.Learning, known); s.plan.noise {
					scale = λ
				}
			}
			if b.learner() != nil {
				scale = s.mergeLearner(b.learner(), o.learner())
			}
			sum, apart, conflict, err := product.Multiply(k, scale, b.logZ)
			if err != nil {
				return 0, fmt.Errorf("merging partial states: %w", err)
			}
			if b.counts() != nil {
				b.counts().score += sum - b.logZ
			}
			b.logZ, b.conflict = sum, max(b.conflict, conflict)
			return apart, nil
		})
		if err != nil {
			return err
		}
		if parts != 0 {
			s.rescale(k, b.learning.Disagree(apart, parts, s.form.Determined(k)))
		}
	}
	product.Done()
	return nil
}

// join adds up what both states hold besides the beliefs, and learns the priors anew.
func (s *State) join(src *State, g *Merging) {
	both := s.seen && src.seen
	s.clock, s.begun, s.seen = g.Clock, g.Begun, s.seen || src.seen
	from, before, logZ0, skipped := int64(0), int64(0), 0.0, int64(0)
	if f := s.plan.Model.Start; f != nil { // the counts that both continued from
		from, before, logZ0, skipped = f.N, trainingRows(f), f.LogEvidence, f.Skipped
	}
	s.n += src.n - from
	s.told += src.told - before
	s.skipped += src.skipped - skipped
	for k := range s.bank {
		b, o := &s.bank[k], &src.bank[k]
		b.logZ += o.logZ - logZ0
		b.score += o.score
		b.conflict = max(b.conflict, o.conflict)
		if b.counts() != nil {
			b.counts().merge(o.counts())
		}
	}
	if both && s.plan.Model.Options.AutoPrior && s.told >= LearnsFrom {
		s.learnPriors()
	}
	s.responses = merged(s.responses, s.renumberedSummary(src.responses, g.ID))
	if s.fixed == nil {
		s.fixed = src.fixed.Clone()
	} else if src.fixed != nil {
		s.fixed.Merge(src.fixed)
	}
	s.late += src.late
	s.moved, s.early = s.moved || src.moved, s.early|src.early
	if both {
		s.vague = min(s.vague, src.vague)
	} else {
		s.vague += src.vague
	}
	s.cut += src.cut
	s.sure += min(src.sure, math.MaxInt32-s.sure)
	s.merged += src.merged
	if both { // otherwise nothing was fitted apart
		s.merged++
	}
}

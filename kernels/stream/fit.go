package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/stop"
)

// Summary is the fit without beliefs and covariance.
func (s *State) Summary() kernels.Fit {
	var f kernels.Fit
	s.summary(&f)
	s.keep(&f, s.Best())
	return f
}

// summary is Summary without what only a continued run needs.
func (s *State) summary(f *kernels.Fit) {
	p, k := s.plan, s.Best()
	b := &s.bank[k]
	*f = p.head
	if b.learning != nil || b.learner() != nil {
		f.SetLikelihood(s.Likelihood())
	}
	if b.learning != nil {
		if d := s.noise(k); d != b.learning.Dispersion() {
			f.Dispersion *= d / b.learning.Dispersion()
		}
	}
	s.parameters(f, k)
	s.units.prior(&f.Prior)
	f.Columns = s.columns()
	q := s.units.responses()
	for j := range f.Columns {
		c := &f.Columns[j]
		if c.Kind != kernels.LevelsColumn {
			continue
		}
		if by := p.Model.PriorBy.Of(c.Name); by != nil {
			c.Variance = by.Variance * q * q
		} else if q != p.startUnit && c.Variance > 0 { // of the fit continued, in its unit
			c.Variance = kernels.UnscalePrior(c.Variance, p.startUnit*p.startUnit) * q * q
		}
	}
	if p.Model.Options.AutoPrior {
		s.form.(PriorLearner).Priors(f, q)
	}
	f.N, f.Skipped, f.LogEvidence = s.n, s.skipped, s.evidence(k)
	if p.Model.HasTime {
		f.Time = s.clock
	}
	f.Status = s.status(f, k)
	if start := p.Model.Start; s.n > 0 && s.told == 0 && (start == nil || start.N == 0) {
		f.AddStatus(kernels.WeightlessNote)
	}
	exact := p.Exact && s.bank[k].learning != nil && s.exactly(k)
	codes, curve := s.codeNote(), ""
	if codes == "" {
		curve = s.curveNote(f)
	}
	f.AddStatus(s.responses.notes(f, p, s.dict.Len(), s.score(k), exact, codes, curve))
	f.AddStatus(s.oneSided())
	f.AddStatus(s.scaleNote(f))
	f.AddStatus(codes)
	f.AddStatus(s.openNote(f))
	f.AddStatus(s.priorsNote())
	f.AddStatus(kernels.SkippedNote(f.Skipped))
}

// parameters records in f what belief k learnt of dispersion and shape. The dispersion of gaussian
// responses has the posterior of the conjugate model; for the unit of other responses, which is
// their spread, no standard deviation is known.
func (s *State) parameters(f *kernels.Fit, k int) {
	b := &s.bank[k]
	switch {
	case s.n == 0:
	case b.learning != nil && s.plan.noise:
		f.LearnDeviation(f.Dispersion, b.learning.Freedom(s.form.Known(k)))
	case b.learner() != nil:
		info := b.learner().LogPrecision()
		if b.learner().Note() != "" { // at the edge of its range
			info = math.NaN()
		}
		if s.plan.unitNoise {
			f.LearnDeviation(f.Dispersion, 2*info) // as much as of a normal distribution
		} else {
			f.LearnShape(f.Shape, 1/math.Sqrt(info))
		}
	}
}

// Fit returns the posterior with its covariance, in belief order. After a cancelled ctx s is
// unusable: what is left behind may still read it.
// Errors: a belief that is not finite; those of the form.
func (s *State) Fit(ctx context.Context) (f *kernels.Fit, err error) {
	if s.plan.slow {
		halt := s.startStop(ctx)
		defer halt.End(&err)
		halt.Check()
	} else if err := stop.Cause(ctx); err != nil {
		return nil, err
	}
	var made *kernels.Fit
	err = stop.Run(ctx, s.long(), func() error {
		g, err := s.form.Reserve(2, "a fit")
		if err != nil {
			return err
		}
		defer g.Release()
		made, err = s.fit(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

func (s *State) fit(ctx context.Context) (*kernels.Fit, error) {
	if err := s.Grow(); err != nil {
		return nil, err
	}
	if err := s.plan.Model.CheckPriorBy(s.dict, s.n); err != nil {
		return nil, err
	}
	f, k := &kernels.Fit{}, s.Best()
	s.summary(f)
	r := s.reader()
	defer r.done()
	form := s.present()
	if s.units != nil && len(s.units.cols) > 0 {
		form = s.formForFit()
	}
	r.w = form.Beliefs(k, s.clock, r.w[:0])
	if err := stop.Cause(ctx); err != nil {
		return nil, err
	}
	f.Beliefs = make([]kernels.Belief, len(r.order))
	for i, name := range r.named(s.dict) {
		f.Beliefs[i] = kernels.Belief{Feature: name, Weight: r.w[r.order[i]]}
	}
	var err error
	if f.Covariance, err = form.Covariance(k, r.order); err != nil {
		return nil, err
	}
	if err := stop.Cause(ctx); err != nil {
		return nil, err
	}
	s.units.restore(f, r.order)
	s.keep(f, k)
	if err = f.Check(); err == nil {
		err = f.Covariance.Check(len(f.Beliefs))
	}
	if err == nil {
		err = s.vanishedError(f, k, r.order)
	}
	if err != nil {
		return nil, s.causeOf(err)
	}
	return f, nil
}

// present is the form with the drift of all weights, which s itself does not apply: to read a stream
// changes nothing of what it learns.
func (s *State) present() Form {
	if f, ok := s.form.(Lazy); ok && s.plan.Drifts {
		return f.At(s.clock)
	}
	return s.form
}

// vanishes reports whether the variance of now, which is w in other units, has underflowed to 0.
func (s *State) vanishes(id uint32, now, w kernels.Weight) bool {
	return now.Variance == 0 && (w.Variance > 0 || s.units.squareless(id))
}

var errVanished = errors.New("its variance is too small for a number; scale the features and y")

// vanishedError is the error for a dispersion or variance that is 0 in the units of the rows, under
// which a weight would count as known, but not in those of the stream.
func (s *State) vanishedError(f *kernels.Fit, k int, order []uint32) error {
	if s.units == nil {
		return nil
	}
	if f.Dispersion == 0 { // it is 1 if a family has none
		return errors.New("the dispersion is too small for a number; scale y")
	}
	if !slices.ContainsFunc(f.Beliefs, func(b kernels.Belief) bool { return b.Variance == 0 }) {
		return nil
	}
	w := s.present().Beliefs(k, s.clock, nil)
	for i, id := range order {
		if s.vanishes(id, f.Beliefs[i].Weight, w[id]) {
			return fmt.Errorf("feature %q: %w", f.Beliefs[i].Feature, errVanished)
		}
	}
	return nil
}

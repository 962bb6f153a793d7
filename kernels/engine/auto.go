package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/stop"
	"github.com/bglm/bglm/kernels/stream"
)

// Auto is the name of the method that chooses between laplace and adf by the rows.
const Auto = "auto"

// auto keeps the rows while they fit the budget and then solves them by laplace, or ep (solveAuto);
// beyond the budget, or if the model needs a stream, it is adf.
var auto = Method{Name: Auto, make: newAuto,
	Summary: "laplace while the rows are kept: up to row_budget numbers of x and y; ep where the likelihood is flat at the mode, as with separated responses; adf with an arrowhead covariance beyond the budget, and where time, process_noise or forgetting ask for a stream. The choice depends on the rows alone."}

// DefaultRowBudget is how many numbers of x and y auto keeps by default: 200 MB of rows, and as
// much again to solve them.
const DefaultRowBudget = 16_000_000

// asksForStream reports whether the model has times, or weights that drift.
func asksForStream(m *kernels.Model) bool {
	return m.HasTime || m.Drifts() || m.Options.AutoNoise
}

// resolve is the method to use for settings given under the name of m.
func (m *Method) resolve(s *option.Settings, times bool) *Method {
	if m.Name != Auto {
		return m
	}
	s.Options.RowBudget = kernels.Or(s.Options.RowBudget, DefaultRowBudget)
	name := "laplace"
	if times || asksForStream(&s.Model) {
		name = "adf"
		asked := s.Model // a parameter asked to be learnt that a stream cannot learn is an error
		s.Model = *streamOf(&s.Model)
		s.PriorBy, s.Correlated = asked.PriorBy, asked.Correlated
		s.Options.AutoPrior, s.Options.AutoShape, s.Options.AutoDispersion = asked.Options.AutoPrior, asked.Options.AutoShape, asked.Options.AutoDispersion
	} else if !s.PriorGiven() {
		s.Options.PriorAsked = s.Options.AutoPrior
		s.Options.AutoPrior = true
	}
	found, err := Find(name)
	if err != nil {
		panic(err) // it is in the list
	}
	return found
}

// whyStream says why a stream is taken in the place of rows that are kept.
const whyStream = "time, process_noise and forgetting ask for a stream (adf), which "

// checkStreamed reports an option that the stream which auto takes for s has no use for. A hessian
// is taken for both ways, and status says that it had no effect.
func checkStreamed(s *option.Settings) error {
	for key, found := range option.For("adf").Lacking(s) {
		switch {
		case key == "correlated" || key == "compress" || key == "hessian": // the first two have errors of their own
			continue
		case key == "row_budget" && !s.Given(key): // that of the process
			continue
		}
		return &argument.Error{Name: key, Found: found, Why: "is for rows that are kept; " + whyStream + "has no use for it"}
	}
	return nil
}

// streamOf is auto's model for adf: parameters that a stream does not learn have their given or
// default values.
func streamOf(m *kernels.Model) *kernels.Model {
	s := *m
	s.At, s.Correlated = nil, nil
	s.PriorBy = slices.DeleteFunc(slices.Clone(m.PriorBy), func(c kernels.ColumnPrior) bool { return c.Auto })
	s.Options.AutoPrior, s.Options.PriorGroups = false, false
	l := s.Complete().Lik
	s.Options.AutoShape = s.Options.AutoShape && lik.LearnsShape(l)
	if l.Traits().Located {
		s.Options.AutoDispersion = s.Options.AutoDispersion && (s.Options.Standardize || l.Traits().Gaussian)
	} else {
		s.Options.AutoDispersion = false
	}
	if s.Options.Covariance == "" && (s.Start == nil || s.Start.Covariance.Form == gauss.Diagonal || s.Start.Covariance.Form == gauss.Arrowhead) {
		s.Options.Covariance = "arrowhead"
	}
	s.Options.AutoPrior = (m.Options.AutoPrior || m.Start != nil && s.Prior == m.Start.Prior) && streamLearns(&s)
	return &s
}

// unlearnt names what m asks to be learnt that its stream uses as given.
func unlearnt(m *kernels.Model) (out []string) {
	s := streamOf(m)
	add := func(what string, is bool) {
		if is {
			out = append(out, what)
		}
	}
	add("prior variance", m.PriorBy.Learn() || len(m.Correlated) > 0 || m.Options.PriorAsked && !s.Options.AutoPrior)
	add("dispersion", m.Options.AutoDispersion && !s.Options.AutoDispersion)
	add("shape", m.Options.AutoShape && !s.Options.AutoShape)
	return out
}

func newAuto(ctx context.Context, m *kernels.Model) (Fitter, error) {
	if asksForStream(m) {
		return newADF(ctx, streamOf(m))
	}
	if m.Options.Compress { // compressed, there are few distinct rows
		return keeping(inPlace, solveAuto)(ctx, m)
	}
	r, err := kernels.NewRows(m)
	if err != nil {
		return nil, err
	}
	return &budgeted{batch: batch{r, laidOut(inPlace, solveAuto)}, budget: kernels.Or(m.Options.RowBudget, DefaultRowBudget)}, nil
}

// budgeted keeps rows until they exceed the budget; from then on it is a stream. Its result is a
// function of the rows that it was given, not of when they came or in which parts.
type budgeted struct {
	batch         // no rows where there is a stream
	stream Fitter // nil while the rows are kept
	budget int
	skip   bool // bad rows are left out
}

// kept is how many numbers of x and y are kept.
func (f *budgeted) kept() int { return f.Rows.Values() + f.Rows.Len() }

func (f *budgeted) Features() *kernels.Dict {
	if f.stream != nil {
		return f.stream.Features()
	}
	return f.batch.Features()
}

func (f *budgeted) Update(ctx context.Context, b *kernels.Batch, skip bool) error {
	f.skip = skip
	if f.stream != nil {
		return f.stream.Update(ctx, b, skip)
	}
	if err := f.batch.Update(ctx, b, skip); err != nil || f.kept() <= f.budget {
		return err
	}
	return f.switchToStream(ctx)
}

// switchToStream feeds the kept rows to a stream, in order.
func (f *budgeted) switchToStream(ctx context.Context) error {
	s, err := newADF(ctx, streamOf(f.Model))
	if err != nil {
		return err
	}
	*s.Features() = f.Dict // the features that the model names come first in both
	if err := f.replay(ctx, f.Rows, s, nil); err != nil {
		return err
	}
	if f.Rows, err = kernels.NewRows(f.Model); err != nil {
		return err
	}
	f.stream = s
	return nil
}

// replay feeds rows to a stream whose features have the numbers ids, nil if they are those of r.
func (f *budgeted) replay(ctx context.Context, r *kernels.Rows, to Fitter, ids []uint32) error {
	to.Skip(r.Skipped())
	if err := to.(interface{ filter() *stream.State }).filter().Count(r); err != nil {
		return err
	}
	return r.Each(ids, func(b *kernels.Batch) error {
		if err := stop.Cause(ctx); err != nil {
			return err
		}
		return to.Update(ctx, b, f.skip)
	})
}

func (f *budgeted) Skip(n int64) {
	if f.stream != nil {
		f.stream.Skip(n)
		return
	}
	f.batch.Skip(n)
}

// Merge adds the rows of src; if one side is a stream, it absorbs the rows that the other keeps.
func (f *budgeted) Merge(ctx context.Context, src Fitter) error {
	o, ok := src.(*budgeted)
	if !ok {
		return errMixed
	}
	f.skip = f.skip || o.skip
	if f.stream == nil && o.stream == nil {
		if f.kept()+o.kept() <= f.budget {
			return f.batch.Merge(ctx, o.batch)
		}
		if err := f.switchToStream(ctx); err != nil {
			return err
		}
	}
	into, rows := f.stream, o.Rows
	switch {
	case o.stream == nil:
	case f.stream == nil:
		into, rows = o.stream.Clone(), f.Rows
	default:
		return f.stream.Merge(ctx, o.stream)
	}
	ids, err := into.Features().Merge(&rows.Dict)
	if err != nil {
		return err
	}
	if err := f.replay(ctx, rows, into, ids); err != nil {
		return err
	}
	if f.stream == nil {
		f.stream = into
		f.Rows, err = kernels.NewRows(f.Model)
	}
	return err
}

func (f *budgeted) Clone() Fitter {
	c := *f
	c.batch = f.batch.Clone().(batch)
	if f.stream != nil {
		c.stream = f.stream.Clone()
	}
	return &c
}

func (f *budgeted) Size() int64 {
	n := f.batch.Size()
	if f.stream != nil {
		n += f.stream.Size()
	}
	return n
}

func (f *budgeted) Fit(ctx context.Context) (*Result, error) {
	if f.stream == nil {
		return f.batch.Fit(ctx)
	}
	r, err := f.stream.Fit(ctx)
	if err == nil {
		one := ""
		if lacks := unlearnt(f.Model); len(lacks) > 0 {
			one = ", which learns no " + strings.Join(lacks, " and no ") + ","
		}
		if f.Model.Options.ThirdOrder {
			one += ", whose means are of no third order,"
		}
		r.AddStatus(fmt.Sprintf("x and y are more than row_budget = %d numbers: the rows were streamed by adf%s instead of solved by laplace", f.budget, one))
	}
	return r, err
}

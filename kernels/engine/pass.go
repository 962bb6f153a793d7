package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lowrank"
	"github.com/bglm/bglm/kernels/predict"
)

// Passes describes how a method is fitted without keeping its rows (newton_state).
type Passes struct {
	Default bool // the option method of a pass need not name it
	Chained bool // each pass continues from the merged state of the one before, not from its fit
	// Covariance is the only form that its posteriors can then have, "" if the option is not used.
	Covariance string
}

// Passing lists the methods that have passes, the default one first.
func Passing() (list []*Method) {
	for i := range methods {
		switch p := methods[i].Passes; {
		case p != nil && p.Default:
			list = slices.Insert(list, 0, &methods[i])
		case p != nil:
			list = append(list, &methods[i])
		}
	}
	return list
}

// FactorOf is the factor that rows have in fits of a method; AtMode for an unknown one.
func FactorOf(method string) predict.Factor {
	for i := range methods {
		if methods[i].Name == method && methods[i].Moments {
			return predict.OfMoments
		}
	}
	return predict.AtMode
}

// Part summarises a part of the rows, which are not kept: a laplace.Pass, or with method 'lowrank'
// a lowrank.Pass.
type Part interface {
	// Bytes encodes the part for DecodePart.
	Bytes() []byte
	// Counts are the numbers of rows, and of those left out.
	Counts() (rows, skipped int64)
	Size() int64 // bytes
	// Trials reports whether the responses are successes among trials.
	Trials() bool
	// Columns are the columns of the rows, nil if none are remembered.
	Columns() []kernels.FitColumn
	// Join adds o, a part of the same pass, which is not changed. A cancelled ctx ends it, and
	// Step, with its cause.
	// Errors: a part of another model, around another fit, or with other columns.
	Join(ctx context.Context, o Part) error
	Copy() Part
	// Step solves for the result of all parts, under the model of the pass.
	Step(ctx context.Context, m *kernels.Model) (*laplace.Step, error)
}

// DecodePart reads Part.Bytes.
// Errors: bytes that are not a part, or one of another version.
func DecodePart(b []byte) (Part, error) {
	if mark := lowrank.PassMark[:len(lowrank.PassMark)-1]; strings.HasPrefix(string(b[:min(len(b), len(mark))]), mark) {
		p, err := lowrank.DecodePass(b)
		return directions{p}, err
	}
	p, err := laplace.DecodePass(b)
	return newton{p}, err
}

// sameColumns reports a column of one part that the other lacks: in the other's rows its value
// would be read as 0.
func sameColumns(a, b Part) error {
	if c := kernels.Lacking(a.Columns(), b.Columns()); c != nil {
		return fmt.Errorf("column %.100q is in one pass and not in another; parts of a pass have the same columns (columns: 'any' for those that a part may go without)", c.Name)
	}
	return nil
}

type newton struct{ *laplace.Pass }

func (p newton) Copy() Part { return newton{p.Pass.Clone()} }

func (p newton) Join(ctx context.Context, o Part) error {
	if err := sameColumns(p, o); err != nil {
		return err
	}
	return p.merge(ctx, o)
}

func (p newton) merge(ctx context.Context, o Part) error {
	src, ok := o.(newton)
	if !ok {
		return errMixed
	}
	return p.Pass.Merge(ctx, src.Pass)
}

func (p newton) Step(ctx context.Context, m *kernels.Model) (*laplace.Step, error) {
	step, err := p.Pass.Solve(ctx, m)
	if err == nil {
		step.Fit.KeepModel(m)
	}
	return step, err
}

type directions struct{ *lowrank.Pass }

func (p directions) Copy() Part { return directions{p.Pass.Clone()} }

func (p directions) Join(ctx context.Context, o Part) error {
	if err := sameColumns(p, o); err != nil {
		return err
	}
	return p.merge(ctx, o)
}

func (p directions) merge(ctx context.Context, o Part) error {
	src, ok := o.(directions)
	if !ok {
		return errMixed
	}
	return p.Pass.Merge(ctx, src.Pass)
}

// Step has no log posterior: the next pass itself takes back a bad step.
func (p directions) Step(ctx context.Context, m *kernels.Model) (*laplace.Step, error) {
	f, distance, err := p.Pass.Solve(ctx, m)
	if err != nil {
		return nil, err
	}
	f.KeepModel(m)
	return &laplace.Step{Fit: f, Distance: distance, LogPosterior: math.NaN()}, nil
}

// learning is a Part that absorbs rows.
type learning interface {
	Part
	Features() *kernels.Dict
	// merge is Join for rows that are read together: some may have a shorter list of numbers.
	merge(ctx context.Context, o Part) error
	Update(ctx context.Context, b *kernels.Batch, skip bool) error
	Skip(n int64)
}

// pass is a Part as a Fitter.
type pass struct {
	learning
	model *kernels.Model
}

func newPass(ctx context.Context, m *kernels.Model) (Fitter, error) {
	if m.Options.Sites == "lowrank" {
		p, err := lowrank.NewPass(ctx, m)
		return pass{directions{p}, m}, err
	}
	if m.Before != nil {
		return nil, &argument.Error{Name: "around", Found: "a state", Why: "passes of laplace and ep expand around the fit that a state comes to"}
	}
	p, err := laplace.NewPass(ctx, m)
	return pass{newton{p}, m}, err
}

func (p pass) Clone() Fitter { return pass{p.Copy().(learning), p.model} }

func (p pass) Merge(ctx context.Context, src Fitter) error {
	o, ok := src.(pass)
	if !ok {
		return errMixed
	}
	return p.merge(ctx, o.learning)
}

// ByColumn is the part's ByColumn, for rows that have all features.
func (p pass) ByColumn() bool {
	c, ok := p.learning.(interface{ ByColumn() bool })
	return ok && c.ByColumn()
}

// Fit returns the pass, with a fit that has only its counts.
func (p pass) Fit(context.Context) (*Result, error) {
	f := p.model.Complete().NewFit("newton_state")
	f.N, f.Skipped = p.Counts()
	r := &Result{Fit: f, Part: p.learning}
	if n, ok := p.learning.(newton); ok {
		r.Pass = n.Pass
	}
	return r, nil
}

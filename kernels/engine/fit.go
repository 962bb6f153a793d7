package engine

import (
	"context"
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// Fit fits the rows of t, in order, by a method of that name in Methods; Auto stands for s.Method
// if that is set. s are the settings, nil for the defaults; they are not changed and serve any
// number of Fits, also at the same time. A table without rows, or whose rows are all left out, gives
// the prior, a Fit with N = 0; SQL has NULL there, and arrowio.Fit nil.
//
// Errors: an unknown method; settings that are not allowed, not used by the method, or do not fit
// the rows; columns of different lengths; an invalid row, unless s.OnError is option.Skip; the
// cause of ctx if it is cancelled, and those of the method.
func Fit(ctx context.Context, method string, s *option.Settings, t *rows.Table) (*Result, error) {
	if s != nil && s.Method != "" && s.Method != method {
		if method != Auto {
			return nil, &argument.Error{Name: "method", Found: option.Show(s.Method), Why: "and the fit is to be one of " + method}
		}
		method = s.Method // as bglm_fit does
	}
	m, err := Find(method)
	if err != nil {
		return nil, err
	}
	src, err := t.Source()
	if err != nil {
		return nil, err
	}
	if s == nil {
		s = option.Defaults()
	}
	if err := option.For(m.Name).Unused(s); err != nil {
		return nil, err
	}
	model, err := m.Model(s, t.Time != nil, t.Trials != nil)
	if err != nil {
		return nil, err
	}
	f, err := m.New(ctx, model)
	if err != nil {
		return nil, err
	}
	on := option.Fail
	if s.OnError == option.Skip {
		on = option.Skip
	}
	if _, err := src.Feed(ctx, f, model, on, 0, t.Len(), &kernels.Batch{}); err != nil {
		if v, ok := err.(rows.ErrValue); ok {
			return nil, fmt.Errorf("row %d: %w", v.Row+1, err)
		}
		return nil, err
	}
	return f.Fit(ctx)
}

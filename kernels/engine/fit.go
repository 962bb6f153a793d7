package engine

import (
	"context"
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// Fit fits the rows of t by a method, by the name it has in Methods; Auto is that of s.Method where it is
// set. s are the settings, nil for the defaults; they are changed and serve one Fit only. Rows are read in their order. A table
// without rows gives the prior, a Fit of N = 0, as one whose rows are all left out does; SQL has
// NULL there, and arrowio.Fit nil.
//
// Errors: an unknown method, settings that are not allowed, that the method does not use, or that do not fit the rows, columns
// of different lengths; a bad row, unless s.OnError is option.Skip; the cause of ctx when it
// is cancelled, and those of the method.
func Fit(ctx context.Context, method string, s *option.Settings, t *rows.Table) (*Result, error) {
	if s != nil && s.Method != "" && s.Method != method {
		if method != Auto {
			return nil, &argument.Error{Name: "method", Found: option.Show(s.Method), Why: "and the fit is to be one of " + method}
		}
		method = s.Method // as of bglm_fit
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

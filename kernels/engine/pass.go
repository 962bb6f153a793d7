package engine

import (
	"context"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/laplace"
)

// pass is a laplace.Pass as a Fitter.
type pass struct {
	*laplace.Pass
	model *kernels.Model
}

func newPass(m *kernels.Model) (Fitter, error) {
	p, err := laplace.NewPass(m)
	return pass{p, m}, err
}

func (p pass) Clone() Fitter { return pass{p.Pass.Clone(), p.model} }

func (p pass) Merge(_ context.Context, src Fitter) error {
	o, ok := src.(pass)
	if !ok {
		return errMixed
	}
	return p.Pass.Merge(o.Pass)
}

// Fit is the pass, and of a fit no more than its counts.
func (p pass) Fit(context.Context) (*Result, error) {
	f := p.model.Complete().NewFit("newton_state")
	f.N, f.Skipped = p.Counts()
	return &Result{Fit: f, Pass: p.Pass}, nil
}

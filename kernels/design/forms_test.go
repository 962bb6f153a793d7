package design

import (
	"context"
	"errors"
	"testing"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/stop"
)

// A cancel ends the forms of a thousand rows, and rows of very many entries are left to form.
func TestFormsEnd(t *testing.T) {
	rows := func(k int) *Columns {
		c := Every(formRows, k, nil)
		return &c
	}
	f := &forms{}
	if f.read(rows(formEntries+1), 0, formRows) || !f.read(rows(formEntries), 0, formRows) {
		t.Errorf("rows of %d entries are read, or those of %d are not", formEntries+1, formEntries)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	run := func() (err error) {
		halt := stop.Watch(ctx, 0)
		defer halt.End(&err)
		f.of(&dense.Matrix{Rows: formEntries, Cols: formEntries, Stride: formEntries, Data: make([]float64, formEntries*formEntries), Stop: halt})
		return nil
	}
	if err := run(); !errors.Is(err, context.Canceled) {
		t.Errorf("forms under a cancelled context: %v", err)
	}
}

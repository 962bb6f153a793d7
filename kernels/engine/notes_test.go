package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/stop"
)

// The notes on the rows of a fit end with their context. A time limit that the fit has kept to does
// not take it away.
func TestNotesEnd(t *testing.T) {
	e, err := Find("laplace")
	if err != nil {
		t.Fatal(err)
	}
	m := (&kernels.Model{}).Complete()
	f, err := e.New(context.Background(), m)
	if err != nil {
		t.Fatal(err)
	}
	id, err := f.Features().Add("u")
	if err != nil {
		t.Fatal(err)
	}
	var b kernels.Batch
	b.Reset()
	for i := range 1000 {
		b.Add(0, 1)
		b.Add(id, float64(i%7))
		b.EndRow()
		b.Y = append(b.Y, float64(i%2))
	}
	if err := f.Update(context.Background(), &b, false); err != nil {
		t.Fatal(err)
	}
	ends := func(ended context.Context) error {
		_, err := laidOut(layOut, func(_ context.Context, p *kernels.Problem) (*kernels.Fit, error) {
			f, err := solveLaplace(context.Background(), p)
			<-ended.Done() // just as the fit is found
			return f, err
		})(ended, f.(batch).Rows)
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := ends(ctx); !errors.Is(err, stop.ErrInterrupted) {
		t.Errorf("cancelled: %v", err)
	}
	ctx, cancel = stop.WithLimit(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := ends(ctx); err != nil {
		t.Errorf("after a time limit: %v", err)
	}
}

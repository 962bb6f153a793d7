package udf

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/stop"
	"github.com/bglm/bglm/udf/internal/capi"
)

// Of many groups those that have begun end, and no other begins or is written.
func TestSolveAllInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer Interruptible(ctx)()
	var begun, written atomic.Int64
	groups := make([]solvable, 1000)
	for i := range groups {
		groups[i] = solvable{name: "laplace", solve: func() error {
			n := begun.Add(1)
			if n == 3 {
				cancel()
			}
			if n >= 3 {
				<-running().Done() // they are long
			}
			return nil
		}}
	}
	err := solveAll(groups, func() {}, func(int) error { written.Add(1); return nil })
	if !errors.Is(err, stop.ErrInterrupted) {
		t.Errorf("interrupted, it gives %v", err)
	}
	if n, most := begun.Load(), int64(3+runtime.GOMAXPROCS(0)); n > most || written.Load() > 0 {
		t.Errorf("%d groups were begun and %d written, want at most %d and none", n, written.Load(), most)
	}
}

// A query that is ended while its groups are written writes no more of them.
func TestWritesInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer Interruptible(ctx)()
	groups := make([]solvable, 100)
	for i := range groups {
		groups[i] = solvable{name: "laplace"}
	}
	written := 0
	err := solveAll(groups, func() {}, func(int) error {
		if written++; written == 5 {
			cancel()
			<-running().Done()
		}
		return nil
	})
	if !errors.Is(err, stop.ErrInterrupted) || written != 5 {
		t.Errorf("%d groups were written (%v), want 5 of those before the end", written, err)
	}
}

// stuck is a state that takes until its end is closed to be written.
type stuck struct {
	engine.Part
	begun, end chan struct{}
}

func (s stuck) Size() int64 { return longPart }

func (s stuck) Bytes() []byte {
	close(s.begun)
	<-s.end
	return nil
}

// A large state that is being written does not hold up the end of its query.
func TestPartBytesInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer Interruptible(ctx)()
	s := stuck{begun: make(chan struct{}), end: make(chan struct{})}
	defer close(s.end)
	go func() {
		<-s.begun
		cancel()
	}()
	if _, err := partBytes(s); !errors.Is(err, stop.ErrInterrupted) {
		t.Errorf("interrupted, it gives %v", err)
	}
	if _, err := decodePart(make([]byte, longPart)); !errors.Is(err, stop.ErrInterrupted) {
		t.Errorf("reading a state afterwards gives %v", err)
	}
}

// heavy is a fit whose copy takes until its end is closed.
type heavy struct {
	engine.Fitter
	begun, end chan struct{}
}

func (h heavy) Size() int64 { return longPart }

func (h heavy) Clone() engine.Fitter {
	close(h.begun)
	<-h.end
	return h
}

// A group that begins as a pass of gigabytes does not hold up the end of its query.
func TestBeginInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer Interruptible(ctx)()
	h := heavy{begun: make(chan struct{}), end: make(chan struct{})}
	defer close(h.end)
	go func() {
		<-h.begun
		cancel()
	}()
	s := &fitState{plan: &fitPlan{method: &engine.Method{Kind: engine.Parts}, empty: h}}
	if err := s.materialize(); !errors.Is(err, stop.ErrInterrupted) || s.Fitter != nil {
		t.Errorf("interrupted, it gives %v and %v", s.Fitter, err)
	}
}

// The rows that an aggregate with ORDER BY has yet to absorb are not, once its query is ended.
func TestUpdateInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer Interruptible(ctx)()
	absorbed := 0
	a := aggregate("bglm_loo", "(fit, y, x)", "", "", nil, []int{3}, fitType,
		func([]capi.Vec, capi.Slots) error { absorbed++; return nil }, func([]capi.State, *capi.Col) error { return nil })
	if err := a.agg.Update(nil, capi.Slots{}); err != nil || absorbed != 1 {
		t.Fatalf("%v after %d calls", err, absorbed)
	}
	cancel()
	<-running().Done()
	if err := a.agg.Update(nil, capi.Slots{}); !errors.Is(err, stop.ErrInterrupted) || absorbed != 1 {
		t.Errorf("interrupted, it gives %v and has absorbed %d calls", err, absorbed)
	}
}

// Package stop ends long computations early: when a context is cancelled, and when a
// time limit has passed.
//
// An engine calls Watch once and asks the Stop in its loops. Deep inside, in the products
// and factorisations of package dense, returning an error through every caller would cost
// more than it says, so Check panics there, and the deferred End of whoever called Watch
// turns that into the error of the fit.
package stop

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/bglm/bglm/kernels/memory"
)

// ErrTimeLimit is the cause of fits that a time limit ended before they had a posterior.
var ErrTimeLimit = errors.New("time_limit")

// ErrInterrupted is wrapped by the errors of fits whose context was cancelled.
var ErrInterrupted = errors.New("interrupted")

// grace is the time that a fit has after its time limit to finish what it has; then it is
// cut off.
const grace = 150 * time.Millisecond

type limitKey struct{}

// limit is a time limit; fits within fits share it.
type limit struct {
	given time.Duration
	end   time.Time
}

// WithLimit is ctx with a time limit that begins now; 0 is none. A limit that ctx has
// already stays in force where it ends sooner. The context is done a moment after the
// limit, with a cause that Is ErrTimeLimit; call cancel to release it.
func WithLimit(ctx context.Context, d time.Duration) (_ context.Context, cancel context.CancelFunc) {
	end := time.Now().Add(d)
	if l := limitOf(ctx); d <= 0 || l != nil && !end.Before(l.end) {
		return ctx, func() {}
	}
	ctx = context.WithValue(ctx, limitKey{}, &limit{d, end})
	return context.WithDeadlineCause(ctx, end.Add(grace),
		fmt.Errorf("%w = %v ran out before there was a posterior to give; give more time, or ask for less", ErrTimeLimit, d))
}

func limitOf(ctx context.Context) *limit {
	l, _ := ctx.Value(limitKey{}).(*limit)
	return l
}

const (
	running int32 = iota
	stopped
	ended
)

// Stop says whether a computation is to end. A nil Stop never does. Any goroutine may ask
// it.
type Stop struct {
	state  atomic.Int32
	ctx    context.Context
	limit  *limit
	cancel context.CancelFunc
	detach func() bool

	asked atomic.Int64 // when Late was last asked, in nanoseconds before the limit
	lap   atomic.Int64 // the longest time between two such calls
}

// Watch returns the Stop of a computation under ctx and a time limit, 0 = none. Defer its
// End at once.
func Watch(ctx context.Context, d time.Duration) *Stop {
	s := &Stop{}
	s.ctx, s.cancel = WithLimit(ctx, d)
	s.limit = limitOf(s.ctx)
	if s.ctx.Err() != nil {
		// AfterFunc would start a goroutine for each of the fits that are begun in vain.
		s.state.Store(stopped)
		s.detach = func() bool { return false }
		return s
	}
	s.detach = context.AfterFunc(s.ctx, func() { s.state.CompareAndSwap(running, stopped) })
	return s
}

// End releases the Stop, which never fires afterwards, and turns a panic of Check into
// the cause of the context. It works only deferred, as in
//
//	s := stop.Watch(ctx, limit)
//	defer s.End(&err)
func (s *Stop) End(err *error) {
	r := recover()
	s.detach()
	s.state.Store(ended)
	if r != nil {
		if g, ok := r.(given); !ok || g.s != s {
			panic(r)
		}
		*err = s.cause()
	}
	s.cancel()
}

// given is the panic of Check.
type given struct{ s *Stop }

func (given) Error() string { return "stopped" }

// Check panics once the computation is to end; End catches it. Cost: one load.
func (s *Stop) Check() {
	if s != nil && s.state.Load() == stopped {
		panic(given{s})
	}
}

// Row is Check in a loop over rows i = 0, 1, ...: it checks once in 16 rows, which may be
// thousands of entries each.
func (s *Stop) Row(i int) {
	if i&15 == 0 {
		s.Check()
	}
}

// Beside runs f, a call into a library that cannot be stopped, on a goroutine of its own.
// When the computation is to end, Beside panics as Check does and leaves f behind, so f
// may share nothing with the caller but what the caller then forgets.
func (s *Stop) Beside(f func()) {
	if s == nil || s.state.Load() == ended {
		f()
		return
	}
	s.Check()
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		f()
	}()
	select {
	case r := <-done:
		if r != nil {
			panic(r)
		}
	case <-s.ctx.Done():
		s.state.CompareAndSwap(running, stopped)
		s.Check()
	}
}

// Run runs f, which works on what its caller forgets when it fails. A long one runs beside: when
// ctx is cancelled Run returns the cause at once and leaves f behind, which ends where it asks
// Cause(ctx) next.
func Run(ctx context.Context, long bool, f func() error) (err error) {
	if !long {
		return f()
	}
	s := Watch(ctx, 0)
	defer s.End(&err)
	var of error
	s.Beside(func() { of = f() })
	return of
}

// makeBeside is the number of bytes from which Make asks for memory beside the computation:
// they are cleared in some milliseconds.
const makeBeside = 1 << 24

// Make is make([]T, n) that s can end: clearing a gigabyte takes longer than a
// computation may go on for.
func Make[T any](s *Stop, n int) (x []T) {
	var zero T
	if n >= makeBeside/max(1, int(unsafe.Sizeof(zero))) {
		s.Beside(func() { x = memory.Make[T](n, n) })
		return x
	}
	return memory.Make[T](n, n)
}

// Err is why the computation is to end, nil before.
func (s *Stop) Err() error {
	if s == nil || s.state.Load() != stopped {
		return nil
	}
	return s.cause()
}

func (s *Stop) cause() error { return Cause(s.ctx) }

// Cause is why what runs under ctx is to end, nil while it is not: for loops over rows that call
// nothing which takes a Stop.
func Cause(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	err := context.Cause(ctx)
	if errors.Is(err, ErrTimeLimit) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrInterrupted, err)
}

// Past says that the time limit is over.
func (s *Stop) Past() bool {
	return s != nil && s.limit != nil && !time.Now().Before(s.limit.end)
}

// Nearly says that three quarters of the time limit are over: what is left is for what
// comes after the sampling.
func (s *Stop) Nearly() bool {
	return s != nil && s.limit != nil && time.Until(s.limit.end) < s.limit.given/4
}

// Late says that the time limit leaves no room for two more laps, one being the longest
// time between two calls of Late so far: one to go on, one to make a posterior of it. It
// begins with a Check.
func (s *Stop) Late() bool {
	s.Check()
	if s == nil || s.limit == nil {
		return false
	}
	left := time.Until(s.limit.end).Nanoseconds()
	if before := s.asked.Swap(left); before != 0 {
		for lap := s.lap.Load(); before-left > lap; lap = s.lap.Load() {
			if s.lap.CompareAndSwap(lap, before-left) {
				break
			}
		}
	}
	return left <= 2*s.lap.Load()
}

// Context is the context watched, with the time limit.
func (s *Stop) Context() context.Context { return s.ctx }

// Limit is the time limit as it was given, 0 = none.
func (s *Stop) Limit() time.Duration {
	if s == nil || s.limit == nil {
		return 0
	}
	return s.limit.given
}

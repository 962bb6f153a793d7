package udf

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bglm/bglm/kernels/stop"
)

// DuckDB's C API (v1) does not tell a function that its query was interrupted, so that
// an interrupt would wait until a running solve ends. Who interrupts queries of its own
// process hands over the context it does that with.

// interrupts holds the contexts in force, and the one that callbacks run under: it ends
// with the first of them.
var interrupts struct {
	mu     sync.Mutex
	last   int
	on     map[int]context.Context
	detach map[int]func() bool
	cancel context.CancelCauseFunc
	now    atomic.Pointer[context.Context]
}

// Interruptible makes ctx end bglm functions: until done is called, they return an error
// within a fraction of a second once ctx is cancelled, and at once when they begin
// after that. It concerns all bglm functions of the process, whatever connection
// they run on; with several contexts in force the first that is cancelled counts.
//
//	ctx, cancel := context.WithCancel(ctx)
//	defer udf.Interruptible(ctx)()
//	rows, err := db.QueryContext(ctx, query)
func Interruptible(ctx context.Context) (done func()) {
	i := &interrupts
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.now.Load() == nil {
		i.on, i.detach = map[int]context.Context{}, map[int]func() bool{}
		reopen()
	}
	i.last++
	id := i.last
	i.on[id] = ctx
	attach(id)
	return sync.OnceFunc(func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.detach[id]()
		delete(i.on, id)
		delete(i.detach, id)
		switch now := i.now.Load(); {
		case len(i.on) == 0:
			i.now.Store(nil)
		case (*now).Err() != nil: // by the context that is gone, it may be
			reopen()
			for id := range i.on {
				i.detach[id]()
				attach(id)
			}
		}
	})
}

func reopen() {
	now, cancel := context.WithCancelCause(context.Background())
	interrupts.cancel = cancel
	interrupts.now.Store(&now)
}

// attach makes context id end what runs.
func attach(id int) {
	ctx, cancel := interrupts.on[id], interrupts.cancel
	if ctx.Err() != nil {
		cancel(context.Cause(ctx))
	}
	interrupts.detach[id] = context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
}

// running is the context of a callback that begins now.
func running() context.Context {
	if now := interrupts.now.Load(); now != nil {
		return *now
	}
	return context.Background()
}

// going is why a loop that is at row i is to end, nil while it is not.
func going(i int) error {
	if i&15 != 0 {
		return nil
	}
	return stop.Cause(running())
}

// beside is what f makes. Where that takes long an interrupt ends the query without it.
func beside[T any](long bool, f func() (T, error)) (T, error) {
	var made, none T
	err := stop.Leave(running(), long, func() (err error) {
		made, err = f()
		return err
	})
	if err != nil {
		return none, err // made may still be written
	}
	return made, nil
}

// interrupted says of an error that its query was ended from outside: no answer, not
// even NULL, stands for that.
func interrupted(err error) bool { return errors.Is(err, stop.ErrInterrupted) }

// solving counts the solves that run, by method.
var solving struct {
	mu    sync.Mutex
	count map[string]int
}

// solves notes a solve that begins; call the result when it ends.
func solves(method string) (ended func()) {
	s := &solving
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == nil {
		s.count = map[string]int{}
	}
	s.count[method]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.count[method]--; s.count[method] == 0 {
			delete(s.count, method)
		}
	}
}

// Solving names the methods of the fits that are being solved in this process, "" for
// none.
func Solving() string {
	s := &solving
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(s.count)), ", ")
}

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

// DuckDB's C API (v1) does not tell a function that its query was interrupted, so that an interrupt
// would have to wait for a running solve. A program that interrupts its own queries can hand over
// the context it does that with.

// interrupts holds the contexts in force, and the one that callbacks run under, which ends with the
// first of them.
var interrupts struct {
	mu     sync.Mutex
	last   int
	on     map[int]context.Context
	detach map[int]func() bool
	cancel context.CancelCauseFunc
	now    atomic.Pointer[context.Context]
}

// Interruptible makes ctx end bglm functions: until done is called, they return an error within a
// fraction of a second after ctx is cancelled, and functions called after that return it at once.
// It applies to all bglm functions of the process, whatever connection they run on; with several
// contexts in force the first that is cancelled counts.
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
		case (*now).Err() != nil: // perhaps by the context that was removed
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

// attach makes context id cancel the running callbacks.
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

// interruptCause is the cause to stop a loop at row i, nil if it may go on; it checks every 16th
// row.
func interruptCause(i int) error {
	if i&15 != 0 {
		return nil
	}
	return stop.Cause(running())
}

// abandonable returns what f makes. If long is set, an interrupt ends the query without waiting for
// f.
func abandonable[T any](long bool, f func() (T, error)) (T, error) {
	var made, none T
	err := stop.Run(running(), long, func() (err error) {
		made, err = f()
		return err
	})
	if err != nil {
		return none, err // f may still write made
	}
	return made, nil
}

// interrupted reports whether an error means that the query was stopped from outside, for which no
// answer, not even NULL, may stand.
func interrupted(err error) bool { return errors.Is(err, stop.ErrInterrupted) }

// solving counts the running solves by method.
var solving struct {
	mu    sync.Mutex
	count map[string]int
}

// solves counts a solve that begins; call ended when it ends.
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

// Solving names the methods of the fits that are being solved in this process, "" for none.
func Solving() string {
	s := &solving
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(s.count)), ", ")
}

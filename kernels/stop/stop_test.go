package stop

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

// work checks s until it is stopped, or for a while.
func work(ctx context.Context, limit time.Duration, f func(s *Stop)) (err error) {
	s := Watch(ctx, limit)
	defer s.End(&err)
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); runtime.Gosched() {
		s.Check()
		f(s)
	}
	return errors.New("went on")
}

func TestStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := work(ctx, 0, func(*Stop) {}); !errors.Is(err, ErrInterrupted) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := work(ctx, 0, func(*Stop) { t.Error("ran though it was cancelled before") }); !errors.Is(err, ErrInterrupted) {
		t.Error(err)
	}
	// A limit: late first, stopped a moment later.
	late := false
	err := work(t.Context(), 30*time.Millisecond, func(s *Stop) { late = late || s.Late() && s.Err() == nil })
	if !late || !errors.Is(err, ErrTimeLimit) || errors.Is(err, ErrInterrupted) || !strings.Contains(err.Error(), "time_limit = 30ms") {
		t.Error(late, err)
	}
	// Limits nest: the first that ends counts.
	err = work(t.Context(), 30*time.Millisecond, func(s *Stop) {
		if err := work(s.Context(), time.Hour, func(*Stop) {}); !errors.Is(err, ErrTimeLimit) {
			t.Error(err)
		}
	})
	if !errors.Is(err, ErrTimeLimit) {
		t.Error(err)
	}
	// The panic of an outer computation passes an inner one.
	inner, cancelInner := context.WithCancel(t.Context())
	defer cancelInner()
	outer, cancelOuter := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancelOuter)
	if err := work(outer, 0, func(s *Stop) {
		_ = work(inner, 0, func(*Stop) { s.Check() })
	}); !errors.Is(err, ErrInterrupted) {
		t.Error(err)
	}
	// Another panic is not ours.
	func() {
		defer func() {
			if recover() != "bug" {
				t.Error("a panic was lost")
			}
		}()
		_ = work(t.Context(), 0, func(*Stop) { panic("bug") })
	}()
	// What has ended never fires, and nil never does.
	ctx, cancel = context.WithCancel(t.Context())
	var kept *Stop
	func() (err error) {
		kept = Watch(ctx, 0)
		defer kept.End(&err)
		return nil
	}()
	cancel()
	time.Sleep(10 * time.Millisecond)
	kept.Check()
	done := false
	kept.Beside(func() { time.Sleep(10 * time.Millisecond); done = true })
	if !done || len(Make[float64](kept, makeBeside)) == 0 {
		t.Error("what has ended did not wait")
	}
	kept = nil
	kept.Check()
	if kept.Late() || kept.Past() || kept.Err() != nil {
		t.Error("nil stops")
	}
}

// A call that cannot be stopped is left behind; its panic is not lost.
func TestBeside(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	began := time.Now()
	err := work(ctx, 0, func(s *Stop) { s.Beside(func() { time.Sleep(3 * time.Second) }) })
	if !errors.Is(err, ErrInterrupted) || time.Since(began) > 2*time.Second {
		t.Error(err, time.Since(began))
	}
	defer func() {
		if recover() != "bug" {
			t.Error("a panic was lost")
		}
	}()
	_ = work(t.Context(), 0, func(s *Stop) { s.Beside(func() { panic("bug") }) })
}

// fires says whether f ends with the panic of Check under a Stop that has fired.
func fires(t *testing.T, f func(s *Stop)) bool {
	ctx, cancel := context.WithCancel(t.Context())
	err := func() (err error) {
		s := Watch(ctx, 0)
		defer s.End(&err)
		cancel()
		for s.Err() == nil {
			runtime.Gosched()
		}
		f(s)
		return nil
	}()
	return errors.Is(err, ErrInterrupted)
}

// Rows may be wide: a loop that has just looked does not go on for hundreds of them.
func TestRow(t *testing.T) {
	rows := 0
	if !fires(t, func(s *Stop) {
		for i := 1; i < 5000; i++ {
			s.Row(i)
			rows++
		}
	}) || rows > 16 {
		t.Errorf("%d rows more", rows)
	}
}

func TestMake(t *testing.T) {
	s := Watch(t.Context(), 0)
	defer s.End(new(error))
	for _, n := range []int{0, 3, makeBeside/8 + 1} {
		if x := Make[float64](s, n); len(x) != n || n > 0 && x[n-1] != 0 {
			t.Error(n, len(x))
		}
		if x := Make[uint32](nil, n); len(x) != n {
			t.Error(n, len(x))
		}
	}
	if !fires(t, func(s *Stop) { Make[float64](s, makeBeside) }) {
		t.Error("asked for memory although it is stopped")
	}
	defer func() {
		if recover() == nil {
			t.Error("a length below 0 passed")
		}
	}()
	Make[byte](s, -1)
}

// Package memory is the budget that large allocations are checked against: rows kept, covariances,
// factorisations, draws. Running out of memory is fatal to a Go program and so to the process that
// it is part of; exceeding the budget is an error instead.
//
// The process has one budget, shared by all fits, groups and threads. It counts what bglm holds,
// not uncollected garbage, nor the memory of the host or of DuckDB itself; its default is therefore
// a fraction of what is available: 3/8 of the machine's memory, of the cgroup's limit, or of
// RLIMIT_DATA or RLIMIT_AS, whichever is least. The environment variable BGLM_MAX_MEMORY ('4GB',
// '512MiB', bytes) or SetLimit sets it.
package memory

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Variable is the environment variable that sets the budget.
const Variable = "BGLM_MAX_MEMORY"

// ErrLimit is wrapped by every error of this package that means "over the budget".
var ErrLimit = errors.New("over the memory budget")

const (
	shareNum, shareDen = 3, 8
	// unknownMemory replaces the machine's memory if that cannot be determined.
	unknownMemory = 8 << 30
	// collectFrom is the size of a request that may be preceded by a garbage collection.
	collectFrom = 32 << 20
)

var budget struct {
	once    sync.Once
	initial int64
	limit   atomic.Int64
	used    atomic.Int64
	note    string // why the environment variable was rejected
}

func start() {
	budget.once.Do(func() {
		budget.initial = available() / shareDen * shareNum
		if s := os.Getenv(Variable); s != "" {
			if n, err := Parse(s); err != nil {
				budget.note = fmt.Sprintf(" (%s is ignored: %v)", Variable, err)
			} else {
				budget.initial = n
			}
		}
		budget.limit.Store(budget.initial)
	})
}

// Default is the budget in bytes before SetLimit.
func Default() int64 {
	start()
	return budget.initial
}

// available is the least of the limits of the machine, the cgroup and the process.
func available() int64 {
	least := int64(unknownMemory)
	if n := physical(); n > 0 {
		least = n
	}
	for _, n := range limits() {
		if n > 0 {
			least = min(least, n)
		}
	}
	return least
}

// Limit is the budget in bytes.
func Limit() int64 {
	start()
	return budget.limit.Load()
}

// SetLimit sets the budget and returns the previous one. Existing reservations stay.
func SetLimit(bytes int64) (before int64) {
	start()
	return budget.limit.Swap(max(bytes, 0))
}

// Used is the number of bytes reserved.
func Used() int64 { return budget.used.Load() }

// Parse reads a size: a number of bytes, or with a unit of KB, MB, GB, TB (powers of
// 1000) or KiB, MiB, GiB, TiB (of 1024), as DuckDB does.
func Parse(s string) (int64, error) {
	t := strings.ToLower(strings.TrimSpace(s))
	unit := 1.0
	for _, u := range []struct {
		name string
		size float64
	}{{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40}, {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"bytes", 1}, {"b", 1}} {
		if rest, ok := strings.CutSuffix(t, u.name); ok {
			t, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	x, err := strconv.ParseFloat(t, 64)
	if err != nil || !(x > 0) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("found %q; allowed: a size such as '4GB', '512MiB' or a number of bytes", s)
	}
	return int64(min(x*unit, math.MaxInt64/2)), nil
}

// Size formats a number of bytes for display.
func Size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.0f kB", math.Ceil(float64(n)/1e3))
}

// Room checks that there is room for n more bytes, without reserving it. what says what they are
// for, and what would need less: it begins the error, which Is ErrLimit.
func Room(n int64, what string) error {
	start()
	limit := budget.limit.Load()
	if used := budget.used.Load(); n > limit-used {
		return over(n, used, limit, what)
	}
	if n >= collectFrom {
		collect(n, limit)
	}
	return nil
}

func over(n, used, limit int64, what string) error {
	return fmt.Errorf("%s: %w: it takes %s, and %s of the %s allowed are in use; %s=SIZE in the environment allows more%s",
		what, ErrLimit, Size(n), Size(used), Size(limit), Variable, budget.note)
}

// Charge reserves n bytes of the budget, or returns them if n is negative. Errors: those of Room;
// nothing is then reserved.
func Charge(n int64, what string) error {
	if n <= 0 {
		budget.used.Add(n)
		return nil
	}
	start()
	limit := budget.limit.Load()
	if used := budget.used.Add(n); used > limit {
		budget.used.Add(-n)
		return over(n, used-n, limit, what)
	}
	if n >= collectFrom {
		collect(n, limit)
	}
	return nil
}

// Grant is a part of the budget. A nil Grant is empty.
type Grant struct{ n atomic.Int64 }

// Reserve reserves n bytes until Release. Errors: those of Room.
func Reserve(n int64, what string) (*Grant, error) {
	if err := Charge(max(n, 0), what); err != nil {
		return nil, err
	}
	g := &Grant{}
	g.n.Store(max(n, 0))
	return g, nil
}

// Grow reserves n more bytes, or returns them if n is negative. Errors: those of Room; nothing is
// then reserved.
func (g *Grant) Grow(n int64, what string) error {
	if err := Charge(n, what); err != nil {
		return err
	}
	g.n.Add(n)
	return nil
}

// Release returns the bytes; calling it again does nothing.
func (g *Grant) Release() {
	if g != nil {
		budget.used.Add(-g.n.Swap(0))
	}
}

// collect runs the garbage collector if the live heap, garbage included, and n more bytes would
// exceed the limit: large vectors are short-lived, and the collector waits until the heap has
// doubled. Cost: milliseconds, since numbers are not scanned.
func collect(n, limit int64) {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() == metrics.KindUint64 && int64(s[0].Value.Uint64())+n > limit {
		runtime.GC()
	}
}

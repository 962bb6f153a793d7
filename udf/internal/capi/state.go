package capi

// #include "api.h"
import "C"
import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/bglm/bglm/kernels/memory"
)

// State is the state of an aggregate for one group. One goroutine uses it at a time.
type State interface {
	// Clone returns an independent copy.
	Clone() State
	// Merge absorbs src without changing it.
	Merge(src State) error
	// Size is the approximate memory held, in bytes.
	Size() int64
}

var errPurged = errors.New("this aggregate's state was purged (bglm_purge, or idle too long) while the query still ran")

// holder shares one State between the slots that combine copied it to; a writer that is not alone
// clones it first.
type holder struct {
	refs   atomic.Int32
	bytes  atomic.Int64
	held   int64 // the part of bytes that was reserved from the memory budget
	state  State
	window *window // nil but in a window over whole partitions
}

type slot struct {
	gen   uint32
	touch uint32 // seconds since start, of the last callback
	h     *holder
}

// resize records the state's size and reserves its growth from the memory budget.
func (h *holder) resize() error {
	n := h.state.Size()
	h.bytes.Store(n)
	if n == h.held {
		return nil
	}
	if err := memory.Charge(n-h.held, "the states of the aggregates"); err != nil {
		return err
	}
	h.held = n
	return nil
}

// drop gives up one reference; the last one releases the memory.
func (h *holder) drop() {
	if h.refs.Add(-1) == 0 {
		n := h.held
		h.held = 0
		_ = memory.Charge(-n, "")
	}
}

const (
	segBits  = 12
	segSlots = 1 << segBits
	maxSegs  = 1 << 18 // 2^30 live states
	nShards  = 16
)

type segment [segSlots]slot

type shard struct {
	mu   sync.Mutex
	free []uint32
	_    [32]byte // keep neighbours off the cache line
}

// slab hands out handles (generation << 32 | index + 1). Lookups take no lock:
// DuckDB uses a state from one thread at a time.
type slab struct {
	segs   [maxSegs]atomic.Pointer[segment]
	nseg   atomic.Int64
	shards [nShards]shard
	live   atomic.Int64
	purged atomic.Int64 // released by a purge
	reused atomic.Int64 // released because DuckDB never destroyed them
	gate   sync.RWMutex // callbacks read-lock it, a purge excludes them
	last   atomic.Uint32
}

var states slab

var started = time.Now()

func now() uint32 { return uint32(time.Since(started)/time.Second) + 1 }

func (s *slab) slot(handle uint64) *slot {
	if handle == 0 {
		return nil
	}
	i := uint32(handle) - 1
	seg := s.segs[i>>segBits].Load()
	if seg == nil {
		return nil
	}
	sl := &seg[i&(segSlots-1)]
	if sl.gen != uint32(handle>>32) || sl.h == nil {
		return nil
	}
	return sl
}

func (s *slab) alloc(hint uint64, h *holder) (uint64, error) {
	sh := &s.shards[hint%nShards]
	sh.mu.Lock()
	if len(sh.free) == 0 {
		k := s.nseg.Add(1) - 1
		if k >= maxSegs {
			sh.mu.Unlock()
			return 0, errors.New("more than a billion live aggregate states")
		}
		s.segs[k].Store(new(segment))
		for i := segSlots - 1; i >= 0; i-- {
			sh.free = append(sh.free, uint32(k<<segBits)+uint32(i))
		}
	}
	i := sh.free[len(sh.free)-1]
	sh.free = sh.free[:len(sh.free)-1]
	sh.mu.Unlock()
	sl := &s.segs[i>>segBits].Load()[i&(segSlots-1)]
	sl.gen++
	if sl.gen == 0 {
		sl.gen = 1
	}
	sl.h = h
	sl.touch = now()
	s.live.Add(1)
	return uint64(sl.gen)<<32 | uint64(i+1), nil
}

// release frees a handle; a stale one is ignored.
func (s *slab) release(handle uint64) bool {
	sl := s.slot(handle)
	if sl == nil {
		return false
	}
	sl.h.drop()
	sl.h = nil
	s.live.Add(-1)
	i := uint32(handle) - 1
	sh := &s.shards[(i>>segBits)%nShards]
	sh.mu.Lock()
	sh.free = append(sh.free, i)
	sh.mu.Unlock()
	return true
}

// each visits the live slots while no aggregate callback runs.
func (s *slab) each(f func(handle uint64, sl *slot)) {
	for k := int64(0); k < s.nseg.Load(); k++ {
		seg := s.segs[k].Load()
		if seg == nil {
			continue
		}
		for i := range seg {
			if sl := &seg[i]; sl.h != nil {
				f(uint64(sl.gen)<<32|(uint64(k)<<segBits+uint64(i)+1), sl)
			}
		}
	}
}

// StateCounts describes the aggregate states of this process.
type StateCounts struct {
	Live   int64 // states that DuckDB has not released
	Bytes  int64 // memory they hold
	Leaked int64 // of those, not touched by any callback for more than a second
	Purged int64 // released by Purge or the idle janitor, or reclaimed on reuse of their memory
}

// States counts the live states. Cost: O(live).
func States() StateCounts {
	states.gate.Lock()
	defer states.gate.Unlock()
	c := StateCounts{Live: states.live.Load(), Purged: states.purged.Load() + states.reused.Load()}
	seen := map[*holder]bool{}
	t := now()
	states.each(func(_ uint64, sl *slot) {
		if sl.h.refs.Load() > 1 {
			if seen[sl.h] {
				return
			}
			seen[sl.h] = true
		}
		c.Bytes += sl.h.bytes.Load()
	})
	states.each(func(_ uint64, sl *slot) {
		if t > sl.touch+1 {
			c.Leaked++
		}
	})
	return c
}

// Purge releases the states that no callback has touched for at least idle, and
// returns how many. A query that still uses one of them gets an error.
func Purge(idle time.Duration) int64 {
	states.gate.Lock()
	defer states.gate.Unlock()
	t, n := now(), int64(0)
	states.each(func(h uint64, sl *slot) {
		if time.Duration(t-sl.touch)*time.Second >= idle && states.release(h) {
			n++
		}
	})
	states.purged.Add(n)
	return n
}

const janitorIdle = 15 * time.Minute

var janitorOnce sync.Once

// startJanitor frees what queries that ended early left behind: states idle for a quarter of an
// hour in which no callback ran at all.
func startJanitor() {
	janitorOnce.Do(func() {
		go func() {
			for range time.Tick(time.Minute) {
				if t := now(); states.live.Load() > 0 && t-states.last.Load() > uint32(janitorIdle/time.Second) {
					Purge(janitorIdle)
				}
			}
		}()
	})
}

// Slot holds a group's State during a callback.
type Slot struct {
	c     *C.bglm_state
	shard uint64
}

// Get returns the state for reading; nil before the first Set.
func (s Slot) Get() (State, error) {
	if s.c.handle == 0 {
		return nil, nil
	}
	sl := states.slot(uint64(s.c.handle))
	if sl == nil {
		return nil, errPurged
	}
	sl.touch = states.last.Load()
	return sl.h.state, nil
}

// Mutable returns the state for writing, created by fresh on first use and cloned if it is shared.
func (s Slot) Mutable(fresh func() (State, error)) (State, error) {
	if s.c.handle == 0 {
		st, err := fresh()
		if err != nil {
			return nil, err
		}
		return st, s.set(&holder{state: st})
	}
	sl := states.slot(uint64(s.c.handle))
	if sl == nil {
		return nil, errPurged
	}
	sl.touch = states.last.Load()
	if sl.h.refs.Load() > 1 {
		if err := memory.Room(sl.h.state.Size(), "the copy of an aggregate's state"); err != nil {
			return nil, err
		}
		h := &holder{state: sl.h.state.Clone()}
		if w := sl.h.window; w != nil {
			c := *w
			h.window = &c
		}
		h.refs.Store(1)
		err := h.resize()
		sl.h.drop()
		sl.h = h
		if err != nil {
			return nil, err
		}
	}
	return sl.h.state, nil
}

func (s Slot) set(h *holder) error {
	h.refs.Add(1)
	if h.bytes.Load() == 0 {
		if err := h.resize(); err != nil {
			h.drop()
			return err
		}
	}
	id, err := states.alloc(s.shard, h)
	if err != nil {
		h.drop()
		return err
	}
	s.c.handle = C.uint64_t(id)
	return nil
}

// account records the state's size after a change. Errors: it exceeds the memory budget.
func (s Slot) account() error {
	if sl := states.slot(uint64(s.c.handle)); sl != nil {
		return sl.h.resize()
	}
	return nil
}

// Slots are the states of the rows of one update call.
type Slots struct {
	p        unsafe.Pointer
	n        int
	constant bool
	shard    uint64
}

// Len is the number of rows.
func (s Slots) Len() int { return s.n }

func (s Slots) ptr(i int) unsafe.Pointer {
	if s.constant {
		i = 0
	}
	return at[unsafe.Pointer](s.p, i)
}

// Runs calls f for each maximal run [lo, hi) of rows that share a state.
func (s Slots) Runs(f func(slot Slot, lo, hi int) error) error {
	for lo := 0; lo < s.n; {
		p, hi := s.ptr(lo), lo+1
		if s.constant {
			hi = s.n
		}
		for hi < s.n && s.ptr(hi) == p {
			hi++
		}
		sl := Slot{(*C.bglm_state)(p), s.shard}
		err := f(sl, lo, hi)
		if grown := sl.account(); err == nil {
			err = grown
		}
		if err != nil {
			return err
		}
		lo = hi
	}
	return nil
}

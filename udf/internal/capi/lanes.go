package capi

// #include "api.h"
import "C"
import (
	"errors"
	"sync/atomic"
	"unsafe"
)

// DuckDB 2 passes a GROUP BY's states in one of two ways, from the same call site:
//
//	flat      entry i is the state of row i's group
//	constant  all group columns of the chunk are constant, so that all its rows are in
//	          one group: entry 0 is that group's state, the others hold the address of
//	          the group's *first* aggregate in the SELECT
//
// The two forms look alike only if entries 1 to n-1 are all equal. Let p be entry 0 and q the
// others. In the flat form, q is the state of another group, of the same aggregate as p; in the
// constant form, q is another aggregate's state (or no state of ours at all), of the same group as
// p, and lies before p in one row. A row is created at once: one thread initialises all its states
// between two update calls; an aggregate without FILTER is then updated in the chunk that created
// the row. Update calls are numbered by thread; a state remembers the number at its creation
// (epoch) and that of the first call for it (first).
//
// If nothing decides, the call is an error: a guess could give a wrong answer.

// mark is what is known about a state.
type mark struct {
	at                uintptr
	live              bool // one of our states, not destroyed yet
	fid, sig          uint32
	tid, epoch, first uint32
}

// Kinds of callers of a doubtful call.
const (
	plainRoute    = C.BGLM_PLAIN
	filteredRoute = C.BGLM_FILTERED
	untaughtRoute = C.BGLM_UNTAUGHT
	strangeRoute  = C.BGLM_STRANGE // also an ordered aggregate, whose other entries are garbage
)

const (
	stateSize = C.sizeof_bglm_state
	elsewhere = C.BGLM_ELSEWHERE
)

// maxRow exceeds the size of any row: DuckDB keeps a row in one block.
const maxRow = 256 << 10

var errLanes = errors.New("DuckDB 2 does not tell which group these rows belong to: a GROUP BY on a column that is constant for many rows, with several bglm aggregates; " +
	"write each of them as a query of its own and join the answers, or put those without FILTER and DISTINCT first")

// constantChunk decides whether a call with entry 0 at p and all others at q has the constant form;
// sig is the hash of the call's argument types. p is live and of the call's function. Errors:
// errLanes.
func constantChunk(route int, p, q *mark, sig uint32) (bool, error) {
	if route == filteredRoute { // the filter writes the state of each row
		return false, nil
	}
	if route != strangeRoute && (q.at > p.at || p.at-q.at >= maxRow) {
		return false, nil
	}
	if !q.live || q.fid != p.fid || q.sig != 0 && q.sig != sig || q.at < p.at && p.at-q.at < stateSize {
		return true, nil
	}
	if route == strangeRoute {
		return false, errLanes
	}
	if p.tid != q.tid || p.epoch != q.epoch { // two rows
		return false, nil
	}
	if p.first == q.first && p.first != 0 && p.first != elsewhere { // both first updated by one call
		return false, nil
	}
	// Without FILTER and DISTINCT, the first call after rows are created updates all of them. It
	// updated only one of the two, so they are not of one aggregate.
	if one := p.epoch + 1; route == plainRoute && (p.first == one || q.first == one) {
		return true, nil
	}
	return false, errLanes
}

// LaneCounts counts the calls of DuckDB 2's doubtful form that were decided as flat, as constant,
// and not at all.
type LaneCounts struct{ Flat, Constant, Errors int64 }

var laneFlat, laneConstant, laneErrors atomic.Int64

// Lanes returns the counters.
func Lanes() LaneCounts { return LaneCounts{laneFlat.Load(), laneConstant.Load(), laneErrors.Load()} }

// Rules turns the rules for DuckDB 2 on or off; Register turns them on if DuckDB's version needs
// them.
func Rules(on bool) { C.bglm_rules(C.bool(on)) }

// toLanes decides which form the call has, and records it with its states.
func (s *Slots) toLanes(args []Vec, fid uint32, by *C.bglm_caller) error {
	sig := signature(args)
	if by.lanes != 0 {
		p, q := markOf(s.ptr(0)), markOf(at[unsafe.Pointer](s.p, 1))
		constant, err := constantChunk(int(by.lanes), &p, &q, sig)
		switch {
		case err != nil:
			laneErrors.Add(1)
			return err
		case constant:
			laneConstant.Add(1)
		default:
			laneFlat.Add(1)
		}
		s.constant = constant
	}
	n := s.n
	if s.constant {
		n = 1
	}
	for i := range n {
		c := (*C.bglm_state)(s.ptr(i))
		if c.first != 0 {
			continue
		}
		c.first, c.sig = C.uint32_t(firstCall(uint32(c.tid), uint32(by.tid), uint32(by.call))), C.uint32_t(sig)
	}
	return nil
}

// firstCall is what a state created by thread tid remembers of its first call.
func firstCall(tid, caller, call uint32) uint32 {
	if tid != caller {
		return elsewhere
	}
	return call
}

// markOf reads a state at an address taken from a call. This is safe for the first aggregate of a
// row as well, whatever it is: it lies before one of ours.
func markOf(p unsafe.Pointer) mark {
	m := mark{at: uintptr(p)}
	if m.at&7 != 0 || C.bglm_readable(p, C.sizeof_bglm_state) == 0 {
		return m
	}
	c := (*C.bglm_state)(p)
	m.live = c.magic == C.BGLM_MAGIC && c.self == p && (c.handle == 0 || states.slot(uint64(c.handle)) != nil)
	m.fid, m.sig, m.tid, m.epoch, m.first = uint32(c.fid), uint32(c.sig), uint32(c.tid), uint32(c.epoch), uint32(c.first)
	return m
}

// signature is a nonzero hash of the arguments' types.
func signature(args []Vec) uint32 {
	h := uint32(2166136261)
	add := func(b byte) { h = (h ^ uint32(b)) * 16777619 }
	var walk func(v *Vec)
	walk = func(v *Vec) {
		add(byte(v.Type))
		add(byte(len(v.Kids)))
		for _, b := range []byte(v.Name) {
			add(b)
		}
		for k := range v.Kids {
			walk(&v.Kids[k])
		}
	}
	for i := range args {
		walk(&args[i])
	}
	return max(h, 1)
}

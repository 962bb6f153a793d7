package capi

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// A host that aggregates as DuckDB 2 does: rows of states in blocks, all states of new
// rows initialised before the chunk's updates, aggregate by aggregate; chunks whose group
// is constant with one advanced entry; FILTER; DISTINCT, whose rows come in passes of
// their own; groups new and old; other aggregates before, between and behind; one thread
// that works on several queries in turn, and tables that move from thread to thread.
type mockThread struct{ id, calls uint32 }

type mockAgg struct {
	ours             bool
	fid, sig         uint32
	size, at         uintptr
	filter, distinct bool
}

// mockTable is one thread's part of a GROUP BY.
type mockTable struct {
	aggs       []mockAgg
	width      uintptr
	partitions []mockBlock
	groups     map[int]uintptr // group -> its row
	passes     bool            // DISTINCT
	taught     bool            // its routes are known
}

type mockBlock struct{ next, end uintptr }

type mockHost struct {
	rng    *rand.Rand
	memory map[uintptr]*mark
	free   []uintptr
	stop   int
	mockCounts
}

type mockCounts struct {
	calls, doubtful, constant, flat, errors, plainErrors int
	wrong                                                []string
	fooled                                               int // constant, though the other entries hold a live state of the same function
}

const mockBlockSize = 4096 // small, so that rows lie in many blocks

// block is at a place of its own; some lie side by side, in any order.
func (h *mockHost) block() mockBlock {
	if len(h.free) == 0 {
		base := uintptr(1+h.rng.Uint64N(1<<30)) << 16
		for i := range uintptr(8) {
			h.free = append(h.free, base+i*mockBlockSize)
		}
		h.rng.Shuffle(len(h.free), func(i, j int) { h.free[i], h.free[j] = h.free[j], h.free[i] })
	}
	b := h.free[len(h.free)-1]
	h.free = h.free[:len(h.free)-1]
	return mockBlock{b, b + mockBlockSize}
}

func (h *mockHost) table() *mockTable {
	t := &mockTable{groups: map[int]uintptr{}, passes: h.rng.IntN(8) == 0, taught: h.rng.IntN(5) > 0}
	at := 8 * uintptr(1+h.rng.IntN(6)) // validity, groups, hash
	for range 1 + h.rng.IntN(6) {
		a := mockAgg{ours: h.rng.IntN(3) > 0, fid: uint32(h.rng.IntN(2)), sig: 1 + uint32(h.rng.IntN(4)/3), at: at,
			size: 8 * uintptr(1+h.rng.IntN(6)), filter: h.rng.IntN(4) == 0}
		a.distinct = t.passes && h.rng.IntN(2) == 0
		if a.ours {
			a.size = stateSize
		}
		at += a.size
		t.aggs = append(t.aggs, a)
	}
	t.width = at
	for range 1 + h.rng.IntN(4) {
		t.partitions = append(t.partitions, h.block())
	}
	return t
}

// make creates rows for new groups and initialises their states.
func (h *mockHost) make(th *mockThread, t *mockTable, groups []int) {
	var rows []uintptr
	for _, g := range groups {
		p := &t.partitions[g%len(t.partitions)]
		if p.next+t.width > p.end {
			*p = h.block()
		}
		t.groups[g] = p.next
		rows = append(rows, p.next)
		p.next += t.width
	}
	for _, a := range t.aggs {
		for _, r := range rows {
			for x := r + a.at - stateSize + 8; x < r+a.at+a.size; x += 8 {
				delete(h.memory, x) // initialised over what lay there
			}
			if a.ours {
				h.memory[r+a.at] = &mark{at: r + a.at, live: true, fid: a.fid, tid: th.id, epoch: th.calls}
			}
		}
	}
}

// chunk aggregates n rows of the given groups; constant is how they are passed.
func (h *mockHost) chunk(th *mockThread, t *mockTable, groups []int, constant bool) {
	var fresh []int
	for _, g := range groups {
		if _, ok := t.groups[g]; !ok && !slices.Contains(fresh, g) {
			fresh = append(fresh, g)
		}
	}
	if h.rng.IntN(4) == 0 { // a collision puts a group behind later ones
		h.rng.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] })
	}
	if k := len(fresh); k > 1 && h.rng.IntN(3) == 0 {
		cut := 1 + h.rng.IntN(k-1)
		h.make(th, t, fresh[:cut])
		fresh = fresh[cut:]
	}
	h.make(th, t, fresh)
	only := -1
	if t.passes {
		only = h.rng.IntN(len(t.aggs))
	}
	for k := range t.aggs {
		a := &t.aggs[k]
		if t.passes && (only != k || !a.distinct) || !t.passes && a.distinct {
			continue
		}
		states := make([]uintptr, 0, len(groups))
		for i, g := range groups {
			at := t.groups[g] + a.at
			if constant && i > 0 {
				at = t.groups[g] + t.aggs[0].at
			}
			states = append(states, at)
		}
		isConstant, route := constant, plainRoute
		if a.filter && !a.distinct {
			kept := states[:0]
			share := h.rng.IntN(4)
			for _, g := range groups {
				if h.rng.IntN(3) < share {
					kept = append(kept, t.groups[g]+a.at)
				}
			}
			if states, isConstant, route = kept, false, filteredRoute; len(states) == 0 {
				continue
			}
		}
		if t.passes || !t.taught {
			route = untaughtRoute
		}
		if a.ours {
			h.update(th, a, states, route, isConstant, t)
		}
	}
}

func (h *mockHost) update(th *mockThread, a *mockAgg, states []uintptr, route int, constant bool, t *mockTable) {
	h.calls++
	th.calls++
	n := len(states)
	if n > 1 && states[1] != states[0] && !slices.ContainsFunc(states[2:], func(p uintptr) bool { return p != states[1] }) {
		h.doubtful++
		q := h.memory[states[1]]
		if q == nil {
			q = &mark{at: states[1]}
		}
		got, err := constantChunk(route, h.memory[states[0]], q, a.sig)
		switch {
		case err != nil:
			h.errors++
			if route == plainRoute && !slices.ContainsFunc(t.aggs, func(b mockAgg) bool { return b.filter || b.distinct }) {
				h.plainErrors++
			}
		case got != constant:
			h.wrong = append(h.wrong, fmt.Sprintf("route %d, constant %v: %+v %+v call %d of thread %d, table %+v", route, constant, *h.memory[states[0]], *q, th.calls, th.id, *t))
		case got:
			h.constant++
			if q.live && q.fid == a.fid {
				h.fooled++
			}
		default:
			h.flat++
		}
	}
	if constant {
		states = states[:1]
	}
	for _, p := range states {
		if m := h.memory[p]; m.first == 0 {
			m.first, m.sig = firstCall(m.tid, th.id, th.calls), a.sig
		}
	}
}

func (h *mockHost) run() {
	threads := make([]*mockThread, 3)
	for i := range threads {
		threads[i] = &mockThread{id: uint32(i + 1), calls: h.rng.Uint32N(5)} // few, so that numbers of threads meet
	}
	var tables []*mockTable
	for h.calls < h.stop {
		if len(tables) < 4 {
			tables = append(tables, h.table())
		}
		k := h.rng.IntN(len(tables))
		t, th := tables[k], threads[k%3]
		if h.rng.IntN(20) == 0 {
			th = threads[h.rng.IntN(3)] // the task moved
		}
		for range 1 + h.rng.IntN(3) {
			n := 1 + h.rng.IntN(6)
			first, rest := h.rng.IntN(40), h.rng.IntN(40)
			groups := make([]int, n)
			constant := h.rng.IntN(3) == 0
			for i := range groups {
				switch {
				case constant || i == 0:
					groups[i] = first
				case h.rng.IntN(12) == 0:
					groups[i] = h.rng.IntN(40)
				default:
					groups[i] = rest
				}
			}
			h.chunk(th, t, groups, constant)
		}
		if h.rng.IntN(60) == 0 { // the query ends
			for _, row := range t.groups {
				for _, a := range t.aggs {
					if a.ours && h.rng.IntN(5) > 0 { // else never destroyed
						delete(h.memory, row+a.at)
					}
				}
			}
			for _, p := range t.partitions {
				h.free = append(h.free, p.end-mockBlockSize)
			}
			tables = slices.Delete(tables, k, k+1)
		}
	}
}

// TestLanes: no doubtful call of DuckDB 2 is decided wrongly, and few are not decided.
//
// covers: hosts
func TestLanes(t *testing.T) {
	calls := 1_000_000
	if testing.Short() {
		calls = 100_000
	}
	const workers = 4
	hosts := make([]*mockHost, workers)
	var wg sync.WaitGroup
	for i := range hosts {
		hosts[i] = &mockHost{rng: rand.New(rand.NewPCG(7, uint64(i))), memory: map[uintptr]*mark{}, stop: calls / workers}
		wg.Go(hosts[i].run)
	}
	wg.Wait()
	var c mockCounts
	for _, h := range hosts {
		c.calls += h.calls
		c.doubtful += h.doubtful
		c.constant += h.constant
		c.flat += h.flat
		c.errors += h.errors
		c.plainErrors += h.plainErrors
		c.fooled += h.fooled
		c.wrong = append(c.wrong, h.wrong...)
	}
	t.Logf("%d calls, %d doubtful: %d constant (%d beside a state of the same function), %d flat, %d errors (%d of them where no FILTER, no DISTINCT and the routes known)",
		c.calls, c.doubtful, c.constant, c.fooled, c.flat, c.errors, c.plainErrors)
	if len(c.wrong) > 0 {
		t.Errorf("%d wrong decisions, the first: %s", len(c.wrong), c.wrong[0])
	}
	if c.fooled < c.calls/100 || c.flat < c.calls/50 {
		t.Errorf("the host plays too few traps: %+v", c)
	}
	if c.errors > c.doubtful/10 || c.plainErrors > c.doubtful/100 {
		t.Errorf("%d and %d of %d doubtful calls are errors", c.errors, c.plainErrors, c.doubtful)
	}
}

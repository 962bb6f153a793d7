package kernels

import (
	"math"
	"math/bits"

	"github.com/bglm/bglm/kernels/memory"
)

// tuples find the pool of a row without comparing its entries with those of pools. A row is a
// tuple: at each place one of the few entries that rows have there, by number. The tuple is one
// whole number in mixed radix, with a digit for each place and its number of entries as radix:
//
//	key = d0 + r0 (d1 + r1 (d2 + ...)),  place k has entries 0 to rk - 1
//
// Rows of equal keys belong to one pool. Offsets, responses and trials have places of their own if
// rows that differ in them belong to different pools. The zero value knows no pool; unknown ones
// are found by comparison and inserted.
type tuples struct {
	places []tuplePlace
	size   uint64 // product of the radices: keys are smaller
	direct []uint32
	table  []keyed // open addressing by key, at most half full, if direct is nil
	known  int     // number of keys with a pool
	off    bool    // a place has too many entries
}

// keyed is a key and 1 + its pool, 0 if free.
type keyed struct {
	key  uint64
	pool uint32
}

// tuplePlace numbers the entries that rows have at one place.
type tuplePlace struct {
	radix, stride uint64
	slots         []digit // open addressing, at most half full
	n             uint32
}

// digit is an entry and 1 + its number, 0 if free.
type digit struct {
	value   uint64 // bits of the value
	feature uint32
	number  uint32
}

const (
	tupleRows   = 512     // looked up together, so that cache misses overlap
	tupleFrom   = 512     // number of rows before tuples are worth their memory
	tupleWidth  = 64      // the most entries of a row
	tupleDigits = 1 << 16 // the most entries at a place
	tupleKeys   = 1 << 62
)

// none is the feature of rows without an entry at a place, and of offsets and responses.
const none = Missing

// number returns the number of an entry at the place.
func (l *tuplePlace) number(feature uint32, value uint64) uint64 {
	mask := uint64(len(l.slots) - 1)
	for at := l.probeStart(feature, value); ; at++ {
		switch s := &l.slots[at&mask]; {
		case s.number == 0:
			return l.add(feature, value, at&mask)
		case s.value == value && s.feature == feature:
			return uint64(s.number - 1)
		}
	}
}

// probeStart is the position at which the search for an entry begins.
func (l *tuplePlace) probeStart(feature uint32, value uint64) uint64 {
	return (value ^ uint64(feature)*0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93 >> bits.LeadingZeros64(uint64(len(l.slots)-1))
}

// add numbers a new entry, at a free slot.
func (l *tuplePlace) add(feature uint32, value, at uint64) uint64 {
	l.n++
	l.slots[at] = digit{value, feature, l.n}
	if 2*int(l.n) > len(l.slots) {
		old := l.slots
		l.slots = make([]digit, 2*len(old))
		mask := uint64(len(l.slots) - 1)
		for _, s := range old {
			if s.number > 0 {
				at := l.probeStart(s.feature, s.value)
				for ; l.slots[at&mask].number > 0; at++ {
				}
				l.slots[at&mask] = s
			}
		}
	}
	return uint64(l.n - 1)
}

// addTo adds the digits of entries to the keys of their rows.
func (l *tuplePlace) addTo(keys []uint64, features []uint32, values []uint64) {
	slots, mask, stride := l.slots, uint64(len(l.slots)-1), l.stride
	features, values = features[:len(keys)], values[:len(keys)]
	for i, f := range features {
		x := values[i]
		if s := &slots[l.probeStart(f, x)&mask]; s.value == x && s.feature == f && s.number > 0 {
			keys[i] += uint64(s.number-1) * stride
			continue
		}
		keys[i] += l.number(f, x) * stride
		slots, mask = l.slots, uint64(len(l.slots)-1)
	}
}

// keys sets keys to those of the rows of b from lo on, including the columns apart that distinguish
// them. It reports whether they have keys.
func (t *tuples) keys(keys []uint64, b *Batch, lo int, apart [][]float64) bool {
	var features [tupleRows]uint32
	var values [tupleRows]uint64
	fs, xs := features[:len(keys)], values[:len(keys)]
	for !t.off {
		clear(keys)
		fits, at := true, 0
		add := func() {
			if at == len(t.places) {
				t.open()
			}
			l := &t.places[at]
			l.addTo(keys, fs, xs)
			fits = fits && uint64(l.n) <= l.radix
			at++
		}
		for _, s := range apart {
			for i := range fs {
				fs[i], xs[i] = none, 0
				if len(s) > 0 {
					xs[i] = math.Float64bits(s[lo+i] + 0)
				}
			}
			add()
		}
		for k := 0; b.entriesAt(lo, k, fs, xs) || at < len(t.places); k++ {
			if k == tupleWidth {
				*t = tuples{off: true}
				return false
			}
			add()
		}
		if fits {
			return true
		}
		t.widen()
	}
	return false
}

// entriesAt sets the features and values to entry k of the rows from lo on, none if a row has
// fewer, and reports whether one of them has it.
func (b *Batch) entriesAt(lo, k int, features []uint32, values []uint64) (some bool) {
	if w := len(b.Shared); k < w {
		for i := range features {
			features[i], values[i] = b.Shared[k], math.Float64bits(b.Value[(lo+i)*w+k]+0)
		}
		return true
	}
	if b.Shared != nil {
		for i := range features {
			features[i], values[i] = none, 0
		}
		return false
	}
	ends := b.Row[lo+1:][:len(features)]
	at := b.Row[lo]
	for i, end := range ends {
		if e := at + k; e < end {
			features[i], values[i], some = b.Feature[e], math.Float64bits(b.Value[e]+0), true
		} else {
			features[i], values[i] = none, 0
		}
		at = end
	}
	return some
}

// open adds a place. Known rows have no entry there, which gets number 0.
func (t *tuples) open() {
	t.size = max(t.size, 1)
	l := tuplePlace{radix: 1, stride: t.size, slots: make([]digit, 8)}
	if t.known > 0 {
		l.number(none, 0)
	}
	t.places = append(t.places, l)
}

// widen sets the radices to the present numbers of entries of their places.
func (t *tuples) widen() {
	places, size := make([]tuplePlace, len(t.places)), uint64(1)
	for k, l := range t.places {
		if n := uint64(l.n); n > l.radix {
			l.radix = n
			if n > 32 { // there will be more
				l.radix += n / 8
			}
		}
		l.stride = size
		high, low := bits.Mul64(size, l.radix)
		if size = low; high > 0 || size > tupleKeys || l.n > tupleDigits {
			*t = tuples{off: true}
			return
		}
		places[k] = l
	}
	was := *t
	*t = tuples{places: places, size: size}
	t.room(was.known)
	was.each(func(key uint64, pool uint32) {
		now := uint64(0)
		for k, l := range was.places {
			now += key / l.stride % l.radix * places[k].stride
		}
		t.insert(now, pool)
	})
}

// each calls f with each key and its pool.
func (t *tuples) each(f func(key uint64, pool uint32)) {
	for key, k := range t.direct {
		if k > 0 {
			f(uint64(key), k-1)
		}
	}
	for _, e := range t.table {
		if e.pool > 0 {
			f(e.key, e.pool-1)
		}
	}
}

// room makes an empty table for n keys: indexed by the key itself if that is not larger.
func (t *tuples) room(n int) {
	if t.size <= max(1<<8, 8*uint64(n)) {
		t.direct, t.table = memory.Make[uint32](int(t.size), int(t.size)), nil
		return
	}
	size := 1 << bits.Len(uint(max(2*n, 1<<8)))
	t.direct, t.table = nil, memory.Make[keyed](size, size)
}

// insert records the pool of a new key.
func (t *tuples) insert(key uint64, pool uint32) {
	t.known++
	if t.direct == nil && 2*t.known > len(t.table) {
		was := *t
		t.known = 0
		t.room(was.known)
		was.each(t.insert)
		t.insert(key, pool)
		return
	}
	if t.direct != nil {
		t.direct[key] = pool + 1
		return
	}
	mask := uint64(len(t.table) - 1)
	at := t.probeStart(key)
	for ; t.table[at&mask].pool > 0; at++ {
	}
	t.table[at&mask] = keyed{key, pool + 1}
}

// probeStart is the position at which the search for a key begins.
func (t *tuples) probeStart(key uint64) uint64 {
	return key * 0x9e3779b97f4a7c15 >> bits.LeadingZeros64(uint64(len(t.table)-1))
}

// find sets pools to 1 + the pool of each key, 0 for unknown ones.
func (t *tuples) find(keys []uint64, pools []uint32) {
	pools = pools[:len(keys)]
	if t.direct != nil {
		for i, key := range keys {
			pools[i] = t.direct[key]
		}
		return
	}
	table, mask := t.table, uint64(len(t.table)-1)
	if len(table) == 0 {
		clear(pools)
		return
	}
	for i, key := range keys {
		at := t.probeStart(key)
		for table[at&mask].pool > 0 && table[at&mask].key != key {
			at++
		}
		pools[i] = table[at&mask].pool
	}
}

// memory is their size in bytes.
func (t *tuples) memory() int64 {
	n := 4*int64(cap(t.direct)) + 16*int64(cap(t.table)) + 56*int64(cap(t.places))
	for k := range t.places {
		n += 16 * int64(cap(t.places[k].slots))
	}
	return n
}

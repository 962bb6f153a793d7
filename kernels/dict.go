package kernels

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/bglm/bglm/kernels/memory"
)

// Intercept is the feature that every row has with value 1.
const Intercept = "(Intercept)"

// ErrIntercept is the error for rows that name the intercept if they have it already.
var ErrIntercept = fmt.Errorf("feature %q is the intercept, which every row has by itself; leave it out, give it another name, or fit without the intercept", Intercept)

// Dict numbers feature names 0, 1, 2, ... in order of first appearance.
//
// A name is stored in two words, its length and up to 12 bytes of text, longer ones in one arena,
// so that a dictionary of millions costs the garbage collector nothing and most names are compared
// without reading their text. The name of a categorical feature consists of its column and the
// value: only the value is stored, hashed with the column's hash as seed. Whole numbers and slots
// are stored as numbers; their digits are written when the name is requested.
//
// The zero value is an empty dictionary, ready for use.
type Dict struct {
	names []name
	arena []byte // texts longer than 12 bytes
	// table has the upper half of a name's hash, and id+1 below it: open addressing from the
	// position given by the hash's first bits, so that a larger table is filled in the order of the
	// smaller one. nil while small.
	table []uint64
	cols  *Columns // the columns by which names are split; nil for none

	// direct is a shortcut from a small whole number (a slot with HashBits) to its feature: id+1,
	// or 0 if only the table knows. only counts the numbers that are in no table. If complete is
	// set it has an entry for every slot, and the table has only the other names.
	direct   []uint32
	only     int
	complete bool

	// Of the dense columns 1..wide, which lists of numbers have, 1..denseN have the numbers
	// denseBase, denseBase+1, ...; apart has the places of the others, by number, if earlier names
	// lie between.
	denseBase, denseN, wide int32
	apart                   map[uint32]int32

	// HashBits > 0 bounds the dictionary: names fall into 2^HashBits slots called #0, #1, ... The
	// intercept has none. It is set before any name except those of AddRaw is added.
	HashBits int
	// Max is the largest number of features; 0 = no limit.
	Max int
}

// name is a feature: the column it belongs to (0 for none) and the value, or the whole name.
type name struct {
	lo, hi uint64 // as in Text; hi is the position of a long one in the arena
	col    uint32
}

// ErrTooManyFeatures reports a dictionary at its limit.
type ErrTooManyFeatures struct{ Max int }

func (e ErrTooManyFeatures) Error() string {
	return fmt.Sprintf("more than max_features = %d features; raise max_features, or bound them with hash_bits", e.Max)
}

const smallDict = 8 // below this a scan is faster than a table

// Len is the number of features.
func (d *Dict) Len() int { return len(d.names) }

// Name is the name of feature id. Cost: one allocation.
func (d *Dict) Name(id uint32) []byte { return d.AppendName(nil, id) }

// AppendName appends the name of feature id. It may write bytes beyond the end, up to dst's
// capacity.
func (d *Dict) AppendName(dst []byte, id uint32) []byte { return d.appendName(dst, &d.names[id]) }

func (d *Dict) appendName(dst []byte, n *name) []byte {
	if n.col > 0 {
		dst = append(dst, d.cols.text[n.col-1]...)
	}
	if n.isLong() {
		return append(dst, d.long(n)...)
	}
	return appendInline(dst, n.lo, n.hi)
}

// AppendNames appends the names of features to text, and the end of each to ends. They are read
// together, so that the cache misses of a large dictionary overlap.
func (d *Dict) AppendNames(text []byte, ends []int, ids []uint32) ([]byte, []int) {
	var some [64]name
	for len(ids) > 0 {
		n := min(len(ids), len(some))
		for k, id := range ids[:n] {
			some[k] = d.names[id]
		}
		for k := range some[:n] {
			text = d.appendName(text, &some[k])
			ends = append(ends, len(text))
		}
		ids = ids[n:]
	}
	return text, ends
}

// isLong reports whether the name has more than 12 bytes of text.
func (n *name) isLong() bool {
	return n.lo&math.MaxUint32 > inlineText && n.lo != numberMark && n.lo != slotMark
}

// text returns the value of a name, valid until a name is added.
func (d *Dict) text(n *name) Text {
	if n.isLong() {
		b := d.long(n)
		return Text{Lo: n.lo, Long: unsafe.String(unsafe.SliceData(b), len(b))}
	}
	return Text{Lo: n.lo, Hi: n.hi}
}

// long returns the text of a name longer than 12 bytes.
func (d *Dict) long(n *name) []byte { return d.arena[n.hi : n.hi+n.lo&math.MaxUint32] }

// Size is the memory held in bytes.
func (d *Dict) Size() int64 {
	return int64(cap(d.arena)) + 24*int64(cap(d.names)) + 8*int64(cap(d.table)) + 4*int64(cap(d.direct)) + 120
}

// Reset removes all features and keeps the memory.
func (d *Dict) Reset() {
	d.arena, d.names, d.cols = d.arena[:0], d.names[:0], nil
	d.denseBase, d.denseN, d.wide, d.apart = 0, 0, 0, nil
	d.only = 0
	if d.complete {
		d.direct, d.complete = nil, false
	}
	clear(d.direct)
	if len(d.table) > 1<<16 {
		d.table = nil
	} else {
		clear(d.table)
	}
}

// Clone returns an independent copy.
func (d *Dict) Clone() Dict {
	c := *d
	c.arena, c.names, c.table, c.direct = slices.Clone(d.arena), slices.Clone(d.names), slices.Clone(d.table), slices.Clone(d.direct)
	c.apart = maps.Clone(d.apart)
	return c
}

// ---- lookup --------------------------------------------------------------------

// same reports whether name n is value t of column col.
func (d *Dict) same(n *name, col uint32, t *Text) bool {
	if n.lo != t.Lo || n.col != col {
		return false
	}
	return n.hi == t.Hi && t.Long == "" || t.Long != "" && string(d.long(n)) == t.Long
}

// isDirect reports whether t is a slot that only direct knows.
func (d *Dict) isDirect(t *Text) bool {
	return d.complete && t.Lo == slotMark && t.Hi < uint64(len(d.direct))
}

// home is the position at which the search for a hash begins.
func (d *Dict) home(h uint64) uint64 { return h >> bits.LeadingZeros64(uint64(len(d.table)-1)) }

// find returns the feature that is value t of column col, or the position at which to insert it.
func (d *Dict) find(h uint64, col uint32, t *Text) (id uint32, at int, ok bool) {
	if id, ok := d.shortcut(col, t.Lo, t.Hi); ok {
		return id, 0, id != Missing
	}
	if d.table == nil {
		for i := range d.names {
			if d.same(&d.names[i], col, t) {
				return uint32(i), 0, true
			}
		}
		return 0, 0, false
	}
	mask := uint64(len(d.table) - 1)
	top := h &^ math.MaxUint32
	for i := d.home(h); ; i = (i + 1) & mask {
		e := d.table[i]
		if e == 0 {
			return 0, int(i), false
		}
		if e&^math.MaxUint32 == top {
			if id := uint32(e) - 1; d.same(&d.names[id], col, t) {
				return id, 0, true
			}
		}
	}
}

// ahead is the number of names looked up together: enough for their cache misses to overlap, few
// enough to stay in the near caches.
const ahead = 512

// findSome is find for up to ahead values of column col; ids are Missing for unknown ones. It
// reports whether all are known. All entries of the table are read before the first name, and all
// names before the first comparison, so that the cache misses of a large dictionary overlap.
func (d *Dict) findSome(ids []uint32, hs []uint64, col uint32, ts []Text) (all bool) {
	all = true
	ids, ts = ids[:len(hs)], ts[:len(hs)]
	if d.table == nil {
		for k, h := range hs {
			id, _, ok := d.find(h, col, &ts[k])
			if !ok {
				id, all = Missing, false
			}
			ids[k] = id
		}
		return all
	}
	table, names := d.table, d.names
	shift := bits.LeadingZeros64(uint64(len(table) - 1))
	mask := uint64(len(table) - 1)
	var es [ahead]uint64
	for k, h := range hs {
		es[k&(ahead-1)] = table[h>>shift]
	}
	for k, h := range hs {
		e := es[k&(ahead-1)]
		for i := h >> shift; e != 0 && (e^h)>>32 != 0; { // another name
			i = (i + 1) & mask
			e = table[i]
		}
		ids[k] = uint32(e) - 1 // Missing for 0
	}
	for k, id := range ids { // no branch here, so that all misses are under way before the first is resolved
		n, t := &names[min(int(id), len(names)-1)], &ts[k]
		es[k&(ahead-1)] = n.lo ^ t.Lo | n.hi ^ t.Hi | uint64(n.col^col) | uint64(len(t.Long))
	}
	for k, id := range ids {
		if es[k&(ahead-1)] == 0 && id != Missing {
			continue
		}
		ok := false
		if id != Missing { // a long name, or an accidental match of the hash
			id, _, ok = d.find(hs[k], col, &ts[k])
		}
		if !ok {
			id, all = Missing, false
		}
		ids[k] = id
	}
	return all
}

// add returns the number of value t of column col, new or not.
func (d *Dict) add(h uint64, col uint32, t *Text) (uint32, error) {
	id, at, ok := d.find(h, col, t)
	if ok {
		return id, nil
	}
	if d.Max > 0 && len(d.names) >= d.Max {
		return 0, ErrTooManyFeatures{d.Max}
	}
	n := name{lo: t.Lo, hi: t.Hi, col: col}
	if t.Long != "" {
		n.hi = uint64(len(d.arena))
		d.arena = append(d.arena, t.Long...)
	}
	id = uint32(len(d.names))
	if len(d.names) == cap(d.names) {
		d.names = memory.Grow(d.names, 4) // one allocation for a small group
	}
	d.names = append(d.names, n)
	switch {
	case d.isDirect(t):
		d.direct[t.Hi] = id + 1
	case d.table != nil && d.isNumber(col, t.Lo) && d.room(t.Hi, 0):
		d.direct[t.Hi] = id + 1
		d.only++
	case d.table == nil:
		if len(d.names) > smallDict {
			d.index(4 * smallDict)
		}
	case d.full():
		d.rehash(2 * len(d.table))
		d.enter(h&^math.MaxUint32 | uint64(id+1))
	default:
		d.table[at] = h&^math.MaxUint32 | uint64(id+1)
	}
	return id, nil
}

// index creates the table of a dictionary without one.
func (d *Dict) index(size int) {
	d.table = make([]uint64, size)
	for id := range d.names {
		d.enter(d.hash(uint32(id))&^math.MaxUint32 | uint64(id+1))
	}
}

// full reports whether the table is to grow. If it fits into a cache, space costs little, and a
// second probe, which no processor can predict, more than the probe itself.
func (d *Dict) full() bool {
	n := len(d.names) - d.only
	if len(d.table) < nearTable {
		return 4*n > len(d.table)
	}
	return 8*n > 5*len(d.table)
}

// nearTable is the size of a table, 256 KB, that fits into a cache.
const nearTable = 1 << 15

// rehash enlarges the table.
func (d *Dict) rehash(size int) {
	old := d.table
	d.table = memory.Make[uint64](size, size)
	for _, e := range old {
		if e != 0 {
			d.enter(e)
		}
	}
}

func (d *Dict) enter(e uint64) {
	mask := uint64(len(d.table) - 1)
	i := d.home(e)
	for d.table[i] != 0 {
		i = (i + 1) & mask
	}
	d.table[i] = e
}

// hash is the hash of feature id in the table.
func (d *Dict) hash(id uint32) uint64 {
	n := &d.names[id]
	t := d.text(n)
	if n.col > 0 {
		return t.hash(d.cols.seed[n.col-1])
	}
	return t.hashKey()
}

// AddRaw numbers a name without hashing it into a slot, also under HashBits (for beliefs with slot
// names and the intercept).
func (d *Dict) AddRaw(name string) (uint32, error) {
	h, col, t := d.split(name)
	return d.add(h, col, &t)
}

// split returns the hash of a name, and its column in the dictionary and its value.
func (d *Dict) split(name string) (h uint64, col uint32, t Text) {
	if i := strings.IndexByte(name, '='); i >= 0 {
		h = hashBytes(hashBytes(k0, view(name[:i+1])), view(name[i+1:]))
		if d.cols != nil {
			if col = d.cols.at[name[:i+1]]; col > 0 {
				return h, col, NewText(name[i+1:])
			}
		}
		return h, 0, NewText(name)
	}
	t = keyOf(NewText(name))
	return t.hashKey(), 0, t
}

// Merge numbers the features of src and returns their numbers, in src's order.
// Errors: the dictionary's limit; names before it are numbered.
func (d *Dict) Merge(src *Dict) (ids []uint32, err error) {
	if ids, err = d.merge(src); err == nil {
		d.widenBy(src, ids)
	}
	return ids, err
}

func (d *Dict) merge(src *Dict) (ids []uint32, err error) {
	ids = make([]uint32, src.Len())
	if src.cols != nil {
		d.Use(src.cols)
	}
	if d.cols != nil && d.cols != src.cols { // d may split names that are whole in src
		for j := range ids {
			n := &src.names[j]
			t := src.text(n)
			if n.col == 0 {
				ids[j], err = d.AddRaw(t.String())
			} else {
				ids[j], err = d.add(src.hash(uint32(j)), d.cols.at[src.cols.text[n.col-1]], &t)
			}
			if err != nil {
				return nil, err
			}
		}
		return ids, nil
	}
	all := int64(1)
	each(len(ids), func(lo, hi int) {
		if !d.findOf(src, ids, lo, hi) {
			atomic.StoreInt64(&all, 0)
		}
	})
	if all == 1 {
		return ids, nil
	}
	for j, id := range ids { // src has each name once: new ones stay new until their turn
		if id == Missing {
			n := &src.names[j]
			t := src.text(n)
			if ids[j], err = d.add(src.hash(uint32(j)), n.col, &t); err != nil {
				return nil, err
			}
		}
	}
	return ids, nil
}

// findOf sets ids[lo:hi] to the numbers of these features of src, whose columns are those of d,
// Missing for unknown ones. It reports whether all are known.
func (d *Dict) findOf(src *Dict, ids []uint32, lo, hi int) (all bool) {
	var hs [ahead]uint64
	var ts [ahead]Text
	var found [ahead]uint32
	var at [ahead]int
	all = true
	for lo < hi {
		n, col := 0, src.names[lo].col
		for ; lo < hi && n < ahead && src.names[lo].col == col; lo++ {
			t := &src.names[lo]
			if id, ok := d.shortcut(t.col, t.lo, t.hi); ok {
				ids[lo] = id
				all = all && id != Missing
				continue
			}
			ts[n], hs[n], at[n] = src.text(t), src.hash(uint32(lo)), lo
			n++
		}
		all = d.findSome(found[:n], hs[:n], col, ts[:n]) && all
		for i, id := range found[:n] {
			ids[at[i]] = id
		}
	}
	return all
}

// isNumber reports whether a value of column col is a whole number that direct may have.
func (d *Dict) isNumber(col uint32, lo uint64) bool {
	return lo == numberMark && col == 0 && d.HashBits == 0
}

// shortcut returns the feature of a number or slot, Missing if there is none, provided that direct
// knows it.
func (d *Dict) shortcut(col uint32, lo, hi uint64) (id uint32, ok bool) {
	if lo != numberMark && lo != slotMark || hi >= uint64(len(d.direct)) {
		return 0, false
	}
	id = d.direct[hi] - 1
	if d.complete {
		return id, lo == slotMark
	}
	return id, id != Missing && d.isNumber(col, lo)
}

// slotOf returns the slot of a hash, as a name and with its hash.
func (d *Dict) slotOf(h uint64) (t Text, key uint64) {
	t = Text{Lo: slotMark, Hi: h >> (64 - uint(d.HashBits))}
	return t, hashNumber(t.Lo, t.Hi)
}

// slot numbers the slot of a hash.
func (d *Dict) slot(h uint64) (uint32, error) {
	if id := d.findSlot(h); id != Missing {
		return id, nil
	}
	t, key := d.slotOf(h)
	id, err := d.add(key, 0, &t)
	if err == nil && !d.complete {
		d.rememberSlot(t.Hi, id)
	}
	return id, err
}

func (d *Dict) findSlot(h uint64) uint32 {
	s := h >> (64 - uint(d.HashBits))
	if s < uint64(len(d.direct)) && (d.direct[s] > 0 || d.complete) {
		return d.direct[s] - 1 // Missing for 0
	}
	t, key := d.slotOf(h)
	if id, _, ok := d.find(key, 0, &t); ok {
		d.rememberSlot(s, id)
		return id
	}
	return Missing
}

// findSlots is findSlot for several hashes, and reports whether all were found. If direct has all
// slots there is nothing between its reads, so that their cache misses overlap.
func (d *Dict) findSlots(ids []uint32, hs []uint64) (all bool) {
	all = true
	ids = ids[:len(hs)]
	if !d.complete {
		for k, h := range hs {
			ids[k] = d.findSlot(h)
			all = all && ids[k] != Missing
		}
		return all
	}
	direct, shift := d.direct[:1<<d.HashBits], 64-uint(d.HashBits)
	for k, h := range hs {
		ids[k] = direct[h>>shift&uint64(len(direct)-1)] - 1 // Missing for 0
	}
	return !slices.Contains(ids, Missing)
}

// From 1/slotShare of the slots in use on, direct has an entry for each of them: these entries are
// then a small part of the memory for names.
const slotShare = 32

// rememberSlot is remember, for all slots at once if there are many.
func (d *Dict) rememberSlot(s uint64, id uint32) {
	if d.table == nil || len(d.names) < 1<<d.HashBits/slotShare {
		d.remember(s, id)
		return
	}
	d.direct, d.complete = memory.Make[uint32](1<<d.HashBits, 1<<d.HashBits), true
	d.table = make([]uint64, 4*smallDict)
	others := 0
	for id := range d.names {
		if n := &d.names[id]; n.lo == slotMark && n.hi < 1<<d.HashBits {
			d.direct[n.hi] = uint32(id) + 1
			continue
		}
		if others++; 2*others > len(d.table) {
			d.rehash(2 * len(d.table))
		}
		d.enter(d.hash(uint32(id))&^math.MaxUint32 | uint64(id+1))
	}
}

// remember makes the next search for the whole number v direct, if there is room.
func (d *Dict) remember(v uint64, id uint32) {
	if d.room(v, 1<<20) {
		d.direct[v] = id + 1
	}
}

// room makes room in direct for the whole number v: up to a few times the number of features, or up
// to few, a few megabytes, with thousands of names.
func (d *Dict) room(v, few uint64) bool {
	if v < uint64(len(d.direct)) {
		return true
	}
	limit := 4 * uint64(len(d.names))
	if len(d.names) >= 1<<12 {
		limit = max(limit, few)
	}
	if v >= limit {
		return false
	}
	n := max(16, uint64(len(d.direct)))
	for n <= v {
		n *= 2
	}
	d.direct = memory.Grow(d.direct, int(n)-len(d.direct))[:n]
	return true
}

// Add numbers a name.
func (d *Dict) Add(name string) (uint32, error) {
	if d.HashBits > 0 {
		return d.slot(HashName(view(name)))
	}
	return d.AddRaw(name)
}

// AddInt numbers the decimal text of v.
func (d *Dict) AddInt(v int) (uint32, error) {
	if d.HashBits > 0 {
		t := intText(int64(v))
		return d.slot(t.hash(k0))
	}
	if uint64(v) < uint64(len(d.direct)) {
		if id := d.direct[v]; id > 0 {
			return id - 1, nil
		}
	}
	t := intKey(int64(v))
	if v > 0 {
		d.room(uint64(v), 1<<20)
	}
	id, err := d.add(t.hashKey(), 0, &t)
	if err == nil && v >= 0 {
		d.remember(uint64(v), id)
	}
	return id, err
}

// Missing is the number of an unknown feature.
const Missing = math.MaxUint32

// FindInts sets ids to the numbers of the decimal texts of vs, Missing for unknown ones, and
// reports whether all are known.
func (d *Dict) FindInts(ids []uint32, vs []int64) (all bool) {
	all = true
	if len(vs) <= fewLookups {
		for k, v := range vs {
			ids[k] = d.findInt(v)
			all = all && ids[k] != Missing
		}
		return all
	}
	if d.HashBits > 0 {
		var hs [ahead]uint64
		for len(vs) > 0 {
			n := min(len(vs), ahead)
			for k, v := range vs[:n] {
				t := intText(v)
				hs[k] = t.hash(k0)
			}
			all = d.findSlots(ids[:n], hs[:n]) && all
			ids, vs = ids[n:], vs[n:]
		}
		return all
	}
	var at [ahead]int
	var hs [ahead]uint64
	var ts [ahead]Text
	var found [ahead]uint32
	for k, n := 0, 0; k < len(vs); n = 0 {
		for ; n < ahead && k < len(vs); k++ {
			v := vs[k]
			if uint64(v) < uint64(len(d.direct)) && d.direct[v] > 0 {
				ids[k] = d.direct[v] - 1
				continue
			}
			at[n], ts[n] = k, intKey(v)
			hs[n] = ts[n].hashKey()
			n++
		}
		if !d.findSome(found[:n], hs[:n], 0, ts[:n]) {
			all = false
		}
		for i, id := range found[:n] {
			if ids[at[i]] = id; id != Missing && vs[at[i]] >= 0 {
				d.remember(uint64(vs[at[i]]), id)
			}
		}
	}
	return all
}

// findInt is FindInts for one.
func (d *Dict) findInt(v int64) uint32 {
	if d.HashBits > 0 {
		t := intText(v)
		return d.findSlot(t.hash(k0))
	}
	if uint64(v) < uint64(len(d.direct)) && d.direct[v] > 0 {
		return d.direct[v] - 1
	}
	t := intKey(v)
	id, _, ok := d.find(t.hashKey(), 0, &t)
	if !ok {
		return Missing
	}
	if v >= 0 {
		d.remember(uint64(v), id)
	}
	return id
}

// FindTexts sets ids to the numbers of the values ts of column c, or of the names ts if c is Names,
// Missing for unknown ones, and reports whether all are known.
func (d *Dict) FindTexts(ids []uint32, c Column, ts []Text) (all bool) {
	all = true
	if len(ts) <= fewLookups || d.HashBits == 0 && c.whole && d.cols != nil {
		for k := range ts {
			ids[k] = d.findText(c, &ts[k])
			all = all && ids[k] != Missing
		}
		return all
	}
	var hs [ahead]uint64
	for lo := 0; lo < len(ts); lo += ahead {
		some := ts[lo:min(lo+ahead, len(ts))]
		known, found := false, ids[lo:lo+len(some)]
		switch {
		case d.HashBits == 0 && c.whole:
			if hashNames(hs[:len(some)], some) {
				known = d.findSome(found, hs[:len(some)], 0, some)
			} else {
				known = d.findKeys(found, some)
			}
		case c.whole:
			for k := range some {
				hs[k] = some[k].hashName()
			}
			known = d.findSlots(found, hs[:len(some)])
		default:
			for k := range some {
				hs[k] = some[k].hash(c.seed)
			}
			if d.HashBits > 0 {
				known = d.findSlots(found, hs[:len(some)])
			} else {
				known = d.findSome(found, hs[:len(some)], c.id, some)
			}
		}
		all = all && known
	}
	return all
}

// fewLookups is the number of features, such as those of a group in a block of rows, up to which
// clearing the arrays for ahead of them would take longer than finding one after the other.
const fewLookups = 32

// findText is FindTexts for one.
func (d *Dict) findText(c Column, t *Text) (id uint32) {
	var ok bool
	switch {
	case d.HashBits > 0 && c.whole:
		return d.findSlot(t.hashName())
	case d.HashBits > 0:
		return d.findSlot(t.hash(c.seed))
	case !c.whole:
		id, _, ok = d.find(t.hash(c.seed), c.id, t)
	case d.cols != nil: // the name may contain the column that it belongs to
		h, col, v := d.split(t.String())
		id, _, ok = d.find(h, col, &v)
	default:
		k := keyOf(*t)
		id, _, ok = d.find(k.hashKey(), 0, &k)
	}
	if !ok {
		return Missing
	}
	return id
}

// hashNames is hashName for each, but false if one begins like a number or a slot. Most names are
// short; a call for each would take as long as the hash.
func hashNames(hs []uint64, ts []Text) bool {
	hs = hs[:len(ts)]
	for k := range ts {
		t := &ts[k]
		if first := byte(t.Lo >> 32); first-'0' <= 9 || first == '#' {
			return false
		}
		n, w := t.Lo&0xffffffff, t.Lo>>32|t.Hi<<32
		if n-4 > 4 || hasEquals(w) {
			hs[k] = t.hashName()
			continue
		}
		hs[k] = mix(mix(k0^(w&0xffffffff|w>>(8*(n-4))<<32), k1)^n, k2)
	}
	return true
}

// findKeys is findSome for whole names, some of which may be numbers or slots.
func (d *Dict) findKeys(ids []uint32, ts []Text) (all bool) {
	var hs [ahead]uint64
	var keys [ahead]Text
	var found [ahead]uint32
	var at [ahead]int
	n := 0
	for k, t := range ts {
		key := keyOf(t)
		if id, ok := d.shortcut(0, key.Lo, key.Hi); ok {
			ids[k] = id
			continue
		}
		keys[n], hs[n], at[n] = key, key.hashKey(), k
		n++
	}
	d.findSome(found[:n], hs[:n], 0, keys[:n])
	for i, id := range found[:n] {
		ids[at[i]] = id
	}
	return !slices.Contains(ids, Missing)
}

// Is reports whether t is the name of feature id and has no column; false if id is Missing. Names
// that look like numbers are never so found.
func (d *Dict) Is(id uint32, t *Text) bool {
	return int64(id) < int64(len(d.names)) && d.same(&d.names[id], 0, t)
}

// AddText numbers the value t of column c, or the name t if c is Names.
func (d *Dict) AddText(c Column, t *Text) (uint32, error) {
	if c.whole {
		if d.HashBits > 0 {
			return d.slot(t.hashName())
		}
		if d.cols != nil {
			return d.AddRaw(t.String())
		}
		k := keyOf(*t)
		return d.add(k.hashKey(), 0, &k)
	}
	h := t.hash(c.seed)
	if d.HashBits > 0 {
		return d.slot(h)
	}
	return d.add(h, c.id, t)
}

// Dense numbers the dense columns 1..n. If it returns base >= 0, column j has number base+j-1;
// otherwise call AddInt for each column.
func (d *Dict) Dense(n int) (base int, err error) {
	if n <= int(d.denseN) {
		return int(d.denseBase), nil
	}
	if d.HashBits > 0 || n <= int(d.wide) {
		return -1, nil
	}
	if d.Max > 0 && n > d.Max { // before filling memory with names
		return 0, ErrTooManyFeatures{d.Max}
	}
	for j := int(d.wide) + 1; j <= n; j++ {
		id, err := d.AddInt(j)
		if err != nil {
			return 0, err
		}
		d.widen(id)
	}
	if n > int(d.denseN) {
		return -1, nil // other features lie between: the numbers are not consecutive
	}
	return int(d.denseBase), nil
}

// widen makes id the number of the next dense column.
func (d *Dict) widen(id uint32) {
	switch {
	case d.wide == 0:
		d.denseBase, d.denseN = int32(id), 1
	case d.denseN == d.wide && id == uint32(d.denseBase+d.denseN):
		d.denseN++
	default:
		if d.apart == nil {
			d.apart = map[uint32]int32{}
		}
		d.apart[id] = d.wide
	}
	d.wide++
}

// widenBy adds the dense columns of src, whose features have the numbers ids here.
func (d *Dict) widenBy(src *Dict, ids []uint32) {
	if src.wide <= d.wide {
		return
	}
	at := make([]uint32, src.wide)
	for j := range src.denseN {
		at[j] = ids[src.denseBase+j]
	}
	for id, j := range src.apart {
		at[j] = ids[id]
	}
	for _, id := range at[d.wide:] {
		d.widen(id)
	}
}

// DenseBase is the number of dense column 1 if columns 1..n have consecutive numbers.
func (d *Dict) DenseBase(n int) (base int, ok bool) { return int(d.denseBase), n <= int(d.denseN) }

// Find returns the number of a known name.
func (d *Dict) Find(name string) (uint32, bool) {
	h, col, t := d.split(name)
	id, _, ok := d.find(h, col, &t)
	return id, ok
}

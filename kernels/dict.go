package kernels

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// Intercept is the feature that every row has with value 1.
const Intercept = "(Intercept)"

// Dict numbers feature names 0, 1, 2, ... in order of first appearance.
//
// A name lies in two words, its length and up to 12 bytes of text, longer ones in
// one arena, so that a dictionary of millions costs the collector nothing and most
// names are compared without a look at their text. The name of a categorical
// feature is its column and the value: only the value is stored, hashed on from
// the column's own hash.
//
// The zero value is an empty dictionary, ready for use.
type Dict struct {
	names []name
	arena []byte   // texts over 12 bytes
	table []uint64 // hash<<32 | id+1, open addressing; nil while small
	cols  *Columns // the columns that names are split by; nil for none

	// direct is a shortcut from a small whole number (a slot with HashBits) to its
	// feature: id+1, 0 for ask the table.
	direct []uint32

	// Dense columns 1..denseN have the numbers denseBase, denseBase+1, ...
	denseBase, denseN int32

	// HashBits > 0 bounds the dictionary: names fall into 2^HashBits slots
	// called #0, #1, ... The intercept has none. It is set before any name but
	// those of AddRaw.
	HashBits int
	// Max is the largest number of features; 0 = no limit.
	Max int
}

// name is a feature: the column it belongs to (0 for none) and the value, or all
// of the name.
type name struct {
	lo, hi uint64 // as in Text; hi is the place in the arena of a long one
	col    uint32
	hash   uint32 // low half
}

// ErrTooManyFeatures reports a dictionary at its limit.
type ErrTooManyFeatures struct{ Max int }

func (e ErrTooManyFeatures) Error() string {
	return fmt.Sprintf("more than max_features = %d features; raise max_features, or bound them with hash_bits", e.Max)
}

const smallDict = 8 // below this a scan beats a table

// Len is the number of features.
func (d *Dict) Len() int { return len(d.names) }

// Name is the name of feature id. Cost: one allocation.
func (d *Dict) Name(id uint32) []byte { return d.AppendName(nil, id) }

// AppendName appends the name of feature id.
func (d *Dict) AppendName(dst []byte, id uint32) []byte {
	n := &d.names[id]
	if n.col > 0 {
		dst = append(dst, d.cols.text[n.col-1]...)
	}
	if n.lo&math.MaxUint32 > inlineText {
		return append(dst, d.long(n)...)
	}
	return appendInline(dst, n.lo, n.hi)
}

// long is the text of a name over 12 bytes.
func (d *Dict) long(n *name) []byte { return d.arena[n.hi : n.hi+n.lo&math.MaxUint32] }

// Size is the memory held, in bytes.
func (d *Dict) Size() int64 {
	return int64(cap(d.arena)) + 24*int64(cap(d.names)) + 8*int64(cap(d.table)) + 4*int64(cap(d.direct)) + 120
}

// Reset forgets all features and keeps the memory.
func (d *Dict) Reset() {
	d.arena, d.names, d.cols = d.arena[:0], d.names[:0], nil
	d.denseBase, d.denseN = 0, 0
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
	return c
}

// ---- lookup --------------------------------------------------------------------

// same says whether name n is the value t of column col.
func (d *Dict) same(n *name, col uint32, t *Text) bool {
	if n.lo != t.Lo || n.col != col {
		return false
	}
	return n.hi == t.Hi && t.Long == "" || t.Long != "" && string(d.long(n)) == t.Long
}

// find returns the feature that is value t of column col, or where to put it.
func (d *Dict) find(h uint64, col uint32, t *Text) (id uint32, at int, ok bool) {
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
	for i := h & mask; ; i = (i + 1) & mask {
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

// add returns the number of value t of column col, new or not.
func (d *Dict) add(h uint64, col uint32, t *Text) (uint32, error) {
	id, at, ok := d.find(h, col, t)
	if ok {
		return id, nil
	}
	if d.Max > 0 && len(d.names) >= d.Max {
		return 0, ErrTooManyFeatures{d.Max}
	}
	n := name{lo: t.Lo, hi: t.Hi, col: col, hash: uint32(h)}
	if t.Long != "" {
		n.hi = uint64(len(d.arena))
		d.arena = append(d.arena, t.Long...)
	}
	id = uint32(len(d.names))
	if d.names == nil {
		d.names = make([]name, 0, 4) // one allocation for a small group
	}
	d.names = append(d.names, n)
	switch {
	case d.table == nil:
		if len(d.names) > smallDict {
			d.index(4 * smallDict)
		}
	case 8*len(d.names) > 5*len(d.table):
		d.rehash(2 * len(d.table))
		d.enter(h&^math.MaxUint32|uint64(id+1), uint32(h))
	default:
		d.table[at] = h&^math.MaxUint32 | uint64(id+1)
	}
	return id, nil
}

// index makes the table of a dictionary that had none.
func (d *Dict) index(size int) {
	d.table = make([]uint64, size)
	for id := range d.names {
		d.enter(d.hash(uint32(id))&^math.MaxUint32|uint64(id+1), d.names[id].hash)
	}
}

// rehash makes the table larger: an entry has the upper half of its hash, its
// name the lower.
func (d *Dict) rehash(size int) {
	old := d.table
	d.table = make([]uint64, size)
	for _, e := range old {
		if e != 0 {
			d.enter(e, d.names[uint32(e)-1].hash)
		}
	}
}

func (d *Dict) enter(e uint64, low uint32) {
	mask := uint64(len(d.table) - 1)
	i := uint64(low) & mask
	for d.table[i] != 0 {
		i = (i + 1) & mask
	}
	d.table[i] = e
}

// hash is HashName of feature id.
func (d *Dict) hash(id uint32) uint64 {
	n := &d.names[id]
	t := Text{Lo: n.lo, Hi: n.hi}
	if n.lo&math.MaxUint32 > inlineText {
		b := d.long(n)
		t.Long = unsafe.String(unsafe.SliceData(b), len(b))
	}
	if n.col > 0 {
		return t.hash(d.cols.seed[n.col-1])
	}
	return t.hashName()
}

// AddRaw numbers a name as it stands, also under HashBits (beliefs that carry
// slot names already, the intercept).
func (d *Dict) AddRaw(name string) (uint32, error) {
	h, col, t := d.split(name)
	return d.add(h, col, &t)
}

// split is the hash of a name, and the column of the dictionary and value it is.
func (d *Dict) split(name string) (h uint64, col uint32, t Text) {
	seed := uint64(k0)
	if i := strings.IndexByte(name, '='); i >= 0 {
		seed = hashBytes(k0, view(name[:i+1]))
		h = hashBytes(seed, view(name[i+1:]))
		if d.cols != nil {
			if col = d.cols.at[name[:i+1]]; col > 0 {
				return h, col, NewText(name[i+1:])
			}
		}
		return h, 0, NewText(name)
	}
	return hashBytes(seed, view(name)), 0, NewText(name)
}

// Merge numbers the features of src and returns their numbers, in src's order.
// Errors: the dictionary's limit; those before it are numbered.
func (d *Dict) Merge(src *Dict) (ids []uint32, err error) {
	ids = make([]uint32, src.Len())
	if src.cols != nil {
		d.Use(src.cols)
	}
	cut := d.cols != nil && d.cols != src.cols // d may split names that src has whole
	for j := range ids {
		n := &src.names[j]
		t := Text{Lo: n.lo, Hi: n.hi}
		if n.lo&math.MaxUint32 > inlineText {
			t.Hi, t.Long = 0, string(src.long(n))
		}
		col := n.col
		if col > 0 && cut {
			col = d.cols.at[src.cols.text[col-1]]
		}
		if col == 0 && cut {
			ids[j], err = d.AddRaw(t.String())
		} else {
			ids[j], err = d.add(src.hash(uint32(j)), col, &t)
		}
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// slot numbers the slot that a hash falls into.
func (d *Dict) slot(h uint64) (uint32, error) {
	s := h >> (64 - uint(d.HashBits))
	if s < uint64(len(d.direct)) {
		if id := d.direct[s]; id > 0 {
			return id - 1, nil
		}
	}
	var buf [24]byte
	b := strconv.AppendUint(append(buf[:0], '#'), s, 10)
	t := textOf(b)
	id, err := d.add(t.hash(k0), 0, &t)
	if err == nil {
		d.remember(s, id)
	}
	return id, err
}

// remember makes the next look at the whole number v direct: up to a few times the
// number of features, or a few megabytes beside those of thousands of names.
func (d *Dict) remember(v uint64, id uint32) {
	if v >= uint64(len(d.direct)) {
		limit := 4 * uint64(len(d.names))
		if len(d.names) >= 1<<12 {
			limit = max(limit, 1<<20)
		}
		if v >= limit {
			return
		}
		n := max(16, uint64(len(d.direct)))
		for n <= v {
			n *= 2
		}
		d.direct = append(d.direct, make([]uint32, n-uint64(len(d.direct)))...)
	}
	d.direct[v] = id + 1
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
	if d.HashBits == 0 && uint64(v) < uint64(len(d.direct)) {
		if id := d.direct[v]; id > 0 {
			return id - 1, nil
		}
	}
	var buf [24]byte
	t := textOf(strconv.AppendInt(buf[:0], int64(v), 10))
	h := t.hash(k0)
	if d.HashBits > 0 {
		return d.slot(h)
	}
	id, err := d.add(h, 0, &t)
	if err == nil && v >= 0 {
		d.remember(uint64(v), id)
	}
	return id, err
}

// Missing is the number of a feature that a dictionary does not have.
const Missing = math.MaxUint32

// FindInts sets ids to the numbers of the decimal texts of vs, Missing where the
// dictionary does not know one, and says whether it knows them all.
func (d *Dict) FindInts(ids []uint32, vs []int64) (all bool) {
	all = true
	for k, v := range vs {
		if d.HashBits == 0 && uint64(v) < uint64(len(d.direct)) && d.direct[v] > 0 {
			ids[k] = d.direct[v] - 1
			continue
		}
		var buf [24]byte
		t := textOf(strconv.AppendInt(buf[:0], v, 10))
		h := t.hash(k0)
		if d.HashBits > 0 {
			ids[k] = d.findSlot(h)
		} else if id, _, ok := d.find(h, 0, &t); ok {
			if ids[k] = id; v >= 0 {
				d.remember(uint64(v), id)
			}
		} else {
			ids[k] = Missing
		}
		all = all && ids[k] != Missing
	}
	return all
}

func (d *Dict) findSlot(h uint64) uint32 {
	s := h >> (64 - uint(d.HashBits))
	if s < uint64(len(d.direct)) && d.direct[s] > 0 {
		return d.direct[s] - 1
	}
	var buf [24]byte
	t := textOf(strconv.AppendUint(append(buf[:0], '#'), s, 10))
	if id, _, ok := d.find(t.hash(k0), 0, &t); ok {
		d.remember(s, id)
		return id
	}
	return Missing
}

// Probe is scratch memory for FindTexts.
type Probe struct{ hash, entry []uint64 }

// FindTexts sets ids to the numbers of the values ts of column c, or of the names ts
// where c is Names, Missing where the dictionary does not know one, and says whether
// it knows them all. All entries of the table are read before the first name is
// compared, so that the misses of a large dictionary overlap.
func (d *Dict) FindTexts(ids []uint32, c Column, ts []Text, p *Probe) (all bool) {
	if cap(p.hash) < len(ts) {
		p.hash, p.entry = make([]uint64, len(ts)), make([]uint64, len(ts))
	}
	hs := p.hash[:len(ts)]
	ids = ids[:len(ts)]
	if c.whole { // a name may hold the column that it belongs to
		for k := range ts {
			hs[k] = ts[k].hashName()
		}
	} else {
		for k := range ts {
			hs[k] = ts[k].hash(c.seed)
		}
	}
	all = true
	switch {
	case d.HashBits > 0:
		for k, h := range hs {
			ids[k] = d.findSlot(h)
			all = all && ids[k] != Missing
		}
		return all
	case c.whole && d.cols != nil, d.table == nil:
		for k := range ts {
			h, col, t := hs[k], c.id, &ts[k]
			if c.whole && d.cols != nil {
				var v Text
				h, col, v = d.split(t.String())
				t = &v
			}
			id, _, ok := d.find(h, col, t)
			if !ok {
				id, all = Missing, false
			}
			ids[k] = id
		}
		return all
	}
	es := p.entry[:len(ts)]
	table := d.table
	mask := uint64(len(table) - 1)
	for k, h := range hs {
		es[k] = table[h&mask]
	}
	for k, e := range es {
		if e^hs[k]&^math.MaxUint32 <= math.MaxUint32 && e != 0 {
			if id := uint32(e) - 1; d.same(&d.names[id], c.id, &ts[k]) {
				ids[k] = id
				continue
			}
		}
		id, _, ok := d.find(hs[k], c.id, &ts[k])
		if !ok {
			id, all = Missing, false
		}
		ids[k] = id
	}
	return all
}

// AddText numbers the value t of column c, or the name t where c is Names.
func (d *Dict) AddText(c Column, t *Text) (uint32, error) {
	if c.whole {
		if d.HashBits > 0 {
			return d.slot(t.hashName())
		}
		if d.cols != nil {
			return d.AddRaw(t.String())
		}
		return d.add(t.hashName(), 0, t)
	}
	h := t.hash(c.seed)
	if d.HashBits > 0 {
		return d.slot(h)
	}
	return d.add(h, c.id, t)
}

// Dense numbers the dense columns 1..n. When it returns base >= 0, column j has
// number base+j-1; else ask AddInt for each column.
func (d *Dict) Dense(n int) (base int, err error) {
	if n <= int(d.denseN) {
		return int(d.denseBase), nil
	}
	if d.HashBits > 0 {
		return -1, nil
	}
	if d.Max > 0 && n > d.Max { // before filling memory with names
		return 0, ErrTooManyFeatures{d.Max}
	}
	start := int(d.denseN) + 1
	if start == 1 {
		d.denseBase = int32(d.Len())
	}
	for j := start; j <= n; j++ {
		id, err := d.AddInt(j)
		if err != nil {
			return 0, err
		}
		if int(id) != int(d.denseBase)+j-1 {
			return -1, nil // other features lie between: numbers are not in a row
		}
		d.denseN = int32(j)
	}
	return int(d.denseBase), nil
}

// DenseBase is the number of the dense column 1 where columns 1..n follow one another.
func (d *Dict) DenseBase(n int) (base int, ok bool) { return int(d.denseBase), n <= int(d.denseN) }

// Find returns the number of a name that is there already.
func (d *Dict) Find(name string) (uint32, bool) {
	h, col, t := d.split(name)
	id, _, ok := d.find(h, col, &t)
	return id, ok
}

// ---- order of beliefs --------------------------------------------------------------

// The fixed order of beliefs: the intercept, dense positions by number, names by
// bytes. It is a function of the name alone, so that beliefs from any source
// can be merged and searched.
const (
	classIntercept = 0
	className      = math.MaxUint64
)

// rank maps the intercept to 0, a canonical positive integer (no sign, no
// leading zero, at most 18 digits) to itself and any other name to MaxUint64.
func rank(name string) uint64 {
	if n := len(name); n > 0 && n <= 18 && name[0] >= '1' && name[0] <= '9' {
		v := uint64(0)
		for i := 0; i < n; i++ {
			c := name[i] - '0'
			if c > 9 {
				return className
			}
			v = v*10 + uint64(c)
		}
		return v
	}
	if name == Intercept {
		return classIntercept
	}
	return className
}

// CompareNames orders two feature names as beliefs are ordered.
func CompareNames(a, b string) int {
	ra, rb := rank(a), rank(b)
	switch {
	case ra < rb:
		return -1
	case ra > rb:
		return 1
	case ra != className:
		return 0
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Order returns the feature numbers in belief order. Cost: O(p log p).
func (d *Dict) Order() []uint32 {
	if d.Len() <= smallDict {
		return d.orderFew()
	}
	type key struct {
		rank, head uint64
		id         uint32
	}
	ks := make([]key, d.Len())
	// All names one after the other: comparing needs them whole.
	var text []byte
	end := make([]int, len(ks)+1)
	for i := range ks {
		text = d.AppendName(text, uint32(i))
		end[i+1] = len(text)
	}
	nameOf := func(i uint32) []byte { return text[end[i]:end[i+1]] }
	for i := range ks {
		name := nameOf(uint32(i))
		k := key{rank: rank(unsafe.String(unsafe.SliceData(name), len(name))), id: uint32(i)}
		var h [8]byte
		copy(h[:], name)
		k.head = binary.BigEndian.Uint64(h[:])
		ks[i] = k
	}
	slices.SortFunc(ks, func(a, b key) int {
		switch {
		case a.rank != b.rank:
			if a.rank < b.rank {
				return -1
			}
			return 1
		case a.head != b.head:
			if a.head < b.head {
				return -1
			}
			return 1
		}
		return bytes.Compare(nameOf(a.id), nameOf(b.id))
	})
	ids := make([]uint32, len(ks))
	for i, k := range ks {
		ids[i] = k.id
	}
	return ids
}

// orderFew is Order of few names, in one allocation.
func (d *Dict) orderFew() []uint32 {
	var memory [256]byte
	var end [smallDict + 1]int
	text := memory[:0]
	ids := make([]uint32, d.Len())
	name := func(id uint32) string {
		b := text[end[id]:end[id+1]]
		return unsafe.String(unsafe.SliceData(b), len(b))
	}
	for i := range ids {
		text = d.AppendName(text, uint32(i))
		end[i+1] = len(text)
		j := i
		for ; j > 0 && CompareNames(name(ids[j-1]), name(uint32(i))) > 0; j-- {
			ids[j] = ids[j-1]
		}
		ids[j] = uint32(i)
	}
	return ids
}

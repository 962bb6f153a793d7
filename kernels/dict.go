package kernels

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unsafe"
)

// Intercept is the feature that every row has with value 1.
const Intercept = "(Intercept)"

// Dict numbers feature names 0, 1, 2, ... in order of first appearance. The
// names lie in one arena, so that a dictionary of millions costs the collector
// nothing and a lookup builds no string: the name of a categorical feature is
// hashed in two parts, "column=" and the value.
//
// The zero value is an empty dictionary, ready for use.
type Dict struct {
	arena []byte
	end   []uint32 // end of each name in arena
	table []uint64 // hash<<32 | id+1, open addressing; nil while small
	// Dense columns 1..denseN have the numbers denseBase, denseBase+1, ...
	denseBase, denseN int32

	// HashBits > 0 bounds the dictionary: names fall into 2^HashBits slots
	// called #0, #1, ... The intercept has none.
	HashBits int
	// Max is the largest number of features; 0 = no limit.
	Max int
}

// ErrTooManyFeatures reports a dictionary at its limit.
type ErrTooManyFeatures struct{ Max int }

func (e ErrTooManyFeatures) Error() string {
	return fmt.Sprintf("more than max_features = %d features; raise max_features, or bound them with hash_bits", e.Max)
}

const smallDict = 8 // below this a scan beats a table

// Len is the number of features.
func (d *Dict) Len() int { return len(d.end) }

// Name is the name of feature id; it aliases the dictionary.
func (d *Dict) Name(id uint32) []byte {
	lo := uint32(0)
	if id > 0 {
		lo = d.end[id-1]
	}
	return d.arena[lo:d.end[id]]
}

// Size is the memory held, in bytes.
func (d *Dict) Size() int64 {
	return int64(cap(d.arena)) + 4*int64(cap(d.end)) + 8*int64(cap(d.table)) + 96
}

// Reset forgets all features and keeps the memory.
func (d *Dict) Reset() {
	d.arena, d.end = d.arena[:0], d.end[:0]
	d.denseBase, d.denseN = 0, 0
	if len(d.table) > 1<<16 {
		d.table = nil
	} else {
		clear(d.table)
	}
}

// Truncate forgets the features added after the first n: those of a row that
// turned out to be bad. Cost: O(n) when there are any.
func (d *Dict) Truncate(n int) {
	if n >= d.Len() {
		return
	}
	end := uint32(0)
	if n > 0 {
		end = d.end[n-1]
	}
	d.arena, d.end = d.arena[:end], d.end[:n]
	d.denseN = int32(max(0, min(int(d.denseN), n-int(d.denseBase))))
	if d.table != nil {
		d.rehash(len(d.table))
	}
}

// Clone returns an independent copy.
func (d *Dict) Clone() Dict {
	c := *d
	c.arena, c.end, c.table = slices.Clone(d.arena), slices.Clone(d.end), slices.Clone(d.table)
	return c
}

// ---- hashing -----------------------------------------------------------------

const (
	k0 = 0x9E3779B97F4A7C15 // 2^64 / golden ratio
	k1 = 0xD6E8FEB86659FD93
	k2 = 0xA0761D6478BD642F
)

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// hashBytes continues seed with b, eight bytes at a time.
func hashBytes(seed uint64, b []byte) uint64 {
	n := uint64(len(b))
	for len(b) > 8 {
		seed = mix(seed^binary.LittleEndian.Uint64(b), k1)
		b = b[8:]
	}
	var t uint64
	switch {
	case len(b) == 8:
		t = binary.LittleEndian.Uint64(b)
	case len(b) >= 4:
		t = uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[len(b)-4:]))<<32
	case len(b) > 0:
		t = uint64(b[0]) | uint64(b[len(b)>>1])<<8 | uint64(b[len(b)-1])<<16
	}
	return mix(mix(seed^t, k1)^n, k2)
}

// HashName is the 64-bit hash behind hash_bits: a fixed function of the name,
// the same in every version that reads the same beliefs. The name is cut behind
// its first '='; the first part seeds the second.
func HashName(name []byte) uint64 {
	seed := uint64(k0)
	if i := bytes.IndexByte(name, '='); i >= 0 {
		seed = hashBytes(k0, name[:i+1])
		name = name[i+1:]
	}
	return hashBytes(seed, name)
}

// Prefix is the constant part "column=" of a categorical column's names.
type Prefix struct {
	text []byte
	seed uint64
	slow bool // the column name itself holds '=': hash the whole
}

// NewPrefix prepares the names column=value.
func NewPrefix(column string) Prefix {
	t := append([]byte(column), '=')
	return Prefix{text: t, seed: hashBytes(k0, t), slow: bytes.IndexByte(t, '=') != len(t)-1}
}

// Key is a whole name with its hash, for names that recur in every row.
type Key struct {
	name []byte
	hash uint64
}

// NewKey prepares a name.
func NewKey(name string) Key { b := []byte(name); return Key{b, HashName(b)} }

// ---- lookup --------------------------------------------------------------------

func view(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// find returns the feature whose name is a followed by b, or where to put it.
func (d *Dict) find(h uint64, a, b []byte) (id uint32, at int, ok bool) {
	n := len(a) + len(b)
	if d.table == nil {
		lo := uint32(0)
		for i, hi := range d.end {
			if int(hi-lo) == n {
				name := d.arena[lo:hi]
				if string(name[len(a):]) == string(b) && string(name[:len(a)]) == string(a) {
					return uint32(i), 0, true
				}
			}
			lo = hi
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
			id := uint32(e) - 1
			name := d.Name(id)
			if len(name) == n && string(name[len(a):]) == string(b) && string(name[:len(a)]) == string(a) {
				return id, 0, true
			}
		}
	}
}

// add returns the number of the name a+b, new or not.
func (d *Dict) add(h uint64, a, b []byte) (uint32, error) {
	id, at, ok := d.find(h, a, b)
	if ok {
		return id, nil
	}
	if d.Max > 0 && len(d.end) >= d.Max {
		return 0, ErrTooManyFeatures{d.Max}
	}
	if len(d.arena)+len(a)+len(b) > math.MaxUint32 {
		return 0, fmt.Errorf("the feature names take more than 4 GiB; set hash_bits")
	}
	id = uint32(len(d.end))
	d.arena = append(append(d.arena, a...), b...)
	d.end = append(d.end, uint32(len(d.arena)))
	switch {
	case d.table == nil:
		if len(d.end) > smallDict {
			d.rehash(4 * smallDict)
		}
	case 8*len(d.end) > 5*len(d.table):
		d.rehash(2 * len(d.table))
	default:
		d.table[at] = h&^math.MaxUint32 | uint64(id+1)
	}
	return id, nil
}

func (d *Dict) rehash(size int) {
	d.table = make([]uint64, size)
	mask := uint64(size - 1)
	for id := range d.end {
		h := HashName(d.Name(uint32(id)))
		i := h & mask
		for d.table[i] != 0 {
			i = (i + 1) & mask
		}
		d.table[i] = h&^math.MaxUint32 | uint64(id+1)
	}
}

// AddRaw numbers a name as it stands, also under HashBits (beliefs that carry
// slot names already, the intercept).
func (d *Dict) AddRaw(name string) (uint32, error) {
	b := view(name)
	return d.add(HashName(b), nil, b)
}

func (d *Dict) slot(h uint64) (uint32, error) {
	var buf [24]byte
	b := strconv.AppendUint(append(buf[:0], '#'), h>>(64-uint(d.HashBits)), 10)
	return d.add(HashName(b), nil, b)
}

// Add numbers a name.
func (d *Dict) Add(name string) (uint32, error) {
	b := view(name)
	h := HashName(b)
	if d.HashBits > 0 {
		return d.slot(h)
	}
	return d.add(h, nil, b)
}

// AddKey numbers a prepared name.
func (d *Dict) AddKey(k Key) (uint32, error) {
	if d.HashBits > 0 {
		return d.slot(k.hash)
	}
	return d.add(k.hash, nil, k.name)
}

// AddPair numbers the name prefix+value without building it.
func (d *Dict) AddPair(p *Prefix, value string) (uint32, error) {
	b := view(value)
	if p.slow {
		return d.Add(string(p.text) + value)
	}
	h := hashBytes(p.seed, b)
	if d.HashBits > 0 {
		return d.slot(h)
	}
	return d.add(h, p.text, b)
}

// AddInt numbers the decimal text of i.
func (d *Dict) AddInt(i int) (uint32, error) {
	var buf [24]byte
	b := strconv.AppendInt(buf[:0], int64(i), 10)
	h := HashName(b)
	if d.HashBits > 0 {
		return d.slot(h)
	}
	return d.add(h, nil, b)
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

// Find returns the number of a name that is there already.
func (d *Dict) Find(name string) (uint32, bool) {
	b := view(name)
	id, _, ok := d.find(HashName(b), nil, b)
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
	type key struct {
		rank, head uint64
		id         uint32
	}
	ks := make([]key, d.Len())
	for i := range ks {
		name := d.Name(uint32(i))
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
		return bytes.Compare(d.Name(a.id), d.Name(b.id))
	})
	ids := make([]uint32, len(ks))
	for i, k := range ks {
		ids[i] = k.id
	}
	return ids
}

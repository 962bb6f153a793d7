package kernels

import (
	"bytes"
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/bglm/bglm/kernels/dense"
)

// The fixed order of beliefs: the intercept, dense positions by number, names by bytes. It depends
// on the name alone, so that beliefs from any source can be merged and searched.
const (
	classIntercept = 0
	className      = math.MaxUint64
)

// rank maps the intercept to 0, a canonical positive integer to itself and any other name to
// MaxUint64.
func rank(name string) uint64 {
	if v, ok := wholeNumber(name); ok {
		return v
	}
	if name == Intercept {
		return classIntercept
	}
	return className
}

// CompareNames compares two feature names in belief order.
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

// Order returns the feature numbers in belief order. Cost: O(p) for names that differ in their
// first few dozen bytes, otherwise O(p log p).
func (d *Dict) Order() []uint32 {
	if d.Len() <= smallDict {
		return d.orderFew()
	}
	all := make([]place, d.Len())
	var last, numbers atomic.Uint64 // the largest number among the features, and how many are numbers
	each(d.Len(), func(lo, hi int) {
		var buf []byte
		own, n := uint64(0), uint64(0)
		for id := uint32(lo); id < uint32(hi); id++ {
			r := uint64(className)
			if n := &d.names[id]; n.lo == numberMark {
				r = n.hi
			} else if n.col == 0 && n.lo != slotMark && d.mayRank(n) {
				buf = d.AppendName(buf[:0], id)
				r = rank(unsafe.String(unsafe.SliceData(buf), len(buf)))
			}
			if all[id] = (place{r, id}); r != className {
				own = max(own, r)
				n++
			}
		}
		numbers.Add(n)
		for old := last.Load(); old < own && !last.CompareAndSwap(old, own); old = last.Load() {
		}
	})
	names := all
	var first []place
	if n := int(numbers.Load()); n > 0 {
		first, names = make([]place, 0, n), all[:0]
		for _, p := range all {
			if p.key != className {
				first = append(first, p)
			} else {
				names = append(names, p)
			}
		}
	}
	ids := make([]uint32, 0, d.Len())
	for _, p := range sortPlaces(first, bits.Len64(last.Load())) {
		ids = append(ids, p.id)
	}
	for _, p := range d.orderNames(names) {
		ids = append(ids, p.id)
	}
	return ids
}

// mayRank reports whether a name begins like one with a rank: with a digit or a bracket.
func (d *Dict) mayRank(n *name) bool {
	first := byte(n.lo >> 32)
	if n.isLong() {
		first = d.arena[n.hi]
	}
	return first-'0' <= 9 || first == Intercept[0]
}

// each calls f for parts that cover [0, n), in parallel if they are large.
func each(n int, f func(lo, hi int)) {
	if n < 1<<15 {
		f(0, n)
		return
	}
	dense.Parallel(n, f)
}

// place is the position of a feature in the order: before those of a larger key.
type place struct {
	key uint64
	id  uint32
}

const headBytes = 32 // of a name, which its key can represent

// orderNames sorts names by their bytes. A key consists of the first bytes of a name, each as its
// rank among those that occur at its position, as many as 64 bits hold; only names of equal keys
// are compared themselves.
func (d *Dict) orderNames(ps []place) []place {
	c := codeOf(d.heads(ps))
	each(len(ps), func(lo, hi int) {
		var buf []byte
		var none [headBytes]byte
		for k := lo; k < hi; k++ {
			buf = append(d.AppendName(buf[:0], ps[k].id), none[:]...)
			ps[k].key = c.key((*[headBytes]byte)(buf))
		}
	})
	ps = sortPlaces(ps, c.width)
	d.orderEqual(ps)
	return ps
}

// heads describe the first bytes of names: which ones occur at each position, and where names end.
type heads struct {
	occurs [headBytes][4]uint64
	ends   [headBytes + 1]bool // a name has this many bytes
}

func (d *Dict) heads(ps []place) *heads {
	all := &heads{}
	var mu sync.Mutex
	each(len(ps), func(lo, hi int) {
		var part heads
		var buf []byte
		for _, p := range ps[lo:hi] {
			buf = d.AppendName(buf[:0], p.id)
			n := min(len(buf), headBytes)
			part.ends[n] = true
			for i, c := range buf[:n] {
				part.occurs[i][c>>6] |= 1 << (c & 63)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		all.join(&part)
	})
	return all
}

func (h *heads) join(o *heads) {
	for n, is := range o.ends {
		h.ends[n] = h.ends[n] || is
	}
	for i := range o.occurs {
		for k, is := range o.occurs[i] {
			h.occurs[i][k] |= is
		}
	}
}

// headCode encodes the first used bytes of a name in a key of width bits.
type headCode struct {
	code        [headBytes][256]uint16
	shift       [headBytes]uint8
	used, width int
}

// codeOf returns the code for names with these heads: of as many bytes as fit into a key of 64 bits.
func codeOf(h *heads) *headCode {
	c := &headCode{}
	short := false // a name has ended before this byte
	for ; c.used < headBytes; c.used++ {
		i := c.used
		short = short || h.ends[i]
		n := uint16(0)
		if short {
			n = 1 // 0 is the end of a name
		}
		for b := range 256 {
			if h.occurs[i][b>>6]>>(b&63)&1 != 0 {
				c.code[i][b] = n
				n++
			}
		}
		w := 0
		if n > 1 {
			w = bits.Len16(n - 1)
		}
		if c.width+w > 64 {
			break
		}
		c.width += w
		c.shift[i] = uint8(w)
	}
	for c.used > 0 && c.shift[c.used-1] == 0 { // positions at which all names agree, or none has a byte
		c.used--
	}
	return c
}

// key returns the key of a name, padded with zeros to headBytes. Names that differ only in such
// zeros have equal keys.
func (c *headCode) key(name *[headBytes]byte) uint64 {
	key := uint64(0)
	for i := range c.used {
		key = key<<(c.shift[i]&63) | uint64(c.code[i][name[i]])
	}
	return key
}

// orderEqual sorts the names of equal keys, which are adjacent.
func (d *Dict) orderEqual(ps []place) {
	for lo := 0; lo < len(ps); {
		hi := lo + 1
		for hi < len(ps) && ps[hi].key == ps[lo].key {
			hi++
		}
		if hi > lo+1 {
			var a, b []byte
			slices.SortFunc(ps[lo:hi], func(x, y place) int {
				a, b = d.AppendName(a[:0], x.id), d.AppendName(b[:0], y.id)
				return bytes.Compare(a, b)
			})
		}
		lo = hi
	}
}

// sortPlaces sorts by keys of this many bits, and returns ps or another slice.
func sortPlaces(ps []place, width int) []place {
	if len(ps) < 512 { // below this counting costs more
		slices.SortFunc(ps, func(a, b place) int { return cmp.Compare(a.key, b.key) })
		return ps
	}
	const most = 11 // bits of a digit, whose counts stay in the nearest cache
	passes := (width + most - 1) / most
	to := make([]place, len(ps))
	for k := range passes {
		lo, hi := width*k/passes, width*(k+1)/passes
		mask := uint64(1)<<(hi-lo) - 1
		var at [1 << most]int
		for _, p := range ps {
			at[p.key>>lo&mask]++
		}
		sum := 0
		for i, n := range at[:mask+1] {
			at[i] = sum
			sum += n
		}
		for _, p := range ps {
			i := p.key >> lo & mask
			to[at[i]] = p
			at[i]++
		}
		ps, to = to, ps
	}
	return ps
}

// orderFew is Order for few names, in one allocation.
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

package kernels

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// Text is a short text in two words, in the layout of DuckDB and of Arrow's views: the length in
// the lower half of Lo, then up to 12 bytes of text, padded with zeros. A longer text is Long, with
// its first four bytes in Lo and Hi 0.
type Text struct {
	Lo, Hi uint64
	Long   string
}

const inlineText = 12

// NewText returns s as a Text; it retains s only if that is long.
func NewText(s string) Text { return textOf(view(s)) }

// CopyText returns b as a Text and retains nothing of it.
func CopyText(b []byte) Text {
	if len(b) > inlineText {
		return NewText(string(b))
	}
	return textOf(b)
}

// textOf retains b if that is long.
func textOf(b []byte) Text {
	n := len(b)
	if n > inlineText {
		return Text{Lo: uint64(uint32(n)) | uint64(binary.LittleEndian.Uint32(b))<<32, Long: unsafe.String(&b[0], n)}
	}
	var w [16]byte
	binary.LittleEndian.PutUint32(w[:], uint32(n))
	copy(w[4:], b)
	return Text{Lo: binary.LittleEndian.Uint64(w[:]), Hi: binary.LittleEndian.Uint64(w[8:])}
}

// InlineText is the text of two words from DuckDB: bytes beyond the end are ignored. The length
// must be at most 12.
func InlineText(lo, hi uint64) Text {
	switch n := lo & 0xffffffff; {
	case n < 4:
		lo &= 1<<(32+8*n) - 1
		hi = 0
	case n < inlineText:
		hi &= 1<<(8*(n-4)) - 1
	}
	return Text{Lo: lo, Hi: hi}
}

// Whole numbers and slots in the dictionary: one of these in Lo, the number in Hi.
const (
	numberMark = math.MaxUint32
	slotMark   = math.MaxUint32 - 1
)

// wholeNumber parses a canonical positive integer: no sign, no leading zero, at most 18 digits.
func wholeNumber(s string) (v uint64, ok bool) {
	if n := len(s); n == 0 || n > 18 || s[0] < '1' || s[0] > '9' {
		return 0, false
	}
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		v = v*10 + uint64(c)
	}
	return v, true
}

// intKey is the decimal text of v as stored in the dictionary.
func intKey(v int64) Text {
	if v > 0 && v < 1e18 {
		return Text{Lo: numberMark, Hi: uint64(v)}
	}
	return intText(v)
}

// intText is the decimal text of v.
func intText(v int64) Text {
	var buf [24]byte
	return CopyText(strconv.AppendInt(buf[:0], v, 10))
}

// keyOf is a whole name without '=' as stored in the dictionary.
func keyOf(t Text) Text {
	first := byte(t.Lo >> 32)
	isSlot := first == '#'
	if !isSlot && first-'1' > 8 || t.Lo > math.MaxUint32 && t.Lo&math.MaxUint32 > 18 {
		return t
	}
	var buf [inlineText]byte
	s := t.Long
	if s == "" {
		b := appendInline(buf[:0], t.Lo, t.Hi)
		s = unsafe.String(unsafe.SliceData(b), len(b))
	}
	if !isSlot {
		if v, ok := wholeNumber(s); ok {
			return Text{Lo: numberMark, Hi: v}
		}
		return t
	}
	v, ok := wholeNumber(s[1:])
	if (ok || s[1:] == "0") && v < 1<<MaxHashBits {
		return Text{Lo: slotMark, Hi: v}
	}
	return t
}

// hashKey is the hash of a whole name in a dictionary's table: HashName for a text.
func (t *Text) hashKey() uint64 {
	if t.Lo == numberMark || t.Lo == slotMark {
		return hashNumber(t.Lo, t.Hi)
	}
	return t.hashName()
}

func hashNumber(mark, v uint64) uint64 { return mix(mix(v^k0, k1)^mark, k2) }

// appendInline appends a text in two words, or the digits of a number or a slot. It may write up to
// 12 bytes beyond dst's end.
func appendInline(dst []byte, lo, hi uint64) []byte {
	switch lo {
	case numberMark:
		return strconv.AppendUint(dst, hi, 10)
	case slotMark:
		return AppendSlot(dst, hi)
	}
	if n := len(dst); cap(dst)-n >= inlineText {
		dst = dst[:n+inlineText]
		binary.LittleEndian.PutUint32(dst[n:], uint32(lo>>32))
		binary.LittleEndian.PutUint64(dst[n+4:], hi)
		return dst[:n+int(lo&0xffffffff)]
	}
	var w [16]byte
	binary.LittleEndian.PutUint64(w[:], lo)
	binary.LittleEndian.PutUint64(w[8:], hi)
	return append(dst, w[4:4+lo&0xffffffff]...)
}

// Len is the length of t in bytes.
func (t *Text) Len() int { return int(uint32(t.Lo)) }

// Append appends t to dst.
func (t *Text) Append(dst []byte) []byte {
	if t.Long != "" {
		return append(dst, t.Long...)
	}
	return appendInline(dst, t.Lo, t.Hi)
}

func (t *Text) String() string {
	if t.Long != "" {
		return t.Long
	}
	return string(appendInline(nil, t.Lo, t.Hi))
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

// few is the word that hashBytes makes of n < 4 bytes, the lowest ones of w.
func few(w, n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return w&0xff | w>>(8*(n>>1))&0xff<<8 | w>>(8*(n-1))&0xff<<16
}

// hash is hashBytes of the text, without copying bytes that are in the words.
func (t *Text) hash(seed uint64) uint64 {
	n := t.Lo & 0xffffffff
	w := t.Lo>>32 | t.Hi<<32 // the first eight bytes
	switch {
	case n > inlineText:
		return hashBytes(seed, view(t.Long))
	case n > 8:
		seed = mix(seed^w, k1)
		w = t.Hi >> 32
		if n == inlineText {
			w |= w << 32
		} else {
			w = few(w, n-8)
		}
	case n >= 4:
		w = w&0xffffffff | w>>(8*(n-4))<<32
	default:
		w = few(w, n)
	}
	return mix(mix(seed^w, k1)^n, k2)
}

// hashName is HashName of a text that is a whole name.
func (t *Text) hashName() uint64 {
	if t.Long != "" {
		return HashName(view(t.Long))
	}
	if hasEquals(t.Lo>>32) || hasEquals(t.Hi) {
		var buf [inlineText]byte
		return HashName(appendInline(buf[:0], t.Lo, t.Hi))
	}
	return t.hash(k0)
}

// hasEquals reports whether one of the eight bytes of w is '='.
func hasEquals(w uint64) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	w ^= '=' * ones
	return (w-ones)&^w&tops != 0
}

// HashName is the 64-bit hash behind hash_bits: a fixed function of the name, the same in every
// version that reads the same beliefs. The name is split after its first '='; the first part seeds
// the second.
func HashName(name []byte) uint64 {
	seed := uint64(k0)
	if i := bytes.IndexByte(name, '='); i >= 0 {
		seed = hashBytes(k0, name[:i+1])
		name = name[i+1:]
	}
	return hashBytes(seed, name)
}

// SlotOf is the slot of a feature under hash_bits.
func SlotOf(name []byte, hashBits int) uint64 { return HashName(name) >> (64 - uint(hashBits)) }

// AppendSlot appends the name of a slot.
func AppendSlot(dst []byte, slot uint64) []byte {
	return strconv.AppendUint(append(dst, '#'), slot, 10)
}

func view(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// ---- columns -------------------------------------------------------------------

// Columns are the columns whose levels become features column=value, and numeric columns. They are
// immutable; many dictionaries share them.
type Columns struct {
	text    []string // "column="
	seed    []uint64 // hash of text
	at      map[string]uint32
	numbers map[string]int // places
	wide    []uint32       // columns whose names contain '='
}

// NewColumns returns the columns of levels and of numbers with these names. The features of a column
// of levels whose name itself contains '=' stay whole names, which are recognised by their prefix.
func NewColumns(levels, numbers []string) *Columns {
	c := &Columns{at: make(map[string]uint32, len(levels)), numbers: make(map[string]int, len(numbers))}
	for _, n := range levels {
		c.join(n + "=")
	}
	for _, n := range numbers {
		c.number(n)
	}
	return c
}

func (c *Columns) number(name string) {
	if _, ok := c.numbers[name]; !ok {
		c.numbers[name] = len(c.numbers)
	}
}

// has reports whether c has all columns of o.
func (c *Columns) has(o *Columns) bool {
	for _, t := range o.text {
		if c.at[t] == 0 {
			return false
		}
	}
	for n := range o.numbers {
		if _, ok := c.numbers[n]; !ok {
			return false
		}
	}
	return true
}

// union returns the columns of both; those of c keep their numbers.
func (c *Columns) union(o *Columns) *Columns {
	u := NewColumns(nil, nil)
	for _, x := range []*Columns{c, o} {
		for _, t := range x.text {
			u.join(t)
		}
		names := slices.Collect(maps.Keys(x.numbers))
		slices.SortFunc(names, func(a, b string) int { return x.numbers[a] - x.numbers[b] })
		for _, n := range names {
			u.number(n)
		}
	}
	return u
}

func (c *Columns) join(text string) {
	if _, ok := c.at[text]; ok {
		return
	}
	c.text = append(c.text, text)
	c.seed = append(c.seed, hashBytes(k0, view(text)))
	c.at[text] = uint32(len(c.text))
	if strings.IndexByte(text, '=') != len(text)-1 { // names are split at their first '='
		c.wide = append(c.wide, uint32(len(c.text)))
	}
}

// wideOf returns the longest of the columns with '=' in their name that a feature can belong to, 0
// for none.
func (c *Columns) wideOf(name []byte) (col uint32) {
	for _, k := range c.wide {
		text := c.text[k-1]
		rest, ok := bytes.CutPrefix(name, view(text[:len(text)-1]))
		if ok && isLevel(rest) && (col == 0 || len(text) > len(c.text[col-1])) {
			col = k
		}
	}
	return col
}

// Column is what AddText needs of the column that texts belong to.
type Column struct {
	id    uint32
	seed  uint64
	whole bool
}

// Names is the Column of texts that are whole names.
var Names = Column{whole: true, seed: k0}

// Column returns the column with this name; false if c has none that names are split by.
func (c *Columns) Column(name string) (Column, bool) {
	id := c.at[name+"="]
	if id == 0 || strings.Contains(name, "=") {
		return Column{}, false
	}
	return Column{id: id, seed: c.seed[id-1]}, true
}

// Use makes the columns of c known to the dictionary and reports whether it has no others. Cost: a
// comparison if they are those of the last use.
func (d *Dict) Use(c *Columns) bool {
	if d.cols == c {
		return true
	}
	switch {
	case d.cols == nil:
		d.resplit(c)
	default:
		if !d.cols.has(c) {
			d.resplit(d.cols.union(c))
		}
	}
	return d.cols == c
}

// UseOf is Use for the columns of o.
func (d *Dict) UseOf(o *Dict) {
	if o.cols != nil {
		d.Use(o.cols)
	}
}

// Uses reports whether names are split by the columns c, as after Use.
func (d *Dict) Uses(c *Columns) bool { return d.cols == c }

// ColumnOf is the column of which feature id is a level or `column IS NULL`, counted from 1; 0 for
// none.
func (d *Dict) ColumnOf(id uint32) uint32 {
	n := &d.names[id]
	if d.cols != nil && len(d.cols.wide) > 0 {
		var buf [64]byte
		if c := d.cols.wideOf(d.AppendName(buf[:0], id)); c > 0 {
			return c
		}
	}
	if n.col > 0 {
		return n.col
	}
	return d.nullColumn(id)
}

// nullColumn is the column of levels whose missing values feature id indicates, 0 for none.
func (d *Dict) nullColumn(id uint32) uint32 {
	n := &d.names[id]
	if d.cols == nil || len(d.cols.text) == 0 || n.col > 0 && len(d.cols.wide) == 0 || n.lo == numberMark || n.lo == slotMark {
		return 0
	}
	var buf [64]byte
	if base, ok := bytes.CutSuffix(d.AppendName(buf[:0], id), []byte(IsNull)); ok {
		return d.cols.at[string(append(base, '='))]
	}
	return 0
}

// ColumnText is the name of a column of levels followed by '='.
func (d *Dict) ColumnText(col uint32) string { return d.cols.text[col-1] }

// NumberPlace is the place of feature id among the numeric columns, or in a list of numbers, from
// 0; MaxInt if it is no number.
func (d *Dict) NumberPlace(id uint32) int {
	if base := uint32(d.denseBase); d.denseN > 0 && id >= base && id < base+uint32(d.denseN) {
		return int(id - base)
	}
	if at, ok := d.apart[id]; ok {
		return int(at)
	}
	if d.cols != nil && d.names[id].col == 0 && len(d.cols.numbers) > 0 {
		var buf [64]byte
		if at, ok := d.cols.numbers[string(d.AppendName(buf[:0], id))]; ok {
			return at
		}
	}
	return math.MaxInt
}

// IndicatorPlace is the place of the column whose missing values feature id indicates, among those
// of its kind, numbers or levels, from 0; MaxInt if it is no such indicator.
func (d *Dict) IndicatorPlace(id uint32) int {
	if c := d.nullColumn(id); c > 0 {
		return int(c - 1)
	}
	if d.names[id].col > 0 {
		return math.MaxInt
	}
	if d.wide == 0 && (d.cols == nil || len(d.cols.numbers) == 0) {
		return math.MaxInt
	}
	var buf [64]byte
	if base, ok := bytes.CutSuffix(d.AppendName(buf[:0], id), []byte(IsNull)); ok {
		if number, ok := d.Find(string(base)); ok {
			return d.NumberPlace(number)
		}
	}
	return math.MaxInt
}

// resplit splits the whole names that belong to the columns of c, which begin with those in use.
func (d *Dict) resplit(c *Columns) {
	d.cols = c
	for id := range d.names {
		n := &d.names[id]
		if n.col > 0 {
			continue
		}
		t := d.text(n)
		whole := t.String()
		i := strings.IndexByte(whole, '=')
		if i < 0 {
			continue
		}
		if col := c.at[whole[:i+1]]; col > 0 {
			v := NewText(whole[i+1:])
			n.col, n.lo, n.hi = col, v.Lo, v.Hi
			if v.Long != "" {
				n.hi = uint64(len(d.arena))
				d.arena = append(d.arena, v.Long...)
			}
		}
	}
}

// Column returns the column with this name, which Use made known.
func (d *Dict) Column(name string) (Column, bool) {
	if d.cols == nil {
		return Column{}, false
	}
	return d.cols.Column(name)
}

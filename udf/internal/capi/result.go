package capi

// #include <stdlib.h>
// #include "api.h"
import "C"
import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/bglm/bglm/kernels/memory"
)

func appendInt(dst []byte, i int64) []byte { return strconv.AppendInt(dst, i, 10) }

// Type describes a result or parameter type: Elem for LIST and MAP (a STRUCT of
// key and value), Fields for STRUCT.
type Type struct {
	ID     TypeID
	Elem   *Type
	Fields []Field
}

// Field is a named part of a STRUCT type.
type Field struct {
	Name string
	Type *Type
}

// Scalar types of results.
var (
	TDouble  = &Type{ID: Double}
	TBigInt  = &Type{ID: BigInt}
	TInteger = &Type{ID: Integer}
	TBoolean = &Type{ID: Boolean}
	TVarchar = &Type{ID: Varchar}
	TBlob    = &Type{ID: Blob}
	TAny     = &Type{ID: Any}
)

// ListOf is the type elem[].
func ListOf(elem *Type) *Type { return &Type{ID: List, Elem: elem} }

// MapOf is MAP(key, value); its column is that of a LIST of STRUCT(key, value).
func MapOf(key, value *Type) *Type {
	return &Type{ID: Map, Elem: StructOf(Field{"key", key}, Field{"value", value})}
}

func (t *Type) isList() bool { return t.ID == List || t.ID == Map }

// StructOf is STRUCT(fields).
func StructOf(fields ...Field) *Type { return &Type{ID: Struct, Fields: fields} }

// String is the SQL name of the type.
func (t *Type) String() string {
	switch t.ID {
	case List:
		return t.Elem.String() + "[]"
	case Map:
		return "MAP(" + t.Elem.Fields[0].Type.String() + ", " + t.Elem.Fields[1].Type.String() + ")"
	case Struct:
		s := "STRUCT("
		for i, f := range t.Fields {
			if i > 0 {
				s += ", "
			}
			s += f.Name + " " + f.Type.String()
		}
		return s + ")"
	}
	return t.ID.String()
}

// Col is a result column under construction: append one entry per row, and the entries of nested
// types through Elem and Field.
type Col struct {
	Type *Type
	null []bool // nil = none; else by row
	n    int
	f64  []float64
	i64  []int64
	str  []byte
	end  []int // LIST: entries so far; VARCHAR: bytes so far
	kids []*Col
}

// NewCol returns an empty column.
func NewCol(t *Type) *Col {
	c := &Col{Type: t}
	if t.Elem != nil {
		c.kids = []*Col{NewCol(t.Elem)}
	}
	for _, f := range t.Fields {
		c.kids = append(c.kids, NewCol(f.Type))
	}
	return c
}

// Len is the number of entries.
func (c *Col) Len() int { return c.n }

func (c *Col) next() {
	c.n++
	if c.null != nil {
		c.null = append(c.null, false)
	}
}

// Float appends a DOUBLE.
func (c *Col) Float(v float64) { c.f64 = push(c.f64, v); c.next() }

// Floats appends a LIST of DOUBLE.
func (c *Col) Floats(v []float64) {
	e := c.kids[0]
	e.f64 = append(memory.Grow(e.f64, len(v)), v...)
	e.n += len(v)
	if e.null != nil {
		e.null = append(e.null, make([]bool, len(v))...)
	}
	c.EndList()
}

// Int appends a BIGINT or INTEGER.
func (c *Col) Int(v int64) { c.i64 = append(c.i64, v); c.next() }

// Bool appends a BOOLEAN.
func (c *Col) Bool(v bool) {
	k := int64(0)
	if v {
		k = 1
	}
	c.Int(k)
}

// Str appends a VARCHAR.
func (c *Col) Str(v string) { c.str = append(c.str, v...); c.end = append(c.end, len(c.str)); c.next() }

// Bytes appends a VARCHAR.
func (c *Col) Bytes(v []byte) {
	if len(c.str)+len(v) > cap(c.str) {
		c.str = memory.Grow(c.str, len(v))
	}
	c.str = append(c.str, v...)
	c.end = push(c.end, len(c.str))
	c.next()
}

// push appends to a list that may become long: a full list doubles its capacity.
func push[T any](s []T, v T) []T {
	if len(s) == cap(s) {
		s = memory.Grow(s, 8)
	}
	return append(s, v)
}

// Elem is the column of a LIST's entries.
func (c *Col) Elem() *Col { return c.kids[0] }

// Field is the column of a STRUCT's field i.
func (c *Col) Field(i int) *Col { return c.kids[i] }

// EndList closes the LIST entry whose elements were appended to Elem.
func (c *Col) EndList() { c.end = append(c.end, c.kids[0].n); c.next() }

// EndStruct closes the STRUCT entry whose fields were appended.
func (c *Col) EndStruct() { c.next() }

// Null appends a NULL, also to every field of a STRUCT.
func (c *Col) Null() {
	if c.null == nil {
		c.null = make([]bool, c.n)
	}
	c.null = append(c.null, true)
	c.n++
	switch c.Type.ID {
	case Double:
		c.f64 = append(c.f64, 0)
	case Varchar, Blob:
		c.end = append(c.end, len(c.str))
	case List, Map:
		c.end = append(c.end, c.kids[0].n)
	case Struct:
		for _, k := range c.kids {
			k.Null()
		}
	default:
		c.i64 = append(c.i64, 0)
	}
}

// Repeat appends the last entry n more times. A LIST must be empty there.
func (c *Col) Repeat(n int) {
	last := c.n - 1
	c.n += n
	if c.null != nil {
		c.null = again(c.null, n)
	}
	switch c.Type.ID {
	case Double:
		c.f64 = again(c.f64, n)
	case Varchar, Blob:
		lo := 0
		if last > 0 {
			lo = c.end[last-1]
		}
		text := c.str[lo:c.end[last]]
		for range n {
			c.str = append(c.str, text...)
			c.end = append(c.end, len(c.str))
		}
	case List, Map:
		if k := c.end[last]; k > 0 && (last == 0 || k > c.end[last-1]) {
			panic("a list with elements is not repeated")
		}
		c.end = again(c.end, n)
	case Struct:
		for _, k := range c.kids {
			k.Repeat(n)
		}
	default:
		c.i64 = again(c.i64, n)
	}
}

// again appends the last entry of s n times.
func again[T any](s []T, n int) []T {
	last := s[len(s)-1]
	for range n {
		s = append(s, last)
	}
	return s
}

func (c *Col) lists(dst []uint64) []uint64 {
	if c.Type.isList() {
		n := uint64(c.kids[0].n)
		if c.kids[0].nulls() {
			n |= C.BGLM_HAS_NULLS
		}
		dst = append(dst, n)
	}
	for _, k := range c.kids {
		dst = k.lists(dst)
	}
	return dst
}

// nulls reports whether an entry is NULL, here or in a STRUCT's field.
func (c *Col) nulls() bool {
	return c.null != nil || c.Type.ID == Struct && slices.ContainsFunc(c.kids, (*Col).nulls)
}

// check guards the host's memory: every field of a struct must have as many entries as the struct,
// at all levels.
func (c *Col) check(n int) error {
	if c.n != n {
		return fmt.Errorf("internal error: result column %s has %d entries, expected %d", c.Type, c.n, n)
	}
	for _, k := range c.kids {
		want := n
		if c.Type.isList() {
			want = k.n
			if n > 0 && c.end[n-1] != k.n || n == 0 && k.n != 0 {
				return fmt.Errorf("internal error: open list in result column %s", c.Type)
			}
		}
		if err := k.check(want); err != nil {
			return err
		}
	}
	return nil
}

// pending results wait between the callback that computed them and the one that copies them, while
// C allocates room.
var (
	pending  sync.Map
	pendingN atomic.Uint64
)

// spare holds columns by type: each chunk has a result, and growing new buffers costs more than
// filling them.
var spare sync.Map // *Type -> *sync.Pool

const spareLimit = 8 << 20 // bytes of a column that is worth reusing

// acquireCol is NewCol, reusing the memory of an earlier result.
func acquireCol(t *Type) *Col {
	if p, ok := spare.Load(t); ok {
		if c, ok := p.(*sync.Pool).Get().(*Col); ok {
			return c
		}
	}
	return NewCol(t)
}

// releaseCol takes back a column that is no longer read.
func releaseCol(c *Col) {
	if c.reset() > spareLimit {
		return
	}
	p, ok := spare.Load(c.Type)
	if !ok {
		p, _ = spare.LoadOrStore(c.Type, new(sync.Pool))
	}
	p.(*sync.Pool).Put(c)
}

// reset empties the column and returns the bytes it keeps.
func (c *Col) reset() int {
	c.null, c.n = nil, 0
	c.f64, c.i64, c.str, c.end = c.f64[:0], c.i64[:0], c.str[:0], c.end[:0]
	n := 8*(cap(c.f64)+cap(c.i64)+cap(c.end)) + cap(c.str)
	for _, k := range c.kids {
		n += k.reset()
	}
	return n
}

func hold(c *Col, n int, out *C.bglm_out) error {
	if err := c.check(n); err != nil {
		return err
	}
	if adds := c.lists(nil); len(adds) > 0 {
		out.list_add = (*C.uint64_t)(C.malloc(C.size_t(8 * len(adds))))
		copy(unsafe.Slice((*uint64)(unsafe.Pointer(out.list_add)), len(adds)), adds)
		out.nlist = C.uint64_t(len(adds))
	}
	id := pendingN.Add(1)
	pending.Store(id, c)
	out.token = C.uint64_t(id)
	return nil
}

type filler struct {
	nodes []C.bglm_node
	text  []C.bglm_text
}

func (f *filler) fill(c *Col, i int) {
	d := &f.nodes[i]
	base := int(d.base)
	if c.null != nil && d.valid != nil {
		for r, is := range c.null {
			if is {
				w := (*uint64)(unsafe.Add(unsafe.Pointer(d.valid), ((base+r)>>6)<<3))
				*w &^= 1 << (uint(base+r) & 63)
			}
		}
	}
	switch c.Type.ID {
	case Double:
		copy(unsafe.Slice((*float64)(d.data), base+c.n)[base:], c.f64)
	case BigInt:
		copy(unsafe.Slice((*int64)(d.data), base+c.n)[base:], c.i64)
	case Integer:
		dst := unsafe.Slice((*int32)(d.data), base+c.n)[base:]
		for r, v := range c.i64 {
			dst[r] = int32(v)
		}
	case Boolean:
		dst := unsafe.Slice((*uint8)(d.data), base+c.n)[base:]
		for r, v := range c.i64 {
			dst[r] = uint8(v)
		}
	case Varchar, Blob:
		f.varchar(c, i)
	case List, Map:
		child := int(d.child)
		off := uint64(f.nodes[child].base)
		dst := unsafe.Slice((*[2]uint64)(d.data), base+c.n)[base:]
		lo := 0
		for r, hi := range c.end {
			dst[r] = [2]uint64{off + uint64(lo), uint64(hi - lo)}
			lo = hi
		}
		f.fill(c.kids[0], child)
	case Struct:
		for k, kid := range c.kids {
			f.fill(kid, int(d.child)+k)
		}
	}
}

// varchar writes ASCII texts of up to 12 bytes directly into DuckDB's entry, and passes the others
// to C, which stores them with no Go frame below.
func (f *filler) varchar(c *Col, i int) {
	if c.n == 0 {
		return
	}
	d := &f.nodes[i]
	dst := unsafe.Slice((*[16]byte)(d.data), int(d.base)+c.n)[int(d.base):]
	rest, bytes := 0, 0
	lo := 0
	for r, hi := range c.end {
		if !c.inline(r, lo, &dst[r]) {
			rest++
			bytes += hi - lo
		}
		lo = hi
	}
	if rest == 0 {
		return
	}
	t := C.bglm_text{node: C.int64_t(i), n: C.uint64_t(c.n)}
	t.lens = (*C.uint64_t)(C.malloc(C.size_t(8 * c.n)))
	t.bytes = (*C.char)(C.malloc(C.size_t(bytes + 1)))
	lens := unsafe.Slice((*uint64)(unsafe.Pointer(t.lens)), c.n)
	text := unsafe.Slice((*byte)(unsafe.Pointer(t.bytes)), bytes+1)[:0]
	lo = 0
	var have [16]byte
	for r, hi := range c.end {
		if c.inline(r, lo, &have) {
			lens[r] = ^uint64(0) // already done
		} else {
			lens[r] = uint64(hi - lo)
			text = append(text, c.str[lo:hi]...)
		}
		lo = hi
	}
	f.text = append(f.text, t)
}

// inline writes the text of row r, which begins at lo, into DuckDB's entry, and reports whether the
// row is done: the text is short and one that DuckDB cannot reject. A NULL is unchanged.
func (c *Col) inline(r, lo int, dst *[16]byte) bool {
	if c.null != nil && c.null[r] {
		return true
	}
	t := c.str[lo:c.end[r]]
	if len(t) > 12 {
		return false
	}
	var w [16]byte
	copy(w[4:], t)
	head, tail := binary.LittleEndian.Uint64(w[:]), binary.LittleEndian.Uint64(w[8:])
	if (head|tail)&0x8080808080808080 != 0 {
		return false
	}
	binary.NativeEndian.PutUint32(w[:], uint32(len(t)))
	*dst = w
	return true
}

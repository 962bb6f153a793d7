package capi

import (
	"bytes"
	"unsafe"
)

// Runs numbers the entries of v by the first of equal neighbours: run[i] is the least j such that
// entries j to i are all equal, in every field, bit by bit, with lists compared by address and NULL
// as a value. dst is reused.
//
// What is decoded from entry i serves all entries of its run, for this call only: DuckDB reuses its
// memory in the next.
//
// Cost: one comparison per entry and field.
func (v *Vec) Runs(dst []int32) []int32 {
	if cap(dst) < v.Len {
		dst = make([]int32, v.Len)
	}
	dst = dst[:v.Len]
	clear(dst)
	v.changes(dst, nil)
	first := int32(0)
	for i, changed := range dst {
		if changed != 0 {
			first = int32(i)
		}
		dst[i] = first
	}
	return dst
}

// changes marks the entries that differ from the one before; dead are those where neither of the
// two has a value (nil for none), whose memory means nothing.
func (v *Vec) changes(dst []int32, dead []bool) {
	if v.valid != nil && dead == nil {
		switch v.allNull(len(dst)) {
		case -1: // no NULL
		case 1:
			return
		default:
			dead = v.nulls(dst, nil)
		}
	} else if v.valid != nil {
		dead = v.nulls(dst, dead)
	}
	t := v.Type
	if t == Decimal || t == Enum {
		t = v.internal
	}
	switch t {
	case SQLNull:
	case Struct:
		for k := range v.Kids {
			v.Kids[k].changes(dst, dead)
		}
	case Boolean, TinyInt, UTinyInt:
		differ[uint8](v.data, dst, dead)
	case SmallInt, USmallInt:
		differ[uint16](v.data, dst, dead)
	case Integer, UInteger, Float, Date:
		differ[uint32](v.data, dst, dead)
	case BigInt, UBigInt, Double, Time, Timestamp, TimestampS, TimestampMS, TimestampNS, TimestampTZ, TimeTZ:
		differ[uint64](v.data, dst, dead)
	case HugeInt, UHugeInt, UUID, Interval, List, Map: // lists by address and length
		differ[[2]uint64](v.data, dst, dead)
	case Varchar, Blob:
		p := unsafe.Slice((*[2]uint64)(v.data), len(dst))
		if uniform(p) {
			return
		}
		for i := 1; i < len(p); i++ {
			// The text of a NULL must not be read.
			if dst[i] == 0 && p[i] != p[i-1] && (dead == nil || !dead[i]) && v.Str(i) != v.Str(i-1) {
				dst[i] = 1
			}
		}
	default: // ARRAY, whose numbers lie elsewhere, and types that no reader accepts
		for i := 1; i < len(dst); i++ {
			dst[i] = 1
		}
	}
}

// nulls marks the entries that are NULL where the one before is not, or the reverse, and returns
// those where neither of the two has a value, including dead.
func (v *Vec) nulls(dst []int32, dead []bool) []bool {
	out := make([]bool, len(dst))
	copy(out, dead)
	for i := 1; i < len(dst); i++ {
		if null := v.Null(i); out[i] {
		} else if null != v.Null(i-1) {
			dst[i] = 1
		} else {
			out[i] = null
		}
	}
	return out
}

// allNull is 1 if the first n entries are all NULL, -1 if none is, else 0.
func (v *Vec) allNull(n int) int {
	words := unsafe.Slice((*uint64)(unsafe.Pointer(v.valid)), (n+63)/64)
	some, all := uint64(0), ^uint64(0)
	for k, w := range words {
		if rest := n - 64*k; rest < 64 {
			some |= w & (1<<rest - 1)
			w |= ^uint64(0) << rest
		} else {
			some |= w
		}
		all &= w
	}
	switch {
	case some == 0:
		return 1
	case all == ^uint64(0):
		return -1
	}
	return 0
}

// uniform reports whether all entries are equal, bit by bit, as for a FIT next to every row.
func uniform[T any](p []T) bool {
	if len(p) < 2 {
		return true
	}
	size := int(unsafe.Sizeof(p[0]))
	b := unsafe.Slice((*byte)(unsafe.Pointer(&p[0])), len(p)*size)
	return bytes.Equal(b[size:], b[:len(b)-size])
}

func differ[T comparable](data unsafe.Pointer, dst []int32, dead []bool) {
	p := unsafe.Slice((*T)(data), len(dst))
	if uniform(p) {
		return
	}
	for i := 1; i < len(p); i++ {
		if p[i] != p[i-1] && (dead == nil || !dead[i]) {
			dst[i] = 1
		}
	}
}

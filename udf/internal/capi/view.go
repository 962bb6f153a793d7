package capi

import "unsafe"

// View is the column as an argument: a vector in DuckDB's layout, so that code that reads arguments
// can be tested without a database. It points into the memory of c, which must live on; NULLs may
// be at any level.
func (c *Col) View() Vec {
	v := Vec{Type: c.Type.ID, Len: c.n}
	if c.null != nil {
		mask := make([]uint64, c.n/64+1)
		for i, null := range c.null {
			if !null {
				mask[i>>6] |= 1 << (uint(i) & 63)
			}
		}
		v.valid = &mask[0]
	}
	switch c.Type.ID {
	case Double:
		v.data = unsafe.Pointer(unsafe.SliceData(c.f64))
	case BigInt:
		v.data = unsafe.Pointer(unsafe.SliceData(c.i64))
	case Integer:
		v.data = narrowed[int32](c.i64)
	case Boolean:
		v.data = narrowed[uint8](c.i64)
	case Varchar:
		// Addresses as numbers: short texts occupy the same place.
		words, lo := make([][2]uint64, c.n+1), 0
		for i, hi := range c.end {
			s := c.str[lo:hi]
			b := (*[16]byte)(unsafe.Pointer(&words[i]))
			if words[i][0] = uint64(len(s)); len(s) <= 12 {
				copy(b[4:], s)
			} else {
				copy(b[4:8], s)
				words[i][1] = uint64(uintptr(unsafe.Pointer(&s[0])))
			}
			lo = hi
		}
		v.data = unsafe.Pointer(&words[0])
	case List, Map:
		spans, lo := make([][2]uint64, c.n+1), 0
		for i, hi := range c.end {
			spans[i] = [2]uint64{uint64(lo), uint64(hi - lo)}
			lo = hi
		}
		v.data = unsafe.Pointer(&spans[0])
		v.Kids = []Vec{c.kids[0].View()}
	case Struct:
		for i, f := range c.Type.Fields {
			k := c.kids[i].View()
			k.Name = f.Name
			v.Kids = append(v.Kids, k)
		}
	}
	return v
}

func narrowed[T int32 | uint8](from []int64) unsafe.Pointer {
	to := make([]T, len(from)+1)
	for i, x := range from {
		to[i] = T(x)
	}
	return unsafe.Pointer(&to[0])
}

package memory

import "unsafe"

// fromHuge is how many bytes make large pages worth asking for: what is smaller has its
// addresses in the processor's tables anyway.
const fromHuge = 4 << 20

// Make is make([]T, n, c) in large pages where the slice is large and the system has them: for
// tables that are read here and there, whose addresses would be looked up as slowly as
// what they hold. T has no pointers.
func Make[T any](n, c int) []T {
	s := make([]T, n, c)
	if bytes := uintptr(c) * unsafe.Sizeof(*new(T)); bytes >= fromHuge {
		huge(unsafe.Pointer(unsafe.SliceData(s)), bytes)
	}
	return s
}

// Grow is slices.Grow of a slice that Make makes, to at least twice its size.
func Grow[T any](s []T, n int) []T {
	if cap(s)-len(s) >= n {
		return s
	}
	out := Make[T](len(s), max(len(s)+n, 2*cap(s)))
	copy(out, s)
	return out
}

package memory

import "unsafe"

// fromHuge is the number of bytes from which large pages are requested: the addresses of less
// memory fit in the processor's tables anyway.
const fromHuge = 4 << 20

// Make is make([]T, n, c) with large pages if the slice is large and the system has them: for
// tables with random access, where looking up the addresses would take as long as reading the
// contents. T must not contain pointers.
func Make[T any](n, c int) []T {
	s := make([]T, n, c)
	if bytes := uintptr(c) * unsafe.Sizeof(*new(T)); bytes >= fromHuge {
		huge(unsafe.Pointer(unsafe.SliceData(s)), bytes)
	}
	return s
}

// Grow is slices.Grow for a slice made by Make, to at least twice its size.
func Grow[T any](s []T, n int) []T {
	if cap(s)-len(s) >= n {
		return s
	}
	out := Make[T](len(s), max(len(s)+n, 2*cap(s)))
	copy(out, s)
	return out
}

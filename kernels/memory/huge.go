package memory

import "unsafe"

// fromHuge is the number of bytes from which large pages are requested: less memory is soon reused,
// and its addresses fit in the processor's tables.
const fromHuge = 1 << 18

// Make is make([]T, n, c) with large pages if the slice is large and the system has them. It is for
// tables with random access, where looking up the addresses would take as long as reading the
// contents, and for what has a number for each row or weight, where the system would take longer to
// give small pages than a pass over them takes. T must not contain pointers.
func Make[T any](n, c int) []T {
	s := make([]T, n, c)
	if bytes := uintptr(c) * unsafe.Sizeof(*new(T)); bytes >= fromHuge {
		huge(unsafe.Pointer(unsafe.SliceData(s)), bytes)
	}
	return s
}

// Floats is Make for n numbers.
func Floats(n int) []float64 { return Make[float64](n, n) }

// Grow is slices.Grow for a slice made by Make, to at least twice its size.
func Grow[T any](s []T, n int) []T {
	if cap(s)-len(s) >= n {
		return s
	}
	out := Make[T](len(s), max(len(s)+n, 2*cap(s)))
	copy(out, s)
	return out
}

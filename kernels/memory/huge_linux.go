package memory

import (
	"syscall"
	"unsafe"
)

// hugePage is the size of a large page on amd64 and arm64.
const hugePage = 2 << 20

// huge requests large pages for all that the memory lies in, which is part of the heap: the runtime
// gets it in multiples of two large pages, and places what is allocated next beside it.
func huge(p unsafe.Pointer, bytes uintptr) {
	lo := uintptr(p) &^ (hugePage - 1)
	hi := (uintptr(p) + bytes + hugePage - 1) &^ (hugePage - 1)
	_, _, _ = syscall.RawSyscall(syscall.SYS_MADVISE, lo, hi-lo, syscall.MADV_HUGEPAGE) // only advice: the result does not matter
}

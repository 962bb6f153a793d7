package memory

import (
	"syscall"
	"unsafe"
)

// hugePage is the size of a large page on amd64 and arm64.
const hugePage = 2 << 20

// huge requests large pages where they lie entirely in the memory.
func huge(p unsafe.Pointer, bytes uintptr) {
	lo := (uintptr(p) + hugePage - 1) &^ (hugePage - 1)
	hi := (uintptr(p) + bytes) &^ (hugePage - 1)
	if lo < hi { // only advice: the result does not matter
		_, _, _ = syscall.RawSyscall(syscall.SYS_MADVISE, lo, hi-lo, syscall.MADV_HUGEPAGE)
	}
}

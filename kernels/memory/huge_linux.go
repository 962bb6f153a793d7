package memory

import (
	"syscall"
	"unsafe"
)

// hugePage is the size of a large page of amd64 and arm64.
const hugePage = 2 << 20

// huge asks for large pages where they lie wholly in the memory.
func huge(p unsafe.Pointer, bytes uintptr) {
	lo := (uintptr(p) + hugePage - 1) &^ (hugePage - 1)
	hi := (uintptr(p) + bytes) &^ (hugePage - 1)
	if lo < hi { // a wish: an answer would change nothing
		_, _, _ = syscall.RawSyscall(syscall.SYS_MADVISE, lo, hi-lo, syscall.MADV_HUGEPAGE)
	}
}

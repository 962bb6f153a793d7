package capi

import (
	"errors"
	"hash/maphash"
	"strings"
	"testing"
	"unsafe"
)

// text is a VARCHAR vector of the given lengths and pointers.
func text(entries ...[2]uint64) *Vec {
	return &Vec{Type: Varchar, Len: len(entries), data: unsafe.Pointer(&entries[0])}
}

// What lies nowhere is an error before anything follows it.
func TestUnreadable(t *testing.T) {
	long := []byte(strings.Repeat("a text longer than a page ", 400))
	here := uint64(uintptr(unsafe.Pointer(&long[0])))
	for _, c := range []struct {
		name string
		e    [2]uint64
		ok   bool
	}{
		{"inline", [2]uint64{3, 0}, true},
		{"readable", [2]uint64{uint64(len(long)), here}, true},
		{"at zero", [2]uint64{13, 0}, false},
		{"not mapped", [2]uint64{13, 0xdead0000beef}, false},
		{"not canonical", [2]uint64{100, 1 << 63}, false},
		{"the kernel's", [2]uint64{100, 0xffffffff81000000}, false},
		{"too long", [2]uint64{maxText + 1, here}, false},
	} {
		var h maphash.Hash
		err := digest(&h, text(c.e), 0)
		if c.ok != (err == nil) || err != nil && !errors.Is(err, errUnreadable) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	spans := [][2]uint64{{0, 2}, {1, 2}, {2, 0}, {1 << 63, 1}, {1, 1 << 63}, {^uint64(0), 2}}
	list := &Vec{Type: List, Len: len(spans), data: unsafe.Pointer(&spans[0]), Kids: []Vec{*text([2]uint64{1, 0}, [2]uint64{2, 0})}}
	for i, want := range []bool{true, false, true, false, false, false} {
		var h maphash.Hash
		if err := digest(&h, list, i); (err == nil) != want {
			t.Errorf("span %v: %v", spans[i], err)
		}
	}
}

package capi

import (
	"slices"
	"testing"
	"unsafe"
)

// Entries that are the same follow each other in runs; what lies where there is NULL is
// no value, whatever DuckDB left there.
func TestRuns(t *testing.T) {
	mask := func(bits uint64) unsafe.Pointer { m := []uint64{bits}; return unsafe.Pointer(&m[0]) }
	numbers := func(valid unsafe.Pointer, xs ...float64) Vec {
		return Vec{Type: Double, Len: len(xs), data: unsafe.Pointer(&xs[0]), valid: (*uint64)(valid)}
	}
	lists := func(valid unsafe.Pointer, spans ...[2]uint64) Vec {
		return Vec{Type: List, Len: len(spans), data: unsafe.Pointer(&spans[0]), valid: (*uint64)(valid)}
	}
	inside := func(valid unsafe.Pointer, kids ...Vec) Vec {
		return Vec{Type: Struct, Len: kids[0].Len, Kids: kids, valid: (*uint64)(valid)}
	}
	for _, c := range []struct {
		name string
		v    Vec
		want []int32
	}{
		{"values", numbers(nil, 1, 1, 2, 2, 1), []int32{0, 0, 2, 2, 4}},
		{"NULLs are alike", numbers(mask(0), 1, 2, 3), []int32{0, 0, 0}},
		{"NULL and a value", numbers(mask(0b011), 1, 1, 1), []int32{0, 0, 2}},
		{"a list that is NULL", inside(nil, numbers(nil, 5, 5, 5), lists(mask(0), [2]uint64{0, 9}, [2]uint64{7, 1}, [2]uint64{3, 3})), []int32{0, 0, 0}},
		{"lists at other places", lists(nil, [2]uint64{0, 2}, [2]uint64{0, 2}, [2]uint64{2, 2}), []int32{0, 0, 2}},
		{"a field of a NULL", inside(mask(0b100), numbers(nil, 1, 2, 3)), []int32{0, 0, 2}},
		{"NULL in a field", inside(nil, numbers(mask(0b101), 1, 1, 1)), []int32{0, 1, 2}},
		{"text of NULLs", Vec{Type: Varchar, Len: 2, data: unsafe.Pointer(&[][2]uint64{{100, 1}, {100, 2}}[0]), valid: (*uint64)(mask(0))}, []int32{0, 0}},
	} {
		if got := c.v.Runs(nil); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

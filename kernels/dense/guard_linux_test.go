package dense

import (
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// guarded is n numbers that end where memory ends: touching one more is a fault.
func guarded(t *testing.T, n int) []float64 {
	page := os.Getpagesize()
	size := roundUp(8*n, page)
	mem, err := syscall.Mmap(-1, 0, size+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mprotect(mem[size:], syscall.PROT_NONE); err != nil {
		t.Skip(err)
	}
	return unsafe.Slice((*float64)(unsafe.Pointer(&mem[0])), size/8)[size/8-n:]
}

// The assembly reads and writes nothing beyond the ends of slices.
func TestBounds(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for n := 1; n <= 60; n += 1 + n/20 {
			x, y := guarded(t, n), guarded(t, n)
			Axpy(1, x, y)
			Toward(1, x, y)
			TowardSquares(1, x, y)
			InUnits(x, y, x, y)
			InUnits(x, x, y, y)
			AddRows(x, y, 0, []uint32{0, 0}, []float64{1, 1})
			AddToRows(x, 0, []uint32{0, 0}, []float64{1, 1}, y)
			triangle, z, r := guarded(t, PackedLen(n)), guarded(t, n), guarded(t, n+1)
			PackedTMul(z, triangle, x)
			PackedRotate(triangle, z, x, y, x)
			for j := range r {
				r[j] = 1
			}
			Shrinks(y, z, x, r, 1)
			clear(y)
			if Dot(x, y) != 0 {
				t.Error("Dot of zeros")
			}
			m := func(rows, cols int) *Matrix {
				return &Matrix{Rows: rows, Cols: cols, Stride: cols, Data: guarded(t, rows*cols)}
			}
			const k = 2*depth + 5
			tall, wide, square := m(k, n), m(n, k), m(n, n)
			Gram(square, tall, nil)
			GramT(square, wide, nil)
			GramTAlone(square, wide, nil)
			Transpose(wide, tall)
			Transpose(tall, wide)
			Mul(square, wide, tall)
			Gemm(square, 1, tall, true, wide, true, 0)
			for i := range n {
				square.Set(i, i, 1)
			}
			if err := Cholesky(square); err != nil {
				t.Error(err)
			}
			SolveLower(square, wide)
			SolveLowerT(square, wide)
			solve(*square, *tall, right)
			InverseFromCholesky(m(n, n), square)
		}
	})
}

//go:build !purego

package dense

import "golang.org/x/sys/cpu"

// best checks the processor and, for the wide registers, the operating system.
func best() isa {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasBMI2:
		return avx512
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return avx2
	}
	return portable
}

// A tileFunc has its strides in bytes.
type tileFunc = func(c *float64, cs int, a *float64, ars, acs int, b *float64, bs, k int, next *float64, ns int)

// by rows and vectors, minus one
var (
	tiles512 = [8][3]tileFunc{
		{tile512_1x1, tile512_1x2, tile512_1x3},
		{tile512_2x1, tile512_2x2, tile512_2x3},
		{tile512_3x1, tile512_3x2, tile512_3x3},
		{tile512_4x1, tile512_4x2, tile512_4x3},
		{tile512_5x1, tile512_5x2, tile512_5x3},
		{tile512_6x1, tile512_6x2, tile512_6x3},
		{tile512_7x1, tile512_7x2, tile512_7x3},
		{tile512_8x1, tile512_8x2, tile512_8x3},
	}
	tiles2 = [4][3]tileFunc{
		{tile2_1x1, tile2_1x2, tile2_1x3},
		{tile2_2x1, tile2_2x2, tile2_2x3},
		{tile2_3x1, tile2_3x2, tile2_3x3},
		{tile2_4x1, tile2_4x2, tile2_4x3},
	}
)

// block is blockGo by the instruction set in use. It also prefetches a cache line at each of the
// first k multiples of ns in next, for what comes after it. The assembly checks no bounds, so the
// last number of each operand is accessed here.
func block(m, n int, c []float64, cs int, a []float64, ars, acs int, b []float64, bs, k int, next []float64, ns int) {
	_, _, _ = c[(m-1)*cs+n-1], a[(m-1)*ars+(k-1)*acs], b[(k-1)*bs+n-1]
	fetch := &b[0]
	if len(next) > 0 {
		fetch = &next[0]
	} else {
		ns = 0
	}
	switch used {
	case avx512:
		tiles512[m-1][n/8-1](&c[0], 8*cs, &a[0], 8*ars, 8*acs, &b[0], 8*bs, k, fetch, 8*ns)
	case avx2:
		for j := 0; j < n; j += 12 {
			nv := min(3, (n-j)/4)
			for i := 0; i < m; i += 4 {
				tiles2[min(4, m-i)-1][nv-1](&c[i*cs+j], 8*cs, &a[i*ars], 8*ars, 8*acs, &b[j], 8*bs, k, fetch, 8*ns)
			}
		}
	default:
		blockGo(m, n, c, cs, a, ars, acs, b, bs, k)
	}
}

// packRows is packRowsGo by the instruction set in use.
func packRows(dst []float64, ds, ps int, src []float64, ss, rows, cols int, s []float64) {
	if rows == 0 || cols == 0 {
		return
	}
	last := roundUp(cols, lanes) - 1
	_, _, _ = dst[last/panelCols*ps+(rows-1)*ds+last%panelCols], src[(rows-1)*ss+cols-1], s[rows-1]
	switch used {
	case avx512:
		packRows512(&dst[0], 8*ds, 8*ps, &src[0], 8*ss, rows, cols, &s[0])
	case avx2:
		packRows2(&dst[0], 8*ds, 8*ps, &src[0], 8*ss, rows, cols, &s[0])
	default:
		packRowsGo(dst, ds, ps, src, ss, rows, cols, s)
	}
}

// packTrans is packTransGo by the instruction set in use.
func packTrans(dst []float64, ds int, src []float64, ss, rows, k int) {
	whole := k &^ 7
	if used == portable || rows < lanes || whole == 0 {
		packTransGo(dst, ds, src, ss, rows, k)
		return
	}
	_, _ = dst[(k-1)*ds+lanes-1], src[(lanes-1)*ss+k-1]
	if used == avx512 {
		packTrans512(&dst[0], 8*ds, &src[0], 8*ss, whole/8)
	} else {
		packTrans2(&dst[0], 8*ds, &src[0], 8*ss, whole/8)
	}
	if whole < k {
		packTransGo(dst[whole*ds:], ds, src[whole:], ss, rows, k-whole)
	}
}

func dot(x, y []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	switch used {
	case avx512:
		return dot512(&x[0], &y[0], len(x))
	case avx2:
		return dot2(&x[0], &y[0], len(x))
	}
	return dotGo(x, y)
}

func axpy(a float64, x, y []float64) {
	if len(x) == 0 {
		return
	}
	switch used {
	case avx512:
		axpy512(a, &x[0], &y[0], len(x))
	case avx2:
		axpy2(a, &x[0], &y[0], len(x))
	default:
		axpyGo(a, x, y)
	}
}

func toward(a float64, x, y []float64) {
	if len(x) == 0 {
		return
	}
	switch used {
	case avx512:
		toward512(a, &x[0], &y[0], len(x))
	case avx2:
		toward2(a, &x[0], &y[0], len(x))
	default:
		towardGo(a, x, y)
	}
}

func towardSquares(a float64, x, y []float64) {
	if len(x) == 0 {
		return
	}
	switch used {
	case avx512:
		towardSquares512(a, &x[0], &y[0], len(x))
	case avx2:
		towardSquares2(a, &x[0], &y[0], len(x))
	default:
		towardSquaresGo(a, x, y)
	}
}

func inUnits(dst, x, origin, by []float64) {
	if len(x) == 0 {
		return
	}
	switch used {
	case avx512:
		inUnits512(&dst[0], &x[0], &origin[0], &by[0], len(x))
	case avx2:
		inUnits2(&dst[0], &x[0], &origin[0], &by[0], len(x))
	default:
		inUnitsGo(dst, x, origin, by)
	}
}

func fetch(p *byte, size int, k []uint32) { fetchLines(p, size, &k[0], len(k)) }

func timesStrips(f, l, g []float64, first int) {
	switch strips := len(g) / 8; used {
	case avx512:
		timesStrips512(&f[0], &l[0], &g[0], first, strips)
	case avx2:
		timesStrips2(&f[0], &l[0], &g[0], first, strips)
	default:
		timesStripsGo(f, l, g, first)
	}
}

func rotateStrips(l, u, a, b, c []float64, first int) {
	switch strips := len(u) / 8; used {
	case avx512:
		rotateStrips512(&l[0], &u[0], &a[0], &b[0], &c[0], first, strips)
	case avx2:
		rotateStrips2(&l[0], &u[0], &a[0], &b[0], &c[0], first, strips)
	default:
		rotateStripsGo(l, u, a, b, c, first)
	}
}

func shrinks(a, b, f, r []float64, beta float64) {
	if used == avx512 && len(f) >= short {
		shrinks512(&a[0], &b[0], &f[0], &r[0], len(f), beta)
	} else {
		shrinksGo(a, b, f, r, beta)
	}
}

func exp(up, down, x []float64) {
	if used == portable {
		expGo(up, down, x)
		return
	}
	whole := len(x) &^ 7
	if whole > 0 {
		eights(up, down, x, whole)
	}
	if rest := x[whole:]; len(rest) > 0 {
		var last, other [8]float64
		copy(last[:], rest)
		eights(last[:], other[:], last[:], 8)
		copy(up[whole:], last[:len(rest)])
		copy(down[whole:], other[:len(rest)])
	}
}

// eights is exp of n numbers, a multiple of eight; called by name, since the assembly then lets its
// operands stay on the stack.
func eights(up, down, x []float64, n int) {
	if used == avx512 {
		exp512(&up[0], &down[0], &x[0], n)
	} else {
		exp2(&up[0], &down[0], &x[0], n)
	}
}

func addRows(y, m []float64, stride int, k []uint32, a []float64) {
	switch {
	case used == portable:
		addRowsGo(y, m, stride, k, a)
	case len(y) == 0 || len(k) == 0:
	case used == avx512:
		addRows512(&y[0], len(y), &m[0], 8*stride, &k[0], &a[0], len(k))
	default:
		addRows2(&y[0], len(y), &m[0], 8*stride, &k[0], &a[0], len(k))
	}
}

func addToRows(m []float64, stride int, k []uint32, a, x []float64) {
	switch {
	case used == portable:
		addToRowsGo(m, stride, k, a, x)
	case len(x) == 0 || len(k) == 0:
	case used == avx512:
		addToRows512(&m[0], 8*stride, &k[0], &a[0], len(k), &x[0], len(x))
	default:
		addToRows2(&m[0], 8*stride, &k[0], &a[0], len(k), &x[0], len(x))
	}
}

// Command gen writes the assembly of package dense, kernels_amd64.s, and its Go
// declarations, kernels_amd64.go. It is a module of its own so that programs which use
// dense do not depend on the assembler. Run it with go generate in the folder above.
//
// Every kernel comes in two forms, AVX-512F and AVX2 with FMA, that do the same
// floating-point operations in the same order for each number they write. Strides are in
// bytes.
package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/buildtags"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	Constraint(buildtags.Not("purego"))
	masks := tailMasks()
	for _, s := range []isa{{"512", 64}, {"2", 32}} {
		for mr := 1; mr <= s.rows(); mr++ {
			for nv := 1; nv <= 3; nv++ {
				tile(s, mr, nv)
			}
		}
		peak(s)
		axpy(s)
	}
	packRows512()
	packRows2(masks)
	packTrans512()
	packTrans2()
	dot512()
	dot2(masks)
	Generate()
}

// isa is an instruction set: its suffix in names and the bytes of a vector.
type isa struct {
	name  string
	bytes int
}

// rows of the largest tile: 8 x 3 sums and 3 + 5 others of 32 registers, 4 x 3 and 3 + 1
// of 16.
func (s isa) rows() int {
	if s.bytes == 64 {
		return 8
	}
	return 4
}

func (s isa) lanes() int { return s.bytes / 8 }

func (s isa) vec() VecVirtual {
	if s.bytes == 64 {
		return ZMM()
	}
	return YMM()
}

func (s isa) zero(v VecVirtual) {
	if s.bytes == 64 {
		VPXORQ(v, v, v)
	} else {
		VXORPD(v, v, v)
	}
}

func load(name string) GPVirtual { return Load(Param(name), GP64()).(GPVirtual) }

// tile is the product kernel: mr rows by nv vectors of C stay in registers while k outer
// products are added to them.
func tile(s isa, mr, nv int) {
	name := fmt.Sprintf("tile%s_%dx%d", s.name, mr, nv)
	TEXT(name, NOSPLIT, "func(c *float64, cs int, a *float64, ars, acs int, b *float64, bs, k int, next *float64, ns int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s adds to %d x %d numbers of C the product of A, %d x k with row stride ars and", name, mr, nv*s.lanes(), mr),
		fmt.Sprintf("column stride acs, and B, k x %d with row stride bs. Meanwhile it fetches k cache lines,", nv*s.lanes()),
		"ns apart, from next on.")
	acc := make([][]VecVirtual, mr)
	for i := range acc {
		for range nv {
			v := s.vec()
			s.zero(v)
			acc[i] = append(acc[i], v)
		}
	}
	c, cs := load("c"), load("cs")
	for r := range mr {
		for d := 0; d < nv*s.bytes; d += 64 {
			PREFETCHT0(Mem{Base: c, Disp: d})
		}
		if r < mr-1 {
			ADDQ(cs, c)
		}
	}
	a, acs, b, bs, k := load("a"), load("acs"), load("b"), load("bs"), load("k")
	next, ns := load("next"), load("ns")
	// row r of A is a row of the first or second four, at 0, 1, 2 or 3 strides
	var a4, ars, ars3 GPVirtual
	if mr > 1 {
		ars = load("ars")
	}
	if mr > 3 {
		ars3 = GP64()
		LEAQ(Mem{Base: ars, Index: ars, Scale: 2}, ars3)
	}
	if mr > 4 {
		a4 = GP64()
		LEAQ(Mem{Base: a, Index: ars, Scale: 4}, a4)
	}
	at := func(r int) Mem {
		m := Mem{Base: a}
		if r >= 4 {
			m.Base = a4
		}
		switch r & 3 {
		case 1:
			m.Index, m.Scale = ars, 1
		case 2:
			m.Index, m.Scale = ars, 2
		case 3:
			m.Index, m.Scale = ars3, 1
		}
		return m
	}
	TESTQ(k, k)
	JLE(LabelRef("store"))
	Label("loop")
	PREFETCHT1(Mem{Base: next})
	ADDQ(ns, next)
	bv := make([]VecVirtual, nv)
	for j := range bv {
		bv[j] = s.vec()
		VMOVUPD(Mem{Base: b, Disp: j * s.bytes}, bv[j])
	}
	for r := range mr {
		av := s.vec()
		VBROADCASTSD(at(r), av)
		for j := range bv {
			VFMADD231PD(bv[j], av, acc[r][j])
		}
	}
	ADDQ(acs, a)
	if mr > 4 {
		ADDQ(acs, a4)
	}
	ADDQ(bs, b)
	DECQ(k)
	JNE(LabelRef("loop"))
	Label("store")
	c, cs = load("c"), load("cs")
	for r := range mr {
		for j := range nv {
			m := Mem{Base: c, Disp: j * s.bytes}
			VADDPD(m, acc[r][j], acc[r][j])
			VMOVUPD(acc[r][j], m)
		}
		if r < mr-1 {
			ADDQ(cs, c)
		}
	}
	done()
}

func done() {
	VZEROUPPER()
	RET()
}

// peak does fused multiply-adds on registers only: the speed of light for a benchmark.
func peak(s isa) {
	const sums = 12 // more than latency (4 or 5) times units (2)
	TEXT("peak"+s.name, NOSPLIT, "func(n int)")
	Doc(fmt.Sprintf("peak%s does n rounds of %d independent multiply-adds of %d lanes.", s.name, sums, s.lanes()))
	n := load("n")
	var acc []VecVirtual
	for range sums {
		v := s.vec()
		s.zero(v)
		acc = append(acc, v)
	}
	x := s.vec()
	s.zero(x)
	Label("loop")
	for _, v := range acc {
		VFMADD231PD(x, x, v)
	}
	DECQ(n)
	JNE(LabelRef("loop"))
	done()
}

func axpy(s isa) {
	TEXT("axpy"+s.name, NOSPLIT, "func(a float64, x, y *float64, n int)")
	Pragma("noescape")
	Doc("axpy" + s.name + " sets y += a x, n numbers, each by one fused multiply-add.")
	x, y, n := load("x"), load("y"), load("n")
	mem, err := Param("a").Resolve()
	if err != nil {
		panic(err)
	}
	a := s.vec()
	VBROADCASTSD(mem.Addr, a)
	step := func(label string, vectors int) {
		Label(label)
		CMPQ(n, Imm(uint64(vectors*s.lanes())))
		JL(LabelRef(label + "_end"))
		var v []VecVirtual
		for j := range vectors {
			v = append(v, s.vec())
			VMOVUPD(Mem{Base: y, Disp: j * s.bytes}, v[j])
		}
		for j := range vectors {
			VFMADD231PD(Mem{Base: x, Disp: j * s.bytes}, a, v[j])
		}
		for j := range vectors {
			VMOVUPD(v[j], Mem{Base: y, Disp: j * s.bytes})
		}
		ADDQ(I32(vectors*s.bytes), x)
		ADDQ(I32(vectors*s.bytes), y)
		SUBQ(I32(vectors*s.lanes()), n)
		JMP(LabelRef(label))
		Label(label + "_end")
	}
	step("four", 4)
	step("one", 1)
	if s.bytes == 64 {
		TESTQ(n, n)
		JE(LabelRef("end"))
		k := mask(n)
		v, w := ZMM(), ZMM()
		VMOVUPD_Z(Mem{Base: y}, k, v)
		VMOVUPD_Z(Mem{Base: x}, k, w)
		VFMADD231PD(w, a, v)
		VMOVUPD(v, k, Mem{Base: y})
		Label("end")
		done()
		return
	}
	Label("single")
	TESTQ(n, n)
	JE(LabelRef("end"))
	v := XMM()
	VMOVSD(Mem{Base: y}, v)
	VFMADD231SD(Mem{Base: x}, a.AsX(), v)
	VMOVSD(v, Mem{Base: y})
	ADDQ(Imm(8), x)
	ADDQ(Imm(8), y)
	DECQ(n)
	JMP(LabelRef("single"))
	Label("end")
	done()
}

// mask is the mask of the first n < 8 lanes.
func mask(n GPVirtual) OpmaskVirtual {
	ones, k := GP32(), K()
	MOVL(I32(-1), ones)
	BZHIL(n.As32(), ones, ones)
	KMOVW(ones, k)
	return k
}

// tailMasks is eight set and then eight clear lanes: the masks of n < 8 lanes begin at
// number 8-n for the first four lanes and at 12-n for the others.
func tailMasks() Mem {
	m := GLOBL("tailmasks", RODATA|NOPTR)
	for i := range 16 {
		v := ^uint64(0)
		if i >= 8 {
			v = 0
		}
		DATA(8*i, U64(v))
	}
	return m
}

const packRowsDoc = ` copies rows of cols numbers, row i times s[i], into panels of 24 columns, ps
apart, with row stride ds, and fills up the last eight columns with 0 s[i].`

const panel = 24 * 8 // bytes of a row of a panel

// packRows writes the loops of packRows around the copy of eight numbers, from src to dst
// at an offset, and of the last few.
func packRows(name string, prepare func(tail GPVirtual), scale func(s GPVirtual), eight, few func(src, dst GPVirtual, offset int)) {
	TEXT(name, NOSPLIT, "func(dst *float64, ds, ps int, src *float64, ss, rows, cols int, s *float64)")
	Pragma("noescape")
	Doc(strings.Split(name+packRowsDoc, "\n")...)
	dst, ds, ps, src, ss := load("dst"), load("ds"), load("ps"), load("src"), load("ss")
	rows, cols, s := load("rows"), load("cols"), load("s")
	tail := GP64()
	MOVQ(cols, tail)
	ANDQ(Imm(7), tail)
	prepare(tail)
	SHRQ(Imm(3), cols)
	TESTQ(rows, rows)
	JLE(LabelRef("end"))
	Label("row")
	scale(s)
	from, to, left := GP64(), GP64(), GP64()
	MOVQ(src, from)
	MOVQ(dst, to)
	MOVQ(cols, left)
	SUBQ(Imm(3), left)
	JL(LabelRef("rest"))
	Label("panel")
	for d := 0; d < panel; d += 64 {
		eight(from, to, d)
	}
	ADDQ(I32(panel), from)
	ADDQ(ps, to)
	SUBQ(Imm(3), left)
	JGE(LabelRef("panel"))
	Label("rest")
	ADDQ(Imm(3), left)
	JE(LabelRef("tail"))
	Label("vector")
	eight(from, to, 0)
	ADDQ(Imm(64), from)
	ADDQ(Imm(64), to)
	DECQ(left)
	JNE(LabelRef("vector"))
	Label("tail")
	TESTQ(tail, tail)
	JE(LabelRef("next"))
	few(from, to, 0)
	Label("next")
	ADDQ(ds, dst)
	ADDQ(ss, src)
	ADDQ(Imm(8), s)
	DECQ(rows)
	JNE(LabelRef("row"))
	Label("end")
	done()
}

func packRows512() {
	var k OpmaskVirtual
	var a, v VecVirtual
	packRows("packRows512",
		func(tail GPVirtual) { k, a, v = mask(tail), ZMM(), ZMM() },
		func(s GPVirtual) { VBROADCASTSD(Mem{Base: s}, a) },
		func(src, dst GPVirtual, d int) {
			VMULPD(Mem{Base: src, Disp: d}, a, v)
			VMOVUPD(v, Mem{Base: dst, Disp: d})
		},
		func(src, dst GPVirtual, d int) {
			VMOVUPD_Z(Mem{Base: src, Disp: d}, k, v)
			VMULPD(v, a, v)
			VMOVUPD(v, Mem{Base: dst, Disp: d})
		})
}

func packRows2(masks Mem) {
	var m [2]VecVirtual
	var a, v VecVirtual
	packRows("packRows2",
		func(tail GPVirtual) {
			a, v = YMM(), YMM()
			m = tailMask(masks, tail)
		},
		func(s GPVirtual) { VBROADCASTSD(Mem{Base: s}, a) },
		func(src, dst GPVirtual, d int) {
			for e := d; e < d+64; e += 32 {
				VMULPD(Mem{Base: src, Disp: e}, a, v)
				VMOVUPD(v, Mem{Base: dst, Disp: e})
			}
		},
		func(src, dst GPVirtual, d int) {
			for j := range m {
				VMASKMOVPD(Mem{Base: src, Disp: d + 32*j}, m[j], v)
				VMULPD(v, a, v)
				VMOVUPD(v, Mem{Base: dst, Disp: d + 32*j})
			}
		})
}

// tailMask is the mask of n < 8 lanes in two registers.
func tailMask(masks Mem, n GPVirtual) (m [2]VecVirtual) {
	t, bytes := GP64(), GP64()
	LEAQ(masks, t)
	MOVQ(n, bytes)
	SHLQ(Imm(3), bytes)
	SUBQ(bytes, t)
	for j := range m {
		m[j] = YMM()
		VMOVUPD(Mem{Base: t, Disp: 64 + 32*j}, m[j])
	}
	return m
}

const packTransDoc = " copies eight rows of 8 blocks numbers to 8 blocks rows of eight."

// rowAddress gives the address of row r of eight with stride ss.
func rowAddress(src, ss GPVirtual) (src4 GPVirtual, at func(r, disp int) Mem) {
	ss3, src4 := GP64(), GP64()
	LEAQ(Mem{Base: ss, Index: ss, Scale: 2}, ss3)
	LEAQ(Mem{Base: src, Index: ss, Scale: 4}, src4)
	return src4, func(r, disp int) Mem {
		m := Mem{Base: src, Disp: disp}
		if r >= 4 {
			m.Base = src4
		}
		switch r & 3 {
		case 1:
			m.Index, m.Scale = ss, 1
		case 2:
			m.Index, m.Scale = ss, 2
		case 3:
			m.Index, m.Scale = ss3, 1
		}
		return m
	}
}

func packTrans512() {
	TEXT("packTrans512", NOSPLIT, "func(dst *float64, ds int, src *float64, ss, blocks int)")
	Pragma("noescape")
	Doc("packTrans512" + packTransDoc)
	dst, ds, src, ss, n := load("dst"), load("ds"), load("src"), load("ss"), load("blocks")
	src4, at := rowAddress(src, ss)
	TESTQ(n, n)
	JLE(LabelRef("end"))
	Label("block")
	var t [8]VecVirtual
	for r := 0; r < 8; r += 2 {
		x, y := ZMM(), ZMM()
		VMOVUPD(at(r, 0), x)
		VMOVUPD(at(r+1, 0), y)
		t[r], t[r+1] = ZMM(), ZMM()
		VUNPCKLPD(y, x, t[r])
		VUNPCKHPD(y, x, t[r+1])
	}
	shuffle := func(imm uint64, x, y VecVirtual) VecVirtual {
		z := ZMM()
		VSHUFF64X2(Imm(imm), y, x, z)
		return z
	}
	var out [8]VecVirtual
	for odd := range 2 {
		// pairs of lanes 0 and 2 of both, then pairs 1 and 3
		u0, u1 := shuffle(0x88, t[odd], t[2+odd]), shuffle(0xdd, t[odd], t[2+odd])
		v0, v1 := shuffle(0x88, t[4+odd], t[6+odd]), shuffle(0xdd, t[4+odd], t[6+odd])
		out[0+odd], out[4+odd] = shuffle(0x88, u0, v0), shuffle(0xdd, u0, v0)
		out[2+odd], out[6+odd] = shuffle(0x88, u1, v1), shuffle(0xdd, u1, v1)
	}
	for _, v := range out {
		VMOVUPD(v, Mem{Base: dst})
		ADDQ(ds, dst)
	}
	ADDQ(Imm(64), src)
	ADDQ(Imm(64), src4)
	DECQ(n)
	JNE(LabelRef("block"))
	Label("end")
	done()
}

func packTrans2() {
	TEXT("packTrans2", NOSPLIT, "func(dst *float64, ds int, src *float64, ss, blocks int)")
	Pragma("noescape")
	Doc("packTrans2" + packTransDoc)
	dst, ds, src, ss, n := load("dst"), load("ds"), load("src"), load("ss"), load("blocks")
	src4, at := rowAddress(src, ss)
	SHLQ(Imm(1), n) // half blocks, four columns each
	JE(LabelRef("end"))
	Label("block")
	d := GP64()
	for half := 0; half < 8; half += 4 {
		var x [4]VecVirtual
		for r := range x {
			x[r] = YMM()
			VMOVUPD(at(half+r, 0), x[r])
		}
		t := [4]VecVirtual{YMM(), YMM(), YMM(), YMM()}
		for r := 0; r < 4; r += 2 {
			VUNPCKLPD(x[r+1], x[r], t[r])
			VUNPCKHPD(x[r+1], x[r], t[r+1])
		}
		MOVQ(dst, d)
		for c := range 4 {
			imm := uint64(0x20)
			if c >= 2 {
				imm = 0x31
			}
			o := YMM()
			VPERM2F128(Imm(imm), t[2+c&1], t[c&1], o)
			VMOVUPD(o, Mem{Base: d, Disp: 8 * half})
			ADDQ(ds, d)
		}
	}
	MOVQ(d, dst)
	ADDQ(Imm(32), src)
	ADDQ(Imm(32), src4)
	DECQ(n)
	JNE(LabelRef("block"))
	Label("end")
	done()
}

const dotDoc = " is the inner product of n numbers in 32 interleaved sums, added up in pairs."

func dot512() {
	TEXT("dot512", NOSPLIT, "func(x, y *float64, n int) float64")
	Pragma("noescape")
	Doc("dot512" + dotDoc)
	x, y, n := load("x"), load("y"), load("n")
	var acc, v [4]VecVirtual
	for j := range acc {
		acc[j], v[j] = ZMM(), ZMM()
		VPXORQ(acc[j], acc[j], acc[j])
	}
	step := func(label string, vectors int) {
		Label(label)
		CMPQ(n, Imm(uint64(8*vectors)))
		JL(LabelRef(label + "_end"))
		for j := range vectors {
			VMOVUPD(Mem{Base: x, Disp: 64 * j}, v[j])
			VFMADD231PD(Mem{Base: y, Disp: 64 * j}, v[j], acc[j])
		}
		ADDQ(I32(64*vectors), x)
		ADDQ(I32(64*vectors), y)
		SUBQ(I32(8*vectors), n)
		JMP(LabelRef(label))
		Label(label + "_end")
	}
	step("four", 4)
	step("one", 1)
	TESTQ(n, n)
	JE(LabelRef("sum"))
	k := mask(n)
	VMOVUPD_Z(Mem{Base: x}, k, v[0])
	VMOVUPD_Z(Mem{Base: y}, k, v[1])
	VFMADD231PD(v[0], v[1], acc[1])
	Label("sum")
	VADDPD(acc[1], acc[0], acc[0])
	VADDPD(acc[3], acc[2], acc[2])
	VADDPD(acc[2], acc[0], acc[0])
	hi := YMM()
	VEXTRACTF64X4(Imm(1), acc[0], hi)
	reduce(acc[0], hi)
}

func dot2(masks Mem) {
	TEXT("dot2", NOSPLIT, "func(x, y *float64, n int) float64")
	Pragma("noescape")
	Doc("dot2" + dotDoc)
	x, y, n := load("x"), load("y"), load("n")
	var acc [8]VecVirtual
	v, w := YMM(), YMM()
	for j := range acc {
		acc[j] = YMM()
		VXORPD(acc[j], acc[j], acc[j])
	}
	step := func(label string, vectors int) {
		Label(label)
		CMPQ(n, Imm(uint64(8*vectors)))
		JL(LabelRef(label + "_end"))
		for j := range 2 * vectors {
			VMOVUPD(Mem{Base: x, Disp: 32 * j}, v)
			VFMADD231PD(Mem{Base: y, Disp: 32 * j}, v, acc[j])
		}
		ADDQ(I32(64*vectors), x)
		ADDQ(I32(64*vectors), y)
		SUBQ(I32(8*vectors), n)
		JMP(LabelRef(label))
		Label(label + "_end")
	}
	step("four", 4)
	step("one", 1)
	TESTQ(n, n)
	JE(LabelRef("sum"))
	for j, m := range tailMask(masks, n) {
		VMASKMOVPD(Mem{Base: x, Disp: 32 * j}, m, v)
		VMASKMOVPD(Mem{Base: y, Disp: 32 * j}, m, w)
		VFMADD231PD(v, w, acc[2+j])
	}
	Label("sum")
	for j := range 2 {
		VADDPD(acc[2+j], acc[j], acc[j])
		VADDPD(acc[6+j], acc[4+j], acc[4+j])
		VADDPD(acc[4+j], acc[j], acc[j])
	}
	reduce(acc[0], acc[1])
}

// reduce returns the sum of the lanes of hi and of the first four lanes of lo.
func reduce(lo, hi VecVirtual) {
	VADDPD(hi, lo.AsY(), lo.AsY())
	h := XMM()
	VEXTRACTF128(Imm(1), lo.AsY(), h)
	VADDPD(h, lo.AsX(), lo.AsX())
	VPERMILPD(Imm(1), lo.AsX(), h)
	VADDSD(h, lo.AsX(), lo.AsX())
	Store(lo.AsX(), ReturnIndex(0))
	done()
}

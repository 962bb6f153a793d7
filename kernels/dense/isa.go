package dense

import "math"

//go:generate go run -C gen main.go -go ../kernels_amd64.go -out ../kernels_amd64.s -pkg dense

// isa is an instruction set for which there are kernels.
type isa int

const (
	portable isa = iota
	avx2         // AVX2 and FMA
	avx512       // AVX-512F, and BMI2 for the masks
)

func (s isa) String() string { return [...]string{"portable", "avx2", "avx512"}[s] }

// used is the instruction set in use. Only tests change it.
var used = best()

// The shape of packed panels: B in panels of at most panelCols columns, a multiple of
// lanes, and C in blocks of at most blockRows x panelCols.
const (
	lanes     = 8
	blockRows = 8
	panelCols = 24
)

// blockGo adds to C, m x n with row stride cs, the product of A, m x k with strides ars and
// acs, and B, k x n with row stride bs; m <= blockRows, n <= panelCols a multiple of lanes.
// Two rows and four columns at a time stay in registers.
func blockGo(m, n int, c []float64, cs int, a []float64, ars, acs int, b []float64, bs, k int) {
	for i := 0; i < m; i += 2 {
		a0, a1 := a[i*ars:], a[min(i+1, m-1)*ars:]
		for j := 0; j < n; j += 4 {
			var s00, s01, s02, s03, s10, s11, s12, s13 float64
			for t := range k {
				bt := b[t*bs+j : t*bs+j+4 : t*bs+j+4]
				x, y := a0[t*acs], a1[t*acs]
				s00 += x * bt[0]
				s01 += x * bt[1]
				s02 += x * bt[2]
				s03 += x * bt[3]
				s10 += y * bt[0]
				s11 += y * bt[1]
				s12 += y * bt[2]
				s13 += y * bt[3]
			}
			c0 := c[i*cs+j : i*cs+j+4 : i*cs+j+4]
			c0[0] += s00
			c0[1] += s01
			c0[2] += s02
			c0[3] += s03
			if i+1 < m {
				c1 := c[(i+1)*cs+j : (i+1)*cs+j+4 : (i+1)*cs+j+4]
				c1[0] += s10
				c1[1] += s11
				c1[2] += s12
				c1[3] += s13
			}
		}
	}
}

// packRowsGo copies rows of cols numbers, row i times s[i], into panels of panelCols columns, ps
// apart, with row stride ds, and fills the last lanes with 0 s[i], which reach no result.
func packRowsGo(dst []float64, ds, ps int, src []float64, ss, rows, cols int, s []float64) {
	for i := range rows {
		for j := 0; j < cols; j += panelCols {
			d, x := dst[j/panelCols*ps+i*ds:], src[i*ss+j:i*ss+min(j+panelCols, cols)]
			for j, v := range x {
				d[j] = v * s[i]
			}
			clear(d[len(x):roundUp(len(x), lanes)])
		}
	}
}

// packTransGo sets dst, k rows of lanes numbers, to the transpose of src, rows <= lanes by k;
// missing rows are zero.
func packTransGo(dst []float64, ds int, src []float64, ss, rows, k int) {
	for r := range rows {
		for t, v := range src[r*ss : r*ss+k] {
			dst[t*ds+r] = v
		}
	}
	for t := 0; t < k && rows < lanes; t++ {
		clear(dst[t*ds+rows : t*ds+lanes])
	}
}

func dotGo(x, y []float64) float64 {
	var s0, s1, s2, s3 float64
	y = y[:len(x)]
	for len(x) >= 4 {
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
		x, y = x[4:], y[4:]
	}
	for i, v := range x {
		s0 += v * y[i]
	}
	return (s0 + s1) + (s2 + s3)
}

func axpyGo(a float64, x, y []float64) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += a * v
	}
}

func towardGo(a float64, x, y []float64) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += float64(a * (v - y[i]))
	}
}

func towardSquaresGo(a float64, x, y []float64) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += float64(a * (float64(v*v) - y[i]))
	}
}

func inUnitsGo(dst, x, origin, by []float64) {
	dst, origin, by = dst[:len(x)], origin[:len(x)], by[:len(x)]
	for i, v := range x {
		dst[i] = (v - origin[i]) * by[i]
	}
}

func addRowsGo(y, m []float64, stride int, k []uint32, a []float64) {
	for i, k := range k {
		axpy(a[i], m[int(k)*stride:][:len(y)], y)
	}
}

func addToRowsGo(m []float64, stride int, k []uint32, a, x []float64) {
	for i, k := range k {
		axpy(a[i], x, m[int(k)*stride:][:len(x)])
	}
}

// timesStripsGo sets f to Lᵀ g, without the contribution of the first rows, up to seven: l and g
// begin with the strip after them.
func timesStripsGo(f, l, g []float64, first int) {
	clear(f)
	for n := first + 8; len(g) > 0; n += 8 {
		y := (*[8]float64)(g)
		if *y != [8]float64{} {
			for j := range f[:n] {
				x := (*[8]float64)(l[8*j:])
				f[j] += ((x[0]*y[0] + x[1]*y[1]) + (x[2]*y[2] + x[3]*y[3])) + ((x[4]*y[4] + x[5]*y[5]) + (x[6]*y[6] + x[7]*y[7]))
			}
		}
		l, g = l[8*n:], g[8:]
	}
}

// rotateStripsGo is PackedRotate after the first rows, up to seven: l and u begin with the strip
// there.
func rotateStripsGo(l, u, a, b, c []float64, first int) {
	for n := first + 8; len(u) > 0; n += 8 {
		var w0, w1, w2, w3, w4, w5, w6, w7 float64 // in registers
		for j := n - 1; j >= 0; j-- {
			x, a, b, c := (*[8]float64)(l[8*j:]), a[j], b[j], c[j]
			x[0], w0 = a*x[0]-b*w0, w0+c*x[0]
			x[1], w1 = a*x[1]-b*w1, w1+c*x[1]
			x[2], w2 = a*x[2]-b*w2, w2+c*x[2]
			x[3], w3 = a*x[3]-b*w3, w3+c*x[3]
			x[4], w4 = a*x[4]-b*w4, w4+c*x[4]
			x[5], w5 = a*x[5]-b*w5, w5+c*x[5]
			x[6], w6 = a*x[6]-b*w6, w6+c*x[6]
			x[7], w7 = a*x[7]-b*w7, w7+c*x[7]
			if i := j - (n - 8); i >= 0 {
				x[i] = max(x[i], Least)
			}
		}
		*(*[8]float64)(u) = [8]float64{w0, w1, w2, w3, w4, w5, w6, w7}
		l, u = l[8*n:], u[8:]
	}
}

func shrinksGo(a, b, f, r []float64, beta float64) {
	for j, v := range f {
		a[j] = math.Sqrt(r[j+1] / r[j])
		b[j] = beta * v / r[j+1] * a[j]
	}
}

func expGo(up, down, x []float64) {
	for i, v := range x {
		v = math.Exp(min(max(v, -700), 700))
		up[i], down[i] = v, 1/v
	}
}

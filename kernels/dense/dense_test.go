package dense

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// fataler is what testing and rapid share.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// u is the unit roundoff.
const u = 1.0 / (1 << 53)

// eachISA runs f with every instruction set this machine has.
func eachISA(t *testing.T, f func(t *testing.T)) {
	old := used
	defer func() { used = old }()
	for s := portable; s <= best(); s++ {
		used = s
		t.Run(s.String(), f)
	}
}

// random is a rows x cols view with some stride and offset; what lies between the rows is
// NaN.
func random(rng *rand.Rand, rows, cols, gap, offset int) *Matrix {
	m := &Matrix{Rows: rows, Cols: cols, Stride: cols + gap}
	data := make([]float64, offset+rows*m.Stride)
	for i := range data {
		data[i] = math.NaN()
	}
	m.Data = data[offset:]
	for i := range rows {
		for j := range m.Row(i) {
			m.Row(i)[j] = rng.NormFloat64()
		}
	}
	return m
}

// gaps fails unless what lies between the rows is still NaN.
func gaps(t fataler, m *Matrix) {
	t.Helper()
	for i := range m.Rows {
		for _, v := range m.Data[i*m.Stride+m.Cols : (i+1)*m.Stride] {
			if !math.IsNaN(v) {
				t.Fatalf("row %d: wrote beyond the row", i)
			}
		}
	}
}

func vector(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// op is op(A).
func op(a *Matrix, t bool) *Matrix {
	if t {
		return a.T()
	}
	return a.Clone()
}

// naive is alpha op(A) diag(w) op(B) + beta dst by three loops, and the same of the absolute
// values.
func naive(dst *Matrix, alpha float64, a *Matrix, ta bool, w []float64, b *Matrix, tb bool, beta float64) (want, size *Matrix) {
	a, b = op(a, ta), op(b, !tb)
	want, size = New(a.Rows, b.Rows), New(a.Rows, b.Rows)
	for i := range a.Rows {
		for j := range b.Rows {
			s, z := 0.0, 0.0
			bj := b.Row(j)
			for k, v := range a.Row(i) {
				v *= alpha * bj[k]
				if w != nil {
					v *= w[k]
				}
				s += v
				z += math.Abs(v)
			}
			if beta != 0 {
				s += beta * dst.At(i, j)
				z += math.Abs(beta * dst.At(i, j))
			}
			want.Set(i, j, s)
			size.Set(i, j, z)
		}
	}
	return want, size
}

// compare allows for the rounding of both sums: whatever their order, a sum of k products
// errs by at most (k + c) u times the sum of the absolute values, where c = 6 counts the
// factors of a term and the last additions (Higham, Accuracy and Stability, section 3.1).
func compare(t fataler, what string, got, want, size *Matrix, k int, lower bool) {
	t.Helper()
	for i := range want.Rows {
		for j := range want.Cols {
			if lower && j > i {
				break
			}
			tol := 2 * float64(k+6) * u * size.At(i, j)
			if e := math.Abs(got.At(i, j) - want.At(i, j)); !(e <= tol) {
				t.Fatalf("%s: entry %d, %d is %v, want %v: error %g, allowed %g", what, i, j, got.At(i, j), want.At(i, j), e, tol)
			}
		}
	}
}

func TestGemm(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			size := rapid.OneOf(rapid.IntRange(0, 30), rapid.IntRange(0, 70), rapid.SampledFrom([]int{96, 97, tileRows, tileRows + 1}))
			m, n := size.Draw(r, "m"), size.Draw(r, "n")
			k := rapid.OneOf(rapid.IntRange(0, 30), rapid.SampledFrom([]int{depth - 1, depth, depth + 1, 2*depth + 9})).Draw(r, "k")
			small := rapid.IntRange(0, 9)
			ta, tb := rapid.Bool().Draw(r, "ta"), rapid.Bool().Draw(r, "tb")
			coefficient := rapid.SampledFrom([]float64{0, 1, -1, 0.3})
			alpha, beta := coefficient.Draw(r, "alpha"), coefficient.Draw(r, "beta")
			rng := newRand(rapid.Uint64().Draw(r, "seed"))
			shape := func(t bool, rows, cols int) *Matrix {
				if t {
					rows, cols = cols, rows
				}
				return random(rng, rows, cols, small.Draw(r, "gap"), small.Draw(r, "offset"))
			}
			a, b, dst := shape(ta, m, k), shape(tb, k, n), shape(false, m, n)
			want, abs := naive(dst, alpha, a, ta, nil, b, tb, beta)
			Gemm(dst, alpha, a, ta, b, tb, beta)
			compare(r, "Gemm", dst, want, abs, k, false)
			gaps(r, dst)
			if !ta && !tb {
				both, alone := New(m, n), random(rng, m, n, 2, 1)
				Mul(both, a, b)
				MulAlone(alone, a, b)
				gaps(r, alone)
				for i := range m {
					if !slices.Equal(alone.Row(i), both.Row(i)) {
						r.Fatalf("MulAlone differs from Mul in row %d", i)
					}
				}
			}
		})
	})
}

// GramVec is Gemv, a product and GemvT to the last bit.
func TestGramVec(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rng := newRand(4)
		for _, shape := range [][2]int{{0, 3}, {5, 0}, {7, 3}, {300, 41}, {9001, 130}} {
			n, p := shape[0], shape[1]
			a, x, w := random(rng, n, p, 2, 1), vector(rng, p), vector(rng, n)
			ax, want, got := make([]float64, n), make([]float64, p), make([]float64, p)
			Gemv(ax, a, x)
			for i := range ax {
				ax[i] *= w[i]
			}
			GemvT(want, a, ax)
			GramVec(got, a, x, w)
			if !slices.Equal(got, want) {
				t.Errorf("%d x %d: %v, want %v", n, p, got, want)
			}
		}
	})
}

// GramBy is Gram to the last bit, for rows and weights that are made as it goes, on any number
// of processors; each part's blocks follow one another.
func TestGramBy(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rng := newRand(3)
		for _, shape := range [][2]int{{16384, 1}, {20001, 51}, {16500, 263}} {
			n, p := shape[0], shape[1]
			if p > 200 && testing.Short() {
				continue
			}
			x, w := random(rng, n, p, 0, 0), vector(rng, n)
			want := New(p, p)
			Gram(want, x, w)
			for _, procs := range []int{1, 2, 5} {
				old := runtime.GOMAXPROCS(procs)
				made, ends := make([]float64, n), make([]int, GramParts(n, p))
				got := New(p, p)
				GramBy(got, x, made, func(part, lo, hi int) {
					if ends[part] > 0 && ends[part] != lo {
						t.Errorf("part %d: rows from %d after those up to %d", part, lo, ends[part])
					}
					copy(made[lo:hi], w[lo:hi])
					ends[part] = hi
				})
				runtime.GOMAXPROCS(old)
				if !slices.Equal(got.Data, want.Data) || !slices.Equal(made, w) || slices.Max(ends) != n {
					t.Errorf("%d x %d on %d processors: not what Gram makes", n, p, procs)
				}
				rows := New(p, p)
				GramRows(rows, n, w, func(_, lo, hi int, buf []float64) Block {
					if lo/BlockRows%2 == 0 {
						return Block{X: x.Data[lo*x.Stride : (hi-1)*x.Stride+p], Stride: x.Stride}
					}
					for i := lo; i < hi; i++ {
						copy(buf[(i-lo)*p:], x.Row(i))
					}
					return Block{X: buf[:(hi-lo)*p], Stride: p, Next: buf[:1]}
				})
				if !slices.Equal(rows.Data, want.Data) {
					t.Errorf("%d x %d on %d processors: rows here and there give another matrix", n, p, procs)
				}
			}
		}
		if GramParts(1<<20, 0) != 0 || GramParts(16383-2048, 5) != 0 || GramParts(1<<20, tileRows+1) != 0 {
			t.Error("GramBy takes shapes that it should leave")
		}
	})
}

func TestGramSyrk(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			p := rapid.OneOf(rapid.IntRange(0, 50), rapid.SampledFrom([]int{100, 190})).Draw(r, "p")
			n := rapid.OneOf(rapid.IntRange(0, 50), rapid.SampledFrom([]int{depth, depth + 1, 300, 4500})).Draw(r, "n")
			if n > 500 { // cut in segments
				p %= 11
			}
			small := rapid.IntRange(0, 9)
			rng := newRand(rapid.Uint64().Draw(r, "seed"))
			x := random(rng, n, p, small.Draw(r, "gap"), small.Draw(r, "offset"))
			var w []float64
			if rapid.Bool().Draw(r, "weighted") {
				w = vector(rng, n)
				for i := range w {
					if i%3 == 0 {
						w[i] = 0
					}
				}
			}
			dst := random(rng, p, p, small.Draw(r, "dst gap"), small.Draw(r, "dst offset"))
			want, abs := naive(nil, 1, x, true, w, x, false, 0)
			Gram(dst, x, w)
			compare(r, "Gram", dst, want, abs, n, false)
			symmetric(r, dst)
			gaps(r, dst)

			xt := x.T()
			dst = random(rng, p, p, 3, 1)
			GramT(dst, xt, w)
			compare(r, "GramT", dst, want, abs, n, false)
			symmetric(r, dst)
			gaps(r, dst)
			alone := random(rng, p, p, 2, 1)
			GramTAlone(alone, xt, w)
			gaps(r, alone)
			for i := range p {
				if !slices.Equal(alone.Row(i)[:i+1], dst.Row(i)[:i+1]) {
					r.Fatalf("GramTAlone differs from GramT in row %d", i)
				}
			}

			dst = random(rng, p, n, 3, 1)
			Transpose(dst, x)
			gaps(r, dst)
			for i := range p {
				if !slices.Equal(dst.Row(i), xt.Row(i)) {
					r.Fatalf("Transpose differs from T in row %d", i)
				}
			}

			dst = random(rng, p, p, 3, 1)
			before := dst.Clone()
			want, abs = naive(dst, -0.5, xt, false, nil, xt, true, 2)
			Syrk(dst, -0.5, xt, 2)
			compare(r, "Syrk", dst, want, abs, n, true)
			gaps(r, dst)
			for i := range p {
				if !slices.Equal(dst.Row(i)[i+1:], before.Row(i)[i+1:]) {
					r.Fatalf("Syrk wrote above the diagonal in row %d", i)
				}
			}
		})
	})
}

func symmetric(t fataler, m *Matrix) {
	t.Helper()
	for i := range m.Rows {
		for j := range i {
			if m.At(i, j) != m.At(j, i) {
				t.Fatalf("entries %d, %d differ: %v, %v", i, j, m.At(i, j), m.At(j, i))
			}
		}
	}
}

// rowsOf checks AddRows and AddToRows against Axpy of each row, to the bit.
func rowsOf(t *testing.T, rng *rand.Rand, n int) {
	const rows, gap = 7, 3
	m := vector(rng, rows*(n+gap)-gap)
	for _, k := range [][]uint32{{}, {6}, {2, 0, 5}, {1, 6, 0, 3, 2, 5, 4}} {
		a, x := vector(rng, len(k)), append(vector(rng, n), 7)
		y, to, into, both := slices.Clone(x), slices.Clone(x), slices.Clone(m), slices.Clone(m)
		AddRows(y[:n], m, n+gap, k, a)
		AddToRows(into, n+gap, k, a, x[:n])
		for i, r := range k {
			row := int(r) * (n + gap)
			Axpy(a[i], m[row:row+n], to[:n])
			Axpy(a[i], x[:n], both[row:row+n])
		}
		if !slices.Equal(y, to) || !slices.Equal(into, both) {
			t.Errorf("%d rows of %d numbers: %v and %v, one by one %v and %v", len(k), n, y, into, to, both)
		}
	}
}

func TestVectors(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rng := newRand(1)
		for n := range 150 {
			x, y := vector(rng, n), vector(rng, n)
			want, size := 0.0, 0.0
			for i, v := range x {
				want += v * y[i]
				size += math.Abs(v * y[i])
			}
			if e := math.Abs(Dot(x, y) - want); e > 2*float64(n)*u*size {
				t.Errorf("Dot of %d numbers errs by %g", n, e)
			}
			z := append(slices.Clone(y), 7)
			Axpy(0.7, x, z[:n])
			for i, v := range x {
				if math.Abs(z[i]-(y[i]+0.7*v)) > 2*u*(math.Abs(y[i])+math.Abs(v)) {
					t.Errorf("Axpy of %d numbers, number %d: %v", n, i, z[i])
				}
			}
			if z[n] != 7 {
				t.Errorf("Axpy of %d numbers wrote one more", n)
			}
			v, w := append(slices.Clone(y), 7), append(slices.Clone(y), 7)
			Toward(0.3, x, v[:n])
			TowardSquares(0.3, x, w[:n])
			for i := range x {
				if v[i] != y[i]+float64(0.3*(x[i]-y[i])) || w[i] != y[i]+float64(0.3*(float64(x[i]*x[i])-y[i])) {
					t.Errorf("Toward of %d numbers, number %d: %v and, of squares, %v", n, i, v[i], w[i])
				}
			}
			if v[n] != 7 || w[n] != 7 {
				t.Errorf("Toward of %d numbers wrote one more", n)
			}
			by, to := vector(rng, n), append(slices.Clone(y), 7)
			InUnits(to[:n], x, y, by)
			for i := range x {
				if to[i] != float64(x[i]-y[i])*by[i] {
					t.Errorf("InUnits of %d numbers, number %d: %v", n, i, to[i])
				}
			}
			InUnits(x, x, y, by)
			if to[n] != 7 || !slices.Equal(x, to[:n]) {
				t.Errorf("InUnits of %d numbers wrote one more, or others in place", n)
			}
			if n < 40 {
				packed(t, rng, n)
				rowsOf(t, rng, n)
			}
		}
		for _, s := range [][2]int{{0, 3}, {3, 0}, {1, 1}, {7, 50}, {5000, 3}, {4500, 77}} {
			a := random(rng, s[0], s[1], 2, 1)
			for _, ta := range []bool{false, true} {
				m, k := s[0], s[1]
				if ta {
					m, k = k, m
				}
				x := vector(rng, k)
				y := &Matrix{Rows: m, Cols: 1, Stride: 1, Data: vector(rng, m)}
				want, size := naive(y, 1, a, ta, nil, &Matrix{Rows: k, Cols: 1, Stride: 1, Data: x}, false, 0)
				if ta {
					GemvT(y.Data, a, x)
				} else {
					Gemv(y.Data, a, x)
				}
				compare(t, fmt.Sprint("Gemv ", s, ta), y, want, size, k, false)
			}
		}
	})
}

// Not-a-numbers and infinities reach every result they belong to, and no other.
func TestNotFinite(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for _, n := range []int{3, 30, 300} {
			rng := newRand(2)
			x := random(rng, 50, n, 0, 0)
			bad := n / 2
			x.Set(20, bad, math.NaN())
			w := make([]float64, 50) // zero weights do not hide it
			dst := New(n, n)
			Gram(dst, x, w)
			for i := range n {
				for j := range n {
					if got, want := math.IsNaN(dst.At(i, j)), i == bad || j == bad; got != want {
						t.Fatalf("Gram n=%d: entry %d, %d is %v", n, i, j, dst.At(i, j))
					}
				}
			}
			x.Set(20, bad, 1)
			w[3] = math.Inf(1)
			Gram(dst, x, w)
			for i := range n {
				if v := dst.At(i, i); !math.IsInf(v, 1) && !math.IsNaN(v) {
					t.Fatalf("Gram n=%d: infinite weight gives %v", n, v)
				}
			}
			y := make([]float64, n)
			x.Set(20, bad, math.NaN())
			GemvT(y, x, make([]float64, 50))
			if !math.IsNaN(y[bad]) || y[0] != 0 {
				t.Errorf("GemvT: %v, %v", y[bad], y[0])
			}
		}
	})
}

// spd is a well conditioned positive definite matrix.
func spd(rng *rand.Rand, n int) *Matrix {
	a := New(n, n)
	GramT(a, random(rng, n, n+5, 0, 0), nil)
	for i := range n {
		a.Data[i*n+i] += float64(n)
	}
	return a
}

var orders = []int{0, 1, 2, 3, 7, 8, 9, 16, 24, 31, 32, 33, 64, 65, 130, 190}

// The residual of a Cholesky factor is at most (n+1) u |L||Lᵀ| entry by entry, to first
// order in u (Higham, theorem 10.3).
func TestCholesky(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for _, n := range orders {
			rng := newRand(uint64(n))
			a := spd(rng, n)
			l := random(rng, n, n, 3, 2)
			for i := range n {
				copy(l.Row(i)[:i+1], a.Row(i)) // above the diagonal is not read
				for j := i + 1; j < n; j++ {
					l.Set(i, j, math.NaN())
				}
			}
			if err := Cholesky(l); err != nil {
				t.Fatal(err)
			}
			gaps(t, l)
			logDet := 0.0
			for i := range n {
				for j := i + 1; j < n; j++ {
					if l.At(i, j) != 0 {
						t.Fatalf("n=%d: entry %d, %d is %v", n, i, j, l.At(i, j))
					}
				}
				logDet += 2 * math.Log(l.At(i, i))
			}
			ll, size := naive(nil, 1, l, false, nil, l, true, 0)
			compare(t, fmt.Sprintf("Cholesky n=%d", n), a, ll, size, 2*n, false)
			if e := math.Abs(LogDet(l) - logDet); e > 2*float64(n)*u*math.Abs(logDet) {
				t.Errorf("n=%d: LogDet %v, want %v", n, LogDet(l), logDet)
			}

			inv := random(rng, n, n, 1, 0)
			InverseFromCholesky(inv, l)
			symmetric(t, inv)
			gaps(t, inv)
			e, size := naive(nil, 1, a, false, nil, inv, false, 0)
			one := New(n, n)
			for i := range n {
				one.Set(i, i, 1)
			}
			// the inverse has a residual of order n u times the condition number, here < 10
			for i := range size.Data {
				size.Data[i] = 10 * float64(n)
			}
			compare(t, fmt.Sprintf("inverse n=%d", n), e, one, size, n, false)
		}
	})
}

// The computed solution solves a system whose L errs by at most n u |L| (Higham, theorem
// 8.5), with two roundings more for a product by the reciprocal of the diagonal.
func TestSolve(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for _, n := range orders {
			for _, k := range []int{0, 1, 8, 25, 110} {
				rng := newRand(uint64(n + 1000*k))
				l := spd(rng, n)
				if err := Cholesky(l); err != nil {
					t.Fatal(err)
				}
				l = op(l, false)
				lower := l.Clone()
				for i := range n {
					for j := i + 1; j < n; j++ {
						l.Set(i, j, math.NaN()) // not read
					}
				}
				b := random(rng, n, k, 5, 3)
				for _, tr := range []bool{false, true} {
					what := fmt.Sprintf("n=%d k=%d transposed=%v", n, k, tr)
					x := random(rng, n, k, 2, 1)
					for i := range n {
						copy(x.Row(i), b.Row(i))
					}
					if tr {
						SolveLowerT(l, x)
					} else {
						SolveLower(l, x)
					}
					gaps(t, x)
					lx, size := naive(nil, 1, lower, tr, nil, x, false, 0)
					compare(t, what, lx, b, size, n, false)
					if k == 0 {
						continue
					}
					v := &Matrix{Rows: n, Cols: 1, Stride: 1, Data: vector(rng, n)}
					rhs := v.Clone()
					if tr {
						SolveLowerTVec(l, v.Data)
					} else {
						SolveLowerVec(l, v.Data)
					}
					lx, size = naive(nil, 1, lower, tr, nil, v, false, 0)
					compare(t, what+" vector", lx, rhs, size, n, false)
				}
			}
		}
	})
}

// N = CᵀC, C lower triangular, and N is kept.
func TestLowerRoot(t *testing.T) {
	rng := newRand(11)
	for _, n := range []int{1, 2, 7, 65, 130} {
		a := spd(rng, n)
		was := a.Clone()
		c, err := LowerRoot(a)
		if err != nil {
			t.Fatal(err)
		}
		got := New(n, n)
		MulTA(got, c, c)
		for i := range n {
			for j := range n {
				if w := was.At(i, j); a.At(i, j) != w || math.Abs(got.At(i, j)-w) > 1e-12*math.Sqrt(was.At(i, i)*was.At(j, j)) || j > i && c.At(i, j) != 0 {
					t.Fatalf("n=%d: entry %d, %d is %v, want %v; C has %v", n, i, j, got.At(i, j), w, c.At(i, j))
				}
			}
		}
	}
	if _, err := LowerRoot(New(3, 3)); !errors.Is(err, ErrNotPD) {
		t.Errorf("of zeros: %v", err)
	}
}

func TestNotPD(t *testing.T) {
	for _, n := range []int{1, 5, 40, 100, 300} {
		for _, bad := range []float64{0, -3, math.NaN(), math.Inf(1)} {
			at := n * 2 / 3
			a := New(n, n)
			for i := range n {
				a.Set(i, i, 2)
			}
			a.Set(at, at, bad)
			err := Cholesky(a)
			want := fmt.Sprintf("dense: pivot %d is %g: matrix not positive definite", at, bad)
			if !errors.Is(err, ErrNotPD) || err.Error() != want {
				t.Errorf("n=%d: %v, want %s", n, err, want)
			}
		}
	}
}

// Results have the same bits for any number of processors, at any alignment, each time, and
// with either vector instruction set.
func TestDeterminism(t *testing.T) {
	type result map[string][]float64
	rng := newRand(5)
	n, p := 4500, 70
	data, w, v := vector(rng, n*p), vector(rng, n), vector(rng, p)
	square := vector(rng, 230*230)
	run := func(offset int) result {
		x := &Matrix{Rows: n, Cols: p, Stride: p, Data: append(make([]float64, offset), data...)[offset:]}
		sq := &Matrix{Rows: 230, Cols: 230, Stride: 230, Data: append(make([]float64, offset), square...)[offset:]}
		w := append(make([]float64, offset), w...)[offset:]
		r := result{}
		g := New(p, p)
		Gram(g, x, w)
		r["Gram"] = g.Data
		h := New(230, 230)
		GramT(h, sq, nil)
		r["GramT"] = h.Clone().Data
		for i := range 230 {
			h.Data[i*231] += 10
		}
		if err := Cholesky(h); err != nil {
			t.Fatal(err)
		}
		r["Cholesky"] = h.Data
		s := sq.Clone()
		SolveLower(h, s)
		r["SolveLower"] = s.Data
		s = sq.Clone()
		SolveLowerT(h, s)
		r["SolveLowerT"] = s.Data
		s = New(230, 230)
		InverseFromCholesky(s, h)
		r["Inverse"] = s.Data
		m := New(230, 230)
		Gemm(m, 0.5, sq, true, sq, true, 0)
		r["Gemm"] = m.Data
		m = New(p, p)
		MulTA(m, x, x)
		r["MulTA"] = m.Data
		y, z := make([]float64, n), make([]float64, p)
		Gemv(y, x, v)
		GemvT(z, x, w)
		r["Gemv"], r["GemvT"] = y, z
		r["Dot"] = []float64{Dot(x.Data[3:1000], w[3:1000])}
		return r
	}
	old := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(old)
	var vectors result
	eachISA(t, func(t *testing.T) {
		runtime.GOMAXPROCS(1)
		want := run(0)
		for _, procs := range []int{1, 2, 8} {
			runtime.GOMAXPROCS(procs)
			for offset := range 2 {
				for what, got := range run(offset) {
					if !slices.Equal(got, want[what]) {
						t.Errorf("%s differs at GOMAXPROCS %d and offset %d", what, procs, offset)
					}
				}
			}
		}
		if used == portable {
			return
		}
		for what, got := range vectors {
			if !slices.Equal(got, want[what]) {
				t.Errorf("%s differs between instruction sets", what)
			}
		}
		vectors = want
	})
}

func TestParallel(t *testing.T) {
	for _, n := range []int{0, 1, 2, 5, 100} {
		seen := make([]int, n)
		Parallel(n, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				seen[i]++
			}
		})
		for i, c := range seen {
			if c != 1 {
				t.Errorf("n=%d: index %d seen %d times", n, i, c)
			}
		}
	}
}

func TestPanicReachesCaller(t *testing.T) {
	boom := errors.New("boom")
	for _, procs := range []int{1, 2, 8} {
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			defer func() {
				if r := recover(); r != boom {
					t.Errorf("recovered %v", r)
				}
			}()
			Parallel(100, func(lo, hi int) {
				if hi == 100 {
					panic(boom)
				}
			})
		}()
	}
}

func TestShapesPanic(t *testing.T) {
	for what, f := range map[string]func(){
		"Mul":     func() { Mul(New(2, 2), New(2, 3), New(2, 2)) },
		"dst":     func() { Mul(New(3, 2), New(2, 3), New(3, 2)) },
		"data":    func() { Mul(New(2, 2), &Matrix{Rows: 2, Cols: 2, Stride: 2, Data: make([]float64, 3)}, New(2, 2)) },
		"stride":  func() { Gram(New(2, 2), &Matrix{Rows: 2, Cols: 2, Stride: 1, Data: make([]float64, 4)}, nil) },
		"weights": func() { Gram(New(2, 2), New(3, 2), make([]float64, 2)) },
		"Dot":     func() { Dot(make([]float64, 2), make([]float64, 3)) },
		"Slice":   func() { New(2, 2).Slice(0, 3, 0, 2) },
		"At":      func() { New(2, 2).At(0, 2) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			f()
		}()
	}
}

func TestSlice(t *testing.T) {
	m := random(newRand(1), 5, 6, 1, 0)
	v := m.Slice(1, 4, 2, 6)
	c := v.Clone()
	for i := range 3 {
		for j := range 4 {
			if v.At(i, j) != m.At(1+i, 2+j) || c.At(i, j) != v.At(i, j) || v.T().At(j, i) != v.At(i, j) {
				t.Fatalf("entry %d, %d", i, j)
			}
		}
	}
	v.Set(0, 0, 9)
	if m.At(1, 2) != 9 {
		t.Error("Slice does not share memory")
	}
	if e := m.Slice(5, 5, 0, 6); e.Rows != 0 {
		t.Error(e)
	}
}

// packed compares the operations on a packed triangle with those of its rows.
func packed(t *testing.T, rng *rand.Rand, d int) {
	t.Helper()
	m, l := lowerTriangle(rng, d)
	a, b, c, g := vector(rng, d), vector(rng, d), vector(rng, d), vector(rng, d)
	f, u := vector(rng, d), vector(rng, d)
	PackedTMul(f, l, g)
	PackedRotate(l, u, a, b, c)
	for i := range d {
		want := 0.0
		for j := range d {
			want += m.At(j, i) * g[j]
		}
		if math.Abs(f[i]-want) > 1e-13*float64(d) {
			t.Errorf("Lᵀg of %d, number %d: %v, want %v", d, i, f[i], want)
		}
		w := 0.0
		for j := i; j >= 0; j-- {
			v := m.At(i, j)
			want := a[j]*v - b[j]*w
			if w += c[j] * v; j == i {
				want = max(want, Least)
			}
			if got := l[PackedAt(d, i, j)]; math.Abs(got-want) > 1e-13*(1+math.Abs(want)) {
				t.Errorf("a packed triangle of %d turned, entry %d, %d: %v, want %v", d, i, j, got, want)
			}
		}
		if math.Abs(u[i]-w) > 1e-13*float64(d) {
			t.Errorf("what a packed triangle of %d leaves in row %d: %v, want %v", d, i, u[i], w)
		}
	}
}

// lowerTriangle is a lower triangle and its packed form.
func lowerTriangle(rng *rand.Rand, d int) (*Matrix, []float64) {
	m, l := New(d, d), make([]float64, PackedLen(d))
	for i := range d {
		for j := range i + 1 {
			m.Set(i, j, rng.NormFloat64()/math.Sqrt(float64(d)))
			l[PackedAt(d, i, j)] = m.At(i, j)
		}
	}
	return m, l
}

// Each entry of a packed triangle has a place of its own, and no place is beyond the end;
// there are few more places than entries.
func TestPackedAt(t *testing.T) {
	for d := range 100 {
		used := make([]bool, PackedLen(d))
		if n := len(used) - d*(d+1)/2; n < 0 || n > 4*d || d < 8 && n > 0 {
			t.Errorf("a triangle of %d has %d places", d, len(used))
		}
		for i := range d {
			for j := range i + 1 {
				at := PackedAt(d, i, j)
				if used[at] {
					t.Fatalf("entry %d, %d of %d has the place of another", i, j, d)
				}
				used[at] = true
			}
		}
	}
}

// The instruction sets with fused multiply-add give the same bits.
func TestColumnsAtOnce(t *testing.T) {
	var first [70][]float64
	eachISA(t, func(t *testing.T) {
		for d := 1; d < len(first); d++ {
			rng := newRand(uint64(d))
			_, l := lowerTriangle(rng, d)
			a, b, c, g, r := vector(rng, d), vector(rng, d), vector(rng, d), vector(rng, d), vector(rng, d+1)
			for j := range r {
				r[j] = r[j]*r[j] + 1e-300
			}
			f, u, y, z := make([]float64, d), make([]float64, d), make([]float64, d), make([]float64, d)
			PackedTMul(f, l, g)
			PackedRotate(l, u, a, b, c)
			Shrinks(y, z, g, r, -0.7)
			for i := range d {
				if y[i] != math.Sqrt(r[i+1]/r[i]) || z[i] != -0.7*g[i]/r[i+1]*y[i] {
					t.Errorf("shrinkage %d of %d: %v and %v", i, d, y[i], z[i])
				}
			}
			all := slices.Concat(f, u, l)
			switch {
			case used == portable:
			case first[d] == nil:
				first[d] = all
			case !slices.Equal(all, first[d]):
				t.Errorf("a packed triangle of %d depends on the instruction set", d)
			}
		}
	})
}

// Carlson's update by its parts: the root of P - βPg(Pg)ᵀ.
func TestShrinks(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rng := newRand(4)
		for d := 1; d < 40; d++ {
			root, l := lowerTriangle(rng, d)
			g := vector(rng, d)
			for j := range d {
				v := 1 + root.At(j, j)*root.At(j, j)
				root.Set(j, j, v)
				l[PackedAt(d, j, j)] = v
			}
			p := New(d, d)
			MulTB(p, root, root)
			f, pg := make([]float64, d), make([]float64, d)
			PackedTMul(f, l, g)
			v := Dot(f, f)
			beta := 0.9 / v
			r, a, b := make([]float64, d+1), make([]float64, d), make([]float64, d)
			r[d] = 1 - beta*v
			for j := d - 1; j >= 0; j-- {
				r[j] = r[j+1] + beta*f[j]*f[j]
			}
			Shrinks(a, b, f, r, beta)
			PackedRotate(l, pg, a, b, f)
			for i := range d {
				for j := range i + 1 {
					root.Set(i, j, l[PackedAt(d, i, j)])
				}
			}
			got := New(d, d)
			MulTB(got, root, root)
			for i := range d {
				if want := Dot(p.Row(i), g); math.Abs(pg[i]-want) > 1e-11*(1+math.Abs(want)) {
					t.Fatalf("d = %d: Pg[%d] = %v, want %v", d, i, pg[i], want)
				}
				for j := range d {
					want := p.At(i, j) - beta*Dot(p.Row(i), g)*Dot(p.Row(j), g)
					if size := math.Sqrt(p.At(i, i) * p.At(j, j)); math.Abs(got.At(i, j)-want) > 1e-11*size {
						t.Fatalf("d = %d: entry %d, %d is %v, want %v", d, i, j, got.At(i, j), want)
					}
				}
			}
		}
	})
}

// One number that is not finite is found wherever it stands.
func TestAllFinite(t *testing.T) {
	for _, n := range []int{0, 1, 15, 16, 17, 1023, 1024, 1025, 3000} {
		x := make([]float64, n)
		for i := range x {
			x[i] = math.MaxFloat64 * float64(1-2*(i&1))
		}
		if !AllFinite(x) {
			t.Fatalf("%d finite numbers: not finite", n)
		}
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			for i := range x {
				old := x[i]
				x[i] = bad
				if AllFinite(x) {
					t.Fatalf("%d numbers with %v at %d: finite", n, bad, i)
				}
				x[i] = old
			}
		}
	}
}

// e^x and e^-x against math.Exp, within its range, beyond it, in place and for all lengths; what
// a number gives does not depend on where it stands.
func TestExp(t *testing.T) {
	const tol = 5e-16
	eachISA(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 5))
		for n := range 70 {
			x, y, z := make([]float64, n), make([]float64, n+1), make([]float64, n+1)
			for i := range x {
				x[i] = 700 * (2*rng.Float64() - 1)
				if i%2 == 0 {
					x[i] = 3 * rng.NormFloat64()
				}
			}
			y[n], z[n] = -1, -2
			Exp(y[:n], z[:n], x)
			if y[n] != -1 || z[n] != -2 {
				t.Fatal("wrote beyond the end")
			}
			for i, v := range x {
				var one, other [1]float64
				Exp(one[:], other[:], x[i:i+1])
				if !(math.Abs(y[i]/math.Exp(v)-1) < tol) || one[0] != y[i] {
					t.Fatalf("e^%v = %v, alone %v, want %v", v, y[i], one[0], math.Exp(v))
				}
				if !(math.Abs(z[i]/math.Exp(-v)-1) < tol) || other[0] != z[i] {
					t.Fatalf("e^-%v = %v, alone %v, want %v", v, z[i], other[0], math.Exp(-v))
				}
			}
			w := slices.Clone(x)
			Exp(make([]float64, n), w, w)
			Exp(x, make([]float64, n), x)
			for i := range x {
				if x[i] != y[i] || w[i] != z[i] {
					t.Fatal("in place differs")
				}
			}
		}
		x := []float64{0, 710, -710, math.Inf(1), math.Inf(-1), 1e300, math.NaN(), 0.5, math.Copysign(0, -1)}
		want := []float64{1, math.Exp(700), math.Exp(-700), math.Exp(700), math.Exp(-700), math.Exp(700), math.NaN(), math.Sqrt(math.E), 1}
		y := make([]float64, len(x))
		Exp(x, y, x)
		for i, v := range want {
			if !(math.Abs(x[i]/v-1) < tol && math.Abs(y[i]*v-1) < tol) && !(math.IsNaN(v) && math.IsNaN(x[i]) && math.IsNaN(y[i])) {
				t.Errorf("number %d: %v and %v, want %v", i, x[i], y[i], v)
			}
		}
	})
}

func BenchmarkExp(b *testing.B) {
	x, y, z := make([]float64, 512), make([]float64, 512), make([]float64, 512)
	for i := range x {
		x[i] = float64(i-256) / 50
	}
	for b.Loop() {
		Exp(y, z, x)
	}
}

// Fetch changes nothing, whatever it is asked for.
func TestFetch(t *testing.T) {
	m := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	Fetch(m, []uint32{8, 0, 3, 3})
	Fetch(m, nil)
	Fetch([]float64(nil), []uint32{1})
	Fetch(make([][3]byte, 100), []uint32{99})
	for i, x := range m {
		if x != float64(i+1) {
			t.Errorf("number %d is %v", i, x)
		}
	}
}

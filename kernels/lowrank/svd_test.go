package lowrank

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
)

// spectrum is V diag(s) Uᵀ, n x d, with random orthonormal U and V.
func spectrum(rng *rand.Rand, n, d int, s []float64) *dense.Matrix {
	u, v := gaussian(rng, d, len(s)), gaussian(rng, n, len(s))
	dense.Orthonormal(u, 2)
	dense.Orthonormal(v, 2)
	for i := range n {
		for j := range s {
			v.Row(i)[j] *= s[j]
		}
	}
	x := dense.New(n, d)
	dense.MulTB(x, v, u)
	return x
}

func gaussian(rng *rand.Rand, n, d int) *dense.Matrix {
	a := dense.New(n, d)
	for i := range a.Data {
		a.Data[i] = rng.NormFloat64()
	}
	return a
}

// sparseOf keeps the entries of x that are not 0, behind skip columns of ones.
func sparseOf(x *dense.Matrix, skip int) *design.Columns {
	row, col, val := []int{0}, []uint32{}, []float64{}
	for i := range x.Rows {
		for c := range skip {
			col, val = append(col, uint32(c)), append(val, 1)
		}
		for j, v := range x.Row(i) {
			if v != 0 {
				col, val = append(col, uint32(skip+j)), append(val, v)
			}
		}
		row = append(row, len(col))
	}
	c := design.Columns{N: x.Rows, P: skip + x.Cols, Row: row, Col: col, Val: val}
	return c.Tail(skip)
}

// difference is the spectral norm of a - b.
func difference(a, b *dense.Matrix) float64 {
	var d mat.Dense
	d.Sub(mat.NewDense(a.Rows, a.Cols, a.Clone().Data), mat.NewDense(b.Rows, b.Cols, b.Clone().Data))
	var svd mat.SVD
	svd.Factorize(&d, mat.SVDNone)
	return svd.Values(nil)[0]
}

func unitary(t *testing.T, u *dense.Matrix) {
	t.Helper()
	g := dense.New(u.Cols, u.Cols)
	dense.Gram(g, u, nil)
	for i := range g.Rows {
		for j, v := range g.Row(i) {
			if i == j {
				v--
			}
			if math.Abs(v) > 1e-13 { // sums of products of unit vectors: roundings of 1
				t.Fatalf("UᵀU differs from I by %g at (%d, %d)", v, i, j)
			}
		}
	}
}

func decay(n int, f func(i float64) float64) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = f(float64(i))
	}
	return s
}

// Singular values and spaces against spectra that are known, and against gonum's
// exact decomposition.
func TestSVD(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name string
		n, d int
		s    []float64
		rank int
		// tol is relative to λ(M+1): power iterations leave (λ(l+1)/λ(M+1))^(2q+1) and
		// more of the gap, see Halko et al., theorem 10.6.
		tol float64
	}{
		{"exact, tall", 40, 12, decay(12, func(i float64) float64 { return math.Exp(-i / 2) }), 5, 1e-12},
		{"exact, wide", 12, 40, decay(12, func(i float64) float64 { return math.Exp(-i / 2) }), 12, 1e-12},
		{"fast decay", 200, 150, decay(120, func(i float64) float64 { return math.Pow(0.5, i) }), 10, 1e-12},
		{"sixteen decades", 120, 100, decay(80, func(i float64) float64 { return math.Pow(10, -i/5) }), 20, 1e-6},
		{"slow decay", 300, 200, decay(200, func(i float64) float64 { return 1 / (1 + i) }), 20, 0.05},
		{"flat", 300, 200, decay(200, func(i float64) float64 { return 1 }), 20, 1e-12},
		{"low rank", 100, 80, []float64{5, 4, 3, 1e-3}, 4, 0},
		{"rank above the matrix's", 100, 80, []float64{5, 4, 3}, 9, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := spectrum(rng, c.n, c.d, c.s)
			f, err := SVD(design.Dense(x), Options{Rank: c.rank, Seed: 3})
			if err != nil {
				t.Fatal(err)
			}
			unitary(t, f.U)
			m := min(c.rank, len(c.s))
			if len(f.S) != m {
				t.Fatalf("%d singular values, want %d", len(f.S), m)
			}
			next := 0.0
			if m < len(c.s) {
				next = c.s[m]
			}
			// Roundings of the largest singular value reach all of them.
			round := 1e-13 * c.s[0]
			for j, s := range f.S {
				if math.Abs(s-c.s[j]) > c.tol*c.s[j]+round {
					t.Errorf("S[%d] = %.15g, want %.15g", j, s, c.s[j])
				}
			}
			if math.Abs(f.Next-next) > c.tol*next+round || f.Next > next+round {
				t.Errorf("Next = %.15g, want %.15g", f.Next, next)
			}
			// X - X U Uᵀ has norm λ(M+1), and XU is X U.
			xu, low := dense.New(c.n, m), dense.New(c.n, c.d)
			dense.Mul(xu, x, f.U)
			dense.MulTB(low, xu, f.U)
			if got := difference(x, low); got > next*(1+c.tol)+round {
				t.Errorf("|X - XUUᵀ| = %.15g, λ(M+1) = %.15g", got, next)
			}
			if e := difference(xu, f.XU); e > round {
				t.Errorf("XU is off by %g", e)
			}
			var exact mat.SVD
			exact.Factorize(mat.NewDense(c.n, c.d, x.Data), mat.SVDThin)
			for j, s := range f.S {
				if want := exact.Values(nil)[j]; math.Abs(s-want) > c.tol*want+round {
					t.Errorf("S[%d] = %.15g, gonum's %.15g", j, s, want)
				}
			}
			if c.tol > 1e-12 || c.name == "flat" {
				return
			}
			var v mat.Dense
			exact.VTo(&v)
			for j := range m {
				dot := 0.0
				for i := range c.d {
					dot += f.U.At(i, j) * v.At(i, j)
				}
				// An angle of 1e-6, a thousand times what the smallest gap relative to
				// roundings of the largest value asks for.
				if math.Abs(math.Abs(dot)-1) > 1e-12 {
					t.Errorf("vector %d: cosine %v with gonum's", j, dot)
				}
			}
		})
	}
}

// A sparse design, a dense one, and one with columns left out agree to rounding.
func TestSparseIsDense(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	x := dense.New(150, 60)
	for i := range x.Data {
		if rng.Float64() < 0.15 {
			x.Data[i] = rng.NormFloat64()
		}
	}
	clear(x.Row(7))
	o := Options{Rank: 8, Seed: 1}
	a, err := SVD(design.Dense(x), o)
	if err != nil {
		t.Fatal(err)
	}
	for skip := range 3 {
		b, err := SVD(sparseOf(x, skip), o)
		if err != nil {
			t.Fatal(err)
		}
		// Two orders of summation, each a rounding; power iterations do not enlarge it.
		if e := difference(a.U, b.U); e > 1e-11 {
			t.Errorf("skip %d: U differs by %g", skip, e)
		}
		if e := difference(a.XU, b.XU); e > 1e-10 {
			t.Errorf("skip %d: XU differs by %g", skip, e)
		}
	}
}

func TestSVDIsAFunction(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	x := gaussian(rng, 700, 300)
	run := func(procs int, d *design.Columns, seed uint64) *Factors {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		f, err := SVD(d, Options{Rank: 12, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, d := range []*design.Columns{design.Dense(x), sparseOf(x, 1)} {
		a, b, c := run(1, d, 1), run(3, d, 1), run(2, d, 2)
		same := true
		for i := range a.U.Data {
			if a.U.Data[i] != b.U.Data[i] {
				t.Fatal("U depends on GOMAXPROCS")
			}
			same = same && a.U.Data[i] == c.U.Data[i]
		}
		for i := range a.XU.Data {
			if a.XU.Data[i] != b.XU.Data[i] {
				t.Fatal("XU depends on GOMAXPROCS")
			}
		}
		if same {
			t.Error("the seed does nothing")
		}
		for j := range a.U.Cols {
			top := 0.0
			for i := range a.U.Rows {
				if v := a.U.At(i, j); math.Abs(v) > math.Abs(top) {
					top = v
				}
			}
			if top < 0 {
				t.Errorf("column %d: largest entry %v", j, top)
			}
		}
	}
}

func TestSVDEdges(t *testing.T) {
	zero := dense.New(5, 4)
	f, err := SVD(design.Dense(zero), Options{Rank: 2})
	if err != nil || len(f.S) != 0 || f.Next != 0 || !f.Exact {
		t.Errorf("zero matrix: %+v %v", f, err)
	}
	for _, dims := range [][2]int{{0, 3}, {3, 0}, {0, 0}} {
		f, err := SVD(design.Dense(dense.New(dims[0], dims[1])), Options{})
		if err != nil || f.U.Rows != dims[1] || f.XU.Rows != dims[0] || len(f.S) != 0 {
			t.Errorf("%v: %+v %v", dims, f, err)
		}
	}
	one := dense.New(1, 1)
	one.Data[0] = -3
	f, err = SVD(design.Dense(one), Options{})
	if err != nil || len(f.S) != 1 || math.Abs(f.S[0]-3) > 1e-15 || f.U.Data[0] != 1 {
		t.Errorf("1 x 1: %+v %v", f, err)
	}
	x := gaussian(rand.New(rand.NewPCG(4, 1)), 20, 10)
	if f, err = SVD(design.Dense(x), Options{Rank: 3, Oversample: kernels.Given(0), PowerIterations: kernels.Given(0)}); err != nil || len(f.S) != 3 || !math.IsNaN(f.Next) {
		t.Errorf("no oversampling: %+v %v", f, err)
	}
	for _, huge := range []float64{1e-320, 1e-200, 1e200, 1e306} {
		y := x.Clone()
		for i := range y.Data {
			y.Data[i] *= huge
		}
		f, err := SVD(design.Dense(y), Options{Rank: 3})
		if err != nil || math.Abs(f.S[0]/huge/6.4-1) > 0.5 {
			t.Errorf("scale %g: %v %v", huge, f, err)
		}
		if err == nil && huge > 1e-300 {
			unitary(t, f.U)
		}
	}
	x.Data[3] = math.NaN()
	if _, err := SVD(design.Dense(x), Options{Rank: 3}); err == nil {
		t.Error("NaN gives no error")
	}
}

package design_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// cut is rows of p numbers in pieces of 1 to most rows, and some of none.
func cut(rng *rand.Rand, x []float64, p, most int) (values [][]float64) {
	for len(x) > 0 {
		if rng.IntN(9) == 0 {
			values = append(values, nil)
		}
		n := min(len(x), p*(1+rng.IntN(most)))
		values, x = append(values, x[:n:n]), x[n:]
	}
	return values
}

// Products, entries and moments of rows that are read where they lie, in their own units or in
// others, are those of the same rows in one place.
func TestPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	const n, d = 16_600, 6
	x := normals(rng, n, d)
	for i := range n {
		row := x.Row(i)
		row[0] = 1
		row[1] = 1.7e9 + 1e5*row[1]
		row[2] *= 1e-9
		row[4] = 3.7
	}
	weight := make([]float64, n)
	for i := range weight {
		weight[i] = float64(i % 3)
	}
	number := func(j int) bool { return j > 0 }
	for k, most := range []int{n, 3000, 40} {
		entry, other := []int{0, 1, 2, 3, 4, 5}, x.Clone()
		if k == 1 {
			entry = []int{3, 5, 0, 1, 4, 2}
			for i := range n {
				for j, e := range entry {
					other.Row(i)[e] = x.Row(i)[j]
				}
			}
		}
		raw, ok := design.Pieces(d, cut(rng, other.Data, d, most), entry, nil)
		if !ok || !raw.InPieces() || raw.Values() != n*d || raw.Val != nil {
			t.Fatal("the rows are not left where they are")
		}
		scaled, s := raw.Standardize(weight, number, true, 0)
		copied := design.Whole(x)
		copied.Index() // entry by entry
		want, of := copied.Standardize(weight, number, true, 0)
		for j := range d {
			if math.Abs(s.Scale[j]/of.Scale[j]-1) > 1e-11 || math.Abs(s.Shift[j]-of.Shift[j]) > 1e-11*of.Scale[j] {
				t.Errorf("column %d: (x - %v)/%v, want (x - %v)/%v", j, s.Shift[j], s.Scale[j], of.Shift[j], of.Scale[j])
			}
		}
		together := design.Whole(x) // by vectors, and copied
		vectors, v := together.Standardize(weight, number, true, 0)
		if vectors.InPieces() {
			t.Error("rows that lie together are in pieces")
		}
		for j := range d {
			if math.Abs(v.Scale[j]/of.Scale[j]-1) > 1e-11 || math.Abs(v.Shift[j]-of.Shift[j]) > 1e-11*of.Scale[j] {
				t.Errorf("column %d: (x - %v)/%v, want (x - %v)/%v", j, v.Shift[j], v.Scale[j], of.Shift[j], of.Scale[j])
			}
		}
		vectors.Fill()
		productsLike(t, "vectors", &vectors, &want)
		if !scaled.InPieces() {
			t.Error("standardised rows were copied")
		}
		again, _ := scaled.Standardize(nil, number, true, 0)
		for _, c := range []struct {
			name      string
			got, want design.Columns
		}{{"raw", raw, design.Whole(x)}, {"scaled", scaled, want}, {"twice", again, func() design.Columns {
			q, _ := want.Standardize(nil, number, true, 0)
			return q
		}()}} {
			if c.name == "raw" { // 1.7e9 leaves the sums no digits to be compared by
				c.got, _ = c.got.Standardize(nil, func(j int) bool { return j == 1 }, true, 0)
				c.want, _ = c.want.Standardize(nil, func(j int) bool { return j == 1 }, true, 0)
			}
			productsLike(t, c.name, &c.got, &c.want)
			g := c.got.Gathered()
			if g.InPieces() {
				t.Error("gathered rows are in pieces")
			}
			for i := 0; i < n; i += 97 {
				_, a := c.got.Entries(i)
				_, b := g.Entries(i)
				_, o := c.want.Entries(i)
				for j := range d {
					if a[j] != b[j] || math.Abs(a[j]-o[j]) > 1e-11*(1+math.Abs(o[j])) {
						t.Fatalf("%s: entry (%d, %d) is %v, gathered %v, want %v", c.name, i, j, a[j], b[j], o[j])
					}
				}
			}
		}
	}
	if _, ok := design.Pieces(3, [][]float64{make([]float64, 30)}, nil, nil); ok {
		t.Error("ten rows are read in pieces")
	}
}

// productsLike compares what is made of two X.
func productsLike(t *testing.T, name string, e, of *design.Columns) {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 2))
	n, d := e.N, e.P
	x := of.Dense()
	w, v, r := normals(rng, 1, n).Data, normals(rng, 1, d).Data, normals(rng, d, 9)
	loose := kerneltest.Tol{Rel: 1e-9, Abs: 1e-9}
	like := func(what string, a, b *dense.Matrix) {
		t.Helper()
		for i := range b.Rows {
			for j, v := range b.Row(i) {
				if !kerneltest.Close(t, name+" "+what, a.At(i, j), v, loose) {
					return
				}
			}
		}
	}
	got, want := dense.New(1, n), dense.New(1, n)
	e.Affine(got.Data, v, w)
	of.Affine(want.Data, v, w)
	like("Affine", got, want)
	got, want = dense.New(1, d), dense.New(1, d)
	e.MulT(got.Data, w)
	dense.GemvT(want.Data, x, w)
	like("MulT", got, want)
	e.Squares(got.Data, w)
	of.Squares(want.Data, w)
	like("Squares", got, want)
	e.GramVec(got.Data, v, w, make([]float64, n))
	dense.GramVec(want.Data, x, v, w)
	like("GramVec", got, want)
	got, want = dense.New(n, 9), dense.New(n, 9)
	e.MulMat(got, r)
	dense.Mul(want, x, r)
	like("MulMat", got, want)
	back, wantBack := dense.New(d, 9), dense.New(d, 9)
	e.MulTMat(back, want)
	dense.MulTA(wantBack, x, want)
	like("MulTMat", back, wantBack)
	e.GramMat(back, r, w)
	of.GramMat(wantBack, r, w)
	like("GramMat", back, wantBack)
	got, want = dense.New(d, d), dense.New(d, d)
	dense.Gram(want, x, w)
	e.Gram(got, w)
	like("Gram", got, want)
	seen, made := make([]float64, n), make([]float64, n)
	e.GramBy(got, made, func(x *dense.Matrix, part, lo, hi int) {
		for i := lo; i < hi; i++ {
			seen[i], made[i] = dense.Dot(x.Row(i-lo), v), w[i]
		}
	})
	like("GramBy", got, want)
	eta := make([]float64, n)
	e.Mul(eta, v)
	like("rows of GramBy", &dense.Matrix{Rows: 1, Cols: n, Stride: n, Data: seen}, &dense.Matrix{Rows: 1, Cols: n, Stride: n, Data: eta})
	l := normals(rng, d, d)
	for i := range d {
		clear(l.Row(i)[i+1:])
		l.Row(i)[i] = 1
	}
	got, want = dense.New(1, n), dense.New(1, n)
	e.Spread(got.Data, gauss.NewFull(v, l))
	of.Spread(want.Data, gauss.NewFull(v, l))
	like("Spread", got, want)
	e.Spread(got.Data, gauss.NewDiagonal(v, []float64{1, 2, 3, 4, 5, 6}))
	of.Spread(want.Data, gauss.NewDiagonal(v, []float64{1, 2, 3, 4, 5, 6}))
	like("Spread of a diagonal", got, want)
	like("Tail", e.Tail(2).Dense(), of.Tail(2).Dense())
	one, whole := *e, *of
	one.Index()
	whole.Index()
	if len(one.Col) != len(whole.Col) || one.InPieces() {
		t.Errorf("%s: Index leaves %d columns in rows of their own, want %d", name, len(one.Col), len(whole.Col))
	}
}

// Moments of columns that are equal, tiny, of weight 0 or have an outlier.
func TestPiecesMoments(t *testing.T) {
	const n, d = 20_000, 5
	rng := rand.New(rand.NewPCG(5, 3))
	x := normals(rng, n, d)
	for i := range n {
		row := x.Row(i)
		row[0] = 0.1
		row[1] *= 1e-170
		row[2] = 0
		row[3] += 1e6
	}
	x.Row(12_345)[4] = 1e12
	weight := make([]float64, n)
	for i := range weight {
		weight[i] = rng.Float64()
	}
	weight[0], weight[77] = 0, 0
	for _, w := range [][]float64{nil, weight, make([]float64, n)} {
		c, _ := design.Pieces(d, cut(rng, x.Data, d, 900), nil, nil)
		_, got := c.Standardize(w, func(int) bool { return true }, true, 0)
		whole := design.Whole(x)
		whole.Index() // entry by entry
		_, want := whole.Standardize(w, func(int) bool { return true }, true, 0)
		if got.Beyond != want.Beyond {
			t.Errorf("column %d is beyond squares, want %d", got.Beyond, want.Beyond)
		}
		for j := range d {
			if math.Abs(got.Scale[j]/want.Scale[j]-1) > 1e-9 || math.Abs(got.Shift[j]-want.Shift[j]) > 1e-9*want.Scale[j] {
				t.Errorf("column %d: (x - %v)/%v, want (x - %v)/%v", j, got.Shift[j], got.Scale[j], want.Shift[j], want.Scale[j])
			}
		}
	}
}

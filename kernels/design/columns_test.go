package design_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
)

var tight = kerneltest.Tol{Rel: 1e-11, Abs: 1e-11}

// random is sparse columns with a third of the entries.
func random(rng *rand.Rand, n, p int) design.Columns {
	c := design.Columns{N: n, P: p, Row: []int{0}}
	for range n {
		for j := range p {
			if rng.IntN(3) == 0 {
				c.Col, c.Val = append(c.Col, uint32(j)), append(c.Val, rng.NormFloat64())
			}
		}
		c.Row = append(c.Row, len(c.Col))
	}
	return c
}

func normals(rng *rand.Rand, n, p int) *dense.Matrix {
	m := dense.New(n, p)
	for i := range m.Data {
		m.Data[i] = rng.NormFloat64()
	}
	return m
}

func same(t *testing.T, what string, a, b *dense.Matrix) {
	t.Helper()
	for i := range b.Rows {
		for j, v := range b.Row(i) {
			if !kerneltest.Close(t, fmt.Sprintf("%s (%d, %d)", what, i, j), a.At(i, j), v, tight) {
				return
			}
		}
	}
}

// Every product, sparse and dense, small and in parallel, is that of the definition.
func TestProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, shape := range [][2]int{{7, 5}, {200, 90}, {90, 200}} {
		n, d := shape[0], shape[1]
		sparse := random(rng, n, d)
		filled := sparse
		x := filled.Dense()
		whole := design.Whole(x.Clone())
		w, v, r := normals(rng, 1, n).Data, normals(rng, 1, d).Data, normals(rng, d, 9)
		for _, e := range []*design.Columns{&sparse, &filled, &whole} {
			got, want := dense.New(1, n), dense.New(1, n)
			e.Mul(got.Data, v)
			dense.Gemv(want.Data, x, v)
			same(t, "Mul", got, want)
			got, want = dense.New(1, d), dense.New(1, d)
			e.MulT(got.Data, w)
			dense.GemvT(want.Data, x, w)
			same(t, "MulT", got, want)
			for i := range n {
				for j, a := range x.Row(i) {
					if i == 0 {
						want.Data[j] = 0
					}
					want.Data[j] += w[i] * a * a
				}
			}
			e.Squares(got.Data, w)
			same(t, "Squares", got, want)
			scratch := make([]float64, n)
			e.GramVec(got.Data, v, w, scratch)
			e.Mul(scratch, v)
			for i := range scratch {
				scratch[i] *= w[i]
			}
			e.MulT(want.Data, scratch)
			same(t, "GramVec", got, want)
			got, want = dense.New(n, 9), dense.New(n, 9)
			e.MulMat(got, r)
			dense.Mul(want, x, r)
			same(t, "MulMat", got, want)
			back, wantBack := dense.New(d, 9), dense.New(d, 9)
			e.MulTMat(back, want)
			dense.MulTA(wantBack, x, want)
			same(t, "MulTMat", back, wantBack)
			e.GramMat(back, r, w)
			dense.Mul(got, x, r)
			dense.ScaleRows(got, w)
			dense.MulTA(wantBack, x, got)
			same(t, "GramMat", back, wantBack)
			got, want = dense.New(d, d), dense.New(d, d)
			e.Gram(got, w)
			wx := x.Clone()
			dense.ScaleRows(wx, w)
			dense.MulTA(want, x, wx)
			same(t, "Gram", got, want)
			place := make([]int, d)
			for j := range place {
				place[j] = -1
			}
			place[1], place[d-1] = 0, 1
			block := dense.New(2, 2)
			e.BlockGram(block, place, w)
			same(t, "BlockGram", block, &dense.Matrix{Rows: 2, Cols: 2, Stride: 2, Data: []float64{want.At(1, 1), want.At(1, d-1), want.At(d-1, 1), want.At(d-1, d-1)}})
			got, want = dense.New(n, n), dense.New(n, n)
			e.Kernel(got, v)
			xt := x.T()
			xs := xt.Clone()
			dense.ScaleRows(xs, v)
			dense.MulTA(want, xt, xs)
			same(t, "Kernel", got, want)
			l := normals(rng, d, d)
			for i := range d {
				clear(l.Row(i)[i+1:])
				l.Row(i)[i] = 1
			}
			cov, xc := dense.New(d, d), dense.New(n, d)
			dense.MulTB(cov, l, l)
			dense.Mul(xc, x, cov)
			spread := dense.New(1, n)
			e.Spread(spread.Data, gauss.NewFull(v, l))
			wantSpread := dense.New(1, n)
			for i := range n {
				wantSpread.Data[i] = dense.Dot(xc.Row(i), x.Row(i))
			}
			same(t, "Spread", spread, wantSpread)
		}
	}
}

// Tail leaves the first columns out, and whole rows need no list of columns.
func TestTail(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	c := random(rng, 30, 9)
	filled := c
	want := filled.Dense().Slice(0, 30, 2, 9)
	same(t, "sparse tail", c.Tail(2).Dense(), want)
	same(t, "dense tail", filled.Tail(2).Dense(), want)
	whole := design.Whole(want.Clone())
	if whole.Need() != 0 {
		t.Errorf("whole rows need %v more numbers", whole.Need())
	}
	for i := range whole.N {
		col, val := whole.Entries(i)
		for k, j := range col {
			if val[k] != want.At(i, int(j)) {
				t.Fatalf("entry (%d, %d) is %v, want %v", i, j, val[k], want.At(i, int(j)))
			}
		}
	}
}

// Variances of many rows of few entries have the digits of |Lᵀx|² in exact arithmetic, by
// covariances of weights as by their root: also where those cancel, for a number far from 0
// beside the intercept.
func TestSpreadOfManyRows(t *testing.T) {
	for _, columns := range []int{1, 12} { // of few entries a row is one by one, of more many rows are at once
		rng := rand.New(rand.NewPCG(3, 4))
		const n, levels = 4000, 30
		p := columns*levels + 2
		c := design.Columns{N: n, P: p, Row: []int{0}}
		for i := range n {
			c.Col, c.Val = append(c.Col, 0), append(c.Val, 1)
			for k := range columns {
				if i == 3500 && k == 0 { // a row with fewer entries
					continue
				}
				c.Col, c.Val = append(c.Col, uint32(1+k*levels+rng.IntN(levels))), append(c.Val, 1)
			}
			c.Col, c.Val = append(c.Col, uint32(p-1)), append(c.Val, 1e5+rng.NormFloat64())
			c.Row = append(c.Row, len(c.Col))
		}
		prec := dense.New(p, p)
		c.Gram(prec, slices.Repeat([]float64{1}, n))
		for j := range p {
			prec.Row(j)[j] += 1e-6
		}
		inv, err := dense.LowerRoot(prec)
		if err != nil {
			t.Fatal(err)
		}
		root := dense.New(p, p)
		for j := range p {
			root.Row(j)[j] = 1
		}
		dense.SolveLower(inv, root)
		got := make([]float64, n)
		c.Spread(got, gauss.NewFull(make([]float64, p), root))
		for i := 0; i < n; i += columns {
			want, u := new(big.Float), make([]big.Float, p)
			col, x := c.Entries(i)
			for k, j := range col {
				for m := range int(j) + 1 {
					var v big.Float
					v.SetPrec(200).Mul(big.NewFloat(x[k]), big.NewFloat(root.At(int(j), m)))
					u[m].SetPrec(200).Add(&u[m], &v)
				}
			}
			for m := range u {
				want.SetPrec(200).Add(want, u[m].Mul(&u[m], &u[m]))
			}
			if v, _ := want.Float64(); !kerneltest.Close(t, fmt.Sprintf("row %d", i), got[i], v, kerneltest.Tol{Rel: 1e-9}) {
				return
			}
		}
	}
}

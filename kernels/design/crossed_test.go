package design

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
)

// crossedColumns are an intercept, a number u, levels a and b, u by levels, a number v and uv;
// column order is such that bases lie on both sides of what is crossed. sparse leaves out zeros.
func crossedColumns(rng *rand.Rand, n int, sparse bool) (*Columns, []Crossed) {
	const intercept, ua, a, u, v, ub, uv, b = 0, 1, 2, 3, 4, 5, 6, 7
	c := Every(n, 8, nil)
	for i := range n {
		x, y := 50+rng.NormFloat64(), -3+rng.NormFloat64()
		row := c.Val[i*8 : (i+1)*8]
		row[intercept], row[u], row[v], row[uv] = 1, x, y, x*y
		if i%3 == 0 {
			row[a], row[ua] = 1, x
		} else {
			row[b], row[ub] = 1, x
		}
		if i == 4 {
			row[uv] = 0 // absent where its bases are not
		}
	}
	if sparse {
		c.Index()
		q := Columns{N: n, P: 8, Row: []int{0}}
		for i := range n {
			col, val := c.Entries(i)
			for k, x := range val {
				if x != 0 {
					q.Col, q.Val = append(q.Col, col[k]), append(q.Val, x)
				}
			}
			q.Row = append(q.Row, len(q.Col))
		}
		c = q
	}
	return &c, []Crossed{
		{Column: ua, By: 2, Base: []int{a}, C: []float64{50}},
		{Column: ub, By: 2, Base: []int{b}, C: []float64{50}},
		{Column: uv, By: 1, Base: []int{u, v, intercept}, C: []float64{-3, 50, 150}},
	}
}

// Crossed columns are x - Σ c base by hand, predictors those of the weights moved there and back,
// and covariances those of the map as a matrix.
func TestCross(t *testing.T) {
	for _, sparse := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(7, 1))
		c, crossed := crossedColumns(rng, 30, sparse)
		q := c.Cross(crossed)
		want, got := dense.New(c.N, c.P), dense.New(c.N, c.P)
		fill := func(m *dense.Matrix, c *Columns) {
			for i := range c.N {
				col, val := c.Entries(i)
				for k, j := range col {
					if k > 0 && j <= col[k-1] {
						t.Fatalf("columns of row %d: %v", i, col)
					}
					m.Set(i, int(j), val[k])
				}
			}
		}
		fill(want, c)
		fill(got, &q)
		raw := want.Clone()
		for _, x := range crossed {
			for i := range c.N {
				v := raw.At(i, x.Column)
				for k, b := range x.Base {
					v -= x.C[k] * raw.At(i, b)
				}
				want.Set(i, x.Column, v/x.By)
			}
		}
		for k, v := range want.Data {
			if math.Abs(v-got.Data[k]) > 1e-12 {
				t.Fatalf("sparse %v: entry %d is %v, want %v", sparse, k, got.Data[k], v)
			}
		}
		z, s := q.Standardize(nil, func(j int) bool { return j == 3 || j == 4 || j == 6 }, true, 0)
		s.Crossed = crossed
		testMap(t, rng, c, &z, s)
	}
}

// testMap compares s with the matrix that it stands for.
func testMap(t *testing.T, rng *rand.Rand, c, z *Columns, s *Scaling) {
	t.Helper()
	p := c.P
	w, to, back := make([]float64, p), make([]float64, p), make([]float64, p)
	for j := range w {
		w[j] = rng.NormFloat64()
	}
	s.To(to, w)
	s.From(back, to)
	a, b := make([]float64, c.N), make([]float64, c.N)
	c.Affine(a, w, nil)
	z.Affine(b, to, nil)
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-10 {
			t.Errorf("predictor %v of the weights there, want %v", b[i], a[i])
		}
	}
	for j := range w {
		if math.Abs(w[j]-back[j]) > 1e-10 {
			t.Errorf("weight %v came back as %v", w[j], back[j])
		}
	}
	m, l := dense.New(p, p), dense.New(p, p)
	e, col := make([]float64, p), make([]float64, p)
	for j := range p {
		clear(e)
		e[j] = 1
		s.From(col, e)
		for i := range p {
			m.Set(i, j, col[i])
		}
		for i := range j {
			l.Set(j, i, rng.NormFloat64())
		}
		l.Set(j, j, 1+rng.Float64())
	}
	for _, g := range []*gauss.Normal{gauss.NewFull(w, l), gauss.NewDiagonal(w, []float64{1, 2, 3, 1, 2, 3, 1, 2})} {
		got, err := s.Restore(g)
		if err != nil {
			t.Fatal(err)
		}
		cov, tmp, want, have := dense.New(p, p), dense.New(p, p), dense.New(p, p), dense.New(p, p)
		g.Cov(cov)
		dense.Mul(tmp, m, cov)
		dense.MulTB(want, tmp, m)
		got.Cov(have)
		for i := range p {
			for j := range p {
				if d := math.Abs(have.At(i, j) - want.At(i, j)); d > 1e-12*math.Sqrt(want.At(i, i)*want.At(j, j)) {
					t.Errorf("%v: covariance (%d, %d) is off by %v", g.Form, i, j, d)
				}
				if j > i && got.L.At(i, j) != 0 || i == j && !(got.L.At(i, i) > 0) {
					t.Errorf("%v: no lower factor at (%d, %d): %v", g.Form, i, j, got.L.At(i, j))
				}
			}
		}
	}
}

package dense

import (
	"math"
	"math/rand/v2"
	"testing"
)

func normals(rng *rand.Rand, n, p int) *Matrix {
	m := New(n, p)
	for i := range m.Data {
		m.Data[i] = rng.NormFloat64()
	}
	return m
}

func apart(a, b *Matrix) float64 {
	most := 0.0
	for i := range a.Rows {
		for j, v := range a.Row(i) {
			most = max(most, math.Abs(v-b.At(i, j)))
		}
	}
	return most
}

// Orthonormal columns span what was there, independent or not.
func TestOrthonormal(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for _, c := range []string{"random", "graded", "dependent", "zero", "huge"} {
		m := normals(rng, 40, 6)
		for i := range m.Rows {
			row := m.Row(i)
			switch c {
			case "graded":
				for j := range row {
					row[j] = row[0] + math.Pow(10, -float64(2*j))*row[j]
				}
			case "dependent":
				row[4] = row[1] - row[2]
			case "zero":
				row[3] = 0
			case "huge":
				scale(row, 1e300)
			}
		}
		q, g, eye := m.Clone(), New(6, 6), New(6, 6)
		for i := range 6 {
			eye.Set(i, i, 1)
		}
		if !Orthonormal(q, 2) {
			t.Fatal(c)
		}
		MulTA(g, q, q)
		if d := apart(g, eye); d > 1e-12 {
			t.Errorf("%s: QᵀQ is off by %v", c, d)
		}
		back, size := New(40, 6), largest(m)
		for i := range m.Data { // products of huge numbers overflow
			m.Data[i] /= size
		}
		MulTA(g, q, m)
		Mul(back, q, g)
		if d := apart(back, m); d > 1e-12 {
			t.Errorf("%s: the span is off by %v", c, d)
		}
		q.Data[7] = math.NaN()
		if Orthonormal(q, 2) {
			t.Errorf("%s: NaN", c)
		}
	}
}

// A = V diag(e) Vᵀ, and a square matrix has the singular values of its Gram matrix.
func TestEigen(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	x, a, back := normals(rng, 9, 9), New(9, 9), New(9, 9)
	Gram(a, x, nil)
	e, v, err := Eigen(a)
	if err != nil {
		t.Fatal(err)
	}
	GramT(back, v, e)
	if d := apart(a, back); d > 1e-12 {
		t.Errorf("V e Vᵀ is off by %v", d)
	}
	s, w, err := SVD(x)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s {
		s[i] *= s[i]
	}
	GramT(back, w, s)
	if d := apart(a, back); d > 1e-12 {
		t.Errorf("W s² Wᵀ is off by %v", d)
	}
	a.Set(0, 3, math.NaN())
	if _, _, err := Eigen(a); err == nil {
		t.Error("NaN has eigenvalues")
	}
}

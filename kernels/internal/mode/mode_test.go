package mode

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
)

var tight = kerneltest.Tol{Rel: 1e-11, Abs: 1e-11}

func rows(t *testing.T, rng *rand.Rand, n, p int) *kernels.Problem {
	t.Helper()
	r, err := kernels.NewRows(&kernels.Model{NoIntercept: true, Prior: kernels.DefaultPrior})
	if err != nil {
		t.Fatal(err)
	}
	var b kernels.Batch
	b.Reset()
	for range n {
		for j := range p {
			id, err := r.Dict.Add(fmt.Sprintf("x%02d", j))
			if err != nil {
				t.Fatal(err)
			}
			if rng.IntN(3) == 0 {
				b.Add(id, rng.NormFloat64())
			}
		}
		b.EndRow()
		b.Y = append(b.Y, 0)
	}
	if err := r.Update(&b, false); err != nil {
		t.Fatal(err)
	}
	q, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	return q
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

// A root has T Tᵀ = Σ0, and Mul, MulT, Solve, MulMat and MulTMat are one operator.
func TestRoot(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const p = 12
	mean, d := make([]float64, p), make([]float64, p)
	l, f := dense.New(p, p), dense.New(p, 3)
	for i := range p {
		d[i] = 1 + rng.Float64()
		for j := range i {
			l.Row(i)[j] = rng.NormFloat64()
		}
		l.Row(i)[i] = d[i]
		for k := range 3 {
			f.Row(i)[k] = 0.15 * rng.NormFloat64()
		}
	}
	low, err := gauss.NewLowRank(mean, d, f)
	if err != nil {
		t.Fatal(err)
	}
	eye := dense.New(p, p)
	for i := range p {
		eye.Row(i)[i] = 1
	}
	for _, g := range []*gauss.Normal{gauss.NewDiagonal(mean, d), gauss.NewFull(mean, l), low} {
		r, err := NewRoot(g)
		if err != nil {
			t.Fatal(err)
		}
		m := r.MulMat(eye)
		got, want := dense.New(p, p), dense.New(p, p)
		dense.MulTB(got, m, m)
		g.Cov(want)
		same(t, "T Tᵀ", got, want)
		mt := eye.Clone()
		r.MulTMat(mt)
		same(t, "Tᵀ", mt, m.T())
		x, y := make([]float64, p), make([]float64, p)
		for k := range p {
			clear(x)
			x[k] = 1
			r.Mul(y, x)
			for i := range p {
				kerneltest.Close(t, "Mul", y[i], m.At(i, k), tight)
			}
			r.Solve(y, y)
			for i := range p {
				kerneltest.Close(t, "Solve", y[i], x[i], tight)
			}
			r.MulT(y, x)
			for i := range p {
				kerneltest.Close(t, "MulT", y[i], m.At(k, i), tight)
			}
		}
		lambda, _, err := Precision(g)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Prec(want); err != nil {
			t.Fatal(err)
		}
		for j, v := range lambda {
			kerneltest.Close(t, "Precision", v, want.At(j, j), tight)
		}
		// prior variance what T B⁻¹ Tᵀ is for B = I
		if g.Form != gauss.LowRank {
			b := eye.Clone()
			root := PosteriorRoot(r, b)
			dense.MulTB(got, root, root)
			g.Cov(want)
			same(t, "PosteriorRoot", got, want)
		}
	}
}

// A matrix whose eigenvalues are 1 and more but for rounding gets a factor all the
// same, one that keeps its large part.
func TestFactorOfRoundedMatrix(t *testing.T) {
	const n, big = 6, 1e18
	b := dense.New(n, n)
	for i := range n {
		for j := range n {
			b.Row(i)[j] = big // rank one: I + big 11ᵀ, the ones below rounding
		}
	}
	want := b.Clone()
	if err := Factor(b); err != nil {
		t.Fatal(err)
	}
	got := dense.New(n, n)
	dense.MulTB(got, b, b)
	for i := range n {
		for j := range n {
			kerneltest.Close(t, "factor", got.At(i, j), want.At(i, j), kerneltest.Tol{Rel: 1e-9})
			if j > i && b.At(i, j) != 0 {
				t.Error("not lower triangular")
			}
		}
		if !(b.At(i, i) > 0) {
			t.Errorf("pivot %v", b.At(i, i))
		}
	}
	b.Row(2)[1] = math.Inf(1)
	if err := Factor(b); err != ErrOverflow {
		t.Error(err)
	}
}

// Orthonormal columns span what was there; dependent ones become 0.
func TestOrthonormal(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for _, c := range []string{"random", "graded", "dependent", "zero", "wide"} {
		m := normals(rng, 40, 6)
		rank := 6
		switch c {
		case "graded":
			for i := range m.Rows {
				for j := range m.Row(i) {
					m.Row(i)[j] = m.Row(i)[0] + math.Pow(10, -float64(2*j))*m.Row(i)[j]
				}
			}
		case "dependent":
			for i := range m.Rows {
				m.Row(i)[4] = m.Row(i)[1] - m.Row(i)[2]
			}
			rank = 5
		case "zero":
			for i := range m.Rows {
				m.Row(i)[3] = 0
			}
			rank = 5
		case "wide":
			m = normals(rng, 3, 6)
			rank = 3
		}
		orthonormal(m)
		g := dense.New(6, 6)
		dense.MulTA(g, m, m)
		ones := 0
		for i := range 6 {
			for j := range 6 {
				want := 0.0
				if i == j && g.At(i, i) > 0.5 {
					want = 1
					ones++
				}
				kerneltest.Close(t, c, g.At(i, j), want, kerneltest.Tol{Abs: 1e-12})
			}
		}
		if ones != rank {
			t.Errorf("%s: %d columns, want %d", c, ones, rank)
		}
	}
}

// hill is a concave function with its maximum inside, outside or on a flat ground.
type hill struct {
	top   []float64
	at    []float64
	tries int
}

func (h *hill) Try(theta []float64) (float64, bool, error) {
	h.at = append(h.at[:0], theta...)
	h.tries++
	s := 0.0
	for k, x := range theta {
		s -= math.Cosh(0.7*(x-h.top[k])) * float64(1+k)
	}
	return s, true, nil
}

func (h *hill) Keep() {}

func (h *hill) Slope() (g, scale []float64, err error) {
	for k, x := range h.at {
		g, scale = append(g, -0.7*math.Sinh(0.7*(x-h.top[k]))*float64(1+k)), append(scale, 0.1)
	}
	return g, scale, nil
}

func TestMaximise(t *testing.T) {
	h := &hill{top: []float64{3, -9, 0.5, 40}}
	theta, status, err := Maximise(h, make([]float64, 4), []float64{-20, -5, -20, -20}, []float64{20, 5, 20, 20}, func() bool { return false })
	if err != nil || status != "" {
		t.Fatal(err, status)
	}
	for k, want := range []float64{3, -5, 0.5, 20} {
		kerneltest.Close(t, "θ", theta[k], want, kerneltest.Tol{Abs: 1e-5})
		kerneltest.Close(t, "state", h.at[k], want, kerneltest.Tol{Abs: 1e-5})
	}
	if _, status, _ := Maximise(h, make([]float64, 4), []float64{-20, -5, -20, -20}, []float64{20, 5, 20, 20}, func() bool { return true }); status == "" {
		t.Error("did not say that it was late")
	}
}

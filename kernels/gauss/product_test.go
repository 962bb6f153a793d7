package gauss

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// posterior is the posterior of Gaussian rows under a prior, with its evidence, by
// dense algebra.
func posterior(t *testing.T, prior *Normal, x *dense.Matrix, y []float64) (*Normal, float64) {
	t.Helper()
	p := prior.Dim()
	// s = X w ~ N(Xμ0, K), y = s + N(0, 1): gain G = Σ0Xᵀ(K + I)⁻¹.
	cov := dense.New(p, p)
	prior.Cov(cov)
	sx := dense.New(p, x.Rows)
	dense.MulTB(sx, cov, x)
	k := dense.New(x.Rows, x.Rows)
	dense.Mul(k, x, sx)
	for i := range k.Rows {
		k.Row(i)[i]++
	}
	if err := dense.Cholesky(k); err != nil {
		t.Fatal(err)
	}
	r := make([]float64, x.Rows)
	dense.Gemv(r, x, prior.Mean)
	for i := range r {
		r[i] = y[i] - r[i]
	}
	dense.SolveLowerVec(k, r)
	logZ := -0.5*dense.Dot(r, r) - 0.5*dense.LogDet(k)
	half := sx.T() // n x p
	dense.SolveLower(k, half)
	mean := append([]float64(nil), prior.Mean...)
	u := make([]float64, p)
	dense.GemvT(u, half, r)
	dense.Axpy(1, u, mean)
	if prior.Form == Diagonal {
		g, err := NewLowRank(mean, prior.Var, half.T())
		if err != nil {
			t.Fatal(err)
		}
		return g, logZ
	}
	gram := dense.New(p, p)
	dense.Gram(gram, half, nil)
	for i := range p {
		dense.Axpy(-1, gram.Row(i), cov.Row(i))
	}
	if err := dense.Cholesky(cov); err != nil {
		t.Fatal(err)
	}
	return NewFull(mean, cov), logZ
}

// The product of the posteriors of two halves is the posterior of all rows, and
// so is its evidence; in whatever form the parts come.
func TestProduct(t *testing.T) {
	// 6 to 10 weights of unit scale, precisions within 1e3: 1e-10 is far above rounding.
	tol := kerneltest.Tol{Rel: 1e-10, Abs: 1e-10}
	r := rand.New(rand.NewPCG(3, 4))
	const n = 3
	for _, p := range []int{6, 10} {
		for _, prior := range random(t, r, p) {
			x, y := dense.New(2*n, p), make([]float64, 2*n)
			for i := range y {
				y[i] = r.NormFloat64()
				for j := range p {
					x.Set(i, j, r.NormFloat64())
				}
			}
			want, logZ := posterior(t, prior, x, y)
			a, za := posterior(t, prior, x.Slice(0, n, 0, p), y[:n])
			b, zb := posterior(t, prior, x.Slice(n, 2*n, 0, p), y[n:])
			full, err := b.ToFull()
			if err != nil {
				t.Fatal(err)
			}
			for _, parts := range [][]*Normal{{a, b}, {a, full}, {b, prior, a}} {
				got, logC, err := Product(prior, parts)
				if err != nil {
					t.Fatal(err)
				}
				kerneltest.Close(t, "evidence", za+zb+logC, logZ, tol)
				cg, cw := dense.New(p, p), dense.New(p, p)
				got.Cov(cg)
				want.Cov(cw)
				for i := range p {
					kerneltest.Close(t, got.Form.String()+" mean", got.Mean[i], want.Mean[i], tol)
					for j := range p {
						kerneltest.Close(t, got.Form.String()+" covariance", cg.At(i, j), cw.At(i, j), tol)
					}
				}
			}
		}
	}
	wide := NewDiagonal([]float64{0}, []float64{10})
	if _, _, err := Product(NewDiagonal([]float64{0}, []float64{1}), []*Normal{wide, wide}); !errors.Is(err, ErrNotPD) {
		t.Errorf("two parts wider than their prior: %v", err)
	}
}

package laplace

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
)

// root is a square root T of the prior covariance, Σ0 = T Tᵀ: weights are
// w = μ0 + T z with z ~ N(0, I) a priori, whatever the form of the prior.
//
//	diagonal  T = diag(s)
//	full      T = L
//	lowrank   T = diag(s) (I - G diag(c) Gᵀ), s² = D, G = diag(1/s) F V with the
//	          eigenvectors V of Fᵀ D⁻¹ F and c = 1/(1 + sqrt(1-e)), e their eigenvalues
type root struct {
	prior *gauss.Normal
	s     []float64
	g     *dense.Matrix // p x r
	c, e  []float64
	tmp   []float64
}

func newRoot(prior *gauss.Normal) (*root, error) {
	t := &root{prior: prior}
	from := prior.Var
	switch prior.Form {
	case gauss.Full:
		return t, nil
	case gauss.LowRank:
		from = prior.D
	}
	t.s = make([]float64, len(from))
	for j, v := range from {
		t.s[j] = math.Sqrt(v)
	}
	if prior.Form == gauss.Diagonal {
		return t, nil
	}
	r := prior.F.Cols
	scaled := prior.F.Clone()
	for j, s := range t.s {
		row := scaled.Row(j)
		for k := range row {
			row[k] /= s
		}
	}
	m := dense.New(r, r)
	dense.Gram(m, scaled, nil)
	v, e, err := eigen(m)
	if err != nil {
		return nil, err
	}
	t.g, t.e, t.c, t.tmp = dense.New(len(from), r), e, make([]float64, r), make([]float64, r)
	dense.Mul(t.g, scaled, v)
	for k := range e {
		e[k] = max(e[k], 0)
		if !(e[k] < 1) {
			return nil, fmt.Errorf("prior: %w", gauss.ErrNotPD)
		}
		t.c[k] = 1 / (1 + math.Sqrt(1-e[k]))
	}
	return t, nil
}

// eigen is the eigenvectors, in columns, and eigenvalues in rising order of the
// symmetric m.
func eigen(m *dense.Matrix) (*dense.Matrix, []float64, error) {
	n := m.Rows
	if n == 0 {
		return dense.New(0, 0), nil, nil
	}
	var es mat.EigenSym
	if !es.Factorize(mat.NewSymDense(n, m.Clone().Data), true) {
		return nil, nil, fmt.Errorf("the eigenvalues of a %d x %d matrix were not found", n, n)
	}
	var v mat.Dense
	es.VectorsTo(&v)
	return &dense.Matrix{Rows: n, Cols: n, Stride: v.RawMatrix().Stride, Data: v.RawMatrix().Data}, es.Values(nil), nil
}

// fix subtracts G diag(c) Gᵀ x from x, or with other coefficients.
func (t *root) fix(x []float64, coef func(k int) float64) {
	dense.GemvT(t.tmp, t.g, x)
	for k := range t.tmp {
		t.tmp[k] *= coef(k)
	}
	for j := range x {
		x[j] -= dense.Dot(t.g.Row(j), t.tmp)
	}
}

func (t *root) shrink(k int) float64 { return t.c[k] }

// mul sets dst = T z; dst may be z.
func (t *root) mul(dst, z []float64) {
	if t.prior.Form == gauss.Full {
		for i := len(z) - 1; i >= 0; i-- {
			dst[i] = dense.Dot(t.prior.L.Row(i)[:i+1], z[:i+1])
		}
		return
	}
	copy(dst, z)
	if t.g != nil {
		t.fix(dst, t.shrink)
	}
	for j, s := range t.s {
		dst[j] *= s
	}
}

// mulT sets dst = Tᵀ g; dst may be g.
func (t *root) mulT(dst, g []float64) {
	if t.prior.Form == gauss.Full {
		for i := range g {
			v := g[i]
			dst[i] = 0
			dense.Axpy(v, t.prior.L.Row(i)[:i+1], dst[:i+1])
		}
		return
	}
	for j, s := range t.s {
		dst[j] = g[j] * s
	}
	if t.g != nil {
		t.fix(dst, t.shrink)
	}
}

// solve sets dst = T⁻¹ w; dst may be w.
func (t *root) solve(dst, w []float64) {
	copy(dst, w)
	if t.prior.Form == gauss.Full {
		dense.SolveLowerVec(t.prior.L, dst)
		return
	}
	for j, s := range t.s {
		dst[j] /= s
	}
	if t.g != nil {
		// (I - G Gᵀ)^-½ = I + Σ ((1-e)^-½ - 1)/e g gᵀ
		t.fix(dst, func(k int) float64 {
			q := math.Sqrt(1 - t.e[k])
			return -1 / (q * (1 + q))
		})
	}
}

// variances is the diagonal of Σ0, without what a low rank takes away.
func (t *root) variances() []float64 {
	if t.prior.Form == gauss.LowRank {
		return t.prior.D
	}
	return t.prior.Var
}

package mode

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
)

// Root is a square root T of the prior covariance, Σ0 = T Tᵀ: weights are
// w = μ0 + T z with z ~ N(0, I) a priori, whatever the form of the prior.
//
//	diagonal  T = diag(s)
//	full      T = L
//	lowrank   T = diag(s) (I - G diag(c) Gᵀ), s² = D, G = diag(1/s) F V with the
//	          eigenvectors V of Fᵀ D⁻¹ F and c = 1/(1 + sqrt(1-e)), e their eigenvalues
type Root struct {
	Prior *gauss.Normal
	S     []float64     // s; nil for a full prior
	g     *dense.Matrix // p x r
	c, e  []float64
	tmp   []float64
}

// NewRoot returns the root of prior, which is kept. Cost: O(p r²) for a low-rank prior.
// Errors: a low-rank prior that is not positive definite.
func NewRoot(prior *gauss.Normal) (*Root, error) {
	t := &Root{Prior: prior}
	from := prior.Var
	switch prior.Form {
	case gauss.Full:
		return t, nil
	case gauss.LowRank:
		from = prior.D
	}
	t.S = make([]float64, len(from))
	for j, v := range from {
		t.S[j] = math.Sqrt(v)
	}
	if prior.Form == gauss.Diagonal {
		return t, nil
	}
	r := prior.F.Cols
	scaled := prior.F.Clone()
	for j, s := range t.S {
		row := scaled.Row(j)
		for k := range row {
			row[k] /= s
		}
	}
	m := dense.New(r, r)
	dense.Gram(m, scaled, nil)
	v, e, err := Eigen(m)
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

// Scaled is the root diag(s).
func Scaled(s []float64) *Root { return &Root{Prior: gauss.NewDiagonal(nil, nil), S: s} }

// Eigen is the eigenvectors, in columns, and eigenvalues in rising order of the
// symmetric m.
func Eigen(m *dense.Matrix) (*dense.Matrix, []float64, error) {
	n := m.Rows
	if n == 0 {
		return dense.New(0, 0), nil, nil
	}
	var es mat.EigenSym
	var v mat.Dense
	found := false
	m.Stop.Beside(func() {
		if found = es.Factorize(mat.NewSymDense(n, m.Clone().Data), true); found {
			es.VectorsTo(&v)
		}
	})
	if !found {
		return nil, nil, fmt.Errorf("the eigenvalues of a %d x %d matrix were not found", n, n)
	}
	return &dense.Matrix{Rows: n, Cols: n, Stride: v.RawMatrix().Stride, Data: v.RawMatrix().Data, Stop: m.Stop}, es.Values(nil), nil
}

// fix subtracts G diag(c) Gᵀ x from x, or with other coefficients.
func (t *Root) fix(x []float64, coef func(k int) float64) {
	dense.GemvT(t.tmp, t.g, x)
	for k := range t.tmp {
		t.tmp[k] *= coef(k)
	}
	for j := range x {
		x[j] -= dense.Dot(t.g.Row(j), t.tmp)
	}
}

func (t *Root) shrink(k int) float64 { return t.c[k] }

// Mul sets dst = T z; dst may be z.
func (t *Root) Mul(dst, z []float64) {
	if t.Prior.Form == gauss.Full {
		for i := len(z) - 1; i >= 0; i-- {
			t.Prior.L.Stop.Row(i)
			dst[i] = dense.Dot(t.Prior.L.Row(i)[:i+1], z[:i+1])
		}
		return
	}
	copy(dst, z)
	if t.g != nil {
		t.fix(dst, t.shrink)
	}
	for j, s := range t.S {
		dst[j] *= s
	}
}

// MulT sets dst = Tᵀ g; dst may be g.
func (t *Root) MulT(dst, g []float64) {
	if t.Prior.Form == gauss.Full {
		for i := range g {
			t.Prior.L.Stop.Row(i)
			v := g[i]
			dst[i] = 0
			dense.Axpy(v, t.Prior.L.Row(i)[:i+1], dst[:i+1])
		}
		return
	}
	for j, s := range t.S {
		dst[j] = g[j] * s
	}
	if t.g != nil {
		t.fix(dst, t.shrink)
	}
}

// Solve sets dst = T⁻¹ w; dst may be w.
func (t *Root) Solve(dst, w []float64) {
	copy(dst, w)
	if t.Prior.Form == gauss.Full {
		dense.SolveLowerVec(t.Prior.L, dst)
		return
	}
	for j, s := range t.S {
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

// Variances is the diagonal of Σ0, without what a low rank takes away.
func (t *Root) Variances() []float64 {
	if t.Prior.Form == gauss.LowRank {
		return t.Prior.D
	}
	return t.Prior.Var
}

// MulMat is T m, by columns.
func (t *Root) MulMat(m *dense.Matrix) *dense.Matrix {
	out := dense.NewUnder(m.Stop, m.Rows, m.Cols)
	if t.Prior.Form == gauss.Full {
		dense.Mul(out, t.Prior.L, m)
		return out
	}
	copyMat(out, m)
	if t.g != nil {
		t.fixMat(out)
	}
	dense.ScaleRows(out, t.S)
	return out
}

// MulTMat sets m = Tᵀ m, by columns.
func (t *Root) MulTMat(m *dense.Matrix) {
	if t.Prior.Form == gauss.Full {
		dense.MulTA(m, t.Prior.L, m.Clone())
		return
	}
	dense.ScaleRows(m, t.S)
	if t.g != nil {
		t.fixMat(m)
	}
}

func (t *Root) fixMat(m *dense.Matrix) {
	gm := dense.New(t.g.Cols, m.Cols)
	dense.MulTA(gm, t.g, m)
	dense.ScaleRows(gm, t.c)
	dense.Gemm(m, -1, t.g, false, gm, false, 1)
}

func copyMat(dst, src *dense.Matrix) {
	for i := range src.Rows {
		src.Stop.Row(i)
		copy(dst.Row(i), src.Row(i))
	}
}

// Precision is the diagonal of Λ0, and log |Σ0| for the forms whose determinant the
// caller does not have term by term.
func Precision(g *gauss.Normal) (lambda []float64, logDet float64, err error) {
	lambda = make([]float64, g.Dim())
	if g.Form == gauss.Diagonal {
		for j, v := range g.Var {
			lambda[j] = 1 / v
		}
		return lambda, 0, nil
	}
	if logDet, err = g.LogDet(); err != nil {
		return nil, 0, err
	}
	if g.Form == gauss.Full {
		inv := dense.NewUnder(g.L.Stop, g.Dim(), g.Dim())
		dense.InverseFromCholesky(inv, g.L)
		for j := range lambda {
			lambda[j] = inv.Row(j)[j]
		}
		return lambda, logDet, nil
	}
	// Woodbury by the eigenvectors of root: Λ0 = D^-½ (I - GGᵀ)⁻¹ D^-½
	t, err := NewRoot(g)
	if err != nil {
		return nil, 0, err
	}
	for j, d := range g.D {
		s := 1.0
		for k, v := range t.g.Row(j) {
			s += v * v / (1 - t.e[k])
		}
		lambda[j] = s / d
	}
	return lambda, logDet, nil
}

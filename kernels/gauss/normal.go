// Package gauss holds multivariate Gaussian beliefs over weights: diagonal, full,
// diagonal minus low rank, or a block with leaves tied to it.
package gauss

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
)

// Form is the form in which a Normal stores its covariance.
type Form int

const (
	Diagonal  Form = iota // Σ = diag(Var)
	Full                  // Σ = L Lᵀ
	LowRank               // Σ = diag(D) - F Fᵀ
	Arrowhead             // a block and leaves: see Arrow
)

var forms = [...]string{"diagonal", "full", "lowrank", "arrowhead"}

func (f Form) String() string { return forms[f] }

// HasRank reports whether the form has a rank.
func (f Form) HasRank() bool { return f == LowRank || f == Arrowhead }

// ParseForm returns the named form. Errors: an unknown name.
func ParseForm(name string) (Form, error) {
	for f, known := range forms {
		if name == known {
			return Form(f), nil
		}
	}
	return 0, fmt.Errorf("%.40q; allowed: '%s'", name, strings.Join(forms[:], "', '"))
}

// Normal is N(Mean, Σ) over p weights. All variances are positive.
//
// LowRank stores what r directions of data removed from a diagonal prior, the form that Woodbury's
// identity gives every low-rank posterior.
type Normal struct {
	Form  Form
	Mean  []float64
	Var   []float64     // the diagonal of Σ, in every form
	L     *dense.Matrix // Full: lower Cholesky factor, p x p
	D     []float64     // LowRank
	F     *dense.Matrix // LowRank: p x r
	Arrow *Arrow        // Arrowhead

	cap *dense.Matrix // LowRank: Cholesky factor of I - FᵀD⁻¹F
}

// ErrNotPD is wrapped by errors about a covariance that is not positive definite.
var ErrNotPD = errors.New("covariance is not positive definite")

// NewDiagonal returns N(mean, diag(variance)); the slices are retained.
func NewDiagonal(mean, variance []float64) *Normal {
	return &Normal{Form: Diagonal, Mean: mean, Var: variance}
}

// NewFull returns N(mean, L Lᵀ); the arguments are retained.
func NewFull(mean []float64, l *dense.Matrix) *Normal {
	g := &Normal{Form: Full, Mean: mean, L: l, Var: memory.Floats(len(mean))}
	for i := range g.Var {
		l.Stop.Row(i)
		r := l.Row(i)[:i+1]
		g.Var[i] = dense.Dot(r, r)
	}
	return g
}

// NewLowRank returns N(mean, diag(d) - F Fᵀ); the arguments are retained. A variance that is not
// positive after rounding is an error.
func NewLowRank(mean, d []float64, f *dense.Matrix) (*Normal, error) {
	g := &Normal{Form: LowRank, Mean: mean, D: d, F: f, Var: memory.Floats(len(mean))}
	for i := range g.Var {
		f.Stop.Row(i)
		r := f.Row(i)
		g.Var[i] = d[i] - dense.Dot(r, r)
		if !(g.Var[i] > 0) {
			return nil, fmt.Errorf("weight %d: variance %v - %v: %w", i, d[i], dense.Dot(r, r), ErrNotPD)
		}
	}
	return g, nil
}

// stop is what interrupts operations on g's matrix.
func (g *Normal) stop() *stop.Stop {
	switch g.Form {
	case Full:
		return g.L.Stop
	case LowRank:
		return g.F.Stop
	case Arrowhead:
		return g.Arrow.L.Stop
	}
	return nil
}

// Dim is the number of weights.
func (g *Normal) Dim() int { return len(g.Mean) }

// Linear returns the mean and variance of Σ x_k w_{col_k} for one sparse row. scratch is grown as
// needed and may be nil.
//
// Cost: O(k) diagonal, O(k r) low rank, O(k p) full, O(d² + k d) arrowhead.
func (g *Normal) Linear(col []uint32, x []float64, scratch *[]float64) (mean, variance float64) {
	for k, j := range col {
		mean += x[k] * g.Mean[j]
	}
	switch g.Form {
	case Diagonal:
		for k, j := range col {
			variance += x[k] * x[k] * g.Var[j]
		}
	case Full:
		p := 0
		for _, j := range col {
			p = max(p, int(j)+1)
		}
		u := room(scratch, p)
		for k, j := range col {
			dense.Axpy(x[k], g.L.Row(int(j))[:j+1], u[:j+1])
		}
		variance = dense.Dot(u, u)
	case LowRank:
		u := room(scratch, g.F.Cols)
		for k, j := range col {
			variance += x[k] * x[k] * g.D[j]
			dense.Axpy(x[k], g.F.Row(int(j)), u)
		}
		variance = max(variance-dense.Dot(u, u), 0)
	case Arrowhead:
		d := len(g.Arrow.Block)
		u := room(scratch, 2*d)
		for k, j := range col {
			variance += g.Arrow.gather(int(j), x[k], u[:d])
		}
		variance += g.Arrow.quad(u[:d], u[d:])
	}
	return mean, variance
}

func room(scratch *[]float64, n int) []float64 {
	if scratch == nil {
		return memory.Floats(n)
	}
	if cap(*scratch) < n {
		*scratch = memory.Floats(n)
	}
	u := (*scratch)[:n]
	clear(u)
	return u
}

// MulCov sets dst = Σ x. Cost: O(p) diagonal, O(p r) low rank, O(p²) full.
func (g *Normal) MulCov(dst, x []float64) {
	switch g.Form {
	case Diagonal:
		for i, v := range g.Var {
			dst[i] = v * x[i]
		}
	case Full:
		p := g.Dim()
		u := memory.Floats(p)
		for i := range p {
			g.L.Stop.Row(i)
			dense.Axpy(x[i], g.L.Row(i)[:i+1], u[:i+1])
		}
		for i := range p {
			g.L.Stop.Row(i)
			dst[i] = dense.Dot(g.L.Row(i)[:i+1], u[:i+1])
		}
	case LowRank:
		u := make([]float64, g.F.Cols)
		dense.GemvT(u, g.F, x)
		for i := range dst {
			dst[i] = g.D[i]*x[i] - dense.Dot(g.F.Row(i), u)
		}
	case Arrowhead:
		g.Arrow.mulCov(dst, x)
	}
}

// MulPrec sets dst = Σ⁻¹ x. Cost: that of MulCov, and once O(p r²) for LowRank.
func (g *Normal) MulPrec(dst, x []float64) error {
	switch g.Form {
	case Diagonal:
		for i, v := range g.Var {
			dst[i] = x[i] / v
		}
	case Full:
		copy(dst, x)
		dense.SolveLowerVec(g.L, dst)
		dense.SolveLowerTVec(g.L, dst)
	case LowRank:
		c, err := g.capacitance()
		if err != nil {
			return err
		}
		// Woodbury: D⁻¹ + D⁻¹F (I - FᵀD⁻¹F)⁻¹ FᵀD⁻¹
		for i := range dst {
			dst[i] = x[i] / g.D[i]
		}
		u := make([]float64, g.F.Cols)
		dense.GemvT(u, g.F, dst)
		dense.SolveLowerVec(c, u)
		dense.SolveLowerTVec(c, u)
		for i := range dst {
			dst[i] += dense.Dot(g.F.Row(i), u) / g.D[i]
		}
	case Arrowhead:
		g.Arrow.mulPrec(dst, x)
	}
	return nil
}

// capacitance is the Cholesky factor of I - FᵀD⁻¹F, cached.
func (g *Normal) capacitance() (*dense.Matrix, error) {
	if g.cap != nil {
		return g.cap, nil
	}
	w := make([]float64, g.Dim())
	for i, d := range g.D {
		w[i] = -1 / d
	}
	c := dense.NewUnder(g.F.Stop, g.F.Cols, g.F.Cols)
	dense.Gram(c, g.F, w)
	for i := range c.Rows {
		c.Row(i)[i]++
	}
	if err := dense.Cholesky(c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotPD, err)
	}
	g.cap = c
	return c, nil
}

// LogDet is log |Σ|.
func (g *Normal) LogDet() (float64, error) {
	s := 0.0
	switch g.Form {
	case Diagonal:
		for _, v := range g.Var {
			s += math.Log(v)
		}
	case Full:
		s = dense.LogDet(g.L)
	case LowRank:
		c, err := g.capacitance()
		if err != nil {
			return 0, err
		}
		s = dense.LogDet(c)
		for _, d := range g.D {
			s += math.Log(d)
		}
	case Arrowhead:
		s = g.Arrow.logDet()
	}
	return s, nil
}

// Cov sets dst (p x p, symmetric) to Σ.
func (g *Normal) Cov(dst *dense.Matrix) {
	switch g.Form {
	case Full:
		// L Lᵀ by blocks of columns of L, whose zeros above the diagonal are left out
		const some = 288
		for lo, p := 0, g.L.Rows; lo < p; lo += some {
			beta := 1.0
			if lo == 0 {
				beta = 0
			}
			dense.Syrk(dst.Slice(lo, p, lo, p), 1, g.L.Slice(lo, p, lo, min(lo+some, p)), beta)
		}
		dense.Mirror(dst)
		return
	case LowRank:
		dense.Gemm(dst, -1, g.F, false, g.F, true, 0)
		for i, d := range g.D {
			dst.Row(i)[i] += d
		}
		return
	case Arrowhead:
		g.Arrow.cov(dst)
		return
	}
	zero(dst)
	for i, v := range g.Var {
		dst.Row(i)[i] = v
	}
}

// Diag is D of a low-rank form, else the variances.
func (g *Normal) Diag() []float64 {
	if g.Form == LowRank {
		return g.D
	}
	return g.Var
}

// WithVariances is g with other variances for the weights for which of returns ok. These must be
// independent of all others in g, which must not be an Arrowhead.
func (g *Normal) WithVariances(of func(j int) (v float64, ok bool)) (*Normal, error) {
	d := slices.Clone(g.Diag())
	l := g.L
	if g.Form == Full {
		l = l.Clone()
	}
	for j := range d {
		if v, ok := of(j); ok {
			d[j] = v
			if l != nil {
				l.Row(j)[j] = math.Sqrt(v)
			}
		}
	}
	switch g.Form {
	case Diagonal:
		return NewDiagonal(g.Mean, d), nil
	case Full:
		return NewFull(g.Mean, l), nil
	}
	return NewLowRank(g.Mean, d, g.F)
}

// Prec sets dst (p x p, symmetric) to Σ⁻¹. An Arrowhead is converted to Full first.
func (g *Normal) Prec(dst *dense.Matrix) error {
	switch g.Form {
	case Full:
		dense.InverseFromCholesky(dst, g.L)
		return nil
	case LowRank:
		b, err := g.HalfPrec()
		if err != nil {
			return err
		}
		dense.Gram(dst, b, nil)
		for i, d := range g.D {
			dst.Row(i)[i] += 1 / d
		}
		return nil
	case Arrowhead:
		f, err := g.ToFull()
		if err != nil {
			return err
		}
		return f.Prec(dst)
	}
	zero(dst)
	for i, v := range g.Var {
		dst.Row(i)[i] = 1 / v
	}
	return nil
}

// ToFull returns g in Full form, or g itself if it is full already.
// Cost: O(p³) for LowRank and Arrowhead.
func (g *Normal) ToFull() (*Normal, error) {
	if g.Form == Full {
		return g, nil
	}
	l := dense.New(g.Dim(), g.Dim())
	if g.Form == Diagonal {
		for i, v := range g.Var {
			l.Row(i)[i] = math.Sqrt(v)
		}
		return NewFull(g.Mean, l), nil
	}
	g.Cov(l)
	if err := dense.Cholesky(l); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotPD, err)
	}
	return NewFull(g.Mean, l), nil
}

func zero(m *dense.Matrix) {
	for i := range m.Rows {
		m.Stop.Row(i)
		clear(m.Row(i))
	}
}

package lowrank

import (
	"errors"
	"math"
	"math/rand/v2"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/stop"
)

// Options holds the options of the decomposition, as in kernels.Options.
type Options struct {
	Rank            int                // M, default 50
	Oversample      kernels.Value[int] // additional directions that are discarded, default 10
	PowerIterations kernels.Value[int] // default 2
	Seed            uint64
	// Key identifies columns for the random draws, whatever their order: a hash of their names;
	// nil uses their positions.
	Key  func(j int) uint64
	Stop *stop.Stop // may end it; nil = never
}

// Factors is X ≈ V diag(S) Uᵀ, n x d, of M terms.
type Factors struct {
	// U, d x M, has orthonormal columns: the right singular vectors by decreasing singular
	// value, each with its largest entry in size positive (the first one of equals).
	U *dense.Matrix
	// XU is X U, n x M. Its columns are V diag(S).
	XU *dense.Matrix
	S  []float64
	// Next estimates λ(M+1), the norm of X - X U Uᵀ, from the oversampled directions. It never
	// exceeds the true value except by rounding; it is exact, and may be 0, if Exact reports
	// that the directions searched span all rows. NaN means not known, because nothing was
	// oversampled.
	Next  float64
	Exact bool
}

var errOverflow = errors.New("the features are too large: products of the design overflow; scale them down")

// SVD computes a randomised truncated singular value decomposition. With l = Rank + Oversample
// random directions Ω (d x l),
//
//	W = orth(Xᵀ X Ω),   q times: W = orth(Xᵀ X W),   X W = V diag(S) Rᵀ,   U = W R,
//
// of which the leading Rank terms are kept. A rank above min(n, d), or above the number of
// singular values that are not just rounding errors, is lowered to it.
//
// The result is a function of the matrix and the options alone: it does not depend on the
// number of processors, and only by rounding on whether the matrix is sparse, on the order of
// its rows and on whether they are kept (Pass).
//
// Cost: 2q + 3 products with X, 2 l operations per entry each, and O((n + d) l²).
// Errors: entries that are not finite or so large that products overflow.
//
// Source: Halko, Martinsson and Tropp (2011), algorithms 4.4 and 5.1 applied to Xᵀ, so
// that X U comes out exactly.
func SVD(x *design.Columns, o Options) (*Factors, error) {
	n, d := x.N, x.P
	least := min(n, d)
	m := min(kernels.Or(o.Rank, 50), least)
	l := min(m+o.Oversample.Or(10), least)
	f := &Factors{Exact: l == least}
	if l == 0 {
		f.U, f.XU = dense.New(d, 0), dense.New(n, 0)
		if least > 0 {
			f.Next = math.NaN()
		}
		return f, nil
	}
	y, w := dense.NewUnder(o.Stop, n, l), dense.NewUnder(o.Stop, d, l)
	draw(w, o)
	x.MulMat(y, w)
	moderate(y)
	x.MulTMat(w, y)
	// Until the end a rough basis is enough, which only keeps the columns apart.
	for range o.PowerIterations.Or(2) {
		if err := orthonormalise(w, 1); err != nil {
			return nil, err
		}
		x.MulMat(y, w)
		if err := orthonormalise(y, 1); err != nil {
			return nil, err
		}
		x.MulTMat(w, y)
	}
	if err := orthonormalise(w, 2); err != nil {
		return nil, err
	}
	x.MulMat(y, w)
	s, r, err := rightSVD(y)
	if err != nil {
		return nil, err
	}
	zero := s[0] * float64(max(n, d)) * eps
	got := 0
	for got < l && s[got] > zero {
		got++
	}
	switch {
	case got > m:
		f.Next = s[m]
	case got < l || f.Exact: // beyond the rank of the matrix
		f.Exact = true
	default:
		f.Next = math.NaN()
	}
	m = min(m, got)
	f.S = s[:m:m]
	f.U, f.XU = dense.NewUnder(o.Stop, d, m), dense.NewUnder(o.Stop, n, m)
	r = r.Slice(0, l, 0, m)
	dense.Mul(f.U, w, r)
	dense.Mul(f.XU, y, r)
	f.fixSigns()
	return f, nil
}

const eps = 1.0 / (1 << 52)

// fixSigns makes the entry of largest size in each column of U positive.
func (f *Factors) fixSigns() {
	big := make([]float64, f.U.Cols)
	for i := range f.U.Rows {
		for j, v := range f.U.Row(i) {
			if math.Abs(v) > math.Abs(big[j]) {
				big[j] = v
			}
		}
	}
	flip := func(a *dense.Matrix) {
		for i := range a.Rows {
			for j, v := range a.Row(i) {
				if big[j] < 0 {
					a.Row(i)[j] = -v
				}
			}
		}
	}
	flip(f.U)
	flip(f.XU)
}

// draw fills w with standard normals, where those for a column of X depend on its key.
func draw(w *dense.Matrix, o Options) {
	key := o.Key
	if key == nil {
		key = func(j int) uint64 { return uint64(j) }
	}
	dense.Parallel(w.Rows, func(lo, hi int) {
		for j := lo; j < hi; j++ {
			o.Stop.Row(j)
			g := rand.New(rand.NewPCG(o.Seed, key(j)))
			for k := range w.Row(j) {
				w.Row(j)[k] = g.NormFloat64()
			}
		}
	})
}

// moderate divides by the largest entry if its square would overflow or underflow.
func moderate(y *dense.Matrix) {
	top := 0.0
	for i := range y.Rows {
		for _, v := range y.Row(i) {
			top = max(top, math.Abs(v))
		}
	}
	if top > 1e-100 && top < 1e100 || top == 0 || math.IsInf(top, 1) || top != top {
		return
	}
	for i := range y.Rows {
		for k := range y.Row(i) {
			y.Row(i)[k] /= top
		}
	}
}

// rightSVD returns the singular values of the n x l matrix y, n >= l, and its right singular
// vectors as columns: those of R in y = Q R. Errors are of size eps s[0].
func rightSVD(y *dense.Matrix) ([]float64, *dense.Matrix, error) {
	q := y.Clone()
	if err := orthonormalise(q, 2); err != nil {
		return nil, nil, err
	}
	r := dense.New(y.Cols, y.Cols)
	dense.MulTA(r, q, y)
	if !dense.Finite(r) {
		return nil, nil, errOverflow
	}
	r.Stop = y.Stop
	return dense.SVD(r)
}

// orthonormalise is dense.Orthonormal.
func orthonormalise(y *dense.Matrix, rounds int) error {
	if !dense.Orthonormal(y, rounds) {
		return errOverflow
	}
	return nil
}

package lowrank

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// FullLimit is the largest number of weights for which a full covariance is computed: its factor
// needs 8 p² bytes and p³/3 operations.
const FullLimit = 8000

// maxNumbers bounds rows plus features, times the vectors of the decomposition; up to four such
// blocks are in memory: 16 GiB.
const maxNumbers = 1 << 29

// Reduced is a problem in the k coordinates that its low-rank likelihood depends on. With
// Σ0 = C Cᵀ the prior's covariance, Ũ the directions kept (p x k: a unit vector for the
// intercept, then U) and H an orthonormal basis of Cᵀ Ũ,
//
//	w = μ0 + C b,   b ~ N(0, I),   u = Hᵀb ~ N(0, I),   s = Offset + Z Tᵀu,
//
// T = HᵀCᵀŨ. Whatever is outside H keeps its prior, so the posterior mean of the weights is
// μ0 + C H E[u] = μ0 + Σ0 Ũ (ŨᵀΣ0Ũ)⁻¹ E[γ - Ũᵀμ0] in the paper's γ = Ũᵀw: it is Ũγ only for an
// isotropic prior of mean 0.
type Reduced struct {
	*Factors               // of the design without the forced columns
	Forced   int           // leading columns outside the decomposition: 1 with an intercept, otherwise 0
	Clamped  int           // the requested rank if min(n, d) is less, otherwise 0
	Z        *dense.Matrix // X Ũ, n x k: the forced columns, then X U
	H        *dense.Matrix // p x k
	T        *dense.Matrix // k x k
	Offset   []float64     // the predictor at u = 0
	Prior    *gauss.Normal // of the weights
	root     *gauss.Root   // C
	rounded  int           // number of variances that the latest lift raised, see shrink
	of       *kernels.Problem
	rows     int           // of the problem, even if they are not kept
	basis    *dense.Matrix // Ũ
}

// Reduce decomposes the design of p, with the rank, oversampling, power iterations and seed of
// its options, and whitens the result by the prior.
//
// Cost: that of SVD, and O((n + p) k²); O(p² k) with a full prior.
// Errors: those of SVD and of the prior, more than 2^29 numbers to keep.
func Reduce(p *kernels.Problem) (*Reduced, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	r := &Reduced{of: p, rows: p.N}
	if p.P > 0 && p.Name(0) == kernels.Intercept {
		r.Forced = 1
	}
	o := optionsOf(p)
	o.Key = func(j int) uint64 { return nameKey(p.Name(j + r.Forced)) }
	least := min(p.N, p.P-r.Forced)
	want := kernels.Or(o.Rank, 50)
	if want > least {
		r.Clamped = want
	}
	if err := tooMany(p); err != nil {
		return nil, err
	}
	p.Fill()
	var err error
	if r.Factors, err = SVD(p.Tail(r.Forced), o); err != nil {
		return nil, err
	}
	m := len(r.S)
	k := r.Forced + m
	r.basis, r.Z = p.Matrix(p.P, k), p.Matrix(p.N, k)
	for i := range p.N {
		copy(r.Z.Row(i)[r.Forced:], r.XU.Row(i))
		if r.Forced == 1 {
			if col, val := p.Entries(i); len(col) > 0 && col[0] == 0 {
				r.Z.Row(i)[0] = val[0]
			}
		}
	}
	r.XU = r.Z.Slice(0, p.N, r.Forced, k)
	for j := range p.P {
		if j < r.Forced {
			r.basis.Row(j)[j] = 1
		} else {
			copy(r.basis.Row(j)[r.Forced:], r.U.Row(j-r.Forced))
		}
	}
	r.U = r.basis.Slice(r.Forced, p.P, r.Forced, k)
	return r, r.whiten(p.Normal)
}

func optionsOf(p *kernels.Problem) Options {
	o := &p.Options
	return Options{Rank: o.Rank, Oversample: o.Oversample, PowerIterations: o.PowerIterations, Seed: o.Seed, Stop: p.Stop}
}

// nameKey returns the FNV-1a hash of a name: the same on all machines and for all orders of columns.
func nameKey(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}

// tooMany returns an error for a decomposition of more than maxNumbers.
func tooMany(p *kernels.Problem) error {
	least := min(p.N, p.P)
	if least > 0 && p.Name(0) == kernels.Intercept {
		least = min(p.N, p.P-1)
	}
	want := kernels.Or(p.Options.Rank, 50)
	if l := min(float64(want)+float64(p.Options.Oversample.Or(10)), float64(least)); l*float64(p.N+p.P) > maxNumbers {
		return fmt.Errorf("rank = %d with oversample needs %.0f vectors of %d rows and %d features; allowed: %d numbers in all, lower rank", want, l, p.N, p.P, maxNumbers)
	}
	return nil
}

// K returns the number of coordinates.
func (r *Reduced) K() int { return r.basis.Cols }

// whiten sets everything that depends on the prior.
func (r *Reduced) whiten(prior *gauss.Normal) error {
	p := r.of
	if err := r.coordinates(prior); err != nil {
		return err
	}
	r.Offset = memory.Floats(p.N)
	p.Predictor(r.Offset, prior.Mean)
	for i, v := range r.Offset {
		if !special.Finite(v) {
			return fmt.Errorf("row %d: the linear predictor at the prior mean is %v; scale the features down", i+1, v)
		}
	}
	return nil
}

// coordinates sets what depends on the prior but not on the rows.
func (r *Reduced) coordinates(prior *gauss.Normal) error {
	p := r.of
	r.Prior = prior
	var err error
	if r.root, err = prior.Root(); err != nil {
		return fmt.Errorf("prior: %w", err)
	}
	k := r.K()
	r.H, r.T = p.Matrix(p.P, k), p.Matrix(k, k)
	r.root.MulTMat(r.H, r.basis)
	cu := r.H.Clone()
	if err := orthonormalise(r.H, 2); err != nil {
		return fmt.Errorf("prior: variances are too large: %w", err)
	}
	dense.MulTA(r.T, r.H, cu)
	return nil
}

// Problem returns the reduced problem for any batch engine: dense columns 0..k-1 with independent
// N(0, 1) priors, and the rows of the original. It has no names.
// Cost: 20 n k bytes.
func (r *Reduced) Problem() *kernels.Problem {
	p, k := r.of, r.K()
	x := p.Matrix(p.N, k)
	dense.MulTB(x, r.Z, r.T)
	q := &kernels.Problem{Model: p.Model, Columns: design.Whole(x), Y: p.Y, Weight: p.Weight, Offset: r.Offset, Trials: p.Trials, Time: p.Time,
		PriorMean: make([]float64, k), PriorVar: make([]float64, k), Begin: p.Begin, Born: make([]bool, k)}
	for j := range k {
		q.PriorVar[j], q.Born[j] = 1, true
	}
	q.Normal = gauss.NewDiagonal(q.PriorMean, q.PriorVar)
	return q
}

// Weights sets dst to the mean of the weights given u: μ0 + C H u.
func (r *Reduced) Weights(dst, u []float64) {
	b := make([]float64, len(dst))
	dense.Gemv(b, r.H, u)
	r.root.Mul(dst, b)
	for j, m := range r.Prior.Mean {
		dst[j] += m
	}
}

// Lift returns the Gaussian over the weights for a Gaussian u. With Cov u = V diag(1 - e) Vᵀ its
// covariance is Σ0 - F Fᵀ, F = C H V diag(e)^½, in that form (gauss.LowRank) if the prior is
// diagonal or low rank and k < p; otherwise it is full.
//
// Only a full covariance can represent a direction of u with more variance than the prior's 1:
// up to FullLimit weights the result is full then, beyond that the variance is held at the
// prior's, and held counts these directions.
//
// Cost: O(p k²), full O(p³). Errors: a full prior of more than FullLimit weights.
func (r *Reduced) Lift(u *gauss.Normal) (w *gauss.Normal, held int, err error) {
	k := r.K()
	cov := r.of.Matrix(k, k)
	u.Cov(cov)
	for i := range k {
		for j := range k {
			cov.Row(i)[j] = -cov.Row(i)[j]
		}
		cov.Row(i)[i]++
	}
	e, v, err := dense.Eigen(cov)
	if err != nil {
		return nil, 0, err
	}
	keep := make([]float64, k)
	for j := range e {
		keep[j] = 1 - e[j]
	}
	return r.lift(u.Mean, v, e, keep)
}

// lift is Lift from Cov u = V diag(keep) Vᵀ, gone = 1 - keep.
func (r *Reduced) lift(u []float64, v *dense.Matrix, gone, keep []float64) (w *gauss.Normal, held int, err error) {
	p, k := len(r.Prior.Mean), r.K()
	mean := memory.Floats(p)
	r.Weights(mean, u)
	wider := 0
	for _, e := range gone {
		if e < -1e-12 {
			wider++
		}
	}
	switch {
	case r.Prior.Form == gauss.Full && p > FullLimit:
		return nil, 0, fmt.Errorf("prior: a full covariance of %d weights; low-rank fits under a full prior take up to %d", p, FullLimit)
	case r.Prior.Form == gauss.Full, p <= FullLimit && (wider > 0 || k >= p || r.rankAfter() >= p):
		w, err = r.liftFull(mean, v, gone, keep)
		return w, 0, err
	}
	vs := v.Clone()
	for i := range k {
		for j, e := range gone {
			vs.Row(i)[j] *= math.Sqrt(max(e, 0))
		}
	}
	f := r.of.Matrix(p, k)
	dense.Mul(f, r.H, vs)
	r.root.MulMat(f, f)
	d := r.Prior.Diag()
	if r.Prior.Form == gauss.LowRank { // Σ0 = diag(D) - F0 F0ᵀ: the factors stand side by side
		f0 := r.Prior.F
		both := r.of.Matrix(p, f0.Cols+k)
		for j := range p {
			both.Stop.Row(j)
			copy(both.Row(j), f0.Row(j))
			copy(both.Row(j)[f0.Cols:], f.Row(j))
		}
		f = both
	}
	r.rounded = shrink(d, f)
	w, err = gauss.NewLowRank(mean, append([]float64(nil), d...), f)
	return w, wider, err
}

// rankAfter returns the rank of the low-rank form.
func (r *Reduced) rankAfter() int {
	if r.Prior.Form == gauss.LowRank {
		return r.Prior.F.Cols + r.K()
	}
	return r.K()
}

// shrink scales down the rows of F if rounding leaves a variance d - |F_j|² below what the
// difference resolves, and counts them; diag(d) - F Fᵀ thus stays positive semidefinite.
func shrink(d []float64, f *dense.Matrix) (rows int) {
	for j, v := range d {
		f.Stop.Row(j)
		row := f.Row(j)
		s := dense.Dot(row, row)
		if most := v * (1 - 1e-13); s > most {
			by := math.Sqrt(most / s)
			for i := range row {
				row[i] *= by
			}
			rows++
		}
	}
	return rows
}

// liftFull returns the lifted Gaussian as a Cholesky factor. The inner covariance of b,
// I - H V diag(gone) Vᵀ Hᵀ, has the eigenvalues keep and 1, however narrow the prior.
func (r *Reduced) liftFull(mean []float64, v *dense.Matrix, gone, keep []float64) (*gauss.Normal, error) {
	p, k := len(mean), r.K()
	hv, scaled := r.of.Matrix(p, k), r.of.Matrix(p, k)
	dense.Mul(hv, r.H, v)
	by, sign := gone, -1.0
	inner := r.of.Matrix(p, p)
	if k >= p { // H spans everything: I - H V Vᵀ Hᵀ = 0, and nothing cancels
		by, sign = keep, 1
	}
	for j := range p {
		hv.Stop.Row(j)
		for i, x := range hv.Row(j) {
			scaled.Row(j)[i] = x * by[i]
		}
	}
	dense.Gemm(inner, sign, hv, false, scaled, true, 0)
	if k < p {
		for j := range p {
			inner.Row(j)[j]++
		}
	}
	if r.root.H != nil { // C is not lower triangular
		r.root.MulMat(inner, inner)
		inner = inner.T()
		r.root.MulMat(inner, inner)
	}
	if err := dense.Cholesky(inner); err != nil {
		return nil, fmt.Errorf("the posterior covariance of %d weights: %w", p, err)
	}
	if r.root.H == nil { // lower times lower is lower
		r.root.MulMat(inner, inner)
	}
	return gauss.NewFull(mean, inner), nil
}

package answer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/stop"
)

// ErrForm is in the errors for a posterior with an insufficient form of covariance, and names a
// method with a sufficient one.
var ErrForm = errors.New("such as that of laplace")

// RobustTypes are the corrections of Robust for few rows, in the names of R's sandwich.
var RobustTypes = []string{"hc0", "hc1", "hc2", "hc3"}

// MaxRobust is the largest number of weights for a robust covariance, which is stored in full.
const MaxRobust = 5000

// Robust gives a fit the covariance that its weights have if the rows vary otherwise than the
// likelihood assumes, or in clusters: the sandwich
//
//	V = Σ (Σ⁻¹ - H + M) Σ,   H = Σ_i c_i x_i x_iᵀ,   M = Σ_i r_i² x_i x_iᵀ,
//
// with residual r and curvature c of the log likelihood at the mean weights, Σ the posterior's
// covariance. Σ⁻¹ - H is the prior's precision; it is left as it is, so that V is Σ if the model is
// true (M = H) and R's sandwich if the prior is flat. With clusters g, M = Σ_g u_g u_gᵀ, u_g = Σ_{i
// in g} r_i x_i.
//
// If Σ is wider than the rows alone leave it, as for a posterior that integrates over prior
// variances, Σ⁻¹ - H is negative in some directions. There the rows' own H⁻¹ replaces Σ for what
// they determine (bread), and the width beyond it stays:
//
//	V = Σ + B (M - H) B,   B⁻¹ = H + (Σ⁻¹ - H)₊,
//
// with ₊ the positive part in the coordinates where Σ is 1: B ≤ Σ, so that V is a covariance.
//
// Type hc0 uses M as it is, times G/(G-1) for G clusters; hc1 times n/(n-k), with clusters
// (n-1)/(n-k) G/(G-1), k the sum of the leverages: the number of weights under a flat prior, and
// otherwise how many of them the rows determine; hc2 and hc3 divide r² by 1-h and (1-h)², h the
// row's leverage, and are for rows without clusters. hc0 is the default, as in R's sandwich() and
// in vcovCL() for a GLM; with few rows hc3 is safer. H is the observed curvature, which is R's
// expected one for canonical links alone.
//
// A row of weight w is w rows: M has w r² x xᵀ, u_g w r x, r and h being those of one of them, and n
// is the sum of the weights. A weight below 1 is that fraction of a row; h is then that of the whole
// row.
//
// Cost: O(k²) per row for k features, O(p³) at the end; memory O(p²), with clusters O(p) for each.
//
// Sources: [zeileis2006]; [zeileis2020] for clusters.
type Robust struct {
	*predict.Scorer
	kind     string
	grouped  bool
	n        int64
	weight   float64   // of all rows
	unknown  int64     // rows with features about which the fit has no belief
	leverage float64   // of all rows
	h, m     []float64 // packed lower triangles
	clusters map[string][]float64
	at       []int
	val      []float64
}

// NewRobust returns a correction without rows; kind is one of RobustTypes, "" for hc0.
// Errors: those of predict.New; an unknown kind; a fit whose covariance is diagonal, or has more
// than MaxRobust weights.
func NewRobust(f *kernels.Fit, kind string, grouped bool) (*Robust, error) {
	if kind == "" {
		kind = RobustTypes[0]
	}
	if !slices.Contains(RobustTypes, kind) {
		return nil, argument.Word("type", kind, RobustTypes)
	}
	if grouped && kind > "hc1" {
		return nil, &argument.Error{Name: "type", Found: "'" + kind + "'", For: "clusters", Allowed: "hc0, hc1"}
	}
	if f == nil {
		return nil, kernels.ErrNoFit
	}
	p := len(f.Beliefs)
	switch {
	case f.Covariance.Form == gauss.Diagonal && p > 1:
		return nil, fmt.Errorf("the FIT has a diagonal covariance, which says nothing of how its weights go together; allowed: a fit with all of it, %w, or adf with covariance: 'full'", ErrForm)
	case p > MaxRobust:
		return nil, fmt.Errorf("the FIT has %d weights; allowed: up to %d, whose covariance is written out", p, MaxRobust)
	}
	s, err := predict.New(f)
	if err != nil {
		return nil, err
	}
	r := &Robust{Scorer: s, kind: kind, grouped: grouped, h: make([]float64, p*(p+1)/2)}
	if grouped {
		r.clusters = map[string][]float64{}
	} else {
		r.m = make([]float64, len(r.h))
	}
	return r, nil
}

// Add adds the rows of b, whose feature numbers are those of Features; with clusters, cluster[i]
// names that of row i.
// Errors: a response outside the support, a predictor that is not finite; the cause of ctx if it is
// cancelled.
func (r *Robust) Add(ctx context.Context, b *kernels.Batch, cluster []string) error {
	if err := b.Check(); err != nil {
		return err
	}
	if r.grouped && len(cluster) != b.Len() {
		return fmt.Errorf("%d clusters for %d rows; allowed: one each", len(cluster), b.Len())
	}
	for i := range b.Len() {
		if err := stop.Cause(ctx); err != nil {
			return err
		}
		m, v, err := r.Linear(b, i)
		if err != nil {
			return err
		}
		o := b.Obs(i)
		f, err := predict.InfluenceOf(r.Lik, o, m, v)
		if err != nil {
			return err
		}
		r.n++
		r.weight += o.Weight
		r.leverage += f.Leverage
		r.entries(b, i)
		spread(r.h, r.at, r.val, f.Curvature)
		if r.grouped {
			u := r.clusters[cluster[i]]
			if u == nil {
				u = make([]float64, len(r.Fit.Beliefs))
				r.clusters[cluster[i]] = u
			}
			for k, j := range r.at {
				u[j] += f.Residual * r.val[k]
			}
			continue
		}
		if o.Weight == 0 {
			continue
		}
		// These are w rows, each with one w-th of the residual and leverage.
		rest := math.Max(1-f.Leverage/math.Max(o.Weight, 1), 1e-8)
		square := f.Residual * f.Residual / o.Weight
		switch r.kind {
		case "hc2":
			square /= rest
		case "hc3":
			square /= rest * rest
		}
		spread(r.m, r.at, r.val, square)
	}
	return nil
}

// entries are the beliefs that row i uses, in order.
func (r *Robust) entries(b *kernels.Batch, i int) {
	fs, xs := r.Entries(r.Fit, b, i)
	r.at, r.val = r.at[:0], r.val[:0]
	seen := true
	for k, f := range fs {
		j := r.Belief(f)
		if j < 0 {
			seen = false
			continue
		}
		at, _ := slices.BinarySearch(r.at, j)
		r.at, r.val = slices.Insert(r.at, at, j), slices.Insert(r.val, at, xs[k])
	}
	if !seen {
		r.unknown++
	}
}

// spread adds by x xᵀ to a packed triangle; at is ascending.
func spread(to []float64, at []int, x []float64, by float64) {
	for k, i := range at {
		row := to[i*(i+1)/2:]
		for l, j := range at[:k+1] {
			row[j] += by * x[k] * x[l]
		}
	}
}

// Merge adds the rows of o, which must have the same fit and type.
func (r *Robust) Merge(o *Robust) {
	r.n, r.weight, r.unknown, r.leverage = r.n+o.n, r.weight+o.weight, r.unknown+o.unknown, r.leverage+o.leverage
	dense.Axpy(1, o.h, r.h)
	dense.Axpy(1, o.m, r.m)
	for name, u := range o.clusters {
		if own := r.clusters[name]; own != nil {
			dense.Axpy(1, u, own)
		} else {
			r.clusters[name] = slices.Clone(u)
		}
	}
}

// Clone returns an independent copy.
func (r *Robust) Clone() *Robust {
	c := *r
	c.Scorer, c.h, c.m = r.Scorer.Clone(), slices.Clone(r.h), slices.Clone(r.m)
	c.at, c.val = nil, nil
	if r.grouped {
		c.clusters = make(map[string][]float64, len(r.clusters))
		for name, u := range r.clusters {
			c.clusters[name] = slices.Clone(u)
		}
	}
	return &c
}

// Size is the approximate memory held, in bytes.
func (r *Robust) Size() int64 {
	return 512 + FitSize(r.Fit) + 8*int64(len(r.h)+len(r.m)) + int64(len(r.clusters))*(64+8*int64(len(r.Fit.Beliefs)))
}

// Robustly returns the fit with the robust covariance, which is full. Its status says if there are
// not as many rows as the fit learnt from, or too few clusters, and no longer says that responses
// vary more than their distribution allows, which the covariance now includes.
// Errors: a single cluster; rows that do not belong to the posterior's covariance; the cause of ctx
// if it is cancelled.
func (r *Robust) Robustly(ctx context.Context) (f *kernels.Fit, err error) {
	halt := stop.Watch(ctx, 0)
	defer halt.End(&err)
	out := *r.Fit
	out.Beliefs = slices.Clone(r.Fit.Beliefs)
	post, at, err := r.Fit.Joint(halt)
	if err != nil {
		return nil, err
	}
	p := len(at)
	if r.grouped && len(r.clusters) < 2 {
		return nil, fmt.Errorf("cluster: found %d of them; allowed: two and more", len(r.clusters))
	}
	said := slices.DeleteFunc(strings.Split(out.Status, "; "), func(s string) bool { return lik.IsOverdispersionNote(s) || lik.IsFixedNote(s) })
	out.Status = kernels.Or(strings.Join(said, "; "), "ok")
	if r.n != out.N {
		out.AddStatus(fmt.Sprintf("the robust covariance is of %d rows, the fit of %d", r.n, out.N))
	}
	if r.unknown > 0 {
		out.AddStatus(fmt.Sprintf("%s features that the fit has no belief about: they take no part in the robust covariance", rowsHave(r.unknown)))
	}
	if r.grouped && float64(len(r.clusters)) <= r.leverage {
		out.AddStatus(fmt.Sprintf("%d clusters are few where the rows determine %.3g weights: the robust covariance has no more directions than clusters", len(r.clusters), r.leverage))
	}
	if p == 0 {
		return &out, nil
	}
	d := r.meat(halt)
	dense.Axpy(-1, r.h, d)
	sigma := dense.NewUnder(halt, p, p)
	post.Cov(sigma)
	bread, err := r.bread(sigma, at)
	if err != nil {
		return nil, err
	}
	v := around(bread, unpacked(halt, d, at), false)
	for a := range p {
		dense.Axpy(1, sigma.Row(a), v.Row(a))
	}
	return &out, r.factor(&out, at, v)
}

// unpacked is the part of a packed triangle with the indices at, as a matrix.
func unpacked(halt *stop.Stop, of []float64, at []int) *dense.Matrix {
	m := dense.NewUnder(halt, len(at), len(at))
	for a, i := range at {
		halt.Row(a)
		for b, j := range at[:a+1] {
			m.Set(a, b, of[i*(i+1)/2+j])
			m.Set(b, a, of[i*(i+1)/2+j])
		}
	}
	return m
}

// around is AᵀMA if t is set, else AMAᵀ.
func around(a, m *dense.Matrix, t bool) *dense.Matrix {
	half, v := dense.NewUnder(a.Stop, m.Rows, m.Rows), dense.NewUnder(a.Stop, m.Rows, m.Rows)
	dense.Gemm(half, 1, a, t, m, false, 0)
	dense.Gemm(v, 1, half, false, a, !t, 0)
	return v
}

// bread is B: sigma itself unless it is wider than the rows leave it, by more than rounding. With Σ
// = LLᵀ and the eigenvalues s of LᵀHL, B is L min(1, 1/s) Lᵀ in their coordinates.
func (r *Robust) bread(sigma *dense.Matrix, at []int) (*dense.Matrix, error) {
	l := dense.NewUnder(sigma.Stop, len(at), len(at))
	dense.Copy(l, sigma)
	if dense.Cholesky(l) != nil {
		return sigma, nil
	}
	for a := range at {
		clear(l.Row(a)[a+1:])
	}
	s := around(l, unpacked(sigma.Stop, r.h, at), true)
	rest := dense.NewUnder(sigma.Stop, len(at), len(at))
	for a := range at {
		dense.Axpy(-1, s.Row(a)[:a+1], rest.Row(a)[:a+1])
		rest.Row(a)[a] += 1 + 1e-6
	}
	if dense.Cholesky(rest) == nil {
		return sigma, nil
	}
	e, q, err := dense.Eigen(s)
	if err != nil {
		return nil, err
	}
	for a := range at {
		for k, by := range e {
			rest.Set(a, k, q.At(a, k)/math.Sqrt(max(1, by)))
		}
	}
	root := dense.NewUnder(sigma.Stop, len(at), len(at))
	dense.Gemm(root, 1, l, false, rest, false, 0)
	b := dense.NewUnder(sigma.Stop, len(at), len(at))
	dense.Gemm(b, 1, root, false, root, true, 0)
	return b, nil
}

// meat is M for the type.
func (r *Robust) meat(halt *stop.Stop) []float64 {
	n, m, by := r.weight, slices.Clone(r.m), 1.0
	if r.kind == "hc1" {
		by = n / math.Max(n-r.leverage, 1)
	}
	if r.grouped {
		g := float64(len(r.clusters))
		if by = g / (g - 1); r.kind == "hc1" {
			by *= (n - 1) / math.Max(n-r.leverage, 1)
		}
		m = make([]float64, len(r.h))
		all := make([]int, len(r.Fit.Beliefs))
		for k := range all {
			all[k] = k
		}
		for _, name := range slices.Sorted(maps.Keys(r.clusters)) { // sums in a fixed order
			halt.Check()
			spread(m, all, r.clusters[name], 1)
		}
	}
	for k := range m {
		m[k] *= by
	}
	return m
}

// factor sets the covariance of f, that of its beliefs at, to v.
func (r *Robust) factor(f *kernels.Fit, at []int, v *dense.Matrix) error {
	var l *dense.Matrix
	err := error(nil)
	for _, more := range []float64{0, 1e-13, 1e-10} { // for rounding, under a nearly flat prior
		l = dense.NewUnder(v.Stop, v.Rows, v.Cols)
		for a := range v.Rows {
			v.Stop.Row(a)
			copy(l.Row(a), v.Row(a))
			for b := range a {
				l.Row(a)[b] = 0.5 * (v.At(a, b) + v.At(b, a))
			}
			l.Row(a)[a] *= 1 + more
		}
		if err = dense.Cholesky(l); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("the FIT's covariance is not that of these rows, of which it would leave less than nothing (%w); allowed: the rows that it has learnt from, and a fit whose covariance is not approximate, %w", err, ErrForm)
	}
	p := len(f.Beliefs)
	f.Covariance = kernels.Covariance{Form: gauss.Full, Values: make([]float64, p*(p+1)/2)}
	for a, i := range at {
		v.Stop.Row(a)
		for b, j := range at[:a+1] {
			f.Covariance.Values[i*(i+1)/2+j] = l.At(a, b)
		}
		f.Beliefs[i].Variance = v.At(a, a)
	}
	return nil
}

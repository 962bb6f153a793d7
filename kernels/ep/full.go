package ep

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/memory"
)

const (
	// maxDim bounds min(n, p) of covariance 'full': three matrices of 8 min(n, p)² bytes.
	maxDim = 10000
	// maxKept bounds how many numbers of the posterior's covariance are kept: 2 GiB.
	maxKept = 1 << 28
	// fullWeights is the number of weights up to which a posterior from fewer rows than weights
	// is kept as a triangle if that is the smaller form.
	fullWeights = 4000
	// blockRows is the largest number of rows per block: a quarter of the number of weights is
	// fastest, but at least leastRows.
	blockRows, leastRows = 96, 16
)

// full is EP with a joint Gaussian over variables u, of which every row sees one linear
// combination. u is the weights if p <= n, otherwise the predictors of the n rows, whose prior
// covariance is K = X Σ0 Xᵀ: each row then sees one variable, and the weights are recovered at
// the end.
//
// Rows are processed in blocks. G = Σ X_Bᵀ and V = X_B G are matrix products; within the block
// the sites are refreshed one after the other using only V; their effect on Σ is again a
// product. The result is the same as with one rank-one update per row, at the speed of matrix
// products. After each sweep the belief is rebuilt from the sites.
//
// If rows are many and sparse all sites are refreshed at once instead (refreshAll): G and the
// changes of Σ involve all weights, however few a row has.
type full struct {
	rows
	dual bool
	dim  int

	x     *dense.Matrix // rows in dense form; nil if sparse or dual
	prior *dense.Matrix // precision of the prior, nil if diagonal; dual: K
	det0  float64       // log |Σ0|

	sigma *dense.Matrix
	mean  []float64
	prev  []float64 // mean after the previous sweep
	root  *dense.Matrix
	gap   float64 // largest relative change of a variance when the belief was last rebuilt

	g, h, hc, v, a      *dense.Matrix // of one block
	z, step, pull, half []float64

	past *extrapolation

	together bool    // all sites are refreshed at once
	sweeps   int     // how often
	size     float64 // the change of the last sweep
}

// togetherFrom is the least n p² for which sites are refreshed all at once.
const togetherFrom = 1e8

// refreshesTogether reports whether sites are refreshed all at once: if each row is one of many, so
// that this hardly takes more sweeps, and a sweep costs far less. Dense rows take the same total
// time, twice the sweeps at half the time each, and likelihoods that are not log-concave need more
// sweeps. A run of one sweep is the filter, row by row.
func (f *full) refreshesTogether() bool {
	o, n, w := &f.p.Options, float64(f.p.N), float64(f.p.P)
	return !f.dual && f.x == nil && f.p.Lik.Traits().Concave && n >= 8*w && n*w*w >= togetherFrom && kernels.Or(o.Damping, 1) == 1 && o.MaxIter != 1
}

func newFull(p *kernels.Problem) (*full, error) {
	f := &full{past: &extrapolation{}, rows: newRows(p), dual: p.P > p.N, dim: min(p.N, p.P)}
	if f.dim > maxDim {
		return nil, fmt.Errorf("covariance = 'full' with %d rows and %d weights; allowed: up to %d of one of them; use 'diagonal' or 'lowrank'", p.N, p.P, maxDim)
	}
	if f.dual && p.P > fullWeights && p.Normal.Form != gauss.Full && p.N*p.P > maxKept {
		return nil, fmt.Errorf("covariance = 'full' with %d rows and %d weights keeps %d numbers; allowed: up to %d; use 'diagonal' or 'lowrank'", p.N, p.P, p.N*p.P, maxKept)
	}
	b := max(1, min(max(f.dim/4, leastRows), blockRows, f.dim, p.N))
	f.g, f.h, f.hc = p.Matrix(b, f.dim), p.Matrix(b, f.dim), p.Matrix(b, f.dim)
	f.v, f.a = p.Matrix(b, b), p.Matrix(b, b)
	f.z, f.step, f.pull, f.half = make([]float64, b), make([]float64, b), make([]float64, b), memory.Floats(p.N)
	f.sigma, f.mean, f.prev = p.Matrix(f.dim, f.dim), make([]float64, f.dim), make([]float64, f.dim)
	f.root = p.Matrix(f.dim, f.dim)
	return f, f.reset(p)
}

func (f *full) reset(p *kernels.Problem) error {
	same := f.p != nil && f.p.Normal == p.Normal
	f.use(p)
	f.past.forget()
	var err error
	if !f.dual {
		f.x = p.Fill()
	}
	f.together, f.sweeps = f.refreshesTogether(), 0
	if same {
		_, err = f.rebuild()
		return err
	}
	if f.dual {
		f.prior = predictors(p)
	} else {
		if f.det0, err = p.Normal.LogDet(); err != nil {
			return fmt.Errorf("prior: %w", err)
		}
		if p.Normal.Form != gauss.Diagonal {
			f.prior = p.Matrix(p.P, p.P)
			if err := p.Normal.Prec(f.prior); err != nil {
				return fmt.Errorf("prior: %w", err)
			}
		}
	}
	_, err = f.rebuild()
	return err
}

// predictors returns K = X Σ0 Xᵀ.
func predictors(p *kernels.Problem) *dense.Matrix {
	p.Fill()
	k := p.Matrix(p.N, p.N)
	g := p.Normal
	d := g.Var
	switch g.Form {
	case gauss.Full:
		dense.GramT(k, times(p, g.L), nil)
		return k
	case gauss.LowRank:
		d = g.D
	}
	p.Kernel(k, d)
	if g.Form == gauss.LowRank {
		t := times(p, g.F)
		dense.Gemm(k, -1, t, false, t, true, 1)
	}
	return k
}

// times returns X M.
func times(p *kernels.Problem, m *dense.Matrix) *dense.Matrix {
	t := p.Matrix(p.N, m.Cols)
	p.MulMat(t, m)
	return t
}

func (f *full) sweep(damp float64) (c change, err error) {
	f.past.begin(f.site)
	if f.together {
		if c, err = f.refreshAll(damp); err == nil {
			c, err = f.finish(c, damp)
		}
		// If changes do not shrink after two sweeps, refresh row by row.
		f.sweeps++
		grows := f.sweeps > 2 && !f.past.taken && c.size >= f.size && c.size > 1e-6
		if f.size = c.size; err == nil && c.skipped+c.clamped == 0 && !grows {
			return c, nil
		}
		f.together, f.ran, c = false, false, change{}
		clear(f.site)
		f.past.forget()
		if _, err := f.rebuild(); err != nil {
			return c, err
		}
		f.past.begin(f.site)
	}
	for lo := 0; lo < f.p.N; lo += f.g.Rows {
		if err := f.block(lo, min(lo+f.g.Rows, f.p.N), damp, &c); err != nil {
			return c, err
		}
	}
	return f.finish(c, damp)
}

// finish ends a sweep with result c: it rebuilds the belief from the sites.
func (f *full) finish(c change, damp float64) (change, error) {
	f.ran = true
	before := make([]float64, f.dim)
	for j := range before {
		before[j] = f.sigma.Row(j)[j]
	}
	logZ, err := f.rebuild()
	if err != nil {
		return c, err
	}
	c.logZ += logZ
	f.gap = 0
	for j, m := range f.mean {
		v := f.sigma.Row(j)[j]
		if v > 0 {
			c.size = max(c.size, math.Abs(m-f.prev[j])/(damp*math.Sqrt(v)))
			f.gap = max(f.gap, math.Abs(before[j]-v)/v)
		}
		f.prev[j] = m
	}
	return c, nil
}

// chunkRows is how many rows a processor takes at a time.
const chunkRows = 512

// refreshAll refreshes the sites of all rows under the present belief.
func (f *full) refreshAll(damp float64) (c change, err error) {
	n := f.p.N
	chunks := (n + chunkRows - 1) / chunkRows
	did, errs := make([]change, chunks), make([]error, chunks)
	dense.Each(chunks, func(k int) {
		lo := k * chunkRows
		did[k], errs[k] = f.refreshSome(lo, min(lo+chunkRows, n), damp)
	})
	for k, d := range did {
		if errs[k] != nil {
			return c, errs[k]
		}
		c.size, c.move, c.logZ = max(c.size, d.size), max(c.move, d.move), c.logZ+d.logZ
		c.skipped, c.clamped = c.skipped+d.skipped, c.clamped+d.clamped
	}
	return c, nil
}

// refreshSome refreshes the sites of rows [lo, hi).
func (f *full) refreshSome(lo, hi int, damp float64) (c change, err error) {
	for i := lo; i < hi; i++ {
		f.p.Stop.Check()
		m, s2 := 0.0, 0.0
		cols, x := f.p.Entries(i)
		for k, j := range cols {
			row, sum := f.sigma.Row(int(j)), 0.0
			for l, h := range cols[:k] {
				sum += row[h] * x[l]
			}
			m += x[k] * f.mean[j]
			s2 += x[k] * (2*sum + x[k]*row[j])
		}
		s2 = math.Max(s2, 0)
		old := f.site[i]
		den := 1 - s2*old.Tau
		if !(den > minCavity) {
			c.skipped++
			continue
		}
		v := s2 / den
		if _, err := f.refresh(i, m+v*(old.Tau*m-old.Nu), v, damp, &c); err != nil {
			return c, err
		}
	}
	return c, nil
}

// block refreshes the sites of rows [lo, hi).
func (f *full) block(lo, hi int, damp float64, c *change) error {
	n := hi - lo
	g, v, a := f.g.Slice(0, n, 0, f.dim), f.v.Slice(0, n, 0, n), f.a.Slice(0, n, 0, n)
	f.cross(lo, g, v)
	for r := range n {
		ar := a.Row(r)
		clear(ar)
		ar[r] = 1
	}
	// Row r of a holds the combination of the block's rows that is the present Σ x_r: after the
	// preceding steps, Σ x_r = Gᵀ a_r.
	for r := range n {
		f.p.Stop.Check()
		i := lo + r
		vr := v.Row(r)
		m, s2 := f.z[r], math.Max(vr[r], 0)
		f.step[r], f.pull[r] = 0, 0
		old := f.site[i]
		den := 1 - s2*old.Tau
		if !(den > minCavity) {
			c.skipped++
			continue
		}
		cv := s2 / den
		s, err := f.refresh(i, m+cv*(old.Tau*m-old.Nu), cv, damp, c)
		if err != nil {
			return err
		}
		dt := s.Tau - old.Tau
		grow := 1 + s2*dt
		if !(grow > 0) { // only by rounding
			f.site[i] = old
			c.clamped++
			continue
		}
		step, pull := dt/grow, (s.Nu-old.Nu-dt*m)/grow
		f.step[r], f.pull[r] = step, pull
		for k := r + 1; k < n; k++ {
			vk := v.Row(k)
			w := vk[r]
			f.z[k] += w * pull
			w *= step
			dense.Axpy(-w, vr[r+1:], vk[r+1:])
			dense.Axpy(-w, a.Row(r)[:r+1], a.Row(k)[:r+1])
		}
	}
	h, hc := f.h.Slice(0, n, 0, f.dim), f.hc.Slice(0, n, 0, f.dim)
	dense.Mul(h, a, g)
	for r := range n {
		dense.Axpy(f.pull[r], h.Row(r), f.mean)
		dst, src := hc.Row(r), h.Row(r)
		for j, x := range src {
			dst[j] = f.step[r] * x
		}
	}
	dense.Gemm(f.sigma, -1, h, true, hc, false, 1)
	return nil
}

// cross sets g = X_B Σ, v = X_B Σ X_Bᵀ and z = X_B mean for the rows from lo.
func (f *full) cross(lo int, g, v *dense.Matrix) {
	n := g.Rows
	if f.dual {
		for r := range n {
			copy(g.Row(r), f.sigma.Row(lo+r))
			copy(v.Row(r), f.sigma.Row(lo + r)[lo:lo+n])
			f.z[r] = f.mean[lo+r]
		}
		return
	}
	if f.x != nil {
		x := f.x.Slice(lo, lo+n, 0, f.dim)
		dense.Mul(g, x, f.sigma)
		dense.MulTB(v, x, g)
		dense.Gemv(f.z[:n], x, f.mean)
		return
	}
	for r := range n {
		f.p.Stop.Check()
		gr := g.Row(r)
		clear(gr)
		f.z[r] = 0
		cols, xs := f.p.Entries(lo + r)
		for k, j := range cols {
			dense.Axpy(xs[k], f.sigma.Row(int(j)), gr)
			f.z[r] += xs[k] * f.mean[j]
		}
	}
	for r := range n {
		f.p.Stop.Check()
		vr := v.Row(r)
		cols, xs := f.p.Entries(lo + r)
		for s := range n {
			gs, sum := g.Row(s), 0.0
			for k, j := range cols {
				sum += xs[k] * gs[j]
			}
			vr[s] = sum
		}
	}
}

// rebuild sets the belief from prior and sites and returns log ∫ prior × sites. If rounding makes
// it improper, sites of negative precision are dropped.
func (f *full) rebuild() (float64, error) {
	form := f.primal
	if f.dual {
		form = f.dualForm
	}
	logZ, err := form()
	if err == nil {
		return logZ, nil
	}
	dropped := false
	for i := range f.site {
		if f.site[i].Tau < 0 {
			f.site[i], dropped = Site{}, true
		}
	}
	if !dropped {
		return 0, err
	}
	return form()
}

// precision returns Σ0⁻¹ + Xᵀ T X.
func (f *full) precision(prior *dense.Matrix) *dense.Matrix {
	p := f.p
	l := p.Matrix(p.P, p.P)
	for i, s := range f.site {
		f.half[i] = s.Tau
	}
	p.Gram(l, f.half)
	if prior == nil {
		for j, v := range p.PriorVar {
			l.Row(j)[j] += 1 / v
		}
		return l
	}
	for j := range p.P {
		p.Stop.Row(j)
		dense.Axpy(1, prior.Row(j), l.Row(j))
	}
	return l
}

// gradient returns Xᵀν.
func (f *full) gradient() []float64 {
	for i, s := range f.site {
		f.half[i] = s.Nu
	}
	eta := memory.Floats(f.p.P)
	f.p.MulT(eta, f.half)
	return eta
}

func (f *full) primal() (float64, error) {
	l := f.precision(f.prior)
	if err := dense.Cholesky(l); err != nil {
		return 0, fmt.Errorf("ep: the posterior's precision: %w; scale the features", err)
	}
	eta := f.gradient()
	copy(f.mean, eta)
	dense.SolveLowerVec(l, f.mean)
	dense.SolveLowerTVec(l, f.mean)
	dense.InverseFromCholesky(f.sigma, l)
	return 0.5*dense.Dot(eta, f.mean) - 0.5*(dense.LogDet(l)+f.det0), nil
}

// dualForm computes the belief over the predictors: with T split into T⁺ - T⁻,
//
//	B = I + √T⁺ K √T⁺,  V⁺ = K - K √T⁺ B⁻¹ √T⁺ K
//
// and likewise for T⁻ from V⁺. If all sites are more informative than the prior, V⁺ is computed as
// T⁻¹ - √T⁻¹ B⁻¹ √T⁻¹ instead, which cancels less.
//
// Source: Rasmussen and Williams (2006), section 3.6.3.
func (f *full) dualForm() (float64, error) {
	n, k := f.dim, f.prior
	b := f.root
	sharp := n > 0
	var negative []int
	for i, s := range f.site {
		f.half[i] = math.Sqrt(math.Max(s.Tau, 0))
		if s.Tau < 0 {
			negative = append(negative, i)
		}
		sharp = sharp && s.Tau*k.Row(i)[i] > 1
	}
	for i := range n {
		b.Stop.Check()
		dst, src, t := b.Row(i), k.Row(i), f.half[i]
		for j := range dst {
			dst[j] = t * src[j] * f.half[j]
		}
		dst[i]++
	}
	if err := dense.Cholesky(b); err != nil {
		return 0, fmt.Errorf("ep: the posterior of the predictors: %w; scale the features", err)
	}
	logZ := -0.5 * dense.LogDet(b)
	if sharp {
		dense.InverseFromCholesky(f.sigma, b)
		for i := range n {
			b.Stop.Check()
			row := f.sigma.Row(i)
			for j := range row {
				row[j] /= -f.half[i] * f.half[j]
			}
			row[i] += 1 / (f.half[i] * f.half[i])
		}
	} else {
		c := k.Clone()
		for i := range n {
			b.Stop.Check()
			for j := range c.Row(i) {
				c.Row(i)[j] *= f.half[i]
			}
		}
		dense.SolveLower(b, c)
		dense.Gram(f.sigma, c, nil)
		for i := range n {
			b.Stop.Check()
			row, ki := f.sigma.Row(i), k.Row(i)
			for j := range row {
				row[j] = ki[j] - row[j]
			}
		}
	}
	if len(negative) > 0 {
		more, err := widen(f.sigma, negative, f.site)
		if err != nil {
			return 0, err
		}
		logZ += more
	}
	nu := f.half
	for i, s := range f.site {
		nu[i] = s.Nu
	}
	dense.Gemv(f.mean, f.sigma, nu)
	return logZ + 0.5*dense.Dot(nu, f.mean), nil
}

// widen multiplies N(·, v) by sites of negative precision at the given rows and returns the
// log of the product's normaliser.
func widen(v *dense.Matrix, at []int, site []Site) (float64, error) {
	k := len(at)
	s, w := dense.NewUnder(v.Stop, k, k), dense.NewUnder(v.Stop, k, v.Cols)
	for a, i := range at {
		v.Stop.Row(a)
		t := math.Sqrt(-site[i].Tau)
		for b, j := range at {
			s.Row(a)[b] = -t * v.Row(i)[j] * math.Sqrt(-site[j].Tau)
		}
		s.Row(a)[a]++
		for j, x := range v.Row(i) {
			w.Row(a)[j] = t * x
		}
	}
	if err := dense.Cholesky(s); err != nil {
		return 0, fmt.Errorf("ep: the posterior of the predictors: %w", err)
	}
	dense.SolveLower(s, w)
	dense.Gemm(v, 1, w, true, w, false, 1)
	return -0.5 * dense.LogDet(s), nil
}

// posterior is Full if the weights are the variables, or if that is the smaller or only exact
// form; otherwise LowRank: the prior's diagonal less F Fᵀ with one column per row of data.
func (f *full) posterior() (*gauss.Normal, error) {
	p := f.p
	if !f.dual {
		return f.triangle()
	}
	wider := false
	for _, s := range f.site {
		wider = wider || s.Tau < 0
	}
	small := p.P <= fullWeights
	if p.Normal.Form == gauss.Full || small && (wider || 2*(p.N+1) > p.P) {
		return f.triangle()
	}
	g, err := f.lowRank()
	if err != nil && small {
		return f.triangle()
	}
	return g, err
}

// triangle returns the posterior from its precision Λ. With the weights in reverse order
// Λ = J G Gᵀ J, so J G⁻ᵀ J is the lower factor of Σ.
func (f *full) triangle() (*gauss.Normal, error) {
	p := f.p
	prior := f.prior
	if f.dual {
		prior = nil
		if p.Normal.Form != gauss.Diagonal {
			prior = p.Matrix(p.P, p.P)
			if err := p.Normal.Prec(prior); err != nil {
				return nil, fmt.Errorf("prior: %w", err)
			}
		}
	}
	lam := f.precision(prior)
	turned := p.Matrix(p.P, p.P)
	mode.Reverse(turned, lam)
	if err := dense.Cholesky(turned); err != nil {
		return nil, fmt.Errorf("ep: the posterior's precision: %w; scale the features", err)
	}
	l := mode.PosteriorRoot(gauss.Scaled(nil), turned)
	// mean = L Lᵀ Xᵀν
	u, mean := memory.Floats(p.P), memory.Floats(p.P)
	dense.GemvT(u, l, f.gradient())
	dense.Gemv(mean, l, u)
	for j := range mean {
		mean[j] += p.PriorMean[j]
	}
	return gauss.NewFull(mean, l), nil
}

// lowRank returns Σ0 - Σ0Xᵀ √T B⁻¹ √T XΣ0 and the mean Σ0Xᵀ(ν - T m), with m that of the
// predictors. Sites of negative precision are left out of the covariance.
func (f *full) lowRank() (*gauss.Normal, error) {
	p, g := f.p, f.p.Normal
	n := p.N
	d, have := g.Var, 0
	if g.Form == gauss.LowRank {
		d, have = g.D, g.F.Cols
	}
	r := p.Matrix(n, p.P)
	for i := range n {
		p.Stop.Check()
		t := math.Sqrt(math.Max(f.site[i].Tau, 0))
		cols, xs := p.Entries(i)
		for k, j := range cols {
			r.Row(i)[j] = t * xs[k] * d[j]
		}
		f.half[i] = t
	}
	if have > 0 {
		xf := times(p, g.F)
		for i := range n {
			p.Stop.Row(i)
			for j := range xf.Row(i) {
				xf.Row(i)[j] *= f.half[i]
			}
		}
		dense.Gemm(r, -1, xf, false, g.F, true, 1)
	}
	dense.SolveLower(f.root, r)
	out := p.Matrix(p.P, n+have)
	rt := r.T()
	for j := range p.P {
		p.Stop.Check()
		copy(out.Row(j), rt.Row(j))
		if have > 0 {
			copy(out.Row(j)[n:], g.F.Row(j))
		}
	}
	for i, s := range f.site {
		f.half[i] = s.Nu - s.Tau*f.mean[i]
	}
	u, mean := memory.Floats(p.P), memory.Floats(p.P)
	p.MulT(u, f.half)
	g.MulCov(mean, u)
	for j := range mean {
		mean[j] += p.PriorMean[j]
	}
	return gauss.NewLowRank(mean, append([]float64(nil), d...), out)
}

func (f *full) initial(dev, variance []float64) error {
	g, err := f.posterior()
	if err != nil {
		return err
	}
	for j, m := range g.Mean {
		dev[j], variance[j] = m-f.p.PriorMean[j], g.Var[j]
	}
	return nil
}

func (f *full) touches() (mean, variance []float64, err error) { return nil, nil, nil }
